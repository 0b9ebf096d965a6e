/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Ciphers: published vectors, what a packet's seal covers, and how long a key lives. */
#include "support.h"
#include "test_ebs_util.h"

static uint32_t from_hex(unsigned char *out, const char *hex)
{
    uint32_t n = 0;
    for (; hex[0] != 0 && hex[1] != 0; hex += 2) {
        unsigned hi = (unsigned)(hex[0] <= '9' ? hex[0] - '0' : hex[0] - 'a' + 10);
        unsigned lo = (unsigned)(hex[1] <= '9' ? hex[1] - '0' : hex[1] - 'a' + 10);
        out[n++] = (unsigned char)(hi << 4 | lo);
    }
    return n;
}

static const struct snic_ebs_sec_ops *ciphers(void)
{
    const struct snic_ebs_sec_ops *ops = snic_ebs_openssl();
    if (ops == NULL)
        support_skip("built without libcrypto (libssl-dev)");
    return ops;
}

struct xts_vector {
    const char *key;
    uint64_t unit;
    const char *plain;
    const char *cipher; /* the first bytes */
    uint32_t repeat;    /* of the plain text */
    uint32_t crc;       /* of the whole cipher text; 0: it is all there */
};
/* IEEE 1619-2007, annex B: vectors 2, 3 and 10. */
static const struct xts_vector xts[] = {
    {"1111111111111111111111111111111122222222222222222222222222222222", UINT64_C(0x3333333333),
     "4444444444444444444444444444444444444444444444444444444444444444",
     "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0", 1, 0},
    {"fffefdfcfbfaf9f8f7f6f5f4f3f2f1f022222222222222222222222222222222", UINT64_C(0x3333333333),
     "4444444444444444444444444444444444444444444444444444444444444444",
     "af85336b597afc1a900b2eb21ec949d292df4c047e0b21532186a5971a227a89", 1, 0},
    {"27182818284590452353602874713526624977572470936999595749669676273141592653589793238462643383"
     "279502884197169399375105820974944592",
     0xff,
     "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d"
     "2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b"
     "5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f80818283848586878889"
     "8a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7"
     "b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5"
     "e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
     "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b5d31e276f8fe4a8d66b317f9ac68"
     "3f44680a86ac35adfc3345befecb4bb188fd",
     2, 0x34f3be6d},
};

static void test_ebs_sec_xts_published_vectors_match(void **state)
{
    (void)state;
    const struct snic_ebs_sec_ops *ops = ciphers();
    for (size_t i = 0; i < SNIC_COUNTOF(xts); i++) {
        unsigned char key[64];
        unsigned char plain[512];
        unsigned char want[512];
        unsigned char got[512];
        void *k = NULL;
        uint32_t n = from_hex(plain, xts[i].plain);
        for (uint32_t r = 1; r < xts[i].repeat; r++)
            memcpy(plain + (size_t)r * n, plain, n);
        n *= xts[i].repeat;
        uint32_t m = from_hex(want, xts[i].cipher);
        assert_int_equal(snic_ebs_openssl_xts_open(&k, key, from_hex(key, xts[i].key)), 0);
        assert_int_equal(ops->xts_encrypt(k, xts[i].unit, got, plain, n), 0);
        assert_memory_equal(got, want, m);
        if (xts[i].crc != 0)
            assert_int_equal(snic_crc32c(0, got, n), xts[i].crc);
        assert_int_equal(ops->xts_decrypt(k, xts[i].unit, got, got, n), 0); /* in place */
        assert_memory_equal(got, plain, n);
        snic_ebs_openssl_close(k);
    }
}

struct gcm_vector {
    const char *key;
    const char *nonce;
    const char *aad;
    const char *plain;
    const char *cipher;
    const char *tag;
};
#define GCM_TEXT                                                                                   \
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6" \
    "b525b16aedf5aa0de657ba637b39"
