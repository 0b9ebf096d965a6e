/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Cache table of variable sizes: contract, every length, long random against a model, and readers
 * racing a writer that changes lengths.
 *
 * Key number n is id n / key_size in a length of 1 + n % key_size, filled up with zeros: most keys
 * are others with zeros behind them, and only their length distinguishes them.
 */
#include "test_cuckoo_util.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { VAR_KEY = 24, VAR_ITEM = 100, VAR_KEYS = 250 * VAR_KEY, VAR_SLOTS = 4096 };

static void var_open(struct util_table *u, uint32_t key_size, uint32_t item_size, uint64_t slots)
{
    memset(u, 0, sizeof(*u));
    u->o.opts_size = sizeof(u->o);
    u->o.key_size = key_size;
    u->o.item_size = item_size;
    u->o.flags = SNIC_CUCKOO_VARIABLE;
    u->o.capacity_slots = slots;
    u->o.seed = support_seed();
    u->size = snic_cuckoo_memsize(&u->o);
    assert_int_not_equal(u->size, 0);
    u->mem = support_guard_alloc(u->size, SNIC_CUCKOO_ALIGN);
    assert_int_equal(snic_cuckoo_init(&u->t, u->mem, u->size, &u->o), 0);
}

static uint32_t var_key(unsigned char *key, uint32_t key_size, uint64_t n)
{
    uint32_t length = 1 + (uint32_t)(n % key_size);

    memset(key, 0, length);
    key[0] = (unsigned char)(n / key_size);
    return length;
}

/* The first 8 bytes, where there are as many, are the version. */
static uint32_t var_item(unsigned char *item, uint32_t least, uint32_t most, uint64_t n,
                         uint64_t version)
{
    uint32_t length = least + (uint32_t)((n + version * 13) % (most - least + 1));

    util_item(item, length, n, version);
    return length;
}

/* ---- One thread ---- */

static enum snic_cuckoo_verdict never_called(void *ctx, void *item, uint32_t *item_len,
                                             int resident)
{
    (void)ctx;
    (void)item;
    (void)item_len;
    (void)resident;
    fail();
    return SNIC_CUCKOO_KEEP;
}

/* A length that got through would be written behind a slot; a refused call must do nothing. */
static void test_cuckoo_variable_lengths_out_of_range_refused(void **state)
{
    unsigned char bytes[SNIC_CUCKOO_ITEM_MAX + 1] = {1};
    uint32_t length = 77;
    struct util_table u;

    (void)state;
    var_open(&u, 10, 20, 64);
    assert_int_equal(snic_cuckoo_put_var(u.t, bytes, 0, bytes, 1), SNIC_EINVAL);
    assert_int_equal(snic_cuckoo_put_var(u.t, bytes, 11, bytes, 1), SNIC_EINVAL);
    assert_int_equal(snic_cuckoo_put_var(u.t, bytes, UINT32_MAX, bytes, 1), SNIC_EINVAL);
    assert_int_equal(snic_cuckoo_put_var(u.t, bytes, 10, bytes, 21), SNIC_EINVAL);
    assert_int_equal(snic_cuckoo_put_var(u.t, bytes, 10, bytes, UINT32_MAX), SNIC_EINVAL);
    assert_int_equal(snic_cuckoo_count(u.t), 0);
    assert_int_equal(snic_cuckoo_get_var(u.t, bytes, 11, bytes, &length), SNIC_ENOENT);
    assert_int_equal(snic_cuckoo_get_var(u.t, bytes, 0, bytes, &length), SNIC_ENOENT);
    assert_int_equal(snic_cuckoo_del_var(u.t, bytes, 11), SNIC_ENOENT);
    assert_int_equal(snic_cuckoo_update_var(u.t, bytes, 0, NULL, never_called), SNIC_EINVAL);
    assert_int_equal(length, 77);
    assert_int_equal(snic_cuckoo_check(u.t), 0);
    util_close(&u);
}

