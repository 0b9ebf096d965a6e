/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/segments.h
 * A store of versioned blocks on one or several devices: what stands behind a block server.
 *
 * A segment is 512 blocks of 4096 bytes. A write carries a version and takes effect only if that is
 * higher than the block's, so it may be repeated, and arrive late or twice, without harm. It is
 * answered when data, version and checksums are durable.
 *
 * Depends on  snicstore/base.h, loop.h, io.h, wal.h.
 * Memory      The caller supplies all of it (memsize, open): 24 bytes per block that the devices
 *             hold (6 MiB per GiB), cache_blocks blocks, and the log's buffers. Requests are the
 *             caller's, borrowed from accepted submit until `done`. Of a device at most 2^24 - 1
 *             segments are used: 32 TiB, and 0.6 TiB of tables; what is behind them is left alone.
 * Threads     The owner thread of the devices' loop; all devices are on one loop.
 * Progress    No call blocks but close. `done` and the events come from the loop, never from inside
 *             a call. Requests in flight are not limited; what has no room is refused with
 *             SNIC_EAGAIN, and room() comes.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       blocks of 4096 bytes; fields in bytes are named or documented so.
 * Input       What is on the devices is not trusted: any bytes are judged, none crash.
 *
 * Promises
 *   Durable. A write answered SNIC_SEGMENTS_DONE, _DUP or _SUPERSEDED survives power loss, or a
 *     higher version of the block does. A block is the old one or the new one, whole, as its
 *     version shows; versions never go back. So do create, delete, set_gen, fence.
 *   Reads see all that was answered before they were submitted. What a read has returned is
 *     durable: it waits for a version that is not yet.
 *   Checked. What comes from a device is compared with its checksum. A block that does not fit, or
 *     cannot be read, is SNIC_SEGMENTS_DAMAGED, in its place in the list; the others are read. A
 *     new version repairs it. A block never written reads as zeros with version 0.
 *   Fenced. From a fence on, writes with a version below it are refused; from set_gen on, requests
 *     with an older generation are: for ever, that is, as long as the segment exists. A request
 *     with SNIC_SEGMENTS_RAISE does both before it takes effect, and is answered when both are
 *     durable.
 *   Full. A segment has its place from creation on, so writes never meet a full device; only
 *     SNIC_SEGMENTS_CREATE is refused with SNIC_ENOSPC.
 *   Failure. A device that fails a write or flush is dead until the next open: its requests end
 *     with SNIC_EIO, failed() comes once; the other devices continue.
 *
 * How. Every device has a log (wal.h) and places for segments. A write is one record of the log,
 * list and blocks, whatever their number, and is kept in the cache. In the background, when half of
 * the cache or a quarter of the log is used, a round writes those blocks home in the order of their
 * places, neighbours as one write, then the tables of versions and checksums, which are there
 * twice, one after the other; then it notes what the log no longer needs to keep. So what is
 * overwritten soon goes home once, and a write is answered after one sequential write.
 *   Amplification, bytes written per byte of random 4 KiB writes: the log 2.0 (one at a time, for
 *   its blocks are whole) to 1.04 (many in flight); home at most 1.0; tables at most 2.0 (each
 *   block dirties a table of its own), 2.0/n when n blocks of the same half MiB are in one round.
 *   Rewriting a working set that the cache holds costs little beyond the log.
 *
 * What recovery reports. A crash leaves the last write of the log in doubt (wal.h: SUSPECT). It is
 * unknown whether it had been announced and was damaged since; it counts as cut off by the crash
 * and is reported in `tails`, without SNIC_SEGMENTS_STRICT. A log with a gap is refused with
 * SNIC_ECORRUPT, the report naming the gap, or with SNIC_SEGMENTS_SALVAGE opened without the
 * records in the gap: versions may have gone back then. Tables of which both copies are damaged are
 * reported one by one to damaged(); their blocks are refused until the segment is deleted. A table
 * of which one copy is damaged is repaired. Zeros where a table must have been written are damage.
 *
 * The owner's duties: nothing else writes to the devices (open files with SNIC_IO_OPEN_LOCK); each
 * format gets a uuid of its own; log_bytes stays as it was at the format, and cache_blocks is not
 * lowered before a checkpoint.
 *
 *     struct snic_segments_opts o = {.opts_size = sizeof(o), .flags = SNIC_SEGMENTS_BLANK};
 *     size = snic_segments_memsize(&io, 1, &o);
 *     r = snic_segments_open(&s, aligned_alloc(SNIC_SEGMENTS_ALIGN, size), size, &io, 1, &o, &e,
 *                            me);
 *     // opened(me, 0, report); from there on
 *     struct snic_segments_block b = {.wver = 7, .block = 3, .data = bytes};
 *     b.data_crc = snic_crc32c(0, bytes, SNIC_SEGMENTS_BLOCK);
 *     struct snic_segments_req q = {.op = SNIC_SEGMENTS_WRITE, .seg_id = 1, .done = done};
 *     q.blocks = &b;
 *     q.count = 1;
 *     r = snic_segments_submit(s, &q);
 */
