/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Congestion control (Algorithm 1): the latency monitor of each I/O type, the measured completion
 * rate, and the target rate.
 *
 * I1  thresh_min <= thresh <= thresh_max; a monitor is in state "congested" only below thresh_max.
 * I2  rate_min <= target_rate <= rate_max.
 * I3  completion_rate is that of the last full window with completions in it; time in which the
 *     device had nothing to do is in no window, and no gap between completions counts for more
 *     than one window. So neither an idle second nor a stall of ten makes it nothing.
 * I4  usual_rate follows completion_rate by an eighth a window: a tenth of a second, or so. An
 *     overload sets the target to no less than half of it: one stall costs a factor of two, and a
 *     lasting change is followed within a tenth of a second per factor of three. While all
 *     active tenants read alike (gimbal_alike()) it is all of it, and a stall costs an eighth: the
 *     dips of a window would only leave the device idle. Where reads and writes mix, they are what
 *     lets it drain: without them its writes stay slow, their cost at the worst, and their share a
 *     tenth below that of reads. Any part up to three quarters does; a half is a guard against
 *     stalls.
 */
#include "gimbal/gimbal_priv.h"

/* The usual rate's weight of a window, 2^-n. */
#define SNIC_GIMBAL__USUAL 3

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

/* Algorithm 1, update_latency; the comparisons are section 3.3's (at a threshold is above it). */
static uint32_t congestion_latency(struct snic_gimbal *g, struct gimbal_monitor *m,
                                   uint64_t latency_ns)
{
    uint32_t state;
    m->ewma_ns = congestion_toward(m->ewma_ns, latency_ns, g->o.alpha_d_shift);
    if (m->ewma_ns >= g->o.thresh_max_ns) {
        m->thresh_ns = g->o.thresh_max_ns;
        state = SNIC_GIMBAL_OVERLOADED;
    } else if (m->ewma_ns >= m->thresh_ns) {
        /* Rounded up, or it would never reach the maximum. */
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

/* A completion that measures: Algorithm 1, completion. */
void gimbal_congestion_done(struct snic_gimbal *g, const struct snic_gimbal_io *io, uint64_t now)
{
    uint32_t state = congestion_latency(g, &g->monitor[io->op], now - io->sent_ns);
    uint64_t rate = g->target_rate;
    uint64_t step = io->size;

    congestion_window(g, io->size, now);
    if (state == SNIC_GIMBAL_OVERLOADED) {
        uint64_t least = gimbal_alike(g) ? g->usual_rate : g->usual_rate / 2; /* I4 */
        if (g->completion_rate > 0)
            rate = snic_max_u64(g->completion_rate, least);
        if ((g->o.flags & SNIC_GIMBAL_DISCARD) != 0)
            gimbal_bucket_discard(g);
    }
    if (state == SNIC_GIMBAL_OVERLOADED || state == SNIC_GIMBAL_CONGESTED) {
        rate = rate > step ? rate - step : 0;
    } else {
        if (state == SNIC_GIMBAL_UNDERUTILISED)
            step *= g->o.beta;
        rate += step;
    }
    g->target_rate = snic_min_u64(snic_max_u64(rate, g->o.rate_min), g->o.rate_max); /* I2 */
}

int gimbal_congestion_check(const struct snic_gimbal *g)
{
    for (unsigned op = 0; op < 2; op++) {
        const struct gimbal_monitor *m = &g->monitor[op];
        if (m->thresh_ns < g->o.thresh_min_ns || m->thresh_ns > g->o.thresh_max_ns ||
            m->state > SNIC_GIMBAL_OVERLOADED)
            return SNIC_ECORRUPT; /* I1 */
    }
    if (g->target_rate < g->o.rate_min || g->target_rate > g->o.rate_max ||
        g->window_ns >= g->o.rate_window_ns || g->done_ns > g->now_ns)
        return SNIC_ECORRUPT; /* I2 */
    if ((g->completion_rate == 0) != (g->usual_rate == 0))
        return SNIC_ECORRUPT;
    return 0;
}
