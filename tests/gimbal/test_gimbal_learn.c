/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Learning the device: the learner alone, fed by hand, then a switch that learns in front of a
 * device in simulated time: what it finds, what it leaves alone, and that nothing a device does
 * takes it out of its limits or stops it.
 */
#include "gimbal/learn_priv.h"
#include "test_gimbal_util.h"

#define READ SNIC_GIMBAL_READ
#define WRITE SNIC_GIMBAL_WRITE
#define US UINT64_C(1000)

/* ---- The learner alone ---- */

struct feed {
    struct gimbal_learn l;
    uint64_t now;
};

static void feed_open(struct feed *f)
{
    f->now = 1000;
    gimbal_learn_init(&f->l, f->now);
}

/* Until @to, I/Os of @took_ns each, @depth at a time, the oldest back first. */
static void feed_run(struct feed *f, uint8_t op, uint32_t size, uint64_t took_ns, uint32_t depth,
                     uint64_t to)
{
    uint64_t sent[64];
    uint32_t out = 0;
    uint32_t head = 0;
    assert_true(depth <= SNIC_COUNTOF(sent));
    while (f->now < to || out > 0) {
        int quiet = gimbal_learn_quiet(&f->l, f->now);
        if (f->now < to && out < depth && !(quiet && out > 0)) {
            gimbal_learn_sent(&f->l, out, f->now);
            sent[(head + out++) % SNIC_COUNTOF(sent)] = f->now;
            f->now += out < depth && !quiet ? took_ns / depth : 0;
            continue;
        }
        struct snic_gimbal_io io = {.op = op, .size = size, .sent_ns = sent[head]};
        f->now = snic_max_u64(f->now, sent[head] + took_ns);
        head = (head + 1) % SNIC_COUNTOF(sent);
        out--;
        gimbal_learn_done(&f->l, &io, 1, out, f->now);
        assert_int_equal(gimbal_learn_check(&f->l), 0);
    }
}

static struct gimbal_tuning feed_tuning(const struct feed *f)
{
    struct gimbal_tuning t;
    gimbal_learn_tune(&f->l.known, 128 * KIB, &t);
    return t;
}

static void test_gimbal_learn_begins_with_the_defaults(void **state)
{
    (void)state;
    struct feed f;
    feed_open(&f);
    struct gimbal_tuning t = feed_tuning(&f);
    assert_int_equal(t.thresh_min_ns, 250 * US);
    assert_int_equal(t.thresh_max_ns, 1500 * US);
    assert_int_equal(t.write_cost_worst, 9 * SNIC_GIMBAL_COST_ONE);
    assert_int_equal(t.slot_threshold, 8);
    assert_int_equal(t.rate_max, 8 * SEC);
}

static void test_gimbal_learn_first_batch_decides(void **state)
{
    (void)state;
    struct feed f;
    feed_open(&f);
    feed_run(&f, READ, 128 * KIB, 36 * US, 16, f.now + 9 * 36 * US);
    assert_int_equal(f.l.known.read_ns, 36 * US);
    assert_int_equal(f.l.batches, 1);
    struct gimbal_tuning t = feed_tuning(&f);
    assert_int_equal(t.thresh_min_ns, 45 * US);
    assert_int_equal(t.thresh_max_ns, 270 * US);
}

/* 4 KiB reads and writes count as what 128 KiB take on a device like the defaults' one. */
static void test_gimbal_learn_scales_sizes_and_writes(void **state)
{
    (void)state;
    struct feed f;
    feed_open(&f);
    feed_run(&f, READ, 4 * KIB, 84 * US, 4, f.now + 10 * 84 * US);
    assert_in_range(f.l.known.read_ns, 205 * US, 209 * US);
    feed_open(&f);
    feed_run(&f, WRITE, 4 * KIB, 140 * US, 4, f.now + 10 * 140 * US);
    assert_int_equal(f.l.known.read_ns, 0);
    assert_in_range(f.l.known.write_ns, 215 * US, 222 * US);
    struct gimbal_tuning t = feed_tuning(&f);
    assert_in_range(t.thresh_min_ns, 500 * US, 530 * US);
}

