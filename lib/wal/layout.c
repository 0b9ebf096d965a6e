/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Superblock, block and record as bytes; FORMAT.md has the layout. Bytes read here are not trusted.
 * The checksum of the record before makes the chain.
 */
#include "wal/wal_priv.h"

static const unsigned char wal_magic[8] = {'s', 'n', 'i', 'c', 'w', 'a', 'l', 0};

int wal_is_zero(const unsigned char *bytes, size_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* ---- Sizes ---- */

uint32_t wal_piece_blocks(const struct snic_wal *w, uint32_t most)
{
    uint64_t bytes = snic_min_u64(w->chunk_bytes, SNIC_WAL__PIECE);
    return (uint32_t)snic_min_u64(most, bytes / w->geo.block);
}

/**
 * Blocks that copies of a segment with so many bytes of records may take, at most: a batch of
 * copies is closed when a record does not fit and wastes less than a block, and two batches in a
 * row hold more than one has room for; a segment's end is wasted when a record does not fit there;
 * the last batch has a rest, and a block announces.
 */
static uint32_t wal_copy_blocks(const struct wal_geo *g, uint64_t bytes)
{
    uint32_t record = (wal_record_size(g->record_max) + g->payload - 1) / g->payload;
    uint32_t blocks = (uint32_t)((bytes + g->payload - 1) / g->payload);
    uint32_t closed = 2 * blocks / g->batch_blocks + 1;
    if (record < g->batch_blocks && blocks / (g->batch_blocks - record) < closed)
        closed = blocks / (g->batch_blocks - record);
    return blocks + closed + record + 4;
}

uint32_t wal_growth(const struct wal_geo *g, uint64_t bytes)
{
    uint32_t blocks = wal_copy_blocks(g, bytes);
    return blocks > g->segment_blocks ? blocks - g->segment_blocks : 0;
}

void wal_geo_derive(struct wal_geo *g)
{
    unsigned char id[16];
    snic_put_le64(id, g->uuid[0]);
    snic_put_le64(id + 8, g->uuid[1]);
    g->seed = snic_crc32c(0, id, sizeof(id));
    g->unit = g->block > 4096 ? g->block : 4096;
    g->segment_blocks = g->segment / g->block;
    g->payload = g->block - SNIC_WAL__BLOCK_HEAD;
    g->copy_blocks = wal_copy_blocks(g, (uint64_t)g->segment_blocks * g->payload);
}

int wal_geo_fits(const struct wal_geo *g, const struct snic_io_geometry *io)
{
    if (!snic_is_pow2(g->block) || g->block < 512 || g->block > 65536 ||
        !snic_is_pow2(g->segment) || g->segment < 16384 || g->segment > 1u << 30 ||
        g->segment / g->block < 16 || g->record_max == 0 ||
        g->record_max > g->segment / SNIC_WAL__RECORDS_MIN ||
        g->batch_blocks < SNIC_WAL__BATCH_BLOCKS_MIN || g->batch_blocks > g->segment / g->block)
        return SNIC_EINVAL;
    uint64_t batch = (uint64_t)g->batch_blocks * (g->block - SNIC_WAL__BLOCK_HEAD);
    if (batch < wal_record_size(g->record_max))
        return SNIC_EINVAL;
    if (g->block < io->offset_align || g->block < io->length_align || g->block < io->memory_align ||
        (uint64_t)g->batch_blocks * g->block > io->transfer_max)
        return SNIC_EINVAL;
    uint64_t unit = g->block > 4096 ? g->block : 4096;
    if (g->segments < SNIC_WAL__SEGMENTS_MIN || io->size < SNIC_WAL__UNITS * unit ||
        (io->size - SNIC_WAL__UNITS * unit) / g->segment < g->segments)
        return SNIC_ENOSPC;
    return 0;
}

uint64_t wal_unit_offset(const struct wal_geo *g, uint32_t unit)
{
    return (uint64_t)g->unit * unit;
}

uint64_t wal_offset(const struct wal_geo *g, uint64_t gen, uint32_t block)
{
    return wal_unit_offset(g, SNIC_WAL__UNITS) + gen % g->segments * g->segment +
           (uint64_t)block * g->block;
}

/* ---- Superblock ---- */

void wal_super_encode(const struct wal_geo *g, unsigned char *b)
{
    memset(b, 0, SNIC_WAL__SUPER_BYTES);
    memcpy(b, wal_magic, sizeof(wal_magic));
    snic_put_le32(b + 12, SNIC_WAL__VERSION);
    snic_put_le32(b + 16, g->block);
    snic_put_le32(b + 20, g->segment);
    snic_put_le32(b + 24, g->segments);
    snic_put_le32(b + 28, g->record_max);
    snic_put_le32(b + 32, g->batch_blocks);
    snic_put_le64(b + 40, g->uuid[0]);
    snic_put_le64(b + 48, g->uuid[1]);
    snic_put_le32(b + 8, snic_crc32c(0, b + 12, SNIC_WAL__SUPER_BYTES - 12));
}

int wal_super_decode(struct wal_geo *g, const unsigned char *b)
{
    if (memcmp(b, wal_magic, sizeof(wal_magic)) != 0)
        return SNIC_ENOENT;
    if (snic_get_le32(b + 8) != snic_crc32c(0, b + 12, SNIC_WAL__SUPER_BYTES - 12))
        return SNIC_ECORRUPT;
    if (snic_get_le32(b + 12) != SNIC_WAL__VERSION)
        return SNIC_EVERSION;
    memset(g, 0, sizeof(*g));
    g->block = snic_get_le32(b + 16);
    g->segment = snic_get_le32(b + 20);
    g->segments = snic_get_le32(b + 24);
    g->record_max = snic_get_le32(b + 28);
    g->batch_blocks = snic_get_le32(b + 32);
    g->uuid[0] = snic_get_le64(b + 40);
    g->uuid[1] = snic_get_le64(b + 48);
    return 0;
}

/* ---- Block ---- */

void wal_block_encode(const struct wal_geo *g, const struct wal_block *b, unsigned char *at)
{
    snic_put_le32(at + 4, b->used);
    snic_put_le64(at + 8, b->generation);
    snic_put_le32(at + 16, b->index);
    snic_put_le32(at + 20, b->batch_first);
    snic_put_le32(at + 24, b->batch_end);
    snic_put_le32(at + 28, b->first);
    snic_put_le64(at + 32, b->oldest);
    snic_put_le64(at + 40, b->base);
    snic_put_le32(at, snic_crc32c(g->seed, at + 4, g->block - 4));
}

/** 0: numbers that no writer writes, even if the checksum matches. */
static int wal_block_sane(const struct wal_geo *g, const struct wal_block *b)
{
    return b->used <= g->payload && b->index < g->segment_blocks && b->batch_first <= b->index &&
           b->batch_end > b->index && b->batch_end <= g->segment_blocks &&
           (b->first == 0 ||
            (b->first >= SNIC_WAL__BLOCK_HEAD && b->first < SNIC_WAL__BLOCK_HEAD + b->used)) &&
           b->generation > 0 && b->generation < SNIC_WAL__GENERATION_MAX && b->oldest > 0 &&
           b->oldest <= b->generation && b->generation - b->oldest < g->segments;
}

enum wal_block_kind wal_block_decode(const struct wal_geo *g, struct wal_block *b, uint64_t gen,
                                     uint32_t index, const unsigned char *at)
{
    if (snic_get_le32(at) != snic_crc32c(g->seed, at + 4, g->block - 4))
        return wal_is_zero(at, g->block) ? WAL_BLOCK_ZERO : WAL_BLOCK_BAD;
    b->used = snic_get_le32(at + 4);
    b->generation = snic_get_le64(at + 8);
    b->index = snic_get_le32(at + 16);
    b->batch_first = snic_get_le32(at + 20);
    b->batch_end = snic_get_le32(at + 24);
    b->first = snic_get_le32(at + 28);
    b->oldest = snic_get_le64(at + 32);
    b->base = snic_get_le64(at + 40);
    if (!wal_block_sane(g, b) || b->index != index ||
        b->generation % g->segments != gen % g->segments)
        return WAL_BLOCK_BAD; /* it was written for another place */
    if (b->generation == gen)
        return WAL_BLOCK_LIVE;
    return b->generation < gen ? WAL_BLOCK_STALE : WAL_BLOCK_BAD;
}

/* ---- Record ---- */

uint32_t wal_record_size(uint32_t length)
{
    return (uint32_t)snic_align_up((uint64_t)SNIC_WAL__RECORD_HEAD + length, 8);
}

static uint32_t wal_record_crc(const struct wal_geo *g, uint64_t gen, const unsigned char *head,
                               const void *bytes, uint32_t length)
{
    unsigned char use[8];
    snic_put_le64(use, gen);
    uint32_t crc = snic_crc32c(g->seed, use, sizeof(use));
    crc = snic_crc32c(crc, head + 4, SNIC_WAL__RECORD_HEAD - 4);
    return snic_crc32c(crc, bytes, length);
}

uint32_t wal_record_encode(const struct wal_geo *g, uint64_t gen, const struct wal_record *rec,
                           unsigned char *head)
{
    const struct snic_wal_record *r = &rec->r;
    snic_put_le32(head + 4, rec->prev);
    snic_put_le32(head + 8, r->length);
    snic_put_le32(head + 12, r->epoch);
    snic_put_le64(head + 16, r->position);
    snic_put_le64(head + 24, rec->origin);
    snic_put_le64(head + 32, r->key.w[0]);
    snic_put_le64(head + 40, r->key.w[1]);
    snic_put_le64(head + 48, r->ts);
    snic_put_le64(head + 56, r->scope);
    snic_put_le32(head + 64, r->flags);
    snic_put_le32(head + 68, 0);
    uint32_t crc = wal_record_crc(g, gen, head, r->bytes, r->length);
    snic_put_le32(head, crc);
    return crc;
}

static int wal_record_decode(const struct wal_geo *g, uint64_t gen, const unsigned char *head,
                             struct wal_record *rec)
{
    struct snic_wal_record *r = &rec->r;
    r->length = snic_get_le32(head + 8);
    r->bytes = head + SNIC_WAL__RECORD_HEAD;
    rec->crc = snic_get_le32(head);
    if (rec->crc != wal_record_crc(g, gen, head, r->bytes, r->length))
        return -1;
    rec->prev = snic_get_le32(head + 4);
    r->epoch = snic_get_le32(head + 12);
    r->position = snic_get_le64(head + 16);
    rec->origin = snic_get_le64(head + 24);
    r->key.w[0] = snic_get_le64(head + 32);
    r->key.w[1] = snic_get_le64(head + 40);
    r->ts = snic_get_le64(head + 48);
    r->scope = snic_get_le64(head + 56);
    r->flags = snic_get_le32(head + 64);
    r->pad = 0;
    return r->position > 0 && rec->origin < r->position ? 1 : -1;
}

/* ---- Reader ---- */

void wal_reader_start(struct wal_reader *rd, uint64_t gen)
{
    rd->gen = gen;
    rd->have = 0;
    rd->at = 0;
    rd->end = 0;
    rd->block = NULL;
}

void wal_reader_block(struct wal_reader *rd, const struct wal_block *b, const unsigned char *bytes)
{
    if (rd->have > 0 && rd->batch != b->batch_first)
        rd->have = 0; /* the rest of that record was cut off by snic_wal_accept_tail() */
    rd->block = bytes;
    rd->end = SNIC_WAL__BLOCK_HEAD + b->used;
    rd->at = SNIC_WAL__BLOCK_HEAD;
    if (rd->have == 0)
        rd->at = b->first != 0 ? b->first : rd->end;
    rd->batch = b->batch_first;
}

/** Take up to @p want bytes of the record in all; 1 when they are there. */
static int wal_reader_take(struct wal_reader *rd, uint32_t want)
{
    uint32_t n = want - rd->have;
    if (n > rd->end - rd->at)
        n = rd->end - rd->at;
    if (n > 0)
        memcpy(rd->memory + rd->have, rd->block + rd->at, n);
    rd->at += n;
    rd->have += n;
    return rd->have == want;
}

int wal_reader_next(struct wal_reader *rd, const struct wal_geo *g, struct wal_record *rec)
{
    if (rd->at == rd->end)
        return 0;
    if (rd->have < SNIC_WAL__RECORD_HEAD && !wal_reader_take(rd, SNIC_WAL__RECORD_HEAD))
        return 0;
    uint32_t length = snic_get_le32(rd->memory + 8);
    int r = -1;
    if (length <= g->record_max) {
        if (!wal_reader_take(rd, wal_record_size(length)))
            return 0;
        r = wal_record_decode(g, rd->gen, rd->memory, rec);
    }
    rd->have = 0;
    if (r < 0)
        rd->at = rd->end;
    return r;
}
