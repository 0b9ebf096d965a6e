/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory of small records and of nodes: carved from chunks that double up to a huge page, which the
 * kernel is asked to give whole: 4 KiB at a time the faults took a quarter of what creating a file
 * takes. What is given back is kept by size for the next, and all of it goes when the store is
 * closed.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "kv/mem_priv.h"

enum { KVMEM_SLAB_FIRST = 64 << 10, KVMEM_SLAB_LAST = 2 << 20 };

#if defined(__SANITIZE_ADDRESS__)
#define KVMEM_SLAB_NONE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVMEM_SLAB_NONE 1
#endif
#endif
#ifndef KVMEM_SLAB_NONE
#define KVMEM_SLAB_NONE 0 /* 1: each one by itself, so that a use after its end is seen */
#endif

struct kv_mem_chunk_head {
    struct kv_mem_chunk_head *next;
    size_t size;
};

void *kv_mem_slab_carve(struct snic_kvmem *m, size_t size)
{
    struct kv_mem_slab *s = &m->slab;
    size = (size_t)snic_align_up(size, KVMEM_SLAB_STEP);
    if (s->left < size) {
        size_t more = s->chunks == NULL ? KVMEM_SLAB_FIRST : 2 * s->chunks->size;
        if (more > KVMEM_SLAB_LAST)
            more = KVMEM_SLAB_LAST;
        struct kv_mem_chunk_head *c = aligned_alloc(more, more);
        if (c == NULL)
            return NULL;
        if (more == KVMEM_SLAB_LAST)
            (void)madvise(c, more, MADV_HUGEPAGE); /* it may say no */
        c->next = s->chunks;
        c->size = more;
        s->chunks = c;
        s->at = (unsigned char *)c + KVMEM_SLAB_STEP;
        s->left = more - KVMEM_SLAB_STEP;
    }
    void *p = s->at;
    s->at += size;
    s->left -= size;
    return p;
}

static uint32_t kv_mem_slab_class(size_t size)
{
    return (uint32_t)((size + KVMEM_SLAB_STEP - 1) / KVMEM_SLAB_STEP - 1);
}

void *kv_mem_slab_take(struct snic_kvmem *m, size_t size)
{
    void *p;
    if (size > KVMEM_SLAB_MOST || KVMEM_SLAB_NONE)
        return malloc(size);
    void **kept = &m->slab.kept[kv_mem_slab_class(size)];
    if (*kept == NULL)
        return kv_mem_slab_carve(m, size);
    p = *kept;
    memcpy(kept, p, sizeof(*kept));
    return p;
}

void kv_mem_slab_give(struct snic_kvmem *m, void *p, size_t size)
{
    if (size > KVMEM_SLAB_MOST || KVMEM_SLAB_NONE) {
        free(p);
        return;
    }
    void **kept = &m->slab.kept[kv_mem_slab_class(size)];
    memcpy(p, kept, sizeof(*kept));
    *kept = p;
}

void kv_mem_slab_close(struct snic_kvmem *m)
{
    for (struct kv_mem_chunk_head *c = m->slab.chunks, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
}
