/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Recovery: the records from the oldest needed generation to the end, and the verdict on them.
 *
 * Everything in front of the last batch had been durable before that one began (W1). So a record
 * that is missing there is lost: CORRUPT. That one is missing is known by the positions (W4): the
 * next record's, or the next batch's base. A damaged block without consequences for them is
 * counted, no more. The last batch is there as a whole (its blocks hold their number), or in
 * part: then it is in doubt from the first missing block on, and so is a log behind whose last
 * block there are others that are neither empty nor left over from an earlier use, within the reach
 * of one batch: SUSPECT.
 *
 * What was found is made durable before opened() reports it (confirm.c).
 */
#include "wal/wal_priv.h"

static void wal_recover_read(struct snic_wal *w);

/* ---- The verdict ---- */

static void wal_recover_gap(struct snic_wal *w, uint64_t first, uint64_t last)
{
    struct snic_wal_report *p = &w->report;
    if (p->gaps++ == 0) {
        p->first_missing = first;
        p->last_missing = last;
    }
    p->verdict = SNIC_WAL_CORRUPT;
}

static void wal_recover_suspect(struct snic_wal *w)
{
    if (w->report.verdict == SNIC_WAL_CLEAN)
        w->report.verdict = SNIC_WAL_SUSPECT;
}

/** Are there damaged blocks where a batch behind the last one would be? */
static int wal_recover_rubble(const struct snic_wal *w)
{
    const struct wal_recover *r = &w->recover;
    const struct wal_geo *g = &w->geo;
    if (r->tail_gen == 0)
        return r->tail_bad_next < g->batch_blocks;
    uint32_t end = r->tail.index + 1;
    if (r->tail_bad != UINT32_MAX && r->tail_bad - end < g->batch_blocks)
        return 1;
    int next_is_free = r->tail_gen + 1 - w->oldest < g->segments;
    return g->segment_blocks - end < g->batch_blocks && r->tail_bad_next < g->batch_blocks &&
           next_is_free;
}

static void wal_recover_end(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    /* The last batch proves all before it, also where its own beginning is not there (W1). */
    if (r->tail_gen != 0 && r->tail.base > w->last_seq) {
        uint64_t first = r->started && !r->beheaded ? w->last_seq + 1 : 0;
        wal_recover_gap(w, first, r->tail.base);
        w->last_seq = r->tail.base;
        r->crc_known = 0;
    } else if (r->beheaded) {
        wal_recover_gap(w, 0, w->last_seq);
    }
    w->next.gen = snic_max_u64(r->tail_gen, 1);
    w->next.block = r->tail_gen == 0 ? 0 : r->tail.index + 1;
    if (r->torn) {
        w->next = r->place;
    } else if (r->tail_gen != 0 && r->tail.batch_end != r->tail.index + 1) {
        r->torn = 1;
    }
    if (r->torn || wal_recover_rubble(w))
        wal_recover_suspect(w);
    w->announced = w->oldest;
    w->announcing = w->oldest;
    w->durable_gen = w->next.gen - (w->next.block == 0); /* that has a block */
    w->durable_seq = w->last_seq;
    w->compact.copied = w->report.verdict == SNIC_WAL_CORRUPT ? 0 : r->copied;
    if (!r->crc_known)
        w->last_crc = 0;
    wal_confirm_begin(w);
}

/* ---- Records ---- */

static void wal_recover_give(struct snic_wal *w, struct wal_record *rec)
{
    struct snic_wal_report *p = &w->report;
    struct wal_recover *r = &w->recover;
    uint64_t at = rec->r.position;
    if (at <= w->last_seq) {
        p->damaged_blocks++; /* there is one of that position already */
        return;
    }
    if (r->beheaded)
        wal_recover_gap(w, 0, at - 1);
    else if (at != w->last_seq + 1)
        wal_recover_gap(w, w->last_seq + 1, at - 1);
    r->beheaded = 0;
    int broken = at == w->last_seq + 1 && r->crc_known && rec->prev != w->last_crc;
    w->last_seq = at;
    w->last_crc = rec->crc;
    r->crc_known = 1;
    if (broken) {
        wal_recover_gap(w, at, at);
        return;
    }
    r->copied = snic_max_u64(r->copied, rec->origin);
    p->records++;
    p->bytes += rec->r.length;
    p->first = p->first != 0 ? p->first : at;
    p->last = at;
    if (rec->r.epoch > p->epoch)
        p->epoch = rec->r.epoch;
    if (w->events.found != NULL)
        w->events.found(w->ctx, &rec->r);
}

