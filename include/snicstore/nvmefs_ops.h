/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/nvmefs_ops.h
 * nvme-fs: the encoding of file requests: the headers inside write and read buffers.
 *
 * Depends on  snicstore/base.h.
 * Memory      Nothing is allocated; a decoded request points into the buffer it was decoded from.
 * Threads     Pure functions.
 * Progress    Bounded by the header's size.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes.
 * Input       Headers are hostile: decode from a private copy only.
 *
 * The write buffer of a command (nvmefs.h) begins with a request header of WH_len bytes, what
 * follows is data (WRITE, SETXATTR, SYMLINK). The read buffer begins with an answer of RH_len
 * bytes, what follows is data (READ, READDIR, READLINK, GETXATTR, LISTXATTR). All integers are
 * little-endian.
 *
 *     request   struct snic_nvmefs_head   40 bytes, what every request carries
 *               struct snic_nvmefs_op_X   the operation's own, head.body_bytes of them
 *               groups                    head.group_count numbers of 4 bytes, zeros to 8
 *               name, name2               head.name_size, head.name2_size bytes, zeros to 8
 *     answer    struct snic_nvmefs_answer  8 bytes
 *               struct snic_nvmefs_wire_attr, _statfs or _lock
 *
 * A header of another version, of another size than its parts, with a name or data where the
 * operation has none, with unknown flags or with reserved bytes that are not zero is refused. What
 * names and numbers mean is the file system's to judge.
 */
#ifndef SNIC_NVMEFS_OPS_H
#define SNIC_NVMEFS_OPS_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_NVMEFS_OPS_VERSION 2U
#define SNIC_NVMEFS_NAME_MAX 1024U   /**< of a name; RESOLVE's path may fill the header        */
#define SNIC_NVMEFS_HEADER_MAX 3072U /**< WH_len                                               */
#define SNIC_NVMEFS_GROUPS_MAX 256U  /**< as far as names leave room                           */
#define SNIC_NVMEFS_ANSWER_MAX 192U  /**< RH_len                                               */

/** Operations; fixed numbers. With data in (written) or data out (read) where noted. */
enum snic_nvmefs_op_kind {
    SNIC_NVMEFS_LOOKUP = 1,       /**< name -> attr                                             */
    SNIC_NVMEFS_FORGET = 2,       /**< the host's memory of an inode ends; never fails          */
    SNIC_NVMEFS_GETATTR = 3,      /**< -> attr                                                  */
    SNIC_NVMEFS_SETATTR = 4,      /**< set_mask, values -> attr                                 */
    SNIC_NVMEFS_READLINK = 5,     /**< -> data out                                              */
    SNIC_NVMEFS_MKNOD = 6,        /**< name, mode, rdev -> attr                                 */
    SNIC_NVMEFS_CREATE = 7,       /**< name, mode, flags -> attr, handle                        */
    SNIC_NVMEFS_MKDIR = 8,        /**< name, mode -> attr                                       */
    SNIC_NVMEFS_SYMLINK = 9,      /**< name, data in: the target -> attr                        */
    SNIC_NVMEFS_UNLINK = 10,      /**< name; HOLD -> handle, attr.ino                           */
    SNIC_NVMEFS_RMDIR = 11,       /**< name; HOLD -> handle, attr.ino                           */
    SNIC_NVMEFS_RENAME = 12,      /**< name, ino2, name2, flags; HOLD -> handle, attr.ino       */
    SNIC_NVMEFS_LINK = 13,        /**< ino2 (directory), name2 -> attr                          */
    SNIC_NVMEFS_OPEN = 14,        /**< flags -> attr, handle                                    */
    SNIC_NVMEFS_RELEASE = 15,     /**< handle, owner                                            */
    SNIC_NVMEFS_FLUSH = 16,       /**< handle, owner                                            */
    SNIC_NVMEFS_FSYNC = 17,       /**< handle                                                   */
    SNIC_NVMEFS_READ = 18,        /**< handle, offset -> data out                               */
    SNIC_NVMEFS_WRITE = 19,       /**< handle, offset, data in -> bytes                         */
    SNIC_NVMEFS_FALLOCATE = 20,   /**< offset, length, flags                                    */
    SNIC_NVMEFS_SEEK = 21,        /**< offset, flags -> offset                                  */
    SNIC_NVMEFS_COPY = 22,        /**< offset, ino2, offset2, length -> bytes                   */
    SNIC_NVMEFS_OPENDIR = 23,     /**< -> attr, handle                                          */
    SNIC_NVMEFS_READDIR = 24,     /**< handle, offset (cookie) -> data out, kvfs.h's dirents    */
    SNIC_NVMEFS_RELEASEDIR = 25,  /**< handle                                                   */
    SNIC_NVMEFS_STATFS = 26,      /**< -> statfs                                                */
    SNIC_NVMEFS_SETXATTR = 27,    /**< name, data in                                            */
    SNIC_NVMEFS_GETXATTR = 28,    /**< name -> data out; no room: the size alone                */
    SNIC_NVMEFS_LISTXATTR = 29,   /**< -> data out; no room: the size alone                     */
    SNIC_NVMEFS_REMOVEXATTR = 30, /**< name                                                    */
    SNIC_NVMEFS_ACCESS = 31,      /**< mode                                                    */
    SNIC_NVMEFS_GETLK = 32,       /**< lock -> lock                                            */
    SNIC_NVMEFS_SETLK = 33,       /**< lock; may wait: abort ends it                           */
    SNIC_NVMEFS_FLOCK = 34,       /**< owner, type; may wait: abort ends it                    */
    SNIC_NVMEFS_SYNCFS = 35,      /**< everything durable                                      */
    SNIC_NVMEFS_RESOLVE = 36,     /**< name: a path -> attr                                    */
    SNIC_NVMEFS_OPS
};

