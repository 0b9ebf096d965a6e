/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Neither side trusts the other. The region's meta area is overwritten at random, states, tags,
 * keys, guards, links and the map, while both sides work on it: any answer will do, but no access
 * outside the region or the engine's memory (both have guard pages), no endless loop, and an engine
 * that is left alone with an honest region afterwards works again.
 */
#include "test_hcache_util.h"

#include <string.h>

/* Overwrite something behind the header. */
static void scribble(struct hworld *w)
{
    uint64_t words = (w->info.data_offset - SNIC_HCACHE_HEADER_BYTES) / 8;
    uint64_t at = SNIC_HCACHE_HEADER_BYTES + snic_rng_below(&w->rng, words) * 8;
    uint64_t v = snic_get_le64((char *)w->mem + at);

    switch (snic_rng_below(&w->rng, 4)) {
    case 0:
        v = snic_rng_next(&w->rng);
        break;
    case 1:
        v ^= UINT64_C(1) << snic_rng_below(&w->rng, 64);
        break;
    case 2:
        v ^= snic_rng_below(&w->rng, 1 << 22);
        break;
    default:
        v = snic_rng_below(&w->rng, 2) - 1;
        break;
    }
    snic_put_le64((char *)w->mem + at, v);
}

static void some_result(int r)
{
    assert_true(r >= 0 || r == SNIC_EBUSY || r == SNIC_ENOENT || r == SNIC_EAGAIN ||
                r == SNIC_EEXIST || r == SNIC_ESTALE || r == SNIC_EROFS);
}

static void host_works(struct hworld *w)
{
    struct snic_hcache_host *h = &w->host[snic_rng_below(&w->rng, HW_HOSTS)];
    uint64_t ino = snic_rng_below(&w->rng, HW_INOS);
    uint64_t lpn = snic_rng_below(&w->rng, HW_LPNS);
    struct snic_hcache_page page;
    unsigned char out[512];
    int r;

    switch (snic_rng_below(&w->rng, 6)) {
    case 0:
        some_result(snic_hcache_read(h, ino, lpn, 0, 512, out));
        break;
    case 1:
        some_result(
            snic_hcache_drop(h, ino, &lpn, snic_rng_below(&w->rng, 2) ? UINT64_MAX : lpn + 3));
        break;
    case 2:
        snic_hcache_wait_arm(h);
        hw_event(w, SNIC_HCACHE_EV_KICK, 0, 0, 0);
        hw_event(w, SNIC_HCACHE_EV_MISS, 0, ino, lpn);
        break;
    case 3:
        hw_event(w, SNIC_HCACHE_EV_FSYNC, 1, ino, 0);
        break;
    default:
        r = snic_hcache_lock(h, ino, lpn, (uint32_t)snic_rng_below(&w->rng, 3), &page);
        some_result(r);
        if (r != 0)
            return;
        memset(page.data, 1, 512);
        if (snic_rng_below(&w->rng, 4) == 0)
            scribble(w);
        some_result(snic_hcache_unlock(h, &page, (enum snic_hcache_how)snic_rng_below(&w->rng, 4)));
        break;
    }
}

static void rounds_of(uint32_t ways, uint64_t pages, uint64_t seed)
{
    struct snic_hcache_opts o = {sizeof(o), 512, ways, SNIC_HCACHE_MODE_WRITE, pages, 3};
    struct snic_hcache_control_opts co = {.opts_size = sizeof(co),
                                          .jobs = 5,
                                          .prefetch_max = 4,
                                          .look_ns = 20000,
                                          .flush_ns = 1000000};
    struct hworld w;
    uint64_t i;

    hw_open(&w, &o, &co, seed);
    w.hostile = 1;
    for (i = 0; i < 4000; i++) {
        uint64_t dice = snic_rng_below(&w.rng, 100);

        if (dice < 20)
            host_works(&w);
        else if (dice < 85)
            (void)hw_work(&w);
        else if (dice < 95)
            hw_pass(&w, w.now + 50000);
        else if (dice < 99)
            scribble(&w);
        else if (snic_rng_below(&w.rng, 8) == 0)
            hw_event(&w, SNIC_HCACHE_EV_HOST_DEAD, 0, 0, 0);
        if (i % 256 == 0) {
            (void)(snic_hcache_check(w.mem, w.size, NULL) == 0);
            some_result(snic_hcache_recover(
                w.mem, w.size, snic_rng_below(&w.rng, 2) ? SNIC_HCACHE_HOST : SNIC_HCACHE_DPU));
        }
    }
    hw_close(&w);
}

static void test_hcache_hostile_meta_area(void **state)
{
    uint64_t n = support_rounds(300, 20000);
    uint64_t i;

    (void)state;
    for (i = 0; i < n; i++)
        rounds_of(1 + (uint32_t)(i % 16), (1 + i % 16) * (1 + i % 5), support_seed() * 1000 + i);
}

/* Every word of a page's entry and of its bucket's head, with values that lie about everything. */
static void test_hcache_hostile_single_words(void **state)
{
    struct snic_hcache_opts o = {sizeof(o), 512, 4, SNIC_HCACHE_MODE_WRITE, 8, 3};
    struct snic_hcache_control_opts co = {
        .opts_size = sizeof(co), .jobs = 3, .look_ns = 20000, .flush_ns = 1000000};
    const uint64_t lies[] = {0,
                             1,
                             2,
                             3,
                             5,
                             9,
                             13,
                             15,
                             UINT64_MAX,
                             UINT64_C(1) << 63,
                             (UINT64_C(1023) << 4) | 6,
                             UINT64_C(0x7fffffff7fffffff),
                             UINT64_C(0xff000001),
                             (UINT64_C(1) << 14) | 10,
                             (UINT64_C(3) << 15) | 8};
    uint64_t word, lie;

    (void)state;
    for (word = SNIC_HCACHE_HEADER_BYTES / 8; word < 512 / 8 + 2 * (64 + 4 * 32) / 8; word++)
        for (lie = 0; lie < SNIC_COUNTOF(lies); lie++) {
            struct snic_hcache_page page;
            struct hworld w;
            int i;

            hw_open(&w, &o, &co, support_seed());
            w.hostile = 1;
            hw_settle(&w, 100000);
            for (i = 0; i < 6; i++)
                if (snic_hcache_lock(&w.host[0], 1, (uint64_t)i, 0, &page) == 0)
                    assert_int_equal(
                        snic_hcache_unlock(&w.host[0], &page, SNIC_HCACHE_UNLOCK_DIRTY), 0);
            snic_put_le64((char *)w.mem + word * 8, lies[lie]);
            for (i = 0; i < 40; i++)
                host_works(&w);
            hw_settle(&w, 3000000);
            for (i = 0; i < 20; i++)
                host_works(&w);
            hw_close(&w);
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcache_hostile_meta_area),
        cmocka_unit_test(test_hcache_hostile_single_words),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
