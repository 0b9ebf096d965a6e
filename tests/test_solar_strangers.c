/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Packets of nobody's, without a key: who only greets keeps no place from others for long, and
 * nobody is told the token of a connection that is not his.
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
    unsigned char packet[SNIC_EBS_PACKET_BYTES];
    struct snic_ebs_header answer; /* the last one */
} stand;

static void stand_open(void)
{
    struct snic_solar_target_opts o = {
        .opts_size = sizeof(o), .srv_epoch = SRV_EPOCH, .conns_max = CONNS, .seed = 5};
    memset(&stand, 0, sizeof(stand));
    stand.now = 1000 * MS;
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

/* @return how many packets came of it; the last is in stand.answer */
static int say(const struct snic_ebs_header *h)
{
    struct snic_solar_peer peer = {{7, 8, 9}};
    struct snic_solar_request q;
    struct snic_solar_train *t;
    struct snic_ebs_place place;
    int answers = 0;
    int n =
        snic_ebs_encode(stand.packet, sizeof(stand.packet), NULL, SNIC_EBS_TO_SERVER, h, NULL, 0);
    assert_true(n > 0);
    (void)snic_solar_target_recv(stand.t, &peer, stand.packet, (size_t)n, 0, &q, stand.now);
    while (snic_solar_target_poll(stand.t, &t, 1, stand.now) == 1) {
        size_t size = 0;
        for (uint32_t i = 0; i < t->iov_count; i++) {
            memcpy(stand.packet + size, t->iov[i].base, t->iov[i].size);
            size += t->iov[i].size;
        }
        assert_int_equal(
            snic_ebs_decode(&stand.answer, &place, SNIC_EBS_TO_CLIENT, stand.packet, size), 0);
        answers++;
        snic_solar_target_sent(stand.t, t);
    }
    assert_int_equal(snic_solar_target_check(stand.t), 0);
    return answers;
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
    return say(&h) == 1 && stand.answer.type == SNIC_EBS_HELLO_ACK ? stand.answer.u.hello.conn_id
                                                                   : 0;
}

static int probe(uint32_t conn_id, uint32_t srv_epoch)
{
    struct snic_ebs_header h;
    memset(&h, 0, sizeof(h));
    h.type = SNIC_EBS_PROBE;
    h.pkt_cnt = 1;
    h.pn = ++stand.pn;
    h.conn_id = conn_id;
    h.srv_epoch = srv_epoch;
    h.u.probe.nonce = 77;
    return say(&h);
}

static void test_solar_strangers_keep_no_place(void **state)
{
    uint32_t friends[FRIENDS];
    uint64_t stranger = 100, end = stand.now;
    (void)state;
    stand_open();
    for (uint64_t i = 0; i < FRIENDS; i++) {
        friends[i] = greet(1 + i);
        assert_true(friends[i] != 0 && probe(friends[i], SRV_EPOCH) == 1);
    }
    while (greet(stranger) != 0)
        stranger++;
    assert_int_equal(stranger - 100, CONNS - FRIENDS); /* all have one place in common */
    for (end = stand.now + 900 * MS; stand.now < end; stand.now += 100 * MS) {
        assert_int_equal(greet(50), 0);
        for (uint64_t i = 100; i < stranger; i++) /* again and again: it helps nobody */
            assert_true(greet(i) != 0);
    }
    stand.now += 200 * MS;
    uint32_t late = greet(50);
    assert_true(late != 0 && probe(late, SRV_EPOCH) == 1);
    /* Who has shown that he hears what he is told stays, whoever greets meanwhile. */
    for (end = stand.now + 8000 * MS; stand.now < end; stand.now += 50 * MS)
        (void)greet(stranger++);
    for (uint32_t i = 0; i < FRIENDS; i++)
        assert_true(probe(friends[i], SRV_EPOCH) == 1 && stand.answer.type == SNIC_EBS_PROBE_ACK);
    assert_true(probe(late, 0) == 1 && stand.answer.type == SNIC_EBS_PROBE_ACK);
    stand_close();
}

static void test_solar_strangers_learn_no_token(void **state)
{
    (void)state;
    stand_open();
    uint32_t mine = greet(1);
    uint64_t token = stand.answer.u.hello.reset_token;
    assert_true(mine != 0 && probe(mine, SRV_EPOCH) == 1);
    assert_int_equal(probe(mine, SRV_EPOCH + 1), 0);
    assert_true(probe(mine ^ 1u << 30, SRV_EPOCH) == 1); /* of nobody: a RESET, with its token */
    assert_int_equal(stand.answer.type, SNIC_EBS_RESET);
    assert_true(stand.answer.u.reset.token != token);
    stand_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_strangers_keep_no_place),
        cmocka_unit_test(test_solar_strangers_learn_no_token),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
