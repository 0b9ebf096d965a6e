/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU's process, the hybrid cache: the second link of a host is that of its region, for
 * hcachelink.h's half here. The region's pages are prefetched and written out by the same file
 * system, without a handle. Of a host that dies the pages that are whole are written before the
 * session ends.
 */
#include "dpu_priv.h"

#include <stdlib.h>
#include <string.h>

#define KD_CACHE_LOOK_NS 5000000u       /* a peer that cannot wait rings */
#define KD_CACHE_WAIT_NS 20000000000ull /* more than a dead host's pages take */

static void cache_gone(void *ctx, struct snic_hcachelink_dpu *half)
{
    struct kd *d = ctx;

    (void)half;
    d->cache.gone = 1;
}

int dpu_cache_attach(struct kd *d, struct snic_dma *dma)
{
    struct kd_cache *c = &d->cache;
    struct snic_hcachelink_dpu_opts o = {
        .opts_size = sizeof(o),
        .memory_max = UINT64_MAX,
        .control = {.opts_size = sizeof(o.control),
                    .look_ns = KD_CACHE_LOOK_NS,
                    .prefetch_max = d->config->prefetch ? 0 : SNIC_HCACHE_NO_PREFETCH},
        .gone = cache_gone,
        .ctx = d};
    size_t size = snic_hcachelink_dpu_memsize(&o);
    int rc = SNIC_ENOMEM;

    if (d->config->cache_bytes == 0 || !d->mounted || c->half != NULL)
        return SNIC_EBUSY;
    if (posix_memalign(&c->memory, SNIC_CACHELINE, size) == 0)
        rc = snic_hcachelink_dpu_init(&c->half, c->memory, size, dma, d->store.fs, &o);
    if (rc != 0) {
        free(c->memory);
        c->memory = NULL;
        c->half = NULL;
        return rc;
    }
    c->dma = dma;
    c->gone = 0;
    return 0;
}

static void cache_count(const struct kd_cache *c, struct km_cache_state *s)
{
    const struct snic_hcache_control *engine = snic_hcachelink_dpu_engine(c->half);
    struct snic_hcachelink_dpu_stats half;
    struct snic_hcache_control_stats of;

    snic_hcachelink_dpu_get_stats(c->half, &half);
    s->kind = KM_WIRE_KIND;
    s->dma_ops = c->dma->stats.reads + c->dma->stats.writes + c->dma->stats.atomics;
    s->flushes = half.writes;
    s->prefetched = half.fetches;
    if (engine == NULL)
        return;
    snic_hcache_control_get_stats(engine, &of);
    s->lag_ns = of.dirty_age_max_ns;
    s->flush_failures = of.flush_failures;
}

void dpu_cache_send_state(struct kd *d)
{
    struct kd_cache *c = &d->cache;

    if (c->half == NULL || c->gone)
        return;
    cache_count(c, &c->state);
    (void)snic_dma_send(c->dma, &c->state, sizeof(c->state));
}

static void cache_end(struct kd *d)
{
    struct kd_cache *c = &d->cache;

    cache_count(c, &c->state);
    c->before.dma_ops += c->state.dma_ops;
    c->before.flushes += c->state.flushes;
    c->before.flush_failures += c->state.flush_failures;
    c->before.prefetched += c->state.prefetched;
    c->before.lag_ns = snic_max_u64(c->before.lag_ns, c->state.lag_ns);
    memset(&c->state, 0, sizeof(c->state));
    (void)snic_hcachelink_dpu_fini(c->half);
    snic_dma_close(c->dma);
    free(c->memory);
    c->half = NULL;
    c->memory = NULL;
    c->dma = NULL;
    c->gone = 0;
}

void dpu_cache_look(struct kd *d)
{
    if (d->cache.half != NULL && d->cache.gone && snic_hcachelink_dpu_idle(d->cache.half))
        cache_end(d);
}

void dpu_cache_reap(struct kd *d)
{
    struct kd_cache *c = &d->cache;
    uint64_t until = snic_loop_now(d->loop) + KD_CACHE_WAIT_NS;
    struct snic_hcachelink_dpu_stats half;
    uint64_t written;

    if (c->half == NULL)
        return;
    snic_hcachelink_dpu_get_stats(c->half, &half);
    written = half.salvaged;
    while (!c->gone && snic_loop_now(d->loop) < until)
        (void)snic_loop_once(d->loop, 10000000u);
    if (!c->gone) { /* it lives, and has closed its other link only */
        snic_hcachelink_dpu_detach(c->half);
        while (!snic_hcachelink_dpu_idle(c->half))
            (void)snic_loop_once(d->loop, 10000000u);
    }
    snic_hcachelink_dpu_get_stats(c->half, &half);
    written = half.salvaged - written;
    if (written > 0)
        ex_log(EX_INFO, "wrote %llu cached pages of the host process that died",
               (unsigned long long)written);
    cache_end(d);
}

size_t dpu_cache_metrics(struct kd *d, struct ex_metric *out)
{
    struct kd_cache *c = &d->cache;
    const struct km_cache_state *b = &c->before;

    if (d->config->cache_bytes == 0)
        return 0;
    if (c->half != NULL)
        cache_count(c, &c->state);
    const struct ex_metric all[] = {
        {"cache_dma_ops", b->dma_ops + c->state.dma_ops, 1},
        {"cache_flushed_pages", b->flushes + c->state.flushes, 1},
        {"cache_flush_failures", b->flush_failures + c->state.flush_failures, 1},
        {"cache_flush_lag_max_us", snic_max_u64(b->lag_ns, c->state.lag_ns) / 1000, 0},
        {"cache_prefetched_pages", b->prefetched + c->state.prefetched, 1},
    };

    memcpy(out, all, sizeof(all));
    return SNIC_COUNTOF(all);
}
