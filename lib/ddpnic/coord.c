/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The NIC as coordinator: the host's INV from the PCIe to the last VAL, retransmissions, replays.
 *
 * While the host's INV is on the PCIe the NIC may accept a newer write of the key: then the host's
 * is obsolete here. It is not sent at all, and answered when the newer one is known to be complete
 * (tau, as of now: H7), for otherwise another node could still show what is older than both.
 *
 * A lock is lifted by its coordinator's VAL. If none comes (N5) this NIC does the write over, under
 * its own name but with the write's timestamp (H4), with the value from the vFIFO if it is nowhere
 * else yet (A12). Any number of nodes may replay the same write.
 */
#include "ddpnic_priv.h"

/* There is room: the caller looked. @p r NULL: a scope's. */
struct ddpnic_write *ddpnic_write_new(struct snic_ddpnic *d, struct ddpnic_rec *r, uint64_t ts,
                                      uint32_t flags)
{
    struct ddpnic_nic *n = &d->nic;
    struct ddpnic_write *w = ddpnic_write_at(d, ddp_pool_take(&n->writes));
    w->ts = ts;
    w->flags = DDPNIC_W_USED | flags;
    w->rec = r != NULL ? ddpnic_rec_number(d, r) : SNIC_DDP__NIL;
    w->item = SNIC_DDP__NIL;
    if (r != NULL && (flags & DDPNIC_W_SHORT) == 0) {
        w->item = ddpnic_newest(r);
        SNIC_ASSERT(w->item != SNIC_DDP__NIL && ddpnic_item_at(d, w->item)->ts == ts);
        ddpnic_item_at(d, w->item)->refs++;
    }
    uint32_t *list = r != NULL ? &r->writes : &n->persists;
    w->next = *list;
    *list = ddpnic_write_number(d, w);
    return w;
}

/* The write of this timestamp in progress here. */
struct ddpnic_write *ddpnic_write_find(const struct snic_ddpnic *d, const struct ddpnic_rec *r,
                                       uint64_t ts)
{
    for (uint32_t i = r->writes; i != SNIC_DDP__NIL; i = ddpnic_write_at(d, i)->next) {
        struct ddpnic_write *w = ddpnic_write_at(d, i);
        if (w->ts == ts && (w->flags & DDPNIC_W_SHORT) == 0)
            return w;
    }
    return NULL;
}

void ddpnic_write_free(struct snic_ddpnic *d, struct ddpnic_write *w)
{
    struct ddpnic_rec *r = w->rec != SNIC_DDP__NIL ? ddpnic_rec_at(d, w->rec) : NULL;
    uint32_t n = ddpnic_write_number(d, w);
    SNIC_ASSERT((w->flags & DDPNIC_W_USED) != 0);
    uint32_t *link = r != NULL ? &r->writes : &d->nic.persists;
    while (*link != n)
        link = &ddpnic_write_at(d, *link)->next;
    *link = w->next;
    ddpnic_timer_stop(d, ddpnic_timer_of_write(d, w));
    ddp_suspect(&d->nic.suspects, &w->late, 0);
    if (w->item != SNIC_DDP__NIL)
        ddpnic_unref(d, w->item);
    ddp_pool_give(&d->nic.writes, n);
    if (r != NULL)
        ddpnic_watch(d, r, 0);
}

/* Whose acknowledgement is missing. */
uint16_t ddpnic_write_missing(const struct snic_ddpnic *d, const struct ddpnic_write *w)
{
    return ddp_rules_missing(&d->rules, d->common.others, w->ack_c, w->ack_p);
}

/* Has every other node stored it, and not every one acknowledged that it is durable there? */
static int ddpnic_write_stored(const struct snic_ddpnic *d, const struct ddpnic_write *w)
{
    return (d->common.others & ~w->ack_c) == 0 && ddpnic_write_missing(d, w) != 0;
}

/*
 * When to send INV again. A write that all have stored and not all have durable waits for dFIFOs,
 * which no message makes faster: it is retried at the slowest pace, in case an ACK_P was lost.
 */
static void ddpnic_write_pace(struct snic_ddpnic *d, const struct ddpnic_write *w)
{
    uint32_t tries = ddpnic_write_stored(d, w) ? SNIC_DDP__DOUBLINGS : w->tries;
    ddpnic_timer_retry(d, ddpnic_timer_of_write(d, w), tries);
}

