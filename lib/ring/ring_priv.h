/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A ring's shared memory, which FORMAT.md describes, and the helpers that all of its roles use.
 *
 * H of a request ring is a position plus 1 if it stands inside a committed reservation: a consumer
 * that attaches there finds no commit word and needs none.
 *
 * The commit word of the granule where a reservation (request) or a record (response)
 * starts is its position, a multiple of 16, plus a state. Payload never lies among the commit
 * words and a position occurs once in 2^64 bytes, so no stale word looks like a current one.
 */
#ifndef SNIC_RING_PRIV_H
#define SNIC_RING_PRIV_H

#include "snicstore/ring.h"

#include <stdatomic.h>

#define SNIC_RING__MAGIC UINT64_C(0x474e495243494e53) /* "SNICRING" */
#define SNIC_RING__VERSION 2U
#define SNIC_RING__OWNER_BYTES SNIC_CACHELINE

/* Commit word states. */
#define SNIC_RING__COMMITTED 1U
#define SNIC_RING__CLAIMED 2U
#define SNIC_RING__RELEASED 3U

#define SNIC_RING__LENGTH_MASK ((UINT64_C(1) << 28) - 1)
#define SNIC_RING__PAD (UINT64_C(1) << 28)
#define SNIC_RING__MORE (UINT64_C(1) << 29)
#define SNIC_RING__EXT (UINT64_C(1) << 30)
#define SNIC_RING__CONT (UINT64_C(1) << 31)
#define SNIC_RING__HEAD_OPEN UINT64_C(1)
#define SNIC_RING__RECORD_LIMIT (UINT32_C(1) << 27)
/* Lost races after which a call gives up: a hostile peer must not keep it for ever. */
#define SNIC_RING__RACES 65536U

/* Fields of an owner slot. The intent names the step under way: position and length are
 * stored before the compare-and-swap that may make it true, and length 0 after it is done. */
#define SNIC_RING__OWN_TOKEN 0U
#define SNIC_RING__OWN_DEAD 8U
#define SNIC_RING__OWN_POSITION 16U
#define SNIC_RING__OWN_LENGTH 24U

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "ring: the shared words are little-endian and updated in place by atomics"
#endif
SNIC_STATIC_ASSERT(sizeof(_Atomic uint64_t) == 8, "atomic words are plain words in memory");
SNIC_STATIC_ASSERT(SNIC_RING_OFF_PROGRESS < SNIC_RING_OFF_TAIL, "P lies below T: one read");
SNIC_STATIC_ASSERT(SNIC_RING_OFF_PROGRESS % SNIC_CACHELINE == 0 &&
                       SNIC_RING_OFF_TAIL % SNIC_CACHELINE == 0 &&
                       SNIC_RING_OFF_PRODWAIT % SNIC_CACHELINE == 0 &&
                       SNIC_RING_OFF_HEAD % SNIC_CACHELINE == 0 &&
                       SNIC_RING_OFF_CONSLEEP % SNIC_CACHELINE == 0 &&
                       SNIC_RING_OFF_OWNERS % SNIC_CACHELINE == 0,
                   "each cursor alone on its line");

typedef _Atomic uint64_t ring_word;

/* A shared word by its offset. */
static inline ring_word *ring_at(const struct snic_ring__geo *g, uint64_t offset)
{
    return (ring_word *)(void *)(g->base + offset);
}

static inline ring_word *ring_commit_word(const struct snic_ring__geo *g, uint64_t position)
{
    return ring_at(g, g->commit_offset + (((position & g->mask) >> g->granule_shift) << 3));
}

/* A word of the data area or the mirror; records are 16-byte aligned. */
static inline ring_word *ring_record_word(const struct snic_ring__geo *g, uint64_t position)
{
    return (ring_word *)(void *)(g->data + (position & g->mask));
}

static inline ring_word *ring_owner(const struct snic_ring__geo *g, uint32_t owner, uint32_t field)
{
    return ring_at(g, SNIC_RING_OFF_OWNERS + (uint64_t)owner * SNIC_RING__OWNER_BYTES + field);
}

