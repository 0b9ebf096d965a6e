/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Prefetching: detection of sequential streams, and the pages to fetch ahead of them.
 *
 * The control plane sees misses only. A second miss in sequence opens a window, further ones and
 * reached marks double it. The first page of every batch is marked AHEAD: the host's first hit of
 * it shows that the reader has got there, and the next batch is fetched while it still reads this
 * one (as Linux's readahead does). Nothing there, or nothing behind: the stream is forgotten.
 *
 * Random reads look like short streams where many pages of a file are in use, and what is fetched
 * for them takes the places of pages that are. So windows are bounded by what becomes of the pages:
 * if more than an eighth of them are evicted without a hit, the bound is halved, down to a page;
 * if no more than one in thirty-two, it is doubled.
 */
#include "snicstore/hcache.h"

#include "hcache/control_priv.h"

#include <string.h>

#define SNIC_HCACHE__WINDOW_MIN 4u
#define SNIC_HCACHE__ACCOUNT 32u /* pages after which the bound is looked at */

static void prefetch_extend(struct snic_hcache_control *c, struct hcache_stream *s, uint64_t to)
{
    uint64_t most = s->next + 2 * (uint64_t)c->prefetch_max;

    if (most < s->next)
        return;
    to = snic_min_u64(to, most);
    if (s->from < s->next)
        s->from = s->next;
    if (to <= s->from)
        return;
    if (s->to < to) {
        if (s->to <= s->from)
            s->mark = 1;
        s->to = to;
    }
    c->streams_open |= UINT64_C(1) << (s - c->stream);
}

static void prefetch_wider(const struct snic_hcache_control *c, struct hcache_stream *s)
{
    s->window = s->window * 2 < SNIC_HCACHE__WINDOW_MIN ? SNIC_HCACHE__WINDOW_MIN : s->window * 2;
    if (s->window > c->window_max)
        s->window = c->window_max;
}

void hcache_prefetch_account(struct snic_hcache_control *c, uint32_t landed, uint32_t wasted)
{
    c->landed += landed;
    c->wasted += wasted;
    if (c->landed < SNIC_HCACHE__ACCOUNT && c->wasted < SNIC_HCACHE__ACCOUNT)
        return;
    if (c->wasted > c->landed / 8)
        c->window_max = c->window_max > 1 ? c->window_max / 2 : 1;
    else if (c->wasted <= c->landed / 32)
        c->window_max = (uint32_t)snic_min_u64(c->window_max * UINT64_C(2), c->prefetch_max);
    c->landed = 0;
    c->wasted = 0;
}

void hcache_prefetch_miss(struct snic_hcache_control *c, uint64_t ino, uint64_t lpn, uint32_t count)
{
    struct hcache_stream *oldest = &c->stream[0];
    uint64_t end = lpn + (count != 0 ? count : 1);
    uint32_t i;

    if (c->prefetch_max == 0 || end < lpn)
        return;
    for (i = 0; i < SNIC_HCACHE_STREAMS; i++) {
        struct hcache_stream *s = &c->stream[i];

        if (s->used != 0 && s->ino == ino && lpn >= s->next &&
            lpn <= snic_max_u64(s->next, s->to)) {
            s->used = ++c->stream_clock;
            s->next = end;
            prefetch_wider(c, s);
            prefetch_extend(c, s, end + s->window);
            return;
        }
        if (s->used < oldest->used)
            oldest = s;
    }
    memset(oldest, 0, sizeof(*oldest));
    c->streams_open &= ~(UINT64_C(1) << (oldest - c->stream));
    oldest->ino = ino;
    oldest->next = oldest->from = oldest->to = end;
    oldest->used = ++c->stream_clock;
    if (lpn == 0) { /* most files are read from their beginning to their end */
        prefetch_wider(c, oldest);
        prefetch_extend(c, oldest, end + oldest->window);
    }
}

void hcache_prefetch_ahead(struct snic_hcache_control *c, uint64_t ino, uint64_t lpn)
{
    uint32_t i;

    for (i = 0; i < SNIC_HCACHE_STREAMS && c->prefetch_max != 0; i++) {
        struct hcache_stream *s = &c->stream[i];

        if (s->used != 0 && s->ino == ino && lpn < s->to &&
            s->to - lpn <= 4 * (uint64_t)c->prefetch_max) {
            s->used = ++c->stream_clock;
            s->next = snic_max_u64(s->next, lpn + 1);
            prefetch_wider(c, s);
            prefetch_extend(c, s, s->to + s->window);
            return;
        }
    }
}

/* The file ends here, or the store has failed. */
void hcache_prefetch_forget(struct snic_hcache_control *c, uint64_t ino, uint64_t lpn)
{
    uint32_t i;

    for (i = 0; i < SNIC_HCACHE_STREAMS; i++) {
        struct hcache_stream *s = &c->stream[i];

        if (s->used != 0 && s->ino == ino && lpn < s->to && s->next <= lpn) {
            s->to = s->from;
            s->window = 0;
            c->streams_open &= ~(UINT64_C(1) << i);
        }
    }
}
