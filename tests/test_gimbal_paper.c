/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The paper's algorithms, with numbers worked out by hand: each state of Algorithm 1 and each
 * transition between two, the completion rate, the write cost, Algorithm 4's buckets, Algorithm
 * 2's slots, credits, round robin beside a model of ten lines.
 */
#include "gimbal/gimbal_priv.h"
#include "test_gimbal_util.h"

#define US UINT64_C(1000)

/* ---- Algorithm 1 ---- */

/* Send one 4 KiB I/O and complete it so that its type's EWMA becomes @ewma_ns. */
static uint32_t drive(struct gx *x, uint8_t op, uint64_t ewma_ns)
{
    struct snic_gimbal_io io;
    uint64_t before = gx_view(x).ewma_ns[op];
    assert_true(2 * ewma_ns >= before);
    gx_submit(x, &io, 0, op, 4096);
    assert_ptr_equal(gx_next(x), &io);
    x->now += 2 * ewma_ns - before; /* alpha_D is a half */
    snic_gimbal_complete(x->g, &io, 1, x->now);
    assert_int_equal(snic_gimbal_check(x->g), 0);
    assert_true(gx_view(x).ewma_ns[op] - ewma_ns <= 1);
    return gx_view(x).state[op];
}

static void alg1_open(struct gx *x)
{
    struct snic_gimbal_opts o = {.tenants_max = 1, .rate_start = SEC, .rate_max = 2 * SEC};
    gx_open(x, &o);
    gx_tenants(x, 1);
}

/* Into a state, from the start, with a threshold of 250 us (875 when congested). */
static void alg1_enter(struct gx *x, uint8_t op, uint32_t state)
{
    assert_int_equal(drive(x, op, 100 * US), SNIC_GIMBAL_UNDERUTILISED);
    for (int i = 0; i < 8; i++)
        assert_int_equal(drive(x, op, 100 * US), SNIC_GIMBAL_UNDERUTILISED);
    assert_int_equal(gx_view(x).thresh_ns[op], 250 * US);
    if (state == SNIC_GIMBAL_UNDERUTILISED)
        return;
    assert_int_equal(drive(x, op, 260 * US), SNIC_GIMBAL_CONGESTED);
    assert_int_equal(gx_view(x).thresh_ns[op], 875 * US); /* half of the way to 1500 */
    if (state == SNIC_GIMBAL_CONGESTED)
        return;
    if (state == SNIC_GIMBAL_OVERLOADED) {
        assert_int_equal(drive(x, op, 1600 * US), SNIC_GIMBAL_OVERLOADED);
        return;
    }
    assert_int_equal(drive(x, op, 475 * US), SNIC_GIMBAL_AVOIDANCE);
    assert_int_equal(gx_view(x).thresh_ns[op], 675 * US); /* half of the way to the EWMA */
}

/*
 * From @from, an EWMA of @ewma_ns leads to @to, the threshold to @thresh_ns, and the target rate
 * changes by @step times 4096; for both I/O types.
 */
static void transition(uint32_t from, uint64_t ewma_ns, uint32_t to, uint64_t thresh_ns, int step)
{
    for (uint8_t op = 0; op < 2; op++) {
        struct gx x;
        alg1_open(&x);
        alg1_enter(&x, op, from);
        struct snic_gimbal_view before = gx_view(&x);
        assert_int_equal(before.state[op], from);
        assert_int_equal(drive(&x, op, ewma_ns), to);
        struct snic_gimbal_view v = gx_view(&x);
        assert_int_equal(v.thresh_ns[op], thresh_ns);
        assert_int_equal(v.entered[to], before.entered[to] + (from != to));
        assert_int_equal(v.thresh_ns[op ^ 1], before.thresh_ns[op ^ 1]); /* each type its own */
        if (to == SNIC_GIMBAL_OVERLOADED && v.completion_rate > 0)
            assert_int_equal(v.target_rate,
                             snic_max_u64(v.completion_rate, x.g->usual_rate) - 4096);
        else
            assert_int_equal((int64_t)(v.target_rate - before.target_rate), step * 4096);
        gx_close(&x);
    }
}

enum {
    U = SNIC_GIMBAL_UNDERUTILISED,
    A = SNIC_GIMBAL_AVOIDANCE,
    C = SNIC_GIMBAL_CONGESTED,
    O = SNIC_GIMBAL_OVERLOADED
};

static void test_gimbal_underutilised_to_underutilised(void **state)
{
    (void)state;
    transition(U, 249 * US, U, 250 * US, 8);
}

