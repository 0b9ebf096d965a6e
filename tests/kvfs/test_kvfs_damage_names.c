/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Names and inodes that do not fit each other: because another session was in between, or because
 * the store is damaged, each record with a right checksum. A call ends in either case, after a
 * bounded number of the store's operations.
 */
#include "test_kvfs_many.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_STEPS = 500 };

/* A call that asks the store for ever fails the test. */
static void names_step(struct kvt *t, struct snic_kvop *op)
{
    (void)op;
    assert_true(t->applied < NAMES_STEPS);
}

static void names_change(struct snic_kvmem *m, const struct snic_kvop_key *key, const void *value,
                         uint32_t size)
{
    struct snic_kvop_change c = {.key = *key,
                                 .kind = value == NULL ? SNIC_KVOP_DELETE : SNIC_KVOP_PUT,
                                 .value = value,
                                 .size = size};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    snic_kvmem_apply(m, &op);
    assert_int_equal(op.result, 0);
}

static void names_nlink(struct snic_kvmem *m, uint64_t ino, uint32_t nlink)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_kvop_get g = {.value = record, .room = sizeof(record)};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    struct snic_fsop_attr a;
    snic_kvfs_key(&g.key, ino, SNIC_KVFS_REC_ATTR);
    snic_kvmem_apply(m, &op);
    assert_int_equal(g.result, 0);
    assert_int_equal(snic_kvfs_attr_decode(&a, record, g.size), 0);
    a.nlink = nlink;
    snic_kvfs_attr_encode(record, &a);
    snic_kvfs_seal(&g.key, record, sizeof(record), 0);
    names_change(m, &g.key, record, sizeof(record));
}

static void names_create(struct kvt *t, struct snic_fsop *req, uint32_t flags)
{
    kvt_req(t, req, SNIC_FSOP_CREATE, SNIC_FSOP_ROOT, "f");
    req->mode = 0644;
    req->flags |= SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE | flags;
}

/* ---- CREATE of a name that is there ---- */

/* The name's inode is not there (or `nlink0`: has no name): reported, not tried for ever. */
static void names_create_torn(int alone, int nlink0, uint32_t flags)
{
    struct snic_fsop req;
    struct snic_kvop_key key;
    struct many y;
    many_open(&y, 2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, support_seed());
    snic_kvfs_set_sole(y.t[0].k, alone);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    kvt_req(&y.t[0], &req, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "f");
    req.mode = 0100644;
    assert_int_equal(many_call(&y, 0, &req), 0);
    uint64_t ino = req.attr.ino;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNMOUNT, 0, NULL), 0);
    snic_kvfs_key(&key, ino, SNIC_KVFS_REC_ATTR);
    if (nlink0)
        names_nlink(y.m, ino, 0);
    else
        names_change(y.m, &key, NULL, 0);
    for (uint32_t i = 0; i < (alone ? 1u : 2u); i++)
        assert_int_equal(many_simple(&y, i, SNIC_FSOP_MOUNT, 0, NULL), 0);
    names_create(&y.t[0], &req, flags);
    y.t[0].applied = 0;
    y.t[0].before = names_step;
    assert_int_equal(many_call(&y, 0, &req), SNIC_ECORRUPT);
    y.t[0].before = NULL;
    assert_int_equal(y.t[0].damages, 1);
    assert_int_equal(y.t[0].damage[0].key.group, ino);
    assert_int_equal(y.t[0].damage[0].key.bytes[0], SNIC_KVFS_REC_ATTR);
    for (uint32_t i = 0; i < (alone ? 1u : 2u); i++)
        assert_int_equal(many_simple(&y, i, SNIC_FSOP_UNMOUNT, 0, NULL), 0);
    for (uint32_t i = 0; i < 2; i++)
        kvt_close(&y.t[i]);
    snic_kvmem_close(y.m);
}

static void test_kvfs_damage_names_create_missing_inode_reported(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        names_create_torn(alone, 0, 0);
        names_create_torn(alone, 1, 0);
        names_create_torn(alone, 0, SNIC_FSOP_TRUNC);
    }
}

/*
 * Between the entry and the attributes of an open file another session takes its name: the name is
 * free, and CREATE makes it.
 */
static void test_kvfs_damage_names_create_during_unlink_succeeds(void **state)
{
    struct snic_fsop req, unlink;
    struct snic_kvfs_io *io, *held = NULL;
    struct many y;
    (void)state;
    many_open(&y, 2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, support_seed());
    many_mount(&y);
    names_create(&y.t[1], &req, SNIC_FSOP_EXCL);
    assert_int_equal(many_call(&y, 1, &req), 0);
    uint64_t ino = req.attr.ino;
    names_create(&y.t[0], &req, 0);
    y.t[0].now = y.now;
    kvt_submit(&y.t[0], &req);
    while (held == NULL) {
        io = snic_kvfs_poll_io(y.t[0].k);
        if (io == NULL)
            assert_true(kvt_step(&y.t[0]));
        else if (io->op.kind == SNIC_KVOP_GET && io->op.gets[0].key.group == ino)
            held = io;
        else
            y.t[0].flight[y.t[0].in_flight++] = io;
    }
    y.now = y.t[0].now;
    y.paused = 1;
    kvt_req(&y.t[1], &unlink, SNIC_FSOP_UNLINK, SNIC_FSOP_ROOT, "f");
    assert_int_equal(many_call(&y, 1, &unlink), 0);
    y.paused = 0;
    y.t[0].flight[y.t[0].in_flight++] = held;
    many_finish(&y, 1);
    assert_int_equal(req.result, 0);
    assert_true(req.attr.ino != ino && req.attr.nlink == 1);
    assert_int_equal(y.t[0].damages, 0);
    uint64_t handles[] = {(1ULL << 63) | (req.attr.ino << 2) | 3, (1ULL << 63) | (ino << 2) | 3};
    for (uint32_t i = 0; i < 2; i++) {
        kvt_req(&y.t[i], &req, SNIC_FSOP_RELEASE, 0, NULL);
        req.handle = handles[i];
        assert_int_equal(many_call(&y, i, &req), 0);
    }
    many_close(&y);
}

