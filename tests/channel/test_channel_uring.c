/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** channel on io_uring loops: two threads with many senders, and two processes. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "channel/channel_priv.h"
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
                          .requests = (uint32_t)support_scale(CHAN_STRIDE > 1 ? 150 : 400, 3000),
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

/** Run both sides on two threads until every request is answered. */
static void threads_run(const struct chan_opts *o)
{
    static struct chan_host_side h;
    static struct chan_dpu_side u;
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    memset(&h, 0, sizeof(h));
    memset(&u, 0, sizeof(u));
    h.s.loop = loop_open();
    u.s.loop = loop_open();
    assert_int_equal(snic_dma_local_open(&h.s.d, h.s.loop, &none, &u.s.d, u.s.loop, &none), 0);
    chan_host_begin(&h, o);
    chan_dpu_begin(&u, o);
    pthread_t dpu;
    assert_int_equal(pthread_create(&dpu, NULL, dpu_thread, &u), 0);
    chan_host_open(&h);
    chan_threads_start(&h);
    host_serve(&h);
    chan_threads_join(&h);
    chan_end(&h.s); /* the DPU learns of it and ends */
    assert_int_equal(pthread_join(dpu, NULL), 0);
    assert_int_equal(h.s.bad + u.s.bad, 0);
    assert_int_equal(h.replies, o->mute ? 0 : chan_total(o));
    assert_int_equal(u.requests, chan_total(o));
    assert_int_equal(h.senders_done, o->threads);
    chan_host_free(&h);
    snic_loop_close(h.s.loop);
    snic_loop_close(u.s.loop);
}

/**
 * Four senders against one loop on each side, everything asleep whenever it can be: nothing
 * is lost, doubled or torn, and each sender's order is kept.
 */
static void test_channel_two_threads_every_mode_delivers(void **state)
{
    (void)state;
    for (uint32_t mode = 0; mode < 64; mode += support_nightly() ? 1 : 3) {
        struct chan_opts o = mode_opts(mode);
        threads_run(&o);
    }
}

/**
 * One request at a time between two threads, as fast as it goes: each side goes to sleep just
 * when the other sends, so that the last look before the sleep is what matters.
 */
static void test_channel_two_threads_ping_pong_never_sleeps_on(void **state)
{
    (void)state;
    for (uint32_t mode = 0; mode < 16; mode += 3) {
        struct chan_opts o = mode_opts(mode);
        o.requests = (uint32_t)support_scale(CHAN_STRIDE > 1 ? 300 : 3000, 30000);
        o.threads = 0;
        o.window = 1;
        o.gap_ns = 0;
        o.hold_ns = 0;
        o.payload_max = 64;
        o.quiet = 1;
        threads_run(&o);
    }
}

/**
 * Rings with room for two messages or three: a sender finds them full and sleeps just when
 * space is freed, so that the try after the arming is what matters.
 */
