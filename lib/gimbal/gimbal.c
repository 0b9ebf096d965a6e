/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The switch: what happens at submit, poll, complete and cancel, in terms of the other files.
 *
 *   submit    its flow, the tenant's reads or writes, queues it (queue.c) and joins the active
 *             list if it had nothing (round.c).
 *   poll      what the express lane has (express.c) leaves first. Else the current flow's next I/O
 *             leaves when it has a slot (slot.c), its tenant's caps allow it (cap.c), the deficit
 *             covers it (round.c) and its bucket has the tokens (bucket.c), checked in this order.
 *             A flow that fails one of the first three makes room for the next; an I/O that lacks
 *             only tokens is held, and all flows wait: what the round robin has chosen is not
 *             reordered. An express I/O that lacks tokens goes before a held I/O of its bucket.
 *             A floor that is due (floor.c) goes before turns, after the express lane, and likewise
 *             before a held I/O of its bucket.
 *   complete  feeds the controller (congestion.c, cost.c), then its slot.
 *
 * A flow here is the one that carries the I/O: its tenant's, or that of its group (group.c).
 *
 * I1  held is the current flow's next I/O, still in its queue, with its weighted size fixed and
 *     an open slot.
 * I2  deadline_ns is the time of the last call, unless that was a poll that gave nothing.
 * I3  timer_ns is not after the first time at which a parked flow, a slot that takes too long, or,
 *     while a flow is deferred, a lingering tenant is due.
 * I4  now_ns never goes back; an earlier time counts as the latest seen.
 */
#include "gimbal/gimbal_priv.h"

/* ---- Memory ---- */

static uint32_t gimbal_slot_objects(const struct snic_gimbal_opts *o)
{
    /* Many may be full at a time, each for its slowest I/O, when they are not waited for. */
    uint32_t objects = (o->flags & SNIC_GIMBAL_SLOT_BARRIER) != 0 ? 1 : 8;
    objects *= (uint32_t)snic_max_u64(o->slot_threshold, SNIC_GIMBAL__LANES);
    return (uint32_t)snic_min_u64(objects, SNIC_GIMBAL__SLOTS);
}

static struct snic_gimbal *gimbal_layout(struct snic_arena *a, const struct snic_gimbal_opts *o,
                                         struct gimbal_tenant **tenants, struct gimbal_slot **slots)
{
    struct snic_gimbal *g = snic_arena_take(a, 1, sizeof(*g), SNIC_GIMBAL_ALIGN);
    size_t objects = (size_t)o->tenants_max + o->groups_max;
    *tenants = snic_arena_take(a, objects, sizeof(**tenants), 64);
    *slots = snic_arena_take(a, objects * 2 * gimbal_slot_objects(o), sizeof(**slots), 64);
    return g;
}

size_t snic_gimbal_memsize(const struct snic_gimbal_opts *o)
{
    struct snic_gimbal_opts full;
    struct snic_arena a = {NULL, SIZE_MAX, 0};
    struct gimbal_tenant *tenants;
    struct gimbal_slot *slots;
    if (gimbal_opts_fill(&full, o) != NULL)
        return 0;
    (void)gimbal_layout(&a, &full, &tenants, &slots);
    return a.used == SIZE_MAX ? 0 : (size_t)snic_align_up(a.used, SNIC_GIMBAL_ALIGN);
}

