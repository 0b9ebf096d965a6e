# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_sim sim/cluster.c sim/cluster_judge.c sim/lin.c sim/lin_search.c)
snic_test(replica replica SOURCES ${_sim})
snic_test(replica_log replica SOURCES ${_sim})
snic_test(replica_wire replica)
snic_test(replica_edges replica SOURCES test_replica_alone.c)
snic_test(replica_foreign replica SOURCES test_replica_alone.c)
snic_test(replica_conn replica SOURCES test_replica_alone.c test_replica_peer.c)
snic_test(replica_link replica SOURCES test_replica_alone.c test_replica_peer.c)
set(_sealed test_replica_alone.c test_replica_peer.c test_replica_sealed_peer.c
  sim/solar_cipher.c)
snic_test(replica_sealed replica SOURCES ${_sealed})
snic_test(replica_ciphers replica SOURCES ${_sealed})
snic_test(replica_burst replica SOURCES ${_sim})
snic_test(replica_crypto replica SOURCES ${_sim} CRYPTO)
if(NOT SNIC_SINGLE) # it has the replica's sources once more
  snic_test(replica_versions replica SOURCES ${_sim})
endif()
snic_test(replica_lin replica SOURCES sim/lin.c sim/lin_search.c)
snic_test(replica_lasting replica SOURCES ${_sim})
snic_test(replica_config replica SOURCES ${_sim})
snic_test(replica_sim replica SOURCES ${_sim} sim/swarm.c sim/swarm_hard.c sim/swarm_real.c
  sim/solar_cipher.c LABELS each3_replica_sim@single each3_replica_sim@noassert TIMEOUT 3600)
foreach(t replica replica_crypto replica_versions replica_burst replica_sealed
    replica_ciphers replica_log replica_lin replica_lasting replica_config replica_sim)
  if(TARGET test_${t})
    target_include_directories(test_${t} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/sim)
  endif()
endforeach()
# The night's runs, in parts, so that one that passed stays passed: 16 times 12,500.
if(TARGET test_replica_sim AND NOT SNIC_SANITIZE AND NOT SNIC_NO_ASSERT AND NOT SNIC_SINGLE AND
   NOT CMAKE_CROSSCOMPILING)
  foreach(part RANGE 1 16)
    math(EXPR from "1000000 + (${part} - 1) * 12500")
    add_test(NAME replica_sim_night_${part} COMMAND ${CMAKE_COMMAND} -E env SNIC_SIM_FROM=${from}
      SNIC_SIM_NIGHT=12500 $<TARGET_FILE:test_replica_sim> many)
    set_tests_properties(replica_sim_night_${part} PROPERTIES LABELS "replica;slow;nightly"
      TIMEOUT 14400 SKIP_RETURN_CODE 77)
  endforeach()
endif()
if(TARGET test_replica_sim)
  snic_mutants(replica replica 8)
endif()
# A seed is the same run with every compiler and at every level of optimisation.
find_program(SNIC_PYTHON python3)
if(TARGET test_replica_sim AND SNIC_PYTHON AND NOT SNIC_SANITIZE AND NOT SNIC_NO_ASSERT AND
   NOT SNIC_SINGLE AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME replica_sim_compilers COMMAND ${SNIC_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/sim/same.py)
  set_tests_properties(replica_sim_compilers PROPERTIES LABELS "replica;slow;each3_compilers"
    TIMEOUT 3600 SKIP_RETURN_CODE 77)
endif()
# Those of clocks and full logs: 8 times 2,500.
if(TARGET test_replica_sim AND NOT SNIC_SANITIZE AND NOT SNIC_NO_ASSERT AND NOT SNIC_SINGLE AND
   NOT CMAKE_CROSSCOMPILING)
  foreach(part RANGE 1 8)
    math(EXPR from "1000000 + (${part} - 1) * 2500")
    add_test(NAME replica_sim_hard_night_${part} COMMAND ${CMAKE_COMMAND} -E env
      SNIC_SIM_FROM=${from} SNIC_SIM_NIGHT=2500 $<TARGET_FILE:test_replica_sim> hard_runs)
    set_tests_properties(replica_sim_hard_night_${part} PROPERTIES LABELS "replica;slow;nightly"
      TIMEOUT 14400 SKIP_RETURN_CODE 77)
  endforeach()
endif()
# Bugs of the log and of the node: sim/wal_bugs.py.
if(TARGET test_replica_sim)
  snic_mutants(wal replica 38)
endif()
