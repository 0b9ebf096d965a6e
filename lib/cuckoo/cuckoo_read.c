/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Readers of the cache table: copy out, then look at the header again.
 *
 *  1  load header 1, then header 2 (both acquire)
 *  2  for every slot whose tag matches: compare the key, copy the item, acquire fence, load that
 *     header again; unchanged: found (I3)
 *  3  no match: acquire fence, load header 1 again; unchanged: absent
 *  4  anything changed: start over
 *
 * Why header 1 suffices in 3 for a key that stays in the table (a slot's key words never change
 * while it is there, whatever scratch holds). If header 1 showed it, but its
 * slot held another key, then it had been displaced and the slot filled again, and by I3 the second
 * look shows a change. Else it was in bucket 2 when header 1 was loaded, and by I2 the reader's
 * header 2 is at least that new. If header 2 does not show it, or its slot there held another key,
 * it has been displaced to bucket 1 before, so by I2 or I3 the second look shows a change.
 */
#include "cuckoo/cuckoo_priv.h"

/* The result of a probe with two loaded headers. */
enum cuckoo_probe_result { CUCKOO_ABSENT, CUCKOO_FOUND, CUCKOO_CHANGED };

/*
 * Compare the key and copy the item from slot or scratch; 1 if the key is the one. Scratch may be
 * in use for another key by now, so its key is compared once only and a mismatch proves nothing:
 * the key in the slot decides.
 */
static int cuckoo_try_slot(const struct snic_cuckoo *t, uint32_t bucket, uint32_t slot,
                           uint64_t header, const uint64_t *key, uint64_t *item,
                           struct cuckoo_words w)
{
    _Atomic uint64_t *from = cuckoo_slot(t, bucket, slot, w.slot);

    if (SNIC_UNLIKELY(header & SNIC_CUCKOO__SEQ_ODD)) { /* I4 */
        _Atomic uint64_t *scratch = (_Atomic uint64_t *)(uintptr_t)t->scratch;

        if (cuckoo_key_equal(scratch, key, w.key)) {
            cuckoo_copy_out(item, scratch + w.at, w.item);
            return 1;
        }
    }
    if (!cuckoo_key_equal(from, key, w.key))
        return 0;
    cuckoo_copy_out(item, from + w.at, w.item);
    return 1;
}

/* Steps 1 to 3 in full. */
static enum cuckoo_probe_result cuckoo_probe(const struct snic_cuckoo *t,
                                             const struct cuckoo_spot *s, const uint64_t *key,
                                             uint64_t *item, struct cuckoo_words w)
{
    uint64_t headers[2];
    uint32_t matches;

    headers[0] = cuckoo_load_acquire(cuckoo_header(t, s->bucket[0])); /* I2 */
    headers[1] = cuckoo_load_acquire(cuckoo_header(t, s->bucket[1])); /* I2 */
    matches = cuckoo_match(headers[0], headers[1], s->tag);
    for (; matches != 0; matches &= matches - 1) {
        uint32_t i = simd_lowest(matches);
        uint32_t side = i >> 2;

        if (cuckoo_try_slot(t, s->bucket[side], i & 3, headers[side], key, item, w)) {
            cuckoo_fence_acquire(); /* I3: pairs with the writer's release fences */
            if (cuckoo_load(cuckoo_header(t, s->bucket[side])) != headers[side])
                return CUCKOO_CHANGED;
            cuckoo_used(t, s->bucket[side], i & 3);
            return CUCKOO_FOUND;
        }
    }
    cuckoo_fence_acquire(); /* step 3: after header 2 and the keys compared */
    if (cuckoo_load(cuckoo_header(t, s->bucket[0])) != headers[0])
        return CUCKOO_CHANGED;
    return CUCKOO_ABSENT;
}

/* Step 4 around the others. */
static int cuckoo_get_stored(const struct snic_cuckoo *t, const struct cuckoo_spot *s,
                             const uint64_t *key, uint64_t *item, struct cuckoo_words w)
{
    enum cuckoo_probe_result r;

    do {
        r = cuckoo_probe(t, s, key, item, w);
    } while (r == CUCKOO_CHANGED);
    return r == CUCKOO_FOUND;
}

