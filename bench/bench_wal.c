/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The durable log: appends a second and the CPU time of each, on a disk in memory (what the code
 * costs) and on a file, one and 64 in flight, beside write and fdatasync of the same blocks in turn
 * without any log. Nothing is kept by compaction, which takes part all the same.
 *
 *   bench_wal [--seconds N] [--file PATH]
 *
 * `raw` at 64 in flight writes the blocks of 64 records at once: a group commit that is free. A
 * file's figures are those of its device's flush. --file is overwritten; without it one in $TMPDIR
 * or /var/tmp is used and removed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "snicstore/wal.h"

enum { REPEATS = 5, BYTES = 64 << 20, FLIGHT = 64 };

static const struct wal_case {
    const char *name;
    uint32_t length;
    uint32_t flight;
    int file;
} cases[] = {
    {"mem_64B_qd64", 64, 64, 0},     {"mem_1KiB_qd64", 1024, 64, 0}, {"mem_64B_qd1", 64, 1, 0},
    {"file_64B_qd1", 64, 1, 1},      {"file_64B_qd64", 64, 64, 1},   {"file_1KiB_qd1", 1024, 1, 1},
    {"file_1KiB_qd64", 1024, 64, 1},
};
#define CASES SNIC_COUNTOF(cases)

struct bench {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_wal *wal;
    void *mem;
    int opened;
    uint64_t appended;
    uint64_t durable;
};

static char path[512];
static int temporary;

static void must(int r, const char *what)
{
    if (r >= 0)
        return;
    fprintf(stderr, "bench_wal: %s: %s\n", what, snic_strerror(r));
    if (temporary)
        (void)unlink(path);
    exit(1);
}

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

/* ---- Ours ---- */

static void on_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    (void)report;
    must(result, "opened");
    ((struct bench *)ctx)->opened = 1;
}

static void on_durable(void *ctx, uint64_t up_to)
{
    ((struct bench *)ctx)->durable = up_to;
}

static void on_failed(void *ctx, int error)
{
    (void)ctx;
    must(error, "failed");
}

static int on_keep(void *ctx, const struct snic_wal_record *r)
{
    (void)ctx;
    (void)r;
    return 0;
}

static void ours_open(struct bench *b, const struct wal_case *c)
{
    static const struct snic_wal_events e = {
        .opened = on_opened, .durable = on_durable, .failed = on_failed, .keep = on_keep};
    struct snic_wal_opts o = {.opts_size = sizeof(o), .flags = SNIC_WAL_FORMAT};
    memset(b, 0, sizeof(*b));
    if (c->file) {
        struct snic_io_uring_opts f = {.opts_size = sizeof(f),
                                       .flags = SNIC_IO_OPEN_CREATE | SNIC_IO_OPEN_TRY_DIRECT,
                                       .path = path,
                                       .size = BYTES};
        must(snic_loop_uring_open(&b->loop, NULL), "loop");
        must(snic_io_uring_open(&b->io, b->loop, &f, NULL), "file");
    } else {
        struct snic_disk_opts d = {.opts_size = sizeof(d), .size = BYTES};
        must(snic_world_open(&b->world, NULL), "world");
        must(snic_world_loop(b->world, 0, &b->loop), "loop");
        must(snic_disk_open(&b->disk, &d), "disk");
        must(snic_io_mem_open(&b->io, b->loop, b->disk), "io");
    }
    size_t size = snic_wal_memsize(b->io, &o);
    b->mem = aligned_alloc(SNIC_WAL_ALIGN, size);
    must(b->mem == NULL ? SNIC_ENOMEM : 0, "memory");
    must(snic_wal_open(&b->wal, b->mem, size, b->io, &o, &e, b), "open");
    while (!b->opened)
        must(snic_loop_once(b->loop, SNIC_NEVER), "loop");
}

static void ours_close(struct bench *b)
{
    free(snic_wal_close(b->wal));
    snic_io_close(b->io);
    snic_disk_close(b->disk);
    snic_loop_close(b->loop);
    snic_world_close(b->world);
}

