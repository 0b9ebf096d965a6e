/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * OPEN, RELEASE, FLUSH, FSYNC, SYNCFS.
 *
 * A handle is a number made of the inode and what it is open for; opens are counted per inode
 * (kvfs_inode_open). A file whose last name was removed is opened again only while it is open here.
 */
#include "kvfs/data_priv.h"

enum { KVFS_SYNC_TIMES = 0, KVFS_SYNC_STORE = 1 };
/* op->s: the position in the table of inodes; the inode's number + 1, 0: to be chosen. */
enum { KVFS_SYNC_S_PLACE = 0, KVFS_SYNC_S_INO = 1 };

/* ---- OPEN ---- */

static int kvfs_open_check(struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    uint32_t flags = op->req->flags, want = 0;
    if (a->nlink == 0 && !kvfs_inode_openable(op->k, op->ino))
        return SNIC_ESTALE;
    if (kvfs_is_dir(a) && (flags & (SNIC_FSOP_OPEN_WRITE | SNIC_FSOP_TRUNC)) != 0)
        return SNIC_EISDIR;
    if ((a->mode & KVFS_IFMT) == KVFS_IFLNK)
        return SNIC_ELOOP;
    if ((flags & SNIC_FSOP_OPEN_READ) != 0)
        want |= KVFS_MAY_READ;
    if ((flags & (SNIC_FSOP_OPEN_WRITE | SNIC_FSOP_TRUNC)) != 0)
        want |= KVFS_MAY_WRITE;
    return want == 0 ? 0 : kvfs_may(op, a, want);
}

int kvfs_run_open(struct kvfs_op *op)
{
    struct snic_fsop *req = op->req;
    struct snic_fsop_attr a;
    int trunc = (req->flags & SNIC_FSOP_TRUNC) != 0;
    int rc = kvfs_lock(op, op->ino, trunc ? KVFS_EXCLUSIVE : KVFS_SHARED);
    if (rc == 0 && trunc)
        rc = kvfs_get_attr(op, op->ino, &a);
    else if (rc == 0)
        rc = kvfs_peek_attr(op, op->ino, &a);
    if (rc == 0 && !kvfs_data_commits(op, KVFS_DATA_ONLY_STEP))
        rc = kvfs_open_check(op, &a);
    if (rc == 0 && trunc && kvfs_is_reg(&a)) {
        a.mtime = kvfs_time(op);
        a.ctime = a.mtime;
        rc = kvfs_data_strip(op, &a, 1);
        if (rc == 0)
            rc = kvfs_truncate(op, &a, 0, KVFS_DATA_ONLY_STEP);
    }
    if (rc == 0)
        rc = kvfs_inode_open(op, op->ino);
    if (rc != 0)
        return rc;
    req->handle = kvfs_handle(op->ino, req->flags);
    kvfs_reply_attr(op, &a);
    return 0;
}

/* ---- FLUSH, RELEASE ---- */

/*
 * Add times and deferred space of the inode to this operation's changes. At a close the time of
 * the last read may stay deferred: a file that is only read costs no commit.
 */
static int kvfs_open_flush(struct kvfs_op *op, uint64_t ino, uint32_t waits)
{
    const struct kvfs_inode *i = kvfs_inode_find(op->k, ino);
    int rc;
    if (i == NULL || (i->deferred.set & ~waits) == 0 || op->commit_state != KVFS_COMMIT_NONE)
        return 0;
    op->reserve = 1; /* a close must not fail on a full store */
    rc = kvfs_lock(op, ino, KVFS_EXCLUSIVE);
    return rc != 0 ? rc : kvfs_flush_times(op, ino);
}

/* The inode of the request's handle. */
static int kvfs_open_handle(const struct kvfs_op *op, uint64_t *ino)
{
    uint64_t handle = op->req->handle;
    *ino = kvfs_handle_ino(handle);
    return handle == 0 || kvfs_inode_opens(op->k, *ino) == 0 ? SNIC_EBADF : 0;
}

/* The request's owner ends, whatever the result of writing deferred times. */
static int kvfs_open_end_owner(struct kvfs_op *op, uint64_t ino, uint32_t kinds)
{
    int rc = kvfs_open_flush(op, ino, KVFS_DEFER_ATIME);
    if (kvfs_runs_again(op, rc))
        return KVFS_PENDING;
    if (rc == 0)
        return kvfs_locks_drop(op, ino, op->req->lock.owner, kinds);
    kvfs_locks_forget(op->k, ino, op->req->lock.owner, kinds);
    return rc;
}

int kvfs_run_flush(struct kvfs_op *op)
{
    uint64_t ino;
    int rc = kvfs_open_handle(op, &ino);
    return rc != 0 ? rc : kvfs_open_end_owner(op, ino, KVFS_LOCKS_POSIX);
}

/* The handle ends whatever the store's result: unwritten times stay deferred. */
int kvfs_run_release(struct kvfs_op *op)
{
    uint64_t ino;
    int rc = kvfs_open_handle(op, &ino);
    if (rc != 0)
        return rc;
    if (op->k->session.dead || !op->k->session.mounted) {
        kvfs_inode_close(op->k, op->req->handle);
        return 0;
    }
    rc = kvfs_open_end_owner(op, ino, KVFS_LOCKS_POSIX | KVFS_LOCKS_FLOCK);
    if (kvfs_runs_again(op, rc))
        return KVFS_PENDING;
    kvfs_inode_close(op->k, op->req->handle);
    return rc;
}

/* ---- FSYNC, SYNCFS ---- */

/*
 * Write deferred times of all inodes, one after the other. The inode of the round stays in op->s:
 * with the commit it may leave the table, and the next one there is another.
 */
static int kvfs_open_sync_times(struct kvfs_op *op)
{
    uint64_t ino;
    for (;;) {
        if (op->s[KVFS_SYNC_S_INO] == 0) {
            if (!kvfs_inode_next(op->k, &op->s[KVFS_SYNC_S_PLACE], &ino))
                return kvfs_next(op, KVFS_SYNC_STORE);
            op->s[KVFS_SYNC_S_INO] = ino + 1;
        }
        int rc = kvfs_open_flush(op, op->s[KVFS_SYNC_S_INO] - 1, 0);
        if (rc == 0)
            rc = kvfs_commit(op, 0);
        if (rc != 0)
            return rc;
        op->s[KVFS_SYNC_S_INO] = 0;
        if (op->held_count != 0) { /* else there was nothing to write */
            kvfs_unlock_all(op);
            return kvfs_next(op, KVFS_SYNC_TIMES);
        }
    }
}

int kvfs_run_fsync(struct kvfs_op *op)
{
    struct snic_kvop want = {.kind = SNIC_KVOP_SYNC};
    const struct snic_kvop *got;
    int rc = 0;
    if (op->phase == KVFS_SYNC_TIMES && op->req->kind == SNIC_FSOP_SYNCFS)
        return kvfs_open_sync_times(op);
    if (op->phase == KVFS_SYNC_TIMES && (op->req->flags & SNIC_FSOP_FSYNC_DATA) == 0)
        rc = kvfs_open_flush(op, op->ino, 0);
    if (rc == 0 && op->phase == KVFS_SYNC_TIMES)
        rc = kvfs_commit(op, 0);
    return rc != 0 ? rc : kvfs_io(op, 0, &want, &got);
}
