/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SNIC_SOLAR_AUTH between an agent and a target, with a toy cipher: which packets are accepted and
 * which are rejected.
 */
#include "solar/target_priv.h"
#include "solar_cipher.h"
#include "support.h"
#include "test_solar_util.h"

#include <stdio.h>

static struct solar_toy_key keys[4];
static struct solar_toy_key secret = {{17, 23}}, other = {{17, 24}};
static unsigned char block[SNIC_EBS_BLOCK_BYTES], back[SNIC_EBS_BLOCK_BYTES];
static struct snic_iov out = {block, sizeof(block)}, in = {back, sizeof(back)};

static struct duo *auth_open(struct solar_toy_key *agents_secret)
{
    struct duo *d = &duo;
    memset(d, 0, sizeof(*d));
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = (unsigned char)(i * 11 + i / 256);
    d->o.flags = d->k.flags = SNIC_SOLAR_AUTH;
    d->o.sec = d->k.sec = &solar_toy_ops;
    d->o.wire_keys[0] = &keys[0];
    d->o.wire_keys[1] = &keys[1];
    d->k.wire_keys[0] = &keys[2];
    d->k.wire_keys[1] = &keys[3];
    d->k.secret = &secret;
    d->secret = agents_secret;
    duo_open(d);
    return d;
}

static void auth_write_and_read(struct duo *d, uint64_t lba)
{
    struct snic_ebs_io w, r;
    uint32_t done = d->acts[SNIC_EBS_ACT_DONE];
    memset(back, 0, sizeof(back));
    duo_io(d, &w, SNIC_EBS_IO_WRITE, lba, 1, &out);
    duo_until(d, done + 1);
    duo_io(d, &r, SNIC_EBS_IO_READ, lba, 1, &in);
    duo_until(d, done + 2);
    assert_true(w.result == 0 && r.result == 0);
    assert_memory_equal(back, block, sizeof(block));
}

static struct snic_solar_stats agent_stats(struct duo *d)
{
    struct snic_solar_stats s;
    snic_solar_get_stats(d->c, &s);
    return s;
}

static struct snic_solar_target_stats target_stats(struct duo *d)
{
    struct snic_solar_target_stats s;
    snic_solar_target_get_stats(d->t, &s);
    return s;
}

/* Data arrive intact, no packet contains them in plaintext, and none is rejected. */
static void test_solar_auth_data_arrive_encrypted(void **state)
{
    struct duo *d = auth_open(&secret);
    struct snic_ebs_io w;
    uint32_t seen = 0;
    (void)state;
    auth_write_and_read(d, 3);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 4, 1, &out);
    while (d->acts[SNIC_EBS_ACT_DONE] < 3) {
        duo_turn(d, 0);
        for (uint32_t i = 0; i < d->letters; i++) {
            const struct letter *l = &d->bag[i];
            assert_int_equal(snic_get_be16(l->bytes + 2) & SNIC_EBS_AUTH, SNIC_EBS_AUTH);
            for (uint32_t at = 64; at + 64 <= l->size; at++)
                assert_memory_not_equal(l->bytes + at, block + 100, 64);
            seen++;
        }
    }
    assert_true(seen >= 2);
    assert_true(agent_stats(d).unauthentic == 0 && target_stats(d).unauthentic == 0);
    assert_true(agent_stats(d).replayed == 0 && target_stats(d).replayed == 0);
    duo_close(d);
}

/* A client with a wrong secret, or without one, gets no connection. */
static void test_solar_auth_wrong_secret_no_connection(void **state)
{
    (void)state;
    for (int none = 0; none < 2; none++) {
        struct duo *d = auth_open(none ? NULL : &other);
        struct snic_ebs_io w;
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 3, 1, &out);
        for (int i = 0; i < 60; i++)
            duo_turn(d, 0);
        assert_int_equal(target_stats(d).writes + target_stats(d).hellos, 0);
        assert_true(target_stats(d).unauthentic > 3);
        for (int i = 0; i < 4000 && d->acts[SNIC_EBS_ACT_DONE] < 1; i++)
            duo_turn(d, 0);
        assert_true(d->acts[SNIC_EBS_ACT_DONE] == 1 && w.result == SNIC_EIO);
        assert_true(w.done_ns >= w.submitted_ns + d->o.deadline_ns);
        duo_close(d);
    }
}

