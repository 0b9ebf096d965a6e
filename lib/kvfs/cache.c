/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Records in memory, while no other session uses the store: existing ones, and keys that are known
 * to have none.
 *
 * A ring of entries, appended at its head, and an index of those that count. An entry at the tail
 * is evicted, unless it was used since it was appended: then it moves to the head, once per use
 * (second chance).
 *
 * C1  An entry counts if the index names it. There is at most one for a key.
 * C2  A record that was read is kept only if no commit that changes its key was in flight, or
 *     ended, since the read was sent; one that was committed, only if no other such commit was.
 *     stamps[] has, for each class of keys, when a commit was last sent or ended.
 * C3  A directory may have a mark: all of its entries are cached, so that a name that is not cached
 *     does not exist in the store, either. An empty directory gets it; it is removed when one of
 *     the directory's entries is evicted, or its own.
 */
#include "kvfs/txn_priv.h"

enum {
    KVFS_CACHE_ALIGN = 16,
    KVFS_CACHE_STAMPS = 8192,
    KVFS_CACHE_BYTES_PER_SLOT = 128,
    KVFS_CACHE_CHANCES = 16,     /* second chances per new entry                                  */
    KVFS_CACHE_ENTRY_SHARE = 16, /* an entry has at most this part of the ring                    */
    KVFS_CACHE_MARK = 'c',       /* first byte of a mark's key (C3): no record has it             */
    KVFS_CACHE_SLOTS_SHIFT_MAX = 28
};

struct kvfs_cache_entry {
    uint32_t bytes; /* to the next                                                            */
    uint32_t tag;
    uint64_t group;
    uint32_t size; /* of the record, which follows the key; 0: there is none                  */
    uint8_t key_size;
    uint8_t used;
    uint8_t filler; /* to the end of the ring                                                 */
    uint8_t pad;
};
SNIC_STATIC_ASSERT(sizeof(struct kvfs_cache_entry) == 24, "the key follows");

/* An empty slot has at 0. */
struct kvfs_cache_slot {
    uint32_t tag;
    uint32_t at; /* 1 + offset / KVFS_CACHE_ALIGN */
};

struct kvfs_cache {
    unsigned char *ring;
    uint64_t ring_size;
    uint64_t head; /* positions that only grow; offsets are modulo ring_size                  */
    uint64_t tail;
    struct kvfs_cache_slot *slots;
    uint32_t mask;
    uint32_t count;
    uint32_t count_max;
    uint64_t clock;
    uint64_t dropped; /* clock of the last kvfs_cache_drop()                                  */
    uint64_t stamps[KVFS_CACHE_STAMPS];
};

/* ---- The index ---- */

static struct kvfs_cache_entry *kvfs_cache_at(const struct kvfs_cache *c, uint32_t at)
{
    return (struct kvfs_cache_entry *)(void *)(c->ring + (uint64_t)(at - 1) * KVFS_CACHE_ALIGN);
}

static uint32_t kvfs_cache_key_bytes(uint8_t size)
{
    return (uint32_t)snic_align_up(size, 8);
}

static unsigned char *kvfs_cache_record(struct kvfs_cache_entry *e)
{
    return (unsigned char *)(e + 1) + kvfs_cache_key_bytes(e->key_size);
}

static int kvfs_cache_matches(const struct kvfs_cache_entry *e, const struct snic_kvop_key *key)
{
    return e->group == key->group && e->key_size == key->size &&
           memcmp(e + 1, key->bytes, key->size) == 0;
}

/* The slot of a key, or the empty one where it would be. */
static uint32_t kvfs_cache_slot(const struct kvfs_cache *c, const struct snic_kvop_key *key,
                                uint32_t tag)
{
    uint32_t i = tag & c->mask;
    while (c->slots[i].at != 0 &&
           (c->slots[i].tag != tag || !kvfs_cache_matches(kvfs_cache_at(c, c->slots[i].at), key)))
        i = (i + 1) & c->mask;
    return i;
}

/* The slot that names this entry, if one does. */
static int kvfs_cache_slot_of(const struct kvfs_cache *c, uint32_t tag, uint32_t at, uint32_t *slot)
{
    for (uint32_t i = tag & c->mask; c->slots[i].at != 0; i = (i + 1) & c->mask) {
        if (c->slots[i].at == at) {
            *slot = i;
            return 1;
        }
    }
    return 0;
}

/* Empty a slot; entries behind it that it displaced move up. */
static void kvfs_cache_unslot(struct kvfs_cache *c, uint32_t hole)
{
    uint32_t i = hole;
    for (;;) {
        i = (i + 1) & c->mask;
        if (c->slots[i].at == 0)
            break;
        if (((i - c->slots[i].tag) & c->mask) >= ((i - hole) & c->mask)) {
            c->slots[hole] = c->slots[i];
            hole = i;
        }
    }
    SNIC_DASSERT(c->count > 0);
    c->slots[hole].at = 0;
    c->count--;
}

