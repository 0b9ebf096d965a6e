/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Repair after the certified death of a handle, and the structural check. H is the head, T the
 * tail, P the progress word, M progress_max (ring_priv.h).
 *
 * A handle stores its intent (position, length) before the compare-and-swap that may make it
 * true, and clears the length when the step is over. The slot of a dead handle does not change any
 * more; what has to be found out is whether its compare-and-swap succeeded.
 *
 * Request ring. Let the dead slot hold (t, n).
 *   If T <= t, it did not. If H > t, any reservation at t is consumed. Otherwise some reservation
 *   begins at t, because t was read from T. Its owner is the dead handle, or another one whose slot
 *   holds t until the commit word is stored. So if no other slot holds t and the word of t is not
 *   committed, it is the dead handle's. If two dead slots hold t with different lengths, the
 *   shorter is right exactly if another reservation begins at its end, or T is there.
 *   Repair: the reservation becomes padding and is committed.
 *   QUIESCENT: P may include n or not. When no live handle is inside a step and T does not change,
 *   P must equal T, so the difference is added. That state is reached: while P != T the consumer
 *   does not advance, so producers reach the limit M and leave their steps.
 * Request ring with one producer. There is no intent, and none is needed: all that its commit had
 * begun to publish was written before, and the repair publishes the rest (S3 of ring_producer.c).
 *   COMMIT: if the word of T is committed, T moves behind that reservation. QUIESCENT: P is set
 *   to T.
 * Response ring. The dead slot holds t. If the word of t is CLAIMED and no slot of a live handle
 *   holds t, the claim was a dead handle's: the record is released.
 *
 * Owner slots are written by their owners and read here (acquire pairs with the releases of
 * ring_intend). The field DEAD is written only by the supervisor: SNIC_RING__DEAD certified,
 * SNIC_RING__DECIDED the reservation is repaired, but P perhaps not yet.
 */
#include "snicstore/ring.h"

#include "ring/ring_priv.h"

#include <string.h>

#define SNIC_RING__DEAD 1U
#define SNIC_RING__DECIDED 2U

static uint64_t ring_slot(const struct snic_ring__geo *g, uint32_t i, uint32_t field)
{
    return atomic_load_explicit(ring_owner(g, i, field), memory_order_acquire);
}

/* Slots other than @p but with an intent at @p position: 0 none, 1 a live one, 2 only dead ones. */
static int ring_shown(const struct snic_ring__geo *g, uint32_t but, uint64_t position)
{
    int found = 0;
    uint32_t i;

    for (i = 0; i < g->owners_max; i++) {
        if (i == but || ring_slot(g, i, SNIC_RING__OWN_TOKEN) == 0 ||
            ring_slot(g, i, SNIC_RING__OWN_LENGTH) == 0 ||
            ring_slot(g, i, SNIC_RING__OWN_POSITION) != position)
            continue;
        if (ring_slot(g, i, SNIC_RING__OWN_DEAD) == 0)
            return 1;
        found = 2;
    }
    return found;
}

static int ring_word_is_committed(const struct snic_ring__geo *g, uint64_t position)
{
    return atomic_load_explicit(ring_commit_word(g, position), memory_order_acquire) ==
           (position | SNIC_RING__COMMITTED);
}

/* Does a reservation begin at @p position, or T stand there? */
static int ring_is_boundary(const struct snic_ring__geo *g, uint64_t position, uint64_t tail)
{
    return position == tail || ring_word_is_committed(g, position) ||
           ring_shown(g, UINT32_MAX, position) != 0;
}

/* Several dead slots hold @p position: the length of the actual reservation. */
static uint64_t ring_true_length(const struct snic_ring__geo *g, uint64_t position, uint64_t tail)
{
    uint64_t least = 0;

    for (;;) {
        uint64_t next = UINT64_MAX;
        uint32_t i;

        for (i = 0; i < g->owners_max; i++) {
            uint64_t length = ring_slot(g, i, SNIC_RING__OWN_LENGTH);

            if (ring_slot(g, i, SNIC_RING__OWN_TOKEN) != 0 && length > least && length < next &&
                ring_slot(g, i, SNIC_RING__OWN_POSITION) == position)
                next = length;
        }
        if (next == UINT64_MAX)
            return least; /* only the longest is left */
        least = next;
        if (ring_is_boundary(g, position + least, tail))
            return least;
    }
}

