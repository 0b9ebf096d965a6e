/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ssd.h
 * A model of a flash SSD in simulated time: deterministic, without data.
 *
 * Depends on  snicstore/base.h.
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. Commands are the
 *             caller's, borrowed from submit until poll hands them back.
 * Threads     One thread owns a model.
 * Progress    No call blocks. submit and poll do the work of the time that has passed: O(log
 *             dies) per inner event, of which a read has about one per piece, a write two and
 *             one per program unit.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       bytes, nanoseconds; rates are bytes per microsecond, which are MB/s.
 *
 * What a command passes:
 *
 *     read   queue > fetch > splitter > dies > link to the host > completion
 *     write  queue > fetch > link from the host > write buffer > completion
 *                                                  buffer > dies, garbage collection
 *
 * - Fetch: one command at a time, round robin over the queues that have some, and not while
 *   `window` pieces of reads are inside. So many small reads hold up large ones, and a queue's
 *   share is that of its commands, whatever their size.
 * - Splitter: a read is cut at multiples of the device's unit (CLEAN: read_unit, one multi-plane
 *   read of contiguous addresses; FRAGMENTED: one part of 4 KiB). The pieces of one command
 *   follow each other split_ns per part apart; those of several commands proceed in parallel.
 * - Dies: a piece's die is its unit's number modulo dies; on a fragmented device only
 *   read_striped of 1024 parts still lie so and the rest anywhere. A die serves reads in order.
 *   When writing waits, too, the two share its time by virtual time, write_share for writing; an
 *   operation is never broken off; turning from reading to writing costs switch_ns.
 * - Buffer: a write completes post_write_ns after it has a place; places are assigned in order of
 *   arrival. What fills a program unit goes to a die with the fewest of them. The last bytes
 *   that fill none stay (they are complete, and nothing reads them back).
 * - Garbage collection (FRAGMENTED): each unit programmed leaves its die a debt of
 *   (write_amplification - 1) * (program + reads of as many parts); at gc_debt_ns the die pays
 *   all of it in pieces of gc_chunk_ns, before further programs.
 * - Foreground collection (FRAGMENTED): programs drain a pool that fills at stall_pool_rate;
 *   while it is empty a program may be followed by a stall of the die.
 *
 * The parameters of both presets were fitted to facts of the devices that the paper states
 * (Min et al., "Gimbal", SIGCOMM 2021, sections 2.3, 3.3, 4.2, 5.3, 5.8, appendices A and D)
 * before any scheduler ran on the model, and have not been changed since. bench_gimbal prints
 * those facts, model against paper, with what it misses: the latencies of appendix A on an aged
 * and on a busy device, some of Figure 4's neighbours and appendix D's reads beside writes are
 * at odds with the rest, for one structure. Two choices no fact of the paper decides: the queue
 * depth of its "5 % writes" (the model has 38 to 45 % at 32 to 512) and the stalls.
 *
 * AGEING is a third condition with a page map of its own, in which the two others are the end
 * points: a device that was filled in order reads and writes as CLEAN, one overwritten at random
 * as FRAGMENTED, and what lies between follows from the map.
 *
 * - Map: pages of 4 KiB in erase blocks of age_block_pages, age_spare more of them than the host
 *   sees; four blocks beyond that are open or in reserve. The map is that of a smaller device of
 *   the same proportions: addresses are folded into it (page number modulo age_pages), so that it
 *   ages in seconds of simulated time where the real one takes an hour. A write enters the map
 *   when it enters the buffer, and a part of a page counts as all of it.
 * - Collection: greedy. When few blocks are free, the full block with the fewest valid pages is
 *   copied and erased. Under uniform random writes the write amplification follows
 *   Desnoyers, "Analytic modeling of SSD write performance" (SYSTOR 2012). The copies take die
 *   time as FRAGMENTED's do, each (program + reads of as many parts) / parts, and instead of its
 *   constant debt: a unit programmed takes 1/64 of what is owed. Stalls become likely in the same
 *   proportion. write_amplification only scales those.
 * - Reads: a read_unit whose pages lie in flash in one run, or were never written, is one piece
 *   placed as CLEAN's; else its parts are placed as FRAGMENTED's. In a read of n > 64 units that
 *   holds for ceil(n / 64) of them together.
 * - Trim: snic_ssd_trim() invalidates whole pages.
 *
 * Its own parameters (age_*) are frozen likewise: test_ssd_ageing holds both end points to the
 * facts, and the write amplification to the formula.
 *
 * Not modelled: reads that the buffer could serve, wear, the device's own cache of its map.
 * io.h's snic_io_ssd_open() puts a model in front of a snic_disk, which holds the bytes.
 *
 *     struct snic_ssd_opts o;
 *     snic_ssd_opts_dct983(&o);
 *     o.condition = SNIC_SSD_FRAGMENTED;
 *     o.seed = 1;
 *     struct snic_ssd *d;
 *     int r = snic_ssd_init(&d, memory, size, &o);   // size >= snic_ssd_memsize(&o)
 *     struct snic_ssd_cmd cmd = {.op = SNIC_SSD_READ, .length = 4096};
 *     r = snic_ssd_submit(d, &cmd, 0);
 *     while (snic_ssd_poll(d, now) == NULL)
 *         now = snic_ssd_deadline_ns(d);
 */
