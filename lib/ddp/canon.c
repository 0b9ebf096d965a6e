/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A node's state as canonical bytes, for checkers that compare states.
 *
 * Left out is what does not decide what a node does next, or only when: numbers of records and pool
 * entries, orders of lists other than of reads, deadlines, how often something was tried, counters.
 * FLUSH's ids stay, since the answer to come names them. Sorted by looking for the next larger
 * again and again: the states of checkers are small.
 */
#include "ddp_priv.h"

struct canon_out {
    unsigned char *at;
    size_t size;
    size_t used;
};

static void canon_u64(struct canon_out *o, uint64_t v)
{
    if (o->used + 8 <= o->size)
        snic_put_le64(o->at + o->used, v);
    o->used += 8;
}

static void canon_head(struct canon_out *o, const struct snic_ddp *d)
{
    canon_u64(o,
              (uint64_t)d->epoch << 32 | d->role << 16 | (uint64_t)d->took_part << 1 | d->serves);
    canon_u64(o, (uint64_t)d->full << 48 | (uint64_t)d->learners << 32 | d->donor);
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if (((d->full | d->learners) & ddp_bit(n)) != 0)
            canon_u64(o, (uint64_t)n << 32 | d->incarnation[n]);
    }
    canon_u64(o, (uint64_t)d->loaded << 32 | d->loaded_epoch);
    canon_u64(o, d->lease_ns != 0);
    canon_u64(o, d->gen_floor);
    canon_u64(o, d->floor);
    canon_u64(o, d->purge_ts);
    if (d->purge_ts != 0) {
        canon_u64(o, d->purge_key.w[0]);
        canon_u64(o, d->purge_key.w[1]);
        canon_u64(o, d->purge_ack);
    }
    canon_u64(o, d->learn);
    if (d->learn == DDP_LEARN_PULLS) {
        canon_u64(o, d->pull_cursor);
        canon_u64(o, d->pull_next);
        canon_u64(o, d->pull_has);
        canon_u64(o, d->pull_got);
    }
    canon_u64(o, (uint64_t)d->restart << 32 | d->restarted);
    if (d->restart != DDP_RESTART_NOT) {
        canon_u64(o, d->differ);
        canon_u64(o, d->restart_sweep < d->recs.high);
        for (uint32_t i = 0; i < SNIC_DDP__RANGES; i++) {
            canon_u64(o, d->digest[i]);
            canon_u64(o, d->got[i]);
        }
    }
    for (uint32_t t = 0; t < DDP_T_NODE; t++)
        canon_u64(o, d->timers[t].armed != 0);
}

/* a before b? Timestamps may be equal: an aborted CAS beside its winner. */
static int canon_write_before(const struct ddp_write *a, const struct ddp_write *b)
{
    if (a->ts != b->ts)
        return a->ts < b->ts;
    if (a->token != b->token)
        return a->token < b->token;
    return a < b;
}

static void canon_write(struct canon_out *o, const struct ddp_write *w)
{
    canon_u64(o, w->ts);
    canon_u64(o, (w->flags & DDP_W_CLIENT) != 0 ? w->token : 0);
    canon_u64(o, (w->flags & DDP_W_OWNS) != 0 ? w->value : 0);
    canon_u64(o, w->scope);
    canon_u64(o, (w->flags & DDP_W_SETTLE) != 0 ? w->floor : 0);
    canon_u64(o, (uint64_t)w->flags << 32 | (uint64_t)w->ack_c << 16 | w->ack_p);
    canon_u64(o, (uint64_t)w->length << 32 | (w->timer.armed != 0));
}

static void canon_writes(struct canon_out *o, const struct snic_ddp *d, const struct ddp_rec *r)
{
    const struct ddp_write *last = NULL;
    for (;;) {
        const struct ddp_write *best = NULL;
        for (uint32_t i = r->writes; i != SNIC_DDP__NIL; i = ddp_write_at(d, i)->next) {
            const struct ddp_write *w = ddp_write_at(d, i);
            if ((last == NULL || canon_write_before(last, w)) &&
                (best == NULL || canon_write_before(w, best)))
                best = w;
        }
        if (best == NULL)
            break;
        canon_write(o, best);
        last = best;
    }
    canon_u64(o, UINT64_MAX);
}

