/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A crash before each change of the store, in a course of operations of all kinds, and another one
 * during what the next mount clears up (of those a sample by day, and of both under a sanitizer).
 * After it, the file system mounts, is whole, holds each operation or nothing of it, has nothing
 * left over, and gives out no inode number twice.
 */
#include "../../examples/kvfs_tool/fsck.h"
#include "snicstore/kv.h"
#include "test_kvfs_audit.h"
#include "test_kvfs_snap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CRASH_STEPS = 64, CRASH_BIG = 20000 };

enum crash_kind {
    CRASH_END = 0,
    CRASH_FILE,    /* path */
    CRASH_DIR,     /* path */
    CRASH_LINK,    /* path, path2: another name for it */
    CRASH_SYMLINK, /* path, path2: its target */
    CRASH_UNLINK,
    CRASH_RMDIR,
    CRASH_RENAME, /* path, path2, flags */
    CRASH_WRITE,  /* path, offset, size */
    CRASH_CUT,    /* path, size */
    CRASH_SETX,   /* path, path2: name, size */
    CRASH_DELX,
    CRASH_MODE,       /* path, size: mode */
    CRASH_OPEN_UNLINK /* path: opened, unlinked, written, released */
};

struct crash_step {
    enum crash_kind kind;
    const char *path;
    const char *path2;
    uint64_t offset;
    uint64_t size;
    uint32_t flags;
};

static const struct crash_step crash_before[] = {
    {CRASH_DIR, "/a", NULL, 0, 0, 0},
    {CRASH_DIR, "/b", NULL, 0, 0, 0},
    {CRASH_DIR, "/b/e", NULL, 0, 0, 0},
    {CRASH_DIR, "/b/d", NULL, 0, 0, 0},
    {CRASH_FILE, "/b/d/h", NULL, 0, 0, 0},
    {CRASH_FILE, "/a/f", NULL, 0, 0, 0},
    {CRASH_WRITE, "/a/f", NULL, 0, 100, 0},
    {CRASH_FILE, "/a/big", NULL, 0, 0, 0},
    {CRASH_WRITE, "/a/big", NULL, 0, CRASH_BIG, 0},
    {CRASH_FILE, "/a/x", NULL, 0, 0, 0},
    {CRASH_SETX, "/a/x", "user.one", 0, 50, 0},
    {CRASH_FILE, "/b/g", NULL, 0, 0, 0},
    {CRASH_LINK, "/a/f", "/b/l", 0, 0, 0},
    {CRASH_END, NULL, NULL, 0, 0, 0},
};

static const struct crash_step crash_course[] = {
    {CRASH_FILE, "/a/n", NULL, 0, 0, 0},
    {CRASH_DIR, "/a/m", NULL, 0, 0, 0},
    {CRASH_SYMLINK, "/a/s", "to/where", 0, 0, 0},
    {CRASH_WRITE, "/a/n", NULL, 0, 10, 0},
    {CRASH_WRITE, "/a/n", NULL, 10, CRASH_BIG, 0},
    {CRASH_CUT, "/a/n", NULL, 0, 300, 0},
    {CRASH_WRITE, "/b/g", NULL, 30000, 10, 0},
    {CRASH_SETX, "/a/f", "user.two", 0, 5000, 0},
    {CRASH_RENAME, "/a/f", "/a/f2", 0, 0, 0},
    {CRASH_RENAME, "/a/f2", "/b/f3", 0, 0, 0},
    {CRASH_RENAME, "/a/n", "/a/big", 0, 0, 0},
    {CRASH_RENAME, "/a/m", "/b/e", 0, 0, 0},
    {CRASH_RENAME, "/b/d", "/a/d", 0, 0, 0},
    {CRASH_RENAME, "/a/d", "/b/g", 0, 0, SNIC_FSOP_RENAME_EXCHANGE},
    {CRASH_RENAME, "/b/e", "/a/s", 0, 0, SNIC_FSOP_RENAME_EXCHANGE},
    {CRASH_LINK, "/b/f3", "/a/k", 0, 0, 0},
    {CRASH_UNLINK, "/b/l", NULL, 0, 0, 0},
    {CRASH_UNLINK, "/a/x", NULL, 0, 0, 0},
    {CRASH_RMDIR, "/a/s", NULL, 0, 0, 0},
    {CRASH_DELX, "/a/k", "user.two", 0, 0, 0},
    {CRASH_MODE, "/a/k", NULL, 0, 0600, 0},
    {CRASH_FILE, "/a/tmp", NULL, 0, 0, 0},
    {CRASH_WRITE, "/a/tmp", NULL, 0, 500, 0},
    {CRASH_RENAME, "/a/tmp", "/a/k", 0, 0, 0},
    {CRASH_OPEN_UNLINK, "/a/big", NULL, 0, 0, 0},
    {CRASH_UNLINK, "/b/f3", NULL, 0, 0, 0},
    {CRASH_UNLINK, "/a/d", NULL, 0, 0, 0},
    {CRASH_END, NULL, NULL, 0, 0, 0},
};