/* H of a request ring without its flag. */
static inline uint64_t ring_load_head(const struct snic_ring__geo *g)
{
    /* acquire pairs with the release of H by the consumer */
    return atomic_load_explicit(ring_at(g, SNIC_RING_OFF_HEAD), memory_order_acquire) &
           ~SNIC_RING__HEAD_OPEN;
}

static inline int64_t ring_distance(uint64_t to, uint64_t from)
{
    return (int64_t)(to - from);
}

static inline int ring_is_start(const struct snic_ring__geo *g, uint64_t position)
{
    return (position & (g->granule - 1)) == 0;
}

static inline uint64_t ring_lap_tag(const struct snic_ring__geo *g, uint64_t position)
{
    return ((position >> g->lap_shift) + 1) << 48; /* zeroed memory is no record */
}

static inline int ring_break(struct snic_ring__geo *g)
{
    g->broken = SNIC_ECORRUPT;
    return SNIC_ECORRUPT;
}

/* Bytes of a record without body. */
static inline uint64_t ring_span(const struct snic_ring__geo *g, uint64_t data_bytes)
{
    return snic_align_up(8 + data_bytes, g->granule);
}

/* Bytes of a record with body at data area offset @p offset. */
static inline uint64_t ring_span_ext(const struct snic_ring__geo *g, uint64_t offset,
                                     uint64_t data_bytes, uint64_t body_bytes)
{
    uint64_t body = snic_align_up(offset + 16 + data_bytes, g->body_align);

    return snic_align_up(body + body_bytes - offset, g->granule);
}

/*
 * A word of a record's header. Request ring: relaxed; a commit word or P publishes it, and no
 * handle reads it before. Response ring: release; a collector whose walk H overtook may read it,
 * and must then find that H (acquire in ring_parse).
 */
static inline void ring_put_word(const struct snic_ring__geo *g, ring_word *at, uint64_t word)
{
    if (g->kind == SNIC_RING_REQUEST)
        atomic_store_explicit(at, word, memory_order_relaxed);
    else
        atomic_store_explicit(at, word, memory_order_release);
}

static inline void ring_put_header(const struct snic_ring__geo *g, uint64_t position, uint64_t word)
{
    ring_put_word(g, ring_record_word(g, position), word | ring_lap_tag(g, position));
}

/* Pad [position, position + bytes), as two records if it runs over the end. */
static inline void ring_put_pad(const struct snic_ring__geo *g, uint64_t position, uint64_t bytes,
                                uint64_t flags)
{
    uint64_t room = g->mask + 1 - (position & g->mask);

    if (bytes > room) {
        ring_put_header(g, position,
                        SNIC_RING__PAD | SNIC_RING__MORE | flags | (room >> g->granule_shift));
        flags |= SNIC_RING__CONT;
        position += room;
        bytes -= room;
    }
    ring_put_header(g, position, SNIC_RING__PAD | flags | (bytes >> g->granule_shift));
}

/* Write the header of rec (sizes and type set) at @p position and fill in the rest. */
static inline void ring_put_record(const struct snic_ring__geo *g, uint64_t position,
                                   uint64_t flags, struct snic_ring_rec *rec)
{
    uint64_t offset = position & g->mask;
    uint64_t word = flags | rec->data_bytes | ((uint64_t)rec->type << 32);

    rec->position = position;
    rec->reserved = 0;
    if (rec->body_bytes == 0) {
        rec->next = position + ring_span(g, rec->data_bytes);
        rec->data = g->data + offset + 8;
        rec->body = NULL;
    } else {
        uint64_t span = ring_span_ext(g, offset, rec->data_bytes, rec->body_bytes);

        rec->next = position + span;
        rec->data = g->data + offset + 16;
        rec->body = g->data + snic_align_up(offset + 16 + rec->data_bytes, g->body_align);
        word |= SNIC_RING__EXT;
        ring_put_word(g, ring_record_word(g, position) + 1,
                      rec->body_bytes | (span >> g->granule_shift) << 32);
    }
    ring_put_header(g, position, word);
}

