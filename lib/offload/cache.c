/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The versioned cache: a cuckoo table whose items begin with two words of ours: the version shifted
 * left by one, with a 1 below it for a tombstone; and the generation, 32 bits.
 *
 * Where the table is full, entries are evicted: tombstones first, the one of the lowest version,
 * then the item that was not used for longest; a tombstone evicts tombstones only. What an evicted
 * entry knew is kept by the floor of its key's hash partition: floors[]. There are twice as many as
 * the table has slots, so one key's floor seldom stands in another's way, and never for good:
 * entries that are resident, and items of an authority, are not bound by it, newer versions pass
 * it.
 *
 * I1  The version stored for a key never falls while its entry stays in the table.
 * I2  A key whose last invalidation was at v is in the table with a version >= v, or its
 * partition's floor or the global one is >= v, or forget() took it out. I3  No floor falls. I4  An
 * entry counts only if its generation is the present one: invalidate_all() begins the next and
 * raises the global floor, so it takes the same time whatever the table holds. The entries of older
 * generations are overwritten first. So put() may store an item exactly if its version is not below
 * the global floor, and not below the entry's (I1), or where there is no entry, the partition's
 * floor.
 *
 * The loop's thread writes; snic_offload_get() reads the table from any thread.
 */
#include "offload/offload_priv.h"
#include "base/xxh.h"

#define SNIC_OFFLOAD__SEED                                                                         \
    UINT64_C(0x5851f42d4c957f2d) /* partitions are not the table's buckets                         \
                                  */

enum offload_cache_kind { OFFLOAD_CACHE_NONE = 0, OFFLOAD_CACHE_ITEM, OFFLOAD_CACHE_TOMBSTONE };

/* The input of an update's decision, and its result. */
struct offload_cache_op {
    struct snic_offload *o;
    const void *item; /* put */
    uint64_t version;
    uint64_t floor; /* put: of the key's partition; 0: not bound */
    int result;     /* put: 1 stored */
    enum offload_cache_kind was;
    enum offload_cache_kind is; /* afterwards, if it is carried out */
};

/* The two words in front of an item. */
struct offload_cache_head {
    uint64_t version;
    enum offload_cache_kind kind;
};

static uint32_t offload_cache_generation(const struct snic_offload *o)
{
    /* Acquire pairs with the release of invalidate_all(). */
    return atomic_load_explicit((_Atomic uint32_t *)(uintptr_t)&o->generation,
                                memory_order_acquire);
}

/* @item as the table has it; any thread. */
static struct offload_cache_head offload_cache_head_of(const struct snic_offload *o,
                                                       const void *item, int resident)
{
    struct offload_cache_head h;
    uint64_t word;
    uint32_t generation;

    memcpy(&word, item, sizeof(word));
    memcpy(&generation, (const unsigned char *)item + sizeof(word), sizeof(generation));
    h.version = word >> 1;
    h.kind = !resident || generation != offload_cache_generation(o) ? OFFLOAD_CACHE_NONE /* I4 */
             : (word & 1) != 0                                      ? OFFLOAD_CACHE_TOMBSTONE
                                                                    : OFFLOAD_CACHE_ITEM;
    return h;
}

static void offload_cache_head_put(const struct snic_offload *o, void *item, uint64_t version,
                                   int tombstone)
{
    uint64_t word = version << 1 | (uint64_t)(tombstone != 0);
    uint32_t generation = offload_cache_generation(o);

    memcpy(item, &word, sizeof(word));
    memcpy((unsigned char *)item + sizeof(word), &generation, sizeof(generation));
}

static uint64_t *offload_cache_floor(const struct snic_offload *o, const void *key)
{
    uint64_t hash =
        XXH3_64bits_withSeed(key, o->opts.key_size, o->opts.cache_seed ^ SNIC_OFFLOAD__SEED);

    return &o->floors[hash & (o->floors_count - 1)];
}

/* I2, I3 */
static void offload_cache_raise(struct snic_offload *o, uint64_t *floor, uint64_t version)
{
    o->stats.floors_raised += *floor < version;
    *floor = snic_max_u64(*floor, version);
}

static enum snic_cuckoo_verdict offload_cache_on_put(void *ctx, void *item, int resident)
{
    struct offload_cache_op *op = ctx;
    struct offload_cache_head h = offload_cache_head_of(op->o, item, resident);

    op->was = op->is = h.kind;
    if (h.kind == OFFLOAD_CACHE_NONE ? op->version < op->floor : op->version < h.version)
        return SNIC_CUCKOO_KEEP; /* I1, I2 */
    offload_cache_head_put(op->o, item, op->version, 0);
    if (op->o->opts.item_size > 0)
        memcpy((unsigned char *)item + SNIC_OFFLOAD__WORD, op->item, op->o->opts.item_size);
    op->result = 1;
    op->is = OFFLOAD_CACHE_ITEM;
    return SNIC_CUCKOO_STORE;
}

