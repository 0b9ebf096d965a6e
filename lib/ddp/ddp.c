/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The replication engine: memory, events in, actions out.
 *
 * ddp_priv.h has the layout, the invariants and how a step runs. model.c is what distinguishes the
 * five models; emit.c actions, record.c the table, timer.c the timers, flight.c writes in flight;
 * write.c the coordinator, follow.c the follower, replay.c what makes up for losses; scope.c
 * [PERSIST]sc, cas.c compare-and-swap; epoch.c a new membership, learn.c a node that joins,
 * restart.c all from their logs, purge.c deleted keys. core.c is what ddpnic shares.
 */
#include "ddp_priv.h"

/* ---- Options and memory ---- */

/* The options of @p from with their defaults, and what is wrong with them; NULL: nothing. */
static const char *ddp_options_wrong(struct snic_ddp_opts *o, const struct snic_ddp_opts *from)
{
    const uint32_t flags =
        (uint32_t)SNIC_DDP_PAPER | SNIC_DDP_VALC_AFTER_PERSIST | SNIC_DDP_CHANGES;
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if ((o->flags & ~flags) != 0)
        return "flags: an unknown one is set";
    SNIC_DDP__DEFAULTS(o);
    return ddp_sizes_wrong(&SNIC_DDP__SIZES(o));
}

const char *snic_ddp_opts_wrong(const struct snic_ddp_opts *opts)
{
    struct snic_ddp_opts o;
    return ddp_options_wrong(&o, opts);
}

/* Where everything goes in the block @p d: its size, 0 when that is more than can be. */
static size_t ddp_layout(const struct snic_ddp_opts *o, struct snic_ddp *d)
{
    const struct ddp_sizes s = SNIC_DDP__SIZES(o);
    uint64_t end = snic_align_up(sizeof(struct snic_ddp), SNIC_DDP_ALIGN);
    ddp_pool_place(&d->recs, d, &end, ddp_sizes_recs(&s), sizeof(struct ddp_rec),
                   offsetof(struct ddp_rec, dirty));
    ddp_index_place(&d->index, d, &end, ddp_sizes_recs(&s));
    ddp_pool_place(&d->writes, d, &end, o->writes_max, sizeof(struct ddp_write),
                   offsetof(struct ddp_write, next));
    ddp_pool_place(&d->waits, d, &end, o->waits_max, sizeof(struct ddp_wait),
                   offsetof(struct ddp_wait, next));
    ddp_pool_place(&d->reads, d, &end, o->reads_max, sizeof(struct ddp_read),
                   offsetof(struct ddp_read, next));
    ddp_pool_place(&d->scopes, d, &end, o->scopes_max, sizeof(struct ddp_scope),
                   offsetof(struct ddp_scope, next));
    d->runs = (uint32_t)snic_min_u64(o->keys_max, SNIC_DDP__RUNS);
    d->run_at = end;
    end += snic_align_up(d->runs * sizeof(struct ddp_run), SNIC_DDP_ALIGN);
    return end > SIZE_MAX ? 0 : (size_t)end;
}

static void ddp_layout_timers(struct snic_ddp *d)
{
    struct ddp_timers *ts = &d->timers;
    ddp_timers_init(ts, d->o.retransmit_ns, d->o.replay_ns);
    ddp_timers_span(ts, &ddp_write_at(d, 0)->timer, sizeof(struct ddp_write), d->writes.max);
    ddp_timers_span(ts, &ddp_scope_at(d, 0)->timer, sizeof(struct ddp_scope), d->scopes.max);
    ddp_timers_span(ts, d->node_timers, sizeof(struct ddp_timer), DDP_T_NODE);
    ddp_timers_span(ts, &ddp_rec_at(d, 0)->timer, sizeof(struct ddp_rec), d->recs.max);
}

uint32_t snic_ddp_records(const struct snic_ddp_opts *opts)
{
    struct snic_ddp_opts o;
    if (ddp_options_wrong(&o, opts) != NULL)
        return 0;
    const struct ddp_sizes s = SNIC_DDP__SIZES(&o);
    return ddp_sizes_recs(&s);
}

size_t snic_ddp_memsize(const struct snic_ddp_opts *opts)
{
    struct snic_ddp_opts o;
    struct snic_ddp d;
    return ddp_options_wrong(&o, opts) != NULL ? 0 : ddp_layout(&o, &d);
}

