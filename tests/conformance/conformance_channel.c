/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance_channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** The header of requests and replies; the service may make it longer. */
struct chan_head {
    uint32_t sender;
    uint32_t sequence;
    uint32_t bytes;
    uint32_t order; /* of reservation, replies only */
    uint32_t want;  /* reply bytes wanted, requests only */
    uint32_t sum;
};

static void chan_wrong(struct chan_side *s, const char *why)
{
    if (s->bad++ == 0) {
        s->why = why;
        fprintf(stderr, "channel: %s\n", why);
    }
}

static uint32_t chan_sum(const struct chan_head *h)
{
    return snic_crc32c_portable(0, h, offsetof(struct chan_head, sum));
}

/** Byte @p i of the payload of a message. */
static unsigned char chan_byte(const struct chan_head *h, uint32_t i, int reply)
{
    return (unsigned char)(h->sender * 13 + h->sequence * 31 + i + (i >> 8) * 7 +
                           (uint32_t)reply * 101);
}

static void chan_fill(void *payload, const struct chan_head *h, uint32_t bytes, int reply)
{
    unsigned char *p = payload;
    for (uint32_t i = 0; i < bytes; i++)
        p[i] = chan_byte(h, i, reply);
}

static int chan_intact(const void *payload, const struct chan_head *h, uint32_t bytes, int reply)
{
    const unsigned char *p = payload;
    for (uint32_t i = 0; i < bytes; i++)
        if (p[i] != chan_byte(h, i, reply))
            return 0;
    return 1;
}

uint32_t chan_total(const struct chan_opts *o)
{
    return o->requests * (o->threads > 0 ? o->threads : 1);
}

/* ---- Things held ---- */

static void chan_arm(struct chan_side *s)
{
    uint64_t due = SNIC_NEVER;
    for (int i = 0; i < CHAN_HELD; i++)
        if (s->held[i].kind != 0)
            due = snic_min_u64(due, s->held[i].due_ns);
    if (due != SNIC_NEVER)
        snic_loop_arm(s->loop, &s->give, due);
}

static void chan_hold(struct chan_side *s, struct chan_held h)
{
    for (int i = 0; i < CHAN_HELD; i++) {
        if (s->held[i].kind != 0)
            continue;
        h.due_ns = snic_loop_now(s->loop) + snic_rng_below(&s->rng, s->o.hold_ns + 1);
        s->held[i] = h;
        s->holding++;
        chan_arm(s);
        return;
    }
    chan_wrong(s, "the test holds too much");
}

static void chan_give_one(struct chan_side *s, struct chan_held *h)
{
    int kind = h->kind;
    h->kind = 0;
    s->holding--;
    if (kind == 1)
        snic_channel_release(s->c, &h->token);
    else if (kind == 2)
        snic_channel_down_commit(s->c, &h->slot, h->bytes);
    else if (kind == 3)
        snic_channel_down_cancel(s->c, &h->slot);
    if (s->stalled) {
        s->stalled = 0;
        snic_channel_resume(s->c);
    }
}

static void chan_give(struct snic_timer *t, uint64_t now_ns)
{
    struct chan_side *s = SNIC_CONTAINER(t, struct chan_side, give);
    uint32_t from = (uint32_t)snic_rng_below(&s->rng, CHAN_HELD);
    for (uint32_t i = 0; i < CHAN_HELD; i++) {
        struct chan_held *h = &s->held[(from + i) % CHAN_HELD];
        if (h->kind != 0 && h->due_ns <= now_ns)
            chan_give_one(s, h);
    }
    chan_arm(s);
}

void chan_give_all(struct chan_side *s)
{
    for (int i = 0; i < CHAN_HELD; i++)
        if (s->held[i].kind != 0)
            chan_give_one(s, &s->held[i]);
    snic_loop_cancel(s->loop, &s->give);
}

/* ---- Both sides ---- */

static void chan_opened(void *ctx, struct snic_channel *c)
{
    struct chan_side *s = ctx;
    if (s->opened++ != 0 || c != s->c || s->closed != 0)
        chan_wrong(s, "opened out of turn");
}