#ifndef SNIC_SEGMENTS_H
#define SNIC_SEGMENTS_H

#include "snicstore/base.h"
#include "snicstore/io.h"
#include "snicstore/loop.h"
#include "snicstore/wal.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Alignment of the memory passed to snic_segments_open(), in bytes. */
#define SNIC_SEGMENTS_ALIGN SNIC_CACHELINE
/**
 * Of what is on a device. A device of another version is refused with SNIC_EVERSION and left as it
 * is. From version 1, whose stores have plain checksums of plaintext beside what is encrypted,
 * there is no conversion: a disk is read by the release that wrote it, and written to a new store.
 */
#define SNIC_SEGMENTS_VERSION 2u
/** Bytes of a block. */
#define SNIC_SEGMENTS_BLOCK 4096u
/** Blocks of a segment. */
#define SNIC_SEGMENTS_BLOCKS 512u
/** Most blocks in one request. */
#define SNIC_SEGMENTS_LIST_MAX 64u
/** Most devices of a store. */
#define SNIC_SEGMENTS_DISKS_MAX 16u
/** snic_segments_req.disk: the device with the most room. */
#define SNIC_SEGMENTS_ANY_DISK UINT32_MAX

/** A store; in caller memory, not to be moved. */
struct snic_segments;

/* ---- Requests ---- */

enum snic_segments_op {
    SNIC_SEGMENTS_READ = 1,
    SNIC_SEGMENTS_WRITE,
    SNIC_SEGMENTS_CREATE, /**< seg_id, vd_id, base_lba, gen, disk                            */
    SNIC_SEGMENTS_DELETE,
    SNIC_SEGMENTS_SET_GEN, /**< seg_id, gen: below the present one SNIC_ESTALE, whatever the
                                flags; that again is allowed                                 */
    SNIC_SEGMENTS_FENCE    /**< seg_id, min_wver; a lower one than the present changes nothing */
};

/** What a block is written with, and what it was written with. */
enum snic_segments_kind {
    SNIC_SEGMENTS_DATA = 0,
    SNIC_SEGMENTS_ZERO, /**< reads as zeros */
    SNIC_SEGMENTS_TRIM, /**< the same; readers can distinguish it */
    SNIC_SEGMENTS_LOST  /**< there are no data: it reads as DAMAGED. For the copy of a segment of
                             which a block is damaged                                         */
};

enum snic_segments_status {
    SNIC_SEGMENTS_DONE = 0,
    SNIC_SEGMENTS_DUP,        /**< write: this version is there already                      */
    SNIC_SEGMENTS_SUPERSEDED, /**< write: a higher version is there, or another write of this */
    SNIC_SEGMENTS_FENCED,     /**< write: refused, below the fence                           */
    SNIC_SEGMENTS_BAD_CRC,    /**< write: refused, data_crc is not that of the data          */
    SNIC_SEGMENTS_DAMAGED     /**< read: no data; either: the block's version is lost        */
};

/** Do not compare data_crc with the data: the caller has. */
#define SNIC_SEGMENTS_CRC_CHECKED (1u << 0)
/** Whatever the generation; but SET_GEN lowers none. */
#define SNIC_SEGMENTS_ANY_GEN (1u << 1)
/**
 * READ, WRITE, FENCE: if gen is newer than the segment's, it becomes the segment's generation, and
 * min_wver its fence unless that is higher, before the request takes effect; requests submitted
 * later see it at once. The request is answered when that is durable. Not with ANY_GEN. A request
 * that then ends with SNIC_EAGAIN may have raised it.
 */
