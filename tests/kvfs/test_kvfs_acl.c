/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* POSIX access control lists: what is one, who may set it, what it grants and leaves behind. */
#include "test_kvfs_audit.h"

#include <string.h>

enum {
    ACL_ROOT = SNIC_FSOP_ROOT,
    U = 0x01,  /* owner  */
    UN = 0x02, /* named user */
    G = 0x04,  /* group  */
    GN = 0x08, /* named group */
    M = 0x10,  /* mask   */
    O = 0x20   /* others */
};
#define ACL_ACCESS "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

struct acl {
    unsigned char bytes[256];
    uint32_t size;
};

/* Triples of tag, permissions, id, ended by tag 0. */
static struct acl acl_make(const uint32_t *e)
{
    struct acl a;
    memset(&a, 0, sizeof(a));
    snic_put_le32(a.bytes, 2);
    a.size = 4;
    for (; *e != 0; e += 3, a.size += 8) {
        snic_put_le16(a.bytes + a.size, (uint16_t)e[0]);
        snic_put_le16(a.bytes + a.size + 2, (uint16_t)e[1]);
        snic_put_le32(a.bytes + a.size + 4, e[2]);
    }
    return a;
}
#define ACL(...) acl_make((const uint32_t[]){__VA_ARGS__, 0})
#define NOBODY 0xffffffffU

static int64_t acl_set_bytes(struct kvt *t, uint64_t ino, const char *name, const void *bytes,
                             size_t size)
{
    struct snic_fsop req;
    struct snic_iov iov = {(void *)(uintptr_t)bytes, size};
    kvt_req(t, &req, SNIC_FSOP_SETXATTR, ino, name);
    req.iov = &iov;
    req.iov_count = 1;
    return kvt_call(t, &req);
}

static int64_t acl_set(struct kvt *t, uint64_t ino, const char *name, struct acl a)
{
    return acl_set_bytes(t, ino, name, a.bytes, a.size);
}

static int64_t acl_get(struct kvt *t, uint64_t ino, const char *name, struct acl *a)
{
    struct snic_fsop req;
    struct snic_iov iov = {a->bytes, sizeof(a->bytes)};
    int64_t rc;
    memset(a, 0, sizeof(*a));
    kvt_req(t, &req, SNIC_FSOP_GETXATTR, ino, name);
    req.iov = &iov;
    req.iov_count = 1;
    rc = kvt_call(t, &req);
    a->size = rc < 0 ? 0 : (uint32_t)rc;
    return rc < 0 ? rc : 0;
}

static int64_t acl_remove(struct kvt *t, uint64_t ino, const char *name)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_REMOVEXATTR, ino, name);
    return kvt_call(t, &req);
}

static void acl_is(struct kvt *t, uint64_t ino, const char *name, struct acl expected)
{
    struct acl a;
    assert_int_equal(acl_get(t, ino, name, &a), 0);
    assert_int_equal(a.size, expected.size);
    assert_memory_equal(a.bytes, expected.bytes, a.size);
}

static struct snic_fsop_attr acl_attr(struct kvt *t, uint64_t ino)
{
    struct snic_fsop_attr a;
    assert_int_equal(kvt_getattr(t, ino, &a), 0);
    return a;
}

static int64_t acl_chmod(struct kvt *t, uint64_t ino, uint32_t mode)
{
    struct snic_fsop_attr a = {.mode = mode};
    return kvt_setattr(t, ino, SNIC_FSOP_SET_MODE, &a);
}

static void acl_as(struct kvt *t, uint32_t uid, uint32_t gid)
{
    t->cred.uid = uid;
    t->cred.gid = gid;
}

/* ---- What is one ---- */

