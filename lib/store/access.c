/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What all operations share: names of keys, records opened and built, answers. */
#include "store_priv.h"

/* Tests of collisions compile this file with few bits of the hash. */
#ifndef SNIC_STORE__HASH_MASK
#define SNIC_STORE__HASH_MASK UINT64_MAX
#endif

uint64_t store_now(const struct snic_store *s)
{
    return s->clock != NULL ? s->clock(s->ctx) : snic_loop_clock(s->loop);
}

/* The record's name: a hash of the key. */
void store_name(const struct snic_store *s, const void *key, uint32_t size,
                struct snic_ddp_key *out)
{
    snic_siphash128(s->o.hash_key, key, size, out->w);
    out->w[0] &= SNIC_STORE__HASH_MASK;
    out->w[1] &= SNIC_STORE__HASH_MASK;
}

/*
 * The record @p bytes of the name of @p key: 0; SNIC_EEXIST it is another key's; SNIC_ECORRUPT no
 * envelope that this version understands.
 */
int store_open(struct snic_store *s, const void *key, uint32_t key_size, const void *bytes,
               uint32_t size, struct store_envelope *out)
{
    int result = store_envelope_get(bytes, size, out);
    if (result != 0) {
        s->stats.corrupt++;
        return SNIC_ECORRUPT;
    }
    if (out->key_size == key_size && (key_size == 0 || memcmp(out->key, key, key_size) == 0))
        return 0;
    s->stats.collisions++;
    return SNIC_EEXIST;
}

/* What is left of the TTL of a record, at least 1; 0: it has none. */
uint64_t store_ttl_left(const struct snic_store *s, uint32_t n)
{
    const struct store_node *k = &s->p.nodes[n];
    uint64_t now = store_now(s);
    if (!store_node_in(s, n) || k->origin == 0)
        return 0;
    return k->expires_ns > now ? k->expires_ns - now : 1;
}

/* ---- Records built ---- */

/*
 * Into s->p.list: the list of @p old, whose timestamp is @p version, without the client of @p own,
 * and then @p own (NULL: none). What does not fit is removed, the oldest first. Returns the
 * sessions.
 */
uint32_t store_list_copy(struct snic_store *s, const struct store_envelope *old, uint64_t version,
                         const struct store_session *own, uint64_t *removed)
{
    uint32_t n = 0;
    uint32_t have = old != NULL ? old->sessions : 0;
    uint32_t left = have;
    struct store_session e;
    *removed = old != NULL ? old->removed : 0;
    for (uint32_t i = 0; own != NULL && i < have; i++) {
        store_session_get(old, i, &e);
        left -= e.client == own->client;
    }
    uint32_t drop =
        left + (own != NULL) > s->o.sessions_max ? left + (own != NULL) - s->o.sessions_max : 0;
    for (uint32_t i = 0; i < have; i++) {
        store_session_get(old, i, &e);
        if (own != NULL && e.client == own->client)
            continue;
        if (e.ts == 0)
            e.ts = version;
        if (drop > 0) {
            drop--;
            *removed = snic_max_u64(*removed, e.ts);
        } else {
            store_session_put(s->p.list, n++, &e);
        }
    }
    if (own != NULL)
        store_session_put(s->p.list, n++, own);
    return n;
}

/* The value of the replica's operation: a record of @p op's key with the list in s->p.list. */
void store_build(struct snic_store_op *op, const struct store_envelope *e)
{
    struct snic_store *s = op->store;
    struct store_envelope full = *e;
    full.key = op->key;
    full.key_size = op->key_size;
    full.list = s->p.list;
    store_envelope_put(s->p.buffer, &full);
    op->op.front = s->p.buffer;
    op->op.front_size = store_envelope_front(&full);
    op->op.data = e->data;
    op->op.size = e->size;
}

/* ---- Answers ---- */

static uint64_t store_op_ttl(const struct snic_store_op *op)
{
    struct snic_replica_entry entry;
    if (snic_replica_peek(op->store->replica, &op->hash, &entry) != 0)
        return 0;
    return store_ttl_left(op->store, entry.record);
}

/* What was read, as the operation's result has it. */
void store_show(struct snic_store_op *op, int present, const struct store_envelope *e,
                uint64_t version, uint64_t value)
{
    op->seen = version;
    op->version = present ? version : 0;
    op->data = present ? e->data : NULL;
    op->size = present ? e->size : 0;
    op->value = present ? value : 0;
    op->ttl_ns = present && e->ttl_ns != 0 ? store_op_ttl(op) : 0;
}

static enum snic_store_class store_class(const struct snic_store_op *op)
{
    if (op->kind == SNIC_STORE_GET)
        return SNIC_STORE_CLASS_READ;
    if (op->kind == SNIC_STORE_SYNC)
        return SNIC_STORE_CLASS_SYNC;
    return op->state == STORE_OP_PLAIN ? SNIC_STORE_CLASS_WRITE : SNIC_STORE_CLASS_CHANGE;
}

static void store_count(struct snic_store_op *op)
{
    struct snic_store *s = op->store;
    uint32_t c = store_class(op);
    if (op->expiry)
        return;
    uint32_t d = op->durability < SNIC_STORE_DURABILITIES ? op->durability : 0;
    s->stats.ops[c]++;
    snic_hist_record(&s->latency[c][d], store_now(s) - op->begun_ns);
}

/* From the loop: the answer (S1). */
void store_finish(struct snic_store_op *op, int result)
{
    store_count(op);
    op->state = STORE_OP_FREE;
    op->result = result;
    op->done(op);
}

/* The same, a little later. What the answer points to is the caller's, or held. */
void store_finish_later(struct snic_store_op *op, int result)
{
    struct snic_store *s = op->store;
    store_count(op);
    op->state = STORE_OP_READY;
    op->result = result;
    snic_link_append(&s->ready, &op->link);
    if (!s->deliver.armed)
        snic_loop_arm(s->loop, &s->deliver, 0);
}

void store_deliver_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_store *s = SNIC_CONTAINER(t, struct snic_store, deliver);
    struct snic_link batch;
    (void)now_ns;
    snic_link_init(&batch);
    while (!snic_link_alone(&s->ready)) {
        struct snic_link *l = s->ready.next;
        snic_link_remove(l);
        snic_link_append(&batch, l);
    }
    while (!snic_link_alone(&batch)) {
        struct snic_store_op *op = SNIC_CONTAINER(batch.next, struct snic_store_op, link);
        uint64_t value = op->value;
        snic_link_remove(&op->link);
        op->state = STORE_OP_FREE;
        op->done(op);
        if (value != 0)
            snic_replica_drop(s->replica, value);
    }
}

/* The replica's operation for @p op, to be completed and submitted. */
void store_replica_op(struct snic_store_op *op, uint32_t kind, snic_replica_done_fn done)
{
    memset(&op->op, 0, sizeof(op->op));
    op->op.done = done;
    op->op.kind = kind;
    op->op.key = op->hash;
    if (kind == SNIC_REPLICA_GET)
        return;
    op->op.scope = op->scope;
    op->op.durability = kind == SNIC_REPLICA_SYNC ? 0 : (uint8_t)op->durability;
    op->op.copies_min = (uint16_t)op->copies_min;
}
