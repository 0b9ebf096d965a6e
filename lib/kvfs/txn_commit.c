/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The commit of an operation: sent, done, refused, or of unknown outcome.
 *
 * T3  A commit is guarded by all that kvfs_get() returned in this round, and is in flight or done
 *     at most once in it. Where the store can, it is guarded by the session's fence, too
 *     (session.c, S7).
 * T4  A guard that fails starts the operation over; all records that it read and would have changed
 *     are dropped from the cache, so that a stale one cannot make it fail forever.
 * T5  If the store does not know whether a commit has happened, its keys are read again. As it is
 *     atomic, one key decides: one that has the new record and had another one before shows that
 *     it has, one that has the old record and should have another one that it has not. Where others
 *     have changed all of them since, the outcome is unknown: SNIC_EUNKNOWN.
 */
#include "kvfs/txn_priv.h"

/* ---- What it has ---- */

struct kvfs_txn_commit_shape {
    uint32_t fence;  /* guards: the session's, 0 or 1 ...                                      */
    uint32_t guards; /* ... and those on what was read                                         */
    uint32_t changes;
    uint64_t bytes;
    uint64_t group; /* of the first key                                                       */
    int several;    /* more than one group                                                    */
};

static void kvfs_txn_commit_shape_group(struct kvfs_txn_commit_shape *t, uint64_t group)
{
    if (t->guards + t->changes == 0)
        t->group = group;
    else if (group != t->group)
        t->several = 1;
}

static void kvfs_txn_commit_shape(const struct kvfs_op *op, struct kvfs_txn_commit_shape *t)
{
    memset(t, 0, sizeof(*t));
    t->fence = (uint32_t)kvfs_fence_guard(op->k, NULL);
    for (const struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        if (c->run != op->run_count)
            continue;
        kvfs_txn_commit_shape_group(t, c->key.size != 0 ? c->key.group : c->object);
        t->changes++;
        t->bytes += c->size;
    }
    for (const struct kvfs_read *r = op->reads; r != NULL; r = r->next) {
        if (!kvfs_txn_is_guard(r))
            continue;
        kvfs_txn_commit_shape_group(t, r->key.group);
        t->guards++;
        t->bytes += r->state == KVFS_READ_PRESENT ? r->size : 0;
    }
}

static void kvfs_txn_commit_fill_guards(const struct kvfs_op *op, struct snic_kvop *commit)
{
    for (const struct kvfs_read *r = op->reads; r != NULL; r = r->next) {
        struct snic_kvop_guard *g = &commit->guards[commit->guard_count];
        if (!kvfs_txn_is_guard(r))
            continue;
        g->key = r->key;
        g->value = r->state == KVFS_READ_PRESENT ? r->record : NULL;
        g->size = r->state == KVFS_READ_PRESENT ? r->size : 0;
        g->reserved = 0;
        commit->guard_count++;
    }
}

