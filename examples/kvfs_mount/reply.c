/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine's result becomes FUSE's answer, on the loop's thread. */
#include "mount.h"

#include "../common.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int reply_error(int64_t result)
{
    switch (result) {
    case SNIC_EPEERDEAD:
    case SNIC_EFAULT:
    case SNIC_ECANCELED:
    case SNIC_EPROTO:
    case SNIC_EPIPE:
        return EIO;
    default:
        return result <= -1000 ? EIO : (int)-result;
    }
}

/* No block at all means that all of it is zeros, and an archiver would not read it: not so if the
   kernel may have bytes (writers.c). */
static int reply_hollow(struct km *m, const struct snic_fsop_attr *a)
{
    int some = a->size > 0 || atomic_load_explicit(&m->writeback, memory_order_relaxed);

    return a->space == 0 && some && S_ISREG(a->mode) && km_writers_any(m, a->ino);
}

static void reply_stat(struct km *m, struct stat *st, const struct snic_fsop_attr *from)
{
    struct snic_fsop_attr amended = *from;
    const struct snic_fsop_attr *a = &amended;

    if (m->carrier->amend != NULL)
        m->carrier->amend(m, &amended);
    memset(st, 0, sizeof(*st));
    st->st_ino = a->ino;
    st->st_mode = a->mode;
    st->st_nlink = a->nlink;
    st->st_uid = a->uid;
    st->st_gid = a->gid;
    st->st_rdev = a->rdev;
    st->st_size = (off_t)a->size;
    st->st_blksize = KM_PAGE;
    st->st_blocks = (blkcnt_t)(((reply_hollow(m, a) ? KM_PAGE : a->space) + 511) / 512);
    st->st_atim = (struct timespec){.tv_sec = a->atime.sec, .tv_nsec = a->atime.nsec};
    st->st_mtim = (struct timespec){.tv_sec = a->mtime.sec, .tv_nsec = a->mtime.nsec};
    st->st_ctim = (struct timespec){.tv_sec = a->ctime.sec, .tv_nsec = a->ctime.nsec};
}

/* No caching of a count of no blocks; with its write-back cache the kernel refreshes it itself. */
static double reply_attr_timeout(struct km *m, const struct snic_fsop_attr *a)
{
    return !atomic_load_explicit(&m->writeback, memory_order_relaxed) && reply_hollow(m, a)
               ? 0
               : km_valid_seconds(m);
}

static void reply_entry_fill(struct km *m, const struct snic_fsop_attr *a,
                             struct fuse_entry_param *e)
{
    memset(e, 0, sizeof(*e));
    e->ino = a->ino;
    e->entry_timeout = km_valid_seconds(m);
    e->attr_timeout = reply_attr_timeout(m, a);
    reply_stat(m, &e->attr, a);
}

static void reply_entry(struct km_call *c)
{
    struct fuse_entry_param e;

    reply_entry_fill(c->m, &c->r.op.attr, &e);
    km_known_add(c->m, e.ino);
    if (fuse_reply_entry(c->fuse, &e) != 0)
        km_known_drop(c->m, e.ino, 1);
}

/* A name that does not exist: the kernel may cache that, too. */
static void reply_absent(struct km_call *c)
{
    struct fuse_entry_param e;

    memset(&e, 0, sizeof(e));
    e.entry_timeout = km_valid_seconds(c->m);
    if (e.entry_timeout > 0)
        (void)fuse_reply_entry(c->fuse, &e);
    else
        (void)fuse_reply_err(c->fuse, ENOENT);
}

/* The caller of the open has died or was interrupted: close the file again. */
static void reply_unopen(struct km_call *c, enum snic_fsop_kind kind)
{
    uint64_t handle = c->r.op.handle;
    uint64_t ino = c->r.op.attr.ino != 0 ? c->r.op.attr.ino : c->r.op.ino;

    memset(&c->r.op, 0, sizeof(c->r.op));
    c->r.op.kind = kind;
    c->r.op.ino = ino;
    c->r.op.handle = handle;
    c->fuse = NULL;
    c->file = NULL;
    c->m->carrier->submit(c->m, c);
}

/* The kernel may have cached that the file has no block. */
static void reply_doubt(const struct km_call *c, const struct km_file *f)
{
    if (f->writer != 0 && c->r.op.kind == SNIC_FSOP_OPEN && c->r.op.attr.space == 0)
        km_notify_invalid(c->m, f->writer);
}

