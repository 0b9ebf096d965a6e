/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Errors, options, byte order, lists, arena, tag matching. */
#include "support.h"
#include "snicstore/base.h"
#include "base/simd.h"

#include <errno.h>
#include <limits.h>

static const struct {
    int code;
    const char *name;
} codes[] = {
#define X(c) {c, #c},
#include "base_codes.inc"
#undef X
};

/* ---- Errors ---- */

/* A code added to the header without a text would be reported as unknown. */
static void test_base_error_every_code_has_name_and_text(void **state)
{
    (void)state;
    assert_true(SNIC_COUNTOF(codes) >= 35);
    for (size_t i = 0; i < SNIC_COUNTOF(codes); i++) {
        assert_string_equal(snic_errname(codes[i].code), codes[i].name);
        assert_non_null(snic_strerror(codes[i].code));
        assert_string_not_equal(snic_strerror(codes[i].code), "");
        assert_string_not_equal(snic_strerror(codes[i].code), snic_strerror(12345));
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(codes[i].code, codes[j].code);
            assert_string_not_equal(snic_strerror(codes[i].code), snic_strerror(codes[j].code));
        }
    }
    assert_string_equal(snic_errname(0), "SNIC_OK");
}

/* strerror() is total: a log line must never crash on a code from the wire. */
static void test_base_error_unknown_code_has_text(void **state)
{
    (void)state;
    static const int odd[] = {1, 5, 22, -3, -999, -1000, -1005, -100000, INT_MIN, INT_MAX};
    for (size_t i = 0; i < SNIC_COUNTOF(odd); i++) {
        assert_string_equal(snic_errname(odd[i]), "SNIC_E?");
        assert_string_equal(snic_strerror(odd[i]), "unknown error");
    }
}

/* The numbers are fixed for ever and those of this Linux: they cross the wire. */
static void test_base_error_numbers_are_those_of_linux(void **state)
{
    (void)state;
    static const int pairs[][2] = {
        {SNIC_EPERM, EPERM},
        {SNIC_ENOENT, ENOENT},
        {SNIC_EIO, EIO},
        {SNIC_EAGAIN, EAGAIN},
        {SNIC_ENOMEM, ENOMEM},
        {SNIC_EACCES, EACCES},
        {SNIC_EFAULT, EFAULT},
        {SNIC_EBUSY, EBUSY},
        {SNIC_EEXIST, EEXIST},
        {SNIC_ENOTDIR, ENOTDIR},
        {SNIC_EISDIR, EISDIR},
        {SNIC_EINVAL, EINVAL},
        {SNIC_EFBIG, EFBIG},
        {SNIC_ENOSPC, ENOSPC},
        {SNIC_EPIPE, EPIPE},
        {SNIC_ERANGE, ERANGE},
        {SNIC_ENAMETOOLONG, ENAMETOOLONG},
        {SNIC_ENOTEMPTY, ENOTEMPTY},
        {SNIC_EPROTO, EPROTO},
        {SNIC_EOVERFLOW, EOVERFLOW},
        {SNIC_EMSGSIZE, EMSGSIZE},
        {SNIC_ENOTSUP, EOPNOTSUPP},
        {SNIC_EADDRINUSE, EADDRINUSE},
        {SNIC_ECONNABORTED, ECONNABORTED},
        {SNIC_ECONNRESET, ECONNRESET},
        {SNIC_ENOTCONN, ENOTCONN},
        {SNIC_ETIMEDOUT, ETIMEDOUT},
        {SNIC_ECONNREFUSED, ECONNREFUSED},
        {SNIC_EHOSTUNREACH, EHOSTUNREACH},
        {SNIC_ESTALE, ESTALE},
        {SNIC_ECANCELED, ECANCELED},
        {SNIC_EPEERDEAD, EOWNERDEAD},
        /* Translated ones. */
        {SNIC_EAGAIN, EINTR},
        {SNIC_EAGAIN, EWOULDBLOCK},
        {SNIC_EAGAIN, ENOBUFS},
        {SNIC_EAGAIN, EINPROGRESS},
        {SNIC_EBADF, EBADF},
        {SNIC_ENOMEM, EMFILE},
        {SNIC_ENOMEM, ENFILE},
        {SNIC_EBUSY, ETXTBSY},
        {SNIC_EPERM, EROFS},
        {SNIC_ENOSPC, EDQUOT},
        {SNIC_ENOTSUP, ENOSYS},
        {SNIC_ENOTSUP, ENOTTY},
        {SNIC_ENOTSUP, EAFNOSUPPORT},
        {SNIC_ECORRUPT, EBADMSG},
        {SNIC_ECORRUPT, EUCLEAN},
        {SNIC_EPIPE, ESHUTDOWN},
        {SNIC_EHOSTUNREACH, ENETUNREACH},
        {SNIC_EHOSTUNREACH, EHOSTDOWN},
        {SNIC_ETIMEDOUT, ETIME},
        {SNIC_EIO, ENODEV},
        {SNIC_EIO, ENXIO},
        {SNIC_EIO, ENODATA},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(pairs); i++) {
        assert_int_equal(snic_error_from_os(pairs[i][1]), pairs[i][0]);
        assert_int_equal(snic_error_from_os(-pairs[i][1]), pairs[i][0]);
    }
    assert_int_equal(snic_error_from_os(0), 0);
    assert_int_equal(SNIC_ECORRUPT, -1001);
    assert_int_equal(SNIC_EVERSION, -1002);
    assert_int_equal(SNIC_EUNKNOWN, -1003);
    assert_int_equal(SNIC_ENOQUORUM, -1004);
}

