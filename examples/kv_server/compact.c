/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Compaction: one victim segment at a time is read in pieces, its live records
 * are appended again with the versions they have, and when the copies are
 * durable the file is deleted.
 *   C1 a deletion (DEL, FLUSH) is dropped only from the oldest segment: every
 *      older version of its key lies before it in the log, so then none is left.
 *   C2 the file goes only when the copies survive power loss (in every sync mode)
 *      and no host read of it is in flight; offloaded reads are the file service's
 *      care.
 *   C3 an exchange of databases (SWAP) stays where it is: its segment is a victim only
 *      when it is the oldest, and what is copied from before it gets the present numbers.
 */
#include "store_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KV_COMPACT_PIECE (1u << 20)
#define KV_COMPACT_TURN 256 /* records copied per step */

void kv_compact_fini(struct kv_store *s)
{
    free(s->compact.buffer);
}

static void compact_read_done(struct kv_file_req *r)
{
    struct kv_store *s = r->owner;
    struct kv_compact *c = &s->compact;

    if (kv_store_parked(s, r))
        return;
    if (r->result < 0 || (uint64_t)r->result != r->size) {
        kv_store_log(s, 0, "compaction cannot read log segment %" PRIu64 ": %s", c->victim->number,
                     snic_strerror(r->result < 0 ? (int)r->result : SNIC_EIO));
        s->stats.errors++;
        c->victim->state = KV_SEGMENT_SEALED;
        c->victim->used = 0; /* not chosen again until restart */
        c->phase = KV_COMPACT_IDLE;
        return;
    }
    c->filled += (size_t)r->size;
    c->phase = KV_COMPACT_COPY;
    kv_store_kick(s);
}

/* Read the next piece behind what the buffer still holds. */
static void compact_read(struct kv_store *s)
{
    struct kv_compact *c = &s->compact;
    uint64_t from;

    memmove(c->buffer, c->buffer + c->at, c->filled - c->at);
    c->offset += c->at;
    c->filled -= c->at;
    c->at = 0;
    from = c->offset + c->filled;
    c->req.op = KV_FILE_READ;
    c->req.file = c->victim->file;
    c->req.offset = from;
    c->req.size = snic_min_u64(KV_COMPACT_PIECE, s->opts.segment_bytes - from);
    c->req.data = c->buffer + c->filled;
    c->req.owner = s;
    c->phase = KV_COMPACT_READ;
    kv_store_submit(s, &c->req, compact_read_done);
}

/* Append what is still live of one record. 0; SNIC_EAGAIN, SNIC_ENOSPC, SNIC_EIO: later. */
static int compact_record(struct kv_store *s, struct kv_record *r, const unsigned char *key,
                          const unsigned char *value, uint64_t address)
{
    unsigned char hash[16];
    uint64_t low;
    uint64_t high;
    uint64_t to;
    struct kv_entry *e;
    int error;

    if (r->type == KV_RECORD_PAD || r->type == KV_RECORD_SWAP) /* C3: nothing lies before it */
        return 0;
    if (r->database < s->index.databases)
        r->database = (uint16_t)kv_swap_database(s, r->database, address);
    if (r->type == KV_RECORD_FLUSH)
        return kv_compact_oldest(s) == s->compact.victim
                   ? 0
                   : kv_log_append(s, r, "", "", KV_FOR_SPACE, &to);
    kv_store_hash(s, r->database, key, r->key_size, hash, &low, &high);
    e = r->database < s->index.databases
            ? kv_index_find(&s->index, low, r->database, key, r->key_size)
            : NULL;
    if (r->type == KV_RECORD_DEL) {
        if (kv_compact_oldest(s) == s->compact.victim || (e != NULL && e->version > r->version))
            return 0; /* C1, or a newer record supersedes it */
        return kv_log_append(s, r, key, "", KV_FOR_SPACE, &to);
    }
    if (e == NULL || e->address != address)
        return 0;
    error = kv_log_append(s, r, key, value, KV_FOR_SPACE, &to);
    if (error != 0)
        return error;
    kv_log_dead(s, e->address, kv_record_bytes(e->key_size, e->value_size));
    e->address = to;
    e->flags |= KV_ENTRY_MOVED;
    kv_log_live(s, to, kv_record_bytes(e->key_size, e->value_size));
    s->stats.compacted_bytes += kv_record_bytes(e->key_size, e->value_size);
    return 0;
}

