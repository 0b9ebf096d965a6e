/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Damaged records: every byte of every record of a small file system is flipped, one at a
 * time, once so that the checksum notices and once with the checksum made right again. The engine
 * gives the right answer or an error, names the key, and never crashes.
 */
#include "test_kvfs_util.h"

#include <stdlib.h>
#include <string.h>

enum { DAMAGE_RECORDS = 64, DAMAGE_STEPS = 2000 };

struct damage_record {
    struct snic_kvop_key key;
    uint32_t size;
    unsigned char value[9000];
};

static struct damage_record *damage_all(struct snic_kvmem *m, const uint64_t *groups, int count,
                                        int *found)
{
    static unsigned char out[1 << 20];
    struct damage_record *all = calloc(DAMAGE_RECORDS, sizeof(*all));
    assert_non_null(all);
    *found = 0;
    for (int g = 0; g < count; g++) {
        struct snic_kvop scan = {.kind = SNIC_KVOP_SCAN, .scan_max = DAMAGE_RECORDS, .out = out};
        scan.out_room = sizeof(out);
        scan.key.group = groups[g];
        snic_kvmem_apply(m, &scan);
        assert_true(scan.result >= 0 && scan.end);
        for (const struct snic_kvop_record *r = snic_kvop_first(&scan); r != NULL;
             r = snic_kvop_next(&scan, r)) {
            struct damage_record *d = &all[(*found)++];
            assert_true(*found < DAMAGE_RECORDS && r->value_size <= sizeof(d->value));
            snic_kvop_key_set(&d->key, groups[g], snic_kvop_record_key(r), r->key_size);
            d->size = r->value_size;
            memcpy(d->value, snic_kvop_record_value(r), r->value_size);
        }
    }
    return all;
}

static void damage_put(struct snic_kvmem *m, const struct damage_record *d)
{
    struct snic_kvop_change c = {
        .key = d->key, .kind = SNIC_KVOP_PUT, .value = d->value, .size = d->size};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    snic_kvmem_apply(m, &op);
    assert_int_equal(op.result, 0);
}

static int damage_is_error(int64_t rc)
{
    return rc == SNIC_ECORRUPT || rc == SNIC_EVERSION || rc == SNIC_EIO || rc == SNIC_ENOENT ||
           rc == SNIC_ENOTDIR || rc == SNIC_EINVAL || rc == SNIC_EACCES || rc == SNIC_EISDIR ||
           rc == SNIC_EEXIST || rc == SNIC_ENODATA || rc == SNIC_EFBIG || rc == SNIC_EMLINK ||
           rc == SNIC_ENOTEMPTY || rc == SNIC_ENOTSUP || rc == SNIC_EPERM || rc == SNIC_ENOSPC;
}

/* What is damaged, and how. */
struct damage {
    const struct snic_kvop_key *key; /* NULL: nothing is                                     */
    int sealed; /* a right checksum over other contents: undetectable                     */
};

struct damage_tree {
    uint64_t dir, other, file, link;
    int64_t listed; /* bytes of a list of `dir`                                              */
};

static const struct damage *damage_now;

/* A call that asks the store for ever fails the test. */
static void damage_step(struct kvt *t, struct snic_kvop *op)
{
    (void)op;
    assert_true(t->applied < DAMAGE_STEPS);
}

/* Only the record that is damaged has been named. */
static void damage_named(const struct kvt *t)
{
    const struct snic_kvop_key *key = damage_now->key;
    assert_true(damage_now->sealed || key != NULL || t->damages == 0);
    for (uint32_t i = 0; !damage_now->sealed && i < t->damages && i < KVT_DAMAGES; i++) {
        const struct snic_kvop_key *k = &t->damage[i].key;
        assert_true(k->group == key->group && k->size == key->size);
        assert_memory_equal(k->bytes, key->bytes, key->size);
    }
}

/* The right answer; or damage, and its record named. 1: the right one. */
static int damage_answer(const struct kvt *t, int64_t rc, int64_t want)
{
    damage_named(t);
    if (rc == want)
        return 1;
    if (damage_now->sealed) {
        assert_true(rc >= 0 || damage_is_error(rc));
        return 0;
    }
    assert_true(rc == SNIC_ECORRUPT || rc == SNIC_EVERSION);
    assert_true(t->damages > 0);
    return 0;
}

/* ---- Calls ---- */

