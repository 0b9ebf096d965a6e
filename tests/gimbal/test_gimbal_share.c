/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What tenants get, on a simple simulated device: equal shares, weights, caps, a bound for every
 * wait; and what happens on bad days: stalls, lost I/Os, a dead device, churn.
 */
#include "gimbal/gimbal_priv.h"
#include "test_gimbal_util.h"

/* Jain's index of what @count tenants got, in per mille. */
static uint64_t jain(struct sim *s, uint32_t count)
{
    double sum = 0;
    double squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        double v = (double)sim_bytes(s, i);
        sum += v;
        squares += v * v;
    }
    return (uint64_t)(1000 * sum * sum / (count * squares));
}

static void test_gimbal_equal_tenants_equal_shares(void **state)
{
    (void)state;
    static const uint32_t counts[] = {2, 16, 256, 1024};
    for (size_t i = 0; i < SNIC_COUNTOF(counts); i++) {
        struct snic_gimbal_opts o = {.tenants_max = counts[i], .rate_start = SEC};
        struct sim s;
        sim_open(&s, &o);
        gx_tenants(&s.x, counts[i]);
        for (uint32_t t = 0; t < counts[i]; t++) /* some ask for more at a time than others */
            sim_client(&s, t, 0, 4096, counts[i] > 16 ? 8192 / counts[i] : 256 * (1 + t % 2), SEC);
        sim_run(&s, SEC);
        assert_int_equal(snic_gimbal_check(s.x.g), 0);
        assert_true(jain(&s, counts[i]) >= 990);
        sim_close(&s);
    }
}

/* Weights 1 : 2 : 4 : 40, each with 4 KiB and 128 KiB reads and writes: within 5 percent. */
static void test_gimbal_weights_honoured(void **state)
{
    (void)state;
    static const uint32_t weights[] = {1, 2, 4, 40};
    for (uint32_t kind = 0; kind < 4; kind++) {
        struct snic_gimbal_opts o = {.tenants_max = 4,
                                     .rate_start = SEC,
                                     .queue_max = 8192,
                                     .thresh_max_ns = kind == 3 ? 10 * MS : 0};
        uint8_t op = (uint8_t)(kind / 2);
        uint32_t size = kind % 2 ? 128 * KIB : 4 * KIB;
        struct sim s;
        double each[4];
        double sum = 0;
        sim_open(&s, &o);
        s.bytes_per_second = 3 * SEC;
        s.latency_ns = 200000;
        for (uint32_t t = 0; t < 4; t++) {
            struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to), .weight = weights[t]};
            assert_int_equal(snic_gimbal_tenant_add(s.x.g, t, &to), 0);
            sim_client(&s, t, op, size, size > 4096 ? 256 : 32 * weights[t] * 2, 4 * SEC);
        }
        sim_run(&s, SEC);
        for (uint32_t t = 0; t < 4; t++)
            each[t] = -(double)sim_bytes(&s, t);
        sim_run(&s, 3 * SEC);
        for (uint32_t t = 0; t < 4; t++) {
            each[t] = (each[t] + (double)sim_bytes(&s, t)) / weights[t];
            sum += each[t];
        }
        for (uint32_t t = 0; t < 4; t++)
            assert_true(each[t] * 4 / sum > 0.95 && each[t] * 4 / sum < 1.05);
        sim_close(&s);
    }
}

/* ---- Caps ---- */

struct cap_log {
    uint64_t at[65536];
    uint32_t size[65536];
    uint32_t count;
};

static void cap_sent(struct sim *s, const struct snic_gimbal_io *io)
{
    struct cap_log *log = s->ctx;
    if (io->tenant != 0)
        return;
    assert_true(log->count < 65536);
    log->at[log->count] = s->x.now;
    log->size[log->count++] = io->size;
}

/* In no second more than the cap and one percent or one I/O; over four of them no less than that.
 */
static void cap_judge(const struct cap_log *log, uint64_t cap, int ios, uint32_t size)
{
    uint64_t one = ios ? 1 : size;
    uint64_t slack = snic_max_u64(cap / 100, one);
    uint64_t in_window = 0;
    uint64_t total = 0;
    uint32_t from = 0;
    for (uint32_t i = 0; i < log->count; i++) {
        uint64_t units = ios ? 1 : log->size[i];
        in_window += units;
        for (; log->at[from] + SEC <= log->at[i]; from++)
            in_window -= ios ? 1 : log->size[from];
        assert_true(in_window <= cap + slack);
        if (log->at[i] >= SEC && log->at[i] < 5 * SEC)
            total += units;
    }
    assert_true(total + 4 * slack >= 4 * cap && total <= 4 * cap + 4 * slack);
}

