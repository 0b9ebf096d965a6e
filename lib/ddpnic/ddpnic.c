/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * MINOS-O: memory, events in, actions out, of both halves.
 *
 * ddpnic_priv.h has the layout, the invariants and how a step runs. model.c is what distinguishes
 * the five models; emit.c actions; table.c what both halves reach; host.c the host half. The NIC
 * half: fifo.c its queues, coord.c the coordinator, follow.c the follower, scope.c [PERSIST]sc,
 * epoch.c a new membership, timer.c its timers. ddp's core.c is what both engines share.
 */
#include "ddpnic_priv.h"

/* ---- Options and memory ---- */

/* The options of @p from with their defaults, and what is wrong with them; NULL: nothing. */
static const char *ddpnic_options_wrong(struct snic_ddpnic_opts *o,
                                        const struct snic_ddpnic_opts *from)
{
    const uint32_t flags = (uint32_t)SNIC_DDP_PAPER | SNIC_DDPNIC_UNBATCHED | SNIC_DDPNIC_UNICAST;
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if ((o->flags & ~flags) != 0)
        return "flags: an unknown one is set";
    if (o->vfifo_max < 1 || o->vfifo_max > SNIC_DDP__POOL_MAX)
        return "vfifo_max: not 1 to 2^20";
    if (o->dfifo_max < 1 || o->dfifo_max > SNIC_DDP__POOL_MAX)
        return "dfifo_max: not 1 to 2^20";
    SNIC_DDP__DEFAULTS(o);
    return ddp_sizes_wrong(&SNIC_DDP__SIZES(o));
}

const char *snic_ddpnic_opts_wrong(const struct snic_ddpnic_opts *opts)
{
    struct snic_ddpnic_opts o;
    return ddpnic_options_wrong(&o, opts);
}

/* Where everything goes in the block @p d: its size, 0 when that is more than can be. */
static size_t ddpnic_layout(const struct snic_ddpnic_opts *o, struct snic_ddpnic *d)
{
    const struct ddp_sizes s = SNIC_DDP__SIZES(o);
    uint32_t recs = ddp_sizes_recs(&s);
    /* Each item is referred to by a FIFO's slot, a write, or a key's place in the cache (N4). */
    uint32_t items = o->vfifo_max + o->dfifo_max + o->writes_max + recs;
    uint64_t end = snic_align_up(sizeof(struct snic_ddpnic), SNIC_DDPNIC_ALIGN);
    ddp_pool_place(&d->recs, d, &end, recs, sizeof(struct ddpnic_rec),
                   offsetof(struct ddpnic_rec, dirty));
    ddp_index_place(&d->index, d, &end, recs);
    ddp_pool_place(&d->nic.items, d, &end, items, sizeof(struct ddpnic_item),
                   offsetof(struct ddpnic_item, dnext));
    ddp_pool_place(&d->host.writes, d, &end, o->writes_max, sizeof(struct ddpnic_host_write),
                   offsetof(struct ddpnic_host_write, next));
    ddp_pool_place(&d->host.reads, d, &end, o->reads_max, sizeof(struct ddp_read),
                   offsetof(struct ddp_read, next));
    ddp_pool_place(&d->host.scopes, d, &end, o->scopes_max, sizeof(struct ddpnic_scope),
                   offsetof(struct ddpnic_scope, next));
    ddp_pool_place(&d->nic.writes, d, &end, o->writes_max, sizeof(struct ddpnic_write),
                   offsetof(struct ddpnic_write, next));
    ddp_pool_place(&d->nic.waits, d, &end, o->waits_max, sizeof(struct ddpnic_wait),
                   offsetof(struct ddpnic_wait, next));
    return end > SIZE_MAX ? 0 : (size_t)end;
}

static void ddpnic_layout_timers(struct snic_ddpnic *d)
{
    struct ddp_timers *ts = &d->nic.timers;
    ddp_timers_init(ts, d->o.retransmit_ns, d->o.replay_ns);
    ddp_timers_span(ts, &ddpnic_write_at(d, 0)->timer, sizeof(struct ddpnic_write),
                    d->nic.writes.max);
    ddp_timers_span(ts, &ddpnic_rec_at(d, 0)->timer, sizeof(struct ddpnic_rec), d->recs.max);
}

size_t snic_ddpnic_memsize(const struct snic_ddpnic_opts *opts)
{
    struct snic_ddpnic_opts o;
    struct snic_ddpnic d;
    return ddpnic_options_wrong(&o, opts) != NULL ? 0 : ddpnic_layout(&o, &d);
}

