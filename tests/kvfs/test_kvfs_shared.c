/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Locks of files that several sessions use; their bytes are test_kvfs_shared_bytes.c's. */
#include "test_kvfs_many.h"

#include <stdio.h>
#include <string.h>

enum { U = SNIC_FSOP_UNLCK, R = SNIC_FSOP_RDLCK, W = SNIC_FSOP_WRLCK };
enum { OWNERS = 4, BYTES = 24 };

/* A request that waits. */
static void lock_req(struct many *y, uint32_t i, struct snic_fsop *req, enum snic_fsop_kind kind,
                     uint64_t ino, uint64_t owner, uint32_t type, uint64_t start, uint64_t end)
{
    many_lock_req(y, i, req, kind, ino, owner, type, start, end);
    req->flags |= SNIC_FSOP_LOCK_WAIT;
    y->t[i].now = y->now;
    kvt_submit(&y->t[i], req);
    many_pass(y, 10000000);
    assert_null(snic_kvfs_poll_done(y->t[i].k));
}

static int conflict(unsigned char held[OWNERS][BYTES], unsigned owner, unsigned type, unsigned a,
                    unsigned b)
{
    for (unsigned o = 0; o < OWNERS; o++) {
        for (unsigned i = a; o != owner && i <= b; i++) {
            if (held[o][i] != U && (held[o][i] == W || type == W))
                return 1;
        }
    }
    return 0;
}

/* Owner o belongs to engine o % 2, where its number is o / 2: the same numbers in both. */
static void test_kvfs_shared_locks_random_as_map(void **state)
{
    static unsigned char held[OWNERS][BYTES];
    static struct many y;
    struct snic_fsop req;
    unsigned rounds = (unsigned)support_scale(3000, 30000);
    (void)state;
    many_open(&y, 2, 0, support_seed());
    many_mount(&y);
    uint64_t ino = many_file(&y, 0, "f");
    memset(held, 0, sizeof(held));
    for (unsigned n = 0; n < rounds; n++) {
        unsigned o = (unsigned)snic_rng_below(&y.rng, OWNERS), e = o % 2;
        unsigned type = (unsigned)snic_rng_below(&y.rng, 3);
        unsigned a = (unsigned)snic_rng_below(&y.rng, BYTES);
        unsigned b = a + (unsigned)snic_rng_below(&y.rng, BYTES - a);
        int64_t rc = many_lock(&y, e, SNIC_FSOP_SETLK, ino, o / 2, type, a, b);
        if (type != U && conflict(held, o, type, a, b)) {
            assert_int_equal(rc, SNIC_EAGAIN);
        } else {
            assert_int_equal(rc, 0);
            memset(held[o] + a, (int)type, b - a + 1);
        }
        e = (unsigned)snic_rng_below(&y.rng, 2);
        a = (unsigned)snic_rng_below(&y.rng, BYTES);
        type = 1 + (unsigned)snic_rng_below(&y.rng, 2);
        many_lock_req(&y, e, &req, SNIC_FSOP_GETLK, ino, 99, type, a, a);
        assert_int_equal(many_call(&y, e, &req), 0);
        assert_int_equal(req.lock.type != U, conflict(held, OWNERS, type, a, a));
    }
    many_close(&y);
}

