/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Learning a device: what it takes for an I/O alone, and how fast it reads and writes when it has
 * more than it can do. What follows for a switch is in gimbal_learn_tune().
 *
 * Latencies come in batches, one per epoch. An I/O is alone if the device had none when it was sent
 * and got none until it was back. Where there are not enough of these the learner wants quiet, one
 * I/O at a time, in the second half of an epoch: of every eighth, and as soon as rate or latency
 * are others than at the last batch, or one batch disagrees with what is known. Latencies of all
 * sizes are scaled to 128 KiB. A batch is judged by its upper quartile: a virtual disk pauses, and
 * what an I/O alone often waits for is no congestion. While there are writes, most reads meet what
 * the device still has to do of those, however long no other I/O is there: then the least of a
 * batch counts, and raises what is known only if it is twice as much.
 *
 * Rates come from spans in which the device was never idle, all I/Os were reads, or all writes, and
 * their latency was well above that of I/Os alone: then the rate is the device's, not its users'.
 * If the switch had an I/O that lacked tokens the rate may be the switch's: it counts only where it
 * is higher than what is known.
 *
 * I1  Latencies known are 0 or 1000..10^9 ns, rates 0..SNIC_GIMBAL_RATE_MAX.
 * I2  A quiet time has an end, at most an eighth of an epoch after its beginning, and an epoch has
 *     one at most.
 * I3  What is firm was measured.
 */
#include "gimbal/learn_priv.h"

/* The latencies, alone, of the SSD that the switch's defaults were made for (DCT983, of 128 KiB and
 * of no bytes), by op. */
static const uint64_t learn_like[2][2] = {{207000, 80000}, {110000, 69000}};
#define SNIC_GIMBAL__LIKE_BYTES (128u << 10)
/* Reads from here on are large. */
#define SNIC_GIMBAL__LARGE (32u << 10)
/* Samples that are enough, when a quiet time ends without a batch. */
#define SNIC_GIMBAL__FEW 2
/* An eighth more or less is the same latency. */
#define SNIC_GIMBAL__SAME 3
/* For so long a device may be busy with writes that it has taken. */
#define SNIC_GIMBAL__SETTLE_NS UINT64_C(50000000)
/* The paper's worst write cost, and the most that is learned: beyond twice that a rate measured in
 * bad moments would leave writers next to nothing. */
#define SNIC_GIMBAL__COST_WORST UINT64_C(9)
#define SNIC_GIMBAL__COST_LEARNED (2 * SNIC_GIMBAL__COST_WORST)

static uint64_t learn_like_ns(unsigned op, uint32_t size)
{
    const uint64_t *like = learn_like[op];
    return like[1] + (like[0] - like[1]) * size / SNIC_GIMBAL__LIKE_BYTES;
}

static int learn_other(uint64_t a, uint64_t b, unsigned shift)
{
    uint64_t more = snic_max_u64(a, b);
    return more - snic_min_u64(a, b) > more >> shift;
}

/* The load of the epoch that ends: is it another than at the last batch? */
static void learn_load_of(struct gimbal_learn *l, uint64_t now)
{
    uint64_t span = (now - l->epoch_ns) >> 20; /* at least 2^8 */
    uint64_t rate = l->epoch_bytes / span;
    uint64_t load = l->epoch_took_ns / ((l->epoch_like_ns >> 10) + 1);
    if (l->rest > 0)
        l->rest--;
    /* Reads alone are steady; what a device makes of writes wanders. */
    unsigned shift = l->epoch_wrote ? 2 : 3;
    if (learn_other(rate, l->rate, shift) || learn_other(load, l->load, shift))
        l->rest = 0;
    if (l->rest == 0 || l->closed) {
        l->rate = rate;
        l->load = load;
    }
    l->epoch_wrote = 0;
    l->epoch_bytes = 0;
    l->epoch_took_ns = 0;
    l->epoch_like_ns = 0;
}

