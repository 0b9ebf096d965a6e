/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What the device knows: the tables, then the records of the log above the mark, in whatever order.
 *
 * Compaction may have moved an older record behind a newer one, so nothing depends on their order:
 * an incarnation counts if it is the highest of its place, attributes if their stamp is, a block if
 * its version is. A block's record at the version that its table has already is taken all the same:
 * the table may have been written when the block was not yet durable at home.
 */
#include "segments/segments_priv.h"

/* ---- Tables ---- */

/** Of two copies the one that counts, or NULL; GOOD of an older incarnation is as good as BLANK.
 * @param[out] ended  a round that has ended wrote one of them (a first page: one of the use that
 *                    counts), so a page of the place that is not there is damaged (S7) */
static const unsigned char *segments_load_choose(struct segments_disk *d, uint32_t place,
                                                 uint32_t page, const unsigned char *const copy[2],
                                                 struct segments_page *p, int *ended)
{
    struct segments_place *at = &d->place[place];
    const unsigned char *best = NULL;
    struct segments_page got[2];
    enum segments_page_kind kind[2];
    memset(p, 0, sizeof(*p));
    for (uint32_t i = 0; i < 2; i++) {
        struct segments_entry probe[SNIC_SEGMENTS__TABLE];
        kind[i] = segments_page_decode(&d->geo, place, page, &got[i], copy[i]);
        if (kind[i] == SEGMENTS_PAGE_GOOD && page != 0 && !segments_table_read(probe, copy[i]))
            kind[i] = SEGMENTS_PAGE_BAD;
        if (kind[i] != SEGMENTS_PAGE_GOOD)
            continue;
        d->round.page_max = snic_max_u64(d->round.page_max, got[i].round);
        if (page != 0 && got[i].inc != at->attr.inc)
            continue;
        if (best == NULL || got[i].round > p->round ||
            (got[i].round == p->round && got[i].inc > p->inc)) {
            best = copy[i];
            *p = got[i];
        }
    }
    *ended = 0;
    for (uint32_t i = 0; i < 2; i++)
        *ended |= kind[i] == SEGMENTS_PAGE_GOOD && got[i].whole && got[i].round <= d->mark.round &&
                  (page != 0 || got[i].inc == p->inc);
    if (kind[0] == SEGMENTS_PAGE_BAD && kind[1] == SEGMENTS_PAGE_BAD)
        at->lost |= (uint8_t)(1u << page);
    else if (kind[0] == SEGMENTS_PAGE_BAD || kind[1] == SEGMENTS_PAGE_BAD)
        d->store->report.repaired++;
    if (memcmp(copy[0], copy[1], SNIC_SEGMENTS__PAGE) != 0) {
        at->dirty |= (uint8_t)(1u << page);
        if (kind[0] != SEGMENTS_PAGE_BAD && (kind[1] == SEGMENTS_PAGE_BAD || best == copy[0]))
            at->second |= (uint8_t)(1u << page); /* S3 */
    }
    return best;
}

void segments_load_place(struct segments_disk *d, uint32_t place, const unsigned char *first,
                         const unsigned char *second)
{
    struct segments_place *at = &d->place[place];
    int ended, whole = 0, tables = 0;
    for (uint32_t i = 0; i < SNIC_SEGMENTS__PAGES; i++) {
        const unsigned char *copy[2] = {first + (size_t)i * SNIC_SEGMENTS__PAGE,
                                        second + (size_t)i * SNIC_SEGMENTS__PAGE};
        struct segments_page p;
        const unsigned char *best = segments_load_choose(d, place, i, copy, &p, &ended);
        if (i == 0 && best != NULL) {
            segments_attr_read(&at->attr, &p, best);
            if (at->attr.inc == 0)
                at->attr.used = 0;
            d->stamp = snic_max_u64(d->stamp, at->attr.stamp);
            whole = at->attr.used && ended;
        } else if (i != 0 && best != NULL) {
            (void)segments_table_read(segments_entry(d, place, (i - 1) * SNIC_SEGMENTS__TABLE),
                                      best);
        } else if (i != 0 && whole) {
            at->lost |= (uint8_t)(1u << i);
        } else if (i != 0 && at->attr.used) {
            at->dirty |= (uint8_t)(1u << i); /* or there would be no trace that it existed */
        }
        tables |= i != 0 && at->attr.inc == 0 && ended;
    }
    if (tables)
        at->lost |= 1; /* of a segment of which there is nothing else */
}

