/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/filelib_sync.h
 * Synchronous calls with handles on a notification group, for engines that have threads of
 * their own: open, pread, pwrite, truncate, fsync, stat, delete, rename, readdir.
 *
 * Depends on  snicstore/base.h, filelib.h. Linux (futex).
 * Memory      The structs are the caller's, plain data, and need no closing: the service keeps
 *             no state per open file. Nothing is allocated.
 * Threads     All calls [any] but the group's owner, any number at a time; with
 *             SNIC_FILELIB_SYNC_OWNER all calls [owner]. Another thread, the owner, runs the
 *             group's loop; without one nothing completes. More threads at once than
 *             snic_filelib_opts.threads work, but slower.
 * Progress    Each call blocks until the service has responded or the group has ended; there is
 *             no time-out. It sleeps in the kernel and burns no CPU.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise: those of
 *             snic_filelib_submit(). SNIC_EPEERDEAD, SNIC_EPROTO, SNIC_ECANCELED: the group has
 *             ended, and whether the call took effect is unknown.
 * Units       bytes. Names are C strings, 1..SNIC_FILES_NAME_MAX bytes.
 *
 * A call's effects precede those of each call that begins after its return, of any thread. What
 * survives power loss is as files.h promises: all calls but snic_filelib_pwrite() without
 * SNIC_FILES_SYNC are durable when they return.
 */
#ifndef SNIC_FILELIB_SYNC_H
#define SNIC_FILELIB_SYNC_H

#include "snicstore/base.h"
#include "snicstore/filelib.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Calls come from the group's owner thread and run its loop until they are done. */
#define SNIC_FILELIB_SYNC_OWNER (1u << 0)

/** A group to call; must stay where it is while handles refer to it. */
struct snic_filelib_sync {
    struct snic_filelib *group;
    uint32_t flags;
    uint32_t tenant;   /**< of all requests; 0 after init                       */
    uint32_t priority; /**< of all requests, 0..7; 0 after init                 */
    uint32_t reserved;
};

/** A handle on an open file: copied and dropped freely. A deleted file's is SNIC_ENOENT. */
struct snic_filelib_handle {
    const struct snic_filelib_sync *sync;
    uint64_t id;
};

/**
 * @param g      borrowed while @p s is used
 * @param flags  0 or SNIC_FILELIB_SYNC_OWNER
 * @return 0; SNIC_EINVAL unknown flags [any]
 */
SNIC_API SNIC_NODISCARD int snic_filelib_sync_init(struct snic_filelib_sync *s,
                                                   struct snic_filelib *g, uint32_t flags)
    SNIC_NONNULL(1, 2);

/** Make the file if it does not exist. */
#define SNIC_FILELIB_CREATE (1u << 0)
/** With CREATE: SNIC_EEXIST if it exists. */
#define SNIC_FILELIB_EXCLUSIVE (1u << 1)

/**
 * Open a file of directory @p dir (SNIC_FILES_ROOT or snic_filelib_opendir()).
 * @param flags  SNIC_FILELIB_CREATE, SNIC_FILELIB_EXCLUSIVE
 * @return 0; SNIC_EINVAL flags or name; SNIC_ENOENT no such file or directory; SNIC_EEXIST;
 *         SNIC_EISDIR; SNIC_ENAMETOOLONG; SNIC_ENOSPC the image's files_max are reached; SNIC_EIO;
 *         the group has ended [any]
 */
SNIC_API SNIC_NODISCARD int snic_filelib_openat(const struct snic_filelib_sync *s,
                                                struct snic_filelib_handle *out, uint64_t dir,
                                                const char *name, uint32_t flags)
    SNIC_NONNULL(1, 2, 4);
/**
 * The id of a directory below the root. @param create  make it if it does not exist
 * @return 0; SNIC_ENOENT; SNIC_ENOTDIR; SNIC_EINVAL, SNIC_ENAMETOOLONG the name; SNIC_ENOSPC the
 *         image's dirs_max are reached; SNIC_EIO; the group has ended [any]
 */
