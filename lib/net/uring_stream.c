/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Streams on io_uring: receiving, sending, and the ways a connection ends. Invariants are in
 * uring.c. Everything that a connection needs done is found out by net_uring_pump(), which
 * is only called from the loop (I1): code that changes a connection calls it or net_uring_work().
 */
#include "net/uring_priv.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#ifndef IORING_CQE_F_NOTIF
#define IORING_CQE_F_NOTIF (1U << 3)
#endif
#ifndef IORING_SEND_ZC_REPORT_USAGE
#define IORING_SEND_ZC_REPORT_USAGE (1U << 3)
#endif
#ifndef IORING_NOTIF_USAGE_ZC_COPIED
#define IORING_NOTIF_USAGE_ZC_COPIED (1U << 31)
#endif

static void net_uring_pump_received(struct net_uring_conn *c);

static struct net_uring *net_uring_of(const struct net_uring_conn *c)
{
    return (struct net_uring *)c->c.net;
}

static struct net_uring_zc *net_uring_zc_of(struct snic_net_send_req *s)
{
    return (struct net_uring_zc *)(void *)s->backend;
}

/* ---- The end ---- */

/* What queued sends complete with when the connection ends for @reason. */
static int32_t net_uring_send_result(int reason)
{
    return reason == SNIC_ECONNRESET || reason == SNIC_ETIMEDOUT ? reason : SNIC_ECANCELED;
}

static void net_uring_held_drop(struct net_uring_conn *c)
{
    struct snic_queue held = c->held;
    memset(&c->held, 0, sizeof(c->held));
    c->held_count = 0;
    for (struct snic_node *n = snic_queue_pop(&held); n != NULL; n = snic_queue_pop(&held))
        net_uring_buf_back((struct net_uring_buf *)SNIC_CONTAINER(n, struct snic_net_buf, node));
}

/* The connection is over for @reason. The kernel lets go first, then dones and closed follow. */
void net_uring_finish(struct net_uring_conn *c, int reason)
{
    struct net_uring *n = net_uring_of(c);
    if (c->state == NET_URING_DYING)
        return;
    c->report = c->state == NET_URING_CONNECTING && reason != SNIC_ECONNABORTED;
    c->state = NET_URING_DYING;
    c->reason = reason;
    if (reason != 0)
        n->n.stats.errors++;
    snic_loop_cancel(n->n.loop, &c->timer);
    snic_link_remove(&c->wait);
    net_uring_held_drop(c);
    net_uring_work(c);
}

/* Cancel all operations; 0 when a submission entry was missing. */
static int net_uring_cancel(struct net_uring_conn *c)
{
    struct snic_loop *l = c->c.net->loop;
    int e = 0;
    if (c->recv_busy)
        e |= loop_uring_cancel(l, &c->recv_op);
    if (c->send_busy)
        e |= loop_uring_cancel(l, c->send_now);
    if (c->watch_busy)
        e |= loop_uring_cancel(l, &c->watch_op);
    if (c->connect_busy)
        e |= loop_uring_cancel(l, &c->connect_op);
    return e == 0;
}

static void net_uring_done(struct net_uring_conn *c, struct snic_net_send_req *s)
{
    c->send_count--;
    s->done(s);
}

/* Report what is wholly sent and released, in order. */
static void net_uring_sent(struct net_uring_conn *c)
{
    while (!snic_queue_empty(&c->sent)) {
        struct snic_net_send_req *s = SNIC_CONTAINER(c->sent.first, struct snic_net_send_req, node);
        if (net_uring_zc_of(s)->notifs > 0)
            break;
        (void)snic_queue_pop(&c->sent);
        net_uring_done(c, s);
    }
}

