/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Locks and bytes of files that several sessions use. */
#include "test_kvfs_bytes.h"
#include "test_kvfs_many.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { U = SNIC_KVFS_UNLCK, R = SNIC_KVFS_RDLCK, W = SNIC_KVFS_WRLCK };
enum { OWNERS = 4, BYTES = 24 };

static uint64_t make(struct many *y, uint32_t i, const char *name)
{
    struct snic_kvfs_req req;
    kvt_req(&y->t[i], &req, SNIC_KVFS_MKNOD, SNIC_KVFS_ROOT, name);
    req.mode = 0100644;
    assert_int_equal(many_call(y, i, &req), 0);
    return req.attr.ino;
}

static void lock_req(struct many *y, uint32_t i, struct snic_kvfs_req *req,
                     enum snic_kvfs_kind kind, uint64_t ino, uint64_t owner, uint32_t type,
                     uint64_t start, uint64_t end)
{
    kvt_req(&y->t[i], req, kind, ino, NULL);
    req->lock = (struct snic_kvfs_lock){
        .owner = owner, .start = start, .end = end, .type = type, .pid = (uint32_t)owner + 100};
}

static int64_t lock(struct many *y, uint32_t i, enum snic_kvfs_kind kind, uint64_t ino,
                    uint64_t owner, uint32_t type, uint64_t start, uint64_t end)
{
    struct snic_kvfs_req req;
    lock_req(y, i, &req, kind, ino, owner, type, start, end);
    return many_call(y, i, &req);
}

/* A request that waits. */
static void ask(struct many *y, uint32_t i, struct snic_kvfs_req *req, enum snic_kvfs_kind kind,
                uint64_t ino, uint64_t owner, uint32_t type, uint64_t start, uint64_t end)
{
    lock_req(y, i, req, kind, ino, owner, type, start, end);
    req->flags |= SNIC_KVFS_LOCK_WAIT;
    y->t[i].now = y->now;
    kvt_submit(&y->t[i], req);
    many_pass(y, 10000000);
    assert_null(snic_kvfs_poll_done(y->t[i].k));
}

/* ---- Locks ---- */

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
    struct snic_kvfs_req req;
    unsigned rounds = (unsigned)support_scale(3000, 30000);
    (void)state;
    many_open(&y, 2, 0, support_seed());
    many_mount(&y);
    uint64_t ino = make(&y, 0, "f");
    memset(held, 0, sizeof(held));
    for (unsigned n = 0; n < rounds; n++) {
        unsigned o = (unsigned)snic_rng_below(&y.rng, OWNERS), e = o % 2;
        unsigned type = (unsigned)snic_rng_below(&y.rng, 3);
        unsigned a = (unsigned)snic_rng_below(&y.rng, BYTES);
        unsigned b = a + (unsigned)snic_rng_below(&y.rng, BYTES - a);
        int64_t rc = lock(&y, e, SNIC_KVFS_SETLK, ino, o / 2, type, a, b);
        if (type != U && conflict(held, o, type, a, b)) {
            assert_int_equal(rc, SNIC_EAGAIN);
        } else {
            assert_int_equal(rc, 0);
            memset(held[o] + a, (int)type, b - a + 1);
        }
        e = (unsigned)snic_rng_below(&y.rng, 2);
        a = (unsigned)snic_rng_below(&y.rng, BYTES);
        type = 1 + (unsigned)snic_rng_below(&y.rng, 2);
        lock_req(&y, e, &req, SNIC_KVFS_GETLK, ino, 99, type, a, a);
        assert_int_equal(many_call(&y, e, &req), 0);
        assert_int_equal(req.lock.type != U, conflict(held, OWNERS, type, a, a));
    }
    many_close(&y);
}

