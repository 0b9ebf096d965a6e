/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The executable contract of the network door: peers that check what they receive, and the
 * tests that every backend passes.
 */
#include "conformance_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- The stream of known bytes ---- */

static unsigned char conf_byte(uint64_t seed, uint64_t offset)
{
    uint64_t z = seed + (offset >> 3) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (unsigned char)((z ^ (z >> 31)) >> (8 * (offset & 7)));
}

static void conf_event(struct conf_peer *p, struct snic_net_conn *c)
{
    if (p->env->inside != 0)
        p->env->bad = "an event came from inside a call";
    if (p->closes > 0)
        p->env->bad = "an event came after closed";
    if (p->conn != c)
        p->env->bad = "an event of another connection";
}

/* ---- Peers ---- */

static void conf_done(struct snic_net_send_req *s)
{
    struct conf_req *r = SNIC_CONTAINER(s, struct conf_req, s);
    struct conf_peer *p = r->peer;
    if (p->env->inside != 0)
        p->env->bad = "done came from inside a call";
    if (!r->busy)
        p->env->bad = "done came twice";
    if (p->closes > 0)
        p->env->bad = "done came after closed";
    r->busy = 0;
    p->in_flight--;
    p->dones++;
    p->last_result = s->result;
    if (s->result != 0)
        p->done_errors++;
    if (!p->lazy)
        conf_peer_send(p);
}

static void conf_connected(void *ctx, struct snic_net_conn *c, int error)
{
    struct conf_peer *p = ctx;
    conf_event(p, c);
    p->connected++;
    p->connect_error = error;
}

/* Something random while receiving: keep the buffer, pause. */
static int conf_chaos(struct conf_peer *p)
{
    struct conf_env *e = p->env;
    if (snic_rng_below(&e->rng, 16) == 0 && p->pause_ticks == 0) {
        p->pause_ticks = 1 + (int)snic_rng_below(&e->rng, 20);
        CONF_CALL(e, snic_net_pause(p->conn, 1));
    }
    return snic_rng_below(&e->rng, 3) == 0;
}

static void conf_tick(struct conf_peer *p)
{
    struct conf_env *e = p->env;
    if (p->pause_ticks > 0 && --p->pause_ticks == 0 && p->conn != NULL)
        CONF_CALL(e, snic_net_pause(p->conn, 0));
    while (p->held_count > 0 && snic_rng_below(&e->rng, 4) != 0) {
        uint32_t i = (uint32_t)snic_rng_below(&e->rng, p->held_count); /* in any order */
        struct snic_net_buf *b = p->held[i];
        p->held[i] = p->held[--p->held_count];
        p->lent--;
        CONF_CALL(e, snic_net_put(p->net, b));
    }
}

static void conf_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct conf_peer *p = ctx;
    struct conf_env *e = p->env;
    conf_event(p, c);
    if (b->size == 0 || b->conn != c)
        e->bad = "a strange buffer";
    if (p->eofs > 0)
        e->bad = "bytes after the end";
    for (uint32_t i = 0; i < b->size && !p->unchecked; i++) {
        if (b->data[i] != conf_byte(p->rx_seed, p->received + i))
            e->bad = "wrong bytes";
    }
    p->received += b->size;
    p->lent++;
    p->lent_high = p->lent > p->lent_high ? p->lent : p->lent_high;
    b->data += b->size / 2; /* users may do this */
    b->size -= b->size / 2;
    if (p->held_count < CONF_HELD && (p->hold || (p->chaos && conf_chaos(p)))) {
        p->held[p->held_count++] = b;
    } else {
        p->lent--;
        CONF_CALL(e, snic_net_put(p->net, b));
    }
    if (p->close_on_recv && !p->ended) {
        p->ended = 1;
        CONF_CALL(e, snic_net_close(c));
    } else if (p->abort_on_recv && !p->aborted) {
        p->aborted = 1;
        CONF_CALL(e, snic_net_abort(c));
    }
}

static void conf_eof(void *ctx, struct snic_net_conn *c)
{
    struct conf_peer *p = ctx;
    conf_event(p, c);
    p->eofs++;
    if (p->shutdown_on_eof && p->to_send == 0 && !p->ended) {
        p->ended = 1;
        CONF_CALL(p->env, snic_net_shutdown(c));
    }
}

static void conf_writable(void *ctx, struct snic_net_conn *c)
{
    struct conf_peer *p = ctx;
    conf_event(p, c);
    p->writables++;
    conf_peer_send(p);
}

static void conf_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct conf_peer *p = ctx;
    conf_event(p, c);
    if (p->in_flight != 0)
        p->env->bad = "closed before all sends were done";
    p->closes++;
    p->reason = reason;
    p->conn = NULL;
}

const struct snic_net_stream_events conf_events = {
    .connected = conf_connected,
    .recv = conf_recv,
    .eof = conf_eof,
    .writable = conf_writable,
    .closed = conf_closed,
};

void conf_peer_init(struct conf_peer *p, struct conf_env *e, struct snic_net *n)
{
    memset(p, 0, sizeof(*p));
    p->env = e;
    p->net = n;
    p->tx_seed = 1;
    p->rx_seed = 1;
    p->piece_max = 1024;
    p->reqs = calloc(CONF_REQS, sizeof(*p->reqs));
    assert_non_null(p->reqs);
}

void conf_peer_fini(struct conf_peer *p)
{
    assert_int_equal(p->in_flight, 0);
    for (unsigned i = 0; i < CONF_REQS; i++)
        free(p->reqs[i].bytes);
    free(p->reqs);
}

/* Fill @r with the next @size bytes of the stream, in pieces of random sizes. */
static void conf_req_fill(struct conf_peer *p, struct conf_req *r, uint32_t size)
{
    struct snic_rng *rng = &p->env->rng;
    uint32_t at = 0;
    uint32_t count = 0;
    if (r->bytes == NULL)
        r->bytes = malloc(p->piece_max);
    for (uint32_t i = 0; i < size; i++)
        r->bytes[i] = conf_byte(p->tx_seed, p->queued + i);
    while (at < size) {
        uint32_t n = (uint32_t)snic_rng_below(rng, size - at + 1);
        if (count == SNIC_NET_IOV_MAX - 1 || snic_rng_below(rng, 2) == 0)
            n = size - at;
        r->iov[count].base = r->bytes + at;
        r->iov[count++].size = n;
        at += n;
    }
    if (count < SNIC_NET_IOV_MAX && snic_rng_below(rng, 4) == 0) {
        r->iov[count].base = NULL; /* empty pieces are fine */
        r->iov[count++].size = 0;
    }
    memset(&r->s, 0x5a, sizeof(r->s));
    r->s.done = conf_done;
    r->s.iov = r->iov;
    r->s.iov_count = count;
    r->s.flags = p->flags;
    r->s.region = SNIC_NO_REGION;
    r->peer = p;
}

