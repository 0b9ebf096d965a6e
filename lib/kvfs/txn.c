/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What an operation reads and changes (the story is at the head of kvfs_priv.h).
 *
 * T1  A record is read once in a round, and stays as it was read. Records wanted in one run leave
 *     in one GET; one GET is under way at a time.
 * T2  Changes are noted anew by each run: those of earlier runs do not count (change->run), only
 *     their memory is used again.
 * T3  A commit is guarded by all that kvfs_get() answered in this round, and is under way or done
 *     at most once in it.
 */
#include "kvfs/core.h"

enum {
    TXN_RETRIES_AT_ONCE = 3,
    TXN_RETRIES_MAX = 1000,
    TXN_BACKOFF_NS = 50000, /* doubles with each retry ...                                    */
    TXN_BACKOFF_DOUBLE = 8  /* ... so often                                                   */
};

/* ---- Rounds ---- */

void kvfs_txn_begin(struct kvfs_op *op)
{
    memset(op->buckets, 0, sizeof(op->buckets));
    op->reads = NULL;
    op->reads_end = &op->reads;
    op->changes = NULL;
    op->changes_end = &op->changes;
    op->takes = NULL;
    op->take_at = &op->takes;
    op->commit_state = KVFS_COMMIT_NONE;
    op->sent = 0;
    op->made = 0;
    op->intent = NULL;
    op->resolve = NULL;
    op->era = op->k->session.era;
    op->now = op->k->now;
    for (int i = 0; op->sent_any && i <= KVFS_MAIN; i++) {
        SNIC_ASSERT(op->place[i].state != KVFS_PLACE_ASKED);
        op->place[i].state = KVFS_PLACE_FREE;
    }
    op->sent_any = 0;
}

int kvfs_restart(struct kvfs_op *op)
{
    op->again = 1;
    return KVFS_PENDING;
}

int kvfs_next(struct kvfs_op *op, uint32_t phase)
{
    SNIC_ASSERT(op->commit_state != KVFS_COMMIT_ASKED);
    op->phase = phase;
    op->phase0 = phase;
    memcpy(op->s0, op->s, sizeof(op->s0));
    op->retries = 0;
    op->number_count = 0;
    return kvfs_restart(op);
}

/* ---- Reads ---- */

/* Bytes that a record of this kind has, as a rule; a larger one is fetched again. */
static uint32_t txn_room(const struct snic_kvop_key *key)
{
    switch (key->bytes[0]) {
    case SNIC_KVFS_REC_ATTR:
        return SNIC_KVFS_ATTR_BYTES;
    case SNIC_KVFS_REC_ENTRY:
        return 320;
    case SNIC_KVFS_REC_DATA:
        return SNIC_KVFS_HEAD + SNIC_KVFS_SMALL_MAX;
    case SNIC_KVFS_REC_SUPER:
        return SNIC_KVFS_SUPER_BYTES;
    default:
        return 512;
    }
}

static struct kvfs_read *txn_read_find(const struct kvfs_op *op, const struct snic_kvop_key *key,
                                       uint64_t hash)
{
    struct kvfs_read *r = op->buckets[hash % KVFS_READ_BUCKETS];
    while (r != NULL && (r->hash != hash || !kvfs_key_equal(&r->key, key)))
        r = r->chain;
    return r;
}

/* What the cache knows of it. 0; SNIC_ENOMEM. */
static int txn_read_cached(struct kvfs_op *op, struct kvfs_read *r)
{
    const unsigned char *record = NULL;
    uint32_t size = 0;
    int known = kvfs_cache_get(op->k, &r->key, r->hash, &record, &size);
    if (known == KVFS_CACHE_UNKNOWN)
        return 0;
    op->k->stats.cache_hits++;
    r->state = known == KVFS_CACHE_PRESENT ? KVFS_READ_PRESENT : KVFS_READ_ABSENT;
    if (known == KVFS_CACHE_ABSENT)
        return 0;
    r->record = kvfs_memory(op, size);
    if (r->record == NULL)
        return SNIC_ENOMEM;
    memcpy(r->record, record, size);
    r->size = size;
    return 0;
}

