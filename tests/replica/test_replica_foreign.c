/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What no node of this cluster sent or wrote: packets of a peer that is no node, a membership file
 * and a log that are not its own.
 */
#include "test_replica_alone.h"

#include "support.h"

#include <string.h>

/* ---- Packets ---- */

static int sent;

static void on_sent(struct snic_net_train *t)
{
    (void)t;
    sent = 1;
}

static void on_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *m, uint32_t n)
{
    (void)ctx;
    (void)d;
    (void)m;
    (void)n;
}

/* From node @p from's address; how many more were refused. */
static uint64_t throw_at(uint32_t from, const unsigned char *bytes, uint32_t size)
{
    struct snic_iov iov = {.base = (unsigned char *)(uintptr_t)bytes, .size = size};
    struct snic_net_train t;
    struct snic_replica_stats before = info();
    memset(&t, 0, sizeof(t));
    t.done = on_sent;
    t.peer = fix.addrs[0];
    t.iov = &iov;
    t.iov_count = 1;
    t.segment = size;
    sent = 0;
    assert_int_equal(snic_net_dgram_send(fix.as[from], &t), 1);
    run(20 * (uint64_t)MS);
    assert_int_equal(sent, 1);
    assert_int_equal(info().packets, before.packets + 1);
    assert_int_equal(info().values, 0);
    return info().refused - before.refused;
}

static unsigned char packet[8192];

static struct replica_packet header(uint32_t src)
{
    return (struct replica_packet){
        .version = 3, .src = src, .lowest = 3, .highest = 3, .cluster = 0xc1, .session = src};
}

static uint32_t wrap_as(const struct replica_packet *h, uint32_t size)
{
    replica_put_packet(packet, h);
    replica_put_packet_crc(packet, size);
    return size;
}

/* A packet of one frame, whose body is in place. */
static uint32_t wrap(uint32_t kind, uint32_t size, uint32_t src)
{
    struct replica_packet h = header(src);
    replica_put_frame(packet + SNIC_REPLICA__PACKET, kind, 0, size);
    return wrap_as(&h, size + SNIC_REPLICA__PACKET + SNIC_REPLICA__FRAME);
}

/* Node 0 of three; the test is the others. */
static void start_alone_of_three(void)
{
    static const struct snic_net_dgram_events events = {.recv = on_recv};
    doors(7);
    start();
    for (uint32_t n = 1; n < NODES; n++)
        assert_int_equal(snic_net_dgram_open(fix.net[n], &fix.addrs[n], &events, NULL, &fix.as[n]),
                         0);
    run(10 * (uint64_t)MS);
}

static void finish_alone_of_three(void)
{
    assert_int_equal(info().state, SNIC_REPLICA_RUNNING);
    for (uint32_t n = 1; n < NODES; n++)
        snic_net_dgram_close(fix.as[n]);
    stop();
    finish();
}

