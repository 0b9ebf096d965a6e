/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The hybrid cache's link where it is easily got wrong: an end before the beginning, a store that
 * takes longer than anybody waits, successors that are no good, doors without room.
 */
#include "test_hcachelink_util.h"

static unsigned char page[16 * RIG_PAGE];
static unsigned char out[16 * RIG_PAGE];

static void pattern(unsigned char *p, size_t n, uint64_t seed)
{
    struct snic_rng rng;
    snic_rng_init(&rng, seed);
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)snic_rng_below(&rng, 256);
}

static void until_closed(struct rig *g)
{
    for (int i = 0; i < 3000000 && g->closed == 0; i++)
        (void)rig_step(g);
    assert_int_equal(g->closed, 1);
}

static void in_store(struct rig *g, size_t size)
{
    memset(out, 0, sizeof(out));
    assert_int_equal(snic_fs_get(g->fs, "/a", out, sizeof(out)), size);
    assert_memory_equal(out, page, size);
}

/* The DPU's end is gone: detached, freed, its dma handle closed. */
static void dpu_dies(struct rig *g)
{
    snic_hcachelink_dpu_detach(g->dpu);
    for (int i = 0; i < 1000000 && !snic_hcachelink_dpu_idle(g->dpu); i++)
        (void)rig_step(g);
    support_guard_free(snic_hcachelink_dpu_fini(g->dpu));
    g->dpu = NULL;
    snic_dma_close(g->d[1]);
}

/* A new link to a new DPU; the old one's handle is closed when the host has gone over. */
static void successor(struct rig *g)
{
    struct snic_dma *old = g->d[0];
    g->closed = 0;
    rig_link(g);
    rig_dpu(g);
    assert_int_equal(snic_hcachelink_host_attach(g->host, g->d[0]), 0);
    snic_dma_close(old);
}

/* ---- The end ---- */

/* What was written before the DPU had answered is flushed by the end, too. */
static void test_hcachelink_end_before_the_beginning_flushes(void **state)
{
    (void)state;
    for (int when = 0; when < 60; when++) {
        struct rig g;
        uint64_t ino;
        rig_defaults(&g);
        rig_open(&g);
        pattern(page, sizeof(page), 21);
        ino = rig_file(&g, "a");
        /* the file was made by running the loop: begin anew */
        snic_hcachelink_host_end(g.host);
        until_closed(&g);
        g.closed = 0;
        g.opened = 0;
        assert_int_equal(snic_hcachelink_host_attach(g.host, g.d[0]), 0);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 2 * RIG_PAGE, page),
                         2 * RIG_PAGE);
        for (int i = 0; i < when; i++)
            (void)rig_step(&g);
        snic_hcachelink_host_end(g.host);
        snic_hcachelink_host_end(g.host);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), SNIC_EPIPE);
        until_closed(&g);
        assert_int_equal(g.reason, 0);
        in_store(&g, 2 * RIG_PAGE);
        rig_close(&g);
    }
}

/* The pages of a dead DPU's time, too. */
static void test_hcachelink_end_right_after_the_move_flushes(void **state)
{
    struct rig g;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    pattern(page, sizeof(page), 22);
    ino = rig_file(&g, "a");
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 3 * RIG_PAGE, page), 3 * RIG_PAGE);
    dpu_dies(&g);
    until_closed(&g);
    successor(&g);
    snic_hcachelink_host_end(g.host);
    until_closed(&g);
    assert_int_equal(g.reason, 0);
    in_store(&g, 3 * RIG_PAGE);
    rig_close(&g);
}

/* ---- Silence and slowness ---- */

/* The store takes longer for all than anybody waits for an answer, and nothing is lost for it. */
static void test_hcachelink_slow_store_is_no_silence(void **state)
{
    (void)state;
    for (int end = 0; end < 2; end++) {
        struct rig g;
        uint64_t ino;
        rig_defaults(&g);
        g.store_ns = 4000000;
        g.ho.timeout_ns = 40000000;
        g.po.control.jobs = 2;
        rig_open(&g);
        pattern(page, sizeof(page), 23);
        ino = rig_file(&g, "a");
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 16 * RIG_PAGE, page),
                         16 * RIG_PAGE);
        if (end)
            snic_hcachelink_host_end(g.host);
        else
            assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
        if (end)
            until_closed(&g);
        assert_int_equal(g.closed, end);
        assert_int_equal(g.reason, 0);
        in_store(&g, 16 * RIG_PAGE);
        rig_close(&g);
    }
}

