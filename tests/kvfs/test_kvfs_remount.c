/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* An engine that mounts again, or ends: nothing of its session before is left. */
#include "test_kvfs_many.h"

#include <string.h>

enum { REMOUNT_SECOND = 1000000000 };

/* Is the number in a range of the record of one of the sessions that are in the store? */
static int remount_recorded(struct many *y, uint64_t ino)
{
    static unsigned char room[65536];
    struct snic_kvop op = {
        .kind = SNIC_KVOP_SCAN, .scan_max = 16, .out = room, .out_room = sizeof(room)};
    unsigned char prefix = SNIC_KVFS_REC_SESSION;
    int found = 0;
    snic_kvop_key_set(&op.key, SNIC_KVFS_GROUP_SUPER, &prefix, 1);
    snic_kvmem_apply(y->m, &op);
    assert_int_equal(op.result, 0);
    for (const struct snic_kvop_record *r = snic_kvop_first(&op); r != NULL;
         r = snic_kvop_next(&op, r)) {
        struct snic_kvfs_session s;
        if (r->key_size != 9 || snic_get_be64(snic_kvop_record_key(r) + 1) == 0)
            continue;
        assert_int_equal(snic_kvfs_session_decode(&s, snic_kvop_record_value(r), r->value_size), 0);
        for (uint32_t i = 0; i < s.range_count; i++)
            found |= ino - s.ranges[i].first < s.ranges[i].count;
    }
    return found;
}

static uint64_t remount_make(struct many *y, const char *name)
{
    struct snic_fsop req;
    kvt_req(&y->t[0], &req, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, name);
    req.mode = 0100644;
    assert_int_equal(many_call(y, 0, &req), 0);
    return req.attr.ino;
}

/* All that a session makes is in the ranges of its record, where a recovery looks for it. */
static void test_kvfs_remount_numbers_of_its_own(void **state)
{
    static const uint32_t caps[] = {MANY_CAPS, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI};
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(caps); i++) {
        struct many y;
        many_open(&y, 2, caps[i], 1 + i);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
        assert_true(remount_recorded(&y, remount_make(&y, "a")));
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNMOUNT, 0, NULL), 0);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
        assert_true(remount_recorded(&y, remount_make(&y, "b")));
        /* Declared dead by another. */
        y.paused = 1;
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
        y.paused = 0;
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_GETATTR, 1, NULL), SNIC_EIO);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
        assert_true(remount_recorded(&y, remount_make(&y, "c")));
        many_close(&y);
    }
}

/* Take the engine's next commit of new numbers away on its way back from the store. */
static struct snic_kvfs_io *remount_hold_range(struct many *y)
{
    struct kvt *t = &y->t[0];
    struct snic_kvop_key next;
    snic_kvfs_key(&next, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_NEXT_INO);
    for (;;) {
        struct snic_kvfs_io *io = snic_kvfs_poll_io(t->k);
        if (io == NULL)
            assert_true(kvt_step(t));
        else if (io->op.kind == SNIC_KVOP_COMMIT &&
                 snic_kvop_key_compare(&io->op.changes[0].key, &next) == 0)
            return io;
        else
            t->flight[t->in_flight++] = io;
    }
}

/* Numbers that one session asked for come when it is dead and the next one is there. */
static void test_kvfs_remount_late_numbers_unused(void **state)
{
    struct many y;
    struct snic_fsop req;
    (void)state;
    many_open(&y, 2, MANY_CAPS, 3);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    kvt_req(&y.t[0], &req, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "a");
    req.mode = 0100644;
    y.t[0].now = y.now;
    kvt_submit(&y.t[0], &req);
    struct snic_kvfs_io *held = remount_hold_range(&y);
    y.now = y.t[0].now;
    snic_kvmem_apply(y.m, &held->op);
    assert_int_equal(held->op.result, 0);
    y.paused = 1;
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
    y.paused = 0;
    many_finish(&y, 1);
    assert_int_equal(req.result, SNIC_EIO);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    snic_kvfs_complete(y.t[0].k, held, y.now);
    assert_true(remount_recorded(&y, remount_make(&y, "b")));
    many_close(&y);
}

/* The session's record goes, as if another had declared it dead; the next heartbeat sees that. */
static void remount_kill(struct kvt *t)
{
    struct snic_kvop_change c = {.kind = SNIC_KVOP_DELETE};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    snic_kvfs_key_number(&c.key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, t->o.session_id);
    snic_kvmem_apply(t->m, &op);
    assert_int_equal(op.result, 0);
}

/*
 * A file stays open from one session to the next; what the first knew of the bytes behind its end
 * is not believed in the second: another session may have left some there meanwhile.
 */
