/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a power cut leaves of the simulated disk: un-synced sectors, flushes, torn writes. */
#include "test_io_mem_util.h"

#include <stdlib.h>

/* What was not flushed may be lost, what was must not be. */
static void test_io_mem_power_cut_keeps_flushed_loses_rest(void **state)
{
    struct rig g = rig_open();
    uint64_t list[SECTORS];
    (void)state;
    put(&g, 0, 4, 'a', 0);
    assert_int_equal(snic_disk_unsynced(g.disk, list, SECTORS), 4);
    assert_int_equal(list[0], 0);
    assert_int_equal(list[3], 3);
    assert_int_equal(snic_disk_unsynced(g.disk, list, 1), 4);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 4);
    flush(&g);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 0);
    put(&g, 2, 4, 'b', 0);
    put(&g, 60, 1, 'c', SNIC_IO_FUA);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 4);
    assert_int_equal(sector_is(&g, 2), 'b'); /* reads see it */
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 0);
    for (uint64_t s = 0; s < 6; s++)
        assert_int_equal(sector_is(&g, s), s < 4 ? 'a' : 0);
    assert_int_equal(sector_is(&g, 60), 'c');
    rig_close(&g);
}

/* The handle that was open dies with the power and reports it; the next one works. */
static void test_io_mem_power_cut_handle_dead_next_one_works(void **state)
{
    struct rig g = rig_open();
    struct call c;
    unsigned char mem[SECTOR];
    (void)state;
    put(&g, 0, 1, 'a', 0);
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_ALL);
    assert_int_equal(call_start(&g, &c, SNIC_IO_READ, 0, mem, SECTOR, 0), SNIC_EIO);
    assert_int_equal(c.done, 0);
    rig_reopen(&g);
    assert_int_equal(call_run(&g, SNIC_IO_READ, 0, mem, SECTOR, 0), SECTOR);
    assert_int_equal(mem[0], 'a');
    rig_close(&g);
}

static uint32_t gone_calls;

static void gone_writable(struct snic_io_waiter *w)
{
    (void)w;
    gone_calls++;
}

/* A user that waits for room must learn that the device is gone: nothing completes any more. */
static void test_io_mem_power_cut_reported_to_waiting(void **state)
{
    struct snic_disk_opts o = {
        .opts_size = sizeof(o), .sector = SECTOR, .size = SECTORS * SECTOR, .depth = 1};
    struct snic_fault hang = {.kind = SNIC_FAULT_DELAY, .after = 1, .delay_ns = 1000000000};
    struct rig g = rig_open_with(&o);
    struct snic_io_waiter w;
    struct call c, late;
    unsigned char mem[SECTOR];
    (void)state;
    gone_calls = 0;
    assert_int_equal(snic_disk_fault(g.disk, &hang), 0);
    assert_int_equal(call_start(&g, &c, SNIC_IO_READ, 0, mem, SECTOR, 0), 1);
    assert_int_equal(call_start(&g, &late, SNIC_IO_READ, 0, mem, SECTOR, 0), 0);
    snic_io_waiter_init(&w, gone_writable);
    snic_io_wait(g.io, &w);
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_ALL);
    assert_int_equal(gone_calls, 0);
    for (int i = 0; i < 4; i++)
        (void)snic_loop_once(g.loop, 0);
    assert_int_equal(gone_calls, 1);
    assert_int_equal(c.done, 1);
    assert_int_equal(call_start(&g, &late, SNIC_IO_READ, 0, mem, SECTOR, 0), SNIC_EIO);
    rig_close(&g);
}

/* An exact subset must survive: enumerating subsets is how recovery code is proved. */
static void test_io_mem_power_cut_keeps_exactly_the_listed(void **state)
{
    (void)state;
    for (unsigned subset = 0; subset < 32; subset++) {
        struct rig g = rig_open();
        uint64_t keep[5], n = 0;
        put(&g, 10, 5, 'a', 0);
        flush(&g);
        put(&g, 10, 5, 'b', 0);
        for (uint64_t i = 0; i < 5; i++) {
            if ((subset >> i & 1) != 0)
                keep[n++] = 10 + i;
        }
        snic_disk_power_cut_keep(g.disk, keep, n);
        for (uint64_t i = 0; i < 5; i++)
            assert_int_equal(sector_is(&g, 10 + i), (subset >> i & 1) != 0 ? 'b' : 'a');
        rig_close(&g);
    }
}

