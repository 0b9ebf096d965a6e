/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Tenants, and groups, which take part as one: which of them are active. I/Os here are those that a
 * tenant carries: a tenant of a group carries none, its group does.
 *
 * I1  A tenant is counted in active from its first I/O until idle_ns after its last: a client
 *     that sends one I/O after the other does not hand its slots to the others between two.
 * I2  The linger list holds the counted tenants without I/O, longest first.
 */
#include "gimbal/gimbal_priv.h"

/* ---- Active tenants ---- */

static void gimbal_tenant_unlinger(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    if ((t->flags & GIMBAL_LINGERS) == 0)
        return;
    t->flags &= (uint8_t)~GIMBAL_LINGERS;
    if (t->linger_prev == SNIC_GIMBAL__NIL)
        g->linger.first = t->linger_next;
    else
        g->tenants[t->linger_prev].linger_next = t->linger_next;
    if (t->linger_next == SNIC_GIMBAL__NIL)
        g->linger.last = t->linger_prev;
    else
        g->tenants[t->linger_next].linger_prev = t->linger_prev;
}

void gimbal_tenant_uncount(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    gimbal_tenant_unlinger(g, t);
    if ((t->flags & GIMBAL_COUNTED) == 0)
        return;
    SNIC_ASSERT(g->active > 0);
    t->flags &= (uint8_t)~GIMBAL_COUNTED;
    g->active--;
    gimbal_slot_active(g, t, 0);
}

/* The tenant has an I/O. */
void gimbal_tenant_active(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    gimbal_tenant_unlinger(g, t);
    if ((t->flags & GIMBAL_COUNTED) != 0)
        return;
    t->flags |= GIMBAL_COUNTED;
    g->active++;
    gimbal_slot_active(g, t, 1);
}

/* A tenant, or a group, without I/Os is no more. */
void gimbal_tenant_free(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    SNIC_ASSERT(gimbal_inside(t) == 0 && gimbal_carried(t) == 0);
    const struct snic_gimbal_tenant_opts none = {.opts_size = sizeof(none)};
    gimbal_floor_set(g, t, &none);
    for (unsigned op = 0; op < 2; op++) {
        struct gimbal_flow *f = &t->flow[op];
        gimbal_express_leave(g, f);
        if (f->where == GIMBAL_LISTED)
            gimbal_round_leave(g, f);
        else if (f->where == GIMBAL_DEFERRED)
            gimbal_list_remove(g, &g->deferred, f);
        else if (f->where == GIMBAL_PARKED)
            snic_wheel_cancel(&g->wheel, &f->timer);
        if (g->current == f)
            g->current = NULL;
        f->where = GIMBAL_IDLE;
        gimbal_slot_drop(g, f);
    }
    gimbal_tenant_uncount(g, t);
    if ((t->flags & GIMBAL_GROUP) != 0)
        g->groups--;
    else
        g->count--;
    if (t->group != NULL)
        t->group->members--;
    t->group = NULL;
    t->flags = 0;
}

/* The tenant carries no I/O any more. */
void gimbal_tenant_empty(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    SNIC_DASSERT((t->flags & (GIMBAL_COUNTED | GIMBAL_LINGERS)) == GIMBAL_COUNTED);
    uint32_t i = gimbal_index(g, t);
    t->flags |= GIMBAL_LINGERS;
    t->idle_ns = g->now_ns;
    t->linger_next = SNIC_GIMBAL__NIL;
    t->linger_prev = g->linger.last;
    if (t->linger_prev == SNIC_GIMBAL__NIL)
        g->linger.first = i;
    else
        g->tenants[t->linger_prev].linger_next = i;
    g->linger.last = i;
    if (g->deferred.first != SNIC_GIMBAL__NIL)
        g->timer_ns = snic_min_u64(g->timer_ns, g->now_ns + g->o.idle_ns);
}

/* Those idle for long enough are not active; when is the next one not? */
uint64_t gimbal_tenant_linger(struct snic_gimbal *g, uint64_t now)
{
    while (g->linger.first != SNIC_GIMBAL__NIL) {
        struct gimbal_tenant *t = &g->tenants[g->linger.first];
        if (now - t->idle_ns < g->o.idle_ns)
            return t->idle_ns + g->o.idle_ns;
        gimbal_tenant_uncount(g, t);
    }
    return SNIC_NEVER;
}