static void test_kvfs_shared_lock_waits_for_other_session(void **state)
{
    static const enum snic_kvfs_kind kinds[] = {SNIC_KVFS_SETLK, SNIC_KVFS_FLOCK};
    static struct many y;
    struct snic_kvfs_req w;
    (void)state;
    many_open(&y, 2, 0, support_seed());
    many_mount(&y);
    uint64_t ino = make(&y, 0, "f");
    for (unsigned n = 0; n < 2; n++) {
        assert_int_equal(lock(&y, 0, kinds[n], ino, 1, W, 0, 9), 0);
        assert_int_equal(lock(&y, 1, kinds[n], ino, 1, R, 5, 6), SNIC_EAGAIN);
        ask(&y, 1, &w, kinds[n], ino, 1, R, 5, 6);
        assert_int_equal(lock(&y, 0, kinds[n], ino, 1, U, 0, UINT64_MAX), 0);
        many_finish(&y, 1);
        assert_int_equal(w.result, 0);
        assert_int_equal(lock(&y, 0, kinds[n], ino, 1, W, 0, 9), SNIC_EAGAIN);
        ask(&y, 0, &w, kinds[n], ino, 1, W, 0, 9);
        y.t[0].now = y.now;
        snic_kvfs_cancel(y.t[0].k, &w, y.now);
        many_finish(&y, 1);
        assert_int_equal(w.result, SNIC_EINTR);
        assert_int_equal(lock(&y, 1, kinds[n], ino, 1, U, 0, UINT64_MAX), 0);
    }
    /* A conversion of a flock that another session's keeps from happening. */
    assert_int_equal(lock(&y, 0, SNIC_KVFS_FLOCK, ino, 1, R, 0, 0), 0);
    assert_int_equal(lock(&y, 1, SNIC_KVFS_FLOCK, ino, 1, R, 0, 0), 0);
    assert_int_equal(lock(&y, 0, SNIC_KVFS_FLOCK, ino, 1, W, 0, 0), SNIC_EAGAIN);
    assert_int_equal(lock(&y, 1, SNIC_KVFS_FLOCK, ino, 1, W, 0, 0), 0);
    assert_int_equal(lock(&y, 0, SNIC_KVFS_FLOCK, ino, 1, R, 0, 0), SNIC_EAGAIN);
    assert_int_equal(lock(&y, 1, SNIC_KVFS_FLOCK, ino, 1, U, 0, 0), 0);
    many_close(&y);
}

/* Whoever takes locks alone keeps them when another session comes. */
static void test_kvfs_shared_locks_of_alone_seen_by_newcomer(void **state)
{
    enum { FILES = 30 };
    static struct many y;
    uint64_t ino[FILES];
    char name[8] = "f";
    (void)state;
    many_open(&y, 2, 0, support_seed());
    y.paused = 2;
    assert_int_equal(many_simple(&y, 0, SNIC_KVFS_MOUNT, 0, NULL), 0);
    for (unsigned i = 0; i < FILES; i++) {
        name[1] = (char)('A' + i);
        ino[i] = make(&y, 0, name);
        assert_int_equal(lock(&y, 0, SNIC_KVFS_SETLK, ino[i], i, W, i, i + 5), 0);
        assert_int_equal(lock(&y, 0, SNIC_KVFS_FLOCK, ino[i], i, R, 0, 0), 0);
    }
    y.paused = 0;
    assert_int_equal(many_simple(&y, 1, SNIC_KVFS_MOUNT, 0, NULL), 0);
    for (unsigned i = 0; i < FILES; i++) {
        assert_int_equal(lock(&y, 1, SNIC_KVFS_SETLK, ino[i], i, R, i + 5, i + 5), SNIC_EAGAIN);
        assert_int_equal(lock(&y, 1, SNIC_KVFS_SETLK, ino[i], i, R, i + 6, i + 6), 0);
        assert_int_equal(lock(&y, 1, SNIC_KVFS_FLOCK, ino[i], i, W, 0, 0), SNIC_EAGAIN);
        assert_int_equal(lock(&y, 1, SNIC_KVFS_FLOCK, ino[i], i, R, 0, 0), 0);
        assert_int_equal(lock(&y, 0, SNIC_KVFS_SETLK, ino[i], i, U, 0, UINT64_MAX), 0);
        assert_int_equal(lock(&y, 1, SNIC_KVFS_SETLK, ino[i], i, W, 0, 100), 0);
    }
    many_close(&y);
}

