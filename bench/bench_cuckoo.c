/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The cache table beside other concurrent tables: 8-byte keys, 16-byte items, the same hash.
 * Prints the rows of the benchmark contract: medians of interleaved repeats, each on a fresh table,
 * with the calibration of this machine's memory and the CPU time per operation.
 *
 *   bench_cuckoo [--seconds N] [--slots N] [--repeats N] [--peer NAME]
 *
 * --seconds is the time per timed case (0.1), --slots the capacity. Without it there are two: first
 * 16777216, at which memory rules and for which the goals are set, then 4194304 with _4m behind the
 * names of the cases, which a large last-level cache holds. ours/best is the ratio to the best of
 * the concurrent peers in that case.
 */
#include "cuckoo_peers/peer.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define REPEATS_MAX 31
#define PEERS_MAX 8
#define HUGE_PAGE ((uint64_t)2 << 20)

enum bench_case {
    CASE_INSERT_50,
    CASE_INSERT_BULK_50,
    CASE_INSERT_95,
    CASE_HIT_1,
    CASE_HIT_2,
    CASE_HIT_BULK_1,
    CASE_HIT_BULK_2,
    CASE_MISS_1,
    CASE_MISS_BULK_1,
    CASE_MISS_BULK_2,
    CASE_MIX_WRITE,
    CASE_MIX_READ,
    CASES
};

static const struct {
    const char *name;
    int threads;
} cases[CASES] = {
    {"insert_0_50", 1},    {"insert_bulk_0_50", 1}, {"insert_85_95", 1},  {"hit_85", 1},
    {"hit_85", 2},         {"hit_bulk32_85", 1},    {"hit_bulk32_85", 2}, {"miss_85", 1},
    {"miss_bulk32_85", 1}, {"miss_bulk32_85", 2},   {"writer_of_mix", 1}, {"reader_of_mix", 1},
};

/* Results of one peer. */
struct result {
    const struct bench_peer *peer;
    double mops[CASES][REPEATS_MAX]; /* 0: the peer has no such case */
    double cpu_ns[CASES][REPEATS_MAX];
    double load; /* at the first refusal */
    double bytes_per_slot;
    uint64_t wrong;     /* outside the mix */
    uint64_t mix_wrong; /* false misses and refusals in the mix */
    uint64_t mix_torn;
    int failed;
};

static struct {
    uint64_t slots;
    double seconds;
    uint32_t repeats;
    const char *only;
    const char *suffix; /* of the cases' names */
    double noise[REPEATS_MAX];
    double dependent_ns[REPEATS_MAX];
    double lines[REPEATS_MAX];
    double memcpy_gb[REPEATS_MAX];
} bench = {0, 0.1, 5, NULL, "", {0}, {0}, {0}, {0}};

static struct result results[PEERS_MAX];
static uint32_t result_count;
static volatile uint64_t sink;

/* ---- Memory ---- */

