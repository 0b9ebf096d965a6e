/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A log over a cache that lies: after a flush that failed what was written is read back until the
 * power goes, and later flushes do not cover it. Whatever an opening reported is there afterwards.
 * And a device that finds no space for a write.
 */
#include <inttypes.h>

#include "support.h"
#include "walfix.h"

static struct walfix fix;

static void rig(uint32_t flags, uint32_t caps, uint64_t seed)
{
    memset(&fix, 0, sizeof(fix));
    fix.disk_opts.sector = 512;
    fix.disk_opts.size = 8 * 4096 + 9 * 16384;
    fix.disk_opts.caps = SNIC_IO_CAP_FUA | caps;
    fix.disk_opts.delay_min_ns = 1000;
    fix.disk_opts.delay_max_ns = 20000;
    fix.opts.segment_bytes = 16384;
    fix.opts.block_bytes = 512;
    fix.opts.batch_bytes = 16 * 512;
    fix.opts.flags = flags;
    fix.opts.uuid[0] = seed;
    fix.m.length_max = 512;
    walfix_start(&fix, seed);
}

static void fault(uint32_t kind, uint32_t ops, uint64_t after, uint64_t repeat, int error)
{
    struct snic_fault f = {
        .kind = kind, .ops = ops, .after = after, .repeat = repeat, .error = error};
    f.seed = after * 7 + repeat;
    assert_int_equal(snic_disk_fault(fix.disk, &f), 0);
}

/* What a process killed and started again does: a new handle, what was in the cache stays. */
static void restart(void)
{
    if (fix.wal != NULL)
        walfix_close(&fix);
    walfix_unplug(&fix);
    walfix_plug(&fix);
}

static void settle(void)
{
    walfix_settle(&fix);
    while (fix.failed == 0 && fix.m.meta_floor != fix.m.meta_top)
        assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
}

/* One run of a process: it stops at the first failure. With @p torn the power goes at its end. */
static void run(struct snic_rng *rng, int torn, uint32_t *failures)
{
    if (walfix_open(&fix, SNIC_WAL_CREATE) != 0) {
        assert_non_null(fix.report.reason);
        (*failures)++;
        restart();
        return;
    }
    assert_null(fix.report.reason);
    if (fix.report.verdict == SNIC_WAL_CORRUPT)
        fail_msg("CORRUPT: %" PRIu64 " to %" PRIu64 " missing", fix.report.first_missing,
                 fix.report.last_missing);
    walfix_judge(&fix);
    if (fix.report.verdict == SNIC_WAL_SUSPECT)
        walfix_accept(&fix);
    for (uint32_t i = 0; i < 6 && fix.failed == 0; i++) {
        (void)walfix_append(&fix, (uint32_t)snic_rng_below(rng, WALFIX_SOME), 0);
        if (i == 1)
            (void)walfix_meta(&fix);
        if (i % 2 == 1)
            settle();
    }
    for (uint32_t i = 0; torn && i < 8 && fix.failed == 0; i++) {
        (void)walfix_append(&fix, (uint32_t)snic_rng_below(rng, WALFIX_SOME), 0);
        if (snic_rng_below(rng, 3) == 0)
            (void)snic_loop_once(fix.loop, SNIC_NEVER);
    }
    *failures += fix.failed != 0;
    if (torn)
        snic_disk_power_cut(fix.disk, snic_rng_next(rng));
    restart();
}

/* The n-th sync fails, and the next @p repeat ones; how many openings and logs failed. */
static uint32_t lose(uint64_t n, uint64_t repeat, uint32_t flags, uint32_t caps, uint64_t seed)
{
    struct snic_rng rng;
    uint32_t failures = 0;
    rig(flags, caps, seed);
    snic_rng_init(&rng, seed);
    fault(SNIC_FAULT_LOST, 0, n, repeat, SNIC_EIO);
    for (uint32_t i = 0; i < 6; i++) {
        run(&rng, i == 1 || i == 3, &failures);
        assert_string_equal(fix.why, "");
    }
    snic_disk_faults_clear(fix.disk);
    snic_disk_power_cut(fix.disk, n % 2 == 0 ? SNIC_FAULT_KEEP_NONE : n);
    restart();
    if (failures < 6 || fix.m.durable > 0) {
        if (walfix_open(&fix, SNIC_WAL_CREATE) != 0)
            fail_msg("open: %s: %s", snic_strerror(fix.result), fix.report.reason);
        walfix_close(&fix);
        walfix_next_run(&fix, 1);
    }
    if (fix.why[0] != 0)
        fail_msg("sync %" PRIu64 " and %" PRIu64 " more, seed %" PRIu64 ": %s", n, repeat, seed,
                 fix.why);
    walfix_end(&fix);
    return failures;
}

