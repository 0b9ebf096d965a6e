/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What happens over time: figure 9 (workers come and go), figure 18 (the latency threshold),
 * convergence after a change and after a stall of the device.
 */
#include "gimbal_figures.h"

#define MS 1000000u

/* ---- Figure 9: 8 readers; 8 writers come one by one, then the readers go one by one ---- */

#define FIG9_PHASES 17u
#define FIG9_SAMPLES 20u /* of a phase */

static void figure_9_spec(struct sim_spec *s, const struct fig_who *who)
{
    uint64_t phase = (uint64_t)(1e9 * fig_time_scale());
    fig_spec(s, who, SNIC_SSD_FRAGMENTED);
    fig_group(s, 0, 8, SNIC_GIMBAL_READ, 4 * KIB);
    fig_group(s, 1, 8, SNIC_GIMBAL_WRITE, 4 * KIB);
    s->warm_ns = 0;
    s->time_ns = FIG9_PHASES * phase;
    s->sample_ns = phase / FIG9_SAMPLES;
    s->group[0].rate = 200000000;
    s->group[0].stop_ns = 10 * phase;
    s->group[0].stop_step_ns = phase;
    s->group[1].rate = 60000000;
    s->group[1].start_ns = phase;
    s->group[1].start_step_ns = phase;
}

/* Workers of a group that are there in a phase: readers leave after phase 9, writers join from 1.
 */
static uint32_t figure_9_workers(uint32_t group, uint32_t phase)
{
    if (group == 1)
        return phase < 8 ? phase : 8;
    return phase < 10 ? 8 : 8 - (phase - 9);
}

/* The mean of a phase's later part, in which the change at its beginning is over. */
static double figure_9_phase(const struct sim_sample *samples, uint32_t phase, uint32_t what,
                             uint32_t group)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t i = FIG9_SAMPLES / 2; i < FIG9_SAMPLES; i++, n++) {
        const struct sim_sample *s = &samples[phase * FIG9_SAMPLES + i];
        sum += what == 0 ? s->mbps[group] : what == 1 ? s->device_us[group] : s->write_cost;
    }
    return sum / n;
}

static void figure_9_row(const struct sim_spec *s, const char *who, uint32_t phase, uint32_t what,
                         uint32_t group)
{
    static const char *const name[3][2] = {{"reader_bandwidth", "writer_bandwidth"},
                                           {"read_latency", "write_latency"},
                                           {"write_cost", "write_cost"}};
    static const char *const unit[3] = {"MB/s", "us", "x"};
    double v[FIG_SEEDS_MAX];
    char label[64];
    uint32_t workers = figure_9_workers(group, phase);
    if (workers == 0)
        return;
    for (uint32_t i = 0; i < fig_seeds(); i++)
        v[i] = figure_9_phase(fig_samples(s, i), phase, what, group) / (what == 0 ? workers : 1);
    fig_name(label, sizeof(label), "fig9:%ur_%uw_%s", figure_9_workers(0, phase),
             figure_9_workers(1, phase), name[what][group]);
    fig_row(label, who, v, unit[what]);
}

static void figure_9_series(const struct sim_spec *s, const char *who)
{
    static const char *const name[2] = {"read", "write"};
    const struct sim_sample *samples = fig_samples(s, 0);
    uint32_t n = fig_results(s)[0].samples;
    for (uint32_t i = 0; i < n; i++) {
        double at = (double)(i + 1) / FIG9_SAMPLES;
        uint32_t phase = i / FIG9_SAMPLES;
        for (uint32_t g = 0; g < 2; g++) {
            char label[64];
            uint32_t workers = figure_9_workers(g, phase);
            fig_name(label, sizeof(label), "fig9:%s_worker", name[g]);
            fig_point(label, who, at, workers > 0 ? samples[i].mbps[g] / (float)workers : 0.0,
                      "MB/s");
            fig_name(label, sizeof(label), "fig9:%s_latency", name[g]);
            fig_point(label, who, at, samples[i].device_us[g], "us");
        }
        if (s->ops == &sched_gimbal)
            fig_point("fig9:write_cost", who, at, samples[i].write_cost, "x");
    }
}

