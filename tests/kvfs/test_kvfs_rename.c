/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rename: its rules, that no directory comes below itself, what it costs. */
#include "test_kvfs_audit.h"

#include <stdio.h>
#include <string.h>

enum {
    RENAME_ROOT = SNIC_FSOP_ROOT,
    RENAME_FILE = 0100644,
    RENAME_LINGER_NS = 300000000, /* a replaced file is gone by then                           */
    NOREPLACE = (int)SNIC_FSOP_RENAME_NOREPLACE,
    EXCHANGE = (int)SNIC_FSOP_RENAME_EXCHANGE
};

/* An engine; folders a and b in the root, and a file f in a. */
static void rename_open(struct kvt *t, uint64_t *a, uint64_t *b, uint64_t *file)
{
    kvt_open(t, NULL);
    *a = kvt_mkdir(t, RENAME_ROOT, "a", 0755);
    *b = kvt_mkdir(t, RENAME_ROOT, "b", 0755);
    *file = kvt_file(t, *a, "f", 0644);
}

/* ---- Rules ---- */

static void test_kvfs_rename_within_moved(void **state)
{
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, RENAME_ROOT, "d", 0755);
    uint64_t file = kvt_file(&t, dir, "a", 0644);
    uint64_t sub = kvt_mkdir(&t, dir, "s", 0755);
    struct snic_fsop_attr d = kvt_attr(&t, dir), f = kvt_attr(&t, file), after;
    kvt_advance(&t, 3000000);
    assert_int_equal(kvt_rename(&t, dir, "a", dir, "b", 0), 0);
    assert_int_equal(kvt_try_lookup(&t, dir, "a"), SNIC_ENOENT);
    assert_int_equal(kvt_lookup(&t, dir, "b"), file);
    after = kvt_attr(&t, dir);
    assert_true(kvt_time_later(after.mtime, d.mtime) && kvt_time_later(after.ctime, d.ctime));
    assert_int_equal(after.nlink, 3);
    assert_int_equal(after.entries, 2);
    after = kvt_attr(&t, file);
    assert_true(kvt_time_later(after.ctime, f.ctime));
    assert_true(kvt_time_equal(after.mtime, f.mtime) && kvt_time_equal(after.atime, f.atime));
    assert_int_equal(after.nlink, 1);
    audit_mounted(&t);
    assert_int_equal(kvt_rename(&t, dir, "s", dir, "s2", 0), 0);
    assert_int_equal(kvt_lookup(&t, dir, "s2"), sub);
    assert_int_equal(kvt_try_resolve(&t, sub, ".."), dir);
    audit_mounted(&t);
    kvt_close(&t);
}

static void test_kvfs_rename_across_parents_follow(void **state)
{
    struct kvt t;
    (void)state;
    uint64_t a, b, file;
    rename_open(&t, &a, &b, &file);
    uint64_t sub = kvt_mkdir(&t, a, "s", 0755);
    (void)kvt_file(&t, sub, "inside", 0644);
    struct snic_fsop_attr before = kvt_attr(&t, sub), after;
    kvt_advance(&t, 3000000);
    assert_int_equal(kvt_rename(&t, a, "f", b, "g", 0), 0);
    assert_int_equal(kvt_lookup(&t, b, "g"), file);
    audit_mounted(&t);
    assert_int_equal(kvt_rename(&t, a, "s", b, "s", 0), 0);
    assert_int_equal(kvt_try_resolve(&t, sub, ".."), b);
    assert_int_equal(kvt_attr(&t, a).nlink, 2);
    assert_int_equal(kvt_attr(&t, b).nlink, 3);
    assert_int_equal(kvt_attr(&t, a).entries, 0);
    assert_int_equal(kvt_attr(&t, b).entries, 2);
    after = kvt_attr(&t, sub);
    assert_true(kvt_time_later(after.ctime, before.ctime));
    assert_true(kvt_time_equal(after.mtime, before.mtime));
    audit_mounted(&t);
    kvt_close(&t);
}

