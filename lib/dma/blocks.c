/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Memory of the dma backends whose ends share a process.
 *
 * Invariants
 *   B1 A block is freed with the whole list only: the peer's pointers into it, and pieces in
 *      flight, outlive its release.
 *   B2 A block is used again for what takes half of it or more.
 */
#include "dma/blocks.h"

#include <stdlib.h>

#define SNIC_DMA_BLOCK__PAGE 4096

int dma_block_alloc(struct dma_block **blocks, size_t size, void **out)
{
    if (size == 0)
        return SNIC_EINVAL;
    if (size > SIZE_MAX / 2)
        return SNIC_ENOMEM;
    size = (size_t)snic_align_up(size, SNIC_DMA_BLOCK__PAGE);
    struct dma_block *b = *blocks;
    while (b != NULL && (b->used || b->size < size || b->size / 2 > size)) /* B2 */
        b = b->next;
    if (b == NULL) {
        b = malloc(sizeof(*b));
        unsigned char *raw = calloc(1, size + SNIC_DMA_BLOCK__PAGE); /* large: pages untouched */
        if (b == NULL || raw == NULL) {
            free(b);
            free(raw);
            return SNIC_ENOMEM;
        }
        size_t skip = SNIC_DMA_BLOCK__PAGE - ((uintptr_t)raw & (SNIC_DMA_BLOCK__PAGE - 1));
        *b = (struct dma_block){.next = *blocks, .raw = raw, .mem = raw + skip, .size = size};
        *blocks = b;
    } else {
        memset(b->mem, 0, b->size);
    }
    b->used = 1;
    *out = b->mem;
    return 0;
}

void dma_block_release(struct dma_block *blocks, const void *mem)
{
    struct dma_block *b = blocks;
    while (b != NULL && !(b->used && b->mem == mem))
        b = b->next;
    SNIC_ASSERT(b != NULL);
    if (b != NULL)
        b->used = 0; /* B1 */
}

int dma_block_holds(const struct dma_block *blocks, const void *mem, size_t size)
{
    uintptr_t at = (uintptr_t)mem;
    for (const struct dma_block *b = blocks; b != NULL; b = b->next) {
        uintptr_t base = (uintptr_t)b->mem;
        if (b->used && at >= base && at - base <= b->size && size <= b->size - (at - base))
            return 1;
    }
    return 0;
}

void dma_block_free(struct dma_block *blocks)
{
    while (blocks != NULL) {
        struct dma_block *next = blocks->next;
        free(blocks->raw);
        free(blocks);
        blocks = next;
    }
}
