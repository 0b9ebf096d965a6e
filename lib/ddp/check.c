/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Every structural invariant of ddp_priv.h, between steps. */
#include "ddp_priv.h"

static int ddp_check_write(const struct snic_ddp *d, const struct ddp_rec *r,
                           const struct ddp_write *w)
{
    uint32_t settle = w->flags & DDP_W_SETTLE;
    uint32_t aborted = w->flags & DDP_W_ABORTED;
    if ((w->flags & DDP_W_USED) == 0 || w->rec != ddp_rec_number(d, r))
        return SNIC_ECORRUPT;
    if (((w->ack_c | w->ack_p) & ~(d->full | d->learners)) != 0)
        return SNIC_ECORRUPT; /* I7 */
    if (w->ts > r->vts || (settle != 0 && aborted != 0) || (settle != 0 && w->ts != r->vts))
        return SNIC_ECORRUPT;
    /* I4: its value is its own only after the record's has passed it. */
    if (settle == 0 && aborted == 0 && w->ts == r->vts && (w->flags & DDP_W_OWNS) != 0)
        return SNIC_ECORRUPT;
    if (settle == 0 && aborted == 0 && (w->flags & SNIC_DDP_MSG_CAS) != 0 && r->vts == w->ts &&
        r->rd == 0)
        return SNIC_ECORRUPT; /* a CAS that is not decided is not readable */
    if (aborted == 0 && ddp_write_missing(d, w) != 0 && w->timer.armed == 0)
        return SNIC_ECORRUPT;
    return ddp_timers_check(&d->timers, ddp_timer_of_write(d, w));
}

/* I5. During a restart what is to be replayed waits for its turn. */
static int ddp_check_watch(const struct snic_ddp *d, const struct ddp_rec *r)
{
    int needs = ddp_rec_watched(d, r);
    if (d->role == SNIC_DDP_FENCED || !needs)
        return 0;
    if (r->rd == 0 && d->restart != DDP_RESTART_NOT)
        return 0;
    if (ddp_write_find(d, r, r->vts) == NULL && r->timer.armed == 0)
        return SNIC_ECORRUPT;
    return 0;
}

static int ddp_check_rec(const struct snic_ddp *d, const struct ddp_rec *r, uint32_t *writes,
                         uint32_t *waits, uint32_t *reads)
{
    if (r->rd != 0 && r->rd != r->vts)
        return SNIC_ECORRUPT; /* I1 */
    if (r->gv > r->vts || r->gd > r->vts || r->dts > r->vts)
        return SNIC_ECORRUPT; /* I2 */
    if (ddp_rule(r->flags) != SNIC_DDP_RENF && r->rd != 0 && r->gv >= r->rd)
        return SNIC_ECORRUPT; /* except in REnf, reads wait only until all have stored the write */
    if ((r->flags & DDP_R_CAS) != 0 && (r->rd != r->vts || r->gv >= r->vts))
        return SNIC_ECORRUPT; /* C1: a CAS that is not decided is complete nowhere */
    if ((r->flags & DDP_R_DIRTY) != 0 || (r->vts == 0 && r->writes == SNIC_DDP__NIL))
        return SNIC_ECORRUPT; /* I6, I8 */
    if ((r->flags & DDP_R_REPLACES) != 0 ||
        (d->role == SNIC_DDP_FULL && (r->flags & DDP_R_ABOVE) != 0))
        return SNIC_ECORRUPT; /* what the log has above it is void by now */
    if (ddp_find(d, &r->key) != r || r->hash != ddp_hash(&r->key))
        return SNIC_ECORRUPT;
    for (uint32_t i = r->writes; i != SNIC_DDP__NIL; i = ddp_write_at(d, i)->next) {
        if (i >= d->writes.high || ++*writes > d->writes.used ||
            ddp_check_write(d, r, ddp_write_at(d, i)) != 0)
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = r->waits; i != SNIC_DDP__NIL; i = ddp_wait_at(d, i)->next) {
        const struct ddp_wait *a = ddp_wait_at(d, i);
        if (i >= d->waits.high || ++*waits > d->waits.used || a->rec != ddp_rec_number(d, r) ||
            (a->flags & DDP_A_USED) == 0 || (d->others & ddp_bit(a->src)) == 0)
            return SNIC_ECORRUPT;
        /* What is due was sent: I6. */
        int log = a->tau == 0 || (a->flags & DDP_A_LOG) != 0;
        if (r->gv >= a->tau && (log ? r->dts >= a->ts : r->gd >= a->tau))
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = r->reads.first; i != SNIC_DDP__NIL; i = ddp_read_at(d, i)->next) {
        const struct ddp_read *q = ddp_read_at(d, i);
        if (i >= d->reads.high || ++*reads > d->reads.used || q->rec != ddp_rec_number(d, r) ||
            ddp_rec_readable(r, q->ts != 0))
            return SNIC_ECORRUPT;
    }
    if (ddp_timers_check(&d->timers, ddp_timer_of_rec(d, r)) != 0)
        return SNIC_ECORRUPT;
    return ddp_check_watch(d, r);
}

