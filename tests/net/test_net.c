/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Addresses as text.
 */
#include <stdio.h>

#include "snicstore/net.h"
#include "support.h"

static struct snic_net_addr parsed(const char *text)
{
    struct snic_net_addr a;
    memset(&a, 0xa5, sizeof(a));
    if (snic_net_addr_parse(&a, text) != 0)
        fail_msg("%s is an address", text);
    return a;
}

static void refused(const char *text)
{
    struct snic_net_addr a;
    struct snic_net_addr copy;
    memset(&a, 0xa5, sizeof(a));
    copy = a;
    if (snic_net_addr_parse(&a, text) != SNIC_EINVAL)
        fail_msg("%s is no address", text);
    assert_memory_equal(&a, &copy, sizeof(a));
}

/* Every kind of address must be parsed exactly, with no old bytes in it. */
static void test_net_addr_good_text_parsed(void **state)
{
    static const unsigned char v6[16] = {0x20, 1, 0xd, 0xb8, 0,    0,    0, 0,
                                         0,    0, 0,   0,    0xab, 0xcd, 0, 1};
    struct snic_net_addr want;
    struct snic_net_addr a = parsed("1.2.3.255:65535");
    (void)state;
    memset(&want, 0, sizeof(want));
    want.family = SNIC_NET_IPV4;
    want.port = 65535;
    memcpy(want.ip, "\1\2\3\377", 4);
    assert_memory_equal(&a, &want, sizeof(a));
    a = parsed("localhost:80");
    memcpy(want.ip, "\177\0\0\1", 4);
    want.port = 80;
    assert_memory_equal(&a, &want, sizeof(a));
    a = parsed("[2001:DB8::abcd:1]:0");
    memset(&want, 0, sizeof(want));
    want.family = SNIC_NET_IPV6;
    memcpy(want.ip, v6, 16);
    assert_memory_equal(&a, &want, sizeof(a));
    a = parsed("unix:/run/x y:1");
    memset(&want, 0, sizeof(want));
    want.family = SNIC_NET_UNIX;
    memcpy(want.path, "/run/x y:1", 10);
    assert_memory_equal(&a, &want, sizeof(a));
    a = parsed("sim:4294967295:1");
    memset(&want, 0, sizeof(want));
    want.family = SNIC_NET_SIM;
    want.node = UINT32_MAX;
    want.port = 1;
    assert_memory_equal(&a, &want, sizeof(a));
}

/* A sloppy text would be taken for an address, or a failure would change the output. */
static void test_net_addr_bad_text_refused(void **state)
{
    static const char *const bad[] = {"",
                                      ":",
                                      ":80",
                                      "1.2.3.4",
                                      "1.2.3.4:",
                                      "1.2.3.4:65536",
                                      "1.2.3.4:-1",
                                      "1.2.3.4:+1",
                                      "1.2.3.4: 1",
                                      "1.2.3.4:1 ",
                                      "1.2.3.4:080",
                                      "1.2.3:80",
                                      "1.2.3.4.5:80",
                                      "1.2.3.256:80",
                                      "01.2.3.4:80",
                                      "1.2.3.4:99999999999999999999",
                                      "1..3.4:80",
                                      "a.b.c.d:80",
                                      "*:80",
                                      "localhost",
                                      "localhost:",
                                      "localhosts:80",
                                      "localhost.:80",
                                      "[]:80",
                                      "[:]:80",
                                      "[::]",
                                      "[::]:",
                                      "[::1]80",
                                      "[::1:80",
                                      "::1:80",
                                      "[:::]:80",
                                      "[1:2:3:4:5:6:7]:80",
                                      "[1:2:3:4:5:6:7:8:9]:80",
                                      "[1::2::3]:80",
                                      "[12345::]:80",
                                      "[1:2:3:4:5:6:7:8::]:80",
                                      "[::1.2.3]:80",
                                      "[::1.2.3.4.5]:80",
                                      "[1.2.3.4::]:80",
                                      "[::1.2.3.4:5]:80",
                                      "[1:]:80",
                                      "[:1]:80",
                                      "[::g]:80",
                                      "[fe80::1%eth0]:80",
                                      "[::1]:80x",
                                      "[1:2:3:4:5:6:7:1.2.3.4]:80",
                                      "unix:",
                                      "sim:",
                                      "sim:1",
                                      "sim:1:",
                                      "sim::1",
                                      "sim:4294967296:1",
                                      "sim:1:65536",
                                      "sim:-1:1",
                                      "sim:01:1"};
    char path[200];
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++)
        refused(bad[i]);
    memset(path, 'x', sizeof(path));
    memcpy(path, "unix:", 5);
    path[5 + 108] = '\0';
    refused(path);
    path[5 + 107] = '\0';
    assert_int_equal(strlen(parsed(path).path), 107);
}

