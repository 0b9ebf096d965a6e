/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The producers of the request ring.
 *
 * Many producers, step by step (tests/ring/test_ring_explore*.c run these very lines under a weak
 * memory model):
 *   R1 load T (acquire); R2 if it does not fit below M by the cached H: load H (acquire);
 *   R3 store the intent (release), R4 compare-and-swap T from t to t + n (release);
 *   R5 write headers and payload (relaxed, plain); R6 COMMIT or owners: store the commit word
 *   (release); R7 QUIESCENT: fetch-add P by n (release); R8 clear the intent (release).
 * One producer (SNIC_RING_ONE_PRODUCER) keeps T to itself until it commits:
 *   S1 if it does not fit below M by the cached H: load H (acquire); S2 write headers and
 *   payload; S3 COMMIT: store the commit word (release), then T; QUIESCENT: store T, then P
 *   (release), because the consumer reads P first. Its death leaves nothing behind but what S3
 *   had begun, and that is written: repair completes it.
 *
 * The invariants are those of ring.c.
 */
#include "snicstore/ring.h"

#include "base/simd.h"
#include "ring/ring_priv.h"

#include <string.h>

/* Where short pushes are possible behind @p tail: what H leaves free, up to the end of the lap. */
static void ring_window(struct snic_ring_producer *p, uint64_t tail)
{
    /* Lengths, not ends: a hostile T may be so large that an end wraps below it. */
    uint64_t used = snic_min_u64(tail - p->head, p->g.progress_max);

    p->window.from = tail;
    p->window.width = snic_min_u64(p->g.progress_max - used, p->g.mask + 1 - (tail & p->g.mask));
    p->window.tag = ring_lap_tag(&p->g, tail);
}

int snic_ring_producer_attach(struct snic_ring_producer *p, void *mem, size_t mem_size,
                              uint64_t token)
{
    struct snic_ring__geo g;
    struct snic_ring_info info;
    int r = ring_attach(&g, mem, mem_size, SNIC_RING_REQUEST, &info);

    if (r != 0)
        return r;
    r = ring_owner_take(&g, token);
    if (r < 0)
        return r;
    memset(p, 0, sizeof(*p));
    p->g = g;
    p->owner = (uint32_t)r;
    p->head = ring_load_head(&g);
    p->alone = g.flags & SNIC_RING_ONE_PRODUCER;
    p->intent = p->alone ? 0 : p->owner;
    /* acquire of the slot: what the producer before us left is all there */
    p->tail = atomic_load_explicit(ring_at(&g, SNIC_RING_OFF_TAIL), memory_order_relaxed);
    if (p->alone && (!ring_is_start(&g, p->tail) || p->tail - p->head > g.mask + 1)) {
        ring_owner_give(&g, p->owner);
        return SNIC_ECORRUPT;
    }
    ring_window(p, p->tail);
    return 0;
}

void snic_ring_producer_detach(struct snic_ring_producer *p)
{
    SNIC_ASSERT(p->total == 0);
    ring_owner_give(&p->g, p->owner);
    p->owner = 0;
    (void)ring_break(&p->g);
}

/* What a reservation holds: n records of equal size, n of listed sizes, or one with body. */
struct ring_shape {
    const uint32_t *sizes; /* NULL: all data_bytes */
    uint32_t n;
    uint32_t data_bytes;
    uint32_t body_bytes; /* n == 1 */
};

/* Bytes that the shape takes when it starts at @p position, pads included (I5). */
static inline uint64_t ring_shape_total(const struct snic_ring__geo *g, const struct ring_shape *s,
                                        uint64_t position)
{
    uint64_t room = g->mask + 1 - (position & g->mask);
    uint64_t total = 0;
    uint64_t span;
    uint32_t i;

    if (s->sizes == NULL) {
        if (s->body_bytes != 0) {
            span = ring_span_ext(g, position & g->mask, s->data_bytes, s->body_bytes);
            return span <= room ? span : room + ring_span_ext(g, 0, s->data_bytes, s->body_bytes);
        }
        span = ring_span(g, s->data_bytes);
        if (SNIC_LIKELY(span * s->n <= room))
            return span * s->n;
        return span * s->n + room % span;
    }
    for (i = 0; i < s->n; i++) {
        span = ring_span(g, s->sizes[i]);
        if (span > room) {
            total += room;
            room = g->mask + 1;
        }
        total += span;
        room -= span;
    }
    return total;
}

