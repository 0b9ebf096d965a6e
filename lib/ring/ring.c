/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Rings of variable-size records (DDS, section 4.1): the shared part, which every handle reads and
 * checks before it believes anything. The layout is described in ring_priv.h.
 *
 * Invariants of the shared part, kept by ring_producer.c and ring_consumer.c
 *   I1  H <= T <= H + M, M <= capacity, and P <= T: each byte is counted in P after its
 *       reservation moved T. (One producer, COMMIT: T may follow the commit word, and so H.)
 *   I2  [t, t + n) belongs to the producer whose compare-and-swap moved T from t, until it
 *       commits; to the consumer from then on; below H it is free. One producer: all free space
 *       is its own.
 *   I3  The commit word of t is t | 1 only after all of [t, t + n) is written. No other store
 *       ever puts that value there: positions do not repeat.
 *   I4  H passes a byte only after all reads of it are complete (release of H, acquire by the
 *       producer that looks for room).
 *   I5  A record never straddles the end of the data area.
 * Writers: P, T, commit words, data: producers. H, CONSLEEP: consumer (a waking producer makes
 * CONSLEEP even). PRODWAIT: producers. Owner slot: its owner, and the supervisor after death.
 */
#include "snicstore/ring.h"

#include "ring/ring_priv.h"

#include <string.h>

struct ring_header {
    uint64_t magic;
    uint32_t version;
    uint32_t kind;
    uint32_t discipline;
    uint32_t granule_bytes;
    uint32_t body_align;
    uint32_t owners_max;
    uint32_t record_max;
    uint32_t flags;
    uint64_t capacity_bytes;
    uint64_t progress_max;
    uint64_t commit_offset;
    uint64_t data_offset;
    uint64_t memory_bytes;
    uint64_t epoch;
    uint32_t zeros[9];
    uint32_t crc; /* CRC32C of all bytes before it */
};
SNIC_STATIC_ASSERT(sizeof(struct ring_header) == SNIC_RING_HEADER_BYTES, "header is 128 bytes");
SNIC_STATIC_ASSERT(offsetof(struct ring_header, capacity_bytes) == 40, "no hidden padding");
SNIC_STATIC_ASSERT(offsetof(struct ring_header, crc) == 124, "no hidden padding");

/* The largest record of which two, each with the worst gap and rounding, fit into M. */
static uint64_t ring_record_max(const struct ring_header *h)
{
    uint64_t half = snic_align_down(h->progress_max / 2, h->granule_bytes);
    uint64_t over = 16 + (uint64_t)h->body_align - 1;

    return half <= over ? 0 : snic_min_u64(half - over, SNIC_RING__RECORD_LIMIT);
}

/* What is wrong with options whose defaults are filled in, or with a foreign header; or NULL. */
static const char *ring_header_wrong(const struct ring_header *h)
{
    if (h->kind != SNIC_RING_REQUEST && h->kind != SNIC_RING_RESPONSE)
        return "kind: not SNIC_RING_REQUEST or SNIC_RING_RESPONSE";
    if (h->discipline > SNIC_RING_QUIESCENT)
        return "discipline: not SNIC_RING_COMMIT or SNIC_RING_QUIESCENT";
    if (!snic_is_pow2(h->granule_bytes) || h->granule_bytes < 16 || h->granule_bytes > 4096)
        return "granule_bytes: not a power of two 16..4096";
    if (!snic_is_pow2(h->body_align) || h->body_align < 8 || h->body_align > 4096)
        return "body_align: not a power of two 8..4096";
    if (h->owners_max > 4096)
        return "owners_max: not 0..4096";
    if ((h->flags & ~SNIC_RING_ONE_PRODUCER) != 0)
        return "flags: unknown bits";
    if (h->flags != 0 && h->kind != SNIC_RING_REQUEST)
        return "flags: ONE_PRODUCER is of request rings";
    if (h->flags != 0 && h->owners_max != 1)
        return "owners_max: not 1 with ONE_PRODUCER";
    if (!snic_is_pow2(h->capacity_bytes) || h->capacity_bytes < 1024 ||
        h->capacity_bytes > (UINT64_C(1) << 31) || h->capacity_bytes < h->granule_bytes)
        return "capacity_bytes: not a power of two 1024..2^31, or less than granule_bytes";
    if (h->progress_max > h->capacity_bytes)
        return "progress_max: above capacity_bytes";
    if (ring_record_max(h) == 0)
        return "progress_max: too small for two records with granule_bytes and body_align";
    if (h->record_max == 0 || h->record_max > ring_record_max(h))
        return "record_max: above 2^27, or two of them, padded, do not fit into progress_max";
    return NULL;
}

/* Derive the offsets and check every relation: options and foreign headers both come here. */
static int ring_header_complete(struct ring_header *h)
{
    uint64_t align;

    if (ring_header_wrong(h) != NULL)
        return SNIC_EINVAL;
    align = snic_max_u64(h->body_align, SNIC_RING_ALIGN);
    h->commit_offset = SNIC_RING_OFF_OWNERS + (uint64_t)h->owners_max * SNIC_RING__OWNER_BYTES;
    h->data_offset =
        snic_align_up(h->commit_offset + h->capacity_bytes / h->granule_bytes * 8, align);
    h->memory_bytes = h->data_offset + h->capacity_bytes;
    return 0;
}

