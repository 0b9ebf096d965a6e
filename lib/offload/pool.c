/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Buffers of the offload engine: a buddy allocator whose bookkeeping lies beside the pool, so
 * that the pool holds nothing but I/O bytes. A block of order k is 2^k smallest blocks, aligned
 * to its size within the pool; freeing merges a block with its buddy as long as that is free.
 *
 * I1  order[i] says something only where a block begins: its order, plus FREE when it is free.
 * I2  every free block is on the list of its order; no two free buddies exist below the top.
 * I3  bytes_free is the sum of the free blocks.
 */
#include "offload/offload_priv.h"

#define SNIC_OFFLOAD__FREE 0x80u
#define SNIC_OFFLOAD__INNER 0x7fu /* not the beginning of a block */

static uint32_t offload_pool_block(const struct snic_offload_opts *o)
{
    return (uint32_t)snic_max_u64(SNIC_OFFLOAD__BLOCK_MIN, o->read_align);
}

/* Place or measure; 0 when the options make no sense. */
int offload_pool_layout(struct offload_pool *p, struct snic_arena *a,
                        const struct snic_offload_opts *o)
{
    uint64_t room = snic_max_u64(SNIC_OFFLOAD__ROOM, o->read_align);
    uint64_t most = room + o->read_max + 2 * (uint64_t)o->read_align + SNIC_OFFLOAD__ROOM;
    memset(p, 0, sizeof(*p));
    p->block = offload_pool_block(o);
    p->orders = 1;
    while ((uint64_t)p->block << (p->orders - 1) < most)
        p->orders++;
    uint64_t top = (uint64_t)p->block << (p->orders - 1);
    uint64_t size = o->pool_bytes - o->pool_bytes % top;
    if (p->orders > SNIC_OFFLOAD__ORDERS || size == 0 || size / p->block >= SNIC_OFFLOAD__NIL)
        return 0;
    p->blocks = (uint32_t)(size / p->block);
    p->mem = snic_arena_take(a, 1, size, SNIC_OFFLOAD_ALIGN);
    p->order = snic_arena_take(a, p->blocks, sizeof(*p->order), 64);
    p->next = snic_arena_take(a, p->blocks, sizeof(*p->next), 64);
    p->prev = snic_arena_take(a, p->blocks, sizeof(*p->prev), 64);
    return 1;
}

static void offload_pool_link(struct offload_pool *p, uint32_t i, uint32_t order)
{
    p->order[i] = (uint8_t)(order | SNIC_OFFLOAD__FREE);
    p->prev[i] = SNIC_OFFLOAD__NIL;
    p->next[i] = p->heads[order];
    if (p->heads[order] != SNIC_OFFLOAD__NIL)
        p->prev[p->heads[order]] = i;
    p->heads[order] = i;
}

static void offload_pool_unlink(struct offload_pool *p, uint32_t i, uint32_t order)
{
    if (p->prev[i] != SNIC_OFFLOAD__NIL)
        p->next[p->prev[i]] = p->next[i];
    else
        p->heads[order] = p->next[i];
    if (p->next[i] != SNIC_OFFLOAD__NIL)
        p->prev[p->next[i]] = p->prev[i];
    p->order[i] = SNIC_OFFLOAD__INNER;
}

void offload_pool_start(struct offload_pool *p)
{
    uint32_t top = p->orders - 1;
    memset(p->order, SNIC_OFFLOAD__INNER, p->blocks);
    for (uint32_t k = 0; k < SNIC_OFFLOAD__ORDERS; k++)
        p->heads[k] = SNIC_OFFLOAD__NIL;
    for (uint32_t i = p->blocks; i > 0; i -= 1u << top)
        offload_pool_link(p, i - (1u << top), top);
    p->bytes_free = (uint64_t)p->blocks * p->block;
}

/* At least @bytes, or NULL. */
unsigned char *offload_pool_take(struct offload_pool *p, uint64_t bytes)
{
    uint32_t want = 0;
    while (want < p->orders && (uint64_t)p->block << want < bytes)
        want++;
    uint32_t k = want;
    while (k < p->orders && p->heads[k] == SNIC_OFFLOAD__NIL)
        k++;
    if (k >= p->orders)
        return NULL;
    uint32_t i = p->heads[k];
    offload_pool_unlink(p, i, k);
    while (k > want) {
        k--;
        offload_pool_link(p, i + (1u << k), k);
    }
    p->order[i] = (uint8_t)want;
    p->bytes_free -= (uint64_t)p->block << want;
    return p->mem + (size_t)i * p->block;
}

void offload_pool_give(struct offload_pool *p, unsigned char *mem)
{
    uint32_t i = (uint32_t)((size_t)(mem - p->mem) / p->block);
    uint32_t k = p->order[i];
    SNIC_ASSERT(k < p->orders); /* I1: given once, and by its beginning */
    p->bytes_free += (uint64_t)p->block << k;
    p->order[i] = SNIC_OFFLOAD__INNER;
    while (k + 1 < p->orders) {
        uint32_t buddy = i ^ (1u << k);
        if (p->order[buddy] != (k | SNIC_OFFLOAD__FREE))
            break;
        offload_pool_unlink(p, buddy, k); /* I2 */
        i &= ~(1u << k);
        k++;
    }
    offload_pool_link(p, i, k);
}

int offload_pool_check(const struct offload_pool *p)
{
    uint64_t bytes = 0;
    uint32_t listed = 0;
    uint32_t found = 0;
    for (uint32_t k = 0; k < p->orders; k++) {
        uint32_t before = SNIC_OFFLOAD__NIL;
        for (uint32_t i = p->heads[k]; i != SNIC_OFFLOAD__NIL; i = p->next[i]) {
            if (i >= p->blocks || p->order[i] != (k | SNIC_OFFLOAD__FREE) || p->prev[i] != before ||
                ++listed > p->blocks)
                return SNIC_ECORRUPT;
            before = i;
        }
    }
    for (uint32_t i = 0; i < p->blocks;) {
        uint32_t k = p->order[i] & SNIC_OFFLOAD__INNER;
        int is_free = (p->order[i] & SNIC_OFFLOAD__FREE) != 0;
        if (k >= p->orders || (i & ((1u << k) - 1)) != 0)
            return SNIC_ECORRUPT;
        uint32_t buddy = i ^ (1u << k);
        if (is_free && k + 1 < p->orders && p->order[buddy] == (k | SNIC_OFFLOAD__FREE))
            return SNIC_ECORRUPT;
        bytes += is_free ? (uint64_t)p->block << k : 0;
        found += (uint32_t)is_free;
        i += 1u << k;
    }
    return found == listed && bytes == p->bytes_free ? 0 : SNIC_ECORRUPT;
}

#undef SNIC_OFFLOAD__FREE
#undef SNIC_OFFLOAD__INNER
