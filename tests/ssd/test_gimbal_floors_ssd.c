/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Floors, caps and groups on the SSD model, in simulated time: what a tenant gets in each second,
 * by sliding windows, beside neighbours that take all they can.
 */
#include "gimbal_sim.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

enum { RD = SNIC_GIMBAL_READ, WR = SNIC_GIMBAL_WRITE };
enum { CLEAN = SNIC_SSD_CLEAN, AGED = SNIC_SSD_FRAGMENTED };

#define MB UINT64_C(1000000)
#define WINDOW 10 /* samples: one second */

static struct sim_sample samples[SIM_SAMPLES];

static void floor_spec(struct sim_spec *s, uint32_t condition)
{
    memset(s, 0, sizeof(*s));
    s->ops = &sched_gimbal;
    s->device = SIM_DCT983;
    s->condition = condition;
    s->warm_ns = 1000000000;
    s->time_ns = 3000000000;
    s->sample_ns = 100000000;
    s->sample_from_ns = s->warm_ns;
    s->seed = support_seed();
}

/* The least and the most that the group has in any window of a second, in MB/s. */
static void floor_windows(const struct sim_result *r, uint32_t group, double *least, double *most)
{
    double sum = 0;
    *least = 1e9;
    *most = 0;
    for (uint32_t i = 1; i < r->samples; i++) {
        sum += (double)samples[i].mbps[group];
        if (i > WINDOW)
            sum -= (double)samples[i - WINDOW].mbps[group];
        if (i < WINDOW)
            continue;
        *least = sum / WINDOW < *least ? sum / WINDOW : *least;
        *most = sum / WINDOW > *most ? sum / WINDOW : *most;
    }
}

struct floor_row {
    const char *what;
    uint32_t condition;
    uint32_t op, size, depth;
    uint64_t bytes, ios; /* the floor */
    uint32_t their_op, their_size, their_depth;
};

static const struct floor_row floor_rows[] = {
    {"4 KiB reads beside writers", AGED, RD, 4096, 32, 200 * MB, 0, WR, 131072, 4},
    {"4 KiB reads, by I/Os", AGED, RD, 4096, 32, 0, 40000, WR, 131072, 4},
    {"128 KiB reads beside writers", AGED, RD, 131072, 8, 500 * MB, 0, WR, 131072, 4},
    {"4 KiB writes beside writers", AGED, WR, 4096, 256, 30 * MB, 0, WR, 131072, 4},
    {"128 KiB writes beside writers", AGED, WR, 131072, 8, 60 * MB, 0, WR, 131072, 4},
    {"4 KiB reads beside readers", CLEAN, RD, 4096, 256, 400 * MB, 0, RD, 131072, 8},
    {"128 KiB reads beside readers", CLEAN, RD, 131072, 16, 1200 * MB, 0, RD, 131072, 8},
};

static void test_gimbal_floors_hold_in_every_second(void **state)
{
    (void)state;
    for (size_t k = 0; k < SNIC_COUNTOF(floor_rows); k++) {
        const struct floor_row *w = &floor_rows[k];
        double least[2];
        double most;
        struct sim_result r[2];
        for (int with = 0; with < 2; with++) {
            struct sim_spec s;
            floor_spec(&s, w->condition);
            s.group[0] =
                (struct sim_group){.workers = 1, .op = w->op, .size = w->size, .depth = w->depth};
            s.group[1] = (struct sim_group){
                .workers = 16, .op = w->their_op, .size = w->their_size, .depth = w->their_depth};
            if (with) {
                s.group[0].floor_bytes = w->bytes;
                s.group[0].floor_ios = w->ios;
            }
            sim_run(&s, &r[with], samples);
            floor_windows(&r[with], 0, &least[with], &most);
        }
        double want = w->bytes != 0 ? (double)w->bytes / 1e6 : (double)w->ios * w->size / 1e6;
        printf("  %s: floor %.0f MB/s, least in a second %.0f, without %.0f; others %.0f and %.0f; "
               "%.0f I/Os by the lane, part %.2f\n",
               w->what, want, least[1], least[0], r[1].group[1].mbps, r[0].group[1].mbps,
               r[1].floor_iops, r[1].floor_part);
        assert_true(least[1] >= 0.98 * want);
        assert_true(least[0] < 0.8 * want); /* or the row shows nothing */
    }
}

