/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long runs of a log on a small disk: random appends against a model, a log that is full, I/O
 * errors, slow and short transfers.
 */
#include <inttypes.h>

#include "support.h"
#include "walfix.h"

static struct walfix fix;

static void rig(uint64_t seed, uint32_t segments, uint32_t length_max)
{
    memset(&fix, 0, sizeof(fix));
    fix.disk_opts.sector = 512;
    fix.disk_opts.size = 32768 + segments * 16384;
    fix.disk_opts.delay_min_ns = 10000;
    fix.disk_opts.delay_max_ns = 60000;
    fix.opts.segment_bytes = 16384;
    fix.opts.block_bytes = 512;
    if (length_max > 512)
        fix.opts.record_max = 5461; /* three to a segment; a batch holds one or a few */
    else
        fix.opts.batch_bytes = 8192;
    fix.opts.flags = (seed & 1) != 0 ? SNIC_WAL_NO_FUA : 0;
    fix.m.length_max = length_max;
    walfix_start(&fix, seed);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
}

static struct snic_wal_info info(void)
{
    struct snic_wal_info i;
    snic_wal_inspect(fix.wal, &i);
    return i;
}

static void reopen(void)
{
    walfix_close(&fix);
    walfix_next_run(&fix, 0);
    assert_int_equal(fix.report.verdict, SNIC_WAL_CLEAN);
    assert_string_equal(fix.why, "");
}

/* Append until it is taken; what it returned before. 0 when it was full. */
static int insist(uint32_t key, uint32_t flags)
{
    for (uint32_t i = 0; i < 1000; i++) {
        int e = walfix_append(&fix, key, flags);
        if (e == 0 || e == SNIC_ENOSPC)
            return e == 0;
        assert_int_equal(e, SNIC_EAGAIN);
        uint64_t rooms = fix.rooms;
        while (fix.rooms == rooms) {
            assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0); /* room() comes */
            walfix_check(&fix);
        }
    }
    fail_msg("always SNIC_EAGAIN");
    return 0;
}

/* Anything over many laps through all segments: a record lost by compaction, or one that returns.
 */
static void test_wal_random_many_laps_as_the_model(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_scale(4, 40); i++) {
        struct snic_rng rng;
        uint64_t compacted = 0;
        rig(support_seed() + i, 12 + (uint32_t)i % 5, 512);
        snic_rng_init(&rng, support_seed() * 13 + i);
        for (uint32_t run_number = 0; run_number < 4; run_number++) {
            for (uint32_t k = 0; k < 2500; k++) {
                uint32_t key = (uint32_t)snic_rng_below(&rng, WALFIX_SOME);
                uint64_t dice = snic_rng_below(&rng, 20);
                if (dice == 0)
                    walfix_run(&fix, snic_rng_below(&rng, 3000000));
                else if (dice == 1 && fix.m.tombstone[key] &&
                         snic_wal_durable(fix.wal) == fix.m.entry[fix.m.count - 1].position)
                    fix.m.forgotten[key] = fix.m.newest[key];
                else if (dice == 2)
                    (void)walfix_meta(&fix);
                else
                    assert_true(insist(key, dice < 5   ? SNIC_WAL_TOMBSTONE
                                            : dice < 9 ? SNIC_WAL_BACKGROUND
                                                       : 0));
            }
            compacted += info().compacted;
            walfix_settle(&fix);
            assert_int_equal(fix.failed, 0);
            reopen();
        }
        assert_true(compacted > 20);
        walfix_end(&fix);
    }
}

/*
 * A log of records that are all needed is full, reports it, rests, takes tombstones, and after
 * these takes records again: for ever.
 */
static void test_wal_random_full_refused_and_a_way_out(void **state)
{
    uint32_t rounds = (uint32_t)support_scale(8, 60);
    uint32_t live = 0;
    uint32_t first = 0;
    (void)state;
    rig(support_seed(), 13, 500);
    fix.m.long_from = 1;
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t more = 0;
        uint64_t copied;
        uint32_t deleted = 0;
        while (live < WALFIX_KEYS && insist(live, 0)) {
            live++;
            more++;
        }
        if (round == 0)
            first = live;
        assert_true(live < WALFIX_KEYS && live > 60);
        /* As many as were deleted, but for what does not fit at ends of blocks. */
        assert_true(round < 2 || (more >= 8 && live > first * 3 / 4));
        assert_true(info().full);
        assert_int_equal(walfix_append(&fix, 1, 0), SNIC_ENOSPC);
        walfix_settle(&fix);
        walfix_run(&fix, 10000000);
        copied = info().copies;
        walfix_run(&fix, 1000000000);
        assert_int_equal(info().copies, copied); /* it rests */
        assert_int_equal(walfix_append(&fix, 1, 0), SNIC_ENOSPC);
        if (round % 4 == 1) {
            assert_true(insist(1, SNIC_WAL_LAST_SPACE));
            assert_false(insist(1, 0));
        }
        for (; deleted < 12; deleted++) /* the last ones */
            assert_true(insist(live - 1 - deleted, SNIC_WAL_TOMBSTONE));
        live -= deleted;
        if (round % 2 == 0)
            reopen();
        else
            walfix_settle(&fix);
        for (uint32_t k = 0; k < deleted; k++)
            fix.m.forgotten[live + k] = fix.m.newest[live + k];
        assert_int_equal(fix.failed, 0);
    }
    reopen();
    walfix_end(&fix);
}

