/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Hosts that have to authenticate: nothing is served before, on no queue, and no way around it. */
#include "test_nvmet_util.h"

#include <string.h>

static struct tx x;
static struct nh_queue admin, io, other;
static unsigned char data[TX_BLOCK];

#define DNR(code) (SNIC_NVME_SC_##code | SNIC_NVME_DNR)

/* Without the flag that the error log has more. */
static uint32_t plain(uint32_t status)
{
    return status & ~SNIC_NVME_MORE;
}

static void secret(struct snic_nvmeauth_key *k, uint8_t hash, uint8_t fill)
{
    k->hash = hash;
    k->size = 32;
    memset(k->bytes, fill, 32);
}

/* Host 0 authenticates, host 1 both ways, host 2 need not. */
static int keys(void *ctx, const char *hostnqn, struct snic_nvmeauth_keys *out)
{
    size_t n = strlen(hostnqn);
    (void)ctx;
    if (n == 0 || hostnqn[n - 1] > '1')
        return SNIC_ENOENT;
    memset(out, 0, sizeof(*out));
    secret(&out->host, 1, (uint8_t)hostnqn[n - 1]);
    if (hostnqn[n - 1] == '1')
        secret(&out->ctrl, 2, 99);
    return 0;
}

static uint64_t numbers;

static int random_bytes(struct snic_nvmeauth_random *out)
{
    tx_fill(out, sizeof(*out), ++numbers);
    return 0;
}

static struct snic_nvmet_auth_opts auth;

static void open_target(void)
{
    static const char *const hosts[] = {"nqn.2026-11.example:h0", "nqn.2026-11.example:h1",
                                        "nqn.2026-11.example:h2"};
    if (snic_nvmeauth_openssl() == NULL)
        support_skip("built without libcrypto (libssl-dev)");
    uint32_t idle = x.idle;
    x.idle = 1;
    tx_open(&x);
    x.idle = idle;
    memset(&auth, 0, sizeof(auth));
    auth.opts_size = sizeof(auth);
    auth.ops = snic_nvmeauth_openssl();
    auth.random = random_bytes;
    auth.keys = keys;
    auth.limit_ns = 30000 * TX_MS;
    assert_int_equal(snic_nvmet_auth(x.t, &auth), 0);
    x.s.hosts = hosts;
    x.s.host_count = 3;
    tx_open_subsystem(&x);
    for (int i = 0; i < TX_HOSTS; i++) {
        x.h[i].auth = auth.ops;
        x.h[i].random = random_bytes;
        (void)keys(NULL, x.h[i].hostnqn, &x.h[i].keys);
    }
}

static void close_all(void)
{
    nh_close(&io);
    nh_close(&admin);
    nh_close(&other);
    tx_close(&x);
}

static void test_nvmet_auth_hosts_served(void **state)
{
    (void)state;
    tx_opts(&x);
    open_target();
    for (int i = 0; i < 4; i++)
        for (uint32_t groups = 1; groups <= 2; groups++) {
            x.h[i].groups = groups;
            assert_int_equal(nh_admin(&admin, &x.h[i]), 0);
            assert_int_equal(nh_io_queue(&io, &admin, 1), 0);
            assert_int_equal(admin.required, i < 2);
            assert_int_equal(io.required, i < 2);
            if (i < 2)
                assert_int_equal(io.proof.both, i);
            if (i < 2)
                assert_int_equal(io.proof.group, groups - 1);
            tx_fill(data, sizeof(data), 1);
            assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE, 1, 5, 1, data, sizeof(data)), 0);
            /* again, on queues in use */
            if (i < 2) {
                assert_int_equal(nh_authenticate(&io), 0);
                assert_int_equal(io.proof.state, SNIC_NVMEAUTH_DONE);
                assert_int_equal(nh_authenticate(&admin), 0);
                assert_int_equal(admin.proof.state, SNIC_NVMEAUTH_DONE);
            }
            assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 5, 1, data, sizeof(data)), 0);
            nh_close(&io);
            nh_close(&admin);
        }
    assert_int_equal(tx_stats(&x).denied, 0);
    close_all();
}

