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
 * Input       The other half is hostile. The DPU may write any bytes to the region and send any
 *             reply: requests end with an error, or the link is closed with SNIC_EPROTO, or with
 *             SNIC_ETIMEDOUT if the DPU sends nothing for timeout_ns (it answers keep-alives, so a
 *             slow store does not count). Requests stay outstanding while the DPU is alive and does
 *             not respond: snic_hcachelink_host_death(), then closing the dma handle, ends the
 *             wait. The host may write any bytes to the region and send any request: the DPU
 *             executes what a client of its file system may do.
 *
 * Ownership. Pages and their locks are hcache.h's. The caller maintains a file's size, as a kernel
 * does in its inode: the store's size, raised by the caller's writes. Reads behind the store's size
 * return zeroes, so the caller truncates a read at the size it knows. A flush writes a page as far
 * as it was written, so the store's size never exceeds what was written. A caller that writes and
 * truncates one file at the same time orders the two itself (under FUSE the kernel's inode lock
 * does).
 *
 * An FSYNC ends with 0 when all that was written to the file before it is durable in the store. A
 * page that the store refuses stays dirty and is retried, one page at a time with back-off up to a
 * second; the next FSYNC or FLUSH reports its error. Until then no READ or WRITE waits for a page
 * that only such a flush would free. Without an FSYNC, pages are in the store about flush_ns later.
 * A synchronous or direct write is a WRITE and an FSYNC.
 *
 * Death. Of the host: the DPU releases its locks and, if its memory is still accessible (dma's
 * MAPPED), flushes the pages that are dirty and complete; then `gone`. Of the DPU: all requests end
 * with SNIC_EPEERDEAD (the outcome of a TRUNCATE is unknown: submit it again), the region remains,
 * and snic_hcachelink_host_attach() to the successor moves it: nothing is lost. Before that, no
 * other thread may hold a page; its handles have to be attached anew.
 *
 * One DPU half serves one host at a time over one link, which it may share with nvmefslink: with
 * SNIC_HCACHELINK_SHARED the three functions _recv, _doorbell and _death are nvmefslink's `others`.
 * They do not identify the link of an event: detach them from the old link before the host's half
 * is attached to another one.
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

/** Another module receives the dma handle's events and forwards those that are not its own. */
#define SNIC_HCACHELINK_SHARED (1u << 0)
/** DPU: do not flush from a dead host's memory. */
#define SNIC_HCACHELINK_NO_SALVAGE (1u << 1)

/* ---- Host ---- */

enum snic_hcachelink_op {
    SNIC_HCACHELINK_READ = 1,     /**< ino, offset, length, data -> length                      */
    SNIC_HCACHELINK_WRITE = 2,    /**< ino, offset, length, data -> length                      */
    SNIC_HCACHELINK_FSYNC = 3,    /**< ino                                                      */
    SNIC_HCACHELINK_TRUNCATE = 4, /**< ino, length: the new size, in cache and store            */
    SNIC_HCACHELINK_DROP = 5,     /**< ino, offset, length (0: to the end, by a walk through all
                                       pages: pass the size if it is known): drop the pages of this
                                       range, dirty or not. For unlink; and both before and after
                                       others change the store, since a page that is read ahead in
                                       between is stale                                         */
    SNIC_HCACHELINK_FLUSH = 6     /**< ino: all that was written to it is in the file system, not
                                       necessarily durable. For close, and before a request that
                                       bypasses the cache                                       */
};

/** WRITE: the file ends at offset or before it. A page that begins there or behind is not read from
 *  the store. */
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
    int64_t result; /**< out; after an error a part may have been done. READ, WRITE: SNIC_EAGAIN no
                         entry for the next page can be freed, since the file system takes no dirty
                         pages (out of space): read or write the rest, from `at` on, without the
                         cache                                                                  */
    snic_hcachelink_done_fn done;
    void *ctx;
    uint64_t at; /**< out, with SNIC_EAGAIN: bytes that are done                                */
    struct snic_hcache_page page; /**< this and the rest: private                               */
    uint64_t since_ns;
    uint32_t step;
    uint32_t slot;
    struct snic_hcachelink_host *host;
};

