/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The hybrid cache's link where it is easily got wrong: an end before the beginning, a store that
 * takes longer than any caller waits, successors that are no good, doors without room.
 */
#include "test_hcachelink_util.h"

#include "hcachelink/hcachelink_priv.h"

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

/* What the end has flushed is durable: the power goes when it has been answered. */
static void test_hcachelink_end_is_durable(void **state)
{
    struct rig g;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    pattern(page, sizeof(page), 29);
    ino = rig_file(&g, "a");
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 3 * RIG_PAGE, page), 3 * RIG_PAGE);
    snic_hcachelink_host_end(g.host);
    until_closed(&g);
    assert_int_equal(g.reason, 0);
    snic_kvmem_crash(g.medium, 0);
    assert_true(snic_fs_unmount(g.fs) <= 0);
    support_guard_free(snic_fs_fini(g.fs));
    snic_kv_close(g.kv);
    snic_kvmem_restart(g.medium);
    rig_mount(&g, 78);
    in_store(&g, 3 * RIG_PAGE);
    rig_close(&g);
}

/* A store that refuses everything does not keep the end from coming; the pages wait for a better
   one. */
static void test_hcachelink_end_with_a_store_that_fails(void **state)
{
    struct rig g;
    struct snic_kv_fault f = {
        .kind = SNIC_KV_FAULT_ERROR, .error = SNIC_EIO, .after = 1, .repeat = UINT64_MAX};
    uint64_t ino, began;
    (void)state;
    rig_defaults(&g);
    g.po.salvage_ns = 300000000;
    rig_open(&g);
    pattern(page, sizeof(page), 30);
    ino = rig_file(&g, "a");
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 4 * RIG_PAGE, page), 4 * RIG_PAGE);
    assert_int_equal(snic_kvmem_fault(g.medium, &f), 0);
    began = snic_world_now(g.w);
    snic_hcachelink_host_end(g.host);
    until_closed(&g);
    assert_true(g.reason < 0 && g.reason != SNIC_ETIMEDOUT);
    assert_true(snic_world_now(g.w) - began < UINT64_C(1000000000));
    snic_kvmem_faults_clear(g.medium);
    g.closed = 0;
    assert_int_equal(snic_hcachelink_host_attach(g.host, g.d[0]), 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, 4 * RIG_PAGE, out), 4 * RIG_PAGE);
    assert_memory_equal(out, page, 4 * RIG_PAGE);
    snic_hcachelink_host_end(g.host);
    until_closed(&g);
    assert_int_equal(g.reason, 0);
    in_store(&g, 4 * RIG_PAGE);
    rig_close(&g);
}

/* ---- Silence and slowness ---- */

/* The store takes longer for all than callers wait for an answer, and nothing is lost for it. */
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

/* A door between the halves that has no room, when the test sets it. */
static struct snic_dma_ops narrow;
static const struct snic_dma_ops *wide;
static int refuse_messages, refuse_atomics;
static struct snic_rng *refuse_some; /* every third */

static int narrow_send(struct snic_dma *d, const void *msg, uint32_t size)
{
    if (refuse_some != NULL && snic_rng_below(refuse_some, 3) == 0)
        return 0;
    return refuse_messages ? 0 : wide->send(d, msg, size);
}

