/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number
 * generators", 2021), its state filled by splitmix64 as the authors advise.
 *
 * I1  The state is never all zero: splitmix64 is a bijection of a counter, so at
 *     most one of four consecutive outputs is zero.
 */
#include "snicstore/base.h"
#include "base/simd.h"

static uint64_t rng_splitmix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t rng_rotl(uint64_t v, unsigned bits)
{
    return (v << bits) | (v >> (64 - bits));
}

void snic_rng_init(struct snic_rng *r, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++)
        r->s[i] = rng_splitmix(&seed);
}

uint64_t snic_rng_next(struct snic_rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rng_rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rng_rotl(s[3], 45);
    return result;
}

/*
 * Lemire, "Fast random integer generation in an interval", 2019: the high half of
 * a 128-bit product, redrawn when the low half falls into the biased remainder.
 */
uint64_t snic_rng_below(struct snic_rng *r, uint64_t bound)
{
    SNIC_ASSERT(bound > 0);
    base_u128 product = (base_u128)snic_rng_next(r) * bound;
    if (SNIC_UNLIKELY((uint64_t)product < bound)) {
        uint64_t remainder = (0 - bound) % bound;
        while ((uint64_t)product < remainder)
            product = (base_u128)snic_rng_next(r) * bound;
    }
    return (uint64_t)(product >> 64);
}

void snic_rng_fill(struct snic_rng *r, void *out, size_t size)
{
    unsigned char *to = (unsigned char *)out;
    while (size >= 8) {
        snic_put_le64(to, snic_rng_next(r));
        to += 8;
        size -= 8;
    }
    if (size > 0) {
        unsigned char last[8];
        snic_put_le64(last, snic_rng_next(r));
        memcpy(to, last, size);
    }
}
