/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host's data plane: find, lock, insert, unlock, drop.
 *
 * Invariants
 *   H1  A key enters a bucket only under its guard, after a look at all entries: never twice.
 *   H2  An entry is taken by the CAS that write-locks it, with status invalid, so a find of the old
 *       or the new key under way gets SNIC_EBUSY, never the wrong content.
 *   H3  Key and tag are written before the guard is released; a tag may name a key that is gone
 *       (tags are never taken away), but never the other way round.
 *   H4  What becomes dirty and was not sets its bucket's bit behind the unlock. It is a
 *       read-modify-write even if the bit is there: either the control plane's subtraction comes
 *       after it, and then it sees the unlock, or the bit survives. Until that is done the page is
 *       UNMARKED, and a thread that writes it meanwhile sets the bit as well: its fsync must not
 *       depend on a thread that has stopped in between.
 *   H5  Only the holder of the write lock, or the step that takes an idle entry away, drops a page,
 *       and never in FLIGHT: the flight's content could reach the store after what is written there
 *       next.
 */
#include "snicstore/hcache.h"

#include "base/simd.h"
#include "hcache/hcache_priv.h"

#include <string.h>

/* page.held */
#define SNIC_HCACHE__HELD_READ 1u
#define SNIC_HCACHE__HELD_WRITE 2u

int snic_hcache_host_attach(struct snic_hcache_host *h, void *mem, size_t mem_size, uint32_t owner,
                            uint64_t epoch)
{
    struct snic_hcache__geo g;
    int r;

    if (owner == 0 || owner >= SNIC_HCACHE__DPU)
        return SNIC_EINVAL;
    r = hcache_attach(&g, mem, mem_size);
    if (r != 0)
        return r;
    memset(h, 0, sizeof(*h));
    h->g = g;
    h->owner = owner;
    h->epoch = (uint32_t)epoch & 255;
    return 0;
}

static hcache_word *hcache_state_at(const struct snic_hcache__geo *g, uint64_t bucket, uint32_t way)
{
    return hcache_at(g, hcache_entry_offset(g, bucket, way) + SNIC_HCACHE__STATE);
}

/* A bit per entry whose tag fits. */
static uint32_t hcache_match(const struct snic_hcache__geo *g, const struct hcache_place *p)
{
    uint64_t at = hcache_bucket_offset(g, p->bucket) + SNIC_HCACHE__TAGS;
    uint32_t mask = 0;
    uint32_t way;

    for (way = 0; way < g->ways; way += 8) {
        /* relaxed: a writer that happens before us has published them with guard and state */
        uint64_t lo = atomic_load_explicit(hcache_at(g, at + way * 2), memory_order_relaxed);
        uint64_t hi = 0;

        if (way + 4 < g->ways)
            hi = atomic_load_explicit(hcache_at(g, at + way * 2 + 8), memory_order_relaxed);
        mask |= simd_match_u16x8_w(lo, hi, p->tag) << way;
    }
    return mask & ((UINT32_C(1) << g->ways) - 1); /* whatever stands behind the last tag */
}

static int hcache_key_is(const struct snic_hcache__geo *g, uint64_t bucket, uint32_t way,
                         uint64_t ino, uint64_t lpn)
{
    uint64_t at = hcache_entry_offset(g, bucket, way);

    return atomic_load_explicit(hcache_at(g, at + SNIC_HCACHE__LPN), memory_order_relaxed) == lpn &&
           atomic_load_explicit(hcache_at(g, at + SNIC_HCACHE__INO), memory_order_relaxed) == ino;
}

