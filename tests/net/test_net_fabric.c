/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Switches of the simulated network: ways by hash, queues, marks, telemetry, states. */
#include "test_net_util.h"

static struct snic_net_fabric_stats fabric_stats(void)
{
    struct snic_net_fabric_stats s;
    snic_net_fabric_get_stats(c.f, &s);
    return s;
}

/* The spine that a way passes, if it is one out of node @side + 1. */
static uint32_t spine_of(uint32_t side, const uint32_t way[4])
{
    for (uint32_t t = 0; t < TORS; t++) {
        for (uint32_t s = 0; s < SPINES; s++) {
            if (c.rise[side][t][s] == way[1])
                return s;
        }
    }
    fail_msg("a way over no spine");
    return 0;
}

/* Flows would all take one way, or a way and its return be one: no port would be worth a try. */
static void test_net_fabric_ports_choose_ways_both_directions_apart(void **state)
{
    const struct snic_net_link l = {.delay_min_ns = US, .delay_max_ns = US};
    uint32_t out[SPINES] = {0}, back[SPINES] = {0}, same = 0, tors = 0;
    (void)state;
    clos_open(support_seed(), &l);
    for (uint32_t p = 0; p < PORTS; p++) {
        uint32_t a[4], b[4], again[4], other[4];
        ways(p, a, b);
        ways(p, again, other);
        assert_memory_equal(a, again, sizeof(a));
        out[spine_of(0, a)]++;
        back[spine_of(1, b)]++;
        same += spine_of(0, a) == spine_of(1, b);
        tors += a[0] == c.up[0][0];
    }
    for (uint32_t s = 0; s < SPINES; s++) {
        assert_in_range(out[s], 4, 32);
        assert_in_range(back[s], 4, 32);
    }
    assert_in_range(same, 4, 32); /* a quarter, not all */
    assert_in_range(tors, 16, 48);
    clos_close();
}

/* What is sent would not arrive, or not by the stated way, or not in its time. */
static void test_net_fabric_datagrams_take_the_configured_path(void **state)
{
    const struct snic_net_link l = {.delay_min_ns = 3 * US, .delay_max_ns = 3 * US};
    (void)state;
    clos_open(support_seed(), &l);
    for (uint32_t p = 0; p < PORTS; p++) {
        uint32_t a[4], b[4];
        uint64_t before[4], start = snic_world_now(c.w);
        ways(p, a, b);
        for (uint32_t i = 0; i < 4; i++)
            before[i] = wire_stats(a[i]).datagrams;
        send_one(0, p, 100, 0);
        run_for(MS);
        assert_int_equal(c.got[1].messages, p + 1);
        assert_int_equal(c.got[1].last_ns - start, 12 * US);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(wire_stats(a[i]).datagrams, before[i] + 1);
    }
    send_one(1, 0, 100, 0);
    run_for(MS);
    assert_int_equal(c.got[0].messages, 1);
    assert_int_equal(c.got[1].wrong_bits, 0);
    assert_int_equal(fabric_stats().datagrams, PORTS + 1);
    assert_int_equal(fabric_stats().delivered, PORTS + 1);
    clos_close();
}

/* The same hash everywhere: all flows of a ToR would take the same spine. */
static void test_net_fabric_same_seed_polarized_other_seeds_not(void **state)
{
    const struct snic_net_link l = {.delay_min_ns = US, .delay_max_ns = US};
    (void)state;
    for (int same = 0; same < 2; same++) {
        uint32_t used = 0, a[4], b[4];
        clos_open(support_seed(), &l);
        for (uint32_t t = 0; t < TORS && same; t++) {
            assert_int_equal(snic_net_fabric_hash(c.f, c.tor[0][t], 7), 0);
            assert_int_equal(snic_net_fabric_hash(c.f, 1, 7), 0);
        }
        for (uint32_t p = 0; p < PORTS; p++) {
            ways(p, a, b);
            if (a[0] == c.up[0][0])
                used |= 1u << spine_of(0, a);
        }
        if (same) /* even numbers only, or odd ones */
            assert_true(used == 5 || used == 10);
        else
            assert_int_equal(used, 15);
        clos_close();
    }
}