static void test_gimbal_caps_held_in_every_second(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        uint64_t ios;
        uint32_t size;
        uint32_t others;
    } cases[] = {
        {10000000, 0, 4096, 0},    {10000000, 0, 4096, 3}, {3000000, 0, 128 * KIB, 3},
        {1000000, 0, 1 << 20, 2},  {0, 1000, 4096, 3},     {0, 7, 512, 1},
        {0, 3001, 16 * KIB, 8},    {33333333, 0, 8192, 8}, {20000000, 500, 4096, 2},
        {1000000, 100000, 512, 1},
    };
    static struct cap_log log;
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        struct snic_gimbal_opts o = {.tenants_max = 16, .rate_start = SEC};
        struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to)};
        struct sim s;
        sim_open(&s, &o);
        s.sent = cap_sent;
        s.ctx = &log;
        log.count = 0;
        to.bytes_per_second = cases[i].bytes;
        to.ios_per_second = cases[i].ios;
        assert_int_equal(snic_gimbal_tenant_add(s.x.g, 0, &to), 0);
        sim_client(&s, 0, 0, cases[i].size, 64, 5 * SEC);
        for (uint32_t t = 1; t <= cases[i].others; t++) {
            assert_int_equal(snic_gimbal_tenant_add(s.x.g, t, NULL), 0);
            sim_client(&s, t, 0, 16 * KIB, 16, 5 * SEC);
        }
        sim_run(&s, 5 * SEC);
        assert_int_equal(snic_gimbal_check(s.x.g), 0);
        uint64_t by_ios = cases[i].ios * cases[i].size;
        if (cases[i].bytes != 0 && (cases[i].ios == 0 || cases[i].bytes < by_ios))
            cap_judge(&log, cases[i].bytes, 0, cases[i].size);
        else
            cap_judge(&log, cases[i].ios, 1, cases[i].size);
        sim_close(&s);
    }
}

/* What a cap charges adds up exactly, down to 512 bytes at 10 GB/s: 51.2 ns. */
static void test_gimbal_cap_charges_exactly(void **state)
{
    (void)state;
    static const uint64_t caps[] = {
        1, 3, 1000, 999999937, UINT64_C(10000000000), SNIC_GIMBAL_RATE_MAX};
    for (size_t i = 0; i < SNIC_COUNTOF(caps); i++) {
        struct snic_gimbal_tenant_opts o = {.opts_size = sizeof(o), .bytes_per_second = caps[i]};
        struct gimbal_tenant t = {.weight = 1};
        struct snic_gimbal_io io = {.size = 512};
        uint64_t n = caps[i] < 1000 ? 100 : 100000;
        gimbal_cap_set(&t, &o, 0, 512);
        for (uint64_t k = 0; k < n; k++)
            gimbal_cap_pay(&t, &io, 0);
        double want = 512.0 * 1e9 * (double)n / (double)caps[i];
        double off = (double)t.pace[0].free_ns / want - 1;
        assert_true(off < 1e-6 && off > -1e-6 - 1 / want);
    }
}

/* After a long silence a tenant catches up on a hundredth of a second, no more. */
static void test_gimbal_cap_burst_after_silence(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.rate_start = 8 * SEC};
    struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to), .bytes_per_second = 10000000};
    static struct snic_gimbal_io io[100];
    struct gx x;
    gx_open(&x, &o);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 0, &to), 0);
    x.now += 5 * SEC;
    for (uint32_t i = 0; i < SNIC_COUNTOF(io); i++)
        gx_submit(&x, &io[i], 0, 0, 4096);
    uint32_t out = 0;
    while (snic_gimbal_poll(x.g, x.now) != NULL)
        out++;
    assert_true(out >= 24 && out <= 25); /* 100 000 bytes */
    for (uint32_t i = 0; i < SNIC_COUNTOF(io); i++) {
        if (i < out)
            snic_gimbal_complete(x.g, &io[i], 1, x.now);
        else
            assert_int_equal(snic_gimbal_cancel(x.g, &io[i], x.now), 0);
    }
    gx_close(&x);
}