/* Seeds must give different subsets, and the same subset again. */
static void test_io_mem_power_cut_subsets_vary_with_seed_and_repeat(void **state)
{
    uint64_t some = 0, none = 0, all = 0, survivors[64];
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t seed = 1; seed <= 64; seed++) {
            struct rig g = rig_open();
            uint64_t kept = 0;
            put(&g, 0, 8, 'a', 0);
            snic_disk_power_cut(g.disk, seed);
            for (uint64_t s = 0; s < 8; s++)
                kept |= (uint64_t)(sector_is(&g, s) == 'a') << s;
            if (pass == 0)
                survivors[seed - 1] = kept;
            else
                assert_int_equal(survivors[seed - 1], kept);
            none += kept == 0;
            all += kept == 0xff;
            some += kept != 0 && kept != 0xff;
            rig_close(&g);
        }
    }
    assert_true(some > 40 && none > 0 && all > 0);
}

/* A flush covers what completed before it was submitted, when it completes, and no more. */
static void test_io_mem_flush_in_flight_covers_completed_writes_only(void **state)
{
    struct rig g = rig_open();
    struct snic_fault slow = {.kind = SNIC_FAULT_DELAY, .after = 1, .delay_ns = 1000000};
    struct call f;
    (void)state;
    slow.ops = 1u << SNIC_IO_FLUSH;
    for (int early = 0; early < 2; early++) {
        put(&g, 0, 2, 'a', 0);
        assert_int_equal(snic_disk_fault(g.disk, &slow), 0);
        assert_int_equal(call_start(&g, &f, SNIC_IO_FLUSH, 0, NULL, 0, 0), 1);
        put(&g, 1, 2, 'b', 0); /* completes while the flush is under way */
        assert_int_equal(f.done, 0);
        if (!early) {
            while (f.done == 0)
                assert_int_equal(snic_loop_once(g.loop, SNIC_NEVER), 1);
            snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
            assert_int_equal(sector_is(&g, 0), 'a');
            assert_int_equal(sector_is(&g, 1), 'a'); /* covered; 'b' came after */
            assert_int_equal(sector_is(&g, 2), 0);
        } else { /* acknowledging before the flush completes loses data */
            snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
            assert_int_equal(sector_is(&g, 0), 'x');
            assert_int_equal(snic_loop_once(g.loop, SNIC_NEVER), 1);
            assert_int_equal(f.req.result, SNIC_EIO);
        }
        rig_reopen(&g);
        put(&g, 0, 3, 'x', SNIC_IO_FUA);
    }
    rig_close(&g);
}

/* A ranged flush must cover its range; a failed one must not claim anything. */
static void test_io_mem_flush_range_or_failed_rest_stays_unsynced(void **state)
{
    struct rig g = rig_open();
    struct snic_fault f = {
        .kind = SNIC_FAULT_ERROR, .ops = 1u << SNIC_IO_FLUSH, .after = 1, .error = SNIC_EIO};
    uint64_t list[SECTORS];
    (void)state;
    put(&g, 0, 8, 'a', 0);
    assert_int_equal(call_run(&g, SNIC_IO_FLUSH, 2 * SECTOR, NULL, SECTOR + 1, 0), 0);
    assert_int_equal(snic_disk_unsynced(g.disk, list, SECTORS), 6);
    assert_int_equal(list[2], 4);
    assert_int_equal(snic_disk_fault(g.disk, &f), 0);
    assert_int_equal(call_run(&g, SNIC_IO_FLUSH, 0, NULL, 0, 0), SNIC_EIO);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 6);
    snic_disk_sync(g.disk);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 0);
    rig_close(&g);
}

