/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * READ and WRITE: all short sequences of writes, truncations and fallocates around the limit
 * between small and big files; store operations, refusals, times, privileges, damage, appends.
 */
#include "test_kvfs_bytes.h"

#include <stdlib.h>
#include <string.h>

/* ---- All sequences ---- */

enum { STEPS = 17 };

/* Apply a step of this kind to the engine and to the model; `tag` determines the bytes. */
static void step(struct kvt *t, struct kvb *f, unsigned kind, uint64_t tag)
{
    unsigned char bytes[9000];
    struct {
        uint64_t offset;
        uint64_t size;
        uint32_t flags;
    } write[] = {{0, 1, 0}, {8100, 200, 0}, {0, 8192, 0}, {8192, 10, 0}, {20000, 300, 0}},
      space[] = {{4000, 5000, SNIC_FSOP_FALLOC_PUNCH | SNIC_FSOP_FALLOC_KEEP_SIZE},
                 {8192, 16384, SNIC_FSOP_FALLOC_PUNCH | SNIC_FSOP_FALLOC_KEEP_SIZE},
                 {100, 16400, SNIC_FSOP_FALLOC_ZERO},
                 {8000, 12000, SNIC_FSOP_FALLOC_ZERO | SNIC_FSOP_FALLOC_KEEP_SIZE},
                 {0, 9000, 0},
                 {0, 30000, SNIC_FSOP_FALLOC_KEEP_SIZE}};
    static const uint64_t sizes[] = {0, 5, 8192, 8193, 30000};
    kvb_fill(bytes, sizeof(bytes), tag);
    if (kind < 5) {
        assert_int_equal(kvt_write(t, f->ino, write[kind].offset, bytes, write[kind].size),
                         write[kind].size);
        kvb_put(f, write[kind].offset, bytes, write[kind].size);
    } else if (kind < 10) {
        assert_int_equal(kvt_truncate(t, f->ino, sizes[kind - 5]), 0);
        kvb_cut(f, sizes[kind - 5]);
    } else if (kind < 16) {
        kind -= 10;
        assert_int_equal(
            kvb_fallocate(t, f->ino, space[kind].offset, space[kind].size, space[kind].flags), 0);
        if (kind < 4) {
            uint64_t size = f->size;
            kvb_zero(f, space[kind].offset, space[kind].size, kind != 2);
            assert_true(kind == 2 || f->size == size);
        } else if (kind == 4 && f->size < 9000) {
            f->size = 9000;
        }
    } else {
        assert_int_equal(kvb_append(t, f->ino, bytes, 5000), 5000);
        kvb_put(f, f->size, bytes, 5000);
    }
}

static void sequence(struct kvt *t, struct kvb *f, const unsigned *kinds, unsigned count)
{
    f->ino = kvt_file(t, SNIC_FSOP_ROOT, "f", 0644);
    f->size = 0;
    memset(f->bytes, 0, sizeof(f->bytes));
    for (unsigned i = 0; i < count; i++)
        step(t, f, kinds[i], i + kinds[i] * 7);
    kvb_check(t, f);
    assert_int_equal(kvt_unlink(t, SNIC_FSOP_ROOT, "f"), 0);
    assert_int_equal(kvb_object(t, f->ino), 0);
}

static void sequences(const struct snic_kvfs_opts *o, unsigned length)
{
    static struct kvb f;
    struct kvt t;
    unsigned kinds[4];
    kvt_open(&t, o);
    for (unsigned n = 1; n <= length; n++) {
        memset(kinds, 0, sizeof(kinds));
        for (;;) {
            unsigned i = 0;
            sequence(&t, &f, kinds, n);
            while (i < n && ++kinds[i] == STEPS)
                kinds[i++] = 0;
            if (i == n)
                break;
        }
    }
    kvt_close(&t);
}

/* A sequence that leaves other bytes than the model's, or a wrong st_blocks, corrupts silently. */
static void test_kvfs_data_all_sequences_match_model(void **state)
{
    (void)state;
    sequences(NULL, (unsigned)support_scale(3, 4));
}

