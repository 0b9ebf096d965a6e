# SPDX-License-Identifier: Apache-2.0 OR MIT
# The nodes' random runs of tests/sim.
set(_sim ${PROJECT_SOURCE_DIR}/tests/sim)
snic_bench(swarm replica SOURCES ${_sim}/swarm.c ${_sim}/swarm_hard.c ${_sim}/cluster.c
  ${_sim}/cluster_judge.c ${_sim}/lin.c ${_sim}/lin_search.c)
if(TARGET bench_swarm)
  target_include_directories(bench_swarm PRIVATE ${_sim})
endif()
