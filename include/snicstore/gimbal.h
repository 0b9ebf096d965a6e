/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/gimbal.h
 * The storage switch of Gimbal: one per device, shared by tenants. Per-tenant priority queues,
 * deficit round robin over virtual slots, dual token bucket, delay-based congestion control,
 * write-cost estimation, credits.
 *
 * Depends on  snicstore/base.h.
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. I/Os are the
 *             caller's, borrowed from submit until complete (or cancel).
 * Threads     One thread owns a switch.
 * Progress    No call blocks; O(1) work per I/O whatever the number of tenants.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       bytes, nanoseconds, bytes per second.
 */
#ifndef SNIC_GIMBAL_H
#define SNIC_GIMBAL_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_gimbal;

#define SNIC_GIMBAL_ALIGN SNIC_CACHELINE
#define SNIC_GIMBAL_TENANTS_MAX 4096
#define SNIC_GIMBAL_PRIORITIES 8
#define SNIC_GIMBAL_WEIGHT_MAX 256
/** Largest values of options: queue_max; size_max and bucket_bytes; slot_bytes and quantum_bytes.
 */
#define SNIC_GIMBAL_QUEUE_MAX (1u << 20)
#define SNIC_GIMBAL_SIZE_MAX (64u << 20)
#define SNIC_GIMBAL_SLOT_MAX (4u << 20)
/** Of the write cost (32), of rates (1 TB/s), of times (18 minutes). */
#define SNIC_GIMBAL_COST_MAX 512
#define SNIC_GIMBAL_RATE_MAX ((uint64_t)1 << 40)
#define SNIC_GIMBAL_NS_MAX ((uint64_t)1 << 40)
/** Write costs are fixed point: this is 1.0. */
#define SNIC_GIMBAL_COST_ONE 16
/** slot_overlap is fixed point: this is 1.0; its default is 1.25. */
#define SNIC_GIMBAL_OVERLAP_ONE 256
#define SNIC_GIMBAL_OVERLAP 320

enum snic_gimbal_op { SNIC_GIMBAL_READ = 0, SNIC_GIMBAL_WRITE = 1 };

/** The printed algorithms where ours depart from them; see the deviations. */
#define SNIC_GIMBAL_DISCARD (1u << 0) /**< Alg. 1 line 14: drop tokens when overloaded    */
#define SNIC_GIMBAL_SLOT_ABOVE                                                                     \
    (1u << 1) /**< Alg. 2 line 7: a slot closes above, not at, its size */
#define SNIC_GIMBAL_SLOT_BARRIER                                                                   \
    (1u << 2) /**< section 3.5: a slot frees only when all its I/Os are done */
#define SNIC_GIMBAL_ONE_BUCKET (1u << 3) /**< App. C.1's single bucket                       */

/** A field that is 0 takes its default. */
struct snic_gimbal_opts {
    uint32_t opts_size;
    uint32_t flags;            /**< SNIC_GIMBAL_*                                       */
    uint32_t tenants_max;      /**< 1..SNIC_GIMBAL_TENANTS_MAX; default 64              */
    uint32_t queue_max;        /**< I/Os queued or in flight per tenant; default 4096   */
    uint32_t size_max;         /**< largest I/O; default 8 MiB                          */
    uint32_t slot_bytes;       /**< virtual slot of weight 1; default 128 KiB           */
    uint32_t slot_threshold;   /**< slots one lone tenant gets; default 8               */
    uint32_t quantum_bytes;    /**< per round and weight; default 128 KiB               */
    uint64_t thresh_min_ns;    /**< default 250 us                                      */
    uint64_t thresh_max_ns;    /**< default 1500 us                                     */
    uint32_t alpha_d_shift;    /**< EWMA weight 2^-n, 1..8; default 1                   */
    uint32_t alpha_t_shift;    /**< threshold decay 2^-n, 1..8; default 1               */
    uint32_t beta;             /**< probing factor; default 8                           */
    uint32_t write_cost_worst; /**< in 1/SNIC_GIMBAL_COST_ONE; default 9 x              */
    uint32_t write_cost_delta; /**< likewise; default 0.5 x                             */
    uint32_t bucket_bytes;     /**< each bucket; default 256 KiB                        */
    uint64_t rate_start;       /**< bytes/s; default 50 MB/s                            */
    uint64_t rate_min;         /**< floor; default 4 MB/s                               */
    uint64_t rate_max;         /**< ceiling; default 8 GB/s                             */
    uint64_t cost_period_ns;   /**< default 20 ms                                       */
    uint64_t rate_window_ns;   /**< of the completion rate; default 10 ms               */
    uint64_t lost_ns; /**< an I/O this long on the device holds no slot any more; default 2 s */
    uint64_t idle_ns; /**< a tenant without I/O counts as active for so long; default 1 ms */
    uint32_t slot_overlap; /**< 1/256 of a full slot's I/Os that may still be out when the next
                                opens, and of a tenant's slots that may drain, while no active
                                tenant's slots hold fewer than 8 I/Os (larger than 16 KiB, or
                                costly writes); 1..255; default SNIC_GIMBAL_OVERLAP          */
    uint32_t reserved;     /**< 0                                                    */
};

