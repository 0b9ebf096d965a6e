/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Scope: the client's [PERSIST]sc (SCOPE in ddp.h).
 *
 * A scope belongs to the node that coordinates its writes. SYNC waits until all of them were
 * answered: then every node has appended each, or something newer, to its log. [PERSIST]sc makes
 * each node flush its log to the end as of receipt, so no list of keys is needed. Repeating it is
 * harmless: each carries its round, of which a node has as many as scopes it made durable, since a
 * scope may be used again. A late copy of an earlier round must neither stand for the flush of a
 * later one nor have its acknowledgement counted there.
 */
#include "ddp_priv.h"

struct ddp_scope *ddp_scope_find(const struct snic_ddp *d, uint64_t id)
{
    for (uint32_t i = 0; i < d->scopes.high; i++) {
        struct ddp_scope *s = ddp_scope_at(d, i);
        if ((s->flags & (DDP_S_USED | DDP_S_DEAD)) == DDP_S_USED && s->id == id)
            return s;
    }
    return NULL;
}

static struct ddp_scope *ddp_scope_new(struct snic_ddp *d, uint64_t id)
{
    struct ddp_scope *s = ddp_scope_at(d, ddp_pool_take(&d->scopes));
    s->id = id;
    s->flags = DDP_S_USED;
    return s;
}

void ddp_scope_join(struct snic_ddp *d, struct ddp_write *w, uint64_t id)
{
    if (id == 0)
        return;
    struct ddp_scope *s = ddp_scope_find(d, id);
    if (s == NULL)
        s = ddp_scope_new(d, id);
    s->writes++;
    w->scope = id;
}

static void ddp_scope_calm(struct snic_ddp *d, struct ddp_scope *s)
{
    ddp_suspect(&d->suspects, &s->late, 0);
    ddp_suspect(&d->silent, &s->silent, 0);
}

static void ddp_scope_free(struct snic_ddp *d, struct ddp_scope *s)
{
    SNIC_ASSERT((s->flags & DDP_S_USED) != 0);
    ddp_timer_stop(d, ddp_timer_of_scope(d, s));
    ddp_scope_calm(d, s);
    /* Its number stays taken until FLUSHED, which names it. */
    if ((s->flags & (DDP_S_SENT | DDP_S_FLUSHED)) == DDP_S_SENT) {
        s->flags |= DDP_S_DEAD;
        return;
    }
    ddp_pool_give(&d->scopes, ddp_scope_number(d, s));
}

static void ddp_scope_send_persist(struct snic_ddp *d, struct ddp_scope *s, uint16_t to)
{
    static const struct snic_ddp_key none = {{0, 0}};
    if (to == 0)
        return;
    struct snic_ddp_msg *m = ddp_send(d, SNIC_DDP_PERSIST, to, &none, 0);
    m->scope = s->id;
    m->index = s->round;
    ddp_timer_retry(d, ddp_timer_of_scope(d, s), s->tries);
}

/* The next thing a scope can do: begin, when nothing of it is in flight; end. */
static void ddp_scope_eval(struct snic_ddp *d, struct ddp_scope *s)
{
    static const struct snic_ddp_key none = {{0, 0}};
    if ((s->flags & DDP_S_SYNC) == 0 || s->writes != 0 || d->role == SNIC_DDP_FENCED)
        return;
    if ((s->flags & DDP_S_SENT) == 0) {
        s->flags |= DDP_S_SENT;
        s->round = ++d->round;
        ddp_scope_send_persist(d, s, d->others);
        ddp_flush(d, SNIC_DDP__ID_SCOPE | ddp_scope_number(d, s));
        return;
    }
    if ((s->flags & DDP_S_FLUSHED) == 0 || (d->others & ~s->ack) != 0)
        return;
    if (d->others != 0)
        ddp_send(d, SNIC_DDP_PERSIST_VAL, d->others, &none, 0)->scope = s->id;
    (void)ddp_done_all(d, s->token, s->copies_min);
    ddp_scope_free(d, s);
}

