/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/kvfs.h
 * KVFS: a POSIX file system on a key-value store, as a pure state machine (DPC, section 3.4).
 *
 * Depends on  snicstore/base.h, snicstore/fsop.h, snicstore/kvop.h, snicstore/kvfs_format.h.
 * Memory      snic_kvfs_memsize() bytes of the caller's, aligned to SNIC_KVFS_ALIGN (some 55 MiB
 *             with the default options), then nothing is allocated. Where creates per second
 *             matter from the first one on, use huge pages (madvise MADV_HUGEPAGE): otherwise
 *             page faults take a third of their time. Requests are the caller's, borrowed from
 *             submit until poll returns them; so is all they name.
 * Threads     One owner; no call blocks.
 * Progress    A request waits for its records, for other requests on the same inodes, or (locks)
 *             for its turn; thousands are in flight without a thread for any of them.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise, Linux numbers.
 * Units       bytes, ns.
 * Input       Requests are trusted (they are of the mount's kernel or an embedder); records are
 *             not: each is verified, and a wrong one is SNIC_ECORRUPT and an event that names its
 *             key.
 *
 * The engine accepts requests (snic_kvfs_submit), requests operations of kvop.h (snic_kvfs_poll_io
 * returns them), takes their results (snic_kvfs_complete) and returns finished requests
 * (snic_kvfs_poll_done). It has no clock: every call passes the time. fs.h joins it to a store and
 * a loop; most users need that. Without them, one request after another on kv.h's memory:
 *
 *     snic_kvfs_submit(k, req, now);                       // MKFS, MOUNT, CREATE, WRITE, ...
 *     while (snic_kvfs_poll_done(k) != req) {
 *         struct snic_kvfs_io *io = snic_kvfs_poll_io(k);
 *         if (io != NULL) {
 *             snic_kvmem_apply(medium, &io->op);
 *             snic_kvfs_complete(k, io, now);
 *         } else {                                         // it waits for its deadline
 *             now.mono_ns = snic_kvfs_deadline_ns(k);
 *             snic_kvfs_advance(k, now);
 *         }
 *     }
 *
 * Deviations from section 3.4, and additions to it: for the records see kvfs_format.h.
 * Names are found by a 128-bit hash. Attributes, entries and small files carry checksums. Growing
 * past 8 KiB and all operations that touch several groups are atomic under crashes. Changes of
 * times alone (reads, writes within the size, renames) are deferred for up to times_ns, a second
 * by default, and reach the store with the next change of the inode, FLUSH, RELEASE or FSYNC (a
 * change of only the time of a read is not written by FLUSH and RELEASE). So is a change of a big
 * file's space that is known only after a write: after a crash or the session's death st_blocks may
 * be wrong until the file is truncated, or fsck repairs it. A WRITE with SYNC makes bytes and size
 * durable, its times with the next FSYNC.
 * Several sessions that write to one file at the same time need locks for it, as on other network
 * file systems: a READ may see a part of another session's WRITE. Appends need none: neither other
 * appends nor another session's truncation or growth remove acknowledged bytes. One of up to
 * SNIC_KVOP_VALUE_MAX bytes (68 KiB; where it makes a small file big, the whole file counts) is
 * contiguous in the file and in one commit with the size. A larger one, while others use the store,
 * is written in pieces of up to 64 KiB, each with a commit of its own, between which commits of
 * others may happen; if a later one fails, the result is the bytes before it. Another large WRITE
 * across the end moves the size first: others read zeros there until its bytes are written, and
 * the zeros stay if it fails or the session dies in between. (A COPY is as WRITEs of 60 KiB, one
 * after the other.) All this applies wherever the store's commits take object bytes
 * (SNIC_KV_CAP_ATOMIC_OBJECT: LMDB), on RADOS within the first stripe (stripe_bytes, 4 MiB). Behind
 * it an append, and another WRITE that begins within the file or at its end, first claims its
 * bytes by moving the size, however small it is, while others use the store: no two appends get the
 * same bytes, and others read zeros there until they are written. If the session dies in between,
 * or the WRITE fails, the zeros stay (or what an earlier crash had left behind the end). What
 * another session truncates meanwhile is not written, but a truncation in flight, or another
 * session's WRITE, COPY or growth beyond the end, may remove bytes behind the first stripe that
 * were just appended: those need locks.
 * A session that was stopped for longer than lease_ns is declared dead, and its locks and opens no
 * longer count. Where commits may name several groups (LMDB, the store in memory) no commit of it
 * has any effect from that moment on: each is guarded by a record that is deleted by the
 * declaration. Where the store can fence a client (SNIC_KV_CAP_FENCE: RADOS) a session is declared
 * dead only after its client has been shut out, so that nothing of it takes effect after that,
 * bytes included; a client that may not do that declares none dead (statistics: fence_failures). On
 * LMDB object bytes of a big file's WRITE that was in flight may take effect up to the store's
 * time-out after the session runs again. A session whose client was fenced is dead when it notices.
 * When half its lease has passed without a proof, the session begins no request except the end of a
 * handle, which writes the deferred changes of its inode, and writes no other changes that it
 * defers; when it detects its death it discards them. A file whose last name a rename replaces can
 * be opened by its number for a quarter of a second more: so a client that looks a name up and then
 * opens it always finds a whole file.
 *
 * Permissions are checked by POSIX's rules unless the request has SNIC_FSOP_CHECKED (a FUSE mount
 * with default_permissions has checked). Inode numbers: the root is 1 here (0 in the store);
 * others are 2 or more and never used twice, so there are no generations.
 */