/* Each packet is delivered twice, and each I/O is done once: the second packet with the same number
   is rejected and counted. A replayed HELLO does not end the connection. */
static void test_solar_auth_replayed_packets_are_refused(void **state)
{
    static struct letter recorded[BAG];
    struct duo *d = auth_open(&secret);
    struct snic_ebs_io w;
    uint32_t kept = 0, hellos = 0;
    (void)state;
    for (int i = 0; i < 12; i++) {
        if (i == 8)
            duo_io(d, &w, SNIC_EBS_IO_WRITE, 9, 1, &out);
        for (uint32_t k = 0; k < d->letters && kept < BAG; k++)
            recorded[kept++] = d->bag[k];
        duo_turn(d, 0);
    }
    duo_until(d, 1);
    uint64_t writes = target_stats(d).writes;
    struct solar_conn *n = NULL;
    for (uint32_t i = 0; i < d->t->o.conns_max; i++)
        n = d->t->conns[i].used ? &d->t->conns[i] : n;
    assert_non_null(n);
    uint32_t conn_id = n->conn_id;
    for (uint32_t i = 0; i < kept; i++) {
        hellos += recorded[i].bytes[1] == SNIC_EBS_HELLO;
        duo_deliver(d, &recorded[i]);
    }
    assert_true(kept > 8 && hellos > 0 && target_stats(d).writes == writes);
    assert_true(target_stats(d).replayed > 0 && agent_stats(d).replayed > 0);
    assert_true(n->used && n->conn_id == conn_id);
    /* The same for a HELLO of an earlier handshake of this client. */
    n->nonce++;
    for (uint32_t i = 0; i < kept; i++)
        if (recorded[i].bytes[1] == SNIC_EBS_HELLO)
            duo_deliver(d, &recorded[i]);
    assert_int_equal(n->conn_id, conn_id);
    n->nonce--;
    auth_write_and_read(d, 10);
    duo_close(d);
}

/* ---- A secret for each account ---- */

static struct solar_toy_key account_secrets[3] = {{{31, 1}}, {{31, 2}}, {{31, 3}}};

static void *auth_secret_of(void *ctx, uint32_t key_id, uint32_t account)
{
    assert_ptr_equal(ctx, account_secrets);
    return key_id == 5 && account >= 1 && account <= 3 ? &account_secrets[account - 1] : NULL;
}

static struct duo *accounts_open(uint32_t account, struct solar_toy_key *key)
{
    struct duo *d = &duo;
    memset(d, 0, sizeof(*d));
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = (unsigned char)(i * 11 + i / 256);
    d->o.flags = d->k.flags = SNIC_SOLAR_AUTH;
    d->o.sec = d->k.sec = &solar_toy_ops;
    d->o.wire_keys[0] = &keys[0];
    d->o.wire_keys[1] = &keys[1];
    d->k.wire_keys[0] = &keys[2];
    d->k.wire_keys[1] = &keys[3];
    d->k.secret_of = auth_secret_of;
    d->k.secret_ctx = account_secrets;
    d->secret = key;
    d->key_id = 5;
    d->account = account;
    duo_open(d);
    return d;
}

/* A request carries its connection's account. A client that claims an account without its key, or
   claims none, is rejected. */
static void test_solar_auth_account_without_its_key_rejected(void **state)
{
    static const struct {
        uint32_t account, has, key_id;
    } wrong[] = {{1, 1, 5}, {2, 0, 5}, {0, 0, 5}, {4, 0, 5}, {1, 0, 6}};
    (void)state;
    for (uint32_t i = 1; i <= 3; i++) {
        struct duo *d = accounts_open(i, &account_secrets[i - 1]);
        auth_write_and_read(d, 3);
        assert_int_equal(d->account_seen, i);
        assert_int_equal(target_stats(d).unauthentic, 0);
        duo_close(d);
    }
    for (uint32_t i = 0; i < SNIC_COUNTOF(wrong); i++) {
        struct duo *d = accounts_open(wrong[i].account, &account_secrets[wrong[i].has]);
        struct snic_ebs_io w;
        d->c->servers[0].key_id = wrong[i].key_id;
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 3, 1, &out);
        for (int k = 0; k < 60; k++)
            duo_turn(d, 0);
        assert_true(target_stats(d).writes == 0 && target_stats(d).conns == 0);
        assert_true(target_stats(d).unauthentic > 3);
        for (int k = 0; k < 4000 && d->acts[SNIC_EBS_ACT_DONE] < 1; k++)
            duo_turn(d, 0);
        duo_close(d);
    }
}

