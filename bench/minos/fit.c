/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Figure 12, and the search for the six numbers that are fitted on it and on nothing else. */
#include "figures.h"

#include <stdio.h>
#include <string.h>

static double fit_change(double v, double against)
{
    return 100 * (v / against - 1);
}

static struct minos_spec fit_spec(uint32_t design, uint32_t requests, uint64_t seed)
{
    struct minos_spec s;
    memset(&s, 0, sizeof(s));
    s.design = design;
    s.model = SNIC_DDP_SYNCH;
    s.nodes = 5;
    s.writes = 100;
    s.requests = requests;
    s.seed = seed;
    return s;
}

static struct fig_twelve fit_changes(const double *v)
{
    struct fig_twelve t;
    t.b_broadcast = fit_change(v[MINOS_B_BROADCAST], v[MINOS_B]);
    t.b_batching = fit_change(v[MINOS_B_BATCHING], v[MINOS_B]);
    t.combined = fit_change(v[MINOS_COMBINED], v[MINOS_B]);
    t.o = fit_change(v[MINOS_O], v[MINOS_B]);
    t.combined_broadcast = fit_change(v[MINOS_COMBINED_BROADCAST], v[MINOS_COMBINED]);
    t.combined_batching = fit_change(v[MINOS_COMBINED_BATCHING], v[MINOS_COMBINED]);
    t.o_over_broadcast = fit_change(v[MINOS_O], v[MINOS_COMBINED_BROADCAST]);
    return t;
}

struct fig_twelve fig_twelve(const struct minos_param *p, uint32_t requests, uint64_t seed)
{
    double v[MINOS_DESIGNS];
    for (uint32_t d = 0; d < MINOS_DESIGNS; d++) {
        struct minos_spec s = fit_spec(d, requests, seed);
        struct minos_result r;
        minos_run(p, &s, &r);
        v[d] = r.write_ns;
    }
    return fit_changes(v);
}

void fig_12(void)
{
    double v[MINOS_DESIGNS];
    for (uint32_t d = 0; d < MINOS_DESIGNS; d++) {
        struct minos_spec s = fig_spec(d);
        s.writes = 100;
        struct minos_result r = fig_run(&s);
        v[d] = r.write_ns;
        if (d == MINOS_B)
            fig_row(v[d] / 1000, "us", "fig12:B_latency");
        fig_row(v[d] / v[MINOS_B], "x", "fig12:%s", minos_design_name[d]);
        if (d == MINOS_B || d == MINOS_COMBINED || d == MINOS_O) {
            for (uint32_t u = 0; u < MINOS_USES; u++)
                fig_row(r.use[u] * 100, "%", "fig12:%s_use_%s", minos_design_name[d],
                        minos_use_name[u]);
        }
    }
    struct fig_twelve t = fit_changes(v);
    fig_paper(t.b_broadcast, 0, -5, 5, "%", "fig12:broadcast_over_B");
    fig_paper(t.b_batching, 0, -5, 5, "%", "fig12:batching_over_B");
    fig_paper(t.combined, -43.3, -48.3, -38.3, "%", "fig12:combined_over_B");
    fig_paper(t.o, -50.7, -55.7, -45.7, "%", "fig12:O_over_B");
    fig_paper(t.combined_broadcast, 0, -5, 5, "%", "fig12:broadcast_over_combined");
    fig_row(t.combined_batching, "%", "fig12:batching_over_combined");
    fig_claim(t.combined_batching >= 1, "fig12:batching_slows_combined");
    fig_row(t.o_over_broadcast, "%", "fig12:O_over_combined_and_broadcast");
    fig_claim(t.o_over_broadcast < 0, "fig12:O_is_faster_than_combined_and_broadcast");
}

static double fit_square(double v, double target, double unit)
{
    return (v - target) / unit * ((v - target) / unit);
}

/* "No noticeable effect": two per cent either way would not be noticed. */
static double fit_nothing(double v)
{
    double over = v > 2 ? v - 2 : v < -2 ? v + 2 : 0;
    return fit_square(over, 0, 1);
}

/* How far off. Numbers to the point; of orderings, how much they are broken. */
static double fit_misfit(const struct fig_twelve *t)
{
    double sum = fit_square(t->combined, -43.3, 1) + fit_square(t->o, -50.7, 1);
    sum += fit_nothing(t->b_broadcast) + fit_nothing(t->b_batching);
    sum += fit_nothing(t->combined_broadcast);
    if (t->combined_batching < 3)
        sum += fit_square(t->combined_batching, 3, 1);
    if (t->o_over_broadcast > -3)
        sum += fit_square(t->o_over_broadcast, -3, 1);
    return sum;
}

static void fit_print(const char *what, const struct minos_param *p, const struct fig_twelve *t)
{
    printf("%s misfit %.2f combined %.1f o %.1f b+bc %.1f b+batch %.1f c+bc %.1f c+batch %.1f:",
           what, fit_misfit(t), t->combined, t->o, t->b_broadcast, t->b_batching,
           t->combined_broadcast, t->combined_batching);
    for (uint32_t i = 0; i < MINOS_PARAMETER_COUNT; i++) {
        if (minos_param_fitted(i))
            printf(" %s %llu", minos_param_name(i), (unsigned long long)p->v[i]);
    }
    printf("\n");
    fflush(stdout);
}

void fig_fit(const struct minos_param *start, uint32_t requests, uint64_t seed,
             uint32_t evaluations)
{
    struct minos_param best = *start;
    struct fig_twelve t = fig_twelve(&best, requests, seed);
    double least = fit_misfit(&t);
    uint64_t step[MINOS_PARAMETER_COUNT];
    struct snic_rng rng;
    snic_rng_init(&rng, seed);
    for (uint32_t i = 0; i < MINOS_PARAMETER_COUNT; i++)
        step[i] = best.v[i] / 10 + 1; /* many sets fit: one near the start is wanted */
    fit_print("start", &best, &t);
    for (uint32_t n = 0; n < evaluations;) {
        for (uint32_t i = 0; i < MINOS_PARAMETER_COUNT; i++) {
            if (!minos_param_fitted(i))
                continue;
            int better = 0;
            uint32_t first = (uint32_t)snic_rng_below(&rng, 2);
            for (uint32_t k = 0; k < 2 && !better; k++, n++) {
                struct minos_param q = best;
                int up = (int)((first + k) & 1);
                if (!up && q.v[i] <= step[i])
                    continue;
                q.v[i] = up ? q.v[i] + step[i] : q.v[i] - step[i];
                t = fig_twelve(&q, requests, seed);
                if (fit_misfit(&t) < least) {
                    least = fit_misfit(&t);
                    best = q;
                    better = 1;
                    fit_print("better", &best, &t);
                }
            }
            if (!better)
                step[i] = step[i] / 2 + 1;
        }
    }
}