/* INV, or a scope's PERSIST, to @p to, and again when that is not answered. */
void ddpnic_write_invalidate(struct snic_ddpnic *d, struct ddpnic_write *w, uint16_t to)
{
    if (to == 0)
        return;
    w->sent |= to;
    ddpnic_write_pace(d, w);
    if ((w->flags & DDPNIC_W_PERSIST) != 0) {
        static const struct snic_ddp_key none = {{0, 0}};
        struct snic_ddp_msg *p = ddpnic_send(d, SNIC_DDP_PERSIST, to, &none, 0);
        p->scope = w->scope;
        p->index = w->round;
        return;
    }
    const struct ddpnic_item *t = ddpnic_item_at(d, w->item);
    struct snic_ddp_msg *m =
        ddpnic_send(d, SNIC_DDP_INV, to, &ddpnic_rec_at(d, w->rec)->key, w->ts);
    m->flags = (uint8_t)(t->flags & SNIC_DDP_MSG_TOMBSTONE);
    if ((w->flags & DDPNIC_W_REPLAY) != 0)
        m->flags |= SNIC_DDP_MSG_REPLAY;
    m->scope = w->scope;
    m->value = t->value;
    m->length = t->length;
}

/* A copy of the host's message has come for its destinations, or the one for all. */
void ddpnic_write_forward(struct snic_ddpnic *d, struct ddpnic_write *w,
                          const struct snic_ddp_msg *m)
{
    uint16_t to = d->common.others;
    if ((d->o.flags & SNIC_DDPNIC_UNBATCHED) != 0 && (d->o.flags & SNIC_DDPNIC_UNICAST) != 0)
        to &= (uint16_t)m->index;
    else if (m->seen[0] != 0)
        return; /* broadcast with the last */
    if ((w->flags & DDPNIC_W_SHORT) == 0)
        ddpnic_write_invalidate(d, w, to);
}

/* Acknowledge to the host: the nodes @p acked have acknowledged all that the model requires. */
void ddpnic_write_ack_host(struct snic_ddpnic *d, struct ddpnic_write *w, uint16_t acked)
{
    uint16_t others = d->common.others;
    int last = (others & ~acked) == 0;
    uint16_t fresh = (uint16_t)(acked & others & ~w->acked);
    if ((w->flags & DDPNIC_W_CLIENT) == 0)
        return;
    if (!last && ((d->o.flags & SNIC_DDPNIC_UNBATCHED) == 0 || fresh == 0))
        return;
    struct snic_ddp_action *a = ddpnic_act(d, SNIC_DDPNIC_PCIE);
    if ((w->flags & DDPNIC_W_PERSIST) != 0) {
        a->msg.type = SNIC_DDP_PERSIST_ACK;
        a->msg.scope = w->scope;
    } else {
        a->msg.type = SNIC_DDP_ACK;
        a->msg.key = ddpnic_rec_at(d, w->rec)->key;
        a->msg.ts = w->ts;
    }
    a->msg.index = fresh;
    a->msg.seen[0] = (uint64_t)last;
    w->acked |= fresh;
    if (last)
        w->flags &= ~(uint32_t)DDPNIC_W_CLIENT;
}

static void ddpnic_write_overtaken(struct snic_ddpnic *d, struct ddpnic_write *w)
{
    const struct ddpnic_line *l = &ddpnic_rec_at(d, w->rec)->line;
    if (l->gv < w->tau || (d->rules.short_gd && l->gd < w->tau))
        return;
    w->acked = d->common.others; /* it was sent to none of them: one ACK */
    ddpnic_write_ack_host(d, w, d->common.others);
    ddpnic_write_free(d, w);
}

