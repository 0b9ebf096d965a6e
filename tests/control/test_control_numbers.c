/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Over time a client sees more servers than it has numbers for (servers_max): numbers of unused
 * servers are reused. All of its I/O ends, and reads return what was written last, whatever late
 * packets of earlier servers contain.
 *
 *     test_control_numbers --seed 17 many_solar
 *     SNIC_SIM_FROM=1000 SNIC_SIM_COUNT=500 test_control_numbers many
 */
#include <stdio.h>
#include <stdlib.h>

#include "ctlfix.h"
#include "support.h"

static struct ctlfix fix;

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static struct snic_control_item where(uint64_t segment)
{
    struct snic_control_item it;
    assert_int_equal(snic_control_find(fix.ctl, fix.client[0].handle[0].vd, segment, &it), 0);
    return it;
}

/* All segments of disk 0. */
static void move_all(struct ctlfix *f, uint32_t to)
{
    for (uint64_t i = 0; i < CTLFIX_SEGMENTS; i++)
        if (where(i).server != ctlfix_id(f, to))
            assert_int_equal(ctlfix_move(f, 0, i, to), 0);
}

/* Client 0 with disk 0, all of whose segments are on server 0, and numbers for @p numbers. */
static void begin(struct ctlfix *f, uint32_t transport, uint64_t seed, uint32_t numbers)
{
    static unsigned char one[4096];
    ctlfix_start(f, seed, CTLFIX_SERVERS);
    f->transport = transport;
    assert_int_equal(ctlfix_create(f, 0), 0);
    ctlfix_client_start(f, 0);
    assert_int_equal(ctlfix_attach(f, 0, 0, 0), 0);
    for (uint64_t i = 0; i < CTLFIX_SEGMENTS; i++)
        assert_int_equal(ctlfix_io(f, 0, 0, SNIC_IO_WRITE, i << 21, 4096, one), 4096);
    move_all(f, 0);
    ctlfix_client_kill(f, 0);
    f->servers_max = numbers;
    ctlfix_client_start(f, 0);
    assert_int_equal(ctlfix_attach(f, 0, 0, SNIC_CONTROL_TAKE), 0);
}

static uint32_t numbers_used(const struct ctlfix *f)
{
    struct snic_control_client_stats s;
    snic_control_client_get_stats(f->client[0].cc, &s);
    return s.servers;
}

static int over;

static void io_over(struct snic_io_req *r)
{
    (void)r;
    over = 1;
}

/* One I/O of a block, which may last ten seconds: an abandoned write waits for the fence of a
   server that is lost. */
static void io(struct ctlfix *f, uint32_t op, uint64_t offset, void *data)
{
    struct snic_io_req r, *p = &r;
    snic_io_req_init(&r);
    r.done = io_over;
    r.op = (uint8_t)op;
    r.offset = offset;
    r.length = r.buf.size = 4096;
    r.buf.base = data;
    over = 0;
    assert_int_equal(snic_io_submit(f->client[0].handle[0].io, &p, 1), 1);
    uint64_t end = snic_world_now(f->world) + 10000 * CTLFIX_MS;
    while (!over && snic_world_now(f->world) < end)
        assert_int_equal(snic_world_step(f->world), 1);
    assert_int_equal(over, 1);
    assert_int_equal(r.result, 4096);
}

/* Segments move from server to server in a circle, with two numbers; servers without segments
   are killed. */
static void rounds(uint32_t transport)
{
    static unsigned char data[4096], back[4096];
    struct ctlfix *f = &fix;
    begin(f, transport, support_seed(), 2);
    for (uint32_t round = 0; round < 9; round++) {
        uint32_t at = round % CTLFIX_SERVERS, last = (at + CTLFIX_SERVERS - 1) % CTLFIX_SERVERS;
        move_all(f, at);
        if (round > 0)
            ctlfix_server_kill(f, last, round);
        for (uint64_t i = 0; i < CTLFIX_SEGMENTS; i++) {
            uint64_t place = (i << 21) + 4096 * round;
            memset(data, (int)(1 + round * 16 + i), sizeof(data));
            io(f, SNIC_IO_WRITE, place, data);
            io(f, SNIC_IO_READ, place, back);
            assert_memory_equal(data, back, sizeof(data));
        }
        if (round > 0)
            ctlfix_server_start(f, last);
        ctlfix_ready(f);
    }
    assert_int_equal(f->client[0].lookups_failed, 0);
    assert_int_equal(numbers_used(f), 2);
    ctlfix_check(f);
    ctlfix_end(f);
}

static void test_control_numbers_rounds_solar(void **state)
{
    (void)state;
    rounds(SNIC_VOLUME_SOLAR);
}

static void test_control_numbers_rounds_luna(void **state)
{
    (void)state;
    rounds(SNIC_VOLUME_LUNA);
}

/* A disk on more servers than numbers: it is slow, and no I/O fails. */
static void crowded(uint32_t transport)
{
    static unsigned char data[4096], back[4096];
    struct ctlfix *f = &fix;
    begin(f, transport, support_seed(), 1);
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++)
        if (where(i).server != ctlfix_id(f, i % CTLFIX_SERVERS))
            assert_int_equal(ctlfix_move(f, 0, i, i % CTLFIX_SERVERS), 0);
    for (uint64_t i = 0; i < 4 * CTLFIX_SEGMENTS; i++) {
        uint64_t place = (i % CTLFIX_SEGMENTS << 21) + 4096 * i;
        memset(data, (int)(1 + i), sizeof(data));
        io(f, SNIC_IO_WRITE, place, data);
        io(f, SNIC_IO_READ, place, back);
        assert_memory_equal(data, back, sizeof(data));
    }
    ctlfix_check(f);
    ctlfix_end(f);
}

