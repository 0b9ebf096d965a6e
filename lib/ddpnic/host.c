/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host half: clients' reads and writes, scopes, answers.
 *
 * A write takes its timestamp and the read lock in one compare-and-swap on the key's coherent word,
 * so no two writes get the same (H2) and each is above all that the key has had (H1), whatever the
 * NIC does meanwhile. That the write is obsolete can only turn out at the NIC.
 *
 * Of the NIC's part nothing is used; of a record the coherent line, and the item in the cache that
 * it names.
 */
#include "ddpnic_priv.h"

static int ddpnic_host_lease(const struct snic_ddpnic *d, uint64_t now)
{
    return d->common.role == SNIC_DDP_FULL && now < d->host.lease_ns;
}

/* ---- Reads ---- */

static void ddpnic_host_value(struct snic_ddpnic *d, uint64_t token, const struct ddpnic_rec *r)
{
    const struct ddpnic_item *t = NULL;
    if (r != NULL && r->line.cache != SNIC_DDP__NIL)
        t = ddpnic_item_at(d, r->line.cache);
    struct snic_ddp_action *a = ddpnic_host_act(d, SNIC_DDP_DONE);
    a->token = token;
    a->result = t == NULL || (t->flags & SNIC_DDP_MSG_TOMBSTONE) != 0 ? SNIC_ENOENT : 0;
    if (t == NULL)
        return;
    a->flags = t->flags & SNIC_DDP_MSG_TOMBSTONE;
    a->msg.flags = (uint8_t)a->flags;
    a->msg.key = r->key;
    a->msg.ts = t->ts;
    a->msg.value = t->value;
    a->msg.length = t->length;
}

static int ddpnic_host_read(struct snic_ddpnic *d, const struct snic_ddp_event *ev)
{
    struct ddpnic_host *h = &d->host;
    if (!ddpnic_host_lease(d, h->now_ns))
        return SNIC_ESTALE;
    struct ddpnic_rec *r = ddpnic_find(d, &ev->key);
    if (r == NULL || !ddpnic_locked(&r->line)) {
        ddpnic_host_value(d, ev->token, r);
        return 0;
    }
    if (ddp_pool_full(&h->reads))
        return SNIC_EAGAIN;
    ddp_reads_wait(&h->reads, &r->reads, ev->token, ddpnic_rec_number(d, r));
    r->line.waits = 1;
    return 0;
}

/* All reads of this key are to be answered before the step ends. */
static void ddpnic_host_ready(struct snic_ddpnic *d, struct ddpnic_rec *r)
{
    ddp_reads_ready(&d->host.reads, &r->reads, &d->host.ready);
    r->line.waits = 0;
}

static void ddpnic_host_ready_read(struct snic_ddpnic *d)
{
    struct ddpnic_host *h = &d->host;
    struct ddp_read q = ddp_reads_pop(&h->reads, &h->ready);
    if (ddpnic_host_lease(d, h->now_ns)) {
        ddpnic_host_value(d, q.token, ddpnic_rec_at(d, q.rec));
    } else {
        struct snic_ddp_action *a = ddpnic_host_act(d, SNIC_DDP_DONE);
        a->token = q.token;
        a->result = SNIC_ESTALE;
    }
}

/* ---- Scopes ---- */

static struct ddpnic_scope *ddpnic_host_scope(const struct snic_ddpnic *d, uint64_t id)
{
    for (uint32_t i = 0; i < d->host.scopes.high; i++) {
        struct ddpnic_scope *s = ddpnic_scope_at(d, i);
        if ((s->flags & DDPNIC_S_USED) != 0 && s->id == id)
            return s;
    }
    return NULL;
}

static void ddpnic_host_scope_join(struct snic_ddpnic *d, uint64_t id)
{
    struct ddpnic_scope *s = ddpnic_host_scope(d, id);
    if (id == 0)
        return;
    if (s == NULL) {
        s = ddpnic_scope_at(d, ddp_pool_take(&d->host.scopes));
        s->id = id;
        s->flags = DDPNIC_S_USED;
    }
    s->writes++;
}

static void ddpnic_host_scope_end(struct snic_ddpnic *d, struct ddpnic_scope *s, int result)
{
    if ((s->flags & DDPNIC_S_SYNC) != 0) {
        struct snic_ddp_action *a = ddpnic_host_act(d, SNIC_DDP_DONE);
        a->token = s->token;
        a->result = result;
        a->msg.scope = s->id;
    }
    ddp_pool_give(&d->host.scopes, (uint32_t)(s - ddpnic_scope_at(d, 0)));
}

/* [PERSIST]sc to the NIC, once all writes of the scope were answered (H13). */
static void ddpnic_host_scope_eval(struct snic_ddpnic *d, struct ddpnic_scope *s)
{
    if ((s->flags & (DDPNIC_S_SYNC | DDPNIC_S_SENT)) != DDPNIC_S_SYNC || s->writes != 0)
        return;
    s->flags |= DDPNIC_S_SENT;
    struct snic_ddp_action *a = ddpnic_host_act(d, SNIC_DDPNIC_PCIE);
    a->msg.type = SNIC_DDP_PERSIST;
    a->msg.scope = s->id;
    a->msg.index = d->common.others;
}