static void test_kvfs_acl_malformed_refused(void **state)
{
    struct kvt t;
    struct acl a = ACL(U, 6, NOBODY, G, 4, NOBODY, O, 4, NOBODY);
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_file(&t, ACL_ROOT, "f", 0640);
    uint64_t l = (uint64_t)kvt_try_symlink(&t, ACL_ROOT, "l", "f");
    for (uint32_t size = 1; size < a.size; size++) {
        if (size % 8 != 4)
            KVT_REFUSED(&t, SNIC_EINVAL, acl_set_bytes(&t, f, ACL_ACCESS, a.bytes, size));
    }
    KVT_REFUSED(&t, SNIC_EINVAL, acl_set_bytes(&t, f, ACL_ACCESS, a.bytes, 12));
    KVT_REFUSED(&t, SNIC_EINVAL, acl_set_bytes(&t, f, ACL_ACCESS, a.bytes, 20));
    a.bytes[0] = 1;
    KVT_REFUSED(&t, SNIC_ENOTSUP, acl_set(&t, f, ACL_ACCESS, a));
#define WRONG(...) KVT_REFUSED(&t, SNIC_EINVAL, acl_set(&t, f, ACL_ACCESS, ACL(__VA_ARGS__)))
    WRONG(U, 8, NOBODY, G, 4, NOBODY, O, 4, NOBODY);                              /* permissions */
    WRONG(U, 6, NOBODY, G, 4, NOBODY, O, 0x104, NOBODY);                          /* permissions */
    WRONG(G, 6, NOBODY, U, 4, NOBODY, O, 4, NOBODY);                              /* order */
    WRONG(U, 6, NOBODY, U, 6, NOBODY, G, 4, NOBODY, O, 4, NOBODY);                /* twice */
    WRONG(U, 6, NOBODY, G, 4, NOBODY, G, 4, NOBODY, O, 4, NOBODY);                /* twice */
    WRONG(U, 6, NOBODY, G, 4, NOBODY, O, 4, NOBODY, O, 4, NOBODY);                /* twice */
    WRONG(U, 6, NOBODY, UN, 4, 7, G, 4, NOBODY, O, 4, NOBODY);                    /* no mask */
    WRONG(U, 6, NOBODY, G, 4, NOBODY, GN, 4, 7, O, 4, NOBODY);                    /* no mask */
    WRONG(U, 6, NOBODY, UN, 4, NOBODY, G, 4, NOBODY, M, 4, NOBODY, O, 4, NOBODY); /* no id */
    WRONG(U, 6, NOBODY, G, 4, NOBODY, M, 4, NOBODY, GN, 4, 1, O, 4, NOBODY);      /* order */
    WRONG(U, 6, NOBODY, G, 4, NOBODY, M, 4, NOBODY, M, 4, NOBODY, O, 4, NOBODY);  /* twice */
    WRONG(U, 6, NOBODY, G, 4, NOBODY, O, 4, NOBODY, M, 4, NOBODY);                /* order */
    WRONG(U, 6, NOBODY, G, 4, NOBODY, 0x40, 4, NOBODY, O, 4, NOBODY);             /* tag */
    WRONG(U, 6, NOBODY, G, 4, NOBODY);                                            /* no others */
#undef WRONG
    KVT_REFUSED(&t, SNIC_EACCES,
                acl_set(&t, f, ACL_DEFAULT, ACL(U, 6, NOBODY, G, 4, NOBODY, O, 4, NOBODY)));
    KVT_REFUSED(&t, SNIC_ENOTSUP,
                acl_set(&t, l, ACL_ACCESS, ACL(U, 6, NOBODY, G, 4, NOBODY, O, 4, NOBODY)));
    KVT_REFUSED(&t, SNIC_ENODATA, acl_get(&t, f, ACL_ACCESS, &a));
    KVT_REFUSED(&t, SNIC_ENODATA, acl_get(&t, f, ACL_DEFAULT, &a));
    acl_as(&t, 40, 50);
    KVT_REFUSED(&t, SNIC_EPERM,
                acl_set(&t, f, ACL_ACCESS, ACL(U, 6, NOBODY, G, 4, NOBODY, O, 4, NOBODY)));
    KVT_REFUSED(&t, SNIC_EPERM, acl_remove(&t, f, ACL_ACCESS));
    kvt_close(&t);
}

