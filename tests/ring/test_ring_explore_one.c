/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The request ring for one producer under the explorer, as test_ring_explore.c: no step is a
 * read-modify-write there, so all rests on the order of plain stores, and on repair where the
 * producer dies between them.
 */
#include "test_ring_stage.h"

static void stage_one(uint32_t discipline, uint64_t m)
{
    stage_ring_flags(SNIC_RING_REQUEST, discipline, 0, m, SNIC_RING_ONE_PRODUCER);
}

/* Two reservations, the second in one piece; the first one's batch. */
static uint64_t push_both_ways_body(void *copy)
{
    uint64_t pushed = push_two_body(copy);

    return pushed + push_typed(copy, 2);
}

/* Whatever is taken is written, and in order. */
static void test_ring_explore_one_producer(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        stage_one(d, 512);
        stage_producer(0, push_both_ways_body);
        stage_thread(take_body, &stage.consumer, sizeof(stage.consumer));
        stage.s.final = all_there;
        must_pass(d ? "one producer, quiescent" : "one producer, commit");
        must_fail("one producer", weak("ring_publish_alone", EXPLORE_STORE, -1));
    }
}

/* Over DMA that reorders what the header allows it to. */
static void test_ring_explore_one_producer_remote(void **state)
{
    (void)state;
    stage_one(SNIC_RING_QUIESCENT, 512);
    stage_remote_consumer(0);
    stage_producer(0, push_both_ways_body);
    stage_thread(fetch_body, &stage.consumer, sizeof(stage.consumer));
    stage.s.final = all_there;
    must_pass("one producer, remote quiescent");
    must_fail("one producer, remote quiescent", weak("ring_publish_alone", EXPLORE_STORE, -1));
    stage.no_fence = 1;
    must_pass("one producer, remote quiescent, P and T unordered");
    stage_one(SNIC_RING_COMMIT, 512);
    stage_remote_consumer(0);
    stage_producer(0, push_both_ways_body);
    stage_thread(fetch_body, &stage.consumer, sizeof(stage.consumer));
    stage.s.final = all_there;
    must_pass("one producer, remote commit");
    must_fail("one producer, remote commit", weak("ring_publish_alone", EXPLORE_STORE, -1));
}

/* The ring is full; the producer's record goes where the consumer still reads. */
static void test_ring_explore_one_producer_full_ring(void **state)
{
    uint32_t d, i;

    (void)state;
    for (d = 0; d < 2; d++) {
        unsigned char block[248] = {0};

        stage_one(d, 1024);
        for (i = 0; i < 4; i++) {
            snic_put_le64(block, PAYLOAD + i * 256);
            assert_int_equal(snic_ring_push(&stage.producer[0], 1, block, sizeof(block)), 0);
        }
        stage.looks = 1;
        stage_producer(0, push_both_ways_body);
        stage_thread(take_body, &stage.consumer, sizeof(stage.consumer));
        must_pass("one producer, reuse");
        must_fail("one producer, reuse", weak("ring_publish_head", EXPLORE_STORE, -1));
    }
}

/* ---- Death ---- */

static uint64_t dying_both_ways_body(void *copy)
{
    struct snic_ring_producer second;

    if (snic_ring_producer_attach(&second, stage.memory, stage.size, 2) != SNIC_EBUSY)
        explore_fail("a second producer was let in");
    (void)push_both_ways_body(copy);
    return EXPLORE_DEAD;
}

/* Repairs what the dead left in one call, and carries on as the next producer. */
static uint64_t succeed_body(void *copy)
{
    struct snic_ring_producer p;

    (void)copy;
    explore_join_dead(0);
    if (snic_ring_abandon(stage.memory, stage.size, 1) != 0)
        explore_fail("not repaired at once");
    if (snic_ring_producer_attach(&p, stage.memory, stage.size, 2) != 0)
        explore_fail("the successor is refused");
    return push_typed(&p, 3);
}

/* Reservations are whole or absent: 0, 2 or 3 records of the dead, then the successor's. */
static void succeeded(const uint64_t *outcome)
{
    uint64_t all = outcome[2] + drain();

    if (outcome[1] != 1)
        explore_fail("no room for the successor");
    if (all != 1 && all != 3 && all != 4)
        explore_fail("a record is lost or doubled");
    if (snic_ring_check(stage.memory, stage.size) != 0)
        explore_fail("check");
}

/* The producer dies before any of its steps, the consumer looks all the while; after one call of
 * the supervisor the next producer continues. */
static void test_ring_explore_one_producer_dies_and_is_succeeded(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        stage_one(d, 512);
        stage_producer(0, dying_both_ways_body);
        stage_thread(succeed_body, &stage.looks, sizeof(stage.looks));
        stage_thread(take_body, &stage.consumer, sizeof(stage.consumer));
        stage.s.killable = 1;
        stage.s.final = succeeded;
        must_pass(d ? "succession, quiescent" : "succession, commit");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_explore_one_producer),
        cmocka_unit_test(test_ring_explore_one_producer_remote),
        cmocka_unit_test(test_ring_explore_one_producer_full_ring),
        cmocka_unit_test(test_ring_explore_one_producer_dies_and_is_succeeded),
    };

#if defined(__SANITIZE_THREAD__)
    support_skip_program("the explorer runs in one thread");
#endif
    return SUPPORT_MAIN(argc, argv, tests);
}
