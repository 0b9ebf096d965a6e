/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests: every length of every operation, every split into pieces, and damage of any kind. */
#include "test_fuse_util.h"

#include <stdio.h>

static const uint64_t EXTENDED = SNIC_FUSE_SETXATTR_EXT | SNIC_FUSE_CREATE_SUPP_GROUP;

/* The result is the model's, and so is all that was found. */
static int compare(const struct snic_fuse_conn *conn, const unsigned char *request, size_t size)
{
    struct snic_fuse_request want, have;
    unsigned char *held;
    int rc = util_model(request, size, conn, &want);
    int got = util_parse(&have, conn, request, size, &held);

    if (rc != got)
        printf("opcode %u of %zu bytes: %d, not %d\n", want.head.opcode, size, got, rc);
    assert_int_equal(got, rc);
    assert_memory_equal(&have.head, &want.head, sizeof(want.head));
    if (rc != 0) {
        memset(&want, 0, sizeof(want));
        want.head = have.head;
        assert_memory_equal(&have, &want, sizeof(want));
    } else {
        const char *here = (const char *)held, *there = (const char *)request;

        assert_memory_equal(&have.in, &want.in, sizeof(want.in));
        assert_int_equal(have.name_size, want.name_size);
        assert_int_equal(have.name2_size, want.name2_size);
        assert_int_equal(have.data_size, want.data_size);
        assert_int_equal(have.ext_size, want.ext_size);
        assert_true(want.name == NULL ? have.name == NULL : have.name - here == want.name - there);
        assert_true(want.name2 == NULL ? have.name2 == NULL
                                       : have.name2 - here == want.name2 - there);
        assert_true(want.data == NULL
                        ? have.data == NULL
                        : (const char *)have.data - here == (const char *)want.data - there);
        assert_true(have.data == NULL || have.data_at == (const char *)have.data - here);
        assert_true(want.ext == NULL
                        ? have.ext == NULL
                        : (const char *)have.ext - here == (const char *)want.ext - there);
    }
    return rc;
}

static void conn_of(struct snic_fuse_conn *conn, uint32_t opcode, uint64_t flags)
{
    util_conn(conn, flags);
    if (opcode == SNIC_FUSE_INIT)
        conn->minor = 0;
}

/* A request cut short must be refused, and nothing be read behind it. */
static void test_fuse_parse_every_length(void **state)
{
    static unsigned char request[UTIL_MAX];
    struct snic_fuse_conn conn;
    int served = 0;

    (void)state;
    for (uint32_t opcode = 0; opcode < UTIL_OPCODES; opcode++) {
        for (int flags = 0; flags < 2; flags++) {
            size_t full;

            conn_of(&conn, opcode, flags ? EXTENDED : 0);
            full = util_build(request, opcode, &conn, 5, 3);
            if (util_op(opcode, &conn).in < 0) {
                assert_int_equal(compare(&conn, request, full), SNIC_ENOTSUP);
                continue;
            }
            served++;
            assert_int_equal(compare(&conn, request, full), 0);
            for (size_t cut = 0; cut < full; cut++) {
                assert_int_equal(compare(&conn, request, cut), SNIC_EPROTO);
                util_len(request, cut);
                assert_int_equal(compare(&conn, request, cut), SNIC_EPROTO);
                util_len(request, full);
            }
            memset(request + full, 0, 16);
            for (size_t more = full + 1; more < full + 16; more++) {
                assert_int_equal(compare(&conn, request, more), SNIC_EPROTO);
                util_len(request, more);
                assert_int_equal(compare(&conn, request, more),
                                 opcode == SNIC_FUSE_INIT ? 0 : SNIC_EPROTO);
                util_len(request, full);
            }
        }
    }
    assert_int_equal(served, 2 * 48);
}

static int splits(const char *cut, const void *start, size_t size)
{
    return start != NULL && cut > (const char *)start && cut < (const char *)start + size;
}

