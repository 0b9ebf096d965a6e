/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * nvme-fs beside the shape of virtio-fs (bench/nvmefs_virtio.c) over the same dma: what a request
 * costs in DMA operations; round trips in simulated time with PCIe's latency (500 ns a DMA, a link
 * of 6.25 GB/s), which are deterministic; the CPU
 * time of both ends in one thread; round trips between two processes over shm; 1 MiB over
 * shm beside memcpy out of the same shared memory.
 *
 *     bench_nvmefs [--seconds N | --sim | --one]     N: time per case over shm, over all repeats;
 *                                                    default 2
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nvmefs_lane.h"

enum { REPEATS = 5, SIM_REQUESTS = 4000 };

enum { LANES = 3 };
static const struct lane *const lanes[LANES] = {&lane_nvmefs, &lane_virtio, &lane_virtio_serial};

static double bench_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double bench_cpu(int who)
{
    struct rusage u;
    (void)getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void bench_pin(unsigned index)
{
    cpu_set_t all;
    cpu_set_t one;
    unsigned seen = 0;
    if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) == 0)
        return;
    index %= (unsigned)CPU_COUNT(&all);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all) || seen++ != index)
            continue;
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        (void)sched_setaffinity(0, sizeof(one), &one);
        return;
    }
}

static void bench_die(const char *what, int r)
{
    fprintf(stderr, "bench_nvmefs: %s: %s\n", what, snic_strerror(r));
    exit(1);
}

/* ---- The driver: a window of requests kept open ---- */

struct driver {
    struct lane_user u; /* first */
    const struct lane *lane;
    struct snic_loop *loop;
    void *host;
    uint64_t began[256];
    uint64_t done;
    uint32_t out;
    int draining;
    struct snic_hist latency;
};

static void driver_submit(struct driver *r, uint32_t i)
{
    r->began[i] = snic_loop_now(r->loop);
    r->out++;
    r->lane->submit(r->host, i);
}

static void driver_done(struct lane_user *u, uint32_t i)
{
    struct driver *r = (struct driver *)(void *)u;
    snic_hist_record(&r->latency, snic_loop_now(r->loop) - r->began[i]);
    r->done++;
    r->out--;
    if (!r->draining)
        driver_submit(r, i);
}

static void driver_begin(struct driver *r, const struct lane *lane, struct snic_loop *loop,
                         struct snic_dma *d, const struct lane_case *k)
{
    memset(r, 0, sizeof(*r));
    snic_hist_reset(&r->latency);
    r->u.k = *k;
    r->u.done = driver_done;
    r->lane = lane;
    r->loop = loop;
    r->host = lane->host_open(d, &r->u);
}

static void driver_drain(struct driver *r)
{
    r->draining = 1;
    while (r->out > 0)
        (void)snic_loop_once(r->loop, 1000000000);
    r->lane->host_end(r->host);
    while (!r->lane->host_over(r->host))
        (void)snic_loop_once(r->loop, 1000000);
    r->lane->host_close(r->host);
}

struct result {
    double rate;   /* requests per second */
    double median; /* us */
    double host;   /* CPU us per request */
    double dpu;
    double ops; /* DMA operations per request */
};

static struct driver driver;

/* ---- Simulated time ---- */

