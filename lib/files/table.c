/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The present state: nodes, the name index, segments, who owns them, the free ones, limbo.
 *
 * T1  A segment with an owner is on the owner's list and in the index of (node, logical).
 * T2  A bit of the bitmap is clear exactly for free segments; limbo segments have it set and
 *     no owner.
 * T3  An item (node or segment) is on the dirty queue at most once; its number on the queue
 *     is at least as old as its last change, so what is taken then is at least as new.
 */
#include "files/files_priv.h"
#include "base/xxh.h"

/* ---- Names ---- */

static uint32_t table_name_slot(const struct snic_files *f, uint64_t dir, const void *name,
                                uint32_t size)
{
    return (uint32_t)XXH3_64bits_withSeed(name, size, dir ^ f->info.image_id) & f->name_mask;
}

uint32_t files_find_name(const struct snic_files *f, uint64_t dir, const void *name, uint32_t size)
{
    uint32_t i = f->name_index[table_name_slot(f, dir, name, size)];
    for (; i != SNIC_FILES__NONE; i = f->nodes[i].chain) {
        const struct files_node *n = &f->nodes[i];
        if (n->parent == dir && n->name_size == size && memcmp(n->name, name, size) == 0)
            return i;
    }
    return SNIC_FILES__NONE;
}

/* The node with this id, or NONE. The root's is 0. */
uint32_t files_find_id(const struct snic_files *f, uint64_t id)
{
    uint64_t i = id & SNIC_FILES__SLOT_MASK;
    if (i >= f->nodes_count || f->nodes[i].id != id)
        return SNIC_FILES__NONE;
    return (uint32_t)i;
}

void files_name_insert(struct snic_files *f, uint32_t index)
{
    struct files_node *n = &f->nodes[index];
    uint32_t slot = table_name_slot(f, n->parent, n->name, n->name_size);
    n->chain = f->name_index[slot];
    f->name_index[slot] = index;
}

void files_name_remove(struct snic_files *f, uint32_t index)
{
    const struct files_node *n = &f->nodes[index];
    uint32_t *p = &f->name_index[table_name_slot(f, n->parent, n->name, n->name_size)];
    while (*p != index) {
        SNIC_ASSERT(*p != SNIC_FILES__NONE);
        p = &f->nodes[*p].chain;
    }
    *p = n->chain;
}

/* ---- Segments ---- */

static uint32_t table_seg_slot(const struct snic_files *f, uint32_t node, uint32_t logical)
{
    uint64_t h = (((uint64_t)node << 32) | logical) ^ f->info.image_id;
    h *= 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    return (uint32_t)(h * 0xd6e8feb86659fd93u >> 32) & f->seg_mask;
}

uint32_t files_seg_find(const struct snic_files *f, uint32_t node, uint32_t logical)
{
    uint32_t i = f->seg_index[table_seg_slot(f, node, logical)];
    while (i != SNIC_FILES__NONE && (f->segs[i].node != node || f->segs[i].logical != logical))
        i = f->segs[i].chain;
    return i;
}

/* Make a segment that has no owner the node's: T1. */
void files_seg_attach(struct snic_files *f, uint32_t seg, uint32_t node, uint32_t logical)
{
    struct files_seg *s = &f->segs[seg];
    struct files_node *n = &f->nodes[node];
    uint32_t slot = table_seg_slot(f, node, logical);
    s->node = node;
    s->logical = logical;
    s->chain = f->seg_index[slot];
    f->seg_index[slot] = seg;
    s->prev = SNIC_FILES__NONE;
    s->next = n->first;
    if (n->first != SNIC_FILES__NONE)
        f->segs[n->first].prev = seg;
    n->first = seg;
    n->segs++;
}

/* The other way round; the segment is then neither of a file nor free. */
void files_seg_detach(struct snic_files *f, uint32_t seg)
{
    struct files_seg *s = &f->segs[seg];
    struct files_node *n = &f->nodes[s->node];
    uint32_t *p = &f->seg_index[table_seg_slot(f, s->node, s->logical)];
    while (*p != seg) {
        SNIC_ASSERT(*p != SNIC_FILES__NONE);
        p = &f->segs[*p].chain;
    }
    *p = s->chain;
    if (s->prev != SNIC_FILES__NONE)
        f->segs[s->prev].next = s->next;
    else
        n->first = s->next;
    if (s->next != SNIC_FILES__NONE)
        f->segs[s->next].prev = s->prev;
    n->segs--;
    s->node = SNIC_FILES__NONE;
}

