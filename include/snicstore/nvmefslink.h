/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/nvmefslink.h
 * nvme-fs over a dma link: the engines of nvmefs.h joined to dma.h and a loop, both ends.
 *
 * Depends on  snicstore/base.h, snicstore/loop.h, snicstore/dma.h, snicstore/nvmefs.h.
 * Memory      memsize() bytes of the caller's for each end; queue pairs take theirs from
 *             snic_dma_alloc(), at open. Requests are the caller's, borrowed until done.
 * Threads     The owner of the dma handle's loop, except for calls tagged [any]. A queue pair
 *             opened with SNIC_NVMEFSLINK_DIRECT belongs to another thread, by its engine.
 * Progress    No call blocks. A thread sleeps in its loop alone; while both ends are busy, neither
 *             rings: no system call.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes.
 * Input       The other end is hostile: its checks are in nvmefs.h. A DPU that is alive and does
 *             not respond keeps its requests: close the dma handle to end the wait.
 *
 * One host process, one link, and a queue pair for each of its threads. Each end takes over the dma
 * handle's events; what is not nvme-fs's is passed to recv, doorbell and death of the options, so
 * that others (the hybrid cache) can use the same link. Queue n rings doorbell bell_base + n both
 * ways.
 */
#ifndef SNIC_NVMEFSLINK_H
#define SNIC_NVMEFSLINK_H

#include "snicstore/base.h"
#include "snicstore/dma.h"
#include "snicstore/loop.h"
#include "snicstore/nvmefs.h"

