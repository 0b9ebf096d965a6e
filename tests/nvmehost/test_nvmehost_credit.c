/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Credit of a target with a switch: for a host that requested it, and for one that did not. */
#include "snicstore/qos.h"
#include "test_nvmehost_util.h"

enum { COUNT = 32, ROUNDS = 8 };

static struct hx x;
static void *memory;
static unsigned char data[COUNT][16384];
static uint32_t least, most;

static struct snic_io *with_switch(struct snic_io *io)
{
    struct snic_qos_opts q = {.opts_size = sizeof(q), .flags = SNIC_QOS_AUTO};
    size_t size = snic_qos_memsize(io, &q);
    memory = support_guard_alloc(size, SNIC_QOS_ALIGN);
    assert_int_equal(snic_qos_open(&io, memory, size, io, &q), 0);
    return io;
}

/* Reads and writes, COUNT at a time; the least and the largest credit they brought. */
static void run(uint32_t flags, int switched)
{
    struct hx_req r[COUNT];
    hx_opts(&x);
    x.o.flags = flags;
    x.o.entries = 64;
    x.wrap = switched ? with_switch : NULL;
    hx_open(&x);
    least = UINT32_MAX;
    most = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < COUNT; i++)
            hx_start(&x, &r[i], (i + round) % 2 == 0 ? SNIC_IO_READ : SNIC_IO_WRITE, i * 16384,
                     data[i], 16384);
        for (uint32_t i = 0; i < COUNT; i++) {
            assert_int_equal(hx_wait(&x, &r[i]), 16384);
            least = (uint32_t)snic_min_u64(least, r[i].req.credit);
            most = (uint32_t)snic_max_u64(most, r[i].req.credit);
        }
    }
    assert_int_equal(hx_stats(&x).failures, 0);
    hx_close(&x);
    if (switched)
        support_guard_free(memory);
}

static void test_nvmehost_credit_for_who_requested_it(void **state)
{
    (void)state;
    run(SNIC_NVMEHOST_CREDIT, 1);
    assert_true(least >= 1 && most < 4096);
    run(0, 1);
    assert_int_equal(most, 0);
    run(SNIC_NVMEHOST_CREDIT, 0); /* a device that grants none is used without */
    assert_int_equal(most, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmehost_credit_for_who_requested_it),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
