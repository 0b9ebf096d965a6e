/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The offload engine without a network: 1 KiB records of a file on io_uring, at random, with many
 * reads in flight. Rows: the engine (default order and the paper's strict order), the file service
 * alone as the baseline, and the versioned cache beside the bare table.
 *
 *   bench_offload [--seconds N] [--file PATH]
 */
#include "snicstore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RECORDS 65536u
#define RECORD 1024u
#define DEPTH 128u
#define REPEATS 5

enum mode { MODE_FILES, MODE_OFFLOAD, MODE_STRICT, MODES };
static const char *const mode_case[MODES] = {"read_1k_qd128", "read_1k_qd128",
                                             "read_1k_qd128_strict"};
static const char *const mode_who[MODES] = {"files", "ours", "ours"};

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_offload: %s\n", what);
        exit(1);
    }
}

static uint64_t now_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *aligned(size_t size)
{
    void *p = NULL;
    check(size > 0 && posix_memalign(&p, 4096, size) == 0, "memory");
    return p;
}

struct bench {
    struct snic_loop *loop;
    struct snic_io *io;
    struct snic_files *files;
    void *files_mem;
    struct snic_offload *o[2]; /* default, strict */
    struct snic_rng rng;
    uint64_t file;
    uint64_t count;
    int stop;
    uint32_t flying;
    struct plain {
        struct snic_files_req req;
        struct bench *b;
        unsigned char *buf;
    } plain[DEPTH];
};

/* ---- The engine's functions: the message is the number of a record ---- */

static int bench_func(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
                      struct snic_offload_read *out, struct snic_offload_reply *reply)
{
    const struct bench *b = ctx;
    uint64_t n;
    uint64_t item = 0;
    (void)reply;
    memcpy(&n, msg->data, sizeof(n));
    if (snic_offload_get(o, &n, &item, NULL) != 0)
        return SNIC_ENOENT;
    out->file = b->file;
    out->offset = item;
    out->size = RECORD;
    return 0;
}

static enum snic_offload_verdict bench_reply(void *ctx, const struct snic_offload_msg *msg,
                                             const struct snic_offload_read *op,
                                             const unsigned char *data, int64_t result,
                                             uint64_t now, struct snic_offload_reply *out)
{
    (void)ctx;
    (void)op;
    (void)now;
    check(result == RECORD && memcmp(data, msg->data, 8) == 0, "read");
    memcpy(out->header, "$1024\r\n", 7);
    memcpy(out->trailer, "\r\n", 2);
    out->header_size = 7;
    out->trailer_size = 2;
    out->take = RECORD;
    return SNIC_OFFLOAD_SEND;
}

static void offload_one(struct bench *b, struct snic_offload *o);

static void offload_done(void *ctx, struct snic_offload_job *job)
{
    struct bench *b = ctx;
    struct snic_offload *o = b->o[job->cookie];
    check(job->status == SNIC_OFFLOAD_DONE && job->bytes == RECORD + 9, "job");
    snic_offload_release(o, job);
    b->count++;
    b->flying--;
    if (!b->stop)
        offload_one(b, o);
}

static void offload_one(struct bench *b, struct snic_offload *o)
{
    uint64_t n = snic_rng_below(&b->rng, RECORDS);
    struct snic_offload_msg m = {(const unsigned char *)&n, sizeof(n), 0, 0};
    check(snic_offload_submit(o, NULL, &m, o == b->o[1], offload_done, b) == 0, "submit");
    b->flying++;
}

/* ---- The baseline ---- */

static void plain_one(struct plain *p)
{
    struct snic_files_req *r = &p->req;
    r->offset = snic_rng_below(&p->b->rng, RECORDS) * RECORD;
    p->b->flying++;
    snic_files_submit(p->b->files, &r, 1);
}

static void plain_done(struct snic_files_req *r)
{
    struct plain *p = SNIC_CONTAINER(r, struct plain, req);
    check(r->result == RECORD, "read");
    p->b->count++;
    p->b->flying--;
    if (!p->b->stop)
        plain_one(p);
}

