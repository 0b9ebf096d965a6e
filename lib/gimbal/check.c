/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The whole switch, piece by piece; each file knows its own invariants.
 */
#include "gimbal/gimbal_priv.h"

static int gimbal_check_deferred(const struct snic_gimbal *g)
{
    uint32_t listed = 0;
    uint32_t before = SNIC_GIMBAL__NIL;
    for (uint32_t i = g->deferred.first; i != SNIC_GIMBAL__NIL;) {
        const struct gimbal_flow *f = gimbal_flow_at(g, i);
        if (i >= 2 * g->objects || ++listed > 2 * (g->count + g->groups) ||
            f->where != GIMBAL_DEFERRED || f->prev != before || f->deficit > f->tenant->quantum ||
            f->open != SNIC_GIMBAL__NO_SLOT)
            return SNIC_ECORRUPT;
        /* A flow does not wait for a slot that it could have. */
        if (f->used < g->slots * f->tenant->lanes && f->free_slots != 0)
            return SNIC_ECORRUPT;
        before = i;
        i = f->next;
    }
    for (uint32_t i = 0; i < 2 * g->objects; i++)
        listed -= gimbal_flow_at(g, i)->where == GIMBAL_DEFERRED;
    return listed == 0 && g->deferred.last == before ? 0 : SNIC_ECORRUPT;
}

static int gimbal_check_held(const struct snic_gimbal *g)
{
    const struct snic_gimbal_io *io = g->held;
    if (io == NULL)
        return 0;
    const struct gimbal_flow *f = g->current;
    if (f == NULL || gimbal_carrier(gimbal_flow_of(g, io)) != f || io->state != GIMBAL_IO_QUEUED ||
        io->weighted > f->deficit || f->open == SNIC_GIMBAL__NO_SLOT)
        return SNIC_ECORRUPT;
    return 0;
}

static int gimbal_check_timers(const struct snic_gimbal *g)
{
    uint32_t armed = 0;
    for (uint32_t i = 0; i < g->objects; i++) {
        const struct snic_timer *timer = &g->tenants[i].floor_timer;
        if (timer->fn == NULL || !timer->armed)
            continue;
        armed++;
        if (timer->deadline_ns < g->timer_ns)
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = 0; i < 2 * g->objects; i++) {
        const struct gimbal_flow *f = gimbal_flow_at(g, i);
        if (f->where != GIMBAL_PARKED)
            continue;
        armed++;
        if (f->timer.deadline_ns < g->timer_ns)
            return SNIC_ECORRUPT;
    }
    if (g->watch.first != SNIC_GIMBAL__NIL &&
        g->all_slots[g->watch.first].since_ns + g->o.lost_ns < g->timer_ns &&
        g->probe_ns + g->o.lost_ns < g->timer_ns)
        return SNIC_ECORRUPT;
    if (armed != g->wheel.armed)
        return SNIC_ECORRUPT;
    return snic_wheel_check(&g->wheel);
}

int snic_gimbal_check(const struct snic_gimbal *g)
{
    if (gimbal_tenant_check(g) != 0 || gimbal_round_check(g) != 0 || gimbal_slot_check(g) != 0)
        return SNIC_ECORRUPT;
    if (gimbal_bucket_check(g) != 0 || gimbal_congestion_check(g) != 0 ||
        gimbal_check_deferred(g) != 0 || gimbal_express_check(g) != 0 ||
        gimbal_group_check(g) != 0 || gimbal_floor_check(g) != 0)
        return SNIC_ECORRUPT;
    if (g->write_cost < SNIC_GIMBAL_COST_ONE || g->write_cost > g->o.write_cost_worst)
        return SNIC_ECORRUPT;
    if (gimbal_check_held(g) != 0 || gimbal_check_timers(g) != 0 || gimbal_tune_check(g) != 0)
        return SNIC_ECORRUPT;
    return 0;
}
