/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reservations of others that block an operation, and intents of dead sessions. For the invariants
 * J1 to J10 see intent.c.
 */
#include "kvfs/intent.h"

enum {
    KVFS_INTENT_RESOLVE_WAIT_NS = 50000, /* between reads of an intent that is in progress */
    KVFS_INTENT_RESOLVE_PATIENCE = 4 /* of a heartbeat's time until it is aborted: the 4th part */
};

/* ---- Small things ---- */

static void kvfs_intent_resolve_abort(const struct snic_kvop_key *key, unsigned char *record,
                                      uint32_t size)
{
    SNIC_ASSERT(size >= SNIC_KVFS_HEAD + 8);
    snic_put_le32(record + SNIC_KVFS_HEAD, SNIC_KVFS_INTENT_ABORTED);
    snic_kvfs_seal(key, record, size, 0);
}

/* One guarded change in a place, with copies of the guard and the change. */
struct kvfs_single {
    struct kvfs_place place;
    struct snic_kvop_guard guard;
    struct snic_kvop_change change;
    struct snic_kvop_get get;
};

/* KVFS_PENDING; 0, *got has the result. */
static int kvfs_intent_resolve_put(struct kvfs_op *op, struct kvfs_single *s,
                                   const struct snic_kvop_key *key, const void *old,
                                   uint32_t old_size, const void *record, uint32_t size,
                                   const struct snic_kvop **got)
{
    struct snic_kvop want = {.kind = SNIC_KVOP_COMMIT,
                             .flags = SNIC_KVOP_RESERVE,
                             .guards = &s->guard,
                             .guard_count = old != NULL,
                             .changes = &s->change,
                             .change_count = 1};
    if (s->place.state == KVFS_PLACE_FREE) {
        memset(&s->guard, 0, sizeof(s->guard));
        memset(&s->change, 0, sizeof(s->change));
        s->guard.key = *key;
        s->guard.value = old;
        s->guard.size = old_size;
        s->change.key = *key;
        s->change.kind = size != 0 ? SNIC_KVOP_PUT : SNIC_KVOP_DELETE;
        s->change.value = size != 0 ? record : NULL;
        s->change.size = size;
        op->k->stats.store_commits++;
    }
    return kvfs_io_in(op, &s->place, &want, got) == KVFS_PENDING ? KVFS_PENDING : 0;
}

static int kvfs_intent_resolve_get(struct kvfs_op *op, struct kvfs_single *s,
                                   const struct snic_kvop_key *key, void *room, uint32_t bytes)
{
    const struct snic_kvop *got;
    struct snic_kvop want = {.kind = SNIC_KVOP_GET, .gets = &s->get, .get_count = 1};
    if (s->place.state == KVFS_PLACE_FREE) {
        memset(&s->get, 0, sizeof(s->get));
        s->get.key = *key;
        s->get.value = room;
        s->get.room = bytes;
    }
    int rc = kvfs_io_in(op, &s->place, &want, &got);
    if (rc == KVFS_PENDING)
        return rc;
    if (got->result < 0 && got->result != SNIC_ENOENT && got->result != SNIC_EMSGSIZE)
        s->get.result = kvfs_txn_error(got->result);
    return 0;
}

/* ---- A commit's own rare steps ---- */

/* Read the outcome of the flip whose answer was lost. */
static int kvfs_intent_resolve_query(struct kvfs_op *op, struct kvfs_intent *n,
                                     struct kvfs_single *s)
{
    const struct snic_kvop *got;
    int rc;
    if (!n->aborting) {
        rc = kvfs_intent_resolve_get(op, s, &n->key, n->room, n->room_size);
        if (rc != 0)
            return rc;
        s->place.state = KVFS_PLACE_FREE;
        if (s->get.result == SNIC_ENOENT)
            n->error = SNIC_EIO; /* deleted: this session was declared dead */
        if (s->get.result != 0) {
            n->step = KVFS_INTENT_FAILED;
            return 0;
        }
        if (s->get.size == n->record_size && memcmp(n->room, n->committed, n->record_size) == 0) {
            n->error = 0;
            kvfs_intent_begin(n, KVFS_INTENT_APPLY);
            return 0;
        }
        if (s->get.size != n->record_size || memcmp(n->room, n->pending, n->record_size) != 0) {
            n->error = SNIC_ECANCELED;
            kvfs_intent_begin(n, KVFS_INTENT_RESTORE);
            return 0;
        }
        kvfs_intent_resolve_abort(&n->key, n->room, n->record_size); /* J5: a late flip must fail */
        n->aborting = 1;
    }
    rc = kvfs_intent_resolve_put(op, s, &n->key, n->pending, n->record_size, n->room,
                                 n->record_size, &got);
    if (rc != 0)
        return rc;
    n->aborting = 0;
    s->place.state = KVFS_PLACE_FREE;
    if (got->result == 0)
        kvfs_intent_begin(n, KVFS_INTENT_RESTORE);
    else if (got->result != SNIC_ECANCELED)
        n->step = KVFS_INTENT_FAILED;
    return 0;
}

