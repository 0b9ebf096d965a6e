/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests cut into device transfers. A piece lies in one segment. Where device and memory
 * alignment allow, it moves the caller's memory directly; else whole blocks go through a
 * bounce buffer, and a write that covers only a part of a block reads it first.
 *
 * P1  Everything a piece needs (piece, bounce buffer, no conflict) is checked before anything
 *     is claimed, so that a stalled request holds nothing.
 * P2  A piece that extends the init mark covers everything from the mark on: gaps are filled
 *     with zeros by pieces of their own, or, within the first block, by the data's piece.
 */
#include "files/files_priv.h"

#define SNIC_FILES__FUA_MAX (1u << 20)

/* ---- The caller's memory ---- */

/* Copy between the request's pieces at `pos` and `buf`; with `in` into the pieces. buf NULL: zeros.
 */
static void piece_copy(const struct snic_files_req *r, uint64_t pos, unsigned char *buf, size_t n,
                       int in)
{
    const struct snic_iov *v = r->iov != NULL ? r->iov : &r->buf;
    SNIC_ASSERT(pos <= r->length && n <= r->length - pos); /* data_iov_check() */
    while (n > 0) {
        size_t k;
        unsigned char *p;
        if (pos >= v->size) {
            pos -= v->size;
            v++;
            continue;
        }
        k = v->size - (size_t)pos < n ? v->size - (size_t)pos : n;
        p = (unsigned char *)v->base + pos;
        if (buf == NULL)
            memset(p, 0, k);
        else if (in)
            memcpy(p, buf, k);
        else
            memcpy(buf, p, k);
        if (buf != NULL)
            buf += k;
        pos += k;
        n -= k;
    }
}

static void piece_advance(struct snic_files_req *r, uint64_t n)
{
    struct snic_files_private *p = &r->private_;
    const struct snic_iov *v = r->iov != NULL ? r->iov : &r->buf;
    p->pos += n;
    p->piece_offset += n;
    while (r->iov != NULL && p->piece < r->iov_count && p->piece_offset >= v[p->piece].size) {
        p->piece_offset -= v[p->piece].size;
        p->piece++;
    }
}

/*
 * Collect up to `want` bytes (a multiple of the alignment) of the caller's memory, `skip`
 * bytes after the present position, that the device can take directly.
 */
static uint64_t piece_direct(const struct snic_files *f, const struct snic_files_req *r,
                             uint64_t skip, uint64_t want, struct snic_iov *out, uint32_t *count)
{
    const struct snic_iov *v = r->iov != NULL ? r->iov : &r->buf;
    uint32_t n = r->iov != NULL ? r->iov_count : 1;
    uint32_t i = r->private_.piece;
    uint64_t at = r->private_.piece_offset + skip;
    uint64_t sum = 0;
    *count = 0;
    for (; i < n && sum < want && *count < SNIC_FILES__PIECE_IOV; i++, at = 0) {
        unsigned char *base;
        uint64_t k;
        if (at >= v[i].size) {
            at -= v[i].size;
            if (at == 0)
                continue;
            return sum; /* a skip across pieces is not worth following */
        }
        base = (unsigned char *)v[i].base + at;
        k = snic_min_u64(v[i].size - at, want - sum);
        if (((uintptr_t)base & (f->mem_align - 1)) != 0)
            break;
        if ((k & (f->align - 1)) != 0) {
            k = snic_align_down(k, f->align);
            want = sum + k;
        }
        if (k == 0)
            break;
        out[*count].base = base;
        out[*count].size = (size_t)k;
        (*count)++;
        sum += k;
    }
    return sum;
}

/* ---- Pieces ---- */

