/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/fuse_wire.h
 * Numbers and layouts of the Linux kernel's FUSE protocol, major version 7, up to minor 45.
 *
 * Depends on  snicstore/base.h.
 * Memory      Plain structs.
 * Threads     No functions.
 * Progress    No functions.
 * Errors      No functions.
 * Units       bytes, unless a field's name or comment states otherwise; times are seconds and ns.
 *
 * Integers have the byte order of the kernel's machine. A request is struct snic_fuse_in_header,
 * then the arguments of its operation: a struct (below, _in), then names, each with a 0 behind it,
 * then data. A reply is struct snic_fuse_out_header, then, if error is 0, a struct (_out) or data.
 * The layouts are those of <linux/fuse.h>, which tests/fuse compares with them.
 */
#ifndef SNIC_FUSE_WIRE_H
#define SNIC_FUSE_WIRE_H

#include "snicstore/base.h"

#define SNIC_FUSE_MAJOR 7U
#define SNIC_FUSE_MINOR 45U     /**< the newest that is understood                          */
#define SNIC_FUSE_MINOR_MIN 23U /**< the oldest: Linux 3.15; below, structs are shorter      */
#define SNIC_FUSE_ROOT 1U       /**< node id of the root                                     */

enum snic_fuse_opcode {
    SNIC_FUSE_LOOKUP = 1,
    SNIC_FUSE_FORGET = 2, /**< no reply                                                */
    SNIC_FUSE_GETATTR = 3,
    SNIC_FUSE_SETATTR = 4,
    SNIC_FUSE_READLINK = 5,
    SNIC_FUSE_SYMLINK = 6,
    SNIC_FUSE_MKNOD = 8,
    SNIC_FUSE_MKDIR = 9,
    SNIC_FUSE_UNLINK = 10,
    SNIC_FUSE_RMDIR = 11,
    SNIC_FUSE_RENAME = 12,
    SNIC_FUSE_LINK = 13,
    SNIC_FUSE_OPEN = 14,
    SNIC_FUSE_READ = 15,
    SNIC_FUSE_WRITE = 16,
    SNIC_FUSE_STATFS = 17,
    SNIC_FUSE_RELEASE = 18,
    SNIC_FUSE_FSYNC = 20,
    SNIC_FUSE_SETXATTR = 21,
    SNIC_FUSE_GETXATTR = 22,
    SNIC_FUSE_LISTXATTR = 23,
    SNIC_FUSE_REMOVEXATTR = 24,
    SNIC_FUSE_FLUSH = 25,
    SNIC_FUSE_INIT = 26,
    SNIC_FUSE_OPENDIR = 27,
    SNIC_FUSE_READDIR = 28,
    SNIC_FUSE_RELEASEDIR = 29,
    SNIC_FUSE_FSYNCDIR = 30,
    SNIC_FUSE_GETLK = 31,
    SNIC_FUSE_SETLK = 32,
    SNIC_FUSE_SETLKW = 33,
    SNIC_FUSE_ACCESS = 34,
    SNIC_FUSE_CREATE = 35,
    SNIC_FUSE_INTERRUPT = 36, /**< no reply, but EAGAIN or ENOSYS                          */
    SNIC_FUSE_BMAP = 37,
    SNIC_FUSE_DESTROY = 38,
    SNIC_FUSE_IOCTL = 39,
    SNIC_FUSE_POLL = 40,
    SNIC_FUSE_NOTIFY_REPLY = 41, /**< no reply; not supported                              */
    SNIC_FUSE_BATCH_FORGET = 42, /**< no reply                                             */
    SNIC_FUSE_FALLOCATE = 43,
    SNIC_FUSE_READDIRPLUS = 44,
    SNIC_FUSE_RENAME2 = 45,
    SNIC_FUSE_LSEEK = 46,
    SNIC_FUSE_COPY_FILE_RANGE = 47,
    SNIC_FUSE_SETUPMAPPING = 48,  /**< not supported                                       */
    SNIC_FUSE_REMOVEMAPPING = 49, /**< not supported                                       */
    SNIC_FUSE_SYNCFS = 50,
    SNIC_FUSE_TMPFILE = 51,
    SNIC_FUSE_STATX = 52,
    SNIC_FUSE_COPY_FILE_RANGE_64 = 53,
    SNIC_FUSE_OPCODES
};