/* Record by record: replace our reservation, leave another's (J6). */
static int kvfs_intent_resolve_settle(struct kvfs_op *op, struct kvfs_intent *n,
                                      struct kvfs_single *s)
{
    SNIC_ASSERT(n->at < n->item_count);
    const struct kvfs_intent_item *it = &n->items[n->at];
    const struct kvfs_change *c = it->change;
    const struct snic_kvop *got;
    const void *record = c->record;
    uint32_t size = c->kind == SNIC_KVOP_PUT ? c->size : 0;
    int rc;
    if (c->kind == SNIC_KVOP_CHANGE_TRUNCATE && n->error == 0) {
        struct snic_kvop want = {.kind = SNIC_KVOP_OBJECT_TRUNCATE, .object = c->object};
        rc = kvfs_io_in(op, &s->place, &want, &got);
        if (rc == KVFS_PENDING)
            return rc;
    } else if (it->reserved != NULL) {
        if (n->error != 0) {
            record = it->read->record;
            size = it->read->state == KVFS_READ_PRESENT ? it->read->size : 0;
        }
        rc = kvfs_intent_resolve_put(op, s, &c->key, it->reserved, it->reserved_size, record, size,
                                     &got);
        if (rc != 0)
            return rc;
        if (got->result < 0 && got->result != SNIC_ECANCELED) {
            /* The intent stays, so that others can proceed. */
            op->k->session.commit_unknown = 1; /* J10 */
            n->step = n->error == 0 ? KVFS_INTENT_DONE : KVFS_INTENT_FAILED;
            return 0;
        }
    }
    s->place.state = KVFS_PLACE_FREE;
    if (++n->at == n->item_count) {
        n->at = 0;
        kvfs_intent_begin(n, KVFS_INTENT_UNDO);
    }
    return 0;
}

int kvfs_intent_slow(struct kvfs_op *op, struct kvfs_intent *n)
{
    struct kvfs_single *s = n->single;
    return n->step == KVFS_INTENT_QUERY ? kvfs_intent_resolve_query(op, n, s)
                                        : kvfs_intent_resolve_settle(op, n, s);
}

void *kvfs_intent_single(struct kvfs_op *op)
{
    struct kvfs_single *s = kvfs_memory(op, sizeof(*s));
    if (s != NULL)
        memset(s, 0, sizeof(*s));
    return s;
}

/* ---- A reservation met by a read ---- */

enum kvfs_resolve_step { KVFS_RESOLVE_READ = 0, KVFS_RESOLVE_ABORT, KVFS_RESOLVE_REPLACE };

struct kvfs_resolve {
    struct snic_kvop_key key;
    struct snic_kvop_key intent;
    struct snic_kvfs_reservation r;
    const void *old_record;
    const void *new_record;
    const void *outcome;
    uint32_t outcome_size;
    enum kvfs_resolve_step step;
    struct kvfs_single single;
    uint32_t record_size;
    unsigned char record[SNIC_KVFS_INTENT_BYTES];
    unsigned char aborted[SNIC_KVFS_INTENT_BYTES];
};

/* When it was first met here. */
static uint64_t kvfs_intent_resolve_since(struct snic_kvfs *k,
                                          const struct snic_kvfs_reservation *r)
{
    struct kvfs_session *s = &k->session;
    struct kvfs_blocker *m;
    for (uint32_t i = 0; i < KVFS_SESSION_LOOKUPS; i++)
        if (s->blockers[i].session == r->session && s->blockers[i].number == r->number)
            return s->blockers[i].since_ns;
    m = &s->blockers[s->blocker_next++ % KVFS_SESSION_LOOKUPS];
    m->session = r->session;
    m->number = r->number;
    m->since_ns = k->now.mono_ns;
    return m->since_ns;
}

