/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The simulated medium behind io/mem: what disk.c and mem.c share.
 */
#ifndef SNIC_IO_DISK_PRIV_H
#define SNIC_IO_DISK_PRIV_H

#include "snicstore/io.h"

#define SNIC_DISK__FAULTS 64
#define SNIC_DISK__LOST UINT64_MAX /* in `written`: D3 */

/**
 * Two images in one: `visible` is what reads see; `undo` holds, for un-synced
 * sectors only, what is durable. All tables are calloc'ed and sparse: a page
 * costs memory when it is first written.
 *
 *   D1 A sector is un-synced iff its bit in `dirty` is set; unsynced counts them,
 *      and all of them lie in [dirty_first, dirty_end).
 *   D2 The durable content of an un-synced sector is in undo, that of any other
 *      is in visible.
 *   D3 written[s] is the value of `writes` when an un-synced sector was last
 *      written; SNIC_DISK__LOST if the flush that covered it failed: no flush makes it
 *      durable, only another write and its flush.
 *   D4 A sector whose bit in `touched` is clear is all zero in undo, and in
 *      visible unless `exposed`: a pointer to visible was handed out.
 */
struct snic_disk {
    struct snic_disk_opts opts;
    struct snic_rng rng;
    uint64_t sectors;
    uint64_t words; /* of a bit map */
    unsigned char *visible;
    unsigned char *undo;
    uint64_t *dirty;
    uint64_t *touched;
    uint64_t *written;
    uint64_t writes;
    uint64_t unsynced;
    uint64_t dirty_first;
    uint64_t dirty_end;
    uint64_t op_count;
    uint64_t flush_after; /* latest `writes` that a flush under way covers */
    uint32_t flushes;     /* under way */
    uint32_t faults_count;
    uint32_t exposed;
    struct snic_fault faults[SNIC_DISK__FAULTS];
    struct snic_link handles; /* struct io_mem */
};

/** What the fault plan has in store for one request. kind 0: nothing but a delay. */
struct disk_verdict {
    uint32_t kind;
    int32_t error;
    uint64_t bytes;
    uint64_t seed;
    uint64_t delay_ns;
};

/** Count @p req against every fault and take what fires. */
struct disk_verdict disk_judge(struct snic_disk *d, const struct snic_io_req *req);
/** Write the first @p bytes of the request's pieces into the visible image. */
void disk_write(struct snic_disk *d, const struct snic_io_req *req, uint64_t bytes);
/** Read the first @p bytes into the request's pieces. */
void disk_read(const struct snic_disk *d, const struct snic_io_req *req, uint64_t bytes);
/** Fill a range of the visible image. */
void disk_fill(struct snic_disk *d, uint64_t offset, uint64_t size, unsigned char byte);
/** A flush begins: what it will cover. */
uint64_t disk_flush_begin(struct snic_disk *d);
/** A flush ends; it makes durable what @p covers stands for, if @p done. */
void disk_flush_end(struct snic_disk *d, uint64_t covers, uint64_t offset, uint64_t size, int done);
/** SNIC_FAULT_LOST: the un-synced sectors of the range (size 0: all) that @p covers stands for. */
void disk_lose(struct snic_disk *d, uint64_t covers, uint64_t offset, uint64_t size, uint64_t seed);
/** Make the sectors that the range touches durable, but for lost ones. */
void disk_settle(struct snic_disk *d, uint64_t offset, uint64_t size);
/** The power cut: un-synced sectors survive or not, by @p seed; none is un-synced afterwards. */
void disk_cut(struct snic_disk *d, struct snic_rng *rng, uint64_t seed);
/** The same; those of the list survive. */
void disk_cut_keep(struct snic_disk *d, const uint64_t *keep, uint64_t n);
/** A write in flight at the power cut: each sector reaches the medium by the toss of a coin. */
void disk_cut_write(struct snic_disk *d, const struct snic_io_req *req, struct snic_rng *rng,
                    uint64_t seed);

#endif /* SNIC_IO_DISK_PRIV_H */