/* The header of the options, defaults filled in: record_max comes after their check. */
static int ring_header_fill(struct ring_header *h, const struct snic_ring_opts *user)
{
    struct snic_ring_opts o;

    memset(&o, 0, sizeof(o));
    if (snic_opts_copy(&o, sizeof(o), user) != 0)
        return SNIC_EINVAL;
    memset(h, 0, sizeof(*h));
    h->magic = SNIC_RING__MAGIC;
    h->version = SNIC_RING__VERSION;
    h->kind = o.kind;
    h->discipline = o.discipline;
    h->granule_bytes = o.granule_bytes != 0 ? o.granule_bytes : 16;
    h->body_align = o.body_align != 0 ? o.body_align : 8;
    h->flags = o.flags;
    h->owners_max = o.owners_max == 0 && o.flags != 0 ? 1 : o.owners_max;
    h->capacity_bytes = o.capacity_bytes;
    h->progress_max = o.progress_max != 0 ? o.progress_max : o.capacity_bytes / 2;
    h->epoch = o.epoch;
    h->record_max = o.record_max;
    if (h->record_max == 0 && snic_is_pow2(h->granule_bytes) && snic_is_pow2(h->body_align) &&
        h->granule_bytes <= 4096 && h->body_align <= 4096)
        h->record_max = (uint32_t)ring_record_max(h);
    return 0;
}

static int ring_header_from_opts(struct ring_header *h, const struct snic_ring_opts *user)
{
    if (ring_header_fill(h, user) != 0)
        return SNIC_EINVAL;
    if (ring_header_complete(h) != 0)
        return SNIC_EINVAL;
    h->crc = snic_crc32c(0, h, offsetof(struct ring_header, crc));
    return 0;
}

const char *snic_ring_opts_wrong(const struct snic_ring_opts *o)
{
    struct ring_header h;

    if (ring_header_fill(&h, o) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    return ring_header_wrong(&h);
}

size_t snic_ring_memsize(const struct snic_ring_opts *o)
{
    struct ring_header h;

    return ring_header_from_opts(&h, o) == 0 ? (size_t)h.memory_bytes : 0;
}

int snic_ring_init(void *mem, size_t mem_size, const struct snic_ring_opts *o)
{
    struct ring_header h;

    if (ring_header_from_opts(&h, o) != 0 || !ring_is_aligned(mem, SNIC_RING_ALIGN) ||
        !ring_is_aligned(mem, h.body_align))
        return SNIC_EINVAL;
    if (mem_size < h.memory_bytes)
        return SNIC_ENOSPC;
    memset(mem, 0, (size_t)h.memory_bytes);
    memcpy(mem, &h, sizeof(h));
    return 0;
}

int snic_ring_geometry(const void *header, uint64_t mem_size, struct snic_ring_info *out)
{
    struct ring_header h;
    struct ring_header want;
    uint64_t granules;

    memcpy(&h, header, sizeof(h));
    if (h.magic != SNIC_RING__MAGIC || h.version != SNIC_RING__VERSION)
        return SNIC_EVERSION;
    want = h;
    if (snic_crc32c(0, &h, offsetof(struct ring_header, crc)) != h.crc ||
        ring_header_complete(&want) != 0 || memcmp(&want, &h, sizeof(h)) != 0)
        return SNIC_ECORRUPT;
    if (mem_size < h.memory_bytes)
        return SNIC_ENOSPC;
    granules = h.capacity_bytes / h.granule_bytes;
    memset(out, 0, sizeof(*out));
    out->kind = h.kind;
    out->discipline = h.discipline;
    out->granule_bytes = h.granule_bytes;
    out->body_align = h.body_align;
    out->owners_max = h.owners_max;
    out->record_max = h.record_max;
    out->capacity_bytes = h.capacity_bytes;
    out->progress_max = h.progress_max;
    out->commit_offset = h.commit_offset;
    out->data_offset = h.data_offset;
    out->memory_bytes = h.memory_bytes;
    out->mirror_bytes = h.capacity_bytes;
    /* marks, per granule: one word of 4 bytes (request), two (response); then fetched or
     * outgoing commit words */
    out->aux_bytes = snic_align_up(granules * (h.kind == SNIC_RING_REQUEST ? 4 : 8), 8) +
                     (h.discipline == SNIC_RING_COMMIT ? granules * 8 : 0);
    out->epoch = h.epoch;
    out->flags = h.flags;
    return 0;
}

int ring_attach(struct snic_ring__geo *g, void *mem, size_t mem_size, uint32_t kind,
                struct snic_ring_info *info)
{
    int r;

    if (!ring_is_aligned(mem, SNIC_RING_ALIGN))
        return SNIC_EINVAL;
    if (mem_size < SNIC_RING_HEADER_BYTES)
        return SNIC_ENOSPC;
    r = snic_ring_geometry(mem, mem_size, info);
    if (r != 0)
        return r;
    if (!ring_is_aligned(mem, info->body_align) || (kind != 0 && info->kind != kind))
        return SNIC_EINVAL;
    ring_geo_from(g, info);
    g->base = mem;
    g->data = g->base + info->data_offset;
    return 0;
}

int ring_attach_remote(struct snic_ring__geo *g, const void *header, uint64_t mem_size,
                       uint32_t kind, void *mirror, size_t mirror_bytes,
                       struct snic_ring_info *info)
{
    int r = snic_ring_geometry(header, mem_size, info);

    if (r != 0)
        return r;
    if (info->kind != kind ||
        !ring_is_aligned(mirror, snic_max_u64(info->body_align, SNIC_RING_ALIGN)))
        return SNIC_EINVAL;
    if (mirror_bytes < info->mirror_bytes)
        return SNIC_ENOSPC;
    ring_geo_from(g, info);
    g->data = mirror;
    return 0;
}
