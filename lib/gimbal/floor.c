/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Floors: what a tenant or a group gets at least, in bytes/s or I/Os per second. Each has the time
 * at which its next I/O is due; all that it sends moves that on by what the I/O costs in time. One
 * with I/Os queued that is due is on a list, the lane: its I/Os leave before rounds and before a
 * held I/O, in the order in which they became due.
 *
 * What a tenant gets beyond its floor counts against later floors for SNIC_GIMBAL__FLOOR_AHEAD at
 * most: turns come in bursts. A late tenant catches up on
 * SNIC_GIMBAL_FLOOR_LATE_NS at most, and only for time in which it had I/Os queued.
 *
 * Of the costs of all I/Os sent the lane has at most SNIC_GIMBAL__FLOOR_ODDS of SNIC_GIMBAL__
 * FLOOR_ODDS + 1 while others wait (lane_left). If a floor is late by a quarter of what it may
 * catch up with, the device does not deliver the sum: floor_part, which all floors are multiplied
 * with, falls by a sixteenth a period. While none is late by more than a tenth of that it rises, by
 * a sixty-fourth, and by twice as much in each further period, up to an eighth. So each gets the
 * same part of its floor.
 *
 * Beyond that the lane sends what no turn waits for, and is not charged, or it would owe for that
 * when others come: what passes by the express lane repays nothing.
 *
 * I1  A tenant on the lane (`laned`) has a floor. It may have nothing to send any more, or not be
 *     due: the next poll finds out.
 * I2  A tenant with a floor and I/Os queued is on the lane, or its timer is armed, or what it waits
 *     for offers it again: a completion (no slot), or its next I/O sent (one too large).
 * I3  floor_part is 1..SNIC_GIMBAL_FLOOR_ONE.
 * I4  lane_left is at most SNIC_GIMBAL__FLOOR_ODDS quanta, and owes less than what an I/O costs.
 */
#include "gimbal/gimbal_priv.h"

#define SNIC_GIMBAL__FLOOR_ODDS 7
#define SNIC_GIMBAL__FLOOR_LEAST 256                /* of floor_part */
#define SNIC_GIMBAL__FLOOR_AHEAD UINT64_C(10000000) /* ns: one percent of a second */
#define SNIC_GIMBAL__FLOOR_NETWORK 100000           /* ns */
#define SNIC_GIMBAL__FLOOR_NS_MAX (UINT64_C(1) << 39)

void gimbal_floor_init(struct snic_gimbal *g)
{
    g->floor_part = SNIC_GIMBAL_FLOOR_ONE;
    g->floor_stretch = SNIC_GIMBAL_FLOOR_ONE;
    g->floor_ns = g->now_ns;
    g->floor_rise = 6;
    g->lane_left = (int64_t)SNIC_GIMBAL__FLOOR_ODDS * g->o.quantum_bytes;
}

/* ---- The lane ---- */

static void floor_append(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    t->laned = 1;
    t->lane_next = NULL;
    t->lane_prev = g->lane_last;
    if (g->lane_last == NULL)
        g->lane_first = t;
    else
        g->lane_last->lane_next = t;
    g->lane_last = t;
}

static void floor_remove(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    if (!t->laned)
        return;
    t->laned = 0;
    if (t->lane_prev == NULL)
        g->lane_first = t->lane_next;
    else
        t->lane_prev->lane_next = t->lane_next;
    if (t->lane_next == NULL)
        g->lane_last = t->lane_prev;
    else
        t->lane_next->lane_prev = t->lane_prev;
}

static uint64_t floor_due_ns(const struct gimbal_tenant *t)
{
    uint64_t due = SNIC_NEVER;
    for (unsigned i = 0; i < 2; i++) {
        if (t->floor[i].mantissa != 0)
            due = snic_min_u64(due, t->floor[i].free_ns);
    }
    return due;
}