/* What a write's progress allows. */
void ddpnic_write_eval(struct snic_ddpnic *d, struct ddpnic_write *w)
{
    const struct ddp_rules *u = &d->rules;
    struct ddpnic_rec *r = ddpnic_rec_at(d, w->rec);
    const uint32_t foreign = DDP_C | DDP_P;
    uint32_t have = 0;
    SNIC_ASSERT((w->flags & DDPNIC_W_USED) != 0 && w->ts <= r->enq);
    if ((w->flags & DDPNIC_W_SHORT) != 0) {
        ddpnic_write_overtaken(d, w);
        return;
    }
    have |= (d->common.others & ~w->ack_c) == 0 ? (uint32_t)DDP_C : 0;
    have |= (d->common.others & ~w->ack_p) == 0 ? (uint32_t)DDP_P : 0;
    have |= r->vin >= w->ts ? (uint32_t)DDP_V : 0;
    have |= r->dts >= w->ts ? (uint32_t)DDP_L : 0;
    have |= r->out >= w->ts ? (uint32_t)DDP_D : 0;
    if ((have & u->gv) == u->gv)
        r->line.gv = snic_max_u64(r->line.gv, w->ts);
    if ((have & u->gd) == u->gd)
        r->line.gd = snic_max_u64(r->line.gd, w->ts);
    if ((have & u->release) == u->release)
        r->rel = snic_max_u64(r->rel, w->ts);
    if ((have & u->val) == u->val && (w->flags & DDPNIC_W_VAL) == 0) {
        w->flags |= DDPNIC_W_VAL;
        (void)ddpnic_send(d, u->val_type, d->common.others, &r->key, w->ts);
    }
    if ((have & u->val_p) == u->val_p && (w->flags & DDPNIC_W_VAL_P) == 0) {
        w->flags |= DDPNIC_W_VAL_P;
        (void)ddpnic_send(d, SNIC_DDP_VAL_P, d->common.others, &r->key, w->ts);
    }
    uint32_t own = u->answer & ~foreign;
    if ((have & own) == own) {
        uint16_t acked = (u->answer & DDP_P) != 0 ? w->ack_p : w->ack_c;
        ddpnic_write_ack_host(d, w, acked & w->ack_c);
    }
    if ((have & u->all) == u->all)
        ddpnic_write_free(d, w);
}

