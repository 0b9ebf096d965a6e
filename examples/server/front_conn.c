/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "front_priv.h"

#include <stdlib.h>
#include <string.h>

#define FRONT_TEXT 512u                      /* of protocol_error() */
#define FRONT_TURN_BYTES ((uint64_t)4 << 20) /* of messages and replies (F6) */
#define FRONT_SPLICED ((size_t)4 << 10)      /* an answer of so many bytes is copied once only */
#define FRONT_IN_KEPT ((size_t)256 << 10)    /* memory that an empty input keeps */

struct front_conn *front_find(struct ex_front *f, uint64_t id)
{
    uint64_t i = id & 0xffff;
    struct front_conn *c = i < f->opts.server->conns_max ? &f->conns[i] : NULL;

    return c != NULL && c->net != NULL && c->id == id ? c : NULL; /* F5 */
}

/* Bytes of messages and replies in this iteration (F6). */
static uint64_t *front_turn_bytes(struct ex_front *f)
{
    uint64_t now = snic_loop_now(f->loop);

    if (f->turn_ns != now)
        f->turn_bytes = 0;
    f->turn_ns = now;
    return &f->turn_bytes;
}

/* ---- Output ---- */

static void front_flush_soon(struct ex_front *f)
{
    if (!f->flush_queued) {
        f->flush_queued = 1;
        snic_loop_defer(f->loop, &f->flush);
    }
}

void front_mark(struct front_conn *c)
{
    if (snic_link_alone(&c->dirty))
        snic_link_append(&c->front->dirty, &c->dirty);
    front_flush_soon(c->front);
}

/* An answer's turn has come (F1). */
static void front_release(struct front_conn *c, struct front_slot *s)
{
    if (s->size >= FRONT_SPLICED) {
        front_out_splice(&c->out, s->first);
    } else {
        if (front_out_append(&c->out, front_out_data(s->first), s->size) != 0)
            c->closing = 1;
        front_out_free_blocks(s->first);
    }
    s->first = NULL;
    c->slot_bytes -= s->size;
    c->closing |= s->close_after;
}

/* The next message is answered, in `out`: add the answers that wait behind it (F1). */
static void front_answered(struct front_conn *c, int close_after)
{
    uint32_t mask = c->front->opts.pending_max - 1;

    c->next_out++;
    c->closing |= close_after;
    while (!c->closing && c->slots != NULL && c->slots[c->next_out & mask].first != NULL) {
        front_release(c, &c->slots[c->next_out & mask]);
        c->next_out++;
    }
    front_mark(c);
}

/* Is this piece of an answer moved, not copied? */
static int front_moves(const struct snic_iov *iov, int move)
{
    return move && iov->size >= EX_FRONT_MOVED;
}

/* Append an answer; a piece that was moved has no base any more. @return 0; SNIC_ENOMEM */
static int front_append(struct front_out *o, struct snic_iov *iov, uint32_t count, int move)
{
    int r = 0;

    for (uint32_t i = 0; i < count && r == 0; i++) {
        if (!front_moves(&iov[i], move)) {
            r = front_out_append(o, iov[i].base, iov[i].size);
        } else if ((r = front_out_take(o, iov[i].base, iov[i].size)) == 0) {
            iov[i].base = NULL;
        }
    }
    return r;
}

/* An answer before its turn. @return 0; SNIC_ENOMEM */
static int front_keep(struct front_conn *c, uint64_t seq, struct snic_iov *iov, uint32_t count,
                      int move, int close_after)
{
    struct front_slot *s = &c->slots[seq & (c->front->opts.pending_max - 1)];
    struct front_out kept = {0};
    int r = 0;

    for (uint32_t i = 0, n = 0; (i < count || kept.first == NULL) && r == 0; i += n) {
        size_t size = 0;

        for (n = 0; i + n < count && !front_moves(&iov[i + n], move); n++)
            size += iov[i + n].size;
        if (size > 0 || (i + n == count && kept.first == NULL)) /* an empty answer is an answer */
            r = front_out_room(&kept, size);
        n += n == 0 && count > 0;
        if (r == 0)
            r = front_append(&kept, iov + i, n, move);
    }
    if (r != 0) {
        front_out_free(&kept);
        return r;
    }
    s->first = kept.first;
    s->size = kept.bytes;
    s->close_after = close_after;
    c->slot_bytes += kept.bytes;
    return 0;
}

