/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/wal.h
 * A durable log on a device: records are appended, made durable many at a time, found again after
 * a crash in the order they were appended, and dropped once they are no longer needed.
 *
 * Depends on  snicstore/base.h, loop.h, io.h.
 * Memory      The caller supplies all of it (memsize, open); it does not depend on the size of the
 *             device. Records are copied at append.
 * Threads     The owner thread of the io handle's loop.
 * Progress    No call blocks but close. Every callback comes from the loop, never from inside a
 *             call.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       bytes, nanoseconds; a position counts records.
 * Input       What is on the device is not trusted: any bytes are judged, none crash.
 *
 * Promises
 *   Durable. When durable(up_to) comes, every record with a position up to up_to survives power
 *     loss, and so do all before it. Records not announced may survive or not; a prefix of them
 *     does: there is no record without those before it.
 *   Group commit. Appends gather while a write and its flush are under way; the next write takes
 *     all of them. A BACKGROUND record waits up to window_ns for others, or for snic_wal_flush().
 *   Found. Recovery gives records in the order of their positions, with the bytes they were
 *     appended with or not at all: each has a checksum chained to the one before, in blocks that
 *     have one, too, which name their place on the device and the use that it is in. So what is
 *     left of an earlier use, was written to the wrong place or has rotted is not taken for a
 *     record.
 *   Failure. A write or flush that fails ends the log for good, since after a failed flush it is
 *     unknown what a second one would make durable: failed() comes once, and everything returns
 *     SNIC_EIO from then on. Only a new open finds which records survived.
 *   Past the cache. After an fsync that failed the kernel marks the pages of its cache clean: they
 *     are read as if they had been written, and the next fsync succeeds without them. So recovery
 *     never takes what a cache returns for durable. A handle with SNIC_IO_CAP_DIRECT reads the
 *     device, and a flush follows. On any other handle the superblocks, the membership file, the
 *     last batch and the zeros behind it (W1 in lib/wal: all else was flushed before that batch was
 *     begun) are written again and flushed before opened() reports them; if this fails, opening
 *     fails. O_DIRECT (SNIC_IO_OPEN_TRY_DIRECT) is preferred: it rewrites nothing, and with it a
 *     write and its sync are one request.
 *   Full. The space is there from the beginning (format writes all of it), so a full log refuses
 *     appends with SNIC_ENOSPC and works otherwise. Where the file system has no space for a write
 *     nevertheless (a sparse copy of the file, a thin volume), the log fails with SNIC_ENOSPC; with
 *     SNIC_WAL_REPEAT the write is repeated until it has, and appends are refused with SNIC_ENOSPC
 *     meanwhile; room() follows. A part of the log is kept
 *     for compaction, and one for records that are TOMBSTONEs, so that there is a way out of a full
 *     log.
 *
 * What recovery reports of the end of the log (struct snic_wal_report). The device does not record
 * which of the last records had been announced. One write is under way at a time, so what a later
 * one holds proves the earlier ones durable, and leaves the last one in doubt:
 *   CLEAN    All there is is whole. (The last write may be missing as a whole if it did not reach
 *            the device: it was not announced then, or the device lied.)
 *   SUSPECT  The last write is there in part: the power went under way, or it was announced and
 *            has been damaged since. found() has had the records up to the damage.
 *   CORRUPT  Records are missing in front of some that prove that they had been durable. found()
 *            has had all that are whole, those behind the gap, too; first_missing and last_missing
 *            name the first gap. It may be that the end is in doubt as well.
 * A log that is not CLEAN can be read, its membership file read and written. It takes appends only
 * after snic_wal_accept_tail(), which cuts off the end that is in doubt: a decision that needs
 * another replica that has the records, or an operator (amendment A8). It is durable when
 * accepted() comes: the end is not in doubt again, with or without appends; but a full log may have
 * no room to record this, and then it is, at each opening until an append has found room. A gap
 * stays a gap, and the log CORRUPT whenever it is opened, until compaction has passed it.
 *
 * Compaction. When few segments are free the oldest one is read, and keep() decides for each record
 * whether it is still needed. Those are appended again at the end, with a new position and all
 * else as it was; when they are durable the segment is free. It proceeds with the appends, some
 * bytes of it for each byte of theirs, and faster when these have to wait.
 *   Why no deleted key comes back. Segments are written, compacted and written again in one order,
 *   so what recovery can find is at any time everything from some position on. For a key to come
 *   back an older record of it would have to be found without the tombstone, that is, stand behind
 *   it in the log. A key's records are appended in rising order of ts (the owner's duty), and a
 *   copy is made only while the record is the newest, before anything newer is appended. So the
 *   older one stands in front of the tombstone and is dropped before it.
 *
 * The owner's duties: records of one key are appended in rising order of ts (the same ts again is
 * allowed); keep() returns 0 only where a newer record of the key was appended to this log before,
 * or the key is forgotten for good.
 *
 * The membership file: up to SNIC_WAL_META_MAX bytes, kept twice. A new version is written to one
 * place, then to the other, then announced. A torn write leaves the older version, and one damaged
 * place loses nothing. What recovery gives is repaired first, so it does not go away again.
 *
 * The device: two superblocks, two places for the membership file, and segments used in a circle.
 * A file is made with snic_io_uring_open() and a size; the log uses io->geometry.size bytes less
 * the remainder of the last segment.
 *
 *     struct snic_wal_opts o = {.opts_size = sizeof(o), .flags = SNIC_WAL_CREATE};
 *     struct snic_wal_events e = {.opened = opened, .found = found, .durable = durable, ...};
 *     size = snic_wal_memsize(io, &o);
 *     r = snic_wal_open(&w, aligned_alloc(SNIC_WAL_ALIGN, size), size, io, &o, &e, me);
 *     // found(me, ...) for each record, then opened(me, 0, report); from there on
 *     r = snic_wal_append(w, &record, &position);
 *     // durable(me, up_to) with up_to >= position
 *     mem = snic_wal_close(w);
 */
