/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Changes of data that begin anew after their object operation has happened: because the commit's
 * guard failed, its outcome was not known, or the session had to prove that it lives. Bytes, space
 * and what is behind the size are as if it had happened once; or not at all, if it fails then.
 */
#include "test_kvfs_bytes.h"
#include "test_kvfs_many.h"

#include <string.h>

enum { RETRY_BIG = 20000, RETRY_MORE = 100000, RETRY_ALL = 200000 };

static unsigned char retry_bytes[RETRY_ALL];

/* ---- A write that fails when it is tried again ---- */

struct retry_lost {
    int commits; /* the outcome of so many is not known: none has happened ...               */
    int gets;    /* ... and then so many reads succeed, and one fails                          */
};

static void retry_lose(struct kvt *t, struct snic_kvop *op)
{
    struct retry_lost *l = t->ctx;
    if (op->kind == SNIC_KVOP_COMMIT && l->commits > 0) {
        l->commits--;
        op->failed_guard = UINT32_MAX;
        op->result = SNIC_EUNKNOWN;
    } else if (op->kind == SNIC_KVOP_GET && l->commits == 0 && l->gets-- == 0) {
        op->result = SNIC_EIO;
    } else {
        snic_kvmem_apply(t->m, op);
    }
}

static void retry_lost_write(struct kvt *t, uint64_t ino, uint64_t offset)
{
    struct retry_lost lost = {.commits = 1, .gets = 1};
    t->ctx = &lost;
    t->apply = retry_lose;
    assert_int_equal(kvt_write(t, ino, offset, retry_bytes, RETRY_MORE), SNIC_EIO);
    t->apply = NULL;
}