static struct files_piece *piece_new(struct snic_files *f, struct snic_files_req *r, uint8_t kind,
                                     uint32_t seg)
{
    struct files_piece *p = SNIC_CONTAINER(f->pieces_free.next, struct files_piece, link);
    SNIC_ASSERT(f->pieces_free_count > 0);
    f->pieces_free_count--;
    snic_link_remove(&p->link);
    p->req = r;
    p->kind = kind;
    p->seg = seg;
    p->bounce = NULL;
    p->error = 0;
    p->complete = 0;
    p->extender = FILES_EXTEND_NOT;
    p->exclusive = 0;
    p->step = FILES_STEP_MOVE;
    p->tail_at = SNIC_FILES__NONE;
    p->fua = 0;
    p->io.priority = r->priority;
    p->io.tenant = r->tenant;
    p->io.credit = 0;
    p->io.region = SNIC_NO_REGION;
    p->io.iov = NULL;
    p->io.iov_count = 0;
    r->private_.inflight++;
    r->private_.pieces++;
    return p;
}

static unsigned char *piece_bounce(struct snic_files *f)
{
    SNIC_ASSERT(f->bounce_free_count > 0);
    return f->bounce_free[--f->bounce_free_count];
}

static void piece_send(struct snic_files *f, struct files_piece *p, uint8_t op, uint64_t offset,
                       void *mem, uint64_t size)
{
    SNIC_ASSERT(size > 0);
    p->io.op = op;
    p->io.flags = op == SNIC_IO_WRITE && p->fua ? SNIC_IO_FUA : 0;
    p->io.offset = offset;
    p->io.length = size;
    p->io.buf.base = mem;
    p->io.buf.size = (size_t)size;
    files_io_push(f, &p->io);
}

static void piece_send_direct(struct snic_files *f, struct files_piece *p, uint8_t op,
                              uint64_t offset, uint64_t size, uint32_t count)
{
    /* A registered region is an offer; devices without fixed buffers use the memory as it is. */
    p->io.region = (f->io->caps & SNIC_IO_CAP_REGISTERED) != 0 ? p->req->region : SNIC_NO_REGION;
    if (count == 1) {
        piece_send(f, p, op, offset, p->iov[0].base, size);
        return;
    }
    p->io.iov = p->iov;
    p->io.iov_count = count;
    piece_send(f, p, op, offset, NULL, size);
}

/* A part of a transfer is missing: 1 when the rest was sent, 0 when all is there or lost. */
static int piece_more(struct snic_files *f, struct files_piece *p)
{
    uint64_t done;
    uint32_t i = 0;
    if (p->io.result < 0) {
        p->error = (int32_t)p->io.result;
        return 0;
    }
    done = (uint64_t)p->io.result;
    if (done == p->io.length || (done == 0 && p->io.op == SNIC_IO_ZERO))
        return 0;
    if (done == 0 || done > p->io.length || (done & (f->align - 1)) != 0 ||
        p->kind == FILES_PIECE_ZERO) {
        p->error = SNIC_EIO;
        return 0;
    }
    p->io.offset += done;
    p->io.length -= done;
    if (p->io.iov == NULL) {
        p->io.buf.base = (unsigned char *)p->io.buf.base + done;
        p->io.buf.size -= (size_t)done;
    }
    for (; p->io.iov != NULL && done > 0; i++) {
        size_t k = (size_t)snic_min_u64(done, p->io.iov->size);
        p->io.iov->base = (unsigned char *)p->io.iov->base + k;
        p->io.iov->size -= k;
        done -= k;
        if (p->io.iov->size == 0) {
            p->io.iov++;
            p->io.iov_count--;
        }
    }
    files_io_push(f, &p->io);
    return 1;
}

/* ---- Reading ---- */

static void piece_read_ended(struct snic_files *f, struct files_piece *p)
{
    if (!piece_more(f, p)) {
        if (p->error == 0 && p->kind == FILES_PIECE_READ_BOUNCE)
            piece_copy(p->req, p->user_pos, p->bounce + p->user_at, p->user_bytes, 1);
        files_piece_retire(f, p);
    }
}

