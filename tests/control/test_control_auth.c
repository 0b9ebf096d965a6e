/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Authentication of connections, and the data that accounts are sent: those of their own disks
 * only, with tokens from which servers know the same rights.
 */
#include "control/control_priv.h"
#include "sim/solar_cipher.h"
#include "test_control_util.h"

static int setup_keys(void **state)
{
    (void)state;
    buffer = aligned_alloc(4096, 8u << 20);
    assert_non_null(buffer);
    ctlfix_start_keys(&fix, support_seed(), 3);
    return 0;
}

static struct snic_volume_server_stats stats(uint32_t server)
{
    struct snic_volume_server_stats s;
    snic_volume_server_get_stats(fix.server[server].s, &s);
    return s;
}

static uint64_t done_by_servers(void)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < 3; i++)
        n += stats(i).writes + stats(i).reads;
    return n;
}

static struct snic_control_stats catalog(void)
{
    struct snic_control_stats s;
    snic_control_get_stats(fix.ctl, &s);
    return s;
}

static void read_is(uint32_t client, int value)
{
    memset(buffer, 0xee, 1u << 20);
    assert_int_equal(ctlfix_io(&fix, client, 0, SNIC_IO_READ, 0, 1u << 20, buffer), 1u << 20);
    for (uint32_t i = 0; i < 1u << 20; i++)
        assert_int_equal(buffer[i], value);
}

/* Copies between servers, requests of operators and I/O of a client work with authentication. */
static void test_control_auth_all_operations_work(void **state)
{
    (void)state;
    attached();
    assert_true(catalog().tokens >= 1 && catalog().unauthenticated == 0);
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++)
        assert_int_equal(ctlfix_move(&fix, 0, i, where(1, i).server % 3), 0);
    read_is(0, 7);
    ctlfix_ctl_kill(&fix, 0);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_server_kill(&fix, 1, 0);
    ctlfix_server_start(&fix, 1);
    ctlfix_ready(&fix);
    read_is(0, 7);
}

/* Each client has its own disk, and cannot distinguish whether another one exists. */
static void test_control_auth_client_sees_only_its_disks(void **state)
{
    (void)state;
    fix.only[1] = 1;
    fix.only[2] = 2;
    attached();
    assert_int_equal(ctlfix_create(&fix, 1), 0);
    ctlfix_client_start(&fix, 1);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, SNIC_CONTROL_TAKE), SNIC_EPERM);
    assert_int_equal(ctlfix_attach(&fix, 1, 2, 0), SNIC_EPERM); /* there is none */
    assert_int_equal(ctlfix_attach(&fix, 1, 1, 0), 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 1, SNIC_CONTROL_TAKE), SNIC_EPERM);
    memset(buffer, 8, 1u << 20);
    assert_int_equal(ctlfix_io(&fix, 1, 1, SNIC_IO_WRITE, 0, 1u << 20, buffer), 1u << 20);
    assert_int_equal(fix.client[0].handle[0].lost, 0);
    read_is(0, 7);
    assert_true(catalog().forbidden >= 2);
}

/* With another account's token, or without one, servers refuse a client that knows all locations
   and whose packets have the right fields. */
static void test_control_auth_server_requires_token(void **state)
{
    unsigned char token[SNIC_EBS_TOKEN_BYTES];
    struct snic_volume_disk_opts d = {.opts_size = sizeof(d), .sa_epoch = 1, .vd_id = 1};
    struct snic_ebs_token t = {.vd_id = 1, .account = 1, .key_id = 1, .gen = 1u << 16};
    struct snic_io *io;
    (void)state;
    fix.only[1] = 1;
    fix.only[2] = 2;
    attached();
    ctlfix_client_start(&fix, 1);
    d.bytes = CTLFIX_BLOCKS * 4096;
    struct snic_volume *v = fix.client[1].v;
    assert_int_equal(snic_volume_disk_open(v, 0, &d, &io), 0);
    for (uint32_t i = 0; i < 3; i++) {
        struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = i, .port = 7000};
        assert_int_equal(snic_volume_server_add(v, i, &a), 0);
    }
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++) {
        uint32_t k = 0;
        while (ctlfix_id(&fix, k) != where(1, i).server)
            k++;
        assert_int_equal(snic_volume_map(v, 0, i, snic_control_seg_id(1, i), k, where(1, i).gen),
                         0);
    }
    t.not_after = ctlfix_unix(&fix) + 100;
    t.rights = SNIC_EBS_MAY_ALL;
    uint64_t was = done_by_servers();
    for (uint32_t i = 0; i < 2; i++) {
        if (i == 1) { /* the very one that client 0 has */
            assert_int_equal(snic_ebs_token_sign(token, &t, &solar_toy_ops, ctlfix_sign_key(1)), 0);
            assert_int_equal(snic_volume_disk_token(v, 0, token), 0);
        }
        fix.client[1].handle[0].io = io;
        memset(buffer, 9, 4096);
        assert_int_equal(ctlfix_io(&fix, 1, 0, SNIC_IO_READ, 0, 4096, buffer), SNIC_EPERM);
        assert_int_equal(ctlfix_io(&fix, 1, 0, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_EPERM);
        fix.client[1].handle[0].io = NULL;
    }
    assert_int_equal(done_by_servers(), was);
    snic_io_close(io);
    read_is(0, 7);
}

