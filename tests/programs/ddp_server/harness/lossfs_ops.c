/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The requests of the kernel. Files are opened with FOPEN_DIRECT_IO: the page cache is ours. */
#include "lossfs_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static void lossfs_lock(void)
{
    (void)pthread_mutex_lock(&lossfs.lock);
}

static void lossfs_unlock(void)
{
    (void)pthread_mutex_unlock(&lossfs.lock);
}

/* Begins an operation with the lock held; 0 or its errno. */
static int lossfs_begin(enum lossfs_kind kind)
{
    lossfs_lock();
    return lossfs_fault_enter(&lossfs.faults, kind);
}

static void lossfs_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param e;
    int r = lossfs_begin(LOSSFS_OTHER);
    r = r != 0 ? r : lossfs_lookup(lossfs_node(parent), name, &e);
    lossfs_unlock();
    (void)(r == 0 ? fuse_reply_entry(req, &e) : fuse_reply_err(req, r));
}

static void lossfs_op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
    lossfs_lock();
    lossfs_forget(lossfs_node(ino), count);
    lossfs_unlock();
    fuse_reply_none(req);
}

static void lossfs_op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct stat st;
    (void)fi;
    int r = lossfs_begin(LOSSFS_OTHER);
    r = r != 0 ? r : lossfs_stat(lossfs_node(ino), &st);
    lossfs_unlock();
    (void)(r == 0 ? fuse_reply_attr(req, &st, 0) : fuse_reply_err(req, r));
}

/* May the file become that large? */
static int lossfs_room(const struct lossfs_node *n, uint64_t size)
{
    if (lossfs.faults.limit == 0 || size <= n->file.size)
        return 0;
    return lossfs_total() + (size - n->file.size) > lossfs.faults.limit ? ENOSPC : 0;
}

static int lossfs_set_attributes(struct lossfs_node *n, const struct stat *st, int set)
{
    char link[64];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", n->fd);
    if ((set & FUSE_SET_ATTR_SIZE) != 0) {
        uint64_t size = (uint64_t)st->st_size;
        int r = lossfs_node_load(n);
        r = r != 0 ? r : lossfs_room(n, size);
        r = r != 0 ? r : lossfs_file_resize(&n->file, size);
        if (r != 0)
            return r;
    }
    if ((set & FUSE_SET_ATTR_MODE) != 0 && chmod(link, st->st_mode) != 0)
        return errno;
    if ((set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0 &&
        fchownat(n->fd, "", (set & FUSE_SET_ATTR_UID) != 0 ? st->st_uid : (uid_t)-1,
                 (set & FUSE_SET_ATTR_GID) != 0 ? st->st_gid : (gid_t)-1, AT_EMPTY_PATH) != 0)
        return errno;
    return 0;
}

static void lossfs_op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int set,
                              struct fuse_file_info *fi)
{
    struct stat st;
    (void)fi;
    int r = lossfs_begin(LOSSFS_WRITE);
    r = r != 0 ? r : lossfs_set_attributes(lossfs_node(ino), attr, set);
    r = r != 0 ? r : lossfs_stat(lossfs_node(ino), &st);
    lossfs_unlock();
    (void)(r == 0 ? fuse_reply_attr(req, &st, 0) : fuse_reply_err(req, r));
}

static void lossfs_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct fuse_entry_param e;
    char path[PATH_MAX];
    int r = lossfs_begin(LOSSFS_OTHER);
    if (r == 0) {
        lossfs_path(lossfs_node(parent), name, path);
        r = mkdir(path, mode) != 0 ? errno : 0;
    }
    if (r == 0) {
        lossfs_names_created(path, 1);
        r = lossfs_lookup(lossfs_node(parent), name, &e);
    }
    lossfs_unlock();
    (void)(r == 0 ? fuse_reply_entry(req, &e) : fuse_reply_err(req, r));
}

static void lossfs_remove(fuse_req_t req, fuse_ino_t parent, const char *name,
                          int (*how)(const char *))
{
    char path[PATH_MAX];
    int r = lossfs_begin(LOSSFS_OTHER);
    if (r == 0) {
        lossfs_path(lossfs_node(parent), name, path);
        r = how(path);
    }
    lossfs_unlock();
    (void)fuse_reply_err(req, r);
}

static void lossfs_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    lossfs_remove(req, parent, name, lossfs_names_unlink);
}

static void lossfs_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    lossfs_remove(req, parent, name, lossfs_names_rmdir);
}