static void lose_each(uint32_t flags, uint32_t caps)
{
    for (uint64_t seed = 1; seed <= support_scale(4, 60); seed++) {
        for (uint64_t repeat = 0; repeat < 3; repeat++) {
            uint32_t failed = 0;
            for (uint64_t n = 1; n <= 80; n++)
                failed += lose(n, repeat, flags, caps, support_seed() * 1000 + seed) > 0;
            assert_true(failed > 20);
        }
    }
}

/* Records that only the cache had are counted, and lost with the power after others followed. */
static void test_wal_cache_sync_lost_reported_is_there(void **state)
{
    (void)state;
    lose_each(0, 0);
    lose_each(SNIC_WAL_NO_FUA, 0);
}

/* The same past the cache: what the device lost is not read. */
static void test_wal_cache_direct_sync_lost_reported_is_there(void **state)
{
    (void)state;
    lose_each(0, SNIC_IO_CAP_DIRECT);
    lose_each(SNIC_WAL_NO_FUA, SNIC_IO_CAP_DIRECT);
}

/* A record of a failed flush is found and then durable, or opening fails and names the reason. */
static void test_wal_cache_record_of_failed_flush_rewritten(void **state)
{
    (void)state;
    for (uint32_t fails = 0; fails < 2; fails++) {
        rig(SNIC_WAL_NO_FUA, 0, 1);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        assert_int_equal(walfix_append(&fix, 1, 0), 0);
        walfix_settle(&fix);
        fault(SNIC_FAULT_LOST, 1u << SNIC_IO_FLUSH, 1, 0, SNIC_EIO);
        assert_int_equal(walfix_append(&fix, 2, 0), 0);
        walfix_settle(&fix);
        assert_int_equal(fix.failed, SNIC_EIO);
        restart();
        if (fails) { /* the superblocks' flushes are the first two */
            fault(SNIC_FAULT_LOST, 1u << SNIC_IO_FLUSH, 3, 0, SNIC_EIO);
            assert_int_equal(walfix_open(&fix, 0), SNIC_EIO);
            assert_non_null(strstr(fix.report.reason, "end of the log"));
            restart();
        }
        assert_int_equal(walfix_open(&fix, 0), 0);
        assert_int_equal(fix.report.records, 2);
        snic_disk_power_cut(fix.disk, SNIC_FAULT_KEEP_NONE);
        restart();
        assert_int_equal(walfix_open(&fix, 0), 0);
        assert_int_equal(fix.report.records, 2);
        walfix_end(&fix);
    }
}

/* The zeros over blocks of a batch that was cut off are lost: those come back behind later ones. */
static void test_wal_cache_lost_erasure_repeated(void **state)
{
    uint64_t keep[32];
    (void)state;
    rig(SNIC_WAL_NO_FUA, 0, 1);
    fix.m.length_max = 400;
    fix.m.long_from = 1;
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    assert_int_equal(walfix_append(&fix, 1, 0), 0);
    walfix_settle(&fix);
    for (uint32_t k = 2; k < 8; k++)
        assert_int_equal(walfix_append(&fix, k, 0), 0);
    while (snic_disk_unsynced(fix.disk, NULL, 0) == 0) /* the write is done, the flush is not */
        assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
    uint64_t n = snic_disk_unsynced(fix.disk, keep, SNIC_COUNTOF(keep));
    assert_in_range(n, 4, SNIC_COUNTOF(keep));
    snic_disk_power_cut_keep(fix.disk, keep + 1, n - 1);
    restart();
    assert_int_equal(walfix_open(&fix, 0), 0);
    assert_int_equal(fix.report.verdict, SNIC_WAL_SUSPECT);
    walfix_judge(&fix);
    fault(SNIC_FAULT_LOST, 1u << SNIC_IO_FLUSH, 1, 0, SNIC_EIO);
    walfix_accept(&fix);
    assert_int_equal(fix.failed, SNIC_EIO);
    restart();
    assert_int_equal(walfix_open(&fix, 0), 0);
    assert_int_equal(fix.report.verdict, SNIC_WAL_CLEAN);
    walfix_judge(&fix);
    assert_int_equal(walfix_append(&fix, 9, 0), 0);
    walfix_settle(&fix);
    snic_disk_power_cut(fix.disk, SNIC_FAULT_KEEP_NONE);
    restart();
    walfix_next_run(&fix, 1);
    assert_string_equal(fix.why, "");
    walfix_end(&fix);
}

