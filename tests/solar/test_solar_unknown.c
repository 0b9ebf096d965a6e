/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Packets of unknown peers, without a key: one that only greets keeps no place from others for
 * long, and no peer gets the token of a connection that is not its own.
 */
#include "snicstore/solar.h"
#include "support.h"

#include <stdlib.h>

#define MS UINT64_C(1000000)

enum { CONNS = 16, FRIENDS = 4, SRV_EPOCH = 9 };

static struct {
    struct snic_solar_target *t;
    void *mem;
    uint64_t now, pn;
    struct snic_ebs_peer peer; /* that sends it */
    uint64_t bytes_in, bytes_out;
    uint32_t requests;
    unsigned char packet[SNIC_EBS_PACKET_BYTES];
    struct snic_ebs_header answer; /* the last one */
} stand;

static void stand_open(void)
{
    struct snic_solar_target_opts o = {
        .opts_size = sizeof(o), .srv_epoch = SRV_EPOCH, .conns_max = CONNS, .seed = 5};
    memset(&stand, 0, sizeof(stand));
    stand.now = 1000 * MS;
    stand.peer = (struct snic_ebs_peer){{7, 8, 9}};
    size_t size = snic_solar_target_memsize(&o);
    stand.mem = aligned_alloc(SNIC_SOLAR_ALIGN, size);
    assert_non_null(stand.mem);
    assert_int_equal(snic_solar_target_init(&stand.t, stand.mem, size, &o, stand.now), 0);
}

static void stand_close(void)
{
    assert_int_equal(snic_solar_target_check(stand.t), 0);
    free(snic_solar_target_fini(stand.t));
}

/* Bytes that arrive. @return how many packets answer them; the last is in stand.answer */
static int arrive(const void *packet, size_t bytes)
{
    struct snic_ebs_request q;
    struct snic_solar_train *t;
    struct snic_ebs_place place;
    int answers = 0;
    stand.bytes_in += bytes;
    if (snic_solar_target_recv(stand.t, &stand.peer, packet, bytes, 0, &q, stand.now) == 1) {
        stand.requests++;
        snic_solar_target_answer(stand.t, &q, SNIC_EBS_NO_SEGMENT, 0, 0, stand.now);
    }
    while (snic_solar_target_poll(stand.t, &t, 1, stand.now) == 1) {
        static unsigned char out[SNIC_SOLAR_TRAIN_MAX * SNIC_EBS_PACKET_BYTES];
        size_t size = 0;
        for (uint32_t i = 0; i < t->iov_count; i++) {
            memcpy(out + size, t->iov[i].base, t->iov[i].size);
            size += t->iov[i].size;
        }
        assert_memory_equal(&t->peer, &stand.peer, sizeof(stand.peer));
        stand.bytes_out += size;
        assert_int_equal(snic_ebs_decode(&stand.answer, &place, SNIC_EBS_TO_CLIENT, out, size), 0);
        answers++;
        snic_solar_target_sent(stand.t, t);
    }
    assert_int_equal(snic_solar_target_check(stand.t), 0);
    return answers;
}

static int send_with(const struct snic_ebs_header *h, const void *body, size_t size)
{
    int n = snic_ebs_encode(stand.packet, sizeof(stand.packet), NULL, SNIC_EBS_TO_SERVER, h, body,
                            size);
    assert_true(n > 0);
    if (size > 0)
        memcpy(stand.packet + n, body, size);
    return arrive(stand.packet, (size_t)n + size);
}

static int send_one(const struct snic_ebs_header *h)
{
    return send_with(h, NULL, 0);
}

/* @return the number that the server gives; 0: it has no place */
static uint32_t greet(uint64_t client_id)
{
    struct snic_ebs_header h;
    memset(&h, 0, sizeof(h));
    h.type = SNIC_EBS_HELLO;
    h.pkt_cnt = 1;
    h.pn = ++stand.pn;
    h.u.hello.ver_min = h.u.hello.ver_max = SNIC_EBS_VERSION;
    h.u.hello.conn_id = (uint32_t)client_id;
    h.u.hello.nonce = client_id * 3;
    h.u.hello.client_id = client_id;
    h.u.hello.payload_max = SNIC_EBS_PACKET_BYTES;
    h.u.hello.epoch = 1;
    return send_one(&h) == 1 && stand.answer.type == SNIC_EBS_HELLO_ACK
               ? stand.answer.u.hello.conn_id
               : 0;
}

