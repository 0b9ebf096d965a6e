/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections of the monolith.
 *   F1 messages are numbered per connection; slot seq & (pending_max - 1) holds an
 *      answer that is ready before those of earlier messages.
 *   F2 at most one send is in flight per connection, of the first `flight` bytes of `out`; what is
 *      answered meanwhile leaves with the next one, once per loop iteration.
 *   F3 input is `in` (the bytes of an unfinished message) followed by the lent buffers.
 *   F4 while a message waits in the engine no other is taken from its client: what waits there, and
 *      the replies of what is being read from the device, would be outside of every limit.
 */
#include "front.h"

#include "../common.h"
#include "front_out.h"

#include <stdlib.h>
#include <string.h>

/* A client that holds client-output-buffer-limit's hard limit and takes nothing is closed. */
#define FRONT_HARD_NS 10000000000u
#define FRONT_TELL_NS 1000000000u /* between two log lines of a kind */

/* What ends a client for the replies that it does not read. */
enum front_limit_kind { FRONT_OUTPUT_LIMIT, FRONT_CLIENTS_MEMORY };

struct front_buffer {
    char *data;
    size_t size;
    size_t room;
};

struct front_slot {
    char *data; /* NULL: not answered yet */
    size_t size;
    int close_after;
};

struct front_conn {
    struct kv_front *front;
    struct snic_net_conn *net; /* NULL: gone, slot free */
    uint64_t id;
    struct front_buffer in;
    struct snic_queue lent;
    uint64_t frame_state;
    int skipping;
    int error; /* resp_discard() found broken input */
    uint64_t next_seq;
    uint64_t next_out;
    uint64_t waits; /* the messages before this one end before another begins (F4) */
    struct front_slot *slots;
    struct front_out out;
    struct snic_net_send_req send;
    struct snic_iov iov[FRONT_OUT_IOV];
    size_t flight; /* bytes of the send in flight; 0: none */
    char peer[48];
    int paused;
    int eof;         /* input is over: broken, or worked off after a half-close */
    int half_closed; /* the peer sends no more */
    int closing;
    struct snic_link dirty; /* has output to send at the end of the iteration */
    size_t slot_bytes;      /* of answers before their turn */
    uint64_t soft_since_ns; /* above the soft limit since then, taking nothing; 0: it is not */
    uint64_t hard_since_ns; /* the hard limit, likewise */
    int no_evict;
    int evicted;
    size_t counted; /* what it holds, in front->held */
    uint32_t next_free;
};

/* A connection for which there is no place, until its end. */
struct front_refusal {
    struct kv_front *front;
    struct snic_net_conn *net; /* NULL: free */
    struct snic_net_send_req send;
    struct snic_iov iov;
};

struct kv_front {
    struct kv_front_opts opts;
    struct kv_engine *engine;
    struct snic_net_listener *listener;
    struct front_conn *conns;
    uint32_t free_first; /* index + 1 */
    uint64_t generation;
    struct snic_link dirty;
    struct snic_loop_msg flush;
    int flush_queued;
    int draining;
    void (*done)(void *ctx);
    void *done_ctx;
    struct kv_settings settings;
    uint64_t clients_bytes;   /* maxmemory-clients */
    uint64_t held, held_most; /* unread replies of all; at most, since memory was returned */
    uint64_t limit_told_ns[FRONT_CLIENTS_MEMORY + 1];
    uint64_t query_told_ns;
    char own[48]; /* the address that it listens on */
    struct front_refusal refusals[KV_FRONT_REFUSALS];
    uint32_t refusals_used;
    uint64_t refused_told_ns;
    struct snic_timer watch;
    struct kv_front_stats stats;
};

static int front_append(struct front_buffer *b, const void *data, size_t size)
{
    if (b->size + size > b->room) {
        size_t room = b->room < 64 ? 64 : b->room;
        char *p;

        while (room < b->size + size)
            room *= 2;
        p = realloc(b->data, room);
        if (p == NULL)
            return SNIC_ENOMEM;
        b->data = p;
        b->room = room;
    }
    if (size > 0)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    return 0;
}

/* A buffer that once held a big message does not keep its memory. */
static void front_trim(struct front_buffer *b)
{
    if (b->size == 0 && b->room > (256u << 10)) {
        free(b->data);
        memset(b, 0, sizeof(*b));
    }
}

static struct front_conn *front_find(struct kv_front *f, uint64_t id)
{
    struct front_conn *c = &f->conns[id & 0xffff];

