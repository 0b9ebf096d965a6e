/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Buffers of the offload engine: runs of blocks (base/runs.h), as many as a read needs. A block is
 * as large as reads are aligned, so that a run begins where a read may. Behind the blocks each
 * context has room for reply()'s header and trailer where the alignment is so coarse that room in
 * front of each read would cost more than the read: they leave as pieces of their own then.
 */
#include "offload/offload_priv.h"

/* Place or measure; 0 when the options make no sense. */
int offload_pool_layout(struct offload_pool *p, struct snic_arena *a,
                        const struct snic_offload_opts *o)
{
    uint64_t least;
    memset(p, 0, sizeof(*p));
    p->block = (uint32_t)snic_max_u64(SNIC_OFFLOAD__BLOCK_MIN, o->read_align);
    p->apart = o->read_align > SNIC_OFFLOAD__NEAR;
    p->room = p->apart ? 0 : (uint32_t)snic_max_u64(SNIC_OFFLOAD__ROOM, o->read_align);
    least =
        o->read_max + 2 * (uint64_t)o->read_align + (p->apart ? 0 : p->room) + SNIC_OFFLOAD__ROOM;
    if (o->pool_bytes / p->block < snic_align_up(least, p->block) / p->block ||
        o->pool_bytes / p->block > SNIC_RUNS__BLOCKS_MAX)
        return 0;
    p->blocks = (uint32_t)(o->pool_bytes / p->block);
    p->bytes = (uint64_t)p->blocks * p->block;
    if (p->apart)
        p->bytes += (uint64_t)o->contexts * 2 * SNIC_OFFLOAD__ROOM;
    p->mem = snic_arena_take(a, 1, p->bytes, SNIC_OFFLOAD_ALIGN);
    p->runs.tag = snic_arena_take(a, p->blocks, sizeof(*p->runs.tag), 64);
    p->runs.next = snic_arena_take(a, p->blocks, sizeof(*p->runs.next), 64);
    p->runs.prev = snic_arena_take(a, p->blocks, sizeof(*p->runs.prev), 64);
    return 1;
}

void offload_pool_start(struct offload_pool *p)
{
    memset(p->mem, 0, p->bytes);
    base_runs_start(&p->runs, p->blocks);
}

/* What a buffer of @bytes takes. */
uint64_t offload_pool_round(const struct offload_pool *p, uint64_t bytes)
{
    return snic_align_up(bytes, p->block);
}

/* At least @bytes, or NULL. */
unsigned char *offload_pool_take(struct offload_pool *p, uint64_t bytes)
{
    uint64_t n = offload_pool_round(p, bytes) / p->block;
    uint32_t i = n > p->blocks ? SNIC_RUNS__NONE : base_runs_take(&p->runs, (uint32_t)n);
    return i == SNIC_RUNS__NONE ? NULL : p->mem + (size_t)i * p->block;
}

void offload_pool_give(struct offload_pool *p, unsigned char *mem)
{
    base_runs_give(&p->runs, (uint32_t)((size_t)(mem - p->mem) / p->block));
}

uint64_t offload_pool_free(const struct offload_pool *p)
{
    return (uint64_t)p->runs.free_blocks * p->block;
}

/* Header and trailer of context @number, where they have no room in its buffer. */
unsigned char *offload_pool_text(const struct offload_pool *p, uint32_t number)
{
    return p->mem + (size_t)p->blocks * p->block + (size_t)number * 2 * SNIC_OFFLOAD__ROOM;
}
