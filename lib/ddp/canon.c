/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A node's state as canonical bytes, for checkers that compare states.
 *
 * Left out is what does not decide what a node does next, or only when: numbers of records and pool
 * entries, orders of lists other than of reads, deadlines, how often something was tried, counters.
 * FLUSH's ids are such numbers: the caller, whose state has them too, gives them, and they are
 * replaced by what each FLUSH is for. Sorted by looking for the next larger again and again: the
 * states of checkers are small.
 */
#include "ddp_priv.h"

static void ddp_canon_run(struct ddp_canon *o, const struct ddp_run *run)
{
    ddp_canon_u64(o, run->lo);
    ddp_canon_u64(o, run->end);
    ddp_canon_u64(o, run->sum);
    ddp_canon_u64(o, run->query);
    ddp_canon_u64(o, run->list == DDP_LIST_NEXT ? run->after.w[0] : 0);
    ddp_canon_u64(o, run->list == DDP_LIST_NEXT ? run->after.w[1] : 0);
    ddp_canon_u64(o, (uint64_t)run->bits << 48 | (uint64_t)run->state << 40 |
                         (uint64_t)run->ranges << 32 | (uint64_t)run->done << 24 |
                         (uint64_t)run->same << 16 | (uint64_t)run->list << 8 | run->more);
    ddp_canon_u64(o, (uint64_t)run->durable << 16 | (uint64_t)run->offers << 8 | run->budget);
    /* The order of offers is that of their arrival, and decides nothing. */
    uint64_t sum = 0;
    for (uint32_t i = 0; i < run->offers; i++) {
        const struct ddp_offer *x = &run->offer[i];
        sum += ddp_rec_sum(&x->key, x->ts, x->length << 1 | x->requested);
    }
    ddp_canon_u64(o, sum);
}

static void ddp_canon_learn(struct ddp_canon *o, const struct snic_ddp *d)
{
    ddp_canon_u64(o, (uint64_t)d->learn << 32 | d->log_void);
    if (d->learn != DDP_LEARN_PULLS)
        return;
    ddp_canon_u64(o, d->learn_next);
    ddp_canon_u64(o, d->learn_keys);
    for (uint32_t i = 0; i < d->runs; i++)
        ddp_canon_run(o, ddp_run_at(d, i));
}

static void ddp_canon_head(struct ddp_canon *o, const struct snic_ddp *d)
{
    ddp_canon_u64(o, (uint64_t)d->epoch << 32 | d->role << 16 | (uint64_t)d->took_part << 1 |
                         d->serves);
    ddp_canon_u64(o, (uint64_t)d->full << 48 | (uint64_t)d->learners << 32 | d->donor);
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if (((d->full | d->learners) & ddp_bit(n)) != 0)
            ddp_canon_u64(o, (uint64_t)n << 32 | d->incarnation[n]);
    }
    ddp_canon_u64(o, (uint64_t)d->loaded << 32 | d->loaded_epoch);
    ddp_canon_u64(o, d->lease_ns != 0);
    ddp_canon_u64(o, d->gen_floor);
    ddp_canon_u64(o, d->floor);
    ddp_canon_u64(o, d->purge_ts);
    if (d->purge_ts != 0) {
        ddp_canon_u64(o, d->purge_key.w[0]);
        ddp_canon_u64(o, d->purge_key.w[1]);
        ddp_canon_u64(o, d->purge_ack);
    }
    ddp_canon_learn(o, d);
    ddp_canon_u64(o, (uint64_t)d->restart << 32 | d->restarted);
    if (d->restart != DDP_RESTART_NOT) {
        ddp_canon_u64(o, d->differ);
        ddp_canon_u64(o, (uint64_t)d->restart_sum << 32 | (d->restart_sweep < d->recs.high));
        for (uint32_t i = 0; i < SNIC_DDP__RANGES; i++) {
            ddp_canon_u64(o, d->digest[i]);
            ddp_canon_u64(o, d->got[i]);
        }
    }
    for (uint32_t t = 0; t < DDP_T_NODE; t++)
        ddp_canon_u64(o, d->node_timers[t].armed != 0);
}

/* a before b? Timestamps may be equal: an aborted CAS beside its winner. */
static int ddp_canon_write_before(const struct ddp_write *a, const struct ddp_write *b)
{
    if (a->ts != b->ts)
        return a->ts < b->ts;
    if (a->token != b->token)
        return a->token < b->token;
    return a < b;
}

