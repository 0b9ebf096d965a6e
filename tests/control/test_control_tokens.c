/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Tokens when something is missing: the signing key, servers with the new lease, rights that an
 * account had before, the catalog while rights are removed.
 */
#include "control/control_priv.h"
#include "test_control_util.h"

static int setup_keys(void **state)
{
    (void)state;
    buffer = aligned_alloc(4096, 8u << 20);
    assert_non_null(buffer);
    ctlfix_start_keys(&fix, support_seed(), 3);
    return 0;
}

static uint64_t done_by_servers(void)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < 3; i++) {
        struct snic_volume_server_stats s;
        snic_volume_server_get_stats(fix.server[i].s, &s);
        n += s.writes + s.reads;
    }
    return n;
}

static struct snic_control_stats catalog(void)
{
    struct snic_control_stats s;
    snic_control_get_stats(fix.ctl, &s);
    return s;
}

static int64_t first_block(uint32_t client, uint32_t disk, uint32_t op)
{
    memset(buffer, 9, 4096);
    return ctlfix_io(&fix, client, disk, op, 0, 4096, buffer);
}

static void cut(uint32_t node, int is)
{
    snic_net_fabric_partition(fix.fabric, CTLFIX_CTL, node, is);
    snic_net_fabric_partition(fix.fabric, node, CTLFIX_CTL, is);
}

/* ---- Signing ---- */

/* While the catalog cannot sign, an attach waits, uses up no lease and takes none from its
   holder. */
static void test_control_tokens_attach_waits_for_the_signature(void **state)
{
    struct ctlfix_handle *g = &fix.client[1].handle[0];
    (void)state;
    attached();
    ctlfix_client_start(&fix, 1);
    fix.sign = 0;
    ctlfix_attach_begin(&fix, 1, 0, SNIC_CONTROL_TAKE);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    assert_int_equal(g->attach, 1);
    assert_int_equal(fix.client[0].handle[0].lost, 0);
    assert_int_equal(first_block(0, 0, SNIC_IO_WRITE), 4096);
    fix.sign = 1;
    ctlfix_run(&fix, 500 * CTLFIX_MS);
    assert_true(g->attach == 0 && g->result == 0);
    assert_int_equal(g->lease, 2);
    assert_int_equal(fix.client[0].handle[0].lost, SNIC_ESTALE);
    assert_int_equal(first_block(1, 0, SNIC_IO_WRITE), 4096);
}

/* Signing fails after the servers have answered: one lease is used up, not more. */
static void test_control_tokens_signature_fails_in_the_end(void **state)
{
    struct ctlfix_handle *g = &fix.client[0].handle[0];
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    ctlfix_attach_begin(&fix, 0, 0, 0);
    while (catalog().ops == 0)
        assert_int_equal(snic_world_step(fix.world), 1);
    fix.sign = 0;
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    assert_int_equal(g->attach, 1);
    assert_int_equal(catalog().grants, 0);
    fix.sign = 1;
    ctlfix_run(&fix, 500 * CTLFIX_MS);
    assert_true(g->attach == 0 && g->result == 0 && g->lease == 2);
    assert_int_equal(first_block(0, 0, SNIC_IO_WRITE), 4096);
}

/* A client whose catalog granted no tokens gets one in the same session when its I/O needs it. */
static void test_control_tokens_signed_later(void **state)
{
    struct ctlfix_handle *g = &fix.client[0].handle[0];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        fix.transport = i == 0 ? SNIC_VOLUME_SOLAR : SNIC_VOLUME_LUNA;
        fix.seconds = 0;
        if (i == 0)
            assert_int_equal(ctlfix_create(&fix, 0), 0);
        ctlfix_client_start(&fix, 0);
        assert_int_equal(ctlfix_attach(&fix, 0, 0, SNIC_CONTROL_TAKE), 0);
        assert_int_equal(first_block(0, 0, SNIC_IO_WRITE), SNIC_EPERM);
        fix.seconds = 3600;
        ctlfix_run(&fix, 1500 * CTLFIX_MS);
        (void)first_block(0, 0, SNIC_IO_WRITE);
        ctlfix_run(&fix, 1500 * CTLFIX_MS);
        assert_int_equal(first_block(0, 0, SNIC_IO_WRITE), 4096);
        assert_true(g->lost == 0 && fix.client[0].links == i + 1);
        ctlfix_client_kill(&fix, 0);
    }
}

/* ---- Leases that are not granted yet ---- */

static struct control_stream raw;
static struct snic_control_msg raw_last;
static int raw_up;

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
}

