/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The key index.
 *   I1 an entry lives in shard hash >> 52, bucket hash & mask of that shard.
 *   I2 a shard has at least as many buckets as entries, and never shrinks.
 *   I3 counts[d] and expires[d] are true for every database d.
 */
#include "index.h"

#include <stdlib.h>
#include <string.h>

#define KV_INDEX_SHARD_SHIFT 52
#define KV_INDEX_FIRST 4 /* buckets of a shard that gets its first entry */

int kv_index_init(struct kv_index *x, uint32_t databases)
{
    memset(x, 0, sizeof(*x));
    x->counts = calloc((size_t)databases * 2, sizeof(uint64_t)); /* the second half is scratch */
    x->expires = calloc((size_t)databases * 2, sizeof(uint64_t));
    x->databases = databases;
    if (x->counts == NULL || x->expires == NULL) {
        kv_index_fini(x);
        return SNIC_ENOMEM;
    }
    return 0;
}

void kv_index_clear(struct kv_index *x)
{
    for (uint32_t i = 0; i < KV_INDEX_SHARDS; i++) {
        struct kv_index_shard *s = &x->shards[i];

        for (uint32_t b = 0; s->buckets != NULL && b <= s->mask; b++) {
            struct kv_entry *e = s->buckets[b];

            while (e != NULL) {
                struct kv_entry *next = e->next;

                free(e);
                e = next;
            }
        }
        free(s->buckets);
        memset(s, 0, sizeof(*s));
    }
    memset(x->counts, 0, x->databases * sizeof(uint64_t));
    memset(x->expires, 0, x->databases * sizeof(uint64_t));
    x->bytes = 0;
}

void kv_index_fini(struct kv_index *x)
{
    if (x->counts != NULL && x->expires != NULL)
        kv_index_clear(x);
    free(x->counts);
    free(x->expires);
    memset(x, 0, sizeof(*x));
}

static struct kv_index_shard *kv_index_shard(const struct kv_index *x, uint64_t hash)
{
    return (struct kv_index_shard *)(uintptr_t)&x->shards[hash >> KV_INDEX_SHARD_SHIFT]; /* I1 */
}

struct kv_entry *kv_index_find(const struct kv_index *x, uint64_t hash, uint32_t database,
                               const void *key, uint32_t key_size)
{
    const struct kv_index_shard *s = kv_index_shard(x, hash);
    struct kv_entry *e;

    if (s->buckets == NULL)
        return NULL;
    for (e = s->buckets[hash & s->mask]; e != NULL; e = e->next)
        if (e->hash == hash && e->database == database && e->key_size == key_size &&
            memcmp(e->key, key, key_size) == 0)
            return e;
    return NULL;
}

/* Double a shard, or give it its first buckets. On lack of memory it stays as it is. */
static int kv_index_grow(struct kv_index *x, struct kv_index_shard *s)
{
    uint32_t old = s->buckets == NULL ? 0 : s->mask + 1;
    uint32_t size = old == 0 ? KV_INDEX_FIRST : old * 2;
    struct kv_entry **buckets;

    if (size < old)
        return SNIC_ENOMEM;
    buckets = calloc(size, sizeof(*buckets));
    if (buckets == NULL)
        return SNIC_ENOMEM;
    for (uint32_t b = 0; b < old; b++) {
        struct kv_entry *e = s->buckets[b];

        while (e != NULL) {
            struct kv_entry *next = e->next;
            struct kv_entry **to = &buckets[e->hash & (size - 1)];

            e->next = *to;
            *to = e;
            e = next;
        }
    }
    free(s->buckets);
    s->buckets = buckets;
    s->mask = size - 1;
    x->bytes += (uint64_t)(size - old) * sizeof(*buckets);
    return 0;
}

struct kv_entry *kv_index_add(struct kv_index *x, uint64_t hash, uint32_t database, const void *key,
                              uint32_t key_size)
{
    struct kv_index_shard *s = kv_index_shard(x, hash);
    struct kv_entry *e = malloc(sizeof(*e) + key_size);

    if (e == NULL)
        return NULL;
    if (s->buckets == NULL || s->count > s->mask) { /* I2 */
        if (kv_index_grow(x, s) != 0 && s->buckets == NULL) {
            free(e);
            return NULL;
        }
    }
    memset(e, 0, sizeof(*e));
    e->hash = hash;
    e->database = (uint16_t)database;
    e->key_size = key_size;
    memcpy(e->key, key, key_size);
    e->next = s->buckets[hash & s->mask];
    s->buckets[hash & s->mask] = e;
    s->count++;
    x->counts[database]++;
    x->bytes += sizeof(*e) + key_size;
    return e;
}

void kv_index_remove(struct kv_index *x, struct kv_entry *e)
{
    struct kv_index_shard *s = kv_index_shard(x, e->hash);
    struct kv_entry **at = &s->buckets[e->hash & s->mask];

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    s->count--;
    x->counts[e->database]--;
    if (e->expire_ms != 0)
        x->expires[e->database]--;
    x->bytes -= sizeof(*e) + e->key_size;
    free(e);
}

void kv_index_expire(struct kv_index *x, struct kv_entry *e, uint64_t expire_ms)
{
    if (e->expire_ms == 0 && expire_ms != 0)
        x->expires[e->database]++;
    if (e->expire_ms != 0 && expire_ms == 0)
        x->expires[e->database]--;
    e->expire_ms = expire_ms;
}

