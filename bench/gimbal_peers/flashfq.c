/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * FlashFQ (ATC 2013) as Gimbal's section 5.1 ports it: start-time fair queueing inside the target
 * with at most D commands on the device (throttled dispatch), a linear cost of an I/O's size, and
 * anticipation against deceptive idleness.
 *
 * An arriving I/O gets the start tag max(v, finish tag of its tenant's I/O before) and the finish
 * tag start + cost / weight; v is the start tag of what was dispatched last; the smallest start
 * tag leaves first. A tenant whose last I/O completed less than 100 us ago is only taking its
 * turn-around (the network's is 12 us): its next start tag is its finish tag even where v is
 * beyond, so that it does not lose the share it was about to use.
 *
 * Calibration. The cost line goes through the latencies of a lone 4 KiB and 128 KiB read: their
 * ratio on the SSD model is 2.46 (2.58 by Gimbal's figure 7); it is the same for writes, whose
 * buffered latency does not show it. D = 64: with more, the 16 and 16 workers of figure 7
 * with 4 large I/Os each are never throttled and the equal bandwidths that the paper reports do
 * not come about; fewer lose read bandwidth.
 */
#include "sched.h"

#include <stdlib.h>

#define FLASHFQ_DEPTH 64u
#define FLASHFQ_BASE 81.0 /* cost = base + KiB: (81 + 128) / (81 + 4) = 2.46 */
#define FLASHFQ_ANTICIPATE_NS 100000u

struct flashfq_tenant {
    struct sched_queue queue;
    double weight;
    double finish;
    uint64_t done_ns; /* when its last completion was */
    uint32_t inside;  /* queued or on the device */
    int known;        /* completed anything yet */
};

struct sched {
    double v;
    uint32_t depth;
    uint32_t dispatched;
    uint32_t heap_count;
    uint32_t *heap; /* tenants with something queued, by the start tag of their first */
    struct flashfq_tenant tenants[];
};

static struct sched *flashfq_open(const struct sched_opts *o, uint64_t now)
{
    struct sched *s = calloc(1, sizeof(*s) + o->tenants * sizeof(s->tenants[0]));
    (void)now;
    if (s == NULL)
        return NULL;
    s->heap = calloc(o->tenants, sizeof(s->heap[0]));
    if (s->heap == NULL) {
        free(s);
        return NULL;
    }
    s->depth = o->flashfq_depth > 0 ? o->flashfq_depth : FLASHFQ_DEPTH;
    for (uint32_t t = 0; t < o->tenants; t++)
        s->tenants[t].weight = o->weight != NULL ? o->weight[t] : 1;
    return s;
}

static void flashfq_close(struct sched *s)
{
    free(s->heap);
    free(s);
}

/* By start tag; equal tags by tenant, so that the order is one of the inputs alone. */
static int flashfq_before(const struct sched *s, uint32_t a, uint32_t b)
{
    double x = s->tenants[a].queue.first->tag[0];
    double y = s->tenants[b].queue.first->tag[0];
    return x < y || (x <= y && a < b);
}

static void flashfq_swap(struct sched *s, uint32_t i, uint32_t j)
{
    uint32_t t = s->heap[i];
    s->heap[i] = s->heap[j];
    s->heap[j] = t;
}

static void flashfq_down(struct sched *s)
{
    uint32_t i = 0;
    for (;;) {
        uint32_t least = i;
        for (uint32_t c = 2 * i + 1; c <= 2 * i + 2 && c < s->heap_count; c++)
            if (flashfq_before(s, s->heap[c], s->heap[least]))
                least = c;
        if (least == i)
            return;
        flashfq_swap(s, i, least);
        i = least;
    }
}

static void flashfq_up(struct sched *s, uint32_t i)
{
    while (i > 0 && flashfq_before(s, s->heap[i], s->heap[(i - 1) / 2])) {
        flashfq_swap(s, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void flashfq_submit(struct sched *s, struct sched_io *io, uint64_t now)
{
    struct flashfq_tenant *t = &s->tenants[io->g.tenant];
    int present = t->inside > 0 || (t->known && now - t->done_ns < FLASHFQ_ANTICIPATE_NS);
    double cost = FLASHFQ_BASE + (double)io->g.size / 1024;
    io->tag[0] = present || t->finish > s->v ? t->finish : s->v;
    io->tag[1] = io->tag[0] + cost / t->weight;
    t->finish = io->tag[1];
    t->inside++;
    int was_empty = t->queue.first == NULL;
    sched_queue_push(&t->queue, io);
    if (was_empty) {
        s->heap[s->heap_count] = io->g.tenant;
        flashfq_up(s, s->heap_count++);
    }
}

static struct sched_io *flashfq_poll(struct sched *s, uint64_t now)
{
    (void)now;
    if (s->heap_count == 0 || s->dispatched >= s->depth)
        return NULL;
    struct flashfq_tenant *t = &s->tenants[s->heap[0]];
    struct sched_io *io = sched_queue_pop(&t->queue);
    if (t->queue.first == NULL)
        s->heap[0] = s->heap[--s->heap_count];
    if (s->heap_count > 0)
        flashfq_down(s);
    if (io->tag[0] > s->v)
        s->v = io->tag[0];
    s->dispatched++;
    return io;
}

static uint64_t flashfq_deadline(struct sched *s)
{
    return s->heap_count > 0 && s->dispatched < s->depth ? 0 : SNIC_NEVER;
}

static void flashfq_complete(struct sched *s, struct sched_io *io, uint64_t now)
{
    struct flashfq_tenant *t = &s->tenants[io->g.tenant];
    s->dispatched--;
    t->inside--;
    t->done_ns = now;
    t->known = 1;
}

const struct sched_ops sched_flashfq = {"flashfq",        flashfq_open, flashfq_close,
                                        flashfq_submit,   flashfq_poll, flashfq_deadline,
                                        flashfq_complete, NULL,         NULL};
