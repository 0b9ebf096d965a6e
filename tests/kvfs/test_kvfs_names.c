/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Names that go, further names: unlink, rmdir, link. */
#include "test_kvfs_audit.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_DIR = 0040000, NAMES_FILE = 0100000 };

/* ---- unlink ---- */

static void test_kvfs_unlink_file_gone(void **state)
{
    struct kvt t;
    struct audit_counts counts;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0755);
    uint64_t file = kvt_file(&t, dir, "f", 0644);
    struct snic_fsop_attr before = kvt_attr(&t, dir), after;
    assert_int_equal(before.entries, 1);
    kvt_advance(&t, 5000000);
    assert_int_equal(kvt_unlink(&t, dir, "f"), 0);
    after = kvt_attr(&t, dir);
    assert_int_equal(after.entries, 0);
    assert_int_equal(after.nlink, 2);
    assert_true(kvt_time_later(after.mtime, before.mtime));
    assert_true(kvt_time_equal(after.mtime, after.ctime));
    assert_true(kvt_time_equal(after.atime, before.atime));
    assert_int_equal(kvt_try_lookup(&t, dir, "f"), SNIC_ENOENT);
    kvt_settle(&t);
    assert_int_equal(kvt_getattr(&t, file, &after), SNIC_ENOENT);
    assert_int_equal(kvt_unmount(&t), 0);
    audit_store(t.m, 1, &counts);
    assert_int_equal(counts.inodes, 2);
    assert_int_equal(counts.orphans, 0);
    kvt_close(&t);
}

static void test_kvfs_unlink_wrong_refused(void **state)
{
    struct kvt t;
    char name[SNIC_FSOP_NAME_MAX + 2];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0755);
    uint64_t file = kvt_file(&t, dir, "f", 0644);
    (void)kvt_mkdir(&t, dir, "sub", 0755);
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = 0;
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_unlink(&t, dir, "none"));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_unlink(&t, dir, ""));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_unlink(&t, 987654, "f"));
    KVT_REFUSED(&t, SNIC_EISDIR, kvt_unlink(&t, dir, "sub"));
    KVT_REFUSED(&t, SNIC_EISDIR, kvt_unlink(&t, dir, "."));
    KVT_REFUSED(&t, SNIC_EISDIR, kvt_unlink(&t, dir, ".."));
    KVT_REFUSED(&t, SNIC_ENOTDIR, kvt_unlink(&t, file, "f"));
    KVT_REFUSED(&t, SNIC_ENAMETOOLONG, kvt_unlink(&t, dir, name));
    name[SNIC_FSOP_NAME_MAX] = 0;
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_unlink(&t, dir, name));
    kvt_close(&t);
}

/* Errors in Linux's order: search, then the name, then write and sticky. */
static void test_kvfs_unlink_others_refused(void **state)
{
    struct kvt t;
    struct snic_fsop_attr a = {.mode = 0755, .uid = 100, .gid = 100};
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0700);
    uint64_t file = kvt_file(&t, dir, "f", 0666);
    t.cred.uid = t.cred.gid = 100;
    KVT_REFUSED(&t, SNIC_EACCES, kvt_unlink(&t, dir, "f"));
    KVT_REFUSED(&t, SNIC_EACCES, kvt_unlink(&t, dir, "none"));
    t.cred.uid = t.cred.gid = 0;
    assert_int_equal(kvt_setattr(&t, dir, SNIC_FSOP_SET_MODE, &a), 0);
    t.cred.uid = t.cred.gid = 100;
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_unlink(&t, dir, "none"));
    KVT_REFUSED(&t, SNIC_EACCES, kvt_unlink(&t, dir, "f"));
    t.cred.uid = t.cred.gid = 0;
    a.mode = 01777;
    assert_int_equal(kvt_setattr(&t, dir, SNIC_FSOP_SET_MODE, &a), 0);
    t.cred.uid = t.cred.gid = 100;
    KVT_REFUSED(&t, SNIC_EPERM, kvt_unlink(&t, dir, "f"));
    KVT_REFUSED(&t, SNIC_EPERM, kvt_rename(&t, dir, "f", dir, "g", 0));
    t.flags = SNIC_FSOP_CHECKED; /* a caller that sets it has checked */
    assert_int_equal(kvt_rename(&t, dir, "f", dir, "g", 0), 0);
    t.flags = 0;
    t.cred.uid = 0;
    a.uid = a.gid = 100;
    assert_int_equal(kvt_setattr(&t, file, SNIC_FSOP_SET_UID | SNIC_FSOP_SET_GID, &a), 0);
    t.cred.uid = 100;
    assert_int_equal(kvt_unlink(&t, dir, "g"), 0); /* its own file */
    kvt_close(&t);
}

/* ---- rmdir ---- */