static void raw_begin(const struct snic_control_auth *auth)
{
    static const struct control_stream_events ev = {
        .up = raw_is_up, .msg = raw_msg, .gone = raw_is_gone};
    static unsigned char in[SNIC_CONTROL_SMALL], out[SNIC_CONTROL_SMALL];
    const struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = CTLFIX_CTL, .port = 7100};
    struct snic_control_msg m;
    control_stream_init(&raw, fix.op_net, &ev, NULL, in, sizeof(in), out, sizeof(out));
    raw.auth.opts = auth;
    assert_int_equal(control_stream_connect(&raw, &a), 0);
    ctlfix_run(&fix, 20 * CTLFIX_MS);
    assert_int_equal(raw_up, 1);
    control_msg(&m, SNIC_CONTROL_HELLO, 0);
    m.role = SNIC_CONTROL_CLIENT;
    assert_int_equal(control_stream_send(&raw, &m, 0), 0);
    ctlfix_run(&fix, 20 * CTLFIX_MS);
}

/*
 * A client resumes the lease that its account is about to be granted, while a slow server has not
 * answered: no grant with a token is sent before that server refuses the lease before it.
 */
static void test_control_tokens_none_before_servers_know(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    uint32_t slow = 0;
    while (ctlfix_id(&fix, slow) != where(1, 0).server)
        slow++;
    raw_begin(&fix.auth_client[1]);
    ctlfix_client_start(&fix, 1);
    snic_net_fabric_partition(fix.fabric, CTLFIX_CTL, slow, 1);
    ctlfix_attach_begin(&fix, 1, 0, SNIC_CONTROL_TAKE);
    while (catalog().ops == 0)
        assert_int_equal(snic_world_step(fix.world), 1);
    ctlfix_run(&fix, 50 * CTLFIX_MS);
    assert_int_equal(catalog().ops, 1);
    control_msg(&m, SNIC_CONTROL_RESUME, 9);
    m.vd = fix.client[0].handle[0].vd;
    m.lease = fix.client[0].handle[0].lease + 1;
    assert_int_equal(control_stream_send(&raw, &m, 0), 0);
    ctlfix_run(&fix, 50 * CTLFIX_MS);
    assert_true(catalog().ops == 1 && raw_last.type == SNIC_CONTROL_GRANT);
    assert_int_equal(raw_last.status, SNIC_ESTALE);
    assert_int_equal(raw_last.value, 0);
    snic_net_fabric_partition(fix.fabric, CTLFIX_CTL, slow, 0);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    assert_true(fix.client[1].handle[0].attach == 0 && fix.client[1].handle[0].result == 0);
    assert_int_equal(first_block(1, 0, SNIC_IO_WRITE), 4096);
    control_stream_abort(&raw);
    while (raw.conn != NULL)
        assert_int_equal(snic_world_step(fix.world), 1);
}

/* A client that detaches before the grant has no lease afterwards, though its session continues:
   another client attaches at once. */
static void test_control_tokens_detach_before_the_grant_leaves_no_lease(void **state)
{
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    ctlfix_client_start(&fix, 1);
    ctlfix_attach_begin(&fix, 0, 0, 0);
    while (catalog().ops == 0)
        assert_int_equal(snic_world_step(fix.world), 1);
    snic_control_client_detach(fix.client[0].cc, 0);
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    assert_int_equal(fix.client[0].handle[0].attach, 1); /* nothing was reported */
    fix.client[0].handle[0].attach = 0;
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), 0);
    assert_int_equal(fix.client[0].links, 1);
}

/* ---- Removed rights ---- */

/* Servers refuse the first block, though the token has not expired and the catalog has not
   notified the client. */
static void refused_at_once(uint32_t disk)
{
    ctlfix_run(&fix, 300 * CTLFIX_MS);
    uint64_t was = done_by_servers();
    assert_true(first_block(0, disk, SNIC_IO_WRITE) < 0);
    assert_int_equal(done_by_servers(), was);
}

/* A writer whose right to write is removed writes nothing more, whatever its token permits. */
static void test_control_tokens_right_removed_ends_lease(void **state)
{
    (void)state;
    attached();
    cut(CTLFIX_CLIENT, 1);
    fix.rights[1] = SNIC_EBS_MAY_READ;
    snic_control_accounts_changed(fix.ctl);
    refused_at_once(0);
    cut(CTLFIX_CLIENT, 0);
    ctlfix_client_kill(&fix, 0);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    assert_int_equal(first_block(0, 0, SNIC_IO_READ), 4096);
    uint32_t lease = fix.client[0].handle[0].lease;
    for (uint32_t i = 0; i < 3; i++) /* one right more, none, and nothing new: no lease ends */
        snic_control_accounts_changed(fix.ctl);
    fix.rights[1] = SNIC_EBS_MAY_ALL;
    snic_control_accounts_changed(fix.ctl);
    ctlfix_run(&fix, 300 * CTLFIX_MS);
    assert_int_equal(first_block(0, 0, SNIC_IO_READ), 4096);
    assert_true(fix.client[0].handle[0].lost == 0 && fix.client[0].handle[0].lease == lease);
}

