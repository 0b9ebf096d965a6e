/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/fscache.h
 * The hybrid cache (DPC, section 3.3) for files: in front of a file system in another process or
 * machine it answers requests of fsop.h from pages in the host's memory, and forwards the others.
 *
 * Depends on  snicstore/base.h, snicstore/loop.h, snicstore/dma.h, snicstore/fsop.h,
 *             snicstore/hcache.h, snicstore/hcachelink.h; kvfs.h for its largest file.
 * Memory      snic_fscache_memsize() bytes of the caller's. The region with the pages comes from
 *             snic_dma_alloc() of the link that ops.connect() opens. Requests are the caller's,
 *             borrowed from submit until done, with all they name; the cache's own requests come
 *             from ops.get().
 * Threads     The owner of the loop.
 * Progress    No call blocks, but snic_fscache_close(), which runs the loop. A READ whose pages
 *             are cached costs no message, no DMA operation and no system call.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       offsets, lengths and sizes are bytes, pages are SNIC_FSCACHE_PAGE_BYTES, times ns.
 * Input       The process of the file system is hostile as in hcachelink.h. Answers are the
 *             caller's: it checks them before snic_fscache_answer().
 *
 * The cache is used while this session is the only one of the store (SNIC_FSCACHE_ALONE) and its
 * process answers (SNIC_FSCACHE_UP). Then it opens a link of its own, offers its region there to
 * snic_hcachelink_dpu_init(), and answers READs from pages and, with SNIC_FSCACHE_WRITE_BACK,
 * WRITEs. Other requests are forwarded after what they depend on: a flush of dirty pages, times
 * that the file system does not have yet. When other sessions come, all dirty pages are flushed
 * and the region is released before requests are forwarded again.
 *
 * Death of the file system's process: dirty pages stay, are offered to its successor for 30 s, and
 * requests that need them wait. If it does not take them they are lost: ops.lost().
 *
 * A full store: while it accepts no dirty pages, no request waits for a page that only a flush
 * would free; WRITEs are forwarded. A flush that fails is what FSYNC and FLUSH (close) of the file
 * end with; then its pages are dropped, and each handle that was open meanwhile gets the error from
 * its next FSYNC, once, and from each FLUSH before it.
 *
 * How kvfs_mount uses it: examples/kvfs_mount/cache.c.
 */
#ifndef SNIC_FSCACHE_H
#define SNIC_FSCACHE_H

#include "snicstore/base.h"
#include "snicstore/dma.h"
#include "snicstore/fsop.h"
#include "snicstore/hcache.h"
#include "snicstore/hcachelink.h"
#include "snicstore/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Of a page: a block of KVFS. */
#define SNIC_FSCACHE_PAGE_BYTES 8192u
/** Pages that one request of the cache's own reads at most. */
#define SNIC_FSCACHE_RUN_PAGES 64u
/** Bytes of `buffer` of a request from ops.get(): those pages and their locks. */
#define SNIC_FSCACHE_BUFFER_BYTES (SNIC_FSCACHE_RUN_PAGES * (SNIC_FSCACHE_PAGE_BYTES + 64u))
/** Alignment of the memory passed to snic_fscache_init(). */
#define SNIC_FSCACHE_ALIGN SNIC_CACHELINE

struct snic_fscache;
struct snic_fscache__inode;
struct snic_fscache_req;
typedef void (*snic_fscache_done_fn)(struct snic_fscache_req *req);

/** Zero it, set k, data and done, submit. The same request may be submitted again after done. */
struct snic_fscache_req {
    /**
     * The operation, and its result. READ and WRITE have one iov, of `length` bytes, at most 2^30;
     * of a WRITE, offset, length and iov[0] are then those of the part that was forwarded.
     */
    struct snic_fsop *k;
    /**
     * Out: data of the answer: iov[0].base if pages had it, otherwise as of snic_fscache_answer().
     * Valid until done returns.
     */
    void *data;
    void *buffer; /**< of ops.get()'s: SNIC_FSCACHE_BUFFER_BYTES, aligned as for pointers       */
    snic_fscache_done_fn done; /**< may be called inside submit and answer                       */
    void *ctx;                 /**< the caller's                                                 */
    /* The rest is private. */
    struct snic_fscache *cache;
    void (*home)(struct snic_fscache_req *req); /* it has an answer */
    struct snic_node node;                      /* in ready or held */
    struct snic_link link;                      /* of the inode's requests; of fetches in flight */
    struct snic_fscache__inode *inode;          /* that its range is of */
    struct snic_fscache__inode *other;          /* COPY: the source */
    struct snic_fscache_req *owner; /* of the cache's own: the request that waits for it */
    struct snic_hcachelink_req pages;
    struct snic_iov iov;
    uint64_t first; /* pages of its range */
    uint64_t last;
    uint64_t at;        /* READ: bytes that are in data */
    uint64_t written;   /* WRITE: bytes that pages took before the rest was forwarded */
    uint64_t regions;   /* released when it began */
    uint64_t changes;   /* of the inode then */
    uint64_t writes;    /* of the inode when its flush began, */
    uint64_t unflushed; /* and bytes */
    uint64_t unflushed_pages;
    uint32_t held;  /* a fetch: pages that it fills, */
    uint32_t cover; /* of so many that it reads */
    int32_t error;  /* of a flush */
    uint8_t step;
    uint8_t kind;
    uint8_t wants;
    uint8_t queued;
    uint8_t active;  /* its range excludes others */
    uint8_t fetched; /* READ: some bytes were read from the file system, */
    uint8_t missed;  /* some were not cached; */
    uint8_t forward; /* all are to be read there */
    uint8_t paging;  /* `pages` is used by a part of it */
};

