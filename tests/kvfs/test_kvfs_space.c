/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* FALLOCATE, SEEK, COPY, STATFS; crashes and faults around every change of a file's data. */
#include "test_kvfs_bytes.h"

#include <stdlib.h>
#include <string.h>

#define PUNCH (SNIC_FSOP_FALLOC_PUNCH | SNIC_FSOP_FALLOC_KEEP_SIZE)

/* ---- FALLOCATE, SEEK, STATFS ---- */

static void test_kvfs_space_fallocate_rules_as_linux(void **state)
{
    struct snic_kvfs_opts o;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    uint64_t d = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0755);
    assert_int_equal(kvb_fallocate(&t, f, 0, 0, 0), SNIC_EINVAL);
    assert_int_equal(kvb_fallocate(&t, f, 0, 10, SNIC_FSOP_FALLOC_PUNCH), SNIC_ENOTSUP);
    assert_int_equal(kvb_fallocate(&t, f, 0, 10, PUNCH | SNIC_FSOP_FALLOC_ZERO), SNIC_ENOTSUP);
    assert_int_equal(kvb_fallocate(&t, f, SNIC_KVFS_SIZE_MAX, 1, 0), SNIC_EFBIG);
    assert_int_equal(kvb_fallocate(&t, f, UINT64_MAX, 2, 0), SNIC_EFBIG);
    assert_int_equal(kvb_fallocate(&t, d, 0, 10, 0), SNIC_EISDIR);
    kvt_close(&t);
    kvt_opts(&o); /* a store that cannot set space aside: the size grows all the same */
    o.caps &= ~SNIC_KV_CAP_ALLOC;
    kvt_open(&t, &o);
    f = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    const uint64_t ends[] = {10, 9000, 100000};
    for (size_t i = 0; i < SNIC_COUNTOF(ends); i++) {
        struct snic_fsop_attr a;
        uint64_t before = i == 0 ? 0 : ends[i - 1];
        assert_int_equal(kvb_fallocate(&t, f, 0, ends[i], SNIC_FSOP_FALLOC_KEEP_SIZE), 0);
        assert_int_equal(kvt_getattr(&t, f, &a), 0);
        assert_int_equal(a.size, before);
        assert_int_equal(kvb_fallocate(&t, f, 0, ends[i], 0), 0);
        assert_int_equal(kvt_getattr(&t, f, &a), 0);
        assert_int_equal(a.size, ends[i]);
        assert_true(a.space <= SNIC_KVOP_BLOCK);
    }
    assert_int_equal(kvb_fallocate(&t, f, 0, 10, PUNCH), 0);
    assert_int_equal(kvb_fallocate(&t, f, 0, 20000, SNIC_FSOP_FALLOC_ZERO), 0);
    kvt_close(&t);
}

