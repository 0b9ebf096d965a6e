# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_ps ${PROJECT_SOURCE_DIR}/examples/page_server)
snic_test(page_engine files SOURCES ${_ps}/engine.c ${_ps}/request.c ${_ps}/replay.c ${_ps}/shape.c
  ${_ps}/damage.c ${_ps}/log.c
  ${_ps}/page.c ${_ps}/wire.c LABELS page_server)
if(TARGET test_page_engine)
  target_include_directories(test_page_engine PRIVATE ${_ps} ${PROJECT_SOURCE_DIR}/examples)
endif()
# The page_server from outside, driven by page_load. Needs both programs.
if(Python3_FOUND AND TARGET page_server AND TARGET page_load AND NOT CMAKE_CROSSCOMPILING
    AND NOT SNIC_SINGLE)
  foreach(mode monolith two library)
    add_test(NAME page_server_${mode} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_LIST_DIR}/test_page_server.py $<TARGET_FILE:page_server>
      $<TARGET_FILE:page_load> ${mode} $<TARGET_FILE:snic_fsck> $<TARGET_FILE:kv_server>)
    set_tests_properties(page_server_${mode} PROPERTIES LABELS "page_server;each3_modes@asan"
      SKIP_RETURN_CODE 77 TIMEOUT 1800)
  endforeach()
endif()
