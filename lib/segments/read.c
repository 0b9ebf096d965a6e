/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Reads: from the cache by copying, from the device into the caller's memory where that is aligned,
 * neighbours in one go, else through a block of our own.
 *
 * What comes from the device matches the entry as of when the request went out, or the block has
 * changed since: then it is looked up again. Each time it has a higher version, so that ends.
 */
#include "segments/segments_priv.h"

static void segments_read_on(struct segments_disk *d, struct snic_segments_req *q);

static struct segments_io *segments_read_io(struct snic_segments_req *q)
{
    return (struct segments_io *)(void *)&q->io;
}

SNIC_STATIC_ASSERT(sizeof(((struct snic_segments_req *)0)->io) == sizeof(struct segments_io),
                   "a request holds one for the device");

static int segments_aligned(const struct segments_disk *d, const void *memory)
{
    uint32_t align = d->io->geometry.memory_align;
    return align <= 1 || (uintptr_t)memory % align == 0;
}

static void segments_read_damaged(struct segments_disk *d, struct snic_segments_req *q,
                                  struct snic_segments_block *b)
{
    b->status = SNIC_SEGMENTS_DAMAGED;
    q->refused++;
    q->result = SNIC_ECORRUPT;
    d->info.read_damaged++;
}

static void segments_read_misread(struct segments_disk *d, struct snic_segments_req *q,
                                  struct snic_segments_block *b, const struct segments_io *io)
{
    struct snic_segments *s = d->store;
    int64_t r = io->req.result;
    segments_read_damaged(d, q, b);
    d->info.misread++;
    if (s->events.misread != NULL && !s->closing)
        s->events.misread(s->ctx, d->number, q->seg_id, b->block,
                          r >= SNIC_SEGMENTS_BLOCK ? SNIC_ECORRUPT
                          : r < 0                  ? (int)r
                                                   : SNIC_EIO);
}

/** 1: this block is finished; 0: it is at home. */
static int segments_read_memory(struct segments_disk *d, struct snic_segments_req *q,
                                struct snic_segments_block *b)
{
    uint32_t place = q->place[0];
    const struct segments_entry *e = segments_entry(d, place, b->block);
    struct segments_version v;
    segments_version_of(d, e, &v);
    b->status = SNIC_SEGMENTS_DONE;
    b->wver = v.wver;
    b->data_crc = v.data_crc;
    b->block_tag = v.block_tag;
    b->kind = (uint8_t)v.kind;
    if (segments_block_lost(&d->place[place], b->block)) {
        segments_read_damaged(d, q, b);
        return 1;
    }
    if (e->slot != SNIC_SEGMENTS__NONE)
        q->wait = snic_max_u64(q->wait, d->slot[e->slot].position);
    if (v.wver != 0 && v.kind == SNIC_SEGMENTS_LOST) {
        segments_read_damaged(d, q, b);
        return 1;
    }
    if (v.wver == 0 || v.kind != SNIC_SEGMENTS_DATA) {
        memset(b->data, 0, SNIC_SEGMENTS_BLOCK);
        b->data_crc = d->store->zero_crc;
        return 1;
    }
    if (e->slot == SNIC_SEGMENTS__NONE)
        return 0;
    memcpy(b->data, segments_slot_bytes(d, e->slot), SNIC_SEGMENTS_BLOCK);
    d->info.read_cached++;
    return 1;
}

static void segments_bounce_put(struct segments_disk *d, struct snic_segments_req *q)
{
    if (q->bounce < 0)
        return;
    SNIC_ASSERT(d->bounces_free < d->store->opts.bounces);
    d->bounce_free[d->bounces_free++] = (uint32_t)q->bounce;
    q->bounce = -1;
    while (d->bounces_free > 0 && !snic_link_alone(&d->bouncing)) {
        struct snic_segments_req *next =
            SNIC_CONTAINER(d->bouncing.next, struct snic_segments_req, link);
        snic_link_remove(&next->link);
        segments_read_on(d, next);
    }
}

/** The block that was read is not what was expected: 1 if it is to be looked up again. */
static int segments_read_changed(const struct segments_disk *d, const struct snic_segments_req *q,
                                 const struct snic_segments_block *b)
{
    const struct segments_entry *e = segments_entry(d, q->place[0], b->block);
    return e->slot != SNIC_SEGMENTS__NONE || e->wver != b->wver;
}

/** The segment was deleted meanwhile, or the device has died. */
static int segments_read_gone(const struct segments_disk *d, const struct snic_segments_req *q)
{
    const struct segments_attr *a = &d->place[q->place[0]].attr;
    if (d->state == SEGMENTS_DEAD)
        return SNIC_EIO;
    return a->inc != q->place[1] || !a->used ? SNIC_ENOENT : 0;
}

