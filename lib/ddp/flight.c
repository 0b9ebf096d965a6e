/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Writes in flight, and the value of a record: which of the two owns a handle (I4), which timer
 * stands in for a write that is coordinated elsewhere (I5).
 */
#include "ddp_priv.h"

/* There is room: the caller looked. */
struct ddp_write *ddp_write_new(struct snic_ddp *d, struct ddp_rec *r, uint64_t ts, uint32_t flags)
{
    SNIC_ASSERT(ts <= r->vts); /* its value is the record's, or was */
    SNIC_DASSERT((flags & DDP_W_ABORTED) != 0 || ddp_write_find(d, r, ts) == NULL);
    struct ddp_write *w = ddp_write_at(d, ddp_pool_take(&d->writes));
    w->ts = ts;
    w->rec = ddp_rec_number(d, r);
    w->flags = DDP_W_USED | flags;
    w->length = r->length;
    w->next = r->writes;
    r->writes = ddp_write_number(d, w);
    return w;
}

/* The write of this timestamp in progress here. */
struct ddp_write *ddp_write_find(const struct snic_ddp *d, const struct ddp_rec *r, uint64_t ts)
{
    for (uint32_t i = r->writes; i != SNIC_DDP__NIL; i = ddp_write_at(d, i)->next) {
        struct ddp_write *w = ddp_write_at(d, i);
        if (w->ts == ts && (w->flags & DDP_W_ABORTED) == 0)
            return w;
    }
    return NULL;
}

/* Whose acknowledgement is missing. */
uint16_t ddp_write_missing(const struct snic_ddp *d, const struct ddp_write *w)
{
    return ddp_rules_missing(ddp_rules_at(d, w->flags), d->others, w->ack_c, w->ack_p);
}

/* Does a read here, or a CAS that failed, wait until the key's value is durable at all? */
int ddp_rec_awaited(const struct snic_ddp *d, const struct ddp_rec *r)
{
    if (r->reads.first != SNIC_DDP__NIL)
        return 1; /* not locked, so it waits for nothing else */
    for (uint32_t i = r->writes; i != SNIC_DDP__NIL; i = ddp_write_at(d, i)->next) {
        if ((ddp_write_at(d, i)->flags & DDP_W_ABORTED) != 0)
            return 1;
    }
    return 0;
}

/* I5: must something here end what the record waits for? */
int ddp_rec_watched(const struct snic_ddp *d, const struct ddp_rec *r)
{
    if (r->rd != 0)
        return 1;
    return r->gd < r->vts && (ddp_rules_at(d, r->flags)->watch_gd || ddp_rec_awaited(d, r));
}

/*
 * Arm or stop the record's timer, by I5. fresh: it has a new value. Called after every change of
 * rd, vts, gd or of the writes in progress here.
 */
void ddp_watch(struct snic_ddp *d, struct ddp_rec *r, int fresh)
{
    int needs = ddp_rec_watched(d, r);
    if (needs && ddp_write_find(d, r, r->vts) != NULL)
        needs = 0;
    if (!needs || d->role == SNIC_DDP_FENCED)
        ddp_timer_stop(d, ddp_timer_of_rec(d, r));
    else if (fresh || r->timer.armed == 0)
        ddp_timer_arm(d, ddp_timer_of_rec(d, r), DDP_REPLAY);
}

/* No node is slow in this. */
void ddp_write_calm(struct snic_ddp *d, struct ddp_write *w)
{
    ddp_suspect(&d->suspects, &w->late, 0);
    ddp_suspect(&d->silent, &w->silent, 0);
}

void ddp_write_free(struct snic_ddp *d, struct ddp_write *w)
{
    struct ddp_rec *r = ddp_rec_at(d, w->rec);
    uint32_t n = ddp_write_number(d, w);
    uint32_t *link = &r->writes;
    SNIC_ASSERT((w->flags & DDP_W_USED) != 0);
    while (*link != n)
        link = &ddp_write_at(d, *link)->next;
    *link = w->next;
    ddp_timer_stop(d, ddp_timer_of_write(d, w));
    ddp_write_calm(d, w);
    if ((w->flags & DDP_W_OWNS) != 0)
        ddp_release(d, w->value);
    if ((w->flags & DDP_W_RESTART) != 0) {
        SNIC_ASSERT(d->restart_writes > 0);
        d->restart_writes--;
    }
    ddp_pool_give(&d->writes, n);
    ddp_watch(d, r, 0);
    if (r->vts == 0 || r->reads.first != SNIC_DDP__NIL)
        ddp_dirty(d, r); /* I8; a read may need one of its own */
}

/* It lost, or what it was based on is no more. */
void ddp_cas_abort(struct snic_ddp *d, struct ddp_write *w)
{
    struct ddp_rec *r = ddp_rec_at(d, w->rec);
    SNIC_ASSERT((w->flags & (SNIC_DDP_MSG_CAS | DDP_W_ABORTED)) == SNIC_DDP_MSG_CAS); /* C1 */
    ddp_timer_stop(d, ddp_timer_of_write(d, w));
    w->flags &= ~(uint32_t)(DDP_W_SETTLE | SNIC_DDP_MSG_CAS);
    w->flags |= DDP_W_ABORTED;
    w->ack_c = w->ack_p = 0;
    ddp_write_calm(d, w);
    if ((w->flags & DDP_W_CLIENT) == 0) {
        ddp_write_free(d, w);
        return;
    }
    ddp_watch(d, r, 0);
    ddp_dirty(d, r);
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
 * TOMBSTONE, CAS, LOCKED and the rules. The caller appends it to the log (I3), arms the watch (I5).
 */
void ddp_apply(struct snic_ddp *d, struct ddp_rec *r, uint64_t ts, const struct snic_ddp_msg *m)
{
    const uint32_t shown = SNIC_DDP_MSG_LOCKED | SNIC_DDP_MSG_TOMBSTONE | SNIC_DDP_MSG_CAS;
    SNIC_ASSERT(ts > r->vts); /* I2 */
    ddp_changed(d, r, ts, m->value, m->length, m->flags & shown);
    if (r->vts == 0 && (r->flags & (DDP_R_REPLACES | DDP_R_ABOVE)) != 0) {
        if (ts >= r->gd) /* what the log has of the hint is not newer */
            r->flags &= ~(uint32_t)(DDP_R_REPLACES | DDP_R_ABOVE);
        r->gd = 0;
    }
    ddp_supersede(d, r, m->flags & SNIC_DDP_MSG_CAS);
    r->vts = ts;
    r->rd = (m->flags & SNIC_DDP_MSG_LOCKED) != 0 ? ts : 0;
    r->flags &= ~((uint32_t)(SNIC_DDP_MSG_TOMBSTONE | DDP_R_CAS | DDP_R_PERMIT | DDP_R_QUERIED |
                             DDP_R_URGED) |
                  ddp_rule_flag(SNIC_DDP__RULES - 1));
    r->flags |= ddp_rule_flag(ddp_msg_rule(d, m));
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
