/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Blocks of a node whose peer is the test: what it refuses, what it permits, what it keeps.
 * The peer is node 1, which connects to node 0.
 */
#include "test_replica_peer.h"

#include "support.h"

#include <string.h>

static struct snic_ddp_msg inv(uint32_t length)
{
    return (struct snic_ddp_msg){
        .type = SNIC_DDP_INV, .src = 1, .epoch = 1, .ts = 99, .length = length};
}

/* ---- What a peer may not send ---- */

enum bad {
    BAD_CRC = 0,
    BAD_SIZE_SMALL,
    BAD_SIZE_LARGE,
    BAD_FLAG,
    BAD_RESERVED,
    BAD_FRAME,
    BAD_FRAME_SIZE,
    BAD_HELLO,
    BAD_MEMBER,
    BAD_SOURCE,
    BAD_TYPE,
    BAD_CHANNEL,
    BAD_INV_AS_CONTROL,
    BAD_ACK_IN_CHANNEL,
    BAD_DDP_SIZE,
    BAD_VALUE_SIZE,
    BAD_VALUE_SOURCE,
    BAD_CREDIT_SIZE,
    BAD_CREDIT_TAKEN,
    BADS
};

static void bad_frames(uint32_t i)
{
    struct snic_ddp_msg m = inv(0), ack = {.type = SNIC_DDP_ACK, .src = 1, .ts = 99};
    struct replica_credit c = {.taken = {1}};
    unsigned char *at;
    switch (i) {
    case BAD_HELLO:
    case BAD_MEMBER:
        (void)block_frame(i == BAD_HELLO ? REPLICA_HELLO : REPLICA_MEMBER, 0, 80);
        break;
    case BAD_SOURCE:
    case BAD_TYPE:
    case BAD_INV_AS_CONTROL:
        ack.src = i == BAD_SOURCE ? 0 : 1;
        ack.type = i == BAD_TYPE ? 0 : SNIC_DDP_ACK;
        replica_put_ddp(block_frame(REPLICA_DDP, 0, SNIC_REPLICA__DDP), 3,
                        i == BAD_INV_AS_CONTROL ? &m : &ack);
        break;
    case BAD_DDP_SIZE:
        (void)block_frame(REPLICA_DDP, 0, SNIC_REPLICA__DDP + 1);
        break;
    case BAD_CHANNEL:
        (void)block_frame(REPLICA_BYTES, 0, 10);
        break;
    case BAD_ACK_IN_CHANNEL:
    case BAD_VALUE_SIZE:
    case BAD_VALUE_SOURCE:
        m.length = i == BAD_VALUE_SIZE ? fix.o.value_max + 1 : 3;
        m.src = i == BAD_VALUE_SOURCE ? 0 : 1;
        at = block_frame(REPLICA_BYTES, REPLICA_CH_WRITES, SNIC_REPLICA__DDP + 3);
        replica_put_ddp(at, 3, i == BAD_ACK_IN_CHANNEL ? &ack : &m);
        break;
    case BAD_CREDIT_SIZE:
    case BAD_CREDIT_TAKEN:
        at = block_frame(REPLICA_CREDIT, 0, SNIC_REPLICA__CREDIT + (i == BAD_CREDIT_SIZE));
        replica_put_credit(at, &c);
        break;
    default:
        (void)block_frame(REPLICA_PING, 0, 0);
        break;
    }
}

/* Each ends the connection, and the next one is as good as the first. */
static void test_replica_link_wrong_blocks_end_connection(void **state)
{
    (void)state;
    begin_link();
    for (uint32_t i = 0; i < BADS; i++) {
        uint64_t refused = info().refused;
        peer_up();
        block_new();
        memset(block, 0, sizeof(block));
        bad_frames(i);
        block[SNIC_REPLICA__BLOCK] = i == BAD_FRAME ? REPLICA_FRAMES : block[SNIC_REPLICA__BLOCK];
        if (i == BAD_FRAME_SIZE)
            block[SNIC_REPLICA__BLOCK + 2]++;
        uint32_t size = block_end();
        block[SNIC_REPLICA__BLOCK + 3] ^= i == BAD_CRC ? 0x80 : 0;
        if (i == BAD_SIZE_SMALL || i == BAD_SIZE_LARGE)
            snic_put_le16(block, i == BAD_SIZE_SMALL ? 3 : SNIC_REPLICA__BODY + 1);
        block[2] = i == BAD_FLAG ? 1 : 0;
        block[3] = i == BAD_RESERVED;
        peer_send(block, size);
        run(10 * (uint64_t)MS);
        if (!peer.closed || info().refused != refused + 1)
            fail_msg("block %u: closed %d", i, peer.closed);
        peer_gone();
    }
    end_link();
}