static void test_kvfs_rename_over_replaced(void **state)
{
    struct kvt t;
    struct snic_fsop_attr after;
    (void)state;
    uint64_t a, b, file;
    rename_open(&t, &a, &b, &file);
    uint64_t old = kvt_file(&t, b, "g", 0644);
    assert_int_equal(kvt_link(&t, old, a, "other"), 0);
    struct snic_fsop_attr before = kvt_attr(&t, old);
    kvt_advance(&t, 3000000);
    assert_int_equal(kvt_rename(&t, a, "f", b, "g", 0), 0);
    assert_int_equal(kvt_lookup(&t, b, "g"), file);
    after = kvt_attr(&t, old);
    assert_int_equal(after.nlink, 1);
    assert_true(kvt_time_later(after.ctime, before.ctime));
    audit_mounted(&t);
    assert_int_equal(kvt_rename(&t, a, "other", b, "g", 0), 0);
    kvt_advance(&t, RENAME_LINGER_NS);
    kvt_settle(&t);
    assert_int_equal(kvt_getattr(&t, file, &after), SNIC_ENOENT);
    audit_mounted(&t);
    /* Within one directory, and a directory over an empty one. */
    (void)kvt_file(&t, b, "h", 0644);
    assert_int_equal(kvt_rename(&t, b, "g", b, "h", 0), 0);
    assert_int_equal(kvt_lookup(&t, b, "h"), old);
    uint64_t s = kvt_mkdir(&t, a, "s", 0755);
    uint64_t e = kvt_mkdir(&t, b, "e", 0755);
    (void)kvt_file(&t, s, "inside", 0644);
    assert_int_equal(kvt_rename(&t, a, "s", b, "e", 0), 0);
    assert_int_equal(kvt_lookup(&t, b, "e"), s);
    assert_int_equal(kvt_attr(&t, a).nlink, 2);
    assert_int_equal(kvt_attr(&t, b).nlink, 3);
    kvt_settle(&t);
    assert_int_equal(kvt_getattr(&t, e, &after), SNIC_ENOENT);
    audit_mounted(&t);
    (void)kvt_mkdir(&t, b, "z", 0755);
    assert_int_equal(kvt_rename(&t, b, "e", b, "z", 0), 0);
    assert_int_equal(kvt_attr(&t, b).nlink, 3);
    audit_mounted(&t);
    kvt_close(&t);
}

