/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Opening up to the superblocks: is there a log, may one be made; and making one.
 *
 * Format writes zeros over all of it, the superblocks' places first; then the first superblock,
 * then the second. So a device is not a log until it has been written whole and its space is there.
 * A format of a blank device that did not come to its end is seen as a blank device: a first
 * superblock without a second and with nothing else. One that was to replace something leaves a
 * part of that, and has to be repeated.
 *
 * Zeros where a log begins do not make a device blank: a log whose first pages were wiped is behind
 * them. All of a device is read before a log is made on it without SNIC_WAL_FORMAT.
 */
#include "wal/wal_priv.h"

/* ---- Sizes ---- */

static uint32_t wal_format_block(const struct snic_io_geometry *io)
{
    uint64_t b = 4096;
    b = snic_max_u64(b, snic_min_u64(io->atomic_write, 65536));
    b = snic_max_u64(b, snic_max_u64(io->offset_align, io->length_align));
    return (uint32_t)snic_max_u64(b, io->memory_align);
}

int wal_format_geo(struct wal_geo *g, const struct snic_io *io, const struct snic_wal_opts *o)
{
    const struct snic_io_geometry *d = &io->geometry;
    memset(g, 0, sizeof(*g));
    g->block = o->block_bytes != 0 ? o->block_bytes : wal_format_block(d);
    g->segment = o->segment_bytes != 0 ? o->segment_bytes : 4u << 20;
    g->record_max = o->record_max;
    if (g->record_max == 0)
        g->record_max = (uint32_t)snic_min_u64(65536, g->segment / 32);
    if (o->segment_bytes == 0) /* some of the longest records fit */
        while (g->segment < 1u << 30 && g->segment / SNIC_WAL__RECORDS_MIN < g->record_max)
            g->segment *= 2;
    if (!snic_is_pow2(g->block) || g->block < 512 || g->block > 65536)
        return SNIC_EINVAL;
    uint64_t batch = o->batch_bytes;
    if (batch == 0) {
        uint64_t payload = g->block - SNIC_WAL__BLOCK_HEAD;
        uint64_t record = (wal_record_size(g->record_max) + payload - 1) / payload * g->block;
        batch = snic_max_u64(262144, (uint64_t)SNIC_WAL__BATCH_BLOCKS_MIN * g->block);
        batch = snic_max_u64(batch, record);
        batch = snic_min_u64(batch, snic_min_u64(g->segment, d->transfer_max));
        batch = snic_align_down(batch, g->block);
    }
    if (batch % g->block != 0)
        return SNIC_EINVAL;
    g->batch_blocks = (uint32_t)(batch / g->block);
    g->uuid[0] = o->uuid[0];
    g->uuid[1] = o->uuid[1];
    uint64_t head = (uint64_t)SNIC_WAL__UNITS * (g->block > 4096 ? g->block : 4096);
    uint64_t segments = 0;
    if (d->size > head)
        segments = (d->size - head) / g->segment;
    g->segments = (uint32_t)snic_min_u64(segments, UINT32_MAX / 2);
    int r = wal_geo_fits(g, d);
    if (r == 0)
        wal_geo_derive(g);
    return r;
}

/* ---- Making a log ---- */

static void wal_format_super(struct snic_wal *w);

static void wal_format_super_flushed(struct snic_wal *w)
{
    w->recover.probe++;
    wal_format_super(w);
}

static void wal_format_super_written(struct snic_wal *w)
{
    wal_op_begin(w, &w->side, SNIC_IO_FLUSH, 0, NULL, 0, wal_format_super_flushed);
}

static void wal_format_done(struct snic_wal *w)
{
    w->next.gen = 1;
    w->oldest = 1;
    w->announced = 1;
    w->announcing = 1;
    w->report.formatted = 1;
    wal_opened(w, 0);
}