/* R2: is there room for @p total at @p tail? 0, SNIC_EAGAIN, SNIC_ECORRUPT, or 1: T again. */
static int ring_room(struct snic_ring_producer *p, uint64_t tail, uint64_t total)
{
    uint64_t head = ring_load_head(&p->g); /* I4 */

    if (!ring_is_start(&p->g, head) || ring_distance(head, p->head) < 0)
        return ring_break(&p->g);
    p->head = head;
    if (ring_distance(tail, head) < 0) {
        /* T was read first and others moved on; read now it cannot lie below H (I1) */
        tail = atomic_load_explicit(ring_at(&p->g, SNIC_RING_OFF_TAIL), memory_order_acquire);
        return ring_distance(tail, head) < 0 ? ring_break(&p->g) : 1;
    }
    if (tail - head > p->g.mask + 1)
        return ring_break(&p->g);
    return total <= p->g.progress_max - snic_min_u64(tail - head, p->g.progress_max) ? 0
                                                                                     : SNIC_EAGAIN;
}

/*
 * Lines that the next reservations will write still lie in the consumer's cache; a store would wait
 * for each in turn. Asked for early, several are on their way at once. Only what is known to be
 * free: what the consumer still reads would be taken away from it.
 */
#define SNIC_RING__AHEAD 256U
static inline void ring_ahead(const struct snic_ring_producer *p, uint64_t from, uint64_t to)
{
    uint64_t at = snic_align_down(from + SNIC_RING__AHEAD, 64) + 64;
    int commit = p->g.discipline == SNIC_RING_COMMIT;

    if (commit && to - from >= SNIC_RING__AHEAD && at - p->head <= p->g.mask - 63) {
        simd_prefetch_write(ring_commit_word(&p->g, to)); /* the next one's only word */
        commit = 0;
    }
    to += SNIC_RING__AHEAD;
    for (; ring_distance(to, at) >= 0 && at - p->head <= p->g.mask - 63; at += 64) {
        simd_prefetch_write(p->g.data + (at & p->g.mask));
        if (commit)
            simd_prefetch_write(ring_commit_word(&p->g, at));
    }
}

static inline void ring_reserved(struct snic_ring_producer *p, uint64_t position, uint64_t total,
                                 uint32_t count)
{
    p->position = position;
    p->total = total;
    p->count = count;
    p->stats.batches++;
    ring_ahead(p, position, position + total);
}

/* R1 to R4. 0 and the reservation in *p; SNIC_EAGAIN; SNIC_ECORRUPT. */
static int ring_reserve_shared(struct snic_ring_producer *p, const struct ring_shape *s)
{
    ring_word *tail_word = ring_at(&p->g, SNIC_RING_OFF_TAIL);
    /* acquire pairs with the release of R4: the producer that moved T here saw an H that allows
     * it, and so does this one (I1) */
    uint64_t tail = atomic_load_explicit(tail_word, memory_order_acquire);
    uint32_t races;
    int r = 0;

    for (races = 0; races < SNIC_RING__RACES; races++) {
        uint64_t total = ring_shape_total(&p->g, s, tail);

        if (SNIC_UNLIKELY(!ring_is_start(&p->g, tail)))
            return ring_break(&p->g);
        /* unsigned: also catches a T below the cached H */
        if (SNIC_UNLIKELY(total > p->g.progress_max ||
                          tail - p->head > p->g.progress_max - total)) {
            r = ring_room(p, tail, total);
            if (r < 0)
                break;
            if (r > 0) {
                tail = atomic_load_explicit(tail_word, memory_order_acquire);
                r = SNIC_EAGAIN;
                continue;
            }
        }
        ring_intend(&p->g, p->intent, tail, total);
        /* release pairs with R1 and with the supervisor's acquire of T: intents are there */
        if (SNIC_LIKELY(atomic_compare_exchange_weak_explicit(
                tail_word, &tail, tail + total, memory_order_release, memory_order_acquire))) {
            ring_reserved(p, tail, total, s->n);
            p->stats.retries += races;
            return 0;
        }
        r = SNIC_EAGAIN;
    }
    ring_intend_clear(&p->g, p->intent);
    p->stats.again += r == SNIC_EAGAIN;
    p->stats.retries += races;
    return r;
}