/* ---- Windows ---- */

/* A value that comes in parts, cut anywhere, and messages in between. */
static void test_replica_link_value_in_parts(void **state)
{
    unsigned char bytes[SNIC_REPLICA__DDP + 4000];
    struct snic_ddp_msg m = inv(4000), ack = {.type = SNIC_DDP_ACK, .src = 1, .ts = 99};
    (void)state;
    begin_link();
    memset(bytes, 7, sizeof(bytes));
    replica_put_ddp(bytes, 3, &m);
    for (uint32_t step = 1; step < 5000; step = step * 3 + 1) {
        peer_up();
        uint64_t received = fix.r->peers[1].received;
        uint32_t parts = 0;
        for (uint32_t at = 0; at < sizeof(bytes); at += step) {
            uint32_t n = (uint32_t)snic_min_u64(step, sizeof(bytes) - at);
            block_new();
            memcpy(block_frame(REPLICA_BYTES, REPLICA_CH_WRITES, n), bytes + at, n);
            replica_put_ddp(block_frame(REPLICA_DDP, 0, SNIC_REPLICA__DDP), 3, &ack);
            block_send();
            parts++;
            if (parts % 32 == 0)
                run(MS);
        }
        run(10 * (uint64_t)MS);
        assert_int_equal(peer.closed, 0);
        assert_int_equal(fix.r->peers[1].received, received + parts + 1);
        peer_read();
        assert_int_equal(peer.credit.taken[REPLICA_CH_WRITES], 1);
        assert_int_equal(peer.credit.taken[REPLICA_CH_CONTROL], parts);
        peer_gone();
    }
    end_link();
}

/*
 * No memory for a value: it waits, others' messages do not, and no more is permitted than the ring
 * holds. When there is memory it is taken; after 200 ms without it counts as lost.
 */
static void test_replica_link_no_memory_waits(void **state)
{
    struct snic_ddp_msg m = inv(4000), ack = {.type = SNIC_DDP_ACK, .src = 1, .ts = 99};
    uint64_t held[256];
    (void)state;
    begin_link();
    for (uint32_t late = 0; late < 2; late++) {
        uint32_t holds = 0, sent = 0;
        peer_up();
        while ((held[holds] = replica_value_new(&fix.r->values, 4000)) != 0)
            holds++;
        uint64_t no_room = info().no_room;
        for (; sent + SNIC_REPLICA__DDP + 4000 <= fix.o.window_bytes;
             sent += SNIC_REPLICA__DDP + 4000) {
            block_new();
            unsigned char *at =
                block_frame(REPLICA_BYTES, REPLICA_CH_WRITES, SNIC_REPLICA__DDP + 4000);
            memset(at, 1, SNIC_REPLICA__DDP + 4000);
            replica_put_ddp(at, 3, &m);
            block_send();
            run(MS);
        }
        block_new();
        replica_put_ddp(block_frame(REPLICA_DDP, 0, SNIC_REPLICA__DDP), 3, &ack);
        block_send();
        run(10 * (uint64_t)MS);
        peer_read();
        assert_int_equal(peer.closed, 0);
        assert_int_equal(peer.credit.taken[REPLICA_CH_WRITES], 0);
        assert_int_equal(peer.credit.taken[REPLICA_CH_CONTROL], 1);
        assert_int_equal(peer.credit.limit[0], fix.o.window_bytes + SNIC_REPLICA__DDP);
        assert_int_equal(info().no_room, no_room);
        if (late)
            run(5000 * (uint64_t)MS);
        while (holds > 0)
            replica_value_drop(&fix.r->values, held[--holds]);
        run(10 * (uint64_t)MS);
        peer_read();
        assert_int_equal(peer.credit.taken[REPLICA_CH_WRITES], sent / (SNIC_REPLICA__DDP + 4000));
        assert_int_equal(info().no_room > no_room, late);
        peer_gone();
    }
    /* More than was permitted. */
    uint32_t holds = 0;
    peer_up();
    for (uint32_t at = 0; at <= fix.o.window_bytes && !peer.closed; at += 8000) {
        block_new();
        unsigned char *bytes = block_frame(REPLICA_BYTES, REPLICA_CH_WRITES, 8000);
        memset(bytes, 0, 8000);
        if (at == 0) {
            while ((held[holds] = replica_value_new(&fix.r->values, 4000)) != 0)
                holds++;
            replica_put_ddp(bytes, 3, &m);
        }
        block_send();
        run(MS);
    }
    run(10 * (uint64_t)MS);
    assert_int_equal(peer.closed, 1);
    assert_null(fix.r->peers[1].conn);
    while (holds > 0)
        replica_value_drop(&fix.r->values, held[--holds]);
    end_link();
}

