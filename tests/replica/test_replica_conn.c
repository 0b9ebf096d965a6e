/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections of a node whose peer is the test: hellos, ends, and attempts. The peer is node 1,
 * which connects to node 0, but where the node connects.
 */
#include "test_replica_peer.h"

#include "support.h"

#include <string.h>

/* ---- Hellos ---- */

/* What is wrong is counted, named on both sides, and nothing stays. */
static void test_replica_conn_hello_refused_by_name(void **state)
{
    static const struct {
        int result;
        const char *name;
    } want[] = {{SNIC_EPERM, "cluster: "},    {SNIC_EVERSION, "version: "},
                {SNIC_EVERSION, "version: "}, {SNIC_EACCES, "key: "},
                {SNIC_EINVAL, "options: "},   {SNIC_EINVAL, "options: "}};
    struct snic_replica_peer_stats p;
    (void)state;
    begin_link();
    for (uint32_t i = 0; i < SNIC_COUNTOF(want); i++) {
        struct replica_hello h = hello();
        h.cluster += i == 0;
        h.lowest = h.highest = i == 1 ? 2 : i == 2 ? SNIC_REPLICA__WIRE_HIGHEST + 1 : 3;
        h.flags = i == 3 ? REPLICA_SEALED : 0;
        h.model += i == 4;
        h.value_max += i == 5;
        peer_connect();
        hello_send(&h);
        peer_read();
        assert_int_equal(peer.hello.refusal, want[i].result);
        assert_int_equal(peer.hello.flags, REPLICA_REPLY);
        assert_int_equal(snic_replica_get_peer(fix.r, 1, &p), 0);
        assert_int_equal(strncmp(p.refusal, want[i].name, strlen(want[i].name)), 0);
        peer_gone();
    }
    assert_int_equal(info().wrong_cluster, 1);
    assert_int_equal(info().wrong_version, 2);
    assert_int_equal(info().wrong_key, 1);
    peer_up();
    assert_int_equal(snic_replica_get_peer(fix.r, 1, &p), 0);
    assert_null(p.refusal);
    assert_int_equal(p.state, SNIC_REPLICA_PEER_UP);
    assert_int_equal(p.version, 3);
    peer_gone();
    end_link();
}

/* Hellos that no node sends end the connection without a word. */
static void test_replica_conn_hello_without_sense_refused(void **state)
{
    (void)state;
    begin_link();
    for (uint32_t i = 0; i < 9; i++) {
        struct replica_hello h = hello();
        uint64_t refused = info().refused;
        h.src = i == 0 ? 0 : i == 1 ? 2 : i == 2 ? 16 : 1;
        h.dst = i == 3;
        h.flags = i == 4 ? REPLICA_REPLY : i == 5 ? 4 : 0;
        h.lowest = i == 6 ? 4 : 3;
        peer_connect();
        block_new();
        replica_put_hello(block_frame(REPLICA_HELLO, 0, SNIC_REPLICA__HELLO), &h);
        if (i == 7)
            (void)block_frame(REPLICA_PING, 0, 0);
        if (i == 8)
            block[SNIC_REPLICA__BLOCK] = REPLICA_PING;
        block_send();
        run(10 * (uint64_t)MS);
        if (peer.closed == 0 || peer.size != 0)
            fail_msg("hello %u", i);
        assert_int_equal(info().refused, refused + 1);
        peer_gone();
    }
    /* One that is silent is not waited for. */
    peer_connect();
    run(3000 * (uint64_t)MS);
    assert_int_equal(peer.closed, 1);
    end_link();
}

/* ---- Ends and beginnings ---- */

static void on_dgram(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *m, uint32_t n)
{
    (void)ctx;
    (void)d;
    (void)m;
    (void)n;
}

/* A datagram of another process of that node: the connection must show that it lives. */
static void test_replica_conn_half_open_found_by_datagram(void **state)
{
    static const struct snic_net_dgram_events none = {.recv = on_dgram};
    unsigned char p[SNIC_REPLICA__PACKET];
    struct replica_packet h = {.version = 3, .src = 1, .lowest = 3, .highest = 3};
    struct snic_net_dgram *d;
    (void)state;
    begin_link();
    assert_int_equal(snic_net_dgram_open(fix.net[1], &fix.addrs[1], &none, NULL, &d), 0);
    for (uint32_t i = 0; i < 3; i++) { /* the same process; another, that answers or not */
        peer_up();
        struct snic_net_msg in = {.data = p, .size = sizeof(p), .peer = fix.addrs[1]};
        h.session = i == 0 ? 77 : 78;
        h.cluster = 0xc1;
        replica_put_packet(p, &h);
        replica_put_packet_crc(p, sizeof(p));
        replica_dgram_recv(fix.r, fix.r->dgram, &in, 1);
        run(50 * (uint64_t)MS);
        peer_read();
        assert_int_equal(peer.frames[REPLICA_PING], i > 0);
        if (i == 1) {
            block_new();
            (void)block_frame(REPLICA_PONG, 0, 0);
            block_send();
        }
        run(400 * (uint64_t)MS);
        assert_int_equal(fix.r->peers[1].conn == NULL, i == 2);
        peer_gone();
        run(1000 * (uint64_t)MS);
    }
    snic_net_dgram_close(d);
    end_link();
}

