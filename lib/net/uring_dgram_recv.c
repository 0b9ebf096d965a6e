/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Datagram sockets on io_uring: receiving, and news of the network.
 *
 * recvmsg, multishot where the kernel can, into buffers of the handle's pool that are large enough
 * for a coalesced train; each is split into messages in place, shown to the user, and returned at
 * once. As the kernel's ring hands out buffers in turn, it holds only as many as were ever needed
 * at once. Without a ring each socket has one buffer of its own.
 */
#include "net/uring_dgram.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/mman.h>
#include <time.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* ---- The pool ---- */

void net_uring_dgram_kick(struct net_uring_dgram *d)
{
    if (!d->kick_queued) {
        d->kick_queued = 1;
        snic_loop_defer(d->d.net->loop, &d->kick);
    }
}

static void net_uring_dgram_offer(struct net_uring_pool *p, uint32_t i)
{
    io_uring_buf_ring_add(p->ring, p->data + (size_t)i * SNIC_NET__URING_DGRAM_BYTES,
                          SNIC_NET__URING_DGRAM_BYTES, (unsigned short)i,
                          io_uring_buf_ring_mask(SNIC_NET__URING_DGRAM_BUFS), 0);
    io_uring_buf_ring_advance(p->ring, 1);
}

/* The ring was empty: from now on it holds twice as many. */
static void net_uring_pool_more(struct net_uring_pool *p)
{
    uint32_t most = (uint32_t)snic_min_u64(2 * (uint64_t)p->offered, SNIC_NET__URING_DGRAM_BUFS);
    while (p->offered < most)
        net_uring_dgram_offer(p, p->offered++);
}

/* The struct, the ring, and the buffers in one mapping; without what a ring needs the struct. */
struct net_uring_pool *net_uring_pool_open(struct net_uring *n)
{
    const uint32_t need = SNIC_LOOP_HAVE_BUF_RING | SNIC_LOOP_HAVE_MULTISHOT_RECV;
    size_t head = snic_align_up(sizeof(struct net_uring_pool), 4096);
    size_t bytes = head + 4096 + (size_t)SNIC_NET__URING_DGRAM_BUFS * SNIC_NET__URING_DGRAM_BYTES;
    unsigned char *mem =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mem == MAP_FAILED)
        return NULL;
    struct net_uring_pool *p = (struct net_uring_pool *)(void *)mem;
    p->bytes = bytes;
    p->data = mem + head + 4096;
    p->group = (n->features & need) == need ? loop_uring_group_get(n->n.loop) : -1;
    if (p->group < 0)
        return p;
    struct io_uring_buf_reg reg;
    memset(&reg, 0, sizeof(reg));
    reg.ring_addr = (uint64_t)(uintptr_t)(mem + head);
    reg.ring_entries = SNIC_NET__URING_DGRAM_BUFS;
    reg.bgid = (uint16_t)p->group;
    if (io_uring_register_buf_ring(loop_uring_ring(n->n.loop), &reg, 0) != 0) {
        loop_uring_group_put(n->n.loop, p->group);
        p->group = -1;
        return p;
    }
    p->ring = (struct io_uring_buf_ring *)(void *)(mem + head);
    for (; p->offered < SNIC_NET__URING_DGRAM_BUFS_START; p->offered++)
        net_uring_dgram_offer(p, p->offered);
    return p;
}

void net_uring_pool_close(struct net_uring *n)
{
    struct net_uring_pool *p = n->pool;
    if (p == NULL)
        return;
    if (p->group >= 0) {
        (void)io_uring_unregister_buf_ring(loop_uring_ring(n->n.loop), p->group);
        loop_uring_group_put(n->n.loop, p->group);
    }
    (void)munmap(p, p->bytes);
    n->pool = NULL;
}

/* ---- Socket options ---- */

static void net_uring_dgram_set(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value)); /* a wish, not a need */
}