#ifndef SNIC_SSD_H
#define SNIC_SSD_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Lives in the caller's memory. */
struct snic_ssd;

/** Of the memory given to init. */
#define SNIC_SSD_ALIGN 64

enum snic_ssd_op { SNIC_SSD_READ = 1, SNIC_SSD_WRITE = 2 };

/**
 * What the device went through before: sequential 128 KiB writes, or random 4 KiB writes, for
 * good; or a map decides, empty at first (precondition it).
 */
enum snic_ssd_condition { SNIC_SSD_CLEAN = 0, SNIC_SSD_FRAGMENTED = 1, SNIC_SSD_AGEING = 2 };

/** Reads, garbage collection and placement are counted in parts of this size. */
#define SNIC_SSD_PART 4096
#define SNIC_SSD_QUEUES_MAX 4096
#define SNIC_SSD_DEPTH_MAX 65536
#define SNIC_SSD_DIES_MAX 1024
/** Largest age_pages (64 GiB); of a map of n pages, memory is about 8 * n * (1 + spare) bytes. */
#define SNIC_SSD_AGE_PAGES_MAX (1u << 24)

/**
 * Every parameter of the device: a preset fills it, then change what you like. 0 is a value here,
 * no default. Times are 0..10^9 ns unless documented otherwise.
 */
