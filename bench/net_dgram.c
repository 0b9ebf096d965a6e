/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Trains of datagrams through the door, beside the same calls on plain sockets: N times 4160 bytes
 * in trains of 14 one way, one small datagram back, over loopback, both ends in one thread that
 * runs them in turn. CPU time of both ends per datagram of 4160 bytes.
 */
#include "net_dgram.h"

#include "snicstore/net.h"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define REPEATS 5
#define LARGE 4160
#define SMALL 96
#define TRAIN 14
#define TRAINS 2

static unsigned char header[64], payload[4096], answer[SMALL];

static void die(const char *what)
{
    (void)fprintf(stderr, "bench_net: %s\n", what);
    exit(1);
}

static uint64_t clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static uint32_t pieces(struct snic_iov *v, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        v[2 * i] = (struct snic_iov){header, sizeof(header)};
        v[2 * i + 1] = (struct snic_iov){payload, sizeof(payload)};
    }
    return 2 * count;
}

/* ---- Ours ---- */

struct side {
    struct snic_net *net;
    struct snic_net_dgram *d;
    struct snic_net_addr addr;
    struct snic_net_train trains[TRAINS];
    struct snic_iov iov[TRAINS][2 * TRAIN];
    uint32_t got;
    uint32_t sending;
};

static struct {
    struct snic_loop *loop;
    struct side c;
    struct side s;
    uint32_t depth;
} ours;

static void ours_done(struct snic_net_train *t)
{
    struct side *s = t >= ours.c.trains && t < ours.c.trains + TRAINS ? &ours.c : &ours.s;
    if (t->result < 0)
        die("a train was not sent");
    s->sending--;
}

static void ours_send(struct side *from, const struct snic_net_addr *to, uint32_t i,
                      uint32_t iov_count, uint32_t segment)
{
    struct snic_net_train *t = &from->trains[i];
    memset(t, 0, sizeof(*t));
    t->done = ours_done;
    t->peer = *to;
    t->iov = from->iov[i];
    t->iov_count = iov_count;
    t->segment = segment;
    from->sending++;
    if (snic_net_dgram_send(from->d, t) != 1)
        die("no room for a train");
}

static void ours_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *m,
                      uint32_t count)
{
    struct side *s = ctx;
    (void)d;
    s->got += count;
    if (s == &ours.s && s->got == ours.depth) {
        s->got = 0;
        s->iov[0][0] = (struct snic_iov){answer, SMALL};
        ours_send(s, &m[0].peer, 0, 1, SMALL);
    }
}

static void ours_side(struct side *s)
{
    const struct snic_net_dgram_events ev = {.recv = ours_recv};
    struct snic_net_uring_opts o = {.opts_size = sizeof(o), .dgram_recv_bytes = 8u << 20};
    if (snic_net_uring_open(&s->net, ours.loop, &o) != 0 ||
        snic_net_addr_parse(&s->addr, "127.0.0.1:0") != 0 ||
        snic_net_dgram_open(s->net, &s->addr, &ev, s, &s->d) != 0 ||
        snic_net_dgram_addr(s->d, &s->addr) != 0)
        die("no socket");
}

static void ours_batch(uint32_t depth)
{
    ours.depth = depth;
    for (uint32_t i = 0; i * TRAIN < depth; i++) {
        uint32_t n = depth - i * TRAIN < TRAIN ? depth - i * TRAIN : TRAIN;
        ours_send(&ours.c, &ours.s.addr, i, pieces(ours.c.iov[i], n), LARGE);
    }
    while (ours.c.got == 0 || ours.c.sending + ours.s.sending > 0) {
        if (snic_loop_once(ours.loop, 1000000000) <= 0)
            die("a datagram was lost");
    }
    ours.c.got = 0;
}

/* ---- Plain sockets ---- */

static struct {
    int fd[2];
    struct sockaddr_in addr[2];
} plain;

