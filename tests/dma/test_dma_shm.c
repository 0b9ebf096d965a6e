/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** dma shm: the conformance suite, and real processes that die. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dma/shm_priv.h"
#include "test_dma_shm_util.h"

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

/** The contract over a socket and shared memory, whichever end connects. */
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
    uint64_t tag, child_tag;
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
        .opts_size = sizeof(c->opts), .path = socket_path(), .timeout_ms = 60000, .tag = c->tag};
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
        c->opts.tag = c->child_tag;
        int r = snic_dma_shm_connect(&c->d, c->loop, &c->opts, &c->events);
        if (r != 0)
            _exit(r == SNIC_ECONNREFUSED ? 101 : r == SNIC_EPERM ? 103 : 102);
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

/** Ends that disagree on a number are refused at once; none at either end agrees with all. */
static void test_dma_shm_tags_have_to_agree(void **state)
{
    static const struct {
        uint64_t ours, theirs;
        int code;
    } all[] = {{7, 8, 103}, {7, 7, 0}, {0, 8, 0}, {7, 0, 0}};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(all); i++) {
        struct child c = {.tag = all[i].ours, .child_tag = all[i].theirs};
        child_start(&c, body_talk_and_exit);
        int status = 0;
        while (waitpid(c.pid, &status, WNOHANG) == 0)
            (void)snic_loop_once(c.loop, 1000000);
        if (all[i].code == 0)
            child_until(&c, &c.deaths, 1);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), all[i].code);
        assert_int_equal(c.accepted, all[i].code == 0);
        child_end(&c);
    }
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

/**
 * A killed process's listener that the kernel still keeps (here: another process has the
 * descriptor) does not keep the next one out.
 */
static void test_dma_shm_listener_of_the_dead_replaced(void **state)
{
    (void)state;
    struct snic_loop *l = loop_open();
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o), .path = socket_path()};
    struct snic_dma_listener *s = NULL;
    uint32_t count = 0;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int gate[2];
    char byte;
    memcpy(a.sun_path, o.path, strlen(o.path));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(pipe(gate), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int bad = listen(fd, 4) != 0 || write(gate[1], "x", 1) != 1;
        (void)pause();
        _exit(bad);
    }
    assert_int_equal(read(gate[0], &byte, 1), 1);
    assert_int_equal(snic_dma_shm_listen(&s, l, &o, no_accept, &count), SNIC_EADDRINUSE);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(snic_dma_shm_listen(&s, l, &o, no_accept, &count), 0);
    snic_dma_shm_unlisten(s);
    (void)close(fd);
    (void)close(gate[0]);
    (void)close(gate[1]);
    for (int i = 0; i < 20; i++)
        (void)snic_loop_once(l, 0);
    snic_loop_close(l);
}

struct late {
    struct snic_loop *loop;
    struct snic_dma_shm_opts opts;
    int result;
    _Atomic(int) over;
};

static void *late_connect(void *ctx)
{
    struct late *t = ctx;
    struct snic_dma *d = NULL;
    struct snic_dma_events e = {NULL, NULL, NULL, NULL};
    t->result = snic_dma_shm_connect(&d, t->loop, &t->opts, &e);
    atomic_store_explicit(&t->over, 1, memory_order_release);
    return NULL;
}

/**
 * A listener that did not run for a while does not make links for connectors that gave up in that
 * time: what the user does for each may take so long that all who wait give up, again and again.
 */
static void test_dma_shm_connectors_that_gave_up_not_accepted(void **state)
{
    (void)state;
    struct snic_loop *l = loop_open();
    struct late t = {.loop = loop_open(),
                     .opts = {.opts_size = sizeof(t.opts), .path = socket_path()}};
    struct snic_dma_listener *s = NULL;
    pthread_t thread;
    uint32_t count = 0;
    assert_int_equal(snic_dma_shm_listen(&s, l, &t.opts, no_accept, &count), 0);
    t.opts.timeout_ms = 5;
    for (int i = 0; i < 5; i++) {
        (void)late_connect(&t);
        assert_int_equal(t.result, SNIC_ETIMEDOUT);
    }
    t.over = 0;
    t.opts.timeout_ms = 240000;
    assert_int_equal(pthread_create(&thread, NULL, late_connect, &t), 0);
    while (!atomic_load_explicit(&t.over, memory_order_acquire))
        (void)snic_loop_once(l, 1000000);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(t.result, SNIC_ECONNREFUSED); /* by no_accept */
    snic_dma_shm_unlisten(s);
    for (int i = 0; i < 20; i++)
        (void)snic_loop_once(l, 0);
    assert_int_equal(count, 1);
    snic_loop_close(t.loop);
    snic_loop_close(l);
}

/** No listener, no answer, the wrong loop: each its own error. */
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
    o.timeout_ms = 86400001; /* more than a day */
    assert_int_equal(snic_dma_shm_connect(&d, l, &o, &e), SNIC_EINVAL);
    o.timeout_ms = 50;
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dma_shm_two_loops_conforms),
        cmocka_unit_test(test_dma_shm_peer_killed_certified_once),
        cmocka_unit_test(test_dma_shm_peer_exits_messages_first),
        cmocka_unit_test(test_dma_shm_peer_closes_and_lives_closed),
        cmocka_unit_test(test_dma_shm_refused_connect_fails),
        cmocka_unit_test(test_dma_shm_tags_have_to_agree),
        cmocka_unit_test(test_dma_shm_threads_ring_never_lost),
        cmocka_unit_test(test_dma_shm_stale_socket_replaced),
        cmocka_unit_test(test_dma_shm_listener_of_the_dead_replaced),
        cmocka_unit_test(test_dma_shm_connectors_that_gave_up_not_accepted),
        cmocka_unit_test(test_dma_shm_connect_errors_told_apart),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