/* A door between the halves that has no room, when the test says so. */
static struct snic_dma_ops narrow;
static const struct snic_dma_ops *wide;
static int refuse_messages, refuse_atomics;

static int narrow_send(struct snic_dma *d, const void *msg, uint32_t size)
{
    return refuse_messages ? 0 : wide->send(d, msg, size);
}

static int narrow_submit(struct snic_dma *d, struct snic_dma_batch **b, uint32_t n)
{
    if (refuse_atomics && n > 0 && b[0]->ops[0].kind >= SNIC_DMA_CAS)
        return 0;
    return wide->submit(d, b, n);
}

static void make_narrow(struct snic_dma *d)
{
    wide = d->ops;
    narrow = *wide;
    narrow.send = narrow_send;
    narrow.submit = narrow_submit;
    refuse_messages = refuse_atomics = 0;
    d->ops = &narrow;
}

/* The DPU does not even take messages: that is silence, too. */
static void test_hcachelink_full_door_times_out(void **state)
{
    struct rig g;
    uint64_t ino;
    uint64_t began;
    (void)state;
    rig_defaults(&g);
    g.ho.timeout_ns = 50000000;
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_settle(&g, 1000000);
    assert_int_equal(g.opened, 1);
    make_narrow(g.d[0]);
    refuse_messages = 1;
    began = snic_world_now(g.w);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, RIG_PAGE, out), SNIC_ETIMEDOUT);
    assert_true(snic_world_now(g.w) - began < 2 * g.ho.timeout_ns);
    until_closed(&g);
    assert_int_equal(g.reason, SNIC_ETIMEDOUT);
    refuse_messages = 0;
    snic_hcachelink_dpu_detach(g.dpu);
    rig_close(&g);
}

/* The DPU that has an answer and no room for it sleeps until it tries again. */
static void test_hcachelink_dpu_with_a_full_door_sleeps(void **state)
{
    struct rig g;
    uint64_t until;
    int steps = 0;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    rig_settle(&g, 1000000);
    make_narrow(g.d[1]);
    refuse_messages = 1;
    snic_hcachelink_host_end(g.host);
    until = snic_world_now(g.w) + 200000000;
    while (snic_world_now(g.w) < until && steps++ < 200000)
        (void)rig_step(&g);
    assert_true(snic_world_now(g.w) >= until);
    assert_int_equal(g.closed + g.gone, 0);
    refuse_messages = 0;
    until_closed(&g);
    assert_int_equal(g.reason, 0);
    rig_close(&g);
}

/* ---- Successors ---- */

/* One that refuses the region, one that is dead before it is asked: the pages wait for the next. */
static void test_hcachelink_bad_successors_lose_nothing(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct rig g;
        struct snic_dma *old;
        uint64_t ino;
        rig_defaults(&g);
        rig_open(&g);
        pattern(page, sizeof(page), 24);
        ino = rig_file(&g, "a");
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 4 * RIG_PAGE, page),
                         4 * RIG_PAGE);
        dpu_dies(&g);
        until_closed(&g);
        assert_int_equal(g.reason, SNIC_EPEERDEAD);
        if (way == 0) {
            uint64_t room = g.po.memory_max;
            g.po.memory_max = 100000;
            successor(&g);
            until_closed(&g);
            assert_int_equal(g.reason, SNIC_ENOSPC);
            g.po.memory_max = room;
            dpu_dies(&g);
        } else {
            old = g.d[0];
            g.closed = 0;
            rig_link(&g);
            snic_dma_close(g.d[1]);
            for (int i = 0; i < 1000 && !g.d[0]->dead; i++)
                (void)rig_step(&g);
            assert_int_equal(snic_hcachelink_host_attach(g.host, g.d[0]), SNIC_EPEERDEAD);
            snic_dma_close(g.d[0]);
            g.d[0] = old;
        }
        successor(&g);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, 4 * RIG_PAGE, out), 4 * RIG_PAGE);
        assert_memory_equal(out, page, 4 * RIG_PAGE);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
        in_store(&g, 4 * RIG_PAGE);
        rig_close(&g);
    }
}