/* Two readers whose floors are twice what the device reads: the same part of each. */
static void test_gimbal_floors_cut_in_proportion_on_ssd(void **state)
{
    (void)state;
    struct sim_result r;
    struct sim_spec s;
    floor_spec(&s, CLEAN);
    s.warm_ns = 2000000000;
    s.group[0] = (struct sim_group){
        .workers = 1, .op = RD, .size = 131072, .depth = 32, .floor_bytes = 4000 * MB};
    s.group[1] = (struct sim_group){
        .workers = 1, .op = RD, .size = 131072, .depth = 32, .floor_bytes = 2000 * MB};
    s.group[2] = (struct sim_group){.workers = 8, .op = RD, .size = 131072, .depth = 4};
    sim_run(&s, &r, NULL);
    printf("  floors of 4000 and 2000 MB/s: %.0f and %.0f, the others %.0f; part %.2f\n",
           r.group[0].mbps, r.group[1].mbps, r.group[2].mbps, r.floor_part);
    double ratio = r.group[0].mbps / r.group[1].mbps;
    assert_true(ratio >= 1.8 && ratio <= 2.2);
    assert_true(r.mbps >= 3000 && r.group[2].mbps >= 300);
    assert_true(r.floor_part >= 0.3 && r.floor_part <= 0.6);
}

/* One small reader beside sixteen writers that have a floor: slower by no more than they are more.
 */
static void test_gimbal_floors_quiet_reader_beside_them(void **state)
{
    (void)state;
    double mean[2];
    for (int with = 0; with < 2; with++) {
        struct sim_result r;
        struct sim_spec s;
        floor_spec(&s, AGED);
        s.group[0] = (struct sim_group){.workers = 1, .op = RD, .size = 4096, .depth = 1};
        s.group[1] = (struct sim_group){.workers = 16, .op = WR, .size = 131072, .depth = 4};
        s.group[1].floor_bytes = with ? 8 * MB : 0;
        sim_run(&s, &r, NULL);
        mean[with] = r.group[0].mean_us;
        printf("  a quiet reader beside writers %s: %.0f us, p99 %.0f; they have %.0f MB/s\n",
               with ? "with floors" : "without", r.group[0].mean_us, r.group[0].p99_us,
               r.group[1].mbps);
    }
    assert_true(mean[1] <= 1.1 * mean[0]);
}

/* Caps of half of what a tenant has alone: to one percent or one I/O in every second. */
static void test_gimbal_caps_on_ssd(void **state)
{
    (void)state;
    static const struct {
        uint32_t condition, op, size;
        uint64_t cap;
    } rows[] = {{CLEAN, RD, 4096, 800 * MB},
                {CLEAN, RD, 131072, 1600 * MB},
                {CLEAN, WR, 131072, 600 * MB},
                {AGED, WR, 4096, 90 * MB}};
    for (size_t k = 0; k < SNIC_COUNTOF(rows); k++) {
        double least;
        double most;
        struct sim_result r;
        struct sim_spec s;
        floor_spec(&s, rows[k].condition);
        s.group[0] = (struct sim_group){.workers = 1,
                                        .op = rows[k].op,
                                        .size = rows[k].size,
                                        .depth = 256,
                                        .cap_bytes = rows[k].cap};
        sim_run(&s, &r, samples);
        floor_windows(&r, 0, &least, &most);
        double cap = (double)rows[k].cap / 1e6;
        printf("  a cap of %.0f MB/s: %.1f to %.1f in any second\n", cap, least, most);
        assert_true(least >= 0.985 * cap && most <= 1.015 * cap);
    }
}

/* Seven tenants of a group beside one alone: half for each. */
static void test_gimbal_groups_on_ssd(void **state)
{
    (void)state;
    static const struct {
        uint32_t condition, op, size;
    } rows[] = {{CLEAN, RD, 4096}, {CLEAN, RD, 131072}, {CLEAN, WR, 131072}, {AGED, WR, 4096}};
    for (size_t k = 0; k < SNIC_COUNTOF(rows); k++) {
        struct sim_result r;
        struct sim_spec s;
        floor_spec(&s, rows[k].condition);
        s.gimbal.groups_max = 1;
        for (uint32_t g = 0; g < 2; g++)
            s.group[g] = (struct sim_group){.workers = g == 0 ? 1 : 7,
                                            .op = rows[k].op,
                                            .size = rows[k].size,
                                            .depth = rows[k].size == 4096 ? 512 : 64,
                                            .in_group = g};
        sim_run(&s, &r, NULL);
        printf("  one %.0f MB/s, a group of seven %.0f, Jain %.3f\n", r.group[0].mbps,
               r.group[1].mbps, r.group[1].jain);
        assert_true(r.group[1].jain >= 0.98);
        assert_true(r.group[0].mbps >= 0.9 * r.group[1].mbps);
        assert_true(r.group[0].mbps <= 1.1 * r.group[1].mbps);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_floors_hold_in_every_second),
        cmocka_unit_test(test_gimbal_floors_cut_in_proportion_on_ssd),
        cmocka_unit_test(test_gimbal_floors_quiet_reader_beside_them),
        cmocka_unit_test(test_gimbal_caps_on_ssd),
        cmocka_unit_test(test_gimbal_groups_on_ssd),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