/* The locks of a session that dies go when its lease is over, not before. */
static void test_kvfs_shared_locks_end_with_lease(void **state)
{
    static struct many y;
    struct snic_kvfs_req w;
    (void)state;
    many_open(&y, 2, 0, support_seed());
    many_mount(&y);
    uint64_t ino = make(&y, 0, "f");
    assert_int_equal(lock(&y, 0, SNIC_KVFS_SETLK, ino, 1, W, 0, 9), 0);
    many_pass(&y, 2000000000);
    y.paused = 1;
    ask(&y, 1, &w, SNIC_KVFS_SETLK, ino, 1, W, 0, 9);
    many_pass(&y, 5000000000);
    assert_null(snic_kvfs_poll_done(y.t[1].k));
    many_pass(&y, 20000000000);
    assert_ptr_equal(snic_kvfs_poll_done(y.t[1].k), &w);
    assert_int_equal(w.result, 0);
    y.paused = 0;
    y.t[0].now = y.now;
    assert_int_equal(lock(&y, 0, SNIC_KVFS_SETLK, ino, 1, U, 0, 9), SNIC_EIO);
    assert_int_equal(many_simple(&y, 0, SNIC_KVFS_MOUNT, 0, NULL), 0);
    assert_int_equal(lock(&y, 0, SNIC_KVFS_SETLK, ino, 1, W, 0, 9), SNIC_EAGAIN);
    many_close(&y);
}

/* ---- Bytes ---- */

static int64_t data(struct many *y, uint32_t i, enum snic_kvfs_kind kind, uint64_t ino,
                    uint64_t offset, void *bytes, uint64_t size, uint32_t flags)
{
    struct snic_kvfs_req req;
    struct snic_iov iov = {.base = bytes, .size = (size_t)size};
    kvt_req(&y->t[i], &req, kind, ino, NULL);
    req.flags |= flags;
    req.offset = offset;
    req.length = size;
    req.iov = &iov;
    req.iov_count = 1;
    req.set_mask = kind == SNIC_KVFS_SETATTR ? SNIC_KVFS_SET_SIZE : 0;
    req.attr.size = size;
    return many_call(y, i, &req);
}

/* What one session was told to be done, the other one sees. */
static void test_kvfs_shared_bytes_seen_by_all(void **state)
{
    static struct many y;
    static struct kvb f;
    static unsigned char bytes[40000], out[KVB_MAX];
    unsigned rounds = (unsigned)support_scale(2000, 20000);
    (void)state;
    many_open(&y, 2, 0, support_seed());
    many_mount(&y);
    memset(&f, 0, sizeof(f));
    f.ino = make(&y, 0, "f");
    for (unsigned n = 0; n < rounds; n++) {
        uint32_t e = (uint32_t)snic_rng_below(&y.rng, 2);
        uint64_t max = snic_rng_below(&y.rng, 2) == 0 ? 9000 : 60000;
        uint64_t at = snic_rng_below(&y.rng, max);
        uint64_t size = 1 + snic_rng_below(&y.rng, snic_min_u64(max, sizeof(bytes)));
        switch (snic_rng_below(&y.rng, 5)) {
        case 0:
        case 1:
            kvb_fill(bytes, sizeof(bytes), n);
            assert_int_equal(data(&y, e, SNIC_KVFS_WRITE, f.ino, at, bytes, size, 0), size);
            kvb_put(&f, at, bytes, size);
            break;
        case 2:
            if (f.size + size > 100000)
                break;
            kvb_fill(bytes, sizeof(bytes), n);
            assert_int_equal(data(&y, e, SNIC_KVFS_WRITE, f.ino, 0, bytes, size, SNIC_KVFS_APPEND),
                             size);
            kvb_put(&f, f.size, bytes, size);
            break;
        case 3:
            at = at % 3 == 0 ? 0 : at;
            assert_int_equal(data(&y, e, SNIC_KVFS_SETATTR, f.ino, 0, NULL, at, 0), 0);
            kvb_cut(&f, at);
            break;
        default:
            assert_int_equal(data(&y, e, SNIC_KVFS_FALLOCATE, f.ino, at, NULL, size,
                                  SNIC_KVFS_FALLOC_PUNCH | SNIC_KVFS_FALLOC_KEEP_SIZE),
                             0);
            kvb_zero(&f, at, size, 1);
            break;
        }
        e = (uint32_t)snic_rng_below(&y.rng, 2);
        assert_int_equal(data(&y, e, SNIC_KVFS_READ, f.ino, 0, out, sizeof(out), 0), f.size);
        assert_memory_equal(out, f.bytes, f.size);
    }
    many_close(&y);
}

