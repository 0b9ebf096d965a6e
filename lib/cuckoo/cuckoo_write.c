/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The writer of the cache table. The invariants are those of cuckoo_priv.h; all fields but the
 * constants are written here and in init.
 *
 * A new key goes to the emptier of its buckets. When both are full, a breadth-first search over
 * headers alone finds a bucket with an empty slot at most five displacements away; only then do
 * entries move, from the far end towards the key's bucket, each copied before its old slot is
 * cleared. So there is nothing to undo when no path exists, and no entry is ever absent.
 */
#include "cuckoo/cuckoo_priv.h"

static void cuckoo_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Where the writer finds a key. */
struct cuckoo_place {
    uint32_t bucket;
    uint32_t slot;
};

/* Look through both buckets, whole keys (I1 depends on it); 1 if found. */
SNIC_CUCKOO__INLINE int cuckoo_locate(const struct snic_cuckoo *t, const struct cuckoo_spot *s,
                                      const uint64_t *key, struct cuckoo_place *p,
                                      struct cuckoo_words w)
{
    uint32_t matches = cuckoo_match(cuckoo_load(cuckoo_header(t, s->bucket[0])),
                                    cuckoo_load(cuckoo_header(t, s->bucket[1])), s->tag);

    while (matches != 0) {
        uint32_t i = simd_lowest(matches);

        p->bucket = s->bucket[i >> 2];
        p->slot = i & 3;
        if (cuckoo_key_equal(cuckoo_slot(t, p->bucket, p->slot, w.slot), key, w.key))
            return 1;
        matches &= matches - 1;
    }
    return 0;
}

/* Write an empty slot and publish it. */
SNIC_CUCKOO__INLINE void cuckoo_fill(struct snic_cuckoo *t, struct cuckoo_place p, uint32_t tag,
                                     const uint64_t *key, const uint64_t *item,
                                     struct cuckoo_words w)
{
    _Atomic uint64_t *header = cuckoo_header(t, p.bucket);
    _Atomic uint64_t *slot = cuckoo_slot(t, p.bucket, p.slot, w.slot);
    uint64_t h = cuckoo_load(header);

    SNIC_DASSERT(cuckoo_tag(h, p.slot) == 0);
    cuckoo_fence_release(); /* I3 (a) */
    cuckoo_copy_in(slot, key, w.key);
    cuckoo_copy_in(slot + w.at, item, w.item);
    cuckoo_store_release(header, cuckoo_with_tag(h, p.slot, tag) + SNIC_CUCKOO__SEQ_STEP); /* I2 */
}

static void cuckoo_clear_slot(struct snic_cuckoo *t, struct cuckoo_place p)
{
    _Atomic uint64_t *header = cuckoo_header(t, p.bucket);

    cuckoo_store_release(header, cuckoo_with_tag(cuckoo_load(header), p.slot, 0) +
                                     SNIC_CUCKOO__SEQ_STEP); /* I2 */
}

/* Replace an item in place while readers find the new one in scratch (I4). */
SNIC_CUCKOO__INLINE void cuckoo_replace(struct snic_cuckoo *t, struct cuckoo_place p,
                                        const uint64_t *key, const uint64_t *item,
                                        struct cuckoo_words w)
{
    _Atomic uint64_t *header = cuckoo_header(t, p.bucket);
    uint64_t h = cuckoo_load(header);

    SNIC_DASSERT((h & SNIC_CUCKOO__SEQ_ODD) == 0);
    if (w.item > 0) {
        cuckoo_fence_release(); /* I4 */
        cuckoo_copy_in(t->scratch, key, w.key);
        cuckoo_copy_in(t->scratch + w.at, item, w.item);
        cuckoo_store_release(header, h + SNIC_CUCKOO__SEQ_ODD); /* I2 */
        cuckoo_fence_release();                                 /* I3 (b) */
        cuckoo_copy_in(cuckoo_slot(t, p.bucket, p.slot, w.slot) + w.at, item, w.item);
        cuckoo_store_release(header, h + SNIC_CUCKOO__SEQ_STEP); /* I2 */
    }
    cuckoo_add(&t->counters.replaces, 1);
    cuckoo_used(t, p.bucket, p.slot);
}

