/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, section 2): two
 * rounds for each word of the message, four at the end.
 *
 * I1  The last word has the message's size modulo 256 in its highest byte, so no two messages that
 *     differ in nothing but zeros at their end are the same words.
 *
 * The 128-bit variant is that of the authors' reference code: other constants, and a second
 * finalization for the second half.
 */
#include "snicstore/base.h"

static uint64_t siphash_rotl(uint64_t v, unsigned bits)
{
    return v << bits | v >> (64 - bits);
}

static void siphash_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = siphash_rotl(v[1], 13) ^ v[0];
    v[0] = siphash_rotl(v[0], 32);
    v[2] += v[3];
    v[3] = siphash_rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = siphash_rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = siphash_rotl(v[1], 17) ^ v[2];
    v[2] = siphash_rotl(v[2], 32);
}

static void siphash_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    siphash_round(v);
    siphash_round(v);
    v[0] ^= word;
}

/* All words of the message into @p v. */
static void siphash_absorb(uint64_t v[4], const unsigned char key[16], const void *data,
                           size_t size)
{
    const unsigned char *p = (const unsigned char *)data;
    uint64_t k0 = snic_get_le64(key), k1 = snic_get_le64(key + 8);
    unsigned char last[8] = {0};
    v[0] ^= k0 ^ UINT64_C(0x736f6d6570736575);
    v[1] ^= k1 ^ UINT64_C(0x646f72616e646f6d);
    v[2] ^= k0 ^ UINT64_C(0x6c7967656e657261);
    v[3] ^= k1 ^ UINT64_C(0x7465646279746573);
    for (size_t i = 0; i < size / 8; i++)
        siphash_word(v, snic_get_le64(p + 8 * i));
    if (size % 8 != 0)
        memcpy(last, p + size / 8 * 8, size % 8);
    last[7] = (unsigned char)size; /* I1 */
    siphash_word(v, snic_get_le64(last));
}

static uint64_t siphash_finish(uint64_t v[4])
{
    for (unsigned i = 0; i < 4; i++)
        siphash_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t snic_siphash(const unsigned char key[16], const void *data, size_t size)
{
    uint64_t v[4] = {0, 0, 0, 0};
    siphash_absorb(v, key, data, size);
    v[2] ^= 0xff;
    return siphash_finish(v);
}

void snic_siphash128(const unsigned char key[16], const void *data, size_t size, uint64_t out[2])
{
    uint64_t v[4] = {0, 0xee, 0, 0};
    siphash_absorb(v, key, data, size);
    v[2] ^= 0xee;
    out[0] = siphash_finish(v);
    v[1] ^= 0xdd;
    out[1] = siphash_finish(v);
}
