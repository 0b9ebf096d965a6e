# SPDX-License-Identifier: Apache-2.0 OR MIT
# The codes of base.h, so that the test walks exactly what the header declares.
file(STRINGS ${PROJECT_SOURCE_DIR}/include/snicstore/base.h _rows
  REGEX "^#define SNIC_E[A-Z0-9]+ \\(-[0-9]+\\)")
set(_codes "")
foreach(_row ${_rows})
  string(REGEX REPLACE "^#define (SNIC_E[A-Z0-9]+) .*" "X(\\1)\n" _row "${_row}")
  string(APPEND _codes "${_row}")
endforeach()
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/base_codes.inc CONTENT "${_codes}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/include/snicstore/base.h)

snic_test(base base)
target_include_directories(test_base PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
snic_test(base_assert base SOURCES test_base_assert_on.c test_base_assert_off.c)
snic_test(base_crc base SOURCES test_base_crc_streams.c)
snic_test(base_numbers base)
snic_test(base_wheel base LABELS each2_long@aarch64) # 18 seconds under qemu
snic_test(base_selfcheck base)
