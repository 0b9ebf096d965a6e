/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Power loss in the log: at every write and flush, with every or many choices of what survives of
 * the sectors not yet synced. What durable() had announced is found, nothing that was not appended,
 * no record without those before it, and the log takes records again.
 */
#include <inttypes.h>

#include "power.h"
#include "support.h"
#include "walfix.h"

static struct walfix fix;
static struct walfix probe;
static struct walfix_model base;

struct setting {
    uint32_t sector;
    uint32_t block;
    uint32_t segment;
    uint32_t segments;
    uint32_t flags;
    uint32_t length_max;
    uint64_t delay_max_ns;
    uint32_t record_max; /* 0: what 16 blocks hold */
};

static const struct setting settings[] = {
    {512, 512, 16384, 12, 0, 512, 0, 0},
    {512, 512, 16384, 11, SNIC_WAL_NO_FUA, 400, 50000, 0},
    {512, 2048, 32768, 14, SNIC_WAL_NO_FUA, 600, 50000, 0}, /* blocks are torn, too */
    {4096, 4096, 65536, 12, SNIC_WAL_NO_FUA, 2000, 20000, 0},
    {4096, 512, 16384, 16, 0, 300, 30000, 0},    /* sectors hold several blocks */
    {512, 512, 16384, 16, 0, 5000, 30000, 5461}, /* three records to a segment */
};

static void rig(struct walfix *f, const struct setting *s, uint64_t seed)
{
    memset(f, 0, sizeof(*f));
    f->disk_opts.sector = s->sector;
    f->disk_opts.size = 8 * (s->block > 4096 ? s->block : 4096) + s->segments * s->segment;
    f->disk_opts.delay_max_ns = s->delay_max_ns;
    f->disk_opts.delay_min_ns = s->delay_max_ns / 4;
    f->opts.segment_bytes = s->segment;
    f->opts.block_bytes = s->block;
    f->opts.batch_bytes = s->record_max == 0 ? 16 * s->block : 0;
    f->opts.record_max = s->record_max;
    f->opts.batches = 3;
    f->opts.flags = s->flags;
    f->opts.uuid[0] = seed;
    f->m.length_max = s->length_max;
    walfix_start(f, seed);
}

/* One step of a random owner. */
static void step(struct walfix *f, struct snic_rng *rng)
{
    static const uint64_t waits[] = {0, 10000, 60000, 200000, 3000000};
    /* Some keys are written rarely: compaction has something to copy. */
    uint32_t key = snic_rng_below(rng, 10) != 0 ? (uint32_t)snic_rng_below(rng, WALFIX_SOME)
                                                : WALFIX_SOME + (uint32_t)snic_rng_below(rng, 70);
    switch (snic_rng_below(rng, 10)) {
    case 0:
        walfix_run(f, waits[snic_rng_below(rng, SNIC_COUNTOF(waits))]);
        break;
    case 1:
        f->in_call = 1;
        (void)snic_wal_flush(f->wal);
        f->in_call = 0;
        walfix_run(f, 20000);
        break;
    case 2:
        (void)walfix_append(f, key, SNIC_WAL_TOMBSTONE);
        break;
    case 3: /* what is deleted and durable is no longer needed */
        if (f->m.tombstone[key] && snic_wal_durable(f->wal) == f->m.entry[f->m.count - 1].position)
            f->m.forgotten[key] = f->m.newest[key];
        break;
    case 4:
        if (snic_rng_below(rng, 8) == 0)
            (void)walfix_meta(f);
        break;
    case 5:
        (void)walfix_append(f, key, SNIC_WAL_BACKGROUND);
        break;
    default:
        if (walfix_append(f, key, 0) == SNIC_EAGAIN)
            walfix_run(f, 100000);
        break;
    }
}

/* Until compaction runs all the time. */
static void lap(struct walfix *f, struct snic_rng *rng)
{
    struct snic_wal_info info;
    do {
        step(f, rng);
        snic_wal_inspect(f->wal, &info);
    } while (info.compacted < 2);
    walfix_settle(f);
}

