/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Open files, their bytes and locks: FUSE's requests become the engine's. */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* ---- Open ---- */

static void data_open_flags(struct km_call *c, const struct fuse_file_info *fi)
{
    int mode = fi->flags & O_ACCMODE;

    c->open_flags = (uint32_t)fi->flags;
    if (mode != O_WRONLY)
        c->r.op.flags |= SNIC_FSOP_OPEN_READ;
    if (mode != O_RDONLY)
        c->r.op.flags |= SNIC_FSOP_OPEN_WRITE;
    if (atomic_load_explicit(&c->m->writeback, memory_order_relaxed) && mode == O_WRONLY)
        c->r.op.flags |= SNIC_FSOP_OPEN_READ; /* the kernel fills pages */
    if ((fi->flags & O_TRUNC) != 0)
        c->r.op.flags |= SNIC_FSOP_TRUNC;
    if ((c->raw & FUSE_OPEN_KILL_SUIDGID) != 0 && c->r.op.kind == SNIC_FSOP_OPEN)
        km_kill(c);
    else if ((c->raw & FUSE_OPEN_KILL_SUIDGID) != 0) /* it rarely exists */
        c->r.op.flags |= SNIC_FSOP_KILL_PRIV;
}

void km_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_OPEN, ino);

    data_open_flags(c, fi);
    km_go_open(c);
}

void km_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                  struct fuse_file_info *fi)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_CREATE, parent);

    data_open_flags(c, fi);
    km_name(c, name);
    c->r.op.mode = mode;
    if ((fi->flags & O_EXCL) != 0)
        c->r.op.flags |= SNIC_FSOP_EXCL;
    km_go_open(c);
}

void km_op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_FLUSH, ino);

    km_use_file(c, fi);
    c->r.op.lock.owner = fi->lock_owner;
    km_go(c);
}

void km_op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_RELEASE, ino);

    km_use_file(c, fi);
    c->r.op.lock.owner = fi->lock_owner; /* of flock() */
    if (c->r.op.lock.owner == 0 && c->file != NULL)
        c->r.op.lock.owner = km_file_owner(c->file);
    km_go(c);
}

void km_op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_FSYNC, ino);

    if (datasync)
        c->r.op.flags |= SNIC_FSOP_FSYNC_DATA;
    km_use_file(c, fi);
    km_go(c);
}

/* ---- Bytes ---- */

void km_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_READ, ino);

    c->iov.base = km_call_data(c);
    c->iov.size = (size_t)snic_min_u64(size, KM_DATA);
    c->r.op.iov = &c->iov;
    c->r.op.iov_count = 1;
    c->r.op.length = c->iov.size;
    c->r.op.offset = (uint64_t)off;
    km_use_file(c, fi);
    if ((fi->flags & O_DIRECT) != 0)
        c->r.op.flags |= SNIC_FSOP_DIRECT;
    if ((fi->flags & O_NOATIME) != 0)
        c->r.op.flags |= SNIC_FSOP_NOATIME;
    km_go(c);
}

void km_op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
                 struct fuse_file_info *fi)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_WRITE, ino);
    int writeback = atomic_load_explicit(&c->m->writeback, memory_order_relaxed);

    c->iov.base = (void *)(uintptr_t)buf;
    c->iov.size = size;
    c->r.op.iov = &c->iov;
    c->r.op.iov_count = 1;
    c->r.op.length = size;
    c->r.op.offset = (uint64_t)off;
    km_use_file(c, fi);
    if ((fi->flags & O_DIRECT) != 0 && !fi->writepage)
        c->r.op.flags |= SNIC_FSOP_DIRECT;
    if ((fi->flags & O_APPEND) != 0 && !fi->writepage && !writeback)
        c->r.op.flags |= SNIC_FSOP_APPEND;
    if ((fi->flags & O_DSYNC) != 0 && !fi->writepage)
        c->r.op.flags |= SNIC_FSOP_SYNC;
    if ((c->raw & FUSE_WRITE_KILL_SUIDGID) != 0)
        km_kill(c);
    km_go(c);
}

void km_op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                     struct fuse_file_info *fi)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_FALLOCATE, ino);

    if ((mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0) {
        km_answer_refuse(c, EOPNOTSUPP);
        return;
    }
    c->r.op.flags |= (mode & FALLOC_FL_KEEP_SIZE) != 0 ? SNIC_FSOP_FALLOC_KEEP_SIZE : 0;
    c->r.op.flags |= (mode & FALLOC_FL_PUNCH_HOLE) != 0 ? SNIC_FSOP_FALLOC_PUNCH : 0;
    c->r.op.flags |= (mode & FALLOC_FL_ZERO_RANGE) != 0 ? SNIC_FSOP_FALLOC_ZERO : 0;
    c->r.op.offset = (uint64_t)offset;
    c->r.op.length = (uint64_t)length;
    km_use_file(c, fi);
    if (c->r.op.cred.uid != 0) /* the protocol has no flag for it here, nor for copies */
        km_kill(c);
    km_go(c);
}

/*
 * The kernel may have bytes that we do not know of: all is data, up to the size. Where it gathers
 * writes we do not know that, either; it does, and at ENOSYS answers itself, that all is data, from
 * now on for every file.
 */
static void data_seek_all(struct km_call *c, int whence)
{
    if (atomic_load_explicit(&c->m->writeback, memory_order_relaxed)) {
        km_answer_refuse(c, ENOSYS);
        return;
    }
    c->r.op.kind = SNIC_FSOP_GETATTR;
    c->seek = (uint32_t)whence;
    km_go(c);
}