static void test_kvfs_rename_wrong_refused(void **state)
{
    struct kvt t;
    char name[SNIC_FSOP_NAME_MAX + 2];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t a = kvt_mkdir(&t, RENAME_ROOT, "a", 0755);
    uint64_t b = kvt_mkdir(&t, a, "b", 0755);
    uint64_t c = kvt_mkdir(&t, b, "c", 0755);
    uint64_t file = kvt_file(&t, a, "f", 0644);
    (void)kvt_file(&t, b, "g", 0644);
    (void)kvt_mkdir(&t, RENAME_ROOT, "empty", 0755);
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = 0;
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_rename(&t, a, "none", a, "x", 0));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_rename(&t, a, "", a, "x", 0));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_rename(&t, a, "f", a, "", 0));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_rename(&t, 987654, "f", a, "x", 0));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_rename(&t, a, "f", 987654, "x", 0));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, a, "f", a, "x/y", 0));
    KVT_REFUSED(&t, SNIC_ENAMETOOLONG, kvt_rename(&t, a, "f", a, name, 0));
    KVT_REFUSED(&t, SNIC_ENAMETOOLONG, kvt_rename(&t, a, name, a, "x", 0));
    KVT_REFUSED(&t, SNIC_ENOTDIR, kvt_rename(&t, file, "f", a, "x", 0));
    KVT_REFUSED(&t, SNIC_ENOTDIR, kvt_rename(&t, a, "f", file, "x", 0));
    KVT_REFUSED(&t, SNIC_EBUSY, kvt_rename(&t, a, ".", RENAME_ROOT, "x", 0));
    KVT_REFUSED(&t, SNIC_EBUSY, kvt_rename(&t, a, "..", RENAME_ROOT, "x", 0));
    KVT_REFUSED(&t, SNIC_EBUSY, kvt_rename(&t, a, "f", a, ".", 0));
    KVT_REFUSED(&t, SNIC_EBUSY, kvt_rename(&t, a, "f", a, "..", 0));
    KVT_REFUSED(&t, SNIC_EEXIST, kvt_rename(&t, a, "f", a, "..", NOREPLACE));
    KVT_REFUSED(&t, SNIC_EEXIST, kvt_rename(&t, a, "f", b, "g", NOREPLACE));
    KVT_REFUSED(&t, SNIC_EEXIST, kvt_rename(&t, a, "f", a, "f", NOREPLACE));
    KVT_REFUSED(&t, SNIC_ENOENT, kvt_rename(&t, a, "f", a, "x", EXCHANGE));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, a, "f", b, "g", EXCHANGE | NOREPLACE));
    KVT_REFUSED(&t, SNIC_EISDIR, kvt_rename(&t, a, "f", RENAME_ROOT, "empty", 0));
    KVT_REFUSED(&t, SNIC_EISDIR, kvt_rename(&t, a, "f", a, "b", 0));
    KVT_REFUSED(&t, SNIC_ENOTDIR, kvt_rename(&t, RENAME_ROOT, "empty", a, "f", 0));
    KVT_REFUSED(&t, SNIC_ENOTEMPTY, kvt_rename(&t, RENAME_ROOT, "empty", a, "b", 0));
    KVT_REFUSED(&t, SNIC_ENOTEMPTY, kvt_rename(&t, a, "f", RENAME_ROOT, "a", 0)); /* its ancestor */
    KVT_REFUSED(&t, SNIC_ENOTEMPTY, kvt_rename(&t, b, "c", RENAME_ROOT, "a", 0));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, RENAME_ROOT, "a", a, "x", 0));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, RENAME_ROOT, "a", b, "x", 0));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, RENAME_ROOT, "a", c, "x", 0));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, RENAME_ROOT, "a", b, "c", 0));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, RENAME_ROOT, "a", b, "g", EXCHANGE));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, b, "g", RENAME_ROOT, "a", EXCHANGE));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, b, "c", RENAME_ROOT, "a", EXCHANGE));
    KVT_REFUSED(&t, 0, kvt_rename(&t, a, "f", a, "f", 0));
    KVT_REFUSED(&t, 0, kvt_rename(&t, RENAME_ROOT, "a", RENAME_ROOT, "a", 0));
    kvt_close(&t);
}

/* Two names of one inode: nothing happens, not even to times; both stay. */
static void test_kvfs_rename_same_inode_nothing(void **state)
{
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t a = kvt_mkdir(&t, RENAME_ROOT, "a", 0755);
    uint64_t file = kvt_file(&t, a, "f", 0644);
    assert_int_equal(kvt_link(&t, file, RENAME_ROOT, "g"), 0);
    struct snic_fsop_attr before = kvt_attr(&t, file), after;
    kvt_advance(&t, 3000000);
    KVT_REFUSED(&t, 0, kvt_rename(&t, a, "f", RENAME_ROOT, "g", 0));
    KVT_REFUSED(&t, 0, kvt_rename(&t, a, "f", RENAME_ROOT, "g", EXCHANGE));
    KVT_REFUSED(&t, SNIC_EEXIST, kvt_rename(&t, a, "f", RENAME_ROOT, "g", NOREPLACE));
    after = kvt_attr(&t, file);
    assert_true(kvt_time_equal(after.ctime, before.ctime));
    assert_int_equal(kvt_lookup(&t, a, "f"), file);
    assert_int_equal(kvt_lookup(&t, RENAME_ROOT, "g"), file);
    kvt_close(&t);
}

