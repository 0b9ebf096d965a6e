# SPDX-License-Identifier: Apache-2.0 OR MIT
# The tools of an image, and the file service and the file system in one process.
if(TARGET files_local AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME files_local COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/files_local.sh
    $<TARGET_FILE:files_local>)
  set_tests_properties(files_local PROPERTIES LABELS "filelib;threads" SKIP_RETURN_CODE 77
    TIMEOUT 300)
endif()
if(TARGET snic_fsck AND TARGET files_local AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME files_tools COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/files_tools.sh
    $<TARGET_FILE:files_local> $<TARGET_FILE:snic_fsck> $<TARGET_FILE:snic_dump>)
  set_tests_properties(files_tools PROPERTIES LABELS files SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
if(TARGET fs_local AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME fs_local COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/fs_local.sh
    $<TARGET_FILE:fs_local>)
  set_tests_properties(fs_local PROPERTIES LABELS "fs" SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