int snic_ddpnic_init(struct snic_ddpnic **out, void *mem, size_t mem_size,
                     const struct snic_ddpnic_opts *opts)
{
    struct snic_ddpnic_opts o;
    if (ddpnic_options_wrong(&o, opts) != NULL || ((uintptr_t)mem & (SNIC_DDPNIC_ALIGN - 1)) != 0)
        return SNIC_EINVAL;
    struct snic_ddpnic *d = mem;
    size_t size = snic_ddpnic_memsize(opts);
    if (size == 0 || mem == NULL || mem_size < size)
        return SNIC_ENOSPC;
    memset(mem, 0, size);
    (void)ddpnic_layout(&o, d);
    d->o = o;
    ddpnic_rules_of(o.model, &d->rules);
    d->host.ready.first = d->host.ready.last = SNIC_DDP__NIL;
    d->host.ending = d->host.ending_scope = SNIC_DDP__NIL;
    d->nic.persists = d->nic.dirty = d->nic.sweep = SNIC_DDP__NIL;
    ddpnic_layout_timers(d);
    *out = d;
    return 0;
}

/* ---- Work that is left ---- */

/* The lock goes when its write is complete, and what readers would see is it. */
static void ddpnic_unlock(struct snic_ddpnic *d, struct ddpnic_rec *r)
{
    uint64_t top = ddpnic_top(&r->line);
    if (!ddpnic_locked(&r->line) || r->rel < top || r->out < top)
        return;
    SNIC_ASSERT(r->line.vts == top); /* N2: the newest of a key is never dropped */
    r->line.word = top;
    if (r->line.waits)
        ddpnic_act(d, SNIC_DDPNIC_WAKE)->msg.key = r->key;
}

/*
 * What follows from a dirty record's state: what its vFIFO can let go, its writes' next steps, then
 * those that wait for newer ones, acknowledgements that are due, the lock. Takes what fits the
 * ring; the record stays dirty until all is done.
 */
static void ddpnic_eval(struct snic_ddpnic *d, struct ddpnic_rec *r)
{
    if (ddpnic_fifo_eval(d, r) != 0)
        return;
    for (uint32_t overtaken = 0; overtaken < 2; overtaken++) {
        for (uint32_t i = r->writes; i != SNIC_DDP__NIL;) {
            struct ddpnic_write *w = ddpnic_write_at(d, i);
            if (!ddpnic_room(d))
                return;
            i = w->next;
            if (((w->flags & DDPNIC_W_SHORT) != 0) == (overtaken != 0))
                ddpnic_write_eval(d, w);
        }
    }
    if (ddpnic_follow_eval(d, r) != 0 || !ddpnic_room(d))
        return;
    ddpnic_unlock(d, r);
    ddpnic_watch(d, r, 0);
    SNIC_ASSERT(d->nic.dirty == ddpnic_rec_number(d, r));
    d->nic.dirty = r->dirty;
    r->dirty = SNIC_DDP__NIL;
    r->flags &= ~(uint32_t)DDPNIC_R_DIRTY;
}

/* Fire a timer: 0, or SNIC_EINVAL if it is not armed. */
static int ddpnic_timer_fire(struct snic_ddpnic *d, uint32_t number)
{
    if (number >= d->nic.writes.max + d->recs.high ||
        ddp_timers_at(&d->nic.timers, number)->armed == 0)
        return SNIC_EINVAL;
    ddpnic_timer_stop(d, number);
    if (number < d->nic.writes.max)
        ddpnic_write_retry(d, ddpnic_write_at(d, number));
    else
        ddpnic_watch_fire(d, ddpnic_rec_at(d, number - d->nic.writes.max));
    return 0;
}

/* Fire a timer that is due; 0: none. */
static int ddpnic_timer_due(struct snic_ddpnic *d)
{
    uint32_t n = ddp_timers_due(&d->nic.timers, d->nic.now_ns);
    if (n == SNIC_DDP__NIL)
        return 0;
    int r = ddpnic_timer_fire(d, n);
    SNIC_ASSERT(r == 0);
    (void)r;
    return 1;
}

