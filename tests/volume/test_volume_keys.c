/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Keys: a disk that is encrypted at rest, read with its key, another, and none; servers that take
 * sealed packets only.
 */
#include "sim/solar_cipher.h"
#include "test_volume_util.h"

enum { SIZE = 1u << 20 };

static struct snic_ebs_sec_ops ops;
static struct solar_toy_key wire[VOLFIX_SERVERS + 1][2];
static struct solar_toy_key secret = {{11, 12}}, other = {{11, 13}};
static struct solar_toy_key disk = {{21, 22}}, disk_other = {{21, 23}};

/* As little of a cipher as the others of solar_cipher.c. */
static int toy_xts(void *key, uint64_t unit, void *out, const void *in, size_t size)
{
    const struct solar_toy_key *k = key;
    const unsigned char *from = in;
    unsigned char *to = out;
    struct snic_rng rng;
    snic_rng_init(&rng, k->bytes[0] ^ k->bytes[1] << 20 ^ unit << 32);
    for (size_t i = 0; i < size; i += 8)
        snic_put_le64(to + i, snic_get_le64(from + i) ^ snic_rng_next(&rng));
    return 0;
}

static int setup(uint32_t transport)
{
    buffer = aligned_alloc(4096, SIZE);
    assert_non_null(buffer);
    ops = solar_toy_ops;
    ops.xts_encrypt = ops.xts_decrypt = toy_xts;
    volfix_start(&fix, transport, support_seed(), 2);
    return 0;
}

/* The next client has the disk's key @p key. */
static void client_with(void *key)
{
    volfix_client_kill(&fix);
    fix.sec = &ops;
    fix.xts_key = key;
    volfix_client_start(&fix);
}

/* What a server has of block 0. */
static void stored(unsigned char *to)
{
    struct snic_segments_block b = {.data = to};
    struct snic_segments_req q = {.op = SNIC_SEGMENTS_READ, .seg_id = 100, .count = 1};
    q.flags = SNIC_SEGMENTS_ANY_GEN;
    q.blocks = &b;
    assert_int_equal(volfix_store(&fix, 0, &q), 0);
}

static void test_volume_keys_at_rest_is_ciphertext(void **state)
{
    (void)state;
    client_with(&disk);
    memset(buffer, 7, SIZE);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, SIZE, buffer), SIZE);
    stored(buffer);
    uint32_t same = 0;
    for (uint32_t i = 0; i < 4096; i++)
        same += buffer[i] == 7;
    assert_true(same < 100);
    memset(buffer, 0, SIZE);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, SIZE, buffer), SIZE);
    assert_true(all_are(buffer, SIZE, 7));
    /* The server reports states of blocks in the clear. */
    assert_int_equal(volfix_states(&fix, 0, buffer), 4096);
    assert_int_equal(buffer[0], SNIC_EBS_STATE_DATA);
    assert_int_equal(buffer[4095], 0);
}

/* Neither gets bytes; what is written anew is there for its writer only. */
static void test_volume_keys_another_or_none_reads_nothing(void **state)
{
    void *const keys[] = {&disk_other, NULL};
    (void)state;
    client_with(&disk);
    memset(buffer, 7, SIZE);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, SIZE, buffer), SIZE);
    assert_int_equal(volfix_io(&fix, SNIC_IO_ZERO, 3u << 19, 65536, NULL), 65536);
    for (uint32_t i = 0; i < SNIC_COUNTOF(keys); i++) {
        client_with(keys[i]);
        assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 4096, 4096, buffer), SNIC_ECORRUPT);
        assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 65536, buffer), SNIC_ECORRUPT);
        assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 3u << 19, 65536, buffer), 65536);
        assert_true(all_are(buffer, 65536, 0)); /* zeros need no key */
        memset(buffer, 8, 8192);
        assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 1u << 19, 8192, buffer), 8192);
        memset(buffer, 0, 8192);
        assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 1u << 19, 8192, buffer), 8192);
        assert_true(all_are(buffer, 8192, 8));
    }
    client_with(&disk);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 65536, buffer), 65536);
    assert_true(all_are(buffer, 65536, 7));
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 1u << 19, 8192, buffer), SNIC_ECORRUPT);
}

