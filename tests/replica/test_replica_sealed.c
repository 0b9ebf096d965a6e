/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sealed connections and datagrams: what was changed, cut, copied or sent back is refused. */
#include "test_replica_sealed_peer.h"

#include "support.h"

#include <string.h>

static struct solar_toy_key wrong = {{0x1234, 0x5679}};

/* Bytes that end the connection without effect. */
static void refused(const unsigned char *bytes, uint32_t size)
{
    uint64_t before = info().refused;
    peer_send(bytes, size);
    run(5 * (uint64_t)MS);
    assert_int_equal(peer.closed, 1);
    assert_true(info().refused > before);
    assert_null(fix.r->peers[1].conn);
    run(10 * (uint64_t)MS);
}

/* Each bit of a block, and each byte less, is noticed. */
static void test_replica_sealed_changed_block_refused(void **state)
{
    unsigned char bytes[64];
    uint32_t size = SNIC_REPLICA__BLOCK + SNIC_REPLICA__FRAME + SNIC_REPLICA__TAG;
    (void)state;
    begin_sealed();
    for (uint32_t bit = 0; bit < 8 * size; bit += 3) {
        sealed_up();
        assert_int_equal(sealed_ping(), size);
        memcpy(bytes, block, size);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        peer_send(bytes, size);
        run(5 * (uint64_t)MS);
        if (bit / 8 < 2 && !peer.closed) { /* a longer one: the next bytes do not complete it */
            memset(bytes, 0, sizeof(bytes));
            for (uint32_t i = 0; i < 1200 && !peer.closed; i++) {
                peer_send(bytes, sizeof(bytes));
                if (i % 32 == 31)
                    run(MS);
            }
            run(5 * (uint64_t)MS);
        }
        if (!peer.closed)
            fail_msg("bit %u", bit);
        run(10 * (uint64_t)MS);
    }
    assert_true(info().wrong_key > 0);
    /* Cut: the connection ends within a block. */
    sealed_up();
    (void)sealed_ping();
    peer_send(block, size - 1);
    run(5 * (uint64_t)MS);
    assert_int_equal(sealed_read(), 0);
    end_sealed();
}

/* A block is taken once and in its place; the node's own come back to nothing. */
static void test_replica_sealed_copies_refused(void **state)
{
    unsigned char first[64], second[64], own[1024];
    (void)state;
    begin_sealed();
    sealed_up();
    uint32_t size = sealed_ping();
    memcpy(first, block, size);
    peer_send(first, size);
    run(5 * (uint64_t)MS);
    assert_int_equal(sealed_read(), 1);
    refused(first, size); /* again */
    sealed_up();
    (void)sealed_ping();
    size = sealed_ping();
    memcpy(second, block, size);
    refused(second, size); /* before the one in front of it */
    sealed_up();
    refused(first, size); /* another connection's */
    sealed_connect();
    peer_send(block, sealed_ping());
    run(5 * (uint64_t)MS);
    replica_link_probe(fix.r, &fix.r->peers[1]); /* it sends another block */
    replica_settle(fix.r);
    run(5 * (uint64_t)MS);
    for (uint32_t at = 0, n = 0; n < 2; n++) { /* its second, in place of the peer's */
        uint32_t body, flags;
        assert_true(at < peer.size);
        assert_int_equal(replica_get_block(peer.seen + at, &body, &flags), 0);
        size = SNIC_REPLICA__BLOCK + body;
        assert_true(size <= sizeof(own));
        memcpy(own, peer.seen + at, size);
        at += size;
    }
    refused(own, size);
    /* Shorter than its tag. */
    sealed_up();
    memset(own, 0, sizeof(own));
    replica_put_block(own, SNIC_REPLICA__TAG - 1, REPLICA_SEALED);
    refused(own, SNIC_REPLICA__BLOCK + SNIC_REPLICA__TAG - 1);
    /* Not sealed at all. */
    sealed_up();
    block_new();
    (void)block_frame(REPLICA_PING, 0, 0);
    refused(block, block_end());
    end_sealed();
}

/*
 * All that a peer sent in a connection, once more: the node agrees to the hello, as it may be a
 * new one, but takes nothing, and the connection that is UP stays.
 */
static void test_replica_sealed_recorded_connection_refused(void **state)
{
    unsigned char bytes[512];
    uint32_t size;
    (void)state;
    begin_sealed();
    peer_connect();
    size = sealed_hello(hello());
    memcpy(bytes, block, size);
    peer_send(block, size);
    run(MS);
    sealed_agree();
    uint32_t more = sealed_ping();
    memcpy(bytes + size, block, more);
    peer_send(block, more);
    run(5 * (uint64_t)MS);
    struct replica_conn *up = fix.r->peers[1].conn;
    struct snic_net_conn *live = peer.c;
    assert_non_null(up);
    peer_connect();
    peer_send(bytes, size + more);
    run(10 * (uint64_t)MS);
    assert_int_equal(peer.closed, 1);
    assert_ptr_equal(fix.r->peers[1].conn, up);
    assert_int_equal(up->state, REPLICA_CONN_UP);
    peer.c = live;
    end_sealed();
}

