/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The two halves against each other: success, and every way not to have it. */
#include "support.h"
#include "test_nvmeauth_util.h"

#include <stdlib.h>
#include <string.h>

static struct na_pair p;

static const uint32_t hashes[] = {SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_SHA384, SNIC_NVMEAUTH_SHA512};
static const uint32_t groups[] = {SNIC_NVMEAUTH_DH_NULL, SNIC_NVMEAUTH_FFDHE2048};

/* ---- Secrets ---- */

struct secret {
    const char *text;
    int result;
    uint8_t hash;
    uint8_t size;
};
#define KEY_32 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh"
/* The good ones are of `nvme gen-dhchap-key`; the first is of the bytes 0, 1, 2 ... */
static const struct secret secrets[] = {
    {"DHHC-1:00:" KEY_32 "+KfiaR:", 0, 0, 32},
    {"DHHC-1:00:" KEY_32 "+KfiaR:\n", 0, 0, 32},
    {"DHHC-1:01:YIxnmbFpBiH8Ci+rnzvuh8NUXTVlsR4BhLR9AZDNIthSZgxm:", 0, 1, 32},
    {"DHHC-1:02:AQsjJVrkaifYXSAbUvND8541MKuvfm3/nl5ufhIOFEXrZVagjOzICJW+Gd8fK3EQumcXzw==:", 0, 2,
     48},
    {"DHHC-1:03:yfp4U5gP0AmKDG3gXSep9KKj0Kh/AM+ARUPa5YFJbHxYP0kXqdMFMtOc+6G6kgz3pKS2B3v7/3RLTJXaPM"
     "feKYyRLt4=:",
     0, 3, 64},
    {"", SNIC_EINVAL, 0, 0},
    {"DHHC-1:", SNIC_EINVAL, 0, 0},
    {"DHHC-1:0", SNIC_EINVAL, 0, 0},
    {"DHHC-1:00", SNIC_EINVAL, 0, 0},
    {"DHHC-1:00:", SNIC_EINVAL, 0, 0},
    {"DHHC-1:00::", SNIC_EINVAL, 0, 0},
    {"DHHC-1:00:AAEC:", SNIC_EINVAL, 0, 0},
    {"DHHC-2:00:" KEY_32 "+KfiaR:", SNIC_EINVAL, 0, 0},
    {"DHHC-1:04:" KEY_32 "+KfiaR:", SNIC_ENOTSUP, 0, 0},
    {"DHHC-1:10:" KEY_32 "+KfiaR:", SNIC_EINVAL, 0, 0},
    {"DHHC-1:0x:" KEY_32 "+KfiaR:", SNIC_EINVAL, 0, 0},
    {"DHHC-1:00:" KEY_32 "+KfiaR", SNIC_EINVAL, 0, 0},
    {"DHHC-1:00:" KEY_32 "+KfiaR:x", SNIC_EINVAL, 0, 0},
    {"DHHC-1:00:" KEY_32 "+KfiaR:\nx", SNIC_EINVAL, 0, 0},
    {"DHHC-1:00:" KEY_32 "+Kfia!:", SNIC_EINVAL, 0, 0},
    {"DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJzwupg0=:", SNIC_EINVAL, 0,
     0}, /* 40 bytes */
    {"DHHC-1:00:" KEY_32 "+KfiaQ:", SNIC_ECORRUPT, 0, 0},
    {"DHHC-1:00:" KEY_32 "+KfiaR====:", SNIC_EINVAL, 0, 0},
    {"DHHC-1:02:AQsjJVrkaifYXSAbUvND8541MKuvfm3/nl5ufhIOFEXrZVagjOzICJW+Gd8fK3EQumcXz1==:",
     SNIC_EINVAL, 0, 0}, /* bits behind the last byte */
    {"DHHC-1:03:yfp4U5gP0AmKDG3gXSep9KKj0Kh/AM+ARUPa5YFJbHxYP0kXqdMFMtOc+6G6kgz3pKS2B3v7/3RLTJXaPM"
     "feKYyRLt4=AAAA:",
     SNIC_EINVAL, 0, 0},
};

