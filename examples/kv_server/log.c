/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The hybrid log: appending, room, segments, and the one log write in flight.
 * Invariants L1..L6 are in store_priv.h.
 */
#include "store_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Writers of all tenants wait for the log write: it goes in front of its tenant's reads. */
#define KV_LOG_PRIORITY 7
#define KV_RETRY_NS 1000000000u /* between attempts of a failed log write */

static uint64_t log_segment_of(const struct kv_store *s, uint64_t address)
{
    return address / s->opts.segment_bytes;
}

unsigned char *kv_log_at(const struct kv_store *s, uint64_t address)
{
    return s->ring + (address & (s->ring_bytes - 1));
}

static void log_created(struct kv_file_req *r)
{
    struct kv_segment *g = SNIC_CONTAINER(r, struct kv_segment, req);
    struct kv_store *s = g->store;

    if (kv_store_parked(s, r))
        return;
    s->creating--;
    s->progress++;
    if (r->result < 0) {
        if (r->result != SNIC_ENOSPC)
            kv_store_log(s, 0, "cannot create log segment %s: %s", r->name,
                         snic_strerror((int)r->result));
        s->create_full = 1;
        s->segments_count--; /* it is the last one: creations go one at a time */
        kv_log_segment_drop(s, g);
        kv_store_kick(s);
        return;
    }
    s->create_full = 0;
    g->file = r->file;
    g->state = KV_SEGMENT_READY;
    s->ahead++;
    if (s->stats.no_space && s->ahead > KV_RESERVE) {
        s->stats.no_space = 0;
        kv_store_log(s, 2, "writes are accepted again");
    }
    kv_store_kick(s);
}

void kv_log_create_ahead(struct kv_store *s)
{
    struct kv_segment *g;
    uint64_t limit = s->opts.device_bytes / s->opts.segment_bytes;

    if (s->creating > 0 || (s->ahead >= KV_AHEAD && s->ahead >= s->ahead_wanted) ||
        s->create_full || s->closing)
        return;
    if (s->opts.device_bytes != 0 && s->live_segments >= limit) {
        s->create_full = 1;
        return;
    }
    g = kv_log_segment_add(s, s->tail_segment + s->ahead + 1);
    if (g == NULL)
        return;
    g->state = KV_SEGMENT_CREATING;
    g->req.op = KV_FILE_CREATE;
    g->req.size = s->opts.segment_bytes;
    snprintf(g->req.name, sizeof(g->req.name), "log-%016" PRIx64, g->number);
    s->creating++;
    kv_store_submit(s, &g->req, log_created);
}

int kv_log_open(struct kv_store *s)
{
    uint64_t ring = snic_pow2_up(s->opts.memory_bytes);

    s->ring = mmap(NULL, ring, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->ring == MAP_FAILED) {
        s->ring = NULL;
        return SNIC_ENOMEM;
    }
    s->ring_bytes = ring;
    s->boundary = snic_min_u64(ring, s->opts.segment_bytes);
    return 0;
}

void kv_log_close(struct kv_store *s)
{
    for (uint64_t i = 0; i < s->segments_count; i++)
        free(s->segments[i]);
    free(s->segments);
    if (s->ring != NULL)
        munmap(s->ring, s->ring_bytes);
}

/* Can [tail, end) be written to the ring, old records making room (L1)? */
static int log_room(struct kv_store *s, uint64_t end)
{
    uint64_t top = snic_align_up(end, KV_BLOCK);

    if (top > s->head + s->ring_bytes) {
        uint64_t want = top - s->ring_bytes;

        /* The block that the next write starts in stays: it is written again. */
        if (want > snic_align_down(s->written, KV_BLOCK))
            return 0;
        s->head = want;
    }
    if (top > s->zeroed) { /* L3 */
        uint64_t from = s->zeroed;

        while (from < top) {
            uint64_t piece = snic_min_u64(top - from, s->ring_bytes - (from & (s->ring_bytes - 1)));

            memset(kv_log_at(s, from), 0, piece);
            from += piece;
        }
        s->zeroed = top;
    }
    return 1;
}

