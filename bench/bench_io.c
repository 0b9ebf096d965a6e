/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The io door on io_uring beside fio's io_uring engine, in the same run on the same file: 4 KiB
 * random reads at depth 32 and 128 KiB sequential transfers at depth 8, O_DIRECT where the file
 * system has it, registered files and buffers on both sides. Prints the rows of the benchmark
 * contract: medians of interleaved repeats, with the CPU time per operation.
 *
 *   bench_io [--seconds N] [--file PATH] [--mib N] [--repeats N] [--buffered]
 *
 * --seconds is the time per timed case (1). --file is created if it is missing, else overwritten up
 * to --mib; without it a file in $TMPDIR or /var/tmp is used and removed. Without fio on the path
 * its rows are missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "snicstore/io.h"

#define REPEATS_MAX 31
#define DEPTH_MAX 64

enum who { OURS, OURS_UNREGISTERED, FIO, WHOS };
static const char *const who_names[WHOS] = {"ours", "ours_unregistered", "fio"};

static const struct bench_case {
    const char *name;
    const char *fio_rw;
    int write;
    int random;
    uint32_t size;
    uint32_t depth;
} cases[] = {
    {"randread_4k_qd32", "randread", 0, 1, 4096, 32},
    {"seqread_128k_qd8", "read", 0, 0, 131072, 8},
    {"randwrite_4k_qd32", "randwrite", 1, 1, 4096, 32},
    {"seqwrite_128k_qd8", "write", 1, 0, 131072, 8},
};
#define CASES SNIC_COUNTOF(cases)

struct sample {
    double ops;    /* per second; 0: none */
    double cpu_us; /* per operation       */
};

static struct {
    double seconds;
    uint64_t bytes;
    uint32_t repeats;
    int direct;
    int temporary;
    char path[512];
    struct sample samples[CASES][WHOS][REPEATS_MAX];
    double noise[REPEATS_MAX];
} bench = {.seconds = 1, .bytes = (uint64_t)256 << 20, .repeats = 5, .direct = 1};

static double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void die(const char *what, int error)
{
    fprintf(stderr, "bench_io: %s: %s\n", what, snic_strerror(error));
    if (bench.temporary)
        (void)unlink(bench.path);
    exit(1);
}

/* ---- Ours ---- */

struct job {
    struct snic_loop *loop;
    struct snic_io *io;
    const struct bench_case *what;
    struct snic_rng rng;
    uint64_t next;
    uint64_t done;
    uint64_t failed;
    uint32_t in_flight;
    int stopping;
    struct snic_timer timer;
};

struct job_req {
    struct snic_io_req req;
    struct job *job;
};

static void job_send(struct job_req *r)
{
    struct job *j = r->job;
    struct snic_io_req *one = &r->req;
    uint64_t blocks = bench.bytes / j->what->size;
    uint64_t block = j->what->random ? snic_rng_below(&j->rng, blocks) : j->next++ % blocks;
    r->req.offset = block * j->what->size;
    if (snic_io_submit(j->io, &one, 1) != 1)
        die("submit", SNIC_EIO);
    j->in_flight++;
}

static void job_done(struct snic_io_req *req)
{
    struct job_req *r = SNIC_CONTAINER(req, struct job_req, req);
    struct job *j = r->job;
    j->in_flight--;
    j->done++;
    j->failed += req->result != (int64_t)req->length;
    if (!j->stopping)
        job_send(r);
    else if (j->in_flight == 0)
        snic_loop_stop(j->loop);
}

static void job_time_up(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    SNIC_CONTAINER(t, struct job, timer)->stopping = 1;
}

static int ours_open(struct job *j)
{
    struct snic_loop_uring_opts lo = {.opts_size = sizeof(lo), .entries = 256};
    struct snic_io_uring_opts o = {.opts_size = sizeof(o),
                                   .flags = bench.direct ? SNIC_IO_OPEN_TRY_DIRECT : 0,
                                   .path = bench.path,
                                   .depth = DEPTH_MAX};
    int r = snic_loop_uring_open(&j->loop, &lo);
    return r != 0 ? r : snic_io_uring_open(&j->io, j->loop, &o, NULL);
}

