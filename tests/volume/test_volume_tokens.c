/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Block servers that open disks to tokens alone: what a client may do is what it has shown a valid
 * token for, whatever its packets claim; keys are exchanged and tokens renewed while I/O continues.
 */
#include "sim/solar_cipher.h"
#include "test_volume_util.h"

enum { SIZE = 1u << 20, OLD = 0x01d, NEW = 0x4e3, HOUR = 3600 };

static struct solar_toy_key wire[VOLFIX_SERVERS + 1][2];
static struct solar_toy_key seven = {{11, 12}}, eight = {{11, 13}};
static struct solar_toy_key signing[2] = {{{21, 22}}, {{23, 24}}};
static uint32_t known; /* bit 0: servers have the old key, bit 1: the new one */

static void *secret_of(void *ctx, uint32_t key_id, uint32_t account)
{
    (void)ctx;
    (void)key_id;
    return account == 7 ? &seven : account == 8 ? &eight : NULL;
}

static void *token_key(void *ctx, uint32_t key_id)
{
    (void)ctx;
    if (key_id == OLD && (known & 1) != 0)
        return &signing[0];
    return key_id == NEW && (known & 2) != 0 ? &signing[1] : NULL;
}

/* All begin anew: the client is that account, with a token that permits @p rights. */
static void begin(uint32_t account, uint32_t rights)
{
    volfix_client_kill(&fix);
    known = 1;
    fix.sec = &solar_toy_ops;
    int luna = fix.transport == SNIC_VOLUME_LUNA; /* which has no secrets */
    fix.secret_of = luna ? NULL : secret_of;
    fix.account = account;
    fix.client_secret = luna ? NULL : account == 7 ? &seven : &eight;
    fix.token_key = token_key;
    fix.token_key_id = OLD;
    fix.token_rights = rights;
    fix.token_seconds = HOUR;
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

static int setup(uint32_t transport)
{
    buffer = aligned_alloc(4096, SIZE);
    assert_non_null(buffer);
    volfix_start(&fix, transport, support_seed(), 2);
    begin(7, SNIC_EBS_MAY_ALL);
    return 0;
}

static struct snic_volume_server_stats stats(uint32_t server)
{
    struct snic_volume_server_stats s;
    snic_volume_server_get_stats(fix.server[server].s, &s);
    return s;
}

static struct snic_ebs_token claims(void)
{
    return (struct snic_ebs_token){.vd_id = VOLFIX_VD,
                                   .not_after = volfix_unix(&fix) + HOUR,
                                   .key_id = OLD,
                                   .account = fix.account,
                                   .gen = snic_volume_gen(fix.epoch, 0),
                                   .rights = SNIC_EBS_MAY_ALL};
}

static void writes_and_reads(void)
{
    for (uint32_t i = 0; i < SIZE / 4096; i++)
        memset(buffer + (size_t)i * 4096, (int)(i % 251 + 1), 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, SIZE, buffer), SIZE);
    memset(buffer, 0, SIZE);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, SIZE, buffer), SIZE);
    for (uint32_t i = 0; i < SIZE / 4096; i++)
        assert_true(all_are(buffer + (size_t)i * 4096, 4096, (int)(i % 251 + 1)));
}

static void nothing_is_done(void)
{
    struct snic_volume_server_stats was = stats(0);
    memset(buffer, 9, 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_EPERM);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), SNIC_EPERM);
    assert_int_equal(volfix_io(&fix, SNIC_IO_ZERO, 0, 4096, NULL), SNIC_EPERM);
    assert_int_equal(stats(0).writes, was.writes);
    assert_int_equal(stats(0).reads, was.reads);
}

