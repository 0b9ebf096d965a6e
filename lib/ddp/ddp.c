/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The replication engine: memory, events in, actions out.
 *
 * ddp_priv.h has the layout, the invariants and how a step runs. model.c is what distinguishes the
 * five models; record.c the table, timer.c the timers; write.c the coordinator, follow.c the
 * follower, replay.c what makes up for losses; scope.c [PERSIST]sc, cas.c compare-and-swap; epoch.c
 * a new membership, learn.c a node that joins, restart.c all from their logs, purge.c deleted keys.
 */
#include "ddp_priv.h"

#define DDP_KEYS_MAX (UINT32_C(1) << 28)
#define DDP_POOL_MAX (UINT32_C(1) << 20)
#define DDP_SCOPES_MAX (UINT32_C(1) << 16)
#define DDP_NS_MAX (UINT64_C(1) << 50)

/* ---- Options and memory ---- */

static int ddp_options(struct snic_ddp_opts *o, const struct snic_ddp_opts *from)
{
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
        o->others_max >= SNIC_DDP_NODES_MAX ||
        (o->flags & ~(uint32_t)(SNIC_DDP_PAPER | SNIC_DDP_VALC_AFTER_PERSIST)) != 0 ||
        o->node >= SNIC_DDP_NODES_MAX)
        return SNIC_EINVAL;
    if (o->keys_max < 1 || o->keys_max > DDP_KEYS_MAX || o->writes_max < 2 ||
        o->writes_max > DDP_POOL_MAX || o->waits_max < 2 || o->waits_max > DDP_POOL_MAX ||
        o->reads_max > DDP_POOL_MAX || o->scopes_max > DDP_SCOPES_MAX)
        return SNIC_EINVAL;
    if (o->retransmit_ns > DDP_NS_MAX || o->replay_ns > DDP_NS_MAX)
        return SNIC_EINVAL;
    return 0;
}

/*
 * Records: keys_max, and what the others may have let in at the same time, each while it had room
 * itself. A follower without room for those would not acknowledge them, for ever.
 */
static uint32_t ddp_recs_max(const struct snic_ddp_opts *o)
{
    return o->keys_max + o->others_max * o->writes_max;
}

static uint32_t ddp_index_slots(const struct snic_ddp_opts *o)
{
    return (uint32_t)snic_pow2_up((uint64_t)ddp_recs_max(o) * 3 / 2 + 1);
}

/* Where everything goes, relative to the beginning; fills in the at_ of @p d. */
static size_t ddp_layout(const struct snic_ddp_opts *o, struct snic_ddp *d)
{
    uint64_t at = snic_align_up(sizeof(struct snic_ddp), SNIC_DDP_ALIGN);
    d->at_recs = at;
    at += (uint64_t)ddp_recs_max(o) * sizeof(struct ddp_rec);
    d->at_index = at;
    at += snic_align_up((uint64_t)ddp_index_slots(o) * sizeof(struct ddp_slot), SNIC_DDP_ALIGN);
    d->at_writes = at;
    at += snic_align_up(o->writes_max * sizeof(struct ddp_write), SNIC_DDP_ALIGN);
    d->at_waits = at;
    at += snic_align_up(o->waits_max * sizeof(struct ddp_wait), SNIC_DDP_ALIGN);
    d->at_reads = at;
    at += snic_align_up(o->reads_max * sizeof(struct ddp_read), SNIC_DDP_ALIGN);
    d->at_scopes = at;
    at += snic_align_up(o->scopes_max * sizeof(struct ddp_scope), SNIC_DDP_ALIGN);
    return at > SIZE_MAX ? 0 : (size_t)at;
}

size_t snic_ddp_memsize(const struct snic_ddp_opts *opts)
{
    struct snic_ddp_opts o;
    struct snic_ddp d;
    return ddp_options(&o, opts) != 0 ? 0 : ddp_layout(&o, &d);
}

static struct ddp_pool ddp_pool_of(uint32_t max)
{
    struct ddp_pool p = {SNIC_DDP__NIL, 0, 0, max};
    return p;
}

