/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The two engines and the events between them.
 *
 *   membership  VIEW      EPOCH to the data path; a node that was left out, or comes with a new
 *                         incarnation, begins with a new engine
 *               LEASE     LEASE
 *               STORE     the log's meta slot, then STORED
 *               CONFIRMED reads that waited for it
 *   data path   SUSPECT   REPORT SLOW and SILENT: the same masks, again when a view has made them
 *                         forgotten
 *               CAUGHT_UP REPORT, and NEED_EPOCH
 *               APPEND, FLUSH, FORGET   the log
 *
 * A node that becomes FULL without having been a learner does so in a restart, whatever `restart`
 * is in the first view that it sees: it may have missed the view that began the restart, and there
 * is no other way.
 */
#include "replica_priv.h"

#define REPLICA_GIVES 32 /* records that give way at once to those that wait for a full log */

/* The engines' time. It does not go back, whatever the clock does. */
uint64_t replica_clock(const struct snic_replica *r)
{
    uint64_t now = r->o.clock != NULL ? r->o.clock(r->o.ctx) : snic_loop_clock(r->o.loop);
    return snic_max_u64(r->now_ns, now);
}

static uint64_t replica_now(struct snic_replica *r)
{
    r->now_ns = replica_clock(r);
    return r->now_ns;
}

/*
 * When the loop has to look, by its own time. Of another clock's pace it knows nothing: it looks
 * when as much has passed as is left, and again if that was too early.
 */
static uint64_t replica_wake_ns(const struct snic_replica *r, uint64_t at)
{
    if (r->o.clock == NULL || at == SNIC_NEVER)
        return at;
    uint64_t now = replica_clock(r);
    return snic_loop_clock(r->o.loop) + (at > now ? at - now : 0);
}

/* Is there a value? Of an event before the engine took it, of an action before it is carried out.
 */
static uint64_t replica_trace_value(const struct snic_replica_trace *t)
{
    const struct snic_ddp_event *ev = t->event;
    const struct snic_ddp_action *a = t->action;
    if (ev != NULL && ev->type == SNIC_DDP_MESSAGE)
        return replica_carries(ev->msg) ? ev->msg->value : 0;
    if (ev != NULL)
        return ev->type == SNIC_DDP_TIMES ? 0 : ev->value;
    if (a != NULL && a->type == SNIC_DDP_SEND)
        return replica_carries(&a->msg) ? a->msg.value : 0;
    if (a != NULL && (a->type == SNIC_DDP_APPEND || a->type == SNIC_DDP_DONE) &&
        (a->flags & SNIC_DDP_MSG_TOMBSTONE) == 0 && a->msg.ts != 0)
        return a->msg.value;
    return 0;
}

static void replica_trace(struct snic_replica *r, struct snic_replica_trace *t)
{
    if (r->o.trace == NULL)
        return;
    uint64_t value = replica_trace_value(t);
    t->data = value != 0 ? replica_value_at(&r->values, value, &t->size) : NULL;
    r->o.trace(r->o.ctx, t);
}

/* ---- The data path ---- */

static void replica_changed(struct snic_replica *r, const struct snic_ddp_action *a)
{
    struct snic_replica_change c = {.key = a->msg.key, .ts = a->msg.ts, .record = a->id};
    c.flags = a->flags;
    if ((a->flags & SNIC_DDP_MSG_TOMBSTONE) == 0) {
        c.value = a->msg.value;
        c.data = replica_value_at(&r->values, c.value, &c.size);
    }
    r->o.changed(r->o.changed_ctx, &c);
}

