/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What only the socket backend has: socket files, descriptors that run out, shared ports, peers
 * that are other programs.
 */
#include "conformance_net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct conf_backend tcp = {"tcp", CONF_TCP4, 0, 0};
static const struct conf_backend tcp_single = {
    "tcp_single", CONF_TCP4, SNIC_LOOP_HAVE_MULTISHOT_ACCEPT | SNIC_LOOP_HAVE_BUF_RING, 0};
/* Completions come with every system call, and so between each other. */
static const struct conf_backend tcp_eager = {
    "tcp_eager", CONF_TCP4, SNIC_LOOP_HAVE_DEFER_TASKRUN | SNIC_LOOP_HAVE_COOP_TASKRUN, 0};
static const struct conf_backend local = {"unix", CONF_UNIX, 0, 0};

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

static int path_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* A socket file left by a dead server must not keep the next from starting; a live one must. */
static void test_net_unix_stale_file_replaced_live_kept(void **state)
{
    struct conf_env e;
    struct conf_server s;
    struct snic_net_listener *l = NULL;
    struct sockaddr_un a;
    conf_env_open(&e, state, NULL, NULL);
    memset(&a, 0, sizeof(a));
    a.sun_family = AF_UNIX;
    memcpy(a.sun_path, e.listen_addr.path, sizeof(a.sun_path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    (void)close(fd);
    assert_true(path_exists(a.sun_path));
    conf_listen(&s, &e, NULL, 0);
    assert_int_equal(snic_net_listen(e.client, &e.listen_addr, 0, conf_accept, &s, &l),
                     SNIC_EADDRINUSE);
    assert_true(path_exists(a.sun_path));
    CONF_CALL(&e, snic_net_unlisten(s.listener));
    assert_false(path_exists(a.sun_path));
    conf_env_close(&e);
}

/* An ordinary file in the way must survive. */
static void test_net_unix_ordinary_file_refused_and_kept(void **state)
{
    struct conf_env e;
    struct snic_net_listener *l = NULL;
    conf_env_open(&e, state, NULL, NULL);
    int fd = open(e.listen_addr.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(snic_net_listen(e.server, &e.listen_addr, 0, conf_accept, NULL, &l),
                     SNIC_EADDRINUSE);
    assert_true(path_exists(e.listen_addr.path));
    (void)unlink(e.listen_addr.path);
    conf_env_close(&e);
}

/* A process that has an address, and gives it back .1 s after *end was closed. */
static pid_t holder_start(struct snic_net_addr *a, int type, int *end)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(in);
    int ends[2];
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, size), 0);
    assert_int_equal(type == SOCK_STREAM ? listen(fd, 1) : 0, 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    assert_int_equal(snic_net_addr_parse(a, "127.0.0.1:0"), 0);
    a->port = ntohs(in.sin_port);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char byte;
        (void)close(ends[1]);
        (void)!read(ends[0], &byte, 1);
        (void)usleep(100000);
        _exit(0);
    }
    (void)close(fd);
    (void)close(ends[0]);
    *end = ends[1];
    return pid;
}

static void taken_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                       uint32_t count)
{
    (void)ctx;
    (void)d;
    (void)msgs;
    (void)count;
}