static void abuse_put(void *table)
{
    (void)!snic_cuckoo_put(table, "01234567", "0123456789abcdef");
}
static void abuse_get(void *table)
{
    unsigned char item[16];

    (void)!snic_cuckoo_get(table, "01234567", item);
}
static void abuse_put_var(void *table)
{
    (void)!snic_cuckoo_put_var(table, "01234567", 8, NULL, 0);
}

/* Calls of the other kind of table would mix up keys and lengths. */
static void test_cuckoo_variable_wrong_kind_of_call_aborts(void **state)
{
    struct util_table u;

    (void)state;
    var_open(&u, 8, 16, 64);
    SUPPORT_EXPECT_ABORT(abuse_put, u.t);
    SUPPORT_EXPECT_ABORT(abuse_get, u.t);
    util_close(&u);
    util_open(&u, 8, 16, 64, 1);
    SUPPORT_EXPECT_ABORT(abuse_put_var, u.t);
    util_close(&u);
}

/* Lengths for which words or strides are computed wrongly, and a replacement of every length. */
static void test_cuckoo_variable_every_length_stores_and_finds(void **state)
{
    unsigned char key[SNIC_CUCKOO_KEY_MAX];
    unsigned char item[SNIC_CUCKOO_ITEM_MAX + 16]; /* 16: quiets a wrong warning of gcc -O3 */
    unsigned char *out = support_guard_alloc(SNIC_CUCKOO_ITEM_MAX, 64);
    struct util_table u;

    (void)state;
    var_open(&u, SNIC_CUCKOO_KEY_MAX, SNIC_CUCKOO_ITEM_MAX, 512);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t n = 0; n < SNIC_CUCKOO_KEY_MAX; n++) {
            uint32_t key_len = var_key(key, SNIC_CUCKOO_KEY_MAX, n);

            for (uint32_t item_len = 0; item_len <= SNIC_CUCKOO_ITEM_MAX; item_len += 1 + n % 5) {
                uint32_t got = 9999;

                util_item(item, item_len, n, item_len);
                assert_int_equal(snic_cuckoo_put_var(u.t, key, key_len, item, item_len),
                                 round > 0 || item_len > 0);
                assert_int_equal(snic_cuckoo_get_var(u.t, key, key_len, out, &got), 0);
                assert_int_equal(got, item_len);
                assert_memory_equal(out, item, item_len);
            }
        }
        assert_int_equal(snic_cuckoo_count(u.t), SNIC_CUCKOO_KEY_MAX);
        assert_int_equal(snic_cuckoo_check(u.t), 0);
    }
    util_close(&u);
    var_open(&u, 5, 0, 64); /* a set */
    assert_int_equal(snic_cuckoo_put_var(u.t, "abc", 3, NULL, 0), 0);
    assert_int_equal(snic_cuckoo_put_var(u.t, "abc", 3, NULL, 0), 1);
    assert_int_equal(snic_cuckoo_get_var(u.t, "abc", 3, out, NULL), 0);
    assert_int_equal(snic_cuckoo_get_var(u.t, "abcd", 4, NULL, NULL), SNIC_ENOENT);
    assert_int_equal(snic_cuckoo_check(u.t), 0);
    util_close(&u);
    support_guard_free(out);
}

struct var_model {
    struct util_table u;
    struct snic_rng rng;
    uint64_t version[VAR_KEYS]; /* 0: absent */
    uint64_t count;
    uint64_t next;
    uint64_t updating;
    enum snic_cuckoo_verdict verdict;
};

static void model_expect(struct var_model *m, uint64_t n, const unsigned char *item,
                         uint32_t length)
{
    unsigned char want[VAR_ITEM];

    assert_true(m->version[n] != 0);
    assert_int_equal(length, var_item(want, 0, VAR_ITEM, n, m->version[n]));
    assert_memory_equal(item, want, length);
}