/* Over a stream they come before what needs them: nothing is refused on the way. */
static void test_volume_tokens_are_shown_first(void **state)
{
    (void)state;
    writes_and_reads();
    assert_true(stats(0).tokens >= 1 && stats(0).no_token == 0);
    volfix_server_kill(&fix, 0, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    writes_and_reads();
    assert_true(stats(0).tokens >= 1 && stats(0).no_token == 0);
}

/* A client without a token has a key of the wire, and that opens no disk. */
static void test_volume_tokens_open_a_disk(void **state)
{
    (void)state;
    writes_and_reads();
    assert_true(stats(0).tokens >= 1);
    begin(7, 0);
    nothing_is_done();
    assert_int_equal(volfix_states(&fix, 0, buffer), SNIC_EPERM);
    assert_true(stats(0).no_token >= 3 && stats(0).tokens == 0);
    fix.token_rights = SNIC_EBS_MAY_ALL;
    volfix_token(&fix); /* it comes later */
    writes_and_reads();
    /* A server that has forgotten it is shown it again, and the client's own restart changes
       nothing. */
    volfix_server_kill(&fix, 0, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    writes_and_reads();
    volfix_client_kill(&fix);
    volfix_client_start(&fix);
    writes_and_reads();
}

static void test_volume_tokens_permit_their_rights(void **state)
{
    (void)state;
    writes_and_reads();
    begin(7, SNIC_EBS_MAY_READ);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_EPERM);
    /* SOLAR's write has a fence, too. */
    assert_true(stats(0).forbidden >= (fix.transport == SNIC_VOLUME_SOLAR ? 2u : 1u));
    begin(7, SNIC_EBS_MAY_WRITE);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), SNIC_EPERM);
}

/* Each is a token that a client has, or makes of one: none opens the disk, and all that is refused
   is refused alike. */
static void test_volume_tokens_of_others_open_nothing(void **state)
{
    static struct solar_toy_key forger = {{21, 23}};
    struct snic_ebs_token t;
    (void)state;
    fix.tokens_max = 8; /* all have the same places */
    begin(7, 0);
    if (fix.transport == SNIC_VOLUME_SOLAR) {
        t = claims();
        t.account = 8; /* stolen */
        volfix_token_is(&fix, &t, &signing[0]);
        nothing_is_done();
        assert_true(stats(0).tokens == 0 && stats(0).tokens_refused > 0);
    }
    t = claims();
    t.vd_id++; /* of another disk of this account */
    volfix_token_is(&fix, &t, &signing[0]);
    memset(buffer, 9, 4096);
    fix.token_mute = 1;
    volfix_load(&fix, 4);
    volfix_run(&fix, 500 * VOLFIX_MS);
    assert_true(fix.inflight > 0 && stats(0).writes + stats(0).reads == 0);
    assert_true(stats(0).no_token < 10000); /* it does not get requests without pause */
    t = claims();
    volfix_token_is(&fix, &t, &forger);
    volfix_run(&fix, 500 * VOLFIX_MS);
    assert_true(fix.inflight == 0 && stats(0).writes + stats(0).reads == 0);
    fix.why[0] = 0;
    begin(7, 0);
    fix.why[0] = 0;
    for (uint32_t i = 0; i < 4; i++) { /* signed with no key; changed; of another form */
        unsigned char token[SNIC_EBS_TOKEN_BYTES] = {0};
        t = claims();
        t.rights = SNIC_EBS_MAY_READ;
        if (i > 0)
            assert_int_equal(snic_ebs_token_sign(token, &t, &solar_toy_ops, &signing[0]), 0);
        if (i == 2)
            token[1] = SNIC_EBS_MAY_ALL;
        if (i == 3)
            token[63] ^= 1;
        assert_int_equal(snic_volume_disk_token(fix.v, 0, token), 0);
        if (i == 0)
            nothing_is_done();
        else /* what the second one permits stays, and no more */
            assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_EPERM);
    }
    assert_int_equal(stats(0).writes, 0);
}

/* A key that the server does not have is counted as that: an operator has to replace a file. */
static void test_volume_tokens_of_a_key_that_is_missing(void **state)
{
    (void)state;
    begin(7, 0);
    struct snic_ebs_token t = claims();
    t.key_id = NEW;
    fix.token_mute = 1;
    volfix_token_is(&fix, &t, &signing[1]);
    volfix_load(&fix, 4);
    volfix_run(&fix, 500 * VOLFIX_MS);
    assert_true(fix.inflight > 0 && fix.failed == 0);
    assert_true(stats(0).tokens_no_key > 0 && stats(0).tokens_expired == 0);
    assert_int_equal(stats(0).tokens_refused, stats(0).tokens_no_key);
    known = 3;
    volfix_run(&fix, 4000 * VOLFIX_MS);
    assert_true(fix.inflight == 0 && fix.failed == 0);
}

