/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Datagram sockets on io_uring.
 *
 * Receiving: recvmsg, multishot where the kernel can, into the socket's own ring of buffers that
 * are large enough for a coalesced train; each is split into messages in place, shown to the
 * user, and given back at once. Sending: each train has a slot with its own msghdr; it leaves in
 * one call with UDP_SEGMENT, or one datagram per call where that is not to be had.
 *
 * D1  User functions are called from completions and from the kick message, never from a call.
 * D2  The socket's memory is freed when it is closing, nothing of it is in the kernel, all
 *     trains are done, and the kick is not queued.
 */
#include "net/uring_priv.h"

#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define SNIC_NET__URING_TRAINS 32
#define SNIC_NET__URING_DGRAM_BUFS 64
#define SNIC_NET__URING_DGRAM_MAX 65507
#define SNIC_NET__URING_CONTROL 128
/* A whole IP datagram, the kernel's header in front of it, the sender's address, control data. */
#define SNIC_NET__URING_DGRAM_BYTES (65536 + 1024)
#define SNIC_NET__URING_MSGS 128

struct net_uring_train {
    struct snic_uring_op op;
    struct snic_node node; /* free list */
    struct net_uring_dgram *d;
    struct snic_net_train *t; /* NULL: free */
    uint64_t sent_bytes;
    uint32_t now_bytes; /* in the call under way */
    uint32_t count;     /* datagrams sent */
    uint8_t no_gso;
    union net_uring_sockaddr to;
    struct msghdr msg;
    struct iovec iov[SNIC_NET_IOV_MAX];
    _Alignas(8) unsigned char control[SNIC_NET__URING_CONTROL];
};

struct net_uring_dgram {
    struct snic_net_dgram d; /* first: users see this */
    struct snic_net_dgram_events ev;
    void *ctx;
    struct snic_uring_op recv_op;
    struct snic_loop_msg kick;
    struct snic_queue free;    /* trains */
    struct snic_queue waiting; /* requests without a slot */
    struct snic_net_addr local;
    struct io_uring_buf_ring *ring;
    unsigned char *data;
    size_t bytes; /* of the whole mapping, this struct included */
    uint32_t slot;
    uint32_t send_count;
    int group;
    int fd;
    uint8_t recv_busy;
    uint8_t cancels;
    uint8_t kick_queued;
    uint8_t closing;
    uint8_t full;
    struct msghdr msg;
    struct iovec iov;
    union net_uring_sockaddr from;
    _Alignas(8) unsigned char control[SNIC_NET__URING_CONTROL];
    struct snic_net_msg msgs[SNIC_NET__URING_MSGS];
    struct net_uring_train trains[SNIC_NET__URING_TRAINS];
};

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

static void net_uring_dgram_kick(struct net_uring_dgram *d)
{
    if (!d->kick_queued) {
        d->kick_queued = 1;
        snic_loop_defer(d->d.net->loop, &d->kick);
    }
}

/* ---- Receiving ---- */

static void net_uring_dgram_offer(struct net_uring_dgram *d, uint32_t i)
{
    io_uring_buf_ring_add(d->ring, d->data + (size_t)i * SNIC_NET__URING_DGRAM_BYTES,
                          SNIC_NET__URING_DGRAM_BYTES, (unsigned short)i,
                          io_uring_buf_ring_mask(SNIC_NET__URING_DGRAM_BUFS), 0);
    io_uring_buf_ring_advance(d->ring, 1);
}

/* What the control data says: the segment size of a coalesced train (0: none) and ECN. */
static void net_uring_dgram_control(struct msghdr *m, uint32_t *segment, uint32_t *ecn)
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
    }
}

