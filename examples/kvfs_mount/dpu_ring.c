/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU's process, the link over a channel of two rings: names and data are used where the host
 * put them, and bytes read go straight into the ring.
 */
#include "dpu_priv.h"

#include <stdlib.h>
#include <string.h>

struct kd_ring {
    struct snic_channel_hub *hub;
    struct snic_channel *channel;
    void *hub_memory;
    struct kd_call *calls;
    struct kd_call *free;
    uint32_t in_flight;
    struct snic_link locks;   /* wait for another lock's release */
    struct snic_link answers; /* wait for room in the ring */
    int stalled;              /* a message waits for a call or for room */
};

struct kd_call {
    struct snic_fs_req r;
    struct kd *d;
    struct snic_link link; /* of calls that wait for locks, or of answers that wait for room */
    struct kd_call *next;
    struct snic_channel_token token;
    struct snic_channel_slot slot;
    struct snic_iov iov;
    uint64_t number;
    int has_token;
    int has_slot;
    struct km_down answer; /* waits for room */
    /* Copied: the host could change a name after it was checked. */
    uint64_t head[SNIC_NVMEFS_HEADER_MAX / 8];
    char target[SNIC_FSOP_SYMLINK_MAX]; /* of SYMLINK */
};

static void ring_resume(struct kd_ring *ring)
{
    if (ring->stalled && ring->channel != NULL) {
        ring->stalled = 0;
        snic_channel_resume(ring->channel);
    }
}

/* ---- Answers ---- */

static void ring_put(struct kd_call *c)
{
    struct kd_ring *ring = c->d->end;

    c->next = ring->free;
    ring->free = c;
    ring->in_flight--;
    ring_resume(ring);
}

static void ring_fill(const struct kd_call *c, struct km_down *h)
{
    const struct snic_fsop *k = &c->r.op;

    memset(h, 0, sizeof(*h));
    h->number = c->number;
    h->result = k->result;
    h->handle = k->handle;
    h->alone = c->d->alone;
    h->valid_ns = kd_valid_ns(c->d);
    if (k->kind == SNIC_FSOP_STATFS)
        h->u.statfs = k->statfs;
    else if (k->kind == SNIC_FSOP_GETLK)
        h->u.lock = k->lock;
    else
        h->u.attr = k->attr;
}

static void ring_answers(struct kd *d)
{
    struct kd_ring *ring = d->end;

    while (!snic_link_alone(&ring->answers)) {
        struct kd_call *c = SNIC_CONTAINER(ring->answers.next, struct kd_call, link);

        if (!d->gone && snic_channel_down_push(ring->channel, KM_WIRE_CALL, &c->answer,
                                               sizeof(c->answer), NULL, 0) == SNIC_EAGAIN)
            return;
        snic_link_remove(&c->link);
        ring_put(c);
    }
}

static void ring_done(struct snic_fs_req *r)
{
    struct kd_call *c = SNIC_CONTAINER(r, struct kd_call, r);
    struct kd *d = c->d;
    struct kd_ring *ring = d->end;

    if ((r->op.flags & SNIC_FSOP_LOCK_WAIT) != 0)
        snic_link_remove(&c->link);
    if (c->has_token)
        snic_channel_release(ring->channel, &c->token);
    if (c->has_slot) {
        /* No more than there is room: a result need not be a count of bytes that were read. */
        uint64_t bytes = r->op.result > 0 ? (uint64_t)r->op.result : 0;

        ring_fill(c, c->slot.header);
        snic_channel_down_commit(ring->channel, &c->slot,
                                 (uint32_t)snic_min_u64(bytes, c->slot.payload_bytes));
        ring_put(c);
        return;
    }
    ring_fill(c, &c->answer);
    snic_link_append(&ring->answers, &c->link);
    ring_answers(d);
}

/* ---- Requests ---- */

static int ring_fits(const struct km_up *u, const struct snic_channel_msg *m)
{
    return (uint64_t)u->head_bytes + u->data_bytes == m->payload_bytes &&
           u->head_bytes <= SNIC_NVMEFS_HEADER_MAX && u->room <= KM_DATA;
}

