/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Conformance of the network door: bytes on streams, windows and bounds.
 */
#include "conformance_net.h"

#include <stdlib.h>

/* Connections without a listener would hang or succeed. */
void conf_test_no_listener_connect_refused(void **state)
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
    uint32_t queued = p->client.in_flight;
    assert_true(queued >= 1);
    p->server.closes = 1;
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->client.connected, 1);
    assert_int_equal(p->client.connect_error, SNIC_ECONNREFUSED);
    assert_int_equal(p->client.reason, SNIC_ECONNREFUSED);
    assert_int_equal(p->client.done_errors, queued);
    assert_int_equal(p->client.last_result, SNIC_ECANCELED);
    conf_pair_close(p);
}

/* The simplest exchange and the orderly end would not work. */
void conf_test_pair_shutdown_both_closed_in_order(void **state)
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
void conf_test_client_half_closed_reply_arrives(void **state)
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
void conf_test_pair_random_traffic_intact(void **state)
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
void conf_test_reader_paused_sender_bounded(void **state)
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
void conf_test_buffers_held_receive_pauses_and_resumes(void **state)
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
