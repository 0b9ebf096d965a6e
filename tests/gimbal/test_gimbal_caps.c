/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Caps in every one-second window, on a device that completes at once: no more than the cap and one
 * percent of it, or one I/O if that is more, and with enough I/Os no less than that.
 */
#include "test_gimbal_util.h"

#define CAP_DEPTH 64

struct cap_log {
    uint64_t *at;
    uint32_t *size;
    uint8_t *op;
    uint32_t count;
    uint32_t room;
};

/* A tenant, or several of a group, with CAP_DEPTH I/Os queued each, in simulated time. */
struct cap_run {
    struct gx x;
    struct cap_log log;
    struct snic_gimbal_io *io;
    uint32_t count;
};

static void cap_open(struct cap_run *c, uint32_t tenants, uint32_t room)
{
    struct snic_gimbal_opts o = {.tenants_max = tenants,
                                 .groups_max = 2,
                                 .rate_start = SNIC_GIMBAL_RATE_MAX,
                                 .rate_min = SNIC_GIMBAL_RATE_MAX,
                                 .rate_max = SNIC_GIMBAL_RATE_MAX,
                                 .bucket_bytes = SNIC_GIMBAL_SIZE_MAX};
    memset(c, 0, sizeof(*c));
    gx_open(&c->x, &o);
    c->count = tenants * CAP_DEPTH;
    c->io = calloc(c->count, sizeof(*c->io));
    c->log.at = calloc(room, sizeof(uint64_t));
    c->log.size = calloc(room, sizeof(uint32_t));
    c->log.op = calloc(room, 1);
    c->log.room = room;
    assert_true(c->io != NULL && c->log.at != NULL && c->log.size != NULL && c->log.op != NULL);
}

static void cap_queue(struct cap_run *c, uint32_t tenant, uint8_t op, uint32_t size, uint32_t from,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        gx_submit(&c->x, &c->io[tenant * CAP_DEPTH + from + i], tenant, op, size);
}

/* Until @to_ns; what completes is queued again. */
static void cap_run(struct cap_run *c, uint64_t to_ns)
{
    for (;;) {
        struct snic_gimbal_io *io = snic_gimbal_poll(c->x.g, c->x.now);
        if (io == NULL) {
            uint64_t next = snic_gimbal_deadline_ns(c->x.g);
            assert_true(next > c->x.now);
            if (next > to_ns)
                break;
            c->x.now = next;
            continue;
        }
        assert_true(c->log.count < c->log.room);
        c->log.at[c->log.count] = c->x.now;
        c->log.size[c->log.count] = io->size;
        c->log.op[c->log.count++] = io->op;
        snic_gimbal_complete(c->x.g, io, 1, c->x.now);
        assert_int_equal(snic_gimbal_submit(c->x.g, io, c->x.now), 0);
    }
    c->x.now = to_ns;
}

static void cap_close(struct cap_run *c)
{
    assert_int_equal(snic_gimbal_check(c->x.g), 0);
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->io[i].state != 0)
            assert_int_equal(snic_gimbal_cancel(c->x.g, &c->io[i], c->x.now), 0);
    }
    gx_close(&c->x);
    free(c->io);
    free(c->log.at);
    free(c->log.size);
    free(c->log.op);
}

/* Every window of a second that begins or ends with an I/O: the others hold no more, no less. */
static void cap_judge(const struct cap_log *log, int ios, uint64_t cap, uint64_t slack,
                      uint64_t least_from_ns, uint64_t to_ns)
{
    uint64_t in_window = 0;
    uint32_t from = 0;
    for (uint32_t i = 0; i < log->count; i++) {
        uint64_t units = ios ? 1 : log->size[i];
        /* The window that ends just before this I/O. */
        for (; log->at[from] + SEC < log->at[i]; from++)
            in_window -= ios ? 1 : log->size[from];
        if (log->at[i] >= least_from_ns + SEC && log->at[i] <= to_ns)
            assert_true(in_window + slack >= cap);
        /* The one that ends with it. */
        in_window += units;
        for (; log->at[from] + SEC <= log->at[i]; from++)
            in_window -= ios ? 1 : log->size[from];
        if (in_window > cap + slack)
            fail_msg("%llu in a second, the cap is %llu", (unsigned long long)in_window,
                     (unsigned long long)cap);
    }
}

