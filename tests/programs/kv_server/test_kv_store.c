/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The kv_server's store over files in memory, in a simulated world, against a model of what it
 * should hold; power is cut at every single file operation (test_kv_store_util.h).
 */
#include "test_kv_store_util.h"

#include <stdio.h>
#include <string.h>

static void random_step(void)
{
    uint32_t k = kst_any(KEYS);
    uint32_t what = kst_any(100);

    if (what < 60)
        (void)kst_set(k);
    else if (what < 75)
        (void)kst_delete(k);
    else if (what < 85)
        kst_check_key(k);
    else if (what < 98)
        kst_spin(kst_any(300000));
    else if (what == 98 && kst_any(6) == 0)
        kst_flush(kst_any(2) ? KV_ALL_DATABASES : kst_any(2));
    else if (what == 99 && kst_any(2) == 0)
        kst_swap();
    kv_store_resume_cache(kst.store);
}

/** Random writes, deletions, reads, restarts and re-attachments agree with the model. */
static void test_kv_store_random_ops_agree_with_model(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_scale(6, 60); s++) {
        kst_begin(support_seed() * 1000 + s, (enum kv_sync)(s % 3));
        kst_open(0);
        for (uint32_t i = 0; i < 3000; i++) {
            random_step();
            if (kst_any(500) == 0)
                kst_restart();
            if (kst_any(300) == 0)
                kst_detach_attach();
        }
        kst_check_all();
        kst_restart();
        kst_check_all();
        assert_true(kst.cached > 0);
        kst_end();
    }
}

/** Power cut at every file operation under sync always: nothing acknowledged is lost. */
static void test_kv_store_power_cut_at_every_operation_keeps_acknowledged(void **state)
{
    uint32_t cuts = 0;

    (void)state;
    for (uint64_t s = 0; s < support_scale(12, 200); s++) {
        uint64_t last = 1000000;

        for (uint64_t at = 1; at < last; at++) {
            kst_begin(support_seed() * 1000 + s, KV_SYNC_ALWAYS);
            kst.cut_at = at;
            kst_open(10 * SEGMENT);
            for (uint32_t i = 0; i < 1200 && !kst.cut; i++)
                random_step();
            if (!kst.cut)
                last = 0;
            cuts += (uint32_t)kst.cut;
            assert_int_equal(kv_store_close(kst.store), 0);
            kst.store = NULL;
            if (kst.cut) {
                kst_files_clear(&kst.fs);
                kst.fs = kst.image;
                memset(&kst.image, 0, sizeof(kst.image));
                kst.cut_at = 0;
                kst_open(10 * SEGMENT);
                kst.cut_at = at;
                kst_check_survivors();
                assert_int_equal(kv_store_check(kst.store), 0);
            }
            kst_end();
        }
    }
    print_message("%u power cuts\n", cuts);
    assert_true(cuts >= 1000);
}

/** A device of few segments: overwriting it many times works, compaction keeps up. */
static void test_kv_store_small_device_compaction_goes_on(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_scale(3, 30); s++) {
        uint32_t taken = 0;

        kst_begin(support_seed() * 1000 + s, KV_SYNC_ALWAYS);
        kst.fs.limit = 10 + s % 3;
        kst_open(0);
        for (uint32_t i = 0; i < 6000; i++) {
            /* Short of space only deletions are promised; live data is about 90 KiB. */
            taken += (uint32_t)kst_set(kst_any(KEYS));
            if (kst_any(8) == 0)
                (void)kst_delete(kst_any(KEYS));
            if (kst_any(50) == 0)
                kst_swap();
        }
        assert_int_equal(taken, 6000);
        kst_check_all();
        kst_restart();
        kst_check_all();
        kst_end();
    }
}

