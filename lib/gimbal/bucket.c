/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Dual token bucket (Algorithm 4) in exact arithmetic.
 *
 * Tokens are counted in 1e-9 bytes: a nanosecond at R bytes/s earns R of them, so that nothing is
 * rounded and any way of cutting a span into calls earns the same in all. Reads get the share
 * wc / (1 + wc) of what is earned, writes the rest, an overflow goes to the other bucket. Line 11
 * as printed overwrites the write bucket with the smaller of the read bucket and the limit; here
 * each bucket is limited by itself.
 *
 * I1  tokens[b] <= cap[b].
 * I2  cap[b] is the configured size, or the held request's where that is larger: a request larger
 *     than a bucket waits for a bucket of its own size.
 * I3  share < 2^32, and stretch[b] * 2^-24 >= 1 / (the share of b).
 */
#include "gimbal/gimbal_priv.h"

static unsigned bucket_of(const struct snic_gimbal *g, const struct snic_gimbal_io *io)
{
    return (g->o.flags & SNIC_GIMBAL_ONE_BUCKET) != 0 ? SNIC_GIMBAL_READ : io->op;
}

void gimbal_bucket_init(struct snic_gimbal *g)
{
    g->cap[SNIC_GIMBAL_READ] = g->o.bucket_bytes * SNIC_GIMBAL__BYTE;
    g->cap[SNIC_GIMBAL_WRITE] =
        (g->o.flags & SNIC_GIMBAL_ONE_BUCKET) != 0 ? 0 : g->cap[SNIC_GIMBAL_READ];
    gimbal_bucket_share(g);
}

/* The write cost has changed: the only divisions of this file that are 64 bits wide. */
void gimbal_bucket_share(struct snic_gimbal *g)
{
    uint64_t one = (uint64_t)1 << 32;
    uint64_t share = g->write_cost * one / (g->write_cost + SNIC_GIMBAL_COST_ONE);
    if ((g->o.flags & SNIC_GIMBAL_ONE_BUCKET) != 0)
        share = one - 1;
    g->share = (uint32_t)share;
    g->stretch[SNIC_GIMBAL_READ] = (uint32_t)(((one << 24) + share - 1) / share);
    share = one - share;
    uint64_t stretch = ((one << 24) + share - 1) / share;
    g->stretch[SNIC_GIMBAL_WRITE] = (uint32_t)snic_min_u64(stretch, UINT32_MAX); /* I3 */
}

/* value * (factor / 2^bits), rounded down, for factors below 2^32; UINT64_MAX if it is more. */
static uint64_t bucket_scale(uint64_t value, uint32_t factor, unsigned bits)
{
    uint64_t high;
    uint64_t low = (value & (((uint64_t)1 << bits) - 1)) * factor >> bits;
    if (__builtin_mul_overflow(value >> bits, (uint64_t)factor, &high) ||
        __builtin_add_overflow(high, low, &high))
        return UINT64_MAX;
    return high;
}

void gimbal_bucket_fill(struct snic_gimbal *g, uint64_t now)
{
    uint64_t earned;
    uint64_t *t = g->tokens;

    if (now == g->filled_ns)
        return;
    if (__builtin_mul_overflow(g->target_rate, now - g->filled_ns, &earned) ||
        earned > g->cap[0] + g->cap[1])
        earned = g->cap[0] + g->cap[1];
    g->filled_ns = now;
    if ((g->o.flags & SNIC_GIMBAL_ONE_BUCKET) != 0) {
        t[SNIC_GIMBAL_READ] = snic_min_u64(t[SNIC_GIMBAL_READ] + earned, g->cap[0]);
        return;
    }
    uint64_t reads = bucket_scale(earned, g->share, 32);
    t[SNIC_GIMBAL_READ] += reads;
    t[SNIC_GIMBAL_WRITE] += earned - reads;
    if (t[SNIC_GIMBAL_READ] > g->cap[SNIC_GIMBAL_READ]) {
        t[SNIC_GIMBAL_WRITE] += t[SNIC_GIMBAL_READ] - g->cap[SNIC_GIMBAL_READ];
        t[SNIC_GIMBAL_READ] = g->cap[SNIC_GIMBAL_READ];
    }
    if (t[SNIC_GIMBAL_WRITE] > g->cap[SNIC_GIMBAL_WRITE]) {
        t[SNIC_GIMBAL_READ] += t[SNIC_GIMBAL_WRITE] - g->cap[SNIC_GIMBAL_WRITE];
        t[SNIC_GIMBAL_WRITE] = g->cap[SNIC_GIMBAL_WRITE];
        t[SNIC_GIMBAL_READ] = snic_min_u64(t[SNIC_GIMBAL_READ], g->cap[SNIC_GIMBAL_READ]);
    }
}

