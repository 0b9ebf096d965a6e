/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The file service on a file of the machine: random reads and writes of 4 KiB through the service
 * beside the same requests at the io door without it; what durable appends cost in preallocated
 * and in growing files, beside pwrite and fdatasync; metadata operations per second; and reads
 * through the file library, between two threads.
 *
 *     bench_files [--seconds N] [--path FILE]      N: time for everything
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "snicstore/filelib.h"

#define REPEATS 5
#define BLOCK 4096u
#define FILE_BYTES (64u << 20)
#define DISK_BYTES (256u << 20)
#define DEPTH_MAX 64u

static double bench_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double bench_cpu(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void bench_must(const char *what, int64_t rc)
{
    if (rc >= 0)
        return;
    (void)fprintf(stderr, "bench_files: %s: %s\n", what, snic_strerror((int)rc));
    exit(1);
}

static void *bench_memory(size_t size, size_t align)
{
    void *p = aligned_alloc(align, snic_align_up(size, align));
    if (p == NULL)
        bench_must("memory", SNIC_ENOMEM);
    return p;
}

/* ---- The service on a file ---- */

struct bench {
    const char *path;
    struct snic_loop *loop;
    struct snic_io *io;
    struct snic_files *files;
    void *mem;
    uint64_t file;
    uint64_t base; /* where the file begins on the device */
    double seconds;
    unsigned char *buf;
    struct snic_rng rng;
    uint64_t names; /* used so far */
};

static int64_t bench_op(struct bench *b, int op, const char *name, uint64_t file, uint64_t at,
                        uint64_t n, uint64_t *id)
{
    struct snic_files_req r;
    memset(&r, 0, sizeof(r));
    r.op = (uint8_t)op;
    r.name = name;
    r.name_size = name != NULL ? (uint32_t)strlen(name) : 0;
    r.file = file;
    r.offset = at;
    r.length = n;
    r.region = SNIC_NO_REGION;
    (void)snic_files_run(b->files, &r);
    if (id != NULL)
        *id = r.id;
    return r.result;
}

static void bench_open(struct bench *b)
{
    struct snic_io_uring_opts io;
    struct snic_files_format_opts fo;
    struct snic_files_info info;
    uint64_t at;
    bench_must("loop", snic_loop_uring_open(&b->loop, NULL));
    memset(&io, 0, sizeof(io));
    io.opts_size = sizeof(io);
    io.flags = SNIC_IO_OPEN_CREATE | SNIC_IO_OPEN_TRY_DIRECT;
    io.path = b->path;
    io.size = DISK_BYTES;
    bench_must("device", snic_io_uring_open(&b->io, b->loop, &io, NULL));
    memset(&fo, 0, sizeof(fo));
    fo.opts_size = sizeof(fo);
    bench_must("format", snic_files_format(b->io, &fo));
    bench_must("probe", snic_files_probe(b->io, &info));
    b->mem = bench_memory(snic_files_memsize(&info, NULL), SNIC_FILES_ALIGN);
    bench_must("mount",
               snic_files_mount(&b->files, b->mem, snic_files_memsize(&info, NULL), b->io, NULL));
    b->base = info.data_offset;
    b->buf = bench_memory((size_t)DEPTH_MAX * BLOCK, 4096);
    memset(b->buf, 0x5a, (size_t)DEPTH_MAX * BLOCK);
    bench_must("create", bench_op(b, SNIC_FILES_CREATE, "data", 0, 0, 0, &b->file));
    for (at = 0; at < FILE_BYTES; at += (uint64_t)DEPTH_MAX * BLOCK) {
        struct snic_files_req r;
        memset(&r, 0, sizeof(r));
        r.op = SNIC_FILES_WRITE;
        r.file = b->file;
        r.offset = at;
        r.length = (uint64_t)DEPTH_MAX * BLOCK;
        r.buf.base = b->buf;
        r.buf.size = (size_t)r.length;
        r.region = SNIC_NO_REGION;
        bench_must("fill", snic_files_run(b->files, &r));
    }
    bench_must("fsync", bench_op(b, SNIC_FILES_FSYNC, NULL, b->file, 0, 0, NULL));
}

static void bench_close(struct bench *b)
{
    bench_must("unmount", snic_files_unmount(b->files));
    snic_io_close(b->io);
    snic_loop_close(b->loop);
    free(b->mem);
    free(b->buf);
    (void)unlink(b->path);
}

/* ---- Requests in flight, at the service or at the door ---- */

enum bench_kind {
    KIND_READ,
    KIND_WRITE,
    KIND_APPEND, /* SYNC, one after the other in the file */
    KIND_CREATE
};

struct bench_load {
    struct bench *b;
    int door; /* at the io door */
    enum bench_kind kind;
    uint64_t file;
    uint64_t next;
    uint64_t done;
    uint64_t limit; /* of appends */
    int stop;
    uint32_t open;
};

struct bench_slot {
    struct snic_files_req req;
    struct snic_io_req io;
    struct bench_load *l;
    unsigned char *buf;
    char name[32];
};

static void slot_send(struct bench_slot *s);

static void slot_done(struct bench_slot *s, int64_t result)
{
    struct bench_load *l = s->l;
    bench_must("request", result);
    l->done++;
    l->open--;
    if (!l->stop)
        slot_send(s);
}

static void slot_req_done(struct snic_files_req *r)
{
    slot_done(SNIC_CONTAINER(r, struct bench_slot, req), r->result);
}

static void slot_io_done(struct snic_io_req *r)
{
    slot_done(SNIC_CONTAINER(r, struct bench_slot, io), r->result);
}

static uint64_t load_offset(struct bench_load *l)
{
    if (l->kind == KIND_APPEND)
        return l->next++ * BLOCK;
    return snic_rng_below(&l->b->rng, FILE_BYTES / BLOCK) * BLOCK;
}

static void slot_send(struct bench_slot *s)
{
    struct bench_load *l = s->l;
    struct snic_files_req *r = &s->req;
    struct snic_io_req *io = &s->io;
    if (l->kind == KIND_APPEND && l->next * BLOCK >= l->limit)
        return;
    l->open++;
    if (l->door) {
        memset(io, 0, sizeof(*io));
        io->op = l->kind == KIND_READ ? SNIC_IO_READ : SNIC_IO_WRITE;
        io->offset = l->b->base + load_offset(l);
        io->length = BLOCK;
        io->buf.base = s->buf;
        io->buf.size = BLOCK;
        io->region = SNIC_NO_REGION;
        io->done = slot_io_done;
        if (snic_io_submit(l->b->io, &io, 1) != 1)
            bench_must("submit", SNIC_EIO);
        return;
    }
    memset(r, 0, sizeof(*r));
    r->region = SNIC_NO_REGION;
    r->done = slot_req_done;
    if (l->kind == KIND_CREATE) {
        r->op = l->next % 2 == 0 ? SNIC_FILES_CREATE : SNIC_FILES_DELETE;
        (void)snprintf(s->name, sizeof(s->name), "c%llu", (unsigned long long)(l->next++ / 2));
        r->name = s->name;
        r->name_size = (uint32_t)strlen(s->name);
    } else {
        r->op = l->kind == KIND_READ ? SNIC_FILES_READ : SNIC_FILES_WRITE;
        r->flags = l->kind == KIND_APPEND ? SNIC_FILES_SYNC : 0;
        r->file = l->file;
        r->offset = load_offset(l);
        r->length = BLOCK;
        r->buf.base = s->buf;
        r->buf.size = BLOCK;
    }
    snic_files_submit(l->b->files, &r, 1);
}

/* Requests per second with `depth` of them in flight; CPU microseconds per request in *cpu. */
static double load_run(struct bench *b, struct bench_load *l, uint32_t depth, double seconds,
                       double *cpu)
{
    static struct bench_slot slots[DEPTH_MAX];
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
        slots[i].buf = b->buf + (size_t)i * BLOCK;
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

/* ---- Rows ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, REPEATS, sizeof(*v), compare);
    return v[REPEATS / 2];
}

static void row(const char *name, const char *who, double *rate, double *cpu)
{
    (void)printf("row files %s %s 1 %.0f op/s\n", name, who, median(rate));
    (void)printf("row files %s_cpu %s 1 %.2f us/op\n", name, who, median(cpu));
    (void)fflush(stdout);
}

static void ratio(const char *name, const char *peer, double *ours, double *theirs)
{
    (void)printf("ratio files %s ours/%s 1 %.2f\n", name, peer, median(ours) / median(theirs));
}

/* The service beside the door, interleaved. */
static void bench_against_door(struct bench *b, const char *name, enum bench_kind kind,
                               uint32_t depth)
{
    double rate[2][REPEATS];
    double cpu[2][REPEATS];
    int i;
    int who;
    for (i = 0; i < REPEATS; i++) {
        for (who = 0; who < 2; who++) {
            struct bench_load l;
            memset(&l, 0, sizeof(l));
            l.kind = kind;
            l.door = who;
            l.file = b->file;
            rate[who][i] = load_run(b, &l, depth, b->seconds, &cpu[who][i]);
        }
    }
    row(name, "ours", rate[0], cpu[0]);
    row(name, "io", rate[1], cpu[1]);
    ratio(name, "io", rate[0], rate[1]);
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
        bench_must("open", SNIC_EIO);
    (void)!posix_fallocate(fd, 0, 32 << 20);
    start = bench_now();
    used = bench_cpu();
    for (; bench_now() - start < seconds && n < (32u << 20) / BLOCK; n++)
        if (pwrite(fd, b->buf, BLOCK, (off_t)(n * BLOCK)) != BLOCK || fdatasync(fd) != 0)
            bench_must("append", SNIC_EIO);
    *cpu = (bench_cpu() - used) * 1e6 / (double)n;
    start = bench_now() - start;
    (void)close(fd);
    (void)unlink(path);
    return (double)n / start;
}

/* Durable appends: preallocated, growing, and as a program would without us. */
static void bench_appends(struct bench *b, uint32_t depth)
{
    double rate[3][REPEATS];
    double cpu[3][REPEATS];
    char name[32];
    int i;
    int who;
    for (i = 0; i < REPEATS; i++) {
        for (who = 0; who < 2; who++) {
            struct bench_load l;
            memset(&l, 0, sizeof(l));
            l.kind = KIND_APPEND;
            l.limit = 32u << 20;
            bench_must("create", bench_op(b, SNIC_FILES_CREATE, "log", 0, 0, 0, &l.file));
            if (who == 0)
                bench_must("prealloc",
                           bench_op(b, SNIC_FILES_PREALLOC, NULL, l.file, 0, l.limit, NULL));
            rate[who][i] = load_run(b, &l, depth, b->seconds, &cpu[who][i]);
            bench_must("delete", bench_op(b, SNIC_FILES_DELETE, "log", 0, 0, 0, NULL));
        }
        if (depth == 1)
            rate[2][i] = append_plain(b, b->seconds, &cpu[2][i]);
    }
    (void)snprintf(name, sizeof(name), "append_sync_4K_d%u", depth);
    row(name, "ours", rate[0], cpu[0]);
    (void)snprintf(name, sizeof(name), "append_sync_grow_4K_d%u", depth);
    row(name, "ours", rate[1], cpu[1]);
    if (depth != 1)
        return;
    (void)snprintf(name, sizeof(name), "append_sync_4K_d%u", depth);
    row(name, "pwrite_fdatasync", rate[2], cpu[2]);
    ratio(name, "pwrite_fdatasync", rate[0], rate[2]);
}

static void bench_metadata(struct bench *b, uint32_t depth)
{
    double rate[REPEATS];
    double cpu[REPEATS];
    char name[32];
    int i;
    for (i = 0; i < REPEATS; i++) {
        struct bench_load l;
        memset(&l, 0, sizeof(l));
        l.kind = KIND_CREATE;
        l.next = b->names + (b->names & 1);
        rate[i] = load_run(b, &l, depth, b->seconds, &cpu[i]);
        b->names = l.next;
    }
    (void)snprintf(name, sizeof(name), "create_delete_d%u", depth);
    row(name, "ours", rate, cpu);
}

/* ---- Through the library: the host on a second thread ---- */

struct bench_host {
    struct bench *b;
    struct snic_loop *loop;
    struct snic_dma *dma[2];
    struct snic_channel_hub *hub[2];
    struct snic_files_server *server;
    atomic_int state; /* 1 host loop open, 2 link open, 3 host done */
    double rate[REPEATS];
    double cpu[REPEATS];
    uint32_t depth;
};

static int host_accept(void *ctx, struct snic_channel_hub *h,
                       const struct snic_channel_offer *offer)
{
    struct bench_host *t = ctx;
    struct snic_files_server_opts o;
    size_t size;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.channel_flags = SNIC_CHANNEL_REGIONS;
    size = snic_files_server_memsize(&o);
    return snic_files_serve(&t->server, bench_memory(size, SNIC_CACHELINE), size, t->b->files, h,
                            offer, &o);
}

static struct snic_channel_hub *host_hub(struct bench_host *t, int dpu)
{
    struct snic_channel_hub_opts o;
    struct snic_channel_hub *h = NULL;
    size_t size;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.accept = dpu ? host_accept : NULL;
    o.ctx = t;
    size = snic_channel_hub_memsize(&o);
    bench_must("hub", snic_channel_hub_init(&h, bench_memory(size, SNIC_CACHELINE), size,
                                            t->dma[dpu], &o));
    return h;
}

static void host_measure(struct bench_host *t, struct snic_filelib *g, int repeat)
{
    static struct snic_filelib_req r[DEPTH_MAX];
    struct snic_filelib_req *p[DEPTH_MAX];
    unsigned char *buf = bench_memory((size_t)DEPTH_MAX * BLOCK, 4096);
    double start = bench_now();
    double used = bench_cpu();
    uint64_t done = 0;
    uint32_t open = 0;
    uint32_t i;
    int n = (int)t->depth;
    for (i = 0; i < t->depth; i++) {
        memset(&r[i], 0, sizeof(r[i]));
        r[i].user32 = i;
        p[i] = &r[i];
    }
    while (n > 0) {
        int more = bench_now() - start < t->b->seconds;
        for (i = 0; more && i < (uint32_t)n; i++) {
            uint32_t k = p[i]->user32;
            bench_must("read", p[i]->result);
            p[i]->op = SNIC_FILES_READ;
            p[i]->file = t->b->file;
            p[i]->offset = snic_rng_below(&t->b->rng, FILE_BYTES / BLOCK) * BLOCK;
            p[i]->length = BLOCK;
            p[i]->buf.base = buf + (size_t)k * BLOCK;
            p[i]->buf.size = BLOCK;
        }
        if (more) {
            snic_filelib_submit(g, p, (uint32_t)n);
            open += (uint32_t)n;
        }
        n = open > 0 ? snic_filelib_wait(g, p, DEPTH_MAX, SNIC_NEVER) : 0;
        bench_must("wait", n);
        done += (uint32_t)n;
        open -= (uint32_t)n;
    }
    t->rate[repeat] = (double)done / (bench_now() - start);
    t->cpu[repeat] = (bench_cpu() - used) * 1e6 / (double)done;
    free(buf);
}

static void *host_thread(void *arg)
{
    struct bench_host *t = arg;
    struct snic_filelib_opts o;
    struct snic_filelib *g = NULL;
    void *mem;
    int i;
    bench_must("loop", snic_loop_uring_open(&t->loop, NULL));
    atomic_store(&t->state, 1);
    while (atomic_load(&t->state) != 2)
        (void)sched_yield();
    t->hub[0] = host_hub(t, 0);
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.payload_align = 4096;
    mem = bench_memory(snic_filelib_memsize(&o), SNIC_FILELIB_ALIGN);
    bench_must("group", snic_filelib_open(&g, mem, snic_filelib_memsize(&o), t->hub[0], &o));
    for (i = 0; i < REPEATS; i++)
        host_measure(t, g, i);
    free(snic_filelib_close(g));
    while (snic_channel_hub_count(t->hub[0]) != 0)
        (void)snic_loop_once(t->loop, 1000000);
    atomic_store(&t->state, 3);
    snic_loop_wake(t->b->loop);
    free(snic_channel_hub_fini(t->hub[0]));
    snic_loop_close(t->loop);
    return NULL;
}

static void bench_library(struct bench *b, uint32_t depth)
{
    struct bench_host t;
    struct snic_dma_events none;
    pthread_t thread;
    char name[32];
    memset(&t, 0, sizeof(t));
    memset(&none, 0, sizeof(none));
    t.b = b;
    t.depth = depth;
    if (pthread_create(&thread, NULL, host_thread, &t) != 0)
        bench_must("thread", SNIC_ENOMEM);
    while (atomic_load(&t.state) != 1)
        (void)sched_yield();
    bench_must("link", snic_dma_local_open(&t.dma[0], t.loop, &none, &t.dma[1], b->loop, &none));
    t.hub[1] = host_hub(&t, 1);
    atomic_store(&t.state, 2);
    while (atomic_load(&t.state) != 3) {
        (void)snic_loop_once(b->loop, 1000000);
        if (t.server != NULL) {
            struct snic_channel_info info;
            snic_channel_get_info(snic_files_server_channel(t.server), &info);
            if (info.closed) {
                free(snic_files_server_close(t.server));
                t.server = NULL;
            }
        }
    }
    if (t.server != NULL)
        free(snic_files_server_close(t.server));
    (void)pthread_join(thread, NULL);
    free(snic_channel_hub_fini(t.hub[1]));
    (void)snprintf(name, sizeof(name), "library_read_4K_d%u", depth);
    (void)printf("row files %s ours 2 %.0f op/s\n", name, median(t.rate));
    (void)printf("row files %s_cpu ours 2 %.2f us/op\n", name, median(t.cpu));
}

int main(int argc, char **argv)
{
    struct bench b;
    double seconds = 20;
    int i;
    memset(&b, 0, sizeof(b));
    b.path = "bench_files.img";
    for (i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--path") == 0)
            b.path = argv[i + 1];
    }
    b.seconds = seconds / (REPEATS * 19);
    snic_rng_init(&b.rng, 1);
    bench_open(&b);
    bench_against_door(&b, "read_4K_d1", KIND_READ, 1);
    bench_against_door(&b, "read_4K_d32", KIND_READ, 32);
    bench_against_door(&b, "write_4K_d32", KIND_WRITE, 32);
    bench_appends(&b, 1);
    bench_appends(&b, 16);
    bench_metadata(&b, 1);
    bench_metadata(&b, 32);
    bench_library(&b, 1);
    bench_library(&b, 32);
    bench_close(&b);
    return 0;
}
