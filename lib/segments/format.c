/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Opening a device up to its log: is there a store, may one be made; marks and tables; and making
 * one.
 *
 * Format writes zeros over the first pages, then over the tables, then makes the log, then writes
 * the first superblock, then the second, each durable before the next: a device is not a store
 * until all of it is there, and a format that did not come to its end is seen as a blank device.
 * A device that is blank but has something where records of the log or the first tables would be
 * has lost its first pages: nothing is written on it, unless a format is asked for.
 *
 * Of several devices none has its second superblock before all have their first, durably: one that
 * was read is flushed, if it has no second beside it. So where one is blank, a format has to be
 * finished if no other has the second; else the blank one is in the place of a device that was
 * there, and nothing is written.
 */
#include "segments/segments_priv.h"

#define SNIC_SEGMENTS__BLANK_BYTES (UINT64_C(4) << 20) /* of tables, which are to be zeros */

static unsigned char *segments_load_page(const struct segments_disk *d, uint32_t n)
{
    return d->round.op[0].page + (size_t)n * SNIC_SEGMENTS__PAGE;
}

/* ---- Requests, one at a time ---- */

static void segments_load_io(struct segments_disk *d, uint8_t op, uint64_t offset, void *bytes,
                             uint64_t length, void (*then)(struct segments_io *io))
{
    segments_io_fill(&d->load.io, op, offset, bytes, length);
    d->load.io.then = then;
    segments_io_queue(d, &d->load.io);
}

/** 1: the transfer was complete; otherwise opening this device has ended. */
static int segments_load_good(const struct segments_io *io)
{
    int64_t want = io->req.op == SNIC_IO_FLUSH ? 0 : (int64_t)io->req.length;
    if (io->disk->store->closing)
        return 0;
    if (io->req.result == want)
        return 1;
    segments_loaded(io->disk, io->req.result < 0 ? (int)io->req.result : SNIC_EIO);
    return 0;
}

static void segments_load_read_on(struct segments_disk *d);

static void segments_load_read_done(struct segments_io *io)
{
    struct segments_disk *d = io->disk;
    struct segments_load *l = &d->load;
    int whole = io->req.result == (int64_t)io->req.length;
    if (d->store->closing)
        return;
    if (l->single == 0 && whole) {
        l->then(d);
        return;
    }
    if (l->single != 0 && !whole) { /* not a page, and not zeros */
        memset(l->bytes + (size_t)(l->single - 1) * SNIC_SEGMENTS__PAGE, 0xff, SNIC_SEGMENTS__PAGE);
        l->unread++;
    }
    if (l->single++ == l->pages)
        l->then(d);
    else
        segments_load_read_on(d);
}

static void segments_load_read_on(struct segments_disk *d)
{
    struct segments_load *l = &d->load;
    uint64_t page = l->single != 0 ? l->single - 1 : 0;
    segments_load_io(d, SNIC_IO_READ, l->offset + page * SNIC_SEGMENTS__PAGE,
                     l->bytes + page * SNIC_SEGMENTS__PAGE,
                     (uint64_t)(l->single != 0 ? 1 : l->pages) * SNIC_SEGMENTS__PAGE,
                     segments_load_read_done);
}

static void segments_load_read(struct segments_disk *d, uint64_t offset, unsigned char *bytes,
                               uint32_t pages, void (*then)(struct segments_disk *d))
{
    struct segments_load *l = &d->load;
    l->offset = offset;
    l->bytes = bytes;
    l->pages = pages;
    l->single = 0;
    l->unread = 0;
    l->then = then;
    segments_load_read_on(d);
}

/* ---- Superblocks written ---- */

static void segments_super_write(struct segments_disk *d);

/** The log is open. A new one: superblocks make the device a store. */
static void segments_log_loaded(struct segments_disk *d)
{
    if (!d->load.format) {
        segments_loaded(d, 0);
        return;
    }
    d->load.repair[0] = 1;
    d->load.repair[1] = 1;
    d->load.probe = 0;
    segments_super_write(d);
}

static void segments_super_flushed(struct segments_io *io)
{
    struct segments_load *l = &io->disk->load;
    if (!segments_load_good(io))
        return;
    l->probe++;
    l->first = 1;
    segments_super_write(io->disk);
    io->disk->store->open_step(io->disk->store);
}

static void segments_super_written(struct segments_io *io)
{
    if (segments_load_good(io))
        segments_load_io(io->disk, SNIC_IO_FLUSH, 0, NULL, 0, segments_super_flushed);
}

