/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Tenants and groups as the owner adds, changes, removes and views them.
 *
 * A tenant that moves to another group takes what it has queued along, to the end of the list
 * there. What it has on the device stays in the slots in which it was sent: the I/O knows its flow.
 *
 * I1  A group has the index tenants_max - 1 + its number, and no group of its own.
 */
#include "gimbal/gimbal_priv.h"

static struct gimbal_tenant *member_find(const struct snic_gimbal *g, uint32_t tenant)
{
    if (tenant >= g->o.tenants_max || (g->tenants[tenant].flags & GIMBAL_ADDED) == 0)
        return NULL;
    return &g->tenants[tenant];
}

/* One that was added; NULL: there is none. */
static struct gimbal_tenant *member_group(const struct snic_gimbal *g, uint32_t group)
{
    if (group == 0 || group > g->o.groups_max)
        return NULL;
    struct gimbal_tenant *t = &g->tenants[g->o.tenants_max - 1 + group]; /* I1 */
    return (t->flags & GIMBAL_ADDED) != 0 ? t : NULL;
}

/* ---- Moving ---- */

/* The flow carries no queued I/Os any more: out of rounds and lists. */
static void member_stop_carrying(struct snic_gimbal *g, struct gimbal_flow *f)
{
    if (g->current == f) {
        if (g->held != NULL) {
            gimbal_bucket_release(g, g->held);
            g->held = NULL;
        }
        g->current = NULL;
    }
    if (f->where == GIMBAL_LISTED)
        gimbal_round_leave(g, f);
    else if (f->where == GIMBAL_DEFERRED)
        gimbal_list_remove(g, &g->deferred, f);
    else if (f->where == GIMBAL_PARKED)
        snic_wheel_cancel(&g->wheel, &f->timer);
    f->deficit = 0;
    gimbal_round_quit(g, f, GIMBAL_IDLE);
}

/* Its I/Os are not the group's any more. */
static void member_leave(struct snic_gimbal *g, struct gimbal_flow *f)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (g->held != NULL && gimbal_flow_of(g, g->held) == f) {
        gimbal_bucket_release(g, g->held);
        g->held = NULL;
    }
    gimbal_group_leave(f);
    if (f->where == GIMBAL_PARKED) {
        snic_wheel_cancel(&g->wheel, &f->timer);
        f->where = GIMBAL_IDLE;
    }
    c->queued -= f->queued;
}

/* What the flow has queued is carried by the group, or by itself again. */
static void member_enter(struct snic_gimbal *g, struct gimbal_flow *f)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (c != f) {
        f->inner_tag = c->inner_tag; /* what it has sent elsewhere does not count here */
        c->queued += f->queued;
        gimbal_group_enter(g, f);
    }
    if (f->queued == 0)
        return;
    gimbal_tenant_active(g, c->tenant);
    if (!c->counted)
        gimbal_slot_count(g, c);
    if (c->where == GIMBAL_IDLE && !c->express)
        gimbal_round_join(g, c);
}

/* Without what it carried: it is not active any more. */
static void member_settle(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    if ((t->flags & (GIMBAL_COUNTED | GIMBAL_LINGERS)) == GIMBAL_COUNTED && gimbal_carried(t) == 0)
        gimbal_tenant_empty(g, t);
}

static void member_move(struct snic_gimbal *g, struct gimbal_tenant *t, struct gimbal_tenant *to)
{
    struct gimbal_tenant *from = t->group;
    if (from == to)
        return;
    for (unsigned op = 0; op < 2; op++) {
        if (from == NULL)
            member_stop_carrying(g, &t->flow[op]);
        else
            member_leave(g, &t->flow[op]);
    }
    uint32_t busy = gimbal_inside(t) > 0 ? t->weight : 0;
    if (from != NULL) {
        gimbal_group_busy(t, 0);
        from->members--;
        from->busy_weight -= busy;
    }
    gimbal_floor_move(g, t, to);
    t->group = to;
    if (to != NULL) {
        to->members++;
        to->busy_weight += busy;
        gimbal_group_busy(t, 1);
    }
    member_settle(g, from != NULL ? from : t);
    for (unsigned op = 0; op < 2; op++)
        member_enter(g, &t->flow[op]);
    if (to != NULL)
        gimbal_floor_begin(g, to, t->flow[0].queued + t->flow[1].queued);
}

