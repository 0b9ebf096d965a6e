/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The consumer of the request ring.
 *
 * Take, step by step (tests/ring/test_ring_explore*.c run these very lines):
 *   COMMIT     C1 load the commit word of `taken` (acquire); t | 1 means that the whole
 *              reservation is written. C2 read its records.
 *   QUIESCENT  C1 load P (acquire), C2 load T; equal means that all below is written (see
 *              ring.h). C3 read the records.
 *   remote     the same loads as DMA reads: ring_remote.c.
 *   release    C4 store H (release); remote: a DMA write started after the data reads.
 *
 * Invariants
 *   I1  released <= delivered <= taken <= limit (COMMIT, mapped: limit == taken).
 *   I2  taken - released <= capacity: no record that is out is overwritten, in the ring (by
 *       honest producers) or in the mirror.
 *   I3  released == taken when nothing is out: pads never hold space for longer.
 *   I4  The open flag of H is set if `released` lies inside a committed reservation.
 *   I5  Values from the shared memory move nothing before they are checked; a walk advances by at
 *       least a granule and ends at released + capacity, so no loop outlasts the ring.
 */
#include "snicstore/ring.h"

#include "base/simd.h"
#include "ring/ring_priv.h"

#include <string.h>

/* aux marks, per granule at the start of a record */
#define SNIC_RING__AUX_OUT (UINT32_C(1) << 31)
#define SNIC_RING__AUX_DONE (UINT32_C(1) << 30)
#define SNIC_RING__AUX_SPAN (SNIC_RING__AUX_DONE - 1)

/* ---- Attach ---- */

static int ring_consumer_set(struct snic_ring_consumer *c, const struct snic_ring__geo *g,
                             const struct snic_ring_info *info, uint64_t head, void *aux,
                             size_t aux_bytes)
{
    if (aux != NULL && !ring_is_aligned(aux, 8))
        return SNIC_EINVAL;
    if (aux != NULL && aux_bytes < info->aux_bytes)
        return SNIC_ENOSPC;
    if (!ring_is_start(g, head & ~SNIC_RING__HEAD_OPEN))
        return SNIC_ECORRUPT;
    memset(c, 0, sizeof(*c));
    c->g = *g;
    c->published = head;
    c->open = (uint32_t)(head & SNIC_RING__HEAD_OPEN);
    head &= ~SNIC_RING__HEAD_OPEN;
    c->limit = c->taken = c->delivered = c->released = head;
    c->tail_seen = head;
    if (aux != NULL) {
        size_t marks = (size_t)snic_align_up(info->capacity_bytes / info->granule_bytes * 4, 8);

        memset(aux, 0, (size_t)info->aux_bytes);
        c->aux = aux;
        c->words = (uint64_t *)(void *)((unsigned char *)aux + marks);
    }
    return 0;
}

int snic_ring_consumer_attach(struct snic_ring_consumer *c, void *mem, size_t mem_size, void *aux,
                              size_t aux_bytes)
{
    struct snic_ring__geo g;
    struct snic_ring_info info;
    int r = ring_attach(&g, mem, mem_size, SNIC_RING_REQUEST, &info);

    if (r != 0)
        return r;
    return ring_consumer_set(
        c, &g, &info, atomic_load_explicit(ring_at(&g, SNIC_RING_OFF_HEAD), memory_order_acquire),
        aux, aux_bytes);
}

int snic_ring_consumer_attach_remote(struct snic_ring_consumer *c, const void *header,
                                     uint64_t mem_size, const void *head, void *mirror,
                                     size_t mirror_bytes, void *aux, size_t aux_bytes,
                                     uint32_t flags)
{
    struct snic_ring__geo g;
    struct snic_ring_info info;
    int r;

    if ((flags & ~SNIC_RING_ORDERED_READ) != 0)
        return SNIC_EINVAL;
    r = ring_attach_remote(&g, header, mem_size, SNIC_RING_REQUEST, mirror, mirror_bytes, &info);
    if (r == 0)
        r = ring_consumer_set(c, &g, &info, snic_get_le64(head), aux, aux_bytes);
    if (r == 0)
        c->flags = flags;
    return r;
}

