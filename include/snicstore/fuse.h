/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/fuse.h
 * The Linux kernel's FUSE protocol as a codec, and a table of its requests in flight.
 *
 * Depends on  snicstore/base.h, snicstore/fuse_wire.h.
 * Memory      Plain structs of the caller's; the table lives in caller memory. No payload is
 *             copied: data and names stay where the transport has put them.
 * Threads     The codec has no state but its arguments. A table belongs to one thread at a time.
 * Progress    Every call is bounded: by the request's size, or by the table's.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes; times in ns.
 * Input       Hostile: every length, count, name and number of a request is checked before it is
 *             used. The arguments are copied first; names and data are not, so a transport whose
 *             peer can write to them meanwhile (shared memory) copies a request before it parses.
 *
 * A transport reads a request, parses it, has it carried out, and writes an answer:
 *
 *     snic_fuse_parse(&r, &conn, iov, n)            < 0: snic_fuse_refusal() is the error to send
 *     r.head.opcode == SNIC_FUSE_INIT               snic_fuse_negotiate(), snic_fuse_answer_init()
 *     snic_fuse_has_reply(r.head.opcode)            snic_fuse_table_add()
 *     SNIC_FUSE_INTERRUPT                           snic_fuse_table_interrupt()
 *     snic_fuse_answer_begin(&a, &r), a.out.x = ... one piece: &a.head, a.head.len bytes
 *     snic_fuse_answer_data(&a, &r, data, n, ...)   pieces for writev(): header, then data
 *
 * Versions. The kernel's INIT proposes a minor version and flags; the smaller version and the flags
 * that both have apply. From 7.23 (Linux 3.15) on all structs have one form, except that of INIT
 * (by INIT_EXT) and SETXATTR (by SETXATTR_EXT); extensions behind the names exist only with
 * SECURITY_CTX or CREATE_SUPP_GROUP, and the former only of kernels that know the latter: those
 * before wrote it without its length. An older kernel is refused.
 */
#ifndef SNIC_FUSE_H
#define SNIC_FUSE_H

#include "snicstore/base.h"
#include "snicstore/fuse_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_FUSE_NAME_MAX 1024U    /**< of a name in a directory                            */
#define SNIC_FUSE_SYMLINK_MAX 4095U /**< of a symbolic link's target                         */
#define SNIC_FUSE_XATTR_MAX 255U    /**< of an extended attribute's name                     */
#define SNIC_FUSE_WRITE_MAX (16U << 20)

/* ---- Connection ---- */

/** What was negotiated. Zero it before INIT, and after DESTROY if another INIT may follow. */
struct snic_fuse_conn {
    uint32_t minor;   /**< 0: not negotiated                                                */
    uint32_t major;   /**< to be sent: the kernel's, or ours if its is newer                */
    uint64_t flags;   /**< in effect                                                        */
    uint64_t offered; /**< by the kernel                                                    */
    uint32_t max_write;
    uint32_t max_read; /**< most of a READ or READDIR that the kernel may request           */
    uint32_t max_readahead;
    uint32_t time_gran;
    uint16_t max_pages; /**< 0: not negotiated                                              */
    uint16_t max_background;
    uint16_t congestion_threshold;
    uint16_t reserved;
};

/** What the server wants. Zero it, set offer_size and what it needs. */
struct snic_fuse_offer {
    uint32_t offer_size;     /**< sizeof(struct snic_fuse_offer)                                 */
    uint32_t minor;          /**< newest that it wants; 0: SNIC_FUSE_MINOR                       */
    uint64_t flags;          /**< SNIC_FUSE_*; those that the kernel lacks are left out. INIT_EXT,
                                  BIG_WRITES and MAX_PAGES are added as needed */
    uint32_t max_write;      /**< 4096 to SNIC_FUSE_WRITE_MAX; 0: 128 KiB                      */
    uint32_t max_readahead;  /**< 0: as the kernel proposes                                   */
    uint32_t page_bytes;     /**< the kernel's pages, a power of two, 4096 to 65536; 0: 4096   */
    uint32_t time_gran;      /**< ns, at most 10^9; 0: 1                                       */
    uint16_t max_background; /**< 0: the kernel's default                              */
    uint16_t congestion_threshold; /**< 0: the kernel's default                              */
    uint32_t reserved;             /**< 0                                                    */
};

/* ---- Requests ---- */

