/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The data path's messages out: one connection to each other node (conn.c), on which blocks of at
 * most 8 KiB leave. A block takes, in this order, what this node has taken and permits (CREDIT), a
 * PING or PONG, messages without values, then bytes of the two channels that have values; so a
 * small message waits for no more of a large one than was handed to the network before.
 *
 * A message waits in the queue of its channel, with a reference to its value, until its bytes are
 * in a buffer; then it is remembered until the other node has taken it. A channel sends no more
 * bytes than the other node has permitted. Nothing is dropped while the connection lives, unless a
 * queue is full; when it ends, its queues are emptied, and the engine sends again.
 *
 * L2  An entry is free or in one list of one channel; if it waits and has a value not yet copied
 *     it has one reference to it (N2).
 * L3  A message that is equal to one that waits is not queued. Nor is one that only a timer of the
 *     engine repeats, while an equal one has been sent and not taken: nothing is lost on its way.
 *     A probe of a write is not queued while the INV with its value is queued, or not taken.
 *     Answers are queued again then: what they answer was sent after it was taken.
 * L4  sent bytes <= the limit.
 */
#include "replica_priv.h"

#define REPLICA_CREDIT_NS UINT64_C(1000000) /* a credit waits so long for other bytes */
#define REPLICA_HEARD_NS UINT64_C(5000000)
#define REPLICA_PROBES_NS UINT64_C(1000000000) /* from one probe to the next */

uint32_t replica_link_number(const struct snic_replica *r, const struct replica_peer *p)
{
    return (uint32_t)(p - r->peers);
}

/* The link's timer, no later than at. */
void replica_link_wake(struct snic_replica *r, uint64_t at)
{
    if (at >= r->link_at && r->link_timer.armed)
        return;
    r->link_at = at;
    snic_loop_arm(r->o.loop, &r->link_timer, at);
}

/* It was heard: an attempt to connect need not wait any longer. */
void replica_link_heard(struct snic_replica *r, struct replica_peer *p)
{
    uint64_t now = snic_loop_clock(r->o.loop);
    if (p->conn != NULL || p->refusal != NULL || p->connect_ns <= now + REPLICA_HEARD_NS)
        return;
    p->connect_ns = now + REPLICA_HEARD_NS;
    replica_link_wake(r, p->connect_ns);
}

/* The connection's other end may be gone: see whether it answers. */
void replica_link_probe(struct snic_replica *r, struct replica_peer *p)
{
    uint64_t now = snic_loop_clock(r->o.loop);
    if (now < p->probe_ns)
        return;
    p->probe_ns = now + REPLICA_PROBES_NS;
    replica_link_heard(r, p);
    if (p->conn == NULL)
        return;
    p->pinged = 2;
    p->pinged_ns = now;
    p->ping |= 1;
    r->to_pump |= (uint16_t)(1u << replica_link_number(r, p));
    replica_link_wake(r, now);
}

/* A connection or a datagram was refused. */
void replica_link_count(struct snic_replica *r, int why)
{
    r->refused++;
    r->wrong_cluster += why == SNIC_EPERM;
    r->wrong_version += why == SNIC_EVERSION;
    r->wrong_key += why == SNIC_EACCES;
}

/* It was that node's, which has no connection for this reason. */
void replica_link_name(struct snic_replica *r, struct replica_peer *p, int why)
{
    const char *text = replica_refusal(why);
    if (p->conn != NULL)
        return;
    r->notify |= p->refusal != text;
    p->refusal = text;
}

/* ---- Queues ---- */

/* By type, key and timestamp: an INV and its probes are in one bucket. */
static uint32_t replica_out_bucket(const struct snic_replica *r, const unsigned char *head)
{
    uint64_t h = head[0] * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = 16; i < 40; i += 8)
        h = (h ^ h >> 29 ^ snic_get_le64(head + i)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(h >> 32) & (r->o.sends_max - 1);
}