/* ---- Walking ---- */

/* A record is handed out, or (rec NULL) a pad is passed. */
static inline void ring_mark(struct snic_ring_consumer *c, uint64_t position, uint64_t next,
                             uint32_t marks)
{
    if (c->aux != NULL)
        c->aux[(position & c->g.mask) >> c->g.granule_shift] =
            marks | (uint32_t)((next - position) >> c->g.granule_shift);
}

static inline void ring_publish_head(struct snic_ring_consumer *c)
{
    if (c->g.base == NULL || (c->published & ~SNIC_RING__HEAD_OPEN) == c->released)
        return;
    c->published = ring_head_value(c);
    /* release pairs with the acquire of H in ring_room: reads of the records come first */
    atomic_store_explicit(ring_at(&c->g, SNIC_RING_OFF_HEAD), c->published, memory_order_release);
}

/* A producer that waits for space reads H: were it stored with each release, its cache line would
 * move with each. Holding back an eighth of M blocks no producer while the consumer still looks. */
static inline void ring_publish_head_lazily(struct snic_ring_consumer *c)
{
    if (c->released - (c->published & ~SNIC_RING__HEAD_OPEN) >= c->g.progress_max / 8)
        ring_publish_head(c);
}

/* One record or pad at taken, known to be committed. 1: *rec; 0: pad; SNIC_ECORRUPT. */
static inline int ring_take_one(struct snic_ring_consumer *c, uint64_t end,
                                struct snic_ring_rec *rec)
{
    struct ring_parsed found;

    if (SNIC_UNLIKELY(ring_parse(&c->g, c->taken, end, &found) != 0))
        return ring_break(&c->g);
    c->open = (uint32_t)found.more;
    if (SNIC_UNLIKELY(found.pad)) {
        c->stats.pads++;
        if (c->released == c->taken) {
            c->released = c->delivered = found.rec.next; /* I3 */
        } else {
            ring_mark(c, c->taken, found.rec.next, SNIC_RING__AUX_OUT | SNIC_RING__AUX_DONE);
        }
        c->taken = found.rec.next;
        return 0;
    }
    ring_mark(c, c->taken, found.rec.next, SNIC_RING__AUX_OUT);
    c->taken = c->delivered = found.rec.next;
    c->stats.bytes += (uint64_t)found.rec.data_bytes + found.rec.body_bytes;
    *rec = found.rec;
    return 1;
}

/* Mapped, QUIESCENT: C1 and C2. 0 or SNIC_ECORRUPT; moves the limit if P == T, else *busy. */
static int ring_look_quiescent(struct snic_ring_consumer *c, int *busy)
{
    /* acquire pairs with the release of every addition to P, and keeps T behind P */
    uint64_t progress =
        atomic_load_explicit(ring_at(&c->g, SNIC_RING_OFF_PROGRESS), memory_order_acquire);
    uint64_t tail;

    if (progress == c->limit)
        return 0;
    tail = atomic_load_explicit(ring_at(&c->g, SNIC_RING_OFF_TAIL), memory_order_relaxed);
    if (!ring_is_start(&c->g, tail) || tail - c->released > c->g.mask + 1 ||
        ring_distance(tail, c->limit) < 0)
        return ring_break(&c->g);
    c->tail_seen = tail;
    if (progress == tail)
        c->limit = tail;
    else
        *busy = 1;
    return 0;
}

/*
 * Plain records (no pad, no body) from taken on to @p end or the lap's, with the handle's fields in
 * registers. Stops at whatever needs more care; *n counts. Checks what ring_parse() checks: a
 * header that differs from the one before in type and flags only was checked with that. 1 when it
 * stopped because nothing more is committed.
 */
