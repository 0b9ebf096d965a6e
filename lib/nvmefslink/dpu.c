/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The DPU's end: the engine's steps as batches of dma, its messages and bells, and its requests to
 * the user. The engine's messages are sent by the poller; a batch's completion is only reported to
 * the engine.
 *
 * Where the host's memory is mapped, whether there is a new entry is seen by one load from the
 * queue, which costs no operation; so while the loop is awake hosts need not ring, and before it
 * sleeps it has them ring. Elsewhere the engine decides by itself when looking is worth a read.
 */
#include <stdatomic.h>

#include "snicstore/nvmefslink.h"

#define SNIC_NVMEFSLINK__AGAIN_NS 1000000
#define SNIC_NVMEFSLINK__TURN 64 /* requests given to the user in one round */

SNIC_STATIC_ASSERT(SNIC_DMA_READ == 1 && SNIC_DMA_WRITE == 2 && SNIC_DMA_ORDERED == 1 &&
                       SNIC_DMA_FENCE == 2,
                   "the engine's numbers are dma's");

struct nvmefslink_step {
    struct snic_dma_batch batch;
    struct snic_nvmefslink_dpu *dpu;
    struct snic_nvmefs_step *step;
    struct snic_dma_op ops[SNIC_NVMEFS_STEP_OPS];
};

/** A queue's entries, mapped. */
struct nvmefslink_view {
    uint64_t key;
    uint64_t sq;
    uint32_t bytes;
    unsigned char *mem; /* NULL: not mapped                                                   */
    int refused;        /* it can not be                                                      */
};

struct snic_nvmefslink_dpu {
    struct snic_dma *dma;
    struct snic_nvmefs_dpu *engine;
    struct snic_nvmefslink_dpu_opts opts;
    struct snic_loop_poller poller;
    struct snic_timer retry; /* a message that found no room                                    */
    struct nvmefslink_step *steps;
    struct snic_queue waiting; /* steps that the door had no room for                          */
    struct nvmefslink_view views[SNIC_NVMEFS_QUEUES_MAX];
    unsigned char message[SNIC_NVMEFS_CTL_BYTES];
    uint8_t message_waits;
    uint8_t mapped;
    uint8_t sim;
};

static void nvmefslink_kick(const struct snic_nvmefslink_dpu *d)
{
    if (d->sim)
        snic_loop_wake(d->dma->loop);
}

/* ---- Steps ---- */

static void nvmefslink_step_done(struct snic_dma_batch *b)
{
    struct nvmefslink_step *s = SNIC_CONTAINER(b, struct nvmefslink_step, batch);
    snic_nvmefs_dpu_complete(s->dpu->engine, s->step, b->result);
}

/** Hand a step to the door. 0: it has no room. */
static int nvmefslink_step_submit(struct snic_nvmefslink_dpu *d, struct nvmefslink_step *s)
{
    struct snic_dma_batch *list = &s->batch;
    int r = snic_dma_submit(d->dma, &list, 1);
    if (r < 0) /* the peer has gone; the death event follows */
        snic_nvmefs_dpu_complete(d->engine, s->step, SNIC_EPEERDEAD);
    return r != 0;
}

static void nvmefslink_step_begin(struct snic_nvmefslink_dpu *d, struct snic_nvmefs_step *step)
{
    SNIC_ASSERT(step->index < d->opts.engine.steps && step->count <= SNIC_NVMEFS_STEP_OPS);
    struct nvmefslink_step *s = &d->steps[step->index];
    s->step = step;
    for (uint32_t i = 0; i < step->count; i++) {
        const struct snic_nvmefs_op *o = &step->ops[i];
        s->ops[i] = (struct snic_dma_op){.kind = o->kind,
                                         .flags = o->flags,
                                         .length = o->length,
                                         .key = o->key,
                                         .offset = o->offset,
                                         .local = o->local};
    }
    s->batch.done = nvmefslink_step_done;
    s->batch.ops = s->ops;
    s->batch.count = step->count;
    if (!snic_queue_empty(&d->waiting) || !nvmefslink_step_submit(d, s))
        snic_queue_push(&d->waiting, &s->batch.node);
}

