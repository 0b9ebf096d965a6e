/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The methods of an open file: the file library's synchronous calls, and the host's locks. */
#include "vfs_priv.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SV_BLOCK 4096 /* of the file service: what is smaller is read, changed and written */

static struct sv_file *sv_of(sqlite3_file *base)
{
    return SNIC_CONTAINER(base, struct sv_file, base);
}

int sv_report(struct sv_file *f, int code, const char *path, const char *what, int error)
{
    char text[256];
    (void)snprintf(text, sizeof(text), "snicstore: cannot %s %.120s: %s", what, path,
                   error == SNIC_ENOSPC ? "no space or no free file in the image"
                                        : snic_strerror(error));
    sqlite3_log(code, "%s", text);
    if (f != NULL)
        memcpy(f->last, text, sizeof(text));
    return code;
}

static int sv_failure(struct sv_file *f, int code, const char *what, int error)
{
    return sv_report(f, error == SNIC_ENOSPC || error == SNIC_EFBIG ? SQLITE_FULL : code, f->path,
                     what, error);
}

static int sv_close(sqlite3_file *base)
{
    struct sv_file *f = sv_of(base);
    if (f->lock != NULL)
        sv_lock_close(f->lock);
    free(f->lock);
    if (f->delete_on_close) {
        int rc = snic_filelib_delete(&f->volume->sync, f->dir, strrchr(f->path, '/') + 1);
        if (rc != 0)
            (void)sv_report(NULL, SQLITE_IOERR_DELETE, f->path, "delete", rc);
    }
    sv_volume_put(f->volume);
    return SQLITE_OK;
}

static int sv_read(sqlite3_file *base, void *buf, int n, sqlite3_int64 at)
{
    struct sv_file *f = sv_of(base);
    int64_t rc = snic_filelib_pread(&f->handle, buf, (size_t)n, (uint64_t)at);
    if (rc < 0)
        return sv_failure(f, SQLITE_IOERR_READ, "read", (int)rc);
    if (rc == n)
        return SQLITE_OK;
    memset((char *)buf + rc, 0, (size_t)(n - rc));
    return SQLITE_IOERR_SHORT_READ;
}

static int sv_write(sqlite3_file *base, const void *buf, int n, sqlite3_int64 at)
{
    struct sv_file *f = sv_of(base);
    int64_t rc = snic_filelib_pwrite(&f->handle, buf, (size_t)n, (uint64_t)at, 0);
    return rc == n ? SQLITE_OK : sv_failure(f, SQLITE_IOERR_WRITE, "write", (int)rc);
}

static int sv_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    struct sv_file *f = sv_of(base);
    int rc = snic_filelib_truncate(&f->handle, (uint64_t)size);
    return rc == 0 ? SQLITE_OK : sv_failure(f, SQLITE_IOERR_TRUNCATE, "truncate", rc);
}

static int sv_sync(sqlite3_file *base, int flags)
{
    struct sv_file *f = sv_of(base);
    int rc = snic_filelib_fsync(&f->handle);
    (void)flags; /* the service's sync is a full one, its metadata included */
    return rc == 0 ? SQLITE_OK : sv_failure(f, SQLITE_IOERR_FSYNC, "sync", rc);
}

static int sv_size(sqlite3_file *base, sqlite3_int64 *out)
{
    struct sv_file *f = sv_of(base);
    uint64_t size = 0;
    int rc = snic_filelib_size(&f->handle, &size);
    *out = (sqlite3_int64)size;
    return rc == 0 ? SQLITE_OK : sv_failure(f, SQLITE_IOERR_FSTAT, "stat", rc);
}

static int sv_lock(sqlite3_file *base, int level)
{
    struct sv_file *f = sv_of(base);
    return f->lock == NULL ? SQLITE_OK : sv_lock_raise(f->lock, level);
}

static int sv_unlock(sqlite3_file *base, int level)
{
    struct sv_file *f = sv_of(base);
    return f->lock == NULL ? SQLITE_OK : sv_lock_lower(f->lock, level);
}

