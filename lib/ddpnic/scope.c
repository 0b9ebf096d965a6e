/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Scope at the NIC: [PERSIST]sc (SCOPE in ddp.h).
 *
 * All writes of the scope were answered before, so every node has accepted each, or something
 * newer, and its DSTORE is at least under way. [PERSIST]sc makes each node wait for all DSTOREs
 * that it has begun by then, and put a marker behind them; no list of keys is needed. Repeating it
 * is harmless: a scope may be used again, so each carries its round, and a late copy of an earlier
 * one neither stands for a later one's marker nor has its acknowledgement counted there. The
 * coordinator does the same for itself: a wait that is due to this node.
 */
#include "ddpnic_priv.h"

static const struct snic_ddp_key ddpnic_scope_key = {{0, 0}};

static struct ddpnic_write *ddpnic_scope_find(const struct snic_ddpnic *d, uint64_t id)
{
    for (uint32_t i = d->nic.persists; i != SNIC_DDP__NIL; i = ddpnic_write_at(d, i)->next) {
        if (ddpnic_write_at(d, i)->scope == id)
            return ddpnic_write_at(d, i);
    }
    return NULL;
}

/* Has this DSTORE to be done before that marker? */
int ddpnic_scope_covers(const struct ddpnic_wait *a, const struct ddpnic_item *t)
{
    return (a->flags & (DDPNIC_A_PERSIST | DDPNIC_A_MARK)) == DDPNIC_A_PERSIST &&
           (t->flags & (DDPNIC_I_DSLOT | DDPNIC_I_DIN)) == DDPNIC_I_DSLOT && t->seq <= a->ts;
}

static struct ddpnic_wait *ddpnic_scope_find_wait(const struct snic_ddpnic *d, uint32_t src,
                                                  uint64_t scope)
{
    for (uint32_t i = 0; i < d->nic.waits.high; i++) {
        struct ddpnic_wait *a = ddpnic_wait_at(d, i);
        if ((a->flags & DDPNIC_A_PERSIST) != 0 && a->src == src && a->scope == scope)
            return a;
    }
    return NULL;
}

/*
 * A marker for another node's [PERSIST]sc. 0, or SNIC_EAGAIN. One that is under way since the epoch
 * before will do, but not one of an earlier round: writes may have joined the scope since.
 */
static int ddpnic_scope_wait(struct snic_ddpnic *d, uint8_t src, uint64_t scope, uint32_t round)
{
    struct ddpnic_wait *a = ddpnic_scope_find_wait(d, src, scope);
    if (a != NULL) {
        if ((int32_t)(round - a->round) < 0)
            return 0; /* a late copy: that round is over */
        a->flags &= (uint8_t)~DDPNIC_A_DEAD;
        if (round == a->round)
            return 0;
        a->round = round;
        a->ts = d->nic.seq;
        if ((a->flags & DDPNIC_A_MARK) != 0)
            a->flags |= DDPNIC_A_AGAIN;
        return 0;
    }
    if (ddp_pool_full(&d->nic.waits))
        return SNIC_EAGAIN;
    a = ddpnic_wait_new(d, src, DDPNIC_A_PERSIST);
    a->scope = scope;
    a->round = round;
    a->ts = d->nic.seq;
    d->nic.marks++;
    d->nic.mark_dirty = 1;
    return 0;
}

/* [PERSIST]sc from the host: the first of its copies, or a further one. */
int ddpnic_scope_host(struct snic_ddpnic *d, const struct snic_ddp_msg *m)
{
    struct ddpnic_nic *n = &d->nic;
    struct ddpnic_write *w = ddpnic_scope_find(d, m->scope);
    if (d->o.model != SNIC_DDP_SCOPE || m->scope == 0)
        return SNIC_EINVAL;
    if (d->common.role == SNIC_DDP_FENCED)
        return 0;
    if (m->seen[1] == 0) {
        if (w != NULL || n->writes.used + 1 >= n->writes.max)
            return SNIC_EAGAIN;
        int r = ddpnic_scope_wait(d, (uint8_t)d->o.node, m->scope, n->round + 1);
        if (r != 0)
            return r;
        w = ddpnic_write_new(d, NULL, 0, DDPNIC_W_CLIENT | DDPNIC_W_PERSIST);
        w->scope = m->scope;
        w->round = ++n->round;
    }
    if (w != NULL)
        ddpnic_write_forward(d, w, m);
    return 0;
}