/* A killed server's port is free a while after its process is gone: the next one waits for it. */
static void test_net_socket_taken_address_waited_for(void **state)
{
    static const struct snic_net_dgram_events dgram_events = {.recv = taken_recv};
    struct snic_net_uring_opts o = {.opts_size = sizeof(o), .taken_wait_ms = 60000};
    struct conf_env e;
    conf_env_open(&e, state, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        int stream = i == 0;
        struct snic_net *n = NULL;
        struct snic_net_listener *l = NULL;
        struct snic_net_dgram *d = NULL;
        struct snic_net_addr a;
        int end;
        pid_t pid = holder_start(&a, stream ? SOCK_STREAM : SOCK_DGRAM, &end);
        assert_int_equal(stream ? snic_net_listen(e.server, &a, 0, conf_accept, NULL, &l)
                                : snic_net_dgram_open(e.server, &a, &dgram_events, NULL, &d),
                         SNIC_EADDRINUSE);
        struct snic_net_uring_opts soon = {
            .opts_size = sizeof(soon), .taken_wait_ms = 50, .dgram_flags = SNIC_NET_DGRAM_WAIT};
        assert_int_equal(snic_net_uring_open(&n, e.loop, &soon), 0);
        assert_int_equal(stream ? snic_net_listen(n, &a, 0, conf_accept, NULL, &l)
                                : snic_net_dgram_open(n, &a, &dgram_events, NULL, &d),
                         SNIC_EADDRINUSE);
        snic_net_shut(n);
        assert_int_equal(snic_net_uring_open(&n, e.loop, &o), 0);
        if (!stream) { /* not without the flag */
            assert_int_equal(snic_net_dgram_open(n, &a, &dgram_events, NULL, &d), SNIC_EADDRINUSE);
            snic_net_shut(n);
            o.dgram_flags = SNIC_NET_DGRAM_WAIT;
            assert_int_equal(snic_net_uring_open(&n, e.loop, &o), 0);
        }
        (void)close(end);
        assert_int_equal(stream ? snic_net_listen(n, &a, 0, conf_accept, NULL, &l)
                                : snic_net_dgram_open(n, &a, &dgram_events, NULL, &d),
                         0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        if (stream)
            snic_net_unlisten(l);
        else
            snic_net_dgram_close(d);
        snic_net_shut(n);
    }
    conf_env_close(&e);
}

/* Another server that has taken over the path must not lose its file to our unlisten. */
static void test_net_unix_file_of_successor_kept(void **state)
{
    struct conf_env e;
    struct conf_server s;
    struct conf_server next;
    conf_env_open(&e, state, NULL, NULL);
    conf_listen(&s, &e, NULL, 0);
    assert_int_equal(unlink(e.listen_addr.path), 0);
    conf_listen(&next, &e, NULL, 0);
    CONF_CALL(&e, snic_net_unlisten(s.listener));
    assert_true(path_exists(e.listen_addr.path));
    CONF_CALL(&e, snic_net_unlisten(next.listener));
    assert_false(path_exists(e.listen_addr.path));
    conf_env_close(&e);
}

/* Addresses that this machine does not have, or a directory that is not there. */
static void test_net_socket_foreign_address_refused(void **state)
{
    struct conf_env e;
    struct snic_net_listener *l = NULL;
    struct snic_net_addr a;
    conf_env_open(&e, state, NULL, NULL);
    assert_int_equal(snic_net_addr_parse(&a, "192.0.2.1:0"), 0);
    assert_int_equal(snic_net_listen(e.server, &a, 0, conf_accept, NULL, &l), SNIC_EINVAL);
    assert_int_equal(snic_net_addr_parse(&a, "unix:/nowhere/at/all"), 0);
    assert_int_equal(snic_net_listen(e.server, &a, 0, conf_accept, NULL, &l), SNIC_EINVAL);
    memset(a.path, 'x', sizeof(a.path));
    assert_int_equal(snic_net_listen(e.server, &a, 0, conf_accept, NULL, &l), SNIC_EINVAL);
    assert_null(l);
    conf_env_close(&e);
}

/* Options out of range, and a loop that is not ours, must be noticed at open. */
static void test_net_uring_bad_options_refused(void **state)
{
    static const struct snic_net_uring_opts bad[] = {
        {.opts_size = 3},
        {.opts_size = sizeof(struct snic_net_uring_opts), .conns_max = 65536},
        {.opts_size = sizeof(struct snic_net_uring_opts), .recv_size = 511},
        {.opts_size = sizeof(struct snic_net_uring_opts), .recv_size = (1 << 20) + 1},
        {.opts_size = sizeof(struct snic_net_uring_opts), .pool_buffers = 3},
        {.opts_size = sizeof(struct snic_net_uring_opts), .pool_buffers = 65536},
        {.opts_size = sizeof(struct snic_net_uring_opts), .taken_wait_ms = 60001},
        {.opts_size = sizeof(struct snic_net_uring_opts), .idle_ms = (1u << 30) + 1},
        {.opts_size = sizeof(struct snic_net_uring_opts), .sent_ms = (1u << 30) + 1},
    };
    struct conf_env e;
    struct snic_net *n = NULL;
    struct snic_world *w = NULL;
    struct snic_loop *l = NULL;
    conf_env_open(&e, state, NULL, NULL);
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++)
        assert_int_equal(snic_net_uring_open(&n, e.loop, &bad[i]), SNIC_EINVAL);
    assert_int_equal(snic_world_open(&w, NULL), 0);
    assert_int_equal(snic_world_loop(w, 0, &l), 0);
    assert_int_equal(snic_net_uring_open(&n, l, NULL), SNIC_ENOTSUP);
    assert_null(n);
    snic_loop_close(l);
    snic_world_close(w);
    assert_int_equal(snic_net_uring_open(&n, e.loop, NULL), 0); /* all defaults */
    snic_net_shut(n);
    snic_net_shut(NULL);
    conf_env_close(&e);
}

