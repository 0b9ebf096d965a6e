/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Replies: from the host, from the offload engine, from the predicate; in the order of the
 * requests, or as they come.
 *
 * I1  The bytes of one reply are contiguous in the out queue: only those of the current slot go
 *     there, others collect in their slot. IN_ORDER: the current slot is the oldest. Else it is
 *     the first that had bytes, until it is done; then those that have started follow in order.
 * I2  A slot is answered at most once: only in state HOST (by the host), OFFLOAD (by the engine).
 */
#include "director/director_priv.h"

static int director_in_order(const struct snic_director_conn *c)
{
    return (c->d->opts.flags & SNIC_DIRECTOR_IN_ORDER) != 0;
}

uint64_t director_reply_token(const struct director_slot *s)
{
    return (uint64_t)s->gen << 32 | (uint32_t)(s - s->conn->d->slots);
}

/*
 * The slot that the host means, or NULL: the client is gone, or the host is hostile (for example,
 * it answers a message that it has not received as a whole).
 */
struct director_slot *director_reply_slot(struct snic_director *d, uint64_t conn, uint64_t seq)
{
    uint32_t index = (uint32_t)seq;
    if (index >= d->slots_made)
        return NULL;
    struct director_slot *s = &d->slots[index];
    if (s->state != DIRECTOR_SLOT_HOST || s->gen != (uint32_t)(seq >> 32) || s->conn->id != conn ||
        s->conn->piece_of == s)
        return NULL;
    return s;
}

/* May bytes of @s go out now? Makes it the current one if there is none. I1 */
int director_reply_current(struct director_slot *s)
{
    struct snic_director_conn *c = s->conn;
    if (director_in_order(c))
        return c->slots.next == &s->link;
    if (c->current == NULL)
        c->current = s;
    return c->current == s;
}

static void director_reply_pieces_drop(struct director_slot *s)
{
    struct snic_node *n = snic_queue_pop(&s->pieces);
    for (; n != NULL; n = snic_queue_pop(&s->pieces))
        director_block_give(
            s->conn, (struct director_block *)SNIC_CONTAINER(n, struct director_piece, node));
}

static void director_reply_start(struct director_slot *s)
{
    if ((s->flags & SNIC_DIRECTOR__STARTED) == 0) {
        s->flags |= SNIC_DIRECTOR__STARTED;
        snic_queue_push(&s->conn->started, &s->started);
    }
}

/* Append to the reply of @s what memory allows; bytes taken. */
uint32_t director_reply_bytes(struct director_slot *s, const void *data, uint32_t size)
{
    struct snic_director_conn *c = s->conn;
    uint32_t taken;
    if (size == 0)
        return 0;
    if (director_reply_current(s)) {
        s->flags |= SNIC_DIRECTOR__STREAMED;
        taken = director_out_append(&c->client, data, size, 0);
    } else {
        if (!director_in_order(c))
            director_reply_start(s);
        taken = director_queue_append(c, &s->pieces, data, size, 0);
    }
    s->bytes += (uint32_t)snic_min_u64(taken, UINT32_MAX - s->bytes);
    return taken;
}

/* The client ends after what is in the out queue. */
static void director_reply_close(struct snic_director_conn *c)
{
    c->closing = 1;
}

/* host_gone() for a message that the host has got; 0 when there is no block for it. */
static int director_reply_gone_text(struct director_slot *s)
{
    struct snic_director_conn *c = s->conn;
    char text[SNIC_DIRECTOR__TEXT];
    if (c->d->blocks_free == 0) {
        if (snic_link_alone(&c->wait))
            director_wait(c, &c->d->wait_block, SNIC_DIRECTOR__WAIT_BLOCK);
        return 0;
    }
    uint32_t n = c->d->user.host_gone(c->d->user.ctx, director_in_order(c) ? NULL : s->kept,
                                      director_in_order(c) ? 0 : s->kept_size, text, sizeof(text));
    SNIC_ASSERT(n <= sizeof(text));
    c->d->stats.host_gone++;
    (void)director_out_append(&c->client, text, n, 0);
    return 1;
}