static void test_gimbal_learn_rate_gives_thresholds_slots_ceiling(void **state)
{
    (void)state;
    struct feed f;
    feed_open(&f);
    feed_run(&f, READ, 128 * KIB, 1000 * US, 1, 20 * MS); /* alone */
    feed_run(&f, READ, 128 * KIB, 5000 * US, 50, SEC);    /* 1.31 GB/s */
    struct gimbal_tuning t = feed_tuning(&f);
    assert_in_range(f.l.known.read_rate[1], 1200000000, 1350000000);
    assert_in_range(t.slot_threshold, 15, 17); /* 1.5 times 1.31 GB/s for 1 ms */
    assert_in_range(t.thresh_min_ns, 1245 * US, 1255 * US);
    assert_int_equal(t.thresh_max_ns, 6 * t.thresh_min_ns);
    assert_in_range(t.rate_max, 3000000000, 3400000000);
}

static void test_gimbal_learn_slower_of_reads_and_writes_counts(void **state)
{
    (void)state;
    struct snic_gimbal_profile p = {.opts_size = sizeof(p), .read_ns = 100 * US};
    struct gimbal_tuning t;
    p.write_ns = 80 * US;
    gimbal_learn_tune(&p, 128 * KIB, &t);
    assert_int_equal(t.thresh_min_ns, 125 * US);
    p.write_ns = 800 * US;
    gimbal_learn_tune(&p, 128 * KIB, &t);
    assert_int_equal(t.thresh_min_ns, 1000 * US);
    assert_int_equal(t.thresh_max_ns, 6000 * US);
}

/* What its users ask for is no rate of the device. */
static void test_gimbal_learn_rate_of_idle_device_counts_nothing(void **state)
{
    (void)state;
    struct feed f;
    feed_open(&f);
    feed_run(&f, READ, 128 * KIB, 207 * US, 1, SEC);
    assert_int_equal(f.l.known.read_rate[1], 0);
    feed_run(&f, READ, 128 * KIB, 250 * US, 2, 2 * SEC); /* a few at a time: still none waits */
    assert_int_equal(f.l.known.read_rate[1], 0);
    for (uint64_t at = f.now; f.now < at + SEC; f.now += MS)
        feed_run(&f, READ, 128 * KIB, 400 * US, 2, f.now + 400 * US);
    assert_int_equal(f.l.known.read_rate[1], 0);
}

static void test_gimbal_learn_write_cost_only_rises(void **state)
{
    (void)state;
    struct feed f;
    feed_open(&f);
    feed_run(&f, READ, 4 * KIB, 84 * US, 1, 10 * MS);
    feed_run(&f, READ, 4 * KIB, 400 * US, 40, SEC); /* 410 MB/s */
    feed_run(&f, WRITE, 4 * KIB, 70 * US, 1, SEC + 600 * MS);
    feed_run(&f, WRITE, 4 * KIB, 5600 * US, 40, 3 * SEC); /* 29 MB/s */
    assert_in_range(feed_tuning(&f).write_cost_worst, 13 * SNIC_GIMBAL_COST_ONE,
                    15 * SNIC_GIMBAL_COST_ONE);
    feed_run(&f, WRITE, 4 * KIB, 800 * US, 40, 5 * SEC); /* fast again: the worst is 9 */
    assert_int_equal(feed_tuning(&f).write_cost_worst, 9 * SNIC_GIMBAL_COST_ONE);
}

static void test_gimbal_learn_follows_down_at_once_up_when_two_agree(void **state)
{
    (void)state;
    struct feed f;
    feed_open(&f);
    feed_run(&f, READ, 128 * KIB, 200 * US, 1, 3 * SEC + 100 * MS);
    assert_int_equal(f.l.known.read_ns, 200 * US);
    uint64_t batches = f.l.batches;
    while (f.l.batches == batches)
        feed_run(&f, READ, 128 * KIB, 600 * US, 1, f.now + 1);
    assert_int_equal(f.l.known.read_ns, 200 * US);
    feed_run(&f, READ, 128 * KIB, 600 * US, 1, f.now + 500 * MS);
    assert_int_equal(f.l.known.read_ns, 600 * US);
    feed_run(&f, READ, 128 * KIB, 100 * US, 1, f.now + 510 * MS);
    assert_int_equal(f.l.known.read_ns, 100 * US);
}

/* One long pause in eight is left out, more are what the device is like. */
static void test_gimbal_learn_pauses(void **state)
{
    (void)state;
    for (unsigned pauses = 0; pauses < 4; pauses++) {
        struct feed f;
        feed_open(&f);
        for (unsigned i = 0; i < 8; i++)
            feed_run(&f, READ, 128 * KIB, i < pauses ? 5 * MS : 100 * US, 1, f.now + 1);
        assert_int_equal(f.l.known.read_ns, pauses < 2 ? 100 * US : 5 * MS);
    }
}

