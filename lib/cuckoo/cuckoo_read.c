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
 * while it is there, whatever scratch holds). Say header 1 showed it, but its
 * slot held another key: then it had been displaced and the slot filled again, and by I3 the second
 * look shows a change. Else it was in bucket 2 when header 1 was loaded, and by I2 the reader's
 * header 2 is at least that new. If header 2 does not show it, or its slot there held another key,
 * it has been displaced to bucket 1 before, so by I2 or I3 the second look shows a change.
 */
#include "cuckoo/cuckoo_priv.h"

/* What a probe with two loaded headers says. */
enum cuckoo_probe_result { CUCKOO_ABSENT, CUCKOO_FOUND, CUCKOO_CHANGED };

/*
 * Compare the key and copy the item from slot or scratch; 1 if the key is the one. Scratch may be
 * in use for another key by now, so its key is compared once only and a mismatch says nothing: the
 * key in the slot decides.
 */
SNIC_CUCKOO__INLINE int cuckoo_try_slot(const struct snic_cuckoo *t, uint32_t bucket, uint32_t slot,
                                        uint64_t header, const uint64_t *key, uint64_t *item,
                                        struct cuckoo_words w)
{
    _Atomic uint64_t *from = cuckoo_slot(t, bucket, slot, w.slot);

    if (SNIC_UNLIKELY(header & SNIC_CUCKOO__SEQ_ODD)) { /* I4 */
        _Atomic uint64_t *scratch = (_Atomic uint64_t *)(uintptr_t)t->scratch;

        if (cuckoo_key_equal(scratch, key, w.key)) {
            cuckoo_copy_out(item, scratch + w.key, w.item);
            return 1;
        }
    }
    if (!cuckoo_key_equal(from, key, w.key))
        return 0;
    cuckoo_copy_out(item, from + w.key, w.item);
    return 1;
}

/* Steps 2 and 3 with the headers loaded in step 1. */
SNIC_CUCKOO__INLINE enum cuckoo_probe_result cuckoo_probe(const struct snic_cuckoo *t,
                                                          const struct cuckoo_spot *s,
                                                          const uint64_t *headers, uint32_t matches,
                                                          const uint64_t *key, uint64_t *item,
                                                          struct cuckoo_words w)
{
    while (matches != 0) {
        uint32_t i = simd_lowest(matches);
        uint32_t side = i >> 2;

        if (SNIC_LIKELY(cuckoo_try_slot(t, s->bucket[side], i & 3, headers[side], key, item, w))) {
            cuckoo_fence_acquire(); /* I3: pairs with the writer's release fences */
            if (SNIC_LIKELY(cuckoo_load(cuckoo_header(t, s->bucket[side])) == headers[side]))
                return CUCKOO_FOUND;
            return CUCKOO_CHANGED;
        }
        matches &= matches - 1;
    }
    cuckoo_fence_acquire(); /* step 3: after header 2 and the keys compared */
    if (SNIC_UNLIKELY(cuckoo_load(cuckoo_header(t, s->bucket[0])) != headers[0]))
        return CUCKOO_CHANGED;
    return CUCKOO_ABSENT;
}

/* Step 1. */
SNIC_CUCKOO__INLINE uint32_t cuckoo_look(const struct snic_cuckoo *t, const struct cuckoo_spot *s,
                                         uint64_t *headers)
{
    headers[0] = cuckoo_load_acquire(cuckoo_header(t, s->bucket[0])); /* I2 */
    headers[1] = cuckoo_load_acquire(cuckoo_header(t, s->bucket[1])); /* I2 */
    return cuckoo_match(headers[0], headers[1], s->tag);
}

SNIC_CUCKOO__INLINE int cuckoo_lookup(const struct snic_cuckoo *t, const struct cuckoo_spot *s,
                                      const uint64_t *key, uint64_t *item, struct cuckoo_words w)
{
    enum cuckoo_probe_result r;

    do {
        uint64_t headers[2];
        uint32_t matches = cuckoo_look(t, s, headers);

        r = cuckoo_probe(t, s, headers, matches, key, item, w);
    } while (SNIC_UNLIKELY(r == CUCKOO_CHANGED));
    return r == CUCKOO_FOUND;
}

SNIC_CUCKOO__INLINE int cuckoo_get(const struct snic_cuckoo *t, const void *key, void *out,
                                   struct cuckoo_words w)
{
    int exact = t->shape != CUCKOO_ANY;
    uint64_t key_words[SNIC_CUCKOO__KEY_WORDS];
    uint64_t item[SNIC_CUCKOO__ITEM_WORDS];
    struct cuckoo_spot s;

    cuckoo_to_words(key_words, w.key, key, t->key_size, exact);
    s = cuckoo_spot_of(t, key_words, w);
    if (!cuckoo_lookup(t, &s, key_words, item, w))
        return SNIC_ENOENT;
    if (exact)
        memcpy(out, item, w.item * sizeof(*item));
    else if (w.item > 0)
        memcpy(out, item, t->item_size);
    return 0;
}