/* S1. */
static int ring_reserve_alone(struct snic_ring_producer *p, const struct ring_shape *s)
{
    uint64_t total = ring_shape_total(&p->g, s, p->tail);

    if (total > p->g.progress_max || p->tail - p->head > p->g.progress_max - total) {
        int r = ring_room(p, p->tail, total);

        if (r > 0)
            return ring_break(&p->g); /* H beyond our own T */
        p->stats.again += r == SNIC_EAGAIN;
        if (r != 0)
            return r;
    }
    ring_reserved(p, p->tail, total, s->n);
    return 0;
}

static inline int ring_reserve_shape(struct snic_ring_producer *p, const struct ring_shape *s)
{
    return p->alone ? ring_reserve_alone(p, s) : ring_reserve_shared(p, s);
}

static inline int ring_reserve_refused(const struct snic_ring_producer *p, uint32_t type)
{
    if (SNIC_UNLIKELY(p->g.broken != 0))
        return p->g.broken;
    if (SNIC_UNLIKELY(p->total != 0))
        return SNIC_EBUSY;
    return SNIC_UNLIKELY(type > UINT16_MAX) ? SNIC_EINVAL : 0;
}

static inline int ring_reserve_one(struct snic_ring_producer *p, uint32_t type, uint32_t data_bytes,
                                   uint32_t body_bytes, struct snic_ring_rec *rec)
{
    struct ring_shape s = {NULL, 1, data_bytes, body_bytes};
    uint64_t position;
    uint64_t flags = 0;
    int r = ring_reserve_refused(p, type);

    if (r != 0)
        return r;
    if ((uint64_t)data_bytes + body_bytes > p->g.record_max)
        return SNIC_EMSGSIZE;
    r = ring_reserve_shape(p, &s);
    if (r != 0)
        return r;
    rec->type = type;
    rec->data_bytes = data_bytes;
    rec->body_bytes = body_bytes;
    position = p->position;
    if (SNIC_UNLIKELY((position & p->g.mask) + p->total > p->g.mask + 1)) {
        uint64_t room = p->g.mask + 1 - (position & p->g.mask);

        ring_put_pad(&p->g, position, room, SNIC_RING__MORE);
        p->stats.pads++;
        position += room;
        flags = SNIC_RING__CONT;
    }
    ring_put_record(&p->g, position, flags, rec);
    p->stats.bytes += (uint64_t)data_bytes + body_bytes;
    return 0;
}

int snic_ring_reserve(struct snic_ring_producer *p, uint32_t type, uint32_t data_bytes,
                      uint32_t body_bytes, struct snic_ring_rec *rec)
{
    return ring_reserve_one(p, type, data_bytes, body_bytes, rec);
}

/* Lay a record behind @p position, with a pad in front if it must wrap; its end. */
static inline uint64_t ring_lay(struct snic_ring_producer *p, uint64_t position, int last,
                                struct snic_ring_rec *rec)
{
    uint64_t flags = position != p->position ? SNIC_RING__CONT : 0;
    uint64_t room = p->g.mask + 1 - (position & p->g.mask);

    if (SNIC_UNLIKELY(ring_span(&p->g, rec->data_bytes) > room)) {
        ring_put_pad(&p->g, position, room, flags | SNIC_RING__MORE);
        p->stats.pads++;
        position += room;
        flags = SNIC_RING__CONT;
    }
    ring_put_record(&p->g, position, flags | (last ? 0 : SNIC_RING__MORE), rec);
    p->stats.bytes += rec->data_bytes;
    return rec->next;
}

