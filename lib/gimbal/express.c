/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The express lane: small reads that leave before rounds, and before a held I/O.
 *
 * Two kinds: a read of priority SNIC_GIMBAL_EXPRESS or above of a tenant that has few reads inside,
 * and the only I/O that its tenant has inside. Both need a slot, their tenant's caps and read
 * tokens like any other, but no deficit: their size becomes debt, with a bound. A flow in rounds
 * repays by the quantum of each before its deficit grows; any other by its share of what all
 * tenants send (gimbal_round_repay()), which is smooth: a round of large writes may last for many
 * small reads. So no tenant gets more than its share and the bound by the lane; one that sends more
 * has used its debt up and takes turns.
 *
 * I1  The list holds flows in the order in which they were offered; a flow is on it once
 *     (`express`). It may have lost what it was offered for; the next poll finds out.
 * I2  A flow that is on it and idle has no place on the calendar: what else it has queued joins the
 *     rounds when it leaves the list. A group's takes turns meanwhile, too; its debt is the
 *     group's.
 * I3  debt <= quantum_bytes.
 */
#include "gimbal/gimbal_priv.h"

#define SNIC_GIMBAL__URGENT (0xffu << SNIC_GIMBAL_EXPRESS & 0xffu)

/* What the flow has for the lane, as far as kinds go; NULL: nothing. */
static struct snic_gimbal_io *express_head(const struct snic_gimbal *g, const struct gimbal_flow *f)
{
    unsigned urgent = f->ready & SNIC_GIMBAL__URGENT;
    if (f->op != SNIC_GIMBAL_READ || f->ready == 0 || (g->o.flags & SNIC_GIMBAL_NO_EXPRESS) != 0)
        return NULL;
    if (gimbal_inside(f->tenant) == 1)
        return gimbal_flow_first(f, (unsigned)__builtin_ctz(f->ready));
    if (urgent != 0 && f->queued + f->sent <= SNIC_GIMBAL_EXPRESS_DEPTH)
        return gimbal_flow_first(f, 31 - (unsigned)__builtin_clz(urgent));
    return NULL;
}

/* Is there room in the flow's debt? A lone I/O is no flood, whatever it adds up to. */
static int express_affords(struct snic_gimbal *g, struct gimbal_flow *f,
                           const struct snic_gimbal_io *io)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    uint32_t small = g->o.quantum_bytes / SNIC_GIMBAL_EXPRESS_PART;
    uint32_t most = gimbal_inside(f->tenant) == 1 ? g->o.quantum_bytes : small;
    if (io->size > small)
        return 0;
    gimbal_round_repay(g, c);
    return c->debt + io->size <= most; /* I3 */
}

/* 1: it lacks tokens at most, and has an open slot. A held I/O goes its own way. */
static int express_may(struct snic_gimbal *g, struct gimbal_flow *f,
                       const struct snic_gimbal_io *io)
{
    struct gimbal_flow *c = gimbal_carrier(f);
    if (c->where == GIMBAL_DEFERRED || c->where == GIMBAL_PARKED || f->where == GIMBAL_PARKED ||
        io == g->held)
        return 0;
    if (io->size > g->o.bucket_bytes || !express_affords(g, f, io))
        return 0;
    if ((f->tenant->flags & GIMBAL_CAPPED) != 0 &&
        gimbal_cap_ready_ns(f->tenant, io, g->now_ns) > g->now_ns)
        return 0;
    if (c != f && (c->tenant->flags & GIMBAL_CAPPED) != 0 &&
        (gimbal_cap_ready_ns(c->tenant, io, g->now_ns) > g->now_ns ||
         gimbal_group_floor_ns(g, f, io) != 0 || !gimbal_group_passes(g, f, io)))
        return 0;
    return gimbal_slot_open(g, c);
}

/* The flow may have something for the lane: an I/O was queued, or came back. */
void gimbal_express_offer(struct snic_gimbal *g, struct gimbal_flow *f)
{
    if (f->express || express_head(g, f) == NULL)
        return;
    uint32_t i = gimbal_flow_index(g, f);
    f->express = 1;
    f->express_next = SNIC_GIMBAL__NIL;
    f->express_prev = g->express.last;
    if (g->express.last == SNIC_GIMBAL__NIL)
        g->express.first = i;
    else
        gimbal_flow_at(g, g->express.last)->express_next = i;
    g->express.last = i;
}

void gimbal_express_leave(struct snic_gimbal *g, struct gimbal_flow *f)
{
    if (!f->express)
        return;
    f->express = 0;
    if (f->express_prev == SNIC_GIMBAL__NIL)
        g->express.first = f->express_next;
    else
        gimbal_flow_at(g, f->express_prev)->express_next = f->express_next;
    if (f->express_next == SNIC_GIMBAL__NIL)
        g->express.last = f->express_prev;
    else
        gimbal_flow_at(g, f->express_next)->express_prev = f->express_prev;
}

/* Off the list; what it has left takes turns (I2). */
static void express_join(struct snic_gimbal *g, struct gimbal_flow *f)
{
    if (!f->express && f->where == GIMBAL_IDLE && f->ready != 0 && f->tenant->group == NULL)
        gimbal_round_join(g, f);
}

/* The next I/O of the lane, which lacks tokens at most; NULL: none. */
struct snic_gimbal_io *gimbal_express_next(struct snic_gimbal *g)
{
    while (g->express.first != SNIC_GIMBAL__NIL) {
        struct gimbal_flow *f = gimbal_flow_at(g, g->express.first);
        struct snic_gimbal_io *io = express_head(g, f);
        if (io != NULL && express_may(g, f, io))
            return io;
        gimbal_express_leave(g, f);
        express_join(g, f);
    }
    return NULL;
}

/* It has left: the flow goes to the end of the list if it has more. */
void gimbal_express_sent(struct snic_gimbal *g, struct gimbal_flow *f,
                         const struct snic_gimbal_io *io)
{
    gimbal_carrier(f)->debt += io->size;
    gimbal_express_leave(g, f);
    gimbal_express_offer(g, f);
    express_join(g, f);
}

int gimbal_express_check(const struct snic_gimbal *g)
{
    uint32_t listed = 0;
    uint32_t before = SNIC_GIMBAL__NIL;
    for (uint32_t i = g->express.first; i != SNIC_GIMBAL__NIL;) {
        const struct gimbal_flow *f = gimbal_flow_at(g, i);
        if (i >= 2 * g->objects || ++listed > g->o.tenants_max || !f->express ||
            f->op != SNIC_GIMBAL_READ || f->express_prev != before)
            return SNIC_ECORRUPT; /* I1 */
        before = i;
        i = f->express_next;
    }
    if (g->express.last != before)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < 2 * g->objects; i++) {
        const struct gimbal_flow *f = gimbal_flow_at(g, i);
        listed -= f->express;
        if (f->debt > g->o.quantum_bytes)
            return SNIC_ECORRUPT; /* I3 */
    }
    return listed == 0 ? 0 : SNIC_ECORRUPT;
}
