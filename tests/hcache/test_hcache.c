/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The contract of the hybrid cache: every result reached, state unchanged after errors. */
#include "golden.h"
#include "test_hcache_util.h"

#include <stdlib.h>
#include <string.h>

static const struct snic_hcache_opts small = {sizeof(small), 512, 4, SNIC_HCACHE_MODE_WRITE, 8, 7};
static const struct snic_hcache_control_opts plain = {.opts_size = sizeof(plain),
                                                      .jobs = 8,
                                                      .prefetch_max = SNIC_HCACHE_NO_PREFETCH,
                                                      .look_ns = 100000,
                                                      .flush_ns = 1000000};

static void lock_write(struct hworld *w, int h, uint64_t ino, uint64_t lpn, uint64_t version)
{
    struct snic_hcache_page page;

    assert_int_equal(snic_hcache_lock(&w->host[h], ino, lpn, 0, &page), 0);
    hw_fill(page.data, w->info.page_bytes, ino, lpn, version);
    assert_int_equal(snic_hcache_unlock(&w->host[h], &page, SNIC_HCACHE_UNLOCK_DIRTY), 0);
}

/* UINT64_MAX - 1: not there. */
static uint64_t read_version(struct hworld *w, int h, uint64_t ino, uint64_t lpn)
{
    unsigned char out[4096];
    int r = snic_hcache_read(&w->host[h], ino, lpn, 0, w->info.page_bytes, out);

    if (r == SNIC_ENOENT)
        return UINT64_MAX - 1;
    assert_true(r >= 0);
    return hw_version(out, w->info.page_bytes, ino, lpn);
}

static struct snic_hcache_counts counts(struct hworld *w)
{
    struct snic_hcache_counts c;

    assert_int_equal(snic_hcache_check(w->mem, w->size, &c), 0);
    return c;
}

static void test_hcache_options_out_of_range_refused(void **state)
{
    struct snic_hcache_opts o = small;
    unsigned char *mem = support_guard_alloc(snic_hcache_memsize(&small), SNIC_HCACHE_ALIGN);
    size_t size = snic_hcache_memsize(&small);
    unsigned char header[SNIC_HCACHE_HEADER_BYTES];
    struct snic_hcache_info info;
    struct snic_hcache_host h;
    size_t i;

    (void)state;
    o.page_bytes = 1000;
    assert_int_equal(snic_hcache_memsize(&o), 0);
    o = small;
    o.pages = 9;
    assert_int_equal(snic_hcache_memsize(&o), 0);
    o.pages = 0;
    assert_int_equal(snic_hcache_memsize(&o), 0);
    o.pages = (UINT64_C(1) << 31) + 4;
    assert_int_equal(snic_hcache_memsize(&o), 0);
    o = small;
    o.ways = 17;
    assert_int_equal(snic_hcache_memsize(&o), 0);
    o = small;
    o.mode = 2;
    assert_int_equal(snic_hcache_memsize(&o), 0);
    assert_int_equal(snic_hcache_init(mem, size - 1, &small), SNIC_ENOSPC);
    assert_int_equal(mem[0], 0xa5);
    assert_int_equal(snic_hcache_init(mem + 512, size, &small), SNIC_EINVAL);
    assert_int_equal(snic_hcache_init(mem, size, &small), 0);
    assert_int_equal(snic_hcache_geometry(mem, size - 1, &info), SNIC_ENOSPC);
    assert_int_equal(snic_hcache_geometry(mem, size, &info), 0);
    assert_int_equal(info.memory_bytes, size);
    assert_int_equal(snic_hcache_host_attach(&h, mem, size, 0, 0), SNIC_EINVAL);
    assert_int_equal(snic_hcache_host_attach(&h, mem, size, 255, 0), SNIC_EINVAL);
    assert_int_equal(snic_hcache_host_attach(&h, mem, 100, 1, 0), SNIC_ENOSPC);
    for (i = 0; i < sizeof(header); i++) { /* a header with any byte changed is none */
        int r;

        memcpy(header, mem, sizeof(header));
        header[i] ^= 0x41;
        r = snic_hcache_geometry(header, size, &info);
        assert_true(r == (i < 12 ? SNIC_EVERSION : SNIC_ECORRUPT));
    }
    assert_int_equal(snic_hcache_recover(mem, size, (enum snic_hcache_side)3), SNIC_EINVAL);
    support_guard_free(mem);
}