static void floor_arm(struct snic_gimbal *g, struct gimbal_tenant *t, uint64_t at)
{
    struct snic_timer *timer = &t->floor_timer;
    if (timer->fn == NULL)
        snic_timer_init(timer, gimbal_floor_fired);
    if (timer->armed && timer->deadline_ns <= at)
        return; /* it finds out then */
    if (timer->armed)
        snic_wheel_cancel(&g->wheel, timer);
    snic_wheel_arm(&g->wheel, timer, at);
    g->timer_ns = snic_min_u64(g->timer_ns, at);
}

/* Its kind of timer; the switch takes expired ones itself. */
void gimbal_floor_fired(struct snic_timer *timer, uint64_t now)
{
    (void)timer;
    (void)now;
}

static int floor_queued(const struct gimbal_tenant *t)
{
    return t->flow[0].queued + t->flow[1].queued > 0;
}

/* It may be due: to the lane, or a timer. */
void gimbal_floor_offer(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    if ((t->flags & GIMBAL_FLOORED) == 0 || t->laned || !floor_queued(t))
        return;
    uint64_t due = floor_due_ns(t);
    if (due <= g->now_ns)
        floor_append(g, t);
    else
        floor_arm(g, t, due);
}

/* It is not late: for what follows, nothing is owed to it. */
static void floor_waive(struct gimbal_tenant *t, uint64_t now)
{
    for (unsigned i = 0; i < 2; i++)
        t->floor[i].free_ns = snic_max_u64(t->floor[i].free_ns, now);
}

/* So many I/Os were queued just now. If it has no others, time without I/Os is not made up for, but
 * for a hundredth of a second: a client that has all that it may have on the device is not idle. */
void gimbal_floor_begin(struct snic_gimbal *g, struct gimbal_tenant *t, uint32_t queued)
{
    if ((t->flags & GIMBAL_FLOORED) == 0)
        return;
    if (t->flow[0].queued + t->flow[1].queued == queued)
        floor_waive(t, g->now_ns - snic_min_u64(g->now_ns, SNIC_GIMBAL__FLOOR_AHEAD));
    gimbal_floor_offer(g, t);
}

/* When may the I/O of the flow go for its tenant's own caps, or a timer of them? */
static uint64_t floor_own_ns(const struct snic_gimbal *g, const struct gimbal_flow *f,
                             const struct snic_gimbal_io *io)
{
    uint64_t ready = f->where == GIMBAL_PARKED ? f->timer.deadline_ns : 0;
    if ((f->tenant->flags & GIMBAL_CAPPED) != 0)
        ready = snic_max_u64(ready, gimbal_cap_ready_ns(f->tenant, io, g->now_ns));
    return ready;
}

/* And for those of its group, whose flow is @c? A parked one need not wait for its timer. */
static uint64_t floor_group_ns(const struct snic_gimbal *g, const struct gimbal_flow *c,
                               const struct snic_gimbal_io *io)
{
    if ((c->tenant->flags & (GIMBAL_CAPPED | GIMBAL_GROUP)) != (GIMBAL_CAPPED | GIMBAL_GROUP))
        return 0;
    return gimbal_cap_ready_ns(c->tenant, io, g->now_ns);
}

/* The carrying flow has an open slot, beyond its share if need be; it takes turns again, then. */
static int floor_slot(struct snic_gimbal *g, struct gimbal_flow *c)
{
    if (!gimbal_slot_open(g, c) && !gimbal_slot_more(c))
        return 0;
    if (c->where == GIMBAL_DEFERRED) {
        gimbal_list_remove(g, &g->deferred, c);
        gimbal_round_join(g, c);
    }
    gimbal_cap_unpark(g, c); /* a group's: it waits for what another I/O takes */
    return 1;
}

