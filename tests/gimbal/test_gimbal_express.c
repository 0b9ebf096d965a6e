/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Flows and the express lane: what a tenant's own writes, a held write and turns may not do to its
 * small reads, and what bounds that favour.
 */
#include "gimbal/gimbal_priv.h"
#include "test_gimbal_util.h"

enum { RD = SNIC_GIMBAL_READ, WR = SNIC_GIMBAL_WRITE };

static struct snic_gimbal_io many[512];

/* Two tenants; @io[1], a large write of tenant 1, is held for tokens, for some milliseconds. */
static void held_open(struct gx *x, struct snic_gimbal_io *io, uint32_t flags)
{
    struct snic_gimbal_opts o = {.groups_max = 1,
                                 .flags = flags,
                                 .rate_start = 50000000,
                                 .rate_max = 50000000,
                                 .lost_ns = 1000 * SEC};
    gx_open(x, &o);
    gx_tenants(x, 2);
    x->now += 100 * MS; /* the buckets are full */
    for (int i = 0; i < 3; i++)
        gx_submit(x, &io[i], 1, WR, 256 * KIB);
    assert_ptr_equal(snic_gimbal_poll(x->g, x->now), &io[0]);
    assert_null(snic_gimbal_poll(x->g, x->now));
    assert_ptr_equal(x->g->held, &io[1]);
    assert_int_equal(snic_gimbal_check(x->g), 0);
}

static void held_close(struct gx *x, struct snic_gimbal_io *io)
{
    struct snic_gimbal_io *next;
    snic_gimbal_complete(x->g, &io[0], 1, x->now);
    while ((next = gx_next(x)) != NULL)
        snic_gimbal_complete(x->g, next, 1, x->now);
    gx_close(x);
}

/* A small read by its tag, or as its tenant's only I/O, passes a held write at once; a large one, a
 * second one without a tag and a write do not. */
static void test_gimbal_express_passes_held_write(void **state)
{
    (void)state;
    static const struct {
        uint32_t flags;
        uint32_t ios;
        uint8_t priority;
        uint8_t op;
        uint32_t size;
        uint32_t leave;
    } cases[] = {{0, 1, 0, RD, 4096, 1},
                 {0, 1, 0, RD, 16384, 1},
                 {0, 1, 0, RD, 16385, 0},
                 {0, 1, 7, RD, 16385, 0},
                 {0, 2, 0, RD, 4096, 0},
                 {0, 2, 5, RD, 4096, 0},
                 {0, 2, 6, RD, 4096, 2},
                 {0, 8, 7, RD, 2048, 8},
                 {0, 9, 7, RD, 512, 0},
                 {0, 1, 7, WR, 4096, 0},
                 {0, 8, 7, RD, 4096, 7 /* each costs half: it counts as sent, too */},
                 {SNIC_GIMBAL_NO_EXPRESS, 1, 7, RD, 4096, 0}};
    for (size_t k = 0; k < SNIC_COUNTOF(cases); k++) {
        struct snic_gimbal_io large[3];
        uint32_t out = 0;
        struct gx x;
        held_open(&x, large, cases[k].flags);
        for (uint32_t i = 0; i < cases[k].ios; i++) {
            gx_fill(&many[i], 0, cases[k].op, cases[k].size);
            many[i].priority = cases[k].priority;
            assert_int_equal(snic_gimbal_submit(x.g, &many[i], x.now), 0);
        }
        while (snic_gimbal_poll(x.g, x.now) != NULL)
            out++;
        assert_int_equal(out, cases[k].leave);
        assert_ptr_equal(x.g->held, &large[1]);
        assert_int_equal(snic_gimbal_check(x.g), 0);
        for (uint32_t i = 0; i < cases[k].ios; i++) {
            if (many[i].state == GIMBAL_IO_QUEUED)
                assert_int_equal(snic_gimbal_cancel(x.g, &many[i], x.now), 0);
            else
                snic_gimbal_complete(x.g, &many[i], 1, x.now);
        }
        held_close(&x, large);
    }
}

/* What the tenant has on the device counts, that of a group's tenant, too: the ninth read waits for
 * its turn. */