static void model_put(struct var_model *m, uint64_t n)
{
    unsigned char key[VAR_KEY];
    unsigned char item[VAR_ITEM];
    uint32_t key_len = var_key(key, VAR_KEY, n);
    uint32_t item_len = var_item(item, 0, VAR_ITEM, n, m->next);
    int r = snic_cuckoo_put_var(m->u.t, key, key_len, item, item_len);

    if (r == SNIC_ENOSPC) {
        assert_int_equal(m->version[n], 0);
        return;
    }
    assert_int_equal(r, m->version[n] != 0);
    m->count += m->version[n] == 0;
    m->version[n] = m->next++;
}

static void model_del(struct var_model *m, uint64_t n)
{
    unsigned char key[VAR_KEY];
    uint32_t key_len = var_key(key, VAR_KEY, n);

    assert_int_equal(snic_cuckoo_del_var(m->u.t, key, key_len),
                     m->version[n] != 0 ? 0 : SNIC_ENOENT);
    m->count -= m->version[n] != 0;
    m->version[n] = 0;
}

static void model_get(struct var_model *m, uint64_t n)
{
    unsigned char key[VAR_KEY];
    unsigned char out[VAR_ITEM];
    uint32_t key_len = var_key(key, VAR_KEY, n);
    uint32_t length = 0;
    int r = snic_cuckoo_get_var(m->u.t, key, key_len, out, &length);

    assert_int_equal(r, m->version[n] != 0 ? 0 : SNIC_ENOENT);
    if (r == 0)
        model_expect(m, n, out, length);
}

static void model_get_n(struct var_model *m, uint32_t n)
{
    unsigned char keys[SNIC_CUCKOO_BATCH_MAX][VAR_KEY + 1];
    unsigned char items[SNIC_CUCKOO_BATCH_MAX][VAR_ITEM];
    const void *pointers[SNIC_CUCKOO_BATCH_MAX] = {NULL};
    uint32_t key_lens[SNIC_CUCKOO_BATCH_MAX] = {0};
    uint32_t item_lens[SNIC_CUCKOO_BATCH_MAX];
    uint64_t numbers[SNIC_CUCKOO_BATCH_MAX];
    uint64_t found;

    for (uint32_t i = 0; i < n; i++) {
        numbers[i] = snic_rng_below(&m->rng, VAR_KEYS);
        key_lens[i] = var_key(keys[i], VAR_KEY, numbers[i]);
        if (i % 9 == 8)
            key_lens[i] = VAR_KEY + 1;
        pointers[i] = keys[i];
    }
    found = snic_cuckoo_get_n_var(m->u.t, pointers, key_lens, n, items, item_lens);
    assert_true(n == 64 || found >> n == 0);
    for (uint32_t i = 0; i < n; i++) {
        int is_found = (int)(found >> i & 1);

        assert_int_equal(is_found, key_lens[i] <= VAR_KEY && m->version[numbers[i]] != 0);
        if (is_found)
            model_expect(m, numbers[i], items[i], item_lens[i]);
    }
}

static enum snic_cuckoo_verdict model_decide(void *ctx, void *item, uint32_t *item_len,
                                             int resident)
{
    struct var_model *m = ctx;

    assert_int_equal(resident, m->version[m->updating] != 0);
    if (resident)
        model_expect(m, m->updating, item, *item_len);
    else
        assert_int_equal(*item_len, 0);
    *item_len = var_item(item, 0, VAR_ITEM, m->updating, m->next);
    return m->verdict;
}

static void model_update(struct var_model *m, uint64_t n)
{
    unsigned char key[VAR_KEY];
    uint32_t key_len = var_key(key, VAR_KEY, n);
    int r;

    m->updating = n;
    m->verdict = (enum snic_cuckoo_verdict)snic_rng_below(&m->rng, 3);
    r = snic_cuckoo_update_var(m->u.t, key, key_len, m, model_decide);
    if (r != 0) {
        assert_true(r == SNIC_ENOSPC && m->verdict == SNIC_CUCKOO_STORE && m->version[n] == 0);
    } else if (m->verdict == SNIC_CUCKOO_STORE) {
        m->count += m->version[n] == 0;
        m->version[n] = m->next++;
    } else if (m->verdict == SNIC_CUCKOO_REMOVE) {
        m->count -= m->version[n] != 0;
        m->version[n] = 0;
    }
}

