/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections. Of two nodes the one with the higher number connects, so two attempts never meet.
 *
 *     initiator                      acceptor
 *     HELLO, nonce        ->
 *                         <-         HELLO, nonce, echo of the other's; or why it refuses
 *     CREDIT, sealed      ->         the proof: what another connection had does not open
 *
 * With ciphers both hellos have a MAC of the cluster's key, and all that follows is sealed under
 * keys made of it and of both nonces. The acceptor replaces an older connection of that node only
 * after the proof, the initiator after the echo: a copy of an earlier connection's bytes ends none.
 * Without ciphers the order is the same, and a connection must come from the node's address.
 *
 * A connection ends when the network reports its end, when a block is wrong, and when the other
 * side has been silent for REPLICA_SILENT_NS: after a second of silence it is pinged. A hint that
 * the other process is another one (dgram_in.c) pings at once and waits for less. The next attempt
 * follows after a pause that grows with each failure; what is heard from the node ends the pause.
 *
 * L6  A peer's `conn` is UP, and its the only one. A connection that is not UP has no part in the
 *     queues.
 * L7  Accepted connections leave a place for each other node, for those that begin here.
 */
#include "replica_priv.h"

#define REPLICA_MS UINT64_C(1000000)
#define REPLICA_BACKOFF_MIN (5 * REPLICA_MS)
#define REPLICA_BACKOFF_MAX (500 * REPLICA_MS)
#define REPLICA_GREET_NS (2000 * REPLICA_MS)  /* for hellos and proof */
#define REPLICA_QUIET_NS (1000 * REPLICA_MS)  /* then PING */
#define REPLICA_SILENT_NS (4000 * REPLICA_MS) /* then the end */
#define REPLICA_PROBE_NS (300 * REPLICA_MS)   /* for PONG after a hint */
#define REPLICA_PATIENCE_MS 6000

static uint64_t replica_conn_now(const struct snic_replica *r)
{
    return snic_loop_clock(r->o.loop);
}

/* ---- Ends ---- */

/* An attempt to connect has failed, or its connection ended: the next one, later each time. */
static void replica_conn_later(struct snic_replica *r, struct replica_peer *p)
{
    uint64_t random;
    uint64_t now = replica_conn_now(r);
    if (p->up_ns != 0 && now - p->up_ns >= REPLICA_QUIET_NS)
        p->backoff_ns = 0;
    p->up_ns = 0;
    uint64_t pause = snic_max_u64(p->backoff_ns, REPLICA_BACKOFF_MIN);
    replica_draw(r, &random, sizeof(random));
    p->backoff_ns = snic_min_u64(2 * pause, REPLICA_BACKOFF_MAX);
    p->connect_ns = now + pause / 2 + random % pause;
    replica_link_wake(r, p->connect_ns);
}

static void replica_conn_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct replica_conn *k = ctx;
    struct snic_replica *r = k->r;
    uint32_t peer = k->peer;
    (void)c;
    (void)reason;
    SNIC_ASSERT(k->state != REPLICA_CONN_NONE);
    replica_conn_leave(r, k);
    k->state = REPLICA_CONN_NONE;
    k->c = NULL;
    k->peer = SNIC_REPLICA__NIL;
    r->conns_live--;
    for (uint32_t i = 0; i < 2; i++) {
        k->buffer[i].state = REPLICA_BUF_FREE;
        k->buffer[i].used = 0;
    }
    if (r->state == SNIC_REPLICA_STOPPED)
        return;
    if (peer != SNIC_REPLICA__NIL && k->initiator)
        replica_conn_later(r, &r->peers[peer]);
    replica_settle(r);
}

/* ---- Hellos ---- */