/* @return 1: the block is in use again */
static int reply_open(struct km_call *c)
{
    int alone = atomic_load_explicit(&c->m->alone, memory_order_relaxed);
    struct km_file *f = km_file_new(c);
    struct fuse_entry_param e;
    int rc = -ENOENT;

    c->fi.fh = (uintptr_t)f;
    if (f == NULL) {
        (void)fuse_reply_err(c->fuse, ENOMEM);
    } else if (c->r.op.kind == SNIC_FSOP_OPENDIR) {
        rc = fuse_reply_open(c->fuse, &c->fi);
    } else {
        c->fi.keep_cache = alone && atomic_load(&c->m->refreshing) != KM_REFRESH_RUNS ? 1 : 0;
        /* Appends of several mounts: no page here may be where the bytes did not go. */
        c->fi.direct_io = !alone && (c->open_flags & O_APPEND) != 0 ? 1 : 0;
        if (c->r.op.kind == SNIC_FSOP_CREATE) {
            reply_entry_fill(c->m, &c->r.op.attr, &e);
            km_known_add(c->m, e.ino);
            rc = fuse_reply_create(c->fuse, &e, &c->fi);
            if (rc != 0)
                km_known_drop(c->m, e.ino, 1);
        } else {
            reply_doubt(c, f);
            rc = fuse_reply_open(c->fuse, &c->fi);
        }
    }
    if (rc != -ENOENT) /* the request was not abandoned */
        return 0;
    km_file_free(c->m, f);
    reply_unopen(c, c->r.op.kind == SNIC_FSOP_OPENDIR ? SNIC_FSOP_RELEASEDIR : SNIC_FSOP_RELEASE);
    return 1;
}

/*
 * The kernel uses the number of an inode that it knows from a name. If the inode is gone, the name
 * was removed or replaced in the meantime: ESTALE makes the kernel look the path up again.
 */
static int reply_stale(uint32_t kind)
{
    switch (kind) {
    case SNIC_FSOP_GETATTR:
    case SNIC_FSOP_SETATTR:
    case SNIC_FSOP_READLINK:
    case SNIC_FSOP_OPEN:
    case SNIC_FSOP_OPENDIR:
    case SNIC_FSOP_ACCESS:
    case SNIC_FSOP_SETXATTR:
    case SNIC_FSOP_GETXATTR:
    case SNIC_FSOP_LISTXATTR:
    case SNIC_FSOP_REMOVEXATTR:
        return 1;
    default:
        return 0;
    }
}

static void reply_bad(struct km_call *c)
{
    int error = reply_error(c->r.op.result);

    if (error == ENOENT && reply_stale(c->r.op.kind))
        error = ESTALE;
    c->m->errors++;
    if (error == EIO) {
        c->m->io_errors++;
        ex_log(EX_ERROR, "%s of inode %llu: %s", snic_fsop_name(c->r.op.kind),
               (unsigned long long)c->r.op.ino,
               c->r.op.result == SNIC_EPEERDEAD ? "the file system's process died: outcome unknown"
                                                : snic_strerror((int)c->r.op.result));
    }
    if (error == ENOENT && c->r.op.kind == SNIC_FSOP_LOOKUP)
        reply_absent(c);
    else
        (void)fuse_reply_err(c->fuse, error);
}

/* Does the kernel count the entry as a look-up? */
static int reply_dirent_known(const struct km_call *c, const struct snic_fsop_dirent *d)
{
    return (c->r.op.flags & SNIC_FSOP_READDIR_PLUS) != 0 && d->has_attr && d->cookie > 2;
}

/* One entry into [at, room) of the answer. @return bytes; more than there are: no room */
static size_t reply_dirent(struct km_call *c, char *at, size_t room,
                           const struct snic_fsop_dirent *d, const char *name)
{
    struct fuse_entry_param e;
    struct stat st;

    if ((c->r.op.flags & SNIC_FSOP_READDIR_PLUS) == 0) {
        memset(&st, 0, sizeof(st));
        st.st_ino = d->ino;
        st.st_mode = d->type;
        return fuse_add_direntry(c->fuse, at, room, name, &st, (off_t)d->cookie);
    }
    memset(&e, 0, sizeof(e));
    if (reply_dirent_known(c, d))
        reply_entry_fill(c->m, &d->attr, &e);
    e.attr.st_ino = d->ino;
    e.attr.st_mode = d->has_attr ? d->attr.mode : d->type;
    return fuse_add_direntry_plus(c->fuse, at, room, name, &e, (off_t)d->cookie);
}

/*
 * The entry at @p from, and its name of at most SNIC_FSOP_NAME_MAX bytes, copied: behind the ring
 * the other process may have written anything, and can write at any time. @return 0; -1: it is none
 */
