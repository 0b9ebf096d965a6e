# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(fscache fscache)
snic_test(fscache_edges fscache)
snic_test(fscache_full fscache)
snic_test(fscache_order fscache)
snic_test(fscache_useful fscache SOURCES support/lru.c LIBS m)
# Bugs of the cache, one in eight by day: sim/fscache_bugs.py.
snic_mutants(fscache fscache 8)
