/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A client's connection: its messages are cut, classified and sent on by deficit round robin.
 * When it ends is in end.c.
 *
 * I1  Messages are classified in the order of arrival, each once: `decided` holds the
 *     verdict of one that could not be sent on yet.
 * I2  A connection with wait_for != 0, closing or dead takes no message.
 */
#include "director/director_priv.h"

/* ---- The message at hand ---- */

/* A slot and a block for a reply of the director's own, and the connection within its bounds? */
static int director_conn_room(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    if (c->pending >= c->window || c->mem >= director_share(c) || director_flight_full(c)) {
        c->wait_for |= SNIC_DIRECTOR__WAIT_BOUND;
        return 0;
    }
    if (director_unread_wait(c))
        return 0;
    if (!director_slot_room(c)) {
        director_wait(c, &d->wait_slot, SNIC_DIRECTOR__WAIT_SLOT);
        return 0;
    }
    if (d->blocks_free <= 2 * SNIC_DIRECTOR__RESERVE) {
        director_wait(c, &d->wait_block, SNIC_DIRECTOR__WAIT_BLOCK);
        return 0;
    }
    return 1;
}

/* A reply of the director's own, in its turn. */
static void director_conn_answer(struct snic_director_conn *c, const void *text, uint32_t size,
                                 uint32_t flags)
{
    int direct = (c->d->opts.flags & SNIC_DIRECTOR_IN_ORDER) != 0 ? snic_link_alone(&c->slots)
                                                                  : c->current == NULL;
    if (direct && flags == 0) { /* nothing is before it */
        (void)director_out_append(&c->client, text, size, 0);
        return;
    }
    struct director_slot *s = director_slot_take(c);
    s->flags = (uint8_t)flags;
    int ok = director_reply_text(s, text, size);
    SNIC_ASSERT(ok); /* director_conn_room() */
}

/* Framing failed with @error at @data. */
static void director_conn_error(struct snic_director_conn *c, int error, const unsigned char *data,
                                size_t size, int closes)
{
    char text[SNIC_DIRECTOR__TEXT];
    uint32_t n = c->d->user.protocol_error(c->d->user.ctx, error, data, size, text, sizeof(text));
    SNIC_ASSERT(n <= sizeof(text));
    c->d->stats.protocol_errors++;
    if (closes) { /* nothing behind it is read */
        c->client.eof = 1;
        director_part_give(c);
        director_in_drop(&c->client);
        if (c->client.net != NULL && !c->client.paused) {
            c->client.paused = 1;
            snic_net_pause(c->client.net, 1);
        }
    }
    director_conn_answer(c, text, n, closes ? SNIC_DIRECTOR__CLOSE : 0);
}

/* ---- Framing ---- */

/*
 * The framer's other results: -1 the connection ends, else bytes to drop. @data holds the whole
 * message so far.
 */
static int64_t director_frame_result(struct snic_director_conn *c, int64_t r,
                                     const unsigned char *data, size_t size)
{
    int64_t refuse = SNIC_DIRECTOR_REFUSE(0) - r;
    int64_t drop = SNIC_DIRECTOR_DROP(0) - r;
    if (refuse >= 0 && (uint64_t)refuse <= size) {
        c->frame_state = 0;
        director_conn_error(c, SNIC_EMSGSIZE, data, size, 0);
        return refuse;
    }
    if (drop >= 1 && (uint64_t)drop <= size)
        return drop;
    director_conn_error(c, r == SNIC_EMSGSIZE ? SNIC_EMSGSIZE : SNIC_EPROTO, data, size, 1);
    return -1;
}

/* The rest of the head buffer begins a message that continues in the next. 1, or 0: waits. */
static int director_frame_begin(struct snic_director_conn *c)
{
    struct snic_net_buf *b = director_in_head(&c->client);
    int r = director_part_grow(c, b->size + 1);
    if (r == SNIC_EMSGSIZE) {
        director_conn_error(c, SNIC_EMSGSIZE, b->data, b->size, 1);
        return 0;
    }
    if (r == 0)
        return 0;
    memcpy(c->part, b->data, b->size);
    c->part_size = b->size;
    director_in_take(&c->client, b->size);
    return 1;
}

