/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine's result becomes FUSE's answer, as fuse_wire.h has it, on the loop's thread. */
#include "mount.h"

#include "../common.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
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

static void reply_attr_fill(struct km *m, struct snic_fuse_attr *out,
                            const struct snic_fsop_attr *from)
{
    struct snic_fsop_attr amended = *from;
    const struct snic_fsop_attr *a = &amended;

    if (m->carrier->amend != NULL)
        m->carrier->amend(m, &amended);
    memset(out, 0, sizeof(*out));
    out->ino = a->ino;
    out->mode = a->mode;
    out->nlink = a->nlink;
    out->uid = a->uid;
    out->gid = a->gid;
    out->rdev = (uint32_t)a->rdev;
    out->size = a->size;
    out->blksize = KM_PAGE;
    out->blocks = ((reply_hollow(m, a) ? KM_PAGE : a->space) + 511) / 512;
    out->atime = (uint64_t)a->atime.sec;
    out->atimensec = a->atime.nsec;
    out->mtime = (uint64_t)a->mtime.sec;
    out->mtimensec = a->mtime.nsec;
    out->ctime = (uint64_t)a->ctime.sec;
    out->ctimensec = a->ctime.nsec;
}

/* No caching of a count of no blocks; with its write-back cache the kernel refreshes it itself. */
static double reply_attr_timeout(struct km *m, const struct snic_fsop_attr *a)
{
    return !atomic_load_explicit(&m->writeback, memory_order_relaxed) && reply_hollow(m, a)
               ? 0
               : km_valid_seconds(m);
}

static void reply_valid(double seconds, uint64_t *sec, uint32_t *nsec)
{
    snic_fuse_valid((uint64_t)(seconds * 1e9), sec, nsec);
}

static void reply_entry_fill(struct km *m, const struct snic_fsop_attr *a,
                             struct snic_fuse_entry_out *e)
{
    memset(e, 0, sizeof(*e));
    e->nodeid = a->ino;
    reply_valid(km_valid_seconds(m), &e->entry_valid, &e->entry_valid_nsec);
    reply_valid(reply_attr_timeout(m, a), &e->attr_valid, &e->attr_valid_nsec);
    reply_attr_fill(m, &e->attr, a);
}

static void reply_entry(struct km_call *c)
{
    struct snic_fuse_entry_out e;

    reply_entry_fill(c->m, &c->r.op.attr, &e);
    km_known_add(c->m, e.nodeid);
    if (km_answer_bytes(c, &e, sizeof(e)) != 0)
        km_known_drop(c->m, e.nodeid, 1);
}