/* What was reserved is there when the store is full. */
static void test_kvfs_space_reserved_can_be_written(void **state)
{
    static unsigned char bytes[1 << 20];
    struct snic_kvmem_opts m = {.opts_size = sizeof(m), .space = 8U << 20};
    struct snic_kvfs_opts o;
    struct snic_fsop_attr a;
    struct kvt t;
    (void)state;
    kvt_opts(&o);
    struct snic_kvmem *medium;
    assert_int_equal(snic_kvmem_open(&medium, &m), 0);
    kvt_open_on(&t, medium, &o);
    t.owns_medium = 1;
    assert_int_equal(kvt_mkfs(&t), 0);
    assert_int_equal(kvt_mount(&t), 0);
    uint64_t f = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    uint64_t g = kvt_file(&t, SNIC_FSOP_ROOT, "g", 0644);
    assert_int_equal(kvb_fallocate(&t, f, 0, 1 << 20, SNIC_FSOP_FALLOC_KEEP_SIZE), 0);
    assert_int_equal(kvt_getattr(&t, f, &a), 0);
    assert_int_equal(a.size, 0);
    assert_int_equal(a.space, 1 << 20);
    uint64_t at = 0;
    int64_t rc;
    kvb_fill(bytes, sizeof(bytes), 1);
    while ((rc = kvt_write(&t, g, at, bytes, sizeof(bytes))) == (int64_t)sizeof(bytes))
        at += sizeof(bytes);
    assert_int_equal(rc, SNIC_ENOSPC);
    assert_int_equal(kvt_getattr(&t, g, &a), 0);
    assert_int_equal(a.size, at); /* what failed left nothing */
    assert_int_equal(kvb_fallocate(&t, f, 0, 64U << 20, 0), SNIC_ENOSPC);
    assert_int_equal(kvt_getattr(&t, f, &a), 0);
    assert_int_equal(a.size, 0);
    /* To make room is possible however full it is. */
    uint64_t h = kvt_file(&t, SNIC_FSOP_ROOT, "h", 0644);
    while (kvt_write(&t, g, at, bytes, 8192) == 8192)
        at += 8192;
    for (uint64_t small = 0; kvt_write(&t, h, small, bytes, 10) == 10 && small < 8000; small += 10)
        continue;
    assert_int_equal(kvb_fallocate(&t, g, 8192, 8192, PUNCH), 0);
    assert_int_equal(kvt_truncate(&t, g, 100000), 0);
    assert_int_equal(kvt_truncate(&t, h, 5), 0);
    assert_int_equal(kvt_unlink(&t, SNIC_FSOP_ROOT, "g"), 0);
    assert_int_equal(kvt_write(&t, f, 0, bytes, sizeof(bytes)), sizeof(bytes));
    assert_int_equal(kvt_getattr(&t, f, &a), 0);
    assert_int_equal(a.space, kvb_space(&t, f));
    kvt_close(&t);
}

static void test_kvfs_space_seek_finds_holes(void **state)
{
    unsigned char bytes[8192] = {1};
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    assert_int_equal(kvb_seek(&t, f, 0, SNIC_FSOP_SEEK_DATA), SNIC_ENXIO);
    assert_int_equal(kvb_seek(&t, f, 0, SNIC_FSOP_SEEK_HOLE), SNIC_ENXIO);
    assert_int_equal(kvb_seek(&t, f, 0, 0), SNIC_EINVAL);
    assert_int_equal(kvt_write(&t, f, 10, bytes, 10), 10);
    assert_int_equal(kvb_seek(&t, f, 5, SNIC_FSOP_SEEK_DATA), 5);
    assert_int_equal(kvb_seek(&t, f, 5, SNIC_FSOP_SEEK_HOLE), 20);
    assert_int_equal(kvt_truncate(&t, f, 4000), 0);
    assert_int_equal(kvb_seek(&t, f, 5, SNIC_FSOP_SEEK_HOLE), 20);
    assert_int_equal(kvb_seek(&t, f, 20, SNIC_FSOP_SEEK_DATA), SNIC_ENXIO);
    assert_int_equal(kvb_seek(&t, f, 30, SNIC_FSOP_SEEK_HOLE), 30);
    assert_int_equal(kvb_seek(&t, f, 4000, SNIC_FSOP_SEEK_HOLE), SNIC_ENXIO);
    assert_int_equal(kvt_truncate(&t, f, 0), 0);
    assert_int_equal(kvt_write(&t, f, 3 * 8192, bytes, 8192), 8192);
    assert_int_equal(kvt_truncate(&t, f, 10 * 8192 + 5), 0);
    assert_int_equal(kvb_seek(&t, f, 0, SNIC_FSOP_SEEK_DATA), 3 * 8192);
    assert_int_equal(kvb_seek(&t, f, 0, SNIC_FSOP_SEEK_HOLE), 0);
    assert_int_equal(kvb_seek(&t, f, 3 * 8192 + 7, SNIC_FSOP_SEEK_DATA), 3 * 8192 + 7);
    assert_int_equal(kvb_seek(&t, f, 3 * 8192 + 7, SNIC_FSOP_SEEK_HOLE), 4 * 8192);
    assert_int_equal(kvb_seek(&t, f, 5 * 8192, SNIC_FSOP_SEEK_DATA), SNIC_ENXIO);
    assert_int_equal(kvb_seek(&t, f, 10 * 8192 + 4, SNIC_FSOP_SEEK_HOLE), 10 * 8192 + 4);
    assert_int_equal(kvt_write(&t, f, 10 * 8192, bytes, 5), 5);
    assert_int_equal(kvb_seek(&t, f, 10 * 8192, SNIC_FSOP_SEEK_HOLE), 10 * 8192 + 5);
    kvt_close(&t);
}

