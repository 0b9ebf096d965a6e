/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Where the log ends: the segment of the highest generation is looked through for its last block,
 * then the one behind, as long as there is something. And cutting off an end that is in doubt.
 */
#include "wal/wal_priv.h"

/* ---- Finding it ---- */

static void wal_tail_scan(struct snic_wal *w);

static void wal_tail_scan_begin(struct snic_wal *w, uint64_t gen)
{
    struct wal_recover *r = &w->recover;
    r->gen = gen;
    r->block = 0;
    r->live = 0;
    r->bad_at = UINT32_MAX;
    r->scans++;
    wal_tail_scan(w);
}

/** One segment has been looked through. */
static void wal_tail_scanned(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    if (r->live == 0 || r->scans > w->geo.segments) {
        r->tail_bad_next = r->bad_at;
        wal_recover_begin(w);
        return;
    }
    r->tail_gen = r->gen;
    r->tail = r->last;
    r->tail_bad = r->bad_at;
    wal_tail_scan_begin(w, r->gen + 1);
}

static void wal_tail_arrived(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    for (uint32_t i = 0; i < r->chunk; i++) {
        struct wal_block b;
        enum wal_block_kind kind = wal_block_decode(&w->geo, &b, r->gen, r->block + i,
                                                    w->chunk + (size_t)i * w->geo.block);
        if (kind == WAL_BLOCK_LIVE) {
            r->live++;
            r->last = b;
            r->bad_at = UINT32_MAX;
            r->oldest = snic_max_u64(r->oldest, b.oldest);
        } else if (kind == WAL_BLOCK_BAD && r->bad_at == UINT32_MAX) {
            r->bad_at = r->block + i;
        }
    }
    r->block += r->chunk;
    if (r->block < w->geo.segment_blocks)
        wal_tail_scan(w);
    else
        wal_tail_scanned(w);
}

static void wal_tail_scan(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    r->chunk = wal_piece_blocks(w, w->geo.segment_blocks - r->block);
    wal_op_begin(w, &w->read, SNIC_IO_READ, wal_offset(&w->geo, r->gen, r->block), w->chunk,
                 (uint64_t)r->chunk * w->geo.block, wal_tail_arrived);
}

/* ---- The highest generation: the first block of every segment ---- */

static void wal_tail_probe(struct snic_wal *w);

/** A generation above all, of the segment @p i. */
static uint64_t wal_tail_above(const struct snic_wal *w, uint64_t i)
{
    return SNIC_WAL__GENERATION_MAX - SNIC_WAL__GENERATION_MAX % w->geo.segments + w->geo.segments +
           i;
}

static void wal_tail_probed(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    struct wal_block b;
    if (wal_block_decode(&w->geo, &b, wal_tail_above(w, r->at), 0, w->chunk) == WAL_BLOCK_STALE)
        r->gen_max = snic_max_u64(r->gen_max, b.generation);
    r->at++;
    wal_tail_probe(w);
}

static void wal_tail_probe(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    if (r->at == w->geo.segments) {
        wal_tail_scan_begin(w, snic_max_u64(r->gen_max, 1));
        return;
    }
    wal_op_begin(w, &w->read, SNIC_IO_READ, wal_offset(&w->geo, r->at, 0), w->chunk, w->geo.block,
                 wal_tail_probed);
}

void wal_tail_begin(struct snic_wal *w)
{
    w->doing = "the end of the log cannot be read";
    w->info.opening_total =
        w->info.opening_bytes + (uint64_t)w->geo.segments * (w->geo.block + w->geo.segment);
    w->report.meta = w->meta.state;
    w->recover.at = 0;
    w->recover.oldest = 1;
    wal_tail_probe(w);
}

/* ---- Cutting it off ---- */

static void wal_erase_next(struct snic_wal *w);

/**
 * The blocks left of a batch that was cut name a batch_end beyond the cut, until a batch follows.
 * So one without records follows, or the same end would be in doubt at the next opening.
 */
static void wal_erase_flushed(struct snic_wal *w)
{
    w->tolerant = w->report.verdict == SNIC_WAL_CORRUPT ? w->next.gen : 0;
    wal_announce(w);
    if (w->batch_count == 0)
        wal_erase_done(w); /* no room for it */
}

static void wal_erase_written(struct snic_wal *w)
{
    w->recover.block += (uint32_t)(w->side.length / w->geo.block);
    wal_erase_next(w);
}

/**
 * The rest of the tail's segment, then the next one, if it is free: all of it, not what a batch has
 * there, for the appends that follow bring what lies further behind within the reach of a batch.
 */
static void wal_erase_next(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    uint32_t stop = w->geo.segment_blocks;
    if (r->block == stop && r->gen == w->next.gen && wal_free_segments(w) > 0) {
        r->gen++;
        r->block = 0;
    }
    if (r->block == stop) {
        wal_op_begin(w, &w->side, SNIC_IO_FLUSH, 0, NULL, 0, wal_erase_flushed);
        return;
    }
    uint64_t n = snic_min_u64((uint64_t)(stop - r->block) * w->geo.block,
                              snic_align_down(w->chunk_bytes, w->geo.block));
    wal_op_begin(w, &w->side, SNIC_IO_WRITE, wal_offset(&w->geo, r->gen, r->block), w->chunk, n,
                 wal_erase_written);
}

void wal_erase_pump(struct snic_wal *w)
{
    if (w->erase != WAL_JOB_WAITS || w->meta.put == WAL_JOB_RUNS)
        return;
    w->erase = WAL_JOB_RUNS;
    w->recover.gen = w->next.gen;
    w->recover.block = w->next.block;
    memset(w->chunk, 0, w->chunk_bytes);
    wal_erase_next(w);
}

int snic_wal_accept_tail(struct snic_wal *w)
{
    if (w->phase != WAL_OPEN)
        return w->phase == WAL_DEAD ? SNIC_EIO : SNIC_EBUSY;
    if (w->writable || w->erase != WAL_JOB_NONE)
        return SNIC_EINVAL;
    w->erase = WAL_JOB_WAITS;
    wal_kick(w);
    return 0;
}
