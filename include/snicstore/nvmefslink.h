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
 * Input       The other end is hostile; nvmefs.h checks it. Requests stay outstanding while the DPU
 *             is alive and does not respond: snic_nvmefslink_host_detach() ends the wait.
 *
 * One host process, one link, and a queue pair for each of its threads. Each end replaces the dma
 * handle's events; messages and doorbells that are not nvme-fs' are passed to recv and doorbell of
 * the options, and so is the peer's death, so that others (the hybrid cache) can use the same link.
 * Queue n rings doorbell bell_base + n both ways.
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

/** Receives what is not nvme-fs'; each may be NULL. */
struct snic_nvmefslink_others {
    void (*recv)(void *ctx, const void *msg, uint32_t size);
    void (*doorbell)(void *ctx, uint32_t id);
    /** The peer is certified dead; nvme-fs has processed it. */
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
 * Replace the events of @p d, which stays the caller's to close. Call it before the loop runs again
 * after @p d was opened.
 * @param mem  at least snic_nvmefslink_host_memsize() bytes, aligned to 16; owned until fini
 * @param o    copied
 * @return 0; SNIC_EINVAL an option (snic_nvmefslink_host_opts_wrong()) or the alignment;
 *         SNIC_ENOSPC @p size is too small [owner]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefslink_host_init(struct snic_nvmefslink_host **out, void *mem,
                                                      size_t size, struct snic_dma *d,
                                                      const struct snic_nvmefslink_host_opts *o)
    SNIC_NONNULL(1, 2, 4, 5);
/**
 * Treat the DPU as dead, though it may be alive, to end the wait for it. Every queue ends with
 * SNIC_EPEERDEAD: its requests are done and its closed event is called before this returns (DIRECT:
 * the latter alone). Until the dma handle is closed, which has to follow, the DPU may still write
 * to the queues' memory and to the extents of requests. Not from inside an event. [owner]
 */
SNIC_API void snic_nvmefslink_host_detach(struct snic_nvmefslink_host *h) SNIC_NONNULL(1);
/** End; asserts that all queues are closed. Leaves the dma handle without events. @return mem of
 *  init [owner] */
SNIC_API void *snic_nvmefslink_host_fini(struct snic_nvmefslink_host *h) SNIC_NONNULL(1);
/**
 * Register [mem, mem + size), memory from snic_dma_alloc(), for extents of requests: addresses are
 * SNIC_NVMEFS_ADDRESS(window, offset). It is announced to the DPU before the queues' next entries.
 * @param[out] key  for snic_dma_unregister(), after snic_nvmefslink_window_remove() and once no
 *                  request uses the window
 * @return the window's number; SNIC_ENOSPC SNIC_NVMEFS_WINDOWS_MAX are in use; SNIC_E* of
 *         snic_dma_register() [owner]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefslink_window_add(struct snic_nvmefslink_host *h, void *mem,
                                                       size_t size, uint64_t *key)
    SNIC_NONNULL(1, 2, 4);
/** Withdraw the window; its number may be assigned again. [owner] */
SNIC_API void snic_nvmefslink_window_remove(struct snic_nvmefslink_host *h, uint32_t window)
    SNIC_NONNULL(1);

/** Called on the loop's thread; closed, and without DIRECT done, must be set. */
struct snic_nvmefslink_events {
    /** The DPU accepts commands: after open and after each reset. May be NULL. */
    void (*opened)(void *ctx, struct snic_nvmefslink_queue *q);
    /** A request is finished: its result and status are set. Not with DIRECT. */
    void (*done)(void *ctx, struct snic_nvmefslink_queue *q, struct snic_nvmefs_req *req);
    /** DIRECT: the DPU rang; wake the thread that owns the queue, if it sleeps. */
    void (*bell)(void *ctx, struct snic_nvmefslink_queue *q);
    /**
     * The queue has ended; the DPU does not access it any more. Reason: 0 by end; SNIC_EPEERDEAD;
     * SNIC_EPROTO the DPU violated the protocol; SNIC_EFAULT it cannot reach the queue; else the
     * DPU's reason not to open it. All requests are done, those in flight with SNIC_EUNKNOWN; with
     * DIRECT the thread has to take them back itself (snic_nvmefs_host_reset() and reap) before
     * close. Call snic_nvmefslink_close(), here or later.
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
 * Make a queue pair and offer it to the DPU. Requests may be submitted at once. @p o and @p e are
 * copied. [owner]
 * @return 0; SNIC_EINVAL an option; SNIC_EAGAIN queues_max are open; SNIC_ENOMEM memory or a key;
 *         SNIC_EPEERDEAD the link is dead
 */
SNIC_API SNIC_NODISCARD int snic_nvmefslink_open(struct snic_nvmefslink_queue **out,
                                                 struct snic_nvmefslink_host *h,
                                                 const struct snic_nvmefslink_queue_opts *o,
                                                 const struct snic_nvmefslink_events *e)
    SNIC_NONNULL(1, 2, 3, 4);
/** Begin to close: the DPU ends what is in flight, then the closed event is called. No effect if it
 *  was called or is due. [owner] */
SNIC_API void snic_nvmefslink_end(struct snic_nvmefslink_queue *q) SNIC_NONNULL(1);
/** Free the queue. In the closed event or after it; DIRECT: when the thread is done. [owner] */
SNIC_API void snic_nvmefslink_close(struct snic_nvmefslink_queue *q) SNIC_NONNULL(1);
/**
 * Submit. The loop's next iteration rings the bell, so that several requests share one; flush rings
 * now. The request is borrowed until `done`, or not at all on failure. [owner]
 * @return 0; SNIC_EPIPE the queue is closing, closed, or being reset; SNIC_EAGAIN it is full;
 *         SNIC_EINVAL kind, flag, name or data; SNIC_ENAMETOOLONG a name; SNIC_E2BIG groups;
 *         SNIC_EMSGSIZE header or data too long; SNIC_EPROTO the DPU has violated the protocol
 */
SNIC_API SNIC_NODISCARD int snic_nvmefslink_submit(struct snic_nvmefslink_queue *q,
                                                   struct snic_nvmefs_req *req) SNIC_NONNULL(1, 2);
/** Ring for what was submitted, if the DPU has to be rung. [owner] */
SNIC_API void snic_nvmefslink_flush(struct snic_nvmefslink_queue *q) SNIC_NONNULL(1);
/**
 * Abort an outstanding request: one that waits for a lock ends with SNIC_EINTR, one that has not
 * begun with status ABORTED, others as without it.
 * @return 0; SNIC_ENOENT it is not outstanding [owner]
 */
SNIC_API int snic_nvmefslink_abort(struct snic_nvmefslink_queue *q, struct snic_nvmefs_req *req)
    SNIC_NONNULL(1, 2);
/**
 * Delete the queue at the DPU and offer it again: all outstanding requests end with SNIC_EUNKNOWN,
 * then `opened` is called.
 * @return 0; SNIC_EPIPE closing or closed; SNIC_EBUSY it is opening or being reset; SNIC_ENOTSUP
 *         DIRECT [owner]
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
    /** A request: finish it with snic_nvmefslink_finish(), here or later. */
    void (*request)(void *ctx, struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c);
    /** The host has aborted it, or is gone; once, before it is finished. May be NULL. */
    void (*cancel)(void *ctx, struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c);
    void *ctx;
    struct snic_nvmefslink_others others;
};
#define SNIC_NVMEFSLINK_UNMAPPED (1U << 0) /**< do not poll the host's memory, even if mapped  */

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_nvmefslink_dpu_opts_wrong(const struct snic_nvmefslink_dpu_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_nvmefslink_dpu_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_nvmefslink_dpu_memsize(const struct snic_nvmefslink_dpu_opts *o)
    SNIC_NONNULL(1);
/**
 * Replace the events of @p d, which stays the caller's to close. Call it before the loop runs again
 * after @p d was opened.
 * @param mem  at least snic_nvmefslink_dpu_memsize() bytes, aligned to SNIC_NVMEFS_ALIGN; owned
 *             until fini
 * @param o    copied
 * @return 0; SNIC_EINVAL an option (snic_nvmefslink_dpu_opts_wrong()) or the alignment; SNIC_ENOSPC
 *         @p size is too small [owner]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefslink_dpu_init(struct snic_nvmefslink_dpu **out, void *mem,
                                                     size_t size, struct snic_dma *d,
                                                     const struct snic_nvmefslink_dpu_opts *o)
    SNIC_NONNULL(1, 2, 4, 5);
/**
 * End; asserts snic_nvmefslink_dpu_idle(). Leaves the dma handle without events.
 * @return mem of init [owner]
 */
SNIC_API void *snic_nvmefslink_dpu_fini(struct snic_nvmefslink_dpu *d) SNIC_NONNULL(1);
/** Accept nothing more and cancel what is in flight, as at the host's death; then wait for idle.
 *  [owner] */
SNIC_API void snic_nvmefslink_dpu_detach(struct snic_nvmefslink_dpu *d) SNIC_NONNULL(1);
/** @return 1: nothing is in flight, and no request is with the user; 0 [owner] */
SNIC_API int snic_nvmefslink_dpu_idle(const struct snic_nvmefslink_dpu *d) SNIC_NONNULL(1);
/**
 * A request is done. With @p status OK and @p result 0 or more its answer and the first @p result
 * bytes of data out are sent; otherwise the status and @p result alone. [owner]
 */
SNIC_API void snic_nvmefslink_finish(struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c,
                                     uint32_t status, int64_t result) SNIC_NONNULL(1, 2);
/** The engine, for statistics and check. [owner] */
SNIC_API struct snic_nvmefs_dpu *snic_nvmefslink_dpu_engine(struct snic_nvmefslink_dpu *d)
    SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVMEFSLINK_H */
