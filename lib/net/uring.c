/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sockets on the loop's io_uring: handles, the buffer pool, listeners, connects.
 *
 * Receiving: each connection has one receive under way, multishot where the kernel can, into
 * buffers that the kernel picks from the handle's pool. What a burst delivers beyond a
 * connection's bound is held back, at most what the kernel's ring of buffers has; the multishot
 * receive is then cancelled, and one-shot receives are used until the peer is slower than its
 * reader again.
 * Sending: one sendmsg per connection under way, made of as many queued requests as fit.
 *
 * I1  User functions are called from completions, timers and the work message: from the loop,
 *     never inside a call of the user. Calls leave what they cause on the work list.
 * I2  A connection's memory is reused only after `closed`, and closed only comes when no
 *     operation of it is in the kernel: busy flags and zc_notifs count them.
 * I3  At most recv_buffers buffers of a connection are lent. What is held came before what is
 *     delivered next.
 * I4  A buffer is free, in the kernel's ring (ring_count), held, or lent; pool_out counts the
 *     last two.
 * I5  Nothing is retried without a reason to succeed: an empty pool waits for a buffer, a
 *     full descriptor table for a timer.
 */
#include "net/uring_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

SNIC_STATIC_ASSERT(sizeof(struct snic_iov) == sizeof(struct iovec), "gather lists are iovecs");
SNIC_STATIC_ASSERT(sizeof(struct net_uring_zc) <=
                       sizeof(((struct snic_net_send_req *)NULL)->backend),
                   "zero-copy state fits into a request");

/* ---- The work list ---- */

static void net_uring_work_run(struct snic_loop_msg *msg)
{
    struct net_uring *n = SNIC_CONTAINER(msg, struct net_uring, work_msg);
    struct snic_link todo; /* what is added meanwhile is for the next round */
    n->work_queued = 0;
    snic_link_init(&todo);
    /* The last first: a reply to a client comes after messages to other nodes, and is waited for.
     */
    while (!snic_link_alone(&n->work)) {
        struct snic_link *i = n->work.prev;
        snic_link_remove(i);
        snic_link_append(&todo, i);
    }
    while (!snic_link_alone(&todo)) {
        struct net_uring_conn *c = SNIC_CONTAINER(todo.next, struct net_uring_conn, work);
        snic_link_remove(&c->work);
        if (c->state == NET_URING_DYING)
            net_uring_die(c);
        else
            net_uring_pump(c);
    }
}

/* ---- Connections ---- */

static struct net_uring_conn *net_uring_conn_take(struct net_uring *n, int fd)
{
    if (n->free_count == 0)
        return NULL;
    struct net_uring_conn *c = n->free_conns[--n->free_count];
    uint32_t gen = c->gen;
    memset(c, 0, offsetof(struct net_uring_conn, iov));
    c->gen = gen;
    c->c.net = &n->n;
    c->fd = fd;
    snic_link_append(&n->conns, &c->link);
    snic_link_init(&c->work);
    snic_link_init(&c->wait);
    net_uring_conn_init(c);
    n->live++;
    n->n.stats.conns_high = snic_max_u64(n->n.stats.conns_high, n->live);
    return c;
}

static void net_uring_connect_timeout(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    net_uring_finish(SNIC_CONTAINER(t, struct net_uring_conn, timer), SNIC_ETIMEDOUT);
}

static void net_uring_connected(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct net_uring_conn *c = SNIC_CONTAINER(op, struct net_uring_conn, connect_op);
    (void)flags;
    c->connect_busy = 0;
    if (c->state == NET_URING_CONNECTING) {
        snic_loop_cancel(c->c.net->loop, &c->timer);
        if (res < 0) {
            net_uring_finish(c, net_uring_error(res));
        } else {
            c->state = NET_URING_OPEN;
            net_uring_conn_init(c); /* the timer has another meaning now */
            c->c.net->stats.connected++;
            if (c->ev.connected != NULL)
                c->ev.connected(c->c.ctx, &c->c, 0);
        }
    }
    net_uring_pump(c);
}

