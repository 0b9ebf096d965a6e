/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Inside a group: which of its tenants' flows is next, for each of the group's two flows, which
 * take part in rounds and slots as a tenant's do. Start-time fair queueing: a flow's tag is what it
 * has sent, per weight, and the next flow is the one whose tag will be least when its next I/O has
 * left; a tenant that reads and writes has half its weight for each. What counts is costs, or, in a
 * group with caps, what the I/O takes from these: bytes, or I/Os. The tag of a group's flow is its
 * virtual time: the tag of the last flow that was sent from in this order. A flow that had nothing
 * queued comes back with a tag that is behind virtual time by a quantum at most: so one whose
 * client has few I/Os, or is far away, has its share all the same, and saves up no more than that.
 *
 * The lanes (express.c, floor.c) send out of this order. That does not move virtual time, or those
 * who come back would queue behind all that a floor has sent; and a flow owes a quantum of it at
 * most, or it would have nothing for as long as the floor has lasted once that is gone.
 *
 * A group's caps are shared by its reads and its writes, by the weights of the flows in each: tags
 * of their own. The flow that is next has the caps' time before the other one, which leaves in the
 * buckets what that one takes (cap.c), as long as that one only waits for its round or its caps.
 *
 * The order is a heap (heap.c): amortised logarithmic in the number of flows with I/Os of a group,
 * with all else O(1).
 *
 * I1  The heap of a group's flow holds its tenants' flows that have I/Os and are not parked for
 *     caps of their own (`where` is GIMBAL_INNER); ready is 1 if it is not empty.
 * I2  Keys and tags are compared by their difference: they may wrap.
 * I3  queued of a group's flow adds up its tenants', inner_weight what its tenants' flows with I/Os
 *     inside count for.
 * I4  A tag in the heap is behind or ahead of virtual time by no more than a quantum and the cost
 *     of an I/O.
 */
#include "gimbal/gimbal_priv.h"

#define SNIC_GIMBAL__TAG_SHIFT 8 /* tags are in 1/256 of a byte */
#define SNIC_GIMBAL__OP_SHIFT 5  /* and those of reads and writes together in 1/32 */

/* ---- The order ---- */

static void group_insert(struct gimbal_flow *c, struct gimbal_flow *f)
{
    f->where = GIMBAL_INNER;
    gimbal_heap_insert(&c->inner_root, &f->inner);
    c->ready = 1; /* I1 */
}

static void group_remove(struct gimbal_flow *c, struct gimbal_flow *f)
{
    f->where = GIMBAL_IDLE;
    gimbal_heap_remove(&c->inner_root, &f->inner);
    c->ready = c->inner_root != NULL; /* I1 */
}

/* ---- What counts ---- */

/* What the I/O counts in its group, whose caps it takes from; @cost: without such. */
static uint32_t group_units(const struct gimbal_tenant *group, const struct snic_gimbal_io *io,
                            uint32_t cost)
{
    if ((group->flags & GIMBAL_CAPPED) == 0)
        return cost;
    uint32_t bytes = group->pace[0].mantissa != 0 ? io->size : 0;
    return (uint32_t)snic_max_u64(bytes, group->inner_io);
}

static uint32_t group_inside(const struct gimbal_flow *f)
{
    return f->queued + f->sent;
}

/* By how much so many units move the flow's tag. */
static uint64_t group_step(const struct gimbal_flow *f, uint32_t units)
{
    unsigned half = group_inside(gimbal_flow_sibling(f)) > 0;
    uint64_t step = (uint64_t)units * f->tenant->inner_inverse;
    return step >> (16 - SNIC_GIMBAL__TAG_SHIFT) << half;
}

/* The flow, which has I/Os, has its place by its next one. */
static void group_place(const struct snic_gimbal *g, struct gimbal_flow *c, struct gimbal_flow *f)
{
    const struct snic_gimbal_io *io = gimbal_flow_head(f);
    uint32_t units = group_units(c->tenant, io, gimbal_weighted(g, io));
    f->inner.key = f->inner_tag + group_step(f, units);
    group_insert(c, f);
}

