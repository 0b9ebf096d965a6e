/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What closes and syncs leave behind: locks of a close that the store fails, files closed before a
 * SYNCFS. */
#include "kvfs/locks_priv.h"
#include "test_kvfs_many.h"

#include <string.h>

/* ---- SYNCFS ---- */

/* What is deferred of an inode goes with its memory once it is written, when the file is not
 * open: the next one is not to be skipped for it. */
static void test_kvfs_close_syncfs_writes_all_closed(void **state)
{
    enum { N = 40 };
    static unsigned char bytes[20000];
    struct snic_fsop req;
    uint64_t ino[N];
    char name[3] = "f";
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    for (unsigned i = 0; i < N; i++) {
        name[1] = (char)('0' + i);
        ino[i] = kvt_file(&t, SNIC_FSOP_ROOT, name, 0644);
        assert_int_equal(kvt_write(&t, ino[i], 0, bytes, sizeof(bytes)), sizeof(bytes));
    }
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(kvt_write(&t, ino[i], 5, bytes, 10), 10);
        assert_true(kvt_time_later(kvt_attr(&t, ino[i]).mtime, kvt_stored(&t, ino[i]).mtime));
        assert_int_equal(kvfs_inode_opens(t.k, ino[i]), 0);
    }
    kvt_req(&t, &req, SNIC_FSOP_SYNCFS, SNIC_FSOP_ROOT, NULL);
    assert_int_equal(kvt_call(&t, &req), 0);
    for (unsigned i = 0; i < N; i++)
        assert_true(kvt_time_equal(kvt_stored(&t, ino[i]).mtime, kvt_attr(&t, ino[i]).mtime));
    kvt_close(&t);
}

/* ---- Locks at a close that the store fails ---- */

enum { U = SNIC_FSOP_UNLCK, W = SNIC_FSOP_WRLCK, RW = SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE };
enum { FAIL_NOTHING = 0, FAIL_ATTR, FAIL_COMMIT, FAIL_FULL };

static struct many y;
static struct {
    uint32_t what;
    uint64_t ino;
    uint32_t count;
} fail;

static int fails(const struct snic_kvop *op)
{
    int hit = 0;
    if (fail.what == FAIL_FULL)
        return op->kind == SNIC_KVOP_COMMIT && (op->flags & SNIC_KVOP_RESERVE) == 0;
    for (uint32_t i = 0; op->kind == SNIC_KVOP_GET && i < op->get_count; i++)
        hit |= fail.what == FAIL_ATTR && op->gets[i].key.group == fail.ino &&
               op->gets[i].key.bytes[0] == SNIC_KVFS_REC_ATTR;
    for (uint32_t i = 0; op->kind == SNIC_KVOP_COMMIT && i < op->change_count; i++)
        hit |= fail.what == FAIL_COMMIT && op->changes[i].key.group == fail.ino;
    return hit;
}

static void fail_apply(struct kvt *t, struct snic_kvop *op)
{
    if (!fails(op)) {
        snic_kvmem_apply(t->m, op);
        return;
    }
    fail.count++;
    op->result = fail.what == FAIL_FULL ? SNIC_ENOSPC : SNIC_EIO;
    op->failed_guard = UINT32_MAX;
}

static int64_t lock(uint32_t i, enum snic_fsop_kind kind, uint64_t ino, uint64_t owner,
                    uint32_t type)
{
    struct snic_fsop req;
    kvt_req(&y.t[i], &req, kind, ino, NULL);
    req.lock = (struct snic_fsop_lock){.owner = owner, .end = UINT64_MAX, .type = type, .pid = 100};
    return many_call(&y, i, &req);
}

static uint64_t create(uint32_t i, const char *name, uint64_t *handle)
{
    struct snic_fsop req;
    kvt_req(&y.t[i], &req, SNIC_FSOP_CREATE, SNIC_FSOP_ROOT, name);
    req.mode = 0644;
    req.flags |= RW;
    assert_int_equal(many_call(&y, i, &req), 0);
    *handle = req.handle;
    return req.attr.ino;
}

static int64_t write_kept(uint64_t ino)
{
    static unsigned char bytes[20000];
    struct snic_iov iov = {.base = bytes, .size = sizeof(bytes)};
    struct snic_fsop req;
    kvt_req(&y.t[0], &req, SNIC_FSOP_WRITE, ino, NULL);
    req.iov = &iov;
    req.iov_count = 1;
    return many_call(&y, 0, &req);
}

static int64_t close_one(enum snic_fsop_kind kind, uint64_t handle)
{
    struct snic_fsop req;
    kvt_req(&y.t[0], &req, kind, kvfs_handle_ino(handle), NULL);
    req.handle = handle;
    req.lock.owner = 7;
    return many_call(&y, 0, &req);
}

/*
 * The locks end with the close, for others of the session at once, and for other sessions when a
 * heartbeat has brought the record up to date.
 */
