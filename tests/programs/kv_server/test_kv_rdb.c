/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* DUMP's form: what is written is read again, known bytes, and hostile ones. */
#include "rdb.h"
#include "snicstore/base.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static void round_trip(const unsigned char *value, size_t size)
{
    unsigned char *out = malloc(size + RDB_OVERHEAD);
    size_t n = rdb_dump(out, value, size);
    int64_t body = rdb_open(out, n);
    struct rdb_string s;
    unsigned char *back;

    assert_true(n <= size + RDB_OVERHEAD);
    assert_int_equal(body, (int64_t)n - 10);
    assert_int_equal(out[0], RDB_TYPE_STRING);
    assert_int_equal(rdb_string(&s, out + 1, (size_t)body - 1), 0);
    assert_int_equal(s.size, size);
    back = malloc(size + 1);
    assert_int_equal(rdb_value(&s, back), 0);
    assert_memory_equal(back, value, size);
    out[n - 1] ^= 1;
    assert_true(rdb_open(out, n) < 0);
    free(back);
    free(out);
}

/** Every length around a change of its encoding, and numbers around theirs. */
static void test_kv_rdb_dump_is_read_again(void **state)
{
    static const char *const numbers[] = {
        "0",      "-1",         "127",        "128",         "-128", "-129", "32767", "32768",
        "-32769", "2147483647", "2147483648", "-2147483648", "007",  "",     "+5"};
    static const size_t sizes[] = {0, 1, 63, 64, 16383, 16384, 70000};
    unsigned char *value = calloc(1, 70000);

    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(numbers); i++)
        round_trip((const unsigned char *)numbers[i], strlen(numbers[i]));
    for (size_t i = 0; i < SNIC_COUNTOF(sizes); i++)
        round_trip(value, sizes[i]);
    free(value);
}

/** The checksum's published check value, and a payload as Redis 7.0 writes it. */
static void test_kv_rdb_known_bytes(void **state)
{
    static const unsigned char lzf[] = {0xc3, 0x09, 0x28, 0x01, 0x61, 0x61, 0xe0,
                                        0x1b, 0x00, 0x01, 0x61, 0x61, 0x99};
    unsigned char value[40];
    unsigned char long_text[1000];
    struct rdb_string s;

    (void)state;
    assert_true(rdb_crc64(0, "123456789", 9) == 0xe9c6d914c4b8d9cau);
    memset(long_text, 'x', sizeof(long_text)); /* both ways of computing it */
    assert_true(rdb_crc64(rdb_crc64(0, long_text, 500), long_text + 500, 500) ==
                rdb_crc64(0, long_text, 1000));
    /* 40 times 'a': two as they are, 36 repeated, two as they are. */
    assert_int_equal(rdb_string(&s, lzf, sizeof(lzf)), 0);
    assert_int_equal(s.size, 40);
    assert_int_equal(rdb_value(&s, value), 0);
    for (size_t i = 0; i < sizeof(value); i++)
        assert_int_equal(value[i], 'a');
}

/* The payload of @p body, of a version, whole. @return its size */
static size_t sealed(unsigned char *out, const char *body, size_t size, uint16_t version)
{
    memcpy(out, body, size);
    snic_put_le16(out + size, version);
    snic_put_le64(out + size + 2, rdb_crc64(0, out, size + 2));
    return size + 10;
}

/** Strings of Redis 7.2 and 8 are read; another type and a newer version are refused by name. */
static void test_kv_rdb_newer_versions(void **state)
{
    unsigned char payload[64];
    char error[RDB_ERROR_MAX];
    struct rdb_string s;

    (void)state;
    for (uint16_t v = RDB_VERSION; v <= 12; v++) {
        size_t n = sealed(payload, "\0\5hello", 7, v);

        assert_int_equal(rdb_read(&s, payload, n, error), 0);
        assert_int_equal(s.size, 5);
        assert_memory_equal(s.data, "hello", 5);
        n = sealed(payload, "\25x", 2, v); /* a type of 7.2 */
        assert_int_equal(rdb_read(&s, payload, n, error), -1);
        assert_non_null(strstr(error, "RDB type 21 (stream) is not a string"));
    }
    assert_int_equal(rdb_read(&s, payload, sealed(payload, "\0\5hello", 7, 13), error), -1);
    assert_non_null(strstr(error, "RDB version 13"));
    assert_int_equal(rdb_read(&s, payload, sealed(payload, "\377x", 2, 10), error), -1);
    assert_string_equal(error, "ERR Bad data format");
    assert_int_equal(rdb_read(&s, payload, sealed(payload, "", 0, 10), error), -1);
    assert_string_equal(error, "ERR Bad data format");
    payload[0] ^= 1;
    assert_int_equal(rdb_read(&s, payload, 10, error), -1);
    assert_string_equal(error, "ERR DUMP payload version or checksum are wrong");
}

/** Random bytes: an error or a value of the size that was announced, and no byte beyond. */
static void test_kv_rdb_hostile_bytes_stay_inside(void **state)
{
    struct snic_rng rng;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint64_t i = 0; i < support_scale(100000, 3000000); i++) {
        size_t size = (size_t)(snic_rng_next(&rng) % 40);
        unsigned char *data = malloc(size > 0 ? size : 1);
        char error[RDB_ERROR_MAX];
        struct rdb_string s;

        for (size_t k = 0; k < size; k++)
            data[k] = (unsigned char)(snic_rng_next(&rng) >> 24);
        if (size > 3 && i % 2 == 0) { /* compressed, of a length that may be right */
            data[0] = 0xc3;
            data[1] = (unsigned char)(size - 3);
            data[2] &= 63;
        }
        if (rdb_string(&s, data, size) == 0 && s.size < 100000) {
            unsigned char *value = malloc(s.size > 0 ? s.size : 1);

            (void)rdb_value(&s, value);
            free(value);
        }
        (void)rdb_read(&s, data, size, error);
        free(data);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_rdb_dump_is_read_again),
        cmocka_unit_test(test_kv_rdb_known_bytes),
        cmocka_unit_test(test_kv_rdb_newer_versions),
        cmocka_unit_test(test_kv_rdb_hostile_bytes_stay_inside),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