static void test_nvmeauth_key_text_read_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(secrets); i++) {
        struct snic_nvmeauth_key k, before;
        memset(&before, 0x5a, sizeof(before));
        k = before;
        assert_int_equal(snic_nvmeauth_key_parse(&k, secrets[i].text), secrets[i].result);
        if (secrets[i].result != 0) {
            assert_memory_equal(&k, &before, sizeof(k));
            continue;
        }
        assert_int_equal(k.hash, secrets[i].hash);
        assert_int_equal(k.size, secrets[i].size);
        for (uint8_t b = 0; i < 2 && b < 32; b++)
            assert_int_equal(k.bytes[b], b);
    }
}

/* A typing error is no other key. */
static void test_nvmeauth_key_text_with_one_wrong_character_refused(void **state)
{
    (void)state;
    for (size_t at = 10; secrets[3].text[at] != 0; at++)
        for (char c = '!'; c < 127; c++) {
            char text[128];
            struct snic_nvmeauth_key k;
            memcpy(text, secrets[3].text, strlen(secrets[3].text) + 1);
            if (text[at] == c)
                continue;
            text[at] = c;
            assert_int_not_equal(snic_nvmeauth_key_parse(&k, text), 0);
        }
}

/* ---- Success ---- */

static void test_nvmeauth_all_choices_succeed(void **state)
{
    (void)state;
    for (size_t h = 0; h < SNIC_COUNTOF(hashes); h++)
        for (uint32_t g = SNIC_NVMEAUTH_DH_NULL; g <= SNIC_NVMEAUTH_FFDHE8192; g++)
            for (int both = 0; both < 2; both++) {
                na_init(&p, hashes[h], g, both, h * 16 + g);
                na_finish(&p, 0);
                assert_int_equal(p.host.state, SNIC_NVMEAUTH_DONE);
                assert_int_equal(p.ctrl.state, SNIC_NVMEAUTH_DONE);
                assert_int_equal(p.ctrl.hash, hashes[h]);
                assert_int_equal(p.ctrl.group, g);
                assert_int_equal(p.ctrl.both, both);
                assert_true(na_intact(&p));
            }
}

/* Sequence numbers continue, without 0. */
static void test_nvmeauth_again_with_next_sequence_number(void **state)
{
    (void)state;
    na_init(&p, SNIC_NVMEAUTH_SHA384, SNIC_NVMEAUTH_FFDHE3072, 1, 5);
    p.ctrl_random.sequence = 0;
    p.host_random.sequence = UINT32_MAX;
    for (uint32_t i = 1; i <= 3; i++) {
        na_finish(&p, 0);
        assert_int_equal(p.host.state, SNIC_NVMEAUTH_DONE);
        assert_int_equal(p.ctrl.state, SNIC_NVMEAUTH_DONE);
        assert_int_equal(snic_get_le32(p.message[1] + 12), i);
        assert_int_equal(snic_get_le32(p.message[2] + 12), i == 1 ? UINT32_MAX : i - 1);
    }
}

/* Of a list the first in the order of ids, and the null group last. */
static void test_nvmeauth_choice_in_order(void **state)
{
    (void)state;
    for (uint32_t g = 1; g < 64; g++)
        for (uint32_t h = 2; h < 16; h += 2) {
            na_init(&p, 1, 0, 0, 3);
            snic_nvmeauth_init(&p.ctrl, NA_HOST, NA_SUB, h, UINT32_MAX);
            snic_nvmeauth_init(&p.host, NA_HOST, NA_SUB, UINT32_MAX, g);
            na_finish(&p, 0);
            assert_int_equal(p.ctrl.state, SNIC_NVMEAUTH_DONE);
            assert_int_equal(p.host.state, SNIC_NVMEAUTH_DONE);
            uint32_t group = 1;
            while (group < 6 && (g >> group & 1) == 0)
                group++;
            assert_int_equal(p.ctrl.group, group % 6);
            assert_int_equal(p.ctrl.hash, (h & 2) != 0 ? 1 : (h & 4) != 0 ? 2 : 3);
        }
}

/* ---- Damage ---- */

/* Bytes that a receiver ignores: reserved fields, and those that only count in both directions. */
static int ignored(uint32_t step, size_t at)
{
    uint32_t size = snic_nvmeauth_digest_size(p.ctrl.hash);
    if (at == 2 || at == 3)
        return 1;
    if (step == 1)
        return at == 7;
    if (step == 2)
        return at == 7 || at == 9 ||
               (p.host_keys.ctrl.size == 0 &&
                ((at >= 12 && at < 16) || (at >= 16 + size && at < 16 + 2 * size)));
    if (step == 3)
        return at == 7 || (at >= 9 && at < 16);
    return step == 4 && at >= 6;
}