/* The dead DPU has left locks of a host that holds none: the move takes them away. */
static void test_hcachelink_move_takes_false_locks_away(void **state)
{
    struct rig g;
    struct snic_hcache_host liar;
    struct snic_hcache_page held[3];
    struct snic_hcache_counts c;
    unsigned char *region;
    size_t size;
    uint64_t epoch, ino;
    (void)state;
    rig_defaults(&g);
    g.ho.timeout_ns = 100000000;
    rig_open(&g);
    pattern(page, sizeof(page), 25);
    ino = rig_file(&g, "a");
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, RIG_PAGE, page), RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    dpu_dies(&g);
    until_closed(&g);
    region = snic_hcachelink_host_region(g.host, &size, &epoch);
    assert_int_equal(snic_hcache_host_attach(&liar, region, size, 7, 3), 0);
    assert_int_equal(snic_hcache_get(&liar, ino, 0, &held[0]), 0);
    assert_int_equal(snic_hcache_lock(&liar, ino, 5, 0, &held[1]), 0);
    successor(&g);
    region = snic_hcachelink_host_region(g.host, &size, &epoch);
    rig_settle(&g, 1000000);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, RIG_PAGE, page), RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 5 * RIG_PAGE, RIG_PAGE, out), RIG_PAGE);
    assert_int_equal(snic_hcache_check(region, size, &c), 0);
    assert_int_equal(c.read_locked + c.write_locked, 0);
    rig_close(&g);
}

/* ---- Detach ---- */

/* What waited for room when the DPU was detached is not done to the memory of a host that lives. */
static void test_hcachelink_detach_leaves_a_living_hosts_memory(void **state)
{
    (void)state;
    for (int when = 0; when < 40; when++) {
        struct rig g;
        unsigned char *region, *before;
        size_t size;
        uint64_t epoch, ino;
        rig_defaults(&g);
        g.local = 1;
        g.po.control.flush_ns = 1000000;
        rig_open(&g);
        ino = rig_file(&g, "a");
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 4 * RIG_PAGE, page),
                         4 * RIG_PAGE);
        make_narrow(g.d[1]);
        for (int i = 0; i < when; i++)
            (void)rig_step(&g);
        refuse_atomics = 1;
        rig_settle(&g, 10000000);
        region = snic_hcachelink_host_region(g.host, &size, &epoch);
        before = malloc(size);
        assert_non_null(before);
        snic_hcachelink_dpu_detach(g.dpu);
        memcpy(before, region, size);
        for (int i = 0; i < 100000 && !snic_hcachelink_dpu_idle(g.dpu); i++)
            (void)rig_step(&g);
        assert_true(snic_hcachelink_dpu_idle(g.dpu));
        assert_memory_equal(before, region, size);
        free(before);
        refuse_atomics = 0;
        snic_hcachelink_host_death(g.host, SNIC_DMA_DEATH_CLOSED);
        rig_close(&g);
    }
}

/* ---- For ever ---- */

