/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The table. A record never moves: its number is a cursor's meaning (snic_ddp_next). Also what all
 * that change a record have in common: dirty records, tombstones to look at later; and hints (I10).
 */
#include "ddp_priv.h"

#define RECORD_SHED_SCAN 1024 /* records that SHED looks at */

/* Hints, too. */
struct ddp_rec *ddp_find_any(const struct snic_ddp *d, const struct snic_ddp_key *key)
{
    uint32_t n = ddp_index_find(&d->index, ddp_rec_at(d, 0), sizeof(struct ddp_rec), key);
    return n != SNIC_DDP__NIL ? ddp_rec_at(d, n) : NULL;
}

struct ddp_rec *ddp_find(const struct snic_ddp *d, const struct snic_ddp_key *key)
{
    struct ddp_rec *r = ddp_find_any(d, key);
    return r != NULL && ddp_is_hint(d, r) ? NULL : r; /* I10 */
}

/* ---- Hints ---- */

/* What the log has of it. */
static uint64_t ddp_hint_logged(const struct snic_ddp *d, const struct ddp_rec *r)
{
    return d->log_void ? 0 : r->dts;
}

/* Digests under way have a hint that is none any more (run.c, U2). */
static void ddp_hint_gone(struct snic_ddp *d, uint32_t hash)
{
    for (uint32_t i = 0; i < d->runs; i++) {
        struct ddp_run *run = ddp_run_at(d, i);
        if (run->state == DDP_RUN_FREE || hash < run->lo || hash >= run->end)
            continue;
        run->state = DDP_RUN_NEW;
        run->todo = 1;
        d->learn_work = 1;
    }
}

/*
 * A value of another timestamp comes in its place: an empty record. @p above: if it is an older
 * one, DDP_R_REPLACES or DDP_R_ABOVE.
 */
void ddp_hint_empty(struct snic_ddp *d, struct ddp_rec *r, uint32_t above)
{
    uint64_t logged = (r->flags & DDP_R_ABOVE) != 0 ? UINT64_MAX : ddp_hint_logged(d, r);
    ddp_changed(d, r, r->vts, 0, 0, SNIC_DDP_MSG_TOMBSTONE | SNIC_DDP_REMOVED);
    if ((r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
        d->tombstones--;
    else
        ddp_release(d, r->value);
    r->vts = r->rd = r->value = r->gv = r->dts = 0;
    r->length = r->queries = 0;
    r->gd = logged; /* until ddp_apply() */
    r->flags = DDP_R_USED | above;
    r->part = d->part;
    d->hints--;
}

/* The donor has it, with flags LOCKED and CAS: it is a record of which nothing else is known yet.
 */
void ddp_hint_confirm(struct snic_ddp *d, struct ddp_rec *r, uint32_t flags, uint32_t rule)
{
    uint32_t locked = flags & SNIC_DDP_MSG_LOCKED;
    SNIC_ASSERT(ddp_is_hint(d, r));
    if (r->rd == 0 && locked != 0) /* it is shown as readable */
        ddp_changed(d, r, r->vts, 0, 0, SNIC_DDP_MSG_TOMBSTONE | SNIC_DDP_REMOVED);
    if ((r->rd == 0) == (locked != 0))
        ddp_changed(d, r, r->vts, r->value, r->length, flags | (r->flags & SNIC_DDP_MSG_TOMBSTONE));
    r->dts = ddp_hint_logged(d, r);
    r->rd = locked != 0 ? r->vts : 0;
    r->gv = r->gd = 0;
    r->queries = 0;
    r->flags &= DDP_R_USED | SNIC_DDP_MSG_TOMBSTONE | DDP_R_ABOVE;
    r->flags |= (flags & SNIC_DDP_MSG_CAS) != 0 ? (uint32_t)DDP_R_CAS : 0;
    r->flags |= ddp_rule_flag(rule);
    r->part = d->part;
    d->hints--;
    d->learning.confirmed++;
    if (r->dts < r->vts)
        ddp_append(d, r, 0, 1);
}

/* The donor does not have it. */
void ddp_hint_drop(struct snic_ddp *d, struct ddp_rec *r)
{
    SNIC_ASSERT(ddp_is_hint(d, r));
    if (ddp_hint_logged(d, r) != 0 || (r->flags & DDP_R_ABOVE) != 0) {
        struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_APPEND);
        a->flags = SNIC_DDP_DROPS | SNIC_DDP_BACKGROUND | SNIC_DDP_MSG_TOMBSTONE;
        a->msg.key = r->key;
        a->msg.ts = r->vts;
        a->msg.flags = SNIC_DDP_MSG_TOMBSTONE;
    }
    uint64_t value = r->value;
    int tombstone = (r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0;
    d->hints--;
    d->learning.dropped++;
    ddp_remove(d, r);
    if (!tombstone)
        ddp_release(d, value);
}

/* In ranges being compared: their digests have it. */
static int ddp_hint_compared(const struct snic_ddp *d, uint32_t hash)
{
    for (uint32_t i = 0; i < d->runs; i++) {
        const struct ddp_run *run = ddp_run_at(d, i);
        if (run->state != DDP_RUN_FREE && hash >= run->lo && hash < run->end)
            return 1;
    }
    return 0;
}

/*
 * Drop a hint for what needs its place. 1: done. Rather one that is not being compared, since
 * others have to be asked for again.
 */
int ddp_hint_shed(struct snic_ddp *d)
{
    struct ddp_rec *last = NULL;
    for (uint32_t i = 0; d->hints != 0 && i < RECORD_SHED_SCAN && i < d->recs.high; i++) {
        struct ddp_rec *r = ddp_rec_at(d, d->shed_next++ % d->recs.high);
        if ((r->flags & DDP_R_USED) == 0 || !ddp_is_hint(d, r))
            continue;
        last = r;
        if (!ddp_hint_compared(d, r->hash))
            break;
    }
    if (last == NULL)
        return 0;
    ddp_hint_gone(d, last->hash);
    ddp_hint_drop(d, last);
    return 1;
}

/* ---- Records ---- */

/* NULL: there is no room. */
struct ddp_rec *ddp_add(struct snic_ddp *d, const struct snic_ddp_key *key)
{
    SNIC_DASSERT(ddp_find(d, key) == NULL);
    if (d->hints != 0) {
        struct ddp_rec *hint = ddp_find_any(d, key);
        if (hint != NULL) {
            ddp_hint_gone(d, hint->hash);
            ddp_hint_empty(d, hint, DDP_R_ABOVE);
            return hint;
        }
    }
    if (ddp_pool_full(&d->recs) && !ddp_hint_shed(d))
        return NULL;
    uint32_t n = ddp_pool_take(&d->recs);
    struct ddp_rec *r = ddp_rec_at(d, n);
    r->key = *key;
    r->flags = DDP_R_USED;
    r->hash = ddp_hash(key);
    r->part = d->part;
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

void ddp_append(struct snic_ddp *d, struct ddp_rec *r, uint64_t scope, uint32_t background)
{
    SNIC_ASSERT(r->vts > r->dts || (r->flags & DDP_R_REPLACES) != 0); /* I3 */
    struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_APPEND);
    a->flags = (r->flags & SNIC_DDP_MSG_TOMBSTONE) | (background ? SNIC_DDP_BACKGROUND : 0);
    if ((r->flags & DDP_R_REPLACES) != 0)
        a->flags |= SNIC_DDP_REPLACES;
    r->flags &= ~(uint32_t)DDP_R_REPLACES;
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

#undef RECORD_SHED_SCAN