/* Caps removed let a parked tenant go at once. */
static void test_gimbal_cap_lifted_unparks(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.rate_start = SEC};
    struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to), .ios_per_second = 1};
    struct snic_gimbal_io io[2];
    struct gx x;
    gx_open(&x, &o);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 0, &to), 0);
    gx_submit(&x, &io[0], 0, 0, 4096);
    gx_submit(&x, &io[1], 0, 0, 4096);
    assert_ptr_equal(gx_next(&x), &io[0]);
    assert_null(snic_gimbal_poll(x.g, x.now));
    assert_int_equal(gx_tenant(&x, 0).parked, 1);
    assert_int_equal(snic_gimbal_deadline_ns(x.g), x.now + SEC);
    to.ios_per_second = 0;
    assert_int_equal(snic_gimbal_tenant_set(x.g, 0, &to), 0);
    uint64_t before = x.now;
    assert_ptr_equal(gx_next(&x), &io[1]);
    assert_true(x.now < before + MS);
    snic_gimbal_complete(x.g, &io[0], 1, x.now);
    snic_gimbal_complete(x.g, &io[1], 1, x.now);
    gx_close(&x);
}

/* A cap of a byte a second is raised: what was owed under it held for a day and a half. */
static void test_gimbal_cap_raised_owes_little(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.rate_start = SEC};
    struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to), .bytes_per_second = 1};
    struct snic_gimbal_io io[2];
    struct gx x;
    gx_open(&x, &o);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 0, &to), 0);
    gx_submit(&x, &io[0], 0, 0, 128 << 10);
    gx_submit(&x, &io[1], 0, 0, 128 << 10);
    assert_ptr_equal(gx_next(&x), &io[0]);
    assert_null(snic_gimbal_poll(x.g, x.now));
    assert_int_equal(gx_tenant(&x, 0).parked, 1);
    snic_gimbal_complete(x.g, &io[0], 1, x.now);
    to.bytes_per_second = 1u << 30;
    assert_int_equal(snic_gimbal_tenant_set(x.g, 0, &to), 0);
    uint64_t before = x.now;
    assert_ptr_equal(gx_next(&x), &io[1]);
    assert_true(x.now - before <= snic_gimbal_wait_max_ns(x.g, 0, 0));
    snic_gimbal_complete(x.g, &io[1], 1, x.now);
    gx_close(&x);
}

/* ---- The bound of every wait ---- */

/* One I/O at a time of the smallest tenant, beside the worst that others may send. */
static void test_gimbal_wait_within_bound(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 4; kind++) {
        struct snic_gimbal_opts o = {.tenants_max = 9,
                                     .size_max = 256 * KIB,
                                     .rate_start = 20000000,
                                     .rate_min = 20000000,
                                     .rate_max = kind % 2 ? 20000000 : 0,
                                     .lost_ns = 400 * MS};
        struct sim s;
        uint64_t longest = 0;
        sim_open(&s, &o);
        s.bytes_per_second = kind % 2 ? SEC : 30000000; /* far below the target rate */
        assert_int_equal(snic_gimbal_tenant_add(s.x.g, 0, NULL), 0);
        for (uint32_t t = 1; t < 9; t++) {
            struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to), .weight = 1 + t % 3};
            assert_int_equal(snic_gimbal_tenant_add(s.x.g, t, &to), 0);
            sim_client(&s, t, t % 2, t % 4 < 2 ? 256 * KIB : 4096, 8, 30 * SEC);
        }
        for (int i = 0; i < 60; i++) {
            uint32_t mine = s.count;
            sim_client(&s, 0, (uint8_t)(kind / 2), 256 * KIB, 1, 0);
            uint64_t bound = snic_gimbal_wait_max_ns(s.x.g, 0, 400 * MS);
            while (s.ios[mine].io.state == GIMBAL_IO_QUEUED)
                sim_run(&s, s.x.now + MS);
            uint64_t wait = s.ios[mine].io.sent_ns - s.ios[mine].io.queued_ns;
            longest = snic_max_u64(longest, wait);
            assert_true(wait <= bound);
            sim_run(&s, s.x.now + 100 * MS);
        }
        assert_true(longest > 0);
        sim_close(&s);
    }
}