#ifndef SNIC_KVFS_H
#define SNIC_KVFS_H

#include "snicstore/base.h"
#include "snicstore/fsop.h"
#include "snicstore/kvfs_format.h"
#include "snicstore/kvop.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_KVFS_ALIGN SNIC_CACHELINE /**< of the memory for snic_kvfs_init()           */
#define SNIC_KVFS_LINK_MAX 1000000U
#define SNIC_KVFS_SIZE_MAX (1ULL << 62)

/** Time as passed to every call. */
struct snic_kvfs_now {
    uint64_t mono_ns; /**< never goes back; counts suspended time, in which leases end     */
    int64_t wall_ns;  /**< since 1970, for timestamps                                     */
};

/*
 * Of the operations of fsop.h (all but FORGET: SNIC_EINVAL). Fields and flags that an operation
 * does not have are ignored here; what carries requests refuses them (snic_fsop_validate()).
 *   CHECKED    otherwise permissions are checked by POSIX's rules.
 *   IO         iov_count up to SNIC_KVOP_IOV_MAX; DIRECT is SNIC_KVOP_DIRECT.
 *   HOLD       0 as handle also when a quarter of inodes_max are held. An inode that another
 *              session removes is SNIC_ENOENT, unless it is open here: a session knows which inodes
 *              others have open, and no more.
 *   FSYNC      with FSYNC_DATA times may stay deferred.
 *   FALLOCATE  where the store lacks SNIC_KV_CAP_ALLOC no space is reserved: only the size grows.
 *   SETXATTR   SNIC_ENOSPC: a list of all names would be larger than SNIC_FSOP_XATTR_LIST_MAX.
 *   RENAME     WHITEOUT makes a character device 0:0 of mode 0.
 *   MKFS       name is a struct snic_kvfs_mkfs, name_size its size (SNIC_EINVAL: not that); NULL:
 *              zeros.
 *   MOUNT      SNIC_EEXIST: a session of session_id is in the store.
 *   UNMOUNT    flushes, ends the session.
 */

/** MKFS's options. Zero it for defaults. */
struct snic_kvfs_mkfs {
    uint32_t mode; /**< of the root; 0: 0755                                                */
    uint32_t uid;
    uint32_t gid;
    uint32_t force; /**< 0: SNIC_EEXIST when the store holds a file system; 1: replace it, even if
                         others have it mounted: the caller must exclude that                 */
    uint64_t seed;  /**< of the name hash; draw it at random; 0: derived from uuid             */
    uint8_t uuid[16];
};

