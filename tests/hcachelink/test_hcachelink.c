/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The hybrid cache's two halves over dma's sim backend: what each operation promises, and what it
   costs. */
#include "test_hcachelink_util.h"

static unsigned char page[4 * RIG_PAGE];
static unsigned char out[4 * RIG_PAGE];
static unsigned char file[16 * RIG_PAGE];

/* A page written, flushed, and read back through the file system and through the cache. */
static void test_hcachelink_page_written_is_in_the_store(void **state)
{
    struct rig g;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_fill(page, sizeof(page), 1);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, RIG_PAGE, page), RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), RIG_PAGE);
    assert_memory_equal(file, page, RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, RIG_PAGE, out), RIG_PAGE);
    assert_memory_equal(out, page, RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_DROP, ino, 0, 0, NULL), 0);
    memset(out, 0, sizeof(out));
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 100, RIG_PAGE, out), RIG_PAGE);
    assert_memory_equal(out, page + 100, RIG_PAGE - 100);
    assert_int_equal(g.opened, 1);
    rig_close(&g);
    assert_int_equal(g.reason, 0);
    assert_int_equal(g.gone, 1);
}

/* ---- Sizes ---- */

/* A file is as long as what was written to it, however long its pages are. */
static void test_hcachelink_flush_keeps_the_size(void **state)
{
    struct rig g;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_fill(page, sizeof(page), 2);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 10, 90, page), 90);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), 100);
    assert_memory_equal(file + 10, page, 90);
    for (int i = 0; i < 10; i++)
        assert_int_equal(file[i], 0);
    /* over the end of a page, behind a hole */
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 3 * RIG_PAGE - 5, 12, page), 12);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, 4 * RIG_PAGE, out), 4 * RIG_PAGE);
    assert_memory_equal(out + 10, page, 90);
    assert_memory_equal(out + 3 * RIG_PAGE - 5, page, 12);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), 3 * RIG_PAGE + 7);
    assert_memory_equal(file, out, 3 * RIG_PAGE + 7);
    /* prefetched at the end of the file, then written in the middle */
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_DROP, ino, 0, 0, NULL), 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, RIG_PAGE, out), RIG_PAGE);
    rig_settle(&g, 5000000);
    assert_true(rig_dpu_stats(g.dpu).fetches > 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 3 * RIG_PAGE, 3, page), 3);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), 3 * RIG_PAGE + 7);
    rig_close(&g);
}

/* ---- What it costs ---- */

static uint64_t rig_looks(const struct rig *g)
{
    return rig_engine_stats(snic_hcachelink_dpu_engine(g->dpu)).looks;
}

static void test_hcachelink_dma_operations_are_counted(void **state)
{
    struct rig g;
    uint64_t ino, before, looks, messages;
    (void)state;
    rig_defaults(&g);
    g.ordered = 1; /* otherwise each visit reads twice */
    g.ho.cache.pages = 1024;
    g.po.control.prefetch_max = SNIC_HCACHE_NO_PREFETCH;
    g.po.control.look_ns = 20000000;
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_fill(page, sizeof(page), 4);
    rig_settle(&g, 30000000);
    messages = g.d[0]->stats.messages_sent;
    before = rig_dmas(&g);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, RIG_PAGE, page), RIG_PAGE);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, RIG_PAGE, out), RIG_PAGE);
    assert_int_equal(rig_dmas(&g), before); /* hits: nothing */
    assert_int_equal(g.d[0]->stats.messages_sent, messages);
    looks = rig_looks(&g);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    print_message("a page of 8 KiB written and flushed: %u DMA operations, %u looks\n",
                  (unsigned)(rig_dmas(&g) - before), (unsigned)(rig_looks(&g) - looks));
    /* two looks and the bits taken back, visits before and after, CAS and page, CAS, CAS */
    assert_true(rig_dmas(&g) - before <= 12);
    rig_settle(&g, 60000000);
    before = rig_dmas(&g);
    looks = rig_looks(&g);
    for (int i = 0; i < 256; i++)
        assert_int_equal(
            rig_op(&g, SNIC_HCACHELINK_WRITE, ino, (uint64_t)i * RIG_PAGE, RIG_PAGE, page),
            RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    print_message("256 pages: %.2f DMA operations a page, %u looks\n",
                  (double)(rig_dmas(&g) - before) / 256, (unsigned)(rig_looks(&g) - looks));
    rig_settle(&g, 60000000);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_DROP, ino, 0, 0, NULL), 0);
    rig_settle(&g, 60000000);
    before = g.d[1]->stats.writes;
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, RIG_PAGE, out), RIG_PAGE);
    assert_int_equal(g.d[1]->stats.writes - before, 1);
    rig_close(&g);
}

