/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Extended attributes: spaces of names, limits, permissions, lists. */
#include "test_kvfs_audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { XATTR_ROOT = SNIC_FSOP_ROOT, XATTR_CREATE = 1, XATTR_REPLACE = 2 };

static int64_t xattr_call(struct kvt *t, enum snic_fsop_kind kind, uint64_t ino, const char *name,
                          struct snic_iov *iov, uint32_t count, uint32_t flags)
{
    struct snic_fsop req;
    kvt_req(t, &req, kind, ino, name);
    req.iov = iov;
    req.iov_count = count;
    req.flags |= (flags & XATTR_CREATE) != 0 ? SNIC_FSOP_XATTR_CREATE : 0;
    req.flags |= (flags & XATTR_REPLACE) != 0 ? SNIC_FSOP_XATTR_REPLACE : 0;
    return kvt_call(t, &req);
}

static int64_t xattr_set(struct kvt *t, uint64_t ino, const char *name, const void *value,
                         size_t size, uint32_t flags)
{
    struct snic_iov iov = {(void *)(uintptr_t)value, size};
    return xattr_call(t, SNIC_FSOP_SETXATTR, ino, name, &iov, 1, flags);
}

static int64_t xattr_get(struct kvt *t, uint64_t ino, const char *name, void *value, size_t size)
{
    struct snic_iov iov = {value, size};
    return xattr_call(t, SNIC_FSOP_GETXATTR, ino, name, &iov, value == NULL ? 0 : 1, 0);
}

static int64_t xattr_list(struct kvt *t, uint64_t ino, void *names, size_t size)
{
    struct snic_iov iov = {names, size};
    return xattr_call(t, SNIC_FSOP_LISTXATTR, ino, NULL, &iov, names == NULL ? 0 : 1, 0);
}

static int64_t xattr_remove(struct kvt *t, uint64_t ino, const char *name)
{
    return xattr_call(t, SNIC_FSOP_REMOVEXATTR, ino, name, NULL, 0, 0);
}

static int xattr_listed(const char *names, int64_t size, const char *name)
{
    int count = 0;
    for (int64_t at = 0; at < size; at += (int64_t)strlen(names + at) + 1)
        count += strcmp(names + at, name) == 0;
    return count;
}

/* The call fails with this, and leaves the store as it was. */
#define REFUSED(t, error, call)                                                                    \
    do {                                                                                           \
        uint64_t before_ = snic_kvmem_digest((t)->m);                                              \
        assert_int_equal(call, error);                                                             \
        kvt_settle(t);                                                                             \
        assert_true(before_ == snic_kvmem_digest((t)->m));                                         \
    } while (0)

static void test_kvfs_xattr_set_got(void **state)
{
    struct kvt t;
    struct snic_fsop_attr a, b;
    char value[64];
    struct snic_iov pieces[3] = {
        {(void *)(uintptr_t) "one", 3}, {NULL, 0}, {(void *)(uintptr_t) "two", 3}};
    (void)state;
    kvt_open(&t, NULL);
    uint64_t file = kvt_file(&t, XATTR_ROOT, "f", 0644);
    assert_int_equal(kvt_getattr(&t, file, &a), 0);
    kvt_advance(&t, 1000000);
    assert_int_equal(xattr_set(&t, file, "user.a", "value", 5, 0), 0);
    assert_int_equal(kvt_getattr(&t, file, &b), 0);
    assert_true(b.ctime.nsec > a.ctime.nsec);
    assert_memory_equal(&a.mtime, &b.mtime, sizeof(a.mtime));
    assert_int_equal(xattr_get(&t, file, "user.a", value, sizeof(value)), 5);
    assert_memory_equal(value, "value", 5);
    assert_int_equal(xattr_get(&t, file, "user.a", NULL, 0), 5);
    assert_int_equal(xattr_get(&t, file, "user.a", value, 5), 5);
    REFUSED(&t, SNIC_ERANGE, xattr_get(&t, file, "user.a", value, 4));
    REFUSED(&t, SNIC_ENODATA, xattr_get(&t, file, "user.b", value, sizeof(value)));
    REFUSED(&t, SNIC_EEXIST, xattr_set(&t, file, "user.a", "x", 1, XATTR_CREATE));
    REFUSED(&t, SNIC_ENODATA, xattr_set(&t, file, "user.b", "x", 1, XATTR_REPLACE));
    assert_int_equal(xattr_set(&t, file, "user.a", "other value", 11, XATTR_REPLACE), 0);
    assert_int_equal(xattr_get(&t, file, "user.a", value, sizeof(value)), 11);
    assert_int_equal(xattr_set(&t, file, "user.empty", "", 0, XATTR_CREATE), 0);
    assert_int_equal(xattr_get(&t, file, "user.empty", value, sizeof(value)), 0);
    assert_int_equal(xattr_call(&t, SNIC_FSOP_SETXATTR, file, "user.pieces", pieces, 3, 0), 0);
    assert_int_equal(xattr_get(&t, file, "user.pieces", value, sizeof(value)), 6);
    assert_memory_equal(value, "onetwo", 6);
    assert_int_equal(xattr_remove(&t, file, "user.a"), 0);
    REFUSED(&t, SNIC_ENODATA, xattr_remove(&t, file, "user.a"));
    REFUSED(&t, SNIC_ENODATA, xattr_get(&t, file, "user.a", value, sizeof(value)));
    assert_int_equal(xattr_remove(&t, file, "user.empty"), 0);
    assert_int_equal(xattr_remove(&t, file, "user.pieces"), 0);
    assert_int_equal(xattr_list(&t, file, NULL, 0), 0);
    REFUSED(&t, SNIC_ENOENT, xattr_set(&t, 98765, "user.a", "x", 1, 0));
    REFUSED(&t, SNIC_ENOENT, xattr_get(&t, 98765, "user.a", NULL, 0));
    REFUSED(&t, SNIC_ENOENT, xattr_list(&t, 98765, NULL, 0));
    REFUSED(&t, SNIC_ENOENT, xattr_remove(&t, 98765, "user.a"));
    audit_mounted(&t);
    kvt_close(&t);
}