/* The same where data are never part of a commit, and where times are not deferred. */
static void test_kvfs_data_all_sequences_plain_store_match_model(void **state)
{
    struct snic_kvfs_opts o;
    unsigned length = (unsigned)support_scale(2, 3);
    (void)state;
    kvt_opts(&o);
    o.stripe_bytes = 0;
    sequences(&o, length);
    o.stripe_bytes = 16384;
    sequences(&o, length);
    o.times_ns = SNIC_KVFS_TIMES_AT_ONCE;
    sequences(&o, length);
    o.stripe_bytes = 4U << 20;
    sequences(&o, length);
}

/* ---- Store operations per request ---- */

struct cost {
    unsigned commits;
    unsigned objects;
    unsigned gets;
};

static void count(struct kvt *t, struct snic_kvop *op)
{
    struct cost *c = t->ctx;
    c->commits += op->kind == SNIC_KVOP_COMMIT;
    c->gets += op->kind == SNIC_KVOP_GET;
    c->objects += op->kind >= SNIC_KVOP_OBJECT_READ && op->kind <= SNIC_KVOP_OBJECT_STAT;
}

static void expect_cost(struct kvt *t, unsigned commits, unsigned objects)
{
    struct cost *c = t->ctx;
    assert_int_equal(c->commits, commits);
    assert_int_equal(c->objects, objects);
    assert_int_equal(c->gets, 0);
    memset(c, 0, sizeof(*c));
}