static inline int ring_take_plain(struct snic_ring_consumer *c, uint64_t end, int commit,
                                  struct snic_ring_rec *recs, uint32_t *n, uint32_t max)
{
    const uint64_t alike =
        UINT64_MAX << 48 | SNIC_RING__PAD | SNIC_RING__EXT | SNIC_RING__LENGTH_MASK;
    const struct snic_ring__geo *g = &c->g;
    const ring_word *words = commit ? ring_commit_word(g, 0) : NULL;
    unsigned char *data = g->data;
    uint64_t mask = g->mask, taken = c->taken, bytes = 0;
    uint64_t lap = ring_lap_tag(g, taken), before = lap, span = ring_span(g, 0);
    uint32_t shift = g->granule_shift, open = c->open, k = *n;
    uint32_t *aux = c->aux;
    int dry = 0;

    end = snic_min_u64(end, (taken | mask) + 1);
    for (; k < max && taken != end; k++) {
        uint64_t offset = taken & mask;
        struct snic_ring_rec *rec = &recs[k];
        uint64_t word;

        /* acquire pairs with the release of the commit word: all it stands for is written */
        if (commit && !open &&
            atomic_load_explicit(&words[offset >> shift], memory_order_acquire) !=
                (taken | SNIC_RING__COMMITTED)) {
            dry = 1;
            break;
        }
        word = atomic_load_explicit((ring_word *)(void *)(data + offset), memory_order_relaxed);
        /* A branch, not arithmetic: predicted, the next record's place need not wait for this
         * one's length. */
        if (SNIC_UNLIKELY(((word ^ before) & alike) != 0)) {
            uint64_t length = word & SNIC_RING__LENGTH_MASK;

            if (((word ^ lap) >> 48) != 0 || (word & (SNIC_RING__PAD | SNIC_RING__EXT)) != 0 ||
                length > g->record_max)
                break;
            before = word;
            span = ring_span(g, length);
        }
        if (SNIC_UNLIKELY(span > end - taken))
            break;
        if (aux != NULL)
            aux[offset >> shift] = SNIC_RING__AUX_OUT | (uint32_t)(span >> shift);
        rec->position = taken;
        taken += span;
        rec->next = taken;
        rec->data = data + offset + 8;
        rec->body = NULL;
        rec->data_bytes = (uint32_t)(word & SNIC_RING__LENGTH_MASK);
        rec->body_bytes = 0;
        rec->type = (uint32_t)(word >> 32) & UINT16_MAX;
        rec->reserved = 0;
        open = (word & SNIC_RING__MORE) != 0;
        bytes += word & SNIC_RING__LENGTH_MASK;
    }
    if (k != *n)
        c->delivered = taken;
    c->taken = taken;
    c->open = open;
    c->stats.bytes += bytes;
    *n = k;
    return dry;
}

/* May the record at @p at, with header @p word, be the first of a run? */
static inline int ring_run_begins(const struct snic_ring__geo *g, uint64_t at, uint64_t word)
{
    return ((word ^ ring_lap_tag(g, at)) >> 48) == 0 &&
           (word & (SNIC_RING__PAD | SNIC_RING__EXT)) == 0 &&
           (word & SNIC_RING__LENGTH_MASK) <= g->record_max;
}

static inline void ring_run_mark(struct snic_ring_consumer *c, const struct snic_ring_run *run)
{
    uint64_t at;

    if (c->aux != NULL)
        for (at = run->first.position; at != run->next; at += run->stride_bytes)
            ring_mark(c, at, at + run->stride_bytes, SNIC_RING__AUX_OUT);
}

static inline uint64_t ring_run_header(const unsigned char *at)
{
    return atomic_load_explicit((const ring_word *)(const void *)at, memory_order_relaxed);
}

/* Prefetch so far ahead of the walk: the lines come from another processor's cache. */
#define SNIC_RING__READ_AHEAD 1024U