static int net_uring_connect(struct snic_net *base, const struct snic_net_addr *a,
                             const struct snic_net_stream_events *ev, void *ctx,
                             struct snic_net_conn **out)
{
    struct net_uring *n = (struct net_uring *)base;
    union net_uring_sockaddr to;
    socklen_t size = 0;
    int e = net_uring_addr_to(a, &to, &size);
    if (e < 0)
        return e;
    if (ev == NULL || ev->recv == NULL || ev->closed == NULL ||
        (a->family != SNIC_NET_UNIX && a->port == 0))
        return SNIC_EINVAL;
    if (n->shutting || n->free_count == 0)
        return SNIC_ENOSPC;
    int fd = net_uring_socket(a, SOCK_STREAM);
    if (fd < 0)
        return fd;
    net_uring_sock_stream(fd, a, &n->opts);
    struct net_uring_conn *c = net_uring_conn_take(n, fd);
    c->to = to;
    c->connect_op.complete = net_uring_connected;
    struct io_uring_sqe *sqe = loop_uring_sqe(n->n.loop, &c->connect_op);
    if (sqe == NULL) {
        c->fd = -1;
        (void)close(fd);
        net_uring_conn_give(c);
        return SNIC_ENOSPC;
    }
    io_uring_prep_connect(sqe, fd, &c->to.any, size);
    c->connect_busy = 1;
    c->state = NET_URING_CONNECTING;
    c->ev = *ev;
    c->bound = 1;
    c->c.ctx = ctx;
    c->c.peer = *a;
    snic_timer_init(&c->timer, net_uring_connect_timeout);
    snic_loop_arm(n->n.loop, &c->timer,
                  snic_loop_now(n->n.loop) + (uint64_t)n->opts.idle_ms * 1000000u);
    *out = &c->c;
    return 0;
}

/* Of a connect under way, too: its timer begins anew. */
static int net_uring_patience(struct snic_net_conn *base, uint32_t ms)
{
    struct net_uring_conn *c = (struct net_uring_conn *)base;
    struct snic_loop *l = base->net->loop;
    if (ms == 0 || ms > SNIC_NET__PATIENCE_MAX)
        return SNIC_EINVAL;
    if (base->peer.family == SNIC_NET_UNIX)
        return SNIC_ENOTSUP;
    if (c->fd >= 0)
        net_uring_sock_patience(c->fd, ms);
    if (c->state == NET_URING_CONNECTING) {
        snic_loop_cancel(l, &c->timer);
        snic_loop_arm(l, &c->timer, snic_loop_now(l) + (uint64_t)ms * 1000000u);
    }
    return 0;
}

static void net_uring_bind(struct snic_net_conn *base, const struct snic_net_stream_events *ev,
                           void *ctx)
{
    struct net_uring_conn *c = (struct net_uring_conn *)base;
    SNIC_ASSERT(ev->recv != NULL && ev->closed != NULL);
    c->ev = *ev;
    c->c.ctx = ctx;
    c->bound = 1;
}

/* ---- Listeners ---- */

static void net_uring_listener_gone(struct net_uring_listener *l)
{
    if (l->closing && !l->busy) {
        snic_loop_cancel(l->l.net->loop, &l->retry);
        (void)close(l->fd);
        l->fd = -1;
    }
}

static void net_uring_accept_arm(struct net_uring_listener *l)
{
    struct net_uring *n = (struct net_uring *)l->l.net;
    struct io_uring_sqe *sqe = loop_uring_sqe(n->n.loop, &l->op);
    if (sqe == NULL) {
        snic_loop_arm(n->n.loop, &l->retry,
                      snic_loop_now(n->n.loop) + SNIC_NET__URING_ACCEPT_RETRY_NS);
        return;
    }
    l->busy = 1;
    if ((n->features & SNIC_LOOP_HAVE_MULTISHOT_ACCEPT) != 0)
        io_uring_prep_multishot_accept(sqe, l->fd, NULL, NULL, SOCK_CLOEXEC);
    else
        io_uring_prep_accept(sqe, l->fd, NULL, NULL, SOCK_CLOEXEC);
}

static void net_uring_accept_retry(struct snic_timer *t, uint64_t now_ns)
{
    struct net_uring_listener *l = SNIC_CONTAINER(t, struct net_uring_listener, retry);
    (void)now_ns;
    if (!l->closing && !l->busy)
        net_uring_accept_arm(l);
}

static void net_uring_accept_one(struct net_uring_listener *l, int fd)
{
    struct net_uring *n = (struct net_uring *)l->l.net;
    struct net_uring_conn *c = l->closing ? NULL : net_uring_conn_take(n, fd);
    if (c == NULL) {
        n->n.stats.errors++;
        net_uring_sock_reset(fd);
        return;
    }
    union net_uring_sockaddr s;
    socklen_t size = sizeof(s);
    memset(&s, 0, sizeof(s));
    if (getpeername(fd, &s.any, &size) < 0)
        size = 0; /* reset already; the receive will fail */
    net_uring_addr_from(&c->c.peer, &s, size);
    if (size == 0)
        c->c.peer.family = l->addr.family;
    c->state = NET_URING_OPEN;
    n->n.stats.accepted++;
    l->accept(l->ctx, &c->c, &c->c.peer);
    SNIC_ASSERT(c->bound || c->state == NET_URING_DYING); /* bind or abort before returning */
    net_uring_pump(c);
}