void fig_9(void)
{
    static const uint32_t who[2] = {FIG_OURS, FIG_REFLEX};
    for (uint32_t w = 0; w < SNIC_COUNTOF(who); w++) {
        struct sim_spec s;
        const char *name = fig_who[who[w]].name;
        figure_9_spec(&s, &fig_who[who[w]]);
        (void)fig_results(&s);
        for (uint32_t phase = 0; phase < FIG9_PHASES; phase++)
            for (uint32_t g = 0; g < 2; g++) {
                figure_9_row(&s, name, phase, 0, g);
                figure_9_row(&s, name, phase, 1, g);
                if (who[w] == FIG_OURS && g == 1)
                    figure_9_row(&s, name, phase, 2, g);
            }
        figure_9_series(&s, name);
    }
    fig_value("fig9:8r_1w_write_latency", "paper", 70, "us");
    fig_value("fig9:8r_1w_read_latency", "paper", 1000, "us");
    fig_value("fig9:8r_1w_write_cost", "paper", 1, "x");
    fig_value("fig9:8r_2w_over_8r_1w_write_latency", "paper", 10, "x_or_more");
}

/* ---- Figure 18: the threshold follows the latency (128 KiB reads, clean device) ---- */

void fig_18(void)
{
    static const uint32_t outstanding[4] = {4, 8, 16, 32};
    for (uint32_t k = 0; k < SNIC_COUNTOF(outstanding); k++) {
        struct sim_spec s;
        double v[4][FIG_SEEDS_MAX];
        char name[64];
        uint32_t n = outstanding[k];
        fig_spec(&s, &fig_who[FIG_OURS], SNIC_SSD_CLEAN);
        fig_group(&s, 0, n, SNIC_GIMBAL_READ, 128 * KIB);
        s.group[0].depth = 1;
        s.sample_ns = MS / 4;
        s.sample_from_ns = s.warm_ns;
        const struct sim_result *r = fig_results(&s);
        for (uint32_t i = 0; i < fig_seeds(); i++) {
            const struct sim_sample *samples = fig_samples(&s, i);
            v[0][i] = v[1][i] = 0;
            for (uint32_t j = 0; j < r[i].samples; j++) {
                v[0][i] += samples[j].ewma_us[0] / (double)r[i].samples;
                v[1][i] += samples[j].thresh_us[0] / (double)r[i].samples;
            }
            v[2][i] = r[i].congested;
            v[3][i] = r[i].overloaded;
        }
        fig_name(name, sizeof(name), "fig18:qd%u_ewma", n);
        fig_row(name, "ours", v[0], "us");
        fig_name(name, sizeof(name), "fig18:qd%u_threshold", n);
        fig_row(name, "ours", v[1], "us");
        fig_name(name, sizeof(name), "fig18:qd%u_congested", n);
        fig_row(name, "ours", v[2], "1/s");
        fig_name(name, sizeof(name), "fig18:qd%u_overloaded", n);
        fig_row(name, "ours", v[3], "1/s");
        for (uint32_t j = 0; j < r[0].samples && j < 200; j++) { /* 50 ms */
            const struct sim_sample *p = &fig_samples(&s, 0)[j];
            fig_name(name, sizeof(name), "fig18:qd%u_ewma", n);
            fig_point(name, "ours", (j + 1) * 0.25, p->ewma_us[0], "us");
            fig_name(name, sizeof(name), "fig18:qd%u_threshold", n);
            fig_point(name, "ours", (j + 1) * 0.25, p->thresh_us[0], "us");
        }
    }
}

/* ---- Convergence ---- */

#define CONVERGE_SAMPLE_MS 10u
#define CONVERGE_WINDOW 10u

/* A change at `from` and the time until it must have settled, both in samples. */
struct converge_change {
    const char *name;
    uint32_t from;
    uint32_t until;
    uint32_t groups; /* which groups' bandwidths count, bits */
    double share;    /* of the final mean that counts as there, on either side */
};

