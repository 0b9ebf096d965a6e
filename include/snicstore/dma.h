/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/dma.h
 * The door between a host role and a DPU role: one handle is one end of a link.
 *
 * Depends on  snicstore/base.h, snicstore/loop.h.
 * Memory      Regions come from snic_dma_alloc() (so that the peer can reach
 *             them) and are freed with the handle. Requests are caller-owned.
 * Threads     The owner thread of the handle's loop; snic_dma_ring() is for any
 *             thread while the handle is open.
 * Progress    No call blocks, except connect (it waits for the other end).
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes; keys and offsets name the peer's memory, never pointers.
 *
 * Nothing above may assume that the other side's memory is mapped: MAPPED is a
 * capability, and every user keeps an unmapped path that the sim backend tests.
 *
 * A batch is a list of operations. Without flags they take effect in any order.
 * ORDERED: starts after the effects of the previous operation of the batch are
 * visible. FENCE: starts after all earlier operations of the batch completed.
 * Between batches there is no order, except through completion.
 */
#ifndef SNIC_DMA_H
#define SNIC_DMA_H

#include "snicstore/base.h"
#include "snicstore/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_DMA_CAP_MAPPED (1u << 0)       /**< snic_dma_map() works                       */
#define SNIC_DMA_CAP_ORDERED_READ (1u << 1) /**< one read fetches in ascending order        */
#define SNIC_DMA_CAP_ATOMIC (1u << 2)       /**< CAS and ADD on 8-byte words                */

#define SNIC_DMA_RIGHT_READ (1u << 0)   /**< the peer may read                              */
#define SNIC_DMA_RIGHT_WRITE (1u << 1)  /**< the peer may write                             */
#define SNIC_DMA_RIGHT_ATOMIC (1u << 2) /**< the peer may use atomics                       */

/** Longest control message. */
#define SNIC_DMA_MSG_MAX 256
/** Doorbell ids are 0..63 per direction. */
#define SNIC_DMA_DOORBELLS 64

enum snic_dma_op_kind {
    SNIC_DMA_READ = 1,  /**< peer (key, offset) -> local                                     */
    SNIC_DMA_WRITE = 2, /**< local -> peer (key, offset)                                     */
    SNIC_DMA_CAS = 3,   /**< 8 bytes, aligned: if == compare then = operand; old to value    */
    SNIC_DMA_ADD = 4    /**< 8 bytes, aligned: += operand; old to value                      */
};

#define SNIC_DMA_ORDERED (1u << 0)
#define SNIC_DMA_FENCE (1u << 1)

struct snic_dma_op {
    uint8_t kind;     /**< enum snic_dma_op_kind                    */
    uint8_t flags;    /**< SNIC_DMA_ORDERED, SNIC_DMA_FENCE         */
    uint16_t unused;  /**< must be 0                                */
    uint32_t length;  /**< bytes; 8 for atomics                     */
    uint64_t key;     /**< from the peer's snic_dma_register()      */
    uint64_t offset;  /**< in the peer's region                     */
    void *local;      /**< our memory, registered or not            */
    uint64_t compare; /**< CAS                                      */
    uint64_t operand; /**< CAS, ADD                                 */
    uint64_t value;   /**< out, atomics: the word before            */
};

struct snic_dma_batch;
typedef void (*snic_dma_done_fn)(struct snic_dma_batch *b);

/** Caller-owned; borrowed, with its ops and their local memory, until done. */
struct snic_dma_batch {
    struct snic_node node;
    snic_dma_done_fn done;
    struct snic_dma_op *ops;
    uint32_t count;
    int32_t result;  /**< out: 0, or the first error; then nothing after it took effect
                          that was ORDERED or FENCED behind it                        */
    uint32_t failed; /**< out: index of the failed op when result < 0                 */
    uint32_t unused;
    uint64_t backend[4];
};

enum snic_dma_death {
    SNIC_DMA_DEATH_EXIT = 1,  /**< the peer process ended                                   */
    SNIC_DMA_DEATH_CLOSED = 2 /**< the peer closed its end, or the link was fenced          */
};

