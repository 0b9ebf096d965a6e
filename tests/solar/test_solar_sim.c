/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Random runs of an agent and its servers (sim/solar_world.h): a seed determines all.
 *
 *     test_solar_sim --seed 17 one              one run, printed
 *     SNIC_SIM_FROM=1000 SNIC_SIM_COUNT=500 test_solar_sim long
 *
 * A long one is bounded by most_datagrams() for this build by day or by night, or by
 * SNIC_SIM_DATAGRAMS (0: not); one that fails prints its bound.
 */
#include "solar_world.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REPLAY_SEED 31
#define REPLAY_HASH UINT64_C(0x47c592106feede55)

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* How many datagrams a run may have, about; 0: as many as come. I/Os of more than 8 to 32 blocks,
   and of more than one where most is lost, are in the short runs and by night in those of 100,000:
   with them in each, the longest would take as long as all others. */
static uint64_t most_datagrams(uint64_t ios)
{
    uint64_t bounded = support_nightly() ? 1000000 : 100000;
    uint64_t of_io = SUPPORT_SANITIZED ? 10 : 40;
    return number("SNIC_SIM_DATAGRAMS", ios < bounded ? 0 : ios * of_io);
}

static struct world_opts run(uint64_t seed, uint64_t ios, uint32_t check)
{
    struct world_opts o = {.ios = ios, .check = check, .datagrams = most_datagrams(ios)};
    world_random(&o, seed);
    return o;
}

static void trace(const struct world_opts *o, const struct world_result *r, double seconds)
{
    printf("seed %llu: %llu I/Os, %llu failed, %.1f simulated ms, oldest %.3f ms (%.3f in the "
           "end), %llu datagrams, %llu sent again, %llu hedges, %llu spurious, %llu re-rolls, %llu "
           "fences, %.0f I/Os/s, at most %llu datagrams, "
           "hash %016llx\n",
           (unsigned long long)o->seed, (unsigned long long)r->ios, (unsigned long long)r->failed,
           (double)r->simulated_ns / 1e6, (double)r->max_ns / 1e6, (double)r->max_calm_ns / 1e6,
           (unsigned long long)r->datagrams, (unsigned long long)r->agent.retransmits,
           (unsigned long long)r->agent.hedges, (unsigned long long)r->agent.spurious,
           (unsigned long long)r->agent.rerolls, (unsigned long long)r->agent.fences,
           (double)r->ios / (seconds > 0 ? seconds : 1), (unsigned long long)o->datagrams,
           (unsigned long long)r->hash);
}

static void runs(uint64_t from, uint64_t count, uint64_t ios, uint32_t check)
{
    uint64_t sum = 0, failed[3] = {0, 0, 0}, faults = 0, datagrams = 0;
    double began = cpu_seconds(), simulated = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct world_opts o = run(from + i, ios, check);
        struct world_result r;
        double at = cpu_seconds();
        world_run(&o, &r);
        if (number("SNIC_SIM_TRACE", 0))
            trace(&o, &r, cpu_seconds() - at);
        if (r.failure != NULL)
            fail_msg("SNIC_SIM_IOS=%llu SNIC_SIM_CHECK=%u SNIC_SIM_DATAGRAMS=%llu --seed %llu one: "
                     "%s",
                     (unsigned long long)ios, check, (unsigned long long)o.datagrams,
                     (unsigned long long)o.seed, r.failure);
        sum += r.ios;
        datagrams += r.datagrams;
        simulated += (double)r.simulated_ns / 1e9;
        for (uint32_t k = 0; k < SNIC_COUNTOF(failed); k++)
            failed[k] += r.failed_by[k];
        for (uint32_t k = 0; k < WORLD_FAULTS; k++)
            faults += r.faults[k];
    }
    double seconds = cpu_seconds() - began;
    printf("%llu runs: %llu I/Os, expired: %llu reads, %llu writes never "
           "sent, %llu fenced; %llu faults, %.1f simulated s in %.1f s: %.0f I/Os/s, %.0f "
           "datagrams/s\n",
           (unsigned long long)count, (unsigned long long)sum, (unsigned long long)failed[0],
           (unsigned long long)failed[1], (unsigned long long)failed[2], (unsigned long long)faults,
           simulated, seconds, (double)sum / seconds, (double)datagrams / seconds);
}

/* By day 4 runs of 100,000 I/Os, at night 200 of a million, in parts: list/solar.cmake. */
static void test_solar_sim_long_runs_nothing_broken(void **state)
{
    (void)state;
    runs(number("SNIC_SIM_FROM", support_seed()), number("SNIC_SIM_COUNT", support_rounds(4, 20)),
         number("SNIC_SIM_IOS", 100000), 256);
}

/* Short ones, where all invariants are looked at after each step. */
static void test_solar_sim_short_runs_checked_whole_nothing_broken(void **state)
{
    (void)state;
    runs(1000 + support_seed(), support_rounds(12, 400), 4000, 1);
}

/* A seed determines all, with any compiler: a change of the engine or of the world changes this
   number, and nothing else does. */
static void test_solar_sim_one_seed_replays_bit_for_bit(void **state)
{
    struct world_opts o = run(REPLAY_SEED, 10000, 0);
    struct world_result r;
    (void)state;
    for (int i = 0; i < 2; i++) {
        world_run(&o, &r);
        assert_null(r.failure);
        printf("replay of seed %d: %016llx\n", REPLAY_SEED, (unsigned long long)r.hash);
        assert_true(r.hash == REPLAY_HASH);
    }
}

/* Runs in which an I/O took longer than expected: what was lost once more waited for all
   others, each time; packets that are late and lost; eight kinds of faults at once. */
static void test_solar_sim_seeds_of_old_faults(void **state)
{
    static const struct {
        uint64_t seed, most_ns;
    } lived[] = {{UINT64_C(1795708275087420), 3500 * WORLD_MS},
                 {50410, 7 * WORLD_S},
                 {UINT64_C(1795713989311091), 3 * WORLD_S}};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(lived); i++) {
        struct world_opts o = run(lived[i].seed, 4000, 1);
        struct world_result r;
        world_run(&o, &r);
        assert_null(r.failure);
        assert_true(r.max_ns < lived[i].most_ns);
    }
}

static void test_solar_sim_one_run_traced(void **state)
{
    struct world_opts o =
        run(support_seed(), number("SNIC_SIM_IOS", 20000), (uint32_t)number("SNIC_SIM_CHECK", 64));
    struct world_result r;
    (void)state;
    o.print = number("SNIC_SIM_TRACE", 0) != 0;
    double at = cpu_seconds();
    world_run(&o, &r);
    trace(&o, &r, cpu_seconds() - at);
    if (r.failure != NULL)
        fail_msg("%s", r.failure);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_sim_one_seed_replays_bit_for_bit),
        cmocka_unit_test(test_solar_sim_short_runs_checked_whole_nothing_broken),
        cmocka_unit_test(test_solar_sim_long_runs_nothing_broken),
        cmocka_unit_test(test_solar_sim_seeds_of_old_faults),
        cmocka_unit_test(test_solar_sim_one_run_traced),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
