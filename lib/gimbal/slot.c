/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Virtual slots (section 3.5, Algorithm 2), of each flow: a tenant's reads do not wait for slots
 * that its writes have filled. A tenant's slot collects I/Os until their weighted
 * size reaches the slot's bytes, then it is full; it is free again when all of them have
 * completed. A tenant of weight w has w times the slots of a tenant of weight 1; beyond
 * SNIC_GIMBAL__LANES times, slots of several parts, each filled as a slot would be.
 *
 * A tenant with all slots in use waits (SNIC_GIMBAL_SLOT_BARRIER: always). So a slot of many I/Os
 * waits for its slowest, which takes several times the mean, and a slot of one I/O for no other:
 * that is what evens out small and large I/Os, and with small ones alone it leaves the device with
 * too little to do. All or none: without the waiting those with many I/Os in a slot gain, at the
 * expense of those with few, and writes are let in too fast. So ours waits unless all active
 * tenants read and their slots hold equally many I/Os; then a slot more may open while few I/Os are
 * out, of whichever slots: slot_window().
 *
 * I1  A slot is free, open (used) or full (used, full). A flow has at most one open slot; f->used
 *     counts the open and full ones.
 * I2  A full slot has I/Os out.
 * I3  out counts the I/Os on the device whose number of use is the slot's. An I/O of an earlier
 *     use belongs to a slot that was abandoned: it is counted in lost, its tenant's and the
 *     switch's, until it completes.
 * I4  The watch list holds every full slot and every open one with I/Os out (others stay on it
 *     until their time), in order of since_ns.
 * I5  active_weight adds up the weights of the active tenants, grains[k] counts those of their
 *     flows of grain k that had an I/O since the tenant became active (`counted`).
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

void gimbal_slot_init(struct snic_gimbal *g, struct gimbal_flow *f)
{
    f->open = SNIC_GIMBAL__NO_SLOT;
    f->used = 0;
    f->free_slots = UINT64_MAX >> (64 - g->slot_objects);
    /* No slot was ever filled: as if one of 4 KiB reads had been, and completed. */
    f->last_ios = (uint32_t)snic_max_u64(g->o.slot_bytes / 4096, 1);
    f->fill_ios = f->last_ios;
    f->grain = (uint8_t)(31 - __builtin_clz(f->last_ios));
}

/* Parts of the tenant's next slot: over a cycle of its lanes they add up to its weight. */
static uint16_t slot_parts(struct gimbal_flow *f)
{
    if (SNIC_LIKELY(f->tenant->weight <= SNIC_GIMBAL__LANES))
        return 1;
    uint32_t more = f->tenant->weight % SNIC_GIMBAL__LANES;
    return (uint16_t)(f->tenant->weight / SNIC_GIMBAL__LANES +
                      (f->opened++ % SNIC_GIMBAL__LANES < more));
}

/* The tenant's slots, if it is waited for them. */
static uint32_t slot_allotted(const struct snic_gimbal *g, const struct gimbal_flow *f)
{
    return g->slots * f->tenant->lanes;
}

/* So many of the @ios that a tenant's slots hold may be out, and a slot more may open; 0: slots are
 * waited for. */
static uint64_t slot_window(const struct snic_gimbal *g, uint64_t ios)
{
    if (!gimbal_alike(g) || (g->o.flags & SNIC_GIMBAL_SLOT_BARRIER) != 0)
        return 0;
    return ios * g->o.slot_overlap / SNIC_GIMBAL_OVERLAP_ONE;
}

static int slot_early(const struct snic_gimbal *g, const struct gimbal_flow *f)
{
    uint64_t window = slot_window(g, (uint64_t)slot_allotted(g, f) * f->fill_ios);
    return f->inflight - f->lost < window;
}

/* 1 when the flow has an open slot now. */
int gimbal_slot_open(struct snic_gimbal *g, struct gimbal_flow *f)
{
    if (f->open != SNIC_GIMBAL__NO_SLOT)
        return 1;
    if (f->used >= slot_allotted(g, f) && !slot_early(g, f))
        return 0;
    return gimbal_slot_more(f);
}

/* 1 when the flow has an open slot now, beyond its share if need be. */
int gimbal_slot_more(struct gimbal_flow *f)
{
    if (f->free_slots == 0)
        return 0;
    unsigned i = (unsigned)__builtin_ctzll(f->free_slots);
    struct gimbal_slot *s = &f->slots[i];
    f->free_slots &= f->free_slots - 1;
    f->open = (uint8_t)i;
    f->used++;
    s->used = 1;
    s->out = 0;
    s->ios = 0;
    s->weighted = 0;
    s->parts = slot_parts(f);
    return 1;
}

