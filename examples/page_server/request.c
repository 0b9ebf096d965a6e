/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests from message to reply, and buffers of pages. */
#include "engine_priv.h"

#include "../common.h"

#include <stdlib.h>
#include <string.h>

/* ---- Buffers ---- */

struct engine_buffer *buffer_get(struct engine *e)
{
    struct snic_node *n = snic_queue_pop(&e->free_buffers);

    return n != NULL ? SNIC_CONTAINER(n, struct engine_buffer, node) : NULL;
}

void buffer_put(struct engine_buffer *b)
{
    b->request = NULL;
    snic_queue_push(&b->engine->free_buffers, &b->node);
}

void buffer_submit(struct engine_buffer *b, int write, uint64_t offset, uint32_t size,
                   store_done_fn done)
{
    struct store_req *q = &b->io;

    memset(q, 0, sizeof(*q));
    q->write = (uint8_t)write;
    q->file = STORE_PAGES;
    q->offset = offset;
    q->size = size;
    q->data = b->data;
    q->done = done;
    b->engine->o.store->submit(b->engine->o.store, q);
}

/* ---- Requests ---- */

struct engine_request *request_new(struct engine *e)
{
    struct snic_node *n = snic_queue_pop(&e->spare);
    struct engine_request *r;

    r = n != NULL ? SNIC_CONTAINER(n, struct engine_request, node) : malloc(sizeof(*r));
    if (r == NULL)
        ex_die("out of memory for a request");
    memset(r, 0, sizeof(*r));
    r->engine = e;
    e->active++;
    return r;
}

/* @return 0 the client has it, or SNIC_EAGAIN */
static int request_send(struct engine_request *r)
{
    struct engine *e = r->engine;
    unsigned char header[WIRE_REPLY];
    struct snic_iov iov[2] = {{header, sizeof(header)},
                              {(void *)(uintptr_t)r->data, r->reply.length}};

    if (r->stage == STAGE_INVALIDATE) { /* P2 */
        if (e->o.events.invalidate != NULL &&
            e->o.events.invalidate(e->o.events.ctx, r->q.page, r->q.lsn) == SNIC_EAGAIN)
            return SNIC_EAGAIN;
        r->stage = STAGE_REPLY;
    }
    wire_reply_put(header, &r->reply);
    return e->o.events.reply(e->o.events.ctx, r->conn, r->seq, iov, r->reply.length > 0 ? 2 : 1) ==
                   SNIC_EAGAIN
               ? SNIC_EAGAIN
               : 0;
}

static void request_end(struct engine_request *r)
{
    struct engine *e = r->engine;

    if (r->buffer != NULL)
        buffer_put(r->buffer);
    e->active--;
    snic_queue_push(&e->spare, &r->node);
}

void request_answer(struct engine_request *r, enum wire_status status)
{
    struct engine *e = r->engine;

    r->reply.id = r->q.id;
    r->reply.page = r->q.page;
    r->reply.status = (uint16_t)status;
    if (status != WIRE_OK)
        r->reply.length = 0;
    e->stats.errors += (uint64_t)(status != WIRE_OK && status != WIRE_BUSY);
    e->stats.busy += (uint64_t)(status == WIRE_BUSY);
    if (!e->stopped && (!snic_queue_empty(&e->answered) || request_send(r) != 0))
        snic_queue_push(&e->answered, &r->node);
    else
        request_end(r);
}

void request_resume(struct engine *e)
{
    while (!snic_queue_empty(&e->answered)) {
        struct engine_request *r = SNIC_CONTAINER(e->answered.first, struct engine_request, node);

        if (request_send(r) != 0)
            return;
        (void)snic_queue_pop(&e->answered);
        request_end(r);
    }
}