/* A disk without a key, and one that has had none before. */
static void test_volume_keys_plain_is_not_read_with_one(void **state)
{
    (void)state;
    memset(buffer, 7, 65536);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 65536, buffer), 65536);
    client_with(&disk);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 65536, buffer), SNIC_ECORRUPT);
    client_with(NULL);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 65536, buffer), 65536);
    assert_true(all_are(buffer, 65536, 7));
}

/* ---- On the wire ---- */

static void sealed(void *server_secret, void *client_secret)
{
    volfix_client_kill(&fix);
    fix.sec = &ops;
    fix.server_secret = server_secret;
    fix.client_secret = client_secret;
    for (uint32_t i = 0; i < VOLFIX_SERVERS; i++)
        for (uint32_t k = 0; k < 2; k++)
            fix.server_wire[i][k] = &wire[i][k];
    for (uint32_t k = 0; k < 2; k++)
        fix.client_wire[k] = &wire[VOLFIX_SERVERS][k];
    for (uint32_t i = 0; i < 2; i++) {
        volfix_server_stop(&fix, i);
        assert_int_equal(volfix_server_start(&fix, i), 0);
    }
    volfix_client_start(&fix);
}

static struct snic_solar_target_stats target(void)
{
    struct snic_volume_server_stats s;
    snic_volume_server_get_stats(fix.server[0].s, &s);
    return s.target;
}

/* Blocks that differ: they come together, and each is where it was meant to be. */
static void written_and_read(void)
{
    for (uint32_t i = 0; i < SIZE / 4096; i++)
        memset(buffer + (size_t)i * 4096, (int)(i % 251 + 1), 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, SIZE, buffer), SIZE);
    memset(buffer, 0, SIZE);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, SIZE, buffer), SIZE);
    for (uint32_t i = 0; i < SIZE / 4096; i++)
        assert_true(all_are(buffer + (size_t)i * 4096, 4096, (int)(i % 251 + 1)));
    volfix_server_kill(&fix, 0, SNIC_FAULT_KEEP_NONE); /* from its memory, and from its log */
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    memset(buffer, 0, SIZE);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, SIZE, buffer), SIZE);
    for (uint32_t i = 0; i < SIZE / 4096; i++)
        assert_true(all_are(buffer + (size_t)i * 4096, 4096, (int)(i % 251 + 1)));
}

static void test_volume_keys_sealed_is_written_and_read(void **state)
{
    (void)state;
    sealed(&secret, &secret);
    written_and_read();
    client_with(&disk);
    written_and_read();
    assert_int_equal(volfix_io(&fix, SNIC_IO_ZERO, 0, SIZE, NULL), SIZE);
    assert_int_equal(target().unauthentic, 0);
    volfix_server_kill(&fix, 0, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    memset(buffer, 1, SIZE);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, SIZE, buffer), SIZE);
    assert_true(all_are(buffer, SIZE, 0));
}

/* Nothing is done for a client with another secret, or none, or without an account; its requests
   have no answer. */
static void test_volume_keys_another_secret_does_nothing(void **state)
{
    void *const pairs[][2] = {{&secret, &other}, {&secret, NULL}, {NULL, &secret}};
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(pairs); i++) {
        sealed(pairs[i][0], pairs[i][1]);
        fix.suspects = 0;
        volfix_load(&fix, 4);
        volfix_run(&fix, 2000 * VOLFIX_MS);
        assert_true(fix.inflight > 0);
        assert_int_equal(fix.suspects, 2);
        struct snic_solar_target_stats t = target();
        assert_true(t.writes == 0 && t.reads == 0 && t.conns == 0);
        assert_int_equal(t.unauthentic != 0, pairs[i][0] != NULL);
        volfix_client_kill(&fix);
        fix.wanted = fix.begun;
        fix.why[0] = 0;
        volfix_client_start(&fix);
    }
    sealed(&secret, &secret);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), 4096);
}

