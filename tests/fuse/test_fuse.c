/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Negotiation, replies, entries of directories and notifications. */
#include "snicstore/fuse.h"
#include "support.h"

#include <errno.h>
#include <limits.h>

static void init_of(struct snic_fuse_request *r, uint32_t major, uint32_t minor, uint64_t flags)
{
    memset(r, 0, sizeof(*r));
    r->head.opcode = SNIC_FUSE_INIT;
    r->head.unique = 1;
    r->in.init.major = major;
    r->in.init.minor = minor;
    r->in.init.max_readahead = 131072;
    r->in.init.flags = (uint32_t)flags;
    r->in.init.flags2 = (uint32_t)(flags >> 32);
}

static const struct snic_fuse_offer plain = {.offer_size = sizeof(struct snic_fuse_offer)};

/* The smaller version of both; what is too old for our structs is refused. */
static void test_fuse_negotiate_versions(void **state)
{
    struct snic_fuse_request r;
    struct snic_fuse_conn conn, zero;
    struct snic_fuse_answer a;
    struct snic_fuse_offer o = plain;

    (void)state;
    memset(&zero, 0, sizeof(zero));
    for (uint32_t minor = 0; minor < 60; minor++) {
        int want = minor < SNIC_FUSE_MINOR_MIN ? SNIC_EVERSION : 0;

        for (uint32_t most = SNIC_FUSE_MINOR_MIN; most <= SNIC_FUSE_MINOR; most++) {
            o.minor = most;
            memset(&conn, 0, sizeof(conn));
            init_of(&r, 7, minor, 0);
            assert_int_equal(snic_fuse_negotiate(&conn, &o, &r), want);
            if (want != 0)
                assert_memory_equal(&conn, &zero, sizeof(conn));
            else
                assert_int_equal(conn.minor, snic_min_u64(minor, most));
            snic_fuse_answer_init(&a, 1, &conn);
            assert_int_equal(a.head.len, 80);
            if (want == 0)
                assert_int_equal(a.out.init.minor, conn.minor);
        }
    }
    init_of(&r, 6, 60, 0);
    assert_int_equal(snic_fuse_negotiate(&conn, &plain, &r), SNIC_EVERSION);
    init_of(&r, 8, 0, 0);
    assert_int_equal(snic_fuse_negotiate(&conn, &plain, &r), SNIC_EAGAIN);
    assert_int_equal(conn.minor, 0);
    snic_fuse_answer_init(&a, 1, &conn);
    assert_int_equal(a.out.init.major, 7);
    assert_int_equal(a.out.init.minor, SNIC_FUSE_MINOR);
    assert_int_equal(a.head.error, 0);
}

/* A flag in effect that one side lacks would change what requests mean. */
static void test_fuse_negotiate_flags(void **state)
{
    uint64_t other = SNIC_FUSE_MAP_ALIGNMENT | SNIC_FUSE_PASSTHROUGH | SNIC_FUSE_REQUEST_TIMEOUT |
                     UINT64_C(1) << 2 | UINT64_C(1) << 31;
    struct snic_fuse_request r;
    struct snic_fuse_conn conn;
    struct snic_fuse_answer a;

    (void)state;
    for (int i = 0; i < 64; i++) {
        uint64_t flag = UINT64_C(1) << i;
        int known = i < 43 && (flag & other) == 0;
        int ours = flag == SNIC_FUSE_INIT_EXT || flag == SNIC_FUSE_BIG_WRITES ||
                   flag == SNIC_FUSE_MAX_PAGES;
        struct snic_fuse_offer o = plain;

        o.flags = flag;
        init_of(&r, 7, 38, 0);
        assert_int_equal(snic_fuse_negotiate(&conn, &o, &r), known ? 0 : SNIC_EINVAL);
        if (known)
            assert_int_equal(conn.flags, 0);
        uint64_t with = flag == SNIC_FUSE_SECURITY_CTX ? SNIC_FUSE_CREATE_SUPP_GROUP : 0;
        init_of(&r, 7, 38, flag | with | (i >= 32 ? SNIC_FUSE_INIT_EXT : 0));
        assert_int_equal(snic_fuse_negotiate(&conn, &plain, &r), 0);
        assert_true((conn.flags & flag) == (ours ? flag : 0));
        assert_true((conn.offered & flag) == flag);
        if (!known)
            continue;
        assert_int_equal(snic_fuse_negotiate(&conn, &o, &r), 0);
        assert_true((conn.flags & flag) == flag);
        snic_fuse_answer_init(&a, 9, &conn);
        assert_true((a.out.init.flags | (uint64_t)a.out.init.flags2 << 32) == conn.flags);
        assert_int_equal((a.out.init.flags >> 30) & 1, i >= 32 || i == 30);
        r.in.init.flags &= ~(uint32_t)SNIC_FUSE_INIT_EXT;
        assert_int_equal(snic_fuse_negotiate(&conn, &o, &r), 0);
        assert_true((conn.flags & flag) == (i >= 32 || i == 30 ? 0 : flag));
    }
    init_of(&r, 7, 38, SNIC_FUSE_HANDLE_KILLPRIV | SNIC_FUSE_HANDLE_KILLPRIV_V2);
    struct snic_fuse_offer both = plain;
    both.flags = SNIC_FUSE_HANDLE_KILLPRIV | SNIC_FUSE_HANDLE_KILLPRIV_V2;
    assert_int_equal(snic_fuse_negotiate(&conn, &both, &r), 0);
    assert_true(conn.flags == SNIC_FUSE_HANDLE_KILLPRIV_V2);
    both.flags = SNIC_FUSE_HANDLE_KILLPRIV;
    assert_int_equal(snic_fuse_negotiate(&conn, &both, &r), 0);
    assert_true(conn.flags == SNIC_FUSE_HANDLE_KILLPRIV);
    /* Linux before 6.3: contexts without their length. */
    init_of(&r, 7, 38, SNIC_FUSE_SECURITY_CTX | SNIC_FUSE_INIT_EXT);
    both.flags = SNIC_FUSE_SECURITY_CTX;
    assert_int_equal(snic_fuse_negotiate(&conn, &both, &r), 0);
    assert_true(conn.flags == SNIC_FUSE_INIT_EXT);
}