/* INV from the host: the first of its copies, or a further one. */
int ddpnic_coord_inv(struct snic_ddpnic *d, const struct snic_ddp_msg *m)
{
    struct ddpnic_nic *n = &d->nic;
    struct ddpnic_rec *r = ddpnic_find(d, &m->key);
    if (r == NULL || m->ts == 0 || (m->ts & SNIC_DDPNIC__LOCK) != 0 || ddpnic_top(&r->line) < m->ts)
        return SNIC_EINVAL;
    if (m->seen[1] != 0) {
        struct ddpnic_write *w = ddpnic_write_find(d, r, m->ts);
        if (w != NULL)
            ddpnic_write_forward(d, w, m);
        return 0; /* overtaken, or what it was for has left */
    }
    if (d->common.role == SNIC_DDP_FENCED) {
        if ((m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
            ddpnic_release(d, m->value);
        return 0; /* the host hears of it by WAKE */
    }
    if (n->writes.used + 1 >= n->writes.max || (m->ts > r->enq && !ddpnic_fifo_room(d)))
        return SNIC_EAGAIN;
    uint32_t flags = DDPNIC_W_CLIENT;
    if (m->ts > r->enq) {
        struct ddpnic_write *w;
        ddpnic_accept(d, r, m);
        w = ddpnic_write_new(d, r, m->ts, flags);
        w->scope = m->scope;
        ddpnic_write_forward(d, w, m); /* before the stores: the followers need not wait for them */
        ddpnic_store(d, r, m->scope);
        ddpnic_watch(d, r, 1);
        ddpnic_dirty(d, r);
        return 0;
    }
    if ((m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
        ddpnic_release(d, m->value);
    /* Equal: a message with this timestamp, made up, came first. Complete when the record is. */
    d->counters.overtaken++;
    struct ddpnic_write *w = ddpnic_write_new(d, r, m->ts, flags | DDPNIC_W_SHORT);
    w->tau = r->enq;
    w->scope = m->scope;
    ddpnic_dirty(d, r);
    return 0;
}

/* Send VAL of @p ts to @p to, for what this node knows to be complete (A5). */
static void ddpnic_coord_validate(struct snic_ddpnic *d, const struct ddpnic_rec *r, uint64_t ts,
                                  uint16_t to)
{
    const struct ddp_rules *u = &d->rules;
    if ((u->val_durable ? r->line.gd : r->line.gv) >= ts)
        (void)ddpnic_send(d, u->val_type, to, &r->key, ts);
    if (u->val_p != DDP_NEVER && r->line.gd >= ts)
        (void)ddpnic_send(d, SNIC_DDP_VAL_P, to, &r->key, ts);
}

int ddpnic_coord_ack(struct snic_ddpnic *d, const struct snic_ddp_msg *m)
{
    struct ddpnic_rec *r = ddpnic_find(d, &m->key);
    struct ddpnic_write *w = r != NULL ? ddpnic_write_find(d, r, m->ts) : NULL;
    if (w == NULL) {
        /* Of a write that is done: its VAL may have been lost (H20). */
        if (r != NULL && m->ts != 0)
            ddpnic_coord_validate(d, r, m->ts, ddp_bit(m->src));
        return 0;
    }
    int stored = ddpnic_write_stored(d, w);
    if (m->type != SNIC_DDP_ACK_P)
        w->ack_c |= ddp_bit(m->src);
    if (m->type != SNIC_DDP_ACK_C)
        w->ack_p |= ddp_bit(m->src);
    ddpnic_write_acked(d, w);
    if (!stored && ddpnic_write_stored(d, w))
        ddpnic_write_pace(d, w);
    ddpnic_dirty(d, r);
    return 0;
}

/* After an acknowledgement: update the suspects, and stop the timer when none is missing. */
void ddpnic_write_acked(struct snic_ddpnic *d, struct ddpnic_write *w)
{
    uint16_t missing = (uint16_t)(ddpnic_write_missing(d, w) & w->sent);
    ddp_suspect(&d->nic.suspects, &w->late, w->late & missing);
    if (missing == 0)
        ddpnic_timer_stop(d, ddpnic_timer_of_write(d, w));
}

/* INV or PERSIST again, to nodes that have not answered; to those that have not stored it first. */
void ddpnic_write_retry(struct snic_ddpnic *d, struct ddpnic_write *w)
{
    uint16_t missing = (uint16_t)(ddpnic_write_missing(d, w) & w->sent);
    uint16_t stores = (uint16_t)(d->common.others & ~w->ack_c & w->sent);
    w->tries = (uint16_t)(w->tries + (w->tries < UINT16_MAX));
    if (missing == 0)
        return;
    d->counters.retransmits++;
    if (w->tries >= SNIC_DDP__LATE)
        ddp_suspect(&d->nic.suspects, &w->late, missing);
    ddpnic_write_invalidate(d, w, stores != 0 ? stores : missing);
}

/*
 * N5: does this record need a replay of the write it accepted last? Not only for the lock: an
 * overtaken write waits for it, and may hold up the host's newer write, which has the lock by then.
 */
int ddpnic_watch_needed(const struct snic_ddpnic *d, const struct ddpnic_rec *r)
{
    const struct ddpnic_line *l = &r->line;
    if (d->common.role == SNIC_DDP_FENCED)
        return 0;
    if (l->gv >= r->enq && (!d->rules.watch_gd || l->gd >= r->enq))
        return 0;
    return ddpnic_write_find(d, r, r->enq) == NULL;
}

/* Arm or stop the record's timer. fresh: it has a new value. */
void ddpnic_watch(struct snic_ddpnic *d, struct ddpnic_rec *r, int fresh)
{
    if (!ddpnic_watch_needed(d, r))
        ddpnic_timer_stop(d, ddpnic_timer_of_rec(d, r));
    else if (fresh || r->timer.armed == 0)
        ddpnic_timer_arm(d, ddpnic_timer_of_rec(d, r), DDP_REPLAY);
}

void ddpnic_watch_fire(struct snic_ddpnic *d, struct ddpnic_rec *r)
{
    if (!ddpnic_watch_needed(d, r))
        return;
    if (ddp_pool_full(&d->nic.writes)) {
        ddpnic_timer_arm(d, ddpnic_timer_of_rec(d, r), DDP_REPLAY);
        return;
    }
    struct ddpnic_write *w = ddpnic_write_new(d, r, r->enq, DDPNIC_W_REPLAY);
    d->counters.replays++;
    ddpnic_write_invalidate(d, w, d->common.others);
    ddpnic_dirty(d, r);
}
