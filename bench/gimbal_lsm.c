/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Figures 10 to 13 beside what the paper's text states of them. All runs are independent and are
 * simulated by as many processes as there are processors; each result is that of its seed alone.
 */
#include "gimbal_lsm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEEDS_MAX 2 /* the whole is to take seconds */
#define MS UINT64_C(1000000)
#define WORKLOADS 6
#define FIVE 5 /* the paper's; E is ours in addition */
#define SIZES 5

static const char workloads[WORKLOADS + 1] = "ABCDFE";
/* Simulated; operations that write are few, and their stalls last long. */
static const uint64_t times_ns[WORKLOADS] = {700 * MS, 200 * MS, 100 * MS,
                                             200 * MS, 700 * MS, 300 * MS};
static const uint32_t sizes[SIZES] = {4, 8, 12, 16, 20}; /* and 24, which figure 10 has */

enum { VANILLA, CREDITS, LATEST, TAGS, OURS, FIFO, REFLEX, PARDA, FLASHFQ, WHO };

static const struct who {
    const char *name;
    const struct sched_ops *ops;
    uint32_t flags;
} who[WHO] = {
    {"vanilla", &sched_gimbal, 0},
    {"credits", &sched_gimbal, LSM_CREDITS},
    {"credits_latest_tags", &sched_gimbal, LSM_CREDITS | LSM_TAGS | LSM_LATEST},
    {"credits_tags", &sched_gimbal, LSM_CREDITS | LSM_TAGS},
    {"ours", &sched_gimbal, LSM_CREDITS | LSM_TAGS | LSM_BALANCE},
    {"fifo", &sched_fifo, 0},
    {"reflex", &sched_reflex, 0},
    {"parda", &sched_parda, LSM_CREDITS},
    {"flashfq", &sched_flashfq, 0},
};

struct table {
    struct lsm_result fig10[WHO][WORKLOADS][SEEDS_MAX];
    struct lsm_result fig11[SIZES][FIVE]; /* of the first seed */
    struct lsm_result fig13[OURS + 1][FIVE][SEEDS_MAX];
};

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "gimbal_lsm: %s\n", what);
        exit(1);
    }
}

/* ---- Running ---- */

static void one(const struct who *w, uint32_t instances, uint32_t backends, uint32_t workload,
                uint32_t seed, struct lsm_result *out)
{
    struct lsm_spec s = {.ops = w->ops,
                         .flags = w->flags,
                         .instances = instances,
                         .backends = backends,
                         .workload = workloads[workload],
                         .warm_ns = 200 * MS,
                         .time_ns = times_ns[workload],
                         .seed = seed + 1};
    lsm_run(&s, out);
}

/* Every run whose number is @p part modulo @p parts. */
static void run_part(struct table *t, uint32_t seeds, uint32_t part, uint32_t parts)
{
    uint32_t n = 0;
    for (uint32_t seed = 0; seed < seeds; seed++) {
        for (uint32_t k = 0; k < WORKLOADS; k++) {
            for (uint32_t i = 0; i < WHO; i++, n++) {
                if (n % parts == part && i != LATEST) /* figure 13 has it */
                    one(&who[i], LSM_INSTANCES_MAX, LSM_BACKENDS_MAX, k, seed,
                        &t->fig10[i][k][seed]);
            }
        }
    }
    for (uint32_t seed = 0; seed < seeds; seed++) { /* one box, as in the paper */
        for (uint32_t k = 0; k < FIVE; k++) {
            for (uint32_t i = 0; i <= OURS; i++, n++) {
                if (n % parts == part)
                    one(&who[i], 8, 4, k, seed, &t->fig13[i][k][seed]);
            }
        }
    }
    for (uint32_t k = 0; k < FIVE; k++) {
        for (uint32_t i = 0; i < SIZES; i++, n++) {
            if (n % parts == part)
                one(&who[OURS], sizes[i], LSM_BACKENDS_MAX, k, 0, &t->fig11[i][k]);
        }
    }
}