int snic_ddp_init(struct snic_ddp **out, void *mem, size_t mem_size,
                  const struct snic_ddp_opts *opts)
{
    struct snic_ddp_opts o;
    if (ddp_options_wrong(&o, opts) != NULL || ((uintptr_t)mem & (SNIC_DDP_ALIGN - 1)) != 0)
        return SNIC_EINVAL;
    struct snic_ddp *d = mem;
    size_t size = snic_ddp_memsize(opts);
    if (size == 0 || mem == NULL || mem_size < size)
        return SNIC_ENOSPC;
    memset(d, 0, sizeof(*d)); /* a pool's object is cleared when it is taken */
    (void)ddp_layout(&o, d);
    ddp_index_clear(&d->index);
    ddp_runs_end(d);
    d->o = o;
    ddp_rules_fill(o.flags, d->rules);
    d->reads_durable = (uint32_t)ddp_reads_durable(o.model, SNIC_DDP_DURABILITY_DEFAULT);
    d->dirty = d->ready.first = d->ready.last = SNIC_DDP__NIL;
    d->sweep = d->sweep_scope = SNIC_DDP__NIL;
    d->digest_next = SNIC_DDP__RANGES;
    ddp_layout_timers(d);
    *out = d;
    return 0;
}

/* ---- Work that is left ---- */

/*
 * What follows from a dirty record's state: its writes' next steps, then CAS that lost, which are
 * reads by now, acknowledgements that are due (gv, gd, dts rose), and reads. Takes what fits the
 * ring; the record stays dirty until all is done.
 */
static void ddp_eval(struct snic_ddp *d, struct ddp_rec *r)
{
    for (uint32_t i = r->writes; i != SNIC_DDP__NIL;) {
        struct ddp_write *w = ddp_write_at(d, i);
        if (!ddp_room(d))
            return;
        i = w->next;
        if ((w->flags & DDP_W_ABORTED) == 0 && ddp_write_eval(d, w) != 0 &&
            ddp_cas_settled(d, w) != 0)
            (void)ddp_write_eval(d, w);
        if ((w->flags & DDP_W_FOR_READ) != 0 && r->gd >= w->ts) {
            if (!ddp_read_answer(d, r, w) || !ddp_room(d))
                return;
            w->flags &= ~(uint32_t)DDP_W_FOR_READ;
            (void)ddp_write_eval(d, w);
        }
    }
    for (uint32_t i = r->writes; r->rd == 0 && i != SNIC_DDP__NIL;) {
        struct ddp_write *w = ddp_write_at(d, i);
        if (!ddp_room(d))
            return;
        i = w->next;
        if ((w->flags & DDP_W_ABORTED) != 0)
            ddp_write_eval_aborted(d, w);
    }
    if (ddp_follow_eval(d, r) != 0)
        return;
    if (r->rd == 0 && ddp_rec_awaited(d, r) && ddp_read_eval(d, r))
        return;
    SNIC_ASSERT(d->dirty == ddp_rec_number(d, r));
    d->dirty = r->dirty;
    r->dirty = SNIC_DDP__NIL;
    r->flags &= ~(uint32_t)DDP_R_DIRTY;
    if (r->vts == 0 && r->writes == SNIC_DDP__NIL)
        ddp_remove(d, r); /* I8 */
}

/* Of an object that was in use at some time? Others are not even cleared. */
static int ddp_timer_is(const struct snic_ddp *d, uint32_t number)
{
    uint32_t node = ddp_timer_of_node(d, 0);
    if (number < d->o.writes_max)
        return number < d->writes.high;
    if (number < node)
        return number - d->o.writes_max < d->scopes.high;
    return number < node + DDP_T_NODE + d->recs.high;
}