/* The request of the message. 0; SNIC_E* it is malformed */
static int ring_request(struct kd_call *c, const struct km_up *u, const void *payload)
{
    int rc;

    if (u->head_bytes == 0)
        return SNIC_EPROTO;
    memset(&c->r, 0, sizeof(c->r));
    memcpy(c->head, payload, u->head_bytes);
    rc = snic_nvmefs_head_decode(&c->r.op, c->head, u->head_bytes);
    if (rc == 0 && c->r.op.kind == SNIC_FSOP_SYMLINK && u->data_bytes > sizeof(c->target))
        return SNIC_ENAMETOOLONG;
    return rc;
}

/* Its data, which stay in the rings. @return 1: some are in the message */
static int ring_data(struct kd_call *c, const struct km_up *u, unsigned char *payload)
{
    struct snic_fsop *k = &c->r.op;
    unsigned char *data = payload + u->head_bytes;

    if (k->kind == SNIC_FSOP_SYMLINK) {
        memcpy(c->target, data, u->data_bytes);
        k->name2 = c->target;
        k->name2_size = u->data_bytes;
        return 0;
    }
    if (snic_fsop_data(k->kind) == 1)
        c->iov = (struct snic_iov){data, u->data_bytes};
    else if (c->has_slot)
        c->iov = (struct snic_iov){c->slot.payload, u->room};
    else
        return 0;
    k->iov = &c->iov;
    k->iov_count = 1;
    return snic_fsop_data(k->kind) == 1 && u->data_bytes > 0;
}

static void ring_cancel(struct kd *d, uint64_t number)
{
    struct kd_ring *ring = d->end;

    for (struct snic_link *i = ring->locks.next; i != &ring->locks; i = i->next) {
        struct kd_call *c = SNIC_CONTAINER(i, struct kd_call, link);

        if (c->number == number) {
            snic_fs_cancel(d->store.fs, &c->r);
            return;
        }
    }
}

/* A request that cannot be decoded is answered, too: the caller would wait for ever. */
static void ring_refuse(struct kd *d, struct kd_call *c, uint64_t number)
{
    struct kd_ring *ring = d->end;

    ex_log(EX_WARNING, "protocol error: malformed request of the host process");
    memset(&c->r, 0, sizeof(c->r));
    c->r.op.result = SNIC_EPROTO;
    c->number = number;
    c->has_token = 0;
    c->has_slot = 0;
    ring->free = c->next;
    ring->in_flight++;
    ring_done(&c->r);
}

static int ring_message(void *ctx, struct snic_channel *ch, const struct snic_channel_msg *m)
{
    struct kd *d = ctx;
    struct kd_ring *ring = d->end;
    const struct km_up *u = m->header;
    struct kd_call *c = ring->free;

    if (m->header_bytes != sizeof(*u) || !ring_fits(u, m)) {
        ex_log(EX_WARNING, "protocol error: malformed message of the host process");
        return 1;
    }
    if (m->type == KM_WIRE_CANCEL) {
        ring_cancel(d, u->number);
        return 1;
    }
    if (c == NULL || !d->mounted) {
        ring->stalled = 1;
        return SNIC_EAGAIN;
    }
    if (ring_request(c, u, m->payload) != 0) {
        ring_refuse(d, c, u->number);
        return 1;
    }
    c->has_slot = 0;
    if (u->room > 0) {
        int rc =
            snic_channel_down_reserve(ch, KM_WIRE_CALL, sizeof(struct km_down), u->room, &c->slot);

        if (rc == SNIC_EAGAIN) {
            ring->stalled = 1;
            return SNIC_EAGAIN;
        }
        if (rc != 0)
            return 1; /* closed: no call waits */
        c->has_slot = 1;
    }
    ring->free = c->next;
    ring->in_flight++;
    c->number = u->number;
    c->token = m->token;
    c->has_token = ring_data(c, u, m->payload);
    c->r.done = ring_done;
    if ((c->r.op.flags & SNIC_FSOP_LOCK_WAIT) != 0)
        snic_link_append(&ring->locks, &c->link);
    snic_fs_submit(d->store.fs, &c->r);
    return !c->has_token;
}

/* ---- Attach and detach ---- */