/* Groups that cost more are refused unless they are asked for. */
static void test_nvmet_auth_largest_groups_refused(void **state)
{
    (void)state;
    tx_opts(&x);
    open_target();
    for (uint32_t group = SNIC_NVMEAUTH_FFDHE6144; group <= SNIC_NVMEAUTH_FFDHE8192; group++) {
        x.h[0].groups = 1U << group;
        assert_int_equal(nh_admin(&admin, &x.h[0]), SNIC_NVME_SC_AUTH_REQUIRED);
        assert_int_equal(admin.proof.failure, SNIC_NVMEAUTH_NO_GROUP);
        nh_close(&admin);
    }
    close_all();
}

static void wait_end(struct nh_queue *q)
{
    while (!q->ended)
        nh_once(q->h);
}

/* Connected, not authenticated: no command is served, on either queue. */
static void test_nvmet_auth_nothing_before(void **state)
{
    uint64_t value;
    (void)state;
    tx_opts(&x);
    open_target();
    x.h[0].auth = NULL;
    assert_int_equal(nh_open(&admin, &x.h[0]), 0);
    assert_int_equal(nh_connect(&admin, 0, SNIC_NVME_CNTLID_DYNAMIC), 0);
    assert_true(admin.required);
    assert_int_equal(plain(nh_property_set(&admin, SNIC_NVME_PROP_CC, 1)), DNR(AUTH_REQUIRED));
    assert_int_equal(plain(nh_property_get(&admin, SNIC_NVME_PROP_CSTS, &value)),
                     DNR(AUTH_REQUIRED));
    assert_int_equal(plain(nh_identify(&admin, SNIC_NVME_CNS_CTRL, 0, data)), DNR(AUTH_REQUIRED));
    assert_int_equal(plain(nh_log(&admin, 2, data, 512)), DNR(AUTH_REQUIRED));
    assert_int_equal(nh_open(&io, &x.h[0]), 0);
    assert_int_equal(plain(nh_connect(&io, 1, admin.cntlid)), DNR(AUTH_REQUIRED));
    nh_close(&io);
    /* then it does, and an I/O queue that does not */
    x.h[0].auth = auth.ops;
    assert_int_equal(nh_authenticate(&admin), 0);
    assert_int_equal(admin.proof.state, SNIC_NVMEAUTH_DONE);
    assert_int_equal(
        nh_property_set(&admin, SNIC_NVME_PROP_CC, SNIC_NVME_CC_EN | 6U << 16 | 4U << 20), 0);
    x.h[0].auth = NULL;
    assert_int_equal(nh_open(&io, &x.h[0]), 0);
    assert_int_equal(nh_connect(&io, 1, admin.cntlid), 0);
    assert_true(io.required);
    assert_int_equal(plain(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, data, sizeof(data))),
                     DNR(AUTH_REQUIRED));
    assert_int_equal(plain(nh_io(&io, SNIC_NVME_IO_WRITE, 1, 0, 1, data, sizeof(data))),
                     DNR(AUTH_REQUIRED));
    assert_int_equal(plain(nh_io(&io, SNIC_NVME_IO_FLUSH, 1, 0, 0, NULL, 0)), DNR(AUTH_REQUIRED));
    x.h[0].auth = auth.ops;
    assert_int_equal(nh_authenticate(&io), 0);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, data, sizeof(data)), 0);
    close_all();
}

