/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The checker: records that are gone are missed, and what was lost with them is named. */
#include "../../examples/kvfs_tool/fsck.h"
#include "test_kvfs_many.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lost {
    struct snic_kvmem *m;
    uint64_t dir, small, big, hole;
    uint64_t broken; /* an object whose map is damaged */
    char printed[8192];
};

static int64_t lost_op(void *ctx, struct snic_kvop *op)
{
    struct lost *l = ctx;
    if (l->broken != 0 && op->object == l->broken && op->kind >= SNIC_KVOP_OBJECT_READ)
        op->result = SNIC_ECORRUPT;
    else
        snic_kvmem_apply(l->m, op);
    return op->result;
}

static void lost_print(void *ctx, const char *line)
{
    struct lost *l = ctx;
    size_t n = strlen(l->printed);
    snprintf(l->printed + n, sizeof(l->printed) - n, "%s\n", line);
}

static enum fsck_code lost_fsck(struct lost *l, int repair, struct fsck_report *r)
{
    struct fsck_opts o = {
        .op = lost_op, .print = lost_print, .ctx = l, .repair = repair, .data = 1};
    l->printed[0] = 0;
    return fsck_run(&o, r);
}

/* /dir/small of 3000 bytes, /dir/big of 2 MiB, and files whose holes are no loss. */
static void lost_begin(struct lost *l)
{
    struct kvt t;
    char *bytes = malloc(2u << 20);
    assert_non_null(bytes);
    memset(bytes, 'b', 2u << 20);
    kvt_open(&t, NULL);
    memset(l, 0, sizeof(*l));
    l->m = t.m;
    t.owns_medium = 0;
    l->dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    l->small = kvt_file(&t, l->dir, "small", 0644);
    l->big = kvt_file(&t, l->dir, "big", 0644);
    l->hole = kvt_file(&t, SNIC_FSOP_ROOT, "hole", 0644);
    uint64_t shrunk = kvt_file(&t, SNIC_FSOP_ROOT, "shrunk", 0644);
    uint64_t sparse = kvt_file(&t, SNIC_FSOP_ROOT, "sparse", 0644);
    assert_int_equal(kvt_write(&t, l->small, 0, bytes, 3000), 3000);
    for (uint64_t at = 0; at < 2u << 20; at += 1u << 19)
        assert_int_equal(kvt_write(&t, l->big, at, bytes, 1u << 19), 1u << 19);
    assert_int_equal(kvt_truncate(&t, l->hole, 3000), 0);
    assert_int_equal(kvt_write(&t, shrunk, 0, bytes, 100000), 100000);
    assert_int_equal(kvt_truncate(&t, shrunk, 0), 0);
    assert_int_equal(kvt_truncate(&t, shrunk, 5000), 0);
    assert_int_equal(kvt_truncate(&t, sparse, 1u << 20), 0);
    kvt_close(&t);
    free(bytes);
}

static void lost_forget(struct lost *l, uint64_t group, enum snic_kvfs_record kind)
{
    struct snic_kvop_change c = {.kind = SNIC_KVOP_DELETE};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    snic_kvfs_key(&c.key, group, kind);
    assert_int_equal(lost_op(l, &op), 0);
}

static void lost_end(struct lost *l)
{
    struct fsck_report r;
    assert_int_equal(lost_fsck(l, 0, &r), FSCK_CLEAN);
    assert_string_equal(l->printed, "");
    audit_store(l->m, 0, NULL);
    snic_kvmem_close(l->m);
}

/* Found, with its path, at each look; mended once, and then no more. */
static void lost_found(struct lost *l, const char *path, const char *record, const char *what)
{
    struct fsck_report r;
    for (int repair = 0; repair < 2; repair++) {
        assert_int_equal(lost_fsck(l, repair, &r), repair ? FSCK_MENDED : FSCK_LEFT);
        assert_non_null(strstr(l->printed, path));
        assert_non_null(strstr(l->printed, record));
        assert_non_null(strstr(l->printed, what));
    }
}