static void chan_closed(void *ctx, struct snic_channel *c, int reason)
{
    struct chan_side *s = ctx;
    if (s->closed++ != 0 || c != s->c)
        chan_wrong(s, "closed out of turn");
    s->reason = reason;
}

static void chan_death(void *ctx, struct snic_channel_hub *hub, enum snic_dma_death cause)
{
    struct chan_side *s = ctx;
    (void)cause;
    if (hub != s->hub || s->deaths++ != 0)
        chan_wrong(s, "death out of turn");
    if (s->c != NULL && s->closed == 0)
        chan_wrong(s, "death before closed");
}

static void chan_begin(struct chan_side *s, const struct chan_opts *o, uint64_t salt,
                       const struct snic_channel_hub_opts *hub)
{
    s->o = *o;
    snic_rng_init(&s->rng, o->seed * 2 + salt);
    snic_timer_init(&s->give, chan_give);
    size_t size = snic_channel_hub_memsize(hub);
    s->hub_mem = malloc(size);
    if (size == 0 || snic_channel_hub_init(&s->hub, s->hub_mem, size, s->d, hub) != 0)
        abort();
}

void chan_end(struct chan_side *s)
{
    if (s->c != NULL) {
        chan_give_all(s);
        snic_channel_close(s->c);
        s->c = NULL;
    }
    if (snic_channel_hub_fini(s->hub) != s->hub_mem)
        chan_wrong(s, "fini returns another pointer");
    free(s->hub_mem);
    s->hub = NULL;
    s->d = NULL;
}

/* ---- DPU ---- */

static int dpu_request_good(struct chan_dpu_side *u, const struct snic_channel_msg *m,
                            struct chan_head *h)
{
    if (m->header_bytes < sizeof(*h) || (uintptr_t)m->header % 8 != 0)
        return 0;
    memcpy(h, m->header, sizeof(*h));
    if (h->sum != chan_sum(h) || h->bytes != m->payload_bytes || m->type != (h->sequence & 0xffff))
        return 0;
    if (h->sender >= CHAN_SENDERS || h->sequence != u->next[h->sender])
        return 0;
    for (uint32_t i = sizeof(*h); i < m->header_bytes; i++)
        if (((const unsigned char *)m->header)[i] != (unsigned char)(h->sequence + i))
            return 0;
    if ((m->payload == NULL) != (m->payload_bytes == 0) ||
        (uintptr_t)m->payload % u->s.o.payload_align != 0)
        return 0;
    return chan_intact(m->payload, h, m->payload_bytes, 0);
}

static int dpu_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct chan_dpu_side *u = ctx;
    struct chan_side *s = &u->s;
    struct chan_head h;
    struct chan_held answer = {.kind = 2};
    if (s->closed != 0 || s->opened == 0)
        chan_wrong(s, "message out of turn");
    if (!dpu_request_good(u, m, &h)) {
        chan_wrong(s, "request is not what was sent");
        return 1;
    }
    if (s->o.mute) {
        u->next[h.sender]++;
        u->requests++;
        return 1;
    }
    if (s->holding + 3 > CHAN_HELD ||
        (!s->o.quiet && s->holding > 0 && snic_rng_below(&s->rng, 8) == 0)) {
        s->stalled = 1; /* resumed when something is returned */
        return SNIC_EAGAIN;
    }
    uint32_t more = (uint32_t)snic_rng_below(&s->rng, 64);
    if (h.want + more > s->o.payload_max)
        more = 0;
    int r = snic_channel_down_reserve(c, m->type, sizeof(h), h.want + more, &answer.slot);
    if (r == SNIC_EAGAIN)
        return SNIC_EAGAIN; /* resumed by writable */
    if (r != 0) {           /* the host has closed: there is no peer to answer */
        if (r != SNIC_EPIPE)
            chan_wrong(s, "down_reserve");
        u->next[h.sender]++;
        return 1;
    }
    if ((uintptr_t)answer.slot.payload % s->o.payload_align != 0)
        chan_wrong(s, "slot is not aligned");
    u->next[h.sender]++;
    u->requests++;
    answer.bytes = h.want;
    h.bytes = h.want;
    h.order = u->order++;
    h.sum = chan_sum(&h);
    memcpy(answer.slot.header, &h, sizeof(h));
    chan_fill(answer.slot.payload, &h, h.want, 1);
    chan_hold(s, answer);
    if (snic_rng_below(&s->rng, 16) == 0) {
        struct chan_held dropped = {.kind = 3};
        if (snic_channel_down_reserve(c, 9, 8, 16, &dropped.slot) == 0)
            chan_hold(s, dropped);
    }
    if (snic_rng_below(&s->rng, 3) == 0)
        return 1;
    chan_hold(s, (struct chan_held){.kind = 1, .token = m->token});
    return 0;
}

