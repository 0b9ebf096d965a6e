/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Times, names and space that are deferred: after a pause that outlasted the lease, after a commit
 * of unknown outcome, on a full store.
 */
#include "test_kvfs_many.h"

#include <string.h>

enum { KEPT_SECOND = 1000000000, KEPT_PART = 65536, KEPT_BIG = 1 << 20 };

/* ---- A session that slept through its lease ---- */

static struct snic_fsop kept_call(struct many *y, uint32_t i, enum snic_fsop_kind kind,
                                  uint64_t ino, const char *name, uint64_t ino2, const char *name2)
{
    struct snic_fsop req;
    kvt_req(&y->t[i], &req, kind, ino, name);
    req.ino2 = ino2;
    req.name2 = name2;
    req.name2_size = name2 == NULL ? 0 : (uint32_t)strlen(name2);
    req.mode = kind == SNIC_FSOP_MKDIR ? 0755 : 0100644;
    assert_int_equal(many_call(y, i, &req), 0);
    return req;
}

static int64_t kept_data(struct many *y, uint32_t i, enum snic_fsop_kind kind, uint64_t ino,
                         uint64_t offset, uint64_t size)
{
    static char bytes[KEPT_PART] = "x";
    struct snic_iov iov = {.base = bytes, .size = sizeof(bytes)};
    struct snic_fsop req;
    kvt_req(&y->t[i], &req, kind, ino, NULL);
    req.offset = offset;
    req.length = sizeof(bytes);
    req.iov = &iov;
    req.iov_count = kind == SNIC_FSOP_WRITE;
    req.set_mask = SNIC_FSOP_SET_SIZE;
    req.attr.size = size;
    return many_call(y, i, &req);
}

/* What the other session, or another one, has made of the inode. */
static struct snic_fsop_attr kept_attr(struct many *y, uint32_t i, uint64_t ino)
{
    return kept_call(y, i, SNIC_FSOP_GETATTR, ino, NULL, 0, NULL).attr;
}

struct kept_moved {
    struct many y;
    uint64_t p, q, d;
    uint64_t handle; /* of d, in the first session */
};

/*
 * The first session renames d within p, so that its name is deferred, and sleeps; the second one
 * declares it dead and moves d to q.
 */