static void replica_outs_push(struct replica_peer *p, struct replica_outs *l, uint32_t i)
{
    p->outs[i].next = SNIC_REPLICA__NIL;
    if (l->count++ == 0)
        l->first = i;
    else
        p->outs[l->last].next = i;
    l->last = i;
}

static uint32_t replica_outs_pop(struct replica_peer *p, struct replica_outs *l)
{
    uint32_t i = l->first;
    SNIC_ASSERT(l->count > 0);
    l->first = p->outs[i].next;
    l->count--;
    return i;
}

/* Of an entry that is in no list any more. */
static void replica_out_free(struct snic_replica *r, struct replica_peer *p, uint32_t i)
{
    struct replica_out *o = &p->outs[i];
    uint32_t *at = &p->buckets[o->bucket];
    while (*at != i)
        at = &p->outs[*at].hashed;
    *at = o->hashed;
    if (o->value != 0)
        replica_value_drop(&r->values, o->value); /* L2 */
    o->value = 0;
    o->next = p->out_free;
    p->out_free = i;
}

/* Does only a timer of the engine send it again? (L3) */
static int replica_out_timed(const unsigned char *head)
{
    switch (head[0]) {
    case SNIC_DDP_INV:
    case SNIC_DDP_PERSIST:
    case SNIC_DDP_QUERY:
    case SNIC_DDP_PULL:
    case SNIC_DDP_PURGE_REQUEST:
        return 1;
    default:
        return 0;
    }
}

/* Is it a probe (LOCKED without CAS) of the write that the INV of that entry carries? */
static int replica_out_probes(const struct replica_out *o, const unsigned char *head)
{
    const int shown = SNIC_DDP_MSG_LOCKED | SNIC_DDP_MSG_CAS;
    return head[0] == SNIC_DDP_INV && (head[1] & shown) == SNIC_DDP_MSG_LOCKED &&
           o->head[0] == SNIC_DDP_INV && memcmp(o->head + 4, head + 4, 36) == 0;
}

static int replica_out_known(const struct snic_replica *r, const struct replica_peer *p,
                             const unsigned char *head, uint32_t size)
{
    uint32_t i = p->buckets[replica_out_bucket(r, head)];
    for (; i != SNIC_REPLICA__NIL; i = p->outs[i].hashed) {
        const struct replica_out *o = &p->outs[i];
        int same = o->size == size && memcmp(o->head, head, size) == 0;
        if ((same && (!o->sent || replica_out_timed(head))) || replica_out_probes(o, head))
            return 1;
    }
    return 0;
}

static void replica_out_queue(struct snic_replica *r, struct replica_peer *p,
                              const struct snic_ddp_msg *m)
{
    unsigned char head[SNIC_REPLICA__DDP_MOST];
    uint32_t i = p->out_free;
    if (p->conn == NULL) {
        p->lost++;
        return;
    }
    uint32_t size = replica_ddp_size(p->conn->version);
    replica_put_ddp(head, p->conn->version, m);
    if (replica_out_known(r, p, head, size)) {
        p->repeats++;
        return;
    }
    if (i == SNIC_REPLICA__NIL) {
        p->lost++;
        r->lost_sends++;
        return;
    }
    struct replica_out *o = &p->outs[i];
    p->out_free = o->next;
    memcpy(o->head, head, sizeof(head));
    o->size = (uint8_t)size;
    o->channel = (uint8_t)replica_channel_of(m);
    o->sent = 0;
    o->queued_ns = snic_loop_clock(r->o.loop);
    o->length = replica_carries(m) ? m->length : 0;
    o->value = replica_carries(m) ? m->value : 0;
    o->bucket = replica_out_bucket(r, head);
    o->hashed = p->buckets[o->bucket];
    p->buckets[o->bucket] = i;
    if (o->value != 0)
        replica_value_hold(&r->values, o->value); /* L2 */
    p->to[o->channel].queued += o->length;
    replica_outs_push(p, &p->to[o->channel].wait, i);
    r->to_pump |= (uint16_t)(1u << replica_link_number(r, p));
}