static void test_gimbal_express_counts_reads_on_device(void **state)
{
    (void)state;
    for (uint32_t group = 0; group < 2; group++) {
        struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to), .group = group};
        struct snic_gimbal_io large[3];
        struct gx x;
        held_open(&x, large, 0);
        assert_int_equal(snic_gimbal_group_add(x.g, 1, NULL), 0);
        assert_int_equal(snic_gimbal_tenant_set(x.g, 0, &to), 0);
        for (uint32_t i = 0; i <= SNIC_GIMBAL_EXPRESS_DEPTH; i++) {
            gx_fill(&many[i], 0, RD, 512);
            many[i].priority = 7;
            assert_int_equal(snic_gimbal_submit(x.g, &many[i], x.now), 0);
            assert_ptr_equal(snic_gimbal_poll(x.g, x.now),
                             i < SNIC_GIMBAL_EXPRESS_DEPTH ? &many[i] : NULL);
            assert_int_equal(snic_gimbal_check(x.g), 0);
        }
        assert_int_equal(snic_gimbal_cancel(x.g, &many[SNIC_GIMBAL_EXPRESS_DEPTH], x.now), 0);
        for (uint32_t i = 0; i < SNIC_GIMBAL_EXPRESS_DEPTH; i++)
            snic_gimbal_complete(x.g, &many[i], 1, x.now);
        held_close(&x, large);
    }
}

/* Reads one at a time beside a held write: a quantum of them, then they wait for their turn. What
 * is sent meanwhile repays. */
static void test_gimbal_express_debt_bounded_and_repaid(void **state)
{
    (void)state;
    struct snic_gimbal_io large[3], io;
    uint32_t out = 0;
    struct gx x;
    held_open(&x, large, 0);
    uint64_t before = x.now;
    for (;; out++) {
        gx_submit(&x, &io, 0, RD, 4096);
        if (snic_gimbal_poll(x.g, x.now) == NULL)
            break;
        x.now += 1000;
        snic_gimbal_complete(x.g, &io, 1, x.now);
        assert_int_equal(snic_gimbal_check(x.g), 0);
    }
    assert_true(x.now - before < 2 * MS);
    /* 32, and half of what they themselves were, a weight of two being active. */
    assert_true(out >= 62 && out <= 64);
    assert_int_equal(snic_gimbal_cancel(x.g, &io, x.now), 0);
    assert_ptr_equal(gx_next(&x), &large[1]); /* half of nine times its size is a lot */
    gx_submit(&x, &io, 0, RD, 4096);
    assert_ptr_equal(snic_gimbal_poll(x.g, x.now), &io);
    assert_true(x.g->tenants[0].flow[RD].debt <= 4096); /* by the lane, or by its turn */
    snic_gimbal_complete(x.g, &io, 1, x.now);
    snic_gimbal_complete(x.g, &large[1], 1, x.now);
    held_close(&x, large);
}

/* Where both lack read tokens, a held read that needs fewer does not take them first, time and
 * again; when it is its turn it has them at once. */
static void test_gimbal_express_before_held_read(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.rate_start = 50000000, .rate_max = 50000000};
    struct snic_gimbal_io large, small[2], io;
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 2);
    x.now += 100 * MS;
    gx_submit(&x, &large, 1, RD, 256 * KIB); /* all tokens */
    assert_ptr_equal(snic_gimbal_poll(x.g, x.now), &large);
    gx_submit(&x, &small[0], 1, RD, 512);
    gx_submit(&x, &small[1], 1, RD, 512);
    assert_null(snic_gimbal_poll(x.g, x.now));
    assert_ptr_equal(x.g->held, &small[0]);
    gx_submit(&x, &io, 0, RD, 16 * KIB);
    assert_null(snic_gimbal_poll(x.g, x.now));
    assert_int_equal(snic_gimbal_check(x.g), 0);
    assert_ptr_equal(gx_next(&x), &io);
    assert_ptr_equal(gx_next(&x), &small[0]);
    assert_ptr_equal(gx_next(&x), &small[1]);
    snic_gimbal_complete(x.g, &large, 1, x.now);
    snic_gimbal_complete(x.g, &io, 1, x.now);
    snic_gimbal_complete(x.g, &small[0], 1, x.now);
    snic_gimbal_complete(x.g, &small[1], 1, x.now);
    gx_close(&x);
}