static void dpu_writable(void *ctx, struct snic_channel *c)
{
    (void)ctx;
    snic_channel_resume(c);
}

static int dpu_accept(void *ctx, struct snic_channel_hub *hub,
                      const struct snic_channel_offer *offer)
{
    struct chan_dpu_side *u = ctx;
    const struct snic_channel_events e = {dpu_message, chan_opened, dpu_writable, chan_closed, u};
    struct snic_channel_accept_opts o = {
        .opts_size = sizeof(o), .flags = u->s.o.accept_flags, .batch_bytes = u->s.o.batch_bytes};
    if (offer->kind != CHAN_KIND)
        return SNIC_ECONNREFUSED;
    if (u->s.c != NULL)
        return SNIC_EBUSY;
    return snic_channel_accept(&u->s.c, hub, offer, &o, &e);
}

void chan_dpu_begin(struct chan_dpu_side *u, const struct chan_opts *o)
{
    const struct snic_channel_hub_opts hub = {
        .opts_size = sizeof(hub), .accept = dpu_accept, .death = chan_death, .ctx = u};
    chan_begin(&u->s, o, 1, &hub);
}

/* ---- Host ---- */

static int host_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct chan_host_side *t = ctx;
    struct chan_side *s = &t->s;
    struct chan_head h;
    (void)c;
    if (s->closed != 0)
        chan_wrong(s, "message after closed");
    if (m->header_bytes != sizeof(h)) {
        chan_wrong(s, "reply header");
        return 1;
    }
    if (s->holding + 1 > CHAN_HELD ||
        (!s->o.quiet && s->holding > 0 && snic_rng_below(&s->rng, 16) == 0)) {
        s->stalled = 1;
        return SNIC_EAGAIN;
    }
    memcpy(&h, m->header, sizeof(h));
    uint32_t id = h.sender * s->o.requests + h.sequence;
    if (h.sum != chan_sum(&h) || h.bytes != m->payload_bytes || id >= chan_total(&s->o) ||
        !chan_intact(m->payload, &h, m->payload_bytes, 1))
        chan_wrong(s, "reply is not what was sent");
    else if (t->seen[id]++ != 0)
        chan_wrong(s, "reply came twice");
    if ((s->o.flags & SNIC_CHANNEL_DOWN_ORDERED) != 0 && h.order < t->last_order)
        chan_wrong(s, "replies out of order");
    t->last_order = h.order;
    t->replies++;
    if (s->o.window != 0)
        snic_loop_arm(s->loop, &t->push,
                      snic_loop_now(s->loop) + snic_rng_below(&s->rng, s->o.gap_ns + 1));
    if (snic_rng_below(&s->rng, 2) == 0)
        return 1;
    chan_hold(s, (struct chan_held){.kind = 1, .token = m->token});
    return 0;
}

