/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The engine's sources once more, for the explorer: an assertion that fails is a violation found,
 * not the end of the program. (Mutated copies are built the same way: ddpnic_mutate.py.)
 *
 * DDPNIC_WITHOUT_H1: a timestamp is made from volatileTS, as the paper has it (H1), though not the
 * same twice by one node (H2).
 */
_Noreturn void xn_assert_fail(const char *file, int line, const char *text);
#define SNIC_ASSERT_FAIL(file, line, text) xn_assert_fail(file, line, text)

#include "ddp/core.c"
#include "ddpnic/model.c"
#include "ddpnic/emit.c"
#include "ddpnic/table.c"
#ifdef DDPNIC_WITHOUT_H1
#define ddpnic_base(line)                                                                          \
    (snic_ddp_ts_node(ddpnic_top(line)) == d->o.node ? ddpnic_top(line) : (line)->vts)
#endif
#include "ddpnic/host.c"
#include "ddpnic/timer.c"
#include "ddpnic/fifo.c"
#include "ddpnic/coord.c"
#include "ddpnic/follow.c"
#include "ddpnic/scope.c"
#include "ddpnic/epoch.c"
#include "ddpnic/canon.c"
#include "ddpnic/check.c"
#include "ddpnic/ddpnic.c"
