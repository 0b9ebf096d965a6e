/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The NIC's two queues, and the DMA engine behind them.
 *
 * vFIFO: makes updates of a key visible one after the other, in the order of their timestamps,
 * without a write lock. A key accepts only what is newer than all it has accepted, so the entries
 * of a key rise, and an entry that another of its key is stored behind is obsolete: it is dropped,
 * which counts as drained (out), without becoming what the host sees (vts). dFIFO: what is in it is
 * durable; it empties into the host's log.
 *
 * Both drain without waiting for any message, so a full one stalls, and never blocks for good.
 */
#include "ddpnic_priv.h"

int ddpnic_fifo_room(const struct snic_ddpnic *d)
{
    return d->nic.vfifo < d->o.vfifo_max && d->nic.dfifo < d->o.dfifo_max;
}

void ddpnic_dirty(struct snic_ddpnic *d, struct ddpnic_rec *r)
{
    if ((r->flags & DDPNIC_R_DIRTY) != 0)
        return;
    r->flags |= DDPNIC_R_DIRTY;
    r->dirty = d->nic.dirty;
    d->nic.dirty = ddpnic_rec_number(d, r);
}

/* The item of what was accepted last; NIL: nothing was. */
uint32_t ddpnic_newest(const struct ddpnic_rec *r)
{
    return r->vlast != SNIC_DDP__NIL ? r->vlast : r->line.cache;
}