int snic_gimbal_init(struct snic_gimbal **out, void *mem, size_t size,
                     const struct snic_gimbal_opts *o, uint64_t now_ns)
{
    struct snic_gimbal_opts full;
    struct snic_arena a = {mem, size, 0};
    struct gimbal_tenant *tenants;
    struct gimbal_slot *slots;
    size_t need = snic_gimbal_memsize(o);
    if (need == 0 || gimbal_opts_fill(&full, o) != NULL || (uintptr_t)mem % SNIC_GIMBAL_ALIGN != 0)
        return SNIC_EINVAL;
    if (size < need)
        return SNIC_ENOSPC;
    memset(mem, 0, need);
    struct snic_gimbal *g = gimbal_layout(&a, &full, &tenants, &slots);
    g->o = full;
    g->tenants = tenants;
    g->all_slots = slots;
    g->slot_objects = gimbal_slot_objects(&full);
    g->objects = full.tenants_max + full.groups_max;
    for (uint32_t i = 0; i < 2 * g->objects; i++)
        gimbal_flow_at(g, i)->slots = slots + (size_t)i * g->slot_objects;
    g->served_share = UINT32_MAX + UINT64_C(1);
    g->rate_open = (uint32_t)gimbal_opts_rate_open(o);
    g->now_ns = now_ns;
    g->deadline_ns = SNIC_NEVER;
    g->timer_ns = SNIC_NEVER;
    g->filled_ns = now_ns;
    g->done_ns = now_ns;
    g->probe_ns = now_ns;
    g->slots = full.slot_threshold;
    g->watch.first = g->watch.last = SNIC_GIMBAL__NIL;
    g->linger.first = g->linger.last = SNIC_GIMBAL__NIL;
    g->deferred.first = g->deferred.last = SNIC_GIMBAL__NIL;
    g->express.first = g->express.last = SNIC_GIMBAL__NIL;
    snic_wheel_init(&g->wheel, now_ns);
    gimbal_round_init(g);
    gimbal_congestion_init(g);
    gimbal_cost_init(g);
    gimbal_bucket_init(g);
    gimbal_floor_init(g);
    gimbal_tune_init(g, o);
    *out = g;
    return 0;
}

void *snic_gimbal_fini(struct snic_gimbal *g)
{
    SNIC_ASSERT(g->queued == 0);
    SNIC_ASSERT(g->inflight == 0);
    return g;
}

/* ---- The data path ---- */

static void gimbal_now(struct snic_gimbal *g, uint64_t now_ns)
{
    if (now_ns > g->now_ns)
        g->now_ns = now_ns; /* I4 */
}

int snic_gimbal_submit(struct snic_gimbal *g, struct snic_gimbal_io *io, uint64_t now_ns)
{
    if (io->size == 0 || io->size > g->o.size_max || io->op > SNIC_GIMBAL_WRITE ||
        io->priority >= SNIC_GIMBAL_PRIORITIES)
        return SNIC_EINVAL;
    if (io->tenant >= g->o.tenants_max)
        return SNIC_ENOENT;
    struct gimbal_tenant *t = &g->tenants[io->tenant];
    if ((t->flags & (GIMBAL_ADDED | GIMBAL_REMOVED)) != GIMBAL_ADDED)
        return SNIC_ENOENT;
    if (gimbal_inside(t) >= g->o.queue_max)
        return SNIC_EBUSY;
    gimbal_now(g, now_ns);
    io->state = GIMBAL_IO_QUEUED;
    io->queued_ns = g->now_ns;
    struct gimbal_flow *f = &t->flow[io->op];
    if (t->group != NULL && gimbal_inside(t) == 0)
        t->group->busy_weight += t->weight;
    gimbal_flow_push(f, io);
    g->queued++;
    g->deadline_ns = g->now_ns;
    struct gimbal_flow *c = gimbal_group_queued(g, f, io);
    if ((c->tenant->flags & (GIMBAL_COUNTED | GIMBAL_LINGERS)) != GIMBAL_COUNTED)
        gimbal_tenant_active(g, c->tenant);
    if (!c->counted)
        gimbal_slot_count(g, c);
    gimbal_floor_begin(g, t, 1);
    if (c != f)
        gimbal_floor_begin(g, c->tenant, 1);
    gimbal_express_offer(g, f);
    if (c->where == GIMBAL_IDLE && !c->express)
        gimbal_round_join(g, c);
    else if (c->where == GIMBAL_LISTED && c->due - g->round > 1 && c->ready != 0 &&
             gimbal_flow_head(c) == io)
        gimbal_round_replace(g, c);
    else if (c != f && c->where == GIMBAL_PARKED && c->ready != 0 && gimbal_flow_head(c) == io)
        gimbal_cap_unpark(g, c); /* it comes before the one that waits, and may need less */
    return 0;
}

