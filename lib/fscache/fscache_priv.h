/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the files of the cache share. Each calls only files above it in this list:
 *
 *   inode.c    what is known of a file: size, times, dirty bytes, losses
 *   request.c  what a request means for its file, which requests exclude each other, queues
 *   data.c     bytes to and from pages
 *   flush.c    dirty pages and times to the file system
 *   step.c     the steps of a request, one after the other
 *   region.c   the region: offered, released, taken along after a death
 *   fscache.c  the public functions
 *
 *   OFF ── alone and up ──▶ OPENING ── opened ──▶ ON ── not alone, the end ──▶ LEAVING ──▶ OFF
 *                                         (from all of them) ── the other process dies ──▶ DEAD
 *   DEAD ── nothing was dirty ──▶ OFF      DEAD ── the next process has the region ──▶ LEAVING
 *
 * READs and WRITEs use pages while ON. While OFF they are forwarded to the file system; in between
 * they wait (held). LEAVING writes all that is dirty to the file system and ends with an empty
 * region, so nothing that is cached outlives the time in which this session is the only one, nor a
 * death by which the store may have lost what pages have.
 *
 * Invariants
 *   FC1 A request that changes bytes, or a size, in the file system excludes others on its pages of
 *       the inode: no READ or WRITE of them by pages is in progress meanwhile, what was dirty of
 * the inode is in the file system before it is sent, and what is cached of them afterwards is new,
 * or nothing. FC2 A page that is filled is locked before its read is sent, and until the read has
 * ended. FC3 A size is known (sized) while ON only, from an answer that no change of it crossed,
 * and then by what was done here. FC4 Pages are dirty only of inodes that are marked so; the mark
 * is cleared when a flush has ended since whose beginning nothing was written. FC5 busy counts what
 * uses the region: requests of hcachelink.h, and fetches with pages. The region is released, or
 * replaced, when it is 0. FC6 While the store takes no pages (full) no request waits for one that
 * only a flush would free: READs do without, and WRITEs are forwarded. A flush that fails is what
 * FSYNC and FLUSH end with; then the pages are dropped, and each handle that was open meanwhile
 * gets the error from its next FSYNC, once, and from every FLUSH before it.
 */
#ifndef SNIC_FSCACHE_PRIV_H
#define SNIC_FSCACHE_PRIV_H

#include "snicstore/fscache.h"

enum {
    FSCACHE_PAGE = SNIC_FSCACHE_PAGE_BYTES,
    FSCACHE_PAGE_SHIFT = 13,
    FSCACHE_RUN = SNIC_FSCACHE_RUN_PAGES,
    FSCACHE_HASH = 16384,
    FSCACHE_OWNER = 2 /* of our handle on the region; 1 is hcachelink's */
};

/* After a flush for which there was no space, pages take no writes for so long: twice as long each
   time that one fails again after it, */
#define SNIC_FSCACHE__FULL_NS 1000000000u
#define SNIC_FSCACHE__FULL_LONGEST_NS 16000000000ull
/* and a flush before another request is not tried again so soon. */
#define SNIC_FSCACHE__REFUSED_NS 100000000u
/* How often dirty pages may be counted. */
#define SNIC_FSCACHE__COUNT_NS 20000000u
/* How often failed flushes are reported. */
#define SNIC_FSCACHE__REPORT_NS 1000000000u
/* hcachelink's silence: the caller of ops.connect() detects a silent process earlier, and knows
   whether it may be silent. */
#define SNIC_FSCACHE__TIMEOUT_NS 300000000000ull
#define SNIC_FSCACHE__INODES_MAX (1u << 30)
#define SNIC_FSCACHE__LENGTH_MAX (UINT64_C(1) << 30) /* of a READ or WRITE: hcachelink's */
/* Bytes behind this are forwarded: a caller that cannot have them gets the error at once. */
#define SNIC_FSCACHE__END_MAX (UINT64_C(1) << 40)

enum fscache_state { FSCACHE_OFF, FSCACHE_OPENING, FSCACHE_ON, FSCACHE_LEAVING, FSCACHE_DEAD };

