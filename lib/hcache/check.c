/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The structural check. It reads every word atomically, so that it may also look at a region that
 * is at work; only then a key may be seen twice or under a tag that has not come yet, while its
 * entry is write-locked: such entries' keys are not judged. */
#include "snicstore/hcache.h"

#include "hcache/hcache_priv.h"

#include <string.h>

static uint64_t check_word(const struct snic_hcache__geo *g, uint64_t offset)
{
    return atomic_load_explicit(hcache_at(g, offset), memory_order_acquire);
}

static void check_count(struct snic_hcache_counts *c, uint64_t s)
{
    c->free += hcache_status_of(s) == SNIC_HCACHE_FREE;
    c->clean += hcache_status_of(s) == SNIC_HCACHE_CLEAN;
    c->dirty += hcache_status_of(s) == SNIC_HCACHE_DIRTY;
    c->invalid += hcache_status_of(s) == SNIC_HCACHE_INVALID;
    c->write_locked += hcache_lock_of(s) == SNIC_HCACHE_LOCK_WRITE;
    c->read_locked += hcache_lock_of(s) == SNIC_HCACHE_LOCK_READ;
    c->flights += (s & SNIC_HCACHE__FLIGHT) != 0;
    c->victims += (s & SNIC_HCACHE__VICTIM) != 0;
}

/* The key of an entry that is not write-locked: in its bucket, under its tag, once. */
static int check_key(const struct snic_hcache__geo *g, uint64_t bucket, uint32_t way)
{
    uint64_t at = hcache_entry_offset(g, bucket, way);
    uint64_t lpn = check_word(g, at + SNIC_HCACHE__LPN);
    uint64_t ino = check_word(g, at + SNIC_HCACHE__INO);
    struct hcache_place p = hcache_place(g->seed, g->buckets, ino, lpn);
    uint64_t tags =
        check_word(g, hcache_bucket_offset(g, bucket) + SNIC_HCACHE__TAGS + way / 4 * 8);
    uint32_t other;

    if (p.bucket != bucket || (uint16_t)(tags >> (way % 4 * 16)) != p.tag)
        return SNIC_ECORRUPT;
    for (other = way + 1; other < g->ways; other++) {
        uint64_t o = hcache_entry_offset(g, bucket, other);
        uint64_t s = check_word(g, o);

        if (hcache_status_of(s) != SNIC_HCACHE_FREE && (s & 1) == 0 &&
            check_word(g, o + SNIC_HCACHE__LPN) == lpn &&
            check_word(g, o + SNIC_HCACHE__INO) == ino)
            return SNIC_ECORRUPT;
    }
    return 0;
}

static int check_entry(const struct snic_hcache__geo *g, uint64_t bucket, uint32_t way,
                       struct snic_hcache_counts *counts)
{
    uint64_t at = hcache_entry_offset(g, bucket, way);
    uint64_t s = check_word(g, at + SNIC_HCACHE__STATE);
    uint64_t chain = check_word(g, at + SNIC_HCACHE__NEXT);

    if (!hcache_state_ok(s))
        return SNIC_ECORRUPT;
    if ((uint32_t)chain != hcache_next(g, bucket, way) || chain >> 32 > g->page_bytes)
        return SNIC_ECORRUPT;
    check_count(counts, s);
    if (hcache_status_of(s) == SNIC_HCACHE_FREE || (s & 1) != 0)
        return 0;
    if (g->mode == SNIC_HCACHE_MODE_READ && hcache_status_of(s) == SNIC_HCACHE_DIRTY)
        return SNIC_ECORRUPT;
    return check_key(g, bucket, way);
}

int snic_hcache_check(const void *mem, size_t mem_size, struct snic_hcache_counts *counts)
{
    struct snic_hcache_counts c;
    struct snic_hcache__geo g;
    uint64_t bucket;
    uint32_t way;

    memset(&c, 0, sizeof(c));
    if (hcache_attach(&g, (void *)(uintptr_t)mem, mem_size) != 0)
        return SNIC_ECORRUPT;
    for (bucket = 0; bucket < g.buckets; bucket++) {
        uint64_t guard = check_word(&g, hcache_bucket_offset(&g, bucket));

        if (guard != 0 && (hcache_owner_of(guard) == 0 ||
                           (guard & ~(SNIC_HCACHE__OWNER | SNIC_HCACHE__EPOCH)) != 0))
            return SNIC_ECORRUPT;
        c.guards += guard != 0;
        for (way = 0; way < g.ways; way++)
            if (check_entry(&g, bucket, way, &c) != 0)
                return SNIC_ECORRUPT;
    }
    c.header_free = check_word(&g, SNIC_HCACHE_OFF_FREE);
    if (counts != NULL)
        *counts = c;
    return 0;
}
