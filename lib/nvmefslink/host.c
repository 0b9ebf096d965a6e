/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The host's end: queue pairs in registered memory, their messages and bells, and finished requests
 * to the user.
 *
 * A queue goes
 *
 *   OPENING ── CREATED ──▶ OPEN ── reset ──▶ RESETTING ── DELETED ──▶ OPENING
 *      │                     └── end, EPROTO,   FAILED ──▶ ENDING ── DELETED ──▶ OVER
 *      └── refused ──▶ OVER                     (from everywhere) ── death ──▶ OVER
 *
 * Its memory, and what requests name, is the DPU's to touch until DELETED, or its certified death.
 */
#include "snicstore/nvmefslink.h"

#define SNIC_NVMEFSLINK__RETRY_NS 1000000
#define SNIC_NVMEFSLINK__REAP 64

enum nvmefslink_state {
    NVMEFSLINK_OPENING = 1,
    NVMEFSLINK_OPEN,
    NVMEFSLINK_RESETTING,
    NVMEFSLINK_ENDING,
    NVMEFSLINK_OVER
};

struct snic_nvmefslink_queue {
    struct snic_nvmefslink_host *link;
    struct snic_nvmefs_host *engine;
    struct snic_nvmefslink_events events;
    void *engine_mem;
    void *queue_mem;
    uint64_t key;
    uint32_t window;
    uint32_t number;
    uint32_t flags;
    uint8_t state;
    uint8_t ctl_due;    /* a message waits: SNIC_NVMEFS_CTL_CREATE, DELETE                     */
    uint8_t closed_due; /* the closed event is to be called                                   */
    uint8_t opened_due;
    int reason;
};

struct nvmefslink_window {
    uint64_t key;
    uint64_t size;
    uint8_t used;
    uint8_t announce; /* a WINDOW message waits */
};

struct snic_nvmefslink_host {
    struct snic_dma *dma;
    struct snic_nvmefslink_host_opts opts;
    struct snic_loop_poller poller;
    struct snic_timer retry;
    uint8_t sim;
    uint8_t dead;
    struct nvmefslink_window windows[SNIC_NVMEFS_WINDOWS_MAX];
    struct snic_nvmefslink_queue *queues[SNIC_NVMEFS_QUEUES_MAX];
};

static void nvmefslink_host_kick(const struct snic_nvmefslink_host *h)
{
    if (h->sim)
        snic_loop_wake(h->dma->loop);
}

/* ---- Messages ---- */

static int nvmefslink_host_send(struct snic_nvmefslink_host *h, const struct snic_nvmefs_ctl *m)
{
    unsigned char msg[SNIC_NVMEFS_CTL_BYTES];
    snic_nvmefs_ctl_encode(msg, m);
    return snic_dma_send(h->dma, msg, sizeof(msg)) != 0; /* to the dead: as good as sent */
}

/** Windows before queues: a queue's addresses are of windows that have been announced. */
static int nvmefslink_host_send_due(struct snic_nvmefslink_host *h)
{
    struct snic_nvmefs_ctl m;
    for (uint32_t i = 0; i < SNIC_NVMEFS_WINDOWS_MAX; i++) {
        struct nvmefslink_window *w = &h->windows[i];
        if (!w->announce)
            continue;
        m = (struct snic_nvmefs_ctl){.type = SNIC_NVMEFS_CTL_WINDOW,
                                     .window = (uint16_t)i,
                                     .key = w->key,
                                     .size = w->used ? w->size : 0};
        if (!nvmefslink_host_send(h, &m))
            return 0;
        w->announce = 0;
    }
    for (uint32_t i = 0; i < h->opts.queues_max; i++) {
        struct snic_nvmefslink_queue *q = h->queues[i];
        if (q == NULL || q->ctl_due == 0)
            continue;
        snic_nvmefs_host_create(q->engine, &m);
        m.type = q->ctl_due;
        if (!nvmefslink_host_send(h, &m))
            return 0;
        q->ctl_due = 0;
    }
    return 1;
}

static void nvmefslink_host_flush(struct snic_nvmefslink_host *h)
{
    if (!h->dead && !nvmefslink_host_send_due(h))
        snic_loop_arm(h->dma->loop, &h->retry,
                      snic_loop_now(h->dma->loop) + SNIC_NVMEFSLINK__RETRY_NS);
}

static void nvmefslink_host_retry(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    nvmefslink_host_flush(SNIC_CONTAINER(t, struct snic_nvmefslink_host, retry));
}

/* ---- Queues ---- */

