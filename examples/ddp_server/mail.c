/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests between loops (N1). What one loop has for another is collected during an iteration and
 * travels as one batch: one message, and at most one wake-up, whatever the number of commands.
 */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>

struct ds_batch {
    struct snic_loop_msg msg;
    struct ds_request *first;
};

static void mail_receive(struct snic_loop_msg *m)
{
    struct ds_batch *b = SNIC_CONTAINER(m, struct ds_batch, msg);
    struct ds_request *r = b->first;

    free(b);
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
        struct ds_batch *b;

        if (s->mail[i].first == NULL)
            continue;
        b = malloc(sizeof(*b));
        if (b == NULL) {
            /* Requests that do not arrive would leave their clients waiting for ever. */
            fputs("ddp_server: out of memory for a message between loops: aborting\n", stderr);
            abort();
        }
        b->msg.fn = mail_receive;
        b->first = s->mail[i].first;
        s->mail[i].first = s->mail[i].last = NULL;
        snic_loop_post(s->node->shards[i].loop, &b->msg);
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
