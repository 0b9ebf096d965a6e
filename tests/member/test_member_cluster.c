/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a cluster of member engines does about one thing at a time: nodes die, are slow, come back,
 * lose their files; two nodes with and without a witness; restarts. In simulated time, with the
 * default options; all checks of test_member_sim.h hold throughout.
 */
#include "test_member_sim.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim sim;

static void until(uint64_t ms)
{
    uint64_t end = sim.now + ms * SIM_MS;
    /* What comes next may come after the end: time stops short of it. */
    while (sim.failure == NULL && sim.now < end) {
        sim_once(&sim);
        sim_check_leases(&sim);
    }
    if (sim.failure != NULL)
        printf("%s\n", sim.failure);
    assert_null(sim.failure);
}

static uint64_t another; /* seed; 0: the run's */

static uint64_t slow_ns;  /* 0: a slow log evicts no node */
static uint32_t min_full; /* min_full; 0: the default */

static void start(uint32_t nodes, uint32_t witness)
{
    struct sim_opts o = {
        .nodes = nodes, .witness = witness, .min_full = min_full, .slow_ns = slow_ns, .calm = 1};
    o.seed = another != 0 ? another : support_seed();
    o.trace = getenv("SIM_TRACE") != NULL;
    sim_start(&sim, &o);
    until(2000);
    assert_true(sim_is_well(&sim));
}

static void kill(uint32_t i)
{
    sim_down(&sim, i);
    sim.nodes[i].up_at = SNIC_NEVER;
}

static void revive(uint32_t i, int good)
{
    sim.nodes[i].good = good;
    sim.nodes[i].up_at = sim.now;
}

static struct snic_member_status status(uint32_t i)
{
    struct snic_member_status st;
    snic_member_get_status(sim.nodes[i].m, &st);
    return st;
}

static int serves(uint32_t i)
{
    return sim.nodes[i].up && sim.nodes[i].lease > sim_local(&sim.nodes[i], sim.now);
}

static void override(uint32_t i, uint32_t dead, uint32_t flags)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_OVERRIDE, .flags = flags};
    ev.mask = (uint16_t)dead;
    sim.dead = (uint16_t)dead;
    sim_step(&sim, i, &ev);
}

static void cut(uint32_t a, uint32_t b, int yes)
{
    sim.cut[a][b] = sim.cut[b][a] = (uint8_t)yes;
}

/* One node is a cluster, too. */
static void test_member_cluster_of_one_serves(void **state)
{
    (void)state;
    start(1, 0);
    assert_true(serves(0));
    kill(0);
    until(100);
    revive(0, 1);
    until(1000);
    assert_true(serves(0));
}

/* The default options' fail-over: out within a second, the others never stop. */
static void test_member_cluster_dead_node_out_in_a_second_and_back(void **state)
{
    (void)state;
    start(3, 0);
    uint64_t writes = sim.acked;
    kill(2);
    until(1000);
    assert_int_equal(sim.nodes[0].view.full, 3);
    assert_true(serves(0) && serves(1));
    until(500);
    assert_true(sim.acked > writes);
    revive(2, 1);
    until(2000);
    assert_true(sim_is_well(&sim));
    assert_int_equal(sim.nodes[0].view.full, 7);
    assert_int_equal(sim.restarts, 1); /* the first view only */
}

/* A reboot that is faster than any detection is no secret: out, learner, FULL. */
static void test_member_cluster_fast_reboot_is_seen(void **state)
{
    (void)state;
    start(3, 0);
    uint32_t before = sim.newest;
    kill(1);
    revive(1, 1);
    until(2500);
    assert_true(sim_is_well(&sim));
    assert_true(sim.newest >= before + 3);
    assert_true(sim.nodes[1].view.incarnation[1] > 1001);
}

/* A lone node of three cannot serve when its lease has run out; the others continue. */
static void test_member_cluster_cut_off_node_stops(void **state)
{
    (void)state;
    start(3, 0);
    cut(0, 1, 1);
    cut(0, 2, 1);
    until(450);
    assert_false(serves(0));
    until(1000);
    assert_int_equal(status(0).state, SNIC_MEMBER_NO_MAJORITY);
    assert_int_equal(sim.nodes[1].view.full, 6);
    assert_true(serves(1) && serves(2));
    cut(0, 1, 0);
    cut(0, 2, 0);
    until(2500);
    assert_true(sim_is_well(&sim));
}