/* What it has for the lane, in turn of its reads and its writes; NULL: nothing. */
static struct snic_gimbal_io *floor_head(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    uint64_t capped_ns = SNIC_NEVER;
    uint64_t waive_ns = SNIC_NEVER; /* its own caps */
    int large = 0;
    for (unsigned k = 0; k < 2; k++) {
        struct gimbal_flow *f = &t->flow[t->floor_op ^ 1 ^ k];
        if (f->queued == 0 || f->ready == 0)
            continue;
        struct snic_gimbal_io *io = gimbal_flow_head(f);
        struct gimbal_flow *owner = gimbal_flow_of(g, io);
        struct gimbal_flow *c = gimbal_carrier(owner);
        uint64_t own_ns = floor_own_ns(g, owner, io);
        uint64_t until_ns = snic_max_u64(own_ns, floor_group_ns(g, c, io));
        if (until_ns > g->now_ns) {
            capped_ns = snic_min_u64(capped_ns, until_ns);
            waive_ns = snic_min_u64(waive_ns, own_ns);
        } else if (io->size > g->o.bucket_bytes) {
            large = 1;
        } else if (io == g->held || floor_slot(g, c)) {
            return io;
        }
    }
    if (capped_ns != SNIC_NEVER) {
        floor_waive(t, waive_ns);
        floor_arm(g, t, capped_ns);
        t->floor_capped = floor_due_ns(t) < capped_ns;
    } else if (large) {
        floor_waive(t, g->now_ns);
    }
    return NULL;
}

/* The next I/O of the lane, which lacks tokens at most; NULL: none. */
struct snic_gimbal_io *gimbal_floor_next(struct snic_gimbal *g)
{
    while (g->lane_first != NULL) {
        struct gimbal_tenant *t = g->lane_first;
        uint64_t due = floor_due_ns(t);
        if (due <= g->now_ns && floor_queued(t)) {
            struct snic_gimbal_io *io = floor_head(g, t);
            if (io != NULL)
                return io;
            floor_remove(g, t);
        } else {
            floor_remove(g, t);
            gimbal_floor_offer(g, t);
        }
    }
    return NULL;
}

/* ---- What is sent ---- */

/* What so many units cost in time, of the part of the floor that holds. */
static uint64_t floor_cost(const struct snic_gimbal *g, const struct gimbal_pace *p, uint32_t units)
{
    uint64_t whole = snic_min_u64(gimbal_cap_time(p, units), SNIC_GIMBAL__FLOOR_NS_MAX);
    return whole * g->floor_stretch / SNIC_GIMBAL_FLOOR_ONE;
}

/* The tenant, or group, has sent the I/O; it may be due again. */
void gimbal_floor_pay(struct snic_gimbal *g, struct gimbal_tenant *t,
                      const struct snic_gimbal_io *io)
{
    uint64_t now = g->now_ns;
    uint64_t from = now > SNIC_GIMBAL_FLOOR_LATE_NS ? now - SNIC_GIMBAL_FLOOR_LATE_NS : 0;
    uint64_t ahead = now + SNIC_GIMBAL__FLOOR_AHEAD;
    if ((t->flags & GIMBAL_FLOORED) == 0)
        return;
    for (unsigned i = 0; i < 2; i++) {
        struct gimbal_pace *p = &t->floor[i];
        if (p->mantissa != 0)
            p->free_ns = snic_min_u64(snic_max_u64(p->free_ns, from), ahead) +
                         floor_cost(g, p, i == 0 ? io->size : 1);
    }
    if (floor_due_ns(t) >= now)
        t->floor_capped = 0;
    gimbal_floor_offer(g, t);
}

/* The lane is about to send the I/O, carried by @c, of the tenant in front. */
void gimbal_floor_sent(struct snic_gimbal *g, struct gimbal_flow *c,
                       const struct snic_gimbal_io *io)
{
    struct gimbal_tenant *t = g->lane_first;
    uint64_t due = floor_due_ns(t);
    if (!t->floor_capped)
        g->floor_late_ns = snic_max_u64(g->floor_late_ns, g->now_ns - due);
    g->floor_ios++;
    t->floor_ios++;
    t->floor_op = io->op;
    g->lane_left -= io->weighted;
    c->debt = (uint32_t)snic_min_u64((uint64_t)c->debt + io->weighted, g->o.quantum_bytes);
    floor_remove(g, t);
}

