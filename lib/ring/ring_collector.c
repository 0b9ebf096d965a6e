/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The collectors of the response ring: many, each takes what it claims.
 *
 * L1 load T (acquire); L2 walk the headers from max(scan, H); L3 load the record's word, complete
 * if t | 1 (COMMIT) or simply below T (QUIESCENT); L4 compare-and-swap it to t | 2 (acquire);
 * L5 read; L6 store t | 3 (seq_cst); L7 move H over released records (ring_advance_head).
 *
 * Invariants
 *   I1  A record is claimed once: its word goes from an earlier position's to t | 2 to t | 3, and
 *       a word never holds an earlier position again, so that no compare-and-swap succeeds late.
 *   I2  H passes a record only when it is released, or padding.
 *   I3  A header read by a collector is believed only if H was not beyond it afterwards, or
 *       if the record is claimed.
 */
#include "snicstore/ring.h"

#include "ring/ring_priv.h"

#include <string.h>

int snic_ring_collector_attach(struct snic_ring_collector *k, void *mem, size_t mem_size,
                               uint64_t token)
{
    struct snic_ring__geo g;
    struct snic_ring_info info;
    int r = ring_attach(&g, mem, mem_size, SNIC_RING_RESPONSE, &info);

    if (r != 0)
        return r;
    r = ring_owner_take(&g, token);
    if (r < 0)
        return r;
    memset(k, 0, sizeof(*k));
    k->g = g;
    k->owner = (uint32_t)r;
    k->scan = atomic_load_explicit(ring_at(&g, SNIC_RING_OFF_HEAD), memory_order_acquire);
    return 0;
}

void snic_ring_collector_detach(struct snic_ring_collector *k)
{
    SNIC_ASSERT(k->held == 0);
    ring_owner_give(&k->g, k->owner);
    k->owner = 0;
    (void)ring_break(&k->g);
}

/* L3 and L4 for the record at @p at. 1: it is ours; 0: not complete; 2: another's, or freed. */
static int ring_claim_at(struct snic_ring_collector *k, uint64_t at, const struct ring_parsed *seen)
{
    ring_word *word = ring_commit_word(&k->g, at);
    /* acquire pairs with the release of the responder's commit */
    uint64_t state = atomic_load_explicit(word, memory_order_acquire);

    if (state == (at | SNIC_RING__CLAIMED) || state == (at | SNIC_RING__RELEASED))
        return 2;
    if (ring_distance(state & ~((uint64_t)k->g.granule - 1), at) > 0)
        return 2; /* H and a lap overtook the walk (I1) */
    if (k->g.discipline == SNIC_RING_COMMIT && state != (at | SNIC_RING__COMMITTED))
        return 0;
    if (seen->pad)
        return 2;
    ring_intend(&k->g, k->owner, at, seen->rec.next - at);
    if (atomic_compare_exchange_strong_explicit(word, &state, at | SNIC_RING__CLAIMED,
                                                memory_order_acq_rel, memory_order_acquire))
        return 1;
    return 2; /* I1: it changed, so another collector was first */
}

/* Where to begin the walk and where it ends. 0; 2: again; SNIC_ECORRUPT. */
static int ring_claim_range(struct snic_ring_collector *k, uint64_t *head, uint64_t *tail)
{
    ring_word *head_word = ring_at(&k->g, SNIC_RING_OFF_HEAD);

    /* H before T: then H <= T holds for what was read */
    *head = atomic_load_explicit(head_word, memory_order_acquire);
    *tail = atomic_load_explicit(ring_at(&k->g, SNIC_RING_OFF_TAIL), memory_order_acquire);
    if (!ring_is_start(&k->g, *head) || !ring_is_start(&k->g, *tail) ||
        ring_distance(*tail, *head) < 0)
        return ring_break(&k->g);
    if (*tail - *head > k->g.mask + 1) /* possible if H moved on between the loads */
        return atomic_load_explicit(head_word, memory_order_relaxed) != *head ? 2
                                                                              : ring_break(&k->g);
    if (ring_distance(*head, k->scan) > 0)
        k->scan = *head;
    return ring_distance(*tail, k->scan) < 0 ? ring_break(&k->g) : 0;
}