static void ddp_canon_write(struct ddp_canon *o, const struct ddp_write *w)
{
    ddp_canon_u64(o, w->ts);
    ddp_canon_u64(o, (w->flags & DDP_W_CLIENT) != 0 ? w->token : 0);
    ddp_canon_u64(o, (w->flags & DDP_W_OWNS) != 0 ? w->value : 0);
    ddp_canon_u64(o, w->scope);
    ddp_canon_u64(o, (w->flags & DDP_W_SETTLE) != 0 ? w->floor : 0);
    ddp_canon_u64(o, (uint64_t)w->flags << 32 | (uint64_t)w->ack_c << 16 | w->ack_p);
    ddp_canon_u64(o, (uint64_t)w->length << 32 | (uint64_t)w->rule << 16 |
                         (uint64_t)w->copies_min << 1 | (w->timer.armed != 0));
}

static void ddp_canon_writes(struct ddp_canon *o, const struct snic_ddp *d, const struct ddp_rec *r)
{
    const struct ddp_write *last = NULL;
    for (;;) {
        const struct ddp_write *best = NULL;
        for (uint32_t i = r->writes; i != SNIC_DDP__NIL; i = ddp_write_at(d, i)->next) {
            const struct ddp_write *w = ddp_write_at(d, i);
            if ((last == NULL || ddp_canon_write_before(last, w)) &&
                (best == NULL || ddp_canon_write_before(w, best)))
                best = w;
        }
        if (best == NULL)
            break;
        ddp_canon_write(o, best);
        last = best;
    }
    ddp_canon_u64(o, UINT64_MAX);
}

static int ddp_canon_wait_before(const struct ddp_wait *a, const struct ddp_wait *b)
{
    return a->src != b->src ? a->src < b->src : a->ts < b->ts;
}

static void ddp_canon_waits(struct ddp_canon *o, const struct snic_ddp *d, const struct ddp_rec *r)
{
    const struct ddp_wait *last = NULL;
    for (;;) {
        const struct ddp_wait *best = NULL;
        for (uint32_t i = r->waits; i != SNIC_DDP__NIL; i = ddp_wait_at(d, i)->next) {
            const struct ddp_wait *a = ddp_wait_at(d, i);
            if ((last == NULL || ddp_canon_wait_before(last, a)) &&
                (best == NULL || ddp_canon_wait_before(a, best)))
                best = a;
        }
        if (best == NULL)
            break;
        ddp_canon_u64(o, best->ts);
        ddp_canon_u64(o, best->tau);
        ddp_canon_u64(o, (best->flags & DDP_A_CAS) != 0 ? best->scope : 0);
        ddp_canon_u64(o, (uint64_t)best->src << 8 | best->flags);
        last = best;
    }
    ddp_canon_u64(o, UINT64_MAX);
}

static void ddp_canon_rec(struct ddp_canon *o, const struct snic_ddp *d, const struct ddp_rec *r)
{
    ddp_canon_u64(o, r->key.w[0]);
    ddp_canon_u64(o, r->key.w[1]);
    ddp_canon_u64(o, r->vts);
    if (ddp_is_hint(d, r)) {
        ddp_canon_u64(o, UINT64_MAX);
        ddp_canon_u64(o, r->value);
        ddp_canon_u64(o, (uint64_t)(r->flags & (SNIC_DDP_MSG_TOMBSTONE | DDP_R_ABOVE)) << 32 |
                             r->length);
        ddp_canon_u64(o, r->dts);
        return;
    }
    ddp_canon_u64(o, r->rd);
    ddp_canon_u64(o, r->value);
    ddp_canon_u64(o, (uint64_t)r->flags << 32 | r->length);
    ddp_canon_u64(o, r->gv);
    ddp_canon_u64(o, r->gd);
    ddp_canon_u64(o, r->dts);
    ddp_canon_u64(o, r->timer.armed != 0);
    ddp_canon_writes(o, d, r);
    ddp_canon_waits(o, d, r);
    for (uint32_t i = r->reads.first; i != SNIC_DDP__NIL; i = ddp_read_at(d, i)->next) {
        ddp_canon_u64(o, ddp_read_at(d, i)->token);
        ddp_canon_u64(o, ddp_read_at(d, i)->ts);
    }
    ddp_canon_u64(o, UINT64_MAX);
}

static void ddp_canon_scope(struct ddp_canon *o, const struct ddp_scope *s)
{
    ddp_canon_u64(o, s->id);
    ddp_canon_u64(o, s->token);
    ddp_canon_u64(o, (uint64_t)s->writes << 32 | (uint64_t)s->copies_min << 8 | s->flags);
    ddp_canon_u64(o, (uint64_t)s->round << 32 | (uint64_t)s->ack << 8 | (s->timer.armed != 0));
}

static void ddp_canon_persist(struct ddp_canon *o, const struct ddp_wait *a)
{
    ddp_canon_u64(o, a->scope);
    ddp_canon_u64(o, (uint64_t)a->round << 32 | (uint64_t)a->src << 8 | a->flags);
}

