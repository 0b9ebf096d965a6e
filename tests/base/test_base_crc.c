/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "support.h"
#include "snicstore/base.h"

#include <stdio.h>

uint32_t streams_crc32c(uint32_t crc, const void *data, size_t size);

typedef uint32_t (*crc_fn)(uint32_t crc, const void *data, size_t size);
static const crc_fn both[] = {snic_crc32c, snic_crc32c_portable};

/* The definition, one bit at a time. */
static uint32_t crc_by_bits(uint32_t crc, const unsigned char *p, size_t size)
{
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

/* A checksum that is not the standard one is unreadable for every other program. */
static void test_base_crc_published_vectors_match(void **state)
{
    (void)state;
    unsigned char v[32];
    /* An iSCSI read command, RFC 3720 B.4. */
    static const unsigned char pdu[48] = {
        0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 4, 0,
        0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 2,    0, 0, 0, 0, 0, 0, 0};
    printf("hardware instruction: %s\n", snic_crc32c_is_hardware() ? "yes" : "no");
    for (size_t i = 0; i < 2; i++) {
        crc_fn crc = both[i];
        assert_int_equal(crc(0, "123456789", 9), 0xe3069283);
        assert_int_equal(crc(0, NULL, 0), 0);
        assert_int_equal(crc(0xdeadbeef, "x", 0), 0xdeadbeef);
        memset(v, 0, 32);
        assert_int_equal(crc(0, v, 32), 0x8a9136aa);
        memset(v, 0xff, 32);
        assert_int_equal(crc(0, v, 32), 0x62a8ab43);
        for (unsigned b = 0; b < 32; b++)
            v[b] = (unsigned char)b;
        assert_int_equal(crc(0, v, 32), 0x46dd794e);
        for (unsigned b = 0; b < 32; b++)
            v[b] = (unsigned char)(31 - b);
        assert_int_equal(crc(0, v, 32), 0x113fdb5c);
        assert_int_equal(crc(0, pdu, sizeof(pdu)), 0xd9963a56);
    }
}

/* Every length over all three paths (bulk, short streams, tail), at every alignment. */
static void test_base_crc_every_length_equals_definition(void **state)
{
    (void)state;
    struct snic_rng r;
    size_t most = 9000;
    snic_rng_init(&r, support_seed());
    unsigned char *block = support_guard_alloc(most + 16, 16);
    snic_rng_fill(&r, block, most + 16);
    for (size_t shift = 0; shift < 16; shift++) {
        for (size_t size = shift; size <= most; size += 16) {
            /* The end of the input is the end of the page that may be touched. */
            const unsigned char *p = block + (most + 16 - size);
            uint32_t start = (uint32_t)snic_rng_next(&r);
            uint32_t want = snic_crc32c_portable(start, p, size);
            assert_int_equal(snic_crc32c(start, p, size), want);
            assert_int_equal(streams_crc32c(start, p, size), want);
            if (size % 64 == shift)
                assert_int_equal(crc_by_bits(start, p, size), want);
        }
    }
    for (size_t size = 0; size < 64; size++) {
        for (size_t shift = 0; shift < 16; shift++) {
            uint32_t want = crc_by_bits(7, block + shift, size);
            assert_int_equal(snic_crc32c(7, block + shift, size), want);
            assert_int_equal(snic_crc32c_portable(7, block + shift, size), want);
        }
    }
    support_guard_free(block);
}

/* Records are checksummed in pieces: any cut gives the same sum. */
static void test_base_crc_random_cuts_give_same_sum(void **state)
{
    (void)state;
    struct snic_rng r;
    size_t most = 200000;
    snic_rng_init(&r, support_seed() + 1);
    unsigned char *block = support_guard_alloc(most, 16);
    snic_rng_fill(&r, block, most);
    uint64_t rounds = support_scale(200, 20000);
    for (uint64_t round = 0; round < rounds; round++) {
        size_t from = (size_t)snic_rng_below(&r, most);
        size_t size = (size_t)snic_rng_below(&r, most - from + 1);
        uint32_t want = snic_crc32c_portable(0, block + from, size);
        uint32_t sum = 0;
        assert_int_equal(snic_crc32c(0, block + from, size), want);
        assert_int_equal(streams_crc32c(0, block + from, size), want);
        for (size_t done = 0; done < size;) {
            size_t piece = (size_t)snic_rng_below(&r, (size - done) / 2 + 2);
            if (piece > size - done)
                piece = size - done;
            sum = both[snic_rng_below(&r, 2)](sum, block + from + done, piece);
            done += piece;
        }
        assert_int_equal(sum, want);
    }
    support_guard_free(block);
}

/* Any flipped bit changes the sum: the property the disk format relies on. */
static void test_base_crc_flipped_bit_changes_sum(void **state)
{
    (void)state;
    unsigned char page[512];
    struct snic_rng r;
    snic_rng_init(&r, support_seed() + 2);
    snic_rng_fill(&r, page, sizeof(page));
    uint32_t good = snic_crc32c(0, page, sizeof(page));
    for (size_t bit = 0; bit < 8 * sizeof(page); bit++) {
        page[bit / 8] = (unsigned char)(page[bit / 8] ^ 1u << bit % 8);
        assert_int_not_equal(snic_crc32c(0, page, sizeof(page)), good);
        page[bit / 8] = (unsigned char)(page[bit / 8] ^ 1u << bit % 8);
    }
}

/* Joined sums that differ from the sum of the whole would accept or refuse the wrong data. */
static void test_base_crc_combined_equals_sum_of_whole(void **state)
{
    (void)state;
    struct snic_rng r;
    static unsigned char block[16 * 4096];
    snic_rng_init(&r, support_seed());
    snic_rng_fill(&r, block, sizeof(block));

    for (size_t b = 0; b <= 600; b++) {
        for (size_t a = 0; a < 20; a++)
            assert_int_equal(
                snic_crc32c_combine(snic_crc32c(0, block, a), snic_crc32c(0, block + a, b), b),
                snic_crc32c(0, block, a + b));
    }
    for (unsigned i = 0; i < 2000; i++) {
        size_t a = (size_t)snic_rng_below(&r, sizeof(block) / 2);
        size_t b = (size_t)snic_rng_below(&r, sizeof(block) / 2);
        assert_int_equal(
            snic_crc32c_combine(snic_crc32c(0, block, a), snic_crc32c(0, block + a, b), b),
            snic_crc32c(0, block, a + b));
    }
    uint32_t crc = snic_crc32c(0, block, 4096);
    for (size_t n = 4096; n < sizeof(block); n += 4096) {
        crc = snic_crc32c_combine_4096(crc, snic_crc32c(0, block + n, 4096));
        assert_int_equal(crc, snic_crc32c(0, block, n + 4096));
    }
}

/* Sizes beyond memory: two steps must be one, up to the last bit of the size and where it wraps. */
static void test_base_crc_combined_huge_sizes_add_up(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    for (unsigned i = 0; i < 2000; i++) {
        uint32_t crc = (uint32_t)snic_rng_next(&r);
        uint64_t n = snic_rng_next(&r);
        n >>= 1 + snic_rng_below(&r, 63);
        uint64_t m = snic_rng_next(&r);
        m >>= 1 + snic_rng_below(&r, 63);
        assert_int_equal(snic_crc32c_combine(snic_crc32c_combine(crc, 0, n), 0, m),
                         snic_crc32c_combine(crc, 0, n + m));
    }
    /* x has the order 2^31 - 1, which is odd: so many bytes change nothing, no fewer do. */
    assert_int_equal(snic_crc32c_combine(0xdeadbeef, 0, 0x7fffffff), 0xdeadbeef);
    assert_int_equal(snic_crc32c_combine(0xdeadbeef, 7, 0), 0xdeadbeef ^ 7);
    assert_int_equal(snic_crc32c_power(4096), snic_crc32c_power(4096 + UINT64_C(0x7fffffff) * 5));
    assert_int_not_equal(snic_crc32c_power(UINT64_MAX), snic_crc32c_power(0));
    static unsigned char zeros[4096];
    assert_int_equal(snic_crc32c(0, zeros, sizeof(zeros)), 0x98f94189);
}

/* A machine without the instruction must compute the same as one with it. */
static void test_base_crc_advanced_portable_equals_fast(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    for (unsigned i = 0; i < 32; i++) {
        for (unsigned j = 0; j < 32; j++)
            assert_int_equal(snic_crc32c_advance(1u << i, 1u << j),
                             snic_crc32c_advance_portable(1u << i, 1u << j));
    }
    for (unsigned i = 0; i < 10000; i++) {
        uint32_t a = (uint32_t)snic_rng_next(&r);
        uint32_t b = (uint32_t)snic_rng_next(&r);
        assert_int_equal(snic_crc32c_advance(a, b), snic_crc32c_advance_portable(a, b));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_crc_published_vectors_match),
        cmocka_unit_test(test_base_crc_every_length_equals_definition),
        cmocka_unit_test(test_base_crc_random_cuts_give_same_sum),
        cmocka_unit_test(test_base_crc_flipped_bit_changes_sum),
        cmocka_unit_test(test_base_crc_combined_equals_sum_of_whole),
        cmocka_unit_test(test_base_crc_combined_huge_sizes_add_up),
        cmocka_unit_test(test_base_crc_advanced_portable_equals_fast),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
