/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "files_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DISK_BYTES ((uint64_t)256 << 20)

/* ---- Clocks and numbers ---- */

static double image_clock(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double bench_now(void)
{
    return image_clock(CLOCK_MONOTONIC);
}

double bench_cpu(void)
{
    return image_clock(CLOCK_PROCESS_CPUTIME_ID);
}

double bench_cpu_thread(void)
{
    return image_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t bench_must(const char *what, int64_t rc)
{
    if (rc >= 0)
        return rc;
    (void)fprintf(stderr, "bench: %s: %s\n", what, snic_strerror((int)rc));
    exit(1);
}

void *bench_memory(size_t size, size_t align)
{
    void *p = aligned_alloc(align, (size_t)snic_align_up(size, align));
    if (p == NULL)
        (void)bench_must("memory", SNIC_ENOMEM);
    return p;
}

static int image_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), image_compare);
    return v[n / 2];
}

void bench_row(const char *module, const char *name, const char *who, int threads, double *rate,
               double *cpu)
{
    (void)printf("row %s %s %s %d %.0f op/s\n", module, name, who, threads,
                 bench_median(rate, BENCH_REPEATS));
    (void)printf("row %s %s_cpu %s %d %.2f us/op\n", module, name, who, threads,
                 bench_median(cpu, BENCH_REPEATS));
    (void)fflush(stdout);
}

void bench_ratio(const char *module, const char *name, const char *peer, int threads, double *ours,
                 double *theirs)
{
    (void)printf("ratio %s %s ours/%s %d %.2f\n", module, name, peer, threads,
                 bench_median(ours, BENCH_REPEATS) / bench_median(theirs, BENCH_REPEATS));
    (void)fflush(stdout);
}

/* ---- The image ---- */

int64_t bench_op(struct bench *b, int op, const char *name, uint64_t file, uint64_t at, uint64_t n,
                 uint64_t *id)
{
    struct snic_files_req r;
    snic_files_req_init(&r);
    r.op = (uint8_t)op;
    r.name = name;
    r.name_size = name != NULL ? (uint32_t)strlen(name) : 0;
    r.file = file;
    r.offset = at;
    r.length = n;
    if (op == SNIC_FILES_WRITE) {
        r.buf.base = b->buf;
        r.buf.size = (size_t)n;
    }
    (void)snic_files_run(b->files, &r);
    if (id != NULL)
        *id = r.id;
    return r.result;
}

void bench_device(struct bench *b, uint64_t bytes, int create)
{
    struct snic_io_uring_opts o;
    size_t size = (size_t)BENCH_DEPTH_MAX * BENCH_IO_MAX;
    (void)bench_must("loop", snic_loop_uring_open(&b->loop, NULL));
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.flags = SNIC_IO_OPEN_TRY_DIRECT | (create ? (uint32_t)SNIC_IO_OPEN_CREATE : 0);
    o.path = b->path;
    o.size = create ? bytes : 0;
    (void)bench_must("device", snic_io_uring_open(&b->io, b->loop, &o, NULL));
    b->buf = bench_memory(size, 4096);
    memset(b->buf, 0x5a, size);
    b->region = snic_loop_region_add(b->loop, b->buf, size);
    if (b->region < 0)
        b->region = SNIC_NO_REGION;
}

void bench_mount(struct bench *b)
{
    struct snic_files_info info;
    size_t size;
    (void)bench_must("probe", snic_files_probe(b->io, &info));
    size = snic_files_memsize(&info, NULL);
    b->mem = bench_memory(size, SNIC_FILES_ALIGN);
    (void)bench_must("mount", snic_files_mount(&b->files, b->mem, size, b->io, NULL));
    b->base = info.data_offset;
}

void bench_open(struct bench *b)
{
    struct snic_files_format_opts fo;
    uint64_t at;
    bench_device(b, DISK_BYTES, 1);
    memset(&fo, 0, sizeof(fo));
    fo.opts_size = sizeof(fo);
    (void)bench_must("format", snic_files_format(b->io, &fo));
    bench_mount(b);
    (void)bench_must("create", bench_op(b, SNIC_FILES_CREATE, "data", 0, 0, 0, &b->file));
    for (at = 0; at < BENCH_FILE_BYTES; at += BENCH_IO_MAX)
        (void)bench_must("fill",
                         bench_op(b, SNIC_FILES_WRITE, NULL, b->file, at, BENCH_IO_MAX, NULL));
    (void)bench_must("fsync", bench_op(b, SNIC_FILES_FSYNC, NULL, b->file, 0, 0, NULL));
}

