/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The explorer on an engine without the fix of H1: see test_ddpnic_mc.c. */
#include "test_ddpnic_mc.c"