/* A broken link between two of three: one of the two goes, and stays out until it is mended. */
static void test_member_cluster_broken_link_costs_one_node_once(void **state)
{
    (void)state;
    start(3, 0);
    cut(0, 1, 1);
    until(2000);
    uint32_t epoch = sim.newest;
    assert_int_equal(__builtin_popcount(sim.nodes[2].view.full), 2);
    until(5000);
    assert_int_equal(sim.newest, epoch); /* no coming and going */
    cut(0, 1, 0);
    until(2500);
    assert_true(sim_is_well(&sim));
}

/* A node whose log is slow and that is evicted for it: by option only. */
static void start_strict(uint32_t nodes, uint32_t witness, uint32_t floor)
{
    min_full = floor;
    slow_ns = 100 * SIM_MS;
    start(nodes, witness);
    min_full = 0;
    slow_ns = 0;
}

/* M4: a slow disk stalls writes, and evicts no node, however long it takes. */
static void test_member_cluster_slow_log_evicts_none(void **state)
{
    (void)state;
    start(3, 0);
    uint32_t epoch = sim.newest;
    sim_report(&sim, 0, SNIC_MEMBER_SLOW, 4);
    sim_report(&sim, 1, SNIC_MEMBER_SLOW, 4);
    until(6000);
    assert_int_equal(sim.newest, epoch);
    assert_true(serves(0) && serves(1) && serves(2));
}

/* Heartbeats of node 2 carry that a flush of its log has run for so long. */
static void flushes(uint32_t i, uint64_t ms)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_REPORT, .kind = SNIC_MEMBER_FLUSH};
    ev.ns = ms * SIM_MS;
    sim_step(&sim, i, &ev);
}

/*
 * M4: a node whose data path does not answer is evicted although its heartbeats arrive; not while
 * they carry that a flush runs: 400 ms, 1 s, 5 s.
 */
static void test_member_cluster_silent_data_path_evicted(void **state)
{
    static const uint64_t stalls[] = {400, 5000, 1000};
    (void)state;
    for (uint32_t k = another != 0 ? 2 : 0; k < 3; k++) {
        start(3, 0);
        uint32_t epoch = sim.newest;
        flushes(2, 60);
        until(60);
        sim_report(&sim, 0, SNIC_MEMBER_SILENT, 4);
        sim_report(&sim, 1, SNIC_MEMBER_SILENT, 4);
        for (uint64_t ms = 0; ms < stalls[k]; ms += 40) {
            flushes(2, 60 + ms);
            until(40);
        }
        assert_int_equal(sim.newest, epoch);
        flushes(2, 0); /* it ended, the records are acknowledged */
        sim_report(&sim, 0, SNIC_MEMBER_SILENT, 0);
        sim_report(&sim, 1, SNIC_MEMBER_SILENT, 0);
        until(2000);
        assert_int_equal(sim.newest, epoch);
    }
    sim_report(&sim, 0, SNIC_MEMBER_SILENT, 4);
    assert_int_equal(status(0).silent, 0);
    until(900);
    assert_int_equal(sim.nodes[0].view.full, 7);
    until(500);
    assert_int_equal(sim.nodes[0].view.full, 3);
}

/* H24: one slow node stalls every write of all, so it goes, if the option has it so. */
static void test_member_cluster_slow_node_evicted(void **state)
{
    (void)state;
    start_strict(3, 0, 0);
    sim_report(&sim, 0, SNIC_MEMBER_SLOW, 4);
    until(50);
    sim_report(&sim, 0, SNIC_MEMBER_SLOW, 0); /* only for a moment */
    until(500);
    assert_int_equal(sim.nodes[0].view.full, 7);
    sim_report(&sim, 0, SNIC_MEMBER_SLOW, 4);
    until(400);
    assert_int_equal(sim.nodes[0].view.full, 3);
    assert_false(serves(2));
    until(3000);
    assert_true(sim_is_well(&sim)); /* no node calls it slow any more */
}

/*
 * Node 0 reports both others as silent (mask 6: nodes 1 and 2), as one does whose own messages do
 * not arrive: no node is left out. Then it reports node 2 alone (mask 4), and node 2 is left out.
 */
