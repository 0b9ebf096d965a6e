/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Inside a group: its tenants' flows take turns for each of the group's two flows, which take part
 * in rounds and slots as a tenant's do. Surplus round robin: the flow in front sends while it has
 * something left; then a quantum per weight is added and it goes behind the others. The quantum is
 * what the largest I/O cost that the group sent since it was idle, so it is more than what was
 * overdrawn: O(1), without rounds that only collect.
 *
 * I1  The list of a group's flow holds its tenants' flows that have I/Os and are not parked for
 *     caps of their own (`where` is GIMBAL_INNER); ready is 1 if it is not empty.
 * I2  A flow on the list has more than nothing left of its turn.
 * I3  queued of a group's flow adds up its tenants'.
 */
#include "gimbal/gimbal_priv.h"

static void group_append(struct gimbal_flow *c, struct gimbal_flow *f)
{
    f->where = GIMBAL_INNER;
    f->inner_next = NULL;
    f->inner_prev = c->inner_last;
    if (c->inner_last == NULL)
        c->inner_first = f;
    else
        c->inner_last->inner_next = f;
    c->inner_last = f;
    c->ready = 1; /* I1 */
}

static void group_remove(struct gimbal_flow *c, struct gimbal_flow *f)
{
    f->where = GIMBAL_IDLE;
    if (f->inner_prev == NULL)
        c->inner_first = f->inner_next;
    else
        f->inner_prev->inner_next = f->inner_next;
    if (f->inner_next == NULL)
        c->inner_last = f->inner_prev;
    else
        f->inner_next->inner_prev = f->inner_prev;
    c->ready = c->inner_first != NULL;
}

static int64_t group_turn(const struct gimbal_flow *f)
{
    return (int64_t)f->tenant->group->inner_quantum * f->tenant->weight;
}

/* On the list, with a whole turn. */
void gimbal_group_enter(struct gimbal_flow *f)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (f->where != GIMBAL_IDLE || f->ready == 0)
        return;
    if (c->inner_first == NULL && gimbal_flow_sibling(c)->inner_first == NULL)
        f->tenant->group->inner_quantum = 1;
    f->inner_left = group_turn(f);
    group_append(c, f);
}

/* Off the list. */
void gimbal_group_leave(struct gimbal_flow *f)
{
    if (f->where == GIMBAL_INNER)
        group_remove(gimbal_carrier(f), f);
}

/* It has an I/O more. What carries it? */
struct gimbal_flow *gimbal_group_queued(struct gimbal_flow *f)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (c == f)
        return f;
    c->queued++; /* I3 */
    gimbal_group_enter(f);
    return c;
}

/* An I/O less is queued. */
void gimbal_group_taken(struct gimbal_flow *f)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (c == f)
        return;
    SNIC_DASSERT(c->queued > 0);
    c->queued--; /* I3 */
    if (f->ready == 0)
        gimbal_group_leave(f);
}

/* It sent an I/O of this cost. */
void gimbal_group_sent(struct gimbal_flow *f, uint32_t cost)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (c == f || f->where != GIMBAL_INNER)
        return;
    if (c->tenant->inner_quantum < cost)
        c->tenant->inner_quantum = cost;
    f->inner_left -= cost;
    if (f->inner_left > 0)
        return;
    f->inner_left += group_turn(f); /* I2 */
    group_remove(c, f);
    group_append(c, f);
}

/* It is not parked any more: to the end of its list, its group's or the round robin's. */
void gimbal_group_join(struct snic_gimbal *g, struct gimbal_flow *f)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (c == f) {
        gimbal_round_join(g, f);
        return;
    }
    f->where = GIMBAL_IDLE;
    gimbal_group_enter(f);
    if (c->where == GIMBAL_IDLE)
        gimbal_round_join(g, c);
}

static int group_list_true(const struct snic_gimbal *g, const struct gimbal_flow *c)
{
    uint32_t listed = 0;
    const struct gimbal_flow *before = NULL;
    for (const struct gimbal_flow *f = c->inner_first; f != NULL; f = f->inner_next) {
        if (++listed > g->o.tenants_max || f->tenant->group != c->tenant || f->op != c->op ||
            f->where != GIMBAL_INNER || f->inner_prev != before || f->ready == 0 ||
            f->inner_left <= 0)
            return 0; /* I1, I2 */
        before = f;
    }
    return c->inner_last == before && c->ready == (listed > 0);
}

int gimbal_group_check(const struct snic_gimbal *g)
{
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
        uint32_t members = 0;
        uint32_t weight = 0;
        for (uint32_t i = 0; i < g->o.tenants_max; i++) {
            const struct gimbal_tenant *t = &g->tenants[i];
            if (t->group != group)
                continue;
            members++;
            weight += gimbal_inside(t) > 0 ? t->weight : 0;
            queued[0] += t->flow[0].queued;
            queued[1] += t->flow[1].queued;
        }
        if (members != group->members || weight != group->busy_weight ||
            queued[0] != group->flow[0].queued || queued[1] != group->flow[1].queued)
            return SNIC_ECORRUPT; /* I3 */
        if (!group_list_true(g, &group->flow[0]) || !group_list_true(g, &group->flow[1]))
            return SNIC_ECORRUPT;
    }
    return 0;
}