/* The second place has a version in the cache only, then the first one is torn: both are lost. */
static void test_wal_cache_membership_lost_place_rewritten(void **state)
{
    uint64_t keep[32];
    (void)state;
    rig(SNIC_WAL_NO_FUA, 0, 1);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    assert_int_equal(walfix_meta(&fix), 0);
    settle();
    fault(SNIC_FAULT_LOST, 1u << SNIC_IO_FLUSH, 2, 0, SNIC_EIO);
    assert_int_equal(walfix_meta(&fix), 0);
    settle();
    assert_int_equal(fix.failed, SNIC_EIO);
    restart();
    assert_int_equal(walfix_open(&fix, 0), 0);
    walfix_judge(&fix);
    assert_int_equal(fix.m.meta_floor, 2);
    uint64_t before = snic_disk_unsynced(fix.disk, NULL, 0);
    assert_int_equal(walfix_meta(&fix), 0);
    while (snic_disk_unsynced(fix.disk, NULL, 0) == before)
        assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
    uint64_t n = snic_disk_unsynced(fix.disk, keep, SNIC_COUNTOF(keep));
    assert_in_range(n, 2, SNIC_COUNTOF(keep));
    snic_disk_power_cut_keep(fix.disk, keep, 1);
    restart();
    walfix_next_run(&fix, 1);
    assert_string_equal(fix.why, "");
    walfix_end(&fix);
}

/* No space for a write is taken for a broken device, or the log does not continue with space. */
static void test_wal_cache_no_space_beneath_refused_then_continues(void **state)
{
    struct snic_wal_info info;
    (void)state;
    rig(SNIC_WAL_NO_FUA | SNIC_WAL_REPEAT, 0, 1);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    fault(SNIC_FAULT_ERROR, 1u << SNIC_IO_WRITE, 1, 4, SNIC_ENOSPC);
    assert_int_equal(walfix_append(&fix, 1, 0), 0);
    walfix_run(&fix, 100000000);
    assert_int_equal(walfix_append(&fix, 2, 0), SNIC_ENOSPC);
    assert_int_equal(walfix_append(&fix, 2, SNIC_WAL_TOMBSTONE), SNIC_ENOSPC);
    walfix_run(&fix, 600000000);
    assert_int_equal(walfix_meta(&fix), 0);
    walfix_run(&fix, 50000000);
    assert_int_equal(fix.rooms, 0);
    assert_int_equal(fix.failed, 0);
    snic_wal_inspect(fix.wal, &info);
    assert_int_equal(info.starved, 4);
    walfix_run(&fix, 400000000);
    assert_int_equal(fix.rooms, 1);
    assert_int_equal(fix.stored, 1);
    assert_int_equal(walfix_append(&fix, 2, 0), 0);
    settle();
    snic_wal_inspect(fix.wal, &info);
    assert_int_equal(info.durable, 2);
    restart();
    assert_int_equal(walfix_open(&fix, 0), 0);
    walfix_judge(&fix);
    assert_string_equal(fix.why, "");
    walfix_end(&fix);
}

/* Without SNIC_WAL_REPEAT the log ends: who waits for its records is answered. */
static void test_wal_cache_no_space_beneath_fails_unless_repeated(void **state)
{
    (void)state;
    rig(0, 0, 1);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    fault(SNIC_FAULT_ERROR, 1u << SNIC_IO_WRITE, 1, 1, SNIC_ENOSPC);
    assert_int_equal(walfix_append(&fix, 1, 0), 0);
    walfix_settle(&fix);
    assert_int_equal(fix.failed, SNIC_ENOSPC);
    walfix_end(&fix);
}

/* The cache found no space for what it had taken: the log ends, and the error names the cause. */
static void test_wal_cache_no_space_at_flush_fails_as_no_space(void **state)
{
    (void)state;
    for (uint32_t fua = 0; fua < 2; fua++) {
        rig(fua ? 0 : SNIC_WAL_NO_FUA, 0, 1);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        fault(SNIC_FAULT_LOST, 0, 1, 0, SNIC_ENOSPC);
        assert_int_equal(walfix_append(&fix, 1, 0), 0);
        walfix_settle(&fix);
        assert_int_equal(fix.failed, SNIC_ENOSPC);
        walfix_end(&fix);
    }
}

/* Opening a log shows how far it is, and ends with all of it. */
static void test_wal_cache_opening_progress_rises_to_total(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 2; round++) {
        rig(0, round == 0 ? 0 : SNIC_IO_CAP_DIRECT, 1);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        for (uint32_t i = 0; i < 200; i++) {
            if (walfix_append(&fix, i % 5, 0) != 0)
                walfix_settle(&fix);
        }
        walfix_settle(&fix);
        restart();
        assert_int_equal(walfix_open(&fix, 0), 0);
        struct snic_wal_info info;
        snic_wal_inspect(fix.wal, &info);
        assert_true(info.opening_bytes > 16384);
        assert_int_equal(info.opening_bytes, info.opening_total);
        walfix_end(&fix);
    }
}

/* ---- Records of 8 MiB ---- */

