/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Every structural invariant of ddpnic_priv.h, between steps. */
#include "ddpnic_priv.h"

/* What a pass over the records counts. */
struct ddpnic_count {
    uint32_t host_writes, reads, writes, waits, vfifo, dfifo, refs;
};

static int ddpnic_check_write(const struct snic_ddpnic *d, const struct ddpnic_write *w)
{
    uint32_t other = DDPNIC_W_SHORT | DDPNIC_W_PERSIST;
    if ((w->flags & DDPNIC_W_USED) == 0 || ((w->ack_c | w->ack_p | w->sent) & ~d->common.full) != 0)
        return SNIC_ECORRUPT; /* N7 */
    if ((w->item == SNIC_DDP__NIL) != ((w->flags & other) != 0))
        return SNIC_ECORRUPT;
    if (w->item != SNIC_DDP__NIL &&
        (w->item >= d->nic.items.high || ddpnic_item_at(d, w->item)->ts != w->ts))
        return SNIC_ECORRUPT;
    if ((w->flags & DDPNIC_W_SHORT) == 0 && (ddpnic_write_missing(d, w) & w->sent) != 0 &&
        w->timer.armed == 0)
        return SNIC_ECORRUPT;
    return ddp_timers_check(&d->nic.timers, ddpnic_write_number(d, w));
}

/* The key's entries in both FIFOs: N3, N6. */
static int ddpnic_check_fifo(const struct snic_ddpnic *d, const struct ddpnic_rec *r,
                             struct ddpnic_count *c)
{
    uint64_t last = r->out;
    uint32_t prev = SNIC_DDP__NIL;
    int under_way = 0;
    for (uint32_t i = r->vfirst; i != SNIC_DDP__NIL; i = ddpnic_item_at(d, i)->vnext) {
        const struct ddpnic_item *t = ddpnic_item_at(d, i);
        if (i >= d->nic.items.high || ++c->vfifo > d->nic.vfifo || t->ts <= last ||
            (t->flags & DDPNIC_I_VSLOT) == 0 || t->rec != ddpnic_rec_number(d, r))
            return SNIC_ECORRUPT;
        if (i != r->vfirst && (t->flags & DDPNIC_I_DMA) != 0)
            return SNIC_ECORRUPT;
        last = t->ts;
        prev = i;
    }
    if (last != r->enq || prev != r->vlast)
        return SNIC_ECORRUPT;
    if (r->vfirst != SNIC_DDP__NIL &&
        (ddpnic_item_at(d, r->vfirst)->flags & (DDPNIC_I_VIN | DDPNIC_I_DMA)) == DDPNIC_I_VIN)
        return SNIC_ECORRUPT; /* N6 */
    for (uint32_t i = r->dfirst; i != SNIC_DDP__NIL; i = ddpnic_item_at(d, i)->dnext) {
        const struct ddpnic_item *t = ddpnic_item_at(d, i);
        if (i >= d->nic.items.high || ++c->dfifo > d->nic.dfifo || t->ts > r->enq ||
            (t->flags & DDPNIC_I_DSLOT) == 0 || t->rec != ddpnic_rec_number(d, r))
            return SNIC_ECORRUPT;
        if ((t->flags & DDPNIC_I_DIN) != 0 && t->ts > r->dts)
            return SNIC_ECORRUPT;
        under_way |= t->ts == r->enq && (t->flags & DDPNIC_I_DIN) == 0;
    }
    return r->enq > r->dts && !under_way ? SNIC_ECORRUPT : 0;
}

static int ddpnic_check_lists(const struct snic_ddpnic *d, const struct ddpnic_rec *r,
                              struct ddpnic_count *c)
{
    uint32_t me = ddpnic_rec_number(d, r);
    for (uint32_t i = r->writes; i != SNIC_DDP__NIL; i = ddpnic_write_at(d, i)->next) {
        const struct ddpnic_write *w = ddpnic_write_at(d, i);
        if (i >= d->nic.writes.high || ++c->writes > d->nic.writes.used || w->rec != me ||
            w->ts > r->enq || w->tau > r->enq || ddpnic_check_write(d, w) != 0)
            return SNIC_ECORRUPT;
        c->refs += w->item != SNIC_DDP__NIL;
    }
    for (uint32_t i = r->waits; i != SNIC_DDP__NIL; i = ddpnic_wait_at(d, i)->next) {
        const struct ddpnic_wait *a = ddpnic_wait_at(d, i);
        if (i >= d->nic.waits.high || ++c->waits > d->nic.waits.used || a->rec != me ||
            (a->flags & DDPNIC_A_USED) == 0 || (d->common.others & ddp_bit(a->src)) == 0)
            return SNIC_ECORRUPT;
        /* What is due was sent: N6. */
        if (a->tau == 0 ? r->dts >= a->ts && r->vin >= a->ts
                        : r->line.gv >= a->tau && r->line.gd >= a->tau)
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = r->reads.first; i != SNIC_DDP__NIL; i = ddpnic_read_at(d, i)->next) {
        if (i >= d->host.reads.high || ++c->reads > d->host.reads.used ||
            ddpnic_read_at(d, i)->rec != me)
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = r->host_writes; i != SNIC_DDP__NIL; i = ddpnic_host_write_at(d, i)->next) {
        if (i >= d->host.writes.high || ++c->host_writes > d->host.writes.used ||
            ddpnic_host_write_at(d, i)->rec != me)
            return SNIC_ECORRUPT;
    }
    return (r->line.waits != 0) == (r->reads.first != SNIC_DDP__NIL) ? 0 : SNIC_ECORRUPT;
}