/* What the kernel may send at most, by what it knows. */
static void test_fuse_negotiate_sizes(void **state)
{
    static const struct {
        uint64_t flags;
        uint32_t want, page, write, read, pages;
    } cases[] = {
        {0, 0, 0, 4096, 131072, 0},
        {SNIC_FUSE_BIG_WRITES, 0, 0, 131072, 131072, 0},
        {SNIC_FUSE_BIG_WRITES, 1 << 20, 0, 131072, 131072, 0},
        {SNIC_FUSE_BIG_WRITES, 8192, 0, 8192, 131072, 0},
        {SNIC_FUSE_BIG_WRITES | SNIC_FUSE_MAX_PAGES, 1 << 20, 0, 1 << 20, 1 << 20, 256},
        {SNIC_FUSE_BIG_WRITES | SNIC_FUSE_MAX_PAGES, (1 << 20) + 1, 0, (1 << 20) + 1, 257 << 12,
         257},
        {SNIC_FUSE_BIG_WRITES | SNIC_FUSE_MAX_PAGES, 1 << 20, 65536, 1 << 20, 1 << 20, 16},
        {SNIC_FUSE_BIG_WRITES, 1 << 20, 65536, 1 << 20, 2 << 20, 0},
        {SNIC_FUSE_BIG_WRITES | SNIC_FUSE_MAX_PAGES, SNIC_FUSE_WRITE_MAX, 4096, SNIC_FUSE_WRITE_MAX,
         SNIC_FUSE_WRITE_MAX, 4096},
    };
    struct snic_fuse_request r;
    struct snic_fuse_conn conn;

    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        struct snic_fuse_offer o = plain;

        o.max_write = cases[i].want;
        o.page_bytes = cases[i].page;
        o.max_readahead = i % 2 ? 65536 : 0;
        init_of(&r, 7, 38, cases[i].flags);
        assert_int_equal(snic_fuse_negotiate(&conn, &o, &r), 0);
        assert_int_equal(conn.max_write, cases[i].write);
        assert_int_equal(conn.max_read, cases[i].read);
        assert_int_equal(conn.max_pages, cases[i].pages);
        assert_int_equal(conn.max_readahead, i % 2 ? 65536 : 131072);
        assert_int_equal(conn.time_gran, 1);
    }
}

