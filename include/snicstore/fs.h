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
 * Progress    No call blocks, except those that say "runs the loop".
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes, ns.
 *
 * A file system in a program of its own. The program's are wall(), which gives ns since 1970, the
 * loop (snic_loop_uring_open() of loop.h) and the store (snic_kv_lmdb_open() of kv.h, or
 * snic_kvmem_open() and snic_kv_mem_open() for one in memory); it links snicstore-kv.
 *
 *     struct snic_fs *fs;
 *     struct snic_fs_opts o = {.opts_size = sizeof(o), .wall = wall, .session_id = random};
 *     int rc = snic_fs_init(&fs, malloc(snic_fs_memsize(&o)), snic_fs_memsize(&o), loop, kv, &o);
 *     rc = snic_fs_mkfs(fs, NULL);            // once per store
 *     rc = snic_fs_mount(fs);
 *     rc = snic_fs_put(fs, "/hello", "world", 5, 0644);
 *     rc = snic_fs_get(fs, "/hello", buffer, sizeof(buffer));
 *     rc = snic_fs_unmount(fs);
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

/** A request to the service: the engine's, and who is told. Zero it, fill, submit or post. */
struct snic_fs_req {
    struct snic_kvfs_req k;   /**< what is asked, and the answer                              */
    snic_fs_done_fn done;     /**< on the loop's thread; never inside submit                   */
    struct snic_loop_msg msg; /**< the service's while borrowed                               */
};

/** Zero the struct, then set opts_size, wall and session_id. */
struct snic_fs_opts {
    uint32_t opts_size;
    uint32_t flags;             /**< SNIC_KVFS_READ_ONLY, SNIC_KVFS_NO_ATIME                   */
    int64_t (*wall)(void *ctx); /**< ns since 1970                                             */
    void (*damage)(void *ctx, const struct snic_kvfs_damage *d); /**< may be NULL               */
    void *ctx;
    uint64_t session_id; /**< random, not 0                                                    */
    /* As in struct snic_kvfs_opts; 0: its defaults. */
    uint64_t cache_bytes;
    uint64_t times_ns;
    uint64_t lease_ns;
    uint64_t heartbeat_ns;
    uint32_t requests_max;
    uint32_t inodes_max;
    uint32_t locks_max;
    uint32_t reserved;
};

/** Bytes snic_fs_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_fs_memsize(const struct snic_fs_opts *o) SNIC_NONNULL(1);
/** Store and loop stay the caller's and must outlive it. @return 0; SNIC_EINVAL; SNIC_ENOSPC
 * [owner] */
SNIC_API SNIC_NODISCARD int snic_fs_init(struct snic_fs **out, void *mem, size_t size,
                                         struct snic_loop *l, struct snic_kv *kv,
                                         const struct snic_fs_opts *o) SNIC_NONNULL(1, 2, 4, 5, 6);
/** Unmounted, nothing in flight. Returns the caller's memory. [owner] */
SNIC_API void *snic_fs_fini(struct snic_fs *fs) SNIC_NONNULL(1);
/** Take a request; beyond requests_max they wait in a queue. [owner] */
SNIC_API void snic_fs_submit(struct snic_fs *fs, struct snic_fs_req *req) SNIC_NONNULL(1, 2);
/** The same from any thread. [any] */
SNIC_API void snic_fs_post(struct snic_fs *fs, struct snic_fs_req *req) SNIC_NONNULL(1, 2);
/** As snic_kvfs_cancel(); harmless when @p req is done. Of a posted request only when its
    snic_fs_post() has returned. [owner] */
SNIC_API void snic_fs_cancel(struct snic_fs *fs, struct snic_fs_req *req) SNIC_NONNULL(1, 2);
/** The engine, for statistics. [owner] */
SNIC_API struct snic_kvfs *snic_fs_engine(struct snic_fs *fs) SNIC_NONNULL(1);

/* ---- Calls that run the loop until they are done. [owner], not from inside a done ---- */

/** Submit and wait. @return req->result [owner] */
SNIC_API int64_t snic_fs_call(struct snic_fs *fs, struct snic_kvfs_req *req) SNIC_NONNULL(1, 2);
/** Make a file system. @p o NULL: defaults. @return 0; SNIC_EEXIST; SNIC_E* of the store [owner] */
SNIC_API SNIC_NODISCARD int snic_fs_mkfs(struct snic_fs *fs, const struct snic_kvfs_mkfs *o)
    SNIC_NONNULL(1);
/** @return 0; SNIC_ENOENT no file system; SNIC_EVERSION; SNIC_ECORRUPT; SNIC_EBUSY; SNIC_E* [owner]
 */
SNIC_API SNIC_NODISCARD int snic_fs_mount(struct snic_fs *fs) SNIC_NONNULL(1);
/** Everything durable, the session ended. @return 0; SNIC_E* [owner] */
SNIC_API SNIC_NODISCARD int snic_fs_unmount(struct snic_fs *fs) SNIC_NONNULL(1);
/**
 * A whole file by path: made, or written anew. Its directory must be there. It is durable after
 * FSYNC, SYNCFS or unmount.
 * @return 0; SNIC_E* [owner]
 */
SNIC_API SNIC_NODISCARD int snic_fs_put(struct snic_fs *fs, const char *path, const void *data,
                                        size_t size, uint32_t mode) SNIC_NONNULL(1, 2);
/** Its first @p room bytes. @return the file's size, also when @p room is less; SNIC_E* [owner] */
SNIC_API SNIC_NODISCARD int64_t snic_fs_get(struct snic_fs *fs, const char *path, void *out,
                                            size_t room) SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_FS_H */
