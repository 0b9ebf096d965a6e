/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Operations that come to their end while the pool of memory is empty: they wait and start over,
 * and what they do at their end is done once.
 */
#include "kvfs/session_priv.h"
#include "test_kvfs_many.h"

#include <string.h>

enum { U = SNIC_FSOP_UNLCK, W = SNIC_FSOP_WRLCK, RW = SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE };

/* ---- All blocks of the pool are held ---- */

enum { HOGS = 64, HOG_ROOM = 65536 };

/* Each lists a directory, and has a block while its page is under way. */
struct hogs {
    uint64_t dir;
    uint32_t count;
    uint32_t stored;
    struct snic_kvfs_io *io[HOGS];
    struct snic_fsop req[HOGS];
    struct snic_iov iov[HOGS];
    unsigned char room[HOG_ROOM]; /* of all: not looked at */
};

static struct hogs hogs;

static void hogs_hold(struct kvt *t, uint64_t dir)
{
    struct snic_kvfs_io *io;
    memset(&hogs, 0, sizeof(hogs));
    hogs.dir = dir;
    while (t->k->blocks.free_count > 0) {
        uint32_t n = hogs.count++;
        assert_true(n < HOGS);
        kvt_req(t, &hogs.req[n], SNIC_FSOP_READDIR, dir, NULL);
        hogs.req[n].flags |= SNIC_FSOP_NOATIME;
        hogs.iov[n] = (struct snic_iov){.base = hogs.room, .size = HOG_ROOM};
        hogs.req[n].iov = &hogs.iov[n];
        hogs.req[n].iov_count = 1;
        kvt_submit(t, &hogs.req[n]);
        while ((io = snic_kvfs_poll_io(t->k)) != NULL) {
            if (io->op.kind == SNIC_KVOP_SCAN && io->op.key.group == dir) {
                hogs.io[hogs.stored++] = io;
                continue;
            }
            snic_kvmem_apply(t->m, &io->op);
            snic_kvfs_complete(t->k, io, t->now);
        }
    }
    assert_int_equal(hogs.stored, hogs.count);
}

/* They end, all of them, and no other does yet. */
static void hogs_end(struct kvt *t)
{
    struct snic_fsop *done;
    uint32_t ended = 0;
    for (uint32_t i = 0; i < hogs.stored; i++) {
        snic_kvmem_apply(t->m, &hogs.io[i]->op);
        snic_kvfs_complete(t->k, hogs.io[i], t->now);
        while ((done = snic_kvfs_poll_done(t->k)) != NULL) {
            assert_true(done >= hogs.req && done < hogs.req + HOGS);
            assert_true(done->result >= 0 || !t->k->session.mounted);
            ended++;
        }
    }
    assert_int_equal(ended, hogs.count);
}

/* ---- The engine's own operations ---- */

/* A removal counted twice at its end leaves a count of 65535: nothing is removed any more, and
 * UNMOUNT waits for ever. */
static void test_kvfs_pool_empty_collect_counted_once(void **state)
{
    struct snic_kvfs_stats s;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    uint64_t f = kvt_create(&t, SNIC_FSOP_ROOT, "f", 0644);
    struct snic_fsop req;
    struct snic_iov iov = {(void *)(uintptr_t) "v", 1};
    kvt_req(&t, &req, SNIC_FSOP_SETXATTR, f, "user.a"); /* more than one commit can remove */
    req.iov = &iov;
    req.iov_count = 1;
    assert_int_equal(kvt_call(&t, &req), 0);
    assert_int_equal(kvt_unlink(&t, SNIC_FSOP_ROOT, "f"), 0);
    hogs_hold(&t, dir);
    assert_int_equal(kvt_release(&t, f, RW), 0);
    kvt_settle(&t);
    assert_int_equal(t.k->session.collecting, 1);
    hogs_end(&t);
    kvt_settle(&t);
    assert_int_equal(t.k->session.collecting, 0);
    snic_kvfs_get_stats(t.k, &s);
    assert_int_equal(s.orphans, 1);
    kvt_close(&t);
}

/* A heartbeat that is out of memory has not failed: there are no two at once, and no caller hears
 * of an error. */
static void test_kvfs_pool_empty_heartbeat_waits(void **state)
{
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    kvt_advance(&t, 1500000000);
    kvt_settle(&t);
    uint64_t beats = t.k->session.beats;
    hogs_hold(&t, dir);
    for (int i = 0; i < 3; i++) {
        kvt_advance(&t, t.o.heartbeat_ns == 0 ? 1000000000 : t.o.heartbeat_ns);
        kvt_settle(&t);
        assert_int_equal(t.k->session.failures, 0);
        assert_int_equal(t.k->session.busy, 1);
        assert_int_equal(t.k->own_in_flight, 1);
    }
    hogs_end(&t);
    kvt_settle(&t);
    assert_int_equal(t.k->session.busy, 0);
    assert_int_equal(t.k->session.beats, beats + 1);
    kvt_close(&t);
}

/* Recover, yield and sweep: they are under way until they have ended, and no error is left behind
 * that a mount would end with. */
