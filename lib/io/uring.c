/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The io door on io_uring: regular files and block devices.
 *
 * Each accepted request takes a slot of the handle; the slot is what the kernel
 * holds. A request goes from `accepted` to `queued` (an entry of the ring) or,
 * when the ring takes none, to `waiting`; an invalid one to `refused`. Its
 * completion comes from the ring or from a deferred message, and only there is
 * done called.
 *
 * Invariants
 *   F1 A slot is free, or has a request; in_flight counts the latter. done is
 *      called exactly once per request, from io_file_finish() alone, after the
 *      slot was freed: done may submit again.
 *   F2 submit() never calls done.
 *   F3 A request of state `waiting` or `refused` has its message queued in the
 *      loop, and no entry in the ring; one of state `queued` has exactly one.
 *   F4 -EINTR and -EAGAIN are the kernel's business: the request is sent again.
 *   F5 A slot of a file in memory has an entry in the ring only for what may take long.
 *   F6 A WRITE with FUA of a handle that needs it has two entries, one after the other: the write,
 *      then a flush; `written` is set between the two.
 *   F7 Each way has the mean time of its writes; the other way is tried after `try_gap` writes,
 *      less often while it is much slower.
 *
 * A file of tmpfs or ramfs is memory: a small transfer takes as long as its copy, and a flush
 * nothing. The ring would hand each to a worker thread, because such files cannot report that they
 * would block, and to wake that costs several times the copy. So the slot's message makes the
 * system call itself. The file's memory may be swapped out, but so may the process's own.
 *
 * FUA is RWF_DSYNC where a write carries its sync: the device has FUA or no volatile cache, or the
 * write goes through the page cache, in a worker thread. Else there are two ways. The kernel ends a
 * direct write with RWF_DSYNC by a flush from a work item bound to the processor of the interrupt:
 * the faster way, but it waits for a time slice (3 ms were measured) if that processor is busy. Or
 * the flush is a request of its own (F6), which a worker thread takes on any processor. The handle
 * uses the way that took less time, and now and then tries the other (F7).
 *
 * FLUSH is fdatasync: sync_file_range() does not reach the device's cache. ZERO
 * and DISCARD are fallocate, which the kernel runs in its own worker, for block
 * devices as for files, so that no ioctl blocks the loop.
 */
#include "snicstore/io.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "io/io_priv.h"
#include "loop/uring.h"

#define SNIC_IO_FILE__TRANSFER_MAX (1u << 30)
/*
 * So many direct requests are handed to the kernel at once, before the loop's turn ends. Answering
 * a turn's completions with one large batch makes all requests travel in one clump, for which the
 * device waits while the CPU works and the other way round: a tenth of the rate at depth 32.
 */
#define SNIC_IO_FILE__CLUMP 4u
#define SNIC_IO_FILE__TRY 64u /* F7 */
#define SNIC_IO_FILE__TRY_MAX 2048u
/* Larger transfers of a file in memory are a worker's: the loop has others to serve. */
#define SNIC_IO_FILE__COPY_MAX (64u << 10)

enum io_file_state { IO_FILE_FREE, IO_FILE_QUEUED, IO_FILE_WAITING, IO_FILE_REFUSED };

struct io_file_slot {
    struct snic_uring_op op;
    struct snic_loop_msg msg;
    struct io_file *file;
    struct snic_io_req *req;
    struct io_file_slot *next_free;
    enum io_file_state state;
    int32_t refusal;   /* REFUSED: the result */
    int32_t written;   /* F6: bytes; 0: the write is not done, or needs no flush */
    uint8_t cancelled; /* asked for while it was waiting */
    uint8_t way;       /* enum io_file_way */
    uint8_t tries;     /* F7 */
};

/** How a WRITE becomes durable. */
enum io_file_way { IO_FILE_PLAIN, IO_FILE_DSYNC, IO_FILE_FLUSH };

struct io_file {
    struct snic_io io;
    struct io_file_slot *free;
    struct snic_io_room room;
    uint32_t in_flight;
    int fd;
    int file_slot; /* in the ring's file table, or negative */
    uint8_t closing;
    uint8_t locked;
    uint8_t memory;  /* F5 */
    uint8_t chooses; /* F7 */
    uint32_t try_in;
    uint32_t try_gap;
    uint64_t mean_ns[3]; /* enum io_file_way; 0: not known */
    struct io_file_slot slots[];
};

