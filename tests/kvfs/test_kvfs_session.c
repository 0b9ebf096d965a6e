/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sessions: mounts come, share, go, die; what they keep in memory; files unlinked while open. */
#include "test_kvfs_many.h"

#include <stdlib.h>
#include <string.h>

enum { SESSION_SECOND = 1000000000 };

static int session_alone(struct many *y, uint32_t i)
{
    struct snic_kvfs_stats s;
    snic_kvfs_get_stats(y->t[i].k, &s);
    return (int)s.alone;
}

static int64_t session_mount(struct many *y, uint32_t i)
{
    return many_simple(y, i, SNIC_FSOP_MOUNT, 0, NULL);
}

static int64_t session_unmount(struct many *y, uint32_t i)
{
    return many_simple(y, i, SNIC_FSOP_UNMOUNT, 0, NULL);
}

static uint64_t session_made(struct many *y, uint32_t i, enum snic_fsop_kind kind, uint64_t dir,
                             const char *name, uint64_t *handle)
{
    struct snic_fsop req;
    kvt_req(&y->t[i], &req, kind, dir, name);
    req.mode = kind == SNIC_FSOP_MKDIR ? 0755 : 0100644;
    req.flags |= kind == SNIC_FSOP_CREATE ? SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE : 0u;
    assert_int_equal(many_call(y, i, &req), 0);
    if (handle != NULL)
        *handle = req.handle;
    return req.attr.ino;
}

static int64_t session_data(struct many *y, uint32_t i, enum snic_fsop_kind kind, uint64_t ino,
                            void *bytes, size_t size)
{
    struct snic_fsop req;
    struct snic_iov iov = {.base = bytes, .size = size};
    kvt_req(&y->t[i], &req, kind, ino, NULL);
    req.length = size;
    req.iov = &iov;
    req.iov_count = 1;
    return many_call(y, i, &req);
}

static int64_t session_release(struct many *y, uint32_t i, uint64_t ino, uint64_t handle)
{
    struct snic_fsop req;
    kvt_req(&y->t[i], &req, SNIC_FSOP_RELEASE, ino, NULL);
    req.handle = handle;
    return many_call(y, i, &req);
}

static int64_t session_getattr(struct many *y, uint32_t i, uint64_t ino, struct snic_fsop_attr *a)
{
    struct snic_fsop req;
    kvt_req(&y->t[i], &req, SNIC_FSOP_GETATTR, ino, NULL);
    int64_t rc = many_call(y, i, &req);
    *a = req.attr;
    return rc;
}

/* One session keeps records; a newcomer waits until it does not; the last one does again. */
static void test_kvfs_session_newcomer_alone_ends(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= support_rounds(30, 1000); seed++) {
        struct many y;
        char bytes[8] = "before", got[8] = "";
        struct snic_fsop_attr a;
        /* Deferred for long: only the newcomer's arrival brings it out. */
        many_open_with(&y, 2, MANY_CAPS | (seed % 2 ? SNIC_KV_CAP_ATOMIC_MULTI : 0), seed,
                       1000 * (uint64_t)SESSION_SECOND);
        assert_int_equal(session_mount(&y, 0), 0);
        assert_true(session_alone(&y, 0));
        uint64_t ino = session_made(&y, 0, SNIC_FSOP_MKNOD, 1, "f", NULL);
        char big[20000] = "before";
        assert_int_equal(session_data(&y, 0, SNIC_FSOP_WRITE, ino, big, sizeof(big)), sizeof(big));
        many_pass(&y, snic_rng_below(&y.rng, 3) * SESSION_SECOND / 4);
        bytes[0] = 'B'; /* times of this are deferred */
        assert_int_equal(session_data(&y, 0, SNIC_FSOP_WRITE, ino, bytes, 8), 8);
        struct snic_fsop_attr before;
        assert_int_equal(session_getattr(&y, 0, ino, &before), 0);
        assert_int_equal(session_mount(&y, 1), 0);
        assert_false(session_alone(&y, 0));
        assert_false(session_alone(&y, 1));
        assert_int_equal(session_data(&y, 1, SNIC_FSOP_READ, ino, got, 8), 8);
        assert_memory_equal(got, "Before", 7);
        assert_int_equal(session_getattr(&y, 1, ino, &a), 0);
        assert_int_equal(a.mtime.nsec, before.mtime.nsec);
        assert_int_equal(a.mtime.sec, before.mtime.sec);
        /* What one does, the other sees at once. */
        (void)session_made(&y, 1, SNIC_FSOP_MKDIR, 1, "d", NULL);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_LOOKUP, 1, "d"), 0);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_RMDIR, 1, "d"), 0);
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_LOOKUP, 1, "d"), SNIC_ENOENT);
        assert_int_equal(session_unmount(&y, 0), 0);
        many_pass(&y, 2 * (uint64_t)SESSION_SECOND);
        assert_true(session_alone(&y, 1));
        assert_int_equal(session_mount(&y, 0), 0);
        many_close(&y);
    }
}

