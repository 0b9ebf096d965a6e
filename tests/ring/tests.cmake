# SPDX-License-Identifier: Apache-2.0 OR MIT
# The explorer compiles the module's sources a second time; it shows nothing new in the single
# header or under qemu.
snic_test(ring ring TIMEOUT 300)
snic_test(ring_model ring TIMEOUT 300)
snic_test(ring_hostile ring TIMEOUT 300)
snic_test(ring_response ring)
snic_test(ring_remote ring)
snic_test(ring_threads ring TIMEOUT 300 LABELS threads)
snic_test(ring_repair ring)
snic_test(ring_death ring TIMEOUT 300)
snic_test(ring_explore ring SOURCES explore_ring.c TIMEOUT 300 LABELS slow)
snic_test(ring_explore_one ring SOURCES explore_ring.c TIMEOUT 300 LABELS slow)
snic_test(ring_explore_response ring SOURCES explore_ring.c TIMEOUT 300 LABELS slow)
snic_test(ring_explore_repair ring SOURCES explore_ring.c TIMEOUT 300 LABELS slow)
if("loop" IN_LIST SNIC_WANTED_MODULES)
  snic_test(ring_loop ring URING TIMEOUT 300 LABELS threads)
endif()
