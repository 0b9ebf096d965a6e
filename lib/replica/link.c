/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Blocks out: one connection to each other node (conn.c), on which blocks of at most 8 KiB leave. A
 * block takes, in this order, what this node has taken and permits (CREDIT), a PING or PONG,
 * messages without values, then bytes of the two channels that have values; so a small message
 * waits for no more of a large one than was handed to the network before. A channel sends no more
 * bytes than the other node has permitted. What waits is in queue.c.
 *
 * L4  sent bytes <= the limit.
 */
#include "replica_priv.h"

#define REPLICA_CREDIT_NS UINT64_C(1000000) /* a credit waits so long for other bytes */

/* ---- Blocks ---- */

/* A body that is being filled. */
struct replica_body {
    unsigned char *at;
    uint32_t used;
    uint32_t max;
};

static unsigned char *replica_body_frame(struct replica_body *b, uint32_t kind, uint32_t channel,
                                         uint32_t size)
{
    unsigned char *at = b->at + b->used;
    if (b->used + SNIC_REPLICA__FRAME + size > b->max)
        return NULL;
    replica_put_frame(at, kind, channel, size);
    b->used += SNIC_REPLICA__FRAME + size;
    return at + SNIC_REPLICA__FRAME;
}

static void replica_body_credit(struct replica_peer *p, struct replica_body *b)
{
    struct replica_credit c;
    memset(&c, 0, sizeof(c));
    for (uint32_t i = 0; i < 2; i++)
        c.limit[i] = p->from[REPLICA_CH_WRITES + i].granted;
    memcpy(c.taken, p->taken, sizeof(c.taken));
    c.stalls = (uint32_t)p->stalls;
    p->credit_at_ns = SNIC_NEVER;
    if (memcmp(&c, &p->credit, sizeof(c)) == 0)
        return;
    unsigned char *at = replica_body_frame(b, REPLICA_CREDIT, 0, SNIC_REPLICA__CREDIT);
    SNIC_ASSERT(at != NULL);
    replica_put_credit(at, &c);
    p->credit = c;
}

static void replica_body_control(struct replica_peer *p, struct replica_body *b)
{
    struct replica_to *t = &p->to[REPLICA_CH_CONTROL];
    while (t->wait.count != 0) {
        const struct replica_out *o = &p->outs[t->wait.first];
        unsigned char *at = replica_body_frame(b, REPLICA_DDP, 0, o->size);
        if (at == NULL)
            return;
        memcpy(at, o->head, o->size);
        replica_out_sent(p, t);
    }
}

/* The next bytes of a channel: a head, or a part of a value. */
static void replica_body_copy(struct snic_replica *r, struct replica_to *t, struct replica_out *o,
                              unsigned char *to, uint32_t size)
{
    while (size > 0) {
        uint32_t n;
        if (t->offset < o->size) {
            n = (uint32_t)snic_min_u64(size, o->size - t->offset);
            memcpy(to, o->head + t->offset, n);
        } else {
            uint32_t whole;
            const unsigned char *value = replica_value_at(&r->values, o->value, &whole);
            SNIC_ASSERT(whole == o->length);
            n = size;
            memcpy(to, value + (t->offset - o->size), n);
        }
        t->offset += n;
        to += n;
        size -= n;
    }
}

static int replica_to_ready(const struct replica_to *t)
{
    return t->wait.count != 0 && t->bytes < t->limit;
}

static void replica_body_bytes(struct snic_replica *r, struct replica_peer *p, uint32_t channel,
                               struct replica_body *b, uint32_t max)
{
    struct replica_to *t = &p->to[channel];
    while (replica_to_ready(t) && b->used + SNIC_REPLICA__FRAME < max) {
        struct replica_out *o = &p->outs[t->wait.first];
        uint64_t n = (uint64_t)o->size + o->length - t->offset;
        n = snic_min_u64(n, t->limit - t->bytes); /* L4 */
        n = snic_min_u64(n, max - b->used - SNIC_REPLICA__FRAME);
        unsigned char *at = replica_body_frame(b, REPLICA_BYTES, channel, (uint32_t)n);
        replica_body_copy(r, t, o, at, (uint32_t)n);
        t->bytes += n;
        if (t->offset < o->size + o->length)
            return;
        if (o->value != 0)
            replica_value_drop(&r->values, o->value); /* L2 */
        o->value = 0;
        replica_out_sent(p, t);
    }
}