/* Drop @n bytes from the front of the assembled @c->part_size plus @added of the head buffer. */
static void director_frame_drop(struct snic_director_conn *c, uint32_t n, uint32_t added)
{
    if (n >= c->part_size) {
        uint32_t behind = n - c->part_size;
        SNIC_DASSERT(behind <= added);
        director_part_give(c);
        if (behind > 0)
            director_in_take(&c->client, behind);
        return;
    }
    c->part_size -= n;
    memmove(c->part, c->part + n, c->part_size);
}

/* The message spans buffers: 1 it is at hand, 0 it is not (yet), 2 look again. */
static int director_frame_part(struct snic_director_conn *c)
{
    struct snic_net_buf *b = director_in_head(&c->client);
    if (b == NULL)
        return 0;
    if (c->part_size == c->part_cap) {
        int r = director_part_grow(c, c->part_cap + 1);
        if (r == SNIC_EMSGSIZE)
            director_conn_error(c, r, c->part, c->part_size, 1);
        if (r != 1)
            return 0;
    }
    /* Little at first: what is copied beyond the message's end is copied for nothing. */
    uint64_t n = snic_min_u64(b->size, snic_max_u64(512, c->part_size));
    n = snic_min_u64(n, c->part_cap - c->part_size);
    memcpy(c->part + c->part_size, b->data, (size_t)n);
    uint32_t size = c->part_size + (uint32_t)n;
    int64_t r = c->d->user.frame(c->d->user.ctx, c->part, size, &c->frame_state);
    if (r > (int64_t)c->d->message_max) { /* the host takes less than there is memory for */
        director_conn_error(c, SNIC_EMSGSIZE, c->part, size, 1);
        return 0;
    }
    if (r == 0) {
        c->part_size = size;
        director_in_take(&c->client, (uint32_t)n);
        return 2;
    }
    if (r > (int64_t)c->part_size && r <= (int64_t)size) {
        director_in_take(&c->client, (uint32_t)r - c->part_size);
        c->part_size = (uint32_t)r;
        c->msg = c->part;
        c->msg_size = (uint32_t)r;
        return 1;
    }
    r = director_frame_result(c, r, c->part, size);
    if (r < 0)
        return 0;
    director_frame_drop(c, (uint32_t)r, (uint32_t)n);
    return 2;
}

/* The message lies in the head buffer, or begins there. Results as above. */
static int director_frame_head(struct snic_director_conn *c)
{
    struct snic_net_buf *b = director_in_head(&c->client);
    if (b == NULL)
        return 0;
    int64_t r = c->d->user.frame(c->d->user.ctx, b->data, b->size, &c->frame_state);
    if (r > 0 && r <= (int64_t)b->size) {
        if (r > (int64_t)c->d->message_max) {
            director_conn_error(c, SNIC_EMSGSIZE, b->data, b->size, 1);
            return 0;
        }
        c->msg = b->data;
        c->msg_size = (uint32_t)r;
        return 1;
    }
    if (r == 0)
        return director_frame_begin(c) ? 2 : 0;
    r = director_frame_result(c, r, b->data, b->size);
    if (r < 0)
        return 0;
    if (r > 0)
        director_in_take(&c->client, (uint32_t)r);
    return 2;
}

/* ---- Routing ---- */

/* Send the decided message on: 1, or 0 when it has to wait. */
static int director_route(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    struct director_slot *s = c->piece_of;
    uint32_t flags = 0;
    if (c->route == SNIC_DIRECTOR_DPU && !c->tried && d->offload != NULL) {
        if (c->barriers > 0) {
            d->stats.barrier_blocked++;
        } else if (director_offload_unfair(c)) {
            c->wait_for |= SNIC_DIRECTOR__WAIT_POOL;
            return 0;
        } else if (c->offloading >= SNIC_DIRECTOR__OFFLOADS) {
            c->wait_for |= SNIC_DIRECTOR__WAIT_OFFLOAD;
            return 0;
        } else if (director_offload(c)) {
            return 1;
        }
        c->tried = 1;
    }
    if (c->route == SNIC_DIRECTOR_BARRIER || c->route == SNIC_DIRECTOR_SWITCH) {
        if (c->offloading > 0) {
            c->wait_for |= SNIC_DIRECTOR__WAIT_OFFLOAD;
            return 0;
        }
        flags = SNIC_DIRECTOR__BARRIER;
        if (c->route == SNIC_DIRECTOR_SWITCH)
            flags |= SNIC_DIRECTOR__SWITCH;
    }
    if (s == NULL && director_backlog_wait(c))
        return 0;
    int r = director_to_host(c, &s, c->msg, c->msg_size, flags);
    c->piece_of = r == 1 ? NULL : s;
    if (r != 1)
        return 0;
    if (flags != 0)
        d->stats.barriers++;
    return 1;
}