struct crowd {
    struct conf_server s;
    int want;
};

static int crowd_accepted(void *ctx)
{
    struct crowd *c = ctx;
    return (int)c->s.accepted >= c->want;
}

/* Without descriptors the server would spin or stop accepting for good. */
static void test_net_socket_descriptors_out_accept_waits_and_resumes(void **state)
{
    struct conf_env e;
    struct conf_peer peers[4];
    struct crowd c;
    struct rlimit before;
    struct rlimit none;
    int fd[4];
    conf_env_open(&e, state, NULL, NULL);
    for (int i = 0; i < 4; i++)
        conf_peer_init(&peers[i], &e, e.server);
    conf_listen(&c.s, &e, peers, 4);
    for (int i = 0; i < 4; i++)
        fd[i] = plain_connect(&e);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)fd[0]; /* everything below is in use */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 200 && e.server->stats.errors == 0; i++)
        (void)conf_backend_step(&e);
    uint64_t errors = e.server->stats.errors;
    struct snic_loop_stats stats[2];
    uint64_t start = snic_loop_clock(e.loop);
    snic_loop_get_stats(e.loop, &stats[0]);
    for (int i = 0; i < 30; i++)
        (void)conf_backend_step(&e);
    snic_loop_get_stats(e.loop, &stats[1]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(errors >= 1);
    assert_int_equal(c.s.accepted, 0);
    /* It does not spin: a few tries per 50 ms, however long this took. */
    assert_true(stats[1].completions - stats[0].completions <=
                4 + 2 * ((snic_loop_clock(e.loop) - start) / 50000000));
    c.want = 4;
    conf_until(&e, crowd_accepted, &c);
    for (int i = 0; i < 4; i++)
        (void)close(fd[i]);
    conf_env_close(&e);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(peers[i].closes, 1);
        conf_peer_fini(&peers[i]);
    }
}

/* Loops that share a port need the flag on both sides, and both get connections. */
static void test_net_socket_reuseport_shared_only_with_flag(void **state)
{
    struct conf_env e;
    struct conf_server a = {0};
    struct conf_server b = {0};
    struct snic_net_listener *l = NULL;
    struct snic_net_addr at;
    int fds[64];
    memset(&e, 0, sizeof(e));
    e.backend = *state;
    struct snic_net_uring_opts o = conf_small(&e);
    o.conns_max = 100;
    conf_env_open(&e, state, &o, &o);
    a.env = b.env = &e;
    assert_int_equal(
        snic_net_listen(e.server, &e.listen_addr, SNIC_NET_REUSEPORT, conf_accept, &a, &a.listener),
        0);
    assert_int_equal(snic_net_listen_addr(a.listener, &at), 0);
    assert_int_equal(snic_net_listen(e.client, &at, 0, conf_accept, &b, &l), SNIC_EADDRINUSE);
    assert_int_equal(snic_net_listen(e.client, &at, SNIC_NET_REUSEPORT, conf_accept, &b, &l), 0);
    e.listen_addr = at;
    for (int i = 0; i < 64; i++)
        fds[i] = plain_connect(&e);
    while (a.accepted + b.accepted < 64)
        (void)conf_backend_step(&e);
    assert_true(a.accepted > 0 && b.accepted > 0);
    for (int i = 0; i < 64; i++)
        (void)close(fds[i]);
    conf_env_close(&e);
}

static int server_closed(void *ctx)
{
    return ((struct conf_peer *)ctx)->closes > 0;
}