/* H4 */
static void hcache_flag(const struct snic_hcache__geo *g, uint64_t bucket)
{
    hcache_word *word = hcache_at(g, hcache_map_offset(bucket));
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    uint32_t races = 0;

    /* release pairs with the acquire that a completed subtraction of the control plane is */
    while (races++ < SNIC_HCACHE__RACES &&
           !atomic_compare_exchange_weak_explicit(word, &seen, seen | UINT64_C(1) << bucket % 64,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

static void hcache_count_free(const struct snic_hcache__geo *g, uint64_t add)
{
    /* relaxed: a count */
    (void)atomic_fetch_add_explicit(hcache_at(g, SNIC_HCACHE_OFF_FREE), add, memory_order_relaxed);
}

/* One more hit, up to 3, and no victim any more. The first of a prefetched page is none: without
 * prefetching it would have been the miss that brings the page. */
static inline uint64_t hcache_hit(uint64_t s)
{
    if ((s & SNIC_HCACHE__HITS) != SNIC_HCACHE__HITS && (s & SNIC_HCACHE__PREFETCHED) == 0)
        s += UINT64_C(1) << SNIC_HCACHE__HITS_SHIFT;
    return s & ~(SNIC_HCACHE__VICTIM | SNIC_HCACHE__AHEAD | SNIC_HCACHE__PREFETCHED);
}

static void hcache_describe(struct snic_hcache_host *h, struct snic_hcache_page *page,
                            uint64_t bucket, uint32_t way, uint64_t before, uint32_t held)
{
    uint64_t index = bucket * h->g.ways + way;

    SNIC_DASSERT(way < h->g.ways && index < h->g.pages);
    page->data = h->g.base + hcache_data_offset(&h->g, index);
    page->index = (uint32_t)index;
    page->entry = hcache_entry_offset(&h->g, bucket, way);
    page->held = held;
    page->end = held == SNIC_HCACHE__HELD_WRITE ? hcache_end(&h->g, page->entry) : 0;
    page->flags = (before & SNIC_HCACHE__AHEAD) != 0 ? SNIC_HCACHE_AHEAD : 0;
    if (SNIC_UNLIKELY((before & (SNIC_HCACHE__VICTIM | SNIC_HCACHE__PREFETCHED)) != 0)) {
        if ((before & SNIC_HCACHE__PREFETCHED) != 0)
            h->stats.useful++;
        if ((before & SNIC_HCACHE__VICTIM) != 0)
            hcache_flag(&h->g, bucket); /* the bucket needs another one */
    }
}

/* Lock entry @p way for reading if it holds the key. 0, SNIC_ENOENT, SNIC_EBUSY. */
static int hcache_try_read(struct snic_hcache_host *h, uint64_t bucket, uint32_t way,
                           struct snic_hcache_page *page)
{
    hcache_word *at = hcache_state_at(&h->g, bucket, way);
    /* acquire pairs with the release of the thread that wrote the key */
    uint64_t s = atomic_load_explicit(at, memory_order_acquire);
    uint32_t races;

    for (races = 0; races < SNIC_HCACHE__RACES; races++) {
        uint64_t next;

        if (!hcache_key_is(&h->g, bucket, way, page->ino, page->lpn) ||
            hcache_status_of(s) == SNIC_HCACHE_FREE)
            return SNIC_ENOENT;
        if ((s & 1) != 0) /* write-locked or out of service */
            return hcache_lock_of(s) == SNIC_HCACHE_LOCK_INVALID ? SNIC_ENOENT : SNIC_EBUSY;
        if ((s & SNIC_HCACHE__READERS) == SNIC_HCACHE__READERS)
            return SNIC_EBUSY;
        next = ((hcache_hit(s) + SNIC_HCACHE__READER) & ~SNIC_HCACHE__LOCK) | SNIC_HCACHE_LOCK_READ;
        /* acquire pairs with the writer's release: its content is visible */
        if (atomic_compare_exchange_weak_explicit(at, &s, next, memory_order_acquire,
                                                  memory_order_acquire)) {
            hcache_describe(h, page, bucket, way, s, SNIC_HCACHE__HELD_READ);
            return 0;
        }
    }
    return SNIC_EBUSY;
}

int snic_hcache_get(struct snic_hcache_host *h, uint64_t ino, uint64_t lpn,
                    struct snic_hcache_page *page)
{
    struct hcache_place p = hcache_place(h->g.seed, h->g.buckets, ino, lpn);
    uint32_t mask = hcache_match(&h->g, &p);

    page->ino = ino;
    page->lpn = lpn;
    for (; mask != 0; mask &= mask - 1) {
        uint32_t way = (uint32_t)__builtin_ctz(mask);
        int r;

        /* the tag is right in all but one of 65535 cases: let the page come along */
        simd_prefetch_read(h->g.base + hcache_data_offset(&h->g, p.bucket * h->g.ways + way));
        r = hcache_try_read(h, p.bucket, way, page);
        if (SNIC_LIKELY(r == 0)) {
            h->stats.hits++;
            return 0;
        }
        if (r == SNIC_EBUSY) {
            h->stats.busy++;
            return r;
        }
    }
    h->stats.misses++;
    return SNIC_ENOENT;
}

int snic_hcache_put(struct snic_hcache_host *h, struct snic_hcache_page *page)
{
    hcache_word *at = hcache_at(&h->g, page->entry);
    uint64_t s = atomic_load_explicit(at, memory_order_relaxed);
    uint32_t races;

    SNIC_ASSERT(page->held == SNIC_HCACHE__HELD_READ);
    for (races = 0; races < SNIC_HCACHE__RACES; races++) {
        uint64_t next = s - SNIC_HCACHE__READER;

        if ((s & SNIC_HCACHE__READERS) == 0)
            break;
        if ((next & (SNIC_HCACHE__READERS | SNIC_HCACHE__DPU_READS)) == 0)
            next &= ~SNIC_HCACHE__LOCK;
        /* release pairs with the acquire of the next write lock: our reads are over */
        if (atomic_compare_exchange_weak_explicit(at, &s, next, memory_order_release,
                                                  memory_order_relaxed)) {
            page->held = 0;
            return 0;
        }
    }
    page->held = 0;
    return SNIC_ESTALE;
}

/* Lock entry @p way for writing if it holds the key. 0, SNIC_ENOENT, SNIC_EBUSY. */
static int hcache_try_write(struct snic_hcache_host *h, uint64_t bucket, uint32_t way,
                            struct snic_hcache_page *page)
{
    hcache_word *at = hcache_state_at(&h->g, bucket, way);
    /* acquire as in hcache_try_read() */
    uint64_t s = atomic_load_explicit(at, memory_order_acquire);
    uint32_t races;

    for (races = 0; races < SNIC_HCACHE__RACES; races++) {
        uint64_t next;

        if (!hcache_key_is(&h->g, bucket, way, page->ino, page->lpn) ||
            hcache_status_of(s) == SNIC_HCACHE_FREE ||
            hcache_lock_of(s) == SNIC_HCACHE_LOCK_INVALID)
            return SNIC_ENOENT;
        if (hcache_lock_of(s) != SNIC_HCACHE_LOCK_NONE ||
            ((page->flags & SNIC_HCACHE_DIRECT) != 0 && (s & SNIC_HCACHE__FLIGHT) != 0))
            return SNIC_EBUSY;
        next = hcache_locked(hcache_hit(s), hcache_holder(h->owner, h->epoch), hcache_status_of(s));
        /* acquire pairs with the release of readers and writers before us */
        if (atomic_compare_exchange_weak_explicit(at, &s, next, memory_order_acquire,
                                                  memory_order_acquire)) {
            hcache_describe(h, page, bucket, way, s, SNIC_HCACHE__HELD_WRITE);
            return 0;
        }
    }
    return SNIC_EBUSY;
}

static int hcache_find_write(struct snic_hcache_host *h, const struct hcache_place *p,
                             struct snic_hcache_page *page)
{
    uint32_t mask = hcache_match(&h->g, p);

    for (; mask != 0; mask &= mask - 1) {
        int r = hcache_try_write(h, p->bucket, (uint32_t)__builtin_ctz(mask), page);

        if (r != SNIC_ENOENT)
            return r;
    }
    return SNIC_ENOENT;
}

/* Take an entry that is free or a victim for a new key. 0 and *way, SNIC_EAGAIN. */
static int hcache_take(struct snic_hcache_host *h, uint64_t bucket, uint32_t *way)
{
    uint64_t holder = hcache_holder(h->owner, h->epoch);
    int pass;
    uint32_t w;

    for (pass = 0; pass < 2; pass++) { /* free ones first */
        for (w = 0; w < h->g.ways; w++) {
            hcache_word *at = hcache_state_at(&h->g, bucket, w);
            uint64_t s = atomic_load_explicit(at, memory_order_relaxed);
            int is_free = hcache_status_of(s) == SNIC_HCACHE_FREE;

            if (is_free == pass || !hcache_takeable(s))
                continue;
            /* H2; acquire pairs with the release of the page's last user */
            if (!atomic_compare_exchange_strong_explicit(
                    at, &s, hcache_locked(s & SNIC_HCACHE__VERSIONS, holder, SNIC_HCACHE_INVALID),
                    memory_order_acquire, memory_order_relaxed))
                continue; /* it was hit, or the DPU took it: no victim any more */
            if (is_free)
                hcache_count_free(&h->g, UINT64_MAX);
            else
                h->stats.replaced++;
            *way = w;
            return 0;
        }
    }
    return SNIC_EAGAIN;
}

/* Key and tag of a taken entry; the guard is ours. */
static void hcache_name(struct snic_hcache_host *h, const struct hcache_place *p, uint32_t way,
                        uint64_t ino, uint64_t lpn)
{
    uint64_t at = hcache_entry_offset(&h->g, p->bucket, way);
    hcache_word *tags =
        hcache_at(&h->g, hcache_bucket_offset(&h->g, p->bucket) + SNIC_HCACHE__TAGS + way / 4 * 8);
    uint64_t word = atomic_load_explicit(tags, memory_order_relaxed);
    unsigned shift = way % 4 * 16;

    SNIC_ASSERT(way < h->g.ways);
    hcache_end_set(&h->g, at, 0);
    atomic_store_explicit(hcache_at(&h->g, at + SNIC_HCACHE__LPN), lpn, memory_order_relaxed);
    atomic_store_explicit(hcache_at(&h->g, at + SNIC_HCACHE__INO), ino, memory_order_relaxed);
    word = (word & ~(UINT64_C(0xffff) << shift)) | (uint64_t)p->tag << shift;
    atomic_store_explicit(tags, word, memory_order_relaxed);
}

/* The key is not there: insert it. */
static int hcache_insert(struct snic_hcache_host *h, const struct hcache_place *p,
                         struct snic_hcache_page *page)
{
    hcache_word *guard =
        hcache_at(&h->g, hcache_bucket_offset(&h->g, p->bucket) + SNIC_HCACHE__GUARD);
    uint64_t none = 0;
    uint32_t way = 0;
    int r;

    /* acquire pairs with the release of the guard: what was inserted before is seen */
    if (!atomic_compare_exchange_strong_explicit(guard, &none, hcache_holder(h->owner, h->epoch),
                                                 memory_order_acquire, memory_order_relaxed))
        return SNIC_EBUSY;
    r = hcache_find_write(h, p, page); /* H1 */
    if (r == SNIC_ENOENT) {
        r = hcache_take(h, p->bucket, &way);
        if (r == 0) {
            hcache_name(h, p, way, page->ino, page->lpn); /* H3 */
            hcache_describe(h, page, p->bucket, way, 0, SNIC_HCACHE__HELD_WRITE);
            page->flags = SNIC_HCACHE_NEW;
        }
    }
    none = hcache_holder(h->owner, h->epoch);
    /* Release: key and tag. A CAS, for recovery may have taken the guard away. */
    (void)atomic_compare_exchange_strong_explicit(guard, &none, 0, memory_order_release,
                                                  memory_order_relaxed);
    if ((r == 0 && page->flags == SNIC_HCACHE_NEW) || r == SNIC_EAGAIN)
        hcache_flag(&h->g, p->bucket); /* the reserve has shrunk */
    return r;
}

int snic_hcache_lock(struct snic_hcache_host *h, uint64_t ino, uint64_t lpn, uint32_t flags,
                     struct snic_hcache_page *page)
{
    struct hcache_place p = hcache_place(h->g.seed, h->g.buckets, ino, lpn);
    int r;

    if (flags > SNIC_HCACHE_DIRECT || (flags & (flags - 1)) != 0)
        return SNIC_EINVAL;
    page->flags = flags; /* until it is described */
    page->ino = ino;
    page->lpn = lpn;
    r = hcache_find_write(h, &p, page);
    if (r == SNIC_ENOENT && flags != SNIC_HCACHE_PRESENT)
        r = hcache_insert(h, &p, page);
    if (r == 0 && (page->flags & SNIC_HCACHE_NEW) == 0) {
        h->stats.hits++;
        if (flags == SNIC_HCACHE_FILL)
            r = snic_hcache_unlock(h, page, SNIC_HCACHE_UNLOCK_KEEP) == 0 ? SNIC_EEXIST
                                                                          : SNIC_EBUSY;
    } else if (r == 0) {
        h->stats.inserts++;
    }
    h->stats.misses += r == SNIC_ENOENT;
    h->stats.busy += r == SNIC_EBUSY;
    h->stats.full += r == SNIC_EAGAIN;
    return r;
}

/* What a write-locked state becomes; 0 no such thing now. */
static int hcache_unlocked(uint64_t s, enum snic_hcache_how how, uint64_t *next)
{
    uint32_t status = hcache_status_of(s);

    if (how == SNIC_HCACHE_UNLOCK_DROP ||
        (how == SNIC_HCACHE_UNLOCK_KEEP && status == SNIC_HCACHE_INVALID)) {
        if ((s & SNIC_HCACHE__FLIGHT) != 0)
            return 0; /* H5 */
        *next = hcache_freed(s);
        return 1;
    }
    if (how == SNIC_HCACHE_UNLOCK_DIRTY) {
        if (status != SNIC_HCACHE_DIRTY)
            s |= SNIC_HCACHE__UNMARKED;
        status = SNIC_HCACHE_DIRTY;
        if ((s & SNIC_HCACHE__FLIGHT) != 0)
            s |= SNIC_HCACHE__AGAIN;
    } else if (status == SNIC_HCACHE_INVALID) {
        status = SNIC_HCACHE_CLEAN;
    }
    *next = hcache_with(s & SNIC_HCACHE__KEPT, SNIC_HCACHE_LOCK_NONE, status);
    return 1;
}

/* H4. If the entry has changed meanwhile it stays UNMARKED: then the bit is set once more. */
static void hcache_mark_bucket(const struct snic_hcache__geo *g, uint64_t bucket, hcache_word *at,
                               uint64_t s)
{
    hcache_flag(g, bucket);
    /* release: a thread that finds it not UNMARKED finds the bit set */
    (void)atomic_compare_exchange_strong_explicit(at, &s, s & ~SNIC_HCACHE__UNMARKED,
                                                  memory_order_release, memory_order_relaxed);
}

int snic_hcache_unlock(struct snic_hcache_host *h, struct snic_hcache_page *page,
                       enum snic_hcache_how how)
{
    hcache_word *at = hcache_at(&h->g, page->entry);
    uint64_t s = atomic_load_explicit(at, memory_order_relaxed);
    uint64_t next;
    uint32_t races;

    SNIC_ASSERT(page->held == SNIC_HCACHE__HELD_WRITE);
    SNIC_ASSERT(page->index < h->g.pages);
    if ((uint32_t)how > SNIC_HCACHE_UNLOCK_DROP)
        return SNIC_EINVAL;
    if (how == SNIC_HCACHE_UNLOCK_DIRTY && h->g.mode == SNIC_HCACHE_MODE_READ)
        return SNIC_EROFS;
    for (races = 0; races < SNIC_HCACHE__RACES; races++) {
        if (hcache_lock_of(s) != SNIC_HCACHE_LOCK_WRITE ||
            (s & (SNIC_HCACHE__OWNER | SNIC_HCACHE__EPOCH)) != hcache_holder(h->owner, h->epoch))
            break;
        if (!hcache_unlocked(s, how, &next))
            return SNIC_EBUSY;
        hcache_end_set(&h->g, page->entry, (uint32_t)snic_min_u64(page->end, h->g.page_bytes));
        /* Release: the content. FLIGHT may end meanwhile, so it is a CAS. */
        if (!atomic_compare_exchange_weak_explicit(at, &s, next, memory_order_release,
                                                   memory_order_relaxed))
            continue;
        page->held = 0;
        if (hcache_status_of(next) == SNIC_HCACHE_FREE)
            hcache_count_free(&h->g, 1);
        else if ((next & SNIC_HCACHE__UNMARKED) != 0)
            hcache_mark_bucket(&h->g, page->index / h->g.ways, at, next);
        return 0;
    }
    page->held = 0;
    return SNIC_ESTALE;
}

/* Forget an entry if it holds a page of @p ino in [first, last]. 0, or SNIC_EBUSY. */
static int hcache_forget(struct snic_hcache_host *h, uint64_t bucket, uint32_t way, uint64_t ino,
                         uint64_t first, uint64_t last)
{
    uint64_t entry = hcache_entry_offset(&h->g, bucket, way);
    hcache_word *at = hcache_at(&h->g, entry + SNIC_HCACHE__STATE);
    /* acquire as in hcache_try_read() */
    uint64_t s = atomic_load_explicit(at, memory_order_acquire);
    uint32_t races;

    for (races = 0; races < SNIC_HCACHE__RACES; races++) {
        uint64_t lpn =
            atomic_load_explicit(hcache_at(&h->g, entry + SNIC_HCACHE__LPN), memory_order_relaxed);

        if (lpn < first || lpn > last || !hcache_key_is(&h->g, bucket, way, ino, lpn) ||
            hcache_status_of(s) == SNIC_HCACHE_FREE ||
            hcache_lock_of(s) == SNIC_HCACHE_LOCK_INVALID)
            return 0;
        if (hcache_lock_of(s) != SNIC_HCACHE_LOCK_NONE || (s & SNIC_HCACHE__FLIGHT) != 0)
            return SNIC_EBUSY; /* H5 */
        /* acquire: the page's users are over before what comes next */
        if (atomic_compare_exchange_weak_explicit(at, &s, hcache_freed(s), memory_order_acq_rel,
                                                  memory_order_acquire)) {
            hcache_count_free(&h->g, 1);
            return 0;
        }
    }
    return SNIC_EBUSY;
}

int snic_hcache_drop(struct snic_hcache_host *h, uint64_t ino, uint64_t *lpn, uint64_t last)
{
    uint64_t index;

    if (*lpn > last)
        return 0;
    if (last - *lpn >= h->g.pages) {
        for (index = 0; index < h->g.pages; index++)
            if (hcache_forget(h, index / h->g.ways, (uint32_t)(index % h->g.ways), ino, *lpn,
                              last) != 0) {
                h->stats.busy++;
                return SNIC_EBUSY;
            }
        return 0;
    }
    for (;; ++*lpn) {
        struct hcache_place p = hcache_place(h->g.seed, h->g.buckets, ino, *lpn);
        uint32_t mask = hcache_match(&h->g, &p);

        for (; mask != 0; mask &= mask - 1)
            if (hcache_forget(h, p.bucket, (uint32_t)__builtin_ctz(mask), ino, *lpn, *lpn) != 0) {
                h->stats.busy++;
                return SNIC_EBUSY;
            }
        if (*lpn == last)
            return 0;
    }
}

void snic_hcache_wait_arm(struct snic_hcache_host *h)
{
    /* seq_cst: the try that follows must not be done before it */
    (void)atomic_fetch_add_explicit(hcache_at(&h->g, SNIC_HCACHE_OFF_WAIT), 1,
                                    memory_order_seq_cst);
}

uint64_t snic_hcache_dirty(const struct snic_hcache_host *h)
{
    uint64_t dirty = 0;
    uint64_t index;

    for (index = 0; index < h->g.pages; index++) {
        /* relaxed: a count */
        uint64_t s = atomic_load_explicit(
            hcache_state_at(&h->g, index / h->g.ways, (uint32_t)(index % h->g.ways)),
            memory_order_relaxed);

        dirty += hcache_status_of(s) == SNIC_HCACHE_DIRTY;
    }
    return dirty;
}