/* Client ids are not secret: a client with a key of its own must not end another's connection by
   its id. After a restart the server must find each client's key: a PROBE carries the account. */
static void test_solar_auth_account_keeps_others_connected(void **state)
{
    struct duo *d = accounts_open(1, &account_secrets[0]);
    struct snic_ebs_hello h;
    struct snic_ebs_io w;
    struct solar_conn *n = NULL;
    (void)state;
    auth_write_and_read(d, 3);
    for (uint32_t i = 0; i < d->t->o.conns_max; i++)
        n = d->t->conns[i].used ? &d->t->conns[i] : n;
    assert_non_null(n);
    memset(&h, 0, sizeof(h));
    h.client_id = d->c->client_id;
    h.account = 2;
    h.conn_id = 77;
    h.nonce = 78;
    uint32_t conn_id = n->conn_id;
    struct solar_conn *other_conn =
        solar_conn_hello(d->t, &h, UINT64_C(1) << 60, auth_secret_of(account_secrets, 5, 2));
    assert_true(other_conn != NULL && other_conn != n && other_conn->account == 2);
    assert_true(n->used && n->conn_id == conn_id && n->account == 1);
    auth_write_and_read(d, 4);
    d->k.srv_epoch = 10;
    assert_int_equal(
        snic_solar_target_init(&d->t, d->tmem, snic_solar_target_memsize(&d->k), &d->k, d->now), 0);
    uint64_t before = d->now;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 5, 1, &out);
    duo_until(d, 5);
    assert_true(w.result == 0 && agent_stats(d).resets == 1);
    assert_true(d->now - before < 100000000); /* by the RESET, not by the 5 s time-out */
    duo_close(d);
}

/* Each path numbers its packets separately: a packet of a slow path that is overtaken by thousands
   of packets on others is not a replay. */
static void test_solar_auth_late_packet_of_slow_path_accepted(void **state)
{
    struct duo *d = auth_open(&secret);
    static struct letter late;
    struct snic_ebs_io w;
    (void)state;
    auth_write_and_read(d, 1);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 9, 1, &out);
    for (int i = 0; i < 50 && late.size == 0; i++) {
        duo_turn(d, 0);
        for (uint32_t k = 0; k < d->letters; k++)
            if (d->bag[k].to_target && d->bag[k].bytes[1] == SNIC_EBS_WRITE)
                late = d->bag[k];
        if (late.size != 0)
            duo_turn(d, 1); /* removed here, delivered late below */
    }
    assert_true(late.size != 0);
    for (uint32_t i = 0; i < d->c->path_slots; i++)
        if (i != late.path)
            d->c->servers[0].paths[i].pn += 4 * SNIC_SOLAR__WINDOW;
    duo_until(d, 3);
    assert_int_equal(w.result, 0);
    uint32_t used = 0; /* other paths on which much later numbers arrived */
    for (uint32_t i = 0; i < d->t->o.conns_max; i++)
        for (uint32_t k = 0; d->t->conns[i].used && k < SNIC_EBS_PATHS; k++)
            used += k != late.path && d->t->conns[i].session.seen[k].top >
                                          snic_get_be64(late.bytes + 56) + SNIC_SOLAR__WINDOW;
    assert_true(used > 0);
    struct snic_solar_target_stats before = target_stats(d);
    duo_deliver(d, &late);
    assert_int_equal(target_stats(d).writes, before.writes + 1);
    assert_int_equal(target_stats(d).replayed, before.replayed);
    duo_deliver(d, &late);
    assert_int_equal(target_stats(d).replayed, before.replayed + 1);
    assert_int_equal(target_stats(d).unauthentic, 0);
    duo_close(d);
}