    return (id & 0xffff) < f->opts.conns_max && c->net != NULL && c->id == id ? c : NULL;
}

static void front_mark(struct front_conn *c)
{
    struct kv_front *f = c->front;

    if (snic_link_alone(&c->dirty))
        snic_link_append(&f->dirty, &c->dirty);
    if (!f->flush_queued) {
        f->flush_queued = 1;
        snic_loop_defer(f->opts.net->loop, &f->flush);
    }
}

static size_t front_unsent(const struct front_conn *c)
{
    return c->out.bytes + c->slot_bytes;
}

/* Not read from: with many messages under way, at the hard limit until it takes replies, or F4. */
static int front_full(const struct front_conn *c)
{
    const struct kv_out_limit *l = &c->front->settings.out[0];

    return c->next_out < c->waits || (l->hard != 0 && front_unsent(c) >= l->hard) ||
           c->next_seq - c->next_out >= c->front->opts.pending_max;
}

/* End a client for what it holds. */
static void front_evict(struct front_conn *c, enum front_limit_kind kind)
{
    struct kv_front *f = c->front;
    uint64_t now = snic_loop_now(f->opts.net->loop);
    uint64_t count;

    count = kind == FRONT_OUTPUT_LIMIT ? ++f->stats.output_limit : ++f->stats.clients_memory;
    if (f->limit_told_ns[kind] == 0 || now - f->limit_told_ns[kind] >= FRONT_TELL_NS) {
        f->limit_told_ns[kind] = now;
        ex_log(EX_WARNING,
               "a client was disconnected: it has %zu bytes of unread replies (%s); %llu clients "
               "so far",
               front_unsent(c),
               kind == FRONT_OUTPUT_LIMIT ? "client-output-buffer-limit" : "maxmemory-clients",
               (unsigned long long)count);
    }
    c->closing = 1;
    c->evicted = 1;
    snic_net_abort(c->net);
}

/* Begin or end to count the time above a limit. */
static void front_since(uint64_t *since_ns, int above, uint64_t now)
{
    if (!above)
        *since_ns = 0;
    else if (*since_ns == 0)
        *since_ns = now;
}

/*
 * client-output-buffer-limit: Redis ends a client at the hard limit at once. Here it is not read
 * from any more, and ended when it takes nothing: one that reads while it writes continues.
 */
static void front_limit(struct front_conn *c)
{
    struct kv_front *f = c->front;
    const struct kv_out_limit *l = &f->settings.out[0];
    size_t unsent = front_unsent(c);
    uint64_t now = snic_loop_now(f->opts.net->loop);

    if (c->evicted)
        return;
    front_since(&c->soft_since_ns, l->soft != 0 && unsent > l->soft, now);
    front_since(&c->hard_since_ns, l->hard != 0 && unsent >= l->hard, now);
    if ((c->hard_since_ns != 0 && now - c->hard_since_ns > FRONT_HARD_NS) ||
        (c->soft_since_ns != 0 && now - c->soft_since_ns > l->soft_s * 1000000000u))
        front_evict(c, FRONT_OUTPUT_LIMIT);
}

/* Once a second: evict clients that are beyond an output limit for too long. */
static void front_watch(struct snic_timer *t, uint64_t now_ns)
{
    struct kv_front *f = SNIC_CONTAINER(t, struct kv_front, watch);

    for (uint32_t i = 0; i < f->opts.conns_max; i++)
        if (f->conns[i].net != NULL)
            front_limit(&f->conns[i]);
    front_out_trim(f->held, &f->held_most);
    snic_loop_arm(f->opts.net->loop, t, now_ns + 1000000000u);
}

/* What @p c holds has changed. */
static void front_account(struct front_conn *c)
{
    struct kv_front *f = c->front;
    size_t held = c->evicted || c->no_evict ? 0 : front_unsent(c) + c->in.size;

    f->held += held - c->counted;
    f->held_most = snic_max_u64(f->held_most, f->held);
    c->counted = held;
    front_limit(c);
    while (f->clients_bytes != 0 && f->held > f->clients_bytes) {
        struct front_conn *hog = NULL;

        for (uint32_t i = 0; i < f->opts.conns_max; i++)
            if (f->conns[i].net != NULL && !f->conns[i].no_evict &&
                (hog == NULL || f->conns[i].counted > hog->counted))
                hog = &f->conns[i];
        if (hog == NULL || hog->counted == 0)
            return;
        f->held -= hog->counted;
        hog->counted = 0;
        if (!hog->evicted)
            front_evict(hog, FRONT_CLIENTS_MEMORY);
    }
}

