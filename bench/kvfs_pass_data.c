/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kvfs_pass: files' bytes and directories' entries. See kvfs_pass.c. */
#include "kvfs_pass.h"

struct pass_dir {
    DIR *stream;
    struct dirent *entry; /* read, not yet delivered */
    off_t offset;
};

static __thread char *pass_bounce;

/* ---- Files ---- */

static int pass_direct(const struct fuse_file_info *fi)
{
    return (int)(fi->fh >> 31 & 1);
}

static int pass_flags(int flags)
{
    if (pass.writeback) {
        if ((flags & O_ACCMODE) == O_WRONLY) { /* the kernel reads what it fills up */
            flags = (flags & ~O_ACCMODE) | O_RDWR;
        }
        flags &= ~O_APPEND;
    }
    return flags;
}

static void pass_opened(struct fuse_file_info *fi, int fd)
{
    fi->fh = (uint64_t)(uint32_t)fd | (fi->flags & O_DIRECT ? 1U << 31 : 0);
    fi->keep_cache = 0;
}

static void pass_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    int fd = pass_reopen(pass_fd(ino), pass_flags(fi->flags));
    if (fd == -1) {
        fuse_reply_err(req, errno);
        return;
    }
    pass_opened(fi, fd);
    if (fuse_reply_open(req, fi) == -ENOENT) { /* the open was interrupted */
        close(fd);
    }
}

static void pass_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                        struct fuse_file_info *fi)
{
    struct fuse_entry_param e;
    pass_become(req);
    int fd =
        openat(pass_fd(parent), name,
               ((pass_flags(fi->flags) | O_CREAT | O_CLOEXEC) & ~O_NOFOLLOW) | O_NOFOLLOW, mode);
    pass_return(req);
    int rc = fd == -1 ? errno : pass_find(pass_fd(parent), name, &e);
    if (rc) {
        if (fd != -1) {
            close(fd);
        }
        fuse_reply_err(req, rc);
        return;
    }
    pass_opened(fi, fd);
    if (fuse_reply_create(req, &e, fi) == -ENOENT) {
        close(fd);
    }
}

static void pass_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    close(pass_file(fi));
    fuse_reply_err(req, 0);
}

static void pass_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    pass_reply_rc(req, close(dup(pass_file(fi))));
}

static void pass_fsync(fuse_req_t req, fuse_ino_t ino, int data, struct fuse_file_info *fi)
{
    (void)ino;
    pass_reply_rc(req, data ? fdatasync(pass_file(fi)) : fsync(pass_file(fi)));
}

static char *pass_aligned(void)
{
    if (!pass_bounce && posix_memalign((void **)&pass_bounce, 4096, PASS_BOUNCE) != 0) {
        pass_bounce = NULL;
    }
    return pass_bounce;
}

/* What the file system below refuses to do directly, it does through its cache. */
static ssize_t pass_bounced(int fd, int write, size_t size, off_t offset)
{
    char *b = pass_bounce;
    ssize_t n = write ? pwrite(fd, b, size, offset) : pread(fd, b, size, offset);
    if (n == -1 && errno == EINVAL) {
        int cached = pass_reopen(fd, write ? O_WRONLY : O_RDONLY);
        if (cached == -1) {
            return -1;
        }
        n = write ? pwrite(cached, b, size, offset) : pread(cached, b, size, offset);
        int rc = errno;
        close(cached);
        errno = rc;
    }
    return n;
}

static void pass_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                      struct fuse_file_info *fi)
{
    (void)ino;
    if (pass_direct(fi) && size <= PASS_BOUNCE && pass_aligned()) {
        ssize_t n = pass_bounced(pass_file(fi), 0, size, offset);
        if (n == -1) {
            fuse_reply_err(req, errno);
        } else {
            fuse_reply_buf(req, pass_bounce, (size_t)n);
        }
        return;
    }
    struct fuse_bufvec v = FUSE_BUFVEC_INIT(size);
    v.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
    v.buf[0].fd = pass_file(fi);
    v.buf[0].pos = offset;
    fuse_reply_data(req, &v, pass.splice ? FUSE_BUF_SPLICE_MOVE : FUSE_BUF_NO_SPLICE);
}

static void pass_write(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *in, off_t offset,
                       struct fuse_file_info *fi)
{
    (void)ino;
    size_t size = fuse_buf_size(in);
    struct fuse_bufvec v = FUSE_BUFVEC_INIT(size);
    ssize_t n;
    if (pass_direct(fi) && size <= PASS_BOUNCE && pass_aligned()) {
        v.buf[0].mem = pass_bounce;
        n = fuse_buf_copy(&v, in, 0);
        if (n >= 0) {
            n = pass_bounced(pass_file(fi), 1, (size_t)n, offset);
            n = n == -1 ? -errno : n;
        }
    } else {
        v.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
        v.buf[0].fd = pass_file(fi);
        v.buf[0].pos = offset;
        n = fuse_buf_copy(&v, in, pass.splice ? 0 : FUSE_BUF_NO_SPLICE);
    }
    if (n < 0) {
        fuse_reply_err(req, (int)-n);
    } else {
        fuse_reply_write(req, (size_t)n);
    }
}

static void pass_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                           struct fuse_file_info *fi)
{
    (void)ino;
    pass_reply_rc(req, fallocate(pass_file(fi), mode, offset, length));
}

