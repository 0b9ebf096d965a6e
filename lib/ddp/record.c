/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The table: records in an array, found by an open-addressing index of (hash, number), which is at
 * most two thirds full. Removal shifts what follows back, so there are no marks to skip. A record
 * never moves: its number is a cursor's meaning (snic_ddp_next, PULL).
 *
 * Also what is common to all that change a record: a new value (I4), dirty records.
 */
#include "ddp_priv.h"

uint32_t ddp_hash(const struct snic_ddp_key *key)
{
    uint64_t h = key->w[0] * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 32;
    h = (h ^ key->w[1]) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 29;
    h *= UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(h >> 32);
}

static int ddp_same_key(const struct snic_ddp_key *a, const struct snic_ddp_key *b)
{
    return a->w[0] == b->w[0] && a->w[1] == b->w[1];
}

struct ddp_rec *ddp_find(const struct snic_ddp *d, const struct snic_ddp_key *key)
{
    const struct ddp_slot *index = ddp_index(d);
    uint32_t hash = ddp_hash(key);
    for (uint32_t i = hash & d->index_mask; index[i].rec != 0; i = (i + 1) & d->index_mask) {
        if (index[i].hash != hash)
            continue;
        struct ddp_rec *r = ddp_rec_at(d, index[i].rec - 1);
        if (ddp_same_key(&r->key, key))
            return r;
    }
    return NULL;
}

int ddp_pool_full(const struct ddp_pool *p)
{
    return p->used == p->max;
}

uint32_t ddp_pool_take(struct ddp_pool *p, uint32_t next_of_free)
{
    SNIC_ASSERT(p->used < p->max);
    uint32_t i = p->free;
    if (i != SNIC_DDP__NIL)
        p->free = next_of_free;
    else
        i = p->high++;
    p->used++;
    return i;
}

struct ddp_rec *ddp_add(struct snic_ddp *d, const struct snic_ddp_key *key)
{
    if (ddp_pool_full(&d->recs))
        return NULL;
    uint32_t next = SNIC_DDP__NIL;
    if (d->recs.free != SNIC_DDP__NIL)
        next = ddp_rec_at(d, d->recs.free)->dirty;
    uint32_t n = ddp_pool_take(&d->recs, next);
    struct ddp_rec *r = ddp_rec_at(d, n);
    memset(r, 0, sizeof(*r));
    r->key = *key;
    r->flags = DDP_R_USED;
    r->hash = ddp_hash(key);
    r->writes = r->waits = r->read_first = r->read_last = r->dirty = SNIC_DDP__NIL;
    struct ddp_slot *index = ddp_index(d);
    uint32_t i = r->hash & d->index_mask;
    while (index[i].rec != 0)
        i = (i + 1) & d->index_mask;
    index[i].hash = r->hash;
    index[i].rec = n + 1;
    return r;
}

