/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Virtual slots (section 3.5, Algorithm 2). A tenant's slot collects I/Os until their weighted
 * size reaches the slot's bytes, then it is full; a full slot is the tenant's until its I/Os have
 * completed. The paper waits for the last of them (SNIC_GIMBAL_SLOT_BARRIER), and the slowest of
 * 32 small I/Os takes several times the mean: the device is left with little to do. Ours replaces
 * a full slot when no more than slot_overlap of its I/Os are out; it drains beside its successors,
 * as long as all that drains of the tenant is no more than slot_overlap of its share of slots.
 *
 * All or none: a slot of few, large I/Os cannot be replaced piece by piece, so that small I/Os
 * would gain at the expense of large ones, or of writes, whose cost makes them few per slot. While
 * an active tenant's latest slot had fewer than SNIC_GIMBAL__FINE I/Os per weight, everybody waits
 * for the last I/O.
 *
 * I1  A slot is free, open (used), full (used, full), or draining (used, full, draining). A tenant
 *     has at most one open slot; t->used counts open and full ones, t->draining the draining ones.
 * I2  A full slot has I/Os out. t->drain_out counts those of draining slots.
 * I3  out counts the I/Os on the device whose number of use is the slot's. An I/O of an earlier
 *     use belongs to a slot that was given up: it is counted in lost, its tenant's and the
 *     switch's, until it completes.
 * I4  The watch list holds every full or draining slot and every open one with I/Os out (others
 *     stay on it until their time), in order of since_ns.
 * I5  coarse counts the tenants flagged so: the active ones with few I/Os in their latest slot.
 */
#include "gimbal/gimbal_priv.h"

static struct gimbal_slot *slot_at(const struct snic_gimbal *g, uint32_t number)
{
    return &g->all_slots[number];
}

static uint32_t slot_number(const struct snic_gimbal *g, const struct gimbal_slot *s)
{
    return (uint32_t)(s - g->all_slots);
}

static void slot_unwatch(struct snic_gimbal *g, struct gimbal_slot *s)
{
    if (!s->watched)
        return;
    if (s->prev == SNIC_GIMBAL__NIL)
        g->watch.first = s->next;
    else
        slot_at(g, s->prev)->next = s->next;
    if (s->next == SNIC_GIMBAL__NIL)
        g->watch.last = s->prev;
    else
        slot_at(g, s->next)->prev = s->prev;
    s->watched = 0;
}

/* At the end of the list, from now on. */
static void slot_watch(struct snic_gimbal *g, struct gimbal_slot *s)
{
    uint32_t number = slot_number(g, s);
    slot_unwatch(g, s);
    s->watched = 1;
    s->since_ns = g->now_ns;
    s->next = SNIC_GIMBAL__NIL;
    s->prev = g->watch.last;
    if (s->prev == SNIC_GIMBAL__NIL) {
        g->watch.first = number;
        g->timer_ns = snic_min_u64(g->timer_ns, g->now_ns + g->o.lost_ns);
    } else {
        slot_at(g, s->prev)->next = number;
    }
    g->watch.last = number;
}

void gimbal_slot_init(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    t->open = SNIC_GIMBAL__NO_SLOT;
    t->used = 0;
    t->draining = 0;
    t->drain_out = 0;
    t->free_slots = g->slot_objects == 64 ? UINT64_MAX : ((uint64_t)1 << g->slot_objects) - 1;
}

/* 1 when the tenant has an open slot now. */
int gimbal_slot_open(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    if (t->open != SNIC_GIMBAL__NO_SLOT)
        return 1;
    if (t->used >= g->slots || t->free_slots == 0)
        return 0;
    unsigned i = (unsigned)__builtin_ctzll(t->free_slots);
    struct gimbal_slot *s = &t->slots[i];
    t->free_slots &= t->free_slots - 1;
    t->open = (uint8_t)i;
    t->used++;
    s->used = 1;
    s->out = 0;
    s->ios = 0;
    s->weighted = 0;
    return 1;
}

/* The slot is nobody's again; I/Os still out of it are lost (I3). */
static void slot_free(struct snic_gimbal *g, struct gimbal_tenant *t, struct gimbal_slot *s)
{
    if (s->draining) {
        t->draining--;
        t->drain_out -= s->out;
    } else {
        t->used--;
    }
    slot_unwatch(g, s);
    s->use++;
    s->used = 0;
    s->full = 0;
    s->draining = 0;
    t->free_slots |= (uint64_t)1 << (s - t->slots);
}

/* The tenant is active or not any more, has another weight or another latest slot: I5. */
void gimbal_slot_grain(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    int was = (t->flags & GIMBAL_COARSE) != 0;
    int is = (t->flags & GIMBAL_COUNTED) != 0 && t->last_ios < SNIC_GIMBAL__FINE * t->weight;
    if (was == is)
        return;
    t->flags ^= GIMBAL_COARSE;
    g->coarse += is ? 1u : UINT32_MAX;
}