static enum snic_cuckoo_verdict offload_cache_on_invalidate(void *ctx, void *item, int resident)
{
    struct offload_cache_op *op = ctx;
    struct offload_cache_head h = offload_cache_head_of(op->o, item, resident);

    op->was = op->is = h.kind;
    if (h.kind != OFFLOAD_CACHE_NONE && op->version <= h.version)
        return SNIC_CUCKOO_KEEP;
    memset(item, 0, SNIC_OFFLOAD__WORD + (size_t)op->o->opts.item_size);
    offload_cache_head_put(op->o, item, op->version, 1);
    op->is = OFFLOAD_CACHE_TOMBSTONE;
    return SNIC_CUCKOO_STORE;
}

static enum snic_cuckoo_verdict offload_cache_on_forget(void *ctx, void *item, int resident)
{
    struct offload_cache_op *op = ctx;
    struct offload_cache_head h = offload_cache_head_of(op->o, item, resident);

    op->was = op->is = h.kind;
    if (h.kind == OFFLOAD_CACHE_NONE || h.version > op->version)
        return SNIC_CUCKOO_KEEP;
    op->is = OFFLOAD_CACHE_NONE;
    return SNIC_CUCKOO_REMOVE;
}

/* What is of no use goes first, then the tombstone of the lowest version, then the oldest item. */
static int64_t offload_cache_rank_any(void *ctx, const void *key, const void *item, uint32_t age)
{
    const struct offload_cache_op *op = ctx;
    struct offload_cache_head h = offload_cache_head_of(op->o, item, 1);

    (void)key;
    if (h.kind == OFFLOAD_CACHE_NONE)
        return INT64_MAX;
    return h.kind == OFFLOAD_CACHE_TOMBSTONE ? INT64_MAX - (int64_t)(h.version >> 1) : age;
}

static int64_t offload_cache_rank_tombstones(void *ctx, const void *key, const void *item,
                                             uint32_t age)
{
    const struct offload_cache_op *op = ctx;

    enum offload_cache_kind kind = offload_cache_head_of(op->o, item, 1).kind;

    /* No entry is evicted for a tombstone that the floor already covers. */
    if (kind == OFFLOAD_CACHE_ITEM || (kind == OFFLOAD_CACHE_TOMBSTONE && op->version <= op->floor))
        return -1;
    return offload_cache_rank_any(ctx, key, item, age);
}

static void offload_cache_dropped(void *ctx, const void *key, const void *item)
{
    struct snic_offload *o = ((struct offload_cache_op *)ctx)->o;
    struct offload_cache_head h = offload_cache_head_of(o, item, 1);
    uint64_t *floor = offload_cache_floor(o, key);

    if (h.kind == OFFLOAD_CACHE_NONE)
        return;
    offload_cache_raise(o, floor, h.version);
    o->stats.items -= h.kind == OFFLOAD_CACHE_ITEM;
    o->stats.tombstones -= h.kind == OFFLOAD_CACHE_TOMBSTONE;
    o->stats.evicted += h.kind == OFFLOAD_CACHE_ITEM;
}

static int offload_cache_apply(struct snic_offload *o, const void *key, snic_cuckoo_update_fn fn,
                               struct offload_cache_op *op)
{
    static const struct snic_cuckoo_evict any = {offload_cache_rank_any, offload_cache_dropped};
    static const struct snic_cuckoo_evict tombstones = {offload_cache_rank_tombstones,
                                                        offload_cache_dropped};

    op->o = o;
    op->result = 0;
    op->was = op->is = OFFLOAD_CACHE_NONE;
    SNIC_DASSERT(!o->in_user); /* func() and reply() only read */
    int r = snic_cuckoo_update_evict(o->table, key, op, fn,
                                     fn == offload_cache_on_invalidate ? &tombstones : &any);
    if (r != 0)
        return r;
    o->stats.items += (uint64_t)(op->is == OFFLOAD_CACHE_ITEM);
    o->stats.items -= (uint64_t)(op->was == OFFLOAD_CACHE_ITEM);
    o->stats.tombstones += (uint64_t)(op->is == OFFLOAD_CACHE_TOMBSTONE);
    o->stats.tombstones -= (uint64_t)(op->was == OFFLOAD_CACHE_TOMBSTONE);
    return 0;
}

static int offload_cache_store(struct snic_offload *o, const void *key, const void *item,
                               uint64_t version, uint64_t floor)
{
    struct offload_cache_op op = {.item = item, .version = version, .floor = floor};
    if (version > SNIC_OFFLOAD_VERSION_MAX)
        return SNIC_ERANGE;
    int r = offload_cache_apply(o, key, offload_cache_on_put, &op);
    SNIC_ASSERT(r == 0); /* an item always finds something to evict */
    if (op.result)
        o->stats.puts++;
    else
        o->stats.puts_refused++;
    return op.result;
}

