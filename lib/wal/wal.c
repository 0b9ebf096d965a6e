/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A durable log: opening and closing, requests to the device, and which part runs when.
 *
 * Three requests at most are with the device: a batch (batch.c), a reading (recovery, compaction)
 * and one for the rest (membership file, format). Whatever the owner asks for is begun at the next
 * message of the loop, so that appends of one loop iteration share a batch and no callback comes
 * from inside a call (W6).
 */
#include "wal/wal_priv.h"

/* ---- Requests ---- */

static void wal_pump(struct snic_wal *w);

/**
 * A write that found no space beneath the device (a sparse file, a thin volume) may be repeated:
 * nothing counts before it is whole and flushed. Not where the same error may have come from the
 * flush of a cache, which also covers what others wrote.
 */
static int wal_may_repeat(const struct snic_wal *w, const struct wal_op *op)
{
    return (w->opts.flags & SNIC_WAL_REPEAT) != 0 && w->phase == WAL_OPEN &&
           op->req.op == SNIC_IO_WRITE && ((op->flags & SNIC_IO_FUA) == 0 || wal_trusts_reads(w));
}

static void wal_op_end(struct wal_op *op, int64_t result)
{
    struct snic_wal *w = op->w;
    op->state = WAL_OP_IDLE;
    if (w->closing || w->phase == WAL_DEAD)
        return;
    if (result == SNIC_ENOSPC && wal_may_repeat(w, op)) {
        op->state = WAL_OP_READY;
        op->starved = 1;
        w->starved = WAL_STARVED_WAITS;
        w->info.starved++;
        snic_loop_arm(w->loop, &w->retry, snic_loop_now(w->loop) + SNIC_WAL__RETRY_NS);
        return;
    }
    if (result < 0) {
        wal_die(w, (int)result);
        return;
    }
    if (op->req.op != SNIC_IO_FLUSH) {
        uint64_t got = snic_align_down((uint64_t)result, w->io->geometry.length_align);
        op->done += got;
        if (w->phase == WAL_OPENING)
            w->info.opening_bytes += got;
        if (got == 0 || op->done > op->length) {
            wal_die(w, SNIC_EIO); /* the device is shorter than its size */
            return;
        }
        if (op->done < op->length) {
            op->state = WAL_OP_READY;
            return;
        }
        op->starved = 0;
        if (!w->write.starved && !w->side.starved)
            w->starved = WAL_STARVED_NOT;
    }
    op->then(w);
}

static void wal_op_done(struct snic_io_req *req)
{
    struct wal_op *op = SNIC_CONTAINER(req, struct wal_op, req);
    struct snic_wal *w = op->w;
    SNIC_ASSERT(op->state == WAL_OP_OUT);
    wal_op_end(op, req->result);
    wal_pump(w);
}

static void wal_op_submit(struct snic_wal *w, struct wal_op *op)
{
    struct snic_io_req *req = &op->req;
    uint8_t code = req->op;
    if (op->state != WAL_OP_READY || w->phase == WAL_DEAD || snic_io_waits(&w->room) ||
        (code == SNIC_IO_WRITE && w->starved == WAL_STARVED_WAITS))
        return;
    snic_io_req_init(req);
    req->op = code;
    req->done = wal_op_done;
    if (code != SNIC_IO_FLUSH) {
        req->flags = (uint16_t)op->flags;
        req->offset = op->offset + op->done;
        req->length = op->length - op->done;
        req->buf.base = op->bytes + op->done;
        req->buf.size = (size_t)req->length;
    }
    int n = snic_io_submit(w->io, &req, 1);
    if (n == 1) {
        op->state = WAL_OP_OUT;
    } else if (n == 0) {
        snic_io_wait(w->io, &w->room);
    } else {
        op->state = WAL_OP_IDLE;
        wal_die(w, n);
    }
}

/* ---- Scheduling ---- */

/** An append was refused, and would not be now, or with another error. */
static void wal_report_room(struct snic_wal *w)
{
    if (w->refusal == 0)
        return;
    int e = wal_admit(w, w->refused_length, w->refused_class);
    if (e == -(int)w->refusal || e == SNIC_EAGAIN)
        return;
    w->refusal = 0;
    if (w->events.room != NULL)
        w->events.room(w->ctx);
}

