/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sessions: the engine's own operations. The invariants S1 to S7 are in session.c.
 *
 * The heartbeat is one scan and at most one commit, so that it is never late because of its
 * findings: longer tasks are operations of their own (yield, recover, sweep), one of each at a
 * time, and are started again by a later heartbeat if they failed.
 */
#include "kvfs/session_priv.h"

enum { KVFS_SESSION_RUN_WAIT_NS = 100000 }; /* between checks of operations that must end */
/* Phases of the end of caching. */
enum { KVFS_YIELD_WAIT = 0, KVFS_YIELD_TIMES, KVFS_YIELD_LOCKS, KVFS_YIELD_FLAG };
/* Phases of the removal of a dead session: TABLE determines the next step. */
enum { KVFS_RECOVER_MARK = 0, KVFS_RECOVER_INTENTS, KVFS_RECOVER_TABLE, KVFS_RECOVER_RANGE };
/* op->s: the session, the range, its numbers; then those of intent_resolve.c or orphan_range.c. */
enum {
    KVFS_RECOVER_S_ID = KVFS_OWN_S_ARGUMENT,
    KVFS_RECOVER_S_AT,
    KVFS_RECOVER_S_FIRST,
    KVFS_RECOVER_S_COUNT
};
SNIC_STATIC_ASSERT((int)KVFS_RECOVER_S_COUNT < (int)KVFS_ORPHAN_RANGE_S_AT &&
                       (int)KVFS_RECOVER_S_COUNT < (int)KVFS_INTENT_S_AT,
                   "words of op->s that phases keep are not those of other phases");

static int kvfs_session_run_is_dead(const struct snic_kvfs *k, const struct kvfs_other *o)
{
    return k->sole || k->now.mono_ns - o->moved_ns >= k->o.lease_ns; /* S5 */
}

/* Start the operations that the table shows to be needed. */
static void kvfs_session_run_react(struct snic_kvfs *k, const struct kvfs_session_table *t)
{
    struct kvfs_session *s = &k->session;
    const struct kvfs_session_row *own = kvfs_session_row(t, s->id);
    uint64_t victim = 0;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < t->count; i++)
        if (t->rows[i].id != s->id && (t->rows[i].s.flags & SNIC_KVFS_SESSION_DEAD) != 0)
            victim = t->rows[i].id;
    for (uint32_t i = 0; i < s->other_count; i++) {
        if (kvfs_session_run_is_dead(k, &s->others[i]))
            victim = s->others[i].id;
        else
            alive++;
    }
    if (victim != 0 && !s->recovering && kvfs_spawn(k, KVFS_OWN_RECOVER, victim) != NULL)
        s->recovering = 1;
    if (alive != 0 && !s->yielding && (own->s.flags & SNIC_KVFS_SESSION_CACHES) != 0) {
        s->era += s->alone; /* S4 */
        s->alone = 0;
        kvfs_cache_drop(k);
        if (kvfs_spawn(k, KVFS_OWN_YIELD, 0) != NULL)
            s->yielding = 1;
    }
    if (t->count > 1 || !s->swept)
        s->sweep = 1;
    if (s->sweep && !s->sweeping && kvfs_spawn(k, KVFS_OWN_SWEEP, 0) != NULL) {
        s->sweeping = 1;
        s->sweep = 0;
    }
}

/* The heartbeat's commit; nothing to write when no other handle can read it. */
static void kvfs_session_run_fill(struct snic_kvfs *k, struct kvfs_session_tx *x,
                                  const struct kvfs_session_table *t,
                                  const struct kvfs_session_row *own)
{
    struct snic_kvop_key key;
    struct snic_kvfs_session mine = own->s;
    int caches =
        t->count == 1 && !k->session.yielding && (own->s.flags & SNIC_KVFS_SESSION_CACHES) == 0;
    if (k->sole && !caches)
        return;
    kvfs_session_key(&key, own->id);
    kvfs_session_guard(x, &key, own->record, own->size); /* S1 */
    if (caches) {
        mine.flags |= SNIC_KVFS_SESSION_CACHES;
        kvfs_session_put(x, &key, &mine);
        kvfs_session_key(&key, 0);
        kvfs_session_guard(x, &key, t->table, t->table_size); /* S3 */
    }
    snic_kvfs_key_beat(&key, own->id);
    kvfs_session_put_number(x, &key, own->counter + 1);
}

static int kvfs_session_run_heartbeat(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    struct kvfs_session_table *t;
    struct kvfs_session_tx *x = kvfs_alloc(op, sizeof(*x));
    if (x == NULL)
        return SNIC_ENOMEM;
    int rc = kvfs_session_scan(op, 0, &t);
    if (rc != 0)
        return rc;
    const struct kvfs_session_row *own = kvfs_session_row(t, k->session.id);
    if (own == NULL || (own->s.flags & SNIC_KVFS_SESSION_DEAD) != 0) {
        k->session.next_ns = SNIC_NEVER;
        kvfs_session_mark_dead(k);
        return 0;
    }
    if (!x->built) {
        kvfs_session_run_react(k, t);
        kvfs_session_run_fill(k, x, t, own);
        x->built = 1;
    }
    if (x->change_count > 0)
        rc = kvfs_session_commit(op, 1, x, 0);
    if (rc != 0)
        return rc;
    if (!k->session.alone &&
        (x->change_count > 1 || (t->count == 1 && !k->session.yielding &&
                                 (own->s.flags & SNIC_KVFS_SESSION_CACHES) != 0))) {
        k->session.alone = 1;
        k->session.era++;
    }
    k->session.proven_ns = op->now.mono_ns; /* S5: before the scan was requested */
    k->session.beats++;
    return 0;
}

