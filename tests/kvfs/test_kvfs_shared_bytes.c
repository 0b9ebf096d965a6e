/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes of files that several sessions use, and what of them is under way when a session ends or is
 * no longer alone. */
#include "test_kvfs_bytes.h"
#include "test_kvfs_many.h"

#include <string.h>

static int64_t data(struct many *y, uint32_t i, enum snic_fsop_kind kind, uint64_t ino,
                    uint64_t offset, void *bytes, uint64_t size, uint32_t flags)
{
    struct snic_fsop req;
    struct snic_iov iov = {.base = bytes, .size = (size_t)size};
    kvt_req(&y->t[i], &req, kind, ino, NULL);
    req.flags |= flags;
    req.offset = offset;
    req.length = size;
    req.iov = &iov;
    req.iov_count = 1;
    req.set_mask = kind == SNIC_FSOP_SETATTR ? SNIC_FSOP_SET_SIZE : 0;
    req.attr.size = size;
    return many_call(y, i, &req);
}

/* What was acknowledged to one session, the other one sees. */
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
    f.ino = many_file(&y, 0, "f");
    for (unsigned n = 0; n < rounds; n++) {
        uint32_t e = (uint32_t)snic_rng_below(&y.rng, 2);
        uint64_t max = snic_rng_below(&y.rng, 2) == 0 ? 9000 : 60000;
        uint64_t at = snic_rng_below(&y.rng, max);
        uint64_t size = 1 + snic_rng_below(&y.rng, snic_min_u64(max, sizeof(bytes)));
        switch (snic_rng_below(&y.rng, 5)) {
        case 0:
        case 1:
            kvb_fill(bytes, sizeof(bytes), n);
            assert_int_equal(data(&y, e, SNIC_FSOP_WRITE, f.ino, at, bytes, size, 0), size);
            kvb_put(&f, at, bytes, size);
            break;
        case 2:
            if (f.size + size > 100000)
                break;
            kvb_fill(bytes, sizeof(bytes), n);
            assert_int_equal(data(&y, e, SNIC_FSOP_WRITE, f.ino, 0, bytes, size, SNIC_FSOP_APPEND),
                             size);
            kvb_put(&f, f.size, bytes, size);
            break;
        case 3:
            at = at % 3 == 0 ? 0 : at;
            assert_int_equal(data(&y, e, SNIC_FSOP_SETATTR, f.ino, 0, NULL, at, 0), 0);
            kvb_cut(&f, at);
            break;
        default:
            assert_int_equal(data(&y, e, SNIC_FSOP_FALLOCATE, f.ino, at, NULL, size,
                                  SNIC_FSOP_FALLOC_PUNCH | SNIC_FSOP_FALLOC_KEEP_SIZE),
                             0);
            kvb_zero(&f, at, size, 1);
            break;
        }
        e = (uint32_t)snic_rng_below(&y.rng, 2);
        assert_int_equal(data(&y, e, SNIC_FSOP_READ, f.ino, 0, out, sizeof(out), 0), f.size);
        assert_memory_equal(out, f.bytes, f.size);
    }
    many_close(&y);
}

/*
 * A reader beside a writer of the other session: what it gets is of one moment, for each block;
 * zeros only where zeros were.
 */