static void test_replica_foreign_packets_without_sense_refused(void **state)
{
    unsigned char *body = packet + SNIC_REPLICA__PACKET + SNIC_REPLICA__FRAME;
    const uint32_t head = SNIC_REPLICA__PACKET;
    struct snic_member_msg mm;
    struct replica_times t = {.stamp = 1, .held_ns = UINT64_MAX, .echo = UINT64_MAX};
    (void)state;
    start_alone_of_three();
    memset(&mm, 0, sizeof(mm));
    mm.type = SNIC_MEMBER_ACCEPT;
    mm.src = 1;
    mm.cluster = fix.o.cluster;
    replica_put_member(body, &mm);
    uint32_t size = wrap(REPLICA_MEMBER, SNIC_REPLICA__MEMBER, 1);
    uint64_t refused = info().member.refused;
    assert_int_equal(throw_at(1, packet, size), 0);
    assert_int_equal(info().member.refused, refused + 1); /* no sense, but from node 1 */
    assert_int_equal(throw_at(2, packet, size), 1);       /* not node 1's address */
    assert_int_equal(throw_at(1, packet, head - 1), 1);
    packet[40]++;
    assert_int_equal(throw_at(1, packet, size), 1); /* the checksum */
    packet[40]--;
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_MEMBER, SNIC_REPLICA__MEMBER, 0)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_MEMBER, SNIC_REPLICA__MEMBER, 5)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_MEMBER, SNIC_REPLICA__MEMBER, 16)), 1);
    assert_int_equal(throw_at(2, packet, wrap(REPLICA_MEMBER, SNIC_REPLICA__MEMBER, 2)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_MEMBER, SNIC_REPLICA__MEMBER + 1, 1)), 1);
    /* Frames, and those of connections. */
    assert_int_equal(throw_at(1, packet, wrap(0, 4, 1)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_FRAMES, 4, 1)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_DDP, SNIC_REPLICA__DDP, 1)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_TIMES, SNIC_REPLICA__TIMES - 1, 1)), 1);
    struct replica_packet h = header(1);
    size = wrap(REPLICA_MEMBER, SNIC_REPLICA__MEMBER, 1);
    assert_int_equal(throw_at(1, packet, wrap_as(&h, size - 1)), 1); /* longer than the packet */
    packet[head + 1] = 1;
    assert_int_equal(throw_at(1, packet, wrap_as(&h, size)), 1);
    assert_int_equal(throw_at(1, packet, wrap_as(&h, head + 3)), 1);
    /* Times that cannot be are no round trip. */
    replica_put_times(body, &t);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_TIMES, SNIC_REPLICA__TIMES, 1)), 0);
    assert_int_equal(fix.r->peers[1].rtt_ns, 0);
    finish_alone_of_three();
}

/* What is wrong with a peer is named, and counted; a right one takes it back. */
static void test_replica_foreign_peer_named_by_what_is_wrong(void **state)
{
    struct snic_replica_peer_stats p;
    (void)state;
    start_alone_of_three();
    struct replica_packet h = header(1);
    h.cluster = 0xc2;
    assert_int_equal(throw_at(1, packet, wrap_as(&h, SNIC_REPLICA__PACKET)), 1);
    assert_int_equal(info().wrong_cluster, 1);
    assert_int_equal(snic_replica_get_peer(fix.r, 1, &p), 0);
    assert_int_equal(strncmp(p.refusal, "cluster: ", 9), 0);
    for (uint32_t i = 0; i < 3; i++) {
        h = header(1);
        h.version = i == 0 ? 2 : i == 1 ? SNIC_REPLICA__WIRE_HIGHEST + 1 : 3;
        h.lowest = i < 2 ? 3 : SNIC_REPLICA__WIRE_HIGHEST + 1;
        h.highest = h.lowest;
        assert_int_equal(throw_at(1, packet, wrap_as(&h, SNIC_REPLICA__PACKET)), 1);
        assert_int_equal(info().wrong_version, i + 1);
    }
    assert_int_equal(snic_replica_get_peer(fix.r, 1, &p), 0);
    assert_int_equal(strncmp(p.refusal, "version: ", 9), 0);
    h = header(1);
    h.flags = REPLICA_SEALED;
    assert_int_equal(throw_at(1, packet, wrap_as(&h, SNIC_REPLICA__PACKET + 40)), 1);
    assert_int_equal(info().wrong_key, 1);
    assert_int_equal(snic_replica_get_peer(fix.r, 1, &p), 0);
    assert_int_equal(strncmp(p.refusal, "key: ", 5), 0);
    h = header(1);
    h.dst = 2;
    assert_int_equal(throw_at(1, packet, wrap_as(&h, SNIC_REPLICA__PACKET)), 1);
    assert_int_equal(snic_replica_get_peer(fix.r, 2, &p), 0);
    assert_null(p.refusal);
    assert_int_equal(snic_replica_get_peer(fix.r, 0, &p), SNIC_EINVAL);
    assert_int_equal(snic_replica_get_peer(fix.r, 3, &p), SNIC_EINVAL);
    assert_int_equal(snic_replica_get_peer(fix.r, 16, &p), SNIC_EINVAL);
    finish_alone_of_three();
}

