/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The hybrid cache before the link to the file system's process: what cache.c (inodes and calls),
 * cache_step.c (what a call does one after the other), cache_data.c (bytes to and from pages) and
 * cache_link.c (the region's life) share. All on the loop's thread.
 *
 *   OFF ── alone, link up ──▶ OPENING ── opened ──▶ ON ── others come, the end ──▶ LEAVING ──▶ OFF
 *                                         (from all of them) ── the other process dies ──▶ DEAD
 *   DEAD ── nothing was written ──▶ OFF      DEAD ── the next process has the region ──▶ LEAVING
 *
 * Requests for bytes are answered from pages while ON; while OFF they go by the link, as without a
 * cache; in between they wait (held). LEAVING writes all that is dirty to the file system and ends
 * with an empty region, so nothing that is cached outlives the time in which this mount is the only
 * one, nor a death by which the store may have lost what pages have.
 *
 * Invariants
 *   KC1 What changes bytes, or a size, without the cache is exclusive on its pages of the inode: no
 *       read or write of them by the cache is under way meanwhile, what was dirty of the inode is
 *       in the file system before it is sent, and what is cached of them afterwards is new, or
 *       nothing.
 *   KC2 A page that is filled is locked before its read is sent, and until the read has ended.
 *   KC3 A size is known (sized) while ON only, from an answer that no change of it crossed, and
 *       then by what was done here.
 *   KC4 Pages are dirty only of inodes that are marked so; the mark goes when a flush has ended
 *       since whose beginning nothing was written.
 *   KC5 busy counts what uses the region: requests of hcachelink.h, and fetches with pages. The
 *       region is left, or changed, when it is 0.
 *   KC6 While the store takes no pages (full) no call waits for one that only a flush would free:
 *       reads do without, and writes go by the link, which answers what the store answers. A flush
 *       that fails is what fsync() and close() answer; then the pages are dropped, and each handle
 *       that was open meanwhile gets the error from its next fsync(), once, and from every close()
 *       before it.
 */
#ifndef KVFS_MOUNT_CACHE_PRIV_H
#define KVFS_MOUNT_CACHE_PRIV_H

#include "remote_priv.h"

enum {
    KC_PAGE = 8192, /* a block of KVFS */
    KC_PAGE_SHIFT = 13,
    KC_RUN = 64, /* most pages of one fetch: they and their locks share a block of memory */
    KC_HASH = 16384,
    KC_OWNER = 2 /* of our handle; 1 is hcachelink's */
};

/* After a flush for which there was no space, pages take no writes for so long: twice as long each
   time that one fails again after it, */
#define KC_FULL_NS 1000000000u
#define KC_FULL_MOST_NS 16000000000ull
/* and a flush before another request is not tried again so soon. */
#define KC_REFUSED_NS 100000000u
/* How often dirty pages may be counted. */
#define KC_COUNT_NS 20000000u

/* Bytes behind this go by the link: a caller that cannot have them gets the error at once. */
#define KC_END_MAX (UINT64_C(1) << 40)

enum kc_state { KC_OFF, KC_OPENING, KC_ON, KC_LEAVING, KC_DEAD };

enum kc_kind {
    KC_PASS,   /* has nothing to do with pages */
    KC_AFTER,  /* after what is dirty */
    KC_CHANGE, /* changes bytes or size without the cache: exclusive */
    KC_READ,
    KC_WRITE, /* to pages */
    KC_SWEEP  /* our own: LEAVING */
};

/* What comes first. */
#define KC_WANTS_FLUSH 1u
#define KC_WANTS_TIMES 2u /* those that the store does not have yet */
#define KC_WANTS_ERROR 4u /* the answer reports failed earlier writes */
#define KC_WANTS_SIZE 8u
#define KC_WANTS_ZERO 16u /* all bytes go: a flush that fails does no harm */

enum kc_step {
    KC_BEGIN,
    KC_SIZE,
    KC_FLUSH,
    KC_FLUSHING,
    KC_FLUSH_OTHER,
    KC_FLUSHING_OTHER,
    KC_FORGET, /* what could not be flushed */
    KC_FORGETTING,
    KC_TIMES,
    KC_GO,
    KC_SENT,
    KC_PAGES, /* a request of hcachelink for a part of it is under way */
    KC_DROP,
    KC_DROPPING,
    KC_END
};

struct kc_inode {
    struct kc_inode *next;
    uint64_t ino;
    uint64_t size;
    uint64_t opens;
    uint64_t written;       /* writes to pages */
    uint64_t unflushed;     /* bytes of them since a flush began, about */
    uint64_t pages;         /* of those, at most */
    uint64_t last_page;     /* that was counted last, + 1 */
    uint64_t refused_ns;    /* a flush has failed: none before others than fsync before then */
    uint64_t changes;       /* what may have changed the size, begun or ended */
    uint64_t touched;       /* times that were changed here */
    struct snic_link calls; /* with a range, in order */
    struct snic_fsop_time atime;
    struct snic_fsop_time mtime;
    struct snic_fsop_time ctime;
    uint32_t refs;   /* calls */
    uint32_t due;    /* SNIC_FSOP_SET_*: times that the store does not have yet */
    uint32_t lost;   /* count of losses; each handle has the count that was reported to it */
    int32_t error;   /* of the last time */
    int32_t refused; /* why the last flush failed */
    uint8_t told;    /* the last loss was reported through some handle */
    uint8_t sized;
    uint8_t timed;
    uint8_t dirty;
};

struct km_cache {
    struct km *m;
    enum kc_state state;
    struct snic_dma *dma;
    struct snic_hcachelink_host *half;
    void *memory;                 /* its */
    struct snic_hcache_host hand; /* our handle on the region */
    struct snic_loop_msg tidy;
    int tidying;
    int reason;  /* of the end */
    int over;    /* the half's closed event has come */
    int ending;  /* LEAVING: all is flushed, and the half is ending */
    int closing; /* no more ON */
    int pumping;
    int died;          /* the other process, since calls are held */
    uint64_t wait_ns;  /* before the next try */
    uint64_t dead_ns;  /* when the link was there again after a death, or it began */
    uint64_t again_ns; /* not before */
    struct snic_queue ready;
    struct snic_queue held;
    struct snic_link fetches;
    uint64_t busy;   /* KC5 */
    uint64_t owned;  /* calls of our own under way */
    uint64_t sweeps; /* of them */
    uint64_t held_count;
    uint64_t regions;   /* that have gone */
    uint64_t dirty;     /* inodes */
    uint64_t unflushed; /* bytes of them, about */
    uint64_t pages;     /* of those, at most */
    uint64_t counted;   /* pages that were dirty then, */
    uint64_t counted_ns;
    uint64_t full_ns;   /* until then nothing is written to pages */
    uint64_t full_wait; /* how long that was last */
    uint64_t marked;    /* inodes with something to amend */
    struct kc_inode *inodes[KC_HASH];

    uint64_t reads; /* figures */
    uint64_t hit_reads;
    uint64_t hit_pages;
    uint64_t miss_pages;
    uint64_t writes;
    uint64_t around;
    uint64_t flush_errors;
    uint64_t flush_errors_said; /* in the log */
    uint64_t said_ns;
    uint64_t lost;     /* inodes whose pages were dropped for it */
    uint64_t bypassed; /* pages that were read from the store only, since none could be had */
    uint64_t useful;   /* prefetched pages that were read, of regions that are gone */
    struct km_cache_state theirs;
    struct km_cache_state before; /* of regions that are gone */
};

/* Pages of the cache: --cache-size in whole MiB, so that they are a multiple of its ways. */
static inline uint64_t kc_pages_max(const struct km_cache *k)
{
    return k->m->config->cache_bytes >> 20 << (20 - KC_PAGE_SHIFT);
}

static inline struct km_call *kc_call_of(struct snic_node *n)
{
    return SNIC_CONTAINER(n, struct km_call, cached.node);
}

/* ---- cache.c ---- */

struct kc_inode *kc_inode_find(const struct km_cache *k, uint64_t ino);
/* NULL: no memory. */
struct kc_inode *kc_inode_get(struct km_cache *k, uint64_t ino);
/* Free it if nothing is known of it that others do not know. */
void kc_inode_put(struct km_cache *k, struct kc_inode *i);
void kc_inode_ref(struct kc_inode *i);
void kc_inode_unref(struct km_cache *k, struct kc_inode *i);
void kc_inode_due(struct km_cache *k, struct kc_inode *i, uint32_t due);
void kc_inode_dirty(struct km_cache *k, struct kc_inode *i, int dirty);
/* Bytes of @p pages pages were written to pages of it, and will be flushed. */
void kc_inode_wrote(struct km_cache *k, struct kc_inode *i, uint64_t bytes, uint64_t pages);
/* The flush of so much of it has ended. */
void kc_inode_flushed(struct km_cache *k, struct kc_inode *i, uint64_t bytes, uint64_t pages);
/* What could not be flushed was dropped: each handle's next fsync() or close() reports it. */
void kc_inode_fail(struct km_cache *k, struct kc_inode *i, int32_t error);
/* The store takes no pages. */
int kc_full(const struct km_cache *k);
/* Not to pages after all: the rest of the WRITE, behind @p done bytes, goes by the link. */
void kc_around(struct km_cache *k, struct km_call *c, uint64_t done);
/* What was written to it and is not in the file system is lost. */
void kc_inode_lose(struct km_cache *k, struct kc_inode *i);
/* Find out what the call is, and begin. */
void kc_admit(struct km_cache *k, struct km_call *c);
/* It continues, soon. */
void kc_ready(struct km_cache *k, struct km_call *c);
/* It begins again: what it was may not be so any more. */
void kc_again(struct km_cache *k, struct km_call *c);
/* It waits for another state. */
void kc_hold(struct km_cache *k, struct km_call *c);
void kc_release(struct km_cache *k);
void kc_pump(struct km_cache *k);
/* It is not in the way of others any more. */
void kc_detach(struct km_cache *k, struct km_call *c);
/* No call before it, and none that has begun, is in its way. */
int kc_may_begin(const struct km_call *c);
/* Hand it to the link; its answer calls @p home. */
void kc_lower(struct km_call *c, void (*home)(struct km_call *c));
/* A call of our own for another one, or for none; NULL: all are in flight. */
struct km_call *kc_own(struct km_cache *k, struct km_call *owner, uint32_t kind, uint64_t ino);
void kc_own_end(struct km_cache *k, struct km_call *f);

/* ---- cache_step.c ---- */

void kc_run(struct km_cache *k, struct km_call *c);
/* It is answered. */
void kc_end(struct km_cache *k, struct km_call *c);
struct snic_fsop_time kc_now(void);
/* A request of hcachelink's for the call. 1: it has ended; 0: kc_ready() comes, with step @p then;
   SNIC_EPIPE: there is no region, the call is held */
int kc_ask(struct km_cache *k, struct km_call *c, uint32_t op, uint64_t ino, uint8_t then);

/* ---- cache_data.c ---- */

/* A READ or WRITE by the cache. 1: it is done, the result is set; 0: later */
int kc_read(struct km_cache *k, struct km_call *c);
int kc_write(struct km_cache *k, struct km_call *c);
/* All of a READ, if it is there. */
int kc_try(struct km_cache *k, struct km_call *c);
/* What the link has written, to pages. 1: pages of its range may be old and have to be dropped */
int kc_patch(struct km_cache *k, struct km_call *c);
/* Fetches under way have no pages any more. */
void kc_unfetch(struct km_cache *k);

/* ---- cache_link.c ---- */

/* The state may change: soon, at the top level. */
void kc_tidy(struct km_cache *k);

#endif /* KVFS_MOUNT_CACHE_PRIV_H */