static int reply_entry_take(const unsigned char *from, const unsigned char *end,
                            struct snic_fsop_dirent *d, char *name)
{
    size_t room = (size_t)(end - from);

    if (room < sizeof(*d))
        return -1;
    memcpy(d, from, sizeof(*d));
    if (d->name_size > SNIC_FSOP_NAME_MAX || d->bytes % 8 != 0 || d->bytes > room ||
        d->bytes < sizeof(*d) + d->name_size)
        return -1;
    memcpy(name, from + sizeof(*d), d->name_size);
    name[d->name_size] = 0;
    return d->name_size > 0 && strlen(name) == d->name_size && strchr(name, '/') == NULL ? 0 : -1;
}

/* The kernel has not got the entries before @p to. */
static void reply_readdir_lost(struct km_call *c, const unsigned char *to)
{
    const unsigned char *from = c->data;
    char name[SNIC_FSOP_NAME_MAX + 1];
    struct snic_fsop_dirent d;

    for (; from < to && reply_entry_take(from, to, &d, name) == 0; from += d.bytes)
        if (reply_dirent_known(c, &d))
            km_known_drop(c->m, d.attr.ino, 1);
}

static void reply_readdir(struct km_call *c)
{
    const unsigned char *from = c->data;
    const unsigned char *end = from + c->r.op.result;
    char *out = (char *)km_call_data(c) + KM_DATA / 2;
    char name[SNIC_FSOP_NAME_MAX + 1];
    size_t used = 0;

    while (from < end) {
        struct snic_fsop_dirent d;
        size_t n;

        if (reply_entry_take(from, end, &d, name) != 0) {
            ex_log(EX_ERROR, "directory %llu has a malformed entry: skipped",
                   (unsigned long long)c->r.op.ino);
            reply_readdir_lost(c, from);
            c->r.op.result = SNIC_EIO;
            reply_bad(c);
            return;
        }
        n = reply_dirent(c, out + used, c->size - used, &d, name);
        if (n > c->size - used)
            break;
        if (reply_dirent_known(c, &d))
            km_known_add(c->m, d.attr.ino);
        used += n;
        from += d.bytes;
    }
    if (fuse_reply_buf(c->fuse, out, used) != 0)
        reply_readdir_lost(c, from);
}

static void reply_statfs(struct km_call *c)
{
    const struct snic_fsop_statfs *s = &c->r.op.statfs;
    struct statvfs v;

    memset(&v, 0, sizeof(v));
    v.f_bsize = KM_PAGE;
    v.f_frsize = KM_PAGE;
    v.f_blocks = s->bytes / KM_PAGE;
    v.f_bfree = s->bytes_free / KM_PAGE;
    v.f_bavail = v.f_bfree;
    v.f_files = s->files;
    v.f_ffree = s->files_free;
    v.f_favail = s->files_free;
    v.f_namemax = SNIC_FSOP_NAME_MAX;
    (void)fuse_reply_statfs(c->fuse, &v);
}

static void reply_lock(struct km_call *c)
{
    const struct snic_fsop_lock *k = &c->r.op.lock;
    struct flock l;

    memset(&l, 0, sizeof(l));
    l.l_type = k->type == SNIC_FSOP_RDLCK   ? F_RDLCK
               : k->type == SNIC_FSOP_WRLCK ? F_WRLCK
                                            : F_UNLCK;
    l.l_whence = SEEK_SET;
    l.l_start = (off_t)k->start;
    l.l_len = k->end >= INT64_MAX ? 0 : (off_t)(k->end - k->start + 1);
    l.l_pid = (pid_t)k->pid;
    (void)fuse_reply_lock(c->fuse, &l);
}

/* All of the file is data. */
static void reply_seek(struct km_call *c, const struct stat *st)
{
    off_t offset = (off_t)c->r.op.offset;

    if (offset < 0 || offset >= st->st_size)
        (void)fuse_reply_err(c->fuse, ENXIO);
    else
        (void)fuse_reply_lseek(c->fuse, c->seek == SEEK_HOLE ? st->st_size : offset);
}

static void reply_attr(struct km_call *c)
{
    struct stat st;

    reply_stat(c->m, &st, &c->r.op.attr);
    if (c->seek != 0) {
        reply_seek(c, &st);
        return;
    }
    (void)fuse_reply_attr(c->fuse, &st, reply_attr_timeout(c->m, &c->r.op.attr));
}

/*
 * The file system copies a piece at a time, so that other requests progress; the kernel's caller
 * gets all that was requested, unless a signal arrived. @return 1: the block is in use again
 */
