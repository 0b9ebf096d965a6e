/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/index.h
 * The index of all keys: 4,096 chained tables that grow by doubling one at a
 * time, so that the longest pause is one table's rehash.
 *
 * Threads     One. Memory: allocates entries and tables.
 */
#ifndef KV_INDEX_H
#define KV_INDEX_H

#include "store.h"

#define KV_INDEX_SHARDS 4096

struct kv_index_shard {
    struct kv_entry **buckets; /**< NULL while empty */
    uint32_t mask;
    uint32_t count;
};

struct kv_index {
    struct kv_index_shard shards[KV_INDEX_SHARDS];
    uint64_t *counts;  /**< per database                         */
    uint64_t *expires; /**< per database: keys with an expiry    */
    uint32_t databases;
    uint64_t bytes; /**< of entries and tables                */
};

/** @return 0; SNIC_ENOMEM */
int kv_index_init(struct kv_index *x, uint32_t databases);
void kv_index_fini(struct kv_index *x);
struct kv_entry *kv_index_find(const struct kv_index *x, uint64_t hash, uint32_t database,
                               const void *key, uint32_t key_size);
/** Add a key that is not there; the caller fills the rest. @return NULL: no memory */
struct kv_entry *kv_index_add(struct kv_index *x, uint64_t hash, uint32_t database, const void *key,
                              uint32_t key_size);
void kv_index_remove(struct kv_index *x, struct kv_entry *e);
/** Change e->expire_ms, keeping the counts. */
void kv_index_expire(struct kv_index *x, struct kv_entry *e, uint64_t expire_ms);
/** Remove every entry of every database. */
void kv_index_clear(struct kv_index *x);
/**
 * Visit the entries of one bucket or a few (all databases) and return the next
 * cursor, 0 at the end. Entries present from the first call to the last are
 * visited at least once, also when tables grow in between: the bucket bits of
 * the cursor are incremented in reverse, as Redis' SCAN does. @p visit may
 * remove the entry that is passed to it.
 */
uint64_t kv_index_scan(struct kv_index *x, uint64_t cursor, uint32_t count,
                       void (*visit)(void *ctx, struct kv_entry *e), void *ctx);
/** Make room so that kv_index_renumber() needs no memory. @return 0; SNIC_ENOMEM */
int kv_index_reserve(struct kv_index *x);
/**
 * Database d becomes number[d], a permutation. @p rehash sets the two hashes of an entry for
 * the database that it now has. Call kv_index_reserve() first; O(keys that change) and one
 * look at every bucket.
 */
void kv_index_renumber(struct kv_index *x, const uint16_t *number,
                       void (*rehash)(void *ctx, struct kv_entry *e), void *ctx);
/** Counts true, every entry in its bucket, no key twice? 0 or SNIC_ECORRUPT. */
int kv_index_check(const struct kv_index *x);

#endif
