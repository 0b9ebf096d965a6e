/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory of operations: first a part of each operation, then blocks of a pool that all share.
 *
 * M1  An operation that finds the pool empty releases all it has, locks included, and waits, first
 *     come first served, until as many blocks are free as it is known to need.
 * M2  While one waits, no other takes a block. So the first waiter continues when those that hold
 *     blocks end or start over, for which none of them needs more blocks.
 */
#include "kvfs/txn_priv.h"

enum { KVFS_TXN_MEMORY_ALIGN = 16 };

struct kvfs_alloc {
    struct kvfs_alloc *next;
    size_t size;
};
SNIC_STATIC_ASSERT(sizeof(struct kvfs_alloc) == KVFS_TXN_MEMORY_ALIGN,
                   "the memory follows, aligned");

/* The next block: one that was waited for, or a free one (M2). NULL: see M1. */
static unsigned char *kvfs_txn_memory_block(struct kvfs_op *op)
{
    struct kvfs_blocks *b = &op->k->blocks;
    SNIC_ASSERT(op->block_used <= op->block_count);
    if (op->block_used == op->block_count) {
        if (op->block_count == KVFS_BLOCKS_OP)
            return NULL;
        if (b->free_count == 0 || !snic_link_alone(&b->waiters)) {
            op->block_need = (uint8_t)(op->block_count + 1);
            op->again = 1;
            op->drop = 1;
            return NULL;
        }
        op->blocks[op->block_count++] = b->free[--b->free_count];
    }
    return op->blocks[op->block_used++];
}

void *kvfs_memory(struct kvfs_op *op, size_t size)
{
    unsigned char *p;
    SNIC_DASSERT(op->inline_used <= KVFS_INLINE && op->block_left <= KVFS_BLOCK);
    size = (size_t)snic_align_up(size == 0 ? 1 : size, KVFS_TXN_MEMORY_ALIGN);
    if (size > KVFS_BLOCK)
        return NULL;
    if (size <= KVFS_INLINE - op->inline_used) {
        p = op->memory + op->inline_used;
        op->inline_used += (uint32_t)size;
        return p;
    }
    if (size > op->block_left) {
        p = kvfs_txn_memory_block(op);
        if (p == NULL)
            return NULL;
        op->block_at = p;
        op->block_left = KVFS_BLOCK;
    }
    p = op->block_at;
    op->block_at += size;
    op->block_left -= (uint32_t)size;
    return p;
}

void *kvfs_alloc(struct kvfs_op *op, size_t size)
{
    struct kvfs_alloc *t = *op->alloc_at;
    if (t == NULL || t->size != size) {
        if (size > KVFS_BLOCK - sizeof(*t))
            return NULL;
        t = kvfs_memory(op, sizeof(*t) + size);
        if (t == NULL)
            return NULL;
        memset(t, 0, sizeof(*t) + size);
        t->size = size;
        *op->alloc_at = t;
    }
    op->alloc_at = &t->next;
    return t + 1;
}

/* Serve the first waiters, as far as the blocks go. */
static void kvfs_txn_memory_grant(struct kvfs_blocks *b)
{
    while (!snic_link_alone(&b->waiters)) {
        struct kvfs_op *op = SNIC_CONTAINER(b->waiters.next, struct kvfs_op, wait_link);
        SNIC_ASSERT(op->block_need > op->block_count && op->block_need <= KVFS_BLOCKS_OP);
        if (b->free_count < op->block_need)
            return;
        snic_link_remove(&op->wait_link);
        while (op->block_count < op->block_need)
            op->blocks[op->block_count++] = b->free[--b->free_count];
        kvfs_ready(op);
    }
}

void kvfs_memory_drop(struct kvfs_op *op)
{
    struct kvfs_blocks *b = &op->k->blocks;
    op->inline_used = 0;
    op->block_left = 0;
    op->block_used = 0;
    if (op->block_count == 0)
        return;
    SNIC_ASSERT(b->free_count + op->block_count <= b->count);
    while (op->block_count > 0)
        b->free[b->free_count++] = op->blocks[--op->block_count];
    kvfs_txn_memory_grant(b);
}

int kvfs_memory_admit(struct kvfs_op *op)
{
    struct kvfs_blocks *b = &op->k->blocks;
    if (op->block_need > op->block_count &&
        (b->free_count < op->block_need || !snic_link_alone(&b->waiters))) {
        snic_link_append(&b->waiters, &op->wait_link);
        op->state = KVFS_OP_WAITING;
        return 0;
    }
    while (op->block_count < op->block_need)
        op->blocks[op->block_count++] = b->free[--b->free_count];
    return 1;
}