static const uint32_t crash_changes =
    1u << SNIC_KVOP_COMMIT | 1u << SNIC_KVOP_OBJECT_WRITE | 1u << SNIC_KVOP_OBJECT_ZERO |
    1u << SNIC_KVOP_OBJECT_PUNCH | 1u << SNIC_KVOP_OBJECT_ALLOC | 1u << SNIC_KVOP_OBJECT_TRUNCATE;

/* ---- Steps ---- */

/* The directory of a path, and where its last name begins. */
static int64_t crash_parent(struct kvt *t, const char *path, const char **name)
{
    char dir[256];
    const char *last = strrchr(path, '/');
    *name = last + 1;
    if (last == path)
        return SNIC_FSOP_ROOT;
    memcpy(dir, path, (size_t)(last - path));
    dir[last - path] = 0;
    return kvt_try_resolve(t, SNIC_FSOP_ROOT, dir);
}

static int64_t crash_bytes(struct kvt *t, int64_t ino, uint64_t offset, uint64_t size)
{
    char *bytes = malloc(size);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = (char)(offset + i * 7 + 1);
    int64_t rc = kvt_write(t, (uint64_t)ino, offset, bytes, size);
    free(bytes);
    return rc < 0 ? rc : rc == (int64_t)size ? 0 : SNIC_EIO;
}

static int64_t crash_xattr(struct kvt *t, uint64_t ino, const struct crash_step *s)
{
    char *value = malloc(s->size + 1);
    struct snic_fsop req;
    struct snic_iov iov = {.base = value, .size = s->size};
    assert_non_null(value);
    memset(value, 'x', s->size);
    kvt_req(t, &req, s->kind == CRASH_SETX ? SNIC_FSOP_SETXATTR : SNIC_FSOP_REMOVEXATTR, ino,
            s->path2);
    if (s->kind == CRASH_SETX) {
        req.iov = &iov;
        req.iov_count = 1;
        req.length = s->size;
    }
    int64_t rc = kvt_call(t, &req);
    free(value);
    return rc;
}

static int64_t crash_open_unlink(struct kvt *t, uint64_t dir, const char *name, uint64_t ino)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_OPEN, ino, NULL);
    req.flags |= SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE;
    int64_t rc = kvt_call(t, &req);
    if (rc == 0)
        rc = kvt_unlink(t, dir, name);
    if (rc == 0)
        rc = crash_bytes(t, (int64_t)ino, 0, 9000);
    if (rc == 0)
        rc = kvt_release(t, ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE);
    return rc;
}

static int64_t crash_two(struct kvt *t, uint64_t dir, const char *name, int64_t ino,
                         const struct crash_step *s)
{
    const char *name2;
    int64_t dir2 = crash_parent(t, s->path2, &name2);
    if (dir2 < 0)
        return dir2;
    if (s->kind == CRASH_LINK)
        return kvt_link(t, (uint64_t)ino, (uint64_t)dir2, name2);
    return kvt_rename(t, dir, name, (uint64_t)dir2, name2, s->flags);
}

