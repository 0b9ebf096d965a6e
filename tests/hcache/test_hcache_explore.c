/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The cache under the explorer: every interleaving of a few host threads and the engine on a cache
 * of two pages, with store buffers and reordered loads. The scenarios pass as the code stands and
 * fail when an ordering that they rest on is left out.
 */
#include "test_hcache_stage.h"

#define DEAD EXPLORE_DEAD

/* ---- Bodies: outcome 0 nothing done, else the version ---- */

static uint64_t write_body(void *copy)
{
    struct snic_hcache_page page;

    if (snic_hcache_lock(copy, 1, 0, 0, &page) != 0)
        return 0;
    stage_write(&page, 2);
    if (snic_hcache_unlock(copy, &page, SNIC_HCACHE_UNLOCK_DIRTY) != 0)
        explore_fail("unlock refused");
    return 2;
}

/* 1000: not there. */
static uint64_t read_body(void *copy)
{
    struct snic_hcache_page page;
    int r = snic_hcache_get(copy, 1, 0, &page);
    uint64_t v;

    if (r != 0)
        return r == SNIC_EBUSY ? 0 : 1000;
    v = stage_read_and_put(copy, &page);
    if (v != 1 && v != 2)
        explore_fail("a reader saw content that was never written");
    return v;
}

/* One run of the engine, which flushes at once. */
static uint64_t flush_body(void *copy)
{
    (void)copy;
    dpu_open(SNIC_HCACHE_NO_PREFETCH, 1);
    dpu_event(SNIC_HCACHE_EV_NONE, 0);
    dpu_run(0);
    return 1;
}

/* The same until one page is flushed. */
static uint64_t flush_one_body(void *copy)
{
    (void)copy;
    dpu_open(SNIC_HCACHE_NO_PREFETCH, 1);
    dpu_event(SNIC_HCACHE_EV_NONE, 0);
    dpu_run(1);
    return 1;
}

static uint64_t stored(uint64_t lpn)
{
    if (stage_store(lpn)[0] != stage_store(lpn)[1])
        explore_fail("the store has a torn page");
    return stage_store(lpn)[0];
}

/* Is the page in the cache, and which version? 0: no. */
static uint64_t cached(uint64_t lpn)
{
    struct snic_hcache_page page;
    uint64_t v;

    if (snic_hcache_get(&stage.host[0], 1, lpn, &page) != 0)
        return 0;
    v = ((uint64_t *)page.data)[0];
    if (v != ((uint64_t *)page.data)[1])
        explore_fail("the cache has a torn page");
    if (snic_hcache_put(&stage.host[0], &page) != 0)
        explore_fail("put at the end");
    return v;
}

/* Thread 0 writes 2 over 1. */
static void newest_everywhere(const uint64_t *outcome)
{
    uint64_t newest = outcome[0] != 0 && outcome[0] != DEAD ? 2 : 1;
    uint64_t there = cached(0);

    if (there != 0 && there != newest)
        explore_fail("the cache lost an update");
    if (there == 0 && stored(0) != newest)
        explore_fail("what is not cached is not in the store");
    dpu_drain();
    if (stored(0) != newest)
        explore_fail("the store lost an update");
}

/* ---- Host against host ---- */

/* By day at every other commit (SNIC_TURN); the largest with the engine at the others. */
static int another_day(uint64_t turn)
{
    if (support_nightly() || support_turn(2) == turn)
        return 0;
    print_message("at another commit, and by night\n");
    return 1;
}

static void test_hcache_explore_writer_and_readers(void **state)
{
    (void)state;
    if (another_day(0))
        return;
    stage_region(2);
    stage_put_page(0, 1, 0);
    stage_thread(write_body, 0);
    stage_thread(read_body, 1);
    stage_thread(read_body, 2);
    stage.s.final = newest_everywhere;
    must_pass("writer, two readers");
    must_fail("writer, two readers", "second_hcache_put", EXPLORE_CAS, -1);
    must_fail("writer, two readers", "second_hcache_unlock", EXPLORE_CAS, -1);
}

/* Two writers of 2 where nothing was. */
static void inserted_once(const uint64_t *outcome)
{
    uint64_t newest = outcome[0] != 0 || outcome[1] != 0 ? 2 : 0;

    if (cached(0) != newest)
        explore_fail("the insertion is lost");
    dpu_drain();
    if (stored(0) != newest)
        explore_fail("the store lost an update");
}

/* Everybody wants a page that is not there: it is inserted once. */
static void test_hcache_explore_two_inserters(void **state)
{
    (void)state;
    stage_region(2);
    stage_thread(write_body, 0);
    stage_thread(write_body, 1);
    stage_thread(read_body, 2);
    stage.s.final = inserted_once;
    must_pass("two inserters, a reader");
    must_fail("two inserters, a reader", "hcache_insert", EXPLORE_CAS, 0);
    must_fail("two inserters, a reader", "hcache_insert", EXPLORE_CAS, 1);
}

