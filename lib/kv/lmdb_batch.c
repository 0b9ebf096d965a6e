/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Batches: gathering changes, freezing them, and the requests that wait for them.
 *
 * A batch is frozen when a request waits for it, when its time is over, or when it is half of
 * batch_bytes; one is in flight at a time, and the next gathers meanwhile. When both are full
 * commits wait: memory stays bounded.
 *
 * In flight a batch has up to two parts: the flush of the object file and the transaction. With map
 * records (names) the transaction waits for the flush (S3); else both run at once.
 *
 * A sole handle's batch that does not fit the disk stays in flight and is retried; until then SYNC,
 * and operations that take space, fail with SNIC_ENOSPC, and DURABLE with SNIC_EUNKNOWN: it took
 * effect in memory. A shared handle drops the batch: its commits, which are evaluated inside the
 * transaction, fail with SNIC_ENOSPC and change nothing. After any other failure the handle is
 * dead: a second fdatasync does not recover what a failed one lost.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#define SNIC_LMDB__RETRY_NS 200000000ULL
#define SNIC_LMDB__DRAIN_NS 2000000000ULL /* wait so long for space on a full disk */

static void lmdb_batch_finish(struct lmdb_kv *s, struct lmdb_batch *b);
static void lmdb_batch_launch(struct lmdb_kv *s, struct lmdb_batch *b);

static void lmdb_batch_clear(struct lmdb_batch *b)
{
    lmdb_table_clear(&b->table);
    b->frees.count = 0;
    b->trims.count = 0;
    b->marks.count = 0;
    b->got.count = 0;
    b->names = 0;
    b->flush = 0;
    b->want = 0;
    b->catch_up = 0;
    b->result = 0;
    b->os_error = 0;
}

void lmdb_batch_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct lmdb_kv *s = SNIC_CONTAINER(t, struct lmdb_kv, batch_timer);
    if (s->flight != NULL) {
        if (s->full != 0 && s->flight->parts == 0)
            lmdb_batch_launch(s, s->flight);
        return; /* else its end looks at the active one */
    }
    /* A batch that names object bytes costs their flush: it may grow for longer. */
    if (s->active->names && s->active->commits.first == NULL && !s->active->flush) {
        uint64_t until = s->active->flush_mark + SNIC_LMDB__NAMES_FACTOR * s->opts.batch_ns;
        if (now_ns < until) {
            snic_loop_arm(s->kv.loop, &s->batch_timer, until);
            return;
        }
    }
    lmdb_batch_kick(s);
}

/* ---- In flight ---- */

static void lmdb_batch_part(struct lmdb_kv *s, struct lmdb_batch *b)
{
    SNIC_ASSERT(b->parts > 0);
    if (--b->parts == 0)
        lmdb_batch_finish(s, b);
}

static void lmdb_batch_flushed(struct snic_io_req *req)
{
    struct lmdb_kv *s = SNIC_CONTAINER(req, struct lmdb_kv, flush_req);
    struct lmdb_batch *b = s->flight;
    if (req->result < 0) {
        lmdb_die(s, SNIC_EIO, req->os_error);
        b->result = SNIC_EIO;
    } else {
        s->object_synced = b->flush_mark;
        if (b->names && !lmdb_batch_empty(b)) {
            b->parts++;
            lmdb_writer_post(s, b); /* S3 */
        }
    }
    lmdb_batch_part(s, b);
}

void lmdb_batch_over(struct snic_loop_msg *msg)
{
    struct lmdb_kv *s = SNIC_CONTAINER(msg, struct lmdb_kv, writer.msg);
    lmdb_batch_part(s, s->flight);
}

/** Start the flush of the batch in flight. */
static void lmdb_batch_flush(struct lmdb_kv *s)
{
    struct snic_io_req *req = &s->flush_req;
    snic_io_req_init(req);
    req->done = lmdb_batch_flushed;
    req->op = SNIC_IO_FLUSH;
    int n = snic_io_submit(s->buffered, &req, 1);
    if (n == 0)
        snic_io_wait(s->buffered, &s->flush_room); /* lmdb_io.c sends nothing meanwhile */
    if (n < 0) {
        req->result = SNIC_EIO;
        lmdb_batch_flushed(req);
    }
}

void lmdb_batch_writable(struct snic_io_waiter *w)
{
    struct lmdb_kv *s = SNIC_CONTAINER(w, struct lmdb_kv, flush_room);
    lmdb_batch_flush(s);
}

/** Send the parts of the batch in flight. */
static void lmdb_batch_launch(struct lmdb_kv *s, struct lmdb_batch *b)
{
    int flush = (b->names || b->flush) && s->object_synced < b->flush_mark;
    int txn = !lmdb_batch_empty(b);
    b->result = 0;
    b->parts = 1; /* ours, so that it is not over before all are sent */
    if (flush) {
        b->parts++;
        lmdb_batch_flush(s);
    }
    if (txn && !(flush && b->names)) {
        b->parts++;
        lmdb_writer_post(s, b);
    }
    lmdb_batch_part(s, b);
}

