/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Concurrency Kit's ck_ht, one writer and many readers. Its values are one word: here the number of
 * an item in an array. Items of deleted keys are reused in the order of deletion. It grows.
 */
#include "peer.h"

#include <ck_ht.h>
#include <stdlib.h>

struct peer {
    ck_ht_t ht;
    struct bench_value *items;
    uint32_t *unused; /* ring of item numbers */
    uint64_t unused_head;
    uint64_t unused_tail;
    uint64_t item_count;
};

static void *ck_take(size_t bytes)
{
    return malloc(bytes);
}
static void ck_give(void *memory, size_t bytes, bool later)
{
    (void)bytes;
    /* After growing, readers may still look at the old map; none runs while this program grows it.
     */
    (void)later;
    free(memory);
}
static struct ck_malloc ck_memory = {.malloc = ck_take, .free = ck_give};

static inline int peer_get(struct peer *p, uint64_t key, struct bench_value *v)
{
    ck_ht_entry_t e;
    ck_ht_hash_t h = {bench_hash(key)};

    ck_ht_entry_key_set_direct(&e, key);
    if (!ck_ht_get_spmc(&p->ht, h, &e))
        return 0;
    *v = bench_value_load(&p->items[ck_ht_entry_value_direct(&e)]);
    return 1;
}
static inline int peer_put(struct peer *p, uint64_t key, struct bench_value v)
{
    ck_ht_entry_t e;
    ck_ht_hash_t h = {bench_hash(key)};
    uint32_t item;

    ck_ht_entry_key_set_direct(&e, key);
    if (ck_ht_get_spmc(&p->ht, h, &e)) {
        bench_value_store(&p->items[ck_ht_entry_value_direct(&e)], v);
        return 1;
    }
    if (p->unused_head == p->unused_tail)
        return 0;
    item = p->unused[p->unused_head++ % p->item_count];
    bench_value_store(&p->items[item], v);
    ck_ht_entry_set_direct(&e, h, key, item);
    return ck_ht_put_spmc(&p->ht, h, &e);
}
static inline uint64_t peer_get_n(struct peer *p, const uint64_t *keys, struct bench_value *v)
{
    (void)p;
    (void)keys;
    (void)v;
    return 0;
}
static inline void peer_del(struct peer *p, uint64_t key)
{
    ck_ht_entry_t e;
    ck_ht_hash_t h = {bench_hash(key)};

    ck_ht_entry_key_set_direct(&e, key);
    if (ck_ht_remove_spmc(&p->ht, h, &e))
        p->unused[p->unused_tail++ % p->item_count] = (uint32_t)ck_ht_entry_value_direct(&e);
}
static inline void peer_enter(struct peer *p, int writer)
{
    (void)p;
    (void)writer;
}
#define peer_pause peer_enter
#define peer_leave peer_enter

#include "loops.h"

/* Required by the library; the loops bring their own hash values. */
static void ck_hash(ck_ht_hash_t *h, const void *key, size_t size, uint64_t seed)
{
    (void)size;
    (void)seed;
    h->value = bench_hash((uintptr_t)key);
}

static void ck_close(void *table)
{
    struct peer *p = table;

    ck_ht_destroy(&p->ht);
    bench_unmap(p->items, p->item_count * sizeof(*p->items));
    free(p->unused);
    free(p);
}

static void *ck_open(uint64_t slots)
{
    struct peer *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    p->item_count = slots;
    p->items = bench_map(slots * sizeof(*p->items));
    p->unused = malloc(slots * sizeof(*p->unused));
    if (p->items == NULL || p->unused == NULL ||
        !ck_ht_init(&p->ht, CK_HT_MODE_DIRECT | CK_HT_WORKLOAD_DELETE, ck_hash, &ck_memory, slots,
                    BENCH_SEED)) {
        free(p);
        return NULL;
    }
    for (uint64_t i = 0; i < slots; i++)
        p->unused[i] = (uint32_t)i;
    p->unused_tail = slots;
    return p;
}

static uint64_t ck_bytes(void *table)
{
    return ((struct peer *)table)->item_count * sizeof(struct bench_value);
}

const struct bench_peer bench_ck = {
    "ck_ht", 0, 0, ck_open, ck_close, loop_insert, NULL, loop_run, ck_bytes,
};
