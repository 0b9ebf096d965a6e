/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The rows of quiet, few and equal share, and the application, on the way from clean to fragmented:
 * the SSD model's AGEING condition, filled in order and overwritten at random by part of its pages
 * (SNIC_SSD_AGEING, snic_ssd_precondition()); three times all of them is the steady state. The
 * switch has its defaults.
 */
#include "gimbal_figures.h"
#include "gimbal_lsm.h"

static const uint32_t ageing_points[] = {0, 10, 25, 50, 100, 300}; /* percent overwritten */

static void ageing_spec(struct sim_spec *s, uint32_t who, uint32_t point)
{
    fig_spec(s, &fig_who[who], SNIC_SSD_AGEING);
    s->age_before = point;
}

static void ageing_goal(const char *what, uint32_t point, double got, double want, int at_least,
                        const char *unit)
{
    char name[96];
    fig_name(name, sizeof(name), "ageing_%u_%s", point, what);
    fig_goal(name, got, want, at_least, unit);
}

/* One 4 KiB reader, one I/O at a time, beside 16 writers of 128 KiB: mean, or p99. */
static double ageing_quiet_run(uint32_t who, uint32_t point, int p99)
{
    struct sim_spec s;
    double v[FIG_SEEDS_MAX];
    char name[96];
    ageing_spec(&s, who, point);
    s.time_ns *= 2;
    fig_group(&s, 0, 1, SNIC_GIMBAL_READ, 4 * KIB);
    s.group[0].depth = 1;
    fig_group(&s, 1, 16, SNIC_GIMBAL_WRITE, 128 * KIB);
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++)
        v[i] = p99 ? r[i].group[0].p99_us : r[i].group[0].mean_us;
    fig_name(name, sizeof(name), "ageing:%u_quiet_read_%s", point, p99 ? "p99" : "mean");
    fig_row(name, fig_who[who].name, v, "us");
    return fig_mean(v);
}

static void ageing_quiet(uint32_t point)
{
    for (int p99 = 0; p99 < 2; p99++) {
        double fifo = ageing_quiet_run(FIG_FIFO, point, p99);
        double ours = ageing_quiet_run(FIG_OURS, point, p99);
        ageing_goal(p99 ? "quiet_read_p99_of_fifo" : "quiet_read_mean_of_fifo", point,
                    fifo > 0 ? ours / fifo : 0, 1.05, 0, "x");
    }
}

static double ageing_few_run(uint32_t who, uint32_t point, uint32_t tenants)
{
    struct sim_spec s;
    double v[FIG_SEEDS_MAX];
    char name[96];
    ageing_spec(&s, who, point);
    s.time_ns /= 4;
    fig_group(&s, 0, tenants, SNIC_GIMBAL_READ, 128 * KIB);
    s.group[0].depth = 8;
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++)
        v[i] = r[i].mbps;
    fig_name(name, sizeof(name), "ageing:%u_few_%u_bandwidth", point, tenants);
    fig_row(name, fig_who[who].name, v, "MB/s");
    return fig_mean(v);
}

static void ageing_few(uint32_t point)
{
    static const uint32_t tenants[] = {3, 5, 6, 7};
    for (uint32_t k = 0; k < SNIC_COUNTOF(tenants); k++) {
        char name[64];
        double fifo = ageing_few_run(FIG_FIFO, point, tenants[k]);
        double ours = ageing_few_run(FIG_OURS, point, tenants[k]);
        fig_name(name, sizeof(name), "few_%u_of_fifo", tenants[k]);
        ageing_goal(name, point, fifo > 0 ? ours / fifo * 100 : 0, 99, 1, "%");
    }
}

/* 16 of a kind alone without a scheduler. */
static double ageing_alone(uint32_t point, uint32_t op)
{
    struct sim_spec s;
    double v[FIG_SEEDS_MAX];
    ageing_spec(&s, FIG_FIFO, point);
    fig_short(&s);
    fig_group(&s, 0, 16, op, 4 * KIB);
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++)
        v[i] = r[i].mbps;
    return fig_mean(v);
}

/* 16 readers beside 16 writers of 4 KiB: figure 7c, with the paper's larger bound (clean's). */
static void ageing_equal(uint32_t point)
{
    struct sim_spec s;
    double difference[FIG_SEEDS_MAX];
    double futil[2][FIG_SEEDS_MAX];
    double alone[2] = {ageing_alone(point, SNIC_GIMBAL_READ),
                       ageing_alone(point, SNIC_GIMBAL_WRITE)};
    char name[96];
    fig_mixed(&s, &fig_who[FIG_OURS], SNIC_SSD_FRAGMENTED);
    s.condition = SNIC_SSD_AGEING;
    s.age_before = point;
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++) {
        double both[2];
        for (uint32_t g = 0; g < 2; g++) {
            both[g] = alone[g] > 0 ? r[i].group[g].mbps * 2 / alone[g] : 0;
            futil[g][i] = both[g];
        }
        difference[i] = fig_difference(both);
    }
    for (uint32_t g = 0; g < 2; g++) {
        fig_name(name, sizeof(name), "ageing:%u_%s_futil", point, fig_op[g]);
        fig_row(name, "ours", futil[g], "1");
    }
    fig_name(name, sizeof(name), "ageing:%u_difference", point);
    fig_row(name, "ours", difference, "%");
    ageing_goal("difference", point, fig_mean(difference), 13.8, 0, "%");
}

void fig_ageing(void)
{
    for (uint32_t k = 0; k < SNIC_COUNTOF(ageing_points); k++) {
        ageing_quiet(ageing_points[k]);
        ageing_few(ageing_points[k]);
        ageing_equal(ageing_points[k]);
    }
}

/* YCSB A and C, of figure 10's setting. */
void gimbal_lsm_ageing(uint32_t first)
{
    static const uint32_t points[] = {0, 50, 300};
    static const char workloads[] = "AC";
    for (uint32_t k = 0; k < SNIC_COUNTOF(points); k++)
        for (uint32_t w = 0; workloads[w] != 0; w++) {
            struct lsm_result r[2];
            char name[96];
            for (uint32_t who = 0; who < 2; who++) {
                struct lsm_spec s = {.ops = who == 0 ? &sched_gimbal : &sched_fifo,
                                     .flags = who == 0 ? LSM_CREDITS | LSM_TAGS | LSM_BALANCE : 0,
                                     .instances = LSM_INSTANCES_MAX,
                                     .backends = LSM_BACKENDS_MAX,
                                     .workload = workloads[w],
                                     .ageing = 1,
                                     .age_before = points[k],
                                     .warm_ns = 200000000u,
                                     .time_ns = 300000000u,
                                     .seed = first};
                lsm_run(&s, &r[who]);
                fig_name(name, sizeof(name), "ageing:%u_lsm_%c_throughput", points[k],
                         workloads[w]);
                fig_value(name, who == 0 ? "ours" : "fifo", r[who].kops, "kops/s");
                fig_name(name, sizeof(name), "ageing:%u_lsm_%c_read_p99", points[k], workloads[w]);
                fig_value(name, who == 0 ? "ours" : "fifo", r[who].p99_us, "us");
            }
            fig_name(name, sizeof(name), "lsm_%c_throughput_of_fifo", workloads[w]);
            ageing_goal(name, points[k], r[1].kops > 0 ? r[0].kops / r[1].kops : 0, 0.99, 1, "x");
        }
}
