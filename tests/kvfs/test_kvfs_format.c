/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Records: what is encoded is decoded, what cannot be is refused, bytes on disk stay as they are.
 */
#include "snicstore/kvfs_format.h"
#include "golden.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

static void sample_attr(struct snic_fsop_attr *a)
{
    *a = (struct snic_fsop_attr){.ino = 0x1122334455667788,
                                 .size = 0x0203040506070809,
                                 .space = 4096,
                                 .rdev = 77,
                                 .mode = 0100644,
                                 .nlink = 3,
                                 .uid = 1000,
                                 .gid = 1001,
                                 .flags = SNIC_KVFS_ATTR_BIG | SNIC_KVFS_ATTR_PARENT,
                                 .atime = {-5, 1, 0},
                                 .mtime = {1700000000, 999999999, 0},
                                 .ctime = {1, 2, 0},
                                 .btime = {3, 4, 0},
                                 .parent = 9,
                                 .name = {0xaabb, 0xccdd},
                                 .version = 5,
                                 .entries = 6};
}

static void test_kvfs_format_attr_round_trip(void **state)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_fsop_attr a, b;
    (void)state;
    sample_attr(&a);
    memset(&b, 0, sizeof(b));
    snic_kvfs_attr_encode(record, &a);
    assert_int_equal(snic_kvfs_attr_decode(&b, record, sizeof(record)), 0);
    assert_memory_equal(&a, &b, sizeof(a));
}

/* A change of the layout is a new version of the format: these numbers do not move. */
static void test_kvfs_format_bytes_stay(void **state)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES], super[SNIC_KVFS_SUPER_BYTES];
    struct snic_kvfs_super s = {.version = 1, .seed = 2, .uuid = {3}, .created = {4, 5, 0}};
    struct snic_fsop_hash h = snic_kvfs_hash_name(7, "name", 4);
    struct snic_fsop_attr a;
    struct snic_kvop_key k;
    (void)state;
    sample_attr(&a);
    snic_kvfs_attr_encode(record, &a);
    snic_kvfs_key(&k, a.ino, SNIC_KVFS_REC_ATTR);
    snic_kvfs_seal(&k, record, sizeof(record), 0);
    assert_int_equal(snic_crc32c(0, record, sizeof(record)), 0x51b18431);
    snic_kvfs_super_encode(super, &s);
    snic_kvfs_key(&k, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SUPER);
    snic_kvfs_seal(&k, super, sizeof(super), 0);
    assert_int_equal(snic_crc32c(0, super, sizeof(super)), 0x1b7abf24);
    assert_true(h.high == 0x0c9a4df80df7ad2cULL);
    snic_kvfs_key_hash(&k, 1, SNIC_KVFS_REC_ENTRY, h);
    assert_int_equal(k.size, 17);
    assert_int_equal(k.bytes[0], 'E');
    assert_true(snic_get_be64(k.bytes + 1) == h.high && snic_get_be64(k.bytes + 9) == h.low);
}

static void vector(const struct snic_kvop_key *k, const char *title, void *record, uint32_t size)
{
    snic_kvfs_seal(k, record, size, 0);
    golden_bytes("kvfs", title, record, size);
}