/* The threshold has decayed to the minimum, so that nothing lies between: only while it falls. */
static void test_gimbal_underutilised_to_avoidance(void **state)
{
    (void)state;
    struct gx x;
    alg1_open(&x);
    assert_int_equal(drive(&x, 0, 200 * US), U);
    assert_int_equal(gx_view(&x).thresh_ns[0], 850 * US);
    uint64_t rate = gx_view(&x).target_rate;
    assert_int_equal(drive(&x, 0, 300 * US), A);
    assert_int_equal(gx_view(&x).thresh_ns[0], 575 * US);
    assert_int_equal(gx_view(&x).target_rate, rate + 4096);
    gx_close(&x);
}

static void test_gimbal_underutilised_to_congested(void **state)
{
    (void)state;
    transition(U, 250 * US, C, 875 * US, -1);
}

static void test_gimbal_underutilised_to_overloaded(void **state)
{
    (void)state;
    transition(U, 1500 * US, O, 1500 * US, -1);
}

static void test_gimbal_avoidance_to_underutilised(void **state)
{
    (void)state;
    transition(A, 240 * US, U, 457500, 8); /* 675 - (675 - 240) / 2 */
}

static void test_gimbal_avoidance_to_avoidance(void **state)
{
    (void)state;
    transition(A, 675 * US - 1, A, 675 * US, 1); /* half of 1 ns is nothing */
}

static void test_gimbal_avoidance_to_congested(void **state)
{
    (void)state;
    transition(A, 675 * US, C, 1087500, -1);
}

static void test_gimbal_avoidance_to_overloaded(void **state)
{
    (void)state;
    transition(A, 1500 * US, O, 1500 * US, -1);
}

static void test_gimbal_congested_to_underutilised(void **state)
{
    (void)state;
    transition(C, 235 * US, U, 555 * US, 8);
}

static void test_gimbal_congested_to_avoidance(void **state)
{
    (void)state;
    transition(C, 275 * US, A, 575 * US, 1);
}

static void test_gimbal_congested_to_congested(void **state)
{
    (void)state;
    transition(C, 875 * US, C, 1187500, -1);
}

static void test_gimbal_congested_to_overloaded(void **state)
{
    (void)state;
    transition(C, 1500 * US, O, 1500 * US, -1);
}

/*
 * The EWMA was 1500 us at least, and one sample, 0 at the least, leaves a half: 750 us are more
 * than thresh_min. With alpha_D of a half and thresh_max above 2 thresh_min there is no such step.
 */
static void test_gimbal_overloaded_to_underutilised_cannot_be(void **state)
{
    (void)state;
    struct gx x;
    alg1_open(&x);
    alg1_enter(&x, 0, O);
    assert_int_equal(drive(&x, 0, 800 * US), A); /* by a latency of 0, after 1600 us */
    assert_true(gx_view(&x).ewma_ns[0] >= 750 * US);
    gx_close(&x);
}

static void test_gimbal_overloaded_to_avoidance(void **state)
{
    (void)state;
    transition(O, 1499 * US, A, 1499500, 1);
}

/* An overload raises the threshold to the maximum; between the two nothing is left. */
static void test_gimbal_overloaded_to_congested_cannot_be(void **state)
{
    (void)state;
    for (uint64_t ewma = 800; ewma <= 1700; ewma++) {
        struct gx x;
        alg1_open(&x);
        alg1_enter(&x, 1, O);
        assert_int_equal(drive(&x, 1, ewma * US), ewma < 1500 ? A : O);
        gx_close(&x);
    }
}

static void test_gimbal_overloaded_to_overloaded(void **state)
{
    (void)state;
    transition(O, 1500 * US, O, 1500 * US, -1);
}

/* (cur + max) / 2 in whole numbers would stop one below the maximum. */
static void test_gimbal_threshold_reaches_maximum(void **state)
{
    (void)state;
    struct gx x;
    alg1_open(&x);
    alg1_enter(&x, 0, C);
    for (int i = 0; i < 40; i++) {
        uint64_t at = gx_view(&x).thresh_ns[0];
        if (at == 1500 * US)
            break;
        assert_int_equal(drive(&x, 0, at), C);
    }
    assert_int_equal(gx_view(&x).thresh_ns[0], 1500 * US);
    gx_close(&x);
}

