/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tokens: their bytes, what makes them invalid, and what they permit. */
#include "support.h"
#include "test_ebs_util.h"

static void *key, *other;

static const struct snic_ebs_sec_ops *ciphers(void)
{
    const struct snic_ebs_sec_ops *ops = snic_ebs_openssl();
    if (ops == NULL)
        support_skip("built without libcrypto (libssl-dev)");
    return ops;
}

static int setup(void **state)
{
    unsigned char bytes[64];
    (void)state;
    (void)ciphers();
    for (uint32_t i = 0; i < 64; i++)
        bytes[i] = (unsigned char)(i + 1);
    assert_int_equal(snic_ebs_openssl_secret_open(&key, bytes, sizeof(bytes)), 0);
    bytes[63] ^= 1;
    assert_int_equal(snic_ebs_openssl_secret_open(&other, bytes, sizeof(bytes)), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    snic_ebs_openssl_close(key);
    snic_ebs_openssl_close(other);
    return 0;
}

static const struct snic_ebs_token sample = {.vd_id = UINT64_C(0x0102030405060708),
                                             .not_after = 0x6f5e4d3c,
                                             .key_id = 0x5167,
                                             .account = 0xacc00001,
                                             .gen = 3u << 16,
                                             .rights = SNIC_EBS_MAY_READ | SNIC_EBS_MAY_FENCE};

static int same(const struct snic_ebs_token *a, const struct snic_ebs_token *b)
{
    return a->vd_id == b->vd_id && a->not_after == b->not_after && a->key_id == b->key_id &&
           a->account == b->account && a->gen == b->gen && a->rights == b->rights;
}

/* The bytes are ebs_golden.py's, which has no line in common with the code. */
static void test_ebs_token_has_the_written_bytes(void **state)
{
    unsigned char out[SNIC_EBS_TOKEN_BYTES];
    struct snic_ebs_token back;
    (void)state;
    memset(out, 0xee, sizeof(out));
    assert_int_equal(snic_ebs_token_sign(out, &sample, ciphers(), key), 0);
    assert_memory_equal(out, ebs_sample_token, sizeof(out));
    assert_int_equal(snic_ebs_token_read(&back, out), 0);
    assert_true(same(&back, &sample));
    memset(&back, 0, sizeof(back));
    assert_int_equal(snic_ebs_token_verify(&back, out, ciphers(), key), 0);
    assert_true(same(&back, &sample));
}

/* Whatever bit is changed, and with another key, it is refused, and nothing of it is returned. */
static void test_ebs_token_every_bit_counts(void **state)
{
    unsigned char t[SNIC_EBS_TOKEN_BYTES];
    struct snic_ebs_token back, none;
    (void)state;
    memset(&none, 0x5a, sizeof(none));
    for (uint32_t bit = 0; bit < 8 * SNIC_EBS_TOKEN_BYTES; bit++) {
        back = none;
        memcpy(t, ebs_sample_token, sizeof(t));
        t[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_not_equal(snic_ebs_token_verify(&back, t, ciphers(), key), 0);
        assert_memory_equal(&back, &none, sizeof(none));
    }
    back = none;
    assert_int_equal(snic_ebs_token_verify(&back, ebs_sample_token, ciphers(), other), SNIC_EACCES);
    assert_memory_equal(&back, &none, sizeof(none));
}

/* What would be malformed is neither signed nor read; each with its error. */
static void test_ebs_token_malformed_is_named(void **state)
{
    unsigned char t[SNIC_EBS_TOKEN_BYTES];
    struct snic_ebs_token k = sample, back;
    (void)state;
    k.rights = 0;
    assert_int_equal(snic_ebs_token_sign(t, &k, ciphers(), key), SNIC_EINVAL);
    k.rights = SNIC_EBS_MAY_ALL + 1;
    assert_int_equal(snic_ebs_token_sign(t, &k, ciphers(), key), SNIC_EINVAL);
    k = sample;
    k.gen = 0;
    assert_int_equal(snic_ebs_token_sign(t, &k, ciphers(), key), SNIC_EINVAL);
    memcpy(t, ebs_sample_token, sizeof(t));
    t[0] = 2;
    assert_int_equal(snic_ebs_token_read(&back, t), SNIC_EVERSION);
    for (uint32_t at = 1; at < 48; at++) {
        if (at != 1 && at != 2 && at != 3 && at < 32)
            continue;
        memcpy(t, ebs_sample_token, sizeof(t));
        t[at] = at == 1 ? 8 : 1;
        assert_int_equal(snic_ebs_token_read(&back, t), SNIC_EPROTO);
    }
    memset(t, 0, sizeof(t));
    assert_int_equal(snic_ebs_token_read(&back, t), SNIC_EVERSION);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ebs_token_has_the_written_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ebs_token_every_bit_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ebs_token_malformed_is_named, setup, teardown),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
