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
 * A tenant whose group's caps do not hold what its I/O takes waits for them in the group's heap, by
 * when it is due: the caps' time is that of the first, whatever the others' I/Os take, also those
 * that are sent by turns (group.c). So if the floors of a group's tenants exceed its caps, each
 * gets the same part of its floor. Then all become later without end: as soon as the first is later
 * than a tenant may be, the clock by which the group's tenants are due is slowed, which keeps them
 * apart as they are. To be late for that is no reason to cut floors.
 *
 * I1  A tenant on the lane (`laned`) has a floor. It may have nothing to send any more, or not be
 *     due: the next poll finds out.
 * I2  A tenant with a floor and I/Os queued is on the lane, or waits for its group's caps, or its
 *     timer is armed, or what it waits for offers it again: a completion (no slot), or its next I/O
 *     sent (one too large; of a group whose tenants wait, theirs).
 * I3  floor_part is 1..SNIC_GIMBAL_FLOOR_ONE.
 * I4  lane_left is at most SNIC_GIMBAL__FLOOR_ODDS quanta, and owes less than what an I/O costs.
 * I5  A tenant that waits (`floor_waits`) has a floor, I/Os queued and a group, whose heap it is in
 *     by when it is due. The first one of that is on the lane, or the group's timer is armed until
 *     the caps let it go, or earlier.
 * I6  Of a tenant in a group "due" is by the group's clock, which is now_ns less floor_slow_ns.
 */
#include "gimbal/gimbal_priv.h"

#define SNIC_GIMBAL__FLOOR_ODDS 7
#define SNIC_GIMBAL__FLOOR_LEAST 256                /* of floor_part */
#define SNIC_GIMBAL__FLOOR_AHEAD UINT64_C(10000000) /* ns: one percent of a second */
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

static void floor_unlane(struct snic_gimbal *g, struct gimbal_tenant *t)
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

