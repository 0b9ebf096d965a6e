/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The block store: random writes of 4 KiB a second, the CPU time and the device's writes of each,
 * on a disk in memory (what the code costs) and on a file, 1, 8 and 64 in flight, rounds of writing
 * home included; beside write and fdatasync of as many blocks in turn, without versions, checksums
 * or a log.
 *
 *   bench_segments [--seconds N] [--file PATH]
 *
 * `raw` at 64 in flight writes 64 blocks at once, one after the other: a group commit that is free,
 * and no block has a place. --file is overwritten; without it one in $TMPDIR or /var/tmp is used
 * and removed. `_amplification` is bytes written to the device for each byte of a block.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "snicstore/segments.h"

enum { REPEATS = 5, SEGMENTS = 32, LOG = 64 << 20, BYTES = LOG + SEGMENTS * 2138112 + (1 << 20) };
enum { FLIGHT = 64 };

static const struct segments_case {
    const char *name;
    uint32_t flight;
    int file;
} cases[] = {
    {"mem_qd1", 1, 0},  {"mem_qd8", 8, 0},  {"mem_qd64", 64, 0},
    {"file_qd1", 1, 1}, {"file_qd8", 8, 1}, {"file_qd64", 64, 1},
};
#define CASES SNIC_COUNTOF(cases)

struct bench;
struct slot {
    struct snic_segments_req q;
    struct snic_segments_block b;
    struct bench *bench;
    int busy;
};

struct bench {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_segments *s;
    int opened;
    uint64_t done;
    uint64_t wver;
    struct snic_rng rng;
    struct slot slot[FLIGHT];
};

static char path[512];
static int temporary;