SNIC_STATIC_ASSERT(sizeof(struct snic_iov) == sizeof(struct iovec), "snic_iov is iovec");
SNIC_STATIC_ASSERT(offsetof(struct snic_iov, size) == offsetof(struct iovec, iov_len),
                   "snic_iov is iovec");

/* ---- Completion ---- */

static void io_file_send(struct io_file_slot *slot);

static void io_file_finish(struct io_file_slot *slot, int64_t result, int32_t os_error)
{
    struct io_file *f = slot->file;
    struct snic_io_req *req = slot->req;
    SNIC_ASSERT(slot->state != IO_FILE_FREE && f->in_flight > 0); /* F1 */
    slot->state = IO_FILE_FREE;
    slot->written = 0;
    slot->way = IO_FILE_PLAIN;
    slot->req = NULL;
    slot->next_free = f->free;
    f->free = slot;
    f->in_flight--;
    snic_io_room_freed(&f->room);
    io_req_finish(&f->io, req, result, os_error);
}

/** F7 */
static enum io_file_way io_file_choose(struct io_file_slot *slot)
{
    struct io_file *f = slot->file;
    slot->tries = 0;
    if (slot->req->op != SNIC_IO_WRITE || (slot->req->flags & SNIC_IO_FUA) == 0)
        return IO_FILE_PLAIN;
    if (!f->chooses)
        return IO_FILE_DSYNC;
    int dsync = f->mean_ns[IO_FILE_DSYNC] < f->mean_ns[IO_FILE_FLUSH];
    if (--f->try_in == 0) {
        f->try_in = f->try_gap;
        slot->tries = 1;
        dsync = !dsync;
    }
    return dsync ? IO_FILE_DSYNC : IO_FILE_FLUSH;
}

static void io_file_chosen(const struct io_file_slot *slot)
{
    struct io_file *f = slot->file;
    uint64_t *mean = &f->mean_ns[slot->way];
    uint64_t other = f->mean_ns[slot->way == IO_FILE_DSYNC ? IO_FILE_FLUSH : IO_FILE_DSYNC];
    uint64_t took = snic_loop_clock(f->io.loop) - slot->req->queued_ns;
    uint64_t part = *mean == 0 ? 1 : slot->tries ? 2 : 8;
    *mean += took / part - *mean / part;
    if (!slot->tries)
        return;
    f->try_gap = took / 2 < other ? SNIC_IO_FILE__TRY : 2 * f->try_gap;
    if (f->try_gap > SNIC_IO_FILE__TRY_MAX)
        f->try_gap = SNIC_IO_FILE__TRY_MAX;
}

/** The kernel's answer: bytes, 0, or -errno. */
static void io_file_answer(struct io_file_slot *slot, int64_t res)
{
    if (res == -EINTR || res == -EAGAIN) { /* F4 */
        slot->state = IO_FILE_WAITING;
        snic_loop_defer(slot->file->io.loop, &slot->msg);
        return;
    }
    if (res < 0) {
        io_file_finish(slot, snic_error_from_os((int)res), (int32_t)-res);
        return;
    }
    if (slot->way == IO_FILE_FLUSH && slot->written == 0 && res > 0) {
        slot->written = (int32_t)res;
        io_file_send(slot);
        return;
    }
    if (slot->file->chooses && slot->way != IO_FILE_PLAIN)
        io_file_chosen(slot);
    if (slot->written > 0) {
        io_file_finish(slot, slot->written, 0);
        return;
    }
    int moves = slot->req->op == SNIC_IO_READ || slot->req->op == SNIC_IO_WRITE;
    int whole = slot->req->op == SNIC_IO_ZERO || slot->req->op == SNIC_IO_DISCARD;
    io_file_finish(slot, moves ? res : whole ? (int64_t)slot->req->length : 0, 0);
}

static void io_file_complete(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct io_file_slot *slot = SNIC_CONTAINER(op, struct io_file_slot, op);
    (void)flags;
    SNIC_ASSERT(slot->state == IO_FILE_QUEUED); /* F3 */
    io_file_answer(slot, res);
}

/* ---- Submission ---- */