/* ---- Queues ---- */

static void queue(const struct snic_ddp_msg *m)
{
    replica_link_ddp(fix.r, 1 << 1, m);
}

static void peer_credit(uint64_t limit, uint32_t control, uint32_t writes)
{
    struct replica_credit c = {.limit = {limit, limit}, .taken = {control, writes, 0}};
    block_new();
    replica_put_credit(block_frame(REPLICA_CREDIT, 0, SNIC_REPLICA__CREDIT), &c);
    block_send();
    run(5 * (uint64_t)MS);
}

/*
 * What is under way is not queued twice: a message that only a timer repeats until it was taken, an
 * answer until it was sent. Another epoch's is another message.
 */
static void test_replica_link_repeats_not_sent(void **state)
{
    struct snic_ddp_msg m = inv(0), ack = {.type = SNIC_DDP_ACK, .src = 0, .ts = 99};
    (void)state;
    m.flags = SNIC_DDP_MSG_TOMBSTONE;
    begin_link();
    peer_up();
    queue(&m); /* nothing is permitted yet */
    queue(&m);
    queue(&ack);
    queue(&ack);
    run(5 * (uint64_t)MS);
    replica_settle(fix.r);
    assert_true(stats().repeats == 2 && stats().queued == 1 && stats().unacknowledged == 1);
    queue(&m);
    queue(&ack); /* the first one left: what it answers may have come since */
    assert_true(stats().repeats == 3 && stats().queued == 2);
    peer_credit(1000, 0, 0);
    assert_true(stats().queued == 0 && stats().unacknowledged == 3);
    queue(&m);
    assert_int_equal(stats().repeats, 4);
    m.epoch++;
    queue(&m);
    assert_true(stats().repeats == 4 && stats().queued == 1);
    m.epoch--;
    replica_settle(fix.r);
    peer_credit(1000, 2, 2);
    assert_int_equal(stats().unacknowledged, 0);
    queue(&m); /* taken, and not answered */
    assert_true(stats().repeats == 4 && stats().queued == 1);
    assert_int_equal(stats().lost, 0);
    peer_gone();
    assert_true(stats().lost == 1 && stats().queued == 0);
    queue(&m); /* no connection */
    assert_true(stats().lost == 2 && stats().queued == 0);
    end_link();
}