static void test_kvfs_rename_exchange_both_move(void **state)
{
    struct kvt t;
    (void)state;
    uint64_t a, b, file;
    rename_open(&t, &a, &b, &file);
    uint64_t dir = kvt_mkdir(&t, b, "d", 0755);
    (void)kvt_file(&t, dir, "inside", 0644);
    struct snic_fsop_attr f = kvt_attr(&t, file), d = kvt_attr(&t, dir);
    kvt_advance(&t, 3000000);
    assert_int_equal(kvt_rename(&t, a, "f", b, "d", EXCHANGE), 0);
    assert_int_equal(kvt_lookup(&t, a, "f"), dir);
    assert_int_equal(kvt_lookup(&t, b, "d"), file);
    assert_int_equal(kvt_try_resolve(&t, dir, ".."), a);
    assert_int_equal(kvt_attr(&t, a).nlink, 3);
    assert_int_equal(kvt_attr(&t, b).nlink, 2);
    assert_true(kvt_time_later(kvt_attr(&t, file).ctime, f.ctime));
    assert_true(kvt_time_later(kvt_attr(&t, dir).ctime, d.ctime));
    audit_mounted(&t);
    assert_int_equal(kvt_rename(&t, a, "f", b, "d", EXCHANGE), 0);
    audit_mounted(&t);
    uint64_t dir2 = kvt_mkdir(&t, a, "d", 0755);
    assert_int_equal(kvt_rename(&t, a, "d", b, "d", EXCHANGE), 0);
    assert_int_equal(kvt_try_resolve(&t, dir, ".."), a);
    assert_int_equal(kvt_try_resolve(&t, dir2, ".."), b);
    assert_int_equal(kvt_attr(&t, a).nlink, 3);
    assert_int_equal(kvt_rename(&t, a, "d", a, "f", EXCHANGE), 0);
    assert_int_equal(kvt_lookup(&t, a, "f"), dir);
    assert_int_equal(kvt_lookup(&t, a, "d"), file);
    audit_mounted(&t);
    kvt_close(&t);
}

/* Sticky directories on both sides; a directory that gets another parent must be writable. */
static void test_kvfs_rename_others_refused(void **state)
{
    struct kvt t;
    struct snic_fsop_attr a = {.mode = 01777};
    (void)state;
    kvt_open(&t, NULL);
    uint64_t from = kvt_mkdir(&t, RENAME_ROOT, "from", 0777);
    uint64_t to = kvt_mkdir(&t, RENAME_ROOT, "to", 0777);
    (void)kvt_file(&t, to, "his", 0666);
    (void)kvt_mkdir(&t, from, "shut", 0755);
    (void)kvt_mkdir(&t, to, "shut", 0755);
    assert_int_equal(kvt_setattr(&t, to, SNIC_FSOP_SET_MODE, &a), 0);
    t.cred.uid = t.cred.gid = 100;
    (void)kvt_file(&t, from, "mine", 0644);
    (void)kvt_mkdir(&t, from, "dir", 0755);
    KVT_REFUSED(&t, SNIC_EPERM, kvt_rename(&t, from, "mine", to, "his", 0));
    KVT_REFUSED(&t, SNIC_EPERM, kvt_rename(&t, from, "mine", to, "his", EXCHANGE));
    KVT_REFUSED(&t, SNIC_EPERM, kvt_rename(&t, to, "his", from, "x", 0));
    KVT_REFUSED(&t, SNIC_EACCES, kvt_rename(&t, from, "shut", to, "x", 0));
    KVT_REFUSED(&t, SNIC_EPERM, kvt_rename(&t, from, "dir", to, "shut", 0));
    KVT_REFUSED(&t, SNIC_EACCES, kvt_rename(&t, from, "mine", RENAME_ROOT, "x", 0));
    assert_int_equal(kvt_rename(&t, from, "shut", from, "shut2", 0), 0); /* ".." stays */
    assert_int_equal(kvt_rename(&t, from, "mine", to, "mine", 0), 0);
    assert_int_equal(kvt_rename(&t, from, "dir", to, "dir", 0), 0);
    kvt_close(&t);
}