/* Take it from the cache, or want it from the store. */
static struct kvfs_read *txn_read_new(struct kvfs_op *op, const struct snic_kvop_key *key,
                                      uint64_t hash)
{
    struct kvfs_read *r = kvfs_memory(op, sizeof(*r));
    if (r == NULL)
        return NULL;
    memset(r, 0, sizeof(*r));
    r->hash = hash;
    r->key = *key;
    r->state = KVFS_READ_WANTED;
    r->room = txn_room(key);
    if (txn_read_cached(op, r) != 0)
        return NULL;
    *op->reads_end = r;
    op->reads_end = &r->next;
    r->chain = op->buckets[hash % KVFS_READ_BUCKETS];
    op->buckets[hash % KVFS_READ_BUCKETS] = r;
    return r;
}

static struct kvfs_read *txn_read(struct kvfs_op *op, const struct snic_kvop_key *key)
{
    uint64_t hash = kvfs_key_hash(key);
    struct kvfs_read *r = txn_read_find(op, key, hash);
    return r != NULL ? r : txn_read_new(op, key, hash);
}

static struct kvfs_change *txn_change_find(const struct kvfs_op *op,
                                           const struct snic_kvop_key *key)
{
    struct kvfs_change *c = op->changes;
    while (c != NULL && !kvfs_key_equal(&c->key, key))
        c = c->next;
    return c;
}

static int txn_present(struct kvfs_op *op, struct kvfs_read *r, const void **body, uint32_t *size)
{
    const void *record = r->record;
    uint32_t bytes = r->size;
    if ((r->flags & SNIC_KVFS_RESERVED) != 0) {
        int rc = kvfs_intent_resolve(op, &r->key, r->record, r->size, &record, &bytes);
        if (rc != 0)
            return rc;
        if (bytes == 0)
            return SNIC_ENOENT;
    }
    *body = (const unsigned char *)record + SNIC_KVFS_HEAD;
    *size = bytes - SNIC_KVFS_HEAD;
    return 0;
}

static int txn_get(struct kvfs_op *op, const struct snic_kvop_key *key, uint8_t guard,
                   const void **body, uint32_t *size)
{
    struct kvfs_change *c = txn_change_find(op, key);
    struct kvfs_read *r;
    if (c != NULL && c->run == op->run_count) {
        if (c->kind == SNIC_KVOP_DELETE)
            return SNIC_ENOENT;
        *body = c->record + SNIC_KVFS_HEAD;
        *size = c->size - SNIC_KVFS_HEAD;
        return 0;
    }
    r = txn_read(op, key);
    if (r == NULL)
        return SNIC_ENOMEM;
    r->guard |= guard;
    switch ((enum kvfs_read_state)r->state) {
    case KVFS_READ_PRESENT:
        return txn_present(op, r, body, size);
    case KVFS_READ_ABSENT:
        return SNIC_ENOENT;
    case KVFS_READ_FAILED:
        return r->error;
    case KVFS_READ_WANTED:
    case KVFS_READ_ASKED:
    default:
        return KVFS_PENDING;
    }
}

int kvfs_get(struct kvfs_op *op, const struct snic_kvop_key *key, const void **body, uint32_t *size)
{
    return txn_get(op, key, 1, body, size);
}

int kvfs_peek(struct kvfs_op *op, const struct snic_kvop_key *key, const void **body,
              uint32_t *size)
{
    return txn_get(op, key, 0, body, size);
}

void kvfs_prefetch(struct kvfs_op *op, const struct snic_kvop_key *key)
{
    struct kvfs_change *c = txn_change_find(op, key);
    if (c == NULL || c->run != op->run_count)
        (void)txn_read(op, key);
}