/** A store operation that the engine requests. Start it; then snic_kvfs_complete(). */
struct snic_kvfs_io {
    struct snic_kvop op;
    uint64_t carrier[20]; /**< the caller's: space for the snic_kv_req whose op is this one       */
};

/** Damage found, for logs; the request that read it ends with SNIC_ECORRUPT. */
struct snic_kvfs_damage {
    struct snic_kvop_key key; /**< of a record; size 0: object bytes                          */
    uint64_t object;
    uint64_t offset;
    const char *what; /**< constant text                                                       */
};

/** Zero the struct, then set opts_size. */
struct snic_kvfs_opts {
    uint32_t opts_size;
    uint32_t requests_max; /**< in flight; 1..65536; default 1024                             */
    uint32_t inodes_max;   /**< open, locked or changed at once; then SNIC_ENFILE; default 65536 */
    uint32_t locks_max;    /**< byte-range and flock locks held and waited for; default 16384   */
    uint64_t cache_bytes;  /**< records kept while the session is alone; default 16 MiB         */
    uint64_t times_ns;     /**< times are deferred for so long; default 1 s; at most 2^62      */
    uint64_t lease_ns;     /**< a session silent for so long is dead; default 10 s; at most 2^62 */
    uint64_t heartbeat_ns; /**< default 1 s; less than lease_ns                                 */
    uint32_t stripe_bytes; /**< of the store (struct snic_kv); 0: no object bytes beside records */
    uint32_t caps;         /**< of the store, SNIC_KV_CAP_* of kvop.h                            */
    uint32_t flags;        /**< SNIC_KVFS_READ_ONLY, _NO_ATIME, _NO_DIRATIME, _STRICT_ATIME       */
    uint32_t reserved;
    uint64_t session_id; /**< a random number that no other session has; not 0                 */
    void (*damage)(void *ctx, const struct snic_kvfs_damage *d); /**< may be NULL              */
    void *ctx;
    /** With SNIC_KV_CAP_FENCE among caps: what the store knows this client by (struct snic_kv). */
    uint32_t identity_size;
    char identity[SNIC_KVOP_IDENTITY_MAX];
};
#define SNIC_KVFS_TIMES_AT_ONCE 1U      /**< times_ns: times are not deferred                    */
#define SNIC_KVFS_READ_ONLY (1u << 0)   /**< changes end with SNIC_EROFS                          */
#define SNIC_KVFS_NO_ATIME (1u << 1)    /**< never change atime by reading                        */
#define SNIC_KVFS_NO_DIRATIME (1u << 2) /**< nor of directories                                */
#define SNIC_KVFS_STRICT_ATIME                                                                     \
    (1u << 3) /**< by each read; else as relatime: older than mtime or                             \
                 ctime, or by a day                                  */

struct snic_kvfs;

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_kvfs_opts_wrong(const struct snic_kvfs_opts *o) SNIC_NONNULL(1);
/** Bytes snic_kvfs_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_kvfs_memsize(const struct snic_kvfs_opts *o) SNIC_NONNULL(1);
/**
 * An engine in @p mem, which is owned until fini; @p o is copied. [owner]
 * @return 0; SNIC_EINVAL option or alignment; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_kvfs_init(struct snic_kvfs **out, void *mem, size_t size,
                                           const struct snic_kvfs_opts *o) SNIC_NONNULL(1, 2, 4);
/** Returns the caller's memory; no request may be in flight. [owner] */
SNIC_API void *snic_kvfs_fini(struct snic_kvfs *k) SNIC_NONNULL(1);
/** @return 0; SNIC_EAGAIN requests_max are in flight; SNIC_EINVAL kind [owner] */
SNIC_API SNIC_NODISCARD int snic_kvfs_submit(struct snic_kvfs *k, struct snic_fsop *req,
                                             struct snic_kvfs_now now) SNIC_NONNULL(1, 2);
