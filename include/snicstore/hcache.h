/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/hcache.h
 * The hybrid cache of DPC (section 3.3): file pages in host memory, looked up and filled by the
 * host's threads (data plane), replaced, flushed and prefetched by the DPU (control plane), which
 * reaches them by DMA and atomics only. A hit costs no DMA and no system call.
 *
 * Depends on  snicstore/base.h only.
 * Memory      The region: one caller block, position independent, formatted by snic_hcache_init().
 *             Host handles and the control engine live in caller memory of their own. Nothing is
 *             allocated.
 * Threads     One host handle or engine, one thread at a time; any number of [host] handles (254)
 *             and one [control] engine at once. [owner]: no other call on the region running.
 * Progress    No call sleeps, spins without bound or makes a system call. What another one holds
 *             is answered with SNIC_EBUSY, what the control plane has yet to do with SNIC_EAGAIN.
 * Errors      0 or a positive value on success, a negative SNIC_E* otherwise; then nothing changed,
 *             unless documented otherwise.
 * Units       lpn and counts are pages, sizes and offsets bytes, times nanoseconds.
 * Input       Hostile: the other side may write anything into the region at any time. Each side
 *             takes the geometry once, computes all places from it, follows no index that it reads
 *             and gives up after a bounded number of lost races. Page contents are trusted as far
 *             as the processes that may write them.
 *
 * The region. Header {pagesize, mode, total, free}, meta area, data area, as in the paper; then
 * what the paper does not have: a map with one bit per bucket that needs the control plane's look.
 * The meta area is a hash table: <inode, lpn> selects a bucket, every bucket has `ways` entries,
 * linked by `next`; entry i is page i for ever. A bucket begins with its head: a guard word (who
 * inserts here) and one 16-bit tag per entry, so that a look-up touches two lines. Neighbouring
 * pages of a file lie in neighbouring buckets, so that sequences fill them evenly. An entry is 32
 * bytes:
 *
 *   0   u64 state  the paper's lock and status with what else must change together with them:
 *                  bits 0-1   lock    0 none, 1 write, 2 read, 3 invalid
 *                       2-3   status  0 free, 1 clean, 2 dirty, 3 invalid
 *                       4-13  host readers         14    the DPU reads (a flush pulls the page)
 *                       15    FLIGHT: what was pulled is on its way to the store
 *                       16    VICTIM: clean, and may be replaced when an entry is needed
 *                       17    AHEAD: the next hit asks for more prefetching
 *                       18-19 hits since the control plane looked, at most 3
 *                       20    AGAIN: written while in FLIGHT
 *                       21    PREFETCHED and not hit yet
 *                       22    UNMARKED: dirty, and the bucket's bit on the map is yet to be set
 *                       24-31 owner of the write lock (255: the DPU), 32-39 its epoch
 *                       40-63 version: a new one with each write lock
 *   8   u32 next
 *   12  u32 end    bytes of the page written since it was inserted, 0 if unknown: those behind are
 *                  the store's own, or zeroes behind the end of the file
 *   16  u64 lpn    24  u64 inode: these three are changed by the holder of the write lock only
 *
 *   A write lock needs lock none; a read lock needs none or read. lock is read while there is any
 *   reader. Status invalid: the content is being fetched, or is out of date; only together with a
 *   write lock. Lock and status both invalid: the entry is out of service and never touched.
 *
 * The rules that make it correct
 *   One page, one entry. Only the holder of the bucket's guard inserts, and it looks again first.
 *   No lost update. A flush pulls the page under a read lock (DPU bit) and sets FLIGHT, then lets
 *     writers in while the store is written. A writer that ends sets AGAIN if FLIGHT is there. The
 *     flush ends in one atomic step: without AGAIN dirty becomes clean, with it it stays dirty.
 *     One page has one flight at a time.
 *   No stale read after a write. What is not cached is in the store: only clean pages without
 *     flight are replaced. A fill (read miss, prefetch) holds the entry, write-locked and invalid,
 *     before it reads the store, and until the content is there; so does a direct write.
 *   No torn page. Contents are touched only under a lock, and the write lock of a dead host means
 *     that the content is torn: such a page is dropped.
 *   fsync is durable. The control plane flushes every page of the file that was dirty when EV_FSYNC
 *     came, and then asks for the store's sync. A thread that writes a page which another thread
 *     has made dirty does not depend on that one having set the bucket's bit: UNMARKED.
 *   Replacement without a write per hit: the read lock's own step counts the hit. The control
 *     plane marks victims in advance (`reserve` per bucket) and the host replaces one without
 *     asking; a victim that is hit is none any more.
 *
 * File operations on the host
 *   read         get or read; SNIC_ENOENT: lock with FILL, read the store into the page, unlock
 *                FILLED (or DROP when that failed).
 *   write        lock; if it answers NEW, the page must be filled or written whole; unlock DIRTY.
 *   direct write lock each page with DIRECT, whole pages only, write the store, unlock with DROP.
 *   direct read  get each page; read the store for those that are not there.
 *   truncate     snic_hcache_drop() behind the new end (the page that it cuts is written, with
 *                zeroes, like any other), truncate the store, drop again: what a reader has filled
 *                between the two goes as well.
 *   unlink       drop everything of the inode when its last user is gone.
 *   fsync        pass SNIC_HCACHE_EV_FSYNC to the engine; it answers SNIC_HCACHE_ACT_SYNC.
 *   Locks of several pages are taken in ascending order of lpn, or released on SNIC_EBUSY.
 *
 * Death. A side is a process: all host handles die together. When it is *certified* dead (the dma
 * door's death event, never a time-out) snic_hcache_recover() or the engine's EV_HOST_DEAD takes
 * its locks away:
 *   host dead: write-locked pages are torn and dropped; its read locks and guards are released;
 *     dirty pages that were not locked are whole and are flushed as usual, if the region survives.
 *     What was fsynced is in the store. Lost at most: what a crash of the host would lose.
 *     If the region is used again, drop behind the end of each truncation that was under way: a
 *     page filled from before it may be cached, as its second drop was not done.
 *   DPU dead (its store writes are over or fenced): pages that it was filling are dropped, its read
 *     locks, flights and guards are released; what was dirty stays dirty and is flushed by the
 *     next engine, which looks at every bucket first. Nothing is lost.
 * Recovery may itself die at any step and be run again. A lock that was taken away is not released
 * twice: unlock checks owner and epoch and returns SNIC_ESTALE.
 * `free` counts entries of status free; each death may leave it off by one per handle and job,
 * until snic_hcache_recover() for the host runs while no engine works.
 */
#ifndef SNIC_HCACHE_H
#define SNIC_HCACHE_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Alignment of the region; page_bytes if that is larger. */
#define SNIC_HCACHE_ALIGN 4096
/** Bytes at the start of the region that describe it and never change. */
#define SNIC_HCACHE_HEADER_BYTES 128
#define SNIC_HCACHE_OFF_FREE 128 /**< u64: free entries                                     */
#define SNIC_HCACHE_OFF_WAIT 256 /**< u64: counts host threads that began to wait           */
#define SNIC_HCACHE_OFF_MAP 384  /**< u64 words: one bit per bucket                         */
#define SNIC_HCACHE_HEAD_BYTES 64
#define SNIC_HCACHE_ENTRY_BYTES 32
#define SNIC_HCACHE_WAYS_MAX 16

/** The paper's values. */
enum snic_hcache_lock {
    SNIC_HCACHE_LOCK_NONE = 0,
    SNIC_HCACHE_LOCK_WRITE = 1,
    SNIC_HCACHE_LOCK_READ = 2,
    SNIC_HCACHE_LOCK_INVALID = 3
};
enum snic_hcache_status {
    SNIC_HCACHE_FREE = 0,
    SNIC_HCACHE_CLEAN = 1,
    SNIC_HCACHE_DIRTY = 2,
    SNIC_HCACHE_INVALID = 3
};
/** opts.mode, the paper's values: a read cache takes no dirty pages. */
#define SNIC_HCACHE_MODE_READ 0u
#define SNIC_HCACHE_MODE_WRITE 1u

/* ---- The region ---- */

/** Zero the struct, then set opts_size and pages; 0 elsewhere is a default. */
struct snic_hcache_opts {
    uint32_t opts_size;
    uint32_t page_bytes; /**< power of two 512..65536; 4096                                 */
    uint32_t ways;       /**< entries per bucket: 1..16; 16                                 */
    uint32_t mode;       /**< SNIC_HCACHE_MODE_*; as it stands, 0 is a read cache           */
    uint64_t pages;      /**< a multiple of ways, at most 2^31                              */
    uint64_t seed;       /**< of the hash                                                   */
};

/** The fields of a header, checked. */
struct snic_hcache_info {
    uint32_t page_bytes;
    uint32_t ways;
    uint32_t mode;
    uint32_t bucket_bytes; /**< SNIC_HCACHE_HEAD_BYTES + ways * SNIC_HCACHE_ENTRY_BYTES      */
    uint64_t pages;
    uint64_t buckets;
    uint64_t seed;
    uint64_t map_bytes;
    uint64_t meta_offset;
    uint64_t data_offset;
    uint64_t memory_bytes;
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_hcache_opts_wrong(const struct snic_hcache_opts *o) SNIC_NONNULL(1);
/** Bytes of the region for @p o, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_hcache_memsize(const struct snic_hcache_opts *o) SNIC_NONNULL(1);
/**
 * Format @p mem, the caller's: everything free. Touches all of the meta area, none of the data
 * area. @p o is borrowed for the call. [owner]
 * @return 0; SNIC_EINVAL bad option or alignment; SNIC_ENOSPC @p mem_size small
 */
SNIC_API SNIC_NODISCARD int snic_hcache_init(void *mem, size_t mem_size,
                                             const struct snic_hcache_opts *o) SNIC_NONNULL(1, 3);
/**
 * Read and check the SNIC_HCACHE_HEADER_BYTES at @p header (copied once), as found at the start of
 * a region of @p mem_size bytes, mapped or fetched. [any]
 * @return 0; SNIC_EVERSION magic or version; SNIC_ECORRUPT geometry that does not add up;
 *         SNIC_ENOSPC @p mem_size smaller than the region
 */
SNIC_API SNIC_NODISCARD int snic_hcache_geometry(const void *header, uint64_t mem_size,
                                                 struct snic_hcache_info *out) SNIC_NONNULL(1, 3);

/** A trusted copy of the geometry. Private. */
struct snic_hcache__geo {
    unsigned char *base; /**< NULL when remote */
    uint64_t pages;
    uint64_t buckets;
    uint64_t seed;
    uint64_t meta_offset;
    uint64_t data_offset;
    uint32_t page_bytes;
    uint32_t page_shift;
    uint32_t ways;
    uint32_t bucket_bytes;
    uint32_t mode;
    uint32_t reserved;
};

/* ---- Host: data plane ---- */

/** Counters of one handle; plain adds. */
struct snic_hcache_host_stats {
    uint64_t hits;     /**< locks of pages that were there                                  */
    uint64_t misses;   /**< look-ups that found nothing                                     */
    uint64_t inserts;  /**< entries taken, of which                                         */
    uint64_t replaced; /**< were victims                                                    */
    uint64_t full;     /**< SNIC_EAGAIN: no entry free and no victim                        */
    uint64_t busy;     /**< SNIC_EBUSY answers                                              */
    uint64_t useful;   /**< first hits of prefetched pages                                  */
};

/** One thread's handle. All fields private but stats. */
struct snic_hcache_host {
    struct snic_hcache__geo g;
    uint32_t owner;
    uint32_t epoch;
    struct snic_hcache_host_stats stats;
};

/** A locked page. Valid until put or unlock. */
struct snic_hcache_page {
    void *data; /**< page_bytes                                                              */
    uint64_t ino;
    uint64_t lpn;
    uint64_t entry; /**< private: where its entry is                                         */
    uint32_t index; /**< of entry and page                                                   */
    uint32_t flags; /**< SNIC_HCACHE_AHEAD, SNIC_HCACHE_NEW                                  */
    uint32_t held;  /**< private: 0, or the kind of lock                                     */
    uint32_t end;   /**< of a write lock: the entry's end. A writer may raise it, and lowers it
                         where a truncation cuts the page; unlock keeps it with the page      */
};

/** page.flags: this page was reached; pass SNIC_HCACHE_EV_AHEAD to the engine. */
#define SNIC_HCACHE_AHEAD (1u << 0)
/** page.flags: the page was not there; its content is undefined. */
#define SNIC_HCACHE_NEW (1u << 1)

/**
 * Attach a handle. @p owner 1..254 is unique among this process's handles; @p epoch (low 8 bits
 * kept) is the number of this incarnation of the host side: one more after each recovery. @p mem
 * stays the caller's, and there until the handle is dropped. [any]
 * @return 0; SNIC_EINVAL owner or alignment; SNIC_ENOSPC @p mem_size smaller than the region;
 *         SNIC_EVERSION magic or version; SNIC_ECORRUPT geometry that does not add up
 */
SNIC_API SNIC_NODISCARD int snic_hcache_host_attach(struct snic_hcache_host *h, void *mem,
                                                    size_t mem_size, uint32_t owner, uint64_t epoch)
    SNIC_NONNULL(1, 2);

/**
 * Find the page and read-lock it; what the last writer wrote is visible. [host]
 * @return 0 and *page; SNIC_ENOENT not cached; SNIC_EBUSY it is being written or filled, or 1023
 *         threads read it: try again soon
 */
SNIC_API SNIC_NODISCARD int snic_hcache_get(struct snic_hcache_host *h, uint64_t ino, uint64_t lpn,
                                            struct snic_hcache_page *page) SNIC_NONNULL(1, 4);
/** Give a read lock back. [host] @return 0; SNIC_ESTALE it was taken away (recovery) */
SNIC_API SNIC_NODISCARD int snic_hcache_put(struct snic_hcache_host *h,
                                            struct snic_hcache_page *page) SNIC_NONNULL(1, 2);

/** lock: find only, SNIC_ENOENT when the page is not there. */
#define SNIC_HCACHE_PRESENT (1u << 0)
/** lock: only a page that is not there, SNIC_EEXIST when it is: for a fill after a read miss. */
#define SNIC_HCACHE_FILL (1u << 1)
/** lock: not while an earlier content is on its way to the store (SNIC_EBUSY): for a direct write,
 *  which that would overtake, and which no flush begins under. */
#define SNIC_HCACHE_DIRECT (1u << 2)
/**
 * Write-lock the page, inserting it if it is not there: then page->flags has SNIC_HCACHE_NEW, the
 * content is undefined, and no other handle sees the page before unlock. [host]
 * @param flags  0, SNIC_HCACHE_PRESENT, SNIC_HCACHE_FILL or SNIC_HCACHE_DIRECT
 * @return 0 and *page; SNIC_EBUSY the page is locked, or its bucket's guard is; SNIC_EAGAIN no
 *         entry free and no victim: ring the control plane's doorbell (EV_KICK), then wait or go
 *         to the store without the cache, holding nothing; SNIC_ENOENT PRESENT, and the page is
 *         not there; SNIC_EEXIST FILL, and it is; SNIC_EINVAL flags
 */
SNIC_API SNIC_NODISCARD int snic_hcache_lock(struct snic_hcache_host *h, uint64_t ino, uint64_t lpn,
                                             uint32_t flags, struct snic_hcache_page *page)
    SNIC_NONNULL(1, 5);

enum snic_hcache_how {
    SNIC_HCACHE_UNLOCK_KEEP = 0,   /**< not changed; a NEW page is dropped                   */
    SNIC_HCACHE_UNLOCK_FILLED = 1, /**< a NEW page now has the store's content               */
    SNIC_HCACHE_UNLOCK_DIRTY = 2,  /**< written                                              */
    SNIC_HCACHE_UNLOCK_DROP = 3    /**< out of date: forget it                               */
};
/**
 * Give a write lock back. [host]
 * @return 0; SNIC_ESTALE the lock was taken away (recovery); SNIC_EBUSY DROP, and an earlier
 *         content is still on its way to the store: the lock is kept, try again; SNIC_EROFS DIRTY
 *         in a read cache, SNIC_EINVAL @p how: the lock is kept
 */
SNIC_API SNIC_NODISCARD int snic_hcache_unlock(struct snic_hcache_host *h,
                                               struct snic_hcache_page *page,
                                               enum snic_hcache_how how) SNIC_NONNULL(1, 2);

/**
 * get, copy @p bytes from @p offset of the page, put. Copy. [host]
 * @return 0 copied; SNIC_HCACHE_AHEAD (> 0) copied, and the control plane is to be notified
 *         (EV_AHEAD); SNIC_ENOENT the page is not there; SNIC_EBUSY it is write-locked, or the
 *         lock was taken away (recovery); SNIC_EINVAL beyond the page
 */
SNIC_API SNIC_NODISCARD int snic_hcache_read(struct snic_hcache_host *h, uint64_t ino, uint64_t lpn,
                                             uint32_t offset, uint32_t bytes, void *out)
    SNIC_NONNULL(1, 6);

/** One of many reads. */
struct snic_hcache_req {
    uint64_t ino;
    uint64_t lpn;
    uint32_t offset;
    uint32_t bytes;
    void *out;
    int result; /**< out: results as snic_hcache_read()                                      */
    uint32_t reserved;
};
/**
 * Many reads at once; the look-ups and the pages are prefetched a few ahead of the copies. [host]
 * @return how many were copied; in each req->result, results as snic_hcache_read()
 */
SNIC_API SNIC_NODISCARD uint32_t snic_hcache_read_n(struct snic_hcache_host *h,
                                                    struct snic_hcache_req *reqs, uint32_t n)
    SNIC_NONNULL(1, 2);

/**
 * Drop the pages of @p ino from *lpn to @p last, clean or dirty; unwritten content is lost, as
 * truncation and unlink want it. *lpn moves to the first page that was not dealt with. Looks up
 * page by page, or walks the table where that is shorter (*lpn then stays). [host]
 * @return 0 none of them is cached any more; SNIC_EBUSY one is locked or on its way to the store:
 *         wait a little and call again
 */
SNIC_API SNIC_NODISCARD int snic_hcache_drop(struct snic_hcache_host *h, uint64_t ino,
                                             uint64_t *lpn, uint64_t last) SNIC_NONNULL(1, 3);
/**
 * Before a thread sleeps on SNIC_EBUSY or SNIC_EAGAIN: ask the control plane for
 * SNIC_HCACHE_ACT_WAKE after its next step, then try once more and sleep only if that fails too.
 * A thread that waits for another host thread is not woken by it: bound the sleep. [host]
 */
SNIC_API void snic_hcache_wait_arm(struct snic_hcache_host *h) SNIC_NONNULL(1);

/**
 * How many pages are dirty: reads the state of every entry (32 bytes a page), so not for each
 * request. Others may work meanwhile; each entry counts as it was at some moment of the call.
 * [host]
 */
SNIC_API uint64_t snic_hcache_dirty(const struct snic_hcache_host *h) SNIC_NONNULL(1);

/* ---- Recovery and check ---- */

enum snic_hcache_side { SNIC_HCACHE_HOST = 1, SNIC_HCACHE_DPU = 2 };
/**
 * @p side is certified dead: take its locks away, in mapped memory, while the other side works on.
 * Run to its end, again if it died, before the dead side is back. [any] One call at a time.
 * @return entries changed; SNIC_EINVAL side or alignment; SNIC_EAGAIN the other side kept changing
 *         an entry: call again; SNIC_ENOSPC @p mem_size smaller than the region; SNIC_EVERSION
 *         magic or version; SNIC_ECORRUPT geometry that does not add up
 */
SNIC_API SNIC_NODISCARD int snic_hcache_recover(void *mem, size_t mem_size,
                                                enum snic_hcache_side side) SNIC_NONNULL(1);

struct snic_hcache_counts {
    uint64_t free, clean, dirty, invalid; /**< by status                                     */
    uint64_t write_locked, read_locked;
    uint64_t flights, victims, guards;
    uint64_t header_free; /**< the header's `free`                                           */
};
/**
 * Every structural invariant that holds at any time: states that make sense, chains, keys in their
 * buckets and under their tags, no key twice. Counts what it finds if @p counts is not NULL.
 * [owner]
 * @return 0; SNIC_ECORRUPT one does not hold, or @p mem is no region of that size
 */
SNIC_API SNIC_NODISCARD int snic_hcache_check(const void *mem, size_t mem_size,
                                              struct snic_hcache_counts *counts) SNIC_NONNULL(1);

/* ---- Replacement: a policy sees one bucket ---- */

#define SNIC_HCACHE_WAY_USED (1u << 0)   /**< holds a page                                   */
#define SNIC_HCACHE_WAY_IDLE (1u << 1)   /**< clean and not locked: can be a victim now      */
#define SNIC_HCACHE_WAY_VICTIM (1u << 2) /**< is marked already                              */

/** An entry as the policy sees it. */
struct snic_hcache_way {
    uint32_t print; /**< fingerprint of its key, 1..65535                                    */
    uint8_t hits;   /**< since they were set last, 0..3; the policy may set it               */
    uint8_t flags;  /**< SNIC_HCACHE_WAY_*                                                   */
    uint16_t reserved;
};

/** A table of functions; all state is in @p state, per bucket. */
struct snic_hcache_policy {
    uint32_t ops_size;
    uint32_t state_bytes; /**< per bucket, at most SNIC_HCACHE_POLICY_BYTES                  */
    const char *name;
    /**
     * The bucket was looked at: account for pages inserted and removed since, then name up to
     * @p want entries to evict first, besides those that are victims already. Entries that are not
     * IDLE may be named: those are flushed first. Zeroed state is an empty bucket.
     * @return a bit per entry
     */
    uint32_t (*choose)(void *state, struct snic_hcache_way *ways, uint32_t n, uint32_t want);
};
#define SNIC_HCACHE_POLICY_BYTES 256

/** Scan resistant; see lib/hcache/replace.c. The default. [any] */
SNIC_API const struct snic_hcache_policy *snic_hcache_policy_default(void);
/** CLOCK with one second chance. [any] */
SNIC_API const struct snic_hcache_policy *snic_hcache_policy_clock(void);
/**
 * The bucket and the fingerprint of a key in @p buckets buckets: for simulations that want the
 * cache's own placement. [any]
 */
SNIC_API uint64_t snic_hcache_place(uint64_t seed, uint64_t buckets, uint64_t ino, uint64_t lpn,
                                    uint32_t *print) SNIC_NONNULL(5);

/* ---- Sealing: what happens to a page between cache and store ---- */

/**
 * Checksums (the paper's DIF) and compression. Each function may be NULL. They run on the engine's
 * copies in its memory, with @p ctx of the options.
 */
struct snic_hcache_seal {
    uint32_t ops_size;
    uint32_t reserved; /**< 0 */
    const char *name;
    /** Checksum of a page's content and place. */
    uint32_t (*sum)(void *ctx, uint64_t ino, uint64_t lpn, const void *page, uint32_t bytes);
    /** Compress into @p out, which holds @p bytes: bytes written, 0 it does not get smaller. */
    uint32_t (*pack)(void *ctx, const void *page, uint32_t bytes, void *out);
    /** The inverse: 0, or SNIC_ECORRUPT. */
    int (*unpack)(void *ctx, const void *packed, uint32_t packed_bytes, void *page, uint32_t bytes);
};
/** CRC32C over inode, lpn and content; nothing else. The default. [any] */
SNIC_API const struct snic_hcache_seal *snic_hcache_seal_crc(void);

/* ---- DPU: control plane, an engine without I/O ---- */

/** The engine; in caller memory, not to be moved. */
struct snic_hcache_control;

/** Zero it, set opts_size; a field that is 0 takes its default. */
struct snic_hcache_control_opts {
    uint32_t opts_size;
    uint32_t jobs;         /**< pages and buckets worked on at once, 2..1024; 64. Each takes
                                two pages and a bucket of memory                             */
    uint32_t reserve;      /**< free entries and victims kept per bucket; an eighth of ways  */
    uint32_t prefetch_max; /**< most pages of a batch ahead of a stream, of two batches at most;
                                0: 64; SNIC_HCACHE_NO_PREFETCH; fewer while many of them are
                                evicted without a hit                                        */
    uint64_t look_ns;      /**< between looks at the map; 2 ms                               */
    uint64_t flush_ns;     /**< how long a page may stay dirty; 50 ms                        */
    uint64_t retry_ns;     /**< before something held by the host is tried again; 20 us      */
    uint64_t epoch;        /**< of this incarnation, low 8 bits kept                         */
    const struct snic_hcache_policy *policy; /**< NULL: the default                          */
    const struct snic_hcache_seal *seal;     /**< NULL: snic_hcache_seal_crc()               */
    void *seal_ctx;
    uint32_t unordered; /**< 1: the bytes of one DMA read come in any order (without dma.h's
                             ORDERED_READ); then buckets are read twice, keys behind states    */
    uint32_t reserved;  /**< 0                                                               */
};
#define SNIC_HCACHE_NO_PREFETCH UINT32_MAX
/** The two sides of prefetch bookkeeping: streams followed at once, fsyncs waited for at once. */
#define SNIC_HCACHE_STREAMS 32
#define SNIC_HCACHE_FSYNCS 64

enum snic_hcache_op_kind {
    SNIC_HCACHE_OP_READ = 1, /**< the numbers of snicstore/dma.h                             */
    SNIC_HCACHE_OP_WRITE = 2,
    SNIC_HCACHE_OP_CAS = 3,
    SNIC_HCACHE_OP_ADD = 4
};
#define SNIC_HCACHE_OP_ORDERED (1u << 0)
#define SNIC_HCACHE_OP_FENCE (1u << 1)

/** One DMA operation between the engine's memory and the region; see snicstore/dma.h. */
struct snic_hcache_op {
    uint32_t kind;
    uint32_t flags;
    uint64_t offset; /**< in the region                                                      */
    void *local;     /**< in the engine's memory                                             */
    uint64_t bytes;
    uint64_t compare;
    uint64_t operand;
    uint64_t value; /**< out, atomics: the word before                                       */
};
/** Most operations of one action. */
#define SNIC_HCACHE_OPS_MAX 18

enum snic_hcache_event_kind {
    SNIC_HCACHE_EV_NONE = 0,     /**< time passed                                            */
    SNIC_HCACHE_EV_DMA = 1,      /**< id: the batch is complete; result 0 or an error        */
    SNIC_HCACHE_EV_FLUSHED = 2,  /**< id: the store has the page (not necessarily synced)    */
    SNIC_HCACHE_EV_FETCHED = 3,  /**< id: bytes, sum of what was read; SNIC_ENOENT: nothing
                                      there (beyond the end)                                 */
    SNIC_HCACHE_EV_FSYNC = 4,    /**< id (the caller's), ino                                 */
    SNIC_HCACHE_EV_MISS = 5,     /**< the host read count pages from lpn from the store      */
    SNIC_HCACHE_EV_AHEAD = 6,    /**< the host reached a marked page: ino, lpn               */
    SNIC_HCACHE_EV_KICK = 7,     /**< doorbell: look now                                     */
    SNIC_HCACHE_EV_HOST_DEAD = 8 /**< certified                                              */
};

struct snic_hcache_event {
    uint32_t kind;
    int32_t result;
    uint64_t id;
    uint64_t ino;
    uint64_t lpn;
    uint32_t count;  /**< MISS                                                               */
    uint32_t bytes;  /**< FETCHED: as stored; page_bytes, or less if packed                  */
    uint32_t sum;    /**< FETCHED: the sum that was stored with it                           */
    uint32_t summed; /**< FETCHED: 1 if there is one                                         */
};

enum snic_hcache_action_kind {
    SNIC_HCACHE_ACT_DMA = 1,      /**< carry out ops, then EV_DMA with id                       */
    SNIC_HCACHE_ACT_FLUSH = 2,    /**< write data (bytes) with sum as page lpn of ino, then
                                       EV_FLUSHED with id; data is borrowed until then          */
    SNIC_HCACHE_ACT_FETCH = 3,    /**< read page lpn of ino into data (page_bytes), zeroes behind
                                       the end; then EV_FETCHED with id                         */
    SNIC_HCACHE_ACT_SYNC = 4,     /**< fsync id: its pages are written (result 0) or one failed;
                                       sync the store for ino, then answer                      */
    SNIC_HCACHE_ACT_WAKE = 5,     /**< ring the host's doorbell: threads wait                   */
    SNIC_HCACHE_ACT_RECOVERED = 6 /**< nothing of the dead side (id) is left                 */
};

struct snic_hcache_action {
    uint32_t kind;
    int32_t result;
    uint64_t id;
    uint64_t ino;
    uint64_t lpn;
    void *data;
    uint32_t bytes;
    uint32_t sum;
    struct snic_hcache_op *ops;
    uint32_t count;
    uint32_t packed; /**< FLUSH: data is what seal->pack made                                */
    uint32_t end;    /**< FLUSH: bytes of the page that the store needs, 1..page_bytes       */
    uint32_t reserved;
};

struct snic_hcache_control_stats {
    uint64_t looks, visits, dmas; /**< dmas: operations                                      */
    uint64_t flushes, flush_failures, flush_again; /**< again: rewritten on the way          */
    uint64_t victims, prefetched, prefetch_dropped, fsyncs;
    uint64_t lost_races, recovered, bad_sums;
    uint64_t dirty_age_max_ns; /**< the longest from seen dirty to flushed                   */
};

/** Bytes of an engine for a region, or 0 when options or geometry are invalid. [any] */
SNIC_API size_t snic_hcache_control_memsize(const struct snic_hcache_info *info,
                                            const struct snic_hcache_control_opts *o)
    SNIC_NONNULL(1, 2);
/**
 * An engine in @p mem (SNIC_CACHELINE-aligned; the DMA door must reach it) for the region whose
 * checked header is @p info. It looks at every bucket first and takes the locks of a DPU before it
 * away: that one must be certified dead; RECOVERED reports when that is done, and work continues
 * meanwhile. @p mem is owned until fini; @p info and @p o are copied. [owner]
 * @return 0; SNIC_EINVAL options, geometry or alignment; SNIC_ENOSPC @p mem_size small
 */
SNIC_API SNIC_NODISCARD int snic_hcache_control_init(struct snic_hcache_control **out, void *mem,
                                                     size_t mem_size,
                                                     const struct snic_hcache_info *info,
                                                     const struct snic_hcache_control_opts *o,
                                                     uint64_t now_ns) SNIC_NONNULL(1, 2, 4, 5);
/** Forget it; what it still holds in the region is for recovery. Returns its memory. [control] */
SNIC_API void *snic_hcache_control_fini(struct snic_hcache_control *c) SNIC_NONNULL(1);
/**
 * Something happened. [control]
 * @return 0; SNIC_EAGAIN FSYNC: SNIC_HCACHE_FSYNCS wait; SNIC_ENOENT DMA, FLUSHED, FETCHED: no
 *         such id; SNIC_EINVAL kind; SNIC_EPEERDEAD a DMA batch has failed: the engine does
 *         nothing any more
 */
SNIC_API SNIC_NODISCARD int snic_hcache_control_step(struct snic_hcache_control *c,
                                                     const struct snic_hcache_event *ev,
                                                     uint64_t now_ns) SNIC_NONNULL(1, 2);
/** Take up to @p max actions, to be started in this order. [control] @return how many */
SNIC_API SNIC_NODISCARD uint32_t snic_hcache_control_poll(struct snic_hcache_control *c,
                                                          struct snic_hcache_action *out,
                                                          uint32_t max) SNIC_NONNULL(1, 2);
/** When to step with EV_NONE if nothing else happens before. [control] */
SNIC_API uint64_t snic_hcache_control_deadline_ns(const struct snic_hcache_control *c)
    SNIC_NONNULL(1);
/** 1: no job under way, nothing known to be dirty; else 0. [control] */
SNIC_API int snic_hcache_control_idle(const struct snic_hcache_control *c) SNIC_NONNULL(1);
/** A copy of the counters. [control] */
SNIC_API void snic_hcache_control_get_stats(const struct snic_hcache_control *c,
                                            struct snic_hcache_control_stats *out)
    SNIC_NONNULL(1, 2);
/** Its own invariants. For tests. [control] @return 0; SNIC_ECORRUPT one does not hold */
SNIC_API int snic_hcache_control_check(const struct snic_hcache_control *c) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_HCACHE_H */