/* Overwrite a few keys until little is free. */
static void lap_fill(struct walfix *f)
{
    struct snic_wal_info info;
    uint32_t k = 0;
    do {
        if (walfix_append(f, k++ % 8, 0) != 0)
            walfix_run(f, 100000);
        snic_wal_inspect(f->wal, &info);
    } while (info.segments_free > info.segments_reserved + 1);
}

/* ---- Every operation ---- */

struct sequence {
    struct walfix *f;
    uint64_t seed;
    uint32_t steps;
    uint64_t compacted;
};

static void sequence_run(void *ctx, struct snic_io *io)
{
    struct sequence *s = ctx;
    struct walfix *f = s->f;
    struct snic_wal_info info;
    struct snic_rng rng;
    f->io = io;
    walfix_model_copy(&f->m, &base);
    snic_rng_init(&rng, s->seed);
    if (walfix_open(f, 0) != 0)
        return;
    walfix_judge(f);
    for (uint32_t i = 0; i < s->steps && f->failed == 0; i++)
        step(f, &rng);
    if (f->failed == 0)
        walfix_settle(f);
    snic_wal_inspect(f->wal, &info);
    s->compacted = info.compacted;
    walfix_close(f);
}

static void sequence_again(void *ctx, struct snic_io *io, struct snic_disk *disk, uint64_t seed)
{
    struct sequence *s = ctx;
    struct walfix *f = s->f;
    f->io = io;
    if (walfix_open(f, 0) != 0)
        return;
    if (f->report.verdict == SNIC_WAL_SUSPECT)
        assert_int_equal(snic_wal_accept_tail(f->wal), 0);
    for (uint64_t n = seed / 2 % 5; n > 0; n--)
        (void)snic_loop_once(f->loop, SNIC_NEVER);
    snic_disk_power_cut(disk, seed);
    walfix_close(f);
}

static void sequence_judge(void *ctx, struct snic_io *io, uint64_t cut, uint64_t survivors)
{
    struct sequence *s = ctx;
    struct walfix *f = s->f;
    f->io = io;
    if (f->why[0] == 0)
        walfix_next_run(f, 1);
    if (f->wal != NULL)
        walfix_close(f);
    if (f->why[0] != 0)
        fail_msg("cut %" PRIu64 " survivors %" PRIu64 ": %s", cut, survivors, f->why);
}

/* Something that was durable is lost, or mixed up, when the power goes at some operation. */
static void test_wal_power_lost_anywhere_durable_there(void **state)
{
    uint64_t tried = 0;
    uint64_t compacted = 0;
    (void)state;
    for (uint64_t i = 0; i < SNIC_COUNTOF(settings) * support_scale(1, 6); i++) {
        struct sequence s = {.f = &fix, .seed = support_seed() * 977 + i, .steps = 260};
        struct power_case c;
        struct snic_rng rng;
        rig(&fix, &settings[i % SNIC_COUNTOF(settings)], support_seed() + i);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        snic_rng_init(&rng, s.seed + 1);
        lap(&fix, &rng);
        walfix_close(&fix);
        snic_disk_sync(fix.disk);
        assert_int_equal(walfix_open(&fix, 0), 0);
        walfix_judge(&fix);
        walfix_close(&fix);
        walfix_unplug(&fix);
        assert_string_equal(fix.why, "");
        walfix_model_copy(&base, &fix.m);
        memset(&c, 0, sizeof(c));
        c.ctx = &s;
        c.run = sequence_run;
        c.judge = sequence_judge;
        c.again = sequence_again;
        c.base = fix.disk;
        c.loop = fix.loop;
        c.seed = s.seed;
        c.random = 1;
        c.torn = 1;
        tried += power_enumerate(&c);
        compacted += s.compacted;
        fix.io = NULL;
        walfix_end(&fix);
    }
    print_message("%" PRIu64 " power cuts, %" PRIu64 " segments compacted\n", tried, compacted);
    assert_true(compacted > 0);
}

/* ---- Every subset ---- */

