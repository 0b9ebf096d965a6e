/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ssd.h
 * A model of a flash SSD in simulated time: deterministic, without data.
 *
 * Depends on  snicstore/base.h.
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. Commands are the
 *             caller's, borrowed from submit until poll hands them back.
 * Threads     One thread owns a model.
 * Progress    No call blocks. Work per 4 KiB part of a command is O(log events).
 * Errors      0 on success, a negative SNIC_E* otherwise.
 * Units       bytes, nanoseconds, bytes per second.
 *
 * The model knows no scheduler: it is fitted to facts of devices alone. `io.h`'s
 * snic_io_ssd_open() puts it in front of a snic_disk, which holds the bytes.
 */
#ifndef SNIC_SSD_H
#define SNIC_SSD_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_ssd;

#define SNIC_SSD_ALIGN 64

enum snic_ssd_op { SNIC_SSD_READ = 1, SNIC_SSD_WRITE = 2 };

/** What the device went through before: sequential 128 KiB writes, or random 4 KiB writes. */
enum snic_ssd_condition { SNIC_SSD_CLEAN = 0, SNIC_SSD_FRAGMENTED = 1 };

/** Every parameter of the device; a preset fills it. */
struct snic_ssd_opts {
    uint32_t opts_size;
    uint32_t condition;  /**< enum snic_ssd_condition                                    */
    uint64_t seed;       /**< jitter, placement, stalls                                  */
    uint32_t queues;     /**< submission queues, 1..4096; fetched round robin            */
    uint32_t depth;      /**< most commands inside, 1..65536; default 4096               */
    uint32_t length_max; /**< largest command; default 1 MiB                             */
    uint32_t reserved;
    /* the device's own parameters follow: dies, times, buffer, link, ... */
};

struct snic_ssd_cmd {
    struct snic_node node; /**< the model's while borrowed                               */
    uint8_t op;            /**< enum snic_ssd_op                                         */
    uint8_t reserved[3];
    uint32_t queue;   /**< 0..queues-1                                                   */
    uint32_t length;  /**< 1..length_max                                                 */
    uint32_t state;   /**< the model's                                                   */
    uint64_t offset;  /**< any                                                           */
    uint64_t done_ns; /**< out: when it completed                                        */
    uint64_t priv[4]; /**< the model's                                                   */
};

/** Fill @p o with the paper's Samsung DCT983 (960 GB, TLC). [any] */
SNIC_API void snic_ssd_opts_dct983(struct snic_ssd_opts *o) SNIC_NONNULL(1);
/** Fill @p o with the paper's Intel DC P3600 (1.2 TB, MLC; section 5.8). [any] */
SNIC_API void snic_ssd_opts_p3600(struct snic_ssd_opts *o) SNIC_NONNULL(1);

/** @return bytes, or 0 on bad options [any] */
SNIC_API size_t snic_ssd_memsize(const struct snic_ssd_opts *o) SNIC_NONNULL(1);
SNIC_API SNIC_NODISCARD int snic_ssd_init(struct snic_ssd **out, void *mem, size_t size,
                                          const struct snic_ssd_opts *o) SNIC_NONNULL(1, 2, 4);
/** @return the memory given to init [owner] */
SNIC_API void *snic_ssd_fini(struct snic_ssd *d) SNIC_NONNULL(1);

/**
 * Hand a command to the device at @p now_ns, which never goes back.
 * @return 0; SNIC_EINVAL op, queue, length; SNIC_EAGAIN depth commands are inside [owner]
 */
SNIC_API SNIC_NODISCARD int snic_ssd_submit(struct snic_ssd *d, struct snic_ssd_cmd *cmd,
                                            uint64_t now_ns) SNIC_NONNULL(1, 2);
/** The next command that completed at or before @p now_ns, in order of time; NULL if none. [owner] */
SNIC_API struct snic_ssd_cmd *snic_ssd_poll(struct snic_ssd *d, uint64_t now_ns) SNIC_NONNULL(1);
/** When poll has work next, or SNIC_NEVER. May be early (an inner event), never late. [owner] */
SNIC_API uint64_t snic_ssd_deadline_ns(const struct snic_ssd *d) SNIC_NONNULL(1);
/** @return 0; SNIC_ECORRUPT [owner] */
SNIC_API int snic_ssd_check(const struct snic_ssd *d) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_SSD_H */
