/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Two token buckets for each disk, in debt form.
 *
 * base's snic_rate does not fit: it refuses a cost above its burst, where a large I/O has to pass
 * and be paid for afterwards, and it has neither debt nor a burst that changes.
 *
 * I1  tokens <= burst, in units of 2^-16; rest < 1e9, in units of 1e-9 of those; a full bucket has
 *     rest 0. So nothing is rounded: span * rate * 2^16 + rest is an integer.
 * I2  An I/O costs less than 2^32 tokens and is admitted from above 0 only: tokens > -2^48.
 * I3  A span is < 2^64 ns, a rate <= 2^40: products stay below 2^120.
 * I4  An entry is verified before it is used, and its check value set whenever it changed.
 * I5  last_ns never goes back.
 */
#include "ebs/ebs_priv.h"
#include "base/simd.h"

#define SNIC_EBS__RATE_MAX ((uint64_t)1 << 40)
#define SNIC_EBS__FRACTION 16
#define SNIC_EBS__NANO UINT64_C(1000000000)
#define SNIC_EBS__DISKS_MAX 65536u

static uint32_t qos_check_of(const struct ebs_qos_entry *e, uint32_t slot)
{
    return ebs_entry_crc(e, offsetof(struct ebs_qos_entry, check), slot);
}

static int qos_damaged(const struct snic_ebs_qos *q, uint32_t slot)
{
    const struct ebs_qos_entry *e = &q->entry[slot];
    return qos_check_of(e, slot) != e->check; /* I4 */
}

static int64_t qos_full(const struct ebs_bucket *b)
{
    return (int64_t)(b->burst << SNIC_EBS__FRACTION);
}

/* Add a bucket's tokens for a span. */
static void qos_earn(struct ebs_bucket *b, uint64_t span_ns)
{
    uint64_t speed = b->rate << SNIC_EBS__FRACTION;
    uint64_t room = (uint64_t)(qos_full(b) - b->tokens);
    uint64_t earned;
    uint64_t whole;

    if (room == 0 || span_ns == 0)
        return;
    if (SNIC_LIKELY(!__builtin_mul_overflow(span_ns, speed, &earned) &&
                    !__builtin_add_overflow(earned, b->rest, &earned))) {
        whole = earned / SNIC_EBS__NANO;
        b->rest = (uint32_t)(earned % SNIC_EBS__NANO);
    } else {
        base_u128 wide = (base_u128)span_ns * speed + b->rest; /* I3 */
        base_u128 count = wide / SNIC_EBS__NANO;
        b->rest = (uint32_t)(wide % SNIC_EBS__NANO);
        whole = count > room ? room : (uint64_t)count;
    }
    if (whole >= room) {
        b->tokens = qos_full(b);
        b->rest = 0; /* I1 */
    } else {
        b->tokens += (int64_t)whole;
    }
}

static void qos_refill(struct ebs_qos_entry *e, uint64_t now_ns)
{
    if (now_ns <= e->last_ns)
        return; /* I5 */
    for (unsigned i = 0; i < 2; i++) {
        if (e->bucket[i].rate != 0)
            qos_earn(&e->bucket[i], now_ns - e->last_ns);
    }
    e->last_ns = now_ns;
}

static int qos_opts(struct snic_ebs_qos_opts *o, const struct snic_ebs_qos_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0 || o->disks == 0 ||
        o->disks > SNIC_EBS__DISKS_MAX || o->flags != 0)
        return SNIC_EINVAL;
    return 0;
}

static size_t qos_size(const struct snic_ebs_qos_opts *o)
{
    return (size_t)snic_align_up(sizeof(struct snic_ebs_qos), SNIC_EBS_ALIGN) +
           o->disks * sizeof(struct ebs_qos_entry);
}

size_t snic_ebs_qos_memsize(const struct snic_ebs_qos_opts *opts)
{
    struct snic_ebs_qos_opts o;
    return qos_opts(&o, opts) != 0 ? 0 : qos_size(&o);
}

int snic_ebs_qos_init(struct snic_ebs_qos **out, void *mem, size_t size,
                      const struct snic_ebs_qos_opts *opts)
{
    struct snic_ebs_qos_opts o;

    if (qos_opts(&o, opts) != 0 || (uintptr_t)mem % SNIC_EBS_ALIGN != 0)
        return SNIC_EINVAL;
    if (size < qos_size(&o))
        return SNIC_ENOSPC;
    memset(mem, 0, qos_size(&o));
    struct snic_ebs_qos *q = (struct snic_ebs_qos *)mem;
    q->disks = o.disks;
    q->io_unit_bytes = o.io_unit_bytes;
    q->entry = (struct ebs_qos_entry *)(void *)((unsigned char *)mem +
                                                snic_align_up(sizeof(*q), SNIC_EBS_ALIGN));
    for (uint32_t i = 0; i < q->disks; i++)
        (void)snic_ebs_qos_clear(q, i);
    *out = q;
    return 0;
}

void *snic_ebs_qos_fini(struct snic_ebs_qos *q)
{
    return q;
}

static int qos_limit_bad(uint64_t rate, uint64_t burst)
{
    return rate != 0 && (rate > SNIC_EBS__RATE_MAX || burst == 0 || burst > SNIC_EBS__RATE_MAX);
}

static void qos_bucket_set(struct ebs_bucket *b, uint64_t rate, uint64_t burst)
{
    int had = b->rate != 0;

    if (rate == 0) {
        memset(b, 0, sizeof(*b));
        return;
    }
    b->rate = rate;
    b->burst = burst;
    if (!had || b->tokens >= qos_full(b)) {
        b->tokens = qos_full(b);
        b->rest = 0; /* I1 */
    }
}