/* Nothing refers to it any more and its value was released. */
void ddp_remove(struct snic_ddp *d, struct ddp_rec *r)
{
    struct ddp_slot *index = ddp_index(d);
    uint32_t n = ddp_rec_number(d, r);
    SNIC_ASSERT(r->writes == SNIC_DDP__NIL && r->waits == SNIC_DDP__NIL);
    SNIC_ASSERT(r->read_first == SNIC_DDP__NIL && (r->flags & DDP_R_DIRTY) == 0);
    ddp_timer_stop(d, ddp_timer_of_rec(d, r));
    uint32_t hole = r->hash & d->index_mask;
    while (index[hole].rec != n + 1)
        hole = (hole + 1) & d->index_mask;
    for (uint32_t i = (hole + 1) & d->index_mask; index[i].rec != 0; i = (i + 1) & d->index_mask) {
        uint32_t home = index[i].hash & d->index_mask;
        /* It may fill the hole unless its home lies behind the hole. */
        if (((i - home) & d->index_mask) >= ((i - hole) & d->index_mask)) {
            index[hole] = index[i];
            hole = i;
        }
    }
    index[hole].hash = 0;
    index[hole].rec = 0;
    if ((r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
        d->tombstones--;
    memset(r, 0, sizeof(*r));
    r->dirty = d->recs.free;
    d->recs.free = n;
    d->recs.used--;
}

/*
 * The value of vts is about to be replaced: its handle goes to its write, if that is in flight. A
 * CAS that is not decided is not what @p cas, another one, compared with (C1): it lost.
 */
static void ddp_supersede(struct snic_ddp *d, struct ddp_rec *r, uint32_t cas)
{
    struct ddp_write *heir = NULL;
    for (uint32_t i = r->writes; i != SNIC_DDP__NIL;) {
        struct ddp_write *w = ddp_write_at(d, i);
        i = w->next;
        if ((w->flags & DDP_W_SETTLE) != 0)
            ddp_cas_abort(d, w); /* what it is based on is no more */
        else if (w->ts == r->vts && (w->flags & DDP_W_ABORTED) == 0)
            heir = w;
    }
    if (r->vts == 0)
        return;
    if ((r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0) {
        d->tombstones--;
    } else if (heir != NULL) {
        heir->value = r->value;
        heir->length = r->length;
        heir->flags |= DDP_W_OWNS;
    } else {
        ddp_release(d, r->value);
    }
    if (cas != 0 && heir != NULL && (heir->flags & SNIC_DDP_MSG_CAS) != 0)
        ddp_cas_abort(d, heir);
}

/*
 * The record's new value, from a message or what looks like one: value, length and of the flags
 * TOMBSTONE, CAS, LOCKED. The caller appends it to the log (I3), arms the watch (I5).
 */
void ddp_apply(struct snic_ddp *d, struct ddp_rec *r, uint64_t ts, const struct snic_ddp_msg *m)
{
    SNIC_ASSERT(ts > r->vts); /* I2 */
    ddp_supersede(d, r, m->flags & SNIC_DDP_MSG_CAS);
    r->vts = ts;
    r->rd = (m->flags & SNIC_DDP_MSG_LOCKED) != 0 ? ts : 0;
    r->flags &= ~(uint32_t)(SNIC_DDP_MSG_TOMBSTONE | DDP_R_CAS | DDP_R_PERMIT | DDP_R_QUERIED);
    r->queries = 0;
    if ((m->flags & SNIC_DDP_MSG_CAS) != 0)
        r->flags |= DDP_R_CAS;
    if ((m->flags & SNIC_DDP_MSG_TOMBSTONE) != 0) {
        r->flags |= SNIC_DDP_MSG_TOMBSTONE;
        r->value = 0;
        r->length = 0;
        d->tombstones++;
        ddp_purge_look(d);
    } else {
        r->value = m->value;
        r->length = m->length;
    }
    if (r->rd == 0)
        ddp_dirty(d, r);
}

void ddp_append(struct snic_ddp *d, const struct ddp_rec *r, uint64_t scope, uint32_t background)
{
    struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_APPEND);
    a->flags = (r->flags & SNIC_DDP_MSG_TOMBSTONE) | (background ? SNIC_DDP_BACKGROUND : 0);
    a->msg.key = r->key;
    a->msg.ts = r->vts;
    a->msg.flags = (uint8_t)(r->flags & SNIC_DDP_MSG_TOMBSTONE);
    a->msg.value = r->value;
    a->msg.length = r->length;
    a->msg.scope = scope;
}

void ddp_dirty(struct snic_ddp *d, struct ddp_rec *r)
{
    if ((r->flags & DDP_R_DIRTY) != 0)
        return;
    r->flags |= DDP_R_DIRTY;
    r->dirty = d->dirty;
    d->dirty = ddp_rec_number(d, r);
}

/* The write @p ts is complete: if reads wait for it, no longer. */
void ddp_unlock(struct snic_ddp *d, struct ddp_rec *r, uint64_t ts)
{
    if (r->rd != ts)
        return;
    r->rd = 0;
    ddp_dirty(d, r);
}

/*
 * What follows from a dirty record's state: its writes' next steps, then CAS that lost, which are
 * reads by now, acknowledgements that are due (gv, gd, dts rose), and reads. Takes what fits the
 * ring; the record stays dirty until all is done.
 */
void ddp_eval(struct snic_ddp *d, struct ddp_rec *r)
{
    for (uint32_t i = r->writes; i != SNIC_DDP__NIL;) {
        struct ddp_write *w = ddp_write_at(d, i);
        if (!ddp_room(d))
            return;
        i = w->next;
        if ((w->flags & DDP_W_ABORTED) == 0 && ddp_write_eval(d, w) != 0)
            (void)ddp_write_eval(d, w);
    }
    for (uint32_t i = r->writes; r->rd == 0 && i != SNIC_DDP__NIL;) {
        struct ddp_write *w = ddp_write_at(d, i);
        if (!ddp_room(d))
            return;
        i = w->next;
        if ((w->flags & DDP_W_ABORTED) != 0)
            ddp_write_eval_aborted(d, w);
    }
    if (ddp_follow_eval(d, r) != 0)
        return;
    if (r->rd == 0 && r->read_first != SNIC_DDP__NIL) {
        if (d->ready.first == SNIC_DDP__NIL)
            d->ready.first = r->read_first;
        else
            ddp_read_at(d, d->ready.last)->next = r->read_first;
        d->ready.last = r->read_last;
        r->read_first = r->read_last = SNIC_DDP__NIL;
    }
    SNIC_ASSERT(d->dirty == ddp_rec_number(d, r));
    d->dirty = r->dirty;
    r->dirty = SNIC_DDP__NIL;
    r->flags &= ~(uint32_t)DDP_R_DIRTY;
    if (r->vts == 0 && r->writes == SNIC_DDP__NIL)
        ddp_remove(d, r); /* I8 */
}