/* One that is equivalent to mode bits becomes mode bits. */
static void test_kvfs_acl_minimal_is_mode(void **state)
{
    struct kvt t;
    struct acl a;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_file(&t, ACL_ROOT, "f", 0640);
    assert_int_equal(acl_set(&t, f, ACL_ACCESS, ACL(U, 7, NOBODY, G, 5, NOBODY, O, 1, NOBODY)), 0);
    assert_int_equal(acl_attr(&t, f).mode, 0100751);
    assert_int_equal(acl_get(&t, f, ACL_ACCESS, &a), SNIC_ENODATA);
    audit_mounted(&t);
    struct acl full = ACL(U, 7, NOBODY, UN, 6, 40, G, 5, NOBODY, M, 6, NOBODY, O, 0, NOBODY);
    assert_int_equal(acl_set(&t, f, ACL_ACCESS, full), 0);
    assert_int_equal(acl_attr(&t, f).mode, 0100760); /* the group bits are the mask */
    acl_is(&t, f, ACL_ACCESS, full);
    audit_mounted(&t);
    assert_int_equal(acl_set(&t, f, ACL_ACCESS, ACL(U, 6, NOBODY, G, 4, NOBODY, O, 4, NOBODY)), 0);
    assert_int_equal(acl_get(&t, f, ACL_ACCESS, &a), SNIC_ENODATA);
    audit_mounted(&t);
    assert_int_equal(acl_set(&t, f, ACL_ACCESS, full), 0);
    assert_int_equal(acl_remove(&t, f, ACL_ACCESS), 0);
    assert_int_equal(acl_get(&t, f, ACL_ACCESS, &a), SNIC_ENODATA);
    assert_int_equal(acl_attr(&t, f).mode, 0100760);
    KVT_REFUSED(&t, 0, acl_remove(&t, f, ACL_ACCESS)); /* none is fine */
    assert_int_equal(acl_set(&t, f, ACL_ACCESS, full), 0);
    assert_int_equal(acl_set_bytes(&t, f, ACL_ACCESS, full.bytes, 4), 0); /* no entries: off */
    assert_int_equal(acl_get(&t, f, ACL_ACCESS, &a), SNIC_ENODATA);
    audit_mounted(&t);
    kvt_close(&t);
}

/* chmod and the list are one: the owner, the mask and the others are the mode's. */
static void test_kvfs_acl_chmod_changes_mask(void **state)
{
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t f = kvt_file(&t, ACL_ROOT, "f", 0640);
    assert_int_equal(
        acl_set(&t, f, ACL_ACCESS,
                ACL(U, 7, NOBODY, UN, 6, 40, G, 5, NOBODY, GN, 7, 60, M, 7, NOBODY, O, 0, NOBODY)),
        0);
    assert_int_equal(acl_chmod(&t, f, 0421), 0);
    acl_is(&t, f, ACL_ACCESS,
           ACL(U, 4, NOBODY, UN, 6, 40, G, 5, NOBODY, GN, 7, 60, M, 2, NOBODY, O, 1, NOBODY));
    acl_as(&t, 40, 99);
    assert_int_equal(kvt_access(&t, f, 2), 0);
    assert_int_equal(kvt_access(&t, f, 4), SNIC_EACCES);
    kvt_close(&t);
}

/* ---- What it grants ---- */

