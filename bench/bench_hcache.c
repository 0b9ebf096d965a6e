/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The hybrid cache's hit path beside a bare memcpy from random pages of the same region, singly and
 * in batches, on one and two threads; and hit rates of its replacement beside LRU and ARC, fully
 * associative. Prints the rows of the benchmark contract.
 *
 *   bench_hcache [--seconds N] [--only hit|rates] [--pages N] [--refs N]
 */
#include "hcache_peers/peer.h"

#include "snicstore/hcache.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { REPEATS = 7, BATCH = 32, THREADS_MAX = 2 };
enum kind { MEMCPY, HIT, HIT_N, KINDS };
static const char *const kind_names[KINDS] = {"memcpy_4k", "hit_4k", "hit_4k_batch32"};

static struct {
    double seconds;
    uint64_t pages;
    uint64_t refs;
    const char *only;
    void *mem;
    size_t size;
    struct snic_hcache_info info;
} bench = {0.1, 65536, 400000, "", NULL, 0, {0}};

struct job {
    enum kind kind;
    unsigned index;
    double ns; /* per page */
    volatile int *go;
};

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Pages of inode 1; only those that got an entry are used. */
static uint64_t *present;
static uint64_t presents;

static void fill(void)
{
    struct snic_hcache_opts o = {.opts_size = sizeof(o)};
    struct snic_hcache_host h;
    struct snic_hcache_page page;
    uint64_t lpn;

    o.pages = bench.pages;
    bench.size = snic_hcache_memsize(&o);
    bench.mem = mmap(NULL, bench.size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    present = malloc(bench.pages * sizeof(*present));
    if (bench.size == 0 || bench.mem == MAP_FAILED || present == NULL ||
        madvise(bench.mem, bench.size, MADV_HUGEPAGE) > 0 ||
        snic_hcache_init(bench.mem, bench.size, &o) != 0 ||
        snic_hcache_geometry(bench.mem, bench.size, &bench.info) != 0 ||
        snic_hcache_host_attach(&h, bench.mem, bench.size, 1, 1) != 0) {
        fprintf(stderr, "bench_hcache: no memory\n");
        exit(1);
    }
    for (lpn = 0; lpn < bench.pages; lpn++)
        if (snic_hcache_lock(&h, 1, lpn, SNIC_HCACHE_FILL, &page) == 0) {
            memset(page.data, (int)lpn, 4096);
            if (snic_hcache_unlock(&h, &page, SNIC_HCACHE_UNLOCK_FILLED) == 0)
                present[presents++] = lpn;
        }
}

static void *run(void *arg)
{
    static _Alignas(64) unsigned char out[THREADS_MAX][BATCH][4096];
    struct job *j = arg;
    struct snic_hcache_req reqs[BATCH];
    struct snic_hcache_host h;
    struct snic_rng rng;
    uint64_t done = 0, failed = 0;
    double start, end;
    uint32_t i;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(j->index, &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
    snic_rng_init(&rng, j->index + 1);
    if (snic_hcache_host_attach(&h, bench.mem, bench.size, j->index + 1, 1) != 0)
        exit(1);
    start = cpu_ns();
    end = now_ns() + bench.seconds * 1e9;
    while (now_ns() < end)
        for (i = 0; i < 64; i += BATCH) {
            uint32_t k;

            for (k = 0; k < BATCH; k++) {
                reqs[k].ino = 1;
                reqs[k].lpn = present[snic_rng_below(&rng, presents)];
                reqs[k].offset = 0;
                reqs[k].bytes = 4096;
                reqs[k].out = out[j->index][k];
            }
            if (j->kind == HIT_N)
                failed += BATCH - snic_hcache_read_n(&h, reqs, BATCH);
            for (k = 0; k < BATCH && j->kind != HIT_N; k++)
                if (j->kind == HIT)
                    failed += snic_hcache_read(&h, 1, reqs[k].lpn, 0, 4096, reqs[k].out) < 0;
                else
                    memcpy(reqs[k].out,
                           (char *)bench.mem + bench.info.data_offset +
                               reqs[k].lpn % bench.pages * 4096,
                           4096);
            done += BATCH;
        }
    j->ns = (cpu_ns() - start) / (double)done;
    if (failed != 0 && j->index == 0)
        fprintf(stderr, "%s: %llu of %llu busy\n", kind_names[j->kind], (unsigned long long)failed,
                (unsigned long long)done);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

static void hits(void)
{
    static double ns[KINDS][THREADS_MAX + 1][REPEATS];
    double base;
    unsigned repeat, threads, t;
    int kind;

    fill();
    for (repeat = 0; repeat < REPEATS; repeat++)
        for (threads = 1; threads <= THREADS_MAX; threads++)
            for (kind = 0; kind < KINDS; kind++) {
                struct job jobs[THREADS_MAX];
                pthread_t id[THREADS_MAX];
                double sum = 0;

                for (t = 0; t < threads; t++) {
                    jobs[t] = (struct job){(enum kind)kind, t, 0, NULL};
                    pthread_create(&id[t], NULL, run, &jobs[t]);
                }
                for (t = 0; t < threads; t++) {
                    pthread_join(id[t], NULL);
                    sum += jobs[t].ns;
                }
                ns[kind][threads][repeat] = sum / threads;
            }
    base = median(ns[MEMCPY][1], REPEATS) > 0 ? ns[MEMCPY][1][0] : 1; /* sorted now */
    printf("row hcache noise - - %.1f %%\n", 100 * (ns[MEMCPY][1][REPEATS - 1] - base) / base);
    for (threads = 1; threads <= THREADS_MAX; threads++) {
        base = median(ns[MEMCPY][threads], REPEATS);
        for (kind = 0; kind < KINDS; kind++)
            printf("row hcache %s ours %u %.1f cpu_ns/page\n", kind_names[kind], threads,
                   median(ns[kind][threads], REPEATS));
        for (kind = HIT; kind < KINDS; kind++)
            printf("ratio hcache %s ours/memcpy %u %.3f\n", kind_names[kind], threads,
                   base / median(ns[kind][threads], REPEATS));
    }
    munmap(bench.mem, bench.size);
    free(present);
}

static void rates(void)
{
    static const unsigned share[] = {5, 10, 25};
    uint64_t pages = bench.refs / 8;
    int i, p;
    unsigned k;

    for (i = 0; hcache_trace_names[i] != NULL; i++) {
        struct hcache_trace t;

        if (hcache_trace_make(&t, hcache_trace_names[i], bench.refs, pages, 1) != 0)
            exit(1);
        for (k = 0; k < SNIC_COUNTOF(share); k++) {
            uint64_t size = pages * share[k] / 100 / SNIC_HCACHE_WAYS_MAX * SNIC_HCACHE_WAYS_MAX;
            double ours = 0, best = 0;

            for (p = 0; hcache_peers[p] != NULL; p++) {
                double rate = hcache_trace_run(&t, hcache_peers[p], size);

                printf("row hcache hits_%s_%u%% %s 1 %.2f %%\n", hcache_trace_names[i], share[k],
                       hcache_peers[p]->name, rate);
                if (p == 0)
                    ours = rate;
                else if (hcache_peers[p] == &hcache_peer_lru || hcache_peers[p] == &hcache_peer_arc)
                    best = rate > best ? rate : best;
            }
            printf("row hcache hits_%s_%u%%:over_best ours 1 %+.2f points\n", hcache_trace_names[i],
                   share[k], ours - best);
        }
        hcache_trace_free(&t);
    }
}

int main(int argc, char **argv)
{
    int i;

    for (i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            bench.seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--only") == 0)
            bench.only = argv[i + 1];
        else if (strcmp(argv[i], "--pages") == 0)
            bench.pages = strtoull(argv[i + 1], NULL, 0) / 16 * 16;
        else if (strcmp(argv[i], "--refs") == 0)
            bench.refs = strtoull(argv[i + 1], NULL, 0);
        else
            break;
    }
    if (i < argc || bench.pages < 16 || bench.refs < 8000) {
        fprintf(stderr, "bench_hcache [--seconds N] [--only hit|rates] [--pages N] [--refs N]\n");
        return 2;
    }
    if (strcmp(bench.only, "rates") != 0)
        hits();
    if (strcmp(bench.only, "hit") != 0)
        rates();
    return 0;
}