/* Take a free segment, from `hint` on. There is one. */
uint32_t files_seg_take(struct snic_files *f, uint32_t hint)
{
    uint32_t words = (f->segs_count + 63) / 64;
    uint32_t w = hint / 64 % words;
    uint64_t mask = UINT64_MAX << (hint % 64);
    uint32_t seg;
    SNIC_ASSERT(f->free_segs > 0);
    while ((~f->bitmap[w] & mask) == 0) {
        w = w + 1 == words ? 0 : w + 1;
        mask = UINT64_MAX;
    }
    seg = w * 64 + (uint32_t)__builtin_ctzll(~f->bitmap[w] & mask);
    SNIC_ASSERT(seg < f->segs_count);
    f->bitmap[w] |= (uint64_t)1 << (seg % 64);
    f->free_segs--;
    f->hint = seg + 1 == f->segs_count ? 0 : seg + 1;
    f->segs[seg].init = 0;
    f->segs[seg].claimed = 0;
    return seg;
}

/* ---- Limbo and epochs: I5 ---- */

void files_limbo_push(struct snic_files *f, struct files_limbo *l, uint32_t seg)
{
    f->segs[seg].next = SNIC_FILES__NONE;
    if (l->count == 0)
        l->first = seg;
    else
        f->segs[l->last].next = seg;
    l->last = seg;
    l->count++;
}

void files_limbo_splice(struct snic_files *f, struct files_limbo *into, struct files_limbo *from)
{
    if (from->count == 0)
        return;
    if (into->count == 0)
        into->first = from->first;
    else
        f->segs[into->last].next = from->first;
    into->last = from->last;
    into->count += from->count;
    memset(from, 0, sizeof(*from));
}

static void table_release(struct snic_files *f, struct files_limbo *l)
{
    uint32_t seg = l->first;
    uint32_t n;
    for (n = 0; n < l->count; n++) {
        uint32_t next = f->segs[seg].next;
        f->bitmap[seg / 64] &= ~((uint64_t)1 << (seg % 64));
        f->free_segs++;
        seg = next;
    }
    memset(l, 0, sizeof(*l));
}

/*
 * Requests count under the parity at which they began. An epoch's list waits for the old parity
 * to drain; the other one is empty then, because the epoch before has ended.
 */
void files_epoch_turn(struct snic_files *f)
{
    for (;;) {
        if (f->draining) {
            if (f->epoch_active[f->epoch ^ 1] != 0)
                return;
            f->draining = 0;
            table_release(f, &f->limbo_readers);
        }
        if (f->limbo_durable.count == 0)
            return;
        SNIC_ASSERT(f->epoch_active[f->epoch ^ 1] == 0);
        files_limbo_splice(f, &f->limbo_readers, &f->limbo_durable);
        f->epoch ^= 1;
        f->draining = 1;
    }
}

void files_epoch_leave(struct snic_files *f, uint32_t parity)
{
    SNIC_ASSERT(f->epoch_active[parity] > 0);
    f->epoch_active[parity]--;
}

/* ---- Dirty queue: T3 ---- */

static uint32_t *table_dirty_link(struct snic_files *f, uint32_t item)
{
    return item < f->nodes_count ? &f->nodes[item].dirty_next
                                 : &f->segs[item - f->nodes_count].dirty_next;
}

static void table_dirty(struct snic_files *f, uint32_t item, struct files_node *owner)
{
    uint32_t *link = table_dirty_link(f, item);
    if (*link != SNIC_FILES__NOT_QUEUED)
        return;
    *link = SNIC_FILES__QUEUE_END;
    if (f->dirty_first == SNIC_FILES__QUEUE_END)
        f->dirty_first = item;
    else
        *table_dirty_link(f, f->dirty_last) = item;
    f->dirty_last = item;
    owner->dirty_ticket = ++f->dirty_added;
}

void files_dirty_node(struct snic_files *f, uint32_t node)
{
    table_dirty(f, node, &f->nodes[node]);
}

void files_dirty_seg(struct snic_files *f, uint32_t seg)
{
    table_dirty(f, f->nodes_count + seg, &f->nodes[f->segs[seg].node]);
}

/* The next item, or NONE; it is off the queue then. */
uint32_t files_dirty_take(struct snic_files *f)
{
    uint32_t item = f->dirty_first;
    uint32_t *link;
    if (item == SNIC_FILES__QUEUE_END)
        return SNIC_FILES__NONE;
    link = table_dirty_link(f, item);
    f->dirty_first = *link;
    *link = SNIC_FILES__NOT_QUEUED;
    f->dirty_taken++;
    return item;
}