/* McGrew and Viega, The Galois/Counter Mode of Operation, appendix B: cases 1, 4 and 16. */
static const struct gcm_vector gcm[] = {
    {"00000000000000000000000000000000", "000000000000000000000000", "", "", "",
     "58e2fccefa7e3061367f1d57a4e7455a"},
    {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2", GCM_TEXT,
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84"
     "aa051ba30b396a0aac973d58e091",
     "5bc94fbc3221a5db94fae95ae7121a47"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2", GCM_TEXT,
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b105682"
     "8838c5f61e6393ba7a0abcc9f662",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
};

static void test_ebs_sec_gcm_published_vectors_match(void **state)
{
    (void)state;
    const struct snic_ebs_sec_ops *ops = ciphers();
    for (size_t i = 0; i < SNIC_COUNTOF(gcm); i++) {
        unsigned char key[32];
        unsigned char nonce[12];
        unsigned char aad[64];
        unsigned char plain[128];
        unsigned char want[128];
        unsigned char got[128];
        unsigned char tag[16];
        unsigned char want_tag[16];
        void *k = NULL;
        uint32_t a = from_hex(aad, gcm[i].aad);
        uint32_t n = from_hex(plain, gcm[i].plain);
        assert_int_equal(from_hex(want, gcm[i].cipher), n);
        assert_int_equal(from_hex(nonce, gcm[i].nonce), 12);
        assert_int_equal(from_hex(want_tag, gcm[i].tag), 16);
        assert_int_equal(snic_ebs_openssl_gcm_open(&k, key, from_hex(key, gcm[i].key)), 0);
        assert_int_equal(ops->gcm_seal(k, nonce, aad, a, got, plain, n, tag), 0);
        assert_memory_equal(got, want, n);
        assert_memory_equal(tag, want_tag, 16);
        assert_int_equal(ops->gcm_open(k, nonce, aad, a, got, got, n, tag), 0);
        assert_memory_equal(got, plain, n);
        tag[3] ^= 1;
        assert_int_equal(ops->gcm_open(k, nonce, aad, a, got, want, n, tag), SNIC_EACCES);
        assert_int_equal(ops->xts_encrypt(k, 0, got, plain, 16), SNIC_EINVAL);
        snic_ebs_openssl_close(k);
    }
}

static void test_ebs_sec_bad_keys_are_refused(void **state)
{
    (void)state;
    static const unsigned char zeros[64];
    void *k = NULL;
    (void)ciphers();
    assert_int_equal(snic_ebs_openssl_xts_open(&k, zeros, 32), SNIC_EINVAL); /* equal halves */
    assert_int_equal(snic_ebs_openssl_xts_open(&k, zeros, 64), SNIC_EINVAL);
    assert_int_equal(snic_ebs_openssl_xts_open(&k, zeros, 48), SNIC_EINVAL);
    assert_int_equal(snic_ebs_openssl_gcm_open(&k, zeros, 24), SNIC_EINVAL);
    assert_null(k);
    snic_ebs_openssl_close(NULL);
}

/* Equal blocks at two places must not look equal, and a moved one must not decrypt. */
static void test_ebs_sec_xts_tweak_is_the_place(void **state)
{
    (void)state;
    const struct snic_ebs_sec_ops *ops = ciphers();
    static unsigned char plain[SNIC_EBS_BLOCK_BYTES];
    unsigned char a[SNIC_EBS_BLOCK_BYTES];
    unsigned char b[SNIC_EBS_BLOCK_BYTES];
    unsigned char key[64];
    void *k = NULL;
    for (unsigned i = 0; i < 64; i++)
        key[i] = (unsigned char)i;
    assert_int_equal(snic_ebs_openssl_xts_open(&k, key, 64), 0);
    assert_int_equal(snic_ebs_xts_encrypt(ops, k, 5, a, plain), 0);
    assert_int_equal(ops->xts_encrypt(k, 40, b, plain, SNIC_EBS_BLOCK_BYTES), 0);
    assert_memory_equal(a, b, sizeof(a)); /* 512 byte units */
    assert_int_equal(snic_ebs_xts_encrypt(ops, k, 6, b, plain), 0);
    assert_memory_not_equal(a, b, sizeof(a));
    assert_int_equal(snic_ebs_xts_decrypt(ops, k, 6, b, a), 0);
    assert_memory_not_equal(b, plain, sizeof(b));
    assert_int_equal(snic_ebs_xts_decrypt(ops, k, 5, a, a), 0);
    assert_memory_equal(a, plain, sizeof(a));
    assert_int_equal(snic_ebs_xts_encrypt(ops, k, SNIC_EBS_LBA_END, a, plain), SNIC_ERANGE);
    assert_int_equal(snic_ebs_xts_decrypt(ops, k, SNIC_EBS_LBA_END, a, plain), SNIC_ERANGE);
    snic_ebs_openssl_close(k);
}

/* A sealed packet of @p type; the INT block is left out of the seal. */
static uint32_t sealed(unsigned char *out, unsigned type, struct snic_ebs_key *key, uint64_t pn,
                       struct snic_ebs_place *place)
{
    unsigned char body[SNIC_EBS_BLOCK_BYTES];
    struct snic_ebs_header h;
    uint32_t size = ebs_sample_body(body, type);
    ebs_sample(&h, type);
    h.flags |= SNIC_EBS_AUTH;
    h.pn = pn;
    int r = snic_ebs_encode(out, SNIC_EBS_PACKET_BYTES, place, ebs_way(type), &h, body, size);
    assert_true(r > 0);
    assert_int_equal(
        snic_ebs_seal(key, out, place, out + place->body_at, body, out + place->tag_at), 0);
    return place->size;
}

/* All that is sealed must be looked at: each bit of headers, body and tag. */
static void test_ebs_sec_any_flipped_bit_of_a_sealed_packet_is_refused(void **state)
{
    (void)state;
    const struct snic_ebs_sec_ops *ops = ciphers();
    unsigned char bytes[16] = {1, 2, 3};
    void *k = NULL;
    assert_int_equal(snic_ebs_openssl_gcm_open(&k, bytes, 16), 0);
    for (unsigned t = 1; t < SNIC_EBS_TYPE_END; t++) {
        unsigned char p[SNIC_EBS_PACKET_BYTES];
        unsigned char out[SNIC_EBS_BLOCK_BYTES];
        unsigned char body[SNIC_EBS_BLOCK_BYTES];
        struct snic_ebs_place place;
        struct snic_ebs_place seen;
        struct snic_ebs_header h;
        struct snic_ebs_key key;
        snic_ebs_key_init(&key, ops, k, 0x5a17, 1000 * t);
        uint32_t size = sealed(p, t, &key, 1000 * t + 7, &place);
        uint32_t n = ebs_sample_body(body, t);
        assert_int_equal(snic_ebs_decode(&h, &seen, ebs_way(t), p, size), 0);
        assert_memory_equal(&seen, &place, sizeof(place));
        assert_int_equal(snic_ebs_open(&key, p, &seen, out), 0);
        assert_memory_equal(out, body, n);
        if (n > 0)
            assert_memory_not_equal(p + place.body_at, body, n);
        for (uint32_t bit = 0; bit<size * 8; bit += bit / 8> 300 ? 97u : 1u) {
            uint32_t at = bit / 8;
            if (place.int_at != 0 && at >= place.int_at && at < place.body_at)
                continue;
            p[at] ^= (unsigned char)(1u << bit % 8);
            assert_int_not_equal(snic_ebs_open(&key, p, &place, out), 0);
            p[at] ^= (unsigned char)(1u << bit % 8);
        }
    }
    snic_ebs_openssl_close(k);
}

/* A nonce used twice gives both texts away; a key used for too long, too. */
static void test_ebs_sec_key_never_seals_a_number_twice_nor_too_many(void **state)
{
    (void)state;
    const struct snic_ebs_sec_ops *ops = ciphers();
    unsigned char bytes[16] = {9};
    unsigned char p[SNIC_EBS_PACKET_BYTES];
    unsigned char tag[16];
    struct snic_ebs_place place;
    struct snic_ebs_key key;
    void *k = NULL;
    uint64_t first = UINT64_C(5) << 32;
    assert_int_equal(snic_ebs_openssl_gcm_open(&k, bytes, 16), 0);
    snic_ebs_key_init(&key, ops, k, 1, first);
    (void)sealed(p, SNIC_EBS_FENCE, &key, first, &place);
    assert_int_equal(snic_ebs_seal(&key, p, &place, NULL, NULL, tag), SNIC_EINVAL); /* again */
    (void)sealed(p, SNIC_EBS_FENCE, &key, first + 10, &place);
    snic_put_be64(p + 56, first + 9); /* out of order */
    assert_int_equal(snic_ebs_seal(&key, p, &place, NULL, NULL, tag), SNIC_EINVAL);
    snic_put_be64(p + 56, first - 1);
    assert_int_equal(snic_ebs_seal(&key, p, &place, NULL, NULL, tag), SNIC_ESTALE);
    assert_int_equal(snic_ebs_open(&key, p, &place, NULL), SNIC_ESTALE);
    (void)sealed(p, SNIC_EBS_FENCE, &key, first + UINT32_MAX, &place); /* the last one */
    assert_int_equal(snic_ebs_open(&key, p, &place, NULL), 0);
    snic_put_be64(p + 56, first + (UINT64_C(1) << 32));
    assert_int_equal(snic_ebs_seal(&key, p, &place, NULL, NULL, tag), SNIC_ESTALE);
    assert_int_equal(snic_ebs_open(&key, p, &place, NULL), SNIC_ESTALE);
    assert_int_equal(snic_ebs_key_due(&key, first), 0);
    assert_int_equal(snic_ebs_key_due(&key, first + SNIC_EBS_KEY_PACKETS - SNIC_EBS_KEY_REKEY - 1),
                     0);
    assert_int_equal(snic_ebs_key_due(&key, first + SNIC_EBS_KEY_PACKETS - SNIC_EBS_KEY_REKEY), 1);
    assert_int_equal(snic_ebs_key_due(&key, first + SNIC_EBS_KEY_PACKETS), 1);
    place.tag_at = 0;
    assert_int_equal(snic_ebs_seal(&key, p, &place, NULL, NULL, tag), SNIC_EINVAL);
    assert_int_equal(snic_ebs_open(&key, p, &place, NULL), SNIC_EINVAL);
    snic_ebs_openssl_close(k);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ebs_sec_xts_published_vectors_match),
        cmocka_unit_test(test_ebs_sec_gcm_published_vectors_match),
        cmocka_unit_test(test_ebs_sec_bad_keys_are_refused),
        cmocka_unit_test(test_ebs_sec_xts_tweak_is_the_place),
        cmocka_unit_test(test_ebs_sec_any_flipped_bit_of_a_sealed_packet_is_refused),
        cmocka_unit_test(test_ebs_sec_key_never_seals_a_number_twice_nor_too_many),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