/* Flags of INIT, as one number: the upper half travels in flags2, with INIT_EXT. */
#define SNIC_FUSE_ASYNC_READ (UINT64_C(1) << 0)
#define SNIC_FUSE_POSIX_LOCKS (UINT64_C(1) << 1)
#define SNIC_FUSE_ATOMIC_O_TRUNC (UINT64_C(1) << 3)
#define SNIC_FUSE_EXPORT_SUPPORT (UINT64_C(1) << 4)
#define SNIC_FUSE_BIG_WRITES (UINT64_C(1) << 5)
#define SNIC_FUSE_DONT_MASK (UINT64_C(1) << 6)
#define SNIC_FUSE_SPLICE_WRITE (UINT64_C(1) << 7)
#define SNIC_FUSE_SPLICE_MOVE (UINT64_C(1) << 8)
#define SNIC_FUSE_SPLICE_READ (UINT64_C(1) << 9)
#define SNIC_FUSE_FLOCK_LOCKS (UINT64_C(1) << 10)
#define SNIC_FUSE_HAS_IOCTL_DIR (UINT64_C(1) << 11)
#define SNIC_FUSE_AUTO_INVAL_DATA (UINT64_C(1) << 12)
#define SNIC_FUSE_DO_READDIRPLUS (UINT64_C(1) << 13)
#define SNIC_FUSE_READDIRPLUS_AUTO (UINT64_C(1) << 14)
#define SNIC_FUSE_ASYNC_DIO (UINT64_C(1) << 15)
#define SNIC_FUSE_WRITEBACK_CACHE (UINT64_C(1) << 16)
#define SNIC_FUSE_NO_OPEN_SUPPORT (UINT64_C(1) << 17)
#define SNIC_FUSE_PARALLEL_DIROPS (UINT64_C(1) << 18)
#define SNIC_FUSE_HANDLE_KILLPRIV (UINT64_C(1) << 19)
#define SNIC_FUSE_POSIX_ACL (UINT64_C(1) << 20)
#define SNIC_FUSE_ABORT_ERROR (UINT64_C(1) << 21)
#define SNIC_FUSE_MAX_PAGES (UINT64_C(1) << 22)
#define SNIC_FUSE_CACHE_SYMLINKS (UINT64_C(1) << 23)
#define SNIC_FUSE_NO_OPENDIR_SUPPORT (UINT64_C(1) << 24)
#define SNIC_FUSE_EXPLICIT_INVAL_DATA (UINT64_C(1) << 25)
#define SNIC_FUSE_MAP_ALIGNMENT (UINT64_C(1) << 26)
#define SNIC_FUSE_SUBMOUNTS (UINT64_C(1) << 27)
#define SNIC_FUSE_HANDLE_KILLPRIV_V2 (UINT64_C(1) << 28)
#define SNIC_FUSE_SETXATTR_EXT (UINT64_C(1) << 29)
#define SNIC_FUSE_INIT_EXT (UINT64_C(1) << 30)
#define SNIC_FUSE_SECURITY_CTX (UINT64_C(1) << 32)
#define SNIC_FUSE_HAS_INODE_DAX (UINT64_C(1) << 33)
#define SNIC_FUSE_CREATE_SUPP_GROUP (UINT64_C(1) << 34)
#define SNIC_FUSE_HAS_EXPIRE_ONLY (UINT64_C(1) << 35)
#define SNIC_FUSE_DIRECT_IO_ALLOW_MMAP (UINT64_C(1) << 36)
#define SNIC_FUSE_PASSTHROUGH (UINT64_C(1) << 37)
#define SNIC_FUSE_NO_EXPORT_SUPPORT (UINT64_C(1) << 38)
#define SNIC_FUSE_HAS_RESEND (UINT64_C(1) << 39)
#define SNIC_FUSE_ALLOW_IDMAP (UINT64_C(1) << 40)
#define SNIC_FUSE_OVER_IO_URING (UINT64_C(1) << 41)
#define SNIC_FUSE_REQUEST_TIMEOUT (UINT64_C(1) << 42)