union snic_fuse_in {
    struct snic_fuse_forget_in forget;
    struct snic_fuse_batch_forget_in batch_forget;
    struct snic_fuse_getattr_in getattr;
    struct snic_fuse_setattr_in setattr;
    struct snic_fuse_mknod_in mknod;
    struct snic_fuse_mkdir_in mkdir;
    struct snic_fuse_rename_in rename; /**< RENAME, RENAME2                                  */
    struct snic_fuse_link_in link;
    struct snic_fuse_open_in open;       /**< OPEN, OPENDIR                                    */
    struct snic_fuse_create_in create;   /**< CREATE, TMPFILE                                  */
    struct snic_fuse_release_in release; /**< RELEASE, RELEASEDIR                            */
    struct snic_fuse_flush_in flush;
    struct snic_fuse_read_in read; /**< READ, READDIR, READDIRPLUS                           */
    struct snic_fuse_write_in write;
    struct snic_fuse_fsync_in fsync; /**< FSYNC, FSYNCDIR                                    */
    struct snic_fuse_setxattr_in setxattr;
    struct snic_fuse_getxattr_in getxattr; /**< GETXATTR, LISTXATTR                          */
    struct snic_fuse_lk_in lk;             /**< GETLK, SETLK, SETLKW                         */
    struct snic_fuse_access_in access;
    struct snic_fuse_init_in init;
    struct snic_fuse_interrupt_in interrupt;
    struct snic_fuse_bmap_in bmap;
    struct snic_fuse_ioctl_in ioctl;
    struct snic_fuse_poll_in poll;
    struct snic_fuse_fallocate_in fallocate;
    struct snic_fuse_lseek_in lseek;
    struct snic_fuse_copy_file_range_in copy_file_range; /**< and COPY_FILE_RANGE_64         */
    struct snic_fuse_syncfs_in syncfs;
    struct snic_fuse_statx_in statx;
};

/** A request. Names and extensions point into the transport's memory. */
struct snic_fuse_request {
    struct snic_fuse_in_header head;
    union snic_fuse_in in;
    const char *name;    /**< with a 0 behind it; NULL: the operation has none                   */
    const char *name2;   /**< RENAME, RENAME2: the new one; SYMLINK: the target               */
    uint32_t name_size;  /**< without the 0                                                  */
    uint32_t name2_size; /**< likewise                                                       */
    uint32_t data_size;  /**< WRITE, SETXATTR, IOCTL, BATCH_FORGET                            */
    uint32_t data_at;    /**< where the data begin in the request: snic_fuse_slice()         */
    const void *data;    /**< their first byte; contiguous where the pieces are; NULL: none      */
    const void *ext;     /**< extensions, ext_size bytes; NULL: none                             */
    uint32_t ext_size;
    uint32_t reserved;
};

/** The name of an operation in lower case, for messages; "?": no such opcode. [any] */
SNIC_API const char *snic_fuse_name(uint32_t opcode);
/** Bytes of an operation's argument struct in this connection; -1: unknown or not supported. [any]
 */
SNIC_API int snic_fuse_in_size(uint32_t opcode, const struct snic_fuse_conn *conn) SNIC_NONNULL(2);
/** 1: the kernel waits for a reply to it, 0: there must be none, but an INTERRUPT's error. [any] */
SNIC_API int snic_fuse_has_reply(uint32_t opcode);

/**
 * Parse one request, whose bytes are the @p count pieces at @p iov. Header and arguments may be
 * split anywhere; a name, extensions and BATCH_FORGET's list must be in one piece each.
 * On failure head is set if the pieces have one (unique is 0 if not), all else is zero.
 * @return 0; SNIC_ENOTCONN not INIT, and none was negotiated; SNIC_EVERSION an INIT from a machine
 *         of the other byte order; SNIC_ENOTSUP no such opcode, or not supported; SNIC_EPROTO
 *         shorter than a header, a length in the header that is not that of the pieces, too short
 *         or too long for the operation, no 0 behind a name, a name across pieces, damaged
 *         extensions, an INIT after one was negotiated; SNIC_EINVAL a name that is empty, has a
 *         '/', or is "." or ".." (except in LOOKUP), a lock of no type or whose end is before its
 *         start; SNIC_ENAMETOOLONG; SNIC_EMSGSIZE a WRITE above max_write, a READ or READDIR above
 *         max_read [any]
 */
SNIC_API SNIC_NODISCARD int snic_fuse_parse(struct snic_fuse_request *out,
                                            const struct snic_fuse_conn *conn,
                                            const struct snic_iov *iov, uint32_t count)
    SNIC_NONNULL(1, 2, 3);
