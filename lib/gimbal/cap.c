/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A tenant's own limits, in bytes/s and I/Os per second. Each unit sent is paid for in time: a
 * tenant may send when what it sent before is paid for; a flow of it whose turn comes before is
 * parked on the timer wheel until then. A tenant whose turn came late may catch up as long as one
 * percent of a second and the I/O at hand allow: in any second it sends no more than its limit and
 * one percent of it, or one I/O, whichever is more.
 *
 * I1  A flow's timer is armed if and only if the flow is parked.
 */
#include "gimbal/gimbal_priv.h"

#define SNIC_GIMBAL__CATCH_UP UINT64_C(10000000) /* ns: one percent of a second */

static void cap_fired(struct snic_timer *t, uint64_t now)
{
    (void)t; /* the switch takes expired timers itself */
    (void)now;
}

/* Rounded down by less than 2^-30 of it. */
static void cap_pace(struct gimbal_pace *p, uint64_t per_second)
{
    uint64_t ns = SNIC_GIMBAL__BYTE << 34; /* 1e9 < 2^30 */
    p->shift = 34;
    ns /= per_second;
    uint64_t rest = (SNIC_GIMBAL__BYTE << 34) % per_second;
    while (ns < (uint64_t)1 << 31) {
        ns = ns * 2 + (rest * 2 >= per_second);
        rest = rest * 2 >= per_second ? rest * 2 - per_second : rest * 2;
        p->shift++;
    }
    while (ns > UINT32_MAX) {
        ns >>= 1;
        p->shift--;
    }
    p->mantissa = (uint32_t)ns;
}

/* What was sent stays to be paid for. */
void gimbal_cap_set(struct gimbal_tenant *t, const struct snic_gimbal_tenant_opts *o)
{
    uint64_t limit[2] = {o->bytes_per_second, o->ios_per_second};
    SNIC_ASSERT(limit[0] <= SNIC_GIMBAL__CAP_MAX && limit[1] <= SNIC_GIMBAL__CAP_MAX);
    t->flags &= (uint8_t)~GIMBAL_CAPPED;
    for (unsigned i = 0; i < 2; i++) {
        if (limit[i] == 0) {
            memset(&t->pace[i], 0, sizeof(t->pace[i]));
            continue;
        }
        cap_pace(&t->pace[i], limit[i]);
        t->flags |= GIMBAL_CAPPED;
    }
}

uint64_t gimbal_cap_ready_ns(const struct gimbal_tenant *t)
{
    return snic_max_u64(t->pace[0].free_ns, t->pace[1].free_ns);
}

static void cap_pay(struct gimbal_pace *p, uint32_t units, uint64_t now)
{
    uint64_t cost = (uint64_t)units * p->mantissa; /* below 2^60 */
    uint64_t whole = cost >> p->shift;
    uint64_t part = p->part + (cost << (64 - p->shift));
    uint64_t catch_up = SNIC_GIMBAL__CATCH_UP > whole ? SNIC_GIMBAL__CATCH_UP - whole : 0;
    uint64_t from = now > catch_up ? now - catch_up : 0;
    whole += part < p->part;
    p->part = part;
    p->free_ns = snic_max_u64(p->free_ns, from) + whole;
}

void gimbal_cap_pay(struct gimbal_tenant *t, const struct snic_gimbal_io *io, uint64_t now)
{
    if (t->pace[0].mantissa != 0)
        cap_pay(&t->pace[0], io->size, now);
    if (t->pace[1].mantissa != 0)
        cap_pay(&t->pace[1], 1, now);
}

/* What an I/O costs under both caps, rounded up. */
uint64_t gimbal_cap_cost_ns(const struct gimbal_tenant *t, uint32_t size)
{
    uint64_t cost = 0;
    if (t->pace[0].mantissa != 0)
        cost = ((uint64_t)size * t->pace[0].mantissa >> t->pace[0].shift) + 1;
    if (t->pace[1].mantissa != 0)
        cost = snic_max_u64(cost, ((uint64_t)t->pace[1].mantissa >> t->pace[1].shift) + 1);
    return cost;
}

/*
 * After a change: what was sent under a cap far lower is not owed for longer than the largest I/O
 * costs now. Under the caps that it was sent under, nothing is.
 */
void gimbal_cap_forgive(const struct snic_gimbal *g, struct gimbal_tenant *t)
{
    uint64_t most = g->now_ns + gimbal_cap_cost_ns(t, g->o.size_max);
    for (unsigned i = 0; i < 2; i++)
        t->pace[i].free_ns = snic_min_u64(t->pace[i].free_ns, most);
}

void gimbal_cap_park(struct snic_gimbal *g, struct gimbal_flow *f, uint64_t ready_ns)
{
    if (f->timer.fn == NULL)
        snic_timer_init(&f->timer, cap_fired);
    gimbal_round_quit(g, f, GIMBAL_PARKED);
    snic_wheel_arm(&g->wheel, &f->timer, ready_ns);
    g->timer_ns = snic_min_u64(g->timer_ns, ready_ns);
}

/* The caps have changed: a parked flow may go now. */
void gimbal_cap_unpark(struct snic_gimbal *g, struct gimbal_flow *f)
{
    if (f->where != GIMBAL_PARKED)
        return;
    snic_wheel_cancel(&g->wheel, &f->timer);
    gimbal_round_join(g, f);
}

/* Parked flows whose time has come go to the end of the active list; when is the next one's? */
uint64_t gimbal_cap_expire(struct snic_gimbal *g, uint64_t now)
{
    struct snic_timer *timer;
    while ((timer = snic_wheel_pop(&g->wheel, now)) != NULL)
        gimbal_round_join(g, SNIC_CONTAINER(timer, struct gimbal_flow, timer));
    return snic_wheel_deadline_ns(&g->wheel);
}
