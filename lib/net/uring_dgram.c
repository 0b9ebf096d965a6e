/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Datagram sockets on io_uring: open, send, close.
 *
 * Sending: each train has a slot with its own msghdr; it leaves in one call with UDP_SEGMENT, or
 * one datagram per call where that is not to be had. Trains that follow each other, to one peer and
 * of one size, share a slot and their calls, for a call costs as much as several datagrams.
 * Receiving is in uring_dgram_recv.c.
 *
 * D1  User functions are called from completions and from the kick message, never from a call.
 * D2  The socket's memory is freed when it is closing, nothing of it is in the kernel, all
 *     trains are done, and the kick is not queued.
 * D3  A buffer of the pool is in the kernel's ring, not offered yet, or shown to a user who is
 *     being called.
 * D4  News of the network (ICMP) also make the next call on the socket fail, whatever it is for:
 *     a train that hears of them is sent once more.
 */
#include "net/uring_dgram.h"

#include <errno.h>
#include <netinet/udp.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* GSO and GRO are asked for on a socket that is made for that. */
uint32_t net_uring_dgram_caps(void)
{
    uint32_t caps = 0;
    int zero = 0;
    int one = 1;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &zero, sizeof(zero)) == 0)
        caps |= SNIC_NET_CAP_GSO;
    if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) == 0)
        caps |= SNIC_NET_CAP_GRO;
    (void)close(fd);
    return caps;
}

/* ---- Sending ---- */

/* What was sent is that of the first trains. */
static void net_uring_train_over(struct net_uring_train *s, int error)
{
    struct net_uring_dgram *d = s->d;
    struct snic_net_train *t = s->t;
    struct snic_queue joined = s->joined;
    uint64_t sent = s->count;
    s->t = NULL;
    memset(&s->joined, 0, sizeof(s->joined));
    snic_queue_push(&d->free, &s->node);
    while (t != NULL) {
        struct snic_node *next = snic_queue_pop(&joined);
        uint64_t now = snic_min_u64(sent, net_train_count(t));
        sent -= now;
        t->result = now > 0 || error == 0 ? (int32_t)now : error;
        d->send_count--;
        t->done(t);
        t = next == NULL ? NULL : SNIC_CONTAINER(next, struct snic_net_train, node);
    }
}

static void net_uring_train_cmsg(struct msghdr *m, int level, int type, const void *v, size_t size)
{
    struct cmsghdr *k =
        (struct cmsghdr *)(void *)((unsigned char *)m->msg_control + m->msg_controllen);
    k->cmsg_level = level;
    k->cmsg_type = type;
    k->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(k), v, size);
    m->msg_controllen += CMSG_SPACE(size);
}

/* Put the next bytes of the trains, at most @max, into the slot's iovecs; their number. */
static uint32_t net_uring_train_gather(struct net_uring_train *s, uint64_t max)
{
    const struct snic_net_train *t = s->t;
    const struct snic_node *next = s->joined.first;
    uint64_t skip = s->sent_bytes;
    uint64_t got = 0;
    size_t count = 0;
    for (uint32_t i = 0; got < max; i++) {
        if (i == t->iov_count) {
            if (next == NULL)
                break;
            t = SNIC_CONTAINER(next, struct snic_net_train, node);
            next = next->next;
            i = 0;
        }
        const struct snic_iov *v = &t->iov[i];
        if (skip >= v->size) {
            skip -= v->size;
            continue;
        }
        s->iov[count].iov_base = (unsigned char *)v->base + skip;
        s->iov[count].iov_len = snic_min_u64(v->size - skip, max - got);
        got += s->iov[count++].iov_len;
        skip = 0;
    }
    s->msg.msg_iov = s->iov;
    s->msg.msg_iovlen = count;
    return (uint32_t)got;
}

static int net_uring_train_alike(const struct snic_net_train *a, const struct snic_net_train *b)
{
    size_t ip = a->peer.family == SNIC_NET_IPV6 ? 16 : 4;
    return a->segment == b->segment && a->ecn == b->ecn && a->peer.port == b->peer.port &&
           memcmp(a->peer.ip, b->peer.ip, ip) == 0;
}