/* Flags: the numbers of kvfs.h's SNIC_KVFS_*, which static asserts in fsdispatch keep equal. */
#define SNIC_NVMEFS_CHECKED (1U << 0)
#define SNIC_NVMEFS_DIRECT (1U << 1)
#define SNIC_NVMEFS_APPEND (1U << 2)
#define SNIC_NVMEFS_SYNC (1U << 3)
#define SNIC_NVMEFS_KILL_PRIV (1U << 4)
#define SNIC_NVMEFS_READDIR_PLUS (1U << 5)
#define SNIC_NVMEFS_LOCK_WAIT (1U << 6)
#define SNIC_NVMEFS_HOLD (1U << 7)
#define SNIC_NVMEFS_EXCL (1U << 8)
#define SNIC_NVMEFS_TRUNC (1U << 9)
#define SNIC_NVMEFS_OPEN_READ (1U << 10)
#define SNIC_NVMEFS_OPEN_WRITE (1U << 11)
#define SNIC_NVMEFS_NOATIME (1U << 12)
#define SNIC_NVMEFS_OWN_A                                                                          \
    (1U << 16) /**< RENAME no-replace, FALLOCATE keep, FSYNC data, SEEK data, XATTR create */
#define SNIC_NVMEFS_OWN_B                                                                          \
    (1U << 17) /**< RENAME exchange, FALLOCATE punch, SEEK hole, XATTR replace */
#define SNIC_NVMEFS_OWN_C (1U << 18) /**< FALLOCATE zero, RENAME whiteout                       */

/* ---- On the wire ---- */

struct snic_nvmefs_head {
    uint8_t version; /**< SNIC_NVMEFS_OPS_VERSION                                             */
    uint8_t op;      /**< enum snic_nvmefs_op_kind                                            */
    uint16_t body_bytes;
    uint32_t flags;
    uint32_t uid;
    uint32_t gid;
    uint32_t pid;
    uint32_t umask;
    uint16_t group_count;
    uint16_t name_size;
    uint16_t name2_size;
    uint16_t reserved;
    uint32_t tenant;
    uint32_t reserved2;
};

