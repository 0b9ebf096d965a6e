/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Figures 6, 7 and 8, the second device of section 5.8, other fits, and the goals drawn from them.
 *
 * Definitions, as the paper's section 5.1 has them or its numbers imply: depth 4 for 128 KiB and
 * 32 for 4 KiB; 128 KiB writes are sequential, everything else random; standalone maximum: 16
 * workers of the kind without a scheduler on a device in the same condition; f-Util: a worker's
 * bandwidth over the standalone maximum divided by the number of workers; deviation:
 * |f-Util - 1|; difference of two f-Utils: larger over smaller, minus 1; latency: from the
 * client's sending to its receipt of the completion.
 */
#include "gimbal_figures.h"

const struct fig_cell fig_cells[FIG_CELLS] = {
    {"C-R", SNIC_SSD_CLEAN, SNIC_GIMBAL_READ, 128 * KIB},
    {"C-W", SNIC_SSD_CLEAN, SNIC_GIMBAL_WRITE, 128 * KIB},
    {"F-R", SNIC_SSD_FRAGMENTED, SNIC_GIMBAL_READ, 4 * KIB},
    {"F-W", SNIC_SSD_FRAGMENTED, SNIC_GIMBAL_WRITE, 4 * KIB},
};
const char *const fig_condition[2] = {"clean", "frag"};
const char *const fig_op[2] = {"read", "write"};
const char *const fig_size[2] = {"4K", "128K"};

/* ---- Scenarios ---- */

void fig_alone(struct sim_spec *s, const struct fig_who *who, const struct fig_cell *c)
{
    fig_spec(s, who, c->condition);
    fig_short(s);
    fig_group(s, 0, 16, c->op, c->size);
}

double fig_standalone(uint32_t device, uint32_t condition, uint32_t op, uint32_t size)
{
    struct sim_spec s;
    double v[FIG_SEEDS_MAX];
    const struct fig_cell c = {.condition = condition, .op = op, .size = size};
    fig_alone(&s, &fig_who[FIG_FIFO], &c);
    s.device = device;
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++)
        v[i] = r[i].mbps;
    return fig_mean(v);
}

void fig_mixed(struct sim_spec *s, const struct fig_who *who, uint32_t condition)
{
    uint32_t size = condition == SNIC_SSD_CLEAN ? 128 * KIB : 4 * KIB;
    fig_spec(s, who, condition);
    fig_group(s, 0, 16, SNIC_GIMBAL_READ, size);
    fig_group(s, 1, 16, SNIC_GIMBAL_WRITE, size);
    if (condition == SNIC_SSD_FRAGMENTED) { /* what a write costs wanders for seconds */
        s->warm_ns = 1000000000u;
        s->time_ns *= 3;
    }
}

void fig_mixed_futil(const struct sim_spec *s, const struct sim_result *r, double futil[2])
{
    for (uint32_t g = 0; g < 2; g++) {
        double alone = fig_standalone(s->device, s->condition, s->group[g].op, s->group[g].size);
        futil[g] = alone > 0 ? r->group[g].mbps * 2 / alone : 0;
    }
}

double fig_difference(const double futil[2])
{
    double least = futil[0] < futil[1] ? futil[0] : futil[1];
    double most = futil[0] < futil[1] ? futil[1] : futil[0];
    return least > 0 ? (most / least - 1) * 100 : 0;
}

void fig_sizes(struct sim_spec *s, const struct fig_who *who)
{
    fig_spec(s, who, SNIC_SSD_CLEAN);
    fig_group(s, 0, 16, SNIC_GIMBAL_READ, 4 * KIB);
    fig_group(s, 1, 4, SNIC_GIMBAL_READ, 128 * KIB);
}

void fig_sizes_deviation(const struct sim_result *r, double futil[2], double deviation[2])
{
    static const uint32_t size[2] = {4 * KIB, 128 * KIB};
    static const uint32_t workers[2] = {16, 4};
    for (uint32_t g = 0; g < 2; g++) {
        double alone = fig_standalone(0, SNIC_SSD_CLEAN, SNIC_GIMBAL_READ, size[g]);
        double worker = r->group[g].mbps / workers[g];
        futil[g] = alone > 0 ? worker / (alone / 20) : 0;
        deviation[g] = futil[g] > 1 ? futil[g] - 1 : 1 - futil[g];
    }
}

/* ---- Figure 6: utilisation ---- */