/** End a waiting lock request with SNIC_EINTR; no effect on others. [owner] */
SNIC_API void snic_kvfs_cancel(struct snic_kvfs *k, struct snic_fsop *req, struct snic_kvfs_now now)
    SNIC_NONNULL(1, 2);
/** The next operation to start, or NULL. In the order returned; completions in any order. [owner]
 */
SNIC_API struct snic_kvfs_io *snic_kvfs_poll_io(struct snic_kvfs *k) SNIC_NONNULL(1);
/** The next finished request, or NULL. [owner] */
SNIC_API struct snic_fsop *snic_kvfs_poll_done(struct snic_kvfs *k) SNIC_NONNULL(1);
/** An operation has ended; its results are in io->op. [owner] */
SNIC_API void snic_kvfs_complete(struct snic_kvfs *k, struct snic_kvfs_io *io,
                                 struct snic_kvfs_now now) SNIC_NONNULL(1, 2);
/** Time has passed. [owner] */
SNIC_API void snic_kvfs_advance(struct snic_kvfs *k, struct snic_kvfs_now now) SNIC_NONNULL(1);
/** When to call advance; UINT64_MAX: no need. [owner] */
SNIC_API uint64_t snic_kvfs_deadline_ns(const struct snic_kvfs *k) SNIC_NONNULL(1);
/**
 * Until when (mono_ns) results may be cached by the caller, in a kernel or in memory of its own. 0:
 * not at all, other sessions use the store, or this one is not mounted, or dead. UINT64_MAX: until
 * statistics' `alone` ends; the store has no other handle, nor will it have one before this session
 * has run (snic_kv_sole()). Otherwise the end of what is proven of the session's lease: half of it
 * after the last proof that the session's record exists; others declare it dead a whole lease after
 * that at the earliest. It moves on with each heartbeat. What has been cached is to end by itself
 * then: the process may be stopped. [owner]
 */
SNIC_API uint64_t snic_kvfs_valid_until_ns(const struct snic_kvfs *k) SNIC_NONNULL(1);
/**
 * Whether the store has other handles (snic_kv_sole()): pass it before each submit and complete
 * when it may have changed. While 1, dead sessions need not wait for their lease. [owner]
 */
SNIC_API void snic_kvfs_set_sole(struct snic_kvfs *k, int sole) SNIC_NONNULL(1);

struct snic_kvfs_stats {
    uint64_t requests;
    uint64_t errors;
    uint64_t cache_hits;
    uint64_t cache_misses;
    uint64_t store_gets;
    uint64_t store_commits;
    uint64_t store_objects;
    uint64_t retries;  /**< commits whose guards failed                                   */
    uint64_t intents;  /**< commits over several groups in steps                           */
    uint64_t resolved; /**< reservations of others resolved                                */
    uint64_t orphans;  /**< inodes removed after their last close, or after a crash         */
    uint64_t sessions; /**< alive ones, with this one; 0: not mounted, or declared dead        */
    uint64_t alone;    /**< 1: this session caches records                                  */
    uint64_t in_flight;
    uint64_t inodes; /**< in memory: open, locked or changed                              */
    uint64_t held;   /**< without a name, by SNIC_FSOP_HOLD                                */
    uint64_t unheld; /**< not held by HOLD, since too many were                           */
    uint64_t fenced; /**< clients of other sessions that were shut out of the store         */
    uint64_t fence_failures; /**< that could not be: their sessions are not declared dead      */
    int64_t fence_error;     /**< of the last of those                                     */
};
/** Counters since init, and states. [owner] */
SNIC_API void snic_kvfs_get_stats(const struct snic_kvfs *k, struct snic_kvfs_stats *out)
    SNIC_NONNULL(1, 2);
/** Structural check. [owner] @return 0; SNIC_ECORRUPT an invariant does not hold */
SNIC_API int snic_kvfs_check(const struct snic_kvfs *k) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_KVFS_H */