static void test_kvfs_shared_reader_sees_no_zeros(void **state)
{
    static struct many y;
    static unsigned char small[100], big[30000], out[40000];
    unsigned rounds = (unsigned)support_scale(1500, 15000);
    (void)state;
    many_open(&y, 2, 0, support_seed());
    many_mount(&y);
    uint64_t ino = many_file(&y, 0, "f");
    memset(small, 1, sizeof(small));
    memset(big, 2, sizeof(big));
    assert_int_equal(data(&y, 0, SNIC_FSOP_WRITE, ino, 0, small, sizeof(small), 0), 100);
    for (unsigned n = 0; n < rounds; n++) {
        struct snic_iov in = {.base = big, .size = sizeof(big)};
        struct snic_iov to = {.base = out, .size = sizeof(out)};
        struct snic_fsop w, r;
        unsigned grow = n % 2 == 0;
        kvt_req(&y.t[0], &w, grow ? SNIC_FSOP_WRITE : SNIC_FSOP_SETATTR, ino, NULL);
        w.iov = &in;
        w.iov_count = 1;
        w.set_mask = SNIC_FSOP_SET_SIZE;
        w.attr.size = 0;
        kvt_req(&y.t[1], &r, SNIC_FSOP_READ, ino, NULL);
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
    static const enum snic_fsop_kind kinds[] = {SNIC_FSOP_WRITE, SNIC_FSOP_SETATTR,
                                                SNIC_FSOP_FALLOCATE};
    static struct many y;
    static unsigned char old[OLD], more[MORE], out[ALL];
    unsigned rounds = (unsigned)support_scale(600, 6000);
    many_open(&y, 2, caps, support_seed());
    many_mount(&y);
    uint64_t ino = many_file(&y, 0, "f");
    memset(old, 1, sizeof(old));
    memset(more, 2, sizeof(more));
    for (unsigned n = 0; n < rounds; n++) {
        struct snic_iov one = {.base = old, .size = MORE};
        struct snic_iov two = {.base = more, .size = MORE};
        struct snic_fsop w, a;
        assert_int_equal(data(&y, 0, SNIC_FSOP_SETATTR, ino, 0, NULL, 0, 0), 0);
        assert_int_equal(data(&y, 0, SNIC_FSOP_WRITE, ino, 0, old, OLD, 0), OLD);
        kvt_req(&y.t[0], &w, kinds[n % 3], ino, NULL);
        w.offset = FAR;
        w.length = MORE;
        w.iov = &one;
        w.iov_count = 1;
        w.set_mask = SNIC_FSOP_SET_SIZE;
        w.attr.size = FAR + MORE;
        kvt_req(&y.t[1], &a, SNIC_FSOP_WRITE, ino, NULL);
        a.flags |= SNIC_FSOP_APPEND;
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
        int64_t size = data(&y, 1, SNIC_FSOP_READ, ino, 0, out, ALL, 0);
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

/* ---- Large writes across the end of a file ---- */

enum { ACROSS = 4, ACROSS_MAX = 200000 / 8, ACROSS_COPY = 61440 /* in one step */ };

/* One WRITE, or COPY, of words that hold their writer and their number. */
struct across {
    uint64_t source; /* a file that has the words, for COPY */
    struct snic_fsop req;
    struct snic_iov iov[2];
    uint64_t words[ACROSS_MAX];
    uint64_t count;
    uint64_t seen;
    uint64_t at; /* of the last one seen */
};

static void across_words(struct many *y, struct across *w, uint32_t n)
{
    w->count = 1 + snic_rng_below(&y->rng, snic_rng_below(&y->rng, 2) == 0 ? 2000 : ACROSS_MAX);
    w->seen = w->at = 0;
    for (uint64_t i = 0; i < w->count; i++)
        w->words[i] = (uint64_t)(n + 1) << 32 | i;
    assert_int_equal(data(y, 0, SNIC_FSOP_SETATTR, w->source, 0, NULL, 0, 0), 0);
    assert_int_equal(data(y, 0, SNIC_FSOP_WRITE, w->source, 0, w->words, w->count * 8, 0),
                     w->count * 8);
}

/* Appends by both sessions; now and then one of them writes, or copies, behind a gap instead. */
static void across_start(struct many *y, struct across *w, uint32_t n, uint64_t ino, uint64_t far)
{
    int copy = far != 0 && w->count * 8 <= ACROSS_COPY && snic_rng_below(&y->rng, 2) == 0;
    uint32_t e = n % 2;
    w->iov[0] = (struct snic_iov){.base = w->words};
    w->iov[0].size = (size_t)snic_rng_below(&y->rng, w->count * 8 + 1);
    w->iov[1] = (struct snic_iov){.base = (unsigned char *)w->words + w->iov[0].size,
                                  .size = (size_t)w->count * 8 - w->iov[0].size};
    kvt_req(&y->t[e], &w->req, copy ? SNIC_FSOP_COPY : SNIC_FSOP_WRITE, copy ? w->source : ino,
            NULL);
    w->req.flags |= far == 0 ? SNIC_FSOP_APPEND : 0;
    w->req.offset = copy ? 0 : far;
    w->req.ino2 = ino;
    w->req.offset2 = far;
    w->req.length = w->count * 8;
    w->req.iov = w->iov;
    w->req.iov_count = copy ? 0 : 2;
    many_start(y, e, &w->req);
    for (uint64_t k = snic_rng_below(&y->rng, 30); k > 0; k--)
        many_step(y);
}

/* All words of all are there, once, in order and one behind the other; of a large append, others
 * may be between the pieces. */
static void across_check(struct many *y, struct across *w, uint64_t ino, uint64_t from)
{
    static uint64_t out[65536 / 8];
    int64_t got;
    for (uint64_t at = from;; at += (uint64_t)got) {
        got = data(y, 1, SNIC_FSOP_READ, ino, at, out, sizeof(out), 0);
        assert_true(got >= 0 && got % 8 == 0);
        if (got == 0)
            break;
        for (uint64_t i = 0; i < (uint64_t)got / 8; i++) {
            uint64_t n = out[i] >> 32, place = at + i * 8;
            if (out[i] == 0)
                continue;
            assert_true(n >= 1 && n <= ACROSS);
            struct across *x = &w[n - 1];
            assert_int_equal(out[i], x->words[x->seen]);
            assert_true(x->seen == 0 || place == x->at + 8 ||
                        (x->count * 8 > SNIC_KVOP_VALUE_MAX && place % 65536 == 0 &&
                         (x->req.flags & SNIC_FSOP_APPEND) != 0) ||
                        (x->at + 8) % 65536 == 0);
            x->at = place;
            x->seen++;
        }
    }
    for (uint32_t n = 0; n < ACROSS; n++) {
        assert_int_equal(w[n].req.result, w[n].count * 8);
        assert_int_equal(w[n].seen, w[n].count);
    }
}

/* What was acknowledged to one session as appended is there, whatever the other one does. `step` 0:
 * it only appends. */
static void across(uint32_t caps, uint64_t start_max, uint64_t step)
{
    static struct many y;
    static struct across w[ACROSS];
    static unsigned char old[64];
    unsigned rounds = (unsigned)support_scale(300, 6000);
    many_open(&y, 2, caps, support_seed());
    many_mount(&y);
    for (uint32_t n = 0; n < ACROSS; n++)
        w[n].source = many_file(&y, 0, (const char *[]){"a", "b", "c", "d"}[n]);
    for (unsigned r = 0; r < rounds; r++) {
        uint64_t ino = many_file(&y, 0, "f");
        uint64_t starts[] = {0, 64, 8192, 20000, start_max};
        uint64_t start = starts[snic_rng_below(&y.rng, SNIC_COUNTOF(starts))], far = start;
        if (start > 0 && start <= 8192)
            assert_int_equal(data(&y, 0, SNIC_FSOP_WRITE, ino, 0, old, sizeof(old), 0), 64);
        assert_int_equal(data(&y, 0, SNIC_FSOP_SETATTR, ino, 0, NULL, start, 0), 0);
        for (uint32_t n = 0; n < ACROSS; n++)
            across_words(&y, &w[n], n);
        for (uint32_t n = 0; n < ACROSS; n++) {
            far += step;
            across_start(&y, &w[n], n, ino, step != 0 && snic_rng_below(&y.rng, 3) == 0 ? far : 0);
        }
        many_finish(&y, ACROSS);
        across_check(&y, w, ino, start);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNLINK, SNIC_FSOP_ROOT, "f"), 0);
        many_pass(&y, 2000000000); /* deferred times take room in the table of inodes */
    }
    many_close(&y);
}

static void test_kvfs_shared_appends_lose_nothing(void **state)
{
    (void)state;
    across(MANY_CAPS, 1 << 20, 1 << 19); /* within the first stripe */
    across(MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI | SNIC_KV_CAP_ATOMIC_OBJECT, 6 << 20, 1 << 20);
}

/* Behind the first stripe, and across its end, where bytes are no part of a commit (RADOS). */
static void test_kvfs_shared_appends_behind_stripe_lose_nothing(void **state)
{
    (void)state;
    across(MANY_CAPS, 5 << 20, 0);
    across(MANY_CAPS, (4 << 20) - 40000, 0);
}

/* Session 0 begins to write, or to append, 200,000 twos to a file of 20,000 ones. */
static uint64_t twos_start(struct many *y, struct snic_fsop *w, struct snic_iov *iov,
                           uint64_t offset, uint32_t flags)
{
    static unsigned char ones[20000], twos[200000];
    uint64_t ino = many_file(y, 0, "f");
    memset(ones, 1, sizeof(ones));
    memset(twos, 2, sizeof(twos));
    assert_int_equal(data(y, 0, SNIC_FSOP_WRITE, ino, 0, ones, sizeof(ones), 0), sizeof(ones));
    *iov = (struct snic_iov){.base = twos, .size = sizeof(twos)};
    kvt_req(&y->t[0], w, SNIC_FSOP_WRITE, ino, NULL);
    w->offset = offset;
    w->flags |= flags;
    w->iov = iov;
    w->iov_count = 1;
    many_start(y, 0, w);
    return ino;
}

static void counted(struct many *y, uint64_t ino, uint64_t *count, uint64_t *size)
{
    static unsigned char out[400000];
    int64_t got = data(y, 1, SNIC_FSOP_READ, ino, 0, out, sizeof(out), 0);
    assert_true(got >= 0);
    memset(count, 0, 4 * sizeof(*count));
    for (int64_t i = 0; i < got; i++)
        count[out[i] & 3]++;
    *size = (uint64_t)got;
}

/* A failure leaves the old bytes. A large append returns how much of it has gone through. */
static void test_kvfs_shared_large_write_failed_takes_nothing(void **state)
{
    static const uint64_t offsets[] = {0, 10000, 60000};
    static struct many y;
    struct snic_iov iov;
    struct snic_fsop w;
    uint64_t count[4], size;
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(offsets); i++) {
        many_open(&y, 2, MANY_CAPS, support_seed());
        many_mount(&y);
        uint64_t ino = twos_start(&y, &w, &iov, offsets[i], 0);
        struct snic_kvfs_io *write = many_hold(&y, 0, SNIC_KVOP_OBJECT_WRITE, ino);
        write->op.result = SNIC_ENOSPC;
        snic_kvfs_complete(y.t[0].k, write, y.now);
        many_finish(&y, 1);
        assert_int_equal(w.result, SNIC_ENOSPC);
        counted(&y, ino, count, &size);
        assert_int_equal(count[1], 20000);
        assert_int_equal(count[0], size - 20000); /* moved, for others read zeros there already */
        many_close(&y);
    }
    many_open(&y, 2, MANY_CAPS, support_seed());
    many_mount(&y);
    uint64_t ino = twos_start(&y, &w, &iov, 0, SNIC_FSOP_APPEND);
    many_give_back(&y, 0, many_hold(&y, 0, SNIC_KVOP_COMMIT, ino));
    struct snic_kvfs_io *second = many_hold(&y, 0, SNIC_KVOP_COMMIT, ino);
    second->op.result = SNIC_ENOSPC;
    snic_kvfs_complete(y.t[0].k, second, y.now);
    many_finish(&y, 1);
    assert_int_equal(w.result, 65536 - 20000);
    counted(&y, ino, count, &size);
    assert_int_equal(size, 65536);
    assert_int_equal(count[2], 65536 - 20000);
    many_close(&y);
}