/** On the loop's thread; each may be NULL. */
struct snic_hcachelink_events {
    /** The DPU serves the region: after each attach. */
    void (*opened)(void *ctx, struct snic_hcachelink_host *h);
    /**
     * The link has ended. Reason: 0 by end; SNIC_EPEERDEAD; SNIC_EPROTO the DPU violated the
     * protocol; SNIC_ETIMEDOUT it sent nothing for timeout_ns; else its error of attach or end. All
     * requests were finished before. After SNIC_EPEERDEAD, and when the DPU refused the region or
     * could not flush it, the next attach moves the pages; otherwise it begins with an empty
     * region.
     */
    void (*closed)(void *ctx, struct snic_hcachelink_host *h, int reason);
    void *ctx;
};

/** Zero the struct, then set opts_size and cache. */
struct snic_hcachelink_host_opts {
    uint32_t opts_size;
    uint32_t flags;        /**< SNIC_HCACHELINK_SHARED                                          */
    uint32_t bell;         /**< doorbell id, both ways                                          */
    uint32_t requests_max; /**< messages in flight, 2..64; 64                                   */
    struct snic_hcache_opts cache;
    uint64_t timeout_ns; /**< for a message of the DPU, and for a busy page; 30 s               */
    uint64_t retry_ns;   /**< until a busy page is tried again, without a wake-up; 500 us       */
    struct snic_hcachelink_events events;
};

