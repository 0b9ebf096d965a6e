/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Accepting clients: which ones the director serves (signatures), the initial state of a
 * connection, refusals, and the time-out of idle connections.
 */
#include "director/director_priv.h"

/* ---- Signatures ---- */

static int director_prefix_match(const unsigned char *a, const unsigned char *b, uint32_t bits)
{
    if (memcmp(a, b, bits / 8) != 0)
        return 0;
    if (bits % 8 == 0)
        return 1;
    return ((a[bits / 8] ^ b[bits / 8]) & (0xff00u >> (bits % 8)) & 0xff) == 0;
}

static int director_signature_match(const struct snic_director_signature *s,
                                    const struct snic_net_addr *peer)
{
    static const unsigned char zero[16];
    const struct snic_net_addr *a = &s->client;
    uint32_t bits = peer->family == SNIC_NET_IPV4 ? 32 : 128;
    if (a->family != 0 && a->family != peer->family)
        return 0;
    if (a->port != 0 && a->port != peer->port)
        return 0;
    if (peer->family == SNIC_NET_SIM)
        return a->node == 0 || a->node == peer->node;
    if (peer->family == SNIC_NET_UNIX)
        return a->path[0] == 0 || strncmp(a->path, peer->path, sizeof(a->path)) == 0;
    if (memcmp(a->ip, zero, sizeof(zero)) == 0)
        return 1;
    if (s->client_prefix != 0 && s->client_prefix < bits)
        bits = s->client_prefix;
    return director_prefix_match(a->ip, peer->ip, bits);
}

static int director_of_interest(const struct snic_director *d, const struct snic_net_addr *peer)
{
    if (d->opts.signatures_count == 0)
        return 1;
    for (uint32_t i = 0; i < d->opts.signatures_count; i++) {
        if (director_signature_match(&d->opts.signatures[i], peer))
            return 1;
    }
    return 0;
}

/* ---- Connections ---- */

/* A connection used before, else the next never used one, whose memory is first touched here. */
static struct snic_director_conn *director_conn_take(struct snic_director *d)
{
    struct snic_director_conn *c;
    if (!snic_link_alone(&d->idle)) {
        c = SNIC_CONTAINER(d->idle.next, struct snic_director_conn, link);
        snic_link_remove(&c->link);
        return c;
    }
    if (d->conns_made == d->opts.conns_max)
        return NULL;
    c = &d->conns[d->conns_made++];
    memset(c, 0, sizeof(*c));
    c->d = d;
    snic_link_init(&c->link);
    snic_link_init(&c->dirty);
    snic_link_init(&c->wait);
    snic_link_init(&c->slots);
    snic_loop_task_init(&c->task, director_turn, d->opts.quantum);
    return c;
}

static void director_conn_init(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    director_out_init(&c->client, c);
    director_out_init(&c->host, c);
    c->id = ++d->serial;
    c->user = c->frame_state = c->reply_state = 0;
    c->mem = c->job_bytes = c->flight = c->progress = c->mark = c->mark_ns = 0;
    c->part = NULL;
    c->part_size = c->part_cap = 0;
    c->part_kind = DIRECTOR_PART_BLOCK;
    c->decided = c->tried = 0;
    c->piece_of = NULL;
    c->current = NULL;
    memset(&c->started, 0, sizeof(c->started));
    memset(&c->hosted, 0, sizeof(c->hosted));
    c->carry = NULL;
    c->pending = c->offloading = c->job_contexts = c->barriers = c->switches = c->wait_for = 0;
    c->msg = NULL;
    c->window = (uint32_t)snic_min_u64(d->opts.pending_max, director_unread_window(d));
    c->reply = 0;
    c->raw = c->closing = c->dead = c->known = c->notify = c->ended = 0;
    c->evicted = c->kept = 0;
    c->admitted = c->woken = c->resumed = 0;
    c->heavy_until_ns = 0;
    c->active_ns = snic_loop_now(d->loop);
    c->used = 1;
    c->task.deficit = 0;
    snic_link_append(&d->all, &c->link);
}

/* ---- Refusals ---- */