/* ---- Marks of complete directories (C3) ---- */

static uint32_t kvfs_cache_mark_key(struct snic_kvop_key *key, uint64_t group)
{
    static const unsigned char mark = KVFS_CACHE_MARK;
    snic_kvop_key_set(key, group, &mark, 1);
    return (uint32_t)kvfs_key_hash(key);
}

static void kvfs_cache_unmark(struct kvfs_cache *c, uint64_t group)
{
    struct snic_kvop_key key;
    uint32_t tag = kvfs_cache_mark_key(&key, group);
    uint32_t i = kvfs_cache_slot(c, &key, tag);
    if (c->slots[i].at != 0)
        kvfs_cache_unslot(c, i);
}

static int kvfs_cache_is_marked(const struct kvfs_cache *c, uint64_t group)
{
    struct snic_kvop_key key;
    uint32_t tag = kvfs_cache_mark_key(&key, group);
    uint32_t i = kvfs_cache_slot(c, &key, tag);
    if (c->slots[i].at == 0)
        return 0;
    kvfs_cache_at(c, c->slots[i].at)->used = 1;
    return 1;
}

/* An entry is evicted: without a name's record its directory is no longer marked as complete. */
static void kvfs_cache_evicted(struct kvfs_cache *c, const struct kvfs_cache_entry *e)
{
    if (*(const unsigned char *)(e + 1) == SNIC_KVFS_REC_ENTRY && e->size != 0)
        kvfs_cache_unmark(c, e->group);
}

/* ---- The ring ---- */

static uint64_t kvfs_cache_free(const struct kvfs_cache *c)
{
    return c->ring_size - (c->head - c->tail);
}

static struct kvfs_cache_entry *kvfs_cache_tail(const struct kvfs_cache *c)
{
    return (struct kvfs_cache_entry *)(void *)(c->ring + c->tail % c->ring_size);
}

/* Evict the entry at the tail, or move it to the head. 1: it was moved. */
static int kvfs_cache_shift(struct kvfs_cache *c, int chance)
{
    struct kvfs_cache_entry *e = kvfs_cache_tail(c), moved;
    uint32_t at = (uint32_t)(c->tail % c->ring_size / KVFS_CACHE_ALIGN) + 1, slot;
    uint64_t to = c->head % c->ring_size;
    SNIC_DASSERT(c->head > c->tail);
    c->tail += e->bytes;
    if (e->filler || !kvfs_cache_slot_of(c, e->tag, at, &slot))
        return 0;
    if (chance && e->used && to + e->bytes <= c->ring_size && kvfs_cache_free(c) >= e->bytes) {
        moved = *e;
        moved.used = 0;
        memmove(c->ring + to, e, e->bytes);
        memcpy(c->ring + to, &moved, sizeof(moved));
        c->slots[slot].at = (uint32_t)(to / KVFS_CACHE_ALIGN) + 1;
        c->head += moved.bytes;
        return 1;
    }
    kvfs_cache_unslot(c, slot);
    kvfs_cache_evicted(c, e);
    return 0;
}

/* Make space for `bytes` in one piece at the head. */
static struct kvfs_cache_entry *kvfs_cache_reserve(struct kvfs_cache *c, uint32_t bytes)
{
    uint32_t chances = KVFS_CACHE_CHANCES;
    uint64_t at, gap;
    SNIC_DASSERT(bytes <= c->ring_size / KVFS_CACHE_ENTRY_SHARE);
    while (c->count >= c->count_max)
        (void)kvfs_cache_shift(c, 0);
    for (;;) {
        at = c->head % c->ring_size;
        gap = at + bytes > c->ring_size ? c->ring_size - at : 0;
        if (kvfs_cache_free(c) >= gap + bytes)
            break;
        if (kvfs_cache_shift(c, chances > 0))
            chances--;
    }
    if (gap != 0) {
        struct kvfs_cache_entry filler = {.bytes = (uint32_t)gap, .filler = 1};
        memcpy(c->ring + at, &filler, snic_min_u64(sizeof(filler), gap));
        c->head += gap;
    }
    return (struct kvfs_cache_entry *)(void *)(c->ring + c->head % c->ring_size);
}

