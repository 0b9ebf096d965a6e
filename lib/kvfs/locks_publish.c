/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Locks that end with their owner, and locks that go to the store when the session stops being
 * alone. The invariants are in locks_priv.h.
 */
#include "kvfs/locks_priv.h"

enum { KVFS_LOCKS_PUBLISH_NS = 1000000, KVFS_LOCKS_PUBLISH_MAX = 4 };

/* ---- An owner ends ---- */

void kvfs_locks_forget(struct snic_kvfs *k, uint64_t ino, uint64_t owner, uint32_t kinds)
{
    struct kvfs_locks *l = kvfs_locks_table(k);
    struct kvfs_lock_file *f = kvfs_locks_find(l, ino);
    if (f == NULL || !kvfs_locks_holds(f, owner, kinds))
        return;
    kvfs_locks_apply_drop(l, f, owner, kinds);
    f->stored = 0;
    f->stale = l->shared;
    kvfs_locks_file_put(l, f);
}

int kvfs_locks_drop(struct kvfs_op *op, uint64_t ino, uint64_t owner, uint32_t kinds)
{
    struct kvfs_locks *l = kvfs_locks_table(op->k);
    struct kvfs_lock_file *f = kvfs_locks_find(l, ino);
    int rc = 0;
    if (f == NULL || !kvfs_locks_holds(f, owner, kinds))
        return kvfs_commit(op, 0);
    if (l->shared && op->commit_state == KVFS_COMMIT_NONE) {
        op->reserve = 1;
        rc = kvfs_lock(op, ino, KVFS_EXCLUSIVE);
        if (rc == 0)
            rc = kvfs_locks_put(op, f, NULL, owner, kinds);
    }
    if (rc == 0)
        rc = kvfs_commit(op, 0);
    if (kvfs_runs_again(op, rc))
        return KVFS_PENDING;
    if (rc != 0) {
        kvfs_locks_forget(op->k, ino, owner, kinds);
        return rc;
    }
    kvfs_locks_apply_drop(l, f, owner, kinds);
    if (l->shared)
        f->stale = 0; /* the record was written whole */
    kvfs_locks_file_put(l, f);
    return 0;
}

/* ---- The session stops being alone ---- */

/* The engine's own: one file's locks to its record. */
int kvfs_run_publish(struct kvfs_op *op)
{
    uint64_t ino = op->s[KVFS_OWN_S_ARGUMENT];
    struct kvfs_locks *l = kvfs_locks_table(op->k);
    struct kvfs_lock_file *f;
    int rc;
    op->reserve = 1; /* a full store must not prevent other sessions from joining */
    rc = kvfs_lock(op, ino, KVFS_EXCLUSIVE);
    f = kvfs_locks_find(l, ino);
    if (rc == 0 && f != NULL && op->commit_state == KVFS_COMMIT_NONE)
        rc = kvfs_locks_put(op, f, NULL, 0, 0);
    if (rc == 0)
        rc = kvfs_commit(op, 0);
    if (kvfs_runs_again(op, rc))
        return KVFS_PENDING;
    if (f != NULL) {
        f->stored = rc == 0;
        f->stale = f->stale && rc != 0;
        kvfs_locks_file_put(l, f);
    }
    if (rc != 0 && op->k->session.yielding) /* a heartbeat's is retried by the next */
        l->publish_error = rc;
    l->publishing -= l->publishing > 0; /* 0: the table is of a later session */
    kvfs_wake_all(&l->publishers);
    kvfs_session_wake(op->k);
    return rc;
}

enum { KVFS_LOCKS_STARTED = 0, KVFS_LOCKS_MANY, KVFS_LOCKS_NO_OPERATION };

/* Start to write the records of files: those with unwritten locks, and stale ones. */
static int kvfs_locks_publish_start(struct snic_kvfs *k, struct kvfs_locks *l, int only_stale)
{
    for (struct snic_link *p = l->files.next; p != &l->files; p = p->next) {
        struct kvfs_lock_file *f = SNIC_CONTAINER(p, struct kvfs_lock_file, all);
        if (f->stored || (!f->stale && (only_stale || snic_link_alone(&f->held))))
            continue;
        if (l->publishing == KVFS_LOCKS_PUBLISH_MAX)
            return KVFS_LOCKS_MANY;
        if (kvfs_spawn(k, KVFS_OWN_PUBLISH, f->ino) == NULL)
            return KVFS_LOCKS_NO_OPERATION;
        SNIC_ASSERT(l->publishing < KVFS_LOCKS_PUBLISH_MAX);
        l->publishing++;
        f->stored = 1;
    }
    return KVFS_LOCKS_STARTED;
}

void kvfs_locks_republish(struct snic_kvfs *k)
{
    struct kvfs_locks *l = kvfs_locks_table(k);
    if (l->shared && !k->session.yielding)
        (void)kvfs_locks_publish_start(k, l, 1); /* the rest: the next heartbeat */
}

int kvfs_locks_publishing(const struct snic_kvfs *k)
{
    return k->locks->session == k->session.id && k->locks->publishing > 0;
}

int kvfs_locks_publish(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    struct kvfs_locks *l = kvfs_locks_table(k);
    int started, rc = l->publish_error;
    l->shared = (k->o.flags & SNIC_KVFS_READ_ONLY) == 0;
    if (!l->shared)
        return 0;
    started = rc == 0 ? kvfs_locks_publish_start(k, l, 0) : KVFS_LOCKS_STARTED;
    if (started == KVFS_LOCKS_NO_OPERATION)
        return kvfs_wait(op, NULL, k->now.mono_ns + KVFS_LOCKS_PUBLISH_NS, 0);
    if (l->publishing > 0)
        return kvfs_wait(op, &l->publishers, SNIC_NEVER, 0);
    l->publish_error = 0;
    return rc;
}
