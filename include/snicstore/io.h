/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/io.h
 * The door to storage: one handle is one file or block device.
 *
 * Depends on  snicstore/base.h, snicstore/loop.h, snicstore/ssd.h.
 * Memory      Backends allocate at open. Requests are the caller's, borrowed
 *             from accepted submit until `done`; so is the memory they name.
 * Threads     All calls on the owner thread of the handle's loop.
 * Progress    No call blocks, except open (it may create and size a file).
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes; alignments are in geometry.
 *
 * Requests are unordered among each other. A FLUSH makes every WRITE, ZERO and
 * DISCARD that *completed* before the flush was submitted survive power loss;
 * FUA does so for one write. Short transfers are reported, not hidden. Every
 * accepted request completes exactly once, from the loop, never inside submit;
 * also after cancel and close. Services that wrap a device (qos.h)
 * implement the same ops and chain `done`.
 *
 * A handle accepts depth_max requests at a time: the device gets as many as it takes, the rest is
 * the handle's backlog. A user whose requests were not all accepted calls snic_io_wait() and is
 * called when there is room; no user needs to poll.
 *
 * A read; its `done` comes from the loop:
 *
 *     struct snic_io_req r, *p = &r;
 *     snic_io_req_init(&r);
 *     r.done = done;
 *     r.op = SNIC_IO_READ;
 *     r.length = 4096;
 *     r.buf.base = block;
 *     r.buf.size = 4096;
 *     int n = snic_io_submit(io, &p, 1);
 */
#ifndef SNIC_IO_H
#define SNIC_IO_H

#include "snicstore/base.h"
#include "snicstore/loop.h"
#include "snicstore/ssd.h"