/* Another key, or none: named, and never UP. */
static void test_replica_sealed_wrong_key_named(void **state)
{
    struct snic_replica_peer_stats p;
    (void)state;
    begin_sealed();
    for (uint32_t i = 0; i < 2; i++) {
        struct replica_hello h = hello();
        other.o.secret = &wrong;
        peer_connect();
        if (i == 0)
            peer_send(block, sealed_hello(h));
        else
            hello_send(&h);
        run(5 * (uint64_t)MS);
        peer_read();
        assert_int_equal(peer.hello.refusal, SNIC_EACCES);
        assert_int_equal(info().wrong_key, i + 1);
        assert_int_equal(snic_replica_get_peer(fix.r, 1, &p), 0);
        assert_int_equal(strncmp(p.refusal, "key: ", 5), 0);
        assert_int_equal(p.state == SNIC_REPLICA_PEER_UP, 0);
        snic_net_abort(peer.c);
        run(10 * (uint64_t)MS);
    }
    other.o.secret = &secret;
    sealed_up();
    assert_int_equal(snic_replica_get_peer(fix.r, 1, &p), 0);
    assert_null(p.refusal);
    end_sealed();
}

/* ---- Datagrams ---- */

/* Once each, in any order within the window, and nothing that was changed. */
static void test_replica_sealed_datagrams_once(void **state)
{
    (void)state;
    begin_sealed();
    assert_int_equal(arrives(packet, sealed_dgram(1)), 0); /* no keys yet */
    sealed_up();
    assert_int_equal(arrives(packet, sealed_dgram(0)), 0);
    assert_int_equal(arrives(packet, sealed_dgram(5)), 1);
    assert_int_equal(arrives(packet, sealed_dgram(5)), 0);
    assert_int_equal(arrives(packet, sealed_dgram(4)), 1);
    assert_int_equal(arrives(packet, sealed_dgram(4)), 0);
    assert_int_equal(arrives(packet, sealed_dgram(100)), 1);
    assert_int_equal(arrives(packet, sealed_dgram(37)), 1);
    assert_int_equal(arrives(packet, sealed_dgram(36)), 0); /* too old */
    assert_int_equal(arrives(packet, sealed_dgram(37)), 0);
    assert_int_equal(arrives(packet, sealed_dgram(99)), 1);
    uint32_t size = sealed_dgram(101);
    for (uint32_t bit = 32; bit < 8 * size; bit += 5) { /* behind the checksum */
        packet[bit / 8] ^= (unsigned char)(1u << bit % 8);
        replica_put_packet_crc(packet, size);
        if (arrives(packet, size))
            fail_msg("bit %u", bit);
        packet[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (uint32_t cut = 1; cut < size - 8; cut++) {
        replica_put_packet_crc(packet, size - cut);
        if (arrives(packet, size - cut))
            fail_msg("cut %u", cut);
    }
    assert_int_equal(arrives(packet, sealed_dgram(101)), 1);
    /* Longer than any that is sent. */
    static unsigned char large[2 * SNIC_REPLICA__DATAGRAM];
    memcpy(large, packet, sealed_dgram(102));
    replica_put_packet_crc(large, sizeof(large));
    assert_int_equal(arrives(large, sizeof(large)), 0);
    end_sealed();
}

/* After a new connection of the same process the last keys still open, after another's not. */
static void test_replica_sealed_datagrams_of_earlier_sessions(void **state)
{
    struct replica_session first, second, third;
    (void)state;
    begin_sealed();
    sealed_up();
    first = other_session;
    snic_net_abort(peer.c);
    run(10 * (uint64_t)MS);
    sealed_up();
    second = other_session;
    assert_int_equal(arrives(packet, sealed_dgram(1)), 1);
    other_session = first;
    assert_int_equal(arrives(packet, sealed_dgram(1)), 1);
    assert_int_equal(arrives(packet, sealed_dgram(1)), 0);
    snic_net_abort(peer.c);
    run(10 * (uint64_t)MS);
    sealed_up();
    third = other_session;
    other_session = first;
    assert_int_equal(arrives(packet, sealed_dgram(2)), 0); /* two are kept */
    other_session = second;
    assert_int_equal(arrives(packet, sealed_dgram(2)), 1);
    /* A new process. */
    snic_net_abort(peer.c);
    run(10 * (uint64_t)MS);
    struct replica_hello h = hello();
    h.boot++;
    peer_connect();
    peer_send(block, sealed_hello(h));
    run(MS);
    sealed_agree();
    peer_send(block, sealed_ping());
    run(5 * (uint64_t)MS);
    assert_int_equal(arrives(packet, sealed_dgram(1)), 1);
    other_session = third;
    assert_int_equal(arrives(packet, sealed_dgram(1)), 0);
    end_sealed();
}

/* A datagram of node 1's address without its keys: its size. Of those that arrives() refuses. */
static uint32_t forged_dgram(uint32_t kind)
{
    struct replica_packet h = {.version = 3, .src = 1, .lowest = 3, .highest = 3};
    uint32_t size = SNIC_REPLICA__PACKET + 60;
    h.cluster = kind == 0 ? 0xc2 : 0xc1;
    h.lowest = h.highest = kind == 1 ? SNIC_REPLICA__WIRE_HIGHEST + 1 : 3;
    h.version = kind == 2 ? SNIC_REPLICA__WIRE_HIGHEST + 1 : 3;
    h.flags = kind == 3 ? 0 : REPLICA_SEALED;
    h.session = other_session.number;
    h.counter = 1000;
    memset(packet, 7, size);
    replica_put_packet(packet, &h);
    replica_put_packet_crc(packet, size);
    return size;
}

/* Forged datagrams are counted, and change nothing else: no text, no pause between attempts. */
static void test_replica_sealed_forged_datagrams_only_counted(void **state)
{
    (void)state;
    begin_sealed();
    for (uint32_t up = 0; up < 2; up++) {
        if (up)
            sealed_up();
        for (uint32_t kind = 0; kind < 5; kind++) {
            struct snic_replica_stats before = info();
            assert_int_equal(arrives(packet, forged_dgram(kind)), 0);
            assert_null(stats().refusal);
            assert_int_equal(info().wrong_cluster, before.wrong_cluster + (kind == 0));
            assert_int_equal(info().wrong_version, before.wrong_version + (kind == 1 || kind == 2));
            assert_int_equal(info().wrong_key, before.wrong_key + (kind == 3 || (kind == 4 && up)));
        }
    }
    snic_net_abort(peer.c);
    run(10 * (uint64_t)MS);
    for (uint32_t kind = 0; kind < 5; kind++) {
        fix.r->peers[1].connect_ns = snic_world_now(fix.world) + 400 * (uint64_t)MS;
        (void)arrives(packet, forged_dgram(kind));
        assert_int_equal(arrives(packet, sealed_dgram(kind + 1)), 1); /* heard: it ends the pause */
        assert_true(fix.r->peers[1].connect_ns < snic_world_now(fix.world) + 10 * (uint64_t)MS);
    }
    end_sealed();
}

/* Hints, which can be forged, end the pause between attempts once a second. */
static void test_replica_sealed_hints_bounded(void **state)
{
    (void)state;
    begin_sealed();
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t far = snic_world_now(fix.world) + 400 * (uint64_t)MS;
        fix.r->peers[1].connect_ns = far;
        (void)arrives(packet, forged_dgram(4)); /* keys that are not known here */
        assert_true(fix.r->peers[1].connect_ns < far);
        fix.r->peers[1].connect_ns = far;
        (void)arrives(packet, forged_dgram(4));
        assert_int_equal(fix.r->peers[1].connect_ns, far);
        run(1000 * (uint64_t)MS);
    }
    end_sealed();
}

/* A wrong hello is named as the node's if it comes from its host and no connection is there. */
static void test_replica_sealed_forged_hellos_not_named(void **state)
{
    (void)state;
    begin_sealed();
    other.o.secret = &wrong;
    peer_connect_from(2);
    peer_send(block, sealed_hello(hello()));
    run(5 * (uint64_t)MS);
    assert_int_equal(info().wrong_key, 1);
    assert_null(stats().refusal);
    snic_net_abort(peer.c);
    other.o.secret = &secret;
    run(10 * (uint64_t)MS);
    sealed_up();
    struct snic_net_conn *live = peer.c;
    other.o.secret = &wrong;
    peer_connect();
    peer_send(block, sealed_hello(hello()));
    run(5 * (uint64_t)MS);
    assert_int_equal(info().wrong_key, 2);
    assert_null(stats().refusal);
    assert_int_equal(stats().state, SNIC_REPLICA_PEER_UP);
    snic_net_abort(peer.c);
    peer.c = live;
    end_sealed();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_sealed_changed_block_refused),
        cmocka_unit_test(test_replica_sealed_copies_refused),
        cmocka_unit_test(test_replica_sealed_recorded_connection_refused),
        cmocka_unit_test(test_replica_sealed_wrong_key_named),
        cmocka_unit_test(test_replica_sealed_datagrams_once),
        cmocka_unit_test(test_replica_sealed_datagrams_of_earlier_sessions),
        cmocka_unit_test(test_replica_sealed_forged_datagrams_only_counted),
        cmocka_unit_test(test_replica_sealed_hints_bounded),
        cmocka_unit_test(test_replica_sealed_forged_hellos_not_named),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
