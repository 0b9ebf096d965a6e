/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/fusedev.h
 * A file system served over /dev/fuse, by the thread of a loop.
 *
 * Depends on  snicstore/base.h, loop.h, fuse.h; Linux, and an io_uring loop.
 * Memory      The caller supplies all of it: for each request in flight a buffer of max_write and
 *             two pages. Data of WRITE begin a page of it; nothing is copied but by the kernel.
 * Threads     [loop] the thread of the loop.
 * Progress    Nothing waits but the loop: the device is read and written without waiting.
 * Errors      0 on success, a negative SNIC_E* otherwise.
 * Units       bytes.
 * Input       Hostile: requests are checked by snic_fuse_parse(); those refused are answered here.
 *
 * INIT, DESTROY and INTERRUPT are handled here; all other requests go to the server's functions. A
 * request is the server's from ops->request() on until it replies, once, from there or later.
 * Where all requests that memory was supplied for are in flight, the device is not read until one
 * of them has its reply: requests must not wait for others. Those for a lock (SETLKW) may: half of
 * calls_max at a time reach the server, and one more gets ENOLCK.
 *
 * A thread that looks for requests itself, busily or between other work, sets SNIC_FUSEDEV_POLLED:
 * then the device is read by snic_fusedev_poll() alone, and snic_fusedev_arm() has the loop wake
 * when there is something to read.
 */
#ifndef SNIC_FUSEDEV_H
#define SNIC_FUSEDEV_H

#include "snicstore/base.h"
#include "snicstore/fuse.h"
#include "snicstore/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_fusedev;

/** A request of the kernel. */
struct snic_fusedev_call {
    struct snic_fuse_request request; /**< names and data are valid until the reply            */
    struct snic_fusedev *dev;
    void *ctx;            /**< the server's; NULL at first                                     */
    uint32_t place;       /**< number of the request, less than calls_max                       */
    uint32_t interrupted; /**< an INTERRUPT has named it                                       */
};

struct snic_fusedev_ops {
    uint32_t ops_size; /**< sizeof(struct snic_fusedev_ops)                                   */
    uint32_t reserved; /**< 0                                                                 */
    /** A request; it may be interrupted already. */
    void (*request)(void *ctx, struct snic_fusedev_call *c);
    /** The kernel has forgotten @p nlookup lookups of the node. May be NULL. */
    void (*forget)(void *ctx, uint64_t nodeid, uint64_t nlookup);
    /** An INTERRUPT for a request that has no reply yet. May be NULL. */
    void (*interrupt)(void *ctx, struct snic_fusedev_call *c);
    /** Once: 0 unmounted, or stopped; a SNIC_E* the device failed. No request follows. */
    void (*closed)(void *ctx, int result);
};

struct snic_fusedev_opts {
    uint32_t opts_size; /**< sizeof(struct snic_fusedev_opts)                                 */
    uint32_t calls_max; /**< requests in flight, 1 to SNIC_FUSEDEV_CALLS_MAX; 0: 64            */
    struct snic_loop *loop;
    const struct snic_fusedev_ops *ops; /**< copied                                           */
    void *ctx;
    int fd;         /**< snic_fusedev_mount()'s; stays the caller's                            */
    uint32_t flags; /**< SNIC_FUSEDEV_POLLED, or 0                                            */
    uint64_t seed;  /**< of the table of requests                                             */
    struct snic_fuse_offer offer; /**< page_bytes 0: this system's; without OVER_IO_URING     */
};

#define SNIC_FUSEDEV_POLLED 1U /**< the device is read by snic_fusedev_poll() alone             */
#define SNIC_FUSEDEV_ALIGN 4096
#define SNIC_FUSEDEV_CALLS_MAX 65536U
#define SNIC_FUSEDEV_PIECES_MAX 64U /**< of a reply's data                                     */

/**
 * Mount at the directory @p dir, as root: "default_permissions" and "allow_other" are set, and
 * @p options, if not NULL, added. @p name is the type behind "fuse." and the source in mount's
 * list. Blocks for a moment. [any]
 * @return 0: *@p fd, to be closed by the caller; SNIC_EINVAL a name or options that are too long or
 *         have bytes that mount(2) would take for others; else what open() or mount() failed with,
 *         SNIC_EPERM and SNIC_EACCES: not root, or no access to /dev/fuse
 */
SNIC_API SNIC_NODISCARD int snic_fusedev_mount(const char *dir, const char *name,
                                               const char *options, int *fd) SNIC_NONNULL(1, 2, 4);
