/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The cache table: layout, atomics, hashing and the reader's probe.
 *
 * Memory, in this order:  struct snic_cuckoo | headers[buckets] | slots[buckets * 4] |
 *                         ages[buckets * 4], with SNIC_CUCKOO_EVICT
 *
 * A header is one 64-bit word: four 8-bit tags (0: the slot is empty) and a 32-bit
 * sequence. Headers lie together, 2 bytes per slot, so that lookups of absent keys and path
 * searches stay in a small array. A slot is key words, then item words, zero padded.
 *
 * A key's bucket 1 and tag come from disjoint bits of its hash. Its other bucket is
 * sums[tag] - bucket (mod buckets), with a random sum per tag: an involution for every number of
 * buckets, known from the header alone, so a displacement search never reads a key.
 *
 * Invariants
 *  I1  A key is in at most one slot, except that a displacement publishes the new copy before it
 *      clears the old one; both hold the same item then, and nothing updates it meanwhile.
 *  I2  Every header store raises the sequence and is a release; each pairs with the acquire loads
 *      of that header in cuckoo_read.c. So a reader that sees a tag sees the slot filled, and one
 *      that sees a slot emptied by a displacement sees the copy.
 *  I3  A slot's words change only (a) while its tag is 0, or (b) item words only, while the
 *      sequence is odd and scratch[] holds that key with its new item. A release fence precedes
 *      the change; it pairs with the acquire fence between a reader's copy and its second look at
 *      the header: a reader that copied a changed word finds the header changed.
 *  I4  scratch[] changes only while no sequence is odd; a release fence precedes that too. A
 *      reader that finds an odd sequence takes the item from scratch[] if the key there is its
 *      own, and the slots' otherwise: no reader waits for the writer.
 *  I5  Header, slot and scratch words are written by the writer only, and are atomic words in
 *      every build.
 *  I6  Ages are hints: readers and the writer store the clock's value, relaxed. A reader whose
 *      entry was displaced meanwhile marks another one as used, which costs nothing but that.
 */
#ifndef SNIC_CUCKOO_PRIV_H
#define SNIC_CUCKOO_PRIV_H

#include "snicstore/cuckoo.h"
#include "base/simd.h"
#include "base/xxh.h"

#include <stdatomic.h>

#define SNIC_CUCKOO__INLINE static inline __attribute__((always_inline, unused))
#define SNIC_CUCKOO__KEY_WORDS (SNIC_CUCKOO_KEY_MAX / 8)
#define SNIC_CUCKOO__ITEM_WORDS (SNIC_CUCKOO_ITEM_MAX / 8)
#define SNIC_CUCKOO__SEQ_ODD ((uint64_t)1 << 32)
#define SNIC_CUCKOO__SEQ_STEP ((uint64_t)2 << 32)
/* Buckets a path search may expand: both roots and four children each, to depth 4. */
#define SNIC_CUCKOO__NODES (2 * (1 + 4 + 16 + 64 + 256))

SNIC_STATIC_ASSERT(SNIC_CUCKOO_BUCKET_SLOTS == 4, "four 8-bit tags share a word with the sequence");
SNIC_STATIC_ASSERT(SNIC_CUCKOO_PATH_MAX == 5, "the node count above is for 5 moves");

/* One bucket of a path search: reached by moving slot `slot` of node `parent`. */
struct cuckoo_node {
    uint32_t bucket;
    uint16_t parent; /* index of a node; its own index at a root */
    uint8_t slot;
    uint8_t depth;
};

/*
 * Written by the writer with relaxed stores, read by any thread. The number of entries and of
 * inserts without a displacement follow from these, so that an insert changes one counter only.
 */
struct cuckoo_counters {
    _Atomic uint64_t inserts;
    _Atomic uint64_t replaces;
    _Atomic uint64_t deletes;
    _Atomic uint64_t refused;
    _Atomic uint64_t displacements;
    _Atomic uint64_t searched;
    _Atomic uint64_t evictions;
    _Atomic uint64_t paths[SNIC_CUCKOO_PATH_MAX + 1]; /* [0] is not used */
};