static int sv_check_reserved(sqlite3_file *base, int *out)
{
    struct sv_file *f = sv_of(base);
    *out = 0;
    return f->lock == NULL ? SQLITE_OK : sv_lock_reserved(f->lock, out);
}

static int sv_pragma(struct sv_file *f, char **argv)
{
    if (sqlite3_stricmp(argv[1], "snicstore_error") != 0)
        return SQLITE_NOTFOUND;
    argv[0] = sqlite3_mprintf("%s", f->last);
    return argv[0] == NULL ? SQLITE_NOMEM : SQLITE_OK;
}

static int sv_control(sqlite3_file *base, int op, void *arg)
{
    struct sv_file *f = sv_of(base);
    switch (op) {
    case SQLITE_FCNTL_LOCKSTATE:
        *(int *)arg = f->lock == NULL ? SQLITE_LOCK_NONE : f->lock->level;
        return SQLITE_OK;
    case SQLITE_FCNTL_VFSNAME:
        *(char **)arg = sqlite3_mprintf("snicstore");
        return SQLITE_OK;
    case SQLITE_FCNTL_HAS_MOVED:
        /* A deleted file answers each request with an error. When the link has ended the locks are
         * void, and what is done by name would be done by the next link. */
        *(int *)arg = atomic_load(&f->volume->ended);
        return SQLITE_OK;
    case SQLITE_FCNTL_PERSIST_WAL:
        if (*(int *)arg < 0)
            *(int *)arg = f->persist_wal;
        else
            f->persist_wal = *(int *)arg;
        return SQLITE_OK;
    case SQLITE_FCNTL_PRAGMA:
        return sv_pragma(f, arg);
    default:
        return SQLITE_NOTFOUND;
    }
}

static int sv_sector(sqlite3_file *base)
{
    (void)base;
    return SV_BLOCK;
}

/*
 * POWERSAFE_OVERWRITE: bytes beside those written are written again as they are, in whole sectors,
 * or not at all. Not SAFE_APPEND, although a size never becomes durable before the bytes below it:
 * SQLite relies on it for journals that it writes over (PERSIST), which append nothing. No atomic
 * writes: a page of several sectors may be torn.
 */
static int sv_characteristics(sqlite3_file *base)
{
    (void)base;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int sv_map(sqlite3_file *base, int index, int bytes, int extend, void volatile **out)
{
    struct sv_file *f = sv_of(base);
    return f->lock == NULL ? SQLITE_IOERR_SHMMAP : sv_shm_map(f->lock, index, bytes, extend, out);
}

static int sv_shared(sqlite3_file *base, int offset, int n, int flags)
{
    struct sv_file *f = sv_of(base);
    return f->lock == NULL ? SQLITE_IOERR_SHMLOCK : sv_shm_lock(f->lock, offset, n, flags);
}

static void sv_barrier(sqlite3_file *base)
{
    (void)base;
    /* SQLite's own loads and stores of the wal-index are plain: a full fence, as os_unix.c has. */
    atomic_thread_fence(memory_order_seq_cst);
}

static int sv_unmap(sqlite3_file *base, int remove)
{
    struct sv_file *f = sv_of(base);
    if (f->lock != NULL)
        sv_shm_unmap(f->lock, remove);
    return SQLITE_OK;
}

const sqlite3_io_methods sv_methods = {
    .iVersion = 2,
    .xClose = sv_close,
    .xRead = sv_read,
    .xWrite = sv_write,
    .xTruncate = sv_truncate,
    .xSync = sv_sync,
    .xFileSize = sv_size,
    .xLock = sv_lock,
    .xUnlock = sv_unlock,
    .xCheckReservedLock = sv_check_reserved,
    .xFileControl = sv_control,
    .xSectorSize = sv_sector,
    .xDeviceCharacteristics = sv_characteristics,
    .xShmMap = sv_map,
    .xShmLock = sv_shared,
    .xShmBarrier = sv_barrier,
    .xShmUnmap = sv_unmap,
};
