/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory of small records and of nodes. Chunks double up to a huge page, which is requested from
 * the kernel as one: a file's records are spread over many pages, and a fault for each costs more
 * than the rest of its creation. A chunk is cut into runs, a run into cells of one size. A run
 * whose cells are all free serves any size again, so records that grow or shrink take no more than
 * the most in use at one time, and part of a run for each size. All is freed when the store is
 * closed.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "kv/mem_priv.h"

enum { KVMEM_SLAB_FIRST = 64 << 10, KVMEM_SLAB_LAST = 2 << 20, KVMEM_SLAB_RUN = 32 << 10 };

#if defined(__SANITIZE_ADDRESS__)
#define KVMEM_SLAB_NONE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVMEM_SLAB_NONE 1
#endif
#endif
#ifndef KVMEM_SLAB_NONE
#define KVMEM_SLAB_NONE 0 /* 1: each one by malloc, so that a use after free is detected */
#endif

struct kv_mem_slab_chunk {
    struct kv_mem_slab_chunk *next;
    unsigned char *memory;
    size_t size;
};

/* At the beginning of a run, which is aligned to its size. */
struct kv_mem_slab_run {
    struct kv_mem_slab_run *next; /* with free cells, of one size; or free runs */
    struct kv_mem_slab_run *prev;
    unsigned char *given_back; /* cells, linked by their first bytes */
    uint32_t cell;             /* bytes */
    uint32_t used;             /* cells */
    uint32_t cut; /* bytes from the beginning: cells end there, the rest is untouched */
    uint32_t pad;
};

static int kv_mem_slab_grow(struct snic_kvmem *m)
{
    struct kv_mem_slab *s = &m->slab;
    size_t more = s->chunks == NULL ? KVMEM_SLAB_FIRST : 2 * s->chunks->size;
    if (more > KVMEM_SLAB_LAST)
        more = KVMEM_SLAB_LAST;
    struct kv_mem_slab_chunk *c = malloc(sizeof(*c));
    unsigned char *memory = c != NULL ? aligned_alloc(more, more) : NULL;
    if (memory == NULL) {
        free(c);
        return SNIC_ENOMEM;
    }
#ifdef MADV_HUGEPAGE /* not with -std=c11 */
    if (more == KVMEM_SLAB_LAST)
        (void)madvise(memory, more, MADV_HUGEPAGE); /* it may be refused */
#endif
    c->next = s->chunks;
    c->memory = memory;
    c->size = more;
    s->chunks = c;
    s->at = memory;
    s->left = more;
    return 0;
}

/* Memory of a run, never used before. */
static void *kv_mem_slab_fresh(struct snic_kvmem *m)
{
    struct kv_mem_slab *s = &m->slab;
    if (s->left == 0 && kv_mem_slab_grow(m) != 0)
        return NULL;
    s->left -= KVMEM_SLAB_RUN;
    s->at += KVMEM_SLAB_RUN;
    return s->at - KVMEM_SLAB_RUN;
}

void *kv_mem_slab_carve(struct snic_kvmem *m, size_t size)
{
    struct kv_mem_slab *s = &m->slab;
    size = (size_t)snic_align_up(size, KVMEM_SLAB_STEP);
    SNIC_ASSERT(size <= KVMEM_SLAB_RUN);
    if (s->carve_left < size) {
        s->carve_at = kv_mem_slab_fresh(m);
        s->carve_left = s->carve_at != NULL ? KVMEM_SLAB_RUN : 0;
        if (s->carve_at == NULL)
            return NULL;
    }
    s->carve_left -= size;
    s->carve_at += size;
    return s->carve_at - size;
}

static void kv_mem_slab_link(struct kv_mem_slab_run **list, struct kv_mem_slab_run *r)
{
    r->next = *list;
    r->prev = NULL;
    if (r->next != NULL)
        r->next->prev = r;
    *list = r;
}