/* Flows whose caps' time has come go to the end of their lists, floors to the lane; when is the
 * next one's? */
static uint64_t gimbal_expire(struct snic_gimbal *g)
{
    struct snic_timer *timer;
    while ((timer = snic_wheel_pop(&g->wheel, g->now_ns)) != NULL) {
        if (timer->fn == gimbal_floor_fired) {
            gimbal_floor_expired(g, SNIC_CONTAINER(timer, struct gimbal_tenant, floor_timer));
            continue;
        }
        struct gimbal_flow *f = SNIC_CONTAINER(timer, struct gimbal_flow, timer);
        gimbal_group_join(g, f);
        if (gimbal_carrier(f)->inner_root == &f->inner)
            gimbal_cap_unpark(g, gimbal_carrier(f)); /* as in submit */
    }
    return snic_wheel_deadline_ns(&g->wheel);
}

/* What is due by time alone; then the next such time. */
static void gimbal_timers(struct snic_gimbal *g)
{
    uint64_t next = gimbal_slot_watch(g, g->now_ns);
    uint64_t linger = gimbal_tenant_linger(g, g->now_ns);
    next = snic_min_u64(next, gimbal_expire(g));
    if (g->deferred.first != SNIC_GIMBAL__NIL)
        next = snic_min_u64(next, linger);
    g->timer_ns = next; /* I3 */
}

/* 0: it has a slot, now that tenants idle for idle_ns do not count as active; 1: it is deferred. */
static int gimbal_defer(struct snic_gimbal *g, struct gimbal_flow *f)
{
    uint64_t linger = gimbal_tenant_linger(g, g->now_ns);
    if (gimbal_slot_open(g, f))
        return 0;
    g->timer_ns = snic_min_u64(g->timer_ns, linger);
    gimbal_round_quit(g, f, GIMBAL_DEFERRED);
    f->deficit = snic_min_u64(f->deficit, f->tenant->quantum);
    gimbal_list_append(g, &g->deferred, f);
    return 1;
}

/* The flow's turn ends without I/Os: what is left of it repays debt. */
static void gimbal_idle(struct snic_gimbal *g, struct gimbal_flow *f)
{
    f->debt -= (uint32_t)snic_min_u64(f->debt, f->deficit);
    f->deficit = 0;
    gimbal_round_quit(g, f, GIMBAL_IDLE);
}

/* The current flow has a slot. Its next I/O, if its caps and its deficit let it go; or NULL, and it
 * waits for that elsewhere. */
static struct snic_gimbal_io *gimbal_visit(struct snic_gimbal *g, struct gimbal_flow *f)
{
    struct gimbal_tenant *t = f->tenant;
    struct snic_gimbal_io *io = gimbal_flow_head(f);
    uint64_t ready_ns = 0;
    if ((t->flags & GIMBAL_CAPPED) != 0) {
        const struct gimbal_flow *other = gimbal_flow_sibling(f);
        const struct gimbal_flow *inner = gimbal_inner_next(f);
        ready_ns = gimbal_cap_ready_ns(t, io, g->now_ns);
        if (ready_ns <= g->now_ns && t->floor_root != NULL && g->lane_left > 0)
            ready_ns = gimbal_group_floor_ns(g, inner, io);
        if (ready_ns <= g->now_ns && inner != NULL && !gimbal_group_passes(g, inner, io)) {
            if (other->where == GIMBAL_LISTED) {
                gimbal_round_behind(g, f, other);
                return NULL;
            }
            ready_ns = other->timer.deadline_ns + 1;
        }
    }
    if (ready_ns > g->now_ns) {
        f->deficit = 0;
        gimbal_cap_park(g, f, ready_ns);
        return NULL;
    }
    io->weighted = gimbal_weighted(g, io);
    if (io->weighted <= f->deficit)
        return io;
    gimbal_round_wait(g, f, io->weighted);
    return NULL;
}