/* Every name of a file may be renamed, and what the file knows of its names follows. */
static void test_kvfs_rename_linked_names_follow(void **state)
{
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t a = kvt_mkdir(&t, RENAME_ROOT, "a", 0755);
    uint64_t file = kvt_file(&t, RENAME_ROOT, "f", 0644);
    assert_int_equal(kvt_link(&t, file, a, "g"), 0);
    assert_int_equal(kvt_link(&t, file, a, "h"), 0);
    assert_int_equal(kvt_rename(&t, RENAME_ROOT, "f", RENAME_ROOT, "f2", 0), 0);
    audit_mounted(&t);
    assert_int_equal(kvt_rename(&t, a, "g", a, "g2", 0), 0);
    audit_mounted(&t);
    assert_int_equal(kvt_rename(&t, a, "g2", RENAME_ROOT, "g3", 0), 0);
    audit_mounted(&t);
    assert_int_equal(kvt_rename(&t, RENAME_ROOT, "f2", a, "f3", 0), 0);
    audit_mounted(&t);
    uint64_t other = kvt_file(&t, a, "o", 0644);
    assert_int_equal(kvt_link(&t, other, RENAME_ROOT, "p"), 0);
    assert_int_equal(kvt_rename(&t, RENAME_ROOT, "p", a, "h", EXCHANGE), 0);
    audit_mounted(&t);
    assert_int_equal(kvt_rename(&t, a, "o", RENAME_ROOT, "g3", 0), 0);
    audit_mounted(&t);
    assert_int_equal(kvt_attr(&t, file).nlink, 2);
    assert_int_equal(kvt_attr(&t, other).nlink, 2);
    kvt_close(&t);
}

/* A file whose name is replaced may be opened for a moment by a client that looked it up before. */
static void test_kvfs_rename_replaced_lingers(void **state)
{
    enum { FILES = 200 };
    struct kvt t;
    struct snic_fsop req;
    struct snic_fsop_attr a;
    uint64_t old[FILES];
    char back[8];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t first = kvt_file(&t, RENAME_ROOT, "doc", 0644);
    assert_int_equal(kvt_write(&t, first, 0, "first", 5), 5);
    (void)kvt_file(&t, RENAME_ROOT, "new", 0644);
    assert_int_equal(kvt_rename(&t, RENAME_ROOT, "new", RENAME_ROOT, "doc", 0), 0);
    kvt_settle(&t);
    kvt_req(&t, &req, SNIC_FSOP_OPEN, first, NULL);
    req.flags |= SNIC_FSOP_OPEN_READ;
    assert_int_equal(kvt_call(&t, &req), 0);
    kvt_advance(&t, RENAME_LINGER_NS);
    kvt_settle(&t);
    assert_int_equal(kvt_read(&t, first, 0, back, sizeof(back)), 5); /* open: it stays */
    assert_memory_equal(back, "first", 5);
    assert_int_equal(kvt_release(&t, first, SNIC_FSOP_OPEN_READ), 0);
    kvt_settle(&t);
    assert_int_equal(kvt_getattr(&t, first, &a), SNIC_ENOENT);
    /* An unlinked one goes at once. */
    uint64_t file = kvt_file(&t, RENAME_ROOT, "f", 0644);
    assert_int_equal(kvt_unlink(&t, RENAME_ROOT, "f"), 0);
    kvt_req(&t, &req, SNIC_FSOP_OPEN, file, NULL);
    req.flags |= SNIC_FSOP_OPEN_READ;
    assert_true(kvt_call(&t, &req) < 0);
    /* More than may linger: the oldest go first. */
    for (int i = 0; i < FILES; i++) {
        old[i] = kvt_lookup(&t, RENAME_ROOT, "doc");
        (void)kvt_file(&t, RENAME_ROOT, "new", 0644);
        assert_int_equal(kvt_rename(&t, RENAME_ROOT, "new", RENAME_ROOT, "doc", 0), 0);
    }
    kvt_settle(&t);
    assert_int_equal(kvt_getattr(&t, old[0], &a), SNIC_ENOENT);
    assert_int_equal(kvt_getattr(&t, old[FILES - 1], &a), 0);
    kvt_check(&t);
    kvt_advance(&t, RENAME_LINGER_NS);
    kvt_settle(&t);
    assert_int_equal(kvt_getattr(&t, old[FILES - 1], &a), SNIC_ENOENT);
    audit_mounted(&t);
    (void)kvt_file(&t, RENAME_ROOT, "new", 0644);
    assert_int_equal(kvt_rename(&t, RENAME_ROOT, "new", RENAME_ROOT, "doc", 0), 0);
    assert_int_equal(kvt_unmount(&t), 0); /* nothing is left to the next mount */
    struct audit_counts counts;
    audit_store(t.m, 1, &counts);
    assert_int_equal(counts.orphans, 0);
    kvt_close(&t);
}

