/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* nvme-fs over dma in a simulated world: the number of operations, reordering, small pieces,
   resets, ends and deaths. */
#include "test_nvmefslink_util.h"

struct world {
    struct snic_world *w;
    struct snic_loop *loop[2];
    struct snic_dma *d[2];
    struct pat_host host;
    struct pat_dpu dpu;
    struct pat_queue q[4];
    uint32_t queues;
};

/** @p kind 0: sim with @p caps and @p chunk; 1: local, mapped; 2: local, as if it were not. */
static void world_open(struct world *x, int kind, uint32_t caps, uint32_t chunk, uint32_t queues)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = support_seed()};
    struct snic_dma_sim_opts so = {
        .opts_size = sizeof(so), .caps = caps, .chunk = chunk, .depth = 8};
    memset(x, 0, sizeof(*x));
    assert_int_equal(snic_world_open(&x->w, &wo), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_world_loop(x->w, i, &x->loop[i]), 0);
    int r = kind == 0
                ? snic_dma_sim_open(&x->d[0], x->loop[0], &none, &x->d[1], x->loop[1], &none, &so)
                : snic_dma_local_open(&x->d[0], x->loop[0], &none, &x->d[1], x->loop[1], &none);
    assert_int_equal(r, 0);
    pat_open(&x->dpu, x->d[1], queues, kind == 2 ? SNIC_NVMEFSLINK_UNMAPPED : 0);
    pat_host_open(&x->host, x->d[0], queues);
    x->queues = queues;
    for (uint32_t i = 0; i < queues; i++)
        pat_queue_open(&x->q[i], &x->host, i % 2 ? 4 : 16);
}

static void world_rest(struct world *x)
{
    for (uint64_t n = 0; snic_world_step(x->w) > 0; n++)
        if (n > 10000000)
            fail_msg("the world does not come to rest");
    assert_int_equal(snic_nvmefs_dpu_check(snic_nvmefslink_dpu_engine(x->dpu.link)), 0);
}

static void world_close(struct world *x)
{
    for (uint32_t i = 0; i < x->queues; i++)
        if (x->q[i].q != NULL)
            snic_nvmefslink_end(x->q[i].q);
    world_rest(x);
    for (uint32_t i = 0; i < x->queues; i++) {
        assert_null(x->q[i].q);
        assert_int_equal(x->q[i].wrong, 0);
        assert_int_equal(x->q[i].out, 0);
        assert_int_equal(x->q[i].closed, 1);
    }
    assert_int_equal(snic_nvmefslink_dpu_idle(x->dpu.link), 1);
    assert_ptr_equal(snic_nvmefslink_dpu_fini(x->dpu.link), x->dpu.mem);
    support_guard_free(x->dpu.mem);
    pat_host_close(&x->host);
    snic_dma_close(x->d[1]);
    for (int i = 0; i < 2; i++)
        snic_loop_close(x->loop[i]);
    snic_world_close(x->w);
}

static uint64_t world_ops(const struct world *x)
{
    const struct snic_dma_stats *s = &x->d[1]->stats;
    return s->reads + s->writes + s->atomics + x->d[0]->stats.reads + x->d[0]->stats.writes +
           x->d[0]->stats.atomics;
}

/* What would break: the acceptance line of the paper's figure 4. */
static void test_nvmefslink_8k_write_costs_exactly_four_dma_operations(void **state)
{
    struct world x;
    (void)state;
    world_open(&x, 0, SNIC_DMA_CAP_ORDERED_READ | SNIC_DMA_CAP_ATOMIC, 64, 1);
    world_rest(&x);
    assert_int_equal(x.q[0].opened, 1);
    for (int i = 0; i < 100; i++) {
        struct pat_req *r = &x.q[0].reqs[0];
        memset(r, 0, sizeof(*r));
        r->e[0] = (struct snic_nvmefs_extent){SNIC_NVMEFS_ADDRESS(x.host.window, 65536), 8192, 0};
        r->r = (struct snic_nvmefs_req){.op.kind = i % 2 ? SNIC_FSOP_WRITE : SNIC_FSOP_READ,
                                        .op.ino = 7,
                                        .extents = r->e,
                                        .extent_count = 1};
        r->out = 1; /* a WRITE writes what the READ before it brought */
        x.q[0].out = 1;
        uint64_t before = world_ops(&x);
        assert_int_equal(snic_nvmefslink_submit(x.q[0].q, &r->r), 0);
        world_rest(&x);
        assert_int_equal(x.q[0].out, 0);
        assert_int_equal(r->r.op.result, 8192);
        assert_int_equal(world_ops(&x) - before, 4);
    }
    printf("8 KiB write, 8 KiB read: 4 DMA operations each\n");
    world_close(&x);
}

