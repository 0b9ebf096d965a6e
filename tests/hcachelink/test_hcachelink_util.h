/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** Both halves in simulated time: host, dma's sim backend, DPU, kvfs, the store in memory. */
#ifndef SNIC_TEST_HCACHELINK_UTIL_H
#define SNIC_TEST_HCACHELINK_UTIL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "snicstore/hcachelink.h"
#include "support.h"

enum { RIG_PAGE = 8192 };

struct rig {
    struct snic_world *w;
    struct snic_loop *loop[2];
    struct snic_dma *d[2];
    struct snic_hcachelink_host *host;
    struct snic_hcachelink_dpu *dpu;
    struct snic_kvmem *medium;
    struct snic_kv *kv;
    struct snic_fs *fs;
    void *mem[3];
    struct snic_hcachelink_host_opts ho;
    struct snic_hcachelink_dpu_opts po;
    uint64_t handle; /* of the file that was made last */
    uint32_t opened, closed, gone;
    int no_dpu;        /* the test plays it */
    int local;         /* dma's local backend, mapped, in the same world */
    int ordered;       /* dma's reads are in order */
    uint32_t chunk;    /* of dma's sim backend; 0: its default */
    uint64_t store_ns; /* what a request of the store takes; 0: little */
    uint64_t space;    /* of the store; 0: enough */
    int reason;
};

static inline struct snic_hcachelink_host_stats rig_host_stats(const struct snic_hcachelink_host *h)
{
    struct snic_hcachelink_host_stats s;
    snic_hcachelink_host_get_stats(h, &s);
    return s;
}

static inline struct snic_hcache_control_stats rig_engine_stats(const struct snic_hcache_control *c)
{
    struct snic_hcache_control_stats s;

    snic_hcache_control_get_stats(c, &s);
    return s;
}

static inline struct snic_hcachelink_dpu_stats rig_dpu_stats(const struct snic_hcachelink_dpu *d)
{
    struct snic_hcachelink_dpu_stats s;
    snic_hcachelink_dpu_get_stats(d, &s);
    return s;
}

static inline int64_t rig_wall(void *ctx)
{
    struct rig *g = ctx;
    return 1700000000000000000 + (int64_t)snic_loop_now(g->loop[1]);
}

static inline void rig_opened(void *ctx, struct snic_hcachelink_host *h)
{
    struct rig *g = ctx;
    (void)h;
    g->opened++;
}

static inline void rig_closed(void *ctx, struct snic_hcachelink_host *h, int reason)
{
    struct rig *g = ctx;
    (void)h;
    g->closed++;
    g->reason = reason;
}

static inline void rig_gone(void *ctx, struct snic_hcachelink_dpu *d)
{
    struct rig *g = ctx;
    (void)d;
    g->gone++;
}

/** A file system on the medium as it is. */
static inline void rig_mount(struct rig *g, uint64_t session)
{
    struct snic_fs_opts o = {.opts_size = sizeof(struct snic_fs_opts),
                             .wall = rig_wall,
                             .ctx = g,
                             .session_id = session,
                             .requests_max = 128,
                             .inodes_max = 256,
                             .locks_max = 64,
                             .cache_bytes = 1 << 20};
    size_t size = snic_fs_memsize(&o);
    assert_int_equal(snic_kv_mem_open(&g->kv, g->loop[1], g->medium), 0);
    g->mem[0] = support_guard_alloc(size, 16);
    assert_int_equal(snic_fs_init(&g->fs, g->mem[0], size, g->loop[1], g->kv, &o), 0);
    if (session == 77)
        assert_int_equal(snic_fs_mkfs(g->fs, NULL), 0);
    assert_int_equal(snic_fs_mount(g->fs), 0);
}

static inline void rig_fs(struct rig *g)
{
    struct snic_kvmem_opts m = {.opts_size = sizeof(m),
                                .seed = support_seed(),
                                .delay_min_ns = 1000,
                                .delay_max_ns = 10000,
                                .space = g->space,
                                .track = 1};
    if (g->store_ns != 0)
        m.delay_min_ns = m.delay_max_ns = g->store_ns;
    assert_int_equal(snic_kvmem_open(&g->medium, &m), 0);
    rig_mount(g, 77);
}

static inline void rig_link(struct rig *g)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_dma_sim_opts so = {.opts_size = sizeof(so),
                                   .caps = SNIC_DMA_CAP_ATOMIC |
                                           (g->ordered ? SNIC_DMA_CAP_ORDERED_READ : 0),
                                   .chunk = g->chunk};
    if (g->local) {
        assert_int_equal(
            snic_dma_local_open(&g->d[0], g->loop[0], &none, &g->d[1], g->loop[1], &none), 0);
        return;
    }
    assert_int_equal(
        snic_dma_sim_open(&g->d[0], g->loop[0], &none, &g->d[1], g->loop[1], &none, &so), 0);
}

static inline void rig_dpu(struct rig *g)
{
    size_t size = snic_hcachelink_dpu_memsize(&g->po);
    g->mem[1] = support_guard_alloc(size, SNIC_CACHELINE);
    assert_int_equal(snic_hcachelink_dpu_init(&g->dpu, g->mem[1], size - 1, g->d[1], g->fs, &g->po),
                     SNIC_ENOSPC);
    assert_int_equal(snic_hcachelink_dpu_init(&g->dpu, g->mem[1], size, g->d[1], g->fs, &g->po), 0);
}

static inline int rig_step(struct rig *g)
{
    int r = snic_world_step(g->w);
    assert_int_equal(snic_hcachelink_host_check(g->host), 0);
    if (g->dpu != NULL)
        assert_int_equal(snic_hcachelink_dpu_check(g->dpu), 0);
    return r;
}

