/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What only datagram sockets of the kernel have: trains in one piece, many sockets on one loop,
 * sizes of buffers, no fragments, news that come in storms; and patience of TCP, which is its.
 */
#include "support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "snicstore/net.h"

#define SOCKS 300
#define TRAINS 64

struct sock {
    struct snic_net_dgram *d;
    struct snic_net_addr addr;
    uint32_t messages;
    uint32_t calls;
    uint32_t together; /* messages that lay one behind the other */
    uint32_t news;
    uint64_t bytes;
    uint64_t time_ns; /* of the last one */
};

struct train {
    struct snic_net_train t;
    struct snic_iov iov;
    int busy;
};

struct env {
    struct snic_loop *loop;
    struct snic_net *net;
    struct sock socks[SOCKS];
    struct train trains[SOCKS];
    unsigned char bytes[65536];
};

static struct env e;

static void sock_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *m,
                      uint32_t count)
{
    struct sock *s = ctx;
    assert_ptr_equal(d, s->d);
    s->calls++;
    s->messages += count;
    for (uint32_t i = 0; i < count; i++) {
        s->bytes += m[i].size;
        s->time_ns = m[i].time_ns;
        s->together += i > 0 && m[i].data == m[i - 1].data + m[i - 1].size;
        assert_memory_equal(m[i].data, e.bytes, m[i].size);
    }
}

static void sock_news(void *ctx, struct snic_net_dgram *d, const struct snic_net_addr *peer,
                      int error)
{
    struct sock *s = ctx;
    assert_ptr_equal(d, s->d);
    assert_int_equal(error, SNIC_ECONNREFUSED);
    assert_int_equal(peer->family, SNIC_NET_IPV4);
    s->news++;
}

static void env_open(const struct snic_net_uring_opts *o)
{
    memset(&e, 0, sizeof(e));
    int r = snic_loop_uring_open(&e.loop, NULL);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring");
    assert_int_equal(r, 0);
    assert_int_equal(snic_net_uring_open(&e.net, e.loop, o), 0);
}

static void env_close(void)
{
    snic_net_shut(e.net);
    snic_loop_close(e.loop);
}

static void sock_open(uint32_t i, int news)
{
    const struct snic_net_dgram_events plain = {.recv = sock_recv};
    const struct snic_net_dgram_events all = {.recv = sock_recv, .unreachable = sock_news};
    struct snic_net_addr a;
    assert_int_equal(snic_net_addr_parse(&a, "127.0.0.1:0"), 0);
    assert_int_equal(
        snic_net_dgram_open(e.net, &a, news ? &all : &plain, &e.socks[i], &e.socks[i].d), 0);
    assert_int_equal(snic_net_dgram_addr(e.socks[i].d, &e.socks[i].addr), 0);
}

static void train_done(struct snic_net_train *t)
{
    SNIC_CONTAINER(t, struct train, t)->busy = 0;
}

static void train_send(uint32_t from, const struct snic_net_addr *to, uint32_t i, uint32_t count,
                       uint32_t segment)
{
    struct train *t = &e.trains[i];
    unsigned char *bytes = e.bytes;
    for (uint32_t k = segment; k < count * segment; k++)
        bytes[k] = bytes[k % segment];
    memset(&t->t, 0, sizeof(t->t));
    t->iov.base = bytes;
    t->iov.size = (size_t)count * segment;
    t->t.done = train_done;
    t->t.peer = *to;
    t->t.iov = &t->iov;
    t->t.iov_count = 1;
    t->t.segment = segment;
    t->busy = 1;
    assert_int_equal(snic_net_dgram_send(e.socks[from].d, &t->t), 1);
}

/* Until nothing has happened for a while. @return times that something did */
static uint32_t settle(void)
{
    uint32_t busy = 0;
    for (uint32_t idle = 0; idle < 20;) {
        int r = snic_loop_once(e.loop, 1000000);
        assert_true(r >= 0);
        busy += r > 0;
        idle = r > 0 ? 0 : idle + 1;
        assert_true(busy < 100000); /* else it turns for ever */
    }
    return busy;
}

