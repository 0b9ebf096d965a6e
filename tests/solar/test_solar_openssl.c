/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Disks encrypted at rest and packets sealed on the wire, by libcrypto, through both sides. */
#include "support.h"
#include "test_solar_util.h"

static unsigned char data[20][SNIC_EBS_BLOCK_BYTES], back[20][SNIC_EBS_BLOCK_BYTES];

static void *opened(int (*open)(void **, const unsigned char *, size_t), size_t size, int seed)
{
    unsigned char bytes[64];
    void *key = NULL;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * 7 + (size_t)seed);
    assert_int_equal(open(&key, bytes, size), 0);
    return key;
}

/* HMAC-SHA-256: RFC 4231, test case 1 (its key is longer than 16 bytes, as a secret is). */
static void test_solar_openssl_mac_published_vector_matches(void **state)
{
    static const unsigned char want[32] = {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53,
                                           0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b,
                                           0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83, 0x3d, 0xa7,
                                           0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7};
    const struct snic_ebs_sec_ops *ops = snic_ebs_openssl();
    unsigned char key[20], out[32];
    void *secret = NULL;
    (void)state;
    if (ops == NULL)
        support_skip("built without libcrypto (libssl-dev)");
    memset(key, 0x0b, sizeof(key));
    assert_int_equal(snic_ebs_openssl_secret_open(&secret, key, 15), SNIC_EINVAL);
    assert_int_equal(snic_ebs_openssl_secret_open(&secret, key, sizeof(key)), 0);
    assert_int_equal(ops->mac(secret, "Hi There", 8, out), 0);
    assert_memory_equal(out, want, sizeof(want));
    assert_int_equal(ops->gcm_rekey(secret, key), SNIC_EINVAL);
    snic_ebs_openssl_close(secret);
}

static void test_solar_openssl_sealed_and_encrypted_data_come_back(void **state)
{
    const struct snic_ebs_sec_ops *ops = snic_ebs_openssl();
    struct snic_ebs_disk_opts disk = {.opts_size = sizeof(disk), .sa_epoch = 1, .blocks = 512};
    struct snic_ebs_io w, r;
    struct snic_iov wi = {data, sizeof(data)}, ri = {back, sizeof(back)};
    struct duo *d = &duo;
    (void)state;
    if (ops == NULL)
        support_skip("built without libcrypto (libssl-dev)");
    memset(d, 0, sizeof(*d));
    for (size_t i = 0; i < sizeof(data); i++)
        data[i / 4096][i % 4096] = (unsigned char)(i * 3 + i / 4096);
    d->o.flags = SNIC_SOLAR_AUTH | SNIC_SOLAR_CRYPTO;
    d->k.flags = SNIC_SOLAR_AUTH;
    d->o.sec = d->k.sec = ops;
    for (int i = 0; i < 2; i++) {
        d->o.wire_keys[i] = opened(snic_ebs_openssl_gcm_open, 16, i);
        d->k.wire_keys[i] = opened(snic_ebs_openssl_gcm_open, 16, 2 + i);
    }
    d->k.secret = opened(snic_ebs_openssl_secret_open, 32, 9);
    d->secret = d->k.secret;
    duo_open(d);
    assert_int_equal(snic_solar_detach(d->c, 0), 0);
    disk.xts_key = opened(snic_ebs_openssl_xts_open, 64, 5);
    assert_int_equal(snic_solar_attach(d->c, 0, &disk, d->now), 0);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 30, 20, &wi);
    duo_until(d, 1);
    assert_int_equal(w.result, 0);
    for (uint32_t i = 0; i < 20; i++) { /* at rest */
        assert_memory_not_equal(d->store[30 + i], data[i], SNIC_EBS_BLOCK_BYTES);
        assert_int_equal(d->crc[30 + i], snic_crc32c(0, d->store[30 + i], SNIC_EBS_BLOCK_BYTES));
    }
    duo_io(d, &r, SNIC_EBS_IO_READ, 30, 20, &ri);
    duo_until(d, 2);
    assert_int_equal(r.result, 0);
    assert_memory_equal(back, data, sizeof(data));
    duo_close(d);
    snic_ebs_openssl_close(disk.xts_key);
    snic_ebs_openssl_close(d->secret);
    for (int i = 0; i < 2; i++) {
        snic_ebs_openssl_close(d->o.wire_keys[i]);
        snic_ebs_openssl_close(d->k.wire_keys[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_openssl_mac_published_vector_matches),
        cmocka_unit_test(test_solar_openssl_sealed_and_encrypted_data_come_back),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
