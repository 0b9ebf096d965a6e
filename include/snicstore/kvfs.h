/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/kvfs.h
 * KVFS: a POSIX file system on a key-value store, as a pure state machine (DPC, section 3.4).
 *
 * Depends on  snicstore/base.h, snicstore/kvop.h, snicstore/kvfs_format.h.
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
 * times alone (reads, writes within the size, renames) are kept back for up to times_ns, a second
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
 * (SNIC_KV_CAP_ATOMIC_OBJECT: LMDB), on RADOS within the first stripe (stripe_bytes, 4 MiB): behind
 * it bytes are written before the commit, two appends may overwrite each other, one may become
 * zeros by another session's growth of the file beyond its end, and a truncation in flight may
 * remove bytes that another session has just appended.
 * A session that was stopped for longer than lease_ns is declared dead, and its locks and opens no
 * longer count. Where commits may name several groups (LMDB, the store in memory) no commit of it
 * has any effect from that moment on: each is guarded by a record that is deleted by the
 * declaration. On RADOS one in flight may take effect late, if the records that it read are
 * unchanged; so may, on every store, object bytes of a big file's WRITE, up to the store's time-out
 * after the session runs again. When half its lease has passed without a proof, the session begins
 * no request except the end of a handle, which writes the changes kept back of its inode, and
 * writes no other changes that it keeps back; when it detects its death it discards them.
 * A file whose last name a rename replaces can be opened by its number for a quarter of a second
 * more: so a client that looks a name up and then opens it always finds a whole file.
 *
 * Permissions are checked by POSIX's rules unless the request has SNIC_KVFS_CHECKED (a FUSE mount
 * with default_permissions has checked). Inode numbers: the root is 1 here (0 in the store);
 * others are 2 or more and never used twice, so there are no generations.
 */
#ifndef SNIC_KVFS_H
#define SNIC_KVFS_H

#include "snicstore/base.h"
#include "snicstore/kvfs_format.h"
#include "snicstore/kvop.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_KVFS_ALIGN SNIC_CACHELINE /**< of the memory for snic_kvfs_init()           */
#define SNIC_KVFS_ROOT 1U
#define SNIC_KVFS_NAME_MAX 1024U
#define SNIC_KVFS_SYMLINK_MAX 4095U
#define SNIC_KVFS_LINK_MAX 1000000U
#define SNIC_KVFS_SIZE_MAX (1ULL << 62)
#define SNIC_KVFS_XATTR_NAME_MAX 255U
#define SNIC_KVFS_XATTR_VALUE_MAX 65536U
#define SNIC_KVFS_XATTR_LIST_MAX 65536U
#define SNIC_KVFS_IO_MAX (1U << 20) /**< bytes of one READ or WRITE                          */

/** Time as passed to every call. */
struct snic_kvfs_now {
    uint64_t mono_ns; /**< never goes back                                                */
    int64_t wall_ns;  /**< since 1970, for timestamps                                     */
};