/*
 * Records of up to a third of a segment, of which copies waste the most at the ends of segments:
 * full, deletions, room again, and copies always fit.
 */
static void test_wal_random_largest_records_full_and_room_again(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_scale(4, 60); i++) {
        struct snic_rng rng;
        uint32_t refused = 0;
        uint32_t taken = 0;
        rig(support_seed() * 31 + i, (i % 2 == 0 ? 12 : 8) + (uint32_t)i % 5, 5461);
        if (i % 2 == 0)
            fix.m.long_from = 1;
        snic_rng_init(&rng, support_seed() * 17 + i);
        for (uint32_t k = 0; k < 1500; k++) {
            uint32_t key = (uint32_t)snic_rng_below(&rng, 60);
            if (snic_rng_below(&rng, 300) == 0)
                reopen();
            if (insist(key, 0)) {
                taken++;
                continue;
            }
            refused++;
            assert_true(insist(key, SNIC_WAL_TOMBSTONE));
            walfix_settle(&fix);
            fix.m.forgotten[key] = fix.m.newest[key];
            snic_wal_compact(fix.wal);
        }
        assert_int_equal(fix.failed, 0);
        if (taken < 100 || (i % 2 == 0 && refused < 10))
            fail_msg("%u taken, %u refused, run %u", taken, refused, (uint32_t)i);
        walfix_settle(&fix);
        reopen();
        walfix_end(&fix);
    }
}

/* Tombstones fill the log up to what compaction needs, not beyond. */
static void test_wal_random_full_of_tombstones_compaction_goes_on(void **state)
{
    uint32_t key = 0;
    uint32_t more = 0;
    (void)state;
    rig(support_seed(), 13, 500);
    fix.m.long_from = 1;
    while (insist(key, 0))
        key++;
    for (uint32_t k = key; insist(k, SNIC_WAL_TOMBSTONE); k++)
        more++; /* of keys that are not there: these free nothing */
    assert_true(more > 100 && key + more < WALFIX_KEYS);
    assert_true(info().segments_free >= 2); /* compaction's */
    reopen();
    for (uint32_t k = key; k < WALFIX_KEYS; k++)
        fix.m.forgotten[k] = fix.m.newest[k];
    snic_wal_compact(fix.wal);
    for (uint32_t i = 0; i < 500; i++) /* overwriting continues with what there is */
        if (!insist(i % key, SNIC_WAL_TOMBSTONE))
            break;
        else
            more++;
    for (uint32_t i = 0; i < 500; i++)
        assert_true(insist(i % 20, 0));
    walfix_settle(&fix);
    reopen();
    walfix_end(&fix);
}

/* A write or flush fails, at any point: the log is dead at once and for good, a new open finds all
 * that was durable. */
static void test_wal_random_io_error_dead_then_recovered(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_rounds(60, 600); i++) {
        struct snic_fault p = {.kind = SNIC_FAULT_ERROR, .error = SNIC_EIO};
        struct snic_rng rng;
        rig(support_seed() + i, 12, 400);
        snic_rng_init(&rng, support_seed() * 5 + i);
        for (uint32_t k = 0; k < i * 13 % 700; k++)
            assert_true(insist((uint32_t)snic_rng_below(&rng, WALFIX_SOME), 0));
        p.ops = i % 3 == 0 ? 1u << SNIC_IO_FLUSH : i % 3 == 1 ? 1u << SNIC_IO_WRITE : 0;
        p.after = 1 + snic_rng_below(&rng, 9);
        assert_int_equal(snic_disk_fault(fix.disk, &p), 0);
        for (uint32_t k = 0; k < 3000 && fix.failed == 0; k++) {
            int e = walfix_append(&fix, (uint32_t)snic_rng_below(&rng, WALFIX_SOME), 0);
            assert_true(e == 0 || e == SNIC_EAGAIN || fix.failed != 0);
            if (k % 50 == 7)
                (void)walfix_meta(&fix);
            if (e != 0 || k % 5 == 0)
                walfix_run(&fix, 100000);
        }
        if (fix.failed != 0) {
            uint64_t durable = fix.m.durable;
            const void *bytes;
            uint32_t length;
            assert_int_equal(fix.failed, SNIC_EIO);
            assert_int_equal(walfix_append(&fix, 1, 0), SNIC_EIO);
            assert_int_equal(walfix_append(&fix, 1, SNIC_WAL_TOMBSTONE), SNIC_EIO);
            assert_int_equal(snic_wal_meta_put(fix.wal, "x", 1), SNIC_EIO);
            assert_int_equal(snic_wal_accept_tail(fix.wal), SNIC_EIO);
            int e = snic_wal_meta_get(fix.wal, &bytes, &length);
            assert_true(e == 0 || e == SNIC_ENOENT);
            snic_wal_compact(fix.wal);
            (void)snic_wal_flush(fix.wal);
            walfix_run(&fix, 100000000);
            assert_int_equal(fix.m.durable, durable); /* nothing is retried */
            assert_int_equal(info().dead, 1);
        } else {
            assert_true(i % 3 == 0); /* FUA: there is no flush */
            walfix_settle(&fix);
        }
        walfix_close(&fix);
        snic_disk_faults_clear(fix.disk);
        snic_disk_power_cut(fix.disk, snic_rng_next(&rng) >> 1);
        walfix_unplug(&fix);
        walfix_plug(&fix);
        walfix_next_run(&fix, 1);
        assert_string_equal(fix.why, "");
        walfix_end(&fix);
    }
}