static struct result sim_run(const struct lane *lane, const struct lane_case *k, uint64_t requests)
{
    struct snic_world *w = NULL;
    struct snic_loop *loop[2];
    struct snic_dma *d[2];
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = 1};
    struct snic_dma_sim_opts so = {.opts_size = sizeof(so),
                                   .caps = SNIC_DMA_CAP_ORDERED_READ,
                                   .delay_min_ns = 500,
                                   .delay_max_ns = 500,
                                   .chunk = 1U << 20,
                                   .depth = 1024,
                                   .bytes_per_us = 6250};
    int r = snic_world_open(&w, &wo);
    for (uint32_t i = 0; i < 2 && r == 0; i++)
        r = snic_world_loop(w, i, &loop[i]);
    if (r == 0)
        r = snic_dma_sim_open(&d[0], loop[0], &none, &d[1], loop[1], &none, &so);
    if (r != 0)
        bench_die("world", r);
    void *dpu = lane->dpu_open(d[1], k, 0);
    driver_begin(&driver, lane, loop[0], d[0], k);
    while (snic_world_step(w) > 0) {
    }
    uint64_t ops = d[1]->stats.reads + d[1]->stats.writes;
    uint64_t from = snic_world_now(w);
    for (uint32_t i = 0; i < k->in_flight && i < requests; i++)
        driver_submit(&driver, i);
    driver.draining = requests <= k->in_flight;
    while (driver.done < requests && snic_world_step(w) > 0) {
    }
    double took = (double)(snic_world_now(w) - from) * 1e-9;
    struct result res = {.rate = (double)driver.done / took,
                         .median = (double)snic_hist_quantile(&driver.latency, 500000) * 1e-3};
    if (requests == 1)
        while (snic_world_step(w) > 0) {
        }
    res.ops = (double)(d[1]->stats.reads + d[1]->stats.writes - ops) / (double)driver.done;
    driver_drain(&driver);
    while (snic_world_step(w) > 0) {
    }
    snic_dma_close(d[0]);
    while (!lane->dpu_over(dpu) && snic_world_step(w) > 0) {
    }
    lane->dpu_close(dpu);
    snic_dma_close(d[1]);
    snic_loop_close(loop[0]);
    snic_loop_close(loop[1]);
    snic_world_close(w);
    return res;
}

static void sim_rows(void)
{
    static const uint32_t sizes[2] = {4096, 8192};
    static const struct {
        uint32_t in_flight;
        uint32_t queues;
    } shapes[] = {{1, 1}, {8, 1}, {8, 4}, {32, 1}, {32, 8}, {256, 1}, {256, 32}};
    for (int write = 1; write >= 0; write--) {
        struct lane_case one = {8192, 1, 1, write};
        for (int l = 0; l < LANES; l++)
            printf("row nvmefs dma_8K_%s %s 1 %.0f operations\n", write ? "write" : "read",
                   lanes[l]->name, sim_run(lanes[l], &one, 1).ops);
    }
    printf("row nvmefs dma_8K_write paper_ours 1 4 operations\n");
    printf("row nvmefs dma_8K_write paper_virtio 1 11 operations\n");
    for (size_t s = 0; s < 2; s++) {
        for (int write = 1; write >= 0; write--) {
            for (size_t i = 0; i < SNIC_COUNTOF(shapes); i++) {
                struct lane_case k = {sizes[s], shapes[i].in_flight, shapes[i].queues, write};
                struct result a[LANES];
                char name[64];
                (void)snprintf(name, sizeof(name), "sim_%uK_%s_w%u_q%u", k.bytes / 1024,
                               write ? "write" : "read", k.in_flight, k.queues);
                for (int l = 0; l < LANES; l++) {
                    a[l] = sim_run(lanes[l], &k, SIM_REQUESTS);
                    printf("row nvmefs %s %s - %.0f op/s\n", name, lanes[l]->name, a[l].rate);
                    printf("row nvmefs %s_p50 %s - %.2f us\n", name, lanes[l]->name, a[l].median);
                    printf("row nvmefs %s_dma %s - %.2f operations\n", name, lanes[l]->name,
                           a[l].ops);
                }
                for (int l = 1; l < LANES; l++)
                    printf("ratio nvmefs %s ours/%s - %.2f\n", name, lanes[l]->name,
                           a[0].rate / a[l].rate);
            }
        }
    }
}

/* ---- Two processes ---- */

struct process {
    const struct lane *lane;
    const struct lane_case *k;
    void *dpu;
    struct snic_dma *d;
};

static void process_accept(void *ctx, struct snic_dma *d, uint32_t pid)
{
    struct process *p = ctx;
    (void)pid;
    p->d = d;
    p->dpu = p->lane->dpu_open(d, p->k, 0);
}

static struct snic_loop *process_loop(void)
{
    struct snic_loop_uring_opts o = {.opts_size = sizeof(o), .spin_us = 20};
    struct snic_loop *l = NULL;
    int r = snic_loop_uring_open(&l, &o);
    if (r != 0)
        bench_die("io_uring", r);
    return l;
}