/* The FLUSHes whose FLUSHED has not come, in their order. */
struct ddp_canon_flushes {
    const uint32_t *id;
    uint32_t count;
};

static int ddp_canon_flushing(const struct ddp_canon_flushes *f, uint32_t id)
{
    uint32_t i = 0;
    while (i < f->count && f->id[i] != id)
        i++;
    return i < f->count;
}

static void ddp_canon_flushes(struct ddp_canon *o, const struct snic_ddp *d,
                              const struct ddp_canon_flushes *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t kind = f->id[i] & ~SNIC_DDP__ID_MASK;
        uint32_t n = f->id[i] & SNIC_DDP__ID_MASK;
        ddp_canon_u64(o, kind);
        if (kind == SNIC_DDP__ID_SCOPE) {
            SNIC_ASSERT(n < d->scopes.high);
            ddp_canon_scope(o, ddp_scope_at(d, n));
        } else if (kind == SNIC_DDP__ID_WAIT) {
            SNIC_ASSERT(n < d->waits.high);
            ddp_canon_persist(o, ddp_wait_at(d, n));
        }
    }
    ddp_canon_u64(o, UINT64_MAX);
}

/* One id may have scopes that are DEAD beside one that is not, but no two of a round. */
static int ddp_canon_scope_before(const struct ddp_scope *a, const struct ddp_scope *b)
{
    return a->id != b->id ? a->id < b->id : a->round < b->round;
}

static void ddp_canon_scopes(struct ddp_canon *o, const struct snic_ddp *d,
                             const struct ddp_canon_flushes *f)
{
    const struct ddp_scope *last = NULL;
    for (;;) {
        const struct ddp_scope *best = NULL;
        for (uint32_t i = 0; i < d->scopes.high; i++) {
            const struct ddp_scope *s = ddp_scope_at(d, i);
            if ((s->flags & DDP_S_USED) != 0 && !ddp_canon_flushing(f, SNIC_DDP__ID_SCOPE | i) &&
                (last == NULL || ddp_canon_scope_before(last, s)) &&
                (best == NULL || ddp_canon_scope_before(s, best)))
                best = s;
        }
        if (best == NULL)
            break;
        ddp_canon_scope(o, best);
        last = best;
    }
    ddp_canon_u64(o, UINT64_MAX);
    ddp_canon_u64(o, d->round);
}

static int ddp_canon_persist_before(const struct ddp_wait *a, const struct ddp_wait *b)
{
    if (a->src != b->src)
        return a->src < b->src;
    if (a->scope != b->scope)
        return a->scope < b->scope;
    if (a->round != b->round)
        return a->round < b->round;
    return a->flags != b->flags ? a->flags < b->flags : a < b;
}

/* Those whose FLUSH the caller did not name. */
static void ddp_canon_persists(struct ddp_canon *o, const struct snic_ddp *d,
                               const struct ddp_canon_flushes *f)
{
    const struct ddp_wait *last = NULL;
    for (;;) {
        const struct ddp_wait *best = NULL;
        for (uint32_t i = 0; i < d->waits.high; i++) {
            const struct ddp_wait *a = ddp_wait_at(d, i);
            if ((a->flags & DDP_A_PERSIST) != 0 && !ddp_canon_flushing(f, SNIC_DDP__ID_WAIT | i) &&
                (last == NULL || ddp_canon_persist_before(last, a)) &&
                (best == NULL || ddp_canon_persist_before(a, best)))
                best = a;
        }
        if (best == NULL)
            break;
        ddp_canon_persist(o, best);
        last = best;
    }
    ddp_canon_u64(o, UINT64_MAX);
}

size_t snic_ddp_canon(const struct snic_ddp *d, const uint32_t *flush, uint32_t flushes, void *out,
                      size_t size)
{
    struct ddp_canon o = {out, size, 0};
    const struct ddp_canon_flushes f = {flush, flushes};
    const struct ddp_rec *last = NULL;
    ddp_canon_head(&o, d);
    for (;;) {
        const struct ddp_rec *best = NULL;
        for (uint32_t i = 0; i < d->recs.high; i++) {
            const struct ddp_rec *r = ddp_rec_at(d, i);
            if ((r->flags & DDP_R_USED) != 0 &&
                (last == NULL || ddp_canon_key_before(&last->key, &r->key)) &&
                (best == NULL || ddp_canon_key_before(&r->key, &best->key)))
                best = r;
        }
        if (best == NULL)
            break;
        ddp_canon_rec(&o, d, best);
        last = best;
    }
    ddp_canon_u64(&o, UINT64_MAX);
    ddp_canon_flushes(&o, d, &f);
    ddp_canon_scopes(&o, d, &f);
    ddp_canon_persists(&o, d, &f);
    return o.used;
}
