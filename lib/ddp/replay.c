/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * When messages or nodes are lost: retransmission, questions, replays.
 *
 * A follower's lock is lifted by its coordinator's VAL. If none comes (I5) the follower asks the
 * coordinator, and if that does not help within as long a time again, or there is no such node any
 * more, it does the write over, under its own name but with the write's timestamp (H4; Hermes). Any
 * number of nodes may replay the same write.
 *
 * A CAS is different: whether it happened is its coordinator's to decide, and a second one that
 * decides would let the first refuse what already took effect. So another node replays it only when
 * the coordinator is no member, or has declined to decide it (DDP_R_PERMIT).
 */
#include "ddp_priv.h"

/*
 * Arm or stop the record's timer, by I5. fresh: it has a new value. Called after every change of
 * rd, vts, gd or of the writes in progress here.
 */
void ddp_watch(struct snic_ddp *d, struct ddp_rec *r, int fresh)
{
    int needs = r->rd != 0 || (d->rules.watch_gd && r->gd < r->vts);
    if (needs && ddp_write_find(d, r, r->vts) != NULL)
        needs = 0;
    if (!needs || d->role == SNIC_DDP_FENCED)
        ddp_timer_stop(d, ddp_timer_of_rec(d, r));
    else if (fresh || r->timer.armed == 0)
        ddp_timer_arm(d, ddp_timer_of_rec(d, r), DDP_REPLAY);
}

/*
 * The QUERY found the write still under way: back off, so that a slow write does not get QUERY from
 * all others a hundred times a second.
 */
static void ddp_watch_patient(struct snic_ddp *d, struct ddp_rec *r)
{
    r->queries += r->queries < SNIC_DDP__PATIENCE;
    ddp_timer_arm(d, ddp_timer_of_rec(d, r), DDP_REPLAY + r->queries);
}

static void ddp_watch_replay(struct snic_ddp *d, struct ddp_rec *r)
{
    r->flags &= ~(uint32_t)(DDP_R_QUERIED | DDP_R_PERMIT);
    uint32_t flags = DDP_W_REPLAY;
    /* What was known to be stored everywhere cannot be refused any more. */
    if ((r->flags & DDP_R_CAS) != 0)
        flags |= SNIC_DDP_MSG_CAS;
    struct ddp_write *w = ddp_write_new(d, r, r->vts, flags);
    d->counters.replays++;
    ddp_watch(d, r, 0);
    ddp_write_invalidate(d, w, d->others);
    ddp_dirty(d, r);
}

void ddp_watch_fire(struct snic_ddp *d, struct ddp_rec *r)
{
    uint32_t owner = snic_ddp_ts_node(r->vts);
    int gone = (d->others & ddp_bit(owner)) == 0;
    int may = gone || ((r->flags & DDP_R_QUERIED) != 0 && (r->flags & DDP_R_CAS) == 0) ||
              (r->flags & DDP_R_PERMIT) != 0;
    if (d->role == SNIC_DDP_FENCED)
        return;
    if (may && d->role == SNIC_DDP_FULL && ddp_write_room(d, DDP_PLACE_REPLAY)) {
        ddp_watch_replay(d, r);
        return;
    }
    may = may && d->role == SNIC_DDP_FULL;
    int again = !gone && !may && (r->flags & DDP_R_QUERIED) != 0;
    if (!gone) {
        (void)ddp_send(d, SNIC_DDP_QUERY, ddp_bit(owner), &r->key, r->vts);
        d->counters.queries++;
        r->flags |= DDP_R_QUERIED;
    }
    if (again)
        ddp_watch_patient(d, r);
    else /* who does not answer is not waited for longer */
        ddp_timer_arm(d, ddp_timer_of_rec(d, r), DDP_REPLAY);
}

/*
 * A write, scope, pull or restart has waited SNIC_DDP__LATE tries for the nodes @p now; @p late is
 * its previous mask. Counted per node: a node is suspected while at least one of them waits for it.
 */
void ddp_suspect(struct snic_ddp *d, uint16_t *late, uint16_t now)
{
    uint16_t change = (uint16_t)(*late ^ now);
    if (change == 0)
        return;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if ((change & ddp_bit(n)) != 0)
            d->late[n] += (now & ddp_bit(n)) != 0 ? 1 : UINT32_MAX;
    }
    *late = now;
    d->suspects = 1;
}