#ifndef SNIC_WAL_H
#define SNIC_WAL_H

#include "snicstore/base.h"
#include "snicstore/io.h"
#include "snicstore/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Alignment of the memory passed to snic_wal_open(), in bytes. */
#define SNIC_WAL_ALIGN SNIC_CACHELINE
/** Most bytes of the membership file. */
#define SNIC_WAL_META_MAX 4096

/** A log; in caller memory, not to be moved. */
struct snic_wal;

/* ---- Records ---- */

/** 128 bits that name what the record is about; the log never looks at them. */
struct snic_wal_key {
    uint64_t w[2];
};

/** Stored: may use the last space of a full log. */
#define SNIC_WAL_TOMBSTONE (1u << 0)
/** Not stored: durable when convenient, within window_ns. */
#define SNIC_WAL_BACKGROUND (1u << 1)
/** Not stored: this record, too, may use the last space of a full log. For records that must be in
 * the log before deletions are possible. */
#define SNIC_WAL_LAST_SPACE (1u << 2)
/** Bits of flags that are the owner's: stored, and returned. The others are 0. */
#define SNIC_WAL_OWNER_FLAGS 0xffff0000u

struct snic_wal_record {
    struct snic_wal_key key;
    uint64_t ts;
    uint64_t scope;    /**< the owner's, stored                                      */
    uint64_t position; /**< out: 1 is the first record of the log; append ignores it */
    uint32_t flags;    /**< SNIC_WAL_*                                               */
    uint32_t epoch;    /**< the owner's, stored                                      */
    uint32_t length;   /**< of bytes, 0 ... record_max                               */
    uint32_t pad;      /**< 0                                                        */
    const void *bytes; /**< borrowed for the call; may be NULL when length is 0      */
};

/* ---- Options, callbacks ---- */