/* ---- Adding, changing, removing ---- */

/* The options are right; a tenant or group that is new is not ADDED yet. */
static void member_take_options(struct snic_gimbal *g, struct gimbal_tenant *t,
                                const struct snic_gimbal_tenant_opts *o)
{
    gimbal_cap_set(t, o, g->now_ns, g->o.size_max);
    gimbal_round_weight(g, t, g->o.quantum_bytes * o->weight);
    for (unsigned op = 0; op < 2; op++) {
        if (t->flow[op].where == GIMBAL_DEFERRED)
            t->flow[op].deficit = snic_min_u64(t->flow[op].deficit, t->quantum);
    }
    if (t->group != NULL && gimbal_inside(t) > 0)
        t->group->busy_weight += o->weight - t->weight;
    gimbal_slot_weight(g, t, o->weight);
    t->inner_inverse = (65535 + o->weight) / o->weight;
    if (t->group != NULL)
        gimbal_group_busy(t, 1);
    memcpy(t->priority_weight, o->priority_weight, sizeof(t->priority_weight));
    member_move(g, t, member_group(g, o->group));
    gimbal_floor_set(g, t, o);
}

/* NULL, if the options or the group are wrong, or else @full. */
static const struct snic_gimbal_tenant_opts *member_opts(const struct snic_gimbal *g,
                                                         struct snic_gimbal_tenant_opts *full,
                                                         const struct snic_gimbal_tenant_opts *o,
                                                         int group)
{
    if (gimbal_tenant_opts_fill(full, o) != NULL)
        return NULL;
    if (full->group != 0 && (group || member_group(g, full->group) == NULL))
        return NULL;
    return full;
}

static void member_add(struct snic_gimbal *g, struct gimbal_tenant *t,
                       const struct snic_gimbal_tenant_opts *full, unsigned flags)
{
    struct gimbal_slot *slots[2];
    for (unsigned op = 0; op < 2; op++)
        slots[op] = t->flow[op].slots;
    memset(t, 0, sizeof(*t));
    for (unsigned op = 0; op < 2; op++) {
        struct gimbal_flow *f = &t->flow[op];
        f->tenant = t;
        f->op = (uint8_t)op;
        f->slots = slots[op];
        f->round = g->round;
        gimbal_slot_init(g, f);
    }
    member_take_options(g, t, full);
    t->flags |= (uint8_t)flags;
}

static void member_set(struct snic_gimbal *g, struct gimbal_tenant *t,
                       const struct snic_gimbal_tenant_opts *full)
{
    member_take_options(g, t, full);
    for (unsigned op = 0; op < 2; op++)
        gimbal_cap_unpark(g, &t->flow[op]); /* its new caps may let it go now */
    g->deadline_ns = g->now_ns;
}

int snic_gimbal_tenant_add(struct snic_gimbal *g, uint32_t tenant,
                           const struct snic_gimbal_tenant_opts *o)
{
    struct snic_gimbal_tenant_opts full;
    if (tenant >= g->o.tenants_max)
        return SNIC_EINVAL;
    struct gimbal_tenant *t = &g->tenants[tenant];
    if ((t->flags & GIMBAL_REMOVED) != 0)
        return SNIC_EBUSY;
    if ((t->flags & GIMBAL_ADDED) != 0)
        return SNIC_EEXIST;
    if (member_opts(g, &full, o, 0) == NULL)
        return SNIC_EINVAL;
    member_add(g, t, &full, GIMBAL_ADDED);
    g->count++;
    return 0;
}