static int reply_copy(struct km_call *c)
{
    const struct snic_fsop had = c->r.op;
    struct snic_fsop *k = &c->r.op;
    uint64_t more = (uint64_t)had.result;

    c->copied += more;
    if (more == 0 || more >= had.length || fuse_req_interrupted(c->fuse)) {
        (void)fuse_reply_write(c->fuse, (size_t)c->copied);
        return 0;
    }
    memset(k, 0, sizeof(*k));
    k->kind = had.kind;
    k->flags = had.flags;
    k->cred = had.cred;
    k->ino = had.ino;
    k->handle = c->file != NULL ? c->file->handle : 0;
    k->offset = had.offset + more;
    k->ino2 = had.ino2;
    k->offset2 = had.offset2 + more;
    k->length = had.length - more;
    c->m->carrier->submit(c->m, c);
    return 1;
}

/* @return 1: the block is in use again */
static int reply_good(struct km_call *c)
{
    const struct snic_fsop *k = &c->r.op;

    switch (k->kind) {
    case SNIC_FSOP_LOOKUP:
    case SNIC_FSOP_MKNOD:
    case SNIC_FSOP_MKDIR:
    case SNIC_FSOP_SYMLINK:
    case SNIC_FSOP_LINK:
        reply_entry(c);
        return 0;
    case SNIC_FSOP_GETATTR:
    case SNIC_FSOP_SETATTR:
        reply_attr(c);
        return 0;
    case SNIC_FSOP_OPEN:
    case SNIC_FSOP_CREATE:
    case SNIC_FSOP_OPENDIR:
        return reply_open(c);
    case SNIC_FSOP_READLINK:
        (void)fuse_reply_buf(c->fuse, c->data, (size_t)k->result);
        return 0;
    case SNIC_FSOP_READ:
        c->m->read_bytes += (uint64_t)k->result;
        (void)fuse_reply_buf(c->fuse, c->data, (size_t)k->result);
        return 0;
    case SNIC_FSOP_WRITE:
        c->m->write_bytes += (uint64_t)k->result;
        (void)fuse_reply_write(c->fuse, (size_t)k->result);
        return 0;
    case SNIC_FSOP_COPY:
        return reply_copy(c);
    case SNIC_FSOP_SEEK:
        (void)fuse_reply_lseek(c->fuse, (off_t)k->result);
        return 0;
    case SNIC_FSOP_READDIR:
        reply_readdir(c);
        return 0;
    case SNIC_FSOP_GETXATTR:
    case SNIC_FSOP_LISTXATTR:
        if (c->size == 0)
            (void)fuse_reply_xattr(c->fuse, (size_t)k->result);
        else
            (void)fuse_reply_buf(c->fuse, c->data, (size_t)k->result);
        return 0;
    case SNIC_FSOP_UNLINK:
    case SNIC_FSOP_RMDIR:
    case SNIC_FSOP_RENAME:
        if (k->handle != 0) /* before the answer, which may end what the kernel knows */
            km_known_hold(c->m, k->attr.ino, k->handle);
        (void)fuse_reply_err(c->fuse, 0);
        return 0;
    case SNIC_FSOP_STATFS:
        reply_statfs(c);
        return 0;
    case SNIC_FSOP_GETLK:
        reply_lock(c);
        return 0;
    default:
        (void)fuse_reply_err(c->fuse, 0);
        return 0;
    }
}

void km_call_answer(struct km_call *c)
{
    struct km *m = c->m;
    uint32_t waited = c->waits;

    c->waits = 0;
    if (waited) {
        fuse_req_interrupt_func(c->fuse, NULL, NULL);
        atomic_fetch_sub(&m->locks_waiting, 1);
    }
    if (c->copied > 0 && c->r.op.result < 0)
        c->r.op.result = 0; /* what was copied before counts */
    if (c->fuse != NULL) {
        if (c->r.op.result < 0)
            reply_bad(c);
        else if (reply_good(c))
            return;
    }
    if (c->opens) /* nothing is open */
        km_open_give(m, c->r.op.cred.uid);
    atomic_fetch_sub_explicit(&m->in_flight, 1, memory_order_relaxed);
    if (waited && atomic_exchange(&c->cancelling, KM_CANCEL_OVER) == KM_CANCEL_POSTED)
        return; /* the message frees it */
    km_call_put(c);
}

void km_call_done(struct km_call *c)
{
    struct km *m = c->m;

    m->calls++;
    km_file_note(c);
    /* Data in the ring's memory has to be released at once. */
    if (m->defer_large && c->r.op.kind == SNIC_FSOP_READ && c->r.op.result >= KM_LARGE &&
        c->data == km_call_data(c))
        snic_queue_push(&m->large, &c->large);
    else
        km_call_answer(c);
}