/* A truncation in the middle of a large append, and appends behind it: those stay. */
static void test_kvfs_shared_truncation_beside_large_append(void **state)
{
    static unsigned char threes[60000];
    static struct many y;
    struct snic_iov iov;
    struct snic_fsop w;
    uint64_t count[4], size;
    (void)state;
    memset(threes, 3, sizeof(threes));
    for (unsigned r = 0; r < support_scale(200, 3000); r++) {
        uint64_t times_ns = r % 2 == 0 ? SNIC_KVFS_TIMES_AT_ONCE : 1000000000;
        many_open_with(&y, 2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_OBJECT, support_seed() + r, times_ns);
        many_mount(&y);
        uint64_t ino = twos_start(&y, &w, &iov, 0, SNIC_FSOP_APPEND);
        for (uint64_t k = snic_rng_below(&y.rng, 60); k > 0; k--)
            many_step(&y);
        struct snic_fsop cut, more;
        struct snic_iov iov3 = {.base = threes, .size = sizeof(threes)};
        kvt_req(&y.t[1], &cut, SNIC_FSOP_SETATTR, ino, NULL);
        cut.set_mask = SNIC_FSOP_SET_SIZE;
        kvt_req(&y.t[1], &more, SNIC_FSOP_WRITE, ino, NULL);
        more.flags |= SNIC_FSOP_APPEND;
        more.iov = &iov3;
        more.iov_count = 1;
        many_start(&y, 1, &cut);
        many_start(&y, 1, &more);
        many_finish(&y, 3);
        assert_int_equal(cut.result, 0);
        assert_int_equal(more.result, sizeof(threes));
        assert_int_equal(w.result, 200000);
        counted(&y, ino, count, &size);
        assert_int_equal(count[3], sizeof(threes));
        assert_int_equal(count[0], 0);
        many_close(&y);
    }
}