/*
 * A reader beside a writer of the other session: what it gets is of one moment, for each block;
 * zeros only where zeros were.
 */
static void test_kvfs_shared_reader_meets_no_zeros(void **state)
{
    static struct many y;
    static unsigned char small[100], big[30000], out[40000];
    unsigned rounds = (unsigned)support_scale(1500, 15000);
    (void)state;
    many_open(&y, 2, 0, support_seed());
    many_mount(&y);
    uint64_t ino = make(&y, 0, "f");
    memset(small, 1, sizeof(small));
    memset(big, 2, sizeof(big));
    assert_int_equal(data(&y, 0, SNIC_KVFS_WRITE, ino, 0, small, sizeof(small), 0), 100);
    for (unsigned n = 0; n < rounds; n++) {
        struct snic_iov in = {.base = big, .size = sizeof(big)};
        struct snic_iov to = {.base = out, .size = sizeof(out)};
        struct snic_kvfs_req w, r;
        unsigned grow = n % 2 == 0;
        kvt_req(&y.t[0], &w, grow ? SNIC_KVFS_WRITE : SNIC_KVFS_SETATTR, ino, NULL);
        w.iov = &in;
        w.iov_count = 1;
        w.set_mask = SNIC_KVFS_SET_SIZE;
        w.attr.size = 0;
        kvt_req(&y.t[1], &r, SNIC_KVFS_READ, ino, NULL);
        r.iov = &to;
        r.iov_count = 1;
        y.t[0].now = y.now;
        y.t[1].now = y.now;
        kvt_submit(&y.t[0], &w);
        for (uint64_t k = snic_rng_below(&y.rng, 6); k > 0; k--)
            many_step(&y);
        y.t[1].now = y.now;
        kvt_submit(&y.t[1], &r);
        many_finish(&y, 2);
        assert_true(w.result >= 0 && r.result >= 0);
        for (int64_t i = 0; i < r.result; i++)
            assert_true(out[i] != 0);
        assert_true(r.result == 0 || r.result == 100 || r.result == 30000);
    }
    many_close(&y);
}

/*
 * One session makes a file longer, with a gap, while another one appends to it: what was appended
 * is where one of the two orders puts it.
 */