SNIC_API SNIC_NODISCARD int snic_filelib_opendir(const struct snic_filelib_sync *s, uint64_t *dir,
                                                 const char *name, int create)
    SNIC_NONNULL(1, 2, 3);
/** @return bytes, fewer than @p size at the end of the file; SNIC_ENOENT; SNIC_EIO; ended [any] */
SNIC_API SNIC_NODISCARD int64_t snic_filelib_pread(const struct snic_filelib_handle *h, void *buf,
                                                   size_t size, uint64_t offset) SNIC_NONNULL(1);
/**
 * @param flags  SNIC_FILES_SYNC or 0
 * @return @p size; SNIC_ENOSPC no segment is free; SNIC_EFBIG; SNIC_ENOENT; SNIC_EIO; ended. After
 *         SNIC_ENOSPC and SNIC_EFBIG a write of at most snic_filelib_max() bytes changed nothing
 * [any]
 */
SNIC_API SNIC_NODISCARD int64_t snic_filelib_pwrite(const struct snic_filelib_handle *h,
                                                    const void *buf, size_t size, uint64_t offset,
                                                    uint32_t flags) SNIC_NONNULL(1);
/** Set the size; growth is a hole. @return 0; SNIC_EFBIG; SNIC_ENOENT; SNIC_EIO; ended [any] */
SNIC_API SNIC_NODISCARD int snic_filelib_truncate(const struct snic_filelib_handle *h,
                                                  uint64_t size) SNIC_NONNULL(1);
/**
 * Make every write of the file that has returned durable, whichever thread's.
 * @return 0; SNIC_ENOENT; SNIC_EIO; ended [any]
 */
SNIC_API SNIC_NODISCARD int snic_filelib_fsync(const struct snic_filelib_handle *h) SNIC_NONNULL(1);
/** @return 0 and its size; SNIC_ENOENT; ended [any] */
SNIC_API SNIC_NODISCARD int snic_filelib_size(const struct snic_filelib_handle *h, uint64_t *size)
    SNIC_NONNULL(1, 2);
/**
 * Look a name up; @p size and @p kind (enum snic_files_kind) may be NULL.
 * @return 0 it exists; SNIC_ENOENT no such name or directory; SNIC_EINVAL, SNIC_ENAMETOOLONG the
 *         name; ended [any]
 */
SNIC_API SNIC_NODISCARD int snic_filelib_access(const struct snic_filelib_sync *s, uint64_t dir,
                                                const char *name, uint64_t *size, uint32_t *kind)
    SNIC_NONNULL(1, 3);
/** Remove a file. @return 0; SNIC_ENOENT; SNIC_EISDIR; the name's errors; SNIC_EIO; ended [any] */
SNIC_API SNIC_NODISCARD int snic_filelib_delete(const struct snic_filelib_sync *s, uint64_t dir,
                                                const char *name) SNIC_NONNULL(1, 3);
/**
 * Rename a file, replacing one of the new name.
 * @return 0; SNIC_ENOENT; SNIC_EISDIR, SNIC_ENOTDIR; the names' errors; SNIC_EIO; ended [any]
 */
SNIC_API SNIC_NODISCARD int snic_filelib_rename(const struct snic_filelib_sync *s, uint64_t dir,
                                                const char *name, uint64_t dir2, const char *name2)
    SNIC_NONNULL(1, 3, 5);
/**
 * Entries of a directory into @p buf; take them with snic_files_entry_next().
 * @param cursor  0 at first; moved on
 * @return bytes of entries, 0 at the end; SNIC_EMSGSIZE @p size too small for one entry;
 *         SNIC_ENOENT, SNIC_ENOTDIR; ended [any]
 */
SNIC_API SNIC_NODISCARD int64_t snic_filelib_readdir(const struct snic_filelib_sync *s,
                                                     uint64_t dir, uint64_t *cursor, void *buf,
                                                     size_t size) SNIC_NONNULL(1, 3, 4);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_FILELIB_SYNC_H */