static int ddpnic_host_sync(struct snic_ddpnic *d, const struct snic_ddp_event *ev)
{
    if (d->o.model != SNIC_DDP_SCOPE || ev->scope == 0)
        return SNIC_EINVAL;
    if (!ddpnic_host_lease(d, d->host.now_ns))
        return SNIC_ESTALE;
    struct ddpnic_scope *s = ddpnic_host_scope(d, ev->scope);
    if (s == NULL) {
        struct snic_ddp_action *a = ddpnic_host_act(d, SNIC_DDP_DONE);
        a->token = ev->token;
        a->result = SNIC_ESTALE; /* H13 */
        return 0;
    }
    if ((s->flags & DDPNIC_S_SYNC) != 0)
        return SNIC_EAGAIN;
    s->flags |= DDPNIC_S_SYNC;
    s->token = ev->token;
    ddpnic_host_scope_eval(d, s);
    return 0;
}

/* ---- Writes ---- */

/* The next timestamp of a key that has @p base; 0: no version is left. Versions of earlier epochs
 * do not count (A1); they are even (ddpnic.h). */
static uint64_t ddpnic_host_ts(const struct snic_ddpnic *d, uint64_t base)
{
    uint64_t version =
        snic_ddp_ts_epoch(base) == d->common.epoch ? snic_ddp_ts_version(base) | 1 : 1;
    if (version + 1 > SNIC_DDP_VERSION_MAX)
        return 0;
    return snic_ddp_ts(d->common.epoch, version + 1, d->o.node);
}

static int ddpnic_host_admit(struct snic_ddpnic *d, const struct snic_ddp_event *ev,
                             const struct ddpnic_rec *r)
{
    struct ddpnic_host *h = &d->host;
    if ((ev->scope != 0) != (d->o.model == SNIC_DDP_SCOPE))
        return SNIC_EINVAL;
    if (!ddpnic_host_lease(d, h->now_ns))
        return SNIC_ESTALE;
    if (ev->scope != 0) {
        const struct ddpnic_scope *s = ddpnic_host_scope(d, ev->scope);
        if (s == NULL ? ddp_pool_full(&h->scopes) : (s->flags & DDPNIC_S_SYNC) != 0)
            return SNIC_EAGAIN;
    }
    if (ddp_pool_full(&h->writes))
        return SNIC_EAGAIN;
    /* The rest of the pool is for what others admitted before they heard of each other's keys. */
    if (r == NULL && d->recs.used >= d->o.keys_max)
        return SNIC_ENOSPC;
    if (ddpnic_host_ts(d, r != NULL ? ddpnic_base(&r->line) : 0) == 0) {
        h->need_epoch = 1;
        return SNIC_EAGAIN;
    }
    return 0;
}

static int ddpnic_host_write_client(struct snic_ddpnic *d, const struct snic_ddp_event *ev)
{
    struct ddpnic_host *h = &d->host;
    struct ddpnic_rec *r = ddpnic_find(d, &ev->key);
    int result = ddpnic_host_admit(d, ev, r);
    if (result != 0)
        return result;
    if (r == NULL)
        r = ddpnic_add(d, &ev->key);
    uint64_t seen;
    uint64_t ts;
    do { /* a loop on hardware; here nothing comes between */
        seen = r->line.word;
        ts = ddpnic_host_ts(d, ddpnic_base(&r->line));
    } while (ddpnic_snatch(&r->line, seen, ts) != 0);
    uint32_t n = ddp_pool_take(&h->writes);
    struct ddpnic_host_write *w = ddpnic_host_write_at(d, n);
    w->ts = ts;
    w->token = ev->token;
    w->scope = ev->scope;
    w->rec = ddpnic_rec_number(d, r);
    w->next = r->host_writes;
    r->host_writes = n;
    ddpnic_host_scope_join(d, ev->scope);
    struct snic_ddp_action *a = ddpnic_host_act(d, SNIC_DDPNIC_PCIE);
    a->msg.type = SNIC_DDP_INV;
    a->msg.key = r->key;
    a->msg.ts = ts;
    a->msg.scope = ev->scope;
    a->msg.index = d->common.others;
    if (ev->type == SNIC_DDP_DELETE) {
        a->msg.flags = SNIC_DDP_MSG_TOMBSTONE;
    } else {
        a->msg.value = ev->value;
        a->msg.length = ev->length;
    }
    return 0;
}

