/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Crashes under the store on LMDB.
 *
 * Power loss: a run is recorded; then, for many points of it, the files are rebuilt with any subset
 * of what was not synced. kill -9: a process is killed at any moment of its run, and those that
 * repair what it left, too. Each time the store must be as kv_lmdb_work.h says.
 */
#include "kv_lmdb_record.h"
#include "kv_lmdb_work.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

static void power_note(struct work *p, uint64_t commits, uint32_t step)
{
    (void)p;
    (void)record_note(commits << 32 | step);
}

static void test_kv_lmdb_power_cut_anywhere_leaves_a_store(void **state)
{
    struct work p;
    char path[512];
    (void)state;
    uint64_t runs = support_scale(1, 6);
    kvl_path(path, sizeof(path));
    for (uint64_t run = 0; run < runs; run++) {
        work_open(&p, support_seed() * 1000 + run);
        p.opts.wrap = record_wrap;
        p.length = record_length;
        p.note = power_note;
        record_begin(p.path);
        work_run(&p);
        record_stop();
        size_t length = record_length();
        size_t stride = support_scale(length / 130 + 1, 1);
        for (size_t cut = 0; cut <= length; cut += 1 + snic_rng_below(&p.rng, 2 * stride - 1)) {
            enum record_choice choice = (enum record_choice)snic_rng_below(&p.rng, 4);
            record_image(path, cut, choice, run * 1000003 + cut);
            work_check(&p, path, cut, record_noted(cut));
            work_remove(path);
        }
        record_end();
        work_close(&p);
    }
}

/*
 * A block that was zeroed is unwritten in the map; until that is durable the old map holds, and its
 * checksum: writing the block anew needs a mark all the same.
 */
static void test_kv_lmdb_power_zeroed_and_written_again(void **state)
{
    struct kvl k;
    char path[512];
    char image[512];
    unsigned char b[KVL_BLOCK];
    (void)state;
    kvl_path(path, sizeof(path));
    kvl_path(image, sizeof(image));
    kvl_open(&k, path, SNIC_KV_OPEN_CREATE);
    kvl_fill(b, 1, 0, KVL_BLOCK, 1);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 1, 0, KVL_BLOCK, b), KVL_BLOCK);
    kvl_close(&k);
    record_begin(path);
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = path, .wrap = record_wrap};
    assert_int_equal(kvl_try(&k, &o, NULL), 0);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_ZERO, 0, 1, 0, KVL_BLOCK, NULL), 0);
    kvl_fill(b, 1, 0, KVL_BLOCK, 2);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 1, 0, KVL_BLOCK, b), KVL_BLOCK);
    kvl_close(&k);
    record_stop();
    for (size_t cut = 0; cut <= record_length(); cut++) {
        static const unsigned char zeros[KVL_BLOCK];
        record_image(image, cut, RECORD_ALL, 1);
        kvl_open(&k, image, 0);
        assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 1, 0, KVL_BLOCK, b), KVL_BLOCK);
        assert_true(kvl_filled(b, 1, 0, KVL_BLOCK, 1) || kvl_filled(b, 1, 0, KVL_BLOCK, 2) ||
                    memcmp(b, zeros, KVL_BLOCK) == 0);
        kvl_close(&k);
        work_remove(image);
    }
    record_end();
}

/** Shorten object 1, in a commit that records it (0) or by an operation after it. */
static void power_shorten(struct kvl *k, uint32_t kind, uint64_t size)
{
    if (kind != 0) {
        assert_int_equal(kvl_put(k, 1, 1, size, 0), 0);
        assert_int_equal(
            kvl_object(k, kind, 0, 1, size,
                       kind == SNIC_KVOP_OBJECT_TRUNCATE ? 0 : KVL_BLOCK - size % KVL_BLOCK, NULL),
            0);
        return;
    }
    struct snic_kvop_change c[] = {
        {.key = kvl_key(1, 1), .kind = SNIC_KVOP_PUT, .value = &size, .size = sizeof(size)},
        {.kind = SNIC_KVOP_CHANGE_TRUNCATE, .object = 1, .offset = size}};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = c, .change_count = 2};
    assert_int_equal(kvl_run(k, &op), 0);
}

/*
 * A block that is shortened in place, in a segment that has its mark: as long as the record is the
 * old one its bytes are whole.
 */
static void test_kv_lmdb_power_shortened_after_its_record(void **state)
{
    static const uint32_t kinds[] = {0, SNIC_KVOP_OBJECT_TRUNCATE, SNIC_KVOP_OBJECT_PUNCH,
                                     SNIC_KVOP_OBJECT_ZERO};
    enum { WHOLE = 2 * KVL_BLOCK, SHORT = KVL_BLOCK + 1024 };
    struct kvl k;
    char path[512];
    char image[512];
    unsigned char b[WHOLE];
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(kinds); i++) {
        kvl_path(path, sizeof(path));
        kvl_path(image, sizeof(image));
        kvl_open(&k, path, SNIC_KV_OPEN_CREATE);
        kvl_fill(b, 1, 0, WHOLE, 1);
        assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 1, 0, WHOLE, b), WHOLE);
        assert_int_equal(kvl_put(&k, 1, 1, WHOLE, 0), 0);
        kvl_close(&k);
        record_begin(path);
        struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = path, .wrap = record_wrap};
        assert_int_equal(kvl_try(&k, &o, NULL), 0);
        assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, SNIC_KVOP_DURABLE, 1, 0, 8, b), 8);
        power_shorten(&k, kinds[i], SHORT);
        kvl_close(&k);
        record_stop();
        uint32_t seen = 0;
        for (size_t cut = 0; cut <= record_length(); cut++) {
            record_image(image, cut, RECORD_ALL, 1);
            kvl_open(&k, image, 0);
            uint64_t size = kvl_get(&k, 1, 1, 0);
            assert_true(size == WHOLE || size == SHORT);
            assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 1, 0, WHOLE, b), WHOLE);
            assert_true(kvl_filled(b, 1, 0, size, 1));
            seen |= size == WHOLE ? 1U : 2U;
            kvl_close(&k);
            work_remove(image);
        }
        assert_int_equal(seen, 3);
        record_end();
    }
}

