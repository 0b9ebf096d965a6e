/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** dma local and sim: the conformance suite, and what is special to each. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "conformance_dma.h"
#include "support.h"

/* ---- Backends ---- */

static void world_open(struct conf_dma *f)
{
    struct snic_world_opts o = {.opts_size = sizeof(o), .seed = support_seed()};
    assert_int_equal(snic_world_open(&f->world, &o), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_world_loop(f->world, i, &f->loop[i]), 0);
}

static void world_close(struct conf_dma *f)
{
    for (int i = 0; i < 2; i++)
        snic_loop_close(f->loop[i]);
    snic_world_close(f->world);
}

static int world_step(struct conf_dma *f)
{
    return snic_world_step(f->world);
}

static void local_open(struct conf_dma *f)
{
    assert_int_equal(snic_dma_local_open(&f->d[0], f->loop[0], &f->events[0], &f->d[1], f->loop[1],
                                         &f->events[1]),
                     0);
    assert_int_equal(f->d[0]->caps,
                     SNIC_DMA_CAP_MAPPED | SNIC_DMA_CAP_ORDERED_READ | SNIC_DMA_CAP_ATOMIC);
}

static void local_world_open(struct conf_dma *f)
{
    world_open(f);
    local_open(f);
}

static const struct conf_dma_backend local_world = {"local/world", local_world_open, world_close,
                                                    world_step};

static void sim_open(struct conf_dma *f)
{
    world_open(f);
    struct snic_dma_sim_opts o = {
        .opts_size = sizeof(o), .caps = f->sim_caps, .chunk = f->sim_chunk, .depth = 64};
    assert_int_equal(snic_dma_sim_open(&f->d[0], f->loop[0], &f->events[0], &f->d[1], f->loop[1],
                                       &f->events[1], &o),
                     0);
    assert_int_equal(f->d[0]->caps, f->sim_caps);
}

static const struct conf_dma_backend sim_world = {"sim", sim_open, world_close, world_step};

/** The contract, for two roles in one simulated world. */
static void test_dma_local_world_conforms(void **state)
{
    (void)state;
    conformance_dma_run(&local_world, 0, 0);
}

/** The contract on a link that reorders, with and without each capability. */
static void test_dma_sim_every_capability_conforms(void **state)
{
    (void)state;
    const uint32_t caps[] = {0, SNIC_DMA_CAP_ATOMIC, SNIC_DMA_CAP_ORDERED_READ,
                             SNIC_DMA_CAP_ORDERED_READ | SNIC_DMA_CAP_ATOMIC};
    for (size_t i = 0; i < 4; i++)
        conformance_dma_run(&sim_world, caps[i], i % 2 == 0 ? 8 : 64);
}

/** A backend that takes options it does not know would do something else than requested. */
static void test_dma_sim_bad_options_refused(void **state)
{
    (void)state;
    struct conf_dma f;
    memset(&f, 0, sizeof(f));
    world_open(&f);
    struct snic_dma *h = NULL;
    struct snic_dma *d = NULL;
    struct snic_dma_events e = {NULL, NULL, NULL, NULL};
    const struct snic_dma_sim_opts bad[] = {
        {.opts_size = sizeof(bad[0]), .caps = SNIC_DMA_CAP_MAPPED},
        {.opts_size = sizeof(bad[0]), .chunk = 12},
        {.opts_size = sizeof(bad[0]), .chunk = 4},
        {.opts_size = sizeof(bad[0]), .delay_min_ns = 10, .delay_max_ns = 5},
        {.opts_size = sizeof(bad[0]), .bytes_per_us = (UINT64_C(1) << 40) + 1},
        {.opts_size = sizeof(bad[0]), .depth = 65537},
        {.opts_size = sizeof(bad[0]), .delay_max_ns = (UINT64_C(1) << 60) + 1},
        {.opts_size = 3},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++)
        assert_int_equal(snic_dma_sim_open(&h, f.loop[0], &e, &d, f.loop[1], &e, &bad[i]),
                         SNIC_EINVAL);
    assert_int_equal(snic_dma_sim_open(&h, f.loop[0], &e, &d, f.loop[0], &e, NULL), SNIC_EINVAL);
    assert_null(h);
    assert_null(d);
    world_close(&f);
}

