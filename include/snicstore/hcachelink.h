/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/hcachelink.h
 * The hybrid cache at work (DPC, section 3.3): hcache.h's two planes joined by dma.h and a loop,
 * the host's half with the region, the DPU's with the control plane over a file system.
 *
 * Depends on  snicstore/base.h, snicstore/loop.h, snicstore/dma.h, snicstore/hcache.h,
 *             snicstore/fs.h.
 * Memory      memsize() bytes of the caller's for each half. The region, and on the DPU the engine
 *             with its pages, come from snic_dma_alloc() when they attach. Requests are the
 *             caller's, borrowed until they are finished.
 * Threads     The owner of the dma handle's loop, on the DPU also the file system's. Other threads
 *             of the host may work on the region by hcache.h handles of their own.
 * Progress    No call blocks. A hit costs no DMA, no message and no system call.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       offsets, lengths and sizes are bytes, lpn pages, times nanoseconds.
 * Input       The other half is hostile. The DPU may write anything into the region and answer
 *             anything: requests end with an error, or the link is closed with SNIC_EPROTO, or with
 *             SNIC_ETIMEDOUT if it is silent for timeout_ns: it is sent keep-alives, so a slow
 *             store does not count as silence. A DPU that is alive and does not answer keeps its
 *             requests: snic_hcachelink_host_death(), then closing the dma handle, ends the wait.
 *             The host may write anything into the region and ask anything: the DPU does what a
 *             client of its file system may do.
 *
 * What is whose. Pages and their locks are hcache.h's. A file's size is the caller's, as an inode's
 * is in a kernel: the store's, raised by its own writes. Reads behind the store's size return
 * zeroes, so the caller cuts a read at the size it knows. A flush writes a page as far as it was
 * written and no further, so the store's size is never more than what was written. A caller that
 * writes and truncates one file at the same time orders the two itself (the kernel's inode lock
 * does it under FUSE).
 *
 * fsync answers 0 when all that was written to the file before it is in the store, and durable
 * there; a page that the store refuses stays dirty, is tried again (by one page at a time, after
 * pauses that double up to a second), and is what the next fsync (or flush) answers. Until then no
 * READ or WRITE waits for a page that only such a flush would free. Without one, pages are in the
 * store some flush_ns later. A synchronous or direct write is a WRITE and an FSYNC.
 *
 * Death. Of the host: the DPU takes its locks away, and if its memory can still be reached (dma's
 * MAPPED) flushes what was whole and dirty; then `gone`. Of the DPU: all requests end with
 * SNIC_EPEERDEAD (a TRUNCATE may have happened or not: ask again), the region stays, and
 * snic_hcachelink_host_attach() to the successor takes it along: nothing is lost. Before that, no
 * other thread may hold a page; its handles have to be attached anew.
 *
 * One DPU half serves one host at a time over one link, which it may share with nvmefslink:
 * with SNIC_HCACHELINK_SHARED the three _recv, _doorbell and _death functions are what goes into
 * nvmefslink's `others`. They do not identify the link of an event: before the host's half is
 * attached to another link, what hands on the old one's events stops to.
 */
#ifndef SNIC_HCACHELINK_H
#define SNIC_HCACHELINK_H

#include "snicstore/base.h"
#include "snicstore/dma.h"
#include "snicstore/fs.h"
#include "snicstore/hcache.h"
#include "snicstore/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Somebody else has the dma handle's events and hands on what is not his. */
#define SNIC_HCACHELINK_SHARED (1u << 0)
/** DPU: never look at a dead host's memory. */
#define SNIC_HCACHELINK_NO_SALVAGE (1u << 1)

/* ---- Host ---- */

enum snic_hcachelink_op {
    SNIC_HCACHELINK_READ = 1,     /**< ino, offset, length, data -> length                      */
    SNIC_HCACHELINK_WRITE = 2,    /**< ino, offset, length, data -> length                      */
    SNIC_HCACHELINK_FSYNC = 3,    /**< ino                                                      */
    SNIC_HCACHELINK_TRUNCATE = 4, /**< ino, length: the new size, in cache and store            */
    SNIC_HCACHELINK_DROP = 5,     /**< ino, offset, length (0: to the end, by a walk through all
                                       pages: pass the size if it is known): forget the pages that
                                       this touches, written or not. For unlink; and before and
                                       after others change the store, for what is read ahead
                                       between comes from before                                */
    SNIC_HCACHELINK_FLUSH = 6     /**< ino: all that was written to it is in the file system, not
                                       necessarily durable. For close, and before a request that
                                       does not go by the cache                                 */
};

