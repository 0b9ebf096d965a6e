/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** dma shm: the conformance suite, real processes that die, and peers that lie. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance_dma.h"
#include "dma/shm_priv.h"
#include "support.h"

static struct snic_loop *loop_open(void)
{
    struct snic_loop *l = NULL;
    int r = snic_loop_uring_open(&l, NULL);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring");
    assert_int_equal(r, 0);
    return l;
}

static const char *socket_path(void)
{
    static char path[256];
    static int number;
    char name[32];
    (void)snprintf(name, sizeof(name), "s%d", number++);
    support_tmpname(path, sizeof(path), name);
    return path;
}

/* ---- Both ends in this process ---- */

struct pair {
    struct conf_dma *f;
    struct snic_dma_listener *listener;
    struct snic_dma_shm_opts opts;
    int connector; /* index of the end that connects */
    int result;
    _Atomic(int) connected;
};

static void pair_accept(void *ctx, struct snic_dma *d, uint32_t pid)
{
    struct pair *p = ctx;
    int i = 1 - p->connector;
    assert_int_equal(pid, getpid());
    d->events = p->f->events[i];
    p->f->d[i] = d;
}

static void *pair_connect(void *ctx)
{
    struct pair *p = ctx;
    int i = p->connector;
    p->result = snic_dma_shm_connect(&p->f->d[i], p->f->loop[i], &p->opts, &p->f->events[i]);
    atomic_store_explicit(&p->connected, 1, memory_order_release);
    return NULL;
}

static void pair_open(struct conf_dma *f, int connector)
{
    struct pair p = {.f = f, .connector = connector};
    pthread_t thread;
    for (int i = 0; i < 2; i++)
        f->loop[i] = loop_open();
    p.opts.opts_size = sizeof(p.opts);
    p.opts.path = socket_path();
    p.opts.timeout_ms = 60000;
    struct snic_loop *l = f->loop[1 - connector];
    assert_int_equal(snic_dma_shm_listen(&p.listener, l, &p.opts, pair_accept, &p), 0);
    assert_int_equal(pthread_create(&thread, NULL, pair_connect, &p), 0);
    while (!atomic_load_explicit(&p.connected, memory_order_acquire))
        (void)snic_loop_once(l, 1000000);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(p.result, 0);
    snic_dma_shm_unlisten(p.listener);
    assert_int_equal(access(p.opts.path, F_OK), -1);
}

static void pair_open_host_connects(struct conf_dma *f)
{
    pair_open(f, 0);
}

static void pair_open_dpu_connects(struct conf_dma *f)
{
    pair_open(f, 1);
}

static void pair_close(struct conf_dma *f)
{
    for (int i = 0; i < 2; i++)
        snic_loop_close(f->loop[i]);
}

static int pair_step(struct conf_dma *f)
{
    int did = snic_loop_once(f->loop[0], 0) + snic_loop_once(f->loop[1], 0);
    return did > 0 ? did : snic_loop_once(f->loop[0], 200000);
}

/** The contract over a socket and shared memory, whoever connects. */
static void test_dma_shm_two_loops_conforms(void **state)
{
    (void)state;
    const struct conf_dma_backend b[2] = {
        {"shm/host", pair_open_host_connects, pair_close, pair_step},
        {"shm/dpu", pair_open_dpu_connects, pair_close, pair_step}};
    for (int i = 0; i < 2; i++)
        conformance_dma_run(&b[i], 0, 0);
}

/* ---- A child process as the peer ---- */

struct child {
    pid_t pid;
    struct snic_loop *loop;
    struct snic_dma_listener *listener;
    struct snic_dma *d;
    struct snic_dma_shm_opts opts;
    struct snic_dma_events events;
    uint32_t accepted;
    int refuse;
    uint32_t messages;
    uint64_t key;
    uint32_t bells;
    uint32_t deaths;
    uint32_t after_death;
    enum snic_dma_death cause;
};

static void child_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct child *c = ctx;
    (void)d;
    c->after_death += c->deaths;
    if (size == 8)
        memcpy(&c->key, msg, 8);
    c->messages++;
}

static void child_bell(void *ctx, struct snic_dma *d, uint32_t id)
{
    struct child *c = ctx;
    (void)d;
    (void)id;
    c->after_death += c->deaths;
    c->bells++;
}

