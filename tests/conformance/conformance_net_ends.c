/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Conformance of the network door: the ways in which connections and calls end.
 */
#include "conformance_net.h"

#include <stdlib.h>

static int conf_is_reset(const struct conf_env *e, const struct conf_peer *p)
{
    if (e->backend->kind == CONF_UNIX) /* cannot distinguish a reset from an end */
        return p->reason == SNIC_ECONNRESET || p->eofs == 1;
    return p->reason == SNIC_ECONNRESET;
}

static int conf_server_over(void *ctx)
{
    struct conf_pair *p = ctx;
    return p->client.closes > 0 && (p->server.closes > 0 || p->server.eofs > 0);
}

int conf_client_over(void *ctx)
{
    struct conf_pair *p = ctx;
    return p->server.closes > 0 && (p->client.closes > 0 || p->client.eofs > 0);
}

/* Queued requests of an aborted connection would be lost or done twice, the peer left hanging. */
void conf_test_client_aborts_sends_cancelled_peer_reset(void **state)
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
void conf_test_server_aborts_in_recv_client_reset(void **state)
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
void conf_test_close_with_queue_flushed(void **state)
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
void conf_test_close_while_peer_sends_nothing_received(void **state)
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
void conf_test_close_peer_idle_closed_anyway(void **state)
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
void conf_test_shut_connection_send_refused(void **state)
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
void conf_test_bad_send_refused(void **state)
{
    struct conf_pair *p = conf_pair_open(state);
    struct conf_req *r = &p->client.reqs[0];
    struct snic_net_send_req copy;
    int got = 0;
    for (int kind = 0; kind < 8; kind++) {
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
        if (kind == 7) /* a send is at most 2^31 - 1 bytes */
            r->iov[0].size = UINT32_C(1) << 31;
        copy = r->s;
        CONF_CALL(&p->e, got = snic_net_send(p->client.conn, &r->s));
        assert_int_equal(got, SNIC_EINVAL);
        assert_memory_equal(&copy, &r->s, sizeof(copy));
    }
    conf_pair_close(p);
}

/* The connect of a client that has closed it would still be reported, or leak. */
void conf_test_connecting_ended_aborted(void **state)
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
void conf_test_connecting_sends_arrive(void **state)
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
void conf_test_buffers_held_put_after_closed_pool_whole(void **state)
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
