/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Compaction: the oldest segment is read, what the owner still needs of it is appended again, and
 * when that is durable the segment is no longer needed (W3).
 *
 * A copy records the position it was copied from. Copies are made in the order of the positions, so
 * after a crash in the middle everything up to the highest of these is compacted: compaction
 * resumes there, and crashes do not fill the log with second copies.
 *
 * That nothing of the segment was overlooked is known by the positions: they have no holes (W4),
 * and the first block of the next segment names the last one. If one is missing, it is unknown
 * whether it was needed: the log ends.
 *
 * A cycle looks once at all that is there at its beginning. If that gained next to nothing the log
 * is full, until the owner appends something (which makes another record needless) or calls
 * snic_wal_compact().
 */
#include "wal/wal_priv.h"

/** Below that many blocks of room there is compaction. */
static uint64_t wal_compact_low(const struct snic_wal *w)
{
    uint64_t more = w->geo.segments / 16 > 1 ? w->geo.segments / 16 : 1;
    return (SNIC_WAL__RESERVE + 1 + more) * w->geo.segment_blocks;
}

/** Room, including the segments freed and not yet announced. */
static uint64_t wal_compact_space(const struct snic_wal *w)
{
    return wal_room(w) + (w->oldest - w->announced) * w->geo.segment_blocks;
}

static void wal_compact_damaged(struct snic_wal *w)
{
    if (w->oldest > w->tolerant)
        wal_die(w, SNIC_ECORRUPT);
}

/* ---- Cycles ---- */

static int wal_compact_wanted(const struct snic_wal *w)
{
    return wal_compact_space(w) < wal_compact_low(w) || wal_waits_for_space(w);
}

static void wal_compact_cycle_begin(struct snic_wal *w)
{
    struct wal_compact *c = &w->compact;
    c->cycling = 1;
    c->full = 0;
    c->hope = 0;
    c->cycle_end = w->next.gen;
    c->cycle_space = wal_compact_space(w);
    c->cycle_appended = w->info.record_bytes + w->info.records * SNIC_WAL__RECORD_HEAD;
}

/** All was looked at: was it worth it? */
static void wal_compact_cycle_end(struct snic_wal *w)
{
    struct wal_compact *c = &w->compact;
    uint64_t owners = w->info.record_bytes + w->info.records * SNIC_WAL__RECORD_HEAD;
    uint64_t gain = wal_compact_space(w) + (owners - c->cycle_appended) / w->geo.payload;
    c->cycling = 0;
    if (gain < c->cycle_space + w->geo.segment_blocks / 4)
        c->full = 1;
}

/** May the oldest segment be compacted now? */
static int wal_compact_may(struct snic_wal *w)
{
    struct wal_compact *c = &w->compact;
    if (c->cycling && w->oldest > c->cycle_end)
        wal_compact_cycle_end(w);
    if (!wal_compact_wanted(w)) {
        c->cycling = 0;
        c->full = 0;
        c->paid = 0;
        return 0;
    }
    if (w->oldest >= w->durable_gen) /* the next segment's first block is looked at, too */
        return 0;
    if (!c->cycling) {
        if (c->full && !c->hope)
            return 0;
        wal_compact_cycle_begin(w);
    }
    /* W5 leaves so much, and a compaction that was under way at a crash had it when it began. */
    if (c->copied == 0 && wal_space(w) < w->geo.copy_blocks) {
        c->full = w->oldest == w->announced;
        c->hope = 0;
        return 0;
    }
    return 1;
}

/* ---- Reading ---- */

static void wal_compact_arrived(struct snic_wal *w)
{
    SNIC_ASSERT(w->compact.state == WAL_COMPACT_READ);
    w->compact.state = WAL_COMPACT_PARSE;
    w->compact.in = 0;
    w->compact.begun = 0;
}

/** The next blocks of the segment, or the first one of the next segment. */
static int wal_compact_read(struct snic_wal *w)
{
    struct wal_compact *c = &w->compact;
    uint64_t gen = w->oldest;
    uint32_t block = c->block;
    uint32_t chunk = wal_piece_blocks(w, w->geo.segment_blocks - block);
    uint64_t cost = (uint64_t)chunk * w->geo.block;
    if (w->read.state != WAL_OP_IDLE || (c->paid < cost && !wal_waits_for_space(w)))
        return 0;
    c->paid -= snic_min_u64(c->paid, cost);
    c->next = chunk == 0;
    if (c->next) {
        gen++;
        block = 0;
        chunk = 1;
    }
    c->chunk = chunk;
    c->state = WAL_COMPACT_READ;
    wal_op_begin(w, &w->read, SNIC_IO_READ, wal_offset(&w->geo, gen, block), w->chunk,
                 (uint64_t)c->chunk * w->geo.block, wal_compact_arrived);
    return 1;
}

static void wal_compact_begin(struct snic_wal *w)
{
    w->compact.block = 0;
    w->compact.known = 0;
    w->compact.bytes = 0;
    w->compact.pending = 0;
    w->compact.chunk = 0;
    w->compact.in = 0;
    w->compact.state = WAL_COMPACT_PARSE;
    wal_reader_start(&w->reader, w->oldest);
}

