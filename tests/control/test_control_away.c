/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A client reconnects after its segments moved and their old server was lost: no server refuses its
 * requests, and it did not receive the new locations. All of its I/O ends soon, and reads return
 * what was written last.
 *
 *     test_control_away --seed 17 many_solar
 *     SNIC_SIM_FROM=1000 SNIC_SIM_COUNT=500 test_control_away many
 */
#include <stdio.h>
#include <stdlib.h>

#include "ctlfix.h"
#include "support.h"

#define LOOKUPS 64u

static struct ctlfix fix;

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static void cut(struct ctlfix *f, uint32_t node, uint32_t ways)
{
    snic_net_fabric_partition(f->fabric, node, CTLFIX_CLIENT, (ways & 1) != 0);
    snic_net_fabric_partition(f->fabric, CTLFIX_CLIENT, node, (ways & 2) != 0);
}

/* Late packets arrive after the move, and after the death of their sender. */
static void weather(struct ctlfix *f)
{
    struct snic_net_link l = {.delay_min_ns = 5000};
    l.delay_max_ns = 5000 + snic_rng_below(&f->rng, 100000);
    l.loss_ppm = (uint32_t)snic_rng_below(&f->rng, 50000);
    l.duplicate_ppm = (uint32_t)snic_rng_below(&f->rng, 100000);
    l.reorder_ppm = (uint32_t)snic_rng_below(&f->rng, 100000);
    l.reorder_ns = snic_rng_below(&f->rng, 6000) * CTLFIX_MS;
    if (f->transport == SNIC_VOLUME_LUNA) { /* a stream waits for them */
        l.loss_ppm /= 50;
        l.reorder_ppm /= 50;
        l.reorder_ns /= 100;
    }
    for (uint32_t s = 0; s < f->servers; s++) {
        assert_int_equal(snic_net_fabric_link(f->fabric, s, CTLFIX_CLIENT, &l), 0);
        assert_int_equal(snic_net_fabric_link(f->fabric, CTLFIX_CLIENT, s, &l), 0);
    }
}

static struct snic_control_item where(uint64_t segment)
{
    struct snic_control_item it;
    assert_int_equal(snic_control_find(fix.ctl, fix.client[0].handle[0].vd, segment, &it), 0);
    return it;
}

/* Client 0 with disk 0, all segments placed. */
static void begin(struct ctlfix *f, uint32_t transport, uint64_t seed, uint32_t lookups_max)
{
    static unsigned char one[4096];
    ctlfix_start(f, seed, CTLFIX_SERVERS);
    f->transport = transport;
    f->lookups_max = lookups_max;
    assert_int_equal(ctlfix_create(f, 0), 0);
    ctlfix_client_start(f, 0);
    assert_int_equal(ctlfix_attach(f, 0, 0, 0), 0);
    for (uint64_t i = 0; i < CTLFIX_SEGMENTS; i++)
        assert_int_equal(ctlfix_io(f, 0, 0, SNIC_IO_WRITE, i << 21, 4096, one), 4096);
}

/* Move all segments of @p from to others, in one move or two. */
static void empty(struct ctlfix *f, uint32_t from)
{
    uint32_t id = ctlfix_id(f, from);
    for (uint64_t i = 0; i < CTLFIX_SEGMENTS; i++) {
        if (where(i).server != id)
            continue;
        uint32_t to = (from + 1 + (uint32_t)snic_rng_below(&f->rng, 2)) % CTLFIX_SERVERS;
        assert_int_equal(ctlfix_move(f, 0, i, to), 0);
        if (snic_rng_below(&f->rng, 4) == 0)
            assert_int_equal(ctlfix_move(f, 0, i, CTLFIX_SERVERS - from - to), 0);
    }
}