static void test_kvfs_space_statfs_of_the_store(void **state)
{
    struct snic_fsop req;
    struct kvt t;
    unsigned char bytes[8192] = {0};
    (void)state;
    kvt_open(&t, NULL);
    kvt_req(&t, &req, SNIC_FSOP_STATFS, SNIC_FSOP_ROOT, NULL);
    assert_int_equal(kvt_call(&t, &req), 0);
    assert_true(req.statfs.bytes_free > 0 && req.statfs.bytes_free <= req.statfs.bytes);
    assert_true(req.statfs.files_free > 0 && req.statfs.files_free <= req.statfs.files);
    uint64_t free_before = req.statfs.bytes_free;
    uint64_t f = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    assert_int_equal(kvt_write(&t, f, 100 * 8192, bytes, 8192), 8192);
    assert_int_equal(kvt_call(&t, &req), 0);
    assert_true(req.statfs.bytes_free <= free_before - 8192);
    kvt_close(&t);
}

/* ---- COPY ---- */

/* All of it, however short the answers are. */
static int64_t copy_all(struct kvt *t, uint64_t ino, uint64_t offset, uint64_t ino2,
                        uint64_t offset2, uint64_t size)
{
    uint64_t sum = 0;
    while (sum < size) {
        int64_t n = kvb_copy(t, ino, offset + sum, ino2, offset2 + sum, size - sum);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        sum += (uint64_t)n;
    }
    return (int64_t)sum;
}

static void test_kvfs_space_copies_as_array(void **state)
{
    static struct kvb f[2], before;
    static unsigned char bytes[70000];
    struct kvt t;
    unsigned rounds = (unsigned)support_rounds(3000, 30000);
    (void)state;
    kvt_open(&t, NULL);
    for (unsigned i = 0; i < 2; i++) {
        memset(&f[i], 0, sizeof(f[i]));
        f[i].ino = kvt_file(&t, SNIC_FSOP_ROOT, i == 0 ? "a" : "b", 0644);
    }
    for (unsigned n = 0; n < rounds; n++) {
        unsigned from = (unsigned)snic_rng_below(&t.rng, 2),
                 to = (unsigned)snic_rng_below(&t.rng, 2);
        uint64_t max = snic_rng_below(&t.rng, 3) == 0 ? 9000 : 90000;
        uint64_t a = snic_rng_below(&t.rng, max), b = snic_rng_below(&t.rng, max);
        uint64_t size = 1 + snic_rng_below(&t.rng, max);
        struct kvb *x = &f[from], *y = &f[to];
        switch (snic_rng_below(&t.rng, 4)) {
        case 0:
            kvb_fill(bytes, sizeof(bytes), n);
            size = snic_min_u64(size, sizeof(bytes));
            assert_int_equal(kvt_write(&t, x->ino, a, bytes, size), size);
            kvb_put(x, a, bytes, size);
            break;
        case 1:
            assert_int_equal(kvt_truncate(&t, x->ino, a), 0);
            kvb_cut(x, a);
            break;
        default: {
            uint64_t all = a >= x->size ? 0 : snic_min_u64(size, x->size - a);
            int64_t rc;
            if (from == to && all > 0) /* what is copied would make the source longer */
                size = all;
            rc = copy_all(&t, x->ino, a, y->ino, b, size);
            if (from == to && all > 0 && a < b + all && b < a + all) {
                assert_int_equal(rc, SNIC_EINVAL);
                break;
            }
            assert_int_equal(rc, all);
            before = *x;
            if (all > 0)
                kvb_put(y, b, before.bytes + a, all);
            break;
        }
        }
        kvb_check(&t, x);
        kvb_check(&t, y);
    }
    kvt_close(&t);
}