/* Many arrive at once, some while one is just becoming alone: never two that keep records. */
static void test_kvfs_session_arrivals_at_once_none_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= support_rounds(200, 5000); seed++) {
        struct many y;
        struct snic_fsop req[MANY_MAX];
        many_open(&y, 3, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, seed);
        assert_int_equal(session_mount(&y, 2), 0);
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t engine = (i + 2) % 3;
            kvt_req(&y.t[engine], &req[i], i == 0 ? SNIC_FSOP_UNMOUNT : SNIC_FSOP_MOUNT, 0, NULL);
            y.t[engine].now = y.now;
            kvt_submit(&y.t[engine], &req[i]);
            for (uint64_t n = snic_rng_below(&y.rng, 12); n > 0; n--)
                many_step(&y);
        }
        many_finish(&y, 3);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(req[i].result, 0);
        assert_false(session_alone(&y, 0) && session_alone(&y, 1));
        many_pass(&y, 3 * (uint64_t)SESSION_SECOND);
        assert_false(session_alone(&y, 0) || session_alone(&y, 1));
        assert_int_equal(session_mount(&y, 2), 0);
        many_close(&y);
    }
}

/* One is just becoming alone when another arrives: it does not. */
static void test_kvfs_session_arrival_against_alone_not_alone(void **state)
{
    struct many y;
    (void)state;
    many_open(&y, 2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, 8);
    many_mount(&y);
    assert_int_equal(session_unmount(&y, 1), 0);
    uint64_t next = snic_kvfs_deadline_ns(y.t[0].k);
    if (next > y.now.mono_ns)
        many_time(&y, next - y.now.mono_ns);
    struct snic_kvfs_io *held = many_hold(&y, 0, SNIC_KVOP_COMMIT, MANY_ANY);
    assert_int_equal(session_mount(&y, 1), 0);
    many_give_back(&y, 0, held);
    while (many_step(&y))
        continue;
    assert_false(session_alone(&y, 0) || session_alone(&y, 1));
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_LOOKUP, 1, "d"), SNIC_ENOENT);
    (void)session_made(&y, 1, SNIC_FSOP_MKDIR, 1, "d", NULL);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_LOOKUP, 1, "d"), 0);
    many_close(&y);
}

/*
 * What a session has decided while alone and is still on its way to the store, a newcomer waits
 * for: here the removal of a file with its last name, which the newcomer could have open.
 */
