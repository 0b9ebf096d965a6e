/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The bench's stores: deterministic, nothing lost (a lost I/O ends the program), and the bytes at
 * the devices are those that the operations have to cause. */
#include "support.h"

#include "gimbal_lsm.h"

#include <string.h>

static const char *const names[] = {"gimbal", "fifo", "reflex", "parda", "flashfq"};

static struct lsm_result run(const char *name, uint32_t flags, uint32_t instances, char workload,
                             uint64_t seed)
{
    struct lsm_result r;
    struct lsm_spec s = {.ops = sched_find(name),
                         .flags = flags,
                         .instances = instances,
                         .backends = 3,
                         .workload = workload,
                         .warm_ns = 50000000,
                         .time_ns = 50000000,
                         .seed = seed};
    assert_non_null(s.ops);
    memset(&r, 0, sizeof(r));
    lsm_run(&s, &r);
    return r;
}

/* A figure that changes from run to run can be compared with nothing. */
static void test_gimbal_lsm_same_seed_same_result(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(names); i++) {
        uint32_t flags = i == 0 ? LSM_CREDITS | LSM_TAGS | LSM_BALANCE : LSM_CREDITS;
        for (const char *w = "ABCDEF"; *w != '\0'; w++) {
            struct lsm_result a = run(names[i], flags, 3, *w, 7);
            struct lsm_result b = run(names[i], flags, 3, *w, 7);
            struct lsm_result c = run(names[i], flags, 3, *w, 8);
            assert_memory_equal(&a, &b, sizeof(a));
            assert_memory_not_equal(&a, &c, sizeof(a));
            assert_true(a.kops > 1 && a.fairness > 0.5 && a.fairness <= 1.0000001);
            assert_true(a.p99_us >= a.mean_us / 2 && a.p999_us >= a.p99_us);
        }
    }
}

/* Reads only: no byte is written, half of the operations (zipfian, 2048 of 10 M keys cached)
 * read a block of 4 KiB, and a lone store's read takes its computing and an idle device. */
static void test_gimbal_lsm_reads_cost_their_blocks(void **state)
{
    (void)state;
    struct lsm_result r = run("fifo", 0, 1, 'C', 1);
    assert_true(r.write_mbps == 0);
    double blocks = r.read_mbps / 4.096 / r.kops; /* per operation */
    assert_true(blocks > 0.50 && blocks < 0.58);
    assert_true(r.mean_us > 60 + 0.5 * 90 && r.mean_us < 60 + 0.6 * 115);
    assert_true(r.p99_us > 60 + 90 && r.p99_us < 60 + 250);
}

/* A store that updates long enough writes each record to the log (at least 1 KiB), to a flushed
 * blob and four times in compaction, twice each. */
static void test_gimbal_lsm_updates_cost_their_copies(void **state)
{
    (void)state;
    struct lsm_result r;
    struct lsm_spec s = {.ops = &sched_fifo,
                         .instances = 12,
                         .backends = 12,
                         .workload = 'A',
                         .warm_ns = 500000000,
                         .time_ns = 500000000,
                         .seed = 3};
    lsm_run(&s, &r);
    double copies = r.write_mbps / (r.kops / 2 * 1.024);
    assert_true(copies > 2 * (1 + 0.9 * 5) && copies < 2 * (4 + 1.1 * 5));
    double reads = r.read_mbps / r.kops; /* half a block per read, and the compaction's */
    assert_true(reads > 0.9 * (0.5 * 0.53 * 4.096 + 0.5 * 4 * 1.024));
    assert_true(reads < 1.1 * (0.5 * 0.56 * 4.096 + 0.5 * 4 * 1.024));
}

/* What the client holds back must not keep it from its work. */
static void test_gimbal_lsm_credits_keep_the_throughput(void **state)
{
    (void)state;
    for (const char *w = "ABC"; *w != '\0'; w++) {
        struct lsm_result vanilla = run("gimbal", 0, 6, *w, 5);
        struct lsm_result ours = run("gimbal", LSM_CREDITS | LSM_TAGS | LSM_BALANCE, 6, *w, 5);
        assert_true(ours.kops > 0.7 * vanilla.kops);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_lsm_same_seed_same_result),
        cmocka_unit_test(test_gimbal_lsm_reads_cost_their_blocks),
        cmocka_unit_test(test_gimbal_lsm_updates_cost_their_copies),
        cmocka_unit_test(test_gimbal_lsm_credits_keep_the_throughput),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