/** LOOKUP, READLINK, UNLINK, RMDIR, OPEN, OPENDIR, STATFS, SYMLINK, xattrs, SYNCFS, RESOLVE. */
struct snic_nvmefs_op_node {
    uint64_t ino;
};
/** FORGET. */
struct snic_nvmefs_op_forget {
    uint64_t ino;
    uint64_t count; /**< lookups that end                                                     */
};
/** GETATTR, FSYNC, RELEASEDIR. */
struct snic_nvmefs_op_handle {
    uint64_t ino;
    uint64_t handle;
};
struct snic_nvmefs_op_setattr {
    uint64_t ino;
    uint64_t handle;
    uint64_t size;
    int64_t atime_sec;
    int64_t mtime_sec;
    int64_t ctime_sec;
    uint32_t atime_nsec;
    uint32_t mtime_nsec;
    uint32_t ctime_nsec;
    uint32_t set_mask; /**< kvfs.h's SNIC_FSOP_SET_*                                          */
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t reserved;
};
/** MKNOD, CREATE, MKDIR, ACCESS. */
struct snic_nvmefs_op_make {
    uint64_t ino;
    uint64_t rdev;
    uint32_t mode;
    uint32_t reserved;
};
/** RENAME, LINK. */
struct snic_nvmefs_op_rename {
    uint64_t ino;
    uint64_t ino2;
};
/** RELEASE, FLUSH. */
struct snic_nvmefs_op_release {
    uint64_t ino;
    uint64_t handle;
    uint64_t owner;
};
/** READ, WRITE, SEEK, READDIR. */
struct snic_nvmefs_op_io {
    uint64_t ino;
    uint64_t handle;
    uint64_t offset;
};
struct snic_nvmefs_op_fallocate {
    uint64_t ino;
    uint64_t handle;
    uint64_t offset;
    uint64_t length;
};
struct snic_nvmefs_op_copy {
    uint64_t ino;
    uint64_t handle;
    uint64_t offset;
    uint64_t ino2;
    uint64_t offset2;
    uint64_t length;
};
/** GETLK, SETLK, FLOCK. */
struct snic_nvmefs_op_lock {
    uint64_t ino;
    uint64_t handle;
    uint64_t owner;
    uint64_t start;
    uint64_t end;
    uint32_t type;
    uint32_t pid;
};

struct snic_nvmefs_answer {
    uint8_t version;
    uint8_t op;
    uint16_t bytes; /**< of the answer, this included                                         */
    uint32_t reserved;
};
struct snic_nvmefs_wire_attr {
    uint64_t handle;
    uint64_t ino;
    uint64_t size;
    uint64_t space;
    uint64_t rdev;
    uint64_t version;
    uint64_t entries;
    int64_t atime_sec;
    int64_t mtime_sec;
    int64_t ctime_sec;
    int64_t btime_sec;
    uint32_t atime_nsec;
    uint32_t mtime_nsec;
    uint32_t ctime_nsec;
    uint32_t btime_nsec;
    uint32_t mode;
    uint32_t nlink;
    uint32_t uid;
    uint32_t gid;
    uint32_t flags;
    uint32_t reserved;
};
struct snic_nvmefs_wire_statfs {
    uint64_t bytes;
    uint64_t bytes_free;
    uint64_t files;
    uint64_t files_free;
};
struct snic_nvmefs_wire_lock {
    uint64_t owner;
    uint64_t start;
    uint64_t end;
    uint32_t type;
    uint32_t pid;
};
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_head) == 40, "wire format");
SNIC_STATIC_ASSERT(offsetof(struct snic_nvmefs_head, tenant) == 32, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_op_node) == 8, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_op_forget) == 16, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_op_handle) == 16, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_op_setattr) == 80, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_op_make) == 24, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_op_rename) == 16, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_op_release) == 24, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_op_io) == 24, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_op_fallocate) == 32, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_op_copy) == 48, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_op_lock) == 48, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_answer) == 8, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_wire_attr) == 128, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_wire_statfs) == 32, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct snic_nvmefs_wire_lock) == 32, "wire format");

/* ---- In memory ---- */

/** Attributes, in (SETATTR) and out; the times' order is that of the wire. */
struct snic_nvmefs_attr {
    uint64_t ino;
    uint64_t size;
    uint64_t space;
    uint64_t rdev;
    uint64_t version;
    uint64_t entries;
    int64_t atime_sec;
    int64_t mtime_sec;
    int64_t ctime_sec;
    int64_t btime_sec;
    uint32_t atime_nsec;
    uint32_t mtime_nsec;
    uint32_t ctime_nsec;
    uint32_t btime_nsec;
    uint32_t mode;
    uint32_t nlink;
    uint32_t uid;
    uint32_t gid;
    uint32_t flags;
    uint32_t reserved;
};

