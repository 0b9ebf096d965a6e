/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** channel on io_uring loops: two threads with many senders, and two processes. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance_channel.h"
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

static struct chan_opts mode_opts(uint32_t mode)
{
    struct chan_opts o = {.seed = support_seed() + mode,
                          .requests = (uint32_t)support_scale(400, 20000),
                          .threads = 4,
                          .payload_max = 900,
                          .payload_align = 8,
                          .ring_bytes = 16384,
                          .gap_ns = 20000,
                          .hold_ns = 5000};
    if (mode & 1)
        o.flags |= SNIC_CHANNEL_UP_QUIESCENT;
    if (mode & 2)
        o.flags |= SNIC_CHANNEL_DOWN_ORDERED;
    if (mode & 4)
        o.batch_bytes = 2000;
    if (mode & 8)
        o.accept_flags = SNIC_CHANNEL_UNMAPPED;
    if (mode & 16) {
        o.payload_align = 4096;
        o.payload_max = 20000;
        o.ring_bytes = 1 << 18;
        o.accept_flags |= SNIC_CHANNEL_REGIONS;
    }
    if (mode & 32)
        o.hold_ns = 0;
    return o;
}

/* ---- Two threads of one process ---- */

/** The DPU's loop until its channel has ended. */
static void *dpu_thread(void *arg)
{
    struct chan_dpu_side *u = arg;
    while (u->s.closed == 0)
        (void)snic_loop_once(u->s.loop, SNIC_NEVER); /* a lost wake-up hangs here */
    chan_end(&u->s);
    return NULL;
}

static void host_serve(struct chan_host_side *h)
{
    while (!chan_host_done(h) && h->s.bad == 0 && h->s.closed == 0)
        (void)snic_loop_once(h->s.loop, SNIC_NEVER); /* or here */
}

/**
 * Four senders against one loop on each side, everything asleep whenever it can be: nothing
 * is lost, doubled or torn, and each sender's order is kept.
 */
static void test_channel_two_threads_every_mode_delivers(void **state)
{
    (void)state;
    static struct chan_host_side h;
    static struct chan_dpu_side u;
    for (uint32_t mode = 0; mode < 64; mode += support_nightly() ? 1 : 3) {
        struct chan_opts o = mode_opts(mode);
        struct snic_dma_events none = {NULL, NULL, NULL, NULL};
        memset(&h, 0, sizeof(h));
        memset(&u, 0, sizeof(u));
        h.s.loop = loop_open();
        u.s.loop = loop_open();
        assert_int_equal(snic_dma_local_open(&h.s.d, h.s.loop, &none, &u.s.d, u.s.loop, &none), 0);
        chan_host_begin(&h, &o);
        chan_dpu_begin(&u, &o);
        pthread_t dpu;
        assert_int_equal(pthread_create(&dpu, NULL, dpu_thread, &u), 0);
        chan_host_open(&h);
        chan_threads_start(&h);
        host_serve(&h);
        chan_threads_join(&h);
        chan_end(&h.s); /* the DPU learns of it and ends */
        assert_int_equal(pthread_join(dpu, NULL), 0);
        assert_int_equal(h.s.bad + u.s.bad, 0);
        assert_int_equal(h.replies, chan_total(&o));
        assert_int_equal(u.requests, chan_total(&o));
        assert_int_equal(h.senders_done, o.threads);
        chan_host_free(&h);
        snic_loop_close(h.s.loop);
        snic_loop_close(u.s.loop);
    }
}

/* ---- Two processes ---- */

struct proc {
    struct chan_dpu_side u;
    struct snic_dma_listener *listener;
    struct snic_dma_shm_opts so;
    struct chan_opts o;
    pid_t pid;
    int status;
};

static void proc_accept(void *ctx, struct snic_dma *d, uint32_t pid)
{
    struct proc *p = ctx;
    (void)pid;
    p->u.s.d = d;
    chan_dpu_begin(&p->u, &p->o);
}

