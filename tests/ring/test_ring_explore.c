/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The request ring under the explorer (explore_ring.h): every interleaving of a few threads with
 * store buffers and reordered loads. Each scenario must pass as the code stands, and fail when one
 * of the orderings it rests on is left out: an ordering whose loss no scenario notices is either
 * not needed or not tested.
 */
#include "test_ring_stage.h"

/* Per-record commit: a record is taken only when all of it is written, and its place is not
 * written again before it was read. */
static void test_ring_explore_commit_two_producers(void **state)
{
    (void)state;
    stage_two_producers(SNIC_RING_COMMIT, push_body);
    must_pass("commit");
    must_fail("commit", weak("ring_publish", EXPLORE_STORE, -1));
    must_fail("commit", weak("ring_take_plain", EXPLORE_LOAD, -1));
    stage_two_producers(SNIC_RING_COMMIT, push_two_body);
    must_pass("commit batch");
    must_fail("commit batch", weak("ring_publish", EXPLORE_STORE, -1));
    stage_ring(SNIC_RING_REQUEST, SNIC_RING_COMMIT, 0, 512);
    stage_three_producers();
    must_pass("commit, three producers");
}

/* The paper's P == T: with P read before T and acquired, equal means no hole. */
static void test_ring_explore_quiescent_two_producers(void **state)
{
    struct explore_mutation swap = weak("ring_look_quiescent", EXPLORE_JOIN, -1);

    (void)state;
    stage_two_producers(SNIC_RING_QUIESCENT, push_body);
    must_pass("quiescent");
    must_fail("quiescent", weak("ring_publish", EXPLORE_ADD, -1));
    must_fail("quiescent", weak("ring_look_quiescent", EXPLORE_LOAD, -1));
    swap.swap_first = (char *)stage.memory + SNIC_RING_OFF_PROGRESS;
    swap.swap_second = (char *)stage.memory + SNIC_RING_OFF_TAIL;
    must_fail("quiescent, T before P", swap);
    stage_ring(SNIC_RING_REQUEST, SNIC_RING_QUIESCENT, 0, 512);
    stage_three_producers();
    must_pass("quiescent, three producers");
}

/* The same for a push in one piece, which takes a short way of its own. */
static void test_ring_explore_short_pushes(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        stage_ring(SNIC_RING_REQUEST, d, 0, 512);
        stage_producer(0, push_short_body);
        stage_producer(1, push_short_body);
        stage_thread(take_body, &stage.consumer, sizeof(stage.consumer));
        stage.s.final = all_there;
        must_pass("short");
        must_fail("short", weak("ring_push_shared",
                                d == SNIC_RING_COMMIT ? EXPLORE_STORE : EXPLORE_ADD, -1));
    }
}

/* Takes the records run by run. */
static uint64_t take_run_body(void *copy)
{
    struct snic_ring_consumer *c = copy;
    struct snic_ring_run run;
    uint64_t late[4], taken = 0;
    int look, n, i;

    for (look = 0; look < stage.looks; look++) {
        n = snic_ring_peek_run(c, &run, 4);
        if (n < 0)
            explore_fail("the consumer calls an honest ring corrupt");
        for (i = 0; i < n; i++)
            late[i] = explore_late((char *)run.first.data + (uint32_t)i * run.stride_bytes);
        if (n > 0 && snic_ring_release(c, run.next) != 0)
            explore_fail("release refused");
        for (i = 0; i < n; i++)
            if (explore_late_value(late[i]) !=
                PAYLOAD + run.first.position + (uint32_t)i * run.stride_bytes)
                explore_fail("payload read is not what the producer wrote");
        taken += (uint64_t)n;
    }
    if (snic_ring_space_notify(c) != 0)
        explore_fail("nobody waits for space");
    return taken;
}

/* A run ends where nothing more is committed, in and between reservations. */
static void test_ring_explore_runs(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        stage_ring(SNIC_RING_REQUEST, d, 0, 512);
        stage_producer(0, push_two_body);
        stage_producer(1, push_body);
        stage_thread(take_run_body, &stage.consumer, sizeof(stage.consumer));
        stage.s.final = all_there;
        must_pass("runs");
        if (d == SNIC_RING_COMMIT)
            must_fail("runs", weak("ring_run_committed", EXPLORE_LOAD, -1));
        else
            must_fail("runs", weak("ring_look_quiescent", EXPLORE_LOAD, -1));
    }
}