/* Copy a bounded number of records; asks for the next piece or ends the copying. */
static void compact_copy(struct kv_store *s)
{
    struct kv_compact *c = &s->compact;
    uint64_t base = c->victim->number * s->opts.segment_bytes;
    int at_end = c->offset + c->filled >= s->opts.segment_bytes;

    for (int turn = 0; turn < KV_COMPACT_TURN; turn++) {
        const unsigned char *key;
        const unsigned char *value;
        struct kv_record r;
        int error;
        int64_t n;

        if (c->filled - c->at < KV_RECORD_HEADER) {
            if (at_end)
                break;
            compact_read(s);
            return;
        }
        n = kv_record_decode(&r, c->buffer + c->at, c->filled - c->at, &key, &value);
        if (n == 0 && !at_end && kv_record_bytes(r.key_size, r.value_size) <= s->boundary) {
            compact_read(s);
            return;
        }
        if (n <= 0 || r.file != c->victim->file) {
            c->at += 8;
            turn -= (turn > 0); /* zeros and torn ends are cheap */
            continue;
        }
        error = compact_record(s, &r, key, value, base + c->offset + c->at);
        c->stuck = error == SNIC_ENOSPC;
        if (error != 0) {
            c->waits = s->progress + 1;
            return; /* no room now; the background work comes again */
        }
        c->at += (uint64_t)n < c->filled - c->at ? (size_t)n : c->filled - c->at;
    }
    if (at_end && c->filled - c->at < KV_RECORD_HEADER) {
        c->settle = s->tail;
        c->phase = KV_COMPACT_SETTLE;
    }
    kv_store_kick(s);
}

static void compact_deleted(struct kv_file_req *r)
{
    struct kv_segment *g = SNIC_CONTAINER(r, struct kv_segment, req);
    struct kv_store *s = g->store;

    if (kv_store_parked(s, r))
        return;
    if (r->result < 0 && r->result != SNIC_ENOENT)
        kv_store_log(s, 0, "cannot delete log segment %" PRIu64 ": %s", g->number,
                     snic_strerror((int)r->result));
    kv_log_segment_drop(s, g);
    s->create_full = 0;
    s->progress++;
    s->compact.freed_ns = snic_loop_now(s->opts.loop);
    s->stats.compactions++;
    kv_store_kick(s);
}

static void compact_delete(struct kv_store *s)
{
    struct kv_compact *c = &s->compact;
    struct kv_segment *g = c->victim;

    if (g->pins > 0)
        return; /* C2; the end of a read kicks the background work */
    SNIC_ASSERT(g->live == 0);
    g->state = KV_SEGMENT_DELETING;
    g->req.op = KV_FILE_DELETE;
    g->req.file = g->file;
    snprintf(g->req.name, sizeof(g->req.name), "log-%016" PRIx64, g->number);
    c->victim = NULL;
    c->phase = KV_COMPACT_IDLE;
    kv_store_submit(s, &g->req, compact_deleted);
}

static void compact_start(struct kv_store *s)
{
    struct kv_compact *c = &s->compact;
    struct kv_segment *g = kv_compact_victim(s);

    if (g == NULL)
        return;
    if (c->buffer == NULL)
        c->buffer = malloc((size_t)s->boundary + KV_COMPACT_PIECE);
    if (c->buffer == NULL)
        return;
    g->state = KV_SEGMENT_VICTIM;
    c->victim = g;
    c->offset = 0;
    c->filled = 0;
    c->at = 0;
    c->stuck = 0;
    if (g->live == 0 && kv_compact_oldest(s) == g) { /* nothing in it matters (C1) */
        c->settle = s->tail; /* what made its records dead must survive it */
        c->phase = KV_COMPACT_SETTLE;
        kv_store_kick(s);
    } else {
        compact_read(s);
    }
}

void kv_compact_step(struct kv_store *s)
{
    struct kv_compact *c = &s->compact;

    switch (c->phase) {
    case KV_COMPACT_IDLE:
        if (s->attached && s->ahead > 0) /* so that the copies find room */
            compact_start(s);
        break;
    case KV_COMPACT_READ:
        break;
    case KV_COMPACT_COPY:
        if (c->waits != s->progress + 1)
            compact_copy(s);
        break;
    case KV_COMPACT_SETTLE:
        if (s->written >= c->settle)
            c->phase = KV_COMPACT_SYNC;
        /* fall through */
    case KV_COMPACT_SYNC:
        if (c->phase == KV_COMPACT_SYNC) {
            kv_log_sync(s);
            if (s->synced >= c->settle)
                compact_delete(s);
        }
        break;
    }
}
