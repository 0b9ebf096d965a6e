/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Requests that change something: one record of the log each, appended before anything in memory
 * changes, so that a refused append leaves all as it was.
 */
#include "segments/segments_priv.h"

#define SNIC_SEGMENTS__REFUSED 1 /* of segments_append(): try again later */

/* ---- Records ---- */

/** 0; REFUSED; a negative error: the device is dead. */
static int segments_append(struct segments_disk *d, struct segments_record *h, const void *bytes,
                           uint32_t length, uint64_t *position)
{
    struct snic_wal_record r;
    SNIC_ASSERT(d->state == SEGMENTS_OPEN);
    SNIC_ASSERT(length <= d->geo.record_max);
    h->stamp = d->stamp + 1;
    segments_record_encode(h, &r);
    r.bytes = bytes;
    r.length = length;
    int e = snic_wal_append(d->wal, &r, position);
    if (e == SNIC_ENOSPC)
        d->round.wanted = 1; /* so that the log has something to drop */
    if (e == SNIC_ENOSPC || e == SNIC_EAGAIN) {
        segments_kick(d->store);
        return SNIC_SEGMENTS__REFUSED;
    }
    if (e != 0)
        return e;
    SNIC_ASSERT(*position > d->position); /* the order of stamps is that of the log */
    d->stamp = h->stamp;
    d->position = *position;
    d->unmarked_bytes += length + 128;
    return 0;
}

static int segments_later(struct snic_segments *s)
{
    s->refused = 1;
    s->refusals++;
    return SNIC_EAGAIN;
}

/** 1: the log may drop it; see S5. */
static int segments_item_done(const struct segments_disk *d, const struct segments_record *h,
                              uint32_t block)
{
    if (block >= SNIC_SEGMENTS_BLOCKS)
        return 1;
    uint32_t slot = segments_entry(d, h->place, block)->slot;
    return slot == SNIC_SEGMENTS__NONE || d->slot[slot].stamp != h->stamp;
}

int segments_record_needed(const struct segments_disk *d, const struct snic_wal_record *r)
{
    struct segments_record h;
    const unsigned char *item = r->bytes;
    if (!segments_record_decode(&d->geo, &h, r) || h.stamp <= d->mark.stamp ||
        h.inc != d->place[h.place].attr.inc)
        return 0;
    switch (h.kind) {
    case SEGMENTS_RECORD_ONE:
        return !segments_item_done(d, &h, h.count);
    case SEGMENTS_RECORD_LIST:
        for (uint32_t i = 0; i < h.count; i++, item += SNIC_SEGMENTS__ITEM) {
            struct segments_version v;
            uint32_t block;
            segments_item_decode(&v, &block, item);
            if (!segments_item_done(d, &h, block))
                return 1;
        }
        return 0;
    default:
        return d->place[h.place].attr.stamp == h.stamp;
    }
}

/* ---- Writes ---- */

/* The same write again? A version that two writes have is of two writers that do not know of each
   other: the later one is not the stored one. */
static int segments_same(const struct snic_segments_block *b, const struct segments_version *v)
{
    return b->wver == v->wver && b->kind == v->kind &&
           (b->kind != SNIC_SEGMENTS_DATA || b->data_crc == v->data_crc);
}

static uint8_t segments_judge(const struct segments_disk *d, const struct snic_segments_req *q,
                              uint32_t place, const struct snic_segments_block *b, uint64_t *wait)
{
    const struct segments_place *p = &d->place[place];
    const struct segments_entry *e = segments_entry(d, place, b->block);
    struct segments_version v;
    segments_version_of(d, e, &v);
    if (segments_block_lost(p, b->block))
        return SNIC_SEGMENTS_DAMAGED;
    if (b->wver <= v.wver) {
        /* Answered when the stored version is durable: else it could be lost in the next crash, and
         * this write, too. */
        if (e->slot != SNIC_SEGMENTS__NONE)
            *wait = snic_max_u64(*wait, d->slot[e->slot].position);
        return segments_same(b, &v) ? SNIC_SEGMENTS_DUP : SNIC_SEGMENTS_SUPERSEDED;
    }
    if (b->wver < p->attr.min_wver)
        return SNIC_SEGMENTS_FENCED;
    if (b->kind == SNIC_SEGMENTS_DATA && (q->flags & SNIC_SEGMENTS_CRC_CHECKED) == 0 &&
        b->data_crc != snic_crc32c(0, b->data, SNIC_SEGMENTS_BLOCK))
        return SNIC_SEGMENTS_BAD_CRC;
    return SNIC_SEGMENTS_DONE;
}

