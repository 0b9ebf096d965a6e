/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** cuckoo: full tables that drop entries for new ones. */
#include "snicstore/cuckoo.h"
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { SLOTS = 256, KEYS = 4 * SLOTS };

struct item {
    uint64_t version;
    uint64_t proof; /* a function of key and version */
};

struct table {
    struct snic_cuckoo *t;
    unsigned char *mem;
    uint64_t version[KEYS]; /* 0: not there */
    /* of the running update */
    uint64_t key;
    struct item store;
    uint32_t asked;
    int64_t best;
    int64_t floor; /* items of a lower version have a negative rank */
    uint64_t victim;
    uint32_t dropped;
};

static uint64_t proof_of(uint64_t key, uint64_t version)
{
    return (key + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ version * 31;
}

static void table_open(struct table *x, uint64_t seed)
{
    struct snic_cuckoo_opts o = {sizeof(o), 8, sizeof(struct item), SNIC_CUCKOO_EVICT, SLOTS, seed};
    size_t size = snic_cuckoo_memsize(&o);
    memset(x, 0, sizeof(*x));
    x->mem = support_guard_alloc(size, SNIC_CUCKOO_ALIGN);
    assert_int_equal(snic_cuckoo_init(&x->t, x->mem, size, &o), 0);
}

static void table_close(struct table *x)
{
    assert_ptr_equal(snic_cuckoo_fini(x->t), x->mem);
    support_guard_free(x->mem);
}

static enum snic_cuckoo_verdict store(void *ctx, void *item, int resident)
{
    struct table *x = ctx;
    assert_int_equal(resident, x->version[x->key] != 0);
    memcpy(item, &x->store, sizeof(x->store));
    return SNIC_CUCKOO_STORE;
}

/* The oldest version goes. */
static int64_t rank(void *ctx, const void *key, const void *item, uint32_t age)
{
    struct table *x = ctx;
    struct item i;
    uint64_t k;
    (void)age;
    memcpy(&i, item, sizeof(i));
    memcpy(&k, key, sizeof(k));
    assert_true(k < KEYS && x->version[k] == i.version && i.proof == proof_of(k, i.version));
    int64_t r = (int64_t)i.version < x->floor ? -1 : INT64_MAX - (int64_t)i.version;
    if (r > x->best) {
        x->best = r;
        x->victim = k;
    }
    x->asked++;
    return r;
}

static void dropped(void *ctx, const void *key, const void *item)
{
    struct table *x = ctx;
    struct item i;
    uint64_t k;
    memcpy(&i, item, sizeof(i));
    memcpy(&k, key, sizeof(k));
    assert_true(k == x->victim && i.version == x->version[k]);
    x->version[k] = 0;
    x->dropped++;
}

static int table_put(struct table *x, uint64_t key, uint64_t version)
{
    static const struct snic_cuckoo_evict e = {rank, dropped};
    x->key = key;
    x->store = (struct item){version, proof_of(key, version)};
    x->asked = x->dropped = 0;
    x->best = -1;
    int r = snic_cuckoo_update_evict(x->t, &key, x, store, &e);
    if (r == 0)
        x->version[key] = version;
    return r;
}

/** The entry of the largest rank of eight goes, nothing else is lost, none goes without need. */
static void test_cuckoo_evict_largest_rank_goes(void **state)
{
    struct snic_cuckoo_stats s;
    struct snic_rng rng;
    struct table x;
    uint64_t evicted = 0;
    (void)state;
    snic_rng_init(&rng, support_seed());
    table_open(&x, support_seed());
    for (uint64_t v = 1; v < 20000; v++) {
        uint64_t k = snic_rng_below(&rng, KEYS);
        uint64_t before = snic_cuckoo_count(x.t);
        int was = x.version[k] != 0;
        x.floor = v % 5 == 0 ? (int64_t)v : 0; /* none may go */
        int r = table_put(&x, k, v);
        if (r != 0) {
            assert_int_equal(r, SNIC_ENOSPC);
            assert_true(x.floor > 0 && x.asked > 0 && x.dropped == 0);
        }
        assert_true(x.dropped <= 1 && (x.asked == 0 || x.asked == 4 || x.asked == 8));
        assert_true(x.dropped == 0 || before >= SLOTS / 16 * 15 || x.asked == 4);
        assert_int_equal(snic_cuckoo_count(x.t), before + (r == 0 && !was) - x.dropped);
        evicted += x.dropped;
        if (v % 64 == 0) {
            for (k = 0; k < KEYS; k++) {
                struct item i;
                r = snic_cuckoo_get(x.t, &k, &i);
                assert_int_equal(r, x.version[k] != 0 ? 0 : SNIC_ENOENT);
                assert_true(r != 0 || i.version == x.version[k]);
            }
            assert_int_equal(snic_cuckoo_check(x.t), 0);
        }
    }
    snic_cuckoo_get_stats(x.t, &s);
    assert_true(evicted > 1000 && s.evictions == evicted && s.count >= SLOTS / 16 * 15);
    table_close(&x);
}

static enum snic_cuckoo_verdict touch_store(void *ctx, void *item, int resident)
{
    (void)resident;
    memcpy(item, ctx, sizeof(struct item));
    return SNIC_CUCKOO_STORE;
}

static int64_t rank_age(void *ctx, const void *key, const void *item, uint32_t age)
{
    (void)ctx;
    (void)key;
    (void)item;
    return age;
}

/** By age: keys that are used now and then stay, whatever streams past them. */
static void test_cuckoo_evict_by_age_keeps_what_is_used(void **state)
{
    static const struct snic_cuckoo_evict e = {rank_age, NULL};
    struct item item = {1, 1};
    struct table x;
    uint32_t hits = 0;
    (void)state;
    table_open(&x, support_seed());
    for (uint64_t n = 0; n < 100 * SLOTS; n++) {
        uint64_t k = 1000 + n;
        uint64_t used = n % (SLOTS / 4);
        assert_int_equal(snic_cuckoo_update_evict(x.t, &k, &item, touch_store, &e), 0);
        if (snic_cuckoo_get(x.t, &used, NULL) == 0)
            hits++;
        else
            assert_int_equal(snic_cuckoo_update_evict(x.t, &used, &item, touch_store, &e), 0);
    }
    assert_true(hits > 98 * SLOTS); /* drawn without regard to age: about 75 */
    table_close(&x);
}

struct reader {
    struct snic_cuckoo *t;
    _Atomic int *stop;
    uint64_t found;
    uint64_t wrong;
};

static void *read_all(void *arg)
{
    struct reader *r = arg;
    uint64_t k = 0;
    while (!atomic_load_explicit(r->stop, memory_order_relaxed)) {
        struct item i;
        k = (k + 1) % KEYS;
        if (snic_cuckoo_get(r->t, &k, &i) == 0) {
            r->found++;
            r->wrong += i.proof != proof_of(k, i.version);
        }
    }
    return NULL;
}

/** Readers beside a writer that evicts: whole items, of their key. */
static void test_cuckoo_evict_readers_see_whole_items(void **state)
{
    _Atomic int stop = 0;
    struct reader readers[2];
    pthread_t threads[2];
    struct snic_rng rng;
    struct table x;
    (void)state;
    snic_rng_init(&rng, support_seed());
    table_open(&x, support_seed());
    for (int i = 0; i < 2; i++) {
        readers[i] = (struct reader){x.t, &stop, 0, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
    }
    for (uint64_t v = 1; v < support_scale(30000, 1000000); v++)
        assert_int_equal(table_put(&x, snic_rng_below(&rng, KEYS), v), 0);
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(readers[i].wrong, 0);
    }
    assert_int_equal(snic_cuckoo_check(x.t), 0);
    table_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuckoo_evict_largest_rank_goes),
        cmocka_unit_test(test_cuckoo_evict_by_age_keeps_what_is_used),
        cmocka_unit_test(test_cuckoo_evict_readers_see_whole_items),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
