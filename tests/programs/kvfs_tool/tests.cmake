# SPDX-License-Identifier: Apache-2.0 OR MIT
if(TARGET kvfs_tool AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME kvfs_tool COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/kvfs_tool.sh
    $<TARGET_FILE:kvfs_tool>)
  set_tests_properties(kvfs_tool PROPERTIES LABELS "fs" SKIP_RETURN_CODE 77 TIMEOUT 3600)
endif()