static int64_t crash_do(struct kvt *t, const struct crash_step *s)
{
    struct snic_fsop_attr a = {.mode = (uint32_t)s->size};
    const char *name;
    int64_t dir = crash_parent(t, s->path, &name), ino = 0;
    if (dir < 0)
        return dir;
    if (s->kind == CRASH_FILE)
        return kvt_try_mknod(t, (uint64_t)dir, name, 0100644, 0);
    if (s->kind == CRASH_DIR)
        return kvt_try_mkdir(t, (uint64_t)dir, name, 0755);
    if (s->kind == CRASH_SYMLINK)
        return kvt_try_symlink(t, (uint64_t)dir, name, s->path2);
    if (s->kind == CRASH_UNLINK)
        return kvt_unlink(t, (uint64_t)dir, name);
    if (s->kind == CRASH_RMDIR)
        return kvt_rmdir(t, (uint64_t)dir, name);
    ino = kvt_try_lookup(t, (uint64_t)dir, name);
    if (ino < 0)
        return ino;
    if (s->kind == CRASH_LINK || s->kind == CRASH_RENAME)
        return crash_two(t, (uint64_t)dir, name, ino, s);
    if (s->kind == CRASH_WRITE)
        return crash_bytes(t, ino, s->offset, s->size);
    if (s->kind == CRASH_CUT)
        return kvt_truncate(t, (uint64_t)ino, s->size);
    if (s->kind == CRASH_SETX || s->kind == CRASH_DELX)
        return crash_xattr(t, (uint64_t)ino, s);
    if (s->kind == CRASH_MODE)
        return kvt_setattr(t, (uint64_t)ino, SNIC_FSOP_SET_MODE, &a);
    return crash_open_unlink(t, (uint64_t)dir, name, (uint64_t)ino);
}

/* ---- A run ---- */

struct crash {
    uint32_t caps;
    struct snic_kvmem *made; /* with crash_before done, unmounted */
    char *states[CRASH_STEPS];
    uint32_t steps;
    uint64_t session;
    uint64_t runs;
};

static void crash_open(struct crash *c, struct kvt *t, struct snic_kvmem *m)
{
    struct snic_kvfs_opts o;
    kvt_opts(&o);
    o.caps = c->caps;
    o.session_id = ++c->session;
    kvt_open_on(t, m, &o);
    t->flags |= SNIC_FSOP_NOATIME;
}

/* Leave an engine whose store is gone. */
static void crash_leave(struct kvt *t)
{
    t->quiet = 1;
    for (int i = 0; i < 8; i++) {
        kvt_settle(t);
        kvt_advance(t, 100000000);
    }
    kvt_close(t);
}

static void crash_begin(struct crash *c, uint32_t caps)
{
    struct snic_kvmem_opts o = {.opts_size = sizeof(o), .caps = caps, .seed = 1, .track = 1};
    struct kvt t;
    memset(c, 0, sizeof(*c));
    c->caps = caps;
    assert_int_equal(snic_kvmem_open(&c->made, &o), 0);
    crash_open(c, &t, c->made);
    assert_int_equal(kvt_mkfs(&t), 0);
    assert_int_equal(kvt_mount(&t), 0);
    for (const struct crash_step *s = crash_before; s->kind != CRASH_END; s++)
        assert_true(crash_do(&t, s) >= 0);
    kvt_close(&t);
}

/* What the file system is after each step. */
static void crash_reference(struct crash *c)
{
    struct snic_kvmem *m;
    struct kvt t;
    assert_int_equal(snic_kvmem_clone(c->made, &m), 0);
    crash_open(c, &t, m);
    assert_int_equal(kvt_mount(&t), 0);
    for (const struct crash_step *s = crash_course;; s++) {
        c->states[c->steps] = malloc(SNAP_MAX);
        assert_non_null(c->states[c->steps]);
        snap_tree(&t, c->states[c->steps]);
        if (s->kind == CRASH_END)
            break;
        int64_t rc = crash_do(&t, s);
        if (rc < 0)
            print_error("step %u: %s\n", c->steps, snic_errname((int)rc));
        assert_true(rc >= 0);
        assert_true(++c->steps < CRASH_STEPS);
    }
    kvt_close(&t);
    audit_store(m, 1, NULL);
    snic_kvmem_close(m);
}