/* ---- Files of the membership that are not this node's ---- */

static int reopened;

static void on_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    (void)ctx;
    (void)report;
    assert_int_equal(result, 0);
    reopened = 1;
}

static void on_durable(void *ctx, uint64_t up_to)
{
    (void)ctx;
    (void)up_to;
}

static void on_failed(void *ctx, int error)
{
    (void)ctx;
    fail_msg("%s", snic_strerror(error));
}

/* The node's log, without the node. */
static struct snic_wal *log_open(void)
{
    static const struct snic_wal_events events = {
        .opened = on_opened, .durable = on_durable, .failed = on_failed};
    struct snic_wal_opts o = fix.o.wal;
    struct snic_wal *w;
    o.record_max = fix.o.value_max;
    size_t size = snic_wal_memsize(fix.io, &o);
    void *mem = support_guard_alloc(size, SNIC_WAL_ALIGN);
    reopened = 0;
    assert_int_equal(snic_wal_open(&w, mem, size, fix.io, &o, &events, NULL), 0);
    while (!reopened)
        assert_true(snic_loop_once(fix.loop[0], SNIC_NEVER) > 0);
    return w;
}

static void log_close(struct snic_wal *w)
{
    (void)snic_world_run(fix.world, snic_world_now(fix.world) + 10 * (uint64_t)MS, UINT32_MAX);
    support_guard_free(snic_wal_close(w));
}

/* The log's meta slot holds this. */
static void meta(const unsigned char *bytes, uint32_t length)
{
    struct snic_wal *w = log_open();
    assert_int_equal(snic_wal_meta_put(w, bytes, length), 0);
    log_close(w);
}

static struct snic_member_record record_example(void)
{
    struct snic_member_record rec;
    memset(&rec, 0, sizeof(rec));
    rec.cluster = fix.o.cluster;
    rec.incarnation = 5;
    rec.since = 5;
    rec.decided.epoch = 3;
    rec.decided.full = 1;
    rec.decided.configured = 1;
    rec.decided.config_epoch = 1;
    rec.decided.voter[0] = 5;
    rec.decided.incarnation[0] = 5;
    return rec;
}

/* Damaged, or of views that are not this node's: it ran, and has no vote (member.h, P5). */
static void test_replica_foreign_membership_no_vote(void **state)
{
    unsigned char bytes[SNIC_REPLICA__RECORD + 1];
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        doors(1);
        struct snic_member_record rec = record_example();
        if (i == 3) { /* the file before this one voted */
            rec.decided.voter[0] = 4;
        }
        uint32_t length = replica_put_record(bytes, &rec);
        if (i == 1)
            bytes[40] ^= 1;
        if (i == 2)
            bytes[8]++;
        meta(bytes, i == 0 ? 9 : length);
        fix.o.incarnation = 2000;
        start();
        run(3000 * (uint64_t)MS);
        assert_int_equal(info().state, SNIC_REPLICA_RUNNING);
        assert_int_equal(info().failure, 0);
        assert_int_equal(info().serves, 0);
        assert_int_equal(info().member.vote, 0);
        stop();
        finish();
    }
}

/* Of another version of this library, or another cluster's: this node does not begin. */
static void test_replica_foreign_membership_refused(void **state)
{
    unsigned char bytes[SNIC_REPLICA__RECORD];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        doors(1);
        struct snic_member_record rec = record_example();
        rec.cluster += i;
        uint32_t length = replica_put_record(bytes, &rec);
        if (i == 0)
            bytes[4] = 1; /* the version before */
        snic_put_le32(bytes, snic_crc32c(0, bytes + 4, length - 4));
        meta(bytes, length);
        start();
        run(3000 * (uint64_t)MS);
        assert_int_equal(info().state, SNIC_REPLICA_STOPPED);
        assert_int_equal(info().failure, i == 0 ? SNIC_EVERSION : SNIC_EXDEV);
        stop();
        finish();
    }
}

