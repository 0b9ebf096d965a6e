/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The structural check: every invariant that holds outside a run. */
#include "kvfs/ops.h"

static int kvfs_check_op(const struct snic_kvfs *k, const struct kvfs_op *op)
{
    uint32_t sent = 0;
    for (int i = 0; i <= KVFS_MAIN; i++)
        sent += op->place[i].state == KVFS_PLACE_SENT;
    if (op->in_flight < sent || op->block_used > op->block_count)
        return SNIC_ECORRUPT;
    if (op->state == KVFS_OP_FREE)
        return op->in_flight == 0 && op->held_count == 0 && op->block_count == 0 &&
                       snic_link_alone(&op->wait_link)
                   ? 0
                   : SNIC_ECORRUPT;
    /* Outside a call no operation is ready, and one that waits has a reason to (K1). */
    if (op->state != KVFS_OP_WAITING ||
        (op->in_flight == 0 && !op->asleep && snic_link_alone(&op->wait_link)))
        return SNIC_ECORRUPT;
    if (op->locking != 0 &&
        (op->locking > op->held_count || op->held[op->locking - 1].inode != NULL))
        return SNIC_ECORRUPT;
    for (uint8_t i = 0; i < op->held_count; i++) {
        const struct kvfs_held *h = &op->held[i];
        if (i > 0 && op->held[i - 1].ino >= h->ino) /* L1 */
            return SNIC_ECORRUPT;
        if (h->inode != NULL &&
            (h->inode->ino != h->ino || kvfs_inode_find(k, h->ino) != h->inode ||
             (h->mode == KVFS_EXCLUSIVE) != (h->inode->writer == op)))
            return SNIC_ECORRUPT;
    }
    return 0;
}

/* Operations that hold a lock of the inode shared. */
static uint32_t kvfs_check_readers(const struct snic_kvfs *k, const struct kvfs_inode *inode)
{
    uint32_t n = 0;
    for (uint32_t o = 0; o < k->op_count; o++) {
        const struct kvfs_op *op = &k->ops[o];
        for (uint8_t i = 0; op->state != KVFS_OP_FREE && i < op->held_count; i++)
            n += op->held[i].inode == inode && op->held[i].mode == KVFS_SHARED;
    }
    return n;
}

static int kvfs_check_inode(const struct snic_kvfs *k, const struct kvfs_inode *i)
{
    int idle = i->writer == NULL && i->readers == 0 && snic_link_alone(&i->waiters) &&
               i->opens == 0 && i->pins == 0 && !i->collect && i->deferred.set == 0;
    if (idle || (i->writer != NULL && i->readers != 0)) /* N1 */
        return SNIC_ECORRUPT;
    if (i->collect != !snic_link_alone(&i->collect_link))
        return SNIC_ECORRUPT;
    /* No operation waits for a lock that is free (L3). */
    if (!snic_link_alone(&i->waiters) && i->writer == NULL && i->readers == 0)
        return SNIC_ECORRUPT;
    return kvfs_check_readers(k, i) == i->readers ? 0 : SNIC_ECORRUPT;
}

static int kvfs_check_inodes(const struct snic_kvfs *k)
{
    uint32_t count = 0, held = 0;
    for (uint64_t b = 0; b <= k->inodes.mask; b++) {
        for (const struct kvfs_inode *i = k->inodes.buckets[b]; i != NULL; i = i->next) {
            if (++count > k->inodes.count || kvfs_inode_find(k, i->ino) != i ||
                kvfs_check_inode(k, i) != 0 || i->holds > i->opens)
                return SNIC_ECORRUPT;
            held += i->holds;
        }
    }
    return count == k->inodes.count && held == k->inodes.held && count <= k->inodes.used
               ? 0
               : SNIC_ECORRUPT;
}

static uint32_t kvfs_check_nodes(const struct snic_queue *q)
{
    uint32_t n = 0;
    for (const struct snic_node *i = q->first; i != NULL; i = i->next)
        n++;
    return n;
}

int snic_kvfs_check(const struct snic_kvfs *k)
{
    uint32_t blocks = k->blocks.free_count, requests = 0, own = 0;
    if (k->pumping || !snic_queue_empty(&k->ready))
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < k->op_count; i++) {
        const struct kvfs_op *op = &k->ops[i];
        if (kvfs_check_op(k, op) != 0)
            return SNIC_ECORRUPT;
        blocks += op->block_count;
        requests += !op->own && op->state != KVFS_OP_FREE;
        own += op->own && op->state != KVFS_OP_FREE;
    }
    if (blocks != k->blocks.count || requests != k->in_flight || own != k->own_in_flight ||
        kvfs_check_nodes(&k->free_ops) + requests != k->o.requests_max ||
        kvfs_check_nodes(&k->free_own) + own != KVFS_OWN_MAX)
        return SNIC_ECORRUPT;
    if (kvfs_check_inodes(k) != 0 || kvfs_cache_check(k) != 0 || kvfs_locks_check(k) != 0)
        return SNIC_ECORRUPT;
    return snic_wheel_check(&k->wheel);
}
