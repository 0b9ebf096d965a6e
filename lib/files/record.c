/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Journal records: written into an entry, and applied to raw tables; and checkpoint chunks.
 * What is applied has passed its checksum and is still not trusted: every index is checked.
 *
 * R1  A record does not cross a block; what is left of a block that is too short for one is
 *     a PAD record, or less than a record's head of zeros cannot happen: sizes are multiples
 *     of 8.
 * R2  Applying entries in order, any number of times, over tables that hold some of their
 *     later effects gives the tables after the last entry.
 */
#include "files/files_priv.h"

/* The offset at which a record of `bytes` goes, beyond padding. */
static uint32_t record_place(const struct files_entry *e, uint32_t block, uint32_t bytes)
{
    uint32_t left = block - e->used % block;
    return left < bytes ? e->used + left : e->used;
}

static void record_head(unsigned char *p, uint32_t kind, uint32_t bytes, uint32_t index)
{
    p[0] = (unsigned char)kind;
    p[1] = 0;
    snic_put_le16(p + 2, (uint16_t)bytes);
    snic_put_le32(p + 4, index);
}

/* Room for a record with a body of `body` bytes; returns the zeroed body. */
static unsigned char *files_record_add(struct files_entry *e, uint32_t block, uint32_t kind,
                                       uint32_t index, uint32_t body)
{
    uint32_t bytes = SNIC_FILES__RECORD_HEAD + (uint32_t)snic_align_up(body, 8);
    uint32_t at = record_place(e, block, bytes);
    SNIC_ASSERT(at + bytes <= SNIC_FILES__ENTRY_MAX);
    memset(e->bytes + e->used, 0, at + bytes - e->used);
    if (at != e->used) { /* R1 */
        record_head(e->bytes + e->used, FILES_RECORD_PAD, at - e->used, 0);
        e->records++;
    }
    record_head(e->bytes + at, kind, bytes, index);
    e->used = at + bytes;
    e->records++;
    return e->bytes + at + SNIC_FILES__RECORD_HEAD;
}

void files_record_node(struct files_entry *e, uint32_t block, uint32_t index,
                       const struct files_node *n)
{
    unsigned char *p;
    uint32_t name = n->id == 0 ? 0 : n->name_size;
    p = files_record_add(e, block, FILES_RECORD_NODE, index, SNIC_FILES__NR_NAME + name);
    if (n->id == 0)
        return;
    snic_put_le64(p + SNIC_FILES__NR_ID, n->id);
    snic_put_le64(p + SNIC_FILES__NR_SIZE, n->size);
    snic_put_le64(p + SNIC_FILES__NR_PARENT, n->parent);
    p[SNIC_FILES__NR_KIND] = n->kind;
    p[SNIC_FILES__NR_NAME_SIZE] = n->name_size;
    memcpy(p + SNIC_FILES__NR_NAME, n->name, name);
}

void files_record_seg(struct files_entry *e, uint32_t block, uint32_t index, uint64_t id,
                      uint32_t logical, uint32_t init)
{
    unsigned char *p = files_record_add(e, block, FILES_RECORD_SEG, index, SNIC_FILES__SEG_BYTES);
    snic_put_le64(p + SNIC_FILES__SR_ID, id);
    snic_put_le32(p + SNIC_FILES__SR_LOGICAL, logical);
    snic_put_le32(p + SNIC_FILES__SR_INIT, init);
}

void files_record_size(struct files_entry *e, uint32_t block, uint32_t index, uint64_t id,
                       uint64_t size)
{
    unsigned char *p = files_record_add(e, block, FILES_RECORD_SIZE, index, 16);
    snic_put_le64(p, id);
    snic_put_le64(p + 8, size);
}

void files_record_trunc(struct files_entry *e, uint32_t block, uint32_t index, uint64_t id,
                        uint32_t first)
{
    unsigned char *p = files_record_add(e, block, FILES_RECORD_TRUNC, index, 16);
    snic_put_le64(p, id);
    snic_put_le32(p + 8, first);
}

static int record_apply_node(const struct files_raw *raw, uint32_t index, const unsigned char *p,
                             uint32_t body)
{
    unsigned char *n = raw->nodes + (size_t)index * SNIC_FILES__NODE_BYTES;
    if (index == 0 || index >= raw->nodes_count || body < SNIC_FILES__NR_NAME ||
        body > SNIC_FILES__NODE_BYTES)
        return SNIC_ECORRUPT;
    memset(n, 0, SNIC_FILES__NODE_BYTES);
    memcpy(n, p, body);
    return 0;
}

static int record_apply_size(const struct files_raw *raw, uint32_t index, const unsigned char *p)
{
    unsigned char *n = raw->nodes + (size_t)index * SNIC_FILES__NODE_BYTES;
    if (index == 0 || index >= raw->nodes_count)
        return SNIC_ECORRUPT;
    if (snic_get_le64(n + SNIC_FILES__NR_ID) == snic_get_le64(p))
        snic_put_le64(n + SNIC_FILES__NR_SIZE, snic_get_le64(p + 8));
    return 0;
}

static void record_apply_trunc(const struct files_raw *raw, const unsigned char *p)
{
    uint64_t id = snic_get_le64(p);
    uint32_t first = snic_get_le32(p + 8);
    uint32_t i;
    for (i = 0; i < raw->segs_count; i++) {
        unsigned char *s = raw->segs + (size_t)i * SNIC_FILES__SEG_BYTES;
        if (snic_get_le64(s) == id && snic_get_le32(s + SNIC_FILES__SR_LOGICAL) >= first)
            memset(s, 0, SNIC_FILES__SEG_BYTES);
    }
}

