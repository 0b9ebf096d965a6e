/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Writing home, in rounds; a round has a stamp and takes all blocks whose records have that one or
 * a lower one.
 *
 *   LOG     their records become durable (S1)
 *   HOME    blocks are written, in the order of their places; then they are in their entries
 *   FIRST   the pages that changed, first copy, or the second where that was found damaged; a
 *           flush, which is the blocks' too
 *   SECOND  the same pages, other copy; a flush (S3)
 *   AFTER   what was appended meanwhile becomes durable: it may have superseded blocks of the round
 *           that then stayed where they were (S2)
 *   MARK    the stamp is written, to the place of the mark before the last, and flushed
 *   FREE    slots up to the stamp are free, the log may drop their records
 *
 * If a crash comes before the mark, all of it is done again from the log.
 */
#include "segments/segments_priv.h"

static void segments_round_sweep(struct segments_round *r, uint32_t phase)
{
    r->phase = phase;
    r->place = 0;
    r->block = 0;
}

static struct segments_op *segments_op_of(struct segments_io *io)
{
    return SNIC_CONTAINER(io, struct segments_op, io);
}

static struct segments_op *segments_op_idle(const struct segments_disk *d)
{
    for (uint32_t i = 0; i < SNIC_SEGMENTS__OPS; i++)
        if (!d->round.op[i].busy)
            return &d->round.op[i];
    return NULL;
}

static void segments_op_begin(struct segments_disk *d, struct segments_op *op,
                              void (*then)(struct segments_io *io))
{
    SNIC_ASSERT(!op->busy);
    op->busy = 1;
    op->io.then = then;
    d->round.out++;
    segments_io_queue(d, &op->io);
}

/** 1: all of it was transferred; else the device dies. */
static int segments_op_end(struct segments_io *io)
{
    struct segments_disk *d = io->disk;
    int64_t want = io->req.op == SNIC_IO_FLUSH ? 0 : (int64_t)io->req.length;
    SNIC_ASSERT(d->round.out > 0);
    d->round.out--;
    if (io->req.result == want)
        return 1;
    segments_die(d, io->req.result < 0 ? (int)io->req.result : SNIC_EIO);
    return 0;
}

/* ---- Blocks ---- */

static void segments_into_entry(struct segments_disk *d, const struct segments_slot *s)
{
    struct segments_entry *e = segments_entry(d, s->place, s->block);
    SNIC_ASSERT(s->position <= snic_wal_durable(d->wal)); /* S1 */
    e->wver = s->v.wver;
    e->data_crc = s->v.data_crc;
    e->block_tag = s->v.block_tag;
    e->kind = s->v.kind;
    d->place[s->place].dirty |= (uint8_t)(2u << s->block / SNIC_SEGMENTS__TABLE);
}

static void segments_home_done(struct segments_io *io)
{
    struct segments_op *op = segments_op_of(io);
    struct segments_disk *d = io->disk;
    struct segments_place *p = &d->place[op->place];
    SNIC_ASSERT(op->busy && p->writing > 0);
    int good = segments_op_end(io);
    p->writing--;
    op->busy = 0;
    for (uint32_t i = 0; i < op->count; i++) {
        struct segments_slot *s = &d->slot[op->slot[i]];
        SNIC_ASSERT(s->state == SEGMENTS_SLOT_WRITING); /* S4 */
        s->state = SEGMENTS_SLOT_HOME;
        if (good && p->attr.inc == op->inc && p->attr.used)
            segments_into_entry(d, s);
        if (s->orphan)
            segments_slot_free(d, op->slot[i]);
    }
}

/** The first slot from the sweep's place and block on that this round takes; 0: there is none. */
static int segments_sweep(struct segments_disk *d, uint32_t *slot)
{
    struct segments_round *r = &d->round;
    for (; r->place < d->geo.places; r->place++, r->block = 0) {
        const struct segments_place *p = &d->place[r->place];
        if (p->slots == 0)
            continue;
        while (r->block < SNIC_SEGMENTS_BLOCKS) {
            uint64_t word = p->bits[r->block / 64] >> r->block % 64;
            if (word == 0) {
                r->block = (r->block / 64 + 1) * 64;
                continue;
            }
            r->block += (uint32_t)__builtin_ctzll(word);
            *slot = segments_entry(d, r->place, r->block)->slot;
            if (d->slot[*slot].stamp <= r->stamp && d->slot[*slot].state == SEGMENTS_SLOT_LIVE)
                return 1;
            r->block++;
        }
    }
    return 0;
}