static void replica_conn_hello(struct snic_replica *r, struct replica_conn *k, int32_t refusal)
{
    struct replica_buffer *b = &k->buffer[k->turn];
    unsigned char *body = b->data + SNIC_REPLICA__BLOCK;
    struct replica_hello h;
    SNIC_ASSERT(b->state == REPLICA_BUF_FREE);
    memset(&h, 0, sizeof(h));
    h.lowest = r->wire_lowest;
    h.highest = r->wire_highest;
    h.src = r->o.node;
    h.dst = k->peer;
    h.flags = (r->o.sec != NULL ? REPLICA_SEALED : 0u) | (k->initiator ? 0u : REPLICA_REPLY);
    h.model = r->o.model;
    h.refusal = refusal;
    h.value_max = r->o.value_max;
    h.cluster = r->o.cluster;
    h.boot = r->boot;
    memcpy(h.nonce, k->nonce, 16);
    memcpy(h.echo, k->other, 16);
    replica_put_frame(body, REPLICA_HELLO, 0, SNIC_REPLICA__HELLO);
    replica_put_hello(body + SNIC_REPLICA__FRAME, &h);
    replica_hello_seal(r, body + SNIC_REPLICA__FRAME);
    replica_put_block(b->data, SNIC_REPLICA__FRAME + SNIC_REPLICA__HELLO, 0);
    replica_put_block_crc(b->data, SNIC_REPLICA__FRAME + SNIC_REPLICA__HELLO);
    b->used = SNIC_REPLICA__BLOCK + SNIC_REPLICA__FRAME + SNIC_REPLICA__HELLO;
    b->state = REPLICA_BUF_READY;
    (void)replica_link_push(k);
}

/* Why a hello is refused, as a result; 0: it is not. */
static int replica_conn_judge(struct snic_replica *r, const struct replica_conn *k,
                              const struct replica_hello *h, const unsigned char *bytes)
{
    if (h->cluster != r->o.cluster)
        return SNIC_EPERM;
    if (h->lowest > r->wire_highest || h->highest < r->wire_lowest)
        return SNIC_EVERSION;
    if (((h->flags & REPLICA_SEALED) != 0) != (r->o.sec != NULL) || !replica_hello_right(r, bytes))
        return SNIC_EACCES;
    if (!k->initiator && r->o.sec == NULL && !replica_same_host(&k->addr, &r->peers[h->src].addr))
        return SNIC_EINVAL;
    if (h->value_max != r->o.value_max || h->model != r->o.model)
        return SNIC_EINVAL;
    return 0;
}

/*
 * It is counted; and named, where it is the node's own: of a connection that this node made, or of
 * one from the node's host.
 */
static void replica_conn_blame(struct snic_replica *r, const struct replica_conn *k,
                               struct replica_peer *p, int why)
{
    replica_link_count(r, why);
    if (k->initiator || replica_same_host(&k->addr, &p->addr))
        replica_link_name(r, p, why);
}

/* The connection takes the place of any other. */
static void replica_conn_adopt(struct snic_replica *r, struct replica_conn *k)
{
    struct replica_peer *p = &r->peers[k->peer];
    SNIC_ASSERT(p->conn != k); /* L6 */
    if (p->conn != NULL)
        replica_conn_abort(p->conn);
    replica_link_reset(r, p);
    p->conn = k;
    k->state = REPLICA_CONN_UP;
    k->since_ns = k->heard_ns = replica_conn_now(r);
    p->up_ns = k->since_ns;
    p->connects++;
    r->notify |= p->refusal != NULL;
    p->refusal = NULL;
    if (r->o.sec != NULL) {
        struct replica_session none = {.used = 0};
        p->session[1] = p->boot == k->boot ? p->session[0] : none;
        p->session[0] = k->session;
    }
    p->boot = k->boot;
    replica_pace_again(r);
    r->to_pump |= (uint16_t)(1u << k->peer);
    replica_link_wake(r, k->heard_ns + REPLICA_QUIET_NS);
}

static int replica_conn_agree(struct snic_replica *r, struct replica_conn *k,
                              const struct replica_hello *h)
{
    k->version = (uint32_t)snic_min_u64(h->highest, r->wire_highest);
    k->boot = h->boot;
    memcpy(k->other, h->nonce, 16);
    return r->o.sec != NULL ? replica_conn_keys(r, k, &k->session) : 0;
}

/* The first block of the other side. 0; SNIC_EPROTO. */
static int replica_conn_greeted(struct snic_replica *r, struct replica_conn *k,
                                const unsigned char *body, uint32_t size)
{
    struct replica_part part;
    struct replica_hello h;
    size_t at = 0;
    if (replica_get_part(body, size, &at, &part) != 1 || at != size || part.kind != REPLICA_HELLO ||
        replica_get_hello(part.data, part.size, &h) != 0 || h.dst != r->o.node ||
        (r->others >> h.src & 1) == 0 || ((h.flags & REPLICA_REPLY) != 0) != (k->initiator != 0))
        return SNIC_EPROTO;
    if (k->initiator && (h.src != k->peer || memcmp(h.echo, k->nonce, 16) != 0))
        return SNIC_EPROTO;
    if (!k->initiator && h.src < r->o.node)
        return SNIC_EPROTO;
    int why = replica_conn_judge(r, k, &h, part.data);
    if (why == 0 && k->initiator)
        why = h.refusal;
    if (why != 0)
        replica_conn_blame(r, k, &r->peers[h.src], why);
    if (k->initiator) {
        if (why != 0 || replica_conn_agree(r, k, &h) != 0)
            return SNIC_EPROTO;
        replica_conn_adopt(r, k);
        return 0;
    }
    k->peer = h.src;
    memcpy(k->other, h.nonce, 16);
    if (why == 0)
        why = replica_conn_agree(r, k, &h);
    replica_conn_hello(r, k, why);
    k->state = REPLICA_CONN_PROOF;
    if (why != 0) {
        k->state = REPLICA_CONN_ENDING;
        snic_net_close(k->c);
    }
    return 0;
}

