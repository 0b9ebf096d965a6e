# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_fix support/filefix.c)
snic_test(files files SOURCES ${_fix} TIMEOUT 600)
snic_test(files_damage files SOURCES ${_fix} TIMEOUT 900)
snic_test(files_planted files SOURCES ${_fix} TIMEOUT 600)
snic_test(files_large files URING TIMEOUT 600)
snic_test(files_flight files SOURCES ${_fix} TIMEOUT 600)
snic_test(files_model files SOURCES ${_fix} support/filemodel.c TIMEOUT 1200)
foreach(t files_power files_power_together)
  snic_test(${t} files SOURCES ${_fix} support/filemodel.c support/power.c support/powerseq.c
    TIMEOUT 3600)
endforeach()
if(TARGET snic_fsck AND TARGET files_local AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME files_tools COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/files_tools.sh
    $<TARGET_FILE:files_local> $<TARGET_FILE:snic_fsck> $<TARGET_FILE:snic_dump>)
  set_tests_properties(files_tools PROPERTIES LABELS files SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