/* Turns have sent so much: the lane may send more. */
void gimbal_floor_turn(struct snic_gimbal *g, uint32_t weighted)
{
    int64_t most = (int64_t)SNIC_GIMBAL__FLOOR_ODDS * g->o.quantum_bytes;
    g->lane_left += (int64_t)SNIC_GIMBAL__FLOOR_ODDS * weighted;
    if (g->lane_left > most)
        g->lane_left = most;
}

/* What an I/O like this one takes of the floor's time, the shortest of both kinds; 0: no floor. */
static uint64_t floor_time(const struct gimbal_tenant *t, const struct snic_gimbal_io *io)
{
    uint64_t time = 0;
    for (unsigned i = 0; i < 2; i++) {
        const struct gimbal_pace *p = &t->floor[i];
        uint64_t one = gimbal_cap_time(p, i == 0 ? io->size : 1);
        if (p->mantissa != 0 && (time == 0 || one < time))
            time = one > 0 ? one : 1;
    }
    return time;
}

/* How many I/Os like this one, which has completed, a client needs out to get its floor: twice what
 * the time on the device, and some on a network, take. Falls slowly: latencies vary. */
static uint32_t floor_out(const struct snic_gimbal *g, struct gimbal_tenant *t,
                          const struct snic_gimbal_io *io)
{
    uint64_t time = floor_time(t, io);
    if (time == 0)
        return 0;
    uint64_t out = 2 * (g->now_ns - io->sent_ns + SNIC_GIMBAL__FLOOR_NETWORK);
    /* The one 32-bit division: below 2^9 ns exactly enough, above to one part in 2^7. */
    unsigned shift = time >> 8 != 0 ? 56 - (unsigned)__builtin_clzll(time) : 0;
    out = snic_min_u64(out >> shift, UINT32_MAX);
    out = (uint32_t)out / (uint32_t)(time >> shift) + 1;
    out = snic_max_u64(out, t->floor_out - (t->floor_out + 255) / 256);
    t->floor_out = (uint32_t)snic_min_u64(out, SNIC_GIMBAL_QUEUE_MAX);
    return t->floor_out;
}

/* The credit that goes with the completed I/O, for the floors of its tenant and of its group. */
uint32_t gimbal_floor_credit(const struct snic_gimbal *g, struct gimbal_tenant *t,
                             const struct snic_gimbal_io *io)
{
    uint64_t out = floor_out(g, t, io);
    struct gimbal_tenant *group = t->group;
    if (group != NULL && (group->flags & GIMBAL_FLOORED) != 0) {
        uint32_t all = floor_out(g, group, io);
        if (group->busy_weight > t->weight) /* below 2^29 */
            all = (all * t->weight + group->busy_weight - 1) / group->busy_weight;
        out = snic_max_u64(out, all);
    }
    return (uint32_t)snic_min_u64(out, g->o.queue_max);
}

/* Once a period: does the device deliver what the floors add up to? */
void gimbal_floor_adapt(struct snic_gimbal *g)
{
    uint64_t late_ns = g->floor_late_ns;
    uint32_t part = g->floor_part;
    if (g->floors == 0 || g->now_ns < g->floor_ns)
        return;
    g->floor_ns = g->now_ns + g->o.cost_period_ns;
    g->floor_late_ns = 0;
    if (g->lane_first != NULL && !g->lane_first->floor_capped &&
        floor_due_ns(g->lane_first) < g->now_ns)
        late_ns = snic_max_u64(late_ns, g->now_ns - floor_due_ns(g->lane_first));
    if (late_ns >= SNIC_GIMBAL_FLOOR_LATE_NS / 4) {
        part -= part / 16;
        g->floor_rise = 6;
    } else if (late_ns >= SNIC_GIMBAL_FLOOR_LATE_NS / 40) {
        g->floor_rise = 6;
    } else {
        part += part >> g->floor_rise;
        g->floor_rise -= g->floor_rise > 3;
    }
    part = (uint32_t)snic_max_u64(part, SNIC_GIMBAL__FLOOR_LEAST);
    g->floor_part = (uint32_t)snic_min_u64(part, SNIC_GIMBAL_FLOOR_ONE); /* I3 */
    g->floor_stretch = UINT32_MAX / g->floor_part + (g->floor_part == SNIC_GIMBAL_FLOOR_ONE);
}