static void test_kvfs_fsck_lost_small_bytes_found(void **state)
{
    struct lost l;
    char record[64];
    (void)state;
    lost_begin(&l);
    lost_forget(&l, l.small, SNIC_KVFS_REC_DATA);
    snprintf(record, sizeof(record), "group %llu 'D'", (unsigned long long)l.small);
    lost_found(&l, "/dir/small: ", record, "3000 bytes read as zeros");
    lost_end(&l);
}

static void test_kvfs_fsck_lost_object_found(void **state)
{
    struct lost l;
    char record[64];
    (void)state;
    for (int all = 0; all < 2; all++) {
        lost_begin(&l);
        struct snic_kvop op = {.kind = all ? SNIC_KVOP_OBJECT_TRUNCATE : SNIC_KVOP_OBJECT_PUNCH,
                               .object = l.big,
                               .length = all ? 0 : 1u << 20};
        assert_int_equal(lost_op(&l, &op), 0);
        snprintf(record, sizeof(record), "group %llu 'A'", (unsigned long long)l.big);
        lost_found(&l, "/dir/big: ", record,
                   all ? "2097152 of its 2097152" : "1048576 of its 2097152");
        lost_end(&l);
    }
}

/* Neither the space nor the bytes of such an object can be asked for. */
static void test_kvfs_fsck_lost_map_damaged_found(void **state)
{
    struct lost l;
    struct fsck_report r;
    (void)state;
    lost_begin(&l);
    l.broken = l.big;
    for (int repair = 0; repair < 2; repair++) {
        assert_int_equal(lost_fsck(&l, repair, &r), FSCK_LEFT);
        assert_int_equal(r.findings, 1);
        assert_non_null(strstr(l.printed, "/dir/big: corrupt map of extents"));
    }
    l.broken = 0;
    lost_end(&l);
}

/* A file with holes in it has lost nothing; nor has one with more bytes than were counted. */
static void test_kvfs_fsck_lost_nothing_clean(void **state)
{
    struct lost l;
    struct fsck_report r;
    char byte = 'x';
    struct snic_iov iov = {&byte, 1};
    struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_WRITE,
                           .offset = 4u << 20,
                           .length = 1,
                           .iov = &iov,
                           .iov_count = 1};
    (void)state;
    lost_begin(&l);
    assert_int_equal(lost_fsck(&l, 0, &r), FSCK_CLEAN);
    assert_string_equal(l.printed, "");
    op.object = l.big;
    assert_int_equal(lost_op(&l, &op), 1);
    assert_int_equal(lost_fsck(&l, 0, &r), FSCK_CLEAN);
    assert_non_null(strstr(l.printed, "--repair corrects it"));
    assert_int_equal(lost_fsck(&l, 1, &r), FSCK_MENDED);
    lost_end(&l);
}

/* Space that one session defers is none of a file that another has made small meanwhile. */
static void test_kvfs_fsck_lost_deferred_not_counted(void **state)
{
    static struct many y;
    static char bytes[20000];
    struct snic_iov iov = {bytes, sizeof(bytes)};
    struct snic_fsop req;
    struct lost l = {.m = NULL};
    struct fsck_report r;
    (void)state;
    many_open_with(&y, 2, 0, support_seed(), 100000000);
    many_mount(&y);
    kvt_req(&y.t[0], &req, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "f");
    req.mode = 0100644;
    assert_int_equal(many_call(&y, 0, &req), 0);
    uint64_t ino = req.attr.ino;
    for (uint32_t step = 0; step < 3; step++) { /* a hole, bytes in it, and all goes */
        kvt_req(&y.t[step / 2], &req, step == 1 ? SNIC_FSOP_WRITE : SNIC_FSOP_SETATTR, ino, NULL);
        req.set_mask = SNIC_FSOP_SET_SIZE;
        req.attr.size = step == 0 ? 1u << 20 : 0;
        req.iov = &iov;
        req.iov_count = step == 1;
        req.length = step == 1 ? sizeof(bytes) : 0;
        assert_true(many_call(&y, step / 2, &req) >= 0);
    }
    many_pass(&y, 200000000);
    l.m = y.m;
    assert_int_equal(lost_fsck(&l, 0, &r), FSCK_CLEAN);
    assert_null(strstr(l.printed, "space"));
    many_close(&y);
}