/* A producer that attached when H had moved, and pushes at once: a thread that reads its T must see
 * that H. */
static uint64_t attach_push_body(void *copy)
{
    struct snic_ring_producer p;

    (void)copy;
    if (snic_ring_producer_attach(&p, stage.memory, stage.size, 0) != 0)
        explore_fail("attach");
    return push_typed(&p, 2);
}

static void test_ring_explore_short_push_hands_on_the_head(void **state)
{
    unsigned char block[248] = {0};
    uint32_t i;

    (void)state;
    stage_ring(SNIC_RING_REQUEST, SNIC_RING_COMMIT, 0, 1024);
    for (i = 0; i < 4; i++) {
        snic_put_le64(block, PAYLOAD + i * 256);
        assert_int_equal(snic_ring_push(&stage.producer[2], 1, block, sizeof(block)), 0);
    }
    stage.looks = 1;
    stage_thread(attach_push_body, &stage.looks, sizeof(stage.looks));
    stage_producer(1, push_short_body);
    stage_thread(take_body, &stage.consumer, sizeof(stage.consumer));
    must_pass("short, full ring");
    must_fail("short, full ring", weak("ring_push_shared", EXPLORE_CAS, -1));
}

/* The ring is full; the producer's record goes where the consumer still reads. */
static void test_ring_explore_full_ring_place_is_reused_after_reads(void **state)
{
    uint32_t d, i;

    (void)state;
    for (d = 0; d < 2; d++) {
        unsigned char block[248] = {0};
        struct snic_ring_producer filler;

        stage_ring(SNIC_RING_REQUEST, d, 0, 1024);
        assert_int_equal(snic_ring_producer_attach(&filler, stage.memory, stage.size, 0), 0);
        for (i = 0; i < 4; i++) {
            snic_put_le64(block, PAYLOAD + i * 256);
            assert_int_equal(snic_ring_push(&filler, 1, block, sizeof(block)), 0);
        }
        stage.looks = 1;
        stage_producer(0, push_body);
        stage_producer(1, push_body);
        stage_thread(take_body, &stage.consumer, sizeof(stage.consumer));
        must_pass(d ? "reuse quiescent" : "reuse commit");
        must_fail("reuse", weak("ring_publish_head", EXPLORE_STORE, -1));
    }
}

/* ---- Wake-ups ---- */

static uint64_t push_notify_body(void *copy)
{
    uint64_t pushed = push_body(copy);

    return pushed | (uint64_t)snic_ring_notify(copy) << 8;
}

/* 1 << 16: went to sleep with nothing taken. */
static uint64_t sleeper_body(void *copy)
{
    struct snic_ring_op op;
    uint64_t taken;

    stage.looks = 1;
    taken = take_body(copy);
    if (taken != 0)
        return taken;
    if (snic_ring_sleep_arm(copy, &op) != 0)
        explore_fail("arm");
    taken = take_body(copy);
    return taken != 0 ? taken : (uint64_t)1 << 16;
}

static void nobody_sleeps_on(const uint64_t *outcome)
{
    uint64_t consumer = outcome[stage.s.threads - 1];
    uint64_t bells = 0;
    unsigned i;

    for (i = 0; i + 1 < stage.s.threads; i++)
        bells += outcome[i] >> 8;
    if (consumer >> 16 != 0 && drain() != 0 && bells == 0)
        explore_fail("the consumer sleeps on a record");
    if (bells > 1)
        explore_fail("two bells for one arming");
}

/* The fence on each side of the consumer's doorbell: without it both look away. */
static void test_ring_explore_consumer_sleep_no_lost_wake_up(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct explore_mutation m = weak("ring_load_flag", EXPLORE_FENCE, -1);

        stage_ring(SNIC_RING_REQUEST, d, 0, 512);
        stage_producer(0, push_notify_body);
        stage_producer(1, push_notify_body);
        stage_thread(sleeper_body, &stage.consumer, sizeof(stage.consumer));
        stage.s.final = nobody_sleeps_on;
        must_pass("sleep");
        m.only = 3;
        must_fail("sleep, consumer", m);
        stage_ring(SNIC_RING_REQUEST, d, 0, 512);
        stage_producer(0, push_notify_body);
        stage_thread(sleeper_body, &stage.consumer, sizeof(stage.consumer));
        stage.s.final = nobody_sleeps_on;
        m.only = 1;
        must_fail("sleep, producer", m);
    }
}