static void segments_super_write(struct segments_disk *d)
{
    struct segments_load *l = &d->load;
    while (l->probe < 2 && !l->repair[l->probe])
        l->probe++;
    if (l->probe == 1 && l->second == SEGMENTS_SECOND_WAITS) {
        l->waits = 1;
    } else if (l->probe == 1 && l->second == SEGMENTS_SECOND_NEVER) {
        segments_loaded(d, SNIC_ECANCELED);
    } else if (l->probe < 2) {
        segments_super_encode(&d->geo, segments_load_page(d, 0));
        segments_load_io(d, SNIC_IO_WRITE, (uint64_t)l->probe * SNIC_SEGMENTS__PAGE,
                         segments_load_page(d, 0), SNIC_SEGMENTS__PAGE, segments_super_written);
    } else if (l->format) {
        d->store->report.formatted++;
        segments_loaded(d, 0);
    } else {
        segments_load_log(d, segments_log_loaded);
    }
}

/* All have their first superblock: devices that wait for that continue. Not beside one that failed,
 * though, since it may have none. */
void segments_super_seconds(struct snic_segments *s)
{
    uint32_t may = SEGMENTS_SECOND_MAY;
    for (uint32_t i = 0; i < s->disks; i++) {
        const struct segments_disk *d = &s->disk[i];
        if (!d->loaded && !d->load.first)
            return;
        if (d->loaded && d->result != 0)
            may = SEGMENTS_SECOND_NEVER;
    }
    for (uint32_t i = 0; i < s->disks; i++) {
        struct segments_disk *d = &s->disk[i];
        if (d->load.second == SEGMENTS_SECOND_WAITS)
            d->load.second = may;
        if (!d->load.waits)
            continue;
        d->load.waits = 0;
        if (may == SEGMENTS_SECOND_NEVER)
            segments_load_end(d, SNIC_ECANCELED);
        else
            segments_super_write(d);
    }
}

/* ---- Making a store ---- */

static void segments_format_zero(struct segments_disk *d);

static void segments_format_flushed(struct segments_io *io)
{
    struct segments_disk *d = io->disk;
    struct segments_load *l = &d->load;
    if (!segments_load_good(io))
        return;
    if (l->at > d->geo.table_at) {
        segments_load_log(d, segments_log_loaded);
        return;
    }
    l->at = d->geo.table_at;
    l->end = d->geo.data_at;
    segments_format_zero(d);
}

static void segments_format_written(struct segments_io *io)
{
    if (!segments_load_good(io))
        return;
    io->disk->load.at += io->req.length;
    segments_format_zero(io->disk);
}

static void segments_format_zero(struct segments_disk *d)
{
    struct segments_load *l = &d->load;
    uint64_t most = (uint64_t)SNIC_SEGMENTS__OPS * SNIC_SEGMENTS__PAGE;
    if (l->at == l->end) {
        segments_load_io(d, SNIC_IO_FLUSH, 0, NULL, 0, segments_format_flushed);
        return;
    }
    most = snic_min_u64(most,
                        d->io->geometry.transfer_max / SNIC_SEGMENTS__PAGE * SNIC_SEGMENTS__PAGE);
    segments_load_io(d, SNIC_IO_WRITE, l->at, segments_load_page(d, 0),
                     snic_min_u64(most, l->end - l->at), segments_format_written);
}

static void segments_format_begin(struct segments_disk *d);
static void segments_blank_read(struct segments_disk *d);

static void segments_blank_arrived(struct segments_disk *d)
{
    struct segments_load *l = &d->load;
    size_t size = (size_t)l->pages * SNIC_SEGMENTS__PAGE;
    l->at += l->at < d->geo.table_at ? d->geo.wal_segment : size;
    if (l->unread != 0)
        segments_loaded(d, SNIC_EIO);
    else if (!segments_is_zero(l->bytes, size))
        segments_loaded(d, SNIC_EEXIST);
    else
        segments_blank_read(d);
}

static void segments_blank_read(struct segments_disk *d)
{
    struct segments_load *l = &d->load;
    uint64_t pages = (l->end - l->at) / SNIC_SEGMENTS__PAGE;
    if (l->at < d->geo.table_at)
        pages = 1;
    if (pages == 0)
        segments_format_begin(d);
    else
        segments_load_read(d, l->at, segments_load_page(d, 0),
                           (uint32_t)snic_min_u64(pages, SNIC_SEGMENTS__CHUNK),
                           segments_blank_arrived);
}

/** What a store in use has: records at the beginning of the log's segments, and tables of the first
 * places. A format leaves neither. */
static void segments_blank_begin(struct segments_disk *d)
{
    struct segments_load *l = &d->load;
    uint64_t copy = (d->geo.data_at - d->geo.table_at) / 2;
    l->at = SNIC_SEGMENTS__LOG_AT + SNIC_SEGMENTS__LOG_HEAD;
    l->end = d->geo.table_at + snic_min_u64(copy, SNIC_SEGMENTS__BLANK_BYTES);
    segments_blank_read(d);
}

