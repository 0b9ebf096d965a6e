# SPDX-License-Identifier: Apache-2.0 OR MIT
# The contestants are files of their own; a peer's is built when its package is there.
snic_bench(ring ring SOURCES ring_peers/ours.c ring_peers/base.c PEERS libdpdk ck)
if(TARGET bench_ring)
  if(TARGET PkgConfig::SNIC_PEER_LIBDPDK)
    target_sources(bench_ring PRIVATE ring_peers/rte.c)
  endif()
  if(TARGET PkgConfig::SNIC_PEER_CK)
    target_sources(bench_ring PRIVATE ring_peers/ck.c)
  endif()
endif()