/* A large append that began while the session was alone starts over when another session mounts. */
static void test_kvfs_shared_append_starts_over_among_others(void **state)
{
    static unsigned char threes[60000];
    static struct many y;
    struct snic_iov iov;
    struct snic_fsop w, mount;
    uint64_t count[4], size;
    (void)state;
    memset(threes, 3, sizeof(threes));
    many_open(&y, 2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI | SNIC_KV_CAP_ATOMIC_OBJECT,
              support_seed());
    y.paused = 2;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    uint64_t ino = twos_start(&y, &w, &iov, 0, SNIC_FSOP_APPEND);
    many_give_back(&y, 0, many_hold(&y, 0, SNIC_KVOP_OBJECT_WRITE, ino));
    struct snic_kvfs_io *commit = many_hold(&y, 0, SNIC_KVOP_COMMIT, ino);
    y.paused = 0;
    kvt_req(&y.t[1], &mount, SNIC_FSOP_MOUNT, 0, NULL);
    many_start(&y, 1, &mount);
    many_pass(&y, 2000000000);
    assert_null(snic_kvfs_poll_done(y.t[1].k));
    commit->op.result = SNIC_EUNKNOWN; /* and it has not happened */
    snic_kvfs_complete(y.t[0].k, commit, y.now);
    struct snic_kvfs_io *anew = many_hold(&y, 0, MANY_CHANGE, ino);
    many_finish(&y, 1);
    assert_int_equal(mount.result, 0);
    assert_int_equal(data(&y, 1, SNIC_FSOP_WRITE, ino, 0, threes, sizeof(threes), SNIC_FSOP_APPEND),
                     sizeof(threes));
    many_give_back(&y, 0, anew);
    many_finish(&y, 1);
    assert_int_equal(w.result, 200000);
    counted(&y, ino, count, &size);
    assert_int_equal(count[1], 20000);
    assert_int_equal(count[2], 200000);
    assert_int_equal(count[3], sizeof(threes));
    many_close(&y);
}