static void growth_beside_appends(uint32_t caps)
{
    enum { OLD = 20000, FAR = 60000, MORE = 500, ALL = 70000 };
    static const enum snic_kvfs_kind kinds[] = {SNIC_KVFS_WRITE, SNIC_KVFS_SETATTR,
                                                SNIC_KVFS_FALLOCATE};
    static struct many y;
    static unsigned char old[OLD], more[MORE], out[ALL];
    unsigned rounds = (unsigned)support_scale(600, 6000);
    many_open(&y, 2, caps, support_seed());
    many_mount(&y);
    uint64_t ino = make(&y, 0, "f");
    memset(old, 1, sizeof(old));
    memset(more, 2, sizeof(more));
    for (unsigned n = 0; n < rounds; n++) {
        struct snic_iov one = {.base = old, .size = MORE};
        struct snic_iov two = {.base = more, .size = MORE};
        struct snic_kvfs_req w, a;
        assert_int_equal(data(&y, 0, SNIC_KVFS_SETATTR, ino, 0, NULL, 0, 0), 0);
        assert_int_equal(data(&y, 0, SNIC_KVFS_WRITE, ino, 0, old, OLD, 0), OLD);
        kvt_req(&y.t[0], &w, kinds[n % 3], ino, NULL);
        w.offset = FAR;
        w.length = MORE;
        w.iov = &one;
        w.iov_count = 1;
        w.set_mask = SNIC_KVFS_SET_SIZE;
        w.attr.size = FAR + MORE;
        kvt_req(&y.t[1], &a, SNIC_KVFS_WRITE, ino, NULL);
        a.flags |= SNIC_KVFS_APPEND;
        a.iov = &two;
        a.iov_count = 1;
        y.t[0].now = y.now;
        kvt_submit(&y.t[0], &w);
        for (uint64_t k = snic_rng_below(&y.rng, 6); k > 0; k--)
            many_step(&y);
        y.t[1].now = y.now;
        kvt_submit(&y.t[1], &a);
        many_finish(&y, 2);
        assert_true(w.result >= 0);
        assert_int_equal(a.result, MORE);
        memset(out, 0, sizeof(out));
        int64_t size = data(&y, 1, SNIC_KVFS_READ, ino, 0, out, ALL, 0);
        assert_true(size == FAR + MORE || size == FAR + 2 * MORE);
        assert_memory_equal(out, old, OLD);
        assert_memory_equal(out + (size == FAR + MORE ? OLD : FAR + MORE), more, MORE);
    }
    many_close(&y);
}

static void test_kvfs_shared_growth_spares_appends(void **state)
{
    (void)state;
    growth_beside_appends(MANY_CAPS);
    growth_beside_appends(MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI); /* with the session's fence */
}

/* ---- A newcomer, and what the session that is alone has under way ---- */

/* Take the engine's next operation of a kind on one inode away, on its way to the store. */
static struct snic_kvfs_io *hold(struct many *y, uint32_t i, uint32_t kind, uint64_t ino)
{
    struct kvt *t = &y->t[i];
    struct snic_kvfs_io *held = NULL;
    t->now = y->now;
    while (held == NULL) {
        struct snic_kvfs_io *io = snic_kvfs_poll_io(t->k);
        if (io == NULL)
            assert_true(kvt_step(t));
        else if (io->op.kind == kind &&
                 (kind != SNIC_KVOP_COMMIT ? io->op.object : io->op.changes[0].key.group) == ino)
            held = io;
        else
            t->flight[t->in_flight++] = io;
    }
    y->now = t->now;
    return held;
}

static void give_back(struct many *y, uint32_t i, struct snic_kvfs_io *held)
{
    y->t[i].flight[y->t[i].in_flight++] = held;
}

static void start(struct many *y, uint32_t i, struct snic_kvfs_req *req)
{
    y->t[i].now = y->now;
    kvt_submit(&y->t[i], req);
}

/*
 * The only times kept back are those of a file that an fsync has locked when the session writes
 * them out for a newcomer: the fsync writes them. The file has a lock, too, which is to be stored.
 */
