/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Two and eight hosts of one namespace on the SSD model, in simulated time and so the same on every
 * machine: what each gets, with the switch and without (FIFO). Shares of a group's cap are equal in
 * bytes; of the device itself they are what the switch makes of its costs and slots (gimbal.h), for
 * reads nearly equal bytes.
 *
 * Writes of 4 KiB beside writes of 128 KiB are rows of the nightly table only: at a write cost of 9
 * a virtual slot holds four of the small ones, 16 KiB, or one large one.
 */
#include "test_nvmet_share_util.h"

#include <string.h>

enum { R4 = 0, R128, W4, W128, M4, M128, KINDS }; /* M: half of the requests are writes */
#define MBPS UINT64_C(1000000)

static const struct {
    const char *name;
    uint32_t size;
    uint32_t write;
} kinds[KINDS] = {{"4K reads", 4096, 0},    {"128K reads", 131072, 0},
                  {"4K writes", 4096, 100}, {"128K writes", 131072, 100},
                  {"4K mixed", 4096, 50},   {"128K mixed", 131072, 50}};

static struct sx x;
static uint64_t rate[SX_HOSTS]; /* bytes/s */

/* Host @p i; of eight, two kinds by turns. */
static void host(uint32_t i, uint32_t kind, uint32_t depth)
{
    x.host[i].kind = kind;
    x.host[i].size = kinds[kind].size;
    x.host[i].write = kinds[kind].write;
    x.host[i].depth = depth;
}

static void hosts(uint32_t count, uint32_t a, uint32_t depth_a, uint32_t b, uint32_t depth_b)
{
    sx_opts(&x);
    x.hosts = count;
    for (uint32_t i = 0; i < count; i++)
        host(i, i % 2 == 0 ? a : b, i % 2 == 0 ? depth_a : depth_b);
}

static void measure(uint64_t warm_ms, uint64_t ms)
{
    sx_open(&x);
    sx_run(&x, warm_ms * SX_MS);
    sx_reset(&x);
    sx_run(&x, ms * SX_MS);
    for (uint32_t i = 0; i < x.hosts; i++) {
        const struct sx_host *h = &x.host[i];
        rate[i] = h->bytes * 1000 / ms;
        if (h->depth > 0 && (i < 2 || i + 1 == x.hosts))
            print_message("  host %u of %u: %u x %s%s: %.1f MB/s, p99 %.0f us\n", i, x.hosts,
                          h->depth, kinds[h->kind].name, x.fifo ? ", FIFO" : "",
                          (double)rate[i] / 1e6,
                          (double)snic_hist_quantile(&h->latency, 990000) / 1e3);
    }
    sx_close(&x);
}

/* Each host has the same, within so many percent. */
static void equal(unsigned percent)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < x.hosts; i++)
        sum += rate[i];
    for (uint32_t i = 0; i < x.hosts; i++)
        assert_in_range(rate[i] * x.hosts * 100 / sum, 100 - percent, 100 + percent);
}

/** A group's cap is shared in equal bytes, whatever the sizes and directions. */
static void test_nvmet_share_cap_of_a_group(void **state)
{
    static const struct {
        uint32_t a, depth_a, b, depth_b, hosts, delay_us;
    } rows[] = {
        {R4, 32, R128, 32, 2, 10},
        {R4, 128, W128, 32, 2, 10},
        {W4, 32, R128, 32, 2, 10},
        {W4, 32, W128, 32, 2, 10},
        {M4, 32, M128, 32, 2, 10},
        {R4, 4, R128, 32, 2, 10},
        {R4, 16, R128, 32, 2, 500},
        {R4, 128, W128, 16, 8, 10},
        /* By night only. */
        {M4, 32, R128, 32, 2, 10},
        {R4, 32, R128, 32, 8, 10},
        {M4, 32, M128, 32, 8, 10},
    };
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(rows) - (support_nightly() ? 0 : 3); i++) {
        hosts(rows[i].hosts, rows[i].a, rows[i].depth_a, rows[i].b, rows[i].depth_b);
        x.link.delay_min_ns = x.link.delay_max_ns = rows[i].delay_us * UINT64_C(1000);
        x.grouped = 1;
        x.group.bytes_per_second = 100 * MBPS;
        measure(100, 400);
        uint64_t sum = 0;
        for (uint32_t k = 0; k < x.hosts; k++)
            sum += rate[k];
        assert_in_range(sum, 98 * MBPS, 103 * MBPS); /* 1 MB may come late, or have been saved up */
        equal(rows[i].hosts == 2 ? 3 : 6);
    }
}