/* A port's rate and queue would not be kept: no congestion, or the wrong one is lost. */
static void test_net_fabric_rate_queue_and_mark_kept(void **state)
{
    const struct snic_net_link l = {.delay_min_ns = US, .delay_max_ns = US};
    const struct snic_net_link slow = {.delay_min_ns = US,
                                       .delay_max_ns = US,
                                       .bytes_per_s = 1000000,
                                       .queue_bytes = 10000,
                                       .mark_bytes = 4500};
    uint32_t a[4], b[4];
    (void)state;
    clos_open(support_seed(), &l);
    ways(0, a, b);
    assert_int_equal(snic_net_fabric_wire_set(c.f, a[2], &slow), 0);
    uint64_t start = snic_world_now(c.w);
    for (uint32_t i = 0; i < 12; i++)
        send_one(0, 0, 1000, 1 + i % 2);
    send_one(0, 0, 1000, 0);
    run_for(100 * MS);
    struct snic_net_wire_stats s = wire_stats(a[2]);
    assert_int_equal(c.got[1].messages, 10);
    assert_int_equal(s.datagrams, 10);
    assert_int_equal(s.lost_queue, 3);
    assert_int_equal(s.queue_high, 10000);
    assert_int_equal(s.queue_bytes, 0);
    assert_int_equal(s.marked, 5); /* those that found 5000 ... 9000 */
    assert_int_equal(c.got[1].ecn[3], 5);
    assert_in_range(c.got[1].last_ns - start, 10 * MS + 4 * US, 10 * MS + 5 * US);
    assert_int_equal(c.got[1].overtakes, 0);
    clos_close();
}

/* Two flows into one port, which is what incast is: both wait, and not those elsewhere. */
static void test_net_fabric_flows_share_a_port(void **state)
{
    const struct snic_net_link l = {
        .delay_min_ns = US, .delay_max_ns = US, .bytes_per_s = 1000000000};
    const struct snic_net_link slow = {
        .delay_min_ns = US, .delay_max_ns = US, .bytes_per_s = 1000000};
    (void)state;
    clos_open(support_seed(), &l);
    for (uint32_t t = 0; t < TORS; t++)
        assert_int_equal(snic_net_fabric_wire_set(c.f, c.down[1][t], &slow), 0);
    uint64_t start = snic_world_now(c.w);
    uint32_t by[TORS] = {0}, a[4], b[4];
    for (uint32_t p = 0; p < 20; p++) {
        ways(p, a, b);
        by[a[3] == c.down[1][1]]++;
        send_one(0, p, 1000, 0);
    }
    run_for(100 * MS);
    uint64_t most = by[0] > by[1] ? by[0] : by[1];
    assert_int_equal(c.got[1].messages, 20);
    assert_in_range(c.got[1].last_ns - start, most * MS, most * MS + 30 * US);
    clos_close();
}

struct stamp {
    uint32_t hops;
    struct snic_net_hop hop[8];
};

static void stamp(void *ctx, const struct snic_net_hop *h, unsigned char *data, uint32_t size)
{
    struct stamp *s = ctx;
    assert_true(size >= 64 && h->now_ns == snic_world_now(c.w));
    if (s->hops < SNIC_COUNTOF(s->hop))
        s->hop[s->hops] = *h;
    s->hops++;
    data[4]++; /* the datagram counts its hops */
    snic_put_le32(data + 8 + 4 * data[4], (uint32_t)h->queue_bytes);
}