/* lib/kvfs/FORMAT.md. */
static void test_kvfs_format_vectors(void **state)
{
    static unsigned char r[SNIC_KVFS_INTENT_BYTES];
    struct snic_fsop_hash h = snic_kvfs_hash_name(7, "name", 4);
    struct snic_kvfs_super super = {
        .version = 1, .seed = 2, .uuid = {3}, .created = {1700000000, 5, 0}};
    struct snic_kvfs_entry e = {.ino = 0x0102, .type = 0100000, .name_size = 4, .name = "name"};
    struct snic_kvfs_session session = {.flags = SNIC_KVFS_SESSION_CACHES, .range_count = 2};
    struct snic_kvfs_orphan orphan = {.count = 1, .claims = {{9, 1}}};
    static struct snic_kvfs_intent intent = {
        .state = SNIC_KVFS_INTENT_COMMITTED, .key_count = 1, .object_count = 1, .objects = {6}};
    struct snic_fsop_attr a;
    struct snic_kvop_key k;
    uint32_t size = 0;
    (void)state;
    sample_attr(&a);
    snic_kvfs_attr_encode(r, &a);
    snic_kvfs_key(&k, a.ino, SNIC_KVFS_REC_ATTR);
    vector(&k, "attributes", r, SNIC_KVFS_ATTR_BYTES);
    snic_kvfs_super_encode(r, &super);
    snic_kvfs_key(&k, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SUPER);
    vector(&k, "superblock", r, SNIC_KVFS_SUPER_BYTES);
    assert_int_equal(snic_kvfs_entry_append(r, &size, sizeof(r), &e), 0);
    e = (struct snic_kvfs_entry){.ino = 3, .type = 0040000, .name_size = 3, .name = "dir"};
    assert_int_equal(snic_kvfs_entry_append(r, &size, sizeof(r), &e), 0);
    snic_kvfs_key_hash(&k, 1, SNIC_KVFS_REC_ENTRY, h);
    vector(&k, "entries", r, size);
    session.ranges[0] = (struct snic_kvfs_range){2, 0x1000};
    session.ranges[1] = (struct snic_kvfs_range){0x5000, 0x10};
    snic_kvfs_key_number(&k, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, 9);
    vector(&k, "session", r, snic_kvfs_session_encode(r, &session));
    snic_kvfs_key_number(&k, SNIC_KVFS_GROUP_ORPHANS, SNIC_KVFS_REC_ORPHAN, 10);
    vector(&k, "orphan", r, snic_kvfs_orphan_encode(r, &orphan));
    snic_kvfs_key(&intent.keys[0], 5, SNIC_KVFS_REC_ATTR);
    snic_kvfs_key_intent(&k, 9, 3);
    vector(&k, "intent", r, snic_kvfs_intent_encode(r, &intent));
    snic_kvfs_number_encode(r, 0x1234);
    snic_kvfs_key(&k, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_NEXT_INO);
    vector(&k, "number", r, SNIC_KVFS_NUMBER_BYTES);
}

static void test_kvfs_format_attr_wrong_refused(void **state)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_fsop_attr a, b, untouched;
    (void)state;
    memset(&b, 0x5a, sizeof(b));
    untouched = b;
    for (int i = 0; i < 9; i++) {
        sample_attr(&a);
        if (i == 0)
            a.ino = 1;
        else if (i == 1)
            a.ino = SNIC_KVFS_INO_MAX;
        else if (i == 2)
            a.size = SNIC_KVOP_OBJECT_MAX + 1;
        else if (i == 3)
            a.mode = 0644;
        else if (i == 4)
            a.mode = 0110644;
        else if (i == 5)
            a.mtime.nsec = 1000000000;
        else if (i == 6)
            a.flags = 1U << 30;
        snic_kvfs_attr_encode(record, &a);
        if (i == 7)
            record[SNIC_KVFS_ATTR_BYTES - 1] = 1;
        assert_int_equal(snic_kvfs_attr_decode(&b, record, sizeof(record) - (i == 8)),
                         SNIC_ECORRUPT);
        assert_memory_equal(&b, &untouched, sizeof(b));
    }
}