static void replica_act(struct snic_replica *r, const struct snic_ddp_action *a)
{
    switch (a->type) {
    case SNIC_DDP_SEND:
        replica_link_ddp(r, a->to, &a->msg);
        break;
    case SNIC_DDP_APPEND:
        replica_log_append(r, a);
        break;
    case SNIC_DDP_FLUSH:
        replica_log_flush(r, a->id);
        break;
    case SNIC_DDP_DONE:
        replica_client_done(r, a);
        break;
    case SNIC_DDP_RELEASE:
        replica_value_release(&r->values, a->msg.value);
        break;
    case SNIC_DDP_CAUGHT_UP:
        r->due.caught_up = 1;
        break;
    case SNIC_DDP_NEED_EPOCH:
        r->due.need_epoch = 1;
        break;
    case SNIC_DDP_SUSPECT:
        r->due.slow_mask = a->to;
        r->due.slow_logs = a->slow;
        r->due.slow = r->due.silent = 1;
        break;
    case SNIC_DDP_FORGET:
        replica_log_forget(r, a);
        break;
    case SNIC_DDP_READY:
        r->restarts = 0;
        break;
    default:
        SNIC_ASSERT(a->type == SNIC_DDP_CHANGED);
        replica_changed(r, a);
        break;
    }
}

/* The engine's own word, SNIC_ESTALE when the node has stopped. */
int replica_step_ddp(struct snic_replica *r, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    struct snic_replica_trace t = {.kind = SNIC_REPLICA_TRACE_EVENT, .event = ev};
    if (r->state == SNIC_REPLICA_STOPPED) /* N6 */
        return SNIC_ESTALE;
    SNIC_ASSERT((r->depth & 1) == 0); /* N1 */
    r->depth |= 1;
    r->events++;
    t.now_ns = replica_now(r);
    int result = snic_ddp_step(r->ddp, t.now_ns, ev);
    t.result = result;
    replica_trace(r, &t);
    t.kind = SNIC_REPLICA_TRACE_ACTION;
    t.result = 0;
    t.event = NULL;
    t.action = &a;
    while (snic_ddp_poll(r->ddp, &a) != 0) {
        replica_trace(r, &t);
        replica_act(r, &a);
    }
    r->depth &= ~1u;
    return result;
}

/* A new engine, with nothing in it. */
void replica_forget_all(struct snic_replica *r)
{
    replica_values_reclaim(&r->values); /* N2 */
    int result = snic_ddp_init(&r->ddp, r->ddp_mem, r->ddp_size, &r->ddp_opts);
    SNIC_ASSERT(result == 0);
    (void)result;
    r->due.slow_mask = r->due.slow_logs = 0;
    r->pace.due = r->pace.retransmit_ns != 0;
    r->restarts = 0;
    r->engine++; /* N3 */
    if (r->o.changed != NULL) {
        struct snic_replica_change c = {.flags = SNIC_REPLICA_CHANGE_RESET};
        r->o.changed(r->o.changed_ctx, &c);
    }
}

/*
 * The engine begins anew as a learner, after it has answered what it had begun. What it holds is
 * what it compares with its donor.
 */
static void replica_engine_return(struct snic_replica *r)
{
    struct replica_entry e;
    if (r->part != SNIC_DDP_FENCED) {
        uint16_t me = (uint16_t)(1u << r->o.node);
        struct snic_ddp_view v = r->view;
        struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &v};
        v.full &= (uint16_t)~me;
        v.learners &= (uint16_t)~me;
        v.incarnation[r->o.node] = r->part_incarnation;
        if (replica_step_ddp(r, &ev) != 0)
            replica_fail(r, SNIC_EPROTO);
    }
    /* Reports that it will not get (N3); the FLUSH that it begins with is behind these. */
    for (uint32_t at = 0; replica_log_taken(r, &at, &e);) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_APPENDED, .key = e.key, .ts = e.ts};
        (void)replica_step_ddp(r, &ev);
    }
    r->due.slow_mask = 0;
    r->restarts = 0;
    r->engine++; /* N3 */
    r->part = SNIC_DDP_FENCED;
    r->spent = 0;
}

/*
 * There is no room for what comes in: of a learner something else may go, if the log has room to
 * note that. 1: it did.
 */
int replica_shed(struct snic_replica *r)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_SHED};
    return r->part == SNIC_DDP_LEARNER && replica_log_room(r, REPLICA_ROOM_TOMBSTONE) == 0 &&
           replica_step_ddp(r, &ev) == 0;
}

