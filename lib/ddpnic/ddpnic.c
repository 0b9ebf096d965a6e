/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * MINOS-O: memory, events in, actions out, of both halves.
 *
 * ddpnic_priv.h has the layout, the invariants and how a step runs. model.c is what distinguishes
 * the five models; table.c what both halves reach; host.c the host half. The NIC half: fifo.c its
 * queues, coord.c the coordinator, follow.c the follower, scope.c [PERSIST]sc, epoch.c a new
 * membership, timer.c its timers.
 */
#include "ddpnic_priv.h"

#define DDPNIC_KEYS_MAX (UINT32_C(1) << 28)
#define DDPNIC_POOL_MAX (UINT32_C(1) << 20)
#define DDPNIC_SCOPES_MAX (UINT32_C(1) << 16)
#define DDPNIC_NS_MAX (UINT64_C(1) << 50)

/* ---- Options and memory ---- */

static int ddpnic_options(struct snic_ddpnic_opts *o, const struct snic_ddpnic_opts *from)
{
    const uint32_t flags = (uint32_t)SNIC_DDP_PAPER | SNIC_DDPNIC_UNBATCHED | SNIC_DDPNIC_UNICAST;
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return SNIC_EINVAL;
    if (o->retransmit_ns == 0)
        o->retransmit_ns = UINT64_C(1000000);
    if (o->replay_ns == 0)
        o->replay_ns = UINT64_C(10000000);
    if (o->others_max == 0)
        o->others_max = SNIC_DDP_NODES_MAX - 1;
    if (o->model < SNIC_DDP_SYNCH || o->model > SNIC_DDP_SCOPE ||
        o->others_max >= SNIC_DDP_NODES_MAX || (o->flags & ~flags) != 0 ||
        o->node >= SNIC_DDP_NODES_MAX)
        return SNIC_EINVAL;
    if (o->keys_max < 1 || o->keys_max > DDPNIC_KEYS_MAX || o->writes_max < 2 ||
        o->writes_max > DDPNIC_POOL_MAX || o->waits_max < 2 || o->waits_max > DDPNIC_POOL_MAX ||
        o->reads_max > DDPNIC_POOL_MAX || o->scopes_max > DDPNIC_SCOPES_MAX)
        return SNIC_EINVAL;
    if (o->vfifo_max < 1 || o->vfifo_max > DDPNIC_POOL_MAX || o->dfifo_max < 1 ||
        o->dfifo_max > DDPNIC_POOL_MAX)
        return SNIC_EINVAL;
    if (o->retransmit_ns > DDPNIC_NS_MAX || o->replay_ns > DDPNIC_NS_MAX)
        return SNIC_EINVAL;
    return 0;
}

/*
 * Records: keys_max, and what the others may have let in at the same time, each while it had room
 * itself. A follower without room for those would not acknowledge them, for ever.
 */
static uint32_t ddpnic_recs_max(const struct snic_ddpnic_opts *o)
{
    return o->keys_max + o->others_max * o->writes_max;
}

static uint32_t ddpnic_index_slots(const struct snic_ddpnic_opts *o)
{
    return (uint32_t)snic_pow2_up((uint64_t)ddpnic_recs_max(o) * 3 / 2 + 1);
}

/* Each is referred to by a FIFO's slot, a write, or a key's place in the cache (N4). */
static uint32_t ddpnic_items(const struct snic_ddpnic_opts *o)
{
    return o->vfifo_max + o->dfifo_max + o->writes_max + ddpnic_recs_max(o);
}

static void ddpnic_place(uint64_t *end, uint64_t *at, uint64_t count, size_t size)
{
    *at = *end;
    *end += snic_align_up(count * size, SNIC_DDPNIC_ALIGN);
}

/* Where everything goes, relative to the beginning; fills in the at_ of @p d. */
static size_t ddpnic_layout(const struct snic_ddpnic_opts *o, struct snic_ddpnic *d)
{
    uint64_t end = snic_align_up(sizeof(struct snic_ddpnic), SNIC_DDPNIC_ALIGN);
    ddpnic_place(&end, &d->at_recs, ddpnic_recs_max(o), sizeof(struct ddpnic_rec));
    ddpnic_place(&end, &d->at_index, ddpnic_index_slots(o), sizeof(struct ddpnic_slot));
    ddpnic_place(&end, &d->at_items, ddpnic_items(o), sizeof(struct ddpnic_item));
    ddpnic_place(&end, &d->at_host_writes, o->writes_max, sizeof(struct ddpnic_host_write));
    ddpnic_place(&end, &d->at_reads, o->reads_max, sizeof(struct ddpnic_read));
    ddpnic_place(&end, &d->at_scopes, o->scopes_max, sizeof(struct ddpnic_scope));
    ddpnic_place(&end, &d->at_writes, o->writes_max, sizeof(struct ddpnic_write));
    ddpnic_place(&end, &d->at_waits, o->waits_max, sizeof(struct ddpnic_wait));
    return end > SIZE_MAX ? 0 : (size_t)end;
}