static void test_kvfs_remount_bytes_behind_end_unknown(void **state)
{
    enum { SIZE = 20000, AT = 30000, MORE = 40000 };
    static unsigned char bytes[MORE];
    struct snic_iov iov = {.base = bytes, .size = 10};
    struct snic_kvop left = {
        .kind = SNIC_KVOP_OBJECT_WRITE, .offset = AT, .length = 10, .iov = &iov, .iov_count = 1};
    struct snic_fsop_attr a;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    left.object = kvt_create(&t, SNIC_FSOP_ROOT, "f", 0644);
    memset(bytes, 1, sizeof(bytes));
    assert_int_equal(kvt_write(&t, left.object, 0, bytes, SIZE), SIZE);
    remount_kill(&t);
    kvt_advance(&t, 2 * (uint64_t)REMOUNT_SECOND);
    kvt_settle(&t);
    assert_int_equal(kvt_getattr(&t, left.object, &a), SNIC_EIO);
    snic_kvmem_apply(t.m, &left);
    assert_int_equal(left.result, 10);
    assert_int_equal(kvt_mount(&t), 0);
    assert_int_equal(kvt_truncate(&t, left.object, MORE), 0);
    assert_int_equal(kvt_read(&t, left.object, 0, bytes, MORE), MORE);
    for (uint32_t i = SIZE; i < MORE; i++)
        assert_int_equal(bytes[i], 0);
    assert_int_equal(kvt_release(&t, left.object, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
    kvt_close(&t);
}

/* ---- The end of an engine ---- */

struct remount_busy {
    uint64_t ino;
    uint32_t refused;
};

/* The inode's attributes have always been changed by another session. */
static void remount_refuse(struct kvt *t, struct snic_kvop *op)
{
    struct remount_busy *b = t->ctx;
    if (op->kind == SNIC_KVOP_COMMIT && op->changes[0].key.group == b->ino) {
        op->result = SNIC_ECANCELED;
        op->failed_guard = op->guard_count - 1;
        b->refused++;
        return;
    }
    snic_kvmem_apply(t->m, op);
}

/*
 * The session dies while its times wait for another try: after the unmount nothing of the engine's
 * own is left, for it may be ended (kvt_close).
 */
static void test_kvfs_remount_dead_unmount_waits_for_own(void **state)
{
    static char bytes[20000] = "x";
    struct remount_busy b = {0};
    struct snic_kvfs_opts o;
    struct kvt t;
    (void)state;
    kvt_opts(&o);
    o.caps = MANY_CAPS;
    o.times_ns = REMOUNT_SECOND / 4;
    kvt_open(&t, &o);
    snic_kvfs_set_sole(t.k, 0);
    b.ino = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    assert_int_equal(kvt_write(&t, b.ino, 0, bytes, sizeof(bytes)), sizeof(bytes));
    kvt_advance(&t, REMOUNT_SECOND);
    kvt_settle(&t);
    assert_int_equal(kvt_write(&t, b.ino, 0, bytes, sizeof(bytes)), sizeof(bytes));
    t.apply = remount_refuse;
    t.ctx = &b;
    while (b.refused < 20) {
        kvt_settle(&t);
        uint64_t next = snic_kvfs_deadline_ns(t.k);
        kvt_advance(&t, next > t.now.mono_ns ? next - t.now.mono_ns : 0);
    }
    remount_kill(&t);
    snic_kvfs_set_sole(t.k, 1); /* a heartbeat now, while the times sleep */
    kvt_settle(&t);
    struct snic_fsop_attr a;
    assert_int_equal(kvt_getattr(&t, b.ino, &a), SNIC_EIO);
    assert_int_equal(kvt_unmount(&t), SNIC_EIO);
    kvt_close(&t);
}

/* A read beside the last operation of UNMOUNT defers a time: the engine's own operation that writes
 * it has ended, too, when UNMOUNT has, so that the engine may be ended. */
static void test_kvfs_remount_read_during_unmount_leaves_nothing(void **state)
{
    struct snic_kvfs_io *io, *sync = NULL;
    struct snic_fsop unmount, read;
    struct kvt t;
    char bytes[10];
    struct snic_iov iov = {bytes, sizeof(bytes)};
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_create(&t, SNIC_FSOP_ROOT, "f", 0644);
    assert_int_equal(kvt_write(&t, f, 0, "0123456789", sizeof(bytes)), sizeof(bytes));
    kvt_req(&t, &unmount, SNIC_FSOP_UNMOUNT, 0, NULL);
    kvt_submit(&t, &unmount);
    while (sync == NULL) {
        io = snic_kvfs_poll_io(t.k);
        assert_non_null(io);
        if (io->op.kind == SNIC_KVOP_SYNC) {
            sync = io;
            break;
        }
        snic_kvmem_apply(t.m, &io->op);
        snic_kvfs_complete(t.k, io, t.now);
    }
    kvt_advance(&t, 2000000000);
    kvt_req(&t, &read, SNIC_FSOP_READ, f, NULL);
    read.iov = &iov;
    read.iov_count = 1;
    kvt_submit(&t, &read);
    assert_ptr_equal(kvt_wait(&t), &read);
    kvt_advance(&t, 2000000000);
    io = snic_kvfs_poll_io(t.k);
    assert_non_null(io); /* the time's commit */
    snic_kvmem_apply(t.m, &sync->op);
    snic_kvfs_complete(t.k, sync, t.now);
    assert_null(snic_kvfs_poll_done(t.k)); /* snic_kvfs_fini() would find it in flight */
    snic_kvmem_apply(t.m, &io->op);
    snic_kvfs_complete(t.k, io, t.now);
    assert_ptr_equal(kvt_wait(&t), &unmount);
    assert_int_equal(unmount.result, 0);
    t.quiet = 1;
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_remount_read_during_unmount_leaves_nothing),
        cmocka_unit_test(test_kvfs_remount_numbers_of_its_own),
        cmocka_unit_test(test_kvfs_remount_late_numbers_unused),
        cmocka_unit_test(test_kvfs_remount_bytes_behind_end_unknown),
        cmocka_unit_test(test_kvfs_remount_dead_unmount_waits_for_own),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