/* Appends a second; each is answered before the place in flight is used again. */
static double ours_run(struct bench *b, const struct wal_case *c, double seconds, double *cpu_us)
{
    static unsigned char bytes[65536];
    struct snic_wal_record r = {.bytes = bytes, .length = c->length};
    uint64_t given = 0;
    uint64_t n = 0;
    double used = cpu_s();
    double start = now_s();
    uint64_t positions[FLIGHT];
    while ((n & 255) != 0 || now_s() - start < seconds) {
        while (given - n < c->flight) {
            r.key.w[0] = given;
            r.ts = given;
            int e = snic_wal_append(b->wal, &r, &positions[given % FLIGHT]);
            if (e == SNIC_EAGAIN)
                break;
            must(e, "append");
            given++;
        }
        must(snic_loop_once(b->loop, SNIC_NEVER), "loop");
        while (n < given && positions[n % FLIGHT] <= b->durable)
            n++;
        if (c->flight == 1 && now_s() - start >= seconds)
            break;
    }
    double end = now_s();
    *cpu_us = (cpu_s() - used) * 1e6 / (double)n;
    return (double)n / (end - start);
}

/* ---- Raw: write and fdatasync ---- */

static double raw_run(const struct wal_case *c, double seconds, double *cpu_us)
{
    size_t block = 4096;
    size_t size = (c->flight * (size_t)(c->length + 72) + 4047) / 4048 * block;
    void *bytes = aligned_alloc(4096, size);
    uint64_t n = 0;
    off_t at = 0;
    int fd = open(path, O_WRONLY | O_DIRECT);
    if (fd < 0)
        fd = open(path, O_WRONLY);
    must(fd < 0 || bytes == NULL ? SNIC_EIO : 0, "raw");
    memset(bytes, 1, size);
    double used = cpu_s();
    double start = now_s();
    while (now_s() - start < seconds) {
        must(pwrite(fd, bytes, size, at) == (ssize_t)size ? 0 : SNIC_EIO, "pwrite");
        must(fdatasync(fd) == 0 ? 0 : SNIC_EIO, "fdatasync");
        at += (off_t)size;
        if (at + (off_t)size > BYTES)
            at = 0;
        n += c->flight;
    }
    double end = now_s();
    *cpu_us = (cpu_s() - used) * 1e6 / (double)n;
    (void)close(fd);
    free(bytes);
    return (double)n / (end - start);
}

/* ---- Rows ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, REPEATS, sizeof(*v), by_value);
    return v[REPEATS / 2];
}

static double calibrate(void)
{
    static unsigned char bytes[1 << 16];
    double start = now_s();
    uint32_t x = 0;
    for (int i = 0; i < 400; i++)
        x = snic_crc32c(x, bytes, sizeof(bytes));
    bytes[0] = (unsigned char)x;
    return now_s() - start;
}

static void run_case(const struct wal_case *c, double seconds, double *noise)
{
    double rate[2][REPEATS];
    double cpu[2][REPEATS];
    struct bench b;
    for (int i = 0; i < REPEATS; i++) {
        ours_open(&b, c);
        (void)ours_run(&b, c, seconds / 8, &cpu[0][i]);
        rate[0][i] = ours_run(&b, c, seconds, &cpu[0][i]);
        ours_close(&b);
        if (c->file)
            rate[1][i] = raw_run(c, seconds, &cpu[1][i]);
        noise[i] = calibrate();
    }
    double ours = median(rate[0]);
    printf("row wal %s ours 1 %.0f op/s\n", c->name, ours);
    printf("row wal %s_cpu ours 1 %.3f us/op\n", c->name, median(cpu[0]));
    if (c->file) {
        double raw = median(rate[1]);
        printf("row wal %s raw 1 %.0f op/s\n", c->name, raw);
        printf("row wal %s_cpu raw 1 %.3f us/op\n", c->name, median(cpu[1]));
        printf("ratio wal %s ours/raw 1 %.3f\n", c->name, ours / raw);
    }
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    double seconds = 0.3;
    double noise[REPEATS];
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/var/tmp";
    (void)snprintf(path, sizeof(path), "%s/bench_wal.%ld", folder, (long)getpid());
    temporary = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        if (strcmp(argv[i], "--file") == 0) {
            (void)snprintf(path, sizeof(path), "%s", argv[i + 1]);
            temporary = 0;
        }
    }
    for (uint32_t i = 0; i < CASES; i++)
        run_case(&cases[i], seconds, noise);
    double middle = median(noise);
    printf("row wal noise - - %.1f %%\n", (noise[REPEATS - 1] - noise[0]) * 100 / middle);
    if (temporary)
        (void)unlink(path);
    return 0;
}
