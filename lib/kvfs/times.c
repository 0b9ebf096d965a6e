/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Times kept back: changes of times alone do not go to the store at once.
 *
 * H1 Times kept back of an inode are changed only by holders of its lock, and an operation that
 *    puts its attributes holds it exclusively from the read to the commit. So attributes that reach
 *    the store include all that was kept back, and it is dropped then.
 * H2 k->kept has the inodes with times or space kept back, oldest first; none stays in it for
 * longer
 *    than times_ns, if the store answers.
 * H3 A time kept back never makes a time in the store older: another session may have set a
 *    newer one. Names are kept back only while the session is alone, and replace that of the very
 *    attributes they were kept back from: with another version, another session has put it.
 * H4 Space kept back is a difference, and is added to the stored value: so do all sessions. But
 *    where a commit that included it may have happened, it is added only to attributes older than
 *    that commit's.
 * H5 Nothing is kept back when the session is dead, and earlier changes are dropped then: others
 *    have continued without them. To write them, the engine's own operations pass
 *    kvfs_session_proven().
 */
#include "kvfs/session_priv.h"

enum {
    TIMES_ATIME = KVFS_KEPT_ATIME,
    TIMES_MTIME = 1u << 1,
    TIMES_CTIME = 1u << 2,
    TIMES_NAME = 1u << 3,
    TIMES_SPACE = 1u << 4
};

static int times_equal(struct snic_fsop_time a, struct snic_fsop_time b)
{
    return a.sec == b.sec && a.nsec == b.nsec;
}

static void times_newer(struct snic_fsop_time *to, struct snic_fsop_time t)
{
    if (t.sec > to->sec || (t.sec == to->sec && t.nsec > to->nsec))
        *to = t;
}

void kvfs_times_merge(const struct snic_kvfs *k, struct snic_fsop_attr *a)
{
    const struct kvfs_inode *i;
    int64_t space;
    if (snic_link_alone(&k->kept))
        return;
    i = kvfs_inode_find(k, a->ino);
    if (i == NULL || i->kept.set == 0)
        return;
    if ((i->kept.set & TIMES_ATIME) != 0)
        times_newer(&a->atime, i->kept.atime); /* H3 */
    if ((i->kept.set & TIMES_MTIME) != 0)
        times_newer(&a->mtime, i->kept.mtime);
    if ((i->kept.set & TIMES_CTIME) != 0)
        times_newer(&a->ctime, i->kept.ctime);
    if ((i->kept.set & TIMES_NAME) != 0 && i->kept.version == a->version) {
        a->parent = i->kept.parent;
        a->name = i->kept.name;
    }
    if ((a->flags & SNIC_KVFS_ATTR_BIG) == 0)
        return; /* another session has made it a small file: its space is exact */
    space = i->kept.space + (a->version < i->kept.doubt ? i->kept.doubtful : 0); /* H4 */
    if (space < 0 && (uint64_t)-space > a->space)
        a->space = 0;
    else
        a->space += (uint64_t)space;
}

void kvfs_times_forget(struct snic_kvfs *k, uint64_t ino)
{
    struct kvfs_inode *i = snic_link_alone(&k->kept) ? NULL : kvfs_inode_find(k, ino);
    if (i == NULL || i->kept.set == 0)
        return;
    i->kept.set = 0;
    snic_link_remove(&i->kept.link);
    kvfs_inode_put(k, i);
}

void kvfs_times_forget_all(struct snic_kvfs *k)
{
    while (!snic_link_alone(&k->kept))
        kvfs_times_forget(k, SNIC_CONTAINER(k->kept.next, struct kvfs_inode, kept.link)->ino);
}

void kvfs_times_written(struct snic_kvfs *k, const struct snic_fsop_attr *a)
{
    kvfs_times_forget(k, a->ino); /* H1 */
}

void kvfs_times_doubt(struct snic_kvfs *k, const struct snic_fsop_attr *a)
{
    struct kvfs_inode *i = snic_link_alone(&k->kept) ? NULL : kvfs_inode_find(k, a->ino);
    if (i == NULL || i->kept.set == 0)
        return;
    if (a->version > i->kept.doubt) /* the earlier doubtful commit has happened */
        i->kept.doubtful = 0;
    i->kept.doubt = a->version;
    i->kept.doubtful += i->kept.space;
    i->kept.space = 0;
}

static struct kvfs_kept *times_kept(struct snic_kvfs *k, uint64_t ino)
{
    struct kvfs_inode *i = kvfs_inode_get(k, ino);
    if (i == NULL)
        return NULL;
    if (i->kept.set == 0) {
        i->kept.space = 0;
        i->kept.doubtful = 0;
        i->kept.doubt = 0;
        i->kept.since_ns = k->now.mono_ns;
        snic_link_append(&k->kept, &i->kept.link);
    }
    return &i->kept;
}

