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
    /* By the write's own rules, so that it is not weakened; no client here waits for this log. */
    uint32_t rule = ddp_rule(r->flags) == DDP_HERE ? SNIC_DDP_EVENT : ddp_rule(r->flags);
    uint32_t flags = DDP_W_REPLAY | ddp_rule_flag(rule);
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
    if (ddp_read_fire(d, r)) {
        ddp_timer_arm(d, ddp_timer_of_rec(d, r), DDP_REPLAY);
        return;
    }
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
 * INV again, to the nodes that have not answered. It comes without the value (a probe) for those
 * that are known to have it, and for all if it is large: whether it was lost, or their logs are
 * slow, is not known before they answer.
 */
void ddp_write_retry(struct snic_ddp *d, struct ddp_write *w)
{
    uint16_t missing = ddp_write_missing(d, w);
    uint16_t stores = (uint16_t)(d->others & ~w->ack_c);
    w->tries = (uint16_t)(w->tries + (w->tries < UINT16_MAX));
    SNIC_ASSERT(missing != 0); /* the last acknowledgement stops the timer */
    d->counters.retransmits += (uint32_t)__builtin_popcount(stores != 0 ? stores : missing);
    if (w->tries >= SNIC_DDP__LATE) {
        ddp_suspect(&d->suspects, &w->late, missing);
        ddp_suspect(&d->silent, &w->silent, (uint16_t)(missing & ~w->heard));
    }
    w->heard = 0;
    const struct ddp_rec *r = ddp_rec_at(d, w->rec);
    uint32_t length = w->ts == r->vts ? r->length : w->length;
    int probe = (stores == 0 || length > SNIC_DDP__RESEND) && (w->flags & SNIC_DDP_MSG_CAS) == 0;
    if (probe && w->ts != 0)
        ddp_write_probe(d, w, stores != 0 ? stores : missing);
    else
        ddp_write_invalidate(d, w, stores != 0 ? stores : missing);
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
    struct ddp_write *w = r != NULL ? ddp_write_find(d, r, m->ts) : NULL;
    int own = snic_ddp_ts_node(m->ts) == d->o.node;
    if (w != NULL)
        w->heard |= ddp_bit(m->src);
    /* Not by the write's own timer: who asks often must not put off who has not answered. */
    if (w != NULL && (ddp_write_missing(d, w) & ddp_bit(m->src)) != 0)
        ddp_write_send_inv(d, w, ddp_bit(m->src));
    else if (w != NULL)
        ddp_send(d, SNIC_DDP_QUERY, ddp_bit(m->src), &m->key, m->ts)->flags = SNIC_DDP_MSG_LOCKED;
    if (r != NULL)
        ddp_validate(d, r, m->ts, ddp_bit(m->src));
    if (own && w == NULL && (r == NULL || r->gv < m->ts)) {
        struct snic_ddp_msg *a = ddp_send(d, SNIC_DDP_QUERY, ddp_bit(m->src), &m->key, m->ts);
        a->flags = SNIC_DDP_MSG_REPLAY;
    }
    return 0;
}
