/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ReFlex (ASPLOS 2017) as Gimbal's section 5.1 ports it: the scheduler alone, inside the target,
 * all tenants best effort. One stream of tokens at a fixed rate; a 4 KiB read costs one token, a
 * write `cost` tokens per 4 KiB; tenants take turns by deficit round robin in tokens.
 *
 * Calibration. ReFlex fits its cost model to curves of tail latency over load, measured on the
 * device beforehand. On the fragmented SSD model, reads alone stay below a 95th percentile of
 * 0.5 ms up to about 310,000 a second, and writes alone up to a seventh of that; Gimbal's section
 * 5 (x2.4, x6.6, 177 %) implies 321,000 and 6.8, which is what the defaults are. The same
 * constants serve a clean device: that the model does not know the condition is the point of the
 * comparison.
 *
 * The quantum is 8 tokens, added when a visit begins: with quanta above a tenant's queue (32 of 4
 * KiB) tenants with small I/Os would lose what their queue could not use.
 */
#include "sched.h"

#include <stdlib.h>

#define REFLEX_RATE 321000.0
#define REFLEX_COST 6.8
#define REFLEX_QUANTUM 8.0
#define REFLEX_BURST_NS 1e6 /* tokens pile up for 1 ms, more than any I/O of 128 KiB costs */

struct reflex_tenant {
    struct sched_queue queue;
    struct reflex_tenant *next; /* on the ring */
    double weight;
    double deficit;
    int visited; /* the visit under way has added its quantum */
};

struct sched {
    double rate; /* tokens per ns */
    double cost;
    double tokens;
    double tokens_max;
    uint64_t last;
    struct sched_io *held; /* chosen, waits for tokens */
    struct reflex_tenant *first;
    struct reflex_tenant *last_tenant;
    struct reflex_tenant tenants[];
};

static struct sched *reflex_open(const struct sched_opts *o, uint64_t now)
{
    struct sched *s = calloc(1, sizeof(*s) + o->tenants * sizeof(s->tenants[0]));
    if (s == NULL)
        return NULL;
    double scale = o->device_scale > 0 ? o->device_scale : 1;
    s->rate = (o->reflex_rate > 0 ? o->reflex_rate : REFLEX_RATE) * scale / 1e9;
    s->cost = o->reflex_cost > 0 ? o->reflex_cost : REFLEX_COST;
    s->tokens_max = s->rate * REFLEX_BURST_NS;
    s->last = now;
    for (uint32_t t = 0; t < o->tenants; t++)
        s->tenants[t].weight = o->weight != NULL ? o->weight[t] : 1;
    return s;
}

static void reflex_close(struct sched *s)
{
    free(s);
}

static double reflex_tokens(const struct sched *s, const struct sched_io *io)
{
    double units = (double)((io->g.size + 4095) / 4096);
    return io->g.op == SNIC_GIMBAL_WRITE ? units * s->cost : units;
}

static void reflex_append(struct sched *s, struct reflex_tenant *t)
{
    t->next = NULL;
    t->visited = 0;
    if (s->first == NULL)
        s->first = t;
    else
        s->last_tenant->next = t;
    s->last_tenant = t;
}

static void reflex_submit(struct sched *s, struct sched_io *io, uint64_t now)
{
    struct reflex_tenant *t = &s->tenants[io->g.tenant];
    (void)now;
    io->tag[0] = reflex_tokens(s, io);
    if (t->queue.first == NULL)
        reflex_append(s, t);
    sched_queue_push(&t->queue, io);
}

/* The next I/O by deficit round robin: a cost / quantum visits each, whatever the tenants. */
static struct sched_io *reflex_next(struct sched *s)
{
    struct reflex_tenant *t;
    while ((t = s->first) != NULL) {
        if (!t->visited) {
            t->visited = 1;
            t->deficit += REFLEX_QUANTUM * t->weight;
        }
        if (t->queue.first->tag[0] <= t->deficit) {
            struct sched_io *io = sched_queue_pop(&t->queue);
            t->deficit -= io->tag[0];
            if (t->queue.first == NULL) {
                t->deficit = 0;
                s->first = t->next;
            }
            return io;
        }
        s->first = t->next;
        reflex_append(s, t);
    }
    return NULL;
}

/* What an I/O must find in the bucket: one larger than the bucket leaves a debt. */
static double reflex_needs(const struct sched *s, const struct sched_io *io)
{
    return io->tag[0] < s->tokens_max ? io->tag[0] : s->tokens_max;
}

static struct sched_io *reflex_poll(struct sched *s, uint64_t now)
{
    s->tokens += s->rate * (double)(now - s->last);
    s->last = now;
    if (s->tokens > s->tokens_max)
        s->tokens = s->tokens_max;
    if (s->held == NULL)
        s->held = reflex_next(s);
    if (s->held == NULL || s->tokens < reflex_needs(s, s->held))
        return NULL;
    struct sched_io *io = s->held;
    s->held = NULL;
    s->tokens -= io->tag[0];
    return io;
}

static uint64_t reflex_deadline(struct sched *s)
{
    if (s->held == NULL)
        return s->first != NULL ? s->last : SNIC_NEVER;
    double lack = reflex_needs(s, s->held) - s->tokens;
    return lack <= 0 ? s->last : s->last + (uint64_t)(lack / s->rate) + 1;
}

static void reflex_complete(struct sched *s, struct sched_io *io, uint64_t now)
{
    (void)s;
    (void)io;
    (void)now;
}

const struct sched_ops sched_reflex = {"reflex",        reflex_open, reflex_close,
                                       reflex_submit,   reflex_poll, reflex_deadline,
                                       reflex_complete, NULL,        NULL};