/* Every errno gives a code with a text: no kernel error falls through. */
static void test_base_error_any_os_value_is_translated(void **state)
{
    (void)state;
    for (int e = -5000; e <= 5000; e++) {
        int code = snic_error_from_os(e);
        assert_true(e == 0 ? code == 0 : code < 0);
        assert_string_not_equal(snic_errname(code), "SNIC_E?");
        assert_int_equal(code, snic_error_from_os(-e));
    }
    assert_int_equal(snic_error_from_os(INT_MIN), SNIC_EIO);
    assert_int_equal(snic_error_from_os(INT_MAX), SNIC_EIO);
    assert_int_equal(snic_error_from_os(1001), SNIC_EIO);
}

/* A program must notice that it was linked with another library than compiled with. */
static void test_base_version_linked_equals_compiled(void **state)
{
    (void)state;
    assert_int_equal(snic_version(), SNIC_VERSION);
    assert_int_equal(SNIC_VERSION >> 16, SNIC_VERSION_MAJOR);
    assert_int_equal(SNIC_VERSION >> 8 & 0xff, SNIC_VERSION_MINOR);
    assert_int_equal(SNIC_VERSION & 0xff, SNIC_VERSION_PATCH);
}

/* ---- Options ---- */

struct opts_v1 {
    uint32_t opts_size;
    uint32_t a;
};
struct opts_v2 {
    uint32_t opts_size;
    uint32_t a;
    uint64_t b;
};

/* An older caller's options leave the newer fields at their defaults. */
static void test_base_opts_older_caller_takes_defaults(void **state)
{
    (void)state;
    struct opts_v1 src = {sizeof(src), 7};
    struct opts_v2 dst = {0, 1, 99};
    assert_int_equal(snic_opts_copy(&dst, sizeof(dst), &src), 0);
    assert_int_equal(dst.opts_size, sizeof(dst));
    assert_int_equal(dst.a, 7);
    assert_int_equal(dst.b, 99);
}

/* A newer caller is served only if it asks for nothing we do not know. */
static void test_base_opts_newer_caller_accepted_only_if_zero(void **state)
{
    (void)state;
    struct opts_v2 src = {sizeof(src), 7, 0};
    struct opts_v1 dst = {0, 1};
    assert_int_equal(snic_opts_copy(&dst, sizeof(dst), &src), 0);
    assert_int_equal(dst.opts_size, sizeof(dst));
    assert_int_equal(dst.a, 7);
    for (unsigned bit = 0; bit < 64; bit++) {
        struct opts_v1 before = {11, 12};
        dst = before;
        src.b = (uint64_t)1 << bit;
        assert_int_equal(snic_opts_copy(&dst, sizeof(dst), &src), SNIC_EINVAL);
        assert_memory_equal(&dst, &before, sizeof(dst));
    }
}

/* A size that was never set is refused before anything behind the struct is read. */
static void test_base_opts_absurd_size_refused(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 2, 3, SNIC_OPTS_BYTES_MAX + 1, UINT32_MAX};
    for (size_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        struct opts_v2 before = {1, 2, 3};
        struct opts_v2 dst = before;
        uint32_t *src = support_guard_alloc(sizeof(*src), 4);
        *src = sizes[i];
        assert_int_equal(snic_opts_copy(&dst, sizeof(dst), src), SNIC_EINVAL);
        assert_memory_equal(&dst, &before, sizeof(dst));
        support_guard_free(src);
    }
    uint32_t *src = support_guard_alloc(SNIC_OPTS_BYTES_MAX, 4);
    memset(src, 0, SNIC_OPTS_BYTES_MAX);
    *src = SNIC_OPTS_BYTES_MAX;
    struct opts_v2 dst = {1, 2, 3};
    assert_int_equal(snic_opts_copy(&dst, sizeof(dst), src), 0);
    assert_int_equal(dst.a, 0);
    support_guard_free(src);
}