static void traffic(struct world *x, uint64_t turns)
{
    static const uint8_t ops[3] = {SNIC_FSOP_READ, SNIC_FSOP_WRITE, SNIC_FSOP_GETATTR};
    for (uint64_t i = 0; i < turns; i++) {
        uint32_t n = (uint32_t)snic_rng_below(&x->host.rng, x->queues);
        uint32_t k = (uint32_t)snic_rng_below(&x->host.rng, PAT_REQS);
        if (x->q[n].q != NULL)
            (void)pat_submit(&x->q[n], n, k, ops[snic_rng_below(&x->host.rng, 3)]);
        for (uint64_t s = snic_rng_below(&x->host.rng, 60); s > 0; s--)
            (void)snic_world_step(x->w);
    }
}

static void test_nvmefslink_traffic_over_every_door(void **state)
{
    static const struct {
        int kind;
        uint32_t caps;
        uint32_t chunk;
    } doors[] = {{0, SNIC_DMA_CAP_ORDERED_READ, 64},
                 {0, SNIC_DMA_CAP_ORDERED_READ, 8},
                 {0, 0, 64},
                 {0, 0, 8},
                 {1, 0, 0},
                 {2, 0, 0}};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(doors); i++) {
        struct world x;
        uint64_t done = 0;
        world_open(&x, doors[i].kind, doors[i].caps, doors[i].chunk, 4);
        uint64_t turns = support_rounds(600, 20000);
        traffic(&x, turns);
        world_rest(&x); /* no bell is forgotten: everything has ended */
        for (uint32_t q = 0; q < 4; q++) {
            assert_int_equal(x.q[q].out, 0);
            assert_int_equal(x.q[q].wrong, 0);
            done += x.q[q].done;
        }
        assert_true(done > turns / 4); /* random: about half of them are taken */
        struct snic_nvmefs_dpu_stats s;
        snic_nvmefs_dpu_get_stats(snic_nvmefslink_dpu_engine(x.dpu.link), &s);
        assert_true(s.commands == done && s.statuses == 0 && s.failures == 0);
        world_close(&x);
    }
}

static void test_nvmefslink_reset_and_abort_in_traffic(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        struct world x;
        world_open(&x, round % 3, SNIC_DMA_CAP_ORDERED_READ, 64, 3);
        snic_rng_init(&x.host.rng, support_seed() + (uint64_t)round);
        world_rest(&x);
        traffic(&x, 20);
        for (uint32_t k = 20; k < 23; k++)
            (void)pat_submit(&x.q[0], 0, k, SNIC_FSOP_SETLK);
        traffic(&x, 5);
        for (uint32_t k = 20; k < 22; k++)
            if (x.q[0].reqs[k].out && x.q[0].reqs[k].r.op.kind == SNIC_FSOP_SETLK)
                assert_int_equal(snic_nvmefslink_abort(x.q[0].q, &x.q[0].reqs[k].r), 0);
        traffic(&x, 5);
        assert_int_equal(snic_nvmefslink_reset(x.q[0].q), 0);
        assert_int_equal(snic_nvmefslink_reset(x.q[0].q), SNIC_EBUSY);
        assert_int_equal(pat_submit(&x.q[0], 0, 23, SNIC_FSOP_GETATTR),
                         x.q[0].reqs[23].out ? SNIC_EBUSY : SNIC_EPIPE);
        world_rest(&x);
        assert_int_equal(x.q[0].opened, 2);
        assert_int_equal(x.q[0].out, 0);
        traffic(&x, 20);
        world_close(&x);
        assert_int_equal(x.q[0].reason, 0);
    }
}