static void process_dpu(struct process *p, const struct snic_dma_shm_opts *so, int ready)
{
    struct snic_dma_listener *l = NULL;
    bench_pin(1);
    struct snic_loop *loop = process_loop();
    int r = snic_dma_shm_listen(&l, loop, so, process_accept, p);
    if (r != 0)
        bench_die("listen", r);
    (void)!write(ready, "x", 1);
    while (p->dpu == NULL || !p->lane->dpu_over(p->dpu))
        (void)snic_loop_once(loop, 1000000000);
    snic_dma_shm_unlisten(l);
    _exit(0);
}

static struct result shm_run(const struct lane *lane, const struct lane_case *k, double seconds)
{
    static int number;
    char path[64];
    char byte;
    int ready[2];
    struct snic_dma_shm_opts so = {.opts_size = sizeof(so), .path = path};
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct process p = {.lane = lane, .k = k};
    struct snic_dma *d = NULL;
    (void)snprintf(path, sizeof(path), "/tmp/bench_nvmefs.%d.%d", (int)getpid(), number++);
    (void)fflush(NULL);
    if (pipe(ready) != 0)
        exit(1);
    double child = bench_cpu(RUSAGE_CHILDREN);
    pid_t pid = fork();
    if (pid == 0)
        process_dpu(&p, &so, ready[1]);
    (void)close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        exit(1);
    (void)close(ready[0]);
    struct snic_loop *loop = process_loop();
    int r = snic_dma_shm_connect(&d, loop, &so, &none);
    if (r != 0)
        bench_die("connect", r);
    driver_begin(&driver, lane, loop, d, k);
    for (uint32_t i = 0; i < k->in_flight; i++)
        driver_submit(&driver, i);
    while (driver.done < 4UL * k->in_flight + 100)
        (void)snic_loop_once(loop, 1000000000);
    snic_hist_reset(&driver.latency);
    double cpu = bench_cpu(RUSAGE_SELF);
    double at = bench_now();
    uint64_t from = driver.done;
    while (bench_now() < at + seconds)
        for (int i = 0; i < 32; i++)
            (void)snic_loop_once(loop, 1000000000);
    double n = (double)(driver.done - from);
    struct result res = {.rate = n / (bench_now() - at),
                         .median = (double)snic_hist_quantile(&driver.latency, 500000) * 1e-3,
                         .host = (bench_cpu(RUSAGE_SELF) - cpu) * 1e6 / n};
    driver_drain(&driver);
    snic_dma_close(d);
    for (int i = 0; i < 10; i++)
        (void)snic_loop_once(loop, 0);
    snic_loop_close(loop);
    (void)waitpid(pid, NULL, 0);
    res.dpu = (bench_cpu(RUSAGE_CHILDREN) - child) * 1e6 / n;
    return res;
}

/* ---- One thread: what a request costs both ends together, however busy the machine is ---- */

static double thread_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct result one_run(const struct lane *lane, const struct lane_case *k, double seconds)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_loop *loop[2] = {process_loop(), process_loop()};
    struct snic_dma *d[2];
    int r = snic_dma_local_open(&d[0], loop[0], &none, &d[1], loop[1], &none);
    if (r != 0)
        bench_die("dma local", r);
    void *dpu = lane->dpu_open(d[1], k, 0);
    driver_begin(&driver, lane, loop[0], d[0], k);
    for (uint32_t i = 0; i < k->in_flight; i++)
        driver_submit(&driver, i);
    uint64_t from = 0;
    double at = 0;
    double now = 0;
    for (uint64_t i = 0; i == 0 || at == 0 || now < at + seconds; i++) {
        (void)snic_loop_once(loop[0], 0);
        (void)snic_loop_once(loop[1], 0);
        if (i % 64 != 0)
            continue;
        now = thread_now();
        if (at == 0 && driver.done > 4UL * k->in_flight) {
            at = now;
            from = driver.done;
        }
    }
    double n = (double)(driver.done - from);
    struct result res = {.rate = n / (now - at), .host = (now - at) * 1e6 / n};
    driver.draining = 1;
    while (driver.out > 0) {
        (void)snic_loop_once(loop[0], 0);
        (void)snic_loop_once(loop[1], 0);
    }
    lane->host_end(driver.host);
    while (!lane->host_over(driver.host)) {
        (void)snic_loop_once(loop[0], 0);
        (void)snic_loop_once(loop[1], 0);
    }
    lane->host_close(driver.host);
    snic_dma_close(d[0]);
    while (!lane->dpu_over(dpu))
        (void)snic_loop_once(loop[1], 0);
    lane->dpu_close(dpu);
    snic_dma_close(d[1]);
    snic_loop_close(loop[0]);
    snic_loop_close(loop[1]);
    return res;
}

