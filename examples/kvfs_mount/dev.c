/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * --fuse dev: requests are read by fusedev.h and decoded by fuse.h, and become calls of the
 * operations in ops.c, with the arguments that libfuse would give them. fusedev.h keeps the
 * kernel's bytes until the answer; a block of call.c beside it has all else.
 */
#include "mount.h"

#include "../common.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DEV_CALLS = 2 * KM_LOCKS_WAITING, /* of which those may be all that wait for locks */
    DEV_BACKGROUND = 64,
    DEV_CONGESTION = 48
};

SNIC_STATIC_ASSERT((int)DEV_CALLS < (int)KM_BLOCKS, "each has a block");

static struct fuse_file_info dev_file(uint64_t fh, uint32_t flags)
{
    struct fuse_file_info fi;

    memset(&fi, 0, sizeof(fi));
    fi.fh = fh;
    fi.flags = (int)flags;
    return fi;
}

/* ---- Requests: each @return 1: it is one of these, and has begun ---- */

static int dev_names(const struct snic_fuse_request *r)
{
    uint64_t ino = r->head.nodeid;

    switch (r->head.opcode) {
    case SNIC_FUSE_LOOKUP:
        km_ops.lookup(NULL, ino, r->name);
        return 1;
    case SNIC_FUSE_MKNOD:
        km_ops.mknod(NULL, ino, r->name, r->in.mknod.mode, r->in.mknod.rdev);
        return 1;
    case SNIC_FUSE_MKDIR:
        km_ops.mkdir(NULL, ino, r->name, r->in.mkdir.mode);
        return 1;
    case SNIC_FUSE_SYMLINK:
        km_ops.symlink(NULL, r->name2, ino, r->name);
        return 1;
    case SNIC_FUSE_LINK:
        km_ops.link(NULL, r->in.link.oldnodeid, ino, r->name);
        return 1;
    case SNIC_FUSE_UNLINK:
        km_ops.unlink(NULL, ino, r->name);
        return 1;
    case SNIC_FUSE_RMDIR:
        km_ops.rmdir(NULL, ino, r->name);
        return 1;
    case SNIC_FUSE_RENAME:
    case SNIC_FUSE_RENAME2:
        km_ops.rename(NULL, ino, r->name, r->in.rename.newdir, r->name2,
                      r->head.opcode == SNIC_FUSE_RENAME2 ? r->in.rename.flags : 0);
        return 1;
    case SNIC_FUSE_READLINK:
        km_ops.readlink(NULL, ino);
        return 1;
    case SNIC_FUSE_STATFS:
        km_ops.statfs(NULL, ino);
        return 1;
    default:
        return 0;
    }
}

static void dev_setattr(struct km_call *c, const struct snic_fuse_request *r)
{
    const struct snic_fuse_setattr_in *in = &r->in.setattr;
    struct fuse_file_info fi = dev_file(in->fh, 0);
    uint32_t set =
        in->valid & (SNIC_FUSE_SET_MODE | SNIC_FUSE_SET_UID | SNIC_FUSE_SET_GID |
                     SNIC_FUSE_SET_SIZE | SNIC_FUSE_SET_ATIME | SNIC_FUSE_SET_MTIME |
                     SNIC_FUSE_SET_ATIME_NOW | SNIC_FUSE_SET_MTIME_NOW | SNIC_FUSE_SET_CTIME);
    struct stat st;

    memset(&st, 0, sizeof(st));
    st.st_mode = in->mode;
    st.st_uid = in->uid;
    st.st_gid = in->gid;
    st.st_size = (off_t)in->size;
    st.st_atim = (struct timespec){.tv_sec = (time_t)in->atime, .tv_nsec = in->atimensec};
    st.st_mtim = (struct timespec){.tv_sec = (time_t)in->mtime, .tv_nsec = in->mtimensec};
    st.st_ctim = (struct timespec){.tv_sec = (time_t)in->ctime, .tv_nsec = in->ctimensec};
    c->raw = in->valid;
    km_ops.setattr(NULL, r->head.nodeid, &st, (int)set,
                   (in->valid & SNIC_FUSE_SET_FH) != 0 ? &fi : NULL);
}