/* ---- Options and views ---- */

void gimbal_floor_set(struct snic_gimbal *g, struct gimbal_tenant *t,
                      const struct snic_gimbal_tenant_opts *o)
{
    uint64_t floors[2] = {o->floor_bytes_per_second, o->floor_ios_per_second};
    floor_remove(g, t);
    if (t->floor_timer.armed)
        snic_wheel_cancel(&g->wheel, &t->floor_timer);
    g->floors -= (t->flags & GIMBAL_FLOORED) != 0;
    t->flags &= (uint8_t)~GIMBAL_FLOORED;
    for (unsigned i = 0; i < 2; i++) {
        struct gimbal_pace *p = &t->floor[i];
        uint64_t due = p->mantissa != 0 ? snic_min_u64(p->free_ns, g->now_ns) : g->now_ns;
        memset(p, 0, sizeof(*p));
        if (floors[i] == 0)
            continue;
        p->free_ns = due;
        p->limit = floors[i];
        gimbal_cap_pace(p, floors[i]);
        t->flags |= GIMBAL_FLOORED;
    }
    g->floors += (t->flags & GIMBAL_FLOORED) != 0;
    if (g->floors == 0)
        g->floor_part = g->floor_stretch = SNIC_GIMBAL_FLOOR_ONE;
    gimbal_floor_offer(g, t);
}

/* The floor that holds now. */
uint64_t gimbal_floor_now(const struct snic_gimbal *g, const struct gimbal_pace *p)
{
    return p->limit * g->floor_part / SNIC_GIMBAL_FLOOR_ONE; /* below 2^57 */
}

int gimbal_floor_late(const struct snic_gimbal *g, const struct gimbal_tenant *t)
{
    return (t->flags & GIMBAL_FLOORED) != 0 && floor_queued(t) && floor_due_ns(t) < g->now_ns;
}

int gimbal_floor_check(const struct snic_gimbal *g)
{
    uint32_t listed = 0;
    uint32_t floors = 0;
    const struct gimbal_tenant *before = NULL;
    for (const struct gimbal_tenant *t = g->lane_first; t != NULL; t = t->lane_next) {
        if (++listed > g->objects || !t->laned || (t->flags & GIMBAL_FLOORED) == 0 ||
            t->lane_prev != before)
            return SNIC_ECORRUPT; /* I1 */
        before = t;
    }
    if (g->lane_last != before)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < g->objects; i++) {
        const struct gimbal_tenant *t = &g->tenants[i];
        floors += (t->flags & GIMBAL_FLOORED) != 0;
        listed -= t->laned;
        if ((t->flags & GIMBAL_FLOORED) != 0 && floor_queued(t) && !t->laned &&
            floor_due_ns(t) > g->now_ns && !t->floor_timer.armed)
            return SNIC_ECORRUPT; /* I2 */
    }
    if (g->floor_part == 0 || g->floor_part > SNIC_GIMBAL_FLOOR_ONE)
        return SNIC_ECORRUPT; /* I3 */
    uint64_t largest = (uint64_t)g->o.size_max * g->o.write_cost_worst / SNIC_GIMBAL_COST_ONE;
    if (g->lane_left > (int64_t)SNIC_GIMBAL__FLOOR_ODDS * g->o.quantum_bytes ||
        g->lane_left <= -(int64_t)largest)
        return SNIC_ECORRUPT; /* I4 */
    return listed == 0 && floors == g->floors ? 0 : SNIC_ECORRUPT;
}
