/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Appends, and the batches that carry them: filled one after the other in buffers, written and
 * flushed one at a time (W1).
 *
 * A batch knows its place when it is begun: behind the one before. It is closed when it goes, when
 * a record does not fit, or when its segment ends. A closed batch cannot take more; its last block
 * is filled up with zeros, for no block is written twice.
 */
#include "wal/wal_priv.h"

/* ---- Room ---- */

/** Of the batch being filled, or batches: there is none. */
static uint32_t wal_batch_index(const struct snic_wal *w)
{
    if (w->batch_count == 0)
        return w->opts.batches;
    uint32_t i = (w->batch_head + w->batch_count - 1) % w->opts.batches;
    return w->batch[i].closed ? w->opts.batches : i;
}

struct wal_batch *wal_batch_open(struct snic_wal *w)
{
    uint32_t i = wal_batch_index(w);
    return i < w->opts.batches ? &w->batch[i] : NULL;
}

static const struct wal_batch *wal_batch_last(const struct snic_wal *w)
{
    uint32_t i = wal_batch_index(w);
    return i < w->opts.batches ? &w->batch[i] : NULL;
}

uint64_t wal_free_segments(const struct snic_wal *w)
{
    return w->geo.segments - (w->next.gen - w->announced + 1);
}

/** Blocks in use of the segment that is being written. */
static uint32_t wal_tail_used(const struct snic_wal *w)
{
    const struct wal_batch *b = wal_batch_last(w);
    return b != NULL ? b->first + b->blocks : w->next.block;
}

uint64_t wal_space(const struct snic_wal *w)
{
    return wal_free_segments(w) * w->geo.segment_blocks + w->geo.segment_blocks - wal_tail_used(w);
}

uint64_t wal_room(const struct snic_wal *w)
{
    uint64_t growth = w->growth + wal_growth(&w->geo, w->tail_bytes);
    uint64_t space = wal_space(w);
    return space > growth ? space - growth : 0;
}

static uint32_t wal_batch_blocks_max(const struct snic_wal *w, uint32_t first)
{
    uint32_t most = w->buffer_bytes / w->geo.block;
    if (most > w->geo.batch_blocks)
        most = w->geo.batch_blocks;
    if (most > w->geo.segment_blocks - first)
        most = w->geo.segment_blocks - first;
    return most;
}

static int wal_batch_fits(const struct snic_wal *w, const struct wal_batch *b, uint32_t size)
{
    uint64_t more = wal_batch_blocks_max(w, b->first) - b->blocks;
    return more * w->geo.payload + w->geo.block - b->at >= size;
}

/** Blocks that a batch of one record needs. */
static uint32_t wal_blocks_of(const struct snic_wal *w, uint32_t size)
{
    return (size + w->geo.payload - 1) / w->geo.payload;
}

static uint64_t wal_limit(const struct snic_wal *w, uint32_t class_)
{
    uint32_t segments = SNIC_WAL__RESERVE + (class_ == WAL_CLASS_NORMAL);
    return (uint64_t)segments * w->geo.segment_blocks;
}

/** Not while freed segments wait to be announced: they become usable with that block. */
int wal_compact_hopeless(const struct snic_wal *w)
{
    return w->compact.full && !w->compact.hope && w->oldest == w->announced;
}

int wal_admit(const struct snic_wal *w, uint32_t length, uint32_t class_)
{
    if (w->starved && class_ != WAL_CLASS_COPY)
        return SNIC_ENOSPC;
    const struct wal_batch *b = wal_batch_last(w);
    uint32_t size = wal_record_size(length);
    uint64_t need = wal_blocks_of(w, size);
    int fits = b != NULL && wal_batch_fits(w, b, size);
    if (fits && size <= w->geo.block - b->at)
        need = 0;
    if (class_ != WAL_CLASS_COPY && wal_room(w) < wal_limit(w, class_) + need)
        return wal_compact_hopeless(w) ? SNIC_ENOSPC : SNIC_EAGAIN;
    if (fits)
        return 0;
    if (w->batch_count == w->opts.batches)
        return SNIC_EAGAIN;
    if (w->geo.segment_blocks - wal_tail_used(w) < need && wal_free_segments(w) == 0)
        return SNIC_EAGAIN;
    return 0;
}

int wal_waits_for_space(const struct snic_wal *w)
{
    uint64_t need = wal_blocks_of(w, wal_record_size(w->refused_length));
    return w->refusal != 0 && wal_room(w) < wal_limit(w, w->refused_class) + need;
}

/* ---- Filling ---- */

static void wal_batch_block(const struct snic_wal *w, struct wal_batch *b)
{
    SNIC_ASSERT(b->blocks < w->buffer_bytes / w->geo.block);
    memset(b->bytes + (size_t)b->blocks * w->geo.block, 0, SNIC_WAL__BLOCK_HEAD);
    b->blocks++;
    b->at = SNIC_WAL__BLOCK_HEAD;
}