struct large {
    int opened;
    uint32_t found;
    uint32_t wrong;
    uint64_t last; /* ts */
};

enum { LARGE_MAX = (8 << 20) + (64 << 10) };

static unsigned char large_bytes[LARGE_MAX];

static void large_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    struct large *l = ctx;
    assert_int_equal(result, 0);
    assert_int_equal(report->verdict, SNIC_WAL_CLEAN);
    l->opened = 1;
}

static void large_found(void *ctx, const struct snic_wal_record *r)
{
    struct large *l = ctx;
    l->found++;
    l->wrong += r->length != LARGE_MAX - r->key.w[0] % 3 * 1000 ||
                memcmp(r->bytes, large_bytes, r->length) != 0;
}

static void large_durable(void *ctx, uint64_t up_to)
{
    (void)ctx;
    (void)up_to;
}

static void large_failed(void *ctx, int error)
{
    (void)ctx;
    fail_msg("failed: %s", snic_strerror(error));
}

/* Every record but the last three of them is needless. */
static int large_keep(void *ctx, const struct snic_wal_record *r)
{
    const struct large *l = ctx;
    return r->ts + 3 > l->last;
}

static void large_open(struct snic_wal **w, void **mem, struct snic_io *io, struct large *l)
{
    static const struct snic_wal_events e = {.opened = large_opened,
                                             .found = large_found,
                                             .durable = large_durable,
                                             .failed = large_failed,
                                             .keep = large_keep};
    struct snic_wal_opts o = {
        .opts_size = sizeof(o), .flags = SNIC_WAL_CREATE, .record_max = LARGE_MAX, .batches = 2};
    size_t size = snic_wal_memsize(io, &o);
    assert_true(size > LARGE_MAX && size < 5u * LARGE_MAX);
    l->opened = 0;
    l->found = 0;
    *mem = support_guard_alloc(size, SNIC_WAL_ALIGN);
    assert_int_equal(snic_wal_open(w, *mem, size, io, &o, &e, l), 0);
    while (!l->opened)
        assert_true(snic_loop_once(io->loop, SNIC_NEVER) > 0);
}

/* Laps of the longest records: by night, since the disk is 8 segments of 32 MiB. */
static void test_wal_cache_records_of_8_mib_laps(void **state)
{
    struct large l;
    struct snic_wal *w = NULL;
    struct snic_wal_info info;
    void *mem = NULL;
    (void)state;
    if (support_scale(0, 1) == 0)
        skip();
    memset(&fix, 0, sizeof(fix));
    fix.disk_opts.size = 8 * 4096 + 8 * ((uint64_t)32 << 20);
    walfix_start(&fix, 1);
    for (uint32_t i = 0; i < LARGE_MAX; i++)
        large_bytes[i] = (unsigned char)(i * 2654435761u >> 24);
    memset(&l, 0, sizeof(l));
    for (uint32_t lap = 0; lap < 3; lap++) {
        large_open(&w, &mem, fix.io, &l);
        assert_int_equal(l.wrong, 0);
        assert_true(lap == 0 ? l.found == 0 : l.found >= 3);
        for (uint32_t i = 0; i < 60;) {
            struct snic_wal_record r = {
                .key = {{l.last + 1, 0}}, .ts = l.last + 1, .bytes = large_bytes};
            r.length = LARGE_MAX - (uint32_t)(r.key.w[0] % 3 * 1000);
            int e = snic_wal_append(w, &r, NULL);
            if (e == SNIC_EAGAIN) {
                assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
                continue;
            }
            assert_int_equal(e, 0);
            assert_int_equal(snic_wal_check(w), 0);
            l.last++;
            i++;
        }
        uint64_t last = snic_wal_flush(w);
        while (snic_wal_durable(w) < last)
            assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
        snic_wal_inspect(w, &info);
        assert_true(info.compacted > 5);
        support_guard_free(snic_wal_close(w));
        walfix_unplug(&fix);
        walfix_plug(&fix);
    }
    walfix_end(&fix);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wal_cache_record_of_failed_flush_rewritten),
        cmocka_unit_test(test_wal_cache_lost_erasure_repeated),
        cmocka_unit_test(test_wal_cache_membership_lost_place_rewritten),
        cmocka_unit_test(test_wal_cache_sync_lost_reported_is_there),
        cmocka_unit_test(test_wal_cache_direct_sync_lost_reported_is_there),
        cmocka_unit_test(test_wal_cache_no_space_beneath_refused_then_continues),
        cmocka_unit_test(test_wal_cache_no_space_beneath_fails_unless_repeated),
        cmocka_unit_test(test_wal_cache_no_space_at_flush_fails_as_no_space),
        cmocka_unit_test(test_wal_cache_opening_progress_rises_to_total),
        cmocka_unit_test(test_wal_cache_records_of_8_mib_laps),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