static int nvmefslink_steps(struct snic_nvmefslink_dpu *d)
{
    int did = 0;
    while (!snic_queue_empty(&d->waiting)) {
        struct snic_node *n = snic_queue_pop(&d->waiting);
        if (!nvmefslink_step_submit(d, SNIC_CONTAINER(n, struct nvmefslink_step, batch.node))) {
            n->next = d->waiting.first; /* it was the first, and stays that */
            d->waiting.first = n;
            if (n->next == NULL)
                d->waiting.last = n;
            return did;
        }
        did = 1;
    }
    for (struct snic_nvmefs_step *s = snic_nvmefs_dpu_poll_step(d->engine); s != NULL;
         s = snic_queue_empty(&d->waiting) ? snic_nvmefs_dpu_poll_step(d->engine) : NULL) {
        nvmefslink_step_begin(d, s);
        did = 1;
    }
    return did;
}

/* ---- Mapped queues ---- */

static void nvmefslink_view_drop(struct snic_nvmefslink_dpu *d, struct nvmefslink_view *v)
{
    if (v->mem != NULL)
        snic_dma_unmap(d->dma, v->mem);
    *v = (struct nvmefslink_view){0, 0, 0, NULL, 0};
}

/** Look for a new entry of queue @p i. */
static void nvmefslink_peek(struct snic_nvmefslink_dpu *d, uint32_t i)
{
    struct nvmefslink_view *v = &d->views[i];
    struct snic_nvmefs_peek p;
    int r = snic_nvmefs_dpu_peek(d->engine, i, &p);
    if (r < 0) {
        nvmefslink_view_drop(d, v);
        return;
    }
    if (r == 0)
        return;
    int same = v->key == p.key && v->sq == p.sq && v->bytes == p.sq_bytes; /* or made anew */
    if (v->mem == NULL || !same) {
        void *mem = NULL;
        if (v->refused && same) {
            snic_nvmefs_dpu_tick(d->engine, i);
            return;
        }
        nvmefslink_view_drop(d, v);
        v->key = p.key;
        v->sq = p.sq;
        v->bytes = p.sq_bytes;
        v->refused = (p.sq & 7) != 0 || snic_dma_map(d->dma, p.key, p.sq, p.sq_bytes, &mem) != 0;
        v->mem = mem;
        if (v->refused)
            return; /* the next round lets the engine look */
    }
    /* Acquire: what the look reads after this is no older. Only a hint: the look decides. */
    uint64_t word =
        atomic_load_explicit((_Atomic(uint64_t) *)(void *)(v->mem + p.at), memory_order_acquire);
    if ((snic_get_le32(&word) >> 11 & 1) == p.lap)
        snic_nvmefs_dpu_tick(d->engine, i);
}

/* ---- The poller ---- */

static void nvmefslink_again(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    nvmefslink_kick(SNIC_CONTAINER(t, struct snic_nvmefslink_dpu, retry)); /* the poller sends */
}

static int nvmefslink_send_due(struct snic_nvmefslink_dpu *d)
{
    int did = 0;
    for (;;) {
        if (!d->message_waits)
            d->message_waits = (uint8_t)snic_nvmefs_dpu_poll_control(d->engine, d->message);
        if (!d->message_waits)
            break;
        if (snic_dma_send(d->dma, d->message, sizeof(d->message)) == 0) {
            if (!d->retry.armed) /* nothing else need bring us back */
                snic_loop_arm(d->dma->loop, &d->retry,
                              snic_loop_now(d->dma->loop) + SNIC_NVMEFSLINK__AGAIN_NS);
            break;
        }
        d->message_waits = 0;
        did = 1;
    }
    uint32_t bells = snic_nvmefs_dpu_poll_bells(d->engine);
    for (; bells != 0; bells &= bells - 1)
        (void)snic_dma_ring(d->dma, d->opts.bell_base + (uint32_t)__builtin_ctz(bells));
    return did;
}

static int nvmefslink_requests(struct snic_nvmefslink_dpu *d)
{
    int n = 0;
    for (struct snic_nvmefs_cmd *c = snic_nvmefs_dpu_poll_cancel(d->engine); c != NULL;
         c = snic_nvmefs_dpu_poll_cancel(d->engine), n++)
        if (d->opts.cancel != NULL)
            d->opts.cancel(d->opts.ctx, d, c);
    for (int i = 0; i < SNIC_NVMEFSLINK__TURN; i++, n++) {
        struct snic_nvmefs_cmd *c = snic_nvmefs_dpu_poll_request(d->engine);
        if (c == NULL)
            break;
        d->opts.request(d->opts.ctx, d, c);
    }
    return n;
}