/* SEND of the data path: dst and its incarnation are filled in here. */
void replica_link_ddp(struct snic_replica *r, uint16_t to, const struct snic_ddp_msg *msg)
{
    struct snic_ddp_msg m = *msg;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if (((to & r->others) >> n & 1) == 0)
            continue;
        m.dst = (uint8_t)n;
        m.dst_incarnation = r->view.incarnation[n];
        replica_out_queue(r, &r->peers[n], &m);
    }
}

static void replica_to_empty(struct snic_replica *r, struct replica_peer *p, struct replica_outs *l)
{
    while (l->count != 0) {
        replica_out_free(r, p, replica_outs_pop(p, l));
        p->lost++;
    }
}

/* The connection has ended, or begins: nothing is queued, sent or half here. */
void replica_link_reset(struct snic_replica *r, struct replica_peer *p)
{
    for (uint32_t c = 0; c < REPLICA_CHANNELS; c++) {
        struct replica_to *t = &p->to[c];
        struct replica_from *f = &p->from[c];
        unsigned char *ring = f->ring;
        replica_to_empty(r, p, &t->wait);
        replica_to_empty(r, p, &t->sent);
        memset(t, 0, sizeof(*t));
        if (f->value != 0)
            replica_value_drop(&r->values, f->value);
        r->blocked -= f->blocked != REPLICA_FREE;
        memset(f, 0, sizeof(*f));
        f->ring = ring;
        f->granted = r->o.window_bytes;
        p->taken[c] = 0;
    }
    memset(&p->credit, 0, sizeof(p->credit));
    p->credit_at_ns = 0;
    p->ping = 0;
    p->pinged = 0;
}

/* What waits and is of an earlier epoch has no taker any more. */
void replica_link_epoch(struct snic_replica *r)
{
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        struct replica_peer *p = &r->peers[n];
        for (uint32_t c = 0; p->conn != NULL && c < REPLICA_CHANNELS; c++) {
            struct replica_to *t = &p->to[c];
            uint32_t begun = t->offset > 0 ? t->wait.first : SNIC_REPLICA__NIL;
            for (uint32_t left = t->wait.count; left > 0; left--) {
                uint32_t i = replica_outs_pop(p, &t->wait);
                if (i == begun || snic_get_le32(p->outs[i].head + 4) >= r->view.epoch) {
                    replica_outs_push(p, &t->wait, i);
                    continue;
                }
                t->queued -= p->outs[i].length;
                replica_out_free(r, p, i);
            }
        }
    }
}

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

static void replica_out_sent(struct replica_peer *p, struct replica_to *t)
{
    uint32_t i = replica_outs_pop(p, &t->wait);
    t->offset = 0;
    t->queued -= p->outs[i].length;
    p->outs[i].sent = 1;
    p->sent++;
    replica_outs_push(p, &t->sent, i);
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

/* Nothing is sent to that node or taken from it any more. */
static void replica_link_cut(struct snic_replica *r, uint32_t n)
{
    replica_dgram_forget(r, n);
    for (uint32_t i = 0; i < r->conn_count; i++) {
        if (r->conns[i].peer == n)
            replica_conn_abort(&r->conns[i]);
    }
}

/* N6: nothing is sent any more. */
void replica_link_stop(struct snic_replica *r)
{
    snic_loop_cancel(r->o.loop, &r->link_timer);
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if ((r->others >> n & 1) != 0)
            replica_link_cut(r, n);
    }
    for (uint32_t i = 0; i < r->conn_count; i++)
        replica_conn_abort(&r->conns[i]); /* those of nodes not known yet */
    r->to_flush = r->to_pump = 0;
    if (r->listener != NULL)
        snic_net_unlisten(r->listener);
    r->listener = NULL;
    snic_net_dgram_close(r->dgram);
}

/* ---- Memory, checks ---- */

