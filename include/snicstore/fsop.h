/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/fsop.h
 * The vocabulary of file systems: requests, attributes, locks and directory entries as plain data.
 * The engine kvfs.h executes them, nvmefs.h carries them to another processor, a FUSE mount makes
 * them from the kernel's requests.
 *
 * Depends on  snicstore/base.h.
 * Memory      Plain data. All that a request points to is borrowed until it has completed.
 * Threads     None of its own.
 * Progress    No call blocks.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise, Linux numbers.
 * Units       bytes, ns.
 */
#ifndef SNIC_FSOP_H
#define SNIC_FSOP_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_FSOP_ROOT 1U /**< inode number of the root directory                           */
#define SNIC_FSOP_NAME_MAX 1024U
#define SNIC_FSOP_SYMLINK_MAX 4095U
#define SNIC_FSOP_GROUPS_MAX 256U /**< supplementary groups of a caller                      */
#define SNIC_FSOP_XATTR_NAME_MAX 255U
#define SNIC_FSOP_XATTR_VALUE_MAX 65536U
#define SNIC_FSOP_XATTR_LIST_MAX 65536U
#define SNIC_FSOP_IO_MAX (1U << 20) /**< bytes of one READ or WRITE                          */

/**
 * Operations, with the fields that each reads and, behind the arrow, those that it sets. The
 * numbers are those of nvme-fs' wire format: new ones are added before MKFS, which may move.
 */
enum snic_fsop_kind {
    SNIC_FSOP_LOOKUP = 1,      /**< ino, name -> attr                                        */
    SNIC_FSOP_FORGET = 2,      /**< ino, length: so many references of the host are dropped     */
    SNIC_FSOP_GETATTR = 3,     /**< ino -> attr                                              */
    SNIC_FSOP_SETATTR = 4,     /**< ino, set_mask, attr -> attr                              */
    SNIC_FSOP_READLINK = 5,    /**< ino, iov -> bytes                                        */
    SNIC_FSOP_MKNOD = 6,       /**< ino, name, mode (type and permissions), rdev -> attr; any type
                                    but directory and symlink                             */
    SNIC_FSOP_CREATE = 7,      /**< ino, name, mode, flags -> attr, handle; O_EXCL or not      */
    SNIC_FSOP_MKDIR = 8,       /**< ino, name, mode -> attr                                  */
    SNIC_FSOP_SYMLINK = 9,     /**< ino, name, name2: the target -> attr                      */
    SNIC_FSOP_UNLINK = 10,     /**< ino, name; flag HOLD -> handle, attr.ino                  */
    SNIC_FSOP_RMDIR = 11,      /**< ino, name; flag HOLD -> handle, attr.ino                  */
    SNIC_FSOP_RENAME = 12,     /**< ino, name, ino2, name2, flags SNIC_FSOP_RENAME_*; HOLD ->
                                    handle, attr.ino                                      */
    SNIC_FSOP_LINK = 13,       /**< ino (the file), ino2 (the directory), name2 -> attr        */
    SNIC_FSOP_OPEN = 14,       /**< ino, flags -> handle, attr                               */
    SNIC_FSOP_RELEASE = 15,    /**< handle; drops its flock and, by lock.owner, its POSIX locks */
    SNIC_FSOP_FLUSH = 16,      /**< handle, lock.owner: a descriptor is closed               */
    SNIC_FSOP_FSYNC = 17,      /**< ino: durable, with the directory entries made before; flag
                                    FSYNC_DATA: as fdatasync()                            */
    SNIC_FSOP_READ = 18,       /**< ino, offset, iov -> bytes                                */
    SNIC_FSOP_WRITE = 19,      /**< ino, offset (or APPEND), iov -> bytes                     */
    SNIC_FSOP_FALLOCATE = 20,  /**< ino, offset, length, flags SNIC_FSOP_FALLOC_*             */
    SNIC_FSOP_SEEK = 21,       /**< ino, offset, flags SNIC_FSOP_SEEK_* -> offset in result    */
    SNIC_FSOP_COPY = 22,       /**< ino, offset, ino2, offset2, length -> bytes (may be fewer)  */
    SNIC_FSOP_OPENDIR = 23,    /**< ino -> handle                                            */
    SNIC_FSOP_READDIR = 24,    /**< ino, offset (cookie), iov[0] -> packed snic_fsop_dirent; flag
                                    READDIR_PLUS: with attributes                         */
    SNIC_FSOP_RELEASEDIR = 25, /**< handle                                                   */
    SNIC_FSOP_STATFS = 26,     /**< -> statfs                                                */
    SNIC_FSOP_SETXATTR = 27,   /**< ino, name, iov, flags SNIC_FSOP_XATTR_*                   */
    SNIC_FSOP_GETXATTR = 28,   /**< ino, name, iov -> bytes; no iov: its size                 */
    SNIC_FSOP_LISTXATTR = 29,  /**< ino, iov -> bytes of names, each with its 0; no iov: the size */
    SNIC_FSOP_REMOVEXATTR = 30, /**< ino, name                                                */
    SNIC_FSOP_ACCESS = 31,      /**< ino, mode: bits R 4, W 2, X 1                             */
    SNIC_FSOP_GETLK = 32,       /**< ino, lock -> lock (UNLCK: no conflict)                    */
    SNIC_FSOP_SETLK = 33,       /**< ino, lock; flag LOCK_WAIT: waits, cancellable              */
    SNIC_FSOP_FLOCK = 34,       /**< ino, lock.type, lock.owner; flag LOCK_WAIT                 */
    SNIC_FSOP_SYNCFS = 35,      /**< everything durable                                       */
    SNIC_FSOP_RESOLVE = 36, /**< ino, name: a path of several names -> attr; follows no symlinks;
                                 absolute or relative to ino                           */
    /* Administration of a file system in this process; these do not travel. */
    SNIC_FSOP_MKFS,  /**< name, name_size: the file system's options (kvfs.h); NULL: defaults    */
    SNIC_FSOP_MOUNT, /**< before all others                                                */
    SNIC_FSOP_UNMOUNT, /**< after all others                                                 */
    SNIC_FSOP_KINDS
};
#define SNIC_FSOP_WIRE_KINDS ((uint32_t)SNIC_FSOP_MKFS) /**< kinds that travel are less */

