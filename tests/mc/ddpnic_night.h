/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The scopes of test_ddpnic_mc.c for the night, a ctest each (ddpnic/tests.cmake takes the names
 * from here): nodes, keys, model, what takes no time of its own, one state of so many sampled for
 * livelock, states (0: not pinned), budgets.
 */
/* clang-format off */
NIGHT(night_writes_scope,       2, 1, SCOPE,  OWN,       50, 426651, .writes = 2, .scopes = 1)
NIGHT(night_log_strict,         2, 1, STRICT, LOG,      500, 204259, .writes = 2)
NIGHT(night_pcie_strict,        2, 1, STRICT, PCIE,     500, 55071, .writes = 2)
NIGHT(night_paper_scope,        2, 1, SCOPE,  V,         50, 152023, .writes = 2, .scopes = 1,
      PAPER)
NIGHT(night_fifo_scope,         2, 1, SCOPE,  XN_FOLD_BACK, 50, 152933, .writes = 2, .scopes = 1,
      .node.fifo = 1)
NIGHT(night_writes3_synch,      2, 1, SYNCH,  OWN,     1000, 4082087, .writes = 3)
NIGHT(night_writes3_renf,       2, 1, RENF,   OWN,     1000, 21641870, .writes = 3)
NIGHT(night_writes3_event,      2, 1, EVENT,  OWN,     1000, 7514835, .writes = 3)
NIGHT(night_nodes3_synch,       3, 1, SYNCH,  V,       5000, 630538, .writes = 2)
NIGHT(night_nodes3_event,       3, 1, EVENT,  V,       5000, 2015221, .writes = 2)
NIGHT(night_nodes3_once_strict, 3, 1, STRICT, VD,      1000, 932773, .writes = 2)
NIGHT(night_nodes3_once_renf,   3, 1, RENF,   VD,      1000, 335551, .writes = 2)
NIGHT(night_nodes3_once_event,  3, 1, EVENT,  VD,      1000, 46999, .writes = 2)
NIGHT(night_crash3_strict,      3, 1, STRICT, V,        500, 552943, .writes = 1, CRASH)
NIGHT(night_crash3_scope,       3, 1, SCOPE,  V,        500, 767530, .writes = 1, .scopes = 1,
      CRASH)
NIGHT(night_crash_strict,       2, 1, STRICT, V,        500, 622459, .writes = 2, CRASH)
NIGHT(night_crash_scope,        2, 1, SCOPE,  V,        500, 1942145, .writes = 2, .scopes = 1,
      CRASH)
NIGHT(night_crash_strict_p,     2, 1, STRICT, V,        500, 616575, .writes = 2, CRASH, PAPER)
NIGHT(night_locks_synch_p,      3, 1, SYNCH,  VD,      1000, 1670464, .writes = 2, .locks = 1,
      PAPER)
NIGHT(night_locks_renf_p,       3, 1, RENF,   VD,      1000, 28984192, .writes = 2, .locks = 1,
      PAPER)
NIGHT(night_locks_event_p,      3, 1, EVENT,  VD,      1000, 1670464, .writes = 2, .locks = 1,
      PAPER)
NIGHT(night_doubled_strict,     2, 1, STRICT, V,        500, 402883, .writes = 2, .doubles = 1)
NIGHT(night_loss_synch,         2, 1, SYNCH,  V,       5000, 542435, .writes = 2, LOSS)
NIGHT(night_loss_strict,        2, 1, STRICT, V,       5000, 25839883, .writes = 2, LOSS)
NIGHT(night_loss_renf,          2, 1, RENF,   V,       5000, 6494015, .writes = 2, LOSS)
NIGHT(night_loss_event,         2, 1, EVENT,  V,       5000, 1383039, .writes = 2, LOSS)
NIGHT(night_evict3_strict,      3, 1, STRICT, V,        500, 4488616, .writes = 1, EVICT)
NIGHT(night_evict3_renf,        3, 1, RENF,   V,        500, 1825321, .writes = 1, EVICT)
NIGHT(night_evict3_event,       3, 1, EVENT,  V,        500, 667492, .writes = 1, EVICT)
NIGHT(night_delete_strict,      2, 1, STRICT, V,         50, 65777, .writes = 1, .deletes = 1)
NIGHT(night_scopes_keys,        2, 2, SCOPE,  VD,      5000, 437089, .writes = 2, .scopes = 2)
/* clang-format on */
