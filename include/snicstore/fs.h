/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/fs.h
 * A file system service: kvfs.h on a store of kv.h and a loop. What embedders, the mount and the
 * tools call.
 *
 * Depends on  snicstore/base.h, snicstore/kvfs.h, snicstore/kv.h, snicstore/loop.h.
 * Memory      snic_fs_memsize() bytes of the caller's (kvfs.h says when huge pages pay). Requests
 *             are the caller's, borrowed from submit until done; so is all they name.
 * Threads     Owner of the loop; snic_fs_post() from any thread.
 * Progress    No call blocks, except those documented as "runs the loop".
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes, ns.
 *
 * A file system in a program of its own: examples/fs_local.c is it in full, with all errors. In
 * this order, and back in the other one:
 *
 *     snic_loop_uring_open()                   snic_loop_close()
 *     snic_kvmem_open(), for mem               snic_kvmem_close()
 *     snic_kv_lmdb_open(), snic_kv_mem_open()  snic_kv_close()
 *     malloc(snic_fs_memsize())                free(), of what snic_fs_fini() returns
 *     snic_fs_init()                           snic_fs_fini()
 *     snic_fs_mkfs(), once per store
 *     snic_fs_mount()                          snic_fs_unmount()
 *     snic_fs_put(), snic_fs_get(), snic_fs_call(), ...
 *
 * It links snicstore-kv. Before the mount, and after the unmount, all requests but MKFS, MOUNT and
 * UNMOUNT end with SNIC_EINVAL.
 */
#ifndef SNIC_FS_H
#define SNIC_FS_H

#include "snicstore/base.h"
#include "snicstore/kv.h"
#include "snicstore/kvfs.h"
#include "snicstore/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_fs;
struct snic_fs_req;
typedef void (*snic_fs_done_fn)(struct snic_fs_req *req);

/** A request to the service: the engine's, and the callback. Zero it, fill, submit or post. */
struct snic_fs_req {
    struct snic_fsop op;      /**< the operation, and its result                              */
    snic_fs_done_fn done;     /**< on the loop's thread; never inside submit                   */
    struct snic_loop_msg msg; /**< the service's while borrowed                               */
};