struct snic_cuckoo {
    /* Constant after init. */
    uint64_t seed;
    uint64_t slots_offset; /* from the start of the headers, in words */
    uint64_t ages_offset;  /* likewise; 0: there are none */
    uint64_t tick_inserts; /* so many inserts are one step of the clock */
    uint64_t memory_bytes;
    uint32_t buckets;
    uint32_t key_size;
    uint32_t item_size;
    uint32_t key_words;
    uint32_t item_words;
    uint32_t slot_words;
    uint32_t shape; /* enum cuckoo_shape */
    uint32_t sums[256];
    /* Written by the writer, read by any thread. */
    _Alignas(SNIC_CACHELINE) struct cuckoo_counters counters;
    _Alignas(SNIC_CACHELINE) _Atomic uint32_t clock; /* of ages: the lower 16 bits */
    _Alignas(
        SNIC_CACHELINE) _Atomic uint64_t scratch[SNIC_CUCKOO__KEY_WORDS + SNIC_CUCKOO__ITEM_WORDS];
    /* Writer only. */
    _Alignas(SNIC_CACHELINE) uint32_t in_callback;
    struct cuckoo_node nodes[SNIC_CUCKOO__NODES];
};

/* Key and item sizes with code of their own. */
enum cuckoo_shape { CUCKOO_ANY, CUCKOO_8_8, CUCKOO_8_16, CUCKOO_16_8, CUCKOO_16_16 };

/* Word counts, constant where a shape is. */
struct cuckoo_words {
    uint32_t key;
    uint32_t item; /* copied */
    uint32_t at;   /* from a slot's start to its item */
    uint32_t slot;
    int exact; /* key and item fill their words */
};

SNIC_CUCKOO__INLINE struct cuckoo_words cuckoo_words_of(const struct snic_cuckoo *t)
{
    struct cuckoo_words w = {t->key_words, t->item_words, t->key_words, t->slot_words, 0};

    return w;
}

/*
 * Run `call(words)` with constants where the table has a shape of its own. `call` is an expression
 * in which the struct cuckoo_words W is visible.
 */
#define SNIC_CUCKOO__SHAPED(t, call)                                                               \
    switch ((t)->shape) {                                                                          \
    case CUCKOO_8_8: {                                                                             \
        const struct cuckoo_words W = {1, 1, 1, 2, 1};                                             \
        call;                                                                                      \
        break;                                                                                     \
    }                                                                                              \
    case CUCKOO_8_16: {                                                                            \
        const struct cuckoo_words W = {1, 2, 1, 3, 1};                                             \
        call;                                                                                      \
        break;                                                                                     \
    }                                                                                              \
    case CUCKOO_16_8: {                                                                            \
        const struct cuckoo_words W = {2, 1, 2, 3, 1};                                             \
        call;                                                                                      \
        break;                                                                                     \
    }                                                                                              \
    case CUCKOO_16_16: {                                                                           \
        const struct cuckoo_words W = {2, 2, 2, 4, 1};                                             \
        call;                                                                                      \
        break;                                                                                     \
    }                                                                                              \
    default: {                                                                                     \
        const struct cuckoo_words W = cuckoo_words_of(t);                                          \
        SNIC_DASSERT((t)->shape == CUCKOO_ANY);                                                    \
        call;                                                                                      \
        break;                                                                                     \
    }                                                                                              \
    }

/* ---- Shared words. The model test supplies its own (SNIC_CUCKOO__HOOKS). ---- */

#ifndef SNIC_CUCKOO__HOOKS
SNIC_CUCKOO__INLINE uint64_t cuckoo_load(_Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}
/* Pairs with cuckoo_store_release(). */
SNIC_CUCKOO__INLINE uint64_t cuckoo_load_acquire(_Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}
SNIC_CUCKOO__INLINE void cuckoo_store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}
/* Pairs with cuckoo_load_acquire(). */
SNIC_CUCKOO__INLINE void cuckoo_store_release(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}
/*
 * GCC warns that its thread sanitizer does not model fences. It need not: what the fences order is
 * atomic words only, so there is no report to suppress, and the instruction is emitted.
 */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#define SNIC_CUCKOO__POP
#endif
/* Pairs with cuckoo_fence_release(). */
SNIC_CUCKOO__INLINE void cuckoo_fence_acquire(void)
{
    atomic_thread_fence(memory_order_acquire);
}
/* Pairs with cuckoo_fence_acquire(). */
SNIC_CUCKOO__INLINE void cuckoo_fence_release(void)
{
    atomic_thread_fence(memory_order_release);
}
#if defined(SNIC_CUCKOO__POP)
#pragma GCC diagnostic pop
#undef SNIC_CUCKOO__POP
#endif
#endif /* SNIC_CUCKOO__HOOKS */

