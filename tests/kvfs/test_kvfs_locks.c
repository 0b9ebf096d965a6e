/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Advisory locks against a map of bytes; waiting, deadlocks, limits, other sessions. */
#include "test_kvfs_util.h"

#include <stdlib.h>
#include <string.h>

/* ---- Requests ---- */

static void lock_req(struct kvt *t, struct snic_fsop *req, enum snic_fsop_kind kind, uint64_t ino,
                     uint64_t owner, uint32_t type, uint64_t start, uint64_t end)
{
    kvt_req(t, req, kind, ino, NULL);
    req->lock = (struct snic_fsop_lock){
        .owner = owner, .start = start, .end = end, .type = type, .pid = (uint32_t)owner + 1000};
}

static int64_t set(struct kvt *t, uint64_t ino, uint64_t owner, uint32_t type, uint64_t start,
                   uint64_t end)
{
    struct snic_fsop req;
    lock_req(t, &req, SNIC_FSOP_SETLK, ino, owner, type, start, end);
    return kvt_call(t, &req);
}

static int64_t flock_set(struct kvt *t, uint64_t ino, uint64_t owner, uint32_t type)
{
    struct snic_fsop req;
    lock_req(t, &req, SNIC_FSOP_FLOCK, ino, owner, type, 0, 0);
    return kvt_call(t, &req);
}

/* A request that waits for the lock, not done yet. */
static void start_wait(struct kvt *t, struct snic_fsop *req, enum snic_fsop_kind kind, uint64_t ino,
                       uint64_t owner, uint32_t type, uint64_t start, uint64_t end)
{
    lock_req(t, req, kind, ino, owner, type, start, end);
    req->flags |= SNIC_FSOP_LOCK_WAIT;
    kvt_submit(t, req);
    kvt_settle(t);
}

static struct snic_fsop *done(struct kvt *t)
{
    kvt_settle(t);
    return snic_kvfs_poll_done(t->k);
}

enum { U = SNIC_FSOP_UNLCK, R = SNIC_FSOP_RDLCK, W = SNIC_FSOP_WRLCK };

/* ---- Ranges against bytes ---- */

enum { OWNERS = 4, BYTES = 40, FILES = 2 };

struct map {
    unsigned char byte[FILES][OWNERS][BYTES]; /* type held */
};

static int map_conflict(const struct map *m, unsigned f, unsigned owner, unsigned type, unsigned a,
                        unsigned b)
{
    for (unsigned o = 0; o < OWNERS; o++) {
        for (unsigned i = a; o != owner && i <= b; i++) {
            unsigned held = m->byte[f][o][i];
            if (held != U && (held == W || type == W))
                return 1;
        }
    }
    return 0;
}

static unsigned map_ranges(const struct map *m)
{
    unsigned n = 0;
    for (unsigned f = 0; f < FILES; f++) {
        for (unsigned o = 0; o < OWNERS; o++) {
            for (unsigned i = 0; i < BYTES; i++) {
                unsigned held = m->byte[f][o][i];
                n += held != U && (i == 0 || m->byte[f][o][i - 1] != held);
            }
        }
    }
    return n;
}

/* GETLK's answer for each byte and type is as in the map. */
static void map_check(struct kvt *t, const struct map *m, const uint64_t *ino)
{
    struct snic_fsop req;
    kvt_check(t);
    for (unsigned f = 0; f < FILES; f++) {
        for (unsigned i = 0; i < BYTES; i++) {
            for (unsigned type = R; type <= W; type++) {
                lock_req(t, &req, SNIC_FSOP_GETLK, ino[f], 99, type, i, i);
                assert_int_equal(kvt_call(t, &req), 0);
                assert_int_equal(req.lock.type != U, map_conflict(m, f, OWNERS, type, i, i));
                if (req.lock.type != U) {
                    unsigned o = (unsigned)req.lock.owner;
                    assert_true(o < OWNERS && req.lock.start <= i && req.lock.end >= i);
                    assert_int_equal(m->byte[f][o][i], req.lock.type);
                    assert_int_equal(req.lock.pid, o + 1000);
                    /* the whole range, and no more (one never touches another of its type) */
                    assert_true(req.lock.start == 0 ||
                                m->byte[f][o][req.lock.start - 1] != req.lock.type);
                    assert_true(req.lock.end >= BYTES - 1 ||
                                m->byte[f][o][req.lock.end + 1] != req.lock.type);
                }
            }
        }
    }
}

