/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Ciphers that fail at any call, and keys that change by themselves. */
#include "test_replica_sealed_peer.h"

#include "support.h"

#include <string.h>

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
static void test_replica_ciphers_seal_fails(void **state)
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
static void test_replica_ciphers_any_call_fails(void **state)
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
                memcpy(other_conn.other, peer.hello.nonce, 16);
                other_conn.out.count = other_conn.in.count = 0;
                assert_int_equal(replica_conn_keys(&other, &other_conn, &other_session), 0);
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
static void test_replica_ciphers_next_key_fails(void **state)
{
    (void)state;
    begin_failing();
    for (uint32_t out = 0; out < 2; out++) {
        sealed_up();
        struct replica_conn *up = fix.r->peers[1].conn;
        struct replica_key *node = out ? &up->out : &up->in;
        struct replica_key *mine = out ? &other_conn.in : &other_conn.out;
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
static void test_replica_ciphers_key_changes(void **state)
{
    (void)state;
    begin_sealed();
    sealed_up();
    struct replica_conn *up = fix.r->peers[1].conn;
    struct replica_key before = other_conn.out;
    other_conn.out.count = up->in.count = (UINT64_C(1) << 24) - 2;
    other_conn.in.count = up->out.count = (UINT64_C(1) << 24) - 2;
    for (uint32_t i = 0; i < 5; i++) {
        peer_send(block, sealed_ping());
        run(5 * (uint64_t)MS);
        assert_int_equal(sealed_read(), 1);
    }
    assert_memory_not_equal(before.bytes, other_conn.out.bytes, 16);
    assert_memory_equal(up->in.bytes, other_conn.out.bytes, 16);
    end_sealed();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_ciphers_seal_fails),
        cmocka_unit_test(test_replica_ciphers_any_call_fails),
        cmocka_unit_test(test_replica_ciphers_next_key_fails),
        cmocka_unit_test(test_replica_ciphers_key_changes),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
