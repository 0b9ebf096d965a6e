# SPDX-License-Identifier: Apache-2.0 OR MIT
if(Python3_FOUND AND TARGET director_proxy AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME director_proxy COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_LIST_DIR}/test_director_proxy.py $<TARGET_FILE:director_proxy>)
  set_tests_properties(director_proxy PROPERTIES LABELS "director;waits"
    SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