static uint64_t kv_index_reverse(uint64_t v)
{
    v = ((v >> 1) & 0x5555555555555555u) | ((v & 0x5555555555555555u) << 1);
    v = ((v >> 2) & 0x3333333333333333u) | ((v & 0x3333333333333333u) << 2);
    v = ((v >> 4) & 0x0f0f0f0f0f0f0f0fu) | ((v & 0x0f0f0f0f0f0f0f0fu) << 4);
    return __builtin_bswap64(v);
}

/* The cursor: shard in the low 12 bits, reverse-incremented bucket bits above. */
uint64_t kv_index_scan(struct kv_index *x, uint64_t cursor, uint32_t count,
                       void (*visit)(void *ctx, struct kv_entry *e), void *ctx)
{
    uint64_t shard = cursor & (KV_INDEX_SHARDS - 1);
    uint64_t v = cursor >> 12;
    uint32_t visited = 0;
    uint32_t looked = 0;

    /* Empty buckets cost little but not nothing: at most ten per wanted entry, as Redis. */
    while (visited < count && looked < count * 10 + KV_INDEX_SHARDS) {
        struct kv_index_shard *s = &x->shards[shard];
        uint64_t mask = s->buckets == NULL ? 0 : s->mask;

        if (s->buckets != NULL) {
            struct kv_entry *e = s->buckets[v & mask];

            while (e != NULL) {
                struct kv_entry *next = e->next;

                visit(ctx, e);
                visited++;
                e = next;
            }
        }
        looked++;
        v |= ~mask;
        v = kv_index_reverse(kv_index_reverse(v) + 1);
        if (v == 0 && ++shard == KV_INDEX_SHARDS)
            return 0;
    }
    return (v << 12) | shard;
}

int kv_index_reserve(struct kv_index *x)
{
    for (uint32_t i = 0; i < KV_INDEX_SHARDS; i++)
        if (x->shards[i].buckets == NULL && kv_index_grow(x, &x->shards[i]) != 0)
            return SNIC_ENOMEM;
    return 0;
}

/* Unlink every entry whose number changes. */
static struct kv_entry *kv_index_take(struct kv_index *x, const uint16_t *number)
{
    struct kv_entry *list = NULL;

    for (uint32_t i = 0; i < KV_INDEX_SHARDS; i++)
        for (uint32_t k = 0; x->shards[i].count > 0 && k <= x->shards[i].mask; k++) {
            struct kv_entry **at = &x->shards[i].buckets[k];

            while (*at != NULL) {
                struct kv_entry *e = *at;

                if (number[e->database] == e->database) {
                    at = &e->next;
                    continue;
                }
                *at = e->next;
                x->shards[i].count--;
                e->next = list;
                list = e;
            }
        }
    return list;
}

static void kv_index_renumber_counts(uint64_t *counts, uint32_t databases, const uint16_t *number)
{
    uint64_t *old = counts + databases; /* scratch */

    memcpy(old, counts, databases * sizeof(*counts));
    for (uint32_t d = 0; d < databases; d++)
        counts[number[d]] = old[d];
}

void kv_index_renumber(struct kv_index *x, const uint16_t *number,
                       void (*rehash)(void *ctx, struct kv_entry *e), void *ctx)
{
    struct kv_entry *list = kv_index_take(x, number);

    while (list != NULL) {
        struct kv_entry *e = list;
        struct kv_index_shard *s;

        list = e->next;
        e->database = number[e->database];
        rehash(ctx, e);
        s = kv_index_shard(x, e->hash);
        if (s->count > s->mask)
            (void)kv_index_grow(x, s); /* else the chains get longer */
        e->next = s->buckets[e->hash & s->mask];
        s->buckets[e->hash & s->mask] = e;
        s->count++;
    }
    kv_index_renumber_counts(x->counts, x->databases, number);
    kv_index_renumber_counts(x->expires, x->databases, number);
}

static int kv_index_bucket_check(const struct kv_index *x, uint32_t shard, uint32_t bucket,
                                 uint64_t *counts, uint64_t *expires)
{
    const struct kv_index_shard *s = &x->shards[shard];

    for (struct kv_entry *e = s->buckets[bucket]; e != NULL; e = e->next) {
        if (e->hash >> KV_INDEX_SHARD_SHIFT != shard || (e->hash & s->mask) != bucket ||
            e->database >= x->databases)
            return SNIC_ECORRUPT;
        for (struct kv_entry *o = e->next; o != NULL; o = o->next)
            if (o->hash == e->hash && o->database == e->database && o->key_size == e->key_size &&
                memcmp(o->key, e->key, e->key_size) == 0)
                return SNIC_ECORRUPT;
        counts[e->database]++;
        expires[e->database] += e->expire_ms != 0;
    }
    return 0;
}

int kv_index_check(const struct kv_index *x)
{
    uint64_t *counts = calloc(x->databases, sizeof(uint64_t));
    uint64_t *expires = calloc(x->databases, sizeof(uint64_t));
    int r = counts == NULL || expires == NULL ? SNIC_ENOMEM : 0;

    for (uint32_t i = 0; r == 0 && i < KV_INDEX_SHARDS; i++)
        for (uint32_t b = 0; r == 0 && x->shards[i].buckets != NULL && b <= x->shards[i].mask; b++)
            r = kv_index_bucket_check(x, i, b, counts, expires);
    if (r == 0 && (memcmp(counts, x->counts, x->databases * sizeof(uint64_t)) != 0 ||
                   memcmp(expires, x->expires, x->databases * sizeof(uint64_t)) != 0))
        r = SNIC_ECORRUPT; /* I3 */
    free(counts);
    free(expires);
    return r;
}
