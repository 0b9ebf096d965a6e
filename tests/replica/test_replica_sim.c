/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Random runs of whole clusters (sim/swarm.h): a seed determines all, and --seed N repeats it.
 *
 *     test_replica_sim --seed 17 one            one run of those of `many`, printed
 *     test_replica_sim --seed 17 hard_printed   one run of those of `hard_runs`, printed
 *     SNIC_SIM_FROM=1000 SNIC_SIM_COUNT=500 test_replica_sim many
 *                                               a part of a long run, to resume where it stopped;
 *                                               list/replica.cmake makes the night of such parts,
 *                                               with SNIC_SIM_NIGHT for the count
 */
#include "replica/replica_priv.h"
#include "support.h"
#include "swarm.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SECOND (1000 * (uint64_t)CLUSTER_MS)

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

/*
 * A run failed: how it is repeated, and where its seed is kept once that is mended.
 * Of the night a file in the build folder has the line, too: the next run's log takes this one's
 * place.
 */
static void failed(const struct swarm_opts *o, const char *filter, const char *kept,
                   const char *why)
{
    char line[400];
    (void)snprintf(line, sizeof(line),
                   "again: test_replica_sim --seed %llu %s; then add %llu to the seeds of "
                   "test_replica_sim_%s (tests/replica/test_replica_sim.c)",
                   (unsigned long long)o->seed, filter, (unsigned long long)o->seed, kept);
    if (number("SNIC_SIM_NIGHT", 0) != 0) {
        FILE *f = fopen("replica_sim_seeds.txt", "a");
        if (f != NULL) {
            (void)fprintf(f, "%s: %s\n", line, why);
            (void)fclose(f);
        }
    }
    fail_msg("--seed %llu %s: %s\n%s", (unsigned long long)o->seed, filter, why, line);
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void sever(struct cluster_node *n, uint32_t other)
{
    struct replica_conn *k = n->r->peers[other].conn;
    if (k != NULL)
        snic_net_abort(k->c);
}

/* The faults' time is short, 8, 4 or 2 s: what a run needs in the end is longer. */
static struct swarm_opts run_opts(uint64_t seed)
{
    struct swarm_opts o = {.seed = seed, .search = seed % 4 == 0, .sever = sever};
    o.faults_ns = (UINT64_C(8) >> (seed + 1) % 3) * SECOND;
    return o;
}

static void test_replica_sim_many_runs_nothing_broken(void **state)
{
    uint64_t part = number("SNIC_SIM_NIGHT", 0);
    uint64_t from = number("SNIC_SIM_FROM", support_seed());
    uint64_t count = number("SNIC_SIM_COUNT", part != 0 ? part : support_rounds(120, 4000));
    struct swarm_result sum;
    double began = cpu_seconds();
    (void)state;
    if (part != 0 && !support_nightly())
        support_skip("a part of the night: SNIC_NIGHTLY=1");
    memset(&sum, 0, sizeof(sum));
    for (uint64_t i = 0; i < count; i++) {
        struct swarm_opts o = run_opts(from + i);
        struct swarm_result r;
        swarm_run(&o, &r);
        if (r.failure != NULL)
            failed(&o, "one", "seeds_of_old_faults", r.failure);
        sum.events += r.events;
        sum.operations += r.operations;
        sum.simulated_ns += r.simulated_ns;
        sum.restarts += r.restarts;
        sum.deaths += r.deaths;
        sum.overrides += r.overrides;
        sum.epochs += r.epochs;
        sum.settle_ns = snic_max_u64(sum.settle_ns, r.settle_ns);
        if ((i + 1) % 1000 == 0)
            printf("%llu runs done, the next is SNIC_SIM_FROM=%llu\n", (unsigned long long)i + 1,
                   (unsigned long long)(o.seed + 1));
    }
    double wall = cpu_seconds() - began;
    double simulated = (double)sum.simulated_ns / 1e9;
    printf("%llu runs: %.0f simulated s in %.1f s (%.0f hours per hour), %.0f engine events/s, "
           "%.1f operations per simulated s\n",
           (unsigned long long)count, simulated, wall, simulated / wall, (double)sum.events / wall,
           (double)sum.operations / simulated);
    printf("%u epochs, %u deaths, %u restarts of all, %u operator's words; longest rest %.1f s\n",
           sum.epochs, sum.deaths, sum.restarts, sum.overrides, (double)sum.settle_ns / 1e9);
}

/*
 * Runs that are harder (swarm.h): one in three has clocks, one full logs, one both.
 * They are not among those above, so that old seeds are still the same runs.
 */
static struct swarm_opts hard_run_opts(uint64_t seed)
{
    static const uint32_t kinds[] = {SWARM_CLOCKS, SWARM_FULL, SWARM_CLOCKS | SWARM_FULL};
    struct swarm_opts o = {.seed = seed, .search = seed % 4 == 0};
    o.hard = kinds[seed % 3];
    o.faults_ns = (UINT64_C(8) >> seed % 2) * SECOND;
    return o;
}

static void test_replica_sim_hard_runs_nothing_broken(void **state)
{
    uint64_t part = number("SNIC_SIM_NIGHT", 0);
    uint64_t from = number("SNIC_SIM_FROM", support_seed());
    uint64_t count = number("SNIC_SIM_COUNT", part != 0 ? part : support_rounds(30, 1500));
    uint64_t full = 0, emptied = 0, reached = 0, hit = 0, settle_ns = 0, operations = 0;
    (void)state;
    if (part != 0 && !support_nightly())
        support_skip("a part of the night: SNIC_NIGHTLY=1");
    for (uint64_t i = 0; i < count; i++) {
        struct swarm_opts o = hard_run_opts(from + i);
        struct swarm_result r;
        swarm_run(&o, &r);
        if (r.failure != NULL)
            failed(&o, "hard_printed", "hard_seeds_of_old_faults", r.failure);
        hit += (o.hard & SWARM_FULL) != 0;
        reached += r.full > 0;
        full += r.full;
        emptied += r.emptied;
        operations += r.operations;
        settle_ns = snic_max_u64(settle_ns, r.settle_ns);
    }
    printf("%llu runs with clocks or full logs, %llu operations; of %llu with full logs %llu "
           "were "
           "refused something, %llu times, and made room %llu times; longest rest %.1f s\n",
           (unsigned long long)count, (unsigned long long)operations, (unsigned long long)hit,
           (unsigned long long)reached, (unsigned long long)full, (unsigned long long)emptied,
           (double)settle_ns / 1e9);
    if (count >= 30)
        assert_true(2 * reached >= hit && emptied > 0);
}

/*
 * H34: where clocks are worse than the option allows reads may be stale, and nothing else may be
 * wrong, which swarm_run judges. That some are shows that the clocks are as bad as meant.
 */
static void test_replica_sim_worse_clocks_stale_reads_only(void **state)
{
    uint64_t count = number("SNIC_SIM_COUNT", support_rounds(60, 1000));
    uint64_t stale = 0, hit = 0;
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        struct swarm_opts o = {.seed = support_seed() + i, .hard = SWARM_WORSE_CLOCKS};
        struct swarm_result r;
        o.faults_ns = 8 * SECOND;
        swarm_run(&o, &r);
        if (r.failure != NULL)
            fail_msg("seed %llu: %s", (unsigned long long)o.seed, r.failure);
        stale += r.stale;
        hit += r.stale > 0;
    }
    printf("%llu runs with clocks that are worse than the option: %llu stale reads, in %llu\n",
           (unsigned long long)count, (unsigned long long)stale, (unsigned long long)hit);
    if (count >= 60)
        assert_true(stale > 0);
}