static void test_kvfs_shared_fsync_writes_what_newcomer_waits_for(void **state)
{
    static struct many y;
    static unsigned char bytes[20000];
    struct snic_iov iov = {.base = bytes, .size = sizeof(bytes)};
    struct snic_kvfs_req read, mount, sync;
    (void)state;
    many_open_with(&y, 2, MANY_CAPS, support_seed(), 1000000000000);
    y.paused = 2;
    assert_int_equal(many_simple(&y, 0, SNIC_KVFS_MOUNT, 0, NULL), 0);
    uint64_t ino = make(&y, 0, "f"), other = make(&y, 0, "g");
    assert_int_equal(data(&y, 0, SNIC_KVFS_WRITE, other, 0, bytes, sizeof(bytes), 0), 20000);
    assert_int_equal(data(&y, 0, SNIC_KVFS_WRITE, ino, 0, bytes, sizeof(bytes), 0), 20000);
    /* No time of the next read of it is kept back. */
    assert_int_equal(data(&y, 0, SNIC_KVFS_READ, other, 0, bytes, sizeof(bytes), 0), 20000);
    assert_int_equal(many_simple(&y, 0, SNIC_KVFS_FSYNC, other, NULL), 0);
    assert_int_equal(lock(&y, 0, SNIC_KVFS_SETLK, ino, 1, W, 0, 9), 0);
    assert_int_equal(data(&y, 0, SNIC_KVFS_WRITE, ino, 0, bytes, 100, 0), 100);
    y.paused = 0;
    kvt_req(&y.t[0], &read, SNIC_KVFS_READ, other, NULL);
    read.iov = &iov;
    read.iov_count = 1;
    start(&y, 0, &read); /* begun before: waited for */
    struct snic_kvfs_io *reads = hold(&y, 0, SNIC_KVOP_OBJECT_READ, other);
    kvt_req(&y.t[1], &mount, SNIC_KVFS_MOUNT, 0, NULL);
    start(&y, 1, &mount);
    many_pass(&y, 2000000000);
    kvt_req(&y.t[0], &sync, SNIC_KVFS_FSYNC, ino, NULL);
    start(&y, 0, &sync);
    struct snic_kvfs_io *commits = hold(&y, 0, SNIC_KVOP_COMMIT, ino);
    give_back(&y, 0, reads);
    many_finish(&y, 1);
    many_pass(&y, 10000000);
    assert_null(snic_kvfs_poll_done(y.t[1].k));
    give_back(&y, 0, commits);
    many_finish(&y, 2);
    assert_int_equal(sync.result, 0);
    assert_int_equal(mount.result, 0);
    assert_int_equal(lock(&y, 1, SNIC_KVFS_SETLK, ino, 1, W, 0, 9), SNIC_EAGAIN);
    many_close(&y);
}

/* Whoever waits for a lock, for however long, keeps nobody from joining, and gets it afterwards. */
static void test_kvfs_shared_waiting_for_lock_lets_newcomer_in(void **state)
{
    static const enum snic_kvfs_kind kinds[] = {SNIC_KVFS_SETLK, SNIC_KVFS_FLOCK};
    static struct many y;
    struct snic_kvfs_req w;
    (void)state;
    for (unsigned n = 0; n < 2; n++) {
        many_open(&y, 2, MANY_CAPS, support_seed());
        y.paused = 2;
        assert_int_equal(many_simple(&y, 0, SNIC_KVFS_MOUNT, 0, NULL), 0);
        uint64_t ino = make(&y, 0, "f");
        assert_int_equal(lock(&y, 0, kinds[n], ino, 1, W, 0, 9), 0);
        ask(&y, 0, &w, kinds[n], ino, 2, W, 0, 9);
        y.paused = 0;
        assert_int_equal(many_simple(&y, 1, SNIC_KVFS_MOUNT, 0, NULL), 0);
        assert_int_equal(lock(&y, 1, kinds[n], ino, 1, R, 5, 6), SNIC_EAGAIN);
        assert_int_equal(w.result, 0);
        assert_null(snic_kvfs_poll_done(y.t[0].k));
        struct snic_kvfs_req unlock;
        lock_req(&y, 0, &unlock, kinds[n], ino, 1, U, 0, UINT64_MAX);
        start(&y, 0, &unlock);
        many_finish(&y, 2);
        assert_int_equal(unlock.result, 0);
        assert_int_equal(w.result, 0);
        assert_int_equal(lock(&y, 1, kinds[n], ino, 1, R, 5, 6), SNIC_EAGAIN);
        assert_int_equal(lock(&y, 0, kinds[n], ino, 2, U, 0, UINT64_MAX), 0);
        assert_int_equal(lock(&y, 1, kinds[n], ino, 1, W, 0, 9), 0);
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
        ino[n] = make(y, i, name);
        for (uint32_t r = 0; r < each; r++)
            assert_int_equal(lock(y, i, SNIC_KVFS_SETLK, ino[n], 1, W, 2 * r, 2 * r), 0);
    }
    assert_int_equal(lock(y, i, SNIC_KVFS_SETLK, ino[0], 1, W, 10000, 10000), SNIC_ENOLCK);
    for (unsigned n = 0; n < FILES; n++)
        assert_int_equal(lock(y, i, SNIC_KVFS_SETLK, ino[n], 1, U, 0, UINT64_MAX), 0);
}