/* The log holds these, and no membership file. */
static void prepare(const struct snic_wal_record *recs, uint32_t count)
{
    struct snic_wal *w = log_open();
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(snic_wal_append(w, &recs[i], NULL), 0);
    log_close(w);
}

/*
 * A log with records and without its membership file: it ran, whatever the option states (A9). One
 * that holds more values than there is memory for is in doubt, and no failure; one that holds what
 * no engine wrote is a failure, and reported.
 */
static void test_replica_foreign_unknown_logs_reported(void **state)
{
    static unsigned char bytes[4000];
    struct snic_wal_record recs[3];
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        doors(1);
        memset(recs, 0, sizeof(recs));
        for (uint32_t k = 0; k < 3; k++) {
            recs[k].key.w[0] = k + 1;
            recs[k].ts = i == 2 ? 0 : snic_ddp_ts(2, 2, 0);
            recs[k].epoch = 2;
            recs[k].bytes = bytes;
            recs[k].length = 4000;
        }
        prepare(recs, 3);
        fix.o.values_bytes = i == 1 ? 8192 : fix.o.values_bytes;
        start();
        run(3000 * (uint64_t)MS);
        assert_int_equal(info().failure, i == 2 ? SNIC_EINVAL : 0);
        assert_int_equal(info().state, i == 2 ? SNIC_REPLICA_STOPPED : SNIC_REPLICA_RUNNING);
        assert_int_equal(info().serves, 0);
        assert_int_equal(info().member.vote, 0);
        if (i != 2)
            assert_int_equal(info().log_good, i == 0);
        assert_int_equal(info().values, i == 0 ? 3 : 0);
        stop();
        finish();
    }
}

/* ---- Addresses ---- */

/* The sender of a packet is determined by its address, of whatever kind. */
static void test_replica_foreign_packets_by_address(void **state)
{
    unsigned char *body = packet + SNIC_REPLICA__PACKET + SNIC_REPLICA__FRAME;
    struct snic_member_msg mm;
    (void)state;
    start_alone_of_three();
    memset(&mm, 0, sizeof(mm));
    mm.type = SNIC_MEMBER_HEARTBEAT;
    mm.src = 1;
    mm.seq = 1;
    mm.configured = 7;
    replica_put_member(body, &mm);
    struct snic_net_msg in = {.data = packet,
                              .size = wrap(REPLICA_MEMBER, SNIC_REPLICA__MEMBER, 1)};
    struct snic_net_addr *right = &fix.r->peers[1].addr;
    for (uint32_t kind = 0; kind < 4; kind++) {
        static const uint16_t families[] = {SNIC_NET_IPV4, SNIC_NET_IPV6, SNIC_NET_UNIX,
                                            SNIC_NET_SIM};
        memset(right, 0, sizeof(*right));
        right->family = families[kind];
        right->port = 5;
        if (families[kind] == SNIC_NET_UNIX)
            right->path[0] = 'a';
        for (uint32_t wrong = 0; wrong < 4; wrong++) {
            uint64_t refused = info().refused;
            in.peer = *right;
            if (wrong == 1)
                in.peer.port++;
            if (wrong == 2)
                in.peer.family = families[(kind + 1) % 4];
            if (wrong == 3 && families[kind] == SNIC_NET_SIM)
                in.peer.node++;
            else if (wrong == 3 && families[kind] == SNIC_NET_UNIX)
                in.peer.path[1] = 'b';
            else if (wrong == 3)
                in.peer.ip[3] ^= 1;
            replica_dgram_recv(fix.r, fix.r->dgram, &in, 1);
            assert_int_equal(info().refused, refused + (wrong != 0));
        }
    }
    *right = fix.addrs[1];
    run(MS);
    finish_alone_of_three();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_foreign_packets_without_sense_refused),
        cmocka_unit_test(test_replica_foreign_peer_named_by_what_is_wrong),
        cmocka_unit_test(test_replica_foreign_membership_no_vote),
        cmocka_unit_test(test_replica_foreign_membership_refused),
        cmocka_unit_test(test_replica_foreign_unknown_logs_reported),
        cmocka_unit_test(test_replica_foreign_packets_by_address),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