static void flip(uint32_t hash, uint32_t group, int both, uint32_t step)
{
    struct na_pair before;
    na_init(&p, hash, group, both, hash + group);
    for (uint32_t i = 0; i < step; i++) {
        size_t n = na_make(&p, i);
        na_pass(&p, i, p.message[i], n);
    }
    size_t n = na_make(&p, step);
    before = p;
    for (size_t at = 0; at < n; at++)
        for (uint32_t bit = 0; bit < 8; bit += 7) {
            uint8_t wrong[SNIC_NVMEAUTH_MESSAGE_BYTES];
            p = before;
            memcpy(wrong, p.message[step], n);
            wrong[at] ^= (uint8_t)(1u << bit);
            int want = ignored(step, at);
            na_pass(&p, step, wrong, n);
            na_finish(&p, step + 1);
            int done = p.host.state == SNIC_NVMEAUTH_DONE && p.ctrl.state == SNIC_NVMEAUTH_DONE;
            if (step > 0 && done != want)
                fail_msg("hash %u group %u both %d message %u byte %zu bit %u: done is %d", hash,
                         group, both, step, at, bit, done);
            if (step < 4 && !done)
                assert_int_not_equal(p.host.state, SNIC_NVMEAUTH_DONE);
            assert_true(na_intact(&p));
        }
}

static void test_nvmeauth_every_byte_of_every_message_counts(void **state)
{
    (void)state;
    for (size_t h = 0; h < SNIC_COUNTOF(hashes); h++)
        for (size_t g = 0; g < SNIC_COUNTOF(groups); g++)
            for (int both = 0; both < 2; both++)
                for (uint32_t step = 0; step < (both ? 5u : 4u); step++)
                    flip(hashes[h], groups[g], both, step);
}

static void test_nvmeauth_cut_messages_refused(void **state)
{
    (void)state;
    for (size_t g = 0; g < SNIC_COUNTOF(groups); g++)
        for (int both = 0; both < 2; both++)
            for (uint32_t step = 0; step < (both ? 5u : 4u); step++) {
                struct na_pair before;
                na_init(&p, SNIC_NVMEAUTH_SHA256, groups[g], both, 9);
                for (uint32_t i = 0; i < step; i++)
                    na_pass(&p, i, p.message[i], na_make(&p, i));
                size_t n = na_make(&p, step);
                before = p;
                for (size_t cut = 0; cut < n; cut++) {
                    p = before;
                    na_pass(&p, step, p.message[step], cut);
                    const struct snic_nvmeauth *a = step % 2 == 0 ? &p.ctrl : &p.host;
                    assert_int_equal(a->state,
                                     step % 2 == 0 ? SNIC_NVMEAUTH_FAILING : SNIC_NVMEAUTH_OVER);
                    assert_int_equal(a->failure, SNIC_NVMEAUTH_PAYLOAD);
                    assert_true(na_intact(&p));
                }
            }
}

/* ---- Order ---- */

/* Operations on a controller: 0..4 pass Negotiate, Reply, Success2, Failure2, nothing known; 5 get.
 * The model: what each leads to. */
static uint8_t model(uint8_t s, uint32_t op, int both)
{
    if (s == SNIC_NVMEAUTH_OVER)
        return s;
    if (op == 5)
        return s == SNIC_NVMEAUTH_NEGOTIATED ? SNIC_NVMEAUTH_CHALLENGED
               : s != SNIC_NVMEAUTH_REPLIED  ? SNIC_NVMEAUTH_OVER
               : both                        ? SNIC_NVMEAUTH_SUCCESS1
                                             : SNIC_NVMEAUTH_DONE;
    if (op == 0 && (s == SNIC_NVMEAUTH_IDLE || s == SNIC_NVMEAUTH_DONE))
        return SNIC_NVMEAUTH_NEGOTIATED;
    if (op == 1 && s == SNIC_NVMEAUTH_CHALLENGED)
        return SNIC_NVMEAUTH_REPLIED;
    if (op == 2 && s == SNIC_NVMEAUTH_SUCCESS1)
        return SNIC_NVMEAUTH_DONE;
    if (op == 3 && (s == SNIC_NVMEAUTH_CHALLENGED || s == SNIC_NVMEAUTH_SUCCESS1))
        return SNIC_NVMEAUTH_OVER;
    return SNIC_NVMEAUTH_FAILING;
}