#define SNIC_WAL_CREATE (1u << 0) /**< format a blank device (all zeros); open anything else   */
#define SNIC_WAL_FORMAT (1u << 1) /**< format whatever is there: all records are gone       */
#define SNIC_WAL_NO_FUA (1u << 2) /**< write and flush even where the device has FUA        */
#define SNIC_WAL_REPEAT (1u << 3) /**< wait for space beneath the device instead of failing */

/** Zero it, set opts_size; a field that is 0 takes its default. */
struct snic_wal_opts {
    uint32_t opts_size;
    uint32_t flags;         /**< SNIC_WAL_*                                                    */
    uint32_t segment_bytes; /**< format: power of two 16 KiB ... 1 GiB, at least 16 blocks, and
                                 at least 8 of them on the device; default: 4 MiB, or the first
                                 that has room for three records                              */
    uint32_t block_bytes;   /**< format: what is written at least, never twice; power of two 512 ...
                                 65536. Default: the largest of 4096, the device's alignments and
                                 its atomic_write up to 65536; a smaller one than 4096 may, on a
                                 device with larger sectors, endanger its neighbours            */
    uint32_t record_max;  /**< most bytes of a record, at most a third of a segment; default 64 KiB
                               or 1/32 of a segment. The log copies and checks a record in one
                               step: of 8 MiB, some milliseconds                              */
    uint32_t batch_bytes; /**< of one write, multiple of block_bytes, at least 16 blocks and room
                               for a record, at most a segment and transfer_max; not less than the
                               log was formatted with; default 256 KiB, or room for a record  */
    uint32_t batches;     /**< writes under way, closed and filling, 2 ... 64; default 4. The log's
                               memory is one more than these of batch_bytes, and a record       */
    uint32_t pad;         /**< 0                                                                */
    uint64_t window_ns;   /**< how long a BACKGROUND record may wait for its write; default 2 ms */
    uint64_t uuid[2]; /**< format: names the log; any value, different ones for different logs */
};

enum snic_wal_verdict { SNIC_WAL_CLEAN = 0, SNIC_WAL_SUSPECT, SNIC_WAL_CORRUPT };

/** What recovery found. */
struct snic_wal_report {
    uint32_t verdict;   /**< enum snic_wal_verdict                                        */
    uint32_t formatted; /**< 1: the log is new                                            */
    uint64_t records;   /**< given to found()                                             */
    uint64_t bytes;     /**< theirs                                                       */
    uint64_t first;     /**< position of the first record given, 0: none                  */
    uint64_t last;      /**< of the last one                                              */
    uint64_t
        first_missing; /**< CORRUPT: positions of the first gap; 0: not known where it begins */
    uint64_t last_missing;
    uint64_t gaps;           /**< CORRUPT: how many                                           */
    uint64_t damaged_blocks; /**< in use and not readable, records lost by it or not          */
    uint32_t epoch;          /**< highest of the records given                                */
    uint32_t meta;           /**< 1: there is a membership file; 2: there was, and is lost    */
    uint64_t uuid[2];
    const char *reason; /**< of an error of the device: what failed, static; else NULL   */
};

/**
 * Any but opened, durable and failed may be NULL; without keep every record is needed. The log may
 * be used in all of them but found and keep; it is closed in none.
 */