static int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double bench_median(double *v)
{
    qsort(v, REPEATS, sizeof(*v), bench_compare);
    return v[REPEATS / 2];
}

static void shm_case(const struct lane_case *k, double seconds)
{
    double v[LANES][4][REPEATS];
    double rate[LANES];
    char name[64];
    (void)snprintf(name, sizeof(name), "shm_%uK_%s_w%u_q%u", k->bytes / 1024,
                   k->write ? "write" : "read", k->in_flight, k->queues);
    for (int r = 0; r < REPEATS; r++) {
        for (int l = 0; l < LANES; l++) {
            struct result res = shm_run(lanes[l], k, seconds / REPEATS / LANES);
            v[l][0][r] = res.rate;
            v[l][1][r] = res.median;
            v[l][2][r] = res.host;
            v[l][3][r] = res.dpu;
        }
    }
    for (int l = 0; l < LANES; l++) {
        const char *who = lanes[l]->name;
        rate[l] = bench_median(v[l][0]);
        printf("row nvmefs %s %s 2 %.0f op/s\n", name, who, rate[l]);
        printf("row nvmefs %s_p50 %s 2 %.2f us\n", name, who, bench_median(v[l][1]));
        printf("row nvmefs %s_cpu_host %s 2 %.3f us/op\n", name, who, bench_median(v[l][2]));
        printf("row nvmefs %s_cpu_dpu %s 2 %.3f us/op\n", name, who, bench_median(v[l][3]));
    }
    for (int l = 1; l < LANES; l++)
        printf("ratio nvmefs %s ours/%s 2 %.2f\n", name, lanes[l]->name, rate[0] / rate[l]);
    (void)fflush(stdout);
}

static void one_rows(double seconds)
{
    for (uint32_t bytes = 4096; bytes <= 8192; bytes *= 2) {
        for (int write = 1; write >= 0; write--) {
            for (uint32_t w = 1; w <= 64; w *= 8) {
                struct lane_case k = {bytes, w, 1, write};
                double v[LANES][REPEATS];
                double m[LANES];
                char name[64];
                (void)snprintf(name, sizeof(name), "one_thread_%uK_%s_w%u_q1", bytes / 1024,
                               write ? "write" : "read", w);
                for (int r = 0; r < REPEATS; r++)
                    for (int l = 0; l < LANES; l++)
                        v[l][r] = one_run(lanes[l], &k, seconds / REPEATS / LANES).host;
                for (int l = 0; l < LANES; l++) {
                    m[l] = bench_median(v[l]);
                    printf("row nvmefs %s %s 1 %.3f us/op\n", name, lanes[l]->name, m[l]);
                }
                for (int l = 1; l < LANES; l++)
                    printf("ratio nvmefs %s ours/%s 1 %.2f\n", name, lanes[l]->name, m[l] / m[0]);
                (void)fflush(stdout);
            }
        }
    }
}

static void shm_rows(double seconds)
{
    static const struct {
        uint32_t in_flight;
        uint32_t queues;
    } shapes[] = {{1, 1}, {8, 1}, {32, 4}, {256, 1}, {256, 32}};
    for (uint32_t bytes = 4096; bytes <= 8192; bytes *= 2) {
        for (int write = 1; write >= 0; write--) {
            for (size_t i = 0; i < SNIC_COUNTOF(shapes); i++) {
                struct lane_case k = {bytes, shapes[i].in_flight, shapes[i].queues, write};
                shm_case(&k, seconds);
            }
        }
    }
}