void *bench_map(uint64_t bytes)
{
    uint64_t size = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    unsigned char *raw =
        mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t head;

    if (raw == MAP_FAILED)
        return NULL;
    head = (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
    if (head > 0)
        munmap(raw, head);
    munmap(raw + head + size, HUGE_PAGE - head);
    (void)madvise(raw + head, size, MADV_HUGEPAGE);
    memset(raw + head, 0, bytes);
    return raw + head;
}

void bench_unmap(void *memory, uint64_t bytes)
{
    munmap(memory, (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
}

static uint64_t malloc_bytes(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.hblkhd + m.uordblks;
}

/* ---- Calibration ---- */

static double since(uint64_t start)
{
    return (double)(bench_clock(CLOCK_MONOTONIC) - start);
}

static double calibrate_noise(void)
{
    uint64_t start = bench_clock(CLOCK_MONOTONIC);
    uint64_t v = 1;

    for (uint32_t i = 0; i < 20000000; i++)
        v = v * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    sink = v;
    return since(start);
}

/* Random reads over as much memory as our table has: each needing the last, and not. */
static void calibrate(uint32_t repeat)
{
    uint64_t lines = bench.slots * 26 / 64;
    uint64_t bytes = lines * 64;
    uint64_t *memory = bench_map(bytes);
    uint64_t at = 0;
    uint64_t sum = 0;
    uint64_t state = 1;
    uint64_t start;
    uint32_t n;

    bench.noise[repeat] = calibrate_noise();
    if (memory == NULL)
        return;
    for (uint64_t i = 0; i < lines; i++)
        memory[i * 8] = bench_key(i);
    start = bench_clock(CLOCK_MONOTONIC);
    for (n = 0; n < 500000; n++) {
        at = ((memory[at * 8] + n) * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
        at = at * lines >> 32;
    }
    bench.dependent_ns[repeat] = since(start) / n;
    start = bench_clock(CLOCK_MONOTONIC);
    for (n = 0; n < 5000000; n++)
        sum += memory[bench_next(&state, lines) * 8];
    bench.lines[repeat] = n * 1e3 / since(start);
    start = bench_clock(CLOCK_MONOTONIC);
    memcpy(memory, memory + lines / 2 * 8, lines / 2 * 64);
    bench.memcpy_gb[repeat] = (double)(lines / 2 * 64) / since(start);
    sink = at + sum;
    bench_unmap(memory, bytes);
}

/* ---- Running ---- */

struct worker {
    struct bench_job job;
    pthread_barrier_t *barrier;
    uint32_t cpu;
};

/* The CPUs of the process at its start; a thread inherits its parent's single one. */
static cpu_set_t all_cpus;

static void pin(uint32_t index)
{
    cpu_set_t one;
    uint32_t seen = 0;

    index %= (uint32_t)CPU_COUNT(&all_cpus);
    for (uint32_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &all_cpus) && seen++ == index) {
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            (void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
            return;
        }
    }
}

static const struct bench_peer *running;

static void *work(void *arg)
{
    struct worker *w = arg;

    pin(w->cpu);
    pthread_barrier_wait(w->barrier);
    w->job.deadline_ns = bench_clock(CLOCK_MONOTONIC) + (uint64_t)(bench.seconds * 1e9);
    running->run(&w->job);
    return NULL;
}

/* Run the jobs together, one per thread and CPU. */
static void run_jobs(struct worker *workers, uint32_t n)
{
    pthread_barrier_t barrier;
    pthread_t threads[2];

    pthread_barrier_init(&barrier, NULL, n);
    for (uint32_t i = 0; i < n; i++) {
        workers[i].barrier = &barrier;
        workers[i].cpu = i;
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

static void run_case(struct result *r, void *table, enum bench_case c, enum bench_mode mode,
                     uint32_t repeat)
{
    uint32_t n = (uint32_t)cases[c].threads;
    struct worker workers[2];
    double cpu = 0;
    uint64_t ops = 0;

    memset(workers, 0, sizeof(workers));
    for (uint32_t i = 0; i < n; i++) {
        workers[i].job.table = table;
        workers[i].job.mode = mode;
        workers[i].job.range = bench.slots / 2;
        workers[i].job.seed = repeat * 2 + i;
    }
    run_jobs(workers, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct bench_job *j = &workers[i].job;

        r->mops[c][repeat] += (double)j->ops * 1e3 / (double)j->wall_ns;
        cpu += (double)j->cpu_ns;
        ops += j->ops;
        r->wrong += j->wrong + j->torn;
    }
    r->cpu_ns[c][repeat] = cpu / (double)ops;
}

/* One writer and one reader at once; *oldest and *newest are the guests' range. */
static void run_mix(struct result *r, void *table, uint64_t *oldest, uint64_t *newest,
                    uint32_t repeat)
{
    struct worker workers[2];

    memset(workers, 0, sizeof(workers));
    for (uint32_t i = 0; i < 2; i++) {
        struct bench_job *j = &workers[i].job;

        j->table = table;
        j->mode = i == 0 ? BENCH_WRITE : BENCH_HIT;
        j->range = bench.slots / 2;
        j->oldest = *oldest;
        j->newest = *newest;
        j->seed = repeat + i;
    }
    run_jobs(workers, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct bench_job *j = &workers[i].job;
        enum bench_case c = i == 0 ? CASE_MIX_WRITE : CASE_MIX_READ;

        r->mops[c][repeat] = (double)j->ops * 1e3 / (double)j->wall_ns;
        r->cpu_ns[c][repeat] = (double)j->cpu_ns / (double)j->ops;
        r->mix_wrong += j->wrong;
        r->mix_torn += j->torn;
    }
    *oldest = workers[0].job.oldest;
    *newest = workers[0].job.newest;
}

static uint64_t timed_insert(struct result *r, void *table, enum bench_case c, uint64_t first,
                             uint64_t end, uint32_t repeat)
{
    uint64_t (*insert)(void *, uint64_t, uint64_t) =
        c == CASE_INSERT_BULK_50 ? r->peer->insert_bulk : r->peer->insert;
    uint64_t wall = bench_clock(CLOCK_MONOTONIC);
    uint64_t cpu = bench_clock(CLOCK_THREAD_CPUTIME_ID);
    uint64_t done = insert(table, first, end);

    if (done == 0)
        return first;
    r->mops[c][repeat] = (double)done * 1e3 / since(wall);
    r->cpu_ns[c][repeat] = (double)(bench_clock(CLOCK_THREAD_CPUTIME_ID) - cpu) / (double)done;
    return first + done;
}

/* All cases of one peer on a fresh table. */
static void run_peer(struct result *r, uint32_t repeat)
{
    const struct bench_peer *p = r->peer;
    uint64_t before = malloc_bytes();
    uint64_t half = bench.slots / 2;
    uint64_t oldest = half;
    uint64_t newest = bench.slots / 100 * 85;
    void *table;

    if (p->insert_bulk != NULL && (table = p->open(bench.slots)) != NULL) {
        (void)timed_insert(r, table, CASE_INSERT_BULK_50, 0, half, repeat);
        p->close(table);
    }
    table = p->open(bench.slots);
    if (table == NULL) {
        r->failed = 1;
        return;
    }
    running = p;
    r->wrong += timed_insert(r, table, CASE_INSERT_50, 0, half, repeat) != half;
    r->wrong += p->insert(table, half, newest) != newest - half;
    run_case(r, table, CASE_HIT_1, BENCH_HIT, repeat);
    run_case(r, table, CASE_HIT_2, BENCH_HIT, repeat);
    run_case(r, table, CASE_MISS_1, BENCH_MISS, repeat);
    if (p->has_bulk) {
        run_case(r, table, CASE_HIT_BULK_1, BENCH_HIT_BULK, repeat);
        run_case(r, table, CASE_HIT_BULK_2, BENCH_HIT_BULK, repeat);
        run_case(r, table, CASE_MISS_BULK_1, BENCH_MISS_BULK, repeat);
        run_case(r, table, CASE_MISS_BULK_2, BENCH_MISS_BULK, repeat);
    }
    run_mix(r, table, &oldest, &newest, repeat);
    newest = timed_insert(r, table, CASE_INSERT_95, newest, newest + bench.slots / 10, repeat);
    r->bytes_per_slot = (double)(malloc_bytes() - before + p->bytes(table)) / (double)bench.slots;
    if (p->is_bounded && repeat == 0) {
        newest += p->insert(table, newest, newest + bench.slots);
        r->load = (double)(newest - oldest + half) / (double)bench.slots;
    }
    p->close(table);
}

/* ---- Printing ---- */

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, bench.repeats, sizeof(values[0]), by_double);
    return values[bench.repeats / 2];
}

static void print_row(const char *what, const char *more, const char *who, int threads,
                      double value, const char *unit)
{
    char count[16] = "-";

    if (threads > 0)
        snprintf(count, sizeof(count), "%d", threads);
    printf("row cuckoo %s%s%s %s %s %.*f %s\n", what, bench.suffix, more, who, count,
           unit[0] == '-' ? 4 : 2, value, unit);
}

static void print_calibration(void)
{
    double noise = median(bench.noise);

    print_row("noise", "", "-", 0, 100 * (bench.noise[bench.repeats - 1] - bench.noise[0]) / noise,
              "%");
    print_row("random_read_dependent", "", "-", 1, median(bench.dependent_ns), "ns");
    print_row("line_reads_independent", "", "-", 1, median(bench.lines), "M/s");
    print_row("memcpy", "", "-", 1, median(bench.memcpy_gb), "GB/s");
    print_row("slots", "", "-", 0, (double)bench.slots, "slots");
}

static void print_peer(struct result *r)
{
    const char *who = r->peer->name;

    for (int c = 0; c < CASES; c++) {
        double rate = median(r->mops[c]);

        if (!(rate > 0))
            continue;
        print_row(cases[c].name, "", who, cases[c].threads, rate, "Mop/s");
        print_row(cases[c].name, "_cpu", who, cases[c].threads, median(r->cpu_ns[c]), "ns/op");
    }
    if (r->peer->is_bounded)
        print_row("load_when_full", "", who, 1, r->load, "-");
    print_row("bytes_per_slot", "", who, 0, r->bytes_per_slot, "bytes");
    print_row("mix_false_misses", "", who, 2, (double)r->mix_wrong, "count");
    print_row("mix_torn_items", "", who, 2, (double)r->mix_torn, "count");
    if (r->wrong > 0)
        print_row("wrong_results", "", who, 0, (double)r->wrong, "count");
}

static void print_ratios(void)
{
    for (int c = 0; c < CASES; c++) {
        double ours = results[0].mops[c][bench.repeats / 2];
        double best = 0;

        for (uint32_t i = 1; i < result_count; i++) {
            double theirs = results[i].failed ? 0 : results[i].mops[c][bench.repeats / 2];

            if (ours > 0 && theirs > 0)
                printf("ratio cuckoo %s%s ours/%s %d %.2f\n", cases[c].name, bench.suffix,
                       results[i].peer->name, cases[c].threads, ours / theirs);
            best = theirs > best ? theirs : best;
        }
        if (ours > 0 && best > 0)
            printf("ratio cuckoo %s%s ours/best %d %.2f\n", cases[c].name, bench.suffix,
                   cases[c].threads, ours / best);
    }
}

/* ---- Main ---- */

static void add_peer(const struct bench_peer *p)
{
    if (p == &bench_ours || bench.only == NULL || strcmp(bench.only, p->name) == 0)
        results[result_count++].peer = p;
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--seconds") == 0)
            bench.seconds = strtod(value, NULL);
        else if (strcmp(argv[i], "--slots") == 0)
            bench.slots = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--repeats") == 0)
            bench.repeats = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(argv[i], "--peer") == 0)
            bench.only = value;
        else
            bench.slots = 1;
    }
    if (!(bench.seconds > 0) || bench.seconds > 60 || (bench.slots > 0 && bench.slots < 1024) ||
        bench.slots > UINT64_C(1) << 30 || bench.repeats < 1 || bench.repeats > REPEATS_MAX) {
        fprintf(stderr,
                "usage: %s [--seconds (0..60]] [--slots 1024..2^30] [--repeats 1..%d] "
                "[--peer NAME]\n",
                argv[0], REPEATS_MAX);
        exit(2);
    }
}

/* Let all peers' malloc use huge pages: glibc reads this when a program starts. */
static void huge_malloc(char **argv)
{
    const char *name = "GLIBC_TUNABLES";

    if (getenv(name) != NULL)
        return;
    setenv(name, "glibc.malloc.hugetlb=1", 1);
    execv("/proc/self/exe", argv);
}

/* All of one size; 1 if our results were wrong. */
static int run_size(uint64_t slots, const char *suffix)
{
    bench.slots = slots;
    bench.suffix = suffix;
    for (uint32_t i = 0; i < result_count; i++) {
        const struct bench_peer *p = results[i].peer;

        memset(&results[i], 0, sizeof(results[i]));
        results[i].peer = p;
    }
    for (uint32_t repeat = 0; repeat < bench.repeats; repeat++) {
        calibrate(repeat);
        for (uint32_t i = 0; i < result_count; i++) {
            if (!results[i].failed)
                run_peer(&results[i], repeat);
        }
    }
    print_calibration();
    for (uint32_t i = 0; i < result_count; i++) {
        if (!results[i].failed)
            print_peer(&results[i]);
    }
    print_ratios();
    fflush(stdout);
    return results[0].failed || results[0].wrong + results[0].mix_wrong + results[0].mix_torn > 0;
}

int main(int argc, char **argv)
{
    int bad;

    parse(argc, argv);
    huge_malloc(argv);
    add_peer(&bench_ours);
#ifdef SNIC_PEER_LIBDPDK
    add_peer(&bench_rte);
#endif
#ifdef SNIC_PEER_CK
    add_peer(&bench_ck);
#endif
#if defined(SNIC_PEER_LIBURCU_CDS) && defined(SNIC_PEER_LIBURCU_QSBR)
    add_peer(&bench_urcu);
#endif
#ifdef SNIC_PEER_LIBCUCKOO
    add_peer(&bench_libcuckoo);
#endif
    if (sched_getaffinity(0, sizeof(all_cpus), &all_cpus) != 0) {
        perror("sched_getaffinity");
        return 1;
    }
    pin(0);
    if (bench.slots != 0) {
        bad = run_size(bench.slots, "");
    } else {
        bad = run_size(16777216, "");
        bad |= run_size(4194304, "_4m");
    }
    bad |= bench_items(bench.repeats, bench.seconds);
    printf("row cuckoo insert paper 1 1.2 Mop/s\n");
    printf("row cuckoo hit paper 8 15.7 Mop/s\n");
    return bad;
}