static void test_kvfs_session_decided_alone_waited_for(void **state)
{
    struct many y;
    struct snic_fsop unlink, mount;
    struct snic_kvfs_io *held;
    (void)state;
    many_open(&y, 2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, 4);
    assert_int_equal(session_mount(&y, 0), 0);
    (void)session_made(&y, 0, SNIC_FSOP_MKNOD, 1, "f", NULL);
    struct kvt *t = &y.t[0];
    kvt_req(t, &unlink, SNIC_FSOP_UNLINK, 1, "f");
    t->now = y.now;
    kvt_submit(t, &unlink);
    held = many_hold(&y, 0, SNIC_KVOP_COMMIT, MANY_ANY);
    kvt_req(&y.t[1], &mount, SNIC_FSOP_MOUNT, 0, NULL);
    y.t[1].now = y.now;
    kvt_submit(&y.t[1], &mount);
    many_pass(&y, 4 * (uint64_t)SESSION_SECOND);
    assert_null(snic_kvfs_poll_done(y.t[1].k));
    many_give_back(&y, 0, held);
    many_finish(&y, 2);
    assert_int_equal(unlink.result, 0);
    assert_int_equal(mount.result, 0);
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_LOOKUP, 1, "f"), SNIC_ENOENT);
    many_close(&y);
}

/* A session that is silent for its lease is cleared away; it is notified, and may come back. */
static void test_kvfs_session_silent_declared_dead(void **state)
{
    struct many y;
    struct snic_fsop_attr a;
    uint64_t handle;
    (void)state;
    many_open(&y, 2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, 5);
    many_mount(&y);
    uint64_t ino = session_made(&y, 0, SNIC_FSOP_CREATE, 1, "f", &handle);
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_UNLINK, 1, "f"), 0);
    many_pass(&y, 3 * (uint64_t)SESSION_SECOND);
    assert_int_equal(session_getattr(&y, 1, ino, &a), 0); /* open there */
    y.paused = 1;
    many_pass(&y, 8 * (uint64_t)SESSION_SECOND);
    assert_int_equal(session_getattr(&y, 1, ino, &a), 0);
    assert_false(session_alone(&y, 1));
    many_pass(&y, 6 * (uint64_t)SESSION_SECOND);
    assert_int_equal(session_getattr(&y, 1, ino, &a), SNIC_ENOENT);
    assert_true(session_alone(&y, 1));
    y.paused = 0;
    assert_int_equal(session_getattr(&y, 0, 1, &a), SNIC_EIO);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKNOD, 1, "g"), SNIC_EIO);
    assert_int_equal(session_mount(&y, 0), 0);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKNOD, 1, "g"), 0);
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_LOOKUP, 1, "g"), 0);
    (void)session_release(&y, 0, ino, handle);
    many_close(&y);
}

/* The store reports that there is no other handle: the dead need not be waited for. */
static void test_kvfs_session_sole_dead_at_once(void **state)
{
    struct many y;
    (void)state;
    many_open(&y, 2, MANY_CAPS, 6);
    many_mount(&y);
    (void)session_made(&y, 0, SNIC_FSOP_MKNOD, 1, "f", NULL);
    y.paused = 1;
    snic_kvfs_set_sole(y.t[1].k, 1);
    many_pass(&y, SESSION_SECOND / 2);
    assert_true(session_alone(&y, 1));
    snic_kvfs_set_sole(y.t[1].k, 0);
    y.paused = 0;
    many_pass(&y, 2 * (uint64_t)SESSION_SECOND);
    assert_int_equal(session_unmount(&y, 0), SNIC_EIO);
    assert_int_equal(session_mount(&y, 0), 0);
    many_close(&y);
}