static void test_hcache_write_then_read_hits(void **state)
{
    struct hworld w;
    struct snic_hcache_page page;

    (void)state;
    hw_open(&w, &small, &plain, support_seed());
    assert_int_equal(counts(&w).free, 8);
    assert_int_equal(snic_hcache_get(&w.host[0], 1, 1, &page), SNIC_ENOENT);
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 1, SNIC_HCACHE_PRESENT, &page), SNIC_ENOENT);
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 1, 3, &page), SNIC_EINVAL);
    lock_write(&w, 0, 1, 1, 5);
    assert_int_equal(read_version(&w, 1, 1, 1), 5);
    lock_write(&w, 1, 1, 1, 6);
    assert_int_equal(read_version(&w, 0, 1, 1), 6);
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 1, SNIC_HCACHE_FILL, &page), SNIC_EEXIST);
    assert_int_equal(counts(&w).dirty, 1);
    assert_int_equal(counts(&w).header_free, 7);
    assert_int_equal(snic_hcache_read(&w.host[0], 1, 1, 500, 13, w.mem), SNIC_EINVAL);
    hw_close(&w);
}

static void test_hcache_locked_page_busy(void **state)
{
    struct hworld w;
    struct snic_hcache_page a, b, c;
    uint64_t lpn = 2;

    (void)state;
    hw_open(&w, &small, &plain, support_seed());
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 2, SNIC_HCACHE_FILL, &a), 0);
    assert_true((a.flags & SNIC_HCACHE_NEW) != 0);
    assert_int_equal(snic_hcache_get(&w.host[1], 1, 2, &b), SNIC_EBUSY);
    assert_int_equal(snic_hcache_lock(&w.host[1], 1, 2, 0, &b), SNIC_EBUSY);
    assert_int_equal(snic_hcache_drop(&w.host[1], 1, &lpn, 2), SNIC_EBUSY);
    assert_int_equal(lpn, 2);
    hw_fill(a.data, 512, 1, 2, 3);
    assert_int_equal(snic_hcache_unlock(&w.host[0], &a, (enum snic_hcache_how)4), SNIC_EINVAL);
    assert_int_equal(snic_hcache_unlock(&w.host[0], &a, SNIC_HCACHE_UNLOCK_FILLED), 0);
    assert_int_equal(counts(&w).clean, 1);
    assert_int_equal(snic_hcache_get(&w.host[0], 1, 2, &a), 0);
    assert_int_equal(snic_hcache_get(&w.host[1], 1, 2, &b), 0);
    assert_int_equal(snic_hcache_lock(&w.host[2], 1, 2, 0, &c), SNIC_EBUSY);
    assert_int_equal(snic_hcache_put(&w.host[0], &a), 0);
    assert_int_equal(snic_hcache_lock(&w.host[2], 1, 2, 0, &c), SNIC_EBUSY);
    assert_int_equal(counts(&w).read_locked, 1);
    assert_int_equal(snic_hcache_put(&w.host[1], &b), 0);
    assert_int_equal(snic_hcache_lock(&w.host[2], 1, 2, 0, &c), 0);
    assert_int_equal(c.flags & SNIC_HCACHE_NEW, 0);
    assert_int_equal(snic_hcache_unlock(&w.host[2], &c, SNIC_HCACHE_UNLOCK_KEEP), 0);
    assert_int_equal(counts(&w).clean, 1);
    lpn = 0;
    assert_int_equal(snic_hcache_drop(&w.host[1], 1, &lpn, UINT64_MAX), 0);
    assert_int_equal(counts(&w).free, 8);
    assert_int_equal(counts(&w).header_free, 8);
    hw_close(&w);
}

static void test_hcache_read_cache_takes_no_dirty_page(void **state)
{
    struct snic_hcache_opts o = small;
    struct snic_hcache_page page;
    struct hworld w;

    (void)state;
    o.mode = SNIC_HCACHE_MODE_READ;
    hw_open(&w, &o, &plain, support_seed());
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 2, 0, &page), 0);
    assert_int_equal(snic_hcache_unlock(&w.host[0], &page, SNIC_HCACHE_UNLOCK_DIRTY), SNIC_EROFS);
    assert_int_equal(snic_hcache_unlock(&w.host[0], &page, SNIC_HCACHE_UNLOCK_KEEP), 0);
    assert_int_equal(counts(&w).free, 8); /* a new page, not filled */
    hw_close(&w);
}

