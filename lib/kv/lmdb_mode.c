/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sole and shared: quiescing to change from one to the other, and recovery after a crash.
 *
 * To change the mode no job starts and no commit is accepted until those that run have ended
 * (quiescing) and all is durable, marks and soft checksums included. Sharing is recorded in the
 * store (record 'S' 1) before it begins: the next sole handle scans all maps, frees blocks that no
 * map names, and turns marked blocks into blocks without checksum, as after a crash.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <stdio.h>

#define SNIC_LMDB__CLAIM_NS 1000000000ULL
#define SNIC_LMDB__RECOVER_BYTES (8ULL << 20) /* changes written at once */

void lmdb_marks_clean(struct lmdb_kv *s)
{
    lmdb_chunks_harden(s);
    lmdb_space_unmark(s);
    s->overwrite_ns = snic_loop_now(s->kv.loop);
}

int lmdb_mode_settle(struct lmdb_kv *s)
{
    if (s->mode == LMDB_SOLE) {
        lmdb_marks_clean(s);
    } else {
        for (uint32_t i = 0; i < s->pool.count; i++)
            lmdb_space_free(s, s->pool.at[i].block, s->pool.at[i].count);
        s->pool.count = 0;
        s->pool_blocks = 0;
    }
    return lmdb_batch_drain(s);
}

/* ---- Recovery ---- */

/** Write the gathered changes, in the calling thread; the writer has no work yet. */
static int lmdb_recover_write(struct lmdb_kv *s)
{
    struct lmdb_batch *b = s->active;
    if (lmdb_batch_empty(b))
        return s->dead;
    lmdb_writer_run(s, b);
    if (b->result == SNIC_EAGAIN && lmdb_remap(s) == 0)
        lmdb_writer_run(s, b);
    int r = b->result;
    lmdb_table_clear(&b->table);
    b->names = 0;
    b->catch_up = 0;
    lmdb_snapshot_drop(s);
    snic_loop_cancel(s->kv.loop, &s->batch_timer);
    s->durable_seq = b->seq++;
    return r;
}

int lmdb_mode_catch_up(struct lmdb_kv *s)
{
    if (!lmdb_snapshot_behind(s))
        return 0;
    s->active->catch_up = 1;
    return lmdb_recover_write(s);
}

/** A chunk's blocks are counted; those in marked segments lose their checksums. */
static int lmdb_recover_chunk(struct lmdb_kv *s, struct lmdb_chunk *c, int count)
{
    int changed = 0;
    for (uint32_t i = 0; i < LMDB_CHUNK; i++) {
        if (c->block[i] == 0)
            continue;
        if (count && lmdb_space_count(s, c->block[i]) != 0)
            return SNIC_ECORRUPT;
        if ((c->flags[i] & (LMDB_UNWRITTEN | LMDB_NOCRC)) == 0 &&
            lmdb_space_marked(s, c->block[i])) {
            c->flags[i] |= LMDB_NOCRC;
            changed = 1;
        }
    }
    if (changed)
        lmdb_chunk_put(s, c);
    return 0;
}

static int lmdb_recover_maps(struct lmdb_kv *s, int count, char *text)
{
    struct lmdb_key k = lmdb_key_pair('M', 0, 0);
    for (;;) {
        struct lmdb_value v = {0};
        struct lmdb_chunk c;
        memset(&c, 0, sizeof(c));
        int r = lmdb_seek(s, &k, &v);
        if (r == SNIC_ENOENT || (r == 0 && k.bytes[0] != 'M'))
            return 0;
        if (r == 0 && k.size != 17)
            r = SNIC_ECORRUPT;
        if (r == 0)
            r = lmdb_chunk_decode(&c, &v, (uint64_t)s->segment_count * LMDB_SEGMENT);
        c.object = snic_get_be64(k.bytes + 1);
        c.number = snic_get_be64(k.bytes + 9);
        if (r == 0)
            r = lmdb_recover_chunk(s, &c, count);
        if (r != 0) {
            (void)snprintf(text, LMDB_TEXT, "the map of object %llu is damaged at chunk %llu",
                           (unsigned long long)c.object, (unsigned long long)c.number);
            return r;
        }
        k = lmdb_key_pair('M', c.object, c.number + 1);
        if (s->active->table.bytes > SNIC_LMDB__RECOVER_BYTES)
            r = lmdb_recover_write(s);
        if (r != 0) {
            (void)snprintf(text, LMDB_TEXT, "what a crash left cannot be repaired: %s",
                           snic_strerror(r));
            return r;
        }
    }
}

