# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(fs fs)
snic_test(fs_uring fs URING LABELS threads)
if(TARGET fs_local AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME fs_local COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/fs_local.sh
    $<TARGET_FILE:fs_local>)
  set_tests_properties(fs_local PROPERTIES LABELS "fs" SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
if(TARGET kvfs_tool AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME kvfs_tool COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/kvfs_tool.sh
    $<TARGET_FILE:kvfs_tool>)
  set_tests_properties(kvfs_tool PROPERTIES LABELS "fs" SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
if(TARGET kvfs_mount AND TARGET kvfs_tool AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME kvfs_mount_program COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/kvfs_mount_program.sh)
  set_tests_properties(kvfs_mount_program PROPERTIES LABELS "fs;kvfs_mount;slow" SKIP_RETURN_CODE 77
    TIMEOUT 600
    ENVIRONMENT "KVFS_MOUNT=$<TARGET_FILE:kvfs_mount>;KVFS_TOOL=$<TARGET_FILE:kvfs_tool>")
endif()