static void orders(int both, uint32_t length)
{
    static const uint8_t failure2[8] = {0, 0xf0, 0, 0, 77, 0, 1, 1}, other[16] = {1, 9, 0, 0, 77};
    static const uint8_t success2[16] = {1, 4, 0, 0, 77};
    uint32_t total = 1;
    for (uint32_t i = 0; i < length; i++)
        total *= 6;
    for (uint32_t sequence = 0; sequence < total; sequence++) {
        uint8_t s = SNIC_NVMEAUTH_IDLE, out[SNIC_NVMEAUTH_MESSAGE_BYTES];
        uint32_t rest = sequence;
        na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_DH_NULL, both, 1);
        size_t n = na_make(&p, 0);
        for (uint32_t i = 0; i < length; i++, rest /= 6) {
            uint32_t op = rest % 6;
            if (op == 0) {
                na_pass(&p, 0, p.message[0], n);
            } else if (op == 1) {
                struct na_pair q = p; /* a host that has seen the last challenge replies */
                int r = snic_nvmeauth_ctrl_get(&q.ctrl, na_ops(), q.message[1], 2000);
                if (p.ctrl.state == SNIC_NVMEAUTH_CHALLENGED) {
                    q.ctrl = p.ctrl;
                    q.ctrl.state = SNIC_NVMEAUTH_NEGOTIATED;
                    r = snic_nvmeauth_ctrl_get(&q.ctrl, na_ops(), q.message[1], 2000);
                    q.host.state = SNIC_NVMEAUTH_NEGOTIATED;
                    na_pass(&q, 1, q.message[1], (size_t)r);
                } else {
                    memcpy(q.message[2], other, sizeof(other));
                    q.message[2][1] = 2;
                    q.size[2] = 80;
                }
                na_pass(&p, 2, q.message[2], q.size[2]);
            } else if (op < 5) {
                const uint8_t *m = op == 2 ? success2 : op == 3 ? failure2 : other;
                na_pass(&p, 4, m, op == 3 ? sizeof(failure2) : sizeof(other));
            } else {
                assert_true(snic_nvmeauth_ctrl_get(&p.ctrl, na_ops(), out, sizeof(out)) > 0);
            }
            s = model(s, op, both);
            if (p.ctrl.state != s)
                fail_msg("sequence %u operation %u: state %u, not %u", sequence, i, p.ctrl.state,
                         s);
            assert_true(na_intact(&p));
        }
    }
}

static void test_nvmeauth_all_orders_as_the_model(void **state)
{
    (void)state;
    orders(0, 6);
    orders(1, 6);
}

/* ---- Attacks ---- */

/* What was recorded proves nothing later. */
static void test_nvmeauth_replayed_messages_refused(void **state)
{
    struct na_pair old;
    (void)state;
    for (size_t g = 0; g < SNIC_COUNTOF(groups); g++) {
        na_init(&p, SNIC_NVMEAUTH_SHA256, groups[g], 1, 4);
        na_finish(&p, 0);
        assert_int_equal(p.ctrl.state, SNIC_NVMEAUTH_DONE);
        old = p;
        p.ctrl_random.challenge[0] ^= 1;
        p.host_random.challenge[0] ^= 1;
        na_pass(&p, 0, old.message[0], old.size[0]);
        assert_int_equal(p.ctrl.state, SNIC_NVMEAUTH_NEGOTIATED);
        (void)na_make(&p, 1);
        na_pass(&p, 2, old.message[2], old.size[2]);
        assert_int_equal(p.ctrl.state, SNIC_NVMEAUTH_FAILING);
        assert_int_equal(p.ctrl.failure, SNIC_NVMEAUTH_FAILED);
        /* and the other way: a recorded Success1 */
        p = old;
        p.host_random.challenge[0] ^= 1;
        na_pass(&p, 0, p.message[0], na_make(&p, 0));
        na_pass(&p, 1, p.message[1], na_make(&p, 1));
        na_pass(&p, 3, old.message[3], old.size[3]);
        assert_int_equal(p.host.state, SNIC_NVMEAUTH_OVER);
        assert_int_equal(p.host.failure, SNIC_NVMEAUTH_FAILED);
        /* the same challenge with another sequence number */
        p = old;
        na_pass(&p, 0, old.message[0], old.size[0]);
        (void)na_make(&p, 1);
        na_pass(&p, 2, old.message[2], old.size[2]);
        assert_int_equal(p.ctrl.failure, SNIC_NVMEAUTH_FAILED);
    }
}