/* Wanted records, up to SNIC_KVOP_GETS_MAX. */
static uint32_t txn_wanted(const struct kvfs_op *op)
{
    uint32_t n = 0;
    for (const struct kvfs_read *r = op->reads; r != NULL && n < SNIC_KVOP_GETS_MAX; r = r->next)
        n += r->state == KVFS_READ_WANTED;
    return n;
}

void kvfs_txn_ask(struct kvfs_op *op)
{
    struct kvfs_place *place = &op->place[KVFS_MAIN];
    struct snic_kvop *get = &place->io.op;
    uint32_t count = txn_wanted(op), n = 0;
    if (count == 0 || place->state == KVFS_PLACE_ASKED)
        return;
    memset(get, 0, sizeof(*get));
    get->kind = SNIC_KVOP_GET;
    get->gets = kvfs_memory(op, count * sizeof(*get->gets));
    if (get->gets == NULL)
        return;
    memset(get->gets, 0, count * sizeof(*get->gets));
    for (struct kvfs_read *r = op->reads; n < count; r = r->next) {
        if (r->state != KVFS_READ_WANTED)
            continue;
        r->record = kvfs_memory(op, r->room);
        if (r->record == NULL)
            return; /* starts over: nothing was asked */
        get->gets[n].key = r->key;
        get->gets[n].value = r->record;
        get->gets[n++].room = r->room;
    }
    n = 0;
    for (struct kvfs_read *r = op->reads; n < count; r = r->next) {
        if (r->state != KVFS_READ_WANTED)
            continue;
        r->state = KVFS_READ_ASKED;
        n++;
    }
    get->get_count = count;
    place->stamp = kvfs_cache_now(op->k);
    op->k->stats.store_gets += count;
    op->k->stats.cache_misses += count;
    kvfs_send(op, place);
}

static void txn_fail(struct kvfs_read *r, int error)
{
    r->state = KVFS_READ_FAILED;
    r->error = error;
}

/* A record has come. */
static void txn_arrived(struct kvfs_op *op, struct kvfs_read *r, const struct snic_kvop_get *g)
{
    int rc;
    if (g->result == SNIC_EMSGSIZE && g->size > r->room && g->size <= SNIC_KVOP_VALUE_MAX) {
        r->room = g->size;
        r->state = KVFS_READ_WANTED;
        return;
    }
    if (g->result == SNIC_ENOENT) {
        r->state = KVFS_READ_ABSENT;
        kvfs_cache_read(op->k, op->place[KVFS_MAIN].stamp, &r->key, r->hash, NULL, 0);
        return;
    }
    if (g->result != 0) {
        txn_fail(r, g->result == SNIC_EMSGSIZE ? SNIC_ECORRUPT : g->result);
        return;
    }
    rc = g->size > r->room ? SNIC_ECORRUPT : snic_kvfs_verify(&r->key, r->record, g->size);
    if (rc < 0) {
        kvfs_damage(op->k, &r->key,
                    rc == SNIC_EVERSION ? "record of another version" : "checksum is wrong");
        txn_fail(r, rc);
        return;
    }
    r->size = g->size;
    r->flags = (uint16_t)rc;
    r->state = KVFS_READ_PRESENT;
    if ((r->flags & SNIC_KVFS_RESERVED) == 0)
        kvfs_cache_read(op->k, op->place[KVFS_MAIN].stamp, &r->key, r->hash, r->record, r->size);
}

static int txn_store_error(int64_t result)
{
    return result == SNIC_EPEERDEAD || result == SNIC_ECANCELED ? SNIC_EIO : (int)result;
}

static void txn_get_done(struct kvfs_op *op, const struct snic_kvop *get)
{
    int whole = get->result < 0 && get->result != SNIC_ENOENT && get->result != SNIC_EMSGSIZE;
    uint32_t n = 0;
    for (struct kvfs_read *r = op->reads; r != NULL && n < get->get_count; r = r->next) {
        if (r->state != KVFS_READ_ASKED)
            continue;
        if (whole)
            txn_fail(r, txn_store_error(get->result));
        else
            txn_arrived(op, r, &get->gets[n]);
        n++;
    }
    SNIC_ASSERT(n == get->get_count);
}