static void kvfs_cache_append(struct kvfs_cache *c, const struct snic_kvop_key *key, uint32_t tag,
                              const void *record, uint32_t size)
{
    uint32_t at = sizeof(struct kvfs_cache_entry) + kvfs_cache_key_bytes(key->size);
    uint64_t bytes = snic_align_up((uint64_t)at + size, KVFS_CACHE_ALIGN);
    struct kvfs_cache_entry *e;
    uint32_t slot;
    if (bytes > c->ring_size / KVFS_CACHE_ENTRY_SHARE) {
        if (key->bytes[0] == SNIC_KVFS_REC_ENTRY)
            kvfs_cache_unmark(c, key->group);
        return;
    }
    SNIC_DASSERT(key->size > 0 && key->size <= SNIC_KVOP_KEY_MAX);
    e = kvfs_cache_reserve(c, (uint32_t)bytes);
    *e = (struct kvfs_cache_entry){.bytes = (uint32_t)bytes,
                                   .tag = tag,
                                   .group = key->group,
                                   .size = size,
                                   .key_size = key->size};
    memcpy(e + 1, key->bytes, key->size);
    if (size != 0)
        memcpy((unsigned char *)e + at, record, size);
    slot = kvfs_cache_slot(c, key, tag);
    SNIC_DASSERT(c->slots[slot].at == 0); /* C1 */
    c->slots[slot].tag = tag;
    c->slots[slot].at = (uint32_t)(c->head % c->ring_size / KVFS_CACHE_ALIGN) + 1;
    c->head += bytes;
    c->count++;
}

static void kvfs_cache_remove(struct kvfs_cache *c, const struct snic_kvop_key *key, uint32_t tag)
{
    uint32_t slot = kvfs_cache_slot(c, key, tag);
    if (key->bytes[0] == SNIC_KVFS_REC_ENTRY)
        kvfs_cache_unmark(c, key->group);
    slot = kvfs_cache_slot(c, key, tag);
    if (c->slots[slot].at != 0)
        kvfs_cache_unslot(c, slot);
}

/* Cache the state of a key: a record, or (size 0) that there is none. */
static void kvfs_cache_put(struct kvfs_cache *c, const struct snic_kvop_key *key, uint32_t tag,
                           const void *record, uint32_t size)
{
    uint32_t slot = kvfs_cache_slot(c, key, tag);
    if (c->slots[slot].at != 0) {
        struct kvfs_cache_entry *e = kvfs_cache_at(c, c->slots[slot].at);
        if (e->size == size) {
            if (size != 0)
                memcpy(kvfs_cache_record(e), record, size);
            return;
        }
        kvfs_cache_unslot(c, slot);
    }
    kvfs_cache_append(c, key, tag, record, size);
}

/* A directory's attributes are in here: an empty one gets its mark (C3). */
static void kvfs_cache_note_attr(struct kvfs_cache *c, const struct snic_kvop_key *key,
                                 const void *record, uint32_t size)
{
    struct snic_kvop_key mark;
    uint32_t tag;
    if (key->bytes[0] != SNIC_KVFS_REC_ATTR || !kvfs_attr_is_empty_dir(record, size))
        return;
    tag = kvfs_cache_mark_key(&mark, key->group);
    kvfs_cache_put(c, &mark, tag, "", 1);
}

/* ---- Reads and commits ---- */

void kvfs_cache_place(struct kvfs_cache **out, struct snic_arena *a, uint64_t bytes)
{
    uint64_t slots = snic_pow2_up(bytes / KVFS_CACHE_BYTES_PER_SLOT + 64);
    uint64_t ring = snic_align_down(bytes, KVFS_CACHE_ALIGN) + KVFS_CACHE_ALIGN * 64;
    struct kvfs_cache *c = snic_arena_take(a, 1, sizeof(*c), 64);
    struct kvfs_cache_slot *s;
    unsigned char *r;
    if (slots > 1U << KVFS_CACHE_SLOTS_SHIFT_MAX)
        slots = 1U << KVFS_CACHE_SLOTS_SHIFT_MAX;
    ring = snic_min_u64(ring, (uint64_t)UINT32_MAX * KVFS_CACHE_ALIGN);
    s = snic_arena_take(a, slots, sizeof(*s), 64);
    r = snic_arena_take(a, 1, ring, 64);
    *out = c;
    if (c == NULL || s == NULL || r == NULL)
        return;
    memset(c, 0, sizeof(*c));
    memset(s, 0, slots * sizeof(*s));
    c->ring = r;
    c->ring_size = ring;
    c->slots = s;
    c->mask = (uint32_t)(slots - 1);
    c->count_max = (uint32_t)(slots - slots / 4);
    c->clock = 1;
}

void kvfs_cache_drop(struct snic_kvfs *k)
{
    struct kvfs_cache *c = k->cache;
    if (c->count != 0)
        memset(c->slots, 0, ((size_t)c->mask + 1) * sizeof(*c->slots));
    c->count = 0;
    c->head = 0;
    c->tail = 0;
    c->dropped = ++c->clock;
}

