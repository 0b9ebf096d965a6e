# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_volume support/volfix.c)
snic_test(volume volume SOURCES ${_volume})
snic_test(volume_luna volume SOURCES ${_volume})
snic_test(volume_sim volume SOURCES ${_volume} LABELS slow)
snic_mutants(luna volume)
if(TARGET solar_volume AND NOT SNIC_SINGLE AND NOT CMAKE_CROSSCOMPILING)
  if(SNIC_PYTHON)
    add_test(NAME solar_volume_hang COMMAND ${SNIC_PYTHON}
      ${CMAKE_CURRENT_SOURCE_DIR}/solar_volume_hang.py $<TARGET_FILE:solar_volume>)
    set_tests_properties(solar_volume_hang PROPERTIES LABELS "volume;slow" SKIP_RETURN_CODE 77
      TIMEOUT 600)
  endif()
  foreach(t solar luna)
    add_test(NAME solar_volume_${t} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/solar_volume.sh
      $<TARGET_FILE:solar_volume> ${t})
    set_tests_properties(solar_volume_${t} PROPERTIES LABELS "volume;slow" SKIP_RETURN_CODE 77
      TIMEOUT 600)
  endforeach()
endif()