/* Times without an end are none in the past. */
static void test_hcachelink_times_may_be_for_ever(void **state)
{
    struct rig g;
    struct snic_hcache_host other;
    struct snic_hcache_page held;
    struct snic_hcachelink_req req = {
        .op = SNIC_HCACHELINK_READ, .offset = 2 * RIG_PAGE, .length = 10, .data = out};
    unsigned char *region;
    uint64_t epoch, ino, until;
    size_t size;
    int steps = 0;
    (void)state;
    rig_defaults(&g);
    g.local = 1;
    g.po.salvage_ns = SNIC_NEVER;
    g.ho.timeout_ns = SNIC_NEVER;
    g.ho.retry_ns = SNIC_NEVER;
    rig_open(&g);
    pattern(page, sizeof(page), 26);
    ino = rig_file(&g, "a");
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 2 * RIG_PAGE, page), 2 * RIG_PAGE);
    region = snic_hcachelink_host_region(g.host, &size, &epoch);
    assert_int_equal(snic_hcache_host_attach(&other, region, size, 2, epoch), 0);
    assert_int_equal(snic_hcache_lock(&other, ino, 2, 0, &held), 0);
    req.ino = ino;
    req.done = rig_done;
    req.ctx = &req;
    assert_int_equal(snic_hcachelink_submit(g.host, &req), 0);
    until = snic_world_now(g.w) + 20000000;
    while (snic_world_now(g.w) < until && steps++ < 200000)
        (void)rig_step(&g);
    assert_true(snic_world_now(g.w) >= until);
    assert_int_equal(g.closed, 0);
    assert_non_null(req.ctx);
    assert_int_equal(snic_hcache_unlock(&other, &held, SNIC_HCACHE_UNLOCK_KEEP), 0);
    snic_hcachelink_dpu_death(g.dpu, SNIC_DMA_DEATH_EXIT);
    for (int i = 0; i < 1000000 && g.gone == 0; i++)
        (void)rig_step(&g);
    in_store(&g, 2 * RIG_PAGE);
    snic_hcachelink_host_death(g.host, SNIC_DMA_DEATH_EXIT);
    rig_close(&g);
    assert_null(req.ctx);
}

/* ---- Words in any order ---- */

/* The DPU's reads bring a bucket's words in pieces and in any order, while pages come and go: what
   it flushes is the page, as far as it was written. */
static void test_hcachelink_pieces_of_a_bucket_in_any_order(void **state)
{
    enum { LPNS = 24, SIZE = 1024 };
    static unsigned char shadow[LPNS * SIZE];
    uint64_t rounds = support_rounds(3000, 100000);
    struct snic_rng rng;
    struct rig g;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    g.chunk = 8;
    g.ho.cache.page_bytes = SIZE;
    g.ho.cache.pages = 16;
    g.ho.cache.ways = 8;
    g.po.control.flush_ns = 1000;
    g.po.control.look_ns = 20000;
    g.po.control.reserve = 4;
    rig_open(&g);
    memset(shadow, 0, sizeof(shadow));
    snic_rng_init(&rng, support_seed());
    ino = rig_file(&g, "a");
    memset(page, 0, sizeof(shadow));
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, sizeof(shadow), page),
                     sizeof(shadow));
    for (uint64_t i = 0; i < rounds; i++) {
        size_t at = (size_t)snic_rng_below(&rng, sizeof(shadow));
        size_t n = 1 + (size_t)snic_rng_below(&rng, snic_min_u64(sizeof(shadow) - at, SIZE));
        if (snic_rng_below(&rng, 3) != 0) {
            memset(shadow + at, (int)i, n);
            assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, at, n, shadow + at), n);
        } else {
            assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, at, n, out), n);
            assert_memory_equal(out, shadow + at, n);
        }
        for (uint64_t k = snic_rng_below(&rng, 40); k > 0; k--)
            (void)rig_step(&g);
    }
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    assert_int_equal(snic_fs_get(g.fs, "/a", out, sizeof(out)), sizeof(shadow));
    assert_memory_equal(out, shadow, sizeof(shadow));
    rig_close(&g);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcachelink_end_before_the_beginning_flushes),
        cmocka_unit_test(test_hcachelink_end_right_after_the_move_flushes),
        cmocka_unit_test(test_hcachelink_slow_store_is_no_silence),
        cmocka_unit_test(test_hcachelink_full_door_times_out),
        cmocka_unit_test(test_hcachelink_dpu_with_a_full_door_sleeps),
        cmocka_unit_test(test_hcachelink_bad_successors_lose_nothing),
        cmocka_unit_test(test_hcachelink_move_takes_false_locks_away),
        cmocka_unit_test(test_hcachelink_times_may_be_for_ever),
        cmocka_unit_test(test_hcachelink_pieces_of_a_bucket_in_any_order),
        cmocka_unit_test(test_hcachelink_detach_leaves_a_living_hosts_memory),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