static void child_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    struct child *c = ctx;
    (void)d;
    c->cause = cause;
    c->deaths++;
}

static void child_accept(void *ctx, struct snic_dma *d, uint32_t pid)
{
    struct child *c = ctx;
    assert_int_equal(pid, c->pid);
    c->accepted++;
    if (c->refuse) {
        snic_dma_close(d);
        return;
    }
    c->d = d;
    d->events = c->events;
}

/** Listen, and fork a child that runs @p body with its own loop and connected handle. */
static void child_start(struct child *c, void (*body)(struct child *))
{
    c->opts = (struct snic_dma_shm_opts){
        .opts_size = sizeof(c->opts), .path = socket_path(), .timeout_ms = 60000};
    c->events = (struct snic_dma_events){child_recv, child_bell, child_death, c};
    (void)fflush(NULL);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0) {
        char byte;
        (void)!read(ready[0], &byte, 1);
        (void)close(ready[0]);
        (void)close(ready[1]);
        if (snic_loop_uring_open(&c->loop, NULL) != 0)
            _exit(100);
        int r = snic_dma_shm_connect(&c->d, c->loop, &c->opts, &c->events);
        if (r != 0)
            _exit(r == SNIC_ECONNREFUSED ? 101 : 102);
        body(c);
        _exit(0);
    }
    c->loop = loop_open();
    assert_int_equal(snic_dma_shm_listen(&c->listener, c->loop, &c->opts, child_accept, c), 0);
    (void)close(ready[0]);
    (void)!write(ready[1], "x", 1);
    (void)close(ready[1]);
}

static void child_until(struct child *c, const uint32_t *word, uint32_t value)
{
    for (int i = 0; *(const volatile uint32_t *)word < value; i++) {
        (void)snic_loop_once(c->loop, 1000000);
        if (i > 600000)
            fail_msg("waited in vain");
    }
}

static int child_wait(struct child *c)
{
    int status = 0;
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    return status;
}

static void child_end(struct child *c)
{
    snic_dma_close(c->d);
    snic_dma_shm_unlisten(c->listener);
    for (int i = 0; i < 50; i++)
        (void)snic_loop_once(c->loop, 0);
    snic_loop_close(c->loop);
}

/** The child offers memory full of 0x77, then sleeps for ever. */
static void body_offer_and_hang(struct child *c)
{
    void *mem = NULL;
    uint64_t key = 0;
    if (snic_dma_alloc(c->d, 65536, &mem) != 0 || snic_dma_register(c->d, mem, 65536, 7, &key) != 0)
        _exit(103);
    memset(mem, 0x77, 65536);
    if (snic_dma_send(c->d, &key, 8) != 1 || snic_dma_ring(c->d, 9) != 0)
        _exit(104);
    for (;;)
        (void)snic_loop_once(c->loop, SNIC_NEVER);
}

/**
 * kill -9: one event, last, certified as EXIT; the mapped memory rests and can be read; a
 * stopped process is not a dead one.
 */
static void test_dma_shm_peer_killed_certified_once(void **state)
{
    (void)state;
    int before = conf_dma_fds();
    for (int stop = 0; stop < 2; stop++) {
        struct child c = {.pid = 0};
        child_start(&c, body_offer_and_hang);
        child_until(&c, &c.messages, 1);
        child_until(&c, &c.bells, 1);
        void *p = NULL;
        assert_int_equal(snic_dma_map(c.d, c.key, 0, 65536, &p), 0);
        if (stop) {
            assert_int_equal(kill(c.pid, SIGSTOP), 0);
            for (int i = 0; i < 50; i++)
                (void)snic_loop_once(c.loop, 100000);
            assert_int_equal(c.deaths, 0);
            assert_int_equal(snic_dma_send(c.d, "a", 1), 1);
        }
        assert_int_equal(kill(c.pid, SIGKILL), 0);
        child_until(&c, &c.deaths, 1);
        assert_true(WIFSIGNALED(child_wait(&c)));
        assert_int_equal(c.cause, SNIC_DMA_DEATH_EXIT);
        for (int i = 0; i < 65536; i++)
            assert_int_equal(((volatile unsigned char *)p)[i], 0x77);
        for (int i = 0; i < 50; i++)
            (void)snic_loop_once(c.loop, 0);
        assert_int_equal(c.deaths, 1);
        assert_int_equal(c.after_death, 0);
        assert_int_equal(snic_dma_send(c.d, "a", 1), SNIC_EPEERDEAD);
        assert_int_equal(snic_dma_ring(c.d, 1), SNIC_EPEERDEAD);
        child_end(&c);
    }
    assert_int_equal(conf_dma_fds(), before);
}

