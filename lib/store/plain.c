/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Operations of one step at the replica: GET, SYNC, PUT and DELETE without condition or session. */
#include "store_priv.h"

static void plain_done(struct snic_replica_op *r)
{
    struct snic_store_op *op = SNIC_CONTAINER(r, struct snic_store_op, op);
    if (op->kind != SNIC_STORE_SYNC)
        op->version = op->seen = r->result == 0 ? r->ts : 0;
    op->copies = r->copies;
    store_finish(op, r->result);
}

static void plain_read_done(struct snic_replica_op *r)
{
    struct snic_store_op *op = SNIC_CONTAINER(r, struct snic_store_op, op);
    struct store_envelope e;
    int result = r->result;
    memset(&e, 0, sizeof(e));
    if (result == 0)
        result = store_open(op->store, op->key, op->key_size, r->data, r->size, &e);
    if (result == 0 && (e.flags & SNIC_STORE__DELETED) != 0)
        result = SNIC_ENOENT;
    store_show(op, result == 0, &e, r->ts, r->value);
    if (result == SNIC_EEXIST) {
        op->data = e.key;
        op->size = e.key_size;
        op->value = r->value;
    }
    store_finish(op, result);
}

/* What the local record has, for the write that replaces it (S3). */
static int plain_peek(struct snic_store_op *op, struct store_envelope *e, uint64_t *version,
                      uint64_t *value)
{
    struct snic_replica_entry entry;
    int result = snic_replica_peek(op->store->replica, &op->hash, &entry);
    *version = *value = 0;
    if (result != 0 || entry.data == NULL)
        return result == 0 ? SNIC_ENOENT : result;
    *version = entry.ts;
    *value = entry.value;
    return store_open(op->store, op->key, op->key_size, entry.data, entry.size, e);
}

static int plain_write(struct snic_store_op *op)
{
    struct snic_store *s = op->store;
    struct store_envelope old, e;
    uint64_t version, value;
    uint32_t kind = SNIC_REPLICA_PUT;
    memset(&old, 0, sizeof(old));
    int result = plain_peek(op, &old, &version, &value);
    if (result == SNIC_EEXIST) {
        op->data = old.key;
        op->size = old.key_size;
        op->value = value;
        snic_replica_hold(s->replica, value);
    }
    if (result == SNIC_EEXIST || result == SNIC_ECORRUPT) {
        store_finish_later(op, result);
        return 0;
    }
    if (result != 0 && result != SNIC_ENOENT)
        return result;
    memset(&e, 0, sizeof(e));
    e.sessions = store_list_copy(s, result == 0 ? &old : NULL, version, NULL, &e.removed);
    if (op->kind == SNIC_STORE_PUT) {
        e.ttl_ns = op->ttl_ns;
        e.data = op->data;
        e.size = op->size;
    } else if (e.sessions != 0 || e.removed != 0) { /* S4 */
        e.flags = SNIC_STORE__DELETED;
        e.ttl_ns = s->o.session_window_ns;
    } else {
        kind = SNIC_REPLICA_DELETE;
    }
    store_replica_op(op, kind, plain_done);
    if (kind == SNIC_REPLICA_PUT)
        store_build(op, &e);
    op->state = STORE_OP_PLAIN;
    result = snic_replica_submit(s->replica, &op->op);
    if (result != 0)
        op->state = STORE_OP_FREE;
    return result;
}

int store_plain_begin(struct snic_store_op *op)
{
    struct snic_store *s = op->store;
    if (op->kind != SNIC_STORE_GET && op->kind != SNIC_STORE_SYNC)
        return plain_write(op);
    int get = op->kind == SNIC_STORE_GET;
    store_replica_op(op, get ? SNIC_REPLICA_GET : SNIC_REPLICA_SYNC,
                     get ? plain_read_done : plain_done);
    if (get) {
        op->op.durability = (uint8_t)op->durability;
        op->op.flags = (op->flags & SNIC_STORE_CONFIRM) != 0 ? SNIC_REPLICA_OP_CONFIRM : 0;
    }
    op->state = STORE_OP_PLAIN;
    int result = snic_replica_submit(s->replica, &op->op);
    if (result != 0)
        op->state = STORE_OP_FREE;
    return result;
}
