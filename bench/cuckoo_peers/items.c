/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Our table over item sizes (the paper's Fig. 22): 8-byte keys, 2^20 slots, inserts to a load of
 * .85 and hits, by one thread.
 */
#include "peer.h"

#include "snicstore/cuckoo.h"

#include <stdio.h>
#include <stdlib.h>

#define ITEMS_SLOTS ((uint64_t)1 << 20)
#define ITEMS_KEYS (ITEMS_SLOTS / 100 * 85)
#define ITEMS_REPEATS_MAX 31

struct items_table {
    struct snic_cuckoo *t;
    void *memory;
    size_t bytes;
    uint32_t item_size;
};

static int items_open(struct items_table *x, uint32_t item_size)
{
    struct snic_cuckoo_opts o = {sizeof(o), 8, item_size, 0, ITEMS_SLOTS, BENCH_SEED};

    x->item_size = item_size;
    x->bytes = snic_cuckoo_memsize(&o);
    x->memory = bench_map(x->bytes);
    return x->memory != NULL && snic_cuckoo_init(&x->t, x->memory, x->bytes, &o) == 0;
}

static uint64_t items_insert(struct items_table *x)
{
    unsigned char item[SNIC_CUCKOO_ITEM_MAX];
    uint64_t wrong = 0;

    for (uint64_t n = 0; n < ITEMS_KEYS; n++) {
        uint64_t key = bench_key(n);

        memset(item, (int)n, 8);
        wrong += snic_cuckoo_put(x->t, &key, item) != 0;
    }
    return wrong;
}

static uint64_t items_hits(struct items_table *x, double seconds, uint64_t *ops)
{
    uint64_t end = bench_clock(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    unsigned char item[SNIC_CUCKOO_ITEM_MAX];
    uint64_t state = 1;
    uint64_t wrong = 0;

    do {
        for (uint32_t i = 0; i < BENCH_CHUNK; i++) {
            uint64_t n = bench_next(&state, ITEMS_KEYS);
            uint64_t key = bench_key(n);

            wrong += snic_cuckoo_get(x->t, &key, item) != 0;
            wrong += item[0] != (unsigned char)n;
        }
        *ops += BENCH_CHUNK;
    } while (bench_clock(CLOCK_MONOTONIC) < end);
    return wrong;
}

static int items_by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void items_print(const struct items_table *x, const char *what, double *rates,
                        uint32_t repeats)
{
    double rate;

    qsort(rates, repeats, sizeof(rates[0]), items_by_value);
    rate = rates[repeats / 2];
    printf("row cuckoo item_%u_%s ours 1 %.2f Mop/s\n", x->item_size, what, rate);
    /* One thread that never sleeps: its time is its CPU time. */
    printf("row cuckoo item_%u_%s_cpu ours 1 %.1f ns/op\n", x->item_size, what, 1e3 / rate);
}

int bench_items(uint32_t repeats, double seconds)
{
    static const uint32_t sizes[] = {8, 16, 32, 64, 128, 256};
    uint64_t wrong = 0;

    for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        double insert[ITEMS_REPEATS_MAX];
        double hit[ITEMS_REPEATS_MAX];
        struct items_table x;

        if (!items_open(&x, sizes[i]))
            return 1;
        for (uint32_t r = 0; r < repeats; r++) {
            uint64_t start;
            uint64_t ops = 0;

            snic_cuckoo_clear(x.t);
            start = bench_clock(CLOCK_MONOTONIC);
            wrong += items_insert(&x);
            insert[r] = (double)ITEMS_KEYS * 1e3 / (double)(bench_clock(CLOCK_MONOTONIC) - start);
            start = bench_clock(CLOCK_MONOTONIC);
            wrong += items_hits(&x, seconds / 2, &ops);
            hit[r] = (double)ops * 1e3 / (double)(bench_clock(CLOCK_MONOTONIC) - start);
        }
        items_print(&x, "insert", insert, repeats);
        items_print(&x, "hit", hit, repeats);
        bench_unmap(snic_cuckoo_fini(x.t), x.bytes);
    }
    if (wrong > 0)
        printf("row cuckoo item_wrong_results ours 1 %llu count\n", (unsigned long long)wrong);
    return wrong > 0;
}
