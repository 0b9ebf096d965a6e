/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which segment is to be compacted, if any (compact.c). */
#include "store_priv.h"

#define KV_COMPACT_MIN 4u /* segments, below which nothing is compacted for tidiness */
#define KV_FREED_NS 5000000000u

struct kv_segment *kv_compact_oldest(const struct kv_store *s)
{
    for (uint64_t i = 0; i < s->segments_count; i++)
        if (s->segments[i] != NULL && s->segments[i]->state >= KV_SEGMENT_TAIL)
            return s->segments[i];
    return NULL;
}

/* The bytes of records that need not be copied; @p oldest: deletions neither (C1). */
static uint64_t compact_gain(const struct kv_segment *g, int oldest)
{
    uint64_t keep = g->live + (oldest ? 0 : g->kept);

    return g->used > keep ? g->used - keep : 0;
}

/*
 * The sealed, written segment with the most dead bytes, if that is worth the copying.
 * When space is short an eighth of a segment is; and if deletions take so much, the oldest
 * segment is copied to get at them. Each compaction frees that much of the log, so it ends
 * when nothing is written.
 */
struct kv_segment *kv_compact_victim(const struct kv_store *s)
{
    const struct kv_segment *oldest = kv_compact_oldest(s);
    uint64_t worth = s->opts.segment_bytes / 8;
    uint64_t total = 0;
    uint64_t sealed = 0;
    uint64_t most = 0;
    uint64_t kept = 0;
    struct kv_segment *best = NULL;
    struct kv_segment *first = NULL;
    uint64_t limit = s->opts.device_bytes / s->opts.segment_bytes;
    int tight = s->create_full || s->ahead <= KV_RESERVE ||
                (limit != 0 && (uint64_t)s->live_segments * 4 >= limit * 3);

    for (uint64_t i = 0; i < s->segments_count; i++) {
        struct kv_segment *g = s->segments[i];
        uint64_t gain;

        if (g == NULL || g->state != KV_SEGMENT_SEALED ||
            (g->number + 1) * s->opts.segment_bytes > s->written)
            continue;
        gain = compact_gain(g, g == oldest);
        first = g == oldest ? g : first;
        sealed++;
        total += s->opts.segment_bytes;
        kept += g->kept;
        if (g->swaps > 0 && g != oldest) { /* C3: its bytes wait for the older segments */
            kept += gain;
            continue;
        }
        if (best == NULL || gain > most) {
            best = g;
            most = gain;
        }
    }
    if (best == NULL)
        return NULL;
    if (tight && most >= worth)
        return best;
    if (tight)
        return first != NULL && kept >= 2 * worth ? first : NULL;
    if (sealed < KV_COMPACT_MIN || s->stats.live_bytes * 2 > total)
        return NULL;
    return most * 2 >= s->opts.segment_bytes ? best : NULL;
}

int kv_compact_promises(const struct kv_store *s)
{
    const struct kv_compact *c = &s->compact;

    if (c->phase != KV_COMPACT_IDLE)
        return !c->stuck;
    for (uint64_t i = 0; i < s->segments_count; i++)
        if (s->segments[i] != NULL && s->segments[i]->state == KV_SEGMENT_DELETING)
            return 1;
    /* A deletion's space is free a little later: the file service waits for its readers. */
    if (c->freed_ns != 0 && snic_loop_now(s->opts.loop) - c->freed_ns < KV_FREED_NS)
        return 1;
    return s->attached && s->ahead > 0 && kv_compact_victim(s) != NULL;
}
