/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/qos.h
 * A storage switch in front of a device: an io handle that shares another io handle among
 * tenants (gimbal.h), so that one who floods it does not hurt the others.
 *
 * Depends on  snicstore/base.h, loop.h, io.h, gimbal.h.
 * Memory      The caller supplies all of it (memsize, open) and has it back when the handle is
 *             closed; nothing is allocated. Requests as in io.h.
 * Threads     The owner thread of the loop, as every io handle.
 * Progress    No call blocks. O(1) work per I/O whatever the number of tenants.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       bytes, nanoseconds, bytes per second.
 *
 * The handle is used as any other (io.h); struct snic_io_req's tenant and priority now count,
 * and credit is filled. What is different from the device alone:
 *
 *   Tenants. A request's 32-bit tenant id names a tenant that was added, or, with
 *     SNIC_QOS_AUTO, one that is added when its first request comes, with the options of the
 *     default tenant. Where the table is full, the automatic tenant that has been idle longest,
 *     for idle_ns at least, makes room. Every other request belongs to the default tenant.
 *   Splitting. A READ or WRITE longer than part_bytes goes to the device in parts of at
 *     most part_bytes, several at a time. A part is a run of whole pieces of the request's
 *     list or a part of one piece, so a list of small pieces may need a few parts more. FUA
 *     and the region hold for each part. A WRITE is not torn by power loss up to
 *     geometry.atomic_write, which is at most part_bytes.
 *   Results. The part with the lowest offset that was not transferred whole decides: its error,
 *     or, if it was short, the bytes up to there. Parts behind it may have been transferred,
 *     too. A cancelled request whose first parts were done reports these as a short transfer.
 *   FLUSH passes the queues: it reaches the device when it is submitted, or as soon as that has
 *     room, and so covers what completed before. It has no cost and carries no credit, but it is
 *     one of its tenant's requests (Limits).
 *   Cost. A READ or WRITE counts by its bytes, but at least as 4 KiB.
 *   ZERO is split and costs as a WRITE: many devices and all files without such a command write
 *     the zeros. DISCARD is not split and costs a write of its length, at most part_bytes: no
 *     bytes move. Their time on the device is not measured as a write's.
 *   Priority 0..7; larger ones count as 7. Small reads of priority SNIC_GIMBAL_EXPRESS or above
 *     take the express lane (gimbal.h). Reads and writes of one tenant may pass each other.
 *   Times. queued_ns: accepted; device_ns: the first part was sent; done_ns: the last returned.
 *   Credit. How many requests like this one the tenant may have under way, at least 1; 0 for
 *     FLUSH and for what was refused or cancelled before the device saw it.
 *   Limits. `depth` requests in all: beyond that submit takes none (io.h). A tenant may have
 *     tenant_depth of them; what it submits beyond ends with SNIC_EBUSY. Where that is 0 a tenant
 *     that is alone may have all; beside others as many as are free, so that however many a
 *     tenant submits, at least one request of each other tenant is taken.
 *   Closing waits for what is inside, but for no cap: the tenants' end with it.
 *   Device gone. When the inner handle refuses for good, everything queued ends with that
 *     error from the loop, and submit returns it.
 *
 * Example, with the handle `file` of snic_io_uring_open() or any other, and a request as in io.h:
 *
 *     struct snic_qos_opts o = {.opts_size = sizeof(o)};
 *     struct snic_gimbal_tenant_opts gold = {.opts_size = sizeof(gold), .weight = 4};
 *     struct snic_io *io;
 *     size = snic_qos_memsize(file, &o);
 *     r = snic_qos_open(&io, aligned_alloc(SNIC_QOS_ALIGN, size), size, file, &o);
 *     r = snic_qos_tenant_add(io, 7, &gold);
 *     req.tenant = 7;
 *     n = snic_io_submit(io, &p, 1);   // and so on; at the end
 *     snic_io_close(io);               // closes file, too; then the memory is free
 *
 * The switch knows a device by its latencies: gimbal.h's defaults are those of a data centre's NVMe
 * SSD. With SNIC_GIMBAL_LEARN in the flags of `gimbal` it learns those of the device at hand; keep
 * what it learned (snic_qos_get_learned()) under the device's name, and give it back when that is
 * opened again (snic_qos_profile_set()). By hand, for another device: set thresh_min_ns a little
 * above the latency of one I/O of part_bytes at a time, thresh_max_ns above that of a device at its
 * full rate, write_cost_worst to how many reads of its size a write costs at worst.
 */
#ifndef SNIC_QOS_H
#define SNIC_QOS_H

#include "snicstore/base.h"
#include "snicstore/gimbal.h"
#include "snicstore/io.h"
#include "snicstore/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Alignment of the memory passed to snic_qos_open(), in bytes. */
#define SNIC_QOS_ALIGN SNIC_CACHELINE

/** Flags of struct snic_qos_opts. */
#define SNIC_QOS_AUTO (1u << 0) /**< an unknown id gets a tenant of its own              */
#define SNIC_QOS_WAITS                                                                             \
    (1u << 1) /**< keep a histogram of the waiting times per tenant: 15 KiB each */