static void test_kvfs_xattr_limits_kept(void **state)
{
    struct kvt t;
    char name[SNIC_FSOP_XATTR_NAME_MAX + 2];
    unsigned char *value = calloc(1, SNIC_FSOP_XATTR_VALUE_MAX + 1);
    unsigned char *back = calloc(1, SNIC_FSOP_XATTR_VALUE_MAX + 1);
    struct snic_iov pieces[2] = {{value, 60000}, {value, 5537}};
    (void)state;
    assert_non_null(value);
    assert_non_null(back);
    kvt_open(&t, NULL);
    uint64_t file = kvt_file(&t, XATTR_ROOT, "f", 0644);
    memset(name, 'n', sizeof(name));
    memcpy(name, "user.", 5);
    name[sizeof(name) - 1] = 0;
    for (uint32_t i = 0; i < SNIC_FSOP_XATTR_VALUE_MAX; i++)
        value[i] = (unsigned char)(i * 7 + i / 256);
    REFUSED(&t, SNIC_ERANGE, xattr_set(&t, file, name, "x", 1, 0));
    REFUSED(&t, SNIC_ERANGE, xattr_get(&t, file, name, NULL, 0));
    REFUSED(&t, SNIC_ERANGE, xattr_remove(&t, file, name));
    REFUSED(&t, SNIC_ERANGE, xattr_set(&t, file, "", "x", 1, 0));
    REFUSED(&t, SNIC_EINVAL, xattr_set(&t, file, "user.", "x", 1, 0));
    REFUSED(&t, SNIC_EINVAL, xattr_set(&t, file, "trusted.", "x", 1, 0));
    REFUSED(&t, SNIC_ENOTSUP, xattr_set(&t, file, "other.name", "x", 1, 0));
    REFUSED(&t, SNIC_ENOTSUP, xattr_set(&t, file, "system.name", "x", 1, 0));
    REFUSED(&t, SNIC_ENOTSUP, xattr_get(&t, file, "user", NULL, 0));
    REFUSED(&t, SNIC_ENOTSUP, xattr_remove(&t, file, "nothing"));
    name[SNIC_FSOP_XATTR_NAME_MAX] = 0;
    REFUSED(&t, SNIC_E2BIG, xattr_set(&t, file, name, value, SNIC_FSOP_XATTR_VALUE_MAX + 1, 0));
    REFUSED(&t, SNIC_E2BIG, xattr_call(&t, SNIC_FSOP_SETXATTR, file, name, pieces, 2, 0));
    assert_int_equal(xattr_set(&t, file, name, value, SNIC_FSOP_XATTR_VALUE_MAX, 0), 0);
    assert_int_equal(xattr_get(&t, file, name, back, SNIC_FSOP_XATTR_VALUE_MAX),
                     SNIC_FSOP_XATTR_VALUE_MAX);
    assert_memory_equal(value, back, SNIC_FSOP_XATTR_VALUE_MAX);
    assert_int_equal(xattr_set(&t, file, "user.second", value, SNIC_FSOP_XATTR_VALUE_MAX, 0), 0);
    assert_int_equal(xattr_list(&t, file, back, SNIC_FSOP_XATTR_LIST_MAX),
                     SNIC_FSOP_XATTR_NAME_MAX + 1 + 12);
    assert_int_equal(xattr_remove(&t, file, name), 0);
    /* An inode with extended attributes takes them with it. */
    assert_int_equal(kvt_unlink(&t, XATTR_ROOT, "f"), 0);
    audit_mounted(&t);
    kvt_close(&t);
    free(value);
    free(back);
}