static void test_member_cluster_most_called_slow_none_goes(void **state)
{
    (void)state;
    start(3, 0);
    uint32_t epoch = sim.newest;
    sim_report(&sim, 0, SNIC_MEMBER_SILENT, 6);
    until(3000);
    assert_int_equal(sim.nodes[0].view.full, 7);
    assert_int_equal(sim.newest, epoch);
    assert_true(serves(0) && serves(1) && serves(2));
    sim_report(&sim, 0, SNIC_MEMBER_SILENT, 4); /* the one is silent indeed */
    until(400);
    assert_int_equal(sim.nodes[0].view.full, 3);
}

/* Of two either goes, for the other can continue: with a witness, and where one copy is enough. */
static void test_member_cluster_of_two_slow_one_goes(void **state)
{
    (void)state;
    start_strict(3, 1, 0); /* node 2 */
    uint32_t epoch = sim.newest;
    sim_report(&sim, 1, SNIC_MEMBER_SLOW, 1);
    until(2000);
    assert_int_equal(sim.newest, epoch); /* not below min_full */
    start_strict(3, 1, 1);
    sim_report(&sim, 1, SNIC_MEMBER_SLOW, 1);
    until(400);
    assert_int_equal(sim.nodes[1].view.full, 2);
    assert_true(serves(1) && !serves(0));
}

/* Of four two may go, three may not; with the default floor of three only one. */
static void test_member_cluster_of_four_two_slow_go(void **state)
{
    (void)state;
    start_strict(4, 0, 0);
    sim_report(&sim, 0, SNIC_MEMBER_SLOW, 12);
    until(2000);
    assert_int_equal(sim.nodes[0].view.full, 15);
    start_strict(4, 0, 2);
    uint32_t epoch = sim.newest;
    sim_report(&sim, 0, SNIC_MEMBER_SLOW, 14);
    until(2000);
    assert_int_equal(sim.newest, epoch);
    sim_report(&sim, 0, SNIC_MEMBER_SLOW, 12);
    until(400);
    assert_int_equal(sim.nodes[0].view.full, 3);
}

/* The floor of writes is a majority of the nodes with data, and what the view has is reported. */
static void test_member_cluster_floor_is_reported(void **state)
{
    (void)state;
    start(3, 0);
    assert_int_equal(status(0).min_full, 2);
    assert_int_equal(status(0).writable, 1);
    kill(2);
    until(1500);
    assert_int_equal(sim.nodes[0].view.full, 3);
    assert_int_equal(status(0).writable, 1);
    kill(1);
    override(0, 6, 0);
    until(1500);
    assert_int_equal(sim.nodes[0].view.full, 1);
    assert_int_equal(status(0).writable, 0);
    assert_true(serves(0));
}

static void test_member_cluster_needed_epoch_comes(void **state)
{
    (void)state;
    start(3, 0);
    uint32_t before = sim.newest;
    sim_report(&sim, 1, SNIC_MEMBER_NEED_EPOCH, 0);
    until(500);
    assert_int_equal(sim.newest, before + 1);
    assert_true(sim_is_well(&sim));
}

/* H23: without a witness the survivor of two reports that it is stuck, until an operator acts. */
static void test_member_cluster_of_two_waits_for_the_operator(void **state)
{
    (void)state;
    start(2, 0);
    kill(1);
    until(3000);
    assert_false(serves(0));
    assert_int_equal(status(0).state, SNIC_MEMBER_NO_MAJORITY);
    override(0, 2, 0);
    until(1000);
    assert_true(serves(0));
    assert_int_equal(sim.nodes[0].view.full, 1);
}

/* With one, either continues without the other, and both without the witness. */
static void test_member_cluster_of_two_with_witness_goes_on(void **state)
{
    (void)state;
    start(3, 1); /* node 2 */
    kill(0);
    until(1000);
    assert_true(serves(1));
    assert_int_equal(sim.nodes[1].view.full, 2);
    assert_int_equal(status(2).state, SNIC_MEMBER_OUTSIDE);
    revive(0, 1);
    until(2500);
    assert_int_equal(sim.nodes[1].view.full, 3);
    /* Without the witness the two still serve. */
    kill(2);
    until(1500);
    assert_true(serves(0) && serves(1));
}

