/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* SNIC_FSOP_HOLD: inodes without a name that are known by number; whiteouts. */
#include "test_kvfs_audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOLD_ROOT = SNIC_FSOP_ROOT, HOLD_BIG = 100000 };

/* A request that takes a name, with HOLD. The handle, 0: none; the test fails where it is refused.
 */
static uint64_t hold_take(struct kvt *t, enum snic_fsop_kind kind, uint64_t dir, const char *name,
                          const char *name2, uint64_t *ino)
{
    struct snic_fsop req;
    kvt_req(t, &req, kind, dir, name);
    req.flags |= SNIC_FSOP_HOLD;
    if (name2 != NULL) {
        req.ino2 = dir;
        req.name2 = name2;
        req.name2_size = (uint32_t)strlen(name2);
    }
    assert_int_equal(kvt_call(t, &req), 0);
    *ino = req.attr.ino;
    return req.handle;
}

static int64_t hold_open(struct kvt *t, uint64_t ino, uint64_t *handle)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_OPEN, ino, NULL);
    req.flags |= SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE;
    int64_t rc = kvt_call(t, &req);
    *handle = req.handle;
    return rc;
}

static int64_t hold_end(struct kvt *t, uint64_t ino, uint64_t handle)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_RELEASE, ino, NULL);
    req.handle = handle;
    int64_t rc = kvt_call(t, &req);
    kvt_settle(t);
    return rc;
}

static uint64_t hold_held(const struct kvt *t)
{
    struct snic_kvfs_stats s;
    snic_kvfs_get_stats(t->k, &s);
    return s.held;
}

/* All; and those where a commit stops at the group. */
static const uint32_t hold_caps[] = {0, SNIC_KV_CAP_ATOMIC_BLOCK | SNIC_KV_CAP_CHECKSUM |
                                            SNIC_KV_CAP_ALLOC};

static void hold_open_on(struct kvt *t, struct snic_kvmem *m, uint32_t caps, uint64_t session)
{
    struct snic_kvfs_opts o;
    kvt_opts(&o);
    if (caps != 0)
        o.caps = caps;
    o.session_id = session;
    kvt_open_on(t, m, &o);
}

static void hold_with(void (*run)(struct kvt *t))
{
    for (size_t i = 0; i < SNIC_COUNTOF(hold_caps); i++) {
        struct snic_kvmem *m;
        struct kvt t;
        kvt_medium(&m, hold_caps[i]);
        hold_open_on(&t, m, hold_caps[i], 1);
        t.owns_medium = 1;
        assert_int_equal(kvt_mkfs(&t), 0);
        assert_int_equal(kvt_mount(&t), 0);
        run(&t);
        audit_mounted(&t);
        kvt_close(&t);
    }
}

static void hold_file(struct kvt *t)
{
    static unsigned char bytes[HOLD_BIG], back[HOLD_BIG];
    struct snic_fsop_attr a;
    uint64_t ino, handle, again;
    memset(bytes, 'x', sizeof(bytes));
    uint64_t file = kvt_file(t, HOLD_ROOT, "f", 0644);
    assert_int_equal(kvt_write(t, file, 0, bytes, sizeof(bytes)), HOLD_BIG);
    handle = hold_take(t, SNIC_FSOP_UNLINK, HOLD_ROOT, "f", NULL, &ino);
    assert_true(handle != 0);
    assert_int_equal(ino, file);
    assert_int_equal(hold_held(t), 1);
    kvt_advance(t, 2000000000);
    assert_int_equal(kvt_attr(t, file).nlink, 0);
    assert_int_equal(hold_open(t, file, &again), 0);
    assert_int_equal(kvt_read(t, file, 0, back, sizeof(back)), HOLD_BIG);
    assert_memory_equal(bytes, back, sizeof(bytes));
    assert_int_equal(kvt_write(t, file, HOLD_BIG, bytes, 10), 10);
    assert_int_equal(kvt_link(t, file, HOLD_ROOT, "g"), SNIC_ENOENT);
    assert_int_equal(hold_end(t, file, handle), 0);
    assert_int_equal(hold_held(t), 0);
    assert_int_equal(kvt_attr(t, file).size, HOLD_BIG + 10); /* it is still open */
    assert_int_equal(hold_end(t, file, again), 0);
    assert_int_equal(kvt_getattr(t, file, &a), SNIC_ENOENT);
    assert_int_equal(hold_open(t, file, &again), SNIC_ENOENT);
}

static void test_kvfs_hold_file(void **state)
{
    (void)state;
    hold_with(hold_file);
}