size_t snic_ddpnic_memsize(const struct snic_ddpnic_opts *opts)
{
    struct snic_ddpnic_opts o;
    struct snic_ddpnic d;
    return ddpnic_options(&o, opts) != 0 ? 0 : ddpnic_layout(&o, &d);
}

static struct ddpnic_pool ddpnic_pool_of(uint32_t max)
{
    struct ddpnic_pool p = {SNIC_DDPNIC__NIL, 0, 0, max};
    return p;
}

int snic_ddpnic_init(struct snic_ddpnic **out, void *mem, size_t mem_size,
                     const struct snic_ddpnic_opts *opts)
{
    struct snic_ddpnic_opts o;
    if (ddpnic_options(&o, opts) != 0 || ((uintptr_t)mem & (SNIC_DDPNIC_ALIGN - 1)) != 0)
        return SNIC_EINVAL;
    struct snic_ddpnic *d = mem;
    size_t size = snic_ddpnic_memsize(opts);
    if (size == 0 || mem == NULL || mem_size < size)
        return SNIC_ENOSPC;
    memset(mem, 0, size);
    (void)ddpnic_layout(&o, d);
    d->o = o;
    int r = ddpnic_rules_of(o.model, &d->rules);
    SNIC_ASSERT(r == 0);
    (void)r;
    d->index_mask = ddpnic_index_slots(&o) - 1;
    d->recs = ddpnic_pool_of(ddpnic_recs_max(&o));
    d->host.writes = ddpnic_pool_of(o.writes_max);
    d->host.reads = ddpnic_pool_of(o.reads_max);
    d->host.scopes = ddpnic_pool_of(o.scopes_max);
    d->host.ready.first = d->host.ready.last = SNIC_DDPNIC__NIL;
    d->host.ending = d->host.ending_scope = SNIC_DDPNIC__NIL;
    d->nic.items = ddpnic_pool_of(ddpnic_items(&o));
    d->nic.writes = ddpnic_pool_of(o.writes_max);
    d->nic.waits = ddpnic_pool_of(o.waits_max);
    d->nic.persists = d->nic.dirty = d->nic.sweep = SNIC_DDPNIC__NIL;
    for (uint32_t c = 0; c < DDPNIC_CLASSES; c++)
        d->nic.classes[c].first = d->nic.classes[c].last = SNIC_DDPNIC__NIL;
    *out = d;
    return 0;
}

/* ---- Actions ---- */

static struct snic_ddp_action *ddpnic_push(struct snic_ddp_action *ring, uint32_t size,
                                           struct ddpnic_ring *at, uint32_t type)
{
    SNIC_ASSERT(at->count < size);
    struct snic_ddp_action *a = &ring[(at->first + at->count++) % size];
    memset(a, 0, sizeof(*a));
    a->type = type;
    return a;
}

struct snic_ddp_action *ddpnic_host_act(struct snic_ddpnic *d, uint32_t type)
{
    struct snic_ddp_action *a =
        ddpnic_push(d->host_ring, SNIC_DDPNIC__HOST_RING, &d->host.ring, type);
    a->msg.src = (uint8_t)d->o.node;
    return a;
}

struct snic_ddp_action *ddpnic_act(struct snic_ddpnic *d, uint32_t type)
{
    struct snic_ddp_action *a = ddpnic_push(d->nic_ring, SNIC_DDPNIC__RING, &d->nic.ring, type);
    a->msg.src = (uint8_t)d->o.node;
    return a;
}

/* NULL: no receiver. */
struct snic_ddp_msg *ddpnic_send(struct snic_ddpnic *d, uint32_t type, uint16_t to,
                                 const struct snic_ddp_key *key, uint64_t ts)
{
    static struct snic_ddp_msg *const none = NULL;
    if (to == 0)
        return none;
    SNIC_ASSERT((to & ~d->common.others) == 0); /* N7 */
    struct snic_ddp_action *a = ddpnic_act(d, SNIC_DDP_SEND);
    a->to = to;
    a->msg.type = (uint8_t)type;
    a->msg.epoch = d->common.epoch;
    a->msg.src_incarnation = d->nic.incarnation[d->o.node];
    a->msg.key = *key;
    a->msg.ts = ts;
    return &a->msg;
}

void ddpnic_release(struct snic_ddpnic *d, uint64_t value)
{
    ddpnic_act(d, SNIC_DDP_RELEASE)->msg.value = value;
}

static uint32_t ddpnic_lowest(uint32_t mask)
{
    return mask & (~mask + 1);
}