static void io_file_prep_transfer(struct io_file_slot *slot, struct io_uring_sqe *sqe)
{
    const struct io_file *f = slot->file;
    const struct snic_io_req *req = slot->req;
    int write = req->op == SNIC_IO_WRITE;
    const struct snic_iov *one = req->iov == NULL ? &req->buf : req->iov;
    if (req->iov_count > 1) {
        const struct iovec *v = (const struct iovec *)(const void *)req->iov;
        if (write)
            io_uring_prep_writev(sqe, f->fd, v, req->iov_count, req->offset);
        else
            io_uring_prep_readv(sqe, f->fd, v, req->iov_count, req->offset);
    } else if (req->region >= 0) {
        unsigned size = (unsigned)one->size;
        if (write)
            io_uring_prep_write_fixed(sqe, f->fd, one->base, size, req->offset, req->region);
        else
            io_uring_prep_read_fixed(sqe, f->fd, one->base, size, req->offset, req->region);
    } else if (write) {
        io_uring_prep_write(sqe, f->fd, one->base, (unsigned)one->size, req->offset);
    } else {
        io_uring_prep_read(sqe, f->fd, one->base, (unsigned)one->size, req->offset);
    }
    slot->way = (uint8_t)io_file_choose(slot);
    if (slot->way == IO_FILE_DSYNC)
        sqe->rw_flags = RWF_DSYNC;
}

/** Put the slot's request on the ring, or defer that. */
static void io_file_send(struct io_file_slot *slot)
{
    struct io_file *f = slot->file;
    const struct snic_io_req *req = slot->req;
    struct io_uring_sqe *sqe = loop_uring_sqe(f->io.loop, &slot->op);
    if (sqe == NULL) {
        slot->state = IO_FILE_WAITING;
        snic_loop_defer(f->io.loop, &slot->msg);
        return;
    }
    switch (slot->written > 0 ? SNIC_IO_FLUSH : req->op) {
    case SNIC_IO_FLUSH:
        io_uring_prep_fsync(sqe, f->fd, IORING_FSYNC_DATASYNC);
        break;
    case SNIC_IO_ZERO:
        io_uring_prep_fallocate(sqe, f->fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                                (off_t)req->offset, (off_t)req->length);
        break;
    case SNIC_IO_DISCARD:
        io_uring_prep_fallocate(sqe, f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                (off_t)req->offset, (off_t)req->length);
        break;
    default:
        io_file_prep_transfer(slot, sqe);
        break;
    }
    if (f->file_slot >= 0) {
        sqe->fd = f->file_slot;
        sqe->flags |= IOSQE_FIXED_FILE;
    }
    loop_uring_sqe_op(sqe, &slot->op);
    slot->state = IO_FILE_QUEUED;
    if ((f->io.caps & SNIC_IO_CAP_DIRECT) != 0 &&
        io_uring_sq_ready(loop_uring_ring(f->io.loop)) >= SNIC_IO_FILE__CLUMP)
        (void)loop_uring_flush(f->io.loop); /* what it refuses stays queued */
}

/* ---- Files in memory ---- */

static int io_file_is_copy(const struct io_file *f, const struct snic_io_req *req)
{
    return f->memory &&
           (req->op == SNIC_IO_FLUSH || ((req->op == SNIC_IO_READ || req->op == SNIC_IO_WRITE) &&
                                         req->length <= SNIC_IO_FILE__COPY_MAX));
}

/** -errno as the ring has it, or what the call returned. */
static int64_t io_file_copy(const struct io_file *f, const struct snic_io_req *req)
{
    const struct snic_iov *pieces = req->iov == NULL ? &req->buf : req->iov;
    const struct iovec *v = (const struct iovec *)(const void *)pieces;
    int count = req->iov == NULL ? 1 : (int)req->iov_count;
    off_t offset = (off_t)req->offset;
    ssize_t r = 0;
    if (req->op == SNIC_IO_FLUSH)
        r = fdatasync(f->fd);
    else if (req->op == SNIC_IO_READ)
        r = preadv(f->fd, v, count, offset);
    else if ((req->flags & SNIC_IO_FUA) != 0)
        r = pwritev2(f->fd, v, count, offset, RWF_DSYNC);
    else
        r = pwritev(f->fd, v, count, offset);
    return r < 0 ? -errno : r;
}