static void test_kvfs_shared_lock_waits_for_other_session(void **state)
{
    static const enum snic_fsop_kind kinds[] = {SNIC_FSOP_SETLK, SNIC_FSOP_FLOCK};
    static struct many y;
    struct snic_fsop w;
    (void)state;
    many_open(&y, 2, 0, support_seed());
    many_mount(&y);
    uint64_t ino = many_file(&y, 0, "f");
    for (unsigned n = 0; n < 2; n++) {
        assert_int_equal(many_lock(&y, 0, kinds[n], ino, 1, W, 0, 9), 0);
        assert_int_equal(many_lock(&y, 1, kinds[n], ino, 1, R, 5, 6), SNIC_EAGAIN);
        lock_req(&y, 1, &w, kinds[n], ino, 1, R, 5, 6);
        assert_int_equal(many_lock(&y, 0, kinds[n], ino, 1, U, 0, UINT64_MAX), 0);
        many_finish(&y, 1);
        assert_int_equal(w.result, 0);
        assert_int_equal(many_lock(&y, 0, kinds[n], ino, 1, W, 0, 9), SNIC_EAGAIN);
        lock_req(&y, 0, &w, kinds[n], ino, 1, W, 0, 9);
        y.t[0].now = y.now;
        snic_kvfs_cancel(y.t[0].k, &w, y.now);
        many_finish(&y, 1);
        assert_int_equal(w.result, SNIC_EINTR);
        assert_int_equal(many_lock(&y, 1, kinds[n], ino, 1, U, 0, UINT64_MAX), 0);
    }
    /* A conversion of a flock that another session's keeps from happening. */
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_FLOCK, ino, 1, R, 0, 0), 0);
    assert_int_equal(many_lock(&y, 1, SNIC_FSOP_FLOCK, ino, 1, R, 0, 0), 0);
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_FLOCK, ino, 1, W, 0, 0), SNIC_EAGAIN);
    assert_int_equal(many_lock(&y, 1, SNIC_FSOP_FLOCK, ino, 1, W, 0, 0), 0);
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_FLOCK, ino, 1, R, 0, 0), SNIC_EAGAIN);
    assert_int_equal(many_lock(&y, 1, SNIC_FSOP_FLOCK, ino, 1, U, 0, 0), 0);
    many_close(&y);
}

/* A session that takes locks alone keeps them when another session comes. */
static void test_kvfs_shared_locks_of_alone_seen_by_newcomer(void **state)
{
    enum { FILES = 30 };
    static struct many y;
    uint64_t ino[FILES];
    char name[8] = "f";
    (void)state;
    many_open(&y, 2, 0, support_seed());
    y.paused = 2;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    for (unsigned i = 0; i < FILES; i++) {
        name[1] = (char)('A' + i);
        ino[i] = many_file(&y, 0, name);
        assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, ino[i], i, W, i, i + 5), 0);
        assert_int_equal(many_lock(&y, 0, SNIC_FSOP_FLOCK, ino[i], i, R, 0, 0), 0);
    }
    y.paused = 0;
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
    for (unsigned i = 0; i < FILES; i++) {
        assert_int_equal(many_lock(&y, 1, SNIC_FSOP_SETLK, ino[i], i, R, i + 5, i + 5),
                         SNIC_EAGAIN);
        assert_int_equal(many_lock(&y, 1, SNIC_FSOP_SETLK, ino[i], i, R, i + 6, i + 6), 0);
        assert_int_equal(many_lock(&y, 1, SNIC_FSOP_FLOCK, ino[i], i, W, 0, 0), SNIC_EAGAIN);
        assert_int_equal(many_lock(&y, 1, SNIC_FSOP_FLOCK, ino[i], i, R, 0, 0), 0);
        assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, ino[i], i, U, 0, UINT64_MAX), 0);
        assert_int_equal(many_lock(&y, 1, SNIC_FSOP_SETLK, ino[i], i, W, 0, 100), 0);
    }
    many_close(&y);
}

/* The locks of a session that dies go when its lease is over, not before. */
static void test_kvfs_shared_locks_end_with_lease(void **state)
{
    static struct many y;
    struct snic_fsop w;
    (void)state;
    many_open(&y, 2, 0, support_seed());
    many_mount(&y);
    uint64_t ino = many_file(&y, 0, "f");
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, ino, 1, W, 0, 9), 0);
    many_pass(&y, 2000000000);
    y.paused = 1;
    lock_req(&y, 1, &w, SNIC_FSOP_SETLK, ino, 1, W, 0, 9);
    many_pass(&y, 5000000000);
    assert_null(snic_kvfs_poll_done(y.t[1].k));
    many_pass(&y, 20000000000);
    assert_ptr_equal(snic_kvfs_poll_done(y.t[1].k), &w);
    assert_int_equal(w.result, 0);
    y.paused = 0;
    y.t[0].now = y.now;
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, ino, 1, U, 0, 9), SNIC_EIO);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, ino, 1, W, 0, 9), SNIC_EAGAIN);
    many_close(&y);
}