static void lossfs_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
                             fuse_ino_t new_parent, const char *new_name, unsigned flags)
{
    char from[PATH_MAX], to[PATH_MAX];
    int r = lossfs_begin(LOSSFS_OTHER);
    if (r == 0) {
        lossfs_path(lossfs_node(parent), name, from);
        lossfs_path(lossfs_node(new_parent), new_name, to);
        r = (flags & RENAME_NOREPLACE) != 0 && access(to, F_OK) == 0 ? EEXIST
            : (flags & ~(unsigned)RENAME_NOREPLACE) != 0             ? EINVAL
                                                         : lossfs_names_rename(from, to);
    }
    lossfs_unlock();
    (void)fuse_reply_err(req, r);
}

static int lossfs_open(struct lossfs_node *n, struct fuse_file_info *fi)
{
    int r = lossfs_node_load(n);
    if (r == 0 && (fi->flags & O_TRUNC) != 0)
        r = lossfs_file_resize(&n->file, 0);
    fi->direct_io = 1;
    fi->keep_cache = 0;
    return r;
}

static void lossfs_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    int r = lossfs_begin(LOSSFS_OTHER);
    r = r != 0 ? r : lossfs_open(lossfs_node(ino), fi);
    lossfs_unlock();
    (void)(r == 0 ? fuse_reply_open(req, fi) : fuse_reply_err(req, r));
}

static void lossfs_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                             struct fuse_file_info *fi)
{
    struct fuse_entry_param e;
    char path[PATH_MAX];
    int r = lossfs_begin(LOSSFS_OTHER);
    if (r == 0) {
        lossfs_path(lossfs_node(parent), name, path);
        int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode);
        if (fd >= 0) {
            (void)close(fd);
            lossfs_names_created(path, 0);
        } else if (errno != EEXIST || (fi->flags & O_EXCL) != 0) {
            r = errno;
        }
    }
    r = r != 0 ? r : lossfs_lookup(lossfs_node(parent), name, &e);
    r = r != 0 ? r : lossfs_open(lossfs_node(e.ino), fi);
    lossfs_unlock();
    (void)(r == 0 ? fuse_reply_create(req, &e, fi) : fuse_reply_err(req, r));
}

static int lossfs_misaligned(const struct fuse_file_info *fi, size_t size, off_t offset)
{
    return (fi->flags & O_DIRECT) != 0 && (size % LOSSFS_SECTOR != 0 || offset % LOSSFS_SECTOR);
}

static void lossfs_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                           struct fuse_file_info *fi)
{
    struct lossfs_node *n = lossfs_node(ino);
    int r = lossfs_begin(LOSSFS_READ);
    char *data = malloc(size + 1);
    int64_t got = r != 0 ? -r : -EINVAL;
    if (r == 0 && !lossfs_misaligned(fi, size, offset))
        got = data == NULL ? -ENOMEM
                           : lossfs_file_read(&n->file, data, size, (uint64_t)offset,
                                              (fi->flags & O_DIRECT) != 0);
    lossfs_unlock();
    (void)(got >= 0 ? fuse_reply_buf(req, data, (size_t)got) : fuse_reply_err(req, (int)-got));
    free(data);
}

/* A flush, or a lie about one. */
static int lossfs_flush(struct lossfs_node *n, int is_folder)
{
    int r = 0;
    if (lossfs.faults.lies)
        return 0;
    if (!is_folder && n->loaded)
        r = lossfs_file_flush(&n->file);
    if (r == 0 && (is_folder || !lossfs.strict_names))
        lossfs_names_commit();
    return r;
}

/* A flush of a file, which may fail. */
static int lossfs_synchronize(struct lossfs_node *n)
{
    int r = lossfs_fault_enter(&lossfs.faults, LOSSFS_FSYNC);
    if (r == 0)
        return lossfs_flush(n, 0);
    if (n->loaded && !lossfs.faults.off)
        lossfs_file_fail_flush(&n->file);
    return r;
}

static void lossfs_op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
                            off_t offset, struct fuse_file_info *fi)
{
    struct lossfs_node *n = lossfs_node(ino);
    uint64_t at = (uint64_t)offset;
    int r = lossfs_begin(LOSSFS_WRITE);
    if (r == 0 && lossfs_misaligned(fi, size, offset))
        r = EINVAL;
    if (r == 0 && (fi->flags & O_APPEND) != 0)
        at = n->file.size;
    r = r != 0 ? r : lossfs_room(n, at + size);
    r = r != 0 ? r : lossfs_file_write(&n->file, data, size, at, (fi->flags & O_DIRECT) != 0);
    if (r == 0 && (fi->flags & O_DSYNC) != 0)
        r = lossfs_synchronize(n);
    lossfs_unlock();
    (void)(r == 0 ? fuse_reply_write(req, size) : fuse_reply_err(req, r));
}

static void lossfs_op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    struct lossfs_node *n = lossfs_node(ino);
    (void)datasync;
    (void)fi;
    lossfs_lock();
    int r = lossfs_synchronize(n);
    lossfs_unlock();
    (void)fuse_reply_err(req, r);
}