static struct sample ours_run(const struct bench_case *what, int registered)
{
    struct job j = {.what = what};
    struct job_req reqs[DEPTH_MAX];
    int r = ours_open(&j);
    if (r != 0)
        die(bench.path, r);
    unsigned char *mem = aligned_alloc(4096, (size_t)what->size * what->depth);
    if (mem == NULL)
        die("memory", SNIC_ENOMEM);
    memset(mem, 0x5a, (size_t)what->size * what->depth);
    int region = registered ? snic_loop_region_add(j.loop, mem, (size_t)what->size * what->depth)
                            : SNIC_NO_REGION;
    if (registered && region < 0)
        fprintf(stderr, "bench_io: buffers not registered: %s\n", snic_strerror(region));
    snic_rng_init(&j.rng, 1);
    snic_timer_init(&j.timer, job_time_up);
    memset(reqs, 0, sizeof(reqs));
    double t0 = now_s(), c0 = cpu_s();
    snic_loop_arm(j.loop, &j.timer, snic_loop_clock(j.loop) + (uint64_t)(bench.seconds * 1e9));
    for (uint32_t i = 0; i < what->depth; i++) {
        reqs[i].job = &j;
        reqs[i].req.done = job_done;
        reqs[i].req.op = what->write ? SNIC_IO_WRITE : SNIC_IO_READ;
        reqs[i].req.length = what->size;
        reqs[i].req.buf.base = mem + (size_t)i * what->size;
        reqs[i].req.buf.size = what->size;
        reqs[i].req.region = region < 0 ? SNIC_NO_REGION : region;
        job_send(&reqs[i]);
    }
    r = snic_loop_run(j.loop);
    double t1 = now_s(), c1 = cpu_s();
    if (r != 0 || j.failed != 0)
        die(what->name, r != 0 ? r : SNIC_EIO);
    snic_loop_region_remove(j.loop, region < 0 ? SNIC_NO_REGION : region);
    snic_io_close(j.io);
    snic_loop_close(j.loop);
    free(mem);
    return (struct sample){.ops = (double)j.done / (t1 - t0),
                           .cpu_us = (c1 - c0) * 1e6 / (double)j.done};
}

/* ---- fio ---- */

/** The number after "name" : at or behind @p text, or -1. */
static double json_number(const char *text, const char *name)
{
    char key[64];
    (void)snprintf(key, sizeof(key), "\"%s\" : ", name);
    const char *at = text == NULL ? NULL : strstr(text, key);
    return at == NULL ? -1 : strtod(at + strlen(key), NULL);
}

static struct sample fio_run(const struct bench_case *what)
{
    static char text[1 << 18];
    char command[1400];
    struct sample none = {0};
    (void)snprintf(command, sizeof(command),
                   "fio --name=bench --filename='%s' --ioengine=io_uring --direct=%d --rw=%s "
                   "--bs=%u --iodepth=%u --size=%llu --time_based --runtime=%dms --fixedbufs=1 "
                   "--registerfiles=1 --norandommap --randrepeat=1 --output-format=json "
                   "2>/dev/null",
                   bench.path, bench.direct, what->fio_rw, what->size, what->depth,
                   (unsigned long long)bench.bytes, (int)(bench.seconds * 1000));
    FILE *f = popen(command, "r");
    if (f == NULL)
        return none;
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    if (pclose(f) != 0)
        return none;
    const char *side = strstr(text, what->write ? "\"write\" : {" : "\"read\" : {");
    double ops = json_number(side, "iops"), total = json_number(side, "total_ios");
    double user = json_number(text, "usr_cpu"), sys = json_number(text, "sys_cpu");
    double ms = json_number(text, "job_runtime");
    if (ops <= 0 || total <= 0 || user < 0 || sys < 0 || ms <= 0)
        return none;
    return (struct sample){.ops = ops, .cpu_us = (user + sys) / 100 * ms * 1000 / total};
}

/* ---- Rows ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *v, uint32_t n)
{
    double sorted[REPEATS_MAX];
    memcpy(sorted, v, n * sizeof(*v));
    qsort(sorted, n, sizeof(*sorted), compare);
    return n % 2 != 0 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/** A fixed amount of work: how steady this machine is. */
static double calibrate(void)
{
    uint64_t sink = 0;
    struct snic_rng rng;
    snic_rng_init(&rng, 1);
    double t0 = now_s();
    for (int i = 0; i < 20000000; i++)
        sink ^= snic_rng_next(&rng);
    __asm__ volatile("" : : "r"(sink)); /* it is used, as far as the compiler knows */
    return now_s() - t0;
}

static void print_noise(void)
{
    double low = bench.noise[0], high = bench.noise[0];
    for (uint32_t i = 1; i < bench.repeats; i++) {
        low = bench.noise[i] < low ? bench.noise[i] : low;
        high = bench.noise[i] > high ? bench.noise[i] : high;
    }
    printf("row io noise - - %.1f %%\n", (high - low) / low * 100);
}

