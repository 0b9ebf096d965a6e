/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Slots, places, and the chains by which a segment is found.
 *
 * Slots that are not free, orphans aside, are linked in the order of their stamps: that is the
 * order in which a mark frees them.
 */
#include "segments/segments_priv.h"

struct segments_entry *segments_entry(const struct segments_disk *d, uint32_t place, uint32_t block)
{
    SNIC_DASSERT(place < d->geo.places && block < SNIC_SEGMENTS_BLOCKS);
    return &d->entry[(size_t)place * SNIC_SEGMENTS_BLOCKS + block];
}

void segments_version_of(const struct segments_disk *d, const struct segments_entry *e,
                         struct segments_version *v)
{
    if (e->slot != SNIC_SEGMENTS__NONE) {
        *v = d->slot[e->slot].v;
        return;
    }
    v->wver = e->wver;
    v->data_crc = e->data_crc;
    v->block_tag = e->block_tag;
    v->kind = e->kind;
}

int segments_block_lost(const struct segments_place *p, uint32_t block)
{
    return (p->lost >> (1 + block / SNIC_SEGMENTS__TABLE) & 1) != 0;
}

/* ---- Slots ---- */

unsigned char *segments_slot_bytes(const struct segments_disk *d, uint32_t slot)
{
    SNIC_ASSERT(slot < d->geo.cache_blocks); /* before a copy */
    return d->bytes + (size_t)slot * SNIC_SEGMENTS_BLOCK;
}

void segments_slots_init(struct segments_disk *d)
{
    d->slot_free = 0;
    d->slots_free = d->geo.cache_blocks;
    d->oldest = SNIC_SEGMENTS__NONE;
    d->newest = SNIC_SEGMENTS__NONE;
    for (uint32_t i = 0; i < d->geo.cache_blocks; i++) {
        memset(&d->slot[i], 0, sizeof(d->slot[i]));
        d->slot[i].next = i + 1 < d->geo.cache_blocks ? i + 1 : SNIC_SEGMENTS__NONE;
    }
}

static void segments_slot_unlink(struct segments_disk *d, uint32_t slot)
{
    struct segments_slot *s = &d->slot[slot];
    if (s->prev != SNIC_SEGMENTS__NONE)
        d->slot[s->prev].next = s->next;
    else
        d->oldest = s->next;
    if (s->next != SNIC_SEGMENTS__NONE)
        d->slot[s->next].prev = s->prev;
    else
        d->newest = s->prev;
}

/** Stamps come in rising order, but for copies that recovery finds. */
static void segments_slot_link(struct segments_disk *d, uint32_t slot)
{
    struct segments_slot *s = &d->slot[slot];
    s->prev = d->newest;
    while (s->prev != SNIC_SEGMENTS__NONE && d->slot[s->prev].stamp > s->stamp)
        s->prev = d->slot[s->prev].prev;
    if (s->prev != SNIC_SEGMENTS__NONE) {
        s->next = d->slot[s->prev].next;
        d->slot[s->prev].next = slot;
    } else {
        s->next = d->oldest;
        d->oldest = slot;
    }
    if (s->next != SNIC_SEGMENTS__NONE)
        d->slot[s->next].prev = slot;
    else
        d->newest = slot;
}

static void segments_slot_release(struct segments_disk *d, uint32_t slot)
{
    struct segments_slot *s = &d->slot[slot];
    SNIC_ASSERT(s->state != SEGMENTS_SLOT_FREE);
    SNIC_ASSERT(d->slots_free < d->geo.cache_blocks);
    s->state = SEGMENTS_SLOT_FREE;
    s->orphan = 0;
    s->next = d->slot_free;
    d->slot_free = slot;
    d->slots_free++;
}

/** Take it from its entry. */
static void segments_slot_detach(struct segments_disk *d, uint32_t slot)
{
    const struct segments_slot *s = &d->slot[slot];
    struct segments_place *p = &d->place[s->place];
    struct segments_entry *e = segments_entry(d, s->place, s->block);
    SNIC_ASSERT(!s->orphan && e->slot == slot);
    SNIC_ASSERT(p->slots > 0);
    e->slot = SNIC_SEGMENTS__NONE;
    p->bits[s->block / 64] &= ~((uint64_t)1 << s->block % 64);
    p->slots--;
    segments_slot_unlink(d, slot);
}

