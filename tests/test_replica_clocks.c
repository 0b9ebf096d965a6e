/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Random lives of whole clusters (sim/swarm.h) whose nodes each have a clock of their own: its zero
 * is anywhere, it is fast or slow by all that member.h's drift_ppm allows, and nothing may break.
 * With clocks that are much worse something must (H34): else leases would not be seen to matter.
 *
 *     test_replica_clocks --seed 17 one         one life, told
 *
 * The node's sources are compiled once more here, with those clocks.
 */
#include <stdint.h>

static uint64_t clocks_local(uint32_t node, uint64_t world_ns);
static uint64_t clocks_world(uint32_t node, uint64_t local_ns);
#define SNIC_REPLICA__CLOCK(r) clocks_local((r)->o.node, snic_loop_clock((r)->o.loop))
#define SNIC_REPLICA__ALARM(r, at) clocks_world((r)->o.node, at)

#include "replica/client.c"
#include "replica/link.c"
#include "replica/log.c"
#include "replica/node.c"
#include "replica/replica.c"
#include "replica/value.c"
#include "replica/wire.c"

#include "support.h"
#include "swarm.h"

#include <stdio.h>

enum { MILLION = 1000000, DRIFT = 500 }; /* ppm, member.h's default */

static struct clocks_node {
    uint64_t zero;
    uint64_t rate; /* ns of its own in a ms of the world's */
} clocks[CLUSTER_NODES];

static uint64_t clocks_local(uint32_t node, uint64_t world_ns)
{
    return clocks[node].zero + world_ns / MILLION * clocks[node].rate +
           world_ns % MILLION * clocks[node].rate / MILLION;
}

/* The first time of the world at which it shows that. */
static uint64_t clocks_world(uint32_t node, uint64_t local_ns)
{
    if (local_ns == SNIC_NEVER || local_ns <= clocks[node].zero)
        return local_ns == SNIC_NEVER ? SNIC_NEVER : 0;
    uint64_t x = local_ns - clocks[node].zero;
    uint64_t at = x / clocks[node].rate * MILLION +
                  (x % clocks[node].rate * MILLION + clocks[node].rate - 1) / clocks[node].rate;
    while (clocks_local(node, at) < local_ns)
        at++;
    return at;
}

static void clocks_choose(uint64_t seed, uint64_t drift)
{
    struct snic_rng rng;

    snic_rng_init(&rng, seed ^ 0xc10c);
    for (uint32_t i = 0; i < CLUSTER_NODES; i++) {
        clocks[i].zero = snic_rng_below(&rng, UINT64_C(3600000000000));
        clocks[i].rate = MILLION - drift + snic_rng_below(&rng, 2) * 2 * drift;
    }
}

static const char *life(uint64_t seed, uint64_t drift, struct swarm_result *r)
{
    struct swarm_opts o = {.seed = seed, .search = seed % 4 == 0};

    o.faults_ns = (UINT64_C(8000) >> (seed + 1) % 3) * CLUSTER_MS;
    clocks_choose(seed, drift);
    swarm_run(&o, r);
    return r->failure;
}

static void test_replica_clocks_apart_nothing_broken(void **state)
{
    uint64_t count = support_rounds(100, 12500), events = 0, deaths = 0;
    struct swarm_result r;

    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t seed = support_seed() + i;

        if (life(seed, DRIFT, &r) != NULL)
            fail_msg("--seed %llu one: %s", (unsigned long long)seed, r.failure);
        events += r.events;
        deaths += r.deaths;
    }
    printf("%llu lives: clocks apart, %llu engine events, %llu deaths\n", (unsigned long long)count,
           (unsigned long long)events, (unsigned long long)deaths);
}

/* Four hundred times worse than the members are told: two leases overlap, and somebody reads what
 * is old.
 */
static void test_replica_clocks_far_worse_found(void **state)
{
    struct swarm_result r;

    (void)state;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        if (life(seed, 400 * DRIFT, &r) == NULL || strncmp(r.failure, "liveness", 8) == 0)
            continue;
        printf("seed %llu: %s\n", (unsigned long long)seed, r.failure);
        return;
    }
    fail_msg("nothing was found");
}

static void test_replica_clocks_one_life_told(void **state)
{
    struct swarm_result r;

    (void)state;
    if (life(support_seed(), DRIFT, &r) != NULL)
        fail_msg("%s", r.failure);
    for (uint32_t i = 0; i < CLUSTER_NODES; i++)
        printf("node %u: zero %llu, %llu ns in a ms\n", i, (unsigned long long)clocks[i].zero,
               (unsigned long long)clocks[i].rate);
}

/* What the others rest on: an alarm is neither early nor late. */
static void test_replica_clocks_alarm_exact(void **state)
{
    struct snic_rng rng;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint32_t i = 0; i < 20000; i++) {
        uint64_t local, at;

        if (i % 100 == 0)
            clocks_choose(i, i % 200 == 0 ? DRIFT : 400 * DRIFT);
        local = clocks[i % CLUSTER_NODES].zero + 1 + snic_rng_below(&rng, UINT64_C(1) << 40);
        at = clocks_world(i % CLUSTER_NODES, local);
        assert_true(clocks_local(i % CLUSTER_NODES, at) >= local);
        assert_true(at == 0 || clocks_local(i % CLUSTER_NODES, at - 1) < local);
    }
    assert_true(clocks_world(0, SNIC_NEVER) == SNIC_NEVER && clocks_world(0, 1) == 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_clocks_alarm_exact),
        cmocka_unit_test(test_replica_clocks_apart_nothing_broken),
        cmocka_unit_test(test_replica_clocks_far_worse_found),
        cmocka_unit_test(test_replica_clocks_one_life_told),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