/* ---- Places ---- */

SNIC_CUCKOO__INLINE _Atomic uint64_t *cuckoo_header(const struct snic_cuckoo *t, uint32_t bucket)
{
    return (_Atomic uint64_t *)(void *)(uintptr_t)(t + 1) + bucket;
}

/* Word 0 of slot `slot` (0..3) of a bucket. */
SNIC_CUCKOO__INLINE _Atomic uint64_t *cuckoo_slot(const struct snic_cuckoo *t, uint32_t bucket,
                                                  uint32_t slot, uint32_t slot_words)
{
    return cuckoo_header(t, 0) + t->slots_offset +
           ((uint64_t)bucket * SNIC_CUCKOO_BUCKET_SLOTS + slot) * slot_words;
}

/* ---- Ages (I6) ---- */

SNIC_CUCKOO__INLINE _Atomic uint16_t *cuckoo_age(const struct snic_cuckoo *t, uint32_t bucket,
                                                 uint32_t slot)
{
    return (_Atomic uint16_t *)(uintptr_t)(cuckoo_header(t, 0) + t->ages_offset) +
           ((uint64_t)bucket * SNIC_CUCKOO_BUCKET_SLOTS + slot);
}

/* The entry is used now. Any thread. */
SNIC_CUCKOO__INLINE void cuckoo_used(const struct snic_cuckoo *t, uint32_t bucket, uint32_t slot)
{
    if (t->ages_offset != 0) {
        _Atomic uint32_t *clock = (_Atomic uint32_t *)(uintptr_t)&t->clock;
        uint16_t now = (uint16_t)atomic_load_explicit(clock, memory_order_relaxed);
        _Atomic uint16_t *age = cuckoo_age(t, bucket, slot);

        if (atomic_load_explicit(age, memory_order_relaxed) != now)
            atomic_store_explicit(age, now, memory_order_relaxed);
    }
}

/* ---- Hash: bucket 1 from the upper half, the tag from the lowest byte ---- */

struct cuckoo_spot {
    uint32_t bucket[2];
    uint32_t tag; /* 1..255 */
};

SNIC_CUCKOO__INLINE uint32_t cuckoo_other(const struct snic_cuckoo *t, uint32_t bucket,
                                          uint32_t tag)
{
    uint32_t sum = t->sums[tag];

    return sum - bucket + (sum < bucket ? t->buckets : 0);
}

SNIC_CUCKOO__INLINE struct cuckoo_spot cuckoo_spot_of(const struct snic_cuckoo *t,
                                                      const uint64_t *key, struct cuckoo_words w)
{
    /* Whole words, zero padded: all keys have the same length. */
    uint64_t hash = XXH3_64bits_withSeed(key, w.key * sizeof(*key), t->seed);
    struct cuckoo_spot s;

    s.tag = (uint32_t)hash & 0xff;
    s.tag += s.tag == 0;
    s.bucket[0] = (uint32_t)((hash >> 32) * t->buckets >> 32);
    s.bucket[1] = cuckoo_other(t, s.bucket[0], s.tag);
    return s;
}

/* The bucket of side 0 or 1, without a branch or memory: which one is a coin toss. */
SNIC_CUCKOO__INLINE uint32_t cuckoo_bucket_of(const struct cuckoo_spot *s, uint32_t side)
{
    return s->bucket[0] ^ ((s->bucket[0] ^ s->bucket[1]) & (0 - side));
}

/* ---- Bytes and words. Byte j of a key or an item is bits 8 * (j % 8) of word j / 8. ----
 *
 * All of it through registers: a word read back from two smaller or a larger store has to wait
 * until those are in the cache, behind every store before them.
 */

SNIC_CUCKOO__INLINE uint64_t cuckoo_load_bytes(const unsigned char *from, uint32_t count)
{
    if (count == 8)
        return snic_get_le64(from);
    if (count >= 4)
        return snic_get_le32(from) | (uint64_t)snic_get_le32(from + count - 4) << (count - 4) * 8;
    if (count >= 2)
        return snic_get_le16(from) | (uint64_t)from[count - 1] << (count - 1) * 8;
    return count == 1 ? *from : 0;
}

