/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The responder of the response ring.
 *
 * Responder: S1 reserve [A, A + n) and write its header; S2 I/O fills it; S3 finish.
 *   QUIESCENT  S4 when every record below B is finished, store T = B (release).
 *   COMMIT     S4 T = A at once (release; headers below T are there, so that collectors can
 *              walk over unfinished records); at finish store the record's word t | 1 (release).
 *   remote     the same stores as DMA writes, each behind the bytes that it publishes.
 * The collectors' steps L1 to L7: ring_collector.c.
 *
 * Invariants
 *   I1  H <= C <= B <= A <= H + M (mapped COMMIT: T == A, and C is not used).
 *   I2  aux belongs to the responder alone: the shared memory's copy of the responder's own
 *       records is never used.
 */
#include "snicstore/ring.h"

#include "ring/ring_priv.h"

#include <string.h>

/* aux, two words per granule, at the first granule of a record: span in granules and state;
 * body bytes reserved. The first is 0 elsewhere. */
#define SNIC_RING__RSP_OPEN (UINT32_C(1) << 31)
#define SNIC_RING__RSP_DONE (UINT32_C(1) << 30)
#define SNIC_RING__RSP_SENT (UINT32_C(1) << 29)
#define SNIC_RING__RSP_HEADED (UINT32_C(1) << 28)
#define SNIC_RING__RSP_PAD (UINT32_C(1) << 27)
#define SNIC_RING__RSP_SPAN ((UINT32_C(1) << 27) - 1)
SNIC_STATIC_ASSERT((UINT64_C(1) << 31) / 16 / 2 < SNIC_RING__RSP_SPAN, "a span fits: <= M / 2");

/* Places in the cursors scratch: what sync fetches begins at H. */
#define SNIC_RING__RSP_AT_SLEEP (SNIC_RING_OFF_CONSLEEP - SNIC_RING_OFF_HEAD)
#define SNIC_RING__RSP_AT_TAIL 136
#define SNIC_RING__RSP_AT_WAIT 144

/* ---- Attach ---- */

static int ring_responder_set(struct snic_ring_responder *r, const struct snic_ring__geo *g,
                              const struct snic_ring_info *info, uint64_t head, uint64_t tail,
                              void *aux, size_t aux_bytes)
{
    size_t marks = (size_t)(info->capacity_bytes / info->granule_bytes * 8);

    if (!ring_is_aligned(aux, 8))
        return SNIC_EINVAL;
    if (aux_bytes < info->aux_bytes)
        return SNIC_ENOSPC;
    if (!ring_is_start(g, head) || !ring_is_start(g, tail) || tail - head > g->mask + 1)
        return SNIC_ECORRUPT;
    memset(r, 0, sizeof(*r));
    memset(aux, 0, (size_t)info->aux_bytes);
    r->g = *g;
    r->head = head;
    r->tail_a = r->tail_b = r->tail_c = tail;
    r->flushing = r->scan = r->reach = tail;
    r->aux = aux;
    r->words = (uint64_t *)(void *)((unsigned char *)aux + marks);
    return 0;
}

int snic_ring_responder_attach(struct snic_ring_responder *r, void *mem, size_t mem_size, void *aux,
                               size_t aux_bytes)
{
    struct snic_ring__geo g;
    struct snic_ring_info info;
    int e = ring_attach(&g, mem, mem_size, SNIC_RING_RESPONSE, &info);

    if (e != 0)
        return e;
    return ring_responder_set(
        r, &g, &info, atomic_load_explicit(ring_at(&g, SNIC_RING_OFF_HEAD), memory_order_acquire),
        atomic_load_explicit(ring_at(&g, SNIC_RING_OFF_TAIL), memory_order_relaxed), aux,
        aux_bytes);
}

