/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The bytes to be sent: a FIFO of PDUs, each of up to four parts: header with its digest, zeros,
 * data where the owner has them, and a tail (data digest, response). I1 of nvmetcp_priv.h.
 */
#include "nvmetcp/nvmetcp_priv.h"

static const unsigned char nvmetcp_zeros[SNIC_NVMETCP__PAD_MAX];

struct nvmetcp_gather {
    struct snic_iov *iov;
    uint32_t count;
    uint32_t max;
    size_t at;    /* bytes of the PDU to be left out */
    size_t taken; /* of the PDU */
};

void nvmetcp_out_queue(struct nvmetcp_conn *c, struct nvmetcp_out *o)
{
    SNIC_ASSERT(!o->queued && o->head_size > 0);
    o->queued = 1;
    o->handed = 0;
    snic_queue_push(&c->outs, &o->node);
    c->s.queued++;
    if (c->cursor == NULL) {
        c->cursor = o;
        c->cursor_at = 0;
    }
}

/* Append a part, or what is left of it. @return 0: there is no room for it */
static int nvmetcp_gather_part(struct nvmetcp_gather *g, const unsigned char *base, size_t size)
{
    if (g->at >= size) {
        g->at -= size;
        return 1;
    }
    base += g->at;
    size -= g->at;
    struct snic_iov *last = g->count > 0 ? &g->iov[g->count - 1] : NULL;
    if (last != NULL && (const unsigned char *)last->base + last->size == base) {
        last->size += size;
    } else if (g->count == g->max) {
        return 0;
    } else {
        g->iov[g->count].base = (void *)(uintptr_t)base; /* which a sender only reads */
        g->iov[g->count++].size = size;
    }
    g->at = 0;
    g->taken += size;
    return 1;
}

/* @return 0: there was no room for all of it */
static int nvmetcp_gather_out(struct nvmetcp_gather *g, const struct nvmetcp_out *o)
{
    if (!nvmetcp_gather_part(g, o->head, o->head_size) ||
        !nvmetcp_gather_part(g, nvmetcp_zeros, o->pad_size))
        return 0;
    struct nvmetcp_span s = o->data;
    for (size_t left = o->data_size; left > 0;) {
        unsigned char *base;
        nvmetcp_span_skip(&s, 0, left);
        size_t n = nvmetcp_span_piece(&s, left, &base);
        if (!nvmetcp_gather_part(g, base, n))
            return 0;
        left -= n;
        nvmetcp_span_skip(&s, n, left);
    }
    return nvmetcp_gather_part(g, o->tail, o->tail_size);
}

uint32_t nvmetcp_out_take(struct nvmetcp_conn *c, struct snic_iov *iov, uint32_t max, size_t *bytes)
{
    struct nvmetcp_gather g = {.iov = iov, .max = max};
    int more = c->state != NVMETCP_OVER;
    *bytes = 0;
    while (more && c->cursor != NULL) {
        struct nvmetcp_out *o = c->cursor;
        g.at = c->cursor_at;
        g.taken = 0;
        more = nvmetcp_gather_out(&g, o);
        *bytes += g.taken;
        c->cursor_at += g.taken;
        if (!more)
            break;
        SNIC_DASSERT(c->cursor_at == nvmetcp_out_size(o));
        if (!o->handed && c->role->handed != NULL)
            c->role->handed(c, o);
        o->handed = 1;
        c->cursor =
            o->node.next == NULL ? NULL : SNIC_CONTAINER(o->node.next, struct nvmetcp_out, node);
        c->cursor_at = 0;
    }
    return g.count;
}

void nvmetcp_out_sent(struct nvmetcp_conn *c, size_t bytes)
{
    c->s.bytes_out += bytes;
    while (bytes > 0 && c->state != NVMETCP_OVER) {
        SNIC_ASSERT(!snic_queue_empty(&c->outs));
        struct nvmetcp_out *o = SNIC_CONTAINER(c->outs.first, struct nvmetcp_out, node);
        size_t end = o == c->cursor ? c->cursor_at : nvmetcp_out_size(o);
        SNIC_ASSERT(end > c->acked); /* not more than was returned */
        size_t n = snic_min_u64(bytes, end - c->acked);
        bytes -= n;
        c->acked += n;
        if (c->acked < nvmetcp_out_size(o))
            continue;
        snic_queue_pop(&c->outs);
        c->acked = 0;
        o->queued = 0;
        c->s.queued--;
        c->s.pdus_out++;
        c->role->sent(c, o);
    }
}

void nvmetcp_out_rewind(struct nvmetcp_conn *c)
{
    if (snic_queue_empty(&c->outs))
        return;
    /* `handed` stays: those bytes were shown to the socket, and some may have left. */
    c->cursor = SNIC_CONTAINER(c->outs.first, struct nvmetcp_out, node);
    c->cursor_at = c->acked;
}