/*
 * Classify the message at hand; 1 when it was answered at once, 2 when that was the last, -1 when
 * its answer waits for a barrier: it is classified again, since the answer may be another one then.
 */
static int director_decide(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    struct snic_director_verdict v; /* its 512 bytes of text are not cleared */
    uint64_t user = c->user;
    v.route = SNIC_DIRECTOR_HOST;
    v.flags = 0;
    v.reply_size = 0;
    d->user.predicate(d->user.ctx, d->offload, &c->user, c->msg, c->msg_size, &v);
    if (v.route == SNIC_DIRECTOR_ANSWER && c->barriers > 0) {
        c->user = user;
        c->wait_for |= SNIC_DIRECTOR__WAIT_BARRIER;
        return -1;
    }
    d->stats.messages++;
    if (v.route == SNIC_DIRECTOR_ANSWER || v.route == SNIC_DIRECTOR_CLOSE) {
        SNIC_ASSERT(v.reply_size <= sizeof(v.reply));
        d->stats.answered++;
        if (v.route == SNIC_DIRECTOR_CLOSE)
            c->client.eof = 1;
        director_conn_answer(c, v.reply, v.reply_size,
                             v.route == SNIC_DIRECTOR_CLOSE ? SNIC_DIRECTOR__CLOSE : 0);
        return v.route == SNIC_DIRECTOR_CLOSE ? 2 : 1;
    }
    c->decided = 1;
    c->route = (uint8_t)v.route;
    c->msg_flags = v.flags;
    c->tried = 0;
    return 0;
}

/* One message, or a part of one; what it cost, 0: nothing can be done now. */
static uint32_t director_step(struct snic_director_conn *c)
{
    if (c->wait_for != 0 || c->closing || c->dead) /* I2 */
        return 0;
    if (!c->decided) {
        int r = 1;
        if (c->switches > 0) {
            c->wait_for |= SNIC_DIRECTOR__WAIT_BARRIER;
            return 0;
        }
        if ((c->msg == NULL && director_in_head(&c->client) == NULL) || !director_conn_room(c))
            return 0;
        if (c->msg == NULL)
            r = c->part != NULL ? director_frame_part(c) : director_frame_head(c);
        if (r != 1)
            return r == 0 ? 0 : SNIC_DIRECTOR__MESSAGE_COST;
        r = director_decide(c);
        if (r < 0)
            return 0;
        if (r != 0) {
            uint32_t cost = c->msg_size + SNIC_DIRECTOR__MESSAGE_COST;
            director_conn_consume(c);
            if (r == 2) /* nothing behind it is read */
                director_in_drop(&c->client);
            return cost;
        }
    }
    uint32_t cost = c->msg_size + SNIC_DIRECTOR__MESSAGE_COST;
    if (!director_route(c))
        return 0;
    director_conn_consume(c);
    return cost;
}

/* A passed through connection: bytes to the other end as they are. */
static uint32_t director_raw_step(struct snic_director_conn *c)
{
    struct snic_net_buf *b = director_in_head(&c->client);
    if (b == NULL || c->dead || c->closing || c->wait_for != 0)
        return 0;
    if (c->mem >= c->d->opts.conn_bytes) {
        c->wait_for |= SNIC_DIRECTOR__WAIT_BOUND;
        return 0;
    }
    uint32_t n = director_out_append(&c->host, b->data, b->size, SNIC_DIRECTOR__RESERVE);
    if (n == 0) {
        director_wait(c, &c->d->wait_block, SNIC_DIRECTOR__WAIT_BLOCK);
        return 0;
    }
    director_in_take(&c->client, n);
    return n;
}