/* QUIESCENT: add to P what dead producers have reserved and not added. */
static int ring_repair_progress(struct snic_ring__geo *g)
{
    ring_word *progress = ring_at(g, SNIC_RING_OFF_PROGRESS);
    uint64_t tail = atomic_load_explicit(ring_at(g, SNIC_RING_OFF_TAIL), memory_order_acquire);
    uint64_t lacks;
    uint32_t i;

    for (i = 0; i < g->owners_max; i++)
        if (ring_slot(g, i, SNIC_RING__OWN_TOKEN) != 0 &&
            ring_slot(g, i, SNIC_RING__OWN_LENGTH) != 0 &&
            ring_slot(g, i, SNIC_RING__OWN_DEAD) != SNIC_RING__DECIDED)
            return SNIC_EAGAIN;
    /* The scan's acquires see every addition that was made before a length was cleared. */
    lacks = tail - atomic_load_explicit(progress, memory_order_acquire);
    if (atomic_load_explicit(ring_at(g, SNIC_RING_OFF_TAIL), memory_order_acquire) != tail)
        return SNIC_EAGAIN;
    if (lacks > g->progress_max)
        return SNIC_ECORRUPT;
    /* release: the padding is visible before P */
    if (lacks != 0)
        (void)atomic_fetch_add_explicit(progress, lacks, memory_order_acq_rel);
    for (i = 0; i < g->owners_max; i++)
        if (ring_slot(g, i, SNIC_RING__OWN_DEAD) == SNIC_RING__DECIDED)
            atomic_store_explicit(ring_owner(g, i, SNIC_RING__OWN_LENGTH), 0, memory_order_release);
    return 0;
}

/* The dead slot's reservation, if it has one, becomes committed padding. */
static int ring_repair_reservation(struct snic_ring__geo *g, uint32_t slot, uint64_t position,
                                   uint64_t length)
{
    uint64_t tail = atomic_load_explicit(ring_at(g, SNIC_RING_OFF_TAIL), memory_order_acquire);
    int shown;

    if (!ring_is_start(g, position) || !ring_is_start(g, length) || length > g->progress_max)
        return SNIC_ECORRUPT;
    if (ring_distance(tail, position) <= 0)
        return 0;
    shown = ring_shown(g, slot, position);
    if (ring_word_is_committed(g, position))
        return 0;
    /* H is read after the word: if it is not beyond position, the word is not of a later lap */
    if (ring_distance(position, ring_load_head(g)) < 0)
        return 0;
    if (shown == 1)
        return SNIC_EAGAIN;
    if (shown == 2)
        length = ring_true_length(g, position, tail);
    if (ring_distance(tail, position + length) < 0)
        return SNIC_ECORRUPT;
    ring_put_pad(g, position, length, 0);
    /* release pairs with the consumer's acquire, as of a live producer */
    atomic_store_explicit(ring_commit_word(g, position), position | SNIC_RING__COMMITTED,
                          memory_order_release);
    return 0;
}

/* One producer: finish its commit. */
static int ring_repair_one_producer(struct snic_ring__geo *g)
{
    ring_word *tail_word = ring_at(g, SNIC_RING_OFF_TAIL);
    uint64_t tail = atomic_load_explicit(tail_word, memory_order_acquire);
    uint64_t at = tail;
    struct ring_parsed found;

    if (!ring_is_start(g, tail))
        return SNIC_ECORRUPT;
    if (g->discipline == SNIC_RING_QUIESCENT) {
        ring_word *progress = ring_at(g, SNIC_RING_OFF_PROGRESS);

        if (tail - atomic_load_explicit(progress, memory_order_acquire) > g->progress_max)
            return SNIC_ECORRUPT;
        /* release pairs with the acquire of P by the consumer, as of a live producer */
        atomic_store_explicit(progress, tail, memory_order_release);
        return 0;
    }
    if (!ring_word_is_committed(g, tail))
        return 0;
    do {
        if (ring_parse(g, at, tail + g->progress_max, &found) != 0)
            return SNIC_ECORRUPT;
        at = found.rec.next;
    } while (found.more);
    atomic_store_explicit(tail_word, at, memory_order_release);
    return 0;
}

static int ring_repair_request(struct snic_ring__geo *g, uint32_t slot)
{
    uint64_t length = ring_slot(g, slot, SNIC_RING__OWN_LENGTH);
    int r;

    if ((g->flags & SNIC_RING_ONE_PRODUCER) != 0)
        return ring_repair_one_producer(g);
    if (length == 0)
        return 0;
    if (ring_slot(g, slot, SNIC_RING__OWN_DEAD) != SNIC_RING__DECIDED) {
        r = ring_repair_reservation(g, slot, ring_slot(g, slot, SNIC_RING__OWN_POSITION), length);
        if (r != 0)
            return r;
        atomic_store_explicit(ring_owner(g, slot, SNIC_RING__OWN_DEAD), SNIC_RING__DECIDED,
                              memory_order_release);
    }
    return g->discipline == SNIC_RING_QUIESCENT ? ring_repair_progress(g) : 0;
}

