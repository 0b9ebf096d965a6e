/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Locks of inodes, held by operations.
 *
 * L1  held[] is ascending by inode number. An entry without inode is wanted, not held.
 * L2  While its function runs, an operation takes a lock at once or not at all: it then
 *     drops all it holds. Only between rounds does it wait, for its wanted locks in ascending
 *     order. So an operation that waits holds only locks below the one it waits for, and no
 *     cycle of waiters exists.
 * L3  Waiters of an inode are served first come, first served; a lock is handed over to the waiter:
 *     a later operation does not lock an inode with waiters.
 */
#include "kvfs/txn_priv.h"

static int kvfs_txn_lock_find(const struct kvfs_op *op, uint64_t ino)
{
    for (int i = 0; i < op->held_count; i++)
        if (op->held[i].ino == ino)
            return i;
    return -1;
}

/* A new entry in its place (L1). */
static struct kvfs_held *kvfs_txn_lock_insert(struct kvfs_op *op, uint64_t ino, uint8_t mode)
{
    SNIC_ASSERT(op->held_count < KVFS_LOCKS_MAX);
    int i = op->held_count++;
    for (; i > 0 && op->held[i - 1].ino > ino; i--)
        op->held[i] = op->held[i - 1];
    op->held[i] = (struct kvfs_held){.ino = ino, .mode = mode, .wanted = 1};
    return &op->held[i];
}

static int kvfs_txn_lock_is_free(const struct kvfs_inode *inode, uint8_t mode)
{
    return inode->writer == NULL && (mode == KVFS_SHARED || inode->readers == 0);
}

static void kvfs_txn_lock_give(struct kvfs_op *op, struct kvfs_held *h, struct kvfs_inode *inode)
{
    SNIC_DASSERT(kvfs_txn_lock_is_free(inode, h->mode));
    h->inode = inode;
    if (h->mode == KVFS_EXCLUSIVE)
        inode->writer = op;
    else
        inode->readers++;
}

/* Hand the lock to those first in line (L3). */
static void kvfs_txn_lock_grant(struct snic_kvfs *k, struct kvfs_inode *inode)
{
    while (!snic_link_alone(&inode->waiters)) {
        struct kvfs_op *op = SNIC_CONTAINER(inode->waiters.next, struct kvfs_op, wait_link);
        SNIC_ASSERT(op->locking > 0 && op->locking <= op->held_count);
        struct kvfs_held *h = &op->held[op->locking - 1];
        SNIC_ASSERT(h->inode == NULL && h->ino == inode->ino); /* L2 */
        if (!kvfs_txn_lock_is_free(inode, h->mode))
            return;
        snic_link_remove(&op->wait_link);
        op->locking = 0;
        kvfs_txn_lock_give(op, h, inode);
        kvfs_ready(op);
    }
    kvfs_inode_put(k, inode);
}

static void kvfs_txn_lock_release(struct kvfs_op *op, struct kvfs_held *h)
{
    struct kvfs_inode *inode = h->inode;
    if (inode == NULL)
        return;
    h->inode = NULL;
    if (h->mode == KVFS_EXCLUSIVE) {
        SNIC_ASSERT(inode->writer == op);
        inode->writer = NULL;
    } else {
        SNIC_ASSERT(inode->readers > 0);
        inode->readers--;
    }
    kvfs_txn_lock_grant(op->k, inode);
}

/* It is not free (L2). */
static int kvfs_txn_lock_refused(struct kvfs_op *op)
{
    op->again = 1;
    op->drop = 1;
    return KVFS_PENDING;
}

/* More than is held: a reader that is the only one becomes the writer. */
static int kvfs_txn_lock_raise(struct kvfs_op *op, struct kvfs_held *h)
{
    SNIC_ASSERT(h->inode != NULL && h->mode == KVFS_SHARED);
    if (h->inode->readers == 1) {
        h->inode->readers = 0;
        h->inode->writer = op;
        h->mode = KVFS_EXCLUSIVE;
        return 0;
    }
    h->raise = 1;
    return kvfs_txn_lock_refused(op);
}

int kvfs_lock(struct kvfs_op *op, uint64_t ino, enum kvfs_mode mode)
{
    SNIC_DASSERT(op->state == KVFS_OP_RUNNING && op->locking == 0); /* L2 */
    int at = kvfs_txn_lock_find(op, ino);
    struct kvfs_held *h;
    struct kvfs_inode *inode;
    if (at >= 0) {
        h = &op->held[at];
        h->wanted = 1;
        return h->mode >= mode ? 0 : kvfs_txn_lock_raise(op, h);
    }
    if (op->held_count == KVFS_LOCKS_MAX)
        return SNIC_ENFILE;
    inode = kvfs_inode_get(op->k, ino);
    if (inode == NULL)
        return SNIC_ENFILE;
    h = kvfs_txn_lock_insert(op, ino, (uint8_t)mode);
    if (snic_link_alone(&inode->waiters) && kvfs_txn_lock_is_free(inode, h->mode)) {
        kvfs_txn_lock_give(op, h, inode);
        return 0;
    }
    return kvfs_txn_lock_refused(op);
}

void kvfs_unlock_for_retry(struct kvfs_op *op)
{
    uint8_t kept = 0;
    for (uint8_t i = 0; i < op->held_count; i++) {
        struct kvfs_held h = op->held[i];
        kvfs_txn_lock_release(op, &op->held[i]);
        if (!h.wanted)
            continue;
        h.inode = NULL;
        h.wanted = 0;
        h.mode = h.raise ? KVFS_EXCLUSIVE : h.mode;
        h.raise = 0;
        op->held[kept++] = h;
    }
    op->held_count = kept;
}

int kvfs_lock_admit(struct kvfs_op *op)
{
    for (uint8_t i = 0; i < op->held_count; i++) {
        struct kvfs_held *h = &op->held[i];
        struct kvfs_inode *inode;
        if (h->inode != NULL)
            continue;
        inode = kvfs_inode_get(op->k, h->ino);
        if (inode == NULL) {
            op->held_count = i; /* nothing above is held: the function's own kvfs_lock() fails */
            return 1;
        }
        if (!snic_link_alone(&inode->waiters) || !kvfs_txn_lock_is_free(inode, h->mode)) {
            op->locking = (uint8_t)(i + 1);
            snic_link_append(&inode->waiters, &op->wait_link);
            op->state = KVFS_OP_WAITING;
            return 0;
        }
        kvfs_txn_lock_give(op, h, inode);
    }
    return 1;
}

void kvfs_lock_stop_waiting(struct kvfs_op *op)
{
    struct kvfs_inode *inode;
    if (op->locking == 0)
        return;
    inode = kvfs_inode_find(op->k, op->held[op->locking - 1].ino);
    SNIC_ASSERT(inode != NULL);
    op->locking = 0;
    snic_link_remove(&op->wait_link);
    kvfs_txn_lock_grant(op->k, inode);
}

void kvfs_unlock_all(struct kvfs_op *op)
{
    SNIC_DASSERT(op->locking == 0);
    for (uint8_t i = 0; i < op->held_count; i++)
        kvfs_txn_lock_release(op, &op->held[i]);
    op->held_count = 0;
}