/* I10 */
static int ddp_check_hint(const struct snic_ddp *d, const struct ddp_rec *r)
{
    if (r->vts == 0 || r->dts > r->vts || r->writes != SNIC_DDP__NIL || r->waits != SNIC_DDP__NIL ||
        r->reads.first != SNIC_DDP__NIL || r->timer.armed != 0 || (r->flags & DDP_R_DIRTY) != 0 ||
        ddp_find_any(d, &r->key) != r || r->hash != ddp_hash(&r->key))
        return SNIC_ECORRUPT;
    return 0;
}

/* late[] counts what waits too long for each node; `suspected` is what SUSPECT last reported. */
static int ddp_check_late(const struct snic_ddp *d, const struct ddp_suspects *s, int silent)
{
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        uint32_t count = (d->learn_late >> n & 1) + (d->restart_late >> n & 1);
        for (uint32_t i = 0; i < d->writes.high; i++)
            count += (silent ? ddp_write_at(d, i)->silent : ddp_write_at(d, i)->late) >> n & 1;
        for (uint32_t i = 0; i < d->scopes.high; i++)
            count += (silent ? ddp_scope_at(d, i)->silent : ddp_scope_at(d, i)->late) >> n & 1;
        if (count != s->late[n] || (count != 0) != (s->reported >> n & 1))
            return SNIC_ECORRUPT;
    }
    return s->changed != 0 ? SNIC_ECORRUPT : 0;
}

static int ddp_check_pools(const struct snic_ddp *d, uint32_t writes, uint32_t waits,
                           uint32_t reads)
{
    uint32_t scopes = 0;
    uint32_t settles = 0;
    for (uint32_t i = 0; i < d->waits.high; i++)
        waits += (ddp_wait_at(d, i)->flags & DDP_A_PERSIST) != 0;
    for (uint32_t i = 0; i < d->writes.high; i++)
        settles += (ddp_write_at(d, i)->flags & DDP_W_RESTART) != 0;
    for (uint32_t i = 0; i < d->scopes.high; i++) {
        const struct ddp_scope *s = ddp_scope_at(d, i);
        scopes += (s->flags & DDP_S_USED) != 0;
        if (ddp_timers_check(&d->timers, ddp_timer_of_scope(d, s)) != 0)
            return SNIC_ECORRUPT;
        if ((s->flags & (DDP_S_SENT | DDP_S_DEAD)) == DDP_S_SENT && (d->others & ~s->ack) != 0 &&
            s->timer.armed == 0)
            return SNIC_ECORRUPT;
    }
    if (ddp_check_late(d, &d->suspects, 0) != 0 || ddp_check_late(d, &d->silent, 1) != 0)
        return SNIC_ECORRUPT;
    if (writes != d->writes.used || waits != d->waits.used || reads != d->reads.used ||
        scopes != d->scopes.used || settles != d->restart_writes)
        return SNIC_ECORRUPT;
    return 0;
}

int snic_ddp_check(const struct snic_ddp *d)
{
    uint32_t recs = 0;
    uint32_t tombstones = 0;
    uint32_t hints = 0;
    uint32_t writes = 0;
    uint32_t waits = 0;
    uint32_t reads = 0;
    if (d->ring.count != 0 || d->dirty != SNIC_DDP__NIL || d->ready.first != SNIC_DDP__NIL ||
        d->ticking != 0)
        return SNIC_ECORRUPT; /* I6 */
    if (d->recs.high > d->recs.max || d->writes.high > d->writes.max ||
        d->waits.high > d->waits.max || d->reads.high > d->reads.max ||
        d->scopes.high > d->scopes.max)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < d->recs.high; i++) {
        const struct ddp_rec *r = ddp_rec_at(d, i);
        if ((r->flags & DDP_R_USED) == 0)
            continue;
        recs++;
        tombstones += (r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0;
        if (ddp_is_hint(d, r)) {
            hints++;
            if (ddp_check_hint(d, r) != 0)
                return SNIC_ECORRUPT;
            continue;
        }
        if (ddp_check_rec(d, r, &writes, &waits, &reads) != 0)
            return SNIC_ECORRUPT;
    }
    if (hints != d->hints || (hints != 0 && d->role == SNIC_DDP_FULL))
        return SNIC_ECORRUPT; /* I10 */
    if (recs != d->recs.used || tombstones != d->tombstones || ddp_index_count(&d->index) != recs)
        return SNIC_ECORRUPT;
    for (uint32_t t = 0; t < DDP_T_NODE; t++) {
        if (ddp_timers_check(&d->timers, ddp_timer_of_node(d, t)) != 0)
            return SNIC_ECORRUPT;
    }
    return ddp_check_pools(d, writes, waits, reads);
}