SNIC_CUCKOO__INLINE void cuckoo_store_bytes(unsigned char *to, uint64_t word, uint32_t count)
{
    if (count == 8) {
        snic_put_le64(to, word);
    } else if (count >= 4) {
        snic_put_le32(to, (uint32_t)word);
        snic_put_le32(to + count - 4, (uint32_t)(word >> (count - 4) * 8));
    } else if (count >= 2) {
        snic_put_le16(to, (uint16_t)word);
        to[count - 1] = (unsigned char)(word >> (count - 1) * 8);
    } else if (count == 1) {
        *to = (unsigned char)word;
    }
}

/* Copy a key or an item into words, the last one zero padded. */
SNIC_CUCKOO__INLINE void cuckoo_to_words(uint64_t *words, uint32_t count, const void *bytes,
                                         uint32_t size, int exact)
{
    const unsigned char *from = bytes;

    for (uint32_t i = 0; i < count; i++)
        words[i] =
            cuckoo_load_bytes(from + (size_t)i * 8, exact || size - i * 8 >= 8 ? 8 : size - i * 8);
}

SNIC_CUCKOO__INLINE void cuckoo_from_words(void *bytes, const uint64_t *words, uint32_t count,
                                           uint32_t size, int exact)
{
    unsigned char *to = bytes;

    for (uint32_t i = 0; i < count; i++)
        cuckoo_store_bytes(to + (size_t)i * 8, words[i],
                           exact || size - i * 8 >= 8 ? 8 : size - i * 8);
}

/* ---- Tags. Sets of slots are bit masks: bits 0..3 the first bucket's, 4..7 the second's. ---- */

/* The tag is not 0, so the lanes above the two headers' cannot match. */
SNIC_CUCKOO__INLINE uint32_t cuckoo_match(uint64_t header1, uint64_t header2, uint32_t tag)
{
    uint64_t tags = (uint32_t)header1 | (header2 << 32);

    return simd_match_u8x16_w(tags, 0, (uint8_t)tag);
}

/* Empty slots of one bucket. */
SNIC_CUCKOO__INLINE uint32_t cuckoo_empty(uint64_t header)
{
    return simd_match_u8x16_w(header, 0, 0) & 0xf;
}

/* Empty slots of both. */
SNIC_CUCKOO__INLINE uint32_t cuckoo_empty_of(uint64_t header1, uint64_t header2)
{
    uint64_t tags = (uint32_t)header1 | (header2 << 32);

    return simd_match_u8x16_w(tags, 0, 0) & 0xff;
}

/* Slots in a set of one bucket: baseline x86-64 has no instruction for it. */
SNIC_CUCKOO__INLINE uint32_t cuckoo_count4(uint32_t set)
{
    return (uint32_t)(UINT64_C(0x4332322132212110) >> set * 4) & 7;
}

/* Which side has more empty slots; the first of equals. */
SNIC_CUCKOO__INLINE uint32_t cuckoo_emptier(uint32_t empty)
{
    return cuckoo_count4(empty >> 4) > cuckoo_count4(empty & 0xf);
}

SNIC_CUCKOO__INLINE uint32_t cuckoo_tag(uint64_t header, uint32_t slot)
{
    return (uint32_t)(header >> (slot * 8)) & 0xff;
}

SNIC_CUCKOO__INLINE uint64_t cuckoo_with_tag(uint64_t header, uint32_t slot, uint32_t tag)
{
    return (header & ~((uint64_t)0xff << (slot * 8))) | ((uint64_t)tag << (slot * 8));
}

/* ---- Slot contents ---- */

SNIC_CUCKOO__INLINE int cuckoo_key_equal(_Atomic uint64_t *from, const uint64_t *key,
                                         uint32_t key_words)
{
    for (uint32_t i = 0; i < key_words; i++) {
        if (cuckoo_load(from + i) != key[i])
            return 0;
    }
    return 1;
}

SNIC_CUCKOO__INLINE void cuckoo_copy_out(uint64_t *to, _Atomic uint64_t *from, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++)
        to[i] = cuckoo_load(from + i);
}

SNIC_CUCKOO__INLINE void cuckoo_copy_in(_Atomic uint64_t *to, const uint64_t *from, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++)
        cuckoo_store(to + i, from[i]);
}

#endif /* SNIC_CUCKOO_PRIV_H */
