/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * PARDA (FAST 2009) as Gimbal's section 5.1 emulates it: the target passes everything on; each
 * client limits what it has outstanding to a window that follows the average latency of its own
 * round trips, its equations 1 and 2:
 *
 *     Lat = (1 - a) Lat + a l          at each completion
 *     w = (1 - g) w + g (L / Lat w + b)  at each period
 *
 * with w >= 1 and at least as many I/Os out as its integer part.
 *
 * Calibration. b = 0.25 times the weight, g = 0.5, a = 0.1, period 10 ms (1 to 100 ms make no
 * difference). L decides everything: the paper's own results (half of the read bandwidth of a
 * fragmented device lost, fair only to small writes) are those of windows near 1, that is of an L
 * near the round trip of a lone 4 KiB read, about 97 us on the SSD model; the bench prints what
 * larger L give beside it.
 *
 * Sized (Parda-N): an I/O counts as one per 8 KiB, its latency is divided by that number, so that
 * large I/Os do not look like congestion.
 */
#include "sched.h"

#include <stdlib.h>

#define PARDA_LATENCY_NS 95000.0
#define PARDA_BETA 0.25
#define PARDA_GAMMA 0.5
#define PARDA_ALPHA 0.1
#define PARDA_PERIOD_NS 10000000u
#define PARDA_WINDOW_MAX 1024.0
#define PARDA_UNIT 8192u

struct parda_client {
    double window;
    double latency; /* 0: none yet */
    double beta;
    uint64_t next_ns; /* end of the period */
};

struct sched {
    double threshold;
    int sized;
    struct sched_queue queue;
    struct parda_client clients[];
};

static struct sched *parda_open(const struct sched_opts *o, uint64_t now)
{
    struct sched *s = calloc(1, sizeof(*s) + o->tenants * sizeof(s->clients[0]));
    if (s == NULL)
        return NULL;
    s->threshold = o->parda_latency_ns > 0 ? o->parda_latency_ns : PARDA_LATENCY_NS;
    s->sized = o->parda_sized;
    for (uint32_t t = 0; t < o->tenants; t++) {
        s->clients[t].window = 1;
        s->clients[t].beta = PARDA_BETA * (o->weight != NULL ? o->weight[t] : 1);
        s->clients[t].next_ns = now + PARDA_PERIOD_NS;
    }
    return s;
}

static void parda_close(struct sched *s)
{
    free(s);
}

static void parda_submit(struct sched *s, struct sched_io *io, uint64_t now)
{
    (void)now;
    sched_queue_push(&s->queue, io);
}

static struct sched_io *parda_poll(struct sched *s, uint64_t now)
{
    (void)now;
    return sched_queue_pop(&s->queue);
}

static uint64_t parda_deadline(struct sched *s)
{
    return s->queue.first != NULL ? 0 : SNIC_NEVER;
}

static void parda_complete(struct sched *s, struct sched_io *io, uint64_t now)
{
    (void)s;
    (void)io;
    (void)now;
}

static void parda_client_done(struct sched *s, struct sched_io *io, uint64_t now)
{
    struct parda_client *c = &s->clients[io->g.tenant];
    double l = (double)(now - io->client_sent_ns);
    if (s->sized && io->g.size > PARDA_UNIT)
        l /= (double)((io->g.size + PARDA_UNIT - 1) / PARDA_UNIT);
    c->latency = c->latency > 0 ? (1 - PARDA_ALPHA) * c->latency + PARDA_ALPHA * l : l;
    if (now < c->next_ns || !(c->latency > 0))
        return;
    c->next_ns = now + PARDA_PERIOD_NS;
    double target = s->threshold / c->latency * c->window + c->beta;
    c->window = (1 - PARDA_GAMMA) * c->window + PARDA_GAMMA * target;
    if (c->window < 1)
        c->window = 1;
    if (c->window > PARDA_WINDOW_MAX)
        c->window = PARDA_WINDOW_MAX;
}

static int parda_client_may_send(struct sched *s, uint32_t tenant, uint32_t inflight, uint64_t now)
{
    (void)now;
    return inflight < (uint32_t)s->clients[tenant].window;
}

const struct sched_ops sched_parda = {"parda",        parda_open,        parda_close,
                                      parda_submit,   parda_poll,        parda_deadline,
                                      parda_complete, parda_client_done, parda_client_may_send};
