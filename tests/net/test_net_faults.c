/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What happens to datagrams of the simulated network on the way: faults, and wires' options. */
#include "test_net_util.h"

/* A part of the flows is swallowed for ever, in one direction, and the others pass. */
static void test_net_faults_black_hole_by_flow_one_direction(void **state)
{
    const struct snic_net_link l = {.delay_min_ns = US, .delay_max_ns = US};
    struct snic_net_fault x;
    uint32_t through[PORTS], passed = 0;
    (void)state;
    clos_open(support_seed(), &l);
    snic_net_fault_init(&x);
    x.from = 1;
    x.place = 1; /* met once, at the first wire */
    x.buckets = 4;
    x.bucket = 1;
    x.seed = 0xdeadbeef;
    uint32_t hole = add_fault(&x);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t p = 0; p < PORTS; p++) {
            uint32_t before = c.got[1].messages;
            send_one(0, p, 100, 0);
            run_for(MS);
            uint32_t now = c.got[1].messages - before;
            assert_true(round == 0 || now == through[p]); /* always the same ones */
            through[p] = now;
            passed += round == 0 && now;
        }
    }
    assert_in_range(passed, PORTS / 2, PORTS - 6);
    assert_int_equal(snic_net_fabric_fault_hits(c.f, hole), 3 * (PORTS - passed));
    for (uint32_t p = 0; p < PORTS; p++)
        send_one(1, p, 100, 0);
    run_for(MS);
    assert_int_equal(c.got[0].messages, PORTS);
    assert_int_equal(snic_net_fabric_fault_set(c.f, hole, 0), 0);
    passed = c.got[1].messages;
    for (uint32_t p = 0; p < PORTS; p++)
        send_one(0, p, 100, 0);
    run_for(MS);
    assert_int_equal(c.got[1].messages, passed + PORTS);
    clos_close();
}

/* A hole for large packets only would hide from small probes, as it should. */
static void test_net_faults_hole_by_size_and_by_port(void **state)
{
    const struct snic_net_link l = {.delay_min_ns = US, .delay_max_ns = US};
    struct snic_net_link narrow = l;
    struct snic_net_fault x;
    uint32_t a[4], b[4];
    (void)state;
    clos_open(support_seed(), &l);
    ways(0, a, b);
    snic_net_fault_init(&x);
    x.wire = a[2];
    x.size_min = 1500;
    uint32_t big = add_fault(&x);
    send_one(0, 0, 1499, 0);
    send_one(0, 0, 1500, 0);
    run_for(MS);
    assert_int_equal(c.got[1].messages, 1);
    assert_int_equal(snic_net_fabric_fault_hits(c.f, big), 1);
    assert_int_equal(wire_stats(a[2]).lost_fault, 1);
    assert_int_equal(snic_net_fabric_fault_set(c.f, big, 0), 0);
    narrow.size_max = 1499;
    assert_int_equal(snic_net_fabric_wire_set(c.f, a[2], &narrow), 0);
    send_one(0, 0, 1499, 0);
    send_one(0, 0, 1500, 0);
    run_for(MS);
    assert_int_equal(c.got[1].messages, 2);
    assert_int_equal(wire_stats(a[2]).lost_size, 1);
    snic_net_fault_init(&x); /* one of four source ports */
    x.port_mask = 3;
    x.port_value = 1;
    x.place = 1;
    big = add_fault(&x);
    for (uint32_t p = 0; p < PORTS; p++)
        send_one(0, p, 100, 0);
    run_for(MS);
    assert_int_equal(c.got[1].messages, 2 + PORTS * 3 / 4);
    assert_int_equal(snic_net_fabric_fault_hits(c.f, big), PORTS / 4);
    clos_close();
}

