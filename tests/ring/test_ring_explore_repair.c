/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Repair after certified death under the explorer, as test_ring_explore.c: a producer dies before
 * any of its steps.
 */
#include "test_ring_stage.h"

/* ---- Repair ---- */

static uint64_t supervise_body(void *copy)
{
    int tries, r = SNIC_EAGAIN;

    (void)copy;
    explore_join_dead(0);
    for (tries = 0; r == SNIC_EAGAIN && tries < 2; tries++)
        r = snic_ring_abandon(stage.memory, stage.size, 1);
    if (r != 0 && r != SNIC_EAGAIN)
        explore_fail("abandon");
    return r == 0;
}

/* With the living done, one more call must repair; then all that was committed is there. */
static void repaired(const uint64_t *outcome)
{
    uint64_t left;

    if (outcome[2] == 0 && snic_ring_abandon(stage.memory, stage.size, 1) != 0)
        explore_fail("not repaired although everyone else is done");
    left = drain();
    if (left < outcome[1] || left > outcome[1] + 1)
        explore_fail("a living producer's record is lost, or padding delivered");
    if (snic_ring_check(stage.memory, stage.size) != 0)
        explore_fail("the ring stalls behind the dead");
}

static uint64_t push_twice_body(void *copy)
{
    uint64_t pushed = push_body(copy);

    return pushed + push_body(copy);
}

/* A death after the last step counts as one. */
static uint64_t dying_body(void *copy)
{
    (void)push_body(copy);
    return EXPLORE_DEAD;
}

/* A producer dies before any step; another is alive. Nothing living is abandoned, and the ring
 * keeps working. */
static void test_ring_explore_dead_producer_is_repaired(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        stage_ring(SNIC_RING_REQUEST, d, 2, 512);
        stage_producer(0, dying_body);
        stage_producer(1, push_twice_body);
        stage_thread(supervise_body, &stage.looks, sizeof(stage.looks));
        stage.s.killable = 1;
        stage.s.final = repaired;
        must_pass(d ? "repair quiescent" : "repair commit");
        must_fail("repair", weak("ring_intend", EXPLORE_STORE, -1));
        must_fail("repair", weak("ring_reserve_shared", EXPLORE_CAS, -1));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_explore_dead_producer_is_repaired),
    };

#if defined(__SANITIZE_THREAD__)
    support_skip_program("the explorer runs in one thread");
#endif
    return SUPPORT_MAIN(argc, argv, tests);
}
