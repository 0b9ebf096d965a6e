/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Gimbal's figures and goals in simulated time, on the SSD model, beside FIFO, ReFlex, PARDA and
 * FlashFQ: deterministic, the same seeds give the same rows. Then the model beside its facts, the
 * application, and (in real time) the overhead.
 *
 *   bench_gimbal [--seeds N] [--first N] [--seconds N] [--only FIGURE] [--series FILE]
 *
 * Every value is a mean over N seeds (default 5), from --first on (default 1); `_spread` is
 * (largest - smallest) / mean. The switch was tuned on seeds 1 to 5.
 * --seconds: simulated time measured per run, default 1; half of it where a kind of load is alone,
 * three times it where reads and writes mix on a fragmented device. --only: calibration fits fig6
 * fig7 fig8 goals quiet floors few equal learn ageing lsm_ageing device2 other_fits departures
 * between tenants weights convergence fig9 fig18 lsm lsm_goals overhead; may be repeated.
 * --series: where the time series of figures 9 and 18 go, as rows.
 */
#include "gimbal_calibration.h"
#include "gimbal_figures.h"
#include "gimbal_lsm.h"
#include "gimbal_overhead.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CELLS_MAX 768
#define ONLY_MAX 16

struct cell {
    struct sim_spec spec;
    struct sim_result *results; /* per seed, shared with the processes that simulate */
    struct sim_sample *samples;
};

static struct {
    uint32_t seeds;
    uint32_t first;
    double seconds;
    int printing;
    FILE *series;
    uint32_t cells_count;
    struct cell cells[CELLS_MAX];
} bench = {.seeds = 5, .first = 1, .seconds = 1};

const struct fig_who fig_who[FIG_WHO] = {
    {"ours", &sched_gimbal, 0}, {"fifo", &sched_fifo, 0},     {"reflex", &sched_reflex, 0},
    {"parda", &sched_parda, 0}, {"parda-n", &sched_parda, 1}, {"flashfq", &sched_flashfq, 0},
};

static const struct sim_result no_results[FIG_SEEDS_MAX];
static const struct sim_sample no_samples[SIM_SAMPLES];

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_gimbal: %s\n", what);
        exit(1);
    }
}

static void *shared(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(p != MAP_FAILED, "memory");
    return p;
}

/* ---- Scenarios ---- */

uint32_t fig_seeds(void)
{
    return bench.seeds;
}

double fig_time_scale(void)
{
    return bench.seconds;
}

static struct cell *cell_of(const struct sim_spec *s)
{
    for (uint32_t i = 0; i < bench.cells_count; i++)
        if (memcmp(&bench.cells[i].spec, s, sizeof(*s)) == 0)
            return &bench.cells[i];
    must(!bench.printing, "a scenario that was not asked for");
    must(bench.cells_count < CELLS_MAX, "too many scenarios");
    struct cell *c = &bench.cells[bench.cells_count++];
    c->spec = *s;
    return c;
}

const struct sim_result *fig_results(const struct sim_spec *s)
{
    const struct cell *c = cell_of(s);
    return bench.printing ? c->results : no_results;
}

const struct sim_sample *fig_samples(const struct sim_spec *s, uint32_t seed)
{
    const struct cell *c = cell_of(s);
    return bench.printing && c->samples != NULL ? c->samples + (size_t)seed * SIM_SAMPLES
                                                : no_samples;
}

static void simulate(uint32_t job)
{
    struct cell *c = &bench.cells[job / bench.seeds];
    uint32_t seed = job % bench.seeds;
    struct sim_spec spec = c->spec;
    spec.seed = bench.first + seed;
    sim_run(&spec, &c->results[seed],
            c->samples != NULL ? c->samples + (size_t)seed * SIM_SAMPLES : NULL);
}

/* Each process takes the next job until none is left; what it finds lies in shared memory. */
static void simulate_all(void)
{
    atomic_uint *next = shared(sizeof(*next));
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    for (uint32_t i = 0; i < bench.cells_count; i++) {
        struct cell *c = &bench.cells[i];
        c->results = shared(bench.seeds * sizeof(*c->results));
        if (c->spec.sample_ns > 0)
            c->samples = shared((size_t)bench.seeds * SIM_SAMPLES * sizeof(*c->samples));
    }
    fflush(NULL);
    for (long p = 0; p < processors; p++) {
        pid_t pid = fork();
        must(pid >= 0, "fork");
        if (pid != 0)
            continue;
        uint32_t job;
        while ((job = atomic_fetch_add(next, 1)) < bench.cells_count * bench.seeds)
            simulate(job);
        _exit(0);
    }
    int status;
    while (wait(&status) > 0)
        must(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a simulation failed");
    munmap(next, sizeof(*next));
}

void fig_spec(struct sim_spec *s, const struct fig_who *who, uint32_t condition)
{
    memset(s, 0, sizeof(*s));
    s->ops = who->ops;
    s->parda_sized = who->sized;
    s->condition = condition;
    s->warm_ns = 600000000u;
    s->time_ns = (uint64_t)(1e9 * bench.seconds);
}

void fig_short(struct sim_spec *s)
{
    s->time_ns /= 2;
}

void fig_group(struct sim_spec *s, uint32_t group, uint32_t workers, uint32_t op, uint32_t size)
{
    struct sim_group *g = &s->group[group];
    g->workers = workers;
    g->op = op;
    g->size = size;
    g->depth = size > 4 * KIB ? 4 : 32;
    g->sequential = op == SNIC_GIMBAL_WRITE && size > 4 * KIB;
}

/* ---- Rows ---- */

double fig_mean(const double *v)
{
    double sum = 0;
    for (uint32_t i = 0; i < bench.seeds; i++)
        sum += v[i];
    return sum / bench.seeds;
}

void fig_value(const char *what, const char *who, double v, const char *unit)
{
    if (bench.printing)
        printf("row gimbal %s %s - %.4g %s\n", what, who, v, unit);
}

void fig_row(const char *what, const char *who, const double *v, const char *unit)
{
    double mean = fig_mean(v);
    double least = v[0];
    double most = v[0];
    for (uint32_t i = 1; i < bench.seeds; i++) {
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
    }
    fig_value(what, who, mean, unit);
    if (bench.printing)
        printf("row gimbal %s_spread %s - %.3g %%\n", what, who,
               mean > 0 ? (most - least) / mean * 100 : 0.0);
}

void fig_ratio(const char *what, const char *peer, double v)
{
    if (bench.printing)
        printf("ratio gimbal %s ours/%s - %.4g\n", what, peer, v);
}

void fig_goal(const char *what, double got, double want, int at_least, const char *unit)
{
    int met = at_least ? got >= want : got <= want;
    char name[96];
    fig_name(name, sizeof(name), "goal:%s", what);
    fig_value(name, "ours", got, unit);
    fig_value(name, "wanted", want, unit);
    if (met)
        fig_value(name, "met", 1, "yes");
    else
        fig_value(name, "missed_by", at_least ? want - got : got - want, unit);
}

void fig_point(const char *what, const char *who, double at, double v, const char *unit)
{
    if (bench.printing && bench.series != NULL)
        fprintf(bench.series, "row gimbal %s@%.3f %s - %.5g %s\n", what, at, who, v, unit);
}

void fig_name(char *out, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out, size, format, args);
    va_end(args);
    must(n >= 0 && (size_t)n < size, "a name too long");
}

