/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** dma local on io_uring loops: conformance on one thread, stress on two. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "conformance_dma.h"
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

static void local_open(struct conf_dma *f)
{
    for (int i = 0; i < 2; i++)
        f->loop[i] = loop_open();
    assert_int_equal(snic_dma_local_open(&f->d[0], f->loop[0], &f->events[0], &f->d[1], f->loop[1],
                                         &f->events[1]),
                     0);
}

static void local_open_shared(struct conf_dma *f)
{
    f->loop[0] = f->loop[1] = loop_open();
    assert_int_equal(snic_dma_local_open(&f->d[0], f->loop[0], &f->events[0], &f->d[1], f->loop[1],
                                         &f->events[1]),
                     0);
}

static void local_close(struct conf_dma *f)
{
    if (f->loop[1] != f->loop[0])
        snic_loop_close(f->loop[1]);
    snic_loop_close(f->loop[0]);
}

static int local_step(struct conf_dma *f)
{
    return snic_loop_once(f->loop[0], 0) + snic_loop_once(f->loop[1], 0);
}

/** The contract with a loop per role. */
static void test_dma_local_two_loops_conforms(void **state)
{
    (void)state;
    const struct conf_dma_backend b = {"local/2", local_open, local_close, local_step};
    conformance_dma_run(&b, 0, 0);
}

/** The contract with both roles on one loop: the single-process build of a small node. */
static void test_dma_local_one_loop_conforms(void **state)
{
    (void)state;
    const struct conf_dma_backend b = {"local/1", local_open_shared, local_close, local_step};
    conformance_dma_run(&b, 0, 0);
}

/* ---- Two threads ---- */

#define STRESS_IDS 8

/** One side of the stress; its loop runs on its own thread. */
struct stress {
    struct snic_loop *loop;
    struct snic_dma *d;
    struct stress *peer;
    uint64_t key; /* of the peer's region */
    uint32_t rounds;
    uint32_t sent;
    uint32_t received;
    uint32_t disorder;
    uint32_t deaths;
    uint64_t adds;
    uint64_t adds_done;
    uint32_t bad;
    int closes_first;
    int stopped;
    struct snic_dma_batch batch;
    struct snic_dma_op op;
    struct snic_loop_poller poller;
    _Atomic(int) quiet;                   /* no thread rings on this handle any more */
    _Atomic(uint64_t) posted[STRESS_IDS]; /* by the peer's threads, before they ring */
    uint64_t seen[STRESS_IDS];
};

static void stress_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct stress *s = ctx;
    uint32_t n;
    (void)d;
    s->bad += size != 4;
    memcpy(&n, msg, 4);
    s->disorder += n != s->received;
    s->received++;
}

static void stress_bell(void *ctx, struct snic_dma *d, uint32_t id)
{
    struct stress *s = ctx;
    (void)d;
    if (id < STRESS_IDS)
        s->seen[id] = atomic_load_explicit(&s->posted[id], memory_order_relaxed);
}

static void stress_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    struct stress *s = ctx;
    (void)d;
    s->bad += cause != SNIC_DMA_DEATH_CLOSED;
    s->deaths++;
    snic_loop_stop(s->loop);
}

/* The side that closes first must see no error; the other one meets a peer that is gone. */
static uint32_t stress_is_bad(const struct stress *s, int64_t result, int64_t expected)
{
    return result != expected && (s->closes_first || result != SNIC_EPEERDEAD);
}

static void stress_done(struct snic_dma_batch *b)
{
    struct stress *s = SNIC_CONTAINER(b, struct stress, batch);
    s->bad += stress_is_bad(s, b->result, 0);
    s->adds_done++;
}

static int stress_poll(struct snic_loop_poller *p, int sleeping)
{
    struct stress *s = SNIC_CONTAINER(p, struct stress, poller);
    int did = 0;
    (void)sleeping;
    while (s->sent < s->rounds) {
        int r = snic_dma_send(s->d, &s->sent, 4);
        if (r != 1) {
            s->bad += stress_is_bad(s, r, 0);
            break;
        }
        s->sent++;
        did = 1;
    }
    if (s->adds < s->rounds && s->adds == s->adds_done) {
        s->op =
            (struct snic_dma_op){.kind = SNIC_DMA_ADD, .length = 8, .key = s->key, .operand = 1};
        s->batch = (struct snic_dma_batch){.done = stress_done, .ops = &s->op, .count = 1};
        struct snic_dma_batch *list = &s->batch;
        int n = snic_dma_submit(s->d, &list, 1);
        s->bad += stress_is_bad(s, n, 1);
        s->adds += n == 1;
        did = 1;
    }
    int all = s->received == s->rounds && s->adds_done == s->rounds && s->sent == s->rounds;
    for (int i = 0; i < STRESS_IDS; i++)
        all = all && s->seen[i] == s->rounds;
    if (all && !s->stopped && s->closes_first) {
        s->stopped = 1;
        snic_loop_stop(s->loop);
    }
    return did || s->sent < s->rounds;
}