/* Down by a device that is slower than the floor, up by one that is fast: nothing wraps. */
static void test_gimbal_target_rate_floor_and_ceiling(void **state)
{
    (void)state;
    struct gx x;
    alg1_open(&x);
    struct snic_gimbal_io io;
    for (int i = 0; i < 400; i++) {
        int up = i >= 200;
        gx_submit(&x, &io, 0, SNIC_GIMBAL_READ, up ? 8u << 20 : 4096);
        assert_non_null(gx_next(&x));
        x.now += up ? 0 : 100 * MS;
        snic_gimbal_complete(x.g, &io, 1, x.now);
        uint64_t rate = gx_view(&x).target_rate;
        assert_true(rate >= 4000000 && rate <= 2 * SEC);
        if (i == 199)
            assert_int_equal(rate, 4000000);
    }
    assert_int_equal(gx_view(&x).target_rate, 2 * SEC);
    gx_close(&x);
}

/* A step larger than the rate itself stops at the floor. */
static void test_gimbal_target_rate_does_not_wrap(void **state)
{
    (void)state;
    struct gx x;
    struct snic_gimbal_io io;
    alg1_open(&x);
    alg1_enter(&x, 0, U);
    gx_submit(&x, &io, 0, SNIC_GIMBAL_READ, 8u << 20);
    assert_ptr_equal(gx_next(&x), &io);
    x.g->target_rate = 4000001;
    x.now += 420 * US; /* an EWMA of 260 us */
    snic_gimbal_complete(x.g, &io, 1, x.now);
    assert_int_equal(gx_view(&x).state[0], C);
    assert_int_equal(gx_view(&x).target_rate, 4000000);
    gx_close(&x);
}

/* ---- The completion rate ---- */

static struct snic_gimbal_io pair[2];

/* @count I/Os of 100 KB, each @gap_ns after the other, with another one always out. */
static void complete_spaced(struct gx *x, int count, uint64_t gap_ns)
{
    for (int i = 0; i < count; i++) {
        if (gx_view(x).inflight == 0) {
            gx_submit(x, &pair[0], 0, SNIC_GIMBAL_READ, 100000);
            gx_submit(x, &pair[1], 0, SNIC_GIMBAL_READ, 100000);
            assert_ptr_equal(snic_gimbal_poll(x->g, x->now), &pair[0]);
            assert_ptr_equal(snic_gimbal_poll(x->g, x->now), &pair[1]);
        } else {
            gx_submit(x, &pair[i % 2], 0, SNIC_GIMBAL_READ, 100000);
            assert_ptr_equal(snic_gimbal_poll(x->g, x->now), &pair[i % 2]);
        }
        x->now += gap_ns;
        snic_gimbal_complete(x->g, &pair[(i + 1) % 2], 1, x->now);
    }
    for (int i = 0; i < 2 && gx_view(x).inflight > 0; i++) {
        if ((pair[i].state & 0xff) == GIMBAL_IO_OUT)
            snic_gimbal_complete(x->g, &pair[i], 1, x->now);
    }
}

static void rate_open(struct gx *x)
{
    struct snic_gimbal_opts o = {.tenants_max = 1,
                                 .rate_start = SNIC_GIMBAL_RATE_MAX,
                                 .rate_min = SNIC_GIMBAL_RATE_MAX,
                                 .rate_max = SNIC_GIMBAL_RATE_MAX};
    gx_open(x, &o);
    gx_tenants(x, 1);
    x->now += SEC;
}

/* 100 KB a millisecond are 100 MB/s; an idle hour afterwards says nothing else. */
static void test_gimbal_completion_rate_idle_time_not_counted(void **state)
{
    (void)state;
    struct gx x;
    rate_open(&x);
    assert_int_equal(gx_view(&x).completion_rate, 0);
    complete_spaced(&x, 20, MS);
    assert_int_equal(gx_view(&x).completion_rate, 100000000);
    x.now += 3600 * SEC;
    complete_spaced(&x, 10, MS);
    uint64_t rate = gx_view(&x).completion_rate;
    assert_true(rate >= 100000000 && rate <= 120000000);
    gx_close(&x);
}

/* A stall of ten seconds is one window, and the usual rate remembers the others. */
static void test_gimbal_completion_rate_after_stall(void **state)
{
    (void)state;
    struct gx x;
    rate_open(&x);
    complete_spaced(&x, 200, MS);
    complete_spaced(&x, 1, 10 * SEC);
    assert_true(gx_view(&x).completion_rate >= 10000000);
    assert_true(x.g->usual_rate >= 85000000 && x.g->usual_rate <= 120000000);
    complete_spaced(&x, 400, 4 * MS); /* slower for good: 25 MB/s */
    assert_true(x.g->usual_rate <= 27000000);
    gx_close(&x);
}