static void front_parse(struct front_conn *c);

static void front_sent(struct snic_net_send_req *s)
{
    struct front_conn *c = SNIC_CONTAINER(s, struct front_conn, send);

    front_out_sent(&c->out, c->flight);
    c->flight = 0;
    c->soft_since_ns = c->hard_since_ns = 0; /* it reads */
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
    if (c->flight > 0)
        return;
    if (!front_full(c)) /* with what it holds meanwhile */
        front_parse(c);
    if (c->out.bytes == 0) {
        if (front_finished(c))
            snic_net_close(c->net);
        return;
    }
    c->send.iov = c->iov;
    c->send.iov_count = front_out_gather(&c->out, c->iov, &c->flight);
    c->send.region = SNIC_NO_REGION;
    c->send.done = front_sent;
    if (snic_net_send(c->net, &c->send) != 1) {
        c->flight = 0; /* the connection is going: closed follows */
        front_out_free(&c->out);
    }
}

static void front_flush(struct snic_loop_msg *m)
{
    struct kv_front *f = SNIC_CONTAINER(m, struct kv_front, flush);

    f->flush_queued = 0;
    while (!snic_link_alone(&f->dirty)) {
        struct front_conn *c = SNIC_CONTAINER(f->dirty.next, struct front_conn, dirty);

        snic_link_remove(&c->dirty);
        front_flush_conn(c);
    }
}

/* Put the answer of the next message into the output, and those waiting behind it. */
static void front_in_order(struct front_conn *c, int close_after)
{
    uint32_t mask = c->front->opts.pending_max - 1;

    c->next_out++;
    c->closing |= close_after;
    while (!c->closing && c->slots[c->next_out & mask].data != NULL) { /* F1 */
        struct front_slot *s = &c->slots[c->next_out & mask];

        if (front_out_append(&c->out, s->data, s->size) != 0)
            c->closing = 1;
        c->slot_bytes -= s->size;
        free(s->data);
        s->data = NULL;
        c->closing |= s->close_after;
        c->next_out++;
    }
    front_mark(c);
}

int kv_front_reply(void *ctx, uint64_t client, uint64_t seq, const struct snic_iov *iov,
                   uint32_t count, uint32_t flags, uint64_t user)
{
    struct kv_front *f = ctx;
    struct front_conn *c = front_find(f, client);
    struct front_buffer b = {NULL, 0, 0};
    struct front_slot *s;
    int close_after = (flags & KV_REPLY_CLOSE) != 0;
    int r = 0;

    (void)user; /* the engine knows it */
    if (c == NULL || c->closing)
        return 0;
    if (seq == c->next_out) {
        for (uint32_t i = 0; i < count && r == 0; i++)
            r = front_out_append(&c->out, iov[i].base, iov[i].size);
        front_in_order(c, close_after || r != 0);
        front_account(c);
        return 0;
    }
    b.data = malloc(1); /* an empty answer is an answer */
    b.room = b.data != NULL;
    for (uint32_t i = 0; i < count && r == 0; i++)
        r = front_append(&b, iov[i].base, iov[i].size);
    if (r != 0 || b.data == NULL) {
        c->closing = 1;
        front_mark(c);
        free(b.data);
        return 0;
    }
    s = &c->slots[seq & (f->opts.pending_max - 1)];
    s->data = b.data;
    s->size = b.size;
    s->close_after = close_after;
    c->slot_bytes += s->size;
    front_account(c);
    return 0;
}

/* An answer of the front itself, in its turn. */
static void front_own_reply(struct front_conn *c, const char *text, size_t size, int close_after)
{
    struct snic_iov iov = {(void *)(uintptr_t)text, size};
    uint64_t seq = c->next_seq++;

    kv_front_reply(c->front, c->id, seq, &iov, 1, close_after ? KV_REPLY_CLOSE : 0, 0);
}

/* client-query-buffer-limit: Redis ends the client without a reply, too. */
static void front_query_limit(struct front_conn *c)
{
    struct kv_front *f = c->front;
    uint64_t now = snic_loop_now(f->opts.net->loop);

    f->stats.query_limit++;
    if (f->query_told_ns == 0 || now - f->query_told_ns >= FRONT_TELL_NS) {
        f->query_told_ns = now;
        ex_log(EX_WARNING,
               "a client is closed: its unfinished command is longer than "
               "client-query-buffer-limit; %llu so far",
               (unsigned long long)f->stats.query_limit);
    }
    c->closing = 1;
    snic_net_abort(c->net);
}

