/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sends whose end is not waited for: when the loop sleeps, and when it must not. */
#include "conformance_net.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct conf_backend tcp = {"tcp", CONF_TCP4, 0, 0};

/* A blocking socket of the plain kind, connected to the server. */
static int plain_connect(const struct conf_env *e)
{
    struct sockaddr_in a;
    memset(&a, 0, sizeof(a));
    a.sin_family = AF_INET;
    a.sin_port = htons(e->listen_addr.port);
    memcpy(&a.sin_addr, e->listen_addr.ip, 4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

struct lazy {
    struct snic_net_send_req s[2];
    struct snic_iov iov;
    struct snic_net_conn *conn;
    struct snic_loop *loop;
    struct snic_loop_msg shut;
    struct snic_timer begin;
    struct snic_timer limit;
    int dones;
    int slept;
};

static void lazy_shut(struct snic_loop_msg *m)
{
    snic_net_shutdown(SNIC_CONTAINER(m, struct lazy, shut)->conn);
}

/* The second one is on its way to the kernel when the shutdown comes. */
static void lazy_first_done(struct snic_net_send_req *r)
{
    struct lazy *z = SNIC_CONTAINER(r, struct lazy, s[0]);
    assert_int_equal(snic_net_send(z->conn, &z->s[1]), 1);
    snic_loop_defer(z->loop, &z->shut);
}

static void lazy_second_done(struct snic_net_send_req *r)
{
    struct lazy *z = SNIC_CONTAINER(r, struct lazy, s[1]);
    assert_int_equal(r->result, 0);
    z->dones++;
    snic_loop_stop(z->loop);
}

static void lazy_begin(struct snic_timer *t, uint64_t now_ns)
{
    struct lazy *z = SNIC_CONTAINER(t, struct lazy, begin);
    (void)now_ns;
    assert_int_equal(snic_net_send(z->conn, &z->s[0]), 1);
}

static void lazy_limit(struct snic_timer *t, uint64_t now_ns)
{
    struct lazy *z = SNIC_CONTAINER(t, struct lazy, limit);
    (void)now_ns;
    z->slept = 1;
    snic_loop_stop(z->loop);
}

/* The end of a lazy send is not waited for. A shutdown behind it is: if the loop slept first, the
 * peer would not see the end of the stream until something else happened. */
static void test_net_lazy_send_then_shutdown_does_not_sleep(void **state)
{
    struct conf_env e;
    struct conf_server s;
    struct conf_peer peer;
    struct lazy z;
    char bytes[100];
    memset(bytes, 'b', sizeof(bytes));
    memset(&z, 0, sizeof(z));
    conf_env_open(&e, state, NULL, NULL);
    conf_peer_init(&peer, &e, e.server);
    conf_listen(&s, &e, &peer, 1);
    int fd = plain_connect(&e);
    while (s.accepted < 1)
        (void)conf_backend_step(&e);
    z.loop = e.loop;
    z.conn = peer.conn;
    z.iov = (struct snic_iov){bytes, sizeof(bytes)};
    z.shut.fn = lazy_shut;
    for (int i = 0; i < 2; i++) {
        z.s[i].iov = &z.iov;
        z.s[i].iov_count = 1;
        z.s[i].region = SNIC_NO_REGION;
        z.s[i].done = i == 0 ? lazy_first_done : lazy_second_done;
        z.s[i].flags = i == 0 ? 0 : SNIC_NET_SEND_LAZY;
    }
    conf_settle(&e);
    snic_timer_init(&z.begin, lazy_begin);
    snic_timer_init(&z.limit, lazy_limit);
    snic_loop_arm(e.loop, &z.begin, snic_loop_clock(e.loop) + 1000000);
    snic_loop_arm(e.loop, &z.limit, snic_loop_clock(e.loop) + UINT64_C(60000000000));
    assert_int_equal(snic_loop_run(e.loop), 0);
    assert_int_equal(z.slept, 0);
    assert_int_equal(z.dones, 1);
    snic_loop_cancel(e.loop, &z.limit);
    for (ssize_t n = 1; n > 0;) /* to the end of the stream */
        n = recv(fd, bytes, sizeof(bytes), 0);
    (void)close(fd);
    while (peer.closes == 0)
        (void)conf_backend_step(&e);
    conf_env_close(&e);
    conf_peer_fini(&peer);
}

struct full {
    struct snic_net_send_req s;
    struct snic_iov iov;
    struct snic_net_conn *conn;
    struct snic_loop *loop;
    struct snic_timer begin;
    struct snic_timer end;
    struct snic_loop_stats before;
    struct snic_loop_stats after;
    int sends;
    int dones;
};

static void full_done(struct snic_net_send_req *r)
{
    struct full *f = SNIC_CONTAINER(r, struct full, s);
    assert_int_equal(r->result, 0);
    f->dones++;
}

static void full_send(struct full *f)
{
    f->sends++;
    assert_int_equal(snic_net_send(f->conn, &f->s), 1);
}

static void full_begin(struct snic_timer *t, uint64_t now_ns)
{
    struct full *f = SNIC_CONTAINER(t, struct full, begin);
    snic_loop_get_stats(f->loop, &f->before);
    full_send(f);
    snic_loop_arm(f->loop, &f->end, now_ns + 20000000);
}

static void full_end(struct snic_timer *t, uint64_t now_ns)
{
    struct full *f = SNIC_CONTAINER(t, struct full, end);
    (void)now_ns;
    snic_loop_get_stats(f->loop, &f->after);
    snic_loop_stop(f->loop);
}

/* A lazy send that was short is followed by ones that wait for room. When one found room for all
 * of it there is room again: the next one costs no system call of its own. */
static void test_net_lazy_send_short_lazy_again_later(void **state)
{
    struct conf_env e;
    struct conf_server s;
    struct conf_peer peer;
    struct full f;
    static char bytes[60000];
    memset(&f, 0, sizeof(f));
    conf_env_open(&e, state, NULL, NULL);
    conf_peer_init(&peer, &e, e.server);
    conf_listen(&s, &e, &peer, 1);
    int fd = plain_connect(&e);
    while (s.accepted < 1)
        (void)conf_backend_step(&e);
    f.loop = e.loop;
    f.conn = peer.conn;
    f.iov = (struct snic_iov){bytes, sizeof(bytes)};
    f.s = (struct snic_net_send_req){.iov = &f.iov,
                                     .iov_count = 1,
                                     .region = SNIC_NO_REGION,
                                     .flags = SNIC_NET_SEND_LAZY,
                                     .done = full_done};
    while (f.dones == f.sends) { /* until nothing more has room */
        full_send(&f);
        for (int i = 0; i < 50 && f.dones < f.sends; i++)
            (void)conf_backend_step(&e);
    }
    for (int again = 0; again < 2;
         again++) { /* the first of these is the rest, or one that waits */
        while (f.dones < f.sends) {
            (void)recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
            (void)conf_backend_step(&e);
        }
        while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
            ;
        if (again == 0)
            full_send(&f);
    }
    f.iov.size = 100;
    snic_timer_init(&f.begin, full_begin);
    snic_timer_init(&f.end, full_end);
    snic_loop_arm(e.loop, &f.begin, snic_loop_clock(e.loop) + 1000000);
    assert_int_equal(snic_loop_run(e.loop), 0);
    assert_int_equal(f.dones, f.sends);
    assert_int_equal(f.after.enters - f.before.enters, 1); /* it left, and the loop slept */
    (void)close(fd);
    while (peer.closes == 0)
        (void)conf_backend_step(&e);
    conf_env_close(&e);
    conf_peer_fini(&peer);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_net_lazy_send_then_shutdown_does_not_sleep,
                                  (void *)(uintptr_t)&tcp),
        cmocka_unit_test_prestate(test_net_lazy_send_short_lazy_again_later,
                                  (void *)(uintptr_t)&tcp),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