/* The next I/O but for its tokens, with its flow current and its slot open; or NULL. */
static struct snic_gimbal_io *gimbal_choose(struct snic_gimbal *g)
{
    for (;;) {
        struct gimbal_flow *f = g->current;
        if (f == NULL) {
            f = gimbal_round_next(g);
            g->current = f;
            if (f == NULL)
                return NULL;
        }
        if (f->inner_root != NULL)
            gimbal_cap_members(g, f);
        if (f->ready == 0) {
            gimbal_idle(g, f);
        } else if (f->open != SNIC_GIMBAL__NO_SLOT || gimbal_slot_open(g, f) ||
                   !gimbal_defer(g, f)) {
            struct snic_gimbal_io *io = gimbal_visit(g, f);
            if (io != NULL)
                return io;
        }
        g->current = NULL;
    }
}

/* The tenant sends the I/O, or its group does: what it may send, and what it has to. */
static void gimbal_pay(struct snic_gimbal *g, struct gimbal_tenant *t,
                       const struct snic_gimbal_io *io)
{
    t->wait_ns += g->now_ns - io->queued_ns;
    if ((t->flags & GIMBAL_CAPPED) != 0)
        gimbal_cap_pay(t, io, g->now_ns);
    gimbal_floor_pay(g, t, io);
}

/* The I/O is out of its queue: to the device, in a slot of @f. */
static void gimbal_send(struct snic_gimbal *g, struct gimbal_flow *f, struct snic_gimbal_io *io)
{
    uint64_t now = g->now_ns;
    struct gimbal_flow *owner = gimbal_flow_of(g, io);
    f->inflight++;
    owner->sent++;
    io->credit = gimbal_flow_index(g, f); /* until it completes */
    io->sent_ns = now;
    if (g->inflight == 0) {
        g->done_ns = now; /* the device was idle: that is no part of a window */
        g->alive_ns = now;
    }
    if (gimbal_learns(g))
        gimbal_learn_sent(&g->learn, g->inflight - g->lost, now);
    g->served += io->weighted * g->served_share >> 32;
    g->queued--;
    g->inflight++;
    g->deadline_ns = now;
    gimbal_pay(g, owner->tenant, io);
    if (owner != f)
        gimbal_pay(g, f->tenant, io);
    gimbal_slot_send(g, f, io);
}

/* A lane has sent an I/O in a slot of @f: is it the held one's? */
static void gimbal_unhold(struct snic_gimbal *g, const struct gimbal_flow *f)
{
    if (g->held != NULL && g->current == f && f->open == SNIC_GIMBAL__NO_SLOT) {
        gimbal_bucket_release(g, g->held); /* I1: its slot is full now */
        g->held = NULL;
    }
}

/* The express lane's, which took its tokens. */
static void gimbal_send_express(struct snic_gimbal *g, struct snic_gimbal_io *io)
{
    struct gimbal_flow *f = gimbal_flow_of(g, io);
    struct gimbal_flow *c = gimbal_carrier(f);
    gimbal_flow_take(f, io);
    io->weighted = io->size;
    gimbal_group_sent(g, f, io);
    gimbal_group_taken(g, f);
    gimbal_send(g, c, io);
    gimbal_express_sent(g, f, io);
    gimbal_unhold(g, c);
}

