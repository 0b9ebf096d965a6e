/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Operations of the embedder, and looking without one.
 */
#include "replica_priv.h"

#define CLIENT_FETCH 256 /* bytes of a value; the processor sees where the rest is */

/* A CAS without a value deletes. */
static int replica_op_deletes(const struct snic_replica_op *op)
{
    return op->data == NULL && op->front == NULL;
}

static enum replica_room replica_op_room(const struct snic_replica_op *op)
{
    int puts =
        op->kind == SNIC_REPLICA_PUT || (op->kind == SNIC_REPLICA_CAS && !replica_op_deletes(op));
    return puts ? REPLICA_ROOM_PUT : REPLICA_ROOM_TOMBSTONE;
}

/* The operation's value, copied. */
static int replica_op_value(struct snic_replica *r, const struct snic_replica_op *op,
                            struct snic_ddp_event *ev)
{
    uint64_t size = (uint64_t)op->front_size + op->size;
    uint32_t n;
    if ((op->data == NULL && op->size != 0) || (op->front == NULL && op->front_size != 0))
        return SNIC_EINVAL;
    if (size > r->o.value_max)
        return SNIC_EMSGSIZE;
    ev->value = replica_value_new(&r->values, (uint32_t)size);
    if (ev->value == 0)
        return SNIC_EAGAIN;
    unsigned char *p = replica_value_at(&r->values, ev->value, &n);
    if (op->front_size != 0)
        memcpy(p, op->front, op->front_size);
    if (op->size != 0)
        memcpy(p + op->front_size, op->data, op->size);
    ev->length = (uint32_t)size;
    replica_value_give(&r->values, ev->value);
    return 0;
}

static int replica_op_event(struct snic_replica *r, const struct snic_replica_op *op,
                            struct snic_ddp_event *ev)
{
    int reads = op->kind == SNIC_REPLICA_GET;
    memset(ev, 0, sizeof(*ev));
    if ((op->flags & ~(reads ? (uint32_t)SNIC_REPLICA_OP_CONFIRM : 0)) != 0)
        return SNIC_EINVAL;
    ev->key = op->key;
    ev->scope = op->scope;
    ev->durability = op->durability;
    if (!reads)
        ev->copies_min = op->copies_min != 0 ? op->copies_min : r->floor;
    ev->token = (uint64_t)(uintptr_t)op;
    switch (op->kind) {
    case SNIC_REPLICA_GET:
        ev->type = SNIC_DDP_READ;
        return 0;
    case SNIC_REPLICA_PUT:
        ev->type = SNIC_DDP_WRITE;
        break;
    case SNIC_REPLICA_DELETE:
        ev->type = SNIC_DDP_DELETE;
        return 0;
    case SNIC_REPLICA_CAS:
        ev->type = SNIC_DDP_CAS;
        ev->ts = op->ts;
        if (replica_op_deletes(op)) {
            ev->flags = SNIC_DDP_MSG_TOMBSTONE;
            return 0;
        }
        break;
    case SNIC_REPLICA_SYNC:
        ev->type = SNIC_DDP_SYNC;
        return 0;
    default:
        return SNIC_EINVAL;
    }
    return replica_op_value(r, op, ev);
}

/*
 * A scope is the incarnation, node and number that snic_replica_scope() gave. An engine that began
 * anew would take an older scope for a new one, and its SYNC would answer for what it never had.
 */
static uint64_t replica_scopes_of(const struct snic_replica *r)
{
    uint64_t incarnation = r->part == SNIC_DDP_FULL ? r->part_incarnation : 0; /* of none it is 0 */
    return incarnation << 4 | r->o.node;
}

uint64_t snic_replica_scope(struct snic_replica *r)
{
    r->scopes++;
    return replica_scopes_of(r) << 28 | (r->scopes & ((1u << 28) - 1));
}

/*
 * GET after a majority has confirmed that this node is a member, by a lease request that is sent
 * from now on. Numbers of requests decide, no clock.
 */
static int replica_submit_confirm(struct snic_replica *r, struct snic_replica_op *op)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_CONFIRM};
    struct snic_member_status st;
    snic_member_get_status(r->member, &st);
    op->ts = st.request;
    op->state = REPLICA_OP_FLIGHT;
    snic_link_init(&op->link);
    snic_link_append(&r->confirms, &op->link);
    r->ops++;
    int result = replica_step_member(r, &ev); /* of a node alone it is answered in here */
    if (result != 0 && op->state == REPLICA_OP_FLIGHT) {
        snic_link_remove(&op->link);
        op->state = REPLICA_OP_FREE;
        r->ops--;
    }
    replica_settle(r);
    return result;
}