int snic_gimbal_tenant_set(struct snic_gimbal *g, uint32_t tenant,
                           const struct snic_gimbal_tenant_opts *o)
{
    struct snic_gimbal_tenant_opts full;
    struct gimbal_tenant *t = member_find(g, tenant);
    if (t == NULL || (t->flags & GIMBAL_REMOVED) != 0)
        return SNIC_ENOENT;
    if (member_opts(g, &full, o, 0) == NULL)
        return SNIC_EINVAL;
    member_set(g, t, &full);
    return 0;
}

int snic_gimbal_tenant_remove(struct snic_gimbal *g, uint32_t tenant)
{
    struct gimbal_tenant *t = member_find(g, tenant);
    if (t == NULL || (t->flags & GIMBAL_REMOVED) != 0)
        return SNIC_ENOENT;
    t->flags |= GIMBAL_REMOVED;
    if (gimbal_inside(t) == 0)
        gimbal_tenant_free(g, t);
    g->deadline_ns = g->now_ns;
    return 0;
}

int snic_gimbal_group_add(struct snic_gimbal *g, uint32_t group,
                          const struct snic_gimbal_tenant_opts *o)
{
    struct snic_gimbal_tenant_opts full;
    if (group == 0 || group > g->o.groups_max)
        return SNIC_EINVAL;
    if (member_group(g, group) != NULL)
        return SNIC_EEXIST;
    if (member_opts(g, &full, o, 1) == NULL)
        return SNIC_EINVAL;
    struct gimbal_tenant *t = &g->tenants[g->o.tenants_max - 1 + group]; /* I1 */
    member_add(g, t, &full, GIMBAL_ADDED | GIMBAL_GROUP);
    g->groups++;
    return 0;
}

int snic_gimbal_group_set(struct snic_gimbal *g, uint32_t group,
                          const struct snic_gimbal_tenant_opts *o)
{
    struct snic_gimbal_tenant_opts full;
    struct gimbal_tenant *t = member_group(g, group);
    if (t == NULL)
        return SNIC_ENOENT;
    if (member_opts(g, &full, o, 1) == NULL)
        return SNIC_EINVAL;
    member_set(g, t, &full);
    return 0;
}

int snic_gimbal_group_remove(struct snic_gimbal *g, uint32_t group)
{
    struct gimbal_tenant *t = member_group(g, group);
    if (t == NULL)
        return SNIC_ENOENT;
    if (t->members > 0 || gimbal_carried(t) > 0)
        return SNIC_EBUSY;
    gimbal_tenant_free(g, t);
    g->deadline_ns = g->now_ns;
    return 0;
}

/* ---- Views ---- */

static void member_view(const struct snic_gimbal *g, const struct gimbal_tenant *t,
                        struct snic_gimbal_tenant_view *out)
{
    int group = (t->flags & GIMBAL_GROUP) != 0;
    memset(out, 0, sizeof(*out));
    out->credit = gimbal_slot_credit(g, t);
    out->weight = t->weight;
    for (unsigned op = 0; op < 2; op++) {
        const struct gimbal_flow *f = &t->flow[op];
        out->bytes[op] = t->bytes[op];
        out->ios[op] = t->ios[op];
        out->queued += f->queued;
        out->inflight += group ? f->inflight : f->sent;
        out->lost += f->lost;
        out->deferred |= f->where == GIMBAL_DEFERRED;
        out->parked |= f->where == GIMBAL_PARKED;
    }
    out->wait_ns = t->wait_ns;
    out->device_ns = t->device_ns;
    out->draining = (t->flags & GIMBAL_REMOVED) != 0;
    out->errors = t->errors;
    out->floor_bytes_per_second = gimbal_floor_now(g, &t->floor[0]);
    out->floor_ios_per_second = gimbal_floor_now(g, &t->floor[1]);
    out->floor_ios = t->floor_ios;
    out->late = (uint32_t)gimbal_floor_late(g, t);
    if (t->group != NULL)
        out->group = gimbal_index(g, t->group) - g->o.tenants_max + 1; /* I1 */
    out->members = t->members;
}

