/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * AES-XTS and AES-GCM by OpenSSL's libcrypto. Only opening a key allocates, through libcrypto; with
 * an open key only nonces are set.
 *
 * I1  A context is made for one direction and keeps its key; all later calls pass the nonce alone.
 * I2  XTS numbers are little-endian in the 16 bytes of the tweak (IEEE 1619, 5.1).
 */
#include "snicstore/ebs_sec.h"

#if defined(SNIC_WITH_OPENSSL)

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

struct snic_ebs_openssl_key {
    EVP_CIPHER_CTX *encrypt;
    EVP_CIPHER_CTX *decrypt;
    int gcm;
    int secret_size; /* 0: a cipher's key */
    unsigned char secret[64];
};

static int openssl_xts(EVP_CIPHER_CTX *ctx, uint64_t unit, void *out, const void *in, size_t size)
{
    unsigned char tweak[16] = {0};
    int n = 0;

    if (size < 16 || size > INT_MAX)
        return SNIC_EINVAL;
    snic_put_le64(tweak, unit); /* I2 */
    if (EVP_CipherInit_ex(ctx, NULL, NULL, NULL, tweak, -1) != 1 ||
        EVP_CipherUpdate(ctx, (unsigned char *)out, &n, (const unsigned char *)in, (int)size) !=
            1 ||
        n != (int)size)
        return SNIC_EIO;
    return 0;
}

static int openssl_xts_encrypt(void *key, uint64_t unit, void *out, const void *in, size_t size)
{
    struct snic_ebs_openssl_key *k = (struct snic_ebs_openssl_key *)key;
    return k->gcm || k->secret_size != 0 ? SNIC_EINVAL
                                         : openssl_xts(k->encrypt, unit, out, in, size);
}

static int openssl_xts_decrypt(void *key, uint64_t unit, void *out, const void *in, size_t size)
{
    struct snic_ebs_openssl_key *k = (struct snic_ebs_openssl_key *)key;
    return k->gcm || k->secret_size != 0 ? SNIC_EINVAL
                                         : openssl_xts(k->decrypt, unit, out, in, size);
}

/* Nonce, additional data and text, but not the tag; 0 or SNIC_EIO. */
static int openssl_gcm(EVP_CIPHER_CTX *ctx, const unsigned char nonce[12], const void *aad,
                       size_t aad_size, void *out, const void *in, size_t size)
{
    int n = 0;

    if (aad_size > INT_MAX || size > INT_MAX)
        return SNIC_EINVAL;
    if (EVP_CipherInit_ex(ctx, NULL, NULL, NULL, nonce, -1) != 1)
        return SNIC_EIO;
    if (aad_size > 0 &&
        EVP_CipherUpdate(ctx, NULL, &n, (const unsigned char *)aad, (int)aad_size) != 1)
        return SNIC_EIO;
    if (size > 0 &&
        EVP_CipherUpdate(ctx, (unsigned char *)out, &n, (const unsigned char *)in, (int)size) != 1)
        return SNIC_EIO;
    return 0;
}

static int openssl_gcm_seal(void *key, const unsigned char nonce[12], const void *aad,
                            size_t aad_size, void *out, const void *in, size_t size,
                            unsigned char tag[16])
{
    struct snic_ebs_openssl_key *k = (struct snic_ebs_openssl_key *)key;
    unsigned char none[16];
    int n = 0;

    if (!k->gcm)
        return SNIC_EINVAL;
    int r = openssl_gcm(k->encrypt, nonce, aad, aad_size, out, in, size);
    if (r != 0)
        return r;
    if (EVP_CipherFinal_ex(k->encrypt, none, &n) != 1 ||
        EVP_CIPHER_CTX_ctrl(k->encrypt, EVP_CTRL_AEAD_GET_TAG, 16, tag) != 1)
        return SNIC_EIO;
    return 0;
}

static int openssl_gcm_open(void *key, const unsigned char nonce[12], const void *aad,
                            size_t aad_size, void *out, const void *in, size_t size,
                            const unsigned char tag[16])
{
    struct snic_ebs_openssl_key *k = (struct snic_ebs_openssl_key *)key;
    unsigned char copy[16]; /* libcrypto takes a writable pointer */
    unsigned char none[16];
    int n = 0;

    if (!k->gcm)
        return SNIC_EINVAL;
    memcpy(copy, tag, sizeof(copy));
    int r = openssl_gcm(k->decrypt, nonce, aad, aad_size, out, in, size);
    if (r != 0)
        return r;
    if (EVP_CIPHER_CTX_ctrl(k->decrypt, EVP_CTRL_AEAD_SET_TAG, 16, copy) != 1)
        return SNIC_EIO;
    return EVP_CipherFinal_ex(k->decrypt, none, &n) == 1 ? 0 : SNIC_EACCES;
}