/* A transport whose requests are in pieces (virtio) gets the same, wherever they are split. */
static void test_fuse_parse_every_split(void **state)
{
    static unsigned char request[UTIL_MAX];
    struct snic_fuse_conn conn;

    (void)state;
    for (uint32_t opcode = 0; opcode < UTIL_OPCODES; opcode++) {
        struct snic_fuse_request whole, split;
        size_t full;

        conn_of(&conn, opcode, EXTENDED);
        full = util_build(request, opcode, &conn, 4, 2);
        if (util_op(opcode, &conn).in < 0)
            continue;
        for (size_t at = 0; at <= full; at++) {
            struct snic_iov one = {request, full};
            struct snic_iov three[] = {{request, at}, {NULL, 0}, {request + at, full - at}};
            const char *cut = (const char *)request + at;
            int rc = snic_fuse_parse(&whole, &conn, &one, 1);
            int torn;

            assert_int_equal(rc, 0);
            torn = splits(cut, whole.name, whole.name_size + 1u) ||
                   splits(cut, whole.name2, whole.name2_size + 1u) ||
                   (opcode == SNIC_FUSE_BATCH_FORGET && splits(cut, whole.data, whole.data_size));
            rc = snic_fuse_parse(&split, &conn, three, 3);
            assert_int_equal(rc, torn ? SNIC_EPROTO : 0);
            if (rc == 0)
                assert_memory_equal(&split, &whole, sizeof(whole));
        }
    }
}

static int parse_name(uint32_t opcode, const char *name, size_t size, int second)
{
    static unsigned char request[UTIL_MAX];
    struct snic_fuse_conn conn;
    unsigned char *at = request + 40;

    util_conn(&conn, SNIC_FUSE_SETXATTR_EXT);
    util_build(request, opcode, &conn, 1, 0);
    at += util_op(opcode, &conn).in;
    if (second)
        at += 2;
    memcpy(at, name, size);
    at[size] = 0;
    at += size + 1;
    if (!second && util_op(opcode, &conn).names[1] != 0) {
        memcpy(at, "b", 2);
        at += 2;
    }
    util_len(request, (size_t)(at - request));
    return compare(&conn, request, (size_t)(at - request));
}

/* A name with a '/' would leave its directory; the longest is taken and one byte more refused. */
static void test_fuse_parse_names(void **state)
{
    static char name[5000];
    struct snic_fuse_conn conn;

    (void)state;
    util_conn(&conn, SNIC_FUSE_SETXATTR_EXT);
    for (uint32_t opcode = 0; opcode < UTIL_OPCODES; opcode++) {
        struct util_op op = util_op(opcode, &conn);

        for (int i = 0; op.names[i] != 0; i++) {
            char kind = op.names[i];
            size_t most = kind == 't'   ? SNIC_FUSE_SYMLINK_MAX
                          : kind == 'x' ? SNIC_FUSE_XATTR_MAX
                                        : SNIC_FUSE_NAME_MAX;
            int entry = kind == 'e' ? SNIC_EINVAL : 0;

            memset(name, 'n', sizeof(name));
            assert_int_equal(parse_name(opcode, name, 0, i), SNIC_EINVAL);
            assert_int_equal(parse_name(opcode, name, most, i), 0);
            assert_int_equal(parse_name(opcode, name, most + 1, i), SNIC_ENAMETOOLONG);
            assert_int_equal(parse_name(opcode, ".", 1, i), entry);
            assert_int_equal(parse_name(opcode, "..", 2, i), entry);
            assert_int_equal(parse_name(opcode, "...", 3, i), 0);
            assert_int_equal(parse_name(opcode, ".a", 2, i), 0);
            assert_int_equal(parse_name(opcode, "/", 1, i),
                             kind == 'l' || kind == 'e' ? SNIC_EINVAL : 0);
            assert_int_equal(parse_name(opcode, "a/b", 3, i),
                             kind == 'l' || kind == 'e' ? SNIC_EINVAL : 0);
        }
    }
}

