/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Cache table, one writer and readers: no false miss, no torn item, no item going back in time.
 *
 * Resident keys are never deleted while readers run; other keys come and go around them, at a load
 * at which most inserts displace. Each item carries its version and is recomputable from key and
 * version. The amount of work is fixed, not the time.
 */
#include "test_cuckoo_util.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { STRESS_READERS = 3, STRESS_SLOTS = 2048, STRESS_KEYS_MAX = 4096 };

struct stress {
    struct util_table u;
    uint64_t resident;   /* keys 0..resident - 1 */
    uint64_t guests;     /* keys resident..resident + guests - 1 */
    uint64_t operations; /* of the writer */
    uint32_t churn;      /* per cent of operations on these */
    _Atomic uint64_t newest;
    _Atomic uint32_t done;
    _Atomic uint64_t lookups;
    _Atomic uint64_t false_misses;
    _Atomic uint64_t torn;
    _Atomic uint64_t backwards;
    uint64_t refused;
};

static uint64_t stress_load(_Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void stress_count(_Atomic uint64_t *word, uint64_t n)
{
    atomic_fetch_add_explicit(word, n, memory_order_relaxed);
}

static void stress_put(struct stress *x, uint64_t n, uint64_t version)
{
    unsigned char key[SNIC_CUCKOO_KEY_MAX];
    unsigned char item[SNIC_CUCKOO_ITEM_MAX];
    int r;

    util_key(key, x->u.o.key_size, n);
    util_item(item, x->u.o.item_size, n, version);
    r = snic_cuckoo_put(x->u.t, key, item);
    if (r < 0)
        x->refused++;
}

static void stress_write(struct stress *x)
{
    unsigned char key[SNIC_CUCKOO_KEY_MAX];
    struct snic_rng rng;

    snic_rng_init(&rng, support_seed());
    for (uint64_t i = 1; i <= x->operations; i++) {
        if (snic_rng_below(&rng, 100) >= x->churn) {
            /* Published before it is stored: a reader's newer item than this is an error. */
            atomic_store_explicit(&x->newest, i, memory_order_release);
            stress_put(x, snic_rng_below(&rng, x->resident), i);
        } else {
            uint64_t n = x->resident + snic_rng_below(&rng, x->guests);

            if (snic_rng_below(&rng, 100) < 30) {
                util_key(key, x->u.o.key_size, n);
                (void)snic_cuckoo_del(x->u.t, key);
            } else {
                stress_put(x, n, i);
            }
        }
    }
    atomic_store_explicit(&x->done, 1, memory_order_release);
}

/* What a reader knows and buffers. */
struct stress_reader {
    struct stress *x;
    struct snic_rng rng;
    uint64_t seen[STRESS_KEYS_MAX]; /* the newest version of each resident key */
    unsigned char keys[SNIC_CUCKOO_BATCH_MAX * SNIC_CUCKOO_KEY_MAX];
    unsigned char items[SNIC_CUCKOO_BATCH_MAX * SNIC_CUCKOO_ITEM_MAX];
    uint64_t numbers[SNIC_CUCKOO_BATCH_MAX];
};

static void stress_judge(struct stress_reader *r, uint64_t n, const unsigned char *item)
{
    unsigned char want[SNIC_CUCKOO_ITEM_MAX];
    struct stress *x = r->x;
    uint64_t version = snic_get_le64(item);

    util_item(want, x->u.o.item_size, n, version);
    if (memcmp(item, want, x->u.o.item_size) != 0) {
        stress_count(&x->torn, 1);
        return;
    }
    if (n >= x->resident)
        return;
    if (version < r->seen[n] || version > stress_load(&x->newest))
        stress_count(&x->backwards, 1);
    r->seen[n] = version;
}

static void stress_batch(struct stress_reader *r, uint32_t n)
{
    struct stress *x = r->x;
    uint32_t key_size = x->u.o.key_size;
    uint32_t item_size = x->u.o.item_size;
    uint64_t found = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t all = i % 4 == 3 ? x->resident + x->guests : x->resident;

        r->numbers[i] = snic_rng_below(&r->rng, all);
        util_key(r->keys + (size_t)i * key_size, key_size, r->numbers[i]);
    }
    if (n == 1)
        found = snic_cuckoo_get(x->u.t, r->keys, r->items) == 0;
    else
        found = snic_cuckoo_get_n(x->u.t, r->keys, n, r->items);
    for (uint32_t i = 0; i < n; i++) {
        if (found >> i & 1)
            stress_judge(r, r->numbers[i], r->items + (size_t)i * item_size);
        else if (r->numbers[i] < x->resident)
            stress_count(&x->false_misses, 1);
    }
    stress_count(&x->lookups, n);
}

static void stress_iterate(struct stress_reader *r)
{
    struct stress *x = r->x;
    uint64_t cursor = 0;

    while (snic_cuckoo_next(x->u.t, &cursor, r->keys, r->items) == 0) {
        unsigned char want[SNIC_CUCKOO_KEY_MAX];
        uint64_t n = 0;

        memcpy(&n, r->keys, 8);
        util_key(want, x->u.o.key_size, n);
        if (n >= x->resident + x->guests || memcmp(want, r->keys, x->u.o.key_size) != 0)
            stress_count(&x->torn, 1);
        else
            stress_judge(r, n, r->items);
    }
}

static void stress_thread(void *ctx, unsigned index)
{
    struct stress *x = ctx;
    struct stress_reader *r;

    if (index == 0) {
        stress_write(x);
        return;
    }
    r = calloc(1, sizeof(*r));
    if (r == NULL)
        abort();
    r->x = x;
    snic_rng_init(&r->rng, support_seed() * 100 + index);
    while (!atomic_load_explicit(&x->done, memory_order_acquire)) {
        for (uint32_t i = 0; i < 200; i++)
            stress_batch(r, i % 8 == 0 ? 1 + (uint32_t)snic_rng_below(&r->rng, 64) : 1);
        if (index == 1)
            stress_iterate(r);
    }
    free(r);
}