static void test_channel_two_threads_full_rings_never_sleep_on(void **state)
{
    (void)state;
    for (uint32_t mode = 0; mode < 16; mode += 3) {
        struct chan_opts o = mode_opts(mode);
        o.requests = (uint32_t)support_scale(CHAN_STRIDE > 1 ? 300 : 3000, 30000);
        o.threads = 1;
        o.hold_ns = 0;
        o.ring_bytes = 4096;
        o.payload_max = 800;
        o.quiet = 1;
        threads_run(&o);
        o.mute = 1; /* no answer wakes the host by the way */
        o.accept_flags = 0;
        o.requests *= 4;
        threads_run(&o);
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
    while (snic_channel_hub_count(h.s.hub) != 0) /* the peer closes, too */
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
 * that are still out may be used and returned.
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

/* ---- A process that lies ---- */

struct liar {
    struct snic_loop *loop;
    struct snic_dma *d;
    unsigned char *ring[2];
    size_t size[2];
    uint64_t key[2];
    uint32_t refused; /* CLOSEs received */
    uint32_t slot;
};

static void liar_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct liar *x = ctx;
    struct channel_ctl m;
    (void)d;
    if (size != sizeof(m))
        return;
    memcpy(&m, msg, sizeof(m));
    if (m.type != CHANNEL_CTL_CLOSE)
        return;
    x->refused++;
    (void)snic_dma_send(d, &m, sizeof(m)); /* the place is free again */
}

/** Format both rings and offer them once more. */
static void liar_offer(struct liar *x, uint32_t generation, uint32_t flags)
{
    struct channel_ctl m = {.magic = SNIC_CHANNEL_MAGIC,
                            .version = SNIC_CHANNEL__VERSION,
                            .type = CHANNEL_CTL_OPEN,
                            .slot = generation % 8,
                            .generation = generation,
                            .kind = CHAN_KIND,
                            .flags = flags};
    for (int i = 0; i < 2; i++) {
        uint32_t flag = i == 0 ? SNIC_CHANNEL_UP_QUIESCENT : SNIC_CHANNEL_DOWN_ORDERED;
        struct snic_ring_opts o = {.opts_size = sizeof(o),
                                   .kind = i == 0 ? SNIC_RING_REQUEST : SNIC_RING_RESPONSE,
                                   .discipline =
                                       (flags & flag) != 0 ? SNIC_RING_QUIESCENT : SNIC_RING_COMMIT,
                                   .capacity_bytes = 8192};
        struct snic_ring_info info;
        if (x->ring[i] == NULL) {
            void *mem = NULL;
            x->size[i] = snic_ring_memsize(&o);
            if (snic_dma_alloc(x->d, x->size[i], &mem) != 0 ||
                snic_dma_register(x->d, mem, x->size[i], 3, &x->key[i]) != 0)
                _exit(110);
            x->ring[i] = mem;
        }
        if (snic_ring_init(x->ring[i], x->size[i], &o) != 0 ||
            snic_ring_geometry(x->ring[i], x->size[i], &info) != 0)
            _exit(111);
        m.record_max = info.record_max;
        m.payload_align = info.body_align;
    }
    m.up_key = x->key[0];
    m.up_size = x->size[0];
    m.up_bytes = m.down_bytes = 8192;
    m.down_key = x->key[1];
    m.down_size = x->size[1];
    (void)snic_dma_send(x->d, &m, sizeof(m));
    x->slot = m.slot;
}

/** One stroke over shared memory: a byte, a cursor, a commit word, or an honest message. */
static void liar_stroke(struct liar *x, struct snic_rng *rng, struct snic_ring_producer *p)
{
    int i = (int)snic_rng_below(rng, 2);
    unsigned char *mem = x->ring[i];
    uint64_t at = snic_rng_below(rng, x->size[i] / 8) * 8;
    switch (snic_rng_below(rng, 6)) {
    case 0:
        mem[snic_rng_below(rng, x->size[i])] = (unsigned char)snic_rng_next(rng);
        break;
    case 1:
        at = 128 + 128 * snic_rng_below(rng, 5);
        snic_put_le64(mem + at, snic_get_le64(mem + at) + 16 * snic_rng_below(rng, 64) - 256);
        break;
    case 2:
        snic_put_le64(mem + at, (at - 768) * 2 | 1);
        break;
    default:
        (void)!snic_ring_push(p, 1, "an honest message of some length", 32);
        if (snic_ring_notify(p))
            (void)snic_dma_ring(x->d, x->slot);
        break;
    }
}

static void liar_main(const struct snic_dma_shm_opts *so)
{
    static struct liar x;
    struct snic_rng rng;
    struct snic_dma_events e = {.recv = liar_recv, .ctx = &x};
    int r;
    snic_rng_init(&rng, support_seed());
    if (snic_loop_uring_open(&x.loop, NULL) != 0)
        _exit(100);
    do {
        r = snic_dma_shm_connect(&x.d, x.loop, so, &e);
        if (r == SNIC_ECONNREFUSED)
            (void)usleep(1000);
    } while (r == SNIC_ECONNREFUSED);
    if (r != 0)
        _exit(101);
    for (uint32_t round = 1; round <= support_scale(60, 3000); round++) {
        struct snic_ring_producer p;
        uint32_t had = x.refused;
        liar_offer(&x, round, round & 3);
        if (snic_ring_producer_attach(&p, x.ring[0], x.size[0], 0) != 0)
            _exit(112);
        (void)!snic_ring_push(&p, 1, "an honest beginning", 20);
        while (x.refused == had && snic_get_le64(x.ring[0] + SNIC_RING_OFF_HEAD) == 0) {
            (void)snic_dma_ring(x.d, x.slot);
            (void)snic_loop_once(x.loop, 1000000);
        }
        for (int i = 0; x.refused == had && i < 200000; i++) {
            liar_stroke(&x, &rng, &p);
            if (i % 1000 == 0)
                (void)snic_dma_ring(x.d, x.slot);
            if (i % 64 == 0)
                (void)snic_loop_once(x.loop, 0);
        }
    }
    _exit(0);
}

struct victim {
    struct snic_loop *loop;
    struct snic_channel_hub *hub;
    void *mem;
    struct snic_dma_listener *listener;
    uint32_t accept_flags;
    uint32_t accepted;
    uint32_t ended;
    uint32_t lies; /* ended by SNIC_EPROTO */
    uint32_t deaths;
    uint64_t taken;
    volatile unsigned char sink;
};

static int victim_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct victim *v = ctx;
    struct snic_channel_slot slot;
    v->taken++;
    for (uint32_t i = 0; i < m->header_bytes; i++)
        v->sink = ((const unsigned char *)m->header)[i];
    for (uint32_t i = 0; i < m->payload_bytes; i += 64)
        v->sink = ((volatile unsigned char *)m->payload)[i];
    if (snic_channel_down_reserve(c, 1, m->header_bytes, m->payload_bytes, &slot) == 0) {
        if (slot.header_bytes > 0)
            memset(slot.header, 1, slot.header_bytes);
        if (slot.payload_bytes > 0)
            memset(slot.payload, 1, slot.payload_bytes);
        snic_channel_down_commit(c, &slot, slot.payload_bytes);
    }
    return 1;
}