/* A busy device: quiet times find the change within two seconds, in either direction. */
static void test_gimbal_learn_finds_changes_under_load(void **state)
{
    (void)state;
    struct feed f;
    feed_open(&f);
    feed_run(&f, READ, 128 * KIB, 200 * US, 16, 10 * SEC);
    assert_int_equal(f.l.known.read_ns, 200 * US);
    assert_true(f.l.quiets <= 5);
    feed_run(&f, READ, 128 * KIB, 700 * US, 16, 12 * SEC);
    assert_int_equal(f.l.known.read_ns, 700 * US);
    feed_run(&f, READ, 128 * KIB, 100 * US, 16, 14 * SEC);
    assert_int_equal(f.l.known.read_ns, 100 * US);
}

/* Reads that meet writes the device has yet to do are no reason to raise a threshold. */
static void test_gimbal_learn_reads_among_writes_raise_nothing(void **state)
{
    (void)state;
    struct feed f;
    feed_open(&f);
    feed_run(&f, READ, 128 * KIB, 200 * US, 1, 100 * MS);
    for (int i = 0; i < 1000; i++) {
        feed_run(&f, WRITE, 128 * KIB, 500 * US, 4, f.now + 2 * MS);
        feed_run(&f, READ, 128 * KIB, 390 * US, 1, f.now + 4 * MS);
    }
    assert_int_equal(f.l.known.read_ns, 200 * US);
    feed_run(&f, READ, 128 * KIB, 390 * US, 1, f.now + 2 * SEC);
    assert_in_range(f.l.known.read_ns, 385 * US, 390 * US);
}

static void test_gimbal_learn_quiet_ends_by_itself(void **state)
{
    (void)state;
    struct feed f;
    feed_open(&f);
    assert_int_equal(gimbal_learn_quiet(&f.l, f.now), 1); /* first of all */
    uint64_t end = gimbal_learn_deadline_ns(&f.l);
    assert_true(end <= f.now + SNIC_GIMBAL__EPOCH_NS / 8);
    gimbal_learn_sent(&f.l, 0, f.now);
    assert_int_equal(gimbal_learn_quiet(&f.l, end - 1), 1);
    assert_int_equal(gimbal_learn_quiet(&f.l, end), 0);
    assert_int_equal(gimbal_learn_deadline_ns(&f.l), SNIC_NEVER);
    /* Nothing is known: so again in each epoch, and an eighth of the time at most. */
    uint64_t quiet = 0;
    for (f.now = end; f.now < 20 * SEC; f.now += MS)
        quiet += (uint64_t)gimbal_learn_quiet(&f.l, f.now);
    assert_in_range(quiet, 1, 2500);
    assert_int_equal(f.l.batches, 0);
}

static void test_gimbal_learn_ignores_failed_and_abandoned(void **state)
{
    (void)state;
    struct feed f;
    feed_open(&f);
    for (int i = 0; i < 1000; i++, f.now += MS) {
        struct snic_gimbal_io io = {.op = READ, .size = 4096, .sent_ns = f.now};
        gimbal_learn_sent(&f.l, 0, f.now);
        gimbal_learn_done(&f.l, &io, 0, 0, f.now + 10);
        /* Of before: it may come back while another has the device. */
        gimbal_learn_sent(&f.l, 0, f.now + 20);
        gimbal_learn_done(&f.l, &io, 1, 0, f.now + 30);
        f.l.alone = 0;
    }
    assert_int_equal(f.l.batches, 0);
    assert_int_equal(f.l.known.read_ns, 0);
}