enum snic_kvfs_kind {
    SNIC_KVFS_LOOKUP = 1,  /**< ino, name -> attr                                        */
    SNIC_KVFS_GETATTR,     /**< ino -> attr                                              */
    SNIC_KVFS_SETATTR,     /**< ino, set_mask, set -> attr                               */
    SNIC_KVFS_READLINK,    /**< ino, iov -> bytes                                        */
    SNIC_KVFS_MKNOD,       /**< ino, name, mode (type and permissions), rdev -> attr; any type but
                                directory and symlink                                    */
    SNIC_KVFS_CREATE,      /**< ino, name, mode, flags -> attr, handle; O_EXCL or not      */
    SNIC_KVFS_MKDIR,       /**< ino, name, mode -> attr                                  */
    SNIC_KVFS_SYMLINK,     /**< ino, name, target (name2) -> attr                         */
    SNIC_KVFS_UNLINK,      /**< ino, name; flag HOLD                                     */
    SNIC_KVFS_RMDIR,       /**< ino, name; flag HOLD                                     */
    SNIC_KVFS_RENAME,      /**< ino, name, ino2, name2, flags SNIC_KVFS_RENAME_*, HOLD     */
    SNIC_KVFS_LINK,        /**< ino (the file), ino2 (the directory), name2 -> attr        */
    SNIC_KVFS_OPEN,        /**< ino, flags -> handle, attr                               */
    SNIC_KVFS_RELEASE,     /**< handle; drops its flock and, by owner, its POSIX locks      */
    SNIC_KVFS_FLUSH,       /**< handle, owner: a descriptor is closed                     */
    SNIC_KVFS_FSYNC,       /**< ino: durable, with the directory entries made before; flag
                                FSYNC_DATA: as fdatasync(), times may stay kept back        */
    SNIC_KVFS_READ,        /**< ino, offset, iov -> bytes                                */
    SNIC_KVFS_WRITE,       /**< ino, offset (or APPEND), iov -> bytes                     */
    SNIC_KVFS_FALLOCATE,   /**< ino, offset, length, flags SNIC_KVFS_FALLOC_* (no range is collapsed
                                or inserted: the mount answers EOPNOTSUPP). Where the store
                                lacks SNIC_KV_CAP_ALLOC no space is reserved: only the size grows */
    SNIC_KVFS_SEEK,        /**< ino, offset, flags SNIC_KVFS_SEEK_* -> offset in result      */
    SNIC_KVFS_COPY,        /**< ino, offset, ino2, offset2, length -> bytes (may be fewer)   */
    SNIC_KVFS_OPENDIR,     /**< ino -> handle                                            */
    SNIC_KVFS_READDIR,     /**< ino, offset (cookie), iov[0] -> packed snic_kvfs_dirent; flag
                                READDIR_PLUS: with attributes                            */
    SNIC_KVFS_RELEASEDIR,  /**< handle                                                   */
    SNIC_KVFS_STATFS,      /**< -> statfs                                                */
    SNIC_KVFS_SETXATTR,    /**< ino, name, iov, flags SNIC_KVFS_XATTR_*; SNIC_ENOSPC: a list of all
                                names would be larger than SNIC_KVFS_XATTR_LIST_MAX */
    SNIC_KVFS_GETXATTR,    /**< ino, name, iov -> bytes; no iov: its size                 */
    SNIC_KVFS_LISTXATTR,   /**< ino, iov -> bytes of names, each with its 0; no iov: the size */
    SNIC_KVFS_REMOVEXATTR, /**< ino, name                                               */
    SNIC_KVFS_ACCESS,      /**< ino, mode: bits R 4, W 2, X 1                              */
    SNIC_KVFS_GETLK,       /**< ino, lock -> lock (UNLCK: none in the way)                 */
    SNIC_KVFS_SETLK,       /**< ino, lock; flag LOCK_WAIT: waits, cancellable               */
    SNIC_KVFS_FLOCK,       /**< ino, lock.type, lock.owner; flag LOCK_WAIT                  */
    SNIC_KVFS_SYNCFS,      /**< everything durable                                       */
    SNIC_KVFS_RESOLVE,     /**< ino, name = a path of several names -> attr; follows no symlinks;
                                absolute or relative to ino                             */
    SNIC_KVFS_MKFS,        /**< name = a struct snic_kvfs_mkfs, name_size its size (SNIC_EINVAL: not
                                that); NULL: zeros                                       */
    SNIC_KVFS_MOUNT,       /**< before all others. SNIC_EEXIST: a session of session_id is in the
                                store                                                    */
    SNIC_KVFS_UNMOUNT,     /**< after all others: flushes, ends the session                */
    SNIC_KVFS_KINDS
};

