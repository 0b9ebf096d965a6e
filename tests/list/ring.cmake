# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(ring ring)
snic_test(ring_response ring)
snic_test(ring_remote ring)
snic_test(ring_threads ring TIMEOUT 300)
snic_test(ring_explore ring SOURCES explore_ring.c TIMEOUT 300)
snic_test(ring_repair ring)