#define SNIC_SEGMENTS_RAISE (1u << 2)

/** A member of a request's list. */
struct snic_segments_block {
    uint64_t wver;      /**< write: 1 or higher; read, out: 0 never written                  */
    void *data;         /**< 4096 bytes. Write: borrowed for the call, NULL unless DATA. Read:
                             borrowed until done; not defined where DAMAGED                   */
    uint32_t data_crc;  /**< CRC32C of the data; 0 unless DATA. Read: out, of what is read   */
    uint32_t block_tag; /**< the writer's, stored and returned                               */
    uint16_t block;     /**< 0 ... 511; not twice in the list of a write                     */
    uint8_t kind;       /**< enum snic_segments_kind; read: out                              */
    uint8_t status;     /**< out: enum snic_segments_status                                  */
    uint32_t pad;       /**< 0                                                               */
};

struct snic_segments_req;
typedef void (*snic_segments_done_fn)(struct snic_segments_req *req);

/** Zero it, fill the first part, submit; embed it and use SNIC_CONTAINER in done. */
struct snic_segments_req {
    snic_segments_done_fn done;
    uint64_t seg_id;
    uint64_t vd_id;    /**< create: stored                                                   */
    uint64_t base_lba; /**< create: stored                                                   */
    uint64_t min_wver; /**< fence, and with RAISE                                            */
    uint32_t gen;      /**< of the segment, as the caller knows it: refused when it is older;
                            a newer one is taken, and changes nothing without RAISE          */
    uint32_t disk;     /**< create: number of the device, or SNIC_SEGMENTS_ANY_DISK          */
    uint32_t flags;    /**< SNIC_SEGMENTS_*                                                  */
    uint16_t op;       /**< enum snic_segments_op                                            */
    uint16_t count;    /**< read, write: of blocks                                           */
    struct snic_segments_block *blocks; /**< borrowed until done                             */
    /* -- results -- */
    /**
     * 0; SNIC_ENOENT no such segment; SNIC_EEXIST create: there is one; SNIC_ENOSPC create: no
     * place; SNIC_ESTALE the segment's generation is newer, or blocks were refused as FENCED;
     * SNIC_ECORRUPT blocks with BAD_CRC or DAMAGED; SNIC_EIO the device is dead
     */
    int32_t result;
    uint32_t refused; /**< blocks that are FENCED, BAD_CRC or DAMAGED */
    /* -- the store's while borrowed -- */
    struct snic_link link;
    struct snic_segments *store;
    uint64_t wait; /**< position of the log that has to be durable */
    uint32_t place[2];
    uint32_t at;
    uint32_t run;
    int32_t bounce;
    uint32_t single;
    struct {
        struct snic_io_req req;
        struct snic_node node;
        void *disk;
        void (*then)(void *io);
    } io;
};

/* ---- Options, callbacks ---- */

/** Format if all devices are blank, or those that are none are left of a format that did not come
 * to its end: it is finished (one that was asked for, over a store, has to be asked for again).
 * Open anything else. */
#define SNIC_SEGMENTS_BLANK (1u << 0)
#define SNIC_SEGMENTS_FORMAT (1u << 1)  /**< format whatever is there: all is gone      */
#define SNIC_SEGMENTS_STRICT (1u << 2)  /**< refuse a log whose end is in doubt         */
#define SNIC_SEGMENTS_SALVAGE (1u << 3) /**< open without the records in a gap          */
#define SNIC_SEGMENTS_NO_FUA (1u << 4)  /**< write and flush even where there is FUA    */

/** Zero it, set opts_size; a field that is 0 takes its default. */
struct snic_segments_opts {
    uint32_t opts_size;
    uint32_t flags;        /**< SNIC_SEGMENTS_*                                              */
    uint64_t log_bytes;    /**< of each device, 2 MiB ... 64 GiB; default an eighth of the device,
                                at most 512 MiB. Below 128 MiB requests have fewer blocks:
                                snic_segments_info.list_max                                  */
    uint32_t cache_blocks; /**< of each device, 64 ... 2^22; default 16384                   */
    uint32_t bounces;      /**< of each device: reads at a time into memory that the device
                                cannot use, 1 ... 1024; default 32                           */
    uint64_t uuid[2];      /**< format: names the store; different ones for different stores */
};

