/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A tenant's own limits, or a group's, in bytes/s and I/Os per second: a bucket of time each, of a
 * hundredth of a second. An I/O takes the time that it costs; it may go when the bucket holds that
 * time, or is full. So in any second no more is sent than the limit and one percent of it, or one
 * I/O, whichever is more, and a tenant whose turn comes late catches up on the same. A flow whose
 * turn comes before is parked on the timer wheel.
 *
 * What a tenant's smallest I/Os wait for is what its largest of the same second does (`reach`):
 * otherwise small ones would take the time that a large one waits for, for ever. And of its reads
 * and writes, parked until the same time, the one that sent last comes second. In a group whose
 * turn it is decides (group.c): an I/O waits for what it takes itself, and leaves in the bucket
 * what one before it waits for. So a tenant whose queue is empty for a moment loses nothing by
 * that: a large I/O of another has to wait, which takes longer.
 *
 * I1  A flow's timer is armed if and only if the flow is parked.
 * I2  free_ns is when the bucket is full again, if nothing is sent: it lacks the time until then.
 *     What it lacks beyond its size is owed, for one I/O at most.
 */
#include "gimbal/gimbal_priv.h"

__extension__ typedef __int128 cap_wide;

void gimbal_cap_fired(struct snic_timer *t, uint64_t now)
{
    (void)t; /* the switch takes expired timers itself */
    (void)now;
}

/* Rounded down by less than 2^-30 of it. */
void gimbal_cap_pace(struct gimbal_pace *p, uint64_t per_second)
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

/* What so many units cost, in ns, rounded down. */
uint64_t gimbal_cap_time(const struct gimbal_pace *p, uint32_t units)
{
    return (uint64_t)units * p->mantissa >> p->shift;
}

/*
 * What is owed, or saved, under the last limit is so many units under the next: changed often, it
 * gives no more and no less than a limit that stays. What is below 1 ns now is kept for the next
 * change.
 */
static void cap_change(struct gimbal_pace *p, uint64_t limit, uint64_t now, uint32_t units_max)
{
    uint64_t empty = now + SNIC_GIMBAL__CATCH_UP;
    int64_t ns = (int64_t)(snic_max_u64(p->free_ns, now) - empty);
    cap_wide units = (cap_wide)ns * (cap_wide)p->limit + (cap_wide)p->rest;
    cap_wide most = (cap_wide)units_max * SNIC_GIMBAL__BYTE; /* I2 */
    cap_wide least = -(cap_wide)limit * SNIC_GIMBAL__CATCH_UP;
    units = units > most ? most : units < least ? least : units;
    cap_wide owed = units - least; /* beyond a full bucket */
    p->rest = (uint64_t)(owed % (cap_wide)limit);
    p->free_ns = now + (uint64_t)(owed / (cap_wide)limit);
}

/* A tenant that is new begins with a full bucket. */
void gimbal_cap_set(struct gimbal_tenant *t, const struct snic_gimbal_tenant_opts *o, uint64_t now,
                    uint32_t size_max)
{
    uint64_t limit[2] = {o->bytes_per_second, o->ios_per_second};
    SNIC_ASSERT(limit[0] <= SNIC_GIMBAL__CAP_MAX && limit[1] <= SNIC_GIMBAL__CAP_MAX);
    t->flags &= (uint8_t)~GIMBAL_CAPPED;
    for (unsigned i = 0; i < 2; i++) {
        struct gimbal_pace *p = &t->pace[i];
        p->reach_ns = 0;
        if (limit[i] == 0) {
            p->mantissa = 0; /* what is owed stays: the cap may come back */
            continue;
        }
        if ((t->flags & GIMBAL_ADDED) != 0 && p->limit != 0)
            cap_change(p, limit[i], now, i == 0 ? size_max : 1);
        else if ((t->flags & GIMBAL_ADDED) != 0)
            p->free_ns = now + SNIC_GIMBAL__CATCH_UP;
        p->limit = limit[i];
        gimbal_cap_pace(p, limit[i]);
        t->flags |= GIMBAL_CAPPED;
    }
    t->inner_io = 1;
    if (limit[1] != 0) /* of both caps the one that an I/O takes more time of */
        t->inner_io =
            (uint32_t)snic_min_u64(limit[0] != 0 ? limit[0] / limit[1] + 1 : 4096, size_max);
}

static uint64_t cap_ready(struct gimbal_pace *p, uint32_t units, uint64_t now, int group)
{
    if (p->mantissa == 0)
        return 0;
    if (group || now - p->reach_from_ns >= SNIC_GIMBAL__BYTE) { /* a second */
        p->reach_from_ns = now;
        p->reach_ns = 0;
    }
    uint64_t need = snic_min_u64(gimbal_cap_time(p, units), SNIC_GIMBAL__CATCH_UP);
    p->reach_ns = snic_max_u64(p->reach_ns, need);
    uint64_t less = SNIC_GIMBAL__CATCH_UP - p->reach_ns;
    return p->free_ns > less ? p->free_ns - less : 0;
}

uint64_t gimbal_cap_ready_ns(struct gimbal_tenant *t, const struct snic_gimbal_io *io, uint64_t now)
{
    int group = (t->flags & GIMBAL_GROUP) != 0;
    return snic_max_u64(cap_ready(&t->pace[0], io->size, now, group),
                        cap_ready(&t->pace[1], 1, now, group));
}

static void cap_pay(struct gimbal_pace *p, uint32_t units, uint64_t now)
{
    uint64_t cost = (uint64_t)units * p->mantissa; /* below 2^60 */
    uint64_t whole = cost >> p->shift;
    uint64_t part = p->part + (cost << (64 - p->shift));
    whole += part < p->part;
    p->part = part;
    p->free_ns = snic_max_u64(p->free_ns, now) + whole; /* I2 */
}

void gimbal_cap_pay(struct gimbal_tenant *t, const struct snic_gimbal_io *io, uint64_t now)
{
    t->capped_op = io->op;
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

void gimbal_cap_park(struct snic_gimbal *g, struct gimbal_flow *f, uint64_t ready_ns)
{
    if (f->timer.fn == NULL)
        snic_timer_init(&f->timer, gimbal_cap_fired);
    if (f->tenant->capped_op == f->op && gimbal_flow_sibling(f)->ready != 0)
        ready_ns++; /* the other one first */
    gimbal_round_quit(g, f, GIMBAL_PARKED);
    snic_wheel_arm(&g->wheel, &f->timer, ready_ns);
    g->timer_ns = snic_min_u64(g->timer_ns, ready_ns);
}

/* Of a group's flow: a tenant in front whose own caps do not let it go is parked. */
void gimbal_cap_members(struct snic_gimbal *g, struct gimbal_flow *c)
{
    struct gimbal_flow *f;
    while ((f = gimbal_inner_next(c)) != NULL && (f->tenant->flags & GIMBAL_CAPPED) != 0) {
        uint64_t ready_ns = gimbal_cap_ready_ns(f->tenant, gimbal_flow_head(f), g->now_ns);
        if (ready_ns <= g->now_ns)
            return;
        gimbal_group_leave(f);
        gimbal_cap_park(g, f, ready_ns);
    }
}

/* The caps have changed: a parked flow may go now. */
void gimbal_cap_unpark(struct snic_gimbal *g, struct gimbal_flow *f)
{
    if (f->where != GIMBAL_PARKED)
        return;
    snic_wheel_cancel(&g->wheel, &f->timer);
    gimbal_group_join(g, f);
}
