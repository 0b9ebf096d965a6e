/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Tenants: which of them are active, adding and removing.
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

static void gimbal_tenant_uncount(struct snic_gimbal *g, struct gimbal_tenant *t)
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

static void gimbal_tenant_free(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    SNIC_ASSERT(gimbal_inside(t) == 0 && g->count > 0);
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
    t->flags = 0;
    g->count--;
}

/* The tenant has no I/O any more. */
void gimbal_tenant_empty(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    if ((t->flags & GIMBAL_REMOVED) != 0) {
        gimbal_tenant_free(g, t);
        return;
    }
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

/* ---- Adding and removing ---- */

static struct gimbal_tenant *gimbal_tenant_find(const struct snic_gimbal *g, uint32_t tenant)
{
    if (tenant >= g->o.tenants_max || (g->tenants[tenant].flags & GIMBAL_ADDED) == 0)
        return NULL;
    return &g->tenants[tenant];
}

static int gimbal_tenant_apply(struct snic_gimbal *g, struct gimbal_tenant *t,
                               const struct snic_gimbal_tenant_opts *o)
{
    struct snic_gimbal_tenant_opts full;
    if (gimbal_tenant_opts_fill(&full, o) != NULL)
        return SNIC_EINVAL;
    gimbal_cap_set(t, &full);
    gimbal_round_weight(g, t, g->o.quantum_bytes * full.weight);
    for (unsigned op = 0; op < 2; op++) {
        if (t->flow[op].where == GIMBAL_DEFERRED)
            t->flow[op].deficit = snic_min_u64(t->flow[op].deficit, t->quantum);
    }
    gimbal_slot_weight(g, t, full.weight);
    memcpy(t->priority_weight, full.priority_weight, sizeof(t->priority_weight));
    return 0;
}

int snic_gimbal_tenant_add(struct snic_gimbal *g, uint32_t tenant,
                           const struct snic_gimbal_tenant_opts *o)
{
    struct gimbal_slot *slots[2];
    if (tenant >= g->o.tenants_max)
        return SNIC_EINVAL;
    struct gimbal_tenant *t = &g->tenants[tenant];
    if ((t->flags & GIMBAL_REMOVED) != 0)
        return SNIC_EBUSY;
    if ((t->flags & GIMBAL_ADDED) != 0)
        return SNIC_EEXIST;
    if (snic_gimbal_tenant_opts_wrong(o) != NULL)
        return SNIC_EINVAL;
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
    if (gimbal_tenant_apply(g, t, o) != 0)
        return SNIC_EINVAL; /* not possible: they were checked */
    t->flags |= GIMBAL_ADDED;
    g->count++;
    return 0;
}

int snic_gimbal_tenant_set(struct snic_gimbal *g, uint32_t tenant,
                           const struct snic_gimbal_tenant_opts *o)
{
    struct gimbal_tenant *t = gimbal_tenant_find(g, tenant);
    if (t == NULL || (t->flags & GIMBAL_REMOVED) != 0)
        return SNIC_ENOENT;
    if (gimbal_tenant_apply(g, t, o) != 0)
        return SNIC_EINVAL;
    gimbal_cap_forgive(g, t);
    for (unsigned op = 0; op < 2; op++)
        gimbal_cap_unpark(g, &t->flow[op]); /* its new caps may let it go now */
    g->deadline_ns = g->now_ns;
    return 0;
}

int snic_gimbal_tenant_remove(struct snic_gimbal *g, uint32_t tenant)
{
    struct gimbal_tenant *t = gimbal_tenant_find(g, tenant);
    if (t == NULL || (t->flags & GIMBAL_REMOVED) != 0)
        return SNIC_ENOENT;
    t->flags |= GIMBAL_REMOVED;
    if (gimbal_inside(t) == 0)
        gimbal_tenant_free(g, t);
    g->deadline_ns = g->now_ns;
    return 0;
}

int snic_gimbal_get_tenant_view(const struct snic_gimbal *g, uint32_t tenant,
                                struct snic_gimbal_tenant_view *out)
{
    const struct gimbal_tenant *t = gimbal_tenant_find(g, tenant);
    if (t == NULL)
        return SNIC_ENOENT;
    memset(out, 0, sizeof(*out));
    out->credit = gimbal_slot_credit(g, t);
    out->weight = t->weight;
    for (unsigned op = 0; op < 2; op++) {
        const struct gimbal_flow *f = &t->flow[op];
        out->bytes[op] = t->bytes[op];
        out->ios[op] = t->ios[op];
        out->queued += f->queued;
        out->inflight += f->inflight;
        out->lost += f->lost;
        out->deferred |= f->where == GIMBAL_DEFERRED;
        out->parked |= f->where == GIMBAL_PARKED;
    }
    out->wait_ns = t->wait_ns;
    out->device_ns = t->device_ns;
    out->draining = (t->flags & GIMBAL_REMOVED) != 0;
    out->errors = t->errors;
    return 0;
}

/* a * b / c, rounded up, or UINT64_MAX; c > 0. */
static uint64_t gimbal_tenant_mul_div(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return a / c >= UINT64_MAX / b - 1 ? UINT64_MAX : (a / c + 1) * b;
    return product / c + (product % c != 0);
}

uint64_t snic_gimbal_wait_max_ns(const struct snic_gimbal *g, uint32_t tenant, uint64_t device_ns)
{
    const struct gimbal_tenant *t = gimbal_tenant_find(g, tenant);
    if (t == NULL)
        return 0;
    uint64_t cost = (uint64_t)g->o.size_max * g->o.write_cost_worst / SNIC_GIMBAL_COST_ONE;
    uint32_t half = t->quantum / 2; /* while it reads and writes */
    uint64_t rounds = (cost + g->o.quantum_bytes + half - 1) / half + 2;
    uint64_t weights = 0;
    for (uint32_t i = 0; i < g->o.tenants_max; i++) {
        if ((g->tenants[i].flags & GIMBAL_ADDED) != 0)
            weights += g->tenants[i].weight;
    }
    /* Below 2^24 rounds of 2^22 bytes for 2^20 weights, 2^34 for each of 2^12 tenants. */
    uint64_t bytes = 2 * g->count * (2 * cost + g->o.quantum_bytes);
    bytes = gimbal_tenant_mul_div(bytes, weights, t->weight);
    uint64_t turns = 2 * rounds * g->o.quantum_bytes;
    if (__builtin_mul_overflow(turns, weights, &turns) ||
        __builtin_add_overflow(bytes, turns, &bytes))
        return UINT64_MAX;
    uint64_t wait = gimbal_tenant_mul_div(bytes, SNIC_GIMBAL__BYTE, g->o.rate_min);
    /* The deadline of tokens may be late by 2^-13 (bucket.c). */
    if (__builtin_add_overflow(wait, wait >> 12, &wait) ||
        __builtin_add_overflow(wait, device_ns, &wait) ||
        __builtin_add_overflow(wait, gimbal_cap_cost_ns(t, g->o.size_max), &wait))
        return UINT64_MAX;
    return wait;
}

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
    if (!gimbal_tenant_queues_true(g, f))
        return 0;
    if (f->where == GIMBAL_IDLE && f->queued != 0 && !f->express)
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
            gimbal_inside(t) != 0 || t->idle_ns > g->now_ns)
            return 0; /* I2 */
        before = i;
    }
    for (uint32_t i = 0; i < g->o.tenants_max; i++)
        lingers -= (g->tenants[i].flags & GIMBAL_LINGERS) != 0;
    return lingers == 0 && g->linger.last == before;
}