/* ---- Links ---- */

/* A directory's count that does not have its subdirectories is reported, and does not wrap. */
static void test_kvfs_damage_names_rename_few_links_reported(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        struct kvt t;
        kvt_open(&t, NULL);
        uint64_t a = kvt_mkdir(&t, SNIC_FSOP_ROOT, "a", 0755);
        uint64_t b = kvt_mkdir(&t, SNIC_FSOP_ROOT, "b", 0755);
        kvt_mkdir(&t, a, "s", 0755);
        kvt_mkdir(&t, b, "s", 0755);
        kvt_mkdir(&t, b, "s2", 0755);
        kvt_file(&t, a, "f", 0644);
        kvt_file(&t, b, "f", 0644);
        assert_int_equal(kvt_unmount(&t), 0);
        names_nlink(t.m, how == 0 ? a : b, how == 3 ? 2 : 0);
        assert_int_equal(kvt_mount(&t), 0);
        t.applied = 0;
        t.before = names_step;
        int64_t rc = how == 0   ? kvt_rename(&t, a, "s", b, "new", 0)
                     : how == 1 ? kvt_rename(&t, a, "s", b, "s", 0)
                     : how == 2 ? kvt_rename(&t, a, "f", b, "s", SNIC_FSOP_RENAME_EXCHANGE)
                                : kvt_rename(&t, b, "s", b, "s2", 0);
        assert_int_equal(rc, SNIC_ECORRUPT);
        t.before = NULL;
        assert_int_equal(t.damages, 1);
        assert_int_equal(t.damage[0].key.group, how == 0 ? a : b);
        assert_true(kvt_lookup(&t, a, "s") > 0 && kvt_lookup(&t, b, "s") > 0);
        kvt_close(&t);
    }
}

/* ---- Names of one hash ---- */

/* An entry record of one hash with so many names, whose inodes are not there. */
static void names_crowd(struct snic_kvmem *m, uint64_t dir, uint32_t count)
{
    static unsigned char record[SNIC_KVOP_VALUE_MAX];
    struct snic_fsop_hash hash = {.high = 1ULL << 40, .low = 7};
    struct snic_kvop_key key;
    uint32_t size = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char name[2] = {(char)('0' + i % 70), (char)('0' + i / 70)};
        struct snic_kvfs_entry e = {
            .ino = 1000000 + i, .type = 0100000, .name_size = 2, .name = name};
        assert_int_equal(snic_kvfs_entry_append(record, &size, sizeof(record), &e), 0);
    }
    snic_kvfs_key_hash(&key, dir, SNIC_KVFS_REC_ENTRY, hash);
    snic_kvfs_seal(&key, record, size, 0);
    names_change(m, &key, record, size);
}

/* More attributes than one request may have memory for: refused, and does not wait for ever. */
static void test_kvfs_damage_names_crowded_hash_listed_or_refused(void **state)
{
    static unsigned char out[4U << 20];
    struct snic_iov iov = {.base = out, .size = sizeof(out)};
    uint32_t refused = 0;
    (void)state;
    for (uint32_t count = 2000; count <= 3600; count += 800) {
        struct snic_fsop req;
        struct kvt t;
        kvt_open(&t, NULL);
        uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "d", 0755);
        names_crowd(t.m, dir, count);
        kvt_req(&t, &req, SNIC_FSOP_READDIR, dir, NULL);
        req.flags |= SNIC_FSOP_READDIR_PLUS;
        req.iov = &iov;
        req.iov_count = 1;
        t.applied = 0;
        t.before = names_step;
        int64_t rc = kvt_call(&t, &req);
        t.before = NULL;
        assert_true(rc > 0 || rc == SNIC_ENOMEM);
        refused += rc < 0;
        kvt_check(&t);
        kvt_req(&t, &req, SNIC_FSOP_READDIR, dir, NULL);
        req.iov = &iov;
        req.iov_count = 1;
        assert_true(kvt_call(&t, &req) > 0);
        kvt_close(&t);
    }
    assert_true(refused > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_damage_names_create_missing_inode_reported),
        cmocka_unit_test(test_kvfs_damage_names_create_during_unlink_succeeds),
        cmocka_unit_test(test_kvfs_damage_names_rename_few_links_reported),
        cmocka_unit_test(test_kvfs_damage_names_crowded_hash_listed_or_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
