/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A connection that carries messages.
 *
 * T1  out[0, sending) is the network's, out[0, released) may leave, out[released, written) is held
 *     back by marks, whose ends rise and whose positions rise; the last mark's end is written, if
 *     there is a mark.
 * T2  gone() is called once for each connection that was accepted, or that connect() has begun;
 *     nothing is delivered after closing began.
 * T3  In one iteration of the loop SNIC_CONTROL__BURST messages are taken of a connection: a peer
 *     that sends many at once waits, not the others. Bytes not taken yet are in `in` and in `bufs`;
 *     while they may have a whole message, the timer is armed.
 */
#include "control/control_priv.h"

static void control_stream_deliver(struct snic_timer *t, uint64_t now_ns);

void control_stream_init(struct control_stream *s, struct snic_net *net,
                         const struct control_stream_events *e, void *owner, unsigned char *in,
                         uint32_t in_size, unsigned char *out, uint32_t out_size)
{
    SNIC_ASSERT(in_size >= SNIC_CONTROL_SMALL);
    SNIC_ASSERT(out_size >= SNIC_CONTROL_SMALL);
    memset(s, 0, sizeof(*s));
    s->net = net;
    s->e = e;
    s->owner = owner;
    s->in = in;
    s->in_size = in_size;
    s->out = out;
    s->out_size = out_size;
    snic_timer_init(&s->deliver, control_stream_deliver);
}

/* ---- Out ---- */

/* T1 */
static void control_stream_assert(const struct control_stream *s)
{
    SNIC_ASSERT(s->sending <= s->released);
    SNIC_ASSERT(s->released <= s->written);
    SNIC_ASSERT(s->written <= s->out_size);
    SNIC_ASSERT(s->marks <= SNIC_CONTROL__MARKS);
    if (s->marks > 0)
        SNIC_ASSERT(s->mark[s->marks - 1].end == s->written);
    if (s->marks == 0)
        SNIC_ASSERT(s->released == s->written);
}

static void control_stream_flush(struct control_stream *s);

/* Free the space of the bytes that were sent. */
static void control_stream_shift(struct control_stream *s)
{
    uint32_t n = s->sending;
    memmove(s->out, s->out + n, s->written - n);
    s->sending = 0;
    s->released -= n;
    s->written -= n;
    for (uint32_t i = 0; i < s->marks; i++)
        s->mark[i].end -= n;
    control_stream_assert(s);
}

/* An orderly end waits until everything has left. */
static void control_stream_end(struct control_stream *s)
{
    if (s->ending && s->conn != NULL && s->written == 0) {
        s->ending = 0;
        snic_net_close(s->conn);
    }
}

static void control_stream_sent(struct snic_net_send_req *r)
{
    struct control_stream *s = SNIC_CONTAINER(r, struct control_stream, req);
    SNIC_ASSERT(s->sending > 0);
    control_stream_shift(s);
    control_stream_flush(s);
    control_stream_end(s);
}

static void control_stream_flush(struct control_stream *s)
{
    if (s->conn == NULL || s->sending != 0 || s->released == 0)
        return;
    memset(&s->req, 0, sizeof(s->req));
    s->req.done = control_stream_sent;
    s->req.region = SNIC_NO_REGION;
    s->iov.base = s->out;
    s->iov.size = s->released;
    s->req.iov = &s->iov;
    s->req.iov_count = 1;
    s->sending = s->released;
    if (snic_net_send(s->conn, &s->req) != 1)
        s->sending = 0; /* writable() or closed() follows */
}

void control_stream_durable(struct control_stream *s, uint64_t position)
{
    uint32_t n = 0;
    SNIC_ASSERT(position >= s->durable);
    s->durable = position;
    while (n < s->marks && s->mark[n].position <= position)
        s->released = s->mark[n++].end;
    if (n == 0)
        return;
    s->marks -= n;
    memmove(s->mark, s->mark + n, s->marks * sizeof(s->mark[0]));
    control_stream_assert(s);
    control_stream_flush(s);
}

