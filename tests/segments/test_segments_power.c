/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Power loss in the store: at every write and flush, with every or many choices of what survives of
 * the sectors not yet synced. What was answered is there, whole, with its version or a higher one;
 * fences and generations stand; what was read once is never unread.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "power.h"
#include "segfix.h"
#include "support.h"

static struct segfix fix;
static struct segfix probe;
static struct segfix_model base;

struct setting {
    uint32_t sector;
    uint32_t flags;
    uint64_t log_bytes;
    uint32_t cache;
    uint64_t delay_max_ns;
    uint64_t disk; /* bytes; 0: three segments */
};

static const struct setting settings[] = {
    {512, 0, 2u << 20, 64, 20000, 0},
    {4096, SNIC_SEGMENTS_NO_FUA, 4u << 20, 64, 20000, 0},
    {512, SNIC_SEGMENTS_NO_FUA, 4u << 20, 64, 0, 0},
};

static void rig(struct segfix *f, const struct setting *s, uint64_t seed)
{
    memset(f, 0, sizeof(*f));
    f->disk_opts.sector = s->sector;
    f->disk_opts.size = s->disk;
    f->disk_opts.delay_max_ns = s->delay_max_ns;
    f->disk_opts.delay_min_ns = s->delay_max_ns / 4;
    f->opts.log_bytes = s->log_bytes;
    f->opts.cache_blocks = s->cache;
    f->opts.flags = s->flags;
    segfix_start(f, seed);
}

/* Segments with blocks in them, some at home, some in the log. */
static void fill(struct segfix *f, struct snic_rng *rng)
{
    struct snic_segments_info info;
    assert_int_equal(segfix_open(f, SNIC_SEGMENTS_BLANK), 0);
    for (uint32_t i = 0; i < 3; i++)
        (void)segfix_control(f, i, SNIC_SEGMENTS_CREATE, 1);
    segfix_settle(f);
    do {
        segfix_step(f, rng);
        snic_segments_inspect(f->store, &info);
    } while (info.rounds < 2);
    segfix_settle(f);
}

/* ---- Every operation ---- */

struct sequence {
    struct segfix *f;
    uint64_t seed;
    uint32_t steps;
    uint64_t rounds;
    uint64_t failures;
};

static void sequence_run(void *ctx, struct snic_io *io)
{
    struct sequence *s = ctx;
    struct segfix *f = s->f;
    struct snic_segments_info info;
    struct snic_rng rng;
    f->io[0] = io;
    f->m = base;
    snic_rng_init(&rng, s->seed);
    if (segfix_open(f, 0) == 0) {
        segfix_judge(f);
        f->forgiving = 1; /* a device without power reads nothing */
        for (uint32_t i = 0; i < s->steps && f->failed == 0; i++) {
            segfix_step(f, &rng);
            if (i == s->steps / 3)
                snic_segments_checkpoint(f->store);
        }
        segfix_settle(f);
        snic_segments_inspect(f->store, &info);
        s->rounds += info.rounds;
        s->failures += f->failed;
    }
    segfix_close(f);
    f->forgiving = 0;
}

static void sequence_again(void *ctx, struct snic_io *io, struct snic_disk *disk, uint64_t seed)
{
    struct sequence *s = ctx;
    struct segfix *f = s->f;
    f->io[0] = io;
    if (segfix_open(f, 0) == 0) {
        snic_segments_checkpoint(f->store);
        for (uint64_t n = seed / 2 % 40; n > 0; n--)
            (void)snic_loop_once(f->loop, SNIC_NEVER);
        snic_disk_power_cut(disk, seed);
    }
    segfix_close(f);
}

static void sequence_judge(void *ctx, struct snic_io *io, uint64_t cut, uint64_t survivors)
{
    struct sequence *s = ctx;
    struct segfix *f = s->f;
    f->io[0] = io;
    if (f->why[0] == 0) {
        int r = segfix_open(f, 0);
        if (r != 0)
            segfix_wrong(f, "open: %d", r);
        else
            segfix_judge(f);
        segfix_close(f);
    }
    if (f->why[0] != 0)
        fail_msg("cut %" PRIu64 " survivors %" PRIu64 ": %s", cut, survivors, f->why);
}

/* Something that was answered is lost, torn or older, when the power goes at some operation. */
static void test_segments_power_lost_anywhere_answered_there(void **state)
{
    uint64_t tried = 0;
    uint64_t failures = 0;
    uint64_t rounds = 0;
    (void)state;
    for (uint64_t i = 0; i < SNIC_COUNTOF(settings) * support_scale(1, 6); i++) {
        struct sequence s = {.f = &fix, .seed = support_seed() * 977 + i, .steps = 120};
        struct power_case c;
        struct snic_rng rng;
        rig(&fix, &settings[i % SNIC_COUNTOF(settings)], support_seed() + i);
        snic_rng_init(&rng, s.seed + 1);
        fill(&fix, &rng);
        segfix_close(&fix);
        snic_disk_sync(fix.disk[0]);
        assert_string_equal(fix.why, "");
        base = fix.m;
        segfix_unplug(&fix);
        memset(&c, 0, sizeof(c));
        c.ctx = &s;
        c.run = sequence_run;
        c.judge = sequence_judge;
        c.again = sequence_again;
        c.base = fix.disk[0];
        c.loop = fix.loop;
        c.seed = s.seed;
        c.random = 1;
        c.torn = 1;
        tried += power_enumerate(&c);
        failures += s.failures;
        rounds += s.rounds;
        fix.io[0] = NULL;
        segfix_end(&fix);
    }
    print_message("%" PRIu64 " power cuts, %" PRIu64 " runs died, %" PRIu64 " rounds\n", tried,
                  failures, rounds);
    assert_true(failures > tried / 2 && rounds > 10);
}

