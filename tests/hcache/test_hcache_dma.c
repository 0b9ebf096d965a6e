/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The engine behind the dma door, in simulated time: unmapped, reordering, counting. The engine's
 * operations are the door's, one to one; hits cost none.
 */
#include "test_hcache_util.h"

#include "snicstore/dma.h"
#include "snicstore/loop.h"

#include <string.h>

SNIC_STATIC_ASSERT((int)SNIC_HCACHE_OP_READ == (int)SNIC_DMA_READ &&
                       (int)SNIC_HCACHE_OP_WRITE == (int)SNIC_DMA_WRITE &&
                       (int)SNIC_HCACHE_OP_CAS == (int)SNIC_DMA_CAS &&
                       (int)SNIC_HCACHE_OP_ADD == (int)SNIC_DMA_ADD &&
                       SNIC_HCACHE_OP_ORDERED == SNIC_DMA_ORDERED &&
                       SNIC_HCACHE_OP_FENCE == SNIC_DMA_FENCE,
                   "the numbers are the door's");

enum { LPNS = 48, BATCHES = 64 };

struct flight {
    struct snic_dma_batch b;
    struct snic_dma_op ops[SNIC_HCACHE_OPS_MAX];
    struct snic_hcache_action a;
    int busy, done;
};

static struct {
    struct snic_world *world;
    struct snic_loop *loop[2];
    struct snic_dma *host, *dpu;
    void *mem;
    size_t size;
    uint64_t key;
    struct snic_hcache_info info;
    struct snic_hcache_host h;
    struct snic_hcache_control *c;
    void *cmem;
    struct flight f[BATCHES];
    uint64_t store[LPNS];
    uint64_t shadow[LPNS];
    uint64_t now, syncs;
} s;

static void done(struct snic_dma_batch *b)
{
    SNIC_CONTAINER(b, struct flight, b)->done = 1;
}

static void start(const struct snic_hcache_action *a)
{
    struct snic_dma_batch *b;
    struct flight *f;
    uint32_t i;

    for (f = s.f; f->busy; f++)
        assert_true(f < s.f + BATCHES - 1);
    memset(f, 0, sizeof(*f));
    f->busy = 1;
    f->a = *a;
    if (a->kind != SNIC_HCACHE_ACT_DMA) {
        f->done = 1;
        return;
    }
    for (i = 0; i < a->count; i++) {
        f->ops[i].kind = (uint8_t)a->ops[i].kind;
        f->ops[i].flags = (uint8_t)a->ops[i].flags;
        f->ops[i].length = (uint32_t)a->ops[i].bytes;
        f->ops[i].key = s.key;
        f->ops[i].offset = a->ops[i].offset;
        f->ops[i].local = a->ops[i].local;
        f->ops[i].compare = a->ops[i].compare;
        f->ops[i].operand = a->ops[i].operand;
    }
    f->b.done = done;
    f->b.ops = f->ops;
    f->b.count = a->count;
    b = &f->b;
    assert_int_equal(snic_dma_submit(s.dpu, &b, 1), 1);
}

static void step(const struct snic_hcache_event *ev)
{
    struct snic_hcache_action a;

    s.now = snic_max_u64(s.now, snic_world_now(s.world));
    assert_int_equal(snic_hcache_control_step(s.c, ev, s.now), 0);
    while (snic_hcache_control_poll(s.c, &a, 1) != 0) {
        s.syncs += a.kind == SNIC_HCACHE_ACT_SYNC;
        if (a.kind <= SNIC_HCACHE_ACT_FETCH)
            start(&a);
    }
}

static void event(uint32_t kind, uint64_t lpn)
{
    struct snic_hcache_event ev = {.kind = kind, .ino = 1, .lpn = lpn, .count = 1};

    step(&ev);
}

static void complete(struct flight *f)
{
    static const uint32_t kinds[] = {0, SNIC_HCACHE_EV_DMA, SNIC_HCACHE_EV_FLUSHED,
                                     SNIC_HCACHE_EV_FETCHED};
    struct snic_hcache_event ev = {.kind = kinds[f->a.kind], .id = f->a.id};
    uint32_t i;

    for (i = 0; f->a.kind == SNIC_HCACHE_ACT_DMA && i < f->a.count; i++)
        f->a.ops[i].value = f->ops[i].value;
    if (f->a.kind == SNIC_HCACHE_ACT_FLUSH) {
        uint64_t v = hw_version(f->a.data, f->a.bytes, 1, f->a.lpn);

        assert_true(v != UINT64_MAX && v >= s.store[f->a.lpn]);
        s.store[f->a.lpn] = v;
    } else if (f->a.kind == SNIC_HCACHE_ACT_FETCH) {
        ev.result = f->a.lpn < LPNS ? 0 : SNIC_ENOENT;
        ev.bytes = f->a.bytes;
        if (f->a.lpn < LPNS)
            hw_fill(f->a.data, f->a.bytes, 1, f->a.lpn, s.store[f->a.lpn]);
    } else {
        assert_int_equal(f->b.result, 0);
    }
    f->busy = 0;
    step(&ev);
}

/* A little of everything that is under way; 0: nothing is. */
static int work(void)
{
    int any = snic_world_step(s.world);
    struct flight *f;

    for (f = s.f; f < s.f + BATCHES; f++)
        if (f->busy && f->done) {
            complete(f);
            any = 1;
        }
    return any;
}

static void settle(uint64_t ns)
{
    uint64_t end = s.now + ns;

    while (s.now < end) {
        while (work())
            ;
        s.now = snic_min_u64(snic_hcache_control_deadline_ns(s.c), end);
        event(SNIC_HCACHE_EV_NONE, 0);
    }
}