static void test_kvfs_pool_empty_recover_yield_sweep_wait(void **state)
{
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    struct kvfs_session *s = &t.k->session;
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    hogs_hold(&t, dir);
    assert_non_null(kvfs_spawn(t.k, KVFS_OWN_RECOVER, 12345));
    assert_non_null(kvfs_spawn(t.k, KVFS_OWN_YIELD, 0));
    assert_non_null(kvfs_spawn(t.k, KVFS_OWN_SWEEP, 0));
    s->recovering = 1;
    s->yielding = 1;
    s->sweeping = 1;
    s->swept = 0;
    kvt_advance(&t, 1);
    kvt_settle(&t);
    assert_int_equal(s->recovering, 1);
    assert_int_equal(s->error, 0);
    assert_int_equal(s->yielding, 1);
    assert_int_equal(s->sweeping, 1);
    assert_int_equal(s->swept, 0);
    hogs_end(&t);
    kvt_settle(&t);
    assert_int_equal(s->recovering, 0);
    assert_int_equal(s->error, 0);
    assert_int_equal(s->yielding, 0);
    assert_int_equal(s->sweeping, 0);
    assert_int_equal(s->swept, 1);
    kvt_close(&t);
}

/* The session is lost while lists of it are under way at the store. */
static void lose(struct kvt *t)
{
    t->k->session.next_ns = SNIC_NEVER;
    kvfs_session_mark_dead(t->k);
    t->mounted = 0;
}

/* A mount that waits for memory is the session that it has begun: without an identity it would be
 * none, and try for ever. */
static void test_kvfs_pool_empty_mount_arrives_as_itself(void **state)
{
    struct snic_fsop req;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    hogs_hold(&t, kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755));
    lose(&t);
    kvt_req(&t, &req, SNIC_FSOP_MOUNT, 0, NULL);
    kvt_submit(&t, &req);
    kvt_settle(&t);
    uint64_t id = t.k->session.id;
    assert_true(id != 0 && id != t.o.session_id);
    hogs_end(&t);
    assert_ptr_equal(kvt_wait(&t), &req);
    assert_int_equal(req.result, 0);
    assert_true(t.k->session.id == id);
    t.mounted = 1;
    kvt_close(&t);
}

/* One that fails takes its record back, however long it waits for memory. */
static void test_kvfs_pool_empty_failed_mount_withdraws(void **state)
{
    struct snic_fsop req;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    struct kvfs_blocks *b = &t.k->blocks;
    uint32_t held = b->free_count - 1;
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    b->free_count -= held;
    hogs_hold(&t, dir); /* one */
    lose(&t);
    b->free_count = held;
    kvt_req(&t, &req, SNIC_FSOP_MOUNT, 0, NULL);
    kvt_submit(&t, &req);
    while (t.k->session.fence_key.size == 0)
        assert_true(kvt_step(&t));
    kvt_settle(&t); /* it has arrived, and waits for a heartbeat */
    assert_int_equal(b->free_count, held);
    b->free_count = 0;
    t.k->session.next_ns = t.now.mono_ns + 1000000000;
    t.k->session.error = SNIC_EIO;
    kvfs_session_wake(t.k);
    kvt_advance(&t, 1);
    kvt_settle(&t);
    assert_true(t.k->session.id != 0);
    b->free_count = held;
    hogs_end(&t);
    assert_ptr_equal(kvt_wait(&t), &req);
    assert_int_equal(req.result, SNIC_EIO);
    assert_true(t.k->session.id == 0);
    kvt_close(&t);
}

/* ---- RELEASE with a lock ---- */

static struct many y;

static void lock_req(uint32_t i, struct snic_fsop *req, enum snic_fsop_kind kind, uint64_t ino,
                     uint64_t owner, uint32_t type)
{
    kvt_req(&y.t[i], req, kind, ino, NULL);
    req->lock =
        (struct snic_fsop_lock){.owner = owner, .end = UINT64_MAX, .type = type, .pid = 100};
}

static int64_t lock(uint32_t i, enum snic_fsop_kind kind, uint64_t ino, uint64_t owner,
                    uint32_t type)
{
    struct snic_fsop req;
    lock_req(i, &req, kind, ino, owner, type);
    return many_call(&y, i, &req);
}

static int64_t bytes(enum snic_fsop_kind kind, uint64_t handle, char *at, size_t size)
{
    struct snic_iov iov = {.base = at, .size = size};
    struct snic_fsop req;
    kvt_req(&y.t[0], &req, kind, kvfs_handle_ino(handle), NULL);
    req.handle = handle;
    req.iov = &iov;
    req.iov_count = 1;
    req.length = size;
    return many_call(&y, 0, &req);
}