/* The lane has no way around a tenant's caps. */
static void test_gimbal_express_keeps_caps(void **state)
{
    (void)state;
    struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to), .ios_per_second = 10};
    struct gx x;
    gx_open(&x, NULL);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 0, &to), 0);
    for (uint32_t i = 0; i < 5; i++) {
        uint64_t before = x.now;
        gx_fill(&many[0], 0, RD, 4096);
        many[0].priority = 7;
        assert_int_equal(snic_gimbal_submit(x.g, &many[0], x.now), 0);
        assert_ptr_equal(gx_next(&x), &many[0]);
        if (i > 1)
            assert_true(x.now - before >= 90 * MS);
        snic_gimbal_complete(x.g, &many[0], 1, x.now);
    }
    gx_close(&x);
}

/* A tenant's writes fill their own slot; its reads have one, too. */
static void test_gimbal_flow_writes_leave_reads_their_slot(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.flags = SNIC_GIMBAL_NO_EXPRESS, .rate_start = SEC};
    uint32_t out[2] = {0, 0};
    struct snic_gimbal_io *io;
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 9);
    for (uint32_t i = 0; i < 40; i++) /* all active: one slot each */
        gx_submit(&x, &many[i], i % 9, WR, 128 * KIB);
    for (uint32_t i = 40; i < 240; i++)
        gx_submit(&x, &many[i], i % 9, RD, 4 * KIB);
    while ((io = gx_next(&x)) != NULL)
        out[io->op]++;
    assert_int_equal(out[WR], 9);
    assert_int_equal(out[RD], 200);
    assert_int_equal(snic_gimbal_check(x.g), 0);
    for (uint32_t i = 0; i < 240; i++) {
        if (many[i].state == GIMBAL_IO_QUEUED)
            assert_int_equal(snic_gimbal_cancel(x.g, &many[i], x.now), 0);
        else
            snic_gimbal_complete(x.g, &many[i], 1, x.now);
    }
    gx_close(&x);
}

/* One that reads and writes gets, in what I/Os cost, no more than one that only reads. */
static void test_gimbal_flows_split_one_quantum(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {
        .rate_start = 500000000, .rate_min = 500000000, .rate_max = 500000000};
    struct sim s;
    sim_open(&s, &o);
    gx_tenants(&s.x, 3);
    s.latency_ns = 300000; /* writes stay at their highest cost */
    sim_client(&s, 0, RD, 16 * KIB, 256, 4 * SEC);
    sim_client(&s, 1, RD, 16 * KIB, 256, 4 * SEC);
    sim_client(&s, 2, RD, 16 * KIB, 256, 4 * SEC);
    sim_client(&s, 2, WR, 16 * KIB, 64, 4 * SEC);
    sim_run(&s, 2 * SEC);
    double cost[3] = {0};
    for (uint32_t t = 0; t < 3; t++) {
        struct snic_gimbal_tenant_view v = gx_tenant(&s.x, t);
        cost[t] = (double)v.bytes[RD] + 9.0 * (double)v.bytes[WR];
    }
    assert_int_equal(gx_view(&s.x).write_cost, 9 * SNIC_GIMBAL_COST_ONE);
    assert_true(cost[0] > 0.98 * cost[1] && cost[0] < 1.02 * cost[1]);
    assert_true(cost[2] > 0.95 * cost[1] && cost[2] < 1.05 * cost[1]);
    sim_close(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_express_passes_held_write),
        cmocka_unit_test(test_gimbal_express_counts_reads_on_device),
        cmocka_unit_test(test_gimbal_express_debt_bounded_and_repaid),
        cmocka_unit_test(test_gimbal_express_before_held_read),
        cmocka_unit_test(test_gimbal_express_keeps_caps),
        cmocka_unit_test(test_gimbal_flow_writes_leave_reads_their_slot),
        cmocka_unit_test(test_gimbal_flows_split_one_quantum),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