/* How far the flow's tag is ahead of virtual time. */
static int64_t group_ahead(const struct gimbal_flow *c, const struct gimbal_flow *f)
{
    return (int64_t)(f->inner_tag - c->inner_tag);
}

static int64_t group_quantum(const struct snic_gimbal *g)
{
    return (int64_t)g->o.quantum_bytes << SNIC_GIMBAL__TAG_SHIFT;
}

/* I4: a quantum and the largest step, of weight 1 with reads and writes, at this write cost. */
static int64_t group_ahead_max(const struct snic_gimbal *g, uint32_t write_cost)
{
    int64_t cost = (int64_t)g->o.size_max * write_cost / SNIC_GIMBAL_COST_ONE;
    return group_quantum(g) + cost * (2 << SNIC_GIMBAL__TAG_SHIFT);
}

/* I4; a tag that is farther ahead is an old one, that virtual time has wrapped around. */
static void group_catch_up(const struct snic_gimbal *g, const struct gimbal_flow *c,
                           struct gimbal_flow *f)
{
    int64_t behind = group_quantum(g);
    int64_t ahead = group_ahead(c, f);
    if (ahead < -behind || ahead > group_ahead_max(g, g->o.write_cost_worst))
        f->inner_tag = c->inner_tag - (uint64_t)behind;
}

/* The tenant's flows count in its group as long as they have I/Os inside; @member 0: not. */
void gimbal_group_busy(struct gimbal_tenant *t, int member)
{
    for (unsigned op = 0; op < 2; op++) {
        unsigned alone = group_inside(&t->flow[op ^ 1]) == 0;
        uint32_t part = member && group_inside(&t->flow[op]) > 0 ? t->weight << alone : 0;
        t->group->inner_weight[op] += part - t->inner_part[op]; /* I3 */
        t->inner_part[op] = part;
    }
}

/* ---- Reads and writes under the group's caps ---- */

static uint64_t group_op_start(const struct snic_gimbal *g, const struct gimbal_tenant *group,
                               unsigned op)
{
    uint64_t least = group->inner_op_now - ((uint64_t)g->o.quantum_bytes << SNIC_GIMBAL__OP_SHIFT);
    return gimbal_key_before(group->inner_op_tag[op], least) ? least : group->inner_op_tag[op];
}

static uint32_t group_op_step(const struct gimbal_tenant *group, unsigned op, uint32_t units)
{
    uint32_t weight = group->inner_weight[op] > 0 ? group->inner_weight[op] : 1;
    return (units << SNIC_GIMBAL__OP_SHIFT) / weight + 1; /* at most 2^26 units */
}

static uint64_t group_op_key(const struct snic_gimbal *g, const struct gimbal_flow *c,
                             const struct snic_gimbal_io *io)
{
    return group_op_start(g, c->tenant, c->op) +
           group_op_step(c->tenant, c->op, group_units(c->tenant, io, 0));
}

static void group_op_sent(const struct snic_gimbal *g, struct gimbal_tenant *group, unsigned op,
                          uint32_t units)
{
    uint64_t start = group_op_start(g, group, op);
    if (gimbal_key_before(group->inner_op_now, start))
        group->inner_op_now = start;
    group->inner_op_tag[op] = start + group_op_step(group, op, units);
}

/* Does the flow wait for its round, or for its caps' time? */
static int group_waits(const struct gimbal_flow *c)
{
    return c->inner_root != NULL && (c->where == GIMBAL_LISTED || c->where == GIMBAL_PARKED);
}

/* Do the buckets hold what both I/Os take, now? */
static int group_holds(const struct gimbal_tenant *t, const struct snic_gimbal_io *a,
                       const struct snic_gimbal_io *b, uint64_t now)
{
    uint64_t units[2] = {(uint64_t)a->size + b->size, 2};
    for (unsigned i = 0; i < 2; i++) {
        const struct gimbal_pace *p = &t->pace[i];
        uint64_t need = units[i] * p->mantissa >> p->shift;
        if (p->mantissa != 0 && snic_max_u64(p->free_ns, now) - now + need > SNIC_GIMBAL__CATCH_UP)
            return 0;
    }
    return 1;
}

