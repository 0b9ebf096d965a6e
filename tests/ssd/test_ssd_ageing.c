/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the AGEING condition was fitted to, in simulated time: its two ends show the facts of the
 * frozen conditions, its write amplification is that of greedy collection as published, and
 * bandwidth falls from one end to the other.
 *
 * The formula: P. Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012: with
 * a = flash pages / host pages and N pages per block, k = 1 + 1 / (2 N), greedy collection under
 * uniform random writes amplifies by A(k a) / k, A(x) = x / (x + W(-x exp(-x))), W Lambert's
 * function; A is also that of L. Xiang and B. Kurkoski, "An improved analytic expression for
 * write amplification in NAND flash" (2.36 at a = 1.3). After a trim, a counts the valid pages
 * alone: T. Frankie et al., "Analysis of trim commands on overprovisioning and write
 * amplification in solid state drives" (effective over-provisioning).
 */
#include "test_ssd_util.h"

#include "gimbal_calibration.h"

#include <math.h>
#include <stdio.h>

#define MS UINT64_C(1000000)

static double formula(double a, uint32_t block_pages)
{
    double k = 1 + 1 / (2.0 * block_pages);
    double x = k * a;
    double valid = 0.5; /* of a victim: -W / x, where valid = exp(-x (1 - valid)) */
    for (uint32_t i = 0; i < 10000; i++)
        valid = exp(-x * (1 - valid));
    return 1 / (1 - valid) / k;
}

/* Without the blocks that are open or in reserve. */
static double flash_pages(const struct snic_ssd_opts *o)
{
    uint64_t n = (uint64_t)o->age_pages * (1000 + o->age_spare) / 1000;
    return (double)snic_align_up(n, o->age_block_pages);
}

static struct snic_ssd_opts ageing(uint32_t pages, uint32_t block_pages, uint32_t spare)
{
    struct snic_ssd_opts o;
    snic_ssd_opts_dct983(&o);
    o.condition = SNIC_SSD_AGEING;
    o.age_pages = pages;
    o.age_block_pages = block_pages;
    o.age_spare = spare;
    return o;
}

/* Of twice the pages at random, when the map has become steady. */
static double amplification(struct snic_ssd *d, uint32_t fill)
{
    struct snic_ssd_age_stats before, after;
    assert_int_equal(snic_ssd_precondition(d, fill, 400), 0);
    snic_ssd_get_age_stats(d, &before);
    assert_int_equal(snic_ssd_precondition(d, fill, 200), 0);
    snic_ssd_get_age_stats(d, &after);
    assert_int_equal(snic_ssd_check(d), 0);
    return 1 + (double)(after.copied - before.copied) / (double)(after.written - before.written);
}

static void assert_near(const char *what, double x, double model, double published)
{
    double error = (model / published - 1) * 100;
    if (error >= -10 && error <= 10)
        return;
    fprintf(stderr, "%s %g: model %.3f, formula %.3f, error %.1f %%\n", what, x, model, published,
            error);
    fail();
}

static void test_ssd_spare_space_amplifies_as_published(void **state)
{
    (void)state;
    assert_true(fabs(formula(1.3, 1u << 30) - 2.36) < 0.005);
    static const uint32_t spares[] = {70, 100, 131, 192, 300, 450, 700, 1000};
    for (size_t i = 0; i < SNIC_COUNTOF(spares); i++) {
        struct snic_ssd_opts o = ageing(1u << 15, 64, spares[i]);
        struct snic_ssd *d = ssd_open(&o);
        assert_near("spare", spares[i], amplification(d, 1000),
                    formula(flash_pages(&o) / o.age_pages, o.age_block_pages));
        ssd_close(d);
    }
}

static void test_ssd_fill_amplifies_as_published(void **state)
{
    (void)state;
    static const uint32_t fills[] = {400, 500, 600, 700, 800, 900, 950, 1000};
    double last = 1;
    for (size_t i = 0; i < SNIC_COUNTOF(fills); i++) {
        struct snic_ssd_opts o = ageing(1u << 15, 64, 131);
        struct snic_ssd *d = ssd_open(&o);
        double now = amplification(d, fills[i]);
        assert_near(
            "fill", fills[i], now,
            formula(flash_pages(&o) / (o.age_pages * fills[i] / 1000.0), o.age_block_pages));
        assert_true(now > last);
        last = now;
        ssd_close(d);
    }
}

static void test_ssd_trim_lowers_amplification_as_published(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ageing(1u << 15, 64, 131);
    uint64_t bytes = (uint64_t)o.age_pages * SNIC_SSD_PART;
    struct snic_ssd *d = ssd_open(&o);
    double last = amplification(d, 1000);
    for (uint32_t left = 950; left >= 500; left -= 150) {
        uint64_t at = bytes * left / 1000;
        snic_ssd_trim(d, at, bytes - at);
        double now = amplification(d, left);
        assert_near("trimmed to", left, now,
                    formula(flash_pages(&o) / (o.age_pages * left / 1000.0), o.age_block_pages));
        assert_true(now < last);
        last = now;
    }
    ssd_close(d);
}