/* A waiter for a lock, for however long, keeps no session from joining, and gets it afterwards. */
static void test_kvfs_shared_waiting_for_lock_lets_newcomer_in(void **state)
{
    static const enum snic_fsop_kind kinds[] = {SNIC_FSOP_SETLK, SNIC_FSOP_FLOCK};
    static struct many y;
    struct snic_fsop w;
    (void)state;
    for (unsigned n = 0; n < 2; n++) {
        many_open(&y, 2, MANY_CAPS, support_seed());
        y.paused = 2;
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
        uint64_t ino = many_file(&y, 0, "f");
        assert_int_equal(many_lock(&y, 0, kinds[n], ino, 1, W, 0, 9), 0);
        lock_req(&y, 0, &w, kinds[n], ino, 2, W, 0, 9);
        y.paused = 0;
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
        assert_int_equal(many_lock(&y, 1, kinds[n], ino, 1, R, 5, 6), SNIC_EAGAIN);
        assert_int_equal(w.result, 0);
        assert_null(snic_kvfs_poll_done(y.t[0].k));
        struct snic_fsop unlock;
        many_lock_req(&y, 0, &unlock, kinds[n], ino, 1, U, 0, UINT64_MAX);
        many_start(&y, 0, &unlock);
        many_finish(&y, 2);
        assert_int_equal(unlock.result, 0);
        assert_int_equal(w.result, 0);
        assert_int_equal(many_lock(&y, 1, kinds[n], ino, 1, R, 5, 6), SNIC_EAGAIN);
        assert_int_equal(many_lock(&y, 0, kinds[n], ino, 2, U, 0, UINT64_MAX), 0);
        assert_int_equal(many_lock(&y, 1, kinds[n], ino, 1, W, 0, 9), 0);
        many_close(&y);
    }
}

/* ---- Requests that end without having got what they waited for ---- */

/* As many locks as there may be, of one session, and back. */
static void fill(struct many *y, uint32_t i)
{
    enum { FILES = 16 };
    uint32_t each = y->t[i].o.locks_max / FILES;
    uint64_t ino[FILES];
    char name[8] = "l";
    for (unsigned n = 0; n < FILES; n++) {
        name[1] = (char)('A' + n);
        ino[n] = many_file(y, i, name);
        for (uint32_t r = 0; r < each; r++)
            assert_int_equal(many_lock(y, i, SNIC_FSOP_SETLK, ino[n], 1, W, 2 * r, 2 * r), 0);
    }
    assert_int_equal(many_lock(y, i, SNIC_FSOP_SETLK, ino[0], 1, W, 10000, 10000), SNIC_ENOLCK);
    for (unsigned n = 0; n < FILES; n++)
        assert_int_equal(many_lock(y, i, SNIC_FSOP_SETLK, ino[n], 1, U, 0, UINT64_MAX), 0);
}

/* A lock that is waited for: its inode has no place in memory when the wait ends. */
static void test_kvfs_shared_waiter_refused_leaves_nothing(void **state)
{
    enum { FILES = 512 };
    static struct many y;
    static uint64_t handle[FILES];
    struct snic_fsop w, open;
    char name[8];
    unsigned count = 0;
    (void)state;
    many_open(&y, 2, MANY_CAPS, support_seed());
    many_mount(&y);
    uint64_t ino = many_file(&y, 0, "f");
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, ino, 1, W, 0, 9), 0);
    lock_req(&y, 0, &w, SNIC_FSOP_SETLK, ino, 2, W, 0, 9);
    for (; count < FILES; count++) {
        snprintf(name, sizeof(name), "o%u", count);
        kvt_req(&y.t[0], &open, SNIC_FSOP_CREATE, SNIC_FSOP_ROOT, name);
        open.flags |= SNIC_FSOP_OPEN_READ;
        open.mode = 0644;
        if (many_call(&y, 0, &open) != 0)
            break;
        handle[count] = open.handle;
    }
    assert_int_equal(open.result, SNIC_ENFILE);
    /* CREATE takes places for names, too: what is left takes one more each. */
    for (unsigned n = 0; n < 8 && count < FILES; n++) {
        kvt_req(&y.t[0], &open, SNIC_FSOP_OPEN, many_file(&y, 1, (char[]){'p', (char)('a' + n), 0}),
                NULL);
        open.flags |= SNIC_FSOP_OPEN_READ;
        if (many_call(&y, 0, &open) != 0)
            break;
        handle[count++] = open.handle;
    }
    assert_int_equal(open.result, SNIC_ENFILE);
    snic_kvfs_cancel(y.t[0].k, &w, y.now);
    many_finish(&y, 1);
    assert_int_equal(w.result, SNIC_ENFILE);
    for (unsigned n = 0; n < count; n++) {
        kvt_req(&y.t[0], &open, SNIC_FSOP_RELEASE, 0, NULL);
        open.handle = handle[n];
        assert_int_equal(many_call(&y, 0, &open), 0);
    }
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, ino, 1, U, 0, UINT64_MAX), 0);
    fill(&y, 0);
    many_close(&y);
}