static void test_gimbal_wait_bound_formula(void **state)
{
    (void)state;
    /* C = 144 KiB x 16, k = (2304 + 128) / 64 + 2 = 40,
     * 2 (40 x 128 KiB x 3 + 2 (2 x 2304 KiB + 128 KiB) x 3) at 1 MB/s, and 1 s. */
    struct snic_gimbal_opts o = {
        .size_max = 144 * KIB, .write_cost_worst = 256, .rate_start = 1000000, .rate_min = 1000000};
    struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to), .weight = 2};
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 1);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 1, &to), 0);
    uint64_t want = UINT64_C(2) * (40 * 131072 * 3 + 2 * (2 * 2359296 + 131072) * 3) * 1000;
    uint64_t bound = snic_gimbal_wait_max_ns(x.g, 0, SEC);
    assert_true(bound >= want + SEC && bound <= want + SEC + want / 1000);
    assert_int_equal(snic_gimbal_wait_max_ns(x.g, 2, SEC), 0);
    assert_true(snic_gimbal_wait_max_ns(x.g, 0, UINT64_MAX) == UINT64_MAX);
    gx_close(&x);
}

/* ---- A fast device ---- */

/* 14 GB/s at 20 us: a ceiling made for a device of 3 GB/s must not throttle it. */
static void test_gimbal_fast_device_is_used(void **state)
{
    (void)state;
    static const struct {
        uint32_t tenants, size, depth;
    } loads[] = {{1, 128 * KIB, 32}, {5, 128 * KIB, 32}, {16, 16 * KIB, 64}};
    for (size_t k = 0; k < SNIC_COUNTOF(loads); k++) {
        uint64_t bytes = 0;
        struct sim s;
        sim_open(&s, NULL);
        s.bytes_per_second = 14 * SEC;
        s.latency_ns = 20000;
        gx_tenants(&s.x, loads[k].tenants);
        for (uint32_t t = 0; t < loads[k].tenants; t++)
            sim_client(&s, t, 0, loads[k].size, loads[k].depth, 3 * SEC);
        sim_run(&s, 2 * SEC);
        for (uint32_t t = 0; t < loads[k].tenants; t++)
            bytes -= sim_bytes(&s, t);
        sim_run(&s, 2 * SEC + SEC / 2);
        for (uint32_t t = 0; t < loads[k].tenants; t++)
            bytes += sim_bytes(&s, t);
        assert_true(bytes > 14 * (SEC / 2) / 100 * 97);
        sim_close(&s);
    }
}

/* ---- Bad days ---- */

/* Ten seconds of silence, then as before: no collapse, and all within a second. */
static void test_gimbal_stall_of_ten_seconds_survived(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.tenants_max = 8, .rate_start = SEC};
    struct sim s;
    sim_open(&s, &o);
    gx_tenants(&s.x, 8);
    for (uint32_t t = 0; t < 8; t++)
        sim_client(&s, t, 0, t % 2 ? 4096 : 128 * KIB, 64, 20 * SEC);
    sim_run(&s, 2 * SEC);
    uint64_t before = 0;
    uint64_t after = 0;
    for (uint32_t t = 0; t < 8; t++)
        before += sim_bytes(&s, t);
    uint32_t usual = s.inflight_max;
    s.stall_from_ns = 2 * SEC;
    s.stall_to_ns = 12 * SEC;
    sim_run(&s, 12 * SEC - 1);
    assert_int_equal(snic_gimbal_check(s.x.g), 0);
    /* A slot per lost_ns was abandoned, of 32 I/Os at most, and refilled. */
    assert_true(s.inflight_max <= usual + 5 * 64);
    sim_run(&s, 13 * SEC);
    for (uint32_t t = 0; t < 8; t++)
        after += sim_bytes(&s, t);
    assert_true(after - before > before * 8 / 20); /* in one second of normal work */
    assert_int_equal(gx_view(&s.x).lost, 0);
    sim_close(&s);
}

/* An I/O that never completes holds its slot for lost_ns, then its tenant continues; once back, all
 * is as it was. */