/* A number that is larger than what the message holds, or than was agreed on. */
static void test_fuse_parse_sizes_inside(void **state)
{
    static unsigned char request[2 * UTIL_MAX];
    static const uint32_t lies[] = {0,          2,          4,          0x10000003,
                                    0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};
    struct snic_fuse_conn conn;
    size_t full;

    (void)state;
    util_conn(&conn, SNIC_FUSE_SETXATTR_EXT);
    for (uint32_t opcode = 0; opcode < UTIL_OPCODES; opcode++) {
        struct util_op op = util_op(opcode, &conn);

        for (size_t i = 0; op.size_at >= 0 && i < SNIC_COUNTOF(lies); i++) {
            full = util_build(request, opcode, &conn, 3, 3);
            memcpy(request + 40 + op.size_at, &lies[i], 4);
            assert_int_equal(compare(&conn, request, full), opcode == SNIC_FUSE_WRITE && lies[i] > 4
                                                                ? SNIC_EMSGSIZE
                                                                : SNIC_EPROTO);
        }
    }
    full = util_build(request, SNIC_FUSE_WRITE, &conn, 0, conn.max_write);
    assert_int_equal(compare(&conn, request, full), 0);
    full = util_build(request, SNIC_FUSE_WRITE, &conn, 0, conn.max_write + 1);
    assert_int_equal(compare(&conn, request, full), SNIC_EMSGSIZE);
    for (uint32_t opcode = SNIC_FUSE_READ; opcode <= SNIC_FUSE_READDIRPLUS; opcode++) {
        uint32_t size = conn.max_read;

        if (opcode != SNIC_FUSE_READ && opcode != SNIC_FUSE_READDIR &&
            opcode != SNIC_FUSE_READDIRPLUS)
            continue;
        full = util_build(request, opcode, &conn, 0, 0);
        memcpy(request + 56, &size, 4);
        assert_int_equal(compare(&conn, request, full), 0);
        size++;
        memcpy(request + 56, &size, 4);
        assert_int_equal(compare(&conn, request, full), SNIC_EMSGSIZE);
    }
}

static void test_fuse_parse_locks(void **state)
{
    static unsigned char request[UTIL_MAX];
    struct snic_fuse_conn conn;

    (void)state;
    util_conn(&conn, 0);
    for (uint32_t opcode = SNIC_FUSE_GETLK; opcode <= SNIC_FUSE_SETLKW; opcode++) {
        for (uint32_t type = 0; type < 5; type++) {
            for (uint64_t start = 0; start < 3; start++) {
                struct snic_fuse_file_lock l = {start, 1, type, 9};
                size_t full = util_build(request, opcode, &conn, 0, 0);

                memcpy(request + 56, &l, sizeof(l));
                assert_int_equal(compare(&conn, request, full),
                                 type > 2 || start > 1 ? SNIC_EINVAL : 0);
            }
        }
    }
}