/* Zeroes and discards are as volatile as writes until a flush. */
static void test_io_mem_zero_and_discard_lost_until_flushed(void **state)
{
    struct rig g = rig_open();
    (void)state;
    put(&g, 0, 4, 'a', SNIC_IO_FUA);
    assert_int_equal(call_run(&g, SNIC_IO_ZERO, 0, NULL, SECTOR, 0), SECTOR);
    assert_int_equal(call_run(&g, SNIC_IO_DISCARD, SECTOR, NULL, SECTOR, 0), SECTOR);
    assert_int_equal(sector_is(&g, 0), 0);
    assert_true(sector_is(&g, 1) != 'a');
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 2);
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(sector_is(&g, 0), 'a');
    assert_int_equal(sector_is(&g, 1), 'a');
    rig_reopen(&g);
    assert_int_equal(call_run(&g, SNIC_IO_ZERO, 0, NULL, SECTOR, 0), SECTOR);
    flush(&g);
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(sector_is(&g, 0), 0);
    rig_close(&g);
}

/* A torn write leaves a prefix of whole sectors, whatever survives of the rest. */
static void test_io_mem_torn_write_leaves_prefix_of_sectors(void **state)
{
    (void)state;
    for (uint64_t bytes = 0; bytes <= 6 * SECTOR; bytes += SECTOR / 2) {
        struct rig g = rig_open();
        struct snic_fault f = {.kind = SNIC_FAULT_TORN, .after = 1, .bytes = bytes};
        unsigned char mem[5 * SECTOR];
        put(&g, 0, 8, 'a', SNIC_IO_FUA);
        put(&g, 20, 1, 'u', 0); /* un-synced, lost with the power */
        assert_int_equal(snic_disk_fault(g.disk, &f), 0);
        memset(mem, 'b', sizeof(mem));
        assert_int_equal(call_run(&g, SNIC_IO_READ, 0, mem, SECTOR, 0), SECTOR); /* no write */
        memset(mem, 'b', sizeof(mem));
        assert_int_equal(call_run(&g, SNIC_IO_WRITE, 0, mem, 5 * SECTOR, 0), SNIC_EIO);
        for (uint64_t s = 0; s < 8; s++)
            assert_int_equal(sector_is(&g, s), s < snic_min_u64(bytes / SECTOR, 5) ? 'b' : 'a');
        assert_int_equal(sector_is(&g, 20), 0);
        rig_close(&g);
    }
}

/* Writes in flight at the cut may land in part, and only they; each completes with an error. */
static void test_io_mem_power_cut_in_flight_writes_land_by_sector(void **state)
{
    uint64_t landed = 0, partly = 0;
    (void)state;
    for (uint64_t seed = 0; seed <= 64; seed++) {
        struct snic_disk_opts o = {.opts_size = sizeof(o),
                                   .sector = SECTOR,
                                   .size = SECTORS * SECTOR,
                                   .delay_min_ns = 1000,
                                   .delay_max_ns = 1000};
        struct rig g = rig_open_with(&o);
        unsigned char mem[8 * SECTOR];
        struct call c[3];
        uint64_t n = 0;
        put(&g, 0, 8, 'a', SNIC_IO_FUA);
        memset(mem, 'b', sizeof(mem));
        assert_int_equal(call_start(&g, &c[0], SNIC_IO_WRITE, 0, mem, 8 * SECTOR, 0), 1);
        assert_int_equal(call_start(&g, &c[1], SNIC_IO_FLUSH, 0, NULL, 0, 0), 1);
        assert_int_equal(call_start(&g, &c[2], SNIC_IO_READ, 0, mem, 0, 0), 1); /* refused */
        snic_disk_power_cut(g.disk, seed);
        for (int i = 0; i < 3; i++)
            assert_int_equal(c[i].done, 0); /* never from inside a call */
        assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 0);
        uint64_t at = snic_world_now(g.world);
        while (snic_world_step(g.world) != 0)
            ;
        for (int i = 0; i < 3; i++)
            assert_int_equal(c[i].done, 1);
        assert_int_equal(snic_world_now(g.world), at); /* at once: there is nothing to wait for */
        assert_int_equal(c[0].req.result, SNIC_EIO);
        assert_int_equal(c[1].req.result, SNIC_EIO);
        assert_int_equal(c[2].req.result, SNIC_EINVAL);
        for (uint64_t s = 0; s < 8; s++) {
            assert_true(sector_is(&g, s) == 'a' || sector_is(&g, s) == 'b');
            n += sector_is(&g, s) == 'b';
        }
        if (seed == SNIC_FAULT_KEEP_NONE)
            assert_int_equal(n, 0);
        landed += n != 0;
        partly += n != 0 && n != 8;
        rig_close(&g);
    }
    assert_true(landed > 20 && partly > 20);
}

