/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Carving one block into aligned pieces, twice with the same calls: once without
 * memory to measure, once with it to place.
 *
 * I1  used is the end of the last piece, or SIZE_MAX once anything overflowed or
 *     did not fit; it stays there.
 * I2  Measuring and placing compute the same offsets.
 */
#include "snicstore/base.h"

void *snic_arena_take(struct snic_arena *a, size_t count, size_t size, size_t align)
{
    size_t bytes;
    size_t end;

    SNIC_ASSERT(snic_is_pow2(align));
    if (a->used == SIZE_MAX)
        return NULL; /* I1 */
    size_t pad = (0 - a->used) & (align - 1);
    if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(a->used, pad, &end) ||
        __builtin_add_overflow(end, bytes, &end) || end == SIZE_MAX ||
        (a->base != NULL && end > a->size)) {
        a->used = SIZE_MAX;
        return NULL;
    }
    a->used = end;
    return a->base != NULL ? a->base + (end - bytes) : NULL;
}
