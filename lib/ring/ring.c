/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Rings of variable-size records (DDS, section 4.1): the shared part and the producers of the
 * request ring. The layout is described in ring_priv.h.
 *
 * Insert, step by step (tests/explore_ring.c walks the same steps under a weak memory model):
 *   R1 load T (acquire); R2 if it does not fit below M by the cached H: load H (acquire);
 *   R3 store the intent (release), R4 compare-and-swap T from t to t + n (release);
 *   R5 write headers and payload (relaxed, plain); R6 COMMIT or owners: store the commit word
 *   (release); R7 QUIESCENT: fetch-add P by n (release); R8 clear the intent (release).
 *
 * Invariants
 *   I1  H <= T <= H + M, M <= capacity, and P <= T: each byte is counted in P after its
 *       reservation moved T.
 *   I2  [t, t + n) belongs to the producer whose compare-and-swap moved T from t, until R6 or
 *       R7; to the consumer from then on; to nobody below H.
 *   I3  The commit word of t is t | 1 only after all of [t, t + n) is written. No other store
 *       ever puts that value there: positions do not repeat.
 *   I4  H passes a byte only after all reads of it are complete (release of H, acquire in R2).
 *   I5  A record never straddles the end of the data area.
 * Writers: P, T, commit words, data: producers. H, CONSLEEP: consumer (a waking producer makes
 * CONSLEEP even). PRODWAIT: producers. Owner slot: its owner, and the supervisor after death.
 */
#include "snicstore/ring.h"

#include "base/simd.h"
#include "ring/ring_priv.h"

#include <string.h>

struct ring_header {
    uint64_t magic;
    uint32_t version;
    uint32_t kind;
    uint32_t discipline;
    uint32_t granule_bytes;
    uint32_t body_align;
    uint32_t owners_max;
    uint32_t record_max;
    uint32_t zero;
    uint64_t capacity_bytes;
    uint64_t progress_max;
    uint64_t commit_offset;
    uint64_t data_offset;
    uint64_t memory_bytes;
    uint64_t epoch;
    uint32_t zeros[9];
    uint32_t crc; /* CRC32C of all bytes before it */
};
SNIC_STATIC_ASSERT(sizeof(struct ring_header) == SNIC_RING_HEADER_BYTES, "header is 128 bytes");
SNIC_STATIC_ASSERT(offsetof(struct ring_header, capacity_bytes) == 40, "no hidden padding");
SNIC_STATIC_ASSERT(offsetof(struct ring_header, crc) == 124, "no hidden padding");

/* The largest record of which two, each with the worst gap and rounding, fit into M. */
static uint64_t ring_record_max(const struct ring_header *h)
{
    uint64_t half = snic_align_down(h->progress_max / 2, h->granule_bytes);
    uint64_t over = 16 + (uint64_t)h->body_align - 1;

    return half <= over ? 0 : snic_min_u64(half - over, SNIC_RING__RECORD_LIMIT);
}

/* Derive the offsets and check every relation: options and foreign headers both come here. */
static int ring_header_complete(struct ring_header *h)
{
    uint64_t align;

    if ((h->kind != SNIC_RING_REQUEST && h->kind != SNIC_RING_RESPONSE) ||
        h->discipline > SNIC_RING_QUIESCENT)
        return SNIC_EINVAL;
    if (!snic_is_pow2(h->granule_bytes) || h->granule_bytes < 16 || h->granule_bytes > 4096 ||
        !snic_is_pow2(h->body_align) || h->body_align < 8 || h->body_align > 4096 ||
        h->owners_max > 4096)
        return SNIC_EINVAL;
    if (!snic_is_pow2(h->capacity_bytes) || h->capacity_bytes < 1024 ||
        h->capacity_bytes > (UINT64_C(1) << 31) || h->progress_max > h->capacity_bytes ||
        h->capacity_bytes < h->granule_bytes)
        return SNIC_EINVAL;
    if (h->record_max == 0 || h->record_max > ring_record_max(h))
        return SNIC_EINVAL;
    align = snic_max_u64(h->body_align, SNIC_RING_ALIGN);
    h->commit_offset = SNIC_RING_OFF_OWNERS + (uint64_t)h->owners_max * SNIC_RING__OWNER_BYTES;
    h->data_offset =
        snic_align_up(h->commit_offset + h->capacity_bytes / h->granule_bytes * 8, align);
    h->memory_bytes = h->data_offset + h->capacity_bytes;
    return 0;
}