/* Displace an entry into an empty slot of its other bucket: copy, then clear (I1). */
static void cuckoo_move(struct snic_cuckoo *t, struct cuckoo_place from, struct cuckoo_place to)
{
    const struct cuckoo_words w = cuckoo_words_of(t);
    uint64_t words[SNIC_CUCKOO__KEY_WORDS + SNIC_CUCKOO__ITEM_WORDS];
    uint32_t tag = cuckoo_tag(cuckoo_load(cuckoo_header(t, from.bucket)), from.slot);

    SNIC_DASSERT(tag != 0 && cuckoo_other(t, from.bucket, tag) == to.bucket);
    cuckoo_copy_out(words, cuckoo_slot(t, from.bucket, from.slot, w.slot), w.slot);
    cuckoo_fill(t, to, tag, words, words + w.at, w);
    cuckoo_clear_slot(t, from);
    if (t->ages_offset != 0)
        atomic_store_explicit(
            cuckoo_age(t, to.bucket, to.slot),
            atomic_load_explicit(cuckoo_age(t, from.bucket, from.slot), memory_order_relaxed),
            memory_order_relaxed);
}

/* Is the bucket on the path that leads to this node? Each bucket moves once per path. */
static int cuckoo_on_path(const struct snic_cuckoo *t, uint32_t node, uint32_t bucket)
{
    const struct cuckoo_node *n = &t->nodes[node];

    while (n->bucket != bucket) {
        if (n->depth == 0)
            return 0;
        n = &t->nodes[n->parent];
    }
    return 1;
}

/* Ask for the headers that a node's entries lead to. */
static void cuckoo_fetch_children(const struct snic_cuckoo *t, const struct cuckoo_node *n)
{
    uint64_t h = cuckoo_load(cuckoo_header(t, n->bucket));

    for (uint32_t i = 0; i < SNIC_CUCKOO_BUCKET_SLOTS; i++)
        simd_prefetch_read(cuckoo_header(t, cuckoo_other(t, n->bucket, cuckoo_tag(h, i))));
}

/* Most entries that move are those of the roots: ask for them while the headers come. */
static void cuckoo_fetch_slots_to_move(const struct snic_cuckoo *t, uint32_t bucket)
{
    _Atomic uint64_t *slots = cuckoo_slot(t, bucket, 0, t->slot_words);

    for (uint32_t i = 0; i < SNIC_CUCKOO_BUCKET_SLOTS * t->slot_words; i += 8)
        simd_prefetch_write(slots + i);
    simd_prefetch_write(slots + SNIC_CUCKOO_BUCKET_SLOTS * t->slot_words - 1);
}

/*
 * Breadth-first search from two full buckets. On success *to is an empty slot, and slot *slot of
 * node *node can move there. Headers are asked for two nodes ahead of their use.
 */