/* More names than one page of the store, and no more than a list may hold. */
static void test_kvfs_xattr_list_whole(void **state)
{
    struct kvt t;
    char name[SNIC_FSOP_XATTR_NAME_MAX + 1];
    char *names = malloc(2 * SNIC_FSOP_XATTR_LIST_MAX);
    char *value = calloc(1, 3000);
    int64_t size;
    (void)state;
    assert_non_null(names);
    assert_non_null(value);
    kvt_open(&t, NULL);
    uint64_t file = kvt_file(&t, XATTR_ROOT, "f", 0644);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "user.name%d", i);
        assert_int_equal(xattr_set(&t, file, name, value, 3000, 0), 0);
    }
    size = xattr_list(&t, file, NULL, 0);
    assert_int_equal(size, 10 * 11 + 90 * 12);
    assert_int_equal(xattr_list(&t, file, names, (size_t)size), size);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "user.name%d", i);
        assert_int_equal(xattr_listed(names, size, name), 1);
    }
    REFUSED(&t, SNIC_ERANGE, xattr_list(&t, file, names, (size_t)size - 1));
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = 0;
    for (int i = 0; size + 256 <= SNIC_FSOP_XATTR_LIST_MAX; i++, size += 256) {
        snprintf(name, sizeof(name), "user.%d", i);
        name[strlen(name)] = 'n';
        assert_int_equal(xattr_set(&t, file, name, "", 0, 0), 0);
    }
    assert_int_equal(xattr_list(&t, file, names, SNIC_FSOP_XATTR_LIST_MAX), size);
    /* It is full: nothing new, but existing ones may change, and make room. */
    memcpy(name, "user.new", 8);
    REFUSED(&t, SNIC_ENOSPC, xattr_set(&t, file, name, "", 0, 0));
    REFUSED(&t, SNIC_ENOSPC, xattr_set(&t, file, name, value, 3000, XATTR_CREATE));
    assert_int_equal(xattr_set(&t, file, "user.name7", "x", 1, 0), 0);
    name[SNIC_FSOP_XATTR_LIST_MAX - size - 1] = 0; /* just as long as there is room */
    assert_int_equal(xattr_set(&t, file, name, "", 0, 0), 0);
    assert_int_equal(xattr_list(&t, file, names, SNIC_FSOP_XATTR_LIST_MAX),
                     SNIC_FSOP_XATTR_LIST_MAX);
    REFUSED(&t, SNIC_ENOSPC, xattr_set(&t, file, "user.a", "", 0, 0));
    assert_int_equal(xattr_remove(&t, file, "user.name7"), 0);
    assert_int_equal(xattr_set(&t, file, "user.a", value, 3000, 0), 0);
    kvt_close(&t);
    free(names);
    free(value);
}