/* An expired one does nothing, and its I/O waits for another one, which is asked for. */
static void test_volume_tokens_expire_and_are_renewed(void **state)
{
    (void)state;
    begin(7, SNIC_EBS_MAY_ALL);
    fix.token_seconds = 2;
    volfix_token(&fix);
    volfix_load(&fix, 100);
    volfix_run(&fix, 200 * VOLFIX_MS);
    assert_int_equal(fix.inflight, 0);
    fix.token_mute = 1;
    fix.unix_later = 4;
    struct snic_volume_server_stats was = stats(0);
    fix.token_requests = 0;
    volfix_load(&fix, 8);
    volfix_run(&fix, 3500 * VOLFIX_MS);
    assert_true(fix.inflight > 0 && fix.failed == 0);
    assert_int_equal(stats(0).writes, was.writes);
    assert_int_equal(stats(0).reads, was.reads);
    assert_true(fix.token_requests >= 3 && fix.token_requests <= 5); /* once a second */
    assert_true(stats(0).tokens_refused > 0 && stats(0).tokens_no_key == 0);
    assert_int_equal(stats(0).tokens_expired, stats(0).tokens_refused);
    fix.token_mute = 0;
    volfix_run(&fix, 2000 * VOLFIX_MS);
    assert_true(fix.inflight == 0 && fix.failed == 0);
    /* Renewed in time nothing waits at all. */
    fix.token_requests = 0;
    for (uint32_t i = 0; i < 8; i++) {
        volfix_token(&fix);
        volfix_load(&fix, 200);
        volfix_run(&fix, 1000 * VOLFIX_MS);
    }
    volfix_run(&fix, 100 * VOLFIX_MS);
    assert_true(fix.inflight == 0 && fix.failed == 0 && fix.token_requests == 0);
    volfix_check(&fix);
}

/* A new key is known before it is used; the old one is taken away at once. */
static void test_volume_tokens_keys_are_exchanged(void **state)
{
    (void)state;
    begin(7, SNIC_EBS_MAY_ALL);
    volfix_load(&fix, 100);
    volfix_run(&fix, 200 * VOLFIX_MS);
    known = 3;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_volume_server_tokens(fix.server[i].s), 0);
    fix.token_key_id = NEW;
    fix.token_requests = 0;
    volfix_load(&fix, 400);
    volfix_run(&fix, 5 * VOLFIX_MS);
    known = 2; /* the client has not heard of it */
    uint32_t ended = 0;
    for (uint32_t i = 0; i < 2; i++)
        ended += snic_volume_server_tokens(fix.server[i].s);
    assert_true(ended > 0);
    volfix_run(&fix, 5000 * VOLFIX_MS);
    assert_true(fix.inflight == 0 && fix.failed == 0 && fix.token_requests >= 1);
    volfix_check(&fix);
    /* One that is signed with it still opens nothing. */
    volfix_client_kill(&fix);
    fix.token_key_id = OLD;
    fix.token_rights = 0;
    volfix_client_start(&fix);
    struct snic_ebs_token t = claims();
    struct snic_volume_server_stats was = stats(0);
    fix.token_mute = 1;
    volfix_token_is(&fix, &t, &signing[0]);
    volfix_load(&fix, 4);
    volfix_run(&fix, 2000 * VOLFIX_MS);
    assert_true(fix.inflight > 0 && stats(0).writes == was.writes && stats(0).reads == was.reads);
}

/* A token is of a lease: it opens nothing to a client that claims a later one, and nothing any more
   once a later one is stored. */