#ifdef __cplusplus
extern "C" {
#endif

enum snic_io_op {
    SNIC_IO_READ = 1,
    SNIC_IO_WRITE = 2,
    SNIC_IO_FLUSH = 3,  /**< whole device (length 0) or at least [offset, offset+length) */
    SNIC_IO_ZERO = 4,   /**< reads as zeros afterwards; needs capability ZERO            */
    SNIC_IO_DISCARD = 5 /**< content undefined afterwards; needs capability DISCARD      */
};

/** Request flag, WRITE only: complete when it survives power loss. */
#define SNIC_IO_FUA (1u << 0)

/** Capabilities, fixed at open. */
#define SNIC_IO_CAP_REGISTERED (1u << 0) /**< requests may name a region (fixed buffers)  */
#define SNIC_IO_CAP_DIRECT (1u << 1)     /**< O_DIRECT: alignment applies, no page cache  */
#define SNIC_IO_CAP_FUA (1u << 2)
#define SNIC_IO_CAP_DISCARD (1u << 3)
#define SNIC_IO_CAP_ZERO (1u << 4)
#define SNIC_IO_CAP_BLOCKDEV (1u << 5) /**< a block device rather than a file            */
#define SNIC_IO_CAP_READONLY (1u << 6) /**< everything but READ and FLUSH is refused      */

/** Most pieces of a scatter or gather list. */
#define SNIC_IO_IOV_MAX 64

struct snic_io_req;
typedef void (*snic_io_done_fn)(struct snic_io_req *req);

/**
 * snic_io_req_init(), fill the first part, submit; embed it and use SNIC_CONTAINER in done.
 * Zeros alone will not do: 0 names the first registered region, none is SNIC_NO_REGION. A READ
 * or WRITE whose memory is not there ends with SNIC_EFAULT (io_uring), or with SNIC_ENOTSUP
 * where SNIC_IO_CAP_REGISTERED is missing.
 */
struct snic_io_req {
    struct snic_node node; /**< the door's while the request is borrowed                  */
    snic_io_done_fn done;
    uint8_t op;           /**< enum snic_io_op                                           */
    uint8_t priority;     /**< 0 normal; 1..7 more urgent; carried; counts behind qos.h  */
    uint16_t flags;       /**< SNIC_IO_FUA                                               */
    uint32_t tenant;      /**< carried; counts behind qos.h                              */
    uint64_t offset;      /**< multiple of geometry.offset_align                         */
    uint64_t length;      /**< sum of the pieces for READ and WRITE                      */
    struct snic_iov buf;  /**< the one piece, when iov is NULL                           */
    struct snic_iov *iov; /**< pieces, borrowed until done, or NULL                      */
    uint32_t iov_count;   /**< 0 when iov is NULL, else 1..SNIC_IO_IOV_MAX               */
    int32_t region;       /**< registered region that holds all pieces, or SNIC_NO_REGION */
    /* -- results -- */
    int64_t result;      /**< bytes done (0 for FLUSH), or SNIC_E*                      */
    int32_t os_error;    /**< raw code of the backend, 0 if none                        */
    uint32_t credit;     /**< behind qos.h: credits granted with this completion; else 0 */
    uint64_t queued_ns;  /**< accepted                                                  */
    uint64_t device_ns;  /**< sent to the device                                        */
    uint64_t done_ns;    /**< completed                                                 */
    uint64_t backend[6]; /**< the backend's while borrowed                              */
};

/** Zeros, and no region. Not while the request is borrowed. [any] */
static inline void snic_io_req_init(struct snic_io_req *req)
{
    memset(req, 0, sizeof(*req));
    req->region = SNIC_NO_REGION;
}

struct snic_io_geometry {
    uint64_t size;         /**< bytes; the handle's owner may change it with the device's  */
    uint32_t block;        /**< logical block, power of two >= 1                        */
    uint32_t memory_align; /**< of piece addresses                                      */
    uint32_t offset_align; /**< of offsets                                              */
    uint32_t length_align; /**< of lengths, also of each piece                          */
    uint32_t transfer_max; /**< bytes in one READ or WRITE                              */
    uint32_t atomic_write; /**< aligned writes up to this size are not torn by power loss */
};

struct snic_io_stats {
    uint64_t submitted;
    uint64_t completed;
    uint64_t errors;
    uint64_t read_bytes;
    uint64_t write_bytes;
    uint64_t flushes;
    uint64_t queue_high; /**< most requests in flight at once */
};

struct snic_io;
struct snic_io_waiter;
/** There is room, or the device is gone: submit now. */
typedef void (*snic_io_writable_fn)(struct snic_io_waiter *w);

/** A user's place in the queue for room: snic_io_waiter_init(), then snic_io_wait(). */
struct snic_io_waiter {
    struct snic_link link; /**< the door's while it waits */
    snic_io_writable_fn writable;
};

/** Not while it waits. [any] */
static inline void snic_io_waiter_init(struct snic_io_waiter *w, snic_io_writable_fn writable)
{
    snic_link_init(&w->link);
    w->writable = writable;
}

struct snic_io_ops {
    uint32_t ops_size;
    uint32_t reserved;
    const char *name;
    /** As snic_io_submit(). */
    int (*submit)(struct snic_io *io, struct snic_io_req **reqs, uint32_t n);
    /** Best effort; the request completes all the same. */
    void (*cancel)(struct snic_io *io, struct snic_io_req *req);
    /** As snic_io_close(). */
    void (*close)(struct snic_io *io);
    /** As snic_io_wait(): a device calls snic_io_room_wait(), a wrapper without a queue of its own
     *  the wrapped handle's. */
    void (*wait)(struct snic_io *io, struct snic_io_waiter *w);
};

/** Every backend's handle begins with this; read-only for users. */
struct snic_io {
    const struct snic_io_ops *ops;
    struct snic_loop *loop;
    struct snic_io_geometry geometry;
    uint32_t caps;
    uint32_t depth_max; /**< requests it accepts: those at the device and the backlog */
    struct snic_io_stats stats;
};

/**
 * Validate a request against geometry and capabilities; backends call it first.
 * READ, WRITE, ZERO and DISCARD need length > 0; ZERO and DISCARD need offset and
 * length in multiples of geometry.block; FLUSH ignores alignment and buffers.
 * @return 0; SNIC_EINVAL op, flags, length, alignment, pieces; SNIC_ENOTSUP
 *         capability; SNIC_EPERM a change on a READONLY handle; SNIC_EFAULT the
 *         region is not registered or does not hold all pieces; SNIC_ERANGE
 *         beyond size; SNIC_EMSGSIZE READ or WRITE over transfer_max [any]
 */
SNIC_API SNIC_NODISCARD int snic_io_validate(const struct snic_io *io,
                                             const struct snic_io_req *req) SNIC_NONNULL(1, 2);
/**
 * Hand over up to @p n requests, in order. An invalid request is accepted and
 * completes with snic_io_validate()'s error, so that every error takes one path.
 * @return requests accepted; fewer than @p n: full, or others wait for room and this is not the
 *         caller's `writable`: snic_io_wait(); SNIC_EIO or SNIC_ECANCELED the device is gone
 *         [owner]
 */
static inline int snic_io_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    return io->ops->submit(io, reqs, n);
}
/**
 * After a submit that accepted fewer requests than offered: call w->writable once, when submit
 * accepts a request again or reports that the device is gone. From the loop, never inside a call to
 * the door: for the first user that waits at the latest in the loop iteration after the completion
 * that made room, for the others in an iteration each. Also when there is room already. A handle
 * that closes calls all that still wait.
 *
 * Users of one handle are served in the order in which they began to wait, each once before any is
 * served again. While one waits, submit accepts requests inside a `writable` only, so a user that
 * submits in each `done` cannot starve the others. Inside its `writable` a user submits as much as
 * it has and may wait again; if it submits nothing, the next user is served.
 *
 * Borrowed until `writable`, snic_io_unwait() or close. A waiter that waits already keeps its
 * place. [owner]
 */
