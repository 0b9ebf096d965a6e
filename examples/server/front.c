/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Connections of a monolith: accepted, refused, watched, closed. */
#include "front_priv.h"

#include <stdlib.h>
#include <string.h>

#define FRONT_WATCH_NS 1000000000u
/* A drain waits no longer for a client that takes nothing of its replies, or not the last. */
#define FRONT_DRAIN_NS 10000000000u

static void front_drain_check(struct ex_front *f)
{
    void (*done)(void *ctx) = f->done;

    if (done == NULL || f->stats.conns != 0 || f->refusals_used != 0)
        return;
    f->done = NULL;
    done(f->done_ctx);
}

/* ---- Refusals ---- */

static void front_refusal_recv(void *ctx, struct snic_net_conn *net, struct snic_net_buf *buf)
{
    struct front_refusal *r = ctx;

    (void)net;
    snic_net_put(r->front->opts.net, buf);
}

static void front_refusal_eof(void *ctx, struct snic_net_conn *net)
{
    (void)ctx; /* it is being closed */
    (void)net;
}

static void front_refusal_closed(void *ctx, struct snic_net_conn *net, int reason)
{
    struct front_refusal *r = ctx;

    (void)net;
    (void)reason;
    r->net = NULL;
    r->front->refusals_used--;
    front_drain_check(r->front);
}

static void front_refusal_sent(struct snic_net_send_req *s)
{
    (void)s; /* closing has begun already */
}

/* There is no place for the connection: the reason in the protocol's words, then its end. */
static void front_refuse(struct ex_front *f, struct snic_net_conn *net)
{
    static const struct snic_net_stream_events events = {
        .recv = front_refusal_recv, .eof = front_refusal_eof, .closed = front_refusal_closed};
    const struct snic_director_user *u = &f->opts.user;
    struct front_refusal *r = f->refusals;

    f->stats.refused++;
    while (r != f->refusals + FRONT_REFUSALS && r->net != NULL)
        r++;
    if (r == f->refusals + FRONT_REFUSALS || f->draining) {
        snic_net_abort(net);
        return;
    }
    memset(r, 0, sizeof(*r));
    r->front = f;
    r->net = net;
    f->refusals_used++;
    snic_net_bind(net, &events, r);
    r->iov.base = r->text;
    r->iov.size = u->full(u->ctx, r->text, sizeof(r->text));
    r->send.iov = &r->iov;
    r->send.iov_count = 1;
    r->send.region = SNIC_NO_REGION;
    r->send.done = front_refusal_sent;
    if (snic_net_send(net, &r->send) == 1)
        snic_net_close(net);
    else
        snic_net_abort(net);
}

/* ---- Connections ---- */

static void front_closed(void *ctx, struct snic_net_conn *net, int reason)
{
    struct front_conn *c = ctx;
    struct ex_front *f = c->front;

    (void)net;
    (void)reason;
    front_free(c);
    if (f->opts.closed != NULL)
        f->opts.closed(f->opts.ctx, c->id);
    c->next_free = f->free_first;
    f->free_first = (uint32_t)(c - f->conns) + 1;
    f->stats.conns--;
    front_drain_check(f);
}

static void front_accept(void *ctx, struct snic_net_conn *net, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events events = {
        .recv = front_recv, .eof = front_half_closed, .closed = front_closed};
    struct ex_front *f = ctx;
    struct front_conn *c;
    struct front_slot *slots = NULL;

    if (f->free_first == 0 || f->draining) {
        front_refuse(f, net);
        return;
    }
    if (f->opts.in_order && (slots = calloc(f->opts.pending_max, sizeof(*slots))) == NULL) {
        f->stats.refused++;
        snic_net_abort(net);
        return;
    }
    c = &f->conns[f->free_first - 1];
    f->free_first = c->next_free;
    memset(c, 0, sizeof(*c));
    c->slots = slots;
    c->front = f;
    c->net = net;
    c->id = (++f->generation << 16) | (uint64_t)(c - f->conns);
    c->active_ns = snic_loop_now(f->loop);
    snic_link_init(&c->dirty);
    snic_link_init(&c->later);
    if (snic_net_addr_format(peer, c->peer, sizeof(c->peer)) < 0)
        c->peer[0] = 0;
    f->stats.conns++;
    snic_net_bind(net, &events, c);
}

/* Close a connection on which nothing moves and nothing is under way. */
static void front_idle(struct front_conn *c, uint64_t now)
{
    struct ex_front *f = c->front;
    uint64_t idle_ns = f->opts.server->timeout_s * 1000000000u;

    if (idle_ns == 0 || c->eof || c->is_put_off || c->next_seq != c->next_out || c->flight > 0 ||
        c->out.bytes > 0 || now - c->active_ns < idle_ns)
        return;
    f->stats.idle_closed++;
    c->eof = 1;
    front_mark(c);
}

static void front_drain_late(struct front_conn *c, uint64_t now)
{
    const struct ex_front *f = c->front;
    /* All of it is the kernel's, which waits for the client without end. */
    int closes = c->out.bytes == 0 && (c->closing || c->next_seq == c->next_out);

    if (!f->draining || (c->flight == 0 && !closes) ||
        now - snic_max_u64(c->begun_ns, f->drain_ns) < FRONT_DRAIN_NS)
        return;
    c->closing = 1;
    snic_net_abort(c->net);
}

