# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_fix support/dirfix.c support/dirstore.c)
snic_test(director director SOURCES ${_fix})
snic_test(director_ends director SOURCES ${_fix})
snic_test(director_host director SOURCES ${_fix})
snic_test(director_many director SOURCES ${_fix})
snic_test(director_history director SOURCES ${_fix} support/history.c)
snic_test(director_threads director URING LABELS threads)
snic_test(director_large director URING)
if(Python3_FOUND AND TARGET director_proxy AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME director_proxy COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/test_director_proxy.py $<TARGET_FILE:director_proxy>)
  set_tests_properties(director_proxy PROPERTIES LABELS director SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