static void test_nvmeauth_reflected_challenge_refused(void **state)
{
    (void)state;
    na_init(&p, SNIC_NVMEAUTH_SHA512, SNIC_NVMEAUTH_DH_NULL, 1, 4);
    memcpy(p.host_random.challenge, p.ctrl_random.challenge, 64);
    na_pass(&p, 0, p.message[0], na_make(&p, 0));
    size_t n = na_make(&p, 1);
    struct snic_nvmeauth ctrl = p.ctrl;
    na_pass(&p, 1, p.message[1], n); /* the host does not send it */
    assert_int_equal(p.host.state, SNIC_NVMEAUTH_OVER);
    p.ctrl = ctrl;
    memcpy(p.message[2] + 16 + 64, p.message[1] + 16, 64); /* one that does */
    memcpy(p.message[2], "\1\2\0\0\115\0\100\0\1\0\0\0\1\0\0\0", 16);
    na_pass(&p, 2, p.message[2], 16 + 128);
    assert_int_equal(p.ctrl.state, SNIC_NVMEAUTH_FAILING);
    assert_int_equal(p.ctrl.failure, SNIC_NVMEAUTH_FAILED);
}

/* The response is right, and the challenge is what the controller has sent. */
static void test_nvmeauth_right_response_with_reflected_challenge_refused(void **state)
{
    (void)state;
    na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_DH_NULL, 1, 4);
    for (uint32_t i = 0; i < 2; i++)
        na_pass(&p, i, p.message[i], na_make(&p, i));
    memcpy(p.message[2] + 16 + 32, p.message[1] + 16, 32);
    na_pass(&p, 2, p.message[2], p.size[2]);
    assert_int_equal(p.ctrl.state, SNIC_NVMEAUTH_FAILING);
    assert_int_equal(p.ctrl.failure, SNIC_NVMEAUTH_FAILED);
}

/* A controller without a key of the host is not to be had with a key of zeros, its equal. */
static void test_nvmeauth_key_of_zeros_is_no_missing_key(void **state)
{
    (void)state;
    na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_DH_NULL, 0, 4);
    memset(&p.host_keys.host, 0, sizeof(p.host_keys.host));
    p.host_keys.host.size = 32;
    memset(&p.ctrl_keys.host, 0, sizeof(p.ctrl_keys.host));
    na_finish(&p, 0);
    assert_int_equal(p.ctrl.failure, SNIC_NVMEAUTH_FAILED);
    assert_int_not_equal(p.host.state, SNIC_NVMEAUTH_DONE);
}

static void expect_failure(uint8_t host, uint8_t ctrl)
{
    na_finish(&p, 0);
    assert_int_not_equal(p.host.state, SNIC_NVMEAUTH_DONE);
    assert_int_not_equal(p.ctrl.state, SNIC_NVMEAUTH_DONE);
    assert_int_equal(p.host.failure, host);
    assert_int_equal(p.ctrl.failure, ctrl);
    assert_true(na_intact(&p));
}

static void test_nvmeauth_wrong_keys_refused(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++)
        for (size_t g = 0; g < SNIC_COUNTOF(groups); g++)
            for (int what = 0; what < 8; what++) {
                na_init(&p, SNIC_NVMEAUTH_SHA384, groups[g], both, 2);
                switch (what) {
                case 0:
                    p.host_keys.host.bytes[31] ^= 1;
                    break;
                case 1:
                    p.ctrl_keys.host.size = 0;
                    break;
                case 2:
                    p.host_keys.host.size = 0;
                    break;
                case 3:
                    p.ctrl_keys.host.hash ^= 1;
                    break;
                case 4:
                    p.host.hostnqn[0] ^= 1;
                    break;
                case 5:
                    p.host.subnqn[0] ^= 1;
                    break;
                case 6: /* a controller without a key, and a host that wants its proof */
                    p.ctrl_keys.ctrl.size = 0;
                    break;
                default:
                    p.host_keys.ctrl.bytes[0] ^= 1;
                    break;
                }
                if (what >= 6 && !both)
                    continue;
                expect_failure(SNIC_NVMEAUTH_FAILED, SNIC_NVMEAUTH_FAILED);
                if (what == 6) /* found by itself, not by the host */
                    assert_int_equal(p.ctrl.remote, 0);
            }
}