/*
 * The time in the caps of the capped group that carries the I/O of @f is that of the floor which
 * waits for it and is due first: what others send leaves in the buckets what that takes. When does
 * it have it? 0: the I/O takes nothing from it; now: it is on the lane.
 */
uint64_t gimbal_group_floor_ns(const struct snic_gimbal *g, const struct gimbal_flow *f,
                               const struct snic_gimbal_io *io)
{
    const struct gimbal_tenant *group = f->tenant->group;
    const struct gimbal_tenant *first = gimbal_floor_first(group);
    if (first == NULL || first == f->tenant)
        return 0;
    for (unsigned op = 0; op < 2; op++) {
        const struct gimbal_flow *theirs = &first->flow[op];
        if (theirs->ready != 0 && !group_holds(group, io, gimbal_flow_head(theirs), g->now_ns))
            return first->laned ? g->now_ns : snic_max_u64(group->floor_wait_ns, g->now_ns) + 1;
    }
    return 0;
}

/* May the I/O of @f, which a capped group carries, take from its caps now? What comes before it and
 * waits keeps what it takes. */
int gimbal_group_passes(const struct snic_gimbal *g, const struct gimbal_flow *f,
                        const struct snic_gimbal_io *io)
{
    const struct gimbal_tenant *group = f->tenant->group;
    const struct gimbal_flow *c = &group->flow[f->op];
    const struct gimbal_flow *other = gimbal_flow_sibling(c);
    const struct gimbal_flow *root = gimbal_inner_next(c);
    if (root != NULL && root != f && gimbal_key_before(root->inner.key, f->inner.key) &&
        !group_holds(group, io, gimbal_flow_head(root), g->now_ns))
        return 0;
    if (!group_waits(other))
        return 1;
    const struct snic_gimbal_io *next = gimbal_flow_head(other);
    return !gimbal_key_before(group_op_key(g, other, next), group_op_key(g, c, io)) ||
           group_holds(group, io, next, g->now_ns);
}

/* ---- I/Os come and go ---- */

/* Into the heap, if it has I/Os. */
void gimbal_group_enter(const struct snic_gimbal *g, struct gimbal_flow *f)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (f->where != GIMBAL_IDLE || f->ready == 0)
        return;
    group_catch_up(g, c, f);
    group_place(g, c, f);
}

void gimbal_group_leave(struct gimbal_flow *f)
{
    if (f->where == GIMBAL_INNER)
        group_remove(gimbal_carrier(f), f);
}

/* It has this I/O more. What carries it? */
struct gimbal_flow *gimbal_group_queued(const struct snic_gimbal *g, struct gimbal_flow *f,
                                        const struct snic_gimbal_io *io)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (c == f)
        return f;
    c->queued++; /* I3 */
    gimbal_group_busy(f->tenant, 1);
    if (f->where == GIMBAL_INNER && gimbal_flow_head(f) == io) { /* an urgent one */
        group_remove(c, f);
        group_place(g, c, f);
    } else {
        gimbal_group_enter(g, f);
    }
    return c;
}

/* An I/O less is queued. */
void gimbal_group_taken(const struct snic_gimbal *g, struct gimbal_flow *f)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (c == f)
        return;
    SNIC_DASSERT(c->queued > 0);
    c->queued--; /* I3 */
    if (f->where != GIMBAL_INNER)
        return;
    group_remove(c, f);
    if (f->ready != 0)
        group_place(g, c, f);
}

/* It sends the I/O, whose cost is known; before it is taken. */
void gimbal_group_sent(const struct snic_gimbal *g, struct gimbal_flow *f,
                       const struct snic_gimbal_io *io)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (c == f)
        return;
    uint32_t units = group_units(c->tenant, io, io->weighted);
    int64_t most = c->inner_root == &f->inner ? 0 : group_quantum(g); /* not in order: by a lane */
    if (group_ahead(c, f) > most) {
        if (c->inner_root == &f->inner)
            c->inner_tag = f->inner_tag;
        else
            f->inner_tag = c->inner_tag + (uint64_t)most;
    }
    f->inner_tag += group_step(f, units);
    if ((c->tenant->flags & GIMBAL_CAPPED) != 0)
        group_op_sent(g, c->tenant, c->op, units);
}