static struct snic_gimbal_tenant_opts cap_opts(uint64_t bytes, uint64_t ios)
{
    return (struct snic_gimbal_tenant_opts){.opts_size = sizeof(struct snic_gimbal_tenant_opts),
                                            .bytes_per_second = bytes,
                                            .ios_per_second = ios};
}

static const uint64_t cap_rates[] = {10, 33, 100, 999, 1000, 7777, 10000, 100000, 333333, 1000000};
static const uint32_t cap_sizes[] = {512, 4096, 16384, 65536, 131072, 1u << 20};

/* One case: @rate I/Os of @size a second, as a cap of I/Os or of bytes. */
static void cap_case(uint64_t rate, uint32_t size, int bytes)
{
    struct cap_run c;
    uint64_t cap = bytes ? rate * size : rate;
    struct snic_gimbal_tenant_opts o = cap_opts(bytes ? cap : 0, bytes ? 0 : cap);
    uint64_t slack = snic_max_u64(cap / 100, bytes ? size : 1);
    if (cap > UINT64_C(1) << 40)
        return;
    uint64_t time = rate > 50000 ? 2 * SEC + 100 * MS : 4 * SEC;
    cap_open(&c, 1, (uint32_t)(rate * (time / MS) / 1000 + rate / 10 + 100));
    assert_int_equal(snic_gimbal_tenant_add(c.x.g, 0, &o), 0);
    cap_queue(&c, 0, SNIC_GIMBAL_READ, size, 0, CAP_DEPTH);
    cap_run(&c, time);
    cap_judge(&c.log, !bytes, cap, slack, 1000, time);
    cap_close(&c);
}

static void test_gimbal_caps_every_rate_and_size(void **state)
{
    (void)state;
    uint64_t stride = support_stride(6, 12);
    uint64_t turn = support_turn(stride);
    uint32_t n = 0;
    for (size_t r = 0; r < SNIC_COUNTOF(cap_rates); r++) {
        for (size_t s = 0; s < SNIC_COUNTOF(cap_sizes); s++, n++) {
            /* A million I/Os take a second: by day some of those, each in its turn. */
            if (cap_rates[r] > 50000 && n % stride != turn)
                continue;
            cap_case(cap_rates[r], cap_sizes[s], 0);
            cap_case(cap_rates[r], cap_sizes[s], 1);
        }
    }
}

/* Sizes mixed in one tenant: one percent or one of the largest, not both. */
static void test_gimbal_caps_sizes_mixed(void **state)
{
    (void)state;
    static const uint64_t caps[] = {1000000, 8000000, 20000000, 100000000, 500000000};
    for (size_t k = 0; k < SNIC_COUNTOF(caps); k++) {
        struct cap_run c;
        struct snic_gimbal_tenant_opts o = cap_opts(caps[k], 0);
        cap_open(&c, 1, 2000000);
        assert_int_equal(snic_gimbal_tenant_add(c.x.g, 0, &o), 0);
        for (uint32_t i = 0; i < CAP_DEPTH; i++)
            cap_queue(&c, 0, SNIC_GIMBAL_READ, i % 7 == 6 ? 1u << 20 : 512u << i % 7, i, 1);
        cap_run(&c, 6 * SEC);
        cap_judge(&c.log, 0, caps[k], snic_max_u64(caps[k] / 100, 1u << 20), 1000, 6 * SEC);
        cap_close(&c);
    }
}