int snic_gimbal_get_tenant_view(const struct snic_gimbal *g, uint32_t tenant,
                                struct snic_gimbal_tenant_view *out)
{
    const struct gimbal_tenant *t = member_find(g, tenant);
    if (t == NULL)
        return SNIC_ENOENT;
    member_view(g, t, out);
    return 0;
}

int snic_gimbal_get_group_view(const struct snic_gimbal *g, uint32_t group,
                               struct snic_gimbal_tenant_view *out)
{
    const struct gimbal_tenant *t = member_group(g, group);
    if (t == NULL)
        return SNIC_ENOENT;
    member_view(g, t, out);
    return 0;
}

/* a * b / c, rounded up, or UINT64_MAX; c > 0. */
static uint64_t gimbal_member_mul_div(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return a / c >= UINT64_MAX / b - 1 ? UINT64_MAX : (a / c + 1) * b;
    return product / c + (product % c != 0);
}

uint64_t snic_gimbal_wait_max_ns(const struct snic_gimbal *g, uint32_t tenant, uint64_t device_ns)
{
    if (tenant >= g->o.tenants_max || (g->tenants[tenant].flags & GIMBAL_ADDED) == 0)
        return 0;
    const struct gimbal_tenant *t = &g->tenants[tenant];
    const struct gimbal_tenant *c = t->group != NULL ? t->group : t;
    uint64_t cost = (uint64_t)g->o.size_max * g->o.write_cost_worst / SNIC_GIMBAL_COST_ONE;
    uint32_t half = c->quantum / 2; /* while it reads and writes */
    uint64_t rounds = (cost + g->o.quantum_bytes + half - 1) / half + 2;
    uint64_t weights = 0;
    uint64_t inner = 0; /* turns in its group: by weight, and what each may overdraw */
    for (uint32_t i = 0; i < g->objects; i++) {
        const struct gimbal_tenant *other = &g->tenants[i];
        if ((other->flags & GIMBAL_ADDED) == 0)
            continue;
        if (other->group == NULL)
            weights += other->weight;
        if (c != t && other->group == c)
            inner += other->weight + 1;
    }
    rounds *= inner > 0 ? inner : 1;
    /* Below 2^24 rounds of 2^22 bytes for 2^20 weights, 2^34 for each of 2^13 tenants and groups;
     * in a group up to 2^20 times as many rounds. */
    uint64_t bytes = 2 * ((uint64_t)g->count + g->groups) * (2 * cost + g->o.quantum_bytes);
    bytes = gimbal_member_mul_div(bytes, weights, c->weight);
    uint64_t turns;
    if (__builtin_mul_overflow(rounds, 2 * (uint64_t)g->o.quantum_bytes, &turns) ||
        __builtin_mul_overflow(turns, (uint64_t)(g->floors > 0 ? 8 : 1), &turns) ||
        __builtin_mul_overflow(bytes, (uint64_t)(g->floors > 0 ? 8 : 1), &bytes) ||
        __builtin_mul_overflow(turns, weights, &turns) ||
        __builtin_add_overflow(bytes, turns, &bytes))
        return UINT64_MAX;
    uint64_t wait = gimbal_member_mul_div(bytes, SNIC_GIMBAL__BYTE, g->o.rate_min);
    uint64_t caps =
        snic_max_u64(gimbal_cap_cost_ns(t, g->o.size_max), gimbal_cap_cost_ns(c, g->o.size_max));
    /* The deadline of tokens may be late by 2^-13 (bucket.c). */
    if (__builtin_add_overflow(wait, wait >> 12, &wait) ||
        __builtin_add_overflow(wait, device_ns, &wait) || __builtin_add_overflow(wait, caps, &wait))
        return UINT64_MAX;
    return wait;
}