static void victim_closed(void *ctx, struct snic_channel *c, int reason)
{
    struct victim *v = ctx;
    v->ended++;
    v->lies += reason == SNIC_EPROTO;
    snic_channel_close(c);
}

static int victim_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *o)
{
    struct victim *v = ctx;
    struct snic_channel *c = NULL;
    struct snic_channel_events e = {.message = victim_message, .closed = victim_closed, .ctx = v};
    struct snic_channel_accept_opts a = {.opts_size = sizeof(a), .flags = v->accept_flags};
    int r = snic_channel_accept(&c, h, o, &a, &e);
    v->accepted += r == 0;
    return r;
}

static void victim_death(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause)
{
    struct victim *v = ctx;
    (void)h;
    (void)cause;
    v->deaths++;
}

static void victim_link(void *ctx, struct snic_dma *d, uint32_t pid)
{
    struct victim *v = ctx;
    struct snic_channel_hub_opts o = {
        .opts_size = sizeof(o), .accept = victim_accept, .death = victim_death, .ctx = v};
    size_t size = snic_channel_hub_memsize(&o);
    (void)pid;
    v->mem = malloc(size);
    assert_int_equal(snic_channel_hub_init(&v->hub, v->mem, size, d, &o), 0);
}

/**
 * A process that scribbles over the rings while we use them: channel after channel ends with
 * SNIC_EPROTO or lives on, and this process stays whole.
 */
static void test_channel_scribbling_host_survived(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        struct victim v = {.accept_flags = n == 1 ? SNIC_CHANNEL_UNMAPPED : 0};
        char path[256];
        char name[16];
        int status = 0;
        (void)snprintf(name, sizeof(name), "liar%u", n);
        support_tmpname(path, sizeof(path), name);
        struct snic_dma_shm_opts so = {.opts_size = sizeof(so), .path = path, .timeout_ms = 60000};
        (void)fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            liar_main(&so);
        v.loop = loop_open();
        assert_int_equal(snic_dma_shm_listen(&v.listener, v.loop, &so, victim_link, &v), 0);
        while (v.deaths == 0)
            (void)snic_loop_once(v.loop, SNIC_NEVER);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(v.accepted, v.ended);
        assert_true(v.lies > 0);
        assert_true(v.taken > 0);
        assert_ptr_equal(snic_channel_hub_fini(v.hub), v.mem);
        free(v.mem);
        snic_dma_shm_unlisten(v.listener);
        for (int i = 0; i < 20; i++)
            (void)snic_loop_once(v.loop, 0);
        snic_loop_close(v.loop);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channel_two_threads_every_mode_delivers),
        cmocka_unit_test(test_channel_two_threads_ping_pong_never_sleeps_on),
        cmocka_unit_test(test_channel_two_threads_full_rings_never_sleep_on),
        cmocka_unit_test(test_channel_two_processes_every_mode_delivers),
        cmocka_unit_test(test_channel_host_killed_tokens_still_good),
        cmocka_unit_test(test_channel_scribbling_host_survived),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