static void run_one(uint32_t transport, uint64_t seed)
{
    struct ctlfix *f = &fix;
    begin(f, transport, seed, LOOKUPS);
    struct ctlfix_handle *g = &f->client[0].handle[0];
    uint32_t gone = (uint32_t)snic_rng_below(&f->rng, CTLFIX_SERVERS);
    uint32_t ways = 1 + (uint32_t)snic_rng_below(&f->rng, 3);
    int all = snic_rng_below(&f->rng, 2) != 0;
    weather(f);
    ctlfix_load(f, 0, 0, UINT32_MAX);
    ctlfix_run(f, snic_rng_below(&f->rng, 50 * CTLFIX_MS));
    cut(f, CTLFIX_CTL, ways);
    for (uint32_t i = 0; i < CTLFIX_SERVERS; i++)
        if (all || i == gone)
            cut(f, i, ways);
    ctlfix_run(f, (2500 + snic_rng_below(&f->rng, 8000)) * CTLFIX_MS);
    empty(f, gone);
    uint64_t kill = snic_rng_below(&f->rng, 4) != 0 ? 0 : snic_rng_below(&f->rng, 20 * CTLFIX_MS);
    if (kill == 0)
        ctlfix_server_kill(f, gone, snic_rng_next(&f->rng));
    if (snic_rng_below(&f->rng, 4) == 0) {
        ctlfix_ctl_kill(f, snic_rng_next(&f->rng));
        assert_int_equal(ctlfix_ctl_start(f), 0);
        ctlfix_ready(f);
    }
    cut(f, CTLFIX_CTL, 0);
    for (uint32_t i = 0; i < CTLFIX_SERVERS; i++)
        cut(f, i, 0);
    if (kill != 0) {
        ctlfix_run(f, kill);
        ctlfix_server_kill(f, gone, snic_rng_next(&f->rng));
    }
    g->wanted = g->begun;
    int r = ctlfix_settle(f, 12000 * CTLFIX_MS);
    if (r != 0 || f->why[0] != 0)
        printf("seed %llu %s: %u I/Os do not end: %s\n", (unsigned long long)seed,
               transport == SNIC_VOLUME_LUNA ? "luna" : "solar", g->inflight, f->why);
    assert_int_equal(r, 0);
    ctlfix_load(f, 0, 0, 100);
    assert_int_equal(ctlfix_settle(f, 20000 * CTLFIX_MS), 0);
    ctlfix_audit(f, 0);
    ctlfix_check(f);
    ctlfix_end(f);
}

static void alone(struct ctlfix *f, int is)
{
    cut(f, CTLFIX_CTL, is ? 3 : 0);
    for (uint32_t i = 0; i < CTLFIX_SERVERS; i++)
        cut(f, i, is ? 3 : 0);
}

/* The server that has the first segment. */
static uint32_t home(struct ctlfix *f)
{
    uint32_t i = 0;
    while (ctlfix_id(f, i) != where(0).server)
        i++;
    return i;
}

static int over;

static void io_over(struct snic_io_req *r)
{
    (void)r;
    over = 1;
}

static void write_begin(struct ctlfix *f, struct snic_io_req *r, unsigned char *data)
{
    snic_io_req_init(r);
    r->done = io_over;
    r->op = SNIC_IO_WRITE;
    r->length = r->buf.size = 4096;
    r->buf.base = data;
    over = 0;
    assert_int_equal(snic_io_submit(f->client[0].handle[0].io, &r, 1), 1);
}

/* An abandoned write waits for the fence of a server that is lost; the move provides it. */
static void abandoned(uint32_t transport)
{
    static unsigned char data[4096], back[4096];
    struct ctlfix *f = &fix;
    struct snic_io_req r;
    begin(f, transport, support_seed(), LOOKUPS);
    uint32_t gone = home(f);
    assert_int_equal(ctlfix_io(f, 0, 0, SNIC_IO_READ, 0, 4096, back), 4096); /* connected */
    memset(data, 7, sizeof(data));
    write_begin(f, &r, data);
    ctlfix_run(f, 20000); /* it may be under way */
    cut(f, gone, 3);      /* the catalog reports that nothing has changed */
    ctlfix_run(f, 61000 * CTLFIX_MS);
    assert_int_equal(over, 0);
    alone(f, 1);
    ctlfix_run(f, 4000 * CTLFIX_MS);
    empty(f, gone);
    ctlfix_server_kill(f, gone, 1);
    alone(f, 0);
    ctlfix_run(f, 12000 * CTLFIX_MS);
    assert_int_equal(over, 1);
    assert_int_equal(r.result, SNIC_EIO);
    memset(data, 8, sizeof(data));
    assert_int_equal(ctlfix_io(f, 0, 0, SNIC_IO_WRITE, 0, 4096, data), 4096);
    assert_int_equal(ctlfix_io(f, 0, 0, SNIC_IO_READ, 0, 4096, back), 4096);
    assert_memory_equal(data, back, sizeof(data));
    ctlfix_check(f);
    ctlfix_end(f);
}