static void learn_epoch(struct gimbal_learn *l, uint64_t now)
{
    l->epoch_ns = now;
    l->closed = 0;
    l->quiet = 0;
    if (l->judged) /* too few for that stay: the device takes its time */
        memset(l->samples, 0, sizeof(l->samples));
    l->judged = 0;
}

static void learn_span(struct gimbal_learn *l, uint64_t now, uint32_t inflight)
{
    l->span_ns = now;
    l->span_idle = inflight == 0 || l->quiet;
    l->span_held = 0;
    l->bytes[0] = 0;
    l->bytes[1] = 0;
    l->ios = 0;
    l->took_ns = 0;
    l->like_ns = 0;
}

void gimbal_learn_init(struct gimbal_learn *l, uint64_t now)
{
    memset(l, 0, sizeof(*l));
    l->known.opts_size = sizeof(l->known);
    l->now_ns = now;
    learn_epoch(l, now);
    learn_span(l, now, 0);
}

static int learn_valid(const struct snic_gimbal_profile *p)
{
    const uint64_t ns[2] = {p->read_ns, p->write_ns};
    for (unsigned k = 0; k < 2; k++) {
        if ((ns[k] != 0 && ns[k] < 1000) || ns[k] > SNIC_GIMBAL__LATENCY_MAX ||
            p->read_rate[k] > SNIC_GIMBAL_RATE_MAX || p->write_rate[k] > SNIC_GIMBAL_RATE_MAX)
            return 0; /* I1 */
    }
    return p->reserved == 0;
}

int gimbal_learn_load(struct gimbal_learn *l, const struct snic_gimbal_profile *p)
{
    struct snic_gimbal_profile in = {0};
    if (snic_opts_copy(&in, (uint32_t)sizeof(in), p) != 0 || !learn_valid(&in))
        return SNIC_EINVAL;
    if (l->firm)
        return 0;
    l->known = in;
    l->known.opts_size = sizeof(l->known);
    l->fresh = 1;
    return 0;
}

/* ---- Latencies ---- */

/* 1: the device may be busy with writes although it has none. */
static int learn_unsettled(const struct gimbal_learn *l)
{
    return l->wrote && l->now_ns - l->wrote_ns < SNIC_GIMBAL__SETTLE_NS;
}

/* The upper quartile of a batch, or its least. */
static uint64_t learn_judge(const struct gimbal_learn *l, unsigned kind)
{
    uint64_t s[SNIC_GIMBAL__BATCH];
    uint32_t n = l->samples[kind];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && s[at - 1] > l->sample[kind][i]; at--)
            s[at] = s[at - 1];
        s[at] = l->sample[kind][i];
    }
    return s[learn_unsettled(l) && kind != GIMBAL_LEARN_WRITE ? 0 : n * 3 / 4];
}

/* By a batch, I/Os of @op alone take @ns. */
static void learn_latency(struct gimbal_learn *l, unsigned op, uint64_t ns)
{
    uint64_t *known = op == SNIC_GIMBAL_READ ? &l->known.read_ns : &l->known.write_ns;
    uint64_t old = *known;
    uint64_t same = old + (old >> SNIC_GIMBAL__SAME);
    if (old != 0 && !l->firm && learn_other(ns, old, 2)) {
        /* What was stored is of another device. */
        memset(l->known.read_rate, 0, sizeof(l->known.read_rate));
        memset(l->known.write_rate, 0, sizeof(l->known.write_rate));
    }
    if (op == SNIC_GIMBAL_READ && learn_unsettled(l))
        same = 2 * old;
    if (old == 0 || !l->firm || ns < old - (old >> SNIC_GIMBAL__SAME)) {
        *known = ns;
        l->higher[op] = 0;
    } else if (ns <= same) {
        if (ns <= old || !learn_unsettled(l))
            *known = ns > old ? old + (ns - old) / 4 : old - (old - ns) / 4;
        l->higher[op] = 0;
    } else if (l->higher[op] == 0) {
        l->higher[op] = 1;
        l->rest = 0; /* the next epoch decides */
        l->higher_ns[op] = ns;
    } else {
        *known = snic_min_u64(ns, l->higher_ns[op]);
        l->higher[op] = 0;
    }
    l->fresh |= *known != old;
}