static inline void snic_io_wait(struct snic_io *io, struct snic_io_waiter *w)
{
    io->ops->wait(io, w);
}
/** Leave the queue: `writable` is not called. Harmless when not waiting. [owner] */
static inline void snic_io_unwait(struct snic_io_waiter *w)
{
    snic_link_remove(&w->link);
}
/** 1 from snic_io_wait() until `writable` or snic_io_unwait(), else 0. [owner] */
static inline int snic_io_waits(const struct snic_io_waiter *w)
{
    return !snic_link_alone(&w->link);
}
/** Ask for @p req to end early; it completes with its result or SNIC_ECANCELED. [owner] */
static inline void snic_io_cancel(struct snic_io *io, struct snic_io_req *req)
{
    io->ops->cancel(io, req);
}
/**
 * Refuse new requests, run the loop until all accepted ones have completed
 * (their done is called), free the handle. Not from inside a done or a `writable`. [owner]
 */
static inline void snic_io_close(struct snic_io *io)
{
    if (io != NULL)
        io->ops->close(io);
}

/* ---- For backends: the queue of users that wait ---- */

struct snic_io_room;
/** 1 if a request's place is free. */
typedef int (*snic_io_room_ready_fn)(const struct snic_io_room *r);

/** One per handle, in the struct of the backend, which uses it by the functions below only. */
struct snic_io_room {
    struct snic_io *io;
    snic_io_room_ready_fn ready;
    struct snic_link waiters; /**< in the order of snic_io_wait() */
    struct snic_loop_msg message;
    uint8_t message_on;
    uint8_t serving; /**< inside a `writable` */
};
/** @p io has its loop. [owner] */
SNIC_API void snic_io_room_init(struct snic_io_room *r, struct snic_io *io,
                                snic_io_room_ready_fn ready) SNIC_NONNULL(1, 2, 3);
/** What `wait` of the ops does. [owner] */
SNIC_API void snic_io_room_wait(struct snic_io_room *r, struct snic_io_waiter *w)
    SNIC_NONNULL(1, 2);
/**
 * Call it when a request's place is free again, before its done. A handle that closes or has lost
 * its device completes its requests, so those that wait are called. [owner]
 */
SNIC_API void snic_io_room_freed(struct snic_io_room *r) SNIC_NONNULL(1);
/** 1: submit returns 0 although there may be a place, as others wait for it; else 0. [owner] */
static inline int snic_io_room_taken(const struct snic_io_room *r)
{
    return !r->serving && !snic_link_alone(&r->waiters);
}
/** 1: no user waits and no event is under way, else 0; close runs the loop until 1. [owner] */
static inline int snic_io_room_idle(const struct snic_io_room *r)
{
    return !r->message_on && snic_link_alone(&r->waiters);
}

/* ---- uring: a file or block device ---- */

#define SNIC_IO_OPEN_CREATE (1u << 0) /**< create when missing; size is then needed     */
#define SNIC_IO_OPEN_DIRECT (1u << 1) /**< O_DIRECT; refused with SNIC_ENOTSUP if not possible */
#define SNIC_IO_OPEN_TRY_DIRECT (1u << 2) /**< O_DIRECT where possible                     */
#define SNIC_IO_OPEN_READONLY (1u << 3)
/**
 * An exclusive lock for as long as it is open; SNIC_EBUSY if another has it. When its holder
 * crashed, the kernel may keep the lock a moment longer, until the requests in flight are
 * over: a program that starts again tries for some seconds.
 */
#define SNIC_IO_OPEN_LOCK (1u << 4)