/* A train would leave or arrive in pieces, or be copied apart. */
static void test_net_dgram_train_lies_together(void **state)
{
    (void)state;
    env_open(NULL);
    if ((e.net->caps & SNIC_NET_CAP_GSO) == 0 || (e.net->caps & SNIC_NET_CAP_GRO) == 0) {
        env_close();
        support_skip("no GSO or GRO");
    }
    sock_open(0, 0);
    sock_open(1, 0);
    train_send(0, &e.socks[1].addr, 0, 14, 4224);
    (void)settle();
    assert_int_equal(e.socks[1].messages, 14);
    assert_int_equal(e.socks[1].calls, 1);
    assert_int_equal(e.socks[1].together, 13);
    assert_int_equal(e.trains[0].t.result, 14);
    env_close();
}

/* Sockets would run out below their number, or starve each other of buffers. */
static void test_net_dgram_many_sockets_one_loop(void **state)
{
    struct snic_net_uring_opts o = {.opts_size = sizeof(o), .dgrams_max = SOCKS};
    struct snic_net_addr a;
    struct snic_net_dgram *d = NULL;
    const struct snic_net_dgram_events ev = {.recv = sock_recv};
    (void)state;
    env_open(&o);
    for (uint32_t i = 0; i < SOCKS; i++)
        sock_open(i, 0);
    assert_int_equal(snic_net_addr_parse(&a, "127.0.0.1:0"), 0);
    assert_int_equal(snic_net_dgram_open(e.net, &a, &ev, NULL, &d), SNIC_ENOSPC);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < SOCKS; i++)
            train_send(i, &e.socks[(i + 1) % SOCKS].addr, i, 3, 1000);
        (void)settle();
        for (uint32_t i = 0; i < SOCKS; i++)
            assert_int_equal(e.socks[i].messages, 3 * (round + 1));
    }
    assert_int_equal(e.net->stats.dgrams_lost, 0);
    snic_net_dgram_close(e.socks[7].d);
    (void)settle();
    sock_open(7, 0);
    env_close();
}