static int kvfs_intent_resolve_new(struct kvfs_op *op, const struct snic_kvop_key *key,
                                   const void *raw, uint32_t size)
{
    struct kvfs_resolve *x = kvfs_memory(op, sizeof(*x));
    int rc;
    if (x == NULL)
        return op->again ? KVFS_PENDING : SNIC_ENOMEM;
    memset(x, 0, sizeof(*x));
    x->key = *key;
    rc = snic_kvfs_reservation_decode(&x->r, &x->old_record, &x->new_record, raw, size);
    if (rc == 0 && x->old_record != NULL)
        rc = snic_kvfs_verify(key, x->old_record, x->r.old_size);
    if (rc == 0 && x->new_record != NULL)
        rc = snic_kvfs_verify(key, x->new_record, x->r.new_size);
    if (rc != 0) {
        kvfs_report_damage(op->k, key, "reserved record malformed");
        return SNIC_ECORRUPT;
    }
    snic_kvfs_key_intent(&x->intent, x->r.session, x->r.number);
    op->resolve = x;
    return 0;
}

/* The intent exists and is pending. KVFS_PENDING: wait for it; 0: abort it. */
static int kvfs_intent_resolve_patience(struct kvfs_op *op, const struct kvfs_resolve *x)
{
    struct snic_kvfs *k = op->k;
    uint64_t since = kvfs_intent_resolve_since(k, &x->r);
    if (!kvfs_session_alive(k, x->r.session) ||
        k->now.mono_ns - since >= k->o.heartbeat_ns / KVFS_INTENT_RESOLVE_PATIENCE)
        return 0;
    return kvfs_wait(op, NULL,
                     k->now.mono_ns + KVFS_INTENT_RESOLVE_WAIT_NS +
                         snic_rng_below(&k->rng, KVFS_INTENT_RESOLVE_WAIT_NS),
                     1);
}

/* The intent has been read: determine the record's value. */
static int kvfs_intent_resolve_state(struct kvfs_op *op, struct kvfs_resolve *x)
{
    const struct snic_kvop_get *g = &x->single.get;
    int readonly = (op->k->o.caps & SNIC_KV_CAP_READONLY) != 0;
    uint32_t state = SNIC_KVFS_INTENT_ABORTED; /* J7: missing */
    if (g->result != 0 && g->result != SNIC_ENOENT)
        return g->result == SNIC_EMSGSIZE ? SNIC_ECORRUPT : g->result;
    if (g->result == 0) {
        if (g->size > sizeof(x->record) || snic_kvfs_verify(&x->intent, x->record, g->size) != 0 ||
            g->size < SNIC_KVFS_HEAD + 8) {
            kvfs_report_damage(op->k, &x->intent, "intent malformed");
            return SNIC_ECORRUPT;
        }
        state = snic_get_le32(x->record + SNIC_KVFS_HEAD);
    }
    x->single.place.state = KVFS_PLACE_FREE;
    x->step = KVFS_RESOLVE_REPLACE;
    if (state == SNIC_KVFS_INTENT_PENDING && !readonly) {
        x->step = KVFS_RESOLVE_ABORT;
        SNIC_ASSERT(g->size <= sizeof(x->aborted));
        x->record_size = g->size;
        memcpy(x->aborted, x->record, g->size);
        kvfs_intent_resolve_abort(&x->intent, x->aborted, g->size);
        return kvfs_intent_resolve_patience(op, x);
    }
    if (state == SNIC_KVFS_INTENT_COMMITTED) {
        x->outcome = x->new_record;
        x->outcome_size = x->r.new_size;
    } else {
        x->outcome = x->old_record;
        x->outcome_size = x->r.old_size;
    }
    return 0;
}

