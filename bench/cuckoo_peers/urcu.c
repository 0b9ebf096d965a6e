/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Userspace RCU's lock-free hash table, QSBR flavour: the cheapest for readers. Nodes come from an
 * array; those of deleted keys wait for a grace period, a batch at a time. It grows.
 */
#include "peer.h"

#define _LGPL_SOURCE
#include <stdlib.h>
#include <urcu-qsbr.h>
#include <urcu/rculfhash.h>

#define URCU_BATCH 8192

struct urcu_entry {
    struct cds_lfht_node node;
    uint64_t key;
    struct bench_value value;
};

struct peer {
    struct cds_lfht *ht;
    struct urcu_entry *entries;
    uint64_t entry_count;
    uint64_t used;
    struct urcu_entry *waiting[URCU_BATCH]; /* deleted, a reader may look at them */
    uint32_t waiting_count;
    struct urcu_entry *free[URCU_BATCH];
    uint32_t free_count;
};

static inline struct urcu_entry *urcu_entry_of(struct cds_lfht_node *node)
{
    return (struct urcu_entry *)(void *)((unsigned char *)node - offsetof(struct urcu_entry, node));
}

static int urcu_match(struct cds_lfht_node *node, const void *key)
{
    return urcu_entry_of(node)->key == *(const uint64_t *)key;
}

static inline struct urcu_entry *urcu_find(struct peer *p, uint64_t key)
{
    struct cds_lfht_iter iter;
    struct cds_lfht_node *node;

    cds_lfht_lookup(p->ht, bench_hash(key), urcu_match, &key, &iter);
    node = cds_lfht_iter_get_node(&iter);
    return node == NULL ? NULL : urcu_entry_of(node);
}

static inline int peer_get(struct peer *p, uint64_t key, struct bench_value *v)
{
    struct urcu_entry *e = urcu_find(p, key);

    if (e == NULL)
        return 0;
    *v = bench_value_load(&e->value);
    return 1;
}
static inline int peer_put(struct peer *p, uint64_t key, struct bench_value v)
{
    struct urcu_entry *e;
    struct cds_lfht_node *was;

    if (p->free_count > 0)
        e = p->free[--p->free_count];
    else if (p->used < p->entry_count)
        e = &p->entries[p->used++];
    else
        return 0;
    cds_lfht_node_init(&e->node);
    e->key = key;
    bench_value_store(&e->value, v);
    was = cds_lfht_add_unique(p->ht, bench_hash(key), urcu_match, &key, &e->node);
    if (was != &e->node) {
        bench_value_store(&urcu_entry_of(was)->value, v);
        p->free[p->free_count++] = e;
    }
    return 1;
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
    struct urcu_entry *e = urcu_find(p, key);

    if (e == NULL || cds_lfht_del(p->ht, &e->node) != 0)
        return;
    p->waiting[p->waiting_count++] = e;
    if (p->waiting_count < URCU_BATCH / 2)
        return;
    urcu_qsbr_synchronize_rcu();
    while (p->waiting_count > 0 && p->free_count < URCU_BATCH)
        p->free[p->free_count++] = p->waiting[--p->waiting_count];
}
static inline void peer_enter(struct peer *p, int writer)
{
    (void)p;
    (void)writer;
    urcu_qsbr_register_thread();
}
static inline void peer_pause(struct peer *p, int writer)
{
    (void)p;
    (void)writer;
    urcu_qsbr_quiescent_state();
}
static inline void peer_leave(struct peer *p, int writer)
{
    (void)p;
    (void)writer;
    urcu_qsbr_unregister_thread();
}

#include "loops.h"

static void *urcu_open(uint64_t slots)
{
    struct peer *p = calloc(1, sizeof(*p));
    uint64_t buckets = 1;

    if (p == NULL)
        return NULL;
    while (buckets < slots)
        buckets *= 2;
    p->entry_count = slots + URCU_BATCH;
    p->entries = bench_map(p->entry_count * sizeof(*p->entries));
    urcu_qsbr_register_thread();
    p->ht = cds_lfht_new_flavor(buckets, buckets, 0, 0, &urcu_qsbr_flavor, NULL);
    urcu_qsbr_unregister_thread();
    if (p->entries == NULL || p->ht == NULL) {
        free(p);
        return NULL;
    }
    return p;
}

static void urcu_close(void *table)
{
    struct peer *p = table;
    struct cds_lfht_iter iter;
    struct cds_lfht_node *node;

    urcu_qsbr_register_thread();
    cds_lfht_for_each(p->ht, &iter, node) cds_lfht_del(p->ht, node);
    urcu_qsbr_unregister_thread();
    cds_lfht_destroy(p->ht, NULL);
    bench_unmap(p->entries, p->entry_count * sizeof(*p->entries));
    free(p);
}

static uint64_t urcu_bytes(void *table)
{
    return ((struct peer *)table)->entry_count * sizeof(struct urcu_entry);
}

const struct bench_peer bench_urcu = {
    "urcu_lfht", 0, 0, urcu_open, urcu_close, loop_insert, NULL, loop_run, urcu_bytes,
};
