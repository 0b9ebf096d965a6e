/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Limits of block servers and their client, met with the least that their options take: what is
 * beyond waits or is answered BUSY, and all I/O ends.
 */
#include "test_volume_util.h"

static int setup(uint32_t transport)
{
    buffer = aligned_alloc(4096, 4u << 20);
    assert_non_null(buffer);
    volfix_start(&fix, transport, support_seed(), 2);
    return 0;
}

#define SECOND (1000 * VOLFIX_MS)

struct range {
    uint32_t *field;
    uint32_t least, most;
    int pow2;
};

/* The least and the most are accepted; what is beyond, and ten times the most, is memsize 0. */
static void ranges(size_t (*memsize)(void), const struct range *r, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t was = *r[i].field;
        const uint32_t bad[] = {r[i].least - 1, r[i].most + 1, 10 * r[i].most,
                                r[i].pow2 ? r[i].least + 1 : 0};
        *r[i].field = r[i].least;
        assert_true(memsize() > 0);
        *r[i].field = r[i].most;
        assert_true(memsize() > 0);
        for (uint32_t k = 0; k < SNIC_COUNTOF(bad); k++) {
            *r[i].field = bad[k];
            if (bad[k] != 0 && (!r[i].pow2 || bad[k] != 2) && memsize() != 0)
                fail_msg("field %u: %u is accepted", i, bad[k]);
        }
        *r[i].field = was;
    }
}

static struct snic_volume_opts co;
static struct snic_volume_server_opts so;

static size_t client_size(void)
{
    return snic_volume_memsize(&co);
}

static size_t server_size(void)
{
    return snic_volume_server_memsize(&so);
}

static void times(uint64_t *field, uint64_t least, uint64_t most)
{
    const uint64_t bad[] = {most + 1, 10 * most, UINT64_MAX, least - 1};
    *field = most;
    assert_true(client_size() > 0);
    *field = least;
    assert_true(client_size() > 0);
    for (uint32_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        *field = bad[i];
        assert_true(bad[i] == 0 || client_size() == 0);
    }
    *field = 0;
}

static void test_volume_limits_of_options(void **state)
{
    const struct range client[] = {{&co.rpcs_max, 16, 65536, 1},
                                   {&co.trains_max, 4, 4096, 0},
                                   {&co.depth, 1, 4096, 0},
                                   {&co.disks_max, 1, 4096, 0},
                                   {&co.servers_max, 1, 1024, 0}};
    const struct range server[] = {{&so.conns_max, 1, 65536, 1},  {&so.trains_max, 9, 4096, 0},
                                   {&so.writes_max, 4, 65536, 0}, {&so.reads_max, 4, 65536, 0},
                                   {&so.streams_max, 1, 4096, 0}, {&so.sends_max, 4, 4096, 0},
                                   {&so.frames_max, 2, 1024, 0}};
    const uint64_t hour = 3600 * SECOND;
    (void)state;
    co = (struct snic_volume_opts){.opts_size = sizeof(co), .client_epoch = 1};
    co.transport = fix.transport;
    co.loop = fix.loop;
    co.net = fix.net;
    ranges(client_size, client, SNIC_COUNTOF(client));
    times(&co.deadline_ns, 1, 24 * hour);
    times(&co.slow_ns, 1, 24 * hour);
    times(&co.suspect_ns, 1, hour);
    if (fix.transport == SNIC_VOLUME_LUNA)
        times(&co.progress_ns, VOLFIX_MS, hour);
    so = (struct snic_volume_server_opts){.opts_size = sizeof(so), .disks = 1};
    so.loop = fix.server[0].loop;
    so.net = fix.server[0].net;
    so.io = &fix.server[0].io;
    ranges(server_size, server, SNIC_COUNTOF(server));
}

static uint32_t ended;

static void io_ended(struct snic_io_req *r)
{
    ended += r->result == (int64_t)r->length;
}

struct depth_user {
    struct snic_io_waiter waiter;
    struct snic_io_req **reqs;
    uint32_t taken;
    uint32_t count;
};

static void depth_submit(struct snic_io_waiter *w)
{
    struct depth_user *u = SNIC_CONTAINER(w, struct depth_user, waiter);
    int n = snic_io_submit(fix.io, u->reqs + u->taken, u->count - u->taken);
    assert_true(n > 0);
    u->taken += (uint32_t)n;
    if (u->taken < u->count)
        snic_io_wait(fix.io, w);
}

/* A disk takes `depth` I/Os; the user of the others waits, and is called when some have ended. */
static void test_volume_limits_depth(void **state)
{
    static struct snic_io_req r[10 * VOLFIX_DEPTH], *p[10 * VOLFIX_DEPTH];
    struct depth_user u = {.reqs = p, .taken = VOLFIX_DEPTH, .count = SNIC_COUNTOF(r)};
    (void)state;
    memset(buffer, 5, 4096);
    ended = 0;
    for (uint32_t i = 0; i < SNIC_COUNTOF(r); i++) {
        snic_io_req_init(&r[i]);
        r[i].done = io_ended;
        r[i].op = SNIC_IO_WRITE;
        r[i].offset = i * 4096;
        r[i].length = r[i].buf.size = 4096;
        r[i].buf.base = buffer;
        p[i] = &r[i];
    }
    assert_int_equal(snic_io_submit(fix.io, p, VOLFIX_DEPTH - 1), VOLFIX_DEPTH - 1);
    assert_int_equal(snic_io_submit(fix.io, p + VOLFIX_DEPTH - 1, 2), 1);
    snic_io_waiter_init(&u.waiter, depth_submit);
    snic_io_wait(fix.io, &u.waiter);
    assert_int_equal(snic_io_submit(fix.io, p + u.taken, 1), 0);
    volfix_run(&fix, 2 * (uint64_t)SECOND);
    assert_int_equal(u.taken, SNIC_COUNTOF(r));
    assert_int_equal(ended, SNIC_COUNTOF(r));
}

