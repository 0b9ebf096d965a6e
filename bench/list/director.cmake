# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_bench(director director URING
  SOURCES director_bench.c director_flow.c director_crowd.c director_turns.c director_zero.c)