static void *stress_thread(void *arg)
{
    struct stress *s = arg;
    (void)snic_loop_run(s->loop);
    snic_loop_poller_remove(s->loop, &s->poller);
    while (!atomic_load_explicit(&s->quiet, memory_order_acquire))
        (void)sched_yield();
    snic_dma_close(s->d);
    return NULL;
}

struct ringer {
    struct stress *to;
    uint32_t id;
};

static void *ringer_thread(void *arg)
{
    struct ringer *r = arg;
    for (uint64_t n = 1; n <= r->to->rounds; n++) {
        atomic_store_explicit(&r->to->posted[r->id], n, memory_order_relaxed);
        if (snic_dma_ring(r->to->peer->d, r->id) != 0)
            return arg;
    }
    return NULL;
}

/**
 * Messages in order, no atomic lost, and no lost doorbell: what a thread wrote before its last
 * ring is seen by the peer's handler. One side closes while the other still runs.
 */
static void test_dma_local_two_threads_nothing_lost(void **state)
{
    (void)state;
    static struct stress s[2];
    for (int first = 0; first < 2; first++) {
        memset(s, 0, sizeof(s));
        struct snic_dma_events e[2];
        for (int i = 0; i < 2; i++) {
            s[i].loop = loop_open();
            s[i].peer = &s[1 - i];
            s[i].rounds = (uint32_t)support_scale(3000, 300000);
            s[i].closes_first = i == first;
            snic_loop_poller_init(&s[i].poller, stress_poll);
            e[i] = (struct snic_dma_events){stress_recv, stress_bell, stress_death, &s[i]};
        }
        assert_int_equal(snic_dma_local_open(&s[0].d, s[0].loop, &e[0], &s[1].d, s[1].loop, &e[1]),
                         0);
        for (int i = 0; i < 2; i++) {
            void *m = NULL;
            assert_int_equal(snic_dma_alloc(s[i].d, 4096, &m), 0);
            assert_int_equal(snic_dma_register(s[i].d, m, 4096, 7, &s[1 - i].key), 0);
            snic_loop_poller_add(s[i].loop, &s[i].poller);
        }
        pthread_t threads[2];
        pthread_t ringers[2 * STRESS_IDS];
        struct ringer r[2 * STRESS_IDS];
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, stress_thread, &s[i]), 0);
        for (uint32_t i = 0; i < 2 * STRESS_IDS; i++) {
            r[i] = (struct ringer){&s[i % 2], i / 2};
            assert_int_equal(pthread_create(&ringers[i], NULL, ringer_thread, &r[i]), 0);
        }
        int failures = 0;
        for (uint32_t i = 0; i < 2 * STRESS_IDS; i++) {
            void *failed = NULL;
            assert_int_equal(pthread_join(ringers[i], &failed), 0);
            failures += failed != NULL;
        }
        for (int i = 0; i < 2; i++)
            atomic_store_explicit(&s[i].quiet, 1, memory_order_release);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(failures, 0);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(s[i].bad, 0);
            assert_int_equal(s[i].disorder, 0);
            assert_int_equal(s[i].deaths, i != first);
            snic_loop_close(s[i].loop);
        }
        assert_int_equal(s[first].received, s[first].rounds);
    }
}

/** Both ends close at the same moment, many times: neither may touch what the other freed. */
static void *close_thread(void *arg)
{
    struct stress *s = arg;
    for (uint32_t n = 0; n < 3; n++)
        (void)snic_dma_ring(s->d, n);
    (void)snic_dma_send(s->d, "x", 1);
    snic_dma_close(s->d);
    return NULL;
}

static void test_dma_local_both_close_at_once_safe(void **state)
{
    (void)state;
    static struct stress s[2];
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    for (int i = 0; i < 2; i++)
        s[i].loop = loop_open();
    for (uint64_t n = support_scale(200, 20000); n > 0; n--) {
        assert_int_equal(snic_dma_local_open(&s[0].d, s[0].loop, &none, &s[1].d, s[1].loop, &none),
                         0);
        pthread_t t[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&t[i], NULL, close_thread, &s[i]), 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(t[i], NULL), 0);
    }
    for (int i = 0; i < 2; i++)
        snic_loop_close(s[i].loop);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dma_local_two_loops_conforms),
        cmocka_unit_test(test_dma_local_one_loop_conforms),
        cmocka_unit_test(test_dma_local_two_threads_nothing_lost),
        cmocka_unit_test(test_dma_local_both_close_at_once_safe),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
