/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* member: contract. */
#include "member/member_priv.h"
#include "support.h"

static void test_member_x(void **state) { (void)state; assert_true(sizeof(struct snic_member) < 4096); }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_member_x)};
    return SUPPORT_MAIN(argc, argv, tests);
}
