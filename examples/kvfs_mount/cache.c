/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The hybrid cache of fscache.h between the mount and the link to the file system's process: it has
 * a link of its own, whose other end is dpu_cache.c.
 */
#include "remote_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct km_cache {
    struct snic_fscache *fc;
    void *memory;
    size_t memory_bytes;
    struct km_cache_state now;    /* as the other process has counted for this region, */
    struct km_cache_state before; /* and for those that were released */
};

/* ---- Requests ---- */

static struct km_call *cache_call(struct snic_fscache_req *req)
{
    return SNIC_CONTAINER(req, struct km_call, cached);
}

static void cache_done(struct snic_fscache_req *req)
{
    struct km_call *c = cache_call(req);

    c->data = req->data;
    km_call_done(c);
}

static void cache_bind(struct km_call *c)
{
    c->cached.k = &c->r.op;
    c->cached.data = c->data;
    c->cached.done = cache_done;
}

static void cache_submit(struct km *m, struct km_call *c)
{
    cache_bind(c);
    snic_fscache_submit(m->cache->fc, &c->cached);
}

static int cache_cancel(struct km *m, struct km_call *c)
{
    return remote_carrier.cancel(m, c); /* locks: the cache has only forwarded them */
}

static void cache_amend(const struct km *m, struct snic_fsop_attr *a)
{
    snic_fscache_amend(m->cache->fc, a);
}

static const struct km_carrier cache_carrier = {
    .submit = cache_submit, .cancel = cache_cancel, .amend = cache_amend};

/* ---- What the cache needs ---- */

static void cache_home(struct km_call *c)
{
    c->home = NULL;
    if (c->m->cache != NULL)
        snic_fscache_answer(c->m->cache->fc, &c->cached, c->data);
    else
        km_call_put(c); /* the cache has given it up, and so has the session: km_cache_close() */
}

static void cache_forward(void *ctx, struct snic_fscache_req *req)
{
    struct km_call *c = cache_call(req);

    c->home = cache_home;
    remote_carrier.submit(ctx, c);
}

static struct snic_fscache_req *cache_get(void *ctx)
{
    struct km_call *c = km_call_get(ctx);

    if (c == NULL)
        return NULL;
    km_call_clear(c);
    cache_bind(c);
    c->cached.buffer = km_call_data(c);
    SNIC_STATIC_ASSERT(SNIC_FSCACHE_BUFFER_BYTES <= KM_DATA, "a block has room for a run");
    return &c->cached;
}

static void cache_put(void *ctx, struct snic_fscache_req *req)
{
    (void)ctx;
    km_call_put(cache_call(req));
}

static struct snic_fscache_handle *cache_handle(void *ctx, uint64_t handle)
{
    const struct km *m = ctx;

    return remote_cached(m->remote, handle);
}

static int cache_by_name(void *ctx, const struct snic_fsop *k)
{
    (void)ctx;
    return remote_by_name(k);
}

static int cache_connect(void *ctx, struct snic_dma **out)
{
    static const struct snic_dma_events none;
    const struct km *m = ctx;
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o),
                                  .timeout_ms = 1000,
                                  .path = m->config->socket,
                                  .tag = km_tag(m->config)};

    return snic_dma_shm_connect(out, m->loop, &o, &none);
}

static void cache_lost(void *ctx, uint64_t ino)
{
    const struct km *m = ctx;

    remote_lost_note(m->remote, ino);
}

static void cache_invalid(void *ctx, uint64_t ino)
{
    km_notify_invalid(ctx, ino);
}

static int cache_recv(void *ctx, const void *msg, uint32_t size)
{
    const struct km *m = ctx;
    struct km_cache_state s;

    if (size != sizeof(s))
        return 0;
    memcpy(&s, msg, sizeof(s));
    if (s.kind != KM_WIRE_KIND)
        return 0;
    m->cache->now = s;
    remote_heard(m->remote);
    return 1;
}

static void cache_closed(void *ctx)
{
    const struct km *m = ctx;
    struct km_cache_state *before = &m->cache->before;
    const struct km_cache_state *now = &m->cache->now;

    before->dma_ops += now->dma_ops;
    before->flushes += now->flushes;
    before->flush_failures += now->flush_failures;
    before->prefetched += now->prefetched;
    before->lag_ns = snic_max_u64(before->lag_ns, now->lag_ns);
    memset(&m->cache->now, 0, sizeof(m->cache->now));
}

static void cache_report(void *ctx, const struct snic_fscache_report *r)
{
    unsigned long long ino = r->ino;

    (void)ctx;
    switch ((enum snic_fscache_report_kind)r->kind) {
    case SNIC_FSCACHE_REFUSED:
        ex_log(EX_ERROR,
               "inode %llu: the store refuses cached writes: %s; the next fsync or close reports "
               "the error, and then they are dropped (refusals since the last such line: %llu)",
               ino, snic_strerror(r->error), (unsigned long long)r->count);
        break;
    case SNIC_FSCACHE_LOST:
        ex_log(EX_ERROR, "inode %llu: writes in the cache are lost; its next fsync fails", ino);
        break;
    case SNIC_FSCACHE_UNUSABLE:
        ex_log(EX_WARNING,
               "cannot open the cache: %s; requests go without it, and it is tried again",
               snic_strerror(r->error));
        break;
    case SNIC_FSCACHE_BROKEN:
        ex_log(EX_ERROR,
               "the cache's link to the file system's process failed: %s; the cache is "
               "empty and is tried again",
               snic_strerror(r->error));
        break;
    case SNIC_FSCACHE_NOT_TAKEN:
        ex_log(EX_ERROR, "the file system's process refuses the cache of the one before it: %s",
               snic_strerror(r->error));
        break;
    case SNIC_FSCACHE_UNDROPPED:
        ex_log(EX_ERROR,
               "inode %llu: cannot drop its pages from the cache: %s; the cache is flushed and "
               "emptied",
               ino, snic_strerror(r->error));
        break;
    case SNIC_FSCACHE_UNLOCKED:
        ex_log(EX_ERROR, "inode %llu, page %llu of the cache: its lock is held by another owner",
               ino, (unsigned long long)r->lpn);
        break;
    }
}