static void test_kvfs_rmdir_rules(void **state)
{
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0755);
    uint64_t sub = kvt_mkdir(&t, dir, "sub", 0755);
    (void)kvt_file(&t, sub, "f", 0644);
    assert_int_equal(kvt_attr(&t, dir).nlink, 3);
    KVT_REFUSED(&t, SNIC_ENOTEMPTY, kvt_rmdir(&t, dir, "sub"));
    KVT_REFUSED(&t, SNIC_ENOTEMPTY, kvt_rmdir(&t, SNIC_FSOP_ROOT, "d"));
    KVT_REFUSED(&t, SNIC_ENOTDIR, kvt_rmdir(&t, sub, "f"));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_rmdir(&t, sub, "none"));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_rmdir(&t, sub, ""));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rmdir(&t, sub, "."));
    KVT_REFUSED(&t, SNIC_ENOTEMPTY, kvt_rmdir(&t, sub, ".."));
    assert_int_equal(kvt_unlink(&t, sub, "f"), 0);
    struct snic_fsop_attr before = kvt_attr(&t, dir), after;
    kvt_advance(&t, 5000000);
    assert_int_equal(kvt_rmdir(&t, dir, "sub"), 0);
    after = kvt_attr(&t, dir);
    assert_int_equal(after.nlink, 2);
    assert_int_equal(after.entries, 0);
    assert_true(kvt_time_later(after.mtime, before.mtime) &&
                kvt_time_later(after.ctime, before.ctime));
    assert_int_equal(kvt_rmdir(&t, SNIC_FSOP_ROOT, "d"), 0);
    assert_int_equal(kvt_unmount(&t), 0);
    audit_store(t.m, 1, NULL);
    kvt_close(&t);
}

/* A directory that is open but removed takes no names. */
static void test_kvfs_rmdir_open_accepts_nothing(void **state)
{
    struct kvt t;
    struct snic_fsop req;
    struct snic_fsop_attr a;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0777);
    uint64_t file = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    kvt_req(&t, &req, SNIC_FSOP_OPENDIR, dir, NULL);
    assert_int_equal(kvt_call(&t, &req), 0);
    assert_int_equal(kvt_rmdir(&t, SNIC_FSOP_ROOT, "d"), 0);
    kvt_settle(&t);
    assert_int_equal(kvt_getattr(&t, dir, &a), 0);
    assert_int_equal(a.nlink, 0);
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_link(&t, file, dir, "g"));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_rename(&t, SNIC_FSOP_ROOT, "f", dir, "g", 0));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_try_mkdir(&t, dir, "g", 0755));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_try_mknod(&t, dir, "g", NAMES_FILE | 0644, 0));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_unlink(&t, dir, "g"));
    struct snic_fsop end;
    kvt_req(&t, &end, SNIC_FSOP_RELEASEDIR, dir, NULL);
    end.handle = req.handle;
    assert_int_equal(kvt_call(&t, &end), 0);
    kvt_settle(&t);
    assert_int_equal(kvt_getattr(&t, dir, &a), SNIC_ENOENT);
    kvt_close(&t);
}

/* ---- link ---- */

static void test_kvfs_link_names_counted(void **state)
{
    struct kvt t;
    char name[16];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0755);
    uint64_t file = kvt_file(&t, SNIC_FSOP_ROOT, "f0", 0644);
    assert_int_equal(kvt_link(&t, file, dir, "second"), 0);
    assert_int_equal(kvt_unlink(&t, dir, "second"), 0);
    audit_mounted(&t);
    for (int i = 1; i < 6; i++) {
        struct snic_fsop_attr before = kvt_attr(&t, file), after;
        struct snic_fsop_attr parent = kvt_attr(&t, dir);
        kvt_advance(&t, 1000000);
        snprintf(name, sizeof(name), "f%d", i);
        assert_int_equal(kvt_link(&t, file, i % 2 ? dir : SNIC_FSOP_ROOT, name), 0);
        after = kvt_attr(&t, file);
        assert_int_equal(after.nlink, i + 1);
        assert_true(kvt_time_later(after.ctime, before.ctime));
        assert_true(kvt_time_equal(after.mtime, before.mtime));
        if (i % 2)
            assert_true(kvt_time_later(kvt_attr(&t, dir).mtime, parent.mtime));
        assert_int_equal(kvt_lookup(&t, i % 2 ? dir : SNIC_FSOP_ROOT, name), file);
    }
    audit_mounted(&t);
    /* The first name goes, and comes again; the others one by one, in another order. */
    assert_int_equal(kvt_unlink(&t, SNIC_FSOP_ROOT, "f0"), 0);
    audit_mounted(&t);
    assert_int_equal(kvt_link(&t, file, dir, "f6"), 0);
    audit_mounted(&t);
    for (int i = 6; i >= 1; i--) {
        struct snic_fsop_attr before = kvt_attr(&t, file), after;
        kvt_advance(&t, 1000000);
        snprintf(name, sizeof(name), "f%d", i);
        assert_int_equal(kvt_unlink(&t, i % 2 || i == 6 ? dir : SNIC_FSOP_ROOT, name), 0);
        audit_mounted(&t);
        if (i == 1)
            break;
        after = kvt_attr(&t, file);
        assert_int_equal(after.nlink, i - 1);
        assert_true(kvt_time_later(after.ctime, before.ctime));
    }
    kvt_close(&t);
}

