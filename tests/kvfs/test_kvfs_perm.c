/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Permissions, and attributes that are set: by which users, what goes with it, which times move. */
#include "test_kvfs_util.h"

#include <string.h>

enum { PERM_ROOT = SNIC_FSOP_ROOT, PERM_DIR = 0040000, PERM_FILE = 0100000 };

static struct snic_fsop_attr perm_attr(struct kvt *t, uint64_t ino)
{
    struct snic_fsop_attr a;
    assert_int_equal(kvt_getattr(t, ino, &a), 0);
    return a;
}

static void perm_as(struct kvt *t, uint32_t uid, uint32_t gid)
{
    t->cred.uid = uid;
    t->cred.gid = gid;
    t->cred.groups = NULL;
    t->cred.group_count = 0;
}

static int64_t perm_set(struct kvt *t, uint64_t ino, uint32_t mask, struct snic_fsop_attr a)
{
    return kvt_setattr(t, ino, mask, &a);
}

static int64_t perm_chmod(struct kvt *t, uint64_t ino, uint32_t mode)
{
    return perm_set(t, ino, SNIC_FSOP_SET_MODE, (struct snic_fsop_attr){.mode = mode});
}

static int64_t perm_chown(struct kvt *t, uint64_t ino, uint32_t uid, uint32_t gid)
{
    uint32_t mask =
        (uid == UINT32_MAX ? 0 : SNIC_FSOP_SET_UID) | (gid == UINT32_MAX ? 0 : SNIC_FSOP_SET_GID);
    return perm_set(t, ino, mask, (struct snic_fsop_attr){.uid = uid, .gid = gid});
}

/* ---- Mode bits ---- */

/* Every mode, every class of caller, every wish. */
static void test_kvfs_perm_access_all_modes(void **state)
{
    static const uint32_t groups[] = {7, 50, 9};
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t ino[2] = {kvt_file(&t, PERM_ROOT, "f", 0), kvt_mkdir(&t, PERM_ROOT, "d", 0)};
    for (int i = 0; i < 2; i++)
        assert_int_equal(perm_chown(&t, ino[i], 40, 50), 0);
    for (uint32_t mode = 0; mode < 01000; mode++) {
        for (int i = 0; i < 2; i++) {
            perm_as(&t, 0, 0);
            assert_int_equal(perm_chmod(&t, ino[i], mode), 0);
            for (uint32_t want = 0; want < 8; want++) {
                int x = i == 0 && (want & 1) != 0 && (mode & 0111) == 0;
                perm_as(&t, 0, 0);
                assert_int_equal(kvt_access(&t, ino[i], want), x ? SNIC_EACCES : 0);
                for (int who = 0; who < 4; who++) { /* owner, group, group by list, other */
                    uint32_t bits = who == 0 ? mode >> 6 : who < 3 ? mode >> 3 : mode;
                    perm_as(&t, who == 0 ? 40 : 41, who == 1 ? 50 : 51);
                    if (who == 2) {
                        t.cred.groups = groups;
                        t.cred.group_count = 3;
                    }
                    assert_int_equal(kvt_access(&t, ino[i], want),
                                     (want & ~bits & 7) != 0 ? SNIC_EACCES : 0);
                }
            }
        }
    }
    perm_as(&t, 0, 0);
    assert_int_equal(kvt_access(&t, ino[0], 8), SNIC_EINVAL);
    assert_int_equal(kvt_access(&t, 98765, 0), SNIC_ENOENT);
    kvt_close(&t);
}

/* ---- chmod ---- */

static void test_kvfs_perm_chmod_owner_only(void **state)
{
    struct kvt t;
    struct snic_fsop_attr a, b;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t file = kvt_file(&t, PERM_ROOT, "f", 0644);
    uint64_t dir = kvt_mkdir(&t, PERM_ROOT, "d", 0755);
    assert_int_equal(perm_chown(&t, file, 40, 50), 0);
    assert_int_equal(perm_chown(&t, dir, 40, 50), 0);
    perm_as(&t, 41, 50);
    KVT_REFUSED(&t, SNIC_EPERM, perm_chmod(&t, file, 0777));
    perm_as(&t, 40, 50);
    a = perm_attr(&t, file);
    kvt_advance(&t, 1000000);
    assert_int_equal(perm_chmod(&t, file, 06755), 0);
    b = perm_attr(&t, file);
    assert_int_equal(b.mode, PERM_FILE | 06755);
    assert_true(b.ctime.nsec > a.ctime.nsec);
    assert_memory_equal(&a.mtime, &b.mtime, sizeof(a.mtime));
    assert_memory_equal(&a.atime, &b.atime, sizeof(a.atime));
    assert_int_equal(perm_chmod(&t, dir, 07777), 0);
    assert_int_equal(perm_attr(&t, dir).mode, PERM_DIR | 07777);
    /* Outside the file's group, an owner who is not root loses setgid. */
    perm_as(&t, 40, 99);
    assert_int_equal(perm_chmod(&t, file, 02755), 0);
    assert_int_equal(perm_attr(&t, file).mode, PERM_FILE | 0755);
    perm_as(&t, 0, 0);
    assert_int_equal(perm_chmod(&t, file, 02755), 0);
    assert_int_equal(perm_attr(&t, file).mode, PERM_FILE | 02755);
    assert_int_equal(perm_chmod(&t, file, PERM_DIR | 01644), 0); /* the type stays */
    assert_int_equal(perm_attr(&t, file).mode, PERM_FILE | 01644);
    kvt_close(&t);
}