static int narrow_submit(struct snic_dma *d, struct snic_dma_batch **b, uint32_t n)
{
    if (refuse_atomics && n > 0 && b[0]->ops[0].kind >= SNIC_DMA_CAS)
        return 0;
    if (refuse_some != NULL && snic_rng_below(refuse_some, 3) == 0)
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

/* Random requests through doors that are often full. */
static void test_hcachelink_doors_are_often_full(void **state)
{
    enum { SIZE = 30 * RIG_PAGE };
    static unsigned char shadow[SIZE];
    (void)state;
    for (int local = 0; local < 2; local++) {
        uint64_t rounds = support_rounds(1000, 30000);
        struct snic_rng rng, full;
        struct rig g;
        uint64_t ino;
        rig_defaults(&g);
        g.local = local;
        g.ho.cache.pages = 16;
        g.po.control.flush_ns = 1000000;
        rig_open(&g);
        memset(shadow, 0, sizeof(shadow));
        snic_rng_init(&rng, support_seed());
        snic_rng_init(&full, support_seed() + 1);
        ino = rig_file(&g, "a");
        make_narrow(g.d[0]);
        g.d[1]->ops = &narrow;
        refuse_some = &full;
        for (uint64_t i = 0; i < rounds; i++) {
            size_t at = (size_t)snic_rng_below(&rng, SIZE);
            size_t n = 1 + (size_t)snic_rng_below(&rng, snic_min_u64(SIZE - at, 2 * RIG_PAGE));
            switch (snic_rng_below(&rng, 8)) {
            case 0:
                assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
                break;
            case 1:
                memset(shadow + at, 0, SIZE - at);
                assert_int_equal(rig_op(&g, SNIC_HCACHELINK_TRUNCATE, ino, 0, at, NULL), 0);
                break;
            case 2:
            case 3:
            case 4:
                memset(shadow + at, (int)i, n);
                assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, at, n, shadow + at), n);
                break;
            default:
                assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, at, n, out), n);
                assert_memory_equal(out, shadow + at, n);
                break;
            }
        }
        snic_hcachelink_host_end(g.host);
        until_closed(&g);
        assert_int_equal(g.reason, 0);
        refuse_some = NULL;
        rig_close(&g);
    }
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

/* One refuses the region, one is dead before its first request: the pages wait for the next. */
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

/* What waited for room when the DPU was detached is not done to the memory of a host that is alive.
 */
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

/* ---- What is not there ---- */

/* A page that could not be read is not cached, neither by a read nor by a write of a part of it. */
static void test_hcachelink_a_failed_fill_is_forgotten(void **state)
{
    struct rig g;
    struct snic_hcache_counts c;
    const void *region;
    uint64_t epoch;
    size_t size;
    (void)state;
    rig_defaults(&g);
    g.po.control.prefetch_max = SNIC_HCACHE_NO_PREFETCH;
    rig_open(&g);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, 4711, 0, 5, out), SNIC_ENOENT);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, 4711, RIG_PAGE, 5, out), SNIC_ENOENT);
    }
    region = snic_hcachelink_host_region(g.host, &size, &epoch);
    assert_int_equal(snic_hcache_check(region, size, &c), 0);
    assert_int_equal(c.free, g.ho.cache.pages);
    rig_close(&g);
}

/* The test plays the host: the DPU's messages to it. */
static struct hcachelink_message heard;

static void hear(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    (void)ctx;
    (void)d;
    assert_int_equal(hcachelink_decode(&heard, msg, size), 0);
}

/* A page behind the region's last one is refused before anything is read for it. */
static void test_hcachelink_dpu_fills_pages_of_the_region_only(void **state)
{
    unsigned char msg[SNIC_HCACHELINK__BYTES];
    struct rig g;
    uint64_t ino, reads;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_settle(&g, 1000000);
    g.d[0]->events = (struct snic_dma_events){hear, NULL, NULL, NULL};
    for (uint64_t back = 0; back < 3; back++) {
        struct hcachelink_message m = {
            .type = HCACHELINK_READ, .id = 7 + back, .ino = ino, .b = g.ho.cache.pages + 1 - back};
        hcachelink_encode(msg, &m);
        memset(&heard, 0, sizeof(heard));
        reads = rig_dpu_stats(g.dpu).reads;
        assert_int_equal(snic_dma_send(g.d[0], msg, sizeof(msg)), 1);
        rig_settle(&g, 1000000);
        assert_int_equal(heard.type, HCACHELINK_DONE);
        assert_int_equal(heard.id, m.id);
        assert_int_equal(heard.result, back < 2 ? SNIC_EINVAL : 0);
        assert_int_equal(rig_dpu_stats(g.dpu).reads - reads, back == 2);
    }
    snic_hcachelink_host_death(g.host, SNIC_DMA_DEATH_EXIT);
    snic_hcachelink_dpu_detach(g.dpu);
    rig_close(&g);
}

