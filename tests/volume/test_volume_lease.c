/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Leases at a block server: one that no client can have yet changes nothing where a control plane
 * grants them, and a fence of one that is over ends, too.
 */
#include "test_volume_util.h"

enum { LATER = 65535, CLIENT_NODE = 10 };

static int setup(uint32_t transport)
{
    buffer = aligned_alloc(4096, 1u << 20);
    assert_non_null(buffer);
    volfix_start(&fix, transport, support_seed(), 1);
    memset(buffer, 1, 8192);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 8192, buffer), 8192);
    return 0;
}

static void restart(uint32_t flags)
{
    volfix_client_kill(&fix);
    volfix_server_stop(&fix, 0);
    fix.governed = flags;
    assert_int_equal(volfix_server_start(&fix, 0), 0);
}

/* A client that claims lease @p epoch; the server knows nothing of it. Its deadline is short.
 */
static void pretend(uint32_t epoch, uint32_t gen)
{
    struct volfix_place place[VOLFIX_SEGMENTS];
    memcpy(place, fix.place, sizeof(place));
    memset(fix.place, 0, sizeof(fix.place)); /* nothing is raised */
    uint32_t before = fix.epoch;
    fix.epoch = epoch - 1;
    fix.deadline_ns = 40 * VOLFIX_MS;
    volfix_client_start(&fix);
    fix.deadline_ns = 0;
    fix.epoch = before;
    memcpy(fix.place, place, sizeof(place));
    for (uint32_t i = 0; i < VOLFIX_SEGMENTS; i++)
        fix.place[i].gen = gen;
}

static void truth(uint32_t gen)
{
    for (uint32_t i = 0; i < VOLFIX_SEGMENTS; i++)
        fix.place[i].gen = gen;
}

static struct snic_volume_server_stats stats(void)
{
    struct snic_volume_server_stats s;
    snic_volume_server_get_stats(fix.server[0].s, &s);
    return s;
}

static int over;
static int64_t result;

static void io_over(struct snic_io_req *r)
{
    over = 1;
    result = r->result;
}

/* A write whose copies are all lost until its deadline is over. */
static void write_lost(struct snic_io_req *r)
{
    struct snic_io_req *p = r;
    snic_io_req_init(r);
    r->done = io_over;
    r->op = SNIC_IO_WRITE;
    r->length = r->buf.size = 4096;
    r->buf.base = buffer;
    over = 0;
    snic_net_fabric_partition(fix.fabric, CLIENT_NODE, 0, 1);
    assert_int_equal(snic_io_submit(fix.io, &p, 1), 1);
    volfix_run(&fix, 100 * VOLFIX_MS);
    assert_int_equal(over, 0); /* it may be under way */
}

/* Then its fence arrives. */
static void write_late(struct snic_io_req *r)
{
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), 4096); /* connected */
    write_lost(r);
}

/* The next lease, as the control plane grants it. */
static void holder_writes(uint32_t gen)
{
    truth(gen);
    volfix_client_kill(&fix);
    fix.epoch = gen >> 16;
    volfix_client_start(&fix);
    memset(buffer, 3, 8192);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 8192, buffer), 8192);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 8192, buffer), 8192);
    for (uint32_t i = 0; i < 8192; i++)
        assert_int_equal(buffer[i], 3);
}

static void test_volume_lease_later_one_writes_nothing(void **state)
{
    uint32_t gen = fix.place[0].gen;
    (void)state;
    restart(SNIC_VOLUME_GOVERNED);
    pretend(LATER, snic_volume_gen(LATER, 0));
    memset(buffer, 2, 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_ESTALE);
    assert_true(stats().no_lease > 0);
    /* Nor under the generation that the segment has. */
    volfix_client_kill(&fix);
    pretend(LATER, gen);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_ESTALE);
    holder_writes(gen);
}