/** A piece of registered memory: an address of nvmefs.h. */
struct snic_nvmefs_extent {
    uint64_t address;
    uint32_t size;
    uint32_t reserved; /**< must be 0                                                         */
};

/** A request, at both ends. Zero it, set what the operation needs. */
struct snic_nvmefs_req {
    struct snic_node node; /**< the engine's while borrowed                                   */
    uint8_t op;            /**< enum snic_nvmefs_op_kind                                      */
    uint8_t distributed;   /**< Dword0 bit 10: 0 the standalone file system, 1 the DFS client */
    uint16_t cid;          /**< the engine's                                                  */
    uint32_t flags;        /**< SNIC_NVMEFS_*                                                 */
    uint32_t uid;
    uint32_t gid;
    uint32_t pid;
    uint32_t umask;
    uint32_t tenant;
    uint32_t group_count;
    const uint32_t *groups; /**< borrowed                                                     */
    const char *name;       /**< not terminated; borrowed                                     */
    const char *name2;
    uint32_t name_size;
    uint32_t name2_size;
    uint64_t ino;
    uint64_t ino2;
    uint64_t handle; /**< in; out: OPEN, CREATE, OPENDIR                                      */
    uint64_t offset;
    uint64_t offset2;
    uint64_t length; /**< FALLOCATE, COPY; FORGET: lookups                                    */
    uint64_t rdev;
    uint32_t mode;
    uint32_t set_mask;
    struct snic_nvmefs_wire_lock lock;     /**< in, out (GETLK); owner: RELEASE, FLUSH        */
    struct snic_nvmefs_attr attr;          /**< SETATTR: in; out                              */
    struct snic_nvmefs_wire_statfs statfs; /**< out                                           */
    /**
     * Host: the data, in or out as the operation has it. Registered memory that stays where it is
     * until the request is done (zero copy), or private memory, copied by the engine.
     */
    const struct snic_nvmefs_extent *extents;
    uint32_t extent_count;
    uint32_t copy_size;
    void *copy;
    uint32_t status;    /**< out: SNIC_NVMEFS_STATUS_*, of the transport                         */
    uint32_t data_size; /**< out: bytes of data out received                                  */
    int64_t result;     /**< out: 0, a count, an offset or SNIC_E*                            */
    void *ctx;          /**< the caller's                                                     */
};

/** Does the operation bring data in (1), out (2), none (0)? SNIC_ENOTSUP: no operation. [any] */
SNIC_API int snic_nvmefs_op_data(uint32_t op);
/** RH_len of the operation's answer, 0: none. [any] */
SNIC_API uint32_t snic_nvmefs_op_answer(uint32_t op);
/** The operation's name, "?" for none. [any] */
SNIC_API const char *snic_nvmefs_op_name(uint32_t op);
/**
 * Write the header of @p req, if @p room is enough for it.
 * @return its size, a multiple of 8; SNIC_ENOTSUP op; SNIC_EINVAL flags, a name where there is
 *         none; SNIC_ENAMETOOLONG; SNIC_E2BIG groups; SNIC_EMSGSIZE [any]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefs_head_encode(const struct snic_nvmefs_req *req, void *out,
                                                    uint32_t room) SNIC_NONNULL(1, 2);
/**
 * Read a header of exactly @p size bytes, 8-aligned and private. Names and groups stay there. The
 * fields of an operation are set, no others.
 * @return 0; SNIC_EVERSION; SNIC_ENOTSUP op; SNIC_EPROTO anything else [any]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefs_head_decode(struct snic_nvmefs_req *req, void *in,
                                                    uint32_t size) SNIC_NONNULL(1, 2);
/** Write the answer of @p req to SNIC_NVMEFS_ANSWER_MAX bytes. @return its size, 0: none [any] */
SNIC_API uint32_t snic_nvmefs_answer_encode(const struct snic_nvmefs_req *req, void *out)
    SNIC_NONNULL(1, 2);
/**
 * Read the answer to @p req, whose op determines its form.
 * @return 0; SNIC_EVERSION; SNIC_EPROTO [any]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefs_answer_decode(struct snic_nvmefs_req *req, const void *in,
                                                      uint32_t size) SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVMEFS_OPS_H */