/* Holes stay holes: a sparse file of a gigabyte is copied in few operations. */
static void test_kvfs_space_copy_keeps_holes(void **state)
{
    unsigned char bytes[8192], out[8192];
    struct snic_fsop_attr a;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    kvb_fill(bytes, sizeof(bytes), 1);
    uint64_t f = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    uint64_t g = kvt_file(&t, SNIC_FSOP_ROOT, "g", 0644);
    assert_int_equal(kvt_write(&t, f, 512U << 20, bytes, 8192), 8192);
    assert_int_equal(kvt_truncate(&t, f, 1U << 30), 0);
    assert_int_equal(copy_all(&t, f, 0, g, 0, 1U << 30), 1U << 30);
    assert_int_equal(kvt_getattr(&t, g, &a), 0);
    assert_int_equal(a.size, 1U << 30);
    assert_int_equal(a.space, kvb_space(&t, g));
    assert_true(a.space <= 2 * 65536);
    assert_int_equal(kvt_read(&t, g, 512U << 20, out, 8192), 8192);
    assert_memory_equal(bytes, out, 8192);
    assert_true(t.applied < 200);
    kvt_close(&t);
}

/* ---- Changes that are cut short ---- */

enum { CASES = 16 };

/* The file before, and one change of it. What is in memory of it stays while it is open. */
static void case_before(struct kvt *t, struct kvb *f, unsigned which, int open)
{
    static const uint64_t sizes[CASES] = {0,     100,   100,   8192,  8192,  8000, 20000, 20000,
                                          20000, 20000, 20000, 20000, 20000, 8192, 100,   20000};
    static unsigned char bytes[20000];
    memset(f, 0, sizeof(*f));
    kvb_fill(bytes, sizeof(bytes), 77);
    f->ino = kvt_create(t, SNIC_FSOP_ROOT, "f", 0644);
    if (sizes[which] > 0)
        assert_int_equal(kvt_write(t, f->ino, 0, bytes, sizes[which]), sizes[which]);
    kvb_put(f, 0, bytes, sizes[which]);
    if (!open)
        assert_int_equal(kvt_release(t, f->ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
}

/* The result of the change; the model as it then is. */
static int64_t case_change(struct kvt *t, struct kvb *f, unsigned which)
{
    static const struct {
        uint64_t offset;
        uint64_t size;
    } writes[] = {{0, 100},    {50, 100},     {100, 9000},    {8192, 100},   {0, 100000},
                  {70000, 50}, {20000, 5000}, {50000, 10000}, {20000, 90000}};
    static unsigned char bytes[100000];
    kvb_fill(bytes, sizeof(bytes), 5);
    if (which < SNIC_COUNTOF(writes)) {
        kvb_put(f, writes[which].offset, bytes, writes[which].size);
        return kvt_write(t, f->ino, writes[which].offset, bytes, writes[which].size);
    }
    switch (which) {
    case 9:
        kvb_cut(f, 0);
        return kvt_truncate(t, f->ino, 0);
    case 10:
        kvb_cut(f, 5000);
        return kvt_truncate(t, f->ino, 5000);
    case 11:
        kvb_cut(f, 12345);
        return kvt_truncate(t, f->ino, 12345);
    case 12:
        kvb_cut(f, 60000);
        return kvt_truncate(t, f->ino, 60000);
    case 13:
        kvb_cut(f, 60000);
        return kvt_truncate(t, f->ino, 60000);
    case 14:
        f->size = 40000;
        return kvb_fallocate(t, f->ino, 0, 40000, 0);
    default:
        f->size = 40000;
        return kvb_fallocate(t, f->ino, 10000, 30000, 0);
    }
}

/* Nothing of a failed write may come to light when the file grows, one way or another. */
static void case_grows(struct kvt *t, struct kvb *f, unsigned how)
{
    unsigned char one = 9;
    for (unsigned i = 0; i < 3; i++) {
        switch ((how + i) % 3) {
        case 0:
            kvb_put(f, 150000, &one, 1);
            assert_int_equal(kvt_write(t, f->ino, 150000, &one, 1), 1);
            break;
        case 1:
            kvb_cut(f, 120000);
            assert_int_equal(kvt_truncate(t, f->ino, 120000), 0);
            break;
        default:
            f->size = snic_max_u64(f->size, 110000);
            assert_int_equal(kvb_fallocate(t, f->ino, 100000, 10000, 0), 0);
            break;
        }
        assert_true(kvb_equal(t, f));
        if (i == 1) {
            kvb_cut(f, 3);
            assert_int_equal(kvt_truncate(t, f->ino, 3), 0);
        }
    }
}

/* Old or new: never a mix of small and big, never bytes that were not acknowledged. */
static void test_kvfs_space_crash_leaves_old_or_new(void **state)
{
    static struct kvb before, after;
    struct snic_kvfs_opts o;
    (void)state;
    kvt_opts(&o);
    for (unsigned n = 0; n < CASES * 6; n++) {
        unsigned which = n / 6;
        uint64_t total = 1;
        o.stripe_bytes = n % 2 == 0 ? 4U << 20 : 0;
        for (uint64_t keep = 0; keep <= total; keep++) {
            struct snic_kvmem_opts m = {.opts_size = sizeof(m), .track = 1};
            struct snic_kvmem *medium;
            struct kvt t, u;
            assert_int_equal(snic_kvmem_open(&medium, &m), 0);
            kvt_open_on(&t, medium, &o);
            assert_int_equal(kvt_mkfs(&t), 0);
            assert_int_equal(kvt_mount(&t), 0);
            case_before(&t, &before, which, 0);
            assert_int_equal(kvb_simple(&t, SNIC_FSOP_FSYNC, before.ino), 0);
            after = before;
            assert_true(case_change(&t, &after, which) >= 0);
            total = snic_kvmem_unsynced(medium);
            snic_kvmem_crash(medium, keep);
            snic_kvmem_restart(medium);
            t.quiet = 1;
            o.session_id++;
            kvt_open_on(&u, medium, &o);
            assert_int_equal(kvt_mount(&u), 0);
            if (!kvb_equal(&u, &before)) {
                assert_true(keep > 0);
                assert_true(kvb_equal(&u, &after));
                before = after;
            } else {
                assert_true(keep < total);
            }
            case_grows(&u, &before, n / 2);
            kvt_close(&u);
            kvt_close(&t);
            snic_kvmem_close(medium);
        }
    }
}

/* O_SYNC: what was acknowledged is there after power loss, without any FSYNC. */
static void test_kvfs_space_sync_write_survives_power_loss(void **state)
{
    static struct kvb f;
    struct snic_kvfs_opts o;
    unsigned char bytes[3000];
    (void)state;
    kvt_opts(&o);
    kvb_fill(bytes, sizeof(bytes), 9);
    for (unsigned n = 0; n < 20; n++) {
        struct snic_kvmem_opts m = {.opts_size = sizeof(m), .track = 1};
        struct snic_kvmem *medium;
        struct kvt t, u;
        assert_int_equal(snic_kvmem_open(&medium, &m), 0);
        o.stripe_bytes = n % 2 == 0 ? 4U << 20 : 0;
        kvt_open_on(&t, medium, &o);
        assert_int_equal(kvt_mkfs(&t), 0);
        assert_int_equal(kvt_mount(&t), 0);
        case_before(&t, &f, n / 2 < 9 ? n / 2 : 8, 0);
        assert_int_equal(kvb_simple(&t, SNIC_FSOP_FSYNC, f.ino), 0);
        t.flags = SNIC_FSOP_SYNC;
        if (n / 2 < 9) {
            assert_true(case_change(&t, &f, n / 2) > 0);
        } else { /* within */
            assert_int_equal(kvt_write(&t, f.ino, 7000, bytes, sizeof(bytes)), sizeof(bytes));
            kvb_put(&f, 7000, bytes, sizeof(bytes));
        }
        snic_kvmem_crash(medium, 0);
        snic_kvmem_restart(medium);
        t.quiet = 1;
        o.session_id++;
        kvt_open_on(&u, medium, &o);
        assert_int_equal(kvt_mount(&u), 0);
        assert_true(kvb_equal(&u, &f));
        kvt_close(&u);
        kvt_close(&t);
        snic_kvmem_close(medium);
    }
}

/* An error from the store, at each of its operations in turn. */
static void test_kvfs_space_fault_changes_nothing(void **state)
{
    static const int32_t errors[] = {SNIC_EIO, SNIC_EUNKNOWN, SNIC_ENOSPC, SNIC_ETIMEDOUT};
    static struct kvb before, after;
    struct snic_kvfs_opts o;
    unsigned stride = (unsigned)support_stride(1, 5); /* has no factor with CASES and 12 */
    (void)state;
    kvt_opts(&o);
    for (unsigned n = (unsigned)support_turn(stride); n < CASES * 12 * support_scale(2, 4);
         n += stride) {
        unsigned which = n / 12 % CASES;
        int64_t rc = -1;
        o.stripe_bytes = n % 2 == 0 ? 4U << 20 : 0;
        for (uint64_t at = 1; rc < 0; at++) {
            int32_t error = errors[n / (CASES * 12)];
            struct snic_kv_fault fault = {.kind = SNIC_KV_FAULT_ERROR, .after = at, .error = error};
            struct kvt t;
            kvt_open(&t, &o);
            case_before(&t, &before, which, n % 12 >= 6);
            if (n % 12 < 6) { /* nothing is known of the file any more */
                assert_int_equal(kvt_unmount(&t), 0);
                assert_int_equal(kvt_mount(&t), 0);
            }
            if (error == SNIC_EUNKNOWN)
                fault.kind = SNIC_KV_FAULT_UNKNOWN; /* it happens, outcome unknown */
            assert_int_equal(snic_kvmem_fault(t.m, &fault), 0);
            after = before;
            rc = case_change(&t, &after, which);
            snic_kvmem_faults_clear(t.m);
            if (rc < 0)
                assert_int_equal(rc, error);
            if (rc >= 0 || (error == SNIC_EUNKNOWN && kvb_equal(&t, &after)))
                before = after;
            assert_true(kvb_equal(&t, &before));
            case_grows(&t, &before, n / 2);
            if (error != SNIC_EUNKNOWN) /* what is taken behind the size may be counted or not */
                kvb_check(&t, &before);
            if (n % 12 >= 6)
                assert_int_equal(
                    kvt_release(&t, before.ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
            kvt_close(&t);
            assert_true(at < 20);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_space_fallocate_rules_as_linux),
        cmocka_unit_test(test_kvfs_space_reserved_can_be_written),
        cmocka_unit_test(test_kvfs_space_seek_finds_holes),
        cmocka_unit_test(test_kvfs_space_statfs_of_the_store),
        cmocka_unit_test(test_kvfs_space_copies_as_array),
        cmocka_unit_test(test_kvfs_space_copy_keeps_holes),
        cmocka_unit_test(test_kvfs_space_crash_leaves_old_or_new),
        cmocka_unit_test(test_kvfs_space_sync_write_survives_power_loss),
        cmocka_unit_test(test_kvfs_space_fault_changes_nothing),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
