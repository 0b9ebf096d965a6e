/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "memory.h"

#include "../common.h"

#include <stdlib.h>
#include <sys/mman.h>

#define EX_HUGE ((size_t)2 << 20)

void *ex_memory(size_t size, const char *what)
{
    void *p = NULL;
    size_t align = size < EX_HUGE ? 4096 : EX_HUGE;

    if (size == 0 || posix_memalign(&p, align, size) != 0)
        ex_die("out of memory for the %s (%zu bytes)", what, size);
    if (size >= EX_HUGE) /* lookups in a large table are misses of the TLB, too */
        (void)madvise(p, size - size % EX_HUGE, MADV_HUGEPAGE);
    return p;
}

void ex_memory_release(void *ctx, void *mem, size_t size)
{
    (void)ctx;
    (void)madvise(mem, size, MADV_DONTNEED);
}