/* Bytes of [at, at + n) that one bounce buffer takes, leaving aligned rests to direct pieces. */
static uint64_t piece_bounce_take(const struct snic_files *f, const struct snic_files_req *r,
                                  uint64_t at, uint64_t n)
{
    uint64_t head = at & (f->align - 1);
    uint64_t room = f->bounce_bytes - head;
    struct snic_iov v[SNIC_FILES__PIECE_IOV];
    uint32_t count;
    if (n <= room)
        return n;
    if (head != 0 && piece_direct(f, r, f->align - head, f->align, v, &count) != 0)
        return f->align - head;
    return room;
}

/* The next piece of a READ. */
int files_piece_read(struct snic_files *f, struct snic_files_req *r)
{
    uint64_t at = r->offset + r->private_.pos;
    uint64_t in = at & (f->info.segment_bytes - 1);
    uint64_t n = snic_min_u64(r->private_.end - r->private_.pos, f->info.segment_bytes - in);
    uint32_t seg = files_seg_find(f, r->private_.node, (uint32_t)(at >> f->seg_shift));
    uint64_t place;
    uint64_t direct = 0;
    uint32_t count = 0;
    struct files_piece *p;
    if (seg == SNIC_FILES__NONE || in >= f->segs[seg].init) { /* I3 */
        piece_copy(r, r->private_.pos, NULL, (size_t)n, 1);
        piece_advance(r, n);
        return 0;
    }
    if (f->pieces_free_count == 0)
        return 2;
    n = snic_min_u64(snic_min_u64(n, f->segs[seg].init - in), f->transfer);
    place = files_seg_place(f, seg) + in;
    p = SNIC_CONTAINER(f->pieces_free.next, struct files_piece, link);
    if ((in & (f->align - 1)) == 0)
        direct = piece_direct(f, r, 0, n, p->iov, &count);
    if (direct != 0) {
        p = piece_new(f, r, FILES_PIECE_READ, seg);
        piece_send_direct(f, p, SNIC_IO_READ, place, direct, count);
        f->stats.direct++;
        piece_advance(r, direct);
        return 0;
    }
    if (f->bounce_free_count == 0)
        return 1;
    n = piece_bounce_take(f, r, in, n);
    p = piece_new(f, r, FILES_PIECE_READ_BOUNCE, seg);
    p->bounce = piece_bounce(f);
    p->user_at = (uint32_t)(in & (f->align - 1));
    p->user_bytes = (uint32_t)n;
    p->user_pos = r->private_.pos;
    SNIC_ASSERT(p->user_at + n <= f->bounce_bytes);
    piece_send(f, p, SNIC_IO_READ, place - p->user_at, p->bounce,
               snic_align_up(p->user_at + n, f->align));
    f->stats.bounced++;
    f->stats.bounce_bytes += n;
    piece_advance(r, n);
    return 0;
}

/* ---- Writing ---- */

/* Read what the block at `at` of the bounce buffer holds. */
static void piece_send_block(struct snic_files *f, struct files_piece *p, uint32_t at)
{
    piece_send(f, p, SNIC_IO_READ, p->block_first + at, p->bounce + at, f->align);
}

static void piece_send_bounce(struct snic_files *f, struct files_piece *p)
{
    p->step = FILES_STEP_MOVE;
    SNIC_ASSERT((uint64_t)p->user_at + p->user_bytes <= p->span);
    if (p->user_bytes != 0)
        piece_copy(p->req, p->user_pos, p->bounce + p->user_at, p->user_bytes, 0);
    piece_send(f, p, SNIC_IO_WRITE, p->block_first, p->bounce, p->span);
}

static void piece_write_ended(struct snic_files *f, struct files_piece *p)
{
    int was = p->error != 0;
    if (!was && piece_more(f, p))
        return;
    if (p->error == 0 && p->step == FILES_STEP_HEAD) {
        SNIC_ASSERT(p->keep <= f->align);
        memset(p->bounce + p->keep, 0, f->align - p->keep);
        if (p->tail_at != SNIC_FILES__NONE && p->tail_at != 0) {
            p->step = FILES_STEP_TAIL;
            piece_send_block(f, p, p->tail_at);
        } else {
            piece_send_bounce(f, p);
        }
    } else if (p->error == 0 && p->step == FILES_STEP_TAIL) {
        piece_send_bounce(f, p);
    } else {
        f->poisoned += p->error != 0 && !was && p->extender != FILES_EXTEND_NOT;
        files_extend_settle(f, p);
    }
}

