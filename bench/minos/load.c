/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * YCSB's zipfian keys: key i (from 0) has the weight (i + 1)^-theta. The exact distribution, by a
 * table of cumulated weights; YCSB's own generator approximates it from the third key on. Keys are
 * not scrambled: which key is hot does not matter here, every key is alike.
 * All integer arithmetic, so that every compiler, library and machine draws the same keys.
 */
#include "minos.h"

#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 load_u128;

#define LOAD_BITS 32 /* of the fractions of logarithms */
#define LOAD_ONE 56  /* a weight of 1 is 2^56: those of 10^5 keys and more fit into 64 bits */

/* floor(sqrt(x)) */
static uint64_t load_sqrt(load_u128 x)
{
    uint64_t r = 0;
    for (int bit = 63; bit >= 0; bit--) {
        uint64_t t = r | (uint64_t)1 << bit;
        if ((load_u128)t * t <= x)
            r = t;
    }
    return r;
}

/* log2(x) with LOAD_BITS of fraction; x > 0. */
static uint64_t load_log2(uint64_t x)
{
    uint64_t whole = 0;
    while (x >> whole > 1)
        whole++;
    uint64_t m = x << (63 - whole); /* 1 <= m / 2^63 < 2 */
    uint64_t result = whole;
    for (int i = 0; i < LOAD_BITS; i++) {
        load_u128 square = (load_u128)m * m; /* 2^126 is 1 */
        int two = (int)(square >> 127);
        m = (uint64_t)(square >> (two ? 64 : 63));
        result = result << 1 | (uint64_t)two;
    }
    return result;
}

/* 2^-x with x of LOAD_BITS of fraction; 1 is 2^LOAD_ONE. @p root[i] is 2^(63 - 2^-(i + 1)). */
static uint64_t load_exp2(uint64_t x, const uint64_t *root)
{
    uint64_t m = (uint64_t)1 << 63;
    for (int i = 0; i < LOAD_BITS; i++) {
        if ((x >> (LOAD_BITS - 1 - i) & 1) != 0)
            m = (uint64_t)((load_u128)m * root[i] >> 63);
    }
    uint64_t shift = (x >> LOAD_BITS) + 63 - LOAD_ONE;
    return shift > 63 ? 0 : m >> shift;
}

static uint64_t *load_table(uint32_t keys, uint32_t theta)
{
    uint64_t root[LOAD_BITS];
    uint64_t *sum = malloc(keys * sizeof(*sum));
    uint64_t total = 0;
    if (sum == NULL)
        minos_die("memory");
    root[0] = load_sqrt((load_u128)1 << 125); /* 2^-1/2 */
    for (int i = 1; i < LOAD_BITS; i++)
        root[i] = load_sqrt((load_u128)root[i - 1] << 63);
    for (uint32_t i = 0; i < keys; i++) {
        uint64_t weight = load_exp2(load_log2((uint64_t)i + 1) * theta / 1000, root);
        if (total + weight < total)
            minos_die("zipf_permille is too small for so many keys");
        total += weight;
        sum[i] = total;
    }
    return sum;
}

void minos_load_init(struct minos_load *l, uint32_t keys, uint32_t uniform, uint32_t theta)
{
    static struct {
        uint64_t *sum;
        uint32_t keys;
        uint32_t theta;
    } made[16];
    uint32_t i = 0;
    memset(l, 0, sizeof(*l));
    l->keys = keys;
    l->uniform = uniform;
    if (uniform)
        return;
    while (made[i].sum != NULL && (made[i].keys != keys || made[i].theta != theta)) {
        if (++i == sizeof(made) / sizeof(made[0]))
            minos_die("too many key counts");
    }
    if (made[i].sum == NULL) {
        made[i].sum = load_table(keys, theta);
        made[i].keys = keys;
        made[i].theta = theta;
    }
    l->sum = made[i].sum;
}

uint32_t minos_load_key(const struct minos_load *l, struct snic_rng *rng)
{
    uint32_t low = 0;
    uint32_t high = l->keys - 1;
    if (l->uniform)
        return (uint32_t)snic_rng_below(rng, l->keys);
    uint64_t r = snic_rng_below(rng, l->sum[high]);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (l->sum[middle] > r)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