/* ---- Every subset ---- */

static void probe_begin(const struct setting *s)
{
    rig(&probe, s, 1); /* a world of its own: fix stands still meanwhile */
    segfix_unplug(&probe);
    snic_disk_close(probe.disk[0]);
}

static void probe_end(void)
{
    snic_loop_close(probe.loop);
    snic_world_close(probe.world);
    free(probe.data);
}

static uint64_t subsets(struct segfix *f, struct snic_rng *rng)
{
    uint64_t sector[256];
    uint64_t n = snic_disk_unsynced(f->disk[0], sector, 256);
    uint64_t all = n <= 4 ? UINT64_C(1) << n : 8;
    n = snic_min_u64(n, 256);
    for (uint64_t i = 0; i < all; i++) {
        uint64_t keep[256];
        uint64_t kept = 0;
        uint64_t odds = 1 + snic_rng_below(rng, 4);
        for (uint64_t k = 0; k < n; k++)
            if (n <= 4 ? (i >> k & 1) != 0 : snic_rng_below(rng, 5) < odds)
                keep[kept++] = sector[k];
        assert_int_equal(snic_disk_clone(f->disk[0], &probe.disk[0]), 0);
        snic_disk_power_cut_keep(probe.disk[0], keep, kept);
        probe.opts = f->opts;
        probe.m = f->m;
        segfix_plug(&probe);
        int r = segfix_open(&probe, 0);
        if (r == 0)
            segfix_judge(&probe);
        segfix_close(&probe);
        segfix_unplug(&probe);
        snic_disk_close(probe.disk[0]);
        if (r != 0 || probe.why[0] != 0)
            fail_msg("%" PRIu64 " of %" PRIu64 " sectors kept: %d %s", kept, n, r, probe.why);
    }
    return all;
}

/* A choice of survivors that the enumeration above does not make is not recovered from. */
static void test_segments_power_lost_every_subset_answered_there(void **state)
{
    uint64_t tried = 0;
    (void)state;
    for (uint64_t i = 0; i < SNIC_COUNTOF(settings); i++) {
        struct snic_rng rng;
        uint64_t seen = 0;
        probe_begin(&settings[i]);
        rig(&fix, &settings[i], support_seed() + 100 + i);
        snic_rng_init(&rng, support_seed() * 31 + i);
        fill(&fix, &rng);
        for (uint64_t k = 0; k < support_rounds(120, 2000); k++) {
            segfix_step(&fix, &rng);
            if (k == 10)
                snic_segments_checkpoint(fix.store);
            while (snic_disk_op_count(fix.disk[0]) == seen && snic_world_step(fix.world) > 0)
                continue;
            seen = snic_disk_op_count(fix.disk[0]);
            if (snic_disk_unsynced(fix.disk[0], NULL, 0) > 0)
                tried += subsets(&fix, &rng);
        }
        assert_string_equal(fix.why, "");
        segfix_end(&fix);
        probe_end();
    }
    print_message("%" PRIu64 " choices\n", tried);
}

/* ---- A segment made in the middle of a round ---- */

/* The power goes now; a start that ends a round; another start: nothing is damaged. */
static void crash_and_recover_twice(struct segfix *f, struct snic_rng *rng)
{
    struct snic_segments_info info = {0};
    assert_int_equal(snic_disk_clone(f->disk[0], &probe.disk[0]), 0);
    snic_disk_power_cut(probe.disk[0], snic_rng_next(rng) >> 1);
    probe.opts = f->opts;
    probe.m = f->m;
    segfix_plug(&probe);
    for (uint32_t run_number = 0; run_number < 2; run_number++) {
        probe.damages = 0;
        assert_int_equal(segfix_open(&probe, 0), 0);
        segfix_judge(&probe);
        assert_int_equal(probe.damages, 0);
        snic_segments_checkpoint(probe.store);
        info.rounds = 0;
        for (uint32_t k = 0; k < 100 && info.rounds == 0; k++) { /* none where all is home */
            segfix_run(&probe, 100000);
            snic_segments_inspect(probe.store, &info);
        }
        segfix_close(&probe);
    }
    segfix_unplug(&probe);
    snic_disk_close(probe.disk[0]);
    assert_string_equal(probe.why, "");
}