/* Show the messages of one receive, @m describing where its parts lie. */
static void net_uring_dgram_show(struct net_uring_dgram *d, struct msghdr *m,
                                 const unsigned char *data, uint32_t size)
{
    struct net_uring *n = (struct net_uring *)d->d.net;
    uint32_t segment = 0;
    uint32_t ecn = 0;
    union net_uring_sockaddr s;
    if ((m->msg_flags & MSG_TRUNC) != 0) {
        n->n.stats.dgrams_lost++;
        return;
    }
    memset(&s, 0, sizeof(s));
    memcpy(&s, m->msg_name, snic_min_u64(m->msg_namelen, sizeof(s)));
    net_uring_dgram_control(m, &segment, &ecn);
    for (uint32_t at = 0; (at < size || at == 0) && !d->closing;) {
        uint32_t count = 0;
        for (; (at < size || at == 0) && count < SNIC_NET__URING_MSGS; count++) {
            struct snic_net_msg *g = &d->msgs[count];
            net_uring_addr_from(&g->peer, &s, m->msg_namelen);
            g->data = data + at;
            g->size = segment > 0 && segment < size - at ? segment : size - at;
            g->ecn = ecn;
            g->time_ns = snic_loop_now(n->n.loop);
            at += g->size;
            if (size == 0)
                at = 1; /* an empty datagram is one message */
        }
        n->n.stats.dgrams_in += count;
        d->ev.recv(d->ctx, &d->d, d->msgs, count);
    }
}

