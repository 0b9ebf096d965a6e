/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sessions: one per mount of a store, a record each in the group of the superblock.
 *
 * S1 A session exists while its record 's' exists without SNIC_KVFS_SESSION_DEAD. Every change of a
 *    session's record is guarded by the record as read; so of several that declare it dead one
 *    wins, and a heartbeat of the declared one fails.
 * S2 Every arrival rewrites the table record ('s' 0), guarded by it. It is the first record of a
 *    scan of the table, so all other records of the scan were read later than it.
 * S3 A session caches records only while its own record has SNIC_KVFS_SESSION_CACHES. It is
 *    written by an arrival that found the table empty, or later, guarded by the table record of a
 *    scan that showed no other session: with S2, a session that has arrived unseen makes that
 *    commit fail, and one that arrives later sees the flag.
 * S4 A newcomer serves no request until no other session alive has the flag. To clear it, a
 *    session first stops caching, waits for the operations that began before (they made decisions
 *    as if alone), writes deferred times and locks, and then its record.
 * S5 A session whose heartbeat did not change for lease_ns of the observer's clock is dead, guarded
 *    by that very heartbeat; while the store reports no other handle, all are. The session itself
 *    stops serving when half of that has passed since it last proved that its record exists
 *    (kvfs_session_admit), counted from before the proof was requested.
 * S6 A dead session is removed in this order: flag DEAD (no commit of it takes effect any more that
 *    is guarded by records that recovery changes), its intents, its inodes without a name, its
 *    record. Everything may be repeated, and is, by any session that finds the flag.
 * S7 The fence: a record that never changes while the session exists, and is deleted by the very
 *    commit that sets DEAD (or with the session's record). Where a commit may name several groups
 *    (SNIC_KV_CAP_ATOMIC_MULTI) each commit of the session's operations is guarded by it. Commits
 *    have an order in the store; one of the session behind the commit that sets DEAD does not find
 *    the fence, and changes nothing. So all reads after that commit (by recovery, and by sessions
 *    that have seen it) already see all that the session will ever have committed. Identities are
 *    never reused, so a fence is not created again. Elsewhere a late commit is stopped by its other
 *    guards only: it happens as if it had been slow, or not at all. Object bytes written in place
 *    are no commits: a write in flight may take effect late, unless the client was fenced (S9).
 * S8 What is cached outside of the engine (by a kernel, a hybrid cache) ends when the session stops
 *    serving (S5), by itself, since the process may not run then: kvfs_session_valid_until(). The
 *    other half of the lease is for the time between a result and its arrival in that cache.
 * S9 The client: where the store can fence (SNIC_KV_CAP_FENCE, RADOS), a session is declared dead
 *    only after its client, whose identity is in the fence's record, was shut out of the store; who
 *    finds the flag set by another does it again before it acts upon it. So what recovery reads has
 *    all that the session will ever have changed, object bytes in flight included. If the client
 *    cannot be fenced the session is not declared dead. A client that finds itself shut out marks
 *    its own session as dead.
 */
#include "kvfs/session_priv.h"

enum { KVFS_SESSION_RETRY_NS = 200000 }; /* no operation was free for a heartbeat */

/* ---- The table ---- */

const struct kvfs_session_row *kvfs_session_row(const struct kvfs_session_table *t, uint64_t id)
{
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->rows[i].id == id)
            return &t->rows[i];
    }
    return NULL;
}

/* One record of the scan. */
static int kvfs_session_parse(struct snic_kvfs *k, struct kvfs_session_table *t,
                              const struct snic_kvop_record *r)
{
    const unsigned char *value = snic_kvop_record_value(r);
    const unsigned char *bytes = snic_kvop_record_key(r);
    struct snic_kvop_key key;
    uint64_t number;
    snic_kvop_key_set(&key, SNIC_KVFS_GROUP_SUPER, bytes, r->key_size);
    int rc = snic_kvfs_verify(&key, value, r->value_size);
    if (rc == 0 && r->key_size == 10 && bytes[9] == 'f') { /* S7, S9 */
        struct kvfs_session_row *row = t->count > 0 ? &t->rows[t->count - 1] : NULL;
        if (row == NULL || row->id != snic_get_be64(bytes + 1))
            return 0;
        rc = snic_kvfs_fence_decode(&row->client, &row->client_size, value, r->value_size);
        if (rc == 0)
            return 0;
    }
    if (rc == 0 && (r->key_size == 9 || (r->key_size == 10 && bytes[9] == 'b'))) {
        uint64_t id = snic_get_be64(bytes + 1);
        struct kvfs_session_row *row = t->count > 0 ? &t->rows[t->count - 1] : NULL;
        if (r->key_size == 10) {
            rc = snic_kvfs_number_decode(&number, value, r->value_size);
            if (rc == 0 && row != NULL && row->id == id) {
                row->counter = number;
                row->beat = value;
                row->beat_size = r->value_size;
            }
        } else if (id == 0) {
            rc = snic_kvfs_number_decode(&t->version, value, r->value_size);
            t->table = value;
            t->table_size = r->value_size;
        } else if (t->count == KVFS_SESSIONS_MAX) { /* no arrival adds one more (S2) */
            rc = SNIC_ECORRUPT;
        } else {
            row = &t->rows[t->count++];
            row->id = id;
            row->record = value;
            row->size = r->value_size;
            rc = snic_kvfs_session_decode(&row->s, value, r->value_size);
        }
    } else if (rc >= 0) {
        rc = SNIC_ECORRUPT;
    }
    if (rc < 0)
        kvfs_report_damage(k, &key, "session record malformed");
    return rc;
}