/** A field that is 0 takes its default. */
struct snic_gimbal_tenant_opts {
    uint32_t opts_size;
    uint32_t weight;           /**< 1..SNIC_GIMBAL_WEIGHT_MAX; default 1                  */
    uint64_t bytes_per_second; /**< cap, 0: none                                         */
    uint64_t ios_per_second;   /**< cap, 0: none                                          */
    uint8_t priority_weight[SNIC_GIMBAL_PRIORITIES]; /**< I/Os per cycle of each priority; default 1
                                                        << priority */
};

/** Embed it; fill the first part; SNIC_CONTAINER finds the owner. */
struct snic_gimbal_io {
    struct snic_link link; /**< the switch's while borrowed                              */
    uint32_t tenant;       /**< index 0..tenants_max-1                                   */
    uint32_t size;         /**< 1..size_max                                              */
    uint8_t op;            /**< enum snic_gimbal_op                                      */
    uint8_t priority;      /**< 0..7, 7 the most urgent                                  */
    uint16_t state;        /**< the switch's                                             */
    uint32_t weighted;     /**< the switch's                                             */
    uint32_t slot;         /**< the switch's                                             */
    uint32_t credit;       /**< out, with complete: the tenant's credit                  */
    uint64_t queued_ns;    /**< out: submit                                              */
    uint64_t sent_ns;      /**< out: poll                                                */
};

enum snic_gimbal_state {
    SNIC_GIMBAL_UNDERUTILISED = 0,
    SNIC_GIMBAL_AVOIDANCE = 1,
    SNIC_GIMBAL_CONGESTED = 2,
    SNIC_GIMBAL_OVERLOADED = 3
};

/** The virtual view of the device (section 3.7): a snapshot, cheap to read. */
struct snic_gimbal_view {
    uint64_t target_rate;
    uint64_t completion_rate;
    uint64_t read_headroom; /**< bytes/s of the target rate that reads may have          */
    uint64_t write_headroom;
    uint64_t ewma_ns[2]; /**< by enum snic_gimbal_op                                  */
    uint64_t thresh_ns[2];
    uint32_t state[2];   /**< enum snic_gimbal_state                                  */
    uint32_t write_cost; /**< in 1/SNIC_GIMBAL_COST_ONE                               */
    uint32_t tenants;    /**< added                                                   */
    uint32_t active;     /**< with I/Os queued or in flight                           */
    uint32_t slots;      /**< per tenant now                                          */
    uint32_t queued;
    uint32_t inflight;
    uint64_t lost;       /**< I/Os on the device for longer than lost_ns, now         */
    uint64_t entered[4]; /**< times each state was entered, both types                */
};

struct snic_gimbal_tenant_view {
    uint32_t credit;
    uint32_t queued;
    uint32_t inflight;
    uint32_t weight;
    uint64_t bytes[2]; /**< completed, by op                                         */
    uint64_t ios[2];
    uint64_t wait_ns;   /**< sum of poll - submit                                     */
    uint64_t device_ns; /**< sum of complete - poll                                   */
    uint32_t deferred;  /**< 1: without a free slot                                   */
    uint32_t draining;  /**< 1: removed, I/Os still inside                            */
    uint64_t errors;    /**< completed with ok 0                                      */
    uint32_t lost;      /**< in flight, of slots that were given up                   */
    uint32_t parked;    /**< 1: waits for its own caps                                */
};