/* A node that lost everything holds data again, and has no vote. */
static void test_member_cluster_lost_disk_returns_without_vote(void **state)
{
    (void)state;
    start(3, 0);
    kill(2);
    sim.nodes[2].has_disk = 0;
    sim.nodes[2].lost = 1;
    sim.nodes[2].log = 0;
    until(1500);
    revive(2, 1);
    until(2500);
    assert_int_equal(sim.nodes[0].view.full, 7);
    assert_int_equal(status(2).vote, 0);
    kill(1); /* two live, one votes: not a majority */
    until(2000);
    assert_int_equal(sim.nodes[0].view.full, 7);
    assert_false(serves(0));
}

/* ---- Full restart ---- */

static void test_member_cluster_restart_takes_all_who_return(void **state)
{
    (void)state;
    start(3, 0);
    for (uint32_t i = 0; i < 3; i++)
        kill(i);
    until(100);
    for (uint32_t i = 0; i < 3; i++)
        revive(i, 1);
    until(1500);
    assert_true(sim_is_well(&sim));
    assert_int_equal(sim.restarts, 2);
    assert_int_equal(sim.nodes[0].view.restart, 1);
}

/* One does not return: the others wait restart_wait_ns, report for whom, and begin. */
static void test_member_cluster_restart_waits_then_goes_on_with_some(void **state)
{
    (void)state;
    start(3, 0);
    for (uint32_t i = 0; i < 3; i++)
        kill(i);
    revive(0, 1);
    revive(1, 1);
    until(4000);
    assert_int_equal(status(0).state, SNIC_MEMBER_RESTARTING);
    assert_int_equal(status(0).missing, 4);
    until(3000);
    assert_true(serves(0) && serves(1));
    assert_int_equal(sim.nodes[0].view.full, 3);
}

static uint32_t heartbeats_of(uint32_t i)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < sim.pending; k++) {
        const struct sim_event *e = &sim.events[k];
        count += e->kind == 1 && e->msg.src == i && e->msg.type == SNIC_MEMBER_HEARTBEAT;
    }
    return count;
}

/*
 * Messages of the dead one to its former peers arrive at those who are back. It reports that it
 * hears them: as they were, so this does not show that it outlived them. A view of it alone would
 * make what the others hold worthless.
 */
static void test_member_cluster_restart_words_of_the_dead_do_not_count(void **state)
{
    (void)state;
    start(3, 0);
    while (heartbeats_of(2) != 2)
        sim_once(&sim);
    for (uint32_t i = 0; i < 3; i++)
        kill(i);
    revive(0, 1);
    revive(1, 1);
    until(4000);
    assert_int_equal(sim.newest, 1);
    assert_int_equal(status(0).state, SNIC_MEMBER_RESTARTING);
    assert_int_equal(status(0).missing, 4);
    until(3000);
    assert_true(serves(0) && serves(1));
    assert_int_equal(sim.nodes[0].view.full, 3);
}

/* A cluster must not begin from a node that was not FULL at the end, however long it waits. */
static void test_member_cluster_restart_never_from_an_old_node(void **state)
{
    (void)state;
    start(3, 0);
    kill(2);
    until(1500);
    kill(1);
    until(100);
    kill(0);
    until(300); /* what it sent has arrived */
    revive(2, 1);
    revive(1, 1);
    until(8000);
    /* 1 was FULL of the newest view; 2 comes in as a learner of it. */
    assert_true(serves(1));
    assert_int_equal(sim.restarts, 2);
    start(3, 0);
    kill(2);
    until(1500);
    kill(1);
    until(1500); /* 0 alone has no majority: still {0, 1} */
    kill(0);
    revive(2, 1);
    until(8000);
    assert_false(serves(2));
}