/* ---- Bytes ---- */

/* A whole block, with a right header. 0; SNIC_EPROTO: the end of the connection. */
static int replica_conn_block(struct snic_replica *r, struct replica_conn *k,
                              const unsigned char *p)
{
    uint32_t size, flags;
    const unsigned char *body = p + SNIC_REPLICA__BLOCK;
    int result = replica_get_block(p, &size, &flags);
    SNIC_ASSERT(result == 0); /* the header was looked at when it was here */
    (void)result;
    if (k->state == REPLICA_CONN_HELLO) {
        if (flags != 0 || replica_get_block_crc(p, size) != 0)
            return SNIC_EPROTO;
        return replica_conn_greeted(r, k, body, size);
    }
    if ((flags != 0) != (r->o.sec != NULL))
        return SNIC_EPROTO;
    if (r->o.sec == NULL) {
        if (replica_get_block_crc(p, size) != 0)
            return SNIC_EPROTO;
    } else {
        unsigned char *open = k->block + SNIC_REPLICA__BLOCK;
        if (size < SNIC_REPLICA__TAG || snic_get_le32(p + 4) != 0)
            return SNIC_EPROTO;
        size -= SNIC_REPLICA__TAG;
        if (replica_open(r, &k->in, p, SNIC_REPLICA__BLOCK, open, body, size) != 0 ||
            replica_key_next(r, &k->in) != 0) {
            replica_conn_blame(r, k, &r->peers[k->peer], SNIC_EACCES);
            return SNIC_EPROTO;
        }
        body = open;
    }
    if (k->state == REPLICA_CONN_PROOF)
        replica_conn_adopt(r, k);
    return replica_link_block(r, &r->peers[k->peer], k, body, size);
}

/* The next bytes: whole blocks from where they lie, others are put together. 0; SNIC_EPROTO. */
static int replica_conn_bytes(struct snic_replica *r, struct replica_conn *k,
                              const unsigned char *data, uint32_t size)
{
    while (size > 0 && k->state != REPLICA_CONN_ENDING && r->state == SNIC_REPLICA_RUNNING) {
        uint32_t body, flags;
        uint32_t whole = SNIC_REPLICA__BLOCK;
        const unsigned char *head = k->have > 0 ? k->block : data;
        if ((k->have > 0 ? k->have : size) >= SNIC_REPLICA__BLOCK) {
            if (replica_get_block(head, &body, &flags) != 0)
                return SNIC_EPROTO;
            whole += body;
        }
        if (k->have == 0 && size >= whole) { /* its header is here, so whole is */
            int result = replica_conn_block(r, k, data);
            if (result != 0)
                return result;
            data += whole;
            size -= whole;
            continue;
        }
        uint32_t n = (uint32_t)snic_min_u64(size, whole - k->have);
        memcpy(k->block + k->have, data, n);
        k->have += n;
        data += n;
        size -= n;
        if (k->have < whole || whole == SNIC_REPLICA__BLOCK)
            continue;
        k->have = 0;
        int result = replica_conn_block(r, k, k->block);
        if (result != 0)
            return result;
    }
    return 0;
}

static void replica_conn_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *buf)
{
    struct replica_conn *k = ctx;
    struct snic_replica *r = k->r;
    (void)c;
    if (r->state == SNIC_REPLICA_RUNNING && k->state != REPLICA_CONN_ENDING) {
        k->heard_ns = replica_conn_now(r);
        if (k->state == REPLICA_CONN_UP)
            r->peers[k->peer].pinged = 0;
        if (replica_conn_bytes(r, k, buf->data, buf->size) != 0) {
            r->refused++;
            replica_conn_abort(k);
        }
    }
    snic_net_put(r->o.net, buf);
    replica_settle(r);
}