int snic_ring_reserve_n(struct snic_ring_producer *p, uint32_t type, const uint32_t *data_bytes,
                        uint32_t n, struct snic_ring_rec *recs)
{
    struct ring_shape s = {data_bytes, n, 0, 0};
    uint64_t sum = 0;
    uint64_t largest = 0;
    uint64_t position;
    uint32_t i;
    int r = ring_reserve_refused(p, type);

    if (r != 0)
        return r;
    if (n == 0)
        return SNIC_EINVAL;
    for (i = 0; i < n; i++) {
        if (data_bytes[i] > p->g.record_max)
            return SNIC_EMSGSIZE;
        sum += ring_span(&p->g, data_bytes[i]);
        largest = snic_max_u64(largest, ring_span(&p->g, data_bytes[i]));
    }
    if (sum + largest > p->g.progress_max)
        return SNIC_EMSGSIZE;
    r = ring_reserve_shape(p, &s);
    if (r != 0)
        return r;
    for (i = 0, position = p->position; i < n; i++) {
        recs[i].type = type;
        recs[i].data_bytes = data_bytes[i];
        recs[i].body_bytes = 0;
        position = ring_lay(p, position, i + 1 == n, &recs[i]);
    }
    SNIC_DASSERT(position == p->position + p->total);
    return 0;
}

/* S3. */
static inline void ring_publish_alone(struct snic_ring_producer *p, uint64_t position,
                                      uint64_t next)
{
    /* T itself orders nothing: a committed word (COMMIT) or P (QUIESCENT) does */
    p->tail = next;
    if (p->g.discipline == SNIC_RING_COMMIT) {
        /* release pairs with the acquire of the consumer (I3) */
        atomic_store_explicit(ring_commit_word(&p->g, position), position | SNIC_RING__COMMITTED,
                              memory_order_release);
        atomic_store_explicit(ring_at(&p->g, SNIC_RING_OFF_TAIL), next, memory_order_relaxed);
    } else {
        atomic_store_explicit(ring_at(&p->g, SNIC_RING_OFF_TAIL), next, memory_order_relaxed);
        /* release pairs with the acquire of P by the consumer: T and the records come first */
        atomic_store_explicit(ring_at(&p->g, SNIC_RING_OFF_PROGRESS), next, memory_order_release);
    }
}

/* R6 to R8. */
static inline void ring_publish(struct snic_ring_producer *p)
{
    if (p->alone) {
        ring_publish_alone(p, p->position, p->position + p->total);
        p->total = 0;
        return;
    }
    ring_publishes(&p->g);
    if (p->g.discipline == SNIC_RING_COMMIT || p->intent != 0)
        /* release pairs with the acquire of snic_ring_peek, or of the supervisor (I3) */
        atomic_store_explicit(ring_commit_word(&p->g, p->position),
                              p->position | SNIC_RING__COMMITTED, memory_order_release);
    if (p->g.discipline == SNIC_RING_QUIESCENT)
        /* release pairs with the acquire of P by the consumer; being read-modify-writes,
         * all additions are in one release sequence */
        (void)atomic_fetch_add_explicit(ring_at(&p->g, SNIC_RING_OFF_PROGRESS), p->total,
                                        memory_order_release);
    ring_intend_clear(&p->g, p->intent);
    p->total = 0;
}

void snic_ring_commit(struct snic_ring_producer *p)
{
    SNIC_ASSERT(p->total != 0);
    p->stats.records += p->count;
    ring_publish(p);
}

void snic_ring_cancel(struct snic_ring_producer *p)
{
    SNIC_ASSERT(p->total != 0);
    if (p->alone) {
        p->total = 0; /* it was not published */
        return;
    }
    ring_put_pad(&p->g, p->position, p->total, 0);
    p->stats.pads++;
    ring_publish(p);
}

/* The short way is compiled once for one record and once for several. */
#define SNIC_RING__INLINE __attribute__((always_inline)) static inline

/* A size that the compiler knows is copied without a call. */
static inline void ring_copy(void *to, const void *from, uint32_t bytes)
{
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes == 64)
        memcpy(to, from, 64);
    else if (bytes != 0)
        memcpy(to, from, bytes);
}

/* @p n records with the same header. Relaxed: a commit word or P publishes them, and no handle
 * reads them before. */
SNIC_RING__INLINE void ring_lay_same(unsigned char *at, uint64_t span, uint64_t header,
                                     const unsigned char *from, uint32_t bytes, uint32_t n)
{
    for (; n > 0; n--, at += span, from += bytes) {
        atomic_store_explicit((ring_word *)(void *)at, header, memory_order_relaxed);
        ring_copy(at + 8, from, bytes);
    }
}

/* A reservation of @p n records of @p bytes each that does not wrap: between the first and the last
 * the headers are the same. */