static inline int ring_run_committed(const ring_word *words, uint64_t offset, uint32_t shift,
                                     uint64_t at)
{
    /* acquire: as in ring_take_plain */
    return atomic_load_explicit(&words[offset >> shift], memory_order_acquire) ==
           (at | SNIC_RING__COMMITTED);
}

/*
 * The same for records whose headers differ in nothing but MORE and CONT; the first one's is
 * checked. Inside a reservation, and from one reservation of a single record to the next, they do
 * not differ at all, which makes those loops short. *n counts. Offsets are of the data area: a run
 * does not wrap.
 */
static inline int ring_take_alike(struct snic_ring_consumer *c, uint64_t end, int commit,
                                  struct snic_ring_run *run, uint32_t *n, uint32_t max)
{
    const uint64_t flags = SNIC_RING__MORE | SNIC_RING__CONT;
    const struct snic_ring__geo *g = &c->g;
    const ring_word *words = commit ? ring_commit_word(g, 0) : NULL;
    const unsigned char *data = g->data;
    uint64_t from = c->taken, lap = from & ~g->mask, begin = from & g->mask, at = begin;
    uint64_t last = begin, first = 0, span = 0, ahead = begin + SNIC_RING__READ_AHEAD / 2;
    uint32_t shift = g->granule_shift, open = c->open, k = 0;
    int dry = 0;

    while (at <= last) {
        uint64_t word;

        dry = commit && !open && !ring_run_committed(words, at, shift, lap + at);
        if (dry)
            break;
        word = ring_run_header(data + at);
        for (; open && ahead < at + SNIC_RING__READ_AHEAD; ahead += 64)
            simd_prefetch_read(data + (ahead & g->mask));
        if (k == 0) {
            uint64_t room = snic_min_u64(end - from, g->mask + 1 - begin);

            if (!ring_run_begins(g, from, word))
                break;
            first = word;
            span = ring_span(g, word & SNIC_RING__LENGTH_MASK);
            if (span > room)
                break;
            last = begin + snic_min_u64(room - span, span * (max - 1));
        }
        if (SNIC_UNLIKELY(((word ^ first) & ~flags) != 0))
            break;
        open = (word & SNIC_RING__MORE) != 0;
        word = open ? word | flags : word & ~flags;
        k++;
        at += span;
        if (open || !commit) {
            for (; at <= last && ring_run_header(data + at) == word; at += span)
                k++;
        } else {
            for (; at <= last && ring_run_committed(words, at, shift, lap + at) &&
                   ring_run_header(data + at) == word;
                 at += span)
                k++;
        }
    }
    *n = k;
    if (k == 0)
        return dry;
    c->taken = c->delivered = lap + at;
    c->open = open;
    c->stats.bytes += (first & SNIC_RING__LENGTH_MASK) * k;
    memset(run, 0, sizeof(*run));
    run->first.position = from;
    run->first.next = from + span;
    run->first.data = g->data + begin + 8;
    run->first.data_bytes = (uint32_t)(first & SNIC_RING__LENGTH_MASK);
    run->first.type = (uint32_t)(first >> 32) & UINT16_MAX;
    run->next = lap + at;
    run->count = k;
    run->stride_bytes = (uint32_t)span;
    ring_run_mark(c, run);
    return dry;
}

/* Records up to @p end, in COMMIT while they are committed. Their number, or SNIC_ECORRUPT. */
static inline int ring_take(struct snic_ring_consumer *c, uint64_t end, int commit,
                            struct snic_ring_rec *recs, uint32_t max)
{
    uint32_t n = 0;

    for (;;) {
        uint64_t from = c->taken;
        int r;

        if (ring_take_plain(c, end, commit, recs, &n, max) || n == max || c->taken == end) {
            c->left = n == max;
            return (int)n;
        }
        if (c->taken != from && (c->taken & c->g.mask) == 0)
            continue; /* the next lap */
        r = ring_take_one(c, end, &recs[n]);
        if (SNIC_UNLIKELY(r < 0))
            return r;
        n += (uint32_t)r;
    }
}