static void test_fuse_negotiate_bad_offers_refused(void **state)
{
    struct snic_fuse_offer bad[9];
    struct snic_fuse_request r;
    struct snic_fuse_conn conn, before;

    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++)
        bad[i] = plain;
    bad[0].offer_size = 3;
    bad[1].minor = SNIC_FUSE_MINOR_MIN - 1;
    bad[2].minor = SNIC_FUSE_MINOR + 1;
    bad[3].max_write = 4095;
    bad[4].max_write = SNIC_FUSE_WRITE_MAX + 1;
    bad[5].page_bytes = 6000;
    bad[6].page_bytes = 131072;
    bad[7].time_gran = 1000000001;
    bad[8].reserved = 1;
    memset(&conn, 0x33, sizeof(conn));
    before = conn;
    init_of(&r, 7, 38, 0);
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        assert_int_equal(snic_fuse_negotiate(&conn, &bad[i], &r), SNIC_EINVAL);
        assert_memory_equal(&conn, &before, sizeof(conn));
    }
}

/* ---- Replies ---- */

static uint32_t reply_bytes(uint32_t opcode)
{
    switch (opcode) {
    case SNIC_FUSE_LOOKUP:
    case SNIC_FUSE_SYMLINK:
    case SNIC_FUSE_MKNOD:
    case SNIC_FUSE_MKDIR:
    case SNIC_FUSE_LINK:
        return 128;
    case SNIC_FUSE_CREATE:
    case SNIC_FUSE_TMPFILE:
        return 144;
    case SNIC_FUSE_GETATTR:
    case SNIC_FUSE_SETATTR:
        return 104;
    case SNIC_FUSE_OPEN:
    case SNIC_FUSE_OPENDIR:
    case SNIC_FUSE_IOCTL:
        return 16;
    case SNIC_FUSE_WRITE:
    case SNIC_FUSE_GETXATTR:
    case SNIC_FUSE_LISTXATTR:
    case SNIC_FUSE_BMAP:
    case SNIC_FUSE_POLL:
    case SNIC_FUSE_LSEEK:
    case SNIC_FUSE_COPY_FILE_RANGE:
    case SNIC_FUSE_COPY_FILE_RANGE_64:
        return 8;
    case SNIC_FUSE_STATFS:
        return 80;
    case SNIC_FUSE_INIT:
        return 64;
    case SNIC_FUSE_GETLK:
        return 24;
    case SNIC_FUSE_STATX:
        return 288;
    default:
        return 0;
    }
}

/* The kernel refuses a reply of another length, and old bytes in it would be shown to it. */
static void test_fuse_answer_lengths_and_zeros(void **state)
{
    static const unsigned char zeros[sizeof(union snic_fuse_out)];
    struct snic_fuse_request r;
    struct snic_fuse_answer a;

    (void)state;
    memset(&r, 0, sizeof(r));
    for (uint32_t opcode = 0; opcode < 80; opcode++) {
        uint32_t size = reply_bytes(opcode);

        memset(&a, 0xee, sizeof(a));
        r.head.opcode = opcode;
        r.head.unique = 1000 + opcode;
        r.in.getxattr.size = 0;
        snic_fuse_answer_begin(&a, &r);
        assert_int_equal(a.head.len, 16 + size);
        assert_int_equal(a.head.error, 0);
        assert_int_equal(a.head.unique, 1000 + opcode);
        assert_memory_equal(&a.out, zeros, size);
        if (opcode != SNIC_FUSE_GETXATTR && opcode != SNIC_FUSE_LISTXATTR)
            continue;
        r.in.getxattr.size = 1;
        snic_fuse_answer_begin(&a, &r);
        assert_int_equal(a.head.len, 16);
    }
    snic_fuse_answer_error(&a, 5, -ENOENT);
    assert_int_equal(a.head.len, 16);
    assert_int_equal(a.head.error, -ENOENT);
    assert_int_equal(a.head.unique, 5);
}

static void test_fuse_answer_data_pieces(void **state)
{
    char bytes[10];
    struct snic_iov data[3] = {{bytes, 4}, {NULL, 0}, {bytes + 4, 6}}, out[4];
    struct snic_fuse_answer a;

    (void)state;
    assert_int_equal(snic_fuse_answer_data(&a, 3, data, 3, out, 4), 3);
    assert_int_equal(a.head.len, 26);
    assert_ptr_equal(out[0].base, &a);
    assert_int_equal(out[0].size, 16);
    assert_ptr_equal(out[1].base, bytes);
    assert_ptr_equal(out[2].base, bytes + 4);
    assert_int_equal(out[2].size, 6);
    assert_int_equal(snic_fuse_answer_data(&a, 3, data, 3, out, 3), 3);
    assert_int_equal(snic_fuse_answer_data(&a, 3, data, 3, out, 2), SNIC_E2BIG);
    assert_int_equal(snic_fuse_answer_data(&a, 3, NULL, 0, out, 0), SNIC_E2BIG);
    assert_int_equal(snic_fuse_answer_data(&a, 3, NULL, 0, out, 1), 1);
    assert_int_equal(a.head.len, 16);
    data[0].size = INT32_MAX - 16 - 6;
    assert_int_equal(snic_fuse_answer_data(&a, 3, data, 3, out, 4), 3);
    data[0].size++;
    assert_int_equal(snic_fuse_answer_data(&a, 3, data, 3, out, 4), SNIC_EMSGSIZE);
    data[0].size = SIZE_MAX - 8;
    assert_int_equal(snic_fuse_answer_data(&a, 3, data, 3, out, 4), SNIC_EMSGSIZE);
}