/* One step of closing a connection, from the work list; the last one frees it. */
void net_uring_die(struct net_uring_conn *c)
{
    if (c->recv_busy || c->send_busy || c->watch_busy || c->connect_busy) {
        if (!c->cancels)
            c->cancels = (uint8_t)net_uring_cancel(c);
        if (!c->cancels)
            net_uring_work(c);
        return;
    }
    if (c->fd >= 0) {
        if (c->reason == SNIC_ECONNABORTED)
            net_uring_sock_reset(c->fd);
        else
            (void)close(c->fd);
        c->fd = -1;
    }
    if (c->zc_notifs > 0) /* I2: they come once the socket's queue is dropped */
        return;
    if (c->report) {
        c->report = 0;
        if (c->ev.connected != NULL)
            c->ev.connected(c->c.ctx, &c->c, c->reason);
    }
    net_uring_sent(c);
    struct snic_node *node = snic_queue_pop(&c->sends);
    for (; node != NULL; node = snic_queue_pop(&c->sends)) {
        struct snic_net_send_req *s = SNIC_CONTAINER(node, struct snic_net_send_req, node);
        s->result = net_uring_send_result(c->reason);
        net_uring_done(c, s);
    }
    c->c.net->stats.closed++;
    if (c->bound)
        c->ev.closed(c->c.ctx, &c->c, c->reason);
    net_uring_conn_give(c);
}

/* Both directions have ended in order? */
static void net_uring_check_end(struct net_uring_conn *c)
{
    if (c->state != NET_URING_OPEN || !c->shut_sent || c->send_count > 0)
        return;
    if (c->closing ? c->drained : c->eof == NET_URING_EOF_REPORTED)
        net_uring_finish(c, 0);
}

/*
 * After a close: the socket lives on until the peer has closed, too, or has acknowledged
 * everything. Closing it earlier could answer late bytes with a reset that destroys what the
 * peer has not received yet. Without a connection's timer meaning that: sends are retried.
 */
static void net_uring_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct net_uring_conn *c = SNIC_CONTAINER(t, struct net_uring_conn, timer);
    struct net_uring *n = net_uring_of(c);
    c->send_wait = 0;
    if (c->closing && c->shut_sent && !c->drained) {
        if (c->c.peer.family == SNIC_NET_UNIX || net_uring_sock_unsent(c->fd) == 0)
            c->drained = 1;
        else
            snic_loop_arm(n->n.loop, t,
                          now_ns +
                              (SNIC_NET__URING_LINGER_NS << snic_min_u64(c->linger_turns++, 7)));
    }
    net_uring_pump(c);
}

/* ---- Receiving ---- */

static void net_uring_deliver(struct net_uring_conn *c, struct net_uring_buf *b)
{
    struct net_uring *n = net_uring_of(c);
    c->lent++;
    SNIC_ASSERT(c->lent <= n->opts.recv_buffers); /* I3 */
    n->n.stats.recv_events++;
    n->n.stats.recv_bytes += b->b.size;
    c->ev.recv(c->c.ctx, &c->c, &b->b);
}

/* Keep @b back. The kernel outran us: one receive at a time from now on. */
static void net_uring_hold(struct net_uring_conn *c, struct net_uring_buf *b)
{
    snic_queue_push(&c->held, &b->b.node);
    c->held_count++;
    if (!c->paused && c->recv_multi)
        c->bulk = 1;
}

static int net_uring_may_deliver(const struct net_uring_conn *c)
{
    return c->state == NET_URING_OPEN && !c->paused && !c->closing &&
           c->lent < net_uring_of(c)->opts.recv_buffers;
}

static void net_uring_received(struct net_uring_conn *c, struct net_uring_buf *b, uint32_t size)
{
    b->b.size = size;
    b->b.conn = &c->c;
    b->owner = c;
    b->owner_gen = c->gen;
    if (c->state != NET_URING_OPEN || c->closing)
        net_uring_buf_back(b);
    else if (c->held_count == 0 && net_uring_may_deliver(c))
        net_uring_deliver(c, b);
    else
        net_uring_hold(c, b);
}

