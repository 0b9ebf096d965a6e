/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Bytes that encode their place and tag: never zero, and different for each tag and place.
 */
#ifndef SNIC_TESTS_FILEPATTERN_H
#define SNIC_TESTS_FILEPATTERN_H

#include <stddef.h>
#include <stdint.h>

static inline unsigned char pattern_byte(uint64_t tag, uint64_t at)
{
    return (unsigned char)((tag * 131 + at * 7 + (at >> 8) * 13) | 1);
}

static inline void pattern(unsigned char *p, size_t n, uint64_t tag, uint64_t at)
{
    size_t i;
    for (i = 0; i < n; i++)
        p[i] = pattern_byte(tag, at + i);
}

static inline int is_pattern(const unsigned char *p, size_t n, uint64_t tag, uint64_t at)
{
    size_t i;
    for (i = 0; i < n; i++)
        if (p[i] != pattern_byte(tag, at + i))
            return 0;
    return 1;
}

static inline int is_zero(const unsigned char *p, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++)
        if (p[i] != 0)
            return 0;
    return 1;
}

#endif /* SNIC_TESTS_FILEPATTERN_H */
