/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long runs against the model: many requests in flight, late and repeated versions, fences,
 * generations, deletions, rounds of writing home, all kinds of devices, reopenings.
 */
#include <inttypes.h>

#include "iohog.h"
#include "segfix.h"
#include "support.h"

static struct segfix fix;

struct setting {
    uint32_t disks;
    uint32_t sector;
    uint32_t align;
    uint32_t skew;
    uint64_t log_bytes;
    uint32_t cache;
    uint32_t bounces;
    uint32_t depth;
    uint64_t delay_max_ns;
    uint32_t flags;
};

static const struct setting settings[] = {
    {1, 512, 1, 0, 4u << 20, 64, 4, 1024, 0, 0},
    {1, 4096, 4096, 8, 4u << 20, 64, 2, 4, 50000, SNIC_SEGMENTS_NO_FUA},
    {3, 512, 512, 64, 2u << 20, 100, 1, 1024, 20000, 0},
    {1, 4096, 4096, 0, 8u << 20, 512, 4, 1024, 80000, SNIC_SEGMENTS_NO_FUA},
};

static void rig(const struct setting *s, uint64_t seed)
{
    memset(&fix, 0, sizeof(fix));
    fix.disks = s->disks;
    fix.disk_opts.sector = s->sector;
    fix.disk_opts.align = s->align;
    fix.disk_opts.depth = s->depth;
    fix.disk_opts.delay_max_ns = s->delay_max_ns;
    fix.disk_opts.delay_min_ns = s->delay_max_ns / 5;
    fix.opts.log_bytes = s->log_bytes;
    fix.opts.cache_blocks = s->cache;
    fix.opts.bounces = s->bounces;
    fix.opts.flags = s->flags;
    fix.skew = s->skew;
    segfix_start(&fix, seed);
}

/* Something in any of it does not fit together. */
static void test_segments_random_clients_as_the_model(void **state)
{
    uint64_t answered = 0;
    uint64_t rounds = 0;
    uint64_t cached = 0;
    uint64_t home = 0;
    (void)state;
    for (uint64_t i = 0; i < SNIC_COUNTOF(settings) * support_scale(1, 10); i++) {
        struct snic_rng rng;
        rig(&settings[i % SNIC_COUNTOF(settings)], support_seed() + i);
        snic_rng_init(&rng, support_seed() * 31 + i);
        assert_int_equal(segfix_open(&fix, SNIC_SEGMENTS_BLANK), 0);
        assert_int_equal(fix.report.formatted, fix.disks);
        for (uint32_t run_number = 0; run_number < 6; run_number++) {
            struct snic_segments_info info;
            for (uint64_t k = 0; k < support_rounds(1500, 6000); k++)
                segfix_step(&fix, &rng);
            if (run_number % 2 == 0)
                segfix_settle(&fix);
            snic_segments_inspect(fix.store, &info);
            rounds += info.rounds;
            cached += info.read_cached;
            home += info.read_blocks - info.read_cached;
            segfix_close(&fix);
            segfix_unplug(&fix);
            segfix_plug(&fix);
            assert_int_equal(segfix_open(&fix, 0), 0);
            segfix_judge(&fix);
            if (fix.why[0] != 0)
                fail_msg("seed %" PRIu64 " setting %" PRIu64 " run_number %u: %s", support_seed(),
                         i, run_number, fix.why);
        }
        answered += fix.answered;
        segfix_end(&fix);
    }
    print_message("%" PRIu64 " answers, %" PRIu64 " rounds, blocks read: %" PRIu64
                  " from the cache, %" PRIu64 " others\n",
                  answered, rounds, cached, home);
    assert_true(rounds > 20 && cached > 500 && home > 500);
}

/* A store that polls for room wakes its loop ten thousand times a second. */
static void test_segments_device_full_waits_without_polling(void **state)
{
    const uint32_t which = 0;
    const uint64_t wver = 1;
    struct iohog h;
    (void)state;
    rig(&(struct setting){.disks = 1, .log_bytes = 4u << 20, .cache = 64, .bounces = 2, .depth = 1},
        support_seed());
    assert_int_equal(segfix_open(&fix, SNIC_SEGMENTS_BLANK), 0);
    assert_int_equal(segfix_control(&fix, 0, SNIC_SEGMENTS_CREATE, 0), 1);
    segfix_settle(&fix);
    iohog_hold(&h, fix.disk[0], fix.io[0]);
    uint64_t from = snic_loop_now(fix.loop), work = iohog_work(fix.loop);
    assert_int_equal(segfix_write(&fix, 0, &which, &wver, 1), 1);
    segfix_settle(&fix);
    assert_true(snic_loop_now(fix.loop) - from >= IOHOG_NS);
    iohog_end(&h, fix.loop, work);
    segfix_end(&fix);
    assert_string_equal(fix.why, "");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments_device_full_waits_without_polling),
        cmocka_unit_test(test_segments_random_clients_as_the_model),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