/* A look-up from the start, for whatever the short way leaves: out of line, any sizes. */
static __attribute__((noinline)) int cuckoo_get_slow(const struct snic_cuckoo *t, const void *key,
                                                     void *out)
{
    struct cuckoo_words w = cuckoo_words_of(t);
    uint64_t key_words[SNIC_CUCKOO__KEY_WORDS];
    uint64_t item[SNIC_CUCKOO__ITEM_WORDS];
    struct cuckoo_spot s;

    if (out == NULL)
        w.item = 0;
    cuckoo_to_words(key_words, w.key, key, t->key_size, 0);
    s = cuckoo_spot_of(t, key_words, w);
    if (!cuckoo_get_stored(t, &s, key_words, item, w))
        return SNIC_ENOENT;
    if (w.item > 0)
        cuckoo_from_words(out, item, w.item, t->item_size, 0);
    return 0;
}

/* Where a look-up reads, worked out before anything has been read. */
struct cuckoo_aim {
    _Atomic uint64_t *header[2];
    _Atomic uint64_t *slots[2];
    int64_t apart; /* words from the end of the first bucket's slots to the second's */
};

SNIC_CUCKOO__INLINE struct cuckoo_aim cuckoo_aim_at(const struct snic_cuckoo *t,
                                                    const struct cuckoo_spot *s,
                                                    struct cuckoo_words w)
{
    struct cuckoo_aim a;

    for (uint32_t i = 0; i < 2; i++) {
        a.header[i] = cuckoo_header(t, s->bucket[i]);
        a.slots[i] = cuckoo_slot(t, s->bucket[i], 0, w.slot);
    }
    a.apart = a.slots[1] - a.slots[0] - (int64_t)SNIC_CUCKOO_BUCKET_SLOTS * w.slot;
    return a;
}

/*
 * Steps 2 and 3 the short way, in a straight line: the first slot that matches and no other, no
 * update under way. CUCKOO_CHANGED stands for all else. An odd header fails the second look, as the
 * expected one is made even. Little may depend on what is read: instructions that wait for memory
 * fill the processor's scheduler, and with it goes the overlap of one look-up with the next.
 */
SNIC_CUCKOO__INLINE enum cuckoo_probe_result cuckoo_probe_short(const struct cuckoo_aim *a,
                                                                uint64_t header1, uint64_t header2,
                                                                uint32_t matches,
                                                                const uint64_t *key, uint64_t *item,
                                                                struct cuckoo_words w)
{
    if (matches != 0) {
        uint32_t i = simd_lowest(matches);
        _Atomic uint64_t *from = a->slots[0] + ((int64_t)i * w.slot + (int64_t)(i >> 2) * a->apart);

        if (SNIC_UNLIKELY(!cuckoo_key_equal(from, key, w.key)))
            return CUCKOO_CHANGED;
        cuckoo_copy_out(item, from + w.at, w.item);
        cuckoo_fence_acquire(); /* I3: pairs with the writer's release fences */
        if (SNIC_UNLIKELY(cuckoo_load(a->header[0]) != (header1 & ~SNIC_CUCKOO__SEQ_ODD)) ||
            SNIC_UNLIKELY(cuckoo_load(a->header[1]) != (header2 & ~SNIC_CUCKOO__SEQ_ODD)))
            return CUCKOO_CHANGED;
        return CUCKOO_FOUND;
    }
    cuckoo_fence_acquire(); /* step 3: after header 2 */
    if (SNIC_LIKELY(cuckoo_load(a->header[0]) == header1))
        return CUCKOO_ABSENT;
    return CUCKOO_CHANGED;
}

/*
 * A hit needs a header, then a slot. The small slots of both buckets are two lines each, and asking
 * for all of them at once costs less than waiting for one after the header has come.
 */
SNIC_CUCKOO__INLINE void cuckoo_fetch_slots(const struct cuckoo_aim *a, struct cuckoo_words w)
{
    for (uint32_t i = 0; i < 2; i++) {
        simd_prefetch_read(a->slots[i]);
        simd_prefetch_read(a->slots[i] + SNIC_CUCKOO_BUCKET_SLOTS * w.slot - 1);
    }
}