/* The lane of floors', which took its tokens. */
static void gimbal_send_floor(struct snic_gimbal *g, struct snic_gimbal_io *io)
{
    struct gimbal_flow *f = gimbal_flow_of(g, io);
    struct gimbal_flow *c = gimbal_carrier(f);
    gimbal_flow_send(f, io);
    io->weighted = gimbal_weighted(g, io);
    gimbal_group_sent(g, f, io);
    gimbal_group_taken(g, f);
    gimbal_floor_sent(g, c, io);
    gimbal_send(g, c, io);
    gimbal_unhold(g, c);
}

/* Of two I/Os that pass turns, each may be NULL, does one wait for the tokens of @io? */
static int gimbal_behind(const struct snic_gimbal *g, const struct snic_gimbal_io *fast,
                         const struct snic_gimbal_io *floor, const struct snic_gimbal_io *io)
{
    return (fast != NULL && gimbal_bucket_same(g, fast, io)) ||
           (floor != NULL && floor != io && gimbal_bucket_same(g, floor, io));
}

/* The round robin's choice, if there are tokens for it; NULL: it is held, or there is none. @fast
 * and @floor wait for tokens before it. */
static struct snic_gimbal_io *gimbal_turn(struct snic_gimbal *g, const struct snic_gimbal_io *fast,
                                          const struct snic_gimbal_io *floor)
{
    struct snic_gimbal_io *io = g->held != NULL ? g->held : gimbal_choose(g);
    uint64_t next = g->timer_ns;
    if (fast != NULL)
        next = snic_min_u64(next, gimbal_bucket_ready_ns(g, fast));
    if (floor != NULL && floor != io)
        next = snic_min_u64(next, gimbal_bucket_ready_ns(g, floor));
    g->deadline_ns = next;
    if (io == NULL)
        return NULL;
    int after = gimbal_behind(g, fast, floor, io);
    if (after || !gimbal_bucket_take(g, io)) {
        g->held = io;
        gimbal_bucket_hold(g, io);
        if (!after)
            g->deadline_ns = snic_min_u64(next, gimbal_bucket_ready_ns(g, io));
        return NULL;
    }
    gimbal_bucket_release(g, io);
    g->held = NULL;
    g->current->deficit -= io->weighted;
    struct gimbal_flow *f = gimbal_flow_of(g, io);
    gimbal_flow_send(f, io);
    gimbal_group_sent(g, f, io);
    gimbal_group_taken(g, f);
    if (g->floors != 0)
        gimbal_floor_turn(g, io->weighted);
    gimbal_send(g, g->current, io);
    return io;
}

/* What floors and turns have, in this order; @fast waits for tokens before them. */
static struct snic_gimbal_io *gimbal_floor_or_turn(struct snic_gimbal *g,
                                                   const struct snic_gimbal_io *fast)
{
    struct snic_gimbal_io *floor = NULL;
    struct snic_gimbal_io *io = NULL;
    int may = g->lane_left > 0;
    if (may)
        floor = gimbal_floor_next(g);
    if (floor == NULL || floor == g->held || gimbal_behind(g, fast, NULL, floor) ||
        !gimbal_bucket_take(g, floor)) {
        io = gimbal_turn(g, fast, floor);
        if (io != NULL || g->held != NULL || may)
            return io;
        floor = gimbal_floor_next(g); /* the round robin has nothing to send */
        if (floor == NULL || gimbal_behind(g, fast, NULL, floor))
            return NULL;
        if (!gimbal_bucket_take(g, floor)) {
            g->deadline_ns = snic_min_u64(g->deadline_ns, gimbal_bucket_ready_ns(g, floor));
            return NULL;
        }
        g->lane_left += gimbal_weighted(g, floor); /* it is not charged: no turn waits for it */
    }
    gimbal_send_floor(g, floor);
    return floor;
}

