/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the switch may cost the application, and what it must be worth: figure 10's setting over
 * many seeds, ours beside its peers. The runs are shared among as many processes as there are
 * processors; each result is that of its seed alone.
 */
#include "gimbal_lsm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define SEEDS_MAX 64
#define WORKLOADS 6
#define FIVE 5 /* the paper's; E, scans, is ours in addition */

static const char workloads[WORKLOADS + 1] = "ABCDFE";
static const uint64_t times_ns[WORKLOADS] = {700 * MS, 200 * MS, 100 * MS,
                                             200 * MS, 700 * MS, 300 * MS};

enum { OURS, FIFO, REFLEX, PARDA, FLASHFQ, WHO };

static const struct {
    const char *name;
    const struct sched_ops *ops;
    uint32_t flags;
} who[WHO] = {
    {"ours", &sched_gimbal, LSM_CREDITS | LSM_TAGS | LSM_BALANCE},
    {"fifo", &sched_fifo, 0},
    {"reflex", &sched_reflex, 0},
    {"parda", &sched_parda, LSM_CREDITS},
    {"flashfq", &sched_flashfq, 0},
};

/* The switch before reads and writes had slots of their own, over seeds 1 to 5: E's figures. */
#define E_BEFORE_KOPS 191.8
#define E_BEFORE_P99_US 5440.0

struct table {
    atomic_uint next;
    struct lsm_result r[WHO][WORKLOADS][SEEDS_MAX];
};

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "gimbal_lsm_goals: %s\n", what);
        exit(1);
    }
}

static void run_job(struct table *t, uint32_t job, uint32_t first)
{
    uint32_t k = job % WORKLOADS;
    uint32_t w = job / WORKLOADS % WHO;
    uint32_t seed = job / WORKLOADS / WHO;
    struct lsm_spec s = {.ops = who[w].ops,
                         .flags = who[w].flags,
                         .instances = LSM_INSTANCES_MAX,
                         .backends = LSM_BACKENDS_MAX,
                         .workload = workloads[k],
                         .warm_ns = 200 * MS,
                         .time_ns = times_ns[k],
                         .seed = first + seed};
    lsm_run(&s, &t->r[w][k][seed]);
}

static struct table *run_all(uint32_t first, uint32_t seeds)
{
    struct table *t =
        mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(t != MAP_FAILED, "memory");
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    fflush(NULL);
    for (long p = 0; p < cpus || p == 0; p++) {
        pid_t pid = fork();
        must(pid >= 0, "fork");
        if (pid != 0)
            continue;
        uint32_t job;
        while ((job = atomic_fetch_add(&t->next, 1)) < WORKLOADS * WHO * seeds)
            run_job(t, job, first);
        _exit(0);
    }
    int status;
    while (wait(&status) > 0)
        must(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a run failed");
    return t;
}

static double mean(const struct lsm_result *r, uint32_t seeds, size_t offset)
{
    double sum = 0;
    for (uint32_t i = 0; i < seeds; i++) {
        double v;
        memcpy(&v, (const unsigned char *)&r[i] + offset, sizeof(v));
        sum += v;
    }
    return sum / seeds;
}

#define MEAN(w, k, field) mean(t->r[w][k], seeds, offsetof(struct lsm_result, field))

static void row(const char *what, const char *name, double v, const char *unit)
{
    printf("row gimbal %s %s - %.4g %s\n", what, name, v, unit);
}

static void goal(const char *what, double got, double want, int at_least, const char *unit)
{
    char name[96];
    (void)snprintf(name, sizeof(name), "goal:lsm_%s", what);
    row(name, "ours", got, unit);
    row(name, "wanted", want, unit);
    if (at_least ? got >= want : got <= want)
        row(name, "met", 1, "yes");
    else
        row(name, "missed_by", at_least ? want - got : got - want, unit);
}

static void rows_of_workloads(const struct table *t, uint32_t seeds)
{
    for (uint32_t k = 0; k < WORKLOADS; k++) {
        for (uint32_t w = 0; w < WHO; w++) {
            char name[64];
            (void)snprintf(name, sizeof(name), "lsm_goals_%c_throughput", workloads[k]);
            row(name, who[w].name, MEAN(w, k, kops), "kops/s");
            (void)snprintf(name, sizeof(name), "lsm_goals_%c_read_mean", workloads[k]);
            row(name, who[w].name, MEAN(w, k, mean_us), "us");
            (void)snprintf(name, sizeof(name), "lsm_goals_%c_read_p99", workloads[k]);
            row(name, who[w].name, MEAN(w, k, p99_us), "us");
            (void)snprintf(name, sizeof(name), "lsm_goals_%c_read_p99.9", workloads[k]);
            row(name, who[w].name, MEAN(w, k, p999_us), "us");
        }
    }
}

static void goals_beside(const struct table *t, uint32_t seeds)
{
    static const struct {
        uint32_t peer;
        double throughput;
        double p999;
    } wanted[] = {{REFLEX, 1.04, 0.75}, {PARDA, 1.17, 0.6}, {FLASHFQ, 1.0, 1.25}};
    for (size_t i = 0; i < SNIC_COUNTOF(wanted); i++) {
        uint32_t p = wanted[i].peer;
        double throughput = 0;
        double p999 = 0;
        char name[64];
        for (uint32_t k = 0; k < FIVE; k++) {
            throughput += MEAN(OURS, k, kops) / MEAN(p, k, kops) / FIVE;
            p999 += MEAN(OURS, k, p999_us) / MEAN(p, k, p999_us) / FIVE;
        }
        (void)snprintf(name, sizeof(name), "throughput_over_%s", who[p].name);
        goal(name, throughput, wanted[i].throughput, 1, "x");
        (void)snprintf(name, sizeof(name), "read_p99.9_of_%s", who[p].name);
        goal(name, p999, wanted[i].p999, 0, "x");
    }
}

void gimbal_lsm_goals(uint32_t first, uint32_t seeds)
{
    must(seeds <= SEEDS_MAX, "too many seeds");
    struct table *t = run_all(first, seeds);
    row("lsm_goals_seeds", "ours", seeds, "runs");
    rows_of_workloads(t, seeds);
    for (uint32_t k = 0; k < FIVE; k++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "%c_throughput_of_fifo", workloads[k]);
        goal(name, MEAN(OURS, k, kops) / MEAN(FIFO, k, kops), 0.99, 1, "x");
    }
    goals_beside(t, seeds);
    goal("E_throughput", MEAN(OURS, FIVE, kops), 0.99 * E_BEFORE_KOPS, 1, "kops/s");
    goal("E_read_p99", MEAN(OURS, FIVE, p99_us), E_BEFORE_P99_US, 0, "us");
    munmap(t, sizeof(*t));
}
