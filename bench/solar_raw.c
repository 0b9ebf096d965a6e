/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What SOLAR and LUNA are measured beside: the same exchange, 4 KiB and a header one way and a
 * small answer the other, over plain sockets and with nothing else in it.
 *
 *   solar_raw [--ns CLIENT SERVER] [--host IP] [--link NAME] [--seconds N] [--rounds N]
 *             [--op write|read] [--who NAME] [--depth N] [--threads 1|2] [--values]
 *
 *   tcp         one connection, TCP_NODELAY, up to 64 KiB a call, all that has come in one call
 *   udp         a datagram each way per RPC, sendmmsg and recvmmsg
 *   gso         requests (reads: answers) in trains of 14 by UDP_SEGMENT and UDP_GRO, a datagram
 *               per answer
 *   gso_gso     answers in trains, too
 *   gso_ackv    one datagram answers all that came together (writes only)
 *
 * One thread runs both ends to completion in turn (the default), which needs no wake-ups and is
 * what the machine's load disturbs least; or two, which sleep when they have nothing to do. Rows
 * are the CPU time of both ends per RPC, medians of rounds in which all cases take turns.
 * --ns: the ends lie in these network namespaces (ip netns), and --host is the server's address.
 * --values: "value OP WHO DEPTH ns_cpu ns_wall" for each round, for scripts that take turns with
 * other programs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
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
#define ROUNDS_MAX 99

enum who { TCP, UDP, GSO, GSO_GSO, GSO_ACKV, WHO_END };
enum how { STREAM, SINGLE, TRAINS, VECTOR };
static const char *const who_name[] = {"tcp", "udp", "gso", "gso_gso", "gso_ackv"};

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

static struct options {
    const char *ns[2];
    const char *host;
    const char *link;
    const char *who;
    const char *op;
    double seconds;
    unsigned rounds;
    unsigned depth;
    unsigned threads;
    int values;
} opt = {{NULL, NULL}, "127.0.0.1", "lo", NULL, NULL, 0.2, 5, 0, 1, 0};

static unsigned char payload[4096];
static unsigned char header[HEADER];

