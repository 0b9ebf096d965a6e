/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The engine without FUSE: lookups and creates per second on one core, on the store in memory.
 *
 *     bench_kvfs [--repeats N] [--only ROW] [--files N]
 *
 * Rows: the engine with operations carried out at once (engine), and the same through the service
 * fs.h, its loop and the door (ours), with QUEUE requests in flight. `lookup` finds random names
 * of FILES in one directory with a warm cache; `lookup_cold` with a cache of next to nothing, so
 * that each goes to the store; `create` makes FILES files in 100 directories, `create_one` in
 * one.
 */
#include "snicstore/fs.h"
#include "snicstore/kv.h"
#include "snicstore/kvfs.h"
#include "snicstore/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { QUEUE = 64, DIRS = 100, NAME = 24, REPEATS_MAX = 101 };

static uint32_t files = 20000, repeats = 5;
static const char *only;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void die(const char *what, int64_t rc)
{
    fprintf(stderr, "bench_kvfs: %s: %s\n", what, snic_strerror((int)rc));
    exit(1);
}

/* ---- A file system under test: submits, and gives back what is done ---- */

struct bench {
    struct snic_kvmem *m;
    struct snic_kvfs *k; /* the engine alone ... */
    struct snic_kvfs_now now;
    struct snic_fs *fs; /* ... or with service, loop and door */
    struct snic_loop *loop;
    struct snic_kv *kv;
    void *mem;
    uint64_t seed;
    struct snic_fs_req req[QUEUE];
    struct snic_fsop *idle[QUEUE];
    uint32_t idle_count;
    char name[QUEUE][NAME];
    uint64_t dir[DIRS];
};

static void *bench_memory(size_t size)
{
    enum { PAGE = 2 << 20 };
    void *p = NULL;
    if (size == 0 || posix_memalign(&p, PAGE, size) != 0)
        die("memory", SNIC_ENOMEM);
    (void)madvise(p, size, MADV_HUGEPAGE); /* as kvfs.h recommends */
    return p;
}

static void bench_ended(struct bench *b, struct snic_fsop *r)
{
    if (r->result < 0)
        die("request", r->result);
    b->idle[b->idle_count++] = r;
}

static void bench_done(struct snic_fs_req *req)
{
    bench_ended(req->op.ctx, &req->op);
}

static void bench_poll(struct bench *b)
{
    struct snic_kvfs_io *io;
    struct snic_fsop *r;
    uint32_t before = b->idle_count;
    uint64_t ios = 0;
    if (b->fs != NULL) {
        if (snic_loop_once(b->loop, 1000000) < 0)
            die("loop", SNIC_EIO);
        return;
    }
    while ((io = snic_kvfs_poll_io(b->k)) != NULL) {
        snic_kvmem_apply(b->m, &io->op);
        b->now.mono_ns++;
        ios++;
        snic_kvfs_complete(b->k, io, b->now);
    }
    while ((r = snic_kvfs_poll_done(b->k)) != NULL)
        bench_ended(b, r);
    if (ios == 0 && b->idle_count == before) { /* the engine waits for a time */
        uint64_t deadline = snic_kvfs_deadline_ns(b->k);
        b->now.mono_ns =
            deadline == SNIC_NEVER ? b->now.mono_ns : snic_max_u64(deadline, b->now.mono_ns);
        snic_kvfs_advance(b->k, b->now);
    }
}

/* A request that is idle. */
static struct snic_fsop *bench_next(struct bench *b)
{
    while (b->idle_count == 0)
        bench_poll(b);
    return b->idle[--b->idle_count];
}

static void bench_join(struct bench *b)
{
    while (b->idle_count < QUEUE)
        bench_poll(b);
}

static void bench_submit(struct bench *b, struct snic_fsop *r)
{
    int rc = 0;
    if (b->fs != NULL)
        snic_fs_submit(b->fs, SNIC_CONTAINER(r, struct snic_fs_req, op));
    else
        rc = snic_kvfs_submit(b->k, r, b->now);
    if (rc != 0)
        die("submit", rc);
}

static struct snic_fsop *bench_req(struct bench *b, enum snic_fsop_kind kind, uint64_t ino)
{
    struct snic_fsop *r = bench_next(b);
    memset(r, 0, sizeof(*r));
    r->kind = kind;
    r->ino = ino;
    r->ctx = b;
    return r;
}