/*
 * A learner's log is full, and records that were taken in wait for it. While its donor restarts
 * nothing may come in any more that finds no room: of what waits here the others ask again without
 * the value, and the donor answers no PULL and no client before all that it replays is in all logs.
 * So something else goes here, too, and more when that is durable and did not suffice. 1: it did.
 */
static int replica_gives_way(struct snic_replica *r)
{
    if (r->part != SNIC_DDP_LEARNER || !replica_log_stuck(&r->log))
        return 0;
    if (replica_log_yield(r))
        return 1;
    uint32_t tail = r->log.tail;
    for (uint32_t i = 0; i < REPLICA_GIVES && replica_shed(r); i++)
        ;
    return r->log.tail != tail;
}

/* Memory for a value that comes in, a learner's own unconfirmed ones giving way; 0: none. */
uint64_t replica_value_take(struct snic_replica *r, uint32_t size)
{
    uint64_t value = replica_value_new(&r->values, size);
    for (uint32_t i = 0; value == 0 && i < 16 && replica_shed(r); i++)
        value = replica_value_new(&r->values, size);
    return value;
}

/* The addresses of a view; of other nodes those of the options stay. */
void replica_addrs(struct snic_replica *r, const struct snic_member_view *v)
{
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        struct snic_net_addr a;
        if (n != r->o.node && (v->configured >> n & 1) != 0 && replica_get_addr(v->addr[n], &a))
            replica_link_know(r, v->configured, n, &a);
    }
}

static void replica_view(struct snic_replica *r, const struct snic_member_action *a)
{
    const struct snic_member_view *v = &a->view;
    uint32_t inc = v->incarnation[r->o.node];
    int same = r->part != SNIC_DDP_FENCED && r->part_incarnation == inc;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &r->view};
    struct snic_member_status st;
    snic_member_get_status(r->member, &st);
    r->floor = (uint16_t)st.min_full;
    r->view.epoch = v->epoch;
    r->view.full = v->full;
    r->view.learners = v->learners;
    r->view.donor = v->donor;
    r->view.restart = v->restart;
    memcpy(r->view.incarnation, v->incarnation, sizeof(r->view.incarnation));
    r->due.slow = r->due.silent = r->due.slow_mask != 0;
    replica_addrs(r, v);
    replica_link_epoch(r);
    if (a->role != SNIC_MEMBER_ROLE_FULL)
        replica_client_unconfirmed(r);
    if (a->role == SNIC_MEMBER_ROLE_FENCED) {
        if (r->part == SNIC_DDP_FENCED)
            return;
        r->part = SNIC_DDP_FENCED;
        r->spent = 1;
    } else if (a->role == SNIC_MEMBER_ROLE_LEARNER) {
        if (!same) {
            replica_engine_return(r);
            if (r->log.gaps || r->log.too_much) {
                replica_log_retire(r); /* N4 */
                ev.flags = SNIC_DDP_RETIRED;
            }
            r->due.log = r->log_good == 0;
            r->log_good = 1;
        }
        r->part = SNIC_DDP_LEARNER;
    } else {
        if (!same && (r->spent || r->part != SNIC_DDP_FENCED)) {
            replica_fail(r, SNIC_EPROTO); /* FULL out of nothing (member.h, P3) */
            return;
        }
        if (!same && r->log.too_much) { /* all that others have not would be lost */
            replica_fail(r, SNIC_ENOSPC);
            return;
        }
        if (!same)
            r->view.restart = r->restarts = 1;
        r->part = SNIC_DDP_FULL;
    }
    r->part_incarnation = inc;
    replica_log_accept(r); /* others have the records, or an operator decided (A8) */
    int result = replica_step_ddp(r, &ev);
    if (result != 0)
        replica_fail(r, result);
}

/* ---- The membership ---- */

/* A majority has confirmed this node's membership by that request: reads that waited for it. */
static void replica_confirmed(struct snic_replica *r, uint64_t id)
{
    struct snic_link *l = r->confirms.next;
    while (l != &r->confirms) {
        struct snic_replica_op *op = SNIC_CONTAINER(l, struct snic_replica_op, link);
        struct snic_ddp_event ev = {.type = SNIC_DDP_READ, .key = op->key};
        l = l->next;
        if (op->ts >= id)
            continue;
        snic_link_remove(&op->link);
        snic_link_append(&r->flight, &op->link);
        ev.durability = op->durability;
        ev.token = (uint64_t)(uintptr_t)op;
        int result = replica_step_ddp(r, &ev);
        if (result != 0)
            replica_op_finish(r, op, result);
    }
}