static int nvmefslink_dpu_poll(struct snic_loop_poller *p, int sleeping)
{
    struct snic_nvmefslink_dpu *d = SNIC_CONTAINER(p, struct snic_nvmefslink_dpu, poller);
    if (sleeping) {
        if (d->mapped)
            for (uint32_t i = 0; i < d->opts.engine.queues_max; i++)
                nvmefslink_peek(d, i);
        /* A full door has completions to deliver, and those bring us back. */
        return snic_nvmefs_dpu_sleep(d->engine) && snic_queue_empty(&d->waiting);
    }
    if (d->mapped)
        for (uint32_t i = 0; i < d->opts.engine.queues_max; i++)
            nvmefslink_peek(d, i);
    int did = nvmefslink_requests(d);
    did |= nvmefslink_steps(d);
    did |= nvmefslink_send_due(d);
    return did;
}

/* ---- Events ---- */

static void nvmefslink_dpu_recv(void *ctx, struct snic_dma *dma, const void *msg, uint32_t size)
{
    struct snic_nvmefslink_dpu *d = ctx;
    (void)dma;
    if (snic_nvmefs_dpu_control(d->engine, msg, size) == SNIC_ENOENT && d->opts.others.recv != NULL)
        d->opts.others.recv(d->opts.others.ctx, msg, size);
}

static void nvmefslink_dpu_doorbell(void *ctx, struct snic_dma *dma, uint32_t id)
{
    struct snic_nvmefslink_dpu *d = ctx;
    (void)dma;
    if (id >= d->opts.bell_base && id - d->opts.bell_base < d->opts.engine.queues_max)
        snic_nvmefs_dpu_bell(d->engine, id - d->opts.bell_base);
    else if (d->opts.others.doorbell != NULL)
        d->opts.others.doorbell(d->opts.others.ctx, id);
}

static void nvmefslink_dpu_death(void *ctx, struct snic_dma *dma, enum snic_dma_death cause)
{
    struct snic_nvmefslink_dpu *d = ctx;
    (void)dma;
    snic_nvmefslink_dpu_detach(d);
    if (d->opts.others.death != NULL)
        d->opts.others.death(d->opts.others.ctx, cause);
}

/* ---- Public ---- */