/* Request flags. */
#define SNIC_KVFS_CHECKED (1u << 0) /**< permissions have been checked                     */
#define SNIC_KVFS_DIRECT (1u << 1)  /**< READ, WRITE: O_DIRECT, as SNIC_KVOP_DIRECT          */
#define SNIC_KVFS_APPEND (1u << 2)  /**< WRITE: at the end, atomically                      */
#define SNIC_KVFS_SYNC (1u << 3)    /**< WRITE: O_SYNC, O_DSYNC                             */
/**
 * The caller has no CAP_FSETID: OPEN with TRUNC, WRITE, FALLOCATE, COPY (of the target) and SETATTR
 * of a size clear set-uid, and set-gid where the group may execute or the caller is not in it (gid
 * and groups of cred); SETXATTR of an access ACL clears set-gid where the caller is not in it. A
 * SETATTR of owner or group clears them in any case (root is in every group then); one with
 * KILL_PRIV and without any value does the same (SNIC_EPERM from others than the owner if a bit
 * would be cleared, unless CHECKED: then it has no effect). All these but SETXATTR remove file
 * capabilities (security.capability), whatever the caller's credentials.
 */
#define SNIC_KVFS_KILL_PRIV (1u << 4)
#define SNIC_KVFS_READDIR_PLUS (1u << 5)
#define SNIC_KVFS_LOCK_WAIT (1u << 6)
/**
 * UNLINK, RMDIR, RENAME: an inode whose last name it removes stays accessible by its number: the
 * answer has it in attr.ino and a handle (0: none lost its last name, or a quarter of inodes_max
 * are held so already), which counts as open until RELEASE. An inode that another session removes
 * is SNIC_ENOENT, unless it is open here: a session knows which inodes others have open, and no
 * more.
 */
#define SNIC_KVFS_HOLD (1u << 7)
#define SNIC_KVFS_EXCL (1u << 8)  /**< CREATE: SNIC_EEXIST if the name exists               */
#define SNIC_KVFS_TRUNC (1u << 9) /**< CREATE, OPEN: size becomes 0                         */
#define SNIC_KVFS_OPEN_READ (1u << 10)
#define SNIC_KVFS_OPEN_WRITE (1u << 11)
#define SNIC_KVFS_NOATIME (1u << 12) /**< READ, READDIR: atime stays                        */
#define SNIC_KVFS_RENAME_NOREPLACE (1u << 16)
#define SNIC_KVFS_RENAME_EXCHANGE (1u << 17)
#define SNIC_KVFS_RENAME_WHITEOUT                                                                  \
    (1u << 18) /**< a character device 0:0, mode 0, gets the old name                              \
                */
#define SNIC_KVFS_FSYNC_DATA (1u << 16)
#define SNIC_KVFS_FALLOC_KEEP_SIZE (1u << 16)
#define SNIC_KVFS_FALLOC_PUNCH (1u << 17) /**< with KEEP_SIZE, as Linux requires             */
#define SNIC_KVFS_FALLOC_ZERO (1u << 18)
#define SNIC_KVFS_SEEK_DATA (1u << 16)
#define SNIC_KVFS_SEEK_HOLE (1u << 17)
#define SNIC_KVFS_XATTR_CREATE (1u << 16)
#define SNIC_KVFS_XATTR_REPLACE (1u << 17)

/* set_mask of SETATTR. */
#define SNIC_KVFS_SET_MODE (1u << 0)
#define SNIC_KVFS_SET_UID (1u << 1)
#define SNIC_KVFS_SET_GID (1u << 2)
#define SNIC_KVFS_SET_SIZE (1u << 3)
#define SNIC_KVFS_SET_ATIME (1u << 4)
#define SNIC_KVFS_SET_MTIME (1u << 5)
#define SNIC_KVFS_SET_ATIME_NOW (1u << 6)
#define SNIC_KVFS_SET_MTIME_NOW (1u << 7)
#define SNIC_KVFS_SET_CTIME (1u << 8) /**< to the time of the kernel's writeback cache        */

