/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Damaged records: every byte of every record of a small file system is flipped, one at a
 * time, once so that the checksum notices and once with the checksum made right again. The engine
 * gives the right answer or an error, names the key, and never crashes.
 */
#include "test_kvfs_util.h"

#include <stdlib.h>
#include <string.h>

enum { DAMAGE_RECORDS = 64 };

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

static void damage_answer(int64_t rc, int64_t want, int sealed)
{
    if (rc == want)
        return;
    if (rc < 0)
        assert_true(damage_is_error(rc));
    else
        assert_true(sealed); /* a right checksum over other contents: nobody can know */
}

struct damage_tree {
    uint64_t dir, file, link;
};

/* Everything that reads the records, and a change, on a copy of the store. */
static void damage_use(struct snic_kvmem *from, const struct damage_tree *tree, int sealed)
{
    struct snic_kvfs_attr a;
    struct snic_kvmem *m;
    struct kvt t;
    char bytes[64];
    assert_int_equal(snic_kvmem_clone(from, &m), 0);
    kvt_open_on(&t, m, NULL);
    int64_t rc = kvt_mount(&t);
    if (rc == 0) {
        damage_answer(kvt_try_lookup(&t, SNIC_KVFS_ROOT, "dir"), (int64_t)tree->dir, sealed);
        damage_answer(kvt_try_resolve(&t, SNIC_KVFS_ROOT, "dir/file"), (int64_t)tree->file, sealed);
        rc = kvt_getattr(&t, tree->file, &a);
        damage_answer(rc, 0, sealed);
        if (rc == 0 && !sealed)
            assert_int_equal(a.size, 5);
        damage_answer(kvt_readlink(&t, tree->link, bytes, sizeof(bytes)), 6, sealed);
        damage_answer(kvt_read(&t, tree->file, 0, bytes, sizeof(bytes)), 5, sealed);
        rc = kvt_try_mkdir(&t, tree->dir, "new", 0755);
        assert_true(rc > 0 || damage_is_error(rc));
        rc = kvt_unlink(&t, tree->dir, "file");
        assert_true(rc == 0 || damage_is_error(rc));
    } else {
        assert_true(damage_is_error(rc));
    }
    if (!sealed && rc == SNIC_ECORRUPT)
        assert_true(t.damages > 0);
    t.quiet = 1;
    if (t.mounted) {
        rc = kvt_unmount(&t);
        assert_true(rc == 0 || damage_is_error(rc));
    }
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
    assert_non_null(d);
    for (uint32_t i = 0; i < good->size; i += stride) {
        *d = *good;
        d->value[i] ^= (unsigned char)(1U << i % 8);
        damage_put(m, d);
        damage_use(m, tree, 0);
        if (i < 4 || i >= SNIC_KVFS_HEAD) {
            damage_reseal(d);
            damage_put(m, d);
            damage_use(m, tree, 1);
        }
    }
    for (uint32_t size = 1; size < good->size; size += 1 + good->size / 16) {
        *d = *good;
        d->size = size;
        damage_put(m, d);
        damage_use(m, tree, 0);
    }
    damage_put(m, good);
    free(d);
}

static void test_kvfs_records_damaged_error_or_same(void **state)
{
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
    tree.dir = kvt_mkdir(&t, SNIC_KVFS_ROOT, "dir", 0755);
    tree.file = kvt_file(&t, tree.dir, "file", 0644);
    tree.link = (uint64_t)kvt_try_symlink(&t, tree.dir, "link", "target");
    assert_int_equal(kvt_write(&t, tree.file, 0, "hello", 5), 5);
    kvt_close(&t);
    const uint64_t groups[] = {0, tree.dir, tree.file, tree.link, SNIC_KVFS_GROUP_SUPER};
    all = damage_all(m, groups, (int)SNIC_COUNTOF(groups), &found);
    assert_true(found >= 10);
    for (int i = 0; i < found; i++)
        damage_bytes(m, &all[i], &tree, support_nightly() ? 1 : all[i].size > 100 ? 5 : 3);
    damage_use(m, &tree, 0);
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