/* ---- Integers and byte order ---- */

/* Formats on disk and wire are these bytes on every machine, at any alignment. */
static void test_base_codec_bytes_are_in_stated_order(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 8; shift++) {
        unsigned char *block = support_guard_alloc(shift + 8, 8);
        unsigned char *p = block + shift;
        static const unsigned char up[8] = {1, 2, 3, 4, 5, 6, 7, 0x88};
        memcpy(p, up, 8);
        assert_int_equal(snic_get_le16(p), 0x0201);
        assert_int_equal(snic_get_be16(p), 0x0102);
        assert_int_equal(snic_get_le32(p), 0x04030201);
        assert_int_equal(snic_get_be32(p), 0x01020304);
        assert_true(snic_get_le64(p) == UINT64_C(0x8807060504030201));
        assert_true(snic_get_be64(p) == UINT64_C(0x0102030405060788));
        memset(p, 0xee, 8);
        snic_put_le16(p, 0x0201);
        snic_put_be16(p + 2, 0x0304);
        snic_put_le32(p + 4, UINT32_C(0x88070605));
        assert_memory_equal(p, up, 8);
        snic_put_be32(p, UINT32_C(0x01020304));
        assert_memory_equal(p, up, 8);
        memset(p, 0, 8);
        snic_put_le64(p, UINT64_C(0x8807060504030201));
        assert_memory_equal(p, up, 8);
        memset(p, 0, 8);
        snic_put_be64(p, UINT64_C(0x0102030405060788));
        assert_memory_equal(p, up, 8);
        support_guard_free(block);
    }
}

/* Sizes of rings and tables come from these; an edge off by one corrupts memory. */
static void test_base_integers_edges_are_exact(void **state)
{
    (void)state;
    assert_false(snic_is_pow2(0));
    for (unsigned i = 0; i < 64; i++) {
        uint64_t p = (uint64_t)1 << i;
        assert_true(snic_is_pow2(p));
        assert_true(snic_pow2_up(p) == p);
        if (i >= 2) {
            assert_false(snic_is_pow2(p - 1));
            assert_false(snic_is_pow2(p + 1));
            assert_true(snic_pow2_up(p - 1) == p);
        }
        if (i < 63)
            assert_true(snic_pow2_up(p + 1) == 2 * p);
    }
    for (uint64_t v = 0; v < 200; v++) {
        assert_true(snic_align_up(v, 64) == (v + 63) / 64 * 64);
        assert_true(snic_align_down(v, 64) == v / 64 * 64);
        assert_true(snic_align_up(v, 1) == v);
    }
    assert_true(snic_min_u64(1, UINT64_MAX) == 1);
    assert_true(snic_max_u64(1, UINT64_MAX) == UINT64_MAX);
}

/* ---- Lists ---- */

/* First in, first out, and an emptied queue works again. */
static void test_base_queue_push_pop_keeps_order(void **state)
{
    (void)state;
    struct snic_node nodes[5];
    struct snic_queue q = {NULL, NULL};
    for (int round = 0; round < 3; round++) {
        assert_true(snic_queue_empty(&q));
        assert_null(snic_queue_pop(&q));
        for (int i = 0; i < 5; i++)
            snic_queue_push(&q, &nodes[i]);
        for (int i = 0; i < 5; i++) {
            assert_false(snic_queue_empty(&q));
            assert_ptr_equal(snic_queue_pop(&q), &nodes[i]);
            assert_null(nodes[i].next);
        }
    }
    assert_null(q.last);
}

/* A member leaves from any place and can leave twice. */
static void test_base_link_removed_leaves_others_linked(void **state)
{
    (void)state;
    for (unsigned gone = 0; gone < 8; gone++) {
        struct snic_link head;
        struct snic_link l[3];
        struct snic_link *at = &head;
        snic_link_init(&head);
        for (int i = 0; i < 3; i++)
            snic_link_append(&head, &l[i]);
        for (unsigned i = 0; i < 3; i++) {
            if (gone >> i & 1) {
                snic_link_remove(&l[i]);
                assert_true(snic_link_alone(&l[i]));
                snic_link_remove(&l[i]);
            }
        }
        for (unsigned i = 0; i < 3; i++) {
            if ((gone >> i & 1) == 0) {
                assert_ptr_equal(at->next, &l[i]);
                assert_ptr_equal(l[i].prev, at);
                at = &l[i];
            }
        }
        assert_ptr_equal(at->next, &head);
        assert_ptr_equal(head.prev, at);
        assert_int_equal(snic_link_alone(&head), gone == 7);
    }
}