/** The message of a slot that waits or is refused. */
static void io_file_message(struct snic_loop_msg *msg)
{
    struct io_file_slot *slot = SNIC_CONTAINER(msg, struct io_file_slot, msg);
    if (slot->state == IO_FILE_REFUSED)
        io_file_finish(slot, slot->refusal, 0);
    else if (slot->cancelled)
        io_file_finish(slot, SNIC_ECANCELED, 0);
    else if (io_file_is_copy(slot->file, slot->req))
        io_file_answer(slot, io_file_copy(slot->file, slot->req));
    else
        io_file_send(slot);
}

static int io_file_submit_reqs(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    struct io_file *f = SNIC_CONTAINER(io, struct io_file, io);
    if (f->closing)
        return SNIC_ECANCELED;
    if (snic_io_room_taken(&f->room))
        return 0;
    uint64_t now = snic_loop_clock(io->loop);
    uint32_t i = 0;
    for (; i < n && f->free != NULL; i++) {
        struct snic_io_req *req = reqs[i];
        struct io_file_slot *slot = f->free;
        SNIC_ASSERT(slot->state == IO_FILE_FREE); /* F1 */
        f->free = slot->next_free;
        f->in_flight++;
        slot->req = req;
        slot->cancelled = 0;
        io_req_accept(io, req, now);
        req->backend[0] = (uint64_t)(uintptr_t)slot;
        slot->refusal = snic_io_validate(io, req);
        if (slot->refusal == 0 && !io_file_is_copy(f, req)) {
            io_file_send(slot);
        } else {
            slot->state = slot->refusal == 0 ? IO_FILE_WAITING : IO_FILE_REFUSED;
            snic_loop_defer(io->loop, &slot->msg); /* F2 */
        }
    }
    io->stats.queue_high = snic_max_u64(io->stats.queue_high, f->in_flight);
    return (int)i;
}

static void io_file_cancel_req(struct snic_io *io, struct snic_io_req *req)
{
    struct io_file *f = SNIC_CONTAINER(io, struct io_file, io);
    struct io_file_slot *slot = (struct io_file_slot *)(uintptr_t)req->backend[0];
    if (slot < f->slots || slot >= f->slots + io->depth_max || slot->req != req)
        return; /* it has completed */
    if (slot->state == IO_FILE_WAITING)
        slot->cancelled = 1;
    else if (slot->state == IO_FILE_QUEUED)
        (void)loop_uring_cancel(io->loop, &slot->op);
}

static void io_file_close_file(struct snic_io *io)
{
    struct io_file *f = SNIC_CONTAINER(io, struct io_file, io);
    f->closing = 1;
    while (f->in_flight > 0 || !snic_io_room_idle(&f->room)) {
        int r = snic_loop_once(io->loop, SNIC_NEVER);
        SNIC_ASSERT(r >= 0); /* the kernel still owns the callers' memory: no way on */
    }
    loop_uring_file_remove(io->loop, f->file_slot);
    if (f->locked)
        (void)flock(f->fd, LOCK_UN); /* the kernel may let go of the file later than we */
    (void)close(f->fd);
    free(f);
}

static int io_file_ready(const struct snic_io_room *r)
{
    return SNIC_CONTAINER(r, struct io_file, room)->free != NULL;
}

static void io_file_wait(struct snic_io *io, struct snic_io_waiter *w)
{
    snic_io_room_wait(&SNIC_CONTAINER(io, struct io_file, io)->room, w);
}

static const struct snic_io_ops io_file_ops = {
    .ops_size = sizeof(struct snic_io_ops),
    .name = "uring",
    .submit = io_file_submit_reqs,
    .cancel = io_file_cancel_req,
    .close = io_file_close_file,
    .wait = io_file_wait,
};

/* ---- Open ---- */

/** A line from /sys about the block device, "" when there is none. */
static void io_file_queue_text(dev_t dev, const char *name, char *text, size_t size)
{
    static const char *const forms[] = {"/sys/dev/block/%u:%u/queue/%s",
                                        "/sys/dev/block/%u:%u/../queue/%s"};
    text[0] = 0;
    for (size_t i = 0; i < SNIC_COUNTOF(forms); i++) {
        char path[128];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(path, sizeof(path), forms[i], major(dev), minor(dev), name);
#pragma GCC diagnostic pop
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        ssize_t got = read(fd, text, size - 1);
        (void)close(fd);
        text[got > 0 ? got : 0] = 0;
        if (got > 0)
            return;
    }
}

