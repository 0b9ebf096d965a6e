/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the consumer of a request ring reads and writes over DMA.
 *
 * A look is the loads of ring_consumer.c as reads, each step handed out when the one before is
 * complete; what it brings lies in the handle (cursors, commit words) and in the mirror (data):
 *   QUIESCENT  P, then T (one read if the engine reads ascending); if they are equal, the data.
 *   COMMIT     T, then the commit words up to T, then the data.
 *
 * Invariants
 *   I1  A word that was fetched committed proves that data fetched *later* is whole, whatever the
 *       order of bytes within a read.
 *   I2  The limit moves only when the data below it has been fetched: peek reads no byte above.
 *   I3  Reads lie in [limit, T), and T - released is at most the capacity: nothing that is out is
 *       overwritten in the mirror, whatever the peer writes.
 */
#include "snicstore/ring.h"

#include "ring/ring_priv.h"

#include <string.h>

/* Steps of a remote look. */
enum { RING_STEP_IDLE, RING_STEP_CURSORS, RING_STEP_WORDS, RING_STEP_DATA };

static int ring_op_cursors(struct snic_ring_consumer *c, struct snic_ring_op *ops)
{
    int quiescent = c->g.discipline == SNIC_RING_QUIESCENT;
    int n = 0;

    memset(ops, 0, sizeof(*ops) * SNIC_RING_FETCH_OPS);
    ops[0].kind = SNIC_RING_OP_READ;
    if (quiescent) {
        ops[0].offset = SNIC_RING_OFF_PROGRESS;
        ops[0].local = c->cursors.bytes;
        ops[0].bytes = SNIC_RING__AT_END;
        if (c->flags & SNIC_RING_ORDERED_READ)
            return 1;
        ops[0].bytes = 8;
        n = 1;
    }
    ops[n].kind = SNIC_RING_OP_READ;
    ops[n].flags = n != 0 ? SNIC_RING_OP_FENCE : 0; /* P before T */
    ops[n].offset = SNIC_RING_OFF_TAIL;
    ops[n].local = c->cursors.bytes + SNIC_RING__AT_TAIL;
    ops[n].bytes = SNIC_RING__AT_END - SNIC_RING__AT_TAIL;
    return n + 1;
}

/* Reads of [from, to) of an array with @p per bytes for each 1 << @p shift data bytes. */
static int ring_op_pieces(const struct snic_ring__geo *g, uint64_t from, uint64_t to,
                          uint64_t offset, unsigned char *local, uint32_t shift, uint32_t per,
                          struct snic_ring_op *ops)
{
    uint64_t first = from & g->mask;
    uint64_t bytes = to - from;
    uint64_t room = g->mask + 1 - first;
    int n = 0;

    memset(ops, 0, sizeof(*ops) * SNIC_RING_FETCH_OPS);
    while (bytes != 0) {
        uint64_t piece = snic_min_u64(bytes, room);

        ops[n].kind = SNIC_RING_OP_READ;
        ops[n].offset = offset + (first >> shift) * per;
        ops[n].local = local + (first >> shift) * per;
        ops[n].bytes = (piece >> shift) * per;
        n++;
        bytes -= piece;
        first = 0;
        room = g->mask + 1;
    }
    return n;
}

static int ring_op_data(struct snic_ring_consumer *c, struct snic_ring_op *ops)
{
    c->step = RING_STEP_DATA;
    return ring_op_pieces(&c->g, c->limit, c->tail_seen, c->g.data_offset, c->g.data, 0, 1, ops);
}

static int ring_fetched_cursors(struct snic_ring_consumer *c, struct snic_ring_op *ops)
{
    uint64_t tail = ring_scratch(c, SNIC_RING__AT_TAIL);

    c->step = RING_STEP_IDLE;
    /* An honest T is never below the limit nor beyond the capacity. */
    if (!ring_is_start(&c->g, tail) || tail - c->released > c->g.mask + 1 ||
        ring_distance(tail, c->limit) < 0)
        return ring_break(&c->g);
    c->tail_seen = tail;
    if (tail == c->limit ||
        (c->g.discipline == SNIC_RING_QUIESCENT && ring_scratch(c, 0) != tail)) {
        c->stats.again++;
        return c->taken == c->limit ? SNIC_EAGAIN : 0;
    }
    if (c->g.discipline == SNIC_RING_QUIESCENT)
        return ring_op_data(c, ops);
    c->step = RING_STEP_WORDS;
    return ring_op_pieces(&c->g, c->limit, tail, c->g.commit_offset, (unsigned char *)c->words,
                          c->g.granule_shift, 8, ops);
}

static int ring_word_fetched(const struct snic_ring_consumer *c, uint64_t position)
{
    return snic_get_le64(&c->words[(position & c->g.mask) >> c->g.granule_shift]) ==
           (position | SNIC_RING__COMMITTED);
}

/* Committed as fetched, or the rest of a reservation that H stood in at attach. */
static int ring_fetched_committed(const struct snic_ring_consumer *c, uint64_t position)
{
    return ring_word_fetched(c, position) || (c->open && position == c->taken);
}

/* COMMIT: move the limit over the reservations whose fetched words were committed. */
static int ring_fetched_data(struct snic_ring_consumer *c)
{
    uint64_t at = c->limit;

    c->step = RING_STEP_IDLE;
    if (c->g.discipline == SNIC_RING_QUIESCENT) {
        c->limit = c->tail_seen;
        return 0;
    }
    while (at != c->tail_seen && ring_fetched_committed(c, at)) {
        struct ring_parsed found;

        do {
            if (at == c->tail_seen || ring_parse(&c->g, at, c->tail_seen, &found) != 0)
                return ring_break(&c->g);
            at = found.rec.next;
        } while (found.more);
    }
    c->limit = at;
    return 0;
}

int snic_ring_fetch(struct snic_ring_consumer *c, struct snic_ring_op *ops)
{
    if (c->g.base != NULL)
        return SNIC_EINVAL;
    if (c->g.broken != 0)
        return c->g.broken;
    switch (c->step) {
    case RING_STEP_IDLE:
        c->step = RING_STEP_CURSORS;
        return ring_op_cursors(c, ops);
    case RING_STEP_CURSORS:
        return ring_fetched_cursors(c, ops);
    case RING_STEP_WORDS:
        if (ring_fetched_committed(c, c->limit))
            return ring_op_data(c, ops);
        c->step = RING_STEP_IDLE;
        c->stats.again++;
        return c->taken == c->limit ? SNIC_EAGAIN : 0;
    default:
        return ring_fetched_data(c);
    }
}

void snic_ring_fetch_reset(struct snic_ring_consumer *c)
{
    c->step = RING_STEP_IDLE;
}

int snic_ring_head_op(struct snic_ring_consumer *c, struct snic_ring_op *op)
{
    if (c->g.base != NULL || c->g.broken != 0 ||
        (c->published & ~SNIC_RING__HEAD_OPEN) == c->released)
        return 0;
    c->published = ring_head_value(c);
    ring_op_word(c, SNIC_RING__AT_HEAD, SNIC_RING_OFF_HEAD, c->published, op);
    return 1;
}
