/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Messages passed to the offload engine, and its answers: replies, or messages handed back, which
 * go to the host.
 */
#include "director/director_priv.h"

/* The job of a slot whose client does not want it any more. */
static void director_reply_orphan(struct director_slot *s, struct snic_offload_job *job)
{
    struct snic_director_conn *c = s->conn;
    snic_offload_release(c->d->offload, job);
    s->job = NULL;
    director_slot_give(s);
    SNIC_ASSERT(c->offloading > 0);
    c->offloading--;
    director_conn_check(c);
}

/*
 * Copy the reply instead of sending it from the engine's pool? Short ones always, as far as there
 * are blocks; all where the pool or its contexts run low: a client that does not read holds blocks
 * then, not what everybody's reads need.
 */
static int director_reply_copies(const struct snic_director_conn *c,
                                 const struct snic_offload_job *job)
{
    struct snic_director *d = c->d;
    uint32_t blocks = job->bytes / SNIC_DIRECTOR__DATA + 2;
    if (job->bytes <= SNIC_DIRECTOR__COPY)
        return d->blocks_free > SNIC_DIRECTOR__RESERVE;
    int low = snic_offload_pool_free(d->offload) < snic_offload_pool_bytes(d->offload) / 2 ||
              snic_offload_active(d->offload) > snic_offload_contexts(d->offload) / 2;
    if (!low || d->blocks_free < blocks + 4 * SNIC_DIRECTOR__RESERVE ||
        c->mem + job->bytes > director_share(c))
        return 0;
    d->stats.copied_out++;
    return 1;
}

static void director_reply_sent(struct director_slot *s, struct snic_offload_job *job)
{
    struct snic_director_conn *c = s->conn;
    struct snic_director *d = c->d;
    d->stats.offloaded++;
    SNIC_ASSERT(c->offloading > 0);
    c->offloading--;
    if (director_reply_copies(c, job)) {
        for (uint32_t i = 0; i < job->iov_count; i++)
            (void)director_reply_bytes(s, job->iov[i].base, (uint32_t)job->iov[i].size);
        snic_offload_release(d->offload, job);
    } else {
        s->job = job;
        s->bytes = (uint32_t)snic_min_u64(job->bytes, UINT32_MAX);
        director_hold(c, job->pool_bytes);
        c->job_bytes += job->pool_bytes;
        c->job_contexts += job->contexts;
        (void)director_reply_current(s);
    }
    director_reply_done(s);
}

static void director_reply_offloaded(void *ctx, struct snic_offload_job *job)
{
    struct snic_director *d = ctx;
    struct director_slot *s = &d->slots[job->cookie];
    struct snic_director_conn *c = s->conn;
    SNIC_DASSERT(s->state == DIRECTOR_SLOT_OFFLOAD && c->offloading > 0);
    if (c->dead || c->closing) {
        director_reply_orphan(s, job);
        return;
    }
    if (job->status == SNIC_OFFLOAD_DONE) {
        director_reply_sent(s, job);
        return;
    }
    d->stats.offload_to_host++;
    s->job = job;
    s->state = DIRECTOR_SLOT_RETRY;
    /* In order: one that has sent a part of its message stays the first. */
    if (!snic_queue_empty(&d->retry) || !director_retry_one(s)) {
        snic_queue_push(&d->retry, &s->host);
        director_stall_check(d);
    }
}

/*
 * Pass the message at hand to the engine; 0 when it refuses. What it may hand back is sent to a net
 * host as a whole, so that must be short; a channel takes any in pieces.
 */
int director_offload(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    if (d->host_net && director_stage_need(c->msg_size) > SNIC_DIRECTOR__STAGE)
        return 0;
    struct snic_offload_msg m = {c->msg, c->msg_size, c->msg_flags, c->user};
    struct director_slot *s = director_slot_take(c); /* keeps the word, too */
    s->state = DIRECTOR_SLOT_OFFLOAD;
    int r = snic_offload_submit(d->offload, NULL, &m, (uint64_t)(s - d->slots),
                                director_reply_offloaded, d);
    if (r != 0) {
        director_slot_give(s);
        return 0;
    }
    c->offloading++;
    return 1;
}