/* A write of it was. */
void ddp_scope_answered(struct snic_ddp *d, uint64_t id)
{
    struct ddp_scope *s = ddp_scope_find(d, id);
    SNIC_ASSERT(s != NULL && s->writes > 0);
    s->writes--;
    ddp_scope_eval(d, s);
}

/*
 * Of several scopes one stays without SYNC, for deletions: all others may wait for logs that are
 * full, and what a deletion needs is a scope that is still open.
 */
static int ddp_scope_last(const struct snic_ddp *d)
{
    uint32_t syncs = 0;
    if (d->scopes.max == 1 || d->scopes.used + 1 < d->scopes.max)
        return 0;
    for (uint32_t i = 0; i < d->scopes.high; i++)
        syncs += (ddp_scope_at(d, i)->flags & DDP_S_SYNC) != 0;
    return syncs + 1 >= d->scopes.max;
}

int ddp_scope_sync(struct snic_ddp *d, const struct snic_ddp_event *ev)
{
    if (d->scopes.max == 0 || ev->scope == 0 || ev->copies_min > SNIC_DDP_NODES_MAX)
        return SNIC_EINVAL;
    if (!ddp_lease(d, d->now_ns))
        return SNIC_ESTALE;
    struct ddp_scope *s = ddp_scope_find(d, ev->scope);
    if (s == NULL) {
        ddp_done(d, ev->token, SNIC_ESTALE, NULL); /* H13 */
        return 0;
    }
    if ((s->flags & DDP_S_SYNC) != 0 || ddp_scope_last(d))
        return SNIC_EAGAIN;
    if (ddp_copies(d) < ev->copies_min)
        return SNIC_ENOQUORUM;
    s->flags |= DDP_S_SYNC;
    s->copies_min = ev->copies_min;
    s->token = ev->token;
    ddp_scope_eval(d, s);
    return 0;
}

/* @p flags LOCKED: not yet, the log is slow. */
static void ddp_scope_send_ack(struct snic_ddp *d, const struct ddp_wait *a, uint8_t flags)
{
    static const struct snic_ddp_key none = {{0, 0}};
    struct snic_ddp_msg *m = ddp_send(d, SNIC_DDP_PERSIST_ACK, ddp_bit(a->src), &none, 0);
    m->scope = a->scope;
    m->index = a->round;
    m->flags = flags;
}

/* FLUSH for another node's [PERSIST]sc, unless it is under way. */
static int ddp_scope_persist(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    for (uint32_t i = 0; i < d->waits.high; i++) {
        const struct ddp_wait *a = ddp_wait_at(d, i);
        if ((a->flags & (DDP_A_PERSIST | DDP_A_DEAD)) == DDP_A_PERSIST && a->src == m->src &&
            a->scope == m->scope && a->round == m->index) {
            ddp_scope_send_ack(d, a, SNIC_DDP_MSG_LOCKED);
            return 0;
        }
    }
    if (ddp_pool_full(&d->waits))
        return SNIC_EAGAIN;
    uint32_t n = ddp_pool_take(&d->waits);
    struct ddp_wait *a = ddp_wait_at(d, n);
    a->scope = m->scope;
    a->round = m->index;
    a->rec = a->next = SNIC_DDP__NIL;
    a->flags = DDP_A_USED | DDP_A_PERSIST;
    a->src = m->src;
    ddp_flush(d, SNIC_DDP__ID_WAIT | n);
    return 0;
}