/* A wrong key, either side's: the failure is reported, then the connection ends. */
static void test_nvmet_auth_wrong_key_ends_connection(void **state)
{
    (void)state;
    tx_opts(&x);
    open_target();
    for (int i = 0; i < 2; i++)
        for (int ctrl = 0; ctrl <= i; ctrl++) {
            struct snic_nvmeauth_key *k = ctrl ? &x.h[i].keys.ctrl : &x.h[i].keys.host;
            uint64_t denied = tx_stats(&x).denied;
            k->bytes[7] ^= 1;
            assert_int_equal(nh_admin(&admin, &x.h[i]), SNIC_NVME_SC_AUTH_REQUIRED);
            assert_int_equal(admin.proof.failure, SNIC_NVMEAUTH_FAILED);
            assert_int_equal(admin.proof.remote, !ctrl);
            wait_end(&admin);
            nh_close(&admin);
            assert_int_equal(tx_stats(&x).denied, denied + 1);
            k->bytes[7] ^= 1;
            /* an I/O queue; its controller stays */
            assert_int_equal(nh_admin(&admin, &x.h[i]), 0);
            k->bytes[7] ^= 1;
            assert_int_equal(nh_io_queue(&io, &admin, 1), SNIC_NVME_SC_AUTH_REQUIRED);
            wait_end(&io);
            nh_close(&io);
            k->bytes[7] ^= 1;
            assert_int_equal(nh_io_queue(&io, &admin, 1), 0);
            /* again, with a wrong key: it was authenticated, and ends */
            k->bytes[7] ^= 1;
            assert_int_equal(nh_authenticate(&io), 0);
            assert_int_equal(io.proof.state, SNIC_NVMEAUTH_OVER);
            wait_end(&io);
            k->bytes[7] ^= 1;
            nh_close(&io);
            nh_close(&admin);
        }
    close_all();
}

/* Entries that are wrong, messages out of order. */
static void test_nvmet_auth_wrong_commands(void **state)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_FABRICS, .nsid = SNIC_NVME_FABRICS_AUTH_SEND};
    static const uint32_t cdw10[] = {0, 0xe8010100U, 0xe9020100U, 0xe9010200U};
    (void)state;
    tx_opts(&x);
    open_target();
    x.h[0].auth = NULL;
    assert_int_equal(nh_open(&admin, &x.h[0]), 0);
    assert_int_equal(nh_connect(&admin, 0, SNIC_NVME_CNTLID_DYNAMIC), 0);
    for (size_t i = 0; i < SNIC_COUNTOF(cdw10); i++)
        for (uint8_t type = 5; type <= 6; type++) {
            e.nsid = type;
            e.cdw10 = cdw10[i];
            e.cdw11 = 72;
            assert_int_equal(plain(nh_run(&admin, &e, data, 72, NULL)), DNR(INVALID_FIELD));
            e.cdw10 = SNIC_NVMEAUTH_CDW10;
            e.cdw11 = 0;
            assert_int_equal(plain(nh_run(&admin, &e, data, 72, NULL)), DNR(INVALID_FIELD));
            e.cdw11 = 71;
            assert_int_equal(plain(nh_run(&admin, &e, data, 72, NULL)), DNR(SGL_LENGTH));
        }
    /* too small for a message; then a Receive out of turn */
    assert_int_equal(plain(nh_auth(&admin, SNIC_NVME_FABRICS_AUTH_RECEIVE, data, 7)),
                     DNR(INVALID_FIELD));
    assert_int_equal(nh_auth(&admin, SNIC_NVME_FABRICS_AUTH_RECEIVE, data, 64), 0);
    assert_memory_equal(data, "\0\361\0\0\0\0\1\7", 8);
    wait_end(&admin);
    nh_close(&admin);
    /* of a host that has no key, and of no controller */
    assert_int_equal(nh_admin(&admin, &x.h[2]), 0);
    assert_int_equal(plain(nh_auth(&admin, SNIC_NVME_FABRICS_AUTH_SEND, data, 72)),
                     DNR(INVALID_OPCODE));
    assert_int_equal(plain(nh_auth(&admin, SNIC_NVME_FABRICS_AUTH_RECEIVE, data, 72)),
                     DNR(INVALID_OPCODE));
    close_all();
}

