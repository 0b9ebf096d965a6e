/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Plain sockets: the exchanges that bench/solar_raw.c describes. */
#include "solar_peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define HEADER 64
#define LARGE (64 + 4096)
#define ENTRY 32 /* of an acknowledgement vector */
#define TRAIN 14
#define DEPTH_MAX 64
#define BUFFER (DEPTH_MAX * LARGE + 65536)

enum how { STREAM, SINGLE, TRAINS, VECTOR };

/* One end of an exchange: how it sends and receives messages of which size. */
struct end {
    int fd;
    struct sockaddr_in peer;
    enum how out;
    enum how in;
    uint32_t out_bytes;
    uint32_t in_bytes;
    uint32_t part; /* STREAM: bytes of a message that is not complete */
    unsigned char *buffer;
    uint64_t cpu_ns; /* of a thread of its own */
};

static struct peer_where where;
static int home = -1;
static unsigned char payload[DEPTH_MAX][4096]; /* each RPC in flight has its own */
static unsigned payloads, payload_turn;
static unsigned char header[HEADER];

static void die(const char *what)
{
    fprintf(stderr, "solar_peers: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void pin(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

/* ---- Sending ---- */

/* The pieces of @p count messages of @p bytes. @return how many pieces */
static unsigned pieces(struct iovec *v, unsigned count, uint32_t bytes)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++) {
        v[n++] = (struct iovec){header, HEADER};
        if (bytes > HEADER)
            v[n++] = (struct iovec){payload[payload_turn++ % payloads], bytes - HEADER};
    }
    return n;
}

static void send_stream(struct end *e, unsigned count)
{
    struct iovec v[2 * DEPTH_MAX];
    unsigned most = 65536 / e->out_bytes < DEPTH_MAX ? 65536 / e->out_bytes : DEPTH_MAX;
    while (count > 0) {
        unsigned n = count < most ? count : most;
        struct msghdr m = {.msg_iov = v, .msg_iovlen = pieces(v, n, e->out_bytes)};
        size_t left = (size_t)n * e->out_bytes;
        while (left > 0) {
            ssize_t r = sendmsg(e->fd, &m, MSG_NOSIGNAL);
            if (r <= 0)
                die("send");
            left -= (size_t)r;
            for (size_t k = (size_t)r; k > 0;) { /* a part: on from there */
                size_t now = k < m.msg_iov->iov_len ? k : m.msg_iov->iov_len;
                m.msg_iov->iov_base = (char *)m.msg_iov->iov_base + now;
                m.msg_iov->iov_len -= now;
                k -= now;
                if (m.msg_iov->iov_len == 0 && m.msg_iovlen > 1) {
                    m.msg_iov++;
                    m.msg_iovlen--;
                }
            }
        }
        count -= n;
    }
}

static void send_single(struct end *e, unsigned count)
{
    struct mmsghdr m[DEPTH_MAX];
    struct iovec v[2 * DEPTH_MAX];
    unsigned each = e->out_bytes > HEADER ? 2 : 1;
    (void)pieces(v, count, e->out_bytes);
    memset(m, 0, count * sizeof(m[0]));
    for (unsigned i = 0; i < count; i++) {
        m[i].msg_hdr.msg_name = &e->peer;
        m[i].msg_hdr.msg_namelen = sizeof(e->peer);
        m[i].msg_hdr.msg_iov = &v[i * each];
        m[i].msg_hdr.msg_iovlen = each;
    }
    for (unsigned sent = 0; sent < count;) {
        int r = sendmmsg(e->fd, m + sent, count - sent, 0);
        if (r <= 0)
            die("sendmmsg");
        sent += (unsigned)r;
    }
}

static void send_trains(struct end *e, unsigned count)
{
    struct iovec v[2 * DEPTH_MAX];
    union {
        struct cmsghdr k;
        unsigned char bytes[CMSG_SPACE(sizeof(uint16_t))];
    } control;
    unsigned most = e->out_bytes > HEADER ? TRAIN : 60;
    while (count > 0) {
        unsigned n = count < most ? count : most;
        struct msghdr m = {.msg_iov = v, .msg_iovlen = pieces(v, n, e->out_bytes)};
        m.msg_name = &e->peer;
        m.msg_namelen = sizeof(e->peer);
        if (n > 1) {
            uint16_t segment = (uint16_t)e->out_bytes;
            memset(&control, 0, sizeof(control));
            control.k.cmsg_level = IPPROTO_UDP;
            control.k.cmsg_type = UDP_SEGMENT;
            control.k.cmsg_len = CMSG_LEN(sizeof(segment));
            memcpy(CMSG_DATA(&control.k), &segment, sizeof(segment));
            m.msg_control = &control;
            m.msg_controllen = sizeof(control);
        }
        if (sendmsg(e->fd, &m, 0) < 0)
            die("sendmsg of a train");
        count -= n;
    }
}

