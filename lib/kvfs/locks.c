/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Advisory locks: GETLK, SETLK (byte ranges; OFD locks are those of another owner), FLOCK.
 *
 * The table in memory (locks_table.c) has the locks that owners of this session hold and wait for.
 * While the session is alone that is all, and requests are answered at once. From the first time on
 * that it is not, a change is also written to the file's 'K' record (locks_store.c), and
 * conflicting locks of other sessions are polled, with back-off.
 */
#include "kvfs/data_priv.h"
#include "kvfs/locks_priv.h"

enum { KVFS_LOCKS_POLL_NS = 1000000, KVFS_LOCKS_POLL_DOUBLE = 6 };
/* Phases. */
enum { KVFS_LOCKS_FIRST = 0, KVFS_LOCKS_DROPPING = 1, KVFS_LOCKS_SETTING = 2 };

/* ---- Waiting ---- */

static struct kvfs_lock_item *kvfs_locks_waiter(struct kvfs_lock_file *f, const struct kvfs_op *op)
{
    for (struct snic_link *p = f->waiting.next; p != &f->waiting; p = p->next) {
        if (kvfs_lock_at(p)->op == op && kvfs_lock_at(p)->req == op->req)
            return kvfs_lock_at(p);
    }
    return NULL;
}

static void kvfs_locks_drop_waiter(struct kvfs_locks *l, struct kvfs_op *op)
{
    struct kvfs_lock_file *f = kvfs_locks_find(l, op->ino);
    struct kvfs_lock_item *i = f == NULL ? NULL : kvfs_locks_waiter(f, op);
    if (i != NULL)
        kvfs_locks_item_free(l, i);
    if (f != NULL)
        kvfs_locks_file_put(l, f);
}

void kvfs_locks_stop_waiting(struct kvfs_op *op)
{
    struct kvfs_locks *l = op->k->locks;
    if ((op->req->kind == SNIC_FSOP_SETLK || op->req->kind == SNIC_FSOP_FLOCK) &&
        l->session == op->k->session.id)
        kvfs_locks_drop_waiter(l, op);
}

/* Add the waiting items of this owner to the search, each once. */
static void kvfs_locks_add_waiters(struct kvfs_locks *l, uint64_t owner,
                                   struct kvfs_lock_item **todo)
{
    for (struct snic_link *p = l->waiting.next; p != &l->waiting; p = p->next) {
        struct kvfs_lock_item *w = SNIC_CONTAINER(p, struct kvfs_lock_item, all);
        if (w->r.owner != owner || w->r.kind != KVFS_LOCKS_POSIX || w->seen == l->search ||
            w->op->req != w->req)
            continue;
        w->seen = l->search;
        w->todo = *todo;
        *todo = w;
    }
}

/* 1: the owner, waiting for this range, would wait for itself through others of this session. */
static int kvfs_locks_deadlock(struct kvfs_locks *l, struct kvfs_lock_file *f,
                               const struct kvfs_lock_range *want)
{
    struct kvfs_lock_item *todo = NULL;
    const struct kvfs_lock_range *r = want;
    if (want->kind != KVFS_LOCKS_POSIX)
        return 0;
    l->search++;
    for (;;) {
        for (struct snic_link *p = f->held.next; p != &f->held; p = p->next) {
            const struct kvfs_lock_range *held = &kvfs_lock_at(p)->r;
            if (!kvfs_locks_conflict(held, r))
                continue;
            if (held->owner == want->owner)
                return 1;
            kvfs_locks_add_waiters(l, held->owner, &todo);
        }
        if (todo == NULL)
            return 0;
        f = todo->file;
        r = &todo->r;
        todo = todo->todo;
    }
}

/* It conflicts: fail, or wait until something changes. `poll`: another session's. */
static int kvfs_locks_blocked(struct kvfs_op *op, struct kvfs_locks *l,
                              const struct kvfs_lock_range *want, int poll)
{
    struct kvfs_lock_file *f = kvfs_locks_file(l, op->ino);
    struct kvfs_lock_item *i = f == NULL ? NULL : kvfs_locks_waiter(f, op);
    uint64_t until = SNIC_NEVER;
    int rc = 0;
    if ((op->req->flags & SNIC_FSOP_LOCK_WAIT) == 0)
        rc = SNIC_EAGAIN;
    else if (kvfs_cancelled(op))
        rc = SNIC_EINTR;
    else if (f != NULL && kvfs_locks_deadlock(l, f, want))
        rc = SNIC_EDEADLK;
    if (rc == 0 && i == NULL && f != NULL && l->count < l->max)
        i = kvfs_locks_item(l, f, want, &f->waiting);
    if (rc == 0 && i == NULL)
        rc = SNIC_ENOLCK;
    if (rc != 0) {
        kvfs_locks_drop_waiter(l, op);
        return rc;
    }
    i->op = op;
    i->req = op->req;
    if (snic_link_alone(&i->all))
        snic_link_append(&l->waiting, &i->all);
    if (poll) {
        until = op->k->now.mono_ns + ((uint64_t)KVFS_LOCKS_POLL_NS << i->polls);
        i->polls += i->polls < KVFS_LOCKS_POLL_DOUBLE;
    }
    return kvfs_wait(op, &f->sleepers, until, 1);
}