static int probe_with(uint32_t conn_id, uint32_t srv_epoch, uint64_t proof)
{
    struct snic_ebs_header h;
    memset(&h, 0, sizeof(h));
    h.type = SNIC_EBS_PROBE;
    h.pkt_cnt = 1;
    h.pn = ++stand.pn;
    h.conn_id = conn_id;
    h.srv_epoch = srv_epoch;
    h.u.probe.nonce = 77;
    h.u.probe.proof = proof;
    return send_one(&h);
}

static int probe(uint32_t conn_id, uint32_t srv_epoch)
{
    return probe_with(conn_id, srv_epoch, 0);
}

/* What has most answers: a small packet that asks for 16 blocks. */
static int request_from(uint32_t conn_id)
{
    unsigned char slots[SNIC_EBS_READ_BLOCKS * SNIC_EBS_SLOT_BYTES] = {0};
    struct snic_ebs_header h;
    memset(&h, 0, sizeof(h));
    h.type = SNIC_EBS_READ_REQ;
    h.conn_id = conn_id;
    h.srv_epoch = SRV_EPOCH;
    h.pkt_cnt = SNIC_EBS_READ_BLOCKS;
    h.pn = ++stand.pn;
    h.u.block.blk_cnt = SNIC_EBS_READ_BLOCKS;
    h.u.block.need_mask = 0xffff;
    h.u.block.bind_crc = snic_ebs_bind_crc(&h.u.block);
    return send_with(&h, slots, sizeof(slots));
}

/* Packets of every kind, with a header and without, of a connection and of none. */
static void send_everything(uint32_t conn_id)
{
    struct snic_ebs_header h;
    for (uint32_t type = 1; type < SNIC_EBS_TYPE_END; type++) {
        memset(&h, 0, sizeof(h));
        h.type = (uint8_t)type;
        h.conn_id = conn_id;
        h.srv_epoch = SRV_EPOCH;
        h.pkt_cnt = 1;
        h.pn = ++stand.pn;
        h.u.block.op = SNIC_EBS_ZERO;
        h.u.block.blk_cnt = 1;
        h.u.block.wver = 1;
        h.u.block.data_crc = SNIC_EBS_CRC_ZEROS;
        h.u.block.bind_crc = snic_ebs_bind_crc(&h.u.block);
        if (snic_ebs_encode(stand.packet, sizeof(stand.packet), NULL, SNIC_EBS_TO_SERVER, &h, NULL,
                            0) > 0)
            (void)send_one(&h);
    }
    for (uint32_t size = 1; size < 300; size += 21) { /* of another version; cut off */
        memset(stand.packet, 0x5a, size);
        stand.packet[0] = size % 2 == 0 ? 0x1d : 0x28;
        (void)arrive(stand.packet, size);
    }
}

static void test_solar_unknown_keep_no_place(void **state)
{
    uint32_t friends[FRIENDS];
    uint64_t unknown = 100, end = stand.now;
    (void)state;
    stand_open();
    for (uint64_t i = 0; i < FRIENDS; i++) {
        friends[i] = greet(1 + i);
        assert_true(friends[i] != 0 && probe(friends[i], SRV_EPOCH) == 1);
    }
    while (greet(unknown) != 0)
        unknown++;
    assert_int_equal(unknown - 100, CONNS - FRIENDS); /* all have one place in common */
    for (end = stand.now + 900 * MS; stand.now < end; stand.now += 100 * MS) {
        assert_int_equal(greet(50), 0);
        for (uint64_t i = 100; i < unknown; i++) /* again and again: without effect */
            assert_true(greet(i) != 0);
    }
    stand.now += 200 * MS;
    uint32_t late = greet(50);
    assert_true(late != 0 && probe(late, SRV_EPOCH) == 1);
    /* A peer that has shown that it receives answers stays, whatever peers greet meanwhile. */
    for (end = stand.now + 8000 * MS; stand.now < end; stand.now += 50 * MS)
        (void)greet(unknown++);
    for (uint32_t i = 0; i < FRIENDS; i++)
        assert_true(probe(friends[i], SRV_EPOCH) == 1 && stand.answer.type == SNIC_EBS_PROBE_ACK);
    assert_true(probe(late, 0) == 1 && stand.answer.type == SNIC_EBS_PROBE_ACK);
    stand_close();
}

static void test_solar_unknown_learn_no_token(void **state)
{
    (void)state;
    stand_open();
    uint32_t mine = greet(1);
    uint64_t token = stand.answer.u.hello.reset_token;
    assert_true(mine != 0 && probe(mine, SRV_EPOCH) == 1);
    assert_int_equal(probe(mine, SRV_EPOCH + 1), 0);
    assert_true(probe(mine ^ 1u << 30, SRV_EPOCH) == 1); /* unknown: a RESET, with its token */
    assert_int_equal(stand.answer.type, SNIC_EBS_RESET);
    assert_true(stand.answer.u.reset.token != token);
    stand_close();
}