/* Reads and writes of a capped tenant are both served, whatever their sizes. */
static void test_gimbal_caps_reads_and_writes_take_turns(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct cap_run c;
        uint64_t seen[2] = {0, 0};
        struct snic_gimbal_tenant_opts o = cap_opts(how == 1 ? 20000000 : 0, how == 1 ? 0 : 50);
        cap_open(&c, 1, 100000);
        assert_int_equal(snic_gimbal_tenant_add(c.x.g, 0, &o), 0);
        cap_queue(&c, 0, SNIC_GIMBAL_READ, how == 0 ? 4096 : 512, 0, 32);
        cap_queue(&c, 0, SNIC_GIMBAL_WRITE, how == 0 ? 4096 : 1u << 20, 32, 32);
        cap_run(&c, 4 * SEC);
        for (uint32_t i = 0; i < c.log.count; i++)
            seen[c.log.op[i]]++;
        assert_true(seen[0] >= 15 && seen[1] >= 15);
        if (how != 1)
            assert_true(seen[0] >= 95 && seen[1] >= 95);
        cap_close(&c);
    }
}

/* Idle for long, then everything at once: the same bounds, with and without the silence. */
static void test_gimbal_caps_after_silence(void **state)
{
    (void)state;
    struct cap_run c;
    struct snic_gimbal_tenant_opts o = cap_opts(10000000, 0);
    cap_open(&c, 1, 100000);
    assert_int_equal(snic_gimbal_tenant_add(c.x.g, 0, &o), 0);
    for (int turn = 0; turn < 5; turn++) {
        uint64_t from = c.x.now + 3 * SEC;
        c.x.now = from;
        cap_queue(&c, 0, SNIC_GIMBAL_READ, 4096, 0, CAP_DEPTH);
        cap_run(&c, from + 1300 * MS);
        for (uint32_t i = 0; i < CAP_DEPTH; i++)
            assert_int_equal(snic_gimbal_cancel(c.x.g, &c.io[i], c.x.now), 0);
    }
    cap_judge(&c.log, 0, 10000000, 100000, SNIC_NEVER - SEC, 0);
    cap_close(&c);
}

/* The sum of what the cap allowed, by time, in @ns before @to; @step: the changes are so far apart.
 */
struct cap_plan {
    uint64_t step_ns;
    const uint64_t *caps;
    size_t count;
};

static uint64_t plan_at(const struct cap_plan *p, uint64_t ns)
{
    return p->caps[ns / p->step_ns % p->count];
}

/* What the plan allows in (from, from + 1 s]. */
static double plan_allows(const struct cap_plan *p, uint64_t from)
{
    double sum = 0;
    for (uint64_t at = from; at < from + SEC;) {
        uint64_t next = snic_min_u64((at / p->step_ns + 1) * p->step_ns, from + SEC);
        sum += (double)plan_at(p, at) * (double)(next - at) / 1e9;
        at = next;
    }
    return sum;
}

/* Changed every few microseconds to seconds: over each second the average counts. */
static void test_gimbal_caps_changed_any_number_of_times(void **state)
{
    (void)state;
    static const uint64_t same[] = {20000000, 20000000};
    static const uint64_t mild[] = {20000000, 25000000, 15000000};
    static const struct cap_plan plans[] = {
        {30000, same, 2},    {777777, same, 2},    {1000000, mild, 3},
        {370 * MS, mild, 3}, {1250 * MS, mild, 3}, {100000, mild, 3},
    };
    for (size_t k = 0; k < SNIC_COUNTOF(plans); k++) {
        const struct cap_plan *p = &plans[k];
        struct cap_run c;
        struct snic_gimbal_tenant_opts o = cap_opts(p->caps[0], 0);
        cap_open(&c, 1, 200000);
        assert_int_equal(snic_gimbal_tenant_add(c.x.g, 0, &o), 0);
        for (uint32_t i = 0; i < CAP_DEPTH; i++)
            cap_queue(&c, 0, SNIC_GIMBAL_READ, i % 2 ? 65536 : 4096, i, 1);
        for (uint64_t at = p->step_ns; at <= 4 * SEC; at += p->step_ns) {
            cap_run(&c, at);
            cap_run(&c, at); /* the switch knows the time */
            o.bytes_per_second = plan_at(p, at);
            assert_int_equal(snic_gimbal_tenant_set(c.x.g, 0, &o), 0);
        }
        uint64_t in_window = 0;
        uint32_t from = 0;
        for (uint32_t i = 0; i < c.log.count; i++) {
            for (; c.log.at[from] + SEC <= c.log.at[i]; from++)
                in_window -= c.log.size[from];
            in_window += c.log.size[i];
            if (c.log.at[i] < SEC || i % 16 != 0)
                continue;
            double allowed = plan_allows(p, c.log.at[i] - SEC);
            if ((double)in_window > allowed + 250000 + 65536 * 1.01)
                fail_msg("plan %zu: %llu, allowed %.0f", k, (unsigned long long)in_window, allowed);
            assert_true((double)in_window >= allowed - 250000 - 65536 * 1.01);
        }
        cap_close(&c);
    }
}

