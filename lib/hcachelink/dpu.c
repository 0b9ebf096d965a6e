/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The DPU's half: its memory, and what its user calls. */
#include "snicstore/hcachelink.h"

#include "hcachelink/dpu_priv.h"

/** All options, defaults filled in. Which one is wrong, and how; NULL: none. */
static const char *hcachelink_dpu_opts_fill(struct snic_hcachelink_dpu_opts *o,
                                            const struct snic_hcachelink_dpu_opts *in)
{
    *o = (struct snic_hcachelink_dpu_opts){.opts_size = sizeof(*o)};
    if (snic_opts_copy(o, sizeof(*o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (o->control.opts_size == 0)
        o->control.opts_size = sizeof(o->control);
    o->tasks = o->tasks != 0 ? o->tasks : 32;
    o->memory_max = o->memory_max != 0 ? o->memory_max : UINT64_C(1) << 30;
    o->salvage_ns = o->salvage_ns != 0 ? o->salvage_ns : UINT64_C(10000000000);
    o->salvage_ns = snic_min_u64(o->salvage_ns, SNIC_HCACHELINK__TIME_MAX);
    if ((o->flags & ~(SNIC_HCACHELINK_SHARED | SNIC_HCACHELINK_NO_SALVAGE)) != 0)
        return "flags: unknown bits";
    if (o->bell >= SNIC_DMA_DOORBELLS)
        return "bell: not below SNIC_DMA_DOORBELLS";
    if (o->tasks < 2 || o->tasks > SNIC_HCACHELINK__TASKS_MAX)
        return "tasks: not 2..64";
    if (o->control.seal != NULL && o->control.seal->pack != NULL)
        return "control.seal: pack is set, and a file has no place for packed pages";
    return NULL;
}

const char *snic_hcachelink_dpu_opts_wrong(const struct snic_hcachelink_dpu_opts *o)
{
    struct snic_hcachelink_dpu_opts full;
    return hcachelink_dpu_opts_fill(&full, o);
}

size_t snic_hcachelink_dpu_memsize(const struct snic_hcachelink_dpu_opts *o)
{
    return snic_hcachelink_dpu_opts_wrong(o) != NULL ? 0 : sizeof(struct snic_hcachelink_dpu);
}

static void hcachelink_dpu_on_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    (void)d;
    snic_hcachelink_dpu_recv(ctx, msg, size);
}

static void hcachelink_dpu_on_bell(void *ctx, struct snic_dma *d, uint32_t id)
{
    (void)d;
    snic_hcachelink_dpu_doorbell(ctx, id);
}

static void hcachelink_dpu_on_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    (void)d;
    snic_hcachelink_dpu_death(ctx, cause);
}

/** The engine's deadline, or a door that had no room. */
static void hcachelink_dpu_on_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_hcachelink_dpu *d = SNIC_CONTAINER(t, struct snic_hcachelink_dpu, timer);
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_NONE};
    (void)now_ns;
    if (d->engine != NULL && d->state != HCACHELINK_D_STOP)
        hcachelink_engine_step(d, &ev);
    hcachelink_dpu_kick(d);
}

int snic_hcachelink_dpu_init(struct snic_hcachelink_dpu **out, void *mem, size_t size,
                             struct snic_dma *dma, struct snic_fs *fs,
                             const struct snic_hcachelink_dpu_opts *o)
{
    struct snic_hcachelink_dpu_opts copy;
    struct snic_hcachelink_dpu *d = mem;
    if (hcachelink_dpu_opts_fill(&copy, o) != NULL || (uintptr_t)mem % SNIC_CACHELINE != 0 ||
        snic_fs_loop(fs) != dma->loop)
        return SNIC_EINVAL;
    if (size < sizeof(*d))
        return SNIC_ENOSPC;
    memset(d, 0, sizeof(*d));
    d->opts = copy;
    d->dma = dma;
    d->fs = fs;
    d->sim = snic_loop_world(dma->loop) != NULL;
    snic_timer_init(&d->timer, hcachelink_dpu_on_timer);
    if ((copy.flags & SNIC_HCACHELINK_SHARED) == 0)
        dma->events = (struct snic_dma_events){hcachelink_dpu_on_recv, hcachelink_dpu_on_bell,
                                               hcachelink_dpu_on_death, d};
    snic_loop_poller_init(&d->poller, hcachelink_dpu_poll);
    snic_loop_poller_add(dma->loop, &d->poller);
    *out = d;
    return 0;
}

void snic_hcachelink_dpu_detach(struct snic_hcachelink_dpu *d)
{
    d->msg_due = 0;
    if (!d->dead)
        d->detached = 1;
    d->dead = 1;
    hcachelink_dpu_stop(d);
}

int snic_hcachelink_dpu_idle(const struct snic_hcachelink_dpu *d)
{
    return (d->state == HCACHELINK_D_NONE || d->state == HCACHELINK_D_GONE) && d->runs_busy == 0 &&
           d->tasks_busy == 0 && d->msg_due == 0 && !d->gone_due;
}

void *snic_hcachelink_dpu_fini(struct snic_hcachelink_dpu *d)
{
    SNIC_ASSERT((d->state == HCACHELINK_D_NONE || d->state == HCACHELINK_D_GONE) &&
                d->runs_busy == 0 && d->tasks_busy == 0);
    snic_loop_cancel(d->dma->loop, &d->timer);
    snic_loop_poller_remove(d->dma->loop, &d->poller);
    if ((d->opts.flags & SNIC_HCACHELINK_SHARED) == 0)
        d->dma->events = (struct snic_dma_events){NULL, NULL, NULL, NULL};
    return d;
}

const struct snic_hcache_control *snic_hcachelink_dpu_engine(const struct snic_hcachelink_dpu *d)
{
    return d->engine;
}

void snic_hcachelink_dpu_get_stats(const struct snic_hcachelink_dpu *d,
                                   struct snic_hcachelink_dpu_stats *out)
{
    *out = d->stats;
}

int snic_hcachelink_dpu_check(const struct snic_hcachelink_dpu *d)
{
    uint32_t busy = 0;
    uint32_t tasks = 0;
    for (uint32_t i = 0; i < d->runs_max && d->engine != NULL; i++)
        busy += d->runs[i].busy != 0;
    for (uint32_t i = 0; i <= SNIC_HCACHELINK__TASKS_MAX; i++)
        tasks += d->tasks[i].type != 0;
    if (tasks != d->tasks_busy || (d->engine != NULL && busy != d->runs_busy))
        return SNIC_ECORRUPT;
    if ((d->state == HCACHELINK_D_NONE || d->state == HCACHELINK_D_GONE) && d->engine != NULL)
        return SNIC_ECORRUPT; /* D1 */
    if (d->engine == NULL && (tasks != 0 || d->runs_busy != 0))
        return SNIC_ECORRUPT; /* D1: they use its memory */
    return d->engine != NULL ? snic_hcache_control_check(d->engine) : 0;
}