/* ---- What only sim can show ---- */

/**
 * Without ORDERED the flag must sometimes be seen before the data: a simulator that keeps
 * order by chance would let users forget to ask for it.
 */
static void test_dma_sim_unordered_batch_reorders(void **state)
{
    (void)state;
    struct conf_dma f = {.sim_caps = 0, .sim_chunk = 8};
    conf_dma_setup(&f, &sim_world);
    void *mem = NULL;
    uint64_t key = 0;
    assert_int_equal(snic_dma_alloc(f.d[0], 4096, &mem), 0);
    assert_int_equal(snic_dma_register(f.d[0], mem, 4096, 7, &key), 0);
    int early = 0;
    int torn = 0;
    for (uint64_t round = 1; round <= 200; round++) {
        struct conf_dma_batch b = {.completed = 0};
        unsigned char data[64];
        memset(data, (int)round, sizeof(data));
        b.ops[0] = (struct snic_dma_op){
            .kind = SNIC_DMA_WRITE, .key = key, .offset = 64, .local = data, .length = 64};
        b.ops[1] = (struct snic_dma_op){
            .kind = SNIC_DMA_WRITE, .key = key, .offset = 0, .local = &round, .length = 8};
        b.b.count = 2;
        b.b.ops = b.ops;
        struct snic_dma_batch *list = &b.b;

        b.b.done = conf_dma_done;
        assert_int_equal(snic_dma_submit(f.d[1], &list, 1), 1);
        while (b.completed == 0) {
            uint64_t flag;
            memcpy(&flag, mem, 8);
            const unsigned char *p = (const unsigned char *)mem + 64;
            early += flag == round && memcmp(p, data, 64) != 0;
            torn += p[0] != p[63];
            assert_int_equal(snic_world_step(f.world), 1);
        }
    }
    assert_true(early > 0);
    assert_true(torn > 0);
    conf_dma_teardown(&f);
}

/** ORDERED_READ fetches ascending; without it a read must sometimes not. */
static void test_dma_sim_read_order_follows_capability(void **state)
{
    (void)state;

    for (uint32_t ordered = 0; ordered < 2; ordered++) {
        struct conf_dma f = {.sim_caps = ordered ? SNIC_DMA_CAP_ORDERED_READ : 0, .sim_chunk = 8};
        conf_dma_setup(&f, &sim_world);
        void *mem = NULL;
        uint64_t key = 0;
        assert_int_equal(snic_dma_alloc(f.d[0], 4096, &mem), 0);
        assert_int_equal(snic_dma_register(f.d[0], mem, 4096, 7, &key), 0);
        _Atomic(uint64_t) *word = mem;
        uint64_t n = 0;
        int backwards = 0;
        for (int round = 0; round < 100; round++) {
            uint64_t got[8];
            struct conf_dma_batch b = {.completed = 0};
            b.ops[0] = (struct snic_dma_op){
                .kind = SNIC_DMA_READ, .key = key, .offset = 0, .local = got, .length = 64};
            b.b.count = 1;
            b.b.ops = b.ops;
            b.b.done = conf_dma_done;
            struct snic_dma_batch *list = &b.b;
            assert_int_equal(snic_dma_submit(f.d[1], &list, 1), 1);
            while (b.completed == 0) {
                n++; /* all words show the same number, which grows with each step */
                for (int i = 0; i < 8; i++)
                    atomic_store_explicit(&word[i], n, memory_order_relaxed);
                assert_int_equal(snic_world_step(f.world), 1);
            }
            for (int i = 1; i < 8; i++)
                backwards += got[i] < got[i - 1];
        }
        assert_true(ordered ? backwards == 0 : backwards > 0);
        conf_dma_teardown(&f);
    }
}

