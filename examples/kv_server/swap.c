/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SWAPDB: an exchange of two databases is one record of the log. The records before it
 * keep the numbers that they were written with; a reader of one of them maps its number
 * through the exchanges that lie behind it.
 */
#include "store_priv.h"

#include <stdlib.h>
#include <string.h>

uint64_t kv_swap_end(const struct kv_store *s)
{
    return s->swaps_count == 0 ? 0 : s->swaps[s->swaps_count - 1].address;
}

int kv_swap_reserve(struct kv_store *s)
{
    uint32_t room = s->swaps_room == 0 ? 16 : s->swaps_room * 2;
    struct kv_swap *p;

    if (s->swaps_count < s->swaps_room)
        return 0;
    p = realloc(s->swaps, room * sizeof(*p));
    if (p == NULL)
        return SNIC_ENOMEM;
    s->swaps = p;
    s->swaps_room = room;
    return 0;
}

int kv_swap_open(struct kv_store *s)
{
    uint32_t n = s->index.databases;

    s->swap_map = calloc(n, sizeof(*s->swap_map));
    s->swap_work = calloc(n, sizeof(*s->swap_work));
    if (s->swap_map == NULL || s->swap_work == NULL)
        return SNIC_ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        s->swap_map[i] = s->swap_work[i] = (uint16_t)i;
    return 0;
}

void kv_swap_close(struct kv_store *s)
{
    free(s->swaps);
    free(s->swap_map);
    free(s->swap_work);
}

int kv_swap_note(struct kv_store *s, uint64_t address, uint32_t a, uint32_t b)
{
    struct kv_swap *x;

    if (kv_swap_reserve(s) != 0)
        return SNIC_ENOMEM;
    x = &s->swaps[s->swaps_count++];
    x->address = address;
    x->a = (uint16_t)a;
    x->b = (uint16_t)b;
    return 0;
}

/* Let swap_map stand for the exchanges from @p from on. */
static void swap_map_from(struct kv_store *s, uint32_t from)
{
    if (from < s->swap_from) { /* backwards: all anew */
        for (uint32_t i = 0; i < s->index.databases; i++)
            s->swap_map[i] = (uint16_t)i;
        s->swap_from = s->swap_to = from;
    }
    while (s->swap_to < s->swaps_count) { /* one more at the end exchanges results */
        const struct kv_swap *x = &s->swaps[s->swap_to++];

        for (uint32_t i = 0; i < s->index.databases; i++)
            if (s->swap_map[i] == x->a)
                s->swap_map[i] = x->b;
            else if (s->swap_map[i] == x->b)
                s->swap_map[i] = x->a;
    }
    while (s->swap_from < from) { /* one less at the front exchanges what they are for */
        const struct kv_swap *x = &s->swaps[s->swap_from++];
        uint16_t kept = s->swap_map[x->a];

        s->swap_map[x->a] = s->swap_map[x->b];
        s->swap_map[x->b] = kept;
    }
}

/* The first exchange at or above an address. */
static uint32_t swap_at(const struct kv_store *s, uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = s->swaps_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (s->swaps[middle].address >= address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint32_t kv_swap_database(struct kv_store *s, uint32_t database, uint64_t address)
{
    if (address >= kv_swap_end(s))
        return database;
    swap_map_from(s, swap_at(s, address)); /* no other record lies at an exchange's address */
    return s->swap_map[database];
}

uint64_t kv_swap_write_end(const struct kv_store *s, uint64_t address)
{
    uint64_t end = address + kv_record_bytes(0, 2);
    uint64_t top = snic_align_up(end, KV_BLOCK);

    /* A pad needs room for its header, but at the end of a ring or segment. */
    if (top != end && top - end < KV_RECORD_HEADER && (top & (s->boundary - 1)) != 0)
        top += KV_BLOCK;
    return top;
}

uint64_t kv_swap_next(const struct kv_store *s, uint64_t address)
{
    uint32_t i = swap_at(s, address);

    return i < s->swaps_count ? kv_swap_write_end(s, s->swaps[i].address) : UINT64_MAX;
}

void kv_swap_forget(struct kv_store *s, const struct kv_segment *g)
{
    uint64_t end = (g->number + 1) * s->opts.segment_bytes;
    uint32_t gone = 0;

    if (g->swaps == 0)
        return;
    /* Only the oldest segment goes with exchanges in it (C3): they are the first. */
    while (gone < s->swaps_count && s->swaps[gone].address < end)
        gone++;
    if (gone == 0)
        return;
    swap_map_from(s, s->swap_from > gone ? s->swap_from : gone);
    s->swap_from -= gone;
    s->swap_to -= gone;
    s->swaps_count -= gone;
    memmove(s->swaps, s->swaps + gone, s->swaps_count * sizeof(*s->swaps));
}

uint32_t kv_swap_other(const struct kv_record *r, const unsigned char *value)
{
    return r->value_size == 2 ? snic_get_le16(value) : UINT16_MAX;
}

static void swap_rehash(void *ctx, struct kv_entry *e)
{
    unsigned char hash[16];

    kv_store_hash(ctx, e->database, e->key, e->key_size, hash, &e->hash, &e->hash_high);
}

void kv_swap_index(struct kv_store *s, const uint16_t *number)
{
    kv_index_renumber(&s->index, number, swap_rehash, s);
}