static void test_nvmefslink_distributed_has_no_service(void **state)
{
    struct world x;
    (void)state;
    world_open(&x, 0, SNIC_DMA_CAP_ORDERED_READ, 64, 1);
    struct pat_req *r = &x.q[0].reqs[0];
    r->r = (struct snic_nvmefs_req){.op.kind = SNIC_FSOP_SETLK, .distributed = 1};
    r->out = 1;
    x.q[0].out = 1;
    assert_int_equal(snic_nvmefslink_submit(x.q[0].q, &r->r), 0);
    world_rest(&x);
    assert_int_equal(r->r.status, SNIC_NVMEFS_STATUS_NO_SERVICE);
    assert_int_equal(r->r.op.result, SNIC_ENOTSUP);
    x.q[0].wrong = 0; /* pat_done expects a lock's end */
    world_close(&x);
}

/* Either end dies in the middle of traffic: the other one brings everything home. */
static void test_nvmefslink_death_of_either_end(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        struct world x;
        int host_dies = round % 2;
        world_open(&x, 0, SNIC_DMA_CAP_ORDERED_READ, 64, 3);
        snic_rng_init(&x.host.rng, support_seed() + (uint64_t)round);
        (void)pat_submit(&x.q[0], 0, 23, SNIC_FSOP_SETLK);
        traffic(&x, 1 + (uint64_t)round);
        snic_dma_sim_kill(x.d[host_dies ? 0 : 1]);
        world_rest(&x);
        if (host_dies) {
            assert_int_equal(x.dpu.deaths, 1);
            assert_int_equal(snic_nvmefslink_dpu_idle(x.dpu.link), 1);
            assert_int_equal(x.dpu.waiting, 0);
            x.host.d->dead = 1;
            /* the dead host's own state is dropped */
            x.d[0]->events.death(x.d[0]->events.ctx, x.d[0], SNIC_DMA_DEATH_EXIT);
        } else {
            snic_nvmefslink_dpu_detach(x.dpu.link);
            for (uint32_t i = 0; i < 3; i++) {
                assert_int_equal(x.q[i].closed, 1);
                assert_int_equal(x.q[i].reason, SNIC_EPEERDEAD);
            }
        }
        for (uint32_t i = 0; i < 64 && x.dpu.waiting > 0; i++)
            pat_cancel(&x.dpu, x.dpu.link, x.dpu.waits[0]);
        snic_loop_wake(x.loop[0]);
        world_rest(&x);
        for (uint32_t i = 0; i < 3; i++)
            assert_true(x.q[i].q == NULL && x.q[i].out == 0 && x.q[i].wrong == 0);
        /* the killed end's batches complete at close, the engine counts them home */
        snic_dma_close(x.d[1]);
        assert_ptr_equal(snic_nvmefslink_host_fini(x.host.link), x.host.mem);
        support_guard_free(x.host.mem);
        snic_dma_close(x.d[0]);
        x.dpu.link = NULL;
        support_guard_free(x.dpu.mem);
        for (int i = 0; i < 2; i++)
            snic_loop_close(x.loop[i]);
        snic_world_close(x.w);
    }
}

/* A host that will not wait for a DPU that lives: everything is home at once, and when the handle
   is closed the DPU knows. */
static void test_nvmefslink_detached_host_waits_for_no_peer(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        struct world x;
        world_open(&x, round % 3, SNIC_DMA_CAP_ORDERED_READ, 64, 3);
        snic_rng_init(&x.host.rng, support_seed() + (uint64_t)round);
        (void)pat_submit(&x.q[0], 0, 23, SNIC_FSOP_SETLK);
        traffic(&x, 1 + (uint64_t)round);
        (void)pat_submit(&x.q[2], 2, 22, SNIC_FSOP_SETLK);
        snic_nvmefslink_host_detach(x.host.link);
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(x.q[i].q == NULL && x.q[i].out == 0 && x.q[i].wrong == 0);
            assert_int_equal(x.q[i].closed, 1);
            assert_int_equal(x.q[i].reason, SNIC_EPEERDEAD);
        }
        assert_true(x.q[0].unknown >= 1 && x.q[2].unknown >= 1);
        assert_ptr_equal(snic_nvmefslink_host_fini(x.host.link), x.host.mem);
        support_guard_free(x.host.mem);
        snic_dma_close(x.d[0]);
        world_rest(&x);
        assert_int_equal(x.dpu.deaths, 1);
        assert_int_equal(x.dpu.waiting, 0);
        assert_int_equal(snic_nvmefslink_dpu_idle(x.dpu.link), 1);
        assert_ptr_equal(snic_nvmefslink_dpu_fini(x.dpu.link), x.dpu.mem);
        support_guard_free(x.dpu.mem);
        snic_dma_close(x.d[1]);
        for (int i = 0; i < 2; i++)
            snic_loop_close(x.loop[i]);
        snic_world_close(x.w);
    }
}