struct snic_gimbal_io *snic_gimbal_poll(struct snic_gimbal *g, uint64_t now_ns)
{
    gimbal_now(g, now_ns);
    if (g->queued == 0) {
        g->deadline_ns = SNIC_NEVER;
        return NULL;
    }
    if (SNIC_UNLIKELY(g->now_ns >= g->timer_ns))
        gimbal_timers(g);
    if (gimbal_learns(g) && gimbal_tune_quiet(g))
        return NULL;
    gimbal_bucket_fill(g, g->now_ns);
    struct snic_gimbal_io *fast = NULL;
    if (g->express.first != SNIC_GIMBAL__NIL)
        fast = gimbal_express_next(g);
    if (fast == NULL || !gimbal_bucket_take(g, fast))
        return g->lane_first != NULL ? gimbal_floor_or_turn(g, fast) : gimbal_turn(g, fast, NULL);
    gimbal_send_express(g, fast);
    return fast;
}

uint64_t snic_gimbal_deadline_ns(const struct snic_gimbal *g)
{
    return g->deadline_ns;
}

void snic_gimbal_begin(struct snic_gimbal *g, struct snic_gimbal_io *io, uint64_t now_ns)
{
    SNIC_ASSERT((io->state & 0xff) == GIMBAL_IO_OUT);
    gimbal_now(g, now_ns);
    io->sent_ns = g->now_ns;
}

/* What the views show of an I/O that has ended. */
static void gimbal_count(struct gimbal_tenant *t, const struct snic_gimbal_io *io, int outcome,
                         uint64_t now)
{
    t->device_ns += now - io->sent_ns;
    t->errors += outcome == SNIC_GIMBAL_FAILED;
    if (outcome != SNIC_GIMBAL_DONE)
        return;
    t->bytes[io->op] += io->size;
    t->ios[io->op]++;
}

/* An I/O of the tenant, carried by @c, is not inside any more. */
static void gimbal_ended(struct snic_gimbal *g, struct gimbal_tenant *t, struct gimbal_tenant *c)
{
    int last = gimbal_inside(t) == 0;
    int gone = last && (t->flags & GIMBAL_REMOVED) != 0;
    if (last && t->group != NULL)
        t->group->busy_weight -= t->weight;
    if (t->group != NULL)
        gimbal_group_busy(t, 1);
    if (gimbal_carried(c) == 0 && !(gone && c == t))
        gimbal_tenant_empty(g, c);
    if (gone)
        gimbal_tenant_free(g, t);
}

/* The tenant has a slot again, perhaps, or is alone with what it has queued. */
static void gimbal_offer(struct snic_gimbal *g, struct gimbal_flow *f)
{
    gimbal_express_offer(g, f);
    gimbal_floor_offer(g, f->tenant);
    if (f->tenant->group != NULL)
        gimbal_floor_offer(g, f->tenant->group);
}

/*
 * 1: the latency of the I/O, which is back now, is no measure of congestion: it was sent in a quiet
 * time, or before a pause of the whole device, in which that completed nothing for longer than an
 * overloaded one takes for an I/O of this size.
 */
static int gimbal_apart(struct snic_gimbal *g, const struct snic_gimbal_io *io)
{
    uint64_t most = g->o.thresh_max_ns * (1 + io->size / g->o.slot_bytes);
    if (!gimbal_learns(g))
        return 0;
    if (g->now_ns - g->alive_ns >= most)
        g->paused_ns = g->now_ns;
    return io->sent_ns < g->paused_ns || gimbal_learn_apart(&g->learn, io);
}

