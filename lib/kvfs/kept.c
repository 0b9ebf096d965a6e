/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Changes of attributes that are kept back, in memory: times.c has the invariants H1 to H5, and
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
    if (snic_link_alone(&k->kept))
        return;
    i = kvfs_inode_find(k, a->ino);
    if (i == NULL || i->kept.set == 0)
        return;
    if ((i->kept.set & KVFS_KEPT_ATIME) != 0)
        kvfs_times_newer(&a->atime, i->kept.atime); /* H3 */
    if ((i->kept.set & KVFS_KEPT_MTIME) != 0)
        kvfs_times_newer(&a->mtime, i->kept.mtime);
    if ((i->kept.set & KVFS_KEPT_CTIME) != 0)
        kvfs_times_newer(&a->ctime, i->kept.ctime);
    if ((i->kept.set & KVFS_KEPT_NAME) != 0 && i->kept.version == a->version) {
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

struct kvfs_kept *kvfs_times_kept(struct snic_kvfs *k, uint64_t ino)
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

uint64_t kvfs_times_deadline(const struct snic_kvfs *k)
{
    const struct kvfs_inode *i;
    if (snic_link_alone(&k->kept) || k->session.timing)
        return SNIC_NEVER;
    i = SNIC_CONTAINER(k->kept.next, struct kvfs_inode, kept.link);
    return snic_max_u64(i->kept.since_ns + k->o.times_ns, k->session.times_retry_ns);
}