/** Zero the struct, then set opts_size, wall and session_id. */
struct snic_fs_opts {
    uint32_t opts_size;
    uint32_t flags;             /**< SNIC_KVFS_READ_ONLY, _NO_ATIME, _NO_DIRATIME, _STRICT_ATIME */
    int64_t (*wall)(void *ctx); /**< ns since 1970                                             */
    void (*damage)(void *ctx, const struct snic_kvfs_damage *d); /**< may be NULL               */
    void *ctx;
    uint64_t session_id; /**< random, not 0                                                    */
    /* As in struct snic_kvfs_opts; 0: its defaults. */
    uint64_t cache_bytes;  /**< up to 2^40                                                     */
    uint64_t times_ns;     /**< up to 2^62                                                     */
    uint64_t lease_ns;     /**< up to 2^62                                                     */
    uint64_t heartbeat_ns; /**< less than lease_ns                                             */
    uint32_t requests_max; /**< up to 65536                                                    */
    uint32_t inodes_max;   /**< up to 2^30                                                     */
    uint32_t locks_max;    /**< up to 2^30                                                     */
    uint32_t reserved;
    /** Other sessions have joined, or this one is alone again: `alone` of snic_kvfs_get_stats() has
     *  changed. Called before the store is notified, and so before others proceed: an embedder that
     *  caches replies elsewhere (in the kernel) drops them here; how long it may cache them is
     *  snic_kvfs_valid_until_ns() of snic_fs_engine(), for it may be stopped, and not be called. It
     *  must not call this object but for statistics. May be NULL. */
    void (*alone)(void *ctx, int alone);
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_fs_opts_wrong(const struct snic_fs_opts *o) SNIC_NONNULL(1);
/** Bytes snic_fs_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_fs_memsize(const struct snic_fs_opts *o) SNIC_NONNULL(1);
/**
 * Store and loop stay the caller's and must outlive it.
 * @param mem  at least snic_fs_memsize() bytes of any alignment; owned until fini
 * @param o    copied
 * @return 0; SNIC_EINVAL an option (snic_fs_opts_wrong()), or @p kv is of another loop; SNIC_ENOSPC
 *         @p size is too small [owner]
 */
SNIC_API SNIC_NODISCARD int snic_fs_init(struct snic_fs **out, void *mem, size_t size,
                                         struct snic_loop *l, struct snic_kv *kv,
                                         const struct snic_fs_opts *o) SNIC_NONNULL(1, 2, 4, 5, 6);
/** End, unmounted; asserts that no request is in flight. It runs the loop until the engine's own
 *  operations have ended. @return mem of init [owner] */
SNIC_API void *snic_fs_fini(struct snic_fs *fs) SNIC_NONNULL(1);
/** Submit; beyond requests_max requests wait in a queue. `done` is called once, with op.result:
 *  SNIC_EINVAL no such kind, or not mounted; otherwise the operation's. [owner] */
SNIC_API void snic_fs_submit(struct snic_fs *fs, struct snic_fs_req *req) SNIC_NONNULL(1, 2);
/** The same from any thread. [any] */
SNIC_API void snic_fs_post(struct snic_fs *fs, struct snic_fs_req *req) SNIC_NONNULL(1, 2);
/** End a waiting lock request (SNIC_FSOP_LOCK_WAIT) with SNIC_EINTR; no effect on others, and when
    @p req is done. Of a posted request only after its snic_fs_post() has returned. [owner] */
SNIC_API void snic_fs_cancel(struct snic_fs *fs, struct snic_fs_req *req) SNIC_NONNULL(1, 2);
/** The loop of init. [any] */
SNIC_API struct snic_loop *snic_fs_loop(const struct snic_fs *fs) SNIC_NONNULL(1);
/** The engine, for statistics. [owner] */
SNIC_API struct snic_kvfs *snic_fs_engine(struct snic_fs *fs) SNIC_NONNULL(1);

/* ---- Calls that run the loop until they are done. [owner], not from inside a done ---- */

/** Submit a request and run the loop until it is done. [owner] @return req->result */
SNIC_API int64_t snic_fs_call(struct snic_fs *fs, struct snic_fsop *req) SNIC_NONNULL(1, 2);
/**
 * Make a file system. @p o is borrowed for the call; NULL: defaults, with a random uuid. [owner]
 * @return 0; SNIC_EEXIST the store has one, and o->force is 0; SNIC_EBUSY it is mounted here;
 *         SNIC_E* of the store (kvop.h)
 */
SNIC_API SNIC_NODISCARD int snic_fs_mkfs(struct snic_fs *fs, const struct snic_kvfs_mkfs *o)
    SNIC_NONNULL(1);
/**
 * Mount the store's file system. [owner]
 * @return 0; SNIC_ENOENT no file system; SNIC_EVERSION of another version; SNIC_ECORRUPT its
 *         records are damaged; SNIC_EBUSY it is mounted here, or in use; SNIC_EEXIST the store has
 *         a session of session_id; SNIC_E* of the store (kvop.h)
 */
SNIC_API SNIC_NODISCARD int snic_fs_mount(struct snic_fs *fs) SNIC_NONNULL(1);
/**
 * Make everything durable and end the session. [owner]
 * @return 0, also when it is not mounted; SNIC_E* of the store (kvop.h)
 */
SNIC_API SNIC_NODISCARD int snic_fs_unmount(struct snic_fs *fs) SNIC_NONNULL(1);
/**
 * Create or replace a whole file by path; its directory must exist. A path begins at the root, with
 * or without "/"; symbolic links in it are not followed. A new file is root's (uid and gid 0) with
 * @p mode as it is, no umask; an existing one keeps owner and mode. It is durable after FSYNC,
 * SYNCFS or unmount. @p data is borrowed for the call. [owner]
 * @return 0; SNIC_EISDIR the path has no last name, or is a directory; SNIC_ENOENT its directory
 *         does not exist; SNIC_ENOTDIR a name in it is no directory; SNIC_ELOOP a symbolic link in
 *         it; SNIC_ENAMETOOLONG a name in it; SNIC_ENOSPC the store is full; SNIC_EROFS it is
 *         read-only; SNIC_EIO a short write; SNIC_EINVAL not mounted; SNIC_E* of the store (kvop.h)
 */
SNIC_API SNIC_NODISCARD int snic_fs_put(struct snic_fs *fs, const char *path, const void *data,
                                        size_t size, uint32_t mode) SNIC_NONNULL(1, 2);
/**
 * Read the first @p room bytes of a file. A path begins at the root, with or without "/"; symbolic
 * links in it are not followed. [owner]
 * @return the file's size, also when @p room is less; SNIC_ENOENT no such file; SNIC_ENOTDIR a name
 *         in the path is no directory; SNIC_ELOOP a symbolic link in it; SNIC_EISDIR it is a
 *         directory; SNIC_ENAMETOOLONG a name in it; SNIC_EINVAL not mounted; SNIC_ECORRUPT records
 *         or bytes of it are damaged; SNIC_E* of the store (kvop.h)
 */
SNIC_API SNIC_NODISCARD int64_t snic_fs_get(struct snic_fs *fs, const char *path, void *out,
                                            size_t room) SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_FS_H */