/* setattr_in.valid */
#define SNIC_FUSE_SET_MODE (1U << 0)
#define SNIC_FUSE_SET_UID (1U << 1)
#define SNIC_FUSE_SET_GID (1U << 2)
#define SNIC_FUSE_SET_SIZE (1U << 3)
#define SNIC_FUSE_SET_ATIME (1U << 4)
#define SNIC_FUSE_SET_MTIME (1U << 5)
#define SNIC_FUSE_SET_FH (1U << 6)
#define SNIC_FUSE_SET_ATIME_NOW (1U << 7)
#define SNIC_FUSE_SET_MTIME_NOW (1U << 8)
#define SNIC_FUSE_SET_LOCKOWNER (1U << 9)
#define SNIC_FUSE_SET_CTIME (1U << 10)
#define SNIC_FUSE_SET_KILL_SUIDGID (1U << 11)

/* open_out.open_flags */
#define SNIC_FUSE_FOPEN_DIRECT_IO (1U << 0)
#define SNIC_FUSE_FOPEN_KEEP_CACHE (1U << 1)
#define SNIC_FUSE_FOPEN_NONSEEKABLE (1U << 2)
#define SNIC_FUSE_FOPEN_CACHE_DIR (1U << 3)
#define SNIC_FUSE_FOPEN_STREAM (1U << 4)
#define SNIC_FUSE_FOPEN_NOFLUSH (1U << 5)
#define SNIC_FUSE_FOPEN_PARALLEL_DIRECT_WRITES (1U << 6)

#define SNIC_FUSE_OPEN_KILL_SUIDGID (1U << 0)      /**< open_in.open_flags                 */
#define SNIC_FUSE_GETATTR_FH (1U << 0)             /**< getattr_in.getattr_flags           */
#define SNIC_FUSE_RELEASE_FLUSH (1U << 0)          /**< release_in.release_flags           */
#define SNIC_FUSE_RELEASE_FLOCK_UNLOCK (1U << 1)   /**< release_in.release_flags           */
#define SNIC_FUSE_LK_FLOCK (1U << 0)               /**< lk_in.lk_flags                     */
#define SNIC_FUSE_READ_LOCKOWNER (1U << 1)         /**< read_in.read_flags                 */
#define SNIC_FUSE_WRITE_CACHE (1U << 0)            /**< write_in.write_flags               */
#define SNIC_FUSE_WRITE_LOCKOWNER (1U << 1)        /**< write_in.write_flags               */
#define SNIC_FUSE_WRITE_KILL_SUIDGID (1U << 2)     /**< write_in.write_flags               */
#define SNIC_FUSE_FSYNC_DATA (1U << 0)             /**< fsync_in.fsync_flags               */
#define SNIC_FUSE_SETXATTR_ACL_KILL_SGID (1U << 0) /**< setxattr_in.setxattr_flags         */
#define SNIC_FUSE_EXPIRE_ONLY (1U << 0)            /**< notify_inval_entry_out.flags       */
#define SNIC_FUSE_EXT_SECCTX_MAX 31U               /**< extensions up to it: contexts      */
#define SNIC_FUSE_EXT_GROUPS 32U                   /**< type of struct snic_fuse_supp_groups */

/* file_lock.type: Linux' F_RDLCK, F_WRLCK, F_UNLCK. */
#define SNIC_FUSE_RDLCK 0U
#define SNIC_FUSE_WRLCK 1U
#define SNIC_FUSE_UNLCK 2U

/** Notifications: in error of a reply with unique 0. */
enum snic_fuse_notify_code {
    SNIC_FUSE_NOTIFY_INVAL_INODE = 2,
    SNIC_FUSE_NOTIFY_INVAL_ENTRY = 3,
    SNIC_FUSE_NOTIFY_DELETE = 6,
    SNIC_FUSE_NOTIFY_INC_EPOCH = 8
};

/* ---- Headers ---- */

struct snic_fuse_in_header {
    uint32_t len; /**< of the whole request                                                */
    uint32_t opcode;
    uint64_t unique;
    uint64_t nodeid;
    uint32_t uid;
    uint32_t gid;
    uint32_t pid;
    uint16_t total_extlen; /**< of extensions at the end, in units of 8 bytes              */
    uint16_t padding;
};
struct snic_fuse_out_header {
    uint32_t len;
    int32_t error; /**< 0 or a negative errno; above 0: notification                       */
    uint64_t unique;
};