static int cuckoo_search(struct snic_cuckoo *t, const struct cuckoo_spot *s, uint32_t *node,
                         uint32_t *slot, struct cuckoo_place *to)
{
    uint32_t tail = 0;
    uint32_t searched = 0;
    int found = 0;

    for (uint32_t i = 0; i < (s->bucket[1] != s->bucket[0] ? 2u : 1u); i++, tail++) {
        t->nodes[tail] = (struct cuckoo_node){s->bucket[i], (uint16_t)tail, 0, 0};
        cuckoo_fetch_children(t, &t->nodes[tail]);
        cuckoo_fetch_slots_to_move(t, s->bucket[i]);
    }
    for (uint32_t head = 0; head < tail && !found; head++) {
        const struct cuckoo_node n = t->nodes[head];
        uint64_t h = cuckoo_load(cuckoo_header(t, n.bucket));

        if (head + 2 < tail)
            cuckoo_fetch_children(t, &t->nodes[head + 2]);
        for (uint32_t i = 0; i < SNIC_CUCKOO_BUCKET_SLOTS; i++) {
            uint32_t child = cuckoo_other(t, n.bucket, cuckoo_tag(h, i));
            uint32_t empty = cuckoo_empty(cuckoo_load(cuckoo_header(t, child)));

            searched++;
            if (empty != 0) {
                *node = head;
                *slot = i;
                *to = (struct cuckoo_place){child, simd_lowest(empty)};
                found = 1;
                break;
            }
            if (n.depth + 1 < SNIC_CUCKOO_PATH_MAX && !cuckoo_on_path(t, head, child)) {
                SNIC_DASSERT(tail < SNIC_CUCKOO__NODES);
                t->nodes[tail++] =
                    (struct cuckoo_node){child, (uint16_t)head, (uint8_t)i, (uint8_t)(n.depth + 1)};
            }
        }
    }
    cuckoo_add(&t->counters.searched, searched);
    return found;
}

/* Empty a slot in one of two full buckets; 1 with the slot in *free, 0 if there is no path. */
static int cuckoo_make_room(struct snic_cuckoo *t, const struct cuckoo_spot *s,
                            struct cuckoo_place *room)
{
    struct cuckoo_place to;
    uint32_t node;
    uint32_t slot;
    uint32_t moves = 0;

    if (!cuckoo_search(t, s, &node, &slot, &to))
        return 0;
    for (;;) {
        const struct cuckoo_node *n = &t->nodes[node];
        struct cuckoo_place from = {n->bucket, slot};

        cuckoo_move(t, from, to);
        moves++;
        to = from;
        if (n->depth == 0)
            break;
        slot = n->slot;
        node = n->parent;
    }
    SNIC_DASSERT(moves <= SNIC_CUCKOO_PATH_MAX);
    cuckoo_add(&t->counters.displacements, moves);
    cuckoo_add(&t->counters.paths[moves], 1);
    *room = to;
    return 1;
}