/* ---- Room ---- */

/* Four times as much as the region holds: written, read in sequence, prefetched. */
static void test_hcachelink_more_than_the_region(void **state)
{
    struct rig g;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    g.ho.cache.pages = 256;
    g.po.control.reserve = 4;
    rig_open(&g);
    ino = rig_file(&g, "a");
    for (uint64_t i = 0; i < 1024; i++) {
        rig_fill(page, RIG_PAGE, i);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, i * RIG_PAGE, RIG_PAGE, page),
                         RIG_PAGE);
    }
    for (uint64_t i = 0; i < 1024; i++) {
        rig_fill(page, RIG_PAGE, i);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, i * RIG_PAGE, RIG_PAGE, out),
                         RIG_PAGE);
        assert_memory_equal(out, page, RIG_PAGE);
    }
    print_message("%u waits, %u fills, %u prefetched\n", (unsigned)rig_host_stats(g.host).waits,
                  (unsigned)rig_host_stats(g.host).fills, (unsigned)rig_dpu_stats(g.dpu).fetches);
    assert_true(rig_host_stats(g.host).fills < 256);
    rig_close(&g);
}

/* ---- The end, and deaths ---- */

static void test_hcachelink_end_flushes_and_may_begin_again(void **state)
{
    struct rig g;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    g.po.control.flush_ns = 3000000;
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_fill(page, sizeof(page), 5);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 3 * RIG_PAGE, page), 3 * RIG_PAGE);
    snic_hcachelink_host_end(g.host);
    for (int i = 0; i < 1000000 && g.closed == 0; i++)
        (void)rig_step(&g);
    assert_int_equal(g.closed, 1);
    assert_int_equal(g.reason, 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), SNIC_EPIPE);
    assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), 3 * RIG_PAGE);
    assert_memory_equal(file, page, 3 * RIG_PAGE);
    assert_int_equal(snic_hcachelink_host_attach(g.host, g.d[0]), 0);
    assert_int_equal(snic_hcachelink_host_attach(g.host, g.d[0]), SNIC_EBUSY);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 1, RIG_PAGE, out), RIG_PAGE);
    assert_memory_equal(out, page + 1, RIG_PAGE);
    g.closed = 0;
    rig_close(&g);
}

/** A file system of another loop than the link's cannot be joined. */
static void test_hcachelink_file_system_of_other_loop_refused(void **state)
{
    struct snic_hcachelink_dpu *dpu = NULL;
    struct rig g;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    size_t size = snic_hcachelink_dpu_memsize(&g.po);
    void *mem = support_guard_alloc(size, SNIC_CACHELINE);
    assert_ptr_not_equal(g.d[0]->loop, g.d[1]->loop); /* the host's end is of another */
    assert_int_equal(snic_hcachelink_dpu_init(&dpu, mem, size, g.d[0], g.fs, &g.po), SNIC_EINVAL);
    assert_null(dpu);
    support_guard_free(mem);
    rig_close(&g);
}