static void test_volume_lease_later_one_fences_nothing(void **state)
{
    uint32_t gen = fix.place[0].gen;
    struct snic_segments_stat stat;
    struct snic_io_req r;
    (void)state;
    restart(SNIC_VOLUME_GOVERNED);
    pretend(LATER, gen);
    write_late(&r);
    snic_net_fabric_partition(fix.fabric, CLIENT_NODE, 0, 0);
    volfix_run(&fix, 1000 * VOLFIX_MS);
    assert_int_equal(over, 1);
    assert_true(stats().target.fences + stats().luna.fences > 0);
    assert_int_equal(snic_segments_find(snic_volume_server_store(fix.server[0].s), 100, &stat), 0);
    assert_int_equal(stat.min_wver, 0);
    holder_writes(gen);
}

/* A generation that the segment does not have yet: the client asks, until it gets one that the
   segment has. */
static void test_volume_lease_later_generation_looked_up(void **state)
{
    struct snic_io_req r, *p = &r;
    (void)state;
    restart(SNIC_VOLUME_GOVERNED);
    volfix_client_start(&fix);
    uint32_t gen = fix.place[0].gen;
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), 4096);
    assert_int_equal(snic_volume_map(fix.v, 0, 0, 100, 0, gen + 5), 0);
    snic_io_req_init(&r);
    r.done = io_over;
    r.op = SNIC_IO_WRITE;
    r.length = r.buf.size = 4096;
    r.buf.base = buffer;
    over = 0;
    fix.mute = 1;
    assert_int_equal(snic_io_submit(fix.io, &p, 1), 1);
    volfix_run(&fix, 50 * VOLFIX_MS);
    assert_int_equal(over, 0);
    assert_true(stats().stale > 0 && stats().no_lease == 0);
    struct snic_segments_req q = {.op = SNIC_SEGMENTS_SET_GEN, .seg_id = 100, .gen = gen + 6};
    assert_int_equal(volfix_store(&fix, 0, &q), 0);
    fix.mute = 0;
    fix.place[0].gen = gen + 6;
    assert_int_equal(snic_volume_map(fix.v, 0, 0, 100, 0, gen + 6), 0);
    volfix_run(&fix, 100 * VOLFIX_MS);
    assert_int_equal(over, 1);
    assert_int_equal(result, 4096);
}

