/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Congestion control (Algorithm 1): the latency monitor of each I/O type, the measured completion
 * rate, and the target rate.
 *
 * I1  thresh_min <= thresh <= thresh_max; a monitor is in state "congested" only below thresh_max.
 * I2  rate_min <= target_rate <= rate_max, or, where that is the default, twice usual_rate if that
 *     is more: a ceiling far above what the device can do would only take long to come down from.
 * I3  completion_rate is the rate of the last full window that had completions. Time in which the
 *     device is idle is in no window, and a gap between two completions counts as one window at
 *     most. So neither an idle second nor a stall of ten seconds makes it zero.
 * I4  usual_rate is the moving average of completion_rate, with weight 1/8 per window; it adapts
 *     in about 0.1 s. On overload the target falls to completion_rate, but not below seven eighths
 *     of usual_rate, and below those it rises in large steps: one stall costs an eighth for a few
 *     milliseconds. A lasting fall is followed by 1/64 a window, a half in 45 windows. While
 *     all active tenants only read, with alike slots (gimbal_alike()), the bound is all of
 *     usual_rate: a lower target would only leave the device idle. When reads and writes mix, a
 *     lower target is needed to drain the device: without it writes stay slow, their cost stays at
 *     its maximum, and their share is a tenth below that of reads. Seven eighths are low enough for
 *     that. A half, and equal steps, let one device of four lag behind the others after each
 *     overload: scans lost 8 %.
 */
#include "gimbal/gimbal_priv.h"

/* Weight of one window in usual_rate: 2^-n. */
#define SNIC_GIMBAL__USUAL 3
/* A target below 1 - 2^-n of usual_rate rises by steps 2^m times as large, to usual_rate at most:
 * one large I/O is no reason for more. */
#define SNIC_GIMBAL__LEAST 3
#define SNIC_GIMBAL__RISE 4

void gimbal_congestion_init(struct snic_gimbal *g)
{
    g->target_rate = g->o.rate_start;
    for (unsigned op = 0; op < 2; op++)
        g->monitor[op].thresh_ns = g->o.thresh_max_ns;
}

static uint64_t congestion_toward(uint64_t from, uint64_t to, uint32_t shift)
{
    return to >= from ? from + ((to - from) >> shift) : from - ((from - to) >> shift);
}

/* Algorithm 1, update_latency. As in section 3.3, a latency equal to a threshold is above it. */
static uint32_t congestion_latency(struct snic_gimbal *g, struct gimbal_monitor *m,
                                   uint64_t latency_ns)
{
    uint32_t state;
    m->ewma_ns = congestion_toward(m->ewma_ns, latency_ns, g->o.alpha_d_shift);
    if (m->ewma_ns >= g->o.thresh_max_ns) {
        m->thresh_ns = g->o.thresh_max_ns;
        state = SNIC_GIMBAL_OVERLOADED;
    } else if (m->ewma_ns >= m->thresh_ns) {
        /* Rounded up, or thresh would never reach the maximum. */
        m->thresh_ns = (m->thresh_ns + g->o.thresh_max_ns + 1) / 2;
        state = SNIC_GIMBAL_CONGESTED;
    } else {
        m->thresh_ns -= (m->thresh_ns - m->ewma_ns) >> g->o.alpha_t_shift;
        m->thresh_ns = snic_max_u64(m->thresh_ns, g->o.thresh_min_ns); /* I1 */
        state =
            m->ewma_ns >= g->o.thresh_min_ns ? SNIC_GIMBAL_AVOIDANCE : SNIC_GIMBAL_UNDERUTILISED;
    }
    if (state != m->state)
        g->entered[state]++;
    m->state = state;
    return state;
}

