/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Transfers between a job's memory and the object file.
 *
 * Blocks that follow each other are one request, unless memory is in more than 64 pieces or a
 * granule ends. DIRECT goes to the O_DIRECT handle; memory that is not aligned for it is copied.
 *
 * With large folios in the page cache unrelated blocks share a folio: a folio that is dirtied while
 * a direct write to another part of it is in flight cannot be dropped afterwards; the kernel then
 * keeps the old bytes of the part written directly, and the next fdatasync fails with EIO. So all
 * writes in flight in a granule, which no folio crosses, use the handle (buffered or direct) of the
 * first of them. While other processes write, too, all use the buffered one.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <stdlib.h>

/* ---- Memory ---- */

/** Unused memory, kept for the next use. */
struct lmdb_spare {
    struct lmdb_spare *next;
};

static unsigned char *lmdb_spare_take(struct lmdb_spare **list, size_t size)
{
    struct lmdb_spare *p = *list;
    if (p == NULL)
        return aligned_alloc(4096, size);
    *list = p->next;
    return (unsigned char *)p;
}

static void lmdb_spare_give(struct lmdb_spare **list, unsigned char *buffer)
{
    struct lmdb_spare *p = (struct lmdb_spare *)(void *)buffer;
    p->next = *list;
    *list = p;
}

unsigned char *lmdb_edge_new(struct lmdb_kv *s)
{
    return lmdb_spare_take(&s->edge_spare, LMDB_BLOCK);
}

void lmdb_edge_free(struct lmdb_kv *s, unsigned char *buffer)
{
    lmdb_spare_give(&s->edge_spare, buffer);
}

static struct lmdb_io *lmdb_io_new(struct lmdb_kv *s)
{
    struct lmdb_io *io = s->io_spare;
    if (io != NULL)
        s->io_spare = io->next;
    else
        io = malloc(sizeof(*io));
    return io;
}

static void lmdb_io_free(struct lmdb_kv *s, struct lmdb_io *io)
{
    if (io->writing != NULL)
        *io->writing -= io->to == s->direct ? -1 : 1;
    s->large_bytes -= io->counted;
    if (io->bounce != NULL)
        lmdb_spare_give(&s->bounce_spare, io->bounce);
    io->next = s->io_spare;
    s->io_spare = io;
}

void lmdb_io_close(struct lmdb_kv *s)
{
    while (s->edge_spare != NULL)
        free(lmdb_edge_new(s));
    while (s->bounce_spare != NULL)
        free(lmdb_spare_take(&s->bounce_spare, LMDB_BOUNCE));
    while (s->io_spare != NULL)
        free(lmdb_io_new(s));
}

/* ---- The caller's pieces ---- */

enum lmdb_pieces { LMDB_PIECES_SET, LMDB_PIECES_GET, LMDB_PIECES_CRC };

/** The piece that holds byte *at of the whole; *at becomes the byte in it. */
static uint32_t lmdb_pieces_seek(struct lmdb_job *j, uint64_t *at)
{
    if (*at < j->iov_start) {
        j->iov_start = 0;
        j->iov_seen = 0;
    }
    while (j->iov_seen < j->iov_count && *at - j->iov_start >= j->iov[j->iov_seen].size)
        j->iov_start += j->iov[j->iov_seen++].size;
    *at -= j->iov_start;
    return j->iov_seen;
}

static uint32_t lmdb_pieces_each(struct lmdb_job *j, uint64_t at, unsigned char *other,
                                 uint64_t size, enum lmdb_pieces what)
{
    uint32_t crc = 0;
    uint32_t i = lmdb_pieces_seek(j, &at);
    for (; i < j->iov_count && size > 0; i++) {
        const struct snic_iov *v = &j->iov[i];
        uint64_t n = snic_min_u64(v->size - at, size);
        unsigned char *mine = (unsigned char *)v->base + at;
        if (what == LMDB_PIECES_CRC)
            crc = snic_crc32c(crc, mine, n);
        else if (what == LMDB_PIECES_GET)
            memcpy(other, mine, n);
        else if (other != NULL)
            memcpy(mine, other, n);
        else
            memset(mine, 0, n);
        other = other == NULL ? NULL : other + n;
        size -= n;
        at = 0;
    }
    SNIC_ASSERT(size == 0);
    return crc;
}

void lmdb_pieces_set(struct lmdb_job *j, uint64_t at, const unsigned char *from, uint64_t size)
{
    union {
        const unsigned char *from;
        unsigned char *to;
    } bytes = {.from = from}; /* only read */
    (void)lmdb_pieces_each(j, at, bytes.to, size, LMDB_PIECES_SET);
}

void lmdb_pieces_get(struct lmdb_job *j, uint64_t at, unsigned char *to, uint64_t size)
{
    (void)lmdb_pieces_each(j, at, to, size, LMDB_PIECES_GET);
}

