/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The switch follows its learner: what was learned becomes thresholds, worst write cost, slots and
 * ceiling, unless the options set them.
 *
 * I1  What the options set never changes.
 * I2  While the learner wants quiet, nothing is sent beside an I/O that is on the device; lost ones
 *     do not count.
 */
#include "gimbal/gimbal_priv.h"

/* What is learned raises the default thresholds and never lowers them: a fast device that pauses,
 * or answers some reads from memory, would be held far below its rate. */
#define SNIC_GIMBAL__THRESH_MIN_NS UINT64_C(250000)
#define SNIC_GIMBAL__THRESH_MAX_NS UINT64_C(1500000)
/* A change of less than 2^-n is none: the parameters do not jitter. */
#define SNIC_GIMBAL__STEADY 4

static void tune_field(uint64_t *to, uint64_t set, uint64_t learned)
{
    *to = set != 0 ? set : learned;
}

/* What the switch should use now. */
static void tune_wanted(const struct snic_gimbal *g, struct gimbal_tuning *t)
{
    const struct gimbal_tuning *set = &g->set;
    gimbal_learn_tune(&g->learn.known, g->o.slot_bytes, t);
    t->thresh_min_ns = snic_max_u64(t->thresh_min_ns, SNIC_GIMBAL__THRESH_MIN_NS);
    t->thresh_max_ns = snic_max_u64(t->thresh_max_ns, SNIC_GIMBAL__THRESH_MAX_NS);
    tune_field(&t->thresh_min_ns, set->thresh_min_ns, t->thresh_min_ns);
    tune_field(&t->thresh_max_ns, set->thresh_max_ns, t->thresh_max_ns);
    tune_field(&t->rate_max, set->rate_max, t->rate_max);
    if (set->write_cost_worst != 0)
        t->write_cost_worst = set->write_cost_worst;
    if (set->slot_threshold != 0)
        t->slot_threshold = set->slot_threshold;
    /* One is set, and what was learned of the other is beyond it. */
    if (t->thresh_min_ns >= t->thresh_max_ns) {
        if (set->thresh_max_ns != 0)
            t->thresh_min_ns = t->thresh_max_ns - 1;
        else
            t->thresh_max_ns = 6 * t->thresh_min_ns;
    }
    t->rate_max = snic_max_u64(t->rate_max, snic_max_u64(g->o.rate_start, g->o.rate_min));
}

static int tune_differs(uint64_t a, uint64_t b)
{
    uint64_t more = snic_max_u64(a, b);
    return more - snic_min_u64(a, b) > more >> SNIC_GIMBAL__STEADY;
}

static void tune_apply(struct snic_gimbal *g)
{
    struct gimbal_tuning t;
    tune_wanted(g, &t);
    if (!tune_differs(t.thresh_min_ns, g->o.thresh_min_ns) &&
        !tune_differs(t.thresh_max_ns, g->o.thresh_max_ns) &&
        !tune_differs(t.rate_max, g->o.rate_max) && t.slot_threshold == g->o.slot_threshold &&
        !tune_differs(t.write_cost_worst, g->o.write_cost_worst))
        return;
    g->o.thresh_min_ns = t.thresh_min_ns;
    g->o.thresh_max_ns = t.thresh_max_ns;
    g->o.rate_max = t.rate_max;
    g->o.slot_threshold = t.slot_threshold;
    g->o.write_cost_worst = t.write_cost_worst;
    g->tuned_ns = g->now_ns;
    g->tunings++;
    if (g->write_cost > t.write_cost_worst) {
        g->write_cost = t.write_cost_worst;
        gimbal_bucket_share(g);
    }
    gimbal_congestion_limits(g);
    gimbal_slot_share(g);
}

void gimbal_tune_init(struct snic_gimbal *g, const struct snic_gimbal_opts *o)
{
    struct snic_gimbal_opts in = {0};
    if (!gimbal_learns(g) || snic_opts_copy(&in, (uint32_t)sizeof(in), o) != 0)
        return;
    g->set.thresh_min_ns = in.thresh_min_ns;
    g->set.thresh_max_ns = in.thresh_max_ns;
    g->set.rate_max = in.rate_max;
    g->set.write_cost_worst = in.write_cost_worst;
    g->set.slot_threshold = in.slot_threshold;
    gimbal_learn_init(&g->learn, g->now_ns);
}

void gimbal_tune_done(struct snic_gimbal *g, const struct snic_gimbal_io *io, int timed)
{
    if (g->held != NULL)
        g->learn.span_held = 1;
    gimbal_learn_done(&g->learn, io, timed, g->inflight - g->lost, g->now_ns);
    if (gimbal_learn_poll(&g->learn))
        tune_apply(g);
}

/* 1: poll sends nothing now. It has set its deadline. */
int gimbal_tune_quiet(struct snic_gimbal *g)
{
    if (!gimbal_learn_quiet(&g->learn, g->now_ns) || g->inflight - g->lost == 0)
        return 0;
    g->deadline_ns = snic_min_u64(g->timer_ns, gimbal_learn_deadline_ns(&g->learn));
    return 1;
}

int snic_gimbal_profile_set(struct snic_gimbal *g, const struct snic_gimbal_profile *p)
{
    if (!gimbal_learns(g))
        return SNIC_EINVAL;
    int r = gimbal_learn_load(&g->learn, p);
    if (r == 0 && gimbal_learn_poll(&g->learn))
        tune_apply(g);
    return r;
}

void snic_gimbal_get_learned(const struct snic_gimbal *g, struct snic_gimbal_learned *out)
{
    const struct gimbal_learn *l = &g->learn;
    memset(out, 0, sizeof(*out));
    out->profile = l->known;
    out->profile.opts_size = sizeof(out->profile);
    out->thresh_min_ns = g->o.thresh_min_ns;
    out->thresh_max_ns = g->o.thresh_max_ns;
    out->rate_max = g->o.rate_max;
    out->write_cost_worst = g->o.write_cost_worst;
    out->slot_threshold = g->o.slot_threshold;
    out->changed_ns = g->tuned_ns;
    out->changes = g->tunings;
    out->batches = l->batches;
    out->quiets = l->quiets;
    out->stored = !l->firm && (l->known.read_ns != 0 || l->known.write_ns != 0);
}

int gimbal_tune_check(const struct snic_gimbal *g)
{
    const struct gimbal_tuning *set = &g->set;
    if (!gimbal_learns(g))
        return 0;
    if ((set->thresh_min_ns != 0 && set->thresh_min_ns != g->o.thresh_min_ns) ||
        (set->thresh_max_ns != 0 && set->thresh_max_ns != g->o.thresh_max_ns) ||
        (set->rate_max != 0 && set->rate_max != g->o.rate_max) ||
        (set->write_cost_worst != 0 && set->write_cost_worst != g->o.write_cost_worst) ||
        (set->slot_threshold != 0 && set->slot_threshold != g->o.slot_threshold))
        return SNIC_ECORRUPT; /* I1 */
    return g->o.thresh_min_ns < g->o.thresh_max_ns ? gimbal_learn_check(&g->learn) : SNIC_ECORRUPT;
}
