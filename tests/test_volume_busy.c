/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* When solar_volume's client tells that a server only refuses, or has a store that failed
 * (examples/solar_volume/busy.h), and that I/O waits (wait.h). */
#include "busy.h"
#include "support.h"
#include "wait.h"

#define SECOND UINT64_C(1000000000)

/* After five seconds, and again every thirty; not of one that nobody asks. */
static void test_volume_busy_is_told_in_time(void **state)
{
    struct busy b = {.count = 0};
    struct snic_ebs_busy is = {.count = 0};
    (void)state;
    assert_int_equal(busy_look(&b, &is, 100 * SECOND), 0);
    is.since_ns = 100 * SECOND;
    for (uint64_t s = 1; s <= 70; s++) {
        is.count += 10;
        uint64_t told = busy_look(&b, &is, (100 + s) * SECOND);
        assert_int_equal(told, s == 5 || s == 35 || s == 65 ? s : 0);
    }
    assert_int_equal(busy_look(&b, &is, 200 * SECOND), 0); /* nothing was asked of it */
    is.count++;
    assert_int_equal(busy_look(&b, &is, 201 * SECOND), 101);
}

/* It does something: the time begins anew, however short a while ago it was told. */
static void test_volume_busy_another_time_is_told_anew(void **state)
{
    struct busy b = {.count = 0};
    struct snic_ebs_busy is = {.count = 1, .since_ns = 100 * SECOND};
    (void)state;
    assert_int_equal(busy_look(&b, &is, 105 * SECOND - 1), 0);
    is.count++;
    assert_int_equal(busy_look(&b, &is, 105 * SECOND), 5);
    is.count++;
    is.since_ns = 0;
    assert_int_equal(busy_look(&b, &is, 106 * SECOND), 0);
    is.count++;
    is.since_ns = 106 * SECOND;
    assert_int_equal(busy_look(&b, &is, 110 * SECOND), 0);
    is.count++;
    assert_int_equal(busy_look(&b, &is, 112 * SECOND), 6);
    is.count++; /* the same, if nobody looked in between */
    is.since_ns = 113 * SECOND;
    assert_int_equal(busy_look(&b, &is, 119 * SECOND), 6);
}

/* At once, again every thirty seconds while it goes on; that it is over once it was well for a
 * while: a store of several disks fails and works by turns. */
static void test_volume_busy_failed_store_is_told(void **state)
{
    struct busy b = {.count = 0};
    struct snic_ebs_busy is = {.count = 0};
    (void)state;
    assert_int_equal(busy_failed_look(&b, &is, 100 * SECOND), 0);
    for (uint64_t s = 0; s < 70; s++) {
        is.failed++;
        is.failed_at_ns = s % 2 ? 0 : (100 + s) * SECOND;
        assert_int_equal(busy_failed_look(&b, &is, (100 + s) * SECOND), s % 30 == 0);
    }
    is.failed_at_ns = 169 * SECOND; /* nobody asks it any more, then it works */
    for (uint64_t s = 70; s < 90; s++)
        assert_int_equal(busy_failed_look(&b, &is, (100 + s) * SECOND), 0);
    is.failed_at_ns = 0;
    assert_int_equal(busy_failed_look(&b, &is, 190 * SECOND), -1);
    assert_int_equal(busy_failed_look(&b, &is, 191 * SECOND), 0);
    is.failed++;
    is.failed_at_ns = 192 * SECOND;
    assert_int_equal(busy_failed_look(&b, &is, 192 * SECOND), 1);
    is.failed_at_ns = 0;
    assert_int_equal(busy_failed_look(&b, &is, 197 * SECOND - 1), 0);
    assert_int_equal(busy_failed_look(&b, &is, 197 * SECOND), -1);
}

/* Once when it has lasted for two seconds, and once when it is over; another reason or server is
 * told, too, and nothing twice in five seconds. */
static void test_volume_wait_is_told_once(void **state)
{
    struct wait w = {.why = 0};
    struct snic_ebs_wait is = {3, 100 * SECOND, 1, 0};
    (void)state;
    assert_int_equal(wait_look(&w, NULL, 0, 99 * SECOND), WAIT_NOTHING);
    assert_int_equal(wait_look(&w, &is, 7, 102 * SECOND - 1), WAIT_NOTHING);
    assert_int_equal(wait_look(&w, &is, 7, 102 * SECOND), WAIT_BEGINS);
    assert_true(w.is.segment == 3 && w.is.since_ns == 100 * SECOND);
    is.segment = 4; /* what waits for the same is no news */
    for (uint64_t s = 103; s < 200; s++)
        assert_int_equal(wait_look(&w, &is, 7, s * SECOND), WAIT_NOTHING);
    assert_int_equal(wait_look(&w, &is, 8, 200 * SECOND), WAIT_BEGINS);
    assert_int_equal(w.is.segment, 4);
    is.server = 2;
    assert_int_equal(wait_look(&w, &is, 8, 205 * SECOND - 1), WAIT_NOTHING);
    assert_int_equal(wait_look(&w, &is, 8, 205 * SECOND), WAIT_BEGINS);
    is.since_ns = 206 * SECOND; /* the next one is young */
    assert_int_equal(wait_look(&w, &is, 8, 207 * SECOND), WAIT_OVER);
    assert_int_equal(w.is.segment, 4);
    assert_int_equal(wait_look(&w, &is, 8, 208 * SECOND), WAIT_NOTHING);
    assert_int_equal(wait_look(&w, &is, 8, 210 * SECOND), WAIT_BEGINS);
    assert_int_equal(wait_look(&w, NULL, 0, 211 * SECOND), WAIT_OVER);
    assert_int_equal(wait_look(&w, NULL, 0, 300 * SECOND), WAIT_NOTHING);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volume_busy_is_told_in_time),
        cmocka_unit_test(test_volume_busy_another_time_is_told_anew),
        cmocka_unit_test(test_volume_busy_failed_store_is_told),
        cmocka_unit_test(test_volume_wait_is_told_once),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