static void test_kvfs_xattr_spaces_guarded(void **state)
{
    struct kvt t;
    struct snic_fsop_attr a = {.uid = 40, .gid = 50, .mode = 01777};
    char names[256];
    int64_t size;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t file = kvt_file(&t, XATTR_ROOT, "f", 0644);
    uint64_t dir = kvt_mkdir(&t, XATTR_ROOT, "d", 0777);
    uint64_t fifo = (uint64_t)kvt_try_mknod(&t, XATTR_ROOT, "p", 0010666, 0);
    uint64_t link = (uint64_t)kvt_try_symlink(&t, XATTR_ROOT, "l", "f");
    assert_int_equal(kvt_setattr(&t, dir, SNIC_FSOP_SET_MODE, &a), 0);
    assert_int_equal(xattr_set(&t, file, "trusted.t", "x", 1, 0), 0);
    assert_int_equal(xattr_set(&t, file, "security.s", "x", 1, 0), 0);
    assert_int_equal(xattr_set(&t, file, "user.u", "x", 1, 0), 0);
    assert_int_equal(xattr_set(&t, link, "trusted.t", "x", 1, 0), 0);
    assert_int_equal(xattr_set(&t, fifo, "security.s", "x", 1, 0), 0);
    REFUSED(&t, SNIC_EPERM, xattr_set(&t, fifo, "user.u", "x", 1, 0));
    REFUSED(&t, SNIC_EPERM, xattr_set(&t, link, "user.u", "x", 1, 0));
    REFUSED(&t, SNIC_EPERM, xattr_remove(&t, link, "user.u"));
    REFUSED(&t, SNIC_ENODATA, xattr_get(&t, link, "user.u", NULL, 0));
    t.cred.uid = t.cred.gid = 99;
    REFUSED(&t, SNIC_EACCES, xattr_set(&t, file, "user.v", "x", 1, 0));
    REFUSED(&t, SNIC_EACCES, xattr_remove(&t, file, "user.u"));
    REFUSED(&t, SNIC_EPERM, xattr_set(&t, file, "trusted.t", "y", 1, 0));
    REFUSED(&t, SNIC_EPERM, xattr_remove(&t, file, "trusted.t"));
    REFUSED(&t, SNIC_EPERM, xattr_set(&t, file, "security.s", "y", 1, 0));
    REFUSED(&t, SNIC_EPERM, xattr_set(&t, dir, "user.u", "x", 1, 0)); /* sticky, not its owner */
    REFUSED(&t, SNIC_ENODATA, xattr_get(&t, file, "trusted.t", names, sizeof(names)));
    assert_int_equal(xattr_get(&t, file, "security.s", names, sizeof(names)), 1);
    assert_int_equal(xattr_get(&t, file, "user.u", names, sizeof(names)), 1);
    size = xattr_list(&t, file, names, sizeof(names));
    assert_int_equal(size, 7 + 11);
    assert_int_equal(xattr_listed(names, size, "trusted.t"), 0);
    assert_int_equal(xattr_listed(names, size, "user.u"), 1);
    t.cred.uid = t.cred.gid = 0;
    assert_int_equal(xattr_list(&t, file, names, sizeof(names)), 7 + 11 + 10);
    a.mode = 0600;
    assert_int_equal(kvt_setattr(&t, file, SNIC_FSOP_SET_MODE, &a), 0);
    t.cred.uid = 99;
    REFUSED(&t, SNIC_EACCES, xattr_get(&t, file, "user.u", names, sizeof(names)));
    kvt_close(&t);
}

/* Two names of one hash: written behind the engine's back, never taken for each other. */
static void test_kvfs_xattr_equal_hashes_distinguished(void **state)
{
    struct kvt t;
    unsigned char record[64];
    struct snic_kvop op;
    struct snic_kvop_change put;
    struct snic_kvop_get get;
    struct snic_kvop_key prefix;
    unsigned char room[1024];
    char value[8];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t file = kvt_file(&t, XATTR_ROOT, "f", 0644);
    assert_int_equal(xattr_set(&t, file, "user.a", "mine", 4, 0), 0);
    assert_int_equal(kvt_unmount(&t), 0);
    memset(&op, 0, sizeof(op));
    memset(&get, 0, sizeof(get));
    memset(&put, 0, sizeof(put));
    snic_kvop_key_set(&prefix, file, "X", 1);
    op.kind = SNIC_KVOP_SCAN;
    op.key = prefix;
    op.scan_max = 4;
    op.out = room;
    op.out_room = sizeof(room);
    snic_kvmem_apply(t.m, &op);
    assert_int_equal(op.out_count, 1);
    snic_kvop_key_set(&put.key, file, snic_kvop_record_key(snic_kvop_first(&op)), 17);
    snic_put_le16(record + SNIC_KVFS_HEAD, 6);
    memcpy(record + SNIC_KVFS_HEAD + 2, "user.zhis", 9);
    snic_kvfs_seal(&put.key, record, SNIC_KVFS_HEAD + 2 + 9, 0);
    put.kind = SNIC_KVOP_PUT;
    put.value = record;
    put.size = SNIC_KVFS_HEAD + 2 + 9;
    memset(&op, 0, sizeof(op));
    op.kind = SNIC_KVOP_COMMIT;
    op.changes = &put;
    op.change_count = 1;
    snic_kvmem_apply(t.m, &op);
    assert_int_equal(op.result, 0);
    assert_int_equal(kvt_mount(&t), 0);
    REFUSED(&t, SNIC_ENODATA, xattr_get(&t, file, "user.a", value, sizeof(value)));
    REFUSED(&t, SNIC_ENODATA, xattr_remove(&t, file, "user.a"));
    REFUSED(&t, SNIC_ENOSPC, xattr_set(&t, file, "user.a", "mine", 4, 0));
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_xattr_set_got),
        cmocka_unit_test(test_kvfs_xattr_limits_kept),
        cmocka_unit_test(test_kvfs_xattr_list_whole),
        cmocka_unit_test(test_kvfs_xattr_spaces_guarded),
        cmocka_unit_test(test_kvfs_xattr_equal_hashes_distinguished),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
