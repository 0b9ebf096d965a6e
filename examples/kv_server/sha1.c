/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* SHA-1 after RFC 3174, section 6.1. */
#include "sha1.h"

#include <string.h>

static uint32_t sha1_rotate(uint32_t v, unsigned n)
{
    return v << n | v >> (32 - n);
}

void sha1_begin(struct sha1 *s)
{
    static const uint32_t start[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

    memcpy(s->h, start, sizeof(start));
    s->bytes = 0;
}

static void sha1_block(struct sha1 *s)
{
    static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80];
    uint32_t v[5];

    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)s->block[4 * t] << 24 | (uint32_t)s->block[4 * t + 1] << 16 |
               (uint32_t)s->block[4 * t + 2] << 8 | s->block[4 * t + 3];
    for (int t = 16; t < 80; t++)
        w[t] = sha1_rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    memcpy(v, s->h, sizeof(v));
    for (int t = 0; t < 80; t++) {
        uint32_t f = t < 20   ? (v[1] & v[2]) | (~v[1] & v[3])
                     : t < 40 ? v[1] ^ v[2] ^ v[3]
                     : t < 60 ? (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3])
                              : v[1] ^ v[2] ^ v[3];
        uint32_t x = sha1_rotate(v[0], 5) + f + v[4] + w[t] + k[t / 20];

        v[4] = v[3];
        v[3] = v[2];
        v[2] = sha1_rotate(v[1], 30);
        v[1] = v[0];
        v[0] = x;
    }
    for (int i = 0; i < 5; i++)
        s->h[i] += v[i];
}

void sha1_add(struct sha1 *s, const void *data, size_t size)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < size; i++) {
        s->block[s->bytes++ % 64] = p[i];
        if (s->bytes % 64 == 0)
            sha1_block(s);
    }
}

void sha1_end(struct sha1 *s, unsigned char out[SHA1_SIZE])
{
    static const unsigned char zeros[64];
    uint64_t bits = s->bytes * 8;
    unsigned char length[8];

    sha1_add(s, "\x80", 1);
    sha1_add(s, zeros, (size_t)(120 - s->bytes % 64) % 64);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha1_add(s, length, sizeof(length));
    for (int i = 0; i < SHA1_SIZE; i++)
        out[i] = (unsigned char)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void sha1_hex(const unsigned char hash[SHA1_SIZE], char out[2 * SHA1_SIZE + 1])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < SHA1_SIZE; i++) {
        out[2 * i] = digits[hash[i] >> 4];
        out[2 * i + 1] = digits[hash[i] & 15];
    }
    out[2 * SHA1_SIZE] = 0;
}