static struct table *run_all(uint32_t seeds)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t parts = cpus < 1 ? 1 : cpus > 16 ? 16 : (uint32_t)cpus;
    struct table *t =
        mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(t != MAP_FAILED, "memory");
    fflush(stdout);
    pid_t children[16];
    for (uint32_t i = 0; i < parts; i++) {
        children[i] = fork();
        must(children[i] >= 0, "fork");
        if (children[i] == 0) {
            run_part(t, seeds, i, parts);
            _exit(0);
        }
    }
    for (uint32_t i = 0; i < parts; i++) {
        int status = 0;
        must(waitpid(children[i], &status, 0) == children[i] && status == 0, "a run failed");
    }
    return t;
}

/* ---- Rows ---- */

static void row(const char *what, const char *name, double v, const char *unit)
{
    printf("row gimbal lsm_%s %s - %.4g %s\n", what, name, v, unit);
}

static double *field(struct lsm_result *r, size_t offset)
{
    return (double *)(void *)((unsigned char *)r + offset);
}

/* The mean over the seeds of one field. */
static double mean(struct lsm_result *r, uint32_t seeds, size_t offset)
{
    double sum = 0;
    for (uint32_t i = 0; i < seeds; i++)
        sum += *field(&r[i], offset);
    return sum / seeds;
}

static void rows_runs(struct table *t, uint32_t seeds)
{
    static const struct {
        const char *name;
        const char *unit;
        size_t offset;
    } fields[] = {
        {"throughput", "kops/s", offsetof(struct lsm_result, kops)},
        {"read_mean", "us", offsetof(struct lsm_result, mean_us)},
        {"read_p99", "us", offsetof(struct lsm_result, p99_us)},
        {"read_p99.9", "us", offsetof(struct lsm_result, p999_us)},
        {"device_read", "MB/s", offsetof(struct lsm_result, read_mbps)},
        {"device_write", "MB/s", offsetof(struct lsm_result, write_mbps)},
        {"jain", "index", offsetof(struct lsm_result, fairness)},
    };
    for (uint32_t k = 0; k < WORKLOADS; k++) {
        for (size_t f = 0; f < SNIC_COUNTOF(fields); f++) {
            char name[64];
            (void)snprintf(name, sizeof(name), "fig10_%c_%s", workloads[k], fields[f].name);
            for (uint32_t i = 0; i < WHO; i++) {
                if (i != LATEST)
                    row(name, who[i].name, mean(t->fig10[i][k], seeds, fields[f].offset),
                        fields[f].unit);
            }
        }
    }
}

/* Over the five workloads: the mean of ours / theirs of a field. */
static double five_ratio(struct lsm_result (*ours)[SEEDS_MAX],
                         struct lsm_result (*theirs)[SEEDS_MAX], uint32_t seeds, size_t offset)
{
    double sum = 0;
    for (uint32_t k = 0; k < FIVE; k++)
        sum += mean(ours[k], seeds, offset) / mean(theirs[k], seeds, offset);
    return sum / FIVE;
}

static void row_beside(const char *what, const char *peer, double model, double paper,
                       const char *unit)
{
    char name[96];
    (void)snprintf(name, sizeof(name), "%s_%s", what, peer);
    row(name, "ours", model, unit);
    row(name, "paper", paper, unit);
}

static void rows_fig10(struct table *t, uint32_t seeds)
{
    static const struct {
        uint32_t peer;
        double throughput;
        double mean;
        double p999;
    } paper[] = {
        {REFLEX, 1.7, -34.9, -48.0}, {PARDA, 2.1, -54.7, -30.2}, {FLASHFQ, 1.3, -20.1, -26.8}};
    for (size_t i = 0; i < SNIC_COUNTOF(paper); i++) {
        const char *peer = who[paper[i].peer].name;
        struct lsm_result(*ours)[SEEDS_MAX] = t->fig10[OURS];
        struct lsm_result(*theirs)[SEEDS_MAX] = t->fig10[paper[i].peer];
        double r[3] = {
            five_ratio(ours, theirs, seeds, offsetof(struct lsm_result, kops)),
            five_ratio(ours, theirs, seeds, offsetof(struct lsm_result, mean_us)),
            five_ratio(ours, theirs, seeds, offsetof(struct lsm_result, p999_us)),
        };
        row_beside("fig10_throughput_over", peer, r[0], paper[i].throughput, "times");
        row_beside("fig10_read_mean_against", peer, (r[1] - 1) * 100, paper[i].mean, "%");
        row_beside("fig10_read_p99.9_against", peer, (r[2] - 1) * 100, paper[i].p999, "%");
    }
}