void segments_slot_free(struct segments_disk *d, uint32_t slot)
{
    if (!d->slot[slot].orphan)
        segments_slot_detach(d, slot);
    segments_slot_release(d, slot);
}

void segments_slot_drop(struct segments_disk *d, uint32_t slot)
{
    struct segments_slot *s = &d->slot[slot];
    if (s->state != SEGMENTS_SLOT_WRITING) {
        segments_slot_free(d, slot);
        return;
    }
    segments_slot_detach(d, slot);
    s->orphan = 1; /* S4 */
}

uint32_t segments_slot_take(struct segments_disk *d, uint32_t place, uint32_t block, uint64_t stamp,
                            uint64_t position)
{
    struct segments_entry *e = segments_entry(d, place, block);
    struct segments_place *p = &d->place[place];
    if (e->slot != SNIC_SEGMENTS__NONE)
        segments_slot_drop(d, e->slot);
    uint32_t n = d->slot_free;
    SNIC_ASSERT(n != SNIC_SEGMENTS__NONE); /* the caller has looked at slots_free */
    struct segments_slot *s = &d->slot[n];
    SNIC_ASSERT(s->state == SEGMENTS_SLOT_FREE);
    d->slot_free = s->next;
    d->slots_free--;
    s->state = SEGMENTS_SLOT_LIVE;
    s->stamp = stamp;
    s->position = position;
    s->place = place;
    s->block = (uint16_t)block;
    segments_slot_link(d, n);
    e->slot = n;
    p->bits[block / 64] |= (uint64_t)1 << block % 64;
    p->slots++;
    return n;
}

/* ---- Places ---- */

void segments_place_clear(struct segments_disk *d, uint32_t place)
{
    struct segments_place *p = &d->place[place];
    for (uint32_t i = 0; i < SNIC_SEGMENTS_BLOCKS; i++) {
        struct segments_entry *e = segments_entry(d, place, i);
        if (e->slot != SNIC_SEGMENTS__NONE)
            segments_slot_drop(d, e->slot);
        memset(e, 0, sizeof(*e));
        e->slot = SNIC_SEGMENTS__NONE;
    }
    SNIC_ASSERT(p->slots == 0);
    p->lost = 0;
}

/* ---- Chains: a place's number among all devices' ---- */

static uint32_t segments_hash(const struct snic_segments *s, uint64_t seg_id)
{
    uint64_t h = seg_id * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) & (s->chains - 1);
}

#define SNIC_SEGMENTS__NAME(disk, place) ((disk) << 24 | (place))

static struct segments_place *segments_named(const struct snic_segments *s, uint32_t name)
{
    return &s->disk[name >> 24].place[name & SNIC_SEGMENTS__PLACES_MAX];
}

struct segments_place *segments_lookup(const struct snic_segments *s, uint64_t seg_id,
                                       uint32_t *disk, uint32_t *place)
{
    uint32_t n = s->chain[segments_hash(s, seg_id)];
    while (n != SNIC_SEGMENTS__NONE) {
        struct segments_place *p = segments_named(s, n);
        if (p->attr.seg_id == seg_id) {
            *disk = n >> 24;
            *place = n & SNIC_SEGMENTS__PLACES_MAX;
            return p;
        }
        n = p->next;
    }
    return NULL;
}

void segments_chain(struct segments_disk *d, uint32_t place)
{
    struct segments_place *p = &d->place[place];
    uint32_t *head = &d->store->chain[segments_hash(d->store, p->attr.seg_id)];
    SNIC_ASSERT(p->attr.used && !p->chained);
    p->next = *head;
    p->chained = 1;
    *head = SNIC_SEGMENTS__NAME(d->number, place);
}

void segments_unchain(struct segments_disk *d, uint32_t place)
{
    struct segments_place *p = &d->place[place];
    uint32_t *at = &d->store->chain[segments_hash(d->store, p->attr.seg_id)];
    uint32_t name = SNIC_SEGMENTS__NAME(d->number, place);
    SNIC_ASSERT(p->chained);
    while (*at != name) {
        SNIC_ASSERT(*at != SNIC_SEGMENTS__NONE);
        at = &segments_named(d->store, *at)->next;
    }
    *at = p->next;
    p->chained = 0;
}