/* ---- Parts ---- */

struct snic_fuse_attr {
    uint64_t ino, size, blocks, atime, mtime, ctime;
    uint32_t atimensec, mtimensec, ctimensec;
    uint32_t mode, nlink, uid, gid, rdev, blksize, flags;
};
struct snic_fuse_file_lock {
    uint64_t start;
    uint64_t end; /**< inclusive                                                           */
    uint32_t type, pid;
};
struct snic_fuse_sx_time {
    int64_t sec;
    uint32_t nsec;
    int32_t reserved;
};
struct snic_fuse_statx {
    uint32_t mask, blksize;
    uint64_t attributes;
    uint32_t nlink, uid, gid;
    uint16_t mode, spare0;
    uint64_t ino, size, blocks, attributes_mask;
    struct snic_fuse_sx_time atime, btime, ctime, mtime;
    uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
    uint64_t spare2[14];
};

/* ---- Arguments ---- */

struct snic_fuse_forget_in {
    uint64_t nlookup;
};
struct snic_fuse_forget_one {
    uint64_t nodeid, nlookup;
};
struct snic_fuse_batch_forget_in {
    uint32_t count, dummy;
};
struct snic_fuse_getattr_in {
    uint32_t getattr_flags, dummy;
    uint64_t fh;
};
struct snic_fuse_setattr_in {
    uint32_t valid, padding;
    uint64_t fh, size, lock_owner, atime, mtime, ctime;
    uint32_t atimensec, mtimensec, ctimensec, mode, unused4, uid, gid, unused5;
};
struct snic_fuse_mknod_in {
    uint32_t mode, rdev, umask, padding;
};
struct snic_fuse_mkdir_in {
    uint32_t mode, umask;
};
struct snic_fuse_rename_in { /**< RENAME has newdir alone                                     */
    uint64_t newdir;
    uint32_t flags, padding;
};
struct snic_fuse_link_in {
    uint64_t oldnodeid;
};
struct snic_fuse_open_in {
    uint32_t flags, open_flags;
};
struct snic_fuse_create_in {
    uint32_t flags, mode, umask, open_flags;
};
struct snic_fuse_release_in {
    uint64_t fh;
    uint32_t flags, release_flags;
    uint64_t lock_owner;
};
struct snic_fuse_flush_in {
    uint64_t fh;
    uint32_t unused, padding;
    uint64_t lock_owner;
};
struct snic_fuse_read_in {
    uint64_t fh, offset;
    uint32_t size, read_flags;
    uint64_t lock_owner;
    uint32_t flags, padding;
};
struct snic_fuse_write_in {
    uint64_t fh, offset;
    uint32_t size, write_flags;
    uint64_t lock_owner;
    uint32_t flags, padding;
};
struct snic_fuse_fsync_in {
    uint64_t fh;
    uint32_t fsync_flags, padding;
};
struct snic_fuse_setxattr_in { /**< size and flags alone without SETXATTR_EXT                    */
    uint32_t size, flags, setxattr_flags, padding;
};
struct snic_fuse_getxattr_in {
    uint32_t size, padding;
};
struct snic_fuse_lk_in {
    uint64_t fh, owner;
    struct snic_fuse_file_lock lk;
    uint32_t lk_flags, padding;
};
struct snic_fuse_access_in {
    uint32_t mask, padding;
};
struct snic_fuse_init_in { /**< the first four without INIT_EXT                               */
    uint32_t major, minor, max_readahead, flags, flags2, unused[11];
};
struct snic_fuse_interrupt_in {
    uint64_t unique;
};
struct snic_fuse_bmap_in {
    uint64_t block;
    uint32_t blocksize, padding;
};
struct snic_fuse_ioctl_in {
    uint64_t fh;
    uint32_t flags, cmd;
    uint64_t arg;
    uint32_t in_size, out_size;
};
struct snic_fuse_poll_in {
    uint64_t fh, kh;
    uint32_t flags, events;
};
struct snic_fuse_fallocate_in {
    uint64_t fh, offset, length;
    uint32_t mode, padding;
};
struct snic_fuse_lseek_in {
    uint64_t fh, offset;
    uint32_t whence, padding;
};
struct snic_fuse_copy_file_range_in {
    uint64_t fh_in, off_in, nodeid_out, fh_out, off_out, len, flags;
};
struct snic_fuse_syncfs_in {
    uint64_t padding;
};
struct snic_fuse_statx_in {
    uint32_t getattr_flags, reserved;
    uint64_t fh;
    uint32_t sx_flags, sx_mask;
};
/** An extension: size includes this header and is a multiple of 8. */
struct snic_fuse_ext_header {
    uint32_t size, type;
};
struct snic_fuse_supp_groups { /**< nr_groups numbers follow                                  */
    uint32_t nr_groups;
};

