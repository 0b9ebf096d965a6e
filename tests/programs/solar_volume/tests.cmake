# SPDX-License-Identifier: Apache-2.0 OR MIT
# The block store as a whole: servers, clients, catalog. NAME:LABELS of the Python and of the shell
# tests; those of a catalog have the label `control`.
if(NOT TARGET solar_volume OR SNIC_SINGLE OR CMAKE_CROSSCOMPILING)
  return()
endif()
function(solar_volume_test name labels)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 2400
    LABELS "${labels};slow;waits;each2_solar_volume@asan")
endfunction()
set(_sv ${CMAKE_CURRENT_LIST_DIR})
set(_program $<TARGET_FILE:solar_volume>)
if(SNIC_PYTHON)
  foreach(t hang attack store)
    solar_volume_test(solar_volume_${t} volume ${SNIC_PYTHON} ${_sv}/solar_volume_${t}.py
      ${_program})
  endforeach()
  foreach(t reports nbd)
    solar_volume_test(solar_volume_${t} "volume;control" ${SNIC_PYTHON}
      ${_sv}/solar_volume_${t}.py ${_program})
  endforeach()
  foreach(t ctl many limits)
    solar_volume_test(solar_volume_${t} control ${SNIC_PYTHON} ${_sv}/solar_volume_${t}.py
      ${_program})
  endforeach()
endif()
foreach(t solar luna)
  solar_volume_test(solar_volume_${t} volume sh ${_sv}/solar_volume.sh ${_program} ${t})
endforeach()
solar_volume_test(solar_clients volume sh ${_sv}/solar_clients.sh ${_program})
foreach(t control keys tokens rekey)
  solar_volume_test(solar_${t} control sh ${_sv}/solar_${t}.sh ${_program})
endforeach()

# Clients over a fabric of network namespaces that breaks. It needs the machine for itself, and the
# fabric has one name only.
snic_test_program(solar_faults SOURCES solar_faults.c solar_faults_waits.c solar_faults_volume.c
  solar_faults_tcp.c
  ${PROJECT_SOURCE_DIR}/examples/common.c ${PROJECT_SOURCE_DIR}/examples/options.c
  LIBS snicstore_uring snicstore Threads::Threads)
target_include_directories(solar_faults PRIVATE ${PROJECT_SOURCE_DIR}/examples)
snic_system_include(solar_faults PRIVATE ${SNIC_XXHASH_INCLUDE})
add_test(NAME solar_table2 COMMAND sh ${_sv}/solar_table2.sh $<TARGET_FILE:solar_faults>
  ${_program})
set_tests_properties(solar_table2 PROPERTIES LABELS "volume;slow;nightly@asan" RUN_SERIAL ON
  RESOURCE_LOCK solar_ns SKIP_RETURN_CODE 77 TIMEOUT 3600)