static void kept_move(struct kept_moved *m, uint64_t times_ns, uint64_t seed)
{
    struct many *y = &m->y;
    many_open_with(y, 2, MANY_CAPS, seed, times_ns);
    y->t[0].random = 0;
    assert_int_equal(many_simple(y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    m->p = kept_call(y, 0, SNIC_FSOP_MKDIR, 1, "p", 0, NULL).attr.ino;
    m->q = kept_call(y, 0, SNIC_FSOP_MKDIR, 1, "q", 0, NULL).attr.ino;
    m->d = kept_call(y, 0, SNIC_FSOP_MKDIR, m->p, "d", 0, NULL).attr.ino;
    m->handle = kept_call(y, 0, SNIC_FSOP_OPENDIR, m->d, NULL, 0, NULL).handle;
    (void)kept_call(y, 0, SNIC_FSOP_RENAME, m->p, "d", m->p, "e");
    y->paused = 1;
    assert_int_equal(many_simple(y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
    (void)kept_call(y, 1, SNIC_FSOP_RENAME, m->p, "e", m->q, "e");
    assert_int_equal(kept_attr(y, 1, m->d).parent, m->q);
    y->paused = 0;
}

static void kept_end(struct kept_moved *m)
{
    assert_int_equal(kept_attr(&m->y, 1, m->d).parent, m->q);
    many_pass(&m->y, 3 * (uint64_t)KEPT_SECOND);
    assert_int_equal(kept_attr(&m->y, 1, m->d).parent, m->q);
    /* The walk of a move follows the same parents: a loop cannot be made. */
    struct snic_fsop req;
    kvt_req(&m->y.t[1], &req, SNIC_FSOP_RENAME, 1, "q");
    req.ino2 = m->d;
    req.name2 = "loop";
    req.name2_size = 4;
    assert_int_equal(many_call(&m->y, 1, &req), SNIC_EINVAL);
    many_pass(&m->y, 3 * (uint64_t)KEPT_SECOND);
    (void)many_simple(&m->y, 0, SNIC_FSOP_UNMOUNT, 0, NULL);
    assert_int_equal(many_simple(&m->y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    struct snic_fsop release;
    kvt_req(&m->y.t[0], &release, SNIC_FSOP_RELEASEDIR, m->d, NULL);
    release.handle = m->handle;
    (void)many_call(&m->y, 0, &release);
    assert_int_equal(kept_attr(&m->y, 0, m->d).parent, m->q);
    many_close(&m->y);
}

/* The times are due when the session wakes: a session that may be dead writes nothing of them. */
static void test_kvfs_deferred_dead_session_writes_nothing(void **state)
{
    struct kept_moved m;
    (void)state;
    kept_move(&m, KEPT_SECOND, 1);
    struct snic_kvfs_stats before, after;
    snic_kvfs_get_stats(m.y.t[0].k, &before);
    many_pass(&m.y, 3 * (uint64_t)KEPT_SECOND);
    snic_kvfs_get_stats(m.y.t[0].k, &after);
    assert_int_equal(after.store_commits, before.store_commits);
    kept_end(&m);
}

/*
 * The session's first heartbeat after its sleep fails, so that it does not know yet; the end of a
 * handle proceeds all the same. The name it deferred is that of a record which is no more.
 */
static void test_kvfs_deferred_name_of_older_record_ignored(void **state)
{
    static const struct snic_kv_fault fault = {.kind = SNIC_KV_FAULT_ERROR,
                                               .kinds = 1u << SNIC_KVOP_SCAN,
                                               .after = 1,
                                               .error = SNIC_ETIMEDOUT};
    struct kept_moved m;
    struct snic_fsop req;
    (void)state;
    kept_move(&m, 1000 * (uint64_t)KEPT_SECOND, 2);
    m.y.paused = 2;
    assert_int_equal(snic_kvmem_fault(m.y.m, &fault), 0);
    kvt_req(&m.y.t[0], &req, SNIC_FSOP_RELEASEDIR, m.d, NULL);
    req.handle = m.handle;
    assert_int_equal(many_call(&m.y, 0, &req), 0);
    m.y.paused = 0;
    kept_end(&m);
}

/* Space that a session deferred and died with is not added to what others have made of the file
 * since: not by it, and not by the next session of the same engine. */
static void test_kvfs_deferred_space_ends_with_session(void **state)
{
    (void)state;
    for (uint32_t multi = 0; multi < 2; multi++) {
        struct many y;
        many_open(&y, 2, MANY_CAPS | (multi ? SNIC_KV_CAP_ATOMIC_MULTI : 0), 3 + multi);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
        uint64_t ino = kept_call(&y, 0, SNIC_FSOP_MKNOD, 1, "f", 0, NULL).attr.ino;
        assert_int_equal(kept_data(&y, 0, SNIC_FSOP_SETATTR, ino, 0, KEPT_BIG), 0);
        many_pass(&y, 3 * (uint64_t)KEPT_SECOND);
        assert_int_equal(kept_data(&y, 0, SNIC_FSOP_WRITE, ino, KEPT_PART, 0), KEPT_PART);
        assert_int_equal(kept_attr(&y, 0, ino).space, KEPT_PART);
        y.paused = 1;
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
        assert_int_equal(kept_data(&y, 1, SNIC_FSOP_SETATTR, ino, 0, 0), 0);
        assert_int_equal(kept_attr(&y, 1, ino).space, 0);
        y.paused = 0;
        many_pass(&y, 3 * (uint64_t)KEPT_SECOND);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_GETATTR, ino, NULL), SNIC_EIO);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
        assert_int_equal(kept_attr(&y, 0, ino).space, 0);
        many_pass(&y, 3 * (uint64_t)KEPT_SECOND);
        assert_int_equal(kept_attr(&y, 1, ino).space, 0);
        many_close(&y);
    }
}

/* While sessions share a file, the space of one is added to what the others have written. */
static void test_kvfs_deferred_space_of_several_adds_up(void **state)
{
    struct many y;
    (void)state;
    many_open(&y, 2, MANY_CAPS, 5);
    many_mount(&y);
    uint64_t ino = kept_call(&y, 0, SNIC_FSOP_MKNOD, 1, "f", 0, NULL).attr.ino;
    assert_int_equal(kept_data(&y, 0, SNIC_FSOP_SETATTR, ino, 0, KEPT_BIG), 0);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(kept_data(&y, i % 2, SNIC_FSOP_WRITE, ino, i * KEPT_PART, 0), KEPT_PART);
    many_pass(&y, 3 * (uint64_t)KEPT_SECOND);
    assert_int_equal(kept_attr(&y, 0, ino).space, 8 * KEPT_PART);
    assert_int_equal(kept_attr(&y, 1, ino).space, 8 * KEPT_PART);
    many_close(&y);
}

/* ---- A commit of unknown outcome ---- */

struct kept_unknown {
    uint64_t ino;
    int happens; /* the commit whose outcome is not reported */
    int state;   /* 1: the next one of ino; 2: the query of its outcome fails */
};

static int kept_is_attr(const struct snic_kvop_key *key, uint64_t ino)
{
    return key->group == ino && key->bytes[0] == SNIC_KVFS_REC_ATTR;
}

static void kept_apply(struct kvt *t, struct snic_kvop *op)
{
    struct kept_unknown *u = t->ctx;
    if (u->state == 1 && op->kind == SNIC_KVOP_COMMIT &&
        kept_is_attr(&op->changes[0].key, u->ino)) {
        if (u->happens) {
            snic_kvmem_apply(t->m, op);
            assert_int_equal(op->result, 0);
        }
        op->result = SNIC_EUNKNOWN;
        u->state = 2;
    } else if (u->state == 2 && op->kind == SNIC_KVOP_GET &&
               kept_is_attr(&op->gets[0].key, u->ino)) {
        op->result = SNIC_ETIMEDOUT;
        u->state = 0;
    } else {
        snic_kvmem_apply(t->m, op);
    }
}

static void kept_pass(struct kvt *t, uint64_t ns)
{
    for (uint64_t step = 0; step < 10; step++) {
        kvt_advance(t, ns / 10);
        kvt_settle(t);
    }
}

static void kept_space_unknown(uint32_t caps, int happens, int more, int twice)
{
    static char bytes[KEPT_PART] = "x";
    struct snic_kvfs_opts o;
    struct kept_unknown u = {.happens = happens};
    struct kvt t;
    kvt_opts(&o);
    o.caps = caps;
    kvt_open(&t, &o);
    u.ino = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    assert_int_equal(kvt_truncate(&t, u.ino, KEPT_BIG), 0);
    kept_pass(&t, 3 * (uint64_t)KEPT_SECOND);
    assert_int_equal(kvt_write(&t, u.ino, KEPT_PART, bytes, KEPT_PART), KEPT_PART);
    uint64_t space = KEPT_PART;
    assert_int_equal(kvt_attr(&t, u.ino).space, space);
    t.apply = kept_apply;
    t.ctx = &u;
    t.o.ctx = &t;
    u.state = 1;
    while (u.state != 0)
        kept_pass(&t, KEPT_SECOND / 10);
    assert_int_equal(kvt_stored(&t, u.ino).space, happens ? space : 0);
    for (; more > 0; more--, space += KEPT_PART)
        assert_int_equal(kvt_write(&t, u.ino, KEPT_PART * (uint64_t)(more + 1), bytes, KEPT_PART),
                         KEPT_PART);
    assert_int_equal(kvt_attr(&t, u.ino).space, space);
    u.state = twice != 0;
    u.happens = twice == 2 ? !happens : happens;
    kept_pass(&t, 5 * (uint64_t)KEPT_SECOND);
    assert_int_equal(kvt_attr(&t, u.ino).space, space);
    assert_int_equal(kvt_stored(&t, u.ino).space, space);
    kvt_close(&t);
}

/* Space whose flush may have happened is counted once, and so are later changes. */
static void test_kvfs_deferred_space_unknown_counted_once(void **state)
{
    struct snic_kvfs_opts o;
    (void)state;
    kvt_opts(&o);
    for (int happens = 0; happens < 2; happens++) {
        for (int more = 0; more < 3; more++) {
            for (int twice = 0; twice < 3; twice++) {
                kept_space_unknown(o.caps, happens, more, twice);
                kept_space_unknown(MANY_CAPS, happens, more, twice);
            }
        }
    }
}

struct kept_nth {
    uint32_t commits; /* until the one whose outcome is not reported */
    int happens;
    int querying; /* fails */
};

static void kept_apply_nth(struct kvt *t, struct snic_kvop *op)
{
    struct kept_nth *n = t->ctx;
    if (op->kind == SNIC_KVOP_COMMIT && n->commits > 0 && --n->commits == 0) {
        if (n->happens)
            snic_kvmem_apply(t->m, op);
        op->result = SNIC_EUNKNOWN;
        n->querying = 1;
    } else if (n->querying && op->kind == SNIC_KVOP_GET) {
        op->result = SNIC_ETIMEDOUT;
    } else {
        snic_kvmem_apply(t->m, op);
    }
}

/*
 * A move takes the space along, in several commits where the store has none over several groups;
 * the outcome of one of them is not known. 0: it does not have so many.
 */
static int kept_move_unknown(uint32_t caps, uint32_t commits, int happens)
{
    static char bytes[KEPT_PART] = "x";
    struct kept_nth n = {.commits = commits, .happens = happens};
    struct snic_kvfs_opts o;
    struct kvt t;
    kvt_opts(&o);
    o.caps = caps;
    o.times_ns = 5 * (uint64_t)KEPT_SECOND;
    kvt_open(&t, &o);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0755);
    uint64_t ino = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    assert_int_equal(kvt_truncate(&t, ino, KEPT_BIG), 0);
    kept_pass(&t, 15 * (uint64_t)KEPT_SECOND);
    assert_int_equal(kvt_write(&t, ino, 0, bytes, KEPT_PART), KEPT_PART);
    t.apply = kept_apply_nth;
    t.ctx = &n;
    (void)kvt_rename(&t, SNIC_FSOP_ROOT, "f", dir, "f", 0);
    int met = n.querying;
    t.apply = NULL;
    kept_pass(&t, 15 * (uint64_t)KEPT_SECOND);
    assert_int_equal(kvt_attr(&t, ino).space, KEPT_PART);
    assert_int_equal(kvt_stored(&t, ino).space, KEPT_PART);
    kvt_close(&t);
    return met;
}

static void test_kvfs_deferred_space_unknown_move_counted_once(void **state)
{
    struct snic_kvfs_opts o;
    (void)state;
    kvt_opts(&o);
    for (int happens = 0; happens < 2; happens++) {
        for (uint32_t i = 1; kept_move_unknown(o.caps, i, happens); i++)
            continue;
        for (uint32_t i = 1; kept_move_unknown(MANY_CAPS, i, happens); i++)
            continue;
    }
}

/* ---- A full store ---- */

/* As a full store does it: what may not use the reserve is refused. */
static void kept_full(struct kvt *t, struct snic_kvop *op)
{
    if (op->kind == SNIC_KVOP_COMMIT && (op->flags & SNIC_KVOP_RESERVE) == 0) {
        op->result = SNIC_ENOSPC;
        op->failed_guard = UINT32_MAX;
    } else {
        snic_kvmem_apply(t->m, op);
    }
}

/* A file with a deferred time on a store that is full from now on. */
static uint64_t kept_fill(struct many *y, uint32_t caps)
{
    many_open(y, 2, caps, 6);
    assert_int_equal(many_simple(y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    uint64_t ino = kept_call(y, 0, SNIC_FSOP_MKNOD, 1, "f", 0, NULL).attr.ino;
    assert_int_equal(kept_data(y, 0, SNIC_FSOP_SETATTR, ino, 0, KEPT_BIG), 0);
    many_pass(y, 3 * (uint64_t)KEPT_SECOND);
    assert_int_equal(kept_data(y, 0, SNIC_FSOP_WRITE, ino, 0, 0), KEPT_PART);
    for (uint32_t i = 0; i < 2; i++)
        y->t[i].apply = kept_full;
    return ino;
}

/* Deferred times go to a full store, too: by themselves, for a newcomer, and at the end. */
static void test_kvfs_deferred_full_store_closes(void **state)
{
    static const uint32_t caps[] = {MANY_CAPS, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI};
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(caps); i++) {
        struct many y;
        uint64_t ino = kept_fill(&y, caps[i]);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNMOUNT, 0, NULL), 0);
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
        assert_int_equal(kept_attr(&y, 1, ino).space, KEPT_PART);
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_UNLINK, 1, "f"), 0);
        many_close(&y);
        ino = kept_fill(&y, caps[i]);
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
        assert_int_equal(kept_attr(&y, 1, ino).space, KEPT_PART);
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_UNLINK, 1, "f"), 0);
        many_close(&y);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_deferred_dead_session_writes_nothing),
        cmocka_unit_test(test_kvfs_deferred_name_of_older_record_ignored),
        cmocka_unit_test(test_kvfs_deferred_space_ends_with_session),
        cmocka_unit_test(test_kvfs_deferred_space_of_several_adds_up),
        cmocka_unit_test(test_kvfs_deferred_space_unknown_counted_once),
        cmocka_unit_test(test_kvfs_deferred_space_unknown_move_counted_once),
        cmocka_unit_test(test_kvfs_deferred_full_store_closes),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
