/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The cache table of this library. */
#include "peer.h"

#include "snicstore/cuckoo.h"

#include <stdlib.h>

struct peer {
    struct snic_cuckoo *t;
    void *memory;
    uint64_t bytes;
};

static inline int peer_put(struct peer *p, uint64_t key, struct bench_value v)
{
    return snic_cuckoo_put(p->t, &key, &v) >= 0;
}
static inline int peer_get(struct peer *p, uint64_t key, struct bench_value *v)
{
    return snic_cuckoo_get(p->t, &key, v) == 0;
}
static inline uint64_t peer_get_n(struct peer *p, const uint64_t *keys, struct bench_value *v)
{
    return snic_cuckoo_get_n(p->t, keys, BENCH_BATCH, v);
}
static inline void peer_del(struct peer *p, uint64_t key)
{
    (void)snic_cuckoo_del(p->t, &key);
}
static inline void peer_enter(struct peer *p, int writer)
{
    (void)p;
    (void)writer;
}
#define peer_pause peer_enter
#define peer_leave peer_enter

#include "loops.h"

static uint64_t ours_insert_bulk(void *table, uint64_t first, uint64_t end)
{
    struct peer *p = table;
    uint64_t n = first;

    while (n < end) {
        uint32_t many = end - n < BENCH_BATCH ? (uint32_t)(end - n) : BENCH_BATCH;
        uint64_t keys[BENCH_BATCH];
        struct bench_value v[BENCH_BATCH];
        uint32_t done;

        for (uint32_t i = 0; i < many; i++) {
            keys[i] = bench_key(n + i);
            v[i].a = n + i;
            v[i].b = ~v[i].a;
        }
        done = snic_cuckoo_put_n(p->t, keys, v, many);
        n += done;
        if (done < many)
            break;
    }
    return n - first;
}

static void *ours_open(uint64_t slots)
{
    struct snic_cuckoo_opts o = {sizeof(o), 8, 16, 0, slots, BENCH_SEED};
    struct peer *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    p->bytes = snic_cuckoo_memsize(&o);
    p->memory = bench_map(p->bytes);
    if (p->memory == NULL || snic_cuckoo_init(&p->t, p->memory, p->bytes, &o) != 0) {
        free(p);
        return NULL;
    }
    return p;
}

static void ours_close(void *table)
{
    struct peer *p = table;

    bench_unmap(snic_cuckoo_fini(p->t), p->bytes);
    free(p);
}

static uint64_t ours_bytes(void *table)
{
    return ((struct peer *)table)->bytes;
}

const struct bench_peer bench_ours = {
    "ours", 1, 1, ours_open, ours_close, loop_insert, ours_insert_bulk, loop_run, ours_bytes,
};