static void ddpnic_host_answer(struct snic_ddpnic *d, uint32_t n, int result)
{
    struct ddpnic_host_write *w = ddpnic_host_write_at(d, n);
    SNIC_ASSERT(w->rec != SNIC_DDP__NIL);
    struct ddpnic_rec *r = ddpnic_rec_at(d, w->rec);
    struct snic_ddp_action *a = ddpnic_host_act(d, SNIC_DDP_DONE);
    a->token = w->token;
    a->result = result;
    a->msg.key = r->key;
    a->msg.ts = w->ts;
    a->msg.scope = w->scope;
    uint32_t *link = &r->host_writes;
    while (*link != n)
        link = &ddpnic_host_write_at(d, *link)->next;
    *link = w->next;
    struct ddpnic_scope *s = w->scope != 0 ? ddpnic_host_scope(d, w->scope) : NULL;
    ddp_pool_give(&d->host.writes, n);
    w->rec = SNIC_DDP__NIL;
    if (s == NULL)
        return;
    SNIC_ASSERT(s->writes > 0);
    s->writes--;
    if (result == 0)
        ddpnic_host_scope_eval(d, s);
}

/* From the NIC: acknowledgements, of which the last one answers the client. */
static int ddpnic_host_message(struct snic_ddpnic *d, const struct snic_ddp_msg *m)
{
    if (m == NULL)
        return SNIC_EINVAL;
    if (m->type == SNIC_DDP_PERSIST_ACK) {
        struct ddpnic_scope *s = ddpnic_host_scope(d, m->scope);
        if (s != NULL && (s->flags & DDPNIC_S_SENT) != 0 && m->seen[0] != 0)
            ddpnic_host_scope_end(d, s, 0);
        return 0;
    }
    if (m->type != SNIC_DDP_ACK)
        return SNIC_EINVAL;
    const struct ddpnic_rec *r = ddpnic_find(d, &m->key);
    if (r == NULL || m->seen[0] == 0)
        return 0;
    for (uint32_t i = r->host_writes; i != SNIC_DDP__NIL; i = ddpnic_host_write_at(d, i)->next) {
        if (ddpnic_host_write_at(d, i)->ts == m->ts) {
            ddpnic_host_answer(d, i, 0);
            break;
        }
    }
    return 0;
}

/* ---- Steps ---- */

static int ddpnic_host_wake(struct snic_ddpnic *d, const struct snic_ddp_event *ev)
{
    if ((ev->flags & SNIC_DDPNIC_ALL) == 0) {
        struct ddpnic_rec *r = ddpnic_find(d, &ev->key);
        if (r != NULL && !ddpnic_locked(&r->line))
            ddpnic_host_ready(d, r);
        return 0;
    }
    if (d->common.role != SNIC_DDP_FENCED)
        return SNIC_EINVAL;
    d->host.ending = d->host.ending_scope = 0;
    for (uint32_t i = 0; i < d->host.reads.high; i++) {
        const struct ddp_read *q = ddpnic_read_at(d, i);
        if (q->rec != SNIC_DDP__NIL)
            ddpnic_host_ready(d, ddpnic_rec_at(d, q->rec));
    }
    return 0;
}

int ddpnic_host_event(struct snic_ddpnic *d, const struct snic_ddp_event *ev)
{
    switch (ev->type) {
    case SNIC_DDP_READ:
        return ddpnic_host_read(d, ev);
    case SNIC_DDP_WRITE:
    case SNIC_DDP_DELETE:
        return ddpnic_host_write_client(d, ev);
    case SNIC_DDP_SYNC:
        return ddpnic_host_sync(d, ev);
    case SNIC_DDP_LEASE:
        d->host.lease_ns = ev->ts;
        return 0;
    case SNIC_DDPNIC_PCIE:
        return ddpnic_host_message(d, ev->msg);
    case SNIC_DDPNIC_WAKE:
        return ddpnic_host_wake(d, ev);
    default:
        return SNIC_EINVAL;
    }
}

/* A piece of the work that is left; 0: there is none. Only with an empty ring. */
int ddpnic_host_work(struct snic_ddpnic *d)
{
    struct ddpnic_host *h = &d->host;
    if (h->ready.first != SNIC_DDP__NIL) {
        ddpnic_host_ready_read(d);
        return 1;
    }
    if (h->ending != SNIC_DDP__NIL) {
        if (h->ending == h->writes.high)
            h->ending = SNIC_DDP__NIL;
        else if (ddpnic_host_write_at(d, h->ending++)->rec != SNIC_DDP__NIL)
            ddpnic_host_answer(d, h->ending - 1, SNIC_EUNKNOWN);
        return 1;
    }
    if (h->ending_scope != SNIC_DDP__NIL) {
        struct ddpnic_scope *s = ddpnic_scope_at(d, h->ending_scope);
        if (h->ending_scope == h->scopes.high)
            h->ending_scope = SNIC_DDP__NIL;
        else if (h->ending_scope++, (s->flags & DDPNIC_S_USED) != 0)
            ddpnic_host_scope_end(d, s, SNIC_EUNKNOWN);
        return 1;
    }
    if (h->need_epoch) {
        h->need_epoch = 0;
        (void)ddpnic_host_act(d, SNIC_DDP_NEED_EPOCH);
        return 1;
    }
    return 0;
}