int kvfs_run_heartbeat(struct kvfs_op *op)
{
    struct kvfs_session *s = &op->k->session;
    int rc = s->id == 0 ? 0 : kvfs_session_run_heartbeat(op);
    if (kvfs_runs_again(op, rc))
        return KVFS_PENDING;
    SNIC_ASSERT(s->busy);
    s->busy = 0;
    if (rc < 0) { /* operations that wait for it get the error */
        s->failures++;
        s->failure = rc;
    } else if (s->next_ns != SNIC_NEVER) {
        kvfs_locks_republish(op->k);
    }
    if (s->next_ns != SNIC_NEVER)
        s->next_ns = op->k->now.mono_ns + op->k->o.heartbeat_ns;
    kvfs_session_wake(op->k);
    return rc;
}

/* ---- The end of caching (S4) ---- */

static int kvfs_session_run_yield_flag(struct kvfs_op *op)
{
    struct kvfs_session_table *t;
    struct kvfs_session_tx *x = kvfs_alloc(op, sizeof(*x));
    struct snic_kvop_key key;
    if (x == NULL)
        return SNIC_ENOMEM;
    int rc = kvfs_session_scan(op, 0, &t);
    if (rc != 0)
        return rc;
    const struct kvfs_session_row *own = kvfs_session_row(t, op->k->session.id);
    if (own == NULL)
        return 0; /* the next heartbeat sees it */
    if (!x->built) {
        struct snic_kvfs_session mine = own->s;
        mine.flags &= ~SNIC_KVFS_SESSION_CACHES;
        kvfs_session_key(&key, own->id);
        kvfs_session_guard(x, &key, own->record, own->size);
        kvfs_session_put(x, &key, &mine);
    }
    return kvfs_session_commit(op, 1, x, 0);
}

static int kvfs_session_run_yield(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    int rc;
    if (op->phase == KVFS_YIELD_WAIT) {
        if (kvfs_ops_before(k, k->session.era) > 0)
            return kvfs_wait(op, NULL, k->now.mono_ns + KVFS_SESSION_RUN_WAIT_NS, 1);
        return kvfs_next(op, KVFS_YIELD_TIMES);
    }
    if (op->phase == KVFS_YIELD_TIMES) {
        rc = kvfs_times_flush_all(op);
        return rc != 0 ? rc : kvfs_next(op, KVFS_YIELD_LOCKS);
    }
    if (op->phase == KVFS_YIELD_LOCKS) {
        rc = kvfs_locks_publish(op);
        return rc != 0 ? rc : kvfs_next(op, KVFS_YIELD_FLAG);
    }
    return kvfs_session_run_yield_flag(op);
}

int kvfs_run_yield(struct kvfs_op *op)
{
    int rc = kvfs_session_run_yield(op);
    if (kvfs_runs_again(op, rc))
        return KVFS_PENDING;
    SNIC_ASSERT(op->k->session.yielding);
    op->k->session.yielding = 0;
    kvfs_session_heartbeat_now(op->k);
    kvfs_session_wake(op->k);
    return rc;
}

/* ---- A dead session is cleared away (S6) ---- */

/* 0: it may be declared dead; SNIC_EAGAIN it may not; SNIC_ECORRUPT. */
static int kvfs_session_run_recover_judge(struct snic_kvfs *k, const struct kvfs_session_row *row)
{
    const struct kvfs_other *o = NULL;
    struct snic_kvop_key key;
    for (uint32_t i = 0; i < k->session.other_count; i++)
        if (k->session.others[i].id == row->id)
            o = &k->session.others[i];
    if (row->beat == NULL) {
        snic_kvfs_key_beat(&key, row->id);
        kvfs_report_damage(k, &key, "session without a heartbeat record");
        return SNIC_ECORRUPT;
    }
    return o == NULL || !kvfs_session_run_is_dead(k, o) ? SNIC_EAGAIN : 0;
}

/* S9. The client is shut out; places of kvfs_io(): this is 2. */
static int kvfs_session_run_recover_fence(struct kvfs_op *op, const struct kvfs_session_row *row)
{
    struct snic_kvfs *k = op->k;
    struct snic_iov *iov = kvfs_alloc(op, sizeof(*iov));
    const struct snic_kvop *got;
    if (iov == NULL)
        return SNIC_ENOMEM;
    if ((k->o.caps & SNIC_KV_CAP_FENCE) == 0 || row->client_size == 0)
        return 0; /* an earlier version's session */
    iov->base = (void *)(uintptr_t)row->client;
    iov->size = row->client_size;
    struct snic_kvop want = {
        .kind = SNIC_KVOP_FENCE, .iov = iov, .iov_count = 1, .length = row->client_size};
    int rc = kvfs_io(op, 2, &want, &got);
    if (rc < 0) {
        k->stats.fence_failures++;
        k->stats.fence_error = rc;
    }
    return rc;
}