/* A slot has done its time: what the next ones will hold is known by it. */
static void slot_latest(struct snic_gimbal *g, struct gimbal_tenant *t, const struct gimbal_slot *s)
{
    if (t->last_ios == s->ios)
        return;
    t->last_ios = s->ios;
    gimbal_slot_grain(g, t);
}

/* After a full slot came to have fewer I/Os out: is it done, or may it be replaced? */
static void slot_settle(struct snic_gimbal *g, struct gimbal_tenant *t, struct gimbal_slot *s)
{
    if (s->out == 0) {
        if (!s->draining)
            slot_latest(g, t, s);
        slot_free(g, t, s);
    } else if (!s->draining && s->out <= s->allow && g->coarse == 0 && t->free_slots != 0 &&
               t->drain_out + s->out <= (uint64_t)s->allow * g->slots) {
        slot_latest(g, t, s);
        t->used--;
        t->draining++;
        t->drain_out += s->out;
        s->draining = 1;
    }
}

static int slot_reached(const struct snic_gimbal *g, const struct gimbal_tenant *t, uint32_t size)
{
    if ((g->o.flags & SNIC_GIMBAL_SLOT_ABOVE) != 0)
        return size > t->slot_bytes;
    return size >= t->slot_bytes;
}

/* Algorithm 2, sched_submit, into the open slot. */
void gimbal_slot_send(struct snic_gimbal *g, struct gimbal_tenant *t, struct snic_gimbal_io *io)
{
    unsigned i = t->open;
    struct gimbal_slot *s = &t->slots[i];

    io->state = (uint16_t)(GIMBAL_IO_OUT | i << 8);
    io->slot = s->use;
    s->sent_ns = g->now_ns;
    s->out++;
    s->ios++;
    s->weighted += io->weighted;
    if (!s->watched)
        slot_watch(g, s);
    if (!slot_reached(g, t, s->weighted))
        return;
    s->full = 1;
    s->allow = 0;
    if ((g->o.flags & SNIC_GIMBAL_SLOT_BARRIER) == 0)
        s->allow = (uint32_t)((uint64_t)s->ios * g->o.slot_overlap >> 8);
    t->open = SNIC_GIMBAL__NO_SLOT;
    slot_watch(g, s);
    slot_settle(g, t, s);
}

static void slot_wake(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    if (t->where != GIMBAL_DEFERRED || !gimbal_slot_open(g, t))
        return;
    gimbal_list_remove(g, &g->deferred, t);
    gimbal_round_join(g, t);
}

/* Algorithm 2, sched_complete. */
void gimbal_slot_done(struct snic_gimbal *g, struct gimbal_tenant *t,
                      const struct snic_gimbal_io *io)
{
    struct gimbal_slot *s = &t->slots[io->state >> 8];
    if (SNIC_UNLIKELY(io->slot != s->use)) {
        t->lost--;
        g->lost--;
        return;
    }
    s->out--;
    if (!s->full)
        return;
    if (s->draining)
        t->drain_out--;
    slot_settle(g, t, s);
    slot_wake(g, t);
}

/* More slots for each: the deferred may have one. Only few tenants are active then. */
static void slot_wake_all(struct snic_gimbal *g)
{
    uint32_t i = g->deferred.first;
    while (i != SNIC_GIMBAL__NIL) {
        struct gimbal_tenant *t = &g->tenants[i];
        i = t->next;
        slot_wake(g, t);
    }
}

/* The number of active tenants has changed. */
void gimbal_slot_share(struct snic_gimbal *g)
{
    uint32_t share = g->o.slot_threshold; /* of nobody */
    if (g->active > 1)
        share = g->active >= share ? 1 : share / g->active;
    if (share == g->slots)
        return;
    int more = share > g->slots;
    g->slots = share;
    if (more)
        slot_wake_all(g);
}

/* A full slot of the tenant is given up, or an open one forgets what it sent. */
static void slot_give_up(struct snic_gimbal *g, struct gimbal_slot *s)
{
    struct gimbal_tenant *t = &g->tenants[slot_number(g, s) / g->slot_objects];
    t->lost += s->out;
    g->lost += s->out;
    if (!s->full) {
        slot_unwatch(g, s);
        s->use++;
        s->out = 0;
        return;
    }
    slot_free(g, t, s);
    s->out = 0;
    slot_wake(g, t);
}

/*
 * Give up the slots whose time is over, and say when the next one's is. While the device completes
 * something now and then, each slot is judged by itself; when it has been silent for lost_ns, one
 * slot per lost_ns is a probe, more would only bury it.
 */
