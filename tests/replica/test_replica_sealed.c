/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A node with ciphers and a peer that the test plays: what was changed, cut, copied or sent back is
 * refused. The ciphers are toys (sim/solar_cipher.h); test_replica_crypto has the real ones.
 */
#include "test_replica_peer.h"

#include "solar_cipher.h"
#include "support.h"

#include <string.h>

static struct solar_toy_key secret = {{0x1234, 0x5678}}, wrong = {{0x1234, 0x5679}};
static struct solar_toy_key gcm, gcm_of_peer;

/* What the peer seals with: as much of a replica as its functions use. */
static struct snic_replica other;
static struct replica_conn k;
static struct replica_session session;

static void begin_sealed(void)
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

static void end_sealed(void)
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
static uint32_t sealed_hello(struct replica_hello h)
{
    h.flags |= REPLICA_SEALED;
    block_new();
    unsigned char *at = block_frame(REPLICA_HELLO, 0, SNIC_REPLICA__HELLO);
    replica_put_hello(at, &h);
    replica_hello_seal(&other, at);
    return block_end();
}

/* Keys, when the node's hello is here. */
static void sealed_agree(void)
{
    struct replica_hello h = hello();
    peer_read();
    assert_int_equal(peer.frames[REPLICA_HELLO], 1);
    assert_int_equal(peer.hello.refusal, 0);
    assert_int_equal(peer.hello.flags, REPLICA_SEALED | REPLICA_REPLY);
    memset(&k, 0, sizeof(k));
    k.initiator = 1;
    k.peer = 0;
    k.version = 3;
    memcpy(k.nonce, h.nonce, 16);
    memcpy(k.other, peer.hello.nonce, 16);
    assert_int_equal(replica_conn_keys(&other, &k, &session), 0);
}

static void sealed_connect(void)
{
    peer_connect();
    peer_send(block, sealed_hello(hello()));
    run(MS);
    sealed_agree();
}

/* A block with a PING under the peer's key: its size. */
static uint32_t sealed_ping(void)
{
    block_new();
    (void)block_frame(REPLICA_PING, 0, 0);
    replica_put_block(block, used + SNIC_REPLICA__TAG, REPLICA_SEALED);
    assert_int_equal(
        replica_seal(&other, &k.out, block, SNIC_REPLICA__BLOCK, block + SNIC_REPLICA__BLOCK, used),
        0);
    assert_int_equal(replica_key_next(&other, &k.out), 0);
    return SNIC_REPLICA__BLOCK + used + SNIC_REPLICA__TAG;
}

/* Opens what the node sent: how many PONGs. */
static uint32_t sealed_read(void)
{
    uint32_t at = 0, size, flags, pongs = 0;
    while (at < peer.size) {
        static unsigned char body[SNIC_REPLICA__BODY];
        struct replica_part part;
        size_t in = 0;
        assert_int_equal(replica_get_block(peer.seen + at, &size, &flags), 0);
        assert_int_equal(flags, REPLICA_SEALED);
        size -= SNIC_REPLICA__TAG;
        assert_int_equal(replica_open(&other, &k.in, peer.seen + at, SNIC_REPLICA__BLOCK, body,
                                      peer.seen + at + SNIC_REPLICA__BLOCK, size),
                         0);
        assert_int_equal(replica_key_next(&other, &k.in), 0);
        while (replica_get_part(body, size, &in, &part) == 1)
            pongs += part.kind == REPLICA_PONG;
        at += SNIC_REPLICA__BLOCK + SNIC_REPLICA__TAG + size;
    }
    peer.size = 0;
    return pongs;
}

static void sealed_up(void)
{
    sealed_connect();
    peer_send(block, sealed_ping());
    run(5 * (uint64_t)MS);
    assert_non_null(fix.r->peers[1].conn);
    assert_int_equal(sealed_read(), 1);
}

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

static unsigned char packet[512];