static int kvfs_session_run_recover_mark(struct kvfs_op *op, const struct kvfs_session_row *row)
{
    struct snic_kvfs *k = op->k;
    struct kvfs_session_tx *x = kvfs_alloc(op, sizeof(*x));
    struct snic_kvop_key key;
    if (x == NULL)
        return SNIC_ENOMEM;
    if (!x->built) {
        struct snic_kvfs_session mark = row->s;
        mark.flags = (mark.flags & ~SNIC_KVFS_SESSION_CACHES) | SNIC_KVFS_SESSION_DEAD;
        kvfs_session_key(&key, row->id);
        kvfs_session_guard(x, &key, row->record, row->size);
        kvfs_session_put(x, &key, &mark);
        snic_kvfs_key_beat(&key, row->id);
        kvfs_session_guard(x, &key, row->beat, row->beat_size);
        if ((k->o.caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0) { /* S7; else it is for S9 */
            snic_kvfs_key_fence(&key, row->id);
            kvfs_session_delete(x, &key);
        }
    }
    return kvfs_session_commit(op, 1, x, 0);
}

/* Its end: fenced, then declared dead by us or already by another. */
static int kvfs_session_run_recover_end(struct kvfs_op *op, const struct kvfs_session_row *row)
{
    int *judged = kvfs_alloc(op, sizeof(*judged)); /* once in a round: before it is fenced */
    int declared = (row->s.flags & SNIC_KVFS_SESSION_DEAD) != 0;
    int rc = 0;
    if (judged == NULL)
        return SNIC_ENOMEM;
    if (!declared && !*judged)
        rc = kvfs_session_run_recover_judge(op->k, row);
    if (rc != 0)
        return rc == SNIC_EAGAIN ? 0 : rc;
    *judged = 1;
    rc = kvfs_session_run_recover_fence(op, row);
    if (rc == 0 && !declared)
        rc = kvfs_session_run_recover_mark(op, row);
    if (rc != 0)
        return rc;
    op->k->stats.fenced += (op->k->o.caps & SNIC_KV_CAP_FENCE) != 0 && row->client_size != 0;
    return kvfs_next(op, KVFS_RECOVER_INTENTS);
}

static int kvfs_session_run_recover(struct kvfs_op *op)
{
    struct kvfs_session_table *t;
    const struct kvfs_session_row *row;
    int rc;
    if (op->phase == KVFS_RECOVER_INTENTS) {
        rc = kvfs_intent_finish_next(op, op->s[KVFS_RECOVER_S_ID]);
        return rc != 0 ? rc : kvfs_next(op, KVFS_RECOVER_TABLE);
    }
    if (op->phase == KVFS_RECOVER_RANGE) {
        rc = kvfs_orphan_range(op, op->s[KVFS_RECOVER_S_FIRST], op->s[KVFS_RECOVER_S_COUNT]);
        if (rc != 0)
            return rc;
        op->s[KVFS_RECOVER_S_AT]++;
        op->s[KVFS_ORPHAN_RANGE_S_AT] = 0;
        return kvfs_next(op, KVFS_RECOVER_TABLE);
    }
    rc = kvfs_session_scan(op, 0, &t);
    if (rc != 0)
        return rc;
    row = kvfs_session_row(t, op->s[KVFS_RECOVER_S_ID]);
    if (row == NULL)
        return 0; /* another session has */
    if (op->phase == KVFS_RECOVER_MARK)
        return kvfs_session_run_recover_end(op, row);
    if (op->s[KVFS_RECOVER_S_AT] < row->s.range_count &&
        (op->k->o.caps & SNIC_KV_CAP_ATOMIC_MULTI) == 0) {
        op->s[KVFS_RECOVER_S_FIRST] = row->s.ranges[op->s[KVFS_RECOVER_S_AT]].first;
        op->s[KVFS_RECOVER_S_COUNT] = row->s.ranges[op->s[KVFS_RECOVER_S_AT]].count;
        return kvfs_next(op, KVFS_RECOVER_RANGE);
    }
    return kvfs_session_remove(op, 1, row, 0);
}

int kvfs_run_recover(struct kvfs_op *op)
{
    struct kvfs_session *s = &op->k->session;
    int rc = kvfs_session_run_recover(op);
    if (kvfs_runs_again(op, rc))
        return KVFS_PENDING;
    SNIC_ASSERT(s->recovering);
    s->recovering = 0;
    s->sweep = 1; /* its claims are void */
    s->error = rc;
    if (rc == 0)
        kvfs_session_heartbeat_now(op->k);
    kvfs_session_wake(op->k);
    return rc;
}