/* The power goes before the n-th operation takes effect: enumerating n covers every moment. */
static void test_io_mem_power_fault_strikes_before_the_operation(void **state)
{
    struct rig g = rig_open();
    struct snic_fault f = {.kind = SNIC_FAULT_POWER, .after = 3, .seed = SNIC_FAULT_KEEP_NONE};
    unsigned char mem[SECTOR];
    (void)state;
    assert_int_equal(snic_disk_fault(g.disk, &f), 0);
    put(&g, 0, 1, 'a', SNIC_IO_FUA);
    put(&g, 1, 1, 'b', 0);
    memset(mem, 'c', SECTOR);
    assert_int_equal(call_run(&g, SNIC_IO_WRITE, 2 * SECTOR, mem, SECTOR, SNIC_IO_FUA), SNIC_EIO);
    assert_int_equal(sector_is(&g, 0), 'a');
    assert_int_equal(sector_is(&g, 1), 0);
    assert_int_equal(sector_is(&g, 2), 0);
    assert_int_equal(snic_disk_op_count(g.disk), 3);
    rig_reopen(&g);
    put(&g, 2, 1, 'd', 0); /* the fault is used up */
    rig_close(&g);
}

/* A sync that failed: the cache shows what was written, the device lacks it, later flushes help
 * not. Only what is written again becomes durable. */
static void test_io_mem_lost_sync_readable_until_power_lost(void **state)
{
    (void)state;
    for (unsigned op = 0; op < 2; op++) {
        struct rig g = rig_open();
        struct snic_fault f = {.kind = SNIC_FAULT_LOST, .after = 1, .error = SNIC_EIO};
        unsigned char mem[SECTOR];
        put(&g, 0, 4, 'a', 0);
        flush(&g);
        assert_int_equal(snic_disk_fault(g.disk, &f), 0);
        put(&g, 0, 1, 'b', 0); /* it strikes syncs only */
        put(&g, 1, 1, 'b', 0);
        memset(mem, 'b', SECTOR);
        if (op == 0)
            assert_int_equal(call_run(&g, SNIC_IO_FLUSH, 0, NULL, 0, 0), SNIC_EIO);
        else
            assert_int_equal(call_run(&g, SNIC_IO_WRITE, 0, mem, SECTOR, SNIC_IO_FUA), SNIC_EIO);
        assert_int_equal(sector_is(&g, 0), 'b');
        assert_int_equal(sector_is(&g, 1), 'b');
        flush(&g);
        put(&g, 2, 1, 'c', 0);
        flush(&g);
        snic_disk_sync(g.disk);
        assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), op == 0 ? 2 : 1);
        rig_reopen(&g);
        assert_int_equal(sector_is(&g, 0), 'b');
        put(&g, 1, 1, 'b', 0);
        flush(&g);
        snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_ALL);
        assert_int_equal(sector_is(&g, 0), 'a');
        assert_int_equal(sector_is(&g, 1), 'b');
        assert_int_equal(sector_is(&g, 2), 'c');
        rig_close(&g);
    }
}

/* Past the cache reads show what the device has after a sync that failed. */
static void test_io_mem_lost_sync_direct_reads_the_device(void **state)
{
    struct snic_disk_opts o = {.opts_size = sizeof(o),
                               .sector = SECTOR,
                               .size = SECTORS * SECTOR,
                               .caps = SNIC_IO_CAP_FUA | SNIC_IO_CAP_DIRECT};
    struct snic_fault f = {.kind = SNIC_FAULT_LOST, .after = 1, .error = SNIC_EIO};
    struct rig g = rig_open_with(&o);
    (void)state;
    f.seed = SNIC_FAULT_KEEP_NONE;
    put(&g, 0, 1, 'a', 0);
    flush(&g);
    put(&g, 0, 1, 'b', 0);
    assert_int_equal(snic_disk_fault(g.disk, &f), 0);
    assert_int_equal(call_run(&g, SNIC_IO_FLUSH, 0, NULL, 0, 0), SNIC_EIO);
    assert_int_equal(sector_is(&g, 0), 'a');
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 0);
    rig_close(&g);
}