static void kv_mem_slab_unlink(struct kv_mem_slab_run **list, struct kv_mem_slab_run *r)
{
    if (r->next != NULL)
        r->next->prev = r->prev;
    if (r->prev != NULL)
        r->prev->next = r->next;
    else
        *list = r->next;
}

static struct kv_mem_slab_run *kv_mem_slab_run_new(struct snic_kvmem *m, uint32_t cell)
{
    struct kv_mem_slab *s = &m->slab;
    struct kv_mem_slab_run *r = s->runs;
    if (r != NULL)
        kv_mem_slab_unlink(&s->runs, r);
    else if ((r = kv_mem_slab_fresh(m)) == NULL)
        return NULL;
    r->given_back = NULL;
    r->cell = cell;
    r->used = 0;
    r->cut = (uint32_t)snic_align_up(sizeof(*r), KVMEM_SLAB_STEP);
    return r;
}

static int kv_mem_slab_full(const struct kv_mem_slab_run *r)
{
    return r->given_back == NULL && r->cut + r->cell > KVMEM_SLAB_RUN;
}

static struct kv_mem_slab_run **kv_mem_slab_list(struct snic_kvmem *m, size_t size)
{
    return &m->slab.open[(size + KVMEM_SLAB_STEP - 1) / KVMEM_SLAB_STEP - 1];
}

void *kv_mem_slab_take(struct snic_kvmem *m, size_t size)
{
    if (size > KVMEM_SLAB_MOST || KVMEM_SLAB_NONE)
        return malloc(size);
    struct kv_mem_slab_run **list = kv_mem_slab_list(m, size);
    struct kv_mem_slab_run *r = *list;
    if (r == NULL) {
        r = kv_mem_slab_run_new(m, (uint32_t)snic_align_up(size, KVMEM_SLAB_STEP));
        if (r == NULL)
            return NULL;
        kv_mem_slab_link(list, r);
    }
    unsigned char *p = r->given_back;
    if (p != NULL) {
        memcpy(&r->given_back, p, sizeof(r->given_back));
    } else {
        p = (unsigned char *)r + r->cut;
        r->cut += r->cell;
    }
    r->used++;
    if (kv_mem_slab_full(r))
        kv_mem_slab_unlink(list, r);
    return p;
}

void kv_mem_slab_give(struct snic_kvmem *m, void *p, size_t size)
{
    if (size > KVMEM_SLAB_MOST || KVMEM_SLAB_NONE) {
        free(p);
        return;
    }
    struct kv_mem_slab_run **list = kv_mem_slab_list(m, size);
    struct kv_mem_slab_run *r =
        (struct kv_mem_slab_run *)((uintptr_t)p & ~(uintptr_t)(KVMEM_SLAB_RUN - 1));
    if (kv_mem_slab_full(r))
        kv_mem_slab_link(list, r);
    memcpy(p, &r->given_back, sizeof(r->given_back));
    r->given_back = p;
    if (--r->used == 0) {
        kv_mem_slab_unlink(list, r);
        kv_mem_slab_link(&m->slab.runs, r);
    }
}

void kv_mem_slab_close(struct snic_kvmem *m)
{
    for (struct kv_mem_slab_chunk *c = m->slab.chunks, *next; c != NULL; c = next) {
        next = c->next;
        free(c->memory);
        free(c);
    }
}

/* ---- Records ---- */

struct kv_mem_record *kv_mem_record_make(struct snic_kvmem *m, const struct snic_kvop_key *key,
                                         const void *value, uint32_t size)
{
    struct kv_mem_record *r = kv_mem_slab_take(m, sizeof(*r) + size);
    if (r == NULL)
        return NULL;
    r->chain = NULL;
    r->size = size & INT32_MAX;
    r->damaged = 0;
    r->key = *key;
    memcpy(kv_mem_value(r), value, size);
    return r;
}

void kv_mem_record_free(struct snic_kvmem *m, struct kv_mem_record *r)
{
    if (r != NULL)
        kv_mem_slab_give(m, r, sizeof(*r) + r->size);
}