static void model_iterate(struct var_model *m)
{
    unsigned char key[VAR_KEY];
    unsigned char item[VAR_ITEM];
    uint64_t cursor = 0;
    uint64_t seen = 0;
    uint32_t key_len;
    uint32_t item_len;

    while (snic_cuckoo_next_var(m->u.t, &cursor, key, &key_len, item, &item_len) == 0) {
        uint64_t n = (uint64_t)key[0] * VAR_KEY + key_len - 1;

        assert_true(n < VAR_KEYS);
        model_expect(m, n, item, item_len);
        seen++;
    }
    assert_int_equal(seen, m->count);
}

/* Anything that drifts: lost keys, prefixes taken for each other, lengths or bytes mixed up. */
static void test_cuckoo_variable_random_operations_match_model(void **state)
{
    static struct var_model m;

    (void)state;
    memset(&m, 0, sizeof(m));
    snic_rng_init(&m.rng, support_seed());
    var_open(&m.u, VAR_KEY, VAR_ITEM, VAR_SLOTS);
    m.next = 1;
    for (uint32_t round = 0; round < support_scale(10, 200) / UTIL_SHARE + 1; round++) {
        for (uint32_t i = 0; i < 20000 / UTIL_SHARE; i++) {
            uint64_t n = snic_rng_below(&m.rng, VAR_KEYS);
            uint64_t what = snic_rng_below(&m.rng, 100);

            if (what < 2)
                model_get_n(&m, (uint32_t)snic_rng_below(&m.rng, SNIC_CUCKOO_BATCH_MAX + 1));
            else if (what < 25)
                model_get(&m, n);
            else if (what < 40)
                model_update(&m, n);
            else if (what < (round % 2 == 0 ? 45 : 75))
                model_del(&m, n);
            else
                model_put(&m, n);
        }
        assert_int_equal(snic_cuckoo_check(m.u.t), 0);
        assert_int_equal(snic_cuckoo_count(m.u.t), m.count);
        model_iterate(&m);
    }
    util_close(&m.u);
}

/* ---- Readers and a writer ---- */

enum { RACE_SLOTS = 1024, RACE_KEYS = 1200, RACE_RESIDENT = 400, RACE_KEY = 12, RACE_ITEM = 120 };

struct race {
    struct util_table u;
    uint64_t operations;
    _Atomic uint32_t done;
    _Atomic uint64_t wrong; /* false misses, torn items, wrong lengths */
    _Atomic uint64_t lookups;
};

static void race_write(struct race *x)
{
    unsigned char key[RACE_KEY];
    unsigned char item[RACE_ITEM];
    struct snic_rng rng;

    snic_rng_init(&rng, support_seed());
    for (uint64_t i = 1; i <= x->operations; i++) {
        uint64_t n = snic_rng_below(&rng, RACE_KEYS);
        uint32_t key_len = var_key(key, RACE_KEY, n);

        if (n >= RACE_RESIDENT && i % 3 == 0)
            (void)snic_cuckoo_del_var(x->u.t, key, key_len);
        else
            (void)!snic_cuckoo_put_var(x->u.t, key, key_len, item,
                                       var_item(item, 8, RACE_ITEM, n, i));
    }
    atomic_store_explicit(&x->done, 1, memory_order_release);
}

static int race_is_whole(uint64_t n, const unsigned char *item, uint32_t length)
{
    unsigned char want[RACE_ITEM];
    uint64_t version;

    memcpy(&version, item, sizeof(version));
    return length >= 8 && length <= RACE_ITEM &&
           length == var_item(want, 8, RACE_ITEM, n, version) && memcmp(item, want, length) == 0;
}