static void test_gimbal_lost_io_holds_slot_for_a_while(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.tenants_max = 16,
                                 .rate_start = 2 * SEC,
                                 .rate_min = 2 * SEC,
                                 .lost_ns = 50 * MS,
                                 .flags = SNIC_GIMBAL_SLOT_BARRIER};
    struct snic_gimbal_io io[20];
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 10);
    for (uint32_t i = 0; i < 20; i++)
        gx_submit(&x, &io[i], i % 10, 0, 128 * KIB);
    for (uint32_t i = 0; i < 10; i++)
        assert_ptr_equal(gx_next(&x), &io[i]);
    for (uint32_t i = 1; i < 10; i++) { /* all but that of tenant 0 */
        x.now += 5 * MS;
        snic_gimbal_complete(x.g, &io[i], 1, x.now);
        struct snic_gimbal_io *next;
        while ((next = snic_gimbal_poll(x.g, x.now)) != NULL)
            assert_ptr_equal(next, &io[10 + i]);
        assert_int_equal(io[10 + i].state & 0xff, GIMBAL_IO_OUT);
    }
    x.now += 8 * MS; /* 53 after the first was sent, 48 after that of tenant 1 */
    assert_ptr_equal(snic_gimbal_poll(x.g, x.now), &io[10]);
    assert_int_equal(gx_view(&x).lost, 1);
    assert_int_equal(gx_tenant(&x, 0).lost, 1);
    assert_int_equal(gx_tenant(&x, 0).inflight, 2);
    assert_int_equal(snic_gimbal_check(x.g), 0);
    x.now += 3600 * SEC;
    snic_gimbal_complete(x.g, &io[0], 1, x.now);
    assert_int_equal(gx_view(&x).lost, 0);
    for (uint32_t i = 10; i < 20; i++)
        snic_gimbal_complete(x.g, &io[i], 1, x.now);
    gx_close(&x);
}

/* A dead device gets all slots, and then a slot per lost_ns: no flood. */
static void test_gimbal_dead_device_not_flooded(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.tenants_max = 16, .rate_start = SEC, .lost_ns = 100 * MS};
    static struct snic_gimbal_io io[16 * 64];
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 16);
    for (uint32_t i = 0; i < SNIC_COUNTOF(io); i++)
        gx_submit(&x, &io[i], i % 16, 0, 128 * KIB);
    uint32_t out = 0;
    uint64_t last = 0;
    uint64_t end = x.now + 5 * SEC;
    for (;;) {
        while (snic_gimbal_poll(x.g, x.now) != NULL) {
            out++;
            last = x.now;
        }
        uint64_t deadline = snic_gimbal_deadline_ns(x.g);
        assert_true(deadline > x.now);
        if (deadline > end)
            break;
        x.now = deadline;
    }
    assert_int_equal(snic_gimbal_check(x.g), 0);
    assert_true(out >= 16 + 45 && out <= 16 + 50);
    assert_true(end - last <= 200 * MS); /* and it is still tried */
    for (uint32_t i = 0; i < SNIC_COUNTOF(io); i++) {
        if (io[i].state == GIMBAL_IO_QUEUED)
            assert_int_equal(snic_gimbal_cancel(x.g, &io[i], x.now), 0);
        else
            snic_gimbal_complete(x.g, &io[i], 0, x.now);
    }
    gx_close(&x);
}

/* Errors are no measure of the device's speed: rates stay, and each I/O comes out once. */
static void test_gimbal_error_storm_measures_nothing(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.rate_start = SEC};
    struct snic_gimbal_io io;
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 1);
    struct snic_gimbal_view before = gx_view(&x);
    for (uint32_t i = 0; i < 20000; i++) {
        gx_submit(&x, &io, 0, i % 2, 4096);
        assert_ptr_equal(gx_next(&x), &io);
        x.now += i % 7;
        snic_gimbal_complete(x.g, &io, 0, x.now);
    }
    struct snic_gimbal_view v = gx_view(&x);
    assert_int_equal(v.target_rate, before.target_rate);
    assert_int_equal(v.completion_rate, 0);
    assert_int_equal(v.write_cost, before.write_cost);
    assert_int_equal(gx_tenant(&x, 0).errors, 20000);
    gx_close(&x);
}

