# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_volume support/volfix.c)
snic_test(volume volume SOURCES ${_volume})
snic_test(volume_damage volume SOURCES ${_volume})
snic_test(volume_limits volume SOURCES ${_volume})
snic_test(volume_luna volume SOURCES ${_volume})
snic_test(volume_keys volume SOURCES ${_volume} sim/solar_cipher.c)
snic_test(volume_tokens volume SOURCES ${_volume} sim/solar_cipher.c)
snic_test(volume_secret volume CRYPTO SOURCES ${_volume})
snic_test(volume_lease volume SOURCES ${_volume})
snic_test(volume_sim volume SOURCES ${_volume} sim/solar_cipher.c LABELS slow)
snic_test(volume_busy volume)
if(TARGET test_volume_busy)
  target_include_directories(test_volume_busy PRIVATE ${PROJECT_SOURCE_DIR}/examples/solar_volume)
endif()
snic_mutants(luna volume 6)
if(TARGET solar_volume AND NOT SNIC_SINGLE AND NOT CMAKE_CROSSCOMPILING)
  if(SNIC_PYTHON)
    foreach(t hang attack store tells nbd)
      add_test(NAME solar_volume_${t} COMMAND ${SNIC_PYTHON}
        ${CMAKE_CURRENT_SOURCE_DIR}/solar_volume_${t}.py $<TARGET_FILE:solar_volume>)
      set_tests_properties(solar_volume_${t} PROPERTIES LABELS "volume;slow" SKIP_RETURN_CODE 77
        TIMEOUT 600)
    endforeach()
    set_tests_properties(solar_volume_tells PROPERTIES LABELS "volume;control;slow")
    set_tests_properties(solar_volume_nbd PROPERTIES LABELS "volume;control;slow")
  endif()
  foreach(t solar luna)
    add_test(NAME solar_volume_${t} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/solar_volume.sh
      $<TARGET_FILE:solar_volume> ${t})
    set_tests_properties(solar_volume_${t} PROPERTIES LABELS "volume;slow" SKIP_RETURN_CODE 77
      TIMEOUT 600)
  endforeach()
  add_test(NAME solar_clients COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/solar_clients.sh
    $<TARGET_FILE:solar_volume>)
  set_tests_properties(solar_clients PROPERTIES LABELS "volume;slow;waits;each2_solar_volume@asan"
    SKIP_RETURN_CODE 77 TIMEOUT 600)
  foreach(t hang attack store tells nbd solar luna)
    if(TEST solar_volume_${t})
      set_property(TEST solar_volume_${t} APPEND PROPERTY LABELS waits each2_solar_volume@asan)
    endif()
  endforeach()
  # Guests over a fabric of network namespaces that breaks. It wants the machine for itself, and the
  # fabric has one name only.
  add_executable(solar_faults solar_faults.c solar_faults_volume.c solar_faults_tcp.c
    ${PROJECT_SOURCE_DIR}/examples/common.c ${PROJECT_SOURCE_DIR}/examples/options.c)
  set_target_properties(solar_faults PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
  target_include_directories(solar_faults PRIVATE ${PROJECT_SOURCE_DIR}/examples)
  snic_system_include(solar_faults PRIVATE ${SNIC_XXHASH_INCLUDE})
  target_link_libraries(solar_faults PRIVATE snicstore_uring snicstore snicstore_flags
    Threads::Threads)
  add_test(NAME solar_table2 COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/solar_table2.sh
    $<TARGET_FILE:solar_faults> $<TARGET_FILE:solar_volume>)
  set_tests_properties(solar_table2 PROPERTIES LABELS "volume;slow;nightly@asan" RUN_SERIAL ON
    RESOURCE_LOCK solar_ns SKIP_RETURN_CODE 77 TIMEOUT 3600)
endif()
