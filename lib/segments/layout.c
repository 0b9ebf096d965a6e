/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Bytes on the device and in the log's records (FORMAT.md), and the structs made of them.
 */
#include "segments/segments_priv.h"

static const unsigned char segments_magic[8] = {'S', 'N', 'I', 'C', 'S', 'E', 'G', 'S'};
static const unsigned char segments_mark_magic[8] = {'S', 'N', 'I', 'C', 'S', 'E', 'G', 'M'};
static const unsigned char segments_page_magic[8] = {'S', 'N', 'I', 'C', 'S', 'E', 'G', 'T'};

SNIC_STATIC_ASSERT(SNIC_SEGMENTS__TABLE *(SNIC_SEGMENTS__PAGES - 1) == SNIC_SEGMENTS_BLOCKS,
                   "the tables hold a segment");
SNIC_STATIC_ASSERT(64 + SNIC_SEGMENTS__TABLE * SNIC_SEGMENTS__ENTRY <= SNIC_SEGMENTS__PAGE,
                   "a table fits its page");
SNIC_STATIC_ASSERT(SNIC_SEGMENTS_BLOCK == SNIC_SEGMENTS__PAGE, "pages and blocks");

int segments_is_zero(const unsigned char *b, size_t size)
{
    return size == 0 || (b[0] == 0 && memcmp(b, b + 1, size - 1) == 0);
}

/* ---- Sizes ---- */

/** The largest power of two that leaves eight segments. */
static uint32_t segments_wal_segment(uint64_t log_bytes)
{
    uint32_t s = 16u << 20;
    while (s > 256u << 10 && s > log_bytes / 8)
        s /= 2;
    return s;
}

void segments_geo_derive(struct segments_geo *g)
{
    unsigned char id[20];
    snic_put_le64(id, g->uuid[0]);
    snic_put_le64(id + 8, g->uuid[1]);
    snic_put_le32(id + 16, g->disk);
    g->seed = snic_crc32c(0, id, sizeof(id));
    uint32_t item = SNIC_SEGMENTS_BLOCK + SNIC_SEGMENTS__ITEM;
    uint32_t most = g->wal_segment / 32 / item;
    g->list_max = most < SNIC_SEGMENTS_LIST_MAX ? most : SNIC_SEGMENTS_LIST_MAX;
    g->record_max = g->list_max * item;
    uint32_t batch = g->record_max > 65536 ? 1u << 20 : 256u << 10;
    g->batch_bytes = batch < g->wal_segment ? batch : g->wal_segment;
    uint64_t copy = (uint64_t)g->places * SNIC_SEGMENTS__PAGES * SNIC_SEGMENTS__PAGE;
    g->table_at = SNIC_SEGMENTS__LOG_AT + SNIC_SEGMENTS__LOG_HEAD + g->log_bytes;
    g->data_at = g->table_at + 2 * copy;
}

int segments_geo_make(struct segments_geo *g, const struct snic_io *io,
                      const struct snic_segments_opts *o)
{
    const struct snic_io_geometry *d = &io->geometry;
    uint64_t each = (uint64_t)SNIC_SEGMENTS_BLOCKS * SNIC_SEGMENTS_BLOCK +
                    2 * SNIC_SEGMENTS__PAGES * SNIC_SEGMENTS__PAGE;
    memset(g, 0, sizeof(*g));
    g->log_bytes = o->log_bytes;
    if (g->log_bytes == 0)
        g->log_bytes = snic_max_u64(2u << 20, snic_min_u64(d->size / 8, 512u << 20));
    if (g->log_bytes < 2u << 20 || g->log_bytes > (uint64_t)64 << 30)
        return SNIC_EINVAL;
    g->wal_segment = segments_wal_segment(g->log_bytes);
    g->log_bytes -= g->log_bytes % g->wal_segment;
    g->cache_blocks = o->cache_blocks;
    g->uuid[0] = o->uuid[0];
    g->uuid[1] = o->uuid[1];
    if (d->offset_align > SNIC_SEGMENTS__PAGE || d->length_align > SNIC_SEGMENTS__PAGE ||
        d->memory_align > SNIC_SEGMENTS__PAGE)
        return SNIC_EINVAL;
    uint64_t head = SNIC_SEGMENTS__LOG_AT + SNIC_SEGMENTS__LOG_HEAD + g->log_bytes;
    if (d->size < head + each)
        return SNIC_ENOSPC;
    uint64_t places = (d->size - head) / each;
    g->places = (uint32_t)snic_min_u64(places, SNIC_SEGMENTS__PLACES_MAX);
    segments_geo_derive(g);
    return d->transfer_max < g->batch_bytes ? SNIC_EINVAL : 0;
}