static void front_reply(struct front_conn *c, uint64_t seq, struct snic_iov *iov, uint32_t count,
                        int move, int close_after)
{
    if (c->closing)
        return;
    for (uint32_t i = 0; i < count; i++)
        *front_turn_bytes(c->front) += front_moves(&iov[i], move) ? 0 : iov[i].size;
    if (c->slots == NULL || seq == c->next_out) {
        int r = front_append(&c->out, iov, count, move);

        front_answered(c, close_after || r != 0);
    } else if (front_keep(c, seq, iov, count, move, close_after) != 0) {
        c->closing = 1;
        front_mark(c);
        return;
    }
    front_account(c);
}

void ex_front_reply(struct ex_front *f, uint64_t client, uint64_t seq, const struct snic_iov *iov,
                    uint32_t count, uint32_t flags)
{
    struct front_conn *c = front_find(f, client);

    if (c != NULL) /* without `move` it changes nothing */
        front_reply(c, seq, (struct snic_iov *)(uintptr_t)iov, count, 0,
                    (flags & EX_FRONT_CLOSE) != 0);
}

void ex_front_move(struct ex_front *f, uint64_t client, uint64_t seq, struct snic_iov *iov,
                   uint32_t count, uint32_t flags)
{
    struct front_conn *c = front_find(f, client);

    if (c != NULL)
        front_reply(c, seq, iov, count, 1, (flags & EX_FRONT_CLOSE) != 0);
}

size_t ex_front_push(struct ex_front *f, uint64_t client, const void *data, size_t size)
{
    struct front_conn *c = front_find(f, client);

    if (c == NULL || c->closing)
        return 0;
    if (front_out_append(&c->out, data, size) != 0)
        c->closing = 1;
    front_mark(c);
    front_account(c);
    return front_unsent(c);
}

size_t ex_front_unsent(struct ex_front *f, uint64_t client)
{
    const struct front_conn *c = front_find(f, client);

    return c != NULL ? front_unsent(c) : 0;
}

/* ---- Input ---- */

/* Not read from: with many messages under way, at the hard limit until it takes replies, F4, or F7.
 */
static int front_full(const struct front_conn *c)
{
    const struct ex_front_opts *o = &c->front->opts;

    return c->is_put_off || c->next_out < c->waits ||
           (o->limits.hard != 0 && front_unsent(c) >= o->limits.hard) ||
           c->next_seq - c->next_out >= o->pending_max;
}

/* Not read from in this iteration (F6), or for a reason of its own. */
static int front_stopped(const struct front_conn *c)
{
    return *front_turn_bytes(c->front) >= FRONT_TURN_BYTES || front_full(c);
}

static int front_in_append(struct front_in *b, const void *data, size_t size)
{
    if (b->size + size > b->memory) {
        size_t memory = b->memory < 64 ? 64 : b->memory;
        void *p;

        while (memory < b->size + size)
            memory *= 2;
        p = realloc(b->data, memory);
        if (p == NULL)
            return SNIC_ENOMEM;
        b->data = p;
        b->memory = memory;
    }
    if (size > 0)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    return 0;
}

/* A buffer that once held a big message does not keep its memory. */
static void front_in_trim(struct front_in *b)
{
    if (b->size == 0 && b->memory > FRONT_IN_KEPT) {
        free(b->data);
        memset(b, 0, sizeof(*b));
    }
}

/*
 * What cannot be framed is answered behind all before it; without an answer the connection is
 * reset. Where answers have no order it is not the last: the connection closes when all are sent.
 */
static void front_error(struct front_conn *c, int error, const unsigned char *data, size_t size,
                        int closes)
{
    const struct snic_director_user *u = &c->front->opts.user;
    char text[FRONT_TEXT];
    struct snic_iov iov = {text, 0};

    iov.size = u->protocol_error(u->ctx, error, data, size, text, sizeof(text));
    if (iov.size == 0) {
        c->closing = 1;
        snic_net_abort(c->net);
        return;
    }
    c->eof |= closes; /* nothing more is read */
    front_reply(c, c->next_seq++, &iov, 1, 0, closes && c->slots != NULL);
}

/* A whole message for the engine. @return 0: it is put off (F7) */
static int front_message(struct front_conn *c, const unsigned char *data, size_t size)
{
    struct ex_front *f = c->front;
    uint64_t seq = c->next_seq++;
    int r = f->opts.message(f->opts.ctx, c->id, seq, data, size);

    if (r == EX_FRONT_LATER) {
        c->next_seq--;
        c->frame_state = 0;
        c->is_put_off = 1;
        *front_turn_bytes(f) += size; /* it was framed, and will be again (F6) */
        snic_link_remove(&c->later);
        snic_link_append(&f->put_off, &c->later);
        return 0;
    }
    f->stats.messages++;
    *front_turn_bytes(f) += size;
    if (r == 1)
        c->waits = seq + 1;
    front_flush_soon(f);
    return 1;
}