/* ---- Changes ---- */

static struct kvfs_change *txn_change_new(struct kvfs_op *op)
{
    struct kvfs_change *c = kvfs_memory(op, sizeof(*c));
    if (c == NULL)
        return NULL;
    memset(c, 0, sizeof(*c));
    *op->changes_end = c;
    op->changes_end = &c->next;
    return c;
}

/* The change of a key, to be filled; its memory of an earlier run is used again (T2). */
static struct kvfs_change *txn_change(struct kvfs_op *op, const struct snic_kvop_key *key)
{
    struct kvfs_change *c = txn_change_find(op, key);
    if (c == NULL) {
        c = txn_change_new(op);
        if (c == NULL)
            return NULL;
        c->key = *key;
    }
    c->run = op->run_count;
    return c;
}

/* A change noted again after the commit was sent: it is what was sent, which the store borrows. */
static int txn_noted(struct kvfs_op *op, const struct snic_kvop_key *key)
{
    struct kvfs_change *c = txn_change_find(op, key);
    if (c != NULL)
        c->run = op->run_count;
    return 0;
}

int kvfs_put(struct kvfs_op *op, const struct snic_kvop_key *key, const void *body, uint32_t size)
{
    struct kvfs_change *c;
    uint32_t bytes;
    if (size > SNIC_KVOP_VALUE_MAX - SNIC_KVFS_HEAD)
        return SNIC_EMSGSIZE;
    if (op->commit_state != KVFS_COMMIT_NONE)
        return txn_noted(op, key);
    bytes = size + SNIC_KVFS_HEAD;
    c = txn_change(op, key);
    if (c == NULL)
        return SNIC_ENOMEM;
    if (c->room < bytes) {
        c->record = kvfs_memory(op, bytes);
        c->room = c->record == NULL ? 0 : bytes;
        if (c->record == NULL)
            return SNIC_ENOMEM;
    }
    c->kind = SNIC_KVOP_PUT;
    c->size = bytes;
    memset(c->record, 0, SNIC_KVFS_HEAD);
    memmove(c->record + SNIC_KVFS_HEAD, body, size);
    return 0;
}

int kvfs_delete(struct kvfs_op *op, const struct snic_kvop_key *key)
{
    struct kvfs_change *c;
    if (op->commit_state != KVFS_COMMIT_NONE)
        return txn_noted(op, key);
    c = txn_change(op, key);
    if (c == NULL)
        return SNIC_ENOMEM;
    c->kind = SNIC_KVOP_DELETE;
    c->size = 0;
    return 0;
}

int kvfs_change_object(struct kvfs_op *op, uint32_t kind, uint64_t object, uint64_t offset,
                       const void *bytes, uint32_t size)
{
    struct kvfs_change *c = op->changes;
    if (op->commit_state != KVFS_COMMIT_NONE)
        return 0;
    while (c != NULL && (c->key.size != 0 || c->object != object))
        c = c->next;
    if (c == NULL)
        c = txn_change_new(op);
    if (c == NULL)
        return SNIC_ENOMEM;
    c->run = op->run_count;
    c->kind = (uint8_t)kind;
    c->object = object;
    c->offset = offset;
    c->bytes = bytes;
    c->size = size;
    return 0;
}

void kvfs_private(struct kvfs_op *op, uint64_t ino)
{
    op->made = ino;
}

/* ---- Attributes ---- */

