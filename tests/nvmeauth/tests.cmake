# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(nvmeauth nvmeauth SOURCES test_nvmeauth_util.c)
# A second implementation plays the other half, and compares every byte.
if("nvmeauth" IN_LIST SNIC_WANTED_MODULES AND TARGET snicstore_crypto AND SNIC_PYTHON AND
   NOT CMAKE_CROSSCOMPILING)
  snic_test_program(nvmeauth_line SOURCES nvmeauth_line.c LIBS snicstore_crypto snicstore)
  add_test(NAME nvmeauth_judge COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/nvmeauth_judge.py
    $<TARGET_FILE:nvmeauth_line>)
  set_tests_properties(nvmeauth_judge PROPERTIES LABELS nvmeauth SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
# Bugs of the engine, one in eight by day: sim/nvmeauth_bugs.py.
if(TARGET test_nvmeauth)
  snic_mutants(nvmeauth nvmeauth 8)
endif()