/* The batch is complete, or its time is over. */
static void learn_close(struct gimbal_learn *l)
{
    const uint32_t *n = l->samples;
    unsigned reads = GIMBAL_LEARN_KINDS;
    l->closed = 1;
    l->quiet = 0;
    if (n[GIMBAL_LEARN_LARGE] >= SNIC_GIMBAL__BATCH / 2)
        reads = GIMBAL_LEARN_LARGE;
    else if (n[GIMBAL_LEARN_SMALL] >= SNIC_GIMBAL__FEW)
        reads = GIMBAL_LEARN_SMALL;
    else if (n[GIMBAL_LEARN_LARGE] >= SNIC_GIMBAL__FEW)
        reads = GIMBAL_LEARN_LARGE;
    int writes = n[GIMBAL_LEARN_WRITE] >= SNIC_GIMBAL__FEW;
    if (reads == GIMBAL_LEARN_KINDS && !writes)
        return;
    l->judged = 1;
    l->batches++;
    l->rest = SNIC_GIMBAL__REST;
    if (reads != GIMBAL_LEARN_KINDS)
        learn_latency(l, SNIC_GIMBAL_READ, learn_judge(l, reads));
    if (writes)
        learn_latency(l, SNIC_GIMBAL_WRITE, learn_judge(l, GIMBAL_LEARN_WRITE));
    if (!l->firm && reads == GIMBAL_LEARN_KINDS)
        l->known.read_ns = 0; /* stored, and not confirmed: writes decide */
    l->firm = 1;
}

static void learn_sample(struct gimbal_learn *l, const struct snic_gimbal_io *io, uint64_t ns)
{
    unsigned kind = io->size < SNIC_GIMBAL__LARGE ? GIMBAL_LEARN_SMALL : GIMBAL_LEARN_LARGE;
    if (io->op == SNIC_GIMBAL_WRITE)
        kind = GIMBAL_LEARN_WRITE;
    ns = ns * learn_like[io->op][0] / learn_like_ns(io->op, io->size);
    ns = snic_min_u64(snic_max_u64(ns, 1000), SNIC_GIMBAL__LATENCY_MAX); /* I1 */
    l->sample[kind][l->samples[kind]++] = ns;
    if (l->samples[kind] == SNIC_GIMBAL__BATCH)
        learn_close(l);
}

/* ---- Rates ---- */

/* Half of the way down, all of it up. */
static void learn_rate(struct gimbal_learn *l, uint64_t *known, uint64_t rate)
{
    rate = snic_min_u64(rate, SNIC_GIMBAL_RATE_MAX);
    uint64_t old = *known;
    *known = rate >= old ? rate : old - (old - rate) / 2;
    l->fresh |= *known != old;
}

/* 1: the I/Os of the span took so much longer than alone that the device was busy. */
static int learn_busy(const struct gimbal_learn *l, unsigned op)
{
    uint64_t alone = op == SNIC_GIMBAL_READ ? l->known.read_ns : l->known.write_ns;
    uint64_t units = l->like_ns / learn_like[op][0];
    if (l->span_idle || alone == 0 || units == 0)
        return 0;
    uint64_t took = l->took_ns / units;
    return took >= alone + alone / 2;
}