enum fscache_kind {
    FSCACHE_PASS,   /* has nothing to do with pages */
    FSCACHE_AFTER,  /* forwarded after what is dirty */
    FSCACHE_CHANGE, /* changes bytes or size in the file system: excludes others (FC1) */
    FSCACHE_READ,
    FSCACHE_WRITE, /* to pages */
    FSCACHE_SWEEP  /* the cache's own: LEAVING */
};

/* What comes first. */
#define SNIC_FSCACHE__WANTS_FLUSH 1u
#define SNIC_FSCACHE__WANTS_TIMES 2u /* those that the file system does not have yet */
#define SNIC_FSCACHE__WANTS_ERROR 4u /* the result reports failed earlier writes */
#define SNIC_FSCACHE__WANTS_SIZE 8u
#define SNIC_FSCACHE__WANTS_ZERO 16u /* all bytes go: a flush that fails does no harm */

enum fscache_step {
    FSCACHE_BEGIN,
    FSCACHE_SIZE,
    FSCACHE_FLUSH,
    FSCACHE_FLUSHING,
    FSCACHE_FLUSH_OTHER,
    FSCACHE_FLUSHING_OTHER,
    FSCACHE_FORGET, /* what could not be flushed */
    FSCACHE_FORGETTING,
    FSCACHE_TIMES,
    FSCACHE_GO,
    FSCACHE_PAGES, /* a request of hcachelink for a part of it is in flight */
    FSCACHE_SENT,  /* the file system has it */
    FSCACHE_DROP,
    FSCACHE_DROPPING,
    FSCACHE_END
};

struct snic_fscache__inode {
    struct snic_fscache__inode *next; /* of the hash's list, or of the free ones */
    uint64_t ino;
    uint64_t size;
    uint64_t opens;
    uint64_t writes;          /* to pages */
    uint64_t unflushed;       /* bytes of them since a flush began, about */
    uint64_t unflushed_pages; /* of those, at most */
    uint64_t last_page;       /* that was counted last, + 1 */
    uint64_t refused_ns;      /* a flush has failed: none but for FSYNC before then */
    uint64_t changes;         /* what may have changed the size, begun or ended */
    uint64_t touched;         /* times that were changed here */
    struct snic_link reqs;    /* requests with a range, in order */
    struct snic_fsop_time atime;
    struct snic_fsop_time mtime;
    struct snic_fsop_time ctime;
    uint32_t refs;    /* requests */
    uint32_t due;     /* SNIC_FSOP_SET_*: times that the file system does not have yet */
    uint32_t losses;  /* each handle has the number that was reported to it */
    int32_t error;    /* of the last loss */
    int32_t refused;  /* why the last flush failed */
    uint8_t reported; /* the last loss was reported through some handle */
    uint8_t sized;
    uint8_t timed;
    uint8_t dirty;
};

struct snic_fscache {
    struct snic_fscache_opts opts;
    struct snic_loop *loop;
    uint64_t pages_max;
    uint32_t flags; /* of snic_fscache_update() */
    enum fscache_state state;
    struct snic_dma *dma;
    struct snic_hcachelink_host *half;
    void *half_memory;
    size_t half_bytes;
    struct snic_hcache_host host; /* our handle on the region */
    struct snic_loop_msg review;
    snic_hcachelink_done_fn paged; /* a request of hcachelink has ended */
    int reviewing;
    int reason;  /* of the link's end */
    int over;    /* the half's closed event was delivered */
    int ending;  /* LEAVING: 1 all is being flushed, 2 the half ends */
    int closing; /* no more ON */
    int pumping;
    int died;          /* the other process, since requests are held */
    uint64_t wait_ns;  /* before the next try */
    uint64_t dead_ns;  /* when the file system was up again after a death, or it began */
    uint64_t again_ns; /* not before */
    struct snic_queue ready;
    struct snic_queue held;
    struct snic_link fetches;
    uint64_t busy;      /* FC5 */
    uint64_t own;       /* requests of the cache's own in flight */
    uint64_t sweeps;    /* of them */
    uint64_t unflushed; /* bytes of dirty inodes, about */
    uint64_t unflushed_pages;
    uint64_t counted; /* pages that were dirty then, */
    uint64_t counted_ns;
    uint64_t full_ns;   /* until then nothing is written to pages */
    uint64_t full_wait; /* how long that was last */
    uint64_t marked;    /* inodes with something to amend */
    uint64_t reported_errors;
    uint64_t reported_ns;
    struct snic_fscache_stats stats; /* without those that are computed */
    struct snic_fscache__inode *inodes[FSCACHE_HASH];
    struct snic_fscache__inode *pool;
    struct snic_fscache__inode *free_inodes;
    uint32_t pool_used; /* never used beyond */
};

