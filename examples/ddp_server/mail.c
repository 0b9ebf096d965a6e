/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests between loops (N1). What one loop has for another is collected during an iteration and
 * travels as one batch: one message, that of its first request, and at most one wake-up, whatever
 * the number of commands. Nothing is allocated, so a request always arrives.
 */
#include "node.h"

static void mail_receive(struct snic_loop_msg *m)
{
    struct ds_request *r = SNIC_CONTAINER(m, struct ds_request, batch);

    while (r != NULL) {
        struct ds_request *next = r->next;

        r->next = NULL;
        r->arrive(r);
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
