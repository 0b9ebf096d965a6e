/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Changes gathered in memory: an ordered table of keys with their new values or marked as deleted.
 * It owns its memory and frees it as a whole.
 *
 * One thread changes a table. Once it is frozen any number of threads may read it.
 */
#ifndef SNIC_KV_LMDB_TABLE_H
#define SNIC_KV_LMDB_TABLE_H

#include "snicstore/kvop.h"

enum {
    LMDB_KEY_MAX = 1 + 8 + SNIC_KVOP_KEY_MAX,
    LMDB_LEVELS = 12,           /* of the skip list: 4^12 keys */
    LMDB_TABLE_BLOCK = 1 << 18, /* bytes allocated at once */
    LMDB_TABLE_KEEP = 16        /* blocks kept for the next use */
};
#define SNIC_LMDB__DELETED UINT32_MAX

/** A key of the data base: its kind, a number big-endian, bytes. */
struct lmdb_key {
    uint8_t size;
    uint8_t bytes[LMDB_KEY_MAX];
};

/** A key with its value; the skip list's pointers and then the key's bytes follow. */
struct lmdb_entry {
    struct lmdb_entry *chain; /* same bucket */
    const unsigned char *key;
    unsigned char *value;
    uint32_t size; /* of the value, or SNIC_LMDB__DELETED */
    uint32_t room;
    uint32_t hash;
    uint8_t key_size;
    uint8_t levels;
    struct lmdb_entry *next[];
};

struct lmdb_block {
    struct lmdb_block *next;
    uint64_t size; /* bytes behind this head */
    unsigned char bytes[];
};

/*
 * Invariants
 *   T1 Every entry is in its bucket's chain once and on level 0 of the skip list once.
 *   T2 Level n holds those entries whose levels > n, in the order of their keys.
 *   T3 bytes is the sum that entries and values use of the blocks.
 */
struct lmdb_table {
    struct lmdb_entry *head[LMDB_LEVELS];
    struct lmdb_entry **buckets;
    uint64_t mask;
    uint64_t count;
    uint64_t bytes;
    uint64_t random;           /* state of the level generator */
    struct lmdb_block *blocks; /* the first is being filled */
    uint64_t filled;
    struct lmdb_block *spare;
    uint32_t spares;
};

/** Order of byte strings, a prefix first. */
static inline int lmdb_compare(const unsigned char *a, uint32_t a_size, const unsigned char *b,
                               uint32_t b_size)
{
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order != 0 ? order : (int)a_size - (int)b_size;
}

/** 0 or SNIC_ENOMEM. */
int lmdb_table_open(struct lmdb_table *t, uint64_t seed);
void lmdb_table_close(struct lmdb_table *t);
/** Forget all entries. */
void lmdb_table_clear(struct lmdb_table *t);
/** NULL: the table does not have the key. */
struct lmdb_entry *lmdb_table_find(const struct lmdb_table *t, const struct lmdb_key *k);
/** The key gets a value (copied), or none with NULL. 0 or SNIC_ENOMEM (nothing changed). */
int lmdb_table_put(struct lmdb_table *t, const struct lmdb_key *k, const void *value,
                   uint32_t size);
/** The first entry with a key of @p k or above, or NULL. */
struct lmdb_entry *lmdb_table_lower(const struct lmdb_table *t, const struct lmdb_key *k);
/** The structure: 0 or SNIC_ECORRUPT. */
int lmdb_table_check(const struct lmdb_table *t);

#endif /* SNIC_KV_LMDB_TABLE_H */
