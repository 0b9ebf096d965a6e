/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reads that copy, one or many. A batch runs in waves: the tags' lines are asked for, then the
 * entries' and the pages' first lines, then the copies follow, while the next wave's lines come.
 */
#include "snicstore/hcache.h"

#include "base/simd.h"
#include "hcache/hcache_priv.h"

#include <string.h>

/* How far ahead of a copy its bucket, and then its entry and page, are asked for. */
#define SNIC_HCACHE__FAR 6u
#define SNIC_HCACHE__NEAR 2u

int snic_hcache_read(struct snic_hcache_host *h, uint64_t ino, uint64_t lpn, uint32_t offset,
                     uint32_t bytes, void *out)
{
    struct snic_hcache_page page;
    int r;

    if (offset > h->g.page_bytes || bytes > h->g.page_bytes - offset)
        return SNIC_EINVAL;
    r = snic_hcache_get(h, ino, lpn, &page);
    if (SNIC_UNLIKELY(r != 0))
        return r;
    SNIC_DASSERT((uint64_t)offset + bytes <= h->g.page_bytes);
    memcpy(out, (const unsigned char *)page.data + offset, bytes);
    r = (int)page.flags;
    /* ESTALE: we were declared dead while copying; what we copied is worth nothing */
    return snic_hcache_put(h, &page) == 0 ? r : SNIC_EBUSY;
}

static inline void hcache_batch_far(const struct snic_hcache__geo *g,
                                    const struct snic_hcache_req *r)
{
    struct hcache_place p = hcache_place(g->seed, g->buckets, r->ino, r->lpn);

    simd_prefetch_read(g->base + hcache_bucket_offset(g, p.bucket));
}

/* The tags are here: ask for the entry and the beginning of the page that they name. */
static inline void hcache_batch_near(const struct snic_hcache__geo *g,
                                     const struct snic_hcache_req *r)
{
    struct hcache_place p = hcache_place(g->seed, g->buckets, r->ino, r->lpn);
    uint64_t at = hcache_bucket_offset(g, p.bucket) + SNIC_HCACHE__TAGS;
    uint32_t way;

    for (way = 0; way < g->ways; way += 8) {
        uint64_t lo = atomic_load_explicit(hcache_at(g, at + way * 2), memory_order_relaxed);
        uint64_t hi = 0;
        uint32_t mask;

        if (way + 4 < g->ways)
            hi = atomic_load_explicit(hcache_at(g, at + way * 2 + 8), memory_order_relaxed);
        mask = simd_match_u16x8_w(lo, hi, p.tag);
        if (mask != 0) {
            uint32_t w = way + (uint32_t)__builtin_ctz(mask);
            const unsigned char *page =
                g->base + hcache_data_offset(g, p.bucket * g->ways + w) + (r->offset & ~63u);
            uint32_t line;

            simd_prefetch_read(g->base + hcache_entry_offset(g, p.bucket, w));
            for (line = 0; line < 8; line++)
                simd_prefetch_read(page + line * 64);
            return;
        }
    }
}

uint32_t snic_hcache_read_n(struct snic_hcache_host *h, struct snic_hcache_req *reqs, uint32_t n)
{
    uint32_t copied = 0;
    uint32_t i;

    for (i = 0; i < n && i < SNIC_HCACHE__FAR; i++)
        hcache_batch_far(&h->g, &reqs[i]);
    for (i = 0; i < n && i < SNIC_HCACHE__NEAR; i++)
        hcache_batch_near(&h->g, &reqs[i]);
    for (i = 0; i < n; i++) {
        struct snic_hcache_req *r = &reqs[i];

        if (n - i > SNIC_HCACHE__FAR)
            hcache_batch_far(&h->g, &reqs[i + SNIC_HCACHE__FAR]);
        if (n - i > SNIC_HCACHE__NEAR)
            hcache_batch_near(&h->g, &reqs[i + SNIC_HCACHE__NEAR]);
        r->result = snic_hcache_read(h, r->ino, r->lpn, r->offset, r->bytes, r->out);
        copied += r->result >= 0;
    }
    return copied;
}
