/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The quiet beside the loud, few tenants, and equal throughput: where a switch must cost nothing.
 *
 *   quiet   one tenant of 4 KiB reads, one at a time, beside sixteen of 128 KiB writes on the
 *           fragmented device; with and without a priority of the express lane. What the express
 *           lane is worth to a tenant that saturates: eight with such a priority beside eight
 *           without.
 *   few     3, 5, 6 and 7 tenants of 128 KiB reads.
 *   equal   p99 beside PARDA while each client issues at a rate that both schedulers carry.
 */
#include "gimbal_figures.h"

#define EXPRESS 7 /* a priority of the express lane */

enum { MEAN, P99, P999, KINDS };

static double quiet_run(const struct fig_who *who, uint32_t priority, uint32_t kind, double *v)
{
    struct sim_spec s;
    fig_spec(&s, who, SNIC_SSD_FRAGMENTED);
    s.time_ns *= 4; /* a quiet tenant has few I/Os */
    fig_group(&s, 0, 1, SNIC_GIMBAL_READ, 4 * KIB);
    s.group[0].depth = 1;
    s.group[0].priority = priority;
    fig_group(&s, 1, 16, SNIC_GIMBAL_WRITE, 128 * KIB);
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++) {
        const struct sim_group_result *g = &r[i].group[0];
        v[i] = kind == MEAN ? g->mean_us : kind == P99 ? g->p99_us : g->p999_us;
    }
    return fig_mean(v);
}

static double quiet_writers(const struct fig_who *who, double *v)
{
    struct sim_spec s;
    fig_spec(&s, who, SNIC_SSD_FRAGMENTED);
    s.time_ns *= 4;
    fig_group(&s, 0, 1, SNIC_GIMBAL_READ, 4 * KIB);
    s.group[0].depth = 1;
    fig_group(&s, 1, 16, SNIC_GIMBAL_WRITE, 128 * KIB);
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++)
        v[i] = r[i].group[1].mbps;
    return fig_mean(v);
}

/* What those of the express lane get over what the others get. */
static void quiet_saturating(uint32_t condition, uint32_t writers)
{
    struct sim_spec s;
    double v[FIG_SEEDS_MAX];
    char name[64];
    fig_spec(&s, &fig_who[FIG_OURS], condition);
    fig_group(&s, 0, 8, SNIC_GIMBAL_READ, 4 * KIB);
    s.group[0].priority = EXPRESS;
    fig_group(&s, 1, 8, SNIC_GIMBAL_READ, 4 * KIB);
    if (writers > 0)
        fig_group(&s, 2, writers, SNIC_GIMBAL_WRITE, 4 * KIB);
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++)
        v[i] = r[i].group[1].mbps > 0 ? (r[i].group[0].mbps / r[i].group[1].mbps - 1) * 100 : 0;
    fig_name(name, sizeof(name), "quiet:%s_express_gain_beside_%u_writers",
             fig_condition[condition], writers);
    fig_row(name, "ours", v, "%");
    fig_name(name, sizeof(name), "quiet_%s_express_gain_beside_%u_writers",
             fig_condition[condition], writers);
    fig_goal(name, fig_mean(v), 5, 0, "%");
}

void fig_quiet(void)
{
    static const char *const kinds[KINDS] = {"mean", "p99", "p99.9"};
    static const uint32_t priorities[2] = {0, EXPRESS};
    double v[FIG_SEEDS_MAX];
    for (uint32_t k = 0; k < KINDS; k++) {
        char name[64];
        fig_name(name, sizeof(name), "quiet:frag_read_%s", kinds[k]);
        double fifo = quiet_run(&fig_who[FIG_FIFO], 0, k, v);
        fig_row(name, "fifo", v, "us");
        for (uint32_t p = 0; p < 2; p++) {
            double ours = quiet_run(&fig_who[FIG_OURS], priorities[p], k, v);
            fig_row(name, p == 0 ? "ours" : "ours_express", v, "us");
            if (k == P999)
                continue;
            fig_name(name, sizeof(name), "quiet_frag_read_%s%s_of_fifo", p == 0 ? "" : "express_",
                     kinds[k]);
            fig_goal(name, fifo > 0 ? ours / fifo : 0, 1.05, 0, "x");
            fig_name(name, sizeof(name), "quiet:frag_read_%s", kinds[k]);
        }
    }
    double theirs = quiet_writers(&fig_who[FIG_FIFO], v);
    fig_row("quiet:frag_writers_bandwidth", "fifo", v, "MB/s");
    double ours = quiet_writers(&fig_who[FIG_OURS], v);
    fig_row("quiet:frag_writers_bandwidth", "ours", v, "MB/s");
    fig_value("quiet:frag_writers_of_fifo", "ours", theirs > 0 ? ours / theirs * 100 : 0, "%");
    quiet_saturating(SNIC_SSD_CLEAN, 0);
    quiet_saturating(SNIC_SSD_FRAGMENTED, 0);
    quiet_saturating(SNIC_SSD_FRAGMENTED, 8);
}