static void rows_fig11(const struct table *t)
{
    static const double paper[FIVE] = {20, 20, 24, 20, 16}; /* C: not full at 24 */
    for (uint32_t k = 0; k < FIVE; k++) {
        double kops[SIZES + 1];
        double us[SIZES + 1];
        uint32_t full = SIZES;
        for (uint32_t i = 0; i <= SIZES; i++) {
            const struct lsm_result *r = i < SIZES ? &t->fig11[i][k] : &t->fig10[OURS][k][0];
            char name[64];
            uint32_t n = i < SIZES ? sizes[i] : LSM_INSTANCES_MAX;
            kops[i] = r->kops;
            us[i] = r->mean_us;
            (void)snprintf(name, sizeof(name), "fig11_%c_%02u_instances", workloads[k], n);
            row(name, "ours", kops[i], "kops/s");
            (void)snprintf(name, sizeof(name), "fig12_%c_%02u_instances", workloads[k], n);
            row(name, "ours", us[i], "us");
        }
        /* Full: from where on there is no more than another 5 % to gain. */
        double most = 0;
        for (uint32_t i = 0; i <= SIZES; i++)
            most = kops[i] > most ? kops[i] : most;
        while (full > 0 && kops[full - 1] >= 0.95 * most)
            full--;
        char name[64];
        (void)snprintf(name, sizeof(name), "fig11_%c_full_at", workloads[k]);
        row(name, "ours", full == SIZES ? LSM_INSTANCES_MAX : sizes[full], "instances");
        row(name, "paper", paper[k], "instances");
        (void)snprintf(name, sizeof(name), "fig12_%c_from_16_to_24", workloads[k]);
        row(name, "ours", (us[SIZES] / us[3] - 1) * 100, "%");
        if (workloads[k] == 'F')
            row(name, "paper", 38.1, "%");
    }
}

static double fig13(struct table *t, uint32_t seeds, uint32_t ours, uint32_t theirs)
{
    size_t p999 = offsetof(struct lsm_result, p999_us);
    return (five_ratio(t->fig13[ours], t->fig13[theirs], seeds, p999) - 1) * 100;
}

static void rows_fig13(struct table *t, uint32_t seeds)
{
    for (uint32_t k = 0; k < FIVE; k++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "fig13_%c_read_p99.9", workloads[k]);
        for (uint32_t i = 0; i <= OURS; i++)
            row(name, who[i].name,
                mean(t->fig13[i][k], seeds, offsetof(struct lsm_result, p999_us)), "us");
    }
    row("fig13_p99.9_against_vanilla", "credits", fig13(t, seeds, CREDITS, VANILLA), "%");
    row("fig13_p99.9_against_vanilla", "credits_latest_tags", fig13(t, seeds, LATEST, VANILLA),
        "%");
    row("fig13_p99.9_against_vanilla", "credits_tags", fig13(t, seeds, TAGS, VANILLA), "%");
    row("fig13_p99.9_against_vanilla", "paper", -28.2, "%");
    row("fig13_p99.9_balance_besides", "ours", fig13(t, seeds, OURS, TAGS), "%");
    row("fig13_p99.9_balance_besides", "paper", -18.8, "%");
    row("fig13_p99.9_all_against_vanilla", "ours", fig13(t, seeds, OURS, VANILLA), "%");
}

void gimbal_lsm_rows(uint32_t seeds)
{
    seeds = seeds < 1 ? 1 : seeds > SEEDS_MAX ? SEEDS_MAX : seeds;
    struct table *t = run_all(seeds);
    row("seeds", "ours", seeds, "runs");
    rows_runs(t, seeds);
    rows_fig10(t, seeds);
    rows_fig11(t);
    rows_fig13(t, seeds);
    munmap(t, sizeof(*t));
}
