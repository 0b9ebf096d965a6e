/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The frozen parameters still show what they were fitted to; simulated time, so no matter of
 * the machine. */
#include "support.h"

#include "gimbal_calibration.h"

#include <stdio.h>

/* A change of the model or of a preset would move every figure that is built on it. */
static void test_ssd_presets_run_facts_hit(void **state)
{
    (void)state;
    static struct gimbal_fact facts[GIMBAL_FACTS_MAX];
    size_t count = gimbal_calibration_facts(facts, GIMBAL_FACTS_MAX);
    uint32_t missed = 0, wrong = 0;
    assert_int_equal(count, 38);
    for (size_t i = 0; i < count; i++) {
        const struct gimbal_fact *f = &facts[i];
        int hit = f->error >= -GIMBAL_FACT_HIT && f->error <= GIMBAL_FACT_HIT;
        missed += (uint32_t)f->missed;
        if (hit != f->missed)
            continue;
        fprintf(stderr, "%s %s: %g, error %g %%\n", f->device, f->name, f->model, f->error);
        wrong++;
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(missed, 9);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ssd_presets_run_facts_hit)};
    return SUPPORT_MAIN(argc, argv, tests);
}