/** What a reply's error states where snic_fuse_parse() has returned @p result: a negative errno,
 * ENOSYS for what is not supported (ENOTTY for IOCTL). [any] */
SNIC_API int32_t snic_fuse_refusal(int result, uint32_t opcode);
/** A reply's error for a SNIC_E*: the same number; EIO where Linux has none. [any] */
SNIC_API int32_t snic_fuse_error(int64_t result);
/**
 * The pieces of @p size bytes from @p at on, of @p count pieces at @p iov.
 * @return pieces written to @p out; SNIC_EINVAL beyond the end; SNIC_E2BIG more than @p max [any]
 */
SNIC_API SNIC_NODISCARD int snic_fuse_slice(const struct snic_iov *iov, uint32_t count, size_t at,
                                            size_t size, struct snic_iov *out, uint32_t max);
/** Entry @p i, below in.batch_forget.count, of a BATCH_FORGET. [any] */
SNIC_API void snic_fuse_forget_at(const struct snic_fuse_request *r, uint32_t i,
                                  struct snic_fuse_forget_one *out) SNIC_NONNULL(1, 3);
/**
 * The next extension of a request that was parsed; *@p at is 0 before the first.
 * @return 1: its type, and its bytes behind the header; 0: no more [any]
 */
SNIC_API int snic_fuse_ext_next(const struct snic_fuse_request *r, uint32_t *at, uint32_t *type,
                                const void **data, uint32_t *size) SNIC_NONNULL(1, 2, 3, 4, 5);

/**
 * Answer a parsed INIT: fill @p conn, which is untouched on failure.
 * @return 0; SNIC_EAGAIN the kernel's major version is newer: @p conn has what
 *         snic_fuse_answer_init() needs, and minor 0; the kernel sends another INIT; SNIC_EVERSION
 *         an older major version, or a minor below SNIC_FUSE_MINOR_MIN; SNIC_EINVAL a bad offer:
 *         a number outside its range, or a flag unknown here or whose fields this codec does not
 *         have (MAP_ALIGNMENT, PASSTHROUGH, REQUEST_TIMEOUT) [any]
 */
SNIC_API SNIC_NODISCARD int snic_fuse_negotiate(struct snic_fuse_conn *conn,
                                                const struct snic_fuse_offer *offer,
                                                const struct snic_fuse_request *init)
    SNIC_NONNULL(1, 2, 3);

/* ---- Replies and notifications ---- */

union snic_fuse_out {
    struct snic_fuse_entry_out entry;   /**< LOOKUP, SYMLINK, MKNOD, MKDIR, LINK               */
    struct snic_fuse_attr_out attr;     /**< GETATTR, SETATTR                                  */
    struct snic_fuse_open_out open;     /**< OPEN, OPENDIR                                     */
    struct snic_fuse_create_out create; /**< CREATE, TMPFILE                                 */
    struct snic_fuse_write_out write;   /**< WRITE, COPY_FILE_RANGE                          */
    struct snic_fuse_copy_file_range_out copy_file_range; /**< COPY_FILE_RANGE_64            */
    struct snic_fuse_statfs_out statfs;
    struct snic_fuse_getxattr_out getxattr; /**< GETXATTR, LISTXATTR of size 0               */
    struct snic_fuse_lk_out lk;             /**< GETLK                                       */
    struct snic_fuse_init_out init;
    struct snic_fuse_bmap_out bmap;
    struct snic_fuse_ioctl_out ioctl;
    struct snic_fuse_poll_out poll;
    struct snic_fuse_lseek_out lseek;
    struct snic_fuse_statx_out statx;
    struct snic_fuse_notify_inval_inode_out inval_inode;
    struct snic_fuse_notify_inval_entry_out inval_entry;
    struct snic_fuse_notify_delete_out del;
};

/** A reply or notification as it travels: head.len bytes from &head on, unless data follow. */
struct snic_fuse_answer {
    struct snic_fuse_out_header head;
    union snic_fuse_out out;
};

/** A reply of error @p error (a negative errno, or 0: done, and nothing to return). [any] */
SNIC_API void snic_fuse_answer_error(struct snic_fuse_answer *a, uint64_t unique, int32_t error)
    SNIC_NONNULL(1);
/**
 * The reply of an operation that succeeded, with a zeroed struct for the caller to fill, if that
 * operation returns one. READ, READDIR, READLINK, and GETXATTR and LISTXATTR of a size, return
 * nothing by this, that is, 0 bytes. [any]
 */
SNIC_API void snic_fuse_answer_begin(struct snic_fuse_answer *a, const struct snic_fuse_request *r)
    SNIC_NONNULL(1, 2);