/** The id of the default tenant, for set, view and next; requests with it belong there, too. */
#define SNIC_QOS_DEFAULT UINT32_MAX

/** Zero it, set opts_size; a field that is 0 takes its default. */
struct snic_qos_opts {
    uint32_t opts_size;
    uint32_t flags;       /**< SNIC_QOS_*                                                */
    uint32_t tenants_max; /**< beside the default one, 1..SNIC_GIMBAL_TENANTS_MAX - 1; default 64 */
    uint32_t depth;       /**< requests inside, 1..65536; default the inner handle's     */
    uint32_t tenant_depth; /**< of one tenant, 1..depth; default 0: see Limits           */
    uint32_t
        device_depth;    /**< parts on the device at once; default and at most the inner handle's */
    uint32_t parts;      /**< beyond one per request, 1..65536; default 512              */
    uint32_t part_bytes; /**< power of two 4096..8 MiB; default 128 KiB                 */
    uint64_t idle_ns;    /**< see SNIC_QOS_AUTO; default 1 s                            */
    /** The switch, or NULL: defaults; borrowed for the call. What is in its tenants_max, queue_max
     * and size_max does not count: they follow from the fields above. */
    const struct snic_gimbal_opts *gimbal;
    /** The default tenant, or NULL: defaults; borrowed for the call. */
    const struct snic_gimbal_tenant_opts *tenant;
};

/**
 * Which option is wrong, and how: "NAME: what", static; NULL when all are right. NAME is a field of
 * @p o, or of what its gimbal or tenant points to. @p o may be NULL. [any]
 */
SNIC_API const char *snic_qos_opts_wrong(const struct snic_io *inner, const struct snic_qos_opts *o)
    SNIC_NONNULL(1);
/** Bytes that snic_qos_open() needs, or 0 when @p o is invalid; @p o may be NULL. A multiple of
 * SNIC_QOS_ALIGN. [any] */
SNIC_API size_t snic_qos_memsize(const struct snic_io *inner, const struct snic_qos_opts *o)
    SNIC_NONNULL(1);
/**
 * Put a switch in front of @p inner, which this handle owns from now on: nothing else submits to
 * it, and snic_io_close() of this handle closes it. Geometry and capabilities are those of
 * @p inner, but for atomic_write (above). A device whose alignment exceeds part_bytes is
 * refused. [owner]
 * @param[out] out  the handle on success, untouched on failure
 * @param mem       owned until snic_io_close() of the handle has returned
 * @param o         borrowed for the call; may be NULL: defaults
 * @return 0; SNIC_EINVAL options or alignment; SNIC_ENOSPC @p mem_size small. On failure @p inner
 * is still the caller's.
 */
SNIC_API SNIC_NODISCARD int snic_qos_open(struct snic_io **out, void *mem, size_t mem_size,
                                          struct snic_io *inner, const struct snic_qos_opts *o)
    SNIC_NONNULL(1, 2, 4);

/* ---- Tenants. io is a handle of snic_qos_open(), which is asserted ---- */

/**
 * Add the tenant @p id; @p o may be NULL: defaults. One that was added automatically stays and
 * takes @p o. [owner]
 * @return 0; SNIC_EINVAL options or SNIC_QOS_DEFAULT; SNIC_EEXIST it was added before; SNIC_ENOSPC
 *         tenants_max, and none of the automatic ones is idle
 */
SNIC_API SNIC_NODISCARD int snic_qos_tenant_add(struct snic_io *io, uint32_t id,
                                                const struct snic_gimbal_tenant_opts *o)
    SNIC_NONNULL(1);
/**
 * Change weight, caps, floors, group, priorities at any time, all of them to those of @p o. [owner]
 * @return 0; SNIC_EINVAL option out of range, or no such group; SNIC_ENOENT no such tenant
 */
SNIC_API SNIC_NODISCARD int snic_qos_tenant_set(struct snic_io *io, uint32_t id,
                                                const struct snic_gimbal_tenant_opts *o)
    SNIC_NONNULL(1, 3);
/**
 * Remove it. What it has queued still goes its way; parts of large requests that are not queued
 * yet become the default tenant's. [owner]
 * @return 0; SNIC_ENOENT no such tenant; SNIC_EINVAL SNIC_QOS_DEFAULT
 */
SNIC_API SNIC_NODISCARD int snic_qos_tenant_remove(struct snic_io *io, uint32_t id) SNIC_NONNULL(1);

/* ---- Groups of tenants and floors: gimbal.h. The switch's groups_max (struct snic_qos_opts's
 * gimbal) is how many groups there may be; they are numbered from 1 ---- */

/** Add a group, @p o may be NULL. [owner] @return 0; SNIC_EINVAL; SNIC_EEXIST */
SNIC_API SNIC_NODISCARD int snic_qos_group_add(struct snic_io *io, uint32_t group,
                                               const struct snic_gimbal_tenant_opts *o)
    SNIC_NONNULL(1);