int kvfs_intent_resolve(struct kvfs_op *op, const struct snic_kvop_key *key, const void *raw,
                        uint32_t raw_size, const void **record, uint32_t *size)
{
    struct kvfs_resolve *x = op->resolve;
    const struct snic_kvop *got;
    int rc;
    if (x == NULL) {
        rc = kvfs_intent_resolve_new(op, key, raw, raw_size);
        if (rc != 0)
            return rc;
        x = op->resolve;
    }
    if (!kvfs_key_equal(&x->key, key))
        return KVFS_PENDING; /* one after the other */
    if (x->step == KVFS_RESOLVE_READ) {
        rc = kvfs_intent_resolve_get(op, &x->single, &x->intent, x->record, sizeof(x->record));
        if (rc == 0)
            rc = kvfs_intent_resolve_state(op, x);
        if (rc != 0)
            return rc;
    }
    if (x->step == KVFS_RESOLVE_REPLACE && (op->k->o.caps & SNIC_KV_CAP_READONLY) != 0) {
        *record = x->outcome;
        *size = x->outcome_size;
        op->resolve = NULL;
        return 0;
    }
    if (x->step == KVFS_RESOLVE_ABORT)
        rc = kvfs_intent_resolve_put(op, &x->single, &x->intent, x->record, x->record_size,
                                     x->aborted, x->record_size, &got); /* J5 */
    else
        rc = kvfs_intent_resolve_put(op, &x->single, key, raw, raw_size, x->outcome,
                                     x->outcome_size, &got);
    if (rc != 0)
        return rc;
    op->k->stats.resolved += x->step == KVFS_RESOLVE_REPLACE && got->result == 0;
    if (got->result < 0 && got->result != SNIC_ECANCELED)
        return kvfs_txn_error(got->result);
    return kvfs_restart(op);
}

/* ---- Intents of a dead session ---- */

struct kvfs_intent_left {
    struct snic_kvop_key key;
    struct snic_kvfs_intent n;
    const unsigned char *raw;
    uint32_t raw_size;
    uint8_t parsed;
    uint8_t none; /* there is no more */
    struct kvfs_single single;
    unsigned char aborted[SNIC_KVFS_INTENT_BYTES];
    unsigned char scan[SNIC_KVFS_INTENT_BYTES + 256];
};

/* The first one. */
static int kvfs_intent_left_find(struct kvfs_op *op, uint64_t session, struct kvfs_intent_left *x)
{
    const struct snic_kvop *got;
    const struct snic_kvop_record *r;
    struct snic_kvop want = {
        .kind = SNIC_KVOP_SCAN, .scan_max = 1, .out = x->scan, .out_room = sizeof(x->scan)};
    int rc;
    snic_kvfs_key_intent(&want.key, session, 0);
    want.key.size = 9; /* 'N' and the session */
    memset(want.key.bytes + 9, 0, sizeof(want.key.bytes) - 9);
    rc = kvfs_io(op, 0, &want, &got);
    if (rc != 0 || x->parsed)
        return rc;
    r = snic_kvop_first(got);
    x->parsed = 1;
    x->none = r == NULL;
    if (r == NULL)
        return 0;
    x->raw = snic_kvop_record_value(r);
    x->raw_size = r->value_size;
    snic_kvop_key_set(&x->key, SNIC_KVFS_GROUP_INTENTS, snic_kvop_record_key(r), r->key_size);
    rc = r->key_size == 17 ? snic_kvfs_verify(&x->key, x->raw, x->raw_size) : SNIC_ECORRUPT;
    if (rc >= 0)
        rc = snic_kvfs_intent_decode(&x->n, x->raw, x->raw_size);
    if (rc < 0)
        kvfs_report_damage(op->k, &x->key, "intent malformed");
    return rc;
}