/* Fire a timer: 0, or SNIC_EINVAL if it is not armed. */
static int ddp_timer_fire(struct snic_ddp *d, uint32_t number)
{
    uint32_t node = ddp_timer_of_node(d, 0);
    if (!ddp_timer_is(d, number) || ddp_timers_at(&d->timers, number)->armed == 0)
        return SNIC_EINVAL;
    ddp_timer_stop(d, number);
    if (number < d->o.writes_max)
        ddp_write_retry(d, ddp_write_at(d, number));
    else if (number < node)
        ddp_scope_retry(d, ddp_scope_at(d, number - d->o.writes_max));
    else if (number == node + DDP_T_PULL)
        ddp_learn_retry(d);
    else if (number == node + DDP_T_RESTART)
        ddp_restart_retry(d);
    else if (number == node + DDP_T_PURGE)
        ddp_purge_fire(d);
    else if (number == node + DDP_T_SWEEP)
        ddp_restart_sweep(d);
    else
        ddp_watch_fire(d, ddp_rec_at(d, number - node - DDP_T_NODE));
    return 0;
}

/* Fire a timer that is due; 0: none. */
static int ddp_timer_due(struct snic_ddp *d)
{
    uint32_t n = ddp_timers_due(&d->timers, d->now_ns);
    if (n == SNIC_DDP__NIL)
        return 0;
    int r = ddp_timer_fire(d, n);
    SNIC_ASSERT(r == 0);
    (void)r;
    return 1;
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
        ddp_read_ready(d);
        return 1;
    }
    if (d->ticking) {
        d->ticking = (uint8_t)ddp_timer_due(d);
        return 1;
    }
    if ((d->suspects.changed | d->silent.changed) != 0) {
        uint16_t late, silent;
        int news = ddp_suspects_report(&d->suspects, &late);
        news |= ddp_suspects_report(&d->silent, &silent);
        if (news) {
            struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_SUSPECT);
            a->to = late;
            a->slow = (uint16_t)(late & ~silent);
        }
        return 1;
    }
    if (d->need_epoch) {
        d->need_epoch = 0;
        (void)ddp_act(d, SNIC_DDP_NEED_EPOCH);
        return 1;
    }
    if (d->learn != DDP_LEARN_NOT)
        return ddp_learn_work(d);
    return d->restart == DDP_RESTART_NOT ? 0 : ddp_restart_work(d);
}

int snic_ddp_poll(struct snic_ddp *d, struct snic_ddp_action *out)
{
    while (d->ring.count == 0) {
        if (ddp_work(d) == 0)
            return 0;
    }
    SNIC_ASSERT(d->ring.count <= SNIC_DDP__RING);
    *out = d->actions[d->ring.first];
    d->ring.first = (d->ring.first + 1) % SNIC_DDP__RING;
    d->ring.count--;
    return 1;
}

/* ---- Events ---- */

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
    case SNIC_DDP_OFFER:
        return ddp_learn_message(d, m);
    case SNIC_DDP_DIGEST:
    case SNIC_DDP_RESTARTED:
        return ddp_restart_message(d, m);
    case SNIC_DDP_PURGE_REQUEST:
    case SNIC_DDP_PURGE_ACK:
    case SNIC_DDP_PURGE:
        return ddp_purge_message(d, m);
    default:
        return SNIC_EPROTO;
    }
}

/* Only a message with a write has rules. */
static int ddp_message_ruled(const struct snic_ddp_msg *m)
{
    uint32_t rule = m->flags >> SNIC_DDP_MSG_RULES;
    if (rule == 0)
        return 1;
    if (m->type == SNIC_DDP_INV || m->type == SNIC_DDP_NACK || m->type == SNIC_DDP_RECORD ||
        m->type == SNIC_DDP_OFFER)
        return rule <= DDP_HERE;
    return 0;
}

/* Rule E, then what every message must be. */
static int ddp_message(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    int r = SNIC_EPROTO;
    if (m == NULL)
        return SNIC_EINVAL;
    if (ddp_msg_foreign(m, d->o.node, d->epoch, d->others, d->incarnation)) {
        d->counters.foreign++;
        return SNIC_ESTALE;
    }
    if (m->src < SNIC_DDP_NODES_MAX && ddp_message_ruled(m) && snic_ddp_ts_epoch(m->ts) <= d->epoch)
        r = ddp_deliver(d, m);
    if (r == 0 && d->restart != DDP_RESTART_NOT)
        ddp_restart_heard(d, ddp_bit(m->src));
    if (r == SNIC_EPROTO)
        d->counters.invalid++;
    return r;
}

static int ddp_flushed(struct snic_ddp *d, uint32_t id)
{
    if (id == SNIC_DDP__ID_URGE)
        return 0;
    if (id != SNIC_DDP__ID_LEARN)
        return ddp_scope_flushed(d, id);
    ddp_learn_flushed(d);
    return 0;
}