static int times_never(const struct snic_kvfs *k)
{
    return (k->o.flags & SNIC_KVFS_READ_ONLY) != 0 || (k->o.caps & SNIC_KV_CAP_READONLY) != 0 ||
           k->session.dead; /* H5 */
}

int kvfs_keep_times(struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    struct snic_fsop_attr base;
    struct kvfs_kept *kept;
    uint32_t set = 0;
    int rc = kvfs_peek_attr(op, a->ino, &base);
    if (rc != 0)
        return rc;
    if (times_never(op->k))
        return 0;
    set |= times_equal(a->atime, base.atime) ? 0u : (uint32_t)TIMES_ATIME;
    set |= times_equal(a->mtime, base.mtime) ? 0u : (uint32_t)TIMES_MTIME;
    set |= times_equal(a->ctime, base.ctime) ? 0u : (uint32_t)TIMES_CTIME;
    if (kvfs_alone(op->k) && (a->parent != base.parent || a->name.high != base.name.high ||
                              a->name.low != base.name.low))
        set |= TIMES_NAME;
    if (set == 0)
        return 0;
    kept = times_kept(op->k, a->ino);
    if (kept == NULL)
        return 0; /* this inode is not in memory: only the times are lost */
    if ((set & TIMES_ATIME) != 0)
        kept->atime = a->atime;
    if ((set & TIMES_MTIME) != 0)
        kept->mtime = a->mtime;
    if ((set & TIMES_CTIME) != 0)
        kept->ctime = a->ctime;
    if ((set & TIMES_NAME) != 0) {
        kept->version = base.version;
        kept->parent = a->parent;
        kept->name = a->name;
    }
    kept->set |= set;
    return 0;
}

int kvfs_keep_space(struct kvfs_op *op, uint64_t ino, int64_t change)
{
    struct kvfs_kept *kept;
    if (change == 0 || times_never(op->k))
        return 0;
    kept = times_kept(op->k, ino);
    if (kept == NULL)
        return SNIC_ENFILE;
    kept->space += change;
    kept->set |= TIMES_SPACE;
    return 0;
}

int kvfs_flush_times(struct kvfs_op *op, uint64_t ino)
{
    const struct kvfs_inode *i = kvfs_inode_find(op->k, ino);
    struct snic_fsop_attr a;
    int rc;
    if (i == NULL || i->kept.set == 0)
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

/* ---- The engine's own ---- */

/*
 * The oldest, one commit each; s[7] is its number and 1. On most stores a commit of several groups
 * costs more than several commits.
 */
int kvfs_times_flush_all(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    uint64_t ino;
    int rc;
    if (op->commit_state == KVFS_COMMIT_NONE) { /* else the commit is waited for in any case */
        rc = snic_link_alone(&k->kept) ? 0 : kvfs_session_proven(op); /* H5 */
        if (rc != 0)
            return rc;
        if (snic_link_alone(&k->kept)) {
            kvfs_hold_end(op); /* it may have waited for the lock of the last one's writer */
            return 0;
        }
    }
    op->reserve = 1; /* on a full store, too, a session must be able to end or to let others in */
    if (op->s[7] == 0) {
        ino = SNIC_CONTAINER(k->kept.next, struct kvfs_inode, kept.link)->ino;
        op->s[7] = ino + 1;
    }
    rc = kvfs_flush_times(op, op->s[7] - 1);
    if (rc == 0)
        rc = kvfs_commit(op, 0);
    if (rc != 0)
        return rc;
    kvfs_hold_end(op);
    op->s[7] = 0;
    return kvfs_next(op, op->phase);
}

uint64_t kvfs_times_deadline(const struct snic_kvfs *k)
{
    const struct kvfs_inode *i;
    if (snic_link_alone(&k->kept) || k->session.timing)
        return SNIC_NEVER;
    i = SNIC_CONTAINER(k->kept.next, struct kvfs_inode, kept.link);
    return snic_max_u64(i->kept.since_ns + k->o.times_ns, k->session.times_retry_ns);
}

/* Write times that have been kept back for times_ns, or will have been soon. */
int kvfs_run_times(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    const struct kvfs_inode *i;
    int rc = 0;
    if (op->s[7] == 0 && !snic_link_alone(&k->kept)) {
        i = SNIC_CONTAINER(k->kept.next, struct kvfs_inode, kept.link);
        if (i->kept.since_ns + k->o.times_ns / 2 <= k->now.mono_ns)
            rc = kvfs_times_flush_all(op);
    } else if (op->s[7] != 0) {
        rc = kvfs_times_flush_all(op);
    }
    if (kvfs_runs_again(op, rc))
        return rc;
    k->session.timing = 0;
    if (rc != 0)
        k->session.times_retry_ns = k->now.mono_ns + k->o.heartbeat_ns;
    kvfs_session_ended(k);
    return rc;
}