/** A killed process stops in the middle; its peer learns of it once, and cannot be written. */
static void test_dma_sim_killed_anywhere_stops(void **state)
{
    (void)state;

    for (int steps = 0; steps < 60; steps++) {
        struct conf_dma f = {.sim_caps = SNIC_DMA_CAP_ATOMIC, .sim_chunk = 8};
        conf_dma_setup(&f, &sim_world);
        void *mem = NULL;
        uint64_t key = 0;
        assert_int_equal(snic_dma_alloc(f.d[0], 4096, &mem), 0);
        assert_int_equal(snic_dma_register(f.d[0], mem, 4096, 7, &key), 0);
        unsigned char ones[256];
        memset(ones, 1, sizeof(ones));
        struct conf_dma_batch b = {.completed = 0};
        for (uint32_t i = 0; i < 4; i++)
            b.ops[i] = (struct snic_dma_op){.kind = SNIC_DMA_WRITE,
                                            .flags = SNIC_DMA_ORDERED,
                                            .key = key,
                                            .offset = i * 256,
                                            .local = ones,
                                            .length = 256};
        b.b.count = 4;
        b.b.ops = b.ops;
        b.b.done = conf_dma_done;
        struct snic_dma_batch *list = &b.b;
        assert_int_equal(snic_dma_submit(f.d[1], &list, 1), 1);
        assert_int_equal(snic_dma_send(f.d[1], "last words", 10), 1);
        /* The survivor is busy in the victim's memory, with more than it can finish in time. */
        void *theirs = NULL;
        uint64_t their_key = 0;
        assert_int_equal(snic_dma_alloc(f.d[1], 4096, &theirs), 0);
        assert_int_equal(snic_dma_register(f.d[1], theirs, 4096, 7, &their_key), 0);
        struct conf_dma_batch long_one = {.completed = 0};
        for (uint32_t i = 0; i < 16; i++)
            long_one.ops[i] = (struct snic_dma_op){.kind = SNIC_DMA_WRITE,
                                                   .flags = SNIC_DMA_FENCE,
                                                   .key = their_key,
                                                   .local = ones,
                                                   .length = 256};
        long_one.b.count = 16;
        long_one.b.ops = long_one.ops;
        long_one.b.done = conf_dma_done;
        struct snic_dma_batch *long_list = &long_one.b;
        assert_int_equal(snic_dma_submit(f.d[0], &long_list, 1), 1);
        for (int i = 0; i < steps; i++)
            (void)snic_world_step(f.world);
        snic_dma_sim_kill(f.d[1]);
        snic_dma_sim_kill(f.d[1]);
        unsigned char copy[1024];
        memcpy(copy, mem, sizeof(copy));
        uint32_t completed = b.completed;
        assert_int_equal(snic_dma_submit(f.d[1], &list, 1), SNIC_EPEERDEAD);
        assert_int_equal(snic_dma_ring(f.d[1], 1), SNIC_EPEERDEAD);
        conf_dma_until(&f, &f.end[0].deaths, 1);
        assert_int_equal(f.end[0].cause, SNIC_DMA_DEATH_EXIT);
        assert_int_equal(f.end[0].messages, 1);
        assert_int_equal(long_one.completed, 1); /* before the death event */
        if (steps < 10)
            assert_int_equal(long_one.b.result, SNIC_EPEERDEAD);
        while (snic_world_step(f.world) > 0) {
        }
        assert_memory_equal(copy, mem, sizeof(copy));
        assert_int_equal(b.completed, completed); /* dead code does not run */
        assert_int_equal(f.end[0].deaths, 1);
        assert_int_equal(f.end[1].deaths, 0);
        conf_dma_teardown(&f);
        assert_int_equal(b.completed, 1);
    }
}

struct trace {
    uint64_t hash;
};

static void trace_event(void *ctx, uint64_t now_ns, uint32_t node, uint32_t class_id, uint64_t seq)
{
    struct trace *t = ctx;
    uint64_t words[4] = {now_ns, node, class_id, seq};
    for (int i = 0; i < 4; i++)
        t->hash = (t->hash ^ words[i]) * UINT64_C(0x100000001b3);
}