static void crash_end(struct crash *c)
{
    for (uint32_t i = 0; i <= c->steps; i++)
        free(c->states[i]);
    snic_kvmem_close(c->made);
}

/* Every group with records and every object belongs to an inode. */
static void crash_no_strays(struct snic_kvmem *m)
{
    uint64_t groups[1024];
    struct snic_kvop op = {.kind = SNIC_KVOP_GROUPS, .out = groups, .out_room = sizeof(groups)};
    op.scan_max = 1024;
    snic_kvmem_apply(m, &op);
    assert_int_equal(op.result, 0);
    assert_true(op.end);
    for (uint32_t i = 0; i < op.out_count; i++) {
        unsigned char room[SNIC_KVFS_ATTR_BYTES];
        struct snic_kvop_get get = {.value = room, .room = sizeof(room)};
        struct snic_kvop one = {.kind = SNIC_KVOP_GET, .gets = &get, .get_count = 1};
        if (groups[i] > SNIC_KVFS_INO_MAX)
            continue;
        snic_kvfs_key(&get.key, groups[i], SNIC_KVFS_REC_ATTR);
        snic_kvmem_apply(m, &one);
        assert_int_equal(get.result, 0);
    }
}

/* Arm a crash; the course up to it. Steps that were acknowledged, or UINT32_MAX: no crash. */
static uint32_t crash_course_run(struct crash *c, struct snic_kvmem *m, uint64_t after,
                                 uint64_t *most)
{
    struct snic_kv_fault f = {
        .kind = SNIC_KV_FAULT_CRASH, .kinds = crash_changes, .after = after, .keep = UINT64_MAX};
    uint32_t done = 0;
    struct kvt t;
    crash_open(c, &t, m);
    assert_int_equal(snic_kvmem_fault(m, &f), 0);
    int64_t rc = kvt_mount(&t);
    for (const struct crash_step *s = crash_course; rc >= 0 && s->kind != CRASH_END; s++) {
        rc = crash_do(&t, s);
        if (rc < 0)
            break;
        done++;
        if ((s->kind == CRASH_FILE || s->kind == CRASH_DIR || s->kind == CRASH_SYMLINK) &&
            (uint64_t)rc > *most)
            *most = (uint64_t)rc;
    }
    if (rc < 0) {
        crash_leave(&t);
        return done;
    }
    rc = kvt_unmount(&t);
    crash_leave(&t);
    return rc < 0 ? done : UINT32_MAX;
}

static int64_t crash_fsck_op(void *ctx, struct snic_kvop *op)
{
    snic_kvmem_apply(ctx, op);
    return op->result;
}

static void crash_fsck_print(void *ctx, const char *line)
{
    (void)ctx;
    print_error("%s\n", line);
}

/* The checker agrees that all is well; and can do what a mount does. */
static void crash_fsck(struct snic_kvmem *m, int repair)
{
    struct fsck_opts o = {.op = crash_fsck_op, .ctx = m, .repair = repair, .data = 1};
    struct fsck_report r;
    if (repair) {
        enum fsck_code code = fsck_run(&o, &r);
        assert_true(code == FSCK_CLEAN || code == FSCK_MENDED);
    }
    o.repair = 0;
    o.print = repair ? NULL : crash_fsck_print;
    assert_int_equal(fsck_run(&o, &r), FSCK_CLEAN);
    assert_int_equal(r.intents, 0);
    if (!repair)
        assert_int_equal(r.orphans + r.sessions, 0);
}