/* The host revokes a window under the DPU: a status, and the queue works on. */
static void test_nvmefslink_unregistered_memory_is_a_status(void **state)
{
    struct world x;
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        world_open(&x, kind, SNIC_DMA_CAP_ORDERED_READ, 64, 1);
        world_rest(&x);
        snic_dma_unregister(x.d[0], x.host.key);
        for (int op = 0; op < 2; op++) {
            struct snic_nvmefs_extent e = {SNIC_NVMEFS_ADDRESS(x.host.window, 0), 8192, 0};
            struct pat_req *r = &x.q[0].reqs[0];
            r->r = (struct snic_nvmefs_req){
                .op.kind = op ? SNIC_FSOP_READ : SNIC_FSOP_WRITE, .extents = &e, .extent_count = 1};
            r->out = 1;
            x.q[0].out = 1;
            assert_int_equal(snic_nvmefslink_submit(x.q[0].q, &r->r), 0);
            world_rest(&x);
            assert_int_equal(r->r.status, SNIC_NVMEFS_STATUS_TRANSFER);
            assert_int_equal(r->r.op.result, SNIC_EFAULT);
            /* outside of the window at all */
            e.address = SNIC_NVMEFS_ADDRESS(x.host.window, UINT64_C(1) << 40);
            r->out = 1;
            x.q[0].out = 1;
            assert_int_equal(snic_nvmefslink_submit(x.q[0].q, &r->r), 0);
            world_rest(&x);
            assert_int_equal(r->r.status, SNIC_NVMEFS_STATUS_ADDRESS);
        }
        x.q[0].wrong = 0;
        assert_int_equal(pat_submit(&x.q[0], 0, 0, SNIC_FSOP_GETATTR), 0);
        world_rest(&x);
        assert_int_equal(
            snic_dma_register(x.d[0], x.host.buffer, 4096, SNIC_DMA_RIGHT_READ, &x.host.key), 0);
        world_close(&x);
    }
}

static void test_nvmefslink_others_share_the_link(void **state)
{
    struct world x;
    (void)state;
    world_open(&x, 0, SNIC_DMA_CAP_ORDERED_READ, 64, 2);
    assert_int_equal(snic_dma_send(x.d[0], "hello", 5), 1);
    assert_int_equal(snic_dma_ring(x.d[0], 40), 0);
    world_rest(&x);
    assert_int_equal(x.dpu.others, 41);
    world_close(&x);
}

/* As many windows and queues as there may be: more are refused, and the existing ones work on. */
static void test_nvmefslink_windows_and_queues_full(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct snic_nvmefslink_queue_opts o = {.opts_size = sizeof(o), .depth = 64};
        struct snic_nvmefslink_events none = {pat_opened, pat_done, NULL, pat_closed, NULL};
        struct snic_nvmefslink_queue *q = NULL;
        struct world x;
        uint64_t key[SNIC_NVMEFS_WINDOWS_MAX];
        int window[SNIC_NVMEFS_WINDOWS_MAX];
        unsigned char *room = NULL;
        void *memory = NULL;
        uint32_t n = 0;
        world_open(&x, kind, SNIC_DMA_CAP_ORDERED_READ, 64, 4);
        assert_int_equal(snic_dma_alloc(x.d[0], SNIC_NVMEFS_WINDOWS_MAX * 4096, &memory), 0);
        room = memory;
        world_rest(&x);
        assert_int_equal(snic_nvmefslink_open(&q, x.host.link, &o, &none), SNIC_EAGAIN);
        assert_null(q);
        for (; n < SNIC_NVMEFS_WINDOWS_MAX; n++) {
            window[n] = snic_nvmefslink_window_add(x.host.link, room + n * 4096, 4096, &key[n]);
            if (window[n] < 0)
                break;
        }
        assert_int_equal(window[n], SNIC_ENOSPC);
        assert_true(n < SNIC_NVMEFS_WINDOWS_MAX && n > 32); /* queues have their own */
        world_rest(&x);
        snic_nvmefslink_window_remove(x.host.link, (uint32_t)window[3]);
        snic_dma_unregister(x.d[0], key[3]);
        window[3] = snic_nvmefslink_window_add(x.host.link, room + 3 * 4096, 4096, &key[3]);
        assert_true(window[3] >= 0);
        world_rest(&x);
        x.q[0].wrong = 0;
        assert_int_equal(pat_submit(&x.q[0], 0, 0, SNIC_FSOP_GETATTR), 0); /* all works on */
        world_rest(&x);
        assert_int_equal(x.q[0].wrong, 0);
        world_close(&x);
    }
}

