# SPDX-License-Identifier: Apache-2.0 OR MIT
# The page_server from outside, driven by page_load. Needs both programs.
if(Python3_FOUND AND TARGET page_server AND TARGET page_load AND NOT CMAKE_CROSSCOMPILING
    AND NOT SNIC_SINGLE)
  foreach(mode monolith two library)
    add_test(NAME page_server_${mode} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/test_page_server.py $<TARGET_FILE:page_server>
      $<TARGET_FILE:page_load> ${mode} $<TARGET_FILE:snic_fsck> $<TARGET_FILE:kv_server>)
    set_tests_properties(page_server_${mode} PROPERTIES LABELS "page_server;each3_modes@asan"
      SKIP_RETURN_CODE 77 TIMEOUT 1800)
  endforeach()
endif()