static void lossfs_op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
                               struct fuse_file_info *fi)
{
    (void)datasync;
    (void)fi;
    int r = lossfs_begin(LOSSFS_FSYNC);
    r = r != 0 ? r : lossfs_flush(lossfs_node(ino), 1);
    lossfs_unlock();
    (void)fuse_reply_err(req, r);
}

static void lossfs_op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset,
                                off_t length, struct fuse_file_info *fi)
{
    struct lossfs_node *n = lossfs_node(ino);
    uint64_t at = (uint64_t)offset, end = at + (uint64_t)length;
    const int zeros = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
    (void)fi;
    int r = lossfs_begin(LOSSFS_WRITE);
    if (r == 0 && (mode & ~(zeros | FALLOC_FL_KEEP_SIZE)) != 0)
        r = EOPNOTSUPP;
    if (r == 0 && (mode & FALLOC_FL_KEEP_SIZE) == 0)
        r = lossfs_room(n, end);
    if (r == 0 && (mode & FALLOC_FL_KEEP_SIZE) == 0 && end > n->file.size)
        r = lossfs_file_resize(&n->file, end);
    if (end > n->file.size)
        end = n->file.size;
    if (r == 0 && (mode & zeros) != 0 && end > at)
        r = lossfs_file_write(&n->file, NULL, (size_t)(end - at), at, 0);
    lossfs_unlock();
    (void)fuse_reply_err(req, r);
}

static void lossfs_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    int r = lossfs_begin(LOSSFS_OTHER);
    if (r == 0) {
        int fd = openat(lossfs_node(ino)->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        r = d == NULL ? errno : 0;
        fi->fh = (uint64_t)(uintptr_t)d;
    }
    lossfs_unlock();
    (void)(r == 0 ? fuse_reply_open(req, fi) : fuse_reply_err(req, r));
}

static void lossfs_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                              struct fuse_file_info *fi)
{
    DIR *d = (DIR *)(uintptr_t)fi->fh;
    char *out = malloc(size + 1);
    size_t used = 0;
    struct dirent *e;
    int r = lossfs_begin(LOSSFS_OTHER);
    seekdir(d, offset);
    while (r == 0 && out != NULL && (e = readdir(d)) != NULL) {
        struct stat st = {.st_ino = e->d_ino, .st_mode = (mode_t)e->d_type << 12};
        if (lossfs_node(ino) == &lossfs.root && strcmp(e->d_name, ".lossfs") == 0)
            continue;
        size_t n = fuse_add_direntry(req, out + used, size - used, e->d_name, &st, e->d_off);
        if (n > size - used)
            break;
        used += n;
    }
    lossfs_unlock();
    (void)(r == 0 ? fuse_reply_buf(req, out, used) : fuse_reply_err(req, r));
    free(out);
}

static void lossfs_op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    (void)closedir((DIR *)(uintptr_t)fi->fh);
    (void)fuse_reply_err(req, 0);
}

static void lossfs_op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct statvfs st;
    char path[64];
    (void)ino;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", lossfs.root.fd);
    int r = statvfs(path, &st) != 0 ? errno : 0;
    lossfs_lock();
    if (r == 0 && lossfs.faults.limit != 0) {
        uint64_t used = lossfs_total();
        st.f_blocks = lossfs.faults.limit / st.f_frsize;
        st.f_bfree = st.f_bavail =
            used >= lossfs.faults.limit ? 0 : (lossfs.faults.limit - used) / st.f_frsize;
    }
    lossfs_unlock();
    (void)(r == 0 ? fuse_reply_statfs(req, &st) : fuse_reply_err(req, r));
}

static void lossfs_op_init(void *ctx, struct fuse_conn_info *c)
{
    (void)ctx;
    c->want &= ~(unsigned)FUSE_CAP_WRITEBACK_CACHE;
    c->max_background = 256;
}

const struct fuse_lowlevel_ops lossfs_operations = {
    .init = lossfs_op_init,
    .lookup = lossfs_op_lookup,
    .forget = lossfs_op_forget,
    .getattr = lossfs_op_getattr,
    .setattr = lossfs_op_setattr,
    .mkdir = lossfs_op_mkdir,
    .unlink = lossfs_op_unlink,
    .rmdir = lossfs_op_rmdir,
    .rename = lossfs_op_rename,
    .open = lossfs_op_open,
    .create = lossfs_op_create,
    .read = lossfs_op_read,
    .write = lossfs_op_write,
    .fsync = lossfs_op_fsync,
    .fsyncdir = lossfs_op_fsyncdir,
    .fallocate = lossfs_op_fallocate,
    .opendir = lossfs_op_opendir,
    .readdir = lossfs_op_readdir,
    .releasedir = lossfs_op_releasedir,
    .statfs = lossfs_op_statfs,
};