static void body_talk_and_exit(struct child *c)
{
    for (uint32_t i = 0; i < 50; i++)
        if (snic_dma_send(c->d, "word", 4) != 1)
            _exit(105);
    (void)snic_dma_ring(c->d, 1);
}

/** A process that ends without closing: what it sent arrives, then its death, as EXIT. */
static void test_dma_shm_peer_exits_messages_first(void **state)
{
    (void)state;
    struct child c = {.pid = 0};
    child_start(&c, body_talk_and_exit);
    child_until(&c, &c.deaths, 1);
    assert_int_equal(c.messages, 50);
    assert_int_equal(c.bells, 1);
    assert_int_equal(c.cause, SNIC_DMA_DEATH_EXIT);
    assert_int_equal(c.after_death, 0);
    assert_int_equal(child_wait(&c), 0);
    child_end(&c);
}

static void body_close_and_hang(struct child *c)
{
    for (uint32_t i = 0; i < 50; i++)
        if (snic_dma_send(c->d, "word", 4) != 1)
            _exit(105);
    snic_dma_close(c->d);
    for (;;)
        (void)snic_loop_once(c->loop, SNIC_NEVER);
}

/** A process that closes and lives on: CLOSED, although it left our messages unread. */
static void test_dma_shm_peer_closes_and_lives_closed(void **state)
{
    (void)state;
    struct child c = {.pid = 0};
    child_start(&c, body_close_and_hang);
    child_until(&c, &c.accepted, 1);
    (void)snic_dma_send(c.d, "unread", 6);
    child_until(&c, &c.deaths, 1);
    assert_int_equal(c.messages, 50);
    assert_int_equal(c.cause, SNIC_DMA_DEATH_CLOSED);
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    (void)child_wait(&c);
    for (int i = 0; i < 20; i++)
        (void)snic_loop_once(c.loop, 0);
    assert_int_equal(c.deaths, 1);
    child_end(&c);
}

/** A link refused in accept is an error of connect, not a link that dies. */
static void test_dma_shm_refused_connect_fails(void **state)
{
    (void)state;
    struct child c = {.refuse = 1};
    child_start(&c, body_talk_and_exit);
    child_until(&c, &c.accepted, 1);
    int status = child_wait(&c);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 101);
    child_end(&c);
}

/* ---- Two processes, threads that ring ---- */

#define RING_THREADS 4

struct bell_page {
    _Atomic(uint64_t) posted[RING_THREADS];
    _Atomic(uint64_t) asleep;
};

struct bell_thread {
    struct snic_dma *d;
    struct bell_page *page;
    uint32_t id;
    uint64_t rounds;
};

static void *bell_thread(void *arg)
{
    struct bell_thread *b = arg;
    for (uint64_t n = 1; n <= b->rounds; n++) {
        atomic_store_explicit(&b->page->posted[b->id], n, memory_order_relaxed);
        if (snic_dma_ring(b->d, b->id) != 0)
            _exit(106);
    }
    return NULL;
}

static void body_ring(struct child *c)
{
    void *mem = NULL;
    uint64_t key = 0;
    struct bell_thread t[RING_THREADS];
    pthread_t id[RING_THREADS];
    if (snic_dma_alloc(c->d, 4096, &mem) != 0 || snic_dma_register(c->d, mem, 4096, 3, &key) != 0 ||
        snic_dma_send(c->d, &key, 8) != 1)
        _exit(103);
    while (c->bells == 0) /* rung from the owner's thread: through the ring */
        (void)snic_loop_once(c->loop, SNIC_NEVER);
    for (uint32_t i = 0; i < RING_THREADS; i++) {
        t[i] = (struct bell_thread){c->d, mem, i, support_scale(3000, 300000)};
        if (pthread_create(&id[i], NULL, bell_thread, &t[i]) != 0)
            _exit(107);
    }
    for (uint32_t i = 0; i < RING_THREADS; i++)
        (void)pthread_join(id[i], NULL);
    while (c->messages == 0)
        (void)snic_loop_once(c->loop, SNIC_NEVER);
    snic_dma_close(c->d);
}