/* Without a control plane the later lease is the newer one. */
static void test_volume_lease_later_one_counts_ungoverned(void **state)
{
    (void)state;
    restart(0);
    pretend(LATER, snic_volume_gen(LATER, 0));
    memset(buffer, 2, 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
}

/* ---- No control plane: the later lease fences ---- */

/* Both clients are unknown to others: only their requests inform the server. */
static int64_t write_as(uint32_t epoch, uint64_t block, int value)
{
    uint32_t was = fix.epoch, gen = fix.place[0].gen;
    if (fix.v != NULL)
        volfix_client_kill(&fix);
    pretend(epoch, snic_volume_gen(epoch, 0));
    memset(buffer, value, 4096);
    int64_t r = volfix_io(&fix, SNIC_IO_WRITE, block * 4096, 4096, buffer);
    fix.epoch = was;
    truth(gen);
    return r;
}

static int64_t read_as(uint32_t epoch, uint64_t block)
{
    volfix_client_kill(&fix);
    pretend(epoch, snic_volume_gen(epoch, 0));
    return volfix_io(&fix, SNIC_IO_READ, block * 4096, 4096, buffer);
}

static void superseded_writes_nothing(uint32_t epoch)
{
    assert_int_equal(write_as(epoch - 1, 100, 9), SNIC_ESTALE);
    assert_int_equal(read_as(epoch - 1, 100), SNIC_ESTALE);
    assert_int_equal(read_as(epoch, 100), 4096);
    assert_true(all_are(buffer, 4096, 0));
}

static void stat_is(uint32_t epoch)
{
    struct snic_segments_stat stat;
    assert_int_equal(snic_segments_find(snic_volume_server_store(fix.server[0].s), 100, &stat), 0);
    assert_int_equal(stat.gen, snic_volume_gen(epoch, 0));
    assert_int_equal(stat.min_wver, snic_ebs_id(epoch, 0));
}

/* What the later lease does first is a write, and what it does to other blocks comes after the
   superseded client's. */
static void test_volume_lease_later_write_fences_earlier(void **state)
{
    uint32_t epoch = fix.epoch + 10;
    (void)state;
    restart(0);
    assert_int_equal(write_as(epoch - 1, 1, 1), 4096);
    assert_int_equal(write_as(epoch, 0, 2), 4096);
    stat_is(epoch);
    superseded_writes_nothing(epoch);
    truth(snic_volume_gen(epoch, 0));
}

static void test_volume_lease_later_read_fences_earlier(void **state)
{
    uint32_t epoch = fix.epoch + 10;
    (void)state;
    restart(0);
    assert_int_equal(write_as(epoch - 1, 1, 1), 4096);
    assert_int_equal(read_as(epoch, 100), 4096);
    stat_is(epoch);
    superseded_writes_nothing(epoch);
    truth(snic_volume_gen(epoch, 0));
}

/* Power fails as soon as the first request of the later lease is answered, and the server starts
   again: what that answer acknowledged holds. */
static void test_volume_lease_fence_survives_power_cut(void **state)
{
    uint32_t epoch = fix.epoch + 10;
    (void)state;
    restart(0);
    for (uint32_t i = 0; i < 6; i++, epoch++) {
        if (i % 2 == 0)
            assert_int_equal(write_as(epoch, 0, 2), 4096);
        else
            assert_int_equal(read_as(epoch, 100), 4096);
        volfix_server_kill(&fix, 0, support_seed() + i);
        assert_int_equal(volfix_server_start(&fix, 0), 0);
        stat_is(epoch);
        superseded_writes_nothing(epoch);
        volfix_server_stop(&fix, 0);
        assert_int_equal(volfix_server_start(&fix, 0), 0);
        superseded_writes_nothing(epoch);
    }
    truth(snic_volume_gen(epoch - 1, 0));
}

/* ---- A server that a control plane has not informed yet ---- */

/* The segment has an older generation still: a copy of the abandoned write is refused now,
   and would be applied when the control plane has raised it. The fence does not count until then.
 */
static void test_volume_lease_fence_waits_for_generation(void **state)
{
    uint32_t was = fix.place[0].gen, gen = was + 1;
    struct snic_segments_stat stat;
    struct snic_io_req r;
    (void)state;
    restart(SNIC_VOLUME_GOVERNED);
    pretend(was >> 16, was);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), 4096);
    truth(gen);
    assert_int_equal(snic_volume_map(fix.v, 0, 0, 100, 0, gen), 0);
    memset(buffer, 7, 4096);
    write_lost(&r);
    snic_net_fabric_partition(fix.fabric, CLIENT_NODE, 0, 0);
    volfix_run(&fix, 3000 * VOLFIX_MS);
    assert_true(stats().ahead > 0);
    assert_int_equal(over, 0);
    struct snic_segments_req q = {.op = SNIC_SEGMENTS_SET_GEN, .seg_id = 100, .gen = gen};
    assert_int_equal(volfix_store(&fix, 0, &q), 0);
    volfix_run(&fix, 3000 * VOLFIX_MS);
    assert_int_equal(over, 1);
    assert_int_equal(result, SNIC_EIO);
    assert_int_equal(snic_segments_find(snic_volume_server_store(fix.server[0].s), 100, &stat), 0);
    assert_true(stat.min_wver > snic_ebs_id(gen >> 16, 0));
}

/* ---- A server that never answers ---- */

/* A write that may be under way ends with an error after error_ns. Until its fence counts the
   segment is refused, so nothing that was read afterwards is changed by a late copy; another
   segment, and this one when the server is there again, are as ever. */
