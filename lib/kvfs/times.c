/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Deferred times: changes of times alone do not go to the store at once.
 *
 * H1 Deferred times of an inode are changed only by holders of its lock, and an operation that
 *    puts its attributes holds it exclusively from the read to the commit. So attributes that reach
 *    the store include all that was deferred, and it is dropped then.
 * H2 k->deferred has the inodes with deferred times or space, oldest first; none stays in it for
 *    longer than times_ns, if the store answers.
 * H3 A deferred time never makes a time in the store older: another session may have set a
 *    newer one. Names are deferred only while the session is alone, and replace that of the very
 *    attributes they were deferred from: with another version, another session has put it.
 * H4 Deferred space is a difference, and is added to the stored value: so do all sessions. But
 *    where a commit that included it may have happened, it is added only to attributes older than
 *    that commit's.
 * H5 Nothing is deferred when the session is dead, and earlier changes are dropped then: others
 *    have continued without them. To write them, the engine's own operations pass
 *    kvfs_session_check_lease().
 */
#include "kvfs/session_priv.h"

enum { KVFS_TIMES_DAY = 86400 };

static int kvfs_times_equal(struct snic_fsop_time a, struct snic_fsop_time b)
{
    return a.sec == b.sec && a.nsec == b.nsec;
}

static int kvfs_times_is_off(const struct snic_kvfs *k)
{
    return (k->o.flags & SNIC_KVFS_READ_ONLY) != 0 || (k->o.caps & SNIC_KV_CAP_READONLY) != 0 ||
           k->session.dead; /* H5 */
}

int kvfs_defer_times(struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    struct snic_fsop_attr base;
    struct kvfs_deferred *deferred;
    uint32_t set = 0;
    int rc = kvfs_peek_attr(op, a->ino, &base);
    if (rc != 0)
        return rc;
    if (kvfs_times_is_off(op->k))
        return 0;
    set |= kvfs_times_equal(a->atime, base.atime) ? 0u : (uint32_t)KVFS_DEFER_ATIME;
    set |= kvfs_times_equal(a->mtime, base.mtime) ? 0u : (uint32_t)KVFS_DEFER_MTIME;
    set |= kvfs_times_equal(a->ctime, base.ctime) ? 0u : (uint32_t)KVFS_DEFER_CTIME;
    if (kvfs_alone(op->k) && (a->parent != base.parent || a->name.high != base.name.high ||
                              a->name.low != base.name.low))
        set |= KVFS_DEFER_NAME;
    if (set == 0)
        return 0;
    deferred = kvfs_times_deferred(op->k, a->ino);
    if (deferred == NULL)
        return 0; /* this inode is not in memory: only the times are lost */
    if ((set & KVFS_DEFER_ATIME) != 0)
        deferred->atime = a->atime;
    if ((set & KVFS_DEFER_MTIME) != 0)
        deferred->mtime = a->mtime;
    if ((set & KVFS_DEFER_CTIME) != 0)
        deferred->ctime = a->ctime;
    if ((set & KVFS_DEFER_NAME) != 0) {
        deferred->version = base.version;
        deferred->parent = a->parent;
        deferred->name = a->name;
    }
    deferred->set |= set;
    return 0;
}

int kvfs_defer_space(struct kvfs_op *op, uint64_t ino, int64_t change)
{
    struct kvfs_deferred *deferred;
    if (change == 0 || kvfs_times_is_off(op->k))
        return 0;
    deferred = kvfs_times_deferred(op->k, ino);
    if (deferred == NULL)
        return SNIC_ENFILE;
    deferred->space += change;
    deferred->set |= KVFS_DEFER_SPACE;
    return 0;
}