int snic_ring_responder_attach_remote(struct snic_ring_responder *r, const void *header,
                                      uint64_t mem_size, const void *cursors, void *mirror,
                                      size_t mirror_bytes, void *aux, size_t aux_bytes)
{
    const unsigned char *from_tail = cursors;
    struct snic_ring__geo g;
    struct snic_ring_info info;
    int e =
        ring_attach_remote(&g, header, mem_size, SNIC_RING_RESPONSE, mirror, mirror_bytes, &info);

    if (e != 0)
        return e;
    e = ring_responder_set(r, &g, &info,
                           snic_get_le64(from_tail + (SNIC_RING_OFF_HEAD - SNIC_RING_OFF_TAIL)),
                           snic_get_le64(from_tail), aux, aux_bytes);
    if (e != 0)
        return e;
    r->remote = 1;
    memset(mirror, 0, (size_t)info.mirror_bytes);
    return 0;
}

/* ---- Responder ---- */

static uint32_t *ring_rsp_aux(const struct snic_ring_responder *r, uint64_t position)
{
    return &r->aux[((position & r->g.mask) >> r->g.granule_shift) * 2];
}

static uint64_t ring_rsp_span(const struct snic_ring_responder *r, uint64_t position)
{
    return (uint64_t)(*ring_rsp_aux(r, position) & SNIC_RING__RSP_SPAN) << r->g.granule_shift;
}

/* Publish a word of a mapped COMMIT ring. Release pairs with the acquire of L3 and L4. */
static void ring_rsp_word(struct snic_ring_responder *r, uint64_t position, uint32_t state)
{
    if (!r->remote && r->g.discipline == SNIC_RING_COMMIT)
        atomic_store_explicit(ring_commit_word(&r->g, position), position | state,
                              memory_order_release);
}

/* Move B over what is finished (COMMIT: and sent) and forget it. */
static void ring_rsp_advance(struct snic_ring_responder *r)
{
    uint32_t want = SNIC_RING__RSP_DONE;

    if (r->g.discipline == SNIC_RING_COMMIT)
        want |= SNIC_RING__RSP_SENT;
    while (r->tail_b != r->tail_a) {
        uint32_t *mark = ring_rsp_aux(r, r->tail_b);

        if ((*mark & want) != want)
            break;
        r->tail_b += ring_rsp_span(r, r->tail_b);
        *mark = 0;
    }
}

/* S3 for one record, or a pad. */
static void ring_rsp_done(struct snic_ring_responder *r, uint64_t position, uint32_t state)
{
    uint32_t *mark = ring_rsp_aux(r, position);

    *mark |= SNIC_RING__RSP_DONE;
    if (r->g.discipline == SNIC_RING_COMMIT) {
        if (r->remote) {
            r->ready++;
        } else {
            ring_rsp_word(r, position, state);
            *mark |= SNIC_RING__RSP_SENT;
        }
    }
    ring_rsp_advance(r);
}

/* Take what a read of H brought. 0 or SNIC_ECORRUPT. */
static int ring_rsp_head(struct snic_ring_responder *r, uint64_t head)
{
    /* H lies between what it was and what was delivered, or is on its way (I1) */
    uint64_t most = r->g.discipline == SNIC_RING_COMMIT ? r->tail_b : r->flushing;

    if (!ring_is_start(&r->g, head) || ring_distance(head, r->head) < 0 ||
        ring_distance(most, head) < 0)
        return ring_break(&r->g);
    r->head = head;
    return 0;
}

static int ring_rsp_room(struct snic_ring_responder *r, uint64_t total)
{
    if (r->tail_a + total - r->head <= r->g.progress_max)
        return 0;
    /* acquire pairs with the collectors' store of H: their reads are over */
    if (!r->remote && ring_rsp_head(r, atomic_load_explicit(ring_at(&r->g, SNIC_RING_OFF_HEAD),
                                                            memory_order_acquire)) != 0)
        return SNIC_ECORRUPT;
    return r->tail_a + total - r->head <= r->g.progress_max ? 0 : SNIC_EAGAIN;
}