/* Were the flow's hash used, or the CPU counted from elsewhere, some would come to the other. */
static void test_net_socket_steered_connection_goes_to_its_cpu(void **state)
{
    struct conf_env e;
    struct conf_server s[2] = {{0}, {0}};
    struct snic_net_listener *l = NULL;
    uint32_t flags = SNIC_NET_REUSEPORT | SNIC_NET_STEER_CPU(2);
    uint32_t want[2] = {0, 0};
    cpu_set_t all;
    int fds[64];
    memset(&e, 0, sizeof(e));
    e.backend = *state;
    struct snic_net_uring_opts o = conf_small(&e);
    o.conns_max = 100;
    conf_env_open(&e, state, &o, &o);
    s[0].env = s[1].env = &e;
    assert_int_equal(
        snic_net_listen(e.server, &e.listen_addr, SNIC_NET_STEER_CPU(2), conf_accept, &s[0], &l),
        SNIC_EINVAL);
    assert_int_equal(
        snic_net_listen(e.server, &e.listen_addr, flags, conf_accept, &s[0], &s[0].listener), 0);
    assert_int_equal(snic_net_listen_addr(s[0].listener, &e.listen_addr), 0);
    assert_int_equal(snic_net_listen(e.client, &e.listen_addr, flags, conf_accept, &s[1], &l), 0);
    if (e.server->stats.steered + e.client->stats.steered < 2) {
        conf_env_close(&e);
        support_skip("programs that steer connections are not permitted");
    }
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    size_t cpu = 0;
    for (int i = 0; i < 64; i++, cpu++) {
        cpu_set_t one;
        while (!CPU_ISSET(cpu % CPU_SETSIZE, &all))
            cpu++;
        CPU_ZERO(&one);
        CPU_SET(cpu % CPU_SETSIZE, &one);
        assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
        want[cpu % CPU_SETSIZE % 2]++;
        fds[i] = plain_connect(&e);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    while (s[0].accepted + s[1].accepted < 64)
        (void)conf_backend_step(&e);
    assert_int_equal(s[0].accepted, want[0]);
    assert_int_equal(s[1].accepted, want[1]);
    for (int i = 0; i < 64; i++)
        (void)close(fds[i]);
    conf_env_close(&e);
}

/* A client process that is killed leaves a half-read connection: the server must hear of it. */
static void test_net_socket_peer_process_killed_connection_closed(void **state)
{
    struct conf_env e;
    struct conf_peer peer;
    struct conf_server s;
    char ready = 0;
    int pipes[2];
    conf_env_open(&e, state, NULL, NULL);
    conf_peer_init(&peer, &e, e.server);
    peer.to_send = 40000000; /* never read, so that the kernel resets */
    peer.piece_max = 65536;
    conf_listen(&s, &e, &peer, 1);
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)plain_connect(&e);
        if (write(pipes[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(pipes[0], &ready, 1), 1);
    while (s.accepted == 0)
        (void)conf_backend_step(&e);
    conf_settle(&e);
    assert_int_equal(peer.closes, 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    conf_until(&e, server_closed, &peer);
    assert_int_equal(peer.reason, SNIC_ECONNRESET);
    assert_int_equal(peer.last_result, SNIC_ECONNRESET);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    conf_env_close(&e);
    conf_peer_fini(&peer);
}

struct drip {
    struct conf_peer peers[2];
    int fd[2];
};

static int drip_second_served(void *ctx)
{
    return ((struct drip *)ctx)->peers[1].received >= 1000;
}

/* A client that drips single bytes at a paused server would empty the pool for all. */
static void test_net_socket_small_pieces_to_paused_reader_pool_left(void **state)
{
    struct conf_env e;
    struct conf_server s;
    struct drip d;
    char bytes[1000];
    int one = 1;
    memset(bytes, 'b', sizeof(bytes));
    conf_env_open(&e, state, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        conf_peer_init(&d.peers[i], &e, e.server);
        d.peers[i].unchecked = 1;
    }
    d.peers[0].hold = 1;
    conf_listen(&s, &e, d.peers, 2);
    d.fd[0] = plain_connect(&e);
    assert_int_equal(setsockopt(d.fd[0], IPPROTO_TCP, 1, &one, sizeof(one)), 0);
    while (s.accepted < 1)
        (void)conf_backend_step(&e);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(send(d.fd[0], "a", 1, MSG_NOSIGNAL), 1);
        if (i % 16 == 0)
            (void)snic_loop_once(e.loop, 0);
    }
    d.fd[1] = plain_connect(&e);
    assert_int_equal(send(d.fd[1], bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    conf_until(&e, drip_second_served, &d);
    assert_true(d.peers[0].lent <= 4);
    d.peers[0].hold = 0;
    conf_peer_put_all(&d.peers[0]);
    while (d.peers[0].received < 3000)
        (void)conf_backend_step(&e);
    (void)close(d.fd[0]);
    (void)close(d.fd[1]);
    conf_env_close(&e);
    for (int i = 0; i < 2; i++)
        conf_peer_fini(&d.peers[i]);
}

static void put_other(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct conf_peer *p = ctx;
    p->received += b->size;
    snic_net_put(c->net, b);
    conf_peer_put_all(&p[-1]);
}

/* Bytes beyond the bound would be overtaken by later ones when buffers come back in mid-burst. */
static void test_net_socket_burst_beyond_bound_order_kept(void **state)
{
    static struct snic_net_stream_events other;
    struct conf_env e;
    struct conf_server s;
    struct conf_peer peers[2];
    unsigned char *bytes = malloc(400000);
    int fd[2];
    memset(&e, 0, sizeof(e));
    e.backend = *state;
    struct snic_net_uring_opts o = conf_small(&e);
    o.pool_buffers = 512;
    conf_env_open(&e, state, &o, NULL);
    for (int i = 0; i < 2; i++)
        conf_peer_init(&peers[i], &e, e.server);
    conf_listen(&s, &e, peers, 2);
    for (int i = 0; i < 2; i++) {
        fd[i] = plain_connect(&e);
        while ((int)s.accepted <= i)
            (void)conf_backend_step(&e);
    }
    other = conf_events;
    other.recv = put_other;
    snic_net_bind(peers[1].conn, &other, &peers[1]);
    conf_req_fill_bytes(1, 0, bytes, 400000);
    peers[0].hold = 1;
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 10; i++) { /* six for the bound and beyond, then the other, then more */
            if (i == 6)
                assert_int_equal(send(fd[1], "x", 1, MSG_NOSIGNAL), 1);
            assert_int_equal(send(fd[0], bytes + round * 10000 + i * 1000, 1000, MSG_NOSIGNAL),
                             1000);
        }
        while (peers[0].received < (uint64_t)(round + 1) * 10000) {
            (void)conf_backend_step(&e);
            conf_check(&e);
            if (peers[0].held_count == 4 && peers[1].received > (uint64_t)round)
                conf_peer_put_all(&peers[0]);
        }
        conf_peer_put_all(&peers[0]);
    }
    (void)close(fd[0]);
    (void)close(fd[1]);
    conf_peer_put_all(&peers[0]);
    conf_env_close(&e);
    for (int i = 0; i < 2; i++)
        conf_peer_fini(&peers[i]);
    free(bytes);
}

static int all_received(void *ctx)
{
    struct conf_pair *p = ctx;
    return p->server.received == 300000 && p->client.in_flight == 0;
}

static void region_done(struct snic_net_send_req *s)
{
    struct conf_req *r = SNIC_CONTAINER(s, struct conf_req, s);
    r->busy = 0;
    r->peer->in_flight--;
    r->peer->last_result = s->result;
}

/* Zero copy out of registered memory is another operation of the kernel. */
static void test_net_socket_zero_copy_registered_memory_arrives(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    struct conf_req *r = &p->client.reqs[0];
    p->client.piece_max = 300000;
    conf_req_fill(&p->client, r, 300000);
    int region = snic_loop_region_add(p->e.loop, r->bytes, 300000);
    if (region < 0 || (p->e.client->caps & SNIC_NET_CAP_ZC) == 0) {
        conf_pair_close(p);
        support_skip("no registered memory or no zero copy");
    }
    r->s.done = region_done;
    r->s.flags = SNIC_NET_SEND_ZC;
    r->s.region = region;
    r->s.iov_count = 1;
    r->iov[0].base = r->bytes;
    r->iov[0].size = 300000;
    r->busy = 1;
    p->client.in_flight = 1;
    assert_int_equal(snic_net_send(p->client.conn, &r->s), 1);
    conf_until(&p->e, all_received, p);
    assert_int_equal(p->client.last_result, 0);
    assert_true(p->e.client->stats.zc_sends >= 1);
    snic_loop_region_remove(p->e.loop, region);
    conf_pair_close(p);
}

static int sender_over(void *ctx)
{
    struct conf_many *m = ctx;
    return m->client[0].closes > 0 && m->server[0].closes > 0;
}

/* On loopback zero copy only costs: the default must notice, and still deliver. */
static void test_net_socket_zero_copy_default_stops_where_copied(void **state)
{
    struct conf_many *m = conf_many_open(state, 1, NULL);
    m->server[0].flags = SNIC_NET_SEND_ZC;
    m->server[0].to_send = 8000000;
    m->server[0].piece_max = 400000;
    m->server[0].shutdown_when_sent = 1;
    m->client[0].shutdown_on_eof = 1;
    conf_connect(&m->client[0], &m->e.listen_addr);
    conf_until(&m->e, sender_over, m);
    assert_int_equal(m->client[0].received, 8000000);
    if ((m->e.server->caps & SNIC_NET_CAP_ZC) != 0)
        assert_true(m->e.server->stats.zc_sends >= 1);
    assert_true(m->e.server->stats.zc_sends < m->e.server->stats.send_requests);
    conf_many_close(m);
}

/* A client that resets right after connecting must not disturb accept. */
static void test_net_socket_reset_before_accept_survived(void **state)
{
    struct conf_env e;
    struct conf_peer peers[8];
    struct conf_server s;
    struct linger hard = {1, 0};
    conf_env_open(&e, state, NULL, NULL);
    for (int i = 0; i < 8; i++)
        conf_peer_init(&peers[i], &e, e.server);
    conf_listen(&s, &e, peers, 8);
    for (int i = 0; i < 7; i++) {
        int fd = plain_connect(&e);
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
        (void)close(fd);
    }
    int fd = plain_connect(&e);
    uint32_t i = 0;
    while (s.accepted < 1 || peers[s.accepted - 1].closes > 0 || ++i < 20)
        (void)conf_backend_step(&e);
    for (uint32_t k = 0; k + 1 < s.accepted; k++)
        assert_int_equal(peers[k].reason, SNIC_ECONNRESET);
    (void)close(fd);
    conf_env_close(&e);
    for (int k = 0; k < 8; k++)
        conf_peer_fini(&peers[k]);
}

#define SOCKET_TEST(f, b)                                                                          \
    {                                                                                              \
#f "_" #b, f, NULL, NULL, (void *)(uintptr_t)&b                                            \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SOCKET_TEST(test_net_unix_stale_file_replaced_live_kept, local),
        SOCKET_TEST(test_net_unix_ordinary_file_refused_and_kept, local),
        SOCKET_TEST(test_net_unix_file_of_successor_kept, local),
        SOCKET_TEST(test_net_socket_taken_address_waited_for, tcp),
        SOCKET_TEST(test_net_socket_foreign_address_refused, tcp),
        SOCKET_TEST(test_net_uring_bad_options_refused, tcp),
        SOCKET_TEST(test_net_socket_descriptors_out_accept_waits_and_resumes, tcp),
        SOCKET_TEST(test_net_socket_descriptors_out_accept_waits_and_resumes, tcp_single),
        SOCKET_TEST(test_net_socket_reuseport_shared_only_with_flag, tcp),
        SOCKET_TEST(test_net_socket_steered_connection_goes_to_its_cpu, tcp),
        SOCKET_TEST(test_net_socket_peer_process_killed_connection_closed, tcp),
        SOCKET_TEST(test_net_socket_peer_process_killed_connection_closed, tcp_single),
        SOCKET_TEST(test_net_socket_small_pieces_to_paused_reader_pool_left, tcp),
        SOCKET_TEST(test_net_socket_small_pieces_to_paused_reader_pool_left, tcp_single),
        SOCKET_TEST(test_net_socket_burst_beyond_bound_order_kept, tcp),
        SOCKET_TEST(test_net_socket_burst_beyond_bound_order_kept, tcp_eager),
        SOCKET_TEST(test_net_socket_burst_beyond_bound_order_kept, tcp_single),
        SOCKET_TEST(test_net_socket_zero_copy_registered_memory_arrives, tcp),
        SOCKET_TEST(test_net_socket_zero_copy_default_stops_where_copied, tcp),
        SOCKET_TEST(test_net_socket_reset_before_accept_survived, tcp),
        SOCKET_TEST(test_net_socket_reset_before_accept_survived, tcp_single),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