/* Several queues that the DPU does not take, asked for at once: each hears of it. */
static void test_nvmefslink_every_refusal_is_heard(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct world x;
        world_open(&x, kind, SNIC_DMA_CAP_ORDERED_READ, 64, 4);
        for (uint32_t i = 0; i < 4; i++)
            snic_nvmefslink_end(x.q[i].q);
        world_rest(&x);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(x.q[i].closed, 1);
            pat_queue_open(&x.q[i], &x.host, 128); /* the DPU has 64 */
        }
        world_rest(&x);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(x.q[i].closed, 1);
            assert_int_equal(x.q[i].reason, SNIC_EINVAL);
        }
        world_close(&x);
    }
}

/* A door that has no room for the DPU's answer, for a while. */
static struct snic_dma_ops narrow;
static const struct snic_dma_ops *wide;
static int refuse;

static int narrow_send(struct snic_dma *d, const void *msg, uint32_t size)
{
    return refuse > 0 && refuse-- ? 0 : wide->send(d, msg, size);
}

/* A DPU that sends DELETED before the request: the queue is its to touch until it has heard. */
static void test_nvmefslink_deleted_message_before_delete_ignored(void **state)
{
    struct world x;
    unsigned char msg[SNIC_NVMEFS_CTL_BYTES];
    struct snic_nvmefs_ctl m;
    (void)state;
    world_open(&x, 0, SNIC_DMA_CAP_ORDERED_READ, 64, 1);
    world_rest(&x);
    snic_nvmefs_host_create(snic_nvmefslink_engine(x.q[0].q), &m);
    m.type = SNIC_NVMEFS_CTL_DELETED;
    snic_nvmefs_ctl_encode(msg, &m);
    wide = x.d[0]->ops;
    narrow = *wide;
    narrow.send = narrow_send;
    x.d[0]->ops = &narrow;
    refuse = 1;
    snic_nvmefslink_end(x.q[0].q); /* finds no room */
    assert_int_equal(refuse, 0);
    refuse = 20;
    assert_int_equal(snic_dma_send(x.d[1], msg, sizeof(msg)), 1);
    for (int i = 0; i < 30; i++)
        (void)snic_world_step(x.w);
    assert_int_equal(x.q[0].closed, 0);
    world_rest(&x);
    assert_int_equal(refuse, 0);
    assert_int_equal(x.q[0].closed, 1);
    world_close(&x);
}

/* Messages about the queue before its reset are not about the queue since. */
static void test_nvmefslink_late_messages_are_of_the_past(void **state)
{
    struct world x;
    unsigned char msg[SNIC_NVMEFS_CTL_BYTES];
    struct snic_nvmefs_ctl m;
    (void)state;
    world_open(&x, 0, SNIC_DMA_CAP_ORDERED_READ, 64, 1);
    world_rest(&x);
    snic_nvmefs_host_create(snic_nvmefslink_engine(x.q[0].q), &m);
    m.type = SNIC_NVMEFS_CTL_DELETED;
    snic_nvmefs_ctl_encode(msg, &m);
    assert_int_equal(snic_nvmefslink_reset(x.q[0].q), 0);
    world_rest(&x);
    assert_int_equal(x.q[0].opened, 2);
    assert_int_equal(snic_dma_send(x.d[1], msg, sizeof(msg)), 1);
    wide = x.d[1]->ops;
    narrow = *wide;
    narrow.send = narrow_send;
    x.d[1]->ops = &narrow;
    refuse = 30;
    snic_nvmefslink_end(x.q[0].q);
    while (refuse > 20)
        (void)snic_world_step(x.w);
    assert_int_equal(x.q[0].closed, 0);
    world_rest(&x);
    world_close(&x);
}

