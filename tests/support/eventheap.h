/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The events of a simulator, earliest first: a binary heap in an array of the caller's.
 *
 * An event is a struct of the caller's that begins with two uint64_t: its time, and a number that
 * orders events of the same time and is different for each. So the order of events depends on
 * nothing else, and a seed is the same run everywhere.
 */
#ifndef SNIC_TESTS_EVENTHEAP_H
#define SNIC_TESTS_EVENTHEAP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline int eventheap_before(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return x[0] != y[0] ? x[0] < y[0] : x[1] < y[1];
}

/** Adds *@p event, of @p size bytes, to the *@p count events of @p heap, which has room for it. */
static inline void eventheap_push(void *heap, uint32_t *count, const void *event, size_t size)
{
    unsigned char *h = heap;
    size_t i = (*count)++;
    while (i > 0 && eventheap_before(event, h + (i - 1) / 2 * size)) {
        memcpy(h + i * size, h + (i - 1) / 2 * size, size);
        i = (i - 1) / 2;
    }
    memcpy(h + i * size, event, size);
}

/** Removes the earliest of the *@p count events, 1 or more, of @p heap into *@p event. */
static inline void eventheap_pop(void *heap, uint32_t *count, void *event, size_t size)
{
    unsigned char *h = heap;
    size_t n = --*count;
    const unsigned char *last = h + n * size;
    size_t i = 0;
    memcpy(event, h, size);
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && eventheap_before(h + (child + 1) * size, h + child * size))
            child++;
        if (!eventheap_before(h + child * size, last))
            break;
        memcpy(h + i * size, h + child * size, size);
        i = child;
    }
    memmove(h + i * size, last, size);
}

#endif /* SNIC_TESTS_EVENTHEAP_H */
