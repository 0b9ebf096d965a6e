/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Block status, context base:allocation: the states of each segment's blocks are read from its
 * server, STATUS_LOOKS segments at a time, until the list of extents is full or the range is at its
 * end. A segment that no server has costs a lookup in the catalog, and is a hole.
 *
 *   never written, trimmed   hole, reads as zeros
 *   zeroed                   reads as zeros
 *   data                     neither
 */
#include "nbd_priv.h"

#include <string.h>

enum { STATUS_LOOKS = 16, STATUS_EXTENTS = 1024, STATUS_SEGMENTS = 512 };
enum { STATE_HOLE = 1, STATE_ZERO = 2 };

struct nbd_status {
    struct nbd_req *q;
    uint64_t at; /* known up to here */
    uint64_t end;
    uint32_t looks;    /* of this round */
    uint32_t waits;    /* of them */
    uint32_t segments; /* in all */
    uint32_t extents;
    int result;
    int full;
    unsigned char list[4 + 8 * STATUS_EXTENTS];
    struct block_req look[STATUS_LOOKS];
};

static void status_turn(struct nbd_status *s);

uint64_t nbd_status_room(void)
{
    return sizeof(struct nbd_status);
}

void *nbd_status_list(struct nbd_req *q, uint64_t *size)
{
    struct nbd_status *s = (struct nbd_status *)(void *)q->memory;
    *size = 4 + (uint64_t)s->extents * 8;
    return s->list;
}

static void status_add(struct nbd_status *s, uint32_t bytes, uint32_t flags)
{
    unsigned char *last = s->list + 4 + (size_t)(s->extents - (s->extents != 0)) * 8;
    if (s->extents != 0 && snic_get_be32(last + 4) == flags) {
        snic_put_be32(last, snic_get_be32(last) + bytes); /* a request's length has 32 bits */
    } else if (s->extents == (s->q->one ? 1 : STATUS_EXTENTS)) {
        s->full = 1;
        return;
    } else {
        last = s->list + 4 + (size_t)s->extents++ * 8;
        snic_put_be32(last, bytes);
        snic_put_be32(last + 4, flags);
    }
    s->at += bytes;
}

/* Extents of the rest of the range in this segment, from its blocks' states. */
static void status_segment(struct nbd_status *s, const unsigned char *states)
{
    static const uint8_t flags[] = {[SNIC_EBS_STATE_NEVER] = STATE_HOLE | STATE_ZERO,
                                    [SNIC_EBS_STATE_DATA] = 0,
                                    [SNIC_EBS_STATE_ZERO] = STATE_ZERO,
                                    [SNIC_EBS_STATE_TRIM] = STATE_HOLE | STATE_ZERO};
    uint64_t end = snic_min_u64(s->end, (s->at / BLOCK_SEGMENT + 1) * BLOCK_SEGMENT);
    while (s->at < end && !s->full) {
        uint32_t block = (uint32_t)(s->at % BLOCK_SEGMENT / BLOCK_BYTES);
        uint64_t next = snic_min_u64(end, (s->at / BLOCK_BYTES + 1) * BLOCK_BYTES);
        uint32_t state = states[block];
        status_add(s, (uint32_t)(next - s->at), state < SNIC_COUNTOF(flags) ? flags[state] : 0);
    }
}

static void status_turn_over(struct nbd_status *s)
{
    for (uint32_t i = 0; i < s->looks && s->result == 0 && !s->full; i++)
        status_segment(s, s->look[i].edge);
    s->segments += s->looks;
    if (s->result != 0 || s->full || s->at == s->end || s->segments >= STATUS_SEGMENTS)
        nbd_reply(s->q, s->result);
    else
        status_turn(s);
}

static void status_looked(struct block_req *b, int result)
{
    struct nbd_status *s = (struct nbd_status *)(void *)b->data;
    if (s->result == 0)
        s->result = result;
    if (--s->waits == 0)
        status_turn_over(s);
}

static void status_turn(struct nbd_status *s)
{
    uint64_t first = s->at / BLOCK_SEGMENT, last = (s->end - 1) / BLOCK_SEGMENT;
    s->looks = (uint32_t)snic_min_u64(last - first + 1, STATUS_LOOKS);
    s->waits = s->looks + 1; /* one may be done before the others are submitted */
    for (uint32_t i = 0; i < s->looks; i++) {
        struct block_req *b = &s->look[i];
        memset(b, 0, offsetof(struct block_req, edge));
        b->done = status_looked;
        b->data = (unsigned char *)s;
        b->op = BLOCK_STATES;
        b->offset = (first + i) * BLOCK_SEGMENT;
        b->length = BLOCK_BYTES;
        block_submit(&s->q->c->x->dev, b);
    }
    if (--s->waits == 0)
        status_turn_over(s);
}

void nbd_status_start(struct nbd_req *q)
{
    struct nbd_status *s = (struct nbd_status *)(void *)q->memory;
    memset(s, 0, offsetof(struct nbd_status, look));
    s->q = q;
    s->at = q->offset;
    s->end = q->offset + q->length;
    snic_put_be32(s->list, NBD_CONTEXT);
    status_turn(s);
}