void fig_6(void)
{
    for (uint32_t c = 0; c < FIG_CELLS; c++) {
        double best = 0;
        for (uint32_t w = 0; w < FIG_WHO; w++) {
            struct sim_spec s;
            double mbps[FIG_SEEDS_MAX];
            double us[FIG_SEEDS_MAX];
            char name[64];
            fig_alone(&s, &fig_who[w], &fig_cells[c]);
            const struct sim_result *r = fig_results(&s);
            for (uint32_t i = 0; i < fig_seeds(); i++) {
                mbps[i] = r[i].mbps;
                us[i] = r[i].group[0].mean_us;
            }
            fig_name(name, sizeof(name), "fig6:%s_bandwidth", fig_cells[c].name);
            fig_row(name, fig_who[w].name, mbps, "MB/s");
            if (w == FIG_OURS)
                best = fig_mean(mbps);
            else
                fig_ratio(name, fig_who[w].name, fig_mean(mbps) > 0 ? best / fig_mean(mbps) : 0);
            fig_name(name, sizeof(name), "fig6:%s_latency", fig_cells[c].name);
            fig_row(name, fig_who[w].name, us, "us");
        }
    }
    fig_value("fig6:C-R_bandwidth_over_reflex", "paper", 2.4, "x");
    fig_value("fig6:C-W_bandwidth_over_reflex", "paper", 6.6, "x");
    fig_value("fig6:F-R_bandwidth_over_parda", "paper", 2.6, "x");
    fig_value("fig6:F-W_latency_over_parda", "paper", 3.4, "x");
    fig_value("fig6:F-W_latency_below_others", "paper", 9, "x");
}

/* ---- Figure 7: fairness ---- */

static void figure_7_sizes(void)
{
    double ours[2] = {0, 0};
    for (uint32_t w = 0; w < FIG_WHO; w++) {
        struct sim_spec s;
        double v[3][2][FIG_SEEDS_MAX]; /* a worker's bandwidth, f-Util, deviation */
        fig_sizes(&s, &fig_who[w]);
        const struct sim_result *r = fig_results(&s);
        for (uint32_t i = 0; i < fig_seeds(); i++) {
            double futil[2];
            double deviation[2];
            fig_sizes_deviation(&r[i], futil, deviation);
            for (uint32_t g = 0; g < 2; g++) {
                v[0][g][i] = r[i].group[g].mbps / s.group[g].workers;
                v[1][g][i] = futil[g];
                v[2][g][i] = deviation[g];
            }
        }
        for (uint32_t g = 0; g < 2; g++) {
            char name[64];
            fig_name(name, sizeof(name), "fig7a:%s_worker_bandwidth", fig_size[g]);
            fig_row(name, fig_who[w].name, v[0][g], "MB/s");
            fig_name(name, sizeof(name), "fig7d:%s_futil", fig_size[g]);
            fig_row(name, fig_who[w].name, v[1][g], "1");
            fig_name(name, sizeof(name), "fig7d:%s_deviation", fig_size[g]);
            fig_row(name, fig_who[w].name, v[2][g], "1");
            double deviation = fig_mean(v[2][g]);
            if (w == FIG_OURS)
                ours[g] = deviation;
            else
                fig_ratio(name, fig_who[w].name, ours[g] > 0 ? deviation / ours[g] : 0);
        }
    }
    fig_value("fig7a:128K_bandwidth_over_4K", "paper", 1.22, "x");
}

static void figure_7_types(uint32_t condition)
{
    double ours = 0;
    for (uint32_t w = 0; w < FIG_WHO; w++) {
        struct sim_spec s;
        double v[2][2][FIG_SEEDS_MAX]; /* bandwidth of all, f-Util */
        double difference[FIG_SEEDS_MAX];
        char name[64];
        fig_mixed(&s, &fig_who[w], condition);
        const struct sim_result *r = fig_results(&s);
        for (uint32_t i = 0; i < fig_seeds(); i++) {
            double futil[2];
            fig_mixed_futil(&s, &r[i], futil);
            difference[i] = fig_difference(futil);
            for (uint32_t g = 0; g < 2; g++) {
                v[0][g][i] = r[i].group[g].mbps;
                v[1][g][i] = futil[g];
            }
        }
        for (uint32_t g = 0; g < 2; g++) {
            fig_name(name, sizeof(name), "fig7%c:%s_%s_bandwidth",
                     condition == SNIC_SSD_CLEAN ? 'b' : 'c', fig_condition[condition], fig_op[g]);
            fig_row(name, fig_who[w].name, v[0][g], "MB/s");
            fig_name(name, sizeof(name), "fig7%c:%s_%s_futil",
                     condition == SNIC_SSD_CLEAN ? 'e' : 'f', fig_condition[condition], fig_op[g]);
            fig_row(name, fig_who[w].name, v[1][g], "1");
        }
        fig_name(name, sizeof(name), "fig7%c:%s_difference",
                 condition == SNIC_SSD_CLEAN ? 'e' : 'f', fig_condition[condition]);
        fig_row(name, fig_who[w].name, difference, "%");
        if (w == FIG_OURS)
            ours = fig_mean(difference);
        else
            fig_ratio(name, fig_who[w].name, ours > 0 ? fig_mean(difference) / ours : 0);
    }
}

