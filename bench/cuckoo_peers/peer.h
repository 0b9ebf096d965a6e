/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What bench_cuckoo.c requires of a table: 8-byte keys, 16-byte items, one writer, several readers.
 * Each peer is a file that defines the few inline operations loops.h needs; loops.h turns them into
 * a struct bench_peer, so that no call through a pointer stands between a loop and its table.
 */
#ifndef SNIC_BENCH_CUCKOO_PEER_H
#define SNIC_BENCH_CUCKOO_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_BATCH 32
#define BENCH_CHUNK 2048
#define BENCH_SEED UINT64_C(0x5eed5eed5eed5eed)

struct bench_value {
    uint64_t a;
    uint64_t b; /* ~a, in an item that is whole */
};

enum bench_mode { BENCH_HIT, BENCH_MISS, BENCH_HIT_BULK, BENCH_MISS_BULK, BENCH_WRITE };

/* One thread's part of a timed case. */
struct bench_job {
    void *table;
    enum bench_mode mode;
    uint64_t range;  /* keys 0..range - 1 are resident throughout */
    uint64_t oldest; /* BENCH_WRITE: the oldest transient key ... */
    uint64_t newest; /* ... and the next one to come; both advance */
    uint64_t seed;
    uint64_t deadline_ns;
    uint64_t ops;
    uint64_t wrong; /* false misses, or misses that hit */
    uint64_t torn;
    uint64_t wall_ns;
    uint64_t cpu_ns;
};

struct bench_peer {
    const char *name;
    int has_bulk;
    int is_bounded; /* refuses when full, instead of growing */
    void *(*open)(uint64_t slots);
    void (*close)(void *table);
    /* Insert keys first..end - 1 until refused; returns how many went in. */
    uint64_t (*insert)(void *table, uint64_t first, uint64_t end);
    uint64_t (*insert_bulk)(void *table, uint64_t first, uint64_t end); /* or NULL */
    void (*run)(struct bench_job *job);
    uint64_t (*bytes)(void *table); /* beyond what malloc knows of */
};

extern const struct bench_peer bench_ours;
extern const struct bench_peer bench_rte;
extern const struct bench_peer bench_ck;
extern const struct bench_peer bench_urcu;
extern const struct bench_peer bench_libcuckoo;

/* Our table over item sizes: rows item_N_CASE. 1 when results were wrong. */
int bench_items(uint32_t repeats, double seconds);

static inline uint64_t bench_clock(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Key number n, never 0 nor all ones for the numbers in use (splitmix64). */
static inline uint64_t bench_key(uint64_t n)
{
    uint64_t x = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t bench_hash(uint64_t key)
{
    return XXH3_64bits_withSeed(&key, sizeof(key), BENCH_SEED);
}

static inline uint64_t bench_next(uint64_t *state, uint64_t range)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 32) * range >> 32;
}

/* Items of peers that leave their protection to the user: words that may be written meanwhile. */
static inline void bench_value_store(struct bench_value *to, struct bench_value v)
{
    __atomic_store_n(&to->a, v.a, __ATOMIC_RELAXED);
    __atomic_store_n(&to->b, v.b, __ATOMIC_RELAXED);
}

static inline struct bench_value bench_value_load(struct bench_value *from)
{
    struct bench_value v;

    v.a = __atomic_load_n(&from->a, __ATOMIC_RELAXED);
    v.b = __atomic_load_n(&from->b, __ATOMIC_RELAXED);
    return v;
}

/* Zeroed memory on huge pages, where the system has them. */
void *bench_map(uint64_t bytes);
void bench_unmap(void *memory, uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_BENCH_CUCKOO_PEER_H */