static void test_hcachelink_dpu_dies_and_nothing_is_lost(void **state)
{
    struct rig g;
    struct snic_dma *old;
    struct snic_hcachelink_req req = {.op = SNIC_HCACHELINK_FSYNC, .done = rig_done};
    uint64_t ino;
    (void)state;
    for (int when = 0; when < 40; when++) {
        rig_defaults(&g);
        rig_open(&g);
        ino = rig_file(&g, "a");
        rig_fill(page, sizeof(page), 6);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 4 * RIG_PAGE, page),
                         4 * RIG_PAGE);
        req.ino = ino;
        req.ctx = &req;
        assert_int_equal(snic_hcachelink_submit(g.host, &req), 0);
        for (int i = 0; i < when * 5; i++)
            (void)rig_step(&g);
        snic_hcachelink_dpu_detach(g.dpu); /* it stops where it is: locks and flights stay */
        for (int i = 0; i < 1000000 && !snic_hcachelink_dpu_idle(g.dpu); i++)
            (void)rig_step(&g);
        support_guard_free(snic_hcachelink_dpu_fini(g.dpu));
        snic_dma_close(g.d[1]);
        old = g.d[0];
        g.dpu = NULL;
        for (int i = 0; i < 1000000 && g.closed == 0; i++)
            (void)rig_step(&g);
        assert_int_equal(g.reason, SNIC_EPEERDEAD);
        assert_null(req.ctx);
        assert_true(req.result == SNIC_EPEERDEAD || req.result == 0);
        g.closed = 0;
        rig_link(&g);
        rig_dpu(&g);
        assert_int_equal(snic_hcachelink_host_attach(g.host, g.d[0]), 0);
        snic_dma_close(old);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, 4 * RIG_PAGE, out), 4 * RIG_PAGE);
        assert_memory_equal(out, page, 4 * RIG_PAGE);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
        assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), 4 * RIG_PAGE);
        assert_memory_equal(file, page, 4 * RIG_PAGE);
        assert_int_equal(rig_host_stats(g.host).moved, 1);
        rig_close(&g);
    }
}

/* Over sim nothing of a dead host can be reached: what was fsynced is there. */
static void test_hcachelink_host_dies(void **state)
{
    struct rig g;
    struct snic_hcachelink_req req = {.op = SNIC_HCACHELINK_READ, .done = rig_done};
    uint64_t ino;
    (void)state;
    for (int when = 0; when < 40; when++) {
        rig_defaults(&g);
        rig_open(&g);
        ino = rig_file(&g, "a");
        rig_fill(page, sizeof(page), 7);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, RIG_PAGE, page), RIG_PAGE);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
        assert_int_equal(
            rig_op(&g, SNIC_HCACHELINK_WRITE, ino, RIG_PAGE, RIG_PAGE, page + RIG_PAGE), RIG_PAGE);
        req.ino = ino;
        req.offset = 5 * RIG_PAGE;
        req.length = 100;
        req.data = out;
        req.ctx = &req;
        assert_int_equal(snic_hcachelink_submit(g.host, &req), 0);
        for (int i = 0; i < when * 3; i++)
            (void)rig_step(&g);
        snic_dma_sim_kill(g.d[0]);
        snic_hcachelink_host_death(g.host, SNIC_DMA_DEATH_EXIT); /* to have it end here, too */
        rig_close(&g);
        assert_int_equal(g.gone, 1);
    }
}

/* Where a dead host's memory can be reached, what was whole and dirty is flushed. */
static void test_hcachelink_dead_hosts_pages_are_salvaged(void **state)
{
    struct rig g;
    uint64_t ino;
    (void)state;
    for (int when = 0; when < 60; when++) {
        rig_defaults(&g);
        g.local = 1;
        g.po.control.flush_ns = 30000;
        rig_open(&g);
        ino = rig_file(&g, "a");
        rig_fill(page, sizeof(page), 13);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 3 * RIG_PAGE + 7, page),
                         3 * RIG_PAGE + 7);
        for (int i = 0; i < when; i++)
            (void)rig_step(&g);
        snic_hcachelink_dpu_death(g.dpu, SNIC_DMA_DEATH_EXIT);
        for (int i = 0; i < 1000000 && g.gone == 0; i++)
            (void)rig_step(&g);
        assert_int_equal(g.gone, 1);
        assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), 3 * RIG_PAGE + 7);
        assert_memory_equal(file, page, 3 * RIG_PAGE + 7);
        snic_hcachelink_host_death(g.host, SNIC_DMA_DEATH_EXIT);
        rig_close(&g);
    }
}

