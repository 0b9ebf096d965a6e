/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "wire.h"

#include "support.h"

#include <string.h>

static struct wire_side *wire_other(struct wire_side *s)
{
    return &s->w->side[s == &s->w->side[0]];
}

static void wire_pass(struct wire_side *s);

static void wire_sent(struct snic_net_send_req *r)
{
    struct wire_side *s = SNIC_CONTAINER(r, struct wire_side, req);
    struct wire_side *from = wire_other(s);
    s->sending = 0;
    if (!snic_queue_empty(&from->bufs))
        snic_net_put(s->w->wire->net,
                     SNIC_CONTAINER(snic_queue_pop(&from->bufs), struct snic_net_buf, node));
    wire_pass(s);
}

/* What the other side has received leaves through @p s. */
static void wire_pass(struct wire_side *s)
{
    struct wire_side *from = wire_other(s);
    if (s->net == NULL || s->sending || s->w->held)
        return;
    if (snic_queue_empty(&from->bufs)) {
        if (s->eof && !s->shut)
            snic_net_shutdown(s->net);
        s->shut |= s->eof;
        return;
    }
    struct snic_net_buf *b = SNIC_CONTAINER(from->bufs.first, struct snic_net_buf, node);
    memset(&s->req, 0, sizeof(s->req));
    s->iov.base = b->data;
    s->iov.size = b->size;
    s->req.iov = &s->iov;
    s->req.iov_count = 1;
    s->req.region = SNIC_NO_REGION;
    s->req.done = wire_sent;
    s->sending = snic_net_send(s->net, &s->req) == 1;
}

static void wire_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *buf)
{
    struct wire_side *s = ctx;
    struct wire *w = s->w->wire;
    (void)c;
    if (w->edit != NULL && s == &s->w->side[1])
        w->edit(w, (uint32_t)(s->w - w->conns), s->at, buf->data, buf->size);
    s->at += buf->size;
    snic_queue_push(&s->bufs, &buf->node);
    wire_pass(wire_other(s));
}

static void wire_eof(void *ctx, struct snic_net_conn *c)
{
    struct wire_side *s = ctx;
    (void)c;
    wire_other(s)->eof = 1;
    wire_pass(wire_other(s));
}

static void wire_writable(void *ctx, struct snic_net_conn *c)
{
    (void)c;
    wire_pass(ctx);
}

static void wire_put(struct wire_side *s)
{
    while (!snic_queue_empty(&s->bufs))
        snic_net_put(s->w->wire->net,
                     SNIC_CONTAINER(snic_queue_pop(&s->bufs), struct snic_net_buf, node));
}

static void wire_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct wire_side *s = ctx, *o = wire_other(s);
    (void)c;
    s->net = NULL;
    if (o->net == NULL) {
        wire_put(s);
        wire_put(o);
        s->w->used = 0;
    } else if (s == &s->w->side[0]) {
        o->eof = 1; /* what is under way arrives all the same */
        wire_pass(o);
    } else if (s->w->held) {
        o->eof = 1;
    } else if (reason == SNIC_ECONNRESET || reason == SNIC_ECONNREFUSED) {
        snic_net_abort(o->net);
    }
}

static void wire_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events events = {
        .recv = wire_recv, .eof = wire_eof, .writable = wire_writable, .closed = wire_closed};
    struct wire *w = ctx;
    (void)peer;
    for (uint32_t i = 0; i < WIRE_CONNS; i++) {
        struct wire_conn *k = &w->conns[i];
        if (k->used)
            continue;
        memset(k, 0, sizeof(*k));
        k->wire = w;
        k->side[0].w = k->side[1].w = k;
        if (snic_net_connect(w->net, &w->to, &events, &k->side[1], &k->side[1].net) != 0)
            break;
        k->used = 1;
        k->side[0].net = c;
        snic_net_bind(c, &events, &k->side[0]);
        return;
    }
    snic_net_abort(c);
}

void wire_open(struct wire *w, struct snic_world *world, struct snic_net_fabric *f, uint32_t node,
               uint16_t port, const struct snic_net_addr *to)
{
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = node, .port = port};
    memset(w, 0, sizeof(*w));
    w->to = *to;
    assert_int_equal(snic_world_loop(world, node, &w->loop), 0);
    assert_int_equal(snic_net_sim_open(&w->net, f, w->loop, NULL), 0);
    assert_int_equal(snic_net_listen(w->net, &a, 0, wire_accept, w, &w->listener), 0);
}

void wire_hold(struct wire *w, uint32_t conn, int held)
{
    struct wire_conn *k = &w->conns[conn];
    k->held = held;
    for (uint32_t i = 0; i < 2 && k->used && !held; i++)
        wire_pass(&k->side[i]);
}

void wire_close(struct wire *w)
{
    for (uint32_t i = 0; i < WIRE_CONNS; i++)
        for (uint32_t k = 0; k < 2 && w->conns[i].used; k++)
            wire_put(&w->conns[i].side[k]);
    snic_net_shut(w->net);
    snic_loop_close(w->loop);
}