/** Before rig_open(): zero it, change ho and po. */
static inline void rig_defaults(struct rig *g)
{
    memset(g, 0, sizeof(*g));
    g->ho = (struct snic_hcachelink_host_opts){.opts_size = sizeof(g->ho),
                                               .cache = {.opts_size = sizeof(g->ho.cache),
                                                         .page_bytes = RIG_PAGE,
                                                         .ways = 8,
                                                         .mode = SNIC_HCACHE_MODE_WRITE,
                                                         .pages = 64},
                                               .events = {rig_opened, rig_closed, g}};
    g->po =
        (struct snic_hcachelink_dpu_opts){.opts_size = sizeof(g->po), .gone = rig_gone, .ctx = g};
    g->po.control.opts_size = sizeof(g->po.control);
    g->po.control.jobs = 16;
}

static inline void rig_open(struct rig *g)
{
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = support_seed()};
    size_t size = snic_hcachelink_host_memsize(&g->ho);
    assert_int_equal(snic_world_open(&g->w, &wo), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_world_loop(g->w, i, &g->loop[i]), 0);
    rig_link(g);
    rig_fs(g);
    g->mem[2] = support_guard_alloc(size, 16);
    assert_int_equal(snic_hcachelink_host_init(&g->host, g->mem[2], size - 1, &g->ho), SNIC_ENOSPC);
    assert_int_equal(snic_hcachelink_host_init(&g->host, g->mem[2], size, &g->ho), 0);
    if (!g->no_dpu)
        rig_dpu(g);
    assert_int_equal(snic_hcachelink_host_attach(g->host, g->d[0]), 0);
}

static inline void rig_settle(struct rig *g, uint64_t ns)
{
    uint64_t until = snic_world_now(g->w) + ns;
    while (snic_world_now(g->w) < until && rig_step(g))
        ;
}

static inline int rig_idle(const struct rig *g)
{
    return g->no_dpu || snic_hcachelink_dpu_idle(g->dpu);
}

/** The host's half ends, then all is closed. */
static inline void rig_close(struct rig *g)
{
    if (g->closed == 0)
        snic_hcachelink_host_end(g->host);
    for (int i = 0; i < 10000000 && (g->closed == 0 || !rig_idle(g)); i++)
        (void)rig_step(g);
    assert_true(g->closed > 0 && rig_idle(g));
    if (!g->no_dpu)
        support_guard_free(snic_hcachelink_dpu_fini(g->dpu));
    support_guard_free(snic_hcachelink_host_fini(g->host));
    assert_int_equal(snic_fs_unmount(g->fs), 0);
    support_guard_free(snic_fs_fini(g->fs));
    snic_kv_close(g->kv);
    snic_kvmem_close(g->medium);
    snic_dma_close(g->d[0]);
    snic_dma_close(g->d[1]);
    for (int i = 0; i < 2; i++)
        snic_loop_close(g->loop[i]);
    snic_world_close(g->w);
}

static inline void rig_done(struct snic_hcachelink_req *req)
{
    req->ctx = NULL;
}

/** Submit and wait. */
static inline int64_t rig_call(struct rig *g, struct snic_hcachelink_req *req)
{
    int r;
    req->done = rig_done;
    req->ctx = req;
    r = snic_hcachelink_submit(g->host, req);
    if (r != 0)
        return r < 0 ? r : req->result;
    for (int i = 0; i < 10000000 && req->ctx != NULL; i++)
        (void)rig_step(g);
    assert_null(req->ctx);
    return req->result;
}

static inline int64_t rig_op(struct rig *g, uint32_t op, uint64_t ino, uint64_t offset,
                             uint64_t length, void *data)
{
    struct snic_hcachelink_req req = {
        .op = op, .ino = ino, .offset = offset, .length = length, .data = data};
    return rig_call(g, &req);
}

/** A new file in the root: its ino. */
static inline uint64_t rig_file(struct rig *g, const char *name)
{
    struct snic_fsop k = {.kind = SNIC_FSOP_CREATE,
                          .flags = SNIC_FSOP_CHECKED | SNIC_FSOP_OPEN_WRITE,
                          .ino = SNIC_FSOP_ROOT,
                          .name = name,
                          .name_size = (uint32_t)strlen(name),
                          .mode = S_IFREG | 0644};
    assert_int_equal(snic_fs_call(g->fs, &k), 0);
    g->handle = k.handle;
    return k.attr.ino;
}

/** Write to a file of its own until the store has no more space. @return what was written */
static inline uint64_t rig_exhaust(struct rig *g, uint64_t ino)
{
    static unsigned char zeros[65536];
    uint64_t at = 0;
    for (size_t size = sizeof(zeros); size >= 512; size /= 2) {
        struct snic_iov iov = {.base = zeros, .size = size};
        struct snic_fsop k = {.kind = SNIC_FSOP_WRITE,
                              .flags = SNIC_FSOP_CHECKED,
                              .ino = ino,
                              .iov = &iov,
                              .iov_count = 1};
        do {
            k.offset = at;
            k.length = size;
            at += snic_fs_call(g->fs, &k) == (int64_t)size ? size : 0;
        } while (k.result == (int64_t)size);
        assert_int_equal(k.result, SNIC_ENOSPC);
    }
    return at;
}

static inline void rig_fill(unsigned char *p, size_t n, uint64_t seed)
{
    struct snic_rng rng;
    snic_rng_init(&rng, seed);
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)snic_rng_below(&rng, 256);
}

static inline uint64_t rig_dmas(const struct rig *g)
{
    return g->d[1]->stats.reads + g->d[1]->stats.writes + g->d[1]->stats.atomics;
}

#endif /* SNIC_TEST_HCACHELINK_UTIL_H */
