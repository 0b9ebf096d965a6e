/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Targets that require authentication: both ways, with right and wrong keys, again after a loss. */
#include "test_nvmehost_util.h"

#include <string.h>

static struct hx x;
static unsigned char data[8192];
static struct snic_nvmeauth_keys right;

static int keys(void *ctx, const char *hostnqn, struct snic_nvmeauth_keys *out)
{
    (void)ctx;
    (void)hostnqn;
    *out = right;
    return 0;
}

static int random_bytes(struct snic_nvmeauth_random *out)
{
    static uint64_t number;
    hx_fill(out, sizeof(*out), ++number);
    return 0;
}

static void prepare(int both)
{
    static const char *const hosts[] = {HX_HOSTNQN};
    static struct snic_nvmet_auth_opts auth;
    if (snic_nvmeauth_openssl() == NULL)
        support_skip("built without libcrypto (libssl-dev)");
    hx_opts(&x);
    memset(&right, 0, sizeof(right));
    right.host.hash = 1;
    right.host.size = 32;
    memset(right.host.bytes, 7, 32);
    right.ctrl = right.host;
    right.ctrl.size = both ? 32 : 0;
    right.ctrl.bytes[3] = 9;
    memset(&auth, 0, sizeof(auth));
    auth.opts_size = sizeof(auth);
    auth.ops = snic_nvmeauth_openssl();
    auth.random = random_bytes;
    auth.keys = keys;
    auth.groups = 1; /* the null group: for speed */
    x.auth = &auth;
    x.sub.flags = 0;
    x.sub.hosts = hosts;
    x.sub.host_count = 1;
    x.o.queues = 2;
    x.o.auth = auth.ops;
    x.o.random = random_bytes;
    x.o.keys = right;
}

static void test_nvmehost_auth_served_and_again(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        prepare(both);
        hx_open(&x);
        assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, sizeof(data)), sizeof(data));
        hx_kill_target(&x);
        hx_start_target(&x);
        assert_int_equal(hx_do(&x, SNIC_IO_READ, 0, data, sizeof(data)), sizeof(data));
        assert_int_equal(hx_stats(&x).connects, 2);
        hx_close(&x);
    }
}

static void denied(void)
{
    hx_open_target(&x);
    hx_open_host(&x);
    assert_int_equal(snic_nvmehost_wait(x.h, 5 * HX_S), SNIC_EACCES);
    hx_close(&x);
}

static void test_nvmehost_auth_wrong_keys_refused(void **state)
{
    (void)state;
    prepare(1);
    x.o.auth = NULL;
    denied();
    prepare(0);
    x.o.keys.host.bytes[0] ^= 1;
    denied();
    prepare(1);
    x.o.keys.ctrl.bytes[0] ^= 1; /* the target does not prove its identity */
    denied();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmehost_auth_served_and_again),
        cmocka_unit_test(test_nvmehost_auth_wrong_keys_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