static int canon_wait_before(const struct ddp_wait *a, const struct ddp_wait *b)
{
    return a->src != b->src ? a->src < b->src : a->ts < b->ts;
}

static void canon_waits(struct canon_out *o, const struct snic_ddp *d, const struct ddp_rec *r)
{
    const struct ddp_wait *last = NULL;
    for (;;) {
        const struct ddp_wait *best = NULL;
        for (uint32_t i = r->waits; i != SNIC_DDP__NIL; i = ddp_wait_at(d, i)->next) {
            const struct ddp_wait *a = ddp_wait_at(d, i);
            if ((last == NULL || canon_wait_before(last, a)) &&
                (best == NULL || canon_wait_before(a, best)))
                best = a;
        }
        if (best == NULL)
            break;
        canon_u64(o, best->ts);
        canon_u64(o, best->tau);
        canon_u64(o, (best->flags & DDP_A_CAS) != 0 ? best->scope : 0);
        canon_u64(o, (uint64_t)best->src << 8 | best->flags);
        last = best;
    }
    canon_u64(o, UINT64_MAX);
}

static void canon_rec(struct canon_out *o, const struct snic_ddp *d, const struct ddp_rec *r)
{
    canon_u64(o, r->key.w[0]);
    canon_u64(o, r->key.w[1]);
    canon_u64(o, r->vts);
    canon_u64(o, r->rd);
    canon_u64(o, r->value);
    canon_u64(o, (uint64_t)r->flags << 32 | r->length);
    canon_u64(o, r->gv);
    canon_u64(o, r->gd);
    canon_u64(o, r->dts);
    canon_u64(o, r->timer.armed != 0);
    canon_writes(o, d, r);
    canon_waits(o, d, r);
    for (uint32_t i = r->read_first; i != SNIC_DDP__NIL; i = ddp_read_at(d, i)->next)
        canon_u64(o, ddp_read_at(d, i)->token);
    canon_u64(o, UINT64_MAX);
}

static int canon_key_before(const struct snic_ddp_key *a, const struct snic_ddp_key *b)
{
    return a->w[0] != b->w[0] ? a->w[0] < b->w[0] : a->w[1] < b->w[1];
}

static void canon_scopes(struct canon_out *o, const struct snic_ddp *d)
{
    /* In the order of their numbers: those stay for FLUSHED. */
    for (uint32_t i = 0; i < d->scopes.high; i++) {
        const struct ddp_scope *s = ddp_scope_at(d, i);
        if ((s->flags & DDP_S_USED) == 0)
            continue;
        canon_u64(o, i);
        canon_u64(o, s->id);
        canon_u64(o, s->token);
        canon_u64(o, (uint64_t)s->writes << 32 | s->flags);
        canon_u64(o, (uint64_t)s->round << 32 | (uint64_t)s->ack << 8 | (s->timer.armed != 0));
    }
    canon_u64(o, d->round);
    for (uint32_t i = 0; i < d->waits.high; i++) {
        const struct ddp_wait *a = ddp_wait_at(d, i);
        if ((a->flags & DDP_A_PERSIST) == 0)
            continue;
        canon_u64(o, i);
        canon_u64(o, a->scope);
        canon_u64(o, (uint64_t)a->round << 32 | (uint64_t)a->src << 8 | a->flags);
    }
    canon_u64(o, UINT64_MAX);
}

size_t snic_ddp_canon(const struct snic_ddp *d, void *out, size_t size)
{
    struct canon_out o = {out, size, 0};
    const struct ddp_rec *last = NULL;
    canon_head(&o, d);
    for (;;) {
        const struct ddp_rec *best = NULL;
        for (uint32_t i = 0; i < d->recs.high; i++) {
            const struct ddp_rec *r = ddp_rec_at(d, i);
            if ((r->flags & DDP_R_USED) != 0 &&
                (last == NULL || canon_key_before(&last->key, &r->key)) &&
                (best == NULL || canon_key_before(&r->key, &best->key)))
                best = r;
        }
        if (best == NULL)
            break;
        canon_rec(&o, d, best);
        last = best;
    }
    canon_u64(&o, UINT64_MAX);
    canon_scopes(&o, d);
    return o.used;
}