/* A block at @p at, of at most @p room bytes: its bytes; 0: there is nothing to send. */
static uint32_t replica_link_fill(struct snic_replica *r, struct replica_peer *p, unsigned char *at,
                                  uint32_t room)
{
    struct replica_conn *k = p->conn;
    uint32_t tag = r->o.sec != NULL ? SNIC_REPLICA__TAG : 0;
    struct replica_body b = {at + SNIC_REPLICA__BLOCK, 0, 0};
    b.max = (uint32_t)snic_min_u64(room - SNIC_REPLICA__BLOCK, SNIC_REPLICA__BODY) - tag;
    uint64_t now = snic_loop_clock(r->o.loop);
    int any = p->ping != 0 || p->to[0].wait.count != 0 ||
              replica_to_ready(&p->to[REPLICA_CH_WRITES]) ||
              replica_to_ready(&p->to[REPLICA_CH_RECORDS]);
    if (!any && p->credit_at_ns > now)
        return 0;
    replica_body_credit(p, &b);
    if ((p->ping & 1) != 0)
        (void)replica_body_frame(&b, REPLICA_PING, 0, 0);
    if ((p->ping & 2) != 0)
        (void)replica_body_frame(&b, REPLICA_PONG, 0, 0);
    p->ping = 0;
    replica_body_control(p, &b);
    int both = replica_to_ready(&p->to[REPLICA_CH_RECORDS]);
    replica_body_bytes(r, p, REPLICA_CH_WRITES, &b, both ? b.max / 4 * 3 : b.max);
    replica_body_bytes(r, p, REPLICA_CH_RECORDS, &b, b.max);
    if (b.used == 0)
        return 0;
    replica_put_block(at, b.used + tag, tag != 0 ? REPLICA_SEALED : 0);
    if (tag == 0) {
        replica_put_block_crc(at, b.used);
    } else if (replica_seal(r, &k->out, at, SNIC_REPLICA__BLOCK, b.at, b.used) != 0 ||
               replica_key_next(r, &k->out) != 0) {
        replica_conn_abort(k);
        return 0;
    }
    return SNIC_REPLICA__BLOCK + b.used + tag;
}

/* ---- Buffers ---- */

static void replica_buffer_sent(struct snic_net_send_req *req)
{
    struct replica_buffer *b = SNIC_CONTAINER(req, struct replica_buffer, req);
    struct replica_conn *k = b->conn;
    struct snic_replica *r = k->r;
    b->state = REPLICA_BUF_FREE;
    b->used = 0;
    if (r->state == SNIC_REPLICA_STOPPED || k->peer == SNIC_REPLICA__NIL)
        return;
    if (k->state == REPLICA_CONN_UP)
        replica_link_pump(r, &r->peers[k->peer]);
}

/* The buffer whose turn it is goes to the network, if it is filled. 1: the next one's turn. */
int replica_link_push(struct replica_conn *k)
{
    struct replica_buffer *b = &k->buffer[k->turn];
    if (b->state != REPLICA_BUF_READY)
        return 0;
    memset(&b->req, 0, sizeof(b->req));
    b->req.done = replica_buffer_sent;
    b->req.region = SNIC_NO_REGION;
    b->iov.base = b->data;
    b->iov.size = b->used;
    b->req.iov = &b->iov;
    b->req.iov_count = 1;
    if (snic_net_send(k->c, &b->req) != 1)
        return 0; /* writable, or closed, follows */
    b->state = REPLICA_BUF_BUSY;
    k->turn ^= 1;
    return 1;
}

