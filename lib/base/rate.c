/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Token bucket in exact arithmetic.
 *
 * A nanosecond at per_second tokens earns per_second units of 1e-9 tokens, an
 * integer, so nothing is ever rounded and any way of cutting a span into calls
 * earns the same.
 *
 * I1  tokens <= burst, fraction < 1e9; a full bucket has fraction 0.
 * I2  last_ns never goes back: an earlier time earns nothing and changes nothing.
 * I3  A span is < 2^64 ns and a speed <= 2^40, so products stay below 2^105.
 */
#include "snicstore/base.h"
#include "base/simd.h"

#define SNIC_RATE__MAX ((uint64_t)1 << 40)
#define SNIC_RATE__UNIT UINT64_C(1000000000)

static void rate_refill(struct snic_rate *r, uint64_t now_ns)
{
    if (now_ns <= r->last_ns)
        return; /* I2 */
    uint64_t span = now_ns - r->last_ns;
    uint64_t room = r->burst - r->tokens;
    uint64_t whole;

    r->last_ns = now_ns;
    if (room == 0)
        return;
    uint64_t earned;
    if (SNIC_LIKELY(!__builtin_mul_overflow(span, r->per_second, &earned) &&
                    !__builtin_add_overflow(earned, r->fraction, &earned))) {
        whole = earned / SNIC_RATE__UNIT;
        r->fraction = earned % SNIC_RATE__UNIT;
    } else {
        base_u128 wide = (base_u128)span * r->per_second + r->fraction; /* I3 */
        base_u128 count = wide / SNIC_RATE__UNIT;
        r->fraction = (uint64_t)(wide % SNIC_RATE__UNIT);
        whole = count > room ? room : (uint64_t)count;
    }
    if (whole >= room) {
        r->tokens = r->burst; /* I1 */
        r->fraction = 0;
    } else {
        r->tokens += whole;
    }
}

int snic_rate_init(struct snic_rate *r, uint64_t per_second, uint64_t burst, uint64_t now_ns)
{
    if (burst == 0 || burst > SNIC_RATE__MAX || per_second > SNIC_RATE__MAX)
        return SNIC_EINVAL;
    r->per_second = per_second;
    r->burst = burst;
    r->tokens = burst;
    r->fraction = 0;
    r->last_ns = now_ns;
    return 0;
}

int snic_rate_set(struct snic_rate *r, uint64_t per_second, uint64_t now_ns)
{
    if (per_second > SNIC_RATE__MAX)
        return SNIC_EINVAL;
    rate_refill(r, now_ns);
    r->per_second = per_second;
    return 0;
}

int snic_rate_take(struct snic_rate *r, uint64_t tokens, uint64_t now_ns)
{
    if (tokens > r->burst)
        return SNIC_EINVAL;
    rate_refill(r, now_ns);
    if (tokens > r->tokens)
        return SNIC_EAGAIN;
    r->tokens -= tokens;
    return 0;
}

uint64_t snic_rate_ready_ns(const struct snic_rate *r, uint64_t tokens)
{
    if (tokens <= r->tokens)
        return r->last_ns;
    if (tokens > r->burst || r->per_second == 0)
        return SNIC_NEVER;
    /* At most 2^40 tokens of 2^30 units each. */
    base_u128 missing = (base_u128)(tokens - r->tokens) * SNIC_RATE__UNIT - r->fraction;
    base_u128 wait = (missing + r->per_second - 1) / r->per_second;
    if (wait >= SNIC_NEVER - r->last_ns)
        return SNIC_NEVER;
    return r->last_ns + (uint64_t)wait;
}