void lmdb_batch_kick(struct lmdb_kv *s)
{
    struct lmdb_batch *b = s->active;
    if (s->flight != NULL || s->dead != 0 || (lmdb_batch_empty(b) && !b->flush))
        return;
    snic_loop_cancel(s->kv.loop, &s->batch_timer);
    struct lmdb_batch *next = b == &s->batches[0] ? &s->batches[1] : &s->batches[0];
    b->flush_mark = s->object_writes;
    next->seq = b->seq + 1;
    s->flight = b;
    s->active = next;
    lmdb_batch_launch(s, b);
}

/** The result of an operation that took effect in memory and cannot be made durable now. */
static int lmdb_batch_verdict(const struct snic_kvop *op, int error)
{
    return op->kind != SNIC_KVOP_SYNC && error == SNIC_ENOSPC ? SNIC_EUNKNOWN : error;
}

/** Tickets up to @p seq are due: with @p error, or fine. */
static void lmdb_batch_wake(struct lmdb_kv *s, uint64_t seq, int error, int os_error)
{
    while (s->waiters.first != NULL) {
        struct snic_kv_req *req = SNIC_CONTAINER(s->waiters.first, struct snic_kv_req, node);
        if (req->backend[0] > seq)
            break;
        (void)snic_queue_pop(&s->waiters);
        if (error != 0) {
            req->op->result = lmdb_batch_verdict(req->op, error);
            req->op->os_error = os_error;
        }
        lmdb_done(s, req);
    }
    while (s->job_waiters.first != NULL) {
        struct lmdb_job *j = SNIC_CONTAINER(s->job_waiters.first, struct lmdb_job, node);
        if (j->ticket > seq)
            break;
        (void)snic_queue_pop(&s->job_waiters);
        int only_began = j->catching_up && error == SNIC_ENOSPC; /* that suffices (S6) */
        j->catching_up = 0;
        if (error != 0 && !only_began) /* sole: its changes are visible, and are retried */
            lmdb_job_fail(j, error == SNIC_ENOSPC && s->mode == LMDB_SOLE ? SNIC_EUNKNOWN : error,
                          os_error);
        lmdb_job_step(j);
    }
}

/** The commits that were evaluated inside: the turn continues them. */
static void lmdb_batch_commits(struct lmdb_kv *s, struct lmdb_batch *b)
{
    for (struct snic_node *n; (n = snic_queue_pop(&b->commits)) != NULL;) {
        struct snic_kv_req *req = SNIC_CONTAINER(n, struct snic_kv_req, node);
        if (b->result != 0) {
            req->op->result = b->result;
            req->op->os_error = b->os_error;
            req->op->failed_guard = UINT32_MAX;
        }
        snic_queue_push(&s->evaluated, n);
    }
}

static void lmdb_batch_finish(struct lmdb_kv *s, struct lmdb_batch *b)
{
    if (b->result == SNIC_EAGAIN && s->dead == 0 && lmdb_remap(s) == 0) {
        lmdb_batch_launch(s, b);
        return;
    }
    int retry = b->result == SNIC_ENOSPC && s->dead == 0 && s->mode == LMDB_SOLE;
    if (b->result != 0 && b->result != SNIC_ENOSPC)
        lmdb_die(s, b->result == SNIC_ECORRUPT ? SNIC_ECORRUPT : SNIC_EIO, b->os_error);
    if (retry) {
        s->full = SNIC_ENOSPC;
        lmdb_batch_wake(s, UINT64_MAX, SNIC_ENOSPC, b->os_error);
        lmdb_turn_soon(s); /* changes that wait for this batch are refused */
        snic_loop_arm(s->kv.loop, &s->batch_timer, snic_loop_now(s->kv.loop) + SNIC_LMDB__RETRY_NS);
        return;
    }
    if (s->dead != 0) {
        lmdb_turn_soon(s);
        s->flight = NULL;
        lmdb_batch_commits(s, b);
        return;
    }
    s->full = 0;
    s->kv.stats.store_ops++;
    lmdb_snapshot_drop(s); /* S2 */
    s->flight = NULL;
    if (b->result == 0) {
        s->durable_seq = b->seq;
        lmdb_space_freed(s, &b->frees);
        lmdb_space_trimmed(s, &b->trims);
        lmdb_runs_join(s, &b->got);
    }
    lmdb_batch_wake(s, b->seq, b->result, b->os_error);
    lmdb_batch_commits(s, b);
    lmdb_batch_clear(b);
    lmdb_turn_soon(s);
}

int lmdb_batch_drain(struct lmdb_kv *s)
{
    uint64_t until = snic_loop_clock(s->kv.loop) + SNIC_LMDB__DRAIN_NS;
    while (s->dead == 0 && (s->flight != NULL || !lmdb_batch_empty(s->active) ||
                            s->object_synced < s->object_writes)) {
        if (s->flight == NULL) {
            (void)lmdb_ticket(s, 1);
            lmdb_batch_kick(s);
        }
        if (s->full != 0 && snic_loop_clock(s->kv.loop) > until)
            return s->full;
        if (s->flight != NULL && snic_loop_once(s->kv.loop, SNIC_LMDB__RETRY_NS) < 0)
            return SNIC_EIO;
    }
    return s->dead;
}

#endif /* SNIC_WITH_LMDB */
