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

/* Those that the node makes, and those that have shown what they are, are not what makes room. */
static void test_replica_conn_own_ones_stay(void **state)
{
    enum { MANY = 4 * SNIC_REPLICA__CONNS_MORE };
    static const struct snic_net_stream_events events = {.recv = held_recv, .closed = held_closed};
    static struct snic_net_conn *held[MANY];
    (void)state;
    doors(7);
    fix.o.node = 1;
    fix.addrs[0].node = 1;
    fix.addrs[1].node = 0;
    start();
    peer_listen(&fix.addrs[0]);
    run(50 * (uint64_t)MS);
    struct snic_net_conn *made = peer.c; /* its hello is not answered */
    assert_non_null(made);
    struct replica_hello h = hello();
    h.src = 2;
    h.dst = 1;
    peer_connect_to(2, &fix.addrs[1]);
    hello_send(&h);
    struct snic_net_conn *agreed = peer.c; /* no proof */
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(snic_net_connect(fix.net[1], &fix.addrs[1], &events, &held[i], &held[i]),
                         0);
        run(MS);
    }
    uint32_t own = 0;
    for (uint32_t i = 0; i < fix.r->conn_count; i++)
        own += fix.r->conns[i].initiator && fix.r->conns[i].state == REPLICA_CONN_HELLO;
    assert_int_equal(own, 1);
    for (uint32_t i = 0; i < MANY; i++)
        if (held[i] != NULL)
            snic_net_abort(held[i]);
    peer_unlisten();
    if (peer.c == agreed)
        snic_net_abort(agreed);
    snic_net_abort(made);
    run(5 * (uint64_t)MS);
    end_link();
}

static uint32_t attempts;

static void attempt_refuse(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *from)
{
    (void)ctx;
    (void)from;
    attempts++;
    snic_net_abort(c);
}

/* The address of its listener is in use: no node, and nothing is left open. */
static void test_replica_conn_address_in_use(void **state)
{
    struct snic_net_listener *l;
    struct snic_replica *r = NULL;
    (void)state;
    doors(3);
    assert_int_equal(snic_net_listen(fix.net[0], &fix.addrs[0], 0, attempt_refuse, NULL, &l), 0);
    size_t size = snic_replica_memsize(&fix.o);
    void *mem = support_guard_alloc(size, SNIC_REPLICA_ALIGN);
    assert_true(snic_replica_init(&r, mem, size, &fix.o) < 0);
    assert_null(r);
    snic_net_unlisten(l);
    (void)snic_world_run(fix.world, snic_world_now(fix.world) + MS, UINT32_MAX);
    support_guard_free(mem);
    finish();
}

/* ---- The node connects ---- */

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

/* The node's hello is here, at most so many ms later. */
static void hello_awaited(uint32_t ms)
{
    for (uint32_t i = 0; peer.frames[REPLICA_HELLO] == 0; i++) {
        assert_true(i < ms);
        run(MS);
        peer_read();
    }
}

