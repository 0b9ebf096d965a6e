/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The storage switch by example: virtual slots and credit, the target rate through congestion, the
 * write cost. Compared with tests/golden/gimbal_*.txt.
 */
#include "golden.h"
#include "test_gimbal_util.h"

#define TRACE_IOS 64
#define US UINT64_C(1000)

struct trace {
    struct golden *g;
    struct gx x;
    struct snic_gimbal_io io[TRACE_IOS]; /* I/O n is io[n] */
    unsigned submitted;
};

static const char *const trace_op[] = {"read", "write"};
static const char *const trace_state[] = {"underutilised", "avoidance", "congested", "overloaded"};

static void trace_time(struct trace *t, uint64_t ns)
{
    t->x.now += ns;
}

static unsigned trace_number(const struct trace *t, const struct snic_gimbal_io *io)
{
    return (unsigned)(io - t->io);
}

/* Milliseconds since the beginning, for the left column. */
static double trace_ms(const struct trace *t)
{
    return (double)(t->x.now - 1000) / 1e6;
}

static void trace_submit(struct trace *t, uint32_t tenant, uint8_t op, uint32_t size)
{
    unsigned n = ++t->submitted;
    assert_true(n < TRACE_IOS);
    golden_line(t->g, "%7.3f ms  tenant %u submits I/O %u: %s of %u KiB", trace_ms(t), tenant, n,
                trace_op[op], size / KIB);
    gx_submit(&t->x, &t->io[n], tenant, op, size);
}

/* Starts what has a slot, each when there are tokens for it: microseconds at the rate used here. */
static void trace_poll(struct trace *t)
{
    for (;;) {
        struct snic_gimbal_io *io = snic_gimbal_poll(t->x.g, t->x.now);
        uint64_t deadline = snic_gimbal_deadline_ns(t->x.g);
        if (io != NULL)
            golden_line(t->g, "%7.3f ms  start I/O %u, which costs %u KiB", trace_ms(t),
                        trace_number(t, io), io->weighted / KIB);
        else if (deadline - t->x.now < 50 * US)
            t->x.now = deadline;
        else
            return;
    }
}

/* The same, as time passes, until I/O @p n has started. */
static void trace_poll_until(struct trace *t, unsigned n)
{
    for (;;) {
        struct snic_gimbal_io *io = snic_gimbal_poll(t->x.g, t->x.now);
        if (io == NULL) {
            t->x.now = snic_gimbal_deadline_ns(t->x.g);
            continue;
        }
        golden_line(t->g, "%7.3f ms  start I/O %u, which costs %u KiB", trace_ms(t),
                    trace_number(t, io), io->weighted / KIB);
        if (trace_number(t, io) == n)
            return;
    }
}

static void trace_complete(struct trace *t, unsigned n)
{
    struct snic_gimbal_io *io = &t->io[n];
    uint64_t us = (t->x.now - io->sent_ns) / US;
    snic_gimbal_complete(t->x.g, io, SNIC_GIMBAL_DONE, t->x.now);
    golden_line(t->g, "%7.3f ms  I/O %u completes after %u us; credit of tenant %u: %u",
                trace_ms(t), n, (unsigned)us, io->tenant, io->credit);
    assert_int_equal(snic_gimbal_check(t->x.g), 0);
}

static void trace_tenant(struct trace *t, uint32_t tenant)
{
    struct snic_gimbal_tenant_view v = gx_tenant(&t->x, tenant);
    golden_line(t->g, "                tenant %u: %u in flight, %u queued%s; %u slots per weight",
                tenant, v.inflight, v.queued, v.deferred ? ", no free slot" : "",
                gx_view(&t->x).slots);
}

static void trace_rate(struct trace *t, uint32_t op)
{
    struct snic_gimbal_view v = gx_view(&t->x);
    golden_line(t->g,
                "                %ss %s: average %u us, threshold %u us; target rate %u.%u MB/s",
                trace_op[op], trace_state[v.state[op]], (unsigned)(v.ewma_ns[op] / US),
                (unsigned)(v.thresh_ns[op] / US), (unsigned)(v.target_rate / 1000000),
                (unsigned)(v.target_rate / 100000 % 10));
}

static void trace_open(struct trace *t, const char *name, const char *title,
                       const struct snic_gimbal_opts *o)
{
    memset(t, 0, sizeof(*t));
    t->g = golden_begin(name);
    golden_note(t->g, title);
    golden_note(t->g, "Lines with a time are events, the others what the switch does or shows. "
                      "Written by tests/gimbal/test_gimbal_golden.c, see "
                      "include/snicstore/gimbal.h.");
    gx_open(&t->x, o);
}

static void trace_close(struct trace *t)
{
    gx_close(&t->x);
    golden_end(t->g);
}

/* ---- The traces ---- */