/* One step over @p data: bytes consumed, or 0 when more are needed. */
static size_t front_step(struct front_conn *c, const unsigned char *data, size_t size)
{
    struct kv_front *f = c->front;
    char text[RESP_ERROR_MAX];
    int64_t n;

    if (!c->skipping) {
        n = resp_frame(data, size, &f->opts.limits, &c->frame_state);
        if (n > 0) {
            uint64_t seq = c->next_seq++;

            f->stats.messages++;
            if (kv_engine_message(f->engine, c->id, seq, 0, data, (size_t)n) == 1)
                c->waits = seq + 1;
            return (size_t)n;
        }
        if (size > f->settings.query && (n == 0 || n == SNIC_EMSGSIZE)) {
            front_query_limit(c);
            return 0;
        }
        if (n == 0)
            return 0;
        c->skipping = n == SNIC_EMSGSIZE;
    }
    if (c->skipping) {
        n = resp_discard(data, size, &c->frame_state);
        if (n >= 0) {
            if (c->frame_state == 0) {
                c->skipping = 0;
                f->stats.oversized++;
                front_own_reply(c, text, resp_too_long(&f->opts.limits, text), 0);
            }
            return (size_t)n;
        }
    }
    f->stats.protocol_errors++;
    front_own_reply(c, text, resp_error(data, size, &f->opts.limits, text), 1);
    c->eof = 1; /* nothing more is read */
    return size;
}

/* Consume from @p data as much as there are whole messages in it. */
static size_t front_consume(struct front_conn *c, const unsigned char *data, size_t size)
{
    size_t at = 0;

    while (at < size && !front_full(c) && !c->closing && !c->eof) {
        size_t n = front_step(c, data + at, size - at);

        if (n == 0)
            break;
        at += n;
    }
    return c->eof ? size : at;
}

static void front_pause(struct front_conn *c, int paused)
{
    if (c->paused != paused) {
        c->paused = paused;
        c->front->stats.pauses += (uint64_t)paused;
        snic_net_pause(c->net, paused);
    }
}

static void front_drop_input(struct front_conn *c)
{
    while (!snic_queue_empty(&c->lent))
        snic_net_put(c->front->opts.net,
                     SNIC_CONTAINER(snic_queue_pop(&c->lent), struct snic_net_buf, node));
    c->in.size = 0;
}

/* Work off the input (F3) as far as the bounds allow. */
static void front_parse(struct front_conn *c)
{
    struct kv_front *f = c->front;

    if (c->eof || c->closing || f->draining) {
        front_drop_input(c);
        return;
    }
    if (c->in.size > 0 && !front_full(c)) {
        size_t n = front_consume(c, (unsigned char *)c->in.data, c->in.size);

        memmove(c->in.data, c->in.data + n, c->in.size - n);
        c->in.size -= n;
        front_trim(&c->in);
    }
    while (!snic_queue_empty(&c->lent) && !front_full(c)) {
        struct snic_net_buf *b = SNIC_CONTAINER(c->lent.first, struct snic_net_buf, node);

        if (c->in.size == 0) {
            size_t n = front_consume(c, b->data, b->size);

            b->data += n;
            b->size -= (uint32_t)n;
            if (b->size > 0 && front_full(c))
                break;
        }
        if (front_append(&c->in, b->data, b->size) != 0) {
            snic_net_abort(c->net);
            return;
        }
        (void)snic_queue_pop(&c->lent);
        snic_net_put(f->opts.net, b);
        if (c->in.size > 0) {
            size_t n = front_consume(c, (unsigned char *)c->in.data, c->in.size);

            memmove(c->in.data, c->in.data + n, c->in.size - n);
            c->in.size -= n;
        }
    }
    if (c->half_closed && snic_queue_empty(&c->lent) && !front_full(c))
        c->eof = 1; /* the rest of a message will not arrive */
    front_pause(c, front_full(c));
}

/* ---- Events ---- */

static void front_recv(void *ctx, struct snic_net_conn *net, struct snic_net_buf *buf)
{
    struct front_conn *c = ctx;

    (void)net;
    snic_queue_push(&c->lent, &buf->node);
    front_parse(c);
    if (c->in.size != 0 || c->counted != 0)
        front_account(c);
}