void ex_front_resume(struct ex_front *f)
{
    if (snic_link_alone(&f->put_off))
        return;
    while (!snic_link_alone(&f->put_off)) {
        struct front_conn *c = SNIC_CONTAINER(f->put_off.next, struct front_conn, later);

        c->is_put_off = 0;
        c->active_ns = snic_loop_now(f->loop);
        snic_link_remove(&c->later);
        snic_link_append(&f->later, &c->later);
    }
    snic_loop_arm(f->loop, &f->turn_timer, snic_loop_now(f->loop));
}

/* One step over @p data. @return 1, and the bytes used in @p used; 0 more are needed */
static int front_step(struct front_conn *c, const unsigned char *data, size_t size, size_t *used)
{
    struct ex_front *f = c->front;
    int64_t n = f->opts.user.frame(f->opts.user.ctx, data, size, &c->frame_state);
    int64_t refuse = SNIC_DIRECTOR_REFUSE(0) - n;
    int64_t drop = SNIC_DIRECTOR_DROP(0) - n;

    if (n == 0)
        return 0;
    *used = n > 0 ? (size_t)n : size;
    if (n > 0)
        return front_message(c, data, (size_t)n);
    if (refuse >= 0 && (uint64_t)refuse <= size) {
        c->frame_state = 0;
        f->stats.oversized++;
        *used = (size_t)refuse;
        front_error(c, SNIC_EMSGSIZE, data, size, 0);
    } else if (drop >= 1 && (uint64_t)drop <= size) {
        *used = (size_t)drop;
    } else {
        f->stats.protocol_errors++;
        front_error(c, n == SNIC_EMSGSIZE ? SNIC_EMSGSIZE : SNIC_EPROTO, data, size, 1);
    }
    return 1;
}

/* Consume from @p data as much as there are whole messages in it. */
static size_t front_consume(struct front_conn *c, const unsigned char *data, size_t size)
{
    size_t at = 0;
    size_t n;

    while (at < size && !front_stopped(c) && !c->closing && !c->eof &&
           front_step(c, data + at, size - at, &n))
        at += n;
    return c->eof ? size : at;
}

static void front_consume_in(struct front_conn *c)
{
    size_t n = c->in.size > 0 ? front_consume(c, c->in.data, c->in.size) : 0;

    if (n > 0)
        memmove(c->in.data, c->in.data + n, c->in.size - n);
    c->in.size -= n;
}

static void front_drop_input(struct front_conn *c)
{
    while (!snic_queue_empty(&c->lent))
        snic_net_put(c->front->opts.net,
                     SNIC_CONTAINER(snic_queue_pop(&c->lent), struct snic_net_buf, node));
    c->in.size = 0;
}

/* Work off the lent buffers (F3) as far as the bounds allow. @return 0; -1 out of memory */
static int front_consume_lent(struct front_conn *c)
{
    while (!snic_queue_empty(&c->lent) && !front_stopped(c)) {
        struct snic_net_buf *b = SNIC_CONTAINER(c->lent.first, struct snic_net_buf, node);

        if (c->in.size == 0) {
            size_t n = front_consume(c, b->data, b->size);

            b->data += n;
            b->size -= (uint32_t)n;
            if (b->size > 0 && front_stopped(c))
                break;
        }
        if (front_in_append(&c->in, b->data, b->size) != 0)
            return -1;
        (void)snic_queue_pop(&c->lent);
        snic_net_put(c->front->opts.net, b);
        front_consume_in(c);
    }
    return 0;
}

static void front_parse(struct front_conn *c)
{
    int full;

    if (c->eof || c->closing || c->front->draining) {
        front_drop_input(c);
        return;
    }
    front_consume_in(c);
    front_in_trim(&c->in);
    if (front_consume_lent(c) != 0) {
        snic_net_abort(c->net);
        return;
    }
    full = front_stopped(c);
    if (full && !front_full(c) && snic_link_alone(&c->later)) {
        snic_link_append(&c->front->later, &c->later);
        snic_loop_arm(c->front->loop, &c->front->turn_timer, snic_loop_now(c->front->loop));
    }
    if (c->half_closed && snic_queue_empty(&c->lent) && !full)
        c->eof = 1; /* the rest of a message will not arrive */
    if (c->paused != full) {
        c->paused = full;
        c->front->stats.pauses += (uint64_t)full;
        snic_net_pause(c->net, full);
    }
}

