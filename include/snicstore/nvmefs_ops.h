/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/nvmefs_ops.h
 * nvme-fs: the encoding of file requests: the headers inside write and read buffers.
 *
 * Depends on  snicstore/base.h, snicstore/fsop.h.
 * Memory      Nothing is allocated; a decoded request points into the buffer it was decoded from.
 * Threads     Pure functions.
 * Progress    Bounded by the header's size.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes.
 * Input       Headers are hostile: decode from a private copy only.
 *
 * The write buffer of a command (nvmefs.h) begins with a request header of WH_len bytes, what
 * follows is data (WRITE, SETXATTR, SYMLINK). The read buffer begins with an answer of RH_len
 * bytes, what follows is data (READ, READDIR, READLINK, GETXATTR, LISTXATTR). READDIR's are packed
 * struct snic_fsop_dirent. All integers are little-endian.
 *
 *     request   struct snic_nvmefs_head   40 bytes, what every request carries
 *               struct snic_nvmefs_op_X   the operation's own, head.body_bytes of them
 *               groups                    head.group_count numbers of 4 bytes, zeros to 8
 *               name, name2               head.name_size, head.name2_size bytes, zeros to 8
 *     answer    struct snic_nvmefs_answer  8 bytes
 *               struct snic_nvmefs_wire_attr, _statfs or _lock
 *
 * A header of another version, of another size than its parts, with a name or data where the
 * operation has none, with unknown flags or with reserved bytes that are not zero is refused
 * (snic_fsop_validate()). The file system checks what names and numbers mean.
 */
#ifndef SNIC_NVMEFS_OPS_H
#define SNIC_NVMEFS_OPS_H

#include "snicstore/base.h"
#include "snicstore/fsop.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_NVMEFS_OPS_VERSION 2U
#define SNIC_NVMEFS_HEADER_MAX 3072U /**< WH_len; RESOLVE's path may fill it                   */
#define SNIC_NVMEFS_ANSWER_MAX 192U  /**< RH_len                                               */

/* ---- On the wire ---- */

struct snic_nvmefs_head {
    uint8_t version; /**< SNIC_NVMEFS_OPS_VERSION                                             */
    uint8_t op;      /**< enum snic_fsop_kind                                                 */
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
    uint32_t set_mask; /**< SNIC_FSOP_SET_*                                                   */
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

/* ---- To and from fsop.h ---- */

/**
 * Where the data of an operation travel; those of SYMLINK are its target. [any]
 * @return 0 none; 1 with the request; 2 with the answer; SNIC_ENOTSUP no such kind, or one that
 * does not travel
 */
SNIC_API int snic_nvmefs_op_data(uint32_t kind);
/** RH_len of the operation's answer, 0: none, or no such kind. [any] */
SNIC_API uint32_t snic_nvmefs_op_answer(uint32_t kind);
/**
 * Write the header of @p op, if @p room is enough for it. [any]
 * @return its size, a multiple of 8; SNIC_ENOTSUP kind; SNIC_EINVAL a flag or a name that the
 *         operation does not have, or the target of SYMLINK as name2; SNIC_ENAMETOOLONG a name;
 *         SNIC_E2BIG groups; SNIC_EMSGSIZE more than @p room or SNIC_NVMEFS_HEADER_MAX bytes
 */
SNIC_API SNIC_NODISCARD int snic_nvmefs_head_encode(const struct snic_fsop *op, void *out,
                                                    uint32_t room) SNIC_NONNULL(1, 2);
/**
 * Read a header of exactly @p size bytes, 8-aligned and private. Names and groups stay there. The
 * fields of an operation are set, no others; also when it fails. [any]
 * @return 0; SNIC_EVERSION another version; SNIC_ENOTSUP kind; SNIC_EPROTO anything else
 */
SNIC_API SNIC_NODISCARD int snic_nvmefs_head_decode(struct snic_fsop *op, void *in, uint32_t size)
    SNIC_NONNULL(1, 2);
/** Write the answer of @p op to SNIC_NVMEFS_ANSWER_MAX bytes. [any] @return its size, 0: none */
SNIC_API uint32_t snic_nvmefs_answer_encode(const struct snic_fsop *op, void *out)
    SNIC_NONNULL(1, 2);
/**
 * Read the answer to @p op, whose kind determines its form. [any]
 * @return 0; SNIC_EVERSION another version; SNIC_EPROTO another size, kind or form
 */
SNIC_API SNIC_NODISCARD int snic_nvmefs_answer_decode(struct snic_fsop *op, const void *in,
                                                      uint32_t size) SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVMEFS_OPS_H */
