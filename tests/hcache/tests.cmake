# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(hcache hcache SOURCES test_hcache_util.c TIMEOUT 300)
snic_test(hcache_random hcache SOURCES test_hcache_util.c TIMEOUT 300)
snic_test(hcache_hostile hcache SOURCES test_hcache_util.c TIMEOUT 300)
snic_test(hcache_useful hcache SOURCES support/lru.c TIMEOUT 300 LIBS m)
snic_test(hcache_killed hcache SOURCES test_hcache_util.c TIMEOUT 300 LABELS slow)
snic_test(hcache_threads hcache SOURCES test_hcache_util.c TIMEOUT 300 LABELS threads)
if("dma" IN_LIST SNIC_WANTED_MODULES) # the door is not among hcache's needs
  snic_test(hcache_dma hcache SOURCES test_hcache_util.c TIMEOUT 300)
endif()
# The explorer compiles the host's sources a second time; it shows nothing new in the single header
# or under qemu.
snic_test(hcache_explore hcache SOURCES ring/explore_ring.c TIMEOUT 3600 LABELS slow)
foreach(t hcache_explore)
  if(TARGET test_${t})
    target_compile_definitions(test_${t} PRIVATE EXPLORE_MESSAGES=20 EXPLORE_LOG=192)
  endif()
endforeach()