void bench_reopen(struct bench *b)
{
    bench_device(b, 0, 0);
    bench_mount(b);
    (void)bench_must("open", bench_op(b, SNIC_FILES_OPEN, "data", 0, 0, 0, &b->file));
}

void bench_close(struct bench *b)
{
    (void)bench_must("unmount", snic_files_unmount(b->files));
    snic_loop_region_remove(b->loop, b->region);
    snic_io_close(b->io);
    snic_loop_close(b->loop);
    free(b->mem);
    free(b->buf);
}

/* ---- Requests in flight ---- */

struct image_slot {
    struct snic_files_req req;
    struct snic_io_req io;
    struct bench_load *l;
    unsigned char *buf;
    char name[32];
};

static void slot_send(struct image_slot *s);

static void slot_done(struct image_slot *s, int64_t result)
{
    struct bench_load *l = s->l;
    (void)bench_must("request", result);
    l->done++;
    l->open--;
    if (!l->stop)
        slot_send(s);
}

static void slot_req_done(struct snic_files_req *r)
{
    slot_done(SNIC_CONTAINER(r, struct image_slot, req), r->result);
}

static void slot_io_done(struct snic_io_req *r)
{
    slot_done(SNIC_CONTAINER(r, struct image_slot, io), r->result);
}

static uint64_t load_offset(struct bench_load *l)
{
    uint64_t places = BENCH_FILE_BYTES / l->bytes;
    if (l->kind == BENCH_APPEND)
        return l->next++ * l->bytes;
    if (l->linear)
        return l->next++ % places * l->bytes;
    return snic_rng_below(&l->b->rng, places) * l->bytes;
}

static void slot_send_io(struct image_slot *s)
{
    struct bench_load *l = s->l;
    struct snic_io_req *io = &s->io;
    memset(io, 0, sizeof(*io));
    io->op = l->kind == BENCH_READ ? SNIC_IO_READ : SNIC_IO_WRITE;
    io->offset = l->b->base + load_offset(l);
    io->length = l->bytes;
    io->buf.base = s->buf;
    io->buf.size = l->bytes;
    io->region = l->b->region;
    io->done = slot_io_done;
    if (snic_io_submit(l->b->io, &io, 1) != 1)
        (void)bench_must("submit", SNIC_EIO);
}

static void slot_send(struct image_slot *s)
{
    struct bench_load *l = s->l;
    struct snic_files_req *r = &s->req;
    if (l->kind == BENCH_APPEND && l->next * l->bytes >= l->limit)
        return;
    l->open++;
    if (l->door) {
        slot_send_io(s);
        return;
    }
    snic_files_req_init(r);
    r->done = slot_req_done;
    if (l->kind == BENCH_CREATE) {
        r->op = l->next % 2 == 0 ? SNIC_FILES_CREATE : SNIC_FILES_DELETE;
        (void)snprintf(s->name, sizeof(s->name), "c%llu", (unsigned long long)(l->next++ / 2));
        r->name = s->name;
        r->name_size = (uint32_t)strlen(s->name);
    } else {
        r->op = l->kind == BENCH_READ ? SNIC_FILES_READ : SNIC_FILES_WRITE;
        r->flags = l->kind == BENCH_APPEND ? SNIC_FILES_SYNC : 0;
        r->file = l->file;
        r->offset = load_offset(l);
        r->length = l->bytes;
        r->buf.base = s->buf;
        r->buf.size = l->bytes;
        r->region = l->b->region;
    }
    snic_files_submit(l->b->files, &r, 1);
}

double bench_load_run(struct bench *b, struct bench_load *l, uint32_t depth, double seconds,
                      double *cpu)
{
    static struct image_slot slots[BENCH_DEPTH_MAX];
    double start = bench_now();
    double used = bench_cpu();
    double passed;
    uint32_t i;
    l->b = b;
    l->done = 0;
    l->stop = 0;
    l->open = 0;
    for (i = 0; i < depth; i++) {
        slots[i].l = l;
        slots[i].buf = b->buf + (size_t)i * BENCH_IO_MAX;
        slot_send(&slots[i]);
    }
    while (l->open > 0) {
        (void)snic_loop_once(b->loop, SNIC_NEVER);
        l->stop |= bench_now() - start >= seconds;
    }
    passed = bench_now() - start;
    *cpu = (bench_cpu() - used) * 1e6 / (double)(l->done > 0 ? l->done : 1);
    return (double)l->done / passed;
}