static uint64_t replay(uint64_t seed)
{

    struct trace t = {.hash = 1};
    struct conf_dma f;
    memset(&f, 0, sizeof(f));
    struct snic_world_opts o = {
        .opts_size = sizeof(o), .seed = seed, .trace = trace_event, .ctx = &t};
    assert_int_equal(snic_world_open(&f.world, &o), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_world_loop(f.world, i, &f.loop[i]), 0);
    assert_int_equal(
        snic_dma_sim_open(&f.d[0], f.loop[0], &f.events[0], &f.d[1], f.loop[1], &f.events[1], NULL),
        0);
    void *mem = NULL;
    uint64_t key = 0;
    assert_int_equal(snic_dma_alloc(f.d[0], 4096, &mem), 0);
    assert_int_equal(snic_dma_register(f.d[0], mem, 4096, 7, &key), 0);
    static struct conf_dma_batch b[20];
    memset(b, 0, sizeof(b));
    unsigned char data[512];
    memset(data, 3, sizeof(data));
    for (uint32_t i = 0; i < 20; i++) {
        b[i].ops[0] = (struct snic_dma_op){
            .kind = SNIC_DMA_WRITE, .key = key, .offset = i * 64, .local = data, .length = 512};
        b[i].b.count = 1;
        b[i].b.ops = b[i].ops;
        b[i].b.done = conf_dma_done;
        struct snic_dma_batch *list = &b[i].b;
        assert_int_equal(snic_dma_submit(f.d[1], &list, 1), 1);
        assert_int_equal(snic_dma_ring(f.d[0], i), 0);
    }
    while (snic_world_step(f.world) > 0) {
    }
    for (int i = 0; i < 2; i++)
        snic_dma_close(f.d[i]);
    world_close(&f);
    return t.hash;
}

/** One seed, one run: a simulation that does not replay finds bugs that cannot be examined. */
static void test_dma_sim_same_seed_replays(void **state)
{
    (void)state;
    assert_int_equal(replay(7), replay(7));
    assert_true(replay(7) != replay(8));
}

/** Two batches share the link's bytes per time; without the option bytes take none. */
static void test_dma_sim_bytes_take_the_link(void **state)
{
    (void)state;
    uint64_t took[2];
    for (uint64_t i = 0; i < 2; i++) {
        struct conf_dma f;
        struct snic_dma_events e = {NULL, NULL, NULL, NULL};
        struct snic_dma_sim_opts o = {.opts_size = sizeof(o),
                                      .delay_min_ns = 500,
                                      .delay_max_ns = 500,
                                      .chunk = 1U << 20,
                                      .bytes_per_us = i * 1000};
        static unsigned char local[2][65536];
        struct conf_dma_batch b[2];
        void *mem = NULL;
        uint64_t key = 0;
        memset(&f, 0, sizeof(f));
        memset(b, 0, sizeof(b));
        world_open(&f);
        assert_int_equal(snic_dma_sim_open(&f.d[0], f.loop[0], &e, &f.d[1], f.loop[1], &e, &o), 0);
        assert_int_equal(snic_dma_alloc(f.d[0], 65536, &mem), 0);
        assert_int_equal(snic_dma_register(f.d[0], mem, 65536, 1, &key), 0);
        uint64_t from = snic_world_now(f.world);
        for (int k = 0; k < 2; k++) {
            struct snic_dma_batch *list = &b[k].b;
            b[k].ops[0] = (struct snic_dma_op){
                .kind = SNIC_DMA_READ, .key = key, .local = local[k], .length = 65536};
            b[k].b.count = 1;
            b[k].b.ops = b[k].ops;
            b[k].b.done = conf_dma_done;
            assert_int_equal(snic_dma_submit(f.d[1], &list, 1), 1);
        }
        while (b[0].completed == 0 || b[1].completed == 0)
            assert_int_equal(snic_world_step(f.world), 1);
        took[i] = snic_world_now(f.world) - from;
        snic_dma_close(f.d[0]);
        snic_dma_close(f.d[1]);
        world_close(&f);
    }
    assert_int_equal(took[0], 500);
    assert_in_range(took[1], 500 + 2 * 65536, 600 + 2 * 65536);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dma_local_world_conforms),
        cmocka_unit_test(test_dma_sim_every_capability_conforms),
        cmocka_unit_test(test_dma_sim_bad_options_refused),
        cmocka_unit_test(test_dma_sim_unordered_batch_reorders),
        cmocka_unit_test(test_dma_sim_read_order_follows_capability),
        cmocka_unit_test(test_dma_sim_killed_anywhere_stops),
        cmocka_unit_test(test_dma_sim_same_seed_replays),
        cmocka_unit_test(test_dma_sim_bytes_take_the_link),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