static double few_bandwidth(uint32_t who, uint32_t tenants, double *v)
{
    struct sim_spec s;
    fig_spec(&s, &fig_who[who], SNIC_SSD_CLEAN);
    fig_short(&s);
    fig_group(&s, 0, tenants, SNIC_GIMBAL_READ, 128 * KIB);
    s.group[0].depth = 8;
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++)
        v[i] = r[i].mbps;
    return fig_mean(v);
}

void fig_few(void)
{
    static const uint32_t tenants[] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (uint32_t k = 0; k < SNIC_COUNTOF(tenants); k++) {
        double v[FIG_SEEDS_MAX];
        char name[64];
        fig_name(name, sizeof(name), "few:%u_128K_readers_bandwidth", tenants[k]);
        double fifo = few_bandwidth(FIG_FIFO, tenants[k], v);
        fig_row(name, "fifo", v, "MB/s");
        double ours = few_bandwidth(FIG_OURS, tenants[k], v);
        fig_row(name, "ours", v, "MB/s");
        fig_name(name, sizeof(name), "few_%u_128K_readers_of_fifo", tenants[k]);
        fig_goal(name, fifo > 0 ? ours / fifo * 100 : 0, 99, 1, "%");
    }
}

static double equal_run(uint32_t who, uint32_t condition, uint32_t group, double *v, double *mbps)
{
    /* MB/s that all readers, all writers issue: less than either scheduler carries. */
    static const uint32_t rate[2][2] = {{1500, 500}, {120, 60}};
    struct sim_spec s;
    double got[FIG_SEEDS_MAX];
    fig_mixed(&s, &fig_who[who], condition);
    for (uint32_t g = 0; g < 2; g++) {
        s.group[g].rate = (uint64_t)rate[condition][g] * 1000000 / 16;
        s.group[g].random_gaps = 1;
    }
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++) {
        v[i] = r[i].group[group].p99_us;
        got[i] = r[i].group[group].mbps;
    }
    *mbps = fig_mean(got);
    return fig_mean(v);
}

void fig_equal(void)
{
    static const uint32_t who[] = {FIG_FIFO, FIG_PARDA, FIG_PARDA_N, FIG_OURS};
    for (uint32_t condition = 0; condition < 2; condition++)
        for (uint32_t g = 0; g < 2; g++) {
            double p99[SNIC_COUNTOF(who)];
            char name[64];
            for (uint32_t w = 0; w < SNIC_COUNTOF(who); w++) {
                double v[FIG_SEEDS_MAX];
                double mbps;
                p99[w] = equal_run(who[w], condition, g, v, &mbps);
                fig_name(name, sizeof(name), "equal:%s_%s_p99", fig_condition[condition],
                         fig_op[g]);
                fig_row(name, fig_who[who[w]].name, v, "us");
                fig_name(name, sizeof(name), "equal:%s_%s_bandwidth", fig_condition[condition],
                         fig_op[g]);
                fig_value(name, fig_who[who[w]].name, mbps, "MB/s");
            }
            fig_name(name, sizeof(name), "equal_%s_%s_p99_of_parda", fig_condition[condition],
                     fig_op[g]);
            fig_goal(name, p99[1] > 0 ? p99[3] / p99[1] : 0, 1, 0, "x");
        }
}