/* Put the finished reply of @s out and free it; 0: it has to wait. */
static int director_reply_emit(struct director_slot *s)
{
    struct snic_director_conn *c = s->conn;
    if (s->state == DIRECTOR_SLOT_GONE && !director_reply_gone_text(s))
        return 0;
    if (s->state == DIRECTOR_SLOT_CUT) {
        director_reply_close(c);
        return 0;
    }
    int closes = (s->flags & SNIC_DIRECTOR__CLOSE) != 0;
    director_out_splice(&c->client, &s->pieces);
    if (c->current == s)
        c->current = NULL;
    if (s->job != NULL)
        director_out_job(&c->client, s);
    else
        director_slot_give(s);
    if (closes)
        director_reply_close(c);
    return 1;
}

static int director_reply_ready(const struct director_slot *s)
{
    return s->state == DIRECTOR_SLOT_DONE || s->state == DIRECTOR_SLOT_GONE ||
           s->state == DIRECTOR_SLOT_CUT;
}

static void director_reply_advance_ordered(struct snic_director_conn *c)
{
    while (!c->closing && !snic_link_alone(&c->slots)) {
        struct director_slot *s = SNIC_CONTAINER(c->slots.next, struct director_slot, link);
        if (!director_reply_ready(s)) {
            if (!snic_queue_empty(&s->pieces)) {
                s->flags |= SNIC_DIRECTOR__STREAMED;
                director_out_splice(&c->client, &s->pieces);
            }
            break;
        }
        if (!director_reply_emit(s))
            break;
    }
}

static void director_reply_advance_free(struct snic_director_conn *c)
{
    while (!c->closing && c->current == NULL && !snic_queue_empty(&c->started)) {
        struct director_slot *s = SNIC_CONTAINER(c->started.first, struct director_slot, started);
        c->current = s;
        if (director_reply_ready(s)) {
            if (!director_reply_emit(s)) {
                c->current = NULL;
                break;
            }
            (void)snic_queue_pop(&c->started);
            continue;
        }
        (void)snic_queue_pop(&c->started);
        s->flags = (uint8_t)((s->flags & ~SNIC_DIRECTOR__STARTED) | SNIC_DIRECTOR__STREAMED);
        director_out_splice(&c->client, &s->pieces);
    }
}

/* Put out whatever has its turn. */
void director_reply_advance(struct snic_director_conn *c)
{
    if (c->dead || c->closing)
        return;
    if (director_in_order(c))
        director_reply_advance_ordered(c);
    else
        director_reply_advance_free(c);
    if (c->closing) {
        director_reply_drop(c);
        director_conn_check(c);
    }
}

/*
 * How many messages may be under way without their replies drowning the others: doubled while
 * the client takes what comes, halved when it does not, and never so many that replies like the
 * recent large ones exceed what the connection may hold. Requests are small, replies may be large.
 */
static void director_reply_window(struct snic_director_conn *c, uint32_t bytes)
{
    uint64_t bytes_max = director_share(c);
    uint64_t most;
    c->reply = (uint32_t)snic_max_u64(bytes, c->reply - c->reply / 4);
    most = bytes_max > c->mem ? bytes_max - c->mem : 0;
    most = snic_min_u64(c->d->opts.pending_max, most / snic_max_u64(c->reply, 1));
    most = snic_min_u64(most, 2 * (uint64_t)c->window);
    if (c->mem > bytes_max / 2)
        most = snic_min_u64(most, c->window / 2);
    c->window = (uint32_t)snic_max_u64(most, 1);
}

/* @s is answered: messages of its connection that it holds back may proceed. */
void director_reply_unblock(struct director_slot *s)
{
    director_flight_end(s);
    if (s->flags & SNIC_DIRECTOR__BARRIER)
        s->conn->barriers--;
    if (s->flags & SNIC_DIRECTOR__SWITCH)
        s->conn->switches--;
    s->flags &= (uint8_t) ~(SNIC_DIRECTOR__BARRIER | SNIC_DIRECTOR__SWITCH);
}