struct snic_ssd_opts {
    uint32_t opts_size;
    uint32_t condition;  /**< enum snic_ssd_condition; presets: CLEAN                    */
    uint64_t seed;       /**< jitter, placement, stalls; presets: 0                      */
    uint32_t queues;     /**< submission queues, 1..SNIC_SSD_QUEUES_MAX; presets: 1      */
    uint32_t depth;      /**< most commands inside, 1..SNIC_SSD_DEPTH_MAX; presets: 4096 */
    uint32_t length_max; /**< largest command, 1..buffer_bytes / 2; presets: 1 MiB       */
    uint32_t reserved;   /**< 0                                                          */
    /* -- the controller -- */
    uint32_t fetch_read_ns;  /**< to fetch a read; one command at a time                 */
    uint32_t fetch_write_ns; /**< to fetch a write                                       */
    uint32_t split_ns;       /**< per part between two pieces of one read, 0..10^6       */
    uint32_t window;         /**< pieces of reads inside from which on nothing is fetched,
                                  1..2^20                                                */
    uint32_t link_read;      /**< to the host, bytes per microsecond, at least 1         */
    uint32_t link_write;     /**< from the host, likewise                                */
    uint32_t post_read_ns;   /**< from the last byte on the link to the completion       */
    uint32_t post_write_ns;  /**< from a place in the buffer to the completion           */
    uint32_t buffer_bytes;   /**< write buffer, at least two program units and 2 * length_max,
                                  at most 1 GiB                                          */
    /* -- the dies -- */
    uint32_t dies;          /**< 1..SNIC_SSD_DIES_MAX                                    */
    uint32_t read_ns;       /**< sense, at least 1                                       */
    uint32_t read_part_ns;  /**< per part, from the die to the controller, 0..10^6       */
    uint32_t read_unit;     /**< CLEAN: bytes of one piece, multiple of SNIC_SSD_PART to 1 MiB */
    uint32_t read_striped;  /**< FRAGMENTED: parts, of 1024, that still lie striped      */
    uint32_t program_ns;    /**< one program unit, at least 1                            */
    uint32_t program_unit;  /**< bytes, multiple of SNIC_SSD_PART to 1 MiB               */
    uint32_t program_queue; /**< most program units at a die, 1..8                       */
    uint32_t write_share;   /**< of 1024, of a die's time, when reads wait, too; 1..1023 */
    uint32_t switch_ns;     /**< when a die turns from reading to writing                */
    uint32_t jitter;        /**< die operations vary by +- this of 1024, 0..512          */
    /* -- garbage collection, used when FRAGMENTED -- */
    uint32_t write_amplification; /**< in 1/100, 100..10000                              */
    uint32_t gc_read_ns;          /**< per part that moves                               */
    uint32_t gc_debt_ns;          /**< work that collects before a die starts on it      */
    uint32_t gc_chunk_ns;         /**< and does it in pieces of this, at least 1         */
    uint32_t stall_ns;            /**< foreground collection; 0: none                    */
    uint32_t stall_odds;          /**< of 2^20 program units, while the pool is empty    */
    uint32_t stall_pool_bytes;    /**< programs drain the pool, 0..1 GiB                 */
    uint32_t stall_pool_rate;     /**< it fills, bytes per microsecond (MB/s), 0..10^6   */
    /* -- the map, used when AGEING -- */
    uint32_t age_pages;       /**< of the host, multiple of age_block_pages to
                                   SNIC_SSD_AGE_PAGES_MAX; presets: 2^18 (1 GiB)         */
    uint32_t age_block_pages; /**< of an erase block, 8..65536; presets: 256             */
    uint32_t age_spare;       /**< over-provisioning: flash beyond age_pages, in 1/1000 of
                                   them, 1..4000; at least one block                     */
    uint32_t age_fill;        /**< what init does to it, as snic_ssd_precondition():
                                   0..1000; presets: 0                                   */
    uint32_t age_overwrites;  /**< and 0..10000; presets: 0                              */
    uint32_t age_reserved;    /**< 0                                                     */
};