/* A read-only account is granted a lease that no client holds, and takes none from its holder. */
static void test_control_auth_reader_fences_no_client(void **state)
{
    (void)state;
    fix.rights[2] = SNIC_EBS_MAY_READ;
    attached();
    ctlfix_client_start(&fix, 1);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), SNIC_EBUSY);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, SNIC_CONTROL_TAKE), SNIC_EBUSY);
    ctlfix_client_kill(&fix, 0); /* it has not given it back */
    ctlfix_run(&fix, 4000 * CTLFIX_MS);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, SNIC_CONTROL_TAKE), SNIC_EBUSY);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, SNIC_CONTROL_TAKE), 0);
    read_is(0, 7);
    snic_io_close(fix.client[0].handle[0].io);
    fix.client[0].handle[0].io = NULL;
    snic_control_client_detach(fix.client[0].cc, 0);
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), 0);
    read_is(1, 7);
    assert_int_equal(ctlfix_io(&fix, 1, 0, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_EPERM);
}

/* Tokens expire after two seconds, keys change, the catalog is down for a while: no I/O fails,
   and none succeeds with an expired token. */
static void test_control_auth_tokens_renewed(void **state)
{
    (void)state;
    fix.seconds = 3;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    struct ctlfix_handle *g = &fix.client[0].handle[0];
    for (uint32_t i = 0; i < 12; i++) {
        ctlfix_load(&fix, 0, 0, 50);
        ctlfix_run(&fix, 1000 * CTLFIX_MS);
        assert_int_equal(g->inflight, 0);
        if (i == 3)
            fix.known |= 1u << 2;
        if (i == 4)
            fix.sign = 2;
        if (i == 6) { /* at once, whatever is under way */
            fix.known = 1u << 2;
            for (uint32_t k = 0; k < 3; k++)
                (void)snic_volume_server_tokens(fix.server[k].s);
        }
    }
    assert_true(catalog().tokens >= 10 && g->failed == 0 && fix.token_requests == 0);
    ctlfix_ctl_kill(&fix, 0);
    ctlfix_run(&fix, 5000 * CTLFIX_MS);
    uint64_t was = done_by_servers();
    ctlfix_load(&fix, 0, 0, 8);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    assert_int_equal(done_by_servers(), was);
    assert_true(g->inflight > 0 && g->failed == 0 && fix.token_requests > 0);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 4000 * CTLFIX_MS);
    assert_true(g->inflight == 0 && g->failed == 0 && done_by_servers() > was);
    /* A catalog that cannot sign for a while, likewise. */
    fix.sign = 0;
    ctlfix_run(&fix, 4000 * CTLFIX_MS);
    ctlfix_load(&fix, 0, 0, 8);
    ctlfix_run(&fix, 500 * CTLFIX_MS);
    assert_true(g->inflight > 0 && g->failed == 0);
    fix.sign = 2;
    ctlfix_run(&fix, 4000 * CTLFIX_MS);
    assert_true(g->inflight == 0 && g->failed == 0);
}

/* The lease is revoked, or the right is removed: servers in a session with the catalog refuse
   the token. */
