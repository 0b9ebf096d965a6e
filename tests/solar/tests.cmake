# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(solar solar SOURCES test_solar_util.c LABELS each2_blocks@single each2_blocks@noassert)
snic_test(solar_golden solar SOURCES test_solar_util.c)
snic_test(solar_device solar SOURCES sim/solar_device.c)
snic_test(solar_flips solar SOURCES test_solar_util.c)
snic_test(solar_edges solar SOURCES test_solar_util.c sim/solar_cipher.c)
snic_test(solar_turns solar SOURCES test_solar_util.c)
snic_test(solar_unknown solar)
snic_test(solar_auth solar SOURCES test_solar_util.c sim/solar_cipher.c)
snic_test(solar_openssl solar SOURCES test_solar_util.c CRYPTO)
set(_solar_sim sim/solar_world.c sim/solar_cluster.c sim/solar_client.c
  sim/solar_cipher.c)
snic_test(solar_sim solar SOURCES ${_solar_sim} TIMEOUT 3600 LABELS slow)
snic_test(solar_scenes solar SOURCES ${_solar_sim}
  LABELS each2_blocks@single each2_blocks@noassert)
foreach(t solar_sim solar_scenes solar_auth solar_edges)
  if(TARGET test_${t})
    target_include_directories(test_${t} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/sim)
  endif()
endforeach()
if(TARGET test_solar_scenes)
  snic_mutants(solar solar 12)
endif()
# The night's runs, in parts, so that one that passed stays passed: 20 times 10 of a million.
if(TARGET test_solar_sim AND NOT SNIC_SANITIZE AND NOT SNIC_NO_ASSERT AND NOT SNIC_SINGLE AND
   NOT CMAKE_CROSSCOMPILING)
  foreach(part RANGE 1 20)
    math(EXPR from "1000000 + (${part} - 1) * 10")
    add_test(NAME solar_sim_night_${part} COMMAND ${CMAKE_COMMAND} -E env SNIC_SIM_FROM=${from}
      SNIC_SIM_COUNT=10 SNIC_SIM_IOS=1000000 $<TARGET_FILE:test_solar_sim> long)
    set_tests_properties(solar_sim_night_${part} PROPERTIES LABELS "solar;slow;nightly"
      TIMEOUT 14400 SKIP_RETURN_CODE 77)
  endforeach()
endif()