void conf_peer_send(struct conf_peer *p)
{
    struct conf_env *e = p->env;
    for (unsigned i = 0; i < CONF_REQS && p->to_send > 0 && p->conn != NULL && !p->ended; i++) {
        struct conf_req *r = &p->reqs[i];
        int taken = 0;
        if (r->busy)
            continue;
        uint32_t size = 1 + (uint32_t)snic_rng_below(&e->rng, p->piece_max);
        if (size > p->to_send)
            size = (uint32_t)p->to_send;
        conf_req_fill(p, r, size);
        r->busy = 1;
        CONF_CALL(e, taken = snic_net_send(p->conn, &r->s));
        if (taken != 1) {
            r->busy = 0;
            p->zeros += taken == 0;
            if (taken != 0 && taken != SNIC_EPIPE)
                e->bad = "a valid send was refused";
            return;
        }
        p->in_flight++;
        p->in_flight_high = p->in_flight > p->in_flight_high ? p->in_flight : p->in_flight_high;
        p->queued += size;
        p->to_send -= size;
    }
    if (p->to_send == 0 && p->conn != NULL && !p->ended) {
        if (p->close_when_sent) {
            p->ended = 1;
            CONF_CALL(e, snic_net_close(p->conn));
        } else if (p->shutdown_when_sent) {
            p->ended = 1;
            CONF_CALL(e, snic_net_shutdown(p->conn));
        }
    }
}

void conf_peer_put_all(struct conf_peer *p)
{
    while (p->held_count > 0) {
        p->lent--;
        CONF_CALL(p->env, snic_net_put(p->net, p->held[--p->held_count]));
    }
}

/* ---- Servers, clients, waiting ---- */

static void conf_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    struct conf_server *s = ctx;
    if (s->env->inside != 0)
        s->env->bad = "accept came from inside a call";
    if (peer->family != s->env->listen_addr.family)
        s->env->bad = "the peer's address is of another family";
    if (s->abort_all || s->accepted >= s->peers_max) {
        CONF_CALL(s->env, snic_net_abort(c));
        s->accepted++;
        return;
    }
    struct conf_peer *p = &s->peers[s->accepted++];
    p->conn = c;
    CONF_CALL(s->env, snic_net_bind(c, &conf_events, p));
    conf_peer_send(p);
}

void conf_listen(struct conf_server *s, struct conf_env *e, struct conf_peer *peers, uint32_t max)
{
    int r = 0;
    memset(s, 0, sizeof(*s));
    s->env = e;
    s->peers = peers;
    s->peers_max = max;
    CONF_CALL(e, r = snic_net_listen(e->server, &e->listen_addr, 0, conf_accept, s, &s->listener));
    assert_int_equal(r, 0);
    assert_int_equal(snic_net_listen_addr(s->listener, &e->listen_addr), 0);
}

void conf_connect(struct conf_peer *p, const struct snic_net_addr *to)
{
    int r = 0;
    CONF_CALL(p->env, r = snic_net_connect(p->net, to, &conf_events, p, &p->conn));
    assert_int_equal(r, 0);
}

void conf_check(struct conf_env *e)
{
    if (e->bad != NULL)
        fail_msg("%s: %s", e->backend->name, e->bad);
}

static uint64_t conf_clock_s(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec;
}

void conf_until(struct conf_env *e, conf_cond_fn cond, void *ctx)
{
    uint64_t end = conf_clock_s() + 90; /* only a hang is this slow */
    while (!cond(ctx)) {
        int waits = 0;
        int moved = conf_backend_step(e);
        for (uint32_t i = 0; i < e->chaotic_count; i++) {
            waits |= e->chaotic[i]->pause_ticks > 0 || e->chaotic[i]->held_count > 0;
            conf_tick(e->chaotic[i]);
        }
        conf_check(e);
        if (!moved && !waits && e->world != NULL && !cond(ctx))
            fail_msg("%s: nothing can happen any more", e->backend->name);
        if (conf_clock_s() > end)
            fail_msg("%s: it does not happen", e->backend->name);
    }
}

void conf_settle(struct conf_env *e)
{
    for (int quiet = 0; quiet < 25; quiet++) {
        if (conf_backend_step(e) > 0)
            quiet = -1;
        else if (e->world != NULL)
            break;
        conf_check(e);
    }
}

/* ---- A pair of peers ---- */

struct conf_pair {
    struct conf_env e;
    struct conf_server s;
    struct conf_peer server;
    struct conf_peer client;
};

static struct snic_net_uring_opts conf_small(const struct conf_env *e)
{
    struct snic_net_uring_opts o;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.conns_max = 16;
    o.recv_buffers = 4;
    o.recv_size = 2048;
    o.pool_buffers = 64;
    o.send_queue = 8;
    o.caps_mask = e->backend->caps_mask;
    return o;
}

static void conf_env_open(struct conf_env *e, void **state, const struct snic_net_uring_opts *so,
                          const struct snic_net_uring_opts *co)
{
    struct snic_net_uring_opts small;
    memset(e, 0, sizeof(*e));
    e->backend = *state;
    small = conf_small(e);
    snic_rng_init(&e->rng, support_seed());
    conf_backend_open(e, so != NULL ? so : &small, co != NULL ? co : &small);
}

static void conf_env_close(struct conf_env *e)
{
    conf_check(e);
    conf_backend_close(e);
    conf_check(e);
}

static int conf_is_open(void *ctx)
{
    struct conf_pair *p = ctx;
    return p->client.connected > 0 && p->s.accepted > 0;
}

static int conf_both_closed(void *ctx)
{
    struct conf_pair *p = ctx;
    return p->client.closes > 0 && p->server.closes > 0;
}

static void conf_pair_start(struct conf_pair *p)
{
    conf_listen(&p->s, &p->e, &p->server, 1);
    conf_connect(&p->client, &p->e.listen_addr);
}

static struct conf_pair *conf_pair_make(void **state)
{
    struct conf_pair *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    conf_env_open(&p->e, state, NULL, NULL);
    conf_peer_init(&p->server, &p->e, p->e.server);
    conf_peer_init(&p->client, &p->e, p->e.client);
    p->client.tx_seed = 7;
    p->server.rx_seed = 7;
    return p;
}

static struct conf_pair *conf_pair_open(void **state)
{
    struct conf_pair *p = conf_pair_make(state);
    conf_pair_start(p);
    conf_until(&p->e, conf_is_open, p);
    assert_int_equal(p->client.connect_error, 0);
    return p;
}

static void conf_pair_close(struct conf_pair *p)
{
    conf_peer_put_all(&p->server);
    conf_peer_put_all(&p->client);
    conf_env_close(&p->e);
    assert_true(p->client.closes <= 1 && p->server.closes <= 1);
    if (p->client.connected > 0)
        assert_int_equal(p->client.closes, 1);
    conf_peer_fini(&p->server);
    conf_peer_fini(&p->client);
    free(p);
}

/* ---- The tests ---- */

/* Connections without a listener would hang or succeed. */
static void conf_test_no_listener_connect_refused(void **state)
{
    struct conf_pair *p = conf_pair_make(state);
    struct snic_net_addr to;
    conf_listen(&p->s, &p->e, &p->server, 1);
    to = p->e.listen_addr;
    CONF_CALL(&p->e, snic_net_unlisten(p->s.listener));
    conf_settle(&p->e);
    conf_connect(&p->client, &to);
    p->client.to_send = 100;
    conf_peer_send(&p->client); /* accepted, and never sent */
    assert_int_equal(p->client.in_flight, 1);
    p->server.closes = 1;
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->client.connected, 1);
    assert_int_equal(p->client.connect_error, SNIC_ECONNREFUSED);
    assert_int_equal(p->client.reason, SNIC_ECONNREFUSED);
    assert_int_equal(p->client.done_errors, 1);
    assert_int_equal(p->client.last_result, SNIC_ECANCELED);
    conf_pair_close(p);
}