/* ---- Check ---- */

/* I1 of queue.c for one flow. */
static int gimbal_tenant_queues_true(const struct snic_gimbal *g, const struct gimbal_flow *f)
{
    uint32_t queued = 0;
    for (unsigned p = 0; p < SNIC_GIMBAL_PRIORITIES; p++) {
        const struct snic_gimbal_io *last = f->last[p];
        if ((last != NULL) != (f->ready >> p & 1))
            return 0;
        if (last == NULL)
            continue;
        const struct snic_link *l = last->link.next;
        for (;; l = l->next) {
            const struct snic_gimbal_io *io = SNIC_CONTAINER(l, struct snic_gimbal_io, link);
            if (l->next->prev != l || gimbal_flow_of(g, io) != f || io->priority != p ||
                io->state != GIMBAL_IO_QUEUED || ++queued > f->queued)
                return 0;
            if (io == last)
                break;
        }
    }
    return queued == f->queued;
}

static int gimbal_tenant_flow_true(const struct snic_gimbal *g, const struct gimbal_flow *f)
{
    int group = (f->tenant->flags & GIMBAL_GROUP) != 0;
    if (!group && !gimbal_tenant_queues_true(g, f))
        return 0;
    if (f->where == GIMBAL_IDLE && f->ready != 0 && !f->express)
        return 0;
    if ((f->where == GIMBAL_PARKED) != (f->timer.fn != NULL && f->timer.armed))
        return 0;
    return (f->where == GIMBAL_CURRENT) == (g->current == f);
}

static int gimbal_tenant_lingers_true(const struct snic_gimbal *g)
{
    uint32_t lingers = 0;
    uint32_t before = SNIC_GIMBAL__NIL;
    for (uint32_t i = g->linger.first; i != SNIC_GIMBAL__NIL; i = g->tenants[i].linger_next) {
        const struct gimbal_tenant *t = &g->tenants[i];
        if (++lingers > g->active || (t->flags & GIMBAL_LINGERS) == 0 || t->linger_prev != before ||
            gimbal_carried(t) != 0 || t->idle_ns > g->now_ns)
            return 0; /* I2 */
        before = i;
    }
    for (uint32_t i = 0; i < g->objects; i++)
        lingers -= (g->tenants[i].flags & GIMBAL_LINGERS) != 0;
    return lingers == 0 && g->linger.last == before;
}

int gimbal_tenant_check(const struct snic_gimbal *g)
{
    uint32_t count[2] = {0, 0};
    uint32_t active = 0;
    uint32_t queued = 0;
    uint32_t inflight[2] = {0, 0};
    for (uint32_t i = 0; i < g->objects; i++) {
        const struct gimbal_tenant *t = &g->tenants[i];
        unsigned busy = gimbal_carried(t) != 0;
        int group = i >= g->o.tenants_max;
        if ((t->flags & GIMBAL_ADDED) == 0) {
            if (t->flags != 0 || busy || t->flow[0].where + t->flow[1].where != GIMBAL_IDLE ||
                t->group != NULL)
                return SNIC_ECORRUPT;
            continue;
        }
        count[group]++;
        active += (t->flags & GIMBAL_COUNTED) != 0;
        for (unsigned op = 0; op < 2; op++) {
            queued += group ? 0 : t->flow[op].queued;
            inflight[0] += t->flow[op].inflight;
            inflight[1] += t->flow[op].sent;
            if (!gimbal_tenant_flow_true(g, &t->flow[op]))
                return SNIC_ECORRUPT;
        }
        if (gimbal_inside(t) > g->o.queue_max && !group)
            return SNIC_ECORRUPT;
        if (busy && (t->flags & (GIMBAL_COUNTED | GIMBAL_LINGERS)) != GIMBAL_COUNTED)
            return SNIC_ECORRUPT; /* I1 */
        if (gimbal_inside(t) == 0 && (t->flags & GIMBAL_REMOVED) != 0)
            return SNIC_ECORRUPT;
    }
    if (count[0] != g->count || count[1] != g->groups || active != g->active ||
        queued != g->queued || inflight[0] != g->inflight || inflight[1] != g->inflight ||
        !gimbal_tenant_lingers_true(g))
        return SNIC_ECORRUPT;
    return 0;
}
