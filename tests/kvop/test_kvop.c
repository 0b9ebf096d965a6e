/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The vocabulary of stores: the order of keys, what is well-formed, scan output.
 */
#include "support.h"

#include "snicstore/kvop.h"

#include <string.h>

static struct snic_kvop_key key(uint64_t group, const void *bytes, uint32_t size)
{
    struct snic_kvop_key k;
    snic_kvop_key_set(&k, group, bytes, size);
    return k;
}

/* Every store lists in this order; a cursor of one store must mean the same in another. */
static void test_kvop_keys_have_one_order(void **state)
{
    (void)state;
    const struct snic_kvop_key keys[] = {
        key(0, "z", 1),    key(1, "\0", 1),   key(1, "\0\0", 2),     key(1, "a", 1),
        key(1, "a\0", 2),  key(1, "ab", 2),   key(1, "b", 1),        key(1, "\x7f", 1),
        key(1, "\x80", 1), key(1, "\xff", 1), key(1, "\xff\xff", 2), key(UINT64_MAX, "a", 1)};
    for (size_t i = 0; i < SNIC_COUNTOF(keys); i++) {
        for (size_t j = 0; j < SNIC_COUNTOF(keys); j++) {
            int r = snic_kvop_key_compare(&keys[i], &keys[j]);
            assert_int_equal(r < 0, i < j);
            assert_int_equal(r > 0, i > j);
        }
    }
}

struct parts {
    struct snic_kvop_get gets[SNIC_KVOP_GETS_MAX + 1];
    struct snic_kvop_guard guards[SNIC_KVOP_GUARDS_MAX + 1];
    struct snic_kvop_change changes[SNIC_KVOP_CHANGES_MAX + 1];
    struct snic_iov iov[SNIC_KVOP_IOV_MAX + 1];
    uint64_t out[32];
    unsigned char value[SNIC_KVOP_VALUE_MAX + 1];
};
static struct parts parts;

/** Operations of each kind with the largest counts there may be; all are fine. */
static struct snic_kvop whole(uint32_t kind)
{
    struct snic_kvop op = {.kind = kind,
                           .gets = parts.gets,
                           .get_count = SNIC_KVOP_GETS_MAX,
                           .guards = parts.guards,
                           .guard_count = SNIC_KVOP_GUARDS_MAX,
                           .changes = parts.changes,
                           .change_count = SNIC_KVOP_CHANGES_MAX,
                           .scan_max = 1,
                           .out = parts.out,
                           .out_room = sizeof(parts.out),
                           .length = SNIC_KVOP_IOV_MAX * 16,
                           .iov = parts.iov,
                           .iov_count = SNIC_KVOP_IOV_MAX};
    memset(parts.guards, 0, sizeof(parts.guards));
    memset(parts.changes, 0, sizeof(parts.changes));
    for (uint32_t i = 0; i <= SNIC_KVOP_GETS_MAX; i++) {
        parts.gets[i] = (struct snic_kvop_get){.key = key(i, "a", 1)};
        parts.guards[i].key = key(1, "guard", 5);
        parts.changes[i].key = key(1, &i, 4);
        parts.changes[i].kind = i % 2 == 0 ? SNIC_KVOP_DELETE : SNIC_KVOP_PUT;
        parts.changes[i].value = parts.value;
        parts.changes[i].size = i % 2 == 0 ? 0 : 8000;
    }
    for (uint32_t i = 0; i <= SNIC_KVOP_IOV_MAX; i++)
        parts.iov[i] = (struct snic_iov){parts.value, 16};
    return op;
}

static void test_kvop_whole_operations_are_valid(void **state)
{
    (void)state;
    for (uint32_t kind = SNIC_KVOP_GET; kind <= SNIC_KVOP_SPACE; kind++) {
        struct snic_kvop op = whole(kind);
        assert_int_equal(snic_kvop_validate(&op, SNIC_KV_CAP_ALLOC), 0);
        assert_int_equal(snic_kvop_validate(&op, 0),
                         kind == SNIC_KVOP_OBJECT_ALLOC ? SNIC_ENOTSUP : 0);
        int change = kind == SNIC_KVOP_COMMIT || kind == SNIC_KVOP_OBJECT_WRITE ||
                     (kind >= SNIC_KVOP_OBJECT_ZERO && kind <= SNIC_KVOP_OBJECT_TRUNCATE);
        assert_int_equal(snic_kvop_validate(&op, SNIC_KV_CAP_ALLOC | SNIC_KV_CAP_READONLY),
                         change ? SNIC_EPERM : 0);
        op.flags = SNIC_KVOP_DURABLE | SNIC_KVOP_RESERVE;
        assert_int_equal(snic_kvop_validate(&op, SNIC_KV_CAP_ALLOC), change ? 0 : SNIC_EINVAL);
        op.flags = 1U << 31;
        assert_int_equal(snic_kvop_validate(&op, SNIC_KV_CAP_ALLOC), SNIC_EINVAL);
    }
}