/* ---- Records ---- */

/** Bring the place to the record's incarnation; 0: the record is of an older use of it. */
static int segments_replay_place(struct segments_disk *d, const struct segments_record *h)
{
    struct segments_place *p = &d->place[h->place];
    if (h->inc < p->attr.inc || (p->lost & 1) != 0)
        return 0; /* with a lost first page it is unknown which use of the place this is of */
    if (h->inc > p->attr.inc) {
        segments_place_clear(d, h->place);
        memset(&p->attr, 0, sizeof(p->attr));
        p->attr.inc = h->inc;
        p->attr.pad = 1; /* its attributes are to come */
        p->dirty = (1u << SNIC_SEGMENTS__PAGES) - 1;
    }
    return 1;
}

static void segments_replay_attr(struct segments_disk *d, const struct segments_record *h,
                                 const unsigned char *bytes)
{
    struct segments_place *p = &d->place[h->place];
    if (!segments_replay_place(d, h) || (h->stamp <= p->attr.stamp && !p->attr.pad))
        return;
    segments_attr_decode(&p->attr, bytes);
    p->attr.inc = h->inc;
    p->attr.stamp = h->stamp;
    p->dirty |= 1;
    if (!p->attr.used)
        segments_place_clear(d, h->place);
}

static void segments_replay_block(struct segments_disk *d, const struct segments_record *h,
                                  uint32_t block, const struct segments_version *v,
                                  const unsigned char *data)
{
    struct segments_place *p = &d->place[h->place];
    const struct segments_entry *e = segments_entry(d, h->place, block);
    struct segments_version there;
    if ((!p->attr.used && !p->attr.pad) || segments_block_lost(p, block))
        return;
    segments_version_of(d, e, &there);
    if (v->wver < there.wver || (v->wver == there.wver && e->slot != SNIC_SEGMENTS__NONE))
        return;
    if (e->slot == SNIC_SEGMENTS__NONE && d->slots_free == 0) {
        d->load.overflow = 1;
        return;
    }
    uint32_t slot = segments_slot_take(d, h->place, block, h->stamp, 0);
    d->slot[slot].v = *v;
    if (v->kind == SNIC_SEGMENTS_DATA)
        memcpy(segments_slot_bytes(d, slot), data, SNIC_SEGMENTS_BLOCK);
}

static void segments_replay_list(struct segments_disk *d, const struct segments_record *h,
                                 const unsigned char *bytes, uint32_t length)
{
    uint32_t at = h->count * SNIC_SEGMENTS__ITEM;
    for (uint32_t i = 0; i < h->count; i++) {
        struct segments_version v;
        uint32_t block;
        segments_item_decode(&v, &block, bytes + (size_t)i * SNIC_SEGMENTS__ITEM);
        uint32_t need = v.kind == SNIC_SEGMENTS_DATA ? SNIC_SEGMENTS_BLOCK : 0;
        if (block >= SNIC_SEGMENTS_BLOCKS || v.kind > SNIC_SEGMENTS_LOST || v.wver == 0 ||
            length - at < need) {
            d->load.rotten++;
            return;
        }
        segments_replay_block(d, h, block, &v, bytes + at);
        at += need;
    }
}

static void segments_wal_found(void *ctx, const struct snic_wal_record *r)
{
    struct segments_disk *d = ctx;
    struct segments_record h;
    if (!segments_record_decode(&d->geo, &h, r)) {
        d->load.rotten++;
        return;
    }
    d->stamp = snic_max_u64(d->stamp, h.stamp);
    if (h.stamp <= d->mark.stamp)
        return;
    d->unmarked_bytes += r->length + 128;
    if (h.kind == SEGMENTS_RECORD_ATTR) {
        segments_replay_attr(d, &h, r->bytes);
    } else if (segments_replay_place(d, &h)) {
        struct segments_version v = {.wver = h.wver, .data_crc = h.data_crc};
        v.block_tag = h.block_tag;
        v.kind = h.op;
        if (h.kind == SEGMENTS_RECORD_ONE)
            segments_replay_block(d, &h, h.count, &v, r->bytes);
        else
            segments_replay_list(d, &h, r->bytes, r->length);
    }
}

