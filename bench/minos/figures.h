/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The figures of bench_minos, and what they share: runs that are kept, rows. */
#ifndef SNIC_BENCH_MINOS_FIGURES_H
#define SNIC_BENCH_MINOS_FIGURES_H

#include "minos.h"

/* What a run of the program is about. */
void fig_begin(const struct minos_param *p, uint32_t requests, uint64_t seed);
/* The default scenario of a design: 5 nodes, Synch, 50 % writes. */
struct minos_spec fig_spec(uint32_t design);
/* Simulated once. */
struct minos_result fig_run(const struct minos_spec *s);
uint32_t fig_requests(void);

/* Rows. The name is FIGURE:CELL; the parameter file's hash is put behind it. */
void fig_row(double v, const char *unit, const char *name, ...) SNIC_PRINTF(3, 4);
/* What the paper's text states of it, and the range that counts as reproduced (equal: for
 * orientation only). */
void fig_paper(double ours, double paper, double low, double high, const char *unit,
               const char *name, ...) SNIC_PRINTF(6, 7);
/* An ordering that the text states: 1 holds, 0 does not. */
void fig_claim(int holds, const char *name, ...) SNIC_PRINTF(2, 3);
/* Why what was printed last is missed, if it was. */
void fig_because(const char *reason);

void fig_cell(char *out, size_t size, const char *format, ...) SNIC_PRINTF(3, 4);

struct fig_mean {
    double ratios; /* sum */
    double b;
    double o;
    uint32_t count;
};
void fig_add(struct fig_mean *m, double b, double o);

void fig_4(void);
void fig_9(void);
void fig_10(void);
void fig_11(void);
void fig_12(void);
void fig_13(void);
void fig_14(void);
void fig_unloaded(void);

/* Figure 12's changes in per cent, as its text has them. */
struct fig_twelve {
    double b_broadcast; /* against B */
    double b_batching;
    double combined;
    double o;
    double combined_broadcast; /* against combined */
    double combined_batching;
    double o_over_broadcast; /* against combined and broadcast */
};
struct fig_twelve fig_twelve(const struct minos_param *p, uint32_t requests, uint64_t seed);
/* fit.c: climb from @p p by figure 12 alone; prints what it finds. */
void fig_fit(const struct minos_param *p, uint32_t requests, uint64_t seed, uint32_t evaluations);

#endif
