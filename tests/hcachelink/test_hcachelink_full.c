/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The hybrid cache's link before a store that has no more space. */
#include "test_hcachelink_util.h"

static unsigned char page[16 * RIG_PAGE];
static unsigned char out[16 * RIG_PAGE];

/* All entries hold pages that cannot be written out: requests do without one, at once. */
static void test_hcachelink_no_wait_for_what_a_failing_flush_would_free(void **state)
{
    struct rig g;
    uint64_t old;
    uint64_t ino;
    uint64_t since;
    uint64_t failures;
    struct snic_hcachelink_req req = {.op = SNIC_HCACHELINK_WRITE, .offset = 0, .data = page};

    (void)state;
    rig_defaults(&g);
    g.space = 4 << 20;
    rig_open(&g);
    rig_fill(page, sizeof(page), 31);
    old = rig_file(&g, "old");
    ino = rig_file(&g, "a");
    assert_int_equal(snic_fs_put(g.fs, "/old", page, sizeof(page), 0644), 0);
    rig_exhaust(&g, rig_file(&g, "filler"));
    assert_int_equal(snic_hcachelink_refused(g.host), 0);
    for (uint64_t n = 0; n < 4; n++) {
        int64_t r = rig_op(&g, SNIC_HCACHELINK_WRITE, ino, n * sizeof(page), sizeof(page), page);
        assert_true(r == sizeof(page) || r == SNIC_EAGAIN);
    }
    rig_settle(&g, UINT64_C(200000000));
    assert_int_equal(snic_hcachelink_refused(g.host), SNIC_ENOSPC);
    since = snic_world_now(g.w);
    req.ino = old;
    req.length = 4 * RIG_PAGE;
    assert_int_equal(rig_call(&g, &req), SNIC_EAGAIN);
    assert_true(req.at < req.length && req.at % RIG_PAGE == 0);
    req.op = SNIC_HCACHELINK_READ;
    req.data = out;
    req.offset = 4 * RIG_PAGE;
    assert_int_equal(rig_call(&g, &req), SNIC_EAGAIN);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, RIG_PAGE, out), RIG_PAGE);
    assert_memory_equal(out, page, RIG_PAGE); /* what is dirty is read */
    /* a truncation needs no entry, either, and cuts what is dirty */
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_TRUNCATE, old, 0, 12 * RIG_PAGE + 100, NULL), 0);
    assert_int_equal(snic_fs_get(g.fs, "/old", out, sizeof(out)), 12 * RIG_PAGE + 100);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_TRUNCATE, ino, 0, 60 * RIG_PAGE + 100, NULL), 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 60 * RIG_PAGE, RIG_PAGE, out), RIG_PAGE);
    for (int i = 0; i < RIG_PAGE; i++)
        assert_int_equal(out[i], i < 100 ? page[12 * RIG_PAGE + i] : 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), SNIC_ENOSPC);
    assert_true(snic_world_now(g.w) - since < 100000000);
    failures = rig_engine_stats(snic_hcachelink_dpu_engine(g.dpu)).flush_failures;
    rig_settle(&g, UINT64_C(5000000000));
    assert_in_range(rig_engine_stats(snic_hcachelink_dpu_engine(g.dpu)).flush_failures, failures,
                    failures + 12);
    /* dropped: there is nothing left that it could refuse, and room */
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_DROP, ino, 0, 0, NULL), 0);
    rig_settle(&g, UINT64_C(200000000));
    assert_int_equal(snic_hcachelink_refused(g.host), 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, old, 8 * RIG_PAGE, RIG_PAGE, out), RIG_PAGE);
    assert_memory_equal(out, page + 8 * RIG_PAGE, RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_DROP, old, 0, 0, NULL), 0);
    rig_close(&g);
}

/* Requests that already wait when the store turns out to have no space end with EAGAIN, too; they
   write nothing when there is space again. */
static void test_hcachelink_full_store_reported_to_waiters(void **state)
{
    struct rig g;
    uint64_t ino;
    uint64_t filler;
    struct snic_hcachelink_req req = {.op = SNIC_HCACHELINK_WRITE, .data = page};
    struct snic_fsop cut = {
        .kind = SNIC_FSOP_SETATTR, .flags = SNIC_FSOP_CHECKED, .set_mask = SNIC_FSOP_SET_SIZE};
    int64_t last = 0;
    uint64_t n = 0;

    (void)state;
    rig_defaults(&g);
    g.space = 4 << 20;
    rig_open(&g);
    rig_settle(&g, UINT64_C(10000000));
    rig_fill(page, sizeof(page), 32);
    ino = rig_file(&g, "a");
    filler = rig_file(&g, "filler");
    rig_exhaust(&g, filler);
    req.ino = ino;
    req.length = RIG_PAGE;
    for (; n < 80 && last == 0; n++) { /* at once: nothing is flushed meanwhile */
        req.offset = n * RIG_PAGE;
        req.done = rig_done;
        req.ctx = &req;
        last = snic_hcachelink_submit(g.host, &req) - 1;
    }
    assert_int_equal(last, -1); /* the last one waits */
    assert_int_equal(snic_hcachelink_refused(g.host), 0);
    for (uint64_t since = snic_world_now(g.w);
         req.ctx != NULL && snic_world_now(g.w) - since < 1000000000;)
        (void)rig_step(&g);
    assert_null(req.ctx);
    assert_int_equal(req.result, SNIC_EAGAIN);
    assert_int_equal(req.at, 0);
    cut.ino = filler;
    assert_int_equal(snic_fs_call(g.fs, &cut), 0);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    assert_int_equal(snic_fs_get(g.fs, "/a", out, 0), (n - 1) * RIG_PAGE);
    rig_settle(&g, UINT64_C(50000000));
    assert_int_equal(snic_hcachelink_refused(g.host), 0);
    rig_close(&g);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcachelink_no_wait_for_what_a_failing_flush_would_free),
        cmocka_unit_test(test_hcachelink_full_store_reported_to_waiters),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