/* The store is down when a lock is looked for again: the request ends with an error. */
static void test_kvfs_shared_waiter_of_silent_store_leaves_nothing(void **state)
{
    static const struct snic_kv_fault down = {
        .kind = SNIC_KV_FAULT_ERROR, .after = 1, .repeat = UINT64_MAX, .error = SNIC_ETIMEDOUT};
    static struct many y;
    struct snic_fsop w;
    struct snic_kvfs_stats s;
    (void)state;
    many_open(&y, 2, MANY_CAPS, support_seed());
    many_mount(&y);
    uint64_t ino = many_file(&y, 0, "f");
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, ino, 1, W, 0, 9), 0);
    lock_req(&y, 0, &w, SNIC_FSOP_SETLK, ino, 2, W, 0, 9);
    many_pass(&y, 1000000000);
    assert_int_equal(snic_kvmem_fault(y.m, &down), 0);
    many_pass(&y, 7000000000);
    assert_null(snic_kvfs_poll_done(y.t[0].k));
    snic_kvfs_cancel(y.t[0].k, &w, y.now); /* wakes: is the session alive? */
    many_finish(&y, 1);
    assert_int_equal(w.result, SNIC_ETIMEDOUT);
    snic_kvmem_faults_clear(y.m);
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, ino, 1, U, 0, UINT64_MAX), 0);
    fill(&y, 0);
    snic_kvfs_get_stats(y.t[0].k, &s);
    assert_int_equal(s.sessions, 2);
    many_close(&y);
}

/* Locks of one file are one record: when it is full more are refused, of other files they are not.
 */
static void test_kvfs_shared_locks_of_one_file_full(void **state)
{
    static struct many y;
    struct snic_kvfs_opts o;
    int64_t r = 0;
    unsigned n = 0;
    (void)state;
    many_open(&y, 2, MANY_CAPS, support_seed());
    o = y.t[0].o;
    o.locks_max = 4096;
    y.t[0].quiet = 1;
    kvt_close(&y.t[0]);
    kvt_open_on(&y.t[0], y.m, &o);
    snic_kvfs_set_sole(y.t[0].k, 0);
    many_mount(&y);
    uint64_t f = many_file(&y, 0, "f"), g = many_file(&y, 0, "g");
    for (; n < 2000 && r == 0; n += r == 0)
        r = many_lock(&y, 0, SNIC_FSOP_SETLK, f, 1, W, 2 * n, 2 * n);
    assert_int_equal(r, SNIC_ENOLCK);
    assert_in_range(n, 1700, 1750);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(many_lock(&y, i % 2, SNIC_FSOP_SETLK, f, 3, W, 10000, 10000), SNIC_ENOLCK);
    assert_int_equal(many_lock(&y, 1, SNIC_FSOP_SETLK, g, 3, W, 0, 9), 0);
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, f, 1, U, 0, 0), 0);
    assert_int_equal(many_lock(&y, 1, SNIC_FSOP_SETLK, f, 3, W, 10000, 10000), 0);
    assert_int_equal(many_lock(&y, 1, SNIC_FSOP_SETLK, f, 3, U, 0, UINT64_MAX), 0);
    assert_int_equal(many_lock(&y, 1, SNIC_FSOP_SETLK, g, 3, U, 0, UINT64_MAX), 0);
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, f, 1, U, 0, UINT64_MAX), 0);
    many_close(&y);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_shared_locks_random_as_map),
        cmocka_unit_test(test_kvfs_shared_lock_waits_for_other_session),
        cmocka_unit_test(test_kvfs_shared_locks_of_alone_seen_by_newcomer),
        cmocka_unit_test(test_kvfs_shared_locks_end_with_lease),
        cmocka_unit_test(test_kvfs_shared_waiting_for_lock_lets_newcomer_in),
        cmocka_unit_test(test_kvfs_shared_waiter_refused_leaves_nothing),
        cmocka_unit_test(test_kvfs_shared_locks_of_one_file_full),
        cmocka_unit_test(test_kvfs_shared_waiter_of_silent_store_leaves_nothing),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