/* What the other side answers must be an answer to this hello, of that node. */
static void test_replica_conn_answers_refused(void **state)
{
    enum { ECHO, SOURCE, REQUEST, REFUSAL, CLUSTER, FLAGGED, CRC, PART, SILENT, RIGHT };
    (void)state;
    doors(7);
    fix.o.node = 1;
    fix.addrs[0].node = 1;
    fix.addrs[1].node = 0;
    start();
    peer_listen(&fix.addrs[0]);
    for (uint32_t i = ECHO; i <= RIGHT; i++) {
        struct replica_hello h = hello();
        hello_awaited(2000);
        uint64_t refused = info().refused;
        h.src = i == SOURCE ? 2 : 0;
        h.dst = 1;
        h.flags = i == REQUEST ? 0 : REPLICA_REPLY;
        h.refusal = i == REFUSAL ? SNIC_EINVAL : 0;
        h.cluster += i == CLUSTER;
        memcpy(h.echo, peer.hello.nonce, 16);
        h.echo[15] ^= i == ECHO;
        block_new();
        replica_put_hello(block_frame(REPLICA_HELLO, 0, SNIC_REPLICA__HELLO), &h);
        if (i == PART)
            block[SNIC_REPLICA__BLOCK + 1] = 1;
        uint32_t size = block_end();
        block[2] = i == FLAGGED ? REPLICA_SEALED : 0;
        block[SNIC_REPLICA__BLOCK + 8] ^= i == CRC;
        if (i != SILENT)
            peer_send(block, size);
        run((i == SILENT ? 2050 : 2) * (uint64_t)MS); /* the next attempt is later */
        if ((fix.r->peers[0].conn != NULL) != (i == RIGHT) || peer.closed != (i != RIGHT))
            fail_msg("answer %u", i);
        assert_true(i == SILENT || i == RIGHT || info().refused > refused);
        peer.frames[REPLICA_HELLO] = i == RIGHT;
    }
    assert_null(fix.r->peers[0].refusal);
    peer_unlisten();
    snic_net_abort(peer.c);
    run(5 * (uint64_t)MS);
    end_link();
}

/* No place is left: of those that the node makes, or that are accepted. The next attempt is later.
 */
static void test_replica_conn_places_used_up(void **state)
{
    (void)state;
    begin_initiator();
    uint32_t count = fix.r->conn_count;
    for (uint32_t i = 0; i < count; i++)
        fix.r->conns[i].state = REPLICA_CONN_ENDING;
    fix.r->conns_live = count;
    (void)snic_world_run(fix.world, snic_world_now(fix.world) + 100 * (uint64_t)MS, UINT32_MAX);
    assert_true(fix.r->peers[0].backoff_ns >= 10 * (uint64_t)MS);
    peer_connect_to(1, &fix.addrs[1]);
    assert_int_equal(peer.closed, 1);
    for (uint32_t i = 0; i < count; i++)
        fix.r->conns[i].state = REPLICA_CONN_NONE;
    fix.r->conns_live = 0;
    run(5 * (uint64_t)MS);
    stop();
    finish();
}

/* The network takes one send at a time: what is ready waits for it, hellos too. */
static void test_replica_conn_waits_for_network(void **state)
{
    struct snic_ddp_msg m = {.type = SNIC_DDP_ACK, .src = 0, .ts = 99};
    (void)state;
    doors_of(3, 1);
    fix.o.window_bytes = 65536;
    start();
    run(10 * (uint64_t)MS);
    peer_up();
    for (m.ts = 100; m.ts < 130; m.ts++) {
        replica_link_ddp(fix.r, 1 << 1, &m);
        replica_settle(fix.r);
    }
    run(10 * (uint64_t)MS);
    peer_read();
    assert_int_equal(peer.frames[REPLICA_DDP], 30);
    peer_gone();
    end_link();
}

/* A block behind a hello that was refused, and a hello of a node that this one connects to. */
static void test_replica_conn_nothing_behind_refusal(void **state)
{
    struct replica_hello h;
    (void)state;
    begin_link();
    h = hello();
    h.cluster++;
    peer_connect();
    block_new();
    replica_put_hello(block_frame(REPLICA_HELLO, 0, SNIC_REPLICA__HELLO), &h);
    uint32_t size = block_end();
    memcpy(block + size, block, size);
    peer_send(block, 2 * size);
    run(5 * (uint64_t)MS);
    peer_read();
    assert_int_equal(peer.frames[REPLICA_HELLO], 1);
    assert_int_equal(info().wrong_cluster, 1);
    peer_gone();
    end_link();
    begin_initiator();
    run(10 * (uint64_t)MS);
    h = hello();
    h.src = 0;
    h.dst = 1;
    peer_connect_to(1, &fix.addrs[1]);
    hello_send(&h);
    run(5 * (uint64_t)MS);
    assert_int_equal(peer.closed, 1);
    assert_int_equal(info().refused, 1);
    end_link();
}

