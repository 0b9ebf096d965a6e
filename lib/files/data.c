/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * READ, WRITE, PREALLOC, FSYNC and TRUNCATE from submit to the end.
 *
 *     check - (wait for the file's truncation) - (wait for segments) - turns of the pump -
 *     all pieces ended - size - (wait for durability) - finish
 *
 * A1  All segments that a WRITE needs are taken before its first piece: it fails for want of
 *     space without having changed anything. Freed segments in limbo are waited for.
 * A2  A request is counted in an epoch from its first look at segments to the end of its last
 *     piece (I5).
 * A3  TRUNCATE and later WRITEs of a file form a queue: TRUNCATE starts when no WRITE is in
 *     progress, and WRITEs behind it when it is durable.
 */
#include "files/files_priv.h"

static int data_is_write(const struct snic_files_req *r)
{
    return r->op == SNIC_FILES_WRITE || r->op == SNIC_FILES_PREALLOC;
}

static int data_deleted(const struct snic_files *f, const struct snic_files_req *r)
{
    return f->nodes[r->private_.node].id != r->file;
}

/* ---- The pump ---- */

static void data_ready(struct snic_files *f, struct snic_files_req *r)
{
    r->private_.parity = f->epoch;
    f->epoch_active[f->epoch]++;
    r->private_.state = FILES_RQ_ISSUING;
    f->ready_writes += (uint32_t)data_is_write(r);
    snic_queue_push(&f->ready, &r->node);
}

/* Issue pieces until all are on the device (0) or something is missing (1, 2). */
static int data_issue(struct snic_files *f, struct snic_files_req *r)
{
    struct snic_files_private *p = &r->private_;
    uint32_t cap = f->pieces_count / 4;
    int rc = 0;
    while (rc == 0 && p->error == 0 && p->pos < p->end) {
        if (data_deleted(f, r)) {
            p->error = SNIC_ENOENT;
            break;
        }
        if (p->inflight >= cap)
            return 1;
        if (r->op == SNIC_FILES_READ)
            rc = files_piece_read(f, r);
        else if (r->op == SNIC_FILES_WRITE)
            rc = files_piece_write(f, r);
        else
            rc = files_piece_fill(f, r);
    }
    if (rc != 0 && p->error == 0)
        return rc;
    p->state = FILES_RQ_ISSUED;
    if (p->inflight == 0)
        files_data_moved(f, r);
    return 0;
}

/*
 * Serve each ready request once, oldest first. A WRITE does not overtake a stalled one of
 * the same file, so that a conflict cannot starve it. Requests that lack pieces or bounce
 * buffers are not looked at: a run of the pump costs what it issues.
 */
void files_pump(struct snic_files *f)
{
    struct snic_queue kept;
    struct snic_node *node;
    uint32_t writes = 0; /* kept */
    int empty = 0;       /* no piece is left             */
    int dry = 0;         /* no bounce buffer is left: READs wait, WRITEs may do without */
    if (f->pumping || snic_queue_empty(&f->ready))
        return;
    f->pumping = 1;
    f->pump_round++;
    memset(&kept, 0, sizeof(kept));
    while (!empty && !(dry && f->ready_writes == writes) &&
           (node = snic_queue_pop(&f->ready)) != NULL) {
        struct snic_files_req *r = SNIC_CONTAINER(node, struct snic_files_req, node);
        struct files_node *n = &f->nodes[r->private_.node];
        int write = data_is_write(r);
        int rc = (write ? n->stalled == f->pump_round : dry) ? 1 : data_issue(f, r);
        if (rc == 0) {
            f->ready_writes -= (uint32_t)write;
            continue;
        }
        if (write) {
            n->stalled = f->pump_round;
            writes++;
        }
        empty = rc == 2;
        dry |= !write && f->bounce_free_count == 0;
        snic_queue_push(&kept, node);
    }
    if (!snic_queue_empty(&f->ready)) { /* these wait for what there is none of */
        if (snic_queue_empty(&kept))
            kept = f->ready;
        else
            kept.last->next = f->ready.first;
        kept.last = f->ready.last;
    }
    f->ready = kept;
    f->pumping = 0;
}

/* ---- Segments for a write: A1 ---- */

static int data_missing(const struct snic_files *f, const struct snic_files_req *r, uint64_t *out)
{
    uint64_t first = r->offset >> f->seg_shift;
    uint64_t last = (r->offset + r->length - 1) >> f->seg_shift;
    uint64_t i;
    *out = 0;
    if (last - first >= f->segs_count)
        return SNIC_ENOSPC;
    for (i = first; i <= last; i++)
        *out += files_seg_find(f, r->private_.node, (uint32_t)i) == SNIC_FILES__NONE;
    return 0;
}

static void data_take(struct snic_files *f, const struct snic_files_req *r)
{
    uint64_t i = r->offset >> f->seg_shift;
    uint64_t last = (r->offset + r->length - 1) >> f->seg_shift;
    uint32_t hint = f->hint;
    if (i > 0) {
        uint32_t before = files_seg_find(f, r->private_.node, (uint32_t)i - 1);
        if (before != SNIC_FILES__NONE && before + 1 < f->segs_count)
            hint = before + 1;
    }
    for (; i <= last; i++) {
        uint32_t seg = files_seg_find(f, r->private_.node, (uint32_t)i);
        if (seg == SNIC_FILES__NONE) {
            seg = files_seg_take(f, hint);
            files_seg_attach(f, seg, r->private_.node, (uint32_t)i);
        }
        hint = seg + 1 < f->segs_count ? seg + 1 : 0;
    }
}

/* 1 when the segments are there, 0 when freed ones must be waited for, or the error. */
static int data_reserve(struct snic_files *f, struct snic_files_req *r)
{
    uint64_t limbo = (uint64_t)f->limbo_pending.count + f->limbo_writing.count +
                     f->limbo_durable.count + f->limbo_readers.count;
    uint64_t missing;
    int rc;
    if (data_deleted(f, r))
        return SNIC_ENOENT;
    if (f->broken != 0)
        return SNIC_EIO;
    rc = data_missing(f, r, &missing);
    if (rc != 0)
        return rc;
    if (missing > f->free_segs)
        return missing > f->free_segs + limbo ? SNIC_ENOSPC : 0;
    data_take(f, r);
    return 1;
}

static void data_write_end(struct snic_files *f, struct snic_files_req *r, int64_t result)
{
    uint32_t node = r->private_.node;
    if (!data_deleted(f, r)) {
        SNIC_ASSERT(f->nodes[node].writers > 0);
        f->nodes[node].writers--;
        files_ordered_run(f, node);
    }
    files_finish(f, r, result);
}

static void data_admit(struct snic_files *f, struct snic_files_req *r)
{
    int rc;
    f->nodes[r->private_.node].writers++;
    rc = snic_queue_empty(&f->space) ? data_reserve(f, r) : 0;
    if (rc == 1) {
        data_ready(f, r);
    } else if (rc == 0) {
        f->stats.space_waits++;
        snic_queue_push(&f->space, &r->node);
    } else {
        f->nodes[r->private_.node].writers--;
        files_finish(f, r, rc);
    }
}

/* Segments may have become free: let waiting WRITEs try again, in order. */
void files_space_run(struct snic_files *f)
{
    while (!snic_queue_empty(&f->space)) {
        struct snic_files_req *r = SNIC_CONTAINER(f->space.first, struct snic_files_req, node);
        int rc = data_reserve(f, r);
        if (rc == 0)
            return;
        (void)snic_queue_pop(&f->space);
        if (rc == 1)
            data_ready(f, r);
        else
            data_write_end(f, r, rc);
    }
}

/* ---- Truncation and the writes around it: A3 ---- */

void files_ordered_run(struct snic_files *f, uint32_t node)
{
    struct files_node *n = &f->nodes[node];
    while (!snic_queue_empty(&n->ordered) && !n->barrier) {
        struct snic_files_req *r = SNIC_CONTAINER(n->ordered.first, struct snic_files_req, node);
        if (f->broken != 0) {
            (void)snic_queue_pop(&n->ordered);
            files_finish(f, r, SNIC_EIO);
        } else if (r->op == SNIC_FILES_TRUNCATE) {
            if (n->writers > 0)
                return;
            (void)snic_queue_pop(&n->ordered);
            n->barrier = 1;
            snic_queue_push(&f->control, &r->node); /* files_advance() runs it */
        } else {
            (void)snic_queue_pop(&n->ordered);
            data_admit(f, r);
        }
    }
}

/* ---- Ends ---- */

/* The request was waiting for durability: it has it, or never will. */
void files_data_durable(struct snic_files *f, struct snic_files_req *r, int error)
{
    if (r->op == SNIC_FILES_TRUNCATE && !data_deleted(f, r)) {
        f->nodes[r->private_.node].barrier = 0;
        files_ordered_run(f, r->private_.node);
    }
    if (r->op == SNIC_FILES_WRITE)
        files_finish(f, r, error != 0 ? error : (int64_t)r->length);
    else
        files_finish(f, r, error);
}

static void data_write_moved(struct snic_files *f, struct snic_files_req *r)
{
    struct files_node *n = &f->nodes[r->private_.node];
    int sync = r->op == SNIC_FILES_PREALLOC || (r->flags & SNIC_FILES_SYNC) != 0;
    if (data_deleted(f, r)) {
        data_write_end(f, r, r->op == SNIC_FILES_WRITE ? (int64_t)r->length : 0);
        return;
    }
    if (r->offset + r->length > n->size) {
        n->size = r->offset + r->length;
        files_dirty_node(f, r->private_.node);
    }
    if (!sync) {
        data_write_end(f, r, (int64_t)r->length);
        return;
    }
    SNIC_ASSERT(n->writers > 0);
    n->writers--;
    r->private_.dirty_ticket = n->dirty_ticket;
    files_wait_durable(f, r, r->private_.unflushed != 0);
    files_ordered_run(f, r->private_.node);
}

/* All pieces have ended. */
void files_data_moved(struct snic_files *f, struct snic_files_req *r)
{
    SNIC_ASSERT(r->private_.inflight == 0);
    files_epoch_leave(f, r->private_.parity);
    if (f->draining) {
        files_epoch_turn(f);
        files_space_run(f);
    }
    if (r->op == SNIC_FILES_READ) {
        if (r->private_.error == 0)
            f->stats.read_bytes += r->private_.end;
        files_finish(f, r, r->private_.error != 0 ? r->private_.error : (int64_t)r->private_.end);
        return;
    }
    if (r->private_.error != 0) {
        data_write_end(f, r, r->private_.error);
        return;
    }
    if (r->op == SNIC_FILES_WRITE)
        f->stats.write_bytes += r->length;
    data_write_moved(f, r);
}

/* ---- Starts ---- */

/* The pieces of a READ or WRITE add up to its length. */
static int data_iov_check(const struct snic_files_req *r)
{
    uint64_t sum = 0;
    uint32_t i;
    if (r->iov == NULL)
        return r->iov_count == 0 && r->buf.size >= r->length &&
                       (r->buf.base != NULL || r->length == 0)
                   ? 0
                   : SNIC_EINVAL;
    if (r->iov_count == 0 || r->iov_count > SNIC_IO_IOV_MAX)
        return SNIC_EINVAL;
    for (i = 0; i < r->iov_count; i++) {
        if (r->iov[i].size > r->length - sum || (r->iov[i].base == NULL && r->iov[i].size != 0))
            return SNIC_EINVAL;
        sum += r->iov[i].size;
    }
    return sum == r->length ? 0 : SNIC_EINVAL;
}

static void data_start_read(struct snic_files *f, struct snic_files_req *r)
{
    const struct files_node *n = &f->nodes[r->private_.node];
    f->stats.reads++;
    if (data_iov_check(r) != 0 || r->offset + r->length < r->offset) {
        files_finish(f, r, SNIC_EINVAL);
        return;
    }
    if (r->offset >= n->size || r->length == 0) {
        files_finish(f, r, 0);
        return;
    }
    r->private_.end = snic_min_u64(r->length, n->size - r->offset);
    data_ready(f, r);
}

static int data_range_check(const struct snic_files *f, const struct snic_files_req *r)
{
    uint64_t max = (uint64_t)(UINT32_MAX - 1) << f->seg_shift;
    if (r->op == SNIC_FILES_TRUNCATE)
        return r->length > max ? SNIC_EFBIG : 0;
    if (r->op == SNIC_FILES_WRITE && data_iov_check(r) != 0)
        return SNIC_EINVAL;
    if (r->op == SNIC_FILES_PREALLOC && r->length == 0)
        return SNIC_EINVAL;
    if (r->offset > max || r->length > max - r->offset)
        return SNIC_EFBIG;
    return 0;
}

static void data_start_ordered(struct snic_files *f, struct snic_files_req *r)
{
    int rc = data_range_check(f, r);
    uint64_t seg = f->info.segment_bytes;
    if (r->op == SNIC_FILES_WRITE)
        f->stats.writes++;
    else
        f->stats.controls++;
    if (rc != 0 || (r->op == SNIC_FILES_WRITE && r->length == 0)) {
        files_finish(f, r, rc);
        return;
    }
    r->private_.end = r->length;
    if (r->op == SNIC_FILES_PREALLOC)
        r->private_.end =
            snic_align_up(r->offset + r->length, seg) - snic_align_down(r->offset, seg);
    snic_queue_push(&f->nodes[r->private_.node].ordered, &r->node);
    files_ordered_run(f, r->private_.node);
}

void files_data_start(struct snic_files *f, struct snic_files_req *r)
{
    uint32_t node = files_find_id(f, r->file);
    if (node == SNIC_FILES__NONE || f->nodes[node].kind != SNIC_FILES_FILE) {
        files_finish(f, r, node == SNIC_FILES__NONE ? SNIC_ENOENT : SNIC_EISDIR);
        return;
    }
    r->private_.node = node;
    if (r->op == SNIC_FILES_READ) {
        data_start_read(f, r);
        return;
    }
    if (f->broken != 0) {
        files_finish(f, r, SNIC_EIO);
        return;
    }
    if (r->op == SNIC_FILES_FSYNC) {
        f->stats.fsyncs++;
        r->private_.dirty_ticket = f->nodes[node].dirty_ticket;
        files_wait_durable(f, r, 1);
        return;
    }
    data_start_ordered(f, r);
}