static void test_volume_lease_abandoned_write_keeps_segment_refused(void **state)
{
    struct snic_segments_stat stat;
    struct snic_io_req r;
    uint32_t gen = fix.place[0].gen;
    (void)state;
    volfix_client_kill(&fix);
    fix.error_ns = 200 * VOLFIX_MS;
    pretend(gen >> 16, gen);
    fix.error_ns = 0;
    memset(buffer, 7, 4096);
    write_late(&r);
    volfix_run(&fix, 200 * VOLFIX_MS);
    assert_int_equal(over, 1);
    assert_int_equal(result, SNIC_EIO);
    /* At once, though no time is over. */
    uint64_t from = snic_loop_now(fix.loop);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 4096, 4096, buffer), SNIC_EIO);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 8192, 4096, buffer), SNIC_EIO);
    assert_true(snic_loop_now(fix.loop) < from + 20 * VOLFIX_MS);
    volfix_check(&fix);
    snic_net_fabric_partition(fix.fabric, CLIENT_NODE, 0, 0);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 2u << 20, 4096, buffer), 4096);
    volfix_run(&fix, 2000 * VOLFIX_MS);
    assert_int_equal(snic_segments_find(snic_volume_server_store(fix.server[0].s), 100, &stat), 0);
    assert_true(stat.min_wver > snic_ebs_id(gen >> 16, 0));
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), 4096);
    assert_true(all_are(buffer, 4096, 1));
    memset(buffer, 3, 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
}

/* The disk is closed while a fence that outlives its write is still under way. */
static void test_volume_lease_abandoned_write_lets_disk_close(void **state)
{
    struct snic_io_req r;
    uint32_t gen = fix.place[0].gen;
    (void)state;
    volfix_client_kill(&fix);
    fix.error_ns = 200 * VOLFIX_MS;
    pretend(gen >> 16, gen);
    fix.error_ns = 0;
    write_late(&r);
    volfix_run(&fix, 200 * VOLFIX_MS);
    assert_int_equal(over, 1);
    snic_io_close(fix.io);
    volfix_check(&fix);
    snic_net_fabric_partition(fix.fabric, CLIENT_NODE, 0, 0);
}

/* Its lease is over, and what it had under way when its time was: that ends, and nothing is
   written. */
static void test_volume_lease_fence_of_one_that_is_over_ends(void **state)
{
    uint32_t gen = fix.place[0].gen;
    struct snic_io_req r;
    (void)state;
    volfix_client_kill(&fix);
    fix.deadline_ns = 40 * VOLFIX_MS;
    fix.epoch--;
    volfix_client_start(&fix);
    fix.deadline_ns = 0;
    memset(buffer, 2, 4096);
    write_late(&r);
    struct snic_segments_req q = {.op = SNIC_SEGMENTS_SET_GEN, .seg_id = 100};
    q.gen = gen + (1u << 16);
    assert_int_equal(volfix_store(&fix, 0, &q), 0);
    snic_net_fabric_partition(fix.fabric, CLIENT_NODE, 0, 0);
    volfix_run(&fix, 1000 * VOLFIX_MS);
    assert_int_equal(over, 1);
    assert_true(result == SNIC_EIO || result == SNIC_ESTALE);
    fix.place[0].gen = q.gen;
}

#define CASE(name)                                                                                 \
    {#name "_solar", name, setup_solar, teardown, NULL},                                           \
    {                                                                                              \
#name "_luna", name, setup_luna, teardown, NULL                                            \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_volume_lease_later_one_writes_nothing),
        CASE(test_volume_lease_later_one_fences_nothing),
        CASE(test_volume_lease_later_generation_looked_up),
        CASE(test_volume_lease_later_one_counts_ungoverned),
        CASE(test_volume_lease_later_write_fences_earlier),
        CASE(test_volume_lease_later_read_fences_earlier),
        CASE(test_volume_lease_fence_survives_power_cut),
        CASE(test_volume_lease_fence_waits_for_generation),
        CASE(test_volume_lease_abandoned_write_keeps_segment_refused),
        CASE(test_volume_lease_abandoned_write_lets_disk_close),
        CASE(test_volume_lease_fence_of_one_that_is_over_ends)};
    return SUPPORT_MAIN(argc, argv, tests);
}