/* Each flipped bit of record or key is noticed. */
static void test_kvfs_format_seal_flips_noticed(void **state)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_kvop_key k;
    struct snic_fsop_attr a;
    (void)state;
    sample_attr(&a);
    snic_kvfs_attr_encode(record, &a);
    snic_kvfs_key(&k, a.ino, SNIC_KVFS_REC_ATTR);
    snic_kvfs_seal(&k, record, sizeof(record), SNIC_KVFS_RESERVED);
    assert_int_equal(snic_kvfs_verify(&k, record, sizeof(record)), SNIC_KVFS_RESERVED);
    for (uint32_t bit = 0; bit < sizeof(record) * 8; bit++) {
        record[bit / 8] ^= (unsigned char)(1U << bit % 8);
        assert_int_equal(snic_kvfs_verify(&k, record, sizeof(record)), SNIC_ECORRUPT);
        record[bit / 8] ^= (unsigned char)(1U << bit % 8);
    }
    for (uint32_t size = 0; size < sizeof(record); size++)
        assert_int_equal(snic_kvfs_verify(&k, record, size), SNIC_ECORRUPT);
    k.group++;
    assert_int_equal(snic_kvfs_verify(&k, record, sizeof(record)), SNIC_ECORRUPT);
}

static void reseal(const struct snic_kvop_key *k, unsigned char *record, uint32_t size)
{
    unsigned char head[8 + SNIC_KVOP_KEY_MAX + 8];
    snic_put_le64(head, k->group);
    memcpy(head + 8, k->bytes, k->size);
    memcpy(head + 8 + k->size, record, 4);
    memset(head + 12 + k->size, 0, 4);
    snic_put_le32(record + 4,
                  snic_crc32c(snic_crc32c(0, head, 16U + k->size), record + 8, size - 8));
}

/* A record of another version, or with flags of one, is distinguished from a damaged one. */
static void test_kvfs_format_version_other_refused(void **state)
{
    unsigned char record[SNIC_KVFS_SUPER_BYTES];
    struct snic_kvfs_super s = {.version = 1, .seed = 2}, out;
    struct snic_kvop_key k;
    (void)state;
    snic_kvfs_key(&k, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SUPER);
    snic_kvfs_super_encode(record, &s);
    snic_kvfs_seal(&k, record, sizeof(record), 0);
    assert_int_equal(snic_kvfs_verify(&k, record, sizeof(record)), 0);
    assert_int_equal(snic_kvfs_super_decode(&out, record, sizeof(record)), 0);
    assert_memory_equal(&s, &out, sizeof(s));
    record[1] = 2;
    reseal(&k, record, sizeof(record));
    assert_int_equal(snic_kvfs_verify(&k, record, sizeof(record)), SNIC_EVERSION);
    record[1] = 1;
    record[3] = 0x80;
    reseal(&k, record, sizeof(record));
    assert_int_equal(snic_kvfs_verify(&k, record, sizeof(record)), SNIC_EVERSION);
    s.version = 2;
    snic_kvfs_super_encode(record, &s);
    assert_int_equal(snic_kvfs_super_decode(&out, record, sizeof(record)), SNIC_EVERSION);
    assert_int_equal(snic_kvfs_super_decode(&out, record, sizeof(record) - 1), SNIC_ECORRUPT);
}

static void test_kvfs_format_entries_round_trip(void **state)
{
    unsigned char record[4096];
    struct snic_kvfs_entry e = {.type = 0040000}, out;
    char name[1024];
    uint32_t size = 0, at = 0, n = 0;
    (void)state;
    memset(name, 'x', sizeof(name));
    e.name = name;
    for (;; n++) {
        e.ino = n + 2;
        e.name_size = 1 + n * 100;
        if (e.name_size > 1024 || snic_kvfs_entry_append(record, &size, sizeof(record), &e) != 0)
            break;
    }
    assert_int_equal(n, 9); /* and the tenth did not fit */
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(snic_kvfs_entry_next(record, size, &at, &out), 1);
        assert_int_equal(out.ino, i + 2);
        assert_int_equal(out.name_size, 1 + i * 100);
        assert_int_equal(out.type, 0040000);
        assert_memory_equal(out.name, name, out.name_size);
    }
    assert_int_equal(snic_kvfs_entry_next(record, size, &at, &out), 0);
    /* Every shorter record ends within an entry, or at the end of one. */
    for (uint32_t cut = SNIC_KVFS_HEAD; cut < size; cut++) {
        int rc = 1;
        for (at = 0; rc == 1;)
            rc = snic_kvfs_entry_next(record, cut, &at, &out);
        assert_true(rc == 0 || rc == SNIC_ECORRUPT);
        assert_true(at <= cut);
    }
}