/* A store of which a round has just begun. */
static void begin_round(const struct setting *s, uint64_t seed, struct snic_segments_info *info)
{
    struct snic_rng rng;
    rig(&fix, s, seed);
    snic_rng_init(&rng, seed * 53);
    fill(&fix, &rng);
    for (uint32_t k = 0; k < 20; k++)
        segfix_step(&fix, &rng);
    snic_segments_inspect(fix.store, info);
    snic_segments_checkpoint(fix.store);
}

/** Events until it writes its first table. */
static uint64_t events_to_tables(const struct setting *s, uint64_t seed)
{
    struct snic_segments_info info;
    uint64_t events = 0;
    begin_round(s, seed, &info);
    for (uint64_t tables = info.tables; info.tables == tables; events++) {
        if (snic_world_step(fix.world) == 0)
            break; /* all is home */
        snic_segments_inspect(fix.store, &info);
    }
    segfix_settle(&fix);
    segfix_end(&fix);
    return events;
}

/* Tables come to be on the device without the segment that they are of, or the other way round. */
static void test_segments_power_lost_beside_a_create_no_damage(void **state)
{
    uint64_t tried = 0;
    (void)state;
    for (uint64_t i = 0; i < support_rounds(60, 600); i++) {
        struct setting s = settings[i % 2]; /* a disk that takes its time */
        uint64_t seed = support_seed() * 1000 + i;
        struct snic_segments_info info;
        struct snic_rng rng;
        s.disk = s.log_bytes + (10u << 20); /* a place is left */
        snic_rng_init(&rng, seed);
        uint64_t events = events_to_tables(&s, seed);
        events -= snic_min_u64(events, 1 + snic_rng_below(&rng, 12));
        probe_begin(&s);
        begin_round(&s, seed, &info);
        for (; events > 0; events--)
            (void)snic_world_step(fix.world);
        (void)segfix_control(&fix, 3, SNIC_SEGMENTS_CREATE, 1);
        for (uint32_t k = 0; k < 16; k++, tried++) {
            (void)snic_world_step(fix.world);
            crash_and_recover_twice(&fix, &rng);
        }
        assert_string_equal(fix.why, "");
        segfix_settle(&fix);
        segfix_end(&fix);
        probe_end();
    }
    print_message("%" PRIu64 " power cuts\n", tried);
}

/* ---- Many runs ---- */

/* What one run leaves behind hurts a later one. */
static void test_segments_power_lost_often_each_run_recovers(void **state)
{
    uint64_t cuts = 0;
    uint64_t tails = 0;
    uint64_t replayed = 0;
    (void)state;
    for (uint64_t i = 0; i < SNIC_COUNTOF(settings) * support_scale(1, 10); i++) {
        struct snic_rng rng;
        rig(&fix, &settings[i % SNIC_COUNTOF(settings)], support_seed() + 200 + i);
        snic_rng_init(&rng, support_seed() * 77 + i);
        fill(&fix, &rng);
        for (uint32_t run_number = 0; run_number < support_rounds(60, 60); run_number++) {
            struct snic_fault p = {.kind = SNIC_FAULT_POWER};
            p.ops = 1u << SNIC_IO_WRITE | 1u << SNIC_IO_FLUSH;
            p.after = 1 + snic_rng_below(&rng, 200);
            p.seed = 1 + snic_rng_below(&rng, 1u << 30);
            if (snic_rng_below(&rng, 3) == 0) {
                p.kind = SNIC_FAULT_TORN;
                p.bytes = snic_rng_below(&rng, 9) * fix.disk_opts.sector;
            }
            assert_int_equal(snic_disk_fault(fix.disk[0], &p), 0);
            fix.forgiving = 1; /* a device without power reads nothing */
            for (uint32_t k = 0; k < 400 && fix.failed == 0; k++)
                segfix_step(&fix, &rng);
            if (fix.failed == 0)
                snic_disk_power_cut(fix.disk[0], snic_rng_next(&rng) >> 1);
            segfix_settle(&fix);
            segfix_close(&fix);
            fix.forgiving = 0;
            segfix_unplug(&fix);
            snic_disk_faults_clear(fix.disk[0]);
            segfix_plug(&fix);
            cuts++;
            int r = segfix_open(&fix, 0);
            if (r == 0)
                segfix_judge(&fix);
            tails += fix.report.tails;
            replayed += fix.report.replayed;
            if (r != 0 || fix.why[0] != 0)
                fail_msg("seed %" PRIu64 " disk %" PRIu64 " run_number %u: %d %s", support_seed(),
                         i, run_number, r, fix.why);
        }
        segfix_end(&fix);
    }
    print_message("%" PRIu64 " power cuts, %" PRIu64 " tails in doubt, %" PRIu64
                  " blocks replayed\n",
                  cuts, tails, replayed);
    assert_true(tails > 0 && replayed > cuts);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments_power_lost_anywhere_answered_there),
        cmocka_unit_test(test_segments_power_lost_every_subset_answered_there),
        cmocka_unit_test(test_segments_power_lost_beside_a_create_no_damage),
        cmocka_unit_test(test_segments_power_lost_often_each_run_recovers),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
