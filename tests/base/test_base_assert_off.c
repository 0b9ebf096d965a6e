/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The assertion macros of a SNIC_NO_ASSERT build, for test_base_assert.c. */
#ifndef SNIC_NO_ASSERT
#define SNIC_NO_ASSERT
#endif
#include "snicstore/base.h"

int test_base_assert_off(int *calls);

static __attribute__((unused)) int assert_off_call(int *calls)
{
    (*calls)++;
    return 0;
}

/* Every condition is false and counts its evaluation: none may happen. */
int test_base_assert_off(int *calls)
{
    int only_asserted = 0; /* Still type-checked, hence used: no warning. */
    SNIC_ASSERT(only_asserted == 1);
    SNIC_ASSERT(assert_off_call(calls));
    SNIC_DASSERT(assert_off_call(calls));
    if (only_asserted)
        SNIC_ASSERT(assert_off_call(calls));
    else
        (*calls) += 100; /* The macro must not swallow the else. */
    return 1;
}