static void learn_span_end(struct gimbal_learn *l, uint64_t now)
{
    uint64_t span = now - l->span_ns;
    for (unsigned op = 0; op < 2 && span < 2 * SNIC_GIMBAL__SPAN_NS; op++) {
        if (l->bytes[op] == 0 || l->bytes[op ^ 1] != 0 || !learn_busy(l, op))
            continue;
        unsigned large = l->bytes[op] / l->ios >= SNIC_GIMBAL__LARGE;
        uint64_t rate = l->bytes[op] * 1000000 / (span / 1000);
        if (op == SNIC_GIMBAL_READ) {
            if (!l->span_held)
                l->top[large] = snic_max_u64(l->top[large], rate);
            if (rate > l->known.read_rate[large])
                learn_rate(l, &l->known.read_rate[large], rate);
        } else {
            /* A buffer takes the first ones: what lasts counts. */
            uint64_t *known = &l->known.write_rate[large];
            uint64_t old = snic_min_u64(*known != 0 ? *known : rate, SNIC_GIMBAL_RATE_MAX);
            rate = snic_min_u64(rate, SNIC_GIMBAL_RATE_MAX);
            if (l->span_held && (*known == 0 || rate < old))
                continue;
            *known = rate > old ? old + (rate - old) / 8 : old - (old - rate) / 8;
            l->fresh = 1;
        }
    }
}

/* ---- Time ---- */

/* What is due by time alone. */
static void learn_time(struct gimbal_learn *l, uint64_t now)
{
    if (now > l->now_ns)
        l->now_ns = now;
    now = l->now_ns;
    if (now - l->epoch_ns >= SNIC_GIMBAL__EPOCH_NS) {
        if (!l->closed)
            learn_close(l);
        for (unsigned k = 0; k < 2; k++) {
            if (l->top[k] != 0)
                learn_rate(l, &l->known.read_rate[k], l->top[k]);
            l->top[k] = 0;
        }
        learn_load_of(l, now);
        learn_epoch(l, now);
    }
    if (l->quiet && now >= l->quiet_ns)
        learn_close(l); /* I2 */
    if (l->closed || l->quiet)
        return;
    if (l->firm && (l->rest != 0 || now - l->epoch_ns < SNIC_GIMBAL__EPOCH_NS / 2))
        return;
    uint64_t least = SNIC_GIMBAL__EPOCH_NS / 64;
    uint64_t most = SNIC_GIMBAL__EPOCH_NS / 8;
    uint64_t need = l->firm ? 2 * SNIC_GIMBAL__BATCH * l->known.read_ns : most;
    l->quiet = 1;
    l->quiet_since_ns = now;
    l->quiet_ns = now + snic_min_u64(snic_max_u64(need, least), most); /* I2 */
    l->span_idle = 1;
    l->quiets++;
}

void gimbal_learn_sent(struct gimbal_learn *l, uint32_t inflight, uint64_t now)
{
    learn_time(l, now);
    l->alone = inflight == 0;
    l->sent_ns = l->now_ns;
}

void gimbal_learn_done(struct gimbal_learn *l, const struct snic_gimbal_io *io, int timed,
                       uint32_t inflight, uint64_t now)
{
    uint64_t took = now > io->sent_ns ? now - io->sent_ns : 0;
    took = snic_min_u64(took, SNIC_GIMBAL__LATENCY_MAX);
    /* One that was abandoned may come back now; it was sent before. */
    if (l->alone && inflight == 0 && io->sent_ns >= l->sent_ns) {
        if (timed && !l->judged)
            learn_sample(l, io, took);
        l->alone = 0;
    }
    if (io->op == SNIC_GIMBAL_WRITE) {
        l->wrote = 1;
        l->wrote_ns = snic_max_u64(l->now_ns, now);
    }
    learn_time(l, now);
    if (timed) {
        l->bytes[io->op] += io->size;
        l->ios++;
        l->took_ns += took;
        l->like_ns += learn_like_ns(io->op, io->size);
        l->epoch_wrote |= io->op == SNIC_GIMBAL_WRITE;
        l->epoch_bytes += io->size;
        l->epoch_took_ns += took;
        l->epoch_like_ns += learn_like_ns(io->op, io->size);
    }
    if (l->now_ns - l->span_ns >= SNIC_GIMBAL__SPAN_NS) {
        learn_span_end(l, l->now_ns);
        learn_span(l, l->now_ns, inflight);
    }
    l->span_idle |= inflight == 0;
}