/* The kernel ends a directory with EIO at an entry that it does not like. */
static void test_fuse_dirents(void **state)
{
    struct snic_fuse_dirent d = {11, 12, 0, 4};
    struct snic_fuse_entry_out e;
    char name[SNIC_FUSE_NAME_MAX + 2];
    unsigned char *block = support_guard_alloc(2048, 8);

    (void)state;
    memset(name, 'n', sizeof(name));
    memset(&e, 0x11, sizeof(e));
    for (uint32_t size = 0; size <= SNIC_FUSE_NAME_MAX + 1; size++) {
        for (int plus = 0; plus < 2; plus++) {
            size_t bytes = 24 + size + (plus ? 128 : 0);
            size_t padded = (bytes + 7) / 8 * 8;
            int want = size == 0                   ? SNIC_EINVAL
                       : size > SNIC_FUSE_NAME_MAX ? SNIC_ENAMETOOLONG
                                                   : (int)padded;
            unsigned char *at = block + 2048 - padded;

            d.namelen = size;
            assert_int_equal(snic_fuse_dirent_bytes(size, plus), padded);
            assert_int_equal(snic_fuse_dirent_put(at, padded, &d, name, plus ? &e : NULL), want);
            if (want > 0) {
                assert_memory_equal(at + bytes - size - 24, &d, 24);
                assert_memory_equal(at + bytes - size, name, size);
                for (size_t i = bytes; i < padded; i++)
                    assert_int_equal(at[i], 0);
                if (plus)
                    assert_memory_equal(at, &e, sizeof(e));
                memset(at, 0xa5, padded);
                assert_int_equal(snic_fuse_dirent_put(at, padded - 1, &d, name, plus ? &e : NULL),
                                 0);
                for (size_t i = 0; i < padded; i++)
                    assert_int_equal(at[i], 0xa5);
            }
        }
    }
    support_guard_free(block);
    d.namelen = 3;
    assert_int_equal(snic_fuse_dirent_put(name, 64, &d, "a/b", NULL), SNIC_EINVAL);
    assert_int_equal(snic_fuse_dirent_put(name, 64, &d, "a\0b", NULL), SNIC_EINVAL);
}

/* The kernel refuses a notification whose length is not exactly right. */
static void test_fuse_notifications(void **state)
{
    static const char name[] = "name";
    char longest[SNIC_FUSE_NAME_MAX + 1];
    struct snic_fuse_conn conn;
    struct snic_fuse_answer a;
    struct snic_iov out[3];

    (void)state;
    memset(&conn, 0, sizeof(conn));
    memset(longest, 'n', sizeof(longest));
    snic_fuse_notify_inode(&a, 5, -1, 7);
    assert_int_equal(a.head.len, 16 + 24);
    assert_int_equal(a.head.error, 2);
    assert_int_equal(a.head.unique, 0);
    assert_int_equal(a.out.inval_inode.ino, 5);
    assert_int_equal(a.out.inval_inode.off, -1);
    assert_int_equal(a.out.inval_inode.len, 7);
    assert_int_equal(snic_fuse_notify_entry(&a, &conn, 6, name, 4, 0, out), 3);
    assert_int_equal(a.head.len, 16 + 16 + 5);
    assert_int_equal(out[0].size + out[1].size + out[2].size, a.head.len);
    assert_int_equal(a.head.error, 3);
    assert_int_equal(a.out.inval_entry.parent, 6);
    assert_int_equal(a.out.inval_entry.namelen, 4);
    assert_int_equal(a.out.inval_entry.flags, 0);
    assert_ptr_equal(out[1].base, name);
    assert_int_equal(*(const char *)out[2].base, 0);
    assert_int_equal(snic_fuse_notify_entry(&a, &conn, 6, name, 4, 1, out), SNIC_ENOTSUP);
    conn.offered = SNIC_FUSE_HAS_EXPIRE_ONLY;
    assert_int_equal(snic_fuse_notify_entry(&a, &conn, 6, name, 4, 1, out), 3);
    assert_int_equal(a.out.inval_entry.flags, 1);
    assert_int_equal(snic_fuse_notify_entry(&a, &conn, 6, "a/b", 3, 0, out), SNIC_EINVAL);
    assert_int_equal(snic_fuse_notify_entry(&a, &conn, 6, longest, SNIC_FUSE_NAME_MAX, 0, out), 3);
    assert_int_equal(snic_fuse_notify_entry(&a, &conn, 6, longest, SNIC_FUSE_NAME_MAX + 1, 0, out),
                     SNIC_ENAMETOOLONG);
    assert_int_equal(snic_fuse_notify_delete(&a, 6, 8, name, 4, out), 3);
    assert_int_equal(a.head.len, 16 + 24 + 5);
    assert_int_equal(a.head.error, 6);
    assert_int_equal(a.out.del.child, 8);
    assert_int_equal(snic_fuse_notify_delete(&a, 6, 8, name, 0, out), SNIC_EINVAL);
    conn.minor = 43;
    assert_int_equal(snic_fuse_notify_epoch(&a, &conn), SNIC_ENOTSUP);
    conn.minor = 44;
    assert_int_equal(snic_fuse_notify_epoch(&a, &conn), 0);
    assert_int_equal(a.head.len, 16);
    assert_int_equal(a.head.error, 8);
}