/* Open here, unlinked there: it stays until the last close, and goes then. */
static void test_kvfs_session_unlinked_elsewhere_stays_open(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= support_rounds(20, 400); seed++) {
        struct many y;
        struct snic_fsop_attr a;
        char bytes[8] = "content", got[8] = "";
        uint64_t handle;
        struct audit_counts counts;
        many_open(&y, 3, MANY_CAPS | (seed % 2 ? SNIC_KV_CAP_ATOMIC_MULTI : 0), seed);
        many_mount(&y);
        uint64_t ino = session_made(&y, 0, SNIC_FSOP_CREATE, 1, "f", &handle);
        assert_int_equal(session_data(&y, 0, SNIC_FSOP_WRITE, ino, bytes, 8), 8);
        many_pass(&y, snic_rng_below(&y.rng, 2) * SESSION_SECOND);
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_UNLINK, 1, "f"), 0);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_LOOKUP, 1, "f"), SNIC_ENOENT);
        many_pass(&y, 5 * (uint64_t)SESSION_SECOND);
        assert_int_equal(session_data(&y, 0, SNIC_FSOP_READ, ino, got, 8), 8);
        assert_memory_equal(got, bytes, 8);
        assert_int_equal(session_getattr(&y, 0, ino, &a), 0);
        assert_int_equal(a.nlink, 0);
        assert_int_equal(session_release(&y, 0, ino, handle), 0);
        many_pass(&y, 5 * (uint64_t)SESSION_SECOND);
        assert_int_equal(session_getattr(&y, 0, ino, &a), SNIC_ENOENT);
        audit_store(y.m, 0, &counts);
        assert_int_equal(counts.orphans, 0);
        many_close(&y);
    }
}

/* Opened by one while it is unlinked by another: open and there, or not opened at all. */
static void test_kvfs_session_open_against_unlink_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= support_rounds(150, 5000); seed++) {
        struct many y;
        struct snic_fsop open, unlink;
        char got[8] = "";
        many_open(&y, 2, MANY_CAPS | (seed % 2 ? SNIC_KV_CAP_ATOMIC_MULTI : 0), seed);
        assert_int_equal(session_mount(&y, 1), 0);
        uint64_t ino = session_made(&y, 1, SNIC_FSOP_MKNOD, 1, "f", NULL);
        assert_int_equal(session_data(&y, 1, SNIC_FSOP_WRITE, ino, "content", 8), 8);
        assert_int_equal(session_mount(&y, 0), 0);
        kvt_req(&y.t[0], &open, SNIC_FSOP_OPEN, ino, NULL);
        open.flags |= SNIC_FSOP_OPEN_READ;
        kvt_req(&y.t[1], &unlink, SNIC_FSOP_UNLINK, 1, "f");
        for (uint32_t i = 0; i < 2; i++) {
            struct kvt *t = &y.t[(seed + i) % 2];
            t->now = y.now;
            kvt_submit(t, t == &y.t[0] ? &open : &unlink);
            for (uint64_t n = snic_rng_below(&y.rng, 6); n > 0; n--)
                many_step(&y);
        }
        many_finish(&y, 2);
        assert_int_equal(unlink.result, 0);
        many_pass(&y, 6 * (uint64_t)SESSION_SECOND);
        if (open.result == 0) {
            assert_int_equal(session_data(&y, 0, SNIC_FSOP_READ, ino, got, 8), 8);
            assert_string_equal(got, "content");
            assert_int_equal(session_release(&y, 0, ino, open.handle), 0);
        }
        many_close(&y);
    }
}

/* Numbers are not used twice: not by several sessions, not after deaths. */
static void test_kvfs_session_numbers_never_twice(void **state)
{
    uint64_t most = 0;
    struct many y;
    (void)state;
    many_open(&y, 2, MANY_CAPS, 9);
    many_mount(&y);
    for (int round = 0; round < 4; round++) {
        uint64_t a = session_made(&y, 0, SNIC_FSOP_MKNOD, 1, "a", NULL);
        uint64_t b = session_made(&y, 1, SNIC_FSOP_MKNOD, 1, "b", NULL);
        assert_true(a != b && a > 1 && b > 1);
        assert_true(a != most && b != most);
        most = a > b ? a : b;
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNLINK, 1, "a"), 0);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNLINK, 1, "b"), 0);
        y.paused = 1;
        many_pass(&y, 15 * (uint64_t)SESSION_SECOND);
        y.paused = 0;
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_GETATTR, 1, NULL), SNIC_EIO);
        assert_int_equal(session_mount(&y, 0), 0);
    }
    many_close(&y);
}