static void die(const char *what)
{
    fprintf(stderr, "solar_raw: %s: %s\n", what, strerror(errno));
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
            v[n++] = (struct iovec){payload, bytes - HEADER};
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

static int home = -1;

/* A socket in the namespace of @p side (0: client, 1: server). */
static int make_socket(int side, int type)
{
    char path[256];
    int one = 1, bytes = 16 << 20;
    if (opt.ns[side] != NULL) {
        (void)snprintf(path, sizeof(path), "/run/netns/%s", opt.ns[side]);
        int ns = open(path, O_RDONLY | O_CLOEXEC);
        if (ns < 0 || setns(ns, CLONE_NEWNET) < 0)
            die(path);
        (void)close(ns);
    }
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket");
    if (opt.ns[side] != NULL && setns(home, CLONE_NEWNET) < 0)
        die("setns");
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
    if (inet_pton(AF_INET, opt.host, &a.sin_addr) != 1 ||
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
    if (inet_pton(AF_INET, opt.host, &c->peer.sin_addr) != 1 ||
        sendto(c->fd, &byte, 1, 0, (struct sockaddr *)&c->peer, sizeof(c->peer)) != 1 ||
        recvfrom(s->fd, &byte, 1, 0, (struct sockaddr *)&s->peer, &size) != 1)
        die("the first datagram");
    if (c->in == TRAINS)
        (void)setsockopt(c->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
    if (s->in == TRAINS)
        (void)setsockopt(s->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
}

static void ends_open(struct end *c, struct end *s, enum who who, int read)
{
    static const enum how question[2][WHO_END] = {{STREAM, SINGLE, TRAINS, TRAINS, TRAINS},
                                                  {STREAM, SINGLE, SINGLE, TRAINS, TRAINS}};
    static const enum how answer[2][WHO_END] = {{STREAM, SINGLE, SINGLE, TRAINS, VECTOR},
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
    if (who == TCP)
        ends_tcp(c, s);
    else
        ends_udp(c, s);
}

/* ---- A run ---- */

struct value {
    double cpu_ns;
    double wall_ns;
};

/* The server as a thread: answers what comes until the connection ends or a byte says so. */
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
    if (opt.threads == 1) {
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

static void server_end(struct end *c, enum who who)
{
    if (who == TCP)
        (void)shutdown(c->fd, SHUT_WR);
    else if (sendto(c->fd, "", 0, 0, (struct sockaddr *)&c->peer, sizeof(c->peer)) < 0)
        die("the last datagram");
}

static struct value run(enum who who, int read, unsigned depth)
{
    struct end c, s;
    pthread_t thread;
    uint64_t rpcs = 0, wall = 0;
    ends_open(&c, &s, who, read);
    const struct timeval patience = {2, 0};
    (void)setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (opt.threads == 2 && (errno = pthread_create(&thread, NULL, server_run, &s)) != 0)
        die("thread");
    for (unsigned i = 0; i < 200; i++)
        batch(&c, &s, depth);
    uint64_t cpu = clock_of(CLOCK_THREAD_CPUTIME_ID), start = clock_of(CLOCK_MONOTONIC);
    while (wall < (uint64_t)(opt.seconds * 1e9)) {
        for (unsigned i = 0; i < 16; i++)
            batch(&c, &s, depth);
        rpcs += 16 * (uint64_t)depth;
        wall = clock_of(CLOCK_MONOTONIC) - start;
    }
    cpu = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
    if (opt.threads == 2) {
        server_end(&c, who);
        (void)pthread_join(thread, NULL);
        /* Of the whole thread; warming up counts as what it did. */
        cpu += (uint64_t)((double)s.cpu_ns * (double)rpcs / (double)(rpcs + 200 * depth));
    }
    (void)close(c.fd);
    (void)close(s.fd);
    return (struct value){(double)cpu / (double)rpcs, (double)wall / (double)rpcs};
}

/* ---- Rounds ---- */

static const unsigned depths[] = {1, 4, 8, 14, 28};
#define DEPTHS (sizeof(depths) / sizeof(depths[0]))

static int wanted(int read, enum who who, unsigned depth)
{
    return (opt.op == NULL || strcmp(opt.op, read ? "read" : "write") == 0) &&
           (opt.who == NULL || strcmp(opt.who, who_name[who]) == 0) &&
           (opt.depth == 0 || opt.depth == depth) && !(read && who == GSO_ACKV) &&
           !(opt.threads == 2 && opt.who == NULL && who != TCP && who != UDP && who != GSO_ACKV);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *v)
{
    qsort(v, opt.rounds, sizeof(*v), by_size);
    return v[opt.rounds / 2];
}

static void measure(void)
{
    static double cpu[2][WHO_END][DEPTHS][ROUNDS_MAX], wall[2][WHO_END][DEPTHS][ROUNDS_MAX];
    for (unsigned r = 0; r < opt.rounds; r++) {
        for (unsigned i = 0; i < 2 * WHO_END * DEPTHS; i++) {
            unsigned read = i % 2, who = i / 2 % WHO_END, d = i / 2 / WHO_END;
            if (!wanted((int)read, (enum who)who, depths[d]))
                continue;
            struct value v = run((enum who)who, (int)read, depths[d]);
            cpu[read][who][d][r] = v.cpu_ns;
            wall[read][who][d][r] = v.wall_ns;
            if (opt.values)
                printf("value %s %s %u %.0f %.0f\n", read ? "read" : "write", who_name[who],
                       depths[d], v.cpu_ns, v.wall_ns);
        }
    }
    for (unsigned i = 0; i < 2 * WHO_END * DEPTHS && !opt.values; i++) {
        unsigned d = i % DEPTHS, who = i / DEPTHS % WHO_END, read = i / DEPTHS / WHO_END;
        if (!wanted((int)read, (enum who)who, depths[d]))
            continue;
        const char *op = read ? "read" : "write";
        printf("row solar raw_%s:%s:d%u %s %u %.0f ns_cpu/rpc\n", op, opt.link, depths[d],
               who_name[who], opt.threads, middle(cpu[read][who][d]));
        printf("row solar raw_%s_rate:%s:d%u %s %u %.0f rpc/s\n", op, opt.link, depths[d],
               who_name[who], opt.threads, 1e9 / middle(wall[read][who][d]));
    }
}

static const char *next(int argc, char **argv, int *i)
{
    if (++*i >= argc) {
        fprintf(stderr, "solar_raw: %s what?\n", argv[*i - 1]);
        exit(2);
    }
    return argv[*i];
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--values") == 0) {
            opt.values = 1;
        } else if (strcmp(name, "--ns") == 0) {
            opt.ns[0] = next(argc, argv, &i);
            opt.ns[1] = next(argc, argv, &i);
        } else if (strcmp(name, "--host") == 0) {
            opt.host = next(argc, argv, &i);
        } else if (strcmp(name, "--link") == 0) {
            opt.link = next(argc, argv, &i);
        } else if (strcmp(name, "--who") == 0) {
            opt.who = next(argc, argv, &i);
        } else if (strcmp(name, "--op") == 0) {
            opt.op = next(argc, argv, &i);
        } else if (strcmp(name, "--seconds") == 0) {
            opt.seconds = strtod(next(argc, argv, &i), NULL);
        } else if (strcmp(name, "--rounds") == 0) {
            opt.rounds = (unsigned)strtoul(next(argc, argv, &i), NULL, 10);
        } else if (strcmp(name, "--depth") == 0) {
            opt.depth = (unsigned)strtoul(next(argc, argv, &i), NULL, 10);
        } else if (strcmp(name, "--threads") == 0) {
            opt.threads = (unsigned)strtoul(next(argc, argv, &i), NULL, 10);
        } else {
            fprintf(stderr, "solar_raw: %s? The head of solar_raw.c says what there is\n", name);
            return 2;
        }
    }
    if (opt.rounds < 1 || opt.rounds > ROUNDS_MAX || opt.threads < 1 || opt.threads > 2 ||
        !(opt.seconds > 0 && opt.seconds < 3600)) {
        fprintf(stderr, "solar_raw: a number out of its range\n");
        return 2;
    }
    home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    memset(payload, 0x5a, sizeof(payload));
    pin(1);
    measure();
    return 0;
}
