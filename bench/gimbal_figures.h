/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the figures of bench_gimbal share: scenarios are requested twice. In the first pass they
 * are only noted (the results are zero and nothing is printed), then all are simulated, each seed
 * of each on its own, on as many processes as there are processors; in the second pass the same
 * calls find their results and the rows come out in the order of the calls.
 */
#ifndef SNIC_BENCH_GIMBAL_FIGURES_H
#define SNIC_BENCH_GIMBAL_FIGURES_H

#include "gimbal_sim.h"

#define FIG_SEEDS_MAX 64
#define KIB 1024u

/* The schedulers compared; the first is ours. */
struct fig_who {
    const char *name;
    const struct sched_ops *ops;
    uint32_t sized;
};
#define FIG_WHO 6
extern const struct fig_who fig_who[FIG_WHO];
enum { FIG_OURS, FIG_FIFO, FIG_REFLEX, FIG_PARDA, FIG_PARDA_N, FIG_FLASHFQ };

uint32_t fig_seeds(void);
/* Multiplies the default times of warm-up, measurement and phases: --seconds. */
double fig_time_scale(void);
/* One result per seed. */
const struct sim_result *fig_results(const struct sim_spec *s);
/* The samples of a seed, results[seed].samples of them. */
const struct sim_sample *fig_samples(const struct sim_spec *s, uint32_t seed);

/* A scenario of @p who on the first device with the usual times and no groups yet. */
void fig_spec(struct sim_spec *s, const struct fig_who *who, uint32_t condition);
/* Half of the time: one kind of load alone is steady. */
void fig_short(struct sim_spec *s);
void fig_group(struct sim_spec *s, uint32_t group, uint32_t workers, uint32_t op, uint32_t size);

/* Rows: of a value per seed, with the row of its spread; of one value; of the paper's; goals. */
double fig_mean(const double *v);
void fig_row(const char *what, const char *who, const double *v, const char *unit);
void fig_value(const char *what, const char *who, double v, const char *unit);
void fig_ratio(const char *what, const char *peer, double v);
void fig_goal(const char *what, double got, double want, int at_least, const char *unit);
/* A row of a time series; only with --series. */
void fig_point(const char *what, const char *who, double at, double v, const char *unit);
void fig_name(char *out, size_t size, const char *format, ...) SNIC_PRINTF(3, 4);

/* In the names of rows: by enum snic_ssd_condition, by enum snic_gimbal_op, of fig_sizes(). */
extern const char *const fig_condition[2];
extern const char *const fig_op[2];
extern const char *const fig_size[2];

/* What several figures run. */
#define FIG_CELLS 4
struct fig_cell {
    const char *name;
    uint32_t condition;
    uint32_t op;
    uint32_t size;
};
extern const struct fig_cell fig_cells[FIG_CELLS]; /* C-R, C-W, F-R, F-W */
/* 16 workers of a cell alone. */
void fig_alone(struct sim_spec *s, const struct fig_who *who, const struct fig_cell *c);
/* MB/s of 16 workers of @p op and @p size without a scheduler, the mean over the seeds. */
double fig_standalone(uint32_t device, uint32_t condition, uint32_t op, uint32_t size);
/* Scenario of figure 7b and 7c, and the two f-Utils of a seed's result. */
void fig_mixed(struct sim_spec *s, const struct fig_who *who, uint32_t condition);
void fig_mixed_futil(const struct sim_spec *s, const struct sim_result *r, double futil[2]);
double fig_difference(const double futil[2]);
/* Scenario of figure 7a, and the deviations of a seed's result: 4 KiB, 128 KiB. */
void fig_sizes(struct sim_spec *s, const struct fig_who *who);
void fig_sizes_deviation(const struct sim_result *r, double futil[2], double deviation[2]);

/* The figures; each prints its rows. */
void fig_6(void);
void fig_7(void);
void fig_8(void);
void fig_goals(void);
void fig_9(void);
void fig_18(void);
void fig_device2(void);
void fig_other_fits(void);
void fig_departures(void);
void fig_between(void);
void fig_tenants(void);
void fig_convergence(void);
void fig_weights(void);
void fig_fits(void);
void fig_quiet(void);
void fig_floors(void);
void fig_few(void);
void fig_equal(void);
void fig_learn(void);
void fig_ageing(void);

#endif