static void wal_batch_close(struct snic_wal *w, struct wal_batch *b)
{
    struct wal_block head = {.batch_first = b->first, .batch_end = b->first + b->blocks};
    SNIC_ASSERT(!b->closed && b->blocks >= 1);
    SNIC_ASSERT(b->at >= SNIC_WAL__BLOCK_HEAD && b->at <= w->geo.block);
    head.generation = b->gen;
    head.oldest = w->oldest;
    head.base = b->base;
    unsigned char *last = b->bytes + (size_t)(b->blocks - 1) * w->geo.block;
    memset(last + b->at, 0, w->geo.block - b->at);
    for (uint32_t i = 0; i < b->blocks; i++) {
        unsigned char *at = b->bytes + (size_t)i * w->geo.block;
        head.index = b->first + i;
        head.used = i + 1 < b->blocks ? w->geo.payload : b->at - SNIC_WAL__BLOCK_HEAD;
        head.first = snic_get_le32(at + 28); /* left there by wal_place_record() */
        wal_block_encode(&w->geo, &head, at);
    }
    if (b->owned)
        w->compact.paid += (uint64_t)SNIC_WAL__PACE * (w->geo.block - b->at);
    b->oldest = w->oldest;
    b->last = w->last_seq;
    b->closed = 1;
    w->announcing = w->oldest;
    w->next.block = b->first + b->blocks;
}

/** A new one of at least @p blocks; what is open is closed. */
static struct wal_batch *wal_batch_begin(struct snic_wal *w, uint32_t blocks)
{
    struct wal_batch *b = wal_batch_open(w);
    if (b != NULL)
        wal_batch_close(w, b);
    SNIC_ASSERT(w->batch_count < w->opts.batches);
    if (w->geo.segment_blocks - w->next.block < blocks) {
        SNIC_ASSERT(wal_free_segments(w) > 0); /* W2 */
        w->growth += wal_growth(&w->geo, w->tail_bytes);
        w->tail_bytes = 0;
        w->next.gen++;
        w->next.block = 0;
    }
    SNIC_ASSERT(blocks >= 1 && blocks <= w->geo.segment_blocks - w->next.block);
    b = &w->batch[(w->batch_head + w->batch_count) % w->opts.batches];
    w->batch_count++;
    b->gen = w->next.gen;
    b->first = w->next.block;
    b->base = w->last_seq;
    b->blocks = 0;
    b->closed = 0;
    b->urgent = 0;
    b->owned = 0;
    wal_batch_block(w, b);
    return b;
}

static void wal_batch_put(const struct snic_wal *w, struct wal_batch *b, const unsigned char *bytes,
                          uint32_t size)
{
    while (size > 0) {
        if (b->at == w->geo.block)
            wal_batch_block(w, b);
        uint32_t n = w->geo.block - b->at;
        if (n > size)
            n = size;
        memcpy(b->bytes + (size_t)(b->blocks - 1) * w->geo.block + b->at, bytes, n);
        b->at += n;
        bytes += n;
        size -= n;
    }
}

void wal_place_record(struct snic_wal *w, struct wal_record *rec, uint32_t class_)
{
    static const unsigned char zero[8];
    unsigned char head[SNIC_WAL__RECORD_HEAD];
    uint32_t length = rec->r.length;
    uint32_t size = wal_record_size(length);
    SNIC_ASSERT(length <= w->geo.record_max);
    struct wal_batch *b = wal_batch_open(w);
    if (b == NULL || !wal_batch_fits(w, b, size))
        b = wal_batch_begin(w, wal_blocks_of(w, size));
    w->tail_bytes += size;
    if (b->at == w->geo.block)
        wal_batch_block(w, b);
    unsigned char *block = b->bytes + (size_t)(b->blocks - 1) * w->geo.block;
    if (snic_get_le32(block + 28) == 0)
        snic_put_le32(block + 28, b->at);
    rec->r.position = ++w->last_seq; /* W4 */
    rec->prev = w->last_crc;
    w->last_crc = wal_record_encode(&w->geo, b->gen, rec, head);
    wal_batch_put(w, b, head, sizeof(head));
    if (length > 0)
        wal_batch_put(w, b, rec->r.bytes, length);
    wal_batch_put(w, b, zero, size - SNIC_WAL__RECORD_HEAD - length);
    SNIC_ASSERT(b->first + b->blocks <= w->geo.segment_blocks);
    if (class_ == WAL_CLASS_COPY)
        return;
    b->owned = 1;
    w->compact.paid += (uint64_t)SNIC_WAL__PACE * size;
}

void wal_announce(struct snic_wal *w)
{
    struct wal_batch *b = wal_batch_open(w);
    if (b == NULL) {
        if (w->batch_count == w->opts.batches ||
            (w->next.block == w->geo.segment_blocks && wal_free_segments(w) == 0))
            return; /* tried again when a batch is done */
        b = wal_batch_begin(w, 1);
    }
    b->urgent = 1;
}

/* ---- Writing ---- */