/* An operator removes, replaces and adds nodes while all else goes wrong, too. */
static struct swarm_opts changes_run_opts(uint64_t seed)
{
    struct swarm_opts o = {.seed = seed, .search = seed % 4 == 0, .hard = SWARM_CHANGES};
    o.faults_ns = 10 * SECOND;
    return o;
}

static void test_replica_sim_changes_nothing_broken(void **state)
{
    uint64_t part = number("SNIC_SIM_NIGHT", 0);
    uint64_t from = number("SNIC_SIM_FROM", support_seed());
    uint64_t count = number("SNIC_SIM_COUNT", part != 0 ? part : support_rounds(60, 2000));
    uint64_t configs = 0, operations = 0;
    (void)state;
    if (part != 0 && !support_nightly())
        support_skip("a part of the night: SNIC_NIGHTLY=1");
    for (uint64_t i = 0; i < count; i++) {
        struct swarm_opts o = changes_run_opts(from + i);
        struct swarm_result r;
        swarm_run(&o, &r);
        if (r.failure != NULL)
            failed(&o, "changes_printed", "changes_nothing_broken", r.failure);
        configs += r.configs;
        operations += r.operations;
    }
    printf("%llu runs, %llu operations, %llu configurations\n", (unsigned long long)count,
           (unsigned long long)operations, (unsigned long long)configs);
    if (count >= 60)
        assert_true(configs > count);
}

static void test_replica_sim_changes_printed(void **state)
{
    struct swarm_opts o = changes_run_opts(support_seed());
    struct swarm_result r;
    (void)state;
    o.print = 1;
    swarm_run(&o, &r);
    printf("seed %llu: %u configurations, %llu operations\n", (unsigned long long)o.seed, r.configs,
           (unsigned long long)r.operations);
    if (r.failure != NULL)
        fail_msg("%s", r.failure);
}

/*
 * Expected to fail (spec 4.4): disks that report a flush they did not do. What was answered is
 * lost, and the judges must find it; the same runs without the lies are right.
 */
static void test_replica_sim_disks_that_lie_are_found_out(void **state)
{
    uint64_t count = number("SNIC_SIM_COUNT", support_rounds(60, 200));
    uint64_t found = 0;
    char first[200] = "nothing";
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        struct swarm_opts o = {.seed = support_seed() + i, .hard = SWARM_NO_LIES};
        struct swarm_result r;
        o.faults_ns = 16 * SECOND;
        swarm_run(&o, &r);
        if (r.failure != NULL)
            fail_msg("seed %llu: %s", (unsigned long long)o.seed, r.failure);
        o.hard = SWARM_LIES;
        o.quiet = 1;
        swarm_run(&o, &r);
        if (r.failure != NULL && found++ == 0)
            (void)snprintf(first, sizeof(first), "seed %llu: %s", (unsigned long long)o.seed,
                           r.failure);
    }
    printf("%llu runs with disks that lie, %llu found out; the first, %s\n",
           (unsigned long long)count, (unsigned long long)found, first);
    assert_true(2 * found >= count);
}