/* Record the scan's findings about the others. */
static void kvfs_session_note(struct snic_kvfs *k, const struct kvfs_session_table *t)
{
    struct kvfs_session *s = &k->session;
    s->round++;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct kvfs_session_row *row = &t->rows[i];
        struct kvfs_other *o = NULL;
        if (row->id == s->id || (row->s.flags & SNIC_KVFS_SESSION_DEAD) != 0)
            continue;
        for (uint32_t j = 0; j < s->other_count && o == NULL; j++) {
            if (s->others[j].id == row->id)
                o = &s->others[j];
        }
        if (o == NULL && s->other_count < KVFS_SESSIONS_MAX) {
            o = &s->others[s->other_count++];
            o->id = row->id;
            o->counter = row->counter;
            o->moved_ns = k->now.mono_ns;
        }
        if (o == NULL)
            continue;
        if (o->counter != row->counter) {
            o->counter = row->counter;
            o->moved_ns = k->now.mono_ns;
        }
        o->flags = row->s.flags;
        o->round = s->round;
    }
    for (uint32_t j = 0; j < s->other_count;) {
        if (s->others[j].round == s->round) {
            j++;
            continue;
        }
        kvfs_session_note_lookup(s, s->others[j].id, 0); /* an identity is never reused */
        s->others[j] = s->others[--s->other_count];
    }
}

int kvfs_session_scan(struct kvfs_op *op, uint32_t n, struct kvfs_session_table **out)
{
    struct kvfs_session_table *t = kvfs_alloc(op, sizeof(*t));
    unsigned char *room = kvfs_alloc(op, KVFS_SESSION_SCAN);
    const struct snic_kvop *got;
    if (t == NULL || room == NULL)
        return SNIC_ENOMEM;
    if (t->begun == 0)
        t->begun = ++op->k->session.scans_begun;
    struct snic_kvop want = {.kind = SNIC_KVOP_SCAN,
                             .scan_max = 3 * KVFS_SESSIONS_MAX + 2,
                             .out = room,
                             .out_room = KVFS_SESSION_SCAN};
    unsigned char prefix = SNIC_KVFS_REC_SESSION;
    snic_kvop_key_set(&want.key, SNIC_KVFS_GROUP_SUPER, &prefix, 1);
    int rc = kvfs_io(op, n, &want, &got);
    if (rc != 0)
        return rc;
    *out = t;
    if (t->parsed)
        return 0;
    t->parsed = 1;
    op->k->session.round_begun = snic_max_u64(op->k->session.round_begun, t->begun);
    for (const struct snic_kvop_record *r = snic_kvop_first(got); r != NULL && rc == 0;
         r = snic_kvop_next(got, r))
        rc = kvfs_session_parse(op->k, t, r);
    if (rc == 0 && !got->end) { /* nor so many records */
        kvfs_report_damage(op->k, &want.key, "more session records than sessions can exist");
        rc = SNIC_ECORRUPT;
    }
    if (rc != 0)
        return rc;
    kvfs_session_note(op->k, t);
    return 0;
}

int kvfs_session_reload(struct kvfs_op *op, uint32_t n)
{
    struct kvfs_session_table *t;
    return kvfs_session_scan(op, n, &t);
}

/* ---- Commits in the superblock's group ---- */

void kvfs_session_guard(struct kvfs_session_tx *x, const struct snic_kvop_key *key,
                        const void *value, uint32_t size)
{
    SNIC_ASSERT(x->guard_count < SNIC_COUNTOF(x->guards));
    struct snic_kvop_guard *g = &x->guards[x->guard_count++];
    g->key = *key;
    g->value = value;
    g->size = size;
}

