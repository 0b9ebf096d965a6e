/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The cache table: options, layout, counters and the structural check. The algorithm and its
 * invariants are in cuckoo_priv.h, the readers in cuckoo_read.c, the writer in cuckoo_write.c.
 */
#include "cuckoo/cuckoo_priv.h"

/* Sizes derived from the options. */
struct cuckoo_layout {
    uint64_t buckets;
    uint64_t key_words;
    uint64_t item_words;
    uint64_t header_words; /* padded to whole cache lines */
    uint64_t age_words;
    uint64_t memory_bytes;
};

static const char *cuckoo_opts_wrong(const struct snic_cuckoo_opts *o)
{
    if (o->key_size < 1 || o->key_size > SNIC_CUCKOO_KEY_MAX)
        return "key_size: not 1..64";
    if (o->item_size > SNIC_CUCKOO_ITEM_MAX)
        return "item_size: not 0..256";
    if ((o->flags & ~SNIC_CUCKOO_EVICT) != 0)
        return "flags: unknown bits";
    if (o->capacity_slots < 1 || o->capacity_slots > SNIC_CUCKOO_CAPACITY_MAX)
        return "capacity_slots: not 1..2^33";
    return NULL;
}

static int cuckoo_layout_of(struct cuckoo_layout *l, struct snic_cuckoo_opts *o,
                            const struct snic_cuckoo_opts *from)
{
    uint64_t slot_bytes;

    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return SNIC_EINVAL;
    if (cuckoo_opts_wrong(o) != NULL)
        return SNIC_EINVAL;
    l->buckets = (o->capacity_slots + SNIC_CUCKOO_BUCKET_SLOTS - 1) / SNIC_CUCKOO_BUCKET_SLOTS;
    l->buckets = snic_max_u64(l->buckets, 2);
    l->key_words = ((uint64_t)o->key_size + 7) / 8;
    l->item_words = ((uint64_t)o->item_size + 7) / 8;
    l->header_words = snic_align_up(l->buckets, SNIC_CACHELINE / sizeof(uint64_t));
    /* At most 2^33 slots of 320 bytes: no overflow in 64 bits, but perhaps in size_t. */
    slot_bytes = (l->key_words + l->item_words) * 8 * SNIC_CUCKOO_BUCKET_SLOTS * l->buckets;
    l->age_words = (o->flags & SNIC_CUCKOO_EVICT) != 0 ? l->buckets : 0; /* 4 of 16 bits */
    l->memory_bytes =
        sizeof(struct snic_cuckoo) + (l->header_words + l->age_words) * 8 + slot_bytes;
    if (l->memory_bytes > SIZE_MAX)
        return SNIC_EINVAL;
    return 0;
}

const char *snic_cuckoo_opts_wrong(const struct snic_cuckoo_opts *from)
{
    struct cuckoo_layout l;
    struct snic_cuckoo_opts o;

    memset(&o, 0, sizeof(o));
    if (snic_opts_copy(&o, sizeof(o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (cuckoo_opts_wrong(&o) != NULL)
        return cuckoo_opts_wrong(&o);
    return cuckoo_layout_of(&l, &o, from) != 0 ? "capacity_slots: more than memory can be" : NULL;
}

size_t snic_cuckoo_memsize(const struct snic_cuckoo_opts *o)
{
    struct cuckoo_layout l;
    struct snic_cuckoo_opts copy;

    return cuckoo_layout_of(&l, &copy, o) == 0 ? (size_t)l.memory_bytes : 0;
}

static enum cuckoo_shape cuckoo_shape_of(const struct snic_cuckoo_opts *o)
{
    if (o->flags & SNIC_CUCKOO_EVICT)
        return CUCKOO_ANY;
    if (o->key_size == 8 && o->item_size == 8)
        return CUCKOO_8_8;
    if (o->key_size == 8 && o->item_size == 16)
        return CUCKOO_8_16;
    if (o->key_size == 16 && o->item_size == 8)
        return CUCKOO_16_8;
    if (o->key_size == 16 && o->item_size == 16)
        return CUCKOO_16_16;
    return CUCKOO_ANY;
}

int snic_cuckoo_init(struct snic_cuckoo **out, void *mem, size_t mem_size,
                     const struct snic_cuckoo_opts *o)
{
    struct snic_cuckoo *t = mem;
    struct snic_cuckoo_opts copy;
    struct cuckoo_layout l;
    struct snic_rng rng;

    SNIC_STATIC_ASSERT(sizeof(struct snic_cuckoo) % SNIC_CACHELINE == 0, "headers start a line");
    if (cuckoo_layout_of(&l, &copy, o) != 0 || (uintptr_t)mem % SNIC_CUCKOO_ALIGN != 0)
        return SNIC_EINVAL;
    if (mem_size < l.memory_bytes)
        return SNIC_ENOSPC;
    memset(mem, 0, (size_t)l.memory_bytes);
    t->seed = copy.seed;
    t->slots_offset = l.header_words;
    t->memory_bytes = l.memory_bytes;
    t->buckets = (uint32_t)l.buckets;
    t->key_size = copy.key_size;
    t->item_size = copy.item_size;
    t->key_words = (uint32_t)l.key_words;
    t->item_words = (uint32_t)l.item_words;
    t->slot_words = (uint32_t)(l.key_words + l.item_words);
    t->shape = cuckoo_shape_of(&copy);
    if (l.age_words > 0)
        t->ages_offset = l.memory_bytes / 8 - sizeof(*t) / 8 - l.age_words;
    t->tick_inserts = snic_max_u64(1, l.buckets * SNIC_CUCKOO_BUCKET_SLOTS / 64);
    snic_rng_init(&rng, copy.seed);
    for (uint32_t i = 0; i < SNIC_COUNTOF(t->sums); i++)
        t->sums[i] = (uint32_t)snic_rng_below(&rng, l.buckets);
    *out = t;
    return 0;
}

void *snic_cuckoo_fini(struct snic_cuckoo *t)
{
    SNIC_ASSERT(t->in_callback == 0);
    return t;
}

/* Counters are for looking at: no order with the entries is promised. */
static uint64_t cuckoo_read_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)counter, memory_order_relaxed);
}