static void segments_format_begin(struct segments_disk *d)
{
    struct segments_load *l = &d->load;
    memset(segments_load_page(d, 0), 0, (size_t)SNIC_SEGMENTS__OPS * SNIC_SEGMENTS__PAGE);
    l->format = 1;
    l->at = 0;
    l->end = 4 * SNIC_SEGMENTS__PAGE;
    segments_format_zero(d);
}

/* ---- Tables ---- */

static void segments_tables_read(struct segments_disk *d);

static void segments_tables_arrived(struct segments_disk *d)
{
    struct segments_load *l = &d->load;
    size_t each = (size_t)SNIC_SEGMENTS__PAGES * SNIC_SEGMENTS__PAGE;
    if (l->copy == 0) {
        l->copy = 1;
        segments_tables_read(d);
        return;
    }
    for (uint32_t i = 0; i < l->places; i++)
        segments_load_place(d, l->place + i, segments_load_page(d, 0) + i * each,
                            segments_load_page(d, SNIC_SEGMENTS__CHUNK) + i * each);
    l->place += l->places;
    l->copy = 0;
    segments_tables_read(d);
}

static void segments_tables_read(struct segments_disk *d)
{
    struct segments_load *l = &d->load;
    uint32_t left = d->geo.places - l->place;
    if (left == 0) {
        l->probe = 0;
        segments_super_write(d);
        return;
    }
    l->places = SNIC_SEGMENTS__CHUNK / SNIC_SEGMENTS__PAGES;
    if (l->places > left)
        l->places = left;
    segments_load_read(d, segments_page_offset(&d->geo, l->place, 0, l->copy),
                       segments_load_page(d, l->copy * SNIC_SEGMENTS__CHUNK),
                       l->places * SNIC_SEGMENTS__PAGES, segments_tables_arrived);
}

/* ---- The first pages ---- */

static void segments_marks_take(struct segments_disk *d)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct segments_mark m;
        const unsigned char *b = segments_load_page(d, 2 + i);
        if (segments_mark_decode(&d->geo, &m, b)) {
            if (m.round % 2 == i && m.round > d->mark.round)
                d->mark = m;
        } else {
            d->store->report.repaired += !segments_is_zero(b, SNIC_SEGMENTS__PAGE);
        }
    }
    d->stamp = d->mark.stamp;
}

/** 0: `g` is the store that is there. */
static int segments_super_judge(struct segments_disk *d, struct segments_geo *g)
{
    struct segments_geo each[2];
    int r[2];
    int blank = 1;
    for (uint32_t i = 0; i < 4; i++)
        blank &= segments_is_zero(segments_load_page(d, i), SNIC_SEGMENTS__PAGE);
    if (blank)
        return SNIC_ENOENT;
    for (uint32_t i = 0; i < 2; i++) {
        r[i] = segments_super_decode(&each[i], segments_load_page(d, i));
        d->load.repair[i] = r[i] != 0;
    }
    d->load.half = r[0] == 0;
    for (uint32_t i = 1; i < 4; i++)
        d->load.half &= (uint32_t)segments_is_zero(segments_load_page(d, i), SNIC_SEGMENTS__PAGE);
    if (r[0] != 0 && r[1] != 0 && d->load.unread != 0)
        return SNIC_EIO;
    if (r[0] != 0 && r[1] != 0) {
        if (r[0] == SNIC_EVERSION || r[1] == SNIC_EVERSION) {
            g->version = each[r[0] != SNIC_EVERSION].version;
            return SNIC_EVERSION;
        }
        return r[0] == SNIC_ECORRUPT || r[1] == SNIC_ECORRUPT ? SNIC_ECORRUPT : SNIC_EEXIST;
    }
    if (r[0] == 0 && r[1] == 0 &&
        memcmp(segments_load_page(d, 0), segments_load_page(d, 1), SNIC_SEGMENTS__PAGE) != 0)
        return SNIC_ECORRUPT;
    d->store->report.repaired += r[0] != r[1];
    *g = each[r[0] != 0];
    return 0;
}

/** Is it what the options describe? */
static int segments_super_fits(struct segments_disk *d, const struct segments_geo *g)
{
    const struct segments_geo *want = &d->geo;
    if (g->disk != want->disk || g->disks != want->disks)
        return SNIC_ECORRUPT;
    int same = g->log_bytes == want->log_bytes && g->wal_segment == want->wal_segment;
    if (same && g->places != 0 && g->places <= want->places)
        return 0;
    d->geo.log_bytes = g->log_bytes;
    return same && g->places != 0 ? SNIC_ENOSPC : SNIC_EINVAL;
}