static void replica_act_member(struct snic_replica *r, const struct snic_member_action *a)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_LEASE, .ts = a->until_ns};
    switch (a->type) {
    case SNIC_MEMBER_LEASE:
        r->lease_ns = a->until_ns;
        (void)replica_step_ddp(r, &ev);
        break;
    case SNIC_MEMBER_STORE:
        replica_log_store(r, a->id, &a->record);
        break;
    case SNIC_MEMBER_VIEW:
        replica_view(r, a);
        break;
    case SNIC_MEMBER_CONFIRMED:
        replica_confirmed(r, a->id);
        break;
    default:
        replica_link_member(r, a->to, &a->msg);
        break;
    }
}

int replica_step_member(struct snic_replica *r, const struct snic_member_event *ev)
{
    struct snic_member_action a;
    struct snic_replica_trace t = {.kind = SNIC_REPLICA_TRACE_MEMBER, .member = &a};
    if (r->state != SNIC_REPLICA_RUNNING)
        return SNIC_ESTALE;
    SNIC_ASSERT(r->depth == 0); /* N1 */
    r->depth |= 2;
    r->events++;
    t.now_ns = replica_now(r);
    int result = snic_member_step(r->member, t.now_ns, ev);
    while (snic_member_poll(r->member, &a) != 0) {
        replica_trace(r, &t);
        replica_act_member(r, &a);
    }
    r->depth &= ~2u;
    return result;
}

/* Pass one pending report of the data path to the membership (N1); 0: none is left. */
static int replica_report(struct snic_replica *r)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_REPORT, .epoch = r->view.epoch};
    if (r->pace.due) {
        struct snic_ddp_event times = {.type = SNIC_DDP_TIMES, .ts = r->pace.retransmit_ns};
        times.scope = r->pace.replay_ns;
        times.value = r->pace.log_ns;
        times.flags = r->pace.due >= 2 ? (uint32_t)SNIC_DDP_AGAIN : 0;
        r->pace.due = 0;
        (void)replica_step_ddp(r, &times);
        return 1;
    }
    if (r->due.slow) {
        r->due.slow = 0;
        ev.kind = SNIC_MEMBER_SLOW;
        ev.mask = r->due.slow_logs;
    } else if (r->due.silent) {
        r->due.silent = 0;
        ev.kind = SNIC_MEMBER_SILENT;
        ev.mask = (uint16_t)(r->due.slow_mask & ~r->due.slow_logs);
    } else if (r->due.caught_up) {
        r->due.caught_up = 0;
        ev.kind = SNIC_MEMBER_CAUGHT_UP;
    } else if (r->due.need_epoch) {
        r->due.need_epoch = 0;
        ev.kind = SNIC_MEMBER_NEED_EPOCH;
    } else if (r->due.log) {
        r->due.log = 0;
        ev.kind = SNIC_MEMBER_LOG;
        ev.flags = SNIC_MEMBER_LOG_GOOD;
    } else {
        return 0;
    }
    (void)replica_step_member(r, &ev);
    return 1;
}

/* ---- Around ---- */

static void replica_look(struct snic_replica *r)
{
    struct snic_ddp_stats info = {.serves = 0};
    if (r->state == SNIC_REPLICA_RUNNING)
        snic_ddp_get_stats(r->ddp, &info);
    uint32_t readable = info.serves != 0;
    uint32_t serves = readable && r->lease_ns > r->now_ns;
    if (readable && !r->readable && r->o.changed != NULL) {
        struct snic_replica_change c = {.flags = SNIC_REPLICA_CHANGE_READABLE};
        r->o.changed(r->o.changed_ctx, &c);
    }
    r->readable = readable;
    r->notify |= serves != r->serves;
    r->serves = serves;
}