static void ring_writable(void *ctx, struct snic_channel *ch)
{
    struct kd *d = ctx;
    struct kd_ring *ring = d->end;

    ring_answers(d);
    ring->stalled = 0;
    snic_channel_resume(ch);
}

static void ring_closed(void *ctx, struct snic_channel *ch, int reason)
{
    struct kd *d = ctx;

    (void)ch;
    if (reason != 0)
        ex_log(EX_WARNING, "the host process is gone: %s", snic_strerror(reason));
    d->gone = 1;
}

static int ring_offer(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *o)
{
    struct kd *d = ctx;
    struct kd_ring *ring = d->end;
    struct snic_channel_accept_opts a = {.opts_size = sizeof(a), .flags = SNIC_CHANNEL_REGIONS};
    struct snic_channel_events e = {
        .message = ring_message, .writable = ring_writable, .closed = ring_closed, .ctx = d};

    if (o->kind != KM_WIRE_KIND || ring->channel != NULL)
        return SNIC_ECONNREFUSED;
    return snic_channel_accept(&ring->channel, h, o, &a, &e);
}

static void ring_death(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause)
{
    struct kd *d = ctx;

    (void)h;
    (void)cause;
    d->gone = 1;
}

static int ring_attach(struct kd *d)
{
    struct snic_channel_hub_opts o = {
        .opts_size = sizeof(o), .accept = ring_offer, .death = ring_death, .ctx = d};
    struct kd_ring *ring = d->end;
    size_t size = snic_channel_hub_memsize(&o);
    int rc = SNIC_ENOMEM;

    if (posix_memalign(&ring->hub_memory, SNIC_CACHELINE, size) != 0) {
        snic_dma_close(d->dma);
        return rc;
    }
    rc = snic_channel_hub_init(&ring->hub, ring->hub_memory, size, d->dma, &o);
    if (rc != 0) {
        free(ring->hub_memory);
        snic_dma_close(d->dma);
    }
    return rc;
}

/* Not inside an event: closing runs the loop. */
static void ring_reap(struct kd *d)
{
    struct kd_ring *ring = d->end;
    struct snic_link *i;

    for (i = ring->locks.next; i != &ring->locks; i = i->next)
        snic_fs_cancel(d->store.fs, &SNIC_CONTAINER(i, struct kd_call, link)->r);
    while (ring->in_flight > 0) {
        ring_answers(d);
        (void)snic_loop_once(d->loop, 10000000u);
    }
    if (ring->channel != NULL)
        snic_channel_close(ring->channel);
    snic_channel_hub_fini(ring->hub);
    free(ring->hub_memory);
    ring->channel = NULL;
    ring->hub = NULL;
    ring->stalled = 0;
}

static void ring_go(struct kd *d)
{
    ring_resume(d->end);
}

static int ring_send_state(struct kd *d)
{
    struct kd_ring *ring = d->end;
    struct km_down h = {.alone = d->alone, .valid_ns = kd_valid_ns(d)};

    if (ring->channel == NULL)
        return SNIC_EAGAIN;
    return snic_channel_down_push(ring->channel, KM_WIRE_STATE, &h, sizeof(h), NULL, 0);
}

static int ring_open(struct kd *d)
{
    struct kd_ring *ring = d->end;

    snic_link_init(&ring->locks);
    snic_link_init(&ring->answers);
    ring->calls = calloc(KM_REQUESTS, sizeof(*ring->calls));
    if (ring->calls == NULL)
        return SNIC_ENOMEM;
    for (uint32_t i = 0; i < KM_REQUESTS; i++) {
        ring->calls[i].d = d;
        ring->calls[i].next = ring->free;
        ring->free = &ring->calls[i];
    }
    return 0;
}

static void ring_shut(struct kd *d)
{
    struct kd_ring *ring = d->end;

    free(ring->calls);
}

const struct kd_link dpu_ring = {.end_bytes = sizeof(struct kd_ring),
                                 .open = ring_open,
                                 .close = ring_shut,
                                 .attach = ring_attach,
                                 .reap = ring_reap,
                                 .go = ring_go,
                                 .send_state = ring_send_state};
