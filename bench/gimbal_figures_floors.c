/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Floors, caps and groups: what a tenant gets in every second, by windows a tenth of a second
 * apart, beside neighbours that take all they can.
 *
 *   floors  one tenant beside sixteen of 128 KiB on the fragmented device; the least that it has in
 *           a second, in percent of its floor, with and without. Two floors that are twice what the
 *           device reads: how far their parts differ.
 *   caps    half of what a tenant has alone: the most that a second is off.
 *   groups  seven tenants of a group beside one alone: how far they are from halves.
 */
#include "gimbal_figures.h"

#define WINDOW 10 /* samples: one second */

static void floors_spec(struct sim_spec *s, uint32_t condition)
{
    fig_spec(s, &fig_who[FIG_OURS], condition);
    s->warm_ns = 1000000000u;
    s->time_ns = 3000000000u;
    s->sample_ns = 100000000u;
    s->sample_from_ns = s->warm_ns;
}

/* The least (-1) or the most (1) of a seed's windows, of the first group. */
static double floors_extreme(const struct sim_spec *s, uint32_t seed, uint32_t samples, int most)
{
    const struct sim_sample *sample = fig_samples(s, seed);
    double sum = 0;
    double found = -1;
    for (uint32_t i = 1; i < samples; i++) {
        sum += (double)sample[i].mbps[0];
        if (i > WINDOW)
            sum -= (double)sample[i - WINDOW].mbps[0];
        if (i >= WINDOW && (found < 0 || (sum / WINDOW > found) == most))
            found = sum / WINDOW;
    }
    return found > 0 ? found : 0;
}

static void floors_alone(void)
{
    static const struct {
        const char *name;
        uint32_t op, size, depth;
        uint64_t floor;
    } cases[] = {
        {"4K_reads", SNIC_GIMBAL_READ, 4 * KIB, 32, 200000000},
        {"128K_reads", SNIC_GIMBAL_READ, 128 * KIB, 8, 500000000},
        {"4K_writes", SNIC_GIMBAL_WRITE, 4 * KIB, 256, 30000000},
        {"128K_writes", SNIC_GIMBAL_WRITE, 128 * KIB, 8, 60000000},
    };
    for (uint32_t k = 0; k < SNIC_COUNTOF(cases); k++) {
        double v[2][FIG_SEEDS_MAX];
        double worst = 1e9;
        char name[64];
        for (int with = 0; with < 2; with++) {
            struct sim_spec s;
            floors_spec(&s, SNIC_SSD_FRAGMENTED);
            fig_group(&s, 0, 1, cases[k].op, cases[k].size);
            s.group[0].depth = cases[k].depth;
            s.group[0].floor_bytes = with ? cases[k].floor : 0;
            fig_group(&s, 1, 16, SNIC_GIMBAL_WRITE, 128 * KIB);
            const struct sim_result *r = fig_results(&s);
            for (uint32_t i = 0; i < fig_seeds(); i++)
                v[with][i] = floors_extreme(&s, i, r[i].samples, 0) * 1e8 / (double)cases[k].floor;
        }
        for (uint32_t i = 0; i < fig_seeds(); i++)
            worst = v[1][i] < worst ? v[1][i] : worst;
        fig_name(name, sizeof(name), "floors:%s_least_without", cases[k].name);
        fig_row(name, "ours", v[0], "%");
        fig_name(name, sizeof(name), "floors:%s_least", cases[k].name);
        fig_row(name, "ours", v[1], "%");
        fig_name(name, sizeof(name), "floors_%s_least_worst_seed", cases[k].name);
        fig_goal(name, worst, 98, 1, "%");
    }
}

static void floors_cut(void)
{
    struct sim_spec s;
    double v[2][FIG_SEEDS_MAX];
    floors_spec(&s, SNIC_SSD_CLEAN);
    s.warm_ns = 2000000000u;
    for (uint32_t g = 0; g < 2; g++) {
        fig_group(&s, g, 1, SNIC_GIMBAL_READ, 128 * KIB);
        s.group[g].depth = 32;
        s.group[g].floor_bytes = g == 0 ? 4000000000u : 2000000000u;
    }
    fig_group(&s, 2, 8, SNIC_GIMBAL_READ, 128 * KIB);
    const struct sim_result *r = fig_results(&s);
    for (uint32_t i = 0; i < fig_seeds(); i++) {
        double twice = 2 * r[i].group[1].mbps;
        double ratio = twice > 0 ? r[i].group[0].mbps / twice : 1;
        v[0][i] = (ratio > 1 ? ratio - 1 : 1 - ratio) * 100;
        v[1][i] = r[i].floor_part * 100;
    }
    fig_row("floors:cut_to", "ours", v[1], "%");
    fig_row("floors:cut_off_proportion_by", "ours", v[0], "%");
    fig_goal("floors_cut_off_proportion_by", fig_mean(v[0]), 10, 0, "%");
}

static void floors_caps(void)
{
    static const uint64_t caps[FIG_CELLS] = {800000000, 600000000, 800000000, 90000000};
    for (uint32_t k = 0; k < FIG_CELLS; k++) {
        const struct fig_cell *c = &fig_cells[k];
        struct sim_spec s;
        double v[FIG_SEEDS_MAX];
        char name[64];
        floors_spec(&s, c->condition);
        fig_group(&s, 0, 1, c->op, c->size);
        s.group[0].depth = 256;
        s.group[0].cap_bytes = caps[k];
        const struct sim_result *r = fig_results(&s);
        for (uint32_t i = 0; i < fig_seeds(); i++) {
            double cap = (double)caps[k] / 1e6;
            double less = cap - floors_extreme(&s, i, r[i].samples, 0);
            double more = floors_extreme(&s, i, r[i].samples, 1) - cap;
            v[i] = (less > more ? less : more) / cap * 100;
        }
        fig_name(name, sizeof(name), "caps:%s_second_off_by", c->name);
        fig_row(name, "ours", v, "%");
        fig_name(name, sizeof(name), "caps_%s_second_off_by", c->name);
        fig_goal(name, fig_mean(v), 1, 0, "%");
    }
}

static void floors_groups(void)
{
    for (uint32_t k = 0; k < FIG_CELLS; k++) {
        const struct fig_cell *c = &fig_cells[k];
        struct sim_spec s;
        double v[FIG_SEEDS_MAX];
        char name[64];
        floors_spec(&s, c->condition);
        s.sample_ns = 0;
        s.gimbal.groups_max = 1;
        for (uint32_t g = 0; g < 2; g++) {
            fig_group(&s, g, g == 0 ? 1 : 7, c->op, c->size);
            s.group[g].depth = c->size == 4 * KIB ? 512 : 64;
            s.group[g].in_group = g;
        }
        const struct sim_result *r = fig_results(&s);
        for (uint32_t i = 0; i < fig_seeds(); i++) {
            double half = r[i].mbps / 2;
            double off = half > 0 ? r[i].group[0].mbps / half - 1 : 0;
            v[i] = (off > 0 ? off : -off) * 100;
        }
        fig_name(name, sizeof(name), "groups:%s_off_halves_by", c->name);
        fig_row(name, "ours", v, "%");
        fig_name(name, sizeof(name), "groups_%s_off_halves_by", c->name);
        fig_goal(name, fig_mean(v), 5, 0, "%");
    }
}

void fig_floors(void)
{
    floors_alone();
    floors_cut();
    floors_caps();
    floors_groups();
}
