/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A world for the hybrid cache in one thread: a region, host handles, an engine whose DMA is
 * carried out operation by operation and 64 bytes at a time, in any order that its flags allow, and
 * a store of versions. Time is a counter.
 *
 * A page's content is made of a number, its version; versions of a page only grow. So the store can
 * notice a flush that comes after a newer one, and a reader a page that is of two versions.
 */
#ifndef SNIC_TEST_HCACHE_UTIL_H
#define SNIC_TEST_HCACHE_UTIL_H

#include "snicstore/hcache.h"

#include "support.h"

static inline struct snic_hcache_control_stats hw_stats(const struct snic_hcache_control *c)
{
    struct snic_hcache_control_stats s;

    snic_hcache_control_get_stats(c, &s);
    return s;
}

enum { HW_INOS = 4, HW_LPNS = 64, HW_PENDING = 256, HW_HOSTS = 4 };

/* An action under way. */
struct hw_pending {
    struct snic_hcache_action a;
    uint32_t done_ops; /* a bit per finished operation             */
    uint64_t at;       /* bytes done of the operation under way    */
    uint32_t current;  /* operation under way + 1                  */
    uint32_t live;
};

struct hw_page {
    uint64_t version; /* 0: not there */
};

struct hworld {
    void *mem;
    size_t size;
    struct snic_hcache_info info;
    struct snic_hcache_control *c;
    void *cmem;
    struct snic_hcache_control_opts co;
    struct snic_hcache_host host[HW_HOSTS];
    struct snic_rng rng;
    uint64_t now;
    struct hw_page store[HW_INOS][HW_LPNS];
    uint64_t durable[HW_INOS][HW_LPNS];
    struct hw_pending pending[HW_PENDING];
    uint32_t pendings;
    uint64_t synced_id; /* of the last SYNC, and its result */
    int32_t synced_result;
    uint64_t syncs, wakes, recovered, recovered_dpu, flushes, fetches;
    int32_t store_result; /* what flushes answer                */
    const char *failure;
    int hostile; /* the region lies: versions mean nothing */
};

void hw_open(struct hworld *w, const struct snic_hcache_opts *o,
             const struct snic_hcache_control_opts *co, uint64_t seed);
void hw_close(struct hworld *w);
/* A new engine in place of the old one, of which nothing is under way any more. */
void hw_restart(struct hworld *w);
/* One event for the engine, then its actions into pending. */
int hw_step(struct hworld *w, const struct snic_hcache_event *ev);
void hw_event(struct hworld *w, uint32_t kind, uint64_t id, uint64_t ino, uint64_t lpn);
/* Do a little of one of the pending actions, chosen by chance; 0: there is none. */
int hw_work(struct hworld *w);
/* Time passes to the engine's next deadline, unless that is further than @p until. */
void hw_pass(struct hworld *w, uint64_t until);
/* Work and pass time until the engine is idle or @p ns have passed. */
void hw_settle(struct hworld *w, uint64_t ns);
/* Drop what is under way: DMA stops anywhere, each flush reached the store or did not. */
void hw_kill_dpu(struct hworld *w);

void hw_fill(void *page, uint32_t bytes, uint64_t ino, uint64_t lpn, uint64_t version);
/* The version that a page is whole of; UINT64_MAX: torn, or of another place. */
uint64_t hw_version(const void *page, uint32_t bytes, uint64_t ino, uint64_t lpn);

#endif /* SNIC_TEST_HCACHE_UTIL_H */