/** Send request @p sequence. 0, SNIC_EAGAIN, ... */
static int host_request(struct chan_side *s, struct snic_channel_sender *sender,
                        struct snic_rng *rng, uint32_t index, uint32_t sequence)
{
    unsigned char header[SNIC_CHANNEL_HEADER_MAX];
    struct snic_channel_slot slot;
    uint32_t head = (uint32_t)(sizeof(struct chan_head) + snic_rng_below(rng, 40));
    uint32_t most = s->o.payload_max;
    uint32_t shift = (uint32_t)snic_rng_below(rng, 12);
    struct chan_head h = {.sender = index, .sequence = sequence};
    h.bytes = (uint32_t)snic_rng_below(rng, (most >> shift) + 1);
    h.want = (uint32_t)snic_rng_below(rng, (most >> (11 - shift)) + 1);
    h.sum = chan_sum(&h);
    memcpy(header, &h, sizeof(h));
    for (uint32_t i = sizeof(h); i < head; i++)
        header[i] = (unsigned char)(sequence + i);
    int r = snic_channel_up_reserve(sender, sequence & 0xffff, head, h.bytes, &slot);
    if (r != 0)
        return r;
    if (snic_rng_below(rng, 32) == 0) { /* changed its mind; another follows */
        snic_channel_up_cancel(sender);
        return 1;
    }
    memcpy(slot.header, header, head);
    chan_fill(slot.payload, &h, h.bytes, 0);
    snic_channel_up_commit(sender, 0);
    return 0;
}

static int host_may_push(const struct chan_host_side *t)
{
    const struct chan_opts *o = &t->s.o;
    return t->pushed < o->requests && !t->blocked && t->s.closed == 0 &&
           (o->window == 0 || t->pushed - t->replies < o->window);
}

static void host_push(struct snic_timer *timer, uint64_t now_ns)
{
    struct chan_host_side *t = SNIC_CONTAINER(timer, struct chan_host_side, push);
    struct chan_side *s = &t->s;
    uint32_t burst = 1 + (uint32_t)snic_rng_below(&s->rng, 12);
    while (burst > 0 && host_may_push(t)) {
        int r = host_request(s, &t->sender, &s->rng, 0, t->pushed);
        if (r == SNIC_EAGAIN)
            t->blocked = 1; /* until writable */
        else if (r == SNIC_EPIPE)
            return; /* closed comes */
        else if (r < 0)
            chan_wrong(s, "up_reserve");
        else if (r == 0)
            t->pushed++;
        burst--;
    }
    if (host_may_push(t))
        snic_loop_arm(s->loop, &t->push,
                      now_ns + (snic_rng_below(&s->rng, 4) != 0
                                    ? 0
                                    : snic_rng_below(&s->rng, s->o.gap_ns + 1)));
}

static void host_writable(void *ctx, struct snic_channel *c)
{
    struct chan_host_side *t = ctx;
    (void)c;
    t->writable++;
    if (t->s.o.threads > 0) {
        (void)pthread_mutex_lock(&t->lock);
        t->space_count++;
        (void)pthread_cond_broadcast(&t->space);
        (void)pthread_mutex_unlock(&t->lock);
    } else if (t->blocked) {
        t->blocked = 0;
        host_push(&t->push, snic_loop_now(t->s.loop));
    }
}

/* A pass of the loop polls the channel: it meets what the DPU has written only in part. */
static void host_look(struct snic_timer *timer, uint64_t now_ns)
{
    struct chan_host_side *t = SNIC_CONTAINER(timer, struct chan_host_side, look);
    snic_loop_arm(t->s.loop, &t->look, now_ns + t->s.o.look_ns);
}

void chan_host_begin(struct chan_host_side *t, const struct chan_opts *o)
{
    const struct snic_channel_hub_opts hub = {
        .opts_size = sizeof(hub), .death = chan_death, .ctx = t};
    t->seen = calloc(chan_total(o), 1);
    (void)pthread_mutex_init(&t->lock, NULL);
    (void)pthread_cond_init(&t->space, NULL);
    snic_timer_init(&t->push, host_push);
    snic_timer_init(&t->look, host_look);
    chan_begin(&t->s, o, 0, &hub);
}