/* The simplest exchange and the orderly end would not work. */
static void conf_test_pair_shutdown_both_closed_in_order(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    p->client.to_send = 5;
    p->server.to_send = 3;
    p->client.shutdown_when_sent = 1;
    p->server.shutdown_on_eof = 1;
    conf_peer_send(&p->server);
    conf_peer_send(&p->client);
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->server.received, 5);
    assert_int_equal(p->client.received, 3);
    assert_int_equal(p->server.reason, 0);
    assert_int_equal(p->client.reason, 0);
    assert_int_equal(p->server.eofs, 1);
    assert_int_equal(p->client.eofs, 1);
    assert_int_equal(p->client.connected, 1);
    conf_pair_close(p);
}

/* A half-closed connection must carry the other direction: a client that shuts down, a big reply.
 */
static void conf_test_client_half_closed_reply_arrives(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    p->client.to_send = 10;
    p->client.shutdown_when_sent = 1;
    conf_peer_send(&p->client);
    while (p->server.eofs == 0)
        assert_true(conf_backend_step(&p->e) >= 0);
    p->server.to_send = 300000;
    p->server.shutdown_when_sent = 1;
    conf_peer_send(&p->server);
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->client.received, 300000);
    assert_int_equal(p->client.reason, 0);
    assert_int_equal(p->server.reason, 0);
    conf_pair_close(p);
}

/* Bytes would be lost, doubled, reordered or damaged under random pauses, sizes and held buffers.
 */
static void conf_test_pair_random_traffic_intact(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    uint64_t bytes = support_scale(1500000, 64000000);
    p->client.to_send = bytes;
    p->server.to_send = bytes / 2 + 1;
    p->client.piece_max = 20000;
    p->server.piece_max = 300;
    p->client.shutdown_when_sent = 1;
    p->server.shutdown_when_sent = 1;
    p->client.chaos = 1;
    p->server.chaos = 1;
    p->e.chaotic[p->e.chaotic_count++] = &p->client;
    p->e.chaotic[p->e.chaotic_count++] = &p->server;
    conf_peer_send(&p->server);
    conf_peer_send(&p->client);
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->server.received, bytes);
    assert_int_equal(p->client.received, bytes / 2 + 1);
    assert_int_equal(p->server.reason, 0);
    assert_int_equal(p->client.reason, 0);
    assert_int_equal(p->client.done_errors + p->server.done_errors, 0);
    assert_true(p->client.lent_high <= 4 && p->server.lent_high <= 4);
    assert_true(p->client.in_flight_high <= 8 && p->server.in_flight_high <= 8);
    conf_pair_close(p);
}

/* A reader that stops would make its sender queue without bound, or stop for ever. */
static void conf_test_reader_paused_sender_bounded(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    const uint64_t bytes = 40000000;
    CONF_CALL(&p->e, snic_net_pause(p->server.conn, 1));
    p->client.to_send = bytes;
    p->client.piece_max = 65536;
    p->client.shutdown_when_sent = 1;
    p->client.lazy = 1; /* writable alone must keep it going */
    p->server.shutdown_on_eof = 1;
    conf_peer_send(&p->client);
    conf_settle(&p->e);
    assert_int_equal(p->server.received, 0);
    assert_true(p->client.zeros > 0);
    assert_true(p->client.to_send > bytes / 4); /* the kernel's buffers and ours are smaller */
    assert_true(p->client.in_flight > 4);
    uint32_t writables = p->client.writables;
    p->client.to_send = 1000000;
    uint64_t total = p->client.queued + p->client.to_send;
    CONF_CALL(&p->e, snic_net_pause(p->server.conn, 0));
    conf_until(&p->e, conf_both_closed, p);
    assert_true(p->client.writables > writables);
    assert_int_equal(p->server.received, total);
    conf_pair_close(p);
}

static int conf_server_stuffed(void *ctx)
{
    struct conf_pair *p = ctx;
    return p->server.held_count >= 4;
}

/* A user that keeps its buffers would be lent more than the bound, or never hear again. */
static void conf_test_buffers_held_receive_pauses_and_resumes(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    p->client.to_send = 400000;
    p->client.shutdown_when_sent = 1;
    p->server.shutdown_on_eof = 1;
    p->server.hold = 1;
    conf_peer_send(&p->client);
    while (p->server.received < 100000) {
        conf_until(&p->e, conf_server_stuffed, p);
        for (int i = 0; i < 10; i++)
            (void)conf_backend_step(&p->e); /* a fifth would come now */
        conf_peer_put_all(&p->server);
    }
    p->server.hold = 0;
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->server.received, 400000);
    assert_int_equal(p->server.lent_high, 4);
    conf_pair_close(p);
}

static int conf_is_reset(const struct conf_env *e, const struct conf_peer *p)
{
    if (e->backend->kind == CONF_UNIX) /* cannot tell a reset from an end */
        return p->reason == SNIC_ECONNRESET || p->eofs == 1;
    return p->reason == SNIC_ECONNRESET;
}

static int conf_server_over(void *ctx)
{
    struct conf_pair *p = ctx;
    return p->client.closes > 0 && (p->server.closes > 0 || p->server.eofs > 0);
}

static int conf_client_over(void *ctx)
{
    struct conf_pair *p = ctx;
    return p->server.closes > 0 && (p->client.closes > 0 || p->client.eofs > 0);
}

/* Queued requests of an aborted connection would be lost or done twice, the peer left hanging. */
static void conf_test_client_aborts_sends_cancelled_peer_reset(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    CONF_CALL(&p->e, snic_net_pause(p->server.conn, 1));
    p->client.to_send = 40000000;
    p->client.piece_max = 65536;
    conf_peer_send(&p->client);
    conf_settle(&p->e);
    uint32_t waiting = p->client.in_flight;
    uint32_t before = p->client.dones;
    assert_int_equal(waiting, 8);
    CONF_CALL(&p->e, snic_net_abort(p->client.conn));
    p->client.ended = 1;
    CONF_CALL(&p->e, snic_net_abort(p->client.conn)); /* harmless */
    if (p->e.backend->kind == CONF_UNIX)
        CONF_CALL(&p->e, snic_net_pause(p->server.conn, 0));
    conf_until(&p->e, conf_server_over, p);
    assert_int_equal(p->client.reason, SNIC_ECONNABORTED);
    assert_int_equal(p->client.dones, before + waiting);
    assert_int_equal(p->client.done_errors, waiting);
    assert_int_equal(p->client.last_result, SNIC_ECANCELED);
    assert_true(conf_is_reset(&p->e, &p->server));
    conf_pair_close(p);
}

/* Aborting from inside an event would break the connection's own code. */
static void conf_test_server_aborts_in_recv_client_reset(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    p->client.to_send = 100000;
    p->server.abort_on_recv = 1;
    conf_peer_send(&p->client);
    conf_until(&p->e, conf_client_over, p);
    assert_int_equal(p->server.reason, SNIC_ECONNABORTED);
    assert_true(conf_is_reset(&p->e, &p->client));
    conf_pair_close(p);
}

