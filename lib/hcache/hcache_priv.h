/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Layout of the region and what both planes share. include/snicstore/hcache.h has the picture.
 *
 * Writers of each part:
 *   header           init only
 *   free             both, by addition
 *   map words        host sets bits; the control plane takes away those it has seen
 *   guard            CAS from 0, then its holder
 *   tags             holder of the guard
 *   state            all, by CAS, by the lock rules
 *   lpn, inode       holder of the write lock, which it got inside the guard
 *   end              holder of the write lock
 *   content          holder of the write lock; read under a read lock
 *
 * Why a find may trust a key it read without a lock: every change of a key stands between a CAS
 * that raises the version and a release. A find loads state (acquire), compares the key, then CASes
 * that very state. If the CAS succeeds the write lock was not held in between, and any later holder
 * synchronizes with our unlock first, so what we compared was not its key. (A version comes round
 * after 2^24 write locks of one page inside one find.)
 */
#ifndef SNIC_HCACHE_PRIV_H
#define SNIC_HCACHE_PRIV_H

#include "snicstore/hcache.h"

#include <stdatomic.h>

#define SNIC_HCACHE__MAGIC UINT64_C(0x3145484341434853) /* "SHCACHE1" */
#define SNIC_HCACHE__VERSION 1u
#define SNIC_HCACHE__NIL UINT32_MAX
#define SNIC_HCACHE__DPU 255u
/* Lost races after which a call gives up; a hostile peer must not keep it for ever. */
#define SNIC_HCACHE__RACES 4096u

/* ---- The state word ---- */

#define SNIC_HCACHE__LOCK UINT64_C(3)
#define SNIC_HCACHE__STATUS_SHIFT 2
#define SNIC_HCACHE__STATUS (UINT64_C(3) << SNIC_HCACHE__STATUS_SHIFT)
#define SNIC_HCACHE__READER_SHIFT 4
#define SNIC_HCACHE__READER (UINT64_C(1) << SNIC_HCACHE__READER_SHIFT)
#define SNIC_HCACHE__READERS (UINT64_C(1023) << SNIC_HCACHE__READER_SHIFT)
#define SNIC_HCACHE__DPU_READS (UINT64_C(1) << 14)
#define SNIC_HCACHE__FLIGHT (UINT64_C(1) << 15)
#define SNIC_HCACHE__VICTIM (UINT64_C(1) << 16)
#define SNIC_HCACHE__AHEAD (UINT64_C(1) << 17)
#define SNIC_HCACHE__HITS_SHIFT 18
#define SNIC_HCACHE__HITS (UINT64_C(3) << SNIC_HCACHE__HITS_SHIFT)
#define SNIC_HCACHE__AGAIN (UINT64_C(1) << 20)
#define SNIC_HCACHE__PREFETCHED (UINT64_C(1) << 21)
#define SNIC_HCACHE__UNMARKED (UINT64_C(1) << 22)
#define SNIC_HCACHE__UNUSED (UINT64_C(1) << 23)
#define SNIC_HCACHE__OWNER_SHIFT 24
#define SNIC_HCACHE__OWNER (UINT64_C(255) << SNIC_HCACHE__OWNER_SHIFT)
#define SNIC_HCACHE__EPOCH_SHIFT 32
#define SNIC_HCACHE__EPOCH (UINT64_C(255) << SNIC_HCACHE__EPOCH_SHIFT)
#define SNIC_HCACHE__VERSION_SHIFT 40
#define SNIC_HCACHE__VERSION_ONE (UINT64_C(1) << SNIC_HCACHE__VERSION_SHIFT)
#define SNIC_HCACHE__VERSIONS (UINT64_C(0xffffff) << SNIC_HCACHE__VERSION_SHIFT)
/* What a write lock leaves of a state. */
#define SNIC_HCACHE__KEPT                                                                          \
    (SNIC_HCACHE__STATUS | SNIC_HCACHE__FLIGHT | SNIC_HCACHE__AGAIN | SNIC_HCACHE__HITS |          \
     SNIC_HCACHE__PREFETCHED | SNIC_HCACHE__UNMARKED | SNIC_HCACHE__VERSIONS)

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "hcache: the shared words are little-endian and updated in place by atomics"
#endif
SNIC_STATIC_ASSERT(sizeof(_Atomic uint64_t) == 8, "atomic words are plain words in memory");
SNIC_STATIC_ASSERT((SNIC_HCACHE__LOCK | SNIC_HCACHE__STATUS | SNIC_HCACHE__READERS |
                    SNIC_HCACHE__DPU_READS | SNIC_HCACHE__FLIGHT | SNIC_HCACHE__VICTIM |
                    SNIC_HCACHE__AHEAD | SNIC_HCACHE__HITS | SNIC_HCACHE__AGAIN |
                    SNIC_HCACHE__PREFETCHED | SNIC_HCACHE__UNMARKED | SNIC_HCACHE__UNUSED |
                    SNIC_HCACHE__OWNER | SNIC_HCACHE__EPOCH | SNIC_HCACHE__VERSIONS) == UINT64_MAX,
                   "the fields fill the word");