/* An error at each operation of opening: opened() reports it. */
static void test_wal_random_io_error_in_opening_reported(void **state)
{
    uint64_t n = 1;
    (void)state;
    rig(support_seed(), 12, 400);
    for (uint32_t k = 0; k < 300; k++)
        assert_true(insist(k % WALFIX_SOME, 0));
    walfix_settle(&fix);
    walfix_close(&fix);
    for (;; n++) {
        struct snic_fault p = {.kind = SNIC_FAULT_ERROR, .error = SNIC_EIO, .after = n};
        assert_int_equal(snic_disk_fault(fix.disk, &p), 0);
        int e = walfix_open(&fix, 0);
        snic_disk_faults_clear(fix.disk);
        if (e == 0)
            break;
        assert_int_equal(e, SNIC_EIO);
    }
    assert_true(n > 12);
    walfix_judge(&fix);
    assert_string_equal(fix.why, "");
    walfix_end(&fix);
    /* And of format: nothing half made is taken for a log. */
    for (n = 1;; n++) {
        struct snic_fault p = {.kind = SNIC_FAULT_POWER, .after = n};
        p.ops = 1u << SNIC_IO_WRITE | 1u << SNIC_IO_FLUSH;
        p.seed = n * 7;
        memset(&fix, 0, sizeof(fix));
        fix.disk_opts.sector = 512;
        fix.disk_opts.size = 32768 + 10 * 16384;
        fix.opts.segment_bytes = 16384;
        fix.opts.block_bytes = 512;
        walfix_start(&fix, n);
        assert_int_equal(snic_disk_fault(fix.disk, &p), 0);
        int e = walfix_open(&fix, SNIC_WAL_CREATE);
        if (e == 0)
            break;
        walfix_unplug(&fix);
        snic_disk_faults_clear(fix.disk);
        walfix_plug(&fix);
        e = walfix_open(&fix, 0);
        assert_true(e == SNIC_ENOENT || e == 0);
        if (e == SNIC_ENOENT)
            assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        assert_int_equal(fix.found, 0);
        assert_int_equal(walfix_append(&fix, 1, 0), 0);
        walfix_settle(&fix);
        walfix_end(&fix);
    }
    assert_true(n > 6);
    walfix_end(&fix);
}

/* Short transfers are gone on with; a full queue is tried again. */
static void test_wal_random_short_and_slow_all_there(void **state)
{
    struct snic_rng rng;
    (void)state;
    rig(support_seed(), 12, 512);
    snic_rng_init(&rng, support_seed());
    for (uint32_t k = 0; k < 20; k++) {
        struct snic_fault p = {.kind = SNIC_FAULT_SHORT, .after = 1 + k * 9, .bytes = 512};
        p.bytes = 1 + snic_rng_below(&rng, 3000);
        assert_int_equal(snic_disk_fault(fix.disk, &p), 0);
    }
    for (uint32_t k = 0; k < 3000; k++)
        assert_true(insist((uint32_t)snic_rng_below(&rng, WALFIX_SOME), 0));
    walfix_settle(&fix);
    reopen();
    walfix_end(&fix);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wal_random_many_laps_as_the_model),
        cmocka_unit_test(test_wal_random_full_refused_and_a_way_out),
        cmocka_unit_test(test_wal_random_largest_records_full_and_room_again),
        cmocka_unit_test(test_wal_random_full_of_tombstones_compaction_goes_on),
        cmocka_unit_test(test_wal_random_io_error_dead_then_recovered),
        cmocka_unit_test(test_wal_random_io_error_in_opening_reported),
        cmocka_unit_test(test_wal_random_short_and_slow_all_there),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