static void front_eof(void *ctx, struct snic_net_conn *net)
{
    struct front_conn *c = ctx;

    (void)net;
    c->half_closed = 1;
    front_parse(c);
    front_mark(c);
}

static void front_drain_check(struct kv_front *f)
{
    if (f->draining && f->stats.conns == 0 && f->refusals_used == 0 && f->done != NULL)
        f->done(f->done_ctx);
}

static void front_closed(void *ctx, struct snic_net_conn *net, int reason)
{
    struct front_conn *c = ctx;
    struct kv_front *f = c->front;

    (void)net;
    (void)reason;
    front_drop_input(c);
    f->held -= c->counted;
    for (uint32_t i = 0; i < f->opts.pending_max; i++)
        free(c->slots[i].data);
    free(c->slots);
    free(c->in.data);
    front_out_free(&c->out);
    snic_link_remove(&c->dirty);
    kv_engine_client_closed(f->engine, c->id);
    c->net = NULL;
    c->next_free = f->free_first;
    f->free_first = (uint32_t)(c - f->conns) + 1;
    f->stats.closed++;
    f->stats.conns--;
    front_drain_check(f);
}

static const struct snic_net_stream_events front_events = {
    .recv = front_recv, .eof = front_eof, .closed = front_closed};

/* ---- Refusals ---- */

static void front_refusal_recv(void *ctx, struct snic_net_conn *net, struct snic_net_buf *buf)
{
    struct front_refusal *r = ctx;

    (void)net;
    snic_net_put(r->front->opts.net, buf);
}

static void front_refusal_eof(void *ctx, struct snic_net_conn *net)
{
    (void)ctx; /* it is being closed */
    (void)net;
}

static void front_refusal_closed(void *ctx, struct snic_net_conn *net, int reason)
{
    struct front_refusal *r = ctx;

    (void)net;
    (void)reason;
    r->net = NULL;
    r->front->refusals_used--;
    front_drain_check(r->front);
}

static void front_refusal_sent(struct snic_net_send_req *s)
{
    (void)s; /* closing has begun already */
}

/* There is no place for the connection: the reason as Redis words it, then its end. */
static void front_refuse(struct kv_front *f, struct snic_net_conn *net)
{
    static const struct snic_net_stream_events events = {
        .recv = front_refusal_recv, .eof = front_refusal_eof, .closed = front_refusal_closed};
    static const char text[] = "-ERR max number of clients reached\r\n";
    uint64_t now = snic_loop_now(f->opts.net->loop);
    struct front_refusal *r = f->refusals;

    f->stats.refused++;
    if (!f->draining && (f->refused_told_ns == 0 || now - f->refused_told_ns >= 1000000000u)) {
        f->refused_told_ns = now;
        ex_log(EX_WARNING,
               "%llu clients were refused: all %u connections are in use; raise --connections",
               (unsigned long long)f->stats.refused, f->opts.conns_max);
    }
    while (r != f->refusals + KV_FRONT_REFUSALS && r->net != NULL)
        r++;
    if (r == f->refusals + KV_FRONT_REFUSALS || f->draining) {
        snic_net_abort(net);
        return;
    }
    memset(r, 0, sizeof(*r));
    r->front = f;
    r->net = net;
    f->refusals_used++;
    snic_net_bind(net, &events, r);
    r->iov.base = (void *)(uintptr_t)text;
    r->iov.size = sizeof(text) - 1;
    r->send.iov = &r->iov;
    r->send.iov_count = 1;
    r->send.region = SNIC_NO_REGION;
    r->send.done = front_refusal_sent;
    if (snic_net_send(net, &r->send) == 1)
        snic_net_close(net);
    else
        snic_net_abort(net);
}

static void front_accept(void *ctx, struct snic_net_conn *net, const struct snic_net_addr *peer)
{
    struct kv_front *f = ctx;
    struct front_conn *c;
    uint32_t next;

    if (f->free_first == 0 || f->draining) {
        front_refuse(f, net);
        return;
    }
    c = &f->conns[f->free_first - 1];
    next = c->next_free;
    memset(c, 0, sizeof(*c));
    c->slots = calloc(f->opts.pending_max, sizeof(*c->slots));
    if (c->slots == NULL) {
        c->next_free = next;
        f->stats.refused++;
        snic_net_abort(net);
        return;
    }
    f->free_first = next;
    c->front = f;
    c->net = net;
    c->id = (++f->generation << 16) | (uint64_t)(c - f->conns);
    snic_link_init(&c->dirty);
    if (snic_net_addr_format(peer, c->peer, sizeof(c->peer)) < 0)
        c->peer[0] = 0;
    f->stats.accepted++;
    f->stats.conns++;
    snic_net_bind(net, &front_events, c);
}