/** The caller's credentials. */
struct snic_kvfs_cred {
    uint32_t uid;
    uint32_t gid;
    uint32_t pid;
    uint32_t umask; /**< masks new files' modes, unless the directory has a default ACL       */
    const uint32_t *groups; /**< supplementary; borrowed; may be NULL                         */
    uint32_t group_count;
    uint32_t reserved;
};

#define SNIC_KVFS_UNLCK 0U
#define SNIC_KVFS_RDLCK 1U
#define SNIC_KVFS_WRLCK 2U

/** A byte-range lock; FLOCK uses type and owner. OFD locks are POSIX locks of another owner. */
struct snic_kvfs_lock {
    uint64_t owner; /**< the lock owner: a process's file table, or an open file           */
    uint64_t start;
    uint64_t end;  /**< inclusive; UINT64_MAX: to the end                                  */
    uint32_t type; /**< SNIC_KVFS_UNLCK, RDLCK, WRLCK                                       */
    uint32_t pid;
};

struct snic_kvfs_statfs {
    uint64_t bytes;
    uint64_t bytes_free;
    uint64_t files; /**< most inodes                                                  */
    uint64_t files_free;
};

/** A READDIR entry, packed at multiples of 8; the name (name_size bytes and a 0) follows. */
struct snic_kvfs_dirent {
    uint32_t bytes; /**< to the next                                                        */
    uint32_t name_size;
    uint64_t ino;
    uint64_t cookie; /**< continue behind this entry; greater than 2. "." has 1, ".." has 2     */
    uint32_t type;   /**< S_IFMT bits of the mode                                            */
    uint32_t has_attr;
    struct snic_kvfs_attr attr; /**< READDIR_PLUS and has_attr                                */
};

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

/** Zero it, set what the kind needs, submit. */
struct snic_kvfs_req {
    struct snic_node node; /**< the engine's while borrowed                                 */
    uint32_t kind;         /**< enum snic_kvfs_kind                                         */
    uint32_t flags;        /**< SNIC_KVFS_*                                                 */
    struct snic_kvfs_cred cred;
    uint64_t ino;
    uint64_t ino2;
    const char *name; /**< not terminated; borrowed                                         */
    const char *name2;
    uint32_t name_size;
    uint32_t name2_size;
    uint64_t handle; /**< in: RELEASE, FLUSH, READ, WRITE, ... (0: none); out: OPEN, CREATE     */
    uint64_t offset;
    uint64_t offset2;
    uint64_t length;
    uint32_t mode;
    uint32_t set_mask;
    uint64_t rdev;
    struct snic_iov
        *iov;           /**< READ: out; WRITE, SETXATTR: in; READLINK, GETXATTR, READDIR: iov[0] */
    uint32_t iov_count; /**< up to SNIC_KVOP_IOV_MAX                                       */
    uint32_t tenant;    /**< carried                                                       */
    struct snic_kvfs_lock lock;
    struct snic_kvfs_attr attr; /**< in: SETATTR's values; out                                 */
    struct snic_kvfs_statfs statfs;
    int64_t result; /**< 0, a count, an offset, or SNIC_E*                                     */
    uint64_t engine[4]; /**< the engine's while borrowed                                       */
    void *ctx;          /**< the caller's                                                     */
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
    uint64_t times_ns;     /**< times are kept back for so long; default 1 s; at most 2^62      */
    uint64_t lease_ns;     /**< a session silent for so long is dead; default 10 s; at most 2^62 */
    uint64_t heartbeat_ns; /**< default 1 s; less than lease_ns                                 */
    uint32_t stripe_bytes; /**< of the store (struct snic_kv); 0: no object bytes beside records */
    uint32_t caps;         /**< of the store, SNIC_KV_CAP_* of kvop.h                            */
    uint32_t flags;        /**< SNIC_KVFS_READ_ONLY, _NO_ATIME, _NO_DIRATIME, _STRICT_ATIME       */
    uint32_t reserved;
    uint64_t session_id; /**< a random number that no other session has; not 0                 */
    void (*damage)(void *ctx, const struct snic_kvfs_damage *d); /**< may be NULL              */
    void *ctx;
};
#define SNIC_KVFS_TIMES_AT_ONCE 1U      /**< times_ns: times are not kept back                    */
#define SNIC_KVFS_READ_ONLY (1u << 0)   /**< changes end with SNIC_EROFS                          */
#define SNIC_KVFS_NO_ATIME (1u << 1)    /**< never change atime by reading                        */
#define SNIC_KVFS_NO_DIRATIME (1u << 2) /**< nor of directories                                */
#define SNIC_KVFS_STRICT_ATIME                                                                     \
    (1u << 3) /**< by each read; else as relatime: older than mtime or                             \
                 ctime, or by a day                                  */