/* ---- Every record, damaged in every way ---- */

enum lost_way { WAY_STORE, WAY_FLIP, WAY_CUT, WAY_GROW, WAY_ZERO, WAYS };

/* A store that a mount has left dying, with records of all kinds but intents. */
static void lost_begin_all(struct lost *l)
{
    static const unsigned char value[] = "value";
    unsigned char record[SNIC_KVFS_HEAD + 40] = {0};
    struct snic_iov iov = {(void *)(uintptr_t)value, sizeof(value)};
    struct snic_kvop_change c = {.kind = SNIC_KVOP_PUT, .value = record, .size = sizeof(record)};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    struct snic_fsop req;
    struct kvt t;
    lost_begin(l);
    kvt_open_on(&t, l->m, NULL);
    assert_int_equal(kvt_mount(&t), 0);
    assert_true(kvt_try_symlink(&t, SNIC_FSOP_ROOT, "soft", "target") > 0);
    assert_int_equal(kvt_link(&t, l->small, SNIC_FSOP_ROOT, "second"), 0);
    uint64_t gone = kvt_create(&t, SNIC_FSOP_ROOT, "gone", 0644);
    assert_int_equal(kvt_unlink(&t, SNIC_FSOP_ROOT, "gone"), 0);
    uint64_t sub = kvt_mkdir(&t, SNIC_FSOP_ROOT, "sub", 0755);
    assert_true(sub != 0 && gone != 0);
    assert_int_equal(kvt_rename(&t, SNIC_FSOP_ROOT, "sub", l->dir, "sub", 0), 0);
    kvt_req(&t, &req, SNIC_FSOP_SETXATTR, l->small, "user.x");
    req.iov = &iov;
    req.iov_count = 1;
    assert_int_equal(kvt_call(&t, &req), 0);
    kvt_settle(&t);
    t.quiet = 1;
    kvt_close(&t);
    snic_kvfs_key(&c.key, l->small, SNIC_KVFS_REC_LOCKS);
    snic_put_le64(record + SNIC_KVFS_HEAD + 24, 10);
    snic_put_le32(record + SNIC_KVFS_HEAD + 32, SNIC_FSOP_RDLCK);
    snic_kvfs_seal(&c.key, record, sizeof(record), 0);
    assert_int_equal(lost_op(l, &op), 0);
}

static void lost_damage(struct lost *l, const struct snic_kvop_key *key, enum lost_way way)
{
    static unsigned char value[SNIC_KVOP_VALUE_MAX];
    struct snic_kvop_get g = {.key = *key, .value = value, .room = sizeof(value) - 5};
    struct snic_kvop get = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    struct snic_kvop_change c = {.key = *key, .kind = SNIC_KVOP_PUT, .value = value};
    struct snic_kvop put = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    assert_int_equal(lost_op(l, &get), 0);
    c.size = way == WAY_CUT ? (g.size + 1) / 2 : g.size + (way == WAY_GROW ? 5 : 0);
    if (way == WAY_FLIP)
        value[g.size - 1] ^= 1;
    if (way == WAY_ZERO)
        memset(value, 0, g.size);
    if (way == WAY_STORE)
        assert_int_equal(snic_kvmem_damage_record(l->m, key), 0);
    else
        assert_int_equal(lost_op(l, &put), 0);
}

/* The kinds that repair may take away, or makes anew. */
static int lost_soft(const struct snic_kvop_key *key)
{
    return strchr("KPsIMO", key->bytes[0]) != NULL;
}