int ddpnic_scope_message(struct snic_ddpnic *d, const struct snic_ddp_msg *m)
{
    if (d->o.model != SNIC_DDP_SCOPE || m->scope == 0)
        return SNIC_EPROTO;
    if (m->type == SNIC_DDP_PERSIST)
        return ddpnic_scope_wait(d, m->src, m->scope, m->index);
    if (m->type == SNIC_DDP_PERSIST_VAL)
        return 0; /* nothing here waits for it */
    struct ddpnic_write *w = ddpnic_scope_find(d, m->scope);
    if (w != NULL && w->round == m->index) {
        w->ack_c |= ddp_bit(m->src);
        ddpnic_write_acked(d, w);
        d->nic.persist_dirty = 1;
    }
    return 0;
}

/* Markers whose turn has come; what does not fit the ring stays. */
void ddpnic_scope_marks(struct snic_ddpnic *d)
{
    for (uint32_t i = 0; i < d->nic.waits.high; i++) {
        struct ddpnic_wait *a = ddpnic_wait_at(d, i);
        int due = (a->flags & (DDPNIC_A_PERSIST | DDPNIC_A_MARK)) == DDPNIC_A_PERSIST;
        if (!ddpnic_room(d))
            return;
        for (uint32_t k = 0; due && k < d->nic.items.high; k++)
            due = !ddpnic_scope_covers(a, ddpnic_item_at(d, k));
        if (!due)
            continue;
        a->flags |= DDPNIC_A_MARK;
        d->nic.marks--;
        struct snic_ddp_action *act = ddpnic_act(d, SNIC_DDPNIC_MARK);
        act->id = a->src;
        act->msg.scope = a->scope;
    }
    d->nic.mark_dirty = 0;
}

/* MARKED. */
int ddpnic_scope_marked(struct snic_ddpnic *d, const struct snic_ddp_event *ev)
{
    struct ddpnic_wait *a = ddpnic_scope_find_wait(d, ev->id, ev->scope);
    if (a == NULL || (a->flags & DDPNIC_A_MARK) == 0)
        return SNIC_EINVAL;
    if ((a->flags & (DDPNIC_A_DEAD | DDPNIC_A_AGAIN)) == DDPNIC_A_AGAIN) {
        a->flags &= (uint8_t) ~(DDPNIC_A_MARK | DDPNIC_A_AGAIN);
        d->nic.marks++;
        d->nic.mark_dirty = 1;
        return 0;
    }
    if ((a->flags & DDPNIC_A_DEAD) == 0) {
        struct ddpnic_write *w = ddpnic_scope_find(d, a->scope);
        if (a->src != d->o.node) {
            struct snic_ddp_msg *m =
                ddpnic_send(d, SNIC_DDP_PERSIST_ACK, ddp_bit(a->src), &ddpnic_scope_key, 0);
            m->scope = a->scope;
            m->index = a->round;
        } else if (w != NULL) {
            w->flags |= DDPNIC_W_MARKED;
            d->nic.persist_dirty = 1;
        }
    }
    ddpnic_wait_free(d, (uint32_t)(a - ddpnic_wait_at(d, 0)));
    return 0;
}

/* Acknowledge to the host and complete the [PERSIST]sc that are durable here. */
void ddpnic_scope_eval(struct snic_ddpnic *d)
{
    for (uint32_t i = d->nic.persists; i != SNIC_DDP__NIL;) {
        struct ddpnic_write *w = ddpnic_write_at(d, i);
        if (!ddpnic_room(d))
            return;
        i = w->next;
        if ((w->flags & DDPNIC_W_MARKED) == 0)
            continue;
        ddpnic_write_ack_host(d, w, w->ack_c);
        if ((d->common.others & ~w->ack_c) != 0)
            continue;
        struct snic_ddp_msg *m =
            ddpnic_send(d, SNIC_DDP_PERSIST_VAL, d->common.others, &ddpnic_scope_key, 0);
        if (m != NULL)
            m->scope = w->scope;
        ddpnic_write_free(d, w);
    }
    d->nic.persist_dirty = 0;
}
