/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * offload: what the cache is for. With more keys than entries its hit rate is that of an LRU of
 * the same size, nearly; it recovers from storms of invalidations; and whatever it serves is the
 * newest acknowledged version of its key.
 */
#include "test_offload_util.h"

#include "support/lru.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct node node;

enum { CAPACITY = 1024, KEYS_MOST = 10 * CAPACITY, FLUSHES = 64, STORM = 100000 };

/* ---- A store: writes reach the file late and in any order ---- */

struct flush {
    uint64_t version;
    uint32_t key; /* UINT32_MAX: none */
};

struct store {
    struct snic_rng rng;
    uint32_t keys;
    int refills; /* the host caches what reads missed (R8) */
    struct draw draw;
    uint64_t version;
    uint64_t newest[KEYS_MOST];  /* acknowledged */
    uint64_t durable[KEYS_MOST]; /* newest version that the file holds */
    struct flush flushes[FLUSHES];
    struct lru lru;
    uint64_t reads, hits, lru_hits;
};

static struct store st;

static void store_open(uint32_t keys, int zipf, int refills, uint64_t seed)
{
    struct snic_offload_opts o = node_opts();
    memset(&st, 0, sizeof(st));
    snic_rng_init(&st.rng, seed);
    lru_open(&st.lru, keys, CAPACITY);
    draw_open(&st.draw, keys, zipf);
    st.keys = keys;
    st.refills = refills;
    st.version = 1; /* every key was written once */
    for (uint32_t k = 0; k < keys; k++)
        st.newest[k] = st.durable[k] = 1;
    for (uint32_t i = 0; i < FLUSHES; i++)
        st.flushes[i].key = UINT32_MAX;
    o.cache_capacity = CAPACITY;
    o.cache_seed = seed;
    node_open(&node, &o, 1);
}

/* The write of @version ends: the hook of the file service puts it. */
static void store_flushed(struct flush *f)
{
    uint64_t k = f->key, item = f->version;
    if (f->key == UINT32_MAX)
        return;
    if (st.durable[k] < f->version)
        st.durable[k] = f->version;
    (void)snic_offload_put(node.o, &k, &item, f->version);
    if (f->version == st.newest[k])
        lru_put(&st.lru, f->key);
    f->key = UINT32_MAX;
}

static void store_write(uint32_t key)
{
    struct flush *f = &st.flushes[snic_rng_below(&st.rng, FLUSHES)];
    uint64_t k = key;
    store_flushed(f);
    st.newest[k] = ++st.version;
    snic_offload_invalidate(node.o, &k, st.version); /* R1 */
    lru_remove(&st.lru, key);
    *f = (struct flush){st.version, key};
}

static void store_read(uint32_t key)
{
    uint64_t k = key, item = 0, version = 0;
    st.reads++;
    if (snic_offload_get(node.o, &k, &item, &version) == 0) {
        st.hits++;
        assert_true(item == st.newest[k] && version == st.newest[k]); /* never stale */
    } else if (st.refills && st.durable[k] == st.newest[k]) {
        item = st.newest[k];
        assert_int_equal(snic_offload_cache(node.o, &k, &item, item), 1);
    }
    if (lru_get(&st.lru, key))
        st.lru_hits++;
    else if (st.refills && st.durable[k] == st.newest[k])
        lru_put(&st.lru, key);
}

/* Points of hit rate that the table is behind the LRU in the next @ops operations. */
static double store_run(uint32_t ops)
{
    st.reads = st.hits = st.lru_hits = 0;
    for (uint32_t i = 0; i < ops; i++) {
        uint32_t k = draw_key(&st.draw, &st.rng);
        if (snic_rng_below(&st.rng, 10) == 0)
            store_write(k);
        else
            store_read(k);
    }
    assert_int_equal(snic_offload_check(node.o), 0);
    return 100.0 * ((double)st.lru_hits - (double)st.hits) / (double)st.reads;
}

static void store_close(void)
{
    lru_close(&st.lru);
    draw_close(&st.draw);
    node_close(&node);
}

/** Hit rates at 0.9, 1.1, 2 and 10 times as many keys as entries. */
static void test_offload_cache_hits_like_lru(void **state)
{
    static const uint32_t tenths[] = {9, 11, 20, 100};
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(tenths); i++) {
        for (int zipf = 0; zipf < 2; zipf++) {
            for (int refills = 0; refills < 2; refills++) {
                store_open(CAPACITY / 10 * tenths[i], zipf, refills, 7 + support_seed());
                (void)store_run(20 * CAPACITY);
                double behind = store_run(200000);
                struct snic_offload_stats s;
                snic_offload_get_stats(node.o, &s);
                printf("  %4.1f x, %s, %s: %.1f %%, LRU %.1f %%; %llu tombstones\n",
                       tenths[i] / 10.0, zipf ? "Zipf   " : "uniform",
                       refills ? "misses cached" : "writes only  ",
                       100.0 * (double)st.hits / (double)st.reads,
                       100.0 * (double)st.lru_hits / (double)st.reads,
                       (unsigned long long)s.tombstones);
                assert_true(behind <= 5);
                store_close();
            }
        }
    }
}

/** Invalidations of absent keys, as many as 100 times the table: it recovers. */
static void test_offload_cache_recovers_from_storm(void **state)
{
    (void)state;
    for (int zipf = 0; zipf < 2; zipf++) {
        for (int refills = 0; refills < 2; refills++) {
            uint32_t ops = 0;
            store_open(2 * CAPACITY, zipf, refills, 7 + support_seed());
            (void)store_run(20 * CAPACITY);
            for (uint64_t k = UINT64_C(1) << 32; k < (UINT64_C(1) << 32) + STORM; k++)
                snic_offload_invalidate(node.o, &k, ++st.version);
            double behind = 100;
            while (behind > 5 && ops < 1000000) {
                behind = store_run(20000);
                ops += 20000;
            }
            printf("  %s, %s: within 5 points of LRU after %u operations\n",
                   zipf ? "Zipf" : "uniform", refills ? "misses cached" : "writes only", ops);
            assert_true(behind <= 5);
            store_close();
        }
    }
}

/** invalidate_all(), again and again: everything is gone at once, and comes back. */
static void test_offload_cache_recovers_from_clearing(void **state)
{
    (void)state;
    store_open(2 * CAPACITY, 1, 1, 7 + support_seed());
    for (int round = 0; round < 10; round++) {
        assert_true(round == 0 || store_run(50000) < 10);
        snic_offload_invalidate_all(node.o, st.version);
        for (uint32_t i = 0; i < FLUSHES; i++)
            store_flushed(&st.flushes[i]);
        snic_offload_invalidate_all(node.o, ++st.version);
        lru_clear(&st.lru);
        for (uint64_t k = 0; k < st.keys; k++)
            assert_int_equal(snic_offload_get(node.o, &k, NULL, NULL), SNIC_ENOENT);
        assert_int_equal(snic_offload_check(node.o), 0);
    }
    store_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offload_cache_hits_like_lru),
        cmocka_unit_test(test_offload_cache_recovers_from_storm),
        cmocka_unit_test(test_offload_cache_recovers_from_clearing),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