struct snic_wal_events {
    /**
     * The end of opening; the report is borrowed. 0; SNIC_ENOENT blank and neither CREATE nor
     * FORMAT; SNIC_EEXIST there is something else on the device; SNIC_EVERSION a log of another
     * version; SNIC_ECORRUPT a log whose superblocks are both damaged; SNIC_ENOSPC the device is
     * smaller than the superblock records, or than a format needs; SNIC_EINVAL the options do not
     * fit the log or the device (record_max, batch_bytes, alignment); SNIC_EIO, or another error
     * of the device, with report->reason. After an error what found() had does not count, and only
     * snic_wal_close() is allowed.
     */
    void (*opened)(void *ctx, int result, const struct snic_wal_report *report);
    /** A record, while opening; borrowed, bytes too. */
    void (*found)(void *ctx, const struct snic_wal_record *r);
    /** All positions up to @p up_to are durable. Rising. */
    void (*durable)(void *ctx, uint64_t up_to);
    /** After append returned SNIC_EAGAIN, or compaction made room after SNIC_ENOSPC: try again. */
    void (*room)(void *ctx);
    /** The log is dead; once. SNIC_EIO, or the device's error, SNIC_ENOSPC among them when a cache
     * found no space for what it had taken; SNIC_ECORRUPT a record that is needed could not be read
     * by compaction. */
    void (*failed)(void *ctx, int error);
    /** The last snic_wal_meta_put() is durable. */
    void (*meta_stored)(void *ctx);
    /** snic_wal_accept_tail() is done: appends are taken. */
    void (*accepted)(void *ctx);
    /** Compaction: 1 if the record is still needed. @p r is borrowed, bytes too. */
    int (*keep)(void *ctx, const struct snic_wal_record *r);
};

/* ---- Open, close ---- */

/** Which option is wrong for the device, and how: "NAME: what", static; NULL: none. [any] */
SNIC_API const char *snic_wal_opts_wrong(const struct snic_io *io, const struct snic_wal_opts *o)
    SNIC_NONNULL(1, 2);
/** Bytes snic_wal_open() needs, or 0 when options and device do not fit. [any] */
SNIC_API size_t snic_wal_memsize(const struct snic_io *io, const struct snic_wal_opts *o)
    SNIC_NONNULL(1, 2);
/**
 * Begin to open, or format; opened() reports the result. [owner]
 * @param[out] out  the log on success, untouched on failure
 * @param mem       owned until snic_wal_close(); aligned to SNIC_WAL_ALIGN
 * @param io        the caller's; nothing else writes to it; closed after the log
 * @param o         copied
 * @param e         copied; @p ctx is passed to its functions
 * @return 0; SNIC_EINVAL options, device or alignment, or opened, durable or failed missing;
 *         SNIC_EPERM a READONLY handle; SNIC_ENOSPC @p mem_size small
 */
SNIC_API SNIC_NODISCARD int snic_wal_open(struct snic_wal **out, void *mem, size_t mem_size,
                                          struct snic_io *io, const struct snic_wal_opts *o,
                                          const struct snic_wal_events *e, void *ctx)
    SNIC_NONNULL(1, 2, 4, 5, 6);
/**
 * Run the loop until the device has completed all requests, without callbacks; then the memory is
 * the caller's. At any time, while opening too. What was not announced may be lost: flush first.
 * [owner]
 * @return the memory
 */
SNIC_API void *snic_wal_close(struct snic_wal *w) SNIC_NONNULL(1);

/* ---- Use, from opened() on ---- */

/**
 * Copy a record to the end of the log. [owner]
 * @param[out] position  may be NULL
 * @return 0; SNIC_EAGAIN the buffer is full, or compaction is making room: room() comes;
 *         SNIC_ENOSPC the log is full of records that are needed; room() comes only if that
 *         changes (as after TOMBSTONEs or snic_wal_compact()); SNIC_EMSGSIZE over record_max;
 *         SNIC_EINVAL flags, pad, or no bytes although length > 0; SNIC_ECORRUPT not CLEAN, and not
 *         accepted; SNIC_EBUSY not yet opened; SNIC_EIO dead
 */
SNIC_API SNIC_NODISCARD int snic_wal_append(struct snic_wal *w, const struct snic_wal_record *r,
                                            uint64_t *position) SNIC_NONNULL(1, 2);
/**
 * Does the append refused last wait for compaction? [owner]
 * @return 1; 0 it waits for a buffer, or room() has come since, or none was refused
 */
SNIC_API int snic_wal_makes_room(const struct snic_wal *w) SNIC_NONNULL(1);
/**
 * Make all that was appended so far durable as soon as possible. [owner]
 * @return its last position, which durable() will reach, if it has not been reached
 */