void fig_7(void)
{
    figure_7_sizes();
    figure_7_types(SNIC_SSD_CLEAN);
    fig_value("fig7e:clean_difference", "paper", 13.8, "%");
    fig_value("fig7e:clean_difference_reflex_over_gimbal", "paper", 12.8, "x");
    fig_value("fig7e:clean_difference_flashfq_over_gimbal", "paper", 10.4, "x");
    fig_value("fig7e:clean_difference_parda_over_gimbal", "paper", 7.5, "x");
    figure_7_types(SNIC_SSD_FRAGMENTED);
    fig_value("fig7f:frag_difference", "paper", 3.8, "%");
    fig_value("fig7f:frag_difference_reflex_over_gimbal", "paper", 4.2, "x");
    fig_value("fig7f:frag_difference_flashfq_over_gimbal", "paper", 184.2, "x");
    fig_value("fig7f:frag_difference_parda_over_gimbal", "paper", 330.2, "x");
}

/* ---- Figure 8: latency ---- */

void fig_8(void)
{
    static const char *const what[3] = {"average", "p99", "p99.9"};
    for (uint32_t condition = 0; condition < 2; condition++)
        for (uint32_t g = 0; g < 2; g++)
            for (uint32_t w = 0; w < FIG_WHO; w++) {
                struct sim_spec s;
                double v[3][FIG_SEEDS_MAX];
                fig_mixed(&s, &fig_who[w], condition);
                const struct sim_result *r = fig_results(&s);
                for (uint32_t i = 0; i < fig_seeds(); i++) {
                    v[0][i] = r[i].group[g].mean_us;
                    v[1][i] = r[i].group[g].p99_us;
                    v[2][i] = r[i].group[g].p999_us;
                }
                for (uint32_t k = 0; k < 3; k++) {
                    char name[64];
                    fig_name(name, sizeof(name), "fig8:%s_%s_%s", fig_condition[condition],
                             fig_op[g], what[k]);
                    fig_row(name, fig_who[w].name, v[k], "us");
                }
            }
    fig_value("fig8:clean_read_p99_below_parda", "paper", 48.6, "%");
    fig_value("fig8:clean_write_p99_below_parda", "paper", 57.1, "%");
    fig_value("fig8:frag_read_p99_below_parda", "paper", 57.5, "%");
    fig_value("fig8:frag_write_p99_below_parda", "paper", 62.6, "%");
}

/* ---- The second device: thresh_max 3 ms, nothing else changed ---- */

void fig_device2(void)
{
    static const double paper[2][2] = {{0.63, 0.72}, {0.58, 0.90}};
    for (uint32_t condition = 0; condition < 2; condition++) {
        struct sim_spec s;
        double v[2][FIG_SEEDS_MAX];
        fig_mixed(&s, &fig_who[FIG_OURS], condition);
        s.device = SIM_P3600;
        s.gimbal.thresh_max_ns = 3000000;
        const struct sim_result *r = fig_results(&s);
        for (uint32_t i = 0; i < fig_seeds(); i++) {
            double futil[2];
            fig_mixed_futil(&s, &r[i], futil);
            v[0][i] = futil[0];
            v[1][i] = futil[1];
        }
        for (uint32_t g = 0; g < 2; g++) {
            char name[64];
            fig_name(name, sizeof(name), "device2:%s_%s_standalone", fig_condition[condition],
                     fig_op[g]);
            fig_value(name, "fifo",
                      fig_standalone(SIM_P3600, condition, s.group[g].op, s.group[g].size), "MB/s");
            fig_name(name, sizeof(name), "device2:%s_%s_futil", fig_condition[condition],
                     fig_op[g]);
            fig_row(name, "ours", v[g], "1");
            fig_value(name, "paper", paper[condition][g], "1");
        }
    }
}

/* ---- The mixture on the other fits of the first device: how much is owed to the fit ---- */

void fig_other_fits(void)
{
    static const uint32_t who[] = {FIG_OURS, FIG_FIFO, FIG_PARDA};
    for (uint32_t device = SIM_FIT_A; device <= SIM_FIT_C; device++) {
        for (uint32_t w = 0; w < SNIC_COUNTOF(who); w++) {
            struct sim_spec s;
            double difference[FIG_SEEDS_MAX];
            double p99[FIG_SEEDS_MAX];
            char name[64];
            fig_mixed(&s, &fig_who[who[w]], SNIC_SSD_FRAGMENTED);
            s.device = device;
            s.time_ns /= 2;
            const struct sim_result *r = fig_results(&s);
            for (uint32_t i = 0; i < fig_seeds(); i++) {
                double futil[2];
                fig_mixed_futil(&s, &r[i], futil);
                difference[i] = fig_difference(futil);
                p99[i] = r[i].group[0].p99_us;
            }
            char fit = (char)('A' + (device - SIM_FIT_A));
            fig_name(name, sizeof(name), "other_fits:%c_frag_difference", fit);
            fig_row(name, fig_who[who[w]].name, difference, "%");
            fig_name(name, sizeof(name), "other_fits:%c_frag_read_p99", fit);
            fig_row(name, fig_who[who[w]].name, p99, "us");
        }
    }
}

