/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The file service on a file of the machine: random reads and writes of 4 KiB through the service
 * beside the same requests at the io door without it; what durable appends cost in preallocated
 * and in growing files, beside pwrite and fdatasync; metadata operations per second; and what it
 * takes to mount an image of 1 TiB.
 *
 *     bench_files [--seconds N] [--path FILE]      N: time for everything
 *     bench_files --make --path FILE               only make the image; prints where its file is
 *     bench_files --one OP BYTES DEPTH --seconds N --path FILE
 *                                                  only op/s and CPU us/op, for bench/files.sh;
 *                                                  OP: read, write (random), readseq, writeseq
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files_image.h"

#define TIB ((uint64_t)1 << 40)

/* The service beside the door, interleaved. */
static void bench_against_door(struct bench *b, const char *name, enum bench_kind kind,
                               uint32_t depth)
{
    double rate[2][BENCH_REPEATS];
    double cpu[2][BENCH_REPEATS];
    int i;
    int who;
    for (i = 0; i < BENCH_REPEATS; i++) {
        for (who = 0; who < 2; who++) {
            struct bench_load l;
            memset(&l, 0, sizeof(l));
            l.kind = kind;
            l.bytes = BENCH_BLOCK;
            l.door = who;
            l.file = b->file;
            rate[who][i] = bench_load_run(b, &l, depth, b->seconds, &cpu[who][i]);
        }
    }
    bench_row("files", name, "ours", 1, rate[0], cpu[0]);
    bench_row("files", name, "io", 1, rate[1], cpu[1]);
    bench_ratio("files", name, "io", 1, rate[0], rate[1]);
}

static double append_plain(struct bench *b, double seconds, double *cpu)
{
    char path[512];
    double start;
    double used;
    uint64_t n = 0;
    int fd;
    (void)snprintf(path, sizeof(path), "%s.log", b->path);
    fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (fd < 0)
        (void)bench_must("open", SNIC_EIO);
    (void)!posix_fallocate(fd, 0, 32 << 20);
    start = bench_now();
    used = bench_cpu();
    for (; bench_now() - start < seconds && n < (32u << 20) / BENCH_BLOCK; n++)
        if (pwrite(fd, b->buf, BENCH_BLOCK, (off_t)(n * BENCH_BLOCK)) != BENCH_BLOCK ||
            fdatasync(fd) != 0)
            (void)bench_must("append", SNIC_EIO);
    *cpu = (bench_cpu() - used) * 1e6 / (double)n;
    start = bench_now() - start;
    (void)close(fd);
    (void)unlink(path);
    return (double)n / start;
}

/* Durable appends: preallocated, growing, and as a program would without us. */
static void bench_appends(struct bench *b, uint32_t depth)
{
    double rate[3][BENCH_REPEATS];
    double cpu[3][BENCH_REPEATS];
    char name[32];
    int i;
    int who;
    for (i = 0; i < BENCH_REPEATS; i++) {
        for (who = 0; who < 2; who++) {
            struct bench_load l;
            memset(&l, 0, sizeof(l));
            l.kind = BENCH_APPEND;
            l.bytes = BENCH_BLOCK;
            l.limit = 32u << 20;
            (void)bench_must("create", bench_op(b, SNIC_FILES_CREATE, "log", 0, 0, 0, &l.file));
            if (who == 0)
                (void)bench_must("prealloc",
                                 bench_op(b, SNIC_FILES_PREALLOC, NULL, l.file, 0, l.limit, NULL));
            rate[who][i] = bench_load_run(b, &l, depth, b->seconds, &cpu[who][i]);
            (void)bench_must("delete", bench_op(b, SNIC_FILES_DELETE, "log", 0, 0, 0, NULL));
        }
        if (depth == 1)
            rate[2][i] = append_plain(b, b->seconds, &cpu[2][i]);
    }
    (void)snprintf(name, sizeof(name), "append_sync_4K_d%u", depth);
    bench_row("files", name, "ours", 1, rate[0], cpu[0]);
    (void)snprintf(name, sizeof(name), "append_sync_grow_4K_d%u", depth);
    bench_row("files", name, "ours", 1, rate[1], cpu[1]);
    if (depth != 1)
        return;
    (void)snprintf(name, sizeof(name), "append_sync_4K_d%u", depth);
    bench_row("files", name, "pwrite_fdatasync", 1, rate[2], cpu[2]);
    bench_ratio("files", name, "pwrite_fdatasync", 1, rate[0], rate[2]);
}

static void bench_metadata(struct bench *b, uint32_t depth)
{
    double rate[BENCH_REPEATS];
    double cpu[BENCH_REPEATS];
    char name[32];
    int i;
    for (i = 0; i < BENCH_REPEATS; i++) {
        struct bench_load l;
        memset(&l, 0, sizeof(l));
        l.kind = BENCH_CREATE;
        l.next = b->names + (b->names & 1);
        rate[i] = bench_load_run(b, &l, depth, b->seconds, &cpu[i]);
        b->names = l.next;
    }
    (void)snprintf(name, sizeof(name), "create_delete_d%u", depth);
    bench_row("files", name, "ours", 1, rate, cpu);
}

/* ---- An image of 1 TiB ---- */