static void wal_pump(struct snic_wal *w)
{
    for (uint32_t turn = 0; turn < 2 && w->phase != WAL_DEAD && !w->closing; turn++) {
        if (w->phase == WAL_OPEN) {
            wal_compact_pump(w);
            wal_erase_pump(w);
            wal_meta_pump(w);
            wal_batch_pump(w);
        }
        wal_op_submit(w, &w->write);
        wal_op_submit(w, &w->read);
        wal_op_submit(w, &w->side);
        if (w->phase == WAL_OPEN && turn == 0)
            wal_report_room(w);
    }
}

static void wal_message(struct snic_loop_msg *m)
{
    struct snic_wal *w = SNIC_CONTAINER(m, struct snic_wal, message);
    w->message_on = 0;
    wal_pump(w);
}

static void wal_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_wal *w = SNIC_CONTAINER(t, struct snic_wal, timer);
    if (w->window_ns <= now_ns) {
        w->window_ns = SNIC_NEVER;
        w->flush_seq = w->last_seq;
    }
    wal_arm(w);
    wal_pump(w);
}

static void wal_retry(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_wal *w = SNIC_CONTAINER(t, struct snic_wal, retry);
    (void)now_ns;
    if (w->starved == WAL_STARVED_WAITS)
        w->starved = WAL_STARVED_REPEATS;
    wal_pump(w);
}

static void wal_writable(struct snic_io_waiter *waiter)
{
    wal_pump(SNIC_CONTAINER(waiter, struct snic_wal, room));
}

/* ---- Options and memory ---- */

static int wal_options(struct snic_wal_opts *o, struct wal_geo *g, const struct snic_io *io,
                       const struct snic_wal_opts *in)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), in) != 0 || o->pad != 0 || (o->flags & ~SNIC_WAL__FLAGS) != 0)
        return SNIC_EINVAL;
    o->batches = o->batches != 0 ? o->batches : 4;
    o->window_ns = o->window_ns != 0 ? o->window_ns : 2000000;
    if (o->batches < 2 || o->batches > SNIC_WAL__BATCHES_MAX || o->window_ns > (uint64_t)1 << 62)
        return SNIC_EINVAL;
    if ((io->caps & SNIC_IO_CAP_READONLY) != 0)
        return SNIC_EPERM;
    int r = wal_format_geo(g, io, o);
    return r == SNIC_ENOSPC ? 0 : r; /* opened() reports it, if it matters */
}

static struct snic_wal *wal_carve(struct snic_arena *a, const struct snic_wal_opts *o,
                                  const struct wal_geo *g, uint32_t align)
{
    struct snic_wal *w = snic_arena_take(a, 1, sizeof(*w), SNIC_WAL_ALIGN);
    uint32_t batch = g->batch_blocks * g->block;
    unsigned char *record = snic_arena_take(a, 1, wal_record_size(g->record_max), SNIC_CACHELINE);
    unsigned char *file = snic_arena_take(a, 1, SNIC_WAL_META_MAX, SNIC_CACHELINE);
    /* The base is aligned to a line only: one alignment more, and aligned by hand. */
    size_t all = (size_t)batch * (o->batches + 1) + 2 * (size_t)g->unit + align;
    unsigned char *big = snic_arena_take(a, 1, all, SNIC_CACHELINE);
    if (big == NULL)
        return NULL;
    memset(w, 0, sizeof(*w));
    memset(file, 0, SNIC_WAL_META_MAX);
    memset(big, 0, all);
    big += (size_t)(snic_align_up((uintptr_t)big, align) - (uintptr_t)big);
    for (uint32_t i = 0; i < o->batches; i++)
        w->batch[i].bytes = big + (size_t)i * batch;
    w->chunk = big + (size_t)o->batches * batch;
    w->chunk_bytes = batch;
    w->buffer_bytes = batch;
    w->meta.slot = w->chunk + batch;
    w->meta.file = file;
    w->reader.memory = record;
    return w;
}

/* Why wal_format_geo() refused: @g as far as it was filled in. */
static const char *wal_geo_wrong(const struct wal_geo *g, const struct snic_io_geometry *d)
{
    if (!snic_is_pow2(g->block) || g->block < 512 || g->block > 65536)
        return "block_bytes: not a power of two 512..65536";
    if (!snic_is_pow2(g->segment) || g->segment < 16384 || g->segment > 1u << 30)
        return "segment_bytes: not a power of two 16 KiB..1 GiB";
    if (g->segment / g->block < 16)
        return "segment_bytes: less than 16 blocks";
    if (g->record_max > g->segment / SNIC_WAL__RECORDS_MIN)
        return "record_max: above a third of a segment";
    if (g->block < d->offset_align || g->block < d->length_align || g->block < d->memory_align)
        return "block_bytes: less than the device's alignment";
    return "batch_bytes: not a multiple of block_bytes with 16 blocks and a record at least, up to "
           "a segment and the device's transfer_max";
}