/* One piece; 0: nothing is left. Only with an empty ring. */
static int ddpnic_work(struct snic_ddpnic *d)
{
    struct ddpnic_nic *n = &d->nic;
    if (ddpnic_epoch_work(d))
        return 1;
    if (n->dirty != SNIC_DDP__NIL) {
        ddpnic_eval(d, ddpnic_rec_at(d, n->dirty));
        return 1;
    }
    if (n->mark_dirty) {
        ddpnic_scope_marks(d);
        return 1;
    }
    if (n->persist_dirty) {
        ddpnic_scope_eval(d);
        return 1;
    }
    if (n->ticking) {
        n->ticking = (uint32_t)ddpnic_timer_due(d);
        return 1;
    }
    if (n->suspects.changed) {
        uint16_t mask;
        if (ddp_suspects_report(&n->suspects, &mask))
            ddpnic_act(d, SNIC_DDP_SUSPECT)->to = mask;
        return 1;
    }
    return 0;
}

int snic_ddpnic_poll_host(struct snic_ddpnic *d, struct snic_ddp_action *out)
{
    while (d->host.ring.count == 0) {
        if (ddpnic_host_work(d) == 0)
            return 0;
    }
    ddpnic_pop(d->host_actions, SNIC_DDPNIC__HOST_RING, &d->host.ring, d->o.flags, out);
    return 1;
}

int snic_ddpnic_poll_nic(struct snic_ddpnic *d, struct snic_ddp_action *out)
{
    while (d->nic.ring.count == 0) {
        if (ddpnic_work(d) == 0)
            return 0;
    }
    ddpnic_pop(d->nic_actions, SNIC_DDPNIC__RING, &d->nic.ring, d->o.flags, out);
    return 1;
}

/* ---- Events ---- */

static int ddpnic_deliver(struct snic_ddpnic *d, const struct snic_ddp_msg *m)
{
    switch (m->type) {
    case SNIC_DDP_INV:
        return ddpnic_follow_inv(d, m);
    case SNIC_DDP_ACK:
    case SNIC_DDP_ACK_C:
    case SNIC_DDP_ACK_P:
        return ddpnic_coord_ack(d, m);
    case SNIC_DDP_VAL:
    case SNIC_DDP_VAL_C:
    case SNIC_DDP_VAL_P:
        return ddpnic_follow_val(d, m);
    case SNIC_DDP_PERSIST:
    case SNIC_DDP_PERSIST_ACK:
    case SNIC_DDP_PERSIST_VAL:
        return ddpnic_scope_message(d, m);
    default:
        return SNIC_EPROTO;
    }
}

/* Rule E, then what every message must be. */
static int ddpnic_message(struct snic_ddpnic *d, const struct snic_ddp_msg *m)
{
    const struct ddpnic_common *c = &d->common;
    const uint32_t flags = SNIC_DDP_MSG_TOMBSTONE | SNIC_DDP_MSG_REPLAY;
    int r = SNIC_EPROTO;
    if (m == NULL)
        return SNIC_EINVAL;
    if (ddp_msg_foreign(m, d->o.node, c->epoch, c->others, d->nic.incarnation)) {
        d->counters.foreign++;
        return SNIC_ESTALE;
    }
    if (m->src < SNIC_DDP_NODES_MAX && (m->flags & ~flags) == 0 &&
        snic_ddp_ts_epoch(m->ts) <= c->epoch && ddp_rules_have(&d->rules, m->type))
        r = ddpnic_deliver(d, m);
    if (r == SNIC_EPROTO)
        d->counters.invalid++;
    return r;
}

static int ddpnic_event(struct snic_ddpnic *d, const struct snic_ddp_event *ev)
{
    switch (ev->type) {
    case SNIC_DDP_MESSAGE:
        return ddpnic_message(d, ev->msg);
    case SNIC_DDPNIC_PCIE:
        if (ev->msg != NULL && ev->msg->type == SNIC_DDP_INV)
            return ddpnic_coord_inv(d, ev->msg);
        if (ev->msg != NULL && ev->msg->type == SNIC_DDP_PERSIST)
            return ddpnic_scope_host(d, ev->msg);
        return SNIC_EINVAL;
    case SNIC_DDPNIC_VSTORED:
    case SNIC_DDPNIC_DSTORED:
    case SNIC_DDPNIC_DRAINED:
    case SNIC_DDPNIC_LOGGED:
        return ddpnic_fifo_event(d, ev);
    case SNIC_DDPNIC_MARKED:
        return ddpnic_scope_marked(d, ev);
    case SNIC_DDP_EPOCH:
        return ddpnic_epoch(d, ev->view);
    case SNIC_DDP_TICK:
        d->nic.ticking = 1;
        return 0;
    case SNIC_DDP_FIRE:
        return ddpnic_timer_fire(d, ev->id);
    default:
        return SNIC_EINVAL;
    }
}