/** A full device: writes report it, reads and deletions work, space comes back. */
static void test_kv_store_full_device_delete_makes_room(void **state)
{
    static unsigned char value[VALUE_MAX];
    struct kv_engine_stats stats;
    char key[64];
    uint64_t at;
    uint32_t count = 0;
    int r;

    (void)state;
    kst_begin(support_seed(), KV_SYNC_ALWAYS);
    kst.fs.limit = 8;
    kst_open(0);
    for (;;) { /* keys beside the model's */
        int n = snprintf(key, sizeof(key), "full%u", count);

        do
            r = kv_store_set(kst.store, 0, key, (uint32_t)n, value, VALUE_MAX, 0, &at);
        while (r == SNIC_EAGAIN && kst_refused(r));
        if (r != 0)
            break;
        count++;
    }
    assert_int_equal(r, SNIC_ENOSPC);
    assert_true(count > 3 * (SEGMENT / VALUE_MAX - 1));
    for (uint32_t i = 0; i < count; i++) {
        int n = snprintf(key, sizeof(key), "full%u", i);
        struct kv_entry *e = kv_store_find(kst.store, 0, key, (uint32_t)n);

        assert_non_null(e);
        if (i % 2 == 0) {
            do
                r = kv_store_delete(kst.store, e, &at);
            while (r == SNIC_EAGAIN && kst_refused(r));
            assert_int_equal(r, 0);
        }
    }
    for (uint32_t i = 0; i < count / 4; i++) {
        int n = snprintf(key, sizeof(key), "again%u", i);

        do
            r = kv_store_set(kst.store, 0, key, (uint32_t)n, value, VALUE_MAX, 0, &at);
        while (r == SNIC_EAGAIN && kst_refused(r));
        assert_int_equal(r, 0);
    }
    kst_check_all();
    kv_store_get_stats(kst.store, &stats);
    assert_true(stats.compactions > 0);
    kst_end();
}

/** Writes fail for a while: they are refused, then everything taken before gets durable. */
static void test_kv_store_write_errors_pass_and_nothing_is_lost(void **state)
{
    (void)state;
    kst_begin(support_seed(), KV_SYNC_ALWAYS);
    kst_open(0);
    for (uint32_t i = 0; i < 200; i++)
        (void)kst_set(kst_any(KEYS));
    kst.fs.error = SNIC_EIO;
    for (uint32_t i = 0; i < 100; i++) {
        (void)kst_set(kst_any(KEYS));
        kst_spin(1000000);
    }
    assert_int_equal(kst_set(0), 0);
    kst.fs.error = 0;
    for (uint32_t i = 0; i < 100; i++)
        kst_spin(100000000);
    assert_int_equal(kv_store_durable(kst.store), kv_store_tail(kst.store));
    assert_int_equal(kst_set(0), 1);
    kst_restart();
    kst_check_all();
    kst_end();
}

/** An expired key is gone, from the index too without being asked for, and after a restart. */
static void test_kv_store_expiry_deletes(void **state)
{
    uint64_t at;

    (void)state;
    kst_begin(support_seed(), KV_SYNC_NONE);
    kst_open(0);
    assert_int_equal(
        kv_store_set(kst.store, 0, "a", 1, "v", 1, kv_store_wall_ms(kst.store) + 500, &at), 0);
    assert_int_equal(
        kv_store_set(kst.store, 0, "b", 1, "v", 1, kv_store_wall_ms(kst.store) + 1000000, &at), 0);
    assert_non_null(kv_store_find(kst.store, 0, "a", 1));
    assert_int_equal(kv_store_expires(kst.store, 0), 2);
    while (kv_store_count(kst.store, 0) == 2)
        kst_spin(1000000000);
    assert_null(kv_store_find(kst.store, 0, "a", 1));
    kst_restart();
    assert_null(kv_store_find(kst.store, 0, "a", 1));
    assert_non_null(kv_store_find(kst.store, 0, "b", 1));
    kst_end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_store_random_ops_agree_with_model),
        cmocka_unit_test(test_kv_store_power_cut_at_every_operation_keeps_acknowledged),
        cmocka_unit_test(test_kv_store_small_device_compaction_goes_on),
        cmocka_unit_test(test_kv_store_full_device_delete_makes_room),
        cmocka_unit_test(test_kv_store_write_errors_pass_and_nothing_is_lost),
        cmocka_unit_test(test_kv_store_expiry_deletes),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