/** Fill op to offset, with zeros in reserved; submit sets the rest. */
struct snic_ssd_cmd {
    struct snic_node node; /**< the model's while borrowed                               */
    uint8_t op;            /**< enum snic_ssd_op                                         */
    uint8_t reserved[3];
    uint32_t queue;   /**< 0..queues-1                                                   */
    uint32_t length;  /**< 1..length_max                                                 */
    uint32_t state;   /**< the model's                                                   */
    uint64_t offset;  /**< in bytes; any, the model has no size                          */
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

/** What the map of an AGEING device went through; all 0 on others. */
struct snic_ssd_age_stats {
    uint64_t written; /**< pages, by the host                                             */
    uint64_t copied;  /**< pages, by collection; write amplification is 1 + copied / written */
    uint64_t erased;  /**< blocks                                                         */
    uint64_t trimmed; /**< pages that were valid                                          */
    uint64_t valid;   /**< pages, now                                                     */
    uint64_t owed_ns; /**< die time of copies that no die has taken yet                   */
};

/** Fill @p o with the paper's Samsung DCT983 (960 GB, TLC). [any] */
SNIC_API void snic_ssd_opts_dct983(struct snic_ssd_opts *o) SNIC_NONNULL(1);
/** Fill @p o with the paper's Intel DC P3600 (1.2 TB, MLC; section 5.8). [any] */
SNIC_API void snic_ssd_opts_p3600(struct snic_ssd_opts *o) SNIC_NONNULL(1);

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_ssd_opts_wrong(const struct snic_ssd_opts *o) SNIC_NONNULL(1);
/** The memory a model takes, by its options. @return bytes, or 0 on bad options [any] */
SNIC_API size_t snic_ssd_memsize(const struct snic_ssd_opts *o) SNIC_NONNULL(1);
/**
 * Build an idle device at time 0 in @p mem, aligned to SNIC_SSD_ALIGN and the caller's again
 * after fini. The options are copied.
 * @param[out] out  the model on success, untouched on failure
 * @return 0; SNIC_EINVAL bad options or alignment; SNIC_ENOSPC @p size too small [owner]
 */
SNIC_API SNIC_NODISCARD int snic_ssd_init(struct snic_ssd **out, void *mem, size_t size,
                                          const struct snic_ssd_opts *o) SNIC_NONNULL(1, 2, 4);
/** Asserts that no command is inside. @return the memory given to init [owner] */
SNIC_API void *snic_ssd_fini(struct snic_ssd *d) SNIC_NONNULL(1);

/**
 * Hand a command to the device at @p now_ns, which never goes back (asserted), neither here nor
 * in poll. It stays inside, also when its time has come, until poll returns it.
 * @return 0; SNIC_EINVAL op, queue, length, or the range passes 2^64; SNIC_EAGAIN depth commands
 *         are inside: poll first [owner]
 */
SNIC_API SNIC_NODISCARD int snic_ssd_submit(struct snic_ssd *d, struct snic_ssd_cmd *cmd,
                                            uint64_t now_ns) SNIC_NONNULL(1, 2);
/**
 * The next command that completed at or before @p now_ns, in order of done_ns (a read before a
 * write of the same time); NULL: no more. The command is the caller's again. [owner]
 */
SNIC_API struct snic_ssd_cmd *snic_ssd_poll(struct snic_ssd *d, uint64_t now_ns) SNIC_NONNULL(1);
/** When poll has work next, or SNIC_NEVER. May be early (an inner event), never late. [owner] */
SNIC_API uint64_t snic_ssd_deadline_ns(const struct snic_ssd *d) SNIC_NONNULL(1);
/** A copy of the counters, as of the last submit or poll. [owner] */
SNIC_API void snic_ssd_get_stats(const struct snic_ssd *d, struct snic_ssd_stats *out)
    SNIC_NONNULL(1, 2);
/**
 * The whole pages of a range hold nothing from now on. Takes no time, also while commands are
 * inside. Does nothing unless AGEING. A range beyond 2^64 ends there. [owner]
 */
SNIC_API void snic_ssd_trim(struct snic_ssd *d, uint64_t offset, uint64_t length) SNIC_NONNULL(1);
/**
 * Age the map, in no time: of the first @p fill / 1000 of its pages write those that hold
 * nothing, in order; then overwrite pages at random among all of these, @p overwrites / 100 times
 * their number. What is owed for the copies is forgiven. 300 reaches the steady state. A second
 * call continues. O(pages * overwrites). [owner]
 * @return 0; SNIC_EINVAL not AGEING, @p fill above 1000 or @p overwrites above 10000
 */
SNIC_API SNIC_NODISCARD int snic_ssd_precondition(struct snic_ssd *d, uint32_t fill,
                                                  uint32_t overwrites) SNIC_NONNULL(1);
/** A copy of the map's counters. [owner] */
SNIC_API void snic_ssd_get_age_stats(const struct snic_ssd *d, struct snic_ssd_age_stats *out)
    SNIC_NONNULL(1, 2);
/**
 * Check every structural invariant; for tests. O(everything inside, and the map). [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_ssd_check(const struct snic_ssd *d) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_SSD_H */
