/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * LRU and ARC (Megiddo and Modha, FAST 2003, figure 4), both fully associative and as published.
 * A node describes one page: a cached one, or for ARC also one on its two ghost lists.
 */
#include "peer.h"

#include <stdlib.h>

struct node {
    uint64_t ino, lpn;
    uint32_t next, prev;
    uint32_t list;
};

/* Nodes 0..3 are the heads of the lists T1, T2, B1, B2 (LRU has only T1); pages begin at node 4. */
enum { T1, T2, B1, B2, LISTS };

struct lists {
    struct hcache_index x; /* page -> node */
    struct node *n;
    uint64_t size[LISTS];
    uint32_t *spare; /* free nodes */
    uint64_t spares;
    uint64_t c, p; /* as in the paper: capacity in pages, target size of T1 */
};

static void lists_close(void *cache)
{
    struct lists *l = cache;

    hcache_index_close(&l->x);
    free(l->n);
    free(l->spare);
    free(l);
}

static void *lists_open(uint64_t pages)
{
    struct lists *l = calloc(1, sizeof(*l));
    uint64_t nodes = 2 * pages + 2;
    uint32_t i;

    if (l == NULL)
        return NULL;
    l->c = pages;
    l->n = calloc(nodes + LISTS, sizeof(*l->n));
    l->spare = calloc(nodes, sizeof(*l->spare));
    if (l->n == NULL || l->spare == NULL || hcache_index_open(&l->x, nodes) != 0) {
        lists_close(l);
        return NULL;
    }
    for (i = 0; i < LISTS; i++)
        l->n[i].next = l->n[i].prev = i;
    for (; l->spares < nodes; l->spares++)
        l->spare[l->spares] = (uint32_t)(LISTS + l->spares);
    return l;
}

static void lists_remove(struct lists *l, uint32_t i)
{
    l->n[l->n[i].prev].next = l->n[i].next;
    l->n[l->n[i].next].prev = l->n[i].prev;
    l->size[l->n[i].list]--;
}

/* Insert at the front, the most recently used end. */
static void lists_push(struct lists *l, uint32_t i, uint32_t list)
{
    l->n[i].list = list;
    l->n[i].prev = list;
    l->n[i].next = l->n[list].next;
    l->n[l->n[list].next].prev = i;
    l->n[list].next = i;
    l->size[list]++;
}

static void lists_move(struct lists *l, uint32_t i, uint32_t list)
{
    lists_remove(l, i);
    lists_push(l, i, list);
}

/* Drop the page from the cache and from the ghost lists. */
static void lists_forget(struct lists *l, uint32_t i)
{
    lists_remove(l, i);
    *hcache_index_at(&l->x, l->n[i].ino, l->n[i].lpn) = UINT32_MAX;
    l->spare[l->spares++] = i;
}

static void lists_new(struct lists *l, uint64_t ino, uint64_t lpn, uint32_t list)
{
    uint32_t i = l->spare[--l->spares];

    l->n[i].ino = ino;
    l->n[i].lpn = lpn;
    *hcache_index_at(&l->x, ino, lpn) = i;
    lists_push(l, i, list);
}

/* @return the page's node; 0: unknown */
static uint32_t lists_find(struct lists *l, uint64_t ino, uint64_t lpn)
{
    uint32_t v = *hcache_index_at(&l->x, ino, lpn);

    return v == UINT32_MAX ? 0 : v;
}

static int lru_access(void *cache, uint64_t ino, uint64_t lpn)
{
    struct lists *l = cache;
    uint32_t i = lists_find(l, ino, lpn);

    if (i != 0) {
        lists_move(l, i, T1);
        return 1;
    }
    if (l->size[T1] == l->c)
        lists_forget(l, l->n[T1].prev);
    lists_new(l, ino, lpn, T1);
    return 0;
}

static void arc_replace(struct lists *l, int in_b2)
{
    if (l->size[T1] != 0 && (l->size[T1] > l->p || (in_b2 && l->size[T1] == l->p)))
        lists_move(l, l->n[T1].prev, B1);
    else
        lists_move(l, l->n[T2].prev, B2);
}

/* The paper's delta: by how much a hit in the ghost list of @p hit pages moves the target p. */
static uint64_t arc_delta(uint64_t other, uint64_t hit)
{
    return other >= hit && hit != 0 ? other / hit : 1;
}

static int arc_access(void *cache, uint64_t ino, uint64_t lpn)
{
    struct lists *l = cache;
    uint32_t i = lists_find(l, ino, lpn);
    uint64_t delta;

    if (i != 0 && l->n[i].list <= T2) {
        lists_move(l, i, T2);
        return 1;
    }
    if (i != 0 && l->n[i].list == B1) {
        delta = arc_delta(l->size[B2], l->size[B1]);
        l->p = l->p + delta < l->c ? l->p + delta : l->c;
        arc_replace(l, 0);
        lists_move(l, i, T2);
        return 0;
    }
    if (i != 0) {
        delta = arc_delta(l->size[B1], l->size[B2]);
        l->p = l->p > delta ? l->p - delta : 0;
        arc_replace(l, 1);
        lists_move(l, i, T2);
        return 0;
    }
    if (l->size[T1] + l->size[B1] == l->c) {
        if (l->size[T1] < l->c) {
            lists_forget(l, l->n[B1].prev);
            arc_replace(l, 0);
        } else {
            lists_forget(l, l->n[T1].prev);
        }
    } else if (l->size[T1] + l->size[T2] + l->size[B1] + l->size[B2] >= l->c) {
        if (l->size[T1] + l->size[T2] + l->size[B1] + l->size[B2] == 2 * l->c)
            lists_forget(l, l->n[B2].prev);
        arc_replace(l, 0);
    }
    lists_new(l, ino, lpn, T1);
    return 0;
}

const struct hcache_peer hcache_peer_lru = {"lru", lists_open, lru_access, lists_close};
const struct hcache_peer hcache_peer_arc = {"arc", lists_open, arc_access, lists_close};

const struct hcache_peer *const hcache_peers[] = {&hcache_peer_ours, &hcache_peer_ours_clock,
                                                  &hcache_peer_lru, &hcache_peer_arc, NULL};