int snic_replica_submit(struct snic_replica *r, struct snic_replica_op *op)
{
    struct snic_ddp_event ev;
    SNIC_ASSERT(r->depth == 0 && op->done != NULL && op->state == REPLICA_OP_FREE);
    if (r->state != SNIC_REPLICA_RUNNING)
        return SNIC_ESTALE;
    int reads = op->kind == SNIC_REPLICA_GET;
    int scoped = !reads && op->scope != 0;
    if (scoped && op->scope >> 28 != replica_scopes_of(r))
        return SNIC_ESTALE;
    int result = !reads ? replica_log_room(r, replica_op_room(op)) : 0;
    if (result != 0)
        return result;
    result = replica_op_event(r, op, &ev);
    if (result != 0)
        return result;
    if ((op->flags & SNIC_REPLICA_OP_CONFIRM) != 0)
        return replica_submit_confirm(r, op);
    op->state = REPLICA_OP_FLIGHT;
    snic_link_init(&op->link);
    snic_link_append(&r->flight, &op->link);
    r->ops++;
    result = replica_step_ddp(r, &ev);
    if (result != 0) {
        if (ev.value != 0)
            replica_value_release(&r->values, ev.value);
        SNIC_ASSERT(op->state == REPLICA_OP_FLIGHT);
        snic_link_remove(&op->link);
        op->state = REPLICA_OP_FREE;
        r->ops--;
        r->no_quorum += result == SNIC_ENOQUORUM;
    }
    replica_settle(r);
    return result;
}

/* ---- Looking ---- */

static void replica_entry(const struct snic_replica *r, const struct snic_ddp_entry *e,
                          struct snic_replica_entry *out)
{
    memset(out, 0, sizeof(*out));
    out->key = e->key;
    out->ts = e->ts;
    out->record = e->number;
    if ((e->flags & SNIC_DDP_MSG_LOCKED) != 0)
        return;
    out->value = e->value;
    out->data = replica_value_bytes(&r->values, e->value);
    out->size = e->length;
}

/*
 * The lease is looked at once, after all of the operations began: what is read later is no older.
 */
void snic_replica_look_many(const struct snic_replica *r, const struct snic_ddp_key *keys,
                            uint32_t n, struct snic_replica_entry *out, int *results)
{
    struct snic_ddp_entry e;
    int running = r->state == SNIC_REPLICA_RUNNING;
    uint64_t now = replica_clock(r);
    memset(&e, 0, sizeof(e));
    if (running && n > 1)
        snic_ddp_prefetch(r->ddp, keys, n);
    for (uint32_t i = 0; i < n; i++) {
        results[i] = running ? snic_ddp_get(r->ddp, now, &keys[i], &e) : SNIC_ESTALE;
        if (results[i] != 0)
            continue;
        replica_entry(r, &e, &out[i]);
        for (uint32_t at = 0; at < out[i].size && at < CLIENT_FETCH; at += SNIC_CACHELINE / 2)
            __builtin_prefetch((const unsigned char *)out[i].data + at);
    }
}

int snic_replica_look(const struct snic_replica *r, const struct snic_ddp_key *key,
                      struct snic_replica_entry *out)
{
    int result;
    snic_replica_look_many(r, key, 1, out, &result);
    return result;
}

int snic_replica_peek(const struct snic_replica *r, const struct snic_ddp_key *key,
                      struct snic_replica_entry *out)
{
    struct snic_ddp_entry e;
    if (r->state != SNIC_REPLICA_RUNNING)
        return SNIC_ESTALE;
    int result = snic_ddp_find(r->ddp, key, &e);
    if (result != 0)
        return result;
    memset(out, 0, sizeof(*out));
    out->key = e.key;
    out->ts = e.ts;
    out->record = e.number;
    if ((e.flags & SNIC_DDP_MSG_TOMBSTONE) == 0) {
        out->value = e.value;
        out->data = replica_value_at(&r->values, e.value, &out->size);
    }
    return 0;
}

int snic_replica_next(const struct snic_replica *r, uint64_t *cursor,
                      struct snic_replica_entry *out)
{
    struct snic_ddp_entry e;
    struct snic_ddp_stats info;
    uint64_t at = *cursor;
    int result;
    snic_ddp_get_stats(r->ddp, &info);
    if (r->state != SNIC_REPLICA_RUNNING || !info.serves || replica_clock(r) >= r->lease_ns)
        return SNIC_ESTALE;
    /* A locked tombstone may be a deletion that is not yet complete: the key is there for GET. */
    while ((result = snic_ddp_next(r->ddp, &at, &e)) == 0 &&
           (e.flags & (SNIC_DDP_MSG_TOMBSTONE | SNIC_DDP_MSG_LOCKED)) == SNIC_DDP_MSG_TOMBSTONE)
        ;
    if (result == 0) {
        replica_entry(r, &e, out);
        *cursor = at;
    }
    return result;
}

int snic_replica_serves(const struct snic_replica *r)
{
    struct snic_ddp_stats info;
    if (r->state != SNIC_REPLICA_RUNNING || replica_clock(r) >= r->lease_ns)
        return 0;
    snic_ddp_get_stats(r->ddp, &info);
    return info.serves != 0;
}

uint16_t snic_replica_full(const struct snic_replica *r)
{
    return r->view.full;
}

const void *snic_replica_value(const struct snic_replica *r, uint64_t value, uint32_t *size)
{
    return replica_value_at(&r->values, value, size);
}

void snic_replica_hold(struct snic_replica *r, uint64_t value)
{
    replica_value_hold(&r->values, value);
}

void snic_replica_drop(struct snic_replica *r, uint64_t value)
{
    replica_value_drop(&r->values, value);
}

#undef CLIENT_FETCH
