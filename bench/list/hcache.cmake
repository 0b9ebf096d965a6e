# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_bench(hcache hcache SOURCES hcache_peers/ours.c hcache_peers/lists.c hcache_peers/trace.c
  LIBS m)
