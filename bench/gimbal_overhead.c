/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Table 1's experiment: 4 KiB reads over a device that completes at once, real time. Measured is
 * submit, poll and complete of one I/O; the clock that the switch sees is a counter, since a
 * target reads its clock once per round of its loop and not for us. The baseline is the same loop
 * with one FIFO list for all, which costs a target nothing worth naming: what the switch adds is
 * the difference.
 */
#include "gimbal_overhead.h"

#include "snicstore/gimbal.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REPEATS = 7, DEVICE = 128, STEP_NS = 50 };
#define BATCH_S 0.03

static const struct {
    uint32_t tenants;
    uint32_t depth;
} cases[] = {{1, 1}, {1, 32}, {16, 32}, {256, 32}, {1024, 32}, {4096, 32}};
#define CASES (sizeof(cases) / sizeof(cases[0]))

struct load {
    struct snic_gimbal *g;
    struct snic_gimbal_io *ios;
    uint32_t count;
    uint64_t now;
    struct snic_link fifo;                 /* the baseline's */
    struct snic_gimbal_io *device[DEVICE]; /* a ring */
    uint32_t head;
    uint32_t busy;
};

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_gimbal: %s\n", what);
    exit(1);
}

static void load_open(struct load *l, uint32_t tenants, uint32_t depth, int ours)
{
    struct snic_gimbal_opts o = {.opts_size = sizeof(o),
                                 .tenants_max = tenants,
                                 .rate_start = SNIC_GIMBAL_RATE_MAX,
                                 .rate_max = SNIC_GIMBAL_RATE_MAX};
    size_t size = snic_gimbal_memsize(&o);
    memset(l, 0, sizeof(*l));
    l->count = tenants * depth;
    l->ios = calloc(l->count, sizeof(*l->ios));
    void *mem = aligned_alloc(SNIC_GIMBAL_ALIGN, snic_align_up(size, SNIC_GIMBAL_ALIGN));
    if (l->ios == NULL || mem == NULL || snic_gimbal_init(&l->g, mem, size, &o, l->now) != 0)
        die("no memory");
    snic_link_init(&l->fifo);
    for (uint32_t t = 0; t < tenants; t++) {
        if (snic_gimbal_tenant_add(l->g, t, NULL) != 0)
            die("no tenant");
    }
    for (uint32_t i = 0; i < l->count; i++) {
        struct snic_gimbal_io *io = &l->ios[i];
        io->tenant = i % tenants;
        io->size = 4096;
        if (!ours)
            snic_link_append(&l->fifo, &io->link);
        else if (snic_gimbal_submit(l->g, io, l->now) != 0)
            die("refused");
    }
}

static void load_close(struct load *l, int ours)
{
    while (ours && l->busy > 0) {
        snic_gimbal_complete(l->g, l->device[l->head++ % DEVICE], 1, l->now);
        l->busy--;
    }
    for (uint32_t i = 0; ours && i < l->count; i++) {
        if (l->ios[i].state != 0 && snic_gimbal_cancel(l->g, &l->ios[i], l->now) != 0)
            die("still out");
    }
    free(snic_gimbal_fini(l->g));
    free(l->ios);
}

static void load_started(struct load *l, struct snic_gimbal_io *io)
{
    l->device[(l->head + l->busy++) % DEVICE] = io;
}

/* About @turns I/Os through the switch. */
static uint64_t load_run_ours(struct load *l, uint64_t turns)
{
    uint64_t done = 0;
    while (done < turns) {
        struct snic_gimbal_io *io;
        while (l->busy < DEVICE && (io = snic_gimbal_poll(l->g, l->now)) != NULL)
            load_started(l, io);
        if (l->busy == 0)
            l->now = snic_gimbal_deadline_ns(l->g);
        for (uint32_t n = (l->busy + 1) / 2; n > 0; n--) {
            io = l->device[l->head++ % DEVICE];
            l->busy--;
            l->now += STEP_NS;
            snic_gimbal_complete(l->g, io, 1, l->now);
            if (snic_gimbal_submit(l->g, io, l->now) != 0)
                die("refused");
            done++;
        }
    }
    return done;
}

static uint64_t load_run_fifo(struct load *l, uint64_t turns)
{
    uint64_t done = 0;
    while (done < turns) {
        while (l->busy < DEVICE && !snic_link_alone(&l->fifo)) {
            struct snic_link *first = l->fifo.next;
            snic_link_remove(first);
            load_started(l, SNIC_CONTAINER(first, struct snic_gimbal_io, link));
        }
        for (uint32_t n = (l->busy + 1) / 2; n > 0; n--) {
            struct snic_gimbal_io *io = l->device[l->head++ % DEVICE];
            l->busy--;
            snic_link_append(&l->fifo, &io->link);
            done++;
        }
    }
    return done;
}

static double measure(uint32_t tenants, uint32_t depth, int ours)
{
    static struct load l;
    uint64_t turns = 20000;
    double ns = 0;
    load_open(&l, tenants, depth, ours);
    (void)(ours ? load_run_ours(&l, 4 * l.count + turns) : load_run_fifo(&l, turns));
    for (double took = 0; took < BATCH_S; turns *= 2) {
        double start = seconds();
        uint64_t done = ours ? load_run_ours(&l, turns) : load_run_fifo(&l, turns);
        took = seconds() - start;
        ns = took * 1e9 / (double)done;
    }
    load_close(&l, ours);
    return ns;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

void gimbal_overhead_rows(void)
{
    static double ns[CASES][2][REPEATS];
    for (int r = 0; r < REPEATS; r++) {
        for (size_t c = 0; c < CASES; c++) {
            for (int ours = 0; ours < 2; ours++)
                ns[c][ours][r] = measure(cases[c].tenants, cases[c].depth, ours);
        }
    }
    for (size_t c = 0; c < CASES; c++) {
        char name[64];
        snprintf(name, sizeof(name), "table1:4k_read_%ux%u", cases[c].tenants, cases[c].depth);
        for (int ours = 0; ours < 2; ours++)
            qsort(ns[c][ours], REPEATS, sizeof(double), by_value);
        double median = ns[c][1][REPEATS / 2];
        printf("row gimbal %s ours 1 %.1f ns/op\n", name, median);
        printf("row gimbal %s fifo_list 1 %.1f ns/op\n", name, ns[c][0][REPEATS / 2]);
        printf("row gimbal %s_rate ours 1 %.2f Mop/s\n", name, 1e3 / median);
    }
    printf("row gimbal table1:1024_over_16 ours 1 %.2f x\n",
           ns[4][1][REPEATS / 2] / ns[2][1][REPEATS / 2]);
    printf("row gimbal table1:4k_read_null_device paper 1 0.821 Mop/s\n");
    printf("row gimbal table1:4k_read_null_device vanilla_spdk_of_paper 1 0.937 Mop/s\n");
}