/* I3, I4. Divides once per window. */
static void congestion_window(struct snic_gimbal *g, uint32_t size, uint64_t now)
{
    g->window_bytes += size;
    g->window_ns += snic_min_u64(now - g->done_ns, g->o.rate_window_ns);
    g->done_ns = now;
    if (g->window_ns < g->o.rate_window_ns)
        return;
    uint64_t total;
    if (__builtin_mul_overflow(g->window_bytes, SNIC_GIMBAL__BYTE, &total))
        total = UINT64_MAX;
    uint64_t rate = snic_max_u64(total / g->window_ns, 1);
    g->usual_rate =
        g->completion_rate == 0 ? rate : congestion_toward(g->usual_rate, rate, SNIC_GIMBAL__USUAL);
    g->completion_rate = rate;
    g->window_bytes = 0;
    g->window_ns = 0;
}

static uint64_t congestion_ceiling(const struct snic_gimbal *g)
{
    if (!g->rate_open)
        return g->o.rate_max;
    uint64_t twice = 2 * snic_min_u64(g->usual_rate, SNIC_GIMBAL_RATE_MAX / 2);
    return snic_max_u64(g->o.rate_max, twice);
}

/* Algorithm 1, completion, for an I/O whose latency counts. */
void gimbal_congestion_done(struct snic_gimbal *g, const struct snic_gimbal_io *io, uint64_t now)
{
    uint32_t state = congestion_latency(g, &g->monitor[io->op], now - io->sent_ns);
    uint64_t rate = g->target_rate;
    uint64_t step = io->size;
    uint64_t least = g->usual_rate - (g->usual_rate >> SNIC_GIMBAL__LEAST); /* I4 */

    congestion_window(g, io->size, now);
    if (state == SNIC_GIMBAL_OVERLOADED) {
        if (g->completion_rate > 0)
            rate = snic_max_u64(g->completion_rate, gimbal_alike(g) ? g->usual_rate : least);
        if ((g->o.flags & SNIC_GIMBAL_DISCARD) != 0)
            gimbal_bucket_discard(g);
    }
    if (state == SNIC_GIMBAL_OVERLOADED || state == SNIC_GIMBAL_CONGESTED) {
        rate = rate > step ? rate - step : 0;
    } else {
        if (state == SNIC_GIMBAL_UNDERUTILISED)
            step *= g->o.beta;
        uint64_t large = rate < least ? step << SNIC_GIMBAL__RISE : step;
        rate = snic_max_u64(rate + step, snic_min_u64(rate + large, g->usual_rate));
    }
    rate = snic_min_u64(rate, congestion_ceiling(g));
    g->target_rate = snic_max_u64(rate, g->o.rate_min); /* I2 */
}

/* The thresholds' limits or the ceiling are others now (I1, I2). */
void gimbal_congestion_limits(struct snic_gimbal *g)
{
    for (unsigned op = 0; op < 2; op++) {
        uint64_t *thresh = &g->monitor[op].thresh_ns;
        *thresh = snic_max_u64(*thresh, g->o.thresh_min_ns);
        *thresh = snic_min_u64(*thresh, g->o.thresh_max_ns);
    }
    uint64_t rate = snic_min_u64(g->target_rate, congestion_ceiling(g));
    g->target_rate = snic_max_u64(rate, g->o.rate_min);
}

int gimbal_congestion_check(const struct snic_gimbal *g)
{
    for (unsigned op = 0; op < 2; op++) {
        const struct gimbal_monitor *m = &g->monitor[op];
        if (m->thresh_ns < g->o.thresh_min_ns || m->thresh_ns > g->o.thresh_max_ns ||
            m->state > SNIC_GIMBAL_OVERLOADED)
            return SNIC_ECORRUPT; /* I1 */
    }
    if (g->target_rate < g->o.rate_min || g->target_rate > congestion_ceiling(g) ||
        g->window_ns >= g->o.rate_window_ns || g->done_ns > g->now_ns)
        return SNIC_ECORRUPT; /* I2 */
    if ((g->completion_rate == 0) != (g->usual_rate == 0))
        return SNIC_ECORRUPT;
    return 0;
}