/* It is not parked any more: into its group's heap, or to the end of the round robin's list. */
void gimbal_group_join(struct snic_gimbal *g, struct gimbal_flow *f)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (c == f) {
        gimbal_round_join(g, f);
        return;
    }
    f->where = GIMBAL_IDLE;
    gimbal_group_enter(g, f);
    if (c->where == GIMBAL_IDLE)
        gimbal_round_join(g, c);
}

/* ---- Check ---- */

/* I1 of one of the group's flows, and its heap; the number of flows in that. */
static uint32_t group_heap_count(const struct snic_gimbal *g, const struct gimbal_flow *c)
{
    uint32_t count = 0;
    uint32_t below = 0;
    for (uint32_t i = 0; i < g->o.tenants_max; i++) {
        const struct gimbal_flow *f = &g->tenants[i].flow[c->op];
        if (f->where != GIMBAL_INNER || f->tenant->group != c->tenant)
            continue;
        count++;
        if (f->ready == 0 || gimbal_heap_check(c->inner_root, &f->inner, &below) != 0)
            return UINT32_MAX;
    }
    return below + (count > 0) == count ? count : UINT32_MAX;
}

int gimbal_group_check(const struct snic_gimbal *g)
{
    uint32_t worst = gimbal_learns(g) ? SNIC_GIMBAL_COST_MAX : g->o.write_cost_worst;
    int64_t most = group_ahead_max(g, worst);
    for (uint32_t i = 0; i < g->o.tenants_max; i++) {
        const struct gimbal_tenant *t = &g->tenants[i];
        for (unsigned op = 0; op < 2; op++) {
            const struct gimbal_flow *f = &t->flow[op];
            if (f->where == GIMBAL_INNER && t->group == NULL)
                return SNIC_ECORRUPT;
            if (t->group != NULL && f->where != GIMBAL_PARKED &&
                f->where != (f->ready != 0 ? GIMBAL_INNER : GIMBAL_IDLE))
                return SNIC_ECORRUPT; /* I1 */
        }
    }
    for (uint32_t k = g->o.tenants_max; k < g->objects; k++) {
        const struct gimbal_tenant *group = &g->tenants[k];
        uint32_t queued[2] = {0, 0};
        uint32_t parts[2] = {0, 0};
        uint32_t members = 0;
        uint32_t weight = 0;
        for (uint32_t i = 0; i < g->o.tenants_max; i++) {
            const struct gimbal_tenant *t = &g->tenants[i];
            if (t->group != group)
                continue;
            members++;
            weight += gimbal_inside(t) > 0 ? t->weight : 0;
            for (unsigned op = 0; op < 2; op++) {
                queued[op] += t->flow[op].queued;
                parts[op] += t->inner_part[op];
                if ((t->inner_part[op] != 0) != (group_inside(&t->flow[op]) > 0))
                    return SNIC_ECORRUPT;
                int64_t ahead = group_ahead(&group->flow[op], &t->flow[op]);
                if (ahead > most || (ahead < -most && t->flow[op].where == GIMBAL_INNER))
                    return SNIC_ECORRUPT; /* I4 */
            }
        }
        if (members != group->members || weight != group->busy_weight ||
            queued[0] != group->flow[0].queued || queued[1] != group->flow[1].queued ||
            parts[0] != group->inner_weight[0] || parts[1] != group->inner_weight[1])
            return SNIC_ECORRUPT; /* I3 */
        for (unsigned op = 0; op < 2; op++) {
            const struct gimbal_flow *c = &group->flow[op];
            uint32_t count = group_heap_count(g, c);
            if (count == UINT32_MAX || c->ready != (count > 0) ||
                (c->inner_root != NULL) != (count > 0))
                return SNIC_ECORRUPT; /* I1 */
        }
    }
    return 0;
}