static void replica_conn_eof(void *ctx, struct snic_net_conn *c)
{
    (void)c;
    replica_conn_abort(ctx);
}

static void replica_conn_writable(void *ctx, struct snic_net_conn *c)
{
    struct replica_conn *k = ctx;
    (void)c;
    if (k->r->state == SNIC_REPLICA_STOPPED || k->state == REPLICA_CONN_ENDING)
        return;
    if (k->state == REPLICA_CONN_UP)
        replica_link_pump(k->r, &k->r->peers[k->peer]);
    else
        (void)replica_link_push(k);
}

/* ---- Beginnings ---- */

static void replica_conn_connected(void *ctx, struct snic_net_conn *c, int error)
{
    struct replica_conn *k = ctx;
    (void)c;
    if (error != 0)
        return; /* `closed` follows */
    SNIC_ASSERT(k->state == REPLICA_CONN_OPENING);
    k->state = REPLICA_CONN_HELLO;
    k->since_ns = replica_conn_now(k->r);
    replica_conn_hello(k->r, k, 0);
}

static const struct snic_net_stream_events replica_conn_events = {
    .connected = replica_conn_connected,
    .recv = replica_conn_recv,
    .eof = replica_conn_eof,
    .writable = replica_conn_writable,
    .closed = replica_conn_closed,
};

static int replica_conn_greets(const struct replica_conn *k)
{
    return !k->initiator && (k->state == REPLICA_CONN_HELLO || k->state == REPLICA_CONN_PROOF);
}

static struct replica_conn *replica_conn_new(struct snic_replica *r)
{
    for (uint32_t i = 0; i < r->conn_count; i++) {
        struct replica_conn *k = &r->conns[i];
        if (k->state != REPLICA_CONN_NONE)
            continue;
        k->have = 0;
        k->turn = 0;
        k->version = 0;
        k->boot = 0;
        k->since_ns = k->heard_ns = replica_conn_now(r);
        memset(k->other, 0, sizeof(k->other));
        replica_draw(r, k->nonce, sizeof(k->nonce));
        r->conns_live++;
        return k;
    }
    return NULL;
}

/*
 * Connections that have not proved who they are make room for later ones, any of them: all come and
 * go, so a node's, which is done within a round trip, is likely to live that long (L7).
 */
static void replica_conn_make_room(struct snic_replica *r, const struct replica_conn *newest)
{
    uint32_t greeting = 0;
    if (r->conns_live + SNIC_REPLICA__CONNS_MORE / 2 <= replica_link_places(r))
        return;
    for (uint32_t i = 0; i < r->conn_count; i++)
        greeting += replica_conn_greets(&r->conns[i]) && &r->conns[i] != newest;
    uint32_t pick = greeting > 0 ? snic_get_le32(newest->nonce) % greeting : 0;
    for (uint32_t i = 0; i < r->conn_count && greeting > 0; i++) {
        struct replica_conn *k = &r->conns[i];
        if (!replica_conn_greets(k) || k == newest || pick-- > 0)
            continue;
        replica_conn_abort(k);
        return;
    }
}

/* Without ciphers no other host than the nodes' may take a connection's place. */
static int replica_conn_welcome(const struct snic_replica *r, const struct snic_net_addr *from)
{
    int known = r->o.sec != NULL;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++)
        known |= (r->others >> n & 1) != 0 && replica_same_host(from, &r->peers[n].addr);
    return known;
}

static void replica_conn_accept(void *ctx, struct snic_net_conn *c,
                                const struct snic_net_addr *from)
{
    struct snic_replica *r = ctx;
    struct replica_conn *k = NULL;
    if (r->state == SNIC_REPLICA_RUNNING && replica_conn_welcome(r, from) &&
        r->conns_live < replica_link_places(r)) /* L7 */
        k = replica_conn_new(r);
    if (k == NULL) {
        snic_net_abort(c);
        return;
    }
    k->c = c;
    k->addr = *from;
    k->initiator = 0;
    k->state = REPLICA_CONN_HELLO;
    snic_net_bind(c, &replica_conn_events, k);
    (void)snic_net_patience(c, REPLICA_PATIENCE_MS);
    replica_link_wake(r, k->since_ns + REPLICA_GREET_NS);
    replica_conn_make_room(r, k);
}

