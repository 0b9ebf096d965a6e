/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Bytes of one end of a connection: the queue of what goes out, at most two gather sends of it in
 * flight, and the queue of lent buffers received.
 *
 * I1  Pieces are sent in queue order: begin <= flight <= end, and behind the first piece with
 *     flight < end (the cursor) no piece has flight > begin.
 * I2  The bytes between begin and flight over all pieces are those of the sends in flight, which
 *     complete in order.
 */
#include "director/director_priv.h"

static void director_out_sent(struct snic_net_send_req *r);

void director_out_init(struct director_end *e, struct snic_director_conn *c)
{
    e->net = NULL;
    e->conn = c;
    memset(&e->in, 0, sizeof(e->in));
    memset(&e->out, 0, sizeof(e->out));
    e->cursor = NULL;
    e->in_count = 0;
    e->next = e->busy = e->eof = e->shut = e->closing = e->paused = e->open = e->dead = 0;
    for (uint32_t i = 0; i < SNIC_DIRECTOR__SENDS; i++) {
        e->sends[i].end = e;
        e->sends[i].busy = 0;
    }
}

/* ---- In ---- */

void director_in_push(struct director_end *e, struct snic_net_buf *b)
{
    if (b->size == 0) {
        snic_net_put(e->conn->d->net, b);
        return;
    }
    snic_queue_push(&e->in, &b->node);
    e->in_count++;
}

struct snic_net_buf *director_in_head(struct director_end *e)
{
    return snic_queue_empty(&e->in) ? NULL : SNIC_CONTAINER(e->in.first, struct snic_net_buf, node);
}

/* The first @bytes of the head buffer are consumed. */
void director_in_take(struct director_end *e, uint32_t bytes)
{
    struct snic_net_buf *b = director_in_head(e);
    SNIC_DASSERT(b != NULL && bytes <= b->size);
    b->data += bytes;
    b->size -= bytes;
    if (b->size == 0) {
        (void)snic_queue_pop(&e->in);
        e->in_count--;
        snic_net_put(e->conn->d->net, b);
    }
}

void director_in_drop(struct director_end *e)
{
    while (!snic_queue_empty(&e->in))
        director_in_take(e, director_in_head(e)->size);
}

/* ---- Out: queues ---- */

static struct director_piece *director_piece_of(struct snic_node *n)
{
    return SNIC_CONTAINER(n, struct director_piece, node);
}

/* Append as many of @size bytes as memory above @reserve blocks allows. Copy. */
uint32_t director_queue_append(struct snic_director_conn *c, struct snic_queue *q, const void *data,
                               uint32_t size, uint32_t reserve)
{
    uint32_t done = 0;
    while (done < size) {
        struct director_block *b = NULL;
        if (!snic_queue_empty(q)) {
            struct director_piece *p = director_piece_of(q->last);
            if (p->kind == DIRECTOR_PIECE_BLOCK && p->end < SNIC_DIRECTOR__DATA)
                b = (struct director_block *)p;
        }
        if (b == NULL) {
            b = director_block_take(c, reserve);
            if (b == NULL)
                break;
            snic_queue_push(q, &b->piece.node);
        }
        uint32_t n = (uint32_t)snic_min_u64(size - done, SNIC_DIRECTOR__DATA - b->piece.end);
        memcpy(b->data + b->piece.end, (const unsigned char *)data + done, n);
        b->piece.end += n;
        done += n;
    }
    return done;
}

/* There is more to send: find the cursor, and see that it is flushed. */
void director_out_more(struct director_end *e)
{
    struct snic_director_conn *c = e->conn;
    if (e->cursor == NULL && !snic_queue_empty(&e->out)) {
        struct director_piece *p = director_piece_of(e->out.first);
        while (p->flight == p->end && p->node.next != NULL)
            p = director_piece_of(p->node.next);
        if (p->flight < p->end)
            e->cursor = p;
    }
    if (snic_link_alone(&c->dirty))
        snic_link_append(&c->d->dirty, &c->dirty);
}

uint32_t director_out_append(struct director_end *e, const void *data, uint32_t size,
                             uint32_t reserve)
{
    uint32_t n = director_queue_append(e->conn, &e->out, data, size, reserve);
    director_out_more(e);
    return n;
}

/* Move the pieces of @q to the end of the queue; small ones are copied together. */
void director_out_splice(struct director_end *e, struct snic_queue *q)
{
    struct snic_node *n = snic_queue_pop(q);
    for (; n != NULL; n = snic_queue_pop(q)) {
        struct director_block *b = (struct director_block *)director_piece_of(n);
        uint32_t size = b->piece.end - b->piece.begin;
        struct director_piece *tail =
            snic_queue_empty(&e->out) ? NULL : director_piece_of(e->out.last);
        if (tail != NULL && tail->kind == DIRECTOR_PIECE_BLOCK && size <= SNIC_DIRECTOR__COPY &&
            size <= SNIC_DIRECTOR__DATA - tail->end) {
            memcpy(((struct director_block *)tail)->data + tail->end, b->data + b->piece.begin,
                   size);
            tail->end += size;
            director_block_give(e->conn, b);
        } else {
            snic_queue_push(&e->out, n);
        }
    }
    director_out_more(e);
}

