/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Descriptors that no door serves: notified once, in time, also when cancelled; none in a world. */
#include "support.h"

#include "snicstore/loop.h"

#include <string.h>
#include <unistd.h>

struct seen {
    struct snic_loop_watch watch;
    int calls;
    int result;
};

static void seen_call(struct snic_loop_watch *w, int result)
{
    struct seen *s = SNIC_CONTAINER(w, struct seen, watch);
    assert_int_equal(w->armed, 0);
    s->calls++;
    s->result = result;
}

/* A loop and a watch on the reading end of a pipe, not yet started; ends[1] writes. */
static struct snic_loop *open_piped(struct seen *s, int ends[2])
{
    struct snic_loop *loop;
    if (snic_loop_uring_open(&loop, NULL) != 0)
        support_skip("no io_uring here");
    assert_int_equal(pipe(ends), 0);
    *s = (struct seen){.watch = {.fd = ends[0], .fn = seen_call}};
    return loop;
}

static void until_calls(struct snic_loop *l, const struct seen *s, int times)
{
    while (s->calls < times)
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
}

/* Nothing to read: silent; then one call per watch, at once where something is there already. */
static void test_loop_watch_readable_reported_once(void **state)
{
    struct seen s;
    int ends[2];
    (void)state;
    struct snic_loop *l = open_piped(&s, ends);
    assert_int_equal(snic_loop_watch_start(l, &s.watch), 0);
    assert_int_equal(s.watch.armed, 1);
    for (int i = 0; i < 10; i++)
        (void)snic_loop_once(l, 1000000);
    assert_int_equal(s.calls, 0);
    assert_int_equal(write(ends[1], "ab", 2), 2);
    until_calls(l, &s, 1);
    assert_int_equal(s.result, 0);
    for (int i = 0; i < 10; i++)
        (void)snic_loop_once(l, 1000000);
    assert_int_equal(s.calls, 1);
    assert_int_equal(snic_loop_watch_start(l, &s.watch), 0);
    until_calls(l, &s, 2);
    assert_int_equal(s.result, 0);
    close(ends[0]);
    close(ends[1]);
    snic_loop_close(l);
}

static void test_loop_watch_unwatched_reports_canceled(void **state)
{
    struct seen s;
    int ends[2];
    (void)state;
    struct snic_loop *l = open_piped(&s, ends);
    snic_loop_watch_stop(l, &s.watch); /* harmless */
    assert_int_equal(snic_loop_watch_start(l, &s.watch), 0);
    snic_loop_watch_stop(l, &s.watch);
    assert_int_equal(s.calls, 0);
    until_calls(l, &s, 1);
    assert_int_equal(s.result, SNIC_ECANCELED);
    close(ends[0]);
    close(ends[1]);
    snic_loop_close(l);
}

/* The other end is gone: a read would not wait. */
static void test_loop_watch_hung_up_reported(void **state)
{
    struct seen s;
    int ends[2];
    (void)state;
    struct snic_loop *l = open_piped(&s, ends);
    assert_int_equal(snic_loop_watch_start(l, &s.watch), 0);
    close(ends[1]);
    until_calls(l, &s, 1);
    assert_int_equal(s.result, 0);
    close(ends[0]);
    snic_loop_close(l);
}

static void test_loop_watch_world_enotsup(void **state)
{
    struct snic_world_opts o = {.opts_size = sizeof(o)};
    struct seen s = {.watch = {.fn = seen_call}};
    struct snic_world *w;
    struct snic_loop *l;
    (void)state;
    assert_int_equal(snic_world_open(&w, &o), 0);
    assert_int_equal(snic_world_loop(w, 1, &l), 0);
    assert_int_equal(snic_loop_watch_start(l, &s.watch), SNIC_ENOTSUP);
    assert_int_equal(s.watch.armed, 0);
    snic_loop_close(l);
    snic_world_close(w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_watch_readable_reported_once),
        cmocka_unit_test(test_loop_watch_unwatched_reports_canceled),
        cmocka_unit_test(test_loop_watch_hung_up_reported),
        cmocka_unit_test(test_loop_watch_world_enotsup),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
