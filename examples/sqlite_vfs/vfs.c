/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The VFS: names to files of a volume. A path without an image on its way, and temporary files,
 * are left to the VFS that was the default when this one was registered.
 */
#include "vfs.h"

#include "path.h"
#include "vfs_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SV_PATH_MAX 2048

static sqlite3_vfs *sv_root(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

/* ---- Open ---- */

/* The folder's id, made if need be. */
static int sv_folder(struct sv_volume *v, const struct sv_path *p, int create, uint64_t *dir)
{
    *dir = SNIC_FILES_ROOT;
    return p->folder[0] == 0 ? 0 : snic_filelib_opendir(&v->sync, dir, p->folder, create);
}

static int sv_open_locks(struct sv_file *f)
{
    int error;
    f->lock = calloc(1, sizeof(*f->lock));
    if (f->lock == NULL)
        return SQLITE_NOMEM;
    f->lock->folder = f->volume->locks;
    f->lock->host = f->volume->host;
    f->lock->ended = &f->volume->ended;
    error = sv_lock_open(f->lock, f->handle.id);
    if (error == 0)
        return SQLITE_OK;
    sqlite3_log(SQLITE_CANTOPEN, "snicstore: cannot open a lock file in %s: %s", f->volume->locks,
                strerror(error));
    free(f->lock);
    f->lock = NULL;
    return SQLITE_CANTOPEN;
}

static int sv_open_in(struct sv_file *f, const struct sv_path *p, int flags)
{
    uint32_t how = 0;
    int create = (flags & SQLITE_OPEN_CREATE) != 0;
    int rc = sv_folder(f->volume, p, create, &f->dir);
    if (create)
        how = SNIC_FILELIB_CREATE;
    if (create && (flags & SQLITE_OPEN_EXCLUSIVE) != 0)
        how |= SNIC_FILELIB_EXCLUSIVE;
    if (rc == 0)
        rc = snic_filelib_openat(&f->volume->sync, &f->handle, f->dir, p->name, how);
    if (rc == SNIC_ENOSPC)
        return sv_report(NULL, SQLITE_FULL, f->path, "open", rc);
    if (rc == SNIC_ENOENT) /* SQLite looks for files that need not be there */
        return SQLITE_CANTOPEN;
    if (rc != 0)
        return sv_report(NULL, rc == SNIC_EISDIR ? SQLITE_CANTOPEN_ISDIR : SQLITE_CANTOPEN, f->path,
                         "open", rc);
    f->delete_on_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
    return (flags & SQLITE_OPEN_MAIN_DB) != 0 ? sv_open_locks(f) : SQLITE_OK;
}

static int sv_volume_of(const struct sv_path *p, struct sv_volume **out)
{
    char why[SV_WHY];
    int rc = sv_volume_get(p->volume, out, why);
    if (rc == 0)
        return SQLITE_OK;
    sqlite3_log(SQLITE_CANTOPEN, "snicstore: %s", why);
    return rc == SNIC_ENOMEM ? SQLITE_NOMEM : rc == SNIC_EBUSY ? SQLITE_BUSY : SQLITE_CANTOPEN;
}

static int sv_open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags,
                        int *out_flags)
{
    struct sv_file *f = SNIC_CONTAINER(base, struct sv_file, base);
    struct sv_path p;
    int rc;
    base->pMethods = NULL;
    if (name == NULL || sv_path_split(name, sv_volume_is_open, &p) == SNIC_ENOENT)
        return sv_root(vfs)->xOpen(sv_root(vfs), name, base, flags, out_flags);
    memset(f, 0, sizeof(*f));
    f->path = name;
    if (sv_path_split(name, sv_volume_is_open, &p) != 0)
        return SQLITE_CANTOPEN;
    rc = sv_volume_of(&p, &f->volume);
    if (rc != SQLITE_OK)
        return rc;
    rc = sv_open_in(f, &p, flags);
    if (rc != SQLITE_OK) {
        sv_volume_put(f->volume);
        return rc;
    }
    if (out_flags != NULL)
        *out_flags = flags;
    base->pMethods = &sv_methods;
    return SQLITE_OK;
}

/* ---- Names ---- */

static int sv_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    struct sv_volume *v;
    struct sv_path p;
    uint64_t dir;
    int rc = sv_path_split(name, sv_volume_is_open, &p);
    if (rc == SNIC_ENOENT)
        return sv_root(vfs)->xDelete(sv_root(vfs), name, sync);
    if (rc != 0)
        return SQLITE_IOERR_DELETE;
    rc = sv_volume_of(&p, &v);
    if (rc != SQLITE_OK)
        return SQLITE_IOERR_DELETE;
    rc = sv_folder(v, &p, 0, &dir); /* durable when it returns, whatever `sync` is */
    if (rc == 0)
        rc = snic_filelib_delete(&v->sync, dir, p.name);
    sv_volume_put(v);
    if (rc == SNIC_ENOENT)
        return SQLITE_IOERR_DELETE_NOENT;
    return rc == 0 ? SQLITE_OK : sv_report(NULL, SQLITE_IOERR_DELETE, name, "delete", rc);
}

