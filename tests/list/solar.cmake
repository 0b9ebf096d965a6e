# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(solar solar)
set(_solar_sim sim/solar_world.c sim/solar_cluster.c sim/solar_guest.c)
snic_test(solar_sim solar SOURCES ${_solar_sim} TIMEOUT 3600 LABELS slow)
if(TARGET test_solar_sim)
  target_include_directories(test_solar_sim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/sim)
endif()