/* The device has ended a transfer of @p. */
void files_piece_ended(struct snic_files *f, struct files_piece *p)
{
    files_io_ended(f);
    if (p->kind >= FILES_PIECE_WRITE)
        piece_write_ended(f, p);
    else
        piece_read_ended(f, p);
}

/* Enter a new write piece among the active ones and let it claim what it extends: E1, P1. */
static void piece_enter(struct snic_files *f, struct files_piece *p, uint64_t in, uint64_t n,
                        uint64_t first, uint64_t end)
{
    p->block_first = first;
    p->block_end = end;
    p->to = (uint32_t)(in + n);
    files_extend_enter(f, p);
    files_busy_add(f, p);
    snic_link_append(&f->writes, &p->link);
    if (p->extender == FILES_EXTEND_NOT && f->fua && p->req->op == SNIC_FILES_WRITE &&
        (p->req->flags & SNIC_FILES_SYNC) != 0 && p->req->length <= SNIC_FILES__FUA_MAX) {
        p->fua = 1;
        f->stats.fua_writes++;
    } else {
        p->req->private_.unflushed = 1;
    }
}

/*
 * A write of [in, in + n) of the segment through a bounce buffer, where [zero, in) before it
 * is a gap in the same block; without user bytes all of it is gap.
 */
static int piece_write_bounce(struct snic_files *f, struct snic_files_req *r, uint32_t seg,
                              uint64_t in, uint64_t n, int user)
{
    uint32_t claimed = f->segs[seg].claimed;
    uint64_t base = files_seg_place(f, seg);
    uint64_t first = snic_align_down(in, f->align);
    uint64_t end = snic_align_up(in + n, f->align);
    int head = first < in && first < claimed;
    int tail = in + n < end && in + n < claimed;
    struct files_piece *p;
    if (f->bounce_free_count == 0 || files_busy_conflict(f, base + first, base + end, 1))
        return 1;
    p = piece_new(f, r, FILES_PIECE_WRITE_BOUNCE, seg);
    p->exclusive = 1;
    p->bounce = piece_bounce(f);
    p->span = (uint32_t)(end - first);
    p->user_at = (uint32_t)(in - first);
    p->user_bytes = user ? (uint32_t)n : 0;
    p->user_pos = r->private_.pos;
    SNIC_ASSERT(p->span <= f->bounce_bytes);
    memset(p->bounce, 0, p->span);
    piece_enter(f, p, in, n, base + first, base + end);
    /* Of the block that is read first, what lies beyond the claim is not data. */
    p->keep = (uint32_t)snic_min_u64(f->align, claimed - snic_min_u64(claimed, first));
    if (tail)
        p->tail_at = (uint32_t)(end - f->align - first);
    if (head || (tail && p->tail_at == 0)) {
        p->step = FILES_STEP_HEAD;
        piece_send_block(f, p, 0);
    } else if (tail) {
        p->step = FILES_STEP_TAIL;
        piece_send_block(f, p, p->tail_at);
    } else {
        piece_send_bounce(f, p);
    }
    f->stats.bounced++;
    f->stats.bounce_bytes += n;
    return 0;
}