static void hold_others(struct kvt *t)
{
    struct snic_fsop_attr a;
    uint64_t ino, handle;
    uint64_t dir = kvt_mkdir(t, HOLD_ROOT, "d", 0755);
    handle = hold_take(t, SNIC_FSOP_RMDIR, HOLD_ROOT, "d", NULL, &ino);
    assert_true(handle != 0 && ino == dir);
    assert_int_equal(kvt_attr(t, dir).nlink, 0);
    assert_int_equal(kvt_try_create(t, dir, "x", 0644), SNIC_ENOENT);
    assert_int_equal(hold_end(t, dir, handle), 0);
    assert_int_equal(kvt_getattr(t, dir, &a), SNIC_ENOENT);
    /* Replaced by rename, with an extended attribute; it does not linger. */
    uint64_t old = kvt_file(t, HOLD_ROOT, "old", 0644);
    struct snic_fsop req;
    struct snic_iov iov = {(void *)(uintptr_t) "v", 1};
    kvt_req(t, &req, SNIC_FSOP_SETXATTR, old, "user.a");
    req.iov = &iov;
    req.iov_count = 1;
    assert_int_equal(kvt_call(t, &req), 0);
    (void)kvt_file(t, HOLD_ROOT, "new", 0644);
    handle = hold_take(t, SNIC_FSOP_RENAME, HOLD_ROOT, "new", "old", &ino);
    assert_true(handle != 0 && ino == old);
    kvt_advance(t, 2000000000);
    assert_int_equal(kvt_attr(t, old).nlink, 0);
    assert_int_equal(hold_end(t, old, handle), 0);
    assert_int_equal(kvt_getattr(t, old, &a), SNIC_ENOENT);
    /* Other names are left, or nothing is replaced: nothing to hold. */
    uint64_t twice = kvt_file(t, HOLD_ROOT, "one", 0644);
    assert_int_equal(kvt_link(t, twice, HOLD_ROOT, "two"), 0);
    assert_int_equal(hold_take(t, SNIC_FSOP_UNLINK, HOLD_ROOT, "one", NULL, &ino), 0);
    assert_int_equal(hold_take(t, SNIC_FSOP_RENAME, HOLD_ROOT, "two", "three", &ino), 0);
    assert_int_equal(kvt_attr(t, twice).nlink, 1);
    assert_int_equal(hold_held(t), 0);
}

static void test_kvfs_hold_others(void **state)
{
    (void)state;
    hold_with(hold_others);
}

/* A client may release with another handle's bits: what it took is free again all the same. */
static void hold_forged(struct kvt *t)
{
    uint64_t ino, file = kvt_file(t, HOLD_ROOT, "f", 0644);
    uint64_t handle = hold_take(t, SNIC_FSOP_UNLINK, HOLD_ROOT, "f", NULL, &ino);
    struct snic_fsop_attr a;
    assert_true(handle != 0 && ino == file);
    assert_int_equal(hold_end(t, file, handle | 1), 0);
    assert_int_equal(kvt_getattr(t, file, &a), SNIC_ENOENT);
    assert_int_equal(hold_held(t), 0);
    kvt_check(t);
}

static void test_kvfs_hold_forged_handle_frees(void **state)
{
    (void)state;
    hold_with(hold_forged);
}

/* Beyond a quarter of the table an inode ends with its name, as without HOLD. */
static void test_kvfs_hold_limit(void **state)
{
    struct snic_kvfs_opts o;
    struct snic_kvfs_stats s;
    struct snic_fsop_attr a;
    struct kvt t;
    char name[16];
    uint64_t ino;
    (void)state;
    kvt_opts(&o);
    o.inodes_max = 128;
    kvt_open(&t, &o);
    uint32_t most = o.inodes_max / 4, made = most + 10;
    uint64_t *handles = calloc(made, sizeof(*handles)), *files = calloc(made, sizeof(*files));
    assert_true(handles != NULL && files != NULL);
    for (uint32_t i = 0; i < made; i++) {
        snprintf(name, sizeof(name), "f%u", i);
        files[i] = kvt_file(&t, HOLD_ROOT, name, 0644);
        handles[i] = hold_take(&t, SNIC_FSOP_UNLINK, HOLD_ROOT, name, NULL, &ino);
        assert_int_equal(handles[i] != 0, i < most);
        kvt_settle(&t);
        assert_int_equal(kvt_getattr(&t, files[i], &a), i < most ? 0 : SNIC_ENOENT);
    }
    snic_kvfs_get_stats(t.k, &s);
    assert_int_equal(s.held, most);
    assert_int_equal(s.unheld, 10);
    for (uint32_t i = 0; i < most; i++)
        assert_int_equal(hold_end(&t, files[i], handles[i]), 0);
    assert_int_equal(hold_held(&t), 0);
    (void)kvt_file(&t, HOLD_ROOT, "last", 0644);
    assert_true(hold_take(&t, SNIC_FSOP_UNLINK, HOLD_ROOT, "last", NULL, &ino) != 0);
    audit_mounted(&t);
    kvt_close(&t);
    free(handles);
    free(files);
}