/* ---- Set-up ---- */

static void offload_open(struct bench *b, int strict)
{
    struct snic_offload_user u = {.func = bench_func, .reply = bench_reply, .ctx = b};
    struct snic_offload_opts o = {.opts_size = sizeof(o),
                                  .flags = strict ? SNIC_OFFLOAD_STRICT : 0,
                                  .key_size = 8,
                                  .item_size = 8,
                                  .cache_capacity = RECORDS * 5 / 4,
                                  .contexts = 1024,
                                  .read_max = 4096,
                                  .message_max = 64};
    size_t n = snic_offload_memsize(&o);
    check(snic_offload_init(&b->o[strict], aligned(n), n, b->loop, b->files, &u, &o) == 0,
          "engine");
    for (uint64_t i = 0; i < RECORDS; i++) {
        uint64_t item = i * RECORD;
        check(snic_offload_put(b->o[strict], &i, &item, 1) == 1, "put");
    }
}

static void bench_open(struct bench *b, const char *path)
{
    struct snic_io_uring_opts io = {.opts_size = sizeof(io), .path = path};
    struct snic_files_format_opts fo = {.opts_size = sizeof(fo)};
    struct snic_files_info info;
    int os = 0;
    io.flags = SNIC_IO_OPEN_CREATE;
    io.size = (uint64_t)RECORDS * RECORD * 2;
    check(snic_loop_uring_open(&b->loop, NULL) == 0, "no io_uring");
    check(snic_io_uring_open(&b->io, b->loop, &io, &os) == 0, "cannot open the file");
    check(snic_files_format(b->io, &fo) == 0 && snic_files_probe(b->io, &info) == 0, "format");
    size_t n = snic_files_memsize(&info, NULL);
    b->files_mem = aligned(n);
    check(snic_files_mount(&b->files, b->files_mem, n, b->io, NULL) == 0, "mount");
    struct snic_files_req r = {.op = SNIC_FILES_CREATE, .name = "f", .name_size = 1};
    check(snic_files_run(b->files, &r) == 0, "create");
    b->file = r.id;
    unsigned char *buf = aligned(1u << 20);
    for (uint64_t at = 0; at < (uint64_t)RECORDS * RECORD; at += 1u << 20) {
        for (uint64_t k = 0; k < (1u << 20); k += RECORD) {
            uint64_t n8 = (at + k) / RECORD;
            memcpy(buf + k, &n8, sizeof(n8));
        }
        struct snic_files_req w = {.op = SNIC_FILES_WRITE,
                                   .file = b->file,
                                   .offset = at,
                                   .length = 1u << 20,
                                   .buf = {buf, 1u << 20},
                                   .region = SNIC_NO_REGION};
        check(snic_files_run(b->files, &w) == 1 << 20, "write");
    }
    free(buf);
    for (uint32_t i = 0; i < DEPTH; i++) {
        struct plain *p = &b->plain[i];
        p->b = b;
        p->buf = aligned(4096);
        p->req = (struct snic_files_req){.done = plain_done,
                                         .op = SNIC_FILES_READ,
                                         .file = b->file,
                                         .length = RECORD,
                                         .buf = {p->buf, RECORD},
                                         .region = SNIC_NO_REGION};
    }
    offload_open(b, 0);
    offload_open(b, 1);
}

static void bench_close(struct bench *b)
{
    for (int i = 0; i < 2; i++)
        free(snic_offload_fini(b->o[i]));
    for (uint32_t i = 0; i < DEPTH; i++)
        free(b->plain[i].buf);
    (void)snic_files_unmount(b->files);
    free(b->files_mem);
    snic_io_close(b->io);
    snic_loop_close(b->loop);
}

/* ---- Runs ---- */