/* ---- With the engine ---- */

static void test_hcache_explore_flush_and_rewrite(void **state)
{
    (void)state;
    stage_region(2);
    stage_put_page(0, 1, 1);
    stage.no_interest = 1;
    stage.no_map = 1;
    stage_thread(write_body, 0);
    stage_thread(flush_body, 0);
    stage.s.final = newest_everywhere;
    must_pass("writer, flusher");
    must_fail("writer, flusher", "second_hcache_unlock", EXPLORE_CAS, -1);
}

/* A victim is hit, replaced and marked again at the same time. The evicting thread is a host that
 * inserts page 2; the reader wants page 0. */
static uint64_t insert_body(void *copy)
{
    struct snic_hcache_page page;

    if (snic_hcache_lock(copy, 1, 2, 0, &page) != 0)
        return 0;
    stage_write(&page, 7);
    if (snic_hcache_unlock(copy, &page, SNIC_HCACHE_UNLOCK_DIRTY) != 0)
        explore_fail("unlock refused");
    return 7;
}

static void replaced(const uint64_t *outcome)
{
    uint64_t third = outcome[2];

    newest_everywhere(outcome);
    if (third == 7 && stored(2) != 7)
        explore_fail("the inserted page is lost");
}

static void replaced_no_reader(const uint64_t *outcome)
{
    const uint64_t with_reader[EXPLORE_THREADS] = {outcome[0], 0, outcome[1]};

    replaced(with_reader);
}

static void test_hcache_explore_replace_under_reader_and_writer(void **state)
{
    (void)state;
    if (another_day(1))
        return;
    stage_region(2);
    stage_put_page(0, 1, 0);
    stage_put_page(1, 5, 0);
    stage_victim(0);
    stage_thread(write_body, 0);
    stage_thread(read_body, 1);
    stage_thread(insert_body, 2);
    stage.s.final = replaced;
    must_pass("writer, reader, evictor");
}

/* One entry per bucket, so that all are after the same one: it holds page 0, a victim. */
static void stage_one_entry(int reader, int evictor)
{
    stage_region(1);
    stage_put_page(0, 1, 0);
    stage_victim(0);
    stage.no_map = 1; /* the engine looks at every bucket anyway */
    stage_sc = stage.s.sc = 1;
    stage_thread(write_body, 0);
    if (reader)
        stage_thread(read_body, 1);
    if (evictor)
        stage_thread(insert_body, 2);
    stage_thread(flush_one_body, 0);
    stage.s.final = evictor ? (reader ? replaced : replaced_no_reader) : newest_everywhere;
}

static void test_hcache_explore_three_of_four(void **state)
{
    (void)state;
    if (another_day(1))
        return;
    stage_one_entry(1, 0);
    must_pass("writer, reader, flusher");
    stage_one_entry(0, 1);
    must_pass("writer, flusher, evictor");
    stage_sc = 0;
}

static void test_hcache_explore_writer_reader_flusher_evictor(void **state)
{
    (void)state;
    if (!support_nightly()) { /* three at a time by day: test_hcache_explore_three_of_four */
        print_message("2.2 million states: nightly\n");
        return;
    }
    stage_one_entry(1, 1);
    must_pass("writer, reader, flusher, evictor");
    stage_sc = 0;
}

/* ---- fsync ---- */

/* Writes 3 over the other writer's 2, and then wants it durable. */
static uint64_t rewrite_and_fsync_body(void *copy)
{
    struct snic_hcache_page page;
    uint64_t v;

    if (snic_hcache_lock(copy, 1, 0, SNIC_HCACHE_PRESENT, &page) != 0)
        return 0;
    v = explore_load((uint64_t *)page.data, memory_order_seq_cst, __func__);
    if (v == 2)
        stage_write(&page, 3);
    if (snic_hcache_unlock(copy, &page,
                           v == 2 ? SNIC_HCACHE_UNLOCK_DIRTY : SNIC_HCACHE_UNLOCK_KEEP) != 0)
        explore_fail("unlock refused");
    if (v == 2)
        explore_store(stage_request(), 1, memory_order_seq_cst, __func__);
    return v == 2;
}

/* An engine that has seen all that there was, and gets the fsync if it was asked for. */
static uint64_t fsync_body(void *copy)
{
    (void)copy;
    dpu_open(SNIC_HCACHE_NO_PREFETCH, 1000000000);
    dpu_event(SNIC_HCACHE_EV_NONE, 0);
    dpu_run(0);
    if (explore_load(stage_request(), memory_order_seq_cst, __func__) == 0)
        return 1;
    dpu_event(SNIC_HCACHE_EV_FSYNC, 0);
    dpu_run(0);
    if (dpu.syncs == 1 && dpu.synced != 3)
        explore_fail("fsync without what its caller had written");
    return 2;
}