/* A host that wants proof is not content without. */
static void test_nvmeauth_controller_that_proves_nothing_refused(void **state)
{
    (void)state;
    na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_DH_NULL, 1, 4);
    for (uint32_t i = 0; i < 3; i++)
        na_pass(&p, i, p.message[i], na_make(&p, i));
    size_t n = na_make(&p, 3);
    p.message[3][8] = 0;
    na_pass(&p, 3, p.message[3], n);
    assert_int_equal(p.host.state, SNIC_NVMEAUTH_OVER);
    assert_int_equal(p.host.failure, SNIC_NVMEAUTH_FAILED);
}

/* A controller that skips the challenge, or repeats it. */
static void test_nvmeauth_host_takes_messages_in_order_only(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++)
        for (uint8_t length = 0; length <= 32; length += 32) {
            uint8_t success1[48] = {1, 3, 0, 0, 77, 0, length};
            na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_DH_NULL, both, 4);
            (void)na_make(&p, 0);
            na_pass(&p, 3, success1, sizeof(success1));
            assert_int_equal(p.host.state, SNIC_NVMEAUTH_OVER);
            assert_int_equal(p.host.failure, SNIC_NVMEAUTH_MESSAGE);
            na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_DH_NULL, both, 4);
            for (uint32_t i = 0; i < 2; i++)
                na_pass(&p, i, p.message[i], na_make(&p, i));
            na_pass(&p, 1, p.message[1], p.size[1]);
            assert_int_equal(p.host.failure, SNIC_NVMEAUTH_MESSAGE);
        }
}

/* 0, 1 and p - 1 would make the session key known. */
static void test_nvmeauth_weak_dh_values_refused(void **state)
{
    static const uint64_t weak[] = {0, 1, (UINT64_C(1) << 31) - 2, (UINT64_C(1) << 31) - 1};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(weak); i++)
        for (int side = 0; side < 2; side++) {
            uint32_t step = side ? 2 : 1;
            na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_FFDHE2048, 0, 4);
            for (uint32_t k = 0; k < step; k++)
                na_pass(&p, k, p.message[k], na_make(&p, k));
            size_t n = na_make(&p, step);
            memset(p.message[step] + n - 256, 0, 256);
            snic_put_le64(p.message[step] + n - 8, weak[i]);
            na_pass(&p, step, p.message[step], n);
            assert_int_equal(side ? p.ctrl.failure : p.host.failure, SNIC_NVMEAUTH_PAYLOAD);
            assert_true(na_intact(&p));
        }
}

/* ---- Negotiation ---- */

struct negotiation {
    size_t at;
    uint8_t value;
    uint8_t failure;
};

static void test_nvmeauth_negotiations_refused_by_name(void **state)
{
    static const struct negotiation wrong[] = {
        {6, 1, SNIC_NVMEAUTH_CONCAT},     {7, 0, SNIC_NVMEAUTH_PAYLOAD},
        {7, 2, SNIC_NVMEAUTH_PAYLOAD},    {7, 255, SNIC_NVMEAUTH_PAYLOAD},
        {8, 2, SNIC_NVMEAUTH_PROTOCOL},   {10, 0, SNIC_NVMEAUTH_PAYLOAD},
        {10, 31, SNIC_NVMEAUTH_PAYLOAD},  {11, 0, SNIC_NVMEAUTH_PAYLOAD},
        {11, 31, SNIC_NVMEAUTH_PAYLOAD},  {12, 9, SNIC_NVMEAUTH_NO_HASH},
        {42, 77, SNIC_NVMEAUTH_NO_GROUP},
    };
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(wrong); i++) {
        na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_FFDHE2048, 0, 4);
        size_t n = na_make(&p, 0);
        p.message[0][wrong[i].at] = wrong[i].value;
        na_pass(&p, 0, p.message[0], n);
        assert_int_equal(p.ctrl.state, SNIC_NVMEAUTH_FAILING);
        assert_int_equal(p.ctrl.failure, wrong[i].failure);
        n = na_make(&p, 1); /* AUTH_Failure1 */
        assert_int_equal(n, 8);
        assert_memory_equal(p.message[1], "\0\361\0\0\115\0\1", 7);
        assert_int_equal(p.message[1][7], wrong[i].failure);
        na_pass(&p, 1, p.message[1], n);
        assert_int_equal(p.host.state, SNIC_NVMEAUTH_OVER);
        assert_int_equal(p.host.failure, wrong[i].failure);
        assert_int_equal(p.host.remote, 1);
        assert_int_equal(p.size[2], 0);
    }
}