/* ---- Depth ---- */

static void test_kvfs_rename_deep_no_circle(void **state)
{
    enum { DEPTH = 200 };
    struct kvt t;
    uint64_t dirs[DEPTH];
    (void)state;
    kvt_open(&t, NULL);
    for (int i = 0; i < DEPTH; i++)
        dirs[i] = kvt_mkdir(&t, i == 0 ? RENAME_ROOT : dirs[i - 1], "d", 0755);
    uint64_t side = kvt_mkdir(&t, RENAME_ROOT, "side", 0755);
    (void)kvt_file(&t, dirs[DEPTH - 1], "f", 0644);
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, RENAME_ROOT, "d", dirs[DEPTH - 1], "x", 0));
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, dirs[0], "d", dirs[DEPTH - 1], "x", 0));
    KVT_REFUSED(&t, SNIC_ENOTEMPTY, kvt_rename(&t, dirs[DEPTH - 1], "f", RENAME_ROOT, "d", 0));
    assert_int_equal(kvt_rename(&t, RENAME_ROOT, "side", dirs[DEPTH - 1], "side", 0), 0);
    assert_int_equal(kvt_rename(&t, dirs[DEPTH - 1], "side", RENAME_ROOT, "side", 0), 0);
    assert_int_equal(kvt_rename(&t, RENAME_ROOT, "d", side, "d", 0), 0);
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, RENAME_ROOT, "side", dirs[DEPTH - 1], "x", 0));
    audit_mounted(&t);
    kvt_close(&t);
}

/* The parent of a directory, written past the engine. */
static void rename_set_parent(struct kvt *t, uint64_t ino, uint64_t parent)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_kvop_get g = {.value = record, .room = sizeof(record)};
    struct snic_kvop get = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    struct snic_kvop_change c = {.kind = SNIC_KVOP_PUT, .value = record, .size = sizeof(record)};
    struct snic_kvop put = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    struct snic_fsop_attr a;
    snic_kvfs_key(&g.key, ino, SNIC_KVFS_REC_ATTR);
    snic_kvmem_apply(t->m, &get);
    assert_int_equal(snic_kvfs_attr_decode(&a, record, g.size), 0);
    a.parent = parent;
    snic_kvfs_attr_encode(record, &a);
    snic_kvfs_seal(&g.key, record, sizeof(record), 0);
    c.key = g.key;
    snic_kvmem_apply(t->m, &put);
    assert_int_equal(put.result, 0);
}

/* Any depth is legal: 2^20 directories were taken for a circle. */
static void test_kvfs_rename_into_any_depth(void **state)
{
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t side = kvt_mkdir(&t, RENAME_ROOT, "side", 0755);
    uint64_t at = RENAME_ROOT;
    for (uint64_t n = support_scale(3000, (1u << 20) + 100); n > 0; n--)
        at = kvt_mkdir(&t, at, "d", 0755);
    assert_int_equal(kvt_rename(&t, RENAME_ROOT, "side", at, "side", 0), 0);
    KVT_REFUSED(&t, SNIC_EINVAL, kvt_rename(&t, RENAME_ROOT, "d", side, "x", 0));
    assert_int_equal(t.damages, 0);
    kvt_close(&t);
}