/* Telemetry would be of another port, another moment, or not in the datagram. */
static void test_net_fabric_hop_reports_rate_queue_and_bytes(void **state)
{
    const struct snic_net_link l = {
        .delay_min_ns = US, .delay_max_ns = US, .bytes_per_s = 100000000};
    struct stamp s;
    uint32_t a[4], b[4];
    (void)state;
    memset(&s, 0, sizeof(s));
    clos_open(support_seed(), &l);
    const struct snic_net_link slow = {
        .delay_min_ns = US, .delay_max_ns = US, .bytes_per_s = 1000000};
    c.stamped = 1;
    snic_net_fabric_on_hop(c.f, stamp, &s);
    ways(0, a, b);
    assert_int_equal(snic_net_fabric_wire_set(c.f, a[1], &slow), 0);
    uint64_t start = snic_world_now(c.w);
    send_one(0, 0, 1000, 0);
    run_for(MS / 2);
    send_one(0, 0, 500, 0); /* waits behind it while it is sent */
    run_for(MS);
    /* node: 10 us and 1 us; ToR: 1 ms; then spine and ToR, each 10 us and 1 us */
    assert_in_range(s.hops, 3, 6);
    assert_int_equal(s.hop[0].place, c.tor[0][a[0] == c.up[0][1]]);
    assert_int_equal(s.hop[0].wire, a[1]);
    assert_int_equal(s.hop[0].now_ns, start + 11 * US + MS);
    assert_int_equal(s.hop[0].bytes_per_s, 1000000);
    assert_int_equal(s.hop[0].tx_bytes, 1000);
    assert_int_equal(s.hop[0].queue_bytes, 500);
    assert_int_equal(s.hop[1].wire, a[2]);
    assert_int_equal(s.hop[1].tx_bytes, 1000);
    assert_int_equal(s.hop[2].wire, a[3]);
    assert_int_equal(c.got[1].newest[4], 3);
    assert_int_equal(snic_get_le32(c.got[1].newest + 12), 500);
    run_for(10 * MS);
    assert_int_equal(s.hops, 6);
    assert_int_equal(s.hop[3].tx_bytes, 1500);
    assert_int_equal(s.hop[3].queue_bytes, 0);
    clos_close();
}

/* A dead switch must swallow its share for ever; one that is down until routes avoid it. */
static void test_net_fabric_dead_silent_down_avoided(void **state)
{
    const struct snic_net_link l = {.delay_min_ns = US, .delay_max_ns = US};
    uint32_t out[4], back[4], at = 0, other = 0;
    (void)state;
    clos_open(support_seed(), &l);
    for (uint32_t p = 0; p < PORTS; p++) {
        ways(p, out, back);
        at += spine_of(0, out) == 2;
        other += out[0] == c.up[0][1];
    }
    assert_int_equal(arrivals(), PORTS);
    assert_int_equal(snic_net_fabric_state(c.f, c.spine[2], SNIC_NET_DEAD), 0);
    assert_int_equal(arrivals(), PORTS - at);
    run_for(100 * MS);
    assert_int_equal(arrivals(), PORTS - at);
    assert_int_equal(snic_net_fabric_state(c.f, c.spine[2], SNIC_NET_DOWN), 0);
    assert_int_equal(arrivals(), PORTS - at);
    run_for(MS);
    assert_int_equal(arrivals(), PORTS);
    assert_int_equal(snic_net_fabric_state(c.f, c.spine[2], SNIC_NET_UP), 0);
    run_for(MS);
    assert_int_equal(arrivals(), PORTS);
    ways(0, out, back);
    assert_int_equal(snic_net_fabric_state(c.f, c.up[0][1], SNIC_NET_DEAD), 0);
    assert_int_equal(arrivals(), PORTS - other);
    assert_int_equal(wire_stats(c.up[0][1]).lost_state, other);
    assert_int_equal(snic_net_fabric_state(c.f, c.up[0][1], SNIC_NET_DOWN), 0);
    assert_int_equal(snic_net_fabric_state(c.f, c.up[0][0], SNIC_NET_DOWN), 0);
    run_for(2 * MS);
    uint64_t none = fabric_stats().lost_route;
    assert_int_equal(arrivals(), 0);
    assert_int_equal(fabric_stats().lost_route, none + PORTS);
    assert_int_equal(snic_net_fabric_way(c.f, 1, 1000, 2, 2000, out, 4), SNIC_EHOSTUNREACH);
    clos_close();
}

