/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Tables of keys and items with lengths of their own (SNIC_CUCKOO_VARIABLE): how they look in words
 * (cuckoo_priv.h says where the lengths are), and the public calls around it. Everything shared
 * with readers is done by cuckoo_read.c and cuckoo_write.c.
 */
#include "cuckoo/cuckoo_priv.h"

/* Put a length of 1 or 2 bytes and the bytes into words, zero padded; how many words. */
SNIC_CUCKOO__INLINE uint32_t cuckoo_pack(uint64_t *words, uint32_t length_bytes, const void *bytes,
                                         uint32_t length)
{
    const unsigned char *from = bytes;
    uint32_t shift = length_bytes * 8;
    uint64_t carry = length;
    uint32_t count = 0;

    for (uint32_t left = length;; left -= 8, from += 8) {
        uint64_t word = cuckoo_load_bytes(from, left < 8 ? left : 8);

        words[count++] = carry | word << shift;
        carry = word >> (64 - shift);
        if (left < 8) {
            if (left + length_bytes > 8)
                words[count++] = carry;
            return count;
        }
    }
}

/* The other way round, to where there is room for them. */
SNIC_CUCKOO__INLINE void cuckoo_unpack(void *bytes, const uint64_t *words, uint32_t length_bytes,
                                       uint32_t length)
{
    unsigned char *to = bytes;
    uint32_t shift = length_bytes * 8;

    for (uint32_t left = length; left > 0; words++) {
        uint32_t n = left < 8 ? left : 8;
        uint64_t word = words[0] >> shift;

        if (n + length_bytes > 8)
            word |= words[1] << (64 - shift);
        cuckoo_store_bytes(to, word, n);
        to += n;
        left -= n;
    }
}

static uint32_t cuckoo_key_in(uint64_t *words, const void *key, uint32_t length)
{
    return cuckoo_pack(words, 1, key, length);
}

static uint32_t cuckoo_item_in(uint64_t *words, const void *item, uint32_t length)
{
    return cuckoo_pack(words, 2, item, length);
}

static void cuckoo_item_out(const struct snic_cuckoo *t, const uint64_t *words, void *item,
                            uint32_t *length)
{
    uint32_t n = t->item_words > 0 ? cuckoo_item_length(t, words) : 0;

    if (length != NULL)
        *length = n;
    if (item != NULL)
        cuckoo_unpack(item, words, 2, n);
}

/* Can there be a key of that length? */
static int cuckoo_key_fits(const struct snic_cuckoo *t, uint32_t length)
{
    SNIC_ASSERT(t->shape == CUCKOO_VARIABLE);
    return length >= 1 && length <= t->key_size;
}

int snic_cuckoo_put_var(struct snic_cuckoo *t, const void *key, uint32_t key_len, const void *item,
                        uint32_t item_len)
{
    struct cuckoo_words w = cuckoo_words_of(t);
    uint64_t key_words[SNIC_CUCKOO__KEY_WORDS];
    uint64_t item_words[SNIC_CUCKOO__ITEM_WORDS];

    SNIC_DASSERT(t->in_callback == 0);
    SNIC_ASSERT(item != NULL || item_len == 0);
    if (!cuckoo_key_fits(t, key_len) || item_len > t->item_size)
        return SNIC_EINVAL;
    w.key = cuckoo_key_in(key_words, key, key_len);
    if (w.item > 0)
        w.item = cuckoo_item_in(item_words, item, item_len);
    return cuckoo_put_stored(t, key_words, item_words, w);
}

int snic_cuckoo_get_var(const struct snic_cuckoo *t, const void *key, uint32_t key_len, void *item,
                        uint32_t *item_len)
{
    struct cuckoo_words w = cuckoo_words_of(t);
    uint64_t key_words[SNIC_CUCKOO__KEY_WORDS];
    uint64_t item_words[SNIC_CUCKOO__ITEM_WORDS];
    struct cuckoo_spot s;

    if (!cuckoo_key_fits(t, key_len))
        return SNIC_ENOENT;
    w.key = cuckoo_key_in(key_words, key, key_len);
    s = cuckoo_spot_of(t, key_words, w);
    if (!cuckoo_get_stored(t, &s, key_words, item_words, w))
        return SNIC_ENOENT;
    cuckoo_item_out(t, item_words, item, item_len);
    return 0;
}

/* One key of a batch. */
struct cuckoo_variable_entry {
    struct cuckoo_spot s;
    uint32_t key_words; /* 0: no such key can be */
    uint64_t key[SNIC_CUCKOO__KEY_WORDS];
};

/* Ask for the first slot that matches, as far as key and length of a short entry reach. */
static void cuckoo_fetch_candidate(const struct snic_cuckoo *t, const struct cuckoo_spot *s)
{
    uint32_t m = cuckoo_match(cuckoo_load(cuckoo_header(t, s->bucket[0])),
                              cuckoo_load(cuckoo_header(t, s->bucket[1])), s->tag);

    if (m != 0) {
        _Atomic uint64_t *slot;

        m = simd_lowest(m);
        slot = cuckoo_slot(t, cuckoo_bucket_of(s, m >> 2), m & 3, t->slot_words);
        simd_prefetch_read(slot);
        simd_prefetch_read(slot + t->key_words);
    }
}

