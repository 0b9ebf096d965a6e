/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Changes of attributes that are deferred, in memory: times.c has the invariants H1 to H5, and
 * writes them.
 */
#include "kvfs/txn_priv.h"

static void kvfs_times_newer(struct snic_fsop_time *to, struct snic_fsop_time t)
{
    if (t.sec > to->sec || (t.sec == to->sec && t.nsec > to->nsec))
        *to = t;
}

void kvfs_times_merge(const struct snic_kvfs *k, struct snic_fsop_attr *a)
{
    const struct kvfs_inode *i;
    int64_t space;
    if (snic_link_alone(&k->deferred))
        return;
    i = kvfs_inode_find(k, a->ino);
    if (i == NULL || i->deferred.set == 0)
        return;
    if ((i->deferred.set & KVFS_DEFER_ATIME) != 0)
        kvfs_times_newer(&a->atime, i->deferred.atime); /* H3 */
    if ((i->deferred.set & KVFS_DEFER_MTIME) != 0)
        kvfs_times_newer(&a->mtime, i->deferred.mtime);
    if ((i->deferred.set & KVFS_DEFER_CTIME) != 0)
        kvfs_times_newer(&a->ctime, i->deferred.ctime);
    if ((i->deferred.set & KVFS_DEFER_NAME) != 0 && i->deferred.version == a->version) {
        a->parent = i->deferred.parent;
        a->name = i->deferred.name;
    }
    if ((a->flags & SNIC_KVFS_ATTR_BIG) == 0)
        return; /* another session has made it a small file: its space is exact */
    space =
        i->deferred.space + (a->version < i->deferred.doubt ? i->deferred.doubtful : 0); /* H4 */
    if (space < 0 && (uint64_t)-space > a->space)
        a->space = 0;
    else
        a->space += (uint64_t)space;
}

void kvfs_times_forget(struct snic_kvfs *k, uint64_t ino)
{
    struct kvfs_inode *i = snic_link_alone(&k->deferred) ? NULL : kvfs_inode_find(k, ino);
    if (i == NULL || i->deferred.set == 0)
        return;
    i->deferred.set = 0;
    snic_link_remove(&i->deferred.link);
    kvfs_inode_put(k, i);
}

void kvfs_times_forget_all(struct snic_kvfs *k)
{
    while (!snic_link_alone(&k->deferred))
        kvfs_times_forget(k,
                          SNIC_CONTAINER(k->deferred.next, struct kvfs_inode, deferred.link)->ino);
}

void kvfs_times_written(struct snic_kvfs *k, const struct snic_fsop_attr *a)
{
    kvfs_times_forget(k, a->ino); /* H1 */
}

void kvfs_times_outcome_unknown(struct snic_kvfs *k, const struct snic_fsop_attr *a)
{
    struct kvfs_inode *i = snic_link_alone(&k->deferred) ? NULL : kvfs_inode_find(k, a->ino);
    if (i == NULL || i->deferred.set == 0)
        return;
    if (a->version > i->deferred.doubt) /* the earlier doubtful commit has happened */
        i->deferred.doubtful = 0;
    i->deferred.doubt = a->version;
    i->deferred.doubtful += i->deferred.space;
    i->deferred.space = 0;
}

struct kvfs_deferred *kvfs_times_deferred(struct snic_kvfs *k, uint64_t ino)
{
    struct kvfs_inode *i = kvfs_inode_get(k, ino);
    if (i == NULL)
        return NULL;
    SNIC_DASSERT((i->deferred.set == 0) == snic_link_alone(&i->deferred.link)); /* H2 */
    if (i->deferred.set == 0) {
        i->deferred.space = 0;
        i->deferred.doubtful = 0;
        i->deferred.doubt = 0;
        i->deferred.since_ns = k->now.mono_ns;
        snic_link_append(&k->deferred, &i->deferred.link);
    }
    return &i->deferred;
}

uint64_t kvfs_times_deadline(const struct snic_kvfs *k)
{
    const struct kvfs_inode *i;
    if (snic_link_alone(&k->deferred) || k->session.timing)
        return SNIC_NEVER;
    i = SNIC_CONTAINER(k->deferred.next, struct kvfs_inode, deferred.link);
    return snic_max_u64(i->deferred.since_ns + k->o.times_ns, k->session.times_retry_ns);
}