struct snic_io_uring_opts {
    uint32_t opts_size;
    uint32_t flags;   /**< SNIC_IO_OPEN_*                                               */
    const char *path; /**< regular file or block device; borrowed for the call           */
    uint64_t size;    /**< CREATE: size of a new file; an existing one keeps its size, and
                           is grown if smaller. 0: as it is                              */
    uint32_t depth;   /**< most requests in flight, 1..32768; default 1024               */
    uint32_t reserved;
};

/**
 * Open on an io_uring loop. @p os_error (may be NULL) gets the raw code. @p o is borrowed for the
 * call. [owner]
 * @return 0; SNIC_EINVAL options, a path too long or with too many symbolic links; SNIC_ENOENT
 *         nothing at the path, and no CREATE; SNIC_EACCES no permission, or a read-only file
 *         system; SNIC_EBUSY locked by another process, or a running program; SNIC_ENOSPC no space
 *         for `size`, a quota or the largest file; SNIC_ENOTSUP neither file nor block device, no
 *         O_DIRECT, or not an io_uring loop; SNIC_ENOMEM memory or a file descriptor; SNIC_EIO or
 *         another error of the device
 */
SNIC_API SNIC_NODISCARD int snic_io_uring_open(struct snic_io **out, struct snic_loop *l,
                                               const struct snic_io_uring_opts *o, int *os_error)
    SNIC_NONNULL(1, 2, 3);

/* ---- mem: a deterministic disk with fault plans, on any loop ---- */

/**
 * The medium. It outlives the handles opened on it: a power cut kills the
 * handle, and the next open sees what survived. Two images: what reads see, and
 * what is durable; each write marks its sectors un-synced until a flush.
 */
struct snic_disk;

/** A field that is 0 takes its default. */
struct snic_disk_opts {
    uint32_t opts_size;
    uint32_t sector;       /**< power of two 512..65536; default 4096; the unit of tearing */
    uint64_t size;         /**< bytes, multiple of sector                                  */
    uint64_t seed;         /**< delays, completion order, surviving subsets                */
    uint64_t delay_min_ns; /**< each request takes a time in [min, max]; default 0, 0      */
    uint64_t delay_max_ns;
    uint32_t depth;        /**< default 1024                                               */
    uint32_t caps;         /**< SNIC_IO_CAP_* to offer; default FUA|DISCARD|ZERO           */
    uint32_t align;        /**< required alignment of memory, offset, length; default 1    */
    uint32_t transfer_max; /**< default 1 GiB                                              */
};

enum snic_fault_kind {
    SNIC_FAULT_ERROR = 1, /**< complete with `error`, nothing transferred                  */
    SNIC_FAULT_SHORT = 2, /**< transfer `bytes` only                                       */
    SNIC_FAULT_DELAY = 3, /**< complete `delay_ns` later                                   */
    SNIC_FAULT_TORN = 4,  /**< power cut during this write: its first `bytes` (rounded down
                               to sectors) reach the medium, then as POWER                 */
    SNIC_FAULT_POWER = 5, /**< power cut before this operation: a subset of the un-synced
                               sectors survives, chosen by `seed`; the handle dies         */
    SNIC_FAULT_LOST = 6   /**< FLUSH, WRITE with FUA: complete with `error`, and what the
                               operation covers does not become durable, nor by a later
                               flush, until it is written again. See snic_fault            */
};
/** SNIC_FAULT_POWER and _TORN: keep none or all of the un-synced sectors. */
#define SNIC_FAULT_KEEP_NONE 0
#define SNIC_FAULT_KEEP_ALL UINT64_MAX

/**
 * Operations count when they are accepted, in submission order; the fault strikes
 * when the operation would take effect. Of several that fire on one operation
 * DELAYs add up and of the others the one added first wins. SHORT does not apply
 * to FLUSH, TORN only to WRITE, LOST only to FLUSH and to WRITE with FUA. LOST is what a failed
 * fsync leaves: without SNIC_IO_CAP_DIRECT reads continue to return what was written (the page
 * cache holds it, marked clean) until the power is cut; with it reads return what the device has, a
 * subset chosen by `seed`. In a power cut writes in flight (accepted, not
 * completed) reach the medium sector by sector as `seed` decides: none with
 * KEEP_NONE, all with KEEP_ALL; other operations in flight do not take effect.
 */
