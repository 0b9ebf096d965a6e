/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The request ring beside its baselines and peers: messages per second over producers, sizes and
 * batches, with an eager consumer and with one that looks every 2 us (as a DMA poller does); CPU
 * time per message; latency at low load. Where the two threads sit decides most of it, so the
 * hand-over of a cache line between the cores and their streaming limit are measured in the same
 * run, before and after.
 *
 *     bench_ring [--seconds N] [--case TEXT] [--producers N] [--who TEXT]
 *
 * N seconds per case, over all contestants and repeats; only cases, and only contestants, whose
 * name has TEXT in it.
 */
#include "ring_peers/contest.h"

#include "snicstore/base.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 5, PRODUCERS_MAX = 64, LATENCIES = 4000 };

static const struct bench_ring *const contestants[] = {
    &bench_ring_commit,   &bench_ring_quiescent, &bench_ring_one,  &bench_ring_one_quiescent,
    &bench_ring_faithful, &bench_ring_mutex,     &bench_ring_farm,
#if defined(SNIC_PEER_LIBDPDK)
    &bench_ring_rte_hts,  &bench_ring_rte_sp,
#endif
#if defined(SNIC_PEER_CK)
    &bench_ring_ck,
#endif
};
#define CONTESTANTS (sizeof(contestants) / sizeof(contestants[0]))

struct bench_case {
    const char *name;
    uint32_t producers, bytes, batch;
    uint32_t lag_ns;
};

