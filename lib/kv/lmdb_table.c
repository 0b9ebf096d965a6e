/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Changes gathered in memory: a hash table for single keys, a skip list for their order.
 */
#include "kv/lmdb_table.h"

#include <stdlib.h>

static uint32_t lmdb_table_hash(const struct lmdb_key *k)
{
    return snic_crc32c(0x9e3779b9U, k->bytes, k->size) * 0x85ebca6bU;
}

/** Levels with a chance of 1/4 each. */
static uint8_t lmdb_table_levels(struct lmdb_table *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    uint32_t n = (uint32_t)__builtin_ctzll(t->random | (1ULL << 2 * (LMDB_LEVELS - 1))) / 2 + 1;
    return (uint8_t)n;
}

static struct lmdb_block *lmdb_table_block(struct lmdb_table *t, uint64_t size)
{
    if (size <= LMDB_TABLE_BLOCK && t->spare != NULL) {
        struct lmdb_block *b = t->spare;
        t->spare = b->next;
        t->spares--;
        return b;
    }
    size = snic_max_u64(size, LMDB_TABLE_BLOCK);
    struct lmdb_block *b = malloc(sizeof(*b) + size);
    if (b != NULL)
        b->size = size;
    return b;
}

/** Bytes of the table's memory, at a multiple of 8; NULL: out of memory. */
static void *lmdb_table_take(struct lmdb_table *t, uint64_t size)
{
    size = snic_align_up(size, 8);
    if (t->blocks == NULL || t->blocks->size - t->filled < size) {
        struct lmdb_block *b = lmdb_table_block(t, size);
        if (b == NULL)
            return NULL;
        b->next = t->blocks;
        t->blocks = b;
        t->filled = 0;
    }
    void *p = t->blocks->bytes + t->filled;
    t->filled += size;
    t->bytes += size;
    return p;
}

int lmdb_table_open(struct lmdb_table *t, uint64_t seed)
{
    memset(t, 0, sizeof(*t));
    t->random = seed * 2 + 1;
    t->mask = 1023;
    t->buckets = calloc(t->mask + 1, sizeof(struct lmdb_entry *));
    return t->buckets == NULL ? SNIC_ENOMEM : 0;
}

void lmdb_table_clear(struct lmdb_table *t)
{
    while (t->blocks != NULL) {
        struct lmdb_block *b = t->blocks;
        t->blocks = b->next;
        if (b->size == LMDB_TABLE_BLOCK && t->spares < LMDB_TABLE_KEEP) {
            b->next = t->spare;
            t->spare = b;
            t->spares++;
        } else {
            free(b);
        }
    }
    t->filled = 0;
    t->bytes = 0;
    if (t->count > 0)
        memset(t->buckets, 0, (t->mask + 1) * sizeof(struct lmdb_entry *));
    t->count = 0;
    memset(t->head, 0, sizeof(t->head));
}

void lmdb_table_close(struct lmdb_table *t)
{
    if (t->buckets == NULL)
        return;
    lmdb_table_clear(t);
    while (t->spare != NULL) {
        struct lmdb_block *b = t->spare;
        t->spare = b->next;
        free(b);
    }
    free(t->buckets);
    t->buckets = NULL;
}

static struct lmdb_entry *lmdb_table_bucket(const struct lmdb_table *t, const struct lmdb_key *k,
                                            uint32_t hash)
{
    struct lmdb_entry *e = t->buckets[hash & t->mask];
    while (e != NULL &&
           (e->hash != hash || e->key_size != k->size || memcmp(e->key, k->bytes, k->size) != 0))
        e = e->chain;
    return e;
}

struct lmdb_entry *lmdb_table_find(const struct lmdb_table *t, const struct lmdb_key *k)
{
    return t->count == 0 ? NULL : lmdb_table_bucket(t, k, lmdb_table_hash(k));
}

/** The last entry before @p k on each level (NULL: the head); returns the one behind level 0's. */
static struct lmdb_entry *lmdb_table_seek(const struct lmdb_table *t, const struct lmdb_key *k,
                                          struct lmdb_entry **before)
{
    struct lmdb_entry *at = NULL;
    struct lmdb_entry *next = NULL;
    for (uint32_t level = LMDB_LEVELS; level-- > 0;) {
        next = at == NULL ? t->head[level] : at->next[level];
        while (next != NULL && lmdb_compare(next->key, next->key_size, k->bytes, k->size) < 0) {
            at = next;
            next = at->next[level];
        }
        if (before != NULL)
            before[level] = at;
    }
    return next;
}