/* Request flags. */
#define SNIC_FSOP_CHECKED (1u << 0) /**< permissions have been checked                      */
#define SNIC_FSOP_DIRECT (1u << 1)  /**< READ, WRITE: O_DIRECT                               */
#define SNIC_FSOP_APPEND (1u << 2)  /**< WRITE: at the end, atomically                       */
#define SNIC_FSOP_SYNC (1u << 3)    /**< WRITE: O_SYNC, O_DSYNC                              */
/**
 * The caller has no CAP_FSETID: OPEN with TRUNC, WRITE, FALLOCATE, COPY (of the target) and SETATTR
 * of a size clear set-uid, and set-gid where the group may execute or the caller is not in it (gid
 * and groups of cred); SETXATTR of an access ACL clears set-gid where the caller is not in it. A
 * SETATTR of owner or group clears them in any case (root is in every group then); one with
 * KILL_PRIV and without any value does the same (SNIC_EPERM from others than the owner if a bit
 * would be cleared, unless CHECKED: then it has no effect). All these but SETXATTR remove file
 * capabilities (security.capability), whatever the caller's credentials.
 */
#define SNIC_FSOP_KILL_PRIV (1u << 4)
#define SNIC_FSOP_READDIR_PLUS (1u << 5)
#define SNIC_FSOP_LOCK_WAIT (1u << 6)
/**
 * UNLINK, RMDIR, RENAME: an inode whose last name it removes stays accessible by its number: its
 * number is returned in attr.ino, with a handle (0: none lost its last name, or the file system
 * holds as many as it can), which counts as open until RELEASE.
 */
#define SNIC_FSOP_HOLD (1u << 7)
#define SNIC_FSOP_EXCL (1u << 8)  /**< CREATE: SNIC_EEXIST if the name exists                */
#define SNIC_FSOP_TRUNC (1u << 9) /**< CREATE, OPEN: size becomes 0                          */
#define SNIC_FSOP_OPEN_READ (1u << 10)
#define SNIC_FSOP_OPEN_WRITE (1u << 11)
#define SNIC_FSOP_NOATIME (1u << 12) /**< READ, READDIR: atime is not changed                */
/* Flags of one operation each; they share bits. */
#define SNIC_FSOP_RENAME_NOREPLACE (1u << 16)
#define SNIC_FSOP_RENAME_EXCHANGE (1u << 17)
#define SNIC_FSOP_RENAME_WHITEOUT (1u << 18) /**< a character device 0:0 gets the old name    */
#define SNIC_FSOP_FSYNC_DATA (1u << 16)
#define SNIC_FSOP_FALLOC_KEEP_SIZE (1u << 16)
#define SNIC_FSOP_FALLOC_PUNCH (1u << 17) /**< with KEEP_SIZE, as Linux requires              */
#define SNIC_FSOP_FALLOC_ZERO (1u << 18)
#define SNIC_FSOP_SEEK_DATA (1u << 16)
#define SNIC_FSOP_SEEK_HOLE (1u << 17)
#define SNIC_FSOP_XATTR_CREATE (1u << 16)
#define SNIC_FSOP_XATTR_REPLACE (1u << 17)

/* set_mask of SETATTR. */
#define SNIC_FSOP_SET_MODE (1u << 0)
#define SNIC_FSOP_SET_UID (1u << 1)
#define SNIC_FSOP_SET_GID (1u << 2)
#define SNIC_FSOP_SET_SIZE (1u << 3)
#define SNIC_FSOP_SET_ATIME (1u << 4)
#define SNIC_FSOP_SET_MTIME (1u << 5)
#define SNIC_FSOP_SET_ATIME_NOW (1u << 6)
#define SNIC_FSOP_SET_MTIME_NOW (1u << 7)
#define SNIC_FSOP_SET_CTIME (1u << 8) /**< to the time of the kernel's writeback cache         */

struct snic_fsop_time {
    int64_t sec;
    uint32_t nsec;
    uint32_t reserved;
};

