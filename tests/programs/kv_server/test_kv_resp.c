/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The kv_server's RESP framing: the same messages wherever the stream is cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resp.h"
#include "snicstore/base.h"
#include "support.h"

static const struct resp_limits limits = {1000, 5000, 0};

/* Frame data[0, size) as it grows byte by byte; returns the last result. */
static int64_t frame_bytewise(const unsigned char *data, size_t size, uint64_t *state)
{
    int64_t r = 0;

    for (size_t n = 1; n <= size && r == 0; n++) {
        unsigned char *copy = support_guard_alloc(n, 1);

        memcpy(copy, data, n);
        r = resp_frame(copy, n, &limits, state);
        support_guard_free(copy);
    }
    return r;
}

/** Each message is cut at its end, at once and byte by byte, also with more behind it. */
static void test_kv_resp_frame_at_every_cut_finds_the_end(void **state)
{
    static const char *const messages[] = {
        "*1\r\n$4\r\nPING\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n",
        "*2\r\n$3\r\nGET\r\n$10\r\n\r\n*1\r\n$9\r\n\r\n",
        "PING\r\n",
        "SET a b\n",
        "\r\n",
        "\n",
        "*0\r\n",
        "*-1\r\n",
        "*-10\r\n",
    };

    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(messages); i++) {
        const unsigned char *m = (const unsigned char *)messages[i];
        size_t size = strlen(messages[i]);
        char both[128];
        uint64_t s = 0;

        assert_int_equal(resp_frame(m, size, &limits, &s), (int64_t)size);
        assert_int_equal(s, 0);
        assert_int_equal(frame_bytewise(m, size, &s), (int64_t)size);
        assert_int_equal(s, 0);
        memcpy(both, m, size);
        memcpy(both + size, "*1\r\n$4", 7);
        for (size_t cut = 1; cut < size; cut++) {
            s = 0;
            assert_int_equal(resp_frame((unsigned char *)both, cut, &limits, &s), 0);
            assert_int_equal(resp_frame((unsigned char *)both, size + 6, &limits, &s),
                             (int64_t)size);
            assert_int_equal(s, 0);
        }
    }
}

/** Broken input gets Redis' error texts. */
static void test_kv_resp_broken_input_gets_redis_texts(void **state)
{
    static const struct {
        const char *data;
        const char *text;
    } cases[] = {
        {"*x\r\n", "invalid multibulk length"},    {"*2147483648\r\n", "invalid multibulk length"},
        {"* 1\r\n", "invalid multibulk length"},   {"*1\r\nx\r\n", "expected '$', got 'x'"},
        {"*1\r\n:1\r\n", "expected '$', got ':'"}, {"*1\r\n$-1\r\n", "invalid bulk length"},
        {"*1\r\n$x\r\n", "invalid bulk length"},   {"*1\r\n$536870913\r\n", "invalid bulk length"},
    };

    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        const unsigned char *d = (const unsigned char *)cases[i].data;
        size_t size = strlen(cases[i].data);
        char text[RESP_ERROR_MAX];
        char expected[RESP_ERROR_MAX];
        uint64_t s = 0;
        size_t n;

        assert_int_equal(resp_frame(d, size, &limits, &s), SNIC_EPROTO);
        s = 0;
        assert_int_equal(frame_bytewise(d, size, &s), SNIC_EPROTO);
        n = resp_error(d, size, &limits, text);
        n = n < sizeof(text) ? n : sizeof(text) - 1;
        text[n] = 0;
        snprintf(expected, sizeof(expected), "-ERR Protocol error: %s\r\n", cases[i].text);
        assert_string_equal(text, expected);
    }
}