/* Its bytes never appear where the file grows later, and do not outlive it. */
static void test_kvfs_data_retry_failed_leaves_no_bytes(void **state)
{
    static unsigned char out[RETRY_ALL];
    (void)state;
    memset(retry_bytes, 0xaa, sizeof(retry_bytes));
    for (int how = 0; how < 8; how++) {
        uint64_t size = (how & 1) != 0 ? RETRY_BIG : 100;
        uint64_t offset = (how & 2) != 0 ? size : RETRY_BIG + 10000;
        struct kvt t;
        kvt_open(&t, NULL);
        uint64_t ino = kvt_create(&t, SNIC_FSOP_ROOT, "f", 0644);
        assert_int_equal(kvt_write(&t, ino, 0, retry_bytes, size), size);
        retry_lost_write(&t, ino, offset);
        assert_int_equal(kvt_attr(&t, ino).size, size);
        if ((how & 4) != 0) {
            assert_int_equal(kvt_truncate(&t, ino, RETRY_ALL), 0);
            assert_int_equal(kvt_read(&t, ino, 0, out, sizeof(out)), RETRY_ALL);
            assert_memory_equal(out, retry_bytes, size);
            for (uint64_t i = size; i < RETRY_ALL; i++)
                assert_int_equal(out[i], 0);
            assert_int_equal(kvt_attr(&t, ino).space, kvb_object(&t, ino));
        }
        assert_int_equal(kvt_release(&t, ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
        assert_int_equal(kvt_unlink(&t, SNIC_FSOP_ROOT, "f"), 0);
        kvt_settle(&t);
        assert_int_equal(kvb_object(&t, ino), 0);
        kvt_close(&t);
    }
}

/* ---- Space ---- */

/* So many commits fail at a guard. */
static void retry_guard(struct kvt *t, struct snic_kvop *op)
{
    int *left = t->ctx;
    if (op->kind == SNIC_KVOP_COMMIT && op->guard_count > 0 && *left > 0) {
        --*left;
        op->failed_guard = op->guard_count - 1;
        op->result = SNIC_ECANCELED;
        return;
    }
    snic_kvmem_apply(t->m, op);
}

enum { RETRY_CHANGES = 9 };

/* Each kind of change that has an object operation of its own. */
static int64_t retry_change(struct kvt *t, uint64_t ino, uint64_t other, int which)
{
    const uint32_t keep = SNIC_FSOP_FALLOC_KEEP_SIZE;
    switch (which) {
    case 0: /* append */
        return kvt_write(t, ino, RETRY_BIG, retry_bytes, RETRY_MORE) - RETRY_MORE;
    case 1: /* with a gap */
        return kvt_write(t, ino, 50000, retry_bytes, RETRY_MORE) - RETRY_MORE;
    case 2: /* over all that is there */
        return kvt_write(t, ino, 0, retry_bytes, RETRY_MORE) - RETRY_MORE;
    case 3:
        return kvb_copy(t, other, 0, ino, RETRY_BIG, RETRY_MORE) - RETRY_MORE;
    case 4: /* into a hole */
        assert_int_equal(kvt_truncate(t, ino, RETRY_ALL), 0);
        return kvt_write(t, ino, 90000, retry_bytes, 30000) - 30000;
    case 5:
        assert_int_equal(kvt_write(t, ino, 0, retry_bytes, RETRY_MORE), RETRY_MORE);
        return kvb_fallocate(t, ino, 0, RETRY_MORE, SNIC_FSOP_FALLOC_PUNCH | keep);
    case 6:
        return kvb_fallocate(t, ino, 0, RETRY_ALL, keep);
    case 7:
        return kvb_fallocate(t, ino, 5000, RETRY_ALL, 0);
    default:
        return kvb_fallocate(t, ino, 100, 60000, SNIC_FSOP_FALLOC_ZERO);
    }
}

static void retry_space(int which, uint64_t size, int fail, uint64_t times_ns, uint32_t mode)
{
    struct snic_kvfs_opts o;
    struct kvt t;
    int left = 0;
    kvt_opts(&o);
    o.times_ns = times_ns;
    kvt_open(&t, &o);
    uint64_t ino = kvt_create(&t, SNIC_FSOP_ROOT, "f", mode);
    uint64_t other = kvt_file(&t, SNIC_FSOP_ROOT, "g", 0644);
    assert_int_equal(kvt_write(&t, ino, 0, retry_bytes, size), size);
    assert_int_equal(kvt_write(&t, other, 0, retry_bytes, RETRY_MORE), RETRY_MORE);
    t.flags = SNIC_FSOP_KILL_PRIV;
    t.ctx = &left;
    t.apply = retry_guard;
    left = fail;
    assert_int_equal(retry_change(&t, ino, other, which), 0);
    t.apply = NULL;
    t.flags = 0;
    kvt_settle(&t);
    assert_int_equal(kvt_attr(&t, ino).space, kvb_space(&t, ino));
    assert_int_equal(kvt_release(&t, ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
    kvt_close(&t);
}

/* st_blocks is what the store has, however often it was tried. */
static void test_kvfs_data_retry_space_exact(void **state)
{
    (void)state;
    memset(retry_bytes, 0xaa, sizeof(retry_bytes));
    for (int which = 0; which < RETRY_CHANGES; which++)
        for (int fail = 0; fail < 4; fail++)
            for (uint32_t mode = 0644; mode <= 04755; mode += 04755 - 0644) {
                retry_space(which, RETRY_BIG, fail, 1000000000, mode);
                retry_space(which, RETRY_BIG, fail, SNIC_KVFS_TIMES_AT_ONCE, mode);
                retry_space(which, 100, fail, 1000000000, mode);
                retry_space(which, 100, fail, SNIC_KVFS_TIMES_AT_ONCE, mode);
            }
}

/* ---- A session that has to prove that it lives ---- */

/* The first object operation that changes takes most of a lease. */
static void retry_slow(struct kvt *t, struct snic_kvop *op)
{
    int *left = t->ctx;
    if (op->kind != SNIC_KVOP_OBJECT_WRITE && op->kind != SNIC_KVOP_OBJECT_PUNCH)
        return;
    if (*left > 0) {
        --*left;
        t->now.mono_ns += 6000000000;
        t->now.wall_ns += 6000000000;
    }
}

static void test_kvfs_data_retry_slow_store_same(void **state)
{
    static struct kvb f;
    unsigned char *bytes = retry_bytes;
    (void)state;
    for (int how = 0; how < 5; how++) {
        struct snic_kvfs_opts o;
        struct kvt t;
        int left = 1;
        kvt_opts(&o);
        o.heartbeat_ns = 1000000000;
        o.lease_ns = 10000000000;
        kvt_open(&t, &o);
        snic_kvfs_set_sole(t.k, 0);
        kvb_fill(bytes, RETRY_ALL, (uint64_t)how + 3);
        uint64_t other = kvt_file(&t, SNIC_FSOP_ROOT, "g", 0644);
        f.ino = kvt_create(&t, SNIC_FSOP_ROOT, "f", 0644);
        f.size = 0;
        memset(f.bytes, 0, sizeof(f.bytes));
        assert_int_equal(kvt_write(&t, other, 0, bytes, 30000), 30000);
        assert_int_equal(kvt_write(&t, f.ino, 0, bytes + 1000, RETRY_BIG), RETRY_BIG);
        kvb_put(&f, 0, bytes + 1000, RETRY_BIG);
        assert_int_equal(kvt_truncate(&t, f.ino, 60000), 0);
        f.size = 60000;
        t.ctx = &left;
        t.before = retry_slow;
        if (how == 0) {
            assert_int_equal(kvb_copy(&t, other, 0, f.ino, 30000, 20000), 20000);
            kvb_put(&f, 30000, bytes, 20000);
        } else if (how == 1) {
            assert_int_equal(kvt_write(&t, f.ino, 30000, bytes, 20000), 20000);
            kvb_put(&f, 30000, bytes, 20000);
        } else if (how == 2) {
            assert_int_equal(kvb_fallocate(&t, f.ino, 0, 9000,
                                           SNIC_FSOP_FALLOC_PUNCH | SNIC_FSOP_FALLOC_KEEP_SIZE),
                             0);
            kvb_zero(&f, 0, 9000, 1);
        } else if (how == 3) {
            assert_int_equal(kvt_write(&t, f.ino, 60000, bytes, RETRY_MORE), RETRY_MORE);
            kvb_put(&f, 60000, bytes, RETRY_MORE);
        } else { /* a hole over bytes */
            assert_int_equal(kvt_truncate(&t, other, 0), 0);
            assert_int_equal(kvt_truncate(&t, other, 30000), 0);
            assert_int_equal(kvb_copy(&t, other, 0, f.ino, 0, 20000), 20000);
            kvb_zero(&f, 0, 20000, 1);
        }
        assert_int_equal(left, 0);
        t.before = NULL;
        kvb_check(&t, &f);
        assert_int_equal(kvt_release(&t, f.ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
        kvt_close(&t);
    }
}

/* ---- What others leave behind the size ---- */

/*
 * A session makes a file while it is not alone, and has it open. Another one dies in the middle of
 * an append to it. Once alone, the first still has to look what is behind the size.
 */
static void test_kvfs_data_retry_alone_again_no_bytes(void **state)
{
    static unsigned char out[RETRY_ALL];
    struct snic_iov iov = {.base = retry_bytes, .size = RETRY_MORE};
    struct snic_kvop dirt = {.kind = SNIC_KVOP_OBJECT_WRITE, .iov = &iov, .iov_count = 1};
    struct snic_kvfs_stats s;
    struct snic_fsop req;
    struct many y;
    (void)state;
    memset(retry_bytes, 0xaa, sizeof(retry_bytes));
    many_open(&y, 2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, support_seed());
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
    kvt_req(&y.t[0], &req, SNIC_FSOP_CREATE, SNIC_FSOP_ROOT, "f");
    req.mode = 0644;
    req.flags |= SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE;
    assert_int_equal(many_call(&y, 0, &req), 0);
    uint64_t ino = req.attr.ino, handle = req.handle;
    dirt.object = ino;
    dirt.length = RETRY_MORE;
    snic_kvmem_apply(y.m, &dirt);
    assert_true(dirt.result >= 0);
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_UNMOUNT, 0, NULL), 0);
    many_pass(&y, 30000000000);
    snic_kvfs_get_stats(y.t[0].k, &s);
    assert_int_equal(s.alone, 1);
    kvt_req(&y.t[0], &req, SNIC_FSOP_SETATTR, ino, NULL);
    req.set_mask = SNIC_FSOP_SET_SIZE;
    req.attr.size = RETRY_ALL;
    assert_int_equal(many_call(&y, 0, &req), 0);
    iov = (struct snic_iov){.base = out, .size = sizeof(out)};
    kvt_req(&y.t[0], &req, SNIC_FSOP_READ, ino, NULL);
    req.iov = &iov;
    req.iov_count = 1;
    assert_int_equal(many_call(&y, 0, &req), RETRY_ALL);
    for (uint64_t i = 0; i < RETRY_ALL; i++)
        assert_int_equal(out[i], 0);
    kvt_req(&y.t[0], &req, SNIC_FSOP_RELEASE, 0, NULL);
    req.handle = handle;
    assert_int_equal(many_call(&y, 0, &req), 0);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNMOUNT, 0, NULL), 0);
    for (uint32_t i = 0; i < 2; i++)
        kvt_close(&y.t[i]);
    snic_kvmem_close(y.m);
}

/* ---- A shrink whose outcome is looked up ---- */

/* Of the commit that truncates the records happen, the rest does not; no result shows it. */
static void retry_half(struct kvt *t, struct snic_kvop *op)
{
    int *left = t->ctx;
    uint32_t all = op->change_count;
    if (op->kind != SNIC_KVOP_COMMIT || *left == 0) {
        snic_kvmem_apply(t->m, op);
        return;
    }
    for (uint32_t i = 0; i < all; i++) {
        if (op->changes[i].kind != SNIC_KVOP_CHANGE_TRUNCATE)
            continue;
        struct snic_kvop_change last = op->changes[all - 1];
        op->changes[all - 1] = op->changes[i];
        op->changes[i] = last;
        --*left;
        op->change_count = all - 1;
        break;
    }
    snic_kvmem_apply(t->m, op);
    assert_true(op->result >= 0);
    op->result = *left == 0 ? SNIC_EUNKNOWN : op->result;
    op->change_count = all;
}

/* What was not cut does not come back where the file grows. */
static void test_kvfs_data_retry_half_shrink_no_old_bytes(void **state)
{
    static unsigned char out[RETRY_ALL];
    (void)state;
    memset(retry_bytes, 0xaa, sizeof(retry_bytes));
    for (int how = 0; how < 4; how++) {
        uint64_t size = (how & 1) != 0 ? 0 : RETRY_BIG;
        struct kvt t;
        int left = 1;
        kvt_open(&t, NULL);
        uint64_t ino = kvt_create(&t, SNIC_FSOP_ROOT, "f", 0644);
        assert_int_equal(kvt_write(&t, ino, 0, retry_bytes, RETRY_MORE), RETRY_MORE);
        t.ctx = &left;
        t.apply = retry_half;
        assert_int_equal(kvt_truncate(&t, ino, size), 0);
        assert_int_equal(left, 0);
        t.apply = NULL;
        if ((how & 2) != 0)
            assert_int_equal(kvt_truncate(&t, ino, RETRY_ALL), 0);
        else
            assert_int_equal(kvt_write(&t, ino, RETRY_ALL - 1, "", 1), 1);
        assert_int_equal(kvt_read(&t, ino, 0, out, sizeof(out)), RETRY_ALL);
        assert_memory_equal(out, retry_bytes, size);
        for (uint64_t i = size; i < RETRY_ALL; i++)
            assert_int_equal(out[i], 0);
        assert_int_equal(kvt_release(&t, ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
        kvt_close(&t);
    }
}

/* ---- A commit that waits for a GET in flight ---- */

/* A record 'D' of a big file: damage, of more bytes than any such record has; or its removal. */
static void retry_stale_data(struct snic_kvmem *m, uint64_t ino, int there)
{
    struct snic_kvop_change c = {.kind = there ? SNIC_KVOP_PUT : SNIC_KVOP_DELETE,
                                 .value = there ? retry_bytes : NULL,
                                 .size = there ? RETRY_BIG : 0};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    snic_kvfs_key(&c.key, ino, SNIC_KVFS_REC_DATA);
    snic_kvmem_apply(m, &op);
    assert_int_equal(op.result, 0);
}

/* The write would be acknowledged without a commit: its run after the GET notes no change. */
static void test_kvfs_data_retry_get_in_flight_commits(void **state)
{
    static struct many y;
    const uint64_t size = 5U << 20; /* behind the first stripe: the bytes go ahead of the commit */
    struct snic_iov iov = {retry_bytes, RETRY_BIG};
    struct snic_fsop req;
    (void)state;
    many_open(&y, 2, MANY_CAPS, support_seed());
    many_mount(&y);
    uint64_t ino = many_file(&y, 0, "f");
    kvt_req(&y.t[0], &req, SNIC_FSOP_SETATTR, ino, NULL);
    req.set_mask = SNIC_FSOP_SET_SIZE;
    req.attr.size = size;
    assert_int_equal(many_call(&y, 0, &req), 0);
    retry_stale_data(y.m, ino, 1);
    kvt_req(&y.t[0], &req, SNIC_FSOP_WRITE, ino, NULL);
    req.flags |= SNIC_FSOP_APPEND;
    req.iov = &iov;
    req.iov_count = 1;
    many_start(&y, 0, &req);
    many_give_back(&y, 0, many_hold(&y, 0, SNIC_KVOP_GET, ino));
    struct snic_kvfs_io *again = many_hold(&y, 0, SNIC_KVOP_GET, ino); /* for its true size */
    many_pass(&y, 1000);
    many_give_back(&y, 0, again);
    many_finish(&y, 1);
    assert_int_equal(req.result, RETRY_BIG);
    assert_int_equal(kvt_stored(&y.t[0], ino).size, size + RETRY_BIG);
    retry_stale_data(y.m, ino, 0);
    many_close(&y);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_data_retry_failed_leaves_no_bytes),
        cmocka_unit_test(test_kvfs_data_retry_space_exact),
        cmocka_unit_test(test_kvfs_data_retry_half_shrink_no_old_bytes),
        cmocka_unit_test(test_kvfs_data_retry_slow_store_same),
        cmocka_unit_test(test_kvfs_data_retry_alone_again_no_bytes),
        cmocka_unit_test(test_kvfs_data_retry_get_in_flight_commits),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