static void test_kvfs_link_wrong_refused(void **state)
{
    struct kvt t;
    char name[SNIC_FSOP_NAME_MAX + 2];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0755);
    uint64_t file = kvt_file(&t, dir, "f", 0644);
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = 0;
    KVT_REFUSED(&t, SNIC_EEXIST, kvt_link(&t, file, dir, "f"));
    KVT_REFUSED(&t, SNIC_EEXIST, kvt_link(&t, file, SNIC_FSOP_ROOT, "d"));
    KVT_REFUSED(&t, SNIC_EEXIST, kvt_link(&t, file, dir, "."));
    KVT_REFUSED(&t, SNIC_EEXIST, kvt_link(&t, file, dir, ".."));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_link(&t, file, dir, ""));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_link(&t, file, dir, "a/b"));
    KVT_REFUSED(&t, SNIC_EPERM, kvt_link(&t, dir, dir, "g"));
    KVT_REFUSED(&t, SNIC_EPERM, kvt_link(&t, SNIC_FSOP_ROOT, dir, "g"));
    KVT_REFUSED(&t, SNIC_ENOTDIR, kvt_link(&t, file, file, "g"));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_link(&t, 987654, dir, "g"));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_link(&t, file, 987654, "g"));
    KVT_REFUSED(&t, SNIC_ENAMETOOLONG, kvt_link(&t, file, dir, name));
    t.cred.uid = t.cred.gid = 100;
    KVT_REFUSED(&t, SNIC_EEXIST, kvt_link(&t, file, dir, "f"));
    KVT_REFUSED(&t, SNIC_EACCES, kvt_link(&t, file, dir, "g"));
    t.cred.uid = t.cred.gid = 0;
    name[SNIC_FSOP_NAME_MAX] = 0;
    assert_int_equal(kvt_link(&t, file, dir, name), 0);
    kvt_close(&t);
}

/* As many names as there can be: the count is written into the store. */
static void test_kvfs_link_most_refused(void **state)
{
    struct kvt t;
    struct snic_fsop_attr a;
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_kvop op;
    struct snic_kvop_change put;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t file = kvt_file(&t, SNIC_FSOP_ROOT, "f", 0644);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0755);
    for (int i = 0; i < 2; i++) {
        a = kvt_attr(&t, i == 0 ? file : dir);
        a.nlink = SNIC_KVFS_LINK_MAX;
        a.parent = 0;
        assert_int_equal(kvt_unmount(&t), 0);
        memset(&op, 0, sizeof(op));
        memset(&put, 0, sizeof(put));
        snic_kvfs_key(&put.key, a.ino, SNIC_KVFS_REC_ATTR);
        snic_kvfs_attr_encode(record, &a);
        snic_kvfs_seal(&put.key, record, sizeof(record), 0);
        put.kind = SNIC_KVOP_PUT;
        put.value = record;
        put.size = sizeof(record);
        op.kind = SNIC_KVOP_COMMIT;
        op.changes = &put;
        op.change_count = 1;
        snic_kvmem_apply(t.m, &op);
        assert_int_equal(op.result, 0);
        assert_int_equal(kvt_mount(&t), 0);
    }
    KVT_REFUSED(&t, SNIC_EMLINK, kvt_link(&t, file, SNIC_FSOP_ROOT, "g"));
    (void)kvt_mkdir(&t, SNIC_FSOP_ROOT, "e", 0755);
    KVT_REFUSED(&t, SNIC_EMLINK, kvt_try_mkdir(&t, dir, "g", 0755));
    KVT_REFUSED(&t, SNIC_EMLINK, kvt_rename(&t, SNIC_FSOP_ROOT, "e", dir, "g", 0));
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_unlink_file_gone),
        cmocka_unit_test(test_kvfs_unlink_wrong_refused),
        cmocka_unit_test(test_kvfs_unlink_others_refused),
        cmocka_unit_test(test_kvfs_rmdir_rules),
        cmocka_unit_test(test_kvfs_rmdir_open_accepts_nothing),
        cmocka_unit_test(test_kvfs_link_names_counted),
        cmocka_unit_test(test_kvfs_link_wrong_refused),
        cmocka_unit_test(test_kvfs_link_most_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