/* A plain socket that sends without our loop. */
static void plain_send(const struct snic_net_addr *to, uint32_t count, size_t size)
{
    struct sockaddr_in a;
    memset(&a, 0, sizeof(a));
    a.sin_family = AF_INET;
    a.sin_port = htons(to->port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(sendto(fd, e.bytes, size, 0, (struct sockaddr *)&a, sizeof(a)), size);
    (void)close(fd);
}

/* What the kernel drops would not be counted, or the size asked for not be had. */
static void test_net_dgram_small_buffer_drops_counted_large_does_not(void **state)
{
    struct snic_net_uring_opts o = {.opts_size = sizeof(o), .dgram_recv_bytes = 20000};
    (void)state;
    /* Without multishot nothing is received while no thread polls. */
    for (int large = 0; large < 2; large++) {
        if (large)
            o.dgram_recv_bytes = 64u << 20;
        env_open(&o);
        sock_open(0, 0);
        plain_send(&e.socks[0].addr, 400, 8000);
        (void)settle();
        uint32_t got = e.socks[0].messages;
        plain_send(&e.socks[0].addr, 1, 8000);
        (void)settle();
        assert_int_equal(e.socks[0].messages, got + 1);
        assert_int_equal(e.net->stats.dgrams_lost, 400 - got);
        if (large && geteuid() == 0)
            assert_int_equal(got, 400);
        else if (!large)
            assert_true(got < 100);
        env_close();
    }
}

/* Each failed send would cost one that is not to blame, or the loop would turn for ever. */
static void test_net_dgram_storm_of_news_ends(void **state)
{
    struct snic_net_addr closed;
    struct snic_net_uring_opts o = {.opts_size = sizeof(o), .send_queue = 256};
    (void)state;
    env_open(&o);
    sock_open(0, 1);
    sock_open(1, 1);
    closed = e.socks[1].addr;
    snic_net_dgram_close(e.socks[1].d);
    (void)settle();
    sock_open(2, 0);
    for (uint32_t i = 0; i < 200; i++)
        train_send(0, i % 10 == 9 ? &e.socks[2].addr : &closed, i, 2, 500);
    (void)settle();
    for (uint32_t i = 9; i < 200; i += 10) {
        assert_int_equal(e.trains[i].busy, 0);
        assert_int_equal(e.trains[i].t.result, 2);
    }
    assert_int_equal(e.socks[2].messages, 40);
    assert_true(e.socks[0].news >= 2);
    assert_int_equal(e.net->stats.unreachable, e.socks[0].news);
    assert_true(settle() < 3); /* and then nothing */
    env_close();
}

/* A namespace of our own, whose loopback takes 2000 bytes; @return the way back, or -1. */
static int small_world(void)
{
    struct ifreq r;
    int back = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (back < 0 || unshare(CLONE_NEWNET) < 0)
        return -1;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memset(&r, 0, sizeof(r));
    (void)snprintf(r.ifr_name, sizeof(r.ifr_name), "lo");
    r.ifr_mtu = 2000;
    assert_int_equal(ioctl(fd, SIOCSIFMTU, &r), 0);
    r.ifr_flags = IFF_UP | IFF_RUNNING;
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
    (void)close(fd);
    return back;
}

/* Datagrams would be cut on the way, which loses them whole when a part is lost. */
static void test_net_dgram_no_fragments_with_df(void **state)
{
    struct snic_net_uring_opts o = {.opts_size = sizeof(o)};
    int back = small_world();
    (void)state;
    if (back < 0)
        support_skip("no network namespace of our own");
    for (uint32_t df = 0; df < 2; df++) {
        o.dgram_flags = df ? SNIC_NET_DGRAM_DF : 0;
        env_open(&o);
        sock_open(0, 0);
        sock_open(1, 0);
        train_send(0, &e.socks[1].addr, 0, 5, 1900);
        (void)settle();
        assert_int_equal(e.socks[1].messages, 5);
        assert_int_equal(e.trains[0].t.result, 5);
        train_send(0, &e.socks[1].addr, 0, 1, 2100);
        train_send(0, &e.socks[1].addr, 1, 3, 2200);
        (void)settle();
        assert_int_equal(e.trains[0].t.result, df ? SNIC_EMSGSIZE : 1);
        assert_int_equal(e.trains[1].t.result, df ? SNIC_EMSGSIZE : 3);
        assert_int_equal(e.socks[1].messages, df ? 5 : 9);
        env_close();
    }
    assert_int_equal(setns(back, CLONE_NEWNET), 0);
    (void)close(back);
}

/* It is when the kernel had it, not when we looked; and calls are counted. */
static void test_net_dgram_arrival_is_the_kernels(void **state)
{
    struct snic_net_uring_opts o = {.opts_size = sizeof(o)};
    struct sockaddr_in to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)state;
    assert_true(fd >= 0 && inet_pton(AF_INET, "127.0.0.1", &to.sin_addr) == 1);
    for (uint32_t with = 0; with < 2; with++) {
        o.dgram_flags = with ? SNIC_NET_DGRAM_TIME : 0;
        env_open(&o);
        assert_int_equal((e.net->caps & SNIC_NET_CAP_TIMESTAMP) != 0, with);
        sock_open(0, 0);
        (void)settle();
        to.sin_port = htons(e.socks[0].addr.port);
        uint64_t before, looked;
        uint32_t sent = 0;
        do { /* a time stamp that is a second old is not believed: we were not running */
            before = snic_loop_clock(e.loop);
            assert_int_equal(sendto(fd, e.bytes, 100, 0, (struct sockaddr *)&to, sizeof(to)), 100);
            (void)usleep(30000);
            looked = snic_loop_clock(e.loop);
            (void)settle();
            assert_int_equal(e.socks[0].messages, ++sent);
            assert_true(sent <= 200);
        } while (snic_loop_clock(e.loop) - before > 900000000);
        assert_int_equal(e.socks[0].time_ns >= looked, !with);
        assert_true(e.socks[0].time_ns + 1000000000 > before);
        sock_open(1, 0);
        train_send(0, &e.socks[1].addr, 0, 3, 100);
        (void)settle();
        assert_int_equal(e.net->stats.dgrams_out, 3);
        assert_true(e.net->stats.dgram_sends >= 1 && e.net->stats.dgram_sends <= 3);
        assert_int_equal(e.net->stats.dgram_recvs, e.socks[0].calls + e.socks[1].calls);
        env_close();
    }
    (void)close(fd);
}