/* ---- Open, close, state ---- */

static uint32_t cache_flags(const struct km_config *c)
{
    return (c->write_back ? SNIC_FSCACHE_WRITE_BACK : 0) |
           (c->prefetch ? SNIC_FSCACHE_PREFETCH : 0) | (c->read_only ? SNIC_FSCACHE_READ_ONLY : 0) |
           (c->atime == SNIC_KVFS_NO_ATIME ? SNIC_FSCACHE_NO_ATIME : 0) |
           (c->atime == SNIC_KVFS_STRICT_ATIME ? SNIC_FSCACHE_STRICT_ATIME : 0);
}

int km_cache_open(struct km *m)
{
    const struct snic_fscache_opts o = {
        .opts_size = sizeof(o),
        .flags = cache_flags(m->config),
        .inodes_max = km_inodes(m->config) + KM_BLOCKS, /* open, held, of calls in flight */
        /* Whole MiB, a multiple of a bucket's entries. */
        .pages_max = (m->config->cache_bytes >> 20) * ((1 << 20) / SNIC_FSCACHE_PAGE_BYTES),
        .ops = {.submit = cache_forward,
                .get = cache_get,
                .put = cache_put,
                .handle = cache_handle,
                .by_name = cache_by_name,
                .connect = cache_connect,
                .lost = cache_lost,
                .invalid = cache_invalid,
                .wall = kvfs_store_wall,
                .recv = cache_recv,
                .closed = cache_closed,
                .report = cache_report},
        .ctx = m};
    struct km_cache *k = calloc(1, sizeof(*k));
    int rc;

    if (k == NULL)
        return SNIC_ENOMEM;
    k->memory_bytes = snic_fscache_memsize(&o);
    if (k->memory_bytes == 0) {
        ex_log(EX_ERROR, "cannot make the cache (--cache-size): %s", snic_fscache_opts_wrong(&o));
        free(k);
        return SNIC_EINVAL;
    }
    /* Few inodes are open at a time. */
    k->memory = mmap(NULL, k->memory_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (k->memory == MAP_FAILED) {
        free(k);
        return SNIC_ENOMEM;
    }
    rc = snic_fscache_init(&k->fc, k->memory, k->memory_bytes, m->loop, &o);
    if (rc != 0) {
        munmap(k->memory, k->memory_bytes);
        free(k);
        return rc;
    }
    m->cache = k;
    m->carrier = &cache_carrier;
    return 0;
}

void km_cache_close(struct km *m)
{
    struct km_cache *k = m->cache;

    if (k == NULL)
        return;
    snic_fscache_close(k->fc);
    m->cache = NULL;
    m->carrier = &remote_carrier;
    munmap(snic_fscache_fini(k->fc), k->memory_bytes);
    free(k);
}

void km_cache_look(struct km *m)
{
    int alone = km_valid_now(m);

    if (m->cache != NULL)
        snic_fscache_update(m->cache->fc, (alone ? SNIC_FSCACHE_ALONE : 0) |
                                              (m->remote->state == KR_UP ? SNIC_FSCACHE_UP : 0));
}

void km_cache_give_up(struct km *m)
{
    if (m->cache != NULL)
        snic_fscache_abandon(m->cache->fc);
}

int km_cache_waits(const struct km *m)
{
    return m->cache != NULL && snic_fscache_busy(m->cache->fc);
}

/* ---- Figures ---- */

size_t km_cache_metrics(const struct km *m, struct ex_metric *out)
{
    const struct km_cache *k = m->cache;
    struct snic_fscache_stats s;

    if (k == NULL)
        return 0;
    snic_fscache_get_stats(k->fc, &s);
    const struct ex_metric all[] = {
        {"cache_on", s.on, 0},
        {"cache_reads", s.reads, 1},
        {"cache_hits", s.read_hits, 1}, /* of reads: no request was sent */
        {"cache_hit_pages", s.page_hits, 1},
        {"cache_miss_pages", s.page_misses, 1},
        {"cache_writes", s.writes, 1},
        {"cache_around", s.forwarded, 1}, /* reads and changes by the link */
        {"cache_dirty_bytes", s.dirty_bytes, 0},
        {"cache_flush_errors", s.flush_errors, 1},
        {"cache_lost_files", s.lost_inodes, 1}, /* whose bytes were dropped for that */
        {"cache_full", s.full, 0},
        {"cache_bypassed_pages", s.uncached, 1},
        {"cache_flushed_pages", k->before.flushes + k->now.flushes, 1},
        {"cache_flush_failures", k->before.flush_failures + k->now.flush_failures, 1},
        {"cache_flush_lag_max_us", snic_max_u64(k->before.lag_ns, k->now.lag_ns) / 1000, 0},
        {"cache_prefetched_pages", k->before.prefetched + k->now.prefetched, 1},
        {"cache_prefetched_used", s.prefetched_use, 1},
        {"cache_dma_ops", k->before.dma_ops + k->now.dma_ops, 1},
    };

    memcpy(out, all, sizeof(all));
    return SNIC_COUNTOF(all);
}