uint64_t gimbal_slot_watch(struct snic_gimbal *g, uint64_t now)
{
    while (g->watch.first != SNIC_GIMBAL__NIL) {
        struct gimbal_slot *s = slot_at(g, g->watch.first);
        if (now - s->since_ns < g->o.lost_ns)
            return s->since_ns + g->o.lost_ns;
        if (!s->full && s->out == 0) {
            slot_unwatch(g, s);
        } else if (!s->full && now - s->sent_ns < g->o.lost_ns) {
            slot_watch(g, s);
        } else {
            if (now - g->alive_ns >= g->o.lost_ns) {
                if (now - g->probe_ns < g->o.lost_ns)
                    return g->probe_ns + g->o.lost_ns;
                g->probe_ns = now;
            }
            slot_give_up(g, s);
        }
    }
    return SNIC_NEVER;
}

/* The tenant is gone, without I/Os: so are its slots. */
void gimbal_slot_drop(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    for (uint32_t i = 0; i < g->slot_objects; i++) {
        struct gimbal_slot *s = &t->slots[i];
        if (s->used)
            slot_free(g, t, s);
    }
    t->open = SNIC_GIMBAL__NO_SLOT;
}

/*
 * What a client may have out: the allotted slots times the I/Os of the latest completed one, and
 * what may drain beside them.
 */
uint32_t gimbal_slot_credit(const struct snic_gimbal *g, const struct gimbal_tenant *t)
{
    uint64_t ios = t->last_ios;
    if (g->coarse == 0 && (g->o.flags & SNIC_GIMBAL_SLOT_BARRIER) == 0)
        ios += ios * g->o.slot_overlap >> 8;
    return (uint32_t)snic_min_u64(g->slots * ios, g->o.queue_max);
}

/* One slot of tenant @t; adds up what it holds. */
static int slot_true(const struct gimbal_tenant *t, uint32_t i, uint32_t *out)
{
    const struct gimbal_slot *s = &t->slots[i];
    int open = t->open == i;
    if ((t->free_slots >> i & 1) == s->used)
        return 0;
    if (!s->used)
        return !open && !s->full && !s->draining && !s->watched;
    *out += s->out;
    if (open == s->full || (s->draining && !s->full) || s->out > s->ios)
        return 0; /* I1 */
    if (s->full && (s->out == 0 || !s->watched))
        return 0; /* I2, I4 */
    return s->watched || s->out == 0;
}

static int slot_tenant_true(const struct snic_gimbal *g, const struct gimbal_tenant *t)
{
    uint32_t out = 0;
    uint32_t used = 0;
    uint32_t draining = 0;
    uint32_t drain_out = 0;
    for (uint32_t i = 0; i < g->slot_objects; i++) {
        if (!slot_true(t, i, &out))
            return 0;
        if (t->slots[i].draining)
            drain_out += t->slots[i].out;
        used += t->slots[i].used && !t->slots[i].draining;
        draining += t->slots[i].draining;
    }
    if (drain_out != t->drain_out)
        return 0;                                                                      /* I2 */
    return used == t->used && draining == t->draining && out + t->lost == t->inflight; /* I3 */
}

int gimbal_slot_check(const struct snic_gimbal *g)
{
    uint32_t lost = 0;
    uint32_t coarse = 0;
    uint32_t watched = 0;
    uint32_t before = SNIC_GIMBAL__NIL;
    for (uint32_t i = 0; i < g->o.tenants_max; i++) {
        const struct gimbal_tenant *t = &g->tenants[i];
        int is = (t->flags & GIMBAL_COUNTED) != 0 && t->last_ios < SNIC_GIMBAL__FINE * t->weight;
        if ((t->flags & GIMBAL_COARSE) != 0)
            coarse++;
        if (is != ((t->flags & GIMBAL_COARSE) != 0))
            return SNIC_ECORRUPT; /* I5 */
        if ((t->flags & GIMBAL_ADDED) == 0)
            continue;
        lost += t->lost;
        if (!slot_tenant_true(g, t))
            return SNIC_ECORRUPT;
        for (uint32_t k = 0; k < g->slot_objects; k++)
            watched += t->slots[k].watched;
    }
    for (uint32_t n = g->watch.first; n != SNIC_GIMBAL__NIL; n = slot_at(g, n)->next) {
        const struct gimbal_slot *s = slot_at(g, n);
        if (watched-- == 0 || !s->watched || s->prev != before ||
            (before != SNIC_GIMBAL__NIL && slot_at(g, before)->since_ns > s->since_ns))
            return SNIC_ECORRUPT; /* I4 */
        before = n;
    }
    if (coarse != g->coarse)
        return SNIC_ECORRUPT; /* I5 */
    return watched == 0 && g->watch.last == before && lost == g->lost ? 0 : SNIC_ECORRUPT;
}