void wal_erase_done(struct snic_wal *w)
{
    SNIC_ASSERT(w->erase == WAL_JOB_RUNS && !w->writable);
    w->erase = WAL_JOB_NONE;
    w->writable = 1;
    if (w->events.accepted != NULL)
        w->events.accepted(w->ctx);
}

static void wal_batch_durable(struct snic_wal *w)
{
    struct wal_batch *b = &w->batch[w->batch_head];
    SNIC_ASSERT(b->closed && w->flushing && b->last >= w->durable_seq);
    SNIC_ASSERT(b->gen >= w->durable_gen && b->oldest >= w->announced);
    w->flushing = 0;
    w->batch_head = (w->batch_head + 1) % w->opts.batches;
    w->batch_count--;
    w->announced = b->oldest;
    w->durable_gen = b->gen;
    w->info.batches++;
    w->info.batch_bytes += (uint64_t)b->blocks * w->geo.block;
    w->info.flushes++;
    if (b->last > w->durable_seq) {
        w->durable_seq = b->last;
        if (!w->closing)
            w->events.durable(w->ctx, w->durable_seq);
    }
    if (w->erase == WAL_JOB_RUNS)
        wal_erase_done(w);
}

static void wal_batch_written(struct snic_wal *w)
{
    if (w->fua)
        wal_batch_durable(w);
    else
        wal_op_begin(w, &w->write, SNIC_IO_FLUSH, 0, NULL, 0, wal_batch_durable);
}

/** W1: only when nothing is under way. */
void wal_batch_pump(struct snic_wal *w)
{
    if (w->batch_count == 0 || w->flushing)
        return;
    struct wal_batch *b = &w->batch[w->batch_head];
    if (!b->closed) {
        if (!b->urgent && w->flush_seq <= b->base)
            return;
        wal_batch_close(w, b);
    }
    w->flushing = 1;
    wal_op_begin(w, &w->write, SNIC_IO_WRITE, wal_offset(&w->geo, b->gen, b->first), b->bytes,
                 (uint64_t)b->blocks * w->geo.block, wal_batch_written);
}

/* ---- The owner's calls ---- */

static int wal_append_check(const struct snic_wal *w, const struct snic_wal_record *r)
{
    const uint32_t known =
        SNIC_WAL_TOMBSTONE | SNIC_WAL_BACKGROUND | SNIC_WAL_LAST_SPACE | SNIC_WAL_OWNER_FLAGS;
    if (w->phase == WAL_DEAD)
        return SNIC_EIO;
    if (w->phase != WAL_OPEN)
        return SNIC_EBUSY;
    if ((r->flags & ~known) != 0 || r->pad != 0 || (r->bytes == NULL && r->length > 0))
        return SNIC_EINVAL;
    if (r->length > w->geo.record_max)
        return SNIC_EMSGSIZE;
    return w->writable ? 0 : SNIC_ECORRUPT;
}

static void wal_refused(struct snic_wal *w, const struct snic_wal_record *r, uint32_t class_, int e)
{
    w->refusal = (uint32_t)-e;
    w->refused_length = r->length;
    w->refused_class = class_;
    if (e == SNIC_EAGAIN)
        w->info.refused_again++;
    else
        w->info.refused_full++;
    wal_kick(w); /* an append waits for compaction */
}

int snic_wal_append(struct snic_wal *w, const struct snic_wal_record *r, uint64_t *position)
{
    uint32_t last = r->flags & (SNIC_WAL_TOMBSTONE | SNIC_WAL_LAST_SPACE);
    uint32_t class_ = last != 0 ? WAL_CLASS_TOMBSTONE : WAL_CLASS_NORMAL;
    int e = wal_append_check(w, r);
    if (e != 0)
        return e;
    e = wal_admit(w, r->length, class_);
    if (e != 0) {
        wal_refused(w, r, class_, e);
        return e;
    }
    struct wal_record rec = {.r = *r};
    rec.r.flags &= ~(SNIC_WAL_BACKGROUND | SNIC_WAL_LAST_SPACE);
    wal_place_record(w, &rec, class_);
    w->compact.hope = 1;
    w->info.records++;
    w->info.record_bytes += r->length;
    if (position != NULL)
        *position = rec.r.position;
    if ((r->flags & SNIC_WAL_BACKGROUND) == 0) {
        struct wal_batch *b = wal_batch_open(w);
        SNIC_ASSERT(b != NULL);
        b->urgent = 1;
        wal_kick(w);
    } else if (w->window_ns == SNIC_NEVER) {
        w->window_ns = snic_loop_now(w->loop) + w->opts.window_ns;
        wal_arm(w);
    }
    return 0;
}

int snic_wal_makes_room(const struct snic_wal *w)
{
    return wal_waits_for_space(w);
}

uint64_t snic_wal_flush(struct snic_wal *w)
{
    if (w->phase == WAL_OPEN && w->last_seq > w->durable_seq) {
        w->flush_seq = w->last_seq;
        wal_kick(w);
    }
    return w->last_seq;
}

uint64_t snic_wal_durable(const struct snic_wal *w)
{
    return w->durable_seq;
}