/* A8: no node begins from a log whose end is in doubt, but on an operator's word. */
static void test_member_cluster_restart_suspect_logs_need_the_operator(void **state)
{
    (void)state;
    start(3, 0);
    for (uint32_t i = 0; i < 3; i++)
        kill(i);
    for (uint32_t i = 0; i < 3; i++)
        revive(i, 0);
    until(8000);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(status(i).state, SNIC_MEMBER_RESTARTING);
    assert_int_equal(status(0).missing, 7);
    /* One log turns out to be good: it is enough, the others learn from it. */
    struct snic_member_event ev = {.type = SNIC_MEMBER_REPORT, .kind = SNIC_MEMBER_LOG};
    ev.flags = SNIC_MEMBER_LOG_GOOD;
    uint32_t inc = status(1).incarnation;
    sim.good_at[1][inc / 8 % 8192] |= (uint8_t)(1u << inc % 8);
    sim_step(&sim, 1, &ev);
    until(3000);
    assert_true(sim_is_well(&sim));
    for (uint32_t i = 0; i < 3; i++)
        kill(i);
    for (uint32_t i = 0; i < 3; i++)
        revive(i, 0);
    until(2000);
    for (uint32_t i = 0; i < 3; i++) {
        inc = status(i).incarnation;
        sim.good_at[i][inc / 8 % 8192] |= (uint8_t)(1u << inc % 8);
    }
    override(0, 0, SNIC_MEMBER_ANY_LOG);
    until(2000);
    assert_true(sim_is_well(&sim));
}

/* ---- All of this with other seeds ---- */

static const struct CMUnitTest things[] = {
    cmocka_unit_test(test_member_cluster_of_one_serves),
    cmocka_unit_test(test_member_cluster_dead_node_out_in_a_second_and_back),
    cmocka_unit_test(test_member_cluster_fast_reboot_is_seen),
    cmocka_unit_test(test_member_cluster_cut_off_node_stops),
    cmocka_unit_test(test_member_cluster_broken_link_costs_one_node_once),
    cmocka_unit_test(test_member_cluster_slow_log_evicts_none),
    cmocka_unit_test(test_member_cluster_silent_data_path_evicted),
    cmocka_unit_test(test_member_cluster_slow_node_evicted),
    cmocka_unit_test(test_member_cluster_most_called_slow_none_goes),
    cmocka_unit_test(test_member_cluster_of_two_slow_one_goes),
    cmocka_unit_test(test_member_cluster_of_four_two_slow_go),
    cmocka_unit_test(test_member_cluster_floor_is_reported),
    cmocka_unit_test(test_member_cluster_needed_epoch_comes),
    cmocka_unit_test(test_member_cluster_of_two_waits_for_the_operator),
    cmocka_unit_test(test_member_cluster_of_two_with_witness_goes_on),
    cmocka_unit_test(test_member_cluster_lost_disk_returns_without_vote),
    cmocka_unit_test(test_member_cluster_restart_takes_all_who_return),
    cmocka_unit_test(test_member_cluster_restart_waits_then_goes_on_with_some),
    cmocka_unit_test(test_member_cluster_restart_words_of_the_dead_do_not_count),
    cmocka_unit_test(test_member_cluster_restart_never_from_an_old_node),
    cmocka_unit_test(test_member_cluster_restart_suspect_logs_need_the_operator),
};
enum { THINGS = sizeof(things) / sizeof(things[0]) };

static void all_things(uint64_t seed)
{
    another = seed;
    for (uint32_t i = 0; i < THINGS; i++)
        things[i].test_func(NULL);
    another = 0;
}

static int print_seed(void **state)
{
    (void)state;
    if (another != 0)
        printf("with --seed %llu\n", (unsigned long long)another);
    another = 0;
    return 0;
}

static void test_member_cluster_seeds_of_old_defects(void **state)
{
    static const uint64_t seeds[] = {
        UINT64_C(1795646957316275), /* a log that no test made suspect; words of the dead */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
        all_things(seeds[i]);
}

static void test_member_cluster_many_seeds(void **state)
{
    uint64_t count = support_rounds(100, 4000);
    (void)state;
    for (uint64_t i = 1; i <= count; i++)
        all_things(support_seed() * 1000003 + i);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[THINGS + 2];
    memcpy(tests, things, sizeof(things));
    tests[THINGS] = (struct CMUnitTest)cmocka_unit_test_teardown(
        test_member_cluster_seeds_of_old_defects, print_seed);
    tests[THINGS + 1] =
        (struct CMUnitTest)cmocka_unit_test_teardown(test_member_cluster_many_seeds, print_seed);
    return SUPPORT_MAIN(argc, argv, tests);
}