static int openssl_gcm_rekey(void *key, const unsigned char bytes[16])
{
    struct snic_ebs_openssl_key *k = (struct snic_ebs_openssl_key *)key;

    if (!k->gcm || EVP_CIPHER_CTX_key_length(k->encrypt) != 16)
        return SNIC_EINVAL;
    return EVP_CipherInit_ex(k->encrypt, NULL, NULL, bytes, NULL, 1) == 1 &&
                   EVP_CipherInit_ex(k->decrypt, NULL, NULL, bytes, NULL, 0) == 1
               ? 0
               : SNIC_EIO;
}

static int openssl_mac(void *secret, const void *in, size_t size, unsigned char out[32])
{
    struct snic_ebs_openssl_key *k = (struct snic_ebs_openssl_key *)secret;
    unsigned int n = 32;

    if (k->secret_size == 0)
        return SNIC_EINVAL;
    return HMAC(EVP_sha256(), k->secret, k->secret_size, (const unsigned char *)in, size, out,
                &n) != NULL &&
                   n == 32
               ? 0
               : SNIC_EIO;
}

static const struct snic_ebs_sec_ops openssl_ops = {
    .ops_size = sizeof(struct snic_ebs_sec_ops),
    .xts_encrypt = openssl_xts_encrypt,
    .xts_decrypt = openssl_xts_decrypt,
    .gcm_seal = openssl_gcm_seal,
    .gcm_open = openssl_gcm_open,
    .gcm_rekey = openssl_gcm_rekey,
    .mac = openssl_mac,
};

const struct snic_ebs_sec_ops *snic_ebs_openssl(void)
{
    return &openssl_ops;
}

/* I1 */
static int openssl_open(void **out, const EVP_CIPHER *cipher, const unsigned char *bytes, int gcm)
{
    struct snic_ebs_openssl_key *k = OPENSSL_zalloc(sizeof(*k));

    if (k == NULL)
        return SNIC_ENOMEM;
    k->gcm = gcm;
    k->encrypt = EVP_CIPHER_CTX_new();
    k->decrypt = EVP_CIPHER_CTX_new();
    if (k->encrypt == NULL || k->decrypt == NULL) {
        snic_ebs_openssl_close(k);
        return SNIC_ENOMEM;
    }
    if (EVP_CipherInit_ex(k->encrypt, cipher, NULL, bytes, NULL, 1) != 1 ||
        EVP_CipherInit_ex(k->decrypt, cipher, NULL, bytes, NULL, 0) != 1) {
        snic_ebs_openssl_close(k);
        return SNIC_EINVAL; /* XTS: both halves are the same */
    }
    *out = k;
    return 0;
}

int snic_ebs_openssl_xts_open(void **key, const unsigned char *bytes, size_t size)
{
    if (size != 32 && size != 64)
        return SNIC_EINVAL;
    /* libcrypto refuses equal halves for encryption only; this does in both directions. */
    if (CRYPTO_memcmp(bytes, bytes + size / 2, size / 2) == 0)
        return SNIC_EINVAL;
    return openssl_open(key, size == 32 ? EVP_aes_128_xts() : EVP_aes_256_xts(), bytes, 0);
}

int snic_ebs_openssl_gcm_open(void **key, const unsigned char *bytes, size_t size)
{
    if (size != 16 && size != 32)
        return SNIC_EINVAL;
    return openssl_open(key, size == 16 ? EVP_aes_128_gcm() : EVP_aes_256_gcm(), bytes, 1);
}

int snic_ebs_openssl_secret_open(void **key, const unsigned char *bytes, size_t size)
{
    struct snic_ebs_openssl_key *k;

    if (size < 16 || size > sizeof(k->secret))
        return SNIC_EINVAL;
    k = OPENSSL_zalloc(sizeof(*k));
    if (k == NULL)
        return SNIC_ENOMEM;
    memcpy(k->secret, bytes, size);
    k->secret_size = (int)size;
    *key = k;
    return 0;
}

void snic_ebs_openssl_close(void *key)
{
    struct snic_ebs_openssl_key *k = (struct snic_ebs_openssl_key *)key;

    if (k == NULL)
        return;
    EVP_CIPHER_CTX_free(k->encrypt);
    EVP_CIPHER_CTX_free(k->decrypt);
    OPENSSL_clear_free(k, sizeof(*k));
}

#else

const struct snic_ebs_sec_ops *snic_ebs_openssl(void)
{
    return NULL;
}

int snic_ebs_openssl_xts_open(void **key, const unsigned char *bytes, size_t size)
{
    (void)key;
    (void)bytes;
    (void)size;
    return SNIC_ENOTSUP;
}

int snic_ebs_openssl_gcm_open(void **key, const unsigned char *bytes, size_t size)
{
    (void)key;
    (void)bytes;
    (void)size;
    return SNIC_ENOTSUP;
}

int snic_ebs_openssl_secret_open(void **key, const unsigned char *bytes, size_t size)
{
    (void)key;
    (void)bytes;
    (void)size;
    return SNIC_ENOTSUP;
}

void snic_ebs_openssl_close(void *key)
{
    (void)key;
}

#endif