int snic_ring_resp_reserve(struct snic_ring_responder *r, uint32_t type, uint32_t data_bytes,
                           uint32_t body_bytes, struct snic_ring_rec *rec)
{
    uint64_t offset = r->tail_a & r->g.mask;
    uint64_t pad = 0;
    uint64_t span;
    int e;

    if (r->g.broken != 0)
        return r->g.broken;
    if (type > UINT16_MAX)
        return SNIC_EINVAL;
    if ((uint64_t)data_bytes + body_bytes > r->g.record_max)
        return SNIC_EMSGSIZE;
    span = body_bytes != 0 ? ring_span_ext(&r->g, offset, data_bytes, body_bytes)
                           : ring_span(&r->g, data_bytes);
    if (span > r->g.mask + 1 - offset) {
        pad = r->g.mask + 1 - offset;
        span = body_bytes != 0 ? ring_span_ext(&r->g, 0, data_bytes, body_bytes) : span;
    }
    e = ring_rsp_room(r, pad + span);
    if (e != 0) {
        r->stats.again += e == SNIC_EAGAIN;
        return e;
    }
    if (pad != 0) {
        uint64_t at = r->tail_a;

        ring_put_pad(&r->g, at, pad, 0);
        *ring_rsp_aux(r, at) =
            SNIC_RING__RSP_OPEN | SNIC_RING__RSP_PAD | (uint32_t)(pad >> r->g.granule_shift);
        r->tail_a += pad;
        r->stats.pads++;
        ring_rsp_done(r, at, SNIC_RING__RELEASED);
    }
    rec->type = type;
    rec->data_bytes = data_bytes;
    rec->body_bytes = body_bytes;
    ring_put_record(&r->g, r->tail_a, 0, rec);
    ring_rsp_aux(r, r->tail_a)[0] = SNIC_RING__RSP_OPEN | (uint32_t)(span >> r->g.granule_shift);
    ring_rsp_aux(r, r->tail_a)[1] = body_bytes;
    r->tail_a = rec->next;
    if (!r->remote && r->g.discipline == SNIC_RING_COMMIT)
        /* release pairs with the acquire of T: headers below T are there */
        atomic_store_explicit(ring_at(&r->g, SNIC_RING_OFF_TAIL), r->tail_a, memory_order_release);
    r->stats.bytes += (uint64_t)data_bytes + body_bytes;
    return 0;
}

/* The aux mark of an open record, or NULL. */
static uint32_t *ring_rsp_open(struct snic_ring_responder *r, uint64_t position)
{
    uint32_t *mark;

    if (!ring_is_start(&r->g, position) || position - r->tail_b >= r->tail_a - r->tail_b)
        return NULL;
    mark = ring_rsp_aux(r, position);
    return (*mark & (SNIC_RING__RSP_OPEN | SNIC_RING__RSP_DONE)) == SNIC_RING__RSP_OPEN ? mark
                                                                                        : NULL;
}

int snic_ring_resp_finish(struct snic_ring_responder *r, uint64_t position, uint32_t body_bytes)
{
    uint32_t *mark = ring_rsp_open(r, position);

    if (r->g.broken != 0)
        return r->g.broken;
    if (mark == NULL)
        return SNIC_EINVAL;
    if (body_bytes != SNIC_RING_WHOLE_BODY && body_bytes != mark[1]) {
        if (body_bytes > mark[1])
            return SNIC_EINVAL;
        atomic_store_explicit(ring_record_word(&r->g, position) + 1,
                              body_bytes | (uint64_t)(*mark & SNIC_RING__RSP_SPAN) << 32,
                              memory_order_relaxed);
    }
    r->stats.records++;
    ring_rsp_done(r, position, SNIC_RING__COMMITTED);
    return 0;
}

int snic_ring_resp_cancel(struct snic_ring_responder *r, uint64_t position)
{
    uint32_t *mark = ring_rsp_open(r, position);

    if (r->g.broken != 0)
        return r->g.broken;
    if (mark == NULL)
        return SNIC_EINVAL;
    *mark |= SNIC_RING__RSP_PAD;
    ring_put_pad(&r->g, position, ring_rsp_span(r, position), 0);
    r->stats.pads++;
    ring_rsp_done(r, position, SNIC_RING__RELEASED);
    return 0;
}

uint64_t snic_ring_resp_ready(const struct snic_ring_responder *r)
{
    if (r->g.discipline == SNIC_RING_QUIESCENT)
        return r->tail_b - r->tail_c;
    return r->remote ? r->ready : 0;
}