/* One walk. 1 and *rec, 0 nothing, 2 H overtook the walk: again, SNIC_ECORRUPT. */
static int ring_claim_walk(struct snic_ring_collector *k, struct snic_ring_rec *rec)
{
    struct ring_parsed found;
    uint64_t head;
    uint64_t tail;
    uint64_t at;
    int contiguous = 1;
    int range = ring_claim_range(k, &head, &tail);

    if (range != 0)
        return range;
    for (at = k->scan; ring_distance(tail, at) > 0; at = found.rec.next) {
        int parsed = ring_parse(&k->g, at, tail, &found);
        int r = parsed == 0 ? ring_claim_at(k, at, &found) : 0;

        if (r == 1) {
            /* ours now, so the header stands still (I3) */
            if (ring_parse(&k->g, at, tail, &found) != 0)
                return ring_break(&k->g);
            *rec = found.rec;
            if (contiguous)
                k->scan = rec->next;
            return 1;
        }
        head = atomic_load_explicit(ring_at(&k->g, SNIC_RING_OFF_HEAD), memory_order_acquire);
        if (ring_distance(head, at) > 0)
            return 2;
        if (parsed != 0)
            return ring_break(&k->g);
        contiguous = contiguous && r == 2;
        if (contiguous)
            k->scan = found.rec.next;
    }
    return 0;
}

int snic_ring_claim(struct snic_ring_collector *k, struct snic_ring_rec *rec)
{
    uint32_t tries;
    int r = 2;

    if (k->g.broken != 0)
        return k->g.broken;
    if (k->owner != 0 && k->held != 0)
        return SNIC_EBUSY;
    for (tries = 0; r == 2 && tries < SNIC_RING__RACES; tries++)
        r = ring_claim_walk(k, rec);
    k->stats.retries += tries - 1;
    if (r == 1) {
        k->held++;
        k->stats.records++;
        k->stats.bytes += (uint64_t)rec->data_bytes + rec->body_bytes;
        return 1;
    }
    ring_intend_clear(&k->g, k->owner);
    k->stats.again++;
    if (r < 0)
        return r;
    return ring_advance_head(&k->g); /* padding alone may stand at H */
}

int snic_ring_claim_release(struct snic_ring_collector *k, const struct snic_ring_rec *rec)
{
    SNIC_ASSERT(k->held != 0);
    k->held--;
    if (k->g.broken != 0)
        return k->g.broken;
    /* release: our reads of the record come before it is freed; seq_cst: ring_advance_head */
    atomic_store_explicit(ring_commit_word(&k->g, rec->position),
                          rec->position | SNIC_RING__RELEASED, memory_order_seq_cst);
    ring_intend_clear(&k->g, k->owner);
    return ring_advance_head(&k->g);
}

int snic_ring_collect_notify(struct snic_ring_collector *k)
{
    return k->g.broken == 0 && ring_wake_one(ring_at(&k->g, SNIC_RING_OFF_PRODWAIT));
}

int64_t snic_ring_collect(struct snic_ring_collector *k, void *out, size_t size, uint32_t *type)
{
    struct snic_ring_rec rec;
    unsigned char *to = out;
    int64_t bytes;
    int r = snic_ring_claim(k, &rec);

    if (r <= 0)
        return r < 0 ? r : SNIC_EAGAIN;
    bytes = (int64_t)rec.data_bytes + rec.body_bytes;
    if ((uint64_t)bytes > size) {
        bytes = SNIC_EMSGSIZE;
    } else {
        memcpy(to, rec.data, rec.data_bytes);
        if (rec.body_bytes != 0)
            memcpy(to + rec.data_bytes, rec.body, rec.body_bytes);
        if (type != NULL)
            *type = rec.type;
    }
    r = snic_ring_claim_release(k, &rec);
    return r < 0 ? r : bytes;
}

void snic_ring_collect_arm(struct snic_ring_collector *k)
{
    if (k->g.broken != 0)
        return;
    /* store, full fence, then the caller's look: see ring_load_flag */
    (void)atomic_fetch_add_explicit(ring_at(&k->g, SNIC_RING_OFF_CONSLEEP), 1,
                                    memory_order_seq_cst);
    (void)ring_load_flag(ring_at(&k->g, SNIC_RING_OFF_CONSLEEP));
}