/** Neighbours that are in this round as well. */
static void segments_gather(struct segments_disk *d, struct segments_op *op, uint32_t slot)
{
    struct segments_round *r = &d->round;
    uint32_t most = d->io->geometry.transfer_max / SNIC_SEGMENTS_BLOCK;
    const struct segments_slot *s = &d->slot[slot];
    uint32_t first = r->block;
    if (most > SNIC_SEGMENTS__GATHER)
        most = SNIC_SEGMENTS__GATHER;
    SNIC_ASSERT(most >= 1); /* segments_geo_make() */
    op->count = 0;
    op->place = r->place;
    op->inc = d->place[r->place].attr.inc;
    while (s->v.kind == SNIC_SEGMENTS_DATA && s->state == SEGMENTS_SLOT_LIVE &&
           s->stamp <= r->stamp) {
        op->iov[op->count].base = segments_slot_bytes(d, slot);
        op->iov[op->count].size = SNIC_SEGMENTS_BLOCK;
        op->slot[op->count++] = slot;
        d->slot[slot].state = SEGMENTS_SLOT_WRITING;
        r->block++;
        if (op->count == most || r->block == SNIC_SEGMENTS_BLOCKS)
            break;
        slot = segments_entry(d, r->place, r->block)->slot;
        if (slot == SNIC_SEGMENTS__NONE)
            break;
        s = &d->slot[slot];
    }
    SNIC_ASSERT(op->count >= 1);
    d->place[op->place].writing++;
    d->info.home_blocks += op->count;
    d->info.home_writes++;
    segments_io_fill(&op->io, SNIC_IO_WRITE, segments_block_offset(&d->geo, op->place, first), NULL,
                     (uint64_t)op->count * SNIC_SEGMENTS_BLOCK);
    op->io.req.iov = op->iov;
    op->io.req.iov_count = op->count;
    segments_op_begin(d, op, segments_home_done);
}

/** 1: the phase is over. */
static int segments_home(struct segments_disk *d)
{
    struct segments_op *op;
    uint32_t slot;
    while ((op = segments_op_idle(d)) != NULL && segments_sweep(d, &slot)) {
        struct segments_slot *s = &d->slot[slot];
        if (s->v.kind == SNIC_SEGMENTS_DATA) {
            segments_gather(d, op, slot);
        } else {
            segments_into_entry(d, s);
            s->state = SEGMENTS_SLOT_HOME;
        }
    }
    return d->round.out == 0 && d->round.place == d->geo.places;
}

/* ---- Pages ---- */

static void segments_page_done(struct segments_io *io)
{
    segments_op_of(io)->busy = 0;
    (void)segments_op_end(io);
}

static int segments_pages(struct segments_disk *d, uint32_t copy)
{
    struct segments_round *r = &d->round;
    for (; r->place < d->geo.places; r->place++, r->block = 0) {
        struct segments_place *p = &d->place[r->place];
        for (; (p->round >> r->block) != 0; r->block++) {
            struct segments_op *op;
            if ((p->round >> r->block & 1) == 0 || (r->block != 0 && !p->attr.used))
                continue;
            if ((p->lost >> r->block & 1) != 0)
                continue; /* else the damage would be hidden */
            op = segments_op_idle(d);
            if (op == NULL)
                return 0;
            uint32_t swapped = p->second >> r->block & 1;
            segments_page_encode(d, r->place, r->block, r->number, op->page);
            segments_io_fill(&op->io, SNIC_IO_WRITE,
                             segments_page_offset(&d->geo, r->place, r->block, copy ^ swapped),
                             op->page, SNIC_SEGMENTS__PAGE);
            if (copy == 1)
                p->second &= (uint8_t) ~(1u << r->block);
            d->info.tables++;
            segments_op_begin(d, op, segments_page_done);
        }
    }
    return r->out == 0;
}

/* ---- Mark ---- */

static void segments_side_done(struct segments_io *io)
{
    struct segments_disk *d = io->disk;
    if (!segments_op_end(io))
        return;
    if (d->round.phase == SEGMENTS_FIRST_FLUSH) {
        segments_round_sweep(&d->round, SEGMENTS_SECOND);
        return;
    }
    SNIC_ASSERT(d->round.phase == SEGMENTS_SECOND_FLUSH);
    d->round.phase = SEGMENTS_AFTER;
    d->round.position = d->position; /* deletions that made pages needless, too */
    (void)snic_wal_flush(d->wal);
}

static void segments_flush(struct segments_disk *d, void (*then)(struct segments_io *io))
{
    d->info.flushes++;
    segments_io_fill(&d->round.side, SNIC_IO_FLUSH, 0, NULL, 0);
    d->round.side.then = then;
    d->round.out++;
    segments_io_queue(d, &d->round.side);
}

static void segments_mark_flushed(struct segments_io *io)
{
    struct segments_disk *d = io->disk;
    if (!segments_op_end(io))
        return;
    SNIC_ASSERT(d->round.phase == SEGMENTS_MARK);
    SNIC_ASSERT(d->round.number > d->mark.round && d->round.stamp >= d->mark.stamp); /* S2 */
    d->mark.round = d->round.number;
    d->mark.stamp = d->round.stamp;
    d->round.phase = SEGMENTS_FREE;
}

static void segments_mark_written(struct segments_io *io)
{
    if (segments_op_end(io))
        segments_flush(io->disk, segments_mark_flushed);
}

