/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The paper's rate control, with numbers worked out by hand: each state of Algorithm 1 and each
 * transition between two, the completion rate, the write cost, Algorithm 4's buckets.
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

/* However long a device is idle, or overloaded, the target rate stays between rate_min and
   rate_max, and rises again when the device is. */
static void test_gimbal_target_rate_has_floor_and_ceiling(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {
        .tenants_max = 1, .rate_start = SEC, .rate_max = 2 * SEC, .rate_min = SEC / 2};
    struct gx x;
    for (uint8_t op = 0; op < 2; op++) {
        gx_open(&x, &o);
        gx_tenants(&x, 1);
        uint64_t most = 0, least = UINT64_MAX;
        for (int i = 0; i < 100000; i++) {
            (void)drive(&x, op, 100 * US);
            most = snic_max_u64(most, gx_view(&x).target_rate);
        }
        assert_int_equal(most, 2 * SEC);
        assert_int_equal(gx_view(&x).target_rate, 2 * SEC);
        for (int i = 0; i < 1000; i++) {
            (void)drive(&x, op, 5000 * US);
            least = snic_min_u64(least, gx_view(&x).target_rate);
        }
        assert_int_equal(least, SEC / 2);
        for (uint64_t ewma = 5000 * US; ewma >= 100 * US; ewma = ewma * 2 / 3)
            (void)drive(&x, op, ewma);
        for (int i = 0; i < 100; i++)
            (void)drive(&x, op, 100 * US);
        assert_true(gx_view(&x).target_rate > SEC / 2);
        gx_close(&x);
    }
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

/* 100 KB a millisecond are 100 MB/s; an idle hour afterwards changes nothing. */
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

/* An overload keeps the usual rate among small reads, 7/8 of it where a slot holds one I/O. */
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
        assert_int_equal(gx_view(&x).target_rate, (single ? 350000000 : 400000000) - 4096);
        gx_close(&x);
    }
}

/* Below 7/8 of the usual rate the target rises by steps 16 times as large, then as printed. A step
 * of a large I/O leads to the usual rate at most, if the printed one would not. */
static void test_gimbal_rises_to_usual_rate(void **state)
{
    (void)state;
    static const struct {
        uint64_t usual, from, to;
    } golden[] = {{400000000, 349999999, 349999999 + 16 * 8 * 4096},
                  {400000000, 350000000, 350000000 + 8 * 4096},
                  {4000000, 3480000, 4000000},
                  {200000, 170000, 170000 + 8 * 4096}};
    for (size_t i = 0; i < SNIC_COUNTOF(golden); i++) {
        struct gx x;
        struct snic_gimbal_opts o = {.tenants_max = 1, .rate_start = SEC, .rate_min = 100000};
        gx_open(&x, &o);
        gx_tenants(&x, 1);
        assert_int_equal(drive(&x, SNIC_GIMBAL_READ, 100 * US), U);
        x.g->completion_rate = golden[i].usual;
        x.g->usual_rate = golden[i].usual;
        x.g->target_rate = golden[i].from;
        assert_int_equal(drive(&x, SNIC_GIMBAL_READ, 100 * US), U);
        assert_int_equal(gx_view(&x).target_rate, golden[i].to);
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
        gimbal_bucket_hold(&g, &io);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_target_rate_has_floor_and_ceiling),
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
        cmocka_unit_test(test_gimbal_rises_to_usual_rate),
        cmocka_unit_test(test_gimbal_write_cost_falls_and_rises),
        cmocka_unit_test(test_gimbal_buckets_by_hand),
        cmocka_unit_test(test_gimbal_bucket_ready_time),
        cmocka_unit_test(test_gimbal_overload_discards_if_asked),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