static int ddpnic_check_rec(const struct snic_ddpnic *d, const struct ddpnic_rec *r,
                            struct ddpnic_count *c)
{
    const struct ddpnic_line *l = &r->line;
    if (l->vts > r->out || r->out > r->vin || r->vin > r->enq || r->enq > ddpnic_top(l) ||
        l->gv > r->enq || l->gd > r->enq || r->dts > r->enq || r->rel > r->enq)
        return SNIC_ECORRUPT; /* N1 */
    if (!ddpnic_locked(l) && l->vts != ddpnic_top(l))
        return SNIC_ECORRUPT; /* N2 */
    if (ddpnic_locked(l) && r->rel >= ddpnic_top(l) && r->out >= ddpnic_top(l))
        return SNIC_ECORRUPT; /* N6 */
    if ((l->cache == SNIC_DDP__NIL) != (l->vts == 0))
        return SNIC_ECORRUPT;
    if (l->cache != SNIC_DDP__NIL &&
        (l->cache >= d->nic.items.high || ddpnic_item_at(d, l->cache)->ts != l->vts))
        return SNIC_ECORRUPT;
    c->refs += l->cache != SNIC_DDP__NIL;
    if ((r->flags & DDPNIC_R_DIRTY) != 0 || ddpnic_find(d, &r->key) != r ||
        r->hash != ddp_hash(&r->key))
        return SNIC_ECORRUPT;
    if (ddpnic_check_fifo(d, r, c) != 0 || ddpnic_check_lists(d, r, c) != 0 ||
        ddp_timers_check(&d->nic.timers, ddpnic_timer_of_rec(d, r)) != 0)
        return SNIC_ECORRUPT;
    return ddpnic_watch_needed(d, r) && r->timer.armed == 0 ? SNIC_ECORRUPT : 0; /* N5 */
}

static int ddpnic_check_pools(const struct snic_ddpnic *d, struct ddpnic_count *c)
{
    const struct ddpnic_nic *n = &d->nic;
    uint32_t scopes = 0;
    uint32_t items = 0;
    uint32_t refs = 0;
    uint32_t marks = 0;
    uint32_t parked = 0;
    for (uint32_t i = n->persists; i != SNIC_DDP__NIL; i = ddpnic_write_at(d, i)->next) {
        if (i >= n->writes.high || ++c->writes > n->writes.used ||
            ddpnic_check_write(d, ddpnic_write_at(d, i)) != 0)
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = 0; i < n->waits.high; i++) {
        uint8_t flags = ddpnic_wait_at(d, i)->flags;
        c->waits += (flags & DDPNIC_A_PERSIST) != 0;
        marks += (flags & (DDPNIC_A_PERSIST | DDPNIC_A_MARK)) == DDPNIC_A_PERSIST;
        parked += ddpnic_wait_at(d, i)->tau != 0;
    }
    for (uint32_t i = 0; i < n->items.high; i++) {
        items += (ddpnic_item_at(d, i)->flags & DDPNIC_I_USED) != 0;
        refs += ddpnic_item_at(d, i)->refs;
    }
    for (uint32_t i = 0; i < d->host.scopes.high; i++)
        scopes += (ddpnic_scope_at(d, i)->flags & DDPNIC_S_USED) != 0;
    if (refs != c->refs + c->vfifo + c->dfifo || items != n->items.used)
        return SNIC_ECORRUPT; /* N4 */
    if (c->vfifo != n->vfifo || c->dfifo != n->dfifo || n->vfifo > d->o.vfifo_max ||
        n->dfifo > d->o.dfifo_max)
        return SNIC_ECORRUPT; /* N8 */
    if (c->writes != n->writes.used || c->waits != n->waits.used || marks != n->marks ||
        parked != n->parked || scopes != d->host.scopes.used || c->reads != d->host.reads.used ||
        c->host_writes != d->host.writes.used)
        return SNIC_ECORRUPT;
    return 0;
}

/* late[] counts the writes that wait too long for each node; `suspected` is the last SUSPECT. */
static int ddpnic_check_late(const struct snic_ddpnic *d)
{
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < d->nic.writes.high; i++)
            count += ddpnic_write_at(d, i)->late >> n & 1;
        if (count != d->nic.suspects.late[n] || (count != 0) != (d->nic.suspects.reported >> n & 1))
            return SNIC_ECORRUPT;
    }
    return 0;
}

/* N6 */
int ddpnic_at_rest(const struct snic_ddpnic *d)
{
    const struct ddpnic_host *h = &d->host;
    const struct ddpnic_nic *n = &d->nic;
    return h->ring.count == 0 && h->ready.first == SNIC_DDP__NIL && h->ending == SNIC_DDP__NIL &&
           h->ending_scope == SNIC_DDP__NIL && h->need_epoch == 0 && n->ring.count == 0 &&
           n->dirty == SNIC_DDP__NIL && n->sweep == SNIC_DDP__NIL && n->mark_dirty == 0 &&
           n->persist_dirty == 0 && n->ticking == 0 && n->suspects.changed == 0;
}

int snic_ddpnic_check(const struct snic_ddpnic *d)
{
    struct ddpnic_count c = {0, 0, 0, 0, 0, 0, 0};
    if (!ddpnic_at_rest(d))
        return SNIC_ECORRUPT; /* N6 */
    for (uint32_t i = 0; i < d->recs.high; i++) {
        if (ddpnic_check_rec(d, ddpnic_rec_at(d, i), &c) != 0)
            return SNIC_ECORRUPT;
    }
    if (ddp_index_count(&d->index) != d->recs.used || d->recs.high != d->recs.used)
        return SNIC_ECORRUPT;
    return ddpnic_check_late(d) != 0 ? SNIC_ECORRUPT : ddpnic_check_pools(d, &c);
}
