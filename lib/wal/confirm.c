/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The last step of recovery: what was read is made durable before opened() reports it.
 *
 * A log whose process was killed may have been written and not flushed, so there is always a flush.
 * Through a page cache that does not suffice: after an fsync that failed the kernel marks the pages
 * clean. They are read as written until they are dropped, and the next fsync succeeds without them.
 * So on a handle without SNIC_IO_CAP_DIRECT everything that such a flush may have covered is
 * written again, as read, before it is flushed:
 *   - the last batch, or the part of it that counts. Those before it were durable before it began
 *     (W1);
 *   - the zeros behind it, in its segment and in the next one if that is free: they may have been
 *     written by snic_wal_accept_tail() over blocks of a batch that was cut off. Not where the end
 *     is in doubt, since the owner has to accept it again before anything is appended.
 * The superblocks (format.c) and the membership file (meta.c) are written again where they are
 * read. The bytes are those that were read, so a torn write changes nothing that was durable.
 */
#include "wal/wal_priv.h"

static void wal_confirm_next(struct snic_wal *w);

static void wal_confirm_flushed(struct snic_wal *w)
{
    wal_opened(w, 0);
}

static int wal_confirm_counts(const struct snic_wal *w, uint32_t index)
{
    const struct wal_recover *r = &w->recover;
    return r->gen == r->tail_gen && index < w->next.block;
}

static void wal_confirm_written(struct snic_wal *w)
{
    w->recover.block += w->recover.chunk;
    wal_confirm_next(w);
}

/** The first run of blocks of the piece that have to be written again. */
static void wal_confirm_arrived(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    uint32_t first = 0;
    uint32_t end;
    const uint32_t block = w->geo.block;
    while (first < r->chunk && !wal_confirm_counts(w, r->block + first) &&
           !wal_is_zero(w->chunk + (size_t)first * block, block))
        first++;
    r->block += first;
    for (end = first; end < r->chunk; end++)
        if (!wal_confirm_counts(w, r->block + end - first) &&
            !wal_is_zero(w->chunk + (size_t)end * block, block))
            break;
    r->chunk = end - first;
    if (r->chunk == 0) {
        wal_confirm_next(w);
        return;
    }
    wal_op_begin(w, &w->side, SNIC_IO_WRITE, wal_offset(&w->geo, r->gen, r->block),
                 w->chunk + (size_t)first * block, (uint64_t)r->chunk * block, wal_confirm_written);
}

static void wal_confirm_next(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    uint32_t stop = w->geo.segment_blocks;
    int doubt = w->report.verdict != SNIC_WAL_CLEAN;
    if (doubt)
        stop = r->gen == r->tail_gen && r->gen == w->next.gen ? w->next.block : 0;
    if (r->block >= stop && !doubt && r->gen == w->next.gen && wal_free_segments(w) > 0) {
        r->gen++;
        r->block = 0;
    }
    if (r->block >= stop) {
        wal_op_begin(w, &w->side, SNIC_IO_FLUSH, 0, NULL, 0, wal_confirm_flushed);
        return;
    }
    r->chunk = wal_piece_blocks(w, stop - r->block);
    wal_op_begin(w, &w->read, SNIC_IO_READ, wal_offset(&w->geo, r->gen, r->block), w->chunk,
                 (uint64_t)r->chunk * w->geo.block, wal_confirm_arrived);
}

void wal_confirm_begin(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    w->doing = "the end of the log cannot be made durable: a write or flush failed";
    if (wal_trusts_reads(w)) {
        wal_op_begin(w, &w->side, SNIC_IO_FLUSH, 0, NULL, 0, wal_confirm_flushed);
        return;
    }
    r->gen = w->next.gen;
    r->block = r->tail_gen == 0 ? 0 : r->tail.batch_first;
    wal_confirm_next(w);
}