/** Threads of another process ring and ring; a sleeper never misses the last one. */
static void test_dma_shm_threads_ring_never_lost(void **state)
{
    (void)state;
    struct child c = {.pid = 0};
    child_start(&c, body_ring);
    child_until(&c, &c.messages, 1);
    void *p = NULL;
    assert_int_equal(snic_dma_map(c.d, c.key, 0, 4096, &p), 0);
    struct bell_page *page = p;
    assert_int_equal(snic_dma_ring(c.d, 0), 0);
    for (;;) {
        int all = 1;
        for (int i = 0; i < RING_THREADS; i++)
            all = all && atomic_load_explicit(&page->posted[i], memory_order_relaxed) ==
                             support_scale(3000, 300000);
        if (all)
            break;
        (void)snic_loop_once(c.loop, SNIC_NEVER); /* a lost doorbell hangs here */
    }
    assert_int_equal(snic_dma_send(c.d, "done", 4), 1);
    child_until(&c, &c.deaths, 1);
    assert_int_equal(c.cause, SNIC_DMA_DEATH_CLOSED);
    assert_int_equal(child_wait(&c), 0);
    child_end(&c);
}

/* ---- Sockets in the way ---- */

static void no_accept(void *ctx, struct snic_dma *d, uint32_t pid)
{
    uint32_t *count = ctx;
    (void)pid;
    (*count)++;
    snic_dma_close(d);
}

/** A stale socket file is replaced; a live one, and what is no socket, is left alone. */
static void test_dma_shm_stale_socket_replaced(void **state)
{
    (void)state;
    struct snic_loop *l = loop_open();
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o), .path = socket_path()};
    struct snic_dma_listener *s = NULL;
    struct snic_dma_listener *t = NULL;
    uint32_t count = 0;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, o.path, strlen(o.path));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    (void)close(fd); /* the file stays */
    assert_int_equal(snic_dma_shm_listen(&s, l, &o, no_accept, &count), 0);
    assert_int_equal(snic_dma_shm_listen(&t, l, &o, no_accept, &count), SNIC_EADDRINUSE);
    assert_null(t);
    assert_int_equal(access(o.path, F_OK), 0);
    snic_dma_shm_unlisten(s);
    char path[256];
    fd = support_tmpfile(path, sizeof(path), "precious", 10);
    (void)close(fd);
    o.path = path;
    assert_int_equal(snic_dma_shm_listen(&s, l, &o, no_accept, &count), SNIC_EADDRINUSE);
    assert_int_equal(access(path, F_OK), 0);
    o.path = "/nonexistent/directory/socket";
    assert_int_equal(snic_dma_shm_listen(&s, l, &o, no_accept, &count), SNIC_EINVAL);
    char longer[200];
    memset(longer, 'x', sizeof(longer));
    longer[199] = 0;
    o.path = longer;
    assert_int_equal(snic_dma_shm_listen(&s, l, &o, no_accept, &count), SNIC_EINVAL);
    o.path = NULL;
    assert_int_equal(snic_dma_shm_listen(&s, l, &o, no_accept, &count), SNIC_EINVAL);
    for (int i = 0; i < 20; i++)
        (void)snic_loop_once(l, 0);
    snic_loop_close(l);
}