SNIC_CUCKOO__INLINE int cuckoo_get(const struct snic_cuckoo *t, const void *key, void *out,
                                   struct cuckoo_words w)
{
    uint64_t key_words[SNIC_CUCKOO__KEY_WORDS];
    uint64_t item[SNIC_CUCKOO__ITEM_WORDS];
    enum cuckoo_probe_result r;
    struct cuckoo_spot s;
    struct cuckoo_aim a;
    uint64_t header1;
    uint64_t header2;

    cuckoo_to_words(key_words, w.key, key, t->key_size, w.exact);
    s = cuckoo_spot_of(t, key_words, w);
    a = cuckoo_aim_at(t, &s, w);
    header1 = cuckoo_load_acquire(a.header[0]); /* I2 */
    header2 = cuckoo_load_acquire(a.header[1]); /* I2 */
    if (w.exact)
        cuckoo_fetch_slots(&a, w);
    r = cuckoo_probe_short(&a, header1, header2, cuckoo_match(header1, header2, s.tag), key_words,
                           item, w);
    if (SNIC_LIKELY(r == CUCKOO_FOUND)) {
        cuckoo_from_words(out, item, w.item, t->item_size, w.exact);
        return 0;
    }
    return r == CUCKOO_ABSENT ? SNIC_ENOENT : cuckoo_get_slow(t, key, out);
}

/* A function per shape, so that each has the small frame it needs. */
#define SNIC_CUCKOO__GET(name, ...)                                                                \
    static __attribute__((noinline)) int name(const struct snic_cuckoo *t, const void *key,        \
                                              void *out)                                           \
    {                                                                                              \
        const struct cuckoo_words w = {__VA_ARGS__};                                               \
                                                                                                   \
        return cuckoo_get(t, key, out, w);                                                         \
    }
SNIC_CUCKOO__GET(cuckoo_get_8_8, 1, 1, 1, 2, 1)
SNIC_CUCKOO__GET(cuckoo_get_8_16, 1, 2, 1, 3, 1)
SNIC_CUCKOO__GET(cuckoo_get_16_8, 2, 1, 2, 3, 1)
SNIC_CUCKOO__GET(cuckoo_get_16_16, 2, 2, 2, 4, 1)
#undef SNIC_CUCKOO__GET

int snic_cuckoo_get(const struct snic_cuckoo *t, const void *key, void *item)
{
    if (SNIC_UNLIKELY(item == NULL))
        return cuckoo_get_slow(t, key, NULL);
    switch (t->shape) {
    case CUCKOO_8_8:
        return cuckoo_get_8_8(t, key, item);
    case CUCKOO_8_16:
        return cuckoo_get_8_16(t, key, item);
    case CUCKOO_16_8:
        return cuckoo_get_16_8(t, key, item);
    case CUCKOO_16_16:
        return cuckoo_get_16_16(t, key, item);
    default:
        return cuckoo_get_slow(t, key, item);
    }
}

/* One key of a batch between its stages. */
struct cuckoo_batch_entry {
    struct cuckoo_aim a;
    uint64_t header[2];
    uint32_t tag;
    uint32_t matches;
};

/*
 * Three stages, so that the memory accesses of all keys overlap: hash and fetch the headers; match
 * tags and fetch the first candidate slot; copy and check. A key that needs more than the short
 * probe takes the scalar way.
 */
