/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file base/runs.h
 * Library-internal: runs of adjacent blocks out of a pool, each exactly as long as was asked for.
 * Free runs are listed by length (eight classes for each power of two) and merged with their free
 * neighbours when they are returned; the bookkeeping lies beside the pool. Not installed.
 *
 * Depends on  snicstore/base.h, base/simd.h.
 * Memory      The caller places four arrays, of SNIC_RUNS__TAG bytes per block together.
 * Threads     [owner]
 * Progress    Taking and returning cost a constant number of steps.
 * Errors      SNIC_RUNS__NONE when no free run is long enough.
 * Units       Blocks.
 *
 * I1  tag[] of the first and of the last block of a run is its length, plus FREE when it is free;
 *     those between have no meaning.
 * I2  Every free run is on the list of its class; no two free runs are neighbours.
 * I3  free_blocks is the sum of the free runs.
 */
#ifndef SNIC_BASE_RUNS_H
#define SNIC_BASE_RUNS_H

#include "base/simd.h"

#define SNIC_RUNS__NONE UINT32_MAX
#define SNIC_RUNS__BLOCKS_MAX (1u << 30)
#define SNIC_RUNS__FREE 0x80000000u
#define SNIC_RUNS__CLASSES 256u /* 8 + 8 for each power of two from 8 on */
#define SNIC_RUNS__LOOK 16u     /* runs of the class itself that are looked at */
#define SNIC_RUNS__TAG 12u

struct base_runs {
    uint32_t *tag;
    uint32_t *next; /* of free runs, by their first block */
    uint32_t *prev;
    uint32_t blocks;
    uint32_t free_blocks;
    uint64_t any[SNIC_RUNS__CLASSES / 64]; /* classes whose list is not empty */
    uint32_t heads[SNIC_RUNS__CLASSES];
};

static inline uint32_t base_runs_log2(uint32_t n)
{
    return 31 - (uint32_t)__builtin_clz(n);
}

static inline uint32_t base_runs_class(uint32_t n)
{
    if (n < 8)
        return n;
    uint32_t e = base_runs_log2(n);
    return 8 * (e - 2) + (n >> (e - 3) & 7);
}

/* The first class in which every run has @n blocks. */
static inline uint32_t base_runs_class_up(uint32_t n)
{
    return n < 8 ? n : base_runs_class(n + (1u << (base_runs_log2(n) - 3)) - 1);
}

static inline void base_runs_link(struct base_runs *r, uint32_t i, uint32_t n)
{
    uint32_t k = base_runs_class(n);
    r->tag[i] = r->tag[i + n - 1] = n | SNIC_RUNS__FREE;
    r->prev[i] = SNIC_RUNS__NONE;
    r->next[i] = r->heads[k];
    if (r->heads[k] != SNIC_RUNS__NONE)
        r->prev[r->heads[k]] = i;
    r->heads[k] = i;
    r->any[k / 64] |= (uint64_t)1 << k % 64;
}

static inline void base_runs_unlink(struct base_runs *r, uint32_t i, uint32_t n)
{
    uint32_t k = base_runs_class(n);
    if (r->prev[i] != SNIC_RUNS__NONE)
        r->next[r->prev[i]] = r->next[i];
    else
        r->heads[k] = r->next[i];
    if (r->next[i] != SNIC_RUNS__NONE)
        r->prev[r->next[i]] = r->prev[i];
    if (r->heads[k] == SNIC_RUNS__NONE)
        r->any[k / 64] &= ~((uint64_t)1 << k % 64);
}

/* All of @blocks are free; the arrays are in place. */
static inline void base_runs_start(struct base_runs *r, uint32_t blocks)
{
    memset(r->any, 0, sizeof(r->any));
    memset(r->heads, 0xff, sizeof(r->heads));
    r->blocks = r->free_blocks = blocks;
    base_runs_link(r, 0, blocks);
}

/* A free run of at least @n. */
static inline uint32_t base_runs_find(const struct base_runs *r, uint32_t n)
{
    uint32_t k = base_runs_class_up(n);
    for (uint32_t w = k / 64; w < SNIC_RUNS__CLASSES / 64; w++) {
        uint64_t any = r->any[w] & (w == k / 64 ? ~(uint64_t)0 << k % 64 : ~(uint64_t)0);
        if (any != 0)
            return r->heads[w * 64 + simd_lowest64(any)];
    }
    uint32_t i = r->heads[base_runs_class(n)];
    for (uint32_t look = 0; i != SNIC_RUNS__NONE && look < SNIC_RUNS__LOOK; look++) {
        if ((r->tag[i] & ~SNIC_RUNS__FREE) >= n)
            return i;
        i = r->next[i];
    }
    return SNIC_RUNS__NONE;
}