/** With less outstanding than its share takes (Little: rate = outstanding / latency) a host has
 * what that gives, with next to the latency that it has alone, and the other one has the rest. */
static void test_nvmet_share_cap_with_few_outstanding(void **state)
{
    uint64_t alone;
    (void)state;
    for (uint32_t depth = 1; depth <= 8; depth *= 8) {
        for (uint32_t large = 0; large <= 32; large += 32) {
            hosts(2, R4, depth, R128, large);
            x.grouped = 1;
            x.group.bytes_per_second = 100 * MBPS;
            x.link.delay_min_ns = x.link.delay_max_ns = depth == 1 ? 10000 : 500000;
            measure(200, 500);
            if (large == 0)
                alone = rate[0];
        }
        assert_true(rate[0] >= alone * 95 / 100);
        assert_in_range(rate[0] + rate[1], 99 * MBPS, 101 * MBPS + MBPS / 2);
    }
}

/** Readers share the device nearly by bytes; without the switch the small ones get what is left. */
static void test_nvmet_share_of_the_device(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= 8; count += 6) {
        hosts(count, R4, 32, R128, 32);
        measure(200, 60);
        equal(12);
        hosts(count, R4, 32, R128, 32);
        x.fifo = 1;
        measure(20, 30);
        assert_true(rate[0] * 10 < rate[1]);
    }
}

/** Caps of hosts within one percent, a floor beside seven that flood, weights within five. */
static void test_nvmet_share_caps_floors_weights(void **state)
{
    (void)state;
    hosts(3, R4, 32, R128, 32);
    x.host[0].tenant.bytes_per_second = 30 * MBPS;
    x.host[1].tenant.bytes_per_second = 60 * MBPS;
    x.host[2].tenant.ios_per_second = 5000;
    measure(100, 1000);
    assert_in_range(rate[0], 297 * MBPS / 10, 303 * MBPS / 10);
    assert_in_range(rate[1], 594 * MBPS / 10, 606 * MBPS / 10);
    assert_in_range(rate[2], 4950 * 4096, 5050 * 4096);

    hosts(4, R4, 128, R128, 16); /* its share is a 25th */
    x.host[0].tenant.floor_bytes_per_second = 150 * MBPS;
    for (uint32_t i = 1; i < x.hosts; i++)
        x.host[i].tenant.weight = 8;
    measure(400, 50);
    assert_true(rate[0] >= 148 * MBPS && rate[1] > 0);

    for (uint32_t kind = R4; kind <= R128; kind++) {
        hosts(2, kind, 128, kind, 128);
        x.host[0].tenant.weight = 3;
        measure(200, 60);
        assert_in_range(rate[0] * 100 / rate[1], 285, 315);
    }
}

/* Small beside large, each kind with each, on both conditions; with the switch at several depths.
 */
static void test_nvmet_share_table(void **state)
{
    static const uint32_t depths[] = {32, 1, 128};
    (void)state;
    for (uint32_t n = 0; support_nightly() && n < 8 * KINDS * KINDS; n++) {
        uint32_t a = n / 8 / KINDS, b = n / 8 % KINDS;
        uint32_t fragmented = n / 4 % 2;
        if (kinds[a].size > 4096 || kinds[b].size == 4096)
            continue;
        for (size_t d = 0; d < (n % 2 == 0 ? SNIC_COUNTOF(depths) : 1); d++) {
            hosts(n / 2 % 2 == 0 ? 2 : 8, a, depths[d], b, 32);
            x.fifo = n % 2;
            x.condition = fragmented ? SNIC_SSD_FRAGMENTED : SNIC_SSD_CLEAN;
            print_message("%s\n", fragmented ? "fragmented" : "clean");
            measure(fragmented ? 500 : 200, fragmented ? 300 : 60);
            for (uint32_t i = 0; i < x.hosts; i++)
                assert_true(rate[i] > 0);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmet_share_cap_of_a_group),
        cmocka_unit_test(test_nvmet_share_cap_with_few_outstanding),
        cmocka_unit_test(test_nvmet_share_of_the_device),
        cmocka_unit_test(test_nvmet_share_caps_floors_weights),
        cmocka_unit_test(test_nvmet_share_table),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