/* A probe is not answered by bytes of another connection, which has shown no proof. */
static void test_replica_conn_half_open_found_beside_another(void **state)
{
    struct replica_hello h = hello();
    (void)state;
    begin_link();
    peer_up();
    replica_link_probe(fix.r, &fix.r->peers[1]);
    run(50 * (uint64_t)MS);
    peer_connect();
    struct snic_net_conn *last = peer.c;
    hello_send(&h);
    for (uint32_t i = 0; i < 4; i++) { /* of a block that does not become whole */
        peer.c = last;
        peer_send(block, 1);
        run(100 * (uint64_t)MS);
    }
    assert_null(fix.r->peers[1].conn);
    peer.c = last;
    peer_gone();
    end_link();
}

/* A new connection of a node takes the place of the old one, once it has shown its proof. */
static void test_replica_conn_new_connection_replaces_old(void **state)
{
    (void)state;
    begin_link();
    peer_up();
    struct replica_conn *first = fix.r->peers[1].conn;
    struct replica_hello h = hello();
    peer_connect();
    struct snic_net_conn *last = peer.c;
    hello_send(&h);
    run(5 * (uint64_t)MS);
    assert_ptr_equal(fix.r->peers[1].conn, first);
    assert_int_equal(peer.closed, 0);
    block_new();
    (void)block_frame(REPLICA_PING, 0, 0);
    block_send();
    run(5 * (uint64_t)MS);
    assert_true(fix.r->peers[1].conn != NULL && fix.r->peers[1].conn != first);
    assert_int_equal(peer.closed, 1); /* the old one's */
    assert_int_equal(fix.r->conns_live, 1);
    peer.c = last;
    peer_gone();
    end_link();
}

static void held_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    (void)ctx;
    (void)c;
    snic_net_put(fix.net[1], b);
}

static void held_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct snic_net_conn **held = ctx;
    (void)c;
    (void)reason;
    *held = NULL;
}

/* Silent connections, however many, keep no place from a node's, nor from attempts. */
static void test_replica_conn_silent_ones_make_room(void **state)
{
    enum { MANY = 10 * (2 + SNIC_REPLICA__CONNS_MORE) };
    static const struct snic_net_stream_events events = {.recv = held_recv, .closed = held_closed};
    static struct snic_net_conn *held[MANY];
    (void)state;
    begin_link();
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(snic_net_connect(fix.net[1], &fix.addrs[0], &events, &held[i], &held[i]),
                         0);
        if (i >= 13) /* the first ones at once */
            run(MS);
    }
    peer_up();
    for (uint32_t i = 0; i < MANY; i++)
        if (held[i] != NULL)
            snic_net_abort(held[i]);
    peer_gone();
    end_link();
}

/* ---- The node connects ---- */

static uint32_t attempts;

static void attempt_refuse(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *from)
{
    (void)ctx;
    (void)from;
    attempts++;
    snic_net_abort(c);
}

/* The node under test has number 1, on host 0; node 0 is the test. */
static void begin_initiator(void)
{
    doors(3);
    fix.o.node = 1;
    fix.addrs[0].node = 1;
    fix.addrs[1].node = 0;
    attempts = 0;
    start();
}

/* Each failed attempt doubles the pause, from 5 to 500 ms. */
static void test_replica_conn_attempts_back_off_by_two(void **state)
{
    struct snic_net_listener *l;
    (void)state;
    begin_initiator();
    assert_int_equal(snic_net_listen(fix.net[1], &fix.addrs[0], 0, attempt_refuse, NULL, &l), 0);
    for (uint32_t i = 1; i <= 10; i++) {
        uint64_t want = snic_min_u64(5 * (uint64_t)MS << i, 500 * (uint64_t)MS);
        while (attempts < i)
            run(MS / 10);
        run(MS);
        assert_int_equal(fix.r->conns_live, 0);
        assert_int_equal(fix.r->peers[0].backoff_ns, want);
    }
    snic_net_unlisten(l);
    end_link();
}

/* A connection to the address that a node had before is none to the node. */
static void test_replica_conn_other_address_ends_connection(void **state)
{
    (void)state;
    begin_link();
    struct snic_net_addr other = fix.addrs[1];
    peer_up();
    other.port++;
    replica_link_know(fix.r, 3, 1, &fix.addrs[1]);
    assert_non_null(fix.r->peers[1].conn);
    replica_link_know(fix.r, 3, 1, &other);
    assert_null(fix.r->peers[1].conn);
    assert_int_equal(stats().state == SNIC_REPLICA_PEER_UP, 0);
    run(5 * (uint64_t)MS);
    assert_int_equal(peer.closed, 1);
    peer_gone();
    end_link();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_conn_hello_refused_by_name),
        cmocka_unit_test(test_replica_conn_hello_without_sense_refused),
        cmocka_unit_test(test_replica_conn_half_open_found_by_datagram),
        cmocka_unit_test(test_replica_conn_half_open_found_beside_another),
        cmocka_unit_test(test_replica_conn_new_connection_replaces_old),
        cmocka_unit_test(test_replica_conn_silent_ones_make_room),
        cmocka_unit_test(test_replica_conn_attempts_back_off_by_two),
        cmocka_unit_test(test_replica_conn_other_address_ends_connection),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