static void test_control_auth_revoked_token_refused(void **state)
{
    struct snic_control_msg m;
    (void)state;
    for (uint32_t round = 0; round < 2; round++) {
        if (round == 0)
            attached();
        else
            assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
        read_is(0, 7);
        snic_net_fabric_partition(fix.fabric, CTLFIX_CTL, CTLFIX_CLIENT, 1); /* not notified */
        if (round == 0) {
            message(&m, SNIC_CONTROL_REVOKE, "root");
            assert_int_equal(ctlfix_request(&fix, &m), 0);
        } else {
            fix.rights[1] = 0;
            snic_control_accounts_changed(fix.ctl);
        }
        ctlfix_run(&fix, 200 * CTLFIX_MS);
        uint64_t was = done_by_servers();
        assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 4096, buffer), SNIC_ESTALE);
        memset(buffer, 9, 4096);
        assert_true(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 4096, buffer) < 0);
        assert_int_equal(done_by_servers(), was);
        snic_net_fabric_partition(fix.fabric, CTLFIX_CTL, CTLFIX_CLIENT, 0);
        ctlfix_client_kill(&fix, 0);
        ctlfix_run(&fix, 3000 * CTLFIX_MS);
        ctlfix_client_start(&fix, 0);
    }
    assert_int_equal(ctlfix_attach(&fix, 0, 0, SNIC_CONTROL_TAKE), SNIC_EPERM);
    fix.rights[1] = SNIC_EBS_MAY_ALL;
    assert_int_equal(ctlfix_attach(&fix, 0, 0, SNIC_CONTROL_TAKE), 0);
    read_is(0, 7);
}

/* A wrong key, the key of another account, a removed account, no key, a catalog without keys: no
   client is sent data, and each gets the reason. */
static void test_control_auth_unauthenticated_gets_no_data(void **state)
{
    static struct solar_toy_key wrong = {{1, 1}};
    struct snic_control_msg m = {.type = SNIC_CONTROL_DISKS};
    struct snic_control_auth right = fix.auth_client[0];
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    for (uint32_t i = 0; i < 4; i++) {
        fix.auth_client[0] = right;
        fix.keys = 1;
        if (i == 0)
            fix.auth_client[0].secret = &wrong;
        if (i == 1)
            fix.auth_client[0].secret = ctlfix_secret(2);
        if (i == 2)
            fix.gone = 1u << 1;
        if (i == 3)
            fix.keys = 0; /* the client has none */
        ctlfix_client_start(&fix, 0);
        assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), SNIC_ENOTCONN);
        ctlfix_client_kill(&fix, 0);
        fix.gone = 0;
    }
    fix.auth_client[0] = right;
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    /* A peer that finds another key at the catalog leaves. */
    assert_true(catalog().unauthenticated >= 2);
    /* A client's key is none of an operator. */
    struct snic_control_auth operator= fix.auth_operator;
    for (uint32_t i = 0; i < 3; i++) {
        (void)snic_control_operator_close(fix.call);
        fix.call = NULL;
        fix.keys = i != 1;
        fix.auth_operator = i == 0 ? right : operator;
        assert_int_equal(ctlfix_request(&fix, &m), i == 2 ? 0 : SNIC_EACCES);
        assert_int_equal(fix.items, i == 2);
    }
    /* Nor of a server: it is not registered. */
    fix.keys = 1;
    fix.auth_store = right;
    ctlfix_server_kill(&fix, 0, 0);
    ctlfix_server_start(&fix, 0);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    assert_true(!fix.server[0].ready && fix.server[0].refused == SNIC_EACCES);
    ctlfix_server_kill(&fix, 0, 0);
    fix.auth_store = operator;
    ctlfix_server_start(&fix, 0);
    ctlfix_ready(&fix);
    /* Ends with keys do not talk to a catalog without. */
    ctlfix_ctl_kill(&fix, 0);
    fix.keys = 0;
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    fix.keys = 1;
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), SNIC_ENOTSUP);
    (void)snic_control_operator_close(fix.call);
    fix.call = NULL;
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_ENOTSUP);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    assert_int_equal(fix.server[1].refused, SNIC_ENOTSUP);
}

/* ---- A peer that violates the protocol ---- */

static struct control_stream raw;
static struct snic_control_msg raw_last;
static int raw_up, raw_gone;

static void raw_is_up(void *owner)
{
    (void)owner;
    raw_up = 1;
}

static void raw_msg(void *owner, struct snic_control_msg *m)
{
    (void)owner;
    raw_last = *m;
}

static void raw_is_gone(void *owner, int reason)
{
    (void)owner;
    (void)reason;
    raw_gone = 1;
}