static void host_closed(void *ctx, struct snic_channel *c, int reason)
{
    struct chan_host_side *t = ctx;
    chan_closed(ctx, c, reason);
    snic_loop_cancel(t->s.loop, &t->push);
    snic_loop_cancel(t->s.loop, &t->look);
    (void)pthread_mutex_lock(&t->lock);
    t->space_count++;
    (void)pthread_cond_broadcast(&t->space);
    (void)pthread_mutex_unlock(&t->lock);
}

void chan_host_open(struct chan_host_side *t)
{
    struct chan_side *s = &t->s;
    const struct snic_channel_events e = {host_message, chan_opened, host_writable, host_closed, t};
    struct snic_channel_opts o = {.opts_size = sizeof(o),
                                  .kind = CHAN_KIND,
                                  .id = 42,
                                  .up_bytes = s->o.ring_bytes,
                                  .down_bytes = s->o.ring_bytes,
                                  .payload_align = s->o.payload_align,
                                  .flags = s->o.flags,
                                  .granule_bytes = 16};
    int r = snic_channel_open(&s->c, s->hub, &o, &e);
    if (r != 0 || snic_channel_sender_init(&t->sender, s->c) != 0) {
        chan_wrong(s, "open");
        return;
    }
    if (s->o.threads == 0)
        snic_loop_arm(s->loop, &t->push, 0);
    if (s->o.look_ns != 0)
        snic_loop_arm(s->loop, &t->look, 0);
}

int chan_host_done(const struct chan_host_side *t)
{
    if (t->s.o.mute)
        return atomic_load_explicit(&t->finished, memory_order_acquire) == t->s.o.threads;
    return t->replies == chan_total(&t->s.o);
}

/* ---- Host threads ---- */

static void *host_thread(void *arg)
{
    struct chan_thread *me = arg;
    struct chan_host_side *t = me->h;
    struct snic_channel_sender own;
    struct snic_rng rng;
    snic_rng_init(&rng, t->s.o.seed * 100 + me->index);
    if (snic_channel_sender_init(&own, t->s.c) != 0)
        return arg;
    for (uint32_t n = 0; n < t->s.o.requests;) {
        (void)pthread_mutex_lock(&t->lock);
        uint64_t had = t->space_count;
        (void)pthread_mutex_unlock(&t->lock);
        struct snic_channel_sender *s = &own;
        struct snic_channel_sender *lent = NULL;
        if (me->index % 2 == 1 && (lent = snic_channel_borrow(t->s.c)) != NULL)
            s = lent;
        int r = host_request(&t->s, s, &rng, me->index, n);
        if (lent != NULL)
            snic_channel_give_back(lent);
        if (r == SNIC_EAGAIN) {
            (void)pthread_mutex_lock(&t->lock);
            while (t->space_count == had) /* a lost wake-up hangs here */
                (void)pthread_cond_wait(&t->space, &t->lock);
            (void)pthread_mutex_unlock(&t->lock);
        } else if (r == SNIC_EPIPE) {
            return arg;
        } else if (r == 0) {
            n++;
        }
    }
    (void)atomic_fetch_add_explicit(&t->finished, 1, memory_order_release);
    snic_loop_wake(t->s.loop);
    return NULL;
}

void chan_threads_start(struct chan_host_side *t)
{
    for (uint32_t i = 0; i < t->s.o.threads; i++) {
        t->threads[i].h = t;
        t->threads[i].index = i;
        if (pthread_create(&t->threads[i].thread, NULL, host_thread, &t->threads[i]) != 0)
            abort();
    }
}

void chan_threads_join(struct chan_host_side *t)
{
    for (uint32_t i = 0; i < t->s.o.threads; i++) {
        void *failed = NULL;
        (void)pthread_join(t->threads[i].thread, &failed);
        t->senders_done += failed == NULL;
    }
}

void chan_host_free(struct chan_host_side *t)
{
    free(t->seen);
    (void)pthread_mutex_destroy(&t->lock);
    (void)pthread_cond_destroy(&t->space);
}