/* @s has got its whole answer (state DONE, GONE or CUT). */
static void director_reply_finish(struct director_slot *s)
{
    struct snic_director_conn *c = s->conn;
    director_reply_window(c, s->bytes);
    director_reply_unblock(s);
    if (!director_in_order(c)) {
        if (c->current == s && !director_reply_emit(s))
            c->current = NULL; /* waits for a block: started again below */
        else if (c->current == s)
            c->current = NULL;
        if (director_reply_ready(s) && s->conn == c)
            director_reply_start(s);
    }
    director_reply_advance(c);
    director_conn_check(c);
    if (c->wait_for & SNIC_DIRECTOR__WAIT_OWN)
        director_ready(c);
}

void director_reply_done(struct director_slot *s)
{
    SNIC_DASSERT(s->state == DIRECTOR_SLOT_HOST || s->state == DIRECTOR_SLOT_OFFLOAD); /* I2 */
    s->state = DIRECTOR_SLOT_DONE;
    director_reply_finish(s);
}

/* A whole short reply, kept or not at all: the caller made sure of a block. */
int director_reply_text(struct director_slot *s, const void *text, uint32_t size)
{
    if (director_reply_bytes(s, text, size) != size)
        return 0;
    director_reply_done(s);
    return 1;
}

/* @s will not be answered by a host. */
void director_reply_gone(struct director_slot *s)
{
    s->state = DIRECTOR_SLOT_GONE;
    director_reply_finish(s);
}

/* The net's (@net) or the channel's host will not answer any more. */
void director_reply_gone_all(struct snic_director_conn *c, uint32_t net)
{
    if (net)
        memset(&c->hosted, 0, sizeof(c->hosted));
    for (struct snic_link *l = c->slots.next; l != &c->slots; l = l->next) {
        struct director_slot *s = SNIC_CONTAINER(l, struct director_slot, link);
        if (s->state != DIRECTOR_SLOT_HOST || (s->flags & SNIC_DIRECTOR__NET) != net)
            continue;
        director_reply_pieces_drop(s);
        if (s->flags & SNIC_DIRECTOR__STREAMED) { /* nothing can complete half a reply */
            director_conn_abort(c);
            return;
        }
        director_reply_unblock(s);
        s->flags &= (uint8_t)~SNIC_DIRECTOR__CLOSE;
        s->state = DIRECTOR_SLOT_GONE;
        if (!director_in_order(c))
            director_reply_start(s);
    }
    director_reply_advance(c);
    director_conn_check(c);
    director_ready(c);
}

/* A net upstream has ended: the client gets the replies before, and then the same end. */
void director_reply_cut(struct snic_director_conn *c)
{
    struct snic_node *n;
    while ((n = snic_queue_pop(&c->hosted)) != NULL) {
        struct director_slot *s = SNIC_CONTAINER(n, struct director_slot, host);
        s->state = DIRECTOR_SLOT_CUT;
        if (!director_in_order(c) && c->current != s)
            director_reply_start(s);
        if (c->current == s)
            director_reply_close(c);
    }
    if (c->closing) {
        director_reply_drop(c);
        director_conn_check(c);
        return;
    }
    director_reply_advance(c);
}

/* Nothing more is answered: free every slot that the engine does not hold. */
void director_reply_drop(struct snic_director_conn *c)
{
    struct snic_link *l = c->slots.next;
    memset(&c->started, 0, sizeof(c->started));
    memset(&c->hosted, 0, sizeof(c->hosted));
    c->current = NULL;
    c->piece_of = NULL;
    if (c->d->piecing != NULL && c->d->piecing->conn == c) {
        c->d->piecing = NULL;
        director_wake(c->d, &c->d->wait_channel, SNIC_DIRECTOR__WAIT_CHANNEL);
    }
    while (l != &c->slots) {
        struct director_slot *s = SNIC_CONTAINER(l, struct director_slot, link);
        l = l->next;
        director_reply_pieces_drop(s);
        if (s->state == DIRECTOR_SLOT_OFFLOAD || s->state == DIRECTOR_SLOT_RETRY)
            continue; /* comes back by itself */
        director_reply_unblock(s);
        if (s->job != NULL)
            director_job_release(s);
        director_slot_give(s);
    }
}