/* ---- Results ---- */

struct snic_fuse_entry_out {
    uint64_t nodeid, generation, entry_valid, attr_valid;
    uint32_t entry_valid_nsec, attr_valid_nsec;
    struct snic_fuse_attr attr;
};
struct snic_fuse_attr_out {
    uint64_t attr_valid;
    uint32_t attr_valid_nsec, dummy;
    struct snic_fuse_attr attr;
};
struct snic_fuse_open_out {
    uint64_t fh;
    uint32_t open_flags;
    int32_t backing_id;
};
struct snic_fuse_create_out {
    struct snic_fuse_entry_out entry;
    struct snic_fuse_open_out open;
};
struct snic_fuse_write_out {
    uint32_t size, padding;
};
struct snic_fuse_copy_file_range_out {
    uint64_t bytes_copied;
};
struct snic_fuse_statfs_out {
    uint64_t blocks, bfree, bavail, files, ffree;
    uint32_t bsize, namelen, frsize, padding, spare[6];
};
struct snic_fuse_getxattr_out {
    uint32_t size, padding;
};
struct snic_fuse_lk_out {
    struct snic_fuse_file_lock lk;
};
struct snic_fuse_init_out {
    uint32_t major, minor, max_readahead, flags;
    uint16_t max_background, congestion_threshold;
    uint32_t max_write, time_gran;
    uint16_t max_pages, map_alignment;
    uint32_t flags2, max_stack_depth;
    uint16_t request_timeout, unused[11];
};
struct snic_fuse_bmap_out {
    uint64_t block;
};
struct snic_fuse_ioctl_out {
    int32_t result;
    uint32_t flags, in_iovs, out_iovs;
};
struct snic_fuse_poll_out {
    uint32_t revents, padding;
};
struct snic_fuse_lseek_out {
    uint64_t offset;
};
struct snic_fuse_statx_out {
    uint64_t attr_valid;
    uint32_t attr_valid_nsec, flags;
    uint64_t spare[2];
    struct snic_fuse_statx stat;
};
/** An entry of READDIR; the name follows, then zeros up to a multiple of 8. */
struct snic_fuse_dirent {
    uint64_t ino, off;
    uint32_t namelen, type;
};
struct snic_fuse_notify_inval_inode_out {
    uint64_t ino;
    int64_t off, len;
};
struct snic_fuse_notify_inval_entry_out {
    uint64_t parent;
    uint32_t namelen, flags;
};
struct snic_fuse_notify_delete_out {
    uint64_t parent, child;
    uint32_t namelen, padding;
};

SNIC_STATIC_ASSERT(sizeof(struct snic_fuse_in_header) == 40, "wire");
SNIC_STATIC_ASSERT(sizeof(struct snic_fuse_out_header) == 16, "wire");
SNIC_STATIC_ASSERT(sizeof(struct snic_fuse_attr) == 88, "wire");
SNIC_STATIC_ASSERT(sizeof(struct snic_fuse_setattr_in) == 88, "wire");
SNIC_STATIC_ASSERT(sizeof(struct snic_fuse_init_in) == 64, "wire");
SNIC_STATIC_ASSERT(sizeof(struct snic_fuse_init_out) == 64, "wire");
SNIC_STATIC_ASSERT(sizeof(struct snic_fuse_create_out) == 144, "wire");
SNIC_STATIC_ASSERT(sizeof(struct snic_fuse_statfs_out) == 80, "wire");
SNIC_STATIC_ASSERT(sizeof(struct snic_fuse_statx) == 256, "wire");
SNIC_STATIC_ASSERT(sizeof(struct snic_fuse_statx_out) == 288, "wire");

#endif /* SNIC_FUSE_WIRE_H */