/* Bytes behind the tail in its segment: none before the first append, and none at its very end. */
static uint64_t log_left(const struct kv_store *s)
{
    return (s->tail_segment + 1) * s->opts.segment_bytes - s->tail;
}

/* Why there is no next segment: it is being made or made room for, or the device is full. */
static int log_no_segment(struct kv_store *s, int reserve)
{
    int waits = reserve != KV_FOR_SPACE && kv_compact_promises(s); /* not on itself */

    kv_log_create_ahead(s);
    kv_store_kick(s);
    s->space_short = s->create_full && s->creating == 0;
    if (!s->create_full || s->creating > 0 || waits)
        return SNIC_EAGAIN;
    /* Until a whole segment is free again; a command of several may find too few of them. */
    if (reserve == KV_FOR_DATA && !s->stats.no_space && s->ahead <= KV_RESERVE) {
        s->stats.no_space = 1;
        kv_store_log(s, 1, "no space left in '%s': writes are refused until keys are deleted",
                     s->opts.name != NULL ? s->opts.name : "the store");
    }
    return SNIC_ENOSPC;
}

/* Continue in the next segment. 0; SNIC_EAGAIN it is being made; SNIC_ENOSPC */
static int log_next_segment(struct kv_store *s, int reserve)
{
    struct kv_segment *old = kv_log_segment(s, s->tail_segment);
    struct kv_segment *next = kv_log_segment(s, s->tail_segment + 1);

    if (s->ahead <= KV_RESERVE - (uint32_t)reserve)
        return log_no_segment(s, reserve);
    SNIC_ASSERT(next != NULL);
    SNIC_ASSERT(next->state == KV_SEGMENT_READY);
    if (old != NULL && old->state == KV_SEGMENT_TAIL) /* else compaction may be at it */
        old->state = KV_SEGMENT_SEALED;
    next->state = KV_SEGMENT_TAIL;
    s->tail_segment++;
    s->ahead--;
    s->tail = s->tail_segment * s->opts.segment_bytes;
    if (s->zeroed < s->tail)
        s->zeroed = s->tail;
    kv_log_create_ahead(s);
    return 0;
}

/* Fill up to the next boundary with a pad record, or with zeros where none fits (L2). */
static int log_pad(struct kv_store *s, int reserve)
{
    uint64_t left = s->boundary - (s->tail & (s->boundary - 1));
    uint64_t end = s->tail + left;
    int last = (end & (s->opts.segment_bytes - 1)) == 0;
    struct kv_segment *g = kv_log_segment(s, s->tail_segment);

    if (last && s->ahead <= KV_RESERVE - (uint32_t)reserve)
        return log_next_segment(s, reserve); /* it returns the reason */
    if (!log_room(s, end))
        return SNIC_EAGAIN;
    if (left >= KV_RECORD_HEADER) {
        struct kv_record pad = {.type = KV_RECORD_PAD, .file = g->file};

        pad.value_size = (uint32_t)(left - KV_RECORD_HEADER);
        kv_record_encode(kv_log_at(s, s->tail), &pad, "", "");
    }
    s->tail = end;
    return last ? log_next_segment(s, reserve) : 0;
}

int kv_store_check_room(struct kv_store *s, uint64_t bytes, uint64_t record, int deletes)
{
    /* Each boundary that is crossed wastes less than one record. */
    uint64_t need = bytes + (bytes / s->boundary + 1) * record;
    uint64_t left = log_left(s);
    uint32_t keep = KV_RESERVE - (deletes ? KV_FOR_DELETE : KV_FOR_DATA);

    s->space_short = 0;
    if (s->flush_error != 0)
        return SNIC_EIO;
    if (need > s->ring_bytes - 2 * KV_BLOCK)
        return SNIC_EMSGSIZE;
    if (need > left)
        keep += (uint32_t)((need - left + s->opts.segment_bytes - 1) / s->opts.segment_bytes);
    s->ahead_wanted = s->ahead < keep ? keep : 0;
    if (s->ahead < keep) {
        s->room_wanted = 1;
        return log_no_segment(s, deletes ? KV_FOR_DELETE : KV_FOR_DATA);
    }
    if (snic_align_up(s->tail + need, KV_BLOCK) >
        snic_align_down(s->written, KV_BLOCK) + s->ring_bytes) {
        s->room_wanted = 1;
        kv_store_kick(s);
        return SNIC_EAGAIN;
    }
    return 0;
}