/* POSIX.1e: owner; named user under the mask; any group that grants, under it; others. */
static uint32_t acl_grants(const uint32_t *e, uint32_t uid, uint32_t gid, uint32_t owner,
                           uint32_t group, uint32_t want)
{
    uint32_t mask = 7, member = 0, granted = 0, other = 0, user = 8, mine = 0;
    for (; *e != 0; e += 3) {
        if (e[0] == U)
            mine = e[1];
        if (e[0] == UN && e[2] == uid)
            user = e[1];
        if ((e[0] == G && gid == group) || (e[0] == GN && gid == e[2])) {
            member = 1;
            granted |= (want & ~e[1]) == 0;
        }
        if (e[0] == M)
            mask = e[1];
        if (e[0] == O)
            other = e[1];
    }
    if (uid == owner)
        return (want & ~mine) == 0;
    if (user != 8)
        return (want & ~(user & mask)) == 0;
    if (member)
        return granted && (want & ~mask) == 0;
    return (want & ~other) == 0;
}

static void test_kvfs_acl_access_as_model(void **state)
{
    struct kvt t;
    struct snic_fsop_attr own = {.uid = 10, .gid = 20};
    struct snic_rng rng;
    (void)state;
    kvt_open(&t, NULL);
    snic_rng_init(&rng, support_seed());
    uint64_t f = kvt_file(&t, ACL_ROOT, "f", 0640);
    assert_int_equal(kvt_setattr(&t, f, SNIC_FSOP_SET_UID | SNIC_FSOP_SET_GID, &own), 0);
    for (uint64_t round = 0; round < support_scale(2000, 100000); round++) {
        uint32_t e[] = {U, 0,  NOBODY, UN, 0,  11, UN, 0,      12, G, 0,      NOBODY, GN,
                        0, 21, GN,     0,  22, M,  0,  NOBODY, O,  0, NOBODY, 0};
        for (int i = 1; i < 24; i += 3)
            e[i] = (uint32_t)snic_rng_below(&rng, 8);
        acl_as(&t, 0, 0);
        assert_int_equal(acl_set(&t, f, ACL_ACCESS, acl_make(e)), 0);
        for (int i = 0; i < 12; i++) {
            uint32_t uid = 10 + (uint32_t)snic_rng_below(&rng, 4);
            uint32_t gid = 20 + (uint32_t)snic_rng_below(&rng, 4);
            uint32_t want = (uint32_t)snic_rng_below(&rng, 8);
            acl_as(&t, uid, gid);
            assert_int_equal(kvt_access(&t, f, want),
                             acl_grants(e, uid, gid, 10, 20, want) ? 0 : SNIC_EACCES);
        }
    }
    kvt_close(&t);
}

/* ---- What it leaves to new inodes ---- */

static void test_kvfs_acl_default_inherited(void **state)
{
    struct kvt t;
    struct acl a;
    struct acl d =
        ACL(U, 7, NOBODY, UN, 7, 40, G, 5, NOBODY, GN, 3, 60, M, 7, NOBODY, O, 5, NOBODY);
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, ACL_ROOT, "d", 0755);
    assert_int_equal(acl_set(&t, dir, ACL_DEFAULT, d), 0);
    assert_int_equal(acl_attr(&t, dir).mode, 0040755);
    t.cred.umask = 077; /* does not count here */
    uint64_t f = kvt_file(&t, dir, "f", 0640);
    assert_int_equal(acl_attr(&t, f).mode, 0100640);
    acl_is(&t, f, ACL_ACCESS,
           ACL(U, 6, NOBODY, UN, 7, 40, G, 5, NOBODY, GN, 3, 60, M, 4, NOBODY, O, 0, NOBODY));
    assert_int_equal(acl_get(&t, f, ACL_DEFAULT, &a), SNIC_ENODATA);
    uint64_t s = kvt_mkdir(&t, dir, "s", 0777);
    assert_int_equal(acl_attr(&t, s).mode, 0040775);
    acl_is(&t, s, ACL_DEFAULT, d);
    acl_is(&t, s, ACL_ACCESS, d);
    uint64_t l = (uint64_t)kvt_try_symlink(&t, dir, "l", "x");
    assert_int_equal(acl_attr(&t, l).mode, 0120777);
    assert_int_equal(acl_get(&t, l, ACL_ACCESS, &a), SNIC_ENODATA);
    audit_mounted(&t);
    /* A minimal default: modes are cut, and no list is left to files. */
    assert_int_equal(acl_set(&t, dir, ACL_DEFAULT, ACL(U, 7, NOBODY, G, 5, NOBODY, O, 0, NOBODY)),
                     0);
    uint64_t g = kvt_file(&t, dir, "g", 0666);
    assert_int_equal(acl_attr(&t, g).mode, 0100640);
    assert_int_equal(acl_get(&t, g, ACL_ACCESS, &a), SNIC_ENODATA);
    uint64_t s2 = kvt_mkdir(&t, dir, "s2", 0777);
    acl_is(&t, s2, ACL_DEFAULT, ACL(U, 7, NOBODY, G, 5, NOBODY, O, 0, NOBODY));
    assert_int_equal(acl_get(&t, s2, ACL_ACCESS, &a), SNIC_ENODATA);
    audit_mounted(&t);
    assert_int_equal(acl_remove(&t, dir, ACL_DEFAULT), 0);
    assert_int_equal(acl_attr(&t, kvt_file(&t, dir, "h", 0666)).mode, 0100600);
    audit_mounted(&t);
    assert_int_equal(kvt_rmdir(&t, dir, "s"), 0);
    assert_int_equal(kvt_unlink(&t, dir, "f"), 0);
    audit_mounted(&t);
    kvt_close(&t);
}