/* Process the next of its keys, or, behind them, of its objects. 0: done. */
static int kvfs_intent_left_item(struct kvfs_op *op, struct kvfs_intent_left *x)
{
    struct snic_kvfs_reservation r;
    const void *old_record, *new_record;
    const struct snic_kvop *got;
    int committed = x->n.state == SNIC_KVFS_INTENT_COMMITTED;
    uint64_t at = op->s[KVFS_INTENT_S_AT];
    int rc;
    if (at >= x->n.key_count) {
        struct snic_kvop want = {.kind = SNIC_KVOP_OBJECT_TRUNCATE,
                                 .object = x->n.objects[at - x->n.key_count]};
        return committed ? kvfs_io(op, 2, &want, &got) : 0; /* J8 */
    }
    unsigned char *room = kvfs_alloc(op, SNIC_KVOP_VALUE_MAX);
    if (room == NULL)
        return SNIC_ENOMEM;
    struct snic_kvop_get *get = kvfs_alloc(op, sizeof(*get));
    if (get == NULL)
        return SNIC_ENOMEM;
    struct snic_kvop want = {.kind = SNIC_KVOP_GET, .gets = get, .get_count = 1};
    const struct snic_kvop_key *key = &x->n.keys[at];
    if (get->value == NULL) {
        get->key = *key;
        get->value = room;
        get->room = SNIC_KVOP_VALUE_MAX;
    }
    rc = kvfs_io(op, 1, &want, &got);
    if (rc == KVFS_PENDING)
        return rc;
    if (got->result < 0 && got->result != SNIC_ENOENT)
        return kvfs_txn_error(got->result);
    rc = got->result == SNIC_ENOENT ? SNIC_ENOENT : get->result;
    if (rc != 0)
        return rc == SNIC_ENOENT ? 0 : rc;
    rc = snic_kvfs_verify(key, room, get->size);
    if (rc < 0)
        kvfs_report_damage(op->k, key, "record named by an intent is damaged");
    if (rc < 0)
        return rc;
    if (((uint32_t)rc & SNIC_KVFS_RESERVED) == 0)
        return 0;
    rc = snic_kvfs_reservation_decode(&r, &old_record, &new_record, room, get->size);
    if (rc != 0 || r.session != snic_get_be64(x->key.bytes + 1) ||
        r.number != snic_get_be64(x->key.bytes + 9))
        return rc; /* another's */
    rc = kvfs_intent_resolve_put(op, &x->single, key, room, get->size,
                                 committed ? new_record : old_record,
                                 committed ? r.new_size : r.old_size, &got);
    if (rc != 0)
        return rc;
    return got->result == SNIC_ECANCELED ? 0 : kvfs_txn_error(got->result);
}

int kvfs_intent_finish_next(struct kvfs_op *op, uint64_t session)
{
    struct kvfs_intent_left *x = kvfs_alloc(op, sizeof(*x));
    const struct snic_kvop *got;
    int rc = x == NULL ? SNIC_ENOMEM : kvfs_intent_left_find(op, session, x);
    if (rc != 0)
        return rc;
    /* Another session that recovers the same one may have deleted the intent of the last round. */
    uint64_t number = x->none ? 0 : snic_get_be64(x->key.bytes + 9);
    if (x->none || op->s[KVFS_INTENT_S_NUMBER] != number)
        op->s[KVFS_INTENT_S_AT] = 0;
    op->s[KVFS_INTENT_S_NUMBER] = number;
    if (x->none)
        return 0;
    if (x->n.state == SNIC_KVFS_INTENT_PENDING) {
        if (x->single.place.state == KVFS_PLACE_FREE) {
            SNIC_ASSERT(x->raw_size <= sizeof(x->aborted)); /* it was decoded */
            memcpy(x->aborted, x->raw, x->raw_size);
            kvfs_intent_resolve_abort(&x->key, x->aborted, x->raw_size);
        }
        rc = kvfs_intent_resolve_put(op, &x->single, &x->key, x->raw, x->raw_size, x->aborted,
                                     x->raw_size, &got); /* J5 */
        if (rc != 0)
            return rc;
        if (got->result < 0 && got->result != SNIC_ECANCELED)
            return kvfs_txn_error(got->result);
        return kvfs_next(op, op->phase);
    }
    if (op->s[KVFS_INTENT_S_AT] < (uint64_t)x->n.key_count + x->n.object_count) {
        rc = kvfs_intent_left_item(op, x);
        if (rc != 0)
            return rc;
        op->s[KVFS_INTENT_S_AT]++;
        return kvfs_next(op, op->phase);
    }
    rc = kvfs_intent_resolve_put(op, &x->single, &x->key, NULL, 0, NULL, 0, &got); /* J7 */
    if (rc != 0)
        return rc;
    if (got->result < 0)
        return kvfs_txn_error(got->result);
    op->s[KVFS_INTENT_S_AT] = 0;
    op->k->stats.resolved++;
    return kvfs_next(op, op->phase);
}