/** The DPU does not touch it any more. */
static void nvmefslink_queue_over(struct snic_nvmefslink_queue *q, int reason)
{
    if (q->state == NVMEFSLINK_OVER)
        return;
    q->reason = q->state == NVMEFSLINK_ENDING && q->reason != 0 ? q->reason : reason;
    q->state = NVMEFSLINK_OVER;
    q->ctl_due = 0;
    q->closed_due = 1;
    if ((q->flags & SNIC_NVMEFSLINK_DIRECT) == 0)
        snic_nvmefs_host_reset(q->engine);
    nvmefslink_host_kick(q->link);
}

static void nvmefslink_queue_ending(struct snic_nvmefslink_queue *q, int reason)
{
    if (q->state == NVMEFSLINK_OVER || q->state == NVMEFSLINK_ENDING)
        return;
    int sent = q->state == NVMEFSLINK_RESETTING; /* DELETE is out, or waits */
    q->state = NVMEFSLINK_ENDING;
    q->reason = reason;
    if (!sent)
        q->ctl_due = SNIC_NVMEFS_CTL_DELETE;
    nvmefslink_host_flush(q->link);
}

/** Give finished requests to the user. Their number. */
static int nvmefslink_queue_reap(struct snic_nvmefslink_queue *q)
{
    int n = 0;
    if ((q->flags & SNIC_NVMEFSLINK_DIRECT) != 0)
        return 0;
    for (; n < SNIC_NVMEFSLINK__REAP || q->state == NVMEFSLINK_OVER; n++) {
        struct snic_nvmefs_req *req = snic_nvmefs_host_reap(q->engine);
        if (req == NULL)
            break;
        q->events.done(q->events.ctx, q, req);
    }
    if (snic_nvmefs_host_error(q->engine) != 0 && q->state != NVMEFSLINK_OVER)
        nvmefslink_queue_ending(q, SNIC_EPROTO);
    return n;
}

static void nvmefslink_queue_ring(struct snic_nvmefslink_queue *q)
{
    (void)snic_dma_ring(q->link->dma, q->link->opts.bell_base + q->number);
}

static int nvmefslink_queue_poll(struct snic_nvmefslink_queue *q, int sleeping)
{
    int n = nvmefslink_queue_reap(q);
    if (q->opened_due) {
        q->opened_due = 0;
        if (q->events.opened != NULL && q->state == NVMEFSLINK_OPEN)
            q->events.opened(q->events.ctx, q);
        n++;
    }
    if (q->closed_due && ((q->flags & SNIC_NVMEFSLINK_DIRECT) != 0 ||
                          snic_nvmefs_host_outstanding(q->engine) == 0)) {
        q->closed_due = 0;
        q->events.closed(q->events.ctx, q, q->reason);
        return 1; /* it may be gone */
    }
    if ((q->flags & SNIC_NVMEFSLINK_DIRECT) != 0 || q->state == NVMEFSLINK_OVER)
        return n;
    if (snic_nvmefs_host_kick(q->engine))
        nvmefslink_queue_ring(q);
    if (sleeping && n == 0 && snic_nvmefs_host_sleep(q->engine)) {
        nvmefslink_queue_ring(q);
        n += nvmefslink_queue_reap(q);
    }
    return n;
}

static int nvmefslink_host_poll(struct snic_loop_poller *p, int sleeping)
{
    struct snic_nvmefslink_host *h = SNIC_CONTAINER(p, struct snic_nvmefslink_host, poller);
    int did = 0;
    for (uint32_t i = 0; i < h->opts.queues_max; i++)
        if (h->queues[i] != NULL)
            did |= nvmefslink_queue_poll(h->queues[i], sleeping) > 0;
    return did;
}

/* ---- Events ---- */

static void nvmefslink_host_answer(struct snic_nvmefslink_host *h, const struct snic_nvmefs_ctl *m)
{
    struct snic_nvmefs_ctl mine;
    struct snic_nvmefslink_queue *q = m->queue < h->opts.queues_max ? h->queues[m->queue] : NULL;
    if (q == NULL || q->state == NVMEFSLINK_OVER)
        return;
    snic_nvmefs_host_create(q->engine, &mine);
    if (m->generation != mine.generation)
        return; /* a late one */
    switch (m->type) {
    case SNIC_NVMEFS_CTL_CREATED:
        if (q->state == NVMEFSLINK_OPENING && m->error == 0) {
            q->state = NVMEFSLINK_OPEN;
            q->opened_due = 1;
        } else if (m->error != 0 && q->state == NVMEFSLINK_OPENING) {
            nvmefslink_queue_over(q, m->error < 0 ? m->error : SNIC_EPROTO);
        }
        break;
    case SNIC_NVMEFS_CTL_DELETED:
        if (q->ctl_due == SNIC_NVMEFS_CTL_DELETE)
            break; /* not requested: DELETE has not been sent */
        if (q->state == NVMEFSLINK_RESETTING) {
            snic_nvmefs_host_reset(q->engine);
            q->state = NVMEFSLINK_OPENING;
            q->ctl_due = SNIC_NVMEFS_CTL_CREATE;
            nvmefslink_host_flush(h);
        } else if (q->state == NVMEFSLINK_ENDING) {
            nvmefslink_queue_over(q, 0);
        }
        break;
    case SNIC_NVMEFS_CTL_FAILED:
        nvmefslink_queue_ending(q, SNIC_EFAULT);
        break;
    default:
        break;
    }
    nvmefslink_host_kick(h);
}