static int ring_header_from_opts(struct ring_header *h, const struct snic_ring_opts *user)
{
    struct snic_ring_opts o;

    memset(&o, 0, sizeof(o));
    if (snic_opts_copy(&o, sizeof(o), user) != 0 || o.flags != 0)
        return SNIC_EINVAL;
    memset(h, 0, sizeof(*h));
    h->magic = SNIC_RING__MAGIC;
    h->version = SNIC_RING__VERSION;
    h->kind = o.kind;
    h->discipline = o.discipline;
    h->granule_bytes = o.granule_bytes != 0 ? o.granule_bytes : 16;
    h->body_align = o.body_align != 0 ? o.body_align : 8;
    h->owners_max = o.owners_max;
    h->capacity_bytes = o.capacity_bytes;
    h->progress_max = o.progress_max != 0 ? o.progress_max : o.capacity_bytes / 2;
    h->epoch = o.epoch;
    if (!snic_is_pow2(h->granule_bytes) || !snic_is_pow2(h->body_align) ||
        h->granule_bytes > 4096 || h->body_align > 4096)
        return SNIC_EINVAL;
    h->record_max = o.record_max != 0 ? o.record_max : (uint32_t)ring_record_max(h);
    if (ring_header_complete(h) != 0)
        return SNIC_EINVAL;
    h->crc = snic_crc32c(0, h, offsetof(struct ring_header, crc));
    return 0;
}

size_t snic_ring_memsize(const struct snic_ring_opts *o)
{
    struct ring_header h;

    return ring_header_from_opts(&h, o) == 0 ? (size_t)h.memory_bytes : 0;
}

int snic_ring_init(void *mem, size_t mem_size, const struct snic_ring_opts *o)
{
    struct ring_header h;

    if (ring_header_from_opts(&h, o) != 0 || !ring_is_aligned(mem, SNIC_RING_ALIGN) ||
        !ring_is_aligned(mem, h.body_align))
        return SNIC_EINVAL;
    if (mem_size < h.memory_bytes)
        return SNIC_ENOSPC;
    memset(mem, 0, (size_t)h.memory_bytes);
    memcpy(mem, &h, sizeof(h));
    return 0;
}

int snic_ring_geometry(const void *header, uint64_t mem_size, struct snic_ring_info *out)
{
    struct ring_header h;
    struct ring_header want;
    uint64_t granules;

    memcpy(&h, header, sizeof(h));
    if (h.magic != SNIC_RING__MAGIC || h.version != SNIC_RING__VERSION)
        return SNIC_EVERSION;
    want = h;
    if (snic_crc32c(0, &h, offsetof(struct ring_header, crc)) != h.crc ||
        ring_header_complete(&want) != 0 || memcmp(&want, &h, sizeof(h)) != 0)
        return SNIC_ECORRUPT;
    if (mem_size < h.memory_bytes)
        return SNIC_ENOSPC;
    granules = h.capacity_bytes / h.granule_bytes;
    memset(out, 0, sizeof(*out));
    out->kind = h.kind;
    out->discipline = h.discipline;
    out->granule_bytes = h.granule_bytes;
    out->body_align = h.body_align;
    out->owners_max = h.owners_max;
    out->record_max = h.record_max;
    out->capacity_bytes = h.capacity_bytes;
    out->progress_max = h.progress_max;
    out->commit_offset = h.commit_offset;
    out->data_offset = h.data_offset;
    out->memory_bytes = h.memory_bytes;
    out->mirror_bytes = h.capacity_bytes;
    /* marks, per granule: one word of 4 bytes (request), two (response); then fetched or
     * outgoing commit words */
    out->aux_bytes = snic_align_up(granules * (h.kind == SNIC_RING_REQUEST ? 4 : 8), 8) +
                     (h.discipline == SNIC_RING_COMMIT ? granules * 8 : 0);
    out->epoch = h.epoch;
    return 0;
}

/* ---- Producers ---- */

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