/* Zeros where zeros are, as a file system puts them behind a file's end after each mount: no bytes
 * go, so nothing is written and no caller waits, on a full disk neither. */
static void test_kv_lmdb_power_zeros_over_zeros_wait_for_nothing(void **state)
{
    enum { PART = 100, LAST = KVL_BLOCK + 4096 };
    static const uint32_t kinds[] = {SNIC_KVOP_OBJECT_PUNCH, SNIC_KVOP_OBJECT_TRUNCATE,
                                     SNIC_KVOP_OBJECT_ZERO};
    struct kvl k;
    char path[512];
    unsigned char b[2 * KVL_BLOCK];
    unsigned char want[2 * KVL_BLOCK] = {0};
    (void)state;
    kvl_path(path, sizeof(path));
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = path, .wrap = record_wrap};
    kvl_open(&k, path, SNIC_KV_OPEN_CREATE);
    kvl_fill(want, 5, 0, PART, 1);
    kvl_fill(want + LAST, 5, LAST, PART, 1);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 5, 0, PART, want), PART);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 5, LAST, PART, want + LAST), PART);
    kvl_close(&k);
    record_begin(path);
    assert_int_equal(kvl_try(&k, &o, NULL), 0);
    assert_int_equal(kvl_sync(&k), 0);
    uint64_t batches = k.kv->stats.store_ops;
    uint64_t flushes = record_flushes;
    uint64_t syncs = record_syncs;
    for (uint32_t full = 0; full < 2; full++) {
        record_fault_object_write = (struct record_fault){.after = 1, .times = 1, .error = EIO};
        /* ZERO takes space, too. */
        for (uint32_t i = 0; i < SNIC_COUNTOF(kinds) - full; i++) {
            int cut = kinds[i] == SNIC_KVOP_OBJECT_TRUNCATE;
            uint64_t at = cut ? LAST + PART : PART;
            assert_int_equal(kvl_object(&k, kinds[i], 0, 5, at, cut ? 0 : LAST - at, NULL), 0);
        }
        if (full)
            break;
        assert_int_equal(k.kv->stats.store_ops, batches);
        assert_int_equal(record_flushes, flushes);
        assert_int_equal(record_syncs, syncs);
        record_fault_data_write = (struct record_fault){.after = 1, .times = 8, .error = ENOSPC};
        assert_int_equal(kvl_put(&k, 1, 1, 1, 0), 0);
        assert_int_equal(kvl_sync(&k), SNIC_ENOSPC);
    }
    record_fault_object_write = (struct record_fault){0};
    record_fault_data_write = (struct record_fault){0};
    /* Only one of two ends has bytes. */
    memset(want + LAST, 0, 60);
    while (kvl_sync(&k) == SNIC_ENOSPC)
        kvl_turn(&k, 10000000);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_PUNCH, 0, 5, PART, LAST + 60 - PART, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 5, 0, sizeof(b), b), sizeof(b));
        assert_memory_equal(b, want, sizeof(b));
        kvl_close(&k);
        if (i == 0)
            kvl_open(&k, path, 0);
    }
    record_end();
    kvl_audit(path);
}

static void power_child(void *ctx)
{
    work_run(ctx);
}

static void power_repair(void *ctx)
{
    const struct work *p = ctx;
    struct kvl k;
    kvl_open(&k, p->path, 0);
    kvl_close(&k);
}

static void power_sleep(struct snic_rng *rng, uint64_t most_us)
{
    (void)usleep((useconds_t)snic_rng_below(rng, most_us));
}

static void test_kv_lmdb_killed_anywhere_leaves_a_store(void **state)
{
    struct work p;
    struct snic_rng rng;
    (void)state;
    snic_rng_init(&rng, support_seed());
    uint64_t runs = support_scale(25, 400);
    for (uint64_t run = 0; run < runs; run++) {
        work_open(&p, support_seed() * 1000 + run);
        pid_t pid = kvl_fork(power_child, &p);
        power_sleep(&rng, 400000);
        (void)kill(pid, SIGKILL);
        int status = kvl_wait(pid);
        assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        for (uint64_t n = snic_rng_below(&rng, 3); n > 0; n--) {
            pid = kvl_fork(power_repair, &p);
            power_sleep(&rng, 8000);
            (void)kill(pid, SIGKILL);
            status = kvl_wait(pid);
            assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        }
        work_check(&p, p.path, SIZE_MAX, atomic_load(p.noted));
        work_close(&p);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_power_cut_anywhere_leaves_a_store),
        cmocka_unit_test(test_kv_lmdb_power_zeroed_and_written_again),
        cmocka_unit_test(test_kv_lmdb_power_shortened_after_its_record),
        cmocka_unit_test(test_kv_lmdb_power_zeros_over_zeros_wait_for_nothing),
        cmocka_unit_test(test_kv_lmdb_killed_anywhere_leaves_a_store),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
