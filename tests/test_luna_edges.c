/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What is at the edge of luna.h. */
#include "test_luna_util.h"

/* A place that nobody can say keeps nobody waiting but who needs it. */
static void test_luna_edges_unknown_place_others_go_on(void **state)
{
    static struct duo duo;
    struct duo *d = &duo;
    struct snic_luna_io lost, other;
    (void)state;
    duo_open(d);
    d->mute = d->still = 1;
    assert_int_equal(snic_luna_map(d->c, 0, 0, 70, 0, d->seg_gen, d->now), 0);
    duo_io(d, &lost, SNIC_LUNA_ZERO, 600, 1, NULL, 0);
    duo_io(d, &other, SNIC_LUNA_ZERO, 3, 1, NULL, 0);
    assert_true(duo_until(d, 1, 400));
    assert_true(other.done_ns != 0 && other.result == 0 && lost.done_ns == 0);
    assert_true(d->told[SNIC_LUNA_MAP] > 0);
    assert_int_equal(snic_luna_map(d->c, 0, 1, 71, 0, d->seg_gen, d->now), 0);
    assert_true(duo_until(d, 2, 400));
    assert_int_equal(lost.result, 0);
    duo_close(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_luna_edges_unknown_place_others_go_on),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