static int64_t session_lock(struct many *y, uint32_t i, uint64_t ino, uint64_t owner, uint32_t type)
{
    struct snic_fsop req;
    kvt_req(&y->t[i], &req, SNIC_FSOP_SETLK, ino, NULL);
    req.lock.owner = owner;
    req.lock.end = UINT64_MAX;
    req.lock.type = type;
    return many_call(y, i, &req);
}

/* Locks taken while alone hold against a newcomer; those of a dead session end with it. */
static void test_kvfs_session_locks_outlive_alone_not_death(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct many y;
        many_open(&y, 2, MANY_CAPS | (seed % 2 ? SNIC_KV_CAP_ATOMIC_MULTI : 0), seed);
        assert_int_equal(session_mount(&y, 0), 0);
        uint64_t ino = session_made(&y, 0, SNIC_FSOP_MKNOD, 1, "f", NULL);
        assert_int_equal(session_lock(&y, 0, ino, 7, SNIC_FSOP_WRLCK), 0);
        assert_int_equal(session_mount(&y, 1), 0);
        assert_int_equal(session_lock(&y, 1, ino, 8, SNIC_FSOP_WRLCK), SNIC_EAGAIN);
        many_pass(&y, 30 * (uint64_t)SESSION_SECOND);
        assert_int_equal(session_lock(&y, 1, ino, 8, SNIC_FSOP_RDLCK), SNIC_EAGAIN);
        y.paused = 1;
        many_pass(&y, 15 * (uint64_t)SESSION_SECOND);
        assert_int_equal(session_lock(&y, 1, ino, 8, SNIC_FSOP_WRLCK), 0);
        y.paused = 0;
        assert_int_equal(session_lock(&y, 0, ino, 7, SNIC_FSOP_UNLCK), SNIC_EIO);
        assert_int_equal(session_mount(&y, 0), 0);
        assert_int_equal(session_lock(&y, 1, ino, 8, SNIC_FSOP_UNLCK), 0);
        assert_int_equal(session_lock(&y, 0, ino, 7, SNIC_FSOP_WRLCK), 0);
        assert_int_equal(session_lock(&y, 0, ino, 7, SNIC_FSOP_UNLCK), 0);
        many_close(&y);
    }
}

/* MKFS, MOUNT: what they refuse, and what MKFS over an old one leaves. */
static void test_kvfs_session_mkfs_mount_refused(void **state)
{
    struct many y;
    struct snic_fsop req;
    struct snic_kvfs_mkfs o = {.force = 1, .mode = 0700};
    (void)state;
    many_open(&y, 1, MANY_CAPS, 3);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKFS, 0, NULL), SNIC_EEXIST);
    kvt_req(&y.t[0], &req, SNIC_FSOP_MKFS, 0, NULL);
    req.name = (const char *)&o;
    for (req.name_size = 0; req.name_size < 2 * sizeof(o); req.name_size++)
        if (req.name_size != sizeof(o)) /* of another version: not taken for no options */
            assert_int_equal(many_call(&y, 0, &req), SNIC_EINVAL);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_GETATTR, 1, NULL), SNIC_EINVAL);
    many_mount(&y);
    assert_int_equal(session_mount(&y, 0), SNIC_EBUSY);
    uint64_t ino = session_made(&y, 0, SNIC_FSOP_MKNOD, 1, "f", NULL);
    char bytes[9000] = "x";
    assert_int_equal(session_data(&y, 0, SNIC_FSOP_WRITE, ino, bytes, 9000), 9000);
    assert_int_equal(session_unmount(&y, 0), 0);
    kvt_req(&y.t[0], &req, SNIC_FSOP_MKFS, 0, NULL);
    req.name = (const char *)&o;
    req.name_size = sizeof(o);
    assert_int_equal(many_call(&y, 0, &req), 0);
    many_mount(&y);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_LOOKUP, 1, "f"), SNIC_ENOENT);
    struct snic_fsop_attr a;
    assert_int_equal(session_getattr(&y, 0, 1, &a), 0);
    assert_int_equal(a.mode & 07777, 0700);
    assert_int_equal(session_getattr(&y, 0, ino, &a), SNIC_ENOENT);
    many_close(&y);
}

