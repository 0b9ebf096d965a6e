/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A session's commit is on its way to the store while the session is declared dead by another. It
 * arrives at every moment between two operations of the other one: until the death it may change
 * the store, from then on it never does: its commits are guarded by a record that is gone, or its
 * client was shut out of the store (then its object bytes, too).
 */
#include "test_kvfs_many.h"

#include <string.h>

enum { FENCE_SECOND = 1000000000, FENCE_POINTS = 25 };

struct fence_kind {
    enum snic_fsop_kind kind;
    const char *name;
    const char *name2;
    int of_file; /* the request is about the file, not about the root */
    int big;     /* which is a big one: its bytes are no commit */
};

static const struct fence_kind fence_kinds[] = {
    {SNIC_FSOP_UNLINK, "f", NULL, 0, 0},   {SNIC_FSOP_MKNOD, "g", NULL, 0, 0},
    {SNIC_FSOP_CREATE, "g", NULL, 0, 0},   {SNIC_FSOP_MKDIR, "g", NULL, 0, 0},
    {SNIC_FSOP_RMDIR, "d", NULL, 0, 0},    {SNIC_FSOP_RENAME, "f", "g", 0, 0},
    {SNIC_FSOP_LINK, NULL, "g", 1, 0},     {SNIC_FSOP_WRITE, NULL, NULL, 1, 0},
    {SNIC_FSOP_SETATTR, NULL, NULL, 1, 0}, {SNIC_FSOP_SETXATTR, "user.a", NULL, 1, 0},
    {SNIC_FSOP_SETLK, NULL, NULL, 1, 0},   {SNIC_FSOP_WRITE, NULL, NULL, 1, 1},
};

static void fence_req(struct many *y, const struct fence_kind *f, uint64_t ino,
                      struct snic_fsop *req)
{
    static char bytes[] = "bytes";
    static struct snic_iov iov = {.base = bytes, .size = sizeof(bytes)};
    kvt_req(&y->t[0], req, f->kind, f->of_file ? ino : SNIC_FSOP_ROOT, f->name);
    req->name2 = f->name2;
    req->name2_size = f->name2 == NULL ? 0 : (uint32_t)strlen(f->name2);
    req->ino2 = SNIC_FSOP_ROOT;
    req->mode = f->kind == SNIC_FSOP_MKDIR ? 0755 : 0644;
    req->iov = &iov;
    req->iov_count = 1;
    req->length = f->kind == SNIC_FSOP_WRITE ? sizeof(bytes) : 0;
    req->set_mask = f->kind == SNIC_FSOP_SETATTR ? SNIC_FSOP_SET_MODE : 0;
    req->attr.mode = 0600;
    req->lock.owner = 7;
    req->lock.end = UINT64_MAX;
    req->lock.type = SNIC_FSOP_WRLCK;
}

/* Has the session been declared dead? */
static int fence_dead(struct many *y)
{
    unsigned char record[SNIC_KVFS_SESSION_BYTES];
    struct snic_kvop_get g = {.value = record, .room = sizeof(record)};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    struct snic_kvfs_session s;
    snic_kvfs_key_number(&g.key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION,
                         y->t[0].o.session_id);
    snic_kvmem_apply(y->m, &op);
    if (g.result == SNIC_ENOENT)
        return 1;
    assert_int_equal(g.result, 0);
    assert_int_equal(snic_kvfs_session_decode(&s, record, g.size), 0);
    return (s.flags & SNIC_KVFS_SESSION_DEAD) != 0;
}

/* It arrives now, in a copy of the store. 1: it changed something. */
static int fence_lands(struct many *y, const struct snic_kvfs_io *held)
{
    struct snic_kvop op = held->op;
    struct snic_kvmem *copy;
    if (snic_kvmem_fenced(y->m, y->t[0].o.identity, y->t[0].o.identity_size))
        return 0;
    assert_int_equal(snic_kvmem_clone(y->m, &copy), 0);
    uint64_t before = snic_kvmem_digest(copy);
    snic_kvmem_apply(copy, &op);
    int changed = snic_kvmem_digest(copy) != before;
    assert_true(changed ? op.result >= 0 : op.result == SNIC_ECANCELED);
    snic_kvmem_close(copy);
    return changed;
}

/* The next thing happens, or time passes. */
static void fence_next(struct many *y)
{
    if (many_step(y))
        return;
    uint64_t next = snic_kvfs_deadline_ns(y->t[1].k);
    assert_true(next != SNIC_NEVER);
    many_time(y, next > y->now.mono_ns ? next - y->now.mono_ns : 0);
}