/* ---- A key for each client, and what it may do ---- */

static void *secret_of(void *ctx, uint32_t key_id, uint32_t account)
{
    (void)ctx;
    (void)key_id;
    return account == 7 ? &secret : account == 8 ? &other : NULL;
}

static void accounts(uint32_t account, void *key, uint32_t rights)
{
    fix.secret_of = secret_of;
    fix.account = account;
    fix.rights = rights;
    sealed(NULL, key);
}

static uint64_t forbidden(void)
{
    struct snic_volume_server_stats s;
    snic_volume_server_get_stats(fix.server[0].s, &s);
    return s.forbidden;
}

/* Each may do with a disk what it was granted: all else is refused, also when it was granted
   before, and whatever stands there, in the segment or in its generation. */
static void test_volume_keys_rights_are_each_accounts(void **state)
{
    const uint32_t all = SNIC_VOLUME_MAY_READ | SNIC_VOLUME_MAY_WRITE;
    struct snic_segments_stat stat;
    (void)state;
    accounts(7, &secret, all);
    written_and_read();
    assert_int_equal(fix.rights_account, 7);
    fix.rights = SNIC_VOLUME_MAY_READ;
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 8192, buffer), 8192);
    memset(buffer + 8192, 99, 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer + 8192), SNIC_EPERM);
    assert_int_equal(volfix_io(&fix, SNIC_IO_ZERO, 0, 4096, NULL), SNIC_EPERM);
    assert_true(forbidden() >= 4); /* and their fences */
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer + 8192), 4096);
    assert_memory_equal(buffer, buffer + 8192, 4096);
    fix.rights = SNIC_VOLUME_MAY_WRITE;
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), SNIC_EPERM);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
    /* A read of a later lease fences those before it, but none by an account that may only read. */
    for (uint32_t may = SNIC_VOLUME_MAY_READ; may <= all; may += SNIC_VOLUME_MAY_WRITE) {
        accounts(7, &secret, may);
        assert_int_equal(snic_segments_find(snic_volume_server_store(fix.server[0].s), 100, &stat),
                         0);
        uint32_t was = stat.gen, known = fix.place[0].gen;
        fix.place[0].gen = was + (1u << 16);
        assert_int_equal(snic_volume_map(fix.v, 0, 0, 100, 0, fix.place[0].gen), 0);
        assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), 4096);
        assert_int_equal(snic_segments_find(snic_volume_server_store(fix.server[0].s), 100, &stat),
                         0);
        assert_int_equal(stat.gen > was, may == all);
        fix.place[0].gen = may == all ? stat.gen : known;
        fix.epoch += may == all;
    }
    accounts(8, &other, 0);
    struct snic_segments *store = snic_volume_server_store(fix.server[0].s);
    assert_int_equal(snic_segments_find(store, 100, &stat), 0);
    uint32_t gen = stat.gen;
    for (uint32_t i = 0; i < 3; i++) { /* of this generation, an older and a later one: all alike */
        uint64_t before = forbidden();
        fix.place[0].gen = gen + i - 1;
        volfix_client_kill(&fix);
        assert_int_equal(fix.rights, 0);
        fix.place[0].gen = 0; /* it is not raised */
        volfix_client_start(&fix);
        fix.place[0].gen = gen + i - 1;
        assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), SNIC_EPERM);
        assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_EPERM);
        assert_true(forbidden() >= before + 3);
        assert_int_equal(snic_segments_find(store, 100, &stat), 0);
        assert_int_equal(stat.gen, gen);
        assert_int_equal(fix.rights_account, 8);
        assert_int_equal(fix.leases, 0);
    }
    accounts(8, &secret, all); /* whose key is another's */
    volfix_load(&fix, 4);
    volfix_run(&fix, 2000 * VOLFIX_MS);
    assert_true(fix.inflight > 0 && target().unauthentic > 0 && target().conns == 0);
    volfix_client_kill(&fix);
    fix.wanted = fix.begun;
    fix.why[0] = 0;
    volfix_client_start(&fix);
    fix.secret_of = NULL;
    fix.account = 0;
    sealed(NULL, NULL);
}