static struct snic_kvop_change *kvfs_session_change(struct kvfs_session_tx *x,
                                                    const struct snic_kvop_key *key, uint32_t kind)
{
    SNIC_ASSERT(x->change_count < SNIC_COUNTOF(x->changes));
    struct snic_kvop_change *c = &x->changes[x->change_count++];
    c->key = *key;
    c->kind = kind;
    return c;
}

void kvfs_session_delete(struct kvfs_session_tx *x, const struct snic_kvop_key *key)
{
    (void)kvfs_session_change(x, key, SNIC_KVOP_DELETE);
}

void kvfs_session_put_number(struct kvfs_session_tx *x, const struct snic_kvop_key *key,
                             uint64_t number)
{
    unsigned char *bytes = x->bytes[x->change_count];
    struct snic_kvop_change *c = kvfs_session_change(x, key, SNIC_KVOP_PUT);
    snic_kvfs_number_encode(bytes, number);
    c->value = bytes;
    c->size = SNIC_KVFS_NUMBER_BYTES;
    snic_kvfs_seal(key, bytes, c->size, 0);
}

void kvfs_session_put(struct kvfs_session_tx *x, const struct snic_kvop_key *key,
                      const struct snic_kvfs_session *s)
{
    unsigned char *bytes = x->bytes[x->change_count];
    struct snic_kvop_change *c = kvfs_session_change(x, key, SNIC_KVOP_PUT);
    c->size = snic_kvfs_session_encode(bytes, s);
    c->value = bytes;
    snic_kvfs_seal(key, bytes, c->size, 0);
}

void kvfs_session_put_fence(struct kvfs_session_tx *x, const struct snic_kvop_key *key,
                            const struct snic_kvfs *k)
{
    unsigned char *bytes = x->bytes[x->change_count];
    struct snic_kvop_change *c = kvfs_session_change(x, key, SNIC_KVOP_PUT);
    c->size = snic_kvfs_fence_encode(bytes, k->o.identity, k->o.identity_size);
    c->value = bytes;
    snic_kvfs_seal(key, bytes, c->size, 0);
}

int kvfs_session_commit(struct kvfs_op *op, uint32_t n, struct kvfs_session_tx *x, int durable)
{
    const struct snic_kvop *got;
    SNIC_ASSERT(x->guard_count > 0 && x->change_count > 0); /* S1: every change has a guard */
    struct snic_kvop want = {.kind = SNIC_KVOP_COMMIT,
                             .flags = SNIC_KVOP_RESERVE | (durable ? SNIC_KVOP_DURABLE : 0u),
                             .guards = x->guards,
                             .guard_count = x->guard_count,
                             .changes = x->changes,
                             .change_count = x->change_count};
    x->built = 1;
    int rc = kvfs_io(op, n, &want, &got);
    return rc < 0 && got->result == SNIC_ECANCELED ? kvfs_restart(op) : rc;
}

int kvfs_session_remove(struct kvfs_op *op, uint32_t n, const struct kvfs_session_row *row,
                        int durable)
{
    struct kvfs_session_tx *x = kvfs_alloc(op, sizeof(*x));
    struct snic_kvop_key key;
    if (x == NULL)
        return SNIC_ENOMEM;
    if (!x->built) {
        kvfs_session_key(&key, row->id);
        kvfs_session_guard(x, &key, row->record, row->size);
        kvfs_session_delete(x, &key);
        snic_kvfs_key_beat(&key, row->id);
        kvfs_session_delete(x, &key);
        snic_kvfs_key_fence(&key, row->id);
        kvfs_session_delete(x, &key);
    }
    return kvfs_session_commit(op, n, x, durable);
}

void kvfs_session_key(struct snic_kvop_key *key, uint64_t id)
{
    snic_kvfs_key_number(key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, id);
}

/* ---- The fence (S7) ---- */

void kvfs_session_set_fence(struct snic_kvfs *k)
{
    struct kvfs_session *s = &k->session;
    SNIC_ASSERT(s->id != 0);
    snic_kvfs_key_fence(&s->fence_key, s->id);
    s->fence_size = snic_kvfs_fence_encode(s->fence, k->o.identity, k->o.identity_size);
    snic_kvfs_seal(&s->fence_key, s->fence, s->fence_size, 0);
}

/* ---- Time ---- */