void snic_ring_resp_tails(const struct snic_ring_responder *r, uint64_t *tail_a, uint64_t *tail_b,
                          uint64_t *tail_c)
{
    if (tail_a != NULL)
        *tail_a = r->tail_a;
    if (tail_b != NULL)
        *tail_b = r->tail_b;
    if (tail_c != NULL)
        *tail_c = r->g.discipline == SNIC_RING_COMMIT && !r->remote ? r->tail_b : r->tail_c;
}

/* ---- Delivery ---- */

static void ring_rsp_op(struct snic_ring_op *op, uint64_t offset, void *local, uint64_t bytes,
                        uint32_t flags)
{
    op->kind = SNIC_RING_OP_WRITE;
    op->flags = flags;
    op->offset = offset;
    op->local = local;
    op->bytes = bytes;
}

static void ring_rsp_data_op(struct snic_ring_responder *r, struct snic_ring_op *op, uint64_t from,
                             uint64_t bytes)
{
    uint64_t offset = from & r->g.mask;

    ring_rsp_op(op, r->g.data_offset + offset, r->g.data + offset, bytes, 0);
}

static void ring_rsp_tail_op(struct snic_ring_responder *r, struct snic_ring_op *op, uint64_t tail,
                             uint32_t flags)
{
    r->flushing = tail;
    snic_put_le64(r->cursors.bytes + SNIC_RING__RSP_AT_TAIL, tail);
    ring_rsp_op(op, SNIC_RING_OFF_TAIL, r->cursors.bytes + SNIC_RING__RSP_AT_TAIL, 8, flags);
}

static int ring_rsp_flush_ordered(struct snic_ring_responder *r, struct snic_ring_op *ops)
{
    uint64_t from;
    int n = 0;

    r->tail_c = r->flushing;
    if (r->tail_c == r->tail_b)
        return 0;
    r->stats.batches++;
    if (!r->remote) {
        /* release pairs with the acquire of L1: everything below B is written */
        atomic_store_explicit(ring_at(&r->g, SNIC_RING_OFF_TAIL), r->tail_b, memory_order_release);
        r->tail_c = r->flushing = r->tail_b;
        return 0;
    }
    for (from = r->tail_c; from != r->tail_b;) {
        uint64_t room = r->g.mask + 1 - (from & r->g.mask);
        uint64_t bytes = snic_min_u64(room, r->tail_b - from);

        ring_rsp_data_op(r, &ops[n++], from, bytes);
        from += bytes;
    }
    ring_rsp_tail_op(r, &ops[n++], r->tail_b, SNIC_RING_OP_FENCE);
    return n;
}

/*
 * A stretch of finished, unsent records from *at, not over the end of the data area: one data
 * write, and behind it one write of the commit words of its granules. The words of granules
 * inside a record are written too, as 0; they are never read.
 */
static int ring_rsp_stretch(struct snic_ring_responder *r, uint64_t *at, struct snic_ring_op *ops)
{
    uint64_t from = *at;
    uint64_t first = (from & r->g.mask) >> r->g.granule_shift;

    do {
        uint32_t *mark = ring_rsp_aux(r, *at);
        uint64_t granules = *mark & SNIC_RING__RSP_SPAN;
        uint64_t *word = &r->words[(*at & r->g.mask) >> r->g.granule_shift];

        memset(word, 0, granules * 8);
        snic_put_le64(word, *at | ((*mark & SNIC_RING__RSP_PAD) != 0 ? SNIC_RING__RELEASED
                                                                     : SNIC_RING__COMMITTED));
        *mark |= SNIC_RING__RSP_SENT | SNIC_RING__RSP_HEADED;
        r->ready--;
        *at += granules << r->g.granule_shift;
    } while (*at != r->tail_a && (*at & r->g.mask) != 0 &&
             (*ring_rsp_aux(r, *at) & (SNIC_RING__RSP_DONE | SNIC_RING__RSP_SENT)) ==
                 SNIC_RING__RSP_DONE);
    ring_rsp_data_op(r, &ops[0], from, *at - from);
    ring_rsp_op(&ops[1], r->g.commit_offset + first * 8, &r->words[first],
                ((*at - from) >> r->g.granule_shift) * 8, SNIC_RING_OP_FENCE);
    return 2;
}