struct snic_kvfs;

/** Bytes snic_kvfs_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_kvfs_memsize(const struct snic_kvfs_opts *o) SNIC_NONNULL(1);
/** @return 0; SNIC_EINVAL option or alignment; SNIC_ENOSPC @p size small [owner] */
SNIC_API SNIC_NODISCARD int snic_kvfs_init(struct snic_kvfs **out, void *mem, size_t size,
                                           const struct snic_kvfs_opts *o) SNIC_NONNULL(1, 2, 4);
/** Returns the caller's memory; no request may be in flight. [owner] */
SNIC_API void *snic_kvfs_fini(struct snic_kvfs *k) SNIC_NONNULL(1);
/** @return 0; SNIC_EAGAIN requests_max are in flight; SNIC_EINVAL kind [owner] */
SNIC_API SNIC_NODISCARD int snic_kvfs_submit(struct snic_kvfs *k, struct snic_kvfs_req *req,
                                             struct snic_kvfs_now now) SNIC_NONNULL(1, 2);
/** End a waiting lock request with SNIC_EINTR; no effect on others. [owner] */
SNIC_API void snic_kvfs_cancel(struct snic_kvfs *k, struct snic_kvfs_req *req,
                               struct snic_kvfs_now now) SNIC_NONNULL(1, 2);
/** The next operation to start, or NULL. In the order returned; completions in any order. [owner]
 */
SNIC_API struct snic_kvfs_io *snic_kvfs_poll_io(struct snic_kvfs *k) SNIC_NONNULL(1);
/** The next finished request, or NULL. [owner] */
SNIC_API struct snic_kvfs_req *snic_kvfs_poll_done(struct snic_kvfs *k) SNIC_NONNULL(1);
/** An operation has ended; its results are in io->op. [owner] */
SNIC_API void snic_kvfs_complete(struct snic_kvfs *k, struct snic_kvfs_io *io,
                                 struct snic_kvfs_now now) SNIC_NONNULL(1, 2);
/** Time has passed. [owner] */
SNIC_API void snic_kvfs_advance(struct snic_kvfs *k, struct snic_kvfs_now now) SNIC_NONNULL(1);
/** When to call advance; UINT64_MAX: no need. [owner] */
SNIC_API uint64_t snic_kvfs_deadline_ns(const struct snic_kvfs *k) SNIC_NONNULL(1);
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
    uint64_t held;   /**< without a name, by SNIC_KVFS_HOLD                                */
    uint64_t unheld; /**< not held by HOLD, since too many were                           */
};
/** Counters since init, and states. [owner] */
SNIC_API void snic_kvfs_get_stats(const struct snic_kvfs *k, struct snic_kvfs_stats *out)
    SNIC_NONNULL(1, 2);
/** Structural check. @return 0; SNIC_ECORRUPT [owner] */
SNIC_API int snic_kvfs_check(const struct snic_kvfs *k) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_KVFS_H */
