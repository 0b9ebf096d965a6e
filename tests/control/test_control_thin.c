/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A segment that was never written is not placed, neither by reading it, nor by zeroing or
 * discarding it.
 */
#include "test_control_util.h"

static uint32_t over;

static void io_over(struct snic_io_req *r)
{
    (void)r;
    over++;
}

static void begin_io(uint32_t client, struct snic_io_req *r, uint32_t op, uint64_t offset,
                     unsigned char *data)
{
    snic_io_req_init(r);
    r->op = (uint8_t)op;
    r->buf.base = data;
    r->buf.size = 4096;
    r->offset = offset;
    r->length = 4096;
    r->done = io_over;
    assert_int_equal(snic_io_submit(fix.client[client].handle[0].io, &r, 1), 1);
}

static struct snic_control_stats catalog(void)
{
    struct snic_control_stats s;
    snic_control_get_stats(fix.ctl, &s);
    return s;
}

/* Run until the catalog has received one more lookup; its answer is in flight. */
static void lookup_sent(void)
{
    uint64_t was = catalog().lookups;
    while (catalog().lookups == was)
        assert_int_equal(snic_world_step(fix.world), 1);
}

static void thin_disk(void)
{
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    over = 0;
}

static uint32_t waiting(void)
{
    struct snic_control_client_stats s;
    snic_control_client_get_stats(fix.client[0].cc, &s);
    return s.lookups_pending;
}

static void is_zeros(const unsigned char *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (at[i] != 0)
            fail_msg("byte %zu is %d", i, at[i]);
}

static void test_control_thin_read_places_nothing(void **state)
{
    (void)state;
    thin_disk();
    assert_int_equal(catalog().segments, 0);
    memset(buffer, 1, 8u << 20);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 8u << 20, buffer), 8u << 20);
    is_zeros(buffer, 8u << 20);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_ZERO, 0, 8u << 20, NULL), 8u << 20);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_DISCARD, 0, 8u << 20, NULL), 8u << 20);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_FLUSH, 0, 0, NULL), 0);
    assert_int_equal(catalog().segments, 0);
    assert_int_equal(waiting(), 0);
    memset(buffer, 7, 4096);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 2u << 20, 4096, buffer), 4096);
    assert_int_equal(catalog().segments, 1);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, (2u << 20) - 4096, 3 * 4096, buffer),
                     3 * 4096);
    for (uint32_t i = 0; i < 3 * 4096; i++)
        assert_int_equal(buffer[i], i / 4096 == 1 ? 7 : 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_ZERO, 1u << 20, 3u << 20, NULL), 3u << 20);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 2u << 20, 4096, buffer), 4096);
    is_zeros(buffer, 4096);
    assert_int_equal(catalog().segments, 1);
    assert_int_equal(where(1, 1).gen, snic_volume_gen(1, 0));
}

/* The read is looked up first; a write submitted before the answer is placed at once. */
static void test_control_thin_write_beside_a_read(void **state)
{
    struct snic_io_req r[2];
    (void)state;
    thin_disk();
    memset(buffer, 7, 8192);
    begin_io(0, &r[0], SNIC_IO_READ, 0, buffer);
    lookup_sent();
    begin_io(0, &r[1], SNIC_IO_WRITE, 4096, buffer + 4096);
    assert_int_equal(over, 0);
    ctlfix_run(&fix, 20 * CTLFIX_MS);
    assert_int_equal(over, 2);
    assert_true(r[0].result == 4096 && r[1].result == 4096);
    is_zeros(buffer, 4096);
    assert_int_equal(catalog().segments, 1);
    assert_int_equal(waiting(), 0);
}

/* Reads come faster than answers: each ends with the answer to a lookup sent after it began. */
static void test_control_thin_many_reads(void **state)
{
    struct snic_io_req r[CTLFIX_DEPTH];
    (void)state;
    thin_disk();
    memset(buffer, 1, SNIC_COUNTOF(r) * 4096);
    for (uint32_t i = 0; i < SNIC_COUNTOF(r); i++) {
        begin_io(0, &r[i], SNIC_IO_READ, (uint64_t)i * 4096, buffer + (size_t)i * 4096);
        ctlfix_run(&fix, 7000);
    }
    ctlfix_run(&fix, CTLFIX_MS);
    assert_int_equal(over, SNIC_COUNTOF(r));
    is_zeros(buffer, SNIC_COUNTOF(r) * 4096);
    assert_true(catalog().lookups <= SNIC_COUNTOF(r) + 8);
    assert_true(catalog().segments == 0 && waiting() == 0);
}