struct snic_dma;

/** Called on the loop's thread. Set all; each may be NULL. */
struct snic_dma_events {
    /** A control message, in sending order; borrowed for the call. */
    void (*recv)(void *ctx, struct snic_dma *d, const void *msg, uint32_t size);
    /** Doorbell @p id rang at least once since the last call for it. */
    void (*doorbell)(void *ctx, struct snic_dma *d, uint32_t id);
    /**
     * The peer is certified dead: no operation of it can touch our memory any
     * more, so its reservations and locks may be reclaimed. Comes once, last.
     */
    void (*death)(void *ctx, struct snic_dma *d, enum snic_dma_death cause);
    void *ctx;
};

struct snic_dma_stats {
    uint64_t submitted;
    uint64_t completed;
    uint64_t errors;
    uint64_t reads; /**< operations, not batches */
    uint64_t writes;
    uint64_t atomics;
    uint64_t read_bytes;
    uint64_t write_bytes;
    uint64_t doorbells_sent;
    uint64_t doorbells_received;
    uint64_t messages_sent;
    uint64_t messages_received;
    uint64_t queue_high;
};

struct snic_dma_ops {
    uint32_t ops_size;
    uint32_t reserved;
    const char *name;
    int (*alloc)(struct snic_dma *d, size_t size, void **out);
    void (*release)(struct snic_dma *d, void *mem);
    int (*register_)(struct snic_dma *d, void *mem, size_t size, uint32_t rights, uint64_t *key);
    void (*unregister)(struct snic_dma *d, uint64_t key);
    int (*map)(struct snic_dma *d, uint64_t key, uint64_t offset, size_t size, void **out);
    int (*submit)(struct snic_dma *d, struct snic_dma_batch **b, uint32_t n);
    int (*send)(struct snic_dma *d, const void *msg, uint32_t size);
    int (*ring)(struct snic_dma *d, uint32_t id);
    void (*close)(struct snic_dma *d);
    void (*unmap)(struct snic_dma *d, void *mem); /**< may be NULL: nothing to do       */
};

/** Every backend's handle begins with this; read-only for users. */
struct snic_dma {
    const struct snic_dma_ops *ops;
    struct snic_loop *loop;
    struct snic_dma_events events;
    uint32_t caps;
    uint32_t max_inline; /**< bytes of a write that cost no separate fetch */
    int dead;            /**< the peer's death was reported                */
    struct snic_dma_stats stats;
};

/**
 * Page-aligned, zeroed memory that can be exported to the peer; the handle's, lent until
 * snic_dma_release() or until the handle closes. [owner]
 * @return 0; SNIC_EINVAL size 0; SNIC_ENOMEM
 */
static inline int snic_dma_alloc(struct snic_dma *d, size_t size, void **out)
{
    return d->ops->alloc(d, size, out);
}
/** Give memory from snic_dma_alloc() back; its keys must be unregistered. [owner] */
static inline void snic_dma_release(struct snic_dma *d, void *mem)
{
    d->ops->release(d, mem);
}
/**
 * Let the peer use [mem, mem + size), which lies in memory from
 * snic_dma_alloc(). The key is valid on this link only. [owner]
 * @return 0; SNIC_EINVAL size 0, no right or an unknown one; SNIC_EFAULT not all of it from one
 *         snic_dma_alloc(); SNIC_ENOMEM no key left, or (shm) too many messages wait for the peer
 */
static inline int snic_dma_register(struct snic_dma *d, void *mem, size_t size, uint32_t rights,
                                    uint64_t *key)
{
    return d->ops->register_(d, mem, size, rights, key);
}
/** The key is refused from now on (mapped pointers stay valid until close). [owner] */
static inline void snic_dma_unregister(struct snic_dma *d, uint64_t key)
{
    d->ops->unregister(d, key);
}
/**
 * A pointer to the peer's memory; valid until unmapped or until this handle
 * closes, also after the peer's death (the bytes then rest). The region must
 * grant both READ and WRITE. Its content is hostile. [owner]
 * @return 0; SNIC_ENOTSUP no SNIC_DMA_CAP_MAPPED; SNIC_EFAULT no such key, outside its region, or
 *         its rights do not suffice
 */