static void replica_conn_layout(struct snic_arena *a, struct snic_replica *r)
{
    uint32_t count = r->conn_count;
    uint32_t block = SNIC_REPLICA__BLOCK + SNIC_REPLICA__BODY;
    r->conns = snic_arena_take(a, count, sizeof(*r->conns), 64);
    unsigned char *blocks = snic_arena_take(a, count, snic_align_up(block, 64), 64);
    unsigned char *buffers = snic_arena_take(a, count, 2 * SNIC_REPLICA__BUFFER, 64);
    for (uint32_t i = 0; a->base != NULL && a->used != SIZE_MAX && i < count; i++) {
        struct replica_conn *k = &r->conns[i];
        memset(k, 0, sizeof(*k));
        k->r = r;
        k->peer = SNIC_REPLICA__NIL;
        k->block = blocks + i * snic_align_up(block, 64);
        for (uint32_t b = 0; b < 2; b++) {
            k->buffer[b].conn = k;
            k->buffer[b].data = buffers + (2 * (size_t)i + b) * SNIC_REPLICA__BUFFER;
        }
    }
}

static void replica_peer_layout(struct snic_arena *a, struct snic_replica *r,
                                struct replica_peer *p)
{
    uint32_t max = r->o.sends_max;
    p->outs = snic_arena_take(a, max, sizeof(*p->outs), 64);
    p->buckets = snic_arena_take(a, max, sizeof(*p->buckets), 64);
    for (uint32_t c = REPLICA_CH_WRITES; c < REPLICA_CHANNELS; c++)
        p->from[c].ring = snic_arena_take(a, 1, r->o.window_bytes, 64);
    if (a->base == NULL || a->used == SIZE_MAX)
        return;
    p->out_free = SNIC_REPLICA__NIL;
    for (uint32_t i = max; i-- > 0;) {
        memset(&p->outs[i], 0, sizeof(p->outs[i]));
        p->outs[i].next = p->out_free;
        p->out_free = i;
        p->buckets[i] = SNIC_REPLICA__NIL;
    }
    p->open = SNIC_REPLICA__NIL;
    p->credit_at_ns = SNIC_NEVER;
}

/* The memory of a node that is not in @p keep becomes a spare one. */
static void replica_link_vacate(struct snic_replica *r, uint16_t keep)
{
    uint16_t from = (uint16_t)(r->others & ~keep);
    if (from == 0)
        return;
    uint32_t n = (uint32_t)__builtin_ctz(from);
    struct replica_peer *p = &r->peers[n];
    replica_link_cut(r, n);
    struct replica_peer *spare = &r->spare[r->spare_count++];
    memset(spare, 0, sizeof(*spare));
    spare->outs = p->outs;
    spare->buckets = p->buckets;
    spare->out_free = p->out_free; /* all are free */
    spare->open = SNIC_REPLICA__NIL;
    spare->credit_at_ns = SNIC_NEVER;
    for (uint32_t c = 0; c < REPLICA_CHANNELS; c++)
        spare->from[c].ring = p->from[c].ring;
    memset(p, 0, sizeof(*p));
    p->open = SNIC_REPLICA__NIL;
    r->others &= (uint16_t) ~(1u << n);
}

/*
 * A node of a view whose nodes are @p view: its address, and memory if it had none. A node that was
 * removed keeps its memory until another one needs it.
 */
void replica_link_know(struct snic_replica *r, uint16_t view, uint32_t n,
                       const struct snic_net_addr *addr)
{
    struct replica_peer *p = &r->peers[n];
    uint8_t was[SNIC_MEMBER_ADDR_MAX], is[SNIC_MEMBER_ADDR_MAX];
    (void)replica_put_addr(was, &p->addr);
    (void)replica_put_addr(is, addr);
    if ((r->others >> n & 1) == 0) {
        if (r->spare_count == 0)
            replica_link_vacate(r, view);
        if (r->spare_count == 0) {
            replica_fail(r, SNIC_ENOSPC); /* nodes_max */
            return;
        }
        *p = r->spare[--r->spare_count];
        r->others |= (uint16_t)(1u << n);
    } else if (memcmp(was, is, sizeof(was)) == 0) {
        return;
    } else if (p->conn != NULL) {
        replica_conn_abort(p->conn); /* to the node that it was */
    }
    p->addr = *addr;
    replica_link_wake(r, 0);
}