static inline void ring_pause(uint32_t times)
{
    while (times-- > 0)
        simd_cpu_relax();
}

/*
 * Adaptive lag. Each look at words that producers are writing takes their cache lines away, once
 * per record if the consumer is eager. When looks keep finding a few records, the next look waits
 * a little longer, at most SNIC_RING__LAG_MAX pauses (two microseconds; six where a pause is
 * long), so that lines change hands once per batch. An empty look ends it: at low load nothing
 * waits.
 */
#define SNIC_RING__LAG_MAX 128U
#define SNIC_RING__LAG_FEW 64
static inline void ring_lag_adapt(struct snic_ring_consumer *c, int n, int busy)
{
    if (n == 0 && !busy)
        c->lag = 0;
    else if (n < SNIC_RING__LAG_FEW && !c->left)
        c->lag = c->lag * 2 + 1 < SNIC_RING__LAG_MAX ? c->lag * 2 + 1 : SNIC_RING__LAG_MAX;
    else
        c->lag -= c->lag / 4;
}

/* The records that come next and are alike. Their number, or SNIC_ECORRUPT. */
static inline int ring_take_run(struct snic_ring_consumer *c, uint64_t end, int commit,
                                struct snic_ring_run *run, uint32_t max)
{
    uint32_t n = 0;
    int r = 0;

    while (max != 0) {
        c->left = 1;
        if (ring_take_alike(c, end, commit, run, &n, max) || c->taken == end)
            c->left = 0;
        if (n != 0 || !c->left)
            return (int)n;
        r = ring_take_one(c, end, &run->first);
        if (r != 0)
            break;
    }
    if (r > 0) {
        run->next = run->first.next;
        run->count = 1;
        run->stride_bytes = (uint32_t)(run->next - run->first.position);
    }
    return r;
}

/* One of @p recs and @p run is NULL, known where this is inlined. */
static inline int ring_take_any(struct snic_ring_consumer *c, uint64_t end, int commit,
                                struct snic_ring_rec *recs, struct snic_ring_run *run, uint32_t max)
{
    return run != NULL ? ring_take_run(c, end, commit, run, max)
                       : ring_take(c, end, commit, recs, max);
}

/* Mapped QUIESCENT: the rest of the last look may be padding; 0 is returned only after a new one.
 */
static inline int ring_peek_any(struct snic_ring_consumer *c, struct snic_ring_rec *recs,
                                struct snic_ring_run *run, uint32_t max)
{
    int busy = 0;
    int n;

    if (SNIC_UNLIKELY(c->g.broken != 0))
        return c->g.broken;
    max = max < INT32_MAX ? max : INT32_MAX;
    if (c->g.base != NULL && c->g.discipline == SNIC_RING_COMMIT) {
        if (!c->left)
            ring_pause(c->lag);
        n = ring_take_any(c, c->released + c->g.mask + 1, 1, recs, run, max); /* I2 */
        c->limit = c->taken;
    } else {
        n = ring_take_any(c, c->limit, 0, recs, run, max);
        if (n == 0 && max != 0 && c->g.base != NULL) {
            ring_pause(c->lag);
            n = ring_look_quiescent(c, &busy);
            n = n != 0 ? n : ring_take_any(c, c->limit, 0, recs, run, max);
        }
    }
    if (SNIC_UNLIKELY(n < 0))
        return n;
    if (c->g.base != NULL)
        ring_lag_adapt(c, n, busy);
    if (n == 0)
        ring_publish_head(c);
    c->stats.records += (uint64_t)n;
    c->stats.batches += n > 0;
    c->stats.again += n == 0;
    return n;
}

