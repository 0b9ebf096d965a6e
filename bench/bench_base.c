/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The ground floor's hot paths: CRC32C beside its portable twin (and ISA-L, when
 * it is there), the wheel, the histogram, the random numbers, the rates.
 * Prints the rows of the benchmark contract: medians of interleaved repeats.
 *
 *   bench_base [--seconds N]
 */
#include "snicstore/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef SNIC_PEER_LIBISAL
#include <isa-l.h>
#endif

#define REPEATS 7
#define BLOCK (1u << 20)
#define TIMERS 4096

static unsigned char block[BLOCK];
static struct snic_wheel wheel;
static struct snic_timer timers[TIMERS];
static struct snic_hist hist;
static struct snic_rate rate;
static struct snic_rng rng;
static volatile uint64_t sink; /* keeps results alive */

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* ---- Bodies: do n units of work ---- */

static void run_noise(uint64_t n, size_t size)
{
    uint64_t v = 1;
    (void)size;
    for (uint64_t i = 0; i < n; i++)
        v = v * UINT64_C(6364136223846793005) + 1442695040888963407u;
    sink = v;
}

static void run_crc(uint64_t n, size_t size)
{
    uint32_t crc = 0;
    for (uint64_t i = 0; i < n; i++)
        crc = snic_crc32c(crc, block, size);
    sink = crc;
}

static void run_crc_portable(uint64_t n, size_t size)
{
    uint32_t crc = 0;
    for (uint64_t i = 0; i < n; i++)
        crc = snic_crc32c_portable(crc, block, size);
    sink = crc;
}

#ifdef SNIC_PEER_LIBISAL
static void run_crc_isal(uint64_t n, size_t size)
{
    uint32_t crc = 0;
    for (uint64_t i = 0; i < n; i++)
        crc = crc32_iscsi(block, (int)size, crc);
    sink = crc;
}
#endif

static void run_combine(uint64_t n, size_t size)
{
    uint32_t crc = 1;
    (void)size;
    for (uint64_t i = 0; i < n; i++)
        crc = snic_crc32c_combine_4096(crc, (uint32_t)i);
    sink = crc;
}

static void run_combine_any(uint64_t n, size_t size)
{
    uint32_t crc = 1;
    for (uint64_t i = 0; i < n; i++)
        crc = snic_crc32c_combine(crc, (uint32_t)i, size);
    sink = crc;
}

static void run_combine_portable(uint64_t n, size_t size)
{
    uint32_t crc = 1;
    uint32_t power = snic_crc32c_power(size);
    for (uint64_t i = 0; i < n; i++)
        crc = snic_crc32c_advance_portable(crc, power) ^ (uint32_t)i;
    sink = crc;
}

/* An idle time-out moved on by every request: the wheel's everyday work. */
static void run_wheel_rearm(uint64_t n, size_t size)
{
    uint64_t now = 0;
    snic_wheel_init(&wheel, now);
    for (size_t i = 0; i < size; i++)
        snic_timer_init(&timers[i], NULL);
    for (uint64_t i = 0; i < n; i++) {
        now += 700;
        snic_wheel_arm(&wheel, &timers[i % size], now + UINT64_C(30000000000));
        sink += snic_wheel_deadline_ns(&wheel) != 0;
    }
}

/* Timers that do expire, spread over 4 ms. */
static void run_wheel_expire(uint64_t n, size_t size)
{
    uint64_t now = 0;
    uint64_t done = 0;
    snic_wheel_init(&wheel, now);
    for (size_t i = 0; i < size; i++) {
        snic_timer_init(&timers[i], NULL);
        snic_wheel_arm(&wheel, &timers[i], snic_rng_below(&rng, 4000000));
    }
    while (done < n) {
        struct snic_timer *t;
        now = snic_wheel_deadline_ns(&wheel);
        while ((t = snic_wheel_pop(&wheel, now)) != NULL) {
            snic_wheel_arm(&wheel, t, now + snic_rng_below(&rng, 4000000));
            done++;
        }
    }
}

static void run_hist(uint64_t n, size_t size)
{
    uint64_t v = 1;
    (void)size;
    for (uint64_t i = 0; i < n; i++) {
        v = v * UINT64_C(6364136223846793005) + 1;
        snic_hist_record(&hist, v >> 44);
    }
    sink = hist.count;
}

static void run_rng(uint64_t n, size_t size)
{
    (void)size;
    for (uint64_t i = 0; i < n; i++)
        sink = snic_rng_next(&rng);
}

static void run_rate(uint64_t n, size_t size)
{
    uint64_t granted = 0;
    (void)!snic_rate_init(&rate, 1000000, 64, 0);
    for (uint64_t i = 0; i < n; i++)
        granted += snic_rate_take(&rate, 1, i * size) == 0;
    sink = granted;
}