/* Directories are searched under it, and setgid goes when an outsider sets it. */
static void test_kvfs_acl_search_and_setgid(void **state)
{
    struct kvt t;
    struct snic_fsop_attr own = {.uid = 40, .gid = 50};
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, ACL_ROOT, "d", 0700);
    uint64_t f = kvt_file(&t, dir, "f", 0644);
    assert_int_equal(
        acl_set(&t, dir, ACL_ACCESS,
                ACL(U, 7, NOBODY, UN, 3, 40, UN, 1, 41, G, 0, NOBODY, M, 7, NOBODY, O, 0, NOBODY)),
        0);
    acl_as(&t, 40, 50);
    assert_int_equal(kvt_lookup(&t, dir, "f"), f);
    uint64_t g = kvt_file(&t, dir, "g", 0644);
    acl_as(&t, 41, 50);
    assert_int_equal(kvt_lookup(&t, dir, "f"), f);
    KVT_REFUSED(&t, SNIC_EACCES, kvt_unlink(&t, dir, "g"));
    acl_as(&t, 42, 50);
    KVT_REFUSED(&t, SNIC_EACCES, kvt_try_lookup(&t, dir, "f"));
    acl_as(&t, 0, 0);
    assert_int_equal(kvt_setattr(&t, g, SNIC_FSOP_SET_UID | SNIC_FSOP_SET_GID, &own), 0);
    assert_int_equal(acl_chmod(&t, g, 02755), 0);
    acl_as(&t, 40, 50);
    assert_int_equal(acl_set(&t, g, ACL_ACCESS, ACL(U, 7, NOBODY, G, 5, NOBODY, O, 5, NOBODY)), 0);
    assert_int_equal(acl_attr(&t, g).mode, 0102755);
    acl_as(&t, 40, 51);
    assert_int_equal(acl_set(&t, g, ACL_ACCESS, ACL(U, 7, NOBODY, G, 5, NOBODY, O, 5, NOBODY)), 0);
    assert_int_equal(acl_attr(&t, g).mode, 0100755);
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_acl_malformed_refused),
        cmocka_unit_test(test_kvfs_acl_minimal_is_mode),
        cmocka_unit_test(test_kvfs_acl_chmod_changes_mask),
        cmocka_unit_test(test_kvfs_acl_access_as_model),
        cmocka_unit_test(test_kvfs_acl_default_inherited),
        cmocka_unit_test(test_kvfs_acl_search_and_setgid),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