static int cuckoo_has(const struct snic_cuckoo *t, const void *key)
{
    const struct cuckoo_words w = {t->key_words, 0, t->slot_words};
    uint64_t key_words[SNIC_CUCKOO__KEY_WORDS];
    uint64_t item[1];
    struct cuckoo_spot s;

    cuckoo_to_words(key_words, w.key, key, t->key_size, 0);
    s = cuckoo_spot_of(t, key_words, w);
    return cuckoo_lookup(t, &s, key_words, item, w) ? 0 : SNIC_ENOENT;
}

int snic_cuckoo_get(const struct snic_cuckoo *t, const void *key, void *item)
{
    int r;

    if (SNIC_UNLIKELY(item == NULL))
        return cuckoo_has(t, key);
    SNIC_CUCKOO__SHAPED(t, r = cuckoo_get(t, key, item, W))
    return r;
}

/*
 * Three stages, so that the memory accesses of all keys overlap: hash and fetch the headers; match
 * tags and fetch the first candidate slot; copy and check. A key whose buckets changed between the
 * stages takes the scalar way.
 */
SNIC_CUCKOO__INLINE uint64_t cuckoo_get_batch(const struct snic_cuckoo *t, const void *keys,
                                              uint32_t n, void *items, struct cuckoo_words w)
{
    int exact = t->shape != CUCKOO_ANY;
    struct cuckoo_spot spots[SNIC_CUCKOO_BATCH_MAX];
    uint64_t headers[SNIC_CUCKOO_BATCH_MAX][2];
    uint32_t matches[SNIC_CUCKOO_BATCH_MAX];
    uint64_t key[SNIC_CUCKOO__KEY_WORDS];
    uint64_t item[SNIC_CUCKOO__ITEM_WORDS];
    uint32_t key_size = exact ? w.key * 8 : t->key_size;
    uint32_t item_size = exact ? w.item * 8 : t->item_size;
    uint64_t found = 0;

    for (uint32_t i = 0; i < n; i++) {
        cuckoo_to_words(key, w.key, (const unsigned char *)keys + (size_t)i * key_size, key_size,
                        exact);
        spots[i] = cuckoo_spot_of(t, key, w);
        simd_prefetch_read(cuckoo_header(t, spots[i].bucket[0]));
        simd_prefetch_read(cuckoo_header(t, spots[i].bucket[1]));
    }
    for (uint32_t i = 0; i < n; i++) {
        matches[i] = cuckoo_look(t, &spots[i], headers[i]);
        if (matches[i] != 0) {
            uint32_t m = simd_lowest(matches[i]);
            _Atomic uint64_t *slot = cuckoo_slot(t, spots[i].bucket[m >> 2], m & 3, w.slot);

            simd_prefetch_read(slot);
            simd_prefetch_read(slot + w.slot - 1);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        enum cuckoo_probe_result r;

        cuckoo_to_words(key, w.key, (const unsigned char *)keys + (size_t)i * key_size, key_size,
                        exact);
        r = cuckoo_probe(t, &spots[i], headers[i], matches[i], key, item, w);
        if (SNIC_UNLIKELY(r == CUCKOO_CHANGED))
            r = cuckoo_lookup(t, &spots[i], key, item, w) ? CUCKOO_FOUND : CUCKOO_ABSENT;
        if (r == CUCKOO_FOUND) {
            found |= (uint64_t)1 << i;
            if (items != NULL)
                memcpy((unsigned char *)items + (size_t)i * item_size, item, item_size);
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
    uint64_t end = (uint64_t)t->buckets * SNIC_CUCKOO_BUCKET_SLOTS;
    uint64_t words[SNIC_CUCKOO__KEY_WORDS + SNIC_CUCKOO__ITEM_WORDS];
    uint64_t at = *cursor;

    while (at < end) {
        uint32_t bucket = (uint32_t)(at / SNIC_CUCKOO_BUCKET_SLOTS);
        uint32_t slot = (uint32_t)(at % SNIC_CUCKOO_BUCKET_SLOTS);
        uint64_t header = cuckoo_load_acquire(cuckoo_header(t, bucket)); /* I2 */
        _Atomic uint64_t *from = cuckoo_slot(t, bucket, slot, t->slot_words);

        if (cuckoo_tag(header, slot) == 0) {
            at++;
            continue;
        }
        cuckoo_copy_out(words, from, t->key_words);
        if (header & SNIC_CUCKOO__SEQ_ODD) { /* I4 */
            _Atomic uint64_t *scratch = (_Atomic uint64_t *)(uintptr_t)t->scratch;

            if (cuckoo_key_equal(scratch, words, t->key_words))
                from = scratch;
        }
        cuckoo_copy_out(words + t->key_words, from + t->key_words, t->item_words);
        cuckoo_fence_acquire(); /* I3 */
        if (cuckoo_load(cuckoo_header(t, bucket)) != header)
            continue;
        if (key != NULL)
            memcpy(key, words, t->key_size);
        if (item != NULL)
            memcpy(item, words + t->key_words, t->item_size);
        *cursor = at + 1;
        return 0;
    }
    *cursor = end;
    return SNIC_ENOENT;
}