int lmdb_recover(struct lmdb_kv *s, char *text)
{
    struct lmdb_key k = lmdb_key_number('S', 1);
    struct lmdb_value v = {0};
    int shared = lmdb_get(s, &k, &v) != SNIC_ENOENT;
    /* Bytes that a dead process wrote may be in the page cache only: the first flush is due. */
    s->object_writes++;
    s->overwrite_ns = snic_loop_now(s->kv.loop);
    if (s->marked == 0 && !shared)
        return 0;
    if (shared)
        lmdb_space_count_begin(s);
    int r = lmdb_recover_maps(s, shared, text);
    if (r != 0)
        return r;
    if (shared) {
        lmdb_space_count_end(s);
        lmdb_put(s, &k, NULL, 0);
    }
    lmdb_space_unmark(s);
    r = lmdb_recover_write(s);
    if (r != 0)
        (void)snprintf(text, LMDB_TEXT, "what a crash left cannot be repaired: %s",
                       snic_strerror(r));
    return r;
}

/* ---- Changing the mode ---- */

void lmdb_mode_look(struct lmdb_kv *s)
{
    if (s->mode != LMDB_SOLE || s->quiescing || s->closing || s->dead != 0 ||
        !lmdb_session_knocked(&s->session) || s->session.forced)
        return;
    s->quiescing = 1;
    s->to_mode = LMDB_SHARED;
    lmdb_turn_soon(s);
}

void lmdb_mode_claim(struct lmdb_kv *s, uint64_t now_ns)
{
    if (s->quiescing || s->closing || s->readonly || now_ns < s->session.next_try_ns)
        return;
    s->session.next_try_ns = now_ns + SNIC_LMDB__CLAIM_NS;
    int dead = 0;
    (void)mdb_reader_check(s->env, &dead); /* a dead reader prevents the reuse of pages */
    if (!lmdb_session_claim(s))
        return;
    s->quiescing = 1;
    s->to_mode = LMDB_SOLE;
    lmdb_turn_soon(s);
}

/** 1: nothing is in flight, and all is durable; 0: not yet, and the missing writes are started. */
static int lmdb_mode_rested(struct lmdb_kv *s)
{
    if (s->running > 0 || s->flight != NULL)
        return 0;
    if (s->mode == LMDB_SOLE && (s->marked > 0 || s->chunk_soft > 0))
        lmdb_marks_clean(s);
    if (s->mode == LMDB_SOLE && !s->noted) {
        struct lmdb_key k = lmdb_key_number('S', 1);
        lmdb_put(s, &k, "1", 1);
        s->noted = 1;
    }
    (void)lmdb_ticket(s, 1);
    lmdb_batch_kick(s);
    return s->flight == NULL;
}

static void lmdb_mode_restart(struct lmdb_kv *s)
{
    s->quiescing = 0;
    lmdb_jobs_restart(s);
    lmdb_turn_soon(s);
}

static void lmdb_mode_share(struct lmdb_kv *s)
{
    if (lmdb_share_open(s) != 0) {
        lmdb_die(s, SNIC_ENOMEM, 0);
        s->quiescing = 0;
        return;
    }
    lmdb_chunks_drop(s, LMDB_LOCKS);
    lmdb_space_reset(s);
    lmdb_snapshot_drop(s);
    s->noted = 0;
    s->mode = LMDB_SHARED;
    s->session.next_try_ns = snic_loop_now(s->kv.loop) + SNIC_LMDB__CLAIM_NS;
    (void)lmdb_session_share(s);
    lmdb_mode_restart(s);
}

static void lmdb_mode_sole(struct lmdb_kv *s)
{
    char text[256];
    lmdb_chunks_drop(s, LMDB_LOCKS);
    lmdb_space_reset(s);
    lmdb_snapshot_drop(s);
    s->mode = LMDB_SOLE;
    int r = lmdb_mode_catch_up(s);
    if (r == 0)
        r = lmdb_space_load(s);
    if (r == 0)
        r = lmdb_recover(s, text);
    if (r != 0)
        lmdb_die(s, r, 0);
    lmdb_mode_restart(s);
}

void lmdb_mode_step(struct lmdb_kv *s)
{
    if (s->dead != 0) {
        lmdb_mode_restart(s);
        return;
    }
    if (s->full != 0) {
        /* It cannot be made durable on a full disk: removals must continue. */
        lmdb_mode_restart(s);
        return;
    }
    if (!lmdb_mode_rested(s))
        return;
    if (s->to_mode == LMDB_SHARED)
        lmdb_mode_share(s);
    else
        lmdb_mode_sole(s);
}

#endif /* SNIC_WITH_LMDB */