/* Stop the client's sending while it is not read, start it again when there is nothing to read. */
static void director_conn_pause(struct snic_director_conn *c)
{
    struct director_end *e = &c->client;
    if (e->net == NULL || e->closing)
        return;
    if (!e->paused && e->in_count >= 2 && c->wait_for != 0) {
        e->paused = 1;
        c->d->stats.pauses++;
        snic_net_pause(e->net, 1);
    } else if (e->paused && e->in_count == 0 && c->wait_for == 0 && !e->eof) {
        e->paused = 0;
        snic_net_pause(e->net, 0);
    }
}

uint32_t director_turn(struct snic_loop_task *t, uint32_t budget)
{
    struct snic_director_conn *c = SNIC_CONTAINER(t, struct snic_director_conn, task);
    uint32_t used = 0;
    uint32_t n = 1;
    c->wait_for &= ~SNIC_DIRECTOR__WAIT_OWN;
    director_backlog_turn_begins(c);
    if (c->host.in_count > 0)
        director_net_pump(c);
    if (c->ended && c->host.in_count == 0)
        director_net_over(c);
    if (!snic_link_alone(&c->slots))
        director_reply_advance(c); /* one that waited for a block */
    while (used < budget && n > 0) {
        n = c->raw ? director_raw_step(c) : director_step(c);
        used += n;
    }
    if (c->used) {
        director_conn_pause(c);
        director_conn_check(c);
    }
    director_backlog_turn_ends(c);
    c->resumed = 0;
    return n > 0 ? used : (uint32_t)snic_min_u64(used, budget - 1);
}

/* ---- Ends ---- */

/* The client's end is closed: let go of everything. */
static void director_conn_end(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    c->dead = 1;
    snic_link_remove(&c->wait);
    snic_link_remove(&c->dirty);
    c->wait_for = 0;
    director_in_drop(&c->client);
    director_in_drop(&c->host);
    director_part_give(c);
    c->decided = 0;
    c->msg = NULL;
    director_out_drop(&c->client);
    director_reply_drop(c);
    if (c->host.busy == 0)
        director_out_drop(&c->host);
    if (c->carry != NULL)
        director_block_give(c, c->carry);
    c->carry = NULL;
    if (c->host.net != NULL && (!c->host.closing || d->drain_over)) {
        c->host.closing = 1;
        if (c->host.open && !d->drain_over)
            snic_net_close(c->host.net); /* what the client has sent gets there all the same */
        else
            snic_net_abort(c->host.net);
    }
    snic_loop_unready(d->loop, &c->task);
    if (c->known)
        director_channel_closed_conn(c);
    director_conn_release(c);
}

/* ---- Events of the client's end ---- */

static void director_client_recv(void *ctx, struct snic_net_conn *n, struct snic_net_buf *b)
{
    struct snic_director_conn *c = ctx;
    (void)n;
    c->d->stats.recv_bytes += b->size;
    director_moved(c, b->size);
    if (c->dead || c->closing || (c->client.eof && !c->raw)) {
        snic_net_put(c->d->net, b);
        return;
    }
    director_in_push(&c->client, b);
    director_ready(c);
}

static void director_client_eof(void *ctx, struct snic_net_conn *n)
{
    struct snic_director_conn *c = ctx;
    (void)n;
    c->client.eof = 1;
    director_conn_check(c);
}

static void director_client_writable(void *ctx, struct snic_net_conn *n)
{
    struct snic_director_conn *c = ctx;
    (void)n;
    director_out_more(&c->client);
}

static void director_client_closed(void *ctx, struct snic_net_conn *n, int reason)
{
    struct snic_director_conn *c = ctx;
    (void)n;
    c->client.net = NULL;
    if (reason != 0 && c->raw && c->host.net != NULL && !c->host.closing) {
        c->host.closing = 1;
        snic_net_abort(c->host.net); /* a reset stays a reset */
    }
    director_conn_end(c);
}

/* Hear of what happens at the client's end @n. */
void director_conn_bind(struct snic_director_conn *c, struct snic_net_conn *n)
{
    static const struct snic_net_stream_events events = {
        .recv = director_client_recv,
        .eof = director_client_eof,
        .writable = director_client_writable,
        .closed = director_client_closed,
    };
    c->client.net = n;
    snic_net_bind(n, &events, c);
}