static void nvmefslink_host_recv(void *ctx, struct snic_dma *dma, const void *msg, uint32_t size)
{
    struct snic_nvmefslink_host *h = ctx;
    struct snic_nvmefs_ctl m;
    int r = snic_nvmefs_ctl_decode(&m, msg, size);
    (void)dma;
    if (r == SNIC_ENOENT && h->opts.others.recv != NULL)
        h->opts.others.recv(h->opts.others.ctx, msg, size);
    if (r == 0)
        nvmefslink_host_answer(h, &m);
}

static void nvmefslink_host_doorbell(void *ctx, struct snic_dma *dma, uint32_t id)
{
    struct snic_nvmefslink_host *h = ctx;
    (void)dma;
    if (id < h->opts.bell_base || id - h->opts.bell_base >= h->opts.queues_max) {
        if (h->opts.others.doorbell != NULL)
            h->opts.others.doorbell(h->opts.others.ctx, id);
        return;
    }
    struct snic_nvmefslink_queue *q = h->queues[id - h->opts.bell_base];
    if (q == NULL)
        return;
    if ((q->flags & SNIC_NVMEFSLINK_DIRECT) == 0)
        snic_nvmefs_host_belled(q->engine);
    else if (q->events.bell != NULL)
        q->events.bell(q->events.ctx, q);
}

static void nvmefslink_host_death(void *ctx, struct snic_dma *dma, enum snic_dma_death cause)
{
    struct snic_nvmefslink_host *h = ctx;
    (void)dma;
    h->dead = 1;
    snic_loop_cancel(h->dma->loop, &h->retry);
    for (uint32_t i = 0; i < h->opts.queues_max; i++)
        if (h->queues[i] != NULL)
            nvmefslink_queue_over(h->queues[i], SNIC_EPEERDEAD);
    if (h->opts.others.death != NULL)
        h->opts.others.death(h->opts.others.ctx, cause);
}

/* ---- Public ---- */