static void test_volume_keys_options_checked(void **state)
{
    struct snic_volume_opts o = {.opts_size = sizeof(o), .client_epoch = 1};
    struct snic_volume_server_opts s = {.opts_size = sizeof(s), .disks = 1};
    (void)state;
    o.loop = fix.loop;
    o.net = fix.net;
    o.secret = &secret;
    support_names(snic_volume_opts_wrong(&o), "flags");
    assert_int_equal(snic_volume_memsize(&o), 0); /* no ciphers */
    o.sec = &ops;
    support_names(snic_volume_opts_wrong(&o), "flags");
    assert_int_equal(snic_volume_memsize(&o), 0);
    o.wire_keys[0] = &wire[0][0];
    o.wire_keys[1] = &wire[0][1];
    assert_true(snic_volume_memsize(&o) > 0);
    o.transport = SNIC_VOLUME_LUNA; /* has none */
    support_names(snic_volume_opts_wrong(&o), "secret");
    assert_int_equal(snic_volume_memsize(&o), 0);
    s.loop = fix.server[0].loop;
    s.net = fix.server[0].net;
    s.io = &fix.server[0].io;
    assert_true(snic_volume_server_memsize(&s) > 0);
    s.secret = &secret;
    support_names(snic_volume_server_opts_wrong(&s), "flags");
    assert_int_equal(snic_volume_server_memsize(&s), 0);
    s.sec = &ops;
    s.wire_keys[0] = &wire[0][0];
    s.wire_keys[1] = &wire[0][1];
    assert_true(snic_volume_server_memsize(&s) > 0);
    s.transports = SNIC_VOLUME_SERVES(SNIC_VOLUME_LUNA);
    support_names(snic_volume_server_opts_wrong(&s), "transports");
    assert_int_equal(snic_volume_server_memsize(&s), 0);
    s.transports |= SNIC_VOLUME_SERVES(SNIC_VOLUME_SOLAR);
    support_names(snic_volume_server_opts_wrong(&s), "transports");
    assert_int_equal(snic_volume_server_memsize(&s), 0);
    s.transports = SNIC_VOLUME_SERVES(SNIC_VOLUME_SOLAR);
    assert_true(snic_volume_server_memsize(&s) > 0);
    s.flags = 2;
    support_names(snic_volume_server_opts_wrong(&s), "flags");
    assert_int_equal(snic_volume_server_memsize(&s), 0);
}

#define BOTH(name)                                                                                 \
    {#name "_solar", name, setup_solar, teardown, NULL},                                           \
    {                                                                                              \
#name "_luna", name, setup_luna, teardown, NULL                                            \
    }
#define SOLAR(name)                                                                                \
    {                                                                                              \
#name, name, setup_solar, teardown, NULL                                                   \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {BOTH(test_volume_keys_at_rest_is_ciphertext),
                                       BOTH(test_volume_keys_another_or_none_reads_nothing),
                                       BOTH(test_volume_keys_plain_is_not_read_with_one),
                                       SOLAR(test_volume_keys_sealed_is_written_and_read),
                                       SOLAR(test_volume_keys_another_secret_does_nothing),
                                       SOLAR(test_volume_keys_rights_are_each_accounts),
                                       SOLAR(test_volume_keys_options_checked)};
    return SUPPORT_MAIN(argc, argv, tests);
}