SNIC_API uint64_t snic_wal_flush(struct snic_wal *w) SNIC_NONNULL(1);
/** The position that durable() announced last. [owner] */
SNIC_API uint64_t snic_wal_durable(const struct snic_wal *w) SNIC_NONNULL(1);
/**
 * Records have become needless (keys were forgotten): a full log looks through its segments again.
 * Not needed after appends. [owner]
 */
SNIC_API void snic_wal_compact(struct snic_wal *w) SNIC_NONNULL(1);
/**
 * Of a log that is not CLEAN cut off the end that is in doubt, and take appends from then on.
 * Records that are missing stay so. accepted() follows. [owner]
 * @return 0; SNIC_EINVAL it is CLEAN, or accepted already; SNIC_EBUSY not yet opened; SNIC_EIO dead
 */
SNIC_API SNIC_NODISCARD int snic_wal_accept_tail(struct snic_wal *w) SNIC_NONNULL(1);

/**
 * Replace the membership file; the bytes are copied. meta_stored() follows. [owner]
 * @return 0; SNIC_EAGAIN the one before is not stored yet; SNIC_EMSGSIZE above
 *         SNIC_WAL_META_MAX; SNIC_EBUSY not yet opened; SNIC_EIO dead
 */
SNIC_API SNIC_NODISCARD int snic_wal_meta_put(struct snic_wal *w, const void *bytes,
                                              uint32_t length) SNIC_NONNULL(1);
/**
 * The membership file as last stored (or found): borrowed until the next put. [owner]
 * @return 0; SNIC_ENOENT never written; SNIC_ECORRUPT lost; SNIC_EBUSY not yet opened
 */
SNIC_API SNIC_NODISCARD int snic_wal_meta_get(const struct snic_wal *w, const void **bytes,
                                              uint32_t *length) SNIC_NONNULL(1, 2, 3);

/* ---- Views ---- */

struct snic_wal_info {
    uint32_t opened;      /**< 1: opened() reported 0                                      */
    uint32_t dead;        /**< 1: failed() came                                            */
    uint32_t writable;    /**< 1: CLEAN or accepted                                        */
    uint32_t full;        /**< 1: looked through all segments and found nothing to drop    */
    uint32_t block_bytes; /**< these as the log has them                                   */
    uint32_t segment_bytes;
    uint32_t segments;
    uint32_t segments_free;
    uint32_t segments_reserved; /**< below that many, or some more, appends wait */
    uint32_t record_max;
    uint64_t appended;      /**< the last position given                                     */
    uint64_t durable;       /**< the last one announced                                      */
    uint64_t records;       /**< appended by the owner since open                            */
    uint64_t record_bytes;  /**< theirs                                                      */
    uint64_t copies;        /**< made by compaction                                          */
    uint64_t copied_bytes;  /**< theirs                                                      */
    uint64_t dropped;       /**< records that compaction did not copy                        */
    uint64_t compacted;     /**< segments                                                    */
    uint64_t batches;       /**< writes                                                      */
    uint64_t batch_bytes;   /**< theirs: blocks                                              */
    uint64_t flushes;       /**< or writes with FUA                                          */
    uint64_t refused_again; /**< appends: SNIC_EAGAIN                                        */
    uint64_t refused_full;  /**< appends: SNIC_ENOSPC                                        */
    uint64_t metas;         /**< membership files stored                                     */
    uint64_t starved;       /**< writes for which there was no space beneath the device      */
    uint64_t opening_bytes; /**< while opening: bytes read, or written by a format            */
    uint64_t opening_total; /**< of so many, at most; it falls when the end has been found    */
};
/** Counters and sizes; those of the log are 0 until it is opened. [owner] */
SNIC_API void snic_wal_inspect(const struct snic_wal *w, struct snic_wal_info *out)
    SNIC_NONNULL(1, 2);
/** Every invariant, between calls. For tests. [owner] @return 0; SNIC_ECORRUPT one does not hold */
SNIC_API int snic_wal_check(const struct snic_wal *w) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_WAL_H */