static int64_t damage_open(struct kvt *t, enum snic_fsop_kind kind, uint64_t ino, const char *name,
                           uint32_t flags)
{
    struct snic_fsop req;
    kvt_req(t, &req, kind, ino, name);
    req.mode = 0644;
    req.flags |= SNIC_FSOP_OPEN_READ | flags;
    int64_t rc = kvt_call(t, &req);
    int64_t opened = rc < 0 ? rc : (int64_t)req.attr.ino;
    uint64_t handle = req.handle;
    if (rc < 0)
        return rc;
    kvt_req(t, &req, SNIC_FSOP_RELEASE, 0, NULL);
    req.handle = handle;
    rc = kvt_call(t, &req);
    return rc < 0 ? rc : opened;
}

static int64_t damage_iov(struct kvt *t, enum snic_fsop_kind kind, uint64_t ino, const char *name,
                          size_t room)
{
    static unsigned char out[1 << 16];
    struct snic_iov iov = {.base = out, .size = room};
    struct snic_fsop req;
    memset(out, 'v', room);
    kvt_req(t, &req, kind, ino, name);
    req.iov = &iov;
    req.iov_count = 1;
    return kvt_call(t, &req);
}

static int64_t damage_list(struct kvt *t, uint64_t dir, uint32_t flags)
{
    uint32_t before = t->flags;
    t->flags |= flags;
    int64_t rc = damage_iov(t, SNIC_FSOP_READDIR, dir, NULL, 1 << 16);
    t->flags = before;
    return rc;
}

static void damage_reads(struct kvt *t, const struct damage_tree *tree)
{
    struct snic_fsop_attr a;
    char bytes[64];
    damage_answer(t, kvt_try_lookup(t, SNIC_FSOP_ROOT, "dir"), (int64_t)tree->dir);
    damage_answer(t, kvt_try_lookup(t, tree->dir, "none"), SNIC_ENOENT);
    damage_answer(t, kvt_try_resolve(t, SNIC_FSOP_ROOT, "dir/file"), (int64_t)tree->file);
    if (damage_answer(t, kvt_getattr(t, tree->file, &a), 0) && !damage_now->sealed)
        assert_int_equal(a.size, 5);
    damage_answer(t, kvt_readlink(t, tree->link, bytes, sizeof(bytes)), 6);
    if (damage_answer(t, kvt_read(t, tree->file, 0, bytes, sizeof(bytes)), 5) &&
        !damage_now->sealed)
        assert_memory_equal(bytes, "hello", 5);
    damage_answer(t, damage_list(t, tree->dir, 0), tree->listed);
    damage_answer(t, damage_list(t, tree->dir, SNIC_FSOP_READDIR_PLUS), tree->listed);
    damage_answer(t, damage_iov(t, SNIC_FSOP_GETXATTR, tree->file, "user.x", 64), 40);
    damage_answer(t, damage_iov(t, SNIC_FSOP_GETXATTR, tree->file, "user.y", 64), SNIC_ENODATA);
    damage_answer(t, damage_iov(t, SNIC_FSOP_LISTXATTR, tree->file, NULL, 64), 7);
    damage_answer(t, damage_open(t, SNIC_FSOP_OPEN, tree->file, NULL, 0), (int64_t)tree->file);
}

/* What another call needs is done by one that was right. */
static void damage_changes(struct kvt *t, const struct damage_tree *tree)
{
    const char *name = "file";
    int64_t rc = damage_open(t, SNIC_FSOP_CREATE, tree->dir, "file", 0);
    damage_answer(t, rc, (int64_t)tree->file);
    damage_answer(t, damage_open(t, SNIC_FSOP_CREATE, tree->dir, "file", SNIC_FSOP_EXCL),
                  SNIC_EEXIST);
    damage_answer(t, damage_open(t, SNIC_FSOP_CREATE, tree->dir, "file", SNIC_FSOP_TRUNC),
                  (int64_t)tree->file);
    damage_answer(t, kvt_write(t, tree->file, 3, "there", 5), 5);
    damage_answer(t, kvt_truncate(t, tree->file, 20000), 0);
    damage_answer(t, damage_iov(t, SNIC_FSOP_SETXATTR, tree->file, "user.y", 7), 0);
    damage_answer(t, damage_iov(t, SNIC_FSOP_SETXATTR, tree->file, "user.x", 7), 0);
    damage_answer(t, kvt_link(t, tree->file, tree->other, "more"), 0);
    rc = kvt_try_mkdir(t, tree->dir, "new", 0755);
    if (damage_answer(t, rc > 0 ? 1 : rc, 1))
        damage_answer(t, kvt_rename(t, tree->dir, "new", tree->other, "new", 0), 0);
    if (damage_answer(t, kvt_rename(t, tree->dir, "file", tree->dir, "renamed", 0), 0))
        name = "renamed";
    damage_answer(t, kvt_rename(t, tree->dir, "sub", tree->other, "sub", 0), 0);
    damage_answer(
        t, kvt_rename(t, tree->dir, "link", tree->other, "old", SNIC_FSOP_RENAME_EXCHANGE), 0);
    damage_answer(t, kvt_unlink(t, tree->dir, name), 0);
    damage_answer(t, kvt_rmdir(t, tree->dir, "gone"), 0);
}