/* A silent DPU, from the beginning or later: an error, in time. */
static void test_hcachelink_silent_dpu_times_out(void **state)
{
    (void)state;
    for (int later = 0; later < 2; later++) {
        struct rig g;
        struct snic_hcachelink_req req = {.op = SNIC_HCACHELINK_FSYNC, .done = rig_done};
        uint64_t began;
        rig_defaults(&g);
        g.ho.timeout_ns = 50000000;
        rig_open(&g);
        if (later)
            rig_settle(&g, 1000000);
        assert_int_equal(g.opened, later);
        began = snic_world_now(g.w);
        g.d[1]->events = (struct snic_dma_events){NULL, NULL, NULL, NULL};
        req.ctx = &req;
        req.ino = 5;
        assert_int_equal(snic_hcachelink_submit(g.host, &req), 0);
        for (int i = 0; i < 1000000 && g.closed == 0; i++)
            (void)rig_step(&g);
        assert_null(req.ctx);
        assert_int_equal(req.result, SNIC_ETIMEDOUT);
        assert_int_equal(g.reason, SNIC_ETIMEDOUT);
        assert_true(snic_world_now(g.w) - began < 100000000);
        snic_hcachelink_dpu_detach(g.dpu);
        rig_close(&g);
    }
}

/* A file that is unlinked while its pages are dirty leaves nothing that is tried for ever. */
static void test_hcachelink_unlinked_file_comes_to_rest(void **state)
{
    struct rig g;
    struct snic_fsop k = {.kind = SNIC_FSOP_UNLINK,
                          .flags = SNIC_FSOP_CHECKED,
                          .ino = SNIC_FSOP_ROOT,
                          .name = "a",
                          .name_size = 1};
    struct snic_fsop release = {.kind = SNIC_FSOP_RELEASE};
    struct snic_hcache_counts c;
    uint64_t ino, epoch;
    const void *region;
    size_t size;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    ino = rig_file(&g, "a");
    release.handle = g.handle;
    release.ino = ino;
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, RIG_PAGE, page), RIG_PAGE);
    assert_int_equal(snic_fs_call(g.fs, &release), 0);
    assert_int_equal(snic_fs_call(g.fs, &k), 0);
    rig_settle(&g, 200000000);
    assert_int_equal(rig_dpu_stats(g.dpu).orphans, 1);
    region = snic_hcachelink_host_region(g.host, &size, &epoch);
    assert_int_equal(snic_hcache_check(region, size, &c), 0);
    assert_int_equal(c.dirty + c.flights, 0);
    rig_close(&g);
}

/* ---- What the store does ---- */

/* The power goes at any moment after an fsync: what it promised is there. */
static void test_hcachelink_fsync_survives_a_power_cut(void **state)
{
    struct rig g;
    uint64_t ino;
    (void)state;
    for (int when = 0; when < 60; when++) {
        rig_defaults(&g);
        g.po.control.flush_ns = 1000000;
        rig_open(&g);
        ino = rig_file(&g, "a");
        rig_fill(page, sizeof(page), 8);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 4 * RIG_PAGE, page),
                         4 * RIG_PAGE);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
        if (when > 0)
            assert_int_equal(
                rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 4 * RIG_PAGE, 3 * RIG_PAGE, page),
                3 * RIG_PAGE);
        for (int i = 0; i < when * 10; i++)
            (void)rig_step(&g);
        snic_kvmem_crash(g.medium, 0);
        snic_hcachelink_host_death(g.host, SNIC_DMA_DEATH_EXIT);
        snic_hcachelink_dpu_detach(g.dpu);
        for (int i = 0; i < 1000000 && !(g.closed > 0 && snic_hcachelink_dpu_idle(g.dpu)); i++)
            (void)rig_step(&g);
        assert_true(snic_fs_unmount(g.fs) <= 0);
        support_guard_free(snic_fs_fini(g.fs));
        snic_kv_close(g.kv);
        snic_kvmem_restart(g.medium);
        rig_mount(&g, 78);
        assert_true(snic_fs_get(g.fs, "/a", file, sizeof(file)) >= 4 * RIG_PAGE);
        assert_memory_equal(file, page, 4 * RIG_PAGE);
        rig_close(&g);
    }
}

