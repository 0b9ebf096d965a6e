/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* When solar_volume's client tells that a server only refuses (examples/solar_volume/busy.h). */
#include "busy.h"
#include "support.h"

#define SECOND UINT64_C(1000000000)

/* After five seconds, and again every thirty; not of one that nobody asks. */
static void test_volume_busy_is_told_in_time(void **state)
{
    struct busy b = {0, 0};
    struct snic_ebs_busy is = {0, 0};
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
    struct busy b = {0, 0};
    struct snic_ebs_busy is = {1, 100 * SECOND};
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volume_busy_is_told_in_time),
        cmocka_unit_test(test_volume_busy_another_time_is_told_anew),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