/* Texts must come out in their one canonical form and lead back to the same address. */
static void test_net_addr_formatted_canonical(void **state)
{
    static const char *const pairs[][2] = {{"1.2.3.4:5", NULL},
                                           {"localhost:7", "127.0.0.1:7"},
                                           {"[::]:1", NULL},
                                           {"[::1]:1", NULL},
                                           {"[1::]:1", NULL},
                                           {"[0:0:0:0:0:0:0:1]:1", "[::1]:1"},
                                           {"[2001:0db8:0:0:1:0:0:1]:1", "[2001:db8::1:0:0:1]:1"},
                                           {"[2001:db8:0:1:1:1:1:1]:1", NULL},
                                           {"[2001:db8::1:1:1:1:1]:1", "[2001:db8:0:1:1:1:1:1]:1"},
                                           {"[1:0:0:2:0:0:0:3]:9", "[1:0:0:2::3]:9"},
                                           {"[::ffff:1.2.3.4]:1", NULL},
                                           {"[::ffff:0102:0304]:1", "[::ffff:1.2.3.4]:1"},
                                           {"[64:ff9b::192.0.2.33]:1", "[64:ff9b::c000:221]:1"},
                                           {"[1:2:3:4:5:6:7:8]:65535", NULL},
                                           {"[1:2:3:4:5:6:7::]:1", "[1:2:3:4:5:6:7:0]:1"},
                                           {"unix:/a/b", NULL},
                                           {"sim:3:4", NULL}};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(pairs); i++) {
        const char *want = pairs[i][1] != NULL ? pairs[i][1] : pairs[i][0];
        struct snic_net_addr a = parsed(pairs[i][0]);
        char text[200];
        memset(text, 'z', sizeof(text));
        assert_int_equal(snic_net_addr_format(&a, text, sizeof(text)), strlen(want));
        assert_string_equal(text, want);
        struct snic_net_addr again = parsed(text);
        assert_memory_equal(&a, &again, sizeof(a));
    }
}

/* Small buffers would be overrun, or left without an end. */
static void test_net_addr_small_space_cut(void **state)
{
    struct snic_net_addr a = parsed("[2001:db8::1:0:0:1]:12345");
    char whole[64];
    int size = snic_net_addr_format(&a, whole, sizeof(whole));
    (void)state;
    for (size_t n = 0; n <= (size_t)size + 1; n++) {
        char *out = support_guard_alloc(n > 0 ? n : 1, 1);
        assert_int_equal(snic_net_addr_format(&a, out, n), size);
        if (n > 0) {
            size_t kept = n - 1 < (size_t)size ? n - 1 : (size_t)size;
            assert_int_equal(strlen(out), kept);
            assert_memory_equal(out, whole, kept);
        }
        support_guard_free(out);
    }
    a.family = 77;
    assert_int_equal(snic_net_addr_format(&a, whole, sizeof(whole)), 7);
    assert_string_equal(whole, "?:12345");
    a.family = SNIC_NET_UNIX;
    memset(a.path, 'p', sizeof(a.path)); /* no NUL: not ours, and yet no crash */
    assert_int_equal(snic_net_addr_format(&a, whole, sizeof(whole)), 5 + 108);
}

/* Any address must survive the way through its text. */
static void test_net_addr_random_round_trip(void **state)
{
    struct snic_rng r;
    (void)state;
    snic_rng_init(&r, support_seed());
    for (int i = 0; i < 20000; i++) {
        struct snic_net_addr a;
        struct snic_net_addr b;
        char text[200];
        memset(&a, 0, sizeof(a));
        a.family = i % 3 == 0 ? SNIC_NET_IPV4 : i % 3 == 1 ? SNIC_NET_IPV6 : SNIC_NET_SIM;
        a.port = (uint16_t)snic_rng_next(&r);
        if (a.family == SNIC_NET_SIM)
            a.node = (uint32_t)snic_rng_next(&r);
        else
            snic_rng_fill(&r, a.ip, a.family == SNIC_NET_IPV4 ? 4 : 16);
        for (unsigned k = 0; a.family == SNIC_NET_IPV6 && k < 8; k++) {
            if (snic_rng_below(&r, 2) == 0)
                memset(a.ip + 2 * k, 0, 2);
        }
        (void)snic_net_addr_format(&a, text, sizeof(text));
        b = parsed(text);
        assert_memory_equal(&a, &b, sizeof(a));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_net_addr_good_text_parsed),
        cmocka_unit_test(test_net_addr_bad_text_refused),
        cmocka_unit_test(test_net_addr_formatted_canonical),
        cmocka_unit_test(test_net_addr_small_space_cut),
        cmocka_unit_test(test_net_addr_random_round_trip),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