/* ---- Goals ---- */

static double goals_alone(uint32_t who, uint32_t cell)
{
    struct sim_spec s;
    double v[FIG_SEEDS_MAX];
    fig_alone(&s, &fig_who[who], &fig_cells[cell]);
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++)
        v[i] = r[i].mbps;
    return fig_mean(v);
}

static double goals_deviation(uint32_t who, uint32_t group)
{
    struct sim_spec s;
    double v[FIG_SEEDS_MAX];
    fig_sizes(&s, &fig_who[who]);
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++) {
        double futil[2];
        double deviation[2];
        fig_sizes_deviation(&r[i], futil, deviation);
        v[i] = deviation[group];
    }
    return fig_mean(v);
}

static double goals_difference(uint32_t condition)
{
    struct sim_spec s;
    double v[FIG_SEEDS_MAX];
    fig_mixed(&s, &fig_who[FIG_OURS], condition);
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++) {
        double futil[2];
        fig_mixed_futil(&s, &r[i], futil);
        v[i] = fig_difference(futil);
    }
    return fig_mean(v);
}

static double goals_p99(uint32_t who, uint32_t condition, uint32_t group)
{
    struct sim_spec s;
    double v[FIG_SEEDS_MAX];
    fig_mixed(&s, &fig_who[who], condition);
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++)
        v[i] = r[i].group[group].p99_us;
    return fig_mean(v);
}

static double goals_below(uint32_t who, uint32_t condition, uint32_t group)
{
    double theirs = goals_p99(who, condition, group);
    double ours = goals_p99(FIG_OURS, condition, group);
    return theirs > 0 ? (1 - ours / theirs) * 100 : 0;
}

static double goals_over(double a, double b)
{
    return b > 0 ? a / b : 0;
}

void fig_goals(void)
{
    static const double deviation[2][3] = {{1.9, 4.1, 7.1}, {2.1, 8.7, 6.4}};
    static const uint32_t peer[3] = {FIG_REFLEX, FIG_FLASHFQ, FIG_PARDA};
    fig_goal("utilisation_C-R_over_reflex",
             goals_over(goals_alone(FIG_OURS, 0), goals_alone(FIG_REFLEX, 0)), 2.4, 1, "x");
    fig_goal("utilisation_C-W_over_reflex",
             goals_over(goals_alone(FIG_OURS, 1), goals_alone(FIG_REFLEX, 1)), 6.6, 1, "x");
    fig_goal("utilisation_F-R_over_parda",
             goals_over(goals_alone(FIG_OURS, 2), goals_alone(FIG_PARDA, 2)), 2.6, 1, "x");
    for (uint32_t g = 2; g-- > 0;)
        for (uint32_t p = 0; p < 3; p++) {
            char name[64];
            fig_name(name, sizeof(name), "deviation_%s_below_%s", fig_size[g],
                     fig_who[peer[p]].name);
            fig_goal(name, goals_over(goals_deviation(peer[p], g), goals_deviation(FIG_OURS, g)),
                     deviation[g][p], 1, "x");
        }
    fig_goal("difference_clean", goals_difference(SNIC_SSD_CLEAN), 13.8, 0, "%");
    fig_goal("difference_frag", goals_difference(SNIC_SSD_FRAGMENTED), 3.8, 0, "%");
    fig_goal("p99_frag_read_below_parda", goals_below(FIG_PARDA, SNIC_SSD_FRAGMENTED, 0), 57, 1,
             "%");
    fig_goal("p99_clean_read_below_parda-n", goals_below(FIG_PARDA_N, SNIC_SSD_CLEAN, 0), 25, 1,
             "%");
    fig_goal("p99_clean_write_below_parda-n", goals_below(FIG_PARDA_N, SNIC_SSD_CLEAN, 1), 25, 1,
             "%");
    fig_value("p99_clean_read_below_parda", "ours", goals_below(FIG_PARDA, SNIC_SSD_CLEAN, 0), "%");
    fig_value("p99_clean_write_below_parda", "ours", goals_below(FIG_PARDA, SNIC_SSD_CLEAN, 1),
              "%");
    fig_value("p99_frag_read_below_parda-n", "ours",
              goals_below(FIG_PARDA_N, SNIC_SSD_FRAGMENTED, 0), "%");
    fig_value("p99_frag_write_below_parda", "ours", goals_below(FIG_PARDA, SNIC_SSD_FRAGMENTED, 1),
              "%");
}