static int control_stream_append(struct control_stream *s, const struct snic_control_msg *m,
                                 uint64_t position, int sealed)
{
    if (s->conn == NULL || s->closing)
        return SNIC_EPIPE;
    int n = snic_control_put(s->out + s->written, s->out_size - s->written, m);
    if (n > 0 && sealed && s->out_size - s->written - (uint32_t)n < SNIC_CONTROL__SEAL)
        n = SNIC_ENOSPC;
    if (n > 0 && sealed && control_auth_seal(&s->auth, s->out + s->written, (uint32_t)n) != 0) {
        control_stream_abort(s); /* the cipher failed */
        return SNIC_EPIPE;
    }
    if (n > 0 && sealed)
        n += (int)SNIC_CONTROL__SEAL;
    if (n < 0) {
        SNIC_ASSERT(n == SNIC_ENOSPC); /* we make valid messages */
        control_stream_abort(s);
        return n;
    }
    s->written += (uint32_t)n;
    if (position <= s->durable && s->marks == 0) {
        s->released = s->written;
        control_stream_flush(s);
        return 0;
    }
    struct control_mark *last = s->marks > 0 ? &s->mark[s->marks - 1] : NULL;
    if (last == NULL || (last->position < position && s->marks < SNIC_CONTROL__MARKS)) {
        last = &s->mark[s->marks++];
        last->position = 0;
    }
    last->position = snic_max_u64(last->position, position);
    last->end = s->written;
    control_stream_assert(s);
    return 0;
}

int control_stream_send(struct control_stream *s, const struct snic_control_msg *m,
                        uint64_t position)
{
    return control_stream_append(s, m, position, s->auth.state == CONTROL_AUTH_DONE);
}

/* ---- In ---- */

static void control_stream_refuse(struct control_stream *s, int error)
{
    struct snic_control_msg m;
    int reported = error == SNIC_EVERSION ||
                   (!s->auth.connector && (error == SNIC_EACCES || error == SNIC_ENOTSUP));
    s->bad = 1;
    if (reported || error == SNIC_EACCES)
        s->why = error;
    if (!reported || s->auth.state == CONTROL_AUTH_DONE) {
        control_stream_abort(s);
        return;
    }
    control_msg(&m, SNIC_CONTROL_DONE, 0);
    m.status = error;
    if (control_stream_send(s, &m, 0) == 0)
        control_stream_close(s);
}

/* A message before authentication is complete. 0: handled; SNIC_E*: the connection ends. */
static int control_stream_first(struct control_stream *s, const struct snic_control_msg *m)
{
    struct snic_control_msg reply;
    uint8_t connector = s->auth.connector;
    if (m->type == SNIC_CONTROL_DONE && m->tag == 0 && m->status < 0 && connector) {
        s->why = m->status;
        return SNIC_EPROTO;
    }
    if (s->auth.opts == NULL) /* the peer has keys, and this end has none */
        return SNIC_ENOTSUP;
    int r = control_auth_take(&s->auth, m, &reply);
    if (r == 0 && reply.type != 0)
        r = control_stream_append(s, &reply, 0, 0); /* the handshake is not sealed */
    if (r == 0 && connector && s->auth.state == CONTROL_AUTH_DONE && s->e->up != NULL)
        s->e->up(s->owner);
    return r;
}

/* The next message from @p in. @return its bytes; 0 more are needed; SNIC_E* */
static int control_stream_next(struct control_stream *s, struct snic_control_msg *m,
                               const unsigned char *in, uint32_t size)
{
    uint32_t seal = s->auth.state == CONTROL_AUTH_DONE ? SNIC_CONTROL__SEAL : 0;
    int n = snic_control_get(m, in, size, s->in_size - seal);
    if (n <= 0 || seal == 0)
        return n;
    if (size - (uint32_t)n < seal)
        return 0;
    return control_auth_open(&s->auth, in, (uint32_t)n) == 0 ? n + (int)seal : SNIC_ECORRUPT;
}

static void control_stream_take(struct control_stream *s)
{
    struct snic_control_msg m;
    uint32_t at = 0;
    while (!s->closing && s->budget > 0) {
        int n = control_stream_next(s, &m, s->in + at, s->in_used - at);
        if (n == 0)
            break;
        at += n > 0 ? (uint32_t)n : 0;
        s->budget -= n > 0;
        if (n > 0 && !s->unauthenticated &&
            (s->auth.state == CONTROL_AUTH_WAITS || m.type == SNIC_CONTROL_AUTH))
            n = control_stream_first(s, &m);
        else if (n > 0)
            s->e->msg(s->owner, &m);
        if (n < 0) {
            control_stream_refuse(s, n);
            break;
        }
    }
    SNIC_ASSERT(at <= s->in_used);
    s->in_used -= at;
    memmove(s->in, s->in + at, s->in_used);
}

/* Drop received buffers. */
static void control_stream_drop(struct control_stream *s)
{
    struct snic_node *n;
    snic_loop_cancel(s->net->loop, &s->deliver);
    while ((n = snic_queue_pop(&s->bufs)) != NULL)
        snic_net_put(s->net, SNIC_CONTAINER(n, struct snic_net_buf, node));
}

