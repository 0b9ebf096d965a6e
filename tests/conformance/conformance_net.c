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

void conf_req_fill_bytes(uint64_t seed, uint64_t offset, unsigned char *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = conf_byte(seed, offset + i);
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
void conf_req_fill(struct conf_peer *p, struct conf_req *r, uint32_t size)
{
    struct snic_rng *rng = &p->env->rng;
    uint32_t at = 0;
    uint32_t count = 0;
    if (r->bytes == NULL)
        r->bytes = malloc(p->piece_max);
    conf_req_fill_bytes(p->tx_seed, p->queued, r->bytes, size);
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

void conf_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
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
    uint64_t end = conf_clock_s() + 300; /* only a hang is this slow */
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
    for (int quiet = 0; quiet < 10; quiet++) {
        if (conf_backend_step(e) > 0)
            quiet = -1;
        else if (e->world != NULL)
            break;
        conf_check(e);
    }
}

/* ---- A pair of peers ---- */

struct snic_net_uring_opts conf_small(const struct conf_env *e)
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

void conf_env_open(struct conf_env *e, void **state, const struct snic_net_uring_opts *so,
                   const struct snic_net_uring_opts *co)
{
    struct snic_net_uring_opts small;
    memset(e, 0, sizeof(*e));
    e->backend = *state;
    small = conf_small(e);
    snic_rng_init(&e->rng, support_seed());
    conf_backend_open(e, so != NULL ? so : &small, co != NULL ? co : &small);
}

void conf_env_close(struct conf_env *e)
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

int conf_both_closed(void *ctx)
{
    struct conf_pair *p = ctx;
    return p->client.closes > 0 && p->server.closes > 0;
}

void conf_pair_start(struct conf_pair *p)
{
    conf_listen(&p->s, &p->e, &p->server, 1);
    conf_connect(&p->client, &p->e.listen_addr);
}

struct conf_pair *conf_pair_make(void **state)
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

struct conf_pair *conf_pair_open(void **state)
{
    struct conf_pair *p = conf_pair_make(state);
    conf_pair_start(p);
    conf_until(&p->e, conf_is_open, p);
    assert_int_equal(p->client.connect_error, 0);
    return p;
}

void conf_pair_close(struct conf_pair *p)
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

/* ---- Many pairs ---- */

struct conf_many *conf_many_open(void **state, uint32_t count, const struct snic_net_uring_opts *so)
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

void conf_many_close(struct conf_many *m)
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

int conf_many_closed(void *ctx)
{
    struct conf_many *m = ctx;
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->server[i].closes == 0 || m->client[i].closes == 0)
            return 0;
    }
    return 1;
}

/* ---- The suite ---- */

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
    CONF_CASE(buffers_of_predecessor_put_bound_kept),
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
    CONF_CASE(lazy_flag_everything_arrives_and_is_done),
    CONF_CASE(dgram_single_sizes_arrive),
    CONF_CASE(dgram_train_split_again),
    CONF_CASE(dgram_trains_in_a_row_each_its_own),
    CONF_CASE(dgram_ecn_kept),
    CONF_CASE(dgram_bad_arguments_refused),
    CONF_CASE(dgram_queue_full_writable_follows),
    CONF_CASE(dgram_closed_trains_done_port_free),
    CONF_CASE(dgram_no_socket_told_others_go_on),
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