/* An answer sent right before close would be cut off. */
static void conf_test_close_with_queue_flushed(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    p->server.to_send = 500000;
    p->server.piece_max = 4000;
    p->server.close_when_sent = 1;
    p->client.shutdown_on_eof = 1;
    p->client.chaos = 1;
    p->e.chaotic[p->e.chaotic_count++] = &p->client;
    conf_peer_send(&p->server);
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->client.received, 500000);
    assert_int_equal(p->client.eofs, 1);
    assert_int_equal(p->client.reason, 0);
    assert_int_equal(p->server.reason, 0);
    assert_int_equal(p->server.done_errors, 0);
    conf_pair_close(p);
}

/* close() while the peer still talks: nothing more may be delivered, and our bytes still arrive. */
static void conf_test_close_while_peer_sends_nothing_received(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    p->client.to_send = 200000;
    p->client.close_when_sent = 1;
    p->server.close_on_recv = 1;
    conf_peer_send(&p->client);
    conf_until(&p->e, conf_both_closed, p);
    uint64_t got = p->server.received;
    assert_true(got <= 2048);
    assert_int_equal(p->server.eofs, 0);
    assert_int_equal(p->server.reason, 0);
    conf_pair_close(p);
}

/* A peer that never closes would keep a closed connection for ever. */
static void conf_test_close_peer_idle_closed_anyway(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    CONF_CALL(&p->e, snic_net_close(p->server.conn));
    p->server.ended = 1;
    CONF_CALL(&p->e, snic_net_close(p->server.conn)); /* harmless */
    p->client.closes = 0;
    while (p->server.closes == 0 || p->client.eofs == 0) {
        (void)conf_backend_step(&p->e);
        conf_check(&p->e);
    }
    assert_int_equal(p->server.reason, 0);
    assert_int_equal(p->client.closes, 0);
    CONF_CALL(&p->e, snic_net_close(p->client.conn));
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->client.reason, 0);
    conf_pair_close(p);
}

/* Calls on a connection that no longer sends would queue requests that are never done. */
static void conf_test_shut_connection_send_refused(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    struct conf_req *r = &p->client.reqs[0];
    int got = 0;
    conf_req_fill(&p->client, r, 10);
    CONF_CALL(&p->e, snic_net_shutdown(p->client.conn));
    CONF_CALL(&p->e, snic_net_shutdown(p->client.conn));
    CONF_CALL(&p->e, got = snic_net_send(p->client.conn, &r->s));
    assert_int_equal(got, SNIC_EPIPE);
    CONF_CALL(&p->e, snic_net_abort(p->server.conn));
    CONF_CALL(&p->e, got = snic_net_send(p->server.conn, &r->s));
    assert_int_equal(got, SNIC_EPIPE);
    CONF_CALL(&p->e, snic_net_shutdown(p->server.conn)); /* all harmless now */
    CONF_CALL(&p->e, snic_net_close(p->server.conn));
    CONF_CALL(&p->e, snic_net_pause(p->server.conn, 1));
    conf_until(&p->e, conf_client_over, p);
    assert_int_equal(p->server.reason, SNIC_ECONNABORTED);
    conf_pair_close(p);
}

/* A bad request would reach the backend, or change something. */
static void conf_test_bad_send_refused(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    struct conf_req *r = &p->client.reqs[0];
    struct snic_net_send_req copy;
    int got = 0;
    for (int kind = 0; kind < 7; kind++) {
        conf_req_fill(&p->client, r, 10);
        r->s.done = kind == 0 ? NULL : r->s.done;
        r->s.iov = kind == 1 ? NULL : r->s.iov;
        r->s.iov_count = kind == 2 ? 0 : kind == 3 ? SNIC_NET_IOV_MAX + 1 : r->s.iov_count;
        r->s.flags = kind == 4 ? 1u << 31 : 0;
        if (kind == 5) {
            r->iov[0].base = NULL;
            r->iov[0].size = 1;
        }
        for (uint32_t i = 0; kind == 6 && i < r->s.iov_count; i++)
            r->iov[i].size = 0;
        copy = r->s;
        CONF_CALL(&p->e, got = snic_net_send(p->client.conn, &r->s));
        assert_int_equal(got, SNIC_EINVAL);
        assert_memory_equal(&copy, &r->s, sizeof(copy));
    }
    conf_pair_close(p);
}

/* The connect of somebody who has given up would still be reported, or leak. */
static void conf_test_connecting_ended_aborted(void **state)
{
    for (int close = 0; close < 2; close++) {
        struct conf_pair *p = conf_pair_make(state);
        conf_pair_start(p);
        p->client.to_send = 100;
        conf_peer_send(&p->client);
        if (close)
            CONF_CALL(&p->e, snic_net_close(p->client.conn));
        else
            CONF_CALL(&p->e, snic_net_abort(p->client.conn));
        p->client.ended = 1;
        p->server.closes = 1; /* may or may not be accepted */
        while (p->client.closes == 0)
            (void)conf_backend_step(&p->e);
        p->server.closes = 0;
        assert_int_equal(p->client.connected, 0);
        assert_int_equal(p->client.reason, SNIC_ECONNABORTED);
        assert_int_equal(p->client.last_result, SNIC_ECANCELED);
        conf_pair_close(p);
    }
}

/* Sends queued before the connection stands would be lost. */
static void conf_test_connecting_sends_arrive(void **state)
{
    struct conf_pair *p = conf_pair_make(state);
    p->server.to_send = 2000; /* sent from inside accept */
    p->server.shutdown_when_sent = 1;
    conf_pair_start(p);
    p->client.to_send = 3000;
    p->client.shutdown_when_sent = 1;
    conf_peer_send(&p->client);
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->server.received, 3000);
    assert_int_equal(p->client.received, 2000);
    conf_pair_close(p);
}

/* Buffers that outlive their connection would corrupt the pool or the next connection. */
static void conf_test_buffers_held_put_after_closed_pool_whole(void **state)
{
    struct conf_env e;
    struct conf_peer peer[2];
    struct snic_net_uring_opts o;
    memset(&e, 0, sizeof(e));
    e.backend = *state;
    o = conf_small(&e);
    o.pool_buffers = 4;
    conf_env_open(&e, state, &o, NULL);
    for (int round = 0; round < 6; round++) {
        struct conf_pair p;
        memset(&p, 0, sizeof(p));
        conf_peer_init(&peer[0], &e, e.server);
        conf_peer_init(&peer[1], &e, e.client);
        peer[0].hold = 1;
        peer[1].to_send = 60000;
        conf_listen(&p.s, &e, &peer[0], 1);
        conf_connect(&peer[1], &e.listen_addr);
        conf_peer_send(&peer[1]);
        while (peer[0].received < 1)
            (void)conf_backend_step(&e);
        conf_settle(&e);
        CONF_CALL(&e, snic_net_abort(peer[0].conn));
        peer[1].ended = 1;
        peer[1].to_send = 0;
        if (peer[1].conn != NULL)
            CONF_CALL(&e, snic_net_close(peer[1].conn));
        while (peer[0].closes == 0 || peer[1].closes == 0)
            (void)conf_backend_step(&e);
        CONF_CALL(&e, snic_net_unlisten(p.s.listener));
        conf_settle(&e);
        assert_true(peer[0].held_count >= 1);
        conf_peer_put_all(&peer[0]);
        conf_peer_fini(&peer[0]);
        conf_peer_fini(&peer[1]);
    }
    conf_env_close(&e);
}