/* A clock that stands still: what has tokens leaves, then the deadline lies ahead: no busy loop. */
static void test_gimbal_clock_standing_still_ends(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.tenants_max = 4, .rate_start = SEC};
    static struct snic_gimbal_io io[1000];
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 4);
    x.now += SEC; /* both buckets full: 64 + 64 reads of 4 KiB, of which writes' tokens are none */
    for (uint32_t i = 0; i < SNIC_COUNTOF(io); i++)
        gx_submit(&x, &io[i], i % 4, 0, 4096);
    uint32_t out = 0;
    struct snic_gimbal_io *next;
    while ((next = snic_gimbal_poll(x.g, x.now)) != NULL) { /* latency 0 */
        snic_gimbal_complete(x.g, next, 1, x.now);
        out++;
    }
    assert_int_equal(out, 64);
    for (int i = 0; i < 100; i++) {
        assert_null(snic_gimbal_poll(x.g, x.now));
        assert_true(snic_gimbal_deadline_ns(x.g) > x.now);
    }
    while ((next = gx_next(&x)) != NULL) {
        snic_gimbal_complete(x.g, next, 1, x.now);
        out++;
    }
    assert_int_equal(out, 1000);
    gx_close(&x);
}

/* Sizes from 512 bytes to 8 MiB, writes alone too: all tenants get through, at equal cost. */
static void test_gimbal_sizes_and_writers_together(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {512, 4096, 64 * KIB, 128 * KIB, 1 << 20, 8 << 20};
    struct snic_gimbal_opts o = {.tenants_max = 12, .rate_start = SEC};
    struct sim s;
    sim_open(&s, &o);
    gx_tenants(&s.x, 12);
    for (uint32_t t = 0; t < 12; t++)
        sim_client(&s, t, t % 2, sizes[t / 2], 32, 10 * SEC);
    sim_run(&s, 10 * SEC);
    assert_int_equal(snic_gimbal_check(s.x.g), 0);
    for (uint32_t t = 0; t < 12; t++)
        assert_true(sim_bytes(&s, t) >= 2 * sizes[t / 2] && sim_bytes(&s, t) > 1000000);
    sim_close(&s);
}

/* 10 000 tenants a second come, send one I/O and go, beside one that stays and gets its due. */
static void test_gimbal_churn_beside_a_steady_tenant(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.tenants_max = 4096, .rate_start = SEC};
    struct sim s;
    uint32_t refused = 0;
    sim_open(&s, &o);
    gx_tenants(&s.x, 1);
    sim_client(&s, 0, 0, 4096, 128, 2 * SEC);
    for (uint32_t i = 0; i < 10000; i++) {
        uint32_t tenant = 1 + i % 4095;
        int r = snic_gimbal_tenant_add(s.x.g, tenant, NULL);
        if (r == 0) {
            sim_client(&s, tenant, 0, 4096, 1, 0);
            assert_int_equal(snic_gimbal_tenant_remove(s.x.g, tenant), 0);
        } else {
            assert_int_equal(r, SNIC_EBUSY);
            refused++;
        }
        sim_run(&s, s.x.now + 100000);
        if (i % 500 == 0)
            assert_int_equal(snic_gimbal_check(s.x.g), 0);
    }
    assert_int_equal(refused, 0);
    assert_true(sim_bytes(&s, 0) > 800000000);
    sim_run(&s, SNIC_NEVER);
    assert_int_equal(gx_view(&s.x).tenants, 1);
    assert_int_equal(gx_view(&s.x).active <= 1, 1);
    sim_close(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_equal_tenants_equal_shares),
        cmocka_unit_test(test_gimbal_weights_honoured),
        cmocka_unit_test(test_gimbal_caps_held_in_every_second),
        cmocka_unit_test(test_gimbal_cap_charges_exactly),
        cmocka_unit_test(test_gimbal_cap_burst_after_silence),
        cmocka_unit_test(test_gimbal_cap_lifted_unparks),
        cmocka_unit_test(test_gimbal_cap_raised_owes_little),
        cmocka_unit_test(test_gimbal_wait_within_bound),
        cmocka_unit_test(test_gimbal_wait_bound_formula),
        cmocka_unit_test(test_gimbal_fast_device_is_used),
        cmocka_unit_test(test_gimbal_stall_of_ten_seconds_survived),
        cmocka_unit_test(test_gimbal_lost_io_holds_slot_for_a_while),
        cmocka_unit_test(test_gimbal_dead_device_not_flooded),
        cmocka_unit_test(test_gimbal_error_storm_measures_nothing),
        cmocka_unit_test(test_gimbal_clock_standing_still_ends),
        cmocka_unit_test(test_gimbal_sizes_and_writers_together),
        cmocka_unit_test(test_gimbal_churn_beside_a_steady_tenant),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