struct snic_fault {
    uint32_t kind;   /**< enum snic_fault_kind                                           */
    uint32_t ops;    /**< bit set of 1 << enum snic_io_op it applies to; 0: all          */
    uint64_t after;  /**< fires at the after-th matching operation from now, 1 = next     */
    uint64_t repeat; /**< further firings after that; UINT64_MAX: for ever                */
    uint64_t offset; /**< only operations that touch [offset, offset + length); 0,0: all  */
    uint64_t length;
    int32_t error;
    uint32_t reserved;
    uint64_t bytes;
    uint64_t delay_ns;
    uint64_t seed;
};

/** Make a medium of zeros; @p o is copied. [owner] @return 0; SNIC_EINVAL an option; SNIC_ENOMEM */
SNIC_API SNIC_NODISCARD int snic_disk_open(struct snic_disk **out, const struct snic_disk_opts *o)
    SNIC_NONNULL(1, 2);
/** All handles on it must be closed before. [owner] */
SNIC_API void snic_disk_close(struct snic_disk *d);
/**
 * Add a fault (copied). [owner]
 * @return 0; SNIC_EINVAL kind, ops, after 0, range, reserved, or an `error` that is none;
 *         SNIC_ENOSPC over 64 of them
 */
SNIC_API SNIC_NODISCARD int snic_disk_fault(struct snic_disk *d, const struct snic_fault *f)
    SNIC_NONNULL(1, 2);
/** Forget all faults. [owner] */
SNIC_API void snic_disk_faults_clear(struct snic_disk *d) SNIC_NONNULL(1);
/** Cut the power now: as SNIC_FAULT_POWER. Handles complete everything with SNIC_EIO. [owner] */
SNIC_API void snic_disk_power_cut(struct snic_disk *d, uint64_t seed) SNIC_NONNULL(1);
/**
 * Number of sectors written and not yet durable; their numbers in @p out (up to
 * @p max of them), ascending. [owner]
 */
SNIC_API uint64_t snic_disk_unsynced(const struct snic_disk *d, uint64_t *out, uint64_t max)
    SNIC_NONNULL(1);
/** Cut the power keeping exactly the un-synced sectors listed in @p keep. [owner] */
SNIC_API void snic_disk_power_cut_keep(struct snic_disk *d, const uint64_t *keep, uint64_t n)
    SNIC_NONNULL(1);
/** The bytes reads see, lent until close; for tests that look at or damage the medium. [owner] */
SNIC_API unsigned char *snic_disk_bytes(struct snic_disk *d) SNIC_NONNULL(1);
/** Make everything durable and forget un-synced marks (an orderly shutdown). [owner] */
SNIC_API void snic_disk_sync(struct snic_disk *d) SNIC_NONNULL(1);
/**
 * A copy of the medium with its durability state, for enumerating power cuts;
 * without faults, handles and what is in flight. The cost is that of the sectors
 * ever written. [owner]
 * @return 0; SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_disk_clone(const struct snic_disk *d, struct snic_disk **out)
    SNIC_NONNULL(1, 2);
/**
 * Operations completed on the medium since it was opened, the failed ones
 * included, the refused and the cancelled ones not. [owner]
 */
SNIC_API uint64_t snic_disk_op_count(const struct snic_disk *d) SNIC_NONNULL(1);

/**
 * A handle on @p d, borrowed until it closes; several may be open. [owner]
 * @return 0; SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_io_mem_open(struct snic_io **out, struct snic_loop *l,
                                             struct snic_disk *d) SNIC_NONNULL(1, 2, 3);

/* ---- ssd: the same disk, with the times of an SSD model ---- */

/**
 * A handle on @p d whose READs and WRITEs take the time of an SSD model of its own (ssd.h, options
 * copied). A request goes to the submission queue `tenant % queues`; offset and length are the
 * model's. FLUSH, ZERO and DISCARD take fetch_write_ns + post_write_ns: the device's buffer is
 * safe from power loss. ZERO and DISCARD trim the model's map, if it has one (AGEING). FUA costs
 * nothing beyond the write. The disk's rules stay: it alone decides what survives a power cut, its
 * fault plans apply (a DELAY is added to the model's time), its delays do not. transfer_max is at
 * most the model's length_max; the model's depth is the disk's. A request that is cancelled, or in
 * flight when the power is cut, completes when the model lets go of it. [owner]
 * @return 0; SNIC_EINVAL options of the model, or its length_max is below the disk's align;
 *         SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_io_ssd_open(struct snic_io **out, struct snic_loop *l,
                                             struct snic_disk *d, const struct snic_ssd_opts *ssd)
    SNIC_NONNULL(1, 2, 3, 4);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_IO_H */