static void must(int r, const char *what)
{
    if (r >= 0)
        return;
    fprintf(stderr, "bench_segments: %s: %s\n", what, snic_strerror(r));
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

static unsigned char data[4096];

static void on_opened(void *ctx, int result, const struct snic_segments_report *report)
{
    (void)report;
    must(result, "opened");
    ((struct bench *)ctx)->opened = 1;
}

static void on_failed(void *ctx, uint32_t disk, int error)
{
    (void)ctx;
    (void)disk;
    must(error, "failed");
}

static void on_done(struct snic_segments_req *q)
{
    struct slot *t = SNIC_CONTAINER(q, struct slot, q);
    must(q->result, "write");
    t->busy = 0;
    t->bench->done++;
}

static void ours_open(struct bench *b, const struct segments_case *c)
{
    static const struct snic_segments_events e = {.opened = on_opened, .failed = on_failed};
    struct snic_segments_opts o = {.opts_size = sizeof(o), .flags = SNIC_SEGMENTS_FORMAT};
    memset(b, 0, sizeof(*b));
    snic_rng_init(&b->rng, 1);
    o.log_bytes = LOG;
    o.cache_blocks = 8192;
    if (c->file) {
        struct snic_io_uring_opts f = {.opts_size = sizeof(f),
                                       .flags = SNIC_IO_OPEN_CREATE | SNIC_IO_OPEN_TRY_DIRECT,
                                       .path = path,
                                       .size = BYTES};
        must(snic_loop_uring_open(&b->loop, NULL), "loop");
        must(snic_io_uring_open(&b->io, b->loop, &f, NULL), "file");
    } else {
        struct snic_disk_opts d = {.opts_size = sizeof(d), .size = BYTES / 4096 * 4096};
        must(snic_world_open(&b->world, NULL), "world");
        must(snic_world_loop(b->world, 0, &b->loop), "loop");
        must(snic_disk_open(&b->disk, &d), "disk");
        must(snic_io_mem_open(&b->io, b->loop, b->disk), "io");
    }
    size_t size = snic_segments_memsize(&b->io, 1, &o);
    void *mem = aligned_alloc(SNIC_SEGMENTS_ALIGN, size);
    must(mem == NULL || size == 0 ? SNIC_ENOMEM : 0, "memory");
    must(snic_segments_open(&b->s, mem, size, &b->io, 1, &o, &e, b), "open");
    while (!b->opened)
        must(snic_loop_once(b->loop, SNIC_NEVER), "loop");
    for (uint64_t i = 0; i < SEGMENTS; i++) {
        struct slot *t = &b->slot[0];
        memset(t, 0, sizeof(*t));
        t->bench = b;
        t->busy = 1;
        t->q.done = on_done;
        t->q.op = SNIC_SEGMENTS_CREATE;
        t->q.seg_id = i;
        must(snic_segments_submit(b->s, &t->q), "create");
        while (t->busy)
            must(snic_loop_once(b->loop, SNIC_NEVER), "loop");
    }
}

static void ours_close(struct bench *b)
{
    free(snic_segments_close(b->s));
    snic_io_close(b->io);
    snic_disk_close(b->disk);
    snic_loop_close(b->loop);
    snic_world_close(b->world);
}

static int ours_write(struct bench *b, struct slot *t)
{
    uint64_t at = snic_rng_below(&b->rng, SEGMENTS * SNIC_SEGMENTS_BLOCKS);
    memset(&t->q, 0, sizeof(t->q));
    memset(&t->b, 0, sizeof(t->b));
    t->bench = b;
    t->q.done = on_done;
    t->q.op = SNIC_SEGMENTS_WRITE;
    t->q.seg_id = at / SNIC_SEGMENTS_BLOCKS;
    t->q.blocks = &t->b;
    t->q.count = 1;
    t->b.wver = ++b->wver;
    t->b.block = (uint16_t)(at % SNIC_SEGMENTS_BLOCKS);
    t->b.data = data;
    snic_put_le64(data, b->wver);
    t->b.data_crc = snic_crc32c(0, data, sizeof(data));
    t->busy = 1;
    int r = snic_segments_submit(b->s, &t->q);
    if (r == SNIC_EAGAIN)
        t->busy = 0;
    else
        must(r, "submit");
    return r == 0;
}

static uint64_t written(struct bench *b, uint64_t *applied)
{
    struct snic_segments_info n;
    snic_segments_inspect(b->s, &n);
    *applied = n.applied;
    return n.log_bytes + (n.home_blocks + n.tables) * 4096;
}

/* Writes a second; each is answered before its place in flight is used again. */
static double ours_run(struct bench *b, const struct segments_case *c, double seconds,
                       double *cpu_us, double *factor)
{
    uint64_t from = b->done;
    uint64_t blocks[2];
    uint64_t bytes = written(b, &blocks[0]);
    double used = cpu_s();
    double start = now_s();
    double end = start;
    for (uint32_t turn = 0; end - start < seconds; turn++) {
        for (uint32_t i = 0; i < c->flight; i++)
            if (!b->slot[i].busy && !ours_write(b, &b->slot[i]))
                break;
        must(snic_loop_once(b->loop, SNIC_NEVER), "loop");
        if (turn % 16 == 0)
            end = now_s();
    }
    uint64_t n = b->done - from;
    *cpu_us = (cpu_s() - used) * 1e6 / (double)n;
    bytes = written(b, &blocks[1]) - bytes;
    *factor = (double)bytes / (double)((blocks[1] - blocks[0]) * 4096);
    for (uint32_t i = 0; i < c->flight; i++)
        while (b->slot[i].busy)
            must(snic_loop_once(b->loop, SNIC_NEVER), "loop");
    return (double)n / (end - start);
}

/* ---- Raw: write and fdatasync ---- */

static double raw_run(const struct segments_case *c, double seconds, double *cpu_us)
{
    size_t size = c->flight * (size_t)4096;
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

static void run_case(const struct segments_case *c, double seconds, double *noise)
{
    static struct bench b;
    double rate[2][REPEATS];
    double cpu[2][REPEATS];
    double factor[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        ours_open(&b, c);
        (void)ours_run(&b, c, seconds / 4, &cpu[0][i], &factor[i]);
        rate[0][i] = ours_run(&b, c, seconds, &cpu[0][i], &factor[i]);
        ours_close(&b);
        if (c->file)
            rate[1][i] = raw_run(c, seconds, &cpu[1][i]);
        noise[i] = calibrate();
    }
    double ours = median(rate[0]);
    printf("row segments %s ours 1 %.0f op/s\n", c->name, ours);
    printf("row segments %s_cpu ours 1 %.3f us/op\n", c->name, median(cpu[0]));
    printf("row segments %s_amplification ours 1 %.2f x\n", c->name, median(factor));
    if (c->file) {
        double raw = median(rate[1]);
        printf("row segments %s raw 1 %.0f op/s\n", c->name, raw);
        printf("row segments %s_cpu raw 1 %.3f us/op\n", c->name, median(cpu[1]));
        printf("ratio segments %s ours/raw 1 %.3f\n", c->name, ours / raw);
    }
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    double seconds = 0.3;
    double noise[REPEATS];
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/var/tmp";
    (void)snprintf(path, sizeof(path), "%s/bench_segments.%ld", folder, (long)getpid());
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
    printf("row segments noise - - %.1f %%\n", (noise[REPEATS - 1] - noise[0]) * 100 / middle);
    if (temporary)
        (void)unlink(path);
    return 0;
}