static void director_refusal_recv(void *ctx, struct snic_net_conn *n, struct snic_net_buf *b)
{
    struct director_refusal *r = ctx;
    (void)n;
    snic_net_put(r->d->net, b);
}

static void director_refusal_eof(void *ctx, struct snic_net_conn *n)
{
    (void)ctx;
    (void)n;
}

static void director_refusal_closed(void *ctx, struct snic_net_conn *n, int reason)
{
    struct director_refusal *r = ctx;
    (void)n;
    (void)reason;
    r->net = NULL;
    r->d->refusals_used--;
    director_drain_check(r->d);
}

static void director_refusal_sent(struct snic_net_send_req *req)
{
    (void)req; /* closing has begun already */
}

void director_refusals_drop(struct snic_director *d)
{
    for (uint32_t i = 0; i < SNIC_DIRECTOR__REFUSALS; i++)
        if (d->refusals[i].net != NULL)
            snic_net_abort(d->refusals[i].net);
}

/* Refuse @n: send the program's text (user.full); without one, or a free refusal, reset it. */
static void director_refuse(struct snic_director *d, struct snic_net_conn *n)
{
    static const struct snic_net_stream_events events = {
        .recv = director_refusal_recv,
        .eof = director_refusal_eof,
        .closed = director_refusal_closed,
    };
    struct director_refusal *r = d->refusals;
    d->stats.refused++;
    while (r != d->refusals + SNIC_DIRECTOR__REFUSALS && r->net != NULL)
        r++;
    if (r == d->refusals + SNIC_DIRECTOR__REFUSALS || d->user.full == NULL || d->draining) {
        snic_net_abort(n);
        return;
    }
    r->d = d;
    r->net = n;
    d->refusals_used++;
    snic_net_bind(n, &events, r);
    r->iov.base = r->text;
    r->iov.size = d->user.full(d->user.ctx, r->text, sizeof(r->text));
    SNIC_ASSERT(r->iov.size <= sizeof(r->text));
    r->req.iov = &r->iov;
    r->req.iov_count = 1;
    r->req.flags = 0;
    r->req.region = SNIC_NO_REGION;
    r->req.done = director_refusal_sent;
    if (r->iov.size > 0 && snic_net_send(n, &r->req) == 1)
        snic_net_close(n);
    else
        snic_net_abort(n);
}

/* ---- Idle connections ---- */

void director_idle_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_director *d = SNIC_CONTAINER(t, struct snic_director, idle_timer);
    uint64_t idle_ns = (uint64_t)d->opts.idle_ms * 1000000;
    for (struct snic_link *l = d->all.next; l != &d->all;) {
        struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        l = l->next;
        if (c->dead || c->closing || c->pending > 0 || now_ns - c->active_ns < idle_ns ||
            !director_out_empty(&c->client) || (c->raw && !director_out_empty(&c->host)))
            continue;
        d->stats.idle_closed++;
        c->closing = 1;
        director_conn_check(c);
    }
    if (!snic_link_alone(&d->all)) /* else the next client arms it */
        snic_loop_arm(d->loop, t, now_ns + snic_max_u64(idle_ns / 4, 1000000));
}

void director_accept(void *ctx, struct snic_net_conn *n, const struct snic_net_addr *peer)
{
    struct snic_director *d = ctx;
    int wanted = director_of_interest(d, peer);
    int raw = d->host_net && (!wanted || (d->channel == NULL && d->user.frame_reply == NULL));
    struct snic_director_conn *c = d->draining || (!wanted && !raw) ? NULL : director_conn_take(d);
    if (c == NULL) {
        director_refuse(d, n);
        return;
    }
    director_conn_init(c);
    c->raw = (uint8_t)raw;
    d->stats.accepted++;
    d->stats.conns++;
    director_conn_bind(c, n);
    if (d->opts.idle_ms != 0 && !d->idle_timer.armed)
        director_idle_fire(&d->idle_timer, snic_loop_now(d->loop));
    if (raw) {
        d->stats.passed_through++;
        if (!director_net_connect(c))
            director_conn_abort(c);
    }
}