static void segments_version_from(struct segments_version *v, const struct snic_segments_block *b)
{
    v->wver = b->wver;
    v->data_crc = b->kind == SNIC_SEGMENTS_DATA ? b->data_crc : 0;
    v->block_tag = b->block_tag;
    v->kind = b->kind;
}

/** One record for the blocks that take effect; data straight from the caller if it is one. */
static int segments_write_append(struct segments_disk *d, const struct snic_segments_req *q,
                                 uint32_t place, uint32_t count, uint64_t *position)
{
    struct segments_record h = {.place = place, .inc = d->place[place].attr.inc};
    unsigned char *item = d->staging;
    unsigned char *data = d->staging + (size_t)count * SNIC_SEGMENTS__ITEM;
    SNIC_ASSERT(count >= 1 && count <= d->geo.list_max); /* staging holds record_max bytes */
    for (uint32_t i = 0; i < q->count; i++) {
        const struct snic_segments_block *b = &q->blocks[i];
        struct segments_version v;
        if (b->status != SNIC_SEGMENTS_DONE)
            continue;
        segments_version_from(&v, b);
        if (count == 1) {
            h.kind = SEGMENTS_RECORD_ONE;
            h.count = b->block;
            h.op = b->kind;
            h.wver = v.wver;
            h.data_crc = v.data_crc;
            h.block_tag = v.block_tag;
            return segments_append(d, &h, b->data, b->data != NULL ? SNIC_SEGMENTS_BLOCK : 0,
                                   position);
        }
        segments_item_encode(&v, b->block, item);
        item += SNIC_SEGMENTS__ITEM;
        if (b->kind == SNIC_SEGMENTS_DATA) {
            memcpy(data, b->data, SNIC_SEGMENTS_BLOCK);
            data += SNIC_SEGMENTS_BLOCK;
        }
    }
    SNIC_ASSERT(item == d->staging + (size_t)count * SNIC_SEGMENTS__ITEM);
    h.kind = SEGMENTS_RECORD_LIST;
    h.count = count;
    return segments_append(d, &h, d->staging, (uint32_t)(data - d->staging), position);
}

static void segments_write_apply(struct segments_disk *d, const struct snic_segments_req *q,
                                 uint32_t place, uint64_t position)
{
    for (uint32_t i = 0; i < q->count; i++) {
        const struct snic_segments_block *b = &q->blocks[i];
        if (b->status != SNIC_SEGMENTS_DONE)
            continue;
        uint32_t slot = segments_slot_take(d, place, b->block, d->stamp, position);
        segments_version_from(&d->slot[slot].v, b);
        if (b->kind == SNIC_SEGMENTS_DATA)
            memcpy(segments_slot_bytes(d, slot), b->data, SNIC_SEGMENTS_BLOCK);
    }
}

static void segments_write_count(struct segments_disk *d, struct snic_segments_req *q)
{
    struct snic_segments_info *n = &d->info;
    n->writes++;
    for (uint32_t i = 0; i < q->count; i++) {
        uint8_t s = q->blocks[i].status;
        n->applied += s == SNIC_SEGMENTS_DONE;
        n->dup += s == SNIC_SEGMENTS_DUP;
        n->superseded += s == SNIC_SEGMENTS_SUPERSEDED;
        n->fenced += s == SNIC_SEGMENTS_FENCED;
        n->bad_crc += s == SNIC_SEGMENTS_BAD_CRC;
        if (s == SNIC_SEGMENTS_FENCED && q->result == 0)
            q->result = SNIC_ESTALE;
        if (s == SNIC_SEGMENTS_BAD_CRC || s == SNIC_SEGMENTS_DAMAGED)
            q->result = SNIC_ECORRUPT;
        q->refused += s >= SNIC_SEGMENTS_FENCED;
    }
}