static inline struct snic_fscache_req *fscache_req_of(struct snic_node *n)
{
    return SNIC_CONTAINER(n, struct snic_fscache_req, node);
}

static inline int fscache_has(const struct snic_fscache *fc, uint32_t flag)
{
    return (fc->opts.flags & flag) != 0;
}

/* Of hcachelink's half, without its events. */
static inline void fscache_half_opts(struct snic_hcachelink_host_opts *out,
                                     const struct snic_fscache_opts *o)
{
    *out = (struct snic_hcachelink_host_opts){
        .opts_size = sizeof(*out),
        .flags = SNIC_HCACHELINK_SHARED,
        .timeout_ns = SNIC_FSCACHE__TIMEOUT_NS,
        .cache = {.opts_size = sizeof(out->cache),
                  .page_bytes = FSCACHE_PAGE,
                  .mode = (o->flags & SNIC_FSCACHE_WRITE_BACK) != 0 ? SNIC_HCACHE_MODE_WRITE
                                                                    : SNIC_HCACHE_MODE_READ,
                  .pages = o->pages_max}};
}

/* ---- inode.c ---- */

struct snic_fscache__inode *fscache_inode_find(const struct snic_fscache *fc, uint64_t ino);
/* NULL: inodes_max are known. */
struct snic_fscache__inode *fscache_inode_get(struct snic_fscache *fc, uint64_t ino);
void fscache_inode_ref(struct snic_fscache__inode *i);
/* Free it if nothing is known of it that the file system does not know. */
void fscache_inode_unref(struct snic_fscache *fc, struct snic_fscache__inode *i);
void fscache_inode_due(struct snic_fscache *fc, struct snic_fscache__inode *i, uint32_t due);
void fscache_inode_dirty(struct snic_fscache *fc, struct snic_fscache__inode *i, int dirty);
/* Bytes of @p pages pages were written to pages of it, and will be flushed. */
void fscache_inode_wrote(struct snic_fscache *fc, struct snic_fscache__inode *i, uint64_t bytes,
                         uint64_t pages);
/* The flush of so much of it has ended. */
void fscache_inode_flushed(struct snic_fscache *fc, struct snic_fscache__inode *i, uint64_t bytes,
                           uint64_t pages);
/* What could not be flushed was dropped: each handle's next FSYNC or FLUSH reports it. */
void fscache_inode_fail(struct snic_fscache *fc, struct snic_fscache__inode *i, int32_t error);
/* What was written to it and is not in the file system is lost. */
void fscache_inode_lose(struct snic_fscache *fc, struct snic_fscache__inode *i);
/* Size and times are those of an answer. */
void fscache_inode_learn(struct snic_fscache__inode *i, const struct snic_fsop_attr *a);
/* Call @p fn for each inode. */
void fscache_inode_each(struct snic_fscache *fc,
                        void (*fn)(struct snic_fscache *fc, struct snic_fscache__inode *i));
void fscache_report(const struct snic_fscache *fc, const struct snic_fscache_report *r);
struct snic_fsop_time fscache_now(const struct snic_fscache *fc);

/* ---- request.c ---- */