/** What opening found; of a store with several devices, the sums. */
struct snic_segments_report {
    uint32_t formatted; /**< devices that are new                                              */
    uint32_t disk;      /**< where the error is                                                */
    uint32_t segments;
    uint32_t tails;    /**< logs whose last write is in doubt, and was cut off                 */
    uint64_t replayed; /**< blocks of the logs that were not home                              */
    uint64_t repaired; /**< tables and superblocks of which one copy was damaged               */
    uint64_t damaged;  /**< tables of which both copies are                                    */
    uint64_t gaps;     /**< in logs                                                            */
    uint64_t first_missing; /**< position in the log of the first gap, of device `disk`        */
    uint64_t last_missing;  /**< 0 beside a gap: all is missing                                */
    uint64_t log_bytes; /**< as device `disk` has them                                         */
    uint32_t is_disk;   /**< from the superblock of device `disk`: its number ...              */
    uint32_t is_disks;  /**< ... of so many; 0: unknown                                          */
    uint32_t mixed;     /**< 1: devices of different stores; `disk` is not of the first one's  */
    uint32_t version;   /**< of the format, that device `disk` has; 0: unknown                 */
};

/** Any but opened may be NULL. The store is closed in none. */
struct snic_segments_events {
    /**
     * The end of opening; the report is borrowed. 0; SNIC_ENOENT blank, and neither BLANK
     * nor FORMAT, or the others are a store: nothing is written on it then; SNIC_EEXIST something
     * else is on the device, or a store that has lost its first pages; SNIC_EVERSION; SNIC_ECORRUPT
     * both superblocks damaged, a gap in the log, or devices of different stores; SNIC_EINVAL the
     * options are not those of the device; SNIC_ENOSPC device too small, or the cache for what is
     * in the log; SNIC_EIO. After an error only snic_segments_close() is allowed.
     */
    void (*opened)(void *ctx, int result, const struct snic_segments_report *report);
    /** While opening: the versions of these blocks are lost. blocks 0: a place whose segment is not
     * known; seg_id is its number then. */
    void (*damaged)(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block, uint32_t blocks);
    /** After SNIC_EAGAIN: try again. */
    void (*room)(void *ctx);
    /** A device is dead. */
    void (*failed)(void *ctx, uint32_t disk, int error);
    /** A read found a block damaged on the device: SNIC_ECORRUPT its data are not those that were
     * written, or the device's error. Each time it is read. */
    void (*misread)(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block, int error);
};

/* ---- Open, close ---- */

/** Which option is wrong for the devices, and how: "NAME: what", static; NULL: none. [any] */
SNIC_API const char *snic_segments_opts_wrong(struct snic_io *const *io, uint32_t disks,
                                              const struct snic_segments_opts *o)
    SNIC_NONNULL(1, 3);
/** Bytes snic_segments_open() needs, or 0 when options and devices do not fit. [any] */
SNIC_API size_t snic_segments_memsize(struct snic_io *const *io, uint32_t disks,
                                      const struct snic_segments_opts *o) SNIC_NONNULL(1, 3);
/**
 * Begin to open, or format; opened() reports the result. [owner]
 * @param[out] out  the store on success, untouched on failure
 * @param mem       owned until snic_segments_close(); aligned to SNIC_SEGMENTS_ALIGN
 * @param io        1 ... SNIC_SEGMENTS_DISKS_MAX handles, in the order of the format; the caller's,
 *                  closed after the store; their alignments are 4096 at most
 * @param e         copied
 * @return 0; SNIC_EINVAL options, devices or alignment; SNIC_EPERM a READONLY handle; SNIC_ENOSPC
 *         @p mem_size small
 */
SNIC_API SNIC_NODISCARD int snic_segments_open(struct snic_segments **out, void *mem,
                                               size_t mem_size, struct snic_io *const *io,
                                               uint32_t disks, const struct snic_segments_opts *o,
                                               const struct snic_segments_events *e, void *ctx)
    SNIC_NONNULL(1, 2, 4, 6, 7);
/**
 * Run the loop until all requests are done and the devices are silent; then the memory is the
 * caller's. At any time, while opening too. All that was answered is durable; how much the next
 * open has to replay is a matter of snic_segments_checkpoint(). [owner]
 * @return the memory
 */
SNIC_API void *snic_segments_close(struct snic_segments *s) SNIC_NONNULL(1);