/* What ring_parse() found. */
struct ring_parsed {
    struct snic_ring_rec rec;
    int pad;
    int more;
};

/*
 * Read the record at @p position, each word once, and check it: inside the data area, not
 * over its end, not beyond position @p end. 0, or SNIC_ECORRUPT.
 */
static inline int ring_parse(const struct snic_ring__geo *g, uint64_t position, uint64_t end,
                             struct ring_parsed *out)
{
    uint64_t offset = position & g->mask;
    uint64_t word = atomic_load_explicit(ring_record_word(g, position), memory_order_acquire);
    uint64_t length = word & SNIC_RING__LENGTH_MASK;
    uint64_t body = 0;
    uint64_t body_offset = offset;
    uint64_t span;

    if (SNIC_UNLIKELY((word >> 48) != (ring_lap_tag(g, position) >> 48)))
        return SNIC_ECORRUPT;
    out->pad = (word & SNIC_RING__PAD) != 0;
    out->more = (word & SNIC_RING__MORE) != 0;
    if (SNIC_UNLIKELY(out->pad)) {
        span = length << g->granule_shift;
        length = 0;
    } else if (word & SNIC_RING__EXT) {
        uint64_t second =
            atomic_load_explicit(ring_record_word(g, position) + 1, memory_order_acquire);

        body = second & UINT32_MAX;
        span = (second >> 32) << g->granule_shift;
        body_offset = snic_align_up(offset + 16 + length, g->body_align);
        if (body_offset + body > offset + span)
            return SNIC_ECORRUPT;
    } else {
        span = ring_span(g, length);
    }
    if (SNIC_UNLIKELY(span == 0 || length + body > g->record_max || offset + span > g->mask + 1 ||
                      position + span > end))
        return SNIC_ECORRUPT;
    out->rec.position = position;
    out->rec.next = position + span;
    out->rec.data = g->data + offset + (word & SNIC_RING__EXT ? 16 : 8);
    out->rec.body = body != 0 ? g->data + body_offset : NULL;
    out->rec.data_bytes = (uint32_t)length;
    out->rec.body_bytes = (uint32_t)body;
    out->rec.type = (uint32_t)(word >> 32) & UINT16_MAX;
    out->rec.reserved = 0;
    return 0;
}

static inline void ring_geo_from(struct snic_ring__geo *g, const struct snic_ring_info *info)
{
    memset(g, 0, sizeof(*g));
    g->mask = info->capacity_bytes - 1;
    g->progress_max = info->progress_max;
    g->commit_offset = info->commit_offset;
    g->data_offset = info->data_offset;
    g->granule = info->granule_bytes;
    g->granule_shift = (uint32_t)__builtin_ctz(info->granule_bytes);
    g->lap_shift = (uint32_t)__builtin_ctzll(info->capacity_bytes);
    g->body_align = info->body_align;
    g->record_max = info->record_max;
    g->owners_max = info->owners_max;
    g->discipline = info->discipline;
    g->kind = info->kind;
    g->flags = info->flags;
}

static inline int ring_is_aligned(const void *p, uint64_t align)
{
    return ((uintptr_t)p & (align - 1)) == 0;
}

/* The geometry of the ring at @p mem, with base and data set. Errors as the attach calls. */
int ring_attach(struct snic_ring__geo *g, void *mem, size_t mem_size, uint32_t kind,
                struct snic_ring_info *info);
/* The same over DMA: @p header was fetched, records go through @p mirror. */
int ring_attach_remote(struct snic_ring__geo *g, const void *header, uint64_t mem_size,
                       uint32_t kind, void *mirror, size_t mirror_bytes,
                       struct snic_ring_info *info);

/* Take an owner slot: index + 1; 0 for a ring without owners; or an SNIC_E* of attach. The one slot
 * of a one-producer ring is what keeps a second one out. */