static void segments_read_done(struct segments_io *io)
{
    struct snic_segments_req *q = SNIC_CONTAINER((void *)io, struct snic_segments_req, io);
    struct segments_disk *d = io->disk;
    SNIC_ASSERT(q->run >= 1 && q->run <= q->count - q->at);
    SNIC_ASSERT(q->bounce < 0 || q->run == 1); /* a bounce is one block */
    int whole = io->req.result == (int64_t)q->run * SNIC_SEGMENTS_BLOCK;
    int gone = segments_read_gone(d, q);
    if (gone != 0) {
        segments_bounce_put(d, q);
        segments_finish(q, gone);
        return;
    }
    if (!whole && q->run > 1) {
        q->single = 1; /* which of them is it? */
        segments_read_on(d, q);
        return;
    }
    for (uint32_t i = 0; i < q->run; i++) {
        struct snic_segments_block *b = &q->blocks[q->at];
        const unsigned char *from = b->data;
        if (q->bounce >= 0)
            from = d->bounce + (size_t)q->bounce * SNIC_SEGMENTS_BLOCK;
        if (!whole || snic_crc32c(0, from, SNIC_SEGMENTS_BLOCK) != b->data_crc) {
            if (segments_read_changed(d, q, b))
                break;
            segments_read_misread(d, q, b, io);
        } else if (q->bounce >= 0) {
            memcpy(b->data, from, SNIC_SEGMENTS_BLOCK);
        }
        q->at++;
    }
    segments_bounce_put(d, q);
    segments_read_on(d, q);
}

/** From q->at on, as many as are neighbours at home and in memory. */
static uint32_t segments_read_run(const struct segments_disk *d, struct snic_segments_req *q)
{
    const struct snic_segments_block *first = &q->blocks[q->at];
    uint32_t most = d->io->geometry.transfer_max / SNIC_SEGMENTS_BLOCK;
    uint32_t run = 1;
    if (q->single || q->bounce >= 0)
        return 1;
    while (q->at + run < q->count && run < most) {
        struct snic_segments_block *b = &q->blocks[q->at + run];
        const struct segments_entry *e;
        if (b->block != first->block + run ||
            b->data != (unsigned char *)first->data + (size_t)run * SNIC_SEGMENTS_BLOCK)
            break;
        e = segments_entry(d, q->place[0], b->block);
        if (e->slot != SNIC_SEGMENTS__NONE || e->wver == 0 || e->kind != SNIC_SEGMENTS_DATA ||
            segments_block_lost(&d->place[q->place[0]], b->block))
            break;
        b->status = SNIC_SEGMENTS_DONE;
        b->wver = e->wver;
        b->data_crc = e->data_crc;
        b->block_tag = e->block_tag;
        b->kind = (uint8_t)e->kind;
        run++;
    }
    return run;
}

static void segments_read_on(struct segments_disk *d, struct snic_segments_req *q)
{
    int gone = segments_read_gone(d, q);
    if (gone != 0) {
        segments_finish(q, gone);
        return;
    }
    while (q->at < q->count && segments_read_memory(d, q, &q->blocks[q->at]))
        q->at++;
    if (q->at == q->count) {
        segments_await(d, q, q->wait);
        return;
    }
    struct snic_segments_block *b = &q->blocks[q->at];
    unsigned char *memory = b->data;
    if (!segments_aligned(d, memory)) {
        if (d->bounces_free == 0) {
            snic_link_append(&d->bouncing, &q->link);
            return;
        }
        q->bounce = (int32_t)d->bounce_free[--d->bounces_free];
        memory = d->bounce + (size_t)q->bounce * SNIC_SEGMENTS_BLOCK;
    }
    q->run = segments_read_run(d, q);
    struct segments_io *io = segments_read_io(q);
    segments_io_fill(io, SNIC_IO_READ, segments_block_offset(&d->geo, q->place[0], b->block),
                     memory, (uint64_t)q->run * SNIC_SEGMENTS_BLOCK);
    io->then = segments_read_done;
    segments_io_queue(d, io);
}

void segments_read(struct segments_disk *d, struct snic_segments_req *q, uint32_t place)
{
    q->place[0] = place;
    q->place[1] = d->place[place].attr.inc;
    q->at = 0;
    q->wait = d->place[place].position; /* S8 */
    q->bounce = -1;
    q->single = 0;
    d->info.reads++;
    d->info.read_blocks += q->count;
    segments_read_on(d, q);
}