static void print_case(size_t c)
{
    double ops[WHOS] = {0}, cpu[WHOS] = {0};
    for (int w = 0; w < WHOS; w++) {
        double o[REPEATS_MAX], u[REPEATS_MAX];
        uint32_t n = 0;
        for (uint32_t i = 0; i < bench.repeats; i++) {
            if (bench.samples[c][w][i].ops > 0) {
                o[n] = bench.samples[c][w][i].ops;
                u[n++] = bench.samples[c][w][i].cpu_us;
            }
        }
        if (n == 0)
            continue;
        ops[w] = median(o, n);
        cpu[w] = median(u, n);
        printf("row io %s %s 1 %.0f op/s\n", cases[c].name, who_names[w], ops[w]);
        printf("row io %s:cpu %s 1 %.2f us/op\n", cases[c].name, who_names[w], cpu[w]);
    }
    if (ops[FIO] > 0) {
        printf("ratio io %s ours/fio 1 %.2f\n", cases[c].name, ops[OURS] / ops[FIO]);
        printf("ratio io %s:cpu ours/fio 1 %.2f\n", cases[c].name, cpu[FIO] / cpu[OURS]);
    }
}

/* ---- Main ---- */

/** Written blocks: reads of holes and unwritten extents never reach the device. */
static void prepare(void)
{
    static unsigned char block[1 << 20];
    struct snic_rng rng;
    int fd = open(bench.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        die(bench.path, snic_error_from_os(errno));
    snic_rng_init(&rng, 2);
    snic_rng_fill(&rng, block, sizeof(block));
    for (uint64_t at = 0; at < bench.bytes; at += sizeof(block)) {
        if (pwrite(fd, block, sizeof(block), (off_t)at) != (ssize_t)sizeof(block))
            die(bench.path, snic_error_from_os(errno));
    }
    if (fsync(fd) != 0)
        die(bench.path, snic_error_from_os(errno));
    (void)close(fd);
}

static void arguments(int argc, char **argv)
{
    const char *dir = getenv("TMPDIR");
    (void)snprintf(bench.path, sizeof(bench.path), "%s/snic_bench_io_%ld",
                   dir != NULL ? dir : "/var/tmp", (long)getpid());
    bench.temporary = 1;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--buffered") == 0) {
            bench.direct = 0;
            continue;
        }
        if (strcmp(argv[i], "--seconds") == 0)
            bench.seconds = strtod(value, NULL);
        else if (strcmp(argv[i], "--mib") == 0)
            bench.bytes = strtoull(value, NULL, 10) << 20;
        else if (strcmp(argv[i], "--repeats") == 0)
            bench.repeats = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--file") == 0)
            bench.temporary = snprintf(bench.path, sizeof(bench.path), "%s", value) < 0;
        else
            bench.repeats = 0;
        i++;
    }
    if (bench.repeats < 1 || bench.repeats > REPEATS_MAX || bench.bytes < (uint64_t)8 << 20 ||
        !(bench.seconds > 0 && bench.seconds < 3600)) {
        fprintf(stderr, "usage: bench_io [--seconds N] [--file PATH] [--mib N>=8] "
                        "[--repeats 1..31] [--buffered]\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    prepare();
    struct job probe = {.loop = NULL};
    int r = ours_open(&probe);
    if (r != 0)
        die(bench.path, r);
    bench.direct = (probe.io->caps & SNIC_IO_CAP_DIRECT) != 0;
    printf("# %s, %llu MiB, %s, capabilities 0x%x\n", bench.path,
           (unsigned long long)(bench.bytes >> 20), bench.direct ? "O_DIRECT" : "page cache",
           probe.io->caps);
    snic_io_close(probe.io);
    snic_loop_close(probe.loop);
    for (uint32_t i = 0; i < bench.repeats; i++) {
        bench.noise[i] = calibrate();
        for (size_t c = 0; c < CASES; c++) {
            if (i == 0) /* warm-up */
                (void)ours_run(&cases[c], 1);
            bench.samples[c][OURS][i] = ours_run(&cases[c], 1);
            bench.samples[c][FIO][i] = fio_run(&cases[c]);
            bench.samples[c][OURS_UNREGISTERED][i] = ours_run(&cases[c], 0);
        }
    }
    print_noise();
    for (size_t c = 0; c < CASES; c++)
        print_case(c);
    if (bench.temporary)
        (void)unlink(bench.path);
    return 0;
}