static void ranges(struct kvt *t, unsigned rounds)
{
    static struct map m;
    uint64_t ino[FILES];
    struct snic_fsop req;
    memset(&m, 0, sizeof(m));
    for (unsigned f = 0; f < FILES; f++)
        ino[f] = kvt_create(t, SNIC_FSOP_ROOT, f == 0 ? "f" : "g", 0644);
    for (unsigned n = 0; n < rounds; n++) {
        unsigned f = (unsigned)snic_rng_below(&t->rng, FILES);
        unsigned o = (unsigned)snic_rng_below(&t->rng, OWNERS);
        unsigned type = (unsigned)snic_rng_below(&t->rng, 3);
        unsigned a = (unsigned)snic_rng_below(&t->rng, BYTES);
        unsigned b = a + (unsigned)snic_rng_below(&t->rng, BYTES - a);
        int64_t rc;
        if (snic_rng_below(&t->rng, 50) == 0) { /* a descriptor of the owner is closed */
            kvt_req(t, &req, SNIC_FSOP_FLUSH, ino[f], NULL);
            req.handle = (1ULL << 63) | (ino[f] << 2) | 3;
            req.lock.owner = o;
            assert_int_equal(kvt_call(t, &req), 0);
            memset(m.byte[f][o], U, BYTES);
            continue;
        }
        rc = set(t, ino[f], o, type, a, b == BYTES - 1 ? UINT64_MAX : b);
        if (type != U && map_conflict(&m, f, o, type, a, b)) {
            assert_int_equal(rc, SNIC_EAGAIN);
        } else {
            assert_int_equal(rc, 0);
            memset(m.byte[f][o] + a, (int)type, b - a + 1);
        }
        if (n % 16 == 0)
            map_check(t, &m, ino);
    }
    assert_true(map_ranges(&m) > 0);
    for (unsigned f = 0; f < FILES; f++)
        assert_int_equal(kvt_release(t, ino[f], SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
}

static void test_kvfs_locks_random_as_map(void **state)
{
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    ranges(&t, (unsigned)support_scale(20000, 200000));
    kvt_close(&t);
}

/* ---- Waiting ---- */

static void test_kvfs_locks_waiters_in_order(void **state)
{
    struct snic_fsop w[4];
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    assert_int_equal(set(&t, f, 1, W, 0, 99), 0);
    for (unsigned i = 0; i < 4; i++)
        start_wait(&t, &w[i], SNIC_FSOP_SETLK, f, 10 + i, i == 1 || i == 2 ? R : W, 10 * i, 50);
    assert_null(done(&t));
    assert_int_equal(set(&t, f, 1, U, 60, 99), 0); /* no waiter for that */
    assert_null(done(&t));
    assert_int_equal(set(&t, f, 1, U, 0, UINT64_MAX), 0);
    assert_ptr_equal(done(&t), &w[0]);
    assert_null(done(&t));
    assert_int_equal(set(&t, f, 10, R, 0, 50), 0); /* weaker: the readers get in */
    assert_ptr_equal(done(&t), &w[1]);
    assert_ptr_equal(done(&t), &w[2]);
    assert_null(done(&t));
    assert_int_equal(set(&t, f, 10, U, 0, 50), 0);
    assert_int_equal(set(&t, f, 11, U, 0, 50), 0);
    assert_null(done(&t));
    assert_int_equal(set(&t, f, 12, U, 0, 50), 0);
    assert_ptr_equal(done(&t), &w[3]);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(w[i].result, 0);
    kvt_close(&t);
}

static void test_kvfs_locks_cancelled_waiter_leaves(void **state)
{
    struct snic_fsop w, x;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    for (unsigned kind = 0; kind < 2; kind++) {
        enum snic_fsop_kind k = kind == 0 ? SNIC_FSOP_SETLK : SNIC_FSOP_FLOCK;
        start_wait(&t, &x, k, f, 1, W, 0, 9);
        assert_ptr_equal(done(&t), &x);
        start_wait(&t, &w, k, f, 2, W, 0, 9);
        assert_null(done(&t));
        snic_kvfs_cancel(t.k, &w, t.now);
        assert_ptr_equal(done(&t), &w);
        assert_int_equal(w.result, SNIC_EINTR);
        lock_req(&t, &x, k, f, 1, U, 0, UINT64_MAX);
        assert_int_equal(kvt_call(&t, &x), 0);
        lock_req(&t, &x, k, f, 3, W, 0, 9); /* the one that left holds nothing */
        assert_int_equal(kvt_call(&t, &x), 0);
        lock_req(&t, &x, k, f, 3, U, 0, 9);
        assert_int_equal(kvt_call(&t, &x), 0);
    }
    snic_kvfs_cancel(t.k, &w, t.now); /* not in flight: nothing */
    kvt_close(&t);
}

/* Owners 1..n hold a byte each and ask for the next one's. */
static void test_kvfs_locks_deadlock_refused(void **state)
{
    enum { N = 6 };
    struct snic_fsop w[N];
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f[2] = {kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644),
                     kvt_file(&t, SNIC_FSOP_ROOT, "g", 0644)};
    for (unsigned n = 2; n <= N; n++) {
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(set(&t, f[i % 2], i + 1, W, i, i), 0);
        for (unsigned i = 0; i + 1 < n; i++) {
            start_wait(&t, &w[i], SNIC_FSOP_SETLK, f[(i + 1) % 2], i + 1, i % 3 == 0 ? R : W, i + 1,
                       i + 1);
            assert_null(done(&t));
        }
        start_wait(&t, &w[n - 1], SNIC_FSOP_SETLK, f[0], n, W, 0, 0);
        assert_ptr_equal(done(&t), &w[n - 1]);
        assert_int_equal(w[n - 1].result, SNIC_EDEADLK);
        for (unsigned i = n; i-- > 0;) { /* the last gives way, then the others get on */
            assert_int_equal(set(&t, f[i % 2], i + 1, U, i, i), 0);
            if (i > 0) {
                assert_ptr_equal(done(&t), &w[i - 1]);
                assert_int_equal(w[i - 1].result, 0);
            }
            assert_null(done(&t));
        }
        for (unsigned i = 0; i < 2 * n; i++)
            assert_int_equal(set(&t, f[i % 2], i / 2 + 1, U, 0, UINT64_MAX), 0);
    }
    /* Two readers that both want to write. */
    assert_int_equal(set(&t, f[0], 1, R, 0, 9), 0);
    assert_int_equal(set(&t, f[0], 2, R, 0, 9), 0);
    start_wait(&t, &w[0], SNIC_FSOP_SETLK, f[0], 1, W, 0, 9);
    start_wait(&t, &w[1], SNIC_FSOP_SETLK, f[0], 2, W, 0, 9);
    assert_ptr_equal(done(&t), &w[1]);
    assert_int_equal(w[1].result, SNIC_EDEADLK);
    assert_int_equal(set(&t, f[0], 2, U, 0, 9), 0);
    assert_ptr_equal(done(&t), &w[0]);
    assert_int_equal(w[0].result, 0);
    kvt_close(&t);
}

/* ---- flock ---- */

static void test_kvfs_locks_flock_converts_and_is_apart(void **state)
{
    struct snic_fsop w, x;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    assert_int_equal(set(&t, f, 1, W, 0, UINT64_MAX), 0);
    assert_int_equal(flock_set(&t, f, 2, W), 0); /* byte ranges are another kind */
    assert_int_equal(flock_set(&t, f, 3, R), SNIC_EAGAIN);
    assert_int_equal(flock_set(&t, f, 2, R), 0);
    assert_int_equal(flock_set(&t, f, 3, R), 0);
    assert_int_equal(flock_set(&t, f, 3, R), 0);
    /* A conversion that fails has lost the old lock. */
    assert_int_equal(flock_set(&t, f, 2, W), SNIC_EAGAIN);
    assert_int_equal(flock_set(&t, f, 3, W), 0);
    assert_int_equal(flock_set(&t, f, 2, R), SNIC_EAGAIN);
    /* Two that hold it shared and both convert: one waits, the other gets it. */
    assert_int_equal(flock_set(&t, f, 3, R), 0);
    assert_int_equal(flock_set(&t, f, 2, R), 0);
    start_wait(&t, &w, SNIC_FSOP_FLOCK, f, 2, W, 0, 0);
    assert_null(done(&t));
    start_wait(&t, &x, SNIC_FSOP_FLOCK, f, 3, W, 0, 0);
    assert_ptr_equal(done(&t), &x);
    assert_int_equal(flock_set(&t, f, 3, U), 0);
    assert_ptr_equal(done(&t), &w);
    assert_int_equal(flock_set(&t, f, 3, R), SNIC_EAGAIN);
    assert_int_equal(flock_set(&t, f, 2, U), 0);
    assert_int_equal(flock_set(&t, f, 2, U), 0);
    kvt_close(&t);
}

/* ---- Ends of owners ---- */

static void test_kvfs_locks_release_frees(void **state)
{
    struct snic_fsop req, w[2];
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_create(&t, SNIC_FSOP_ROOT, "f", 0644);
    assert_int_equal(set(&t, f, 7, W, 5, 6), 0);
    assert_int_equal(set(&t, f, 7, R, 8, 9), 0);
    assert_int_equal(flock_set(&t, f, 7, W), 0);
    start_wait(&t, &w[0], SNIC_FSOP_SETLK, f, 8, W, 0, 20);
    start_wait(&t, &w[1], SNIC_FSOP_FLOCK, f, 8, W, 0, 0);
    assert_null(done(&t));
    kvt_req(&t, &req, SNIC_FSOP_FLUSH, f, NULL);
    req.handle = (1ULL << 63) | (f << 2) | 3;
    req.lock.owner = 7;
    kvt_submit(&t, &req); /* a closed descriptor: the ranges go, the flock stays */
    assert_ptr_equal(done(&t), &req);
    assert_ptr_equal(done(&t), &w[0]);
    assert_null(done(&t));
    kvt_req(&t, &req, SNIC_FSOP_RELEASE, f, NULL);
    req.handle = (1ULL << 63) | (f << 2) | 3;
    req.lock.owner = 7;
    kvt_submit(&t, &req);
    assert_ptr_equal(done(&t), &req);
    assert_ptr_equal(done(&t), &w[1]);
    assert_int_equal(w[0].result, 0);
    assert_int_equal(w[1].result, 0);
    kvt_close(&t);
}

/* ---- Limits ---- */

static void test_kvfs_locks_full_table_refuses(void **state)
{
    struct snic_kvfs_opts o;
    struct snic_fsop req;
    struct kvt t;
    unsigned n = 0;
    (void)state;
    kvt_opts(&o);
    o.locks_max = 20;
    kvt_open(&t, &o);
    uint64_t f = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    while (set(&t, f, 1, W, 10 * n, 10 * n + 5) == 0)
        n++;
    assert_int_equal(n, 20);
    assert_int_equal(set(&t, f, 1, W, 10 * n, 10 * n + 5), SNIC_ENOLCK);
    assert_int_equal(set(&t, f, 1, U, 2, 3), SNIC_ENOLCK); /* would be two of one */
    lock_req(&t, &req, SNIC_FSOP_SETLK, f, 2, W, 0, 0);
    req.flags |= SNIC_FSOP_LOCK_WAIT;
    assert_int_equal(kvt_call(&t, &req), SNIC_ENOLCK);
    assert_int_equal(set(&t, f, 1, W, 0, 15), 0); /* fewer than before */
    assert_int_equal(set(&t, f, 1, U, 2, 3), 0);
    assert_int_equal(set(&t, f, 2, W, 1000, 1000), SNIC_ENOLCK);
    assert_int_equal(set(&t, f, 1, U, 0, UINT64_MAX), 0);
    assert_int_equal(set(&t, f, 2, W, 1000, 1000), 0);
    kvt_close(&t);
}

static void test_kvfs_locks_wrong_requests_refused(void **state)
{
    struct snic_fsop req;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_create(&t, SNIC_FSOP_ROOT, "f", 0644);
    assert_int_equal(set(&t, f, 1, 3, 0, 1), SNIC_EINVAL);
    assert_int_equal(set(&t, f, 1, W, 2, 1), SNIC_EINVAL);
    lock_req(&t, &req, SNIC_FSOP_GETLK, f, 1, U, 0, 1);
    assert_int_equal(kvt_call(&t, &req), SNIC_EINVAL);
    lock_req(&t, &req, SNIC_FSOP_SETLK, f, 1, W, 0, 1);
    req.handle = (1ULL << 63) | (f << 2) | 1; /* open for reading */
    assert_int_equal(kvt_call(&t, &req), SNIC_EBADF);
    assert_int_equal(kvt_release(&t, f, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_locks_random_as_map),
        cmocka_unit_test(test_kvfs_locks_waiters_in_order),
        cmocka_unit_test(test_kvfs_locks_cancelled_waiter_leaves),
        cmocka_unit_test(test_kvfs_locks_deadlock_refused),
        cmocka_unit_test(test_kvfs_locks_flock_converts_and_is_apart),
        cmocka_unit_test(test_kvfs_locks_release_frees),
        cmocka_unit_test(test_kvfs_locks_full_table_refuses),
        cmocka_unit_test(test_kvfs_locks_wrong_requests_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