static int ddp_times(struct snic_ddp *d, const struct snic_ddp_event *ev)
{
    if ((ev->flags & ~(uint32_t)SNIC_DDP_AGAIN) != 0)
        return SNIC_EINVAL;
    int r = ddp_timers_set(&d->timers, ev->ts, ev->scope, ev->value);
    if (r == 0 && ev->flags != 0)
        ddp_timers_sooner(&d->timers, d->now_ns);
    return r;
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
        return ddp_epoch(d, ev->view, ev->flags);
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
    case SNIC_DDP_TIMES:
        return ddp_times(d, ev);
    case SNIC_DDP_SHED:
        return ddp_learn_shed(d);
    default:
        return SNIC_EINVAL;
    }
}

int snic_ddp_step(struct snic_ddp *d, uint64_t now_ns, const struct snic_ddp_event *ev)
{
    SNIC_ASSERT(now_ns >= d->now_ns);
    SNIC_ASSERT(d->ring.count == 0 && d->dirty == SNIC_DDP__NIL); /* I6 */
    SNIC_ASSERT(d->ready.first == SNIC_DDP__NIL && d->ticking == 0);
    d->now_ns = now_ns;
    d->restart_left = SNIC_DDP__SWEEP;
    int r = ddp_event(d, ev);
    if (r == SNIC_EAGAIN)
        d->counters.no_room++;
    return r;
}

/* ---- Looking ---- */

int snic_ddp_get(const struct snic_ddp *d, uint64_t now_ns, const struct snic_ddp_key *key,
                 struct snic_ddp_entry *out)
{
    const struct ddp_rec *recs = ddp_rec_at(d, 0);
    if (!ddp_lease(d, now_ns))
        return SNIC_ESTALE;
    uint32_t n = ddp_index_find(&d->index, recs, sizeof(*recs), key);
    if (n == SNIC_DDP__NIL)
        return SNIC_ENOENT;
    const struct ddp_rec *r = recs + n;
    if (ddp_is_hint(d, r)) /* I10 */
        return SNIC_ENOENT;
    if (!ddp_rec_readable(r, d->reads_durable != 0))
        return SNIC_EAGAIN;
    if (r->vts == 0 || (r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
        return SNIC_ENOENT;
    out->key = r->key;
    out->ts = r->vts;
    out->value = r->value;
    out->length = r->length;
    out->flags = 0;
    out->number = n;
    return 0;
}

/* A lookup misses the caches twice, at its slot and then at the record: those of all keys overlap.
 */
void snic_ddp_prefetch(const struct snic_ddp *d, const struct snic_ddp_key *keys, uint32_t n)
{
    const struct ddp_slot *slots = ddp_index_slots(&d->index);
    for (uint32_t i = 0; i < n; i++)
        __builtin_prefetch(&slots[ddp_hash(&keys[i]) >> d->index.shift]);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = ddp_index_guess(&d->index, &keys[i]);
        if (at != SNIC_DDP__NIL)
            __builtin_prefetch(ddp_rec_at(d, at));
    }
}

static void ddp_entry(const struct snic_ddp *d, const struct ddp_rec *r, struct snic_ddp_entry *out)
{
    out->number = ddp_rec_number(d, r);
    out->pad = 0;
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
        ddp_entry(d, r, out);
        out->flags |= ddp_is_hint(d, r) ? (uint32_t)SNIC_DDP_HINT : 0;
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
    ddp_entry(d, r, out);
    return 0;
}

int snic_ddp_kept(const struct snic_ddp *d, const struct snic_ddp_key *key,
                  struct snic_ddp_entry *out)
{
    const struct ddp_rec *r = ddp_find_any(d, key);
    if (r == NULL || r->vts == 0 || (d->log_void && ddp_is_hint(d, r)))
        return SNIC_ENOENT;
    ddp_entry(d, r, out);
    if ((r->flags & DDP_R_ABOVE) != 0)
        out->flags |= SNIC_DDP_REPLACES;
    return 0;
}

void snic_ddp_get_stats(const struct snic_ddp *d, struct snic_ddp_stats *out)
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
    out->learning = d->learning;
    out->learning.hints = d->hints;
}
