/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a certified death does to a state word, and the pass over a mapped region. The engine's pass
 * over DMA (look.c) uses the same two functions.
 *
 *   host dead, write lock of a host handle   the content may be half old, half new: free
 *   host dead, host readers                  none of them; lock none unless the DPU reads
 *   DPU dead, write lock of the DPU          a prefetch that did not arrive: free
 *   DPU dead, DPU_READS, FLIGHT, AGAIN       none; status stays dirty, the next engine flushes it
 *   guard of the dead side                   0: what it was inserting is write-locked by it
 *
 * Each step is one CAS from the word that was judged, so the other side may work on, and a pass
 * that dies may be run again: a mended word is mended (idempotent).
 */
#include "snicstore/hcache.h"

#include "hcache/hcache_priv.h"

uint64_t hcache_mended(uint64_t s, uint32_t side)
{
    int of_dpu = hcache_owner_of(s) == SNIC_HCACHE__DPU;

    if (hcache_lock_of(s) == SNIC_HCACHE_LOCK_INVALID)
        return s;
    if (hcache_lock_of(s) == SNIC_HCACHE_LOCK_WRITE && of_dpu == (side == SNIC_HCACHE_DPU))
        return hcache_freed(s);
    if (side == SNIC_HCACHE_DPU)
        s &= ~(SNIC_HCACHE__DPU_READS | SNIC_HCACHE__FLIGHT | SNIC_HCACHE__AGAIN);
    else
        s &= ~SNIC_HCACHE__READERS;
    if (hcache_lock_of(s) == SNIC_HCACHE_LOCK_READ &&
        (s & (SNIC_HCACHE__READERS | SNIC_HCACHE__DPU_READS)) == 0)
        s &= ~SNIC_HCACHE__LOCK;
    return s;
}

uint64_t hcache_guard_mended(uint64_t guard, uint32_t side)
{
    int of_dpu = hcache_owner_of(guard) == SNIC_HCACHE__DPU;

    return of_dpu == (side == SNIC_HCACHE_DPU) ? 0 : guard;
}

/* Mend one word: 1 changed, 0 nothing to do, SNIC_EAGAIN. */
static int recover_word(hcache_word *at, uint32_t side, int is_guard, int *freed)
{
    /* acquire: pairs with the releases of the living side */
    uint64_t s = atomic_load_explicit(at, memory_order_acquire);
    uint32_t races;

    *freed = 0;
    for (races = 0; races < SNIC_HCACHE__RACES; races++) {
        uint64_t next = is_guard ? hcache_guard_mended(s, side) : hcache_mended(s, side);

        if (next == s)
            return 0;
        /* release: a thread that locks the entry now synchronizes with all that the dead did */
        if (atomic_compare_exchange_weak_explicit(at, &s, next, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *freed = !is_guard && hcache_status_of(next) == SNIC_HCACHE_FREE;
            return 1;
        }
    }
    return SNIC_EAGAIN;
}

int snic_hcache_recover(void *mem, size_t mem_size, enum snic_hcache_side side)
{
    struct snic_hcache__geo g;
    uint64_t bucket;
    uint32_t way;
    uint64_t free_entries = 0;
    int changed = 0;
    int freed;
    int r = hcache_attach(&g, mem, mem_size);

    if (r != 0)
        return r;
    if (side != SNIC_HCACHE_HOST && side != SNIC_HCACHE_DPU)
        return SNIC_EINVAL;
    for (bucket = 0; bucket < g.buckets; bucket++) {
        uint64_t guard = hcache_bucket_offset(&g, bucket) + SNIC_HCACHE__GUARD;

        for (way = 0; way < g.ways; way++) {
            r = recover_word(hcache_at(&g, hcache_entry_offset(&g, bucket, way)), side, 0, &freed);
            if (r < 0)
                return r;
            changed += r;
            free_entries += hcache_status_of(atomic_load_explicit(
                                hcache_at(&g, hcache_entry_offset(&g, bucket, way)),
                                memory_order_relaxed)) == SNIC_HCACHE_FREE;
            if (freed)
                (void)atomic_fetch_add_explicit(hcache_at(&g, SNIC_HCACHE_OFF_FREE), 1,
                                                memory_order_relaxed);
        }
        /* behind the entries: while the guard is held, the key is not inserted a second time */
        r = recover_word(hcache_at(&g, guard), side, 1, &freed);
        if (r < 0)
            return r;
        changed += r;
    }
    if (side == SNIC_HCACHE_HOST) /* relaxed: a count, and exact if no engine works meanwhile */
        atomic_store_explicit(hcache_at(&g, SNIC_HCACHE_OFF_FREE), free_entries,
                              memory_order_relaxed);
    return changed;
}
