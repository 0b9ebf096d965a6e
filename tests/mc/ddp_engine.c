/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The engine's sources once more, for the explorer: an assertion that fails is a violation found,
 * not the end of the program. (Mutated copies of the sources are built the same way: mutate.py.)
 */
_Noreturn void dn_assert_fail(const char *file, int line, const char *text);
#define SNIC_ASSERT_FAIL(file, line, text) dn_assert_fail(file, line, text)

#include "ddp/model.c"
/* A restart compares fewer ranges of keys: each is a message whose place in the order counts. The
 * state, which model.c's headers have laid out, keeps room for all. */
#undef SNIC_DDP__RANGES
#define SNIC_DDP__RANGES 2
#include "ddp/record.c"
#include "ddp/timer.c"
#include "ddp/write.c"
#include "ddp/follow.c"
#include "ddp/replay.c"
#include "ddp/scope.c"
#include "ddp/cas.c"
#include "ddp/epoch.c"
#include "ddp/learn.c"
#include "ddp/restart.c"
#include "ddp/purge.c"
#include "ddp/canon.c"
#include "ddp/check.c"
#include "ddp/ddp.c"