/* A bucket without reserve: EAGAIN until the control plane has flushed. */
static void test_hcache_full_bucket_flushes_and_replaces(void **state)
{
    struct snic_hcache_page page;
    struct hworld w;
    uint64_t lpn;
    int r = 0;

    (void)state;
    hw_open(&w, &small, &plain, support_seed());
    for (lpn = 0; lpn < 16 && r == 0; lpn++) {
        r = snic_hcache_lock(&w.host[0], 2, lpn, 0, &page);
        if (r == 0) {
            hw_fill(page.data, 512, 2, lpn, lpn + 1);
            assert_int_equal(snic_hcache_unlock(&w.host[0], &page, SNIC_HCACHE_UNLOCK_DIRTY), 0);
        }
    }
    assert_int_equal(r, SNIC_EAGAIN);
    hw_event(&w, SNIC_HCACHE_EV_KICK, 0, 0, 0);
    hw_settle(&w, 100000);
    assert_int_equal(snic_hcache_lock(&w.host[0], 2, lpn - 1, 0, &page), 0);
    hw_fill(page.data, 512, 2, lpn - 1, 99);
    assert_int_equal(snic_hcache_unlock(&w.host[0], &page, SNIC_HCACHE_UNLOCK_DIRTY), 0);
    assert_int_equal(w.host[0].stats.replaced, 1);
    hw_settle(&w, 100000000);
    assert_true(snic_hcache_control_idle(w.c));
    assert_int_equal(counts(&w).dirty, 0);
    assert_int_equal(w.store[2][lpn - 1].version, 99);
    for (lpn = 0; lpn < 4; lpn++)
        assert_int_equal(w.store[2][lpn].version, lpn + 1);
    assert_null(w.failure);
    assert_int_equal(w.recovered_dpu, 1);
    hw_close(&w);
}

/* Only victims are replaced, and a victim that is hit is none any more. */
static void test_hcache_victim_that_is_hit_stays(void **state)
{
    struct snic_hcache_opts o = {sizeof(o), 512, 4, SNIC_HCACHE_MODE_WRITE, 4, 7};
    struct snic_hcache_page page;
    struct hworld w;
    uint64_t lpn;
    int tries;

    (void)state;
    hw_open(&w, &o, &plain, support_seed());
    hw_settle(&w, 100000);
    for (lpn = 0; lpn < 4; lpn++) {
        assert_int_equal(snic_hcache_lock(&w.host[0], 1, lpn, SNIC_HCACHE_FILL, &page), 0);
        hw_fill(page.data, 512, 1, lpn, 0);
        assert_int_equal(snic_hcache_unlock(&w.host[0], &page, SNIC_HCACHE_UNLOCK_FILLED), 0);
    }
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 9, 0, &page), SNIC_EAGAIN);
    hw_event(&w, SNIC_HCACHE_EV_KICK, 0, 0, 0);
    hw_settle(&w, 200000);
    assert_int_equal(counts(&w).victims, 1);
    for (tries = 0; tries < 4; tries++) /* one of them is it */
        assert_int_equal(read_version(&w, 0, 1, (uint64_t)tries), 0);
    assert_int_equal(counts(&w).victims, 0);
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 9, 0, &page), SNIC_EAGAIN);
    hw_event(&w, SNIC_HCACHE_EV_KICK, 0, 0, 0);
    hw_settle(&w, 200000);
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 9, 0, &page), 0);
    assert_int_equal(snic_hcache_unlock(&w.host[0], &page, SNIC_HCACHE_UNLOCK_DROP), 0);
    assert_int_equal(counts(&w).clean, 3);
    hw_close(&w);
}

/* Pages used once leave before pages used twice, and what comes back is kept. */
static void test_hcache_policy_scan_leaves_hot_pages(void **state)
{
    const struct snic_hcache_policy *p = snic_hcache_policy_default();
    struct snic_hcache_way ways[16];
    unsigned char mem[SNIC_HCACHE_POLICY_BYTES];
    uint32_t i, round, hot = 0;

    (void)state;
    assert_true(p->state_bytes <= sizeof(mem));
    memset(mem, 0, sizeof(mem));
    memset(ways, 0, sizeof(ways));
    for (i = 0; i < 16; i++) {
        ways[i].print = i + 1;
        ways[i].flags = SNIC_HCACHE_WAY_USED | SNIC_HCACHE_WAY_IDLE;
        ways[i].hits = i < 8 ? 3 : 0;
    }
    for (round = 0; round < 200; round++) { /* a scan: each victim becomes a page never seen */
        uint32_t named = p->choose(mem, ways, 16, 1);

        assert_int_equal(__builtin_popcount(named), 1);
        i = (uint32_t)__builtin_ctz(named);
        ways[i].print = 1000 + round;
        ways[i].hits = 0;
        for (i = 0; i < 16 && round % 8 == 0; i++) /* the hot ones are used now and then */
            if (ways[i].print <= 8)
                ways[i].hits = 3;
    }
    for (i = 0; i < 16; i++)
        hot += ways[i].print <= 8;
    assert_int_equal(hot, 8);
    assert_int_equal(p->choose(mem, ways, 16, 0), 0);
}