static void test_nvmefslink_an_answer_waits_for_room(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct world x;
        world_open(&x, kind, SNIC_DMA_CAP_ORDERED_READ, 64, 2);
        wide = x.d[1]->ops;
        narrow = *wide;
        narrow.send = narrow_send;
        x.d[1]->ops = &narrow;
        refuse = 20;
        world_rest(&x);
        assert_int_equal(refuse, 0);
        assert_int_equal(x.q[0].opened, 1);
        assert_int_equal(x.q[1].opened, 1);
        refuse = 20;
        world_close(&x);
        assert_int_equal(refuse, 0);
    }
}

static void no_request(void *ctx, struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c)
{
    (void)ctx;
    (void)d;
    (void)c;
}

/* What would break: a program can only report that one of a dozen options is wrong. */
static void test_nvmefslink_bad_options_named(void **state)
{
    (void)state;
    {
        struct snic_nvmefslink_host_opts good = {.opts_size = sizeof(good)};
        assert_null(snic_nvmefslink_host_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_nvmefslink_host_opts bad = good;                                               \
        bad.field = value;                                                                         \
        support_names(snic_nvmefslink_host_opts_wrong(&bad), name);                                \
        assert_int_equal(snic_nvmefslink_host_memsize(&bad), 0);                                   \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(reserved, 1, "reserved");
        WRONG(queues_max, SNIC_NVMEFS_QUEUES_MAX + 1, "queues_max");
        WRONG(bell_base, SNIC_DMA_DOORBELLS, "bell_base");
        WRONG(bell_base, SNIC_DMA_DOORBELLS - 7, "bell_base");
#undef WRONG
    }
    {
        struct snic_nvmefslink_dpu_opts good = {.opts_size = sizeof(good), .request = no_request};
        assert_null(snic_nvmefslink_dpu_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_nvmefslink_dpu_opts bad = good;                                                \
        bad.field = value;                                                                         \
        support_names(snic_nvmefslink_dpu_opts_wrong(&bad), name);                                 \
        assert_int_equal(snic_nvmefslink_dpu_memsize(&bad), 0);                                    \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(flags, 2, "flags");
        WRONG(reserved, 1, "reserved");
        WRONG(request, NULL, "request");
        WRONG(bell_base, SNIC_DMA_DOORBELLS, "bell_base");
        WRONG(bell_base, SNIC_DMA_DOORBELLS - 7, "bell_base");
        WRONG(engine.chunks, 15, "chunks");
        WRONG(engine.depth_max, 3, "depth_max");
#undef WRONG
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmefslink_8k_write_costs_exactly_four_dma_operations),
        cmocka_unit_test(test_nvmefslink_traffic_over_every_door),
        cmocka_unit_test(test_nvmefslink_reset_and_abort_in_traffic),
        cmocka_unit_test(test_nvmefslink_distributed_has_no_service),
        cmocka_unit_test(test_nvmefslink_death_of_either_end),
        cmocka_unit_test(test_nvmefslink_detached_host_waits_for_no_peer),
        cmocka_unit_test(test_nvmefslink_unregistered_memory_is_a_status),
        cmocka_unit_test(test_nvmefslink_others_share_the_link),
        cmocka_unit_test(test_nvmefslink_windows_and_queues_full),
        cmocka_unit_test(test_nvmefslink_every_refusal_is_heard),
        cmocka_unit_test(test_nvmefslink_deleted_message_before_delete_ignored),
        cmocka_unit_test(test_nvmefslink_late_messages_are_of_the_past),
        cmocka_unit_test(test_nvmefslink_an_answer_waits_for_room),
        cmocka_unit_test(test_nvmefslink_bad_options_named),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