static void pass_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
                       struct fuse_file_info *fi)
{
    (void)ino;
    off_t at = lseek(pass_file(fi), offset, whence);
    if (at == -1) {
        fuse_reply_err(req, errno);
    } else {
        fuse_reply_lseek(req, at);
    }
}

static void pass_copy(fuse_req_t req, fuse_ino_t ino, off_t from, struct fuse_file_info *fi,
                      fuse_ino_t ino_to, off_t to, struct fuse_file_info *fi_to, size_t size,
                      int flags)
{
    (void)ino;
    (void)ino_to;
    ssize_t n = copy_file_range(pass_file(fi), &from, pass_file(fi_to), &to, size, (unsigned)flags);
    if (n == -1) {
        fuse_reply_err(req, errno);
    } else {
        fuse_reply_write(req, (size_t)n);
    }
}

/* ---- Directories ---- */

static struct pass_dir *pass_stream(const struct fuse_file_info *fi)
{
    return (struct pass_dir *)(uintptr_t)fi->fh;
}

static void pass_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct pass_dir *d = calloc(1, sizeof(*d));
    int fd = d ? pass_reopen(pass_fd(ino), O_RDONLY | O_DIRECTORY) : -1;
    if (fd == -1 || !(d->stream = fdopendir(fd))) {
        int rc = d ? errno : ENOMEM;
        if (fd != -1) {
            close(fd);
        }
        free(d);
        fuse_reply_err(req, rc);
        return;
    }
    fi->fh = (uintptr_t)d;
    if (fuse_reply_open(req, fi) == -ENOENT) {
        closedir(d->stream);
        free(d);
    }
}

/* @return bytes added; 0: no room; -1: errno */
static ssize_t pass_add(fuse_req_t req, int dir, const struct dirent *e, int plus, char *at,
                        size_t room)
{
    if (!plus) {
        struct stat st = {.st_ino = e->d_ino, .st_mode = (mode_t)e->d_type << 12};
        size_t n = fuse_add_direntry(req, at, room, e->d_name, &st, e->d_off);
        return n > room ? 0 : (ssize_t)n;
    }
    struct fuse_entry_param p = {.attr = {.st_ino = e->d_ino, .st_mode = (mode_t)e->d_type << 12}};
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
        int rc = pass_find(dir, e->d_name, &p);
        if (rc == ENOENT) { /* gone meanwhile: named, without attributes */
            p = (struct fuse_entry_param){
                .attr = {.st_ino = e->d_ino, .st_mode = (mode_t)e->d_type << 12}};
        } else if (rc) {
            errno = rc;
            return -1;
        }
    }
    size_t n = fuse_add_direntry_plus(req, at, room, e->d_name, &p, e->d_off);
    if (n > room && p.ino) {
        pass_put(p.ino, 1);
    }
    return n > room ? 0 : (ssize_t)n;
}

static void pass_list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                      struct fuse_file_info *fi, int plus)
{
    struct pass_dir *d = pass_stream(fi);
    int dir = dirfd(d->stream);
    char *out = malloc(size);
    size_t used = 0;
    (void)ino;
    int rc = out ? 0 : ENOMEM;
    if (offset != d->offset) {
        seekdir(d->stream, offset);
        d->entry = NULL;
        d->offset = offset;
    }
    while (!rc) {
        errno = 0;
        if (!d->entry && !(d->entry = readdir(d->stream))) {
            rc = errno;
            break;
        }
        ssize_t n = pass_add(req, dir, d->entry, plus, out + used, size - used);
        if (n <= 0) {
            rc = n ? errno : 0;
            break;
        }
        used += (size_t)n;
        d->offset = d->entry->d_off;
        d->entry = NULL;
    }
    if (rc && !used) {
        fuse_reply_err(req, rc);
    } else {
        fuse_reply_buf(req, out, used);
    }
    free(out);
}

static void pass_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                         struct fuse_file_info *fi)
{
    pass_list(req, ino, size, offset, fi, 0);
}

static void pass_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                             struct fuse_file_info *fi)
{
    pass_list(req, ino, size, offset, fi, 1);
}

static void pass_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct pass_dir *d = pass_stream(fi);
    (void)ino;
    closedir(d->stream);
    free(d);
    fuse_reply_err(req, 0);
}

static void pass_fsyncdir(fuse_req_t req, fuse_ino_t ino, int data, struct fuse_file_info *fi)
{
    int fd = dirfd(pass_stream(fi)->stream);
    (void)ino;
    pass_reply_rc(req, data ? fdatasync(fd) : fsync(fd));
}

void pass_data_ops(struct fuse_lowlevel_ops *ops)
{
    ops->open = pass_open;
    ops->create = pass_create;
    ops->read = pass_read;
    ops->write_buf = pass_write;
    ops->flush = pass_flush;
    ops->release = pass_release;
    ops->fsync = pass_fsync;
    ops->opendir = pass_opendir;
    ops->readdir = pass_readdir;
    ops->readdirplus = pass_readdirplus;
    ops->releasedir = pass_releasedir;
    ops->fsyncdir = pass_fsyncdir;
    ops->fallocate = pass_fallocate;
    ops->lseek = pass_lseek;
    ops->copy_file_range = pass_copy;
}