/** Nobody there, nobody answering, the wrong loop: each its own error. */
static void test_dma_shm_connect_errors_told_apart(void **state)
{
    (void)state;
    struct snic_loop *l = loop_open();
    struct snic_dma *d = NULL;
    struct snic_dma_events e = {NULL, NULL, NULL, NULL};
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o), .path = socket_path(), .timeout_ms = 50};
    assert_int_equal(snic_dma_shm_connect(&d, l, &o, &e), SNIC_ECONNREFUSED);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, o.path, strlen(o.path));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(snic_dma_shm_connect(&d, l, &o, &e), SNIC_ECONNREFUSED);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(snic_dma_shm_connect(&d, l, &o, &e), SNIC_ETIMEDOUT);
    (void)close(fd);
    assert_null(d);
    struct snic_world_opts wo = {.opts_size = sizeof(wo)};
    struct snic_world *w = NULL;
    struct snic_loop *sim = NULL;
    struct snic_dma_listener *s = NULL;
    assert_int_equal(snic_world_open(&w, &wo), 0);
    assert_int_equal(snic_world_loop(w, 0, &sim), 0);
    assert_int_equal(snic_dma_shm_connect(&d, sim, &o, &e), SNIC_ENOTSUP);
    assert_int_equal(snic_dma_shm_listen(&s, sim, &o, no_accept, NULL), SNIC_ENOTSUP);
    snic_loop_close(sim);
    snic_world_close(w);
    snic_loop_close(l);
}

/* ---- Liars: raw sockets against a listener ---- */

struct liar {
    struct snic_loop *loop;
    struct snic_dma_listener *listener;
    struct snic_dma_shm_opts opts;
    struct snic_dma *d;
    struct snic_dma_events events;
    uint32_t accepted;
    uint32_t messages;
    uint32_t bells;
    uint32_t deaths;
    int fd;
    int fds[3];
};

static void liar_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct liar *x = ctx;
    (void)d;
    (void)msg;
    (void)size;
    x->messages++;
}

static void liar_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    struct liar *x = ctx;
    (void)d;
    (void)cause;
    x->deaths++;
}

static void liar_accept(void *ctx, struct snic_dma *d, uint32_t pid)
{
    struct liar *x = ctx;
    (void)pid;
    x->accepted++;
    x->d = d;
    d->events = x->events;
}

static void liar_spin(struct liar *x)
{
    for (int i = 0; i < 10; i++)
        (void)snic_loop_once(x->loop, 0);
}

static void liar_dial(struct liar *x)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, x->opts.path, strlen(x->opts.path));
    x->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(x->fd, (struct sockaddr *)&a, sizeof(a)), 0);
}

static void liar_open(struct liar *x)
{
    memset(x, 0, sizeof(*x));
    x->loop = loop_open();
    x->opts = (struct snic_dma_shm_opts){
        .opts_size = sizeof(x->opts), .path = socket_path(), .size_max = 1 << 20};
    x->events = (struct snic_dma_events){.recv = liar_recv, .death = liar_death, .ctx = x};
    assert_int_equal(snic_dma_shm_listen(&x->listener, x->loop, &x->opts, liar_accept, x), 0);
}

static void liar_close(struct liar *x)
{
    snic_dma_close(x->d);
    snic_dma_shm_unlisten(x->listener);
    liar_spin(x);
    snic_loop_close(x->loop);
}

/** A well-behaved handshake. */
static void liar_welcome(struct liar *x)
{
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_HELLO);
    struct dma_shm_in in;
    uint32_t had = x->accepted;
    liar_dial(x);
    assert_int_equal(dma_shm_transmit(x->fd, &w, NULL, NULL, 0), 1);
    for (int i = 0; x->accepted == had && i < 100000; i++)
        (void)snic_loop_once(x->loop, 1000000);
    assert_int_equal(x->accepted, had + 1);
    assert_int_equal(dma_shm_receive(x->fd, &in), 1);
    assert_int_equal(in.wire.type, DMA_SHM_WELCOME);
    assert_int_equal(in.fd_count, 3);
    memcpy(x->fds, in.fds, sizeof(x->fds));
}

static void liar_hang_up(struct liar *x)
{
    for (int i = 0; i < 3; i++)
        (void)close(x->fds[i]);
    (void)close(x->fd);
}