/* Format, and mount with @p owned segments in files: the segments are spread over the tables. */
static void bench_tib_fill(struct bench *b, uint64_t owned)
{
    uint64_t i;
    (void)bench_must("create", bench_op(b, SNIC_FILES_CREATE, "data", 0, 0, 0, &b->file));
    for (i = 0; i < owned; i++)
        (void)bench_must("fill",
                         bench_op(b, SNIC_FILES_WRITE, NULL, b->file, i << 20, BENCH_BLOCK, NULL));
}

static void bench_tib(struct bench *main_bench)
{
    struct snic_files_format_opts fo;
    struct snic_files_info info;
    struct bench b;
    double start;
    double ms[BENCH_REPEATS];
    double cpu[BENCH_REPEATS];
    char path[512];
    int fd;
    int i;
    memset(&b, 0, sizeof(b));
    (void)snprintf(path, sizeof(path), "%s.1TiB", main_bench->path);
    b.path = path;
    fd = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)TIB) != 0) {
        (void)printf("skip files mount_1TiB: no sparse file of 1 TiB here\n");
        (void)unlink(path);
        return;
    }
    (void)close(fd);
    bench_device(&b, 0, 0);
    memset(&fo, 0, sizeof(fo));
    fo.opts_size = sizeof(fo);
    start = bench_now();
    (void)bench_must("format", snic_files_format(b.io, &fo));
    (void)printf("row files format_1TiB ours 1 %.1f ms\n", (bench_now() - start) * 1e3);
    bench_mount(&b);
    bench_tib_fill(&b, 4096);
    for (i = 0; i < BENCH_REPEATS; i++) {
        (void)bench_must("unmount", snic_files_unmount(b.files));
        free(b.mem);
        cpu[i] = bench_cpu();
        start = bench_now();
        bench_mount(&b);
        ms[i] = (bench_now() - start) * 1e3;
        cpu[i] = (bench_cpu() - cpu[i]) * 1e3;
    }
    snic_files_get_info(b.files, &info);
    (void)printf("row files mount_1TiB ours 1 %.1f ms\n", bench_median(ms, BENCH_REPEATS));
    (void)printf("row files mount_1TiB_cpu ours 1 %.1f ms\n", bench_median(cpu, BENCH_REPEATS));
    (void)printf("row files mount_1TiB_memory ours 1 %.1f MiB\n",
                 (double)snic_files_memsize(&info, NULL) / 1048576.0);
    bench_close(&b);
    (void)unlink(path);
}

/* ---- Modes ---- */

static int bench_one(struct bench *b, const char *op, uint32_t bytes, uint32_t depth)
{
    struct bench_load l;
    double cpu;
    double rate;
    memset(&l, 0, sizeof(l));
    l.kind = strncmp(op, "write", 5) == 0 ? BENCH_WRITE : BENCH_READ;
    l.linear = strstr(op, "seq") != NULL;
    l.bytes = bytes;
    if (bytes == 0 || bytes % 512 != 0 || bytes > BENCH_IO_MAX || depth == 0 ||
        depth > BENCH_DEPTH_MAX)
        return 2;
    bench_reopen(b);
    l.file = b->file;
    (void)bench_load_run(b, &l, depth, b->seconds / 2, &cpu); /* as fio's --ramp_time */
    rate = bench_load_run(b, &l, depth, b->seconds, &cpu);
    (void)printf("%.1f %.3f\n", rate, cpu);
    bench_close(b);
    return 0;
}

static void bench_all(struct bench *b)
{
    b->seconds /= BENCH_REPEATS * 17;
    bench_open(b);
    bench_against_door(b, "read_4K_d1", BENCH_READ, 1);
    bench_against_door(b, "read_4K_d32", BENCH_READ, 32);
    bench_against_door(b, "write_4K_d32", BENCH_WRITE, 32);
    bench_appends(b, 1);
    bench_appends(b, 16);
    bench_metadata(b, 1);
    bench_metadata(b, 32);
    bench_close(b);
    bench_tib(b);
    (void)unlink(b->path);
}

int main(int argc, char **argv)
{
    struct bench b;
    const char *one = NULL;
    uint32_t bytes = 0;
    uint32_t depth = 0;
    int make = 0;
    int i;
    memset(&b, 0, sizeof(b));
    b.path = "bench_files.img";
    b.seconds = 20;
    snic_rng_init(&b.rng, 1);
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
            b.seconds = strtod(argv[++i], NULL);
        } else if (strcmp(argv[i], "--path") == 0 && i + 1 < argc) {
            b.path = argv[++i];
        } else if (strcmp(argv[i], "--make") == 0) {
            make = 1;
        } else if (strcmp(argv[i], "--one") == 0 && i + 3 < argc) {
            one = argv[++i];
            bytes = (uint32_t)strtoul(argv[++i], NULL, 10);
            depth = (uint32_t)strtoul(argv[++i], NULL, 10);
        }
    }
    if (one != NULL)
        return bench_one(&b, one, bytes, depth);
    if (!make) {
        bench_all(&b);
        return 0;
    }
    bench_open(&b);
    (void)printf("%llu %llu\n", (unsigned long long)b.base, (unsigned long long)BENCH_FILE_BYTES);
    bench_close(&b);
    return 0;
}
