# SPDX-License-Identifier: Apache-2.0 OR MIT
# The simulator of replacement reads an iolog and draws.
if(TARGET hcache_sim AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME hcache_sim COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/hcache_sim.sh
    $<TARGET_FILE:hcache_sim>)
  set_tests_properties(hcache_sim PROPERTIES LABELS hcache TIMEOUT 120)
endif()