static void stress_run(uint32_t key_size, uint32_t item_size, uint32_t load_percent, uint32_t churn,
                       uint64_t operations)
{
    static struct stress x;
    struct snic_cuckoo_stats s;

    memset(&x, 0, sizeof(x));
    util_open(&x.u, key_size, item_size, STRESS_SLOTS, support_seed());
    x.resident = STRESS_SLOTS / 2;
    x.guests = STRESS_SLOTS * load_percent / 100 - x.resident;
    x.operations = operations / UTIL_SHARE;
    x.churn = churn;
    for (uint64_t n = 0; n < x.resident; n++)
        stress_put(&x, n, 0);
    assert_int_equal(x.refused, 0);
    support_threads(1 + STRESS_READERS, stress_thread, &x);
    snic_cuckoo_get_stats(x.u.t, &s);
    printf("  %ux%u load %u%%: %llu lookups, %llu displacements, %llu replaced, %llu refused\n",
           key_size, item_size, load_percent, (unsigned long long)stress_load(&x.lookups),
           (unsigned long long)s.displacements, (unsigned long long)s.replaces,
           (unsigned long long)x.refused);
    assert_int_equal(stress_load(&x.false_misses), 0);
    assert_int_equal(stress_load(&x.torn), 0);
    assert_int_equal(stress_load(&x.backwards), 0);
    assert_int_equal(snic_cuckoo_check(x.u.t), 0);
    if (load_percent > 100 && churn >= 50)
        assert_true(s.displacements > x.operations / 100);
    util_close(&x.u);
}

/* Published: false misses while entries are displaced. A full table that churns displaces most. */
static void test_cuckoo_displacing_writer_no_false_miss(void **state)
{
    (void)state;
    stress_run(8, 16, 120, 95, support_scale(300000, 5000000));
    stress_run(16, 16, 110, 80, support_scale(200000, 2500000));
}

/* Published: torn reads under updates. The longer the item, the wider the window. */
static void test_cuckoo_updating_writer_no_torn_item(void **state)
{
    (void)state;
    stress_run(8, 16, 95, 5, support_scale(400000, 5000000));
    stress_run(8, 8, 95, 40, support_scale(200000, 2500000));
    stress_run(20, 256, 95, 40, support_scale(100000, 1000000));
}

struct wipe {
    struct util_table u;
    _Atomic uint32_t done;
    _Atomic uint64_t wrong;
};

static void wipe_thread(void *ctx, unsigned index)
{
    struct wipe *x = ctx;

    if (index == 0) {
        for (uint64_t round = 1; round <= support_scale(300, 10000); round++) {
            for (uint64_t key = 0; key < 200; key++) {
                uint64_t item[2] = {key ^ round, ~(key ^ round)};

                if (snic_cuckoo_put(x->u.t, &key, item) < 0)
                    atomic_fetch_add(&x->wrong, 1);
            }
            snic_cuckoo_clear(x->u.t);
        }
        atomic_store_explicit(&x->done, 1, memory_order_release);
        return;
    }
    for (uint64_t key = 0; !atomic_load_explicit(&x->done, memory_order_acquire);
         key = (key + 1) % 200) {
        uint64_t item[2];

        if (snic_cuckoo_get(x->u.t, &key, item) == 0 && item[1] != ~item[0])
            atomic_fetch_add(&x->wrong, 1);
    }
}

/* Slots emptied and filled again under a reader that still looks at their old header. */
static void test_cuckoo_clearing_writer_items_stay_whole(void **state)
{
    struct wipe x;

    (void)state;
    memset(&x, 0, sizeof(x));
    util_open(&x.u, 8, 16, 256, support_seed());
    support_threads(3, wipe_thread, &x);
    assert_int_equal(atomic_load(&x.wrong), 0);
    assert_int_equal(snic_cuckoo_check(x.u.t), 0);
    util_close(&x.u);
}

struct publish {
    struct util_table u;
    uint64_t payload[64]; /* plain memory, handed over through the table */
    _Atomic uint64_t wrong;
};

static void publish_thread(void *ctx, unsigned index)
{
    struct publish *x = ctx;

    for (uint64_t key = 0; key < SNIC_COUNTOF(x->payload); key++) {
        uint64_t item = key;

        if (index == 0) {
            x->payload[key] = key * 3 + 1;
            if (snic_cuckoo_put(x->u.t, &key, &item) != 0)
                atomic_fetch_add(&x->wrong, 1);
        } else {
            while (snic_cuckoo_get(x->u.t, &key, &item) != 0)
                sched_yield();
            if (x->payload[key] != key * 3 + 1)
                atomic_fetch_add(&x->wrong, 1);
        }
    }
}

/* What the writer wrote before the put is visible to the item's readers; ThreadSanitizer agrees. */
static void test_cuckoo_put_publishes_earlier_writes(void **state)
{
    struct publish x;

    (void)state;
    for (uint32_t round = 0; round < support_scale(50, 5000); round++) {
        memset(&x, 0, sizeof(x));
        util_open(&x.u, 8, 8, 128, support_seed() + round);
        support_threads(2, publish_thread, &x);
        assert_int_equal(atomic_load(&x.wrong), 0);
        util_close(&x.u);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuckoo_displacing_writer_no_false_miss),
        cmocka_unit_test(test_cuckoo_updating_writer_no_torn_item),
        cmocka_unit_test(test_cuckoo_clearing_writer_items_stay_whole),
        cmocka_unit_test(test_cuckoo_put_publishes_earlier_writes),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