static int txn_get_attr(struct kvfs_op *op, uint64_t ino, uint8_t guard, struct snic_kvfs_attr *out)
{
    struct snic_kvop_key key;
    struct snic_kvfs_attr a;
    const void *body;
    uint32_t size;
    int rc;
    snic_kvfs_key(&key, ino, SNIC_KVFS_REC_ATTR);
    rc = txn_get(op, &key, guard, &body, &size);
    if (rc != 0)
        return rc;
    rc = snic_kvfs_attr_decode(&a, (const unsigned char *)body - SNIC_KVFS_HEAD,
                               size + SNIC_KVFS_HEAD);
    if (rc != 0 || a.ino != ino) {
        kvfs_damage(op->k, &key, "attributes that cannot be");
        return SNIC_ECORRUPT;
    }
    kvfs_times_merge(op->k, &a);
    *out = a;
    return 0;
}

int kvfs_get_attr(struct kvfs_op *op, uint64_t ino, struct snic_kvfs_attr *out)
{
    return txn_get_attr(op, ino, 1, out);
}

int kvfs_peek_attr(struct kvfs_op *op, uint64_t ino, struct snic_kvfs_attr *out)
{
    return txn_get_attr(op, ino, 0, out);
}

int kvfs_put_attr(struct kvfs_op *op, const struct snic_kvfs_attr *a)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_kvfs_attr next = *a;
    struct snic_kvop_key key;
    next.version++;
    snic_kvfs_attr_encode(record, &next);
    snic_kvfs_key(&key, a->ino, SNIC_KVFS_REC_ATTR);
    return kvfs_put(op, &key, record + SNIC_KVFS_HEAD, SNIC_KVFS_ATTR_BYTES - SNIC_KVFS_HEAD);
}

/* ---- Commit ---- */

struct txn_shape {
    uint32_t guards;
    uint32_t changes;
    uint64_t bytes;
    uint64_t group; /* of the first key                                                       */
    int several;    /* more than one group                                                    */
};

static void txn_shape_group(struct txn_shape *t, uint64_t group)
{
    if (t->guards + t->changes == 0)
        t->group = group;
    else if (group != t->group)
        t->several = 1;
}

static int txn_is_guard(const struct kvfs_read *r)
{
    return r->guard && (r->state == KVFS_READ_PRESENT || r->state == KVFS_READ_ABSENT);
}

static void txn_shape(const struct kvfs_op *op, struct txn_shape *t)
{
    memset(t, 0, sizeof(*t));
    for (const struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        if (c->run != op->run_count)
            continue;
        txn_shape_group(t, c->key.size != 0 ? c->key.group : c->object);
        t->changes++;
        t->bytes += c->size;
    }
    for (const struct kvfs_read *r = op->reads; r != NULL; r = r->next) {
        if (!txn_is_guard(r))
            continue;
        txn_shape_group(t, r->key.group);
        t->guards++;
        t->bytes += r->state == KVFS_READ_PRESENT ? r->size : 0;
    }
}

static void txn_fill_guards(const struct kvfs_op *op, struct snic_kvop *commit)
{
    for (const struct kvfs_read *r = op->reads; r != NULL; r = r->next) {
        struct snic_kvop_guard *g = &commit->guards[commit->guard_count];
        if (!txn_is_guard(r))
            continue;
        g->key = r->key;
        g->value = r->state == KVFS_READ_PRESENT ? r->record : NULL;
        g->size = r->state == KVFS_READ_PRESENT ? r->size : 0;
        g->reserved = 0;
        commit->guard_count++;
    }
}

static void txn_fill_changes(const struct kvfs_op *op, struct snic_kvop *commit)
{
    for (struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        struct snic_kvop_change *to = &commit->changes[commit->change_count];
        if (c->run != op->run_count)
            continue;
        c->sent = 1;
        memset(to, 0, sizeof(*to));
        to->key = c->key;
        to->kind = c->kind;
        to->size = c->size;
        to->object = c->object;
        to->offset = c->offset;
        to->value = c->bytes;
        if (c->kind == SNIC_KVOP_PUT) {
            snic_kvfs_seal(&c->key, c->record, c->size, 0);
            to->value = c->record;
        }
        commit->change_count++;
    }
}

