/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The versioned cache: a cuckoo table whose items begin with a word of ours, the version shifted
 * left by one, and a 1 below it for a tombstone.
 *
 * I1  The version stored for a key never falls while its entry stays in the table.
 * I2  A key whose last invalidation was at v is in the table with a version >= v, or the floor
 *     is >= v, or forget() took it out.
 * I3  The floor never falls.
 * So put() may store an item exactly if its version is not below the entry's and the floor.
 *
 * The loop's thread writes; snic_offload_get() reads the table from any thread.
 */
#include "offload/offload_priv.h"

/* What an update decides on, and what came of it. */
struct offload_cache_op {
    const struct snic_offload *o;
    const void *item; /* put */
    uint64_t version;
    int result; /* put: 1 stored */
    int was;    /* 0 nothing, 1 item, 2 tombstone */
    int is;     /* the same afterwards, if it is carried out */
};

static uint64_t offload_cache_version(uint64_t word)
{
    return word >> 1;
}

static int offload_cache_kind(uint64_t word, int resident)
{
    return resident ? 1 + (int)(word & 1) : 0;
}

static uint64_t offload_cache_word(const void *item)
{
    uint64_t w;
    memcpy(&w, item, sizeof(w));
    return w;
}

static enum snic_cuckoo_verdict offload_cache_on_put(void *ctx, void *item, int resident)
{
    struct offload_cache_op *op = ctx;
    uint64_t word = offload_cache_word(item);
    op->was = op->is = offload_cache_kind(word, resident);
    if (resident && offload_cache_version(word) > op->version)
        return SNIC_CUCKOO_KEEP; /* I1 */
    word = op->version << 1;
    memcpy(item, &word, sizeof(word));
    if (op->o->opts.item_size > 0)
        memcpy((unsigned char *)item + SNIC_OFFLOAD__WORD, op->item, op->o->opts.item_size);
    op->result = 1;
    op->is = 1;
    return SNIC_CUCKOO_STORE;
}

static enum snic_cuckoo_verdict offload_cache_on_invalidate(void *ctx, void *item, int resident)
{
    struct offload_cache_op *op = ctx;
    uint64_t word = offload_cache_word(item);
    op->was = op->is = offload_cache_kind(word, resident);
    if (resident && offload_cache_version(word) >= op->version)
        return SNIC_CUCKOO_KEEP;
    word = op->version << 1 | 1;
    memset(item, 0, SNIC_OFFLOAD__WORD + (size_t)op->o->opts.item_size);
    memcpy(item, &word, sizeof(word));
    op->is = 2;
    return SNIC_CUCKOO_STORE;
}

static enum snic_cuckoo_verdict offload_cache_on_forget(void *ctx, void *item, int resident)
{
    struct offload_cache_op *op = ctx;
    uint64_t word = offload_cache_word(item);
    op->was = op->is = offload_cache_kind(word, resident);
    if (!resident || offload_cache_version(word) > op->version)
        return SNIC_CUCKOO_KEEP;
    op->is = 0;
    return SNIC_CUCKOO_REMOVE;
}

static int offload_cache_apply(struct snic_offload *o, const void *key, snic_cuckoo_update_fn fn,
                               struct offload_cache_op *op)
{
    op->o = o;
    op->result = 0;
    op->was = op->is = 0;
    SNIC_DASSERT(!o->in_user); /* func() and reply() only read */
    int r = snic_cuckoo_update(o->table, key, op, fn);
    if (r != 0)
        return r;
    o->stats.items += (uint64_t)(op->is == 1) - (uint64_t)(op->was == 1);
    o->stats.tombstones += (uint64_t)(op->is == 2) - (uint64_t)(op->was == 2);
    return 0;
}

static int offload_cache_store(struct snic_offload *o, const void *key, const void *item,
                               uint64_t version, uint64_t floor)
{
    struct offload_cache_op op = {.item = item, .version = version};
    if (version > SNIC_OFFLOAD_VERSION_MAX)
        return SNIC_ERANGE;
    if (version < floor) {
        o->stats.puts_refused++;
        return 0;
    }
    int r = offload_cache_apply(o, key, offload_cache_on_put, &op);
    if (r != 0) {
        o->stats.puts_full++;
        return r;
    }
    if (op.result)
        o->stats.puts++;
    else
        o->stats.puts_refused++;
    return op.result;
}

int snic_offload_put(struct snic_offload *o, const void *key, const void *item, uint64_t version)
{
    return offload_cache_store(o, key, item, version, o->stats.floor);
}

int snic_offload_cache(struct snic_offload *o, const void *key, const void *item, uint64_t version)
{
    return offload_cache_store(o, key, item, version, 0);
}

void snic_offload_invalidate(struct snic_offload *o, const void *key, uint64_t version)
{
    struct offload_cache_op op = {.version = snic_min_u64(version, SNIC_OFFLOAD_VERSION_MAX)};
    o->stats.invalidations++;
    if (offload_cache_apply(o, key, offload_cache_on_invalidate, &op) != 0)
        o->stats.floor = snic_max_u64(o->stats.floor, op.version); /* I2 */
}

void snic_offload_invalidate_all(struct snic_offload *o, uint64_t version)
{
    SNIC_DASSERT(!o->in_user);
    o->stats.invalidations++;
    o->stats.floor =
        snic_max_u64(o->stats.floor, snic_min_u64(version, SNIC_OFFLOAD_VERSION_MAX)); /* I3 */
    snic_cuckoo_clear(o->table);
    o->stats.items = 0;
    o->stats.tombstones = 0;
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
    uint64_t word = offload_cache_word(buf);
    if (word & 1)
        return SNIC_ENOENT;
    if (version != NULL)
        *version = offload_cache_version(word);
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
                                  .capacity_slots = opts->cache_capacity,
                                  .seed = opts->cache_seed};
    size_t size = snic_cuckoo_memsize(&co);
    if (size == 0)
        return 0;
    void *mem = snic_arena_take(a, 1, size, SNIC_CUCKOO_ALIGN);
    if (place && mem != NULL && snic_cuckoo_init(&o->table, mem, size, &co) != 0)
        return 0;
    return 1;
}

int offload_cache_check(const struct snic_offload *o)
{
    unsigned char buf[SNIC_OFFLOAD__WORD + SNIC_OFFLOAD_ITEM_MAX];
    uint64_t cursor = 0;
    uint64_t items = 0;
    uint64_t tombstones = 0;
    while (snic_cuckoo_next(o->table, &cursor, NULL, buf) == 0) {
        if (offload_cache_word(buf) & 1)
            tombstones++;
        else
            items++;
    }
    if (items != o->stats.items || tombstones != o->stats.tombstones)
        return SNIC_ECORRUPT;
    return snic_cuckoo_check(o->table);
}