/* A sleeping node must not stop the switches, and have its datagrams when it wakes. */
static void test_net_fabric_node_paused_switches_go_on(void **state)
{
    const struct snic_net_link l = {.delay_min_ns = US, .delay_max_ns = US};
    (void)state;
    clos_open(support_seed(), &l);
    snic_world_pause(c.w, 2, 1);
    assert_int_equal(arrivals(), 0);
    assert_int_equal(fabric_stats().delivered, PORTS);
    snic_world_pause(c.w, 2, 0);
    run_for(MS);
    assert_int_equal(c.got[1].messages, PORTS);
    snic_net_fabric_partition(c.f, 1, 2, 1);
    assert_int_equal(arrivals(), 0);
    snic_net_fabric_partition(c.f, 1, 2, 0);
    for (uint32_t p = 0; p < PORTS; p++)
        send_one(0, p, 100, 0); /* closed while they are among the switches */
    clos_close();
}

/* A run with all kinds of traffic and faults; a hash of what arrived and when. */
static uint64_t random_run(uint64_t seed)
{
    const struct snic_net_link l = {.delay_min_ns = US,
                                    .delay_max_ns = 9 * US,
                                    .bytes_per_s = 100000000,
                                    .queue_bytes = 30000,
                                    .mark_bytes = 5000,
                                    .loss_ppm = 10000,
                                    .duplicate_ppm = 10000,
                                    .corrupt_ppm = 10000,
                                    .reorder_ppm = 10000,
                                    .reorder_ns = 50 * US};
    struct snic_net_fault x;
    struct snic_rng r;
    snic_rng_init(&r, seed);
    clos_open(seed, &l);
    snic_net_fault_init(&x);
    x.buckets = 7;
    x.chance_ppm = 500000;
    (void)add_fault(&x);
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t from = (uint32_t)snic_rng_below(&r, 2);
        uint32_t port = (uint32_t)snic_rng_below(&r, PORTS);
        send_one(from, port, 64 + (uint32_t)snic_rng_below(&r, 4000), 1);
        if (snic_rng_below(&r, 50) == 0) {
            uint32_t spine = c.spine[snic_rng_below(&r, SPINES)];
            enum snic_net_state to = (enum snic_net_state)snic_rng_below(&r, 3);
            assert_int_equal(snic_net_fabric_state(c.f, spine, to), 0);
        }
        run_for(snic_rng_below(&r, 20 * US));
    }
    run_for(10 * MS);
    assert_true(c.got[0].messages > 100 && c.got[1].messages > 100);
    assert_true(c.got[0].ecn[3] > 0);
    uint64_t queued = 0, entered = 0;
    for (uint32_t i = 0; i < 4 * TORS * (SPINES + 1); i++) {
        queued += wire_stats(i).queue_bytes;
        entered += wire_stats(i).datagrams;
    }
    assert_int_equal(queued, 0);
    assert_true(entered > 1000);
    uint64_t hash = c.got[0].hash ^ c.got[1].hash * 3;
    clos_close();
    return hash;
}

/* A failing seed would not fail again. */
static void test_net_fabric_same_seed_same_run(void **state)
{
    uint64_t first = random_run(support_seed());
    (void)state;
    assert_int_equal(random_run(support_seed()), first);
    assert_int_not_equal(random_run(support_seed() + 1), first);
}

static int refused_wire(uint32_t from, uint32_t to, const struct snic_net_link *l)
{
    uint32_t id = 77;
    int r = snic_net_fabric_wire(c.f, from, to, l, &id);
    assert_int_equal(id, 77);
    return r;
}