static void plain_open(void)
{
    int one = 1, bytes = 8 << 20;
    for (int i = 0; i < 2; i++) {
        socklen_t size = sizeof(plain.addr[i]);
        plain.addr[i].sin_family = AF_INET;
        plain.addr[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        plain.fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (plain.fd[i] < 0 ||
            bind(plain.fd[i], (struct sockaddr *)&plain.addr[i], sizeof(plain.addr[i])) < 0 ||
            getsockname(plain.fd[i], (struct sockaddr *)&plain.addr[i], &size) < 0)
            die("no plain socket");
        (void)setsockopt(plain.fd[i], SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
        (void)setsockopt(plain.fd[i], IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
    }
}

static void plain_send(int from, struct snic_iov *v, uint32_t count, uint16_t segment)
{
    union {
        struct cmsghdr k;
        unsigned char bytes[CMSG_SPACE(sizeof(uint16_t))];
    } control;
    struct msghdr m = {.msg_name = &plain.addr[1 - from],
                       .msg_namelen = sizeof(plain.addr[0]),
                       .msg_iov = (struct iovec *)(void *)v,
                       .msg_iovlen = count};
    if (count > 2) {
        memset(&control, 0, sizeof(control));
        control.k.cmsg_level = IPPROTO_UDP;
        control.k.cmsg_type = UDP_SEGMENT;
        control.k.cmsg_len = CMSG_LEN(sizeof(segment));
        memcpy(CMSG_DATA(&control.k), &segment, sizeof(segment));
        m.msg_control = &control;
        m.msg_controllen = sizeof(control);
    }
    if (sendmsg(plain.fd[from], &m, 0) < 0)
        die("sendmsg");
}

static uint32_t plain_recv(int at)
{
    static unsigned char bytes[65536];
    unsigned char control[64];
    struct iovec v = {bytes, sizeof(bytes)};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(plain.fd[at], &m, 0);
    if (n <= 0)
        die("recvmsg");
    return (uint32_t)n;
}

static void plain_batch(uint32_t depth)
{
    struct snic_iov v[2 * TRAIN];
    uint32_t got = 0;
    for (uint32_t i = 0; i < depth; i += TRAIN) {
        uint32_t n = depth - i < TRAIN ? depth - i : TRAIN;
        plain_send(0, v, pieces(v, n), LARGE);
    }
    while (got < depth)
        got += plain_recv(1) / LARGE;
    v[0] = (struct snic_iov){answer, SMALL};
    plain_send(1, v, 1, SMALL);
    (void)plain_recv(0);
}

/* ---- Rows ---- */

static double run(void (*batch)(uint32_t), uint32_t depth, double seconds)
{
    uint64_t count = 0, wall = clock_of(CLOCK_MONOTONIC);
    for (uint32_t i = 0; i < 100; i++)
        batch(depth);
    uint64_t cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
    while ((double)(clock_of(CLOCK_MONOTONIC) - wall) < seconds * 1e9) {
        for (uint32_t i = 0; i < 16; i++)
            batch(depth);
        count += 16 * (uint64_t)depth;
    }
    cpu = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
    return count == 0 ? 0 : (double)cpu / (double)count;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void net_dgram_rows(double seconds)
{
    static const uint32_t depths[] = {1, 4, 8, 14, 28};
    if (snic_loop_uring_open(&ours.loop, NULL) != 0)
        die("no io_uring");
    ours_side(&ours.c);
    ours_side(&ours.s);
    plain_open();
    for (size_t k = 0; k < SNIC_COUNTOF(depths); k++) {
        double v[2][REPEATS];
        for (int r = 0; r < REPEATS; r++) {
            v[0][r] = run(ours_batch, depths[k], seconds);
            v[1][r] = run(plain_batch, depths[k], seconds);
        }
        qsort(v[0], REPEATS, sizeof(double), by_value);
        qsort(v[1], REPEATS, sizeof(double), by_value);
        printf("row net dgram_train_d%u ours 1 %.0f ns_cpu/op\n", depths[k], v[0][REPEATS / 2]);
        printf("row net dgram_train_d%u sockets 1 %.0f ns_cpu/op\n", depths[k], v[1][REPEATS / 2]);
        printf("ratio net dgram_train_d%u ours/sockets 1 %.2f\n", depths[k],
               v[1][REPEATS / 2] / v[0][REPEATS / 2]);
    }
    for (int i = 0; i < 2; i++)
        (void)close(plain.fd[i]);
    snic_net_shut(ours.c.net);
    snic_net_shut(ours.s.net);
    snic_loop_close(ours.loop);
}
