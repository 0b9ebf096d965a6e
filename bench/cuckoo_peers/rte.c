/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * DPDK's rte_hash, one writer with lock-free readers. Items are an array indexed by the position it
 * gives a key; positions of deleted keys are freed in order, with a delay that stands for the grace
 * period its user has to provide. Its memory is advised to use huge pages, as every peer's is.
 */
#include "peer.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#pragma GCC diagnostic pop

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define RTE_DELAY 4096

struct peer {
    struct rte_hash *h;
    struct bench_value *items;
    uint64_t item_count;
    size_t heap_before;
    int32_t waiting[RTE_DELAY];
    uint64_t waiting_head;
};

static uint32_t rte_hash_fn(const void *key, uint32_t size, uint32_t seed)
{
    uint64_t k;

    (void)size;
    (void)seed;
    memcpy(&k, key, sizeof(k));
    return (uint32_t)bench_hash(k);
}

static inline int peer_put(struct peer *p, uint64_t key, struct bench_value v)
{
    int32_t at = rte_hash_add_key(p->h, &key);

    if (at < 0)
        return 0;
    bench_value_store(&p->items[at], v);
    return 1;
}
static inline int peer_get(struct peer *p, uint64_t key, struct bench_value *v)
{
    int32_t at = rte_hash_lookup(p->h, &key);

    if (at < 0)
        return 0;
    *v = bench_value_load(&p->items[at]);
    return 1;
}
static inline uint64_t peer_get_n(struct peer *p, const uint64_t *keys, struct bench_value *v)
{
    const void *pointers[BENCH_BATCH];
    int32_t at[BENCH_BATCH];
    uint64_t found = 0;

    for (uint32_t i = 0; i < BENCH_BATCH; i++)
        pointers[i] = &keys[i];
    rte_hash_lookup_bulk(p->h, pointers, BENCH_BATCH, at);
    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        if (at[i] >= 0)
            __builtin_prefetch(&p->items[at[i]]);
    }
    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        if (at[i] >= 0) {
            v[i] = bench_value_load(&p->items[at[i]]);
            found |= UINT64_C(1) << i;
        }
    }
    return found;
}
static inline void peer_del(struct peer *p, uint64_t key)
{
    int32_t at = rte_hash_del_key(p->h, &key);
    int32_t *slot = &p->waiting[p->waiting_head % RTE_DELAY];

    if (at < 0)
        return;
    if (p->waiting_head++ >= RTE_DELAY)
        (void)rte_hash_free_key_with_position(p->h, *slot);
    *slot = at;
}
static inline void peer_enter(struct peer *p, int writer)
{
    (void)p;
    (void)writer;
}
#define peer_pause peer_enter
#define peer_leave peer_enter

#include "loops.h"

static int rte_advise(const struct rte_memseg_list *list, void *ctx)
{
    (void)ctx;
    (void)madvise(list->base_va, list->len, MADV_HUGEPAGE);
    return 0;
}

/* Once per process: the library cannot be stopped and started again. */
static int rte_start(uint64_t slots)
{
    static int state; /* 0: not yet, 1: runs, -1: does not */
    char mib[32];
    cpu_set_t cpus;
    char *argv[] = {(char *)"bench",
                    (char *)"--no-huge",
                    (char *)"--no-shconf",
                    (char *)"-m",
                    mib,
                    (char *)"--no-pci",
                    (char *)"-l0",
                    (char *)"--no-telemetry",
                    (char *)"--log-level=critical"};

    if (state != 0)
        return state;
    snprintf(mib, sizeof(mib), "%llu", (unsigned long long)(slots * 56 / 1048576 + 256));
    pthread_getaffinity_np(pthread_self(), sizeof(cpus), &cpus);
    state = rte_eal_init((int)(sizeof(argv) / sizeof(argv[0])), argv) < 0 ? -1 : 1;
    pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus); /* it has pinned this thread */
    if (state < 0)
        fprintf(stderr, "rte_hash: EAL: %s\n", rte_strerror(rte_errno));
    else
        (void)rte_memseg_list_walk(rte_advise, NULL);
    return state;
}

static size_t rte_heap(void)
{
    struct rte_malloc_socket_stats s;

    return rte_malloc_get_socket_stats(0, &s) == 0 ? s.heap_allocsz_bytes : 0;
}

static void *rte_open(uint64_t slots)
{
    struct rte_hash_parameters o = {
        .name = "bench",
        .entries = (uint32_t)slots,
        .key_len = 8,
        .hash_func = rte_hash_fn,
        .socket_id = 0,
        .extra_flag = RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF,
    };
    struct peer *p;

    if (rte_start(slots) < 0)
        return NULL;
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->heap_before = rte_heap();
    p->h = rte_hash_create(&o);
    if (p->h == NULL) {
        fprintf(stderr, "rte_hash: %s\n", rte_strerror(rte_errno));
        free(p);
        return NULL;
    }
    p->item_count = (uint64_t)rte_hash_max_key_id(p->h) + 1;
    p->items = bench_map(p->item_count * sizeof(*p->items));
    return p;
}

static void rte_close(void *table)
{
    struct peer *p = table;

    rte_hash_free(p->h);
    bench_unmap(p->items, p->item_count * sizeof(*p->items));
    free(p);
}

static uint64_t rte_bytes(void *table)
{
    struct peer *p = table;

    return rte_heap() - p->heap_before + p->item_count * sizeof(*p->items);
}

const struct bench_peer bench_rte = {
    "rte_hash", 1, 1, rte_open, rte_close, loop_insert, NULL, loop_run, rte_bytes,
};