/*
 * The only deferred times are those of a file that an fsync has locked when the session writes
 * them out for a newcomer: the fsync writes them. The file has a lock, too, which is to be stored.
 */
static void test_kvfs_shared_fsync_writes_what_newcomer_waits_for(void **state)
{
    static struct many y;
    static unsigned char bytes[20000];
    struct snic_iov iov = {.base = bytes, .size = sizeof(bytes)};
    struct snic_fsop read, mount, sync;
    (void)state;
    many_open_with(&y, 2, MANY_CAPS, support_seed(), 1000000000000);
    y.paused = 2;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    uint64_t ino = many_file(&y, 0, "f"), other = many_file(&y, 0, "g");
    assert_int_equal(data(&y, 0, SNIC_FSOP_WRITE, other, 0, bytes, sizeof(bytes), 0), 20000);
    assert_int_equal(data(&y, 0, SNIC_FSOP_WRITE, ino, 0, bytes, sizeof(bytes), 0), 20000);
    /* No time of the next read of it is deferred. */
    assert_int_equal(data(&y, 0, SNIC_FSOP_READ, other, 0, bytes, sizeof(bytes), 0), 20000);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_FSYNC, other, NULL), 0);
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, ino, 1, SNIC_FSOP_WRLCK, 0, 9), 0);
    assert_int_equal(data(&y, 0, SNIC_FSOP_WRITE, ino, 0, bytes, 100, 0), 100);
    y.paused = 0;
    kvt_req(&y.t[0], &read, SNIC_FSOP_READ, other, NULL);
    read.iov = &iov;
    read.iov_count = 1;
    many_start(&y, 0, &read); /* begun before: waited for */
    struct snic_kvfs_io *reads = many_hold(&y, 0, SNIC_KVOP_OBJECT_READ, other);
    kvt_req(&y.t[1], &mount, SNIC_FSOP_MOUNT, 0, NULL);
    many_start(&y, 1, &mount);
    many_pass(&y, 2000000000);
    kvt_req(&y.t[0], &sync, SNIC_FSOP_FSYNC, ino, NULL);
    many_start(&y, 0, &sync);
    struct snic_kvfs_io *commits = many_hold(&y, 0, SNIC_KVOP_COMMIT, ino);
    many_give_back(&y, 0, reads);
    many_finish(&y, 1);
    many_pass(&y, 10000000);
    assert_null(snic_kvfs_poll_done(y.t[1].k));
    many_give_back(&y, 0, commits);
    many_finish(&y, 2);
    assert_int_equal(sync.result, 0);
    assert_int_equal(mount.result, 0);
    assert_int_equal(many_lock(&y, 1, SNIC_FSOP_SETLK, ino, 1, SNIC_FSOP_WRLCK, 0, 9), SNIC_EAGAIN);
    many_close(&y);
}