void snic_gimbal_complete(struct snic_gimbal *g, struct snic_gimbal_io *io, int outcome,
                          uint64_t now_ns)
{
    SNIC_ASSERT(outcome >= SNIC_GIMBAL_FAILED && outcome <= SNIC_GIMBAL_UNTIMED);
    SNIC_ASSERT(io->tenant < g->o.tenants_max);
    SNIC_ASSERT((io->state & 0xff) == GIMBAL_IO_OUT);
    struct gimbal_tenant *t = &g->tenants[io->tenant];
    struct gimbal_flow *c = gimbal_flow_at(g, io->credit); /* the tenant may have moved since */
    SNIC_ASSERT(t->flow[io->op].sent > 0 && c->inflight > 0);
    gimbal_now(g, now_ns);
    g->inflight--;
    c->inflight--;
    t->flow[io->op].sent--;
    int apart = gimbal_apart(g, io);
    g->alive_ns = g->now_ns;
    gimbal_count(t, io, outcome, g->now_ns);
    if (c->tenant != t)
        gimbal_count(c->tenant, io, outcome, g->now_ns);
    if (apart) {
        g->done_ns = g->now_ns; /* no measure, and no part of a window */
    } else if (outcome == SNIC_GIMBAL_DONE) {
        gimbal_bucket_fill(g, g->now_ns); /* at the rate and the shares until now */
        gimbal_congestion_done(g, io, g->now_ns);
        gimbal_cost_done(g, io, g->now_ns);
    }
    gimbal_floor_adapt(g);
    gimbal_slot_done(g, c, io);
    if (gimbal_learns(g))
        gimbal_tune_done(g, io, outcome == SNIC_GIMBAL_DONE);
    io->credit = gimbal_slot_credit(g, t);
    if (g->floors != 0)
        io->credit = (uint32_t)snic_max_u64(io->credit, gimbal_floor_credit(g, t, io));
    io->state = GIMBAL_IO_FREE;
    g->deadline_ns = g->now_ns;
    if (gimbal_inside(t) > 0)
        gimbal_offer(g, &t->flow[io->op]);
    gimbal_ended(g, t, c->tenant);
}

int snic_gimbal_cancel(struct snic_gimbal *g, struct snic_gimbal_io *io, uint64_t now_ns)
{
    if ((io->state & 0xff) == GIMBAL_IO_OUT)
        return SNIC_EBUSY;
    SNIC_ASSERT(io->state == GIMBAL_IO_QUEUED);
    SNIC_ASSERT(io->tenant < g->o.tenants_max);
    struct gimbal_tenant *t = &g->tenants[io->tenant];
    gimbal_now(g, now_ns);
    struct gimbal_flow *f = &t->flow[io->op];
    gimbal_flow_take(f, io);
    gimbal_group_taken(g, f);
    g->queued--;
    if (g->held == io) {
        g->held = NULL;
        gimbal_bucket_release(g, io);
    }
    io->state = GIMBAL_IO_FREE;
    g->deadline_ns = g->now_ns;
    struct gimbal_tenant *c = gimbal_carrier(f)->tenant;
    gimbal_floor_cancelled(g, t);
    gimbal_cap_unpark(g, f); /* what waited behind it may need less */
    for (unsigned op = 0; op < 2; op++)
        gimbal_cap_unpark(g, &c->flow[op]);
    gimbal_ended(g, t, c);
    return 0;
}

/* ---- The virtual view ---- */

void snic_gimbal_get_view(const struct snic_gimbal *g, struct snic_gimbal_view *out)
{
    memset(out, 0, sizeof(*out));
    out->target_rate = g->target_rate;
    out->completion_rate = g->completion_rate;
    out->read_headroom = gimbal_bucket_reads(g);
    out->write_headroom = g->target_rate - out->read_headroom;
    for (unsigned op = 0; op < 2; op++) {
        out->ewma_ns[op] = g->monitor[op].ewma_ns;
        out->thresh_ns[op] = g->monitor[op].thresh_ns;
        out->state[op] = g->monitor[op].state;
    }
    out->write_cost = g->write_cost;
    out->tenants = g->count;
    out->active = g->active;
    out->slots = g->slots;
    out->queued = g->queued;
    out->inflight = g->inflight;
    out->lost = g->lost;
    out->floor_part = g->floor_part;
    out->floors = g->floors;
    out->groups = g->groups;
    out->floor_ios = g->floor_ios;
    memcpy(out->entered, g->entered, sizeof(out->entered));
}