/* ---- chown ---- */

static void test_kvfs_perm_chown_rules(void **state)
{
    static const uint32_t groups[] = {60, 61};
    struct kvt t;
    struct snic_fsop_attr a;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t file = kvt_file(&t, PERM_ROOT, "f", 0644);
    uint64_t dir = kvt_mkdir(&t, PERM_ROOT, "d", 0755);
    assert_int_equal(perm_chown(&t, file, 40, 50), 0);
    a = perm_attr(&t, file);
    assert_int_equal(a.uid, 40);
    assert_int_equal(a.gid, 50);
    perm_as(&t, 40, 50);
    KVT_REFUSED(&t, SNIC_EPERM, perm_chown(&t, file, 41, UINT32_MAX));
    KVT_REFUSED(&t, SNIC_EPERM, perm_chown(&t, file, UINT32_MAX, 60));
    KVT_REFUSED(&t, SNIC_EPERM, perm_chown(&t, file, 0, 50));
    t.cred.groups = groups;
    t.cred.group_count = 2;
    assert_int_equal(perm_chown(&t, file, 40, 60), 0);
    assert_int_equal(perm_chown(&t, file, UINT32_MAX, 61), 0);
    assert_int_equal(perm_chown(&t, file, 40, UINT32_MAX), 0);
    KVT_REFUSED(&t, SNIC_EPERM, perm_chown(&t, file, 40, 62));
    perm_as(&t, 41, 61);
    KVT_REFUSED(&t, SNIC_EPERM, perm_chown(&t, file, UINT32_MAX, 61));
    KVT_REFUSED(&t, SNIC_EPERM, perm_chown(&t, file, 40, UINT32_MAX));
    /* setuid and setgid go, whichever user does it; setgid without group execution is no setgid. */
    perm_as(&t, 0, 0);
    for (int root = 0; root < 2; root++) {
        perm_as(&t, 0, 0);
        assert_int_equal(perm_chown(&t, file, 40, 50), 0);
        assert_int_equal(perm_chmod(&t, file, 06555), 0);
        assert_int_equal(perm_chmod(&t, dir, 06555), 0);
        assert_int_equal(perm_chown(&t, dir, 40, 50), 0);
        perm_as(&t, root ? 0 : 40, 50);
        assert_int_equal(perm_chown(&t, file, 40, 50), 0);
        assert_int_equal(perm_attr(&t, file).mode, PERM_FILE | 0555);
        assert_int_equal(perm_chown(&t, dir, UINT32_MAX, 50), 0);
        assert_int_equal(perm_attr(&t, dir).mode, PERM_DIR | 06555);
        assert_int_equal(perm_chmod(&t, file, 06705), 0);
        assert_int_equal(perm_chown(&t, file, 40, 50), 0);
        assert_int_equal(perm_attr(&t, file).mode, PERM_FILE | 02705);
    }
    perm_as(&t, 0, 0);
    KVT_REFUSED(&t, SNIC_EINVAL,
                perm_set(&t, file, SNIC_FSOP_SET_UID, (struct snic_fsop_attr){.uid = UINT32_MAX}));
    kvt_close(&t);
}

/* ---- utimens ---- */

