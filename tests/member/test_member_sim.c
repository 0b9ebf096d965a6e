/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Clusters in simulated time under all faults; see test_member_sim.h for what is checked. */
#include "test_member_sim.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>

static struct sim sim;

/* Every promise of the header, under swarms of faults; the seed of a failure is printed. */
static void test_member_sim_swarm_is_safe_and_recovers(void **state)
{
    uint64_t count = support_rounds(600, 100000);
    uint64_t steps = 0, epochs = 0, restarts = 0, acked = 0, gone = 0, changed = 0;
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        struct sim_opts o = {.seed = support_seed() * 1000003 + i};
        const char *why = sim_run(&sim, &o);
        steps += sim.steps;
        epochs += sim.newest;
        restarts += sim.restarts;
        acked += sim.acked;
        gone += sim.gone;
        changed += sim.changed;
        if (why != NULL) {
            printf("seed %llu, at %llu: %s\n", (unsigned long long)o.seed,
                   (unsigned long long)sim.now, why);
            fail();
        }
    }
    printf("%llu seeds, %llu steps, %llu epochs, %llu of them restarts, %llu other configurations, "
           "%llu writes; %llu ended without a disk that held all\n",
           (unsigned long long)count, (unsigned long long)steps, (unsigned long long)epochs,
           (unsigned long long)restarts, (unsigned long long)changed, (unsigned long long)acked,
           (unsigned long long)gone);
}

/*
 * The same seed gives the same actions, at the same times, bit for bit: here, with every compiler
 * and at every level of optimisation. If a change of the engine or of the simulation is meant to
 * change what nodes do, the number changes with it.
 */
static void test_member_sim_replay_is_identical(void **state)
{
    uint64_t all = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim_opts o = {.seed = seed};
        assert_null(sim_run(&sim, &o));
        uint64_t hash = sim.hash;
        assert_null(sim_run(&sim, &o));
        assert_true(hash == sim.hash);
        all = (all ^ hash) * UINT64_C(0x9e3779b97f4a7c15);
    }
    printf("hash %016llx\n", (unsigned long long)all);
    assert_true(all == UINT64_C(0xc60af34165c4d12a));
}

int main(int argc, char **argv)
{
    if (getenv("SIM_TRACE") != NULL) {
        setvbuf(stdout, NULL, _IOLBF, 0);
        struct sim_opts o = {.seed = strtoull(getenv("SIM_TRACE"), NULL, 10), .trace = 1};
        printf("%s\n", sim_run(&sim, &o) != NULL ? sim.failure : "well");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_member_sim_swarm_is_safe_and_recovers),
        cmocka_unit_test(test_member_sim_replay_is_identical),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