static void expect(const struct snic_kvop *op, int want)
{
    assert_int_equal(snic_kvop_validate(op, SNIC_KV_CAP_ATOMIC_MULTI), want);
}

static void test_kvop_wrong_keys_and_counts_are_refused(void **state)
{
    (void)state;
    struct snic_kvop op = whole(SNIC_KVOP_GET);
    op.get_count = SNIC_KVOP_GETS_MAX + 1;
    expect(&op, SNIC_EMSGSIZE);
    op.get_count = 0;
    expect(&op, SNIC_EINVAL);
    op = whole(SNIC_KVOP_GET);
    parts.gets[63].key.size = 0;
    expect(&op, SNIC_EINVAL);
    parts.gets[63].key.size = SNIC_KVOP_KEY_MAX + 1;
    expect(&op, SNIC_EINVAL);
    op = whole(SNIC_KVOP_GET);
    parts.gets[63].key.bytes[1] = 1; /* behind its size */
    expect(&op, SNIC_EINVAL);
    op = whole(SNIC_KVOP_GET);
    parts.gets[63].room = 1; /* nowhere */
    expect(&op, SNIC_EINVAL);
    op = whole(SNIC_KVOP_SCAN);
    op.scan_max = 0;
    expect(&op, SNIC_EINVAL);
    op = whole(SNIC_KVOP_SCAN);
    op.out = (char *)parts.out + 4;
    expect(&op, SNIC_EINVAL);
    op = whole(SNIC_KVOP_SCAN);
    op.after = key(1, "a", 1);
    expect(&op, SNIC_EINVAL); /* of another group */
    op.key.group = 1;
    expect(&op, 0);
    op = whole(SNIC_KVOP_GROUPS);
    op.out_room = 7;
    expect(&op, SNIC_EMSGSIZE);
    for (uint32_t kind = 0; kind < 300; kind++) {
        if (kind >= SNIC_KVOP_GET && kind <= SNIC_KVOP_FENCE)
            continue;
        op = whole(kind);
        expect(&op, SNIC_EINVAL);
    }
}

static void test_kvop_fences_name_one_client(void **state)
{
    const uint32_t caps = SNIC_KV_CAP_FENCE;
    struct snic_iov iov[2] = {{parts.value, 16}, {parts.value, 16}};
    struct snic_kvop op = {.kind = SNIC_KVOP_FENCE, .iov = iov, .iov_count = 1, .length = 16};
    (void)state;
    assert_int_equal(snic_kvop_validate(&op, caps), 0);
    assert_int_equal(snic_kvop_validate(&op, 0), SNIC_ENOTSUP);
    assert_int_equal(snic_kvop_validate(&op, caps | SNIC_KV_CAP_READONLY), SNIC_EPERM);
    op.flags = SNIC_KVOP_DURABLE;
    assert_int_equal(snic_kvop_validate(&op, caps), SNIC_EINVAL);
    op.flags = 0;
    op.iov_count = 2;
    op.length = 32;
    assert_int_equal(snic_kvop_validate(&op, caps), SNIC_EINVAL);
    op.iov_count = 1;
    assert_int_equal(snic_kvop_validate(&op, caps), SNIC_EINVAL);
    op.length = iov[0].size = SNIC_KVOP_IDENTITY_MAX + 1;
    assert_int_equal(snic_kvop_validate(&op, caps), SNIC_EMSGSIZE);
    op.length = iov[0].size = SNIC_KVOP_IDENTITY_MAX;
    assert_int_equal(snic_kvop_validate(&op, caps), 0);
    op.length = iov[0].size = 0;
    assert_int_equal(snic_kvop_validate(&op, caps), SNIC_EINVAL);
    op.iov = NULL;
    assert_int_equal(snic_kvop_validate(&op, caps), SNIC_EINVAL);
}

