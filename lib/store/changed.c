/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the replica reports of its records (CHANGED): the index, the TTLs and the ring of changes
 * follow it, within the step, so they are never behind the table.
 *
 * C1  A key leaves the index when its deletion is readable, not when it is stored: until then a
 *     reader may still find the key, and a scan has to.
 * C2  What changes while the node serves no reads (it begins, or was left out and returns) is in no
 *     ring: when it is readable, the incarnation of all positions ends. A scan that a watch
 *     continues from then has the rest.
 */
#include "store_priv.h"

static void changed_hold(struct snic_store *s, uint32_t n, uint64_t value)
{
    struct store_node *k = &s->p.nodes[n];
    if ((k->flags & STORE_N_HELD) != 0)
        return;
    snic_replica_hold(s->replica, value); /* I3 */
    k->flags |= STORE_N_HELD;
    k->held_prev = SNIC_STORE__NIL;
    k->held_next = s->held;
    if (s->held != SNIC_STORE__NIL)
        s->p.nodes[s->held].held_prev = n;
    s->held = n;
}

static void changed_drop(struct snic_store *s, uint32_t n)
{
    struct store_node *k = &s->p.nodes[n];
    if ((k->flags & STORE_N_HELD) == 0)
        return;
    k->flags &= ~(uint32_t)STORE_N_HELD;
    if (k->held_next != SNIC_STORE__NIL)
        s->p.nodes[k->held_next].held_prev = k->held_prev;
    if (k->held_prev != SNIC_STORE__NIL)
        s->p.nodes[k->held_prev].held_next = k->held_next;
    else
        s->held = k->held_next;
    snic_replica_drop(s->replica, k->value);
}

/* Out of everything. */
static void changed_leave(struct snic_store *s, uint32_t n)
{
    if (!store_node_in(s, n))
        return;
    store_expire_clear(s, n);
    store_index_remove(s, n);
    changed_drop(s, n);
    s->p.nodes[n].flags = 0;
    s->p.nodes[n].origin = 0;
}

/* The node of this generation (I4). */
static struct store_node *changed_node(struct snic_store *s, uint32_t n)
{
    struct store_node *k = &s->p.nodes[n];
    if (k->generation != s->generation) {
        memset(k, 0, sizeof(*k));
        k->generation = s->generation;
    }
    return k;
}

/* A deletion by the table: stored, or readable. */
static void changed_deleted(struct snic_store *s, const struct snic_replica_change *c)
{
    struct store_node *k = changed_node(s, c->record);
    int ended = k->origin != 0 && k->expires_ns <= store_now(s) + SNIC_STORE__ENDED_NS;
    if (!store_node_in(s, c->record))
        return;
    if ((c->flags & SNIC_DDP_MSG_LOCKED) != 0) {
        changed_hold(s, c->record, k->value); /* C1 */
        k->flags |= STORE_N_LOCKED;
        k->flags &= ~(uint32_t)STORE_N_SWAPPED;
        k->flags |= (c->flags & SNIC_DDP_MSG_CAS) != 0 ? (uint32_t)STORE_N_SWAPPED : 0;
        k->ts = c->ts;
        store_expire_clear(s, c->record);
        return;
    }
    int expired = (k->flags & STORE_N_SWAPPED) != 0 && ended;
    if ((k->flags & STORE_N_LIVE) != 0 && (c->flags & SNIC_DDP_IDLE) == 0)
        store_watch_push(s, expired ? SNIC_STORE_EVENT_EXPIRE : SNIC_STORE_EVENT_DELETE, c->ts,
                         k->value);
    changed_leave(s, c->record);
}

/* A readable value. */
static void changed_readable(struct snic_store *s, const struct snic_replica_change *c,
                             const struct store_envelope *e)
{
    struct store_node *k = &s->p.nodes[c->record];
    int live = (e->flags & SNIC_STORE__DELETED) == 0;
    int was = (k->flags & STORE_N_LIVE) != 0;
    uint32_t kind = live                                    ? SNIC_STORE_EVENT_PUT
                    : (e->flags & SNIC_STORE__EXPIRED) != 0 ? SNIC_STORE_EVENT_EXPIRE
                                                            : SNIC_STORE_EVENT_DELETE;
    k->flags &= ~(uint32_t)(STORE_N_LIVE | STORE_N_LOCKED);
    k->flags |= live ? (uint32_t)STORE_N_LIVE : 0;
    if ((live || was) && (c->flags & SNIC_DDP_IDLE) == 0)
        store_watch_push(s, kind, c->ts, c->value);
}

/*
 * A value that is new here takes the place of what the node has. SNIC_ECORRUPT: its key is not the
 * one that the record is named by.
 */
static int changed_value(struct snic_store *s, const struct snic_replica_change *c,
                         const struct store_envelope *e)
{
    uint32_t n = c->record;
    struct store_node *k = &s->p.nodes[n];
    struct snic_ddp_key name;
    if (store_node_in(s, n)) {
        uint32_t size;
        const unsigned char *key = store_node_key(s, n, &size);
        if (store_key_compare(key, size, e->key, e->key_size) != 0)
            changed_leave(s, n); /* another key of the same hash */
    }
    if (!store_node_in(s, n)) {
        store_name(s, e->key, e->key_size, &name);
        if (name.w[0] != c->key.w[0] || name.w[1] != c->key.w[1])
            return SNIC_ECORRUPT; /* it may be another record's: a key is in the index once */
    }
    changed_drop(s, n);
    k->value = c->value;
    k->ts = c->ts;
    if (!store_node_in(s, n))
        store_index_add(s, n);
    k->flags &= ~(uint32_t)STORE_N_SWAPPED;
    store_expire_value(s, n, c->ts, e);
    return 0;
}

static void changed_reset(struct snic_store *s)
{
    while (s->held != SNIC_STORE__NIL)
        changed_drop(s, s->held);
    s->root = SNIC_STORE__NIL;
    s->heap_count = 0;
    s->stats.keys = 0;
    s->generation++; /* I4 */
    store_watch_reset(s);
}

void store_changed(void *ctx, const struct snic_replica_change *c)
{
    struct snic_store *s = ctx;
    struct store_envelope e;
    if ((c->flags & SNIC_REPLICA_CHANGE_RESET) != 0) {
        changed_reset(s);
        return;
    }
    if ((c->flags & SNIC_REPLICA_CHANGE_READABLE) != 0) {
        store_watch_reset(s); /* C2 */
        return;
    }
    if ((c->flags & SNIC_DDP_MSG_TOMBSTONE) != 0) {
        changed_deleted(s, c);
        return;
    }
    struct store_node *k = changed_node(s, c->record);
    int result = store_envelope_get(c->data, c->size, &e);
    if (result == 0 && (!store_node_in(s, c->record) || k->ts != c->ts))
        result = changed_value(s, c, &e);
    if (result != 0) {
        s->stats.corrupt++;
        changed_leave(s, c->record);
        return;
    }
    if ((c->flags & SNIC_DDP_MSG_LOCKED) != 0)
        k->flags |= STORE_N_LOCKED;
    else
        changed_readable(s, c, &e);
}