static inline int ring_owner_take(const struct snic_ring__geo *g, uint64_t token)
{
    uint32_t i;

    if ((token != 0) != (g->owners_max != 0))
        return SNIC_EINVAL;
    for (i = 0; i < g->owners_max; i++)
        if (atomic_load_explicit(ring_owner(g, i, SNIC_RING__OWN_TOKEN), memory_order_acquire) ==
            token)
            return SNIC_EEXIST;
    for (i = 0; i < g->owners_max; i++) {
        uint64_t none = 0;

        /* acquire pairs with the release of ring_owner_give: the fields are clean */
        if (atomic_compare_exchange_strong_explicit(ring_owner(g, i, SNIC_RING__OWN_TOKEN), &none,
                                                    token, memory_order_acq_rel,
                                                    memory_order_relaxed))
            return (int)i + 1;
    }
    if (g->owners_max == 0)
        return 0;
    return (g->flags & SNIC_RING_ONE_PRODUCER) != 0 ? SNIC_EBUSY : SNIC_ENOSPC;
}

static inline void ring_owner_give(const struct snic_ring__geo *g, uint32_t owner)
{
    if (owner == 0)
        return;
    owner--;
    atomic_store_explicit(ring_owner(g, owner, SNIC_RING__OWN_LENGTH), 0, memory_order_relaxed);
    atomic_store_explicit(ring_owner(g, owner, SNIC_RING__OWN_POSITION), 0, memory_order_relaxed);
    atomic_store_explicit(ring_owner(g, owner, SNIC_RING__OWN_DEAD), 0, memory_order_relaxed);
    /* release pairs with the acquire of ring_owner_take */
    atomic_store_explicit(ring_owner(g, owner, SNIC_RING__OWN_TOKEN), 0, memory_order_release);
}

/*
 * Response ring: move H over the records that need no one any more. seq_cst because two
 * collectors that release neighbours must not both miss the other's word: each stores its
 * word and then loads H and the words (store before load). 0, or SNIC_ECORRUPT.
 */
static inline int ring_advance_head(struct snic_ring__geo *g)
{
    uint32_t races = 0;

    while (races++ < SNIC_RING__RACES) {
        uint64_t head = atomic_load_explicit(ring_at(g, SNIC_RING_OFF_HEAD), memory_order_seq_cst);
        /* acquire pairs with the release of T by the responder: headers below T are there */
        uint64_t tail = atomic_load_explicit(ring_at(g, SNIC_RING_OFF_TAIL), memory_order_acquire);
        struct ring_parsed found;
        uint64_t word;
        int r;

        if (!ring_is_start(g, head) || !ring_is_start(g, tail))
            return ring_break(g);
        if (ring_distance(tail, head) <= 0)
            return 0;
        word = atomic_load_explicit(ring_commit_word(g, head), memory_order_seq_cst);
        r = ring_parse(g, head, tail, &found);
        if (word != (head | SNIC_RING__RELEASED) &&
            (g->discipline == SNIC_RING_COMMIT || r != 0 || !found.pad))
            r = 1;
        if (atomic_load_explicit(ring_at(g, SNIC_RING_OFF_HEAD), memory_order_relaxed) != head)
            continue; /* what was read may be of a later lap */
        if (r == 1)
            return 0;
        if (r != 0)
            return ring_break(g);
        /* release: reads of the record come before its reuse (acquire of H by the responder) */
        (void)atomic_compare_exchange_strong_explicit(ring_at(g, SNIC_RING_OFF_HEAD), &head,
                                                      found.rec.next, memory_order_seq_cst,
                                                      memory_order_relaxed);
    }
    return 0;
}

/* Announce what the next compare-and-swap may make true. Pairs with the acquire loads of
 * ring_abandon: release on the length keeps the pair and what went before it in order. */
static inline void ring_intend(const struct snic_ring__geo *g, uint32_t owner, uint64_t position,
                               uint64_t length)
{
    if (owner == 0)
        return;
    atomic_store_explicit(ring_owner(g, owner - 1, SNIC_RING__OWN_POSITION), position,
                          memory_order_release);
    atomic_store_explicit(ring_owner(g, owner - 1, SNIC_RING__OWN_LENGTH), length,
                          memory_order_release);
}