/** The same as a number, 0 when there is none. */
static uint64_t io_file_queue_limit(dev_t dev, const char *name)
{
    char text[32];
    io_file_queue_text(dev, name, text, sizeof(text));
    return strtoull(text, NULL, 10);
}

/** F6: 1 if a direct write has to be followed by a flush; also where this is unknown. */
static int io_file_needs_flush(dev_t dev)
{
    char text[32];
    io_file_queue_text(dev, "write_cache", text, sizeof(text));
    return io_file_queue_limit(dev, "fua") == 0 && strncmp(text, "write through", 13) != 0;
}

static int io_file_geometry_blockdev(struct io_file *f, const struct stat *st)
{
    uint64_t size = 0;
    int sector = 0;
    if (ioctl(f->fd, BLKGETSIZE64, &size) != 0 || ioctl(f->fd, BLKSSZGET, &sector) != 0)
        return -errno;
    f->io.geometry.size = size;
    f->io.geometry.block = (uint32_t)sector;
    f->io.geometry.atomic_write = (uint32_t)sector;
    f->io.caps |= SNIC_IO_CAP_BLOCKDEV;
    f->io.caps |= SNIC_IO_CAP_ZERO; /* the kernel writes zeros where the device cannot */
    if (io_file_queue_limit(st->st_rdev, "write_zeroes_max_bytes") != 0)
        f->io.caps |= SNIC_IO_CAP_DISCARD;
    return 0;
}

/** Regular file: try the two fallocate modes beyond its end, where nothing can be harmed. */
static void io_file_probe_fallocate(struct io_file *f, const struct stat *st)
{
    off_t beyond = (off_t)snic_align_up((uint64_t)st->st_size, 65536);
    const off_t length = 4096;
    if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, beyond, length) == 0)
        f->io.caps |= SNIC_IO_CAP_DISCARD;
    if (fallocate(f->fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, beyond, length) == 0 ||
        errno == ENOSPC)
        f->io.caps |= SNIC_IO_CAP_ZERO;
    if ((f->io.caps & SNIC_IO_CAP_DISCARD) != 0) /* give the probe's blocks back */
        (void)fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, beyond, length);
}