static void stream_recv(void *ctx, struct snic_net_conn *k, struct snic_net_buf *b)
{
    (void)ctx;
    snic_net_put(k->net, b);
}
static void stream_closed(void *ctx, struct snic_net_conn *k, int reason)
{
    (void)k;
    *(int *)ctx = reason;
}
static const struct snic_net_stream_events stream_events = {.recv = stream_recv,
                                                            .closed = stream_closed};
static void stream_accept(void *ctx, struct snic_net_conn *k, const struct snic_net_addr *peer)
{
    (void)peer;
    snic_net_bind(k, &stream_events, ctx);
}

/* Connections of this process whose user time-out is @p ms. */
static int impatient(int ms)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        int value = 0;
        socklen_t size = sizeof(value);
        count += getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &size) == 0 && value == ms;
    }
    return count;
}

/* A listener that accepts nothing and has hardly a backlog; it lives as long as the process. */
static uint16_t deaf_port(void)
{
    struct sockaddr_in a;
    socklen_t size = sizeof(a);
    memset(&a, 0, sizeof(a));
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    return ntohs(a.sin_port);
}

/* The option would be another's, or not be set before the connection stands. */
static void test_net_dgram_patience_is_one_connections(void **state)
{
    struct snic_net_listener *l = NULL;
    struct snic_net_conn *k = NULL;
    struct snic_net_addr a;
    int reasons[3] = {1, 1, 1};
    (void)state;
    env_open(NULL);
    assert_int_equal(snic_net_addr_parse(&a, "127.0.0.1:0"), 0);
    assert_int_equal(snic_net_listen(e.net, &a, 0, stream_accept, &reasons[0], &l), 0);
    assert_int_equal(snic_net_listen_addr(l, &a), 0);
    assert_int_equal(snic_net_connect(e.net, &a, &stream_events, &reasons[1], &k), 0);
    assert_int_equal(snic_net_patience(k, 0), SNIC_EINVAL);
    assert_int_equal(snic_net_patience(k, 800), 0);
    assert_int_equal(impatient(800), 1);
    (void)settle();
    assert_int_equal(impatient(800), 1);
    assert_int_equal(snic_net_patience(k, 900), 0);
    assert_int_equal(impatient(900), 1);
    assert_int_equal(impatient(800), 0);
    /* A listener with a full backlog does not answer; waiting ends in time, not after a minute. */
    a.port = deaf_port();
    for (uint32_t i = 0; i < 3 && reasons[2] == 1; i++) {
        assert_int_equal(snic_net_connect(e.net, &a, &stream_events, &reasons[2], &k), 0);
        (void)settle();
    }
    assert_int_equal(reasons[2], 1);
    assert_int_equal(snic_net_patience(k, 50), 0);
    for (uint32_t i = 0; i < 1000 && reasons[2] == 1; i++)
        (void)snic_loop_once(e.loop, 10000000);
    assert_int_equal(reasons[2], SNIC_ETIMEDOUT);
    env_close();
}

/* Options out of their range would be taken for others. */
static void test_net_dgram_bad_options_refused(void **state)
{
    struct snic_net *n = NULL;
    struct snic_net_uring_opts o[4];
    (void)state;
    memset(o, 0, sizeof(o));
    o[0].dgrams_max = 16385;
    o[1].dgram_flags = 8;
    o[2].dgram_recv_bytes = UINT32_MAX;
    o[3].dgram_send_bytes = UINT32_MAX;
    env_open(NULL);
    for (uint32_t i = 0; i < 4; i++) {
        o[i].opts_size = sizeof(o[i]);
        assert_int_equal(snic_net_uring_open(&n, e.loop, &o[i]), SNIC_EINVAL);
    }
    assert_null(n);
    env_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_net_dgram_train_lies_together),
        cmocka_unit_test(test_net_dgram_many_sockets_one_loop),
        cmocka_unit_test(test_net_dgram_small_buffer_drops_counted_large_does_not),
        cmocka_unit_test(test_net_dgram_storm_of_news_ends),
        cmocka_unit_test(test_net_dgram_no_fragments_with_df),
        cmocka_unit_test(test_net_dgram_arrival_is_the_kernels),
        cmocka_unit_test(test_net_dgram_patience_is_one_connections),
        cmocka_unit_test(test_net_dgram_bad_options_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