/* The session dies while the end of a handle waits for the inode: the handle ends all the same. */
static void test_kvfs_shared_release_outlives_session(void **state)
{
    static struct many y;
    static unsigned char bytes[20000];
    struct snic_fsop open, mode, release;
    struct snic_kvfs_stats s;
    (void)state;
    many_open(&y, 2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, support_seed());
    many_mount(&y);
    kvt_req(&y.t[0], &open, SNIC_FSOP_CREATE, SNIC_FSOP_ROOT, "f");
    open.flags |= SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE;
    open.mode = 0644;
    assert_int_equal(many_call(&y, 0, &open), 0);
    uint64_t ino = open.attr.ino;
    assert_int_equal(data(&y, 0, SNIC_FSOP_WRITE, ino, 0, bytes, sizeof(bytes), 0), 20000);
    assert_int_equal(data(&y, 0, SNIC_FSOP_WRITE, ino, 0, bytes, 100, 0), 100);
    kvt_req(&y.t[0], &mode, SNIC_FSOP_SETATTR, ino, NULL);
    mode.set_mask = SNIC_FSOP_SET_MODE;
    mode.attr.mode = 0600;
    many_start(&y, 0, &mode);
    struct snic_kvfs_io *commits = many_hold(&y, 0, SNIC_KVOP_COMMIT, ino);
    kvt_req(&y.t[0], &release, SNIC_FSOP_RELEASE, ino, NULL);
    release.handle = open.handle;
    many_start(&y, 0, &release);
    while (kvt_step(&y.t[0]))
        continue;
    assert_null(snic_kvfs_poll_done(y.t[0].k));
    y.now = y.t[0].now;
    y.paused = 1;
    many_pass(&y, 30000000000);
    y.paused = 0;
    many_finish(&y, 1); /* not the change of the mode: the store has it */
    many_give_back(&y, 0, commits);
    many_finish(&y, 1);
    assert_int_equal(mode.result, SNIC_EIO);
    assert_int_equal(release.result, 0);
    snic_kvfs_get_stats(y.t[0].k, &s);
    assert_int_equal(s.inodes, 0);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNMOUNT, 0, NULL), SNIC_EIO);
    many_close(&y);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_shared_bytes_seen_by_all),
        cmocka_unit_test(test_kvfs_shared_reader_sees_no_zeros),
        cmocka_unit_test(test_kvfs_shared_growth_spares_appends),
        cmocka_unit_test(test_kvfs_shared_appends_lose_nothing),
        cmocka_unit_test(test_kvfs_shared_appends_behind_stripe_lose_nothing),
        cmocka_unit_test(test_kvfs_shared_large_write_failed_takes_nothing),
        cmocka_unit_test(test_kvfs_shared_truncation_beside_large_append),
        cmocka_unit_test(test_kvfs_shared_append_starts_over_among_others),
        cmocka_unit_test(test_kvfs_shared_fsync_writes_what_newcomer_waits_for),
        cmocka_unit_test(test_kvfs_shared_release_outlives_session),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