/* A server with room for four writes and four reads in its store, and the least of trains, sends
   and frames: 24 at a time, 400 in all, end as the model, and nothing is left inside. */
static void test_volume_limits_of_a_small_server(void **state)
{
    struct snic_volume_server_stats s;
    uint64_t busy = 0, pauses = 0;
    (void)state;
    fix.small = 1;
    for (uint32_t i = 0; i < 2; i++) {
        volfix_server_stop(&fix, i);
        assert_int_equal(volfix_server_start(&fix, i), 0);
    }
    volfix_load(&fix, 400);
    assert_int_equal(volfix_settle(&fix, 120 * SECOND), 0);
    volfix_audit(&fix);
    volfix_run(&fix, SECOND); /* late copies are over, too */
    for (uint32_t i = 0; i < 2; i++) {
        snic_volume_server_get_stats(fix.server[i].s, &s);
        assert_int_equal(s.inside, 0);
        assert_int_equal(s.failed, 0);
        busy += s.busy;
        pauses += s.luna.pauses;
    }
    if (fix.transport == SNIC_VOLUME_LUNA)
        assert_true(pauses > 0);
    else
        assert_true(busy > 0);
}

/* A server that knows one client: the next one is turned away until the one before was silent for
   ten seconds, and served then; ten of them one after the other. */
static void test_volume_limits_one_client_at_a_time(void **state)
{
    struct snic_volume_server_stats s;
    (void)state;
    volfix_client_kill(&fix);
    fix.small = 1;
    for (uint32_t i = 0; i < 2; i++) {
        volfix_server_stop(&fix, i);
        assert_int_equal(volfix_server_start(&fix, i), 0);
    }
    memset(buffer, 3, 4096);
    for (uint32_t i = 0; i <= 10; i++) {
        volfix_client_start(&fix);
        uint64_t from = snic_world_now(fix.world);
        assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
        uint64_t took = snic_world_now(fix.world) - from;
        assert_true(i == 0 ? took < SECOND : took > 8 * SECOND && took < 13 * SECOND);
        if (i < 10)
            volfix_client_kill(&fix);
    }
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_true(s.target.turned_away >= 10);
    assert_int_equal(s.target.evicted, 10);
}

/* I/O that a server does not answer is reported as slow once, after slow_ns; reads end at the
   deadline, and the owner hears of the server after suspect_ns. */
static void test_volume_limits_times(void **state)
{
    struct snic_io_req r, *p = &r;
    (void)state;
    volfix_client_kill(&fix);
    fix.slow_ns = 2 * SECOND;
    fix.suspect_ns = 700 * VOLFIX_MS;
    fix.deadline_ns = 5 * SECOND;
    fix.progress_ns = fix.transport == SNIC_VOLUME_LUNA ? 500 * VOLFIX_MS : 0;
    volfix_client_start(&fix);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
    snic_net_fabric_partition(fix.fabric, 10, fix.place[0].server, 1);
    snic_net_fabric_partition(fix.fabric, fix.place[0].server, 10, 1);
    uint32_t slow = fix.slow, suspects = fix.suspects;
    snic_io_req_init(&r);
    r.done = io_ended;
    r.op = SNIC_IO_READ;
    r.length = r.buf.size = 4096;
    r.buf.base = buffer;
    ended = 0;
    r.result = 1;
    assert_int_equal(snic_io_submit(fix.io, &p, 1), 1);
    volfix_run(&fix, 1900 * VOLFIX_MS);
    assert_int_equal(fix.slow, slow);
    assert_int_equal(fix.suspects, suspects + 1);
    volfix_run(&fix, 300 * VOLFIX_MS);
    assert_int_equal(fix.slow, slow + 1);
    volfix_run(&fix, 2700 * VOLFIX_MS);
    assert_int_equal(r.result, 1);
    volfix_run(&fix, 400 * VOLFIX_MS);
    assert_int_equal(r.result, SNIC_EIO);
    volfix_run(&fix, 20 * SECOND);
    assert_int_equal(fix.slow, slow + 1);
    assert_int_equal(fix.suspects, suspects + 1);
    snic_net_fabric_partition(fix.fabric, 10, fix.place[0].server, 0);
    snic_net_fabric_partition(fix.fabric, fix.place[0].server, 10, 0);
    volfix_run(&fix, 2 * SECOND);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), 4096);
}

/* The same over both transports. */
#define CASE(name)                                                                                 \
    {#name "_solar", name, setup_solar, teardown, NULL},                                           \
    {                                                                                              \
#name "_luna", name, setup_luna, teardown, NULL                                            \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_volume_limits_of_options), CASE(test_volume_limits_depth),
        CASE(test_volume_limits_of_a_small_server), CASE(test_volume_limits_times),
        cmocka_unit_test_setup_teardown(test_volume_limits_one_client_at_a_time, setup_solar,
                                        teardown)};
    return SUPPORT_MAIN(argc, argv, tests);
}
