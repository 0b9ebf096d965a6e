/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Targets that stand still in part, or do not keep to the protocol: no old write lands on a newer
 * one, close returns, results are as documented.
 */
#include "test_nvmehost_util.h"
#include "wire.h"

#include <string.h>

static struct hx x;
static struct wire wire;
static unsigned char data[256 << 10], back[256 << 10];

/* The first path leads through the wire: its connection 0 is the admin queue, 1 the I/O queue. */
static void open_wired(uint32_t paths)
{
    x.paths = paths;
    hx_open_target(&x);
    struct snic_net_addr to = x.addrs[0];
    wire_open(&wire, x.world, x.fabric, 3, 4421, &to);
    x.addrs[0].node = 3;
    x.addrs[0].port = 4421;
}

static void open_host(void)
{
    hx_open_host(&x);
    assert_int_equal(snic_nvmehost_wait(x.h, 10 * HX_S), 0);
    x.io = snic_nvmehost_io(x.h);
    hx_run(&x, 200 * HX_MS);
}

static void close_wired(void)
{
    hx_close_host(&x);
    wire_close(&wire);
    hx_close(&x);
}

/* An I/O queue's thread of the target stands still, the admin queue's ends its connection: what the
 * I/O queue holds can still be carried out. */
static void test_nvmehost_admin_end_proves_nothing(void **state)
{
    struct hx_req w;
    (void)state;
    hx_opts(&x);
    x.stubborn = 1;
    x.o.io_ns = 200 * HX_MS;
    open_wired(2);
    open_host();
    assert_int_equal(snic_nvmesub_ana_set(snic_nvmet_engine(x.t, 0), 1, 1,
                                          SNIC_NVME_ANA_NON_OPTIMIZED),
                     0);
    snic_nvmet_run(x.t);
    hx_run(&x, 200 * HX_MS);
    assert_int_equal(hx_stats(&x).usable, 2);
    wire_hold(&wire, 1, 1);
    hx_start(&x, &w, SNIC_IO_WRITE, 0, data, 4096);
    hx_run(&x, 500 * HX_MS); /* the path ends, the other one is up */
    assert_int_equal(hx_stats(&x).failures, 1);
    assert_int_equal(w.done, 0);
    assert_int_equal(hx_stats(&x).proofs, 0);
    assert_int_equal(hx_wait(&x, &w), 4096);
    assert_int_equal(hx_stats(&x).proofs, 0);
    assert_int_equal(hx_stats(&x).fenced, 1);
    close_wired();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmehost_admin_end_proves_nothing),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