static void test_hcache_fsync_waits_for_its_pages(void **state)
{
    struct snic_hcache_page page;
    struct hworld w;
    uint64_t i;

    (void)state;
    hw_open(&w, &small, &plain, support_seed());
    hw_settle(&w, 1000);
    lock_write(&w, 0, 1, 1, 5);
    lock_write(&w, 0, 2, 1, 7);
    hw_event(&w, SNIC_HCACHE_EV_FSYNC, 42, 1, 0);
    hw_settle(&w, 100000);
    assert_int_equal(w.synced_id, 42);
    assert_int_equal(w.synced_result, 0);
    assert_int_equal(w.durable[1][1], 5);
    /* a page that is being written, but was dirty before, is waited for */
    lock_write(&w, 0, 1, 1, 6);
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 1, 0, &page), 0);
    hw_event(&w, SNIC_HCACHE_EV_FSYNC, 43, 1, 0);
    hw_settle(&w, 1000000);
    assert_int_equal(w.synced_id, 42);
    hw_fill(page.data, 512, 1, 1, 8);
    assert_int_equal(snic_hcache_unlock(&w.host[0], &page, SNIC_HCACHE_UNLOCK_DIRTY), 0);
    hw_settle(&w, 1000000);
    assert_int_equal(w.synced_id, 43);
    assert_int_equal(w.durable[1][1], 8);
    /* a store that fails is reported, the page stays dirty and is flushed when it works */
    lock_write(&w, 0, 1, 1, 9);
    w.store_result = SNIC_EIO;
    hw_event(&w, SNIC_HCACHE_EV_FSYNC, 44, 1, 0);
    hw_settle(&w, 1000000);
    assert_int_equal(w.synced_id, 44);
    assert_int_equal(w.synced_result, SNIC_EIO);
    assert_int_equal(counts(&w).dirty, 1);
    w.store_result = 0;
    hw_settle(&w, 100000000);
    assert_int_equal(counts(&w).dirty, 0);
    assert_int_equal(w.store[1][1].version, 9);
    for (i = 0; i < SNIC_HCACHE_FSYNCS; i++)
        hw_event(&w, SNIC_HCACHE_EV_FSYNC, 100 + i, 1, 0);
    {
        struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_FSYNC, .ino = 1};

        assert_int_equal(hw_step(&w, &ev), SNIC_EAGAIN);
        ev.kind = 99;
        assert_int_equal(hw_step(&w, &ev), SNIC_EINVAL);
        ev.kind = SNIC_HCACHE_EV_FLUSHED;
        ev.id = 12345;
        assert_int_equal(hw_step(&w, &ev), SNIC_ENOENT);
    }
    hw_settle(&w, 1000000);
    assert_int_equal(w.syncs, 3 + SNIC_HCACHE_FSYNCS);
    assert_null(w.failure);
    hw_close(&w);
}

/* A store that refuses pages is tried by one page at a time, after pauses that grow; an fsync does
   not wait for that, and when the store takes pages again all are written within a pause. */
static void test_hcache_refusing_store_is_tried_less_and_less(void **state)
{
    struct hworld w;
    uint64_t before;
    uint64_t lpn;

    (void)state;
    hw_open(&w, &small, &plain, support_seed());
    hw_settle(&w, 1000);
    for (lpn = 0; lpn < 6; lpn++)
        lock_write(&w, 0, 1, lpn, 5);
    w.store_result = SNIC_ENOSPC;
    hw_settle(&w, UINT64_C(2000000000));
    before = hw_stats(w.c).flush_failures;
    assert_in_range(before, 2, 40);
    hw_settle(&w, UINT64_C(10000000000));
    assert_in_range(hw_stats(w.c).flush_failures, before + 5, before + 15);
    assert_int_equal(snic_hcache_dirty(&w.host[0]), 6);
    before = w.now;
    hw_event(&w, SNIC_HCACHE_EV_FSYNC, 7, 1, 0);
    while (w.synced_id != 7 && w.now - before < 100000000)
        hw_settle(&w, 1000000);
    assert_int_equal(w.synced_id, 7);
    assert_int_equal(w.synced_result, SNIC_ENOSPC);
    w.store_result = 0;
    hw_settle(&w, UINT64_C(1500000000));
    assert_int_equal(counts(&w).dirty, 0);
    assert_int_equal(snic_hcache_dirty(&w.host[0]), 0);
    assert_null(w.failure);
    hw_close(&w);
}

