/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The net connection that each client has to an unmodified server.
 *
 * I1  `hosted` holds the slots whose messages the net host has got or is being sent, in order: its
 *     replies belong to them in that order.
 */
#include "director/director_priv.h"

/* ---- Sending ---- */

/*
 * 1 sent; SNIC_EAGAIN no block, part of it may be sent; 0 there is no host, or none that takes what
 * the engine handed back (with a net upstream director_offload() keeps long messages from it).
 */
int director_net_send(struct snic_director_conn *c, struct director_slot *s,
                      const unsigned char *msg, uint32_t size)
{
    struct snic_director *d = c->d;
    uint32_t at = s->sent;
    uint32_t reserve = SNIC_DIRECTOR__RESERVE;
    if (c->host.dead || c->host.closing || c->host.eof ||
        (c->host.net == NULL && !director_net_connect(c)))
        return 0;
    if (s->state == DIRECTOR_SLOT_RETRY) { /* short, so all or nothing; another may be half-way */
        if (director_stage_need(size) > SNIC_DIRECTOR__STAGE)
            return 0;
        if (c->piece_of != NULL || d->blocks_free < 2 * reserve + size / SNIC_DIRECTOR__DATA)
            return SNIC_EAGAIN;
        reserve = 0;
    }
    uint32_t n = director_out_append(&c->host, msg + at, size - at, reserve);
    if (at == 0 && n > 0) {
        s->flags |= SNIC_DIRECTOR__NET;
        snic_queue_push(&c->hosted, &s->host); /* I1 */
    }
    s->sent += n;
    return at + n == size ? 1 : SNIC_EAGAIN;
}

/* ---- Receiving ---- */

/* Give the host's first @size bytes to the slot they belong to; 0 when memory ran out. */
static int director_net_bytes(struct snic_director_conn *c, const unsigned char *data,
                              uint32_t size, int done)
{
    struct director_slot *s = SNIC_CONTAINER(c->hosted.first, struct director_slot, host);
    uint32_t n = director_reply_bytes(s, data, size);
    SNIC_ASSERT(n == size); /* the caller looked */
    if (done) {
        (void)snic_queue_pop(&c->hosted);
        c->reply_state = 0;
        director_reply_done(s);
    }
    return 1;
}

/* Something that is no reply: the two ends cannot be kept in step any more. */
static void director_net_broken(struct snic_director_conn *c)
{
    director_in_drop(&c->host);
    director_conn_abort(c);
}

/* Put the beginning of the head buffer behind what is carried, and scan that. 0: stop. */
static int director_net_carry(struct snic_director_conn *c)
{
    struct snic_net_buf *b = director_in_head(&c->host);
    struct director_piece *p = &c->carry->piece;
    uint32_t had = p->end;
    uint32_t n = (uint32_t)snic_min_u64(b->size, snic_min_u64(SNIC_DIRECTOR__DATA - had, 256));
    int done = 0;
    if (n == 0) {
        director_net_broken(c);
        return 0;
    }
    memcpy(c->carry->data + had, b->data, n);
    int64_t r =
        c->d->user.frame_reply(c->d->user.ctx, c->carry->data, had + n, &c->reply_state, &done);
    if (r == 0) {
        p->end += n;
        director_in_take(&c->host, n);
        return 1;
    }
    if (r <= (int64_t)had || r > (int64_t)(had + n)) {
        director_net_broken(c);
        return 0;
    }
    struct director_block *carry = c->carry;
    c->carry = NULL;
    (void)director_net_bytes(c, carry->data, (uint32_t)r, done);
    director_block_give(c, carry);
    if (!c->dead)
        director_in_take(&c->host, (uint32_t)r - had);
    return 1;
}

/* Scan the head buffer, or what of it memory allows. 0: stop. */
static int director_net_scan(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    struct snic_net_buf *b = director_in_head(&c->host);
    uint64_t room = (uint64_t)(d->blocks_free - SNIC_DIRECTOR__RESERVE) * SNIC_DIRECTOR__DATA / 2;
    uint32_t size = (uint32_t)snic_min_u64(b->size, room);
    int done = 0;
    if (c->carry != NULL)
        return director_net_carry(c);
    int64_t r = d->user.frame_reply(d->user.ctx, b->data, size, &c->reply_state, &done);
    if (r < 0 || r > (int64_t)size) {
        director_net_broken(c);
        return 0;
    }
    if (r > 0) {
        (void)director_net_bytes(c, b->data, (uint32_t)r, done);
        director_in_take(&c->host, (uint32_t)r);
        return 1;
    }
    c->carry = director_block_take(c, 0);
    return c->carry != NULL;
}

/* Is there a message whose reply this can be? Not one that the host has received in part. */
static int director_net_expected(const struct snic_director_conn *c)
{
    return !snic_queue_empty(&c->hosted) &&
           SNIC_CONTAINER(c->hosted.first, struct director_slot, host) != c->piece_of;
}

