/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Log-linear histogram: the octave [2^e, 2^(e+1)) is cut into 32 equal buckets,
 * values below 32 have one each.
 *
 * I1  Bucket b holds exactly the values whose hist_bucket() is b; its width is at
 *     most 1/32 of its smallest value, hence the error bound of a quantile.
 * I2  count is the sum of the buckets; with count > 0, min <= max are exact.
 * I3  All zero is the empty histogram.
 */
#include "snicstore/base.h"

#define SNIC_HIST__SHIFT 5
SNIC_STATIC_ASSERT(SNIC_HIST_SUB == 1 << SNIC_HIST__SHIFT, "SUB is a power of two");

static unsigned hist_bucket(uint64_t value)
{
    if (value < SNIC_HIST_SUB)
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - SNIC_HIST__SHIFT;
    return (shift + 1) * SNIC_HIST_SUB + ((unsigned)(value >> shift) & (SNIC_HIST_SUB - 1));
}

/* The largest value of a bucket. */
static uint64_t hist_bucket_last(unsigned bucket)
{
    if (bucket < SNIC_HIST_SUB)
        return bucket;
    unsigned shift = bucket / SNIC_HIST_SUB - 1;
    uint64_t first = (uint64_t)(SNIC_HIST_SUB + bucket % SNIC_HIST_SUB) << shift;
    return first + (((uint64_t)1 << shift) - 1);
}

void snic_hist_reset(struct snic_hist *h)
{
    memset(h, 0, sizeof(*h)); /* I3 */
}

static uint64_t hist_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void snic_hist_record(struct snic_hist *h, uint64_t value)
{
    if (h->count == 0 || value < h->min)
        h->min = value;
    if (value > h->max)
        h->max = value;
    h->count++;
    h->sum = hist_add(h->sum, value);
    h->buckets[hist_bucket(value)]++;
}

void snic_hist_merge(struct snic_hist *into, const struct snic_hist *from)
{
    if (from->count == 0)
        return;
    if (into->count == 0 || from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    into->count += from->count;
    into->sum = hist_add(into->sum, from->sum);
    for (size_t i = 0; i < SNIC_HIST_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

uint64_t snic_hist_quantile(const struct snic_hist *h, uint32_t per_million)
{
    if (h->count == 0)
        return 0;
    if (per_million > 1000000)
        per_million = 1000000;
    /* rank = ceil(count * per_million / 1e6), split so that no product overflows. */
    uint64_t rank =
        h->count / 1000000 * per_million + (h->count % 1000000 * per_million + 999999) / 1000000;
    if (rank == 0)
        rank = 1;
    uint64_t seen = 0;
    for (unsigned i = 0; i < SNIC_HIST_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen >= rank)
            return snic_min_u64(hist_bucket_last(i), h->max);
    }
    return h->max;
}