int snic_ddp_init(struct snic_ddp **out, void *mem, size_t mem_size,
                  const struct snic_ddp_opts *opts)
{
    struct snic_ddp_opts o;
    if (ddp_options(&o, opts) != 0 || ((uintptr_t)mem & (SNIC_DDP_ALIGN - 1)) != 0)
        return SNIC_EINVAL;
    struct snic_ddp *d = mem;
    size_t size = snic_ddp_memsize(opts);
    if (size == 0 || mem == NULL || mem_size < size)
        return SNIC_ENOSPC;
    memset(mem, 0, size);
    (void)ddp_layout(&o, d);
    d->o = o;
    ddp_rules_of(o.model, o.flags, &d->rules);
    d->index_mask = ddp_index_slots(&o) - 1;
    d->recs = ddp_pool_of(ddp_recs_max(&o));
    d->writes = ddp_pool_of(o.writes_max);
    d->waits = ddp_pool_of(o.waits_max);
    d->reads = ddp_pool_of(o.reads_max);
    d->scopes = ddp_pool_of(o.scopes_max);
    d->dirty = d->ready.first = d->ready.last = SNIC_DDP__NIL;
    d->sweep = d->sweep_scope = SNIC_DDP__NIL;
    d->digest_next = SNIC_DDP__RANGES;
    for (uint32_t c = 0; c < DDP_CLASSES; c++)
        d->classes[c].first = d->classes[c].last = SNIC_DDP__NIL;
    *out = d;
    return 0;
}

/* ---- Actions ---- */

struct snic_ddp_action *ddp_act(struct snic_ddp *d, uint32_t type)
{
    SNIC_ASSERT(d->ring_count < SNIC_DDP__RING);
    struct snic_ddp_action *a = &d->ring[(d->ring_first + d->ring_count++) % SNIC_DDP__RING];
    memset(a, 0, sizeof(*a));
    a->type = type;
    return a;
}

struct snic_ddp_msg *ddp_send(struct snic_ddp *d, uint32_t type, uint16_t to,
                              const struct snic_ddp_key *key, uint64_t ts)
{
    static struct snic_ddp_msg *const none = NULL;
    if (to == 0 && (type == SNIC_DDP_VAL || type == SNIC_DDP_VAL_C || type == SNIC_DDP_VAL_P))
        return none; /* the only member */
    SNIC_ASSERT(to != 0 && (to & ~d->others) == 0);
    struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_SEND);
    a->to = to;
    a->msg.type = (uint8_t)type;
    a->msg.src = (uint8_t)d->o.node;
    a->msg.epoch = d->epoch;
    a->msg.src_incarnation = d->incarnation[d->o.node];
    a->msg.key = *key;
    a->msg.ts = ts;
    return &a->msg;
}

void ddp_release(struct snic_ddp *d, uint64_t value)
{
    ddp_act(d, SNIC_DDP_RELEASE)->msg.value = value;
}

void ddp_flush(struct snic_ddp *d, uint32_t id)
{
    ddp_act(d, SNIC_DDP_FLUSH)->id = id;
}

/* The answer to a read, or to what turned out to be one; without @p r only the result. */
void ddp_done(struct snic_ddp *d, uint64_t token, int result, const struct ddp_rec *r)
{
    struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_DONE);
    a->token = token;
    a->result = result;
    if (r == NULL)
        return;
    a->flags = r->flags & SNIC_DDP_MSG_TOMBSTONE;
    a->msg.flags = (uint8_t)a->flags;
    a->msg.key = r->key;
    a->msg.ts = r->vts;
    a->msg.value = r->value;
    a->msg.length = r->length;
}

/* ---- Work that is left ---- */