/* Rewritten while the store writes the old content: dirty it stays, and both arrive in order. */
static void test_hcache_rewritten_in_flight_stays_dirty(void **state)
{
    struct snic_hcache_page page;
    struct hworld w;
    uint64_t i;
    int found = 0;

    (void)state;
    hw_open(&w, &small, &plain, support_seed());
    hw_settle(&w, 1000);
    lock_write(&w, 0, 1, 1, 5);
    hw_event(&w, SNIC_HCACHE_EV_FSYNC, 1, 1, 0);
    while (!found) {
        for (i = 0; i < HW_PENDING; i++)
            found |= w.pending[i].live && w.pending[i].a.kind == SNIC_HCACHE_ACT_FLUSH;
        if (!found)
            assert_true(hw_work(&w));
    }
    assert_int_equal(counts(&w).flights, 1);
    i = 1;
    assert_int_equal(snic_hcache_drop(&w.host[0], 1, &i, 1), SNIC_EBUSY);
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 1, SNIC_HCACHE_DIRECT, &page), SNIC_EBUSY);
    lock_write(&w, 0, 1, 1, 6);
    hw_settle(&w, 200000);
    assert_int_equal(w.synced_id, 1);
    hw_settle(&w, 100000000);
    assert_int_equal(w.store[1][1].version, 6);
    assert_true(hw_stats(w.c).flush_again >= 1);
    assert_int_equal(counts(&w).flights, 0);
    assert_null(w.failure);
    hw_close(&w);
}

static void test_hcache_sequential_misses_prefetch(void **state)
{
    struct snic_hcache_opts o = {sizeof(o), 512, 8, SNIC_HCACHE_MODE_WRITE, 64, 7};
    struct snic_hcache_control_opts co = plain;
    struct hworld w;
    uint64_t lpn, misses = 0;

    (void)state;
    co.prefetch_max = 16;
    hw_open(&w, &o, &co, support_seed());
    hw_settle(&w, 1000000);
    for (lpn = 0; lpn < HW_LPNS; lpn++)
        w.store[3][lpn].version = 1000 + lpn;
    for (lpn = 0; lpn < HW_LPNS; lpn++) {
        unsigned char out[512];
        int r = snic_hcache_read(&w.host[0], 3, lpn, 0, 512, out);

        if (r == SNIC_ENOENT) {
            misses++;
            hw_event(&w, SNIC_HCACHE_EV_MISS, 0, 3, lpn);
        } else {
            assert_int_equal(hw_version(out, 512, 3, lpn), 1000 + lpn);
            if (r == SNIC_HCACHE_AHEAD)
                hw_event(&w, SNIC_HCACHE_EV_AHEAD, 0, 3, lpn);
        }
        hw_settle(&w, 300000);
    }
    print_message("%u misses\n", (unsigned)misses);
    assert_true(misses <= 3); /* the first ones: everything else came ahead */
    assert_true(w.host[0].stats.useful >= HW_LPNS - 3);
    (void)counts(&w);
    hw_close(&w);
}

static void test_hcache_seal_refused_sum_drops_page(void **state)
{
    struct snic_hcache_control_opts co = plain;
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_FETCHED, .summed = 1, .sum = 1};
    struct hworld w;
    int tries;

    (void)state;
    co.prefetch_max = 4;
    hw_open(&w, &small, &co, support_seed());
    hw_settle(&w, 1000);
    hw_event(&w, SNIC_HCACHE_EV_MISS, 0, 1, 0);
    for (tries = 0; tries < 1000 && ev.id == 0; tries++) {
        uint32_t i;

        for (i = 0; i < HW_PENDING; i++)
            if (w.pending[i].live && w.pending[i].a.kind == SNIC_HCACHE_ACT_FETCH) {
                ev.id = w.pending[i].a.id;
                ev.bytes = 512;
                memset(w.pending[i].a.data, 0, 512);
                w.pending[i].live = 0;
                w.pendings--;
                break;
            }
        if (ev.id == 0)
            assert_true(hw_work(&w));
    }
    assert_int_equal(hw_step(&w, &ev), 0);
    hw_settle(&w, 1000000);
    assert_int_equal(hw_stats(w.c).bad_sums, 1);
    (void)counts(&w);
    hw_close(&w);
}

/* A page of one byte repeated packs into that byte. */
static uint32_t toy_pack(void *ctx, const void *page, uint32_t bytes, void *out)
{
    const unsigned char *p = page;
    uint32_t i;

    ++*(int *)ctx;
    for (i = 1; i < bytes; i++)
        if (p[i] != p[0])
            return 0;
    *(unsigned char *)out = p[0];
    return 1;
}