uint64_t segments_page_offset(const struct segments_geo *g, uint32_t place, uint32_t page,
                              uint32_t copy)
{
    uint64_t n = ((uint64_t)copy * g->places + place) * SNIC_SEGMENTS__PAGES + page;
    return g->table_at + n * SNIC_SEGMENTS__PAGE;
}

uint64_t segments_block_offset(const struct segments_geo *g, uint32_t place, uint32_t block)
{
    return g->data_at + ((uint64_t)place * SNIC_SEGMENTS_BLOCKS + block) * SNIC_SEGMENTS_BLOCK;
}

/* ---- Superblock, mark ---- */

void segments_super_encode(const struct segments_geo *g, unsigned char *b)
{
    memset(b, 0, SNIC_SEGMENTS__PAGE);
    memcpy(b, segments_magic, 8);
    snic_put_le32(b + 12, SNIC_SEGMENTS_VERSION);
    snic_put_le64(b + 16, g->log_bytes);
    snic_put_le32(b + 24, g->wal_segment);
    snic_put_le32(b + 28, g->places);
    snic_put_le32(b + 36, g->disk);
    snic_put_le32(b + 40, g->disks);
    snic_put_le64(b + 48, g->uuid[0]);
    snic_put_le64(b + 56, g->uuid[1]);
    snic_put_le32(b + 8, snic_crc32c(0, b + 12, SNIC_SEGMENTS__PAGE - 12));
}

int segments_super_decode(struct segments_geo *g, const unsigned char *b)
{
    memset(g, 0, sizeof(*g));
    if (segments_is_zero(b, SNIC_SEGMENTS__PAGE))
        return SNIC_ENOENT;
    if (memcmp(b, segments_magic, 8) != 0)
        return SNIC_EEXIST;
    if (snic_get_le32(b + 8) != snic_crc32c(0, b + 12, SNIC_SEGMENTS__PAGE - 12))
        return SNIC_ECORRUPT;
    g->version = snic_get_le32(b + 12);
    if (g->version != SNIC_SEGMENTS_VERSION)
        return SNIC_EVERSION;
    g->log_bytes = snic_get_le64(b + 16);
    g->wal_segment = snic_get_le32(b + 24);
    g->places = snic_get_le32(b + 28);
    g->disk = snic_get_le32(b + 36);
    g->disks = snic_get_le32(b + 40);
    g->uuid[0] = snic_get_le64(b + 48);
    g->uuid[1] = snic_get_le64(b + 56);
    return 0;
}

void segments_mark_encode(const struct segments_geo *g, const struct segments_mark *m,
                          unsigned char *b)
{
    memset(b, 0, SNIC_SEGMENTS__PAGE);
    memcpy(b, segments_mark_magic, 8);
    snic_put_le64(b + 16, m->round);
    snic_put_le64(b + 24, m->stamp);
    snic_put_le32(b + 8, snic_crc32c(g->seed, b + 12, SNIC_SEGMENTS__PAGE - 12));
}