static void test_kvop_wrong_commits_are_refused(void **state)
{
    (void)state;
    struct snic_kvop op = whole(SNIC_KVOP_COMMIT);
    op.guard_count++;
    expect(&op, SNIC_EMSGSIZE);
    op = whole(SNIC_KVOP_COMMIT);
    op.change_count++;
    expect(&op, SNIC_EMSGSIZE);
    op = whole(SNIC_KVOP_COMMIT);
    parts.changes[63].key = parts.changes[0].key;
    expect(&op, SNIC_EINVAL);
    op = whole(SNIC_KVOP_COMMIT);
    parts.changes[1].size = 0; /* never empty */
    expect(&op, SNIC_EINVAL);
    op = whole(SNIC_KVOP_COMMIT);
    parts.changes[1].size = SNIC_KVOP_VALUE_MAX + 1;
    expect(&op, SNIC_EMSGSIZE);
    op = whole(SNIC_KVOP_COMMIT);
    for (uint32_t i = 0; i < 8; i++)
        parts.changes[i * 2 + 1].size = SNIC_KVOP_VALUE_MAX;
    expect(&op, SNIC_EMSGSIZE); /* together */
    op = whole(SNIC_KVOP_COMMIT);
    parts.guards[5].size = 5; /* of a record that is not there */
    expect(&op, SNIC_EINVAL);
    op = whole(SNIC_KVOP_COMMIT);
    parts.guards[63].key.group = 2;
    expect(&op, 0);
    assert_int_equal(snic_kvop_validate(&op, 0), SNIC_ENOTSUP);
    op = whole(SNIC_KVOP_COMMIT);
    parts.changes[63].key.group = 2;
    assert_int_equal(snic_kvop_validate(&op, 0), SNIC_ENOTSUP);
    op.guard_count = 0;
    assert_int_equal(snic_kvop_validate(&op, 0), SNIC_ENOTSUP);
    op = whole(SNIC_KVOP_COMMIT);
    parts.changes[3].kind = SNIC_KVOP_CHANGE_WRITE; /* objects belong to no group */
    parts.changes[3].object = 9;
    parts.changes[5].kind = SNIC_KVOP_CHANGE_TRUNCATE;
    parts.changes[5].object = 10;
    assert_int_equal(snic_kvop_validate(&op, 0), 0);
    parts.changes[5].object = 9;
    expect(&op, SNIC_EINVAL);
    parts.changes[5].kind = SNIC_KVOP_CHANGE_WRITE;
    parts.changes[5].object = 10;
    expect(&op, SNIC_EINVAL); /* one of them only */
    parts.changes[5].kind = 5;
    expect(&op, SNIC_EINVAL);
}

static void test_kvop_wrong_ranges_are_refused(void **state)
{
    (void)state;
    struct snic_kvop op = whole(SNIC_KVOP_OBJECT_WRITE);
    op.iov_count++;
    expect(&op, SNIC_EMSGSIZE);
    op = whole(SNIC_KVOP_OBJECT_WRITE);
    op.length++;
    expect(&op, SNIC_EINVAL);
    op = whole(SNIC_KVOP_OBJECT_READ);
    op.length = SNIC_KVOP_TRANSFER_MAX + 1;
    expect(&op, SNIC_EMSGSIZE);
    op = whole(SNIC_KVOP_OBJECT_READ);
    parts.iov[3].size = SIZE_MAX; /* the sum must not wrap */
    parts.iov[4].size = 33;
    expect(&op, SNIC_EINVAL);
    op = whole(SNIC_KVOP_OBJECT_READ);
    op.offset = SNIC_KVOP_OBJECT_MAX - op.length;
    expect(&op, 0);
    op.offset++;
    expect(&op, SNIC_ERANGE);
    op = whole(SNIC_KVOP_OBJECT_PUNCH);
    op.length = SNIC_KVOP_OBJECT_MAX;
    expect(&op, 0);
    op.offset = UINT64_MAX; /* nor may the end */
    expect(&op, SNIC_ERANGE);
    op = whole(SNIC_KVOP_OBJECT_TRUNCATE);
    op.offset = SNIC_KVOP_OBJECT_MAX;
    expect(&op, 0);
    op.offset++;
    expect(&op, SNIC_ERANGE);
}

static void test_kvop_scan_output_is_walked(void **state)
{
    (void)state;
    struct snic_kvop op = {.out = parts.out, .out_room = sizeof(parts.out)};
    assert_null(snic_kvop_first(&op));
    uint32_t n = 0;
    memset(parts.out, 0xff, sizeof(parts.out));
    while (snic_kvop_append(&op, "key", 1 + n % 3, "value", 1 + n % 5) == 0)
        n++;
    assert_true(n >= 9 && op.out_count == n && op.out_size <= op.out_room);
    uint32_t before = op.out_size;
    assert_int_equal(snic_kvop_append(&op, "key", 3, parts.value, 200), SNIC_EMSGSIZE);
    assert_int_equal(op.out_size, before);
    uint32_t i = 0;
    for (const struct snic_kvop_record *r = snic_kvop_first(&op); r != NULL;
         r = snic_kvop_next(&op, r), i++) {
        assert_int_equal((uintptr_t)r % 8, 0);
        assert_int_equal(r->key_size, 1 + i % 3);
        assert_int_equal(r->value_size, 1 + i % 5);
        assert_memory_equal(snic_kvop_record_key(r), "key", r->key_size);
        assert_memory_equal(snic_kvop_record_value(r), "value", r->value_size);
    }
    assert_int_equal(i, n);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvop_keys_have_one_order),
        cmocka_unit_test(test_kvop_whole_operations_are_valid),
        cmocka_unit_test(test_kvop_wrong_keys_and_counts_are_refused),
        cmocka_unit_test(test_kvop_fences_name_one_client),
        cmocka_unit_test(test_kvop_wrong_commits_are_refused),
        cmocka_unit_test(test_kvop_wrong_ranges_are_refused),
        cmocka_unit_test(test_kvop_scan_output_is_walked),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