void ddp_suspect_emit(struct snic_ddp *d)
{
    uint16_t mask = 0;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++)
        mask |= d->late[n] != 0 ? ddp_bit(n) : 0;
    if (mask == d->suspected)
        return;
    d->suspected = mask;
    ddp_act(d, SNIC_DDP_SUSPECT)->to = mask;
}

/* INV again, to the nodes that have not answered. */
void ddp_write_retry(struct snic_ddp *d, struct ddp_write *w)
{
    uint16_t missing = ddp_write_missing(d, w);
    uint16_t stores = (uint16_t)(d->others & ~w->ack_c);
    w->tries = (uint16_t)(w->tries + (w->tries < UINT16_MAX));
    SNIC_ASSERT(missing != 0); /* the last acknowledgement stops the timer */
    d->counters.retransmits++;
    if (w->tries >= SNIC_DDP__LATE)
        ddp_suspect(d, &w->late, missing);
    ddp_write_invalidate(d, w, stores != 0 ? stores : missing);
}

/* Tell @p to that @p ts is complete, as far as this node knows it (amendment A5). */
void ddp_validate(struct snic_ddp *d, const struct ddp_rec *r, uint64_t ts, uint16_t to)
{
    const struct ddp_rules *u = &d->rules;
    if ((u->val_durable ? r->gd : r->gv) >= ts)
        (void)ddp_send(d, u->val_type, to, &r->key, ts);
    if (u->val_p != DDP_NEVER && r->gd >= ts)
        (void)ddp_send(d, SNIC_DDP_VAL_P, to, &r->key, ts);
}

/* The write's coordinator, @p src, is still at work: the watch starts anew. */
void ddp_watch_alive(struct snic_ddp *d, struct ddp_rec *r, uint32_t src)
{
    if (snic_ddp_ts_node(r->vts) != src || r->timer.armed == 0)
        return;
    if ((r->flags & DDP_R_QUERIED) != 0)
        ddp_watch_patient(d, r);
    else
        ddp_timer_arm(d, ddp_timer_of_rec(d, r), DDP_REPLAY + r->queries);
    r->flags &= ~(uint32_t)DDP_R_QUERIED;
}

/* The answer to a QUERY: its coordinator does, or will not decide the CAS that locks a key. */
static int ddp_query_answer(struct snic_ddp *d, struct ddp_rec *r, const struct snic_ddp_msg *m)
{
    if (r == NULL || r->vts != m->ts)
        return 0;
    if ((m->flags & SNIC_DDP_MSG_REPLAY) == 0)
        ddp_watch_alive(d, r, m->src);
    else if ((r->flags & DDP_R_CAS) != 0 && snic_ddp_ts_node(m->ts) == m->src &&
             r->timer.armed != 0) {
        if ((r->flags & DDP_R_PERMIT) == 0)
            ddp_timer_arm(d, ddp_timer_of_rec(d, r), DDP_REPLAY);
        r->flags |= DDP_R_PERMIT;
    }
    return 0;
}

int ddp_query(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    struct ddp_rec *r = ddp_find(d, &m->key);
    if ((m->flags & (SNIC_DDP_MSG_REPLAY | SNIC_DDP_MSG_LOCKED)) != 0)
        return ddp_query_answer(d, r, m);
    if (snic_ddp_ts_node(m->ts) != d->o.node)
        return SNIC_EPROTO;
    struct ddp_write *w = r != NULL ? ddp_write_find(d, r, m->ts) : NULL;
    /* Not by the write's own timer: who asks often must not put off who has not answered. */
    if (w != NULL && (ddp_write_missing(d, w) & ddp_bit(m->src)) != 0)
        ddp_write_send_inv(d, w, ddp_bit(m->src));
    else if (w != NULL)
        ddp_send(d, SNIC_DDP_QUERY, ddp_bit(m->src), &m->key, m->ts)->flags = SNIC_DDP_MSG_LOCKED;
    if (r != NULL)
        ddp_validate(d, r, m->ts, ddp_bit(m->src));
    if (w == NULL && (r == NULL || r->gv < m->ts)) {
        struct snic_ddp_msg *a = ddp_send(d, SNIC_DDP_QUERY, ddp_bit(m->src), &m->key, m->ts);
        a->flags = SNIC_DDP_MSG_REPLAY;
    }
    return 0;
}