/** Alignments of O_DIRECT; 0, or a negative errno when the file cannot do it. */
static int io_file_geometry_direct(struct io_file *f)
{
    struct snic_io_geometry *g = &f->io.geometry;
    uint32_t memory = 0;
    uint32_t offset = 0;
    if ((f->io.caps & SNIC_IO_CAP_BLOCKDEV) != 0) {
        memory = offset = g->block;
    } else {
        memory = offset = 4096; /* safe where the kernel does not report alignments */
#ifdef STATX_DIOALIGN
        struct statx sx;
        memset(&sx, 0, sizeof(sx));
        if (statx(f->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 &&
            (sx.stx_mask & STATX_DIOALIGN) != 0) {
            memory = sx.stx_dio_mem_align;
            offset = sx.stx_dio_offset_align;
        }
#endif
    }
    if (!snic_is_pow2(memory) || !snic_is_pow2(offset))
        return -EOPNOTSUPP;
    g->memory_align = memory;
    g->offset_align = offset;
    g->length_align = offset;
    g->block = (uint32_t)snic_max_u64(g->block, offset);
    g->size = snic_align_down(g->size, offset);
    f->io.caps |= SNIC_IO_CAP_DIRECT;
    return 0;
}

static int io_file_geometry(struct io_file *f, const struct stat *st, uint32_t flags, int direct)
{
    struct snic_io_geometry *g = &f->io.geometry;
    *g = (struct snic_io_geometry){.size = (uint64_t)st->st_size,
                                   .block = 1,
                                   .memory_align = 1,
                                   .offset_align = 1,
                                   .length_align = 1,
                                   .transfer_max = SNIC_IO_FILE__TRANSFER_MAX,
                                   .atomic_write = 512};
    f->io.caps = SNIC_IO_CAP_FUA;
    int r = 0;
    if (S_ISBLK(st->st_mode))
        r = io_file_geometry_blockdev(f, st);
    else if ((flags & SNIC_IO_OPEN_READONLY) == 0)
        io_file_probe_fallocate(f, st);
    if (r == 0 && direct)
        r = io_file_geometry_direct(f);
    if ((flags & SNIC_IO_OPEN_READONLY) != 0) {
        f->io.caps &= ~(SNIC_IO_CAP_FUA | SNIC_IO_CAP_ZERO | SNIC_IO_CAP_DISCARD);
        f->io.caps |= SNIC_IO_CAP_READONLY;
    }
    if ((loop_uring_features(f->io.loop) & SNIC_LOOP_HAVE_FIXED_BUFFERS) != 0)
        f->io.caps |= SNIC_IO_CAP_REGISTERED;
    return r;
}

/** Make a file that was just created or grown survive power loss, its name included. */
static int io_file_sync_new(int fd, const char *path)
{
    char dir[PATH_MAX];
    size_t size = strlen(path) + 1;
    if (fsync(fd) != 0)
        return -errno;
    if (size > sizeof(dir))
        return -ENAMETOOLONG;
    memcpy(dir, path, size);
    char *above = dirname(dir); /* NOLINT(concurrency-mt-unsafe): Linux's keeps nothing */
    int dir_fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return 0; /* may be closed to us; the file itself is safe */
    int r = fsync(dir_fd) != 0 && errno != EINVAL ? -errno : 0;
    (void)close(dir_fd);
    return r;
}

/** CREATE: bring the file to its size. The lock is held already if one was asked for. Room first
 * and the size at the end: who is killed between leaves a file that is seen not to be whole. */
static int io_file_size(int fd, const struct snic_io_uring_opts *o, struct stat *st)
{
    if (S_ISBLK(st->st_mode)) {
        uint64_t size = 0;
        if (ioctl(fd, BLKGETSIZE64, &size) != 0)
            return -errno;
        return o->size > size ? -ENOSPC : 0;
    }
    if ((uint64_t)st->st_size >= o->size)
        return 0;
    int r = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)o->size) == 0 ? 0 : -errno;
    if (r == 0 || r == -EOPNOTSUPP)
        r = ftruncate(fd, (off_t)o->size) == 0 ? 0 : -errno;
    if (r == 0)
        r = io_file_sync_new(fd, o->path);
    if (r == 0 && fstat(fd, st) != 0)
        r = -errno;
    return r;
}

/** Open, with O_DIRECT if asked for and possible (*direct). The fd or a negative errno. */
static int io_file_open_fd(const struct snic_io_uring_opts *o, int *direct, int *created)
{
    int mode = ((o->flags & SNIC_IO_OPEN_READONLY) != 0 ? O_RDONLY : O_RDWR) | O_CLOEXEC;
    *created = 0;
    *direct = (o->flags & (SNIC_IO_OPEN_DIRECT | SNIC_IO_OPEN_TRY_DIRECT)) != 0;
    if ((o->flags & SNIC_IO_OPEN_CREATE) != 0 && o->size > 0) {
        int fd = open(o->path, mode | O_CREAT | O_EXCL, 0600);
        *created = fd >= 0;
        if (fd < 0 && errno != EEXIST)
            return -errno;
        if (fd >= 0)
            (void)close(fd);
    }
    int fd = open(o->path, mode | (*direct ? O_DIRECT : 0));
    if (fd < 0 && *direct && errno == EINVAL) {
        if ((o->flags & SNIC_IO_OPEN_DIRECT) != 0)
            return -EOPNOTSUPP;
        *direct = 0;
        fd = open(o->path, mode);
    }
    return fd < 0 ? -errno : fd;
}

static int io_file_opts_check(const struct snic_io_uring_opts *o)
{
    const uint32_t known = SNIC_IO_OPEN_CREATE | SNIC_IO_OPEN_DIRECT | SNIC_IO_OPEN_TRY_DIRECT |
                           SNIC_IO_OPEN_READONLY | SNIC_IO_OPEN_LOCK;
    if (o->path == NULL || o->path[0] == '\0' || (o->flags & ~known) != 0 || o->depth == 0 ||
        o->depth > 32768 || o->reserved != 0 || o->size > INT64_MAX)
        return SNIC_EINVAL;
    if ((o->flags & SNIC_IO_OPEN_CREATE) != 0 && (o->flags & SNIC_IO_OPEN_READONLY) != 0)
        return SNIC_EINVAL;
    if ((o->flags & SNIC_IO_OPEN_CREATE) == 0 && o->size != 0)
        return SNIC_EINVAL;
    return 0;
}