/* Each way in which the sectors that are not synced now may survive. */
static uint64_t subsets(struct walfix *f, struct snic_rng *rng)
{
    uint64_t sector[64];
    uint64_t n = snic_disk_unsynced(f->disk, sector, 64);
    uint64_t all = n <= 5 ? UINT64_C(1) << n : 24;
    for (uint64_t i = 0; i < all; i++) {
        uint64_t keep[64];
        uint64_t mask = n <= 5 ? i : snic_rng_next(rng);
        uint64_t kept = 0;
        for (uint64_t k = 0; k < n && k < 64; k++)
            if ((mask >> k & 1) != 0)
                keep[kept++] = sector[k];
        assert_int_equal(snic_disk_clone(f->disk, &probe.disk), 0);
        snic_disk_power_cut_keep(probe.disk, keep, kept);
        probe.opts = f->opts;
        walfix_model_copy(&probe.m, &f->m);
        walfix_plug(&probe);
        walfix_next_run(&probe, 0);
        walfix_close(&probe);
        walfix_unplug(&probe);
        snic_disk_close(probe.disk);
        if (probe.why[0] != 0)
            fail_msg("%" PRIu64 " of %" PRIu64 " sectors kept: %s", kept, n, probe.why);
    }
    return all;
}

/* A choice of survivors that the enumeration above does not make is not recovered from. */
static void test_wal_power_lost_every_subset_durable_there(void **state)
{
    uint64_t tried = 0;
    (void)state;
    for (uint64_t i = 0; i < SNIC_COUNTOF(settings); i++) {
        struct snic_rng rng;
        uint64_t seen = 0;
        rig(&probe, &settings[i], 1); /* a world of its own: fix stands still meanwhile */
        walfix_unplug(&probe);
        snic_disk_close(probe.disk);
        rig(&fix, &settings[i], support_seed() + 100 + i);
        snic_rng_init(&rng, support_seed() * 31 + i);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        lap(&fix, &rng);
        for (uint64_t k = 0; k < support_rounds(200, 3000); k++) {
            step(&fix, &rng);
            while (snic_disk_op_count(fix.disk) == seen && snic_world_step(fix.world) > 0)
                walfix_check(&fix);
            seen = snic_disk_op_count(fix.disk);
            if (snic_disk_unsynced(fix.disk, NULL, 0) > 0)
                tried += subsets(&fix, &rng);
        }
        assert_string_equal(fix.why, "");
        walfix_end(&fix);
        snic_loop_close(probe.loop);
        snic_world_close(probe.world);
    }
    print_message("%" PRIu64 " choices\n", tried);
}

/* ---- Many runs ---- */

static void run_fault(struct walfix *f, struct snic_rng *rng, uint64_t operations)
{
    struct snic_fault p = {.kind = SNIC_FAULT_POWER};
    p.ops = 1u << SNIC_IO_WRITE | 1u << SNIC_IO_FLUSH;
    p.after = 1 + snic_rng_below(rng, operations);
    p.seed = 1 + snic_rng_below(rng, 1u << 30);
    if (snic_rng_below(rng, 3) == 0) {
        p.kind = SNIC_FAULT_TORN;
        p.bytes = snic_rng_below(rng, 5) * f->disk_opts.sector;
    } else if (snic_rng_below(rng, 4) == 0) {
        p.seed = snic_rng_below(rng, 2) == 0 ? SNIC_FAULT_KEEP_NONE : SNIC_FAULT_KEEP_ALL;
    }
    assert_int_equal(snic_disk_fault(f->disk, &p), 0);
}

/*
 * The same disk through many power cuts, some of them in recovery or soon after it: what one run
 * leaves behind hurts a later one, or crashes fill the log.
 */