/* Any times, also such that go back, in any order: within limits, and the bound of quiet holds. */
static void test_gimbal_learn_random_events(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    for (uint32_t round = 0; round < support_rounds(50, 1000); round++) {
        struct feed f;
        feed_open(&f);
        for (int i = 0; i < 2000; i++) {
            uint64_t back = snic_rng_below(&r, 4);
            uint64_t step = snic_rng_below(&r, (uint64_t)1 << snic_rng_below(&r, 42));
            uint64_t what = snic_rng_below(&r, 4);
            uint32_t inflight = (uint32_t)snic_rng_below(&r, 3);
            struct snic_gimbal_io io = {.size = 1 + (uint32_t)snic_rng_below(&r, 64u << 20)};
            io.op = (uint8_t)snic_rng_below(&r, 2);
            f.now = back == 0 ? f.now - snic_min_u64(f.now, step) : f.now + step;
            io.sent_ns = f.now - snic_min_u64(f.now, snic_rng_below(&r, 2 * step + 1));
            int timed = snic_rng_below(&r, 8) != 0;
            if (what == 0)
                gimbal_learn_sent(&f.l, inflight, f.now);
            else
                gimbal_learn_done(&f.l, &io, timed, inflight, f.now);
            uint64_t now = snic_max_u64(f.now, f.l.now_ns);
            if (gimbal_learn_quiet(&f.l, now))
                assert_true(gimbal_learn_deadline_ns(&f.l) <= now + SNIC_GIMBAL__EPOCH_NS / 8);
            assert_int_equal(gimbal_learn_check(&f.l), 0);
            struct gimbal_tuning t;
            gimbal_learn_tune(&f.l.known, 1u << (9 + snic_rng_below(&r, 14)), &t);
            assert_true(t.thresh_min_ns > 0 && t.thresh_min_ns < t.thresh_max_ns);
            assert_true(t.thresh_max_ns <= SNIC_GIMBAL_NS_MAX);
            assert_in_range(t.slot_threshold, 8, 64);
            assert_in_range(t.write_cost_worst, 9 * SNIC_GIMBAL_COST_ONE,
                            18 * SNIC_GIMBAL_COST_ONE);
            assert_in_range(t.rate_max, 1, SNIC_GIMBAL_RATE_MAX);
        }
    }
}

/* Whatever the device, after two seconds of load the learner knows what the model has. */
static void test_gimbal_learn_random_devices(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    for (uint32_t round = 0; round < support_rounds(10, 200); round++) {
        uint64_t alone = (5 + snic_rng_below(&r, 3000)) * US;
        uint32_t depth = 8 + (uint32_t)snic_rng_below(&r, 56);
        uint64_t loaded = alone * (2 + snic_rng_below(&r, 8));
        struct feed f;
        feed_open(&f);
        while (f.now < 2 * SEC) {
            feed_run(&f, READ, 128 * KIB, alone, 1, f.now + 10 * alone);
            feed_run(&f, READ, 128 * KIB, loaded, depth, f.now + 100 * MS + 5 * loaded);
        }
        assert_in_range(f.l.known.read_ns, alone - alone / 8, alone + alone / 8);
        uint64_t rate = 128 * KIB * depth * SEC / loaded;
        assert_in_range(f.l.known.read_rate[1], rate - rate / 8, rate + rate / 8);
    }
}

/* However slowly a device writes: what is learned doubles the paper's cost at most. */
static void test_gimbal_learn_write_cost_has_an_end(void **state)
{
    (void)state;
    struct snic_gimbal_profile p = {.opts_size = sizeof(p), .read_rate = {0, SEC}};
    static const uint64_t times[4][2] = {{8, 9}, {12, 12}, {18, 18}, {100, 18}};
    for (unsigned k = 0; k < SNIC_COUNTOF(times); k++) {
        struct gimbal_tuning t;
        p.write_rate[1] = SEC / times[k][0];
        gimbal_learn_tune(&p, 128 * KIB, &t);
        assert_int_equal(t.write_cost_worst, times[k][1] * SNIC_GIMBAL_COST_ONE);
    }
}

/* ---- A switch that learns ---- */

static const struct snic_gimbal_opts learns = {.flags = SNIC_GIMBAL_LEARN};

static struct snic_gimbal_learned learned(struct sim *s)
{
    struct snic_gimbal_learned l;
    snic_gimbal_get_learned(s->x.g, &l);
    assert_int_equal(snic_gimbal_check(s->x.g), 0);
    return l;
}

static void test_gimbal_learn_without_flag_nothing_changes(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, NULL);
    struct snic_gimbal_profile p = {.opts_size = sizeof(p), .read_ns = 50 * US};
    assert_int_equal(snic_gimbal_profile_set(s.x.g, &p), SNIC_EINVAL);
    gx_tenants(&s.x, 1);
    s.latency_ns = 2 * MS;
    sim_client(&s, 0, READ, 128 * KIB, 8, SEC);
    sim_run(&s, SEC);
    struct snic_gimbal_learned l = learned(&s);
    assert_int_equal(l.thresh_min_ns, 250 * US);
    assert_int_equal(l.thresh_max_ns, 1500 * US);
    assert_int_equal(l.profile.read_ns, 0);
    assert_int_equal(l.batches + l.changes + l.quiets + l.stored, 0);
    sim_close(&s);
}