/* A store that refuses: fsync reports it, the pages stay, and the next fsync finds them. */
static void test_hcachelink_store_fails_and_recovers(void **state)
{
    struct rig g;
    struct snic_kv_fault f = {
        .kind = SNIC_KV_FAULT_ERROR, .error = SNIC_EIO, .after = 1, .repeat = UINT64_MAX};
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_fill(page, sizeof(page), 9);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, RIG_PAGE, page), RIG_PAGE);
    assert_int_equal(snic_kvmem_fault(g.medium, &f), 0);
    assert_true(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL) < 0);
    assert_true(rig_op(&g, SNIC_HCACHELINK_FLUSH, ino, 0, 0, NULL) < 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, RIG_PAGE, out), RIG_PAGE);
    assert_memory_equal(out, page, RIG_PAGE);
    snic_kvmem_faults_clear(g.medium);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), RIG_PAGE);
    assert_memory_equal(file, page, RIG_PAGE);
    rig_close(&g);
}

/* A page that is not any more what was summed is not written. */
static uint32_t odd_sum(void *ctx, uint64_t ino, uint64_t lpn, const void *p, uint32_t bytes)
{
    uint32_t *wrong = ctx;
    uint32_t sum = snic_hcache_seal_crc()->sum(NULL, ino, lpn, p, bytes);
    return *wrong > 0 && --*wrong % 2 == 0 ? sum + 1 : sum;
}

static void test_hcachelink_checksum_is_verified_before_the_write(void **state)
{
    static struct snic_hcache_seal seal;
    uint32_t wrong = 2;
    struct rig g;
    uint64_t ino;
    (void)state;
    seal = *snic_hcache_seal_crc();
    seal.sum = odd_sum;
    rig_defaults(&g);
    g.po.control.seal = &seal;
    g.po.control.seal_ctx = &wrong;
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_fill(page, sizeof(page), 10);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, RIG_PAGE, page), RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), SNIC_ECORRUPT);
    assert_int_equal(rig_dpu_stats(g.dpu).mismatches, 1);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    rig_close(&g);
}

/* Many at once, of which the DPU takes two at a time. */
static void test_hcachelink_many_requests_few_tasks(void **state)
{
    static struct snic_hcachelink_req req[40];
    static unsigned char bytes[40][64];
    struct rig g;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    g.po.tasks = 2;
    g.po.control.prefetch_max = SNIC_HCACHE_NO_PREFETCH;
    g.ho.timeout_ns = 2000000000;
    g.ho.requests_max = 4; /* the others wait at the host */
    rig_open(&g);
    ino = rig_file(&g, "a");
    for (int i = 0; i < 40; i++) {
        req[i] = (struct snic_hcachelink_req){.op = i % 3 == 0 ? SNIC_HCACHELINK_FSYNC
                                                               : SNIC_HCACHELINK_READ,
                                              .ino = ino,
                                              .offset = (uint64_t)i * RIG_PAGE,
                                              .length = sizeof(bytes[0]),
                                              .data = bytes[i],
                                              .done = rig_done};
        req[i].ctx = &req[i];
        assert_int_equal(snic_hcachelink_submit(g.host, &req[i]), 0);
    }
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 1000000 && req[i].ctx != NULL; k++)
            (void)rig_step(&g);
        assert_null(req[i].ctx);
        assert_int_equal(req[i].result, i % 3 == 0 ? 0 : 64);
    }
    assert_int_equal(rig_dpu_stats(g.dpu).refused, 0);
    rig_close(&g);
}

/* ---- Contract ---- */

