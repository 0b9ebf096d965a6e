/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Files whose last name was replaced by a rename.
 *
 * A client that looked the name up just before the rename opens the old inode's number right after
 * it, and must find the old file: a saved document exists at any moment. So such an inode is put on
 * the orphans' list, and stays for KVFS_LINGER_NS.
 *
 * G1  An inode in k->lingers has a pin: it counts as open here, also for other sessions.
 * G2  The list is in the order in which they end; the timer is set for the first.
 */
#include "kvfs/session_priv.h"

enum {
    KVFS_LINGER_NS = 250000000,
    KVFS_LINGER_PART = 8 /* of the inodes in memory, at most         */
};

static void kvfs_linger_stop(struct snic_kvfs *k, struct kvfs_inode *i)
{
    uint64_t ino = i->ino;
    SNIC_ASSERT(i->lingers && i->pins > 0); /* G1 */
    SNIC_ASSERT(k->linger_count > 0);
    snic_link_remove(&i->linger_link);
    k->linger_count--;
    i->lingers = 0;
    i->pins--;
    if (i->opens == 0 && i->pins == 0 && k->session.mounted && !k->session.dead) {
        kvfs_collect(k, ino);
        i = kvfs_inode_find(k, ino); /* that may have been its last holder */
    }
    if (i != NULL)
        kvfs_inode_put(k, i);
}

static struct kvfs_inode *kvfs_linger_first(struct snic_kvfs *k)
{
    return snic_link_alone(&k->lingers)
               ? NULL
               : SNIC_CONTAINER(k->lingers.next, struct kvfs_inode, linger_link);
}

static void kvfs_linger_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_kvfs *k = SNIC_CONTAINER(t, struct snic_kvfs, linger_timer);
    struct kvfs_inode *i;
    while ((i = kvfs_linger_first(k)) != NULL && i->linger_ns <= now_ns)
        kvfs_linger_stop(k, i);
    if (i != NULL)
        snic_wheel_arm(&k->wheel, t, i->linger_ns); /* G2 */
}

void kvfs_linger_init(struct snic_kvfs *k)
{
    snic_link_init(&k->lingers);
    snic_timer_init(&k->linger_timer, kvfs_linger_timer);
}

void kvfs_linger(struct kvfs_op *op, uint64_t ino)
{
    struct snic_kvfs *k = op->k;
    struct kvfs_inode *i = kvfs_inode_find(k, ino);
    if (i == NULL || !i->orphan || i->lingers)
        return;
    if (k->linger_count > k->o.inodes_max / KVFS_LINGER_PART)
        kvfs_linger_stop(k, kvfs_linger_first(k));
    i->pins++;
    i->lingers = 1;
    i->linger_ns = k->now.mono_ns + KVFS_LINGER_NS;
    snic_link_append(&k->lingers, &i->linger_link);
    if (k->linger_count++ == 0)
        snic_wheel_arm(&k->wheel, &k->linger_timer, i->linger_ns);
}

void kvfs_linger_end(struct snic_kvfs *k)
{
    struct kvfs_inode *i;
    while ((i = kvfs_linger_first(k)) != NULL)
        kvfs_linger_stop(k, i);
    snic_wheel_cancel(&k->wheel, &k->linger_timer);
}

int kvfs_inode_openable(const struct snic_kvfs *k, uint64_t ino)
{
    const struct kvfs_inode *i = kvfs_inode_find(k, ino);
    return i != NULL && (i->opens != 0 || i->lingers);
}