/* A device of milliseconds is always overloaded by the defaults. */
static void test_gimbal_learn_slow_device_is_used(void **state)
{
    (void)state;
    uint64_t bytes[2];
    for (unsigned k = 0; k < 2; k++) {
        struct sim s;
        sim_open(&s, k == 0 ? NULL : &learns);
        gx_tenants(&s.x, 2);
        s.latency_ns = 4 * MS;
        sim_client(&s, 0, READ, 128 * KIB, 32, 4 * SEC);
        sim_client(&s, 1, READ, 128 * KIB, 32, 4 * SEC);
        sim_run(&s, 2 * SEC);
        bytes[k] = sim_bytes(&s, 0);
        sim_run(&s, 4 * SEC);
        bytes[k] = sim_bytes(&s, 0) - bytes[k];
        if (k == 1)
            assert_in_range(learned(&s).thresh_min_ns, 5 * MS, 6 * MS);
        sim_close(&s);
    }
    assert_true(bytes[1] > 4 * bytes[0]);
}

/* What is learned of a fast device does not go below the defaults. */
static void test_gimbal_learn_fast_device_keeps_the_defaults(void **state)
{
    (void)state;
    static const uint64_t alone[2] = {10 * US, 60 * US};
    for (unsigned k = 0; k < 2; k++) {
        struct sim s;
        sim_open(&s, &learns);
        gx_tenants(&s.x, 2);
        s.latency_ns = alone[k];
        s.bytes_per_second = 14 * SEC;
        sim_client(&s, 0, READ, 128 * KIB, 32, SEC);
        sim_client(&s, 1, READ, 4 * KIB, 1, SEC);
        sim_run(&s, SEC);
        struct snic_gimbal_learned l = learned(&s);
        assert_in_range(l.profile.read_ns, alone[k], 3 * alone[k]);
        assert_int_equal(l.thresh_min_ns, 250 * US);
        assert_int_equal(l.thresh_max_ns, 1500 * US);
        sim_close(&s);
    }
}

/* 300 us alone, a millisecond for each of several. */
static void slow_if_many(struct sim *s, const struct snic_gimbal_io *io)
{
    (void)io;
    s->latency_ns = s->busy == 1 ? 300 * US : MS;
}

/* A limit of the switch's is no rate of the device: a twentieth of that is let through here. */
static void test_gimbal_learn_own_limit_is_no_rate_of_the_device(void **state)
{
    (void)state;
    const struct snic_gimbal_opts o = {
        .flags = SNIC_GIMBAL_LEARN, .rate_start = 20000000, .rate_max = 20000000};
    for (uint8_t op = READ; op <= WRITE; op++) {
        struct snic_gimbal_profile p = {.opts_size = sizeof(p),
                                        .read_ns = 749 * US,
                                        .write_ns = 476 * US,
                                        .read_rate = {400000000, 0},
                                        .write_rate = {400000000, 0}};
        struct sim s;
        sim_open(&s, &o);
        gx_tenants(&s.x, 1);
        s.latency_ns = 300 * US;
        s.sent = slow_if_many;
        assert_int_equal(snic_gimbal_profile_set(s.x.g, &p), 0);
        sim_client(&s, 0, op, 4 * KIB, 32, 4 * SEC);
        sim_run(&s, 4 * SEC);
        struct snic_gimbal_learned l = learned(&s);
        assert_true(l.batches > 0 && l.stored == 0);
        assert_int_equal(op == READ ? l.profile.read_rate[0] : l.profile.write_rate[0], 400000000);
        sim_close(&s);
    }
}

/* Of what the device can do while it works, in percent: it stops for @p stop_ns each @p most_ns at
 * most. */