static void fence_fill(struct many *y, uint64_t ino)
{
    static unsigned char bytes[20000];
    struct snic_iov iov = {.base = bytes, .size = sizeof(bytes)};
    struct snic_fsop req;
    kvt_req(&y->t[0], &req, SNIC_FSOP_WRITE, ino, NULL);
    req.iov = &iov;
    req.iov_count = 1;
    req.length = sizeof(bytes);
    memset(bytes, 1, sizeof(bytes));
    assert_int_equal(many_call(y, 0, &req), sizeof(bytes));
}

static void fence_run(const struct fence_kind *f, uint32_t caps, int alone, uint64_t seed)
{
    struct many y;
    struct snic_fsop req, mount;
    uint32_t landed = 0, dead = 0;
    many_open(&y, 2, caps, seed);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    kvt_req(&y.t[0], &req, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "f");
    req.mode = 0644;
    assert_int_equal(many_call(&y, 0, &req), 0);
    uint64_t ino = req.attr.ino;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKDIR, SNIC_FSOP_ROOT, "d"), 0);
    if (f->big)
        fence_fill(&y, ino);
    if (!alone)
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
    fence_req(&y, f, ino, &req);
    y.t[0].now = y.now;
    kvt_submit(&y.t[0], &req);
    struct snic_kvfs_io *held =
        many_hold(&y, 0, f->big ? SNIC_KVOP_OBJECT_WRITE : SNIC_KVOP_COMMIT, MANY_NOT_SUPER);
    y.paused = 1;
    if (alone) {
        kvt_req(&y.t[1], &mount, SNIC_FSOP_MOUNT, 0, NULL);
        y.t[1].now = y.now;
        kvt_submit(&y.t[1], &mount);
    }
    uint64_t end = y.now.mono_ns + 15 * (uint64_t)FENCE_SECOND;
    while (y.now.mono_ns < end || dead < FENCE_POINTS) {
        int is_dead = fence_dead(&y);
        int lands = fence_lands(&y, held);
        assert_false(is_dead && lands);
        dead += (uint32_t)is_dead;
        landed += (uint32_t)lands;
        fence_next(&y);
    }
    assert_true(landed > 0);
    if (alone) {
        assert_ptr_equal(snic_kvfs_poll_done(y.t[1].k), &mount);
        assert_int_equal(mount.result, 0);
    }
    y.paused = 0;
    many_give_back(&y, 0, held);
    many_finish(&y, 1);
    assert_int_equal(req.result, SNIC_EIO);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_LOOKUP, SNIC_FSOP_ROOT, "f"), SNIC_EIO);
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_LOOKUP, SNIC_FSOP_ROOT, "f"), 0);
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_LOOKUP, SNIC_FSOP_ROOT, "g"), SNIC_ENOENT);
    if ((caps & SNIC_KV_CAP_FENCE) != 0) { /* it needs another client */
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), SNIC_EIO);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNMOUNT, 0, NULL), SNIC_EIO);
    } else {
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "g"), 0);
    }
    many_close(&y);
}

enum {
    FENCE_GUARDED = MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI,
    FENCE_SHUT_OUT = MANY_CAPS | SNIC_KV_CAP_FENCE
};

/* What the session had decided while it was alone. */
static void test_kvfs_fence_dead_alone_commit_changes_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(fence_kinds); i++)
        if (fence_kinds[i].kind != SNIC_FSOP_SETLK && !fence_kinds[i].big) /* lock: in memory */
            fence_run(&fence_kinds[i], FENCE_GUARDED, 1, i + 1);
}

/* With others about. */
static void test_kvfs_fence_dead_shared_commit_changes_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(fence_kinds); i++)
        if (!fence_kinds[i].big)
            fence_run(&fence_kinds[i], FENCE_GUARDED, 0, i + 100);
}

/* Where only the client can be stopped. */
static void test_kvfs_fence_dead_client_changes_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(fence_kinds); i++) {
        fence_run(&fence_kinds[i], FENCE_SHUT_OUT, 0, i + 200);
        if (fence_kinds[i].kind != SNIC_FSOP_SETLK)
            fence_run(&fence_kinds[i], FENCE_SHUT_OUT, 1, i + 300);
    }
}