static int sv_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    struct sv_volume *v;
    struct sv_path p;
    uint64_t dir, size = 0;
    int rc = sv_path_split(name, sv_volume_is_open, &p);
    *out = 0;
    if (rc == SNIC_ENOENT)
        return sv_root(vfs)->xAccess(sv_root(vfs), name, flags, out);
    if (rc != 0)
        return SQLITE_OK; /* no file can have such a name */
    if (sv_volume_of(&p, &v) != SQLITE_OK)
        return SQLITE_IOERR_ACCESS;
    rc = sv_folder(v, &p, 0, &dir);
    if (rc == 0)
        rc = snic_filelib_access(&v->sync, dir, p.name, &size, NULL);
    sv_volume_put(v);
    /* An empty file counts as none, as in os_unix.c: a journal of no bytes is not a hot one. */
    *out = rc == 0 && (flags != SQLITE_ACCESS_EXISTS || size > 0);
    if (rc == 0 || rc == SNIC_ENOENT)
        return SQLITE_OK;
    return sv_report(NULL, SQLITE_IOERR_ACCESS, name, "look up", rc);
}

/* @p out of SV_PATH_MAX: the image's real path, and what is behind it. */
static int sv_full(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    char whole[SV_PATH_MAX], cwd[SV_PATH_MAX], real[PATH_MAX];
    struct sv_path p;
    int n, rc;
    if (name[0] != '/' && getcwd(cwd, sizeof(cwd)) == NULL)
        return SQLITE_CANTOPEN;
    n = snprintf(whole, sizeof(whole), "%s%s%s", name[0] == '/' ? "" : cwd,
                 name[0] == '/' ? "" : "/", name);
    if (n < 0 || n >= (int)sizeof(whole))
        return sv_report(NULL, SQLITE_CANTOPEN, name, "open", SNIC_ENAMETOOLONG);
    rc = sv_path_split(whole, sv_volume_is_open, &p);
    if (rc == SNIC_ENOENT)
        return sv_root(vfs)->xFullPathname(sv_root(vfs), name, size, out);
    if (rc == 0 && (strlen(p.name) > SV_NAME_MAX || strlen(p.folder) > SNIC_FILES_NAME_MAX))
        rc = SNIC_ENAMETOOLONG;
    if (rc != 0)
        return sv_report(NULL, SQLITE_CANTOPEN, name, "open", rc);
    if (realpath(p.volume, real) == NULL)
        return SQLITE_CANTOPEN;
    n = snprintf(out, (size_t)size, "%s/%s%s%s", real, p.folder, p.folder[0] == 0 ? "" : "/",
                 p.name);
    return n < 0 || n >= size ? SQLITE_CANTOPEN : SQLITE_OK;
}

/* ---- What the default VFS does ---- */

static void *sv_dl_open(sqlite3_vfs *vfs, const char *name)
{
    return sv_root(vfs)->xDlOpen(sv_root(vfs), name);
}

static void sv_dl_error(sqlite3_vfs *vfs, int size, char *text)
{
    sv_root(vfs)->xDlError(sv_root(vfs), size, text);
}

static void (*sv_dl_sym(sqlite3_vfs *vfs, void *handle, const char *name))(void)
{
    return sv_root(vfs)->xDlSym(sv_root(vfs), handle, name);
}

static void sv_dl_close(sqlite3_vfs *vfs, void *handle)
{
    sv_root(vfs)->xDlClose(sv_root(vfs), handle);
}

static int sv_randomness(sqlite3_vfs *vfs, int size, char *out)
{
    return sv_root(vfs)->xRandomness(sv_root(vfs), size, out);
}

static int sv_sleep(sqlite3_vfs *vfs, int us)
{
    return sv_root(vfs)->xSleep(sv_root(vfs), us);
}

static int sv_time(sqlite3_vfs *vfs, double *out)
{
    return sv_root(vfs)->xCurrentTime(sv_root(vfs), out);
}

static int sv_time64(sqlite3_vfs *vfs, sqlite3_int64 *out)
{
    return sv_root(vfs)->xCurrentTimeInt64(sv_root(vfs), out);
}

static int sv_last_error(sqlite3_vfs *vfs, int size, char *out)
{
    return sv_root(vfs)->xGetLastError(sv_root(vfs), size, out);
}

int sv_vfs_register(void)
{
    static sqlite3_vfs vfs = {
        .iVersion = 2,
        .mxPathname = SV_PATH_MAX,
        .zName = "snicstore",
        .xOpen = sv_open_file,
        .xDelete = sv_delete,
        .xAccess = sv_access,
        .xFullPathname = sv_full,
        .xDlOpen = sv_dl_open,
        .xDlError = sv_dl_error,
        .xDlSym = sv_dl_sym,
        .xDlClose = sv_dl_close,
        .xRandomness = sv_randomness,
        .xSleep = sv_sleep,
        .xCurrentTime = sv_time,
        .xGetLastError = sv_last_error,
        .xCurrentTimeInt64 = sv_time64,
    };
    sqlite3_vfs *root = sqlite3_vfs_find(NULL);
    if (sqlite3_vfs_find(vfs.zName) != NULL)
        return SQLITE_OK;
    if (root == NULL || root->iVersion < 2)
        return SQLITE_ERROR;
    vfs.pAppData = root;
    vfs.szOsFile = (int)sizeof(struct sv_file);
    if (root->szOsFile > vfs.szOsFile)
        vfs.szOsFile = root->szOsFile;
    return sqlite3_vfs_register(&vfs, 0);
}