static inline int snic_dma_map(struct snic_dma *d, uint64_t key, uint64_t offset, size_t size,
                               void **out)
{
    return d->ops->map(d, key, offset, size, out);
}
/** Give back a pointer from snic_dma_map(): one call per map. [owner] */
static inline void snic_dma_unmap(struct snic_dma *d, void *mem)
{
    if (d->ops->ops_size >= sizeof(struct snic_dma_ops) && d->ops->unmap != NULL)
        d->ops->unmap(d, mem);
}
/**
 * Hand over up to @p n batches. An operation's errors complete its batch: SNIC_EFAULT key, range or
 * right; SNIC_ENOTSUP an atomic without the capability; SNIC_EINVAL kind or flags, or an atomic
 * that is not 8 aligned bytes; SNIC_EPEERDEAD the peer died before it was done. [owner]
 * @return batches accepted; 0 full: come back after a completion; SNIC_EPEERDEAD the link has ended
 */
static inline int snic_dma_submit(struct snic_dma *d, struct snic_dma_batch **b, uint32_t n)
{
    return d->ops->submit(d, b, n);
}
/**
 * Send a control message (copied); never lost while the peer lives. [owner]
 * @return 1; 0 full, come back later; SNIC_EMSGSIZE @p size is 0 or above SNIC_DMA_MSG_MAX;
 *         SNIC_EPEERDEAD the link has ended
 */
static inline int snic_dma_send(struct snic_dma *d, const void *msg, uint32_t size)
{
    return d->ops->send(d, msg, size);
}
/**
 * Ring the peer's doorbell @p id: coalesced, never lost. What this thread
 * wrote to shared memory before is visible to the peer's handler. [any]
 * @return 0; SNIC_EINVAL @p id not below SNIC_DMA_DOORBELLS; SNIC_EPEERDEAD the link has ended
 */
static inline int snic_dma_ring(struct snic_dma *d, uint32_t id)
{
    return d->ops->ring(d, id);
}
/** Complete what is in flight, notify the peer (death CLOSED), free. [owner] */
static inline void snic_dma_close(struct snic_dma *d)
{
    if (d != NULL)
        d->ops->close(d);
}

/* ---- local: two roles that are threads of one process; MAPPED, ATOMIC, ORDERED_READ ---- */

/**
 * Both ends at once, each for its own loop; @p host and @p dpu may live on two
 * threads, and either may close first. Call before the loops run, or with both
 * stopped. The events are copied. [owner] of both loops.
 * @return 0; SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_dma_local_open(struct snic_dma **host, struct snic_loop *host_loop,
                                                const struct snic_dma_events *host_events,
                                                struct snic_dma **dpu, struct snic_loop *dpu_loop,
                                                const struct snic_dma_events *dpu_events)
    SNIC_NONNULL(1, 2, 3, 4, 5, 6);

/* ---- shm: two processes; memfd regions over a UNIX socket; io_uring loops only ----
 *
 * MAPPED, ATOMIC, ORDERED_READ. The peer is hostile: its memory is mapped only if it is
 * sealed against shrinking, so that no access can fault; a peer that talks nonsense loses the
 * link at once (operations answer SNIC_EPEERDEAD), but its death is reported only when its
 * process has ended (EXIT, by pidfd) or when it closed in order (CLOSED): until then it
 * could still write. Rights are kept by the peer's library, not by the kernel. What was queued
 * for a peer that does not read is lost at close; the memory of a closed handle is freed in a
 * later iteration, or when the loop closes.
 */

struct snic_dma_listener;

/** A peer connected: set d->events to take the link, or snic_dma_close(d) to refuse it. */
typedef void (*snic_dma_accept_fn)(void *ctx, struct snic_dma *d, uint32_t peer_pid);

