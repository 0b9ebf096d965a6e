/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The hybrid cache's two halves: truncations, and what they meet. */
#include "test_hcachelink_util.h"

static unsigned char page[4 * RIG_PAGE];
static unsigned char out[4 * RIG_PAGE];
static unsigned char file[16 * RIG_PAGE];

static void test_hcachelink_truncate_cuts_cache_and_store(void **state)
{
    struct rig g;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_fill(page, sizeof(page), 3);
    for (int synced = 0; synced < 2; synced++) {
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 4 * RIG_PAGE, page),
                         4 * RIG_PAGE);
        if (synced)
            assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_TRUNCATE, ino, 0, RIG_PAGE + 100, NULL), 0);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, 4 * RIG_PAGE, out), 4 * RIG_PAGE);
        assert_memory_equal(out, page, RIG_PAGE + 100);
        for (int i = RIG_PAGE + 100; i < 4 * RIG_PAGE; i++)
            assert_int_equal(out[i], 0);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
        assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), RIG_PAGE + 100);
        assert_memory_equal(file, page, RIG_PAGE + 100);
    }
    /* a cut page that is not cached, and growth */
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_DROP, ino, 0, 0, NULL), 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_TRUNCATE, ino, 0, 50, NULL), 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_TRUNCATE, ino, 0, 2 * RIG_PAGE, NULL), 0);
    assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), 2 * RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, RIG_PAGE, out), RIG_PAGE);
    assert_memory_equal(out, page, 50);
    for (int i = 50; i < RIG_PAGE; i++)
        assert_int_equal(out[i], 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_TRUNCATE, ino + 77, 0, 0, NULL), SNIC_ENOENT);
    rig_close(&g);
}

/* Both at once, the second after each number of steps of the first. */
static void rig_race(struct rig *g, struct snic_hcachelink_req *a, struct snic_hcachelink_req *b,
                     int steps)
{
    struct snic_hcachelink_req *both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        int r;
        both[i]->done = rig_done;
        both[i]->ctx = both[i];
        r = snic_hcachelink_submit(g->host, both[i]);
        assert_true(r >= 0);
        if (r == 1)
            both[i]->ctx = NULL;
        for (int k = 0; i == 0 && k < steps; k++)
            (void)rig_step(g);
    }
    for (int k = 0; k < 1000000 && (a->ctx != NULL || b->ctx != NULL); k++)
        (void)rig_step(g);
    assert_null(a->ctx);
    assert_null(b->ctx);
}

/* Pages behind the new end are read ahead while the store is truncated. */
static void test_hcachelink_truncate_races_with_prefetch(void **state)
{
    struct rig g;
    uint64_t ino, other;
    (void)state;
    rig_defaults(&g);
    g.po.tasks = 2;        /* so that the truncation waits after its first drop, */
    g.po.control.jobs = 2; /* and pages come one by one */
    rig_open(&g);
    ino = rig_file(&g, "a");
    other = rig_file(&g, "b");
    rig_fill(page, sizeof(page), 11);
    for (int steps = 0; steps < 150; steps++) {
        struct snic_hcachelink_req cut = {.op = SNIC_HCACHELINK_TRUNCATE, .ino = ino};
        struct snic_hcachelink_req sync = {.op = SNIC_HCACHELINK_FSYNC, .ino = ino};
        struct snic_hcachelink_req read = {.op = SNIC_HCACHELINK_READ,
                                           .ino = other,
                                           .offset = (uint64_t)(1000 + steps * 7) * RIG_PAGE,
                                           .length = 10,
                                           .data = file};
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 4 * RIG_PAGE, page),
                         4 * RIG_PAGE);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_DROP, ino, 0, 0, NULL), 0);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, RIG_PAGE, out), RIG_PAGE);
        sync.done = rig_done;
        sync.ctx = &sync;
        assert_int_equal(snic_hcachelink_submit(g.host, &sync), 0);
        for (int k = 0; k < steps; k++)
            (void)rig_step(&g);
        rig_race(&g, &read, &cut, 0);
        assert_int_equal(cut.result, 0);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, 4 * RIG_PAGE, out), 4 * RIG_PAGE);
        for (int i = 0; i < 4 * RIG_PAGE; i++)
            assert_int_equal(out[i], 0);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_DROP, ino, 0, 0, NULL), 0);
        for (int k = 0; k < 1000000 && sync.ctx != NULL; k++)
            (void)rig_step(&g);
        assert_null(sync.ctx);
    }
    rig_close(&g);
}

/* What was on its way to the store when the truncation came does not come after it. */
static void races_with_flush(int local)
{
    struct rig g;
    uint64_t ino;
    rig_defaults(&g);
    g.local = local;
    g.po.control.prefetch_max = SNIC_HCACHE_NO_PREFETCH;
    rig_open(&g);
    ino = rig_file(&g, "a");
    rig_fill(page, sizeof(page), 12);
    for (int steps = 0; steps < 150; steps++) {
        struct snic_hcachelink_req cut = {
            .op = SNIC_HCACHELINK_TRUNCATE, .ino = ino, .length = 100};
        struct snic_hcachelink_req sync = {.op = SNIC_HCACHELINK_FSYNC, .ino = ino};
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, RIG_PAGE, page), RIG_PAGE);
        rig_race(&g, &sync, &cut, steps);
        assert_int_equal(cut.result, 0);
        assert_int_equal(sync.result, 0);
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
        assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), 100);
        assert_memory_equal(file, page, 100);
    }
    rig_close(&g);
}

static void test_hcachelink_truncate_races_with_flush(void **state)
{
    (void)state;
    races_with_flush(0);
    races_with_flush(1);
}

/* Fsyncs that wait for the page which a truncation holds do not keep it from being carried out. */
static void test_hcachelink_truncate_passes_fsyncs(void **state)
{
    struct rig g;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    g.po.tasks = 2;
    g.ho.timeout_ns = 100000000;
    rig_open(&g);
    ino = rig_file(&g, "a");
    for (int steps = 0; steps < 60; steps++) {
        struct snic_hcachelink_req r[5];
        assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, 2 * RIG_PAGE, page),
                         2 * RIG_PAGE);
        for (int i = 0; i < 5; i++) {
            r[i] = (struct snic_hcachelink_req){.op = i == 3 ? SNIC_HCACHELINK_TRUNCATE
                                                             : SNIC_HCACHELINK_FSYNC,
                                                .ino = ino,
                                                .length = i == 3 ? 100 : 0,
                                                .done = rig_done};
            r[i].ctx = &r[i];
            assert_int_equal(snic_hcachelink_submit(g.host, &r[i]), 0);
            for (int k = 0; k < steps; k++)
                (void)rig_step(&g);
        }
        for (int i = 0; i < 5; i++) {
            for (int k = 0; k < 1000000 && r[i].ctx != NULL; k++)
                (void)rig_step(&g);
            assert_null(r[i].ctx);
            assert_int_equal(r[i].result, 0);
        }
    }
    rig_close(&g);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcachelink_truncate_cuts_cache_and_store),
        cmocka_unit_test(test_hcachelink_truncate_races_with_prefetch),
        cmocka_unit_test(test_hcachelink_truncate_races_with_flush),
        cmocka_unit_test(test_hcachelink_truncate_passes_fsyncs),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