/** The reply to an INIT that snic_fuse_negotiate() has accepted, or returned SNIC_EAGAIN for. [any]
 */
SNIC_API void snic_fuse_answer_init(struct snic_fuse_answer *a, uint64_t unique,
                                    const struct snic_fuse_conn *conn) SNIC_NONNULL(1, 3);
/**
 * A reply of data: @p out gets the header's piece, then those of @p data, which stay the caller's
 * and are borrowed until the pieces are sent.
 * @return pieces; SNIC_E2BIG more than @p max; SNIC_EMSGSIZE longer than a reply may be [any]
 */
SNIC_API SNIC_NODISCARD int snic_fuse_answer_data(struct snic_fuse_answer *a, uint64_t unique,
                                                  const struct snic_iov *data, uint32_t count,
                                                  struct snic_iov *out, uint32_t max)
    SNIC_NONNULL(1, 5);
/** ns as seconds and ns, for the validity of entries and attributes. [any] */
static inline void snic_fuse_valid(uint64_t ns, uint64_t *sec, uint32_t *nsec)
{
    *sec = ns / 1000000000U;
    *nsec = (uint32_t)(ns % 1000000000U);
}

/** Bytes of a directory's entry with a name of @p name_size: READDIR's, or, if @p plus,
 * READDIRPLUS'. [any] */
SNIC_API size_t snic_fuse_dirent_bytes(uint32_t name_size, int plus);
/**
 * Write an entry of READDIR, or, with @p plus, of READDIRPLUS, to @p at, which has @p space bytes.
 * namelen of @p d is the name's size; d->off is where the next READDIR continues. A plus->nodeid of
 * 0 has the kernel look the name up itself, and is what "." and ".." get, which it never counts;
 * else the entry counts as a LOOKUP.
 * @return bytes written; 0 no space, and nothing was written; SNIC_EINVAL a name of the directory
 *         that the kernel would refuse: empty, with a 0 or a '/'; SNIC_ENAMETOOLONG [any]
 */
SNIC_API SNIC_NODISCARD int snic_fuse_dirent_put(void *at, size_t space,
                                                 const struct snic_fuse_dirent *d, const char *name,
                                                 const struct snic_fuse_entry_out *plus)
    SNIC_NONNULL(1, 3, 4);

/** Attributes of inode @p ino are invalid, and its pages from @p off, @p len bytes (0: to the end);
 * @p off below 0: no pages. [any] */
SNIC_API void snic_fuse_notify_inode(struct snic_fuse_answer *a, uint64_t ino, int64_t off,
                                     int64_t len) SNIC_NONNULL(1);
/**
 * A name in directory @p parent is invalid (@p expire: has expired, and stays mounted on), in three
 * pieces; the name is borrowed until they are sent.
 * @return 3; SNIC_ENOTSUP @p expire, and the kernel has no EXPIRE_ONLY; SNIC_EINVAL, ENAMETOOLONG
 *         as snic_fuse_dirent_put() [any]
 */
SNIC_API SNIC_NODISCARD int snic_fuse_notify_entry(struct snic_fuse_answer *a,
                                                   const struct snic_fuse_conn *conn,
                                                   uint64_t parent, const char *name,
                                                   uint32_t name_size, int expire,
                                                   struct snic_iov out[3]) SNIC_NONNULL(1, 2, 4, 7);
/** The same where inode @p child was deleted under that name. [any] */
SNIC_API SNIC_NODISCARD int snic_fuse_notify_delete(struct snic_fuse_answer *a, uint64_t parent,
                                                    uint64_t child, const char *name,
                                                    uint32_t name_size, struct snic_iov out[3])
    SNIC_NONNULL(1, 4, 6);
/** All names are invalid. @return 0; SNIC_ENOTSUP the kernel's minor version is below 44 [any] */
SNIC_API SNIC_NODISCARD int snic_fuse_notify_epoch(struct snic_fuse_answer *a,
                                                   const struct snic_fuse_conn *conn)
    SNIC_NONNULL(1, 2);

/* ---- Requests in flight ---- */

/**
 * The requests that wait for a reply, each at a place, a number below places_max that is its own
 * until it is removed.
 *
 * An INTERRUPT names a request by its unique. If several threads or queues read requests, it may be
 * parsed before that request, or after its reply. So one that finds none is parked: if its request
 * arrives, that begins interrupted; any other request that arrives makes it stale, and it is
 * answered EAGAIN: then the kernel sends it again, if the request still waits.
 */