/** 1 when the listener has hung up on us. */
static int liar_cut(struct liar *x)
{
    char buf[512];
    for (int i = 0; i < 10000; i++) {
        (void)snic_loop_once(x->loop, 100000);
        ssize_t n = recv(x->fd, buf, sizeof(buf), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return 1;
        if (n > 0)
            continue;
        if (i > 200 && x->d != NULL && !((struct dma_shm *)(void *)x->d)->torn)
            return 0;
    }
    return 0;
}

/** Handshakes that are none: the listener hangs up, asks nobody, and goes on. */
static void test_dma_shm_bad_hello_dropped(void **state)
{
    (void)state;
    int before = conf_dma_fds();
    struct liar x;
    liar_open(&x);
    for (int n = 0; n < 6; n++) {
        struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_HELLO);
        char junk[1000] = "junk";
        liar_dial(&x);
        if (n == 0)
            assert_int_equal(send(x.fd, junk, 4, 0), 4);
        else if (n == 1)
            assert_int_equal(send(x.fd, junk, sizeof(junk), 0), sizeof(junk));
        else if (n == 2)
            w.type = DMA_SHM_MSG;
        else if (n == 3)
            w.magic ^= 1;
        else if (n == 4)
            w.size = 7; /* and no bytes */
        else
            w.version++;
        if (n >= 2) {
            uint32_t size = w.size;
            w.size = 0;
            struct iovec iov = {&w, sizeof(w)};
            struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
            w.size = size;
            assert_int_equal(sendmsg(x.fd, &m, 0), sizeof(w));
        }
        if (n == 5) {
            struct dma_shm_in in;
            int r = 0;
            for (int i = 0; r == 0 && i < 10000; i++) {
                (void)snic_loop_once(x.loop, 100000);
                r = dma_shm_receive(x.fd, &in);
            }
            assert_int_equal(r, 1);
            assert_int_equal(in.wire.type, DMA_SHM_REFUSE);
            assert_int_equal((int64_t)in.wire.a, SNIC_EVERSION);
        }
        assert_int_equal(liar_cut(&x), 1);
        (void)close(x.fd);
        assert_int_equal(x.accepted, 0);
    }
    /* More silent connections than the listener keeps: the oldest go, the newest is served. */
    int silent[100];
    for (int i = 0; i < 100; i++) {
        liar_dial(&x);
        silent[i] = x.fd;
        liar_spin(&x);
    }
    liar_welcome(&x);
    liar_hang_up(&x);
    for (int i = 0; i < 100; i++)
        (void)close(silent[i]);
    liar_close(&x);
    assert_int_equal(conf_dma_fds(), before);
}

static int memfd_of(size_t size, unsigned flags, int seals)
{
    int fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        return -1;
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/** What is sent after a good handshake; 1 when the link must survive it. */
static int liar_lie(struct liar *x, int n)
{
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_BLOCK);
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    int fd = -1;
    int survives = 0;
    w.a = 5;
    w.b = 8192;
    switch (n) {
    case 0: /* good */
        fd = memfd_of(8192, 0, sealed);
        survives = 1;
        break;
    case 1: /* not sealed: could be truncated under us */
        fd = memfd_of(8192, 0, 0);
        break;
    case 2: /* sealed against growing only */
        fd = memfd_of(8192, 0, F_SEAL_GROW);
        break;
    case 3: /* shorter than it says */
        fd = memfd_of(4096, 0, sealed);
        break;
    case 4: /* more than we take */
        w.b = 2 << 20;
        fd = memfd_of(2 << 20, 0, sealed);
        break;
    case 5: /* no whole pages */
        w.b = 100;
        fd = memfd_of(8192, 0, sealed);
        break;
    case 6: /* nothing */
        w.b = 0;
        fd = memfd_of(8192, 0, sealed);
        break;
    case 7: /* no descriptor */
        break;
    case 8: /* something else */
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        break;
    case 9: /* huge pages that may not be there */
        fd = memfd_of(2 << 20, MFD_HUGETLB, sealed);
        break;
    case 16:
        w.version++;
        break;
    default: { /* a region of no block, ...; an empty message; a second HELLO */
        static const uint16_t types[] = {DMA_SHM_REGION, DMA_SHM_UNREG, DMA_SHM_DROP, 999,
                                         DMA_SHM_MSG,    DMA_SHM_HELLO};
        w.type = types[n - 10];
        w.a = (1 << 16) | 3;
        break;
    }
    }
    if (n == 9 && fd < 0)
        w.type = 999; /* no huge pages in this kernel: lie otherwise */
    assert_int_equal(dma_shm_transmit(x->fd, &w, NULL, &fd, fd >= 0 ? 1 : 0), 1);
    if (fd >= 0)
        (void)close(fd);
    return survives;
}