static void bench_name(struct bench *b, struct snic_fsop *r, const char *prefix, uint32_t i)
{
    char *name = b->name[SNIC_CONTAINER(r, struct snic_fs_req, op) - b->req];
    size_t at = strlen(prefix);
    memcpy(name, prefix, at);
    for (uint32_t digits = 0; digits < 8; digits++, i /= 10)
        name[at + 7 - digits] = (char)('0' + i % 10);
    r->name = name;
    r->name_size = (uint32_t)at + 8;
}

static void bench_simple(struct bench *b, enum snic_fsop_kind kind)
{
    bench_submit(b, bench_req(b, kind, 0));
    bench_join(b);
}

static int64_t bench_wall(void *ctx)
{
    (void)ctx;
    return 1700000000000000000;
}

static void bench_open_engine(struct bench *b, uint64_t cache_bytes)
{
    struct snic_kvfs_opts o = {.opts_size = sizeof(o),
                               .session_id = 1,
                               .cache_bytes = cache_bytes,
                               .stripe_bytes = 4U << 20,
                               .caps = SNIC_KV_CAP_ATOMIC_MULTI | SNIC_KV_CAP_ATOMIC_BLOCK |
                                       SNIC_KV_CAP_CHECKSUM | SNIC_KV_CAP_ALLOC |
                                       SNIC_KV_CAP_DURABLE | SNIC_KV_CAP_SHARED};
    int rc;
    b->mem = bench_memory(snic_kvfs_memsize(&o));
    rc = snic_kvfs_init(&b->k, b->mem, snic_kvfs_memsize(&o), &o);
    if (rc != 0)
        die("engine", rc);
    b->now.mono_ns = 1;
    b->now.wall_ns = 1700000000000000000;
    snic_kvfs_set_sole(b->k, 1);
}

static void bench_open_service(struct bench *b, uint64_t cache_bytes)
{
    struct snic_loop_uring_opts lo = {.opts_size = sizeof(lo)};
    struct snic_fs_opts o = {
        .opts_size = sizeof(o), .session_id = 1, .cache_bytes = cache_bytes, .wall = bench_wall};
    int rc = snic_loop_uring_open(&b->loop, &lo);
    if (rc == 0)
        rc = snic_kv_mem_open(&b->kv, b->loop, b->m);
    if (rc != 0)
        die("loop", rc);
    b->mem = bench_memory(snic_fs_memsize(&o));
    rc = snic_fs_init(&b->fs, b->mem, snic_fs_memsize(&o), b->loop, b->kv, &o);
    if (rc != 0)
        die("service", rc);
}

static void bench_open(struct bench *b, int service, uint64_t cache_bytes)
{
    struct snic_kvmem_opts mo = {.opts_size = sizeof(mo), .seed = 1};
    int rc;
    memset(b, 0, sizeof(*b));
    b->seed = 1;
    rc = snic_kvmem_open(&b->m, &mo);
    if (rc != 0)
        die("store", rc);
    if (service)
        bench_open_service(b, cache_bytes);
    else
        bench_open_engine(b, cache_bytes);
    for (uint32_t i = 0; i < QUEUE; i++) {
        b->req[i].done = bench_done;
        b->idle[b->idle_count++] = &b->req[i].op;
    }
    bench_simple(b, SNIC_FSOP_MKFS);
    bench_simple(b, SNIC_FSOP_MOUNT);
    for (uint32_t i = 0; i < DIRS; i++) {
        struct snic_fsop *r = bench_req(b, SNIC_FSOP_MKDIR, SNIC_FSOP_ROOT);
        bench_name(b, r, "dir", i);
        r->mode = 0755;
        bench_submit(b, r);
        bench_join(b);
        b->dir[i] = r->attr.ino;
    }
}

static void bench_close(struct bench *b)
{
    bench_simple(b, SNIC_FSOP_UNMOUNT);
    if (b->fs != NULL) {
        free(snic_fs_fini(b->fs));
        snic_kv_close(b->kv);
        snic_loop_close(b->loop);
    } else {
        free(snic_kvfs_fini(b->k));
    }
    snic_kvmem_close(b->m);
}

/* ---- Rows ---- */