struct snic_fuse_table;

#define SNIC_FUSE_TABLE_ALIGN 64
#define SNIC_FUSE_PLACES_MAX (1U << 20)
#define SNIC_FUSE_PARKED_MAX 64U

struct snic_fuse_table_opts {
    uint32_t opts_size;  /**< sizeof(struct snic_fuse_table_opts)                            */
    uint32_t places_max; /**< 1 to SNIC_FUSE_PLACES_MAX                                      */
    uint32_t parked_max; /**< interrupts, 1 to SNIC_FUSE_PARKED_MAX; 0: 16                   */
    uint32_t reserved;   /**< 0                                                              */
    uint64_t seed;       /**< of the hash: a peer that chooses uniques must not know it      */
};

/** Bytes that snic_fuse_table_init() needs; 0: bad options. [any] */
SNIC_API size_t snic_fuse_table_memsize(const struct snic_fuse_table_opts *o) SNIC_NONNULL(1);
/**
 * An empty table in @p mem, aligned to SNIC_FUSE_TABLE_ALIGN, which stays the caller's. [owner]
 * @return 0; SNIC_EINVAL bad options or alignment; SNIC_ENOSPC @p mem_size is too small
 */
SNIC_API SNIC_NODISCARD int snic_fuse_table_init(struct snic_fuse_table **out, void *mem,
                                                 size_t mem_size,
                                                 const struct snic_fuse_table_opts *o)
    SNIC_NONNULL(1, 2, 4);
/** Return the memory. Requests in it are dropped: the connection has ended. [owner] */
SNIC_API void *snic_fuse_table_fini(struct snic_fuse_table *t) SNIC_NONNULL(1);
/**
 * A request has arrived. [owner]
 * @return 0: it has *@p place; 1: likewise, and it is interrupted already; SNIC_EAGAIN all places
 *         are taken; SNIC_EEXIST a request of this unique is in flight; SNIC_EINVAL unique 0. On
 *         failure nothing has changed
 */
SNIC_API SNIC_NODISCARD int snic_fuse_table_add(struct snic_fuse_table *t, uint64_t unique,
                                                uint32_t *place) SNIC_NONNULL(1, 3);
/** @return 0: it is at *@p place; SNIC_ENOENT [owner] */
SNIC_API SNIC_NODISCARD int snic_fuse_table_find(const struct snic_fuse_table *t, uint64_t unique,
                                                 uint32_t *place) SNIC_NONNULL(1, 3);
/** It has its reply. Asserts that a request is there. [owner] */
SNIC_API void snic_fuse_table_remove(struct snic_fuse_table *t, uint32_t place) SNIC_NONNULL(1);
/** The unique of the request at @p place; 0: none is. [owner] */
SNIC_API uint64_t snic_fuse_table_unique(const struct snic_fuse_table *t, uint32_t place)
    SNIC_NONNULL(1);
/** 1: the request at @p place is interrupted. [owner] */
SNIC_API int snic_fuse_table_interrupted(const struct snic_fuse_table *t, uint32_t place)
    SNIC_NONNULL(1);
/**
 * A parsed INTERRUPT: @p unique is head.unique, @p target in.interrupt.unique. [owner]
 * @return 1: its request is at *@p place and marked as interrupted: no reply to the INTERRUPT; 0:
 *         parked: no reply yet; SNIC_EAGAIN no space to park it: reply this error to @p unique;
 *         SNIC_EINVAL a target of 0
 */
SNIC_API SNIC_NODISCARD int snic_fuse_table_interrupt(struct snic_fuse_table *t, uint64_t unique,
                                                      uint64_t target, uint32_t *place)
    SNIC_NONNULL(1, 4);
/**
 * Take the oldest parked INTERRUPT that is stale, after snic_fuse_table_add(). [owner]
 * @return its unique, to be answered with EAGAIN; 0: none
 */
SNIC_API uint64_t snic_fuse_table_stale(struct snic_fuse_table *t) SNIC_NONNULL(1);
/** Requests in flight. [owner] */
SNIC_API uint32_t snic_fuse_table_count(const struct snic_fuse_table *t) SNIC_NONNULL(1);
/** INTERRUPTs parked. [owner] */
SNIC_API uint32_t snic_fuse_table_parked(const struct snic_fuse_table *t) SNIC_NONNULL(1);
/** Check every structural invariant; 0 or SNIC_ECORRUPT. For tests. [owner] */
SNIC_API SNIC_NODISCARD int snic_fuse_table_check(const struct snic_fuse_table *t) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_FUSE_H */
