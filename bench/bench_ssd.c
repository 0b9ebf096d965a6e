/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The SSD model's own speed: inner events and commands per second of real time, on one core, for
 * loads that stress its stages. What it simulates is bench_gimbal's calibration. Medians of
 * interleaved repeats; the closed loop around the model is part of the time. It has no peer.
 *
 *   bench_ssd [--seconds N]        per load and repeat; default 0.2
 */
#include "snicstore/ssd.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REPEATS 5
#define COMMANDS 4096

static const struct load {
    const char *name;
    uint32_t condition;
    uint8_t op;
    uint32_t size;
    uint32_t depth;
    uint32_t queues;
} loads[] = {
    {"read_4K", SNIC_SSD_CLEAN, SNIC_SSD_READ, 4096, 512, 16},
    {"read_4K_1024_queues", SNIC_SSD_CLEAN, SNIC_SSD_READ, 4096, 4096, 1024},
    {"read_128K", SNIC_SSD_CLEAN, SNIC_SSD_READ, 131072, 64, 16},
    {"read_128K_fragmented", SNIC_SSD_FRAGMENTED, SNIC_SSD_READ, 131072, 64, 16},
    {"write_4K_fragmented", SNIC_SSD_FRAGMENTED, SNIC_SSD_WRITE, 4096, 512, 16},
};
#define LOADS SNIC_COUNTOF(loads)

static struct snic_ssd_cmd cmds[COMMANDS];

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_ssd: %s\n", what);
        exit(1);
    }
}

static double clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void issue(struct snic_ssd *d, const struct load *l, struct snic_ssd_cmd *c,
                  struct snic_rng *r, uint64_t now)
{
    c->offset = snic_rng_below(r, (UINT64_C(700) << 30) / l->size) * l->size;
    must(snic_ssd_submit(d, c, now) == 0, "a command was refused");
}

/* For @p seconds of CPU time; per second: events in out[0], commands in out[1]. */
static void run(const struct load *l, double seconds, double out[2])
{
    struct snic_ssd_opts o;
    struct snic_ssd *d = NULL;
    struct snic_ssd_stats s;
    struct snic_rng r;
    snic_ssd_opts_dct983(&o);
    o.condition = l->condition;
    o.queues = l->queues;
    size_t size = snic_ssd_memsize(&o);
    void *mem = aligned_alloc(SNIC_SSD_ALIGN, snic_align_up(size, SNIC_SSD_ALIGN));
    must(mem != NULL && snic_ssd_init(&d, mem, size, &o) == 0, "no model");
    snic_rng_init(&r, 1);
    for (uint32_t i = 0; i < l->depth; i++) {
        cmds[i] = (struct snic_ssd_cmd){.op = l->op, .queue = i % l->queues, .length = l->size};
        issue(d, l, &cmds[i], &r, 0);
    }
    double begun = clock_s();
    double took = 0;
    while (took < seconds) {
        for (uint32_t turn = 0; turn < 20000; turn++) {
            uint64_t now = snic_ssd_deadline_ns(d);
            for (struct snic_ssd_cmd *c; (c = snic_ssd_poll(d, now)) != NULL;)
                issue(d, l, c, &r, now);
        }
        took = clock_s() - begun;
    }
    snic_ssd_get_stats(d, &s);
    out[0] = (double)s.events / took;
    out[1] = (double)(s.commands[0] + s.commands[1]) / took;
    free(mem); /* with the commands inside */
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double events[LOADS][REPEATS], commands[LOADS][REPEATS];
    double seconds = 0.2;
    int fine = argc == 1;
    if (argc == 3 && strcmp(argv[1], "--seconds") == 0) {
        char *end = NULL;
        seconds = strtod(argv[2], &end);
        fine = end != argv[2] && *end == '\0' && seconds > 0 && seconds < 1000;
    }
    if (!fine) {
        fprintf(stderr, "usage: bench_ssd [--seconds N]\n");
        return 2;
    }
    for (uint32_t k = 0; k < REPEATS; k++) {
        for (uint32_t i = 0; i < LOADS; i++) {
            double v[2];
            run(&loads[i], seconds, v);
            events[i][k] = v[0];
            commands[i][k] = v[1];
        }
    }
    for (uint32_t i = 0; i < LOADS; i++) {
        qsort(events[i], REPEATS, sizeof(double), by_value);
        qsort(commands[i], REPEATS, sizeof(double), by_value);
        printf("row ssd %s ours - %.4g Mevents/s\n", loads[i].name, events[i][REPEATS / 2] / 1e6);
        printf("row ssd %s_commands ours - %.4g M/s\n", loads[i].name,
               commands[i][REPEATS / 2] / 1e6);
    }
    return 0;
}