static void segments_super_take(struct segments_disk *d)
{
    d->load.found.cache_blocks = d->geo.cache_blocks;
    d->geo = d->load.found;
    segments_geo_derive(&d->geo);
    segments_marks_take(d);
    segments_tables_read(d);
}

/* The store that a blank device joins: a new one (*of NULL) if all are blank, that of a format that
 * did not come to its end, or none, with an error. */
static int segments_blank_of(const struct snic_segments *s, const struct segments_geo **of)
{
    int r = 0;
    *of = NULL;
    for (uint32_t i = 0; i < s->disks; i++) {
        const struct segments_disk *d = &s->disk[i];
        const struct segments_geo *g = &d->load.found;
        if (!d->loaded && d->load.judgement == SNIC_ENOENT)
            continue;
        if (d->loaded || d->load.judgement != 0 ||
            (*of != NULL && memcmp(g->uuid, (*of)->uuid, sizeof(g->uuid)) != 0))
            return SNIC_ECANCELED; /* the others are what is wrong */
        if (!d->load.half)
            r = SNIC_ENOENT;
        *of = g;
    }
    return r;
}

/* A first superblock that was read may be in the device's cache only: its writer may have died
 * before the flush. The other devices write their second when it is durable. */
static void segments_half_flushed(struct segments_io *io)
{
    if (!segments_load_good(io))
        return;
    io->disk->load.first = 1;
    segments_super_take(io->disk);
    io->disk->store->open_step(io->disk->store);
}

/** 1: devices of different stores, that is, not all are of the first one's. Nothing is written. */
static int segments_mixed(struct snic_segments *s)
{
    const struct segments_disk *first = NULL;
    int mixed = 0;
    for (uint32_t i = 0; i < s->disks; i++) {
        struct segments_disk *d = &s->disk[i];
        if (d->loaded || d->load.judgement != 0)
            continue;
        first = first == NULL ? d : first;
        d->load.mixed =
            memcmp(d->load.found.uuid, first->load.found.uuid, sizeof(d->load.found.uuid)) != 0;
        mixed |= (int)d->load.mixed;
    }
    for (uint32_t i = 0; i < s->disks && mixed; i++)
        if (!s->disk[i].loaded)
            segments_load_end(&s->disk[i], s->disk[i].load.mixed ? SNIC_ECORRUPT : SNIC_ECANCELED);
    return mixed;
}

/** All devices have been looked at. */
static void segments_judged(struct snic_segments *s)
{
    const struct segments_geo *of;
    if ((s->opts.flags & SNIC_SEGMENTS_FORMAT) == 0 && segments_mixed(s))
        return;
    int may = segments_blank_of(s, &of);
    for (uint32_t i = 0; i < s->disks; i++) {
        struct segments_disk *d = &s->disk[i];
        int r = d->load.judgement;
        if (d->loaded)
            continue;
        if ((s->opts.flags & SNIC_SEGMENTS_FORMAT) != 0) {
            segments_format_begin(d);
        } else if (r == 0 && d->load.repair[1] != 0) {
            segments_load_io(d, SNIC_IO_FLUSH, 0, NULL, 0, segments_half_flushed);
        } else if (r == 0) {
            d->load.first = 1;
            segments_super_take(d);
        } else if (r != SNIC_ENOENT || (s->opts.flags & SNIC_SEGMENTS_BLANK) == 0) {
            segments_load_end(d, r);
        } else if (may != 0) {
            segments_load_end(d, may);
        } else {
            if (of != NULL)
                memcpy(d->geo.uuid, of->uuid, sizeof(d->geo.uuid));
            segments_geo_derive(&d->geo);
            segments_blank_begin(d);
        }
    }
}

void segments_look(struct snic_segments *s)
{
    for (uint32_t i = 0; i < s->disks; i++)
        if (!s->disk[i].load.judged && !s->disk[i].loaded)
            return;
    if (!s->judged) {
        s->judged = 1;
        segments_judged(s);
    }
}

static void segments_first_arrived(struct segments_disk *d)
{
    struct snic_segments *s = d->store;
    d->load.judgement = segments_super_judge(d, &d->load.found);
    if (d->load.judgement == 0 && (s->opts.flags & SNIC_SEGMENTS_FORMAT) == 0)
        d->load.judgement = segments_super_fits(d, &d->load.found);
    d->load.judged = 1;
    s->open_step(s);
}

void segments_load_begin(struct segments_disk *d)
{
    segments_load_read(d, 0, segments_load_page(d, 0), 4, segments_first_arrived);
}