/* Find out what the request is, and begin. */
void fscache_admit(struct snic_fscache *fc, struct snic_fscache_req *req);
/* It continues, in the next pump. */
void fscache_ready(struct snic_fscache *fc, struct snic_fscache_req *req);
/* It begins again: what it was may not be so any more. */
void fscache_readmit(struct snic_fscache *fc, struct snic_fscache_req *req);
/* It waits for another state. */
void fscache_hold(struct snic_fscache *fc, struct snic_fscache_req *req);
/* The state is another one: what was held is ready. */
void fscache_release(struct snic_fscache *fc);
/* It excludes others no more. */
void fscache_detach(struct snic_fscache *fc, struct snic_fscache_req *req);
/* No request before it, and none that is active, excludes it. */
int fscache_may_begin(const struct snic_fscache_req *req);
/* Is a change of the inode's size in progress? */
int fscache_changing(const struct snic_fscache__inode *i);
/* Not to pages after all: the rest of the WRITE, behind @p written bytes, is forwarded. */
void fscache_divert(struct snic_fscache *fc, struct snic_fscache_req *req, uint64_t written);
/* The store takes no pages. */
int fscache_full(const struct snic_fscache *fc);
/* Hand it to the file system; its answer calls @p home. */
void fscache_forward(struct snic_fscache_req *req, void (*home)(struct snic_fscache_req *req));
/* A request of the cache's own for another one, or for none; NULL: all are in flight. */
struct snic_fscache_req *fscache_own(struct snic_fscache *fc, struct snic_fscache_req *owner,
                                     uint32_t kind, uint64_t ino);
void fscache_own_end(struct snic_fscache *fc, struct snic_fscache_req *own);
/* Its owner continues; @p own ends. */
void fscache_own_home(struct snic_fscache *fc, struct snic_fscache_req *own);
/* A request of hcachelink's for @p req. 1: it has ended; 0: it is ready later, at step @p then. If
   there is no region it ends with SNIC_EPIPE */
int fscache_pages_submit(struct snic_fscache *fc, struct snic_fscache_req *req, uint32_t op,
                         uint64_t ino, enum fscache_step then);
/* The region was released meanwhile. */
int fscache_gone(int64_t result);
/* The state may change: soon, from the loop. */
void fscache_review(struct snic_fscache *fc);

/* ---- data.c ---- */

/* A READ or WRITE by pages. 1: it has ended, the result is set; 0: later */
int fscache_read(struct snic_fscache *fc, struct snic_fscache_req *req);
int fscache_write(struct snic_fscache *fc, struct snic_fscache_req *req);
/* A whole READ, if all of it is cached. */
int fscache_read_cached(struct snic_fscache *fc, struct snic_fscache_req *req);
/* Write what the file system has taken to pages, too. 1: pages of its range may be old and have to
   be dropped */
int fscache_patch(struct snic_fscache *fc, struct snic_fscache_req *req);
/* Fetches in flight have no pages any more. */
void fscache_abandon_fetches(struct snic_fscache *fc);

/* ---- flush.c: each @return 1: the step has ended; 0: later ---- */

/* Flush @p i, if there is need; steps @p flushing until then, and @p next. */
int fscache_flush(struct snic_fscache *fc, struct snic_fscache_req *req,
                  struct snic_fscache__inode *i, enum fscache_step flushing,
                  enum fscache_step next);
int fscache_flushed(struct snic_fscache *fc, struct snic_fscache_req *req,
                    struct snic_fscache__inode *i, enum fscache_step next);
int fscache_forget(struct snic_fscache *fc, struct snic_fscache_req *req);
int fscache_forgot(struct snic_fscache *fc, struct snic_fscache_req *req);
int fscache_times(struct snic_fscache *fc, struct snic_fscache_req *req);

/* ---- step.c ---- */

/* Run what is ready. */
void fscache_pump(struct snic_fscache *fc);
/* A request of hcachelink has ended. */
void fscache_paged(struct snic_hcachelink_req *pages);

/* ---- region.c ---- */

/* The state's changes that depend on time, flags and requests. */
void fscache_region_update(struct snic_fscache *fc);
void fscache_region_review(struct snic_loop_msg *msg);
/* DEAD: what is dirty is lost. */
void fscache_region_abandon(struct snic_fscache *fc);
void fscache_region_close(struct snic_fscache *fc);

#endif /* SNIC_FSCACHE_PRIV_H */