/* A group list of extensions, and what it must not be. */
static void test_fuse_parse_extensions(void **state)
{
    static unsigned char request[UTIL_MAX];
    struct snic_fuse_conn conn;
    struct snic_fuse_request r;
    unsigned char *held;

    (void)state;
    for (int damage = 0; damage < 9; damage++) {
        uint32_t ext[8] = {16, 32, 1, 1000, 16, 5, 0, 0};
        uint16_t units = 4;
        uint32_t at = 0, type, size, groups[2];
        const void *data;
        size_t full;

        util_conn(&conn, SNIC_FUSE_CREATE_SUPP_GROUP);
        full = util_build(request, damage == 7 ? SNIC_FUSE_UNLINK : SNIC_FUSE_MKDIR, &conn, 3, 0);
        ext[0] = damage == 1 ? 0 : damage == 2 ? 20 : damage == 3 ? 40 : damage == 4 ? 8 : ext[0];
        ext[2] = damage == 5 ? 2 : ext[2];
        ext[4] = damage == 8 ? 24 : ext[4];
        units = damage == 6 ? 3 : units;
        memcpy(request + full, ext, sizeof(ext));
        memcpy(request + 36, &units, sizeof(units));
        util_len(request, full + sizeof(ext));
        assert_int_equal(compare(&conn, request, full + sizeof(ext)), damage ? SNIC_EPROTO : 0);
        if (damage != 0)
            continue;
        assert_int_equal(util_parse(&r, &conn, request, full + sizeof(ext), &held), 0);
        assert_int_equal(snic_fuse_ext_next(&r, &at, &type, &data, &size), 1);
        assert_int_equal(type, SNIC_FUSE_EXT_GROUPS);
        assert_int_equal(size, 8);
        memcpy(groups, data, 8);
        assert_int_equal(groups[0], 1);
        assert_int_equal(groups[1], 1000);
        assert_int_equal(snic_fuse_ext_next(&r, &at, &type, &data, &size), 1);
        assert_int_equal(type, 5);
        assert_int_equal(snic_fuse_ext_next(&r, &at, &type, &data, &size), 0);
        util_conn(&conn, 0); /* without the flag the field is padding, and the rest too long */
        assert_int_equal(compare(&conn, request, full + sizeof(ext)), SNIC_EPROTO);
        util_len(request, full);
        assert_int_equal(compare(&conn, request, full), 0);
    }
}

/* The list of a BATCH_FORGET, and pieces of a WRITE's data. */
static void test_fuse_parse_lists_and_slices(void **state)
{
    static unsigned char request[UTIL_MAX];
    struct snic_fuse_conn conn;
    struct snic_fuse_request r;
    struct snic_fuse_forget_one one;
    struct snic_iov iov[3], out[3];
    size_t full;

    (void)state;
    util_conn(&conn, 0);
    full = util_build(request, SNIC_FUSE_BATCH_FORGET, &conn, 0, 3);
    for (uint64_t i = 0; i < 3; i++) {
        one.nodeid = 10 + i;
        one.nlookup = 20 + i;
        memcpy(request + 48 + i * 16, &one, 16);
    }
    iov[0] = (struct snic_iov){request, full};
    assert_int_equal(snic_fuse_parse(&r, &conn, iov, 1), 0);
    for (uint32_t i = 0; i < 3; i++) {
        snic_fuse_forget_at(&r, i, &one);
        assert_int_equal(one.nodeid, 10 + i);
        assert_int_equal(one.nlookup, 20 + i);
    }
    full = util_build(request, SNIC_FUSE_WRITE, &conn, 0, 100);
    iov[0] = (struct snic_iov){request, 90};
    iov[1] = (struct snic_iov){request + 90, 20};
    iov[2] = (struct snic_iov){request + 110, full - 110};
    assert_int_equal(snic_fuse_parse(&r, &conn, iov, 3), 0);
    assert_ptr_equal(r.data, request + 80);
    assert_int_equal(r.data_at, 80);
    assert_int_equal(snic_fuse_slice(iov, 3, r.data_at, r.data_size, out, 3), 3);
    assert_ptr_equal(out[0].base, request + 80);
    assert_int_equal(out[0].size, 10);
    assert_int_equal(out[2].size, 70);
    assert_int_equal(snic_fuse_slice(iov, 3, r.data_at, r.data_size, out, 2), SNIC_E2BIG);
    assert_int_equal(snic_fuse_slice(iov, 3, r.data_at, r.data_size + 1, out, 3), SNIC_EINVAL);
    assert_int_equal(snic_fuse_slice(iov, 3, 90, 20, out, 1), 1);
    assert_ptr_equal(out[0].base, request + 90);
    assert_int_equal(snic_fuse_slice(iov, 3, full, 0, out, 0), 0);
}