/* ---- Records ---- */

/** One block is begun; 0: there is nothing in it. */
static int wal_compact_block(struct snic_wal *w)
{
    struct wal_compact *c = &w->compact;
    const unsigned char *at = w->chunk + (size_t)c->in * w->geo.block;
    struct wal_block b;
    enum wal_block_kind kind =
        wal_block_decode(&w->geo, &b, w->oldest + c->next, c->next ? 0 : c->block + c->in, at);
    if (kind != WAL_BLOCK_LIVE) {
        if (c->next || c->block + c->in == 0)
            wal_compact_damaged(w);
        return 0;
    }
    if (!c->known && b.index == 0) {
        c->known = 1;
        c->last = b.base;
    } else if (b.index == b.batch_first && b.base != c->last) {
        wal_compact_damaged(w);
        c->last = b.base;
    }
    if (c->next)
        return 0;
    wal_reader_block(&w->reader, &b, at);
    return 1;
}

static void wal_compact_record(struct snic_wal *w)
{
    struct wal_compact *c = &w->compact;
    c->bytes += wal_record_size(c->rec.r.length);
    if (c->rec.r.position != c->last + 1)
        wal_compact_damaged(w);
    c->last = c->rec.r.position;
    c->pending = c->rec.r.position > c->copied;
}

/**
 * 0: there is no room for it now. keep() is called at the time of the copy: the owner may have
 * appended a newer record while there was no room, and an older one must not follow a newer one.
 */
static int wal_compact_copy(struct snic_wal *w)
{
    struct wal_compact *c = &w->compact;
    if (w->events.keep != NULL && !w->events.keep(w->ctx, &c->rec.r)) {
        c->pending = 0;
        w->info.dropped++;
        return 1;
    }
    if (wal_admit(w, c->rec.r.length, WAL_CLASS_COPY) != 0)
        return 0;
    c->rec.origin = c->rec.r.position;
    wal_place_record(w, &c->rec, WAL_CLASS_COPY);
    c->pending = 0;
    w->info.copies++;
    w->info.copied_bytes += c->rec.r.length;
    return 1;
}

/** Go through what was read. 0: wait; 1: the chunk is done. */
static int wal_compact_parse(struct snic_wal *w)
{
    struct wal_compact *c = &w->compact;
    while (w->phase == WAL_OPEN) {
        if (c->pending && !wal_compact_copy(w))
            return 0;
        if (c->in == c->chunk)
            return 1;
        if (!c->begun && !wal_compact_block(w)) {
            c->in++;
            continue;
        }
        c->begun = 1;
        int r = wal_reader_next(&w->reader, &w->geo, &c->rec);
        if (r > 0) {
            wal_compact_record(w);
            continue;
        }
        if (r < 0)
            wal_compact_damaged(w);
        c->begun = 0;
        c->in++;
    }
    return 0;
}

static void wal_compact_finish(struct snic_wal *w)
{
    SNIC_ASSERT(w->oldest < w->durable_gen);                               /* W2 */
    SNIC_ASSERT(!w->compact.pending && w->durable_seq >= w->compact.mark); /* W3 */
    w->oldest++;
    w->growth -= snic_min_u64(w->growth, wal_growth(&w->geo, w->compact.bytes));
    w->compact.copied = 0;
    w->compact.state = WAL_COMPACT_IDLE;
    w->info.compacted++;
}

/** One step. 0: nothing to do now. */
static int wal_compact_step(struct snic_wal *w)
{
    struct wal_compact *c = &w->compact;
    switch ((enum wal_compact_state)c->state) {
    case WAL_COMPACT_IDLE:
        if (!wal_compact_may(w))
            return 0;
        wal_compact_begin(w);
        return 1;
    case WAL_COMPACT_PARSE:
        if (!wal_compact_parse(w))
            return 0;
        if (c->chunk > 0 && c->next) {
            c->next = 0;
            c->mark = w->last_seq;
            c->state = WAL_COMPACT_WAIT;
            return 1;
        }
        c->block += c->chunk;
        c->chunk = 0;
        c->in = 0;
        return wal_compact_read(w);
    case WAL_COMPACT_WAIT:
        if (w->durable_seq < c->mark) {
            w->flush_seq = snic_max_u64(w->flush_seq, c->mark);
            return 0;
        }
        wal_compact_finish(w);
        return 1;
    case WAL_COMPACT_READ:
        break;
    default:
        break;
    }
    return 0;
}

void wal_compact_pump(struct snic_wal *w)
{
    if (!w->writable)
        return;
    while (w->phase == WAL_OPEN && wal_compact_step(w))
        ;
    if (w->phase == WAL_OPEN && w->oldest > w->announcing)
        wal_announce(w);
}

void snic_wal_compact(struct snic_wal *w)
{
    w->compact.hope = 1;
    if (w->phase == WAL_OPEN)
        wal_kick(w);
}