const char *snic_wal_opts_wrong(const struct snic_io *io, const struct snic_wal_opts *in)
{
    struct snic_wal_opts o = {.opts_size = sizeof(o)};
    struct wal_geo g;
    if (snic_opts_copy(&o, sizeof(o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (o.pad != 0)
        return "pad: not 0";
    if ((o.flags & ~SNIC_WAL__FLAGS) != 0)
        return "flags: unknown bits";
    if (o.batches != 0 && (o.batches < 2 || o.batches > SNIC_WAL__BATCHES_MAX))
        return "batches: not 2..64";
    if (o.window_ns > (uint64_t)1 << 62)
        return "window_ns: above 2^62";
    if (wal_options(&o, &g, io, in) == 0)
        return NULL;
    if ((io->caps & SNIC_IO_CAP_READONLY) != 0)
        return "io: a device that cannot be written";
    return wal_geo_wrong(&g, &io->geometry);
}

size_t snic_wal_memsize(const struct snic_io *io, const struct snic_wal_opts *in)
{
    struct snic_arena a = {NULL, 0, 0};
    struct snic_wal_opts o;
    struct wal_geo g;
    if (wal_options(&o, &g, io, in) != 0)
        return 0;
    (void)wal_carve(&a, &o, &g, io->geometry.memory_align);
    return a.used == SIZE_MAX ? 0 : (size_t)snic_align_up(a.used, SNIC_WAL_ALIGN);
}

int snic_wal_open(struct snic_wal **out, void *mem, size_t mem_size, struct snic_io *io,
                  const struct snic_wal_opts *in, const struct snic_wal_events *e, void *ctx)
{
    struct snic_arena a = {mem, mem_size, 0};
    struct snic_wal_opts o;
    struct wal_geo g;
    int r = wal_options(&o, &g, io, in);
    if (r != 0)
        return r;
    if (((uintptr_t)mem & (SNIC_WAL_ALIGN - 1)) != 0 || e->opened == NULL || e->durable == NULL ||
        e->failed == NULL)
        return SNIC_EINVAL;
    if (mem_size < snic_wal_memsize(io, in))
        return SNIC_ENOSPC;
    struct snic_wal *w = wal_carve(&a, &o, &g, io->geometry.memory_align);
    if (w == NULL)
        return SNIC_ENOSPC;
    w->mem = mem;
    w->io = io;
    w->loop = io->loop;
    w->opts = o;
    w->events = *e;
    w->ctx = ctx;
    w->fua = (io->caps & SNIC_IO_CAP_FUA) != 0 && (o.flags & SNIC_WAL_NO_FUA) == 0;
    w->window_ns = SNIC_NEVER;
    w->message.fn = wal_message;
    snic_timer_init(&w->timer, wal_timer);
    snic_timer_init(&w->retry, wal_retry);
    snic_io_waiter_init(&w->room, wal_writable);
    w->recover.want = g;
    wal_open_begin(w);
    wal_kick(w);
    *out = w;
    return 0;
}

void *snic_wal_close(struct snic_wal *w)
{
    void *mem = w->mem;
    w->closing = 1;
    snic_loop_cancel(w->loop, &w->timer);
    snic_loop_cancel(w->loop, &w->retry);
    snic_io_unwait(&w->room);
    while (w->message_on || w->write.state == WAL_OP_OUT || w->read.state == WAL_OP_OUT ||
           w->side.state == WAL_OP_OUT) {
        int r = snic_loop_once(w->loop, SNIC_NEVER);
        SNIC_ASSERT(r > 0 || snic_loop_world(w->loop) == NULL); /* else the node is paused */
        SNIC_ASSERT(r >= 0);
    }
    return mem;
}

/* ---- Views ---- */

void snic_wal_inspect(const struct snic_wal *w, struct snic_wal_info *out)
{
    *out = w->info;
    out->dead = w->phase == WAL_DEAD;
    out->writable = w->writable;
    out->appended = w->last_seq;
    out->durable = w->durable_seq;
    if (!out->opened)
        return;
    out->full = w->compact.full;
    out->block_bytes = w->geo.block;
    out->segment_bytes = w->geo.segment;
    out->segments = w->geo.segments;
    out->segments_free = (uint32_t)wal_free_segments(w);
    out->segments_reserved = SNIC_WAL__RESERVE + 1;
    out->record_max = w->geo.record_max;
}