uint32_t lmdb_pieces_crc(struct lmdb_job *j, uint64_t at, uint64_t size)
{
    return lmdb_pieces_each(j, at, NULL, size, LMDB_PIECES_CRC);
}

/* ---- Requests ---- */

/** The lane that may send next; NULL: none. */
static struct lmdb_lane *lmdb_io_turn(const struct lmdb_kv *s)
{
    for (int large = 1; large >= 0; large--) {
        struct snic_node *n = s->lanes[large].first;
        struct lmdb_lane *l = n == NULL ? NULL : SNIC_CONTAINER(n, struct lmdb_lane, node);
        if (l != NULL && (!large || s->large_bytes == 0 ||
                          s->large_bytes + l->first->req.length <= LMDB_LARGE_BYTES))
            return l;
    }
    return NULL;
}

/** Remove the lane's first request, and move the lane, the handle's first, to the end. */
static void lmdb_io_leave(struct lmdb_kv *s, struct lmdb_lane *l)
{
    struct snic_queue *lanes = &s->lanes[l->first->req.length > LMDB_LARGE];
    l->first = l->first->next;
    (void)snic_queue_pop(lanes);
    if (l->first != NULL)
        snic_queue_push(lanes, &l->node);
}

/** Send the requests that may be sent; a failed one may end its job, which may send, too. */
static void lmdb_io_pump(struct lmdb_kv *s)
{
    struct lmdb_lane *l;
    if (s->pumping)
        return;
    s->pumping = 1;
    while ((l = lmdb_io_turn(s)) != NULL) {
        if (snic_io_waits(&s->flush_room)) {
            /* It goes first: its batch holds up the others. Behind it the handle's queue brings us
               back here; nothing else does, when no transfer is in flight. */
            snic_io_wait(s->buffered, &s->io_room);
            break;
        }
        struct lmdb_io *io = l->first;
        struct snic_io_req *req = &io->req;
        uint32_t counted = req->length > LMDB_LARGE ? (uint32_t)req->length : 0;
        int n = snic_io_submit(io->to, &req, 1);
        if (n == 0) {
            snic_io_wait(io->to, &s->io_room);
            break;
        }
        lmdb_io_leave(s, l);
        if (n > 0) {
            io->counted = counted;
            s->large_bytes += counted;
            continue;
        }
        struct lmdb_job *j = io->job;
        lmdb_job_fail(j, SNIC_EIO, 0);
        lmdb_io_free(s, io);
        lmdb_job_step(j);
    }
    s->pumping = 0;
}

void lmdb_io_writable(struct snic_io_waiter *w)
{
    lmdb_io_pump(SNIC_CONTAINER(w, struct lmdb_kv, io_room));
}

static void lmdb_io_done(struct snic_io_req *req)
{
    struct lmdb_io *io = SNIC_CONTAINER(req, struct lmdb_io, req);
    struct lmdb_job *j = io->job;
    struct lmdb_kv *s = j->s;
    if (req->op == SNIC_IO_WRITE)
        s->object_writes++;
    if (req->result < 0)
        lmdb_job_fail(j, req->result == SNIC_ENOSPC ? SNIC_ENOSPC : SNIC_EIO, req->os_error);
    else if ((uint64_t)req->result != req->length)
        lmdb_job_fail(j, SNIC_EIO, 0);
    else if (io->bounce != NULL && req->op == SNIC_IO_READ)
        lmdb_pieces_set(j, io->at, io->bounce, req->length);
    lmdb_io_free(s, io);
    lmdb_io_pump(s);
    lmdb_job_step(j);
}

/** The caller holds one pending of the job. */
static void lmdb_io_send(struct lmdb_io *io)
{
    struct lmdb_kv *s = io->job->s;
    int large = io->req.length > LMDB_LARGE;
    struct lmdb_lane *l = &io->job->o->lane[large];
    io->next = NULL;
    if (l->first != NULL)
        l->last->next = io;
    else
        l->first = io;
    if (l->first == io)
        snic_queue_push(&s->lanes[large], &l->node);
    l->last = io;
    lmdb_io_pump(s);
}

/** Bytes of the object file that no folio crosses: the largest that ext4 makes. */
#define SNIC_LMDB__GRANULE (8U << 20)

/** Where a request at @p offset goes; a write is counted until lmdb_io_free(). */
static void lmdb_io_direct_or_not(struct lmdb_io *io, int write, uint64_t offset)
{
    struct lmdb_kv *s = io->job->s;
    int direct = (io->job->flags & SNIC_KVOP_DIRECT) != 0 && s->direct != NULL;
    io->writing = NULL;
    if (write) {
        io->writing = &s->writing[offset / SNIC_LMDB__GRANULE % LMDB_GRANULES];
        SNIC_ASSERT(s->mode == LMDB_SOLE || *io->writing >= 0);
        direct = s->mode == LMDB_SOLE && (*io->writing == 0 ? direct : *io->writing < 0);
        *io->writing += direct ? -1 : 1;
    }
    io->to = direct ? s->direct : s->buffered;
}