int snic_offload_put(struct snic_offload *o, const void *key, const void *item, uint64_t version)
{
    if (version < o->stats.floor) {
        o->stats.puts_refused++;
        return 0;
    }
    return offload_cache_store(o, key, item, version, *offload_cache_floor(o, key));
}

int snic_offload_cache(struct snic_offload *o, const void *key, const void *item, uint64_t version)
{
    return offload_cache_store(o, key, item, version, 0);
}

void snic_offload_invalidate(struct snic_offload *o, const void *key, uint64_t version)
{
    uint64_t *floor = offload_cache_floor(o, key);
    struct offload_cache_op op = {.version = snic_min_u64(version, SNIC_OFFLOAD_VERSION_MAX),
                                  .floor = snic_max_u64(*floor, o->stats.floor)};
    o->stats.invalidations++;
    if (offload_cache_apply(o, key, offload_cache_on_invalidate, &op) != 0)
        offload_cache_raise(o, floor, op.version);
}

void snic_offload_invalidate_all(struct snic_offload *o, uint64_t version)
{
    uint32_t next = offload_cache_generation(o) + 1;

    SNIC_DASSERT(!o->in_user);
    o->stats.invalidations++;
    o->stats.floor =
        snic_max_u64(o->stats.floor, snic_min_u64(version, SNIC_OFFLOAD_VERSION_MAX)); /* I3 */
    if (o->stats.items == 0 && o->stats.tombstones == 0)
        return;
    o->stats.items = 0;
    o->stats.tombstones = 0;
    if (next == 0) { /* generations begin again: once in 2^32 times, it takes long */
        snic_cuckoo_clear(o->table);
        next = 1;
    }
    atomic_store_explicit(&o->generation, next, memory_order_release); /* I4 */
}

void snic_offload_forget(struct snic_offload *o, const void *key, uint64_t version)
{
    struct offload_cache_op op = {.version = version};
    (void)offload_cache_apply(o, key, offload_cache_on_forget, &op);
}

int snic_offload_get(const struct snic_offload *o, const void *key, void *item, uint64_t *version)
{
    unsigned char buf[SNIC_OFFLOAD__WORD + SNIC_OFFLOAD_ITEM_MAX];
    if (snic_cuckoo_get(o->table, key, buf) != 0)
        return SNIC_ENOENT;
    struct offload_cache_head h = offload_cache_head_of(o, buf, 1);
    if (h.kind != OFFLOAD_CACHE_ITEM)
        return SNIC_ENOENT;
    if (version != NULL)
        *version = h.version;
    if (item != NULL && o->opts.item_size > 0)
        memcpy(item, buf + SNIC_OFFLOAD__WORD, o->opts.item_size);
    return 0;
}

uint32_t snic_offload_key_size(const struct snic_offload *o)
{
    return o->opts.key_size;
}

uint32_t snic_offload_item_size(const struct snic_offload *o)
{
    return o->opts.item_size;
}

/* Place (@place) or measure the table; 0 when the options make no sense. */
int offload_cache_layout(struct snic_offload *o, struct snic_arena *a,
                         const struct snic_offload_opts *opts, int place)
{
    struct snic_cuckoo_opts co = {.opts_size = sizeof(co),
                                  .key_size = opts->key_size,
                                  .item_size = opts->item_size + SNIC_OFFLOAD__WORD,
                                  .flags = SNIC_CUCKOO_EVICT,
                                  .capacity_slots =
                                      opts->cache_capacity + opts->cache_capacity / 16,
                                  .seed = opts->cache_seed};
    size_t size = snic_cuckoo_memsize(&co);
    uint64_t count = 1;
    if (size == 0)
        return 0;
    while (count < 2 * opts->cache_capacity)
        count *= 2;
    void *mem = snic_arena_take(a, 1, size, SNIC_CUCKOO_ALIGN);
    uint64_t *floors = snic_arena_take(a, count, sizeof(*floors), SNIC_CACHELINE);
    if (!place || mem == NULL || floors == NULL)
        return 1;
    if (snic_cuckoo_init(&o->table, mem, size, &co) != 0)
        return 0;
    memset(floors, 0, count * sizeof(*floors));
    o->floors = floors;
    o->floors_count = count;
    o->generation = 1;
    return 1;
}

int offload_cache_check(const struct snic_offload *o)
{
    unsigned char buf[SNIC_OFFLOAD__WORD + SNIC_OFFLOAD_ITEM_MAX];
    uint64_t cursor = 0;
    uint64_t items = 0;
    uint64_t tombstones = 0;
    while (snic_cuckoo_next(o->table, &cursor, NULL, buf) == 0) {
        struct offload_cache_head h = offload_cache_head_of(o, buf, 1);
        tombstones += h.kind == OFFLOAD_CACHE_TOMBSTONE;
        items += h.kind == OFFLOAD_CACHE_ITEM;
    }
    if (items != o->stats.items || tombstones != o->stats.tombstones)
        return SNIC_ECORRUPT;
    return snic_cuckoo_check(o->table);
}

#undef SNIC_OFFLOAD__SEED