/** Hash of a name; a file system may find its entries by it. */
struct snic_fsop_hash {
    uint64_t high; /**< its top 63 bits, at least 3, are the READDIR cookie                   */
    uint64_t low;
};

/** Attributes of an inode; also a part of READDIR's entries, which travel: the layout is fixed. */
struct snic_fsop_attr {
    uint64_t ino; /**< in requests the root is SNIC_FSOP_ROOT                                 */
    uint64_t size;
    uint64_t space; /**< bytes taken: st_blocks * 512                                        */
    uint64_t rdev;
    uint32_t mode;
    uint32_t nlink;
    uint32_t uid;
    uint32_t gid;
    uint32_t flags; /**< the file system's own: SNIC_KVFS_ATTR_*                             */
    uint32_t reserved;
    struct snic_fsop_time atime;
    struct snic_fsop_time mtime;
    struct snic_fsop_time ctime;
    struct snic_fsop_time btime;
    uint64_t parent; /**< directory: the one above it; else the first name's, if it has one    */
    struct snic_fsop_hash name;
    uint64_t version; /**< raised with every change of the attributes                         */
    uint64_t entries; /**< directory: names in it                                            */
};
SNIC_STATIC_ASSERT(sizeof(struct snic_fsop_attr) == 160, "part of READDIR's entries");

/** The caller's credentials. */
struct snic_fsop_cred {
    uint32_t uid;
    uint32_t gid;
    uint32_t pid;
    uint32_t umask; /**< masks new files' modes, unless the directory has a default ACL       */
    const uint32_t *groups; /**< supplementary; borrowed; may be NULL                         */
    uint32_t group_count;
    uint32_t reserved;
};

#define SNIC_FSOP_UNLCK 0U
#define SNIC_FSOP_RDLCK 1U
#define SNIC_FSOP_WRLCK 2U

/** A byte-range lock; FLOCK uses type and owner. OFD locks are POSIX locks of another owner. */
struct snic_fsop_lock {
    uint64_t owner; /**< the lock owner: a process's file table, or an open file           */
    uint64_t start;
    uint64_t end;  /**< inclusive; UINT64_MAX: to the end                                  */
    uint32_t type; /**< SNIC_FSOP_UNLCK, RDLCK, WRLCK                                       */
    uint32_t pid;
};

struct snic_fsop_statfs {
    uint64_t bytes;
    uint64_t bytes_free;
    uint64_t files; /**< most inodes                                                  */
    uint64_t files_free;
};

/** A READDIR entry, packed at multiples of 8; the name (name_size bytes and a 0) follows. */
struct snic_fsop_dirent {
    uint32_t bytes; /**< to the next                                                        */
    uint32_t name_size;
    uint64_t ino;
    uint64_t cookie; /**< continue behind this entry; greater than 2. "." has 1, ".." has 2     */
    uint32_t type;   /**< S_IFMT bits of the mode                                            */
    uint32_t has_attr;
    struct snic_fsop_attr attr; /**< READDIR_PLUS and has_attr                                */
};
SNIC_STATIC_ASSERT(sizeof(struct snic_fsop_dirent) == 192, "READDIR's entries travel");

/** A request. Zero it, set what the kind needs, submit it to a file system or a link. */
struct snic_fsop {
    struct snic_node node; /**< of the engine that has borrowed the request                */
    uint32_t kind;         /**< enum snic_fsop_kind                                         */
    uint32_t flags;        /**< SNIC_FSOP_*                                                 */
    struct snic_fsop_cred cred;
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
        *iov; /**< READ: out; WRITE, SETXATTR: in; READLINK, GETXATTR, READDIR: iov[0] */
    uint32_t iov_count;
    uint32_t tenant; /**< carried                                                          */
    struct snic_fsop_lock lock;
    struct snic_fsop_attr attr; /**< in: SETATTR's values; out                                 */
    struct snic_fsop_statfs statfs;
    int64_t result;     /**< 0, a count, an offset, or SNIC_E*                                 */
    uint64_t engine[4]; /**< of the engine that has borrowed the request                       */
    void *ctx;          /**< the caller's                                                     */
};

/** The name of an operation in lower case, for messages; "?": no such kind. [any] */
SNIC_API const char *snic_fsop_name(uint32_t kind);
/**
 * Where the data of an operation are, in iov. The target of SYMLINK is a name, not data.
 * @return 0 none; 1 the request has them; 2 they are returned; SNIC_ENOTSUP no such kind [any]
 */
SNIC_API int snic_fsop_data(uint32_t kind);
/**
 * Check the form of a request: what carries requests calls it at both ends. What names, numbers and
 * handles mean the file system checks; it may ignore fields and flags that its operation lacks.
 * @return 0; SNIC_ENOTSUP no such kind; SNIC_EINVAL a flag or a name that the operation does not
 *         have; SNIC_ENAMETOOLONG name or name2; SNIC_E2BIG more than SNIC_FSOP_GROUPS_MAX groups
 *         [any]
 */
SNIC_API SNIC_NODISCARD int snic_fsop_validate(const struct snic_fsop *op) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_FSOP_H */
