/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Most of a large table may never be touched: kv_server has one of half the machine's memory. So it
 * does not come from the allocator, as sanitizers do something for each byte of what that frees:
 * ThreadSanitizer reads half a byte of its own for each, which takes longer than a whole shutdown.
 */
#include "memory.h"

#include "../common.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EX_HUGE ((size_t)2 << 20)
#define EX_MAPPED ((size_t)64 << 20) /* from here on not the allocator's */

/* On a boundary of huge pages. @return NULL: there is none */
static void *memory_map(size_t size)
{
    size_t room = (size_t)snic_align_up(size, EX_HUGE) + EX_HUGE;
    char *all = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;

    if (all == MAP_FAILED)
        return NULL;
    before = (size_t)(snic_align_up((uintptr_t)all, EX_HUGE) - (uintptr_t)all);
    if (before > 0)
        (void)munmap(all, before);
    if (before < EX_HUGE)
        (void)munmap(all + room - EX_HUGE + before, EX_HUGE - before);
    return all + before;
}

void *ex_memory(struct ex_memory *m, size_t size, const char *what)
{
    void *p = NULL;

    if (size >= EX_MAPPED && size <= SIZE_MAX - 2 * EX_HUGE)
        p = memory_map(size);
    else if (size > 0 && size < EX_MAPPED &&
             posix_memalign(&p, size < EX_HUGE ? 4096 : EX_HUGE, size) != 0)
        p = NULL;
    if (p == NULL)
        ex_die("out of memory for the %s (%zu bytes)", what, size);
    if (size >= EX_HUGE) /* lookups in a large table are misses of the TLB, too */
        (void)madvise(p, size - size % EX_HUGE, MADV_HUGEPAGE);
    *m = (struct ex_memory){p, size};
    return p;
}

void ex_memory_free(struct ex_memory *m)
{
    if (m->size >= EX_MAPPED)
        (void)munmap(m->at, (size_t)snic_align_up(m->size, EX_HUGE));
    else
        free(m->at);
    memset(m, 0, sizeof(*m));
}

void ex_memory_release(void *ctx, void *mem, size_t size)
{
    (void)ctx;
    (void)madvise(mem, size, MADV_DONTNEED);
}
