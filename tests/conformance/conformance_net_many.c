/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Conformance of the network door: many connections, full tables, handles, zero copy.
 */
#include "conformance_net.h"

#include <stdlib.h>

static int conf_both_stuffed(void *ctx)
{
    struct conf_many *m = ctx;
    return m->server[1].held_count >= 4;
}

/* Buffers of a dead connection would count as those of the next one in its place. */
void conf_test_buffers_of_predecessor_put_bound_kept(void **state)
{
    struct conf_many *m = conf_many_open(state, 2, NULL);
    for (int i = 0; i < 2; i++) {
        m->server[i].hold = 1;
        m->client[i].to_send = 100000;
        m->client[i].ended = 0;
    }
    conf_connect(&m->client[0], &m->e.listen_addr);
    conf_peer_send(&m->client[0]);
    while (m->server[0].held_count < 2)
        (void)conf_backend_step(&m->e);
    m->client[0].ended = 1;
    CONF_CALL(&m->e, snic_net_abort(m->server[0].conn));
    while (m->server[0].closes == 0)
        (void)conf_backend_step(&m->e);
    conf_connect(&m->client[1], &m->e.listen_addr); /* in the same place */
    conf_peer_send(&m->client[1]);
    conf_until(&m->e, conf_both_stuffed, m);
    conf_peer_put_all(&m->server[0]);
    for (int i = 0; i < 50; i++)
        (void)conf_backend_step(&m->e);
    assert_int_equal(m->server[1].lent_high, 4);
    conf_peer_put_all(&m->server[1]);
    m->server[1].hold = 0;
    m->client[1].shutdown_when_sent = 1;
    m->server[1].shutdown_on_eof = 1;
    conf_peer_send(&m->client[1]);
    while (m->server[1].closes == 0)
        (void)conf_backend_step(&m->e);
    assert_int_equal(m->server[1].received, 100000);
    conf_many_close(m);
}

/* Connections would disturb each other, or starve. */
void conf_test_many_connections_all_served(void **state)
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
void conf_test_pool_empty_others_resume(void **state)
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
void conf_test_table_full_extra_reset_then_served(void **state)
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

/* Our own table full: connect must report it and take nothing. */
void conf_test_client_table_full_connect_refused(void **state)
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
void conf_test_address_taken_listen_refused(void **state)
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
void conf_test_unlisten_connections_live_on(void **state)
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
void conf_test_accept_aborts_client_told(void **state)
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
void conf_test_bad_arguments_refused(void **state)
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
void conf_test_handle_shut_everything_reported(void **state)
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
void conf_test_zero_copy_bytes_intact(void **state)
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
void conf_test_zero_copy_abort_all_done(void **state)
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

/* Messages flagged "more follows" would stay behind when nothing follows within one iteration. */
void conf_test_more_flag_everything_arrives(void **state)
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

/* Of a lazy send the end is not waited for, unless there is no place for another: each has its end
 * all the same, whatever part of it finds room, and what is behind it leaves. */
void conf_test_lazy_flag_everything_arrives_and_is_done(void **state)
{
    for (uint32_t queue = 1; queue <= 2; queue++) {
        struct conf_env e;
        struct snic_net_uring_opts o;
        memset(&e, 0, sizeof(e));
        e.backend = *state;
        o = conf_small(&e);
        o.send_queue = queue;
        struct conf_many *m = conf_many_open(state, 1, &o);
        m->server[0].flags = SNIC_NET_SEND_LAZY;
        m->server[0].to_send = 2000000;
        m->server[0].piece_max = 60000;
        m->server[0].lazy = queue == 1;
        m->server[0].shutdown_when_sent = 1;
        m->client[0].shutdown_on_eof = 1;
        m->client[0].chaos = 1;
        m->e.chaotic[m->e.chaotic_count++] = &m->client[0];
        conf_connect(&m->client[0], &m->e.listen_addr);
        conf_until(&m->e, conf_many_closed, m);
        assert_int_equal(m->client[0].received, 2000000);
        assert_int_equal(m->server[0].done_errors, 0);
        conf_many_close(m);
    }
}