SNIC_RING__INLINE void ring_lay_alike(unsigned char *at, uint64_t span, uint64_t word,
                                      const unsigned char *from, uint32_t bytes, uint32_t n)
{
    if (n > 1) {
        uint64_t header = word | SNIC_RING__MORE | SNIC_RING__CONT;

        ring_lay_same(at, span, word | SNIC_RING__MORE, from, bytes, 1);
        at += span;
        from += bytes;
        n -= 2;
        if (bytes == 8)
            ring_lay_same(at, span, header, from, 8, n);
        else
            ring_lay_same(at, span, header, from, bytes, n);
        at += span * n;
        from += (uint64_t)bytes * n;
        word |= SNIC_RING__CONT;
    }
    ring_lay_same(at, span, word, from, bytes, 1);
}

/*
 * The short way of a push: records of one size, without body, in the window [from, from + width):
 * free by the cached H, and within one lap, so that nothing wraps and the tag is known. 0: not that
 * simple, nothing has happened, go the long way.
 */
static inline int ring_push_fits(const struct snic_ring_producer *p, uint64_t tail, uint64_t total)
{
    uint64_t into = tail - p->window.from;

    return into <= p->window.width && p->window.width - into >= total;
}

/* What to push. */
struct ring_load {
    const void *data;
    uint32_t type;
    uint32_t bytes;
    uint32_t n;
};

SNIC_RING__INLINE void ring_push_lay(struct snic_ring_producer *p, uint64_t tail, uint64_t span,
                                     const struct ring_load *l)
{
    ring_lay_alike(p->g.data + (tail & p->g.mask), span,
                   p->window.tag | ((uint64_t)l->type << 32) | l->bytes, l->data, l->bytes, l->n);
}

SNIC_RING__INLINE int ring_push_alone(struct snic_ring_producer *p, uint64_t span,
                                      const struct ring_load *l)
{
    uint64_t tail = p->tail;
    uint64_t next = tail + span * l->n;

    if (SNIC_UNLIKELY(!ring_push_fits(p, tail, next - tail)))
        return 0;
    ring_push_lay(p, tail, span, l);
    ring_publish_alone(p, tail, next);
    if (((tail ^ next) & ~UINT64_C(63)) != 0)
        ring_ahead(p, tail, next);
    return 1;
}

SNIC_RING__INLINE int ring_push_shared(struct snic_ring_producer *p, uint64_t span,
                                       const struct ring_load *l)
{
    ring_word *tail_word = ring_at(&p->g, SNIC_RING_OFF_TAIL);
    /* R1; relaxed: that there is room is known from H itself */
    uint64_t tail = atomic_load_explicit(tail_word, memory_order_relaxed);
    uint64_t next = tail + span * l->n;

    if (SNIC_UNLIKELY(!ring_push_fits(p, tail, next - tail) || !ring_is_start(&p->g, tail) ||
                      p->intent != 0))
        return 0;
    /* R4: release, as in ring_reserve_shared */
    if (SNIC_UNLIKELY(!atomic_compare_exchange_strong_explicit(
            tail_word, &tail, next, memory_order_release, memory_order_relaxed)))
        return 0;
    ring_push_lay(p, tail, span, l);
    ring_publishes(&p->g);
    /* R6, R7: release, as in ring_publish */
    if (p->g.discipline == SNIC_RING_COMMIT)
        atomic_store_explicit(ring_commit_word(&p->g, tail), tail | SNIC_RING__COMMITTED,
                              memory_order_release);
    else
        (void)atomic_fetch_add_explicit(ring_at(&p->g, SNIC_RING_OFF_PROGRESS), next - tail,
                                        memory_order_release);
    if (((tail ^ next) & ~UINT64_C(63)) != 0)
        ring_ahead(p, tail, next);
    return 1;
}

SNIC_RING__INLINE int ring_push_short(struct snic_ring_producer *p, const struct ring_load *l)
{
    uint64_t span = ring_span(&p->g, l->bytes);

    if (SNIC_UNLIKELY((p->total | (uint32_t)p->g.broken) != 0 || l->type > UINT16_MAX ||
                      l->bytes > p->g.record_max))
        return 0;
    if (SNIC_UNLIKELY(p->alone ? !ring_push_alone(p, span, l) : !ring_push_shared(p, span, l)))
        return 0;
    p->stats.batches++;
    p->stats.records += l->n;
    p->stats.bytes += (uint64_t)l->bytes * l->n;
    return 1;
}