/** Write those of the two superblocks that are bad, then continue. */
static void wal_format_super(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    while (r->probe < 2 && !r->probe_bad[r->probe])
        r->probe++;
    if (r->probe == 2) {
        if (r->blank)
            wal_format_done(w);
        else
            wal_meta_read(w, wal_tail_begin);
        return;
    }
    uint64_t offset = wal_unit_offset(&w->geo, r->probe == 0 ? 0 : SNIC_WAL__UNIT_SUPER_B);
    memset(w->meta.slot, 0, 2 * (size_t)w->geo.unit);
    wal_super_encode(&w->geo, w->meta.slot);
    wal_op_begin(w, &w->side, SNIC_IO_WRITE, offset, w->meta.slot, w->geo.unit,
                 wal_format_super_written);
}

static void wal_format_zero(struct snic_wal *w);

static void wal_format_zero_flushed(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    if (r->at < r->end) {
        wal_format_zero(w);
        return;
    }
    r->probe = 0;
    r->probe_bad[0] = 1;
    r->probe_bad[1] = 1;
    r->blank = 1;
    wal_format_super(w);
}

static void wal_format_zero_written(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    r->at += w->side.length;
    if (r->at == wal_unit_offset(&w->geo, SNIC_WAL__UNITS) || r->at == r->end)
        wal_op_begin(w, &w->side, SNIC_IO_FLUSH, 0, NULL, 0, wal_format_zero_flushed);
    else
        wal_format_zero(w);
}

static void wal_format_zero(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    uint64_t head = wal_unit_offset(&w->geo, SNIC_WAL__UNITS);
    uint64_t stop = r->at < head ? head : r->end;
    uint64_t n = snic_min_u64(stop - r->at, w->chunk_bytes);
    wal_op_begin(w, &w->side, SNIC_IO_WRITE, r->at, w->chunk, n, wal_format_zero_written);
}

static void wal_format_begin(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    int e = wal_format_geo(&r->want, w->io, &w->opts);
    if (e != 0) {
        wal_opened(w, e);
        return;
    }
    w->geo = r->want;
    w->report.uuid[0] = w->geo.uuid[0];
    w->report.uuid[1] = w->geo.uuid[1];
    w->doing = "the log cannot be formatted: a write or flush failed";
    memset(w->chunk, 0, w->chunk_bytes);
    r->at = 0;
    r->end = wal_unit_offset(&w->geo, SNIC_WAL__UNITS) + (uint64_t)w->geo.segments * w->geo.segment;
    w->info.opening_total = w->info.opening_bytes + r->end;
    wal_format_zero(w);
}

/* ---- Looking for one ---- */

/** Take a log's sizes, if this memory and this device do for them. */
static int wal_super_take(struct snic_wal *w)
{
    struct wal_geo *g = &w->geo;
    int e = wal_geo_fits(g, &w->io->geometry);
    if (e != 0)
        return e;
    wal_geo_derive(g);
    if ((uint64_t)g->batch_blocks * g->block > w->buffer_bytes ||
        g->record_max > w->recover.want.record_max || g->unit > w->recover.want.unit)
        return SNIC_EINVAL;
    w->buffer_bytes = g->batch_blocks * g->block;
    w->report.uuid[0] = g->uuid[0];
    w->report.uuid[1] = g->uuid[1];
    return 0;
}

static void wal_blank_more(struct snic_wal *w);

static void wal_blank_arrived(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    if (!wal_is_zero(w->chunk, (size_t)w->read.length)) {
        wal_opened(w, SNIC_EEXIST);
        return;
    }
    r->at += w->read.length;
    wal_blank_more(w);
}

/** What is behind the first SNIC_WAL__BLANK_BYTES, which are zeros. */
static void wal_blank_more(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    uint64_t all = snic_align_down(w->io->geometry.size, w->io->geometry.length_align);
    if (r->at < all)
        wal_op_begin(w, &w->read, SNIC_IO_READ, r->at, w->chunk,
                     snic_min_u64(all - r->at, w->chunk_bytes), wal_blank_arrived);
    else if ((w->opts.flags & SNIC_WAL_CREATE) != 0)
        wal_format_begin(w);
    else
        wal_opened(w, SNIC_ENOENT);
}