static int toy_unpack(void *ctx, const void *packed, uint32_t packed_bytes, void *page,
                      uint32_t bytes)
{
    ++*(int *)ctx;
    if (packed_bytes != 1)
        return SNIC_ECORRUPT;
    memset(page, *(const unsigned char *)packed, bytes);
    return 0;
}

/* The world's next pending action of this kind. */
static struct hw_pending *pending_of(struct hworld *w, uint32_t kind)
{
    for (;;) {
        uint32_t i;

        for (i = 0; i < HW_PENDING; i++)
            if (w->pending[i].live && w->pending[i].a.kind == kind)
                return &w->pending[i];
        if (!hw_work(w))
            hw_pass(w, SNIC_NEVER);
    }
}

static void test_hcache_seal_packs_and_unpacks(void **state)
{
    struct snic_hcache_seal toy = *snic_hcache_seal_crc();
    struct snic_hcache_control_opts co = plain;
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_FETCHED, .summed = 1, .bytes = 1};
    struct snic_hcache_page page;
    struct hw_pending *p;
    struct hworld w;
    unsigned char out[512], want[512];
    int calls = 0;

    (void)state;
    toy.pack = toy_pack;
    toy.unpack = toy_unpack;
    co.seal = &toy;
    co.seal_ctx = &calls;
    co.prefetch_max = 4;
    hw_open(&w, &small, &co, support_seed());
    w.hostile = 1; /* the store does not know these contents */
    hw_settle(&w, 100000);
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 3, 0, &page), 0);
    memset(page.data, 7, 512);
    assert_int_equal(snic_hcache_unlock(&w.host[0], &page, SNIC_HCACHE_UNLOCK_DIRTY), 0);
    hw_event(&w, SNIC_HCACHE_EV_FSYNC, 1, 1, 0);
    p = pending_of(&w, SNIC_HCACHE_ACT_FLUSH);
    assert_int_equal(p->a.packed, 1);
    assert_int_equal(p->a.bytes, 1);
    assert_int_equal(*(unsigned char *)p->a.data, 7);
    memset(want, 7, sizeof(want));
    assert_int_equal(p->a.sum, toy.sum(NULL, 1, 3, want, 512)); /* of the page as it is read */
    hw_settle(&w, 1000000);
    /* and back: the page that follows the first miss of another file */
    hw_event(&w, SNIC_HCACHE_EV_MISS, 0, 2, 0);
    p = pending_of(&w, SNIC_HCACHE_ACT_FETCH);
    *(unsigned char *)p->a.data = 9;
    memset(want, 9, sizeof(want));
    ev.id = p->a.id;
    ev.lpn = p->a.lpn;
    ev.sum = toy.sum(NULL, 2, ev.lpn, want, 512);
    p->live = 0;
    w.pendings--;
    assert_int_equal(hw_step(&w, &ev), 0);
    hw_settle(&w, 1000000);
    assert_true(snic_hcache_read(&w.host[0], 2, ev.lpn, 0, 512, out) >= 0);
    assert_memory_equal(out, want, 512);
    assert_int_equal(calls, 2);
    assert_int_equal(hw_stats(w.c).bad_sums, 0);
    hw_close(&w);
}

static void test_hcache_read_n_gives_each_its_result(void **state)
{
    struct snic_hcache_req reqs[20];
    unsigned char out[20][512];
    struct hworld w;
    uint32_t i;

    (void)state;
    hw_open(&w, &small, &plain, support_seed());
    lock_write(&w, 0, 1, 3, 30);
    lock_write(&w, 0, 1, 4, 40);
    for (i = 0; i < 20; i++)
        reqs[i] = (struct snic_hcache_req){1, i % 6, 0, i == 9 ? 513 : 512, out[i], 0, 0};
    assert_int_equal(snic_hcache_read_n(&w.host[0], reqs, 20), 5);
    for (i = 0; i < 20; i++) {
        if (i == 9)
            assert_int_equal(reqs[i].result, SNIC_EINVAL);
        else if (i % 6 == 3 || i % 6 == 4)
            assert_int_equal(hw_version(out[i], 512, 1, i % 6), i % 6 * 10);
        else
            assert_int_equal(reqs[i].result, SNIC_ENOENT);
    }
    hw_close(&w);
}

/* A visit is under way, in every state it can be in, when something happens that it has not seen.
 */