uint64_t snic_cuckoo_get_n_var(const struct snic_cuckoo *t, const void *const *keys,
                               const uint32_t *key_lens, uint32_t n, void *items,
                               uint32_t *item_lens)
{
    struct cuckoo_words w = cuckoo_words_of(t);
    struct cuckoo_variable_entry entries[SNIC_CUCKOO_BATCH_MAX];
    uint64_t item[SNIC_CUCKOO__ITEM_WORDS];
    uint64_t found = 0;

    SNIC_ASSERT(n <= SNIC_CUCKOO_BATCH_MAX);
    for (uint32_t i = 0; i < n; i++) {
        struct cuckoo_variable_entry *e = &entries[i];

        e->key_words = 0;
        if (!cuckoo_key_fits(t, key_lens[i]))
            continue;
        e->key_words = w.key = cuckoo_key_in(e->key, keys[i], key_lens[i]);
        e->s = cuckoo_spot_of(t, e->key, w);
        simd_prefetch_read(cuckoo_header(t, e->s.bucket[0]));
        simd_prefetch_read(cuckoo_header(t, e->s.bucket[1]));
    }
    for (uint32_t i = 0; i < n; i++) {
        if (entries[i].key_words > 0)
            cuckoo_fetch_candidate(t, &entries[i].s);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct cuckoo_variable_entry *e = &entries[i];
        unsigned char *out =
            items == NULL ? NULL : (unsigned char *)items + (size_t)i * t->item_size;

        w.key = e->key_words;
        if (w.key == 0 || !cuckoo_get_stored(t, &e->s, e->key, item, w))
            continue;
        found |= (uint64_t)1 << i;
        cuckoo_item_out(t, item, out, item_lens == NULL ? NULL : &item_lens[i]);
    }
    return found;
}

int snic_cuckoo_del_var(struct snic_cuckoo *t, const void *key, uint32_t key_len)
{
    struct cuckoo_words w = cuckoo_words_of(t);
    uint64_t key_words[SNIC_CUCKOO__KEY_WORDS];

    SNIC_DASSERT(t->in_callback == 0);
    if (!cuckoo_key_fits(t, key_len))
        return SNIC_ENOENT;
    w.key = cuckoo_key_in(key_words, key, key_len);
    return cuckoo_del_stored(t, key_words, w);
}

struct cuckoo_variable_user {
    const struct snic_cuckoo *t;
    snic_cuckoo_update_var_fn fn;
    void *ctx;
};

static enum snic_cuckoo_verdict cuckoo_decide_variable(void *ctx, uint64_t *words, int resident)
{
    const struct cuckoo_variable_user *u = ctx;
    uint64_t item[SNIC_CUCKOO_ITEM_MAX / 8] = {0};
    enum snic_cuckoo_verdict verdict;
    uint32_t length = 0;

    if (resident)
        cuckoo_item_out(u->t, words, item, &length);
    verdict = u->fn(u->ctx, item, &length, resident);
    if (verdict == SNIC_CUCKOO_STORE) {
        SNIC_ASSERT(length <= u->t->item_size);
        if (u->t->item_words > 0)
            (void)cuckoo_item_in(words, item, length);
    }
    return verdict;
}

int snic_cuckoo_update_var(struct snic_cuckoo *t, const void *key, uint32_t key_len, void *ctx,
                           snic_cuckoo_update_var_fn fn)
{
    struct cuckoo_words w = cuckoo_words_of(t);
    struct cuckoo_variable_user user = {t, fn, ctx};
    uint64_t key_words[SNIC_CUCKOO__KEY_WORDS];

    if (!cuckoo_key_fits(t, key_len))
        return SNIC_EINVAL;
    w.key = cuckoo_key_in(key_words, key, key_len);
    return cuckoo_update_stored(t, key_words, w, &user, cuckoo_decide_variable, NULL);
}

int snic_cuckoo_next_var(const struct snic_cuckoo *t, uint64_t *cursor, void *key,
                         uint32_t *key_len, void *item, uint32_t *item_len)
{
    uint64_t words[SNIC_CUCKOO__KEY_WORDS + SNIC_CUCKOO__ITEM_WORDS];
    uint32_t length;

    SNIC_ASSERT(t->shape == CUCKOO_VARIABLE);
    if (cuckoo_next_stored(t, cursor, words) != 0)
        return SNIC_ENOENT;
    length = (uint32_t)words[0] & 0xff;
    if (key_len != NULL)
        *key_len = length;
    if (key != NULL)
        cuckoo_unpack(key, words, 1, length);
    cuckoo_item_out(t, words + t->key_words, item, item_len);
    return 0;
}