static double converge_mean(const struct sim_sample *s, uint32_t from, uint32_t until, uint32_t g)
{
    double sum = 0;
    for (uint32_t i = from; i < until; i++)
        sum += s[i].mbps[g];
    return until > from ? sum / (until - from) : 0;
}

/* From the change to the end of the last window of 100 ms that lies off the final mean. */
static double converge_time(const struct sim_sample *s, const struct converge_change *c)
{
    uint32_t last = c->from;
    uint32_t final = c->until - (c->until - c->from) / 3;
    for (uint32_t g = 0; g < SIM_GROUPS; g++) {
        if ((c->groups >> g & 1) == 0)
            continue;
        double mean = converge_mean(s, final, c->until, g);
        for (uint32_t i = c->from; i + CONVERGE_WINDOW <= final; i++) {
            double now = converge_mean(s, i, i + CONVERGE_WINDOW, g);
            int off = now < mean * c->share || now > mean / c->share;
            if (off && i + CONVERGE_WINDOW > last)
                last = i + CONVERGE_WINDOW;
        }
    }
    return (last - c->from) * CONVERGE_SAMPLE_MS / 1e3;
}

static void converge_rows(const struct sim_spec *s, const struct converge_change *changes,
                          uint32_t count)
{
    (void)fig_results(s);
    for (uint32_t k = 0; k < count; k++) {
        double v[FIG_SEEDS_MAX];
        double worst = 0;
        char name[64];
        for (uint32_t i = 0; i < fig_seeds(); i++) {
            v[i] = converge_time(fig_samples(s, i), &changes[k]);
            worst = v[i] > worst ? v[i] : worst;
        }
        fig_name(name, sizeof(name), "convergence:%s", changes[k].name);
        fig_row(name, "ours", v, "s");
        fig_name(name, sizeof(name), "convergence_%s_worst_seed", changes[k].name);
        fig_goal(name, worst, 1, 0, "s");
    }
}

void fig_convergence(void)
{
    static const struct converge_change mixed[3] = {
        {"start_of_16_readers", 0, 200, 1, 0.9},
        {"16_writers_join", 200, 500, 3, 0.75},
        {"16_writers_leave", 500, 700, 1, 0.9},
    };
    static const struct {
        const char *name;
        uint64_t ns;
    } stalls[2] = {{"after_stall_of_100ms", 100u * MS}, {"after_stall_of_2s", 2000ull * MS}};
    struct sim_spec s;
    fig_spec(&s, &fig_who[FIG_OURS], SNIC_SSD_FRAGMENTED);
    fig_group(&s, 0, 16, SNIC_GIMBAL_READ, 4 * KIB);
    fig_group(&s, 1, 16, SNIC_GIMBAL_WRITE, 4 * KIB);
    s.warm_ns = 0;
    s.time_ns = 7000ull * MS;
    s.sample_ns = CONVERGE_SAMPLE_MS * MS;
    s.group[1].start_ns = 2000ull * MS;
    s.group[1].stop_ns = 5000ull * MS;
    converge_rows(&s, mixed, 3);
    for (uint32_t k = 0; k < 2; k++) {
        struct converge_change c = {.name = stalls[k].name, .groups = 1, .share = 0.9};
        fig_spec(&s, &fig_who[FIG_OURS], SNIC_SSD_FRAGMENTED);
        fig_group(&s, 0, 16, SNIC_GIMBAL_READ, 4 * KIB);
        s.warm_ns = 0;
        s.sample_ns = CONVERGE_SAMPLE_MS * MS;
        s.stall_ns = 2000ull * MS;
        s.stall_for_ns = stalls[k].ns;
        c.from = (uint32_t)((s.stall_ns + s.stall_for_ns) / s.sample_ns);
        c.until = c.from + 200;
        s.time_ns = c.until * s.sample_ns + MS;
        converge_rows(&s, &c, 1);
    }
}
