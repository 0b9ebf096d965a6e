/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * TTLs: a heap of records by the time at which to look at them again, and the deletions.
 *
 * Every node has the expiry time of every value by its own clock, counted from when it stored the
 * value. The node that coordinated the write deletes; the others look again a second later. The
 * lowest FULL node deletes what a coordinator that is not FULL left, and what is still there some
 * seconds after its time: the coordinator may have begun anew, and its time with it. All of this
 * decides only who does the work. The deletion is a compare-and-swap on the timestamp, so it is
 * right at any node whose clock has seen the whole TTL, and at most one is executed.
 *
 * X1  A record is in the heap if it is in the index and its newest value has a TTL.
 * X2  Deletions under way are bounded: by half of the writes that the node takes, so that clients
 *     have the other half, and by less where there was no room for them. While more are due, each
 *     one that is executed permits one more. What is due waits until one has ended.
 */
#include "store_priv.h"

#define SNIC_STORE__LOOK_NS UINT64_C(1000000000) /* until the next look */
#define SNIC_STORE__LATE_NS UINT64_C(5000000000) /* after which the lowest node deletes */
#define SNIC_STORE__DUE 64                       /* records looked at by one call of the timer */
#define SNIC_STORE__EXPIRIES 256u                /* deletions at a time, at most */
#define SNIC_STORE__EXPIRIES_FIRST 32u           /* to begin with */
#define SNIC_STORE__EXPIRIES_LEAST 4u            /* when there was no room */
#define SNIC_STORE__WRITES 256u                  /* default of the replica's writes_max */

static uint64_t expire_due(const struct snic_store *s, uint32_t at)
{
    return s->p.nodes[s->p.heap[at]].due_ns;
}

static void expire_place(struct snic_store *s, uint32_t at, uint32_t n)
{
    s->p.heap[at] = n;
    s->p.nodes[n].heap = at + 1;
}

static void expire_up(struct snic_store *s, uint32_t at, uint32_t n)
{
    while (at > 0 && expire_due(s, (at - 1) / 2) > s->p.nodes[n].due_ns) {
        expire_place(s, at, s->p.heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    expire_place(s, at, n);
}

static void expire_down(struct snic_store *s, uint32_t at, uint32_t n)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= s->heap_count)
            break;
        if (child + 1 < s->heap_count && expire_due(s, child + 1) < expire_due(s, child))
            child++;
        if (expire_due(s, child) >= s->p.nodes[n].due_ns)
            break;
        expire_place(s, at, s->p.heap[child]);
        at = child;
    }
    expire_place(s, at, n);
}

static void expire_arm(struct snic_store *s)
{
    if (s->heap_count == 0 || s->expiries_full) {
        snic_loop_cancel(s->loop, &s->expiry);
        return;
    }
    uint64_t now = store_now(s);
    uint64_t due = snic_max_u64(expire_due(s, 0), s->expire_from);
    uint64_t at = snic_loop_clock(s->loop) + (due > now ? due - now : 0);
    if (!s->expiry.armed || s->expiry.deadline_ns != at)
        snic_loop_arm(s->loop, &s->expiry, at);
}

/* Out of the heap, if it is there. */
void store_expire_clear(struct snic_store *s, uint32_t n)
{
    struct store_node *k = &s->p.nodes[n];
    uint32_t at = k->heap;
    if (at == 0)
        return;
    k->heap = 0;
    s->heap_count--;
    if (--at == s->heap_count)
        return;
    uint32_t last = s->p.heap[s->heap_count];
    if (at > 0 && expire_due(s, (at - 1) / 2) > s->p.nodes[last].due_ns)
        expire_up(s, at, last);
    else
        expire_down(s, at, last);
}

static void expire_set(struct snic_store *s, uint32_t n, uint64_t due_ns)
{
    store_expire_clear(s, n);
    s->p.nodes[n].due_ns = due_ns;
    expire_up(s, s->heap_count++, n);
}

/* The record has the value @p e, stored now: X1. */
void store_expire_value(struct snic_store *s, uint32_t n, uint64_t ts,
                        const struct store_envelope *e)
{
    struct store_node *k = &s->p.nodes[n];
    uint64_t origin = e->origin != 0 ? e->origin : ts;
    if (e->ttl_ns == 0) {
        k->origin = 0;
        store_expire_clear(s, n);
        return;
    }
    if (k->origin != origin) {
        uint64_t now = store_now(s);
        k->origin = origin;
        k->expires_ns = e->ttl_ns < SNIC_NEVER - now ? now + e->ttl_ns : SNIC_NEVER - 1;
    }
    expire_set(s, n, k->expires_ns);
    expire_arm(s);
}

/* ---- Deletions ---- */

/* How many slots: of half of the writes and of half of the changes. */
uint32_t store_expiries(const struct snic_store_opts *o, const struct snic_replica_opts *r)
{
    uint32_t writes = r->writes_max != 0 ? r->writes_max : SNIC_STORE__WRITES;
    uint64_t most = snic_min_u64(snic_min_u64(writes, o->ops_max) / 2, SNIC_STORE__EXPIRIES);
    return (uint32_t)snic_max_u64(most, 1);
}