/* The reply of @s leaves as the offload engine made it. */
void director_out_job(struct director_end *e, struct director_slot *s)
{
    s->piece.kind = DIRECTOR_PIECE_JOB;
    s->piece.begin = s->piece.flight = 0;
    s->piece.end = s->job->bytes;
    s->state = DIRECTOR_SLOT_SENDING;
    snic_link_remove(&s->link);
    snic_queue_push(&e->out, &s->piece.node);
    director_out_more(e);
}

static void director_piece_free(struct snic_director_conn *c, struct director_piece *p)
{
    if (p->kind == DIRECTOR_PIECE_BLOCK) {
        director_block_give(c, (struct director_block *)p);
        return;
    }
    struct director_slot *s = (struct director_slot *)p;
    director_job_release(s);
    director_slot_give(s);
}

/* No send is in flight any more. */
void director_out_drop(struct director_end *e)
{
    struct snic_node *n = snic_queue_pop(&e->out);
    SNIC_ASSERT(e->busy == 0);
    for (; n != NULL; n = snic_queue_pop(&e->out))
        director_piece_free(e->conn, director_piece_of(n));
    e->cursor = NULL;
}

/* ---- Out: sends ---- */

/* Fill @s from the cursor on; what one send takes of the queue. @after is where the cursor goes. */
static void director_out_gather(struct director_end *e, struct director_send *s,
                                struct director_piece **after)
{
    struct snic_net *net = e->conn->d->net;
    struct director_piece *p = e->cursor;
    uint32_t n = 0;
    s->bytes = 0;
    s->req.flags = 0;
    s->req.region = SNIC_NO_REGION;
    while (p != NULL) {
        if (p->kind == DIRECTOR_PIECE_BLOCK) {
            if (n == SNIC_DIRECTOR__IOV)
                break;
            s->iov[n].base = ((struct director_block *)p)->data + p->flight;
            s->iov[n++].size = p->end - p->flight;
            s->bytes += p->end - p->flight;
        } else {
            const struct snic_offload_job *job = ((struct director_slot *)p)->job;
            int zc = (net->caps & SNIC_NET_CAP_ZC) != 0 && job->bytes >= net->zc_bytes_min;
            if (n + job->iov_count > SNIC_DIRECTOR__IOV || (zc && n > 0))
                break;
            for (uint32_t i = 0; i < job->iov_count; i++)
                s->iov[n++] = job->iov[i];
            s->bytes += job->bytes;
            if (zc) { /* alone: all of it lies in one region */
                s->req.flags = SNIC_NET_SEND_ZC;
                s->req.region = job->region;
                p = p->node.next == NULL ? NULL : director_piece_of(p->node.next);
                break;
            }
        }
        p = p->node.next == NULL ? NULL : director_piece_of(p->node.next);
    }
    s->req.iov = s->iov;
    s->req.iov_count = n;
    *after = p;
}

/* Hand over what two sends can take; 1 if something was. */
int director_out_flush(struct director_end *e)
{
    int any = 0;
    while (e->cursor != NULL && e->busy < SNIC_DIRECTOR__SENDS && e->net != NULL && !e->closing) {
        struct director_send *s = &e->sends[e->next];
        struct director_piece *after;
        SNIC_DASSERT(!s->busy);
        director_out_gather(e, s, &after);
        s->req.done = director_out_sent;
        if (snic_net_send(e->net, &s->req) != 1)
            break; /* full: writable comes; broken: closed comes */
        for (struct director_piece *p = e->cursor; p != after;
             p = p->node.next == NULL ? NULL : director_piece_of(p->node.next))
            p->flight = p->end;
        e->cursor = after;
        s->busy = 1;
        e->busy++;
        e->next = (uint8_t)((e->next + 1) % SNIC_DIRECTOR__SENDS);
        any = 1;
    }
    return any;
}

static void director_out_sent(struct snic_net_send_req *r)
{
    struct director_send *s = SNIC_CONTAINER(r, struct director_send, req);
    struct director_end *e = s->end;
    struct snic_director_conn *c = e->conn;
    uint32_t left = s->bytes;
    SNIC_ASSERT(s->busy && e->busy > 0);
    s->busy = 0;
    e->busy--;
    if (r->result != 0)
        return; /* closed follows, and drops the queue */
    director_moved(c, left);
    if (e == &c->client)
        c->d->stats.sent_bytes += left;
    while (left > 0) { /* I2 */
        struct director_piece *p = director_piece_of(e->out.first);
        uint32_t n = (uint32_t)snic_min_u64(left, p->flight - p->begin);
        SNIC_ASSERT(n > 0);
        p->begin += n;
        left -= n;
        if (p->begin == p->end) {
            (void)snic_queue_pop(&e->out);
            director_piece_free(c, p);
        }
    }
    if (e->cursor != NULL)
        director_out_more(e);
    director_conn_check(c);
}