/* The engine asks for a write's answer by a probe: not while the write itself is under way. */
static void test_replica_link_probes_not_sent(void **state)
{
    struct snic_ddp_msg m = inv(0);
    (void)state;
    m.flags = SNIC_DDP_MSG_TOMBSTONE;
    struct snic_ddp_msg probe = m;
    probe.flags |= SNIC_DDP_MSG_LOCKED;
    begin_link();
    peer_up();
    queue(&m); /* nothing is permitted yet */
    queue(&probe);
    assert_true(stats().repeats == 1 && stats().queued == 1);
    peer_credit(1000, 0, 0);
    assert_true(stats().queued == 0 && stats().unacknowledged == 1);
    queue(&probe);
    assert_int_equal(stats().repeats, 2);
    probe.ts++; /* another write's */
    queue(&probe);
    assert_true(stats().repeats == 2 && stats().queued == 1);
    probe.ts--;
    replica_settle(fix.r);
    peer_credit(1000, 0, 2);
    assert_int_equal(stats().unacknowledged, 0);
    queue(&probe); /* the write was taken, and not answered */
    assert_true(stats().repeats == 2 && stats().queued == 1);
    peer_gone();
    end_link();
}

/* A value leaves as the peer permits it, and messages without values before its rest. */
static void test_replica_link_small_overtakes_large(void **state)
{
    uint32_t any, large = 0, acks = 0, behind = 0, bytes;
    struct snic_ddp_msg m = inv(0), ack = {.type = SNIC_DDP_ACK, .src = 0, .ts = 99};
    (void)state;
    begin_link();
    peer_up();
    m.src = 0;
    m.length = 4000;
    m.value = replica_value_new(&fix.r->values, 4000);
    memset(replica_value_at(&fix.r->values, m.value, &any), 3, 4000);
    for (m.ts = 100; m.ts < 110; m.ts++)
        queue(&m);
    replica_value_drop(&fix.r->values, m.value);
    peer_read();
    for (uint64_t limit = 500; large < 10 * (SNIC_REPLICA__DDP + 4000); limit += 4000) {
        queue(&ack);
        ack.ts++;
        peer_credit(limit, 0, 0);
        uint32_t size, flags, at = 0;
        bytes = 0;
        while (at < peer.size) {
            struct replica_part part;
            size_t in = 0;
            assert_int_equal(replica_get_block(peer.seen + at, &size, &flags), 0);
            while (replica_get_part(peer.seen + at + 8, size, &in, &part) == 1) {
                acks += part.kind == REPLICA_DDP;
                behind += part.kind == REPLICA_DDP && bytes > 0;
                bytes += part.kind == REPLICA_BYTES ? part.size : 0;
            }
            at += SNIC_REPLICA__BLOCK + size;
        }
        peer.size = 0;
        large += bytes;
        assert_true(large <= limit);
        behind += acks != ack.ts - 99;
        assert_true(limit < 100000);
    }
    assert_int_equal(behind, 0);
    assert_int_equal(info().values, 0);
    peer_gone();
    end_link();
}

/* The bytes of a channel that the node sent, behind the ones that are here. */
static uint32_t peer_channel(unsigned char *to, uint32_t have)
{
    uint32_t size, flags, at = 0;
    while (at < peer.size) {
        struct replica_part part;
        size_t in = 0;
        assert_int_equal(replica_get_block(peer.seen + at, &size, &flags), 0);
        while (replica_get_part(peer.seen + at + SNIC_REPLICA__BLOCK, size, &in, &part) == 1) {
            if (part.kind != REPLICA_BYTES)
                continue;
            memcpy(to + have, part.data, part.size);
            have += part.size;
        }
        at += SNIC_REPLICA__BLOCK + size;
    }
    peer.size = 0;
    return have;
}

/* A new epoch: what waits is dropped, but not the rest of a message that has begun. */
static void test_replica_link_epoch_keeps_what_has_begun(void **state)
{
    static unsigned char bytes[65536];
    uint32_t any, have = 0;
    struct snic_ddp_msg m = inv(0), got;
    (void)state;
    begin_link();
    peer_up();
    m.src = 0;
    m.length = 4000;
    for (uint32_t epoch = 1; epoch <= 2; epoch++) {
        m.value = replica_value_new(&fix.r->values, 4000);
        memset(replica_value_at(&fix.r->values, m.value, &any), (int)epoch, 4000);
        m.epoch = epoch;
        for (m.ts = 100; m.ts < 103; m.ts++)
            queue(&m);
        replica_value_drop(&fix.r->values, m.value);
        peer_credit(1000, 0, 0);
        have = peer_channel(bytes, have);
        fix.r->view.epoch = 2;
        replica_link_epoch(fix.r);
        assert_int_equal(stats().queued, epoch == 1 ? 1 : 4);
    }
    peer_credit(60000, 0, 0);
    have = peer_channel(bytes, have);
    assert_int_equal(have, 4 * (SNIC_REPLICA__DDP + 4000));
    for (uint32_t i = 0; i < 4; i++) {
        const unsigned char *p = bytes + i * (SNIC_REPLICA__DDP + 4000);
        assert_int_equal(replica_get_ddp(p, 3, 4000, &got), 0);
        assert_int_equal(got.epoch, i == 0 ? 1 : 2);
        assert_int_equal(got.ts, i == 0 ? 100 : 99 + i);
        assert_int_equal(p[SNIC_REPLICA__DDP], got.epoch);
        assert_int_equal(p[SNIC_REPLICA__DDP + 3999], got.epoch);
    }
    fix.r->view.epoch = 0;
    peer_gone();
    end_link();
}