static void visit_under_way(struct hworld *w, uint64_t seed)
{
    static const struct snic_hcache_opts o = {sizeof(o), 512, 4, SNIC_HCACHE_MODE_WRITE, 4, 7};
    struct snic_hcache_page page;
    uint64_t i;

    hw_open(w, &o, &plain, seed);
    hw_settle(w, 100000);
    for (i = 0; i < 3 + seed % 2; i++) {
        assert_int_equal(snic_hcache_lock(&w->host[0], 1, i, SNIC_HCACHE_FILL, &page), 0);
        hw_fill(page.data, 512, 1, i, 0);
        assert_int_equal(snic_hcache_unlock(&w->host[0], &page, SNIC_HCACHE_UNLOCK_FILLED), 0);
        (void)read_version(w, 0, 1, seed % 3);
    }
    hw_event(w, SNIC_HCACHE_EV_KICK, 0, 0, 0);
    for (i = seed % 17; i > 0; i--)
        (void)hw_work(w);
}

/* A page becomes dirty behind a visit's back, and then fsync is asked for. */
static void test_hcache_fsync_during_visit_waits(void **state)
{
    struct hworld w;
    uint64_t seed;

    (void)state;
    for (seed = 0; seed < 2000; seed++) {
        visit_under_way(&w, support_seed() * 10000 + seed);
        lock_write(&w, 1, 1, seed % 3, 77);
        hw_event(&w, SNIC_HCACHE_EV_FSYNC, 1, 1, 0);
        while (w.syncs == 0)
            if (!hw_work(&w))
                hw_pass(&w, SNIC_NEVER);
        assert_int_equal(w.store[1][seed % 3].version, 77);
        hw_close(&w);
    }
}

/* A host locks a page behind a visit's back, and dies. */
static void test_hcache_host_death_during_visit_is_mended(void **state)
{
    struct snic_hcache_page page;
    struct hworld w;
    uint64_t seed;

    (void)state;
    for (seed = 0; seed < 2000; seed++) {
        int r;

        visit_under_way(&w, support_seed() * 10000 + seed);
        r = snic_hcache_lock(&w.host[1], 1, seed % 3, 0, &page);
        assert_true(r == 0 || r == SNIC_EBUSY);
        hw_event(&w, SNIC_HCACHE_EV_HOST_DEAD, 0, 0, 0);
        while (w.recovered == 0)
            if (!hw_work(&w))
                hw_pass(&w, SNIC_NEVER);
        assert_int_equal(counts(&w).write_locked, 0);
        hw_close(&w);
    }
}

/* Recovery by hand: torn pages go, whole ones stay. */
static void test_hcache_recover_host_and_dpu(void **state)
{
    struct snic_hcache_page a, b;
    struct snic_hcache_counts c;
    struct hworld w;

    (void)state;
    hw_open(&w, &small, &plain, support_seed());
    lock_write(&w, 0, 1, 1, 5);
    lock_write(&w, 0, 1, 2, 6);
    assert_int_equal(snic_hcache_lock(&w.host[0], 1, 1, 0, &a), 0);
    assert_int_equal(snic_hcache_get(&w.host[0], 1, 2, &b), 0);
    assert_int_equal(snic_hcache_recover(w.mem, w.size, SNIC_HCACHE_DPU), 0);
    assert_int_equal(snic_hcache_recover(w.mem, w.size, SNIC_HCACHE_HOST), 2);
    assert_int_equal(snic_hcache_recover(w.mem, w.size, SNIC_HCACHE_HOST), 0);
    assert_int_equal(snic_hcache_unlock(&w.host[0], &a, SNIC_HCACHE_UNLOCK_DIRTY), SNIC_ESTALE);
    assert_int_equal(snic_hcache_put(&w.host[0], &b), SNIC_ESTALE);
    c = counts(&w);
    assert_int_equal(c.free, 7);
    assert_int_equal(c.header_free, 7);
    assert_int_equal(c.dirty, 1);
    assert_int_equal(read_version(&w, 1, 1, 2), 6);
    hw_close(&w);
}

static void unlock_twice(void *ctx)
{
    struct hworld *w = ctx;
    struct snic_hcache_page page;

    if (snic_hcache_lock(&w->host[0], 1, 1, 0, &page) == 0 &&
        snic_hcache_unlock(&w->host[0], &page, SNIC_HCACHE_UNLOCK_KEEP) == 0)
        w->now += (uint64_t)snic_hcache_unlock(&w->host[0], &page, SNIC_HCACHE_UNLOCK_KEEP);
}

static void test_hcache_unlock_twice_aborts(void **state)
{
    struct hworld w;

    (void)state;
    hw_open(&w, &small, &plain, support_seed());
    SUPPORT_EXPECT_ABORT(unlock_twice, &w);
    hw_close(&w);
}