/** Change weight, caps, floors at any time. [owner] @return 0; SNIC_EINVAL; SNIC_ENOENT */
SNIC_API SNIC_NODISCARD int snic_qos_group_set(struct snic_io *io, uint32_t group,
                                               const struct snic_gimbal_tenant_opts *o)
    SNIC_NONNULL(1, 3);
/** Remove one without tenants. [owner] @return 0; SNIC_ENOENT; SNIC_EBUSY it has some, or removed
 * ones have requests inside */
SNIC_API SNIC_NODISCARD int snic_qos_group_remove(struct snic_io *io, uint32_t group)
    SNIC_NONNULL(1);
/** One group, in parts. [owner] @return 0; SNIC_ENOENT no such group */
SNIC_API SNIC_NODISCARD int snic_qos_get_group_view(const struct snic_io *io, uint32_t group,
                                                    struct snic_gimbal_tenant_view *out)
    SNIC_NONNULL(1, 3);

/* ---- Two steps: a write whose data have yet to be fetched ---- */

/** The switch admits the write: fetch its data, then snic_qos_commit(). From the loop. */
typedef void (*snic_qos_granted_fn)(struct snic_io_req *req);
/**
 * Queue a WRITE that is complete apart from the contents of its memory. When the switch admits its
 * first part @p granted is called, once; nothing reaches the device before snic_qos_commit().
 * Meanwhile it occupies slots of its tenant, and no place at the device. snic_io_cancel() ends the
 * reservation, before or after @p granted: done follows, and @p granted does not. Refusals as of
 * submit: done without @p granted. snic_io_close() cancels what is not committed. [owner]
 * @return as snic_io_submit() of one request: 1, 0, SNIC_EIO or SNIC_ECANCELED; SNIC_EINVAL another
 *         operation
 */
SNIC_API SNIC_NODISCARD int snic_qos_reserve(struct snic_io *io, struct snic_io_req *req,
                                             snic_qos_granted_fn granted) SNIC_NONNULL(1, 2, 3);
/**
 * The data of a granted write (asserted), not cancelled since, are in its memory: on to the device.
 * No effect if the device failed meanwhile: done follows with its error. [owner]
 */
SNIC_API void snic_qos_commit(struct snic_io *io, struct snic_io_req *req) SNIC_NONNULL(1, 2);

/* ---- Views: copies, cheap ---- */

struct snic_qos_view {
    struct snic_gimbal_view device; /**< the switch's                                     */
    uint32_t requests;              /**< inside                                           */
    uint32_t automatic;             /**< tenants that were added automatically, now       */
    uint64_t evicted;               /**< such that made room                              */
    uint64_t unknown;               /**< requests that fell to the default tenant         */
    uint64_t busy;                  /**< requests refused with SNIC_EBUSY                 */
    uint64_t parts;                 /**< sent to the device                               */
    uint64_t inner_full;            /**< times that the inner handle took less than offered */
};
/** The switch and all tenants together. [owner] */
SNIC_API void snic_qos_get_view(const struct snic_io *io, struct snic_qos_view *out)
    SNIC_NONNULL(1, 2);

/** snic_gimbal_profile_set() of the switch. [owner] @return 0; SNIC_EINVAL */
SNIC_API SNIC_NODISCARD int snic_qos_profile_set(struct snic_io *io,
                                                 const struct snic_gimbal_profile *p)
    SNIC_NONNULL(1, 2);
/** snic_gimbal_get_learned() of the switch. [owner] */
SNIC_API void snic_qos_get_learned(const struct snic_io *io, struct snic_gimbal_learned *out)
    SNIC_NONNULL(1, 2);

struct snic_qos_tenant_view {
    uint32_t id;       /**< SNIC_QOS_DEFAULT: the default tenant                           */
    uint32_t requests; /**< inside                                                         */
    uint64_t completed;
    uint64_t errors; /**< of these                                                         */
    uint64_t busy;
    uint64_t wait_p50_ns;                  /**< accepted to sent; 0 without SNIC_QOS_WAITS */
    uint64_t wait_p99_ns;                  /**< likewise                                   */
    struct snic_gimbal_tenant_view engine; /**< in parts                                   */
};
/** One tenant. [owner] @return 0; SNIC_ENOENT no such tenant */
SNIC_API SNIC_NODISCARD int snic_qos_get_tenant_view(const struct snic_io *io, uint32_t id,
                                                     struct snic_qos_tenant_view *out)
    SNIC_NONNULL(1, 3);
/**
 * Every tenant in turn, the default one first. Begin with *@p cursor 0. [owner]
 * @return 0 and @p out is filled; SNIC_ENOENT that was all
 */
SNIC_API SNIC_NODISCARD int snic_qos_tenant_next(const struct snic_io *io, uint32_t *cursor,
                                                 struct snic_qos_tenant_view *out)
    SNIC_NONNULL(1, 2, 3);
/**
 * Check every invariant, the switch's included. For tests. [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_qos_check(const struct snic_io *io) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_QOS_H */