/* An overload keeps the usual rate among small reads, half of it where a slot holds one I/O. */
static void test_gimbal_overload_keeps_part_of_usual_rate(void **state)
{
    (void)state;
    for (int single = 0; single < 2; single++) {
        struct snic_gimbal_io io;
        struct gx x;
        alg1_open(&x);
        if (single) {
            gx_submit(&x, &io, 0, SNIC_GIMBAL_READ, 128 * KIB);
            assert_ptr_equal(gx_next(&x), &io);
            snic_gimbal_complete(x.g, &io, 1, x.now);
        }
        x.g->completion_rate = 100000000;
        x.g->usual_rate = 400000000;
        assert_int_equal(drive(&x, SNIC_GIMBAL_READ, 2000 * US), O);
        assert_int_equal(gx_view(&x).target_rate, (single ? 200000000 : 400000000) - 4096);
        gx_close(&x);
    }
}

/* ---- Write cost ---- */

static void test_gimbal_write_cost_falls_and_rises(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.tenants_max = 1, .rate_start = SEC};
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 1);
    uint32_t want = 144;
    assert_int_equal(gx_view(&x).write_cost, want);
    for (int period = 0; period < 20; period++) { /* by a half each, to 1 */
        x.now += 20 * MS;
        (void)drive(&x, SNIC_GIMBAL_WRITE, 100 * US);
        want = want >= 24 ? want - 8 : 16;
        assert_int_equal(gx_view(&x).write_cost, want);
    }
    for (int i = 0; i < 5; i++) { /* reads only: it stays */
        x.now += 20 * MS;
        (void)drive(&x, SNIC_GIMBAL_READ, 2000 * US);
        assert_int_equal(gx_view(&x).write_cost, 16);
    }
    static const uint32_t up[] = {80, 112, 128, 136, 140, 142, 143, 144, 144};
    for (size_t i = 0; i < SNIC_COUNTOF(up); i++) { /* half of the way, rounded up */
        x.now += 20 * MS;
        (void)drive(&x, SNIC_GIMBAL_WRITE, 250 * US);
        assert_int_equal(gx_view(&x).write_cost, up[i]);
    }
    (void)drive(&x, SNIC_GIMBAL_WRITE, 200 * US); /* the period has just begun */
    assert_int_equal(gx_view(&x).write_cost, 144);
    gx_close(&x);
}

/* ---- Algorithm 4 ---- */

/* Write cost 3, so that reads get 3/4; buckets of 256 KiB; 1 GB/s, 100 us are 100 000 bytes. */
static void test_gimbal_buckets_by_hand(void **state)
{
    (void)state;
    static const uint64_t golden[][3] = {
        /* us, read, write */
        {100, 75000, 25000},    {100, 150000, 50000},
        {100, 225000, 75000},   {100, 262144, 137856}, /* 37 856 of 300 000 go over */
        {100, 262144, 237856},  {100, 262144, 262144}, /* and what both cannot hold is lost */
        {9000, 262144, 262144},
    };
    struct snic_gimbal_opts o = {
        .tenants_max = 1, .rate_start = SEC, .rate_max = SEC, .write_cost_worst = 48};
    struct gx x;
    gx_open(&x, &o);
    for (size_t i = 0; i < SNIC_COUNTOF(golden); i++) {
        x.now += golden[i][0] * US;
        gimbal_bucket_fill(x.g, x.now);
        assert_int_equal(x.g->tokens[0], golden[i][1] * SNIC_GIMBAL__BYTE);
        assert_int_equal(x.g->tokens[1], golden[i][2] * SNIC_GIMBAL__BYTE);
    }
    /* Line 9: an overflow of writes goes to the reads; line 11 as printed would undo it. */
    x.g->tokens[0] = 0;
    x.now += 100 * US;
    gimbal_bucket_fill(x.g, x.now);
    assert_int_equal(x.g->tokens[0], 100000 * SNIC_GIMBAL__BYTE);
    assert_int_equal(x.g->tokens[1], 262144 * SNIC_GIMBAL__BYTE);
    /* Any way of cutting a span earns the same in all: 7 ns at a time. */
    x.g->tokens[0] = x.g->tokens[1] = 0;
    for (int i = 0; i < 1000; i++)
        gimbal_bucket_fill(x.g, x.now += 7);
    assert_int_equal(x.g->tokens[0] + x.g->tokens[1], 7000 * SNIC_GIMBAL__BYTE);
    assert_true(x.g->tokens[1] - 1750 * SNIC_GIMBAL__BYTE <= 1000);
    gx_close(&x);
}

/* At each rate, cost, fill and size: not a ns too early (less 2^-12), and at the time it is there.
 */