void replica_link_layout(struct snic_arena *a, struct snic_replica *r)
{
    r->others = (uint16_t)(r->o.configured & ~(1u << r->o.node));
    uint32_t others = r->o.nodes_max > 1 ? r->o.nodes_max - 1 : 0;
    uint32_t sends = others * SNIC_REPLICA__SENDS;
    r->conn_count = 2 * others + SNIC_REPLICA__CONNS_MORE;
    r->send_count = sends;
    r->sends = snic_arena_take(a, sends, sizeof(*r->sends), 64);
    unsigned char *data = snic_arena_take(a, sends, SNIC_REPLICA__DATAGRAM, 64);
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if ((r->others >> n & 1) != 0)
            replica_peer_layout(a, r, &r->peers[n]);
        else
            r->peers[n].open = SNIC_REPLICA__NIL;
    }
    r->spare_count = others - (uint32_t)__builtin_popcount(r->others);
    for (uint32_t i = 0; i < r->spare_count; i++)
        replica_peer_layout(a, r, &r->spare[i]);
    replica_conn_layout(a, r);
    if (a->base == NULL || a->used == SIZE_MAX)
        return;
    r->send_free = SNIC_REPLICA__NIL;
    for (uint32_t i = sends; i-- > 0;) {
        memset(&r->sends[i], 0, sizeof(r->sends[i]));
        r->sends[i].r = r;
        r->sends[i].data = data + (size_t)i * SNIC_REPLICA__DATAGRAM;
        r->sends[i].next = r->send_free;
        r->send_free = i;
    }
}

/* Connections that are accepted, at most (L7). */
uint32_t replica_link_places(const struct snic_replica *r)
{
    return r->conn_count - (r->conn_count - SNIC_REPLICA__CONNS_MORE) / 2;
}

static int replica_peer_check(const struct snic_replica *r, const struct replica_peer *p)
{
    uint32_t count = 0, blocked = 0;
    for (uint32_t i = p->out_free; i != SNIC_REPLICA__NIL; i = p->outs[i].next)
        count++;
    for (uint32_t c = 0; c < REPLICA_CHANNELS; c++) {
        const struct replica_to *t = &p->to[c];
        const struct replica_from *f = &p->from[c];
        count += t->wait.count + t->sent.count;
        if (c != 0 && t->bytes > t->limit) /* L4 */
            return SNIC_ECORRUPT;
        if (p->conn != NULL && c != 0 &&
            (f->arrived > f->granted || f->arrived - f->taken < f->ring_used))
            return SNIC_ECORRUPT; /* L5 */
        blocked += f->blocked != REPLICA_FREE;
    }
    return count == r->o.sends_max && blocked <= r->blocked ? 0 : SNIC_ECORRUPT; /* L2 */
}

int replica_link_check(const struct snic_replica *r)
{
    uint32_t open = 0, unused = 0, live = 0, accepted = 0;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        open += r->peers[n].open != SNIC_REPLICA__NIL;
        if ((r->others >> n & 1) != 0 && replica_peer_check(r, &r->peers[n]) != 0)
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = r->send_free; i != SNIC_REPLICA__NIL; i = r->sends[i].next)
        unused++;
    for (uint32_t i = 0; i < r->conn_count; i++) {
        live += r->conns[i].state != REPLICA_CONN_NONE;
        accepted += r->conns[i].state != REPLICA_CONN_NONE && !r->conns[i].initiator;
    }
    if (accepted > replica_link_places(r)) /* L7 */
        return SNIC_ECORRUPT;
    return unused + r->sends_used == r->send_count && open == 0 && live == r->conns_live /* L1 */
               ? 0
               : SNIC_ECORRUPT;
}

#undef REPLICA_CREDIT_NS
#undef REPLICA_HEARD_NS
#undef REPLICA_PROBES_NS