/* ---- Arena ---- */

struct piece {
    size_t count;
    size_t size;
    size_t align;
};
static const struct piece pieces[] = {{1, 3, 1},  {5, 8, 8},   {0, 16, 64}, {7, 1, 1},
                                      {1, 1, 64}, {2, 100, 4}, {1, 1, 1},   {3, 24, 32}};

/* What was measured fits to the byte, aligned and without overlap. */
static void test_base_arena_measured_block_fits_exactly(void **state)
{
    (void)state;
    struct snic_arena m = {NULL, 0, 0};
    for (size_t i = 0; i < SNIC_COUNTOF(pieces); i++)
        assert_null(snic_arena_take(&m, pieces[i].count, pieces[i].size, pieces[i].align));
    assert_int_not_equal(m.used, SIZE_MAX);

    unsigned char *block = support_guard_alloc(m.used, 64);
    struct snic_arena a = {block, m.used, 0};
    unsigned char *last = block;
    for (size_t i = 0; i < SNIC_COUNTOF(pieces); i++) {
        const struct piece *p = &pieces[i];
        unsigned char *at = snic_arena_take(&a, p->count, p->size, p->align);
        assert_non_null(at);
        assert_true((size_t)(at - block) % p->align == 0);
        assert_true(at >= last && (size_t)(at - last) < p->align);
        memset(at, (int)i, p->count * p->size);
        last = at + p->count * p->size;
    }
    assert_int_equal(a.used, m.used);
    support_guard_free(block);
}

/* One byte short is noticed, and stays noticed. */
static void test_base_arena_one_byte_short_does_not_fit(void **state)
{
    (void)state;
    struct snic_arena m = {NULL, 0, 0};
    for (size_t i = 0; i < SNIC_COUNTOF(pieces); i++)
        (void)snic_arena_take(&m, pieces[i].count, pieces[i].size, pieces[i].align);
    unsigned char *block = support_guard_alloc(m.used - 1, 64);
    struct snic_arena a = {block, m.used - 1, 0};
    void *at = block;
    for (size_t i = 0; i < SNIC_COUNTOF(pieces); i++)
        at = snic_arena_take(&a, pieces[i].count, pieces[i].size, pieces[i].align);
    assert_null(at);
    assert_true(a.used == SIZE_MAX);
    assert_null(snic_arena_take(&a, 0, 0, 1));
    assert_true(a.used == SIZE_MAX);
    support_guard_free(block);
}

/* Products and sums beyond size_t are refused: they would place pieces over each other. */
static void test_base_arena_overflow_refused(void **state)
{
    (void)state;
    static const struct {
        size_t used;
        struct piece p;
    } bad[] = {
        {0, {SIZE_MAX, 2, 1}},        {0, {SIZE_MAX / 2 + 1, 2, 1}}, {1, {SIZE_MAX, 1, 1}},
        {SIZE_MAX - 5, {1, 1, 64}},   {SIZE_MAX - 5, {6, 1, 1}},     {0, {SIZE_MAX, 1, 1}},
        {SIZE_MAX - 70, {1, 64, 64}}, {SIZE_MAX - 5, {5, 1, 1}},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        struct snic_arena a = {NULL, 0, bad[i].used};
        assert_null(snic_arena_take(&a, bad[i].p.count, bad[i].p.size, bad[i].p.align));
        assert_true(a.used == SIZE_MAX);
    }
    struct snic_arena a = {NULL, 0, SIZE_MAX - 5};
    assert_null(snic_arena_take(&a, 4, 1, 1));
    assert_true(a.used == SIZE_MAX - 1);
}

/* ---- Tag matching ---- */

