/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine and its memory. */
#include "snicstore/hcachelink.h"

#include "hcachelink/dpu_priv.h"

struct hcachelink_layout {
    void *engine;
    size_t engine_bytes;
    struct hcachelink_run *runs;
    unsigned char *pages;
};

static size_t hcachelink_place(struct hcachelink_layout *p, void *base,
                               const struct snic_hcachelink_dpu *d,
                               const struct snic_hcache_control_opts *co)
{
    struct snic_arena a = {base, SIZE_MAX, 0};
    p->engine_bytes = snic_hcache_control_memsize(&d->info, co);
    if (p->engine_bytes == 0)
        return 0;
    p->engine = snic_arena_take(&a, 1, p->engine_bytes, SNIC_CACHELINE);
    p->runs = snic_arena_take(&a, d->runs_max, sizeof(*p->runs), SNIC_CACHELINE);
    p->pages = snic_arena_take(&a, d->opts.tasks, d->info.page_bytes, SNIC_CACHELINE);
    return a.used == SIZE_MAX ? 0 : a.used;
}

int hcachelink_engine_open(struct snic_hcachelink_dpu *d)
{
    struct snic_hcache_control_opts co = d->opts.control;
    struct hcachelink_layout p;
    void *map = NULL;
    size_t need;
    int r;
    co.epoch = d->epoch;
    co.unordered = (d->dma->caps & SNIC_DMA_CAP_ORDERED_READ) == 0;
    d->runs_max = co.jobs != 0 ? co.jobs : 64;
    need = hcachelink_place(&p, NULL, d, &co);
    if (need == 0)
        return SNIC_EINVAL;
    if (need > d->opts.memory_max)
        return SNIC_ENOSPC;
    r = snic_dma_alloc(d->dma, need, &d->block);
    if (r != 0) {
        d->block = NULL;
        return r;
    }
    (void)hcachelink_place(&p, d->block, d, &co);
    r = snic_hcache_control_init(&d->engine, p.engine, p.engine_bytes, &d->info, &co,
                                 snic_loop_now(d->dma->loop));
    if (r != 0) {
        hcachelink_engine_close(d);
        return r;
    }
    d->refused = 0;
    d->refused_sent = 0;
    d->runs = p.runs;
    memset(p.runs, 0, d->runs_max * sizeof(*p.runs));
    d->free_runs = (struct snic_queue){NULL, NULL};
    for (uint32_t i = 0; i < d->runs_max; i++) {
        p.runs[i].d = d;
        snic_queue_push(&d->free_runs, &p.runs[i].node);
    }
    for (uint32_t i = 0; i < d->opts.tasks; i++)
        d->tasks[i].page = p.pages + (size_t)i * d->info.page_bytes;
    if ((d->dma->caps & SNIC_DMA_CAP_MAPPED) != 0 &&
        (d->opts.flags & SNIC_HCACHELINK_NO_SALVAGE) == 0 &&
        snic_dma_map(d->dma, d->key, 0, d->info.memory_bytes, &map) == 0)
        d->mapped = map;
    return 0;
}

void hcachelink_engine_close(struct snic_hcachelink_dpu *d)
{
    SNIC_ASSERT(d->runs_busy == 0 && d->tasks_busy == 0); /* D1 */
    if (d->mapped != NULL)
        snic_dma_unmap(d->dma, d->mapped);
    d->mapped = NULL;
    if (d->engine != NULL)
        (void)snic_hcache_control_fini(d->engine);
    d->engine = NULL;
    if (d->block != NULL)
        snic_dma_release(d->dma, d->block);
    d->block = NULL;
}

void hcachelink_engine_step(struct snic_hcachelink_dpu *d, const struct snic_hcache_event *ev)
{
    int r = snic_hcache_control_step(d->engine, ev, snic_loop_now(d->dma->loop));
    if (r == SNIC_EPEERDEAD && d->failed == 0)
        d->failed = r;
    hcachelink_dpu_kick(d);
}

int hcachelink_engine_rests(const struct snic_hcachelink_dpu *d)
{
    struct snic_hcache_control_stats s;
    if (d->runs_busy != 0 || !snic_hcache_control_idle(d->engine))
        return 0;
    snic_hcache_control_get_stats(d->engine, &s);
    return s.looks >= d->look_due;
}