/* Free the slot; I/Os still out of it are lost (I3). */
static void slot_free(struct snic_gimbal *g, struct gimbal_flow *f, struct gimbal_slot *s)
{
    SNIC_DASSERT(s->used && f->used > 0);
    f->used--;
    slot_unwatch(g, s);
    s->use++;
    s->used = 0;
    s->full = 0;
    f->free_slots |= (uint64_t)1 << (s - f->slots);
}

static void slot_count_grain(struct snic_gimbal *g, unsigned grain, int more)
{
    SNIC_DASSERT(more || g->grains[grain] > 0);
    g->grains[grain] += more ? 1u : UINT32_MAX;
    if (g->grains[grain] != 0)
        g->grain_bits |= 1u << grain;
    else
        g->grain_bits &= ~(1u << grain); /* I5 */
}

/* The slot is full: what the tenant's slots hold, and whether it is waited for them. */
static void slot_filled(struct snic_gimbal *g, struct gimbal_flow *f, const struct gimbal_slot *s)
{
    unsigned grain = 0;
    uint32_t ios = s->ios;
    f->fill_ios = ios;
    if (f->tenant->weight > SNIC_GIMBAL__LANES)
        ios = (uint32_t)snic_max_u64((uint64_t)ios * SNIC_GIMBAL__LANES / f->tenant->weight, 1);
    if (f->op == SNIC_GIMBAL_READ)
        grain = 31 - (unsigned)__builtin_clz(ios);
    if (grain == f->grain)
        return;
    if (f->counted) {
        slot_count_grain(g, f->grain, 0);
        slot_count_grain(g, grain, 1);
    }
    f->grain = (uint8_t)grain;
}

/* Has the slot all it takes? While both of a tenant's flows are on the device each has half a slot:
 * with whole ones a tenant that reads and writes would have twice as much there as others, and
 * overload it. */
static int slot_reached(const struct snic_gimbal *g, const struct gimbal_flow *f,
                        struct gimbal_slot *s)
{
    unsigned above = (g->o.flags & SNIC_GIMBAL_SLOT_ABOVE) != 0;
    const struct gimbal_flow *other = gimbal_flow_sibling(f);
    unsigned half = other->inflight > other->lost;
    if (s->weighted < (g->o.slot_bytes >> half) + above)
        return 0;
    s->weighted = 0;
    s->parts--;
    return s->parts == 0;
}

/* Algorithm 2, sched_submit, into the open slot. */
void gimbal_slot_send(struct snic_gimbal *g, struct gimbal_flow *f, struct snic_gimbal_io *io)
{
    unsigned i = f->open;
    struct gimbal_slot *s = &f->slots[i];

    SNIC_DASSERT(i != SNIC_GIMBAL__NO_SLOT && s->used && !s->full);
    io->state = (uint16_t)(GIMBAL_IO_OUT | i << 8);
    io->slot = s->use;
    s->sent_ns = g->now_ns;
    s->out++;
    s->ios++;
    s->weighted += io->weighted;
    if (!s->watched)
        slot_watch(g, s);
    if (!slot_reached(g, f, s))
        return;
    s->full = 1;
    f->open = SNIC_GIMBAL__NO_SLOT;
    slot_watch(g, s);
    slot_filled(g, f, s);
}

/* A deferred tenant rejoins the round robin if it may have a slot now. */
static void slot_wake(struct snic_gimbal *g, struct gimbal_flow *f)
{
    if (f->where != GIMBAL_DEFERRED || !gimbal_slot_open(g, f))
        return;
    gimbal_list_remove(g, &g->deferred, f);
    gimbal_round_join(g, f);
}

/* A slot held so many I/Os, for credit: fewer than before count slowly, so that what a client reads
 * between two large writes is not sent one by one. */
static void slot_held(const struct snic_gimbal *g, struct gimbal_flow *f, uint32_t ios)
{
    if ((g->o.flags & SNIC_GIMBAL_CREDIT_LATEST) == 0)
        ios = (uint32_t)snic_max_u64(ios, f->last_ios - (f->last_ios + 7) / 8);
    f->last_ios = ios;
}