/*
 * A peer that reads nothing holds no more than its queue, the two buffers and what the network
 * takes; then messages to it are lost, and after 4 s of silence the connection ends.
 */
static void test_replica_link_silent_reader_bounded(void **state)
{
    uint32_t any;
    struct snic_ddp_msg m = inv(0);
    (void)state;
    begin_link();
    peer_up();
    peer_credit(1 << 30, 0, 0);
    snic_net_pause(peer.c, 1);
    m.src = 0;
    m.length = 4000;
    m.value = replica_value_new(&fix.r->values, 4000);
    memset(replica_value_at(&fix.r->values, m.value, &any), 3, 4000);
    for (m.ts = 100; m.ts < 400; m.ts++) {
        queue(&m);
        if (m.ts % 8 == 0)
            run(MS);
    }
    replica_value_drop(&fix.r->values, m.value);
    assert_int_equal(stats().queued + stats().unacknowledged, 64);
    assert_int_equal(stats().lost, 300 - 64);
    assert_int_equal(info().lost_sends, 300 - 64);
    assert_int_equal(info().values, 1);
    run(3000 * (uint64_t)MS);
    assert_non_null(fix.r->peers[1].conn);
    run(2000 * (uint64_t)MS);
    assert_null(fix.r->peers[1].conn);
    assert_int_equal(stats().lost, 300);
    assert_int_equal(info().values, 0);
    peer_gone();
    end_link();
}

/* ---- Ends that the node decides ---- */

/* What waits in a blocked channel turns out to be no message: the end, at once. */
static void test_replica_link_wrong_message_behind_blocked_one(void **state)
{
    struct snic_ddp_msg m = inv(4000);
    uint64_t held[256];
    uint32_t holds = 0;
    (void)state;
    begin_link();
    peer_up();
    while ((held[holds] = replica_value_new(&fix.r->values, 4000)) != 0)
        holds++;
    block_new();
    unsigned char *at = block_frame(REPLICA_BYTES, REPLICA_CH_WRITES, 2 * SNIC_REPLICA__DDP + 4000);
    memset(at, 1, 2 * SNIC_REPLICA__DDP + 4000);
    replica_put_ddp(at, 3, &m);
    block_send();
    run(5 * (uint64_t)MS);
    assert_int_equal(fix.r->blocked, 1);
    while (holds > 0)
        replica_value_drop(&fix.r->values, held[--holds]);
    uint64_t refused = info().refused;
    replica_link_retry(fix.r);
    assert_null(fix.r->peers[1].conn);
    assert_int_equal(info().refused, refused + 1);
    assert_int_equal(fix.r->blocked, 0);
    run(5 * (uint64_t)MS);
    assert_int_equal(peer.closed, 1);
    peer_gone();
    end_link();
}

/* ---- Datagrams out, and times ---- */