/* Without ciphers a node's connection comes from the node's host. */
static void test_replica_conn_of_another_host_refused(void **state)
{
    struct replica_hello h;
    (void)state;
    doors(7);
    start();
    run(10 * (uint64_t)MS);
    peer_connect_from(2); /* a node's host, but not that node's */
    h = hello();
    hello_send(&h);
    peer_read();
    assert_int_equal(peer.hello.refusal, SNIC_EINVAL);
    assert_null(fix.r->peers[1].refusal);
    peer_gone();
    end_link();
}

#define BREAK(damage, repair)                                                                      \
    do {                                                                                           \
        (void)(damage);                                                                            \
        assert_int_equal(snic_replica_check(fix.r), SNIC_ECORRUPT);                                \
        (void)(repair);                                                                            \
        assert_int_equal(snic_replica_check(fix.r), 0);                                            \
    } while (0)

static void test_replica_conn_check_broken_detected(void **state)
{
    (void)state;
    begin_link();
    peer_up();
    struct replica_peer *p = &fix.r->peers[1];
    struct replica_to *t = &p->to[REPLICA_CH_WRITES];
    struct replica_from *f = &p->from[REPLICA_CH_WRITES];
    uint64_t limit = t->limit, granted = f->granted;
    BREAK(t->bytes = limit + 1, t->bytes = 0);
    BREAK(f->arrived = granted + 1, f->arrived = 0);
    BREAK(f->ring_used = 1, f->ring_used = 0);
    BREAK(f->blocked = REPLICA_NO_LOG, f->blocked = REPLICA_FREE);
    BREAK(t->sent.count++, t->sent.count--);
    uint32_t out = p->out_free;
    BREAK(p->outs_free--, p->outs_free++);
    BREAK(p->out_free = SNIC_REPLICA__NIL, p->out_free = out);
    uint32_t places = replica_link_places(fix.r);
    for (uint32_t i = 1; i <= places; i++)
        fix.r->conns[i].state = REPLICA_CONN_HELLO;
    fix.r->conns_live += places;
    assert_int_equal(snic_replica_check(fix.r), SNIC_ECORRUPT);
    for (uint32_t i = 1; i <= places; i++)
        fix.r->conns[i].state = REPLICA_CONN_NONE;
    fix.r->conns_live -= places;
    peer_gone();
    end_link();
}

/* A view with more nodes than there is memory for is the end of the node, and named. */
static void test_replica_conn_too_many_nodes(void **state)
{
    (void)state;
    doors(3);
    fix.o.nodes_max = 2;
    start();
    run(10 * (uint64_t)MS);
    struct snic_net_addr other = fix.addrs[1];
    other.port++;
    replica_link_know(fix.r, 3, 1, &other);        /* there is no connection to end */
    struct snic_member_view v = {.configured = 7}; /* of node 2 no address */
    replica_addrs(fix.r, &v);
    assert_int_equal(fix.r->failure, 0);
    for (uint32_t i = 0; i < 2; i++)
        replica_link_know(fix.r, 7, 2, &fix.addrs[2]);
    replica_settle(fix.r);
    assert_int_equal(info().state, SNIC_REPLICA_STOPPED);
    assert_int_equal(info().failure, SNIC_ENOSPC);
    stop();
    finish();
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
        cmocka_unit_test(test_replica_conn_own_ones_stay),
        cmocka_unit_test(test_replica_conn_address_in_use),
        cmocka_unit_test(test_replica_conn_attempts_back_off_by_two),
        cmocka_unit_test(test_replica_conn_answers_refused),
        cmocka_unit_test(test_replica_conn_places_used_up),
        cmocka_unit_test(test_replica_conn_waits_for_network),
        cmocka_unit_test(test_replica_conn_nothing_behind_refusal),
        cmocka_unit_test(test_replica_conn_of_another_host_refused),
        cmocka_unit_test(test_replica_conn_check_broken_detected),
        cmocka_unit_test(test_replica_conn_too_many_nodes),
        cmocka_unit_test(test_replica_conn_other_address_ends_connection),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