/* Algorithm 2, sched_complete. */
void gimbal_slot_done(struct snic_gimbal *g, struct gimbal_flow *f, const struct snic_gimbal_io *io)
{
    struct gimbal_slot *s = &f->slots[io->state >> 8];
    if (SNIC_UNLIKELY(io->slot != s->use)) {
        SNIC_ASSERT(f->lost > 0 && g->lost > 0);
        f->lost--;
        g->lost--;
        return;
    }
    SNIC_DASSERT(s->out > 0);
    s->out--;
    if (s->full && s->out == 0) {
        slot_held(g, f, s->ios);
        slot_free(g, f, s);
    }
    slot_wake(g, f);
}

/* More slots for each: the deferred may have one. Only few tenants are active then. */
static void slot_wake_all(struct snic_gimbal *g)
{
    uint32_t i = g->deferred.first;
    while (i != SNIC_GIMBAL__NIL) {
        struct gimbal_flow *f = gimbal_flow_at(g, i);
        i = f->next;
        slot_wake(g, f);
    }
}

/* A weight's share of the slots, now. */
void gimbal_slot_share(struct snic_gimbal *g)
{
    uint32_t share = g->o.slot_threshold; /* without active tenants */
    g->served_share = UINT32_MAX / (g->active_weight > 1 ? g->active_weight : 1) + UINT64_C(1);
    if (g->active_weight > 1)
        share = (share + g->active_weight - 1) / g->active_weight;
    if (share == g->slots)
        return;
    int more = share > g->slots;
    g->slots = share;
    if (more)
        slot_wake_all(g);
}

/* The flow has an I/O: what its slots hold counts while its tenant is active. */
void gimbal_slot_count(struct snic_gimbal *g, struct gimbal_flow *f)
{
    f->counted = 1;
    slot_count_grain(g, f->grain, 1);
}

/* The tenant is active now, or not any more. */
void gimbal_slot_active(struct snic_gimbal *g, struct gimbal_tenant *t, int active)
{
    SNIC_ASSERT(active || g->active_weight >= t->weight);
    for (unsigned op = 0; op < 2 && !active; op++) {
        if (t->flow[op].counted)
            slot_count_grain(g, t->flow[op].grain, 0);
        t->flow[op].counted = 0;
    }
    g->active_weight = active ? g->active_weight + t->weight : g->active_weight - t->weight;
    gimbal_slot_share(g);
}

/* The tenant's weight. */
void gimbal_slot_weight(struct snic_gimbal *g, struct gimbal_tenant *t, uint32_t weight)
{
    if ((t->flags & GIMBAL_COUNTED) != 0)
        g->active_weight += weight - t->weight;
    t->weight = weight;
    t->lanes = (uint8_t)snic_min_u64(weight, SNIC_GIMBAL__LANES);
    gimbal_slot_share(g);
    slot_wake(g, &t->flow[0]);
    slot_wake(g, &t->flow[1]);
}

/* Abandon a full slot of the tenant, or the I/Os that an open one has out (I3). */
static void slot_abandon(struct snic_gimbal *g, struct gimbal_slot *s)
{
    struct gimbal_flow *f = gimbal_flow_at(g, slot_number(g, s) / g->slot_objects);
    f->lost += s->out;
    g->lost += s->out;
    if (!s->full) {
        slot_unwatch(g, s);
        s->use++;
        s->out = 0;
        return;
    }
    slot_free(g, f, s);
    s->out = 0;
    slot_wake(g, f);
}

/*
 * Abandon the slots whose time is over, and return the time of the next. While the device completes
 * I/Os, each slot is judged by itself; when it has completed none for lost_ns, one slot per lost_ns
 * is a probe, more would only add load.
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
            slot_abandon(g, s);
        }
    }
    return SNIC_NEVER;
}

/* The tenant is gone, without I/Os: so are its slots. */
void gimbal_slot_drop(struct snic_gimbal *g, struct gimbal_flow *f)
{
    for (uint32_t i = 0; i < g->slot_objects; i++) {
        struct gimbal_slot *s = &f->slots[i];
        if (s->used)
            slot_free(g, f, s);
    }
    f->open = SNIC_GIMBAL__NO_SLOT;
}

/*
 * What a client may have out: the allotted slots times the I/Os that one holds, of the flows that
 * count; while slots are not waited for, slot_overlap of it if that is more.
 */
