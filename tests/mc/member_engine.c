/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine's sources once more, for the explorer: assertions are found, defects switched on. */
_Noreturn void mn_assert_fail(const char *file, int line, const char *text);
#define SNIC_ASSERT_FAIL(file, line, text) mn_assert_fail(file, line, text)

extern unsigned mn_bug;
unsigned mn_bug;
#define SNIC_MEMBER__BUG(n) (mn_bug == (n))

#include "member/check.c"
#include "member/lease.c"
#include "member/policy.c"
#include "member/register.c"
#include "member/member.c"