/* ---- Setting ---- */

/* Granted: enter it into the table. */
static int kvfs_locks_set(struct kvfs_op *op, struct kvfs_locks *l,
                          const struct kvfs_lock_range *want)
{
    struct kvfs_lock_file *f;
    kvfs_locks_drop_waiter(l, op);
    f = want->type == SNIC_FSOP_UNLCK ? kvfs_locks_find(l, op->ino) : kvfs_locks_file(l, op->ino);
    if (f == NULL)
        return want->type == SNIC_FSOP_UNLCK ? 0 : SNIC_ENOLCK;
    kvfs_locks_apply(l, f, want);
    f->stored = l->shared;
    f->stale = 0; /* the record was written whole */
    kvfs_locks_file_put(l, f);
    return 0;
}

static int kvfs_locks_refuse(struct kvfs_op *op, struct kvfs_locks *l, int error)
{
    kvfs_locks_drop_waiter(l, op);
    return error;
}

/* An open file that has a flock of another type releases it before it waits for the new one. */
static int kvfs_locks_releases_first(struct kvfs_lock_file *f, const struct kvfs_lock_range *want)
{
    return f != NULL && want->kind == KVFS_LOCKS_FLOCK &&
           kvfs_locks_holds(f, want->owner, KVFS_LOCKS_FLOCK);
}

static int kvfs_locks_set_alone(struct kvfs_op *op, struct kvfs_locks *l,
                                const struct kvfs_lock_range *want)
{
    struct kvfs_lock_file *f = kvfs_locks_find(l, op->ino);
    if (want->type != SNIC_FSOP_UNLCK && f != NULL && kvfs_locks_conflicting(f, want) != NULL) {
        if (kvfs_locks_releases_first(f, want))
            kvfs_locks_apply_drop(l, f, want->owner, KVFS_LOCKS_FLOCK);
        return kvfs_locks_blocked(op, l, want, 0);
    }
    if (!kvfs_locks_fits(l, f, want))
        return kvfs_locks_refuse(op, l, SNIC_ENOLCK);
    return kvfs_locks_set(op, l, want);
}

/* Find a conflicting lock, here or of another session (*poll). 0; KVFS_LOCKS_CONFLICT; PENDING; E*.
 */
static int kvfs_locks_find_conflict(struct kvfs_op *op, struct kvfs_lock_file *f,
                                    const struct kvfs_lock_range *want, int *poll)
{
    struct kvfs_lock_range other;
    *poll = 0;
    if (want->type == SNIC_FSOP_UNLCK)
        return 0;
    if (f != NULL && kvfs_locks_conflicting(f, want) != NULL)
        return KVFS_LOCKS_CONFLICT;
    *poll = 1;
    return kvfs_locks_other(op, op->ino, want, 1, &other);
}

/* Note the new record, and the phase: 0; PENDING (also: it waits); SNIC_E*. */
static int kvfs_locks_prepare(struct kvfs_op *op, struct kvfs_locks *l,
                              const struct kvfs_lock_range *want)
{
    struct kvfs_lock_file *f = kvfs_locks_find(l, op->ino);
    uint32_t phase = KVFS_LOCKS_SETTING;
    int poll, rc = kvfs_locks_find_conflict(op, f, want, &poll);
    if (rc == KVFS_PENDING || rc < 0)
        return rc;
    if (rc == KVFS_LOCKS_CONFLICT && !kvfs_locks_releases_first(f, want))
        return kvfs_locks_blocked(op, l, want, poll);
    if (rc == KVFS_LOCKS_CONFLICT) {
        phase = KVFS_LOCKS_DROPPING;
        rc = kvfs_locks_put(op, f, NULL, want->owner, KVFS_LOCKS_FLOCK);
    } else if (want->type != SNIC_FSOP_UNLCK || f != NULL) {
        if (f == NULL)
            f = kvfs_locks_file(l, op->ino);
        if (f == NULL || !kvfs_locks_fits(l, f, want))
            return SNIC_ENOLCK;
        rc = kvfs_locks_put(op, f, want, 0, 0);
    }
    if (rc == 0)
        op->phase = phase;
    return rc;
}