int kv_store_space_short(const struct kv_store *s)
{
    return s->space_short;
}

/* The tenant that pays for the next log write: the one with most of it, in one pass, two words. */
static void log_vote(struct kv_store *s, uint64_t bytes)
{
    if (s->tenant == s->vote_tenant) {
        s->vote_bytes += bytes;
    } else if (s->vote_bytes >= bytes) {
        s->vote_bytes -= bytes;
    } else {
        s->vote_bytes = bytes - s->vote_bytes;
        s->vote_tenant = s->tenant;
    }
}

/* Nothing else is written in the blocks of the exchange at @p address (L7); there is room. */
static void log_end_block(struct kv_store *s, uint64_t address)
{
    struct kv_record pad = {.type = KV_RECORD_PAD};
    uint64_t left = kv_swap_write_end(s, address) - s->tail;

    pad.file = kv_log_segment(s, s->tail_segment)->file;
    if (left >= KV_RECORD_HEADER) {
        pad.value_size = (uint32_t)(left - KV_RECORD_HEADER);
        kv_record_encode(kv_log_at(s, s->tail), &pad, "", "");
    }
    s->tail += left;
}

int kv_log_append(struct kv_store *s, struct kv_record *r, const void *key, const void *value,
                  int reserve, uint64_t *address)
{
    uint64_t bytes = kv_record_bytes(r->key_size, r->value_size);
    unsigned char *out;

    s->space_short = 0;
    if (s->flush_error != 0 && s->failing_ns != 0)
        return SNIC_EIO;
    SNIC_ASSERT(bytes <= s->boundary);
    if (s->ahead < KV_RESERVE - (uint32_t)reserve) { /* the tail's own segment is of the reserve */
        int e = log_no_segment(s, reserve);

        s->room_wanted |= e == SNIC_EAGAIN;
        return e;
    }
    if (log_left(s) == 0) {                   /* or the last record ended where its segment does */
        int e = log_next_segment(s, reserve); /* the first append since the start */

        if (e != 0) {
            s->room_wanted |= e == SNIC_EAGAIN;
            return e;
        }
    }
    while (s->boundary - (s->tail & (s->boundary - 1)) < bytes) {
        int e = log_pad(s, reserve);

        if (e != 0) {
            s->room_wanted |= e == SNIC_EAGAIN;
            kv_store_kick(s);
            return e;
        }
    }
    if (!log_room(s, r->type == KV_RECORD_SWAP ? kv_swap_write_end(s, s->tail) : s->tail + bytes)) {
        s->room_wanted = 1;
        kv_store_kick(s);
        return SNIC_EAGAIN;
    }
    out = kv_log_at(s, s->tail);
    r->file = kv_log_segment(s, s->tail_segment)->file;
    memcpy(out + KV_RECORD_HEADER, key, r->key_size);
    if (r->value_size > 0)
        memcpy(out + KV_RECORD_HEADER + r->key_size, value, r->value_size);
    kv_record_encode(out, r, out + KV_RECORD_HEADER, out + KV_RECORD_HEADER + r->key_size);
    *address = s->tail;
    s->tail += bytes;
    if (r->type == KV_RECORD_SWAP)
        log_end_block(s, *address);
    log_vote(s, bytes);
    if (r->version <= s->attach_version)
        s->old_until = s->tail;
    kv_log_segment(s, s->tail_segment)->used += bytes;
    if (r->type == KV_RECORD_DEL || r->type == KV_RECORD_FLUSH)
        kv_log_segment(s, s->tail_segment)->kept += bytes;
    kv_log_segment(s, s->tail_segment)->swaps += r->type == KV_RECORD_SWAP;
    kv_store_kick(s);
    return 0;
}