static uint64_t floor_due_ns(const struct gimbal_tenant *t)
{
    uint64_t due = SNIC_NEVER;
    for (unsigned i = 0; i < 2; i++) {
        if (t->floor[i].mantissa != 0)
            due = snic_min_u64(due, t->floor[i].free_ns);
    }
    return due;
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

/* By how much the tenant's clock is slow. */
static uint64_t floor_slow_ns(const struct gimbal_tenant *t)
{
    return t->group != NULL ? t->group->floor_slow_ns : 0;
}

/* The time by the tenant's clock. */
static uint64_t floor_clock(const struct snic_gimbal *g, const struct gimbal_tenant *t)
{
    return g->now_ns - floor_slow_ns(t); /* I6 */
}

/* It may be due: to the lane, or a timer. */
void gimbal_floor_offer(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    if ((t->flags & GIMBAL_FLOORED) == 0 || t->laned || t->floor_waits || !floor_queued(t))
        return;
    uint64_t due = floor_due_ns(t);
    if (due <= floor_clock(g, t))
        floor_append(g, t);
    else
        floor_arm(g, t, due + floor_slow_ns(t));
}

/* It is not late: for what follows, nothing is owed to it. */
static void floor_waive(struct gimbal_tenant *t, uint64_t clock)
{
    for (unsigned i = 0; i < 2; i++)
        t->floor[i].free_ns = snic_max_u64(t->floor[i].free_ns, clock);
}

/* ---- Waiting for the caps of a group ---- */

/* The group's first tenant that waits may be sent, or something else has become of it: the lane
 * finds out. Without any, the group itself is next. */
static void floor_wake(struct snic_gimbal *g, struct gimbal_tenant *group)
{
    struct gimbal_tenant *first = gimbal_floor_first(group);
    if (first == NULL)
        gimbal_floor_offer(g, group);
    else if (!first->laned)
        floor_append(g, first);
}

/* By as much as the caps keep the first one beyond what may be made up for, the clock of all is
 * slowed (I6). */
static void floor_slow(const struct snic_gimbal *g, struct gimbal_tenant *group)
{
    const struct gimbal_tenant *first = gimbal_floor_first(group);
    uint64_t late = g->now_ns - group->floor_slow_ns;
    if (first == NULL || late <= first->floor_node.key + SNIC_GIMBAL_FLOOR_LATE_NS)
        return;
    group->floor_slow_ns += late - first->floor_node.key - SNIC_GIMBAL_FLOOR_LATE_NS;
}

static void floor_unwait(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    if (!t->floor_waits)
        return;
    t->floor_waits = 0;
    t->floor_capped_ns = g->now_ns;
    gimbal_heap_remove(&t->group->floor_root, &t->floor_node);
    floor_wake(g, t->group);
}

/* It waits until @at, unless another of its group that waits is due before; SNIC_NEVER: one is. */
static void floor_wait(struct snic_gimbal *g, struct gimbal_tenant *t, uint64_t at)
{
    struct gimbal_tenant *group = t->group;
    floor_slow(g, group);
    uint64_t clock = floor_clock(g, t);
    floor_waive(t, clock - snic_min_u64(clock, SNIC_GIMBAL_FLOOR_LATE_NS));
    uint64_t due = floor_due_ns(t);
    if (t->floor_waits && t->floor_node.key != due) {
        gimbal_heap_remove(&group->floor_root, &t->floor_node);
        t->floor_waits = 0;
    }
    if (!t->floor_waits) { /* else it stays first: of two due at the same time, each could be */
        t->floor_waits = 1;
        t->floor_node.key = due;
        gimbal_heap_insert(&group->floor_root, &t->floor_node);
    }
    if (group->floor_root == &t->floor_node && at != SNIC_NEVER) {
        group->floor_wait_ns = at;
        floor_arm(g, group, at);
    } else {
        floor_wake(g, group);
    }
}

/* Another of its group, which is due before, waits for the group's caps. */
static int floor_behind(const struct gimbal_tenant *t)
{
    const struct gimbal_node *root = t->group != NULL ? t->group->floor_root : t->floor_root;
    return root != NULL && root != &t->floor_node &&
           (t->group == NULL || !gimbal_key_before(floor_due_ns(t), root->key));
}

/* Its timer, or that of those of its tenants that wait. */
void gimbal_floor_expired(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    gimbal_floor_offer(g, t);
    if (t->floor_root != NULL && t->floor_wait_ns > g->now_ns)
        floor_arm(g, t, t->floor_wait_ns);
    else if (t->floor_root != NULL)
        floor_wake(g, t);
}

/* An I/O of the tenant was cancelled: it, or another, may need less of the caps now. */
void gimbal_floor_cancelled(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    if (!floor_queued(t))
        floor_unwait(g, t);
    else if (t->floor_waits)
        floor_wake(g, t->group);
}

static void floor_remove(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    floor_unlane(g, t);
    floor_unwait(g, t);
}

/* The tenant is about to leave its group for that one: another clock. Each may be NULL. */
void gimbal_floor_move(struct snic_gimbal *g, struct gimbal_tenant *t,
                       const struct gimbal_tenant *to)
{
    uint64_t slow = to != NULL ? to->floor_slow_ns : 0;
    floor_remove(g, t);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t due = t->floor[i].free_ns + floor_slow_ns(t);
        t->floor[i].free_ns = due - snic_min_u64(due, slow);
    }
}

/* So many I/Os were queued just now. If it has no others, time without I/Os is not made up for, but
 * for a hundredth of a second: a client that has all that it may have on the device is not idle.
 * While others of its group are late for the caps it is no less late than the first of them, but
 * for that. */
void gimbal_floor_begin(struct snic_gimbal *g, struct gimbal_tenant *t, uint32_t queued)
{
    if ((t->flags & GIMBAL_FLOORED) == 0)
        return;
    if (t->flow[0].queued + t->flow[1].queued == queued) {
        uint64_t clock = floor_clock(g, t);
        if (t->group != NULL && t->group->floor_root != NULL)
            clock = snic_min_u64(clock, t->group->floor_root->key);
        floor_waive(t, clock - snic_min_u64(clock, SNIC_GIMBAL__FLOOR_AHEAD));
    }
    gimbal_floor_offer(g, t);
}

/* ---- What is next ---- */

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

/* Until when the flows of a tenant that is due are kept, by what; SNIC_NEVER: by nothing. */
struct floor_until {
    uint64_t own_ns;   /* its own caps; and by them, one that the group's caps keep */
    uint64_t kept_ns;  /* both */
    uint64_t group_ns; /* those of its group, but not its own */
    int large;
};