/* The key is named, the rest is looked at, and nothing changes by looking. */
static void lost_look(struct lost *l, const struct snic_kvop_key *key, enum lost_way way)
{
    struct lost copy = {.m = NULL};
    struct fsck_report r;
    char text[256];
    snic_kvfs_key_text(key, text, sizeof(text));
    assert_int_equal(snic_kvmem_clone(l->m, &copy.m), 0);
    lost_damage(&copy, key, way);
    uint64_t before = snic_kvmem_digest(copy.m);
    int super = key->bytes[0] == SNIC_KVFS_REC_SUPER;
    enum fsck_code look = lost_fsck(&copy, 0, &r);
    if (look != (super ? FSCK_ERROR : FSCK_LEFT) || strstr(copy.printed, text) == NULL)
        print_error("%s, way %d: %d\n%s", text, (int)way, (int)look, copy.printed);
    assert_int_equal(look, super ? FSCK_ERROR : FSCK_LEFT);
    assert_int_equal(r.error, super ? SNIC_ECORRUPT : 0);
    assert_non_null(strstr(copy.printed, text));
    assert_true(snic_kvmem_digest(copy.m) == before);
    enum fsck_code mend = lost_fsck(&copy, 1, &r);
    if (mend != (super ? FSCK_ERROR : lost_soft(key) ? FSCK_MENDED : FSCK_LEFT))
        print_error("%s, way %d, mended: %d\n%s", text, (int)way, (int)mend, copy.printed);
    assert_int_equal(mend, super ? FSCK_ERROR : lost_soft(key) ? FSCK_MENDED : FSCK_LEFT);
    if (lost_soft(key)) {
        struct kvt t;
        struct snic_kvfs_opts o;
        assert_int_equal(lost_fsck(&copy, 0, &r), FSCK_CLEAN);
        kvt_opts(&o);
        o.session_id = 2;
        kvt_open_on(&t, copy.m, &o);
        assert_int_equal(kvt_mount(&t), 0);
        assert_true(kvt_lookup(&t, SNIC_FSOP_ROOT, "second") == l->small);
        kvt_close(&t);
        audit_store(copy.m, 0, NULL);
    }
    snic_kvmem_close(copy.m);
}

static void test_kvfs_fsck_lost_each_record_damaged_named(void **state)
{
    static unsigned char room[1 << 20];
    static uint64_t groups[256];
    struct snic_kvop all = {
        .kind = SNIC_KVOP_GROUPS, .scan_max = 256, .out = groups, .out_room = sizeof(groups)};
    char kinds[256] = {0};
    struct lost l;
    (void)state;
    lost_begin_all(&l);
    assert_int_equal(lost_op(&l, &all), 0);
    assert_true(all.end);
    for (uint32_t i = 0; i < all.out_count; i++) {
        struct snic_kvop scan = {.kind = SNIC_KVOP_SCAN,
                                 .key = {.group = groups[i]},
                                 .scan_max = 4096,
                                 .out = room,
                                 .out_room = sizeof(room)};
        assert_int_equal(lost_op(&l, &scan), 0);
        for (const struct snic_kvop_record *r = snic_kvop_first(&scan); r != NULL;
             r = snic_kvop_next(&scan, r)) {
            struct snic_kvop_key key;
            snic_kvop_key_set(&key, groups[i], snic_kvop_record_key(r), r->key_size);
            kinds[key.bytes[0]] = 1;
            for (int way = 0; way < WAYS; way++)
                lost_look(&l, &key, (enum lost_way)way);
        }
    }
    for (const char *k = "AEDTXPKSIMsO"; *k != 0; k++)
        assert_int_equal(kinds[(unsigned char)*k], 1);
    snic_kvmem_close(l.m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_fsck_lost_small_bytes_found),
        cmocka_unit_test(test_kvfs_fsck_lost_object_found),
        cmocka_unit_test(test_kvfs_fsck_lost_map_damaged_found),
        cmocka_unit_test(test_kvfs_fsck_lost_nothing_clean),
        cmocka_unit_test(test_kvfs_fsck_lost_deferred_not_counted),
        cmocka_unit_test(test_kvfs_fsck_lost_each_record_damaged_named),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
