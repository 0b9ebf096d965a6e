/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** The memory of an end whose peer lives in the same process: a list of heap blocks. */
#ifndef SNIC_DMA_BLOCKS_H
#define SNIC_DMA_BLOCKS_H

#include "snicstore/dma.h"

struct dma_block {
    struct dma_block *next;
    unsigned char *raw; /* as it was allocated */
    unsigned char *mem;
    size_t size;
    int used;
};

/** A zeroed block of whole pages. 0, or the errors of snic_dma_alloc(). */
int dma_block_alloc(struct dma_block **blocks, size_t size, void **out);
/** Asserts that @p mem came from alloc. It stays memory, for later allocs, until free. */
void dma_block_release(struct dma_block *blocks, const void *mem);
/** 1 if all of [mem, mem + size) lies in one block in use. */
int dma_block_holds(const struct dma_block *blocks, const void *mem, size_t size);
void dma_block_free(struct dma_block *blocks);

#endif /* SNIC_DMA_BLOCKS_H */