/**
 * A peer that offers memory which could fault, or talks nonsense, loses the link; the process
 * goes on. It is not dead, though: its death is not reported while it lives.
 */
static void test_dma_shm_lying_peer_torn(void **state)
{
    (void)state;
    int before = conf_dma_fds();
    struct liar x;
    liar_open(&x);
    for (int n = 0; n < 17; n++) {
        liar_welcome(&x);
        int survives = liar_lie(&x, n);
        liar_spin(&x);
        assert_int_equal(liar_cut(&x), !survives);
        assert_int_equal(snic_dma_send(x.d, "x", 1), survives ? 1 : SNIC_EPEERDEAD);
        struct snic_dma_batch b = {.count = 0};
        struct snic_dma_batch *list = &b;
        if (!survives)
            assert_int_equal(snic_dma_submit(x.d, &list, 1), SNIC_EPEERDEAD);
        assert_int_equal(x.deaths, 0);
        assert_int_equal(x.messages, 0);
        snic_dma_close(x.d);
        x.d = NULL;
        liar_hang_up(&x);
    }
    liar_close(&x);
    assert_int_equal(conf_dma_fds(), before);
}

/** Regions outside their block, keys twice, too many descriptors: refused one by one. */
static void test_dma_shm_lying_regions_torn(void **state)
{
    (void)state;
    struct liar x;
    liar_open(&x);
    for (int n = 0; n < 8; n++) {
        struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_BLOCK);
        int fd = memfd_of(8192, 0, F_SEAL_SHRINK);
        liar_welcome(&x);
        w.a = 5;
        w.b = 8192;
        assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, &fd, 1), 1);
        w = dma_shm_wire_make(DMA_SHM_REGION);
        w.a = (1 << 16) | 3;
        w.b = 5;
        w.c = 4096;
        w.d = 4096;
        w.rights = 7;
        switch (n) {
        case 1:
            w.c = 4097;
            break;
        case 2:
            w.c = UINT64_MAX;
            break;
        case 3:
            w.d = UINT64_MAX;
            break;
        case 4:
            w.rights = 0;
            break;
        case 5:
            w.rights = 8;
            break;
        case 6:
            w.a = 0xffff;
            break;
        default:
            break;
        }
        assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, NULL, 0), 1);
        if (n == 7) /* the same key again */
            assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, NULL, 0), 1);
        assert_int_equal(liar_cut(&x), n != 0);
        if (n == 0) {
            void *p = NULL;
            assert_int_equal(snic_dma_map(x.d, w.a, 0, 4096, &p), 0);
            assert_int_equal(ftruncate(fd, 0), -1); /* what the seal is for */
            ((volatile char *)p)[4095] = 1;
            w = dma_shm_wire_make(DMA_SHM_DROP);
            w.a = 5;
            assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, NULL, 0), 1);
            liar_spin(&x);
            ((volatile char *)p)[4095] = 2; /* ours until unmapped */
            snic_dma_unmap(x.d, p);
            assert_int_equal(((struct dma_shm *)(void *)x.d)->imported, 0);
        }
        (void)close(fd);
        snic_dma_close(x.d);
        x.d = NULL;
        liar_hang_up(&x);
    }
    liar_close(&x);
}

/** One block of @p size bytes and a region over all of it, both under the number @p n. */
static void liar_block(struct liar *x, uint64_t n, size_t size)
{
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_BLOCK);
    int fd = memfd_of(size, 0, F_SEAL_SHRINK);
    w.a = n;
    w.b = size;
    assert_int_equal(dma_shm_transmit(x->fd, &w, NULL, &fd, 1), 1);
    (void)close(fd);
    w = dma_shm_wire_make(DMA_SHM_REGION);
    w.a = (1 << 16) | n;
    w.b = n;
    w.d = size;
    w.rights = 7;
    assert_int_equal(dma_shm_transmit(x->fd, &w, NULL, NULL, 0), 1);
    liar_spin(x);
}

/**
 * Blocks that the system maps side by side, in an order of the peer's making: a pointer to the
 * start of one is not taken for the end of another, whose memory would go instead.
 */
