/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/cuckoo.h
 * Cache table: a bucketized cuckoo hash table of keys and items that are bytes, of
 * fixed sizes. One writer, any number of lock-free readers that copy out.
 *
 * Depends on  snicstore/base.h; the implementation also on xxHash (XXH3).
 * Memory      The caller supplies all of it, once; the table never grows and
 *             never allocates. It holds no pointers. At 8-byte keys and 16-byte
 *             items a slot costs 26 bytes. Huge pages are the caller's choice
 *             and pay: lookups are random accesses.
 * Threads     [writer] one thread at a time; [any] any number of readers while
 *             the writer works; [owner] one thread, no other call running.
 *             Handing the writer role to another thread needs the usual
 *             happens-before between the two.
 * Progress    Readers never block the writer and never wait for it: a lookup
 *             restarts only when the writer has changed one of its two buckets
 *             meanwhile, so a writer that stalls anywhere, even half-way through
 *             an update, stops no reader. Writer calls are bounded: at most 5
 *             displacements, found before anything moves.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise; a
 *             call that fails leaves the table and its outputs as they were.
 * Units       capacities and counts are slots; sizes and alignments are bytes.
 *
 * What a reader may rely on: every lookup is linearizable per key. A key that
 * stays in the table for the whole call is found, also while it is displaced or
 * updated; the item is one that some put or update stored whole, never a mix;
 * what the writer's thread wrote before it stored the item is visible to a
 * reader that got it. (The bucket sequence has 31 bits: a reader would have to
 * sleep through an exact multiple of 2^31 changes of one bucket to be fooled.)
 *
 * Hash flooding: bucket and tag come from XXH3-64 under the table's seed. Take
 * the seed from the operating system's random source when keys come from a
 * network, and do not reveal it; a fixed seed gives repeatable tests.
 */
#ifndef SNIC_CUCKOO_H
#define SNIC_CUCKOO_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Lives in caller memory. Must not be moved or copied once initialised. */
struct snic_cuckoo;

/** Alignment of the memory passed to snic_cuckoo_init(), in bytes. */
#define SNIC_CUCKOO_ALIGN SNIC_CACHELINE
/** Slots per bucket; a key may live in any slot of its two buckets. */
#define SNIC_CUCKOO_BUCKET_SLOTS 4
/** Largest key, item and capacity; most keys of one batched call. */
#define SNIC_CUCKOO_KEY_MAX 64
#define SNIC_CUCKOO_ITEM_MAX 256
#define SNIC_CUCKOO_CAPACITY_MAX ((uint64_t)1 << 33)
#define SNIC_CUCKOO_BATCH_MAX 64
/** Most displacements of one insert. */
#define SNIC_CUCKOO_PATH_MAX 5

/**
 * The table knows roughly when each entry was last used, so that snic_cuckoo_update_evict()
 * can make room by dropping one of the eight that a new key competes with, nearly the least
 * recently used of the table: 2 bytes more per slot. A use is a snic_cuckoo_get() (not get_n)
 * that finds the entry, and then writes those 2 bytes at most once per capacity_slots / 64
 * inserts; or storing its item. The fast paths of sizes 8 and 16 are not taken.
 */
#define SNIC_CUCKOO_EVICT ((uint32_t)1 << 1)