/* Before INIT nothing but INIT, after it no other one. */
static void test_fuse_parse_order(void **state)
{
    static unsigned char request[UTIL_MAX];
    struct snic_fuse_conn conn;
    uint32_t swapped = 0x1a000000;
    size_t full;

    (void)state;
    util_conn(&conn, 0);
    full = util_build(request, SNIC_FUSE_INIT, &conn, 0, 0);
    assert_int_equal(compare(&conn, request, full), SNIC_EPROTO);
    conn.minor = 0;
    assert_int_equal(compare(&conn, request, full), 0);
    memcpy(request + 4, &swapped, 4);
    assert_int_equal(compare(&conn, request, full), SNIC_EVERSION);
    full = util_build(request, SNIC_FUSE_GETATTR, &conn, 0, 0);
    assert_int_equal(compare(&conn, request, full), SNIC_ENOTCONN);
}

/* INIT of an older kernel is shorter, of another major version unknown behind its number. */
static void test_fuse_parse_init_lengths(void **state)
{
    static unsigned char request[UTIL_MAX];
    struct snic_fuse_conn conn;

    (void)state;
    conn_of(&conn, SNIC_FUSE_INIT, 0);
    for (uint32_t major = 6; major <= 8; major++) {
        for (uint32_t ext = 0; ext < 2; ext++) {
            for (size_t size = 40; size <= 40 + 80; size++) {
                struct snic_fuse_init_in in = {major, 30, 0, ext << 30, 77, {0}};
                size_t least = major != 7 ? 48 : ext ? 104 : 56;

                memset(request, 0, sizeof(request));
                util_build(request, SNIC_FUSE_INIT, &conn, 0, 0);
                memcpy(request + 40, &in, sizeof(in));
                util_len(request, size);
                assert_int_equal(compare(&conn, request, size), size < least ? SNIC_EPROTO : 0);
            }
        }
    }
}

/* Any bytes: the same as the plain parser, which is written another way. */
static void test_fuse_parse_random_against_model(void **state)
{
    static unsigned char request[UTIL_MAX];
    uint64_t rounds = support_rounds(60000, 2000000);
    uint64_t good = 0;
    struct snic_rng rng;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint64_t i = 0; i < rounds; i++) {
        uint32_t opcode = (uint32_t)snic_rng_below(&rng, UTIL_OPCODES);
        struct snic_fuse_conn conn;
        size_t size;

        conn_of(&conn, opcode, snic_rng_below(&rng, 2) ? EXTENDED : 0);
        size = util_build(request, opcode, &conn, (uint32_t)snic_rng_below(&rng, 40),
                          (uint32_t)snic_rng_below(&rng, 20));
        for (uint64_t n = snic_rng_below(&rng, 4); n > 0; n--) {
            size_t at = (size_t)snic_rng_below(&rng, size);

            switch (snic_rng_below(&rng, 5)) {
            case 0:
                request[at] = (unsigned char)snic_rng_next(&rng);
                break;
            case 1:
                request[at] = (unsigned char)"\0/.\1\377"[snic_rng_below(&rng, 5)];
                break;
            case 2:
                size = at;
                break;
            case 3:
                snic_rng_fill(&rng, request + size, 24);
                size += (size_t)snic_rng_below(&rng, 25);
                break;
            default:
                request[36] = (unsigned char)snic_rng_below(&rng, 5);
                break;
            }
            if (size == 0)
                break;
        }
        if (size >= 40 && snic_rng_below(&rng, 8) != 0)
            util_len(request, size);
        good += compare(&conn, request, size) == 0;
    }
    assert_true(good > rounds / 8 && good < rounds);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fuse_parse_every_length),
        cmocka_unit_test(test_fuse_parse_every_split),
        cmocka_unit_test(test_fuse_parse_names),
        cmocka_unit_test(test_fuse_parse_sizes_inside),
        cmocka_unit_test(test_fuse_parse_locks),
        cmocka_unit_test(test_fuse_parse_extensions),
        cmocka_unit_test(test_fuse_parse_lists_and_slices),
        cmocka_unit_test(test_fuse_parse_order),
        cmocka_unit_test(test_fuse_parse_init_lengths),
        cmocka_unit_test(test_fuse_parse_random_against_model),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