/* Feed a stream to framer and discarder in pieces; count messages and refusals. */
static void feed(const unsigned char *data, size_t size, size_t piece, uint32_t *whole,
                 uint32_t *refused)
{
    unsigned char *buffer = malloc(size);
    size_t have = 0;
    size_t at = 0;
    uint64_t s = 0;

    *whole = *refused = 0;
    while (at < size || have > 0) {
        size_t more = size - at < piece ? size - at : piece;
        int64_t n;

        memcpy(buffer + have, data + at, more);
        have += more;
        at += more;
        do {
            int skipping = resp_skipping(s);

            n = have == 0 ? 0 : skipping ? SNIC_EMSGSIZE : resp_frame(buffer, have, &limits, &s);
            if (n == SNIC_EMSGSIZE) {
                n = resp_discard(buffer, have, &s);
                *refused += n >= 0 && s == 0;
                if (s != 0 && n == 0)
                    break;
            } else if (n > 0) {
                (*whole)++;
            }
            assert_true(n >= 0);
            memmove(buffer, buffer + n, have - (size_t)n);
            have -= (size_t)n;
        } while (n > 0);
        if (more == 0 && n == 0)
            break;
        assert_true(have <= limits.message_max + piece);
    }
    assert_int_equal(have, 0);
    free(buffer);
}

/** Oversized messages are skipped whole in bounded memory, whatever the pieces. */
static void test_kv_resp_oversized_messages_are_skipped(void **state)
{
    static const size_t pieces[] = {1, 2, 3, 7, 64, 999, 4096, 1u << 20};
    unsigned char *data = malloc(64 << 10);
    size_t size = 0;

    (void)state;
    memset(data, 'x', 64 << 10);
#define TEXT(s) (memcpy(data + size, s, sizeof(s) - 1), size += sizeof(s) - 1)
    TEXT("*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000\r\n");
    size += 5000;
    TEXT("\r\n*1\r\n$4\r\nPING\r\n*3\r\n$20000\r\n");
    size += 20000;
    TEXT("\r\n$3\r\nabc\r\n$1001\r\n");
    size += 1001;
    TEXT("\r\nPING\r\n*7\r\n");
    for (int i = 0; i < 7; i++) {
        TEXT("$1000\r\n");
        size += 1000;
        TEXT("\r\n");
    }
    TEXT("*1\r\n$4\r\nPING\r\n");
#undef TEXT
    for (size_t i = 0; i < SNIC_COUNTOF(pieces); i++) {
        uint32_t whole;
        uint32_t refused;

        feed(data, size, pieces[i], &whole, &refused);
        assert_int_equal(whole, 4);
        assert_int_equal(refused, 3);
    }
    free(data);
}

/** Arguments of array and inline messages; quotes as in Redis. */
static void test_kv_resp_args_are_taken(void **state)
{
    static const char array[] = "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n\r\n\r\n";
    static const char line[] = "  set \"a\\x41\\n\\\"\" 'it\\'s' ''  \r\n";
    unsigned char scratch[128];
    struct resp_arg a[4];

    (void)state;
    assert_int_equal(resp_args((const unsigned char *)array, sizeof(array) - 1, a, 4, NULL), 3);
    assert_int_equal(a[1].size, 0);
    assert_int_equal(a[2].size, 4);
    assert_memory_equal(a[2].data, "\r\n\r\n", 4);
    assert_int_equal(resp_args((const unsigned char *)array, sizeof(array) - 1, a, 1, NULL), 3);
    assert_int_equal(resp_args((const unsigned char *)line, sizeof(line) - 1, a, 4, scratch), 4);
    assert_int_equal(a[1].size, 4);
    assert_memory_equal(a[1].data, "aA\n\"", 4);
    assert_int_equal(a[2].size, 4);
    assert_memory_equal(a[2].data, "it's", 4);
    assert_int_equal(a[3].size, 0);
    assert_int_equal(resp_args((const unsigned char *)"a 'b\r\n", 6, a, 4, scratch), SNIC_EPROTO);
    assert_int_equal(resp_args((const unsigned char *)"a 'b'c\r\n", 8, a, 4, scratch), SNIC_EPROTO);
    assert_int_equal(resp_args((const unsigned char *)"*0\r\n", 4, a, 4, scratch), 0);
    assert_int_equal(resp_args((const unsigned char *)" \r\n", 3, a, 4, scratch), 0);
}