/* The ring's first; of one that stands for several (the variants) the first of those. */
static void ddpnic_pop(struct snic_ddp_action *ring, uint32_t size, struct ddpnic_ring *at,
                       uint32_t flags, struct snic_ddp_action *out)
{
    struct snic_ddp_action *a = &ring[at->first];
    *out = *a;
    if (a->type == SNIC_DDP_SEND && (flags & SNIC_DDPNIC_UNICAST) != 0) {
        out->to = (uint16_t)ddpnic_lowest(a->to);
        a->to &= (uint16_t)~out->to;
        if (a->to != 0)
            return;
    }
    if (a->type == SNIC_DDPNIC_PCIE && (flags & SNIC_DDPNIC_UNBATCHED) != 0) {
        int down = a->msg.type == SNIC_DDP_INV || a->msg.type == SNIC_DDP_PERSIST;
        out->msg.index = ddpnic_lowest(a->msg.index);
        a->msg.index &= ~out->msg.index;
        if (down) {
            for (uint32_t left = a->msg.index; left != 0; left &= left - 1)
                out->msg.seen[0]++;
            a->msg.seen[1]++;
        }
        if (a->msg.index != 0) {
            if (!down)
                out->msg.seen[0] = 0; /* not the last */
            return;
        }
    }
    at->first = (at->first + 1) % size;
    at->count--;
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
        for (uint32_t i = r->writes; i != SNIC_DDPNIC__NIL;) {
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
    r->dirty = SNIC_DDPNIC__NIL;
    r->flags &= ~(uint32_t)DDPNIC_R_DIRTY;
}

/* One piece; 0: nothing is left. Only with an empty ring. */
static int ddpnic_work(struct snic_ddpnic *d)
{
    struct ddpnic_nic *n = &d->nic;
    if (ddpnic_epoch_work(d))
        return 1;
    if (n->dirty != SNIC_DDPNIC__NIL) {
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
        n->ticking = (uint8_t)ddpnic_timer_due(d);
        return 1;
    }
    if (n->suspects) {
        n->suspects = 0;
        ddpnic_suspect_emit(d);
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
    ddpnic_pop(d->host_ring, SNIC_DDPNIC__HOST_RING, &d->host.ring, d->o.flags, out);
    return 1;
}

int snic_ddpnic_poll_nic(struct snic_ddpnic *d, struct snic_ddp_action *out)
{
    while (d->nic.ring.count == 0) {
        if (ddpnic_work(d) == 0)
            return 0;
    }
    ddpnic_pop(d->nic_ring, SNIC_DDPNIC__RING, &d->nic.ring, d->o.flags, out);
    return 1;
}

/* ---- Events ---- */

/* Which acknowledgements and validations a model has at all. */
static int ddpnic_in_model(const struct snic_ddpnic *d, uint32_t type)
{
    switch (type) {
    case SNIC_DDP_ACK:
        return d->rules.acks == DDPNIC_ONE;
    case SNIC_DDP_ACK_C:
        return d->rules.acks != DDPNIC_ONE;
    case SNIC_DDP_ACK_P:
        return d->rules.acks == DDPNIC_SPLIT;
    case SNIC_DDP_VAL:
    case SNIC_DDP_VAL_C:
        return d->rules.val_type == type;
    case SNIC_DDP_VAL_P:
        return d->rules.val_p != DDPNIC_NEVER;
    default:
        return 1;
    }
}

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
    if (m->src < SNIC_DDP_NODES_MAX &&
        (m->epoch != c->epoch || (c->others & ddpnic_bit(m->src)) == 0 || m->dst != d->o.node ||
         m->src_incarnation != d->nic.incarnation[m->src] ||
         m->dst_incarnation != d->nic.incarnation[d->o.node])) {
        d->counters.foreign++;
        return SNIC_ESTALE;
    }
    if (m->src < SNIC_DDP_NODES_MAX && (m->flags & ~flags) == 0 &&
        snic_ddp_ts_epoch(m->ts) <= c->epoch && ddpnic_in_model(d, m->type))
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

/* N6 */
int ddpnic_at_rest(const struct snic_ddpnic *d)
{
    const struct ddpnic_host *h = &d->host;
    const struct ddpnic_nic *n = &d->nic;
    return h->ring.count == 0 && h->ready.first == SNIC_DDPNIC__NIL &&
           h->ending == SNIC_DDPNIC__NIL && h->ending_scope == SNIC_DDPNIC__NIL &&
           h->need_epoch == 0 && n->ring.count == 0 && n->dirty == SNIC_DDPNIC__NIL &&
           n->sweep == SNIC_DDPNIC__NIL && n->mark_dirty == 0 && n->persist_dirty == 0 &&
           n->ticking == 0 && n->suspects == 0;
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
    if (r->line.cache != SNIC_DDPNIC__NIL) {
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
    if (ddpnic_newest(r) != SNIC_DDPNIC__NIL)
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
    if (r->line.cache == SNIC_DDPNIC__NIL ||
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

void snic_ddpnic_inspect(const struct snic_ddpnic *d, struct snic_ddpnic_info *out)
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

#undef DDPNIC_KEYS_MAX
#undef DDPNIC_POOL_MAX
#undef DDPNIC_SCOPES_MAX
#undef DDPNIC_NS_MAX