static int ring_repair_claim(struct snic_ring__geo *g, uint32_t slot)
{
    uint64_t position = ring_slot(g, slot, SNIC_RING__OWN_POSITION);
    uint64_t claimed = position | SNIC_RING__CLAIMED;

    if (ring_slot(g, slot, SNIC_RING__OWN_LENGTH) == 0)
        return 0;
    if (!ring_is_start(g, position))
        return SNIC_ECORRUPT;
    if (atomic_load_explicit(ring_commit_word(g, position), memory_order_acquire) != claimed)
        return 0;
    /* If two dead slots hold one claimed record, either repair may release it. */
    if (ring_shown(g, slot, position) == 1)
        return SNIC_EAGAIN;
    (void)atomic_compare_exchange_strong_explicit(ring_commit_word(g, position), &claimed,
                                                  position | SNIC_RING__RELEASED,
                                                  memory_order_seq_cst, memory_order_relaxed);
    return ring_advance_head(g);
}

int snic_ring_abandon(void *mem, size_t mem_size, uint64_t token)
{
    struct snic_ring__geo g;
    struct snic_ring_info info;
    uint32_t slot;
    int r = ring_attach(&g, mem, mem_size, 0, &info);

    if (r != 0)
        return r;
    for (slot = 0; slot < g.owners_max; slot++)
        if (token != 0 && ring_slot(&g, slot, SNIC_RING__OWN_TOKEN) == token)
            break;
    if (slot == g.owners_max)
        return SNIC_ENOENT;
    if (ring_slot(&g, slot, SNIC_RING__OWN_DEAD) == 0)
        atomic_store_explicit(ring_owner(&g, slot, SNIC_RING__OWN_DEAD), SNIC_RING__DEAD,
                              memory_order_release);
    r = g.kind == SNIC_RING_REQUEST ? ring_repair_request(&g, slot) : ring_repair_claim(&g, slot);
    if (r == 0)
        ring_owner_give(&g, slot + 1);
    return r;
}

/* ---- Check ---- */

/* Each record in [head, tail) must be well formed and each reservation committed. */
static int ring_check_records(const struct snic_ring__geo *g, uint64_t head, uint64_t tail)
{
    uint64_t at;
    int open = (int)(head & SNIC_RING__HEAD_OPEN);

    head -= (uint64_t)open;
    for (at = head; at != tail;) {
        struct ring_parsed found;

        if (g->kind == SNIC_RING_REQUEST && g->discipline == SNIC_RING_COMMIT && !open &&
            !ring_word_is_committed(g, at))
            return SNIC_ECORRUPT;
        if (ring_parse(g, at, tail, &found) != 0)
            return SNIC_ECORRUPT;
        open = found.more;
        at = found.rec.next;
    }
    return open ? SNIC_ECORRUPT : 0;
}

int snic_ring_check(const void *mem, size_t mem_size)
{
    struct snic_ring__geo g;
    struct snic_ring_info info;
    uint64_t head;
    uint64_t tail;
    uint32_t i;
    int r = ring_attach(&g, (void *)(uintptr_t)mem, mem_size, 0, &info);

    if (r != 0)
        return SNIC_ECORRUPT;
    head = atomic_load_explicit(ring_at(&g, SNIC_RING_OFF_HEAD), memory_order_acquire);
    tail = atomic_load_explicit(ring_at(&g, SNIC_RING_OFF_TAIL), memory_order_acquire);
    if (!ring_is_start(&g, head & ~SNIC_RING__HEAD_OPEN) || !ring_is_start(&g, tail) ||
        tail - (head & ~SNIC_RING__HEAD_OPEN) > g.progress_max)
        return SNIC_ECORRUPT;
    if (g.kind == SNIC_RING_REQUEST && g.discipline == SNIC_RING_QUIESCENT &&
        atomic_load_explicit(ring_at(&g, SNIC_RING_OFF_PROGRESS), memory_order_acquire) != tail)
        return SNIC_ECORRUPT;
    for (i = 0; i < g.owners_max; i++)
        if (ring_slot(&g, i, SNIC_RING__OWN_LENGTH) != 0 &&
            (g.kind == SNIC_RING_REQUEST || ring_slot(&g, i, SNIC_RING__OWN_TOKEN) == 0))
            return SNIC_ECORRUPT;
    return ring_check_records(&g, head, tail);
}
