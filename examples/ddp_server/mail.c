/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests between loops (N1). What one loop has for another is collected during an iteration and
 * travels as one batch: one message, that of its first request, and at most one wake-up, whatever
 * the number of commands. Nothing is allocated, so a request always arrives.
 *
 * And the bound of what an iteration copies (N6). When it is reached requests that arrive are kept
 * in a list, which the next iteration continues; while there are any others queue behind them, so
 * the order in which requests come from another loop, and those of one key, is kept. The list has
 * the bytes of an iteration for itself, so that what arrives directly cannot starve it.
 */
#include "node.h"

#define TURN_BYTES ((uint64_t)4 << 20) /* or more by one request */

/* ---- N6 ---- */

void ds_turn_spend(struct ds_shard *s, uint64_t bytes)
{
    uint64_t now = snic_loop_now(s->loop);

    if (s->turn_ns != now)
        s->turn_bytes = 0;
    s->turn_ns = now;
    s->turn_bytes += bytes;
    s->turn_most = snic_max_u64(s->turn_most, s->turn_bytes);
}

int ds_turn_room(struct ds_shard *s)
{
    ds_turn_spend(s, 0);
    return s->turn_bytes < TURN_BYTES;
}

void ds_turn_later(struct ds_shard *s, struct ds_request *r)
{
    r->next = NULL;
    if (s->later == NULL)
        s->later = r;
    else
        s->later_last->next = r;
    s->later_last = r;
    snic_loop_arm(s->loop, &s->turn_timer, snic_loop_now(s->loop));
}

void ds_turn_first(struct ds_shard *s, struct ds_request *first, struct ds_request *last)
{
    last->next = s->later;
    if (s->later == NULL)
        s->later_last = last;
    s->later = first;
    snic_loop_arm(s->loop, &s->turn_timer, snic_loop_now(s->loop));
}

void ds_turn_take(struct ds_shard *s, struct ds_request *r)
{
    if (s->later != NULL || !ds_turn_room(s))
        ds_turn_later(s, r);
    else
        r->arrive(r);
}

/* Once in an iteration. */
void ds_turn_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct ds_shard *s = SNIC_CONTAINER(t, struct ds_shard, turn_timer);
    uint64_t most;

    ds_turn_spend(s, 0);
    most = s->turn_bytes + TURN_BYTES;
    while (s->turn_late != s->turn_ns && s->later != NULL && s->turn_bytes < most) {
        struct ds_request *r = s->later;

        s->later = r->next;
        r->next = NULL;
        r->arrive(r);
    }
    s->turn_late = s->turn_ns;
    if (s->later != NULL)
        snic_loop_arm(s->loop, t, now_ns);
}

/* ---- Batches ---- */

static void mail_receive(struct snic_loop_msg *m)
{
    struct ds_request *r = SNIC_CONTAINER(m, struct ds_request, batch);

    while (r != NULL) {
        struct ds_request *next = r->next;

        r->next = NULL;
        ds_turn_take(r->to, r);
        r = next;
    }
}

static void mail_flush(struct snic_loop_msg *m)
{
    struct ds_shard *s = SNIC_CONTAINER(m, struct ds_shard, flush);

    s->flush_queued = 0;
    for (uint32_t i = 0; i < s->node->count; i++) {
        struct ds_request *r = s->mail[i].first;

        if (r == NULL)
            continue;
        s->mail[i].first = s->mail[i].last = NULL;
        r->batch.fn = mail_receive;
        snic_loop_post(s->node->shards[i].loop, &r->batch);
    }
}

void ds_mail_send(struct ds_shard *from, struct ds_shard *to, struct ds_request *r)
{
    struct ds_mail *m = &from->mail[to->index];

    r->next = NULL;
    r->to = to;
    if (m->first == NULL)
        m->first = r;
    else
        m->last->next = r;
    m->last = r;
    if (!from->flush_queued) {
        from->flush_queued = 1;
        from->flush.fn = mail_flush;
        snic_loop_defer(from->loop, &from->flush);
    }
}