/* A name that does not exist: the kernel may cache that, too. */
static void reply_absent(struct km_call *c)
{
    struct snic_fuse_entry_out e;

    memset(&e, 0, sizeof(e));
    reply_valid(km_valid_seconds(c->m), &e.entry_valid, &e.entry_valid_nsec);
    if ((e.entry_valid | e.entry_valid_nsec) != 0)
        (void)km_answer_bytes(c, &e, sizeof(e));
    else
        (void)km_answer_error(c, ENOENT);
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
    struct snic_fuse_create_out out;
    int rc = -ENOENT;

    memset(&out, 0, sizeof(out));
    out.open.fh = (uintptr_t)f;
    if (f == NULL) {
        (void)km_answer_error(c, ENOMEM);
    } else if (c->r.op.kind == SNIC_FSOP_OPENDIR) {
        rc = km_answer_bytes(c, &out.open, sizeof(out.open));
    } else {
        if (alone && atomic_load(&c->m->refreshing) != KM_REFRESH_RUNS)
            out.open.open_flags |= SNIC_FUSE_FOPEN_KEEP_CACHE;
        /* Appends of several mounts: no page here may be where the bytes did not go. */
        if (!alone && (c->open_flags & O_APPEND) != 0)
            out.open.open_flags |= SNIC_FUSE_FOPEN_DIRECT_IO;
        if (c->r.op.kind == SNIC_FSOP_CREATE) {
            reply_entry_fill(c->m, &c->r.op.attr, &out.entry);
            km_known_add(c->m, out.entry.nodeid);
            rc = km_answer_bytes(c, &out, sizeof(out));
            if (rc != 0)
                km_known_drop(c->m, out.entry.nodeid, 1);
        } else {
            reply_doubt(c, f);
            rc = km_answer_bytes(c, &out.open, sizeof(out.open));
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
        (void)km_answer_error(c, error);
}

/* Does the kernel count the entry as a look-up? */
static int reply_dirent_known(const struct km_call *c, const struct snic_fsop_dirent *d)
{
    return (c->r.op.flags & SNIC_FSOP_READDIR_PLUS) != 0 && d->has_attr && d->cookie > 2;
}

/* One entry into [at, room) of the answer. @return bytes; 0: no room */
static size_t reply_dirent(struct km_call *c, char *at, size_t room,
                           const struct snic_fsop_dirent *d, const char *name)
{
    struct snic_fuse_dirent out = {d->ino, d->cookie, d->name_size, (d->type & S_IFMT) >> 12};
    int plus = (c->r.op.flags & SNIC_FSOP_READDIR_PLUS) != 0;
    struct snic_fuse_entry_out e;
    int n;

    if (plus) {
        memset(&e, 0, sizeof(e));
        if (reply_dirent_known(c, d))
            reply_entry_fill(c->m, &d->attr, &e);
        e.attr.ino = d->ino;
        e.attr.mode = d->has_attr ? d->attr.mode : d->type;
        out.type = (e.attr.mode & S_IFMT) >> 12;
    }
    n = snic_fuse_dirent_put(at, room, &out, name, plus ? &e : NULL);
    SNIC_ASSERT(n >= 0); /* reply_entry_take() has checked the name */
    return (size_t)n;
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
        if (n == 0)
            break;
        if (reply_dirent_known(c, &d))
            km_known_add(c->m, d.attr.ino);
        used += n;
        from += d.bytes;
    }
    if (km_answer_bytes(c, out, used) != 0)
        reply_readdir_lost(c, from);
}

static void reply_statfs(struct km_call *c)
{
    const struct snic_fsop_statfs *s = &c->r.op.statfs;
    struct snic_fuse_statfs_out out;

    memset(&out, 0, sizeof(out));
    out.bsize = KM_PAGE;
    out.frsize = KM_PAGE;
    out.blocks = s->bytes / KM_PAGE;
    out.bfree = s->bytes_free / KM_PAGE;
    out.bavail = out.bfree;
    out.files = s->files;
    out.ffree = s->files_free;
    out.namelen = SNIC_FSOP_NAME_MAX;
    (void)km_answer_bytes(c, &out, sizeof(out));
}

static void reply_lock(struct km_call *c)
{
    const struct snic_fsop_lock *k = &c->r.op.lock;
    struct snic_fuse_lk_out out;

    memset(&out, 0, sizeof(out));
    out.lk.type = k->type == SNIC_FSOP_RDLCK   ? SNIC_FUSE_RDLCK
                  : k->type == SNIC_FSOP_WRLCK ? SNIC_FUSE_WRLCK
                                               : SNIC_FUSE_UNLCK;
    if (out.lk.type != SNIC_FUSE_UNLCK) {
        out.lk.start = k->start;
        out.lk.end = snic_min_u64(k->end, INT64_MAX);
    }
    out.lk.pid = k->pid;
    (void)km_answer_bytes(c, &out, sizeof(out));
}

static void reply_position(struct km_call *c, uint64_t offset)
{
    const struct snic_fuse_lseek_out out = {offset};

    (void)km_answer_bytes(c, &out, sizeof(out));
}

static void reply_written(struct km_call *c, uint64_t size)
{
    const struct snic_fuse_write_out out = {.size = (uint32_t)size};

    (void)km_answer_bytes(c, &out, sizeof(out));
}

/* How long an extended attribute is, or their list. */
static void reply_xattr_size(struct km_call *c, uint64_t size)
{
    const struct snic_fuse_getxattr_out out = {.size = (uint32_t)size};

    (void)km_answer_bytes(c, &out, sizeof(out));
}

/* All of the file is data. */
static void reply_seek(struct km_call *c, uint64_t size)
{
    uint64_t offset = c->r.op.offset;

    if (offset >= size) /* also below 0 */
        (void)km_answer_error(c, ENXIO);
    else
        reply_position(c, c->seek == SEEK_HOLE ? size : offset);
}

static void reply_attr(struct km_call *c)
{
    struct snic_fuse_attr_out out;

    memset(&out, 0, sizeof(out));
    reply_attr_fill(c->m, &out.attr, &c->r.op.attr);
    if (c->seek != 0) {
        reply_seek(c, out.attr.size);
        return;
    }
    reply_valid(reply_attr_timeout(c->m, &c->r.op.attr), &out.attr_valid, &out.attr_valid_nsec);
    (void)km_answer_bytes(c, &out, sizeof(out));
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
    if (more == 0 || more >= had.length || km_answer_interrupted(c)) {
        reply_written(c, c->copied);
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
        (void)km_answer_bytes(c, c->data, (size_t)k->result);
        return 0;
    case SNIC_FSOP_READ:
        c->m->read_bytes += (uint64_t)k->result;
        (void)km_answer_bytes(c, c->data, (size_t)k->result);
        return 0;
    case SNIC_FSOP_WRITE:
        c->m->write_bytes += (uint64_t)k->result;
        reply_written(c, (uint64_t)k->result);
        return 0;
    case SNIC_FSOP_COPY:
        return reply_copy(c);
    case SNIC_FSOP_SEEK:
        reply_position(c, (uint64_t)k->result);
        return 0;
    case SNIC_FSOP_READDIR:
        reply_readdir(c);
        return 0;
    case SNIC_FSOP_GETXATTR:
    case SNIC_FSOP_LISTXATTR:
        if (c->size == 0)
            reply_xattr_size(c, (uint64_t)k->result);
        else
            (void)km_answer_bytes(c, c->data, (size_t)k->result);
        return 0;
    case SNIC_FSOP_UNLINK:
    case SNIC_FSOP_RMDIR:
    case SNIC_FSOP_RENAME:
        if (k->handle != 0) /* before the answer, which may end what the kernel knows */
            km_known_hold(c->m, k->attr.ino, k->handle);
        (void)km_answer_error(c, 0);
        return 0;
    case SNIC_FSOP_STATFS:
        reply_statfs(c);
        return 0;
    case SNIC_FSOP_GETLK:
        reply_lock(c);
        return 0;
    default:
        (void)km_answer_error(c, 0);
        return 0;
    }
}

void km_call_answer(struct km_call *c)
{
    struct km *m = c->m;
    uint32_t waited = c->waits;

    c->waits = 0;
    if (waited) {
        km_answer_interrupt(c, NULL);
        atomic_fetch_sub(&m->locks_waiting, 1);
    }
    if (c->copied > 0 && c->r.op.result < 0)
        c->r.op.result = 0; /* what was copied before counts */
    if (km_answer_due(c)) {
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