struct conf_many {
    struct conf_env e;
    struct conf_server s;
    struct conf_peer *server;
    struct conf_peer *client;
    uint32_t count;
};

static struct conf_many *conf_many_open(void **state, uint32_t count,
                                        const struct snic_net_uring_opts *so)
{
    struct snic_net_uring_opts o;
    struct conf_many *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    m->e.backend = *state;
    o = conf_small(&m->e);
    o.conns_max = 300;
    o.pool_buffers = 1024;
    conf_env_open(&m->e, state, so != NULL ? so : &o, &o);
    m->count = count;
    m->server = calloc(count, sizeof(*m->server));
    m->client = calloc(count, sizeof(*m->client));
    assert_true(m->server != NULL && m->client != NULL);
    for (uint32_t i = 0; i < count; i++) {
        conf_peer_init(&m->server[i], &m->e, m->e.server);
        conf_peer_init(&m->client[i], &m->e, m->e.client);
    }
    conf_listen(&m->s, &m->e, m->server, count);
    return m;
}

static void conf_many_close(struct conf_many *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        conf_peer_put_all(&m->server[i]);
        conf_peer_put_all(&m->client[i]);
    }
    conf_env_close(&m->e);
    for (uint32_t i = 0; i < m->count; i++) {
        conf_peer_fini(&m->server[i]);
        conf_peer_fini(&m->client[i]);
    }
    free(m->server);
    free(m->client);
    free(m);
}

static int conf_many_closed(void *ctx)
{
    struct conf_many *m = ctx;
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->server[i].closes == 0 || m->client[i].closes == 0)
            return 0;
    }
    return 1;
}

/* Connections would disturb each other, or starve. */
static void conf_test_many_connections_all_served(void **state)
{
    struct conf_many *m = conf_many_open(state, 256, NULL);
    for (uint32_t i = 0; i < m->count; i++) {
        m->client[i].to_send = 3000 + i;
        m->server[i].to_send = 5000;
        m->client[i].shutdown_when_sent = 1;
        m->server[i].shutdown_when_sent = 1;
        conf_connect(&m->client[i], &m->e.listen_addr);
        conf_peer_send(&m->client[i]);
    }
    conf_until(&m->e, conf_many_closed, m);
    uint64_t received = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        assert_int_equal(m->client[i].reason, 0);
        assert_int_equal(m->server[i].reason, 0);
        assert_int_equal(m->client[i].received, 5000);
        received += m->server[i].received;
    }
    assert_int_equal(received, 256u * 3000 + 256 * 255 / 2);
    assert_int_equal(m->e.server->stats.accepted, 256);
    assert_int_equal(m->e.client->stats.connected, 256);
    assert_int_equal(m->e.server->stats.closed, 256);
    assert_int_equal(m->e.server->stats.recv_bytes, received);
    assert_int_equal(m->e.server->stats.sent_bytes, 256 * 5000);
    conf_many_close(m);
}

static int conf_four_held(void *ctx)
{
    struct conf_many *m = ctx;
    uint32_t held = 0;
    for (uint32_t i = 0; i < m->count; i++)
        held += m->server[i].held_count;
    return held == 4;
}

/* One connection that keeps the pool's buffers would deafen the others for good. */
static void conf_test_pool_empty_others_resume(void **state)
{
    struct conf_env e;
    struct snic_net_uring_opts o;
    memset(&e, 0, sizeof(e));
    e.backend = *state;
    o = conf_small(&e);
    o.pool_buffers = 4;
    struct conf_many *m = conf_many_open(state, 6, &o);
    for (uint32_t i = 0; i < m->count; i++) {
        m->client[i].to_send = 50000;
        m->client[i].shutdown_when_sent = 1;
        m->server[i].shutdown_on_eof = 1;
        m->server[i].hold = 1;
        conf_connect(&m->client[i], &m->e.listen_addr);
        conf_peer_send(&m->client[i]);
    }
    conf_until(&m->e, conf_four_held, m);
    for (int i = 0; i < 10; i++)
        (void)conf_backend_step(&m->e);
    assert_true(conf_four_held(m));
    for (uint32_t i = 0; i < m->count; i++) {
        m->server[i].hold = 0;
        conf_peer_put_all(&m->server[i]);
    }
    conf_until(&m->e, conf_many_closed, m);
    for (uint32_t i = 0; i < m->count; i++)
        assert_int_equal(m->server[i].received, 50000);
    conf_many_close(m);
}

static int conf_third_over(void *ctx)
{
    struct conf_many *m = ctx;
    return m->client[2].closes > 0 || m->client[2].eofs > 0;
}

static int conf_fourth_served(void *ctx)
{
    struct conf_many *m = ctx;
    return m->server[2].received == 10;
}

/* A full table would crash, leak or keep the server from ever accepting again. */
static void conf_test_table_full_extra_reset_then_served(void **state)
{
    struct conf_env e;
    struct snic_net_uring_opts o;
    memset(&e, 0, sizeof(e));
    e.backend = *state;
    o = conf_small(&e);
    o.conns_max = 2;
    struct conf_many *m = conf_many_open(state, 4, &o);
    conf_connect(&m->client[0], &m->e.listen_addr);
    conf_connect(&m->client[1], &m->e.listen_addr);
    while (m->s.accepted < 2)
        (void)conf_backend_step(&m->e);
    conf_connect(&m->client[2], &m->e.listen_addr);
    conf_until(&m->e, conf_third_over, m);
    assert_int_equal(m->s.accepted, 2);
    assert_true(m->e.server->stats.errors >= 1);
    CONF_CALL(&m->e, snic_net_abort(m->server[0].conn));
    while (m->server[0].closes == 0)
        (void)conf_backend_step(&m->e);
    m->client[3].to_send = 10;
    conf_connect(&m->client[3], &m->e.listen_addr);
    conf_peer_send(&m->client[3]);
    conf_until(&m->e, conf_fourth_served, m);
    conf_many_close(m);
}

/* Our own table full: connect must say so and take nothing. */
static void conf_test_client_table_full_connect_refused(void **state)
{
    struct conf_env e;
    struct snic_net_uring_opts o;
    struct conf_peer peer[2];
    struct snic_net_conn *c = NULL;
    memset(&e, 0, sizeof(e));
    e.backend = *state;
    o = conf_small(&e);
    o.conns_max = 1;
    conf_env_open(&e, state, NULL, &o);
    conf_peer_init(&peer[0], &e, e.client);
    conf_peer_init(&peer[1], &e, e.server);
    struct conf_server s;
    conf_listen(&s, &e, &peer[1], 1);
    conf_connect(&peer[0], &e.listen_addr);
    assert_int_equal(snic_net_connect(e.client, &e.listen_addr, &conf_events, NULL, &c),
                     SNIC_ENOSPC);
    assert_null(c);
    conf_env_close(&e);
    assert_int_equal(peer[0].closes, 1);
    conf_peer_fini(&peer[0]);
    conf_peer_fini(&peer[1]);
}