/* Receiving is over: @res is 0 or -errno. */
static void net_uring_recv_ended(struct net_uring_conn *c, int32_t res)
{
    struct net_uring *n = net_uring_of(c);
    switch (-res) {
    case 0:
        c->eof = NET_URING_EOF_HELD;
        c->drained = 1;
        break;
    case ENOBUFS:
        if (n->pool_out < n->opts.pool_buffers) {
            net_uring_buf_more(n);
        } else { /* I5 */
            n->n.stats.pauses++;
            if (snic_link_alone(&c->wait))
                snic_link_append(&n->waiters, &c->wait);
        }
        break;
    case ECANCELED:
    case EINTR:
    case EAGAIN:
        break;
    default:
        if (c->state == NET_URING_OPEN) {
            int e = net_uring_error(res);
            net_uring_finish(c, e == SNIC_ETIMEDOUT || e == SNIC_EHOSTUNREACH ? SNIC_ETIMEDOUT
                                                                              : SNIC_ECONNRESET);
        }
        break;
    }
}

static void net_uring_recv_done(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct net_uring_conn *c = SNIC_CONTAINER(op, struct net_uring_conn, recv_op);
    struct net_uring *n = net_uring_of(c);
    if ((flags & IORING_CQE_F_MORE) == 0) {
        c->recv_busy = 0;
        c->recv_cancel = 0;
    }
    struct net_uring_buf *b =
        (flags & IORING_CQE_F_BUFFER) != 0 ? net_uring_buf_take(n, flags) : NULL;
    if (res > 0) {
        SNIC_ASSERT(b != NULL && (uint32_t)res <= n->opts.recv_size);
        if ((uint32_t)res < n->opts.recv_size)
            c->bulk = 0;
        net_uring_received(c, b, (uint32_t)res);
    } else {
        if (b != NULL)
            net_uring_buf_back(b);
        net_uring_recv_ended(c, res);
    }
    net_uring_pump_received(c);
}

/* Without buffer ring: the socket is readable, so a buffer is taken now and not earlier. */
static void net_uring_readable(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct net_uring_conn *c = SNIC_CONTAINER(op, struct net_uring_conn, recv_op);
    struct net_uring *n = net_uring_of(c);
    (void)flags;
    c->recv_busy = 0;
    c->recv_cancel = 0;
    if (res > 0 && c->state == NET_URING_OPEN) {
        struct net_uring_buf *b = net_uring_buf_take(n, 0);
        ssize_t got = b == NULL ? 0 : recv(c->fd, b->b.data, n->opts.recv_size, MSG_DONTWAIT);
        int e = b == NULL ? ENOBUFS : got < 0 ? errno : 0;
        if (got > 0) {
            net_uring_received(c, b, (uint32_t)got);
        } else {
            if (b != NULL)
                net_uring_buf_back(b);
            net_uring_recv_ended(c, -e);
        }
    } else if (res < 0) {
        net_uring_recv_ended(c, res);
    }
    net_uring_pump(c);
}

static void net_uring_watched(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct net_uring_conn *c = SNIC_CONTAINER(op, struct net_uring_conn, watch_op);
    (void)flags;
    c->watch_busy = 0;
    c->watch_over = 1;
    if (res > 0 && c->state == NET_URING_OPEN) {
        int e = net_uring_sock_error(c->fd);
        if (e != 0)
            net_uring_recv_ended(c, -e);
    }
    net_uring_pump(c);
}

/* While nothing is received, only an error or a reset is of interest: it must not be missed. */
static void net_uring_watch(struct net_uring_conn *c)
{
    if (c->watch_busy || c->watch_over)
        return;
    struct io_uring_sqe *sqe = loop_uring_sqe(c->c.net->loop, &c->watch_op);
    if (sqe == NULL) {
        net_uring_work(c);
        return;
    }
    io_uring_prep_poll_add(sqe, c->fd, POLLERR | POLLHUP);
    c->watch_busy = 1;
}