/* On a distributed store each operation is a round trip. */
static void test_kvfs_data_store_operations_counted(void **state)
{
    static unsigned char bytes[1 << 20];
    struct cost c = {0};
    struct kvt t;
    uint64_t ino;
    (void)state;
    kvt_open(&t, NULL);
    ino = kvt_create(&t, SNIC_FSOP_ROOT, "f", 0644);
    kvb_fill(bytes, sizeof(bytes), 1);
    t.ctx = &c;
    t.before = count;
    assert_int_equal(kvt_write(&t, ino, 0, bytes, 100), 100); /* a small file */
    expect_cost(&t, 1, 0);
    assert_int_equal(kvt_write(&t, ino, 4000, bytes, 100), 100);
    expect_cost(&t, 1, 0);
    assert_int_equal(kvt_read(&t, ino, 0, bytes, 5000), 4100);
    expect_cost(&t, 0, 0);
    assert_int_equal(kvt_write(&t, ino, 0, bytes, 60000), 60000); /* becomes big */
    expect_cost(&t, 1, 0);
    assert_int_equal(kvt_write(&t, ino, 60000, bytes, 65536), 65536); /* extends the file */
    expect_cost(&t, 1, 0);
    assert_int_equal(kvt_write(&t, ino, 8192, bytes, 8192), 8192); /* within the size */
    expect_cost(&t, 0, 1);
    assert_int_equal(kvt_read(&t, ino, 8192, bytes, 65536), 65536);
    expect_cost(&t, 0, 1);
    assert_int_equal(kvt_write(&t, ino, 125536, bytes, 1 << 20), 1 << 20); /* 1 MiB */
    expect_cost(&t, 1, 1);
    assert_int_equal(kvt_truncate(&t, ino, 4U << 20), 0); /* no data to delete past the size */
    expect_cost(&t, 1, 0);
    assert_int_equal(kvt_write(&t, ino, 4U << 20, bytes, 8192), 8192); /* in the next stripe */
    expect_cost(&t, 1, 1);
    assert_int_equal(kvt_write(&t, ino, 5U << 20, bytes, 8192), 8192); /* leaves a hole */
    expect_cost(&t, 1, 1);
    assert_int_equal(kvt_truncate(&t, ino, 100000), 0);
    expect_cost(&t, 1, 0);
    assert_int_equal(kvb_simple(&t, SNIC_FSOP_FSYNC, ino), 0);
    t.before = NULL;
    assert_int_equal(kvt_release(&t, ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
    kvt_close(&t);
}

/* ---- Contract ---- */

static int64_t call_iov(struct kvt *t, enum snic_fsop_kind kind, uint64_t ino, uint64_t offset,
                        struct snic_iov *iov, uint32_t iov_count)
{
    struct snic_fsop req;
    kvt_req(t, &req, kind, ino, NULL);
    req.offset = offset;
    req.iov = iov;
    req.iov_count = iov_count;
    return kvt_call(t, &req);
}

/* Without an option times are deferred: a write within a big file is one operation. */
static void test_kvfs_data_options_unset_times_deferred(void **state)
{
    static unsigned char bytes[20000];
    struct snic_kvfs_opts o;
    struct cost c = {0};
    struct kvt t;
    (void)state;
    for (int at_once = 0; at_once < 2; at_once++) {
        kvt_opts(&o);
        o.times_ns = at_once ? SNIC_KVFS_TIMES_AT_ONCE : 0;
        kvt_open(&t, &o);
        uint64_t ino = kvt_create(&t, SNIC_FSOP_ROOT, "f", 0644);
        assert_int_equal(kvt_write(&t, ino, 0, bytes, sizeof(bytes)), sizeof(bytes));
        t.ctx = &c;
        t.before = count;
        assert_int_equal(kvt_write(&t, ino, 0, bytes, 100), 100);
        expect_cost(&t, at_once ? 1 : 0, 1);
        t.before = NULL;
        assert_int_equal(kvt_release(&t, ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
        kvt_close(&t);
    }
}

/* A mount passes pages as pieces: up to SNIC_KVOP_IOV_MAX, some of them empty. */
static void test_kvfs_data_pieces_joined(void **state)
{
    static unsigned char in[257 * 300], out[257 * 300];
    static const uint64_t offsets[] = {0, 100, 8000, 9000};
    struct snic_iov iov[SNIC_KVOP_IOV_MAX + 1];
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    kvb_fill(in, sizeof(in), 5);
    for (unsigned part = 20; part <= 300; part += 280) {
        for (unsigned n = 0; n < SNIC_COUNTOF(offsets); n++) {
            uint64_t ino = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
            size_t sum = 0;
            for (unsigned i = 0; i < SNIC_KVOP_IOV_MAX; i++) {
                iov[i].base = in + sum;
                iov[i].size = i % 5 == 3 ? 0 : part;
                sum += iov[i].size;
            }
            assert_int_equal(call_iov(&t, SNIC_FSOP_WRITE, ino, offsets[n], iov, SNIC_KVOP_IOV_MAX),
                             sum);
            memset(out, 0, sizeof(out));
            assert_int_equal(kvt_read(&t, ino, offsets[n], out, sizeof(out)), sum);
            assert_memory_equal(in, out, sum);
            memset(out, 0, sizeof(out));
            for (unsigned i = 0; i < SNIC_KVOP_IOV_MAX; i++)
                iov[i].base = out + ((unsigned char *)iov[i].base - in);
            assert_int_equal(
                call_iov(&t, SNIC_FSOP_READ, ino, offsets[n] + 7, iov, SNIC_KVOP_IOV_MAX), sum - 7);
            assert_memory_equal(in + 7, out, sum - 7);
            assert_int_equal(kvt_unlink(&t, SNIC_FSOP_ROOT, "f"), 0);
        }
    }
    uint64_t ino = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    iov[0] = (struct snic_iov){.base = in, .size = SNIC_FSOP_IO_MAX + 1};
    assert_int_equal(call_iov(&t, SNIC_FSOP_WRITE, ino, 0, iov, 1), SNIC_EINVAL);
    assert_int_equal(call_iov(&t, SNIC_FSOP_READ, ino, 0, iov, SNIC_KVOP_IOV_MAX + 1), SNIC_EINVAL);
    kvt_close(&t);
}

static void test_kvfs_data_wrong_requests_refused(void **state)
{
    unsigned char b[64] = {1};
    struct snic_fsop_attr a;
    struct snic_fsop req;
    struct snic_iov iov = {.base = b, .size = sizeof(b)};
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0755);
    uint64_t file = kvt_create(&t, SNIC_FSOP_ROOT, "f", 0644);
    uint64_t fifo = (uint64_t)kvt_try_mknod(&t, SNIC_FSOP_ROOT, "p", 0010644, 0);
    assert_int_equal(kvt_read(&t, dir, 0, b, 1), SNIC_EISDIR);
    assert_int_equal(kvt_write(&t, dir, 0, b, 1), SNIC_EISDIR);
    assert_int_equal(kvt_write(&t, fifo, 0, b, 1), SNIC_EINVAL);
    assert_int_equal(kvt_read(&t, 99999, 0, b, 1), SNIC_ENOENT);
    assert_int_equal(kvt_write(&t, file, 0, b, 0), 0);
    assert_int_equal(kvt_read(&t, file, 0, b, 1), 0);
    /* A file has at most 2^62 bytes. */
    assert_int_equal(kvt_write(&t, file, SNIC_KVFS_SIZE_MAX, b, 1), SNIC_EFBIG);
    assert_int_equal(kvt_write(&t, file, UINT64_MAX, b, 1), SNIC_EFBIG);
    assert_int_equal(kvt_write(&t, file, SNIC_KVFS_SIZE_MAX - 10, b, sizeof(b)), 10);
    assert_int_equal(kvt_getattr(&t, file, &a), 0);
    assert_int_equal(a.size, SNIC_KVFS_SIZE_MAX);
    assert_int_equal(kvt_truncate(&t, file, SNIC_KVFS_SIZE_MAX + 1), SNIC_EFBIG);
    assert_int_equal(kvt_read(&t, file, SNIC_KVFS_SIZE_MAX - 20, b, sizeof(b)), 20);
    assert_int_equal(kvt_read(&t, file, UINT64_MAX, b, 1), 0);
    /* Handles: not open for writing, never issued, of another inode; the last one is valid. */
    kvt_req(&t, &req, SNIC_FSOP_OPEN, file, NULL);
    req.flags |= SNIC_FSOP_OPEN_READ;
    assert_int_equal(kvt_call(&t, &req), 0);
    uint64_t handle = req.handle;
    for (unsigned i = 0; i < 4; i++) {
        kvt_req(&t, &req, i < 2 ? SNIC_FSOP_WRITE : SNIC_FSOP_READ, i == 2 ? fifo : file, NULL);
        req.handle = i == 1 ? 77 : handle;
        req.iov = &iov;
        req.iov_count = 1;
        assert_int_equal(kvt_call(&t, &req), i < 3 ? SNIC_EBADF : 64);
    }
    assert_int_equal(kvt_release(&t, file, SNIC_FSOP_OPEN_READ), 0);
    assert_int_equal(kvt_release(&t, file, SNIC_FSOP_OPEN_READ), 0);
    assert_int_equal(kvt_release(&t, file, SNIC_FSOP_OPEN_READ), SNIC_EBADF);
    kvt_req(&t, &req, SNIC_FSOP_OPEN, dir, NULL);
    req.flags |= SNIC_FSOP_OPEN_WRITE;
    assert_int_equal(kvt_call(&t, &req), SNIC_EISDIR);
    kvt_close(&t);
}

/* ---- Times and modes ---- */

static int later(struct snic_fsop_time a, struct snic_fsop_time b)
{
    return a.sec > b.sec || (a.sec == b.sec && a.nsec > b.nsec);
}

static void test_kvfs_data_read_write_set_times(void **state)
{
    static unsigned char bytes[20000];
    struct snic_fsop_attr a, b;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t ino = kvt_create(&t, SNIC_FSOP_ROOT, "f", 06755);
    for (unsigned i = 0; i < 3; i++) { /* small, becomes big, within the size */
        assert_int_equal(kvt_getattr(&t, ino, &a), 0);
        kvt_advance(&t, 1000000);
        assert_int_equal(kvt_write(&t, ino, 0, bytes, i == 0 ? 10 : 20000), i == 0 ? 10 : 20000);
        assert_int_equal(kvt_getattr(&t, ino, &b), 0);
        assert_true(later(b.mtime, a.mtime) && later(b.ctime, a.ctime));
        assert_false(later(b.atime, a.atime));
        /* relatime: atime is older than mtime, so the first read sets it, and only the first */
        kvt_advance(&t, 1000000);
        t.flags = SNIC_FSOP_NOATIME;
        assert_int_equal(kvt_read(&t, ino, 0, bytes, 10), 10);
        t.flags = 0;
        assert_int_equal(kvt_getattr(&t, ino, &a), 0);
        assert_false(later(a.atime, b.atime));
        assert_int_equal(kvt_read(&t, ino, 0, bytes, 10), 10);
        assert_int_equal(kvt_getattr(&t, ino, &a), 0);
        assert_true(later(a.atime, b.mtime));
        kvt_advance(&t, 1000000);
        assert_int_equal(kvt_read(&t, ino, 0, bytes, 10), 10);
        assert_int_equal(kvt_getattr(&t, ino, &b), 0);
        assert_false(later(b.atime, a.atime));
    }
    assert_int_equal(b.mode & 07777, 06755);
    t.flags = SNIC_FSOP_KILL_PRIV;
    assert_int_equal(kvt_write(&t, ino, 5, bytes, 10), 10);
    t.flags = 0;
    assert_int_equal(kvt_getattr(&t, ino, &b), 0);
    assert_int_equal(b.mode & 07777, 0755);
    /* A write within the size changes only times. They are deferred; the unmount stores them. */
    assert_int_equal(kvt_write(&t, ino, 5, bytes, 10), 10);
    assert_int_equal(kvt_getattr(&t, ino, &a), 0);
    assert_int_equal(kvt_release(&t, ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
    assert_int_equal(kvt_unmount(&t), 0);
    assert_int_equal(kvt_mount(&t), 0);
    assert_int_equal(kvt_getattr(&t, ino, &b), 0);
    assert_int_equal(a.mtime.nsec, b.mtime.nsec);
    assert_int_equal(a.ctime.nsec, b.ctime.nsec);
    kvt_close(&t);
}

/* Deferred times must reach the store by FLUSH, FSYNC and SYNCFS, and after a second. */
static void test_kvfs_data_deferred_times_reach_the_store(void **state)
{
    enum { N = 40 };
    static unsigned char bytes[20000];
    struct snic_fsop_attr a[N];
    struct snic_fsop req;
    uint64_t ino[N];
    char name[3] = "f";
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    for (unsigned i = 0; i < N; i++) {
        name[1] = (char)('0' + i);
        ino[i] = kvt_create(&t, SNIC_FSOP_ROOT, name, 0644);
        assert_int_equal(kvt_write(&t, ino[i], 0, bytes, sizeof(bytes)), sizeof(bytes));
    }
    for (unsigned how = 0; how < 4; how++) {
        unsigned n = how < 2 ? 1 : N;
        for (unsigned i = 0; i < n; i++) {
            assert_int_equal(kvt_write(&t, ino[i], 5, bytes, 10), 10);
            assert_int_equal(kvt_getattr(&t, ino[i], &a[i]), 0);
            assert_int_not_equal(kvt_stored(&t, ino[i]).mtime.nsec, a[i].mtime.nsec);
        }
        kvt_req(&t, &req, SNIC_FSOP_FLUSH, ino[0], NULL);
        req.handle = (1ULL << 63) | (ino[0] << 2) | 3;
        if (how == 0)
            assert_int_equal(kvt_call(&t, &req), 0);
        else if (how == 1)
            assert_int_equal(kvb_simple(&t, SNIC_FSOP_FSYNC, ino[0]), 0);
        else if (how == 2)
            assert_int_equal(kvb_simple(&t, SNIC_FSOP_SYNCFS, SNIC_FSOP_ROOT), 0);
        else
            kvt_advance(&t, 1100000000);
        kvt_settle(&t);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(kvt_stored(&t, ino[i]).mtime.nsec, a[i].mtime.nsec);
    }
    assert_int_equal(snic_kvmem_check(t.m), 0);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(kvt_release(&t, ino[i], SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
    kvt_close(&t);
}

static int64_t capability_call(struct kvt *t, enum snic_fsop_kind kind, uint64_t ino)
{
    struct snic_fsop req;
    char value[20] = "capable";
    struct snic_iov iov = {.base = value, .size = 7};
    kvt_req(t, &req, kind, ino, "security.capability");
    req.iov = &iov;
    req.iov_count = 1;
    return kvt_call(t, &req);
}

/* A user that may write to a program must not get its capabilities, or run as its owner. */
static void test_kvfs_data_change_clears_privileges(void **state)
{
    static unsigned char bytes[20000];
    struct snic_fsop req;
    struct snic_fsop_attr a;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    for (unsigned i = 0; i < 8; i++) { /* small and big files in turn */
        uint64_t size = i % 2 == 0 ? 100 : 20000;
        uint64_t ino = kvt_create(&t, SNIC_FSOP_ROOT, "f", 06777);
        uint64_t other = kvt_create(&t, SNIC_FSOP_ROOT, "g", 0777);
        assert_int_equal(kvt_write(&t, ino, 0, bytes, size), size);
        assert_int_equal(kvt_write(&t, other, 0, bytes, size), size);
        assert_int_equal(capability_call(&t, SNIC_FSOP_SETXATTR, ino), 0);
        assert_int_equal(kvt_read(&t, ino, 0, bytes, 10), 10);
        assert_int_equal(capability_call(&t, SNIC_FSOP_GETXATTR, ino), 7);
        t.cred.uid = 1000;
        t.cred.gid = 1000;
        if (i < 2) {
            assert_int_equal(kvt_write(&t, ino, 5, bytes, 5), 5);
        } else if (i < 4) {
            assert_int_equal(kvb_fallocate(&t, ino, 0, 50, SNIC_FSOP_FALLOC_ZERO), 0);
        } else if (i < 6) {
            assert_int_equal(kvb_copy(&t, other, 0, ino, 0, 50), 50);
        } else {
            kvt_req(&t, &req, SNIC_FSOP_OPEN, ino, NULL);
            req.flags |= SNIC_FSOP_TRUNC;
            assert_int_equal(kvt_call(&t, &req), 0);
            assert_int_equal(req.attr.mode & 07777, 0777);
            assert_int_equal(kvt_release(&t, ino, 0), 0);
        }
        memset(&t.cred, 0, sizeof(t.cred));
        assert_int_equal(capability_call(&t, SNIC_FSOP_GETXATTR, ino), SNIC_ENODATA);
        assert_int_equal(kvt_getattr(&t, ino, &a), 0);
        assert_int_equal(a.mode & 07777, 0777);
        assert_int_equal(kvt_unlink(&t, SNIC_FSOP_ROOT, "f"), 0);
        assert_int_equal(kvt_unlink(&t, SNIC_FSOP_ROOT, "g"), 0);
        assert_int_equal(kvt_release(&t, ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
        assert_int_equal(kvt_release(&t, other, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
    }
    kvt_close(&t);
}

/* ---- Damage ---- */

static void test_kvfs_data_damage_reported_not_returned(void **state)
{
    static unsigned char bytes[30000];
    struct snic_kvop_change ch = {.kind = SNIC_KVOP_PUT, .value = bytes, .size = 20};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &ch, .change_count = 1};
    struct snic_kvfs_opts o;
    struct kvt t;
    (void)state;
    kvt_opts(&o);
    o.cache_bytes = 0; /* the default */
    kvt_open(&t, &o);
    uint64_t big = kvt_file(&t, SNIC_FSOP_ROOT, "big", 0644);
    uint64_t small = kvt_file(&t, SNIC_FSOP_ROOT, "small", 0644);
    kvb_fill(bytes, sizeof(bytes), 3);
    assert_int_equal(kvt_write(&t, big, 0, bytes, sizeof(bytes)), sizeof(bytes));
    assert_int_equal(kvt_write(&t, small, 0, bytes, 100), 100);
    assert_int_equal(kvt_unmount(&t), 0);
    assert_int_equal(kvt_mount(&t), 0);
    assert_int_equal(snic_kvmem_damage(t.m, big, 20000), 0);
    snic_kvfs_key(&ch.key, small, SNIC_KVFS_REC_DATA);
    snic_kvmem_apply(t.m, &op);
    assert_int_equal(op.result, 0);
    assert_int_equal(kvt_read(&t, big, 0, bytes, 8192), 8192);
    assert_int_equal(t.damages, 0);
    assert_int_equal(kvt_read(&t, big, 0, bytes, sizeof(bytes)), SNIC_ECORRUPT);
    assert_int_equal(t.damages, 1);
    assert_int_equal(t.damage[0].object, big);
    assert_int_equal(t.damage[0].offset, 16384);
    assert_int_equal(t.damage[0].key.size, 0);
    assert_int_equal(kvt_read(&t, small, 0, bytes, 100), SNIC_ECORRUPT);
    assert_int_equal(t.damages, 2);
    assert_int_equal(t.damage[1].key.group, small);
    assert_int_equal(t.damage[1].key.bytes[0], SNIC_KVFS_REC_DATA);
    /* Overwriting a part does not hide the damage; overwriting all of it repairs the file. */
    assert_int_equal(kvt_write(&t, small, 10, bytes, 10), SNIC_ECORRUPT);
    assert_int_equal(kvt_write(&t, small, 0, bytes, 100), 100);
    assert_int_equal(kvt_read(&t, small, 0, bytes, 100), 100);
    kvt_close(&t);
}

/* ---- Concurrent requests ---- */

/* Concurrent appends must not overlap. */
static void test_kvfs_data_concurrent_appends_all_stored(void **state)
{
    enum { N = 40 };
    static unsigned char bytes[N][3000], out[N * 3000];
    struct snic_fsop req[N];
    struct snic_iov iov[N];
    unsigned char seen[1 + N] = {0};
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    t.random = 1;
    uint64_t ino = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    for (unsigned i = 0; i < N; i++) {
        memset(bytes[i], (int)i + 1, sizeof(bytes[i]));
        iov[i] = (struct snic_iov){.base = bytes[i], .size = sizeof(bytes[i])};
        kvt_req(&t, &req[i], SNIC_FSOP_WRITE, ino, NULL);
        req[i].flags |= SNIC_FSOP_APPEND;
        req[i].iov = &iov[i];
        req[i].iov_count = 1;
        kvt_submit(&t, &req[i]);
    }
    for (unsigned i = 0; i < N; i++) {
        struct snic_fsop *done = kvt_wait(&t);
        assert_non_null(done);
        assert_int_equal(done->result, 3000);
    }
    assert_int_equal(kvt_read(&t, ino, 0, out, sizeof(out)), sizeof(out));
    for (unsigned i = 0; i < N; i++) {
        unsigned writer = out[i * 3000];
        assert_true(writer >= 1 && writer <= N && !seen[writer]);
        seen[writer] = 1;
        assert_memory_equal(out + i * 3000, bytes[writer - 1], 3000);
    }
    kvt_close(&t);
}

/* After a write within the size fdatasync() commits nothing; fsync() commits the times. */
static void test_kvfs_data_fdatasync_skips_times(void **state)
{
    static unsigned char bytes[100000];
    struct snic_kvfs_stats before, after;
    struct snic_fsop req;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    assert_int_equal(kvt_write(&t, f, 0, bytes, sizeof(bytes)), sizeof(bytes));
    for (int data = 1; data >= 0; data--) {
        assert_int_equal(kvt_write(&t, f, 4096, bytes, 100), 100);
        snic_kvfs_get_stats(t.k, &before);
        kvt_req(&t, &req, SNIC_FSOP_FSYNC, f, NULL);
        req.flags |= data ? SNIC_FSOP_FSYNC_DATA : 0;
        assert_int_equal(kvt_call(&t, &req), 0);
        snic_kvfs_get_stats(t.k, &after);
        assert_int_equal(after.store_commits - before.store_commits, data ? 0 : 1);
    }
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_data_fdatasync_skips_times),
        cmocka_unit_test(test_kvfs_data_all_sequences_match_model),
        cmocka_unit_test(test_kvfs_data_all_sequences_plain_store_match_model),
        cmocka_unit_test(test_kvfs_data_store_operations_counted),
        cmocka_unit_test(test_kvfs_data_options_unset_times_deferred),
        cmocka_unit_test(test_kvfs_data_pieces_joined),
        cmocka_unit_test(test_kvfs_data_wrong_requests_refused),
        cmocka_unit_test(test_kvfs_data_read_write_set_times),
        cmocka_unit_test(test_kvfs_data_deferred_times_reach_the_store),
        cmocka_unit_test(test_kvfs_data_change_clears_privileges),
        cmocka_unit_test(test_kvfs_data_damage_reported_not_returned),
        cmocka_unit_test(test_kvfs_data_concurrent_appends_all_stored),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