/* A client that cannot be fenced is not declared dead: what it has locked stays locked. */
static void test_kvfs_fence_refused_session_is_not_dead(void **state)
{
    const struct snic_kv_fault refuse = {.kind = SNIC_KV_FAULT_ERROR,
                                         .kinds = 1U << SNIC_KVOP_FENCE,
                                         .after = 1,
                                         .repeat = UINT64_MAX,
                                         .error = SNIC_EACCES};
    struct snic_kvfs_stats s;
    struct many y;
    (void)state;
    many_open(&y, 2, FENCE_SHUT_OUT, 7);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
    uint64_t ino = many_file(&y, 0, "f");
    assert_int_equal(many_lock(&y, 0, SNIC_FSOP_SETLK, ino, 1, SNIC_FSOP_WRLCK, 0, 9), 0);
    assert_int_equal(snic_kvmem_fault(y.m, &refuse), 0);
    y.paused = 1;
    many_pass(&y, 20 * (uint64_t)FENCE_SECOND);
    assert_false(fence_dead(&y));
    assert_int_equal(many_lock(&y, 1, SNIC_FSOP_SETLK, ino, 2, SNIC_FSOP_WRLCK, 0, 9), SNIC_EAGAIN);
    snic_kvfs_get_stats(y.t[1].k, &s);
    assert_true(s.fence_failures >= 5 && s.fenced == 0);
    assert_int_equal(s.fence_error, SNIC_EACCES);
    y.paused = 0; /* it has only been slow */
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_LOOKUP, SNIC_FSOP_ROOT, "f"), 0);
    y.paused = 1;
    snic_kvmem_faults_clear(y.m);
    many_pass(&y, 20 * (uint64_t)FENCE_SECOND);
    assert_true(fence_dead(&y));
    assert_int_equal(many_lock(&y, 1, SNIC_FSOP_SETLK, ino, 2, SNIC_FSOP_WRLCK, 0, 9), 0);
    snic_kvfs_get_stats(y.t[1].k, &s);
    assert_int_equal(s.fenced, 1);
    y.paused = 0;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNMOUNT, 0, NULL), SNIC_EIO);
    many_close(&y);
}

/* Nor is it while it caches as the only session: a newcomer cannot mount, and its error is why. */
static void test_kvfs_fence_refused_newcomer_does_not_mount(void **state)
{
    const struct snic_kv_fault refuse = {.kind = SNIC_KV_FAULT_ERROR,
                                         .kinds = 1U << SNIC_KVOP_FENCE,
                                         .after = 1,
                                         .repeat = UINT64_MAX,
                                         .error = SNIC_EACCES};
    struct many y;
    (void)state;
    many_open(&y, 2, FENCE_SHUT_OUT, 9);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    assert_int_equal(snic_kvmem_fault(y.m, &refuse), 0);
    y.paused = 1;
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), SNIC_EACCES);
    assert_false(fence_dead(&y));
    y.paused = 0;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "f"), 0);
    many_close(&y);
}

/* Fenced by an operator, or by one that found it silent: it notices with its next operation. */
static void test_kvfs_fence_client_notices(void **state)
{
    struct many y;
    struct snic_kvfs_stats s;
    (void)state;
    many_open(&y, 2, FENCE_SHUT_OUT, 8);
    many_mount(&y);
    struct snic_iov iov = {.base = y.t[0].o.identity, .size = y.t[0].o.identity_size};
    struct snic_kvop op = {
        .kind = SNIC_KVOP_FENCE, .iov = &iov, .iov_count = 1, .length = iov.size};
    snic_kvmem_apply(y.m, &op);
    assert_int_equal(op.result, 0);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "f"), SNIC_EIO);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_LOOKUP, SNIC_FSOP_ROOT, "f"), SNIC_EIO);
    assert_int_equal(snic_kvfs_valid_until_ns(y.t[0].k), 0);
    snic_kvfs_get_stats(y.t[0].k, &s);
    assert_int_equal(s.sessions, 0);
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "f"), 0);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNMOUNT, 0, NULL), SNIC_EIO);
    many_close(&y);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_fence_dead_alone_commit_changes_nothing),
        cmocka_unit_test(test_kvfs_fence_dead_shared_commit_changes_nothing),
        cmocka_unit_test(test_kvfs_fence_dead_client_changes_nothing),
        cmocka_unit_test(test_kvfs_fence_refused_session_is_not_dead),
        cmocka_unit_test(test_kvfs_fence_refused_newcomer_does_not_mount),
        cmocka_unit_test(test_kvfs_fence_client_notices),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