static int txn_is_record(const struct kvfs_change *c)
{
    return c->kind == SNIC_KVOP_PUT || c->kind == SNIC_KVOP_DELETE;
}

/* The cache learns that a commit begins. */
static void txn_cache_sent(struct kvfs_op *op)
{
    op->sent = kvfs_cache_sent(op->k);
    for (struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        if (c->run != op->run_count)
            continue;
        c->sent = 1;
        if (txn_is_record(c))
            kvfs_cache_sent_key(op->k, kvfs_key_hash(&c->key));
    }
}

static int txn_send(struct kvfs_op *op, const struct txn_shape *t, int durable)
{
    struct kvfs_place *place = &op->place[KVFS_MAIN];
    struct snic_kvop *commit = &place->io.op;
    if (place->state == KVFS_PLACE_ASKED)
        return KVFS_PENDING; /* a GET of what was prefetched */
    memset(commit, 0, sizeof(*commit));
    commit->kind = SNIC_KVOP_COMMIT;
    commit->flags = (durable ? SNIC_KVOP_DURABLE : 0u) | (op->reserve ? SNIC_KVOP_RESERVE : 0u);
    commit->guards = kvfs_memory(op, t->guards * sizeof(*commit->guards));
    commit->changes = kvfs_memory(op, t->changes * sizeof(*commit->changes));
    if (commit->guards == NULL || commit->changes == NULL)
        return SNIC_ENOMEM;
    txn_fill_guards(op, commit);
    txn_fill_changes(op, commit);
    txn_cache_sent(op);
    op->commit_state = KVFS_COMMIT_ASKED;
    op->k->stats.store_commits++;
    kvfs_send(op, place);
    return KVFS_PENDING;
}

/* It has happened: what is kept in memory follows. */
static void txn_committed(struct kvfs_op *op)
{
    op->commit_state = KVFS_COMMIT_DONE;
    for (const struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        int put = c->kind == SNIC_KVOP_PUT;
        const struct kvfs_inode *i;
        struct snic_kvfs_attr a;
        if (!c->sent || !txn_is_record(c))
            continue;
        kvfs_cache_wrote(op->k, op->sent, &c->key, kvfs_key_hash(&c->key), c->record,
                         put ? c->size : 0);
        if (c->key.bytes[0] != SNIC_KVFS_REC_ATTR)
            continue;
        i = kvfs_inode_find(op->k, c->key.group);
        if (i == NULL || i->kept.set == 0)
            continue;
        if (!put)
            kvfs_times_forget(op->k, c->key.group);
        else if (snic_kvfs_attr_decode(&a, c->record, c->size) == 0)
            kvfs_times_written(op->k, &a);
    }
}

/* It may have happened, or it says that the cache was wrong. */
static void txn_distrust(struct kvfs_op *op)
{
    for (const struct kvfs_change *c = op->changes; c != NULL; c = c->next)
        if (c->sent && txn_is_record(c))
            kvfs_cache_forget(op->k, &c->key, kvfs_key_hash(&c->key));
    for (const struct kvfs_read *r = op->reads; r != NULL; r = r->next)
        kvfs_cache_forget(op->k, &r->key, r->hash);
}

static int txn_intent(struct kvfs_op *op, int durable)
{
    int rc;
    if (op->sent == 0)
        txn_cache_sent(op);
    rc = kvfs_intent_commit(op, durable);
    if (rc == 0)
        txn_committed(op);
    else if (rc < 0 || op->again)
        txn_distrust(op);
    return rc;
}