/** What the cache needs to know of an open handle. Zero it when the handle is opened. */
struct snic_fscache_handle {
    uint64_t writes;    /**< raised by each WRITE through it that pages took                     */
    uint32_t losses;    /**< private: losses of the file that were reported through it           */
    uint32_t read_only; /**< 1: it cannot write, so its FLUSH does not wait for dirty pages      */
};

/** What happened, for a log. */
enum snic_fscache_report_kind {
    SNIC_FSCACHE_REFUSED = 1, /**< ino, error, count: flushes failed since the last such report;
                                   at most once a second. Pages stay dirty                       */
    SNIC_FSCACHE_LOST,        /**< ino: dirty pages are lost with the region                     */
    SNIC_FSCACHE_UNUSABLE,    /**< error: no region for now; it is tried again                   */
    SNIC_FSCACHE_BROKEN,      /**< error: the link ended; clean pages are gone                   */
    SNIC_FSCACHE_NOT_TAKEN,   /**< error: the next process did not take the region in 30 s       */
    SNIC_FSCACHE_UNDROPPED,   /**< ino, error: pages cannot be dropped; the region is released   */
    SNIC_FSCACHE_UNLOCKED     /**< ino, lpn: a page's lock was taken by another owner            */
};

struct snic_fscache_report {
    uint32_t kind; /**< enum snic_fscache_report_kind                                            */
    int32_t error; /**< SNIC_E*                                                                  */
    uint64_t ino;
    uint64_t lpn;
    uint64_t count;
};

/** All on the loop's thread, and none may call the cache but where it is stated. */
struct snic_fscache_ops {
    /** Carry @p req to the file system; snic_fscache_answer() follows, at once or later. */
    void (*submit)(void *ctx, struct snic_fscache_req *req);
    /** A request with k, data and buffer, for the cache's own use; NULL: none is free. */
    struct snic_fscache_req *(*get)(void *ctx);
    void (*put)(void *ctx, struct snic_fscache_req *req);
    /** The handle of a request's k->handle, borrowed until the op's caller returns; NULL: none. */
    struct snic_fscache_handle *(*handle)(void *ctx, uint64_t handle);
    /** 1: @p k has an inode number that a name had before the file system's process died, so that
     *  it may be another file's by now: it ends with SNIC_ESTALE. */
    int (*by_name)(void *ctx, const struct snic_fsop *k);
    /**
     * Open a link to the file system's process, for snic_hcachelink_dpu_init() there. The cache
     * sets its events and closes it.
     * @return 0; SNIC_ECONNREFUSED, SNIC_ETIMEDOUT not ready; SNIC_E*
     */
    int (*connect)(void *ctx, struct snic_dma **out);
    /** Writes to @p ino are lost: its next FSYNC, which is forwarded, has to fail. */
    void (*lost)(void *ctx, uint64_t ino);
    /** Pages of @p ino were dropped, since the store refuses them: copies of its bytes and
     *  attributes elsewhere (in a kernel) are invalid. */
    void (*invalid)(void *ctx, uint64_t ino);
    int64_t (*wall)(void *ctx); /**< ns since 1970                                               */
    /** A message of the link; 1: it was the caller's, not the cache's. May be NULL. */
    int (*recv)(void *ctx, const void *msg, uint32_t size);
    /** The link is closed, and the region released. May be NULL. */
    void (*closed)(void *ctx);
    void (*report)(void *ctx, const struct snic_fscache_report *r); /**< may be NULL            */
};

#define SNIC_FSCACHE_WRITE_BACK (1u << 0)   /**< pages take WRITEs; otherwise they are forwarded */
#define SNIC_FSCACHE_PREFETCH (1u << 1)     /**< report misses, so that pages are read ahead      */
#define SNIC_FSCACHE_READ_ONLY (1u << 2)    /**< atime stays, as with SNIC_KVFS_READ_ONLY         */
#define SNIC_FSCACHE_NO_ATIME (1u << 3)     /**< as SNIC_KVFS_NO_ATIME                            */
#define SNIC_FSCACHE_STRICT_ATIME (1u << 4) /**< as SNIC_KVFS_STRICT_ATIME */