SNIC_STATIC_ASSERT(3 + (3 << 2) + (1023 << 4) == (1 << 14) - 1, "and do not overlap below bit 14");

/* The fields of a state that name the holder of the write lock. */
static inline uint64_t hcache_holder(uint32_t owner, uint32_t epoch)
{
    return (uint64_t)owner << SNIC_HCACHE__OWNER_SHIFT | (uint64_t)epoch
                                                             << SNIC_HCACHE__EPOCH_SHIFT;
}

static inline uint32_t hcache_lock_of(uint64_t s)
{
    return (uint32_t)(s & SNIC_HCACHE__LOCK);
}

static inline uint32_t hcache_status_of(uint64_t s)
{
    return (uint32_t)(s >> SNIC_HCACHE__STATUS_SHIFT) & 3;
}

static inline uint64_t hcache_with(uint64_t s, uint32_t lock, uint32_t status)
{
    return (s & ~(SNIC_HCACHE__LOCK | SNIC_HCACHE__STATUS)) | lock |
           (uint64_t)status << SNIC_HCACHE__STATUS_SHIFT;
}

static inline uint32_t hcache_owner_of(uint64_t s)
{
    return (uint32_t)(s >> SNIC_HCACHE__OWNER_SHIFT) & 255;
}

/* What an entry becomes when its page is forgotten. */
static inline uint64_t hcache_freed(uint64_t s)
{
    return ((s & SNIC_HCACHE__VERSIONS) + SNIC_HCACHE__VERSION_ONE) & SNIC_HCACHE__VERSIONS;
}

/* The state with a new version, locked for writing by @p holder. */
static inline uint64_t hcache_locked(uint64_t s, uint64_t holder, uint32_t status)
{
    return hcache_with((s & SNIC_HCACHE__KEPT) + SNIC_HCACHE__VERSION_ONE, SNIC_HCACHE_LOCK_WRITE,
                       status) |
           holder;
}

/* Does the state make sense? */
static inline int hcache_state_ok(uint64_t s)
{
    uint64_t readers = s & (SNIC_HCACHE__READERS | SNIC_HCACHE__DPU_READS);
    uint32_t status = hcache_status_of(s);

    switch (hcache_lock_of(s)) {
    case SNIC_HCACHE_LOCK_NONE:
    case SNIC_HCACHE_LOCK_READ:
        if ((readers != 0) != (hcache_lock_of(s) == SNIC_HCACHE_LOCK_READ) ||
            (s & (SNIC_HCACHE__OWNER | SNIC_HCACHE__EPOCH)) != 0 || status == SNIC_HCACHE_INVALID)
            return 0;
        break;
    case SNIC_HCACHE_LOCK_WRITE:
        if (readers != 0 || (s & SNIC_HCACHE__OWNER) == 0 || status == SNIC_HCACHE_FREE)
            return 0;
        break;
    default:
        return status == SNIC_HCACHE_INVALID;
    }
    if (status == SNIC_HCACHE_FREE && (s & ~SNIC_HCACHE__VERSIONS) != 0)
        return 0;
    if ((s & (SNIC_HCACHE__FLIGHT | SNIC_HCACHE__DPU_READS)) != 0 && status != SNIC_HCACHE_DIRTY)
        return 0;
    if ((s & SNIC_HCACHE__AGAIN) != 0 && (s & SNIC_HCACHE__FLIGHT) == 0)
        return 0;
    if ((s & SNIC_HCACHE__UNMARKED) != 0 && status != SNIC_HCACHE_DIRTY)
        return 0;
    return (s & SNIC_HCACHE__VICTIM) == 0 || status == SNIC_HCACHE_CLEAN;
}

/* May this entry be taken for another key? */
static inline int hcache_takeable(uint64_t s)
{
    if (hcache_lock_of(s) != SNIC_HCACHE_LOCK_NONE)
        return 0;
    return hcache_status_of(s) == SNIC_HCACHE_FREE ||
           (hcache_status_of(s) == SNIC_HCACHE_CLEAN &&
            (s & (SNIC_HCACHE__VICTIM | SNIC_HCACHE__FLIGHT)) == SNIC_HCACHE__VICTIM);
}