void front_turn(struct snic_timer *t, uint64_t now_ns)
{
    struct ex_front *f = SNIC_CONTAINER(t, struct ex_front, turn_timer);

    while (!snic_link_alone(&f->later) && *front_turn_bytes(f) < FRONT_TURN_BYTES) {
        struct front_conn *c = SNIC_CONTAINER(f->later.next, struct front_conn, later);

        snic_link_remove(&c->later);
        front_parse(c);
        front_mark(c); /* it may be at its end */
    }
    if (!snic_link_alone(&f->later))
        snic_loop_arm(f->loop, t, now_ns);
}

/* ---- Events ---- */

void front_recv(void *ctx, struct snic_net_conn *net, struct snic_net_buf *buf)
{
    struct front_conn *c = ctx;

    (void)net;
    c->active_ns = snic_loop_now(c->front->loop);
    snic_queue_push(&c->lent, &buf->node);
    front_parse(c);
    if (c->in.size != 0 || c->counted != 0)
        front_account(c);
}

void front_half_closed(void *ctx, struct snic_net_conn *net)
{
    struct front_conn *c = ctx;

    (void)net;
    c->half_closed = 1;
    front_parse(c);
    front_mark(c);
}

static void front_sent(struct snic_net_send_req *s)
{
    struct front_conn *c = SNIC_CONTAINER(s, struct front_conn, send);

    front_out_sent(&c->out, c->flight);
    c->flight = 0;
    c->soft_since_ns = c->hard_since_ns = 0; /* it reads */
    c->active_ns = snic_loop_now(c->front->loop);
    front_account(c);
    if (s->result == 0)
        front_mark(c); /* the rest, or the end */
}

/* Nothing more will come of this connection, and all is sent: close it. */
static int front_finished(const struct front_conn *c)
{
    int answered = c->next_seq == c->next_out;

    if (c->flight > 0 || c->out.bytes > 0)
        return 0;
    return c->closing || ((c->eof || c->front->draining) && answered);
}

static void front_flush_conn(struct front_conn *c)
{
    if (c->flight > 0) { /* F2; the end of a lazy send is waited for after all */
        if (c->lazy)
            snic_loop_arm(c->front->loop, &c->front->turn_timer, snic_loop_now(c->front->loop));
        c->lazy = 0; /* if it is not over then, it has an event of its own */
        return;
    }
    if (!front_full(c)) /* with what it holds meanwhile */
        front_parse(c);
    if (c->out.bytes == 0) {
        if (front_finished(c))
            snic_net_close(c->net);
        return;
    }
    c->send.iov = c->iov;
    c->send.iov_count = front_out_gather(&c->out, c->iov, &c->flight);
    c->begun_ns = snic_loop_now(c->front->loop);
    /* F2: nothing waits for its end, neither what is behind it nor reading. */
    c->lazy = c->flight == c->out.bytes && !c->closing && !c->eof && !c->front->draining &&
              !front_full(c);
    c->send.flags = c->lazy ? SNIC_NET_SEND_LAZY : 0;
    c->send.region = SNIC_NO_REGION;
    c->send.done = front_sent;
    if (snic_net_send(c->net, &c->send) != 1) {
        c->flight = 0; /* the connection is going: closed follows */
        front_out_free(&c->out);
    }
}

void front_flush(struct snic_loop_msg *m)
{
    struct ex_front *f = SNIC_CONTAINER(m, struct ex_front, flush);

    if (f->opts.settle != NULL)
        f->opts.settle(f->opts.ctx);
    f->flush_queued = 0; /* what settle() answered is sent here */
    while (!snic_link_alone(&f->dirty)) {
        struct front_conn *c = SNIC_CONTAINER(f->dirty.next, struct front_conn, dirty);

        snic_link_remove(&c->dirty);
        front_flush_conn(c);
    }
}

void front_free(struct front_conn *c)
{
    front_drop_input(c);
    c->front->held -= c->counted;
    for (uint32_t i = 0; c->slots != NULL && i < c->front->opts.pending_max; i++)
        front_out_free_blocks(c->slots[i].first);
    free(c->slots);
    free(c->in.data);
    front_out_free(&c->out);
    snic_link_remove(&c->dirty);
    snic_link_remove(&c->later);
    c->net = NULL;
}
