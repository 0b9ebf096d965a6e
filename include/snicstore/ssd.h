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

/** Reads, garbage collection and placement are counted in parts of this size. */
#define SNIC_SSD_PART 4096
#define SNIC_SSD_QUEUES_MAX 4096
#define SNIC_SSD_DEPTH_MAX 65536
#define SNIC_SSD_DIES_MAX 1024

/** Every parameter of the device; a preset fills it. */
struct snic_ssd_opts {
    uint32_t opts_size;
    uint32_t condition;  /**< enum snic_ssd_condition                                    */
    uint64_t seed;       /**< jitter, placement, stalls                                  */
    uint32_t queues;     /**< submission queues, 1..SNIC_SSD_QUEUES_MAX; presets: 1      */
    uint32_t depth;      /**< most commands inside, 1..SNIC_SSD_DEPTH_MAX; presets: 4096 */
    uint32_t length_max; /**< largest command, 1..buffer_bytes / 2; presets: 1 MiB       */
    uint32_t reserved;   /**< 0                                                          */
    /* -- the controller -- */
    uint32_t fetch_read_ns;  /**< to fetch a read; one command at a time                 */
    uint32_t fetch_write_ns; /**< to fetch a write                                       */
    uint32_t split_ns;       /**< per part between two pieces of one read                */
    uint32_t window;         /**< pieces of reads inside from which on nothing is fetched */
    uint32_t link_read;      /**< to the host, bytes per microsecond                     */
    uint32_t link_write;     /**< from the host, bytes per microsecond                   */
    uint32_t post_read_ns;   /**< from the last byte on the link to the completion       */
    uint32_t post_write_ns;  /**< from a place in the buffer to the completion           */
    uint32_t buffer_bytes;   /**< write buffer, at least two program units and 2 * length_max */
    /* -- the dies -- */
    uint32_t dies;          /**< 1..SNIC_SSD_DIES_MAX                                    */
    uint32_t read_ns;       /**< sense                                                   */
    uint32_t read_part_ns;  /**< per part, from the die to the controller                */
    uint32_t read_unit;     /**< CLEAN: bytes of one piece, multiple of SNIC_SSD_PART    */
    uint32_t read_striped;  /**< FRAGMENTED: parts, of 1024, that still lie striped      */
    uint32_t program_ns;    /**< one program unit                                        */
    uint32_t program_unit;  /**< bytes, multiple of SNIC_SSD_PART                        */
    uint32_t program_queue; /**< most program units at a die, 1..8                       */
    uint32_t write_share;   /**< of 1024, of a die's time, when reads wait, too          */
    uint32_t switch_ns;     /**< when a die turns from reading to writing                */
    uint32_t jitter;        /**< die operations vary by +- this of 1024, 0..512          */
    /* -- garbage collection, FRAGMENTED only -- */
    uint32_t write_amplification; /**< in 1/100, 100..10000                              */
    uint32_t gc_read_ns;          /**< per part that moves                               */
    uint32_t gc_debt_ns;          /**< work that collects before a die starts on it      */
    uint32_t gc_chunk_ns;         /**< and does it in pieces of this                     */
    uint32_t stall_ns;            /**< foreground collection; 0: none                    */
    uint32_t stall_odds;          /**< of 2^20 program units, while the pool is empty    */
    uint32_t stall_pool_bytes;    /**< programs drain the pool                           */
    uint32_t stall_pool_rate;     /**< it fills, bytes per microsecond (MB/s)            */
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

/** What has happened so far. */
struct snic_ssd_stats {
    uint64_t commands[2];  /**< taken: reads, writes                                      */
    uint64_t events;       /**< inner events handled                                      */
    uint64_t pieces;       /**< pieces of reads that left a die                           */
    uint64_t programs;     /**< program units of the host's writes                        */
    uint64_t collected_ns; /**< die time of garbage collection, without jitter            */
    uint64_t switches;     /**< dies turned from reading to writing                       */
    uint64_t stalls;       /**< foreground collections                                    */
    uint32_t inside;       /**< commands, now                                             */
    uint32_t buffered;     /**< bytes in the write buffer, now                            */
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
/** The next command that completed at or before @p now_ns, in order of time; NULL if none. [owner]
 */
SNIC_API struct snic_ssd_cmd *snic_ssd_poll(struct snic_ssd *d, uint64_t now_ns) SNIC_NONNULL(1);
/** When poll has work next, or SNIC_NEVER. May be early (an inner event), never late. [owner] */
SNIC_API uint64_t snic_ssd_deadline_ns(const struct snic_ssd *d) SNIC_NONNULL(1);
SNIC_API void snic_ssd_get_stats(const struct snic_ssd *d, struct snic_ssd_stats *out)
    SNIC_NONNULL(1, 2);
/** @return 0; SNIC_ECORRUPT [owner] */
SNIC_API int snic_ssd_check(const struct snic_ssd *d) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_SSD_H */