static int dev_attributes(struct km_call *c, const struct snic_fuse_request *r)
{
    struct fuse_file_info fi = dev_file(r->in.getattr.fh, 0);
    uint64_t ino = r->head.nodeid;

    switch (r->head.opcode) {
    case SNIC_FUSE_GETATTR:
        km_ops.getattr(NULL, ino,
                       (r->in.getattr.getattr_flags & SNIC_FUSE_GETATTR_FH) != 0 ? &fi : NULL);
        return 1;
    case SNIC_FUSE_SETATTR:
        dev_setattr(c, r);
        return 1;
    case SNIC_FUSE_SETXATTR:
        km_ops.setxattr(NULL, ino, r->name, r->data, r->data_size, (int)r->in.setxattr.flags);
        return 1;
    case SNIC_FUSE_GETXATTR:
        km_ops.getxattr(NULL, ino, r->name, r->in.getxattr.size);
        return 1;
    case SNIC_FUSE_LISTXATTR:
        km_ops.listxattr(NULL, ino, r->in.getxattr.size);
        return 1;
    case SNIC_FUSE_REMOVEXATTR:
        km_ops.removexattr(NULL, ino, r->name);
        return 1;
    default:
        return 0;
    }
}

static int dev_opens(struct km_call *c, const struct snic_fuse_request *r)
{
    struct fuse_file_info fi = dev_file(0, r->in.open.flags); /* CREATE begins with them, too */
    struct fuse_file_info old;
    uint64_t ino = r->head.nodeid;

    switch (r->head.opcode) {
    case SNIC_FUSE_OPEN:
        c->raw = r->in.open.open_flags;
        km_ops.open(NULL, ino, &fi);
        return 1;
    case SNIC_FUSE_OPENDIR:
        km_ops.opendir(NULL, ino, &fi);
        return 1;
    case SNIC_FUSE_CREATE:
        fi.flags = (int)r->in.create.flags;
        c->raw = r->in.create.open_flags;
        km_ops.create(NULL, ino, r->name, r->in.create.mode, &fi);
        return 1;
    case SNIC_FUSE_FLUSH:
        old = dev_file(r->in.flush.fh, 0);
        old.lock_owner = r->in.flush.lock_owner;
        km_ops.flush(NULL, ino, &old);
        return 1;
    case SNIC_FUSE_RELEASE:
    case SNIC_FUSE_RELEASEDIR:
        old = dev_file(r->in.release.fh, r->in.release.flags);
        old.lock_owner = r->in.release.lock_owner;
        if (r->head.opcode == SNIC_FUSE_RELEASE)
            km_ops.release(NULL, ino, &old);
        else
            km_ops.releasedir(NULL, ino, &old);
        return 1;
    default:
        return 0;
    }
}

static void dev_write(struct km_call *c, const struct snic_fuse_request *r)
{
    const struct snic_fuse_write_in *in = &r->in.write;
    struct fuse_file_info fi = dev_file(in->fh, in->flags);

    fi.writepage = (in->write_flags & SNIC_FUSE_WRITE_CACHE) != 0;
    c->raw = in->write_flags;
    km_ops.write(NULL, r->head.nodeid, r->data, r->data_size, (off_t)in->offset, &fi);
}

static void dev_fallocate(const struct snic_fuse_request *r)
{
    const struct snic_fuse_fallocate_in *in = &r->in.fallocate;
    struct fuse_file_info fi = dev_file(in->fh, 0);

    km_ops.fallocate(NULL, r->head.nodeid, (int)in->mode, (off_t)in->offset, (off_t)in->length,
                     &fi);
}

static void dev_copy(const struct snic_fuse_request *r)
{
    const struct snic_fuse_copy_file_range_in *in = &r->in.copy_file_range;
    struct fuse_file_info from = dev_file(in->fh_in, 0);
    struct fuse_file_info to = dev_file(in->fh_out, 0);

    km_ops.copy_file_range(NULL, r->head.nodeid, (off_t)in->off_in, &from, in->nodeid_out,
                           (off_t)in->off_out, &to, in->len, (int)in->flags);
}