/* More than a datagram holds leaves in several; what is for a node that is forgotten, never. */
static void test_replica_link_datagrams_gathered(void **state)
{
    struct snic_member_msg m = {.type = SNIC_MEMBER_HEARTBEAT, .seq = 1};
    (void)state;
    begin_link();
    uint32_t before = fix.r->sends_used;
    for (uint32_t i = 0; i < 20; i++)
        replica_link_member(fix.r, 1 << 1, &m);
    assert_int_equal(fix.r->sends_used, before + 2);
    replica_dgram_forget(fix.r, 1);
    assert_int_equal(fix.r->sends_used, before + 1);
    replica_dgram_flush(fix.r);
    assert_int_equal(fix.r->sends_used, before + 1);
    run(5 * (uint64_t)MS);
    end_link();
}

/* The network takes one datagram at a time: others are lost, and counted. Versions that the header
 * names and this node does not have are refused. */
static void test_replica_link_datagrams_lost_or_refused(void **state)
{
    struct snic_member_msg m = {.type = SNIC_MEMBER_HEARTBEAT, .seq = 1};
    unsigned char p[SNIC_REPLICA__PACKET];
    struct replica_packet h = {.version = 3, .src = 1, .lowest = 2, .highest = 4, .cluster = 0xc1};
    (void)state;
    doors_of(7, 1);
    start();
    run(10 * (uint64_t)MS);
    uint64_t lost = info().lost_sends, refused = info().refused;
    replica_link_member(fix.r, 1 << 1 | 1 << 2, &m);
    replica_dgram_flush(fix.r);
    assert_int_equal(info().lost_sends, lost + 1);
    replica_put_packet(p, &h);
    replica_put_packet_crc(p, sizeof(p));
    struct snic_net_msg in = {.data = p, .size = sizeof(p), .peer = fix.addrs[1]};
    for (uint32_t version = 2; version <= 4; version++) {
        fix.r->wire_lowest = fix.r->wire_highest = version;
        replica_dgram_recv(fix.r, fix.r->dgram, &in, 1);
        refused += version != 3;
        assert_int_equal(info().refused, refused);
    }
    fix.r->wire_lowest = fix.r->wire_highest = 3;
    end_link();
}

/* Times that another node may send and that make no sense are no round trip. */
static void test_replica_link_senseless_times(void **state)
{
    (void)state;
    doors(3);
    fix.o.retransmit_ns = 2 * (uint64_t)MS;
    fix.o.replay_ns = 20 * (uint64_t)MS;
    start();
    run(30000 * (uint64_t)MS);
    struct replica_peer *p = &fix.r->peers[1];
    uint64_t now = snic_world_now(fix.world);
    struct replica_times t[] = {{.stamp = 1},
                                {.stamp = 1, .echo = now, .held_ns = UINT64_C(20000000000)},
                                {.stamp = 1, .echo = now + 1},
                                {.stamp = 1, .echo = now - 5, .held_ns = 6},
                                {.stamp = 1, .echo = now - UINT64_C(25000000000)}};
    for (uint32_t i = 0; i < SNIC_COUNTOF(t); i++) {
        replica_pace_rtt(fix.r, p, &t[i]);
        assert_int_equal(p->rtt_ns, 0);
    }
    t[0].echo = now - 5000;
    replica_pace_rtt(fix.r, p, &t[0]);
    assert_int_equal(p->rtt_ns, 5001);
    replica_pace_update(fix.r);
    assert_true(fix.r->pace.retransmit_ns >= 2 * (uint64_t)MS);
    assert_true(fix.r->pace.replay_ns >= 20 * (uint64_t)MS);
    stop();
    finish();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_link_wrong_blocks_end_connection),
        cmocka_unit_test(test_replica_link_value_in_parts),
        cmocka_unit_test(test_replica_link_no_memory_waits),
        cmocka_unit_test(test_replica_link_repeats_not_sent),
        cmocka_unit_test(test_replica_link_probes_not_sent),
        cmocka_unit_test(test_replica_link_small_overtakes_large),
        cmocka_unit_test(test_replica_link_epoch_keeps_what_has_begun),
        cmocka_unit_test(test_replica_link_silent_reader_bounded),
        cmocka_unit_test(test_replica_link_wrong_message_behind_blocked_one),
        cmocka_unit_test(test_replica_link_datagrams_gathered),
        cmocka_unit_test(test_replica_link_datagrams_lost_or_refused),
        cmocka_unit_test(test_replica_link_senseless_times),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