/* Those that wait and may share the slot's calls: all datagrams are full but the last one. */
static void net_uring_train_join(struct net_uring_dgram *d, struct net_uring_train *s)
{
    uint32_t pieces = s->t->iov_count;
    s->bytes = net_iov_bytes(s->t->iov, s->t->iov_count);
    if ((d->d.net->caps & SNIC_NET_CAP_GSO) == 0)
        return;
    while (!snic_queue_empty(&d->waiting) && s->bytes % s->t->segment == 0) {
        struct snic_net_train *t = SNIC_CONTAINER(d->waiting.first, struct snic_net_train, node);
        uint64_t bytes = s->bytes + net_iov_bytes(t->iov, t->iov_count);
        pieces += t->iov_count;
        if (!net_uring_train_alike(s->t, t) || pieces > SNIC_NET_IOV_MAX || bytes > 65000 ||
            bytes > (uint64_t)SNIC_NET_TRAIN_MAX * t->segment)
            return;
        s->bytes = bytes;
        (void)snic_queue_pop(&d->waiting);
        snic_queue_push(&s->joined, &t->node);
    }
}

/* The next call of a train; 0 when there is none left to make. */
static int net_uring_train_step(struct net_uring_train *s)
{
    struct net_uring_dgram *d = s->d;
    struct net_uring *n = (struct net_uring *)d->d.net;
    const struct snic_net_train *t = s->t;
    uint64_t left = s->bytes - s->sent_bytes;
    uint64_t max = t->segment;
    socklen_t size = 0;
    if (left == 0)
        return 0;
    if ((n->n.caps & SNIC_NET_CAP_GSO) != 0 && !s->no_gso)
        max = snic_max_u64(1, snic_min_u64(SNIC_NET_TRAIN_MAX, 65000 / t->segment)) * t->segment;
    memset(&s->msg, 0, sizeof(s->msg));
    memset(s->control, 0, sizeof(s->control));
    (void)net_uring_addr_to(&t->peer, &s->to, &size);
    s->msg.msg_name = &s->to;
    s->msg.msg_namelen = size;
    s->msg.msg_control = s->control;
    s->now_bytes = net_uring_train_gather(s, max);
    if (s->now_bytes > t->segment) {
        uint16_t segment = (uint16_t)t->segment;
        net_uring_train_cmsg(&s->msg, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
    }
    if (t->ecn != 0) {
        int tos = (int)t->ecn;
        int v6 = t->peer.family == SNIC_NET_IPV6;
        net_uring_train_cmsg(&s->msg, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TCLASS : IP_TOS,
                             &tos, sizeof(tos));
    }
    if (s->msg.msg_controllen == 0)
        s->msg.msg_control = NULL;
    struct io_uring_sqe *sqe = loop_uring_sqe(n->n.loop, &s->op);
    if (sqe == NULL)
        return 0; /* the rest is not sent, as the result shows */
    io_uring_prep_sendmsg(sqe, d->fd, &s->msg, MSG_NOSIGNAL);
    return 1;
}

static void net_uring_dgram_more(struct net_uring_dgram *d)
{
    struct net_uring *n = (struct net_uring *)d->d.net;
    while (!d->closing && !snic_queue_empty(&d->waiting) && !snic_queue_empty(&d->free)) {
        struct net_uring_train *s =
            SNIC_CONTAINER(snic_queue_pop(&d->free), struct net_uring_train, node);
        s->t = SNIC_CONTAINER(snic_queue_pop(&d->waiting), struct snic_net_train, node);
        s->sent_bytes = 0;
        s->count = 0;
        s->no_gso = 0;
        s->news = 0;
        net_uring_train_join(d, s);
        if (!net_uring_train_step(s)) {
            net_uring_train_over(s, SNIC_EAGAIN);
        }
    }
    if (d->full && !d->closing && d->send_count <= n->opts.send_queue / 2) {
        d->full = 0;
        if (d->ev.writable != NULL)
            d->ev.writable(d->ctx, &d->d);
    }
}

/* D4: the error is of an earlier datagram, or may be. ECONNREFUSED is never the send's own. */
static int net_uring_train_blamed(struct net_uring_train *s, int32_t res)
{
    uint32_t most = res == -ECONNREFUSED ? SNIC_NET__URING_NEWS : SNIC_NET__URING_NEWS / 8;
    if (s->d->ev.unreachable == NULL || (res != -ECONNREFUSED && res != -EHOSTUNREACH &&
                                         res != -ENETUNREACH && res != -ENOPROTOOPT))
        return 0;
    return s->news++ < most;
}

static void net_uring_train_done(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct net_uring_train *s = SNIC_CONTAINER(op, struct net_uring_train, op);
    struct net_uring_dgram *d = s->d;
    int gso = s->now_bytes > s->t->segment;
    int error = 0;
    (void)flags;
    if (res >= 0) {
        uint32_t datagrams = (s->now_bytes + s->t->segment - 1) / s->t->segment;
        s->count += datagrams;
        d->d.net->stats.dgrams_out += datagrams;
        d->d.net->stats.dgram_sends++;
        s->sent_bytes += s->now_bytes;
    } else if (gso && (res == -EINVAL || res == -EIO || res == -EMSGSIZE || res == -EOPNOTSUPP)) {
        s->no_gso = 1; /* the path cannot: larger than its MTU, tunnels; one by one then */
    } else if (net_uring_train_blamed(s, res)) {
        (void)net_uring_dgram_news(d);
    } else if (res != -EINTR && res != -EAGAIN) {
        error = snic_error_from_os(res);
        d->d.net->stats.errors++;
    }
    if (error != 0 || d->closing || !net_uring_train_step(s))
        net_uring_train_over(s, error);
    if (d->closing)
        net_uring_dgram_kick(d);
    else
        net_uring_dgram_more(d);
}

int net_uring_dgram_send(struct snic_net_dgram *base, struct snic_net_train *t)
{
    struct net_uring_dgram *d = (struct net_uring_dgram *)base;
    struct net_uring *n = (struct net_uring *)base->net;
    uint64_t count = net_train_count(t);
    if (count == 0 || t->peer.family != d->local.family || t->peer.port == 0)
        return SNIC_EINVAL;
    if (t->segment > SNIC_NET__URING_DGRAM_MAX || count > SNIC_NET_TRAIN_MAX)
        return SNIC_EMSGSIZE;
    if (d->send_count >= n->opts.send_queue) {
        d->full = 1;
        return 0;
    }
    d->send_count++;
    snic_queue_push(&d->waiting, &t->node);
    net_uring_dgram_kick(d);
    return 1;
}

/* ---- Open and close ---- */

static void net_uring_dgram_free(struct net_uring_dgram *d)
{
    struct net_uring *n = (struct net_uring *)d->d.net;
    if (d->fd >= 0)
        (void)close(d->fd);
    n->dgrams[d->slot] = NULL;
    (void)munmap(d, d->bytes);
}

/* Everything that was put off: trains, a receive that could not start, the end. */
static void net_uring_dgram_kicked(struct snic_loop_msg *msg)
{
    struct net_uring_dgram *d = SNIC_CONTAINER(msg, struct net_uring_dgram, kick);
    uint32_t busy = 0;
    d->kick_queued = 0;
    if (!d->closing) {
        net_uring_dgram_more(d);
        if (!d->recv_busy)
            net_uring_dgram_recv_start(d);
        return;
    }
    struct snic_node *node = snic_queue_pop(&d->waiting);
    for (; node != NULL; node = snic_queue_pop(&d->waiting)) {
        struct snic_net_train *t = SNIC_CONTAINER(node, struct snic_net_train, node);
        t->result = SNIC_ECANCELED;
        d->send_count--;
        t->done(t);
    }
    for (unsigned i = 0; i < SNIC_NET__URING_TRAINS; i++)
        busy += d->trains[i].t != NULL;
    if (!d->cancels && d->recv_busy) {
        d->cancels = loop_uring_cancel(d->d.net->loop, &d->recv_op) == 0;
        if (!d->cancels)
            net_uring_dgram_kick(d);
    }
    if (busy == 0 && !d->recv_busy && !d->kick_queued)
        net_uring_dgram_free(d); /* D2 */
}

void net_uring_dgram_close(struct snic_net_dgram *base)
{
    struct net_uring_dgram *d = (struct net_uring_dgram *)base;
    d->closing = 1;
    net_uring_dgram_kick(d);
}

static int net_uring_dgram_bind(const struct snic_net_addr *a, uint32_t wait_ms,
                                struct snic_net_addr *local)
{
    union net_uring_sockaddr s;
    socklen_t size = 0;
    int one = 1;
    int e = a->family == SNIC_NET_UNIX ? SNIC_ENOTSUP : net_uring_addr_to(a, &s, &size);
    if (e < 0)
        return e;
    int fd = net_uring_socket(a, SOCK_DGRAM);
    if (fd < 0)
        return fd;
    if (a->family == SNIC_NET_IPV6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (net_uring_sock_bind(fd, &s, size, wait_ms) < 0) {
        e = errno == EADDRINUSE ? SNIC_EADDRINUSE : errno == EACCES ? SNIC_EACCES : SNIC_EINVAL;
        (void)close(fd);
        return e;
    }
    size = sizeof(s);
    *local = *a;
    if (getsockname(fd, &s.any, &size) == 0)
        net_uring_addr_from(local, &s, size);
    return fd;
}

static void net_uring_dgram_init(struct net_uring_dgram *d, struct net_uring *n)
{
    d->d.net = &n->n;
    d->recv_op.complete = net_uring_dgram_recv_done;
    d->kick.fn = net_uring_dgram_kicked;
    for (unsigned i = 0; i < SNIC_NET__URING_TRAINS; i++) {
        d->trains[i].d = d;
        d->trains[i].op.complete = net_uring_train_done;
        snic_queue_push(&d->free, &d->trains[i].node);
    }
}

int net_uring_dgram_open(struct snic_net *base, const struct snic_net_addr *local,
                         const struct snic_net_dgram_events *ev, void *ctx,
                         struct snic_net_dgram **out)
{
    struct net_uring *n = (struct net_uring *)base;
    struct snic_net_addr bound;
    uint32_t slot = 0;
    if (ev == NULL || ev->recv == NULL)
        return SNIC_EINVAL;
    while (slot < n->opts.dgrams_max && n->dgrams[slot] != NULL)
        slot++;
    if (slot == n->opts.dgrams_max || n->shutting)
        return SNIC_ENOSPC;
    if (n->pool == NULL)
        n->pool = net_uring_pool_open(n);
    if (n->pool == NULL)
        return SNIC_ENOSPC;
    uint32_t wait_ms = (n->opts.dgram_flags & SNIC_NET_DGRAM_WAIT) != 0 ? n->opts.taken_wait_ms : 0;
    int fd = net_uring_dgram_bind(local, wait_ms, &bound);
    if (fd < 0)
        return fd;
    net_uring_dgram_listen(fd, local, n, ev);
    size_t head = snic_align_up(sizeof(struct net_uring_dgram), 4096);
    size_t bytes = head + (n->pool->ring == NULL ? SNIC_NET__URING_DGRAM_BYTES : 0);
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mem == MAP_FAILED) {
        (void)close(fd);
        return SNIC_ENOSPC;
    }
    struct net_uring_dgram *d = mem;
    net_uring_dgram_init(d, n);
    d->pool = n->pool;
    d->data = (unsigned char *)mem + head;
    d->ev = *ev;
    d->ctx = ctx;
    d->fd = fd;
    d->local = bound;
    d->slot = slot;
    d->bytes = bytes;
    n->dgrams[slot] = d;
    net_uring_dgram_recv_start(d);
    *out = &d->d;
    return 0;
}

int net_uring_dgram_addr(const struct snic_net_dgram *d, struct snic_net_addr *out)
{
    *out = ((const struct net_uring_dgram *)d)->local;
    return 0;
}