static int dev_bytes(struct km_call *c, const struct snic_fuse_request *r)
{
    const struct snic_fuse_read_in *in = &r->in.read;
    struct fuse_file_info fi = dev_file(in->fh, in->flags); /* all begin with the handle */
    uint64_t ino = r->head.nodeid;

    switch (r->head.opcode) {
    case SNIC_FUSE_READ:
        km_ops.read(NULL, ino, in->size, (off_t)in->offset, &fi);
        return 1;
    case SNIC_FUSE_READDIR:
        km_ops.readdir(NULL, ino, in->size, (off_t)in->offset, &fi);
        return 1;
    case SNIC_FUSE_READDIRPLUS:
        km_ops.readdirplus(NULL, ino, in->size, (off_t)in->offset, &fi);
        return 1;
    case SNIC_FUSE_WRITE:
        dev_write(c, r);
        return 1;
    case SNIC_FUSE_FSYNC:
    case SNIC_FUSE_FSYNCDIR:
        fi = dev_file(r->in.fsync.fh, 0);
        (r->head.opcode == SNIC_FUSE_FSYNC ? km_ops.fsync : km_ops.fsyncdir)(
            NULL, ino, (r->in.fsync.fsync_flags & SNIC_FUSE_FSYNC_DATA) != 0, &fi);
        return 1;
    case SNIC_FUSE_FALLOCATE:
        dev_fallocate(r);
        return 1;
    case SNIC_FUSE_LSEEK:
        fi = dev_file(r->in.lseek.fh, 0);
        km_ops.lseek(NULL, ino, (off_t)r->in.lseek.offset, (int)r->in.lseek.whence, &fi);
        return 1;
    case SNIC_FUSE_COPY_FILE_RANGE:
        dev_copy(r);
        return 1;
    default:
        return 0;
    }
}

static int dev_flock_op(uint32_t type, int waits)
{
    int op = type == SNIC_FUSE_WRLCK ? LOCK_EX : type == SNIC_FUSE_RDLCK ? LOCK_SH : LOCK_UN;

    return waits ? op : op | LOCK_NB;
}

static int dev_locks(const struct snic_fuse_request *r)
{
    const struct snic_fuse_lk_in *in = &r->in.lk;
    const struct snic_fuse_file_lock *k = &in->lk;
    int waits = r->head.opcode == SNIC_FUSE_SETLKW;
    struct fuse_file_info fi = dev_file(in->fh, 0);
    struct flock lock;

    if (!waits && r->head.opcode != SNIC_FUSE_SETLK && r->head.opcode != SNIC_FUSE_GETLK)
        return 0;
    fi.lock_owner = in->owner;
    memset(&lock, 0, sizeof(lock));
    lock.l_type = k->type == SNIC_FUSE_WRLCK   ? F_WRLCK
                  : k->type == SNIC_FUSE_RDLCK ? F_RDLCK
                                               : F_UNLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = (off_t)k->start;
    lock.l_len = k->end >= INT64_MAX ? 0 : (off_t)(k->end - k->start + 1);
    lock.l_pid = (pid_t)k->pid;
    if (r->head.opcode == SNIC_FUSE_GETLK)
        km_ops.getlk(NULL, r->head.nodeid, &fi, &lock);
    else if ((in->lk_flags & SNIC_FUSE_LK_FLOCK) != 0)
        km_ops.flock(NULL, r->head.nodeid, &fi, dev_flock_op(k->type, waits));
    else
        km_ops.setlk(NULL, r->head.nodeid, &fi, &lock, waits);
    return 1;
}

/* INIT was answered before the first request. */
static void dev_begun(struct km *m)
{
    const struct snic_fuse_conn *conn = snic_fusedev_conn(m->dev);

    if (m->init_minor != 0)
        return;
    km_notify_begin(m, conn->minor);
    atomic_store(&m->writeback, (conn->flags & SNIC_FUSE_WRITEBACK_CACHE) != 0);
}

static void dev_request(void *ctx, struct snic_fusedev_call *call)
{
    const struct snic_fuse_request *r = &call->request;
    struct km *m = ctx;
    struct km_call *c = km_call_get(m);

    dev_begun(m);
    if (c == NULL) {
        (void)snic_fusedev_reply_error(call, SNIC_ENOMEM);
        return;
    }
    c->dev = call;
    c->raw = 0;
    c->interrupt = NULL;
    call->ctx = c;
    km_call_decode(c);
    if (dev_names(r) || dev_attributes(c, r) || dev_opens(c, r) || dev_bytes(c, r) || dev_locks(r))
        return;
    km_answer_refuse(km_call_take(), -snic_fuse_refusal(SNIC_ENOTSUP, r->head.opcode));
}

