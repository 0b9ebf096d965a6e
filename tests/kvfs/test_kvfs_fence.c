/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A session's commit is on its way to the store while the session is declared dead by another. It
 * arrives at every moment between two operations of the other one: until the death it may change
 * the store, from then on it never does.
 */
#include "test_kvfs_many.h"

#include <string.h>

enum { FENCE_SECOND = 1000000000, FENCE_POINTS = 25 };

struct fence_kind {
    enum snic_fsop_kind kind;
    const char *name;
    const char *name2;
    int of_file; /* the request is about the file, not about the root */
};

static const struct fence_kind fence_kinds[] = {
    {SNIC_FSOP_UNLINK, "f", NULL, 0},   {SNIC_FSOP_MKNOD, "g", NULL, 0},
    {SNIC_FSOP_CREATE, "g", NULL, 0},   {SNIC_FSOP_MKDIR, "g", NULL, 0},
    {SNIC_FSOP_RMDIR, "d", NULL, 0},    {SNIC_FSOP_RENAME, "f", "g", 0},
    {SNIC_FSOP_LINK, NULL, "g", 1},     {SNIC_FSOP_WRITE, NULL, NULL, 1},
    {SNIC_FSOP_SETATTR, NULL, NULL, 1}, {SNIC_FSOP_SETXATTR, "user.a", NULL, 1},
    {SNIC_FSOP_SETLK, NULL, NULL, 1},
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
    assert_int_equal(snic_kvmem_clone(y->m, &copy), 0);
    uint64_t before = snic_kvmem_digest(copy);
    snic_kvmem_apply(copy, &op);
    int changed = snic_kvmem_digest(copy) != before;
    assert_int_equal(op.result, changed ? 0 : SNIC_ECANCELED);
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

static void fence_run(const struct fence_kind *f, int alone, uint64_t seed)
{
    struct many y;
    struct snic_fsop req, mount;
    uint32_t landed = 0, dead = 0;
    many_open(&y, 2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, seed);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    kvt_req(&y.t[0], &req, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "f");
    req.mode = 0644;
    assert_int_equal(many_call(&y, 0, &req), 0);
    uint64_t ino = req.attr.ino;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKDIR, SNIC_FSOP_ROOT, "d"), 0);
    if (!alone)
        assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
    fence_req(&y, f, ino, &req);
    y.t[0].now = y.now;
    kvt_submit(&y.t[0], &req);
    struct snic_kvfs_io *held = many_hold(&y, 0, SNIC_KVOP_COMMIT, MANY_NOT_SUPER);
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
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "g"), 0);
    many_close(&y);
}

/* What the session had decided while it was alone. */
static void test_kvfs_fence_dead_alone_commit_changes_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(fence_kinds); i++)
        if (fence_kinds[i].kind != SNIC_FSOP_SETLK) /* answered from memory */
            fence_run(&fence_kinds[i], 1, i + 1);
}

/* With others about. */
static void test_kvfs_fence_dead_shared_commit_changes_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(fence_kinds); i++)
        fence_run(&fence_kinds[i], 0, i + 100);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_fence_dead_alone_commit_changes_nothing),
        cmocka_unit_test(test_kvfs_fence_dead_shared_commit_changes_nothing),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
