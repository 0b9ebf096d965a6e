/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A small tenant beside sixteen large ones, in simulated time on the SSD model: where the switch
 * has to serve it more often than FIFO does. Sixteen tenants that ask for the same scarce thing, in
 * larger pieces or with more of them outstanding, must not crowd it out.
 *
 * These are not all rows. A tenant with one or eight I/Os outstanding that asks for what no other
 * lacks (a read beside writers, a write into the device's buffer beside readers) is slower under
 * the switch than under FIFO, in which the device's own parallelism serves it; such rows are
 * printed and not judged.
 */
#include "gimbal_sim.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

struct row {
    uint32_t condition; /* enum snic_ssd_condition */
    uint32_t op, depth; /* of the small tenant: 4 KiB */
    uint32_t their_op, their_size, their_depth;
    int judged;
};

enum { RD = SNIC_GIMBAL_READ, WR = SNIC_GIMBAL_WRITE };
enum { CLEAN = SNIC_SSD_CLEAN, AGED = SNIC_SSD_FRAGMENTED };

static const struct row rows[] = {
    {CLEAN, RD, 1, RD, 131072, 4, 1}, {CLEAN, RD, 8, RD, 131072, 4, 1},
    {AGED, RD, 8, RD, 131072, 4, 1},  {CLEAN, WR, 1, WR, 131072, 4, 1},
    {CLEAN, WR, 8, WR, 131072, 4, 1}, {AGED, WR, 1, WR, 131072, 4, 1},
    {AGED, WR, 8, WR, 131072, 4, 1},  {AGED, WR, 1, WR, 4096, 32, 1},
    {AGED, WR, 8, WR, 4096, 32, 1},   {AGED, RD, 1, WR, 131072, 4, 0},
    {CLEAN, RD, 1, WR, 4096, 32, 0},  {CLEAN, WR, 1, RD, 131072, 4, 0},
    {CLEAN, RD, 1, RD, 4096, 32, 0},
};

static double served(const struct row *r, const struct sched_ops *ops)
{
    struct sim_result out;
    struct sim_spec s;

    memset(&s, 0, sizeof(s));
    s.ops = ops;
    s.device = SIM_DCT983;
    s.condition = r->condition;
    s.group[0] = (struct sim_group){.workers = 1, .op = r->op, .size = 4096, .depth = r->depth};
    s.group[1] = (struct sim_group){
        .workers = 16, .op = r->their_op, .size = r->their_size, .depth = r->their_depth};
    s.warm_ns = 200000000;
    s.time_ns = 500000000;
    s.seed = support_seed();
    sim_run(&s, &out, NULL);
    return out.group[0].iops;
}

static void test_gimbal_victims_get_what_fifo_gives(void **state)
{
    static const char *const op[] = {"reads", "writes"};
    (void)state;

    for (uint32_t i = 0; i < SNIC_COUNTOF(rows); i++) {
        const struct row *r = &rows[i];
        double fifo = served(r, &sched_fifo), ours = served(r, &sched_gimbal);

        printf("  %s, %u 4 KiB %s beside %s of %u: FIFO %.0f/s, switch %.0f/s%s\n",
               r->condition == CLEAN ? "clean     " : "fragmented", r->depth, op[r->op],
               op[r->their_op], r->their_size, fifo, ours, r->judged ? "" : " (not judged)");
        if (r->judged)
            assert_true(ours >= 1.5 * fifo); /* it is 2.3 to 7 times */
    }
}

/* A reader of one small piece at a time is as quick as without a switch beside sixteen writers of
 * large ones, that are held for want of tokens most of the time: with a tag and without. */
static void test_gimbal_quiet_reader_beside_writers(void **state)
{
    (void)state;
    double mean[3], p99[3];
    for (uint32_t k = 0; k < 3; k++) {
        struct sim_result out;
        struct sim_spec s;
        memset(&s, 0, sizeof(s));
        s.ops = k == 0 ? &sched_fifo : &sched_gimbal;
        s.device = SIM_DCT983;
        s.condition = AGED;
        s.group[0] = (struct sim_group){.workers = 1, .op = RD, .size = 4096, .depth = 1};
        s.group[0].priority = k == 2 ? SNIC_GIMBAL_EXPRESS : 0;
        s.group[1] = (struct sim_group){
            .workers = 16, .op = WR, .size = 131072, .depth = 4, .sequential = 1};
        s.warm_ns = 600000000;
        s.time_ns = 3000000000;
        s.seed = support_seed();
        sim_run(&s, &out, NULL);
        mean[k] = out.group[0].mean_us;
        p99[k] = out.group[0].p99_us;
    }
    printf("  a quiet reader: FIFO %.0f us, p99 %.0f; switch %.0f and %.0f; tagged %.0f and %.0f\n",
           mean[0], p99[0], mean[1], p99[1], mean[2], p99[2]);
    for (uint32_t k = 1; k < 3; k++) {
        assert_true(mean[k] <= 1.1 * mean[0]);
        assert_true(p99[k] <= 1.25 * p99[0]);
    }
}

/* However many read large pieces, the device is busy. */
static void test_gimbal_few_readers_fill_the_device(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 9; n++) {
        double mbps[2];
        for (uint32_t k = 0; k < 2; k++) {
            struct sim_result out;
            struct sim_spec s;
            memset(&s, 0, sizeof(s));
            s.ops = k == 0 ? &sched_fifo : &sched_gimbal;
            s.device = SIM_DCT983;
            s.group[0] = (struct sim_group){.workers = n, .op = RD, .size = 131072, .depth = 8};
            s.warm_ns = 600000000;
            s.time_ns = 300000000;
            s.seed = support_seed();
            sim_run(&s, &out, NULL);
            mbps[k] = out.mbps;
        }
        printf("  %u readers: FIFO %.0f MB/s, switch %.0f\n", n, mbps[0], mbps[1]);
        assert_true(mbps[1] >= 0.99 * mbps[0]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_victims_get_what_fifo_gives),
        cmocka_unit_test(test_gimbal_quiet_reader_beside_writers),
        cmocka_unit_test(test_gimbal_few_readers_fill_the_device),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
