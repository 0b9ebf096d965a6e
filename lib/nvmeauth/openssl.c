/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Digests, HMAC and Diffie-Hellman by OpenSSL's libcrypto (3.0 or later). The primes are
 * libcrypto's own. Exponents have the sizes of RFC 7919, appendix A, and more; powers of secret
 * exponents are computed in constant time. The primes are safe ones: a value 2..p-2 has no small
 * order.
 */
#include "nvmeauth/nvmeauth_priv.h"

#if defined(SNIC_WITH_OPENSSL)

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <openssl/rand.h>

static const EVP_MD *nvmeauth_md(uint32_t hash)
{
    return hash == SNIC_NVMEAUTH_SHA256   ? EVP_sha256()
           : hash == SNIC_NVMEAUTH_SHA384 ? EVP_sha384()
           : hash == SNIC_NVMEAUTH_SHA512 ? EVP_sha512()
                                          : NULL;
}

static int nvmeauth_openssl_digest(uint32_t hash, const void *in, size_t size, uint8_t *out)
{
    const EVP_MD *md = nvmeauth_md(hash);
    return md != NULL && EVP_Digest(in, size, out, NULL, md, NULL) == 1 ? 0 : SNIC_EIO;
}

static int nvmeauth_openssl_hmac(uint32_t hash, const void *key, size_t key_size, const void *in,
                                 size_t size, uint8_t *out)
{
    const EVP_MD *md = nvmeauth_md(hash);
    return md != NULL && HMAC(md, key, (int)key_size, in, size, out, NULL) != NULL ? 0 : SNIC_EIO;
}

/* The group's prime, to be freed; NULL: there is none. */
static BIGNUM *nvmeauth_prime(uint32_t group)
{
    static const char *const names[] = {NULL,        "ffdhe2048", "ffdhe3072",
                                        "ffdhe4096", "ffdhe6144", "ffdhe8192"};
    char name[16];
    BIGNUM *p = NULL;
    EVP_PKEY *params = NULL;
    if (snic_nvmeauth_dh_size(group) == 0)
        return NULL;
    memcpy(name, names[group], strlen(names[group]) + 1);
    OSSL_PARAM list[] = {OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, name, 0),
                         OSSL_PARAM_construct_end()};
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
    if (ctx != NULL && EVP_PKEY_fromdata_init(ctx) == 1 &&
        EVP_PKEY_fromdata(ctx, &params, EVP_PKEY_KEY_PARAMETERS, list) == 1)
        (void)EVP_PKEY_get_bn_param(params, OSSL_PKEY_PARAM_FFC_P, &p);
    EVP_PKEY_free(params);
    EVP_PKEY_CTX_free(ctx);
    return p;
}

/* base^x mod p; base is y of the group's size, or 2 if that is NULL. */
static int nvmeauth_power(uint32_t group, const uint8_t x[64], const uint8_t *y, uint8_t *out)
{
    static const uint8_t bytes[] = {0, 32, 40, 48, 48, 56};
    uint32_t size = snic_nvmeauth_dh_size(group);
    int r = SNIC_EIO;
    BIGNUM *p = nvmeauth_prime(group);
    BN_CTX *ctx = BN_CTX_secure_new();
    BIGNUM *base = BN_new(), *power = BN_secure_new(), *exponent = BN_secure_new();
    if (p == NULL || ctx == NULL || base == NULL || power == NULL || exponent == NULL)
        goto out;
    if (BN_bin2bn(x, bytes[group], exponent) == NULL)
        goto out;
    BN_set_flags(exponent, BN_FLG_CONSTTIME);
    if (BN_set_bit(exponent, 8 * bytes[group] - 1) != 1) /* never small */
        goto out;
    if (y == NULL ? BN_set_word(base, 2) != 1 : BN_bin2bn(y, (int)size, base) == NULL)
        goto out;
    r = SNIC_EPROTO;
    if (BN_copy(power, p) == NULL || BN_sub_word(power, 1) != 1 || BN_cmp(base, power) >= 0 ||
        BN_is_zero(base) || BN_is_one(base))
        goto out;
    r = BN_mod_exp_mont_consttime(power, base, exponent, p, ctx, NULL) == 1 &&
                BN_bn2binpad(power, out, (int)size) == (int)size
            ? 0
            : SNIC_EIO;
out:
    BN_clear_free(exponent);
    BN_clear_free(power);
    BN_free(base);
    BN_free(p);
    BN_CTX_free(ctx);
    return r;
}

static int nvmeauth_openssl_public(uint32_t group, const uint8_t x[64], uint8_t *out)
{
    return nvmeauth_power(group, x, NULL, out);
}

static const struct snic_nvmeauth_ops nvmeauth_openssl_ops = {
    .ops_size = sizeof(struct snic_nvmeauth_ops),
    .digest = nvmeauth_openssl_digest,
    .hmac = nvmeauth_openssl_hmac,
    .dh_public = nvmeauth_openssl_public,
    .dh_shared = nvmeauth_power,
};

const struct snic_nvmeauth_ops *snic_nvmeauth_openssl(void)
{
    return &nvmeauth_openssl_ops;
}

int snic_nvmeauth_openssl_random(struct snic_nvmeauth_random *out)
{
    return RAND_priv_bytes((unsigned char *)out, sizeof(*out)) == 1 ? 0 : SNIC_EIO;
}

#else

const struct snic_nvmeauth_ops *snic_nvmeauth_openssl(void)
{
    return NULL;
}

int snic_nvmeauth_openssl_random(struct snic_nvmeauth_random *out)
{
    (void)out;
    return SNIC_ENOTSUP;
}

#endif