static void test_kvfs_format_entries_wrong_refused(void **state)
{
    unsigned char good[64], record[64];
    struct snic_kvfs_entry e = {.ino = 5, .type = 0100000, .name_size = 4, .name = "name"}, out;
    uint32_t size = 0, at;
    (void)state;
    assert_int_equal(snic_kvfs_entry_append(good, &size, sizeof(good), &e), 0);
    for (int i = 0; i < 8; i++) {
        memcpy(record, good, size);
        if (i == 0)
            record[8] = 1; /* the root's number of outside */
        else if (i == 1)
            record[15] = 0xff;
        else if (i == 2)
            record[16] = 1; /* permissions in the type */
        else if (i == 3)
            record[20] = 200;
        else if (i == 4)
            record[20] = 0;
        else if (i == 5)
            record[24] = '/';
        else
            record[25] = 0;
        if (i == 7) { /* the first number that no inode has */
            memcpy(record, good, size);
            snic_put_le64(record + 8, SNIC_KVFS_INO_MAX);
        }
        at = 0;
        assert_int_equal(snic_kvfs_entry_next(record, size, &at, &out), SNIC_ECORRUPT);
    }
    at = 0;
    assert_int_equal(snic_kvfs_entry_next(good, SNIC_KVFS_HEAD, &at, &out), SNIC_ECORRUPT);
}

static void test_kvfs_format_text_and_cookies(void **state)
{
    struct snic_kvop_key k;
    struct snic_fsop_hash h = {0x0123456789abcdef, 0xfedcba9876543210};
    char text[256];
    (void)state;
    snic_kvfs_key_hash(&k, 12, SNIC_KVFS_REC_ENTRY, h);
    snic_kvfs_key_text(&k, text, sizeof(text));
    assert_string_equal(text, "group 12 'E' 0123456789abcdeffedcba9876543210");
    snic_kvfs_key_text(&k, text, 10);
    assert_string_equal(text, "group 12 ");
    snic_kvfs_key(&k, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SUPER);
    snic_kvfs_key_text(&k, text, sizeof(text));
    assert_string_equal(text, "group super 'S'");
    snic_kvfs_key_parent(&k, 3, 4, h);
    assert_int_equal(k.size, 25);
    snic_kvfs_key_intent(&k, 3, 4);
    assert_true(k.group == SNIC_KVFS_GROUP_INTENTS && k.size == 17);
    snic_kvfs_key_number(&k, SNIC_KVFS_GROUP_ORPHANS, SNIC_KVFS_REC_ORPHAN, 9);
    assert_int_equal(snic_get_be64(k.bytes + 1), 9);
    for (uint64_t high = 0; high < 8; high++)
        assert_true(snic_kvfs_cookie((struct snic_fsop_hash){high, 0}) == 3);
    assert_true(snic_kvfs_cookie((struct snic_fsop_hash){UINT64_MAX, 0}) == INT64_MAX);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_format_attr_round_trip),
        cmocka_unit_test(test_kvfs_format_bytes_stay),
        cmocka_unit_test(test_kvfs_format_vectors),
        cmocka_unit_test(test_kvfs_format_attr_wrong_refused),
        cmocka_unit_test(test_kvfs_format_seal_flips_noticed),
        cmocka_unit_test(test_kvfs_format_version_other_refused),
        cmocka_unit_test(test_kvfs_format_entries_round_trip),
        cmocka_unit_test(test_kvfs_format_entries_wrong_refused),
        cmocka_unit_test(test_kvfs_format_text_and_cookies),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