/* The first block of a run of @n, at least 1, or SNIC_RUNS__NONE. */
static inline uint32_t base_runs_take(struct base_runs *r, uint32_t n)
{
    uint32_t i = n > r->free_blocks ? SNIC_RUNS__NONE : base_runs_find(r, n);
    if (i == SNIC_RUNS__NONE)
        return i;
    uint32_t have = r->tag[i] & ~SNIC_RUNS__FREE;
    base_runs_unlink(r, i, have);
    if (have > n)
        base_runs_link(r, i + n, have - n);
    r->tag[i] = r->tag[i + n - 1] = n;
    r->free_blocks -= n;
    return i;
}

/* Make the run that begins with block @i @n blocks long where it is; 0: there is no room behind. */
static inline int base_runs_extend(struct base_runs *r, uint32_t i, uint32_t n)
{
    uint32_t had = r->tag[i];
    uint32_t behind = i + had;
    SNIC_ASSERT(had > 0 && had <= n && behind <= r->blocks);
    if (behind == r->blocks || (r->tag[behind] & SNIC_RUNS__FREE) == 0)
        return had == n;
    uint32_t more = r->tag[behind] & ~SNIC_RUNS__FREE;
    if (more < n - had)
        return 0;
    base_runs_unlink(r, behind, more);
    if (had + more > n)
        base_runs_link(r, i + n, had + more - n);
    r->tag[i] = r->tag[i + n - 1] = n;
    r->free_blocks -= n - had;
    return 1;
}

/* Return the run that begins with block @i. */
static inline void base_runs_give(struct base_runs *r, uint32_t i)
{
    uint32_t n = r->tag[i];
    SNIC_ASSERT(n > 0 && n <= r->blocks - i && r->tag[i + n - 1] == n); /* I1: and given once */
    r->free_blocks += n;
    if (i + n < r->blocks && (r->tag[i + n] & SNIC_RUNS__FREE) != 0) {
        uint32_t more = r->tag[i + n] & ~SNIC_RUNS__FREE;
        base_runs_unlink(r, i + n, more);
        n += more;
    }
    if (i > 0 && (r->tag[i - 1] & SNIC_RUNS__FREE) != 0) {
        uint32_t more = r->tag[i - 1] & ~SNIC_RUNS__FREE;
        i -= more;
        base_runs_unlink(r, i, more);
        n += more;
    }
    base_runs_link(r, i, n);
}

/* Structure check for tests: 0 or SNIC_ECORRUPT. */
static inline int base_runs_check(const struct base_runs *r)
{
    uint32_t listed = 0;
    uint32_t found = 0;
    uint32_t sum = 0;
    for (uint32_t k = 0; k < SNIC_RUNS__CLASSES; k++) {
        uint32_t before = SNIC_RUNS__NONE;
        if (((r->any[k / 64] >> k % 64 & 1) != 0) != (r->heads[k] != SNIC_RUNS__NONE))
            return SNIC_ECORRUPT;
        for (uint32_t i = r->heads[k]; i != SNIC_RUNS__NONE; i = r->next[i]) {
            if (i >= r->blocks || (r->tag[i] & SNIC_RUNS__FREE) == 0 || r->prev[i] != before ||
                base_runs_class(r->tag[i] & ~SNIC_RUNS__FREE) != k || ++listed > r->blocks)
                return SNIC_ECORRUPT;
            before = i;
        }
    }
    int was_free = 0;
    for (uint32_t i = 0; i < r->blocks;) {
        uint32_t n = r->tag[i] & ~SNIC_RUNS__FREE;
        int is_free = (r->tag[i] & SNIC_RUNS__FREE) != 0;
        if (n == 0 || n > r->blocks - i || r->tag[i + n - 1] != r->tag[i] || (is_free && was_free))
            return SNIC_ECORRUPT;
        sum += is_free ? n : 0;
        found += (uint32_t)is_free;
        was_free = is_free;
        i += n;
    }
    return found == listed && sum == r->free_blocks ? 0 : SNIC_ECORRUPT;
}

#endif /* SNIC_BASE_RUNS_H */