/* A damaged store whose directories are below each other: the walk ends, and names one of them. */
static void test_kvfs_rename_circle_in_the_store_reported(void **state)
{
    static const uint32_t lengths[] = {1, 2, 47, 48, 49, 1000};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(lengths); i++) {
        struct kvt t;
        kvt_open(&t, NULL);
        (void)kvt_mkdir(&t, RENAME_ROOT, "side", 0755);
        uint64_t first = kvt_mkdir(&t, RENAME_ROOT, "d", 0755);
        uint64_t at = first;
        for (uint32_t n = 1; n < lengths[i]; n++)
            at = kvt_mkdir(&t, at, "d", 0755);
        uint64_t below = kvt_mkdir(&t, at, "e", 0755); /* beside the circle */
        assert_int_equal(kvt_unmount(&t), 0);
        rename_set_parent(&t, first, at);
        assert_int_equal(kvt_mount(&t), 0);
        assert_int_equal(kvt_rename(&t, RENAME_ROOT, "side", below, "side", 0), SNIC_ECORRUPT);
        assert_int_equal(t.damages, 1);
        assert_int_equal(t.damage[0].key.bytes[0], SNIC_KVFS_REC_ATTR);
        assert_true(t.damage[0].key.group >= first && t.damage[0].key.group < below);
        kvt_close(&t);
    }
}

/* ---- Cost ---- */

static uint64_t rename_commits, rename_groups;

static void rename_count(struct kvt *t, struct snic_kvop *op)
{
    (void)t;
    if (op->kind != SNIC_KVOP_COMMIT)
        return;
    rename_commits++;
    for (uint32_t i = 0; i < op->change_count; i++)
        rename_groups += op->changes[i].key.group != op->changes[0].key.group;
    for (uint32_t i = 0; i < op->guard_count; i++)
        rename_groups += op->guards[i].key.group != op->changes[0].key.group;
}

/* Where a commit stops at the group: one commit, of the directory's group alone, so one step. */
static void test_kvfs_rename_within_one_group(void **state)
{
    struct snic_kvfs_opts o;
    struct kvt t;
    (void)state;
    kvt_opts(&o);
    o.caps &= ~SNIC_KV_CAP_ATOMIC_MULTI;
    kvt_open(&t, &o);
    uint64_t dir = kvt_mkdir(&t, RENAME_ROOT, "d", 0755);
    (void)kvt_file(&t, dir, "a", 0644);
    (void)kvt_mkdir(&t, dir, "s", 0755);
    kvt_settle(&t);
    rename_commits = rename_groups = 0;
    t.before = rename_count;
    assert_int_equal(kvt_rename(&t, dir, "a", dir, "b", 0), 0);
    assert_int_equal(rename_commits, 1);
    assert_int_equal(rename_groups, 0);
    assert_int_equal(kvt_rename(&t, dir, "s", dir, "s2", NOREPLACE), 0);
    assert_int_equal(rename_commits, 2);
    assert_int_equal(rename_groups, 0);
    assert_int_equal(kvt_rename(&t, dir, "s2", dir, "b", EXCHANGE), 0);
    assert_int_equal(rename_commits, 3);
    assert_int_equal(rename_groups, 0);
    t.before = NULL;
    audit_mounted(&t);
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_rename_within_moved),
        cmocka_unit_test(test_kvfs_rename_across_parents_follow),
        cmocka_unit_test(test_kvfs_rename_over_replaced),
        cmocka_unit_test(test_kvfs_rename_wrong_refused),
        cmocka_unit_test(test_kvfs_rename_same_inode_nothing),
        cmocka_unit_test(test_kvfs_rename_exchange_both_move),
        cmocka_unit_test(test_kvfs_rename_others_refused),
        cmocka_unit_test(test_kvfs_rename_linked_names_follow),
        cmocka_unit_test(test_kvfs_rename_replaced_lingers),
        cmocka_unit_test(test_kvfs_rename_deep_no_circle),
        cmocka_unit_test(test_kvfs_rename_into_any_depth),
        cmocka_unit_test(test_kvfs_rename_circle_in_the_store_reported),
        cmocka_unit_test(test_kvfs_rename_within_one_group),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