/* Report one durable entry to the engine that appended it (N3). 0: there is none. */
static int replica_pump(struct snic_replica *r)
{
    struct replica_entry e;
    if (!replica_log_next(r, &e))
        return 0;
    struct snic_ddp_event ev = {.type = SNIC_DDP_APPENDED, .key = e.key, .ts = e.ts, .id = e.id};
    if (e.kind == REPLICA_E_RETIRE || e.kind == REPLICA_E_DROP || e.engine != r->engine)
        return 1;
    if (e.kind == REPLICA_E_FLUSH)
        ev.type = SNIC_DDP_FLUSHED;
    if (replica_step_ddp(r, &ev) != 0)
        replica_fail(r, SNIC_EPROTO);
    return 1;
}

void snic_replica_stop(struct snic_replica *r)
{
    SNIC_ASSERT(r->depth == 0);
    if (r->state == SNIC_REPLICA_STOPPED)
        return;
    r->state = SNIC_REPLICA_STOPPED;
    r->notify = 1;
    r->lease_ns = 0;
    snic_loop_cancel(r->o.loop, &r->timer);
    replica_link_stop(r);
    replica_client_end(r);
    replica_log_stop(r);
    replica_deliver(r);
}

/* What is left to do when something has happened: every way in ends here. */
void replica_settle(struct snic_replica *r)
{
    while (r->state == SNIC_REPLICA_RUNNING && r->failure == 0 &&
           (replica_pump(r) || replica_report(r) || replica_gives_way(r)))
        ;
    if (r->state == SNIC_REPLICA_RUNNING && r->failure == 0) {
        uint64_t at =
            snic_min_u64(snic_ddp_deadline_ns(r->ddp), snic_member_deadline_ns(r->member));
        at = replica_wake_ns(r, at);
        if (r->blocked != 0 && !r->retrying)
            replica_link_wake(r, snic_loop_clock(r->o.loop));
        replica_link_flush(r);
        if (!r->timer.armed || r->timer.deadline_ns != at)
            snic_loop_arm(r->o.loop, &r->timer, at);
    } else if (r->failure != 0) {
        snic_replica_stop(r);
    }
    replica_look(r);
    replica_deliver(r);
}

void replica_timer_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_replica *r = SNIC_CONTAINER(t, struct snic_replica, timer);
    struct snic_ddp_event tick = {.type = SNIC_DDP_TICK};
    struct snic_member_event mtick = {.type = SNIC_MEMBER_REPORT, .kind = SNIC_MEMBER_FLUSH};
    (void)now_ns;
    if (r->state != SNIC_REPLICA_RUNNING)
        return;
    uint64_t now = replica_now(r);
    if (snic_member_deadline_ns(r->member) <= now) {
        mtick.ns = replica_log_running(r); /* its heartbeats carry it */
        (void)replica_step_member(r, &mtick);
    }
    if (snic_ddp_deadline_ns(r->ddp) <= now)
        (void)replica_step_ddp(r, &tick);
    replica_settle(r);
}

/* The log was read; ran: it shows that this node ran before. */
void replica_boot(struct snic_replica *r, const struct snic_member_record *record, int good,
                  int ran)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_BOOT, .record = record};
    r->state = SNIC_REPLICA_RUNNING;
    r->notify = 1;
    r->log_good = (uint32_t)good;
    ev.incarnation = r->o.incarnation;
    ev.flags = good ? (uint32_t)SNIC_MEMBER_LOG_GOOD : 0;
    if ((r->o.flags & SNIC_REPLICA_FOUND) != 0) {
        ev.flags |= ran ? 0 : (uint32_t)SNIC_MEMBER_FIRST;
        r->found_ignored = (uint32_t)ran;
    }
    if (record != NULL)
        replica_addrs(r, &record->decided);
    int result = replica_step_member(r, &ev);
    if (result ==
        SNIC_ECORRUPT) { /* of a format that is right, but no node of this cluster wrote it */
        ev.record = NULL;
        result = replica_step_member(r, &ev);
    }
    if (result != 0)
        replica_fail(r, result);
}

#undef REPLICA_GIVES