/* The nonce includes the path: one number on two paths gives two ciphertexts, and both open. */
static void test_solar_auth_nonce_is_of_path_and_number(void **state)
{
    static struct solar_session s, to;
    static unsigned char sealed[SNIC_EBS_PATHS][SNIC_EBS_BLOCK_BYTES];
    struct solar_scratch scratch = {.key = &keys[0]}, opens = {.key = &keys[1]};
    unsigned char head[SNIC_EBS_PATHS][SNIC_EBS_PACKET_BYTES], tag[16];
    struct snic_ebs_header h;
    struct snic_ebs_place at;
    (void)state;
    memset(&s, 0, sizeof(s));
    s.ops = &solar_toy_ops;
    s.secret = &secret;
    to = s;
    memset(&h, 0, sizeof(h));
    h.type = SNIC_EBS_WRITE;
    h.flags = SNIC_EBS_AUTH;
    h.pkt_cnt = 1;
    h.u.block.blk_cnt = 1;
    h.pn = UINT64_C(7) << 32 | 5;
    for (uint32_t i = 0; i < SNIC_EBS_PATHS; i++) {
        h.path_id = (uint8_t)i;
        int n = snic_ebs_encode(head[i], sizeof(head[i]), &at, SNIC_EBS_TO_SERVER, &h, block,
                                sizeof(block));
        assert_true(n > 0);
        assert_int_equal(solar_session_seal(&s, &scratch, 0, head[i], &at, sealed[i], block, tag),
                         0);
        memcpy(head[i] + at.body_at, sealed[i], sizeof(block));
        memcpy(head[i] + at.tag_at, tag, sizeof(tag));
        for (uint32_t k = 0; k < i; k++)
            assert_memory_not_equal(sealed[i], sealed[k], 32);
        assert_int_equal(solar_session_seal(&s, &scratch, 0, head[i], &at, sealed[i], block, tag),
                         SNIC_EINVAL); /* a number is sealed once */
    }
    for (uint32_t i = SNIC_EBS_PATHS; i-- > 0;) {
        assert_int_equal(solar_session_open(&to, &opens, 0, head[i], &at, back), 0);
        assert_memory_equal(back, block, sizeof(block));
        assert_int_equal(solar_session_open(&to, &opens, 0, head[i], &at, back), SNIC_EEXIST);
    }
    head[0][20] = SNIC_EBS_PATHS;
    assert_int_equal(solar_session_open(&to, &opens, 0, head[0], &at, back), SNIC_EACCES);
}

/* A flipped bit of header, body or tag is rejected. (The INT block is not authenticated.) */
static void test_solar_auth_any_bit_flipped_rejected(void **state)
{
    struct duo *d = auth_open(&secret);
    struct snic_ebs_io w, r;
    struct letter bad;
    uint32_t flips = 0, done = 0;
    (void)state;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 3, 1, &out);
    while (done < 2) {
        duo_turn(d, 0);
        if (d->acts[SNIC_EBS_ACT_DONE] > done && ++done == 1)
            duo_io(d, &r, SNIC_EBS_IO_READ, 3, 1, &in);
        for (uint32_t i = 0; i < d->letters; i++) {
            uint32_t end = d->bag[i].size, step = end > 512 ? 13 : 1;
            if (d->bag[i].bytes[1] == SNIC_EBS_HELLO || d->bag[i].bytes[1] == SNIC_EBS_HELLO_ACK)
                end = 128; /* the padding is not authenticated */
            for (uint32_t bit = 0; bit < end * 8; bit += step) {
                struct snic_solar_target_stats t = target_stats(d);
                struct snic_solar_stats a = agent_stats(d);
                bad = d->bag[i];
                bad.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
                duo_deliver(d, &bad);
                uint64_t counted = target_stats(d).malformed - t.malformed +
                                   target_stats(d).unauthentic - t.unauthentic +
                                   agent_stats(d).malformed - a.malformed +
                                   agent_stats(d).unauthentic - a.unauthentic;
                assert_int_equal(counted, 1);
                assert_int_equal(target_stats(d).writes, t.writes);
                assert_int_equal(target_stats(d).reads, t.reads);
                assert_int_equal(agent_stats(d).blocks_read, a.blocks_read);
                flips++;
            }
        }
    }
    printf("%u flips, all refused\n", flips);
    assert_true(w.result == 0 && r.result == 0 && flips > 10000);
    assert_memory_equal(back, block, sizeof(block));
    duo_close(d);
}