/* A cap of almost nothing that is raised, or removed, for a nanosecond, a thousand times: no I/O
 * more for each. */
static void test_gimbal_caps_raised_for_a_moment_give_nothing(void **state)
{
    (void)state;
    for (int removed = 0; removed < 2; removed++) {
        struct cap_run c;
        struct snic_gimbal_tenant_opts low = cap_opts(1000000, 0);
        struct snic_gimbal_tenant_opts high = cap_opts(removed ? 0 : UINT64_C(1) << 40, 0);
        cap_open(&c, 1, 100000);
        assert_int_equal(snic_gimbal_tenant_add(c.x.g, 0, &low), 0);
        cap_queue(&c, 0, SNIC_GIMBAL_READ, 65536, 0, CAP_DEPTH);
        for (int i = 0; i < 3000; i++) {
            assert_int_equal(snic_gimbal_tenant_set(c.x.g, 0, &high), 0);
            assert_int_equal(snic_gimbal_tenant_set(c.x.g, 0, &low), 0);
            cap_run(&c, c.x.now + MS);
        }
        cap_judge(&c.log, 0, 1000000, 65536, SNIC_NEVER - SEC, 0);
        assert_true(c.log.count >= 40); /* and takes nothing */
        cap_close(&c);
    }
}

/* A group's cap holds for all its tenants together; a tenant's own within it. */
static void test_gimbal_caps_of_group(void **state)
{
    (void)state;
    struct cap_run c;
    struct snic_gimbal_tenant_opts group = cap_opts(30000000, 0);
    struct snic_gimbal_tenant_opts o = cap_opts(0, 0);
    uint64_t bytes[3] = {0};
    cap_open(&c, 3, 100000);
    assert_int_equal(snic_gimbal_group_add(c.x.g, 1, &group), 0);
    for (uint32_t t = 0; t < 3; t++) {
        o.group = 1;
        o.weight = t == 2 ? 3 : 1;
        o.bytes_per_second = t == 0 ? 2000000 : 0;
        assert_int_equal(snic_gimbal_tenant_add(c.x.g, t, &o), 0);
        cap_queue(&c, t, SNIC_GIMBAL_READ, 16384, 0, CAP_DEPTH);
    }
    cap_run(&c, 4 * SEC);
    cap_judge(&c.log, 0, 30000000, 300000, 1000, 4 * SEC);
    for (uint32_t t = 0; t < 3; t++)
        bytes[t] = gx_tenant(&c.x, t).bytes[0];
    assert_in_range(bytes[0], 7500000, 8100000); /* the others may leave it no time */
    assert_true(bytes[2] >= bytes[1] * 29 / 10 && bytes[2] <= bytes[1] * 31 / 10);
    cap_close(&c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_caps_every_rate_and_size),
        cmocka_unit_test(test_gimbal_caps_sizes_mixed),
        cmocka_unit_test(test_gimbal_caps_reads_and_writes_take_turns),
        cmocka_unit_test(test_gimbal_caps_after_silence),
        cmocka_unit_test(test_gimbal_caps_changed_any_number_of_times),
        cmocka_unit_test(test_gimbal_caps_raised_for_a_moment_give_nothing),
        cmocka_unit_test(test_gimbal_caps_of_group),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