/* One reference less; with the last one the handle goes back (N4). */
void ddpnic_unref(struct snic_ddpnic *d, uint32_t item)
{
    struct ddpnic_item *t = ddpnic_item_at(d, item);
    SNIC_ASSERT(t->refs > 0);
    if (--t->refs != 0)
        return;
    if ((t->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
        ddpnic_release(d, t->value);
    ddp_pool_give(&d->nic.items, item);
}

static struct snic_ddp_action *ddpnic_fifo_act(struct snic_ddpnic *d, uint32_t type,
                                               const struct ddpnic_rec *r,
                                               const struct ddpnic_item *t)
{
    struct snic_ddp_action *a = ddpnic_act(d, type);
    a->flags = t->flags & SNIC_DDP_MSG_TOMBSTONE;
    a->msg.flags = (uint8_t)a->flags;
    a->msg.key = r->key;
    a->msg.ts = t->ts;
    a->msg.value = t->value;
    a->msg.length = t->length;
    return a;
}

/*
 * The record's newest update, from an INV: locked, and given slots of both FIFOs, where there is
 * room; ddpnic_store follows in the same step. The host may have a newer timestamp out already,
 * which the lock then stays with.
 */
void ddpnic_accept(struct snic_ddpnic *d, struct ddpnic_rec *r, const struct snic_ddp_msg *m)
{
    struct ddpnic_nic *n = &d->nic;
    SNIC_ASSERT(m->ts > r->enq && ddpnic_fifo_room(d)); /* N1, N8 */
    uint32_t i = ddp_pool_take(&n->items);
    struct ddpnic_item *t = ddpnic_item_at(d, i);
    t->ts = m->ts;
    t->rec = ddpnic_rec_number(d, r);
    t->flags =
        DDPNIC_I_USED | DDPNIC_I_VSLOT | DDPNIC_I_DSLOT | (m->flags & SNIC_DDP_MSG_TOMBSTONE);
    if ((t->flags & SNIC_DDP_MSG_TOMBSTONE) == 0) {
        t->value = m->value;
        t->length = m->length;
    }
    t->refs = 2;
    t->seq = ++n->seq;
    t->vnext = SNIC_DDP__NIL;
    if (r->vlast != SNIC_DDP__NIL)
        ddpnic_item_at(d, r->vlast)->vnext = i;
    else
        r->vfirst = i;
    r->vlast = i;
    t->dnext = r->dfirst;
    r->dfirst = i;
    r->enq = m->ts;
    n->vfifo++;
    n->dfifo++;
    uint64_t seen;
    do {
        seen = r->line.word;
    } while (ddpnic_snatch(&r->line, seen, m->ts) != 0);
}

/* What was just accepted is written into the FIFOs. */
void ddpnic_store(struct snic_ddpnic *d, const struct ddpnic_rec *r, uint64_t scope)
{
    SNIC_ASSERT(r->vlast != SNIC_DDP__NIL && ddpnic_item_at(d, r->vlast)->ts == r->enq); /* N3 */
    const struct ddpnic_item *t = ddpnic_item_at(d, r->vlast);
    (void)ddpnic_fifo_act(d, SNIC_DDPNIC_VSTORE, r, t);
    struct snic_ddp_action *a = ddpnic_fifo_act(d, SNIC_DDPNIC_DSTORE, r, t);
    a->msg.scope = scope;
    a->flags |= d->rules.background ? (uint32_t)SNIC_DDP_BACKGROUND : 0;
}

/* The key's oldest entry is out. Its reference goes to the cache, or goes. */
static void ddpnic_fifo_leave(struct snic_ddpnic *d, struct ddpnic_rec *r, int drained)
{
    uint32_t i = r->vfirst;
    SNIC_ASSERT(i != SNIC_DDP__NIL && d->nic.vfifo > 0); /* N8 */
    struct ddpnic_item *t = ddpnic_item_at(d, i);
    SNIC_ASSERT((t->flags & DDPNIC_I_VIN) != 0 && t->ts > r->out); /* N1 */
    r->vfirst = t->vnext;
    if (r->vfirst == SNIC_DDP__NIL)
        r->vlast = SNIC_DDP__NIL;
    t->vnext = SNIC_DDP__NIL;
    t->flags &= ~(uint32_t)(DDPNIC_I_VSLOT | DDPNIC_I_VIN | DDPNIC_I_DMA);
    d->nic.vfifo--;
    r->out = t->ts;
    if (!drained) {
        d->counters.dropped++;
        ddpnic_unref(d, i);
        return;
    }
    uint32_t old = r->line.cache;
    r->line.vts = t->ts;
    r->line.cache = i;
    if (old != SNIC_DDP__NIL)
        ddpnic_unref(d, old);
}

static int ddpnic_fifo_logged(struct snic_ddpnic *d, uint32_t *link)
{
    uint32_t i = *link;
    struct ddpnic_item *t = ddpnic_item_at(d, i);
    if ((t->flags & DDPNIC_I_DIN) == 0)
        return SNIC_EINVAL;
    SNIC_ASSERT(d->nic.dfifo > 0); /* N8 */
    *link = t->dnext;
    t->dnext = SNIC_DDP__NIL;
    t->flags &= ~(uint32_t)(DDPNIC_I_DSLOT | DDPNIC_I_DIN);
    d->nic.dfifo--;
    ddpnic_unref(d, i);
    return 0;
}

static int ddpnic_fifo_durable(struct snic_ddpnic *d, struct ddpnic_rec *r, struct ddpnic_item *t)
{
    if ((t->flags & DDPNIC_I_DIN) != 0)
        return SNIC_EINVAL;
    t->flags |= DDPNIC_I_DIN;
    r->dts = snic_max_u64(r->dts, t->ts);
    struct snic_ddp_action *a = ddpnic_fifo_act(d, SNIC_DDPNIC_LOG, r, t);
    a->flags |= SNIC_DDP_BACKGROUND;
    d->nic.mark_dirty = d->nic.marks != 0;
    ddpnic_dirty(d, r);
    return 0;
}

/* VSTORED, DSTORED, DRAINED, LOGGED. */
int ddpnic_fifo_event(struct snic_ddpnic *d, const struct snic_ddp_event *ev)
{
    struct ddpnic_rec *r = ddpnic_find(d, &ev->key);
    if (r == NULL)
        return SNIC_EINVAL;
    if (ev->type == SNIC_DDPNIC_DRAINED) {
        const struct ddpnic_item *t = NULL;
        if (r->vfirst != SNIC_DDP__NIL)
            t = ddpnic_item_at(d, r->vfirst);
        if (t == NULL || t->ts != ev->ts || (t->flags & DDPNIC_I_DMA) == 0)
            return SNIC_EINVAL;
        ddpnic_fifo_leave(d, r, 1);
        ddpnic_dirty(d, r);
        return 0;
    }
    int v = ev->type == SNIC_DDPNIC_VSTORED;
    uint32_t *link = v ? &r->vfirst : &r->dfirst;
    while (*link != SNIC_DDP__NIL && ddpnic_item_at(d, *link)->ts != ev->ts)
        link = v ? &ddpnic_item_at(d, *link)->vnext : &ddpnic_item_at(d, *link)->dnext;
    if (*link == SNIC_DDP__NIL)
        return SNIC_EINVAL;
    struct ddpnic_item *t = ddpnic_item_at(d, *link);
    if (ev->type == SNIC_DDPNIC_LOGGED)
        return ddpnic_fifo_logged(d, link);
    if (ev->type == SNIC_DDPNIC_DSTORED)
        return ddpnic_fifo_durable(d, r, t);
    if ((t->flags & DDPNIC_I_VIN) != 0)
        return SNIC_EINVAL;
    t->flags |= DDPNIC_I_VIN;
    r->vin = snic_max_u64(r->vin, t->ts);
    ddpnic_dirty(d, r);
    return 0;
}

/* Advance this key's vFIFO; 1: the ring is full, there may be more. */
int ddpnic_fifo_eval(struct snic_ddpnic *d, struct ddpnic_rec *r)
{
    while (r->vfirst != SNIC_DDP__NIL) {
        struct ddpnic_item *t = ddpnic_item_at(d, r->vfirst);
        if (!ddpnic_room(d))
            return 1;
        if ((t->flags & DDPNIC_I_VIN) == 0 || (t->flags & DDPNIC_I_DMA) != 0)
            break;
        if (t->vnext == SNIC_DDP__NIL || (ddpnic_item_at(d, t->vnext)->flags & DDPNIC_I_VIN) == 0) {
            t->flags |= DDPNIC_I_DMA;
            (void)ddpnic_fifo_act(d, SNIC_DDPNIC_DMA, r, t);
            break;
        }
        ddpnic_fifo_leave(d, r, 0);
    }
    return 0;
}