/* The kernel takes no error outside (-512, 0]. */
static void test_fuse_errors_are_the_kernels(void **state)
{
    (void)state;
    for (int i = -1100; i < 3; i++) {
        int32_t e = snic_fuse_error(i);

        assert_true(e <= 0 && e > -512);
        assert_int_equal(e, i >= 0 ? 0 : i > -512 ? i : -EIO);
        e = snic_fuse_refusal(i, SNIC_FUSE_LOOKUP);
        assert_true(e <= 0 && e > -512);
    }
    assert_int_equal(snic_fuse_refusal(SNIC_ENOTSUP, 99), -ENOSYS);
    assert_int_equal(snic_fuse_refusal(SNIC_ENOTSUP, SNIC_FUSE_IOCTL), -ENOTTY);
    assert_int_equal(snic_fuse_refusal(SNIC_EPROTO, 1), -EIO);
    assert_int_equal(snic_fuse_refusal(SNIC_ENOTCONN, 1), -EIO);
    assert_int_equal(snic_fuse_refusal(SNIC_EVERSION, 1), -EIO);
    assert_int_equal(snic_fuse_refusal(SNIC_EMSGSIZE, 1), -EINVAL);
    assert_int_equal(snic_fuse_refusal(SNIC_EINVAL, 1), -EINVAL);
    assert_int_equal(snic_fuse_refusal(SNIC_ENAMETOOLONG, 1), -ENAMETOOLONG);
}

/* A reply to a FORGET is an error of write(); without one to a LOOKUP its caller waits for ever. */
static void test_fuse_operations_names_and_replies(void **state)
{
    uint64_t sec;
    uint32_t nsec;

    (void)state;
    for (uint32_t opcode = 0; opcode < 80; opcode++)
        assert_int_equal(snic_fuse_has_reply(opcode),
                         opcode != SNIC_FUSE_FORGET && opcode != SNIC_FUSE_BATCH_FORGET &&
                             opcode != SNIC_FUSE_INTERRUPT && opcode != SNIC_FUSE_NOTIFY_REPLY);
    assert_string_equal(snic_fuse_name(SNIC_FUSE_TMPFILE), "tmpfile");
    assert_string_equal(snic_fuse_name(7), "?");
    assert_string_equal(snic_fuse_name(UINT32_MAX), "?");
    snic_fuse_valid(UINT64_C(2500000001), &sec, &nsec);
    assert_int_equal(sec, 2);
    assert_int_equal(nsec, 500000001);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fuse_negotiate_versions),
        cmocka_unit_test(test_fuse_negotiate_flags),
        cmocka_unit_test(test_fuse_negotiate_sizes),
        cmocka_unit_test(test_fuse_negotiate_bad_offers_refused),
        cmocka_unit_test(test_fuse_answer_lengths_and_zeros),
        cmocka_unit_test(test_fuse_answer_data_pieces),
        cmocka_unit_test(test_fuse_dirents),
        cmocka_unit_test(test_fuse_notifications),
        cmocka_unit_test(test_fuse_errors_are_the_kernels),
        cmocka_unit_test(test_fuse_operations_names_and_replies),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