/* What was measured: by the clock, and in time of the processor, which others do not disturb. */
struct rate {
    uint64_t began;
    uint64_t began_cpu;
    double per_second;
    double cpu_us; /* per operation */
};

static void rate_begin(struct rate *r)
{
    r->began = now_ns(CLOCK_MONOTONIC);
    r->began_cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void rate_end(struct rate *r, uint32_t count)
{
    uint64_t took = now_ns(CLOCK_MONOTONIC) - r->began;
    uint64_t cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - r->began_cpu;
    r->per_second = (double)count * 1e9 / (double)(took == 0 ? 1 : took);
    r->cpu_us = (double)cpu / 1e3 / (double)count;
}

static struct rate bench_creates(struct bench *b, uint32_t dirs)
{
    struct rate rate;
    rate_begin(&rate);
    for (uint32_t i = 0; i < files; i++) {
        struct snic_fsop *r = bench_req(b, SNIC_FSOP_MKNOD, b->dir[i % dirs]);
        bench_name(b, r, "file", i);
        r->mode = 0100644;
        bench_submit(b, r);
    }
    bench_join(b);
    rate_end(&rate, files);
    return rate;
}

static struct rate bench_lookups(struct bench *b, uint32_t count)
{
    uint64_t x = b->seed++;
    struct rate rate;
    rate_begin(&rate);
    for (uint32_t i = 0; i < count; i++) {
        struct snic_fsop *r = bench_req(b, SNIC_FSOP_LOOKUP, b->dir[0]);
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        bench_name(b, r, "file", (uint32_t)((x >> 33) % files));
        bench_submit(b, r);
    }
    bench_join(b);
    rate_end(&rate, count);
    return rate;
}

static struct rate row_creates(int service, uint32_t dirs)
{
    struct bench b;
    struct rate rate;
    bench_open(&b, service, 0);
    rate = bench_creates(&b, dirs);
    bench_close(&b);
    return rate;
}

static struct rate row_create(int service)
{
    return row_creates(service, DIRS);
}

static struct rate row_create_one(int service)
{
    return row_creates(service, 1);
}

static struct rate row_lookups(int service, uint64_t cache_bytes)
{
    struct bench b;
    struct rate rate;
    bench_open(&b, service, cache_bytes);
    (void)bench_creates(&b, 1);
    (void)bench_lookups(&b, files);
    rate = bench_lookups(&b, 20 * files);
    bench_close(&b);
    return rate;
}

static struct rate row_lookup(int service)
{
    return row_lookups(service, 0);
}

static struct rate row_lookup_cold(int service)
{
    return row_lookups(service, 1);
}

static const struct {
    const char *name;
    struct rate (*run)(int service);
} rows[] = {{"lookup", row_lookup},
            {"lookup_cold", row_lookup_cold},
            {"create", row_create},
            {"create_one", row_create_one}};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, repeats, sizeof(*v), ascending);
    return v[repeats / 2];
}

int main(int argc, char **argv)
{
    static double rate[SNIC_COUNTOF(rows)][2][REPEATS_MAX], cpu[SNIC_COUNTOF(rows)][2][REPEATS_MAX];
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--repeats") == 0)
            repeats = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--files") == 0)
            files = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
    }
    if (repeats == 0 || repeats > REPEATS_MAX || files == 0) {
        fprintf(stderr, "bench_kvfs [--repeats 1..%d] [--only ROW] [--files N]\n", REPEATS_MAX);
        return 2;
    }
    for (uint32_t n = 0; n < repeats; n++)
        for (size_t i = 0; i < SNIC_COUNTOF(rows); i++)
            if (only == NULL || strcmp(only, rows[i].name) == 0)
                for (int service = 0; service < 2; service++) {
                    struct rate r = rows[i].run(service);
                    rate[i][service][n] = r.per_second;
                    cpu[i][service][n] = r.cpu_us;
                }
    for (size_t i = 0; i < SNIC_COUNTOF(rows); i++) {
        if (only != NULL && strcmp(only, rows[i].name) != 0)
            continue;
        for (int service = 0; service < 2; service++) {
            const char *who = service ? "ours" : "engine";
            printf("row kvfs %s %s 1 %.0f op/s\n", rows[i].name, who, median(rate[i][service]));
            printf("row kvfs %s_cpu %s 1 %.3f us/op\n", rows[i].name, who, median(cpu[i][service]));
        }
    }
    return 0;
}