static void net_uring_dgram_recv_start(struct net_uring_dgram *d)
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
    if (d->ring != NULL) {
        io_uring_prep_recvmsg_multishot(sqe, d->fd, &d->msg, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = (uint16_t)d->group;
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
    unsigned char *buf = d->data + (size_t)i * SNIC_NET__URING_DGRAM_BYTES;
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

static void net_uring_dgram_recv_done(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct net_uring_dgram *d = SNIC_CONTAINER(op, struct net_uring_dgram, recv_op);
    if ((flags & IORING_CQE_F_MORE) == 0)
        d->recv_busy = 0;
    if ((flags & IORING_CQE_F_BUFFER) != 0) {
        uint32_t i = flags >> IORING_CQE_BUFFER_SHIFT;
        SNIC_ASSERT(i < SNIC_NET__URING_DGRAM_BUFS);
        if (res > 0 && !d->closing)
            net_uring_dgram_picked(d, res, i);
        net_uring_dgram_offer(d, i);
    } else if (res >= 0 && d->ring == NULL && !d->closing) {
        net_uring_dgram_show(d, &d->msg, d->data, (uint32_t)res);
    } else if (res < 0 && res != -ENOBUFS && res != -ECANCELED) {
        d->d.net->stats.errors++; /* ICMP errors and the like: the next receive is another */
    }
    if (!d->recv_busy)
        net_uring_dgram_recv_start(d);
}

/* ---- Sending ---- */

static void net_uring_train_over(struct net_uring_train *s, int error)
{
    struct net_uring_dgram *d = s->d;
    struct snic_net_train *t = s->t;
    s->t = NULL;
    snic_queue_push(&d->free, &s->node);
    t->result = s->count > 0 || error == 0 ? (int32_t)s->count : error;
    d->send_count--;
    t->done(t);
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

/* Put the next bytes of the train, at most @max, into the slot's iovecs; their number. */
static uint32_t net_uring_train_gather(struct net_uring_train *s, uint64_t max)
{
    uint64_t skip = s->sent_bytes;
    uint64_t got = 0;
    size_t count = 0;
    for (uint32_t i = 0; i < s->t->iov_count && got < max; i++) {
        const struct snic_iov *v = &s->t->iov[i];
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

/* The next call of a train; 0 when there is none left to make. */
static int net_uring_train_step(struct net_uring_train *s)
{
    struct net_uring_dgram *d = s->d;
    struct net_uring *n = (struct net_uring *)d->d.net;
    const struct snic_net_train *t = s->t;
    uint64_t left = net_iov_bytes(t->iov, t->iov_count) - s->sent_bytes;
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
        return 0; /* the rest is not sent, and the result says so */
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
        s->sent_bytes += s->now_bytes;
    } else if (gso && (res == -EINVAL || res == -EIO || res == -EMSGSIZE || res == -EOPNOTSUPP)) {
        s->no_gso = 1; /* the path cannot: larger than its MTU, tunnels; one by one then */
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
    if (d->group >= 0) {
        (void)io_uring_unregister_buf_ring(loop_uring_ring(n->n.loop), d->group);
        loop_uring_group_put(n->n.loop, d->group);
    }
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

/* The buffer ring and its buffers lie behind the struct. */
static void net_uring_dgram_ring(struct net_uring_dgram *d, unsigned char *mem)
{
    struct net_uring *n = (struct net_uring *)d->d.net;
    const uint32_t need = SNIC_LOOP_HAVE_BUF_RING | SNIC_LOOP_HAVE_MULTISHOT_RECV;
    d->group = (n->features & need) == need ? loop_uring_group_get(n->n.loop) : -1;
    d->data = mem + 4096;
    if (d->group < 0)
        return;
    struct io_uring_buf_reg reg;
    memset(&reg, 0, sizeof(reg));
    reg.ring_addr = (uint64_t)(uintptr_t)mem;
    reg.ring_entries = SNIC_NET__URING_DGRAM_BUFS;
    reg.bgid = (uint16_t)d->group;
    if (io_uring_register_buf_ring(loop_uring_ring(n->n.loop), &reg, 0) != 0) {
        loop_uring_group_put(n->n.loop, d->group);
        d->group = -1;
        return;
    }
    d->ring = (struct io_uring_buf_ring *)(void *)mem;
    for (uint32_t i = 0; i < SNIC_NET__URING_DGRAM_BUFS; i++)
        net_uring_dgram_offer(d, i);
}

static int net_uring_dgram_bind(const struct snic_net_addr *a, struct snic_net_addr *local)
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
    if (a->family == SNIC_NET_IPV6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &one, sizeof(one));
    } else {
        (void)setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
    }
    if (bind(fd, &s.any, size) < 0) {
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

int net_uring_dgram_open(struct snic_net *base, const struct snic_net_addr *local,
                         const struct snic_net_dgram_events *ev, void *ctx,
                         struct snic_net_dgram **out)
{
    struct net_uring *n = (struct net_uring *)base;
    struct snic_net_addr bound;
    uint32_t slot = 0;
    int one = 1;
    if (ev == NULL || ev->recv == NULL)
        return SNIC_EINVAL;
    while (slot < SNIC_NET__URING_DGRAMS && n->dgrams[slot] != NULL)
        slot++;
    if (slot == SNIC_NET__URING_DGRAMS || n->shutting)
        return SNIC_ENOSPC;
    int fd = net_uring_dgram_bind(local, &bound);
    if (fd < 0)
        return fd;
    size_t head = snic_align_up(sizeof(struct net_uring_dgram), 4096);
    size_t bytes = head + 4096 + (size_t)SNIC_NET__URING_DGRAM_BUFS * SNIC_NET__URING_DGRAM_BYTES;
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mem == MAP_FAILED) {
        (void)close(fd);
        return SNIC_ENOSPC;
    }
    struct net_uring_dgram *d = mem;
    if ((n->n.caps & SNIC_NET_CAP_GRO) != 0)
        (void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
    d->d.net = base;
    d->ev = *ev;
    d->ctx = ctx;
    d->fd = fd;
    d->local = bound;
    d->slot = slot;
    d->bytes = bytes;
    d->recv_op.complete = net_uring_dgram_recv_done;
    d->kick.fn = net_uring_dgram_kicked;
    for (unsigned i = 0; i < SNIC_NET__URING_TRAINS; i++) {
        d->trains[i].d = d;
        d->trains[i].op.complete = net_uring_train_done;
        snic_queue_push(&d->free, &d->trains[i].node);
    }
    net_uring_dgram_ring(d, (unsigned char *)mem + head);
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