/* DH-HMAC-CHAP is found behind a protocol that is not known. */
static void test_nvmeauth_second_descriptor_chosen(void **state)
{
    uint8_t m[8 + 128] = {0};
    (void)state;
    na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_FFDHE2048, 0, 4);
    (void)na_make(&p, 0);
    memcpy(m, p.message[0], 8);
    memcpy(m + 72, p.message[0] + 8, 64);
    m[7] = 2;
    m[8] = 9;
    na_pass(&p, 0, m, sizeof(m));
    na_finish(&p, 1);
    assert_int_equal(p.host.state, SNIC_NVMEAUTH_DONE);
    assert_int_equal(p.ctrl.state, SNIC_NVMEAUTH_DONE);
}

/* Sequence number 0 is reserved. */
static void test_nvmeauth_challenge_without_sequence_number_refused(void **state)
{
    (void)state;
    na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_DH_NULL, 0, 4);
    na_pass(&p, 0, p.message[0], na_make(&p, 0));
    size_t n = na_make(&p, 1);
    memset(p.message[1] + 12, 0, 4);
    na_pass(&p, 1, p.message[1], n);
    assert_int_equal(p.host.failure, SNIC_NVMEAUTH_PAYLOAD);
}

/* A controller that chooses what was not offered. */
static void test_nvmeauth_host_refuses_what_it_did_not_offer(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) {
        na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_FFDHE2048, 0, 4);
        na_pass(&p, 0, p.message[0], na_make(&p, 0));
        size_t n = na_make(&p, 1);
        if (what == 0)
            p.host.hashes = 1u << SNIC_NVMEAUTH_SHA512;
        else
            p.host.groups = 1u << SNIC_NVMEAUTH_FFDHE8192;
        na_pass(&p, 1, p.message[1], n);
        assert_int_equal(p.host.failure,
                         what == 0 ? SNIC_NVMEAUTH_NO_HASH : SNIC_NVMEAUTH_NO_GROUP);
        assert_int_equal(p.size[2], 8);
        na_pass(&p, 2, p.message[2], 8);
        assert_int_equal(p.ctrl.state, SNIC_NVMEAUTH_OVER);
        assert_int_equal(p.ctrl.remote, 1);
    }
}

/* ---- The owner's side ---- */

static void test_nvmeauth_no_room_changes_nothing(void **state)
{
    (void)state;
    for (uint32_t step = 0; step < 4; step++) {
        if (step == 2)
            continue;
        uint8_t out[SNIC_NVMEAUTH_MESSAGE_BYTES];
        na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_FFDHE2048, 1, 4);
        for (uint32_t i = 0; i < step; i++)
            na_pass(&p, i, p.message[i], na_make(&p, i));
        struct na_pair before = p;
        size_t n = na_make(&p, step);
        for (size_t room = 0; room < n; room++) {
            p = before;
            assert_int_equal(step == 0 ? snic_nvmeauth_host_start(&p.host, 1, out, room)
                                       : snic_nvmeauth_ctrl_get(&p.ctrl, na_ops(), out, room),
                             SNIC_ENOSPC);
            assert_memory_equal(&p, &before, sizeof(p));
        }
    }
}

static void test_nvmeauth_host_start_and_step_out_of_state(void **state)
{
    uint8_t out[SNIC_NVMEAUTH_MESSAGE_BYTES];
    (void)state;
    na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_FFDHE2048, 1, 4);
    struct snic_nvmeauth before = p.host;
    assert_int_equal(
        snic_nvmeauth_host_step(&p.host, na_ops(), &p.host_keys, &p.host_random, out, 16, out), 0);
    assert_memory_equal(&before, &p.host, sizeof(before));
    (void)na_make(&p, 0);
    before = p.host;
    assert_int_equal(snic_nvmeauth_host_start(&p.host, 1, out, sizeof(out)), SNIC_EBUSY);
    assert_memory_equal(&before, &p.host, sizeof(before));
    na_pass(&p, 1, out, 0);
    assert_int_equal(p.host.state, SNIC_NVMEAUTH_OVER);
    assert_int_equal(snic_nvmeauth_host_start(&p.host, 1, out, sizeof(out)), SNIC_EBUSY);
}