uint64_t snic_cuckoo_count(const struct snic_cuckoo *t)
{
    /* Elsewhere than on the writer's thread the two may be of different moments. */
    uint64_t deletes = cuckoo_read_counter(&t->counters.deletes);
    uint64_t inserts = cuckoo_read_counter(&t->counters.inserts);

    return inserts > deletes ? inserts - deletes : 0;
}

void snic_cuckoo_get_stats(const struct snic_cuckoo *t, struct snic_cuckoo_stats *out)
{
    out->capacity_slots = (uint64_t)t->buckets * SNIC_CUCKOO_BUCKET_SLOTS;
    out->memory_bytes = t->memory_bytes;
    out->count = snic_cuckoo_count(t);
    out->inserts = cuckoo_read_counter(&t->counters.inserts);
    out->replaces = cuckoo_read_counter(&t->counters.replaces);
    out->deletes = cuckoo_read_counter(&t->counters.deletes);
    out->refused = cuckoo_read_counter(&t->counters.refused);
    out->displacements = cuckoo_read_counter(&t->counters.displacements);
    out->searched = cuckoo_read_counter(&t->counters.searched);
    out->evictions = cuckoo_read_counter(&t->counters.evictions);
    out->paths[0] = out->inserts;
    for (uint32_t i = 1; i <= SNIC_CUCKOO_PATH_MAX; i++) {
        out->paths[i] = cuckoo_read_counter(&t->counters.paths[i]);
        out->paths[0] -= snic_min_u64(out->paths[i], out->paths[0]);
    }
}

/* Are the bytes from `used` to the end of their last word zero? */
static int cuckoo_check_padding(const uint64_t *words, uint32_t used)
{
    if (used % 8 == 0 || words[used / 8] >> used % 8 * 8 == 0)
        return 0;
    return SNIC_ECORRUPT;
}

/* Is the entry at home, under its tag, and alone? Its key and item padding are zero? */
static int cuckoo_check_slot(const struct snic_cuckoo *t, uint32_t bucket, uint32_t slot)
{
    const struct cuckoo_words w = cuckoo_words_of(t);
    uint64_t words[SNIC_CUCKOO__KEY_WORDS + SNIC_CUCKOO__ITEM_WORDS] = {0};
    uint32_t tag = cuckoo_tag(cuckoo_load(cuckoo_header(t, bucket)), slot);
    struct cuckoo_spot s;
    uint32_t same = 0;

    cuckoo_copy_out(words, cuckoo_slot(t, bucket, slot, w.slot), w.slot);
    if (cuckoo_check_padding(words, t->key_size) != 0 ||
        cuckoo_check_padding(words + w.at, t->item_size) != 0)
        return SNIC_ECORRUPT;
    s = cuckoo_spot_of(t, words, w);
    if (s.tag != tag || (s.bucket[0] != bucket && s.bucket[1] != bucket))
        return SNIC_ECORRUPT;
    for (uint32_t side = 0; side < (s.bucket[0] == s.bucket[1] ? 1u : 2u); side++) {
        uint64_t h = cuckoo_load(cuckoo_header(t, s.bucket[side]));

        for (uint32_t i = 0; i < SNIC_CUCKOO_BUCKET_SLOTS; i++) {
            if (cuckoo_tag(h, i) != 0 &&
                cuckoo_key_equal(cuckoo_slot(t, s.bucket[side], i, w.slot), words, w.key))
                same++;
        }
    }
    return same == 1 ? 0 : SNIC_ECORRUPT; /* I1 */
}

int snic_cuckoo_check(const struct snic_cuckoo *t)
{
    struct snic_cuckoo_stats s;
    uint64_t entries = 0;
    uint64_t paths = 0;
    uint64_t moves = 0;

    for (uint32_t b = 0; b < t->buckets; b++) {
        uint64_t h = cuckoo_load(cuckoo_header(t, b));

        if (h & SNIC_CUCKOO__SEQ_ODD)
            return SNIC_ECORRUPT;
        for (uint32_t i = 0; i < SNIC_CUCKOO_BUCKET_SLOTS; i++) {
            if (cuckoo_tag(h, i) == 0)
                continue;
            entries++;
            if (cuckoo_check_slot(t, b, i) != 0)
                return SNIC_ECORRUPT;
        }
    }
    snic_cuckoo_get_stats(t, &s);
    for (uint32_t i = 0; i <= SNIC_CUCKOO_PATH_MAX; i++) {
        paths += s.paths[i];
        moves += s.paths[i] * i;
    }
    if (entries != s.count || s.count != s.inserts - s.deletes)
        return SNIC_ECORRUPT;
    if (paths != s.inserts || moves != s.displacements)
        return SNIC_ECORRUPT;
    return 0;
}