static void send_vector(struct end *e, unsigned count)
{
    unsigned char bytes[HEADER + DEPTH_MAX * ENTRY];
    memset(bytes, 0, HEADER + count * ENTRY);
    memcpy(bytes, &count, sizeof(count));
    if (sendto(e->fd, bytes, HEADER + count * ENTRY, 0, (struct sockaddr *)&e->peer,
               sizeof(e->peer)) < 0)
        die("sendto");
}

static void end_send(struct end *e, unsigned count)
{
    static void (*const send_as[])(struct end *, unsigned) = {send_stream, send_single, send_trains,
                                                              send_vector};
    send_as[e->out](e, count);
}

/* ---- Receiving: how many messages came; 0: none, with MSG_DONTWAIT ---- */

static unsigned take_stream(struct end *e, int flags)
{
    ssize_t r = recv(e->fd, e->buffer, BUFFER, flags);
    if (r < 0 && errno != EAGAIN)
        die("recv");
    if (r <= 0)
        return 0;
    uint64_t bytes = e->part + (uint64_t)r;
    e->part = (uint32_t)(bytes % e->in_bytes);
    return (unsigned)(bytes / e->in_bytes);
}

static unsigned take_single(struct end *e, int flags)
{
    struct mmsghdr m[DEPTH_MAX];
    struct iovec v[DEPTH_MAX];
    memset(m, 0, sizeof(m));
    for (unsigned i = 0; i < DEPTH_MAX; i++) {
        v[i] = (struct iovec){e->buffer + (size_t)i * LARGE, LARGE};
        m[i].msg_hdr.msg_iov = &v[i];
        m[i].msg_hdr.msg_iovlen = 1;
    }
    int r = recvmmsg(e->fd, m, DEPTH_MAX, flags == 0 ? MSG_WAITFORONE : flags, NULL);
    if (r < 0 && errno != EAGAIN)
        die("recvmmsg");
    unsigned count = 0;
    for (int i = 0; i < r; i++)
        count += m[i].msg_len > 0; /* an empty one ends it */
    return count;
}

static unsigned take_trains(struct end *e, int flags)
{
    union {
        struct cmsghdr k;
        unsigned char bytes[CMSG_SPACE(sizeof(int)) + 64];
    } control;
    struct iovec v = {e->buffer, BUFFER};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t r = recvmsg(e->fd, &m, flags);
    if (r < 0 && errno != EAGAIN)
        die("recvmsg");
    return r < 0 ? 0 : (unsigned)((size_t)r / e->in_bytes);
}

static unsigned take_vector(struct end *e, int flags)
{
    unsigned count = 0;
    ssize_t r = recv(e->fd, e->buffer, BUFFER, flags);
    if (r < 0 && errno != EAGAIN)
        die("recv of a vector");
    if (r >= HEADER)
        memcpy(&count, e->buffer, sizeof(count));
    return count;
}

static unsigned end_take(struct end *e, int flags)
{
    static unsigned (*const take_as[])(struct end *, int) = {take_stream, take_single, take_trains,
                                                             take_vector};
    return take_as[e->in](e, flags);
}

/* All of @p count; a little patience where another thread of the kernel has them. */
static void end_take_all(struct end *e, unsigned count)
{
    for (unsigned empty = 0; count > 0;) {
        unsigned n = end_take(e, MSG_DONTWAIT);
        if (n > count)
            die("more answers than questions");
        count -= n;
        empty = n > 0 ? 0 : empty + 1;
        if (empty > 2) {
            struct pollfd p = {.fd = e->fd, .events = POLLIN};
            if (poll(&p, 1, 1000) == 0) {
                errno = ETIMEDOUT;
                die("a datagram was lost");
            }
        }
    }
}

/* ---- The two ends ---- */

void peer_enter(const char *ns)
{
    static int away;
    char path[256];
    if (ns == NULL && !away)
        return;
    away = 1;
    if (home < 0)
        home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    (void)snprintf(path, sizeof(path), "/run/netns/%s", ns != NULL ? ns : "");
    int fd = ns != NULL ? open(path, O_RDONLY | O_CLOEXEC) : home;
    if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
        die(ns != NULL ? path : "setns");
    if (fd != home)
        (void)close(fd);
}

/* A socket in the namespace of @p side (0: client, 1: server). */
static int make_socket(int side, int type)
{
    int one = 1, bytes = 16 << 20;
    if (where.ns[side] != NULL)
        peer_enter(where.ns[side]);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket");
    if (where.ns[side] != NULL)
        peer_enter(NULL);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (type == SOCK_STREAM)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    return fd;
}

static void name_of(int fd, struct sockaddr_in *a)
{
    socklen_t size = sizeof(*a);
    if (getsockname(fd, (struct sockaddr *)a, &size) < 0)
        die("getsockname");
}