/* Whole records from `written` up to flush_bytes_max, at least one (L2 keeps them in one piece). */
static uint64_t log_flush_end(const struct kv_store *s)
{
    uint64_t limit = snic_align_down(s->written, s->boundary) + s->boundary;
    uint64_t at = s->written;

    limit = snic_min_u64(limit, s->tail);
    /* A torn write must not keep what lies behind an exchange of databases without it (L7). */
    limit = snic_min_u64(limit, kv_swap_next(s, s->written));
    if (limit - s->written <= s->opts.flush_bytes_max)
        return limit;
    while (at < limit) {
        const unsigned char *h = kv_log_at(s, at);
        uint64_t left = s->boundary - (at & (s->boundary - 1));
        uint64_t bytes;

        if (left < KV_RECORD_HEADER || snic_get_le32(h) != KV_RECORD_MAGIC)
            bytes = left;
        else
            bytes = kv_record_bytes(snic_get_le32(h + 24), snic_get_le32(h + 28));
        if (at > s->written && at + bytes - s->written > s->opts.flush_bytes_max)
            break;
        at += bytes;
    }
    return at;
}

/* Where the hook has not inserted what was written, send the entries to the DPU. */
static void log_cache_written(struct kv_store *s, uint64_t from, uint64_t to)
{
    while (from < to && from >= s->head) {
        const unsigned char *key;
        const unsigned char *value;
        struct kv_record r;
        int64_t n = kv_record_decode(&r, kv_log_at(s, from), (size_t)(to - from), &key, &value);
        struct kv_entry *e;
        unsigned char hash[16];
        uint64_t low;
        uint64_t high;

        if (n <= 0)
            break; /* zeros before a boundary */
        if (r.type == KV_RECORD_SET) {
            kv_store_hash(s, r.database, key, r.key_size, hash, &low, &high);
            e = kv_index_find(&s->index, low, r.database, key, r.key_size);
            if (e != NULL && e->address == from && kv_store_cache(s, e) != 0) {
                s->caching = 1; /* the walk will come to it */
                s->cache_cursor = 0;
                s->cache_blocked = 1;
                return;
            }
        }
        from += (uint64_t)n;
    }
}

static void log_flush_failed(struct kv_store *s, int error)
{
    uint64_t now = snic_loop_now(s->opts.loop);

    if (s->flush_error == 0)
        kv_store_log(s, 0, "cannot write the log: %s; retrying every second", snic_strerror(error));
    s->flush_error = error;
    s->stats.errors++;
    s->stats.read_only = 1;
    if (s->failing_ns == 0)
        s->failing_ns = now;
    if (now - s->failing_ns >= 5 * (uint64_t)KV_RETRY_NS && !s->failed_logged) {
        s->failed_logged = 1;
        if (s->opts.failed != NULL)
            s->opts.failed(s->opts.ctx, error);
    }
}

static void log_recovered(struct kv_store *s)
{
    if (s->flush_error != 0)
        kv_store_log(s, 2, "log writes succeed again");
    s->flush_error = 0;
    s->failing_ns = 0;
    s->failed_logged = 0;
    s->stats.read_only = 0;
}

static void log_flushed(struct kv_file_req *r)
{
    struct kv_store *s = r->owner;
    uint64_t from = s->written;
    uint64_t size = r->size;

    if (kv_store_parked(s, r))
        return;
    s->flushing = 0;
    s->progress++;
    if (r->result < 0 || (uint64_t)r->result != size) {
        log_flush_failed(s, r->result < 0 ? (int)r->result : SNIC_EIO);
        return; /* the timer tries again */
    }
    log_recovered(s);
    s->stats.flushes++;
    s->stats.flush_bytes += size;
    s->written = s->flush_to;
    if (size > s->opts.hook_bytes_max || from < s->old_until)
        log_cache_written(s, from, s->written);
    if (s->opts.sync == KV_SYNC_ALWAYS && s->opts.durable != NULL)
        s->opts.durable(s->opts.ctx, s->written);
    kv_store_kick(s);
}