int gimbal_tenant_check(const struct snic_gimbal *g)
{
    uint32_t count = 0;
    uint32_t active = 0;
    uint32_t queued = 0;
    uint32_t inflight = 0;
    for (uint32_t i = 0; i < g->o.tenants_max; i++) {
        const struct gimbal_tenant *t = &g->tenants[i];
        unsigned busy = gimbal_inside(t) != 0;
        if ((t->flags & GIMBAL_ADDED) == 0) {
            if (t->flags != 0 || busy || t->flow[0].where + t->flow[1].where != GIMBAL_IDLE)
                return SNIC_ECORRUPT;
            continue;
        }
        count++;
        active += (t->flags & GIMBAL_COUNTED) != 0;
        for (unsigned op = 0; op < 2; op++) {
            queued += t->flow[op].queued;
            inflight += t->flow[op].inflight;
            if (!gimbal_tenant_flow_true(g, &t->flow[op]))
                return SNIC_ECORRUPT;
        }
        if (gimbal_inside(t) > g->o.queue_max)
            return SNIC_ECORRUPT;
        if (busy && (t->flags & (GIMBAL_COUNTED | GIMBAL_LINGERS)) != GIMBAL_COUNTED)
            return SNIC_ECORRUPT; /* I1 */
        if (!busy && (t->flags & GIMBAL_REMOVED) != 0)
            return SNIC_ECORRUPT;
    }
    if (count != g->count || active != g->active || queued != g->queued ||
        inflight != g->inflight || !gimbal_tenant_lingers_true(g))
        return SNIC_ECORRUPT;
    return 0;
}