int segments_write(struct snic_segments *s, struct snic_segments_req *q, uint32_t disk,
                   uint32_t place)
{
    struct segments_disk *d = &s->disk[disk];
    uint64_t wait = d->place[place].position; /* S8 */
    uint32_t count = 0;
    for (uint32_t i = 0; i < q->count; i++) {
        struct snic_segments_block *b = &q->blocks[i];
        b->status = segments_judge(d, q, place, b, &wait);
        count += b->status == SNIC_SEGMENTS_DONE;
    }
    if (count != 0) {
        uint64_t position = 0;
        int e = SNIC_SEGMENTS__REFUSED;
        if (count <= d->slots_free)
            e = segments_write_append(d, q, place, count, &position);
        else
            d->round.wanted = 1;
        if (e == SNIC_SEGMENTS__REFUSED) {
            segments_kick(s);
            return segments_later(s);
        }
        if (e != 0) {
            segments_finish(q, SNIC_EIO);
            return 0;
        }
        segments_write_apply(d, q, place, position);
        wait = position;
    }
    segments_write_count(d, q);
    segments_await(d, q, wait);
    return 0;
}

/* ---- Segments ---- */

/** 0; REFUSED; an error. Afterwards the place has the attributes `a`. */
static int segments_attr_put(struct segments_disk *d, uint32_t place, struct segments_attr *a)
{
    struct segments_place *p = &d->place[place];
    struct segments_record h = {.kind = SEGMENTS_RECORD_ATTR, .place = place, .inc = a->inc};
    unsigned char bytes[SNIC_SEGMENTS__ATTR];
    uint64_t position;
    SNIC_ASSERT(a->inc != 0); /* as segments_record_decode() requires */
    segments_attr_encode(a, bytes);
    int e = segments_append(d, &h, bytes, sizeof(bytes), &position);
    if (e != 0)
        return e;
    a->stamp = d->stamp;
    p->attr = *a;
    p->position = position;
    p->dirty |= 1;
    return 0;
}

/** NONE: there is none; `busy` if one is about to be. */
static uint32_t segments_free_place(struct segments_disk *d, uint32_t *busy)
{
    *busy = 0;
    for (uint32_t i = 0; i < d->geo.places; i++) {
        uint32_t k = (d->hint + i) % d->geo.places;
        const struct segments_place *p = &d->place[k];
        if (p->attr.used || (p->lost & 1) != 0 || p->attr.inc == UINT32_MAX)
            continue;
        if (p->writing == 0) {
            d->hint = k;
            return k;
        }
        *busy = 1; /* S4: with blocks of the one before */
    }
    return SNIC_SEGMENTS__NONE;
}

static struct segments_disk *segments_roomiest(struct snic_segments *s)
{
    struct segments_disk *best = NULL;
    uint32_t most = 0;
    for (uint32_t i = 0; i < s->disks; i++) {
        struct segments_disk *d = &s->disk[i];
        uint32_t room = d->geo.places - d->used_places;
        if (d->state == SEGMENTS_OPEN && (best == NULL || room > most)) {
            best = d;
            most = room;
        }
    }
    return best;
}

static int segments_ended(struct snic_segments_req *q, int result)
{
    segments_finish(q, result);
    return 0;
}