static void control_stream_deliver(struct snic_timer *t, uint64_t now_ns)
{
    struct control_stream *s = SNIC_CONTAINER(t, struct control_stream, deliver);
    struct snic_node *n;
    s->budget = SNIC_CONTROL__BURST;
    control_stream_take(s);
    while (s->budget > 0 && !s->closing && (n = s->bufs.first) != NULL) {
        struct snic_net_buf *b = SNIC_CONTAINER(n, struct snic_net_buf, node);
        uint32_t most = (uint32_t)snic_min_u64(b->size, s->in_size - s->in_used);
        SNIC_ASSERT(s->in_used <
                    s->in_size); /* a full `in` has a whole message, or its peer was refused */
        memcpy(s->in + s->in_used, b->data, most);
        s->in_used += most;
        b->data += most;
        b->size -= most;
        if (b->size == 0) {
            (void)snic_queue_pop(&s->bufs);
            snic_net_put(s->net, b);
        }
        control_stream_take(s);
    }
    if (s->closing)
        control_stream_drop(s);
    else if (s->budget == 0)
        snic_loop_arm(s->net->loop, t, now_ns);
    else if (s->ended)
        control_stream_close(s);
}

static void control_stream_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct control_stream *s = ctx;
    (void)c;
    if (s->closing) {
        snic_net_put(s->net, b);
        return;
    }
    snic_queue_push(&s->bufs, &b->node);
    if (!s->deliver.armed)
        control_stream_deliver(&s->deliver, snic_loop_now(s->net->loop));
}

static void control_stream_eof(void *ctx, struct snic_net_conn *c)
{
    struct control_stream *s = ctx;
    (void)c;
    s->ended = 1;
    if (!s->deliver.armed)
        control_stream_close(s);
}

static void control_stream_writable(void *ctx, struct snic_net_conn *c)
{
    (void)c;
    control_stream_flush(ctx);
}

static void control_stream_connected(void *ctx, struct snic_net_conn *c, int error)
{
    struct control_stream *s = ctx;
    struct snic_control_msg hello;
    (void)c;
    if (error != 0 || s->closing)
        return;
    if (s->auth.state == CONTROL_AUTH_NONE) {
        if (s->e->up != NULL)
            s->e->up(s->owner);
    } else if (control_auth_hello(&s->auth, &hello) != 0 ||
               control_stream_append(s, &hello, 0, 0) != 0) {
        control_stream_abort(s);
    }
}

static void control_stream_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct control_stream *s = ctx;
    SNIC_ASSERT(s->conn == c); /* T2 */
    s->conn = NULL;
    s->closing = 1;
    control_stream_drop(s);
    s->e->gone(s->owner, s->why != 0 ? s->why : reason);
}

static const struct snic_net_stream_events control_stream_ev = {
    .connected = control_stream_connected,
    .recv = control_stream_recv,
    .eof = control_stream_eof,
    .writable = control_stream_writable,
    .closed = control_stream_closed,
};

static void control_stream_begin(struct control_stream *s)
{
    s->in_used = 0;
    s->written = s->released = s->sending = 0;
    s->marks = 0;
    s->closing = 0;
    s->ending = 0;
    s->ended = 0;
    s->bad = 0;
    s->why = 0;
}

void control_stream_accept(struct control_stream *s, struct snic_net_conn *c)
{
    SNIC_ASSERT(s->conn == NULL);
    control_stream_begin(s);
    control_auth_begin(&s->auth, 0);
    s->conn = c;
    snic_net_bind(c, &control_stream_ev, s);
}

int control_stream_connect(struct control_stream *s, const struct snic_net_addr *a)
{
    SNIC_ASSERT(s->conn == NULL);
    control_stream_begin(s);
    control_auth_begin(&s->auth, 1);
    int r = snic_net_connect(s->net, a, &control_stream_ev, s, &s->conn);
    if (r != 0) {
        s->conn = NULL;
        s->closing = 1;
    }
    return r;
}

void control_stream_close(struct control_stream *s)
{
    if (s->conn == NULL || s->closing)
        return;
    s->closing = 1;
    s->ending = 1;
    control_stream_drop(s);
    control_stream_end(s);
}

void control_stream_abort(struct control_stream *s)
{
    if (s->conn == NULL)
        return;
    s->closing = 1;
    s->ending = 0;
    control_stream_drop(s);
    snic_net_abort(s->conn);
}

void control_stream_recheck(struct control_stream *s)
{
    if (s->conn != NULL && !control_auth_recheck(&s->auth))
        control_stream_abort(s);
}