/* A call of the cipher library fails: no authentication, no secret left. */
static void test_nvmeauth_errors_of_ciphers(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_FFDHE2048, both, 5);
        na_finish(&p, 0);
        uint32_t calls = na_calls;
        assert_true(calls > 8);
        for (uint32_t at = 1; at <= calls; at++) {
            na_init(&p, SNIC_NVMEAUTH_SHA256, SNIC_NVMEAUTH_FFDHE2048, both, 5);
            na_fail_at = at;
            expect_failure(SNIC_NVMEAUTH_FAILED, SNIC_NVMEAUTH_FAILED);
        }
    }
}

static void test_nvmeauth_names_cut_and_wiped(void **state)
{
    char name[300];
    struct snic_nvmeauth zero;
    (void)state;
    memset(name, 'x', sizeof(name));
    name[299] = 0;
    snic_nvmeauth_init(&p.ctrl, name, name, UINT32_MAX, UINT32_MAX);
    assert_int_equal(strlen(p.ctrl.hostnqn), SNIC_NVMEAUTH_NQN_BYTES - 1);
    assert_int_equal(p.ctrl.hashes, SNIC_NVMEAUTH_HASHES);
    assert_int_equal(p.ctrl.groups, SNIC_NVMEAUTH_GROUPS);
    assert_int_equal(snic_nvmeauth_check(&p.ctrl), 0);
    memset(&zero, 0, sizeof(zero));
    snic_nvmeauth_fini(&p.ctrl);
    assert_memory_equal(&p.ctrl, &zero, sizeof(zero));
    for (uint32_t i = 0; i < 9; i++)
        assert_non_null(snic_nvmeauth_failure_text(i));
    assert_string_equal(snic_nvmeauth_failure_text(8), "unknown failure");
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(snic_nvmeauth_dh_size(i) != 0, i >= 1 && i <= 5);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmeauth_key_text_read_or_refused),
        cmocka_unit_test(test_nvmeauth_key_text_with_one_wrong_character_refused),
        cmocka_unit_test(test_nvmeauth_all_choices_succeed),
        cmocka_unit_test(test_nvmeauth_again_with_next_sequence_number),
        cmocka_unit_test(test_nvmeauth_choice_in_order),
        cmocka_unit_test(test_nvmeauth_every_byte_of_every_message_counts),
        cmocka_unit_test(test_nvmeauth_cut_messages_refused),
        cmocka_unit_test(test_nvmeauth_all_orders_as_the_model),
        cmocka_unit_test(test_nvmeauth_replayed_messages_refused),
        cmocka_unit_test(test_nvmeauth_reflected_challenge_refused),
        cmocka_unit_test(test_nvmeauth_right_response_with_reflected_challenge_refused),
        cmocka_unit_test(test_nvmeauth_key_of_zeros_is_no_missing_key),
        cmocka_unit_test(test_nvmeauth_wrong_keys_refused),
        cmocka_unit_test(test_nvmeauth_controller_that_proves_nothing_refused),
        cmocka_unit_test(test_nvmeauth_host_takes_messages_in_order_only),
        cmocka_unit_test(test_nvmeauth_weak_dh_values_refused),
        cmocka_unit_test(test_nvmeauth_negotiations_refused_by_name),
        cmocka_unit_test(test_nvmeauth_second_descriptor_chosen),
        cmocka_unit_test(test_nvmeauth_challenge_without_sequence_number_refused),
        cmocka_unit_test(test_nvmeauth_host_refuses_what_it_did_not_offer),
        cmocka_unit_test(test_nvmeauth_no_room_changes_nothing),
        cmocka_unit_test(test_nvmeauth_host_start_and_step_out_of_state),
        cmocka_unit_test(test_nvmeauth_errors_of_ciphers),
        cmocka_unit_test(test_nvmeauth_names_cut_and_wiped),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