/* ---- The end ---- */

static void segments_report_damage(struct segments_disk *d, uint32_t place)
{
    struct snic_segments *s = d->store;
    const struct segments_place *p = &d->place[place];
    if ((p->lost & 1) != 0) {
        s->report.damaged++;
        if (s->events.damaged != NULL)
            s->events.damaged(s->ctx, d->number, place, 0, 0);
        return;
    }
    for (uint32_t i = 1; i < SNIC_SEGMENTS__PAGES && p->attr.used; i++) {
        if ((p->lost >> i & 1) == 0)
            continue;
        s->report.damaged++;
        if (s->events.damaged != NULL)
            s->events.damaged(s->ctx, d->number, p->attr.seg_id, (i - 1) * SNIC_SEGMENTS__TABLE,
                              SNIC_SEGMENTS__TABLE);
    }
}

static void segments_recover_end(struct segments_disk *d)
{
    for (uint32_t i = 0; i < d->geo.places; i++) {
        struct segments_place *p = &d->place[i];
        if (p->attr.pad) { /* blocks of a segment that the log does not know */
            segments_place_clear(d, i);
            p->attr.pad = 0;
            d->load.rotten++;
        }
        segments_report_damage(d, i);
        d->used_places += p->attr.used;
    }
    if (d->load.rotten != 0 && (d->store->opts.flags & SNIC_SEGMENTS_SALVAGE) == 0) {
        segments_loaded(d, SNIC_ECORRUPT);
        return;
    }
    d->store->report.replayed += d->geo.cache_blocks - d->slots_free;
    d->load.then(d);
}

static void segments_wal_accepted(void *ctx)
{
    segments_recover_end(ctx);
}

static void segments_wal_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    struct segments_disk *d = ctx;
    struct snic_segments *s = d->store;
    uint32_t flags = s->opts.flags;
    if (result == SNIC_ENOENT || result == SNIC_EEXIST || result == SNIC_EINVAL)
        result = SNIC_ECORRUPT; /* there was a log */
    if (result == 0 && d->load.overflow)
        result = SNIC_ENOSPC;
    s->report.tails += result == 0 && report->verdict == SNIC_WAL_SUSPECT;
    /* A log that has had a record always has one: older ones make room for newer ones only. */
    int emptied = result == 0 && report->records == 0 && d->mark.stamp != 0 && !d->load.format;
    if (result == 0 && (report->verdict == SNIC_WAL_CORRUPT || emptied)) {
        s->report.gaps += report->gaps + (uint64_t)emptied;
        d->load.first_missing = report->first_missing;
        d->load.last_missing = report->last_missing;
        if ((flags & SNIC_SEGMENTS_SALVAGE) == 0)
            result = SNIC_ECORRUPT;
    }
    if (result == 0 && report->verdict == SNIC_WAL_SUSPECT && (flags & SNIC_SEGMENTS_STRICT) != 0)
        result = SNIC_ECORRUPT;
    if (result != 0) {
        segments_loaded(d, result);
        return;
    }
    if (report->verdict != SNIC_WAL_CLEAN) {
        if (snic_wal_accept_tail(d->wal) != 0)
            segments_loaded(d, SNIC_EIO);
        return;
    }
    segments_recover_end(d);
}

static int segments_wal_keep(void *ctx, const struct snic_wal_record *r)
{
    return segments_record_needed(ctx, r);
}

void segments_load_log(struct segments_disk *d, void (*then)(struct segments_disk *d))
{
    struct snic_wal_opts o = segments_wal_opts(&d->geo, d->store->opts.flags);
    struct snic_wal_events e = {.opened = segments_wal_opened, .found = segments_wal_found};
    e.durable = segments_wal_durable;
    e.room = segments_wal_room;
    e.failed = segments_wal_failed;
    e.accepted = segments_wal_accepted;
    e.keep = segments_wal_keep;
    d->load.then = then;
    if (d->load.format)
        o.flags |= SNIC_WAL_FORMAT;
    segments_window_make(&d->window, d->io, &d->geo);
    int r = snic_wal_open(&d->wal, d->wal_mem, d->wal_size, &d->window.io, &o, &e, d);
    if (r != 0)
        segments_loaded(d, r);
}