static struct lmdb_io *lmdb_io_begin(struct lmdb_job *j, int write, uint64_t offset)
{
    struct lmdb_io *io = lmdb_io_new(j->s);
    if (io == NULL) {
        lmdb_job_fail(j, SNIC_ENOMEM, 0);
        return NULL;
    }
    snic_io_req_init(&io->req);
    io->req.done = lmdb_io_done;
    io->req.op = write ? SNIC_IO_WRITE : SNIC_IO_READ;
    io->req.offset = offset;
    io->job = j;
    lmdb_io_direct_or_not(io, write, offset);
    io->bounce = NULL;
    io->counted = 0;
    io->iov_count = 0;
    j->pending++;
    return io;
}

void lmdb_io_block(struct lmdb_job *j, int write, uint32_t block, unsigned char *buffer)
{
    struct lmdb_io *io = lmdb_io_begin(j, write, (uint64_t)block * LMDB_BLOCK);
    if (io == NULL)
        return;
    io->req.length = LMDB_BLOCK;
    io->req.buf = (struct snic_iov){.base = buffer, .size = LMDB_BLOCK};
    lmdb_io_send(io);
}

/** Pieces for up to @p size bytes from @p at on; the bytes they hold. */
static uint64_t lmdb_io_gather(struct lmdb_io *io, uint64_t at, uint64_t size)
{
    struct lmdb_job *j = io->job;
    uint64_t got = 0;
    uint32_t i = lmdb_pieces_seek(j, &at);
    for (; i < j->iov_count && got < size && io->iov_count < SNIC_IO_IOV_MAX; i++) {
        const struct snic_iov *v = &j->iov[i];
        uint64_t n = snic_min_u64(v->size - at, size - got);
        io->iov[io->iov_count].base = (unsigned char *)v->base + at;
        io->iov[io->iov_count++].size = n;
        got += n;
        at = 0;
    }
    return got;
}

/** 1: the handle accepts these pieces without a copy. */
static int lmdb_io_aligned(const struct lmdb_io *io)
{
    const struct snic_io_geometry *g = &io->to->geometry;
    for (uint32_t i = 0; i < io->iov_count; i++) {
        if (((uintptr_t)io->iov[i].base & (g->memory_align - 1)) != 0 ||
            (io->iov[i].size & (g->length_align - 1)) != 0)
            return 0;
    }
    return 1;
}

void lmdb_io_run(struct lmdb_job *j, int write, uint32_t block, uint32_t count, uint64_t at)
{
    uint64_t offset = (uint64_t)block * LMDB_BLOCK;
    uint64_t left = (uint64_t)count * LMDB_BLOCK;
    while (left > 0) {
        struct lmdb_io *io = lmdb_io_begin(j, write, offset);
        if (io == NULL)
            return;
        io->at = at;
        uint64_t most = snic_min_u64(left, SNIC_LMDB__GRANULE - offset % SNIC_LMDB__GRANULE);
        most = snic_min_u64(most, LMDB_PIECE);
        uint64_t n = snic_align_down(lmdb_io_gather(io, at, most), LMDB_BLOCK);
        /* Pieces so small that 64 of them hold no block, or badly aligned ones: a copy. */
        if (n == 0 || (n < most && io->iov_count < SNIC_IO_IOV_MAX) || !lmdb_io_aligned(io)) {
            n = snic_min_u64(most, LMDB_BOUNCE);
            io->bounce = lmdb_spare_take(&j->s->bounce_spare, LMDB_BOUNCE);
            if (io->bounce == NULL) {
                lmdb_job_fail(j, SNIC_ENOMEM, 0);
                lmdb_io_free(j->s, io);
                j->pending--;
                return;
            }
            if (write)
                lmdb_pieces_get(j, at, io->bounce, n);
            io->iov[0] = (struct snic_iov){.base = io->bounce, .size = n};
            io->iov_count = 1;
        }
        uint64_t sum = 0;
        for (uint32_t i = 0; i < io->iov_count; i++) { /* only whole blocks */
            io->iov[i].size = snic_min_u64(io->iov[i].size, n - sum);
            sum += io->iov[i].size;
            if (sum == n)
                io->iov_count = i + 1;
        }
        io->req.length = n;
        io->req.buf = io->iov[0];
        if (io->iov_count > 1) {
            io->req.iov = io->iov;
            io->req.iov_count = io->iov_count;
        }
        lmdb_io_send(io);
        offset += n;
        at += n;
        left -= n;
    }
}

#endif /* SNIC_WITH_LMDB */