/* What it has for the lane, in turn of its reads and its writes; NULL: nothing. */
static struct snic_gimbal_io *floor_head(struct snic_gimbal *g, struct gimbal_tenant *t,
                                         struct floor_until *until)
{
    for (unsigned k = 0; k < 2; k++) {
        struct gimbal_flow *f = &t->flow[t->floor_op ^ 1 ^ k];
        if (f->queued == 0 || f->ready == 0)
            continue;
        struct snic_gimbal_io *io = gimbal_flow_head(f);
        struct gimbal_flow *owner = gimbal_flow_of(g, io);
        struct gimbal_flow *c = gimbal_carrier(owner);
        uint64_t own_ns = floor_own_ns(g, owner, io);
        uint64_t group_ns = floor_group_ns(g, c, io);
        if (own_ns <= g->now_ns && group_ns > g->now_ns)
            until->group_ns = snic_min_u64(until->group_ns, group_ns);
        if (own_ns > g->now_ns || group_ns > g->now_ns) {
            until->own_ns = snic_min_u64(until->own_ns, own_ns);
            until->kept_ns = snic_min_u64(until->kept_ns, snic_max_u64(own_ns, group_ns));
        } else if (io->size > g->o.bucket_bytes) {
            until->large = 1;
        } else if (io == g->held || floor_slot(g, c)) {
            return io;
        }
    }
    return NULL;
}

/* The tenant, which was first on the lane and is due, has nothing for it now. */
static void floor_keep(struct snic_gimbal *g, struct gimbal_tenant *t,
                       const struct floor_until *until)
{
    uint64_t slow = floor_slow_ns(t);
    floor_unlane(g, t);
    if (until->own_ns != SNIC_NEVER)
        floor_waive(t, until->own_ns - snic_min_u64(until->own_ns, slow));
    else if (until->large)
        floor_waive(t, floor_clock(g, t));
    if (until->group_ns != SNIC_NEVER && t->group != NULL) {
        floor_wait(g, t, until->kept_ns);
        return;
    }
    floor_unwait(g, t);
    if (until->kept_ns != SNIC_NEVER)
        floor_arm(g, t, until->kept_ns);
    if (until->group_ns != SNIC_NEVER)
        t->floor_capped_ns = g->now_ns; /* a group, by its own */
}