int gimbal_learn_quiet(struct gimbal_learn *l, uint64_t now)
{
    learn_time(l, now);
    return (int)l->quiet;
}

int gimbal_learn_apart(const struct gimbal_learn *l, const struct snic_gimbal_io *io)
{
    return l->quiet && io->sent_ns >= l->quiet_since_ns;
}

uint64_t gimbal_learn_deadline_ns(const struct gimbal_learn *l)
{
    return l->quiet ? l->quiet_ns : SNIC_NEVER;
}

int gimbal_learn_poll(struct gimbal_learn *l)
{
    int fresh = (int)l->fresh;
    l->fresh = 0;
    return fresh;
}

/* ---- What follows ---- */

/* The worst cost that was seen of a write, in 1/SNIC_GIMBAL_COST_ONE. */
static uint32_t learn_cost(const struct snic_gimbal_profile *p)
{
    uint64_t worst = SNIC_GIMBAL__COST_WORST * SNIC_GIMBAL_COST_ONE;
    for (unsigned k = 0; k < 2; k++) {
        if (p->write_rate[k] == 0)
            continue;
        worst = snic_max_u64(worst, p->read_rate[k] * SNIC_GIMBAL_COST_ONE / p->write_rate[k]);
    }
    return (uint32_t)snic_min_u64(worst, SNIC_GIMBAL__COST_LEARNED * SNIC_GIMBAL_COST_ONE);
}

void gimbal_learn_tune(const struct snic_gimbal_profile *p, uint32_t slot_bytes,
                       struct gimbal_tuning *out)
{
    uint64_t alone = p->read_ns;
    uint64_t reads = snic_max_u64(p->read_rate[0], p->read_rate[1]);
    uint64_t writes = snic_max_u64(p->write_rate[0], p->write_rate[1]);
    uint64_t any = snic_max_u64(reads, writes);
    *out = (struct gimbal_tuning){250000, 1500000, UINT64_C(8000000000), learn_cost(p), 8};
    if (alone == 0)
        alone = p->write_ns * learn_like[0][0] / learn_like[1][0];
    alone = snic_min_u64(alone, SNIC_GIMBAL__LATENCY_MAX);
    if (any != 0)
        out->rate_max = snic_min_u64(any * 5 / 2, SNIC_GIMBAL_RATE_MAX);
    if (alone == 0)
        return;
    /* Of an SSD with a buffer writes are the faster ones. */
    uint64_t slow = snic_max_u64(alone, p->write_ns);
    out->thresh_min_ns = slow + slow / 4;
    out->thresh_max_ns = 6 * out->thresh_min_ns;
    if (reads == 0)
        return;
    /* At most 2^40 times 2^30, in bytes times ns. */
    uint64_t need = (reads >> 10) * alone / 1000000000 * 1536 / slot_bytes + 1;
    out->slot_threshold = (uint32_t)snic_min_u64(snic_max_u64(need, 8), 64);
    uint64_t full = alone + UINT64_C(2750000000) * out->slot_threshold * slot_bytes / reads;
    out->thresh_max_ns = snic_max_u64(out->thresh_max_ns, snic_min_u64(full, 16 * alone));
}

int gimbal_learn_check(const struct gimbal_learn *l)
{
    for (unsigned k = 0; k < GIMBAL_LEARN_KINDS; k++)
        if (l->samples[k] > SNIC_GIMBAL__BATCH)
            return SNIC_ECORRUPT;
    if (l->quiet && (l->closed || l->quiet_ns < l->epoch_ns ||
                     l->quiet_ns - l->now_ns > SNIC_GIMBAL__EPOCH_NS / 8))
        return SNIC_ECORRUPT; /* I2 */
    return learn_valid(&l->known) ? 0 : SNIC_ECORRUPT;
}
