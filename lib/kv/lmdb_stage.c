/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The stages of a job: the next begins when nothing of the one before is pending, and the last ends
 * the job. A job may wait in between, for a batch or for the loop's next iteration.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

void lmdb_job_fail(struct lmdb_job *j, int64_t error, int32_t os_error)
{
    if (j->result < 0)
        return;
    j->result = error;
    j->os_error = os_error;
}

void lmdb_batch_wait_job(struct lmdb_job *j, uint64_t ticket)
{
    struct lmdb_kv *s = j->s;
    j->pending++;
    if (ticket <= s->durable_seq) {
        lmdb_job_step(j);
        return;
    }
    j->ticket = ticket;
    snic_queue_push(&s->job_waiters, &j->node);
    lmdb_turn_soon(s);
}

/** A job that failed and has changed the map holds its lock until others can see the change. */
static void lmdb_job_hold(struct lmdb_job *j)
{
    j->changed = 0;
    lmdb_batch_wait_job(j, lmdb_ticket(j->s, 0));
}

void lmdb_job_step(struct lmdb_job *j)
{
    while (--j->pending == 0) {
        lmdb_job_fn fn = j->next;
        if (fn == NULL && j->result < 0 && j->changed && j->s->mode == LMDB_SHARED &&
            j->s->dead == 0)
            fn = lmdb_job_hold;
        if (fn == NULL) {
            j->end(j);
            return;
        }
        j->pending = 1;
        j->next = NULL;
        fn(j);
    }
}

void lmdb_job_yield(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    if (lmdb_batch_crowded(s)) {
        lmdb_batch_wait_job(j, s->active->seq);
        return;
    }
    j->pending++;
    snic_queue_push(&s->yields, &j->node);
    lmdb_turn_soon(s);
}

#endif /* SNIC_WITH_LMDB */