/* Two servers at one address would both believe to serve it. */
static void conf_test_address_taken_listen_refused(void **state)
{
    struct conf_env e;
    struct conf_server s;
    struct snic_net_listener *l = NULL;
    struct snic_net_addr a;
    conf_env_open(&e, state, NULL, NULL);
    conf_listen(&s, &e, NULL, 0);
    a = e.listen_addr;
    assert_int_equal(snic_net_listen(e.server, &a, 0, conf_accept, &s, &l), SNIC_EADDRINUSE);
    assert_null(l);
    CONF_CALL(&e, snic_net_unlisten(s.listener));
    assert_int_equal(snic_net_listen(e.server, &a, 0, conf_accept, &s, &l), 0);
    assert_int_equal(snic_net_listen(e.server, &a, 1u << 31, conf_accept, &s, &l), SNIC_EINVAL);
    assert_int_equal(snic_net_listen(e.server, &a, 0, NULL, &s, &l), SNIC_EINVAL);
    conf_env_close(&e);
}

/* unlisten must not touch the connections that are there. */
static void conf_test_unlisten_connections_live_on(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    CONF_CALL(&p->e, snic_net_unlisten(p->s.listener));
    conf_settle(&p->e);
    p->client.to_send = 4000;
    p->client.shutdown_when_sent = 1;
    p->server.shutdown_on_eof = 1;
    conf_peer_send(&p->client);
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->server.received, 4000);
    assert_int_equal(p->server.reason, 0);
    conf_pair_close(p);
}

/* A server that turns clients away in accept: nothing leaks, the client hears of it. */
static void conf_test_accept_aborts_client_told(void **state)
{
    struct conf_pair *p = conf_pair_make(state);
    conf_listen(&p->s, &p->e, NULL, 0);
    conf_connect(&p->client, &p->e.listen_addr);
    p->server.closes = 1;
    conf_until(&p->e, conf_client_over, p);
    assert_true(p->client.closes == 1 || p->client.eofs == 1);
    assert_int_equal(p->s.accepted, 1);
    conf_pair_close(p);
}

/* Bad arguments and foreign addresses would be tried. */
static void conf_test_bad_arguments_refused(void **state)
{
    struct conf_env e;
    struct snic_net_conn *c = NULL;
    struct snic_net_listener *l = NULL;
    struct snic_net_addr a;
    struct snic_net_stream_events none = conf_events;
    conf_env_open(&e, state, NULL, NULL);
    assert_int_equal(
        snic_net_addr_parse(&a, e.backend->kind == CONF_SIM ? "127.0.0.1:80" : "sim:1:80"), 0);
    assert_int_equal(snic_net_connect(e.client, &a, &conf_events, NULL, &c), SNIC_ENOTSUP);
    assert_int_equal(snic_net_listen(e.client, &a, 0, conf_accept, NULL, &l), SNIC_ENOTSUP);
    a = e.listen_addr;
    if (e.backend->kind != CONF_UNIX) {
        a.port = 0;
        assert_int_equal(snic_net_connect(e.client, &a, &conf_events, NULL, &c), SNIC_EINVAL);
        a.port = 9;
    }
    none.closed = NULL;
    assert_int_equal(snic_net_connect(e.client, &a, &none, NULL, &c), SNIC_EINVAL);
    none = conf_events;
    none.recv = NULL;
    assert_int_equal(snic_net_connect(e.client, &a, &none, NULL, &c), SNIC_EINVAL);
    assert_int_equal(snic_net_connect(e.client, &a, NULL, NULL, &c), SNIC_EINVAL);
    assert_null(c);
    assert_null(l);
    conf_env_close(&e);
}

/* Closing the handle would forget connections and requests. */
static void conf_test_handle_shut_everything_reported(void **state)
{
    struct conf_many *m = conf_many_open(state, 8, NULL);
    for (uint32_t i = 0; i < m->count; i++) {
        m->client[i].to_send = 8000000;
        m->client[i].piece_max = 65536;
        m->server[i].to_send = 8000000;
        conf_connect(&m->client[i], &m->e.listen_addr);
        conf_peer_send(&m->client[i]);
    }
    for (int i = 0; i < 40; i++)
        (void)conf_backend_step(&m->e);
    uint32_t accepted = m->s.accepted;
    conf_backend_close(&m->e);
    conf_check(&m->e);
    for (uint32_t i = 0; i < m->count; i++) {
        assert_int_equal(m->client[i].closes, 1);
        assert_int_equal(m->client[i].in_flight, 0);
        assert_int_equal(m->server[i].closes, i < m->s.accepted ? 1 : 0);
        assert_int_equal(m->server[i].in_flight, 0);
    }
    assert_true(m->s.accepted >= accepted);
    for (uint32_t i = 0; i < m->count; i++) {
        conf_peer_fini(&m->server[i]);
        conf_peer_fini(&m->client[i]);
    }
    free(m->server);
    free(m->client);
    free(m);
}

/* Zero-copy sends would be reported while the kernel still reads them, or corrupt the stream. */
static void conf_test_zero_copy_bytes_intact(void **state)
{
    struct conf_env e;
    struct snic_net_uring_opts o;
    memset(&e, 0, sizeof(e));
    e.backend = *state;
    o = conf_small(&e);
    o.zc_bytes_min = 3000;
    struct conf_many *m = conf_many_open(state, 1, &o);
    m->server[0].flags = SNIC_NET_SEND_ZC;
    m->server[0].to_send = 2000000;
    m->server[0].piece_max = 30000;
    m->server[0].shutdown_when_sent = 1;
    m->client[0].shutdown_on_eof = 1;
    m->client[0].chaos = 1;
    m->e.chaotic[m->e.chaotic_count++] = &m->client[0];
    conf_connect(&m->client[0], &m->e.listen_addr);
    conf_until(&m->e, conf_many_closed, m);
    assert_int_equal(m->client[0].received, 2000000);
    assert_int_equal(m->server[0].done_errors, 0);
    int zc = (m->e.server->caps & SNIC_NET_CAP_ZC) != 0 && m->e.backend->kind != CONF_UNIX;
    assert_int_equal(m->e.server->stats.zc_sends > 0, zc);
    conf_many_close(m);
}

/* Aborting with zero-copy sends under way would release memory that the kernel still sends. */
static void conf_test_zero_copy_abort_all_done(void **state)
{
    struct conf_env e;
    struct snic_net_uring_opts o;
    memset(&e, 0, sizeof(e));
    e.backend = *state;
    o = conf_small(&e);
    o.zc_bytes_min = 1;
    struct conf_many *m = conf_many_open(state, 1, &o);
    m->server[0].flags = SNIC_NET_SEND_ZC;
    m->server[0].to_send = 40000000;
    m->server[0].piece_max = 65536;
    conf_connect(&m->client[0], &m->e.listen_addr);
    while (m->client[0].connected == 0)
        (void)conf_backend_step(&m->e);
    CONF_CALL(&m->e, snic_net_pause(m->client[0].conn, 1));
    conf_settle(&m->e);
    m->server[0].ended = 1;
    CONF_CALL(&m->e, snic_net_abort(m->server[0].conn));
    while (m->server[0].closes == 0)
        (void)conf_backend_step(&m->e);
    assert_int_equal(m->server[0].in_flight, 0);
    conf_many_close(m);
}