/** WRITE: the file ends at offset or before it. A page that begins there or behind is not asked
 *  for: there is nothing of it in the store. */
#define SNIC_HCACHELINK_BEYOND (1u << 0)

struct snic_hcachelink_host;
struct snic_hcachelink_req;
typedef void (*snic_hcachelink_done_fn)(struct snic_hcachelink_req *req);

/** Zero it, set what the op needs, submit. */
struct snic_hcachelink_req {
    struct snic_node node; /**< private while borrowed                                          */
    struct snic_loop_msg msg; /**< as node */
    uint32_t op;
    uint32_t flags; /**< SNIC_HCACHELINK_BEYOND                                             */
    uint64_t ino;
    uint64_t offset;
    uint64_t length; /**< READ, WRITE: at most 2^30                                             */
    void *data;
    int64_t result; /**< out; after an error some of it may have been done. READ, WRITE:
                         SNIC_EAGAIN, none of the entries where the next page belongs can be had,
                         because the file system takes no dirty pages (as without space): read or
                         write the rest, from `at` on, without the cache                        */
    snic_hcachelink_done_fn done;
    void *ctx;
    uint64_t at; /**< out, with SNIC_EAGAIN: so many bytes are done                             */
    struct snic_hcache_page page; /**< this and the rest: private                               */
    uint64_t since_ns;
    uint32_t step;
    uint32_t slot;
    struct snic_hcachelink_host *host;
};

/** On the loop's thread; each may be NULL. */
struct snic_hcachelink_events {
    /** The DPU works on the region: after each attach. */
    void (*opened)(void *ctx, struct snic_hcachelink_host *h);
    /**
     * It is over: 0 by end; SNIC_EPEERDEAD; SNIC_EPROTO nonsense; SNIC_ETIMEDOUT silence; what the
     * DPU answered to attach or end. All requests were finished before. After SNIC_EPEERDEAD, and
     * after a DPU that did not take the region or could not flush it, the next attach takes the
     * pages along, otherwise it begins with an empty region.
     */
    void (*closed)(void *ctx, struct snic_hcachelink_host *h, int reason);
    void *ctx;
};

/** Zero the struct, then set opts_size and cache. */
struct snic_hcachelink_host_opts {
    uint32_t opts_size;
    uint32_t flags;        /**< SNIC_HCACHELINK_SHARED                                          */
    uint32_t bell;         /**< doorbell id, both ways                                          */
    uint32_t requests_max; /**< messages under way, 2..64; 64                                   */
    struct snic_hcache_opts cache;
    uint64_t timeout_ns; /**< how long the DPU may be silent, or a page busy; 30 s              */
    uint64_t retry_ns;   /**< a busy page is tried again after that, without a wake-up; 500 us  */
    struct snic_hcachelink_events events;
};

