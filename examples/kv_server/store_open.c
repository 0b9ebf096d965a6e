/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store from its opening to its closing, and its background work: flush,
 * sync, expiry, cache walk, compaction.
 */
#include "store_priv.h"

#include <stdio.h>
#include <stdlib.h>

#define KV_TICK_NS 100000000u
#define KV_IDLE_FLUSH_BYTES (256u * 1024)
#define KV_EXPIRE_LOOK 200u /* keys looked at per tick */

/* ---- Background ---- */

static void store_expire_visit(void *ctx, struct kv_entry *e)
{
    struct kv_store *s = ctx;
    uint64_t end;

    if (e->expire_ms != 0 && e->expire_ms <= kv_store_wall_ms(s) &&
        kv_store_delete(s, e, &end) == 0)
        s->stats.expired++;
}

static int store_has_expires(const struct kv_store *s)
{
    for (uint32_t d = 0; d < s->index.databases; d++)
        if (s->index.expires[d] != 0)
            return 1;
    return 0;
}

static void store_work(struct snic_loop_msg *m)
{
    struct kv_store *s = SNIC_CONTAINER(m, struct kv_store, kick);

    s->kicked = 0;
    if (s->flush_error == 0 &&
        (s->opts.sync == KV_SYNC_ALWAYS || s->room_wanted || s->closing ||
         s->written < s->sync_until || s->compact.phase == KV_COMPACT_SETTLE ||
         s->tail - s->written >= KV_IDLE_FLUSH_BYTES))
        kv_log_flush(s);
    if (s->compact.phase == KV_COMPACT_SYNC || s->closing ||
        (s->synced < s->sync_until && s->written >= s->sync_until && s->flush_error == 0))
        kv_log_sync(s);
    kv_log_create_ahead(s);
    if (!s->closing) {
        kv_store_cache_walk(s);
        kv_compact_step(s);
    }
    if (s->room_wanted && s->room_progress != s->progress && s->opts.room != NULL) {
        s->room_progress = s->progress;
        s->room_wanted = 0;
        s->opts.room(s->opts.ctx); /* requests that still find no room set it again */
    }
}

static void store_tick(struct snic_timer *t, uint64_t now)
{
    struct kv_store *s = SNIC_CONTAINER(t, struct kv_store, timer);

    kv_store_wall_sync(s);
    if (s->flush_error != 0) {
        if (now >= s->next_retry_ns) {
            s->next_retry_ns = now + 1000000000u;
            kv_log_flush(s);
        }
    } else {
        kv_log_flush(s); /* what lay idle for a tick */
    }
    if (s->opts.sync == KV_SYNC_INTERVAL && now >= s->next_sync_ns) {
        s->next_sync_ns = now + (uint64_t)s->opts.sync_interval_ms * 1000000u;
        if (s->flush_error != 0)
            kv_log_sync(s); /* the other way to try again */
        else if (s->synced >= s->sync_until)
            s->sync_until = s->tail; /* all of it, however many segments that is */
    }
    if (store_has_expires(s) && !s->closing)
        s->expire_cursor =
            kv_index_scan(&s->index, s->expire_cursor, KV_EXPIRE_LOOK, store_expire_visit, s);
    s->create_full = 0; /* space may have come back by other ways */
    s->progress++;
    kv_store_kick(s);
    if (!s->closing)
        snic_loop_arm(s->opts.loop, &s->timer, now + s->tick_ns);
}

/* ---- Open, close ---- */

static int store_options(struct kv_store *s, const struct kv_store_opts *o, char *error,
                         size_t error_size)
{
    s->opts = *o;
    if (s->opts.segment_bytes == 0)
        s->opts.segment_bytes = 64u << 20;
    if (s->opts.flush_bytes_max == 0)
        s->opts.flush_bytes_max = 1u << 20;
    if (s->opts.hook_bytes_max == 0)
        s->opts.hook_bytes_max = UINT32_MAX;
    s->tick_ns = KV_TICK_NS;
    if (s->opts.sync == KV_SYNC_INTERVAL)
        s->tick_ns = snic_min_u64(s->tick_ns, snic_max_u64(s->opts.sync_interval_ms, 1) * 1000000u);
    if (!snic_is_pow2(s->opts.segment_bytes) || s->opts.segment_bytes > (1u << 31) ||
        s->opts.segment_bytes < KV_BLOCK || s->opts.memory_bytes < KV_BLOCK) {
        snprintf(error, error_size, "--segment must be a power of two up to 2G");
        return SNIC_EINVAL;
    }
    if (kv_record_bytes(s->opts.key_max, s->opts.value_max) + KV_RECORD_HEADER >
        snic_min_u64(snic_pow2_up(s->opts.memory_bytes), s->opts.segment_bytes)) {
        snprintf(error, error_size,
                 "--memory and --segment must hold the largest record (%zu bytes)",
                 kv_record_bytes(s->opts.key_max, s->opts.value_max));
        return SNIC_EINVAL;
    }
    return 0;
}

static void store_free(struct kv_store *s)
{
    kv_compact_fini(s);
    kv_log_close(s);
    kv_swap_close(s);
    kv_index_fini(&s->index);
    free(s);
}