static void test_gimbal_bucket_ready_time(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    for (int i = 0; i < 20000; i++) {
        struct snic_gimbal g = {.write_cost = 16 + (uint32_t)snic_rng_below(&r, 497)};
        struct snic_gimbal_io io = {.op = (uint8_t)snic_rng_below(&r, 2),
                                    .size = 1 + (uint32_t)snic_rng_below(&r, 64u << 20)};
        g.o.bucket_bytes = 512 + (uint32_t)(snic_rng_next(&r) >> (39 + snic_rng_below(&r, 24)));
        g.target_rate = 1 + (snic_rng_next(&r) >> (24 + snic_rng_below(&r, 40)));
        g.o.flags = snic_rng_below(&r, 4) == 0 ? SNIC_GIMBAL_ONE_BUCKET : 0;
        gimbal_bucket_init(&g);
        g.tokens[0] = snic_rng_below(&r, g.cap[0] + 1);
        g.tokens[1] = snic_rng_below(&r, g.cap[1] + 1);
        if (gimbal_bucket_take(&g, &io))
            continue;
        uint64_t ready = gimbal_bucket_ready_ns(&g, &io);
        struct snic_gimbal early = g;
        assert_true(ready > 0);
        if (ready > 8) {
            gimbal_bucket_fill(&early, ready - ready / 4096 - 4);
            assert_false(gimbal_bucket_take(&early, &io));
        }
        gimbal_bucket_fill(&g, ready);
        assert_true(gimbal_bucket_take(&g, &io));
    }
}

/* Line 14, as an option: an overload empties both buckets. Default: they are kept. */
static void test_gimbal_overload_discards_if_asked(void **state)
{
    (void)state;
    for (int discard = 0; discard < 2; discard++) {
        struct snic_gimbal_opts o = {
            .tenants_max = 1, .rate_start = SEC, .flags = discard ? SNIC_GIMBAL_DISCARD : 0};
        struct gx x;
        gx_open(&x, &o);
        gx_tenants(&x, 1);
        assert_int_equal(drive(&x, 0, 2000 * US), O);
        assert_int_equal(x.g->tokens[0] == 0, discard);
        assert_int_equal(x.g->tokens[1] == 0, discard);
        gx_close(&x);
    }
}

/* ---- Algorithm 2 ---- */

static struct snic_gimbal_io many[4096];

/* How many of @count I/Os of each of the tenants leave without a completion. */
static uint32_t leave(struct gx *x, uint32_t tenants, uint32_t count, uint8_t op, uint32_t size)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < count; i++)
        gx_submit(x, &many[i], i % tenants, op, size);
    while (gx_next(x) != NULL)
        out++;
    return out;
}

static void finish(struct gx *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (many[i].state == GIMBAL_IO_QUEUED)
            assert_int_equal(snic_gimbal_cancel(x->g, &many[i], x->now), 0);
        else if (many[i].state != GIMBAL_IO_FREE)
            snic_gimbal_complete(x->g, &many[i], 1, x->now);
    }
    gx_close(x);
}

/* Section 3.5: 8 slots over the tenants, at least one; 32 x 4 KiB or 1 x 128 KiB each. */
static void test_gimbal_slots_by_hand(void **state)
{
    (void)state;
    static const struct {
        uint32_t flags;
        uint32_t tenants;
        uint32_t size;
        uint8_t op;
        uint32_t out;
    } golden[] = {
        {0, 1, 128 * KIB, 0, 8},
        {0, 2, 128 * KIB, 0, 8},
        {0, 3, 128 * KIB, 0, 6},
        {0, 5, 128 * KIB, 0, 5},
        {0, 16, 128 * KIB, 0, 16},
        {0, 1, 4 * KIB, 0, 256},
        {0, 2, 4 * KIB, 0, 256},
        {0, 16, 4 * KIB, 0, 512},
        {0, 1, 100 * KIB, 0, 16},
        {0, 16, 4 * KIB, 1, 64}, /* 4 x 36 KiB of cost */
        {0, 16, 128 * KIB, 1, 16},
        {SNIC_GIMBAL_SLOT_ABOVE, 1, 128 * KIB, 0, 16},
        {SNIC_GIMBAL_SLOT_ABOVE, 16, 4 * KIB, 0, 528},
        {0, 1, 8u << 20, 0, 8},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(golden); i++) {
        struct snic_gimbal_opts o = {.flags = golden[i].flags | SNIC_GIMBAL_SLOT_BARRIER,
                                     .rate_start = SEC};
        struct gx x;
        gx_open(&x, &o);
        gx_tenants(&x, golden[i].tenants);
        assert_int_equal(leave(&x, golden[i].tenants, 1024, golden[i].op, golden[i].size),
                         golden[i].out);
        assert_int_equal(snic_gimbal_check(x.g), 0);
        finish(&x, 1024);
    }
}