static void replica_conn_start(struct snic_replica *r, uint32_t to)
{
    struct replica_peer *p = &r->peers[to];
    struct replica_conn *k = replica_conn_new(r);
    if (k == NULL || snic_net_connect(r->o.net, &p->addr, &replica_conn_events, k, &k->c) != 0) {
        r->conns_live -= k != NULL;
        replica_conn_later(r, p); /* else `closed` follows */
        return;
    }
    k->peer = to;
    k->initiator = 1;
    k->state = REPLICA_CONN_OPENING;
    (void)snic_net_patience(k->c, REPLICA_PATIENCE_MS);
    replica_link_wake(r, k->since_ns + REPLICA_GREET_NS);
}

/* ---- Time ---- */

static int replica_conn_tries(const struct snic_replica *r, uint32_t to)
{
    for (uint32_t i = 0; i < r->conn_count; i++) {
        const struct replica_conn *k = &r->conns[i];
        if (k->state != REPLICA_CONN_NONE && k->initiator && k->peer == to)
            return 1;
    }
    return 0;
}

/* What is due of a connection. */
static void replica_conn_look(struct snic_replica *r, struct replica_conn *k, uint64_t now)
{
    uint64_t silent = now - k->heard_ns;
    if (k->state == REPLICA_CONN_NONE || k->state == REPLICA_CONN_ENDING)
        return;
    if (k->state != REPLICA_CONN_UP) {
        if (now - k->since_ns >= REPLICA_GREET_NS)
            replica_conn_abort(k);
        else
            replica_link_wake(r, k->since_ns + REPLICA_GREET_NS);
        return;
    }
    struct replica_peer *p = &r->peers[k->peer];
    if (silent >= REPLICA_SILENT_NS || (p->pinged == 2 && now >= p->pinged_ns + REPLICA_PROBE_NS)) {
        replica_conn_abort(k);
        return;
    }
    if (silent >= REPLICA_QUIET_NS && p->pinged == 0) {
        p->pinged = 1;
        p->pinged_ns = now;
        p->ping |= 1;
        r->to_pump |= (uint16_t)(1u << k->peer);
    }
    uint64_t next = k->heard_ns + (p->pinged != 0 ? REPLICA_SILENT_NS : REPLICA_QUIET_NS);
    if (p->pinged == 2)
        next = snic_min_u64(next, p->pinged_ns + REPLICA_PROBE_NS);
    replica_link_wake(r, next);
}

void replica_conn_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_replica *r = SNIC_CONTAINER(t, struct snic_replica, link_timer);
    uint64_t now = replica_conn_now(r);
    (void)now_ns;
    r->link_at = SNIC_NEVER;
    SNIC_ASSERT(r->state != SNIC_REPLICA_STOPPED); /* N6 */
    if (r->state == SNIC_REPLICA_READING) {
        replica_link_wake(r, now + REPLICA_BACKOFF_MIN);
        return;
    }
    r->retrying = 1;
    replica_link_retry(r);
    for (uint32_t i = 0; i < r->conn_count; i++)
        replica_conn_look(r, &r->conns[i], now);
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        struct replica_peer *p = &r->peers[n];
        if ((r->others >> n & 1) == 0)
            continue;
        if (p->conn != NULL && p->credit_at_ns != SNIC_NEVER)
            r->to_pump |= (uint16_t)(1u << n);
        if (p->conn != NULL || n > r->o.node || replica_conn_tries(r, n))
            continue;
        if (p->connect_ns <= now)
            replica_conn_start(r, n);
        else
            replica_link_wake(r, p->connect_ns);
    }
    replica_settle(r);
    r->retrying = 0;
}

int replica_conn_open(struct snic_replica *r)
{
    static const struct snic_net_dgram_events events = {.recv = replica_dgram_recv};
    const struct snic_net_addr *own = &r->peers[r->o.node].addr;
    int result = snic_net_dgram_open(r->o.net, own, &events, r, &r->dgram);
    if (result != 0)
        return result;
    result = snic_net_listen(r->o.net, own, 0, replica_conn_accept, r, &r->listener);
    if (result != 0) {
        snic_net_dgram_close(r->dgram);
        return result;
    }
    replica_link_wake(r, 0);
    return 0;
}

#undef REPLICA_MS
#undef REPLICA_BACKOFF_MIN
#undef REPLICA_BACKOFF_MAX
#undef REPLICA_GREET_NS
#undef REPLICA_QUIET_NS
#undef REPLICA_SILENT_NS
#undef REPLICA_PROBE_NS
#undef REPLICA_PATIENCE_MS