/* Messages that say "more follows" would stay behind when nothing follows within one turn. */
static void conf_test_more_flag_everything_arrives(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    p->client.flags = SNIC_NET_SEND_MORE;
    p->client.to_send = 60000;
    p->client.piece_max = 100;
    p->client.shutdown_when_sent = 1;
    p->server.shutdown_on_eof = 1;
    conf_peer_send(&p->client);
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->server.received, 60000);
    conf_pair_close(p);
}

/* ---- Datagrams ---- */

#define CONF_TRAINS 16

struct conf_sock {
    struct conf_env *env;
    struct snic_net_dgram *d;
    struct snic_net_addr addr;
    struct snic_net_addr from; /* the last sender's */
    uint32_t messages;
    uint64_t bytes;
    uint32_t by_size[3]; /* as expected[] */
    uint32_t expected[3];
    uint32_t ecn[4];
    uint32_t dones;
    uint32_t in_flight;
    uint32_t writables;
    int32_t last_result;
    int closed;
};

struct conf_train {
    struct snic_net_train t;
    struct conf_sock *s;
    struct snic_iov iov[3];
    int busy;
};

static void conf_train_done(struct snic_net_train *t)
{
    struct conf_train *c = SNIC_CONTAINER(t, struct conf_train, t);
    if (c->s->env->inside != 0)
        c->s->env->bad = "a train was done inside a call";
    if (!c->busy)
        c->s->env->bad = "a train was done twice";
    c->busy = 0;
    c->s->in_flight--;
    c->s->dones++;
    c->s->last_result = t->result;
}

/* Each datagram counts its own bytes, from its size on. */
static void conf_dgram_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                            uint32_t count)
{
    struct conf_sock *s = ctx;
    if (s->env->inside != 0 || s->closed || d != s->d || count == 0)
        s->env->bad = "a datagram out of place";
    for (uint32_t i = 0; i < count; i++) {
        int known = 0;
        for (uint32_t k = 0; k < 3; k++) {
            known |= s->expected[k] == msgs[i].size;
            s->by_size[k] += s->expected[k] == msgs[i].size;
        }
        for (uint32_t k = 0; k < msgs[i].size; k++) {
            if (msgs[i].data[k] != (unsigned char)(k * 7))
                s->env->bad = "a damaged datagram";
        }
        if (!known)
            s->env->bad = "a datagram of a strange size";
        if (msgs[i].time_ns == 0 || msgs[i].ecn > 3)
            s->env->bad = "a datagram with strange news";
        s->ecn[msgs[i].ecn & 3]++;
        s->messages++;
        s->bytes += msgs[i].size;
        s->from = msgs[i].peer;
    }
}

static void conf_dgram_writable(void *ctx, struct snic_net_dgram *d)
{
    struct conf_sock *s = ctx;
    if (s->env->inside != 0 || d != s->d)
        s->env->bad = "writable out of place";
    s->writables++;
}

static const struct snic_net_dgram_events conf_dgram_events = {conf_dgram_recv,
                                                               conf_dgram_writable};

static void conf_sock_open(struct conf_sock *s, struct conf_env *e, struct snic_net *n,
                           uint32_t node)
{
    struct snic_net_addr a = e->listen_addr;
    int r = 0;
    memset(s, 0, sizeof(*s));
    s->env = e;
    a.node = a.family == SNIC_NET_SIM ? node : 0;
    CONF_CALL(e, r = snic_net_dgram_open(n, &a, &conf_dgram_events, s, &s->d));
    assert_int_equal(r, 0);
    assert_int_equal(snic_net_dgram_addr(s->d, &s->addr), 0);
    assert_int_not_equal(s->addr.port, 0);
}

static int conf_train_send(struct conf_train *c, struct conf_sock *s,
                           const struct snic_net_addr *to, const unsigned char *bytes,
                           uint32_t size, uint32_t segment, uint32_t ecn)
{
    int r = 0;
    memset(c, 0x5a, sizeof(*c));
    c->s = s;
    c->iov[0].base = (void *)(uintptr_t)bytes;
    c->iov[0].size = size / 3;
    c->iov[1].base = NULL;
    c->iov[1].size = 0;
    c->iov[2].base = (void *)(uintptr_t)(bytes + size / 3);
    c->iov[2].size = size - size / 3;
    c->t.done = conf_train_done;
    c->t.peer = *to;
    c->t.iov = c->iov;
    c->t.iov_count = 3;
    c->t.segment = segment;
    c->t.ecn = ecn;
    c->busy = 1;
    CONF_CALL(s->env, r = snic_net_dgram_send(s->d, &c->t));
    c->busy = r == 1;
    s->in_flight += r == 1;
    return r;
}

/* @count segments; each counts from 0 on, so that any cut shows. */
static unsigned char *conf_train_bytes(uint32_t size, uint32_t segment)
{
    unsigned char *bytes = malloc(size);
    assert_non_null(bytes);
    for (uint32_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i % segment * 7);
    return bytes;
}

struct conf_socks {
    struct conf_env e;
    struct conf_sock a;
    struct conf_sock b;
    struct conf_train trains[CONF_TRAINS];
    uint32_t want;
};

static struct conf_socks *conf_socks_open(void **state)
{
    struct conf_socks *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    conf_env_open(&s->e, state, NULL, NULL);
    conf_sock_open(&s->a, &s->e, s->e.server, 1);
    conf_sock_open(&s->b, &s->e, s->e.client, 2);
    return s;
}

static int conf_b_has_all(void *ctx)
{
    struct conf_socks *s = ctx;
    return s->b.messages >= s->want && s->a.in_flight == 0;
}

static int conf_a_idle(void *ctx)
{
    struct conf_socks *s = ctx;
    return s->a.in_flight == 0;
}