/** A batch begins, or what is left of one. */
static void wal_recover_batch(struct snic_wal *w, const struct wal_block *b)
{
    struct wal_recover *r = &w->recover;
    if (r->started && r->batch_gen == b->generation && r->batch == b->batch_first)
        return;
    r->batch_gen = b->generation;
    r->batch = b->batch_first;
    if (!r->started && (b->index > 0 || b->generation != w->oldest)) {
        r->beheaded = 1; /* the first missing position is unknown */
    } else if (r->started && !r->beheaded && b->base > w->last_seq) {
        wal_recover_gap(w, w->last_seq + 1, b->base);
        r->crc_known = 0;
    }
    r->started = 1;
    if (b->base > w->last_seq)
        w->last_seq = b->base;
}

/** 0: the log ends before this block. */
static int wal_recover_block(struct snic_wal *w, uint32_t index, const unsigned char *at)
{
    struct wal_recover *r = &w->recover;
    struct wal_record rec;
    struct wal_block b;
    int e;
    enum wal_block_kind kind = wal_block_decode(&w->geo, &b, r->gen, index, at);
    if (kind != WAL_BLOCK_LIVE) {
        if (r->gen == r->tail_gen && index >= r->tail.batch_first) {
            r->torn = 1;
            r->place.gen = r->gen;
            r->place.block = index;
            return 0;
        }
        w->report.damaged_blocks += kind == WAL_BLOCK_BAD;
        w->reader.have = 0;
        return 1;
    }
    wal_recover_batch(w, &b);
    wal_reader_block(&w->reader, &b, at);
    while ((e = wal_reader_next(&w->reader, &w->geo, &rec)) > 0) {
        w->tail_bytes += wal_record_size(rec.r.length);
        wal_recover_give(w, &rec);
    }
    w->report.damaged_blocks += e < 0;
    return 1;
}

static void wal_recover_arrived(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    for (uint32_t i = 0; i < r->chunk; i++) {
        int past = r->gen == r->tail_gen && r->block + i > r->tail.index;
        if (past || !wal_recover_block(w, r->block + i, w->chunk + (size_t)i * w->geo.block)) {
            wal_recover_end(w);
            return;
        }
    }
    r->block += r->chunk;
    if (r->block == w->geo.segment_blocks) {
        if (r->gen == r->tail_gen) {
            wal_recover_end(w);
            return;
        }
        w->growth += wal_growth(&w->geo, w->tail_bytes);
        w->tail_bytes = 0;
        r->gen++;
        r->block = 0;
        wal_reader_start(&w->reader, r->gen);
    }
    wal_recover_read(w);
}

static void wal_recover_read(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    r->chunk = wal_piece_blocks(w, w->geo.segment_blocks - r->block);
    wal_op_begin(w, &w->read, SNIC_IO_READ, wal_offset(&w->geo, r->gen, r->block), w->chunk,
                 (uint64_t)r->chunk * w->geo.block, wal_recover_arrived);
}

void wal_recover_begin(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    w->doing = "the records of the log cannot be read";
    w->oldest = r->oldest;
    if (r->tail_gen >= w->geo.segments)
        w->oldest = snic_max_u64(w->oldest, r->tail_gen - w->geo.segments + 1);
    uint64_t left = r->tail_gen == 0 ? 0 : r->tail_gen - w->oldest + 1;
    left += wal_trusts_reads(w) ? 0 : 4; /* confirm.c reads two segments, and writes */
    w->info.opening_total = w->info.opening_bytes + left * w->geo.segment;
    if (r->tail_gen == 0) {
        wal_recover_end(w);
        return;
    }
    r->gen = w->oldest;
    r->block = 0;
    wal_reader_start(&w->reader, r->gen);
    wal_recover_read(w);
}