/* Any push, step by step. Apart, so that the short way needs no stack. */
__attribute__((noinline)) static int ring_push_long(struct snic_ring_producer *p, uint32_t type,
                                                    const void *data, uint32_t bytes)
{
    struct snic_ring_rec rec;
    int r = ring_reserve_one(p, type, bytes, 0, &rec);

    if (r != 0)
        return r;
    ring_copy(rec.data, data, bytes);
    p->stats.records++;
    ring_window(p, p->position + p->total);
    ring_publish(p);
    return 0;
}

int snic_ring_push(struct snic_ring_producer *p, uint32_t type, const void *data, uint32_t bytes)
{
    struct ring_load l = {data, type, bytes, 1};

    if (SNIC_LIKELY(ring_push_short(p, &l)))
        return 0;
    return ring_push_long(p, type, data, bytes);
}

int snic_ring_push_iov(struct snic_ring_producer *p, uint32_t type, const struct snic_ring_iov *iov,
                       uint32_t n)
{
    struct snic_ring_rec rec;
    unsigned char *at;
    uint64_t bytes = 0;
    uint32_t i;
    int r;

    for (i = 0; i < n; i++) {
        if (iov[i].bytes > SNIC_RING__RECORD_LIMIT)
            return p->g.broken != 0 ? p->g.broken : SNIC_EMSGSIZE;
        bytes += iov[i].bytes;
    }
    if (bytes > p->g.record_max)
        return p->g.broken != 0 ? p->g.broken : SNIC_EMSGSIZE;
    r = ring_reserve_one(p, type, (uint32_t)bytes, 0, &rec);
    if (r != 0)
        return r;
    for (i = 0, at = rec.data; i < n; at += iov[i].bytes, i++)
        if (iov[i].bytes != 0)
            memcpy(at, iov[i].base, iov[i].bytes);
    snic_ring_commit(p);
    return 0;
}

/* Any push of several, as ring_push_long(). */
__attribute__((noinline)) static int ring_push_n_long(struct snic_ring_producer *p, uint32_t type,
                                                      const void *data, uint32_t bytes, uint32_t n)
{
    struct ring_shape s = {NULL, n, bytes, 0};
    const unsigned char *from = data;
    uint64_t position;
    uint32_t i;
    int r = ring_reserve_refused(p, type);

    if (r != 0)
        return r;
    if (n == 0)
        return SNIC_EINVAL;
    if (bytes > p->g.record_max || ring_span(&p->g, bytes) * ((uint64_t)n + 1) > p->g.progress_max)
        return SNIC_EMSGSIZE;
    r = ring_reserve_shape(p, &s);
    if (r != 0)
        return r;
    for (i = 0, position = p->position; i < n; i++, from += bytes) {
        struct snic_ring_rec rec = {.type = type, .data_bytes = bytes};

        position = ring_lay(p, position, i + 1 == n, &rec);
        ring_copy(rec.data, from, bytes);
    }
    ring_window(p, p->position + p->total);
    snic_ring_commit(p);
    return 0;
}

int snic_ring_push_n(struct snic_ring_producer *p, uint32_t type, const void *data, uint32_t bytes,
                     uint32_t n)
{
    struct ring_load l = {data, type, bytes, n};

    if (SNIC_LIKELY(n != 0 && ring_span(&p->g, bytes) * ((uint64_t)n + 1) <= p->g.progress_max) &&
        SNIC_LIKELY(ring_push_short(p, &l)))
        return 0;
    return ring_push_n_long(p, type, data, bytes, n);
}

int snic_ring_notify(struct snic_ring_producer *p)
{
    return p->g.broken == 0 && ring_wake_one(ring_at(&p->g, SNIC_RING_OFF_CONSLEEP));
}

void snic_ring_wait_arm(struct snic_ring_producer *p)
{
    if (p->g.broken != 0)
        return;
    /* Store, full fence, then the caller's look at H: see ring_load_flag. */
    (void)atomic_fetch_add_explicit(ring_at(&p->g, SNIC_RING_OFF_PRODWAIT), 1,
                                    memory_order_seq_cst);
    (void)ring_load_flag(ring_at(&p->g, SNIC_RING_OFF_PRODWAIT));
}

#undef SNIC_RING__INLINE