struct snic_hcachelink_host_stats {
    uint64_t hits;     /**< pages read from the region                                            */
    uint64_t fills;    /**< pages requested from the DPU                                          */
    uint64_t waits;    /**< requests that waited for a page or an entry                           */
    uint64_t wakes;    /**< doorbells of the DPU                                                  */
    uint64_t moved;    /**< regions moved to a successor                                          */
    uint64_t strays;   /**< messages that violate the protocol                                    */
    uint64_t refusals; /**< times that the file system began to refuse pages                    */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_hcachelink_host_opts_wrong(const struct snic_hcachelink_host_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_hcachelink_host_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_hcachelink_host_memsize(const struct snic_hcachelink_host_opts *o)
    SNIC_NONNULL(1);
/**
 * A half without a link.
 * @param mem  at least snic_hcachelink_host_memsize() bytes, aligned to 16; owned until fini
 * @param o    copied
 * @return 0; SNIC_EINVAL an option (snic_hcachelink_host_opts_wrong()) or the alignment;
 *         SNIC_ENOSPC @p size is too small [owner]
 */
SNIC_API SNIC_NODISCARD int snic_hcachelink_host_init(struct snic_hcachelink_host **out, void *mem,
                                                      size_t size,
                                                      const struct snic_hcachelink_host_opts *o)
    SNIC_NONNULL(1, 2, 4);
/**
 * Make a region on @p d, or copy the one of the dead link to it, and offer it to the DPU. Requests
 * may be submitted at once. Replaces the events of @p d unless SHARED. Call it before the loop runs
 * again after @p d was opened. The dead link's handle may be closed afterwards.
 * @return 0; SNIC_EBUSY attached; SNIC_EPEERDEAD @p d was reported dead; SNIC_E* of
 * snic_dma_alloc() and _register(); on failure the pages remain, and it may be called again [owner]
 */
SNIC_API SNIC_NODISCARD int snic_hcachelink_host_attach(struct snic_hcachelink_host *h,
                                                        struct snic_dma *d) SNIC_NONNULL(1, 2);
/**
 * Begin to close: dirty pages are flushed, the DPU detaches from the region, then the closed event
 * is called. No request may be in flight, and none is accepted any more. If the DPU has yet to open
 * the region, it does so first. No effect if the event was called or is due. [owner]
 */
SNIC_API void snic_hcachelink_host_end(struct snic_hcachelink_host *h) SNIC_NONNULL(1);
/** End; asserts that it is closed, or was never attached. Releases the region to its dma handle,
 *  which has to be open still. @return mem of init [owner] */
SNIC_API void *snic_hcachelink_host_fini(struct snic_hcachelink_host *h) SNIC_NONNULL(1);
/**
 * Submit a request. One that the region alone can serve is finished at once, without done. [owner]
 * @return 1 finished, see result; 0 done will be called; SNIC_EINVAL op, flags, length, offset or
 *         data; SNIC_EPIPE not attached, or closing
 */
SNIC_API SNIC_NODISCARD int snic_hcachelink_submit(struct snic_hcachelink_host *h,
                                                   struct snic_hcachelink_req *req)
    SNIC_NONNULL(1, 2);
/**
 * The same from any thread, by the half's loop @p l: done is called in every case, also with an
 * error of submit as result. For threads that read and write cached pages by their own handles.
 * [any]
 */
SNIC_API void snic_hcachelink_post(struct snic_hcachelink_host *h, struct snic_loop *l,
                                   struct snic_hcachelink_req *req) SNIC_NONNULL(1, 2, 3);
/**
 * For threads that read by their own handles, whose reads the control plane cannot see: they have
 * read @p count pages from @p lpn on from the store, or, 0, a read returned SNIC_HCACHE_AHEAD. Best
 * effort. [owner]
 */
SNIC_API void snic_hcachelink_hint(struct snic_hcachelink_host *h, uint64_t ino, uint64_t lpn,
                                   uint32_t count) SNIC_NONNULL(1);
/**
 * Does the file system refuse dirty pages? Pages written to the region now may not be flushed.
 * @return 0 it accepts them, or none is dirty; SNIC_E* as last reported by the DPU [owner]
 */
SNIC_API int snic_hcachelink_refused(const struct snic_hcachelink_host *h) SNIC_NONNULL(1);
/** The region, its bytes, and the epoch for handles of other threads (owners 2..254); NULL: none.
 *  [owner] */
SNIC_API void *snic_hcachelink_host_region(struct snic_hcachelink_host *h, size_t *size,
                                           uint64_t *epoch) SNIC_NONNULL(1, 2, 3);
/** The half's own handle (owner 1), for its statistics. [owner] */
SNIC_API const struct snic_hcache_host *snic_hcachelink_host_engine(
    const struct snic_hcachelink_host *h) SNIC_NONNULL(1);
/** Counters since init. [owner] */
SNIC_API void snic_hcachelink_host_get_stats(const struct snic_hcachelink_host *h,
                                             struct snic_hcachelink_host_stats *out)
    SNIC_NONNULL(1, 2);
/** Structural check. [owner] @return 0; SNIC_ECORRUPT an invariant does not hold */
SNIC_API int snic_hcachelink_host_check(const struct snic_hcachelink_host *h) SNIC_NONNULL(1);
/** SHARED: a message of the link; @p ctx is the half. One that is not hcachelink's is counted as a
 *  stray. [owner] */
SNIC_API void snic_hcachelink_host_recv(void *ctx, const void *msg, uint32_t size)
    SNIC_NONNULL(1, 2);
/** SHARED: a doorbell of the link; @p ctx is the half. [owner] */
SNIC_API void snic_hcachelink_host_doorbell(void *ctx, uint32_t id) SNIC_NONNULL(1);
/** SHARED: the peer's death; @p ctx is the half. Also to give up a DPU that may be alive; it must
 * no longer write to the store when the next one is attached. [owner] */
SNIC_API void snic_hcachelink_host_death(void *ctx, enum snic_dma_death cause) SNIC_NONNULL(1);

/* ---- DPU ---- */

struct snic_hcachelink_dpu;

/** Zero the struct, then set opts_size. */
struct snic_hcachelink_dpu_opts {
    uint32_t opts_size;
    uint32_t flags; /**< SNIC_HCACHELINK_SHARED, _NO_SALVAGE                                    */
    uint32_t bell;
    uint32_t tasks;      /**< requests of the host in flight, 2..64; 32                     */
    uint64_t memory_max; /**< most bytes of an engine; a larger region is refused; 1 GiB    */
    uint64_t salvage_ns; /**< most time for a dead host's pages, and at END for a store
                                that refuses all of them; 10 s                          */
    struct snic_hcache_control_opts control; /**< opts_size 0: defaults. seal->pack is refused:
                                                  a file has no place for packed pages          */
    /** The host has detached, or is dead and cleaned up after: the next link may be served. May be
     *  NULL. */
    void (*gone)(void *ctx, struct snic_hcachelink_dpu *d);
    void *ctx;
};

struct snic_hcachelink_dpu_stats {
    uint64_t reads;      /**< pages for the host's misses                                       */
    uint64_t writes;     /**< pages written to the file system                                  */
    uint64_t fetches;    /**< pages read ahead                                                  */
    uint64_t orphans;    /**< dirty pages of files that no longer exist                         */
    uint64_t salvaged;   /**< pages of a dead host that were written                            */
    uint64_t mismatches; /**< pages with a checksum mismatch when they were written             */
    uint64_t refused;    /**< messages that violate the protocol                                */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_hcachelink_dpu_opts_wrong(const struct snic_hcachelink_dpu_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_hcachelink_dpu_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_hcachelink_dpu_memsize(const struct snic_hcachelink_dpu_opts *o)
    SNIC_NONNULL(1);
/**
 * Serve @p d from @p fs, which is mounted and of the same loop; both stay the caller's. Replaces
 * the events of @p d unless SHARED. Call it before the loop runs again after @p d was opened.
 * @param mem  at least snic_hcachelink_dpu_memsize() bytes, aligned to SNIC_CACHELINE; owned until
 *             fini
 * @param o    copied
 * @return 0; SNIC_EINVAL an option (snic_hcachelink_dpu_opts_wrong()), the alignment, or @p fs is
 * of another loop; SNIC_ENOSPC @p size is too small [owner]
 */
SNIC_API SNIC_NODISCARD int snic_hcachelink_dpu_init(struct snic_hcachelink_dpu **out, void *mem,
                                                     size_t size, struct snic_dma *d,
                                                     struct snic_fs *fs,
                                                     const struct snic_hcachelink_dpu_opts *o)
    SNIC_NONNULL(1, 2, 4, 5, 6);
/** Accept nothing more; then wait for idle. Dirty pages stay in the region. [owner] */
SNIC_API void snic_hcachelink_dpu_detach(struct snic_hcachelink_dpu *d) SNIC_NONNULL(1);
/** @return 1: nothing is in flight, and no host is served; 0 [owner] */
SNIC_API int snic_hcachelink_dpu_idle(const struct snic_hcachelink_dpu *d) SNIC_NONNULL(1);
/** End; asserts that it is idle. Leaves the dma handle without events unless SHARED. @return mem of
 *  init [owner] */
SNIC_API void *snic_hcachelink_dpu_fini(struct snic_hcachelink_dpu *d) SNIC_NONNULL(1);
/** The engine, for its statistics; NULL: no region. [owner] */
SNIC_API const struct snic_hcache_control *snic_hcachelink_dpu_engine(
    const struct snic_hcachelink_dpu *d) SNIC_NONNULL(1);
/** Counters since init. [owner] */
SNIC_API void snic_hcachelink_dpu_get_stats(const struct snic_hcachelink_dpu *d,
                                            struct snic_hcachelink_dpu_stats *out)
    SNIC_NONNULL(1, 2);
/** Structural check. [owner] @return 0; SNIC_ECORRUPT an invariant does not hold */
SNIC_API int snic_hcachelink_dpu_check(const struct snic_hcachelink_dpu *d) SNIC_NONNULL(1);
/** SHARED: a message of the link; @p ctx is the half. [owner] */
SNIC_API void snic_hcachelink_dpu_recv(void *ctx, const void *msg, uint32_t size)
    SNIC_NONNULL(1, 2);
/** SHARED: a doorbell of the link; @p ctx is the half. [owner] */
SNIC_API void snic_hcachelink_dpu_doorbell(void *ctx, uint32_t id) SNIC_NONNULL(1);
/** SHARED: the host's death; @p ctx is the half. [owner] */
SNIC_API void snic_hcachelink_dpu_death(void *ctx, enum snic_dma_death cause) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_HCACHELINK_H */