static void net_uring_recv_start(struct net_uring_conn *c)
{
    struct net_uring *n = net_uring_of(c);
    struct io_uring_sqe *sqe = loop_uring_sqe(n->n.loop, &c->recv_op);
    if (sqe == NULL) {
        net_uring_work(c);
        return;
    }
    c->recv_busy = 1;
    c->recv_multi = 0;
    if (n->ring == NULL) {
        c->recv_op.complete = net_uring_readable;
        io_uring_prep_poll_add(sqe, c->fd, POLLIN | POLLRDHUP);
        return;
    }
    c->recv_op.complete = net_uring_recv_done;
    /* Never multishot on a UNIX socket: when the peer closes while bytes are queued, Linux 6.17 and
     * newer wait after the last of them for a wake-up that was before, and the end is not seen
     * (liburing issue 1549). */
    if ((n->features & SNIC_LOOP_HAVE_MULTISHOT_RECV) != 0 && !c->bulk &&
        c->c.peer.family != SNIC_NET_UNIX) {
        io_uring_prep_recv_multishot(sqe, c->fd, NULL, 0, 0);
        c->recv_multi = 1;
    } else {
        io_uring_prep_recv(sqe, c->fd, NULL, n->opts.recv_size, 0);
    }
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = (uint16_t)n->group;
}

/* Start or stop receiving, as the connection's state and bound want it. */
static void net_uring_recv_adjust(struct net_uring_conn *c)
{
    struct net_uring *n = net_uring_of(c);
    int room = !c->paused && c->lent + c->held_count < n->opts.recv_buffers;
    int want = c->eof == NET_URING_EOF_NONE && (c->closing || room);
    if (want && !c->recv_busy && snic_link_alone(&c->wait)) {
        net_uring_recv_start(c);
    } else if (!want && c->recv_busy && c->recv_multi && !c->recv_cancel) {
        n->n.stats.pauses++;
        c->recv_cancel = loop_uring_cancel(n->n.loop, &c->recv_op) == 0;
        if (!c->recv_cancel)
            net_uring_work(c);
    } else if (!want && !c->recv_busy) {
        net_uring_watch(c);
    }
}

/* Hand over what was held back, then the end. */
static void net_uring_recv_held(struct net_uring_conn *c)
{
    while (c->held_count > 0 && net_uring_may_deliver(c)) {
        struct snic_net_buf *b =
            SNIC_CONTAINER(snic_queue_pop(&c->held), struct snic_net_buf, node);
        c->held_count--;
        net_uring_deliver(c, (struct net_uring_buf *)b);
    }
    if (c->eof == NET_URING_EOF_HELD && c->held_count == 0 && c->state == NET_URING_OPEN &&
        !c->paused && !c->closing) {
        c->eof = NET_URING_EOF_REPORTED;
        if (c->ev.eof != NULL)
            c->ev.eof(c->c.ctx, &c->c);
    }
}

void net_uring_put(struct snic_net_buf *base)
{
    struct net_uring_buf *b = (struct net_uring_buf *)base;
    struct net_uring_conn *c = b->owner;
    SNIC_ASSERT(c != NULL); /* put twice */
    if (c->gen == b->owner_gen) {
        c->lent--;
        if (c->state == NET_URING_OPEN && (c->held_count > 0 || !c->recv_busy))
            net_uring_work(c);
    }
    net_uring_buf_back(b);
}

void net_uring_pause(struct snic_net_conn *base, int paused)
{
    struct net_uring_conn *c = (struct net_uring_conn *)base;
    if (c->state == NET_URING_DYING || c->paused == (paused != 0))
        return;
    c->paused = paused != 0;
    net_uring_work(c);
}

/* ---- Sending ---- */

/* @bytes more of the queue have left; whole requests go to sent. */
static void net_uring_advance(struct net_uring_conn *c, size_t bytes)
{
    c->c.net->stats.sent_bytes += bytes;
    while (!snic_queue_empty(&c->sends)) {
        struct snic_net_send_req *s =
            SNIC_CONTAINER(c->sends.first, struct snic_net_send_req, node);
        size_t left = s->iov[c->iov_at].size - c->iov_off;
        if (bytes < left) {
            c->iov_off += bytes;
            return;
        }
        bytes -= left; /* empty pieces, too, are over when their turn comes */
        c->iov_off = 0;
        if (++c->iov_at < s->iov_count)
            continue;
        c->iov_at = 0;
        s->result = 0;
        snic_queue_push(&c->sent, snic_queue_pop(&c->sends));
        if (bytes == 0)
            return;
    }
    SNIC_ASSERT(bytes == 0);
}