/* Two engines; the first has made "f" and opened it twice. Its inode; *dir is another directory. */
static uint64_t release_open(uint64_t *dir, uint64_t *handle)
{
    struct snic_fsop req;
    many_open(&y, 2, 0, support_seed());
    many_mount(&y);
    kvt_req(&y.t[0], &req, SNIC_FSOP_MKDIR, SNIC_FSOP_ROOT, "dir");
    req.mode = 0755;
    assert_int_equal(many_call(&y, 0, &req), 0);
    *dir = req.attr.ino;
    kvt_req(&y.t[0], &req, SNIC_FSOP_CREATE, SNIC_FSOP_ROOT, "f");
    req.mode = 0644;
    req.flags |= RW;
    assert_int_equal(many_call(&y, 0, &req), 0);
    uint64_t ino = req.attr.ino;
    kvt_req(&y.t[0], &req, SNIC_FSOP_OPEN, ino, NULL);
    req.flags |= RW;
    assert_int_equal(many_call(&y, 0, &req), 0);
    *handle = req.handle;
    many_pass(&y, 3000000000); /* what was deferred is written */
    return ino;
}

/* The descriptor that stays is open, its file is not removed under it, and the lock has gone from
 * the record as it has from the table: others get it. */
static void test_kvfs_pool_empty_release_closes_once(void **state)
{
    static const enum snic_fsop_kind kinds[] = {SNIC_FSOP_SETLK, SNIC_FSOP_FLOCK};
    struct snic_fsop req;
    uint64_t dir, handle;
    char text[6] = "bytes", out[6];
    (void)state;
    uint64_t ino = release_open(&dir, &handle);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(lock(0, kinds[n], ino, 7, W), 0);
        y.t[0].now = y.now;
        hogs_hold(&y.t[0], dir);
        lock_req(0, &req, n == 0 ? SNIC_FSOP_FLUSH : SNIC_FSOP_RELEASE, ino, 7, U);
        req.handle = handle;
        kvt_submit(&y.t[0], &req);
        many_pass(&y, 10000000);
        assert_null(snic_kvfs_poll_done(y.t[0].k));
        assert_int_equal(kvfs_inode_opens(y.t[0].k, ino), 2);
        y.t[0].now = y.now;
        hogs_end(&y.t[0]);
        many_finish(&y, 1);
        assert_int_equal(req.result, 0);
        assert_int_equal(kvfs_inode_opens(y.t[0].k, ino), 2 - n);
        assert_int_equal(lock(1, kinds[n], ino, 8, W), 0);
        assert_int_equal(lock(1, kinds[n], ino, 8, U), 0);
    }
    assert_int_equal(bytes(SNIC_FSOP_WRITE, handle, text, sizeof(text)), sizeof(text));
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNLINK, SNIC_FSOP_ROOT, "f"), 0);
    many_pass(&y, 5000000000);
    assert_int_equal(bytes(SNIC_FSOP_READ, handle, out, sizeof(out)), sizeof(out));
    assert_memory_equal(out, text, sizeof(out));
    kvt_req(&y.t[0], &req, SNIC_FSOP_RELEASE, ino, NULL);
    req.handle = handle;
    assert_int_equal(many_call(&y, 0, &req), 0);
    many_pass(&y, 5000000000);
    many_close(&y);
}

/* Locks that go to their records when another session comes: one that finds no memory is not one
 * that the store has failed. */
static void test_kvfs_pool_empty_publish_waits(void **state)
{
    uint64_t dir;
    struct snic_fsop req;
    (void)state;
    many_open(&y, 2, 0, support_seed());
    y.paused = 2;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    kvt_req(&y.t[0], &req, SNIC_FSOP_MKDIR, SNIC_FSOP_ROOT, "dir");
    req.mode = 0755;
    assert_int_equal(many_call(&y, 0, &req), 0);
    dir = req.attr.ino;
    kvt_req(&y.t[0], &req, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "f");
    req.mode = 0100644;
    assert_int_equal(many_call(&y, 0, &req), 0);
    uint64_t ino = req.attr.ino;
    assert_int_equal(lock(0, SNIC_FSOP_FLOCK, ino, 7, W), 0);
    y.t[0].now = y.now;
    hogs_hold(&y.t[0], dir);
    assert_non_null(kvfs_spawn(y.t[0].k, KVFS_OWN_YIELD, 0));
    y.t[0].k->session.yielding = 1;
    many_pass(&y, 10000000);
    assert_int_equal(y.t[0].k->session.yielding, 1);
    y.t[0].now = y.now;
    hogs_end(&y.t[0]);
    y.paused = 0;
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
    assert_int_equal(lock(1, SNIC_FSOP_FLOCK, ino, 8, W), SNIC_EAGAIN);
    assert_int_equal(lock(0, SNIC_FSOP_FLOCK, ino, 7, U), 0);
    many_close(&y);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_pool_empty_collect_counted_once),
        cmocka_unit_test(test_kvfs_pool_empty_heartbeat_waits),
        cmocka_unit_test(test_kvfs_pool_empty_recover_yield_sweep_wait),
        cmocka_unit_test(test_kvfs_pool_empty_mount_arrives_as_itself),
        cmocka_unit_test(test_kvfs_pool_empty_failed_mount_withdraws),
        cmocka_unit_test(test_kvfs_pool_empty_release_closes_once),
        cmocka_unit_test(test_kvfs_pool_empty_publish_waits),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
