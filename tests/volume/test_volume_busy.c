/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* When solar_volume's client reports that a server only refuses, or has a store that failed
 * (examples/solar_volume/busy.h), and that I/O waits (wait.h). */
#include "busy.h"
#include "support.h"
#include "wait.h"

#define SECOND UINT64_C(1000000000)

/* After five seconds, and again every thirty; not of one without requests. */
static void test_volume_busy_is_logged_in_time(void **state)
{
    struct busy b = {.count = 0};
    struct snic_ebs_busy is = {.count = 0};
    (void)state;
    assert_int_equal(busy_look(&b, &is, 100 * SECOND), 0);
    is.since_ns = 100 * SECOND;
    for (uint64_t s = 1; s <= 70; s++) {
        is.count += 10;
        uint64_t seconds = busy_look(&b, &is, (100 + s) * SECOND);
        assert_int_equal(seconds, s == 5 || s == 35 || s == 65 ? s : 0);
    }
    assert_int_equal(busy_look(&b, &is, 200 * SECOND), 0); /* nothing was requested of it */
    is.count++;
    assert_int_equal(busy_look(&b, &is, 201 * SECOND), 101);
}

/* It does something: the time begins anew, however short a while ago it was reported. */
static void test_volume_busy_another_time_is_logged_anew(void **state)
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
    is.count++; /* the same, without a look in between */
    is.since_ns = 113 * SECOND;
    assert_int_equal(busy_look(&b, &is, 119 * SECOND), 6);
}

/* At once, again every thirty seconds while it lasts; that it is over once it was well for a
 * while: a store of several disks fails and works by turns. */
static void test_volume_busy_failed_store_is_logged(void **state)
{
    struct busy b = {.count = 0};
    struct snic_ebs_busy is = {.count = 0};
    (void)state;
    assert_int_equal(busy_failed_look(&b, &is, 100 * SECOND), 0);
    for (uint64_t s = 0; s < 70; s++) {
        is.failed++;
        is.failed_since_ns = s % 2 ? 0 : (100 + s) * SECOND;
        assert_int_equal(busy_failed_look(&b, &is, (100 + s) * SECOND), s % 30 == 0);
    }
    is.failed_since_ns = 169 * SECOND; /* it has no requests any more, then it works */
    for (uint64_t s = 70; s < 90; s++)
        assert_int_equal(busy_failed_look(&b, &is, (100 + s) * SECOND), 0);
    is.failed_since_ns = 0;
    assert_int_equal(busy_failed_look(&b, &is, 190 * SECOND), -1);
    assert_int_equal(busy_failed_look(&b, &is, 191 * SECOND), 0);
    is.failed++;
    is.failed_since_ns = 192 * SECOND;
    assert_int_equal(busy_failed_look(&b, &is, 192 * SECOND), 1);
    is.failed_since_ns = 0;
    assert_int_equal(busy_failed_look(&b, &is, 197 * SECOND - 1), 0);
    assert_int_equal(busy_failed_look(&b, &is, 197 * SECOND), -1);
}

/* One device of several is dead: it fails every six seconds, and works in between, for ever. */
static void test_volume_busy_store_that_fails_and_works_is_no_flood(void **state)
{
    struct busy b = {.count = 0};
    struct snic_ebs_busy is = {.count = 0};
    uint32_t fails = 0, works = 0;
    (void)state;
    for (uint64_t s = 0; s < 300; s++) {
        is.failed += s % 6 == 0;
        int event = busy_failed_look(&b, &is, (100 + s) * SECOND);
        assert_true(event <= 0 || s % 30 == 0);
        fails += event > 0;
        works += event < 0;
    }
    assert_true(fails == 10 && works == 10);
}

/* That it works is measured from when it was last heard to fail, not from when that was reported;
 * what fails too soon after it was reported is reported later, even without requests meanwhile. */
static void test_volume_busy_store_works_a_while_after_it_failed(void **state)
{
    struct busy b = {.count = 0};
    struct snic_ebs_busy is = {.failed = 1, .failed_since_ns = 100 * SECOND};
    (void)state;
    assert_int_equal(busy_failed_look(&b, &is, 100 * SECOND), 1);
    is.failed++;
    assert_int_equal(busy_failed_look(&b, &is, 120 * SECOND), 0);
    is.failed_since_ns = 0;
    assert_int_equal(busy_failed_look(&b, &is, 121 * SECOND), 0);
    assert_int_equal(busy_failed_look(&b, &is, 125 * SECOND - 1), 0);
    assert_int_equal(busy_failed_look(&b, &is, 125 * SECOND), -1);
    is.failed++;
    is.failed_since_ns = 126 * SECOND;
    for (uint64_t s = 126; s < 130; s++)
        assert_int_equal(busy_failed_look(&b, &is, s * SECOND), 0);
    assert_int_equal(busy_failed_look(&b, &is, 130 * SECOND), 1);
}

/* A number that was reassigned and comes back counts from 0: what was known is forgotten. */
static void test_volume_busy_number_that_comes_back_is_another_one(void **state)
{
    struct busy b = {.count = 0};
    struct snic_ebs_busy is = {.count = 7, .since_ns = 90 * SECOND, .failed = 3};
    (void)state;
    assert_int_equal(busy_anew(&b, &is), 0);
    assert_int_equal(busy_look(&b, &is, 100 * SECOND), 10);
    assert_int_equal(busy_failed_look(&b, &is, 100 * SECOND), 1);
    assert_int_equal(busy_anew(&b, &is), 0);
    is.failed = 0;
    assert_int_equal(busy_anew(&b, &is), 1);
    assert_int_equal(busy_failed_look(&b, &is, 110 * SECOND), 0);
    assert_int_equal(busy_look(&b, &is, 110 * SECOND), 20);
    is.count = 6;
    assert_int_equal(busy_anew(&b, &is), 1);
    assert_int_equal(busy_anew(&b, &is), 0);
    assert_int_equal(busy_anew(&b, NULL), 1);
    assert_true(b.count == 0 && b.logged_ns == 0 && b.failed_logged == 0);
}

/* Once when it has lasted for two seconds, and once when it is over; another reason or server is
 * reported, too, and nothing twice in five seconds. */
static void test_volume_wait_is_logged_once(void **state)
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
        cmocka_unit_test(test_volume_busy_is_logged_in_time),
        cmocka_unit_test(test_volume_busy_another_time_is_logged_anew),
        cmocka_unit_test(test_volume_busy_failed_store_is_logged),
        cmocka_unit_test(test_volume_busy_store_that_fails_and_works_is_no_flood),
        cmocka_unit_test(test_volume_busy_store_works_a_while_after_it_failed),
        cmocka_unit_test(test_volume_busy_number_that_comes_back_is_another_one),
        cmocka_unit_test(test_volume_wait_is_logged_once),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