/* What can leave to that node does. */
void replica_link_pump(struct snic_replica *r, struct replica_peer *p)
{
    struct replica_conn *k = p->conn;
    while (k != NULL && k->state == REPLICA_CONN_UP) {
        struct replica_buffer *b = &k->buffer[k->turn];
        if (b->state == REPLICA_BUF_BUSY)
            return;
        while (b->state == REPLICA_BUF_FREE &&
               b->used + SNIC_REPLICA__BODY / 4 <= SNIC_REPLICA__BUFFER) {
            uint32_t n = replica_link_fill(r, p, b->data + b->used, SNIC_REPLICA__BUFFER - b->used);
            if (n == 0)
                break;
            b->used += n;
            p->sent_bytes += n;
        }
        if (b->used == 0 || k->state != REPLICA_CONN_UP)
            return;
        b->state = REPLICA_BUF_READY;
        if (!replica_link_push(k))
            return;
    }
}

/* The other node is to know what was taken; not at once, other bytes may take it along. */
void replica_link_owe(struct snic_replica *r, struct replica_peer *p)
{
    uint64_t now = snic_loop_clock(r->o.loop);
    uint64_t at = now + REPLICA_CREDIT_NS;
    for (uint32_t i = 0; i < 2; i++) {
        struct replica_from *f = &p->from[REPLICA_CH_WRITES + i];
        f->granted = f->taken + r->o.window_bytes;
        if (f->granted - p->credit.limit[i] >= r->o.window_bytes / 4)
            at = now;
    }
    for (uint32_t c = 0; c < REPLICA_CHANNELS; c++) {
        if (p->taken[c] - p->credit.taken[c] >= r->o.sends_max / 8)
            at = now;
    }
    if (at >= p->credit_at_ns)
        return;
    p->credit_at_ns = at;
    r->to_pump |= (uint16_t)(1u << replica_link_number(r, p));
}

/* For how long the oldest message has been under way. */
static uint64_t replica_to_age(const struct replica_peer *p, const struct replica_to *t,
                               uint64_t now)
{
    if (t->sent.count + t->wait.count == 0)
        return 0;
    return now - p->outs[t->sent.count != 0 ? t->sent.first : t->wait.first].queued_ns;
}

/* The other node permits, and has taken. 0; SNIC_EPROTO what cannot be. */
int replica_link_credit(struct snic_replica *r, struct replica_peer *p,
                        const struct replica_credit *c)
{
    uint64_t now = snic_loop_clock(r->o.loop);
    int path = c->stalls == p->their_stalls; /* what waited there shows nothing of the path */
    p->their_stalls = c->stalls;
    for (uint32_t i = 0; i < REPLICA_CHANNELS; i++) {
        struct replica_to *t = &p->to[i];
        uint32_t n = c->taken[i] - t->taken;
        if (n > t->sent.count)
            return SNIC_EPROTO;
        t->taken = c->taken[i];
        uint32_t some = n;
        for (; n > 0; n--) {
            uint32_t out = replica_outs_pop(p, &t->sent);
            if (path && i != REPLICA_CH_RECORDS)
                replica_pace_path(p, now - p->outs[out].queued_ns);
            replica_out_free(r, p, out);
        }
        if (path && some > 0 && i == REPLICA_CH_WRITES)
            replica_pace_path(p, replica_to_age(p, t, now));
        if (i != REPLICA_CH_CONTROL)
            t->limit = snic_max_u64(t->limit, c->limit[i - 1]);
    }
    r->to_pump |= (uint16_t)(1u << replica_link_number(r, p));
    replica_pace_update(r);
    return 0;
}

/* All that can leave does: heartbeats first. */
void replica_link_flush(struct snic_replica *r)
{
    replica_dgram_flush(r);
    for (uint32_t n = 0; r->to_pump != 0; n++) {
        struct replica_peer *p = &r->peers[n];
        if ((r->to_pump >> n & 1) == 0)
            continue;
        r->to_pump &= (uint16_t) ~(1u << n);
        if (p->conn == NULL)
            continue;
        replica_link_pump(r, p);
        /* One that is due waits for a buffer, whose end pumps. */
        if (p->credit_at_ns != SNIC_NEVER && p->credit_at_ns > snic_loop_clock(r->o.loop))
            replica_link_wake(r, p->credit_at_ns);
    }
}

#undef REPLICA_CREDIT_NS