int snic_ddpnic_step_host(struct snic_ddpnic *d, uint64_t now_ns, const struct snic_ddp_event *ev)
{
    SNIC_ASSERT(now_ns >= d->host.now_ns);
    SNIC_ASSERT(ddpnic_at_rest(d));
    d->host.now_ns = now_ns;
    int r = ddpnic_host_event(d, ev);
    if (r == SNIC_EAGAIN)
        d->counters.no_room++;
    return r;
}

int snic_ddpnic_step_nic(struct snic_ddpnic *d, uint64_t now_ns, const struct snic_ddp_event *ev)
{
    SNIC_ASSERT(now_ns >= d->nic.now_ns);
    SNIC_ASSERT(ddpnic_at_rest(d));
    d->nic.now_ns = now_ns;
    int r = ddpnic_event(d, ev);
    if (r == SNIC_EAGAIN)
        d->counters.stalled++;
    return r;
}

/* ---- Looking ---- */

static void ddpnic_entry(const struct snic_ddpnic *d, const struct ddpnic_rec *r,
                         struct snic_ddpnic_entry *out)
{
    memset(out, 0, sizeof(*out));
    out->host.key = r->key;
    out->host.ts = r->line.vts;
    if (r->line.cache != SNIC_DDP__NIL) {
        const struct ddpnic_item *t = ddpnic_item_at(d, r->line.cache);
        out->host.value = t->value;
        out->host.length = t->length;
        out->host.flags = t->flags & SNIC_DDP_MSG_TOMBSTONE;
    }
    out->top = ddpnic_top(&r->line);
    if (ddpnic_locked(&r->line)) {
        out->host.locked = out->top;
        out->host.flags |= SNIC_DDP_MSG_LOCKED;
    }
    out->host.seen[0] = r->line.gv;
    out->host.seen[1] = r->line.gd;
    out->host.durable = r->dts;
    out->accepted = r->enq;
    out->stored = r->vin;
    if (ddpnic_newest(r) != SNIC_DDP__NIL)
        out->value = ddpnic_item_at(d, ddpnic_newest(r))->value;
}

int snic_ddpnic_get(const struct snic_ddpnic *d, uint64_t now_ns, const struct snic_ddp_key *key,
                    struct snic_ddpnic_entry *out)
{
    if (d->common.role != SNIC_DDP_FULL || now_ns >= d->host.lease_ns)
        return SNIC_ESTALE;
    const struct ddpnic_rec *r = ddpnic_find(d, key);
    if (r == NULL)
        return SNIC_ENOENT;
    if (ddpnic_locked(&r->line))
        return SNIC_EAGAIN;
    if (r->line.cache == SNIC_DDP__NIL ||
        (ddpnic_item_at(d, r->line.cache)->flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
        return SNIC_ENOENT;
    ddpnic_entry(d, r, out);
    return 0;
}

int snic_ddpnic_next(const struct snic_ddpnic *d, uint64_t *cursor, struct snic_ddpnic_entry *out)
{
    if (*cursor >= d->recs.high)
        return SNIC_ENOENT;
    ddpnic_entry(d, ddpnic_rec_at(d, (uint32_t)*cursor), out);
    (*cursor)++;
    return 0;
}

int snic_ddpnic_dfifo(const struct snic_ddpnic *d, uint64_t *cursor, struct snic_ddp_entry *out)
{
    for (; *cursor < d->nic.items.high; (*cursor)++) {
        const struct ddpnic_item *t = ddpnic_item_at(d, (uint32_t)*cursor);
        if ((t->flags & DDPNIC_I_DIN) == 0)
            continue;
        memset(out, 0, sizeof(*out));
        out->key = ddpnic_rec_at(d, t->rec)->key;
        out->ts = t->ts;
        out->value = t->value;
        out->length = t->length;
        out->flags = t->flags & SNIC_DDP_MSG_TOMBSTONE;
        out->durable = t->ts;
        (*cursor)++;
        return 0;
    }
    return SNIC_ENOENT;
}

void snic_ddpnic_get_stats(const struct snic_ddpnic *d, struct snic_ddpnic_stats *out)
{
    memset(out, 0, sizeof(*out));
    out->epoch = d->common.epoch;
    out->role = d->common.role;
    out->records = d->recs.used;
    out->host_writes = d->host.writes.used;
    out->nic_writes = d->nic.writes.used;
    out->waits = d->nic.waits.used;
    out->reads = d->host.reads.used;
    out->scopes = d->host.scopes.used;
    out->vfifo = d->nic.vfifo;
    out->dfifo = d->nic.dfifo;
    out->counters = d->counters;
}