static void wal_super_decide(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    int e = 0;
    if (r->super_found)
        e = wal_super_take(w);
    else if (r->blank)
        e = 0; /* so far */
    else
        e = r->super_error != SNIC_ENOENT ? r->super_error : SNIC_EEXIST;
    if (e != 0) {
        wal_opened(w, e);
        return;
    }
    if (!r->super_found) {
        wal_blank_more(w);
        return;
    }
    r->blank = 0;
    r->probe = 0;
    if (!wal_trusts_reads(w)) { /* see confirm.c */
        r->probe_bad[0] = 1;
        r->probe_bad[1] = 1;
    }
    w->doing = "a superblock of the log cannot be made durable: a write or flush failed";
    wal_format_super(w);
}

static void wal_super_second(struct snic_wal *w);

static void wal_super_second_arrived(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    struct wal_geo g;
    int e = wal_super_decode(&g, w->chunk);
    uint32_t unit = 4096u << r->probe;
    int same = e == 0 && (g.block > 4096 ? g.block : 4096) == unit;
    if (same && !r->super_found) {
        r->super_found = 1;
        r->probe_bad[0] = 1;
        w->geo = g;
        memcpy(r->super, w->chunk, sizeof(r->super));
    }
    if (same && memcmp(r->super, w->chunk, sizeof(r->super)) == 0)
        r->probe_bad[1] = 0;
    if (e < 0 && e != SNIC_ENOENT)
        r->super_error = e;
    r->probe++;
    wal_super_second(w);
}

/** The second superblock's place depends on the block's size. */
static void wal_super_second(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    const struct snic_io_geometry *d = &w->io->geometry;
    for (; r->probe < 5; r->probe++) {
        uint64_t unit = 4096u << r->probe;
        uint64_t offset = unit * SNIC_WAL__UNIT_SUPER_B;
        uint64_t bytes = snic_max_u64(SNIC_WAL__SUPER_BYTES, d->length_align);
        if (r->super_found && !r->probe_bad[0] &&
            unit != (w->geo.block > 4096 ? w->geo.block : 4096))
            continue;
        if (unit < d->offset_align || offset + bytes > d->size)
            continue;
        wal_op_begin(w, &w->read, SNIC_IO_READ, offset, w->chunk, bytes, wal_super_second_arrived);
        return;
    }
    wal_super_decide(w);
}

static void wal_super_first_arrived(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    uint32_t skip = 0;
    if (r->at == 0 && w->read.length >= SNIC_WAL__SUPER_BYTES) {
        int e = wal_super_decode(&w->geo, w->chunk);
        r->super_found = e == 0;
        r->super_error = e;
        r->probe_bad[0] = e != 0;
        memcpy(r->super, w->chunk, sizeof(r->super));
        if (e == SNIC_ECORRUPT) /* torn, if nothing else is there: see the head of this file */
            skip = SNIC_WAL__SUPER_BYTES;
    }
    if (!wal_is_zero(w->chunk + skip, (size_t)w->read.length - skip))
        r->blank = 0;
    r->at += w->read.length;
    if (r->at < r->end) {
        wal_op_begin(w, &w->read, SNIC_IO_READ, r->at, w->chunk,
                     snic_min_u64(r->end - r->at, w->chunk_bytes), wal_super_first_arrived);
        return;
    }
    r->probe = 0;
    r->probe_bad[1] = 1;
    wal_super_second(w);
}

void wal_open_begin(struct snic_wal *w)
{
    struct wal_recover *r = &w->recover;
    uint64_t all = snic_align_down(w->io->geometry.size, w->io->geometry.length_align);
    w->doing = "the superblocks of the log cannot be read";
    if ((w->opts.flags & SNIC_WAL_FORMAT) != 0 && wal_format_geo(&r->want, w->io, &w->opts) == 0) {
        wal_format_begin(w);
        return;
    }
    r->blank = 1;
    r->super_error = SNIC_ENOENT;
    r->at = 0;
    r->end = snic_min_u64(all, SNIC_WAL__BLANK_BYTES);
    wal_op_begin(w, &w->read, SNIC_IO_READ, 0, w->chunk, snic_min_u64(r->end, w->chunk_bytes),
                 wal_super_first_arrived);
}