static int segments_create(struct snic_segments *s, struct snic_segments_req *q)
{
    struct segments_attr a = {.seg_id = q->seg_id, .vd_id = q->vd_id, .base_lba = q->base_lba};
    struct segments_disk *d;
    uint32_t at[2];
    uint32_t busy;
    if (segments_lookup(s, q->seg_id, &at[0], &at[1]) != NULL)
        return segments_ended(q, SNIC_EEXIST);
    d = q->disk == SNIC_SEGMENTS_ANY_DISK ? segments_roomiest(s) : &s->disk[q->disk];
    if (d == NULL || d->state != SEGMENTS_OPEN)
        return segments_ended(q, SNIC_EIO);
    uint32_t place = segments_free_place(d, &busy);
    if (place == SNIC_SEGMENTS__NONE)
        return busy ? segments_later(s) : segments_ended(q, SNIC_ENOSPC);
    a.gen = q->gen;
    a.used = 1;
    a.inc = d->place[place].attr.inc + 1;
    SNIC_ASSERT(d->place[place].writing == 0); /* S4 */
    SNIC_ASSERT(d->used_places < d->geo.places);
    int e = segments_attr_put(d, place, &a);
    if (e == SNIC_SEGMENTS__REFUSED)
        return segments_later(s);
    if (e != 0)
        return segments_ended(q, SNIC_EIO);
    segments_place_clear(d, place);
    d->place[place].dirty = (1u << SNIC_SEGMENTS__PAGES) - 1; /* damaged ones, too */
    d->place[place].round = 0;                                /* S7 */
    d->used_places++;
    d->hint = place + 1;
    segments_chain(d, place);
    segments_await(d, q, d->position);
    return 0;
}

/* The request's generation and fence become the segment's (S8). 0; SNIC_EAGAIN; SNIC_EIO */
static int segments_raise(struct segments_disk *d, const struct snic_segments_req *q,
                          uint32_t place)
{
    struct segments_attr a = d->place[place].attr;
    a.gen = q->gen;
    a.min_wver = snic_max_u64(a.min_wver, q->min_wver);
    int e = segments_attr_put(d, place, &a);
    if (e == SNIC_SEGMENTS__REFUSED)
        return segments_later(d->store);
    return e != 0 ? SNIC_EIO : 0;
}

int segments_control(struct snic_segments *s, struct snic_segments_req *q)
{
    uint32_t disk;
    uint32_t place;
    if (q->op == SNIC_SEGMENTS_CREATE)
        return segments_create(s, q);
    struct segments_place *p = segments_lookup(s, q->seg_id, &disk, &place);
    SNIC_ASSERT(p != NULL); /* segments_refused() */
    struct segments_disk *d = &s->disk[disk];
    struct segments_attr a = p->attr;
    SNIC_ASSERT(a.used);
    if (q->op == SNIC_SEGMENTS_SET_GEN)
        a.gen = q->gen;
    else if (q->op == SNIC_SEGMENTS_FENCE)
        a.min_wver = snic_max_u64(a.min_wver, q->min_wver);
    else
        a.used = 0;
    if (a.used && a.gen == p->attr.gen && a.min_wver == p->attr.min_wver) {
        segments_await(d, q, p->position);
        return 0;
    }
    int e = segments_attr_put(d, place, &a);
    if (e == SNIC_SEGMENTS__REFUSED)
        return segments_later(s);
    if (e != 0)
        return segments_ended(q, SNIC_EIO);
    if (!a.used) {
        SNIC_ASSERT(d->used_places > 0);
        segments_unchain(d, place);
        segments_place_clear(d, place);
        d->used_places--;
    }
    segments_await(d, q, d->position);
    return 0;
}

/* ---- All requests ---- */

static int segments_valid_block(const struct snic_segments_req *q,
                                const struct snic_segments_block *b)
{
    if (b->block >= SNIC_SEGMENTS_BLOCKS || b->pad != 0)
        return 0;
    if (q->op == SNIC_SEGMENTS_READ)
        return b->data != NULL;
    if (b->wver == 0 || b->kind > SNIC_SEGMENTS_LOST)
        return 0;
    return (b->data != NULL) == (b->kind == SNIC_SEGMENTS_DATA) &&
           (b->data_crc == 0 || b->kind == SNIC_SEGMENTS_DATA);
}