/* A slot is free when the last of its I/Os is done; its credit is what it held. */
static void test_gimbal_slot_waits_for_its_last(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.flags = SNIC_GIMBAL_SLOT_BARRIER | SNIC_GIMBAL_CREDIT_LATEST,
                                 .rate_start = SEC};
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 9);
    assert_int_equal(leave(&x, 9, 9 * 40, 0, 8 * KIB), 9 * 16);
    assert_int_equal(gx_tenant(&x, 0).deferred, 1);
    for (uint32_t i = 1; i < 16; i++) { /* all but the first of tenant 0 */
        snic_gimbal_complete(x.g, &many[9 * i], 1, ++x.now);
        assert_int_equal(many[9 * i].credit, 32); /* as at the start */
        assert_null(gx_next(&x));
    }
    snic_gimbal_complete(x.g, &many[0], 1, ++x.now);
    assert_int_equal(many[0].credit, 16);
    for (uint32_t i = 16; i < 32; i++)
        assert_ptr_equal(gx_next(&x), &many[9 * i]);
    assert_null(gx_next(&x));
    finish(&x, 9 * 40);
}

/* Credit rises with a slot of more I/Os at once, and falls by an eighth a slot, rounded up. */
static void test_gimbal_credit_falls_slowly(void **state)
{
    (void)state;
    static const struct {
        uint32_t size;
        uint32_t ios;
        uint32_t credit;
    } slot[] = {{128 * KIB, 1, 28}, {128 * KIB, 1, 24}, {128 * KIB, 1, 21}, {8 * KIB, 16, 18},
                {8 * KIB, 16, 16},  {8 * KIB, 16, 16},  {2 * KIB, 64, 64},  {4 * KIB, 32, 56}};
    struct snic_gimbal_opts o = {
        .flags = SNIC_GIMBAL_SLOT_BARRIER, .slot_threshold = 1, .rate_start = SEC};
    struct snic_gimbal_io io[64];
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 1); /* as if slots of 32 had completed */
    for (size_t k = 0; k < SNIC_COUNTOF(slot); k++) {
        x.now += SEC;
        for (uint32_t i = 0; i < slot[k].ios; i++) {
            gx_submit(&x, &io[i], 0, 0, slot[k].size);
            assert_ptr_equal(gx_next(&x), &io[i]);
        }
        for (uint32_t i = 0; i < slot[k].ios; i++)
            snic_gimbal_complete(x.g, &io[i], 1, x.now);
        assert_int_equal(io[slot[k].ios - 1].credit, slot[k].credit);
        assert_int_equal(snic_gimbal_check(x.g), 0);
    }
    gx_close(&x);
}

/* Small reads alone: a slot more opens when fewer than 1.25 slots are out. */
static void test_gimbal_slots_overlap_among_small_reads(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.rate_start = SEC};
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 9);
    assert_int_equal(leave(&x, 9, 9 * 100, 0, 4 * KIB), 9 * 64); /* 32 are fewer than 40 */
    for (uint32_t i = 0; i < 24; i++) {
        snic_gimbal_complete(x.g, &many[9 * i], 1, ++x.now);
        assert_int_equal(many[9 * i].credit, 40);
        assert_null(gx_next(&x));
    }
    snic_gimbal_complete(x.g, &many[9 * 24], 1, ++x.now); /* 39 are out */
    for (uint32_t i = 64; i < 96; i++)
        assert_ptr_equal(gx_next(&x), &many[9 * i]);
    assert_null(gx_next(&x));
    finish(&x, 9 * 100);
}

/* One tenant's slots of fewer I/Os, or with a write, and everybody waits again. */
static void test_gimbal_slots_overlap_for_all_or_none(void **state)
{
    (void)state;
    static const struct {
        uint32_t size;
        uint8_t op;
        uint32_t ios;
    } other[] = {{128 * KIB, 0, 4}, {4 * KIB, 1, 4}, {64 * KIB, 0, 4}, {16 * KIB, 0, 8}};
    for (size_t k = 0; k < SNIC_COUNTOF(other); k++) {
        struct snic_gimbal_opts o = {.rate_start = 8 * SEC};
        struct snic_gimbal_io io[8];
        struct gx x;
        gx_open(&x, &o);
        gx_tenants(&x, 10);
        for (uint32_t i = 0; i < other[k].ios; i++) {
            gx_submit(&x, &io[i], 9, other[k].op, other[k].size);
            assert_ptr_equal(gx_next(&x), &io[i]);
        }
        for (uint32_t i = 0; i < other[k].ios; i++)
            snic_gimbal_complete(x.g, &io[i], 1, x.now);
        assert_int_equal(leave(&x, 9, 9 * 40, 0, 4 * KIB), 9 * 32);
        x.now += 2 * MS; /* no more active */
        assert_int_equal(leave(&x, 1, 0, 0, 0), 0);
        uint32_t more = 0;
        snic_gimbal_complete(x.g, &many[0], 1, ++x.now);
        while (gx_next(&x) != NULL)
            more++;
        assert_int_equal(more, 8); /* all that tenant 0 has */
        finish(&x, 9 * 40);
    }
}

