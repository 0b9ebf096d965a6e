/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_replica_sealed_peer.h"

#include "support.h"

#include <string.h>

struct solar_toy_key secret = {{0x1234, 0x5678}};
static struct solar_toy_key gcm, gcm_of_peer;
struct snic_replica other;
struct replica_conn other_conn;
struct replica_session other_session;

void begin_sealed(void)
{
    doors(3);
    fix.o.window_bytes = 65536;
    fix.o.sec = &solar_toy_ops;
    fix.o.secret = &secret;
    fix.o.gcm = &gcm;
    memset(fix.o.random, 9, 32);
    start();
    run(10 * (uint64_t)MS);
    memset(&other, 0, sizeof(other));
    other.o = fix.o;
    other.o.node = 1;
    other.o.gcm = &gcm_of_peer;
}

void end_sealed(void)
{
    if (peer.c != NULL)
        snic_net_abort(peer.c);
    run(10 * (uint64_t)MS);
    assert_int_equal(info().state, SNIC_REPLICA_RUNNING);
    assert_int_equal(fix.r->conns_live, 0);
    stop();
    finish();
}

/* A hello with its MAC. */
uint32_t sealed_hello(struct replica_hello h)
{
    h.flags |= REPLICA_SEALED;
    block_new();
    unsigned char *at = block_frame(REPLICA_HELLO, 0, SNIC_REPLICA__HELLO);
    replica_put_hello(at, &h);
    replica_hello_seal(&other, at);
    return block_end();
}

/* Keys, when the node's hello is here. */
void sealed_agree(void)
{
    struct replica_hello h = hello();
    peer_read();
    assert_int_equal(peer.frames[REPLICA_HELLO], 1);
    assert_int_equal(peer.hello.refusal, 0);
    assert_int_equal(peer.hello.flags, REPLICA_SEALED | REPLICA_REPLY);
    memset(&other_conn, 0, sizeof(other_conn));
    other_conn.initiator = 1;
    other_conn.peer = 0;
    other_conn.version = 3;
    memcpy(other_conn.nonce, h.nonce, 16);
    memcpy(other_conn.other, peer.hello.nonce, 16);
    assert_int_equal(replica_conn_keys(&other, &other_conn, &other_session), 0);
}

void sealed_connect(void)
{
    peer_connect();
    peer_send(block, sealed_hello(hello()));
    run(MS);
    sealed_agree();
}

/* A block with a PING under the peer's key: its size. */
uint32_t sealed_ping(void)
{
    block_new();
    (void)block_frame(REPLICA_PING, 0, 0);
    replica_put_block(block, used + SNIC_REPLICA__TAG, REPLICA_SEALED);
    assert_int_equal(replica_seal(&other, &other_conn.out, block, SNIC_REPLICA__BLOCK,
                                  block + SNIC_REPLICA__BLOCK, used),
                     0);
    assert_int_equal(replica_key_next(&other, &other_conn.out), 0);
    return SNIC_REPLICA__BLOCK + used + SNIC_REPLICA__TAG;
}

/* Opens what the node sent: how many PONGs. */
uint32_t sealed_read(void)
{
    uint32_t at = 0, size, flags, pongs = 0;
    while (at < peer.size) {
        static unsigned char body[SNIC_REPLICA__BODY];
        struct replica_part part;
        size_t in = 0;
        assert_int_equal(replica_get_block(peer.seen + at, &size, &flags), 0);
        assert_int_equal(flags, REPLICA_SEALED);
        size -= SNIC_REPLICA__TAG;
        assert_int_equal(replica_open(&other, &other_conn.in, peer.seen + at, SNIC_REPLICA__BLOCK,
                                      body, peer.seen + at + SNIC_REPLICA__BLOCK, size),
                         0);
        assert_int_equal(replica_key_next(&other, &other_conn.in), 0);
        while (replica_get_part(body, size, &in, &part) == 1)
            pongs += part.kind == REPLICA_PONG;
        at += SNIC_REPLICA__BLOCK + SNIC_REPLICA__TAG + size;
    }
    peer.size = 0;
    return pongs;
}

void sealed_up(void)
{
    sealed_connect();
    peer_send(block, sealed_ping());
    run(5 * (uint64_t)MS);
    assert_non_null(fix.r->peers[1].conn);
    assert_int_equal(sealed_read(), 1);
}

/* ---- Datagrams ---- */

unsigned char packet[512];

/* A heartbeat sealed as the peer's number @p counter: its size. */
uint32_t sealed_dgram(uint64_t counter)
{
    struct replica_packet h = {.version = 3, .src = 1, .lowest = 3, .highest = 3};
    struct snic_member_msg m = {.type = SNIC_MEMBER_HEARTBEAT, .src = 1, .configured = 3};
    uint32_t size = SNIC_REPLICA__FRAME + SNIC_REPLICA__MEMBER;
    struct replica_key key = other_session.out;
    h.flags = REPLICA_SEALED;
    h.cluster = 0xc1;
    h.session = other_session.number;
    h.counter = key.count = counter;
    m.seq = counter;
    replica_put_packet(packet, &h);
    replica_put_frame(packet + SNIC_REPLICA__PACKET, REPLICA_MEMBER, 0, SNIC_REPLICA__MEMBER);
    replica_put_member(packet + SNIC_REPLICA__PACKET + SNIC_REPLICA__FRAME, &m);
    assert_int_equal(replica_seal(&other, &key, packet + 4, SNIC_REPLICA__PACKET - 4,
                                  packet + SNIC_REPLICA__PACKET, size),
                     0);
    size += SNIC_REPLICA__PACKET + SNIC_REPLICA__TAG;
    replica_put_packet_crc(packet, size);
    return size;
}

/* Was it taken? */
int arrives(const unsigned char *bytes, uint32_t size)
{
    struct snic_net_msg in = {.data = bytes, .size = size, .peer = fix.addrs[1]};
    uint64_t before = fix.r->peers[1].heard_ns;
    run(MS);
    replica_dgram_recv(fix.r, fix.r->dgram, &in, 1);
    return fix.r->peers[1].heard_ns != before;
}
