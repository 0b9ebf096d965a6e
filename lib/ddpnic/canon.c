/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A node's state as canonical bytes, for checkers that compare states.
 *
 * Left out is what does not decide what a node does next, or only when: numbers of records, items
 * and pool entries, orders of lists other than of reads, deadlines, how often something was tried,
 * counters. Sorted by looking for the next larger again and again: the states of checkers are
 * small.
 */
#include "ddpnic_priv.h"

static void ddpnic_canon_head(struct ddp_canon *o, const struct snic_ddpnic *d)
{
    const struct ddpnic_common *c = &d->common;
    ddp_canon_u64(o, (uint64_t)c->epoch << 32 | c->role << 8 | c->took_part);
    ddp_canon_u64(o, (uint64_t)c->full << 1 | (d->host.lease_ns != 0));
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if ((c->full & ddp_bit(n)) != 0)
            ddp_canon_u64(o, (uint64_t)n << 32 | d->nic.incarnation[n]);
    }
}

/* The next marker that is waited for; NULL: that was the last. */
static const struct ddpnic_wait *ddpnic_canon_marker(const struct snic_ddpnic *d,
                                                     const struct ddpnic_wait *last)
{
    const struct ddpnic_wait *best = NULL;
    for (uint32_t i = 0; i < d->nic.waits.high; i++) {
        const struct ddpnic_wait *a = ddpnic_wait_at(d, i);
        if ((a->flags & DDPNIC_A_PERSIST) == 0)
            continue;
        if (last != NULL && (a->src != last->src ? a->src < last->src : a->scope <= last->scope))
            continue;
        if (best == NULL || (a->src != best->src ? a->src < best->src : a->scope < best->scope))
            best = a;
    }
    return best;
}

/* The items of a key, in the order of their timestamps. */
static void ddpnic_canon_items(struct ddp_canon *o, const struct snic_ddpnic *d,
                               const struct ddpnic_rec *r)
{
    const struct ddpnic_item *last = NULL;
    for (;;) {
        const struct ddpnic_item *best = NULL;
        for (uint32_t i = 0; i < d->nic.items.high; i++) {
            const struct ddpnic_item *t = ddpnic_item_at(d, i);
            if ((t->flags & DDPNIC_I_USED) != 0 && t->rec == ddpnic_rec_number(d, r) &&
                (last == NULL || last->ts < t->ts) && (best == NULL || t->ts < best->ts))
                best = t;
        }
        if (best == NULL)
            break;
        ddp_canon_u64(o, best->ts);
        ddp_canon_u64(o, best->value);
        ddp_canon_u64(o, (uint64_t)best->flags << 32 | best->length);
        uint64_t covers = 0;
        const struct ddpnic_wait *a = ddpnic_canon_marker(d, NULL);
        for (; a != NULL; a = ddpnic_canon_marker(d, a))
            covers = covers << 1 | (uint64_t)ddpnic_scope_covers(a, best);
        ddp_canon_u64(o, covers);
        last = best;
    }
    ddp_canon_u64(o, UINT64_MAX);
}

/* Of a list of writes; two may have one timestamp, a replay beside one that was overtaken. */
static int ddpnic_canon_before(const struct ddpnic_write *a, const struct ddpnic_write *b)
{
    if (a->ts != b->ts)
        return a->ts < b->ts;
    if (a->scope != b->scope)
        return a->scope < b->scope;
    if (a->flags != b->flags)
        return a->flags < b->flags;
    return a < b;
}

static void ddpnic_canon_writes(struct ddp_canon *o, const struct snic_ddpnic *d, uint32_t list)
{
    const struct ddpnic_write *last = NULL;
    for (;;) {
        const struct ddpnic_write *best = NULL;
        for (uint32_t i = list; i != SNIC_DDP__NIL; i = ddpnic_write_at(d, i)->next) {
            const struct ddpnic_write *w = ddpnic_write_at(d, i);
            if ((last == NULL || ddpnic_canon_before(last, w)) &&
                (best == NULL || ddpnic_canon_before(w, best)))
                best = w;
        }
        if (best == NULL)
            break;
        ddp_canon_u64(o, best->ts);
        ddp_canon_u64(o, best->tau);
        ddp_canon_u64(o, best->scope);
        ddp_canon_u64(o, (uint64_t)best->flags << 32 | (best->timer.armed != 0));
        ddp_canon_u64(o, best->round);
        ddp_canon_u64(o, (uint64_t)best->ack_c << 48 | (uint64_t)best->ack_p << 32 |
                             (uint64_t)best->sent << 16 | best->acked);
        last = best;
    }
    ddp_canon_u64(o, UINT64_MAX);
}

static int ddpnic_canon_wait_before(const struct ddpnic_wait *a, const struct ddpnic_wait *b)
{
    return a->src != b->src ? a->src < b->src : a->ts < b->ts;
}