struct lmdb_entry *lmdb_table_lower(const struct lmdb_table *t, const struct lmdb_key *k)
{
    return t->count == 0 ? NULL : lmdb_table_seek(t, k, NULL);
}

/** Twice the buckets, once there are as many entries. Without memory it stays as it is. */
static void lmdb_table_grow(struct lmdb_table *t)
{
    uint64_t size = (t->mask + 1) * 2;
    struct lmdb_entry **buckets = calloc(size, sizeof(struct lmdb_entry *));
    if (buckets == NULL)
        return;
    for (struct lmdb_entry *e = t->head[0]; e != NULL; e = e->next[0]) {
        struct lmdb_entry **b = &buckets[e->hash & (size - 1)];
        e->chain = *b;
        *b = e;
    }
    free(t->buckets);
    t->buckets = buckets;
    t->mask = size - 1;
}

static struct lmdb_entry *lmdb_table_insert(struct lmdb_table *t, const struct lmdb_key *k,
                                            uint32_t hash)
{
    struct lmdb_entry *before[LMDB_LEVELS];
    uint8_t levels = lmdb_table_levels(t);
    uint64_t pointers = sizeof(struct lmdb_entry *) * levels;
    struct lmdb_entry *e = lmdb_table_take(t, sizeof(*e) + pointers + k->size);
    if (e == NULL)
        return NULL;
    memset(e, 0, sizeof(*e));
    unsigned char *key = (unsigned char *)e + sizeof(*e) + pointers;
    memcpy(key, k->bytes, k->size);
    e->key = key;
    e->key_size = k->size;
    e->hash = hash;
    e->levels = levels;
    (void)lmdb_table_seek(t, k, before);
    for (uint32_t i = 0; i < levels; i++) {
        struct lmdb_entry **link = before[i] == NULL ? &t->head[i] : &before[i]->next[i];
        e->next[i] = *link;
        *link = e;
    }
    e->chain = t->buckets[hash & t->mask];
    t->buckets[hash & t->mask] = e;
    if (++t->count > t->mask)
        lmdb_table_grow(t);
    return e;
}

int lmdb_table_put(struct lmdb_table *t, const struct lmdb_key *k, const void *value, uint32_t size)
{
    uint32_t hash = lmdb_table_hash(k);
    struct lmdb_entry *e = lmdb_table_bucket(t, k, hash);
    unsigned char *to = e != NULL && value != NULL && size <= e->room ? e->value : NULL;
    if (value != NULL && to == NULL) {
        to = lmdb_table_take(t, size);
        if (to == NULL)
            return SNIC_ENOMEM;
        if (e != NULL)
            e->room = size;
    }
    if (e == NULL) {
        e = lmdb_table_insert(t, k, hash);
        if (e == NULL)
            return SNIC_ENOMEM;
        e->room = value == NULL ? 0 : size;
    }
    if (value == NULL) {
        e->size = SNIC_LMDB__DELETED;
        return 0;
    }
    memcpy(to, value, size);
    e->value = to;
    e->size = size;
    return 0;
}

int lmdb_table_check(const struct lmdb_table *t)
{
    uint64_t chained = 0;
    for (uint64_t i = 0; t->buckets != NULL && i <= t->mask; i++) {
        for (const struct lmdb_entry *e = t->buckets[i]; e != NULL; e = e->chain)
            chained++;
    }
    for (uint32_t level = 0; level < LMDB_LEVELS; level++) {
        uint64_t listed = 0;
        const struct lmdb_entry *last = NULL;
        for (const struct lmdb_entry *e = t->head[level]; e != NULL; e = e->next[level]) {
            if (e->levels <= level)
                return SNIC_ECORRUPT; /* T2 */
            if (last != NULL && lmdb_compare(last->key, last->key_size, e->key, e->key_size) >= 0)
                return SNIC_ECORRUPT; /* T2 */
            last = e;
            listed++;
        }
        if (level == 0 && (listed != chained || listed != t->count))
            return SNIC_ECORRUPT; /* T1 */
    }
    return 0;
}