/** All options, defaults filled in. Which one is wrong, and how; NULL: none. */
static const char *nvmefslink_dpu_opts_fill(struct snic_nvmefslink_dpu_opts *o,
                                            const struct snic_nvmefslink_dpu_opts *in)
{
    *o = (struct snic_nvmefslink_dpu_opts){.opts_size = sizeof(*o)};
    if (snic_opts_copy(o, sizeof(*o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (o->engine.opts_size == 0)
        o->engine.opts_size = sizeof(o->engine);
    o->engine.queues_max = o->engine.queues_max == 0 ? 8 : o->engine.queues_max;
    o->engine.steps = o->engine.steps == 0 ? 256 : o->engine.steps;
    o->engine.flags = 0;
    if ((o->flags & ~SNIC_NVMEFSLINK_UNMAPPED) != 0)
        return "flags: unknown bits";
    if (o->reserved != 0)
        return "reserved: not 0";
    if (o->request == NULL)
        return "request: NULL";
    if (o->bell_base >= SNIC_DMA_DOORBELLS ||
        o->engine.queues_max > SNIC_DMA_DOORBELLS - o->bell_base)
        return "bell_base: fewer than engine.queues_max doorbells from there on";
    return snic_nvmefs_dpu_opts_wrong(&o->engine);
}

const char *snic_nvmefslink_dpu_opts_wrong(const struct snic_nvmefslink_dpu_opts *o)
{
    struct snic_nvmefslink_dpu_opts full;
    return nvmefslink_dpu_opts_fill(&full, o);
}

static void nvmefslink_dpu_place(struct snic_arena *a, const struct snic_nvmefslink_dpu_opts *o,
                                 struct snic_nvmefslink_dpu **d, struct nvmefslink_step **steps,
                                 void **engine)
{
    *d = snic_arena_take(a, 1, sizeof(**d), SNIC_NVMEFS_ALIGN);
    *steps = snic_arena_take(a, o->engine.steps, sizeof(**steps), SNIC_NVMEFS_ALIGN);
    *engine = snic_arena_take(a, 1, snic_nvmefs_dpu_memsize(&o->engine), SNIC_NVMEFS_ALIGN);
}

size_t snic_nvmefslink_dpu_memsize(const struct snic_nvmefslink_dpu_opts *o)
{
    struct snic_nvmefslink_dpu_opts copy;
    struct snic_arena a = {NULL, SIZE_MAX, 0};
    struct snic_nvmefslink_dpu *d;
    struct nvmefslink_step *steps;
    void *engine;
    if (nvmefslink_dpu_opts_fill(&copy, o) != NULL)
        return 0;
    nvmefslink_dpu_place(&a, &copy, &d, &steps, &engine);
    return a.used;
}

int snic_nvmefslink_dpu_init(struct snic_nvmefslink_dpu **out, void *mem, size_t size,
                             struct snic_dma *dma, const struct snic_nvmefslink_dpu_opts *o)
{
    struct snic_nvmefslink_dpu_opts copy;
    struct snic_arena a = {mem, size, 0};
    struct snic_nvmefslink_dpu *d;
    struct nvmefslink_step *steps;
    void *engine;
    if (nvmefslink_dpu_opts_fill(&copy, o) != NULL || (uintptr_t)mem % SNIC_NVMEFS_ALIGN != 0)
        return SNIC_EINVAL;
    nvmefslink_dpu_place(&a, &copy, &d, &steps, &engine);
    if (a.used == SIZE_MAX)
        return SNIC_ENOSPC;
    memset(d, 0, sizeof(*d));
    d->mapped =
        (dma->caps & SNIC_DMA_CAP_MAPPED) != 0 && (copy.flags & SNIC_NVMEFSLINK_UNMAPPED) == 0;
    copy.engine.flags = d->mapped ? SNIC_NVMEFS_DPU_EAGER : 0;
    if ((dma->caps & SNIC_DMA_CAP_ORDERED_READ) != 0)
        copy.engine.flags |= SNIC_NVMEFS_DPU_ORDERED;
    int r = snic_nvmefs_dpu_init(&d->engine, engine, snic_nvmefs_dpu_memsize(&copy.engine),
                                 &copy.engine);
    if (r != 0)
        return r;
    d->dma = dma;
    d->opts = copy;
    d->steps = steps;
    d->sim = snic_loop_world(dma->loop) != NULL;
    for (uint32_t i = 0; i < copy.engine.steps; i++)
        steps[i].dpu = d;
    dma->events = (struct snic_dma_events){.recv = nvmefslink_dpu_recv,
                                           .doorbell = nvmefslink_dpu_doorbell,
                                           .death = nvmefslink_dpu_death,
                                           .ctx = d};
    snic_timer_init(&d->retry, nvmefslink_again);
    snic_loop_poller_init(&d->poller, nvmefslink_dpu_poll);
    snic_loop_poller_add(dma->loop, &d->poller);
    *out = d;
    return 0;
}

void snic_nvmefslink_dpu_detach(struct snic_nvmefslink_dpu *d)
{
    snic_nvmefs_dpu_detach(d->engine);
    d->message_waits = 0;
    snic_loop_cancel(d->dma->loop, &d->retry);
    for (uint32_t i = 0; i < SNIC_NVMEFS_QUEUES_MAX; i++)
        nvmefslink_view_drop(d, &d->views[i]);
    for (struct snic_node *n = snic_queue_pop(&d->waiting); n != NULL;
         n = snic_queue_pop(&d->waiting))
        snic_nvmefs_dpu_complete(
            d->engine, SNIC_CONTAINER(n, struct nvmefslink_step, batch.node)->step, SNIC_EPEERDEAD);
    nvmefslink_kick(d);
}

int snic_nvmefslink_dpu_idle(const struct snic_nvmefslink_dpu *d)
{
    return snic_nvmefs_dpu_idle(d->engine);
}

void *snic_nvmefslink_dpu_fini(struct snic_nvmefslink_dpu *d)
{
    SNIC_ASSERT(snic_nvmefs_dpu_idle(d->engine));
    snic_loop_cancel(d->dma->loop, &d->retry);
    snic_loop_poller_remove(d->dma->loop, &d->poller);
    for (uint32_t i = 0; i < SNIC_NVMEFS_QUEUES_MAX; i++)
        nvmefslink_view_drop(d, &d->views[i]);
    d->dma->events = (struct snic_dma_events){NULL, NULL, NULL, NULL};
    (void)snic_nvmefs_dpu_fini(d->engine);
    return d;
}

void snic_nvmefslink_finish(struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c,
                            uint32_t status, int64_t result)
{
    snic_nvmefs_dpu_finish(d->engine, c, status, result);
    nvmefslink_kick(d);
}

struct snic_nvmefs_dpu *snic_nvmefslink_dpu_engine(struct snic_nvmefslink_dpu *d)
{
    return d->engine;
}