static void test_volume_tokens_are_of_a_lease(void **state)
{
    struct snic_segments_stat stat;
    struct snic_ebs_token t;
    (void)state;
    begin(7, SNIC_EBS_MAY_ALL);
    writes_and_reads();
    struct snic_segments *store = snic_volume_server_store(fix.server[0].s);
    assert_int_equal(snic_segments_find(store, 100, &stat), 0);
    fix.token_mute = 1;
    uint32_t gen_before = fix.place[0].gen;
    fix.place[0].gen += 1u << 16; /* its own claim */
    assert_int_equal(snic_volume_map(fix.v, 0, 0, 100, 0, fix.place[0].gen), 0);
    struct snic_volume_server_stats was = stats(0);
    volfix_load(&fix, 4);
    volfix_run(&fix, 1000 * VOLFIX_MS);
    uint32_t gen = stat.gen;
    assert_int_equal(snic_segments_find(store, 100, &stat), 0);
    assert_int_equal(stat.gen, gen); /* none was fenced */
    assert_true(stats(0).no_token > was.no_token);
    volfix_client_kill(&fix);
    fix.why[0] = 0;
    fix.place[0].gen = gen_before;
    fix.token_mute = 0;
    volfix_client_start(&fix);
    writes_and_reads();
    /* Another client has the next lease, as a catalog gives it; the first keeps its token. */
    struct snic_segments_req q = {.op = SNIC_SEGMENTS_SET_GEN, .seg_id = 100};
    q.gen = snic_volume_gen(fix.epoch + 1, 0);
    assert_int_equal(volfix_store(&fix, 0, &q), 0);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), SNIC_ESTALE);
    assert_int_equal(snic_volume_map(fix.v, 0, 0, 100, 0, q.gen), 0); /* it claims to have it */
    was = stats(0);
    t = claims();
    t.not_after++;
    volfix_token_is(&fix, &t, &signing[0]);
    volfix_load(&fix, 2);
    volfix_run(&fix, 500 * VOLFIX_MS);
    assert_int_equal(stats(0).writes, was.writes);
    volfix_client_kill(&fix);
    fix.why[0] = 0;
    fix.epoch++;
    fix.place[0].gen = q.gen;
    volfix_client_start(&fix);
    writes_and_reads();
}

/* More disks than places: none is refused for ever, and what is shown again is counted. */
static void test_volume_tokens_table_is_bounded(void **state)
{
    struct snic_volume_server_opts s = {.opts_size = sizeof(s), .disks = 1};
    struct snic_ebs_token t;
    (void)state;
    volfix_client_kill(&fix);
    fix.tokens_max = 8;
    volfix_client_start(&fix);
    begin(7, SNIC_EBS_MAY_ALL);
    writes_and_reads();
    for (uint32_t i = 1; i <= 80; i++) {
        t = claims();
        t.vd_id += i;
        volfix_token_is(&fix, &t, &signing[0]);
        volfix_run(&fix, 2 * VOLFIX_MS);
        if (i % 8 == 7) {
            volfix_token(&fix);
            writes_and_reads();
        }
    }
    assert_true(stats(0).tokens_evicted >= 64);
    s.loop = fix.server[0].loop;
    s.net = fix.server[0].net;
    s.io = &fix.server[0].io;
    s.transports = SNIC_VOLUME_SERVES(SNIC_VOLUME_SOLAR);
    assert_true(snic_volume_server_memsize(&s) > 0);
    s.token_key = token_key;
    s.sec = &solar_toy_ops;
    assert_int_equal(snic_volume_server_memsize(&s), 0); /* no clock */
    s.unix_time = (uint64_t(*)(void *))(void (*)(void))volfix_unix;
    assert_true(snic_volume_server_memsize(&s) > 0);
    s.tokens_max = 7;
    assert_int_equal(snic_volume_server_memsize(&s), 0);
    s.tokens_max = (1u << 20) + 1;
    assert_int_equal(snic_volume_server_memsize(&s), 0);
}

#define BOTH(name)                                                                                 \
    {#name "_solar", name, setup_solar, teardown, NULL},                                           \
    {                                                                                              \
#name "_luna", name, setup_luna, teardown, NULL                                            \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {{"test_volume_tokens_are_shown_first_luna",
                                        test_volume_tokens_are_shown_first, setup_luna, teardown,
                                        NULL},
                                       BOTH(test_volume_tokens_open_a_disk),
                                       BOTH(test_volume_tokens_permit_their_rights),
                                       BOTH(test_volume_tokens_of_others_open_nothing),
                                       BOTH(test_volume_tokens_expire_and_are_renewed),
                                       BOTH(test_volume_tokens_of_a_key_that_is_missing),
                                       BOTH(test_volume_tokens_keys_are_exchanged),
                                       BOTH(test_volume_tokens_are_of_a_lease),
                                       BOTH(test_volume_tokens_table_is_bounded)};
    return SUPPORT_MAIN(argc, argv, tests);
}
