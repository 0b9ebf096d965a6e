/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory of requests in flight: blocks of one arena, the last one used first. A thread that decodes
 * a request has its block in call_decoding until an operation takes it.
 */
#include "mount.h"

#include "../common.h"

#include <string.h>
#include <sys/mman.h>

SNIC_STATIC_ASSERT(sizeof(struct km_call) <= KM_HEAD - KM_WRITE_HEADERS, "a call fits its block");
SNIC_STATIC_ASSERT(KM_BLOCK % KM_PAGE == 0, "data begin a page");

static __thread struct km_call *call_decoding;

int km_calls_open(struct km *m)
{
    size_t size = (size_t)KM_BLOCKS * KM_BLOCK;

    m->arena = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (m->arena == MAP_FAILED) {
        m->arena = NULL;
        return SNIC_ENOMEM;
    }
    /* Few requests use more than the first pages. */
    (void)madvise(m->arena, size, MADV_NOHUGEPAGE);
    pthread_mutex_init(&m->lock, NULL);
    return 0;
}

void km_calls_close(struct km *m)
{
    if (m->arena == NULL)
        return;
    munmap(m->arena, (size_t)KM_BLOCKS * KM_BLOCK);
    pthread_mutex_destroy(&m->lock);
    m->arena = NULL;
}

struct km_call *km_call_get(struct km *m)
{
    struct km_call *c;

    pthread_mutex_lock(&m->lock);
    c = m->free;
    if (c != NULL)
        m->free = c->next;
    else if (m->arena_used < KM_BLOCKS)
        c = (struct km_call *)(void *)(m->arena + (size_t)KM_BLOCK * m->arena_used++);
    pthread_mutex_unlock(&m->lock);
    if (c != NULL) {
        c->m = m;
        c->fuse = NULL;
        c->dev = NULL;
    }
    return c;
}

void km_call_put(struct km_call *c)
{
    struct km *m = c->m;

    pthread_mutex_lock(&m->lock);
    c->next = m->free;
    m->free = c;
    pthread_mutex_unlock(&m->lock);
}

void km_call_clear(struct km_call *c)
{
    memset(&c->r, 0, sizeof(c->r));
    c->interrupt = NULL;
    c->waits = 0;
    c->size = 0;
    c->seek = 0;
    c->opens = 0;
    c->copied = 0;
    c->file = NULL;
    c->data = km_call_data(c);
    c->home = NULL;
    atomic_store_explicit(&c->cancelling, 0, memory_order_relaxed);
}

void km_call_decode(struct km_call *c)
{
    call_decoding = c;
}

struct km_call *km_call_take(void)
{
    struct km_call *c = call_decoding;

    call_decoding = NULL;
    return c;
}