/* After 2^32 packets both sides derive the next key, without a message, and still accept late
   packets under the previous one. */
static void test_solar_auth_numbers_pass_2_to_32_key_replaced(void **state)
{
    struct duo *d = auth_open(&secret);
    unsigned char first[16];
    (void)state;
    auth_write_and_read(d, 1);
    struct solar_conn *n = NULL;
    for (uint32_t i = 0; i < d->t->o.conns_max; i++)
        n = d->t->conns[i].used ? &d->t->conns[i] : n;
    assert_non_null(n);
    memcpy(first, d->c->servers[0].session.way[0].bytes, sizeof(first));
    for (uint32_t i = 0; i < d->c->path_slots; i++) { /* one path is ahead of the others */
        d->c->servers[0].paths[i].pn |= i == 0 ? 0xfffffffau : 0xffff0000u;
        n->path[i].pn |= i == 0 ? 0xfffffffbu : 0xffff0000u;
    }
    for (uint64_t lba = 2; lba < 12; lba++)
        auth_write_and_read(d, lba);
    assert_memory_not_equal(d->c->servers[0].session.way[0].bytes, first, sizeof(first));
    assert_memory_equal(d->c->servers[0].session.way[0].bytes, n->session.way[0].bytes, 16);
    assert_memory_equal(d->c->servers[0].session.way[1].bytes, n->session.way[1].bytes, 16);
    assert_memory_not_equal(n->session.way[0].bytes, n->session.way[1].bytes, 16);
    uint32_t used = 0;
    for (uint32_t i = 0; i < d->c->path_slots; i++)
        used += d->c->servers[0].paths[i].pn >> 32 == 4 && n->path[i].pn >> 32 == 10;
    assert_true(used >= 1);
    assert_true(agent_stats(d).unauthentic == 0 && target_stats(d).unauthentic == 0);
    duo_close(d);
}

/* A restarted server has no state. The client sends a HELLO only after an authentic RESET. */
static void test_solar_auth_server_restarted_reset_authenticated(void **state)
{
    struct duo *d = auth_open(&secret);
    struct snic_ebs_io w;
    struct snic_ebs_header h;
    unsigned char forged[256];
    (void)state;
    auth_write_and_read(d, 1);
    memset(&h, 0, sizeof(h));
    h.type = SNIC_EBS_RESET;
    h.conn_id = d->c->servers[0].conn_id;
    h.pkt_cnt = 1;
    h.srv_epoch = 9;
    h.u.reset.token = d->c->servers[0].token; /* as by a peer that has read it on the wire */
    h.u.reset.ver_min = h.u.reset.ver_max = SNIC_EBS_VERSION;
    int size = snic_ebs_encode(forged, sizeof(forged), NULL, SNIC_EBS_TO_CLIENT, &h, NULL, 0);
    assert_true(size > 0);
    assert_int_equal(snic_solar_recv(d->c, 0, 0, 0, forged, (size_t)size, 0, d->now), SNIC_EACCES);
    assert_int_equal(agent_stats(d).resets, 0);
    d->k.srv_epoch = 10;
    assert_int_equal(
        snic_solar_target_init(&d->t, d->tmem, snic_solar_target_memsize(&d->k), &d->k, d->now), 0);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 5, 1, &out);
    duo_until(d, 3);
    assert_true(w.result == 0 && agent_stats(d).resets == 1);
    duo_close(d);
}

/* Packet numbers continue when a server is removed and added again: the target takes a HELLO for a
   replay unless its number is above the last one. */