/* A lock that is waited for: its inode has no place in memory when the wait ends. */
static void test_kvfs_shared_waiter_refused_leaves_nothing(void **state)
{
    enum { FILES = 512 };
    static struct many y;
    static uint64_t handle[FILES];
    struct snic_kvfs_req w, open;
    char name[8];
    unsigned count = 0;
    (void)state;
    many_open(&y, 2, MANY_CAPS, support_seed());
    many_mount(&y);
    uint64_t ino = make(&y, 0, "f");
    assert_int_equal(lock(&y, 0, SNIC_KVFS_SETLK, ino, 1, W, 0, 9), 0);
    ask(&y, 0, &w, SNIC_KVFS_SETLK, ino, 2, W, 0, 9);
    for (; count < FILES; count++) {
        snprintf(name, sizeof(name), "o%u", count);
        kvt_req(&y.t[0], &open, SNIC_KVFS_CREATE, SNIC_KVFS_ROOT, name);
        open.flags |= SNIC_KVFS_OPEN_READ;
        open.mode = 0644;
        if (many_call(&y, 0, &open) != 0)
            break;
        handle[count] = open.handle;
    }
    assert_int_equal(open.result, SNIC_ENFILE);
    /* CREATE takes places for names, too: what is left takes one more each. */
    for (unsigned n = 0; n < 8 && count < FILES; n++) {
        kvt_req(&y.t[0], &open, SNIC_KVFS_OPEN, make(&y, 1, (char[]){'p', (char)('a' + n), 0}),
                NULL);
        open.flags |= SNIC_KVFS_OPEN_READ;
        if (many_call(&y, 0, &open) != 0)
            break;
        handle[count++] = open.handle;
    }
    assert_int_equal(open.result, SNIC_ENFILE);
    snic_kvfs_cancel(y.t[0].k, &w, y.now);
    many_finish(&y, 1);
    assert_int_equal(w.result, SNIC_ENFILE);
    for (unsigned n = 0; n < count; n++) {
        kvt_req(&y.t[0], &open, SNIC_KVFS_RELEASE, 0, NULL);
        open.handle = handle[n];
        assert_int_equal(many_call(&y, 0, &open), 0);
    }
    assert_int_equal(lock(&y, 0, SNIC_KVFS_SETLK, ino, 1, U, 0, UINT64_MAX), 0);
    fill(&y, 0);
    many_close(&y);
}

/* The store is down when a lock is looked for again: the request is told so, and is over. */
static void test_kvfs_shared_waiter_of_silent_store_leaves_nothing(void **state)
{
    static const struct snic_kv_fault down = {
        .kind = SNIC_KV_FAULT_ERROR, .after = 1, .repeat = UINT64_MAX, .error = SNIC_ETIMEDOUT};
    static struct many y;
    struct snic_kvfs_req w;
    struct snic_kvfs_stats s;
    (void)state;
    many_open(&y, 2, MANY_CAPS, support_seed());
    many_mount(&y);
    uint64_t ino = make(&y, 0, "f");
    assert_int_equal(lock(&y, 0, SNIC_KVFS_SETLK, ino, 1, W, 0, 9), 0);
    ask(&y, 0, &w, SNIC_KVFS_SETLK, ino, 2, W, 0, 9);
    many_pass(&y, 1000000000);
    assert_int_equal(snic_kvmem_fault(y.m, &down), 0);
    many_pass(&y, 7000000000);
    assert_null(snic_kvfs_poll_done(y.t[0].k));
    snic_kvfs_cancel(y.t[0].k, &w, y.now); /* wakes: is the session alive? */
    many_finish(&y, 1);
    assert_int_equal(w.result, SNIC_ETIMEDOUT);
    snic_kvmem_faults_clear(y.m);
    assert_int_equal(lock(&y, 0, SNIC_KVFS_SETLK, ino, 1, U, 0, UINT64_MAX), 0);
    fill(&y, 0);
    snic_kvfs_get_stats(y.t[0].k, &s);
    assert_int_equal(s.sessions, 2);
    many_close(&y);
}