/* More at once than it has announced: those are refused, and the others are answered. */
static void test_hcachelink_dpu_limits_tasks_in_flight(void **state)
{
    unsigned char msg[SNIC_HCACHELINK__BYTES];
    struct rig g;
    uint64_t ino, reads, refused;
    (void)state;
    rig_defaults(&g);
    g.po.tasks = 3;
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_settle(&g, 1000000);
    g.d[0]->events = (struct snic_dma_events){hear, NULL, NULL, NULL};
    reads = rig_dpu_stats(g.dpu).reads;
    refused = rig_dpu_stats(g.dpu).refused;
    for (uint64_t i = 0; i < 5; i++) {
        struct hcachelink_message m = {.type = HCACHELINK_READ, .id = 7 + i, .ino = ino, .b = i};
        hcachelink_encode(msg, &m);
        assert_int_equal(snic_dma_send(g.d[0], msg, sizeof(msg)), 1);
    }
    rig_settle(&g, 1000000);
    assert_int_equal(rig_dpu_stats(g.dpu).reads - reads, 3);
    assert_int_equal(rig_dpu_stats(g.dpu).refused - refused, 2);
    snic_hcachelink_host_death(g.host, SNIC_DMA_DEATH_EXIT);
    snic_hcachelink_dpu_detach(g.dpu);
    rig_close(&g);
}

/* Just the pages that it touches. */
static void test_hcachelink_drop_of_a_range(void **state)
{
    static const struct {
        uint64_t offset, length;
        uint32_t first, last;
    } ranges[] = {{0, 1, 0, 0},
                  {RIG_PAGE - 1, 2, 0, 1},
                  {2 * RIG_PAGE, RIG_PAGE, 2, 2},
                  {2 * RIG_PAGE, RIG_PAGE + 1, 2, 3},
                  {3 * RIG_PAGE + 5, 0, 3, 5},
                  {RIG_PAGE, 3 * RIG_PAGE, 1, 3}};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(ranges); i++) {
        struct rig g;
        struct snic_hcache_host other;
        struct snic_hcache_page p;
        unsigned char *region;
        uint64_t epoch, ino;
        size_t size;
        rig_defaults(&g);
        g.po.control.prefetch_max = SNIC_HCACHE_NO_PREFETCH;
        rig_open(&g);
        ino = rig_file(&g, "a");
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 6 * RIG_PAGE, page),
                         6 * RIG_PAGE);
        assert_int_equal(
            rig_op(&g, SNIC_HCACHELINK_DROP, ino, ranges[i].offset, ranges[i].length, NULL), 0);
        region = snic_hcachelink_host_region(g.host, &size, &epoch);
        assert_int_equal(snic_hcache_host_attach(&other, region, size, 2, epoch), 0);
        for (uint32_t lpn = 0; lpn < 6; lpn++) {
            int gone = lpn >= ranges[i].first && lpn <= ranges[i].last;
            int r = snic_hcache_get(&other, ino, lpn, &p);
            assert_int_equal(r, gone ? SNIC_ENOENT : 0);
            if (r == 0)
                assert_int_equal(snic_hcache_put(&other, &p), 0);
        }
        rig_close(&g);
    }
}

/* A waiter for a page or an entry is woken, and does not depend on retries. */
static void test_hcachelink_who_waits_is_woken(void **state)
{
    struct rig g;
    struct snic_hcachelink_req a, b;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    g.ho.retry_ns = SNIC_NEVER;
    g.ho.cache.pages = 8;
    rig_open(&g);
    ino = rig_file(&g, "a");
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, i * RIG_PAGE, RIG_PAGE, page),
                         RIG_PAGE);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, i * RIG_PAGE, RIG_PAGE, out),
                         RIG_PAGE);
    assert_true(rig_host_stats(g.host).waits > 0);
    for (uint64_t i = 0; i < 20; i++) {
        a = (struct snic_hcachelink_req){.op = SNIC_HCACHELINK_READ,
                                         .ino = ino,
                                         .offset = i * RIG_PAGE,
                                         .length = 10,
                                         .data = out,
                                         .done = rig_done};
        b = a;
        a.ctx = &a;
        b.ctx = &b;
        if (snic_hcachelink_submit(g.host, &a) == 1)
            a.ctx = NULL;
        if (snic_hcachelink_submit(g.host, &b) == 1)
            b.ctx = NULL;
        for (int k = 0; k < 1000000 && (a.ctx != NULL || b.ctx != NULL); k++)
            (void)rig_step(&g);
        assert_int_equal(a.result, 10);
        assert_int_equal(b.result, 10);
    }
    rig_close(&g);
}