/* Both forms and their plain twins agree; a wrong lane order loses keys of the table. */
static void test_base_simd_random_lanes_match_scalar(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    unsigned char *block = support_guard_alloc(16 + 15, 1);
    for (unsigned round = 0; round < 200000; round++) {
        unsigned char *p = block + round % 16;
        uint64_t noise = snic_rng_next(&r);
        uint16_t tag16 = (uint16_t)noise;
        uint8_t tag8 = (uint8_t)(noise >> 16);
        uint32_t want16 = 0;
        uint32_t want8 = 0;
        uint16_t lanes[8];
        uint64_t words[2];
        snic_rng_fill(&r, p, 16);
        memcpy(lanes, p, 16);
        for (unsigned i = 0; i < 8; i++) {
            if (noise >> (24 + i) & 1)
                lanes[i] = (uint16_t)(tag16 ^ (noise >> (32 + i) & 1) << (noise >> 40 & 15));
        }
        memcpy(p, lanes, 16);
        for (unsigned i = 0; i < 16; i++) {
            if (noise >> (44 + i) & 1)
                p[i] = tag8;
        }
        memcpy(lanes, p, 16);
        memcpy(words, p, 16);
        for (unsigned i = 0; i < 8; i++)
            want16 |= (uint32_t)(lanes[i] == tag16) << i;
        for (unsigned i = 0; i < 16; i++)
            want8 |= (uint32_t)(p[i] == tag8) << i;
        assert_int_equal(simd_match_u16x8_scalar(p, tag16), want16);
        assert_int_equal(simd_match_u16x8(p, tag16), want16);
        assert_int_equal(simd_match_u8x16_scalar(p, tag8), want8);
        assert_int_equal(simd_match_u8x16(p, tag8), want8);
        words[0] = snic_get_le64(p);
        words[1] = snic_get_le64(p + 8);
        assert_int_equal(simd_match_u8x16_w(words[0], words[1], tag8), want8);
        assert_int_equal(simd_match_u8x16_w_scalar(words[0], words[1], tag8), want8);
        assert_int_equal(simd_match_u16x8_w(words[0], words[1], tag16),
                         simd_match_u16x8_w_scalar(words[0], words[1], tag16));
    }
    support_guard_free(block);
}

/* Each lane alone, with the values that saturating packs and signs get wrong. */
static void test_base_simd_single_lane_sets_single_bit(void **state)
{
    (void)state;
    static const uint16_t tags[] = {0, 1, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff};
    for (size_t t = 0; t < SNIC_COUNTOF(tags); t++) {
        for (unsigned i = 0; i < 16; i++) {
            uint64_t w[2];
            uint16_t not16 = (uint16_t)~tags[t];
            for (unsigned half = 0; half < 2; half++) {
                uint64_t v = not16 * UINT64_C(0x0001000100010001);
                if (i / 4 == half)
                    v ^= UINT64_C(0xffff) << (16 * (i % 4));
                w[half] = v;
            }
            if (i < 8) {
                assert_int_equal(simd_match_u16x8_w(w[0], w[1], tags[t]), 1u << i);
                assert_int_equal(simd_match_u16x8_w_scalar(w[0], w[1], tags[t]), 1u << i);
            }
            uint8_t tag8 = (uint8_t)tags[t];
            for (unsigned half = 0; half < 2; half++) {
                uint64_t v = (uint8_t)~tag8 * UINT64_C(0x0101010101010101);
                if (i / 8 == half)
                    v ^= UINT64_C(0xff) << (8 * (i % 8));
                w[half] = v;
            }
            assert_int_equal(simd_match_u8x16_w(w[0], w[1], tag8), 1u << i);
            assert_int_equal(simd_match_u8x16_w_scalar(w[0], w[1], tag8), 1u << i);
        }
    }
    assert_int_equal(simd_lowest(0x50), 4);
    assert_int_equal(simd_lowest64(UINT64_C(1) << 63), 63);
    simd_prefetch_read(NULL);
    simd_prefetch_write(NULL);
    simd_cpu_relax();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_error_every_code_has_name_and_text),
        cmocka_unit_test(test_base_error_unknown_code_has_text),
        cmocka_unit_test(test_base_error_numbers_are_those_of_linux),
        cmocka_unit_test(test_base_error_any_os_value_is_translated),
        cmocka_unit_test(test_base_version_linked_equals_compiled),
        cmocka_unit_test(test_base_opts_older_caller_takes_defaults),
        cmocka_unit_test(test_base_opts_newer_caller_accepted_only_if_zero),
        cmocka_unit_test(test_base_opts_absurd_size_refused),
        cmocka_unit_test(test_base_codec_bytes_are_in_stated_order),
        cmocka_unit_test(test_base_integers_edges_are_exact),
        cmocka_unit_test(test_base_queue_push_pop_keeps_order),
        cmocka_unit_test(test_base_link_removed_leaves_others_linked),
        cmocka_unit_test(test_base_arena_measured_block_fits_exactly),
        cmocka_unit_test(test_base_arena_one_byte_short_does_not_fit),
        cmocka_unit_test(test_base_arena_overflow_refused),
        cmocka_unit_test(test_base_simd_random_lanes_match_scalar),
        cmocka_unit_test(test_base_simd_single_lane_sets_single_bit),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
