/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Compare-and-swap, in two rounds.
 *
 * Amendment A11 has one: the CAS's version is one above what it compares, a plain write's two, and
 * a node that holds a newer one refuses (NACK). That is not enough where followers acknowledge an
 * older write at once (FAST). Let b = (version 2, node 1) and x = (2, 2) be written concurrently: b
 * completes while x's INVs are still on their way, since node 2 acknowledges b as obsolete. A node
 * that reads b and compares with it makes c = (3, any) > x; no node refuses c or x, and the order
 * b, x, c has a write between what c compared with and c. An x of an earlier epoch does the same
 * whatever its version is.
 *
 * So c's coordinator first checks with all nodes that b is the newest they have (SETTLE: an INV of
 * b itself, which also is b's replay if it was locked). A node that has an x above b refuses, and
 * there is no other x: a node has its own writes from the step in which it numbers them. All later
 * ones are numbered above b, hence at least two above b's version (or in this epoch's first two),
 * or are CAS themselves. (An acknowledgement counts if it is one of the SETTLE, not an old one of
 * b, and repeats the SETTLE's floor: its sender numbers above that from now on.)
 * Then c is written, one above; a node with a newer one refuses it. So of all that are numbered on
 * top of b a plain write beats any CAS and one CAS beats the others.
 *
 * C1 Only the coordinator decides a CAS, while it is a member (replay.c), and until it has, no node
 *    can read c or number a CAS on top of it. So NACK means: it did not and will not happen.
 *    So a coordinator that stores another undecided CAS over its own has lost, too, and aborts its
 *    own at once: the node that refused it may fail before its NACK arrives, and no other refuses.
 * C2 c is decided when all others have stored it: then MSG_CAS is no longer sent with it.
 * C3 A CAS that lost is answered with the winner when that is readable here: it is a read.
 */
#include "ddp_priv.h"

/* The key does not hold what the caller compares with: answered as a read (C3). */
static int ddp_cas_differs(struct snic_ddp *d, const struct snic_ddp_event *ev, struct ddp_rec *r)
{
    int value = (ev->flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
    int durable = ddp_reads_durable(d->o.model, ev->durability);
    if (r == NULL || ddp_rec_readable(r, durable)) {
        ddp_done(d, ev->token, SNIC_ECANCELED, r);
        if (value)
            ddp_release(d, ev->value);
        return 0;
    }
    uint32_t flags = DDP_W_CLIENT | DDP_W_ABORTED | (value ? (uint32_t)DDP_W_OWNS : 0);
    flags |= durable ? (uint32_t)DDP_W_DURABLE : 0;
    struct ddp_write *w = ddp_write_new(d, r, r->vts, flags);
    w->token = ev->token;
    w->value = ev->value;
    if (r->rd == 0)
        ddp_dirty(d, r);
    return 0;
}

int ddp_cas_client(struct snic_ddp *d, const struct snic_ddp_event *ev)
{
    struct ddp_rec *r = ddp_find(d, &ev->key);
    int here = r != NULL && r->vts != 0 && (r->flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
    int result = ddp_write_admit(d, ev, r);
    if (result != 0)
        return result;
    if ((ev->flags & ~(uint32_t)SNIC_DDP_MSG_TOMBSTONE) != 0)
        return SNIC_EINVAL;
    if (ev->ts == 0 ? here : !here || ev->ts != r->vts)
        return ddp_cas_differs(d, ev, r);
    /* C1; and one write of a timestamp at a time. */
    if (r != NULL &&
        ((r->rd != 0 && (r->flags & DDP_R_CAS) != 0) || ddp_write_find(d, r, r->vts) != NULL))
        return SNIC_EAGAIN;
    if (r == NULL)
        r = ddp_add(d, &ev->key); /* I8 */
    uint32_t flags = DDP_W_CLIENT | DDP_W_SETTLE | DDP_W_REPLAY | SNIC_DDP_MSG_CAS;
    uint32_t rule = ddp_rule_of(d->o.model, ev->durability);
    flags |= ddp_rule_flag(r->vts != 0 ? ddp_rule(r->flags) : rule);
    if (ddp_reads_durable(d->o.model, ev->durability))
        flags |= DDP_W_DURABLE;
    struct ddp_write *w = ddp_write_new(d, r, r->vts, flags);
    w->token = ev->token;
    w->copies_min = (uint8_t)ev->copies_min;
    w->rule = (uint8_t)rule;
    w->floor = d->gen_floor;
    if ((ev->flags & SNIC_DDP_MSG_TOMBSTONE) != 0) {
        w->flags |= DDP_W_DEAD_KEY;
    } else {
        w->flags |= DDP_W_OWNS;
        w->value = ev->value;
        w->length = ev->length;
    }
    ddp_scope_join(d, w, ev->scope);
    ddp_watch(d, r, 0);
    ddp_write_invalidate(d, w, d->others);
    ddp_dirty(d, r);
    return 0;
}

/* Nothing was done, and cannot be now. */
static int ddp_cas_give_up(struct snic_ddp *d, struct ddp_write *w, int result)
{
    ddp_done(d, w->token, result, NULL);
    if (w->scope != 0)
        ddp_scope_answered(d, w->scope);
    ddp_write_free(d, w);
    return 0;
}

/* All have what it is based on and nothing newer: write. 1: there is something to evaluate. */
int ddp_cas_settled(struct snic_ddp *d, struct ddp_write *w)
{
    struct ddp_rec *r = ddp_rec_at(d, w->rec);
    SNIC_ASSERT((w->flags & (DDP_W_SETTLE | DDP_W_ABORTED)) == DDP_W_SETTLE && w->ts == r->vts);
    w->tries = 0;
    w->ack_c = w->ack_p = 0;
    if (w->floor < d->gen_floor && d->others != 0) {
        w->floor = d->gen_floor; /* others may still number below it */
        ddp_write_invalidate(d, w, d->others);
        return 0;
    }
    if (!ddp_lease(d, d->now_ns))
        return ddp_cas_give_up(d, w, SNIC_ESTALE);
    uint64_t ts = ddp_next_ts(d, r, 1);
    if (ts == 0) {
        d->need_epoch = 1;
        return ddp_cas_give_up(d, w, SNIC_EAGAIN);
    }
    struct snic_ddp_msg m;
    memset(&m, 0, sizeof(m));
    uint32_t rule = ddp_rule_flag(w->rule);
    m.flags = (uint8_t)(SNIC_DDP_MSG_LOCKED | SNIC_DDP_MSG_CAS | ddp_rule_msg(d, rule));
    if ((w->flags & DDP_W_DEAD_KEY) != 0)
        m.flags |= SNIC_DDP_MSG_TOMBSTONE;
    m.value = w->value;
    m.length = w->length;
    w->ts = ts;
    w->value = 0;
    w->floor = 0;
    w->flags &= ~((uint32_t)(DDP_W_SETTLE | DDP_W_REPLAY | DDP_W_OWNS | DDP_W_VAL | DDP_W_VAL_P) |
                  ddp_rule_flag(SNIC_DDP__RULES - 1));
    w->flags |= rule;
    w->rule = 0;
    ddp_timer_stop(d, ddp_timer_of_write(d, w));
    ddp_apply(d, r, ts, &m);
    ddp_watch(d, r, 1);
    ddp_write_invalidate(d, w, d->others);
    ddp_append(d, r, w->scope, ddp_write_lazy(d, rule));
    return d->others == 0;
}

/* Refuse the CAS @p m: what the key holds is newer. */
void ddp_cas_refuse(struct snic_ddp *d, const struct ddp_rec *r, const struct snic_ddp_msg *m)
{
    SNIC_ASSERT(r->vts > m->ts); /* C1 */
    struct snic_ddp_msg *a = ddp_send(d, SNIC_DDP_NACK, ddp_bit(m->src), &m->key, m->ts);
    a->flags = (uint8_t)((r->flags & SNIC_DDP_MSG_TOMBSTONE) | ddp_rule_msg(d, r->flags));
    if ((r->flags & DDP_R_CAS) != 0)
        a->flags |= SNIC_DDP_MSG_CAS;
    a->seen[0] = r->vts;
    a->value = r->value;
    a->length = r->length;
    d->counters.refused++;
}

int ddp_cas_nack(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    struct ddp_rec *r = ddp_find(d, &m->key);
    struct ddp_write *w = r != NULL ? ddp_write_find(d, r, m->ts) : NULL;
    if (m->seen[0] <= m->ts || snic_ddp_ts_epoch(m->seen[0]) > d->epoch)
        return SNIC_EPROTO;
    /* It creates a key that is not here, and what beat it was purged, if only here yet, or is older
     * than what was (A4; a NACK of an earlier attempt): stored again it would outlive its end. */
    int gone = r != NULL && r->vts == 0 && m->seen[0] <= d->floor;
    if (w == NULL || (w->flags & SNIC_DDP_MSG_CAS) == 0 || m->seen[0] <= r->vts || gone) {
        /* Late, or the winner is here already. */
        if ((m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
            ddp_release(d, m->value);
    } else {
        struct snic_ddp_msg value = *m;
        value.flags |= SNIC_DDP_MSG_LOCKED;
        ddp_apply(d, r, m->seen[0], &value);
        ddp_watch(d, r, 1);
        ddp_append(d, r, 0, ddp_rules_msg(d, m)->background);
    }
    w = r != NULL ? ddp_write_find(d, r, m->ts) : NULL;
    if (w != NULL && (w->flags & SNIC_DDP_MSG_CAS) != 0)
        ddp_cas_abort(d, w);
    return 0;
}