int snic_ring_peek(struct snic_ring_consumer *c, struct snic_ring_rec *recs, uint32_t max)
{
    return ring_peek_any(c, recs, NULL, max);
}

int snic_ring_peek_run(struct snic_ring_consumer *c, struct snic_ring_run *run, uint32_t max)
{
    return ring_peek_any(c, NULL, run, max);
}

/* ---- Release ---- */

int snic_ring_release(struct snic_ring_consumer *c, uint64_t next)
{
    if (!ring_is_start(&c->g, next) || next - c->released > c->delivered - c->released)
        return SNIC_EINVAL;
    c->released = next == c->delivered ? c->taken : next; /* I3 */
    if (next == c->delivered)
        c->delivered = c->taken;
    ring_publish_head_lazily(c);
    return 0;
}

int snic_ring_finish(struct snic_ring_consumer *c, uint64_t position)
{
    uint32_t *mark;

    if (c->aux == NULL || !ring_is_start(&c->g, position) ||
        position - c->released >= c->taken - c->released)
        return SNIC_EINVAL;
    mark = &c->aux[(position & c->g.mask) >> c->g.granule_shift];
    if ((*mark & (SNIC_RING__AUX_OUT | SNIC_RING__AUX_DONE)) != SNIC_RING__AUX_OUT)
        return SNIC_EINVAL;
    *mark |= SNIC_RING__AUX_DONE;
    while (c->released != c->taken) {
        mark = &c->aux[(c->released & c->g.mask) >> c->g.granule_shift];
        if ((*mark & SNIC_RING__AUX_DONE) == 0)
            break;
        c->released += (uint64_t)(*mark & SNIC_RING__AUX_SPAN) << c->g.granule_shift;
        *mark = 0;
    }
    if (ring_distance(c->delivered, c->released) < 0)
        c->delivered = c->released;
    ring_publish_head_lazily(c);
    return 0;
}

/* ---- Wake-ups ---- */

int snic_ring_space_notify(struct snic_ring_consumer *c)
{
    uint64_t waiting;

    if (c->g.broken != 0)
        return 0;
    ring_publish_head(c);
    waiting = c->g.base != NULL ? ring_load_flag(ring_at(&c->g, SNIC_RING_OFF_PRODWAIT))
                                : ring_scratch(c, SNIC_RING__AT_WAIT);
    if (waiting == c->rung)
        return 0;
    c->rung = waiting;
    return 1;
}

static int ring_sleep_set(struct snic_ring_consumer *c, uint64_t armed, struct snic_ring_op *op)
{
    c->armed = armed;
    if (c->g.base == NULL) {
        ring_op_word(c, SNIC_RING__AT_SLEEP, SNIC_RING_OFF_CONSLEEP, armed, op);
        return 1;
    }
    atomic_store_explicit(ring_at(&c->g, SNIC_RING_OFF_CONSLEEP), armed, memory_order_seq_cst);
    /* store, full fence, then the caller's look */
    (void)ring_load_flag(ring_at(&c->g, SNIC_RING_OFF_CONSLEEP));
    return 0;
}

int snic_ring_sleep_arm(struct snic_ring_consumer *c, struct snic_ring_op *op)
{
    return c->g.broken != 0 ? 0 : ring_sleep_set(c, (c->armed | 1) + 2, op);
}

int snic_ring_sleep_disarm(struct snic_ring_consumer *c, struct snic_ring_op *op)
{
    return c->g.broken != 0 ? 0 : ring_sleep_set(c, (c->armed | 1) + 1, op);
}

uint64_t snic_ring_backlog(const struct snic_ring_consumer *c)
{
    uint64_t tail = c->tail_seen;

    if (c->g.base != NULL)
        tail = atomic_load_explicit(ring_at(&c->g, SNIC_RING_OFF_TAIL), memory_order_relaxed);
    return ring_distance(tail, c->released) < 0 ? 0 : tail - c->released;
}
