/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* SipHash-2-4 (Aumasson, Bernstein, 2012) of one word: who sees hashes, and knows what some of them
 * are of, learns of the others nothing without the key. */
#ifndef SOLAR_VOLUME_SIP_H
#define SOLAR_VOLUME_SIP_H

#include <stdint.h>

static inline uint64_t sip_rotate(uint64_t v, uint32_t n)
{
    return v << n | v >> (64 - n);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = sip_rotate(v[1], 13) ^ v[0];
    v[0] = sip_rotate(v[0], 32);
    v[2] += v[3];
    v[3] = sip_rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = sip_rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = sip_rotate(v[1], 17) ^ v[2];
    v[2] = sip_rotate(v[2], 32);
}

static inline uint64_t sip_hash(const uint64_t key[2], uint64_t word)
{
    uint64_t words[2] = {word, UINT64_C(8) << 56};
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    for (uint32_t i = 0; i < 2; i++) {
        v[3] ^= words[i];
        sip_round(v);
        sip_round(v);
        v[0] ^= words[i];
    }
    v[2] ^= 0xff;
    for (uint32_t i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