static double run(struct bench *b, enum mode mode, double seconds, double *cpu_us)
{
    b->count = 0;
    b->stop = 0;
    for (uint32_t i = 0; i < DEPTH; i++) {
        if (mode == MODE_FILES)
            plain_one(&b->plain[i]);
        else
            offload_one(b, b->o[mode == MODE_STRICT]);
    }
    uint64_t c0 = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t t0 = now_ns(CLOCK_MONOTONIC);
    while (now_ns(CLOCK_MONOTONIC) - t0 < (uint64_t)(seconds * 1e9))
        (void)snic_loop_once(b->loop, 1000000);
    double n = (double)b->count;
    double took = (double)(now_ns(CLOCK_MONOTONIC) - t0);
    *cpu_us = (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - c0) / 1e3 / n;
    b->stop = 1;
    while (b->flying > 0)
        (void)snic_loop_once(b->loop, SNIC_NEVER);
    return n / took * 1e9;
}

/* Million operations per second of the versioned cache. */
static double run_cache(struct bench *b, int puts, double seconds)
{
    uint64_t n = 0;
    uint64_t hits = 0;           /* half of the keys are tombstones after the first round of puts */
    static uint64_t version = 2; /* grows over all rounds */
    uint64_t t0 = now_ns(CLOCK_MONOTONIC);
    uint64_t took;
    do {
        for (int i = 0; i < 1000; i++, n++) {
            uint64_t k = snic_rng_below(&b->rng, RECORDS);
            uint64_t item = k * RECORD;
            if (!puts)
                hits += snic_offload_get(b->o[0], &k, &item, NULL) == 0;
            else if (n & 1)
                check(snic_offload_put(b->o[0], &k, &item, version++) == 1, "put");
            else
                snic_offload_invalidate(b->o[0], &k, version++);
        }
        took = now_ns(CLOCK_MONOTONIC) - t0;
    } while ((double)took < seconds * 1e9);
    check(puts || hits > 0, "no hits");
    return (double)n / (double)took * 1e3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static struct bench b;
    double seconds = 10;
    double rate[MODES + 2][REPEATS];
    double cpu[MODES][REPEATS];
    char path[64] = "/tmp/bench_offload.XXXXXX";
    const char *file = NULL;
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        if (strcmp(argv[i], "--file") == 0)
            file = argv[i + 1];
    }
    if (file == NULL) {
        int fd = mkstemp(path);
        check(fd >= 0, "no temporary file");
        (void)close(fd);
    }
    snic_rng_init(&b.rng, 1);
    bench_open(&b, file != NULL ? file : path);
    double each = seconds / ((MODES + 2) * REPEATS);
    for (int k = 0; k < REPEATS; k++)
        for (int m = 0; m < MODES; m++)
            rate[m][k] = run(&b, (enum mode)m, each, &cpu[m][k]);
    for (int k = 0; k < REPEATS; k++)
        for (int m = 0; m < 2; m++)
            rate[MODES + m][k] = run_cache(&b, m, each);
    bench_close(&b);
    if (file == NULL)
        (void)unlink(path);
    for (int m = 0; m < MODES + 2; m++)
        qsort(rate[m], REPEATS, sizeof(double), by_size);
    for (int m = 0; m < MODES; m++) {
        qsort(cpu[m], REPEATS, sizeof(double), by_size);
        printf("row offload %s %s 1 %.0f op/s\n", mode_case[m], mode_who[m], rate[m][REPEATS / 2]);
        printf("row offload %s_cpu %s 1 %.3f us/op\n", mode_case[m], mode_who[m],
               cpu[m][REPEATS / 2]);
    }
    printf("row offload cache_get ours 1 %.2f M/s\n", rate[MODES][REPEATS / 2]);
    printf("row offload cache_put_invalidate ours 1 %.2f M/s\n", rate[MODES + 1][REPEATS / 2]);
    printf("row offload read_1k paper 1 730000 op/s\n");
    for (int m = 1; m < MODES; m++)
        printf("ratio offload %s ours/files 1 %.3f\n", mode_case[m],
               rate[m][REPEATS / 2] / rate[0][REPEATS / 2]);
    return 0;
}