/* Everything that reads the records, and all changes, on a copy of the store. */
static void damage_use(struct snic_kvmem *from, const struct damage_tree *tree,
                       const struct damage *how)
{
    struct snic_kvmem *m;
    struct kvt t;
    assert_int_equal(snic_kvmem_clone(from, &m), 0);
    damage_now = how;
    kvt_open_on(&t, m, NULL);
    t.before = damage_step;
    if (damage_answer(&t, kvt_mount(&t), 0)) {
        damage_reads(&t, tree);
        damage_changes(&t, tree);
    }
    t.quiet = 1;
    if (t.mounted)
        damage_answer(&t, kvt_unmount(&t), 0);
    kvt_close(&t);
    snic_kvmem_close(m);
}

static void damage_reseal(struct damage_record *d)
{
    if (d->size >= SNIC_KVFS_HEAD)
        snic_kvfs_seal(&d->key, d->value, d->size, snic_get_le16(d->value + 2));
}

static void damage_bytes(struct snic_kvmem *m, const struct damage_record *good,
                         const struct damage_tree *tree, uint32_t stride)
{
    struct damage_record *d = malloc(sizeof(*d));
    const struct damage flipped = {.key = &good->key}, sealed = {.key = &good->key, .sealed = 1};
    assert_non_null(d);
    for (uint32_t i = 0; i < good->size; i += stride) {
        *d = *good;
        d->value[i] ^= (unsigned char)(1U << i % 8);
        damage_put(m, d);
        damage_use(m, tree, &flipped);
        if (i < 4 || i >= SNIC_KVFS_HEAD) {
            damage_reseal(d);
            damage_put(m, d);
            damage_use(m, tree, &sealed);
        }
    }
    for (uint32_t size = 1; size < good->size; size += 1 + good->size / 16) {
        *d = *good;
        d->size = size;
        damage_put(m, d);
        damage_use(m, tree, &flipped);
    }
    damage_put(m, good);
    free(d);
}

static void test_kvfs_records_damaged_error_or_same(void **state)
{
    const struct damage nothing = {.key = NULL};
    struct damage_tree tree;
    struct damage_record *all;
    struct snic_kvmem *m;
    struct kvt t;
    int found;
    (void)state;
    kvt_medium(&m, 0);
    kvt_open_on(&t, m, NULL);
    assert_int_equal(kvt_mkfs(&t), 0);
    assert_int_equal(kvt_mount(&t), 0);
    tree.dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    tree.file = kvt_file(&t, tree.dir, "file", 0644);
    tree.link = (uint64_t)kvt_try_symlink(&t, tree.dir, "link", "target");
    tree.other = kvt_mkdir(&t, SNIC_FSOP_ROOT, "other", 0755);
    (void)kvt_mkdir(&t, tree.dir, "sub", 0755);
    (void)kvt_mkdir(&t, tree.dir, "gone", 0755);
    (void)kvt_file(&t, tree.other, "old", 0644);
    assert_int_equal(kvt_write(&t, tree.file, 0, "hello", 5), 5);
    assert_int_equal(damage_iov(&t, SNIC_FSOP_SETXATTR, tree.file, "user.x", 40), 0);
    tree.listed = damage_list(&t, tree.dir, 0);
    assert_true(tree.listed > 0);
    kvt_close(&t);
    const uint64_t groups[] = {0,         tree.dir,  tree.other,
                               tree.file, tree.link, SNIC_KVFS_GROUP_SUPER};
    all = damage_all(m, groups, (int)SNIC_COUNTOF(groups), &found);
    assert_true(found >= 15);
    damage_use(m, &tree, &nothing);
    for (int i = 0; i < found; i++)
        damage_bytes(m, &all[i], &tree, support_nightly() ? 1 : all[i].size > 100 ? 5 : 3);
    damage_use(m, &tree, &nothing);
    free(all);
    snic_kvmem_close(m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_records_damaged_error_or_same),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