static void raw_begin(const struct snic_control_auth *auth, uint32_t role)
{
    static const struct control_stream_events ev = {
        .up = raw_is_up, .msg = raw_msg, .gone = raw_is_gone};
    static unsigned char in[SNIC_CONTROL_SMALL], out[SNIC_CONTROL_SMALL];
    const struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = CTLFIX_CTL, .port = 7100};
    struct snic_control_msg m;
    raw_up = raw_gone = 0;
    memset(&raw_last, 0, sizeof(raw_last));
    control_stream_init(&raw, fix.op_net, &ev, NULL, in, sizeof(in), out, sizeof(out));
    raw.auth.opts = auth;
    assert_int_equal(control_stream_connect(&raw, &a), 0);
    ctlfix_run(&fix, 20 * CTLFIX_MS);
    assert_int_equal(raw_up, 1);
    control_msg(&m, SNIC_CONTROL_HELLO, 0);
    m.role = (uint8_t)role;
    assert_int_equal(control_stream_send(&raw, &m, 0), 0);
    ctlfix_run(&fix, 20 * CTLFIX_MS);
}

static void raw_end(void)
{
    control_stream_abort(&raw);
    while (raw.conn != NULL)
        assert_int_equal(snic_world_step(fix.world), 1);
}

/* A message that was changed, repeated or left out has no effect, and the connection ends. */
static void test_control_auth_messages_sealed(void **state)
{
    struct snic_control_msg m;
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        raw_begin(&fix.auth_operator, SNIC_CONTROL_OPERATOR);
        assert_int_equal(raw_last.type, SNIC_CONTROL_WELCOME);
        if (i == 0)
            raw.auth.session[31] ^= 1; /* of another connection */
        if (i == 1)
            raw.auth.sent--; /* as one before it */
        if (i == 2)
            raw.auth.sent++;
        message(&m, SNIC_CONTROL_CREATE, ctlfix_name(0));
        m.bytes = 1u << 20;
        m.tag = 9;
        assert_int_equal(control_stream_send(&raw, &m, 0), 0);
        ctlfix_run(&fix, 20 * CTLFIX_MS);
        assert_int_equal(raw_gone, i < 3);
        assert_int_equal(catalog().disks, i == 3);
        raw_end();
    }
}

/* Lease numbers can be guessed: a client of another account that resumes a lease gets no grant,
   and the holder loses nothing. */
static void test_control_auth_resume_only_by_holder(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    raw_begin(&fix.auth_client[1], SNIC_CONTROL_CLIENT);
    control_msg(&m, SNIC_CONTROL_RESUME, 9);
    m.vd = fix.client[0].handle[0].vd;
    m.lease = fix.client[0].handle[0].lease;
    assert_int_equal(control_stream_send(&raw, &m, 0), 0);
    ctlfix_run(&fix, 20 * CTLFIX_MS);
    assert_int_equal(raw_last.type, SNIC_CONTROL_GRANT);
    assert_true(raw_last.status == SNIC_ESTALE && raw_last.value == 0);
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++) /* it learns of moves still */
        assert_int_equal(ctlfix_move(&fix, 0, i, where(1, i).server % 3), 0);
    read_is(0, 7);
    assert_int_equal(fix.client[0].handle[0].lost, 0);
    raw_end();
}

/* A removed account loses its session; other sessions continue. */
static void test_control_auth_account_removed_session_ends(void **state)
{
    (void)state;
    attached();
    ctlfix_client_start(&fix, 1);
    assert_int_equal(ctlfix_create(&fix, 1), 0);
    assert_int_equal(ctlfix_attach(&fix, 1, 1, 0), 0);
    uint32_t links = fix.client[0].links;
    fix.gone = 1u << 2;
    fix.rights[2] = 0;
    snic_control_accounts_changed(fix.ctl);
    for (uint32_t i = 0; i < 3; i++)
        (void)snic_volume_server_secrets(fix.server[i].s);
    ctlfix_run(&fix, 500 * CTLFIX_MS);
    read_is(0, 7);
    assert_int_equal(fix.client[0].links, links);
    uint64_t was = done_by_servers();
    ctlfix_load(&fix, 1, 1, 4);
    ctlfix_run(&fix, 2000 * CTLFIX_MS);
    assert_int_equal(done_by_servers(), was);
    assert_true(catalog().unauthenticated > 0);
}

#define KEYS(name) cmocka_unit_test_setup_teardown(name, setup_keys, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        KEYS(test_control_auth_all_operations_work),
        KEYS(test_control_auth_client_sees_only_its_disks),
        KEYS(test_control_auth_server_requires_token),
        KEYS(test_control_auth_reader_fences_no_client),
        KEYS(test_control_auth_tokens_renewed),
        KEYS(test_control_auth_revoked_token_refused),
        KEYS(test_control_auth_unauthenticated_gets_no_data),
        KEYS(test_control_auth_messages_sealed),
        KEYS(test_control_auth_resume_only_by_holder),
        KEYS(test_control_auth_account_removed_session_ends),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