/** Numbers are strict, and written right at the edges. */
static void test_kv_resp_numbers(void **state)
{
    static const struct {
        const char *text;
        int ok;
        int64_t value;
    } cases[] = {
        {"0", 1, 0},
        {"-1", 1, -1},
        {"9223372036854775807", 1, INT64_MAX},
        {"-9223372036854775808", 1, INT64_MIN},
        {"9223372036854775808", 0, 0},
        {"-9223372036854775809", 0, 0},
        {"18446744073709551617", 0, 0},
        {"", 0, 0},
        {"-", 0, 0},
        {"+1", 0, 0},
        {"01", 0, 0},
        {"-0", 0, 0},
        {" 1", 0, 0},
        {"1 ", 0, 0},
        {"1x", 0, 0},
    };
    char out[24];

    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        int64_t v = 0;

        assert_int_equal(resp_number(cases[i].text, strlen(cases[i].text), &v) == 0, cases[i].ok);
        assert_true(v == cases[i].value);
        if (cases[i].ok) {
            size_t n = resp_put_number(out, ':', v);

            assert_int_equal(n, strlen(cases[i].text) + 3);
            assert_memory_equal(out + 1, cases[i].text, n - 3);
        }
    }
}

/** Random bytes near the grammar: no overrun, and byte by byte the same outcome as at once. */
static void test_kv_resp_noise_has_one_meaning(void **state)
{
    static const char alphabet[] = "*$:\r\n0123-x'\"\\ ";
    struct snic_rng rng;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint64_t i = 0; i < support_scale(3000, 100000); i++) {
        size_t size = 1 + snic_rng_next(&rng) % 40;
        unsigned char *data = support_guard_alloc(size, 1);
        uint64_t s = 0;
        int64_t r;

        for (size_t b = 0; b < size; b++)
            data[b] = (unsigned char)alphabet[snic_rng_next(&rng) % (sizeof(alphabet) - 1)];
        if (snic_rng_next(&rng) % 2)
            data[0] = '*';
        r = resp_frame(data, size, &limits, &s);
        s = 0;
        assert_true(frame_bytewise(data, size, &s) == r);
        if (r > 0) {
            unsigned char scratch[64];
            struct resp_arg a[4];

            (void)resp_args(data, (size_t)r, a, 4, scratch);
        } else if (r == SNIC_EPROTO) {
            char text[RESP_ERROR_MAX];

            assert_true(resp_error(data, size, &limits, text) < sizeof(text));
        }
        support_guard_free(data);
    }
}

/** The largest count and the largest argument fit into the state, framing and skipping. */
static void test_kv_resp_largest_counts_fit_the_state(void **state)
{
    static const char text[] = "*2147483647\r\n$1\r\na\r\n$536870912\r\nx";
    const unsigned char *d = (const unsigned char *)text;
    uint64_t s = 0;

    (void)state;
    assert_int_equal(resp_frame(d, 20, &limits, &s), 0);
    assert_false(resp_skipping(s));
    assert_int_equal(resp_frame(d, sizeof(text) - 1, &limits, &s), SNIC_EMSGSIZE);
    assert_int_equal(resp_discard(d, sizeof(text) - 1, &s), sizeof(text) - 1);
    assert_true(resp_skipping(s));
    for (uint64_t left = (512u << 20) + 1; left > 0;) { /* the argument's rest and its CRLF */
        static unsigned char zeros[1 << 20];
        size_t n = left < sizeof(zeros) ? (size_t)left : sizeof(zeros);

        assert_int_equal(resp_discard(zeros, n, &s), n);
        left -= n;
    }
    assert_int_equal(resp_discard(d + 13, 7, &s), 7); /* the next one */
    assert_true(resp_skipping(s));
    d = (const unsigned char *)"$-1\r\n";
    assert_int_equal(resp_discard(d, 5, &s), SNIC_EPROTO);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_resp_frame_at_every_cut_finds_the_end),
        cmocka_unit_test(test_kv_resp_broken_input_gets_redis_texts),
        cmocka_unit_test(test_kv_resp_oversized_messages_are_skipped),
        cmocka_unit_test(test_kv_resp_args_are_taken),
        cmocka_unit_test(test_kv_resp_numbers),
        cmocka_unit_test(test_kv_resp_noise_has_one_meaning),
        cmocka_unit_test(test_kv_resp_largest_counts_fit_the_state),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