static int record_apply(const struct files_raw *raw, const unsigned char *p, uint32_t bytes)
{
    uint32_t index = snic_get_le32(p + 4);
    uint32_t body = bytes - SNIC_FILES__RECORD_HEAD;
    const unsigned char *b = p + SNIC_FILES__RECORD_HEAD;
    if (p[1] != 0)
        return SNIC_ECORRUPT;
    switch (p[0]) {
    case FILES_RECORD_PAD:
        return 0;
    case FILES_RECORD_NODE:
        return record_apply_node(raw, index, b, body);
    case FILES_RECORD_SEG:
        if (index >= raw->segs_count || body != SNIC_FILES__SEG_BYTES)
            return SNIC_ECORRUPT;
        memcpy(raw->segs + (size_t)index * SNIC_FILES__SEG_BYTES, b, SNIC_FILES__SEG_BYTES);
        return 0;
    case FILES_RECORD_SIZE:
        return body == 16 ? record_apply_size(raw, index, b) : SNIC_ECORRUPT;
    case FILES_RECORD_TRUNC:
        if (body != 16)
            return SNIC_ECORRUPT;
        record_apply_trunc(raw, b);
        return 0;
    default:
        return SNIC_ECORRUPT;
    }
}

/* The length of the record at `at` of an entry of `bytes` bytes, 0 when there can be none: R1. */
uint32_t files_record_bytes(const unsigned char *entry, uint32_t bytes, uint32_t at, uint32_t block)
{
    uint32_t size;
    if (bytes - at < SNIC_FILES__RECORD_HEAD)
        return 0;
    size = snic_get_le16(entry + at + 2);
    if (size < SNIC_FILES__RECORD_HEAD || size % 8 != 0 || size > bytes - at ||
        at % block + size > block)
        return 0;
    return size;
}

/* R2. `bytes` is the entry's length, head included. *at: the record that was refused. */
int files_entry_apply(const struct files_raw *raw, const unsigned char *entry, uint32_t bytes,
                      uint32_t records, uint32_t *at)
{
    uint32_t n;
    *at = SNIC_FILES__JE_HEAD;
    for (n = 0; n < records; n++) {
        uint32_t size = files_record_bytes(entry, bytes, *at, raw->block);
        if (size == 0 || record_apply(raw, entry + *at, size) != 0)
            return SNIC_ECORRUPT;
        *at += size;
    }
    return *at == bytes ? 0 : SNIC_ECORRUPT;
}

/* Which records chunk `index` holds: returns their bytes, in *at the place, in *n the number. */
static unsigned char *record_chunk(const struct snic_files_info *info, const struct files_raw *raw,
                                   uint64_t index, size_t *bytes)
{
    uint64_t nodes = files_node_chunks(info);
    uint64_t first;
    uint64_t count;
    if (index < nodes) {
        first = index * SNIC_FILES__NODES_PER_CHUNK;
        count = snic_min_u64(raw->nodes_count - first, SNIC_FILES__NODES_PER_CHUNK);
        *bytes = (size_t)count * SNIC_FILES__NODE_BYTES;
        return raw->nodes + first * SNIC_FILES__NODE_BYTES;
    }
    first = (index - nodes) * SNIC_FILES__SEGS_PER_CHUNK;
    count = snic_min_u64(raw->segs_count - first, SNIC_FILES__SEGS_PER_CHUNK);
    *bytes = (size_t)count * SNIC_FILES__SEG_BYTES;
    return raw->segs + first * SNIC_FILES__SEG_BYTES;
}

static uint64_t record_chunk_place(const struct snic_files_info *info, uint64_t index,
                                   uint64_t generation)
{
    return files_slot_offset(info, generation) + (index + 1) * SNIC_FILES__CHUNK;
}

void files_chunk_pack(const struct snic_files_info *info, const struct files_raw *raw,
                      uint64_t index, uint64_t generation, unsigned char *chunk)
{
    size_t bytes;
    const unsigned char *p = record_chunk(info, raw, index, &bytes);
    memset(chunk, 0, SNIC_FILES__CHUNK);
    snic_put_le64(chunk + SNIC_FILES__CH_GENERATION, generation);
    snic_put_le64(chunk + SNIC_FILES__CH_INDEX, index);
    memcpy(chunk + SNIC_FILES__CHUNK_HEAD, p, bytes);
    files_seal(chunk, SNIC_FILES__CHUNK, SNIC_FILES__CHUNK_MAGIC, info->image_id,
               record_chunk_place(info, index, generation));
}

int files_chunk_unpack(const struct snic_files_info *info, struct files_raw *raw, uint64_t index,
                       uint64_t generation, const unsigned char *chunk)
{
    size_t bytes;
    unsigned char *p = record_chunk(info, raw, index, &bytes);
    if (!files_sealed(chunk, SNIC_FILES__CHUNK, SNIC_FILES__CHUNK_MAGIC, info->image_id,
                      record_chunk_place(info, index, generation)) ||
        snic_get_le64(chunk + SNIC_FILES__CH_GENERATION) != generation ||
        snic_get_le64(chunk + SNIC_FILES__CH_INDEX) != index)
        return SNIC_ECORRUPT;
    memcpy(p, chunk + SNIC_FILES__CHUNK_HEAD, bytes);
    return 0;
}