int snic_ebs_qos_set(struct snic_ebs_qos *q, uint32_t slot, const struct snic_ebs_qos_limits *l,
                     uint64_t now_ns)
{
    if (slot >= q->disks || qos_limit_bad(l->bytes_per_second, l->burst_bytes) ||
        qos_limit_bad(l->ios_per_second, l->burst_ios))
        return SNIC_EINVAL;
    struct ebs_qos_entry *e = &q->entry[slot];
    if (qos_damaged(q, slot) || !e->used) {
        memset(e, 0, sizeof(*e));
        e->used = 1;
        e->last_ns = now_ns;
    }
    qos_refill(e, now_ns);
    qos_bucket_set(&e->bucket[0], l->bytes_per_second, l->burst_bytes);
    qos_bucket_set(&e->bucket[1], l->ios_per_second, l->burst_ios);
    e->check = qos_check_of(e, slot);
    return 0;
}

int snic_ebs_qos_clear(struct snic_ebs_qos *q, uint32_t slot)
{
    if (slot >= q->disks)
        return SNIC_EINVAL;
    memset(&q->entry[slot], 0, sizeof(q->entry[slot]));
    q->entry[slot].check = qos_check_of(&q->entry[slot], slot);
    return 0;
}

static int qos_usable(const struct snic_ebs_qos *q, uint32_t slot)
{
    if (slot >= q->disks)
        return SNIC_EINVAL;
    if (qos_damaged(q, slot))
        return SNIC_ECORRUPT;
    return q->entry[slot].used ? 0 : SNIC_ENOENT;
}

int snic_ebs_qos_admit(struct snic_ebs_qos *q, uint32_t slot, uint32_t bytes, uint64_t now_ns)
{
    int r = qos_usable(q, slot);
    uint64_t ios = 1;

    if (r != 0)
        return r;
    struct ebs_qos_entry e = q->entry[slot];
    qos_refill(&e, now_ns);
    if (q->io_unit_bytes != 0 && bytes > q->io_unit_bytes)
        ios = ((uint64_t)bytes + q->io_unit_bytes - 1) / q->io_unit_bytes;
    for (unsigned i = 0; i < 2; i++) {
        if (e.bucket[i].rate != 0 && e.bucket[i].tokens <= 0)
            return SNIC_EAGAIN;
    }
    if (e.bucket[0].rate != 0)
        e.bucket[0].tokens -= (int64_t)((uint64_t)bytes << SNIC_EBS__FRACTION); /* I2 */
    if (e.bucket[1].rate != 0)
        e.bucket[1].tokens -= (int64_t)(ios << SNIC_EBS__FRACTION);
    e.check = qos_check_of(&e, slot);
    q->entry[slot] = e;
    return 0;
}

/* The time from last_ns until a bucket holds tokens. */
static base_u128 qos_wait(const struct ebs_bucket *b)
{
    if (b->rate == 0 || b->tokens > 0)
        return 0;
    uint64_t speed = b->rate << SNIC_EBS__FRACTION;
    base_u128 missing = (base_u128)(uint64_t)(1 - b->tokens) * SNIC_EBS__NANO - b->rest;
    return (missing + speed - 1) / speed;
}

uint64_t snic_ebs_qos_ready_ns(const struct snic_ebs_qos *q, uint32_t slot)
{
    if (qos_usable(q, slot) != 0)
        return SNIC_NEVER;
    const struct ebs_qos_entry *e = &q->entry[slot];
    base_u128 wait = qos_wait(&e->bucket[0]);
    base_u128 other = qos_wait(&e->bucket[1]);
    if (wait < other)
        wait = other;
    if (wait >= SNIC_NEVER - e->last_ns)
        return SNIC_NEVER - 1; /* late, but not never */
    return e->last_ns + (uint64_t)wait;
}

int snic_ebs_qos_view(const struct snic_ebs_qos *q, uint32_t slot, struct snic_ebs_qos_state *v)
{
    int r = qos_usable(q, slot);

    if (r != 0)
        return r;
    const struct ebs_qos_entry *e = &q->entry[slot];
    v->limits.bytes_per_second = e->bucket[0].rate;
    v->limits.ios_per_second = e->bucket[1].rate;
    v->limits.burst_bytes = e->bucket[0].burst;
    v->limits.burst_ios = e->bucket[1].burst;
    v->bytes = e->bucket[0].tokens >> SNIC_EBS__FRACTION;
    v->ios = e->bucket[1].tokens >> SNIC_EBS__FRACTION;
    return 0;
}

static int qos_bucket_bad(const struct ebs_bucket *b)
{
    if (b->rate == 0)
        return b->tokens != 0 || b->burst != 0 || b->rest != 0 || b->pad != 0;
    return qos_limit_bad(b->rate, b->burst) || b->tokens > qos_full(b) ||
           b->tokens <= -((int64_t)1 << 48) || b->rest >= SNIC_EBS__NANO || b->pad != 0 ||
           (b->tokens == qos_full(b) && b->rest != 0); /* I1, I2 */
}

int snic_ebs_qos_check(const struct snic_ebs_qos *q)
{
    for (uint32_t i = 0; i < q->disks; i++) {
        const struct ebs_qos_entry *e = &q->entry[i];
        if (qos_damaged(q, i) || e->used > 1 || qos_bucket_bad(&e->bucket[0]) ||
            qos_bucket_bad(&e->bucket[1]))
            return SNIC_ECORRUPT;
    }
    return 0;
}