/* The right to write was added while the client had the lease, and is removed: the lease ends. */
static void test_control_tokens_right_added_recorded(void **state)
{
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    fix.rights[1] = SNIC_EBS_MAY_READ;
    fix.seconds = 3;
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    fix.rights[1] = SNIC_EBS_MAY_ALL;
    snic_control_accounts_changed(fix.ctl);
    fix.seconds = 3600;
    ctlfix_run(&fix, 2000 * CTLFIX_MS); /* its token is renewed */
    assert_int_equal(first_block(0, 0, SNIC_IO_WRITE), 4096);
    cut(CTLFIX_CLIENT, 1);
    ctlfix_ctl_kill(&fix, 0);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_ready(&fix);
    fix.rights[1] = SNIC_EBS_MAY_READ;
    snic_control_accounts_changed(fix.ctl);
    refused_at_once(0);
    cut(CTLFIX_CLIENT, 0);
}

/* The token of a returned lease is valid until it expires: it ends with the right. */
static void test_control_tokens_returned_lease_revoked(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    raw_begin(&fix.auth_client[0]);
    control_msg(&m, SNIC_CONTROL_RESUME, 9);
    m.vd = fix.client[0].handle[0].vd;
    m.lease = fix.client[0].handle[0].lease;
    assert_int_equal(control_stream_send(&raw, &m, 0), 0);
    m.type = SNIC_CONTROL_DETACH;
    assert_int_equal(control_stream_send(&raw, &m, 0), 0);
    ctlfix_run(&fix, 50 * CTLFIX_MS);
    assert_true(raw_last.type == SNIC_CONTROL_DONE && raw_last.status == 0);
    assert_int_equal(first_block(0, 0, SNIC_IO_WRITE), 4096); /* with the token of before */
    cut(CTLFIX_CLIENT, 1);
    fix.rights[1] = 0;
    snic_control_accounts_changed(fix.ctl);
    refused_at_once(0);
    cut(CTLFIX_CLIENT, 0);
    control_stream_abort(&raw);
    while (raw.conn != NULL)
        assert_int_equal(snic_world_step(fix.world), 1);
}

/* More disks than operations: the leases of all end, one after the other. */
static void test_control_tokens_many_disks_revoked(void **state)
{
    (void)state;
    ctlfix_ctl_kill(&fix, 0);
    fix.ops_max = 1;
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_ready(&fix);
    ctlfix_client_start(&fix, 0);
    for (uint32_t d = 0; d < CTLFIX_DISKS; d++) {
        assert_int_equal(ctlfix_create(&fix, d), 0);
        assert_int_equal(ctlfix_attach(&fix, 0, d, 0), 0);
        assert_int_equal(first_block(0, d, SNIC_IO_WRITE), 4096);
    }
    cut(CTLFIX_CLIENT, 1);
    fix.rights[1] = 0;
    snic_control_accounts_changed(fix.ctl);
    for (uint32_t d = 0; d < CTLFIX_DISKS; d++)
        refused_at_once(d);
    cut(CTLFIX_CLIENT, 0);
}

/* The right is removed while no catalog runs: the next process ends the lease. */
static void test_control_tokens_revoked_after_catalog_restart(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        fix.rights[1] = SNIC_EBS_MAY_ALL;
        if (i == 0)
            attached();
        else
            assert_int_equal(ctlfix_attach(&fix, 0, 0, SNIC_CONTROL_TAKE), 0);
        assert_int_equal(first_block(0, 0, SNIC_IO_WRITE), 4096); /* it knows where that is */
        cut(CTLFIX_CLIENT, 1);
        ctlfix_ctl_kill(&fix, 0);
        fix.rights[1] = i == 0 ? 0 : SNIC_EBS_MAY_READ;
        assert_int_equal(ctlfix_ctl_start(&fix), 0);
        ctlfix_ready(&fix);
        refused_at_once(0);
        ctlfix_client_kill(&fix, 0);
        cut(CTLFIX_CLIENT, 0);
        ctlfix_client_start(&fix, 0);
    }
}

#define KEYS(name) cmocka_unit_test_setup_teardown(name, setup_keys, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        KEYS(test_control_tokens_attach_waits_for_the_signature),
        KEYS(test_control_tokens_signature_fails_in_the_end),
        KEYS(test_control_tokens_signed_later),
        KEYS(test_control_tokens_none_before_servers_know),
        KEYS(test_control_tokens_detach_before_the_grant_leaves_no_lease),
        KEYS(test_control_tokens_right_removed_ends_lease),
        KEYS(test_control_tokens_right_added_recorded),
        KEYS(test_control_tokens_returned_lease_revoked),
        KEYS(test_control_tokens_many_disks_revoked),
        KEYS(test_control_tokens_revoked_after_catalog_restart),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