int kvfs_cache_get(struct snic_kvfs *k, const struct snic_kvop_key *key, uint64_t hash,
                   const unsigned char **record, uint32_t *size)
{
    struct kvfs_cache *c = k->cache;
    struct kvfs_cache_entry *e;
    uint32_t slot;
    if (!kvfs_alone(k))
        return KVFS_CACHE_UNKNOWN;
    slot = kvfs_cache_slot(c, key, (uint32_t)hash);
    if (c->slots[slot].at == 0)
        return key->bytes[0] == SNIC_KVFS_REC_ENTRY && kvfs_cache_is_marked(c, key->group)
                   ? KVFS_CACHE_ABSENT
                   : KVFS_CACHE_UNKNOWN;
    e = kvfs_cache_at(c, c->slots[slot].at);
    e->used = 1;
    if (e->size == 0)
        return KVFS_CACHE_ABSENT;
    *record = kvfs_cache_record(e);
    *size = e->size;
    return KVFS_CACHE_PRESENT;
}

uint64_t kvfs_cache_now(const struct snic_kvfs *k)
{
    return kvfs_alone(k) ? k->cache->clock : SNIC_KVFS__CACHE_NEVER;
}

/* 1: the result of a request sent at this time may be cached. */
static int kvfs_cache_trusts(const struct snic_kvfs *k, uint64_t sent)
{
    return kvfs_alone(k) && sent != SNIC_KVFS__CACHE_NEVER && sent >= k->cache->dropped;
}

void kvfs_cache_read(struct snic_kvfs *k, uint64_t sent, const struct snic_kvop_key *key,
                     uint64_t hash, const void *record, uint32_t size)
{
    struct kvfs_cache *c = k->cache;
    if (!kvfs_cache_trusts(k, sent) || c->stamps[hash % KVFS_CACHE_STAMPS] > sent)
        return; /* C2 */
    kvfs_cache_put(c, key, (uint32_t)hash, record, size);
    kvfs_cache_note_attr(c, key, record, size);
}

uint64_t kvfs_cache_sent(struct snic_kvfs *k)
{
    k->cache->clock++;
    return kvfs_cache_now(k);
}

void kvfs_cache_sent_key(struct snic_kvfs *k, uint64_t hash)
{
    k->cache->stamps[hash % KVFS_CACHE_STAMPS] = k->cache->clock;
}

void kvfs_cache_wrote(struct snic_kvfs *k, uint64_t sent, const struct snic_kvop_key *key,
                      uint64_t hash, const void *record, uint32_t size)
{
    struct kvfs_cache *c = k->cache;
    uint64_t *stamp = &c->stamps[hash % KVFS_CACHE_STAMPS];
    int only = kvfs_cache_trusts(k, sent) && *stamp == sent; /* C2 */
    *stamp = ++c->clock;
    if (!only) {
        kvfs_cache_remove(c, key, (uint32_t)hash);
        return;
    }
    kvfs_cache_put(c, key, (uint32_t)hash, record, size);
    kvfs_cache_note_attr(c, key, record, size);
}

void kvfs_cache_forget(struct snic_kvfs *k, const struct snic_kvop_key *key, uint64_t hash)
{
    struct kvfs_cache *c = k->cache;
    c->stamps[hash % KVFS_CACHE_STAMPS] = ++c->clock;
    kvfs_cache_remove(c, key, (uint32_t)hash);
}

/* Each slot names an entry of its tag; as many as are counted; all within head and tail. */
int kvfs_cache_check(const struct snic_kvfs *k)
{
    const struct kvfs_cache *c = k->cache;
    uint32_t count = 0, slot;
    uint64_t counted = 0, at = c->tail;
    for (uint32_t i = 0; i <= c->mask; i++)
        count += c->slots[i].at != 0;
    if (count != c->count || c->count > c->count_max || c->head - c->tail > c->ring_size)
        return SNIC_ECORRUPT;
    while (at < c->head) {
        uint32_t place = (uint32_t)(at % c->ring_size / KVFS_CACHE_ALIGN) + 1;
        const struct kvfs_cache_entry *e = kvfs_cache_at(c, place);
        if (e->bytes == 0 || e->bytes % KVFS_CACHE_ALIGN != 0 || at + e->bytes > c->head)
            return SNIC_ECORRUPT;
        if (!e->filler)
            counted += (uint64_t)kvfs_cache_slot_of(c, e->tag, place, &slot);
        at += e->bytes;
    }
    return at == c->head && counted == count ? 0 : SNIC_ECORRUPT;
}
