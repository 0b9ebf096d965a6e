/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The coordinator: a client's write from its timestamp to the last message.
 *
 * A write is applied to the local record in the step that makes its timestamp (the paper's lines 4
 * to 12 at once), so two writers of a node never make the same one (H2), and the paper's check for
 * obsolescence right afterwards has nothing to find (H32).
 */
#include "ddp_priv.h"

/*
 * A timestamp above all that the record had, in the present epoch: versions of earlier epochs do
 * not count (amendment A1). @p step is 2, of a CAS 1 (A11). 0: no version is left.
 */
uint64_t ddp_next_ts(const struct snic_ddp *d, const struct ddp_rec *r, uint64_t step)
{
    uint64_t base = snic_max_u64(r != NULL ? r->vts : 0, d->gen_floor);
    uint64_t version = snic_ddp_ts_epoch(base) == d->epoch ? snic_ddp_ts_version(base) : 0;
    if (version + step > SNIC_DDP_VERSION_MAX)
        return 0;
    return snic_ddp_ts(d->epoch, version + step, d->o.node);
}

/* Does this write take a place of that kind? A CAS that is settled takes a client's. */
static int ddp_write_is(const struct snic_ddp *d, const struct ddp_write *w, enum ddp_place of)
{
    const struct ddp_rec *r = ddp_rec_at(d, w->rec);
    if ((w->flags & DDP_W_USED) == 0 || (w->flags & (DDP_W_SETTLE | DDP_W_ABORTED)) != 0)
        return 0;
    if ((w->flags & DDP_W_REPLAY) != 0)
        return of == DDP_PLACE_REPLAY;
    int tombstone =
        w->ts == r->vts ? (r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0 : (w->flags & DDP_W_OWNS) == 0;
    return of == DDP_PLACE_DELETE && tombstone;
}

/*
 * Is there a place? Of the last two one is for a replay, since all others may wait for a write that
 * only a replay ends, and one for a deletion, since all others may wait for logs that are full. So
 * the very last is for the kind that has none. (Of two places in all none is for deletions.)
 */
int ddp_write_room(const struct snic_ddp *d, enum ddp_place of)
{
    uint32_t left = d->writes.max - d->writes.used;
    if (d->writes.max == 2)
        return left > (of != DDP_PLACE_REPLAY);
    if (left > 2 || left == 0)
        return left != 0;
    if (of == DDP_PLACE_CLIENT || left == 2)
        return of != DDP_PLACE_CLIENT;
    for (uint32_t i = 0; i < d->writes.high; i++) {
        if (ddp_write_is(d, ddp_write_at(d, i), of))
            return 0;
    }
    return 1;
}

/*
 * When to send INV again. A write that all have stored and not all have durable waits for logs,
 * which no message makes faster: it is retried at the slowest pace, in case an ACK_P was lost.
 */
static void ddp_write_pace(struct snic_ddp *d, const struct ddp_write *w)
{
    uint32_t stored = (d->others & ~w->ack_c) == 0;
    ddp_timer_retry(d, ddp_timer_of_write(d, w), stored ? SNIC_DDP__DOUBLINGS : w->tries);
}

/* INV to @p to, and again when that is not answered. */
void ddp_write_invalidate(struct snic_ddp *d, struct ddp_write *w, uint16_t to)
{
    if (to == 0)
        return;
    ddp_write_pace(d, w);
    ddp_write_send_inv(d, w, to);
}

/*
 * What @p w writes, into a message of zeroes: value, length and in the flags TOMBSTONE. Of the
 * record as long as that is its value, else of the write (I4).
 */
void ddp_write_value(const struct snic_ddp *d, const struct ddp_write *w, struct snic_ddp_msg *m)
{
    const struct ddp_rec *r = ddp_rec_at(d, w->rec);
    if (w->ts == r->vts) {
        m->flags |= (uint8_t)(r->flags & SNIC_DDP_MSG_TOMBSTONE);
        m->value = r->value;
        m->length = r->length;
        if (r->vts == 0)
            m->flags |= SNIC_DDP_MSG_TOMBSTONE;
    } else if ((w->flags & DDP_W_OWNS) != 0) {
        m->value = w->value;
        m->length = w->length;
    } else {
        m->flags |= SNIC_DDP_MSG_TOMBSTONE;
    }
}

/* INV to @p to. */
void ddp_write_send_inv(struct snic_ddp *d, const struct ddp_write *w, uint16_t to)
{
    const struct ddp_rec *r = ddp_rec_at(d, w->rec);
    struct snic_ddp_msg *m = ddp_send(d, SNIC_DDP_INV, to, &r->key, w->ts);
    m->scope = w->scope;
    m->flags = (uint8_t)((w->flags & SNIC_DDP_MSG_CAS) | ddp_rule_msg(d, w->flags));
    if ((w->flags & DDP_W_REPLAY) != 0)
        m->flags |= SNIC_DDP_MSG_REPLAY;
    m->seen[0] = w->floor;
    ddp_write_value(d, w, m);
}

/* INV without its value to @p to, and again when that is not answered. */
void ddp_write_probe(struct snic_ddp *d, struct ddp_write *w, uint16_t to)
{
    struct snic_ddp_msg *m = ddp_send(d, SNIC_DDP_INV, to, &ddp_rec_at(d, w->rec)->key, w->ts);
    SNIC_ASSERT((w->flags & SNIC_DDP_MSG_CAS) == 0 && w->ts != 0);
    m->scope = w->scope;
    m->flags = (uint8_t)(SNIC_DDP_MSG_LOCKED | SNIC_DDP_MSG_TOMBSTONE | ddp_rule_msg(d, w->flags));
    if ((w->flags & DDP_W_REPLAY) != 0)
        m->flags |= SNIC_DDP_MSG_REPLAY;
    ddp_write_pace(d, w);
}

static void ddp_write_answer(struct snic_ddp *d, struct ddp_write *w)
{
    SNIC_ASSERT((w->flags & (DDP_W_CLIENT | DDP_W_SETTLE | DDP_W_ABORTED)) == DDP_W_CLIENT);
    struct snic_ddp_action *a = ddp_done_all(d, w->token, w->copies_min);
    a->msg.key = ddp_rec_at(d, w->rec)->key;
    a->msg.ts = w->ts;
    a->msg.scope = w->scope;
    w->flags &= ~(uint32_t)DDP_W_CLIENT;
    if (w->scope != 0)
        ddp_scope_answered(d, w->scope);
}

/* A CAS that lost is a read, of what beat it: the key is not locked any more. */
void ddp_write_eval_aborted(struct snic_ddp *d, struct ddp_write *w)
{
    const struct ddp_rec *r = ddp_rec_at(d, w->rec);
    SNIC_ASSERT((w->flags & DDP_W_ABORTED) != 0 && r->rd == 0); /* C3 */
    if (!ddp_rec_readable(r, (w->flags & DDP_W_DURABLE) != 0))
        return;
    if (ddp_lease(d, d->now_ns))
        ddp_done(d, w->token, SNIC_ECANCELED, r);
    else
        ddp_done(d, w->token, SNIC_EUNKNOWN, NULL);
    if (w->scope != 0)
        ddp_scope_answered(d, w->scope);
    ddp_write_free(d, w);
}

/* What a write's progress allows. 1: a CAS is settled, its second half may begin. */
int ddp_write_eval(struct snic_ddp *d, struct ddp_write *w)
{
    const struct ddp_rules *u = ddp_rules_at(d, w->flags);
    struct ddp_rec *r = ddp_rec_at(d, w->rec);
    uint32_t have = 0;
    SNIC_ASSERT((w->flags & (DDP_W_USED | DDP_W_ABORTED)) == DDP_W_USED && w->ts <= r->vts);
    have |= (d->others & ~w->ack_c) == 0 ? (uint32_t)DDP_C : 0;
    have |= (d->others & ~w->ack_p) == 0 ? (uint32_t)DDP_P : 0;
    have |= r->dts >= w->ts ? (uint32_t)DDP_L : 0;
    if ((have & DDP_C) != 0 && (w->flags & (SNIC_DDP_MSG_CAS | DDP_W_SETTLE)) == SNIC_DDP_MSG_CAS) {
        w->flags &= ~(uint32_t)SNIC_DDP_MSG_CAS; /* decided: from here on a write like any other */
        if (r->vts == w->ts)
            r->flags &= ~(uint32_t)DDP_R_CAS;
    }
    if ((have & u->first) != u->first)
        return 0; /* most acknowledgements change nothing yet */
    if ((have & u->gv) == u->gv)
        r->gv = snic_max_u64(r->gv, w->ts);
    if ((have & u->gd) == u->gd)
        r->gd = snic_max_u64(r->gd, w->ts);
    if ((have & u->release) == u->release && w->ts != 0)
        ddp_unlock(d, r, w->ts);
    if ((have & u->val) == u->val && (w->flags & DDP_W_VAL) == 0) {
        w->flags |= DDP_W_VAL;
        if (w->ts != 0)
            (void)ddp_send(d, u->val_type, d->others, &r->key, w->ts);
    }
    if ((have & u->val_p) == u->val_p && (w->flags & DDP_W_VAL_P) == 0) {
        w->flags |= DDP_W_VAL_P;
        if (w->ts != 0)
            (void)ddp_send(d, SNIC_DDP_VAL_P, d->others, &r->key, w->ts);
    }
    if ((w->flags & DDP_W_SETTLE) != 0)
        return (have & u->all) == u->all;
    if ((have & u->answer) == u->answer && (w->flags & DDP_W_CLIENT) != 0)
        ddp_write_answer(d, w);
    if ((have & u->all) == u->all && (w->flags & DDP_W_FOR_READ) == 0)
        ddp_write_free(d, w);
    return 0;
}

/* May this event write? */
int ddp_write_admit(struct snic_ddp *d, const struct snic_ddp_event *ev, const struct ddp_rec *r)
{
    if (ev->durability > SNIC_DDP_DURABILITY_SCOPE || ev->copies_min > SNIC_DDP_NODES_MAX)
        return SNIC_EINVAL;
    int scoped = ddp_rule_of(d->o.model, ev->durability) == SNIC_DDP_SCOPE;
    if ((ev->scope != 0) != scoped || (scoped && d->scopes.max == 0))
        return SNIC_EINVAL;
    if (!ddp_lease(d, d->now_ns))
        return SNIC_ESTALE;
    if (ddp_copies(d) < ev->copies_min)
        return SNIC_ENOQUORUM;
    if (ev->scope != 0) {
        const struct ddp_scope *s = ddp_scope_find(d, ev->scope);
        if (s == NULL ? ddp_pool_full(&d->scopes) : (s->flags & DDP_S_SYNC) != 0)
            return SNIC_EAGAIN;
    }
    if (!ddp_write_room(d, ev->type == SNIC_DDP_DELETE ? DDP_PLACE_DELETE : DDP_PLACE_CLIENT))
        return SNIC_EAGAIN;
    /* The rest of the pool is for what others admitted before they heard of each other's keys. */
    if (r == NULL && d->recs.used >= d->o.keys_max)
        return SNIC_ENOSPC;
    if (ddp_next_ts(d, r, 2) == 0) {
        d->need_epoch = 1;
        return SNIC_EAGAIN;
    }
    return 0;
}

/* May the coordinator's own log take its time? */
uint32_t ddp_write_lazy(const struct snic_ddp *d, uint32_t flags)
{
    return ddp_rules_at(d, flags)->background && (ddp_rules_at(d, flags)->answer & DDP_L) == 0;
}

/* WRITE and DELETE. */
int ddp_write_client(struct snic_ddp *d, const struct snic_ddp_event *ev)
{
    struct ddp_rec *r = ddp_find(d, &ev->key);
    int result = ddp_write_admit(d, ev, r);
    if (result != 0)
        return result;
    if (r == NULL)
        r = ddp_add(d, &ev->key);
    uint64_t ts = ddp_next_ts(d, r, 2);
    uint32_t rule = ddp_rule_flag(ddp_rule_of(d->o.model, ev->durability));
    struct snic_ddp_msg m;
    memset(&m, 0, sizeof(m));
    m.flags = (uint8_t)(SNIC_DDP_MSG_LOCKED | ddp_rule_msg(d, rule));
    m.flags |= ev->type == SNIC_DDP_DELETE ? SNIC_DDP_MSG_TOMBSTONE : 0;
    m.value = ev->value;
    m.length = ev->length;
    ddp_apply(d, r, ts, &m);
    struct ddp_write *w = ddp_write_new(d, r, ts, DDP_W_CLIENT | rule);
    w->token = ev->token;
    w->copies_min = (uint8_t)ev->copies_min;
    ddp_scope_join(d, w, ev->scope);
    ddp_watch(d, r, 1);
    ddp_write_invalidate(d, w, d->others);
    ddp_append(d, r, ev->scope, ddp_write_lazy(d, rule));
    if (d->others == 0)
        ddp_dirty(d, r);
    return 0;
}

/* Send VAL of @p ts to @p to, for what this node knows to be complete (amendment A5). */
void ddp_validate(struct snic_ddp *d, const struct ddp_rec *r, uint64_t ts, uint16_t to)
{
    /* Of an older write the rules are not known here: a node's own are as good as any. */
    const struct ddp_rules *u = ts == r->vts ? ddp_rules_at(d, r->flags) : &d->rules[d->o.model];
    if (u->gd == DDP_NEVER && r->gd >= ts)
        (void)ddp_send(d, SNIC_DDP_VAL, to, &r->key, ts); /* a read made it durable */
    else if ((u->val_durable ? r->gd : r->gv) >= ts)
        (void)ddp_send(d, u->val_type, to, &r->key, ts);
    if (u->val_p != DDP_NEVER && r->gd >= ts)
        (void)ddp_send(d, SNIC_DDP_VAL_P, to, &r->key, ts);
}

int ddp_write_ack(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    struct ddp_rec *r = ddp_find(d, &m->key);
    struct ddp_write *w = r != NULL ? ddp_write_find(d, r, m->ts) : NULL;
    if (w == NULL) {
        /* Of a write that is done: its VAL may have been lost (H20). */
        if (r != NULL && m->ts != 0)
            ddp_validate(d, r, m->ts, ddp_bit(m->src));
        return 0;
    }
    /* Of a CAS that is not decided only what answers it: b may have been acknowledged long ago. */
    if ((w->flags & SNIC_DDP_MSG_CAS) != 0 &&
        ((m->flags & SNIC_DDP_MSG_CAS) == 0 || m->seen[0] != w->floor))
        return 0;
    int stored = (d->others & ~w->ack_c) == 0;
    w->heard |= ddp_bit(m->src);
    if (m->type != SNIC_DDP_ACK_P)
        w->ack_c |= ddp_bit(m->src);
    if (m->type != SNIC_DDP_ACK_C)
        w->ack_p |= ddp_bit(m->src);
    if (w->late != 0) {
        ddp_suspect(&d->suspects, &w->late, w->late & ddp_write_missing(d, w));
        ddp_suspect(&d->silent, &w->silent, (uint16_t)(w->silent & ~ddp_bit(m->src)));
    }
    if (ddp_write_missing(d, w) == 0)
        ddp_timer_stop(d, ddp_timer_of_write(d, w));
    else if (!stored && (d->others & ~w->ack_c) == 0)
        ddp_write_pace(d, w);
    /* Only the last of either kind changes anything. */
    if ((m->type != SNIC_DDP_ACK_P && (d->others & ~w->ack_c) == 0) ||
        (m->type != SNIC_DDP_ACK_C && (d->others & ~w->ack_p) == 0))
        ddp_dirty(d, r);
    return 0;
}