/* What the DPU should know of the write of [written, flush_to), which begins at @p start. */
static void log_write_tag(const struct kv_store *s, const struct kv_segment *g, uint64_t start,
                          unsigned char out[16])
{
    uint64_t number = log_segment_of(s, s->head);
    const struct kv_segment *head = kv_log_segment(s, number);
    struct kv_write_tag t = {.begin = (uint32_t)(s->written - start),
                             .end = (uint32_t)(s->flush_to - start),
                             .head_back = KV_HEAD_NONE};

    while (head == NULL) /* compacted: the next that is there, the write's own at last */
        head = kv_log_segment(s, ++number);
    if (g->file - head->file < KV_HEAD_NONE) { /* ids grow */
        t.head_back = (uint32_t)(g->file - head->file);
        if (number == log_segment_of(s, s->head))
            t.head_offset = (uint32_t)(s->head & (s->opts.segment_bytes - 1));
    }
    kv_write_tag_put(out, &t);
}

void kv_log_flush(struct kv_store *s)
{
    uint64_t start = snic_align_down(s->written, KV_BLOCK);
    struct kv_segment *g;

    if (s->flushing || s->written == s->tail)
        return;
    /* A finished segment ends exactly where the next begins. */
    s->flush_to = log_flush_end(s);
    s->flushing = 1;
    g = kv_log_segment(s, log_segment_of(s, s->written));
    SNIC_ASSERT(g != NULL);
    s->flush.op = KV_FILE_WRITE;
    s->flush.tenant = s->vote_tenant;
    s->flush.priority = KV_LOG_PRIORITY;
    s->vote_bytes = 0;
    s->flush.sync =
        s->opts.sync == KV_SYNC_ALWAYS || kv_swap_next(s, s->written) == s->flush_to; /* L7 */
    s->flush.file = g->file;
    s->flush.offset = start & (s->opts.segment_bytes - 1);
    s->flush.size = snic_align_up(s->flush_to, KV_BLOCK) - start;
    s->flush.data = kv_log_at(s, start);
    log_write_tag(s, g, start, s->flush.tag);
    s->flush.owner = s;
    kv_store_submit(s, &s->flush, log_flushed);
}

static void log_synced(struct kv_file_req *r)
{
    struct kv_store *s = r->owner;

    if (kv_store_parked(s, r))
        return;
    s->syncing = 0;
    if (r->result < 0) {
        log_flush_failed(s, (int)r->result);
        return;
    }
    s->synced = s->sync_target;
    if (s->written == s->tail) /* else the next write has to show it */
        log_recovered(s);
    kv_store_kick(s);
}

void kv_log_sync(struct kv_store *s)
{
    struct kv_segment *g;
    uint64_t end;

    if (s->opts.sync == KV_SYNC_ALWAYS)
        s->synced = s->written;
    if (s->syncing || s->synced >= s->written)
        return;
    /* Segment by segment: an fsync is per file. */
    end = snic_align_down(s->synced, s->opts.segment_bytes) + s->opts.segment_bytes;
    s->sync_target = snic_min_u64(end, s->written);
    g = kv_log_segment(s, log_segment_of(s, s->synced));
    if (g == NULL || g->state == KV_SEGMENT_DELETING) {
        s->synced = s->sync_target;
        kv_store_kick(s);
        return;
    }
    s->syncing = 1;
    s->sync_req.op = KV_FILE_FSYNC;
    s->sync_req.file = g->file;
    s->sync_req.owner = s;
    kv_store_submit(s, &s->sync_req, log_synced);
}