/* Nonsense must be noticed and change nothing. */
static void test_net_fabric_bad_arguments_refused(void **state)
{
    const struct snic_net_link l = {.delay_min_ns = US, .delay_max_ns = US};
    const struct snic_net_link wrong = {.delay_min_ns = 2, .delay_max_ns = 1};
    struct snic_net_wire_stats s;
    struct snic_net_fault x;
    uint32_t id = 77;
    (void)state;
    clos_open(support_seed(), &l);
    assert_int_equal(refused_wire(1, 2, &l), SNIC_EINVAL);
    assert_int_equal(refused_wire(c.spine[0], c.spine[0], &l), SNIC_EINVAL);
    assert_int_equal(refused_wire(1, c.spine[0], &wrong), SNIC_EINVAL);
    assert_int_equal(refused_wire(1, SNIC_NET_SWITCH + 500, &l), SNIC_ENOENT);
    assert_int_equal(refused_wire(SNIC_NET_SWITCH + 500, 1, &l), SNIC_ENOENT);
    assert_int_equal(snic_net_fabric_wire_set(c.f, 1000, &l), SNIC_ENOENT);
    assert_int_equal(snic_net_fabric_wire_set(c.f, 0, &wrong), SNIC_EINVAL);
    assert_int_equal(snic_net_fabric_wire_stats(c.f, 1000, &s), SNIC_ENOENT);
    assert_int_equal(snic_net_fabric_state(c.f, 1000, SNIC_NET_DOWN), SNIC_ENOENT);
    assert_int_equal(snic_net_fabric_state(c.f, SNIC_NET_SWITCH + 500, SNIC_NET_DOWN), SNIC_ENOENT);
    assert_int_equal(snic_net_fabric_state(c.f, 0, (enum snic_net_state)3), SNIC_EINVAL);
    assert_int_equal(snic_net_fabric_hash(c.f, 9, 1), SNIC_ENOENT);
    assert_int_equal(snic_net_fabric_way(c.f, 1, 1, 9, 1, &id, 1), SNIC_EHOSTUNREACH);
    assert_int_equal(snic_net_fabric_way(c.f, 9, 1, 1, 1, &id, 1), SNIC_EHOSTUNREACH);
    snic_net_fault_init(&x);
    x.action = 5;
    assert_int_equal(snic_net_fabric_fault(c.f, &x, &id), SNIC_EINVAL);
    snic_net_fault_init(&x);
    x.buckets = 4;
    x.bucket = 4;
    assert_int_equal(snic_net_fabric_fault(c.f, &x, &id), SNIC_EINVAL);
    snic_net_fault_init(&x);
    x.chance_ppm = 1000001;
    assert_int_equal(snic_net_fabric_fault(c.f, &x, &id), SNIC_EINVAL);
    snic_net_fault_init(&x);
    x.port_value = 1;
    assert_int_equal(snic_net_fabric_fault(c.f, &x, &id), SNIC_EINVAL);
    assert_int_equal(id, 77);
    assert_int_equal(snic_net_fabric_fault_set(c.f, 0, 1), SNIC_ENOENT);
    assert_int_equal(snic_net_fabric_fault_hits(c.f, 0), 0);
    snic_net_fault_init(&x);
    for (uint32_t i = 0; i < 256; i++)
        assert_int_equal(add_fault(&x), i);
    assert_int_equal(snic_net_fabric_fault(c.f, &x, &id), SNIC_ENOSPC);
    clos_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_net_fabric_ports_choose_ways_both_directions_apart),
        cmocka_unit_test(test_net_fabric_datagrams_take_the_configured_path),
        cmocka_unit_test(test_net_fabric_same_seed_polarized_other_seeds_not),
        cmocka_unit_test(test_net_fabric_rate_queue_and_mark_kept),
        cmocka_unit_test(test_net_fabric_flows_share_a_port),
        cmocka_unit_test(test_net_fabric_hop_reports_rate_queue_and_bytes),
        cmocka_unit_test(test_net_fabric_dead_silent_down_avoided),
        cmocka_unit_test(test_net_fabric_node_paused_switches_go_on),
        cmocka_unit_test(test_net_fabric_same_seed_same_run),
        cmocka_unit_test(test_net_fabric_bad_arguments_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