int kvfs_commit(struct kvfs_op *op, int durable)
{
    struct txn_shape t;
    if (op->commit_state == KVFS_COMMIT_DONE)
        return 0;
    if (op->commit_state == KVFS_COMMIT_FAILED)
        return op->commit_error;
    if (op->intent != NULL)
        return txn_intent(op, durable);
    if (op->commit_state != KVFS_COMMIT_NONE)
        return KVFS_PENDING;
    txn_shape(op, &t);
    if (t.changes == 0)
        return 0;
    if ((op->k->o.flags & SNIC_KVFS_READ_ONLY) != 0 && op->req != NULL &&
        op->req->kind < SNIC_KVFS_MKFS)
        return SNIC_EROFS;
    if (t.guards > SNIC_KVOP_GUARDS_MAX || t.changes > SNIC_KVOP_CHANGES_MAX ||
        t.bytes > SNIC_KVOP_COMMIT_MAX)
        return SNIC_EMSGSIZE;
    if (!t.several || (op->k->o.caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0)
        return txn_send(op, &t, durable);
    return txn_intent(op, durable);
}

int kvfs_committed(const struct kvfs_op *op)
{
    return op->commit_state == KVFS_COMMIT_DONE;
}

int64_t kvfs_commit_allocated(const struct kvfs_op *op)
{
    return op->allocated;
}

/* A guard failed: begin anew, later and later. */
void kvfs_txn_retry(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    k->stats.retries++;
    if (op->retries++ >= TXN_RETRIES_MAX) {
        op->commit_state = KVFS_COMMIT_FAILED;
        op->commit_error = SNIC_ETIMEDOUT;
        return;
    }
    op->again = 1;
    if (op->retries > TXN_RETRIES_AT_ONCE) {
        uint32_t n = op->retries - TXN_RETRIES_AT_ONCE;
        uint64_t most = (uint64_t)TXN_BACKOFF_NS
                        << (n < TXN_BACKOFF_DOUBLE ? n : TXN_BACKOFF_DOUBLE);
        snic_wheel_arm(&k->wheel, &op->timer, k->now.mono_ns + 1 + snic_rng_below(&k->rng, most));
        op->asleep = 1;
    }
}

/* ---- A commit of unknown outcome ---- */

/* Ask for what is there now of all keys it would have changed. */
static void txn_ask_outcome(struct kvfs_op *op)
{
    struct kvfs_place *place = &op->place[KVFS_MAIN];
    struct snic_kvop *get = &place->io.op;
    uint32_t count = 0;
    for (const struct kvfs_change *c = op->changes; c != NULL; c = c->next)
        count += c->sent && txn_is_record(c);
    memset(get, 0, sizeof(*get));
    get->kind = SNIC_KVOP_GET;
    get->gets = count == 0 ? NULL : kvfs_memory(op, count * sizeof(*get->gets));
    if (get->gets == NULL) {
        op->commit_state = KVFS_COMMIT_FAILED;
        op->commit_error = SNIC_EUNKNOWN;
        op->again = 0;
        return;
    }
    memset(get->gets, 0, count * sizeof(*get->gets));
    for (const struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        struct snic_kvop_get *g = &get->gets[get->get_count];
        if (!c->sent || !txn_is_record(c))
            continue;
        g->key = c->key;
        g->room = c->kind == SNIC_KVOP_PUT ? c->size : SNIC_KVFS_HEAD;
        g->value = kvfs_memory(op, g->room);
        if (g->value == NULL)
            g->room = 0;
        get->get_count++;
    }
    op->again = 0; /* of a lack of memory: a room of 0 says less, that is all */
    op->drop = 0;
    op->commit_state = KVFS_COMMIT_UNSURE;
    kvfs_send(op, place);
}

static int txn_is(const struct snic_kvop_get *g, const void *record, uint32_t size)
{
    return g->result == 0 && g->size == size && memcmp(g->value, record, size) == 0;
}

/*
 * 1: this key shows that the commit happened; -1: that it did not; 0: it shows nothing, because
 * somebody has changed it since, or because the change would leave it as it was.
 */
static int txn_shows(const struct kvfs_op *op, const struct kvfs_change *c,
                     const struct snic_kvop_get *g)
{
    const struct kvfs_read *r = txn_read_find(op, &c->key, kvfs_key_hash(&c->key));
    int known = r != NULL && txn_is_guard(r);
    int was_there = known && r->state == KVFS_READ_PRESENT;
    if (c->kind == SNIC_KVOP_PUT) {
        int same = was_there && r->size == c->size && memcmp(r->record, c->record, c->size) == 0;
        if (same || !known)
            return 0;
        if (txn_is(g, c->record, c->size))
            return 1;
        if (!was_there)
            return g->result == SNIC_ENOENT ? -1 : 0;
        return txn_is(g, r->record, r->size) || (g->result == SNIC_EMSGSIZE && g->size == r->size)
                   ? -1
                   : 0;
    }
    if (!was_there)
        return 0;
    return g->result == SNIC_ENOENT ? 1 : g->size == r->size ? -1 : 0;
}

static void txn_outcome(struct kvfs_op *op, const struct snic_kvop *get)
{
    int shows = 0;
    uint32_t n = 0;
    if (get->result == 0 || get->result == SNIC_ENOENT || get->result == SNIC_EMSGSIZE) {
        for (const struct kvfs_change *c = op->changes; c != NULL && shows == 0; c = c->next)
            if (c->sent && txn_is_record(c))
                shows = txn_shows(op, c, &get->gets[n++]);
    }
    if (shows > 0) {
        txn_committed(op);
    } else if (shows < 0) {
        op->commit_state = KVFS_COMMIT_NONE;
        kvfs_txn_retry(op);
    } else {
        op->commit_state = KVFS_COMMIT_FAILED;
        op->commit_error = SNIC_EUNKNOWN;
    }
}

static void txn_commit_done(struct kvfs_op *op, const struct snic_kvop *commit)
{
    SNIC_ASSERT(op->commit_state == KVFS_COMMIT_ASKED);
    if (commit->result >= 0) {
        op->allocated = commit->allocated;
        txn_committed(op);
        return;
    }
    txn_distrust(op);
    if (commit->result == SNIC_ECANCELED && commit->failed_guard != UINT32_MAX) {
        op->commit_state = KVFS_COMMIT_NONE;
        kvfs_txn_retry(op);
    } else if (commit->result == SNIC_EUNKNOWN) {
        txn_ask_outcome(op);
    } else {
        op->commit_state = KVFS_COMMIT_FAILED;
        op->commit_error = txn_store_error(commit->result);
    }
}

void kvfs_txn_done(struct kvfs_op *op)
{
    struct kvfs_place *place = &op->place[KVFS_MAIN];
    place->state = KVFS_PLACE_FREE;
    if (op->commit_state == KVFS_COMMIT_UNSURE)
        txn_outcome(op, &place->io.op);
    else if (place->io.op.kind == SNIC_KVOP_GET)
        txn_get_done(op, &place->io.op);
    else
        txn_commit_done(op, &place->io.op);
}

/* ---- Other operations of the store ---- */

int kvfs_io_in(struct kvfs_op *op, struct kvfs_place *place, const struct snic_kvop *want,
               const struct snic_kvop **got)
{
    const struct snic_kvop *o = &place->io.op;
    if (place->state == KVFS_PLACE_ASKED)
        return KVFS_PENDING;
    if (place->state == KVFS_PLACE_FREE) {
        place->io.op = *want;
        op->k->stats.store_objects += want->kind >= SNIC_KVOP_OBJECT_READ;
        kvfs_send(op, place);
        return KVFS_PENDING;
    }
    *got = o;
    return o->result < 0 ? txn_store_error(o->result) : 0;
}

int kvfs_io(struct kvfs_op *op, uint32_t n, const struct snic_kvop *want,
            const struct snic_kvop **got)
{
    SNIC_ASSERT(n < KVFS_IOS_MAX);
    return kvfs_io_in(op, &op->place[n], want, got);
}

void kvfs_io_forget(struct kvfs_op *op, uint32_t n)
{
    SNIC_ASSERT(n < KVFS_IOS_MAX && op->place[n].state != KVFS_PLACE_ASKED);
    op->place[n].state = KVFS_PLACE_FREE;
}
