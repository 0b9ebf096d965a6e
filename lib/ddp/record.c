/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The table. A record never moves: its number is a cursor's meaning (snic_ddp_next, PULL). Also
 * what all that change a record have in common: dirty records, tombstones to look at later.
 */
#include "ddp_priv.h"

struct ddp_rec *ddp_find(const struct snic_ddp *d, const struct snic_ddp_key *key)
{
    uint32_t n = ddp_index_find(&d->index, ddp_rec_at(d, 0), sizeof(struct ddp_rec), key);
    return n != SNIC_DDP__NIL ? ddp_rec_at(d, n) : NULL;
}

struct ddp_rec *ddp_add(struct snic_ddp *d, const struct snic_ddp_key *key)
{
    SNIC_DASSERT(ddp_find(d, key) == NULL);
    if (ddp_pool_full(&d->recs))
        return NULL;
    uint32_t n = ddp_pool_take(&d->recs);
    struct ddp_rec *r = ddp_rec_at(d, n);
    r->key = *key;
    r->flags = DDP_R_USED;
    r->hash = ddp_hash(key);
    r->writes = r->waits = r->reads.first = r->reads.last = r->dirty = SNIC_DDP__NIL;
    ddp_index_add(&d->index, r->hash, n);
    return r;
}

/* Nothing refers to it any more and its value was released. */
void ddp_remove(struct snic_ddp *d, struct ddp_rec *r)
{
    uint32_t n = ddp_rec_number(d, r);
    SNIC_ASSERT(r->writes == SNIC_DDP__NIL && r->waits == SNIC_DDP__NIL);
    SNIC_ASSERT(r->reads.first == SNIC_DDP__NIL && (r->flags & DDP_R_DIRTY) == 0);
    if (r->vts != 0)
        ddp_changed(d, r, r->vts, 0, 0, SNIC_DDP_MSG_TOMBSTONE | SNIC_DDP_REMOVED);
    ddp_timer_stop(d, ddp_timer_of_rec(d, r));
    ddp_index_remove(&d->index, r->hash, n);
    if ((r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
        d->tombstones--;
    ddp_pool_give(&d->recs, n);
}

void ddp_append(struct snic_ddp *d, const struct ddp_rec *r, uint64_t scope, uint32_t background)
{
    SNIC_ASSERT(r->vts > r->dts); /* I3 */
    struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_APPEND);
    a->flags = (r->flags & SNIC_DDP_MSG_TOMBSTONE) | (background ? SNIC_DDP_BACKGROUND : 0);
    a->msg.key = r->key;
    a->msg.ts = r->vts;
    a->msg.flags = (uint8_t)(r->flags & SNIC_DDP_MSG_TOMBSTONE);
    a->msg.value = r->value;
    a->msg.length = r->length;
    a->msg.scope = scope;
}

/*
 * Something waits for the log to have what the key holds, which was appended in the background: the
 * loss window is too long for it. A record that a learner pulled is not urged unless its own rules
 * are those of the background.
 */
void ddp_urge(struct snic_ddp *d, struct ddp_rec *r)
{
    if (r->dts >= r->vts || (r->flags & DDP_R_URGED) != 0 || !ddp_rules_at(d, r->flags)->background)
        return;
    r->flags |= DDP_R_URGED;
    ddp_flush(d, SNIC_DDP__ID_URGE);
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
    ddp_changed(d, r, ts, r->value, r->length, r->flags & SNIC_DDP_MSG_TOMBSTONE);
    ddp_dirty(d, r);
}

/* Look for tombstones later: the lowest node soon, the others when it did not see to it. */
void ddp_purge_look(struct snic_ddp *d)
{
    uint32_t timer = ddp_timer_of_node(d, DDP_T_PURGE);
    if (d->tombstones == 0 || !d->serves || d->learners != 0 ||
        d->node_timers[DDP_T_PURGE].armed != 0)
        return;
    int lowest = (d->full & (ddp_bit(d->o.node) - 1)) == 0;
    ddp_timer_arm(d, timer, lowest ? (uint32_t)DDP_PACE : SNIC_DDP__DOUBLINGS - 1u);
}
