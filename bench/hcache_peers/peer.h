/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Caches that are compared by their hit rate, and the traces that they are run on. A contestant
 * looks up one page after the other and returns whether it was a hit; a miss inserts the page.
 */
#ifndef BENCH_HCACHE_PEER_H
#define BENCH_HCACHE_PEER_H

#include <stddef.h>
#include <stdint.h>

struct hcache_peer {
    const char *name;
    void *(*open)(uint64_t pages);
    int (*access)(void *cache, uint64_t ino, uint64_t lpn);
    void (*close)(void *cache);
};

/** NULL terminated: the cache itself with each policy, then lru and arc. */
extern const struct hcache_peer *const hcache_peers[];
const struct hcache_peer *hcache_peer_find(const char *name);

struct hcache_ref {
    uint64_t ino;
    uint64_t lpn;
};
struct hcache_trace {
    struct hcache_ref *refs;
    uint64_t count;
    uint64_t distinct; /**< different pages in it */
};

/** The made traces, by name: zipf, scan, loop, mixed; NULL terminated. */
extern const char *const hcache_trace_names[];
/** 0, or -1 no such name or no memory. */
int hcache_trace_make(struct hcache_trace *t, const char *name, uint64_t refs, uint64_t pages,
                      uint64_t seed);
/** Why a trace was refused. */
struct hcache_trace_error {
    long line;        /* 0: the file as a whole */
    const char *text; /* what is wrong with it */
};
/** fio's iolog, version 2 or 3, in pages of @p page_bytes: 0; -1 and @p why. Names may have blanks.
 */
int hcache_trace_iolog(struct hcache_trace *t, const char *path, uint32_t page_bytes,
                       struct hcache_trace_error *why);
/** Counts distinct; called by the two above. */
int hcache_trace_count(struct hcache_trace *t);
void hcache_trace_free(struct hcache_trace *t);
/** Share of hits in percent. -1: no memory. */
double hcache_trace_run(const struct hcache_trace *t, const struct hcache_peer *p, uint64_t pages);

/** A map of pages to numbers for the peers; keys are never removed from memory, only reused. */
struct hcache_index {
    uint64_t mask;
    uint64_t *ino, *lpn;
    uint32_t *value; /**< 0: empty; UINT32_MAX: deleted */
    uint64_t used;
};
int hcache_index_open(struct hcache_index *x, uint64_t keys);
void hcache_index_close(struct hcache_index *x);
/** Where the key is or would go. */
uint32_t *hcache_index_at(struct hcache_index *x, uint64_t ino, uint64_t lpn);

extern const struct hcache_peer hcache_peer_ours, hcache_peer_ours_clock, hcache_peer_lru,
    hcache_peer_arc;

#endif /* BENCH_HCACHE_PEER_H */