/* A link that fails ends the engine and its fsyncs. */
static void test_hcache_dma_failure_ends_engine(void **state)
{
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_DMA, .result = SNIC_EPEERDEAD};
    struct hworld w;
    uint32_t i;

    (void)state;
    hw_open(&w, &small, &plain, support_seed());
    hw_event(&w, SNIC_HCACHE_EV_FSYNC, 5, 1, 0);
    for (i = 0; !w.pending[i].live; i++)
        ;
    ev.id = w.pending[i].a.id;
    memset(w.pending, 0, sizeof(w.pending));
    w.pendings = 0;
    assert_int_equal(hw_step(&w, &ev), 0);
    assert_true(hw_work(&w));
    assert_int_equal(w.synced_id, 5);
    assert_int_equal(w.synced_result, SNIC_EPEERDEAD);
    assert_int_equal(hw_step(&w, &ev), SNIC_EPEERDEAD);
    assert_int_equal(snic_hcache_control_deadline_ns(w.c), SNIC_NEVER);
    hw_close(&w);
}

/** A refusal names the wrong option, and only that one. */
static void test_hcache_wrong_option_is_named(void **state)
{
    (void)state;
    struct snic_hcache_opts good = {.opts_size = sizeof(good), .pages = 4 * SNIC_HCACHE_WAYS_MAX};
    assert_null(snic_hcache_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_hcache_opts bad = good;                                                        \
        bad.field = value;                                                                         \
        support_names(snic_hcache_opts_wrong(&bad), name);                                         \
        assert_int_equal(snic_hcache_memsize(&bad), 0);                                            \
    } while (0)
    WRONG(opts_size, 3, "opts_size");
    WRONG(page_bytes, 1000, "page_bytes");
    WRONG(page_bytes, 131072, "page_bytes");
    WRONG(ways, SNIC_HCACHE_WAYS_MAX + 1, "ways");
    WRONG(mode, 77, "mode");
    WRONG(pages, 0, "pages");
    WRONG(pages, 4 * SNIC_HCACHE_WAYS_MAX + 1, "pages");
#undef WRONG
}

/* lib/hcache/FORMAT.md. */
static void test_hcache_format_vector(void **state)
{
    struct snic_hcache_opts o = {.opts_size = sizeof(o),
                                 .page_bytes = 512,
                                 .ways = 4,
                                 .mode = SNIC_HCACHE_MODE_WRITE,
                                 .pages = 8,
                                 .seed = 9};
    size_t size = snic_hcache_memsize(&o);
    unsigned char *mem = support_guard_alloc(size, SNIC_HCACHE_ALIGN);
    struct snic_hcache_host h;
    struct snic_hcache_page page;

    (void)state;
    assert_int_equal(snic_hcache_init(mem, size, &o), 0);
    assert_int_equal(snic_hcache_host_attach(&h, mem, size, 1, 3), 0);
    assert_int_equal(snic_hcache_lock(&h, 5, 7, 0, &page), 0);
    page.end = 100;
    memset(page.data, 0, 512);
    assert_int_equal(snic_hcache_unlock(&h, &page, SNIC_HCACHE_UNLOCK_DIRTY), 0);
    golden_bytes("hcache", "region", mem, 896);
    support_guard_free(mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcache_options_out_of_range_refused),
        cmocka_unit_test(test_hcache_wrong_option_is_named),
        cmocka_unit_test(test_hcache_write_then_read_hits),
        cmocka_unit_test(test_hcache_locked_page_busy),
        cmocka_unit_test(test_hcache_read_cache_takes_no_dirty_page),
        cmocka_unit_test(test_hcache_full_bucket_flushes_and_replaces),
        cmocka_unit_test(test_hcache_victim_that_is_hit_stays),
        cmocka_unit_test(test_hcache_policy_scan_leaves_hot_pages),
        cmocka_unit_test(test_hcache_fsync_waits_for_its_pages),
        cmocka_unit_test(test_hcache_rewritten_in_flight_stays_dirty),
        cmocka_unit_test(test_hcache_sequential_misses_prefetch),
        cmocka_unit_test(test_hcache_refusing_store_is_tried_less_and_less),
        cmocka_unit_test(test_hcache_seal_refused_sum_drops_page),
        cmocka_unit_test(test_hcache_seal_packs_and_unpacks),
        cmocka_unit_test(test_hcache_read_n_gives_each_its_result),
        cmocka_unit_test(test_hcache_fsync_during_visit_waits),
        cmocka_unit_test(test_hcache_host_death_during_visit_is_mended),
        cmocka_unit_test(test_hcache_recover_host_and_dpu),
        cmocka_unit_test(test_hcache_unlock_twice_aborts),
        cmocka_unit_test(test_hcache_dma_failure_ends_engine),
        cmocka_unit_test(test_hcache_format_vector),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