/** The child: a host with threads; exits 0 when all was answered. */
static void proc_host(struct proc *p)
{
    static struct chan_host_side h;
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    int r;
    memset(&h, 0, sizeof(h));
    if (snic_loop_uring_open(&h.s.loop, NULL) != 0)
        _exit(100);
    do {
        r = snic_dma_shm_connect(&h.s.d, h.s.loop, &p->so, &none);
        if (r == SNIC_ECONNREFUSED)
            (void)usleep(1000);
    } while (r == SNIC_ECONNREFUSED);
    if (r != 0)
        _exit(101);
    chan_host_begin(&h, &p->o);
    chan_host_open(&h);
    chan_threads_start(&h);
    host_serve(&h);
    if (h.s.bad != 0 || h.s.closed != 0)
        _exit(102);
    chan_threads_join(&h);
    chan_give_all(&h.s);
    snic_channel_close(h.s.c);
    h.s.c = NULL;
    while (snic_channel_hub_count(h.s.hub) != 0) /* the peer says goodbye, too */
        (void)snic_loop_once(h.s.loop, SNIC_NEVER);
    chan_end(&h.s);
    for (int i = 0; i < 10; i++)
        (void)snic_loop_once(h.s.loop, 0);
    snic_loop_close(h.s.loop);
    _exit(0);
}

static void proc_start(struct proc *p, const struct chan_opts *o)
{
    static char path[256];
    static int number;
    char name[32];
    (void)snprintf(name, sizeof(name), "c%d", number++);
    support_tmpname(path, sizeof(path), name);
    memset(p, 0, sizeof(*p));
    p->o = *o;
    p->so =
        (struct snic_dma_shm_opts){.opts_size = sizeof(p->so), .path = path, .timeout_ms = 60000};
    (void)fflush(NULL);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0)
        proc_host(p);
    p->u.s.loop = loop_open();
    assert_int_equal(snic_dma_shm_listen(&p->listener, p->u.s.loop, &p->so, proc_accept, p), 0);
}

static void proc_end(struct proc *p)
{
    assert_int_equal(waitpid(p->pid, &p->status, 0), p->pid);
    if (p->u.s.hub != NULL)
        chan_end(&p->u.s);
    snic_dma_shm_unlisten(p->listener);
    for (int i = 0; i < 20; i++)
        (void)snic_loop_once(p->u.s.loop, 0);
    snic_loop_close(p->u.s.loop);
}

/** The same between processes, over memfds and eventfds. */
static void test_channel_two_processes_every_mode_delivers(void **state)
{
    (void)state;
    static struct proc p;
    for (uint32_t mode = 0; mode < 64; mode += support_nightly() ? 1 : 5) {
        struct chan_opts o = mode_opts(mode);
        proc_start(&p, &o);
        while (p.u.s.closed == 0)
            (void)snic_loop_once(p.u.s.loop, SNIC_NEVER); /* a lost wake-up hangs here */
        chan_give_all(&p.u.s);
        snic_channel_close(p.u.s.c);
        p.u.s.c = NULL;
        while (p.u.s.deaths == 0)
            (void)snic_loop_once(p.u.s.loop, SNIC_NEVER);
        proc_end(&p);
        assert_int_equal(p.status, 0);
        assert_int_equal(p.u.s.bad, 0);
        assert_int_equal(p.u.s.reason, 0);
        assert_int_equal(p.u.requests, chan_total(&o));
    }
}

/**
 * kill -9 of a busy host: the DPU gets one closed event with EPEERDEAD, and tokens and slots
 * that are still out may be used and given back.
 */
static void test_channel_host_killed_tokens_still_good(void **state)
{
    (void)state;
    static struct proc p;
    for (uint32_t mode = 0; mode < support_scale(16, 64); mode++) {
        struct chan_opts o = mode_opts(mode);
        o.requests = 1000000;
        o.hold_ns = 20000000;
        proc_start(&p, &o);
        uint32_t after = 10 + mode * 7;
        while (p.u.requests < after)
            (void)snic_loop_once(p.u.s.loop, SNIC_NEVER);
        assert_int_equal(kill(p.pid, SIGKILL), 0);
        while (p.u.s.closed == 0)
            (void)snic_loop_once(p.u.s.loop, SNIC_NEVER);
        assert_int_equal(p.u.s.reason, SNIC_EPEERDEAD);
        for (int i = 0; i < CHAN_HELD; i++) /* the disk may still write into slots */
            if (p.u.s.held[i].kind == 2 && p.u.s.held[i].slot.payload != NULL)
                memset(p.u.s.held[i].slot.payload, 0xab, p.u.s.held[i].slot.payload_bytes);
        struct snic_channel_slot slot;
        assert_int_equal(snic_channel_down_reserve(p.u.s.c, 1, 8, 8, &slot), SNIC_EPIPE);
        proc_end(&p);
        assert_int_equal(p.u.s.bad, 0);
        assert_int_equal(p.u.s.deaths, 1);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channel_two_threads_every_mode_delivers),
        cmocka_unit_test(test_channel_two_processes_every_mode_delivers),
        cmocka_unit_test(test_channel_host_killed_tokens_still_good),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
