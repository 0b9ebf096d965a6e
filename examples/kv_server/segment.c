/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The segments of the log: their table, and how many bytes of each are live. */
#include "store_priv.h"

#include <stdlib.h>
#include <string.h>

struct kv_segment *kv_log_segment(const struct kv_store *s, uint64_t number)
{
    if (number < s->segments_first || number - s->segments_first >= s->segments_count)
        return NULL;
    return s->segments[number - s->segments_first];
}

/* Make room for slot @p index of the segment table. */
static int log_table_grow(struct kv_store *s, uint64_t index)
{
    uint64_t room = s->segments_room == 0 ? 64 : s->segments_room;
    struct kv_segment **table;

    while (room <= index)
        room *= 2;
    if (room == s->segments_room)
        return 0;
    table = realloc(s->segments, room * sizeof(*table));
    if (table == NULL)
        return SNIC_ENOMEM;
    memset(table + s->segments_room, 0, (room - s->segments_room) * sizeof(*table));
    s->segments = table;
    s->segments_room = room;
    return 0;
}

struct kv_segment *kv_log_segment_add(struct kv_store *s, uint64_t number)
{
    struct kv_segment *g;

    if (s->segments_count == 0)
        s->segments_first = number;
    SNIC_ASSERT(number >= s->segments_first); /* callers add in ascending order */
    if (log_table_grow(s, number - s->segments_first) != 0)
        return NULL;
    g = calloc(1, sizeof(*g));
    if (g == NULL)
        return NULL;
    g->store = s;
    g->number = number;
    s->segments[number - s->segments_first] = g;
    if (s->segments_count <= number - s->segments_first)
        s->segments_count = number - s->segments_first + 1;
    s->live_segments++;
    return g;
}

void kv_log_segment_drop(struct kv_store *s, struct kv_segment *g)
{
    uint64_t gone = 0;

    kv_swap_forget(s, g);
    s->segments[g->number - s->segments_first] = NULL;
    s->live_segments--;
    free(g);
    while (gone < s->segments_count && s->segments[gone] == NULL)
        gone++;
    /* Shift only when half of the table is gone, so that the cost is amortised. */
    if (gone >= 32 && gone * 2 >= s->segments_count) {
        memmove(s->segments, s->segments + gone, (s->segments_count - gone) * sizeof(*s->segments));
        memset(s->segments + (s->segments_count - gone), 0, gone * sizeof(*s->segments));
        s->segments_first += gone;
        s->segments_count -= gone;
    }
}

void kv_log_live(struct kv_store *s, uint64_t address, uint64_t bytes)
{
    struct kv_segment *g = kv_log_segment(s, address / s->opts.segment_bytes);

    SNIC_ASSERT(g != NULL);
    g->live += bytes;
    s->stats.live_bytes += bytes;
}

void kv_log_dead(struct kv_store *s, uint64_t address, uint64_t bytes)
{
    struct kv_segment *g = kv_log_segment(s, address / s->opts.segment_bytes);

    SNIC_ASSERT(g != NULL);
    SNIC_ASSERT(g->live >= bytes);
    g->live -= bytes;
    s->stats.live_bytes -= bytes;
}