static uint64_t share_beside_pauses(struct snic_rng *r, uint64_t stop_ns, uint64_t most_ns)
{
    struct sim s;
    uint64_t stopped = 0;
    sim_open(&s, &learns);
    gx_tenants(&s.x, 1);
    s.bytes_per_second = SEC / 2;
    for (int i = 0; i < 16; i++) {
        sim_client(&s, 0, READ, 4 * KIB, 1, 60 * SEC);
        sim_client(&s, 0, WRITE, 128 * KIB, 1, 60 * SEC);
    }
    sim_run(&s, SEC);
    uint64_t bytes = sim_bytes(&s, 0);
    uint64_t began = s.x.now;
    while (s.x.now < 4 * SEC) {
        uint64_t least = most_ns / 10 * 3;
        s.stall_from_ns = s.x.now;
        s.stall_to_ns = s.x.now + stop_ns;
        stopped += stop_ns;
        sim_run(&s, s.x.now + least + snic_rng_below(r, most_ns - least));
    }
    /* Without a switch it always has I/Os. */
    uint64_t could = (s.x.now - began - stopped) / 1000 * (s.bytes_per_second / 1000000);
    bytes = sim_bytes(&s, 0) - bytes;
    sim_close(&s);
    return bytes * 100 / could;
}

/* A virtual disk stops now and then: that is nothing its users could do less about. */
static void test_gimbal_learn_pauses_of_the_device_cost_nothing_more(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    assert_in_range(share_beside_pauses(&r, 30 * MS, SEC), 90, 110);
    assert_in_range(share_beside_pauses(&r, 5 * MS, 100 * MS), 90, 110);
}

static void test_gimbal_learn_options_that_are_set_stay(void **state)
{
    (void)state;
    static const struct snic_gimbal_opts sets[] = {
        {.thresh_min_ns = 300 * US},  {.thresh_max_ns = 900 * US},
        {.write_cost_worst = 5 * 16}, {.slot_threshold = 3},
        {.rate_max = 700000000},      {.thresh_min_ns = 10 * US, .thresh_max_ns = 20 * US},
        {.thresh_min_ns = 100000000},
    };
    for (size_t k = 0; k < SNIC_COUNTOF(sets); k++) {
        struct snic_gimbal_opts o = sets[k];
        struct sim s;
        if (o.thresh_min_ns == 100000000)
            o.thresh_max_ns = 200000000;
        o.flags = SNIC_GIMBAL_LEARN;
        sim_open(&s, &o);
        gx_tenants(&s.x, 1);
        s.latency_ns = 3 * MS;
        sim_client(&s, 0, READ, 64 * KIB, 64, 2 * SEC);
        sim_client(&s, 0, WRITE, 64 * KIB, 64, 3 * SEC);
        sim_run(&s, 3 * SEC);
        struct snic_gimbal_learned l = learned(&s);
        assert_true(o.thresh_min_ns == 0 || l.thresh_min_ns == o.thresh_min_ns);
        assert_true(o.thresh_max_ns == 0 || l.thresh_max_ns == o.thresh_max_ns);
        assert_true(o.write_cost_worst == 0 || l.write_cost_worst == o.write_cost_worst);
        assert_true(o.slot_threshold == 0 || l.slot_threshold == o.slot_threshold);
        assert_true(o.rate_max == 0 || l.rate_max == o.rate_max);
        assert_true(l.thresh_min_ns < l.thresh_max_ns);
        sim_close(&s);
    }
}

static void test_gimbal_learn_profile_limits(void **state)
{
    (void)state;
    const struct snic_gimbal_profile most = {.opts_size = sizeof(most),
                                             .read_ns = 1000000000,
                                             .write_ns = 1000000000,
                                             .read_rate = {(uint64_t)1 << 40, (uint64_t)1 << 40},
                                             .write_rate = {1, 1}};
    struct snic_gimbal_profile wrong[9];
    for (size_t i = 0; i < SNIC_COUNTOF(wrong); i++)
        wrong[i] = most;
    wrong[0].opts_size = 0;
    wrong[1].reserved = 1;
    wrong[2].read_ns++;
    wrong[3].write_ns++;
    wrong[4].read_ns = 999;
    wrong[5].read_rate[0]++;
    wrong[6].read_rate[1]++;
    wrong[7].write_rate[0] = UINT64_MAX;
    wrong[8].write_rate[1] = ((uint64_t)1 << 40) + 1;
    struct sim s;
    sim_open(&s, &learns);
    for (size_t i = 0; i < SNIC_COUNTOF(wrong); i++) {
        assert_int_equal(snic_gimbal_profile_set(s.x.g, &wrong[i]), SNIC_EINVAL);
        assert_int_equal(learned(&s).changes, 0);
    }
    assert_int_equal(snic_gimbal_profile_set(s.x.g, &most), 0);
    struct snic_gimbal_learned l = learned(&s);
    assert_int_equal(l.stored, 1);
    assert_int_equal(l.write_cost_worst, 18 * SNIC_GIMBAL_COST_ONE);
    assert_int_equal(l.slot_threshold, 64);
    assert_int_equal(l.rate_max, SNIC_GIMBAL_RATE_MAX);
    assert_int_equal(l.thresh_min_ns, 1250000000);
    sim_close(&s);
}