/** Zero the struct, then set opts_size, key_size, item_size, capacity_slots and seed. */
struct snic_cuckoo_opts {
    uint32_t opts_size; /**< sizeof(struct snic_cuckoo_opts), for the ABI.            */
    uint32_t key_size;  /**< Bytes, 1..64. Exactly 8 and 16 are fast paths.   */
    uint32_t item_size; /**< Bytes, 0..256. Exactly 8 and 16 are fast paths.         */
    uint32_t flags;     /**< 0 or SNIC_CUCKOO_EVICT. Others: SNIC_EINVAL. */
    /**
     * Slots reserved, 1..SNIC_CUCKOO_CAPACITY_MAX, rounded up to whole buckets (two
     * at least). Puts succeed up to a load of about .97; plan with .95.
     */
    uint64_t capacity_slots;
    uint64_t seed; /**< Hash seed; any value. Random where keys are foreign.          */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_cuckoo_opts_wrong(const struct snic_cuckoo_opts *o) SNIC_NONNULL(1);
/** Bytes snic_cuckoo_init() needs for @p o, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_cuckoo_memsize(const struct snic_cuckoo_opts *o) SNIC_NONNULL(1);

/**
 * Build an empty table in @p mem (owned until fini). Touches every page. [owner]
 * @param[out] out   the table on success, untouched on failure
 * @param mem        at least @p mem_size bytes, aligned to SNIC_CUCKOO_ALIGN
 * @param o          borrowed for the call
 * @return 0; SNIC_EINVAL bad option or alignment; SNIC_ENOSPC @p mem_size small
 */
SNIC_API SNIC_NODISCARD int snic_cuckoo_init(struct snic_cuckoo **out, void *mem, size_t mem_size,
                                             const struct snic_cuckoo_opts *o)
    SNIC_NONNULL(1, 2, 4);

/** Return the memory to the caller; the entries are forgotten. [owner] */
SNIC_API void *snic_cuckoo_fini(struct snic_cuckoo *t) SNIC_NONNULL(1);

/**
 * Insert @p key or replace its item. Copies key_size and item_size bytes; both
 * borrowed for the call. A replacement happens in the key's slot and always has
 * room. @p item may be NULL when item_size is 0. [writer]
 * @return 0 inserted; 1 replaced; SNIC_ENOSPC no room for a new key (nothing changed)
 */
SNIC_API SNIC_NODISCARD int snic_cuckoo_put(struct snic_cuckoo *t, const void *key,
                                            const void *item) SNIC_NONNULL(1, 2);

/**
 * Put @p n <= SNIC_CUCKOO_BATCH_MAX pairs in order, prefetching. @p keys holds
 * n * key_size bytes, @p items n * item_size (NULL when item_size is 0);
 * borrowed for the call. [writer]
 * @return how many were put, 0..n; fewer than n means that the next key had no
 *         room (SNIC_ENOSPC of put) and nothing after it was tried
 */
SNIC_API SNIC_NODISCARD uint32_t snic_cuckoo_put_n(struct snic_cuckoo *t, const void *keys,
                                                   const void *items, uint32_t n)
    SNIC_NONNULL(1, 2);

/**
 * Copy the item of @p key out. @p item gets item_size bytes and may be NULL to
 * ask only whether the key is there. [any]
 * @return 0 found; SNIC_ENOENT not in the table (@p item untouched)
 */
SNIC_API SNIC_NODISCARD int snic_cuckoo_get(const struct snic_cuckoo *t, const void *key,
                                            void *item) SNIC_NONNULL(1, 2);

/**
 * Look up @p n <= SNIC_CUCKOO_BATCH_MAX keys with staged prefetching: same
 * results as n gets, each linearizable by itself. @p keys holds n * key_size
 * bytes, @p items n * item_size (or NULL); items of absent keys are untouched. [any]
 * @return bit i is set when key i was found
 */
SNIC_API SNIC_NODISCARD uint64_t snic_cuckoo_get_n(const struct snic_cuckoo *t, const void *keys,
                                                   uint32_t n, void *items) SNIC_NONNULL(1, 2);

/**
 * Remove @p key. Its slot is free at once: readers that were copying it notice. [writer]
 * @return 0 removed; SNIC_ENOENT not in the table
 */
SNIC_API int snic_cuckoo_del(struct snic_cuckoo *t, const void *key) SNIC_NONNULL(1, 2);

/** What snic_cuckoo_update() does after its callback. */
enum snic_cuckoo_verdict {
    SNIC_CUCKOO_KEEP = 0,  /**< leave the table as it is                          */
    SNIC_CUCKOO_STORE = 1, /**< store the callback's item: replace, or insert     */
    SNIC_CUCKOO_REMOVE = 2 /**< remove the key if it is there                     */
};

/**
 * Decide on one key. @p item (item_size bytes, 8-byte aligned) is a private copy:
 * the current item when @p resident is 1, zeros when it is 0; the callback may
 * change it. It may not call back into the table.
 */
typedef enum snic_cuckoo_verdict (*snic_cuckoo_update_fn)(void *ctx, void *item, int resident);

/**
 * Read, decide, write: readers see the item before or after, nothing between.
 * With a version inside the items this is "store unless older", compare and
 * delete, and the like. [writer]
 * @return 0 the verdict was carried out; SNIC_ENOSPC STORE of an absent key found
 *         no room (nothing changed)
 */
SNIC_API SNIC_NODISCARD int snic_cuckoo_update(struct snic_cuckoo *t, const void *key, void *ctx,
                                               snic_cuckoo_update_fn fn) SNIC_NONNULL(1, 2, 4);

/* ---- Tables made with SNIC_CUCKOO_EVICT ---- */

/** Which entry gives way to a new key. The functions may not call back into the table. */
struct snic_cuckoo_evict {
    /**
     * How readily the entry (key_size and item_size bytes, 8-byte aligned copies) is dropped:
     * the largest rank goes, a negative one stays. @p age is larger the longer the entry was
     * not used, 0..65535 in units of capacity_slots / 64 inserts.
     */
    int64_t (*rank)(void *ctx, const void *key, const void *item, uint32_t age);
    /** The entry is about to be dropped. May be NULL. */
    void (*dropped)(void *ctx, const void *key, const void *item);
};

/**
 * Read, decide, write, as snic_cuckoo_update() does; where the verdict is STORE, the key is absent
 * and there is no room, an entry is dropped. Once the table is 15/16 full, displacements are not
 * tried before that: an insert into a full table costs a look at eight entries. @p ctx is for all
 * functions. [writer]
 * @return 0 the verdict was carried out; SNIC_ENOSPC STORE of an absent key found no room and
 *         all ranks were negative (nothing changed)
 */
SNIC_API SNIC_NODISCARD int snic_cuckoo_update_evict(struct snic_cuckoo *t, const void *key,
                                                     void *ctx, snic_cuckoo_update_fn fn,
                                                     const struct snic_cuckoo_evict *e)
    SNIC_NONNULL(1, 2, 4, 5);

/* ---- All tables ---- */

/** Remove every entry, bucket by bucket; O(capacity). Readers may be running. [writer] */
SNIC_API void snic_cuckoo_clear(struct snic_cuckoo *t) SNIC_NONNULL(1);

/**
 * Iterate: start with @p cursor 0 and call until SNIC_ENOENT. Each pair returned
 * was in the table, whole, at some moment of its call. On the writer's thread, with
 * no inserts between the calls, every entry comes exactly once (puts that replace,
 * and dels, are fine). Under a concurrent writer entries it inserts may or may not
 * come, and entries it displaces may come twice or not at all. @p key gets key_size
 * and @p item item_size bytes; either may be NULL. [any]
 * @return 0 a pair; SNIC_ENOENT the end (outputs untouched, cursor past the end)
 */
SNIC_API SNIC_NODISCARD int snic_cuckoo_next(const struct snic_cuckoo *t, uint64_t *cursor,
                                             void *key, void *item) SNIC_NONNULL(1, 2);

/** Entries now. Exact on the writer's thread, a recent value elsewhere. [any] */
SNIC_API uint64_t snic_cuckoo_count(const struct snic_cuckoo *t) SNIC_NONNULL(1);

/** Counters since init; each is exact on the writer's thread. */
struct snic_cuckoo_stats {
    uint64_t capacity_slots; /**< slots there are, after rounding                      */
    uint64_t memory_bytes;   /**< as memsize returned                                  */
    uint64_t count;          /**< entries now                                          */
    uint64_t inserts;        /**< new keys put                                         */
    uint64_t replaces;       /**< items replaced                                       */
    uint64_t deletes;        /**< keys removed, clear and evictions included           */
    uint64_t refused;        /**< SNIC_ENOSPC given                                    */
    uint64_t displacements;  /**< entries moved to their other bucket                  */
    uint64_t searched;       /**< buckets looked at by path searches                   */
    /** inserts by the number of displacements they needed, 0..SNIC_CUCKOO_PATH_MAX */
    uint64_t paths[SNIC_CUCKOO_PATH_MAX + 1];
    uint64_t evictions; /**< entries dropped for others; they count as deletes, too   */
};

/** Copy the counters out. [any] */
SNIC_API void snic_cuckoo_get_stats(const struct snic_cuckoo *t, struct snic_cuckoo_stats *out)
    SNIC_NONNULL(1, 2);

/**
 * Check every structural invariant: each entry in one of its two buckets under its
 * own tag, no key twice, counters right. O(capacity). For tests. [writer]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API SNIC_NODISCARD int snic_cuckoo_check(const struct snic_cuckoo *t) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_CUCKOO_H */
