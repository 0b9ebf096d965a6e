/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "solar_cipher.h"

static uint64_t toy_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

/* Four lanes, so that a multiplication need not wait for the one before: millions of blocks go
 * through here in a simulated life. */
static uint64_t toy_hash(uint64_t h, const void *data, size_t size)
{
    const unsigned char *p = data;
    if (size >= 32) {
        uint64_t a = h, b = h + 1, c = h + 2, d = h + 3;
        for (; size >= 32; p += 32, size -= 32) {
            a = toy_mix(a, snic_get_le64(p));
            b = toy_mix(b, snic_get_le64(p + 8));
            c = toy_mix(c, snic_get_le64(p + 16));
            d = toy_mix(d, snic_get_le64(p + 24));
        }
        h = toy_mix(toy_mix(toy_mix(a, b), c), d);
    }
    for (; size >= 8; p += 8, size -= 8)
        h = toy_mix(h, snic_get_le64(p));
    for (; size > 0; p++, size--)
        h = toy_mix(h, *p);
    return toy_mix(h, 1);
}

static void toy_stream(uint64_t h, void *out, const void *in, size_t size)
{
    const unsigned char *from = in;
    unsigned char *to = out;
    const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    size_t at = 0;
    for (; size - at >= 32; at += 32) {
        uint64_t pad = toy_mix(h, at + 1);
        for (size_t i = 0; i < 32; i += 8)
            snic_put_le64(to + at + i, snic_get_le64(from + at + i) ^ (pad + i * step));
    }
    for (uint64_t pad = toy_mix(h, at + 1); at < size; at++, pad = toy_mix(pad, at))
        to[at] = (unsigned char)(from[at] ^ pad >> 56);
}

static uint64_t toy_start(const void *key, const unsigned char nonce[12])
{
    const struct solar_toy_key *k = key;
    return toy_hash(toy_mix(k->bytes[0], k->bytes[1]), nonce, 12);
}

static void toy_tag(uint64_t start, const void *aad, size_t aad_size, const void *text, size_t size,
                    unsigned char tag[16])
{
    uint64_t h = toy_hash(toy_hash(start ^ 5, aad, aad_size), text, size);
    snic_put_le64(tag, h);
    snic_put_le64(tag + 8, toy_mix(h, 7));
}

static int toy_seal(void *key, const unsigned char nonce[12], const void *aad, size_t aad_size,
                    void *out, const void *in, size_t size, unsigned char tag[16])
{
    uint64_t start = toy_start(key, nonce);
    toy_stream(start, out, in, size);
    toy_tag(start, aad, aad_size, out, size, tag);
    return 0;
}

static int toy_open(void *key, const unsigned char nonce[12], const void *aad, size_t aad_size,
                    void *out, const void *in, size_t size, const unsigned char tag[16])
{
    unsigned char want[16];
    uint64_t start = toy_start(key, nonce);
    toy_tag(start, aad, aad_size, in, size, want);
    if (memcmp(want, tag, sizeof(want)) != 0)
        return SNIC_EACCES;
    toy_stream(start, out, in, size);
    return 0;
}

static int toy_rekey(void *key, const unsigned char bytes[16])
{
    struct solar_toy_key *k = key;
    k->bytes[0] = snic_get_le64(bytes);
    k->bytes[1] = snic_get_le64(bytes + 8);
    return 0;
}

static int toy_mac(void *secret, const void *in, size_t size, unsigned char out[32])
{
    const struct solar_toy_key *k = secret;
    uint64_t h = toy_hash(toy_mix(k->bytes[0], k->bytes[1]), in, size);
    for (uint32_t i = 0; i < 4; i++)
        snic_put_le64(out + 8 * i, toy_mix(h, 100 + i));
    return 0;
}

const struct snic_ebs_sec_ops solar_toy_ops = {
    .ops_size = sizeof(struct snic_ebs_sec_ops),
    .gcm_seal = toy_seal,
    .gcm_open = toy_open,
    .gcm_rekey = toy_rekey,
    .mac = toy_mac,
};