void store_expire_init(struct snic_store *s)
{
    for (uint32_t i = 0; i < s->p.expiries_max; i++) {
        s->p.expiries[i].next = s->expiry_free;
        s->expiry_free = &s->p.expiries[i];
    }
    s->expiries_now = (uint32_t)snic_min_u64(SNIC_STORE__EXPIRIES_FIRST, s->p.expiries_max);
}

static void expire_free(struct store_expiry *x, struct snic_store *s)
{
    x->next = s->expiry_free;
    s->expiry_free = x;
    s->expiries--;
}

/* X2 */
static void expire_adapt(struct snic_store *s, int result)
{
    uint32_t now = s->expiries_now;
    if (result == SNIC_EAGAIN)
        now = (uint32_t)snic_max_u64(now / 2, SNIC_STORE__EXPIRIES_LEAST);
    else if (result == 0 && s->heap_count > 0 && expire_due(s, 0) <= store_now(s))
        now++;
    s->expiries_now = (uint32_t)snic_min_u64(now, s->p.expiries_max);
}

static void expire_done(struct snic_store_op *op)
{
    struct store_expiry *x = SNIC_CONTAINER(op, struct store_expiry, op);
    struct snic_store *s = op->store;
    expire_free(x, s);
    s->stats.expired += op->result == 0;
    expire_adapt(s, op->result);
    if (op->result != 0 && op->result != SNIC_ECANCELED && op->result != SNIC_EAGAIN)
        s->expire_from = store_now(s) + SNIC_STORE__LOOK_NS; /* refused: so would the others be */
    s->expiries_full = 0;
    if (!s->stopped)
        expire_arm(s);
}

static int expire_mine(const struct snic_store *s, const struct store_node *k, uint64_t now)
{
    uint16_t full = snic_replica_full(s->replica);
    uint16_t me = (uint16_t)(1u << s->node);
    uint16_t by = (uint16_t)(1u << snic_ddp_ts_node(k->ts));
    if (!snic_replica_serves(s->replica))
        return 0;
    if (by == me)
        return 1;
    int lowest = (full & me) != 0 && (full & (me - 1)) == 0;
    return lowest && ((full & by) == 0 || now - k->expires_ns >= SNIC_STORE__LATE_NS);
}

/* Delete the record if it is still what it is now: 0, or SNIC_EAGAIN. */
static int expire_begin(struct snic_store *s, uint32_t n)
{
    struct store_expiry *x = s->expiry_free;
    uint32_t size;
    s->expiry_free = x->next;
    s->expiries++;
    const unsigned char *key = store_node_key(s, n, &size);
    memset(&x->op, 0, sizeof(x->op));
    if (size != 0)
        memcpy(x->key, key, size);
    x->op.done = expire_done;
    x->op.kind = SNIC_STORE_DELETE;
    x->op.key = x->key;
    x->op.key_size = size;
    x->op.condition = SNIC_STORE_IF_VERSION;
    x->op.version = s->p.nodes[n].ts;
    x->op.expiry = 1;
    if (s->model == SNIC_DDP_SCOPE)
        x->op.durability = SNIC_DDP_DURABILITY_MEMORY; /* of no scope */
    x->op.store = s;
    x->op.begun_ns = store_now(s);
    store_name(s, x->key, size, &x->op.hash);
    if (store_change_begin(&x->op) == 0)
        return 0;
    expire_free(x, s);
    return SNIC_EAGAIN;
}

/* What is due, as much as one call does. The later it is already, the longer until the next look.
 */
static void expire_some(struct snic_store *s, uint64_t now)
{
    for (uint32_t i = 0; i < SNIC_STORE__DUE && s->heap_count > 0 && expire_due(s, 0) <= now; i++) {
        uint32_t n = s->p.heap[0];
        const struct store_node *k = &s->p.nodes[n];
        uint64_t look = snic_max_u64(SNIC_STORE__LOOK_NS, (now - k->expires_ns) / 4);
        int mine = expire_mine(s, k, now);
        s->expiries_full = mine && s->expiries >= s->expiries_now;
        if (s->expiries_full)
            return;
        if (mine && expire_begin(s, n) != 0) {
            s->expire_from = now + SNIC_STORE__LOOK_NS / 100;
            return;
        }
        if (k->heap != 0)
            expire_set(s, n, now + look);
    }
}

void store_expire_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_store *s = SNIC_CONTAINER(t, struct snic_store, expiry);
    uint64_t now = store_now(s);
    (void)now_ns;
    if (s->stopped)
        return;
    if (s->expire_from <= now)
        expire_some(s, now);
    expire_arm(s);
}

/* The heap's order, and that it has what X1 wants. */
int store_expire_check(const struct snic_store *s)
{
    uint32_t placed = 0;
    for (uint32_t n = 0; n < s->p.records; n++)
        placed += store_node_in(s, n) && s->p.nodes[n].heap != 0;
    if (placed != s->heap_count)
        return SNIC_ECORRUPT;
    for (uint32_t at = 0; at < s->heap_count; at++) {
        uint32_t n = s->p.heap[at];
        if (s->p.nodes[n].heap != at + 1 || !store_node_in(s, n))
            return SNIC_ECORRUPT;
        if (at > 0 && expire_due(s, (at - 1) / 2) > expire_due(s, at))
            return SNIC_ECORRUPT;
    }
    return 0;
}