static void segments_mark_write(struct segments_disk *d)
{
    struct segments_mark m = {.round = d->round.number, .stamp = d->round.stamp};
    struct segments_io *io = &d->round.side;
    unsigned char *page = d->round.op[0].page;
    SNIC_ASSERT(d->round.out == 0);
    SNIC_ASSERT(m.round % 2 != d->mark.round % 2); /* the mark that counts stays */
    segments_mark_encode(&d->geo, &m, page);
    segments_io_fill(io, SNIC_IO_WRITE, (2 + m.round % 2) * (uint64_t)SNIC_SEGMENTS__PAGE, page,
                     SNIC_SEGMENTS__PAGE);
    io->then = segments_mark_written;
    d->round.out++;
    segments_io_queue(d, io);
}

/** Some at a time; 1: done. */
static int segments_free_some(struct segments_disk *d)
{
    uint32_t n = 0;
    while (d->oldest != SNIC_SEGMENTS__NONE && d->slot[d->oldest].stamp <= d->mark.stamp) {
        if (n++ == SNIC_SEGMENTS__FREE_STEP)
            return 0;
        SNIC_ASSERT(d->slot[d->oldest].state == SEGMENTS_SLOT_HOME); /* S5 */
        segments_slot_free(d, d->oldest);
    }
    return 1;
}

/* ---- The round ---- */

/** Half of the cache, a quarter of the log, or asked for. */
static int segments_round_due(const struct segments_disk *d)
{
    if (d->stamp == d->mark.stamp)
        return 0;
    return d->round.wanted || d->slots_free < d->geo.cache_blocks / 2 ||
           d->unmarked_bytes > d->geo.log_bytes / 4;
}

static void segments_round_begin(struct segments_disk *d)
{
    struct segments_round *r = &d->round;
    SNIC_ASSERT(r->phase == SEGMENTS_IDLE && r->out == 0);
    r->wanted = 0;
    r->phase = SEGMENTS_LOG;
    r->number = snic_max_u64(d->mark.round, r->page_max) + 1;
    r->page_max = r->number;
    /* The mark must not take the place of the one that counts. */
    if (r->number % 2 == d->mark.round % 2)
        r->number = r->page_max = r->number + 1;
    r->stamp = d->stamp;
    r->position = d->position;
    d->unmarked_bytes = 0;
    (void)snic_wal_flush(d->wal);
}

static void segments_round_take_pages(struct segments_disk *d)
{
    SNIC_ASSERT(d->round.out == 0);
    for (uint32_t i = 0; i < d->geo.places; i++) {
        d->place[i].round = d->place[i].dirty;
        d->place[i].dirty = 0;
    }
    d->round.phase = SEGMENTS_TAKEN;
    d->round.position = d->position;
    (void)snic_wal_flush(d->wal);
}

static void segments_round_end(struct segments_disk *d)
{
    d->round.phase = SEGMENTS_IDLE;
    d->info.rounds++;
    snic_wal_compact(d->wal);
    segments_report_room(d->store);
}

static void segments_round_step(struct segments_disk *d)
{
    struct segments_round *r = &d->round;
    uint32_t phase = r->phase;
    switch ((enum segments_phase)phase) {
    case SEGMENTS_IDLE:
        if (!d->store->closing && segments_round_due(d))
            segments_round_begin(d);
        break;
    case SEGMENTS_LOG:
        if (snic_wal_durable(d->wal) >= r->position)
            segments_round_sweep(r, SEGMENTS_HOME);
        break;
    case SEGMENTS_HOME:
        if (segments_home(d))
            segments_round_take_pages(d);
        break;
    case SEGMENTS_TAKEN:
        if (snic_wal_durable(d->wal) >= r->position)
            segments_round_sweep(r, SEGMENTS_FIRST);
        break;
    case SEGMENTS_FIRST:
    case SEGMENTS_SECOND:
        if (segments_pages(d, phase == SEGMENTS_SECOND)) {
            r->phase++;
            segments_flush(d, segments_side_done);
        }
        break;
    case SEGMENTS_FIRST_FLUSH:
    case SEGMENTS_SECOND_FLUSH:
        break;
    case SEGMENTS_AFTER:
        if (r->out == 0 && snic_wal_durable(d->wal) >= r->position) {
            r->phase = SEGMENTS_MARK;
            segments_mark_write(d);
        }
        break;
    case SEGMENTS_MARK:
        break;
    case SEGMENTS_FREE:
        if (segments_free_some(d))
            segments_round_end(d);
        else
            segments_kick(d->store);
        break;
    default:
        break;
    }
}

void segments_round_pump(struct segments_disk *d)
{
    uint32_t phase;
    do {
        phase = d->round.phase;
        segments_round_step(d);
    } while (d->state == SEGMENTS_OPEN && d->round.phase != phase);
}

void snic_segments_checkpoint(struct snic_segments *s)
{
    for (uint32_t i = 0; i < s->disks; i++)
        s->disk[i].round.wanted = 1;
    if (s->opened)
        segments_kick(s);
}