/* As root beyond the system's limit. */
static void net_uring_dgram_bytes(int fd, int force, int name, uint32_t bytes)
{
    int value = (int)bytes;
    if (value != 0 && setsockopt(fd, SOL_SOCKET, force, &value, sizeof(value)) < 0)
        net_uring_dgram_set(fd, SOL_SOCKET, name, value);
}

void net_uring_dgram_listen(int fd, const struct snic_net_addr *a, const struct net_uring *n,
                            const struct snic_net_dgram_events *ev)
{
    int v6 = a->family == SNIC_NET_IPV6;
    int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
    net_uring_dgram_set(fd, level, v6 ? IPV6_RECVTCLASS : IP_RECVTOS, 1);
    net_uring_dgram_set(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    if (ev->unreachable != NULL)
        net_uring_dgram_set(fd, level, v6 ? IPV6_RECVERR : IP_RECVERR, 1);
    if ((n->opts.dgram_flags & SNIC_NET_DGRAM_DF) != 0) /* and forged news change no size */
        net_uring_dgram_set(fd, level, v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
                            IP_PMTUDISC_PROBE /* IPv6's has the same number */);
    net_uring_dgram_bytes(fd, SO_RCVBUFFORCE, SO_RCVBUF, n->opts.dgram_recv_bytes);
    net_uring_dgram_bytes(fd, SO_SNDBUFFORCE, SO_SNDBUF, n->opts.dgram_send_bytes);
    if ((n->n.caps & SNIC_NET_CAP_TIMESTAMP) != 0)
        net_uring_dgram_set(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    if ((n->n.caps & SNIC_NET_CAP_GRO) != 0)
        net_uring_dgram_set(fd, IPPROTO_UDP, UDP_GRO, 1);
}

/* ---- News ---- */

/* The network's report on an earlier datagram; 0 when it is nothing of that kind. */
static int net_uring_news_of(struct msghdr *m)
{
    for (struct cmsghdr *k = CMSG_FIRSTHDR(m); k != NULL; k = CMSG_NXTHDR(m, k)) {
        struct sock_extended_err e;
        if (!(k->cmsg_level == IPPROTO_IP && k->cmsg_type == IP_RECVERR) &&
            !(k->cmsg_level == IPPROTO_IPV6 && k->cmsg_type == IPV6_RECVERR))
            continue;
        if (k->cmsg_len < CMSG_LEN(sizeof(e)))
            continue;
        memcpy(&e, CMSG_DATA(k), sizeof(e));
        if (e.ee_origin == SO_EE_ORIGIN_ICMP || e.ee_origin == SO_EE_ORIGIN_ICMP6)
            return net_uring_error((int)e.ee_errno);
    }
    return 0;
}

/* Report all errors in the socket's queue, which the kernel bounds. @return how many there were */
int net_uring_dgram_news(struct net_uring_dgram *d)
{
    int count = 0;
    if (d->ev.unreachable == NULL)
        return 0;
    for (;;) {
        _Alignas(8) unsigned char control[2 * SNIC_NET__URING_CONTROL];
        union net_uring_sockaddr s;
        struct snic_net_addr peer;
        struct msghdr m;
        memset(&m, 0, sizeof(m));
        memset(&s, 0, sizeof(s));
        m.msg_name = &s;
        m.msg_namelen = sizeof(s);
        m.msg_control = control;
        m.msg_controllen = sizeof(control);
        if (recvmsg(d->fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            return count;
        count++;
        int error = net_uring_news_of(&m);
        if (error == 0)
            continue;
        d->d.net->stats.unreachable++;
        net_uring_addr_from(&peer, &s, m.msg_namelen);
        if (!d->closing)
            d->ev.unreachable(d->ctx, &d->d, &peer, error);
    }
}

/* ---- Receiving ---- */

static uint64_t net_uring_clock(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* How far the clocks are apart; of three looks the one with the least between its ends. */
static void net_uring_pool_wall(struct net_uring_pool *p, const struct snic_loop *l)
{
    uint64_t best = SNIC_NEVER;
    for (unsigned i = 0; i < 3 && best > SNIC_NET__URING_LOOK_NS; i++) {
        uint64_t from = snic_loop_clock(l), wall = net_uring_clock(CLOCK_REALTIME);
        uint64_t took = snic_loop_clock(l) - from;
        if (took < best) {
            best = took;
            p->wall_ns = wall - from - took / 2;
        }
    }
    p->wall_at_ns = snic_loop_now(l);
}

/* The arrival time by the loop's clock; the kernel's time stamp is of the system clock. */
static uint64_t net_uring_dgram_arrival(const struct net_uring_dgram *d, const struct cmsghdr *k)
{
    struct net_uring_pool *p = d->pool;
    struct timespec t;
    uint64_t now = snic_loop_now(d->d.net->loop);
    if (k->cmsg_len < CMSG_LEN(sizeof(t)))
        return now;
    memcpy(&t, CMSG_DATA(k), sizeof(t));
    if (p->wall_at_ns == 0 || now - p->wall_at_ns > SNIC_NET__URING_WALL_NS)
        net_uring_pool_wall(p, d->d.net->loop);
    uint64_t at = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - p->wall_ns;
    return now - at < SNIC_NET__URING_ARRIVAL_NS || at - now < SNIC_NET__URING_WALL_NS ? at : now;
}

/* From the control data: segment size of a coalesced train (0: none), ECN, drops, arrival time. */
static void net_uring_dgram_control(struct net_uring_dgram *d, struct msghdr *m, uint32_t *segment,
                                    uint32_t *ecn, uint64_t *time_ns)
{
    for (struct cmsghdr *k = CMSG_FIRSTHDR(m); k != NULL; k = CMSG_NXTHDR(m, k)) {
        int value = 0;
        if (k->cmsg_len >= CMSG_LEN(sizeof(int)))
            memcpy(&value, CMSG_DATA(k), sizeof(value));
        if (k->cmsg_level == IPPROTO_UDP && k->cmsg_type == UDP_GRO && value > 0)
            *segment = (uint32_t)value;
        if (k->cmsg_level == IPPROTO_IP && k->cmsg_type == IP_TOS)
            *ecn = *(unsigned char *)CMSG_DATA(k) & 3;
        if (k->cmsg_level == IPPROTO_IPV6 && k->cmsg_type == IPV6_TCLASS)
            *ecn = (uint32_t)value & 3;
        if (k->cmsg_level == SOL_SOCKET && k->cmsg_type == SO_TIMESTAMPNS)
            *time_ns = net_uring_dgram_arrival(d, k);
        if (k->cmsg_level == SOL_SOCKET && k->cmsg_type == SO_RXQ_OVFL) {
            d->d.net->stats.dgrams_lost += (uint32_t)value - d->dropped;
            d->dropped = (uint32_t)value;
        }
    }
}

/* Show the messages of one receive, @m describing where its parts lie. */
static void net_uring_dgram_show(struct net_uring_dgram *d, struct msghdr *m,
                                 const unsigned char *data, uint32_t size)
{
    struct net_uring *n = (struct net_uring *)d->d.net;
    uint32_t segment = 0;
    uint32_t ecn = 0;
    uint64_t time_ns = snic_loop_now(n->n.loop);
    union net_uring_sockaddr s;
    if ((m->msg_flags & MSG_TRUNC) != 0) {
        n->n.stats.dgrams_lost++;
        return;
    }
    memset(&s, 0, sizeof(s));
    memcpy(&s, m->msg_name, snic_min_u64(m->msg_namelen, sizeof(s)));
    net_uring_dgram_control(d, m, &segment, &ecn, &time_ns);
    n->n.stats.dgram_recvs++;
    for (uint32_t at = 0; (at < size || at == 0) && !d->closing;) {
        uint32_t count = 0;
        for (; (at < size || at == 0) && count < SNIC_NET__URING_MSGS; count++) {
            struct snic_net_msg *g = &d->pool->msgs[count];
            net_uring_addr_from(&g->peer, &s, m->msg_namelen);
            g->data = data + at;
            g->size = segment > 0 && segment < size - at ? segment : size - at;
            g->ecn = ecn;
            g->time_ns = time_ns;
            at += g->size;
            if (size == 0)
                at = 1; /* an empty datagram is one message */
        }
        n->n.stats.dgrams_in += count;
        d->ev.recv(d->ctx, &d->d, d->pool->msgs, count);
    }
}

void net_uring_dgram_recv_start(struct net_uring_dgram *d)
{
    struct net_uring *n = (struct net_uring *)d->d.net;
    struct io_uring_sqe *sqe = d->closing ? NULL : loop_uring_sqe(n->n.loop, &d->recv_op);
    if (sqe == NULL) {
        net_uring_dgram_kick(d); /* tries again, or ends */
        return;
    }
    d->recv_busy = 1;
    memset(&d->msg, 0, sizeof(d->msg));
    d->msg.msg_namelen = sizeof(d->from);
    d->msg.msg_controllen = sizeof(d->control);
    if (d->pool->ring != NULL) {
        io_uring_prep_recvmsg_multishot(sqe, d->fd, &d->msg, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = (uint16_t)d->pool->group;
        return;
    }
    d->iov.iov_base = d->data;
    d->iov.iov_len = SNIC_NET__URING_DGRAM_BYTES;
    d->msg.msg_name = &d->from;
    d->msg.msg_control = d->control;
    d->msg.msg_iov = &d->iov;
    d->msg.msg_iovlen = 1;
    io_uring_prep_recvmsg(sqe, d->fd, &d->msg, 0);
}

static void net_uring_dgram_picked(struct net_uring_dgram *d, int32_t res, uint32_t i)
{
    unsigned char *buf = d->pool->data + (size_t)i * SNIC_NET__URING_DGRAM_BYTES;
    struct io_uring_recvmsg_out *out = io_uring_recvmsg_validate(buf, res, &d->msg);
    if (out == NULL) {
        d->d.net->stats.dgrams_lost++;
        return;
    }
    struct msghdr m;
    memset(&m, 0, sizeof(m));
    m.msg_name = io_uring_recvmsg_name(out);
    m.msg_namelen = out->namelen;
    m.msg_control = (unsigned char *)m.msg_name + d->msg.msg_namelen;
    m.msg_controllen = snic_min_u64(out->controllen, d->msg.msg_controllen);
    m.msg_flags = (int)out->flags;
    net_uring_dgram_show(d, &m, io_uring_recvmsg_payload(out, &d->msg),
                         io_uring_recvmsg_payload_length(out, res, &d->msg));
}

void net_uring_dgram_recv_done(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct net_uring_dgram *d = SNIC_CONTAINER(op, struct net_uring_dgram, recv_op);
    if ((flags & IORING_CQE_F_MORE) == 0)
        d->recv_busy = 0;
    if ((flags & IORING_CQE_F_BUFFER) != 0) {
        uint32_t i = flags >> IORING_CQE_BUFFER_SHIFT;
        SNIC_ASSERT(i < SNIC_NET__URING_DGRAM_BUFS);
        if (res > 0 && !d->closing)
            net_uring_dgram_picked(d, res, i);
        net_uring_dgram_offer(d->pool, i); /* D3 */
    } else if (res >= 0 && d->pool->ring == NULL && !d->closing) {
        net_uring_dgram_show(d, &d->msg, d->data, (uint32_t)res);
    } else if (res == -ENOBUFS) {
        net_uring_pool_more(d->pool);
    } else if (res < 0 && res != -ECANCELED && net_uring_dgram_news(d) == 0) {
        d->d.net->stats.errors++; /* the next receive is another */
    }
    if (!d->recv_busy)
        net_uring_dgram_recv_start(d);
}