static void net_uring_send_result_in(struct net_uring_conn *c, int32_t res)
{
    c->send_busy = 0;
    if (res > 0) {
        net_uring_advance(c, (size_t)res);
        return;
    }
    switch (-res) {
    case 0:
    case EINTR:
    case EAGAIN:
    case ECANCELED:
        return;
    case EINVAL:
    case EOPNOTSUPP:
        if (c->send_now != &c->send_op && c->send_now != &c->send_quiet.op) {
            struct net_uring *n = net_uring_of(c); /* no reports before 6.2, or no zero copy here */
            c->no_zc = !n->zc_report;
            n->zc_report = 0;
            return;
        }
        break;
    case ENOMEM:
    case ENOBUFS: /* I5 */
        if (c->state != NET_URING_OPEN)
            return;
        c->send_wait = 1;
        snic_loop_arm(c->c.net->loop, &c->timer,
                      snic_loop_now(c->c.net->loop) + SNIC_NET__URING_SEND_RETRY_NS);
        return;
    default:
        break;
    }
    if (c->state == NET_URING_OPEN)
        net_uring_recv_ended(c, res);
}

static void net_uring_send_done(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct net_uring_conn *c = SNIC_CONTAINER(op, struct net_uring_conn, send_op);
    (void)flags;
    net_uring_send_result_in(c, res);
    if (res > 0 && snic_queue_empty(&c->sends))
        c->send_full = 0;
    net_uring_pump(c);
}

/* Of a send that does not wait: all of it has left, or what there was room for. */
static void net_uring_quiet_done(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct net_uring_conn *c = SNIC_CONTAINER(SNIC_CONTAINER(op, struct loop_uring_quiet, op),
                                              struct net_uring_conn, send_quiet);
    (void)flags;
    c->send_full = res != c->send_quiet.result;
    net_uring_send_result_in(c, res);
    net_uring_pump(c);
}

static void net_uring_zc_done(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct net_uring_zc *z = SNIC_CONTAINER(op, struct net_uring_zc, op);
    struct net_uring_conn *c = z->conn;
    if ((flags & IORING_CQE_F_NOTIF) != 0) {
        z->notifs--;
        c->zc_notifs--;
        if (((uint32_t)res & IORING_NOTIF_USAGE_ZC_COPIED) != 0 && net_uring_of(c)->zc_report)
            c->no_zc = 1; /* the kernel had to copy, as on loopback: that is the dearest way */
    } else {
        if ((flags & IORING_CQE_F_MORE) != 0) {
            z->notifs++;
            c->zc_notifs++;
        }
        net_uring_send_result_in(c, res);
    }
    net_uring_pump(c);
}

/* Gather the unsent pieces of queued requests; @more: the peer may wait for more. */
static uint32_t net_uring_gather(struct net_uring_conn *c, int one, uint64_t *bytes, int *more)
{
    uint32_t count = 0;
    uint32_t at = c->iov_at;
    size_t off = c->iov_off;
    *bytes = 0;
    for (struct snic_node *i = c->sends.first; i != NULL; i = i->next) {
        struct snic_net_send_req *s = SNIC_CONTAINER(i, struct snic_net_send_req, node);
        if (count > 0 && (s->flags & SNIC_NET_SEND_ZC) != 0 && net_uring_zc_of(s)->used)
            break; /* zero-copy: in a send of its own */
        for (; at < s->iov_count && count < SNIC_NET_IOV_MAX; at++, off = 0) {
            if (s->iov[at].size == off)
                continue;
            c->iov[count].iov_base = (unsigned char *)s->iov[at].base + off;
            c->iov[count].iov_len = s->iov[at].size - off;
            *bytes += c->iov[count++].iov_len;
        }
        *more = (s->flags & SNIC_NET_SEND_MORE) != 0 || at < s->iov_count || i->next != NULL;
        if (one || at < s->iov_count || *bytes > SNIC_NET__SEND_MAX / 2)
            break;
        at = 0;
    }
    return count;
}