void kvfs_session_init(struct snic_kvfs *k)
{
    memset(&k->session, 0, sizeof(k->session));
    k->session.next_ns = SNIC_NEVER;
    snic_link_init(&k->session.waiters);
}

void kvfs_session_wake(struct snic_kvfs *k)
{
    kvfs_wake_all(&k->session.waiters);
}

uint64_t kvfs_session_deadline(const struct snic_kvfs *k)
{
    return snic_min_u64(k->session.busy ? SNIC_NEVER : k->session.next_ns, kvfs_times_deadline(k));
}

void kvfs_session_advance(struct snic_kvfs *k)
{
    struct kvfs_session *s = &k->session;
    if (kvfs_times_deadline(k) <= k->now.mono_ns) {
        if (kvfs_spawn(k, KVFS_OWN_TIMES, 0) != NULL)
            s->timing = 1;
        else
            s->times_retry_ns = k->now.mono_ns + KVFS_SESSION_RETRY_NS;
    }
    if (s->was_sole != k->sole) {
        s->was_sole = k->sole;
        if (s->next_ns != SNIC_NEVER)
            s->next_ns = k->now.mono_ns;
    }
    if (s->busy || k->now.mono_ns < s->next_ns)
        return;
    if (kvfs_spawn(k, KVFS_OWN_HEARTBEAT, 0) != NULL)
        s->busy = 1;
    else
        s->next_ns = k->now.mono_ns + KVFS_SESSION_RETRY_NS;
}

void kvfs_session_heartbeat_now(struct snic_kvfs *k)
{
    if (k->session.next_ns != SNIC_NEVER)
        k->session.next_ns = k->now.mono_ns;
}

int kvfs_session_admit(struct kvfs_op *op)
{
    const struct kvfs_session *s = &op->k->session;
    if (s->mounted)
        return kvfs_session_check_lease(op);
    return s->id == 0 && !s->dead ? SNIC_EINVAL : SNIC_EIO; /* not mounted, or dead */
}

int kvfs_session_check_lease(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    struct kvfs_session *s = &k->session;
    if (s->dead)
        return SNIC_EIO;
    SNIC_DASSERT(s->proven_ns <= k->now.mono_ns);
    if (s->next_ns == SNIC_NEVER || k->now.mono_ns - s->proven_ns < k->o.lease_ns / 2) { /* S5 */
        op->gate = 0;
        return 0;
    }
    if (op->gate != 0 && op->gate != s->failures + 1)
        return s->failure; /* one has failed since this operation began to wait */
    op->gate = s->failures + 1;
    kvfs_session_heartbeat_now(k);
    kvfs_session_advance(k);
    (void)kvfs_wait(op, &s->waiters, SNIC_NEVER, 0);
    op->drop = 1; /* the round starts over, not in its middle: its memory was released */
    return kvfs_restart(op);
}

uint64_t kvfs_session_valid_until(const struct snic_kvfs *k)
{
    const struct kvfs_session *s = &k->session;
    if (!s->mounted || s->dead || !s->alone)
        return 0;
    return k->sole ? SNIC_NEVER : s->proven_ns + k->o.lease_ns / 2; /* S8 */
}

int kvfs_session_range(struct kvfs_op *op, uint64_t first, uint64_t count)
{
    struct snic_kvop_key key;
    struct snic_kvfs_session own;
    unsigned char record[SNIC_KVFS_SESSION_BYTES];
    const void *body;
    uint32_t size;
    kvfs_session_key(&key, op->k->session.id);
    int rc = kvfs_get(op, &key, &body, &size);
    if (rc != 0)
        return rc == SNIC_ENOENT ? SNIC_EIO : rc; /* S1 */
    rc = snic_kvfs_session_decode(&own, (const unsigned char *)body - SNIC_KVFS_HEAD,
                                  size + SNIC_KVFS_HEAD);
    if (rc != 0)
        return rc;
    if ((own.flags & SNIC_KVFS_SESSION_DEAD) != 0)
        return SNIC_EIO;
    if (own.range_count == SNIC_KVFS_SESSION_RANGES_MAX) {
        /* Inodes made so long ago have their names, or were deleted again. */
        own.range_count--;
        memmove(own.ranges, own.ranges + 1, own.range_count * sizeof(own.ranges[0]));
    }
    SNIC_ASSERT(own.range_count < SNIC_KVFS_SESSION_RANGES_MAX);
    own.ranges[own.range_count].first = first;
    own.ranges[own.range_count++].count = count;
    size = snic_kvfs_session_encode(record, &own);
    return kvfs_put(op, &key, record + SNIC_KVFS_HEAD, size - SNIC_KVFS_HEAD);
}