/* The I/O is not held any more. */
void gimbal_bucket_release(struct snic_gimbal *g, const struct snic_gimbal_io *io)
{
    unsigned b = bucket_of(g, io);
    g->cap[b] = g->o.bucket_bytes * SNIC_GIMBAL__BYTE;
    g->tokens[b] = snic_min_u64(g->tokens[b], g->cap[b]); /* I1 */
}

/* 1 when the I/O's tokens were taken. */
int gimbal_bucket_take(struct snic_gimbal *g, const struct snic_gimbal_io *io)
{
    unsigned b = bucket_of(g, io);
    uint64_t need = io->size * SNIC_GIMBAL__BYTE;
    if (g->tokens[b] < need)
        return 0;
    g->tokens[b] -= need;
    return 1;
}

int gimbal_bucket_same(const struct snic_gimbal *g, const struct snic_gimbal_io *a,
                       const struct snic_gimbal_io *b)
{
    return bucket_of(g, a) == bucket_of(g, b);
}

/* The I/O is held now: its bucket grows to hold it. */
void gimbal_bucket_hold(struct snic_gimbal *g, const struct snic_gimbal_io *io)
{
    unsigned b = bucket_of(g, io);
    g->cap[b] = snic_max_u64(g->cap[b], io->size * SNIC_GIMBAL__BYTE); /* I2 */
}

/*
 * At least @earned / @rate, and at most 2^-13 more, by one 32-bit division: small DPU cores divide
 * 64 bits in software or slowly.
 */
static uint64_t bucket_time(uint64_t earned, uint64_t rate)
{
    unsigned rate_bits = 64 - (unsigned)__builtin_clzll(rate);
    unsigned rate_shift = rate_bits > 16 ? rate_bits - 16 : 0;
    unsigned bits = 64 - (unsigned)__builtin_clzll(earned);
    unsigned shift = bits > 31 ? bits - 31 : 0;
    /* One more than the quotient is enough for all that the two shifts dropped. */
    uint64_t q = (uint32_t)(earned >> shift) / (uint32_t)(rate >> rate_shift) + 1;
    if (shift >= rate_shift)
        return q << (shift - rate_shift);
    return (q >> (rate_shift - shift)) + 1;
}

/*
 * When the tokens of an I/O that lacks them will be there, if nothing changes. Its bucket gets its
 * share of what is earned, or, if that is more, all that the other bucket has no room for.
 */
uint64_t gimbal_bucket_ready_ns(const struct snic_gimbal *g, const struct snic_gimbal_io *io)
{
    unsigned b = bucket_of(g, io);
    uint64_t need = io->size * SNIC_GIMBAL__BYTE - g->tokens[b];
    uint64_t room = g->cap[b ^ 1] - g->tokens[b ^ 1];
    uint64_t shared = bucket_scale(need, g->stretch[b], 24);
    if (shared < UINT64_MAX)
        shared++;
    return g->now_ns + bucket_time(snic_min_u64(shared, need + room), g->target_rate);
}

/* Of the target rate, what reads get. */
uint64_t gimbal_bucket_reads(const struct snic_gimbal *g)
{
    return bucket_scale(g->target_rate, g->share, 32);
}

void gimbal_bucket_discard(struct snic_gimbal *g)
{
    g->tokens[0] = 0;
    g->tokens[1] = 0;
}

int gimbal_bucket_check(const struct snic_gimbal *g)
{
    uint64_t size = g->o.bucket_bytes * SNIC_GIMBAL__BYTE;
    for (unsigned b = 0; b < 2; b++) {
        uint64_t cap = size;
        if (b == 1 && (g->o.flags & SNIC_GIMBAL_ONE_BUCKET) != 0)
            cap = 0;
        if (g->held != NULL && bucket_of(g, g->held) == b)
            cap = snic_max_u64(cap, g->held->size * SNIC_GIMBAL__BYTE);
        if (g->tokens[b] > g->cap[b] || g->cap[b] != cap)
            return SNIC_ECORRUPT;
    }
    return 0;
}
