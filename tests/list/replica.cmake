# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_sim sim/cluster.c sim/lin.c sim/lin_search.c)
snic_test(replica replica SOURCES ${_sim})
snic_test(replica_sim replica SOURCES ${_sim} sim/swarm.c TIMEOUT 14400)
foreach(t replica replica_sim)
  if(TARGET test_${t})
    target_include_directories(test_${t} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/sim)
  endif()
endforeach()