static void net_uring_accepted(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct net_uring_listener *l = SNIC_CONTAINER(op, struct net_uring_listener, op);
    struct net_uring *n = (struct net_uring *)l->l.net;
    if ((flags & IORING_CQE_F_MORE) == 0)
        l->busy = 0;
    if (res >= 0)
        net_uring_accept_one(l, res);
    if (l->closing) {
        net_uring_listener_gone(l);
    } else if (!l->busy) {
        if (res >= 0 || res == -ECONNABORTED || res == -EINTR || res == -EAGAIN) {
            net_uring_accept_arm(l);
        } else { /* I5: EMFILE and the like; the backlog keeps the clients */
            n->n.stats.errors++;
            snic_loop_arm(n->n.loop, &l->retry,
                          snic_loop_now(n->n.loop) + SNIC_NET__URING_ACCEPT_RETRY_NS);
        }
    }
}

static int net_uring_listen(struct snic_net *base, const struct snic_net_addr *a, uint32_t flags,
                            snic_net_accept_fn accept, void *ctx, struct snic_net_listener **out)
{
    struct net_uring *n = (struct net_uring *)base;
    struct net_uring_listener *l = NULL;
    if (accept == NULL || !net_listen_flags_valid(flags))
        return SNIC_EINVAL;
    for (unsigned i = 0; i < SNIC_NET__URING_LISTENERS && l == NULL; i++) {
        if (n->listeners[i].fd < 0)
            l = &n->listeners[i];
    }
    if (l == NULL || n->shutting)
        return SNIC_ENOSPC;
    int fd = net_uring_sock_listen(a, flags, &n->opts);
    if (fd < 0)
        return fd;
    union net_uring_sockaddr s;
    socklen_t size = sizeof(s);
    memset(l, 0, sizeof(*l));
    memset(&s, 0, sizeof(s));
    l->l.net = base;
    l->accept = accept;
    l->ctx = ctx;
    l->fd = fd;
    l->addr = *a;
    l->op.complete = net_uring_accepted;
    snic_timer_init(&l->retry, net_uring_accept_retry);
    if (a->family == SNIC_NET_UNIX)
        (void)net_uring_path_id(a->path, &l->path_dev, &l->path_ino);
    else if (getsockname(fd, &s.any, &size) == 0)
        net_uring_addr_from(&l->addr, &s, size);
    if (net_steer_of(flags) > 0 && a->family != SNIC_NET_UNIX)
        base->stats.steered += (uint64_t)net_uring_sock_steer(fd, net_steer_of(flags));
    net_uring_accept_arm(l);
    *out = &l->l;
    return 0;
}

static void net_uring_unlisten(struct snic_net_listener *base)
{
    struct net_uring_listener *l = (struct net_uring_listener *)base;
    uint64_t dev = 0;
    uint64_t ino = 0;
    if (l->closing)
        return;
    l->closing = 1;
    if (l->addr.family == SNIC_NET_UNIX && net_uring_path_id(l->addr.path, &dev, &ino) == 0 &&
        dev == l->path_dev && ino == l->path_ino)
        (void)unlink(l->addr.path);
    (void)shutdown(l->fd, SHUT_RDWR); /* the port is free at once; ends the accept, too */
    if (l->busy)
        (void)loop_uring_cancel(base->net->loop, &l->op);
    net_uring_listener_gone(l);
}

static int net_uring_listen_addr(const struct snic_net_listener *l, struct snic_net_addr *out)
{
    *out = ((const struct net_uring_listener *)l)->addr;
    return 0;
}

/* ---- Handles ---- */

static void net_uring_free(struct net_uring *n)
{
    if (n->ring != NULL && n->group >= 0)
        (void)io_uring_unregister_buf_ring(loop_uring_ring(n->n.loop), n->group);
    if (n->group >= 0)
        loop_uring_group_put(n->n.loop, n->group);
    if (n->ring != NULL)
        (void)munmap(n->ring, n->ring_bytes);
    if (n->data != NULL)
        (void)munmap(n->data, n->data_bytes);
    net_uring_pool_close(n);
    free(n->dgrams);
    free(n->bufs);
    free(n->conn_mem);
    free(n->free_conns);
    free(n);
}