static void refuses_options(const struct rig *g)
{
    struct snic_hcachelink_host_opts ho;
    struct snic_hcachelink_dpu_opts po;
    struct snic_hcache_seal seal = *snic_hcache_seal_crc();
    ho = g->ho;
    ho.flags = 8;
    assert_int_equal(snic_hcachelink_host_memsize(&ho), 0);
    ho = g->ho;
    ho.requests_max = 64;
    assert_true(snic_hcachelink_host_memsize(&ho) > 0);
    ho.requests_max = 65;
    assert_int_equal(snic_hcachelink_host_memsize(&ho), 0);
    ho.requests_max = 1;
    assert_int_equal(snic_hcachelink_host_memsize(&ho), 0);
    ho = g->ho;
    ho.bell = SNIC_DMA_DOORBELLS;
    assert_int_equal(snic_hcachelink_host_memsize(&ho), 0);
    ho = g->ho;
    ho.cache.pages = 63;
    assert_int_equal(snic_hcachelink_host_memsize(&ho), 0);
    po = g->po;
    po.flags = 8;
    assert_int_equal(snic_hcachelink_dpu_memsize(&po), 0);
    po = g->po;
    po.tasks = 65;
    assert_int_equal(snic_hcachelink_dpu_memsize(&po), 0);
    po = g->po;
    seal.pack = (uint32_t(*)(void *, const void *, uint32_t, void *))(void (*)(void))abort;
    po.control.seal = &seal;
    assert_int_equal(snic_hcachelink_dpu_memsize(&po), 0);
}

static void test_hcachelink_invalid_requests_refused(void **state)
{
    struct rig g;
    const void *region;
    uint64_t epoch;
    size_t size;
    (void)state;
    rig_defaults(&g);
    refuses_options(&g);
    rig_open(&g);
    region = snic_hcachelink_host_region(g.host, &size, &epoch);
    assert_non_null(region);
    assert_int_equal(snic_hcache_check(region, size, NULL), 0);
    assert_int_equal(rig_op(&g, 0, 5, 0, 0, NULL), SNIC_EINVAL);
    assert_int_equal(rig_op(&g, 7, 5, 0, 0, NULL), SNIC_EINVAL);
    for (uint32_t op = SNIC_HCACHELINK_READ; op <= SNIC_HCACHELINK_FLUSH; op++) {
        struct snic_hcachelink_req req = {.op = op,
                                          .ino = 5,
                                          .length = 1,
                                          .data = out,
                                          .flags = 2 | (op != SNIC_HCACHELINK_WRITE)};
        assert_int_equal(rig_call(&g, &req), SNIC_EINVAL);
    }
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, 5, 0, 1, NULL), SNIC_EINVAL);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, 5, 0, (1u << 30) + 1, out), SNIC_EINVAL);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, 5, SNIC_KVFS_SIZE_MAX, 1, out), SNIC_EINVAL);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_TRUNCATE, 5, 0, SNIC_KVFS_SIZE_MAX + 1, NULL),
                     SNIC_EINVAL);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, 5, 0, 0, NULL), 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, 4711, 0, 1, out), SNIC_ENOENT);
    rig_close(&g);
    /* a region that is too large for the DPU */
    rig_defaults(&g);
    g.po.memory_max = 100000;
    rig_open(&g);
    rig_settle(&g, 1000000);
    assert_int_equal(g.reason, SNIC_ENOSPC);
    rig_close(&g);
    /* a read cache */
    rig_defaults(&g);
    g.ho.cache.mode = SNIC_HCACHE_MODE_READ;
    rig_open(&g);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, 5, 0, 1, out), SNIC_EINVAL);
    rig_close(&g);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcachelink_page_written_is_in_the_store),
        cmocka_unit_test(test_hcachelink_flush_keeps_the_size),
        cmocka_unit_test(test_hcachelink_dma_operations_are_counted),
        cmocka_unit_test(test_hcachelink_more_than_the_region),
        cmocka_unit_test(test_hcachelink_end_flushes_and_may_begin_again),
        cmocka_unit_test(test_hcachelink_file_system_of_other_loop_refused),
        cmocka_unit_test(test_hcachelink_dpu_dies_and_nothing_is_lost),
        cmocka_unit_test(test_hcachelink_host_dies),
        cmocka_unit_test(test_hcachelink_dead_hosts_pages_are_salvaged),
        cmocka_unit_test(test_hcachelink_silent_dpu_times_out),
        cmocka_unit_test(test_hcachelink_unlinked_file_comes_to_rest),
        cmocka_unit_test(test_hcachelink_fsync_survives_a_power_cut),
        cmocka_unit_test(test_hcachelink_store_fails_and_recovers),
        cmocka_unit_test(test_hcachelink_checksum_is_verified_before_the_write),
        cmocka_unit_test(test_hcachelink_many_requests_few_tasks),
        cmocka_unit_test(test_hcachelink_invalid_requests_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