/* Every action must happen, where it is asked for, as often as it is. */
static void test_net_faults_actions_counted(void **state)
{
    const struct snic_net_link l = {.delay_min_ns = US, .delay_max_ns = US};
    struct snic_net_fault x;
    (void)state;
    clos_open(support_seed(), &l);
    snic_net_fault_init(&x);
    x.place = 1;
    x.action = SNIC_NET_DUPLICATE;
    uint32_t id = add_fault(&x);
    send_one(0, 0, 200, 0);
    run_for(MS);
    assert_int_equal(c.got[1].messages, 2);
    assert_int_equal(snic_net_fabric_fault_set(c.f, id, 0), 0);
    x.action = SNIC_NET_CORRUPT;
    x.skip = 1;
    x.limit = 1;
    id = add_fault(&x); /* the second of three */
    for (int i = 0; i < 3; i++)
        send_one(0, 0, 16000, 0);
    run_for(MS);
    assert_int_equal(c.got[1].messages, 5);
    assert_int_equal(c.got[1].wrong_bits, 1);
    assert_int_equal(snic_net_fabric_fault_hits(c.f, id), 1);
    x.action = SNIC_NET_MARK;
    x.skip = 0;
    (void)add_fault(&x);
    send_one(0, 0, 200, 2);
    send_one(0, 0, 200, 2);
    run_for(MS);
    assert_int_equal(c.got[1].ecn[3], 1);
    assert_int_equal(c.got[1].ecn[2], 1);
    x.action = SNIC_NET_DELAY;
    x.delay_ns = 100 * US;
    x.limit = 0;
    x.skip = 0;
    x.chance_ppm = 300000;
    id = add_fault(&x);
    c.got[1].overtakes = 0;
    for (int i = 0; i < 100; i++) {
        send_one(0, 0, 200, 0);
        run_for(2 * US);
    }
    run_for(MS);
    assert_int_equal(c.got[1].messages, 107);
    assert_in_range(snic_net_fabric_fault_hits(c.f, id), 10, 60);
    assert_true(c.got[1].overtakes > 5);
    clos_close();
}

/* The options of a wire: what is asked for happens, and is counted at that wire. */
static void test_net_faults_wire_options_counted(void **state)
{
    const struct snic_net_link l = {.delay_min_ns = US, .delay_max_ns = US};
    struct snic_net_link bad = l;
    uint32_t a[4], b[4];
    (void)state;
    clos_open(support_seed(), &l);
    ways(0, a, b);
    bad.loss_ppm = 200000;
    bad.duplicate_ppm = 200000;
    bad.corrupt_ppm = 200000;
    bad.reorder_ppm = 200000;
    bad.reorder_ns = 50 * US;
    assert_int_equal(snic_net_fabric_wire_set(c.f, a[1], &bad), 0);
    for (int i = 0; i < 1000; i++) {
        send_one(0, 0, 16000, 0);
        run_for(2 * US);
    }
    run_for(MS);
    struct snic_net_wire_stats s = wire_stats(a[1]);
    assert_in_range(s.lost, 120, 280);
    assert_in_range(s.duplicated, 100, 250);
    assert_in_range(s.corrupted, 100, 250);
    assert_in_range(s.reordered, 100, 250);
    assert_int_equal(s.datagrams, 1000 - s.lost + s.duplicated);
    assert_int_equal(c.got[1].messages, s.datagrams);
    assert_int_equal(c.got[1].wrong_bits, s.corrupted);
    assert_true(c.got[1].overtakes > 50);
    assert_int_equal(wire_stats(a[2]).lost + wire_stats(a[2]).corrupted, 0);
    clos_close();
}

/* Faults are also for nodes that have no wires. */
static void test_net_faults_no_switches_faults_all_the_same(void **state)
{
    struct snic_net_fault x;
    (void)state;
    world(support_seed());
    sockets();
    snic_net_fault_init(&x);
    x.buckets = 4;
    uint32_t id = add_fault(&x);
    uint32_t passed = arrivals();
    assert_in_range(passed, PORTS / 2, PORTS - 6);
    assert_int_equal(snic_net_fabric_fault_hits(c.f, id), PORTS - passed);
    const struct snic_net_link l = {.delay_min_ns = US,
                                    .delay_max_ns = US,
                                    .bytes_per_s = 1000000,
                                    .mark_bytes = 1500,
                                    .size_max = 2000};
    assert_int_equal(snic_net_fabric_fault_set(c.f, id, 0), 0);
    assert_int_equal(snic_net_fabric_link(c.f, 1, 2, &l), 0);
    c.got[1].messages = 0;
    for (int i = 0; i < 4; i++)
        send_one(0, 0, 1000, 2);
    send_one(0, 0, 2001, 2);
    run_for(100 * MS);
    assert_int_equal(c.got[1].messages, 4);
    assert_int_equal(c.got[1].ecn[3], 2);
    clos_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_net_faults_black_hole_by_flow_one_direction),
        cmocka_unit_test(test_net_faults_hole_by_size_and_by_port),
        cmocka_unit_test(test_net_faults_actions_counted),
        cmocka_unit_test(test_net_faults_wire_options_counted),
        cmocka_unit_test(test_net_faults_no_switches_faults_all_the_same),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