static int kvfs_locks_set_shared(struct kvfs_op *op, struct kvfs_locks *l,
                                 const struct kvfs_lock_range *want)
{
    int rc = kvfs_lock(op, op->ino, KVFS_EXCLUSIVE);
    op->reserve = want->type == SNIC_FSOP_UNLCK;         /* unlocking works on a full store */
    if (rc == 0 && op->commit_state == KVFS_COMMIT_NONE) /* else it is in flight, or has happened */
        rc = kvfs_locks_prepare(op, l, want);
    if (rc == 0)
        rc = kvfs_commit(op, 0);
    if (kvfs_runs_again(op, rc))
        return KVFS_PENDING;
    if (rc != 0)
        return kvfs_locks_refuse(op, l, rc);
    if (op->phase == KVFS_LOCKS_DROPPING) {
        struct kvfs_lock_file *f = kvfs_locks_find(l, op->ino);
        if (f != NULL)
            kvfs_locks_apply_drop(l, f, want->owner, KVFS_LOCKS_FLOCK);
        return kvfs_next(op, KVFS_LOCKS_FIRST);
    }
    return kvfs_locks_set(op, l, want);
}

static int kvfs_locks_run(struct kvfs_op *op, uint32_t kind)
{
    const struct snic_fsop *req = op->req;
    struct kvfs_locks *l = kvfs_locks_table(op->k);
    struct kvfs_lock_range want = {.owner = req->lock.owner,
                                   .end = UINT64_MAX,
                                   .type = req->lock.type,
                                   .pid = req->lock.pid,
                                   .kind = kind};
    uint32_t need = want.type == SNIC_FSOP_RDLCK   ? SNIC_FSOP_OPEN_READ
                    : want.type == SNIC_FSOP_WRLCK ? SNIC_FSOP_OPEN_WRITE
                                                   : 0;
    if (kind == KVFS_LOCKS_POSIX) {
        want.start = req->lock.start;
        want.end = req->lock.end;
    }
    if (want.type > SNIC_FSOP_WRLCK || want.start > want.end)
        return SNIC_EINVAL;
    if (kvfs_data_handle(op, op->ino, kind == KVFS_LOCKS_POSIX ? need : 0) != 0)
        return kvfs_locks_refuse(op, l, SNIC_EBADF);
    return l->shared ? kvfs_locks_set_shared(op, l, &want) : kvfs_locks_set_alone(op, l, &want);
}

int kvfs_run_setlk(struct kvfs_op *op)
{
    return kvfs_locks_run(op, KVFS_LOCKS_POSIX);
}

int kvfs_run_flock(struct kvfs_op *op)
{
    return kvfs_locks_run(op, KVFS_LOCKS_FLOCK);
}

/* ---- Asking ---- */

int kvfs_run_getlk(struct kvfs_op *op)
{
    struct snic_fsop_lock *lock = &op->req->lock;
    struct kvfs_locks *l = kvfs_locks_table(op->k);
    struct kvfs_lock_file *f = kvfs_locks_find(l, op->ino);
    struct kvfs_lock_range want = {.owner = lock->owner,
                                   .start = lock->start,
                                   .end = lock->end,
                                   .type = lock->type,
                                   .kind = KVFS_LOCKS_POSIX};
    struct kvfs_lock_range other;
    struct kvfs_lock_item *i;
    int rc = 0;
    if (want.type == SNIC_FSOP_UNLCK || want.type > SNIC_FSOP_WRLCK || want.start > want.end)
        return SNIC_EINVAL;
    i = f == NULL ? NULL : kvfs_locks_conflicting(f, &want);
    if (i == NULL && l->shared)
        rc = kvfs_locks_other(op, op->ino, &want, 0, &other);
    if (rc == KVFS_PENDING || rc < 0)
        return rc;
    if (i == NULL && rc == 0) {
        lock->type = SNIC_FSOP_UNLCK;
        return 0;
    }
    if (i != NULL)
        other = i->r;
    *lock = (struct snic_fsop_lock){.owner = other.owner,
                                    .start = other.start,
                                    .end = other.end,
                                    .type = other.type,
                                    .pid = other.pid};
    return 0;
}
