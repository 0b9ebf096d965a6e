/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* For callers that do not leave all to the cache: flushes, writes behind the end, hints. */
#include "test_hcachelink_util.h"

static unsigned char page[4 * RIG_PAGE];
static unsigned char out[4 * RIG_PAGE];
static unsigned char file[16 * RIG_PAGE];

/* A flush is as good for clients of the file system, and does not wait for the medium. */
static void test_hcachelink_flush_is_in_the_file_system(void **state)
{
    struct rig g;
    uint64_t ino, syncs;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_fill(page, sizeof(page), 21);
    rig_settle(&g, 60000000);
    for (int i = 0; i < 32; i++) {
        struct snic_hcachelink_req flush = {.op = SNIC_HCACHELINK_FLUSH, .ino = ino};
        uint64_t offset = (uint64_t)(i * 4096);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, offset, 4096, page + i), 4096);
        flush.done = rig_done;
        flush.ctx = &flush;
        assert_int_equal(snic_hcachelink_submit(g.host, &flush), 0);
        while (flush.ctx != NULL)
            (void)rig_step(&g);
        assert_int_equal(flush.result, 0);
        assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), offset + 4096);
        assert_memory_equal(file + offset, page + i, 4096);
    }
    syncs = rig_engine_stats(snic_hcachelink_dpu_engine(g.dpu)).fsyncs;
    assert_true(syncs >= 32);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FLUSH, ino + 77, 0, 0, NULL), 0);
    rig_close(&g);
}

/* Behind the end of a file nothing is read before a part of a page is written. */
static void test_hcachelink_write_beyond_the_end(void **state)
{
    struct rig g;
    uint64_t ino, fills;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_fill(page, sizeof(page), 22);
    rig_fill(file, sizeof(file), 23);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 100, page), 100);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FLUSH, ino, 0, 0, NULL), 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_DROP, ino, 0, 0, NULL), 0);
    fills = rig_host_stats(g.host).fills;
    for (uint64_t at = 2 * RIG_PAGE; at < 4 * RIG_PAGE; at += 1000) {
        struct snic_hcachelink_req w = {.op = SNIC_HCACHELINK_WRITE,
                                        .flags = SNIC_HCACHELINK_BEYOND,
                                        .ino = ino,
                                        .offset = at,
                                        .length = 1000,
                                        .data = page};
        assert_int_equal(rig_call(&g, &w), 1000);
    }
    assert_int_equal(rig_host_stats(g.host).fills, fills);
    { /* the page that the old end is in is read, though the write is behind the end */
        struct snic_hcachelink_req w = {.op = SNIC_HCACHELINK_WRITE,
                                        .flags = SNIC_HCACHELINK_BEYOND,
                                        .ino = ino,
                                        .offset = 200,
                                        .length = 10,
                                        .data = page};
        assert_int_equal(rig_call(&g, &w), 10);
    }
    assert_int_equal(rig_host_stats(g.host).fills, fills + 1);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), 2 * RIG_PAGE + 17000);
    assert_memory_equal(file, page, 100);
    assert_memory_equal(file + 200, page, 10);
    for (int i = 100; i < 200; i++)
        assert_int_equal(file[i], 0);
    for (int i = 210; i < 2 * RIG_PAGE; i++)
        assert_int_equal(file[i], 0);
    for (int i = 0; i < 17; i++)
        assert_memory_equal(file + 2 * RIG_PAGE + i * 1000, page, 1000);
    rig_close(&g);
}

/* Misses that a thread served itself, and marks that it reached, prefetch as the half's own do. */
static void test_hcachelink_hints_prefetch(void **state)
{
    struct rig g;
    struct snic_hcache_host other;
    uint64_t ino, epoch, fetched;
    void *region;
    size_t size;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_fill(file, sizeof(file), 24);
    assert_int_equal(snic_fs_put(g.fs, "/a", file, sizeof(file), 0644), 0);
    rig_settle(&g, 5000000);
    snic_hcachelink_hint(g.host, ino, 0, 2);
    rig_settle(&g, 5000000);
    fetched = rig_dpu_stats(g.dpu).fetches;
    assert_true(fetched > 0);
    region = snic_hcachelink_host_region(g.host, &size, &epoch);
    assert_int_equal(snic_hcache_host_attach(&other, region, size, 2, epoch), 0);
    assert_int_equal(snic_hcache_read(&other, ino, 2, 0, RIG_PAGE, out), SNIC_HCACHE_AHEAD);
    assert_memory_equal(out, file + 2 * RIG_PAGE, RIG_PAGE);
    snic_hcachelink_hint(g.host, ino, 2, 0);
    rig_settle(&g, 5000000);
    assert_true(rig_dpu_stats(g.dpu).fetches > fetched);
    assert_int_equal(other.stats.useful, 1);
    rig_close(&g);
}

static uint32_t no_pack(void *ctx, const void *from, uint32_t bytes, void *to)
{
    (void)ctx;
    (void)from;
    (void)bytes;
    (void)to;
    return 0;
}

/* What would break: a program can only report that one of a dozen options is wrong. */
static void test_hcachelink_bad_options_named(void **state)
{
    const struct snic_hcache_seal packs = {.pack = no_pack};
    (void)state;
    {
        struct snic_hcachelink_host_opts good = {
            .opts_size = sizeof(good),
            .cache = {
                .opts_size = sizeof(good.cache), .page_bytes = RIG_PAGE, .ways = 8, .pages = 64}};
        assert_null(snic_hcachelink_host_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_hcachelink_host_opts bad = good;                                               \
        bad.field = value;                                                                         \
        support_names(snic_hcachelink_host_opts_wrong(&bad), name);                                \
        assert_int_equal(snic_hcachelink_host_memsize(&bad), 0);                                   \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(flags, 2, "flags");
        WRONG(bell, SNIC_DMA_DOORBELLS, "bell");
        WRONG(requests_max, 1, "requests_max");
        WRONG(requests_max, 65, "requests_max");
        WRONG(cache.page_bytes, 3, "page_bytes");
#undef WRONG
    }
    {
        struct snic_hcachelink_dpu_opts good = {.opts_size = sizeof(good)};
        assert_null(snic_hcachelink_dpu_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_hcachelink_dpu_opts bad = good;                                                \
        bad.field = value;                                                                         \
        support_names(snic_hcachelink_dpu_opts_wrong(&bad), name);                                 \
        assert_int_equal(snic_hcachelink_dpu_memsize(&bad), 0);                                    \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(flags, 4, "flags");
        WRONG(bell, SNIC_DMA_DOORBELLS, "bell");
        WRONG(tasks, 1, "tasks");
        WRONG(tasks, 65, "tasks");
        WRONG(control.seal, &packs, "control.seal");
#undef WRONG
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcachelink_flush_is_in_the_file_system),
        cmocka_unit_test(test_hcachelink_write_beyond_the_end),
        cmocka_unit_test(test_hcachelink_hints_prefetch),
        cmocka_unit_test(test_hcachelink_bad_options_named),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