/* The session dies while the end of a handle waits for the inode: the handle ends all the same. */
static void test_kvfs_shared_release_outlives_session(void **state)
{
    static struct many y;
    static unsigned char bytes[20000];
    struct snic_kvfs_req open, mode, release;
    struct snic_kvfs_stats s;
    (void)state;
    many_open(&y, 2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, support_seed());
    many_mount(&y);
    kvt_req(&y.t[0], &open, SNIC_KVFS_CREATE, SNIC_KVFS_ROOT, "f");
    open.flags |= SNIC_KVFS_OPEN_READ | SNIC_KVFS_OPEN_WRITE;
    open.mode = 0644;
    assert_int_equal(many_call(&y, 0, &open), 0);
    uint64_t ino = open.attr.ino;
    assert_int_equal(data(&y, 0, SNIC_KVFS_WRITE, ino, 0, bytes, sizeof(bytes), 0), 20000);
    assert_int_equal(data(&y, 0, SNIC_KVFS_WRITE, ino, 0, bytes, 100, 0), 100);
    kvt_req(&y.t[0], &mode, SNIC_KVFS_SETATTR, ino, NULL);
    mode.set_mask = SNIC_KVFS_SET_MODE;
    mode.attr.mode = 0600;
    start(&y, 0, &mode);
    struct snic_kvfs_io *commits = hold(&y, 0, SNIC_KVOP_COMMIT, ino);
    kvt_req(&y.t[0], &release, SNIC_KVFS_RELEASE, ino, NULL);
    release.handle = open.handle;
    start(&y, 0, &release);
    while (kvt_step(&y.t[0]))
        continue;
    assert_null(snic_kvfs_poll_done(y.t[0].k));
    y.now = y.t[0].now;
    y.paused = 1;
    many_pass(&y, 30000000000);
    y.paused = 0;
    many_finish(&y, 1); /* not the change of the mode: the store has it */
    give_back(&y, 0, commits);
    many_finish(&y, 1);
    assert_int_equal(mode.result, SNIC_EIO);
    assert_int_equal(release.result, 0);
    snic_kvfs_get_stats(y.t[0].k, &s);
    assert_int_equal(s.inodes, 0);
    assert_int_equal(many_simple(&y, 0, SNIC_KVFS_UNMOUNT, 0, NULL), SNIC_EIO);
    many_close(&y);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_shared_locks_random_as_map),
        cmocka_unit_test(test_kvfs_shared_lock_waits_for_other_session),
        cmocka_unit_test(test_kvfs_shared_locks_of_alone_seen_by_newcomer),
        cmocka_unit_test(test_kvfs_shared_locks_end_with_lease),
        cmocka_unit_test(test_kvfs_shared_bytes_seen_by_all),
        cmocka_unit_test(test_kvfs_shared_reader_meets_no_zeros),
        cmocka_unit_test(test_kvfs_shared_growth_spares_appends),
        cmocka_unit_test(test_kvfs_shared_fsync_writes_what_newcomer_waits_for),
        cmocka_unit_test(test_kvfs_shared_waiting_for_lock_lets_newcomer_in),
        cmocka_unit_test(test_kvfs_shared_waiter_refused_leaves_nothing),
        cmocka_unit_test(test_kvfs_shared_waiter_of_silent_store_leaves_nothing),
        cmocka_unit_test(test_kvfs_shared_release_outlives_session),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