/* Full ring: 1 pushed, 1 << 16 asleep. */
static uint64_t waiter_body(void *copy)
{
    uint64_t pushed = push_body(copy);

    if (pushed != 0)
        return pushed;
    snic_ring_wait_arm(copy);
    pushed = push_body(copy);
    return pushed != 0 ? pushed : (uint64_t)1 << 16;
}

static uint64_t take_notify_body(void *copy)
{
    struct snic_ring_consumer *c = copy;
    struct snic_ring_rec rec[4];
    int n = snic_ring_peek(c, rec, 4);

    if (n > 0 && snic_ring_release(c, rec[n - 1].next) != 0)
        explore_fail("release refused");
    return (uint64_t)snic_ring_space_notify(c);
}

static void no_producer_sleeps_on(const uint64_t *outcome)
{
    if ((outcome[0] | outcome[1]) >> 16 != 0 && outcome[2] == 0)
        explore_fail("a producer sleeps although there is space");
}

/* The same for producers that wait for space. */
static void test_ring_explore_producer_wait_no_lost_wake_up(void **state)
{
    struct explore_mutation m = weak("ring_load_flag", EXPLORE_FENCE, -1);
    unsigned char block[248] = {0};
    uint32_t i;

    (void)state;
    stage_ring(SNIC_RING_REQUEST, SNIC_RING_COMMIT, 0, 1024);
    for (i = 0; i < 4; i++)
        assert_int_equal(snic_ring_push(&stage.producer[2], 1, block, sizeof(block)), 0);
    stage_producer(0, waiter_body);
    stage_producer(1, waiter_body);
    stage_thread(take_notify_body, &stage.consumer, sizeof(stage.consumer));
    stage.s.final = no_producer_sleeps_on;
    must_pass("wait");
    must_fail("wait, stale head", weak("ring_reserve_shared", EXPLORE_LOAD, -1));
    m.only = 3;
    must_fail("wait, consumer", m);
}

/* ---- The consumer over DMA ---- */

static void must_fail_stage(const char *name)
{
    struct explore_result r = explore_run(&stage.s, NULL);

    if (r.failure == NULL)
        fail_msg("%s: nobody notices", name);
    print_message("%s: %s\n", name, r.failure);
}

/* DMA that reorders words within a read, and reads among themselves, yields no uncommitted
 * byte; what the header demands of it (P before T) is needed. */
static void test_ring_explore_remote_unordered_dma(void **state)
{
    (void)state;
    stage_remote(SNIC_RING_QUIESCENT, 0);
    must_pass("remote quiescent, two reads");
    must_fail("remote quiescent", weak("ring_publish", EXPLORE_ADD, -1));
    stage.no_fence = 1;
    must_fail_stage("remote quiescent, P and T unordered");
    stage_remote(SNIC_RING_QUIESCENT, SNIC_RING_ORDERED_READ);
    stage.ordered_read = 1;
    must_pass("remote quiescent, one ordered read");
    stage.ordered_read = 0;
    must_fail_stage("remote quiescent, one read that is not ordered");
    stage_remote(SNIC_RING_COMMIT, 0);
    stage.looks = 1;
    must_pass("remote commit");
    must_fail("remote commit", weak("ring_publish", EXPLORE_STORE, -1));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_explore_commit_two_producers),
        cmocka_unit_test(test_ring_explore_quiescent_two_producers),
        cmocka_unit_test(test_ring_explore_short_pushes),
        cmocka_unit_test(test_ring_explore_runs),
        cmocka_unit_test(test_ring_explore_short_push_hands_on_the_head),
        cmocka_unit_test(test_ring_explore_full_ring_place_is_reused_after_reads),
        cmocka_unit_test(test_ring_explore_consumer_sleep_no_lost_wake_up),
        cmocka_unit_test(test_ring_explore_producer_wait_no_lost_wake_up),
        cmocka_unit_test(test_ring_explore_remote_unordered_dma),
    };

#if defined(__SANITIZE_THREAD__)
    support_skip_program("the explorer runs in one thread");
#endif
    return SUPPORT_MAIN(argc, argv, tests);
}