/* A heartbeat sealed as the peer's number @p counter: its size. */
static uint32_t sealed_dgram(uint64_t counter)
{
    struct replica_packet h = {.version = 3, .src = 1, .lowest = 3, .highest = 3};
    struct snic_member_msg m = {.type = SNIC_MEMBER_HEARTBEAT, .src = 1, .configured = 3};
    uint32_t size = SNIC_REPLICA__FRAME + SNIC_REPLICA__MEMBER;
    struct replica_key key = session.out;
    h.flags = REPLICA_SEALED;
    h.cluster = 0xc1;
    h.session = session.number;
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
static int arrives(const unsigned char *bytes, uint32_t size)
{
    struct snic_net_msg in = {.data = bytes, .size = size, .peer = fix.addrs[1]};
    uint64_t before = fix.r->peers[1].heard_ns;
    run(MS);
    replica_dgram_recv(fix.r, fix.r->dgram, &in, 1);
    return fix.r->peers[1].heard_ns != before;
}

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
    first = session;
    snic_net_abort(peer.c);
    run(10 * (uint64_t)MS);
    sealed_up();
    second = session;
    assert_int_equal(arrives(packet, sealed_dgram(1)), 1);
    session = first;
    assert_int_equal(arrives(packet, sealed_dgram(1)), 1);
    assert_int_equal(arrives(packet, sealed_dgram(1)), 0);
    snic_net_abort(peer.c);
    run(10 * (uint64_t)MS);
    sealed_up();
    third = session;
    session = first;
    assert_int_equal(arrives(packet, sealed_dgram(2)), 0); /* two are kept */
    session = second;
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
    session = third;
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
    h.session = session.number;
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

/* ---- Ciphers that fail ---- */

enum cipher_call { CALL_NONE, CALL_MAC, CALL_REKEY, CALL_SEAL, CALL_OPEN, CALLS };

/* The call of that kind that fails, once: 1 the next one. */
static enum cipher_call failing;
static uint32_t failing_at;

static int fails_now(enum cipher_call kind)
{
    return failing == kind && failing_at > 0 && --failing_at == 0;
}

static int failing_mac(void *secret_, const void *in, size_t size, unsigned char out[32])
{
    return fails_now(CALL_MAC) ? SNIC_EIO : solar_toy_ops.mac(secret_, in, size, out);
}

static int failing_rekey(void *key, const unsigned char bytes[16])
{
    return fails_now(CALL_REKEY) ? SNIC_EIO : solar_toy_ops.gcm_rekey(key, bytes);
}

static int failing_seal(void *key, const unsigned char nonce[12], const void *aad, size_t aad_size,
                        void *out, const void *in, size_t size, unsigned char tag[16])
{
    if (fails_now(CALL_SEAL))
        return SNIC_EIO;
    return solar_toy_ops.gcm_seal(key, nonce, aad, aad_size, out, in, size, tag);
}

static int failing_open(void *key, const unsigned char nonce[12], const void *aad, size_t aad_size,
                        void *out, const void *in, size_t size, const unsigned char tag[16])
{
    if (fails_now(CALL_OPEN))
        return SNIC_EIO;
    return solar_toy_ops.gcm_open(key, nonce, aad, aad_size, out, in, size, tag);
}

static struct snic_ebs_sec_ops failing_ops;

static void begin_failing(void)
{
    begin_sealed();
    failing_ops = solar_toy_ops;
    failing_ops.mac = failing_mac;
    failing_ops.gcm_rekey = failing_rekey;
    failing_ops.gcm_seal = failing_seal;
    failing_ops.gcm_open = failing_open;
    failing = CALL_NONE;
    fix.r->o.sec = &failing_ops;
}

/* A cipher that fails ends the connection at once: what was not sealed is not sent. */
static void test_replica_sealed_cipher_fails(void **state)
{
    (void)state;
    begin_failing();
    sealed_up();
    peer.size = 0;
    failing = CALL_SEAL;
    failing_at = 1;
    replica_link_probe(fix.r, &fix.r->peers[1]);
    replica_settle(fix.r);
    assert_null(fix.r->peers[1].conn);
    run(5 * (uint64_t)MS);
    assert_int_equal(peer.closed, 1);
    assert_int_equal(peer.size, 0);
    sealed_up();
    end_sealed();
}

/* Whichever call fails, of hellos, keys, blocks and datagrams: the next connection is right. */
static void test_replica_sealed_any_cipher_call_fails(void **state)
{
    (void)state;
    begin_failing();
    for (uint32_t kind = CALL_MAC; kind < CALLS; kind++) {
        for (uint32_t at = 1; at < 10; at++) {
            failing = CALL_NONE;
            sealed_up();
            snic_net_abort(peer.c);
            run(10 * (uint64_t)MS);
            failing = (enum cipher_call)kind;
            failing_at = at;
            peer_connect();
            peer_send(block, sealed_hello(hello()));
            run(MS);
            peer_read();
            if (peer.frames[REPLICA_HELLO] == 1 && peer.hello.refusal == 0) {
                memcpy(k.other, peer.hello.nonce, 16);
                k.out.count = k.in.count = 0;
                assert_int_equal(replica_conn_keys(&other, &k, &session), 0);
                peer_send(block, sealed_ping());
                run(5 * (uint64_t)MS);
                (void)arrives(packet, sealed_dgram(1));
            }
            run(300 * (uint64_t)MS);
            if (peer.c != NULL)
                snic_net_abort(peer.c);
            run(10 * (uint64_t)MS);
            assert_null(fix.r->peers[1].conn);
        }
    }
    failing = CALL_NONE;
    sealed_up();
    end_sealed();
}

/* The next key cannot be made, of what comes in or what goes out. */
static void test_replica_sealed_next_key_fails(void **state)
{
    (void)state;
    begin_failing();
    for (uint32_t out = 0; out < 2; out++) {
        sealed_up();
        struct replica_conn *up = fix.r->peers[1].conn;
        struct replica_key *node = out ? &up->out : &up->in;
        struct replica_key *mine = out ? &k.in : &k.out;
        node->count = mine->count = (UINT64_C(1) << 24) - 1;
        uint32_t size = sealed_ping();
        failing = CALL_MAC;
        failing_at = 1;
        peer_send(block, size);
        run(5 * (uint64_t)MS);
        failing = CALL_NONE;
        assert_null(fix.r->peers[1].conn);
        run(10 * (uint64_t)MS);
    }
    sealed_up();
    end_sealed();
}

/* Keys change by themselves: after 2^24 blocks, on both sides alike. */
static void test_replica_sealed_key_changes(void **state)
{
    (void)state;
    begin_sealed();
    sealed_up();
    struct replica_conn *up = fix.r->peers[1].conn;
    struct replica_key before = k.out;
    k.out.count = up->in.count = (UINT64_C(1) << 24) - 2;
    k.in.count = up->out.count = (UINT64_C(1) << 24) - 2;
    for (uint32_t i = 0; i < 5; i++) {
        peer_send(block, sealed_ping());
        run(5 * (uint64_t)MS);
        assert_int_equal(sealed_read(), 1);
    }
    assert_memory_not_equal(before.bytes, k.out.bytes, 16);
    assert_memory_equal(up->in.bytes, k.out.bytes, 16);
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
        cmocka_unit_test(test_replica_sealed_cipher_fails),
        cmocka_unit_test(test_replica_sealed_any_cipher_call_fails),
        cmocka_unit_test(test_replica_sealed_next_key_fails),
        cmocka_unit_test(test_replica_sealed_key_changes),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
