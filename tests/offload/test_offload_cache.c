/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** offload: the versioned cache against a model, and where it is too small for what it should know.
 */
#include "test_offload_util.h"

#include <string.h>

static struct node node;

enum { KEYS = 40 };

/* Ten lines: per key the newest version known and its item; a floor for what is not known. */
struct model {
    uint64_t version[KEYS];
    uint64_t item[KEYS]; /* 0: a tombstone */
    int known[KEYS];
    uint64_t floor;
};

static int model_put(struct model *m, uint64_t k, uint64_t item, uint64_t v, int bound)
{
    if ((bound && v < m->floor) || (m->known[k] && m->version[k] > v))
        return 0;
    m->known[k] = 1;
    m->version[k] = v;
    m->item[k] = item;
    return 1;
}

static void cache_open(struct node *n, uint64_t capacity)
{
    struct snic_offload_opts o = node_opts();
    o.cache_capacity = capacity;
    o.cache_seed = support_seed();
    node_open(n, &o, 1);
}

static void cache_agrees(struct node *n, const struct model *m)
{
    for (uint64_t k = 0; k < KEYS; k++) {
        uint64_t item = 0, v = 0;
        int r = snic_offload_get(n->o, &k, &item, &v);
        if (m->known[k] && m->item[k] != 0) {
            assert_int_equal(r, 0);
            assert_true(item == m->item[k] && v == m->version[k]);
        } else {
            assert_int_equal(r, SNIC_ENOENT);
        }
    }
}

/** Every operation in every order agrees with the model while there is room. */
static void test_offload_cache_agrees_with_model(void **state)
{
    struct snic_rng rng;
    (void)state;
    for (uint64_t s = 0; s < support_scale(20, 500); s++) {
        struct model m;
        memset(&m, 0, sizeof(m));
        snic_rng_init(&rng, support_seed() * 1000 + s);
        cache_open(&node, 200);
        for (int i = 0; i < 400; i++) {
            uint64_t k = snic_rng_below(&rng, KEYS);
            uint64_t v = 1 + snic_rng_below(&rng, 30) + (uint64_t)i / 20;
            uint64_t item = 1 + snic_rng_next(&rng) % 1000000;
            switch (snic_rng_below(&rng, 10)) {
            case 0:
            case 1:
            case 2:
                snic_offload_invalidate(node.o, &k, v);
                if (!m.known[k] || m.version[k] < v) {
                    m.known[k] = 1;
                    m.version[k] = v;
                    m.item[k] = 0;
                }
                break;
            case 3:
                snic_offload_forget(node.o, &k, v);
                if (m.known[k] && m.version[k] <= v)
                    m.known[k] = 0;
                break;
            case 4:
                if (snic_rng_below(&rng, 20) == 0) {
                    snic_offload_invalidate_all(node.o, v);
                    m.floor = m.floor > v ? m.floor : v;
                    memset(m.known, 0, sizeof(m.known));
                }
                break;
            case 5:
                assert_int_equal(snic_offload_cache(node.o, &k, &item, v),
                                 model_put(&m, k, item, v, 0));
                break;
            default:
                assert_int_equal(snic_offload_put(node.o, &k, &item, v),
                                 model_put(&m, k, item, v, 1));
                break;
            }
            struct snic_offload_stats st;
            snic_offload_get_stats(node.o, &st);
            assert_true(st.floor == m.floor);
            cache_agrees(&node, &m);
            assert_int_equal(snic_offload_check(node.o), 0);
        }
        node_close(&node);
    }
}

/**
 * The staleness race: flushes of old versions come late, in any order, into a table that is too
 * small for its tombstones. What the table serves is never older than the last invalidation.
 */
static void test_offload_full_table_never_serves_stale(void **state)
{
    struct snic_rng rng;
    (void)state;
    uint64_t raised = 0;
    for (uint64_t s = 0; s < support_scale(30, 1000); s++) {
        uint64_t newest[KEYS] = {0}; /* last invalidated */
        snic_rng_init(&rng, support_seed() * 991 + s);
        cache_open(&node, 12);
        for (uint64_t v = 1; v < 500; v++) {
            uint64_t k = snic_rng_below(&rng, KEYS);
            uint64_t got = 0, item;
            snic_offload_invalidate(node.o, &k, v);
            newest[k] = v;
            for (int late = 0; late < 3; late++) {
                uint64_t j = snic_rng_below(&rng, KEYS);
                uint64_t old = newest[j] == 0 ? 0 : newest[j] - snic_rng_below(&rng, newest[j]);
                item = old;
                if (old > 0)
                    (void)snic_offload_put(node.o, &j, &item, old);
            }
            for (k = 0; k < KEYS; k++) {
                if (snic_offload_get(node.o, &k, &item, &got) != 0)
                    continue;
                assert_true(got >= newest[k]);
                assert_true(item == got);
            }
        }
        struct snic_offload_stats st;
        snic_offload_get_stats(node.o, &st);
        raised += st.floors_raised;
        assert_int_equal(snic_offload_check(node.o), 0);
        node_close(&node);
    }
    assert_true(raised > 0);
}

/** Versions at the ends of their range. */
static void test_offload_cache_version_limits(void **state)
{
    uint64_t k = 1, item = 5, v = 0;
    (void)state;
    cache_open(&node, 16);
    assert_int_equal(snic_offload_put(node.o, &k, &item, SNIC_OFFLOAD_VERSION_MAX + 1),
                     SNIC_ERANGE);
    assert_int_equal(snic_offload_cache(node.o, &k, &item, UINT64_MAX), SNIC_ERANGE);
    assert_int_equal(snic_offload_put(node.o, &k, &item, 0), 1);
    assert_int_equal(snic_offload_put(node.o, &k, &item, SNIC_OFFLOAD_VERSION_MAX), 1);
    assert_int_equal(snic_offload_get(node.o, &k, NULL, &v), 0);
    assert_true(v == SNIC_OFFLOAD_VERSION_MAX);
    snic_offload_invalidate(node.o, &k, UINT64_MAX); /* counts as the largest: not older */
    assert_int_equal(snic_offload_get(node.o, &k, NULL, NULL), 0);
    snic_offload_forget(node.o, &k, SNIC_OFFLOAD_VERSION_MAX);
    assert_int_equal(snic_offload_get(node.o, &k, NULL, NULL), SNIC_ENOENT);
    snic_offload_invalidate_all(node.o, UINT64_MAX);
    assert_int_equal(snic_offload_put(node.o, &k, &item, SNIC_OFFLOAD_VERSION_MAX - 1), 0);
    assert_int_equal(snic_offload_put(node.o, &k, &item, SNIC_OFFLOAD_VERSION_MAX), 1);
    node_close(&node);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offload_cache_agrees_with_model),
        cmocka_unit_test(test_offload_full_table_never_serves_stale),
        cmocka_unit_test(test_offload_cache_version_limits),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
