/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Blocks, for replies and short beginnings of messages. Their memory is divided into chunks of
 * SNIC_DIRECTOR__CHUNK blocks, which begin where huge pages do; what no connection needs goes back
 * to the program chunk by chunk.
 *
 * I1  A chunk with free blocks is on `open` when its memory is in use or kept, else on `fresh`.
 * I2  On `open`, chunks that are partly used are before those that are free as a whole, and of a
 *     chunk the block that was freed last is taken first: blocks in use lie in few chunks, and the
 *     pool costs as much memory as was needed at once since the last trim, whatever its size.
 * I3  `chunks_spare` is the least count of free chunks on `open` since the last trim. So many were
 *     not needed in that time; others would only be touched again.
 */
#include "director/director_priv.h"

/* First block of chunk @i. */
static uint32_t director_chunk_begin(const struct snic_director *d, uint32_t i)
{
    uint64_t at = (uint64_t)i * SNIC_DIRECTOR__CHUNK;
    at = at > d->chunk_shift ? at - d->chunk_shift : 0;
    return (uint32_t)snic_min_u64(at, d->blocks_count);
}

static uint32_t director_chunk_size(const struct snic_director *d, const struct director_chunk *k)
{
    uint32_t i = (uint32_t)(k - d->chunks);
    return director_chunk_begin(d, i + 1) - director_chunk_begin(d, i);
}

/* Chunks for @blocks blocks, wherever in memory these begin. */
uint32_t director_chunks_count(uint32_t blocks)
{
    return blocks / SNIC_DIRECTOR__CHUNK + 2;
}

void director_blocks_start(struct snic_director *d)
{
    snic_link_init(&d->chunks_open);
    snic_link_init(&d->chunks_fresh);
    d->chunk_shift = (uint32_t)((uintptr_t)d->blocks / SNIC_DIRECTOR__BLOCK % SNIC_DIRECTOR__CHUNK);
    for (uint32_t i = 0; i < director_chunks_count(d->blocks_count); i++) {
        struct director_chunk *k = &d->chunks[i];
        memset(k, 0, sizeof(*k));
        snic_link_init(&k->link);
        if (director_chunk_size(d, k) > 0)
            snic_link_append(&d->chunks_fresh, &k->link);
    }
}

/* The caller has checked that there is one. */
static struct director_block *director_chunk_take(struct snic_director *d)
{
    int fresh = snic_link_alone(&d->chunks_open);
    struct snic_link *l = fresh ? d->chunks_fresh.next : d->chunks_open.next;
    struct director_chunk *k = SNIC_CONTAINER(l, struct director_chunk, link);
    struct snic_node *n = snic_queue_pop(&k->idle);
    if (n == NULL)
        n = &d->blocks[director_chunk_begin(d, (uint32_t)(k - d->chunks)) + k->made++].piece.node;
    if (fresh) { /* I1 */
        snic_link_remove(&k->link);
        snic_link_append(&d->chunks_open, &k->link);
    } else if (k->used == 0) {
        d->chunks_empty--;
        d->chunks_spare = (uint32_t)snic_min_u64(d->chunks_spare, d->chunks_empty); /* I3 */
    }
    if (++k->used == director_chunk_size(d, k))
        snic_link_remove(&k->link);
    return (struct director_block *)SNIC_CONTAINER(n, struct director_piece, node);
}

static void director_chunk_give(struct snic_director *d, struct director_block *b)
{
    uint32_t i = (uint32_t)(b - d->blocks);
    struct director_chunk *k = &d->chunks[(i + d->chunk_shift) / SNIC_DIRECTOR__CHUNK];
    b->piece.node.next = k->idle.first;
    if (k->idle.first == NULL)
        k->idle.last = &b->piece.node;
    k->idle.first = &b->piece.node;
    if (k->used == director_chunk_size(d, k)) /* I2 */
        snic_link_append(d->chunks_open.next, &k->link);
    if (--k->used > 0)
        return;
    snic_link_remove(&k->link);
    snic_link_append(&d->chunks_open, &k->link);
    d->chunks_empty++;
}

/* A block for @c, unless no more than @reserve are left. */
struct director_block *director_block_take(struct snic_director_conn *c, uint32_t reserve)
{
    struct snic_director *d = c->d;
    if (d->blocks_free <= reserve)
        return NULL;
    struct director_block *b = director_chunk_take(d);
    d->blocks_free--;
    director_hold(c, SNIC_DIRECTOR__BLOCK);
    b->piece.node.next = NULL;
    b->piece.kind = DIRECTOR_PIECE_BLOCK;
    b->piece.begin = b->piece.flight = b->piece.end = 0;
    return b;
}

void director_block_give(struct snic_director_conn *c, struct director_block *b)
{
    struct snic_director *d = c->d;
    SNIC_DASSERT(c->mem >= SNIC_DIRECTOR__BLOCK);
    c->mem -= SNIC_DIRECTOR__BLOCK;
    d->held -= c->kept ? 0 : SNIC_DIRECTOR__BLOCK;
    director_chunk_give(d, b);
    SNIC_ASSERT(d->blocks_free < d->blocks_count);
    d->blocks_free++;
    if (SNIC_UNLIKELY(d->blocks_free > 4 * SNIC_DIRECTOR__RESERVE)) {
        if (d->stalled && d->channel != NULL) {
            d->stalled = 0;
            snic_channel_resume(d->channel);
        }
        if (!snic_link_alone(&d->wait_block))
            director_wake(d, &d->wait_block, SNIC_DIRECTOR__WAIT_BLOCK);
    }
}

uint64_t snic_director_trim(struct snic_director *d, uint64_t keep_bytes, uint64_t most_bytes,
                            void (*release)(void *ctx, void *mem, size_t size), void *ctx)
{
    const uint64_t chunk = (uint64_t)SNIC_DIRECTOR__CHUNK * SNIC_DIRECTOR__BLOCK;
    uint64_t done = 0;
    while (d->chunks_spare > 0 && d->chunks_empty * chunk > keep_bytes &&
           done + chunk <= most_bytes) {
        struct director_chunk *k = SNIC_CONTAINER(d->chunks_open.prev, struct director_chunk, link);
        size_t size = (size_t)director_chunk_size(d, k) * SNIC_DIRECTOR__BLOCK;
        SNIC_ASSERT(k->used == 0); /* I2 */
        memset(&k->idle, 0, sizeof(k->idle));
        k->made = 0;
        snic_link_remove(&k->link);
        snic_link_append(&d->chunks_fresh, &k->link);
        d->chunks_empty--;
        d->chunks_spare--;
        release(ctx, &d->blocks[director_chunk_begin(d, (uint32_t)(k - d->chunks))], size);
        done += size;
    }
    d->chunks_spare = d->chunks_empty;
    return done;
}

/* Free blocks by the chunks' counts, or a huge number when these are wrong. */
uint64_t director_blocks_check(const struct snic_director *d)
{
    uint64_t blocks = 0;
    uint32_t empty = 0;
    for (uint32_t i = 0; i < director_chunks_count(d->blocks_count); i++) {
        const struct director_chunk *k = &d->chunks[i];
        uint32_t size = director_chunk_size(d, k);
        uint32_t idle = 0;
        for (const struct snic_node *n = k->idle.first; n != NULL && idle <= size; n = n->next)
            idle++;
        if (k->used + idle != k->made || k->made > size ||
            (k->used == size) != snic_link_alone(&k->link))
            return UINT64_MAX;
        empty += k->used == 0 && k->made > 0;
        blocks += size - k->used;
    }
    return empty == d->chunks_empty && d->chunks_spare <= empty ? blocks : UINT64_MAX;
}