/* Single datagrams would be cut, merged or come from a wrong address. */
static void conf_test_dgram_single_sizes_arrive(void **state)
{
    static const uint32_t sizes[] = {1, 1400, 9000};
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes = conf_train_bytes(9000, 9000);
    for (uint32_t i = 0; i < 3; i++) {
        s->b.expected[i] = sizes[i];
        s->want = i + 1;
        assert_int_equal(
            conf_train_send(&s->trains[0], &s->a, &s->b.addr, bytes, sizes[i], 9000, 0), 1);
        conf_until(&s->e, conf_b_has_all, s);
        assert_int_equal(s->a.last_result, 1);
        assert_memory_equal(&s->b.from, &s->a.addr, sizeof(s->a.addr));
    }
    assert_int_equal(s->b.messages, 3);
    assert_int_equal(s->b.bytes, 1 + 1400 + 9000);
    assert_int_equal(s->e.server->stats.dgrams_out, 3);
    assert_int_equal(s->e.client->stats.dgrams_in, 3);
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

/* A train would not be split back into what was sent. */
static void conf_test_dgram_train_split_again(void **state)
{
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes = conf_train_bytes(64 * 1200, 1200);
    s->b.expected[0] = 1200;
    s->b.expected[1] = 300;
    s->want = 11;
    assert_int_equal(conf_train_send(&s->trains[0], &s->a, &s->b.addr, bytes, 12300, 1200, 0), 1);
    conf_until(&s->e, conf_b_has_all, s);
    assert_int_equal(s->a.last_result, 11);
    assert_int_equal(s->b.by_size[0], 10);
    assert_int_equal(s->b.by_size[1], 1);
    s->want += 64; /* more bytes than one IP datagram has */
    assert_int_equal(conf_train_send(&s->trains[0], &s->a, &s->b.addr, bytes, 64 * 1200, 1200, 0),
                     1);
    conf_until(&s->e, conf_b_has_all, s);
    assert_int_equal(s->a.last_result, 64);
    assert_int_equal(s->b.by_size[0], 74);
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

/* Congestion marks would be lost on the way. */
static void conf_test_dgram_ecn_kept(void **state)
{
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes = conf_train_bytes(800, 100);
    s->b.expected[0] = 100;
    for (uint32_t ecn = 0; ecn < 4; ecn++) {
        s->want += 8;
        assert_int_equal(conf_train_send(&s->trains[0], &s->a, &s->b.addr, bytes, 800, 100, ecn),
                         1);
        conf_until(&s->e, conf_b_has_all, s);
        assert_int_equal(s->b.ecn[ecn], 8);
    }
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

/* What cannot be sent would be queued, or change the request. */
static void conf_test_dgram_bad_arguments_refused(void **state)
{
    struct conf_socks *s = conf_socks_open(state);
    struct snic_net_addr a = s->b.addr;
    struct snic_net_dgram *d = NULL;
    unsigned char *bytes = conf_train_bytes(70000, 70000);
    struct conf_train *t = &s->trains[0];
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 70000, 70000, 0), SNIC_EMSGSIZE);
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 65, 1, 0), SNIC_EMSGSIZE);
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 0, 100, 0), SNIC_EINVAL);
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 10, 0, 0), SNIC_EINVAL);
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 10, 10, 4), SNIC_EINVAL);
    a.port = 0;
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 10, 10, 0), SNIC_EINVAL);
    a.port = 9;
    a.family = SNIC_NET_UNIX;
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 10, 10, 0), SNIC_EINVAL);
    assert_int_equal(snic_net_dgram_open(s->e.server, &a, &conf_dgram_events, s, &d), SNIC_ENOTSUP);
    assert_int_equal(snic_net_dgram_open(s->e.server, &s->a.addr, &conf_dgram_events, s, &d),
                     SNIC_EADDRINUSE);
    assert_int_equal(snic_net_dgram_open(s->e.server, &s->a.addr, NULL, s, &d), SNIC_EINVAL);
    assert_null(d);
    assert_int_equal(s->a.dones, 0);
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

/* The queue would grow without bound, or never open again. */
static void conf_test_dgram_queue_full_writable_follows(void **state)
{
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes = conf_train_bytes(100, 100);
    int taken = 0;
    s->b.expected[0] = 100;
    for (uint32_t i = 0; i < CONF_TRAINS; i++)
        taken += conf_train_send(&s->trains[i], &s->a, &s->b.addr, bytes, 100, 100, 0);
    assert_int_equal(taken, 8);
    s->want = 8;
    conf_until(&s->e, conf_b_has_all, s);
    conf_settle(&s->e);
    assert_int_equal(s->a.dones, 8);
    assert_int_equal(s->a.writables, 1);
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

/* A closed socket would forget trains, or go on receiving. */
static void conf_test_dgram_closed_trains_done_port_free(void **state)
{
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes = conf_train_bytes(6000, 1000);
    struct snic_net_addr a = s->a.addr;
    s->b.expected[0] = 1000;
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(conf_train_send(&s->trains[i], &s->a, &s->b.addr, bytes, 6000, 1000, 0),
                         1);
    CONF_CALL(&s->e, snic_net_dgram_close(s->a.d));
    s->a.closed = 1;
    conf_until(&s->e, conf_a_idle, s);
    assert_int_equal(s->a.dones, 8);
    conf_settle(&s->e);
    CONF_CALL(&s->e, snic_net_dgram_close(s->b.d));
    s->b.closed = 1;
    conf_settle(&s->e);
    struct snic_net_dgram *d = NULL;
    assert_int_equal(snic_net_dgram_open(s->e.server, &a, &conf_dgram_events, &s->a, &d), 0);
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

struct conf_case {
    const char *name;
    void (*fn)(void **state);
};

#define CONF_CASE(n)                                                                               \
    {                                                                                              \
#n, conf_test_##n                                                                          \
    }

static const struct conf_case conf_cases[] = {
    CONF_CASE(no_listener_connect_refused),
    CONF_CASE(pair_shutdown_both_closed_in_order),
    CONF_CASE(client_half_closed_reply_arrives),
    CONF_CASE(pair_random_traffic_intact),
    CONF_CASE(reader_paused_sender_bounded),
    CONF_CASE(buffers_held_receive_pauses_and_resumes),
    CONF_CASE(client_aborts_sends_cancelled_peer_reset),
    CONF_CASE(server_aborts_in_recv_client_reset),
    CONF_CASE(close_with_queue_flushed),
    CONF_CASE(close_while_peer_sends_nothing_received),
    CONF_CASE(close_peer_idle_closed_anyway),
    CONF_CASE(shut_connection_send_refused),
    CONF_CASE(bad_send_refused),
    CONF_CASE(connecting_ended_aborted),
    CONF_CASE(connecting_sends_arrive),
    CONF_CASE(buffers_held_put_after_closed_pool_whole),
    CONF_CASE(many_connections_all_served),
    CONF_CASE(pool_empty_others_resume),
    CONF_CASE(table_full_extra_reset_then_served),
    CONF_CASE(client_table_full_connect_refused),
    CONF_CASE(address_taken_listen_refused),
    CONF_CASE(unlisten_connections_live_on),
    CONF_CASE(accept_aborts_client_told),
    CONF_CASE(bad_arguments_refused),
    CONF_CASE(handle_shut_everything_reported),
    CONF_CASE(zero_copy_bytes_intact),
    CONF_CASE(zero_copy_abort_all_done),
    CONF_CASE(more_flag_everything_arrives),
    CONF_CASE(dgram_single_sizes_arrive),
    CONF_CASE(dgram_train_split_again),
    CONF_CASE(dgram_ecn_kept),
    CONF_CASE(dgram_bad_arguments_refused),
    CONF_CASE(dgram_queue_full_writable_follows),
    CONF_CASE(dgram_closed_trains_done_port_free),
};

size_t conformance_net(struct CMUnitTest *out, size_t max, const struct conf_backend *backends,
                       size_t count)
{
    static char names[1024][96];
    size_t used = 0;
    for (size_t b = 0; b < count; b++) {
        for (size_t i = 0; i < SNIC_COUNTOF(conf_cases); i++) {
            assert_true(used < max && used < SNIC_COUNTOF(names));
            if (backends[b].kind == CONF_UNIX && strncmp(conf_cases[i].name, "dgram", 5) == 0)
                continue;
            (void)snprintf(names[used], sizeof(names[used]), "test_net_%s_%s", backends[b].name,
                           conf_cases[i].name);
            memset(&out[used], 0, sizeof(out[used]));
            out[used].name = names[used];
            out[used].test_func = conf_cases[i].fn;
            out[used].initial_state = (void *)(uintptr_t)&backends[b];
            used++;
        }
    }
    return used;
}