int segments_mark_decode(const struct segments_geo *g, struct segments_mark *m,
                         const unsigned char *b)
{
    if (memcmp(b, segments_mark_magic, 8) != 0 ||
        snic_get_le32(b + 8) != snic_crc32c(g->seed, b + 12, SNIC_SEGMENTS__PAGE - 12))
        return 0;
    m->round = snic_get_le64(b + 16);
    m->stamp = snic_get_le64(b + 24);
    return m->round < SNIC_SEGMENTS__LATEST && m->stamp < SNIC_SEGMENTS__LATEST;
}

/* ---- Tables ---- */

void segments_page_encode(const struct segments_disk *d, uint32_t place, uint32_t page,
                          uint64_t round, unsigned char *b)
{
    const struct segments_attr *a = &d->place[place].attr;
    unsigned char *at = b + 64;
    SNIC_ASSERT(place < d->geo.places && page < SNIC_SEGMENTS__PAGES);
    memset(b, 0, SNIC_SEGMENTS__PAGE);
    memcpy(b, segments_page_magic, 8);
    snic_put_le64(b + 16, round);
    snic_put_le32(b + 24, place);
    snic_put_le32(b + 28, page);
    snic_put_le64(b + 32, a->seg_id);
    snic_put_le32(b + 40, a->inc);
    snic_put_le32(b + 44, 1);
    if (page == 0) {
        segments_attr_encode(a, at);
        snic_put_le64(at + SNIC_SEGMENTS__ATTR, a->stamp);
    } else {
        const struct segments_entry *e =
            segments_entry(d, place, (page - 1) * SNIC_SEGMENTS__TABLE);
        for (uint32_t i = 0; i < SNIC_SEGMENTS__TABLE; i++, e++, at += SNIC_SEGMENTS__ENTRY) {
            snic_put_le64(at, e->wver);
            snic_put_le32(at + 8, e->data_crc);
            snic_put_le32(at + 12, e->block_tag);
            snic_put_le32(at + 16, e->kind);
        }
    }
    snic_put_le32(b + 8, snic_crc32c(d->geo.seed, b + 12, SNIC_SEGMENTS__PAGE - 12));
}

enum segments_page_kind segments_page_decode(const struct segments_geo *g, uint32_t place,
                                             uint32_t page, struct segments_page *p,
                                             const unsigned char *b)
{
    memset(p, 0, sizeof(*p));
    if (memcmp(b, segments_page_magic, 8) != 0)
        return segments_is_zero(b, SNIC_SEGMENTS__PAGE) ? SEGMENTS_PAGE_BLANK : SEGMENTS_PAGE_BAD;
    if (snic_get_le32(b + 8) != snic_crc32c(g->seed, b + 12, SNIC_SEGMENTS__PAGE - 12) ||
        snic_get_le32(b + 24) != place || snic_get_le32(b + 28) != page)
        return SEGMENTS_PAGE_BAD;
    p->round = snic_get_le64(b + 16);
    p->seg_id = snic_get_le64(b + 32);
    p->inc = snic_get_le32(b + 40);
    p->whole = snic_get_le32(b + 44) == 1;
    uint64_t stamp = page == 0 ? snic_get_le64(b + 64 + SNIC_SEGMENTS__ATTR) : 0;
    return p->round < SNIC_SEGMENTS__LATEST && stamp < SNIC_SEGMENTS__LATEST ? SEGMENTS_PAGE_GOOD
                                                                             : SEGMENTS_PAGE_BAD;
}

void segments_attr_read(struct segments_attr *a, const struct segments_page *p,
                        const unsigned char *b)
{
    segments_attr_decode(a, b + 64);
    a->stamp = snic_get_le64(b + 64 + SNIC_SEGMENTS__ATTR);
    a->inc = p->inc;
}

int segments_table_read(struct segments_entry *out, const unsigned char *b)
{
    const unsigned char *at = b + 64;
    int good = 1;
    for (uint32_t i = 0; i < SNIC_SEGMENTS__TABLE; i++, at += SNIC_SEGMENTS__ENTRY) {
        out[i].wver = snic_get_le64(at);
        out[i].data_crc = snic_get_le32(at + 8);
        out[i].block_tag = snic_get_le32(at + 12);
        out[i].kind = snic_get_le32(at + 16);
        good &= out[i].kind <= SNIC_SEGMENTS_LOST;
    }
    return good;
}

