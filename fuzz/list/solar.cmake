# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_fuzz(solar solar SOURCES ${PROJECT_SOURCE_DIR}/tests/sim/solar_cipher.c)
if(TARGET fuzz_solar)
  target_include_directories(fuzz_solar PRIVATE ${PROJECT_SOURCE_DIR}/tests/sim)
endif()