/** Everything that can fail once the descriptor is there; a negative errno on failure. */
static int io_file_attach(struct io_file *f, const struct snic_io_uring_opts *o, int direct)
{
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
        return -EOPNOTSUPP;
    if ((o->flags & SNIC_IO_OPEN_LOCK) != 0) {
        if (flock(f->fd, LOCK_EX | LOCK_NB) != 0)
            return errno == EWOULDBLOCK ? -EBUSY : -errno;
        f->locked = 1;
    }
    if ((o->flags & SNIC_IO_OPEN_CREATE) != 0) {
        int r = io_file_size(f->fd, o, &st);
        if (r != 0)
            return r;
    }
    struct statfs fs;
    f->memory = S_ISREG(st.st_mode) && fstatfs(f->fd, &fs) == 0 &&
                (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
    f->chooses =
        direct && !f->memory && io_file_needs_flush(S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev);
    f->try_gap = SNIC_IO_FILE__TRY;
    f->try_in = SNIC_IO_FILE__TRY;
    int r = io_file_geometry(f, &st, o->flags, direct);
    if (r != 0 && direct && (o->flags & SNIC_IO_OPEN_DIRECT) == 0) {
        int mode = fcntl(f->fd, F_GETFL);
        if (mode < 0 || fcntl(f->fd, F_SETFL, mode & ~O_DIRECT) != 0)
            return -errno;
        f->chooses = 0;
        r = io_file_geometry(f, &st, o->flags, 0);
    }
    return r;
}

static int io_file_error(int os, int *os_error)
{
    if (os_error != NULL)
        *os_error = -os;
    switch (-os) {
    case EPERM:
    case EROFS:
        return SNIC_EACCES;
    case EBUSY:
    case ETXTBSY:
        return SNIC_EBUSY;
    case EOPNOTSUPP:
    case EISDIR:
    case ENXIO:
        return SNIC_ENOTSUP;
    case EDQUOT:
    case EFBIG:
        return SNIC_ENOSPC;
    case ENOTDIR:
        return SNIC_ENOENT;
    case ENAMETOOLONG:
    case ELOOP:
        return SNIC_EINVAL;
    case EMFILE:
    case ENFILE:
        return SNIC_ENOMEM;
    default:
        return snic_error_from_os(os);
    }
}

int snic_io_uring_open(struct snic_io **out, struct snic_loop *l,
                       const struct snic_io_uring_opts *opts, int *os_error)
{
    struct snic_io_uring_opts o = {.opts_size = sizeof(o)};
    if (os_error != NULL)
        *os_error = 0;
    int r = snic_opts_copy(&o, sizeof(o), opts);
    o.depth = o.depth == 0 ? 1024 : o.depth;
    if (r == 0)
        r = io_file_opts_check(&o);
    if (r != 0)
        return r;
    if (!loop_uring_is(l))
        return SNIC_ENOTSUP;
    struct io_file *f = calloc(1, sizeof(*f) + o.depth * sizeof(f->slots[0]));
    if (f == NULL)
        return SNIC_ENOMEM;
    int direct = 0;
    int created = 0;
    f->io.loop = l;
    f->fd = io_file_open_fd(&o, &direct, &created);
    r = f->fd < 0 ? f->fd : io_file_attach(f, &o, direct);
    if (r != 0) {
        if (f->fd >= 0)
            (void)close(f->fd);
        if (created)
            (void)unlink(o.path);
        free(f);
        return io_file_error(r, os_error);
    }
    f->io.ops = &io_file_ops;
    f->io.depth_max = o.depth;
    snic_io_room_init(&f->room, &f->io, io_file_ready);
    f->file_slot = loop_uring_file_add(l, f->fd);
    for (uint32_t i = o.depth; i-- > 0;) {
        f->slots[i].op.complete = io_file_complete;
        f->slots[i].msg.fn = io_file_message;
        f->slots[i].file = f;
        f->slots[i].next_free = f->free;
        f->free = &f->slots[i];
    }
    *out = &f->io;
    return 0;
}