/* The store does not answer: requests late in the lease fail, and all is well afterwards. */
static void test_kvfs_session_store_down_reported(void **state)
{
    static const struct snic_kv_fault down = {
        .kind = SNIC_KV_FAULT_ERROR, .after = 1, .repeat = UINT64_MAX, .error = SNIC_ETIMEDOUT};
    struct many y;
    struct snic_fsop req;
    (void)state;
    many_open(&y, 1, MANY_CAPS, 12);
    many_mount(&y);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKNOD, 1, "f"), 0);
    assert_int_equal(snic_kvmem_fault(y.m, &down), 0);
    many_pass(&y, 30 * (uint64_t)SESSION_SECOND);
    for (uint32_t i = 0; i < 3; i++) { /* each of them waits for a heartbeat of its own */
        kvt_req(&y.t[0], &req, SNIC_FSOP_MKNOD, 1, "g");
        y.t[0].now = y.now;
        kvt_submit(&y.t[0], &req);
        assert_null(snic_kvfs_poll_done(y.t[0].k));
        many_pass(&y, 2 * (uint64_t)SESSION_SECOND);
        assert_ptr_equal(snic_kvfs_poll_done(y.t[0].k), &req);
        assert_int_equal(req.result, SNIC_ETIMEDOUT);
    }
    snic_kvmem_faults_clear(y.m);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKNOD, 1, "g"), 0);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_LOOKUP, 1, "f"), 0);
    many_close(&y);
}

/* An unmount that the store fails leaves a session that goes on to live, and may end later. */
static void test_kvfs_session_unmount_failed_stays_mounted(void **state)
{
    static const struct snic_kv_fault fault = {.kind = SNIC_KV_FAULT_ERROR,
                                               .kinds = 1u << SNIC_KVOP_SCAN,
                                               .after = 1,
                                               .error = SNIC_ETIMEDOUT};
    struct many y;
    (void)state;
    for (uint32_t multi = 0; multi < 2; multi++) {
        many_open(&y, 2, MANY_CAPS | (multi ? SNIC_KV_CAP_ATOMIC_MULTI : 0), 14);
        many_mount(&y);
        many_pass(&y, SESSION_SECOND);
        y.paused = 2;
        assert_int_equal(snic_kvmem_fault(y.m, &fault), 0);
        assert_int_equal(session_unmount(&y, 0), SNIC_ETIMEDOUT);
        y.paused = 0;
        many_pass(&y, 30 * (uint64_t)SESSION_SECOND);
        assert_false(session_alone(&y, 1));
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKNOD, 1, "f"), 0);
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_LOOKUP, 1, "f"), 0);
        many_close(&y);
    }
}

/* Two of one number: the second is refused, and does not wait for the first. */
static void test_kvfs_session_number_taken_refused(void **state)
{
    struct many y;
    (void)state;
    for (uint32_t multi = 0; multi < 2; multi++) {
        many_open(&y, 2, MANY_CAPS | (multi ? SNIC_KV_CAP_ATOMIC_MULTI : 0), 3);
        assert_int_equal(session_mount(&y, 0), 0);
        struct snic_kvfs_opts o = y.t[0].o;
        y.t[1].quiet = 1;
        kvt_close(&y.t[1]);
        kvt_open_on(&y.t[1], y.m, &o);
        assert_int_equal(session_mount(&y, 1), SNIC_EEXIST);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKNOD, 1, "f"), 0);
        assert_int_equal(session_unmount(&y, 0), 0);
        assert_int_equal(session_mount(&y, 1), 0);
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_LOOKUP, 1, "f"), 0);
        many_close(&y);
    }
}