/** The loop of its devices. [any] */
SNIC_API struct snic_loop *snic_segments_loop(const struct snic_segments *s) SNIC_NONNULL(1);

/* ---- Use, from opened() on ---- */

/**
 * Hand over a request; if this returns 0 it is borrowed until `done`, which comes exactly once.
 * [owner]
 * @return 0; SNIC_EAGAIN no room, room() comes; SNIC_EINVAL op, flags, count, list; SNIC_EMSGSIZE
 *         write: more than list_max blocks; SNIC_EBUSY not opened, or closing
 */
SNIC_API SNIC_NODISCARD int snic_segments_submit(struct snic_segments *s,
                                                 struct snic_segments_req *req) SNIC_NONNULL(1, 2);
/** Begin to write home all that is in the logs; done when snic_segments_info.dirty is 0. [owner] */
SNIC_API void snic_segments_checkpoint(struct snic_segments *s) SNIC_NONNULL(1);

/* ---- Views ---- */

/** A segment. */
struct snic_segments_stat {
    uint64_t seg_id;
    uint64_t vd_id;
    uint64_t base_lba;
    uint64_t min_wver; /**< the fence, 0: none */
    uint32_t gen;
    uint32_t disk;
    uint32_t damaged; /**< blocks whose version is lost */
    uint32_t pad;
};
/** Look a segment up. [owner] @return 0; SNIC_ENOENT no such segment, or not opened */
SNIC_API SNIC_NODISCARD int snic_segments_find(const struct snic_segments *s, uint64_t seg_id,
                                               struct snic_segments_stat *out) SNIC_NONNULL(1, 3);
/**
 * The next segment from @p cursor on, which begins with 0; one that exists throughout is met once.
 * [owner]
 * @return 1; 0 there is none
 */
SNIC_API int snic_segments_next(const struct snic_segments *s, uint64_t *cursor,
                                struct snic_segments_stat *out) SNIC_NONNULL(1, 2, 3);

/**
 * What each block of a segment is, durable or not: 0 it was never written, else 1 and its kind;
 * LOST and damaged ones count as DATA. O(SNIC_SEGMENTS_BLOCKS). [owner]
 * @param[out] out  SNIC_SEGMENTS_BLOCKS bytes
 * @return 0; SNIC_ENOENT no such segment
 */
SNIC_API SNIC_NODISCARD int snic_segments_states(const struct snic_segments *s, uint64_t seg_id,
                                                 uint8_t *out) SNIC_NONNULL(1, 3);

struct snic_segments_info {
    uint32_t disks;
    uint32_t dead;      /**< devices                                                            */
    uint32_t list_max;  /**< most blocks in a write                                           */
    uint32_t in_flight; /**< requests                                                        */
    uint64_t places;
    uint64_t segments;
    uint64_t cache_blocks;
    uint64_t dirty;  /**< of these: not yet home, or not yet known to be                 */
    uint64_t writes; /**< requests                                                       */
    uint64_t reads;
    uint64_t applied; /**< blocks                                                         */
    uint64_t dup;
    uint64_t superseded;
    uint64_t fenced;
    uint64_t bad_crc;
    uint64_t read_blocks;
    uint64_t read_cached;  /**< of these                                                     */
    uint64_t read_damaged; /**< of these                                                     */
    uint64_t misread;      /**< of these: reported by misread()                              */
    uint64_t rounds;       /**< of writing home                                              */
    uint64_t home_blocks;
    uint64_t home_writes; /**< theirs                                                       */
    uint64_t tables;      /**< pages of 4096 bytes, both copies                             */
    uint64_t flushes;     /**< of rounds                                                    */
    uint64_t log_bytes;   /**< written to the logs                                          */
    uint64_t log_batches;
    uint64_t log_copies; /**< records that the logs had to copy                            */
    uint64_t refused;    /**< SNIC_EAGAIN                                                  */
};
/** Sums over the devices. [owner] */
SNIC_API void snic_segments_inspect(const struct snic_segments *s, struct snic_segments_info *out)
    SNIC_NONNULL(1, 2);
/** Every invariant, between calls. For tests. [owner] @return 0; SNIC_ECORRUPT one does not hold */
SNIC_API int snic_segments_check(const struct snic_segments *s) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_SEGMENTS_H */