#ifdef __cplusplus
extern "C" {
#endif

/** For what is not nvme-fs's; each may be NULL. */
struct snic_nvmefslink_others {
    void (*recv)(void *ctx, const void *msg, uint32_t size);
    void (*doorbell)(void *ctx, uint32_t id);
    /** The peer is certified dead; nvme-fs knows already. */
    void (*death)(void *ctx, enum snic_dma_death cause);
    void *ctx;
};

/* ---- Host ---- */

struct snic_nvmefslink_host;
struct snic_nvmefslink_queue;

/** Zero the struct, then set opts_size. */
struct snic_nvmefslink_host_opts {
    uint32_t opts_size;
    uint32_t queues_max; /**< 1..32; default 8                                                */
    uint32_t bell_base;  /**< queues_max doorbells from here on                                */
    uint32_t reserved;
    struct snic_nvmefslink_others others;
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_nvmefslink_host_opts_wrong(const struct snic_nvmefslink_host_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_nvmefslink_host_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_nvmefslink_host_memsize(const struct snic_nvmefslink_host_opts *o)
    SNIC_NONNULL(1);
/**
 * Take over the events of @p d, which stays the caller's to close. Before the loop runs again after
 * @p d was opened.
 * @return 0; SNIC_EINVAL; SNIC_ENOSPC [owner]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefslink_host_init(struct snic_nvmefslink_host **out, void *mem,
                                                      size_t size, struct snic_dma *d,
                                                      const struct snic_nvmefslink_host_opts *o)
    SNIC_NONNULL(1, 2, 4, 5);
/**
 * Treat the DPU as dead, though it may be alive, to end the wait for it. Every queue is over, with
 * SNIC_EPEERDEAD; its requests' ends and its closed event come before this returns (DIRECT: the
 * latter). What the DPU still writes goes to the queues' memory and to what requests name by
 * extents; it ends when the dma handle is closed, which is next. Not from inside an event. [owner]
 */
SNIC_API void snic_nvmefslink_host_detach(struct snic_nvmefslink_host *h) SNIC_NONNULL(1);
/** All queues are closed. Leaves the dma handle without events. Returns the caller's memory.
 *  [owner] */
SNIC_API void *snic_nvmefslink_host_fini(struct snic_nvmefslink_host *h) SNIC_NONNULL(1);
/**
 * Let the DPU reach [mem, mem + size), memory from snic_dma_alloc(): addresses are
 * SNIC_NVMEFS_ADDRESS(window, offset). The DPU learns of it before the queues' next entries.
 * @param[out] key  what snic_dma_unregister() takes when no request names the window any more and
 *                  snic_nvmefslink_window_remove() was called
 * @return the window's number; SNIC_ENOSPC all are in use; SNIC_E* of register [owner]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefslink_window_add(struct snic_nvmefslink_host *h, void *mem,
                                                       size_t size, uint64_t *key)
    SNIC_NONNULL(1, 2, 4);
/** The window's number is free again. [owner] */
SNIC_API void snic_nvmefslink_window_remove(struct snic_nvmefslink_host *h, uint32_t window)
    SNIC_NONNULL(1);

/** Called on the loop's thread; closed must be set. */
struct snic_nvmefslink_events {
    /** The DPU takes commands; after open and after each reset. May be NULL. */
    void (*opened)(void *ctx, struct snic_nvmefslink_queue *q);
    /** A request is finished: its result and status are set. Not with DIRECT. */
    void (*done)(void *ctx, struct snic_nvmefslink_queue *q, struct snic_nvmefs_req *req);
    /** DIRECT: the DPU rang; wake the thread that owns the queue, if it sleeps. */
    void (*bell)(void *ctx, struct snic_nvmefslink_queue *q);
    /**
     * It is over, the DPU does not touch the queue any more: 0 by end; SNIC_EPEERDEAD; SNIC_EPROTO
     * the DPU wrote nonsense; SNIC_EFAULT it cannot reach the queue; what it answered to open. All
     * requests were done before, with SNIC_EUNKNOWN if need be; with DIRECT the thread has to bring
     * them home by itself (snic_nvmefs_host_reset() and reap) before close. Call
     * snic_nvmefslink_close(), here or later.
     */
    void (*closed)(void *ctx, struct snic_nvmefslink_queue *q, int reason);
    void *ctx;
};

#define SNIC_NVMEFSLINK_DIRECT (1U << 0) /**< the queue is another thread's                   */

/** Zero the struct, then set opts_size. */
struct snic_nvmefslink_queue_opts {
    uint32_t opts_size;
    uint32_t flags;      /**< SNIC_NVMEFSLINK_DIRECT                                          */
    uint32_t depth;      /**< as snic_nvmefs_host_opts                                        */
    uint32_t data_bytes; /**< as snic_nvmefs_host_opts                                        */
};

/**
 * Make a queue pair and offer it. Requests may be submitted at once.
 * @return 0; SNIC_EINVAL; SNIC_EAGAIN queues_max are open; SNIC_ENOMEM; SNIC_EPEERDEAD [owner]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefslink_open(struct snic_nvmefslink_queue **out,
                                                 struct snic_nvmefslink_host *h,
                                                 const struct snic_nvmefslink_queue_opts *o,
                                                 const struct snic_nvmefslink_events *e)
    SNIC_NONNULL(1, 2, 3, 4);
/** Begin the end: the DPU ends what is under way, then the closed event comes. Harmless if it has
 *  come or will come. [owner] */
SNIC_API void snic_nvmefslink_end(struct snic_nvmefslink_queue *q) SNIC_NONNULL(1);
/** Free the queue. In the closed event or after it; DIRECT: when the thread is done. [owner] */
SNIC_API void snic_nvmefslink_close(struct snic_nvmefslink_queue *q) SNIC_NONNULL(1);
/**
 * Submit. The bell is rung by the loop's next round, so that several requests share one; flush
 * rings now.
 * @return as snic_nvmefs_host_submit(); SNIC_EPIPE closed, or being reset [owner]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefslink_submit(struct snic_nvmefslink_queue *q,
                                                   struct snic_nvmefs_req *req) SNIC_NONNULL(1, 2);
/** Ring for what was submitted, if the DPU has to be rung. [owner] */
SNIC_API void snic_nvmefslink_flush(struct snic_nvmefslink_queue *q) SNIC_NONNULL(1);
/** As snic_nvmefs_host_abort(). [owner] */
SNIC_API int snic_nvmefslink_abort(struct snic_nvmefslink_queue *q, struct snic_nvmefs_req *req)
    SNIC_NONNULL(1, 2);
/**
 * Start anew: all outstanding requests end with SNIC_EUNKNOWN, then opened comes. Not with DIRECT.
 * @return 0; SNIC_EPIPE closed; SNIC_EBUSY one is under way; SNIC_ENOTSUP DIRECT [owner]
 */
SNIC_API int snic_nvmefslink_reset(struct snic_nvmefslink_queue *q) SNIC_NONNULL(1);
/** The engine. DIRECT: for the thread that owns it; else for statistics and check. [owner] */
SNIC_API struct snic_nvmefs_host *snic_nvmefslink_engine(struct snic_nvmefslink_queue *q)
    SNIC_NONNULL(1);
/** DIRECT: ring the DPU's bell, when kick or sleep returns 1. [any] */
SNIC_API void snic_nvmefslink_ring(struct snic_nvmefslink_queue *q) SNIC_NONNULL(1);

/* ---- DPU ---- */

struct snic_nvmefslink_dpu;

/** Zero the struct, then set opts_size and request. */
struct snic_nvmefslink_dpu_opts {
    uint32_t opts_size;
    uint32_t flags; /**< SNIC_NVMEFSLINK_UNMAPPED                                             */
    uint32_t bell_base;
    uint32_t reserved;
    struct snic_nvmefs_dpu_opts engine; /**< opts_size 0: defaults; flags are the link's       */
    /** A request: end it with snic_nvmefslink_finish(), here or later. */
    void (*request)(void *ctx, struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c);
    /** It is wanted no more; once, before it is finished. May be NULL. */
    void (*cancel)(void *ctx, struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c);
    void *ctx;
    struct snic_nvmefslink_others others;
};
#define SNIC_NVMEFSLINK_UNMAPPED (1U << 0) /**< never look at mapped memory                    */

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_nvmefslink_dpu_opts_wrong(const struct snic_nvmefslink_dpu_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_nvmefslink_dpu_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_nvmefslink_dpu_memsize(const struct snic_nvmefslink_dpu_opts *o)
    SNIC_NONNULL(1);
/** As snic_nvmefslink_host_init(). @return 0; SNIC_EINVAL; SNIC_ENOSPC [owner] */
SNIC_API SNIC_NODISCARD int snic_nvmefslink_dpu_init(struct snic_nvmefslink_dpu **out, void *mem,
                                                     size_t size, struct snic_dma *d,
                                                     const struct snic_nvmefslink_dpu_opts *o)
    SNIC_NONNULL(1, 2, 4, 5);
/**
 * End: no request is with the user, and snic_nvmefslink_dpu_idle(). Leaves the dma handle without
 * events. Returns the caller's memory. [owner]
 */
SNIC_API void *snic_nvmefslink_dpu_fini(struct snic_nvmefslink_dpu *d) SNIC_NONNULL(1);
/** Take nothing more and cancel what is under way, as at the host's death; then wait for idle.
 *  [owner] */
SNIC_API void snic_nvmefslink_dpu_detach(struct snic_nvmefslink_dpu *d) SNIC_NONNULL(1);
/** 1: nothing is under way. [owner] */
SNIC_API int snic_nvmefslink_dpu_idle(const struct snic_nvmefslink_dpu *d) SNIC_NONNULL(1);
/** As snic_nvmefs_dpu_finish(). [owner] */
SNIC_API void snic_nvmefslink_finish(struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c,
                                     uint32_t status, int64_t result) SNIC_NONNULL(1, 2);
/** The engine, for statistics and check. [owner] */
SNIC_API struct snic_nvmefs_dpu *snic_nvmefslink_dpu_engine(struct snic_nvmefslink_dpu *d)
    SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVMEFSLINK_H */