/* Held when the session ends without a word: the next mount removes them. */
static void test_kvfs_hold_crash(void **state)
{
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(hold_caps); i++) {
        struct audit_counts counts;
        struct snic_kvmem *m;
        struct kvt t;
        uint64_t ino;
        kvt_medium(&m, hold_caps[i]);
        hold_open_on(&t, m, hold_caps[i], 1);
        assert_int_equal(kvt_mkfs(&t), 0);
        assert_int_equal(kvt_mount(&t), 0);
        (void)kvt_file(&t, HOLD_ROOT, "f", 0644);
        (void)kvt_mkdir(&t, HOLD_ROOT, "d", 0755);
        assert_true(hold_take(&t, SNIC_FSOP_UNLINK, HOLD_ROOT, "f", NULL, &ino) != 0);
        assert_true(hold_take(&t, SNIC_FSOP_RMDIR, HOLD_ROOT, "d", NULL, &ino) != 0);
        t.quiet = 1;
        kvt_settle(&t);
        kvt_close(&t);
        audit_store(m, 1, &counts);
        assert_int_equal(counts.orphans, 2);
        hold_open_on(&t, m, hold_caps[i], 2);
        assert_int_equal(kvt_mount(&t), 0);
        kvt_settle(&t);
        assert_int_equal(kvt_unmount(&t), 0);
        t.quiet = 1;
        kvt_close(&t);
        audit_store(m, 1, &counts);
        assert_int_equal(counts.orphans, 0);
        assert_int_equal(counts.inodes, 1);
        snic_kvmem_close(m);
    }
}

/* ---- Whiteouts ---- */

static int64_t hold_whiteout(struct kvt *t, uint64_t from, const char *name, uint64_t to,
                             const char *name2, uint32_t flags)
{
    return kvt_rename(t, from, name, to, name2, flags | SNIC_FSOP_RENAME_WHITEOUT);
}

static void hold_is_whiteout(struct kvt *t, uint64_t dir, const char *name)
{
    struct snic_fsop_attr a = kvt_attr(t, kvt_lookup(t, dir, name));
    assert_int_equal(a.mode, 0020000);
    assert_int_equal(a.rdev, 0);
    assert_int_equal(a.nlink, 1);
}

static void hold_whiteouts(struct kvt *t)
{
    uint64_t a = kvt_mkdir(t, HOLD_ROOT, "a", 0755), b = kvt_mkdir(t, HOLD_ROOT, "b", 0755);
    uint64_t f = kvt_file(t, a, "f", 0644), sub = kvt_mkdir(t, a, "sub", 0755);
    assert_int_equal(hold_whiteout(t, a, "f", a, "g", 0), 0);
    assert_int_equal(kvt_lookup(t, a, "g"), f);
    hold_is_whiteout(t, a, "f");
    assert_int_equal(kvt_attr(t, a).entries, 3);
    assert_int_equal(hold_whiteout(t, a, "g", b, "g", SNIC_FSOP_RENAME_NOREPLACE), 0);
    hold_is_whiteout(t, a, "g");
    assert_int_equal(hold_whiteout(t, a, "sub", b, "sub", 0), 0);
    assert_int_equal(kvt_lookup(t, b, "sub"), sub);
    hold_is_whiteout(t, a, "sub");
    assert_int_equal(kvt_attr(t, a).nlink, 2);
    assert_int_equal(kvt_attr(t, b).nlink, 3);
    /* Over a whiteout, and the whiteout itself. */
    assert_int_equal(hold_whiteout(t, b, "g", a, "f", 0), 0);
    hold_is_whiteout(t, b, "g");
    assert_int_equal(kvt_lookup(t, a, "f"), f);
    assert_int_equal(kvt_rename(t, b, "g", b, "h", 0), 0);
    hold_is_whiteout(t, b, "h");
    assert_int_equal(kvt_unlink(t, b, "h"), 0);
    assert_int_equal(hold_whiteout(t, a, "f", b, "x", SNIC_FSOP_RENAME_EXCHANGE), SNIC_EINVAL);
    assert_int_equal(hold_whiteout(t, a, "none", b, "x", 0), SNIC_ENOENT);
    t->cred.uid = 1000;
    assert_int_equal(hold_whiteout(t, a, "f", b, "x", 0), SNIC_EPERM);
    t->cred.uid = 0;
    kvt_advance(t, 2000000000);
}

static void test_kvfs_hold_whiteout(void **state)
{
    (void)state;
    hold_with(hold_whiteouts);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_hold_file),
        cmocka_unit_test(test_kvfs_hold_others),
        cmocka_unit_test(test_kvfs_hold_limit),
        cmocka_unit_test(test_kvfs_hold_crash),
        cmocka_unit_test(test_kvfs_hold_whiteout),
        cmocka_unit_test(test_kvfs_hold_forged_handle_frees),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