static uint64_t slot_credit(const struct snic_gimbal *g, const struct gimbal_tenant *t)
{
    const struct gimbal_flow *reads = &t->flow[SNIC_GIMBAL_READ];
    const struct gimbal_flow *writes = &t->flow[SNIC_GIMBAL_WRITE];
    uint64_t ios = 0;
    if (reads->counted || !writes->counted)
        ios += (uint64_t)slot_allotted(g, reads) * reads->last_ios;
    if (writes->counted)
        ios += (uint64_t)slot_allotted(g, writes) * writes->last_ios;
    if (slot_window(g, ios) != 0)
        ios = snic_max_u64(ios, ios * g->o.slot_overlap / SNIC_GIMBAL_OVERLAP_ONE);
    return snic_min_u64(ios, g->o.queue_max);
}

/* A tenant of a group has its part, by weight, of what all that have I/Os may have out. */
uint32_t gimbal_slot_credit(const struct snic_gimbal *g, const struct gimbal_tenant *t)
{
    const struct gimbal_tenant *group = t->group;
    if (group == NULL)
        return (uint32_t)slot_credit(g, t);
    uint32_t ios = (uint32_t)slot_credit(g, group); /* at most 2^20, times 2^8 */
    if (group->busy_weight <= t->weight)
        return ios;
    return (ios * t->weight + group->busy_weight - 1) / group->busy_weight;
}

/* One slot of flow @f; adds up what it holds. */
static int slot_true(const struct gimbal_flow *f, uint32_t i, uint32_t *out)
{
    const struct gimbal_slot *s = &f->slots[i];
    int open = f->open == i;
    if ((f->free_slots >> i & 1) == s->used)
        return 0;
    if (!s->used)
        return !open && !s->full && !s->watched;
    *out += s->out;
    if (open == s->full || s->out > s->ios || (s->parts == 0) != s->full)
        return 0; /* I1 */
    if (s->full && (s->out == 0 || !s->watched))
        return 0; /* I2, I4 */
    return s->watched || s->out == 0;
}

static int slot_flow_true(const struct snic_gimbal *g, const struct gimbal_flow *f)
{
    uint32_t out = 0;
    uint32_t used = 0;
    for (uint32_t i = 0; i < g->slot_objects; i++) {
        if (!slot_true(f, i, &out))
            return 0;
        used += f->slots[i].used;
    }
    return used == f->used && out + f->lost == f->inflight; /* I1, I3 */
}

static int slot_sums_true(const struct snic_gimbal *g)
{
    uint32_t weight = 0;
    uint32_t grains[SNIC_GIMBAL__GRAINS] = {0};
    for (uint32_t i = 0; i < g->objects; i++) {
        const struct gimbal_tenant *t = &g->tenants[i];
        int counted = (t->flags & GIMBAL_COUNTED) != 0;
        if (counted)
            weight += t->weight;
        for (unsigned op = 0; op < 2; op++) {
            if (t->flow[op].counted && !counted)
                return 0;
            if (t->flow[op].counted)
                grains[t->flow[op].grain]++;
            else if ((t->group == NULL && t->flow[op].queued > 0) || t->flow[op].inflight > 0)
                return 0; /* I5 */
        }
    }
    for (uint32_t k = 0; k < SNIC_GIMBAL__GRAINS; k++) {
        if (grains[k] != g->grains[k] || (g->grain_bits >> k & 1) != (grains[k] != 0))
            return 0;
    }
    return weight == g->active_weight; /* I5 */
}

int gimbal_slot_check(const struct snic_gimbal *g)
{
    uint32_t lost = 0;
    uint32_t watched = 0;
    uint32_t before = SNIC_GIMBAL__NIL;
    for (uint32_t i = 0; i < 2 * g->objects; i++) {
        const struct gimbal_flow *f = gimbal_flow_at(g, i);
        if ((g->tenants[i / 2].flags & GIMBAL_ADDED) == 0)
            continue;
        lost += f->lost;
        if (!slot_flow_true(g, f))
            return SNIC_ECORRUPT;
        for (uint32_t k = 0; k < g->slot_objects; k++)
            watched += f->slots[k].watched;
    }
    for (uint32_t n = g->watch.first; n != SNIC_GIMBAL__NIL; n = slot_at(g, n)->next) {
        const struct gimbal_slot *s = slot_at(g, n);
        if (watched-- == 0 || !s->watched || s->prev != before ||
            (before != SNIC_GIMBAL__NIL && slot_at(g, before)->since_ns > s->since_ns))
            return SNIC_ECORRUPT; /* I4 */
        before = n;
    }
    if (watched != 0 || g->watch.last != before || lost != g->lost)
        return SNIC_ECORRUPT;
    return slot_sums_true(g) ? 0 : SNIC_ECORRUPT;
}