/* A lone tenant's slots go back to it idle_ns after its neighbour's last I/O, not before. */
static void test_gimbal_idle_neighbour_keeps_slots_for_a_while(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.rate_start = SEC};
    struct snic_gimbal_io io;
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 2);
    gx_submit(&x, &io, 1, 0, 4096);
    assert_ptr_equal(gx_next(&x), &io);
    snic_gimbal_complete(x.g, &io, 1, x.now);
    uint64_t idle = x.now;
    for (uint32_t i = 0; i < 16; i++)
        gx_submit(&x, &many[i], 0, 0, 128 * KIB);
    uint32_t out = 0;
    for (; gx_view(&x).slots == 4; out += snic_gimbal_poll(x.g, x.now) != NULL) {
        uint64_t deadline = snic_gimbal_deadline_ns(x.g);
        assert_true(deadline != SNIC_NEVER && out <= 4);
        x.now = deadline;
    }
    assert_int_equal(x.now, idle + MS);
    while (gx_next(&x) != NULL)
        out++;
    assert_int_equal(out, 8);
    finish(&x, 16);
}

/* ---- Round robin ---- */

struct model_tenant {
    uint32_t costs[64];
    uint32_t count;
    uint32_t next;
    uint64_t deficit;
    uint32_t weight;
};

/*
 * Deficit round robin as everybody knows it, round by round, beside ours: in each round each tenant
 * sends the same I/Os. (Within a round, ours visits tenants in the order in which they were put
 * there.) Sizes from 1 byte to 8 MiB, so that some wait for hundreds of rounds.
 */
static void test_gimbal_rounds_beside_model(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    for (uint32_t run = 0; run < support_scale(300, 5000); run++) {
        static struct model_tenant t[8];
        struct snic_gimbal_opts o = {.tenants_max = 8,
                                     .quantum_bytes = 512 + (uint32_t)snic_rng_below(&r, 200000),
                                     .rate_start = SNIC_GIMBAL_RATE_MAX,
                                     .rate_min = SNIC_GIMBAL_RATE_MAX,
                                     .rate_max = SNIC_GIMBAL_RATE_MAX,
                                     .cost_period_ns = SNIC_GIMBAL_NS_MAX};
        uint32_t left = 0;
        struct gx x;
        gx_open(&x, &o);
        memset(t, 0, sizeof(t));
        for (uint32_t i = 0; i < 8; i++) {
            struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to)};
            to.weight = t[i].weight = 1 + (uint32_t)snic_rng_below(&r, 4);
            t[i].count = (uint32_t)snic_rng_below(&r, 60);
            left += t[i].count;
            assert_int_equal(snic_gimbal_tenant_add(x.g, i, &to), 0);
            for (uint32_t k = 0; k < t[i].count; k++) {
                uint32_t bits = (uint32_t)snic_rng_below(&r, 24);
                uint32_t size = 1 + (uint32_t)snic_rng_below(&r, UINT64_C(1) << bits);
                uint8_t op = (uint8_t)snic_rng_below(&r, 2);
                t[i].costs[k] = op ? size * 9 : size;
                gx_submit(&x, &many[64 * i + k], i, op, size);
            }
        }
        for (uint32_t round = 1; left > 0; round++) {
            uint32_t want[8] = {0};
            for (uint32_t i = 0; i < 8; i++) {
                if (t[i].next == t[i].count)
                    continue;
                t[i].deficit += (uint64_t)o.quantum_bytes * t[i].weight;
                while (t[i].next < t[i].count && t[i].costs[t[i].next] <= t[i].deficit) {
                    t[i].deficit -= t[i].costs[t[i].next++];
                    want[i]++;
                    left--;
                }
            }
            for (uint32_t n =
                     want[0] + want[1] + want[2] + want[3] + want[4] + want[5] + want[6] + want[7];
                 n > 0; n--) {
                struct snic_gimbal_io *io = gx_next(&x);
                assert_non_null(io);
                assert_int_equal(x.g->round, round);
                assert_true(want[io->tenant]-- > 0);
                assert_int_equal(snic_gimbal_check(x.g), 0);
                snic_gimbal_complete(x.g, io, 1, x.now); /* so that slots do not matter */
            }
        }
        assert_null(snic_gimbal_poll(x.g, x.now));
        gx_close(&x);
    }
}