static void ddpnic_canon_waits(struct ddp_canon *o, const struct snic_ddpnic *d,
                               const struct ddpnic_rec *r)
{
    const struct ddpnic_wait *last = NULL;
    for (;;) {
        const struct ddpnic_wait *best = NULL;
        for (uint32_t i = r->waits; i != SNIC_DDP__NIL; i = ddpnic_wait_at(d, i)->next) {
            const struct ddpnic_wait *a = ddpnic_wait_at(d, i);
            if ((last == NULL || ddpnic_canon_wait_before(last, a)) &&
                (best == NULL || ddpnic_canon_wait_before(a, best)))
                best = a;
        }
        if (best == NULL)
            break;
        ddp_canon_u64(o, best->ts);
        ddp_canon_u64(o, best->tau);
        ddp_canon_u64(o, (uint64_t)best->src << 8 | best->flags);
        last = best;
    }
    ddp_canon_u64(o, UINT64_MAX);
}

/* The host's: reads in their order, writes in that of their timestamps. */
static void ddpnic_canon_host(struct ddp_canon *o, const struct snic_ddpnic *d,
                              const struct ddpnic_rec *r)
{
    for (uint32_t i = r->reads.first; i != SNIC_DDP__NIL; i = ddpnic_read_at(d, i)->next)
        ddp_canon_u64(o, ddpnic_read_at(d, i)->token);
    ddp_canon_u64(o, UINT64_MAX);
    const struct ddpnic_host_write *last = NULL;
    for (;;) {
        const struct ddpnic_host_write *best = NULL;
        for (uint32_t i = r->host_writes; i != SNIC_DDP__NIL;
             i = ddpnic_host_write_at(d, i)->next) {
            const struct ddpnic_host_write *w = ddpnic_host_write_at(d, i);
            if ((last == NULL || last->ts < w->ts) && (best == NULL || w->ts < best->ts))
                best = w;
        }
        if (best == NULL)
            break;
        ddp_canon_u64(o, best->ts);
        ddp_canon_u64(o, best->token);
        ddp_canon_u64(o, best->scope);
        last = best;
    }
    ddp_canon_u64(o, UINT64_MAX);
}

static void ddpnic_canon_rec(struct ddp_canon *o, const struct snic_ddpnic *d,
                             const struct ddpnic_rec *r)
{
    ddp_canon_u64(o, r->key.w[0]);
    ddp_canon_u64(o, r->key.w[1]);
    ddp_canon_u64(o, r->line.word);
    ddp_canon_u64(o, r->line.vts);
    ddp_canon_u64(o, r->line.gv);
    ddp_canon_u64(o, r->line.gd);
    ddp_canon_u64(o, r->enq);
    ddp_canon_u64(o, r->vin);
    ddp_canon_u64(o, r->out);
    ddp_canon_u64(o, r->dts);
    ddp_canon_u64(o, r->rel);
    ddp_canon_u64(o, r->timer.armed != 0);
    ddpnic_canon_items(o, d, r);
    ddpnic_canon_writes(o, d, r->writes);
    ddpnic_canon_waits(o, d, r);
    ddpnic_canon_host(o, d, r);
}

static void ddpnic_canon_scopes(struct ddp_canon *o, const struct snic_ddpnic *d)
{
    const struct ddpnic_scope *last = NULL;
    for (;;) {
        const struct ddpnic_scope *best = NULL;
        for (uint32_t i = 0; i < d->host.scopes.high; i++) {
            const struct ddpnic_scope *s = ddpnic_scope_at(d, i);
            if ((s->flags & DDPNIC_S_USED) != 0 && (last == NULL || last->id < s->id) &&
                (best == NULL || s->id < best->id))
                best = s;
        }
        if (best == NULL)
            break;
        ddp_canon_u64(o, best->id);
        ddp_canon_u64(o, best->token);
        ddp_canon_u64(o, (uint64_t)best->writes << 32 | best->flags);
        last = best;
    }
    ddp_canon_u64(o, UINT64_MAX);
    const struct ddpnic_wait *a = ddpnic_canon_marker(d, NULL);
    for (; a != NULL; a = ddpnic_canon_marker(d, a)) {
        ddp_canon_u64(o, a->scope);
        ddp_canon_u64(o, (uint64_t)a->round << 32 | (uint64_t)a->src << 8 | a->flags);
    }
    ddp_canon_u64(o, d->nic.round);
    ddpnic_canon_writes(o, d, d->nic.persists);
}

size_t snic_ddpnic_canon(const struct snic_ddpnic *d, void *out, size_t size)
{
    struct ddp_canon o = {out, size, 0};
    const struct ddpnic_rec *last = NULL;
    ddpnic_canon_head(&o, d);
    for (;;) {
        const struct ddpnic_rec *best = NULL;
        for (uint32_t i = 0; i < d->recs.high; i++) {
            const struct ddpnic_rec *r = ddpnic_rec_at(d, i);
            if ((last == NULL || ddp_canon_key_before(&last->key, &r->key)) &&
                (best == NULL || ddp_canon_key_before(&r->key, &best->key)))
                best = r;
        }
        if (best == NULL)
            break;
        ddpnic_canon_rec(&o, d, best);
        last = best;
    }
    ddp_canon_u64(&o, UINT64_MAX);
    ddpnic_canon_scopes(&o, d);
    return o.used;
}