/* Writes 3, and then wants it durable. */
static uint64_t write_and_fsync_body(void *copy)
{
    struct snic_hcache_page page;

    if (snic_hcache_lock(copy, 1, 0, SNIC_HCACHE_PRESENT, &page) != 0)
        return 0;
    stage_write(&page, 3);
    if (snic_hcache_unlock(copy, &page, SNIC_HCACHE_UNLOCK_DIRTY) != 0)
        explore_fail("unlock refused");
    explore_store(stage_request(), 1, memory_order_seq_cst, __func__);
    return 1;
}

/* The same, with the fsync at any step. */
static uint64_t fsync_at_any_step_body(void *copy)
{
    struct snic_hcache_action a;
    int requested = 0;

    (void)copy;
    dpu_open(SNIC_HCACHE_NO_PREFETCH, 1000000000);
    dpu_event(SNIC_HCACHE_EV_NONE, 0);
    for (;;) {
        if (!requested && explore_load(stage_request(), memory_order_seq_cst, __func__) != 0) {
            requested = 1;
            dpu_event(SNIC_HCACHE_EV_FSYNC, 0);
        }
        if (snic_hcache_control_poll(dpu.c, &a, 1) == 0)
            break;
        (void)dpu_act(&a);
    }
    if (dpu.syncs == 1 && dpu.synced != 3)
        explore_fail("fsync without what its caller had written");
    return 1 + (uint64_t)requested;
}

static void synced_one(const uint64_t *outcome)
{
    uint64_t newest = outcome[0] == 1 ? 3 : 1;

    if (cached(0) != newest)
        explore_fail("the cache lost an update");
    dpu_drain();
    if (stored(0) != newest)
        explore_fail("the store lost an update");
}

/* H4: the engine may take the bucket's bit away at any moment of the write. */
static void test_hcache_explore_fsync_of_a_page_that_becomes_dirty(void **state)
{
    (void)state;
    stage_region(2);
    stage_put_page(0, 1, 0);
    stage.no_interest = 1;
    stage_thread(write_and_fsync_body, 0);
    stage_thread(fsync_body, 0);
    stage.s.final = synced_one;
    must_pass("writer, fsync");
}

/* Requested while a look is under way that has read the map before the write: that look is not the
   one that the fsync waits for. */
static void test_hcache_explore_fsync_during_a_look(void **state)
{
    (void)state;
    stage_region(1);
    stage_put_page(0, 1, 0);
    snic_put_le64(stage.memory + SNIC_HCACHE_OFF_MAP, 2); /* the other bucket's bit */
    stage.no_interest = 1;
    stage_sc = stage.s.sc = 1;
    stage_thread(write_and_fsync_body, 0);
    stage_thread(fsync_at_any_step_body, 0);
    stage.s.final = synced_one;
    must_pass("writer, fsync during a look");
    stage_sc = 0;
}

static void synced(const uint64_t *outcome)
{
    uint64_t newest = outcome[1] == 1 ? 3 : outcome[0] != 0 ? 2 : 1;

    if (cached(0) != newest)
        explore_fail("the cache lost an update");
    dpu_drain();
    if (stored(0) != newest)
        explore_fail("the store lost an update");
}

/* The first writer has made the page dirty, not yet reported it; the second one finds it dirty. */
static void test_hcache_explore_fsync_of_a_dirty_page(void **state)
{
    (void)state;
    stage_region(2);
    stage_put_page(0, 1, 0);
    stage.no_interest = 1;
    stage_sc = stage.s.sc = 1;
    stage_thread(write_body, 0);
    stage_thread(rewrite_and_fsync_body, 1);
    stage_thread(fsync_body, 0);
    stage.s.final = synced;
    must_pass("two writers, fsync");
    stage_sc = 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcache_explore_writer_and_readers),
        cmocka_unit_test(test_hcache_explore_two_inserters),
        cmocka_unit_test(test_hcache_explore_flush_and_rewrite),
        cmocka_unit_test(test_hcache_explore_replace_under_reader_and_writer),
        cmocka_unit_test(test_hcache_explore_three_of_four),
        cmocka_unit_test(test_hcache_explore_writer_reader_flusher_evictor),
        cmocka_unit_test(test_hcache_explore_fsync_of_a_page_that_becomes_dirty),
        cmocka_unit_test(test_hcache_explore_fsync_during_a_look),
        cmocka_unit_test(test_hcache_explore_fsync_of_a_dirty_page),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