/* A read whose key was unlocked, or whose node is fenced. The lease may have ended meanwhile. */
static void ddp_ready_read(struct snic_ddp *d)
{
    uint32_t n = d->ready.first;
    struct ddp_read *q = ddp_read_at(d, n);
    const struct ddp_rec *r = ddp_rec_at(d, q->rec);
    d->ready.first = q->next;
    if (q->next == SNIC_DDP__NIL)
        d->ready.last = SNIC_DDP__NIL;
    if (!ddp_lease(d, d->now_ns))
        ddp_done(d, q->token, SNIC_ESTALE, NULL);
    else
        ddp_done(d, q->token, (r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0 ? SNIC_ENOENT : 0, r);
    memset(q, 0, sizeof(*q));
    q->rec = SNIC_DDP__NIL;
    q->next = d->reads.free;
    d->reads.free = n;
    d->reads.used--;
}

/* One piece; 0: nothing is left. Only with an empty ring. */
static int ddp_work(struct snic_ddp *d)
{
    if (d->sweep != SNIC_DDP__NIL || d->sweep_scope != SNIC_DDP__NIL) {
        if (ddp_epoch_work(d))
            return 1;
    }
    if (d->dirty != SNIC_DDP__NIL) {
        ddp_eval(d, ddp_rec_at(d, d->dirty));
        return 1;
    }
    if (d->ready.first != SNIC_DDP__NIL) {
        ddp_ready_read(d);
        return 1;
    }
    if (d->ticking) {
        d->ticking = (uint8_t)ddp_timer_due(d);
        return 1;
    }
    if (d->suspects) {
        d->suspects = 0;
        ddp_suspect_emit(d);
        return 1;
    }
    if (d->need_epoch) {
        d->need_epoch = 0;
        (void)ddp_act(d, SNIC_DDP_NEED_EPOCH);
        return 1;
    }
    return d->restart == DDP_RESTART_NOT ? 0 : ddp_restart_work(d);
}

int snic_ddp_poll(struct snic_ddp *d, struct snic_ddp_action *out)
{
    while (d->ring_count == 0) {
        if (ddp_work(d) == 0)
            return 0;
    }
    struct snic_ddp_action *a = &d->ring[d->ring_first];
    *out = *a;
    d->ring_first = (d->ring_first + 1) % SNIC_DDP__RING;
    d->ring_count--;
    return 1;
}

/* ---- Events ---- */

/* Which acknowledgements and validations a model has at all. */
static int ddp_in_model(const struct snic_ddp *d, uint32_t type)
{
    switch (type) {
    case SNIC_DDP_ACK:
        return d->rules.acks == DDP_ONE;
    case SNIC_DDP_ACK_C:
        return d->rules.acks != DDP_ONE;
    case SNIC_DDP_ACK_P:
        return d->rules.acks == DDP_SPLIT;
    case SNIC_DDP_VAL:
    case SNIC_DDP_VAL_C:
        return d->rules.val_type == type;
    case SNIC_DDP_VAL_P:
        return d->rules.val_p != DDP_NEVER;
    default:
        return 1;
    }
}

static int ddp_deliver(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    switch (m->type) {
    case SNIC_DDP_INV:
        return (d->full & ddp_bit(m->src)) != 0 ? ddp_follow_inv(d, m) : SNIC_EPROTO;
    case SNIC_DDP_ACK:
    case SNIC_DDP_ACK_C:
    case SNIC_DDP_ACK_P:
        return ddp_write_ack(d, m);
    case SNIC_DDP_VAL:
    case SNIC_DDP_VAL_C:
    case SNIC_DDP_VAL_P:
        return m->ts != 0 ? ddp_follow_val(d, m) : SNIC_EPROTO;
    case SNIC_DDP_PERSIST:
    case SNIC_DDP_PERSIST_ACK:
    case SNIC_DDP_PERSIST_VAL:
        return ddp_scope_message(d, m);
    case SNIC_DDP_QUERY:
        return m->ts != 0 ? ddp_query(d, m) : SNIC_EPROTO;
    case SNIC_DDP_NACK:
        return ddp_cas_nack(d, m);
    case SNIC_DDP_PULL:
    case SNIC_DDP_RECORD:
    case SNIC_DDP_PULLED:
        return ddp_learn_message(d, m);
    case SNIC_DDP_DIGEST:
    case SNIC_DDP_RESTARTED:
        return ddp_restart_message(d, m);
    case SNIC_DDP_PURGE_ASK:
    case SNIC_DDP_PURGE_ACK:
    case SNIC_DDP_PURGE:
        return ddp_purge_message(d, m);
    default:
        return SNIC_EPROTO;
    }
}

/* Rule E, then what every message must be. */
static int ddp_message(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    const uint32_t flags =
        SNIC_DDP_MSG_CAS | SNIC_DDP_MSG_TOMBSTONE | SNIC_DDP_MSG_LOCKED | SNIC_DDP_MSG_REPLAY;
    int r = SNIC_EPROTO;
    if (m == NULL)
        return SNIC_EINVAL;
    if (m->src < SNIC_DDP_NODES_MAX &&
        (m->epoch != d->epoch || (d->others & ddp_bit(m->src)) == 0 || m->dst != d->o.node ||
         m->src_incarnation != d->incarnation[m->src] ||
         m->dst_incarnation != d->incarnation[d->o.node])) {
        d->counters.foreign++;
        return SNIC_ESTALE;
    }
    if (m->src < SNIC_DDP_NODES_MAX && (m->flags & ~flags) == 0 &&
        snic_ddp_ts_epoch(m->ts) <= d->epoch && ddp_in_model(d, m->type))
        r = ddp_deliver(d, m);
    if (r == 0 && d->restart != DDP_RESTART_NOT)
        ddp_restart_heard(d, ddp_bit(m->src));
    if (r == SNIC_EPROTO)
        d->counters.invalid++;
    return r;
}

static int ddp_flushed(struct snic_ddp *d, uint32_t id)
{
    if (id != SNIC_DDP__ID_LEARN)
        return ddp_scope_flushed(d, id);
    ddp_learn_flushed(d);
    return 0;
}

static int ddp_event(struct snic_ddp *d, const struct snic_ddp_event *ev)
{
    switch (ev->type) {
    case SNIC_DDP_READ:
        return ddp_read_client(d, ev);
    case SNIC_DDP_WRITE:
    case SNIC_DDP_DELETE:
        return ddp_write_client(d, ev);
    case SNIC_DDP_CAS:
        return ddp_cas_client(d, ev);
    case SNIC_DDP_SYNC:
        return ddp_scope_sync(d, ev);
    case SNIC_DDP_MESSAGE:
        return ddp_message(d, ev->msg);
    case SNIC_DDP_APPENDED:
        ddp_follow_appended(d, ev);
        return 0;
    case SNIC_DDP_FLUSHED:
        return ddp_flushed(d, ev->id);
    case SNIC_DDP_EPOCH:
        return ddp_epoch(d, ev->view);
    case SNIC_DDP_LEASE:
        d->lease_ns = ev->ts;
        return 0;
    case SNIC_DDP_LOADED:
        return ddp_loaded(d, ev);
    case SNIC_DDP_TICK:
        d->ticking = 1;
        return 0;
    case SNIC_DDP_FIRE:
        return ddp_timer_fire(d, ev->id);
    default:
        return SNIC_EINVAL;
    }
}

int snic_ddp_step(struct snic_ddp *d, uint64_t now_ns, const struct snic_ddp_event *ev)
{
    SNIC_ASSERT(now_ns >= d->now_ns);
    SNIC_ASSERT(d->ring_count == 0 && d->dirty == SNIC_DDP__NIL); /* I6 */
    SNIC_ASSERT(d->ready.first == SNIC_DDP__NIL && d->ticking == 0);
    d->now_ns = now_ns;
    int r = ddp_event(d, ev);
    if (r == SNIC_EAGAIN)
        d->counters.no_room++;
    return r;
}

/* ---- Looking ---- */

int snic_ddp_get(const struct snic_ddp *d, uint64_t now_ns, const struct snic_ddp_key *key,
                 struct snic_ddp_entry *out)
{
    if (!ddp_lease(d, now_ns))
        return SNIC_ESTALE;
    const struct ddp_rec *r = ddp_find(d, key);
    if (r == NULL)
        return SNIC_ENOENT;
    if (r->rd != 0)
        return SNIC_EAGAIN;
    if (r->vts == 0 || (r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
        return SNIC_ENOENT;
    out->key = r->key;
    out->ts = r->vts;
    out->value = r->value;
    out->length = r->length;
    out->flags = 0;
    return 0;
}

static void ddp_entry(const struct ddp_rec *r, struct snic_ddp_entry *out)
{
    out->key = r->key;
    out->ts = r->vts;
    out->value = r->value;
    out->length = r->length;
    out->flags = r->flags & SNIC_DDP_MSG_TOMBSTONE;
    out->flags |= r->rd != 0 ? (uint32_t)SNIC_DDP_MSG_LOCKED : 0;
    out->flags |= (r->flags & DDP_R_CAS) != 0 ? (uint32_t)SNIC_DDP_MSG_CAS : 0;
    out->locked = r->rd;
    out->seen[0] = r->gv;
    out->seen[1] = r->gd;
    out->durable = r->dts;
}

int snic_ddp_next(const struct snic_ddp *d, uint64_t *cursor, struct snic_ddp_entry *out)
{
    for (uint64_t i = *cursor; i < d->recs.high; i++) {
        const struct ddp_rec *r = ddp_rec_at(d, (uint32_t)i);
        if (r->vts == 0)
            continue;
        ddp_entry(r, out);
        *cursor = i + 1;
        return 0;
    }
    return SNIC_ENOENT;
}

int snic_ddp_find(const struct snic_ddp *d, const struct snic_ddp_key *key,
                  struct snic_ddp_entry *out)
{
    const struct ddp_rec *r = ddp_find(d, key);
    if (r == NULL || r->vts == 0)
        return SNIC_ENOENT;
    ddp_entry(r, out);
    return 0;
}

void snic_ddp_inspect(const struct snic_ddp *d, struct snic_ddp_info *out)
{
    memset(out, 0, sizeof(*out));
    out->epoch = d->epoch;
    out->role = d->role;
    out->serves = d->serves;
    out->records = d->recs.used;
    out->tombstones = d->tombstones;
    out->writes = d->writes.used;
    out->waits = d->waits.used;
    out->reads = d->reads.used;
    out->scopes = d->scopes.used;
    out->learned = d->learn == DDP_LEARN_DONE;
    out->counters = d->counters;
}

#undef DDP_KEYS_MAX
#undef DDP_POOL_MAX
#undef DDP_SCOPES_MAX
#undef DDP_NS_MAX