/** Zero the struct, then set opts_size, pages_max, ops and ctx. */
struct snic_fscache_opts {
    uint32_t opts_size;
    uint32_t flags;      /**< SNIC_FSCACHE_WRITE_BACK, ...                                       */
    uint32_t inodes_max; /**< files that are open, dirty or in a request; default 65536; to 2^30 */
    uint32_t reserved;   /**< must be 0                                                          */
    uint64_t pages_max;  /**< pages of the region, as snic_hcache_opts.pages                     */
    struct snic_fscache_ops ops; /**< all but recv, closed and report must be set                */
    void *ctx;                   /**< of the ops                                                 */
};

struct snic_fscache_stats {
    uint64_t reads;          /**< READs answered by pages, fetched or not,                       */
    uint64_t read_hits;      /**< without any request                                            */
    uint64_t page_hits;      /**< pages                                                          */
    uint64_t page_misses;    /**< pages that were fetched                                        */
    uint64_t uncached;       /**< of these: not kept, since no page was free                     */
    uint64_t writes;         /**< WRITEs that pages took                                         */
    uint64_t forwarded;      /**< READs and changes of bytes that the file system did            */
    uint64_t dirty_inodes;   /**< now                                                            */
    uint64_t dirty_bytes;    /**< now, at most                                                   */
    uint64_t flush_errors;   /**< flushes that failed                                            */
    uint64_t lost_inodes;    /**< whose dirty pages were dropped after that                      */
    uint64_t prefetched_use; /**< pages read ahead that were read                                */
    uint64_t regions;        /**< released                                                       */
    uint32_t on;             /**< 1: requests are answered by pages                              */
    uint32_t full;           /**< 1: and the store takes no dirty pages                          */
};

/** Bytes snic_fscache_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_fscache_memsize(const struct snic_fscache_opts *o) SNIC_NONNULL(1);
/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_fscache_opts_wrong(const struct snic_fscache_opts *o) SNIC_NONNULL(1);
/**
 * A cache without a region, on loop @p l, which outlives it. Pages of @p mem that are for inodes
 * are not touched before they are used. [owner]
 * @param[out] out  the cache on success, untouched on failure
 * @param mem       aligned to SNIC_FSCACHE_ALIGN; owned until fini
 * @param o         copied
 * @return 0; SNIC_EINVAL option or alignment; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_fscache_init(struct snic_fscache **out, void *mem, size_t size,
                                              struct snic_loop *l,
                                              const struct snic_fscache_opts *o)
    SNIC_NONNULL(1, 2, 4, 5);
/** After snic_fscache_close(). Returns the caller's memory. [owner] */
SNIC_API void *snic_fscache_fini(struct snic_fscache *fc) SNIC_NONNULL(1);

/**
 * Take a request. It ends with what the file system would answer, or SNIC_ENOMEM when inodes_max
 * files are known or ops.get() has no request; SNIC_ESTALE by ops.by_name(); FSYNC and FLUSH with
 * the error of a flush. [owner]
 */
SNIC_API void snic_fscache_submit(struct snic_fscache *fc, struct snic_fscache_req *req)
    SNIC_NONNULL(1, 2);
/** The file system's answer to a request of ops.submit(): k->result and the rest of k are set.
 *  @p data are the bytes of a READ and may go when this returns. [owner] */
SNIC_API void snic_fscache_answer(struct snic_fscache *fc, struct snic_fscache_req *req, void *data)
    SNIC_NONNULL(1, 2);
/** Change attributes that the file system has answered to what they are with the dirty pages.
 *  [owner] */
SNIC_API void snic_fscache_amend(const struct snic_fscache *fc, struct snic_fsop_attr *a)
    SNIC_NONNULL(1, 2);

#define SNIC_FSCACHE_ALONE (1u << 0) /**< no other session changes the store */
#define SNIC_FSCACHE_UP (1u << 1)    /**< the file system's process answers                       */
/** @p flags as of now, SNIC_FSCACHE_*. When they change, and every 100 ms or more often. [owner] */
SNIC_API void snic_fscache_update(struct snic_fscache *fc, uint32_t flags) SNIC_NONNULL(1);
/** 1: a request waits for the file system's process; else 0. [owner] */
SNIC_API int snic_fscache_busy(const struct snic_fscache *fc) SNIC_NONNULL(1);
/** The file system's process is dead and its successor is not waited for any more: what is dirty
 *  is lost. Nothing happens in another state. [owner] */
SNIC_API void snic_fscache_abandon(struct snic_fscache *fc) SNIC_NONNULL(1);
/**
 * All requests have ended: flush what is dirty and release the region. Runs the loop, for 30 s at
 * most while the file system does not answer; then what is dirty is lost. [owner]
 */
SNIC_API void snic_fscache_close(struct snic_fscache *fc) SNIC_NONNULL(1);

/** Counters. [owner] */
SNIC_API void snic_fscache_get_stats(const struct snic_fscache *fc, struct snic_fscache_stats *out)
    SNIC_NONNULL(1, 2);
/**
 * Check every structural invariant. For tests. [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_fscache_check(const struct snic_fscache *fc) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_FSCACHE_H */