static void open_all(void)
{
    struct snic_hcache_opts o = {sizeof(o), 512, 4, SNIC_HCACHE_MODE_WRITE, 32, 3};
    struct snic_hcache_control_opts co = {.opts_size = sizeof(co),
                                          .jobs = 8,
                                          .prefetch_max = 8,
                                          .look_ns = 20000,
                                          .flush_ns = 1000000};
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = support_seed()};
    struct snic_dma_sim_opts so = {.opts_size = sizeof(so), .caps = SNIC_DMA_CAP_ATOMIC};
    struct snic_dma_events none;
    size_t need;
    uint32_t i;

    memset(&s, 0, sizeof(s));
    memset(&none, 0, sizeof(none));
    assert_int_equal(snic_world_open(&s.world, &wo), 0);
    for (i = 0; i < 2; i++)
        assert_int_equal(snic_world_loop(s.world, i, &s.loop[i]), 0);
    assert_int_equal(snic_dma_sim_open(&s.host, s.loop[0], &none, &s.dpu, s.loop[1], &none, &so),
                     0);
    s.size = snic_hcache_memsize(&o);
    assert_int_equal(snic_dma_alloc(s.host, s.size, &s.mem), 0);
    assert_int_equal(snic_hcache_init(s.mem, s.size, &o), 0);
    assert_int_equal(
        snic_dma_register(s.host, s.mem, s.size,
                          SNIC_DMA_RIGHT_READ | SNIC_DMA_RIGHT_WRITE | SNIC_DMA_RIGHT_ATOMIC,
                          &s.key),
        0);
    assert_int_equal(snic_hcache_geometry(s.mem, s.size, &s.info), 0);
    assert_int_equal(snic_hcache_host_attach(&s.h, s.mem, s.size, 1, 1), 0);
    need = snic_hcache_control_memsize(&s.info, &co);
    s.cmem = support_guard_alloc(need, SNIC_CACHELINE);
    assert_int_equal(snic_hcache_control_init(&s.c, s.cmem, need, &s.info, &co, 0), 0);
    settle(1000000);
}

static void close_all(void)
{
    (void)snic_hcache_control_fini(s.c);
    snic_dma_close(s.dpu);
    snic_dma_close(s.host);
    snic_loop_close(s.loop[0]);
    snic_loop_close(s.loop[1]);
    snic_world_close(s.world);
    support_guard_free(s.cmem);
}

static uint64_t dma_ops(void)
{
    return s.dpu->stats.reads + s.dpu->stats.writes + s.dpu->stats.atomics;
}

static void test_hcache_dma_hits_cost_none(void **state)
{
    struct snic_hcache_page page;
    unsigned char out[512];
    uint64_t before, i;

    (void)state;
    open_all();
    assert_int_equal(snic_hcache_lock(&s.h, 1, 2, 0, &page), 0);
    hw_fill(page.data, 512, 1, 2, 7);
    assert_int_equal(snic_hcache_unlock(&s.h, &page, SNIC_HCACHE_UNLOCK_DIRTY), 0);
    settle(10000000);
    assert_int_equal(s.store[2], 7);
    before = dma_ops();
    for (i = 0; i < 1000; i++)
        assert_int_equal(snic_hcache_read(&s.h, 1, 2, 0, 512, out), 0);
    while (work())
        ;
    assert_int_equal(dma_ops(), before);
    close_all();
}

static void test_hcache_dma_random_shadow(void **state)
{
    uint64_t rounds = support_rounds(60000, 3000000);
    struct snic_hcache_counts c;
    struct snic_rng rng;
    uint64_t i, hits = 0;

    (void)state;
    open_all();
    snic_rng_init(&rng, support_seed());
    for (i = 0; i < rounds; i++) {
        uint64_t lpn = snic_rng_below(&rng, LPNS);
        struct snic_hcache_page page;
        unsigned char out[512];
        int r;

        switch (snic_rng_below(&rng, 8)) {
        case 0:
            r = snic_hcache_lock(&s.h, 1, lpn, 0, &page);
            if (r == SNIC_EAGAIN)
                event(SNIC_HCACHE_EV_KICK, 0);
            if (r != 0)
                break;
            hw_fill(page.data, 512, 1, lpn, ++s.shadow[lpn]);
            assert_int_equal(snic_hcache_unlock(&s.h, &page, SNIC_HCACHE_UNLOCK_DIRTY), 0);
            break;
        case 1:
            r = snic_hcache_read(&s.h, 1, lpn, 0, 512, out);
            if (r >= 0) {
                assert_int_equal(hw_version(out, 512, 1, lpn), s.shadow[lpn]);
                hits++;
            } else if (r == SNIC_ENOENT) {
                assert_int_equal(s.store[lpn], s.shadow[lpn]);
                event(SNIC_HCACHE_EV_MISS, lpn);
            }
            break;
        case 2:
            if (snic_rng_below(&rng, 50) == 0)
                settle(100000);
            break;
        default:
            (void)work();
            break;
        }
    }
    event(SNIC_HCACHE_EV_FSYNC, 0);
    settle(100000000);
    assert_int_equal(s.syncs, 1);
    assert_memory_equal(s.store, s.shadow, sizeof(s.store));
    assert_int_equal(snic_hcache_check(s.mem, s.size, &c), 0);
    assert_int_equal(c.dirty + c.invalid + c.flights + c.write_locked + c.read_locked, 0);
    assert_int_equal(c.free, c.header_free);
    print_message("%u hits, %u flushes, %u prefetched, %u DMA operations\n", (unsigned)hits,
                  (unsigned)hw_stats(s.c).flushes, (unsigned)hw_stats(s.c).prefetched,
                  (unsigned)dma_ops());
    assert_true(hits > 100);
    close_all();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcache_dma_hits_cost_none),
        cmocka_unit_test(test_hcache_dma_random_shadow),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
