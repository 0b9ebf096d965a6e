/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Inodes in memory.
 *
 * N1  An inode is in the table while it has a lock, a waiter for one, an open, a pin, times kept
 *     back, or is to be collected.
 */
#include "kvfs/txn_priv.h"

enum {
    KVFS_INODE_COLLECTS = 6, /* at once: other own operations need places, too */
    KVFS_INODE_HELD_PART = 4 /* of the table, at most, are held */
};

size_t kvfs_inodes_place(struct kvfs_inodes *t, struct snic_arena *a, uint32_t max)
{
    uint64_t buckets = snic_pow2_up(max);
    t->max = max;
    t->mask = buckets - 1;
    t->buckets = snic_arena_take(a, buckets, sizeof(*t->buckets), 64);
    t->pool = snic_arena_take(a, max, sizeof(*t->pool), 64);
    return a->used;
}

static struct kvfs_inode **kvfs_inode_bucket(const struct snic_kvfs *k, uint64_t ino)
{
    uint64_t h = ino * 0x9e3779b97f4a7c15ULL;
    return &k->inodes.buckets[(h >> 32) & k->inodes.mask];
}

struct kvfs_inode *kvfs_inode_find(const struct snic_kvfs *k, uint64_t ino)
{
    struct kvfs_inode *i = *kvfs_inode_bucket(k, ino);
    while (i != NULL && i->ino != ino)
        i = i->next;
    return i;
}

struct kvfs_inode *kvfs_inode_get(struct snic_kvfs *k, uint64_t ino)
{
    struct kvfs_inodes *t = &k->inodes;
    struct kvfs_inode **bucket = kvfs_inode_bucket(k, ino);
    struct kvfs_inode *i = kvfs_inode_find(k, ino);
    if (i != NULL)
        return i;
    if (t->free != NULL) {
        i = t->free;
        t->free = i->next;
    } else if (t->used < t->max) {
        i = &t->pool[t->used++];
    } else {
        return NULL;
    }
    memset(i, 0, sizeof(*i));
    i->ino = ino;
    snic_link_init(&i->waiters);
    snic_link_init(&i->collect_link);
    snic_link_init(&i->linger_link);
    snic_link_init(&i->deferred.link);
    i->next = *bucket;
    *bucket = i;
    t->count++;
    return i;
}

void kvfs_inode_put(struct snic_kvfs *k, struct kvfs_inode *inode)
{
    struct kvfs_inode **at = kvfs_inode_bucket(k, inode->ino);
    if (inode->writer != NULL || inode->readers != 0 || !snic_link_alone(&inode->waiters) ||
        inode->opens != 0 || inode->pins != 0 || inode->collect || inode->deferred.set != 0)
        return; /* N1 */
    while (*at != inode) {
        SNIC_DASSERT(*at != NULL);
        at = &(*at)->next;
    }
    SNIC_ASSERT(k->inodes.count > 0);
    *at = inode->next;
    inode->next = k->inodes.free;
    k->inodes.free = inode;
    k->inodes.count--;
}

int kvfs_inode_next(const struct snic_kvfs *k, uint64_t *cursor, uint64_t *ino)
{
    for (; *cursor < k->inodes.used; (*cursor)++) {
        const struct kvfs_inode *i = &k->inodes.pool[*cursor];
        if (kvfs_inode_find(k, i->ino) == i && (i->opens != 0 || i->deferred.set != 0)) {
            *ino = i->ino;
            (*cursor)++;
            return 1;
        }
    }
    return 0;
}

int kvfs_inode_open(struct kvfs_op *op, uint64_t ino)
{
    struct kvfs_inode *i = kvfs_inode_get(op->k, ino);
    if (i == NULL)
        return SNIC_ENFILE;
    i->opens++;
    return 0;
}

int kvfs_inode_holds(const struct kvfs_op *op)
{
    return op->req != NULL && (op->req->flags & SNIC_FSOP_HOLD) != 0 &&
           op->k->inodes.held < op->k->o.inodes_max / KVFS_INODE_HELD_PART;
}

int kvfs_inode_hold(struct kvfs_op *op, uint64_t ino)
{
    struct kvfs_inode *i = kvfs_inode_find(op->k, ino);
    if (i == NULL || !i->orphan || !kvfs_inode_holds(op)) {
        op->k->stats.unheld += (op->req->flags & SNIC_FSOP_HOLD) != 0;
        return 0;
    }
    i->opens++;
    i->holds++;
    op->k->inodes.held++;
    op->req->handle = kvfs_handle(ino, 0);
    op->req->attr.ino = ino;
    if (!kvfs_alone(op->k))
        kvfs_collect(op->k, ino); /* it records for others that the inode is open */
    return 1;
}

void kvfs_inode_close(struct snic_kvfs *k, uint64_t handle)
{
    uint64_t ino = kvfs_handle_ino(handle);
    struct kvfs_inode *i = kvfs_inode_find(k, ino);
    if (i == NULL || i->opens == 0)
        return;
    /* A handle is the client's number: with other bits than it got it may be the last of a hold. */
    if (i->holds > 0 && (kvfs_handle_flags(handle) == 0 || i->holds == i->opens)) {
        SNIC_ASSERT(k->inodes.held > 0);
        i->holds--;
        k->inodes.held--;
    }
    i->opens--;
    SNIC_ASSERT(i->holds <= i->opens);
    if (i->opens == 0 && i->orphan) {
        kvfs_collect(k, ino);
        i = kvfs_inode_find(k, ino); /* that may have been its last holder */
    }
    if (i != NULL)
        kvfs_inode_put(k, i);
}

uint32_t kvfs_inode_opens(const struct snic_kvfs *k, uint64_t ino)
{
    const struct kvfs_inode *i = kvfs_inode_find(k, ino);
    return i == NULL ? 0 : i->opens;
}

int kvfs_tail_is_clean(const struct kvfs_op *op, uint64_t ino)
{
    const struct kvfs_inode *i = kvfs_inode_find(op->k, ino);
    return i != NULL && kvfs_alone(op->k) && i->clean == op->k->session.era + 1;
}

void kvfs_tail_set(struct kvfs_op *op, uint64_t ino, int clean)
{
    struct kvfs_inode *i = kvfs_inode_find(op->k, ino);
    if (i != NULL)
        i->clean = clean ? op->era + 1 : 0;
}

/* ---- The end of an inode ---- */

void kvfs_inode_pump(struct snic_kvfs *k)
{
    while (!snic_link_alone(&k->collects) && !snic_queue_empty(&k->free_own) &&
           k->session.collecting < KVFS_INODE_COLLECTS) {
        struct kvfs_inode *i = SNIC_CONTAINER(k->collects.next, struct kvfs_inode, collect_link);
        uint64_t ino = i->ino;
        SNIC_ASSERT(i->collect);
        snic_link_remove(&i->collect_link);
        i->collect = 0;
        kvfs_inode_put(k, i);
        k->session.collecting++;
        (void)kvfs_spawn(k, KVFS_OWN_COLLECT, ino);
    }
    if (!snic_link_alone(&k->ino_waiters) && !k->ino_fetching && !snic_queue_empty(&k->free_own))
        kvfs_wake_all(&k->ino_waiters);
}

void kvfs_collect(struct snic_kvfs *k, uint64_t ino)
{
    struct kvfs_inode *i = kvfs_inode_find(k, ino);
    if (i == NULL || i->collect || !i->orphan)
        return; /* removed by the commit; or the sweep of the orphans' list finds it */
    i->collect = 1;
    snic_link_append(&k->collects, &i->collect_link);
    kvfs_inode_pump(k);
}