/* Seeds that once found something, and what. */
static void test_replica_sim_seeds_of_old_faults(void **state)
{
    static const uint64_t seeds[] = {
        1253,    /* a learner's log was full of what its new engine does not need, unchecked */
        1003423, /* more large messages at once than are collected: none was ever whole */
        1017768, /* PAPER: what was parked behind a write that a restart found complete */
        1059774, /* two CAS of one base: the one that refused was gone before it reported it */
        1067018, /* the judge: of two CAS of one base a restart lost the answered, later one */
        1081379, /* the judge: a log had an earlier tombstone than the one that was purged */
        1014016, /* a log kept all older values of a key while a newer one waited for room */
    };
    const uint64_t stride = support_stride(1, 4);
    (void)state;
    for (size_t i = support_turn(stride); i < sizeof(seeds) / sizeof(seeds[0]); i += stride) {
        struct swarm_opts o = run_opts(seeds[i]);
        struct swarm_result r;
        swarm_run(&o, &r);
        if (r.failure != NULL)
            failed(&o, "one", "seeds_of_old_faults", r.failure);
    }
}

static void test_replica_sim_hard_seeds_of_old_faults(void **state)
{
    static const uint64_t seeds[] = {
        1, /* full logs: puts and replays had all places of writes, and no deletion could begin */
        2221, /* a log went on to compact after its node had stopped, and took what waited for it
                 then for what it held */
        2618, /* a key that was new in the middle of a learner's piece pushed its last one out */
        2356, /* a restart of all with full logs: one had what the others had no space for */
        UINT64_C(1795646567537996), /* no client deleted any more, and puts waited for full logs */
        88000186, /* SYNC of a scope does not cover a write that was answered as unknown */
        66000109, /* every scope waited for full logs, and no deletion had one */
        1001558,  /* clients deleted nothing in the end: all logs were full of what is needed */
        UINT64_C(1795661456363620), /* a scope of a node that was left out, and had come back */
        1002150, /* a CAS that was refused, and a restart that lost what had beaten it */
        2416,    /* as 2356, which does not come to that any more */
        1000258, /* a restart replayed to learners whose logs were full, and nothing else came */
    };
    const uint64_t stride = support_stride(2, 4);
    (void)state;
    for (size_t i = support_turn(stride); i < sizeof(seeds) / sizeof(seeds[0]); i += stride) {
        struct swarm_opts o = hard_run_opts(seeds[i]);
        struct swarm_result r;
        swarm_run(&o, &r);
        if (r.failure != NULL)
            failed(&o, "hard_printed", "hard_seeds_of_old_faults", r.failure);
    }
}

/* The same seed is the same run, to the last action. */
static void test_replica_sim_same_seed_same_run(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        struct swarm_opts o = run_opts(support_seed() + 100 + i);
        struct swarm_result a, b;
        swarm_run(&o, &a);
        swarm_run(&o, &b);
        assert_true(a.hash == b.hash && a.events == b.events && a.operations == b.operations);
        printf("seed %llu: hash %016llx\n", (unsigned long long)o.seed, (unsigned long long)a.hash);
    }
}

static void print_run(struct swarm_opts o)
{
    struct swarm_result r;
    o.print = number("SNIC_SIM_QUIET", 0) == 0;
    swarm_run(&o, &r);
    printf("seed %llu model %u: %llu operations, %u epochs, %u deaths, %u restarts, hash %016llx\n",
           (unsigned long long)o.seed, r.model, (unsigned long long)r.operations, r.epochs,
           r.deaths, r.restarts, (unsigned long long)r.hash);
    if (r.failure != NULL)
        fail_msg("%s", r.failure);
}

static void test_replica_sim_one_run_printed(void **state)
{
    (void)state;
    print_run(run_opts(support_seed()));
}

static void test_replica_sim_hard_printed(void **state)
{
    (void)state;
    print_run(hard_run_opts(support_seed()));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_sim_many_runs_nothing_broken),
        cmocka_unit_test(test_replica_sim_seeds_of_old_faults),
        cmocka_unit_test(test_replica_sim_hard_seeds_of_old_faults),
        cmocka_unit_test(test_replica_sim_same_seed_same_run),
        cmocka_unit_test(test_replica_sim_hard_runs_nothing_broken),
        cmocka_unit_test(test_replica_sim_worse_clocks_stale_reads_only),
        cmocka_unit_test(test_replica_sim_disks_that_lie_are_found_out),
        cmocka_unit_test(test_replica_sim_changes_nothing_broken),
        cmocka_unit_test(test_replica_sim_changes_printed),
        cmocka_unit_test(test_replica_sim_one_run_printed),
        cmocka_unit_test(test_replica_sim_hard_printed),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