static void race_read(struct race *x, struct snic_rng *rng)
{
    unsigned char keys[16][RACE_KEY];
    unsigned char items[16][RACE_ITEM] = {{0}};
    const void *pointers[16];
    uint32_t key_lens[16];
    uint32_t lengths[16];
    uint64_t numbers[16];
    uint64_t wrong = 0;
    uint64_t found;

    for (uint32_t i = 0; i < 16; i++) {
        numbers[i] = snic_rng_below(rng, i % 4 == 0 ? RACE_KEYS : RACE_RESIDENT);
        key_lens[i] = var_key(keys[i], RACE_KEY, numbers[i]);
        pointers[i] = keys[i];
    }
    found = snic_cuckoo_get_n_var(x->u.t, pointers, key_lens, 16, items, lengths);
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t k = i % 16;

        if (i >= 16) { /* once more by itself */
            found &= ~((uint64_t)1 << k);
            if (snic_cuckoo_get_var(x->u.t, keys[k], key_lens[k], items[k], &lengths[k]) == 0)
                found |= (uint64_t)1 << k;
        }
        if (found >> k & 1)
            wrong += !race_is_whole(numbers[k], items[k], lengths[k]);
        else
            wrong += numbers[k] < RACE_RESIDENT;
    }
    atomic_fetch_add_explicit(&x->wrong, wrong, memory_order_relaxed);
    atomic_fetch_add_explicit(&x->lookups, 32, memory_order_relaxed);
}

static void race_iterate(struct race *x)
{
    unsigned char key[RACE_KEY];
    unsigned char item[RACE_ITEM] = {0};
    uint64_t cursor = 0;
    uint32_t key_len;
    uint32_t length;

    while (snic_cuckoo_next_var(x->u.t, &cursor, key, &key_len, item, &length) == 0) {
        uint64_t n = (uint64_t)key[0] * RACE_KEY + key_len - 1;

        if (n >= RACE_KEYS || !race_is_whole(n, item, length))
            atomic_fetch_add_explicit(&x->wrong, 1, memory_order_relaxed);
    }
}

static void race_thread(void *ctx, unsigned index)
{
    struct race *x = ctx;
    struct snic_rng rng;

    if (index == 0) {
        race_write(x);
        return;
    }
    snic_rng_init(&rng, support_seed() * 100 + index);
    while (!atomic_load_explicit(&x->done, memory_order_acquire)) {
        for (uint32_t i = 0; i < 50; i++)
            race_read(x, &rng);
        race_iterate(x);
    }
}

/* A reader that takes the length of one item and the bytes of another, or misses a resident key. */
static void test_cuckoo_variable_racing_writer_items_whole(void **state)
{
    struct race x;
    struct snic_cuckoo_stats s;
    unsigned char key[RACE_KEY];
    unsigned char item[RACE_ITEM];

    (void)state;
    memset(&x, 0, sizeof(x));
    var_open(&x.u, RACE_KEY, RACE_ITEM, RACE_SLOTS);
    x.operations = support_scale(400000, 5000000) / UTIL_SHARE;
    for (uint64_t n = 0; n < RACE_RESIDENT; n++) {
        uint32_t key_len = var_key(key, RACE_KEY, n);

        assert_int_equal(
            snic_cuckoo_put_var(x.u.t, key, key_len, item, var_item(item, 8, RACE_ITEM, n, 0)), 0);
    }
    support_threads(3, race_thread, &x);
    snic_cuckoo_get_stats(x.u.t, &s);
    printf("  %llu lookups, %llu replaced, %llu displaced\n",
           (unsigned long long)atomic_load(&x.lookups), (unsigned long long)s.replaces,
           (unsigned long long)s.displacements);
    assert_int_equal(atomic_load(&x.wrong), 0);
    assert_int_equal(snic_cuckoo_check(x.u.t), 0);
    util_close(&x.u);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuckoo_variable_lengths_out_of_range_refused),
        cmocka_unit_test(test_cuckoo_variable_wrong_kind_of_call_aborts),
        cmocka_unit_test(test_cuckoo_variable_every_length_stores_and_finds),
        cmocka_unit_test(test_cuckoo_variable_random_operations_match_model),
        cmocka_unit_test(test_cuckoo_variable_racing_writer_items_whole),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