/* A key was stored in an empty slot. */
SNIC_CUCKOO__INLINE void cuckoo_inserted(struct snic_cuckoo *t, struct cuckoo_place p)
{
    cuckoo_add(&t->counters.inserts, 1);
    if (t->ages_offset == 0)
        return;
    if (atomic_load_explicit(&t->counters.inserts, memory_order_relaxed) % t->tick_inserts == 0)
        atomic_store_explicit(&t->clock, atomic_load_explicit(&t->clock, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    cuckoo_used(t, p.bucket, p.slot);
}

/* Insert a key that is in neither bucket. */
SNIC_CUCKOO__INLINE int cuckoo_insert(struct snic_cuckoo *t, const struct cuckoo_spot *s,
                                      const uint64_t *key, const uint64_t *item,
                                      struct cuckoo_words w)
{
    uint32_t empty = cuckoo_empty_of(cuckoo_load(cuckoo_header(t, s->bucket[0])),
                                     cuckoo_load(cuckoo_header(t, s->bucket[1])));
    struct cuckoo_place p;

    if (SNIC_LIKELY(empty != 0)) {
        uint32_t side = cuckoo_emptier(empty);

        p.bucket = cuckoo_bucket_of(s, side);
        p.slot = simd_lowest(empty >> side * 4);
    } else if (!cuckoo_make_room(t, s, &p)) {
        cuckoo_add(&t->counters.refused, 1);
        return SNIC_ENOSPC;
    }
    cuckoo_fill(t, p, s->tag, key, item, w);
    cuckoo_inserted(t, p);
    return 0;
}

SNIC_CUCKOO__INLINE int cuckoo_put_words(struct snic_cuckoo *t, const struct cuckoo_spot *s,
                                         const uint64_t *key, const uint64_t *item,
                                         struct cuckoo_words w)
{
    struct cuckoo_place p;

    if (!cuckoo_locate(t, s, key, &p, w))
        return cuckoo_insert(t, s, key, item, w);
    cuckoo_replace(t, p, key, item, w);
    return 1;
}

SNIC_CUCKOO__INLINE int cuckoo_put_at(struct snic_cuckoo *t, const struct cuckoo_spot *s,
                                      const uint64_t *key, const void *item, struct cuckoo_words w)
{
    uint64_t item_words[SNIC_CUCKOO__ITEM_WORDS];

    cuckoo_to_words(item_words, w.item, item, t->item_size, w.exact);
    return cuckoo_put_words(t, s, key, item_words, w);
}

SNIC_CUCKOO__INLINE int cuckoo_put(struct snic_cuckoo *t, const void *key, const void *item,
                                   struct cuckoo_words w)
{
    uint64_t key_words[SNIC_CUCKOO__KEY_WORDS];
    struct cuckoo_spot s;

    cuckoo_to_words(key_words, w.key, key, t->key_size, w.exact);
    s = cuckoo_spot_of(t, key_words, w);
    return cuckoo_put_at(t, &s, key_words, item, w);
}

int snic_cuckoo_put(struct snic_cuckoo *t, const void *key, const void *item)
{
    int r;

    SNIC_DASSERT(t->in_callback == 0);
    SNIC_ASSERT(item != NULL || t->item_size == 0);
    SNIC_CUCKOO__SHAPED(t, r = cuckoo_put(t, key, item, W))
    return r;
}

/* Stages as in cuckoo_get_batch(): headers, then the slot that will probably be written. */
SNIC_CUCKOO__INLINE uint32_t cuckoo_put_batch(struct snic_cuckoo *t, const void *keys,
                                              const void *items, uint32_t n, struct cuckoo_words w)
{
    struct cuckoo_spot spots[SNIC_CUCKOO_BATCH_MAX];
    uint64_t key[SNIC_CUCKOO__KEY_WORDS];
    uint32_t key_size = w.exact ? w.key * 8 : t->key_size;
    uint32_t item_size = w.exact ? w.item * 8 : t->item_size;

    for (uint32_t i = 0; i < n; i++) {
        cuckoo_to_words(key, w.key, (const unsigned char *)keys + (size_t)i * key_size, key_size,
                        w.exact);
        spots[i] = cuckoo_spot_of(t, key, w);
        simd_prefetch_write(cuckoo_header(t, spots[i].bucket[0]));
        simd_prefetch_write(cuckoo_header(t, spots[i].bucket[1]));
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct cuckoo_spot *s = &spots[i];
        uint64_t h1 = cuckoo_load(cuckoo_header(t, s->bucket[0]));
        uint64_t h2 = cuckoo_load(cuckoo_header(t, s->bucket[1]));
        uint32_t m = cuckoo_match(h1, h2, s->tag);

        if (m == 0) {
            m = cuckoo_empty_of(h1, h2);
            m &= (uint32_t)0xf << cuckoo_emptier(m) * 4;
        }
        if (m != 0) {
            uint32_t f = simd_lowest(m);
            _Atomic uint64_t *slot = cuckoo_slot(t, cuckoo_bucket_of(s, f >> 2), f & 3, w.slot);

            simd_prefetch_write(slot);
            simd_prefetch_write(slot + w.slot - 1);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        cuckoo_to_words(key, w.key, (const unsigned char *)keys + (size_t)i * key_size, key_size,
                        w.exact);
        if (cuckoo_put_at(t, &spots[i], key,
                          item_size == 0 ? NULL
                                         : (const unsigned char *)items + (size_t)i * item_size,
                          w) < 0)
            return i;
    }
    return n;
}

uint32_t snic_cuckoo_put_n(struct snic_cuckoo *t, const void *keys, const void *items, uint32_t n)
{
    uint32_t done;

    SNIC_DASSERT(t->in_callback == 0);
    SNIC_ASSERT(n <= SNIC_CUCKOO_BATCH_MAX);
    SNIC_ASSERT(items != NULL || t->item_size == 0);
    SNIC_CUCKOO__SHAPED(t, done = cuckoo_put_batch(t, keys, items, n, W))
    return done;
}

static void cuckoo_remove(struct snic_cuckoo *t, struct cuckoo_place p)
{
    cuckoo_clear_slot(t, p);
    cuckoo_add(&t->counters.deletes, 1);
}

SNIC_CUCKOO__INLINE int cuckoo_del(struct snic_cuckoo *t, const void *key, struct cuckoo_words w)
{
    uint64_t key_words[SNIC_CUCKOO__KEY_WORDS];
    struct cuckoo_spot s;
    struct cuckoo_place p;

    cuckoo_to_words(key_words, w.key, key, t->key_size, w.exact);
    s = cuckoo_spot_of(t, key_words, w);
    if (!cuckoo_locate(t, &s, key_words, &p, w))
        return SNIC_ENOENT;
    cuckoo_remove(t, p);
    return 0;
}

int snic_cuckoo_del(struct snic_cuckoo *t, const void *key)
{
    int r;

    SNIC_DASSERT(t->in_callback == 0);
    SNIC_CUCKOO__SHAPED(t, r = cuckoo_del(t, key, W))
    return r;
}

/* ---- Eviction ---- */

/* Which entry to evict where there is no room. */
struct cuckoo_evict_call {
    const struct snic_cuckoo_evict *evict;
    void *ctx;
};

/* Of the entries in two full buckets the one that goes first; 0: none may go. */
static int cuckoo_victim(struct snic_cuckoo *t, const struct cuckoo_spot *s,
                         const struct cuckoo_evict_call *e, struct cuckoo_place *victim)
{
    const struct cuckoo_words w = cuckoo_words_of(t);
    uint64_t words[SNIC_CUCKOO__KEY_WORDS + SNIC_CUCKOO__ITEM_WORDS];
    uint32_t now = atomic_load_explicit(&t->clock, memory_order_relaxed);
    uint32_t slots = SNIC_CUCKOO_BUCKET_SLOTS * (s->bucket[1] != s->bucket[0] ? 2u : 1u);
    int64_t most = -1;

    for (uint32_t i = 0; i < slots; i++) {
        uint32_t bucket = s->bucket[i / SNIC_CUCKOO_BUCKET_SLOTS];
        uint32_t slot = i % SNIC_CUCKOO_BUCKET_SLOTS;
        uint16_t age = (uint16_t)(now - atomic_load_explicit(cuckoo_age(t, bucket, slot),
                                                             memory_order_relaxed));
        int64_t rank;

        cuckoo_copy_out(words, cuckoo_slot(t, bucket, slot, w.slot), w.slot);
        rank = e->evict->rank(e->ctx, words, words + w.at, age);
        if (rank > most) {
            most = rank;
            *victim = (struct cuckoo_place){bucket, slot};
        }
    }
    if (most < 0)
        return 0;
    cuckoo_copy_out(words, cuckoo_slot(t, victim->bucket, victim->slot, w.slot), w.slot);
    if (e->evict->dropped != NULL)
        e->evict->dropped(e->ctx, words, words + w.at);
    return 1;
}

/* Insert a key that is in neither bucket, in place of another where there is no room. */
static int cuckoo_insert_evict(struct snic_cuckoo *t, const struct cuckoo_spot *s,
                               const uint64_t *key, const uint64_t *item, struct cuckoo_words w,
                               const struct cuckoo_evict_call *e)
{
    uint64_t capacity = (uint64_t)t->buckets * SNIC_CUCKOO_BUCKET_SLOTS;
    struct cuckoo_place p;
    int found;

    if (cuckoo_empty_of(cuckoo_load(cuckoo_header(t, s->bucket[0])),
                        cuckoo_load(cuckoo_header(t, s->bucket[1]))) != 0)
        return cuckoo_insert(t, s, key, item, w);
    if (snic_cuckoo_count(t) < capacity / 16 * 15 && cuckoo_make_room(t, s, &p)) {
        cuckoo_fill(t, p, s->tag, key, item, w);
        cuckoo_inserted(t, p);
        return 0;
    }
    t->in_callback = 1;
    found = cuckoo_victim(t, s, e, &p);
    t->in_callback = 0;
    if (!found) {
        cuckoo_add(&t->counters.refused, 1);
        return SNIC_ENOSPC;
    }
    cuckoo_remove(t, p);
    cuckoo_add(&t->counters.evictions, 1);
    cuckoo_fill(t, p, s->tag, key, item, w);
    cuckoo_inserted(t, p);
    return 0;
}

static int cuckoo_update_evict(struct snic_cuckoo *t, const void *key, void *ctx,
                               snic_cuckoo_update_fn fn, const struct cuckoo_evict_call *e)
{
    const struct cuckoo_words w = cuckoo_words_of(t);
    uint64_t key_words[SNIC_CUCKOO__KEY_WORDS];
    uint64_t item[SNIC_CUCKOO__ITEM_WORDS];
    enum snic_cuckoo_verdict verdict;
    struct cuckoo_place p = {0, 0};
    struct cuckoo_spot s;
    int resident;

    SNIC_DASSERT(t->in_callback == 0);
    cuckoo_to_words(key_words, w.key, key, t->key_size, 0);
    s = cuckoo_spot_of(t, key_words, w);
    memset(item, 0, sizeof(item));
    resident = cuckoo_locate(t, &s, key_words, &p, w);
    if (resident)
        cuckoo_copy_out(item, cuckoo_slot(t, p.bucket, p.slot, w.slot) + w.at, w.item);
    t->in_callback = 1;
    verdict = fn(ctx, item, resident);
    t->in_callback = 0;
    SNIC_ASSERT(verdict == SNIC_CUCKOO_KEEP || verdict == SNIC_CUCKOO_STORE ||
                verdict == SNIC_CUCKOO_REMOVE);
    /* Padding after the item stays zero whatever the callback wrote there. */
    if (t->item_size % 8 != 0)
        item[t->item_size / 8] &= ((uint64_t)1 << t->item_size % 8 * 8) - 1;
    if (verdict == SNIC_CUCKOO_STORE) {
        if (!resident)
            return e != NULL ? cuckoo_insert_evict(t, &s, key_words, item, w, e)
                             : cuckoo_insert(t, &s, key_words, item, w);
        cuckoo_replace(t, p, key_words, item, w);
    } else if (verdict == SNIC_CUCKOO_REMOVE && resident) {
        cuckoo_remove(t, p);
    }
    return 0;
}

int snic_cuckoo_update(struct snic_cuckoo *t, const void *key, void *ctx, snic_cuckoo_update_fn fn)
{
    return cuckoo_update_evict(t, key, ctx, fn, NULL);
}

int snic_cuckoo_update_evict(struct snic_cuckoo *t, const void *key, void *ctx,
                             snic_cuckoo_update_fn fn, const struct snic_cuckoo_evict *e)
{
    struct cuckoo_evict_call call = {e, ctx};

    SNIC_ASSERT(t->ages_offset != 0 && e->rank != NULL); /* SNIC_CUCKOO_EVICT */
    return cuckoo_update_evict(t, key, ctx, fn, &call);
}

void snic_cuckoo_clear(struct snic_cuckoo *t)
{
    SNIC_DASSERT(t->in_callback == 0);
    for (uint32_t b = 0; b < t->buckets; b++) {
        uint64_t h = cuckoo_load(cuckoo_header(t, b));
        uint64_t tags = h & UINT64_C(0xffffffff);
        uint64_t gone = SNIC_CUCKOO_BUCKET_SLOTS - cuckoo_count4(cuckoo_empty(h));

        if (tags == 0)
            continue;
        cuckoo_store_release(cuckoo_header(t, b), h - tags + SNIC_CUCKOO__SEQ_STEP); /* I2 */
        cuckoo_add(&t->counters.deletes, gone);
    }
}