/* A segment that cannot be located is looked up with back-off, however many I/Os wait for it. */
static void seldom(uint32_t transport, int dead)
{
    struct snic_control_stats before, after;
    struct ctlfix *f = &fix;
    begin(f, transport, support_seed(), LOOKUPS);
    uint32_t gone = home(f), there = 0;
    for (uint64_t i = 0; i < CTLFIX_SEGMENTS; i++)
        there += where(i).server == where(0).server;
    if (dead)
        ctlfix_server_kill(f, gone, 1);
    else
        cut(f, gone, 3);
    ctlfix_load(f, 0, 0, UINT32_MAX);
    ctlfix_run(f, 2000 * CTLFIX_MS); /* soon all wait for it */
    assert_true(fix.client[0].handle[0].inflight > 0);
    snic_control_get_stats(f->ctl, &before);
    ctlfix_run(f, 50000 * CTLFIX_MS);
    snic_control_get_stats(f->ctl, &after);
    assert_in_range(after.lookups - before.lookups, 4 * there, (dead ? 120 : 10) * there);
    if (dead)
        ctlfix_server_start(f, gone);
    else
        cut(f, gone, 0);
    fix.client[0].handle[0].wanted = 0;
    assert_int_equal(ctlfix_settle(f, 5000 * CTLFIX_MS), 0);
    ctlfix_audit(f, 0);
    ctlfix_check(f);
    ctlfix_end(f);
}

/* More segments are looked up than the table holds, some of them not needed any more: all I/O
   ends. */
static void crowded(uint32_t transport)
{
    struct snic_control_client_stats s;
    struct ctlfix *f = &fix;
    begin(f, transport, support_seed(), 1);
    ctlfix_load(f, 0, 0, UINT32_MAX);
    alone(f, 1);
    ctlfix_run(f, 10000 * CTLFIX_MS);
    snic_control_client_get_stats(f->client[0].cc, &s);
    assert_int_equal(s.lookups_pending, 1);
    uint32_t gone = home(f);
    empty(f, gone);
    ctlfix_server_kill(f, gone, 1);
    alone(f, 0);
    f->client[0].handle[0].wanted = 0;
    assert_int_equal(ctlfix_settle(f, 40000 * CTLFIX_MS), 0);
    ctlfix_audit(f, 0);
    ctlfix_check(f);
    ctlfix_end(f);
}

static void many(uint32_t transport)
{
    uint64_t from = number("SNIC_SIM_FROM", 100 + support_seed());
    uint64_t count = number("SNIC_SIM_COUNT", support_rounds(15, 200));
    for (uint64_t i = 0; i < count; i++)
        run_one(transport, from + i);
}

static void test_control_away_many_solar(void **state)
{
    (void)state;
    many(SNIC_VOLUME_SOLAR);
}

static void test_control_away_many_luna(void **state)
{
    (void)state;
    many(SNIC_VOLUME_LUNA);
}

static void test_control_away_abandoned_solar(void **state)
{
    (void)state;
    abandoned(SNIC_VOLUME_SOLAR);
}

static void test_control_away_abandoned_luna(void **state)
{
    (void)state;
    abandoned(SNIC_VOLUME_LUNA);
}

static void test_control_away_lookups_back_off(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        seldom(i & 1 ? SNIC_VOLUME_LUNA : SNIC_VOLUME_SOLAR, i >= 2);
}

static void test_control_away_lookup_table_full(void **state)
{
    (void)state;
    crowded(SNIC_VOLUME_SOLAR);
    crowded(SNIC_VOLUME_LUNA);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_control_away_many_solar),
                                       cmocka_unit_test(test_control_away_many_luna),
                                       cmocka_unit_test(test_control_away_abandoned_solar),
                                       cmocka_unit_test(test_control_away_abandoned_luna),
                                       cmocka_unit_test(test_control_away_lookups_back_off),
                                       cmocka_unit_test(test_control_away_lookup_table_full)};
    return SUPPORT_MAIN(argc, argv, tests);
}