int kvfs_flush_times(struct kvfs_op *op, uint64_t ino)
{
    const struct kvfs_inode *i = kvfs_inode_find(op->k, ino);
    struct snic_fsop_attr a;
    int rc;
    if (i == NULL || i->deferred.set == 0)
        return 0;
    rc = kvfs_lock(op, ino, KVFS_EXCLUSIVE); /* H1 */
    if (rc == 0)
        rc = kvfs_get_attr(op, ino, &a);
    if (rc == SNIC_ENOENT) {
        kvfs_times_forget(op->k, ino); /* the inode was removed */
        return 0;
    }
    return rc != 0 ? rc : kvfs_put_attr(op, &a);
}

/* ---- After reads ---- */

/* a <= b */
static int kvfs_times_not_after(const struct snic_fsop_time *a, const struct snic_fsop_time *b)
{
    return a->sec < b->sec || (a->sec == b->sec && a->nsec <= b->nsec);
}

int kvfs_relatime(const struct kvfs_op *op, struct snic_fsop_attr *a)
{
    struct snic_fsop_time now = kvfs_time(op);
    if ((op->k->o.flags & (SNIC_KVFS_NO_ATIME | SNIC_KVFS_READ_ONLY)) != 0 ||
        (op->req != NULL && (op->req->flags & SNIC_FSOP_NOATIME) != 0))
        return 0;
    if (kvfs_is_dir(a) && (op->k->o.flags & SNIC_KVFS_NO_DIRATIME) != 0)
        return 0;
    if ((op->k->o.flags & SNIC_KVFS_STRICT_ATIME) == 0 &&
        !kvfs_times_not_after(&a->atime, &a->mtime) &&
        !kvfs_times_not_after(&a->atime, &a->ctime) && now.sec - a->atime.sec < KVFS_TIMES_DAY)
        return 0;
    if (a->atime.sec == now.sec && a->atime.nsec == now.nsec)
        return 0;
    a->atime = now;
    return 1;
}

/* ---- The engine's own ---- */

/*
 * The oldest, one commit each. On most stores a commit of several groups
 * costs more than several commits.
 */
int kvfs_times_flush_all(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    uint64_t ino;
    int rc;
    if (op->commit_state == KVFS_COMMIT_NONE) { /* else the commit is waited for in any case */
        rc = snic_link_alone(&k->deferred) ? 0 : kvfs_session_check_lease(op); /* H5 */
        if (rc != 0)
            return rc;
        if (snic_link_alone(&k->deferred)) {
            kvfs_unlock_all(op); /* it may have waited for the lock of the last one's writer */
            return 0;
        }
    }
    op->reserve = 1; /* on a full store, too, a session must be able to end or to let others in */
    if (op->s[KVFS_TIMES_S_INO] == 0) {
        ino = SNIC_CONTAINER(k->deferred.next, struct kvfs_inode, deferred.link)->ino;
        op->s[KVFS_TIMES_S_INO] = ino + 1;
    }
    rc = kvfs_flush_times(op, op->s[KVFS_TIMES_S_INO] - 1);
    if (rc == 0)
        rc = kvfs_commit(op, 0);
    if (rc != 0)
        return rc;
    kvfs_unlock_all(op);
    op->s[KVFS_TIMES_S_INO] = 0;
    return kvfs_next(op, op->phase);
}

/* Write times that have been deferred for times_ns, or will have been soon. */
int kvfs_run_times(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    const struct kvfs_inode *i;
    int rc = 0;
    if (op->s[KVFS_TIMES_S_INO] == 0 && !snic_link_alone(&k->deferred)) {
        i = SNIC_CONTAINER(k->deferred.next, struct kvfs_inode, deferred.link);
        if (i->deferred.since_ns + k->o.times_ns / 2 <= k->now.mono_ns)
            rc = kvfs_times_flush_all(op);
    } else if (op->s[KVFS_TIMES_S_INO] != 0) {
        rc = kvfs_times_flush_all(op);
    }
    if (kvfs_runs_again(op, rc))
        return rc;
    k->session.timing = 0;
    if (rc != 0)
        k->session.times_retry_ns = k->now.mono_ns + k->o.heartbeat_ns;
    kvfs_session_wake(k);
    return rc;
}