struct snic_hcachelink_host_stats {
    uint64_t hits;     /**< pages read from the region                                            */
    uint64_t fills;    /**< pages asked for                                                       */
    uint64_t waits;    /**< requests that waited for a page or an entry                           */
    uint64_t wakes;    /**< doorbells of the DPU                                                  */
    uint64_t moved;    /**< regions taken along to a successor                                    */
    uint64_t strays;   /**< messages that were not the protocol's                                 */
    uint64_t refusals; /**< how often the file system began to take no pages                    */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_hcachelink_host_opts_wrong(const struct snic_hcachelink_host_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_hcachelink_host_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_hcachelink_host_memsize(const struct snic_hcachelink_host_opts *o)
    SNIC_NONNULL(1);
/** A half without a link. @return 0; SNIC_EINVAL options, alignment (16); SNIC_ENOSPC [owner] */
SNIC_API SNIC_NODISCARD int snic_hcachelink_host_init(struct snic_hcachelink_host **out, void *mem,
                                                      size_t size,
                                                      const struct snic_hcachelink_host_opts *o)
    SNIC_NONNULL(1, 2, 4);
/**
 * Make a region on @p d, or copy the one of the dead link to it, and offer it to the DPU. Requests
 * may be submitted at once. Takes over the events of @p d unless SHARED; before the loop runs again
 * after @p d was opened. The dead link's handle may be closed afterwards.
 * @return 0; SNIC_EBUSY attached; SNIC_EPEERDEAD it was reported dead; SNIC_E* of dma; then it may
 *         be called again, and the pages are still there [owner]
 */
SNIC_API SNIC_NODISCARD int snic_hcachelink_host_attach(struct snic_hcachelink_host *h,
                                                        struct snic_dma *d) SNIC_NONNULL(1, 2);
/**
 * Begin the end: what is dirty is flushed, the DPU leaves the region, then the closed event comes.
 * No request is under way, and none is taken any more. If the DPU has yet to open the region, it
 * does so first. Harmless if it has come or will come. [owner]
 */
SNIC_API void snic_hcachelink_host_end(struct snic_hcachelink_host *h) SNIC_NONNULL(1);
/** Closed, or never attached: gives the region back (to a dma handle that is still open). Returns
 *  the caller's memory. [owner] */
SNIC_API void *snic_hcachelink_host_fini(struct snic_hcachelink_host *h) SNIC_NONNULL(1);
/**
 * Take a request. What the region alone can answer is finished at once, without done.
 * @return 1 finished, see result; 0 done comes; SNIC_EINVAL op, length or offset; SNIC_EPIPE not
 *         attached [owner]
 */
SNIC_API SNIC_NODISCARD int snic_hcachelink_submit(struct snic_hcachelink_host *h,
                                                   struct snic_hcachelink_req *req)
    SNIC_NONNULL(1, 2);
/**
 * The same from any thread, by the half's loop @p l: done comes in every case, also with what
 * submit refuses. For threads that read and write cached pages by handles of their own. [any]
 */
SNIC_API void snic_hcachelink_post(struct snic_hcachelink_host *h, struct snic_loop *l,
                                   struct snic_hcachelink_req *req) SNIC_NONNULL(1, 2, 3);
/**
 * Threads that read by handles of their own report what the control plane cannot see: that they
 * have read @p count pages from @p lpn on from the store themselves, or, 0, that a read was
 * answered with SNIC_HCACHE_AHEAD. Best effort. [owner]
 */
SNIC_API void snic_hcachelink_hint(struct snic_hcachelink_host *h, uint64_t ino, uint64_t lpn,
                                   uint32_t count) SNIC_NONNULL(1);
/**
 * Why the file system takes no dirty pages, as last reported by the DPU: pages written to the
 * region now may not get out of it. 0: it takes them, or none is dirty. [owner]
 */
SNIC_API int snic_hcachelink_refused(const struct snic_hcachelink_host *h) SNIC_NONNULL(1);
/** The region, and the epoch for handles of other threads (owners 2..254); NULL: none. [owner] */
SNIC_API void *snic_hcachelink_host_region(struct snic_hcachelink_host *h, size_t *size,
                                           uint64_t *epoch) SNIC_NONNULL(1, 2, 3);
/** The half's own handle (owner 1), for its statistics. [owner] */
SNIC_API const struct snic_hcache_host *snic_hcachelink_host_engine(
    const struct snic_hcachelink_host *h) SNIC_NONNULL(1);
/** Counters since init. [owner] */
SNIC_API void snic_hcachelink_host_get_stats(const struct snic_hcachelink_host *h,
                                             struct snic_hcachelink_host_stats *out)
    SNIC_NONNULL(1, 2);
/** Its own invariants: 0 or SNIC_ECORRUPT. For tests. [owner] */
SNIC_API int snic_hcachelink_host_check(const struct snic_hcachelink_host *h) SNIC_NONNULL(1);
/** SHARED: the link's events; @p ctx is the half. [owner] */
SNIC_API void snic_hcachelink_host_recv(void *ctx, const void *msg, uint32_t size)
    SNIC_NONNULL(1, 2);
/** As recv. [owner] */
SNIC_API void snic_hcachelink_host_doorbell(void *ctx, uint32_t id) SNIC_NONNULL(1);
/** As recv; also to give up a DPU that may live, which must not write to the store any more when
 *  the next one is attached. [owner] */
SNIC_API void snic_hcachelink_host_death(void *ctx, enum snic_dma_death cause) SNIC_NONNULL(1);

/* ---- DPU ---- */

struct snic_hcachelink_dpu;

/** Zero the struct, then set opts_size. */
struct snic_hcachelink_dpu_opts {
    uint32_t opts_size;
    uint32_t flags; /**< SNIC_HCACHELINK_SHARED, _NO_SALVAGE                                    */
    uint32_t bell;
    uint32_t tasks;      /**< of the host, under way at once, 2..64; 32                     */
    uint64_t memory_max; /**< most bytes of an engine; a larger region is refused; 1 GiB    */
    uint64_t salvage_ns; /**< most time for a dead host's pages, and at END for a store
                                that refuses all of them; 10 s                          */
    struct snic_hcache_control_opts control; /**< opts_size 0: defaults. seal->pack is refused:
                                                  a file has no place for packed pages          */
    /** The host has left, or is dead and nothing of it is left; serve the next link. May be NULL.
     */
    void (*gone)(void *ctx, struct snic_hcachelink_dpu *d);
    void *ctx;
};

struct snic_hcachelink_dpu_stats {
    uint64_t reads;      /**< pages for the host's misses                                       */
    uint64_t writes;     /**< pages written to the file system                                  */
    uint64_t fetches;    /**< pages read ahead                                                  */
    uint64_t orphans;    /**< dirty pages of files that there are not any more                  */
    uint64_t salvaged;   /**< pages of a dead host that were written                            */
    uint64_t mismatches; /**< pages whose checksum did not fit when they were written           */
    uint64_t refused;    /**< messages that were not the protocol's                             */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_hcachelink_dpu_opts_wrong(const struct snic_hcachelink_dpu_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_hcachelink_dpu_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_hcachelink_dpu_memsize(const struct snic_hcachelink_dpu_opts *o)
    SNIC_NONNULL(1);
/**
 * Serve @p d, whose events it takes over unless SHARED, from @p fs, mounted, of the same loop; both
 * stay the caller's. Before the loop runs again after @p d was opened.
 * @return 0; SNIC_EINVAL options, alignment (SNIC_CACHELINE), another loop; SNIC_ENOSPC [owner]
 */
SNIC_API SNIC_NODISCARD int snic_hcachelink_dpu_init(struct snic_hcachelink_dpu **out, void *mem,
                                                     size_t size, struct snic_dma *d,
                                                     struct snic_fs *fs,
                                                     const struct snic_hcachelink_dpu_opts *o)
    SNIC_NONNULL(1, 2, 4, 5, 6);
/** Take nothing more; then wait for idle. What is dirty stays so in the region. [owner] */
SNIC_API void snic_hcachelink_dpu_detach(struct snic_hcachelink_dpu *d) SNIC_NONNULL(1);
/** 1: nothing is under way, and no host is served. [owner] */
SNIC_API int snic_hcachelink_dpu_idle(const struct snic_hcachelink_dpu *d) SNIC_NONNULL(1);
/** End: idle. Leaves the dma handle without events. Returns the caller's memory. [owner] */
SNIC_API void *snic_hcachelink_dpu_fini(struct snic_hcachelink_dpu *d) SNIC_NONNULL(1);
/** The engine, for its statistics; NULL: no region. [owner] */
SNIC_API const struct snic_hcache_control *snic_hcachelink_dpu_engine(
    const struct snic_hcachelink_dpu *d) SNIC_NONNULL(1);
/** Counters since init. [owner] */
SNIC_API void snic_hcachelink_dpu_get_stats(const struct snic_hcachelink_dpu *d,
                                            struct snic_hcachelink_dpu_stats *out)
    SNIC_NONNULL(1, 2);
/** Its own invariants: 0 or SNIC_ECORRUPT. For tests. [owner] */
SNIC_API int snic_hcachelink_dpu_check(const struct snic_hcachelink_dpu *d) SNIC_NONNULL(1);
/** SHARED: the link's events; @p ctx is the half. [owner] */
SNIC_API void snic_hcachelink_dpu_recv(void *ctx, const void *msg, uint32_t size)
    SNIC_NONNULL(1, 2);
/** As recv. [owner] */
SNIC_API void snic_hcachelink_dpu_doorbell(void *ctx, uint32_t id) SNIC_NONNULL(1);
/** As recv. [owner] */
SNIC_API void snic_hcachelink_dpu_death(void *ctx, enum snic_dma_death cause) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_HCACHELINK_H */