int ddp_scope_message(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    if (m->scope == 0)
        return SNIC_EPROTO;
    if (m->type == SNIC_DDP_PERSIST)
        return ddp_scope_persist(d, m);
    if (m->type == SNIC_DDP_PERSIST_VAL)
        return 0; /* nothing here waits for it */
    struct ddp_scope *s = ddp_scope_find(d, m->scope);
    if (s != NULL && (s->flags & DDP_S_SENT) != 0 && s->round == m->index) {
        s->heard |= ddp_bit(m->src);
        ddp_suspect(&d->silent, &s->silent, (uint16_t)(s->silent & ~ddp_bit(m->src)));
        if ((m->flags & SNIC_DDP_MSG_LOCKED) != 0)
            return 0;
        s->ack |= ddp_bit(m->src);
        ddp_suspect(&d->suspects, &s->late, (uint16_t)(s->late & ~s->ack));
        if ((d->others & ~s->ack) == 0)
            ddp_timer_stop(d, ddp_timer_of_scope(d, s));
        ddp_scope_eval(d, s);
    }
    return 0;
}

/* FLUSHED of a wait or a scope. */
int ddp_scope_flushed(struct snic_ddp *d, uint32_t id)
{
    uint32_t n = id & SNIC_DDP__ID_MASK;
    if ((id & ~SNIC_DDP__ID_MASK) == SNIC_DDP__ID_SCOPE) {
        struct ddp_scope *s = ddp_scope_at(d, n);
        if (n >= d->scopes.high || (s->flags & (DDP_S_SENT | DDP_S_FLUSHED)) != DDP_S_SENT)
            return SNIC_EINVAL;
        s->flags |= DDP_S_FLUSHED;
        if ((s->flags & DDP_S_DEAD) != 0)
            ddp_scope_free(d, s);
        else
            ddp_scope_eval(d, s);
        return 0;
    }
    struct ddp_wait *a = ddp_wait_at(d, n);
    if (n >= d->waits.high || (a->flags & DDP_A_PERSIST) == 0)
        return SNIC_EINVAL;
    if ((a->flags & DDP_A_DEAD) == 0)
        ddp_scope_send_ack(d, a, 0);
    ddp_pool_give(&d->waits, n);
    return 0;
}

void ddp_scope_retry(struct snic_ddp *d, struct ddp_scope *s)
{
    uint16_t missing = (uint16_t)(d->others & ~s->ack);
    s->tries++;
    SNIC_ASSERT(missing != 0); /* the last acknowledgement stops the timer */
    d->counters.retransmits += (uint32_t)__builtin_popcount(missing);
    if (s->tries >= SNIC_DDP__LATE) {
        ddp_suspect(&d->suspects, &s->late, missing);
        ddp_suspect(&d->silent, &s->silent, (uint16_t)(missing & ~s->heard));
    }
    s->heard = 0;
    ddp_scope_send_persist(d, s, missing);
}

/* A new epoch, or this node has left. */
void ddp_scope_epoch(struct snic_ddp *d, struct ddp_scope *s)
{
    if ((s->flags & DDP_S_USED) == 0 || (s->flags & DDP_S_DEAD) != 0)
        return;
    if (d->role == SNIC_DDP_FENCED) {
        if ((s->flags & DDP_S_SYNC) != 0)
            ddp_done(d, s->token, SNIC_EUNKNOWN, NULL);
        ddp_scope_free(d, s);
        return;
    }
    s->ack &= d->kept;
    s->tries = 0;
    ddp_scope_calm(d, s);
    if ((s->flags & DDP_S_SENT) == 0)
        return;
    ddp_timer_stop(d, ddp_timer_of_scope(d, s));
    ddp_scope_send_persist(d, s, (uint16_t)(d->others & ~s->ack));
    ddp_scope_eval(d, s);
}

/* This node begins anew: their FLUSHED will not come. */
void ddp_scopes_drop(struct snic_ddp *d)
{
    for (uint32_t i = 0; i < d->scopes.high; i++) {
        struct ddp_scope *s = ddp_scope_at(d, i);
        if ((s->flags & DDP_S_USED) == 0)
            continue;
        SNIC_ASSERT((s->flags & DDP_S_DEAD) != 0); /* it was fenced before */
        ddp_pool_give(&d->scopes, i);
    }
}