/* ---- Open, close ---- */

int kv_front_open(struct kv_front **out, const struct kv_front_opts *o, struct snic_net_addr *bound)
{
    struct kv_front *f = calloc(1, sizeof(*f));
    int r;

    if (f == NULL)
        return SNIC_ENOMEM;
    f->opts = *o;
    f->conns = calloc(o->conns_max, sizeof(*f->conns));
    if (f->conns == NULL || o->conns_max > 65536 || !snic_is_pow2(o->pending_max)) {
        r = f->conns == NULL ? SNIC_ENOMEM : SNIC_EINVAL;
        free(f->conns);
        free(f);
        return r;
    }
    for (uint32_t i = o->conns_max; i > 0; i--) {
        f->conns[i - 1].next_free = f->free_first;
        f->free_first = i;
    }
    snic_link_init(&f->dirty);
    f->flush.fn = front_flush;
    kv_front_settings(f, &o->settings);
    snic_timer_init(&f->watch, front_watch);
    r = snic_net_listen(o->net, &o->address, 0, front_accept, f, &f->listener);
    if (r == 0 && bound != NULL)
        r = snic_net_listen_addr(f->listener, bound);
    if (r == 0 && bound != NULL)
        (void)snic_net_addr_format(bound, f->own, sizeof(f->own));
    if (r != 0) {
        free(f->conns);
        free(f);
        return r;
    }
    snic_loop_arm(o->net->loop, &f->watch, snic_loop_now(o->net->loop) + 1000000000u);
    *out = f;
    return 0;
}

void kv_front_settings(struct kv_front *f, const struct kv_settings *s)
{
    f->settings = *s;
    f->clients_bytes = kv_settings_clients(s);
}

void kv_front_no_evict(struct kv_front *f, uint64_t client, int on)
{
    struct front_conn *c = front_find(f, client);

    if (c == NULL)
        return;
    c->no_evict = on;
    front_account(c);
}

int kv_front_facts(struct kv_front *f, uint64_t client, struct kv_client_facts *out)
{
    const struct front_conn *c = front_find(f, client);

    if (c == NULL)
        return 0;
    memcpy(out->peer, c->peer, sizeof(c->peer));
    memcpy(out->own, f->own, sizeof(f->own));
    out->query_bytes = c->in.size;
    out->query_memory = c->in.room;
    out->out_bytes = c->slot_bytes;
    out->out_blocks = c->out.blocks;
    out->out_memory = c->out.memory + c->slot_bytes;
    return 1;
}

int kv_front_kill(struct kv_front *f, uint64_t client)
{
    struct front_conn *c = front_find(f, client);

    if (c == NULL)
        return 0;
    c->closing = 1;
    snic_net_abort(c->net);
    return 1;
}

void kv_front_engine(struct kv_front *f, struct kv_engine *e)
{
    f->engine = e;
}

void kv_front_drain(struct kv_front *f, void (*done)(void *ctx), void *ctx)
{
    f->draining = 1;
    f->done = done;
    f->done_ctx = ctx;
    if (f->listener != NULL)
        snic_net_unlisten(f->listener);
    f->listener = NULL;
    if (f->stats.conns == 0 && f->refusals_used == 0) {
        done(ctx);
        return;
    }
    for (uint32_t i = 0; i < KV_FRONT_REFUSALS; i++)
        if (f->refusals[i].net != NULL)
            snic_net_abort(f->refusals[i].net);
    for (uint32_t i = 0; i < f->opts.conns_max; i++)
        if (f->conns[i].net != NULL)
            front_mark(&f->conns[i]);
}

void kv_front_close(struct kv_front *f)
{
    snic_loop_cancel(f->opts.net->loop, &f->watch);
    if (f->listener != NULL)
        snic_net_unlisten(f->listener);
    free(f->conns);
    free(f);
}

void kv_front_get_stats(const struct kv_front *f, struct kv_front_stats *out)
{
    *out = f->stats;
}