/** @return bytes, or 0 on bad options [any] */
SNIC_API size_t snic_gimbal_memsize(const struct snic_gimbal_opts *o) SNIC_NONNULL(1);
/** @return 0; SNIC_EINVAL; SNIC_ENOSPC memory too small [owner] */
SNIC_API SNIC_NODISCARD int snic_gimbal_init(struct snic_gimbal **out, void *mem, size_t size,
                                             const struct snic_gimbal_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 4);
/** @return the memory given to init; asserts that no I/O is inside [owner] */
SNIC_API void *snic_gimbal_fini(struct snic_gimbal *g) SNIC_NONNULL(1);

/** @p o may be NULL: defaults. @return 0; SNIC_EINVAL; SNIC_EEXIST; SNIC_EBUSY still draining
 * [owner] */
SNIC_API SNIC_NODISCARD int snic_gimbal_tenant_add(struct snic_gimbal *g, uint32_t tenant,
                                                   const struct snic_gimbal_tenant_opts *o)
    SNIC_NONNULL(1);
/** Change weight, caps, priorities; I/Os inside stay. @return 0; SNIC_EINVAL; SNIC_ENOENT [owner]
 */
SNIC_API SNIC_NODISCARD int snic_gimbal_tenant_set(struct snic_gimbal *g, uint32_t tenant,
                                                   const struct snic_gimbal_tenant_opts *o)
    SNIC_NONNULL(1, 3);
/** Accept no more; what is inside still goes its way, then the index is free. @return 0;
 * SNIC_ENOENT [owner] */
SNIC_API SNIC_NODISCARD int snic_gimbal_tenant_remove(struct snic_gimbal *g, uint32_t tenant)
    SNIC_NONNULL(1);

/**
 * Queue an I/O. @p now_ns never goes back.
 * @return 0; SNIC_EINVAL size, op, priority; SNIC_ENOENT no such tenant; SNIC_EBUSY queue_max
 * [owner]
 */
SNIC_API SNIC_NODISCARD int snic_gimbal_submit(struct snic_gimbal *g, struct snic_gimbal_io *io,
                                               uint64_t now_ns) SNIC_NONNULL(1, 2);
/** The next I/O to start on the device now, or NULL; call until NULL after each submit and
 * complete. [owner] */
SNIC_API struct snic_gimbal_io *snic_gimbal_poll(struct snic_gimbal *g, uint64_t now_ns)
    SNIC_NONNULL(1);
/** When poll may have an I/O without a further call, or SNIC_NEVER. [owner] */
SNIC_API uint64_t snic_gimbal_deadline_ns(const struct snic_gimbal *g) SNIC_NONNULL(1);
/** The device finished an I/O that poll gave; @p ok 0: it failed and measures nothing. [owner] */
SNIC_API void snic_gimbal_complete(struct snic_gimbal *g, struct snic_gimbal_io *io, int ok,
                                   uint64_t now_ns) SNIC_NONNULL(1, 2);
/** Take back a queued I/O. @return 0; SNIC_EBUSY poll has given it out already [owner] */
SNIC_API SNIC_NODISCARD int snic_gimbal_cancel(struct snic_gimbal *g, struct snic_gimbal_io *io,
                                               uint64_t now_ns) SNIC_NONNULL(1, 2);

SNIC_API void snic_gimbal_get_view(const struct snic_gimbal *g, struct snic_gimbal_view *out)
    SNIC_NONNULL(1, 2);
/** @return 0; SNIC_ENOENT [owner] */
SNIC_API SNIC_NODISCARD int snic_gimbal_get_tenant_view(const struct snic_gimbal *g,
                                                        uint32_t tenant,
                                                        struct snic_gimbal_tenant_view *out)
    SNIC_NONNULL(1, 3);
/** @return 0; SNIC_ECORRUPT. O(tenants + I/Os) [owner] */
SNIC_API int snic_gimbal_check(const struct snic_gimbal *g) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_GIMBAL_H */