/* ---- Records ---- */

void segments_record_encode(const struct segments_record *h, struct snic_wal_record *r)
{
    SNIC_ASSERT(h->kind >= SEGMENTS_RECORD_ONE && h->kind <= SEGMENTS_RECORD_ATTR);
    SNIC_ASSERT(h->op <= SNIC_SEGMENTS_LOST);
    memset(r, 0, sizeof(*r));
    r->key.w[0] = h->place | (uint64_t)h->count << 32;
    r->key.w[1] = h->stamp;
    r->ts = h->wver;
    r->scope = h->data_crc | (uint64_t)h->block_tag << 32;
    r->flags = h->kind << 16 | h->op << 24;
    r->epoch = h->inc;
}

int segments_record_decode(const struct segments_geo *g, struct segments_record *h,
                           const struct snic_wal_record *r)
{
    h->place = (uint32_t)r->key.w[0];
    h->count = (uint32_t)(r->key.w[0] >> 32);
    h->stamp = r->key.w[1];
    h->wver = r->ts;
    h->data_crc = (uint32_t)r->scope;
    h->block_tag = (uint32_t)(r->scope >> 32);
    h->kind = r->flags >> 16 & 0xff;
    h->op = r->flags >> 24;
    h->inc = r->epoch;
    if (h->place >= g->places || h->stamp == 0 || h->stamp >= SNIC_SEGMENTS__LATEST || h->inc == 0)
        return 0;
    switch (h->kind) {
    case SEGMENTS_RECORD_ONE:
        return h->op <= SNIC_SEGMENTS_LOST && h->count < SNIC_SEGMENTS_BLOCKS && h->wver != 0 &&
               r->length == (h->op == SNIC_SEGMENTS_DATA ? SNIC_SEGMENTS_BLOCK : 0);
    case SEGMENTS_RECORD_LIST:
        return h->count >= 1 && h->count <= g->list_max &&
               r->length >= h->count * SNIC_SEGMENTS__ITEM;
    case SEGMENTS_RECORD_ATTR:
        return r->length == SNIC_SEGMENTS__ATTR;
    default:
        return 0;
    }
}

void segments_item_encode(const struct segments_version *v, uint32_t block, unsigned char *b)
{
    snic_put_le64(b, v->wver);
    snic_put_le32(b + 8, v->data_crc);
    snic_put_le32(b + 12, v->block_tag);
    snic_put_le32(b + 16, block);
    snic_put_le32(b + 20, v->kind);
}

void segments_item_decode(struct segments_version *v, uint32_t *block, const unsigned char *b)
{
    v->wver = snic_get_le64(b);
    v->data_crc = snic_get_le32(b + 8);
    v->block_tag = snic_get_le32(b + 12);
    *block = snic_get_le32(b + 16);
    v->kind = snic_get_le32(b + 20);
}

void segments_attr_encode(const struct segments_attr *a, unsigned char *b)
{
    memset(b, 0, SNIC_SEGMENTS__ATTR);
    snic_put_le64(b, a->seg_id);
    snic_put_le64(b + 8, a->vd_id);
    snic_put_le64(b + 16, a->base_lba);
    snic_put_le64(b + 24, a->min_wver);
    snic_put_le32(b + 32, a->gen);
    snic_put_le32(b + 36, a->used);
}

void segments_attr_decode(struct segments_attr *a, const unsigned char *b)
{
    memset(a, 0, sizeof(*a));
    a->seg_id = snic_get_le64(b);
    a->vd_id = snic_get_le64(b + 8);
    a->base_lba = snic_get_le64(b + 16);
    a->min_wver = snic_get_le64(b + 24);
    a->gen = snic_get_le32(b + 32);
    a->used = snic_get_le32(b + 36) != 0;
}