static void test_gimbal_golden_slots(void **state)
{
    const struct snic_gimbal_opts o = {
        .slot_threshold = 2, .rate_start = UINT64_C(8000000000), .flags = SNIC_GIMBAL_SLOT_BARRIER};
    struct trace t;
    (void)state;
    trace_open(&t, "gimbal_slots", "Virtual slots and credit.", &o);
    gx_tenants(&t.x, 2);
    golden_note(
        t.g,
        "A lone tenant has 2 virtual slots of 128 KiB here (slot_threshold; 8 by default). Two "
        "I/Os of 64 KiB fill a slot; the fifth I/O has to wait. (With SNIC_GIMBAL_SLOT_BARRIER, as "
        "in the paper. Without it slots overlap while all tenants read small pieces.)");
    for (unsigned i = 0; i < 5; i++)
        trace_submit(&t, 0, SNIC_GIMBAL_READ, 64 * KIB);
    trace_poll(&t);
    trace_tenant(&t, 0);
    golden_note(t.g, "A slot is free when all of its I/Os have completed, not one of them.");
    trace_time(&t, 100 * US);
    trace_complete(&t, 1);
    trace_poll(&t);
    trace_tenant(&t, 0);
    trace_time(&t, 20 * US);
    trace_complete(&t, 2);
    trace_poll(&t);
    trace_tenant(&t, 0);
    golden_note(t.g, "Credit is how many I/Os the client may have outstanding: the slots of the "
                     "tenant times the I/Os of the slot that completed last. It begins high and "
                     "falls by an eighth with each slot, so that a client of small I/Os can begin "
                     "at once. The client receives it with each completion.");
    trace_time(&t, 20 * US);
    trace_complete(&t, 3);
    trace_complete(&t, 4);
    trace_complete(&t, 5);
    golden_note(t.g, "A second tenant becomes active: each has one slot now. Its small I/Os share "
                     "it; one of 128 KiB has a slot of its own.");
    trace_submit(&t, 1, SNIC_GIMBAL_READ, 4 * KIB);
    trace_submit(&t, 0, SNIC_GIMBAL_READ, 128 * KIB);
    trace_submit(&t, 0, SNIC_GIMBAL_READ, 128 * KIB);
    trace_submit(&t, 1, SNIC_GIMBAL_READ, 4 * KIB);
    trace_poll(&t);
    trace_tenant(&t, 0);
    trace_tenant(&t, 1);
    trace_time(&t, 150 * US);
    trace_complete(&t, 7);
    trace_poll(&t);
    trace_time(&t, 150 * US);
    trace_complete(&t, 6);
    trace_complete(&t, 8);
    trace_complete(&t, 9);
    trace_close(&t);
}

/* Reads one after the other, each of which takes @p us. */
static void trace_reads(struct trace *t, const uint32_t *us, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        trace_submit(t, 0, SNIC_GIMBAL_READ, 128 * KIB);
        trace_poll_until(t, t->submitted);
        trace_time(t, us[i] * US);
        trace_complete(t, t->submitted);
        trace_rate(t, SNIC_GIMBAL_READ);
    }
}

static void test_gimbal_golden_congestion(void **state)
{
    const struct snic_gimbal_opts o = {.rate_start = UINT64_C(800000000)};
    static const uint32_t fast[] = {100, 100, 100};
    static const uint32_t slower[] = {500, 500, 500};
    static const uint32_t rising[] = {1200, 1400};
    static const uint32_t slow[] = {4000, 4000};
    static const uint32_t again[] = {100, 100, 100, 100, 100, 100};
    struct trace t;
    (void)state;
    trace_open(&t, "gimbal_congestion", "The target rate through congestion.", &o);
    gx_tenants(&t.x, 1);
    golden_note(
        t.g,
        "Each completion moves the average of the latencies of its type (weight 1/2). Below "
        "thresh_min (250 us) the device is underutilised: the rate grows by 8 times the size of "
        "the I/O. The threshold follows the average down, so that a sudden rise is noticed soon.");
    trace_rate(&t, SNIC_GIMBAL_READ);
    trace_reads(&t, fast, 3);
    golden_note(
        t.g,
        "The first read of 500 us is above the threshold: congested. The rate falls by the size, "
        "and the threshold rises half-way to thresh_max (1500 us). Then the average is between "
        "thresh_min and the threshold: congestion avoidance, in which the rate grows by the size.");
    trace_reads(&t, slower, 3);
    golden_note(
        t.g,
        "Latency rises further, and each time the average crosses the threshold the rate falls.");
    trace_reads(&t, rising, 2);
    golden_note(
        t.g, "Above thresh_max: overloaded. The rate falls at once to what the device has "
             "completed in the last window of 10 ms, less the size, and the next I/O waits for its "
             "tokens. (At I/O 9 the first window is not over: the rate falls by the size only.)");
    trace_reads(&t, slow, 2);
    golden_note(t.g, "The device recovers, and the rate grows again.");
    trace_reads(&t, again, 6);
    trace_close(&t);
}

/* A write, which takes @p us, then the rest of the period; the cost as of then. */
static void trace_write(struct trace *t, uint32_t us)
{
    trace_submit(t, 0, SNIC_GIMBAL_WRITE, 64 * KIB);
    trace_poll_until(t, t->submitted);
    trace_time(t, us * US);
    trace_complete(t, t->submitted);
    trace_time(t, 20 * MS);
}

static void test_gimbal_golden_write_cost(void **state)
{
    struct trace t;
    (void)state;
    trace_open(&t, "gimbal_write_cost", "The write cost.", NULL);
    gx_tenants(&t.x, 1);
    golden_note(t.g, "A write is assumed to cost 9 times its size. While writes are fast, below "
                     "thresh_min, their cost falls by 0.5 in each period of 20 ms, down to 1: the "
                     "device's cache takes them.");
    for (unsigned i = 0; i < 4; i++)
        trace_write(&t, 50);
    golden_note(t.g, "Slow writes: the cost rises half-way to the worst with each period. A read "
                     "costs its size whatever writes cost.");
    for (unsigned i = 0; i < 3; i++)
        trace_write(&t, 900);
    trace_submit(&t, 0, SNIC_GIMBAL_READ, 64 * KIB);
    trace_poll_until(&t, t.submitted);
    trace_time(&t, 100 * US);
    trace_complete(&t, t.submitted);
    trace_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_golden_slots),
        cmocka_unit_test(test_gimbal_golden_congestion),
        cmocka_unit_test(test_gimbal_golden_write_cost),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