/* A host that connects and then does nothing, or stops in the middle of a transaction. */
static void test_nvmet_auth_too_slow_closed(void **state)
{
    uint8_t m[SNIC_NVMEAUTH_MESSAGE_BYTES];
    (void)state;
    tx_opts(&x);
    x.o.greet_ns = 1000 * TX_MS;
    open_target();
    for (int i = 0; i < 2; i++) {
        x.h[0].auth = NULL;
        assert_int_equal(nh_open(&admin, &x.h[0]), 0);
        assert_int_equal(nh_connect(&admin, 0, SNIC_NVME_CNTLID_DYNAMIC), 0);
        uint64_t timeouts = tx_stats(&x).timeouts;
        if (i == 1) {
            snic_nvmeauth_init(&admin.proof, x.h[0].hostnqn, TX_SUBNQN, 14, 1);
            int n = snic_nvmeauth_host_start(&admin.proof, 1, m, sizeof(m));
            assert_int_equal(nh_auth(&admin, SNIC_NVME_FABRICS_AUTH_SEND, m, (uint32_t)n), 0);
        }
        tx_run(&x, 29900 * TX_MS);
        assert_false(admin.ended || admin.closed);
        assert_int_equal(tx_stats(&x).timeouts, timeouts);
        tx_run(&x, 200 * TX_MS);
        assert_int_equal(tx_stats(&x).timeouts, timeouts + 1);
        nh_close(&admin);
    }
    /* an authenticated queue has no limit, and one that authenticates again has */
    x.h[0].auth = auth.ops;
    assert_int_equal(nh_admin(&admin, &x.h[0]), 0);
    assert_int_equal(nh_io_queue(&io, &admin, 1), 0);
    tx_run(&x, 60000 * TX_MS);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, data, sizeof(data)), 0);
    int n = snic_nvmeauth_host_start(&io.proof, 1, m, sizeof(m));
    assert_int_equal(nh_auth(&io, SNIC_NVME_FABRICS_AUTH_SEND, m, (uint32_t)n), 0);
    tx_run(&x, 29900 * TX_MS);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, data, sizeof(data)), 0);
    tx_run(&x, 200 * TX_MS);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, data, sizeof(data)), NH_ENDED);
    close_all();
}

/* A host that fails, but does not fetch the failure, is not served much longer. */
static void test_nvmet_auth_failed_again_soon_closed(void **state)
{
    (void)state;
    tx_opts(&x);
    x.o.close_ns = 5000 * TX_MS;
    open_target();
    assert_int_equal(nh_admin(&admin, &x.h[0]), 0);
    assert_int_equal(nh_io_queue(&io, &admin, 1), 0);
    memset(data, 0, sizeof(data));
    (void)nh_auth(&io, SNIC_NVME_FABRICS_AUTH_SEND, data, 72);
    tx_run(&x, 4900 * TX_MS);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, data, sizeof(data)), 0);
    tx_run(&x, 200 * TX_MS);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, data, sizeof(data)), NH_ENDED);
    close_all();
}

/* Clients that only know a host's name take neither its share of connections nor all places. */
static void claims_keep_no_host_out(const char *subnqn)
{
    static struct nh_queue claims[12];
    tx_opts(&x);
    x.o.conns_max = 8;
    x.o.host_conns_max = 3;
    open_target();
    for (size_t i = 0; i < SNIC_COUNTOF(claims); i++) {
        struct nh h = x.h[0];
        static struct nh thief;
        thief = h;
        thief.auth = NULL;
        thief.hostid[1] = 7;
        thief.subnqn = subnqn;
        if (nh_open(&claims[i], &thief) == 0)
            (void)nh_connect(&claims[i], 0, SNIC_NVME_CNTLID_DYNAMIC);
    }
    tx_host(&x, 0, &admin, &io);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, data, sizeof(data)), 0);
    assert_true(tx_stats(&x).evicted > 0);
    for (size_t i = 0; i < SNIC_COUNTOF(claims); i++)
        nh_close(&claims[i]);
    close_all();
}