/* What was stored is of another device: it costs eight I/Os. */
static void test_gimbal_learn_stale_profile_is_gone_with_the_first_batch(void **state)
{
    (void)state;
    static const uint64_t stale[2] = {4 * US, 500 * MS};
    for (unsigned k = 0; k < 2; k++) {
        struct snic_gimbal_profile p = {.opts_size = sizeof(p),
                                        .read_ns = stale[k],
                                        .read_rate = {SEC, 30 * SEC},
                                        .write_rate = {SEC / 40, SEC}};
        struct sim s;
        sim_open(&s, &learns);
        gx_tenants(&s.x, 4);
        assert_int_equal(snic_gimbal_profile_set(s.x.g, &p), 0);
        assert_int_equal(learned(&s).thresh_min_ns, k == 0 ? 250 * US : stale[k] * 5 / 4);
        assert_int_equal(learned(&s).write_cost_worst, 18 * SNIC_GIMBAL_COST_ONE);
        for (uint32_t t = 0; t < 4; t++)
            sim_client(&s, t, READ, 128 * KIB, 8, SEC);
        sim_run(&s, 60 * MS);
        struct snic_gimbal_learned l = learned(&s);
        assert_int_equal(l.stored, 0);
        assert_in_range(l.thresh_min_ns, 255 * US, 270 * US); /* 211 us alone */
        assert_int_equal(l.write_cost_worst, 9 * SNIC_GIMBAL_COST_ONE);
        assert_int_equal(l.slot_threshold, 8);
        /* What was measured goes before what is stored. */
        assert_int_equal(snic_gimbal_profile_set(s.x.g, &p), 0);
        assert_int_equal(learned(&s).thresh_min_ns, l.thresh_min_ns);
        sim_close(&s);
    }
}

/* The most on the device before the first batch, and after. */
static void count_busy(struct sim *s, const struct snic_gimbal_io *io)
{
    struct snic_gimbal_learned l;
    uint32_t *most = s->ctx;
    (void)io;
    snic_gimbal_get_learned(s->x.g, &l);
    if (s->busy > most[l.batches > 0])
        most[l.batches > 0] = s->busy;
}

static void test_gimbal_learn_begins_with_one_at_a_time(void **state)
{
    (void)state;
    struct sim s;
    uint32_t most[2] = {0, 0};
    sim_open(&s, &learns);
    s.sent = count_busy;
    s.ctx = most;
    gx_tenants(&s.x, 4);
    for (uint32_t t = 0; t < 4; t++)
        sim_client(&s, t, t < 2 ? READ : WRITE, 4 * KIB, 32, SEC);
    sim_run(&s, 100 * MS);
    assert_int_equal(most[0], 1);
    assert_true(most[1] > 8);
    sim_close(&s);
}

/* A device that holds its only I/O does not hold the switch. */
static void test_gimbal_learn_quiet_does_not_wait_for_a_stuck_device(void **state)
{
    (void)state;
    struct snic_gimbal_io io[64];
    struct gx x;
    gx_open(&x, &learns);
    gx_tenants(&x, 4);
    for (uint32_t i = 0; i < 64; i++)
        gx_submit(&x, &io[i], i % 4, READ, 4096);
    struct snic_gimbal_io *first = gx_next(&x);
    assert_non_null(first);
    uint64_t from = x.now;
    assert_non_null(gx_next(&x));
    assert_in_range(x.now - from, 1, SNIC_GIMBAL__EPOCH_NS / 8);
    while (gx_next(&x) != NULL)
        continue;
    assert_true(gx_view(&x).inflight > 8);
    x.now += SEC;
    for (uint32_t i = 0; i < 64; i++)
        if ((io[i].state & 0xff) == 0x52)
            snic_gimbal_complete(x.g, &io[i], 0, x.now);
    for (struct snic_gimbal_io *next; (next = gx_next(&x)) != NULL;)
        snic_gimbal_complete(x.g, next, 0, x.now);
    gx_close(&x);
}

