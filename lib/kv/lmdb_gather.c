/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What all layers above do with the handle: schedule its turn, deliver a request, put changes into
 * the active batch, and wait until they are durable. A ticket is the number of the batch that holds
 * them.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

void lmdb_turn_soon(struct lmdb_kv *s)
{
    if (s->turn_set)
        return;
    s->turn_set = 1;
    snic_loop_defer(s->kv.loop, &s->turn);
}

void lmdb_done(struct lmdb_kv *s, struct snic_kv_req *req)
{
    snic_queue_push(&s->done, &req->node);
    lmdb_turn_soon(s);
}

void lmdb_die(struct lmdb_kv *s, int error, int os_error)
{
    if (s->dead != 0)
        return;
    s->dead = error == 0 ? SNIC_EIO : error;
    s->dead_os = os_error;
    lmdb_turn_soon(s);
}

int lmdb_batch_empty(const struct lmdb_batch *b)
{
    return b->table.count == 0 && b->commits.first == NULL && b->marks.count == 0 &&
           b->frees.count == 0 && b->want == 0 && !b->catch_up;
}

/** The first change of a batch starts its time. */
static void lmdb_batch_touch(struct lmdb_kv *s)
{
    if (s->batch_timer.armed)
        return;
    s->active->flush_mark = snic_loop_now(s->kv.loop);
    snic_loop_arm(s->kv.loop, &s->batch_timer, snic_loop_now(s->kv.loop) + s->opts.batch_ns);
}

void lmdb_put(struct lmdb_kv *s, const struct lmdb_key *k, const void *value, uint32_t size)
{
    if (lmdb_table_put(&s->active->table, k, value, size) != 0)
        lmdb_die(s, SNIC_EIO, 0);
    lmdb_batch_touch(s);
    if (s->active->table.bytes >= s->opts.batch_bytes / 2)
        lmdb_turn_soon(s);
}

int lmdb_batch_crowded(const struct lmdb_kv *s)
{
    return s->flight != NULL && s->active->table.bytes >= s->opts.batch_bytes / 2;
}

uint64_t lmdb_ticket(struct lmdb_kv *s, int bytes)
{
    if (bytes && s->object_synced < s->object_writes)
        s->active->flush = 1;
    if (!lmdb_batch_empty(s->active) || s->active->flush)
        return s->active->seq;
    return s->flight != NULL ? s->flight->seq : s->durable_seq;
}

void lmdb_batch_wait(struct lmdb_kv *s, struct snic_kv_req *req, uint64_t ticket)
{
    if (ticket <= s->durable_seq) {
        lmdb_done(s, req);
        return;
    }
    req->backend[0] = ticket;
    snic_queue_push(&s->waiters, &req->node);
    lmdb_turn_soon(s);
}

#endif /* SNIC_WITH_LMDB */