static void test_control_numbers_more_servers_than_numbers(void **state)
{
    (void)state;
    crowded(SNIC_VOLUME_SOLAR);
    crowded(SNIC_VOLUME_LUNA);
}

/* Two numbers, and a server that is used between any two uses of the others: it keeps its
   number. */
static void least_recent(uint32_t transport)
{
    static unsigned char back[4096];
    struct ctlfix *f = &fix;
    struct snic_control_client_stats s;
    enum { USES = 12 };
    begin(f, transport, support_seed(), 2);
    for (uint32_t i = 1; i < 3; i++)
        assert_int_equal(ctlfix_move(f, 0, i, i), 0);
    for (uint64_t i = 0; i < USES; i++) {
        snic_control_client_get_stats(f->client[0].cc, &s);
        uint64_t before = s.numbers_reused;
        io(f, SNIC_IO_READ, 0, back);
        snic_control_client_get_stats(f->client[0].cc, &s);
        if (i >= 2) /* moves were reported, too */
            assert_int_equal(s.numbers_reused, before);
        ctlfix_run(f, CTLFIX_MS);
        io(f, SNIC_IO_READ, (1 + i % 2) << 21, back);
        ctlfix_run(f, CTLFIX_MS);
    }
    assert_int_equal(s.numbers_exhausted, 0);
    ctlfix_check(f);
    ctlfix_end(f);
}

static void test_control_numbers_least_recently_used_freed(void **state)
{
    (void)state;
    least_recent(SNIC_VOLUME_SOLAR);
    least_recent(SNIC_VOLUME_LUNA);
}

/* Late packets arrive after the move, after the death of their sender, and at the server that
   has its number. */
static void weather(struct ctlfix *f)
{
    struct snic_net_link l = {.delay_min_ns = 5000};
    l.delay_max_ns = 5000 + snic_rng_below(&f->rng, 100000);
    l.loss_ppm = (uint32_t)snic_rng_below(&f->rng, 50000);
    l.duplicate_ppm = (uint32_t)snic_rng_below(&f->rng, 200000);
    l.reorder_ppm = (uint32_t)snic_rng_below(&f->rng, 200000);
    l.reorder_ns = snic_rng_below(&f->rng, 600) * CTLFIX_MS;
    if (f->transport == SNIC_VOLUME_LUNA) { /* a stream waits for them */
        l.loss_ppm /= 50;
        l.reorder_ppm /= 100;
        l.reorder_ns /= 10;
    }
    for (uint32_t s = 0; s < f->servers; s++) {
        assert_int_equal(snic_net_fabric_link(f->fabric, s, CTLFIX_CLIENT, &l), 0);
        assert_int_equal(snic_net_fabric_link(f->fabric, CTLFIX_CLIENT, s, &l), 0);
    }
}

/* Under load with two numbers: the server before the last one has no I/O any more. */
static void run_one(uint32_t transport, uint64_t seed)
{
    struct ctlfix *f = &fix;
    begin(f, transport, seed, 2);
    struct ctlfix_handle *g = &f->client[0].handle[0];
    uint32_t at = 0;
    weather(f);
    for (uint32_t round = 0; round < 6; round++) {
        uint32_t last = at;
        ctlfix_load(f, 0, 0, UINT32_MAX);
        ctlfix_run(f, snic_rng_below(&f->rng, 200 * CTLFIX_MS));
        at = (at + 1 + (uint32_t)snic_rng_below(&f->rng, 2)) % CTLFIX_SERVERS;
        move_all(f, at);
        int kill = snic_rng_below(&f->rng, 2) != 0;
        if (kill)
            ctlfix_server_kill(f, last, snic_rng_next(&f->rng));
        ctlfix_run(f, snic_rng_below(&f->rng, 100 * CTLFIX_MS));
        g->wanted = g->begun;
        int r = ctlfix_settle(f, 12000 * CTLFIX_MS);
        if (r != 0 || f->why[0] != 0)
            printf("seed %llu %s: %u I/Os do not end: %s\n", (unsigned long long)seed,
                   transport == SNIC_VOLUME_LUNA ? "luna" : "solar", g->inflight, f->why);
        assert_int_equal(r, 0);
        assert_int_equal(g->failed, 0);
        if (kill)
            ctlfix_server_start(f, last);
        ctlfix_ready(f);
    }
    ctlfix_audit(f, 0);
    ctlfix_check(f);
    ctlfix_end(f);
}

static void many(uint32_t transport)
{
    uint64_t from = number("SNIC_SIM_FROM", 100 + support_seed());
    uint64_t count = number("SNIC_SIM_COUNT", support_rounds(5, 200));
    for (uint64_t i = 0; i < count; i++)
        run_one(transport, from + i);
}

static void test_control_numbers_many_solar(void **state)
{
    (void)state;
    many(SNIC_VOLUME_SOLAR);
}

static void test_control_numbers_many_luna(void **state)
{
    (void)state;
    many(SNIC_VOLUME_LUNA);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_control_numbers_rounds_solar),
        cmocka_unit_test(test_control_numbers_rounds_luna),
        cmocka_unit_test(test_control_numbers_least_recently_used_freed),
        cmocka_unit_test(test_control_numbers_more_servers_than_numbers),
        cmocka_unit_test(test_control_numbers_many_solar),
        cmocka_unit_test(test_control_numbers_many_luna),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