SNIC_CUCKOO__INLINE uint64_t cuckoo_get_batch(const struct snic_cuckoo *t, const void *keys,
                                              uint32_t n, void *items, struct cuckoo_words w)
{
    struct cuckoo_batch_entry entries[SNIC_CUCKOO_BATCH_MAX];
    uint64_t key[SNIC_CUCKOO__KEY_WORDS];
    uint64_t item[SNIC_CUCKOO__ITEM_WORDS];
    uint32_t key_size = w.exact ? w.key * 8 : t->key_size;
    uint32_t item_size = w.exact ? w.item * 8 : t->item_size;
    uint64_t found = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct cuckoo_batch_entry *e = &entries[i];
        struct cuckoo_spot s;

        cuckoo_to_words(key, w.key, (const unsigned char *)keys + (size_t)i * key_size, key_size,
                        w.exact);
        s = cuckoo_spot_of(t, key, w);
        e->a = cuckoo_aim_at(t, &s, w);
        e->tag = s.tag;
        simd_prefetch_read(e->a.header[0]);
        simd_prefetch_read(e->a.header[1]);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct cuckoo_batch_entry *e = &entries[i];
        uint32_t m;

        e->header[0] = cuckoo_load_acquire(e->a.header[0]); /* I2 */
        e->header[1] = cuckoo_load_acquire(e->a.header[1]); /* I2 */
        e->matches = m = cuckoo_match(e->header[0], e->header[1], e->tag);
        if (m != 0) {
            _Atomic uint64_t *slot;

            m = simd_lowest(m);
            slot = e->a.slots[m >> 2] + (m & 3) * w.slot;
            simd_prefetch_read(slot);
            simd_prefetch_read(slot + w.slot - 1);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct cuckoo_batch_entry *e = &entries[i];
        const unsigned char *k = (const unsigned char *)keys + (size_t)i * key_size;
        unsigned char *out = items == NULL ? NULL : (unsigned char *)items + (size_t)i * item_size;
        enum cuckoo_probe_result r;

        cuckoo_to_words(key, w.key, k, key_size, w.exact);
        r = cuckoo_probe_short(&e->a, e->header[0], e->header[1], e->matches, key, item, w);
        if (SNIC_UNLIKELY(r == CUCKOO_CHANGED))
            found |= (uint64_t)(cuckoo_get_slow(t, k, out) == 0) << i;
        if (r == CUCKOO_FOUND) {
            found |= (uint64_t)1 << i;
            if (out != NULL)
                cuckoo_from_words(out, item, w.item, t->item_size, w.exact);
        }
    }
    return found;
}

uint64_t snic_cuckoo_get_n(const struct snic_cuckoo *t, const void *keys, uint32_t n, void *items)
{
    uint64_t found;

    SNIC_ASSERT(n <= SNIC_CUCKOO_BATCH_MAX);
    SNIC_CUCKOO__SHAPED(t, found = cuckoo_get_batch(t, keys, n, items, W))
    return found;
}

int snic_cuckoo_next(const struct snic_cuckoo *t, uint64_t *cursor, void *key, void *item)
{
    const struct cuckoo_words w = cuckoo_words_of(t);
    uint64_t words[SNIC_CUCKOO__KEY_WORDS + SNIC_CUCKOO__ITEM_WORDS];
    uint64_t end = (uint64_t)t->buckets * SNIC_CUCKOO_BUCKET_SLOTS;
    uint64_t at = *cursor;

    while (at < end) {
        uint32_t bucket = (uint32_t)(at / SNIC_CUCKOO_BUCKET_SLOTS);
        uint32_t slot = (uint32_t)(at % SNIC_CUCKOO_BUCKET_SLOTS);
        uint64_t header = cuckoo_load_acquire(cuckoo_header(t, bucket)); /* I2 */
        _Atomic uint64_t *from = cuckoo_slot(t, bucket, slot, w.slot);

        if (cuckoo_tag(header, slot) == 0) {
            at++;
            continue;
        }
        cuckoo_copy_out(words, from, w.key);
        if (header & SNIC_CUCKOO__SEQ_ODD) { /* I4 */
            _Atomic uint64_t *scratch = (_Atomic uint64_t *)(uintptr_t)t->scratch;

            if (cuckoo_key_equal(scratch, words, w.key))
                from = scratch;
        }
        cuckoo_copy_out(words + w.at, from + w.at, w.item);
        cuckoo_fence_acquire(); /* I3 */
        if (cuckoo_load(cuckoo_header(t, bucket)) != header)
            continue;
        *cursor = at + 1;
        if (key != NULL)
            cuckoo_from_words(key, words, w.key, t->key_size, 0);
        if (item != NULL)
            cuckoo_from_words(item, words + w.at, w.item, t->item_size, 0);
        return 0;
    }
    *cursor = end;
    return SNIC_ENOENT;
}