/* ---- Cases ---- */

struct bench_case {
    const char *name;
    const char *who;
    void (*run)(uint64_t n, size_t size);
    size_t size;
    int bytes; /* 1: value is GB/s of size bytes per unit; 0: ns per unit */
    uint64_t units;
    double ns[REPEATS]; /* per unit */
};

static struct bench_case cases[] = {
    {"noise", "-", run_noise, 0, 0, 0, {0}},
    {"crc32c_64", "ours", run_crc, 64, 1, 0, {0}},
    {"crc32c_64", "portable", run_crc_portable, 64, 1, 0, {0}},
    {"crc32c_4096", "ours", run_crc, 4096, 1, 0, {0}},
    {"crc32c_4096", "portable", run_crc_portable, 4096, 1, 0, {0}},
    {"crc32c_1048576", "ours", run_crc, BLOCK, 1, 0, {0}},
    {"crc32c_1048576", "portable", run_crc_portable, BLOCK, 1, 0, {0}},
    {"crc32c_combine_4096", "ours", run_combine, 0, 0, 0, {0}},
    {"crc32c_combine_4096", "portable", run_combine_portable, 4096, 0, 0, {0}},
    {"crc32c_combine_4095", "ours", run_combine_any, 4095, 0, 0, {0}},
    {"wheel_rearm", "ours", run_wheel_rearm, TIMERS, 0, 0, {0}},
    {"wheel_expire", "ours", run_wheel_expire, TIMERS, 0, 0, {0}},
    {"hist_record", "ours", run_hist, 0, 0, 0, {0}},
    {"rng_next", "ours", run_rng, 0, 0, 0, {0}},
    {"rate_take", "ours", run_rate, 100, 0, 0, {0}},
#ifdef SNIC_PEER_LIBISAL
    {"crc32c_64", "isa-l", run_crc_isal, 64, 1, 0, {0}},
    {"crc32c_4096", "isa-l", run_crc_isal, 4096, 1, 0, {0}},
    {"crc32c_1048576", "isa-l", run_crc_isal, BLOCK, 1, 0, {0}},
#endif
};

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(struct bench_case *c)
{
    qsort(c->ns, REPEATS, sizeof(c->ns[0]), by_double);
    return c->ns[REPEATS / 2];
}

/* Units that take about target_ns; the search is also the warm-up. */
static void calibrate(struct bench_case *c, uint64_t target_ns)
{
    for (c->units = 1;; c->units *= 2) {
        uint64_t start = clock_ns();
        c->run(c->units, c->size);
        uint64_t spent = clock_ns() - start;
        if (spent > target_ns / 4) {
            c->units = 1 + (uint64_t)((double)c->units * (double)target_ns / (double)spent);
            return;
        }
    }
}

static void print_case(struct bench_case *c)
{
    double ns = median(c);
    if (c == &cases[0]) {
        printf("row base noise - - %.2f %%\n", 100 * (c->ns[REPEATS - 1] - c->ns[0]) / ns);
        return;
    }
    if (c->bytes)
        printf("row base %s %s 1 %.2f GB/s\n", c->name, c->who, (double)c->size / ns);
    else
        printf("row base %s %s 1 %.2f ns/op\n", c->name, c->who, ns);
}

static void print_ratio(struct bench_case *ours, struct bench_case *peer)
{
    if (strcmp(ours->name, peer->name) == 0 && strcmp(peer->who, "ours") != 0)
        printf("ratio base %s ours/%s 1 %.2f\n", ours->name, peer->who,
               peer->ns[REPEATS / 2] / ours->ns[REPEATS / 2]);
}

int main(int argc, char **argv)
{
    double seconds = 2;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
    }
    if (!(seconds > 0) || seconds > 3600)
        seconds = 2;
    uint64_t target =
        (uint64_t)(seconds * 1e9 / (double)((REPEATS + 1) * SNIC_COUNTOF(cases))) + 1000;

    snic_rng_init(&rng, 1);
    snic_rng_fill(&rng, block, sizeof(block));
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++)
        calibrate(&cases[i], target);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
            uint64_t start = clock_ns();
            cases[i].run(cases[i].units, cases[i].size);
            cases[i].ns[repeat] = (double)(clock_ns() - start) / (double)cases[i].units;
        }
    }
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++)
        print_case(&cases[i]);
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        for (size_t j = 0; j < SNIC_COUNTOF(cases); j++) {
            if (strcmp(cases[i].who, "ours") == 0)
                print_ratio(&cases[i], &cases[j]);
        }
    }
    return 0;
}
