# SPDX-License-Identifier: Apache-2.0 OR MIT
# The harness around real nodes: disks that lose what was not flushed, a network with faults, a
# judge of histories; and what they are for. README.md describes them.
if(NOT "replica" IN_LIST SNIC_WANTED_MODULES OR NOT SNIC_PYTHON OR SNIC_SINGLE OR
   CMAKE_CROSSCOMPILING)
  return()
endif()
set(_dh ${CMAKE_CURRENT_LIST_DIR})
function(ddp_harness_test name labels)
  add_test(NAME ${name} COMMAND ${SNIC_PYTHON} ${ARGN})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900
    LABELS "replica;ddp;slow;waits;nightly@asan;${labels}")
endfunction()

snic_test_program(judge_history SOURCES judge_history.c judge_read.c judge_fault.c
  judge_register.c judge_counter.c judge_search.c judge_watch.c sim/lin_search.c)
target_include_directories(judge_history PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/sim)
add_test(NAME ddp_judge COMMAND ${SNIC_PYTHON} ${_dh}/test_judge.py
  $<TARGET_FILE:judge_history>)
set_tests_properties(ddp_judge PROPERTIES LABELS "replica;ddp" TIMEOUT 300)

snic_test_program(ddp_forwarder SOURCES forwarder.c)
ddp_harness_test(ddp_forwarder "" ${_dh}/test_forwarder.py $<TARGET_FILE:ddp_forwarder>)

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(SNIC_LOSSFS_FUSE QUIET IMPORTED_TARGET fuse3>=3.12)
endif()
if(NOT TARGET PkgConfig::SNIC_LOSSFS_FUSE)
  message(STATUS "lossfs: pkg-config knows no fuse3 >= 3.12, no tests of ddp_server with faults")
  return()
endif()
snic_test_program(lossfs SOURCES lossfs.c lossfs_ops.c lossfs_control.c lossfs_fault.c
  lossfs_file.c lossfs_names.c LIBS PkgConfig::SNIC_LOSSFS_FUSE Threads::Threads)
ddp_harness_test(lossfs "" ${_dh}/test_lossfs.py $<TARGET_FILE:lossfs>)

# The harness itself, on a single redis-server: faults that it survives, and a disk that lies.
set(_dh_parts --lossfs $<TARGET_FILE:lossfs> --forwarder $<TARGET_FILE:ddp_forwarder> --judge
  $<TARGET_FILE:judge_history>)
ddp_harness_test(ddp_harness_redis each2_ddp_harness ${_dh}/ddp_faults.py ${_dh_parts} --kind redis
  --nodes 1 --seconds 8)
ddp_harness_test(ddp_harness_lie each2_ddp_harness ${_dh}/ddp_faults.py ${_dh_parts} --kind redis
  --nodes 1 --seconds 4 --schedule ${_dh}/lie.schedule --lie --expect-wrong)

# Nodes of ddp_server. By day a schedule each, of seeds that depend on the commit, and those with
# schedules of their own in turns; by night, 120
# minutes on the same disks, resumed where a night was interrupted.
if(NOT TARGET ddp_server)
  return()
endif()
list(APPEND _dh_parts --server $<TARGET_FILE:ddp_server>)
ddp_harness_test(ddp_faults_three "" ${_dh}/ddp_faults.py ${_dh_parts} --nodes 3 --seconds 25)
ddp_harness_test(ddp_faults_five each2_ddp_long ${_dh}/ddp_faults.py ${_dh_parts} --nodes 5
  --seconds 20 --shards 2)
ddp_harness_test(ddp_faults_lie each2_ddp_wrong ${_dh}/ddp_faults.py ${_dh_parts} --nodes 3
  --seconds 6 --schedule ${_dh}/ddp_lie.schedule --lie --expect-wrong)
ddp_harness_test(ddp_faults_power "" ${_dh}/ddp_faults.py ${_dh_parts} --nodes 3 --seconds 11
  --schedule ${_dh}/ddp_power.schedule)
ddp_harness_test(ddp_faults_overclaim each2_ddp_wrong ${_dh}/ddp_faults.py ${_dh_parts} --nodes 3
  --seconds 11 --schedule ${_dh}/ddp_overclaim.schedule --overclaim
  "--expect-wrong=had to survive,it left,more copies,misses a value,older version,deleted it")
ddp_harness_test(ddp_burst each2_ddp_long ${_dh}/ddp_burst.py --lossfs $<TARGET_FILE:lossfs>
  --forwarder $<TARGET_FILE:ddp_forwarder> --server $<TARGET_FILE:ddp_server> --seconds 35)
ddp_harness_test(ddp_faults_m4 each3_ddp_schedule ${_dh}/ddp_faults.py ${_dh_parts} --nodes 3
  --seconds 13 --schedule ${_dh}/ddp_m4.schedule --steady)
ddp_harness_test(ddp_faults_m6 each3_ddp_schedule ${_dh}/ddp_faults.py ${_dh_parts} --nodes 3
  --seconds 13 --schedule ${_dh}/ddp_m6.schedule)
ddp_harness_test(ddp_faults_m7 each3_ddp_schedule ${_dh}/ddp_faults.py ${_dh_parts} --nodes 3
  --seconds 6 --schedule ${_dh}/ddp_m7.schedule --more=--buffered)
ddp_harness_test(ddp_faults_night nightly ${_dh}/ddp_faults.py ${_dh_parts} --nodes 3 --shards 2
  --large 1000000 --state ${CMAKE_BINARY_DIR}/ddp_faults_night --minutes 120)
ddp_harness_test(ddp_burst_night nightly ${_dh}/ddp_burst.py --lossfs $<TARGET_FILE:lossfs>
  --forwarder $<TARGET_FILE:ddp_forwarder> --server $<TARGET_FILE:ddp_server> --seconds 1500
  --minutes 120 --state ${CMAKE_BINARY_DIR}/ddp_burst_night)
set_tests_properties(ddp_faults_night ddp_burst_night PROPERTIES TIMEOUT 10800)