/* The state after @p side died, see the header; @p s itself if nothing of it is there. */
uint64_t hcache_mended(uint64_t s, uint32_t side);
/* The same for a guard word. */
uint64_t hcache_guard_mended(uint64_t guard, uint32_t side);

/* ---- Places ---- */

/* Offsets in a bucket's head and in an entry. */
#define SNIC_HCACHE__GUARD 0u
#define SNIC_HCACHE__TAGS 32u /* four to a word */
#define SNIC_HCACHE__STATE 0u
#define SNIC_HCACHE__NEXT 8u
#define SNIC_HCACHE__END 12u
#define SNIC_HCACHE__LPN 16u
#define SNIC_HCACHE__INO 24u

typedef _Atomic uint64_t hcache_word;

struct hcache_place {
    uint64_t bucket;
    uint16_t tag; /* never 0 */
};

/*
 * A run, the largest power of two of pages that there are not fewer buckets than, lies in buckets
 * side by side, beginning anywhere. So no file, and no stride in one, gathers in a few buckets: a
 * run has one page per bucket at most, and runs are scattered. A run's pages share a tag.
 */
static inline struct hcache_place hcache_place(uint64_t seed, uint64_t buckets, uint64_t ino,
                                               uint64_t lpn)
{
    uint64_t h = (ino ^ seed) * UINT64_C(0x9e3779b97f4a7c15);
    unsigned run = 63u - (unsigned)__builtin_clzll(buckets);
    struct hcache_place p;

    h ^= h >> 32;
    h = (h + (lpn >> run)) * UINT64_C(0xd6e8feb86659fd93);
    h ^= h >> 29;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 32;
    /* buckets is at most 2^31: the high half of a product of two halves */
    p.bucket = ((h & UINT32_MAX) * buckets >> 32) + (lpn & ((UINT64_C(1) << run) - 1));
    if (p.bucket >= buckets)
        p.bucket -= buckets;
    p.tag = (uint16_t)(h >> 48);
    if (p.tag == 0)
        p.tag = 1;
    return p;
}

static inline uint64_t hcache_bucket_offset(const struct snic_hcache__geo *g, uint64_t bucket)
{
    return g->meta_offset + bucket * g->bucket_bytes;
}

static inline uint64_t hcache_entry_offset(const struct snic_hcache__geo *g, uint64_t bucket,
                                           uint32_t way)
{
    return hcache_bucket_offset(g, bucket) + SNIC_HCACHE_HEAD_BYTES +
           (uint64_t)way * SNIC_HCACHE_ENTRY_BYTES;
}

static inline uint64_t hcache_data_offset(const struct snic_hcache__geo *g, uint64_t index)
{
    return g->data_offset + (index << g->page_shift);
}

static inline uint64_t hcache_map_offset(uint64_t bucket)
{
    return SNIC_HCACHE_OFF_MAP + bucket / 64 * 8;
}

static inline hcache_word *hcache_at(const struct snic_hcache__geo *g, uint64_t offset)
{
    return (hcache_word *)(void *)(g->base + offset);
}

/* next of an entry: the following one of its bucket. */
static inline uint32_t hcache_next(const struct snic_hcache__geo *g, uint64_t bucket, uint32_t way)
{
    return way + 1 < g->ways ? (uint32_t)(bucket * g->ways + way + 1) : SNIC_HCACHE__NIL;
}

/* end of an entry, for the holder of its write lock. Relaxed: the lock orders it; only a visit of
 * the control plane may read it meanwhile, and that one's next step fails then. */
static inline uint32_t hcache_end(const struct snic_hcache__geo *g, uint64_t entry)
{
    return __atomic_load_n((uint32_t *)(void *)(g->base + entry + SNIC_HCACHE__END),
                           __ATOMIC_RELAXED);
}

static inline void hcache_end_set(const struct snic_hcache__geo *g, uint64_t entry, uint32_t end)
{
    if (hcache_end(g, entry) != end)
        __atomic_store_n((uint32_t *)(void *)(g->base + entry + SNIC_HCACHE__END), end,
                         __ATOMIC_RELAXED);
}

void hcache_geo_from(struct snic_hcache__geo *g, const struct snic_hcache_info *info);
/* The geometry of the mapped region. Errors as snic_hcache_host_attach(). */
int hcache_attach(struct snic_hcache__geo *g, void *mem, size_t mem_size);

#endif /* SNIC_HCACHE_PRIV_H */