/* R1 to R4. 0 and the reservation in *p; SNIC_EAGAIN; SNIC_ECORRUPT. */
static inline int ring_reserve_shape(struct snic_ring_producer *p, const struct ring_shape *s)
{
    ring_word *tail_word = ring_at(&p->g, SNIC_RING_OFF_TAIL);
    /* acquire pairs with the release of R4: whoever moved T here saw an H that allows it, and so
     * do we (I1) */
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
        ring_intend(&p->g, p->owner, tail, total);
        /* release pairs with R1 and with the supervisor's acquire of T: intents are there */
        if (SNIC_LIKELY(atomic_compare_exchange_weak_explicit(
                tail_word, &tail, tail + total, memory_order_release, memory_order_acquire))) {
            p->position = tail;
            p->total = total;
            p->count = s->n;
            p->stats.retries += races;
            p->stats.batches++;
            ring_ahead(p, tail, tail + total);
            return 0;
        }
        r = SNIC_EAGAIN;
    }
    ring_intend_clear(&p->g, p->owner);
    p->stats.again += r == SNIC_EAGAIN;
    p->stats.retries += races;
    return r;
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

/* R6 to R8. */
static inline void ring_publish(struct snic_ring_producer *p)
{
    if (p->g.discipline == SNIC_RING_COMMIT || p->owner != 0)
        /* release pairs with the acquire of snic_ring_peek, or of the supervisor (I3) */
        atomic_store_explicit(ring_commit_word(&p->g, p->position),
                              p->position | SNIC_RING__COMMITTED, memory_order_release);
    if (p->g.discipline == SNIC_RING_QUIESCENT)
        /* release pairs with the acquire of P by the consumer; being read-modify-writes,
         * all additions are in one release sequence */
        (void)atomic_fetch_add_explicit(ring_at(&p->g, SNIC_RING_OFF_PROGRESS), p->total,
                                        memory_order_release);
    ring_intend_clear(&p->g, p->owner);
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
    ring_put_pad(&p->g, p->position, p->total, 0);
    p->stats.pads++;
    ring_publish(p);
}

/* A size that the compiler knows is copied without a call. */
static inline void ring_copy(void *to, const void *from, uint32_t bytes)
{
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes != 0)
        memcpy(to, from, bytes);
}

int snic_ring_push(struct snic_ring_producer *p, uint32_t type, const void *data, uint32_t bytes)
{
    struct snic_ring_rec rec;
    int r = ring_reserve_one(p, type, bytes, 0, &rec);

    if (SNIC_UNLIKELY(r != 0))
        return r;
    ring_copy(rec.data, data, bytes);
    p->stats.records++;
    ring_publish(p);
    return 0;
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

/* All records of a push_n() that does not reach the end of the data area: headers differ in nothing
 * but the first's and the last's flag. */
static inline void ring_lay_alike(struct snic_ring_producer *p, uint32_t type,
                                  const unsigned char *from, uint32_t bytes, uint32_t n)
{
    uint64_t span = ring_span(&p->g, bytes);
    uint64_t word = bytes | ((uint64_t)type << 32) | ring_lap_tag(&p->g, p->position);
    uint64_t flags = SNIC_RING__MORE;
    unsigned char *at = p->g.data + (p->position & p->g.mask);
    uint32_t i;

    for (i = 0; i < n; i++, at += span, from += bytes) {
        if (i + 1 == n)
            flags &= ~SNIC_RING__MORE;
        ring_put_word(&p->g, (ring_word *)(void *)at, word | flags);
        flags |= SNIC_RING__CONT;
        ring_copy(at + 8, from, bytes);
    }
    p->stats.bytes += (uint64_t)bytes * n;
}

int snic_ring_push_n(struct snic_ring_producer *p, uint32_t type, const void *data, uint32_t bytes,
                     uint32_t n)
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
    if (SNIC_LIKELY((p->position & p->g.mask) + p->total <= p->g.mask + 1)) {
        ring_lay_alike(p, type, from, bytes, n);
    } else {
        for (i = 0, position = p->position; i < n; i++, from += bytes) {
            struct snic_ring_rec rec = {.type = type, .data_bytes = bytes};

            position = ring_lay(p, position, i + 1 == n, &rec);
            ring_copy(rec.data, from, bytes);
        }
    }
    snic_ring_commit(p);
    return 0;
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