/* May a send without zero copy of the first request be quiet? It is alone and goes whole. */
static int net_uring_may_be_quiet(const struct net_uring_conn *c)
{
    const struct snic_net_send_req *s =
        SNIC_CONTAINER(c->sends.first, struct snic_net_send_req, node);
    return (s->flags & (SNIC_NET_SEND_LAZY | SNIC_NET_SEND_MORE)) == SNIC_NET_SEND_LAZY &&
           s->node.next == NULL && !c->shut && !c->full && !c->send_full &&
           loop_uring_quiet_able(c->c.net->loop);
}

static void net_uring_send_start(struct net_uring_conn *c)
{
    struct net_uring *n = net_uring_of(c);
    struct snic_net_send_req *s = SNIC_CONTAINER(c->sends.first, struct snic_net_send_req, node);
    struct net_uring_zc *z = net_uring_zc_of(s);
    uint64_t bytes = 0;
    int more = 0;
    int zc = z->used && !c->no_zc;
    uint32_t count = net_uring_gather(c, zc, &bytes, &more);
    int quiet = !zc && !more && bytes <= SNIC_NET__URING_QUIET_MAX && net_uring_may_be_quiet(c);
    struct snic_uring_op *op = zc ? &z->op : quiet ? &c->send_quiet.op : &c->send_op;
    struct io_uring_sqe *sqe = loop_uring_sqe(n->n.loop, op);
    if (sqe == NULL) {
        net_uring_work(c);
        return;
    }
    unsigned flags =
        MSG_NOSIGNAL | (more ? MSG_MORE : 0) | (quiet ? MSG_DONTWAIT | MSG_WAITALL : 0);
    SNIC_ASSERT(count > 0);
    c->send_busy = 1;
    c->send_now = op;
    memset(&c->msg, 0, sizeof(c->msg));
    c->msg.msg_iov = c->iov;
    c->msg.msg_iovlen = count;
    if (zc) {
        n->n.stats.zc_sends++;
        if (count > 1)
            io_uring_prep_sendmsg_zc(sqe, c->fd, &c->msg, flags);
        else if (snic_loop_region_holds(n->n.loop, s->region, c->iov[0].iov_base, bytes))
            io_uring_prep_send_zc_fixed(sqe, c->fd, c->iov[0].iov_base, bytes, (int)flags, 0,
                                        (unsigned)s->region);
        else
            io_uring_prep_send_zc(sqe, c->fd, c->iov[0].iov_base, bytes, (int)flags, 0);
        if (n->zc_report)
            sqe->ioprio |= (uint16_t)IORING_SEND_ZC_REPORT_USAGE;
    } else if (count > 1) {
        io_uring_prep_sendmsg(sqe, c->fd, &c->msg, flags);
    } else {
        io_uring_prep_send(sqe, c->fd, c->iov[0].iov_base, bytes, (int)flags);
    }
    if (quiet)
        loop_uring_quiet(n->n.loop, sqe, &c->send_quiet, (int32_t)bytes);
}

/* Something of the connection waits for a lazy send after all. */
static int net_uring_quiet_awaited(const struct net_uring_conn *c)
{
    return c->send_busy && c->send_now == &c->send_quiet.op &&
           (c->shut || c->full || (c->sends.first != NULL && c->sends.first->next != NULL));
}

/* Report, start the next send, or end our direction when everything is sent. */
static void net_uring_send_adjust(struct net_uring_conn *c)
{
    struct net_uring *n = net_uring_of(c);
    net_uring_sent(c);
    if (c->state != NET_URING_OPEN)
        return;
    if (!c->send_busy && !c->send_wait && !snic_queue_empty(&c->sends))
        net_uring_send_start(c);
    if (net_uring_quiet_awaited(c))
        loop_uring_quiet_now(n->n.loop);
    if (!c->send_busy && snic_queue_empty(&c->sends) && c->shut && !c->shut_sent) {
        c->shut_sent = 1;
        (void)shutdown(c->fd, SHUT_WR);
        if (c->closing)
            snic_loop_arm(n->n.loop, &c->timer,
                          snic_loop_now(n->n.loop) + SNIC_NET__URING_LINGER_NS);
    }
    if (c->full && !c->shut && c->send_count <= n->opts.send_queue / 2) {
        c->full = 0;
        if (c->ev.writable != NULL)
            c->ev.writable(c->c.ctx, &c->c);
    }
}