/*
 * Every byte after a cut must be the last durable or a later written value, and all of a sector
 * must be of one moment. Random writes, flushes, FUA and cuts against per-sector histories.
 */
struct history {
    unsigned char durable;    /* at least this old                     */
    unsigned char since[400]; /* values written after it, oldest first */
    uint32_t count;
};

static void history_cut(struct rig *g, struct history *h)
{
    for (uint64_t s = 0; s < SECTORS; s++) {
        int now = sector_is(g, s);
        int legal = now == h[s].durable || (h[s].count > 0 && now == h[s].since[h[s].count - 1]);
        assert_true(legal); /* the older ones were overwritten in the cache */
        h[s].durable = (unsigned char)now;
        h[s].count = 0;
    }
}

static void test_io_mem_random_cuts_survivors_are_legal(void **state)
{
    struct rig g = rig_open();
    struct history *h = calloc(SECTORS, sizeof(*h));
    struct snic_rng rng;
    unsigned char value = 0;
    (void)state;
    assert_non_null(h);
    snic_rng_init(&rng, support_seed());
    for (uint64_t i = 0; i < support_scale(4000, 400000); i++) {
        uint64_t n = 1 + snic_rng_below(&rng, 6);
        uint64_t s = snic_rng_below(&rng, SECTORS - n + 1);
        uint64_t draw = snic_rng_below(&rng, 20);
        if (draw < 14) {
            int fua = draw < 2;
            value = (unsigned char)(value + 1);
            put(&g, s, n, value, fua ? SNIC_IO_FUA : 0);
            for (uint64_t k = s; k < s + n; k++) {
                if (fua || h[k].count == SNIC_COUNTOF(h[k].since)) {
                    h[k].durable = value;
                    h[k].count = 0;
                }
                if (!fua)
                    h[k].since[h[k].count++] = value;
            }
        } else if (draw < 17) {
            flush(&g);
            for (uint64_t k = 0; k < SECTORS; k++) {
                if (h[k].count > 0)
                    h[k].durable = h[k].since[h[k].count - 1];
                h[k].count = 0;
            }
        } else if (draw == 17) {
            snic_disk_power_cut(g.disk, snic_rng_next(&rng));
            history_cut(&g, h);
            rig_reopen(&g);
        } else {
            unsigned char mem[SECTOR];
            assert_int_equal(call_run(&g, SNIC_IO_READ, s * SECTOR, mem, SECTOR, 0), SECTOR);
            assert_int_equal(mem[5], h[s].count > 0 ? h[s].since[h[s].count - 1] : h[s].durable);
        }
    }
    free(h);
    rig_close(&g);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_io_mem_power_cut_keeps_flushed_loses_rest),
        cmocka_unit_test(test_io_mem_power_cut_handle_dead_next_one_works),
        cmocka_unit_test(test_io_mem_power_cut_reported_to_waiting),
        cmocka_unit_test(test_io_mem_power_cut_keeps_exactly_the_listed),
        cmocka_unit_test(test_io_mem_power_cut_subsets_vary_with_seed_and_repeat),
        cmocka_unit_test(test_io_mem_flush_in_flight_covers_completed_writes_only),
        cmocka_unit_test(test_io_mem_flush_range_or_failed_rest_stays_unsynced),
        cmocka_unit_test(test_io_mem_zero_and_discard_lost_until_flushed),
        cmocka_unit_test(test_io_mem_torn_write_leaves_prefix_of_sectors),
        cmocka_unit_test(test_io_mem_power_cut_in_flight_writes_land_by_sector),
        cmocka_unit_test(test_io_mem_power_fault_strikes_before_the_operation),
        cmocka_unit_test(test_io_mem_lost_sync_readable_until_power_lost),
        cmocka_unit_test(test_io_mem_lost_sync_direct_reads_the_device),
        cmocka_unit_test(test_io_mem_random_cuts_survivors_are_legal),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