/* The first segment must exist before the first record. */
static int store_first_segment(struct kv_store *s, char *error, size_t error_size)
{
    s->create_full = 0;
    kv_log_create_ahead(s);
    while (s->ahead < KV_AHEAD && !(s->create_full && s->creating == 0)) {
        kv_log_create_ahead(s);
        if (snic_loop_once(s->opts.loop, 1000000000u) < 0)
            return SNIC_EIO;
        if (!s->attached)
            return SNIC_EPEERDEAD;
    }
    s->written = s->flush_to = s->tail = (s->tail_segment + 1) * s->opts.segment_bytes;
    s->head = s->zeroed = s->synced = s->tail;
    if (s->ahead == 0) {
        /* Full: the log stands before a segment that is made when space comes back. */
        kv_store_log(s, 1, "no space for a log segment: read-only until keys are deleted");
        s->stats.no_space = 1;
        snprintf(error, error_size, "no space for one log segment of %llu bytes (--segment)",
                 (unsigned long long)s->opts.segment_bytes);
        return s->live_segments == 0 ? SNIC_ENOSPC : 0;
    }
    return 0;
}

int kv_store_open(struct kv_store **out, const struct kv_store_opts *o, char *error,
                  size_t error_size)
{
    struct kv_store *s = calloc(1, sizeof(*s));
    int r;

    snprintf(error, error_size, "out of memory for the store (--memory)");
    if (s == NULL)
        return SNIC_ENOMEM;
    r = store_options(s, o, error, error_size);
    if (r == 0)
        r = kv_index_init(&s->index, s->opts.databases);
    if (r == 0)
        r = kv_swap_open(s);
    if (r == 0)
        r = kv_log_open(s);
    if (r != 0) {
        store_free(s);
        return r;
    }
    s->attached = 1;
    s->kick.fn = store_work;
    snic_timer_init(&s->timer, store_tick);
    s->kicked = 1; /* no background work during recovery */
    kv_store_wall_sync(s);
    r = kv_recover(s, error, error_size);
    if (r == 0)
        r = store_first_segment(s, error, error_size);
    if (r != 0) {
        store_free(s);
        return r;
    }
    s->kicked = 0;
    s->attach_version = s->version;
    s->old_until = s->tail;
    s->caching = s->opts.cache != NULL;
    snic_loop_arm(s->opts.loop, &s->timer, snic_loop_now(s->opts.loop) + s->tick_ns);
    kv_store_kick(s);
    *out = s;
    return 0;
}

/* How long the files below may make no progress; 0: for ever. */
struct store_patience {
    uint64_t ns;
    uint64_t since_ns;
    uint64_t written;
    uint64_t synced;
    uint64_t requests;
};

/* One iteration of the loop. 0; SNIC_EIO; SNIC_ETIMEDOUT */
static int store_turn(struct kv_store *s, struct store_patience *p)
{
    uint64_t now;

    if (snic_loop_once(s->opts.loop, 1000000000u) < 0)
        return SNIC_EIO;
    now = snic_loop_now(s->opts.loop);
    if (p->since_ns == 0 || p->written != s->written || p->synced != s->synced ||
        p->requests != s->requests) {
        p->since_ns = now;
        p->written = s->written;
        p->synced = s->synced;
        p->requests = s->requests;
    }
    return p->ns != 0 && now - p->since_ns >= p->ns ? SNIC_ETIMEDOUT : 0;
}

/* Run the loop until no request is below; one that ends may let a command begin another. */
static int store_settle(struct kv_store *s, struct store_patience *p)
{
    int r = 0;

    while (s->attached && s->requests > 0 && r == 0)
        r = store_turn(s, p);
    return r;
}

int kv_store_finish(struct kv_store *s, uint64_t patience_ns)
{
    struct store_patience p = {.ns = patience_ns};
    int failed = 0;
    int r;

    s->closing = 1;
    do {
        r = store_settle(s, &p);
        while (s->attached && r == 0 && !failed &&
               (s->written < s->tail || s->synced < s->written)) {
            kv_log_flush(s);
            if (!s->flushing)
                kv_log_sync(s);
            r = store_turn(s, &p);
            failed = s->flush_error != 0;
        }
        if (r == 0)
            r = store_settle(s, &p);
        while (s->kicked) /* the deferred message is the loop's until it has run */
            if (snic_loop_once(s->opts.loop, 0) < 0)
                break;
    } while (s->attached && r == 0 && (s->requests > 0 || (!failed && s->written < s->tail)));
    return r != 0 ? r : failed || s->written < s->tail ? SNIC_EIO : 0;
}

int kv_store_close(struct kv_store *s)
{
    int r = kv_store_finish(s, 0);

    snic_loop_cancel(s->opts.loop, &s->timer);
    store_free(s);
    return r;
}

int kv_store_check(struct kv_store *s)
{
    uint64_t live = 0;

    if (!(s->head <= s->written && s->written <= s->tail && s->tail <= s->zeroed) ||
        s->zeroed > s->head + s->ring_bytes) /* L1 */
        return SNIC_ECORRUPT;
    for (uint64_t i = 0; i < s->segments_count; i++)
        if (s->segments[i] != NULL) {
            if (s->segments[i]->live > s->opts.segment_bytes)
                return SNIC_ECORRUPT;
            live += s->segments[i]->live;
        }
    if (live != s->stats.live_bytes)
        return SNIC_ECORRUPT;
    return kv_index_check(&s->index);
}

void kv_store_get_stats(const struct kv_store *s, struct kv_engine_stats *out)
{
    *out = s->stats;
    for (uint32_t d = 0; d < s->index.databases; d++)
        out->keys += s->index.counts[d];
    out->segments = s->live_segments;
    out->log_bytes = (uint64_t)s->live_segments * s->opts.segment_bytes;
    out->memory_used = s->index.bytes + (s->zeroed - s->head);
}