void km_op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_SEEK, ino);

    if (whence != SEEK_DATA && whence != SEEK_HOLE) {
        km_answer_refuse(c, EINVAL);
        return;
    }
    c->r.op.offset = (uint64_t)off;
    km_use_file(c, fi);
    if (km_writers_any(c->m, ino)) {
        data_seek_all(c, whence);
        return;
    }
    c->r.op.flags |= whence == SEEK_DATA ? SNIC_FSOP_SEEK_DATA : SNIC_FSOP_SEEK_HOLE;
    km_go(c);
}

void km_op_copy(fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
                fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t len,
                int flags)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_COPY, ino_in);

    (void)flags; /* the kernel passes none on */
    c->r.op.offset = (uint64_t)off_in;
    km_use_file(c, fi_out);
    if (c->r.op.cred.uid != 0)
        km_kill(c);
    km_use_file(c, fi_in);
    c->r.op.ino2 = ino_out;
    c->r.op.offset2 = (uint64_t)off_out;
    c->r.op.length = snic_min_u64(len, UINT32_MAX & ~(uint64_t)(KM_PAGE - 1)); /* reply: 32 bits */
    km_go(c);
}

/* ---- Locks ---- */

static uint32_t data_lock_type(short type)
{
    return type == F_RDLCK ? SNIC_FSOP_RDLCK : type == F_WRLCK ? SNIC_FSOP_WRLCK : SNIC_FSOP_UNLCK;
}

/* In a struct flock of libfuse l_len 0 is "to the end". */
static void data_lock(struct km_call *c, const struct fuse_file_info *fi, const struct flock *l)
{
    km_use_file(c, fi);
    c->r.op.lock.owner = fi->lock_owner;
    c->r.op.lock.start = (uint64_t)l->l_start;
    c->r.op.lock.end = l->l_len == 0 ? UINT64_MAX : (uint64_t)l->l_start + (uint64_t)l->l_len - 1;
    c->r.op.lock.type = data_lock_type(l->l_type);
    c->r.op.lock.pid = (uint32_t)l->l_pid;
}

/* On the loop's thread. */
static void data_cancel(struct snic_loop_msg *msg)
{
    struct km_call *c = SNIC_CONTAINER(msg, struct km_call, cancel);

    if (atomic_load(&c->cancelling) != KM_CANCEL_OVER && !c->m->carrier->cancel(c->m, c))
        snic_loop_post(c->m->loop, &c->cancel); /* its thread is just sending it */
    else if (atomic_exchange(&c->cancelling, KM_CANCEL_NONE) == KM_CANCEL_OVER)
        km_call_put(c); /* it has ended, meanwhile or by this */
}

/* From the thread that read FUSE_INTERRUPT, or that is decoding the request itself. */
static void data_interrupted(struct km_call *c)
{
    int state = KM_CANCEL_EARLY;

    if (atomic_compare_exchange_strong(&c->cancelling, &state, KM_CANCEL_AT_ONCE))
        return;
    state = KM_CANCEL_NONE;
    if (atomic_compare_exchange_strong(&c->cancelling, &state, KM_CANCEL_POSTED)) {
        c->cancel.fn = data_cancel;
        snic_loop_post(c->m->loop, &c->cancel);
    }
}

/* Locks that wait hold requests of the engine: some must stay free for unlocks. */
static int data_wait(struct km_call *c)
{
    if (atomic_fetch_add(&c->m->locks_waiting, 1) >= KM_LOCKS_WAITING) {
        atomic_fetch_sub(&c->m->locks_waiting, 1);
        km_answer_refuse(c, ENOLCK);
        return -1;
    }
    c->waits = 1;
    c->r.op.flags |= SNIC_FSOP_LOCK_WAIT;
    return 0;
}

static void data_go_waiting(struct km_call *c)
{
    int state = KM_CANCEL_EARLY;

    if (c->waits) {
        atomic_store(&c->cancelling, KM_CANCEL_EARLY);
        km_answer_interrupt(c, data_interrupted);
        if (!atomic_compare_exchange_strong(&c->cancelling, &state, KM_CANCEL_NONE)) {
            km_answer_interrupt(c, NULL);
            atomic_fetch_sub(&c->m->locks_waiting, 1);
            km_answer_refuse(c, EINTR);
            return;
        }
    }
    km_go(c);
}

void km_op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_GETLK, ino);

    data_lock(c, fi, lock);
    km_go(c);
}

void km_op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock,
                 int sleep)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_SETLK, ino);

    data_lock(c, fi, lock);
    if (sleep && lock->l_type != F_UNLCK && data_wait(c) != 0)
        return;
    data_go_waiting(c);
}

void km_op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_FLOCK, ino);

    km_use_file(c, fi);
    c->r.op.lock.owner = fi->lock_owner;
    c->r.op.lock.end = UINT64_MAX;
    c->r.op.lock.pid = c->r.op.cred.pid;
    c->r.op.lock.type = (op & LOCK_EX) != 0   ? SNIC_FSOP_WRLCK
                        : (op & LOCK_SH) != 0 ? SNIC_FSOP_RDLCK
                                              : SNIC_FSOP_UNLCK;
    if ((op & LOCK_NB) == 0 && c->r.op.lock.type != SNIC_FSOP_UNLCK && data_wait(c) != 0)
        return;
    data_go_waiting(c);
}