/* Zeros over whole blocks [in, in + n). */
static int piece_write_zeros(struct snic_files *f, struct snic_files_req *r, uint32_t seg,
                             uint64_t in, uint64_t n)
{
    uint64_t base = files_seg_place(f, seg);
    struct files_piece *p;
    uint32_t i;
    if (!f->zero)
        n = snic_min_u64(n,
                         snic_min_u64(f->transfer, SNIC_FILES__PIECE_IOV * SNIC_FILES__ZERO_BYTES));
    if (files_busy_conflict(f, base + in, base + in + n, 1))
        return 1;
    p = piece_new(f, r, FILES_PIECE_ZERO, seg);
    p->exclusive = 1;
    piece_enter(f, p, in, n, base + in, base + in + n);
    f->stats.zero_bytes += n;
    if (f->zero) {
        piece_send(f, p, SNIC_IO_ZERO, base + in, NULL, n);
        return 0;
    }
    p->kind = FILES_PIECE_WRITE;
    for (i = 0; (uint64_t)i * SNIC_FILES__ZERO_BYTES < n; i++) {
        p->iov[i].base = f->zeros;
        p->iov[i].size =
            (size_t)snic_min_u64(n - (uint64_t)i * SNIC_FILES__ZERO_BYTES, SNIC_FILES__ZERO_BYTES);
    }
    p->io.iov = p->iov;
    p->io.iov_count = i;
    piece_send(f, p, SNIC_IO_WRITE, base + in, NULL, n);
    return 0;
}

/* Carry the claim of a segment towards `to`, which ends a block or the segment: P2. */
static int piece_gap(struct snic_files *f, struct snic_files_req *r, uint32_t seg, uint64_t to)
{
    uint64_t claimed = f->segs[seg].claimed;
    uint64_t up = snic_align_up(claimed, f->align);
    if (up != claimed)
        return piece_write_bounce(f, r, seg, claimed, snic_min_u64(up, to) - claimed, 0);
    return piece_write_zeros(f, r, seg, claimed, to - claimed);
}

/* The next piece of a WRITE; its segments are there. */
int files_piece_write(struct snic_files *f, struct snic_files_req *r)
{
    uint64_t at = r->offset + r->private_.pos;
    uint64_t in = at & (f->info.segment_bytes - 1);
    uint64_t n = snic_min_u64(r->private_.end - r->private_.pos, f->info.segment_bytes - in);
    uint32_t seg = files_seg_find(f, r->private_.node, (uint32_t)(at >> f->seg_shift));
    uint64_t base;
    uint64_t direct = 0;
    uint32_t count = 0;
    struct files_piece *p;
    int rc;
    SNIC_ASSERT(seg != SNIC_FILES__NONE);
    if (f->pieces_free_count == 0)
        return 2;
    if (files_extend_poisoned(f, seg))
        return 1;
    if (snic_align_down(in, f->align) > f->segs[seg].claimed)
        return piece_gap(f, r, seg, snic_align_down(in, f->align));
    n = snic_min_u64(n, f->transfer);
    p = SNIC_CONTAINER(f->pieces_free.next, struct files_piece, link);
    if ((in & (f->align - 1)) == 0)
        direct = piece_direct(f, r, 0, n, p->iov, &count);
    base = files_seg_place(f, seg);
    if (direct == 0) {
        n = piece_bounce_take(f, r, in, n);
        rc = piece_write_bounce(f, r, seg, in, n, 1);
        if (rc == 0)
            piece_advance(r, n);
        return rc;
    }
    if (files_busy_conflict(f, base + in, base + in + direct, 0))
        return 1;
    p = piece_new(f, r, FILES_PIECE_WRITE, seg);
    piece_enter(f, p, in, direct, base + in, base + in + direct);
    piece_send_direct(f, p, SNIC_IO_WRITE, base + in, direct, count);
    f->stats.direct++;
    piece_advance(r, direct);
    return 0;
}

/* The next piece of a PREALLOC: zeros up to the end of each segment. pos counts segments' bytes. */
int files_piece_fill(struct snic_files *f, struct snic_files_req *r)
{
    uint64_t at = snic_align_down(r->offset, f->info.segment_bytes) + r->private_.pos;
    uint32_t seg = files_seg_find(f, r->private_.node, (uint32_t)(at >> f->seg_shift));
    SNIC_ASSERT(seg != SNIC_FILES__NONE);
    if (f->segs[seg].claimed == f->info.segment_bytes) {
        r->private_.pos += f->info.segment_bytes;
        return 0;
    }
    if (f->pieces_free_count == 0)
        return 2;
    if (files_extend_poisoned(f, seg))
        return 1;
    return piece_gap(f, r, seg, f->info.segment_bytes);
}