static struct bench_case cases[] = {
    {"eager_8B", 1, 8, 1, 0},
    {"eager_8B", 64, 8, 1, 0},
    {"poll2us_8B", 1, 8, 1, 2000},
    {"poll2us_8B", 64, 8, 1, 2000},
    {"eager_8B_batch16", 1, 8, 16, 0},
    {"eager_8B_batch16", 64, 8, 16, 0},
    {"poll2us_8B_batch16", 1, 8, 16, 2000},
    {"eager_64B", 1, 64, 1, 0},
    {"eager_64B_batch16", 1, 64, 16, 0},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static struct {
    int cpus[1024];
    int cpu_count;
    double ns_per_tick;
    double seconds;
    const char *only, *who;
    uint32_t producers;
    double streaming[2];   /* GB/s before and after */
    double ours[2][CASES]; /* Mop/s, by default and with one producer */
} bench;

/* ---- Time, processors, medians ---- */

static double bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double bench_cpu(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void bench_sleep(double seconds)
{
    struct timespec t;

    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

static void bench_machine(void)
{
    cpu_set_t set;
    double start;
    uint64_t ticks;
    int i;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        for (i = 0; i < CPU_SETSIZE && i < 1024; i++)
            if (CPU_ISSET((size_t)i, &set))
                bench.cpus[bench.cpu_count++] = i;
    start = bench_now();
    ticks = bench_ticks();
    bench_sleep(0.05);
    bench.ns_per_tick = (bench_now() - start) * 1e9 / (double)(bench_ticks() - ticks);
}

/* Pin the calling thread to the index-th processor we may use. */
static void bench_pin(uint32_t index)
{
    cpu_set_t set;

    if (bench.cpu_count == 0)
        return;
    CPU_ZERO(&set);
    CPU_SET((size_t)bench.cpus[index % (uint32_t)bench.cpu_count], &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0)
        fprintf(stderr, "bench_ring: could not pin a thread\n");
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *v, uint32_t n)
{
    qsort(v, n, sizeof(*v), compare);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* ---- Calibration ---- */

struct pair {
    _Atomic uint64_t ball __attribute__((aligned(128)));
    _Atomic int ready; /* the other thread is where it should be */
    uint64_t rounds;
    unsigned char *block;
    uint64_t bytes;
};

static void *pong(void *ctx)
{
    struct pair *p = ctx;
    uint64_t i;

    bench_pin(1);
    p->ready = 1;
    for (i = 1; i < p->rounds * 2; i += 2) {
        while (atomic_load_explicit(&p->ball, memory_order_acquire) != i)
            bench_pause();
        atomic_store_explicit(&p->ball, i + 1, memory_order_release);
    }
    return NULL;
}

/* One way, in ns: a line goes to the other core and back. */
static double handover_ns(void)
{
    struct pair *p = aligned_alloc(128, (sizeof(*p) + 127) / 128 * 128);
    pthread_t t;
    double start, ns;
    uint64_t i;

    if (p == NULL)
        abort();
    memset(p, 0, sizeof(*p));
    p->rounds = 20000;
    if (pthread_create(&t, NULL, pong, p) != 0)
        abort();
    bench_pin(0);
    while (!p->ready)
        sched_yield();
    start = bench_now();
    for (i = 0; i < p->rounds * 2; i += 2) {
        atomic_store_explicit(&p->ball, i + 1, memory_order_release);
        while (atomic_load_explicit(&p->ball, memory_order_acquire) != i + 2)
            bench_pause();
    }
    ns = (bench_now() - start) * 1e9 / (double)(p->rounds * 2);
    pthread_join(t, NULL);
    free(p);
    return ns;
}

#define STREAM_CHUNK 16384U
#define STREAM_CHUNKS 32U

static void *stream_read(void *ctx)
{
    struct pair *p = ctx;
    volatile uint64_t keep = 0;
    uint64_t i, k, sum = 0, v;

    bench_pin(1);
    p->ready = 1;
    for (i = 1; i <= p->rounds; i++) {
        const unsigned char *chunk = p->block + i % STREAM_CHUNKS * STREAM_CHUNK;

        while (atomic_load_explicit(&p->ball, memory_order_acquire) < i)
            bench_pause();
        for (k = 0; k < STREAM_CHUNK; k += 8) {
            memcpy(&v, chunk + k, 8);
            sum += v;
        }
        __atomic_store_n(&p->bytes, i, __ATOMIC_RELEASE);
    }
    keep = sum;
    (void)keep;
    return NULL;
}

/* GB/s from one core's stores to the other's loads, through as many bytes as a ring has. */
static double streaming_gbs(void)
{
    struct pair *p = aligned_alloc(128, (sizeof(*p) + 127) / 128 * 128);
    pthread_t t;
    double start, seconds;
    uint64_t i, k;

    if (p == NULL)
        abort();
    memset(p, 0, sizeof(*p));
    p->rounds = 8000;
    p->block = aligned_alloc(4096, (size_t)STREAM_CHUNK * STREAM_CHUNKS);
    if (p->block == NULL || pthread_create(&t, NULL, stream_read, p) != 0)
        abort();
    bench_pin(0);
    while (!p->ready)
        sched_yield();
    start = bench_now();
    for (i = 1; i <= p->rounds; i++) {
        unsigned char *chunk = p->block + i % STREAM_CHUNKS * STREAM_CHUNK;

        while (i > STREAM_CHUNKS / 2 &&
               __atomic_load_n(&p->bytes, __ATOMIC_ACQUIRE) < i - STREAM_CHUNKS / 2)
            bench_pause();
        for (k = 0; k < STREAM_CHUNK; k += 8)
            memcpy(chunk + k, &i, 8);
        atomic_store_explicit(&p->ball, i, memory_order_release);
    }
    pthread_join(t, NULL);
    seconds = bench_now() - start;
    free(p->block);
    free(p);
    return (double)(8000 * (uint64_t)STREAM_CHUNK) / seconds / 1e9;
}

/* A fixed loop of arithmetic: what the machine adds of its own. */
static double noise_loop(void)
{
    double start = bench_now();
    volatile uint64_t x = 1;
    uint32_t i;

    for (i = 0; i < 2000000; i++)
        x = x * 6364136223846793005u + 1;
    return bench_now() - start;
}

static void calibrate(const char *when, double *streaming)
{
    double v[REPEATS];
    uint32_t i;

    for (i = 0; i < REPEATS; i++)
        v[i] = handover_ns();
    printf("row ring handover_%s - 2 %.1f ns\n", when, median(v, REPEATS));
    for (i = 0; i < REPEATS; i++)
        v[i] = streaming_gbs();
    *streaming = median(v, REPEATS);
    printf("row ring streaming_%s - 2 %.2f GB/s\n", when, *streaming);
    fflush(stdout);
}

/* ---- One run ---- */

struct thread {
    pthread_t id;
    struct bench_run *run;
    const struct bench_ring *who;
    void *ring;
    uint32_t index;
};

static void *produce_thread(void *ctx)
{
    struct thread *t = ctx;

    bench_pin(t->index);
    t->who->produce(t->run, t->ring);
    return NULL;
}

static void *consume_thread(void *ctx)
{
    struct thread *t = ctx;
    uint64_t *got = malloc(sizeof(*got));

    if (got == NULL)
        abort();
    bench_pin(1);
    *got = t->who->consume(t->run, t->ring);
    return got;
}

struct outcome {
    double mops;
    double cpu_ns; /* per message, all threads */
};

static struct outcome one_run(const struct bench_ring *who, struct bench_run *r, uint32_t producers,
                              double seconds)
{
    struct thread t[PRODUCERS_MAX + 1];
    struct outcome o;
    double start, cpu;
    void *got;
    uint32_t i;

    memset(t, 0, sizeof(t));
    atomic_store(&r->stop, 0);
    t[0].ring = who->open(r);
    for (i = 0; i <= producers; i++) {
        t[i].run = r;
        t[i].who = who;
        t[i].ring = t[0].ring;
        t[i].index = i == 0 ? 1 : i - 1;
    }
    start = bench_now();
    cpu = bench_cpu();
    for (i = 0; i <= producers; i++)
        if (pthread_create(&t[i].id, NULL, i == 0 ? consume_thread : produce_thread, &t[i]) != 0)
            abort();
    bench_sleep(seconds);
    atomic_store(&r->stop, 1);
    pthread_join(t[0].id, &got);
    seconds = bench_now() - start;
    for (i = 1; i <= producers; i++)
        pthread_join(t[i].id, NULL);
    cpu = bench_cpu() - cpu;
    o.mops = (double)*(uint64_t *)got / seconds / 1e6;
    o.cpu_ns = cpu * 1e9 / (double)(*(uint64_t *)got + 1);
    free(got);
    who->close(t[0].ring);
    return o;
}

/* ---- Cases ---- */

/* Does this contestant run this case? */
static int takes_part(const struct bench_ring *who, uint32_t producers, uint32_t batch)
{
    return (batch == 1 || who->has_batch) &&
           (who->producers_max == 0 || producers <= who->producers_max) &&
           (bench.who == NULL || strstr(who->name, bench.who) != NULL);
}

/* @p value of each contestant that takes part, larger is better if @p larger: the ratios of the
 * ring as it is by default, and of the one that has its flag for a single producer. */
static void print_ratios(const char *name, uint32_t producers, uint32_t batch, const double *value,
                         int larger)
{
    static const struct bench_ring *const mine[] = {&bench_ring_commit, &bench_ring_one};
    uint32_t m, o, i;

    for (m = 0; m < 2; m++) {
        for (o = 0; contestants[o] != mine[m]; o++)
            ;
        for (i = 0; i < CONTESTANTS && takes_part(mine[m], producers, batch); i++)
            if (i != o && value[i] > 0 && value[o] > 0 &&
                takes_part(contestants[i], producers, batch))
                printf("ratio ring %s%s ours/%s %u %.2f\n", name, m != 0 ? ":one_producer" : "",
                       contestants[i]->name, producers,
                       larger ? value[o] / value[i] : value[i] / value[o]);
    }
}

static void throughput(const struct bench_case *c)
{
    static double mops[CONTESTANTS][REPEATS], cpu[CONTESTANTS][REPEATS], value[CONTESTANTS];
    double slice = bench.seconds / (double)(CONTESTANTS * REPEATS);
    uint32_t i, k;

    slice = slice < 0.01 ? 0.01 : slice;
    for (k = 0; k < REPEATS; k++)
        for (i = 0; i < CONTESTANTS; i++) {
            struct bench_run r;
            struct outcome o;

            if (!takes_part(contestants[i], c->producers, c->batch))
                continue;
            memset(&r, 0, sizeof(r));
            r.bytes = c->bytes;
            r.batch = c->batch;
            r.lag = (uint64_t)((double)c->lag_ns / bench.ns_per_tick);
            o = one_run(contestants[i], &r, c->producers, slice);
            mops[i][k] = o.mops;
            cpu[i][k] = o.cpu_ns;
        }
    for (i = 0; i < CONTESTANTS; i++) {
        if (!takes_part(contestants[i], c->producers, c->batch))
            continue;
        value[i] = median(mops[i], REPEATS);
        printf("row ring %s %s %u %.3f Mop/s\n", c->name, contestants[i]->name, c->producers,
               value[i]);
        printf("row ring %s_cpu %s %u %.1f ns/op\n", c->name, contestants[i]->name, c->producers,
               median(cpu[i], REPEATS));
        if (contestants[i] == &bench_ring_commit || contestants[i] == &bench_ring_one)
            bench.ours[contestants[i] == &bench_ring_one][c - cases] = value[i];
    }
    print_ratios(c->name, c->producers, c->batch, value, 1);
    fflush(stdout);
}

/* Records of this many bytes with their headers against what two cores can hand over at all, as
 * measured in this run. */
static void streaming_ratios(void)
{
    double limit = (bench.streaming[0] + bench.streaming[1]) / 2;
    uint32_t i, m;

    for (i = 0; i < CASES; i++)
        for (m = 0; m < 2; m++)
            if (cases[i].batch > 1 && cases[i].producers == 1 && bench.ours[m][i] > 0)
                printf("ratio ring %s%s ours/streaming 1 %.2f\n", cases[i].name,
                       m != 0 ? ":one_producer" : "",
                       bench.ours[m][i] * (double)snic_align_up(cases[i].bytes + 8, 16) / 1e3 /
                           limit);
}

/* Median of one run, or 0 without messages. */
static double latency_run(const struct bench_ring *who, uint32_t producers, double seconds)
{
    static uint64_t ticks[LATENCIES];
    static double ns[LATENCIES];
    static struct bench_run r;
    uint64_t n, i;

    memset(&r, 0, sizeof(r));
    r.bytes = 8;
    r.batch = 1;
    r.stamps = 1;
    r.latency = ticks;
    r.latency_max = LATENCIES;
    (void)one_run(who, &r, producers, seconds);
    n = r.received < LATENCIES ? r.received : LATENCIES;
    for (i = 0; i < n; i++)
        ns[i] = (double)ticks[i] * bench.ns_per_tick;
    return n > 0 ? median(ns, (uint32_t)n) : 0;
}

/* One message at a time of each producer, with pauses: with one producer the low-load latency. */
static void latency(uint32_t producers)
{
    static double medians[CONTESTANTS][REPEATS], value[CONTESTANTS];
    const char *name = producers == 1 ? "latency_low_load" : "latency";
    double slice = bench.seconds / (double)(CONTESTANTS * REPEATS);
    uint32_t i, k;

    slice = slice < 0.02 * producers ? 0.02 * producers : slice;
    for (k = 0; k < REPEATS; k++)
        for (i = 0; i < CONTESTANTS; i++)
            if (takes_part(contestants[i], producers, 1))
                medians[i][k] = latency_run(contestants[i], producers, slice);
    for (i = 0; i < CONTESTANTS; i++) {
        if (!takes_part(contestants[i], producers, 1))
            continue;
        value[i] = median(medians[i], REPEATS);
        printf("row ring %s %s %u %.0f ns\n", name, contestants[i]->name, producers, value[i]);
    }
    print_ratios(name, producers, 1, value, 0);
    fflush(stdout);
}

/* --producers N that no case has: the cases of one producer get so many. */
static void other_producers(void)
{
    uint32_t i;

    for (i = 0; i < CASES && cases[i].producers != bench.producers; i++)
        continue;
    if (i < CASES || bench.producers == 0 || bench.producers > PRODUCERS_MAX)
        return;
    for (i = 0; i < CASES; i++)
        if (cases[i].producers == 1)
            cases[i].producers = bench.producers;
}

int main(int argc, char **argv)
{
    double noise[REPEATS * 2];
    uint32_t i;
    int a;

    bench.seconds = 3;
    for (a = 1; a < argc; a++) {
        if (strcmp(argv[a], "--seconds") == 0 && a + 1 < argc)
            bench.seconds = strtod(argv[++a], NULL);
        else if (strcmp(argv[a], "--case") == 0 && a + 1 < argc)
            bench.only = argv[++a];
        else if (strcmp(argv[a], "--producers") == 0 && a + 1 < argc)
            bench.producers = (uint32_t)strtoul(argv[++a], NULL, 10);
        else if (strcmp(argv[a], "--who") == 0 && a + 1 < argc)
            bench.who = argv[++a];
        else {
            fprintf(stderr, "usage: bench_ring [--seconds N] [--case TEXT] [--producers N] "
                            "[--who TEXT]\n");
            return 2;
        }
    }
    other_producers();
    bench_machine();
    printf("row ring cores - - %d cpus\n", bench.cpu_count);
    for (i = 0; i < REPEATS; i++)
        noise[i] = noise_loop();
    calibrate("before", &bench.streaming[0]);
    for (i = 0; i < CASES; i++)
        if ((bench.only == NULL || strstr(cases[i].name, bench.only) != NULL) &&
            (bench.producers == 0 || cases[i].producers == bench.producers))
            throughput(&cases[i]);
    if (bench.only == NULL || strstr("latency_low_load", bench.only) != NULL)
        latency(bench.producers != 0 && bench.producers <= BENCH_SEATS ? bench.producers : 1);
    calibrate("after", &bench.streaming[1]);
    streaming_ratios();
    for (i = REPEATS; i < REPEATS * 2; i++)
        noise[i] = noise_loop();
    (void)median(noise, REPEATS * 2);
    printf("row ring noise - - %.1f %%\n",
           (noise[REPEATS * 2 - 1] - noise[0]) / noise[REPEATS] * 100);
    return 0;
}