/* Latencies of 0, of minutes, errors only: the switch stays within its limits and sends. */
static void test_gimbal_learn_hostile_completions(void **state)
{
    (void)state;
    enum { ZERO, MINUTES, ERRORS, MIXED, KINDS };
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct snic_gimbal_io io[32];
        struct gx x;
        gx_open(&x, &learns);
        gx_tenants(&x, 4);
        for (uint32_t i = 0; i < 32; i++)
            gx_submit(&x, &io[i], i % 4, (uint8_t)(i % 2), 512u << i % 12);
        for (int n = 0; n < 3000; n++) {
            struct snic_gimbal_io *next = gx_next(&x);
            assert_non_null(next);
            uint64_t took = kind == MINUTES ? 100 * SEC : 0;
            int outcome = kind == ERRORS ? SNIC_GIMBAL_FAILED : SNIC_GIMBAL_DONE;
            if (kind == MIXED) {
                uint64_t shift = snic_rng_below(&r, 38);
                took = (uint64_t)1 << shift;
                outcome = (int)snic_rng_below(&r, 3);
            }
            x.now += took;
            snic_gimbal_complete(x.g, next, outcome, x.now);
            assert_int_equal(snic_gimbal_submit(x.g, next, x.now), 0);
            assert_int_equal(snic_gimbal_check(x.g), 0);
        }
        struct snic_gimbal_learned l;
        snic_gimbal_get_learned(x.g, &l);
        if (kind == ZERO)
            assert_int_equal(l.profile.read_ns, 1000);
        else if (kind == MINUTES)
            assert_int_equal(l.thresh_min_ns, 1250000000);
        else if (kind == ERRORS)
            assert_int_equal(l.batches, 0);
        for (struct snic_gimbal_io *next; (next = gx_next(&x)) != NULL;)
            snic_gimbal_complete(x.g, next, 1, x.now);
        gx_close(&x);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_learn_begins_with_the_defaults),
        cmocka_unit_test(test_gimbal_learn_first_batch_decides),
        cmocka_unit_test(test_gimbal_learn_scales_sizes_and_writes),
        cmocka_unit_test(test_gimbal_learn_rate_gives_thresholds_slots_ceiling),
        cmocka_unit_test(test_gimbal_learn_slower_of_reads_and_writes_counts),
        cmocka_unit_test(test_gimbal_learn_rate_of_idle_device_counts_nothing),
        cmocka_unit_test(test_gimbal_learn_write_cost_only_rises),
        cmocka_unit_test(test_gimbal_learn_follows_down_at_once_up_when_two_agree),
        cmocka_unit_test(test_gimbal_learn_pauses),
        cmocka_unit_test(test_gimbal_learn_finds_changes_under_load),
        cmocka_unit_test(test_gimbal_learn_reads_among_writes_raise_nothing),
        cmocka_unit_test(test_gimbal_learn_quiet_ends_by_itself),
        cmocka_unit_test(test_gimbal_learn_ignores_failed_and_abandoned),
        cmocka_unit_test(test_gimbal_learn_random_events),
        cmocka_unit_test(test_gimbal_learn_random_devices),
        cmocka_unit_test(test_gimbal_learn_write_cost_has_an_end),
        cmocka_unit_test(test_gimbal_learn_without_flag_nothing_changes),
        cmocka_unit_test(test_gimbal_learn_slow_device_is_used),
        cmocka_unit_test(test_gimbal_learn_fast_device_keeps_the_defaults),
        cmocka_unit_test(test_gimbal_learn_own_limit_is_no_rate_of_the_device),
        cmocka_unit_test(test_gimbal_learn_pauses_of_the_device_cost_nothing_more),
        cmocka_unit_test(test_gimbal_learn_options_that_are_set_stay),
        cmocka_unit_test(test_gimbal_learn_profile_limits),
        cmocka_unit_test(test_gimbal_learn_stale_profile_is_gone_with_the_first_batch),
        cmocka_unit_test(test_gimbal_learn_begins_with_one_at_a_time),
        cmocka_unit_test(test_gimbal_learn_quiet_does_not_wait_for_a_stuck_device),
        cmocka_unit_test(test_gimbal_learn_hostile_completions),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
