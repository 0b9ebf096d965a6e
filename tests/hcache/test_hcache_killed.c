/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Both sides killed at every step of a short story. The host's sources are compiled a second time,
 * so that it can die before each of its atomic operations and before each half of a page it writes;
 * the DPU dies before each piece of its DMA and each of its store operations.
 */
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>

static struct {
    jmp_buf leave;
    uint64_t at, steps; /* dies at this step; 0: never */
} death;

static void step(void)
{
    if (++death.steps == death.at)
        longjmp(death.leave, 1);
}

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_fetch_add_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#define PLAIN(at) ((uint64_t *)(uintptr_t)(at))
#define atomic_load_explicit(at, order) (step(), __atomic_load_n(PLAIN(at), __ATOMIC_SEQ_CST))
#define atomic_store_explicit(at, v, order)                                                        \
    (step(), __atomic_store_n(PLAIN(at), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_add_explicit(at, v, order)                                                    \
    (step(), __atomic_fetch_add(PLAIN(at), (v), __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong_explicit(at, e, v, order, failure)                          \
    (step(),                                                                                       \
     __atomic_compare_exchange_n(PLAIN(at), (e), (v), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_weak_explicit(at, e, v, order, failure)                            \
    atomic_compare_exchange_strong_explicit(at, e, v, order, failure)

#define hcache_attach second_hcache_attach_
#define hcache_geo_from second_hcache_geo_from
#define hcache_mended second_hcache_mended
#define hcache_guard_mended second_hcache_guard_mended
#define snic_hcache_memsize second_hcache_memsize
#define snic_hcache_init second_hcache_init
#define snic_hcache_opts_wrong second_hcache_opts_wrong
#define snic_hcache_geometry second_hcache_geometry
#define snic_hcache_place second_hcache_place
#define snic_hcache_host_attach second_hcache_host_attach
#define snic_hcache_get second_hcache_get
#define snic_hcache_put second_hcache_put
#define snic_hcache_lock second_hcache_lock
#define snic_hcache_unlock second_hcache_unlock
#define snic_hcache_dirty second_hcache_dirty
#define snic_hcache_drop second_hcache_drop
#define snic_hcache_wait_arm second_hcache_wait_arm
#define snic_hcache_recover second_hcache_recover
#include "hcache/host.c"
#include "hcache/layout.c"
#include "hcache/recover.c"

#include "test_hcache_util.h"

#include <stdio.h>

enum { LPNS = 8 };

static struct {
    struct hworld w;
    uint64_t committed[LPNS]; /* unlocked as dirty                     */
    uint64_t doing[LPNS];     /* the version under way, or 0           */
    uint64_t synced[LPNS];    /* what an answered fsync has promised   */
    int dropped[LPNS];        /* dropped, or just being dropped        */
    uint64_t version;
    uint64_t dpu_at, dpu_steps; /* the DPU dies at this step; 0: never */
    uint64_t at_fsync[LPNS];
    int dpu_died, fsync_lost;
} k;

/* The DPU does some of what it has to do, and perhaps dies. */
static void dpu_work(uint64_t steps)
{
    while (steps-- > 0) {
        if (++k.dpu_steps == k.dpu_at) {
            k.dpu_died = 1;
            k.fsync_lost = 1;
            hw_kill_dpu(&k.w);
            hw_restart(&k.w);
        }
        if (!hw_work(&k.w))
            hw_pass(&k.w, k.w.now + 20000);
    }
}

/* As a program would: while it is busy the DPU works. */
static void write_page(unsigned h, uint64_t lpn)
{
    struct snic_hcache_page page;
    int r, tries = 0;

    k.doing[lpn] = k.version + 1;
    while ((r = snic_hcache_lock(&k.w.host[h], 1, lpn, 0, &page)) != 0) {
        if (r == SNIC_EAGAIN)
            hw_event(&k.w, SNIC_HCACHE_EV_KICK, 0, 0, 0);
        dpu_work(60);
        assert_true(tries++ < 100000);
    }
    k.version++;
    step();
    hw_fill(page.data, k.w.info.page_bytes / 2, 1, lpn, k.version);
    dpu_work(2);
    step();
    hw_fill(page.data, k.w.info.page_bytes, 1, lpn, k.version);
    assert_int_equal(snic_hcache_unlock(&k.w.host[h], &page, SNIC_HCACHE_UNLOCK_DIRTY), 0);
    k.committed[lpn] = k.version;
    k.doing[lpn] = 0;
}

static void read_page(unsigned h, uint64_t lpn)
{
    struct snic_hcache_page page;
    int r = snic_hcache_get(&k.w.host[h], 1, lpn, &page);

    if (r == 0) {
        dpu_work(2);
        assert_int_equal(hw_version(page.data, k.w.info.page_bytes, 1, lpn), k.committed[lpn]);
        assert_int_equal(snic_hcache_put(&k.w.host[h], &page), 0);
    } else if (r == SNIC_ENOENT) {
        assert_int_equal(k.w.store[1][lpn].version, k.committed[lpn]);
        r = snic_hcache_lock(&k.w.host[h], 1, lpn, SNIC_HCACHE_FILL, &page);
        if (r != 0)
            return;
        step();
        hw_fill(page.data, k.w.info.page_bytes, 1, lpn, k.w.store[1][lpn].version);
        assert_int_equal(snic_hcache_unlock(&k.w.host[h], &page, SNIC_HCACHE_UNLOCK_FILLED), 0);
    }
    dpu_work(2);
}

static void fsync_file(void)
{
    uint64_t before = k.w.syncs;
    uint32_t i;

    memcpy(k.at_fsync, k.committed, sizeof(k.at_fsync));
    k.fsync_lost = 0;
    hw_event(&k.w, SNIC_HCACHE_EV_FSYNC, 1, 1, 0);
    while (k.w.syncs == before && !k.fsync_lost)
        dpu_work(1);
    for (i = 0; i < LPNS && !k.fsync_lost; i++) {
        k.synced[i] = k.dropped[i] ? 0 : k.at_fsync[i];
        assert_true(k.w.store[1][i].version >= k.synced[i]);
    }
}

static void drop_page(unsigned h, uint64_t lpn)
{
    uint64_t at = lpn;

    k.dropped[lpn] = 1;
    k.synced[lpn] = 0;
    while (snic_hcache_drop(&k.w.host[h], 1, &at, lpn) != 0)
        dpu_work(1);
    k.w.store[1][lpn].version = k.committed[lpn] = 0;
    step();
    k.dropped[lpn] = 0;
}

static void story(void)
{
    write_page(0, 0);
    read_page(1, 0);
    fsync_file();
    write_page(1, 0);
    dpu_work(5);
    write_page(0, 1);
    read_page(1, 0);
    write_page(0, 2);
    write_page(1, 3);
    dpu_work(20);
    read_page(0, 2);
    write_page(1, 4);
    fsync_file();
    read_page(1, 1);
    drop_page(0, 0);
    write_page(0, 5);
    read_page(1, 0);
    write_page(1, 0);
    write_page(0, 4);
    dpu_work(30);
}

static void open_world(uint64_t seed)
{
    struct snic_hcache_opts o = {sizeof(o), 512, 2, SNIC_HCACHE_MODE_WRITE, 4, 3};
    struct snic_hcache_control_opts co = {.opts_size = sizeof(co),
                                          .jobs = 3,
                                          .prefetch_max = 2,
                                          .look_ns = 20000,
                                          .flush_ns = 1000000};

    memset(&k, 0, sizeof(k));
    hw_open(&k.w, &o, &co, seed);
    hw_settle(&k.w, 1000000);
}

static void all_exact(void)
{
    struct snic_hcache_counts c;
    uint32_t i;

    hw_settle(&k.w, 10000000000);
    assert_true(snic_hcache_control_idle(k.w.c));
    if (k.w.failure != NULL)
        fail_msg("%s", k.w.failure);
    assert_int_equal(snic_hcache_check(k.w.mem, k.w.size, &c), 0);
    assert_int_equal(c.dirty + c.invalid + c.read_locked + c.write_locked + c.flights + c.guards,
                     0);
    for (i = 0; i < LPNS; i++) {
        uint64_t v = k.w.store[1][i].version;

        assert_true(v >= k.synced[i]);
        if (k.doing[i] != 0)
            assert_true(v <= k.doing[i]);
        else if (k.dropped[i])
            assert_true(v <= k.committed[i]);
        else
            assert_int_equal(v, k.committed[i]);
    }
}

/* Run @p body, which dies at step @p at: 1, or 0 it has not so many. */
static int dies(void (*body)(void), uint64_t at)
{
    death.at = at;
    death.steps = 0;
    if (setjmp(death.leave) != 0) {
        death.at = 0;
        return 1;
    }
    body();
    death.at = 0;
    return 0;
}

/* The host dies at step @p at: 1, or 0 the story has not so many. */
static int host_dies_at(uint64_t at, uint64_t seed)
{
    uint64_t before, rounds = 0;
    int died;

    open_world(seed);
    died = dies(story, at);
    if (died) {
        before = k.w.recovered;
        hw_event(&k.w, SNIC_HCACHE_EV_HOST_DEAD, 0, 0, 0);
        while (k.w.recovered == before && rounds++ < 1000000)
            if (!hw_work(&k.w))
                hw_pass(&k.w, SNIC_NEVER);
        assert_true(k.w.recovered != before);
    }
    all_exact();
    hw_close(&k.w);
    return died;
}

static void test_hcache_host_killed_at_every_step(void **state)
{
    uint64_t seed, at, cases = 0;
    uint64_t seeds = support_scale(4, 200);

    (void)state;
    for (seed = 0; seed < seeds; seed++)
        for (at = 1; host_dies_at(at, support_seed() * 100 + seed); at++)
            cases++;
    print_message("%u deaths of the host\n", (unsigned)cases);
    assert_true(cases > seeds * 200);
}

static int dpu_dies_at(uint64_t at, uint64_t seed)
{
    int died;

    open_world(seed);
    death.at = 0;
    k.dpu_at = at;
    story();
    died = k.dpu_died;
    all_exact();
    hw_close(&k.w);
    return died;
}

static void test_hcache_dpu_killed_at_every_step(void **state)
{
    uint64_t seed, at, cases = 0;
    uint64_t seeds = support_scale(4, 200);

    (void)state;
    for (seed = 0; seed < seeds; seed++)
        for (at = 1; dpu_dies_at(at, support_seed() * 100 + seed); at++)
            cases++;
    print_message("%u deaths of the DPU\n", (unsigned)cases);
    assert_true(cases > seeds * 100);
}

static void recovery(void)
{
    assert_true(snic_hcache_recover(k.w.mem, k.w.size, SNIC_HCACHE_HOST) >= 0);
    assert_true(snic_hcache_recover(k.w.mem, k.w.size, SNIC_HCACHE_DPU) >= 0);
}

/* Recovery itself dies at every step, and is run again. */
static void test_hcache_recovery_killed_at_every_step(void **state)
{
    uint64_t at, second, cases = 0;
    int died, more = 1;

    (void)state;
    for (at = 20; more; at += 7) {
        died = 1;
        for (second = 1; died; second++) {
            open_world(support_seed());
            more = dies(story, at); /* the last time it lives on, and is only stopped */
            hw_kill_dpu(&k.w);      /* both are dead */
            died = dies(recovery, second);
            cases++;
            recovery();
            hw_restart(&k.w);
            all_exact();
            hw_close(&k.w);
        }
    }
    print_message("%u deaths of recovery\n", (unsigned)cases);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcache_host_killed_at_every_step),
        cmocka_unit_test(test_hcache_dpu_killed_at_every_step),
        cmocka_unit_test(test_hcache_recovery_killed_at_every_step),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