static void kvfs_txn_commit_fill_changes(const struct kvfs_op *op, struct snic_kvop *commit)
{
    for (struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        struct snic_kvop_change *to = &commit->changes[commit->change_count];
        if (c->run != op->run_count)
            continue;
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

static int kvfs_txn_commit_is_record(const struct kvfs_change *c)
{
    return c->kind == SNIC_KVOP_PUT || c->kind == SNIC_KVOP_DELETE;
}

/* A commit begins: notify the cache of its changes. */
static void kvfs_txn_commit_cache_sent(struct kvfs_op *op)
{
    op->sent = kvfs_cache_sent(op->k);
    for (struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        if (c->run != op->run_count)
            continue;
        c->sent = 1;
        if (kvfs_txn_commit_is_record(c))
            kvfs_cache_sent_key(op->k, kvfs_key_hash(&c->key));
    }
}

static int kvfs_txn_commit_send(struct kvfs_op *op, const struct kvfs_txn_commit_shape *t,
                                int durable)
{
    struct kvfs_place *place = &op->place[KVFS_MAIN];
    struct snic_kvop *commit = &place->io.op;
    SNIC_ASSERT(op->commit_state == KVFS_COMMIT_NONE); /* T3: once in a round */
    if (place->state == KVFS_PLACE_SENT)
        return KVFS_PENDING; /* a GET of prefetched records is in flight */
    memset(commit, 0, sizeof(*commit));
    commit->kind = SNIC_KVOP_COMMIT;
    commit->flags = (durable ? SNIC_KVOP_DURABLE : 0u) | (op->reserve ? SNIC_KVOP_RESERVE : 0u);
    commit->guards = kvfs_memory(op, (t->fence + t->guards) * sizeof(*commit->guards));
    commit->changes = kvfs_memory(op, t->changes * sizeof(*commit->changes));
    if (commit->guards == NULL || commit->changes == NULL)
        return SNIC_ENOMEM;
    /* The fence is first: if several guards fail it is the one reported. */
    commit->guard_count = (uint32_t)kvfs_fence_guard(op->k, commit->guards);
    kvfs_txn_commit_fill_guards(op, commit);
    kvfs_txn_commit_fill_changes(op, commit);
    SNIC_ASSERT(commit->guard_count == t->fence + t->guards);
    SNIC_ASSERT(commit->change_count == t->changes);
    kvfs_txn_commit_cache_sent(op);
    op->commit_state = KVFS_COMMIT_SENT;
    op->k->stats.store_commits++;
    kvfs_send(op, place);
    return KVFS_PENDING;
}

/* It has happened: update the state in memory. */
static void kvfs_txn_committed(struct kvfs_op *op)
{
    SNIC_ASSERT(op->commit_state == KVFS_COMMIT_SENT || op->commit_state == KVFS_COMMIT_UNKNOWN);
    op->commit_state = KVFS_COMMIT_DONE;
    for (const struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        int put = c->kind == SNIC_KVOP_PUT;
        const struct kvfs_inode *i;
        struct snic_fsop_attr a;
        if (!c->sent || !kvfs_txn_commit_is_record(c))
            continue;
        kvfs_cache_wrote(op->k, op->sent, &c->key, kvfs_key_hash(&c->key), c->record,
                         put ? c->size : 0);
        if (c->key.bytes[0] != SNIC_KVFS_REC_ATTR)
            continue;
        i = kvfs_inode_find(op->k, c->key.group);
        if (i == NULL || i->deferred.set == 0)
            continue;
        if (!put)
            kvfs_times_forget(op->k, c->key.group);
        else if (snic_kvfs_attr_decode(&a, c->record, c->size) == 0)
            kvfs_times_written(op->k, &a);
    }
}

/* It may have happened, or a failed guard shows that the cache was wrong. */
static void kvfs_txn_commit_uncache(struct kvfs_op *op)
{
    for (const struct kvfs_change *c = op->changes; c != NULL; c = c->next)
        if (c->sent && kvfs_txn_commit_is_record(c))
            kvfs_cache_forget(op->k, &c->key, kvfs_key_hash(&c->key));
    for (const struct kvfs_read *r = op->reads; r != NULL; r = r->next)
        kvfs_cache_forget(op->k, &r->key, r->hash);
}

/* Its outcome stays unknown. */
static void kvfs_txn_commit_outcome_unknown(struct kvfs_op *op)
{
    struct snic_fsop_attr a;
    for (const struct kvfs_change *c = op->changes; c != NULL; c = c->next)
        if (c->sent && c->kind == SNIC_KVOP_PUT && c->key.bytes[0] == SNIC_KVFS_REC_ATTR &&
            snic_kvfs_attr_decode(&a, c->record, c->size) == 0)
            kvfs_times_outcome_unknown(op->k, &a);
    op->commit_state = KVFS_COMMIT_FAILED;
    op->commit_error = SNIC_EUNKNOWN;
}

static int kvfs_txn_commit_intent(struct kvfs_op *op, int durable)
{
    int rc;
    if (op->sent == 0)
        kvfs_txn_commit_cache_sent(op);
    rc = kvfs_intent_commit(op, durable);
    if (rc == 0)
        kvfs_txn_committed(op);
    else if (rc < 0 || op->again)
        kvfs_txn_commit_uncache(op);
    if (rc == SNIC_EUNKNOWN && !op->again)
        kvfs_txn_commit_outcome_unknown(op);
    return rc;
}

int kvfs_commit(struct kvfs_op *op, int durable)
{
    struct kvfs_txn_commit_shape t;
    if (op->commit_state == KVFS_COMMIT_DONE)
        return 0;
    if (op->commit_state == KVFS_COMMIT_FAILED)
        return op->commit_error;
    if (op->intent != NULL)
        return kvfs_txn_commit_intent(op, durable);
    if (op->commit_state != KVFS_COMMIT_NONE)
        return KVFS_PENDING;
    kvfs_txn_commit_shape(op, &t);
    if (t.changes == 0)
        return 0;
    if ((op->k->o.flags & SNIC_KVFS_READ_ONLY) != 0 && op->req != NULL &&
        op->req->kind < SNIC_FSOP_MKFS)
        return SNIC_EROFS;
    if (t.fence + t.guards > SNIC_KVOP_GUARDS_MAX || t.changes > SNIC_KVOP_CHANGES_MAX ||
        t.bytes > SNIC_KVOP_COMMIT_MAX)
        return SNIC_EMSGSIZE;
    if (!t.several || (op->k->o.caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0)
        return kvfs_txn_commit_send(op, &t, durable);
    return kvfs_txn_commit_intent(op, durable);
}

int kvfs_commit_reply(struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    struct snic_fsop_attr *sent = kvfs_alloc(op, sizeof(*sent));
    int rc;
    if (sent == NULL)
        return SNIC_ENOMEM;
    if (op->commit_state == KVFS_COMMIT_NONE)
        *sent = *a;
    rc = kvfs_commit(op, 0);
    if (rc == 0)
        kvfs_reply_attr(op, sent);
    return rc;
}

int kvfs_committed(const struct kvfs_op *op)
{
    return op->commit_state == KVFS_COMMIT_DONE;
}

int64_t kvfs_commit_allocated(const struct kvfs_op *op)
{
    return op->allocated;
}

/* ---- A commit of unknown outcome ---- */

/* The read of a key that guards the commit; NULL: none. */
static const struct kvfs_read *kvfs_txn_commit_guard(const struct kvfs_op *op,
                                                     const struct snic_kvop_key *key)
{
    const struct kvfs_read *r = kvfs_txn_read_find(op, key, kvfs_key_hash(key));
    return r != NULL && kvfs_txn_is_guard(r) ? r : NULL;
}

/* Read the present records of all keys that it would have changed, with space for old and new. */
static void kvfs_txn_commit_query_outcome(struct kvfs_op *op)
{
    struct kvfs_place *place = &op->place[KVFS_MAIN];
    struct snic_kvop *get = &place->io.op;
    uint32_t count = 0;
    for (const struct kvfs_change *c = op->changes; c != NULL; c = c->next)
        count += c->sent && kvfs_txn_commit_is_record(c);
    memset(get, 0, sizeof(*get));
    get->kind = SNIC_KVOP_GET;
    get->gets = count == 0 ? NULL : kvfs_memory(op, count * sizeof(*get->gets));
    if (get->gets == NULL) {
        kvfs_txn_commit_outcome_unknown(op);
        op->again = 0;
        return;
    }
    memset(get->gets, 0, count * sizeof(*get->gets));
    for (const struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        struct snic_kvop_get *g = &get->gets[get->get_count];
        const struct kvfs_read *r;
        if (!c->sent || !kvfs_txn_commit_is_record(c))
            continue;
        r = kvfs_txn_commit_guard(op, &c->key);
        g->key = c->key;
        g->room = c->kind == SNIC_KVOP_PUT ? c->size : SNIC_KVFS_HEAD;
        if (r != NULL && r->state == KVFS_READ_PRESENT && r->size > g->room)
            g->room = r->size;
        g->value = kvfs_memory(op, g->room);
        if (g->value == NULL)
            g->room = 0;
        get->get_count++;
    }
    SNIC_ASSERT(get->get_count == count);
    op->again = 0; /* set by a lack of memory: without space the key only shows less */
    op->drop = 0;
    op->commit_state = KVFS_COMMIT_UNKNOWN;
    kvfs_send(op, place);
}

static int kvfs_txn_commit_matches(const struct snic_kvop_get *g, const void *record, uint32_t size)
{
    return g->result == 0 && g->size == size && memcmp(g->value, record, size) == 0;
}

/*
 * 1: this key shows that the commit happened; -1: that it did not; 0: it shows nothing, because
 * it was changed since, or because the change would leave it as it was.
 */
static int kvfs_txn_commit_evidence(const struct kvfs_op *op, const struct kvfs_change *c,
                                    const struct snic_kvop_get *g)
{
    const struct kvfs_read *r = kvfs_txn_commit_guard(op, &c->key);
    int was_there = r != NULL && r->state == KVFS_READ_PRESENT;
    int is_old =
        was_there ? kvfs_txn_commit_matches(g, r->record, r->size) : g->result == SNIC_ENOENT;
    if (r == NULL)
        return 0;
    if (c->kind == SNIC_KVOP_DELETE)
        return !was_there ? 0 : is_old ? -1 : g->result == SNIC_ENOENT;
    if (was_there && r->size == c->size && memcmp(r->record, c->record, c->size) == 0)
        return 0;
    return is_old ? -1 : kvfs_txn_commit_matches(g, c->record, c->size);
}

static void kvfs_txn_commit_outcome(struct kvfs_op *op, const struct snic_kvop *get)
{
    int shows = 0;
    uint32_t n = 0;
    if (get->result == 0 || get->result == SNIC_ENOENT || get->result == SNIC_EMSGSIZE) {
        for (const struct kvfs_change *c = op->changes; c != NULL && shows == 0; c = c->next)
            if (c->sent && kvfs_txn_commit_is_record(c))
                shows = kvfs_txn_commit_evidence(op, c, &get->gets[n++]);
    }
    if (shows > 0) {
        op->allocated = INT64_MIN;
        kvfs_txn_committed(op);
    } else if (shows < 0) {
        op->commit_state = KVFS_COMMIT_NONE;
        kvfs_txn_retry(op);
    } else {
        kvfs_txn_commit_outcome_unknown(op);
    }
}

void kvfs_txn_commit_done(struct kvfs_op *op, const struct snic_kvop *commit)
{
    if (op->commit_state == KVFS_COMMIT_UNKNOWN) {
        kvfs_txn_commit_outcome(op, commit);
        return;
    }
    SNIC_ASSERT(op->commit_state == KVFS_COMMIT_SENT);
    if (commit->result >= 0) {
        op->allocated = commit->allocated;
        kvfs_txn_committed(op);
        return;
    }
    kvfs_txn_commit_uncache(op);
    if (commit->result == SNIC_ECANCELED && commit->failed_guard != UINT32_MAX &&
        kvfs_fence_failed(op->k, commit)) {
        op->commit_state = KVFS_COMMIT_FAILED;
        op->commit_error = SNIC_EIO;
    } else if (commit->result == SNIC_ECANCELED && commit->failed_guard != UINT32_MAX) {
        op->commit_state = KVFS_COMMIT_NONE;
        kvfs_txn_retry(op);
    } else if (commit->result == SNIC_EUNKNOWN) {
        kvfs_txn_commit_query_outcome(op);
    } else {
        op->commit_state = KVFS_COMMIT_FAILED;
        op->commit_error = kvfs_txn_error(commit->result);
    }
}