static int net_uring_quiet(const struct net_uring *n)
{
    int quiet = n->live == 0 && !n->work_queued;
    for (unsigned i = 0; i < SNIC_NET__URING_LISTENERS; i++)
        quiet &= n->listeners[i].fd < 0;
    for (unsigned i = 0; i < n->opts.dgrams_max; i++)
        quiet &= n->dgrams[i] == NULL;
    return quiet;
}

static void net_uring_shut(struct snic_net *base)
{
    struct net_uring *n = (struct net_uring *)base;
    n->shutting = 1;
    for (unsigned i = 0; i < SNIC_NET__URING_LISTENERS; i++) {
        if (n->listeners[i].fd >= 0)
            net_uring_unlisten(&n->listeners[i].l);
    }
    for (struct snic_link *i = n->conns.next; i != &n->conns; i = i->next)
        net_uring_finish(SNIC_CONTAINER(i, struct net_uring_conn, link), SNIC_ECONNABORTED);
    for (unsigned i = 0; i < n->opts.dgrams_max; i++) {
        if (n->dgrams[i] != NULL)
            net_uring_dgram_close((struct snic_net_dgram *)n->dgrams[i]);
    }
    while (!net_uring_quiet(n)) {
        int r = snic_loop_once(n->n.loop, 100000000);
        SNIC_ASSERT(r >= 0); /* the kernel holds our memory and does not answer */
    }
    net_uring_free(n);
}

static const struct snic_net_ops net_uring_ops = {
    .ops_size = sizeof(struct snic_net_ops),
    .name = "uring",
    .listen = net_uring_listen,
    .unlisten = net_uring_unlisten,
    .listen_addr = net_uring_listen_addr,
    .connect = net_uring_connect,
    .bind = net_uring_bind,
    .send = net_uring_send,
    .put = net_uring_put,
    .pause = net_uring_pause,
    .shutdown = net_uring_shutdown,
    .close = net_uring_close,
    .abort = net_uring_abort,
    .dgram_open = net_uring_dgram_open,
    .dgram_send = net_uring_dgram_send,
    .dgram_close = net_uring_dgram_close,
    .close_all = net_uring_shut,
    .dgram_addr = net_uring_dgram_addr,
    .patience = net_uring_patience,
};

int snic_net_uring_open(struct snic_net **out, struct snic_loop *l,
                        const struct snic_net_uring_opts *o)
{
    struct snic_net_uring_opts opts;
    if (net_opts_read(&opts, o) < 0)
        return SNIC_EINVAL;
    if (!loop_uring_is(l))
        return SNIC_ENOTSUP;
    struct net_uring *n = calloc(1, sizeof(*n));
    if (n == NULL)
        return SNIC_ENOMEM;
    n->opts = opts;
    n->features = loop_uring_features(l);
    n->group = -1;
    n->n.ops = &net_uring_ops;
    n->n.loop = l;
    n->n.caps = (SNIC_NET_CAP_STREAM | SNIC_NET_CAP_DGRAM | net_uring_dgram_caps() |
                 ((opts.dgram_flags & SNIC_NET_DGRAM_TIME) != 0 ? SNIC_NET_CAP_TIMESTAMP : 0) |
                 ((n->features & SNIC_LOOP_HAVE_SEND_ZC) != 0 ? SNIC_NET_CAP_ZC : 0)) &
                ~opts.caps_mask;
    n->n.zc_bytes_min = opts.zc_bytes_min != 0 ? opts.zc_bytes_min : SNIC_NET__URING_ZC_MIN;
    n->zc_report = opts.zc_bytes_min == 0;
    n->work_msg.fn = net_uring_work_run;
    snic_link_init(&n->conns);
    snic_link_init(&n->work);
    snic_link_init(&n->waiters);
    for (unsigned i = 0; i < SNIC_NET__URING_LISTENERS; i++)
        n->listeners[i].fd = -1;
    n->conn_mem = calloc(opts.conns_max, sizeof(*n->conn_mem));
    n->free_conns = calloc(opts.conns_max, sizeof(struct net_uring_conn *));
    n->dgrams = calloc(opts.dgrams_max, sizeof(struct net_uring_dgram *));
    if (n->conn_mem == NULL || n->free_conns == NULL || n->dgrams == NULL ||
        net_uring_buffers(n) < 0) {
        net_uring_free(n);
        return SNIC_ENOMEM;
    }
    for (uint32_t i = opts.conns_max; i > 0; i--)
        n->free_conns[n->free_count++] = &n->conn_mem[i - 1];
    *out = &n->n;
    return 0;
}