/* After the crash: mount, with another crash at the `again`-th change (0: none), and look. */
static int crash_look(struct crash *c, struct snic_kvmem *m, uint32_t done, uint64_t again,
                      uint64_t most)
{
    struct snic_kv_fault f = {
        .kind = SNIC_KV_FAULT_CRASH, .kinds = crash_changes, .after = again, .keep = UINT64_MAX};
    char *now = malloc(SNAP_MAX);
    struct audit_counts counts;
    struct kvt t;
    int fired = 0;
    assert_non_null(now);
    snic_kvmem_faults_clear(m);
    snic_kvmem_restart(m);
    if (again == 0) {
        struct snic_kvmem *copy;
        assert_int_equal(snic_kvmem_clone(m, &copy), 0);
        crash_fsck(copy, 1);
        crash_open(c, &t, copy);
        assert_int_equal(kvt_mount(&t), 0);
        kvt_close(&t);
        audit_store(copy, 0, NULL);
        snic_kvmem_close(copy);
    }
    if (again != 0) {
        assert_int_equal(snic_kvmem_fault(m, &f), 0);
        crash_open(c, &t, m);
        fired = kvt_mount(&t) < 0;
        crash_leave(&t);
        snic_kvmem_faults_clear(m);
        if (!fired)
            snic_kvmem_crash(m, UINT64_MAX);
        snic_kvmem_restart(m);
    }
    crash_open(c, &t, m);
    assert_int_equal(kvt_mount(&t), 0);
    snap_tree(&t, now);
    if (strcmp(now, c->states[done]) != 0 &&
        (done == c->steps || strcmp(now, c->states[done + 1]) != 0)) {
        print_error("after %u steps:\n%sbut was:\n%s", done, c->states[done], now);
        fail();
    }
    assert_true(kvt_file(&t, SNIC_FSOP_ROOT, "new", 0644) > most);
    assert_int_equal(kvt_unlink(&t, SNIC_FSOP_ROOT, "new"), 0);
    assert_int_equal(t.damages, 0);
    kvt_close(&t);
    audit_store(m, 0, &counts);
    assert_int_equal(counts.orphans, 0);
    crash_no_strays(m);
    crash_fsck(m, 0);
    c->runs++;
    free(now);
    return fired;
}

/* Of the second crashes every stride-th is tried, from another one on for each first. */
static void crash_all(uint32_t caps, uint64_t stride)
{
    struct crash c;
    uint32_t done = 0;
    uint64_t firsts = support_stride(1, 4);
    crash_begin(&c, caps);
    crash_reference(&c);
    for (uint64_t after = 1 + support_turn(firsts); done != UINT32_MAX; after += firsts) {
        int fired = 1;
        uint64_t offset = (after / firsts + support_turn(stride)) % stride;
        for (uint64_t again = 0; fired; again += again == 0 ? 1 + offset : stride) {
            struct snic_kvmem *m;
            uint64_t most = 0;
            assert_int_equal(snic_kvmem_clone(c.made, &m), 0);
            done = crash_course_run(&c, m, after, &most);
            if (done == UINT32_MAX) {
                snic_kvmem_close(m);
                break;
            }
            fired = crash_look(&c, m, done, again, most) || again == 0;
            snic_kvmem_close(m);
        }
    }
    print_message("%llu crashes\n", (unsigned long long)c.runs);
    crash_end(&c);
}

static void test_kvfs_crash_each_change_whole(void **state)
{
    (void)state;
    crash_all(SNIC_KV_CAP_ATOMIC_MULTI | SNIC_KV_CAP_ATOMIC_BLOCK | SNIC_KV_CAP_ALLOC |
                  SNIC_KV_CAP_DURABLE | SNIC_KV_CAP_SHARED,
              support_stride(15, 17));
}

/* The same on a store whose commits stop at the group: intents. */
static void test_kvfs_crash_each_change_by_group_whole(void **state)
{
    (void)state;
    crash_all(SNIC_KV_CAP_ATOMIC_BLOCK | SNIC_KV_CAP_ALLOC | SNIC_KV_CAP_DURABLE |
                  SNIC_KV_CAP_SHARED,
              support_stride(21, 23));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_crash_each_change_whole),
        cmocka_unit_test(test_kvfs_crash_each_change_by_group_whole),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