static void test_kvfs_perm_times_rules(void **state)
{
    const uint32_t both = SNIC_FSOP_SET_ATIME | SNIC_FSOP_SET_MTIME;
    const uint32_t now = SNIC_FSOP_SET_ATIME_NOW | SNIC_FSOP_SET_MTIME_NOW;
    struct snic_fsop_attr set = {.atime = {12345, 999999999, 0}, .mtime = {-5, 7, 0}}, a, b;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t file = kvt_file(&t, PERM_ROOT, "f", 0646);
    assert_int_equal(perm_chown(&t, file, 40, 50), 0);
    perm_as(&t, 40, 50);
    a = perm_attr(&t, file);
    kvt_advance(&t, 1000000);
    assert_int_equal(perm_set(&t, file, both, set), 0);
    b = perm_attr(&t, file);
    assert_memory_equal(&b.atime, &set.atime, sizeof(set.atime));
    assert_memory_equal(&b.mtime, &set.mtime, sizeof(set.mtime));
    assert_true(b.ctime.nsec > a.ctime.nsec);
    assert_int_equal(perm_set(&t, file, SNIC_FSOP_SET_MTIME_NOW, set), 0);
    a = perm_attr(&t, file);
    assert_memory_equal(&a.atime, &set.atime, sizeof(set.atime));
    assert_memory_equal(&a.mtime, &a.ctime, sizeof(a.mtime));
    perm_as(&t, 41, 51); /* may write */
    assert_int_equal(perm_set(&t, file, now, set), 0);
    KVT_REFUSED(&t, SNIC_EPERM, perm_set(&t, file, both, set));
    KVT_REFUSED(&t, SNIC_EPERM, perm_set(&t, file, SNIC_FSOP_SET_ATIME_NOW, set));
    KVT_REFUSED(&t, SNIC_EPERM,
                perm_set(&t, file, SNIC_FSOP_SET_ATIME_NOW | SNIC_FSOP_SET_MTIME, set));
    perm_as(&t, 41, 50); /* may not */
    KVT_REFUSED(&t, SNIC_EACCES, perm_set(&t, file, now, set));
    perm_as(&t, 0, 0);
    assert_int_equal(perm_set(&t, file, both, set), 0);
    set.atime.nsec = 1000000000;
    KVT_REFUSED(&t, SNIC_EINVAL, perm_set(&t, file, both, set));
    KVT_REFUSED(&t, SNIC_EINVAL, perm_set(&t, file, 1U << 20, set));
    KVT_REFUSED(&t, 0, perm_set(&t, file, 0, set)); /* nothing: not even ctime */
    set.ctime = (struct snic_fsop_time){77, 78, 0};
    assert_int_equal(perm_set(&t, file, SNIC_FSOP_SET_CTIME, set), 0);
    assert_int_equal(perm_attr(&t, file).ctime.sec, 77);
    kvt_close(&t);
}

/* ---- truncate ---- */

static void test_kvfs_perm_truncate_rules(void **state)
{
    struct kvt t;
    struct snic_fsop_attr a, b;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t file = kvt_file(&t, PERM_ROOT, "f", 06777);
    uint64_t dir = kvt_mkdir(&t, PERM_ROOT, "d", 0777);
    uint64_t fifo = (uint64_t)kvt_try_mknod(&t, PERM_ROOT, "p", 0010777, 0);
    assert_int_equal(perm_chown(&t, file, 40, 50), 0);
    assert_int_equal(perm_chmod(&t, file, 06744), 0);
    KVT_REFUSED(&t, SNIC_EISDIR, kvt_truncate(&t, dir, 0));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_truncate(&t, fifo, 0));
    KVT_REFUSED(&t, SNIC_EFBIG, kvt_truncate(&t, file, SNIC_KVFS_SIZE_MAX + 1));
    perm_as(&t, 41, 50);
    KVT_REFUSED(&t, SNIC_EACCES, kvt_truncate(&t, file, 100));
    perm_as(&t, 0, 0);
    a = perm_attr(&t, file);
    kvt_advance(&t, 1000000);
    assert_int_equal(kvt_truncate(&t, file, 100), 0);
    b = perm_attr(&t, file);
    assert_int_equal(b.size, 100);
    assert_true(b.mtime.nsec > a.mtime.nsec && b.ctime.nsec > a.ctime.nsec);
    assert_int_equal(b.mode, PERM_FILE | 06744); /* root keeps the bits */
    perm_as(&t, 40, 50);
    assert_int_equal(kvt_truncate(&t, file, 99), 0);
    assert_int_equal(perm_attr(&t, file).mode, PERM_FILE | 02744);
    kvt_close(&t);
}

/* The size and the owner in one request: the new owner does not stop the rest of it. */
static void test_kvfs_perm_several_at_once(void **state)
{
    struct kvt t;
    struct snic_fsop_attr a;
    char bytes[20000];
    (void)state;
    kvt_open(&t, NULL);
    memset(bytes, 'x', sizeof(bytes));
    uint64_t file = kvt_file(&t, PERM_ROOT, "f", 0666);
    assert_int_equal(kvt_write(&t, file, 0, bytes, sizeof(bytes)), (int64_t)sizeof(bytes));
    assert_int_equal(perm_chown(&t, file, 40, 50), 0);
    perm_as(&t, 40, 50);
    a = (struct snic_fsop_attr){.mode = 0000, .gid = 50, .size = 9000};
    assert_int_equal(
        perm_set(&t, file, SNIC_FSOP_SET_MODE | SNIC_FSOP_SET_GID | SNIC_FSOP_SET_SIZE, a), 0);
    a = perm_attr(&t, file);
    assert_int_equal(a.mode, PERM_FILE);
    assert_int_equal(a.size, 9000);
    kvt_close(&t);
}