/* ---- 1 MiB ---- */

/** GB/s of memcpy from shared memory into a buffer, or back, 1 MiB after 1 MiB. */
static double copy_run(uint32_t n, int write, double seconds)
{
    size_t size = (size_t)n << 20;
    unsigned char *shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned char *mine = calloc(1, size);
    if (shared == MAP_FAILED || mine == NULL)
        exit(1);
    memset(shared, 1, size);
    uint64_t done = 0;
    double at = bench_now();
    while (bench_now() < at + seconds)
        for (uint32_t i = 0; i < n; i++, done++)
            if (write) /* of the host: the DPU reads */
                memcpy(mine + ((size_t)i << 20), shared + ((size_t)i << 20), 1 << 20);
            else
                memcpy(shared + ((size_t)i << 20), mine + ((size_t)i << 20), 1 << 20);
    double rate = (double)done * (1 << 20) / (bench_now() - at) * 1e-9;
    (void)munmap(shared, size);
    free(mine);
    return rate;
}

static void bandwidth_rows(double seconds)
{
    for (int write = 1; write >= 0; write--) {
        struct lane_case k = {1 << 20, 16, 4, write};
        double v[3][REPEATS];
        double m[3];
        const char *name = write ? "shm_1M_write_w16_q4" : "shm_1M_read_w16_q4";
        for (int r = 0; r < REPEATS; r++) {
            double part = seconds / REPEATS / 3;
            v[0][r] = shm_run(lanes[0], &k, part).rate * (1 << 20) * 1e-9;
            v[1][r] = shm_run(lanes[1], &k, part).rate * (1 << 20) * 1e-9;
            v[2][r] = copy_run(k.in_flight, write, part);
        }
        for (int l = 0; l < 3; l++) {
            m[l] = bench_median(v[l]);
            printf("row nvmefs %s %s 2 %.2f GB/s\n", name, l < 2 ? lanes[l]->name : "memcpy", m[l]);
        }
        printf("ratio nvmefs %s ours/virtio 2 %.2f\n", name, m[0] / m[1]);
        printf("ratio nvmefs %s ours/memcpy 2 %.2f\n", name, m[0] / m[2]);
    }
}

/** The spread of a fixed loop: how much other work disturbs. */
static void noise_row(void)
{
    double v[REPEATS];
    for (int r = 0; r < REPEATS; r++) {
        static unsigned char block[65536];
        uint32_t crc = 0;
        double at = bench_now();
        for (int i = 0; i < 2000; i++)
            crc = snic_crc32c(crc, block, sizeof(block));
        v[r] = bench_now() - at;
        block[0] = (unsigned char)crc;
    }
    double m = bench_median(v);
    printf("row nvmefs noise - - %.1f %%\n", (v[REPEATS - 1] - v[0]) / m * 100);
}

int main(int argc, char **argv)
{
    double seconds = 2;
    int sim_only = argc == 2 && strcmp(argv[1], "--sim") == 0;
    if (argc == 3 && strcmp(argv[1], "--seconds") == 0)
        seconds = strtod(argv[2], NULL);
    bench_pin(0);
    noise_row();
    sim_rows();
    if (sim_only)
        return 0;
    if (argc == 2 && strcmp(argv[1], "--one") == 0) {
        one_rows(0.6);
        return 0;
    }
    printf("row nvmefs read_latency paper_ours 1 20.6 us\n");
    printf("row nvmefs read_latency paper_virtio 1 36.5 us\n");
    printf("row nvmefs write_latency paper_ours 1 26.6 us\n");
    printf("row nvmefs write_latency paper_virtio 1 34 us\n");
    printf("row nvmefs 1M_read paper_ours 16 15.1 GB/s\n");
    printf("row nvmefs 1M_read paper_virtio 16 6.3 GB/s\n");
    printf("row nvmefs 1M_write paper_ours 16 14.3 GB/s\n");
    printf("row nvmefs 1M_write paper_virtio 16 5.1 GB/s\n");
    one_rows(seconds);
    shm_rows(seconds);
    bandwidth_rows(seconds);
    return 0;
}