/* An urgent small read does not wait for the hundreds of rounds that a large write needs. */
static void test_gimbal_urgent_read_before_large_write(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.rate_start = SNIC_GIMBAL_RATE_MAX,
                                 .rate_max = SNIC_GIMBAL_RATE_MAX};
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 2);
    x.now += 100 * MS;
    gx_submit(&x, &many[0], 0, SNIC_GIMBAL_WRITE, 8u << 20); /* 576 rounds */
    for (uint32_t i = 1; i < 300; i++)
        gx_submit(&x, &many[i], 1, SNIC_GIMBAL_READ, 4096);
    for (uint32_t i = 1; i < 40; i++) { /* the first rounds are the neighbour's */
        struct snic_gimbal_io *io = gx_next(&x);
        assert_int_equal(io->tenant, 1);
        snic_gimbal_complete(x.g, io, 1, x.now);
    }
    gx_fill(&many[300], 0, SNIC_GIMBAL_READ, 4096);
    many[300].priority = 7;
    assert_int_equal(snic_gimbal_submit(x.g, &many[300], x.now), 0);
    assert_int_equal(snic_gimbal_check(x.g), 0);
    uint32_t before = 0;
    struct snic_gimbal_io *io;
    while ((io = gx_next(&x)) != &many[300]) {
        assert_int_equal(io->tenant, 1);
        snic_gimbal_complete(x.g, io, 1, x.now);
        before++;
    }
    snic_gimbal_complete(x.g, io, 1, x.now);
    assert_true(before <= 64); /* the rest of this round, and one more */
    finish(&x, 301);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_underutilised_to_underutilised),
        cmocka_unit_test(test_gimbal_underutilised_to_avoidance),
        cmocka_unit_test(test_gimbal_underutilised_to_congested),
        cmocka_unit_test(test_gimbal_underutilised_to_overloaded),
        cmocka_unit_test(test_gimbal_avoidance_to_underutilised),
        cmocka_unit_test(test_gimbal_avoidance_to_avoidance),
        cmocka_unit_test(test_gimbal_avoidance_to_congested),
        cmocka_unit_test(test_gimbal_avoidance_to_overloaded),
        cmocka_unit_test(test_gimbal_congested_to_underutilised),
        cmocka_unit_test(test_gimbal_congested_to_avoidance),
        cmocka_unit_test(test_gimbal_congested_to_congested),
        cmocka_unit_test(test_gimbal_congested_to_overloaded),
        cmocka_unit_test(test_gimbal_overloaded_to_underutilised_cannot_be),
        cmocka_unit_test(test_gimbal_overloaded_to_avoidance),
        cmocka_unit_test(test_gimbal_overloaded_to_congested_cannot_be),
        cmocka_unit_test(test_gimbal_overloaded_to_overloaded),
        cmocka_unit_test(test_gimbal_threshold_reaches_maximum),
        cmocka_unit_test(test_gimbal_target_rate_floor_and_ceiling),
        cmocka_unit_test(test_gimbal_target_rate_does_not_wrap),
        cmocka_unit_test(test_gimbal_completion_rate_idle_time_not_counted),
        cmocka_unit_test(test_gimbal_completion_rate_after_stall),
        cmocka_unit_test(test_gimbal_overload_keeps_part_of_usual_rate),
        cmocka_unit_test(test_gimbal_write_cost_falls_and_rises),
        cmocka_unit_test(test_gimbal_buckets_by_hand),
        cmocka_unit_test(test_gimbal_bucket_ready_time),
        cmocka_unit_test(test_gimbal_overload_discards_if_asked),
        cmocka_unit_test(test_gimbal_slots_by_hand),
        cmocka_unit_test(test_gimbal_slot_waits_for_its_last),
        cmocka_unit_test(test_gimbal_credit_falls_slowly),
        cmocka_unit_test(test_gimbal_slots_overlap_among_small_reads),
        cmocka_unit_test(test_gimbal_slots_overlap_for_all_or_none),
        cmocka_unit_test(test_gimbal_idle_neighbour_keeps_slots_for_a_while),
        cmocka_unit_test(test_gimbal_rounds_beside_model),
        cmocka_unit_test(test_gimbal_urgent_read_before_large_write),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