/* The next I/O of the lane, which lacks tokens at most; NULL: none. */
struct snic_gimbal_io *gimbal_floor_next(struct snic_gimbal *g)
{
    while (g->lane_first != NULL) {
        struct gimbal_tenant *t = g->lane_first;
        if (floor_due_ns(t) > floor_clock(g, t) || !floor_queued(t)) {
            floor_remove(g, t);
            gimbal_floor_offer(g, t);
        } else if (floor_behind(t)) {
            floor_unlane(g, t);
            if (t->group == NULL)
                t->floor_capped_ns = g->now_ns; /* what that sends counts for it */
            else if (!t->floor_waits)
                floor_wait(g, t, SNIC_NEVER);
        } else {
            struct floor_until until = {SNIC_NEVER, SNIC_NEVER, SNIC_NEVER, 0};
            struct snic_gimbal_io *io = floor_head(g, t, &until);
            if (io != NULL)
                return io;
            floor_keep(g, t, &until);
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
    if ((t->flags & GIMBAL_FLOORED) == 0)
        return;
    if (t->group != NULL)
        floor_slow(g, t->group);
    floor_unwait(g, t);
    uint64_t clock = floor_clock(g, t);
    uint64_t from = clock > SNIC_GIMBAL_FLOOR_LATE_NS ? clock - SNIC_GIMBAL_FLOOR_LATE_NS : 0;
    uint64_t ahead = clock + SNIC_GIMBAL__FLOOR_AHEAD;
    for (unsigned i = 0; i < 2; i++) {
        struct gimbal_pace *p = &t->floor[i];
        if (p->mantissa != 0)
            p->free_ns = snic_min_u64(snic_max_u64(p->free_ns, from), ahead) +
                         floor_cost(g, p, i == 0 ? io->size : 1);
    }
    gimbal_floor_offer(g, t);
}

/* How late the tenant is, unless for the caps of its group, which kept it last so recently that it
 * may still make up for that: the device is not to blame for it. */
static uint64_t floor_late_ns(const struct snic_gimbal *g, const struct gimbal_tenant *t)
{
    uint64_t clock = floor_clock(g, t);
    uint64_t due = floor_due_ns(t);
    if (due >= clock || t->floor_waits ||
        (t->floor_capped_ns != 0 && g->now_ns - t->floor_capped_ns < SNIC_GIMBAL_FLOOR_LATE_NS))
        return 0;
    return clock - due;
}

/* The lane is about to send the I/O, carried by @c, of the tenant in front. */
void gimbal_floor_sent(struct snic_gimbal *g, struct gimbal_flow *c,
                       const struct snic_gimbal_io *io)
{
    struct gimbal_tenant *t = g->lane_first;
    g->floor_late_ns = snic_max_u64(g->floor_late_ns, floor_late_ns(g, t));
    g->floor_ios++;
    t->floor_ios++;
    t->floor_op = io->op;
    g->lane_left -= io->weighted;
    c->debt = (uint32_t)snic_min_u64((uint64_t)c->debt + io->weighted, g->o.quantum_bytes);
    floor_unlane(g, t);
}

/* Turns have sent so much: the lane may send more. */
void gimbal_floor_turn(struct snic_gimbal *g, uint32_t weighted)
{
    int64_t most = (int64_t)SNIC_GIMBAL__FLOOR_ODDS * g->o.quantum_bytes;
    g->lane_left += (int64_t)SNIC_GIMBAL__FLOOR_ODDS * weighted;
    if (g->lane_left > most)
        g->lane_left = most;
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
    if (g->lane_first != NULL)
        late_ns = snic_max_u64(late_ns, floor_late_ns(g, g->lane_first));
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
    uint64_t clock = floor_clock(g, t);
    floor_remove(g, t);
    if (t->floor_timer.armed)
        snic_wheel_cancel(&g->wheel, &t->floor_timer);
    g->floors -= (t->flags & GIMBAL_FLOORED) != 0;
    t->flags &= (uint8_t)~GIMBAL_FLOORED;
    for (unsigned i = 0; i < 2; i++) {
        struct gimbal_pace *p = &t->floor[i];
        uint64_t due = p->mantissa != 0 ? snic_min_u64(p->free_ns, clock) : clock;
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
    floor_wake(g, t); /* a group's caps may have changed */
    gimbal_floor_offer(g, t);
}

/* The floor that holds now. */
uint64_t gimbal_floor_now(const struct snic_gimbal *g, const struct gimbal_pace *p)
{
    return p->limit * g->floor_part / SNIC_GIMBAL_FLOOR_ONE; /* below 2^57 */
}

int gimbal_floor_late(const struct snic_gimbal *g, const struct gimbal_tenant *t)
{
    return (t->flags & GIMBAL_FLOORED) != 0 && floor_queued(t) &&
           floor_due_ns(t) < floor_clock(g, t);
}

/* I5 and I6 of a tenant that waits. */
static int floor_check_waiting(const struct gimbal_tenant *t, uint32_t *below)
{
    if ((t->flags & GIMBAL_FLOORED) == 0 || !floor_queued(t) || t->group == NULL ||
        t->floor_node.key != floor_due_ns(t))
        return SNIC_ECORRUPT;
    return gimbal_heap_check(t->group->floor_root, &t->floor_node, below);
}

/* And of a group. */
static int floor_check_group(const struct snic_gimbal *g, const struct gimbal_tenant *group)
{
    const struct gimbal_tenant *first = gimbal_floor_first(group);
    const struct snic_timer *timer = &group->floor_timer;
    if (group->floor_slow_ns > g->now_ns)
        return SNIC_ECORRUPT; /* I6 */
    if (first == NULL)
        return 0;
    if (first->group != group || !first->floor_waits)
        return SNIC_ECORRUPT;
    if (!first->laned && (!timer->armed || timer->deadline_ns > group->floor_wait_ns))
        return SNIC_ECORRUPT; /* I5 */
    return 0;
}

int gimbal_floor_check(const struct snic_gimbal *g)
{
    uint32_t listed = 0;
    uint32_t floors = 0;
    uint32_t waiting = 0;
    uint32_t below = 0;
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
        waiting += t->floor_waits;
        below += t->floor_root != NULL;
        if ((t->flags & GIMBAL_FLOORED) != 0 && floor_queued(t) && !t->laned && !t->floor_waits &&
            floor_due_ns(t) > floor_clock(g, t) && floor_slow_ns(t) == 0 && !t->floor_timer.armed)
            return SNIC_ECORRUPT; /* I2; when its clock was slowed it may have had no slot */
        if ((t->floor_waits && floor_check_waiting(t, &below) != 0) || floor_check_group(g, t) != 0)
            return SNIC_ECORRUPT;
    }
    if (waiting != below)
        return SNIC_ECORRUPT; /* I5 */
    if (g->floor_part == 0 || g->floor_part > SNIC_GIMBAL_FLOOR_ONE)
        return SNIC_ECORRUPT; /* I3 */
    uint64_t largest = (uint64_t)g->o.size_max * g->o.write_cost_worst / SNIC_GIMBAL_COST_ONE;
    if (g->lane_left > (int64_t)SNIC_GIMBAL__FLOOR_ODDS * g->o.quantum_bytes ||
        g->lane_left <= -(int64_t)largest)
        return SNIC_ECORRUPT; /* I4 */
    return listed == 0 && floors == g->floors ? 0 : SNIC_ECORRUPT;
}
