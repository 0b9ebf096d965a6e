/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 *   F1 A connection's id is its slot and a generation: a reply to one that is gone is dropped.
 *   F2 One send of a connection is under way; what is answered meanwhile gathers in `out` and
 *      leaves with the next one, once per iteration of the loop.
 *   F3 Input is `in`, the bytes of unfinished messages; while the connection is full it grows by
 *      what was on its way, then nothing more is received.
 */
#include "front.h"

#include "../common.h"

#include <stdlib.h>
#include <string.h>

#define FRONT_REPORT_NS 1000000000u /* between lines about clients */

struct front_bytes {
    unsigned char *data;
    size_t size;
    size_t room;
};

struct front_conn {
    struct front *front;
    struct snic_net_conn *net; /* NULL: gone, slot free */
    uint64_t id;
    struct front_bytes in;
    struct front_bytes out;
    struct front_bytes sending;
    struct snic_net_send_req send;
    struct snic_iov iov;
    uint64_t active_ns; /* last received or sent */
    uint32_t pending;   /* messages under way */
    int in_flight;
    int paused;
    int eof; /* nothing more is read, for good */
    struct snic_link dirty;
};

struct front {
    struct front_opts o;
    struct engine *engine;
    struct snic_net_listener *listener;
    struct front_conn *conns;
    uint64_t generation;
    uint32_t open;
    uint64_t refused;     /* beyond conns_max */
    uint64_t reported;    /* of them */
    uint64_t reported_ns; /* when */
    uint64_t idle_closed;
    struct snic_timer idle;
    struct snic_link dirty;
    struct snic_loop_msg flush;
    int flush_queued;
    int draining;
    void (*done)(void *ctx);
    void *ctx;
};