static inline void ring_intend_clear(const struct snic_ring__geo *g, uint32_t owner)
{
    if (owner != 0)
        atomic_store_explicit(ring_owner(g, owner - 1, SNIC_RING__OWN_LENGTH), 0,
                              memory_order_release);
}

#if defined(SNIC_RING__FENCES) /* the explorer walks the fences in every build */
#elif defined(__SANITIZE_THREAD__)
#define SNIC_RING__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SNIC_RING__TSAN 1
#endif
#endif
#if defined(SNIC_RING__TSAN)
void __tsan_release(void *addr);
#endif

/*
 * A producer is about to publish what it wrote. The next one in that place, a lap later, is ordered
 * behind it by the consumer alone, which takes it and moves H. ThreadSanitizer does not see a
 * consumer of another process: here what was published happens before every later load of H. What
 * consumers read is not covered by this: that needs their own release of H.
 */
static inline void ring_publishes(const struct snic_ring__geo *g)
{
#if defined(SNIC_RING__TSAN)
    __tsan_release(ring_at(g, SNIC_RING_OFF_HEAD));
#else
    (void)g;
#endif
}

/*
 * The second half of each wake-up protocol (Dekker): one side publishes and then reads the
 * flag, the other sets the flag and then looks. Each needs its store to be visible before its
 * load, which only a full fence gives. ThreadSanitizer knows no fences; there a
 * read-modify-write of the flag takes its place, which orders both sides through the
 * modification order of the flag itself.
 */
static inline uint64_t ring_load_flag(ring_word *flag)
{
#if defined(SNIC_RING__TSAN)
    return atomic_fetch_add_explicit(flag, 0, memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(flag, memory_order_relaxed);
#endif
}

/* The one sleeper arms with an odd number and the first waker makes it even: 1 if it is us. */
static inline int ring_wake_one(ring_word *flag)
{
    uint64_t seen = ring_load_flag(flag);

    return (seen & 1) != 0 &&
           atomic_compare_exchange_strong_explicit(flag, &seen, seen + 1, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

/* ---- The consumer, mapped or over DMA ---- */

/* Places in the cursors scratch. The fetched block begins at P. */
#define SNIC_RING__AT_TAIL (SNIC_RING_OFF_TAIL - SNIC_RING_OFF_PROGRESS)
#define SNIC_RING__AT_WAIT (SNIC_RING_OFF_PRODWAIT - SNIC_RING_OFF_PROGRESS)
#define SNIC_RING__AT_END (SNIC_RING__AT_WAIT + 8)
#define SNIC_RING__AT_HEAD 264
#define SNIC_RING__AT_SLEEP 272
SNIC_STATIC_ASSERT(SNIC_RING__AT_END <= SNIC_RING__AT_HEAD, "sources lie behind what is fetched");

/*
 * What H should be: its open flag is set if `released` lies inside a committed reservation.
 * Inside what is still out the record's own header decides; it is ours until released, and a
 * peer that rewrites it deceives only the consumer that attaches next.
 */
static inline uint64_t ring_head_value(const struct snic_ring_consumer *c)
{
    uint64_t open = c->open;

    if (c->released != c->taken)
        open = (atomic_load_explicit(ring_record_word(&c->g, c->released), memory_order_relaxed) &
                SNIC_RING__CONT) != 0;
    return c->released | open;
}

static inline uint64_t ring_scratch(const struct snic_ring_consumer *c, uint32_t at)
{
    return snic_get_le64(c->cursors.bytes + at);
}

static inline void ring_op_word(struct snic_ring_consumer *c, uint32_t at, uint64_t offset,
                                uint64_t value, struct snic_ring_op *op)
{
    snic_put_le64(c->cursors.bytes + at, value);
    memset(op, 0, sizeof(*op));
    op->kind = SNIC_RING_OP_WRITE;
    op->offset = offset;
    op->local = c->cursors.bytes + at;
    op->bytes = 8;
}

#endif /* SNIC_RING_PRIV_H */
