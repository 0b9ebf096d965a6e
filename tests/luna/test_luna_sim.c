/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Random runs of an agent and its servers (sim/luna_world.h): a seed determines all.
 *
 *     test_luna_sim --seed 17 one              one run, printed
 *     SNIC_SIM_FROM=1000 SNIC_SIM_COUNT=500 test_luna_sim many
 */
#include "luna_world.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Two thirds of the runs are short and checked whole at every step. */
static struct world_opts run(uint64_t seed, uint64_t ios)
{
    struct world_opts o = {.ios = ios};
    world_random(&o, seed);
    o.check = seed % 3 == 0 ? 64 : 1;
    if (o.check == 1)
        o.ios = ios / 4 + 1;
    return o;
}

static void trace(const struct world_opts *o, const struct world_result *r, double seconds)
{
    const struct snic_luna_stats *g = &r->agent;
    printf("seed %llu: %llu I/Os, %llu failed, %.1f simulated ms, oldest %.3f ms, %llu sends, "
           "%llu pieces, %llu late to a server, %llu sent again, %llu silences, %llu resets, "
           "%llu fences, %llu stale, %llu busy, %.0f I/Os/s, hash %016llx\n",
           (unsigned long long)o->seed, (unsigned long long)r->ios, (unsigned long long)r->failed,
           (double)r->simulated_ns / 1e6, (double)r->max_ns / 1e6, (unsigned long long)r->sends,
           (unsigned long long)r->pieces, (unsigned long long)r->late_sends,
           (unsigned long long)g->replays, (unsigned long long)g->silences,
           (unsigned long long)g->resets, (unsigned long long)g->fences,
           (unsigned long long)g->stale_gens, (unsigned long long)g->busy,
           (double)r->ios / (seconds > 0 ? seconds : 1), (unsigned long long)r->hash);
}

static void test_luna_sim_many_runs_nothing_broken(void **state)
{
    uint64_t from = number("SNIC_SIM_FROM", support_seed());
    uint64_t count = number("SNIC_SIM_COUNT", support_rounds(40, 2000));
    uint64_t ios = number("SNIC_SIM_IOS", 4000), sum = 0, failed = 0, faults = 0;
    double began = cpu_seconds(), simulated = 0;
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        struct world_opts o = run(from + i, ios);
        struct world_result r;
        double at = cpu_seconds();
        world_run(&o, &r);
        if (number("SNIC_SIM_TRACE", 0))
            trace(&o, &r, cpu_seconds() - at);
        if (r.failure != NULL)
            fail_msg("--seed %llu one: %s", (unsigned long long)o.seed, r.failure);
        sum += r.ios;
        failed += r.failed;
        simulated += (double)r.simulated_ns / 1e9;
        for (uint32_t k = 0; k < WORLD_FAULTS; k++)
            faults += r.faults[k];
    }
    double seconds = cpu_seconds() - began;
    printf("%llu runs: %llu I/Os, %llu failed, %llu faults, %.1f simulated s in %.1f s: %.0f "
           "I/Os/s\n",
           (unsigned long long)count, (unsigned long long)sum, (unsigned long long)failed,
           (unsigned long long)faults, simulated, seconds, (double)sum / seconds);
}

/* Seeds of old faults. */
static void test_luna_sim_seeds_of_old_faults(void **state)
{
    static const uint64_t seeds[] = {
        269, /* a disk waited for its limits, another for a server: poll had no end */
        UINT64_C(1795704230464587), /* a silent connection, and one more where the segment is now */
        9001553,                    /* likewise */
        UINT64_C(1795717375621866), /* and one more where the I/O behind it goes */
        20001420,                   /* a silent connection, and one more where the segment is now */
        UINT64_C(1795719051648747), /* and one more that was not probed, for nothing was outside */
        UINT64_C(1795706290399422), /* a connection died after the others had been probed */
        532,
        813, /* a silent connection with nothing outside is not probed: 700 ms show it */
    };
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(seeds); i++) {
        struct world_opts o = run(seeds[i], 4000);
        o.hang_ns = seeds[i] == 20001420 ? 2 * WORLD_S : WORLD_S; /* where it moves, too */
        if (seeds[i] == 532 || seeds[i] == 813)
            o.hang_ns = 700 * WORLD_MS;
        struct world_result r;
        (void)alarm(600);
        world_run(&o, &r);
        (void)alarm(0);
        assert_null(r.failure);
    }
}

static void test_luna_sim_one_run_traced(void **state)
{
    struct world_opts o = run(support_seed(), number("SNIC_SIM_IOS", 4000));
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
        cmocka_unit_test(test_luna_sim_many_runs_nothing_broken),
        cmocka_unit_test(test_luna_sim_seeds_of_old_faults),
        cmocka_unit_test(test_luna_sim_one_run_traced),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