static int segments_valid(const struct snic_segments *s, const struct snic_segments_req *q)
{
    uint64_t seen[SNIC_SEGMENTS_BLOCKS / 64] = {0};
    if (q->done == NULL || q->op < SNIC_SEGMENTS_READ || q->op > SNIC_SEGMENTS_FENCE ||
        (q->flags & ~(SNIC_SEGMENTS_CRC_CHECKED | SNIC_SEGMENTS_ANY_GEN | SNIC_SEGMENTS_RAISE)) !=
            0)
        return SNIC_EINVAL;
    if ((q->flags & SNIC_SEGMENTS_RAISE) != 0 &&
        ((q->flags & SNIC_SEGMENTS_ANY_GEN) != 0 ||
         (q->op > SNIC_SEGMENTS_WRITE && q->op != SNIC_SEGMENTS_FENCE)))
        return SNIC_EINVAL;
    if (q->op == SNIC_SEGMENTS_CREATE && q->disk != SNIC_SEGMENTS_ANY_DISK && q->disk >= s->disks)
        return SNIC_EINVAL;
    if (q->op > SNIC_SEGMENTS_WRITE)
        return 0;
    if (q->count == 0 || q->count > SNIC_SEGMENTS_LIST_MAX || q->blocks == NULL)
        return SNIC_EINVAL;
    if (q->op == SNIC_SEGMENTS_WRITE && q->count > s->list_max)
        return SNIC_EMSGSIZE;
    for (uint32_t i = 0; i < q->count; i++) {
        const struct snic_segments_block *b = &q->blocks[i];
        if (!segments_valid_block(q, b))
            return SNIC_EINVAL;
        uint64_t bit = (uint64_t)1 << b->block % 64;
        if (q->op == SNIC_SEGMENTS_WRITE && (seen[b->block / 64] & bit) != 0)
            return SNIC_EINVAL;
        seen[b->block / 64] |= bit;
    }
    return 0;
}

/* @return 0 it may be tried; what it ends with */
static int segments_refused(const struct snic_segments *s, const struct snic_segments_req *q,
                            const struct segments_place *p, uint32_t disk)
{
    if (q->op == SNIC_SEGMENTS_CREATE)
        return 0;
    if (p == NULL)
        return SNIC_ENOENT;
    if (s->disk[disk].state != SEGMENTS_OPEN)
        return SNIC_EIO;
    int named = (q->flags & SNIC_SEGMENTS_ANY_GEN) == 0 || q->op == SNIC_SEGMENTS_SET_GEN;
    return named && q->gen < p->attr.gen ? SNIC_ESTALE : 0;
}

int snic_segments_submit(struct snic_segments *s, struct snic_segments_req *q)
{
    uint32_t disk = 0;
    uint32_t place = 0;
    int r = 0;
    if (!s->opened || s->closing)
        return SNIC_EBUSY;
    int e = segments_valid(s, q);
    if (e != 0)
        return e;
    q->store = s;
    q->result = 0;
    q->refused = 0;
    snic_link_init(&q->link);
    const struct segments_place *p = segments_lookup(s, q->seg_id, &disk, &place);
    int refused = segments_refused(s, q, p, disk);
    if (refused == 0 && (q->flags & SNIC_SEGMENTS_RAISE) != 0 && q->gen > p->attr.gen)
        refused = segments_raise(&s->disk[disk], q, place);
    if (refused == SNIC_EAGAIN)
        r = refused;
    else if (refused != 0)
        segments_finish(q, refused);
    else if (q->op == SNIC_SEGMENTS_READ)
        segments_read(&s->disk[disk], q, place);
    else if (q->op == SNIC_SEGMENTS_WRITE)
        r = segments_write(s, q, disk, place);
    else
        r = segments_control(s, q);
    if (r == 0)
        s->in_flight++;
    return r;
}