/* A client of an earlier release gets RESET, and the statistics show it. */
static void test_solar_unknown_other_version_reported(void **state)
{
    struct snic_solar_target_stats s;
    (void)state;
    stand_open();
    assert_true(greet(1) != 0);
    memset(stand.packet, 0, 128);
    stand.packet[0] = 0x18;
    stand.packet[1] = SNIC_EBS_HELLO;
    assert_int_equal(arrive(stand.packet, 128), 1);
    assert_true(stand.answer.type == SNIC_EBS_RESET && stand.answer.status == SNIC_EBS_BAD_VERSION);
    assert_true(stand.answer.u.reset.ver_min == 2 && stand.answer.u.reset.ver_max == 2);
    snic_solar_target_get_stats(stand.t, &s);
    assert_true(s.versions == 1 && s.peer_version == 1 && s.conns == 1);
    stand_close();
}

/* A peer that forges its sender address makes the server send little there: at most
   three times what comes from it, until it has shown that it hears. A proof is of one address. */
static void test_solar_unknown_nothing_is_reflected(void **state)
{
    const struct snic_ebs_peer victim = {{99, 98, 97}};
    (void)state;
    stand_open();
    struct snic_ebs_peer self = stand.peer;
    uint32_t mine = greet(1);
    uint64_t proof = stand.answer.u.hello.proof;
    assert_true(mine != 0 && proof != 0);
    assert_int_equal(request_from(mine), 1);
    assert_true(stand.answer.type == SNIC_EBS_NAK && stand.answer.status == SNIC_EBS_UNPROVEN);
    assert_true(stand.answer.u.nak.proof == proof && stand.requests == 0);
    assert_int_equal(probe(mine, SRV_EPOCH), 1);
    assert_int_equal(stand.answer.status, SNIC_EBS_UNPROVEN);
    assert_int_equal(probe_with(mine, SRV_EPOCH, proof ^ 2), 1);
    assert_int_equal(stand.answer.status, SNIC_EBS_UNPROVEN);
    assert_int_equal(probe_with(mine, SRV_EPOCH, proof), 1);
    assert_int_equal(stand.answer.status, SNIC_EBS_OK);
    (void)request_from(mine);
    assert_int_equal(stand.requests, 1);
    stand.peer = victim;
    for (uint32_t i = 0; i < 50; i++) {
        stand.bytes_in = stand.bytes_out = 0;
        (void)request_from(mine);
        assert_true(stand.bytes_out <= 3 * stand.bytes_in && stand.requests == 1);
        (void)probe_with(mine, SRV_EPOCH, proof); /* it is another's */
        (void)greet(2 + i % 2);
        assert_true(stand.bytes_out <= 3 * stand.bytes_in);
        send_everything(i % 3 == 0 ? mine : i);
        assert_true(stand.bytes_out <= 3 * stand.bytes_in);
        uint32_t before = stand.requests;
        (void)request_from(mine);
        assert_int_equal(stand.requests, before);
        stand.requests = 1;
        stand.now += 100 * MS;
    }
    stand.peer = self; /* its proof holds, whatever was sent in its name */
    (void)request_from(mine);
    assert_int_equal(stand.requests, 2);
    stand.peer.word[0]++; /* another port of the same host */
    (void)request_from(mine);
    assert_int_equal(stand.requests, 3);
    stand.peer.word[1]++; /* another host: it proves itself anew, and not with what is old */
    (void)request_from(mine);
    assert_int_equal(stand.requests, 3);
    proof = stand.answer.u.nak.proof;
    stand.now += 20000 * MS;
    assert_int_equal(probe_with(mine, SRV_EPOCH, proof), 1);
    assert_int_equal(stand.answer.status, SNIC_EBS_UNPROVEN);
    assert_int_equal(probe_with(mine, SRV_EPOCH, stand.answer.u.probe.proof), 1);
    assert_int_equal(stand.answer.status, SNIC_EBS_OK);
    (void)request_from(mine);
    assert_int_equal(stand.requests, 4);
    stand_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_unknown_keep_no_place),
        cmocka_unit_test(test_solar_unknown_learn_no_token),
        cmocka_unit_test(test_solar_unknown_nothing_is_reflected),
        cmocka_unit_test(test_solar_unknown_other_version_reported),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
