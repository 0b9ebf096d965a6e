/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The windows of a path. Two of them, because the hold time in every answer distinguishes a slow
 * server from a slow fabric: the fabric's delay is the rest.
 *
 * Without INT, Swift (Kumar et al., SIGCOMM 2020, section 3): additive increase below the target
 * delay, a decrease by how much it is exceeded at most once per RTT above; the target grows as the
 * window falls, so that many flows on one link keep some queue. With INT, HPCC (Li et al., SIGCOMM
 * 2019, algorithm 1) for the fabric's window.
 *
 * Departures: increase is divided by the server's live paths, since they are one flow over several
 * paths; an unused window does not grow; the end's target is relative to the least hold seen, which
 * contains the store's own time, and no window reduces that; a delay counts when the round after it
 * has it, too: a queue lasts that long, a short preemption of a thread, at either end, does not.
 */
#include "solar/solar_priv.h"

#define SNIC_SOLAR__CC_BASE_NS (50 * SNIC_SOLAR__US) /* above min_rtt: a software end's jitter */
#define SNIC_SOLAR__CC_RANGE_NS (100 * SNIC_SOLAR__US)
/* alpha = range / (1/sqrt(0.1) - 1/sqrt(100)), times 32 for the root of 1024ths; beta */
#define SNIC_SOLAR__CC_ALPHA UINT64_C(1044968)
#define SNIC_SOLAR__CC_BETA UINT64_C(3266)
#define SNIC_SOLAR__CC_END_NS (2 * SNIC_SOLAR__MS)
#define SNIC_SOLAR__CC_ETA 62259 /* 0.95 in Q16 */
#define SNIC_SOLAR__CC_STAGES 5

void solar_cc_init(const struct snic_solar *c, struct solar_cc *cc, uint32_t blocks)
{
    (void)c;
    memset(cc, 0, sizeof(*cc));
    cc->window[0] = blocks * SNIC_SOLAR__ONE;
    cc->window[1] = cc->window[0];
    cc->wc = cc->window[0];
    cc->target_ns = SNIC_SOLAR__CC_BASE_NS + SNIC_SOLAR__CC_RANGE_NS;
    cc->hold_min_ns = SNIC_NEVER;
}

uint32_t solar_cc_window(const struct solar_cc *cc)
{
    return cc->window[0] < cc->window[1] ? cc->window[0] : cc->window[1];
}

static uint32_t solar_cc_root(uint32_t v)
{
    uint32_t r = 0;
    for (uint32_t bit = 1u << 15; bit != 0; bit >>= 1)
        if ((uint64_t)(r | bit) * (r | bit) <= v)
            r |= bit;
    return r;
}

static void solar_cc_set(const struct snic_solar *c, uint32_t *window, uint64_t value)
{
    uint64_t max = (uint64_t)c->o.window_max * SNIC_SOLAR__ONE;
    *window = (uint32_t)snic_min_u64(snic_max_u64(value, SNIC_SOLAR__WINDOW_MIN), max);
}

static void solar_cc_target(struct solar_cc *cc)
{
    uint64_t scaled = SNIC_SOLAR__CC_ALPHA / snic_max_u64(solar_cc_root(cc->window[0]), 1);
    scaled = scaled > SNIC_SOLAR__CC_BETA ? scaled - SNIC_SOLAR__CC_BETA : 0;
    cc->target_ns = SNIC_SOLAR__CC_BASE_NS + snic_min_u64(scaled, SNIC_SOLAR__CC_RANGE_NS);
}

/* Swift's reaction of window @p i; @p used: it limited what was sent. */
static void solar_cc_swift(const struct snic_solar *c, struct solar_path *p, uint32_t i,
                           uint64_t delay_ns, uint64_t target_ns, uint32_t blocks, int used)
{
    struct solar_cc *cc = &p->cc;
    uint64_t w = cc->window[i];
    if (delay_ns < target_ns)
        cc->over_ns[i] = 0;
    else if (cc->over_ns[i] == 0)
        cc->over_ns[i] = c->q.now_ns;
    if (delay_ns < target_ns) {
        uint32_t live = ebs_ones(c->servers[p->server].alive_mask);
        uint64_t add = (uint64_t)blocks * SNIC_SOLAR__ONE / (live > 1 ? live : 1);
        if (w > SNIC_SOLAR__ONE)
            add = add * SNIC_SOLAR__ONE / w;
        if (used)
            solar_cc_set(c, &cc->window[i], w + add);
    } else if (c->q.now_ns - cc->cut_ns[i] >= p->srtt_ns &&
               c->q.now_ns - cc->over_ns[i] >= p->min_rtt_ns) {
        uint64_t part = 819 * (delay_ns - target_ns) / delay_ns; /* 0.8 of the excess, in 1024ths */
        w -= w * snic_min_u64(part, 512) / 1024;
        /* The server's credit decides on the least number of its blocks in progress: stores have
           slow phases, which a smaller window does not shorten. */
        if (i == 1)
            w = snic_max_u64(w, snic_min_u64(cc->window[1], c->o.window_start * SNIC_SOLAR__ONE));
        solar_cc_set(c, &cc->window[i], w);
        cc->cut_ns[i] = c->q.now_ns;
        if (i == 0)
            solar_cc_target(cc);
    }
}