static void test_dma_shm_adjacent_blocks_told_apart(void **state)
{
    (void)state;
    struct liar x;
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_DROP);
    void *low = NULL;
    void *high = NULL;
    liar_open(&x);
    liar_welcome(&x);
    liar_block(&x, 1, 8192);
    liar_block(&x, 2, 4096);
    w.a = 1; /* leaves a hole above the second, where the next two go */
    assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, NULL, 0), 1);
    liar_spin(&x);
    liar_block(&x, 3, 4096);
    liar_block(&x, 4, 4096);
    assert_int_equal(snic_dma_map(x.d, (1 << 16) | 2, 0, 4096, &low), 0);
    assert_int_equal(snic_dma_map(x.d, (1 << 16) | 4, 0, 4096, &high), 0);
    w.a = 2; /* its memory stays until unmapped */
    assert_int_equal(dma_shm_transmit(x.fd, &w, NULL, NULL, 0), 1);
    liar_spin(&x);
    snic_dma_unmap(x.d, high);
    ((volatile char *)low)[4095] = 1;
    snic_dma_unmap(x.d, low);
    assert_int_equal(snic_dma_map(x.d, (1 << 16) | 4, 4096, 0, &high), SNIC_EFAULT);
    liar_hang_up(&x);
    liar_close(&x);
}

/** A peer that makes the eventfd block must not block us: the owner rings through the ring. */
static void test_dma_shm_saturated_bell_does_not_block(void **state)
{
    (void)state;
    struct liar x;
    liar_open(&x);
    liar_welcome(&x);
    struct dma_shm_page *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, x.fds[0], 0);
    assert_true(page != MAP_FAILED);
    uint64_t full = UINT64_MAX - 1;
    assert_int_equal(write(x.fds[1], &full, 8), 8);
    assert_int_equal(fcntl(x.fds[1], F_SETFL, 0), 0); /* blocking from now on */
    for (int i = 0; i < 100; i++) {
        atomic_store_explicit(&page->lanes[0].bells, 0, memory_order_relaxed);
        assert_int_equal(snic_dma_ring(x.d, (uint32_t)i % 64), 0);
        (void)snic_loop_once(x.loop, 0);
    }
    assert_int_equal(munmap(page, 4096), 0);
    liar_hang_up(&x);
    liar_close(&x);
}

/** One listener, many peers at once, each with its own death. */
static void test_dma_shm_many_peers_served(void **state)
{
    (void)state;
    enum { PEERS = 20 };
    struct liar x;
    liar_open(&x);
    struct snic_dma *d[PEERS];
    int fds[PEERS];
    for (int i = 0; i < PEERS; i++) {
        liar_welcome(&x);
        d[i] = x.d;
        fds[i] = x.fd;
        for (int k = 0; k < 3; k++)
            (void)close(x.fds[k]);
    }
    for (int i = 0; i < PEERS; i++) {
        struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_MSG);
        w.size = 2;
        assert_int_equal(dma_shm_transmit(fds[i], &w, "hi", NULL, 0), 1);
    }
    for (int i = 0; x.messages < PEERS && i < 100000; i++)
        (void)snic_loop_once(x.loop, 1000000);
    assert_int_equal(x.messages, PEERS);
    for (int i = 0; i < PEERS; i++) {
        (void)close(fds[i]);
        snic_dma_close(d[i]);
    }
    x.d = NULL;
    liar_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dma_shm_two_loops_conforms),
        cmocka_unit_test(test_dma_shm_peer_killed_certified_once),
        cmocka_unit_test(test_dma_shm_peer_exits_messages_first),
        cmocka_unit_test(test_dma_shm_peer_closes_and_lives_closed),
        cmocka_unit_test(test_dma_shm_refused_connect_fails),
        cmocka_unit_test(test_dma_shm_threads_ring_never_lost),
        cmocka_unit_test(test_dma_shm_stale_socket_replaced),
        cmocka_unit_test(test_dma_shm_connect_errors_told_apart),
        cmocka_unit_test(test_dma_shm_bad_hello_dropped),
        cmocka_unit_test(test_dma_shm_lying_peer_torn),
        cmocka_unit_test(test_dma_shm_lying_regions_torn),
        cmocka_unit_test(test_dma_shm_adjacent_blocks_told_apart),
        cmocka_unit_test(test_dma_shm_saturated_bell_does_not_block),
        cmocka_unit_test(test_dma_shm_many_peers_served),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