static void ends_tcp(struct end *c, struct end *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    int one = 1, l = make_socket(1, SOCK_STREAM);
    c->fd = make_socket(0, SOCK_STREAM);
    if (bind(l, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(l, 1) < 0)
        die("listen");
    name_of(l, &a);
    if (inet_pton(AF_INET, where.host, &a.sin_addr) != 1 ||
        connect(c->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        die("connect");
    s->fd = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    if (s->fd < 0)
        die("accept");
    (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)close(l);
}

static void ends_udp(struct end *c, struct end *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    int one = 1;
    unsigned char byte = 0;
    socklen_t size = sizeof(s->peer);
    c->fd = make_socket(0, SOCK_DGRAM);
    s->fd = make_socket(1, SOCK_DGRAM);
    if (bind(s->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        die("bind");
    name_of(s->fd, &a);
    c->peer = a;
    if (inet_pton(AF_INET, where.host, &c->peer.sin_addr) != 1 ||
        sendto(c->fd, &byte, 1, 0, (struct sockaddr *)&c->peer, sizeof(c->peer)) != 1 ||
        recvfrom(s->fd, &byte, 1, 0, (struct sockaddr *)&s->peer, &size) != 1)
        die("the first datagram");
    if (c->in == TRAINS)
        (void)setsockopt(c->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
    if (s->in == TRAINS)
        (void)setsockopt(s->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
}

static void ends_open(struct end *c, struct end *s, enum peer who, int read)
{
    static const enum how question[2][PEERS] = {{STREAM, SINGLE, TRAINS, TRAINS, TRAINS},
                                                {STREAM, SINGLE, SINGLE, TRAINS, TRAINS}};
    static const enum how answer[2][PEERS] = {{STREAM, SINGLE, SINGLE, TRAINS, VECTOR},
                                              {STREAM, SINGLE, TRAINS, TRAINS, TRAINS}};
    static unsigned char buffers[2][BUFFER];
    memset(c, 0, sizeof(*c));
    memset(s, 0, sizeof(*s));
    c->buffer = buffers[0];
    s->buffer = buffers[1];
    c->out = s->in = question[read][who];
    c->in = s->out = answer[read][who];
    c->out_bytes = s->in_bytes = read ? HEADER : LARGE;
    c->in_bytes = s->out_bytes = read ? LARGE : HEADER;
    if (who == PEER_TCP)
        ends_tcp(c, s);
    else
        ends_udp(c, s);
}

/* ---- A run ---- */

/* The server as a thread: answers requests until the connection ends or an empty datagram comes. */
static void *server_run(void *arg)
{
    struct end *s = arg;
    pin(0);
    for (;;) {
        unsigned n = end_take(s, 0);
        if (n == 0)
            break;
        end_send(s, n);
    }
    s->cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

static void batch(struct end *c, struct end *s, unsigned depth)
{
    end_send(c, depth);
    if (where.threads == 1) {
        end_take_all(s, depth);
        end_send(s, depth);
        end_take_all(c, depth);
        return;
    }
    for (unsigned got = 0, n; got < depth; got += n) {
        n = end_take(c, 0);
        if (n == 0)
            die("an answer was lost");
    }
}

static void server_end(struct end *c, enum peer who)
{
    if (who == PEER_TCP)
        (void)shutdown(c->fd, SHUT_WR);
    else if (sendto(c->fd, "", 0, 0, (struct sockaddr *)&c->peer, sizeof(c->peer)) < 0)
        die("the last datagram");
}

struct peer_value peer_run(const struct peer_where *w, enum peer who, int read, unsigned depth,
                           double seconds)
{
    struct end c, s;
    pthread_t thread;
    uint64_t rpcs = 0, wall = 0;
    where = *w;
    memset(payload, 0x5a, sizeof(payload));
    payloads = depth;
    ends_open(&c, &s, who, read);
    const struct timeval patience = {2, 0};
    (void)setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (where.threads == 2 && (errno = pthread_create(&thread, NULL, server_run, &s)) != 0)
        die("thread");
    for (unsigned i = 0; i < 200; i++)
        batch(&c, &s, depth);
    uint64_t cpu = clock_of(CLOCK_THREAD_CPUTIME_ID), start = clock_of(CLOCK_MONOTONIC);
    while (wall < (uint64_t)(seconds * 1e9)) {
        for (unsigned i = 0; i < 16; i++)
            batch(&c, &s, depth);
        rpcs += 16 * (uint64_t)depth;
        wall = clock_of(CLOCK_MONOTONIC) - start;
    }
    cpu = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
    if (where.threads == 2) {
        server_end(&c, who);
        (void)pthread_join(thread, NULL);
        /* Of the whole thread; warming up counts as what it did. */
        cpu += (uint64_t)((double)s.cpu_ns * (double)rpcs / (double)(rpcs + 200 * depth));
    }
    (void)close(c.fd);
    (void)close(s.fd);
    return (struct peer_value){(double)cpu / (double)rpcs, (double)wall / (double)rpcs};
}