/* ---- Deaths ---- */

/* The dead host's threads held pages: what one was writing is torn and dropped, what one was
   reading is whole and saved, and no thread waits for either. */
static void test_hcachelink_salvage_of_held_pages(void **state)
{
    struct rig g;
    struct snic_hcache_host other;
    struct snic_hcache_page reads, writes;
    unsigned char *region;
    uint64_t epoch, ino, began;
    size_t size;
    (void)state;
    rig_defaults(&g);
    g.local = 1;
    g.po.control.flush_ns = 1000000000;
    rig_open(&g);
    pattern(page, sizeof(page), 28);
    ino = rig_file(&g, "a");
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 3 * RIG_PAGE, page), 3 * RIG_PAGE);
    region = snic_hcachelink_host_region(g.host, &size, &epoch);
    assert_int_equal(snic_hcache_host_attach(&other, region, size, 2, epoch), 0);
    assert_int_equal(snic_hcache_get(&other, ino, 0, &reads), 0);
    assert_int_equal(snic_hcache_lock(&other, ino, 1, 0, &writes), 0);
    memset(writes.data, 0xee, RIG_PAGE / 2);
    rig_settle(&g, 1000000);
    began = snic_world_now(g.w);
    snic_hcachelink_dpu_death(g.dpu, SNIC_DMA_DEATH_EXIT);
    for (int i = 0; i < 1000000 && g.gone == 0; i++)
        (void)rig_step(&g);
    assert_int_equal(g.gone, 1);
    assert_true(snic_world_now(g.w) - began < UINT64_C(5000000000));
    assert_int_equal(rig_dpu_stats(g.dpu).salvaged, 2);
    memset(page + RIG_PAGE, 0, RIG_PAGE);
    in_store(&g, 3 * RIG_PAGE);
    snic_hcachelink_host_death(g.host, SNIC_DMA_DEATH_EXIT);
    rig_close(&g);
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
static void pieces_in_any_order(uint64_t seed)
{
    enum { LPNS = 24, SIZE = 1024 };
    static unsigned char shadow[LPNS * SIZE];
    uint64_t rounds = support_rounds(2000, 30000);
    struct snic_rng rng;
    struct rig g;
    uint64_t ino;
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
    snic_rng_init(&rng, seed);
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

static void test_hcachelink_pieces_of_a_bucket_in_any_order(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 6; round++)
        pieces_in_any_order(support_seed() * 1000 + round);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcachelink_end_before_the_beginning_flushes),
        cmocka_unit_test(test_hcachelink_end_right_after_the_move_flushes),
        cmocka_unit_test(test_hcachelink_slow_store_is_no_silence),
        cmocka_unit_test(test_hcachelink_doors_are_often_full),
        cmocka_unit_test(test_hcachelink_full_door_times_out),
        cmocka_unit_test(test_hcachelink_dpu_with_a_full_door_sleeps),
        cmocka_unit_test(test_hcachelink_bad_successors_lose_nothing),
        cmocka_unit_test(test_hcachelink_move_takes_false_locks_away),
        cmocka_unit_test(test_hcachelink_a_failed_fill_is_forgotten),
        cmocka_unit_test(test_hcachelink_dpu_fills_pages_of_the_region_only),
        cmocka_unit_test(test_hcachelink_end_is_durable),
        cmocka_unit_test(test_hcachelink_end_with_a_store_that_fails),
        cmocka_unit_test(test_hcachelink_dpu_limits_tasks_in_flight),
        cmocka_unit_test(test_hcachelink_drop_of_a_range),
        cmocka_unit_test(test_hcachelink_who_waits_is_woken),
        cmocka_unit_test(test_hcachelink_salvage_of_held_pages),
        cmocka_unit_test(test_hcachelink_times_may_be_for_ever),
        cmocka_unit_test(test_hcachelink_pieces_of_a_bucket_in_any_order),
        cmocka_unit_test(test_hcachelink_detach_leaves_a_living_hosts_memory),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
