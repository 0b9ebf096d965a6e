# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_control support/ctlfix.c support/ctlguest.c sim/solar_cipher.c)
snic_test(control control SOURCES ${_control})
snic_test(control_edges control SOURCES ${_control})
snic_test(control_limits control SOURCES ${_control})
snic_test(control_moving control)
if(TARGET test_control_moving)
  target_include_directories(test_control_moving PRIVATE ${PROJECT_SOURCE_DIR}/examples)
endif()
snic_test(control_auth control SOURCES ${_control})
snic_test(control_tokens control SOURCES ${_control})
snic_test(control_operator control SOURCES ${_control})
snic_test(control_fair control SOURCES ${_control})
snic_test(control_thin control SOURCES ${_control})
snic_test(control_away control SOURCES ${_control} LABELS slow)
snic_test(control_numbers control SOURCES ${_control} TIMEOUT 3600 LABELS slow)
snic_test(control_sim control SOURCES ${_control} LABELS slow)
snic_test(control_crash control SOURCES ${_control} TIMEOUT 3600 LABELS slow)
if(TARGET test_control_away)
  snic_mutants(away control 2)
  snic_mutants(control control 12)
endif()
if(TARGET solar_volume AND NOT SNIC_SINGLE AND NOT CMAKE_CROSSCOMPILING)
  if(SNIC_PYTHON)
    foreach(t ctl many limits)
      add_test(NAME solar_volume_${t} COMMAND ${SNIC_PYTHON}
        ${CMAKE_CURRENT_SOURCE_DIR}/solar_volume_${t}.py $<TARGET_FILE:solar_volume>)
      set_tests_properties(solar_volume_${t} PROPERTIES LABELS "control;slow" SKIP_RETURN_CODE 77
        TIMEOUT 600)
    endforeach()
  endif()
  add_test(NAME solar_control COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/solar_control.sh
    $<TARGET_FILE:solar_volume>)
  set_tests_properties(solar_control PROPERTIES LABELS "control;slow" SKIP_RETURN_CODE 77
    TIMEOUT 900)
  add_test(NAME solar_keys COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/solar_keys.sh
    $<TARGET_FILE:solar_volume>)
  set_tests_properties(solar_keys PROPERTIES LABELS "control;slow" SKIP_RETURN_CODE 77
    TIMEOUT 600)
  add_test(NAME solar_tokens COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/solar_tokens.sh
    $<TARGET_FILE:solar_volume>)
  set_tests_properties(solar_tokens PROPERTIES LABELS "control;slow" SKIP_RETURN_CODE 77
    TIMEOUT 600)
  add_test(NAME solar_rekey COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/solar_rekey.sh
    $<TARGET_FILE:solar_volume>)
  set_tests_properties(solar_rekey PROPERTIES LABELS "control;slow" SKIP_RETURN_CODE 77
    TIMEOUT 600)
  foreach(t solar_volume_ctl solar_volume_many solar_volume_limits solar_control solar_keys
          solar_tokens solar_rekey)
    if(TEST ${t})
      set_property(TEST ${t} APPEND PROPERTY LABELS waits each2_solar_volume@asan)
    endif()
  endforeach()
endif()