/* ---- Program ---- */

static void rows_calibration(void)
{
    if (bench.printing)
        gimbal_calibration_rows();
}

static void rows_lsm(void)
{
    if (bench.printing)
        gimbal_lsm_rows(bench.seeds);
}

static void rows_lsm_goals(void)
{
    if (bench.printing)
        gimbal_lsm_goals(bench.first, bench.seeds);
}

static void rows_lsm_ageing(void)
{
    if (bench.printing)
        gimbal_lsm_ageing(bench.first);
}

static void rows_overhead(void)
{
    if (bench.printing)
        gimbal_overhead_rows();
}

static const struct figure {
    const char *name;
    void (*rows)(void);
} figures[] = {
    {"calibration", rows_calibration},
    {"fits", fig_fits},
    {"fig6", fig_6},
    {"fig7", fig_7},
    {"fig8", fig_8},
    {"goals", fig_goals},
    {"quiet", fig_quiet},
    {"floors", fig_floors},
    {"few", fig_few},
    {"equal", fig_equal},
    {"learn", fig_learn},
    {"ageing", fig_ageing},
    {"lsm_ageing", rows_lsm_ageing},
    {"device2", fig_device2},
    {"other_fits", fig_other_fits},
    {"departures", fig_departures},
    {"between", fig_between},
    {"tenants", fig_tenants},
    {"weights", fig_weights},
    {"convergence", fig_convergence},
    {"fig9", fig_9},
    {"fig18", fig_18},
    {"lsm", rows_lsm},
    {"lsm_goals", rows_lsm_goals},
    {"overhead", rows_overhead},
};

static int usage(void)
{
    fprintf(stderr, "usage: bench_gimbal [--seeds N] [--first N] [--seconds N] "
                    "[--only FIGURE]... [--series FILE]\n       figures:");
    for (size_t i = 0; i < SNIC_COUNTOF(figures); i++)
        fprintf(stderr, " %s", figures[i].name);
    fprintf(stderr, "\n");
    return 2;
}

static void print_figures(const char *const *only, uint32_t only_count)
{
    for (size_t i = 0; i < SNIC_COUNTOF(figures); i++) {
        int wanted = only_count == 0;
        for (uint32_t k = 0; k < only_count; k++)
            wanted |= strcmp(only[k], figures[i].name) == 0;
        if (wanted)
            figures[i].rows();
        fflush(stdout);
    }
}

static int known(const char *name)
{
    for (size_t i = 0; i < SNIC_COUNTOF(figures); i++)
        if (strcmp(figures[i].name, name) == 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    const char *only[ONLY_MAX];
    uint32_t only_count = 0;
    const char *series = NULL;
    for (int i = 1; i < argc; i += 2) {
        char *end = NULL;
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--seeds") == 0) {
            bench.seeds = (uint32_t)strtoul(value, &end, 10);
        } else if (strcmp(argv[i], "--first") == 0) {
            bench.first = (uint32_t)strtoul(value, &end, 10);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            bench.seconds = strtod(value, &end);
        } else if (strcmp(argv[i], "--only") == 0 && only_count < ONLY_MAX && known(value)) {
            only[only_count++] = value;
        } else if (strcmp(argv[i], "--series") == 0 && *value != '\0') {
            series = value;
        } else {
            return usage();
        }
        if (end != NULL && (end == value || *end != '\0'))
            return usage();
    }
    if (bench.seeds < 1 || bench.seeds > FIG_SEEDS_MAX || !(bench.seconds >= 0.1) ||
        bench.seconds > 60)
        return usage();
    print_figures(only, only_count);
    simulate_all();
    if (series != NULL)
        must((bench.series = fopen(series, "w")) != NULL, "the file of --series");
    bench.printing = 1;
    print_figures(only, only_count);
    if (bench.series != NULL)
        must(fclose(bench.series) == 0, "writing the series");
    return 0;
}