/** Unmount @p dir, as root, also with files open (lazily). @return 0, or what umount2() failed with
 * [any] */
SNIC_API SNIC_NODISCARD int snic_fusedev_unmount(const char *dir) SNIC_NONNULL(1);

/** Bytes that snic_fusedev_init() needs; 0: bad options. [any] */
SNIC_API size_t snic_fusedev_memsize(const struct snic_fusedev_opts *o) SNIC_NONNULL(1);
/**
 * Serve the descriptor, in @p mem, aligned to SNIC_FUSEDEV_ALIGN, which stays the caller's. [loop]
 * @return 0; SNIC_EINVAL bad options or alignment; SNIC_ENOSPC @p mem_size is too small;
 *         SNIC_ENOTSUP a simulated loop; SNIC_EAGAIN the loop's queue is full: try again later
 */
SNIC_API SNIC_NODISCARD int snic_fusedev_init(struct snic_fusedev **out, void *mem, size_t mem_size,
                                              const struct snic_fusedev_opts *o)
    SNIC_NONNULL(1, 2, 4);
/** Return the memory. After ops->closed(), and when each request has its reply: asserted. [loop] */
SNIC_API void *snic_fusedev_fini(struct snic_fusedev *d) SNIC_NONNULL(1);
/**
 * Read one request, if there is one, with SNIC_FUSEDEV_POLLED. [loop]
 * @return its bytes, or 1 where it has vanished: there may be more; 0: none, or the memory of
 *         another one is needed first; SNIC_ENOTCONN the device has ended: see ops->closed()
 */
SNIC_API int snic_fusedev_poll(struct snic_fusedev *d) SNIC_NONNULL(1);
/** Have the loop wake once, when there is a request, with SNIC_FUSEDEV_POLLED. @return 0;
 * SNIC_EAGAIN the loop's queue is full: try again after it has run [loop] */
SNIC_API SNIC_NODISCARD int snic_fusedev_arm(struct snic_fusedev *d) SNIC_NONNULL(1);
/** Read no more: ops->closed() follows, with 0, from here or by the loop. Requests in flight are
 * still replied to. Harmless when the device has ended. [loop] */
SNIC_API void snic_fusedev_stop(struct snic_fusedev *d) SNIC_NONNULL(1);
/** What INIT has negotiated; minor 0: not yet. [loop] */
SNIC_API const struct snic_fuse_conn *snic_fusedev_conn(const struct snic_fusedev *d)
    SNIC_NONNULL(1);
/** Requests without a reply. [loop] */
SNIC_API uint32_t snic_fusedev_calls(const struct snic_fusedev *d) SNIC_NONNULL(1);

/**
 * Reply with @p a, as snic_fuse_answer_begin() or _error() and the caller have filled it. The
 * request is the server's no more, whatever the result. [loop]
 * @return 0; SNIC_ENOENT the kernel has abandoned the request, as it does with all of them when it
 *         is unmounted: what it opened or looked up is not known to it; SNIC_ENOTCONN unmounted;
 *         SNIC_EINVAL the kernel refuses the reply: its caller gets EIO
 */
SNIC_API int snic_fusedev_reply(struct snic_fusedev_call *c, const struct snic_fuse_answer *a)
    SNIC_NONNULL(1, 2);
/** Reply that it failed, with a SNIC_E*, or 0. @return as snic_fusedev_reply() [loop] */
SNIC_API int snic_fusedev_reply_error(struct snic_fusedev_call *c, int64_t result) SNIC_NONNULL(1);
/** Reply with data; if those are not valid (more pieces than SNIC_FUSEDEV_PIECES_MAX, or too long)
 * the kernel gets EIO. @return as snic_fusedev_reply(), or SNIC_E2BIG, SNIC_EMSGSIZE [loop] */
SNIC_API int snic_fusedev_reply_data(struct snic_fusedev_call *c, const struct snic_iov *data,
                                     uint32_t count) SNIC_NONNULL(1);
/**
 * Send a notification: @p count pieces, or, if 0, @p a alone. It can wait for locks of the kernel
 * that a request in flight holds: not to be sent while one for the same inode or directory is.
 * [loop]
 * @return 0; SNIC_ENOENT the kernel does not know the inode or name; SNIC_ENOTCONN unmounted;
 *         another SNIC_E*: refused
 */
SNIC_API int snic_fusedev_notify(struct snic_fusedev *d, const struct snic_fuse_answer *a,
                                 const struct snic_iov *iov, uint32_t count) SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_FUSEDEV_H */