/* ---- What a new inode gets ---- */

static void test_kvfs_perm_new_inherits(void **state)
{
    struct kvt t;
    struct snic_fsop_attr a;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, PERM_ROOT, "d", 0777);
    assert_int_equal(perm_chown(&t, dir, 10, 11), 0);
    perm_as(&t, 40, 50);
    t.cred.umask = 027;
    a = perm_attr(&t, kvt_file(&t, dir, "f", 06777));
    assert_int_equal(a.uid, 40);
    assert_int_equal(a.gid, 50);
    assert_int_equal(a.mode, PERM_FILE | 06750);
    a = perm_attr(&t, kvt_mkdir(&t, dir, "s", 07777));
    assert_int_equal(a.mode, PERM_DIR | 01750); /* mkdir gives no setuid, no setgid */
    assert_int_equal(a.nlink, 2);
    perm_as(&t, 0, 0);
    assert_int_equal(perm_chmod(&t, dir, 02777), 0);
    perm_as(&t, 40, 50);
    a = perm_attr(&t, kvt_file(&t, dir, "g", 02770));
    assert_int_equal(a.gid, 11);
    assert_int_equal(a.mode, PERM_FILE | 0750); /* not in the group: no setgid program */
    a = perm_attr(&t, kvt_file(&t, dir, "h", 02760));
    assert_int_equal(a.mode, PERM_FILE | 02740);
    a = perm_attr(&t, kvt_mkdir(&t, dir, "t", 0777));
    assert_int_equal(a.gid, 11);
    assert_int_equal(a.mode, PERM_DIR | 02750);
    perm_as(&t, 40, 11);
    a = perm_attr(&t, kvt_file(&t, dir, "i", 02770));
    assert_int_equal(a.mode, PERM_FILE | 02750);
    a = perm_attr(&t, (uint64_t)kvt_try_symlink(&t, dir, "l", "x"));
    assert_int_equal(a.mode, 0120777);
    assert_int_equal(a.gid, 11);
    kvt_close(&t);
}

/* The right to make: write and search of the directory, and search comes first. */
static void test_kvfs_perm_make_refused(void **state)
{
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, PERM_ROOT, "d", 0755);
    (void)kvt_file(&t, dir, "f", 0600);
    perm_as(&t, 40, 50);
    KVT_REFUSED(&t, SNIC_EACCES, kvt_try_mkdir(&t, dir, "x", 0755));
    KVT_REFUSED(&t, SNIC_EACCES, kvt_try_mknod(&t, dir, "x", PERM_FILE | 0644, 0));
    KVT_REFUSED(&t, SNIC_EACCES, kvt_try_symlink(&t, dir, "x", "y"));
    KVT_REFUSED(&t, SNIC_EEXIST, kvt_try_mkdir(&t, dir, "f", 0755));
    KVT_REFUSED(&t, SNIC_EACCES, kvt_try_create(&t, dir, "f", 0644)); /* opens it for writing */
    perm_as(&t, 0, 0);
    assert_int_equal(perm_chmod(&t, dir, 0766), 0);
    perm_as(&t, 40, 50);
    KVT_REFUSED(&t, SNIC_EACCES, kvt_try_mkdir(&t, dir, "x", 0755));
    KVT_REFUSED(&t, SNIC_EACCES, kvt_try_mkdir(&t, dir, "f", 0755));
    KVT_REFUSED(&t, SNIC_EACCES, kvt_try_lookup(&t, dir, "f"));
    KVT_REFUSED(&t, SNIC_EACCES, kvt_try_lookup(&t, dir, "none"));
    t.flags = SNIC_FSOP_CHECKED;
    assert_true(kvt_try_mkdir(&t, dir, "x", 0755) > 0);
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_perm_access_all_modes),
        cmocka_unit_test(test_kvfs_perm_chmod_owner_only),
        cmocka_unit_test(test_kvfs_perm_chown_rules),
        cmocka_unit_test(test_kvfs_perm_times_rules),
        cmocka_unit_test(test_kvfs_perm_truncate_rules),
        cmocka_unit_test(test_kvfs_perm_several_at_once),
        cmocka_unit_test(test_kvfs_perm_new_inherits),
        cmocka_unit_test(test_kvfs_perm_make_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