static void test_nvmet_auth_claims_keep_no_host_out(void **state)
{
    (void)state;
    claims_keep_no_host_out(TX_SUBNQN);
    claims_keep_no_host_out(SNIC_NVME_DISCOVERY_NQN);
}

/* Connections that are proven late have a host's share, too. */
static void test_nvmet_auth_late_proofs_bounded(void **state)
{
    static struct nh_queue q[5];
    (void)state;
    tx_opts(&x);
    x.o.host_conns_max = 3;
    open_target();
    x.h[0].auth = NULL;
    for (size_t i = 0; i < SNIC_COUNTOF(q); i++) {
        assert_int_equal(nh_open(&q[i], &x.h[0]), 0);
        assert_int_equal(nh_connect(&q[i], 0, SNIC_NVME_CNTLID_DYNAMIC), 0);
    }
    x.h[0].auth = auth.ops;
    for (size_t i = 0; i < SNIC_COUNTOF(q); i++) {
        (void)nh_authenticate(&q[i]);
        if (i >= 3)
            wait_end(&q[i]);
    }
    assert_int_equal(tx_stats(&x).busy, 2);
    assert_int_equal(nh_authenticate(&q[2]), 0); /* it has been counted */
    assert_int_equal(q[2].proof.state, SNIC_NVMEAUTH_DONE);
    assert_int_equal(tx_stats(&x).busy, 2);
    for (size_t i = 0; i < SNIC_COUNTOF(q); i++)
        nh_close(&q[i]);
    close_all();
}

static void test_nvmet_auth_opts_refused(void **state)
{
    struct snic_nvmet_auth_opts o;
    (void)state;
    tx_opts(&x);
    open_target();
    assert_int_equal(snic_nvmet_auth(x.t, &auth), SNIC_EBUSY);
    for (int i = 0; i < 7; i++) {
        o = auth;
        o.opts_size = i == 0 ? 1 : o.opts_size;
        o.hashes = i == 1 ? 1 : 0;
        o.groups = i == 2 ? 64 : 0;
        o.reserved = i == 3;
        o.ops = i == 4 ? NULL : o.ops;
        o.random = i == 5 ? NULL : o.random;
        o.limit_ns = i == 6 ? SNIC_NVMETCP_NS_MAX + 1 : 0;
        assert_int_equal(snic_nvmet_auth(x.t, &o), SNIC_EINVAL);
    }
    close_all();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nvmet_auth_hosts_served, tx_without_switch),
        cmocka_unit_test_setup(test_nvmet_auth_hosts_served, tx_with_loops),
        cmocka_unit_test_setup(test_nvmet_auth_largest_groups_refused, tx_without_switch),
        cmocka_unit_test_setup(test_nvmet_auth_nothing_before, tx_without_switch),
        cmocka_unit_test_setup(test_nvmet_auth_nothing_before, tx_with_loops),
        cmocka_unit_test_setup(test_nvmet_auth_wrong_key_ends_connection, tx_without_switch),
        cmocka_unit_test_setup(test_nvmet_auth_wrong_key_ends_connection, tx_with_loops),
        cmocka_unit_test_setup(test_nvmet_auth_wrong_commands, tx_without_switch),
        cmocka_unit_test_setup(test_nvmet_auth_too_slow_closed, tx_without_switch),
        cmocka_unit_test_setup(test_nvmet_auth_failed_again_soon_closed, tx_without_switch),
        cmocka_unit_test_setup(test_nvmet_auth_claims_keep_no_host_out, tx_without_switch),
        cmocka_unit_test_setup(test_nvmet_auth_late_proofs_bounded, tx_without_switch),
        cmocka_unit_test_setup(test_nvmet_auth_late_proofs_bounded, tx_with_loops),
        cmocka_unit_test_setup(test_nvmet_auth_opts_refused, tx_without_switch),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