struct snic_dma_shm_opts {
    uint32_t opts_size;
    uint32_t timeout_ms; /**< connect: give up after this; default 5000                      */
    const char *path;    /**< of the UNIX socket                                             */
    uint64_t size_max;   /**< most region bytes taken from a peer; default 4 GiB             */
    uint64_t tag;        /**< what both ends have to agree on, as a number; 0: does not matter */
};

/**
 * Wait for peers on a UNIX socket (a stale socket file is replaced, also that of
 * a process that has ended though the kernel still accepts for it; a live one is
 * not). In @p accept, which runs on the loop, set d->events. @p o is copied. [owner]
 * @return 0; SNIC_EINVAL an option, or the path's directory is not there; SNIC_EADDRINUSE a live
 *         listener or another file at the path; SNIC_EACCES no permission, or a read-only file
 *         system; SNIC_ENOTSUP not an io_uring loop; SNIC_ENOMEM memory or a file descriptor
 */
SNIC_API SNIC_NODISCARD int snic_dma_shm_listen(struct snic_dma_listener **out, struct snic_loop *l,
                                                const struct snic_dma_shm_opts *o,
                                                snic_dma_accept_fn accept, void *ctx)
    SNIC_NONNULL(1, 2, 3, 4);
/** Stop listening and remove the socket file; links live on. [owner] */
SNIC_API void snic_dma_shm_unlisten(struct snic_dma_listener *s);
/**
 * Connect to a listener. Blocks, at most timeout_ms. @p o is borrowed for the call, @p events is
 * copied. [owner]
 * @return 0; SNIC_EINVAL an option, or a path that cannot be connected to; SNIC_ECONNREFUSED no
 *         listener (yet), or it refused or ended; SNIC_ETIMEDOUT no answer within timeout_ms;
 *         SNIC_EPERM the listener has another tag; SNIC_EVERSION it speaks another version;
 *         SNIC_EPROTO another kind of socket, or a malformed answer; SNIC_EACCES no permission for
 *         the path; SNIC_ENOTSUP not an io_uring loop, or a kernel without pidfds; SNIC_ENOMEM
 *         memory or a file descriptor; SNIC_EIO the socket failed
 */
SNIC_API SNIC_NODISCARD int snic_dma_shm_connect(struct snic_dma **out, struct snic_loop *l,
                                                 const struct snic_dma_shm_opts *o,
                                                 const struct snic_dma_events *events)
    SNIC_NONNULL(1, 2, 3, 4);

/* ---- sim: two nodes of one world; unmapped, counting, reordering ---- */

struct snic_dma_sim_opts {
    uint32_t opts_size;
    uint32_t caps;         /**< any of ORDERED_READ, ATOMIC; MAPPED is refused             */
    uint64_t delay_min_ns; /**< per operation; default 500                                 */
    uint64_t delay_max_ns; /**< default 2000                                               */
    uint32_t chunk;        /**< bytes fetched or written at once, so that reads see other
                                chunks change in between; power of two >= 8; default 64    */
    uint32_t depth;        /**< batches in flight per end; default 256                     */
    uint64_t bytes_per_us; /**< of the link, both ends together: 6250 is 6.25 GB/s. Default 0:
                                bytes take no time beside the delays                       */
};

/**
 * Both ends at once, for two nodes of one world. The events are copied. [owner]
 * @return 0; SNIC_EINVAL an option, or not two loops of one world; SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_dma_sim_open(struct snic_dma **host, struct snic_loop *host_loop,
                                              const struct snic_dma_events *host_events,
                                              struct snic_dma **dpu, struct snic_loop *dpu_loop,
                                              const struct snic_dma_events *dpu_events,
                                              const struct snic_dma_sim_opts *o)
    SNIC_NONNULL(1, 2, 3, 4, 5, 6);
/** Kill the process at this end: its operations in flight stop anywhere, the
 *  peer gets death EXIT, and @p d only accepts close. [owner] */
SNIC_API void snic_dma_sim_kill(struct snic_dma *d) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_DMA_H */