void solar_cc_ack(const struct snic_solar *c, struct solar_path *p, uint64_t rtt_ns,
                  uint64_t hold_ns, uint32_t blocks, int ce)
{
    struct solar_cc *cc = &p->cc;
    uint64_t hold = snic_min_u64(hold_ns, rtt_ns);
    uint64_t target = p->min_rtt_ns + cc->target_ns;
    uint64_t delay = rtt_ns - hold;
    int used = (uint64_t)(p->inflight + blocks) * 2 * SNIC_SOLAR__ONE >= solar_cc_window(cc);
    if (ce && delay < target)
        delay = target;
    if (hold < cc->hold_min_ns)
        cc->hold_min_ns = hold;
    if (!cc->telemetry)
        solar_cc_swift(c, p, 0, delay, target, blocks, used);
    solar_cc_swift(c, p, 1, hold, 4 * cc->hold_min_ns + SNIC_SOLAR__CC_END_NS, blocks, used);
}

void solar_cc_loss(const struct snic_solar *c, struct solar_path *p)
{
    struct solar_cc *cc = &p->cc;
    if (c->q.now_ns - cc->cut_ns[0] < p->srtt_ns)
        return;
    /* Loss without delay is not congestion, or not caused by this path. */
    int delayed = p->srtt_ns > 2 * (p->min_rtt_ns + cc->target_ns);
    solar_cc_set(c, &cc->window[0], (uint64_t)cc->window[0] * (delayed ? 512 : 819) / 1024);
    cc->cut_ns[0] = c->q.now_ns;
    solar_cc_target(cc);
}

void solar_cc_timeout(const struct snic_solar *c, struct solar_path *p)
{
    struct solar_cc *cc = &p->cc;
    uint64_t w = p->timeouts >= 5 ? SNIC_SOLAR__WINDOW_MIN : cc->window[0] / 2;
    /* A window of less than one block is for a fabric that is known to be full, not for a path that
       is about to be replaced. */
    if (p->timeouts < 5)
        w = snic_max_u64(w, SNIC_SOLAR__ONE);
    solar_cc_set(c, &cc->window[0], w);
    cc->cut_ns[0] = c->q.now_ns;
    solar_cc_target(cc);
}

uint64_t solar_cc_interval(const struct solar_path *p)
{
    /* A quarter faster than one window per RTT, so that the window is the limit, not the pace. */
    uint64_t w = solar_cc_window(&p->cc);
    /* One block per rto_max_ns is always sent: I/Os must complete, however full the fabric is. */
    return snic_min_u64(p->srtt_ns * SNIC_SOLAR__ONE / w * 4 / 5, p->c->o.rto_max_ns);
}

/* ---- HPCC ---- */

/* The use of a hop's link since its last sample, Q16; 0 if it is unknown. */
static uint64_t solar_cc_hop(const struct snic_solar *c, const struct snic_ebs_hop *now,
                             const struct snic_ebs_hop *last, uint64_t *dt)
{
    uint64_t bps = snic_ebs_hop_bps(now->speed);
    uint64_t ns = (now->ts_ns - last->ts_ns) & 0xffffffu;
    uint64_t tx = (uint64_t)((now->tx_units - last->tx_units) & 0xfffffu) * 128;
    uint64_t queue = (now->q_units < last->q_units ? now->q_units : last->q_units) * UINT64_C(80);
    if (bps == 0 || ns == 0 || now->speed != last->speed)
        return 0;
    uint64_t per_us = bps / 8000000; /* bytes */
    if (per_us == 0)
        return 0;
    *dt = ns;
    uint64_t u = (queue << 16) * 1000 / (per_us * c->o.base_rtt_ns);
    u += (tx << 16) * 1000 / (per_us * ns);
    return snic_min_u64(u, UINT64_C(16) << 16);
}

void solar_cc_int(const struct snic_solar *c, struct solar_path *p, const struct snic_ebs_int *in,
                  uint32_t ack_seq)
{
    struct solar_cc *cc = &p->cc;
    uint64_t max = 0, tau = 0, t = c->o.base_rtt_ns;
    int known = cc->telemetry && cc->last.count == in->count;
    for (uint32_t i = 0; known && i < in->count; i++) {
        uint64_t dt = 0;
        uint64_t u = solar_cc_hop(c, &in->hop[i], &cc->last.hop[i], &dt);
        if (u > max) {
            max = u;
            tau = dt;
        }
    }
    cc->last = *in;
    cc->telemetry = in->count > 0;
    if (!known || in->count == 0 || tau == 0)
        return;
    tau = snic_min_u64(tau, t);
    cc->u = (uint32_t)((cc->u * (t - tau) + max * tau) / t);
    uint64_t full = c->o.hop_rate * t / 1000000000 / SNIC_EBS_BLOCK_BYTES; /* blocks */
    uint32_t live = ebs_ones(c->servers[p->server].alive_mask);
    uint64_t wai = snic_max_u64(full, 1) * SNIC_SOLAR__ONE / 20 / (live > 1 ? live : 1);
    int over = cc->u >= SNIC_SOLAR__CC_ETA || cc->stage >= SNIC_SOLAR__CC_STAGES;
    uint64_t w = cc->wc + snic_max_u64(wai, 20);
    if (over && cc->u > 0)
        w = (uint64_t)cc->wc * SNIC_SOLAR__CC_ETA / cc->u + snic_max_u64(wai, 20);
    solar_cc_set(c, &cc->window[0], w);
    if ((int32_t)(ack_seq - cc->round_seq) >= 0) { /* a round trip later */
        cc->stage = over ? 0 : cc->stage + 1;
        cc->wc = cc->window[0];
        cc->round_seq = p->next_seq;
    }
}