int net_uring_send(struct snic_net_conn *base, struct snic_net_send_req *s)
{
    struct net_uring_conn *c = (struct net_uring_conn *)base;
    struct net_uring *n = net_uring_of(c);
    if (c->state == NET_URING_DYING || c->shut)
        return SNIC_EPIPE;
    if (!net_send_valid(s))
        return SNIC_EINVAL;
    if (c->send_count >= n->opts.send_queue) {
        c->full = 1;
        if (net_uring_quiet_awaited(c))
            net_uring_work(c);
        return 0;
    }
    struct net_uring_zc *z = net_uring_zc_of(s);
    z->op.complete = net_uring_zc_done;
    z->conn = c;
    z->notifs = 0;
    z->used = (s->flags & SNIC_NET_SEND_ZC) != 0 && (n->n.caps & SNIC_NET_CAP_ZC) != 0 &&
              c->c.peer.family != SNIC_NET_UNIX &&
              net_iov_bytes(s->iov, s->iov_count) >= n->n.zc_bytes_min;
    n->n.stats.send_requests++;
    c->send_count++;
    snic_queue_push(&c->sends, &s->node);
    if (!c->send_busy || net_uring_quiet_awaited(c))
        net_uring_work(c); /* later sends of this loop iteration join it */
    return 1;
}

void net_uring_shutdown(struct snic_net_conn *base)
{
    struct net_uring_conn *c = (struct net_uring_conn *)base;
    if (c->state == NET_URING_DYING || c->shut)
        return;
    c->shut = 1;
    net_uring_work(c);
}

void net_uring_close(struct snic_net_conn *base)
{
    struct net_uring_conn *c = (struct net_uring_conn *)base;
    struct net_uring *n = net_uring_of(c);
    if (c->state == NET_URING_CONNECTING) {
        net_uring_finish(c, SNIC_ECONNABORTED);
        return;
    }
    if (c->state == NET_URING_DYING || c->closing)
        return;
    c->closing = 1;
    c->shut = 1;
    net_uring_held_drop(c);
    if (c->shut_sent)
        snic_loop_arm(n->n.loop, &c->timer, snic_loop_now(n->n.loop) + SNIC_NET__URING_LINGER_NS);
    net_uring_work(c);
}

void net_uring_abort(struct snic_net_conn *base)
{
    net_uring_finish((struct net_uring_conn *)base, SNIC_ECONNABORTED);
}

static void net_uring_pump_some(struct net_uring_conn *c, int sends)
{
    if (c->state == NET_URING_OPEN) {
        net_uring_recv_held(c);
        if (c->state == NET_URING_OPEN && sends)
            net_uring_send_adjust(c);
        if (c->state == NET_URING_OPEN)
            net_uring_recv_adjust(c);
        net_uring_check_end(c);
    }
    if (c->state == NET_URING_DYING)
        net_uring_work(c);
}

/* Do whatever can be done; what is dying has its turn on the work list. From the loop only (I1). */
void net_uring_pump(struct net_uring_conn *c)
{
    net_uring_pump_some(c, 1);
}

/* The same but for sending: what the bytes led to is on the work list, with that of others. */
static void net_uring_pump_received(struct net_uring_conn *c)
{
    net_uring_pump_some(c, 0);
}

void net_uring_conn_init(struct net_uring_conn *c)
{
    c->recv_op.complete = net_uring_recv_done;
    c->send_op.complete = net_uring_send_done;
    loop_uring_quiet_init(&c->send_quiet, net_uring_quiet_done);
    c->watch_op.complete = net_uring_watched;
    snic_timer_init(&c->timer, net_uring_timer);
}