/* The catalog is down until the reads and writes are abandoned: none needs a place any more. */
static void test_control_thin_abandoned_write_places_nothing(void **state)
{
    struct snic_io_req r[3];
    (void)state;
    thin_disk();
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_ALL);
    begin_io(0, &r[0], SNIC_IO_READ, 0, buffer);
    begin_io(0, &r[1], SNIC_IO_READ, 2u << 20, buffer);
    begin_io(0, &r[2], SNIC_IO_WRITE, 4u << 20, buffer);
    ctlfix_run(&fix, 61000 * CTLFIX_MS);
    assert_int_equal(over, 3);
    assert_true(r[0].result < 0 && r[1].result < 0 && r[2].result < 0);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 8000 * CTLFIX_MS);
    assert_int_equal(catalog().segments, 0);
    assert_int_equal(waiting(), 0);
}

/* The answer "not placed" was in flight while another client took the disk and wrote: it must
   not answer a later lookup. */
static void test_control_thin_late_answer(void **state)
{
    const struct snic_net_link slow = {.delay_min_ns = 1000 * CTLFIX_MS,
                                       .delay_max_ns = 1000 * CTLFIX_MS};
    struct snic_io_req r[2];
    (void)state;
    thin_disk();
    assert_int_equal(snic_net_fabric_link(fix.fabric, CTLFIX_CTL, CTLFIX_CLIENT, &slow), 0);
    memset(buffer, 1, 8192);
    begin_io(0, &r[0], SNIC_IO_READ, 0, buffer);
    lookup_sent();
    ctlfix_run(&fix, CTLFIX_MS);
    ctlfix_client_start(&fix, 1);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, SNIC_CONTROL_TAKE), 0);
    memset(buffer + 8192, 7, 4096);
    assert_int_equal(ctlfix_io(&fix, 1, 0, SNIC_IO_WRITE, 4096, 4096, buffer + 8192), 4096);
    assert_int_equal(over, 0);
    begin_io(0, &r[1], SNIC_IO_READ, 4096, buffer + 4096);
    ctlfix_run(&fix, 62000 * CTLFIX_MS);
    assert_int_equal(over, 2);
    assert_true(r[0].result == 4096 && r[1].result != 4096);
}

/* An answer that arrives after its read was abandoned is ignored. */
static void test_control_thin_answer_after_the_end(void **state)
{
    const struct snic_net_link slow = {.delay_min_ns = 61000 * CTLFIX_MS,
                                       .delay_max_ns = 61000 * CTLFIX_MS};
    struct snic_io_req r;
    (void)state;
    thin_disk();
    assert_int_equal(snic_net_fabric_link(fix.fabric, CTLFIX_CTL, CTLFIX_CLIENT, &slow), 0);
    begin_io(0, &r, SNIC_IO_READ, 0, buffer);
    ctlfix_run(&fix, 130000 * CTLFIX_MS);
    assert_true(over == 1 && r.result < 0);
    assert_int_equal(catalog().segments, 0);
}

/* The catalog is killed with the lookup pending; the next process answers it. */
static void test_control_thin_catalog_dies(void **state)
{
    struct snic_io_req r;
    (void)state;
    thin_disk();
    memset(buffer, 1, 4096);
    begin_io(0, &r, SNIC_IO_READ, 0, buffer);
    lookup_sent();
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 10000 * CTLFIX_MS);
    assert_true(over == 1 && r.result == 4096);
    is_zeros(buffer, 4096);
    assert_true(catalog().segments == 0 && waiting() == 0);
}

int main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_control_thin_read_places_nothing),
        T(test_control_thin_write_beside_a_read),
        T(test_control_thin_many_reads),
        T(test_control_thin_abandoned_write_places_nothing),
        T(test_control_thin_late_answer),
        T(test_control_thin_answer_after_the_end),
        T(test_control_thin_catalog_dies),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