static void test_wal_power_lost_often_each_run_recovers(void **state)
{
    uint64_t cuts = 0;
    uint64_t suspect = 0;
    uint64_t compacted = 0;
    uint64_t full = 0;
    (void)state;
    for (uint64_t i = 0; i < SNIC_COUNTOF(settings) * support_scale(2, 20); i++) {
        struct snic_rng rng;
        rig(&fix, &settings[i % SNIC_COUNTOF(settings)], support_seed() + 200 + i);
        snic_rng_init(&rng, support_seed() * 77 + i);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        for (uint32_t run_number = 0; run_number < support_rounds(80, 80); run_number++) {
            struct snic_wal_info info;
            run_fault(&fix, &rng, snic_rng_below(&rng, 3) == 0 ? 8 : 150);
            for (uint32_t k = 0; k < 600 && fix.failed == 0; k++)
                step(&fix, &rng);
            if (fix.failed == 0)
                snic_disk_power_cut(fix.disk, snic_rng_next(&rng) >> 1);
            snic_wal_inspect(fix.wal, &info);
            compacted += info.compacted;
            full += info.refused_full;
            walfix_close(&fix);
            walfix_unplug(&fix);
            snic_disk_faults_clear(fix.disk);
            walfix_plug(&fix);
            if (snic_rng_below(&rng, 4) == 0) { /* and again while it recovers */
                run_fault(&fix, &rng, 6);
                if (walfix_open(&fix, 0) == 0) {
                    if (fix.report.verdict == SNIC_WAL_SUSPECT)
                        walfix_accept(&fix);
                    walfix_close(&fix);
                }
                snic_disk_power_cut(fix.disk, snic_rng_next(&rng) >> 1);
                walfix_unplug(&fix);
                snic_disk_faults_clear(fix.disk);
                walfix_plug(&fix);
            }
            cuts++;
            walfix_next_run(&fix, 0);
            suspect += fix.report.verdict == SNIC_WAL_SUSPECT;
            if (fix.why[0] != 0)
                fail_msg("seed %" PRIu64 " disk %" PRIu64 " run_number %u: %s", support_seed(), i,
                         run_number, fix.why);
        }
        walfix_end(&fix);
    }
    print_message("%" PRIu64 " power cuts, %" PRIu64 " suspect, %" PRIu64
                  " segments compacted, %" PRIu64 " appends refused for good\n",
                  cuts, suspect, compacted, full);
    assert_true(compacted > cuts / 8 && suspect > 0);
    assert_int_equal(full, 0);
}

/*
 * The power goes again and again while the oldest segment is being copied, and each time some of
 * the copies have become durable: they are not made twice, or the log fills up with them for good.
 */
static void test_wal_power_lost_while_copying_no_space_lost(void **state)
{
    uint32_t finished = 0;
    uint32_t crashes = 0;
    struct snic_wal_info info;
    (void)state;
    rig(&fix, &settings[1], support_seed());
    fix.m.long_from = 1;
    fix.m.length_max = 300;
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    for (uint32_t k = 0; k < 70; k++) { /* needed for ever */
        assert_int_equal(walfix_append(&fix, 100 + k, 0), 0);
        walfix_settle(&fix);
    }
    lap_fill(&fix);
    for (uint32_t run_number = 0; run_number < 150; run_number++) {
        uint64_t durable = 0;
        for (uint32_t k = 0; k < 4000; k++) {
            if (walfix_append(&fix, k % 8, 0) != 0)
                walfix_run(&fix, 30000);
            snic_wal_inspect(fix.wal, &info);
            if (durable == 0 && info.copies > 0)
                durable = info.appended;
            if (durable != 0 && info.durable >= durable)
                break; /* a batch with copies, and not all of them */
        }
        finished += info.compacted > 0;
        crashes += info.copies > 0 && info.compacted == 0;
        assert_true(info.segments_free >= 2);
        walfix_close(&fix);
        snic_disk_power_cut(fix.disk, run_number + 1);
        walfix_unplug(&fix);
        walfix_plug(&fix);
        walfix_next_run(&fix, 0);
        assert_string_equal(fix.why, "");
    }
    print_message("%u crashes while copying, %u lives came to the end of a segment\n", crashes,
                  finished);
    assert_true(crashes > 3 && finished > 3);
    walfix_end(&fix);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wal_power_lost_anywhere_durable_there),
        cmocka_unit_test(test_wal_power_lost_every_subset_durable_there),
        cmocka_unit_test(test_wal_power_lost_often_each_run_recovers),
        cmocka_unit_test(test_wal_power_lost_while_copying_no_space_lost),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