static void front_append(struct front_bytes *b, const void *data, size_t size)
{
    if (size == 0)
        return;
    if (b->size + size > b->room) {
        size_t room = snic_pow2_up(b->size + size + 4096);

        b->data = realloc(b->data, room);
        if (b->data == NULL)
            ex_die("out of memory for a reply");
        b->room = room;
    }
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void front_mark(struct front_conn *c)
{
    struct front *f = c->front;

    if (snic_link_alone(&c->dirty))
        snic_link_append(&f->dirty, &c->dirty);
    if (!f->flush_queued) {
        f->flush_queued = 1;
        snic_loop_defer(f->o.net->loop, &f->flush);
    }
}

static int front_full(const struct front_conn *c)
{
    return c->pending >= c->front->o.pending_max || c->out.size > c->front->o.conn_bytes;
}

/* ---- Input ---- */

static void front_refuse(struct front_conn *c)
{
    struct wire_reply r = {.status = WIRE_BAD};
    unsigned char header[WIRE_REPLY];

    front_append(&c->out, header, wire_reply_put(header, &r));
    c->eof = 1;
    front_mark(c);
}

/* Messages out of @p data. @return bytes used */
static size_t front_messages(struct front_conn *c, const unsigned char *data, size_t size)
{
    size_t at = 0;

    while (at < size && !c->eof && !front_full(c)) {
        int64_t n = wire_request_frame(data + at, size - at);

        if (n == 0)
            break;
        if (n < 0) {
            front_refuse(c);
            return size;
        }
        c->pending++;
        engine_message(c->front->engine, c->id, 0, data + at, (size_t)n);
        at += (size_t)n;
    }
    return at;
}

static void front_parse(struct front_conn *c)
{
    size_t used = c->in.size > 0 ? front_messages(c, c->in.data, c->in.size) : 0;

    if (used > 0)
        memmove(c->in.data, c->in.data + used, c->in.size - used);
    c->in.size -= used;
    if (c->paused != front_full(c)) {
        c->paused = !c->paused;
        snic_net_pause(c->net, c->paused);
    }
}

static void front_recv(void *ctx, struct snic_net_conn *net, struct snic_net_buf *b)
{
    struct front_conn *c = ctx;
    size_t used = 0;

    c->active_ns = snic_loop_now(c->front->o.net->loop);
    if (!c->eof && !c->front->draining) {
        if (c->in.size == 0)
            used = front_messages(c, b->data, b->size);
        front_append(&c->in, b->data + used, b->size - used); /* F3 */
        front_parse(c);
    }
    snic_net_put(net->net, b);
}

static void front_eof(void *ctx, struct snic_net_conn *net)
{
    struct front_conn *c = ctx;

    (void)net;
    c->eof = 1;
    front_mark(c);
}

/* ---- Output ---- */

static void front_sent(struct snic_net_send_req *q)
{
    struct front_conn *c = SNIC_CONTAINER(q, struct front_conn, send);

    c->in_flight = 0;
    c->sending.size = 0;
    c->active_ns = snic_loop_now(c->front->o.net->loop);
    if (q->result == 0)
        front_mark(c);
}

static void front_flush_conn(struct front_conn *c)
{
    struct front_bytes swap = c->sending;

    if (c->in_flight) /* F2 */
        return;
    if (c->in.size > 0 && !c->eof && !c->front->draining)
        front_parse(c);
    if (c->out.size == 0) {
        if ((c->eof || c->front->draining) && c->pending == 0)
            snic_net_close(c->net);
        return;
    }
    c->sending = c->out;
    c->out = swap;
    c->out.size = 0;
    c->iov.base = c->sending.data;
    c->iov.size = c->sending.size;
    memset(&c->send, 0, sizeof(c->send));
    c->send.iov = &c->iov;
    c->send.iov_count = 1;
    c->send.region = SNIC_NO_REGION;
    c->send.done = front_sent;
    c->in_flight = 1;
    if (snic_net_send(c->net, &c->send) != 1) {
        c->in_flight = 0; /* the connection is going: closed follows */
        c->sending.size = 0;
    }
}

static void front_flush(struct snic_loop_msg *m)
{
    struct front *f = SNIC_CONTAINER(m, struct front, flush);

    f->flush_queued = 0;
    while (!snic_link_alone(&f->dirty)) {
        struct front_conn *c = SNIC_CONTAINER(f->dirty.next, struct front_conn, dirty);

        snic_link_remove(&c->dirty);
        front_flush_conn(c);
    }
}

int front_reply(struct front *f, uint64_t conn, uint64_t seq, const struct snic_iov *iov,
                uint32_t count)
{
    struct front_conn *c = &f->conns[conn & 0xffff];

    (void)seq;
    if (c->net == NULL || c->id != conn) /* F1 */
        return 0;
    for (uint32_t i = 0; i < count; i++)
        front_append(&c->out, iov[i].base, iov[i].size);
    c->pending--;
    front_mark(c);
    return 0;
}

/* ---- Connections ---- */

static void front_closed(void *ctx, struct snic_net_conn *net, int reason)
{
    struct front_conn *c = ctx;
    struct front *f = c->front;

    (void)net;
    (void)reason;
    snic_link_remove(&c->dirty);
    free(c->in.data);
    free(c->out.data);
    free(c->sending.data);
    memset(c, 0, sizeof(*c));
    f->open--;
    if (f->draining && f->open == 0)
        f->done(f->ctx);
}

/* Counted, and reported at most once a second. */
static void front_refused_one(struct front *f)
{
    uint64_t now = snic_loop_now(f->o.net->loop);

    f->refused++;
    if (f->reported > 0 && now - f->reported_ns < FRONT_REPORT_NS)
        return;
    ex_log(EX_WARNING,
           "%llu clients were refused: all %u connections were in use; raise --connections, or "
           "close idle ones with --timeout",
           (unsigned long long)(f->refused - f->reported), f->o.conns_max);
    f->reported = f->refused;
    f->reported_ns = now;
}

uint64_t front_refused(const struct front *f)
{
    return f->refused;
}

static void front_accept(void *ctx, struct snic_net_conn *net, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events events = {
        .recv = front_recv, .eof = front_eof, .closed = front_closed};
    struct front *f = ctx;
    uint32_t i = 0;

    (void)peer;
    while (i < f->o.conns_max && f->conns[i].net != NULL)
        i++;
    if (i == f->o.conns_max) {
        front_refused_one(f);
        snic_net_abort(net);
        return;
    }
    f->conns[i].front = f;
    f->conns[i].net = net;
    f->conns[i].id = ++f->generation << 16 | i;
    f->conns[i].active_ns = snic_loop_now(f->o.net->loop);
    snic_link_init(&f->conns[i].dirty);
    f->open++;
    snic_net_bind(net, &events, &f->conns[i]);
}

uint64_t front_idle_closed(const struct front *f)
{
    return f->idle_closed;
}

/* Close the connections on which nothing has moved for idle_ns and nothing is under way. */
static void front_idle_fire(struct snic_timer *t, uint64_t now)
{
    struct front *f = SNIC_CONTAINER(t, struct front, idle);

    for (uint32_t i = 0; i < f->o.conns_max; i++) {
        struct front_conn *c = &f->conns[i];

        if (c->net == NULL || c->eof || c->pending > 0 || c->in_flight || c->out.size > 0 ||
            now - c->active_ns < f->o.idle_ns)
            continue;
        f->idle_closed++;
        c->eof = 1;
        front_mark(c);
    }
    snic_loop_arm(f->o.net->loop, t, now + f->o.idle_ns / 4);
}

int front_open(struct front **out, const struct front_opts *o, struct snic_net_addr *bound)
{
    struct front *f = calloc(1, sizeof(*f));
    int r;

    if (f == NULL || (f->conns = calloc(o->conns_max, sizeof(*f->conns))) == NULL)
        ex_die("out of memory for %u connections (--connections)", o->conns_max);
    f->o = *o;
    f->flush.fn = front_flush;
    snic_link_init(&f->dirty);
    snic_timer_init(&f->idle, front_idle_fire);
    r = snic_net_listen(o->net, &o->address, 0, front_accept, f, &f->listener);
    if (r != 0) {
        free(f->conns);
        free(f);
        return r;
    }
    (void)snic_net_listen_addr(f->listener, bound);
    if (o->idle_ns != 0)
        front_idle_fire(&f->idle, snic_loop_now(o->net->loop));
    *out = f;
    return 0;
}

void front_engine(struct front *f, struct engine *e)
{
    f->engine = e;
}

void front_drain(struct front *f, void (*done)(void *ctx), void *ctx)
{
    f->draining = 1;
    f->done = done;
    f->ctx = ctx;
    snic_net_unlisten(f->listener);
    snic_loop_cancel(f->o.net->loop, &f->idle);
    for (uint32_t i = 0; i < f->o.conns_max; i++)
        if (f->conns[i].net != NULL)
            front_mark(&f->conns[i]);
    if (f->open == 0)
        done(ctx);
}

void front_close(struct front *f)
{
    free(f->conns);
    free(f);
}