/* Move what the host has sent towards the client, within the bounds. */
void director_net_pump(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    while (director_in_head(&c->host) != NULL && !c->dead) {
        if (c->mem >= 2 * (uint64_t)d->opts.conn_bytes)
            return; /* the slow reader's sends call again */
        if (d->blocks_free <= 4 * SNIC_DIRECTOR__RESERVE) {
            if (snic_link_alone(&c->wait))
                director_wait(c, &d->wait_block, SNIC_DIRECTOR__WAIT_BLOCK);
            return;
        }
        if (c->raw) {
            struct snic_net_buf *b = director_in_head(&c->host);
            uint32_t n = director_out_append(&c->client, b->data, b->size, SNIC_DIRECTOR__RESERVE);
            director_in_take(&c->host, n);
            continue;
        }
        if (c->closing || !director_net_expected(c)) {
            if (!c->closing)
                director_net_broken(c);
            else
                director_in_drop(&c->host);
            return;
        }
        if (!director_net_scan(c))
            return;
    }
}

/* ---- Events ---- */

static void director_net_recv(void *ctx, struct snic_net_conn *n, struct snic_net_buf *b)
{
    struct snic_director_conn *c = ctx;
    (void)n;
    director_moved(c, b->size);
    if (c->dead || (c->closing && !c->raw)) {
        snic_net_put(c->d->net, b);
        return;
    }
    director_in_push(&c->host, b);
    director_net_pump(c);
    director_conn_check(c);
}

/* The host cannot be reached: its messages are answered, the client lives on. */
static void director_net_refused(struct snic_director_conn *c)
{
    int partly = c->piece_of != NULL && (c->piece_of->flags & SNIC_DIRECTOR__NET) != 0;
    director_out_drop(&c->host);
    director_out_init(&c->host, c);
    if (partly) { /* the rest of it has nowhere to go */
        c->piece_of = NULL;
        director_conn_consume(c);
    }
    director_reply_gone_all(c, SNIC_DIRECTOR__NET);
}

static void director_net_connected(void *ctx, struct snic_net_conn *n, int error)
{
    struct snic_director_conn *c = ctx;
    (void)n;
    if (error == 0) {
        c->host.open = 1;
        director_out_more(&c->host);
        director_conn_check(c);
        return;
    }
    c->host.net = NULL;
    c->host.dead = 1;
    if (c->dead)
        return;
    c->d->stats.host_refused++;
    if (c->raw)
        director_conn_abort(c);
}

static void director_net_writable(void *ctx, struct snic_net_conn *n)
{
    struct snic_director_conn *c = ctx;
    (void)n;
    director_out_more(&c->host);
}

/* The host answers no more: what it owes is never paid. */
void director_net_over(struct snic_director_conn *c)
{
    c->ended = 0;
    if (c->dead || c->raw || c->closing)
        return;
    c->client.eof = 1; /* nothing more is taken from the client */
    director_part_give(c);
    c->decided = 0;
    c->msg = NULL;
    c->piece_of = NULL;
    director_in_drop(&c->client);
    director_reply_cut(c);
    director_conn_check(c);
}

static void director_net_eof(void *ctx, struct snic_net_conn *n)
{
    struct snic_director_conn *c = ctx;
    if (!c->dead && !c->closing && !c->host.closing && !c->host.shut && !c->host.eof)
        c->d->stats.host_ended++;
    c->host.eof = 1;
    director_net_pump(c);
    if (!c->raw && !c->host.closing) {
        c->host.closing = 1;
        snic_net_close(n);
    }
    director_conn_check(c);
}

static void director_net_closed(void *ctx, struct snic_net_conn *n, int reason)
{
    struct snic_director_conn *c = ctx;
    int was_open = c->host.open;
    (void)n;
    if (reason != 0 && was_open && !c->dead && !c->host.eof && !c->host.closing)
        c->d->stats.host_ended++;
    c->host.net = NULL;
    c->host.dead = 0;
    if (c->dead) {
        director_out_drop(&c->host);
        director_conn_release(c);
        return;
    }
    if (was_open && !c->raw) {
        director_net_pump(c);
        director_out_drop(&c->host);
        c->host.open = 0;
        if (c->host.in_count == 0)
            director_net_over(c);
        else
            c->ended = 1;
    } else if (!c->raw) {
        director_net_refused(c);
    } else {
        director_out_drop(&c->host);
        if (reason != 0)
            director_conn_abort(c);
        else
            c->closing = 1;
        director_conn_check(c);
    }
}

/* 1 on its way; 0 refused at once. */
int director_net_connect(struct snic_director_conn *c)
{
    static const struct snic_net_stream_events events = {
        .connected = director_net_connected,
        .recv = director_net_recv,
        .eof = director_net_eof,
        .writable = director_net_writable,
        .closed = director_net_closed,
    };
    struct snic_director *d = c->d;
    int ok = snic_net_connect(d->net, &d->host_addr, &events, c, &c->host.net) == 0;
    d->stats.host_refused += !ok;
    return ok;
}