/** All options, defaults filled in. Which one is wrong, and how; NULL: none. */
static const char *nvmefslink_host_opts_fill(struct snic_nvmefslink_host_opts *o,
                                             const struct snic_nvmefslink_host_opts *in)
{
    *o = (struct snic_nvmefslink_host_opts){.opts_size = sizeof(*o)};
    if (snic_opts_copy(o, sizeof(*o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (o->reserved != 0)
        return "reserved: not 0";
    o->queues_max = o->queues_max == 0 ? 8 : o->queues_max;
    if (o->queues_max > SNIC_NVMEFS_QUEUES_MAX)
        return "queues_max: above SNIC_NVMEFS_QUEUES_MAX";
    if (o->bell_base >= SNIC_DMA_DOORBELLS || o->queues_max > SNIC_DMA_DOORBELLS - o->bell_base)
        return "bell_base: fewer than queues_max doorbells from there on";
    return NULL;
}

const char *snic_nvmefslink_host_opts_wrong(const struct snic_nvmefslink_host_opts *o)
{
    struct snic_nvmefslink_host_opts full;
    return nvmefslink_host_opts_fill(&full, o);
}

size_t snic_nvmefslink_host_memsize(const struct snic_nvmefslink_host_opts *o)
{
    return snic_nvmefslink_host_opts_wrong(o) != NULL ? 0 : sizeof(struct snic_nvmefslink_host);
}

int snic_nvmefslink_host_init(struct snic_nvmefslink_host **out, void *mem, size_t size,
                              struct snic_dma *d, const struct snic_nvmefslink_host_opts *o)
{
    struct snic_nvmefslink_host_opts copy;
    if (nvmefslink_host_opts_fill(&copy, o) != NULL || (uintptr_t)mem % 16 != 0)
        return SNIC_EINVAL;
    if (size < sizeof(struct snic_nvmefslink_host))
        return SNIC_ENOSPC;
    struct snic_nvmefslink_host *h = mem;
    memset(h, 0, sizeof(*h));
    h->dma = d;
    h->opts = copy;
    h->sim = snic_loop_world(d->loop) != NULL;
    snic_timer_init(&h->retry, nvmefslink_host_retry);
    d->events = (struct snic_dma_events){.recv = nvmefslink_host_recv,
                                         .doorbell = nvmefslink_host_doorbell,
                                         .death = nvmefslink_host_death,
                                         .ctx = h};
    snic_loop_poller_init(&h->poller, nvmefslink_host_poll);
    snic_loop_poller_add(d->loop, &h->poller);
    *out = h;
    return 0;
}

void snic_nvmefslink_host_detach(struct snic_nvmefslink_host *h)
{
    h->dead = 1;
    snic_loop_cancel(h->dma->loop, &h->retry);
    for (uint32_t i = 0; i < h->opts.queues_max; i++) {
        struct snic_nvmefslink_queue *q = h->queues[i];
        if (q == NULL)
            continue;
        nvmefslink_queue_over(q, SNIC_EPEERDEAD);
        while (h->queues[i] == q && q->closed_due) /* the closed event may close it */
            (void)nvmefslink_queue_poll(q, 0);
    }
}

void *snic_nvmefslink_host_fini(struct snic_nvmefslink_host *h)
{
    for (uint32_t i = 0; i < SNIC_NVMEFS_QUEUES_MAX; i++)
        SNIC_ASSERT(h->queues[i] == NULL);
    snic_loop_cancel(h->dma->loop, &h->retry);
    snic_loop_poller_remove(h->dma->loop, &h->poller);
    h->dma->events = (struct snic_dma_events){NULL, NULL, NULL, NULL};
    return h;
}

int snic_nvmefslink_window_add(struct snic_nvmefslink_host *h, void *mem, size_t size,
                               uint64_t *key)
{
    uint32_t i = 0;
    while (i < SNIC_NVMEFS_WINDOWS_MAX && h->windows[i].used)
        i++;
    if (i == SNIC_NVMEFS_WINDOWS_MAX)
        return SNIC_ENOSPC;
    int r = snic_dma_register(h->dma, mem, size, SNIC_DMA_RIGHT_READ | SNIC_DMA_RIGHT_WRITE, key);
    if (r != 0)
        return r;
    h->windows[i] = (struct nvmefslink_window){.key = *key, .size = size, .used = 1, .announce = 1};
    nvmefslink_host_flush(h);
    return (int)i;
}

void snic_nvmefslink_window_remove(struct snic_nvmefslink_host *h, uint32_t window)
{
    SNIC_ASSERT(window < SNIC_NVMEFS_WINDOWS_MAX && h->windows[window].used);
    h->windows[window].used = 0;
    h->windows[window].announce = 1;
    nvmefslink_host_flush(h);
}

/** The queue's memory: registered, and the engine's. 0 or SNIC_E*. */
static int nvmefslink_queue_make(struct snic_nvmefslink_queue *q, struct snic_nvmefs_host_opts *eo)
{
    struct snic_dma *d = q->link->dma;
    size_t queue_size = snic_nvmefs_queue_bytes(eo);
    size_t engine_size = snic_nvmefs_host_memsize(eo);
    if (queue_size == 0 || engine_size == 0)
        return SNIC_EINVAL;
    int r = snic_dma_alloc(d, queue_size, &q->queue_mem);
    if (r == 0)
        r = snic_dma_alloc(d, engine_size, &q->engine_mem);
    if (r != 0)
        return r;
    r = snic_nvmefslink_window_add(q->link, q->queue_mem, queue_size, &q->key);
    if (r < 0)
        return r;
    q->window = (uint32_t)r;
    eo->address = SNIC_NVMEFS_ADDRESS(q->window, 0);
    return snic_nvmefs_host_init(&q->engine, q->engine_mem, engine_size, q->queue_mem, eo);
}

static void nvmefslink_queue_free(struct snic_nvmefslink_queue *q)
{
    struct snic_dma *d = q->link->dma;
    if (q->key != 0) {
        snic_nvmefslink_window_remove(q->link, q->window);
        snic_dma_unregister(d, q->key);
    }
    if (q->queue_mem != NULL)
        snic_dma_release(d, q->queue_mem);
    if (q->engine_mem != NULL)
        snic_dma_release(d, q->engine_mem);
    snic_dma_release(d, q);
}

int snic_nvmefslink_open(struct snic_nvmefslink_queue **out, struct snic_nvmefslink_host *h,
                         const struct snic_nvmefslink_queue_opts *o,
                         const struct snic_nvmefslink_events *e)
{
    struct snic_nvmefslink_queue_opts copy = {.opts_size = sizeof(copy)};
    int r = snic_opts_copy(&copy, sizeof(copy), o);
    uint32_t number = 0;
    void *mem = NULL;
    SNIC_ASSERT(e->closed != NULL);
    if (r == 0 && (copy.flags & ~SNIC_NVMEFSLINK_DIRECT) != 0)
        r = SNIC_EINVAL;
    if (r == 0 && (h->dead || h->dma->dead))
        r = SNIC_EPEERDEAD;
    if (r != 0)
        return r;
    while (number < h->opts.queues_max && h->queues[number] != NULL)
        number++;
    if (number == h->opts.queues_max)
        return SNIC_EAGAIN;
    r = snic_dma_alloc(h->dma, sizeof(struct snic_nvmefslink_queue), &mem);
    if (r != 0)
        return r;
    struct snic_nvmefslink_queue *q = mem;
    struct snic_nvmefs_host_opts eo = {.opts_size = sizeof(eo),
                                       .queue = (uint16_t)number,
                                       .depth = copy.depth,
                                       .data_bytes = copy.data_bytes};
    memset(q, 0, sizeof(*q));
    q->link = h;
    q->number = number;
    q->flags = copy.flags;
    q->events = *e;
    if ((q->flags & SNIC_NVMEFSLINK_DIRECT) == 0)
        SNIC_ASSERT(e->done != NULL);
    r = nvmefslink_queue_make(q, &eo);
    if (r != 0) {
        nvmefslink_queue_free(q);
        return r;
    }
    q->state = NVMEFSLINK_OPENING;
    q->ctl_due = SNIC_NVMEFS_CTL_CREATE;
    SNIC_ASSERT(h->queues[number] == NULL);
    h->queues[number] = q;
    nvmefslink_host_flush(h);
    *out = q;
    return 0;
}

void snic_nvmefslink_end(struct snic_nvmefslink_queue *q)
{
    if (q->link->dead)
        nvmefslink_queue_over(q, SNIC_EPEERDEAD);
    else
        nvmefslink_queue_ending(q, 0);
    nvmefslink_host_kick(q->link);
}

void snic_nvmefslink_close(struct snic_nvmefslink_queue *q)
{
    SNIC_ASSERT(q->state == NVMEFSLINK_OVER && !q->closed_due);
    q->link->queues[q->number] = NULL;
    (void)snic_nvmefs_host_fini(q->engine);
    nvmefslink_queue_free(q);
}

int snic_nvmefslink_submit(struct snic_nvmefslink_queue *q, struct snic_nvmefs_req *req)
{
    SNIC_ASSERT((q->flags & SNIC_NVMEFSLINK_DIRECT) == 0);
    if (q->state != NVMEFSLINK_OPEN && q->state != NVMEFSLINK_OPENING)
        return SNIC_EPIPE;
    int r = snic_nvmefs_host_submit(q->engine, req);
    if (r == 0)
        nvmefslink_host_kick(q->link);
    return r;
}

void snic_nvmefslink_flush(struct snic_nvmefslink_queue *q)
{
    if (q->state != NVMEFSLINK_OVER && snic_nvmefs_host_kick(q->engine))
        nvmefslink_queue_ring(q);
}

int snic_nvmefslink_abort(struct snic_nvmefslink_queue *q, struct snic_nvmefs_req *req)
{
    int r = snic_nvmefs_host_abort(q->engine, req);
    nvmefslink_host_kick(q->link);
    return r;
}

int snic_nvmefslink_reset(struct snic_nvmefslink_queue *q)
{
    if ((q->flags & SNIC_NVMEFSLINK_DIRECT) != 0)
        return SNIC_ENOTSUP;
    if (q->state == NVMEFSLINK_ENDING || q->state == NVMEFSLINK_OVER)
        return SNIC_EPIPE;
    if (q->state != NVMEFSLINK_OPEN)
        return SNIC_EBUSY;
    q->state = NVMEFSLINK_RESETTING;
    q->ctl_due = SNIC_NVMEFS_CTL_DELETE;
    nvmefslink_host_flush(q->link);
    return 0;
}

struct snic_nvmefs_host *snic_nvmefslink_engine(struct snic_nvmefslink_queue *q)
{
    return q->engine;
}

void snic_nvmefslink_ring(struct snic_nvmefslink_queue *q)
{
    nvmefslink_queue_ring(q);
}
