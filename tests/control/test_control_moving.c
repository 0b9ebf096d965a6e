/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* How long `ctl move` tries (examples/solar_volume/ctl_move.c): a catalog with the test's
 * answers, in the time of a world. */
#include <stdlib.h>

#include "support.h"

#define snic_control_operator_request moving_request
#include "solar_volume/ctl_move.c"
#undef snic_control_operator_request

#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)

struct ctl_query vb;
static struct snic_world *world;
static uint32_t requested, pending; /* MOVEs; what is to be answered */
static int ended;
static int up; /* server 2, where the segments are */

int moving_request(struct snic_control_operator *k, const struct snic_control_msg *m)
{
    (void)k;
    pending = m->type;
    return 0;
}

void ctl_request(uint32_t type)
{
    pending = type;
}

void ctl_end(void)
{
    ended = 1;
}

void ctl_fail(void)
{
    vb.code = 1;
    ended = 1;
}

void ctl_report_gone(int status)
{
    fail_msg("the catalog is gone: %d", status);
}

void ex_die(const char *format, ...)
{
    (void)format;
    abort();
}

void ex_usage(const char *format, ...)
{
    (void)format;
    abort();
}

static void list_nodes(void)
{
    struct snic_control_msg m = {.type = SNIC_CONTROL_NODE};
    for (m.server = 1; m.server <= 2; m.server++) {
        m.flags = m.server == 1 || up;
        ctl_move_item(&m);
    }
    vb.next();
}

static void list_segments(uint32_t count)
{
    struct snic_control_msg m = {.type = SNIC_CONTROL_SEGMENT, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        m.item[i].segment = i;
        m.item[i].server = 2;
    }
    ctl_move_item(&m);
    vb.next();
}

/* All @p segments to server 1; the catalog answers each MOVE with @p answer of the time since
   the first. @return when it ended, likewise */
static uint64_t moving(uint32_t segments, int (*answer)(uint64_t ns))
{
    memset(&mv, 0, sizeof(mv));
    memset(&vb, 0, sizeof(vb));
    requested = pending = 0;
    ended = 0;
    vb.call = (void *)&world; /* never looked at */
    vb.name = "root";
    vb.segment = "all";
    vb.server = 1;
    assert_int_equal(snic_world_loop(world, 0, &vb.loop), 0);
    uint64_t from = snic_loop_now(vb.loop);
    ctl_move();
    while (!ended && snic_loop_now(vb.loop) < from + 1000 * SECOND) {
        uint32_t what = pending;
        pending = 0;
        if (what == SNIC_CONTROL_NODES) {
            list_nodes();
        } else if (what == SNIC_CONTROL_SEGMENTS) {
            list_segments(segments);
        } else if (what == SNIC_CONTROL_MOVE) {
            requested++;
            ctl_move_done(answer(snic_loop_now(vb.loop) - from));
        } else {
            assert_int_equal(snic_world_step(world), 1);
        }
    }
    uint64_t took = snic_loop_now(vb.loop) - from;
    assert_int_equal(ended, 1);
    ctl_move_free();
    snic_loop_close(vb.loop);
    return took;
}

static int busy(uint64_t ns)
{
    (void)ns;
    return SNIC_EBUSY;
}

static int busy_29(uint64_t ns)
{
    return ns < 29900 * MS ? SNIC_EBUSY : 0;
}

static int absent(uint64_t ns)
{
    (void)ns;
    return SNIC_EHOSTUNREACH;
}

static int absent_4(uint64_t ns)
{
    return ns < 4900 * MS ? SNIC_EHOSTUNREACH : 0;
}

/* The server is absent or busy, each for less than its limit. */
static int in_turns(uint64_t ns)
{
    return ns / (4 * SECOND) % 2 == 0 ? SNIC_EBUSY : SNIC_EHOSTUNREACH;
}

static int full(uint64_t ns)
{
    (void)ns;
    return SNIC_ENOSPC;
}

/* The segment is busy: it is retried for 30 s, then the next segment; ten segments likewise. */
static void test_control_moving_busy_for_half_a_minute(void **state)
{
    (void)state;
    assert_int_equal(moving(1, busy_29), 29900 * MS);
    assert_int_equal(vb.code, 0);
    assert_int_equal(moving(1, busy), 30 * SECOND);
    assert_int_equal(vb.code, 1);
    assert_in_range(requested, 590, 602); /* every 50 ms */
    assert_int_equal(moving(10, busy), 300 * SECOND);
    assert_int_equal(vb.code, 1);
}

/* A server is absent: 5 s, and the other segments are not tried. */
static void test_control_moving_absent_for_five_seconds(void **state)
{
    (void)state;
    up = 1;
    assert_int_equal(moving(1, absent_4), 4900 * MS);
    assert_int_equal(vb.code, 0);
    up = 0;
    assert_int_equal(moving(10, absent), 5 * SECOND);
    assert_int_equal(vb.code, 1);
}

/* Absent and busy alternately: a segment is abandoned after a minute. */
static void test_control_moving_a_minute_at_most(void **state)
{
    (void)state;
    up = 1;
    assert_int_equal(moving(1, in_turns), 60 * SECOND);
    assert_int_equal(moving(3, in_turns), 180 * SECOND);
    assert_int_equal(vb.code, 1);
}

/* An error that holds for all segments: no retry. */
static void test_control_moving_to_a_full_server_ends(void **state)
{
    (void)state;
    assert_int_equal(moving(10, full), 0);
    assert_int_equal(requested, 1);
    assert_int_equal(vb.code, 1);
}

static int world_open(void **state)
{
    struct snic_world_opts o = {.opts_size = sizeof(o), .seed = support_seed()};
    (void)state;
    return snic_world_open(&world, &o);
}

static int world_close(void **state)
{
    (void)state;
    snic_world_close(world);
    return 0;
}

int main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)
    const struct CMUnitTest tests[] = {
        T(test_control_moving_busy_for_half_a_minute),
        T(test_control_moving_absent_for_five_seconds),
        T(test_control_moving_a_minute_at_most),
        T(test_control_moving_to_a_full_server_ends),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
