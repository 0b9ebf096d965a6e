/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store fails one operation: the request fails with SNIC_EIO, nothing has changed, and a second
 * attempt succeeds. For each request, and for each store operation that it needs.
 */
#include "test_kvfs_audit.h"

static uint64_t tree_fail_at, tree_fail_count;

/* Operation number tree_fail_at fails and has no effect. */
static void tree_fail(struct kvt *t, struct snic_kvop *op)
{
    if (++tree_fail_count != tree_fail_at) {
        snic_kvmem_apply(t->m, op);
        return;
    }
    op->result = SNIC_EIO;
    op->failed_guard = UINT32_MAX;
}

static int64_t tree_fault_xattr(struct kvt *t, enum snic_fsop_kind kind, uint64_t ino,
                                const char *name, const void *value, size_t size)
{
    struct snic_fsop req;
    struct snic_iov iov = {(void *)(uintptr_t)value, size};
    kvt_req(t, &req, kind, ino, name);
    req.iov = &iov;
    req.iov_count = value == NULL ? 0 : 1;
    return kvt_call(t, &req);
}

enum { TREE_FAULTS = 15 };

/* One request of each kind, on the files of tree_fault_fill(). */
static int64_t tree_fault_call(struct kvt *t, int which, const uint64_t *ino)
{
    static const unsigned char acl[] = {2,   0,   0,   0,   1,   0,   7,  0,   255, 255, 255,
                                        255, 2,   0,   6,   0,   9,   0,  0,   0,   4,   0,
                                        5,   0,   255, 255, 255, 255, 16, 0,   7,   0,   255,
                                        255, 255, 255, 32,  0,   0,   0,  255, 255, 255, 255};
    struct snic_fsop_attr a = {.mode = 0600, .uid = 7, .gid = 8};
    switch (which) {
    case 0:
        return kvt_unlink(t, ino[0], "f");
    case 1:
        return kvt_unlink(t, ino[0], "g"); /* one of two names */
    case 2:
        return kvt_rmdir(t, ino[0], "s");
    case 3:
        return kvt_link(t, ino[2], ino[1], "new");
    case 4:
        return kvt_rename(t, ino[0], "f", ino[0], "new", 0);
    case 5:
        return kvt_rename(t, ino[0], "f", ino[1], "new", 0);
    case 6:
        return kvt_rename(t, ino[0], "s", ino[1], "new", 0);
    case 7:
        return kvt_rename(t, ino[0], "f", ino[1], "over", 0);
    case 8:
        return kvt_rename(t, ino[0], "s", ino[1], "over", SNIC_FSOP_RENAME_EXCHANGE);
    case 9:
        return kvt_rename(t, ino[0], "g", ino[1], "over", 0);
    case 10:
        return kvt_setattr(t, ino[2], SNIC_FSOP_SET_MODE | SNIC_FSOP_SET_UID, &a);
    case 11:
        return tree_fault_xattr(t, SNIC_FSOP_SETXATTR, ino[2], "user.new", "value", 5);
    case 12:
        return tree_fault_xattr(t, SNIC_FSOP_REMOVEXATTR, ino[2], "user.old", NULL, 0);
    case 13:
        return tree_fault_xattr(t, SNIC_FSOP_SETXATTR, ino[2], "system.posix_acl_access", acl,
                                sizeof(acl));
    default:
        return kvt_rename(t, ino[0], "s", ino[1], "empty", 0);
    }
}

static void tree_fault_fill(struct kvt *t, uint64_t *ino)
{
    ino[0] = kvt_mkdir(t, SNIC_FSOP_ROOT, "a", 0755);
    ino[1] = kvt_mkdir(t, SNIC_FSOP_ROOT, "b", 0755);
    ino[2] = kvt_file(t, ino[0], "f", 0644);
    ino[3] = kvt_mkdir(t, ino[0], "s", 0755);
    (void)kvt_mkdir(t, ino[1], "empty", 0755);
    (void)kvt_file(t, ino[1], "over", 0644);
    uint64_t g = kvt_file(t, ino[0], "g", 0644);
    assert_int_equal(kvt_link(t, g, ino[1], "g2"), 0);
    assert_int_equal(tree_fault_xattr(t, SNIC_FSOP_SETXATTR, ino[2], "user.old", "x", 1), 0);
    assert_int_equal(kvt_unmount(t), 0);
    assert_int_equal(kvt_mount(t), 0); /* nothing is cached */
    kvt_settle(t);
}

static void tree_faults(uint32_t caps)
{
    struct snic_kvfs_opts o;
    kvt_opts(&o);
    o.caps = caps;
    for (int which = 0; which < TREE_FAULTS; which++) {
        int64_t rc = SNIC_EIO;
        for (uint64_t at = 1; rc != 0; at++) {
            struct kvt t;
            uint64_t ino[4], before, changes;
            kvt_open(&t, &o);
            tree_fault_fill(&t, ino);
            before = snic_kvmem_digest(t.m);
            changes = snic_kvmem_changes(t.m);
            tree_fail_at = at;
            tree_fail_count = 0;
            t.apply = tree_fail;
            rc = tree_fault_call(&t, which, ino);
            t.apply = NULL;
            kvt_settle(&t);
            if (rc != 0) {
                assert_int_equal(rc, SNIC_EIO);
                if ((caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0) {
                    assert_true(before == snic_kvmem_digest(t.m));
                    assert_int_equal(changes, snic_kvmem_changes(t.m));
                }
                assert_int_equal(tree_fault_call(&t, which, ino), 0);
            }
            assert_true(at < 100);
            assert_int_equal(kvt_unmount(&t), 0);
            audit_store(t.m, 1, NULL);
            kvt_close(&t);
        }
    }
}

static void test_kvfs_tree_store_fails_nothing_changed(void **state)
{
    struct snic_kvfs_opts o;
    (void)state;
    kvt_opts(&o);
    tree_faults(o.caps);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_tree_store_fails_nothing_changed),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