static void dev_forget(void *ctx, uint64_t nodeid, uint64_t nlookup)
{
    km_known_drop(ctx, nodeid, nlookup);
}

static void dev_interrupt(void *ctx, struct snic_fusedev_call *call)
{
    struct km_call *c = call->ctx;

    (void)ctx;
    if (c != NULL && c->interrupt != NULL)
        c->interrupt(c);
}

static void dev_closed(void *ctx, int result)
{
    struct km *m = ctx;

    m->dev_closed = 1;
    if (result != 0)
        ex_log(EX_ERROR, "cannot serve /dev/fuse: %s", snic_strerror(result));
}

/* ---- Beginning and end ---- */

static uint64_t dev_flags(const struct km_config *c)
{
    uint64_t flags = SNIC_FUSE_ASYNC_READ | SNIC_FUSE_ASYNC_DIO | SNIC_FUSE_ATOMIC_O_TRUNC |
                     SNIC_FUSE_DONT_MASK | SNIC_FUSE_POSIX_ACL | SNIC_FUSE_PARALLEL_DIROPS |
                     SNIC_FUSE_POSIX_LOCKS | SNIC_FUSE_FLOCK_LOCKS | SNIC_FUSE_DO_READDIRPLUS |
                     SNIC_FUSE_READDIRPLUS_AUTO | SNIC_FUSE_EXPORT_SUPPORT |
                     SNIC_FUSE_AUTO_INVAL_DATA | SNIC_FUSE_HANDLE_KILLPRIV |
                     SNIC_FUSE_HANDLE_KILLPRIV_V2;

    flags |= c->exclusive ? SNIC_FUSE_CACHE_SYMLINKS : 0;
    flags |= c->writeback ? SNIC_FUSE_WRITEBACK_CACHE : 0;
    return flags;
}

int km_dev_open(struct km *m)
{
    static const struct snic_fusedev_ops ops = {
        .ops_size = sizeof(ops),
        .request = dev_request,
        .forget = dev_forget,
        .interrupt = dev_interrupt,
        .closed = dev_closed,
    };
    struct snic_fusedev_opts o = {
        .opts_size = sizeof(o),
        .calls_max = DEV_CALLS,
        .loop = m->loop,
        .ops = &ops,
        .ctx = m,
        .fd = m->fd,
        .flags = SNIC_FUSEDEV_POLLED,
        .offer = {.offer_size = sizeof(o.offer),
                  .flags = dev_flags(m->config),
                  .max_write = KM_DATA,
                  .max_readahead = KM_DATA,
                  .max_background = DEV_BACKGROUND,
                  .congestion_threshold = DEV_CONGESTION},
    };
    int rc = SNIC_ENOMEM;

    if (getrandom(&o.seed, sizeof(o.seed), 0) != (ssize_t)sizeof(o.seed))
        o.seed = snic_loop_clock(m->loop);
    m->dev_size = snic_fusedev_memsize(&o);
    m->dev_memory = mmap(NULL, m->dev_size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->dev_memory == MAP_FAILED) {
        m->dev_memory = NULL;
    } else {
        (void)madvise(m->dev_memory, m->dev_size, MADV_NOHUGEPAGE); /* as call.c's */
        rc = snic_fusedev_init(&m->dev, m->dev_memory, m->dev_size, &o);
    }
    if (rc != 0)
        ex_log(EX_ERROR, "cannot serve /dev/fuse: %s", snic_strerror(rc));
    return rc == 0 ? 0 : -1;
}

int km_dev_take(struct km *m)
{
    int rc = snic_fusedev_poll(m->dev);

    return rc < 0 ? -1 : rc;
}

int km_dev_wake(struct km *m)
{
    return snic_fusedev_arm(m->dev);
}

void km_dev_end(struct km *m)
{
    snic_fusedev_stop(m->dev);
    while (!m->dev_closed)
        (void)snic_loop_once(m->loop, SNIC_NEVER);
}

void km_dev_close(struct km *m)
{
    if (m->dev != NULL)
        (void)snic_fusedev_fini(m->dev);
    m->dev = NULL;
    if (m->dev_memory != NULL)
        (void)munmap(m->dev_memory, m->dev_size);
    m->dev_memory = NULL;
}
