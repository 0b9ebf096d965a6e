# SPDX-License-Identifier: Apache-2.0 OR MIT
# The explorer, and what it explores. The engine's sources are compiled a second time, which the
# library made of the single header, all of it one object, cannot be linked beside.
set(_mc mc/mc.c mc/mc_table.c mc/mc_front.c mc/mc_script.c mc/mc_intern.c)
set(_mc_ddp mc/ddp_node.c mc/ddp_space.c mc/ddp_print.c mc/ddp_world.c mc/ddp_env.c
  mc/ddp_check.c)
snic_test(mc ddp SOURCES ${_mc} TIMEOUT 600 LABELS slow)
if(NOT SNIC_SINGLE)
  snic_test(ddp_mc ddp SOURCES ${_mc} ${_mc_ddp} mc/ddp_engine.c LABELS slow
    ARGS test_ddp_mc_scopes_clean)
  if(TARGET test_ddp_mc)
    # A test for each scope of the night, so that one that passed stays passed. One explorer of the
    # night at a time: each may take 14 GiB.
    if(NOT SNIC_SANITIZE AND NOT SNIC_NO_ASSERT AND NOT CMAKE_CROSSCOMPILING)
      file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/mc/ddp_night.h _nights REGEX "^NIGHT")
      foreach(_night ${_nights})
        string(REGEX REPLACE "^NIGHT[_A-Z]*\\(([a-z0-9_]+),.*" "\\1" _night "${_night}")
        add_test(NAME ddp_mc_${_night} COMMAND test_ddp_mc ${_night})
        set_tests_properties(ddp_mc_${_night} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 14400
          LABELS "ddp;slow;nightly" PROCESSORS 2 RESOURCE_LOCK explorer_memory)
      endforeach()
    endif()
    # By hand: see mc/ddp_explore.c.
    add_executable(ddp_explore mc/ddp_explore.c ${_mc} ${_mc_ddp} mc/ddp_engine.c)
    set_target_properties(ddp_explore PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
    target_include_directories(ddp_explore PRIVATE ${PROJECT_SOURCE_DIR}/lib)
    target_link_libraries(ddp_explore PRIVATE snicstore snicstore_flags Threads::Threads)
    # The same with bugs in the engine, of which mc/mutate.py makes copies.
    find_program(SNIC_PYTHON python3)
    if(SNIC_PYTHON AND NOT SNIC_SANITIZE AND NOT SNIC_NO_ASSERT AND NOT CMAKE_CROSSCOMPILING)
      add_library(ddp_explorer STATIC mc/ddp_explore.c ${_mc} ${_mc_ddp})
      set_target_properties(ddp_explorer PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
      target_include_directories(ddp_explorer PRIVATE ${PROJECT_SOURCE_DIR}/lib)
      target_link_libraries(ddp_explorer PRIVATE snicstore snicstore_flags)
      add_test(NAME ddp_mutants COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mc/mutate.py
        --day --cc ${CMAKE_C_COMPILER} --lib $<TARGET_FILE:ddp_explorer>
        --lib $<TARGET_FILE:snicstore>)
      set_tests_properties(ddp_mutants PROPERTIES TIMEOUT 7200 LABELS "ddp;slow")
    endif()
  endif()
endif()