static void locks_end(uint32_t what, enum snic_fsop_kind how, enum snic_fsop_kind kind)
{
    uint64_t handle;
    many_open_with(&y, 2, 0, support_seed(), 100000000000);
    many_mount(&y);
    uint64_t ino = create(0, "f", &handle);
    assert_true(write_kept(ino) > 0);
    assert_true(write_kept(ino) > 0); /* the time is deferred */
    assert_int_equal(lock(0, kind, ino, 7, W), 0);
    assert_int_equal(lock(1, kind, ino, 8, W), SNIC_EAGAIN);
    fail.what = what;
    fail.ino = ino;
    y.t[0].apply = fail_apply;
    assert_int_equal(close_one(how, handle), SNIC_EIO);
    struct kvfs_lock_file *f = kvfs_locks_find(y.t[0].k->locks, ino);
    assert_non_null(f);
    assert_true(snic_link_alone(&f->held));
    if (what == FAIL_COMMIT) { /* and so do the heartbeat's attempts */
        fail.count = 0;
        many_pass(&y, 3500000000);
        assert_true(fail.count >= 2);
        assert_int_equal(lock(1, kind, ino, 8, W), SNIC_EAGAIN);
    }
    fail.what = FAIL_NOTHING;
    many_pass(&y, 2500000000);
    assert_int_equal(lock(1, kind, ino, 8, W), 0);
    assert_int_equal(lock(0, kind, ino, 7, W), SNIC_EAGAIN);
    assert_int_equal(lock(1, kind, ino, 8, U), 0);
    assert_true(snic_link_alone(&y.t[0].k->locks->files));
    if (how == SNIC_FSOP_FLUSH)
        assert_int_equal(close_one(SNIC_FSOP_RELEASE, handle), 0);
    assert_int_equal(kvfs_inode_opens(y.t[0].k, ino), 0);
    many_close(&y);
}

static void test_kvfs_close_flush_fails_locks_end(void **state)
{
    (void)state;
    locks_end(FAIL_ATTR, SNIC_FSOP_FLUSH, SNIC_FSOP_SETLK);
    locks_end(FAIL_COMMIT, SNIC_FSOP_FLUSH, SNIC_FSOP_SETLK);
}

static void test_kvfs_close_release_fails_locks_end(void **state)
{
    (void)state;
    locks_end(FAIL_ATTR, SNIC_FSOP_RELEASE, SNIC_FSOP_FLOCK);
    locks_end(FAIL_COMMIT, SNIC_FSOP_RELEASE, SNIC_FSOP_FLOCK);
    locks_end(FAIL_COMMIT, SNIC_FSOP_RELEASE, SNIC_FSOP_SETLK);
}

/* A session that leaves waits for the record that is on its way: its memory is not taken from under
 * the store. */
static void test_kvfs_close_unmount_waits_for_locks(void **state)
{
    struct snic_fsop req;
    struct snic_kvfs_io *io = NULL;
    uint64_t handle;
    (void)state;
    many_open(&y, 2, 0, support_seed());
    many_mount(&y);
    struct kvt *t = &y.t[0];
    uint64_t ino = create(0, "f", &handle);
    assert_int_equal(lock(0, SNIC_FSOP_FLOCK, ino, 7, W), 0);
    fail.what = FAIL_COMMIT;
    fail.ino = ino;
    t->apply = fail_apply;
    assert_int_equal(close_one(SNIC_FSOP_RELEASE, handle), SNIC_EIO);
    fail.what = FAIL_NOTHING;
    y.paused = 3;
    for (int i = 0; i < 100 && t->k->locks->publishing == 0; i++) {
        t->now.mono_ns += 50000000;
        snic_kvfs_advance(t->k, t->now);
        while (t->k->locks->publishing == 0 && kvt_step(t))
            continue;
    }
    assert_int_equal(t->k->locks->publishing, 1);
    while ((io = snic_kvfs_poll_io(t->k)) != NULL && io->op.kind != SNIC_KVOP_GET) {
        snic_kvmem_apply(t->m, &io->op);
        snic_kvfs_complete(t->k, io, t->now);
    }
    assert_non_null(io);
    y.now = t->now;
    y.paused = 0;
    kvt_req(t, &req, SNIC_FSOP_UNMOUNT, 0, NULL);
    kvt_submit(t, &req);
    many_pass(&y, 1000000000);
    assert_null(snic_kvfs_poll_done(t->k));
    t->now = y.now;
    snic_kvmem_apply(t->m, &io->op);
    snic_kvfs_complete(t->k, io, t->now);
    many_finish(&y, 1);
    assert_int_equal(req.result, 0);
    assert_int_equal(t->k->own_in_flight, 0);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    many_close(&y);
}

/* A full store keeps no session from joining, or from giving locks back: what is kept for removals
 * is used. */
static void test_kvfs_close_full_store_locks_published_and_end(void **state)
{
    uint64_t handle;
    (void)state;
    many_open(&y, 2, 0, support_seed());
    y.paused = 2;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    uint64_t ino = create(0, "f", &handle);
    assert_int_equal(lock(0, SNIC_FSOP_FLOCK, ino, 7, W), 0);
    assert_int_equal(lock(0, SNIC_FSOP_SETLK, ino, 7, W), 0);
    assert_int_equal(lock(0, SNIC_FSOP_SETLK, ino, 7, U), 0);
    assert_int_equal(lock(0, SNIC_FSOP_SETLK, ino, 6, W), 0);
    many_pass(&y, 3000000000);
    fail.what = FAIL_FULL;
    y.t[0].apply = fail_apply;
    y.t[1].apply = fail_apply;
    y.paused = 0;
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
    assert_int_equal(lock(0, SNIC_FSOP_SETLK, ino, 9, W), SNIC_EAGAIN);
    assert_int_equal(lock(0, SNIC_FSOP_SETLK, ino, 6, U), 0);
    assert_int_equal(close_one(SNIC_FSOP_RELEASE, handle), 0);
    fail.what = FAIL_NOTHING;
    assert_int_equal(lock(1, SNIC_FSOP_FLOCK, ino, 8, W), 0);
    assert_int_equal(lock(1, SNIC_FSOP_SETLK, ino, 8, W), 0);
    many_close(&y);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_close_syncfs_writes_all_closed),
        cmocka_unit_test(test_kvfs_close_flush_fails_locks_end),
        cmocka_unit_test(test_kvfs_close_release_fails_locks_end),
        cmocka_unit_test(test_kvfs_close_unmount_waits_for_locks),
        cmocka_unit_test(test_kvfs_close_full_store_locks_published_and_end),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