/* As many sessions as the table has room for: one more is refused until one is gone. */
static void test_kvfs_session_table_full_mount_refused(void **state)
{
    enum { SESSIONS = 64 };
    struct many y;
    unsigned char record[SNIC_KVFS_SESSION_BYTES];
    struct snic_kvfs_session other = {.flags = 0};
    struct snic_kvop_change c = {.kind = SNIC_KVOP_PUT, .value = record};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    (void)state;
    many_open(&y, 1, MANY_CAPS, 3);
    for (uint64_t id = 1; id <= SESSIONS; id++) {
        snic_kvfs_key_number(&c.key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, id << 32);
        c.size = snic_kvfs_session_encode(record, &other);
        snic_kvfs_seal(&c.key, record, c.size, 0);
        snic_kvmem_apply(y.m, &op);
        assert_int_equal(op.result, 0);
    }
    for (int i = 0; i < 10; i++)
        assert_int_equal(session_mount(&y, 0), SNIC_EBUSY);
    c.kind = SNIC_KVOP_DELETE;
    snic_kvmem_apply(y.m, &op);
    assert_int_equal(session_mount(&y, 0), 0);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKNOD, 1, "f"), 0);
    assert_int_equal(session_unmount(&y, 0), 0);
    /* More than there can be: damage, which is named, and not a full disk. */
    c.kind = SNIC_KVOP_PUT;
    for (uint64_t id = SESSIONS; id <= 10ull * SESSIONS; id++) {
        snic_kvfs_key_number(&c.key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, id << 32);
        snic_kvfs_seal(&c.key, record, c.size, 0);
        snic_kvmem_apply(y.m, &op);
        assert_int_equal(op.result, 0);
        if (id == SESSIONS + 1) {
            assert_int_equal(session_mount(&y, 0), SNIC_ECORRUPT);
            assert_int_equal(y.t[0].damages, 1);
            assert_int_equal(snic_kvop_key_compare(&y.t[0].damage[0].key, &c.key), 0);
        }
    }
    assert_int_equal(session_mount(&y, 0), SNIC_ECORRUPT);
    many_close(&y);
}

/* The table is missing: the mount names the record. */
static void test_kvfs_session_table_missing_named(void **state)
{
    struct many y;
    struct snic_kvop_change c = {.kind = SNIC_KVOP_DELETE};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    (void)state;
    many_open(&y, 1, MANY_CAPS, 3);
    snic_kvfs_key_number(&c.key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, 0);
    snic_kvmem_apply(y.m, &op);
    assert_int_equal(session_mount(&y, 0), SNIC_ECORRUPT);
    assert_int_equal(y.t[0].damages, 1);
    assert_int_equal(snic_kvop_key_compare(&y.t[0].damage[0].key, &c.key), 0);
    many_close(&y);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_session_newcomer_alone_ends),
        cmocka_unit_test(test_kvfs_session_arrivals_at_once_none_alone),
        cmocka_unit_test(test_kvfs_session_arrival_against_alone_not_alone),
        cmocka_unit_test(test_kvfs_session_decided_alone_waited_for),
        cmocka_unit_test(test_kvfs_session_silent_declared_dead),
        cmocka_unit_test(test_kvfs_session_sole_dead_at_once),
        cmocka_unit_test(test_kvfs_session_unlinked_elsewhere_stays_open),
        cmocka_unit_test(test_kvfs_session_open_against_unlink_whole),
        cmocka_unit_test(test_kvfs_session_numbers_never_twice),
        cmocka_unit_test(test_kvfs_session_locks_outlive_alone_not_death),
        cmocka_unit_test(test_kvfs_session_mkfs_mount_refused),
        cmocka_unit_test(test_kvfs_session_unmount_failed_stays_mounted),
        cmocka_unit_test(test_kvfs_session_number_taken_refused),
        cmocka_unit_test(test_kvfs_session_table_full_mount_refused),
        cmocka_unit_test(test_kvfs_session_table_missing_named),
        cmocka_unit_test(test_kvfs_session_store_down_reported),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