/* Once a second: clients above a limit for too long, idle ones, a report. */
static void front_watch(struct snic_timer *t, uint64_t now_ns)
{
    struct ex_front *f = SNIC_CONTAINER(t, struct ex_front, watch);

    for (uint32_t i = 0; i < f->opts.server->conns_max; i++) {
        if (f->conns[i].net == NULL)
            continue;
        front_limit(&f->conns[i]);
        front_idle(&f->conns[i], now_ns);
        front_drain_late(&f->conns[i], now_ns);
    }
    ex_report_refused(&f->reported, f->stats.refused, f->opts.server->conns_max, now_ns);
    if (f->opts.second != NULL)
        f->opts.second(f->opts.ctx);
    front_out_trim(f->held, &f->held_most);
    snic_loop_arm(f->loop, t, now_ns + FRONT_WATCH_NS);
}

/* ---- Open, close ---- */

static int front_listen(struct ex_front *f, struct snic_net_addr *bound)
{
    struct snic_net_addr a;
    int r;

    ex_address("listen", f->opts.server->listen, &a);
    r = snic_net_listen(f->opts.net, &a, f->opts.listen_flags, front_accept, f, &f->listener);
    if (r != 0)
        return r;
    (void)snic_net_listen_addr(f->listener, bound);
    (void)snic_net_addr_format(bound, f->own, sizeof(f->own));
    return 0;
}

int ex_front_open(struct ex_front **out, const struct ex_front_opts *o, struct snic_net_addr *bound)
{
    struct ex_front *f = calloc(1, sizeof(*f));
    uint32_t conns = (uint32_t)o->server->conns_max;
    int r = SNIC_ENOMEM;

    SNIC_ASSERT(conns <= 65536);
    SNIC_ASSERT(snic_is_pow2(o->pending_max));
    if (f == NULL)
        return SNIC_ENOMEM;
    f->opts = *o;
    f->loop = o->net->loop;
    front_out_init();
    f->conns = calloc(conns, sizeof(*f->conns));
    snic_link_init(&f->dirty);
    snic_link_init(&f->later);
    snic_link_init(&f->put_off);
    f->flush.fn = front_flush;
    snic_timer_init(&f->turn_timer, front_turn);
    snic_timer_init(&f->watch, front_watch);
    if (f->conns == NULL || (r = front_listen(f, bound)) != 0) {
        free(f->conns);
        free(f);
        return r;
    }
    for (uint32_t i = conns; i > 0; i--) {
        f->conns[i - 1].next_free = f->free_first;
        f->free_first = i;
    }
    snic_loop_arm(f->loop, &f->watch, snic_loop_now(f->loop) + FRONT_WATCH_NS);
    *out = f;
    return 0;
}

void ex_front_set_limits(struct ex_front *f, const struct ex_front_limits *l)
{
    f->opts.limits = *l;
}

void ex_front_no_evict(struct ex_front *f, uint64_t client, int on)
{
    struct front_conn *c = front_find(f, client);

    if (c == NULL)
        return;
    c->no_evict = on;
    front_account(c);
}

int ex_front_get_facts(struct ex_front *f, uint64_t client, struct ex_front_facts *out)
{
    const struct front_conn *c = front_find(f, client);

    if (c == NULL)
        return 0;
    memcpy(out->peer, c->peer, sizeof(c->peer));
    memcpy(out->own, f->own, sizeof(f->own));
    out->query_bytes = c->in.size;
    out->query_memory = c->in.memory;
    out->out_bytes = c->slot_bytes;
    out->out_blocks = c->out.blocks;
    out->out_memory = c->out.memory + c->slot_bytes;
    return 1;
}

int ex_front_kill(struct ex_front *f, uint64_t client)
{
    struct front_conn *c = front_find(f, client);

    if (c == NULL)
        return 0;
    c->closing = 1;
    snic_net_abort(c->net);
    return 1;
}

void ex_front_drain(struct ex_front *f, void (*done)(void *ctx), void *ctx)
{
    f->draining = 1;
    f->drain_ns = snic_loop_now(f->loop);
    f->done = done;
    f->done_ctx = ctx;
    snic_net_unlisten(f->listener);
    for (uint32_t i = 0; i < FRONT_REFUSALS; i++)
        if (f->refusals[i].net != NULL)
            snic_net_abort(f->refusals[i].net);
    for (uint32_t i = 0; i < f->opts.server->conns_max; i++)
        if (f->conns[i].net != NULL)
            front_mark(&f->conns[i]);
    front_drain_check(f);
}

void ex_front_close(struct ex_front *f)
{
    snic_loop_cancel(f->loop, &f->watch);
    snic_loop_cancel(f->loop, &f->turn_timer);
    if (!f->draining)
        snic_net_unlisten(f->listener);
    free(f->conns);
    free(f);
}

void ex_front_get_stats(const struct ex_front *f, struct ex_front_stats *out)
{
    *out = f->stats;
}