static void test_solar_auth_server_readded_numbers_continue(void **state)
{
    struct duo *d = auth_open(&secret);
    (void)state;
    auth_write_and_read(d, 1);
    for (uint64_t i = 2; i < 5; i++) {
        uint64_t pn = 0;
        for (uint32_t k = 0; k < d->c->path_slots; k++)
            pn = snic_max_u64(pn, d->c->servers[0].paths[k].pn);
        assert_int_equal(snic_solar_server_remove(d->c, 0, 1, d->now), 0);
        assert_int_equal(snic_solar_server_add(d->c, 0, d->now), 0);
        assert_int_equal(snic_solar_server_auth(d->c, 0, &secret, 0, 0), 0);
        for (uint32_t k = 0; k < d->c->path_slots; k++)
            assert_true(d->c->servers[0].paths[k].pn >= pn);
        assert_int_equal(d->c->servers[0].session.way[0].known,
                         0); /* keys end with the connection */
        auth_write_and_read(d, i);
    }
    assert_true(agent_stats(d).unauthentic == 0 && target_stats(d).unauthentic == 0);
    assert_true(agent_stats(d).replayed == 0 && target_stats(d).replayed == 0);
    duo_close(d);
}

/* The replay window accepts each of the last 2048 numbers once, in any order. */
static void test_solar_auth_window_each_number_once(void **state)
{
    static struct solar_window w;
    static unsigned char received[20000];
    struct snic_rng r;
    uint64_t top = 0;
    (void)state;
    snic_rng_init(&r, support_seed());
    memset(&w, 0, sizeof(w));
    for (uint32_t i = 0; i < 200000; i++) {
        uint64_t low = top > 3000 ? top - 3000 : 1, pn = low + snic_rng_below(&r, top - low + 20);
        if (pn >= sizeof(received))
            break;
        int fresh = pn > top || (top - pn < SNIC_SOLAR__WINDOW && !received[pn]);
        assert_int_equal(solar_window_fresh(&w, pn), fresh);
        if (!fresh)
            continue;
        solar_window_mark(&w, pn);
        received[pn] = 1;
        top = snic_max_u64(top, pn);
    }
    solar_window_mark(&w, UINT64_C(1) << 40);
    assert_int_equal(solar_window_fresh(&w, top), 0);
    assert_int_equal(solar_window_fresh(&w, (UINT64_C(1) << 40) - 5), 1);
}

/* AUTH without cipher or wire keys is refused, and so is a secret that is set after the HELLO. */
static void test_solar_auth_options_incomplete_refused(void **state)
{
    struct snic_solar_opts o = {.opts_size = sizeof(o), .client_epoch = 1};
    struct snic_solar_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 1};
    (void)state;
    o.flags = k.flags = SNIC_SOLAR_AUTH;
    assert_int_equal(snic_solar_memsize(&o) + snic_solar_target_memsize(&k), 0);
    o.sec = k.sec = &solar_toy_ops;
    o.wire_keys[0] = o.wire_keys[1] = k.wire_keys[0] = &keys[0];
    k.wire_keys[1] = &keys[1];
    assert_int_equal(snic_solar_memsize(&o) + snic_solar_target_memsize(&k), 0);
    struct duo *d = auth_open(&secret);
    for (int i = 0; i < 10; i++)
        duo_turn(d, 0);
    assert_int_equal(snic_solar_server_auth(d->c, 0, &other, 1, 0), SNIC_EBUSY);
    assert_int_equal(snic_solar_server_auth(d->c, 1, &other, 1, 0), SNIC_ENOENT);
    assert_int_equal(snic_solar_server_auth(d->c, 0, NULL, 1, 0), SNIC_EINVAL);
    duo_close(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_auth_data_arrive_encrypted),
        cmocka_unit_test(test_solar_auth_wrong_secret_no_connection),
        cmocka_unit_test(test_solar_auth_replayed_packets_are_refused),
        cmocka_unit_test(test_solar_auth_account_without_its_key_rejected),
        cmocka_unit_test(test_solar_auth_account_keeps_others_connected),
        cmocka_unit_test(test_solar_auth_late_packet_of_slow_path_accepted),
        cmocka_unit_test(test_solar_auth_nonce_is_of_path_and_number),
        cmocka_unit_test(test_solar_auth_any_bit_flipped_rejected),
        cmocka_unit_test(test_solar_auth_numbers_pass_2_to_32_key_replaced),
        cmocka_unit_test(test_solar_auth_server_restarted_reset_authenticated),
        cmocka_unit_test(test_solar_auth_server_readded_numbers_continue),
        cmocka_unit_test(test_solar_auth_window_each_number_once),
        cmocka_unit_test(test_solar_auth_options_incomplete_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