static void test_ssd_ageing_runs_facts_hit(void **state)
{
    (void)state;
    static struct gimbal_fact facts[GIMBAL_FACTS_MAX];
    size_t count = gimbal_calibration_ageing_facts(facts, GIMBAL_FACTS_MAX);
    uint32_t wrong = 0;
    assert_int_equal(count, 38);
    for (size_t i = 0; i < count; i++) {
        const struct gimbal_fact *f = &facts[i];
        int hit = f->error >= -GIMBAL_FACT_HIT && f->error <= GIMBAL_FACT_HIT;
        if (hit != f->missed)
            continue;
        fprintf(stderr, "%s %s: %g, error %g %%\n", f->device, f->name, f->model, f->error);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* ---- From one end to the other ---- */

enum { DEPTH = 256, WINDOWS = 80, AVERAGE = 8 };

#define WINDOW_NS (50 * MS)

/* MB/s of random 4 KiB writes to the first fill / 1000 of the device, per window. */
static void write_rates(struct snic_ssd *d, uint32_t pages, double *rate, uint32_t windows)
{
    static struct snic_ssd_cmd cmd[DEPTH];
    struct snic_rng rng;
    snic_rng_init(&rng, 1);
    for (uint32_t i = 0; i < DEPTH; i++) {
        cmd[i] = (struct snic_ssd_cmd){.op = SNIC_SSD_WRITE, .length = SNIC_SSD_PART};
        cmd[i].offset = snic_rng_below(&rng, pages) * SNIC_SSD_PART;
        assert_int_equal(snic_ssd_submit(d, &cmd[i], 0), 0);
    }
    memset(rate, 0, windows * sizeof(*rate));
    for (uint64_t now = 0; now < windows * WINDOW_NS; now = snic_ssd_deadline_ns(d)) {
        for (struct snic_ssd_cmd *c; (c = snic_ssd_poll(d, now)) != NULL;) {
            rate[now / WINDOW_NS] += SNIC_SSD_PART * 1000.0 / (double)WINDOW_NS;
            c->offset = snic_rng_below(&rng, pages) * SNIC_SSD_PART;
            assert_int_equal(snic_ssd_submit(d, c, now), 0);
        }
    }
}

static double mean(const double *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

/*
 * In time: a moving average falls from that of clean to its least. That is below fragmented's:
 * the first blocks that are collected have equally many valid pages, and only with the spread
 * that collection brings about does greedy choice find better ones. Then it settles.
 */
static void test_ssd_random_writes_bandwidth_falls_and_settles(void **state)
{
    (void)state;
    static double rate[WINDOWS];
    struct snic_ssd_opts o = ageing(1u << 18, 256, 131);
    o.age_fill = 1000;
    struct snic_ssd *d = ssd_open(&o);
    write_rates(d, o.age_pages, rate, WINDOWS);
    assert_true(rate[0] > 0.9 * 1065);
    uint32_t least = 0;
    for (uint32_t w = 0; w + AVERAGE <= WINDOWS; w++) {
        if (mean(rate + w, AVERAGE) < mean(rate + least, AVERAGE))
            least = w;
    }
    assert_true(least < 10);
    for (uint32_t w = 1; w <= least; w++)
        assert_true(mean(rate + w, AVERAGE) < mean(rate + w - 1, AVERAGE));
    for (uint32_t w = least; w + AVERAGE <= WINDOWS; w++) {
        double now = mean(rate + w, AVERAGE);
        assert_true(now > 0.65 * 180 && now < 1.15 * 180);
    }
    double last = mean(rate + WINDOWS - 20, 20);
    assert_true(last > 0.9 * 180 && last < 1.1 * 180);
    ssd_drop(d);
}

/* Steady states by fill lead from one end to the other without a dip. */
static void test_ssd_fuller_device_writes_slower(void **state)
{
    (void)state;
    double last = 1.1 * 1065;
    for (uint32_t fill = 400; fill <= 1000; fill += 100) {
        double rate[10];
        struct snic_ssd_opts o = ageing(1u << 18, 256, 131);
        o.age_fill = fill;
        o.age_overwrites = 300;
        struct snic_ssd *d = ssd_open(&o);
        write_rates(d, o.age_pages / 1000 * fill, rate, 10);
        double now = mean(rate + 4, 6);
        if (now >= last)
            fprintf(stderr, "fill %u: %.1f MB/s after %.1f\n", fill, now, last);
        assert_true(now < last);
        last = now;
        ssd_drop(d);
    }
    assert_true(last > 0.9 * 180 && last < 1.1 * 180);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ssd_spare_space_amplifies_as_published),
        cmocka_unit_test(test_ssd_fill_amplifies_as_published),
        cmocka_unit_test(test_ssd_trim_lowers_amplification_as_published),
        cmocka_unit_test(test_ssd_ageing_runs_facts_hit),
        cmocka_unit_test(test_ssd_random_writes_bandwidth_falls_and_settles),
        cmocka_unit_test(test_ssd_fuller_device_writes_slower),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