/*
 * Remote COMMIT. Walks from B (nothing below is unsent) to the last finished record; T follows
 * at the end, when all that lies below it has its header over there.
 */
static int ring_rsp_flush_commit(struct snic_ring_responder *r, struct snic_ring_op *ops, int max)
{
    int n = 0;

    r->tail_c = r->flushing; /* the tail write handed out last is complete */
    if (ring_distance(r->scan, r->tail_b) < 0)
        r->scan = r->tail_b;
    while (r->ready != 0 && n + 2 <= max) {
        uint32_t *mark;

        if (r->scan == r->tail_a)
            r->scan = r->tail_b; /* finished behind the walk since it began */
        mark = ring_rsp_aux(r, r->scan);
        if ((*mark & (SNIC_RING__RSP_DONE | SNIC_RING__RSP_SENT)) == SNIC_RING__RSP_DONE) {
            n += ring_rsp_stretch(r, &r->scan, ops + n);
            r->stats.batches++;
        } else {
            if ((*mark & SNIC_RING__RSP_HEADED) == 0) {
                *mark |= SNIC_RING__RSP_HEADED;
                ring_rsp_data_op(r, &ops[n++], r->scan, 16);
            }
            r->scan += ring_rsp_span(r, r->scan);
        }
        r->reach = snic_max_u64(r->reach, r->scan);
    }
    if (r->ready == 0 && n < max && r->reach != r->tail_c)
        ring_rsp_tail_op(r, &ops[n++], r->reach, SNIC_RING_OP_FENCE);
    ring_rsp_advance(r);
    if (n == 0)
        r->scan = r->tail_b;
    return n;
}

int snic_ring_resp_flush(struct snic_ring_responder *r, struct snic_ring_op *ops, uint32_t max)
{
    if (max < 4)
        return SNIC_EINVAL;
    if (r->g.broken != 0)
        return r->g.broken;
    if (r->g.discipline == SNIC_RING_QUIESCENT)
        return ring_rsp_flush_ordered(r, ops);
    if (!r->remote)
        return 0;
    return ring_rsp_flush_commit(r, ops, (int)snic_min_u64(max, INT32_MAX));
}

void snic_ring_resp_sync(struct snic_ring_responder *r, struct snic_ring_op *op)
{
    memset(op, 0, sizeof(*op));
    op->kind = SNIC_RING_OP_READ;
    op->offset = SNIC_RING_OFF_HEAD;
    op->local = r->cursors.bytes;
    op->bytes = SNIC_RING__RSP_AT_SLEEP + 8;
}

int snic_ring_resp_synced(struct snic_ring_responder *r)
{
    if (r->g.broken != 0)
        return r->g.broken;
    r->sleepers = snic_get_le64(r->cursors.bytes + SNIC_RING__RSP_AT_SLEEP);
    return ring_rsp_head(r, snic_get_le64(r->cursors.bytes));
}

int snic_ring_resp_notify(struct snic_ring_responder *r)
{
    if (r->g.broken != 0)
        return 0;
    if (!r->remote)
        r->sleepers = ring_load_flag(ring_at(&r->g, SNIC_RING_OFF_CONSLEEP));
    if (r->sleepers == r->rung)
        return 0;
    r->rung = r->sleepers;
    return 1;
}

int snic_ring_resp_wait_arm(struct snic_ring_responder *r, struct snic_ring_op *op)
{
    if (r->g.broken != 0)
        return 0;
    r->armed = (r->armed | 1) + 2;
    if (r->remote) {
        snic_put_le64(r->cursors.bytes + SNIC_RING__RSP_AT_WAIT, r->armed);
        ring_rsp_op(op, SNIC_RING_OFF_PRODWAIT, r->cursors.bytes + SNIC_RING__RSP_AT_WAIT, 8, 0);
        return 1;
    }
    atomic_store_explicit(ring_at(&r->g, SNIC_RING_OFF_PRODWAIT), r->armed, memory_order_seq_cst);
    (void)ring_load_flag(ring_at(&r->g, SNIC_RING_OFF_PRODWAIT));
    return 0;
}
