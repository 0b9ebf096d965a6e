# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(ddpnic ddpnic SOURCES test_ddpnic_world.c)
snic_test(ddpnic_late ddpnic SOURCES test_ddpnic_world.c)
snic_test(ddpnic_check ddpnic SOURCES test_ddpnic_world.c)
snic_test(ddpnic_edges ddpnic SOURCES test_ddpnic_world.c)
snic_test(ddpnic_random ddpnic SOURCES test_ddpnic_world.c TIMEOUT 3600)
# Every order of events in small scopes. The engine's sources are compiled a second time, which the
# library made of the single header, all of it one object, cannot be linked beside.
if(NOT SNIC_SINGLE)
  set(_xn mc/mc.c mc/mc_table.c mc/mc_front.c mc/mc_script.c mc/mc_intern.c mc/ddpnic_engine.c
    mc/ddpnic_node.c mc/ddpnic_space.c mc/ddpnic_print.c mc/ddpnic_world.c mc/ddpnic_env.c
    mc/ddpnic_check.c)
  snic_test(ddpnic_mc ddpnic SOURCES ${_xn} LABELS slow ARGS test_ddpnic_mc_scopes_clean)
  snic_test(ddpnic_h1 ddpnic SOURCES ${_xn})
  if(TARGET test_ddpnic_mc)
    target_compile_definitions(test_ddpnic_h1 PRIVATE DDPNIC_WITHOUT_H1)
    # A test for each scope of the night, so that one that passed stays passed. One explorer of the
    # night at a time: each may take 14 GiB.
    if(NOT SNIC_SANITIZE AND NOT SNIC_NO_ASSERT AND NOT CMAKE_CROSSCOMPILING)
      file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/mc/ddpnic_night.h _nights REGEX "^NIGHT")
      foreach(_night ${_nights})
        string(REGEX REPLACE "^NIGHT\\(([a-z0-9_]+),.*" "\\1" _night "${_night}")
        add_test(NAME ddpnic_mc_${_night} COMMAND test_ddpnic_mc ${_night})
        set_tests_properties(ddpnic_mc_${_night} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 14400
          LABELS "ddpnic;slow;nightly" PROCESSORS 2 RESOURCE_LOCK explorer_memory)
      endforeach()
    endif()
    # By hand: see mc/ddpnic_explore.c.
    snic_test_sources(_explore mc/ddpnic_explore.c ${_xn})
    snic_shared_objects(_explore ${_explore})
    add_executable(ddpnic_explore ${_explore})
    set_target_properties(ddpnic_explore PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
    target_include_directories(ddpnic_explore PRIVATE ${PROJECT_SOURCE_DIR}/lib)
    target_link_libraries(ddpnic_explore PRIVATE snicstore snicstore_flags Threads::Threads)
    # The same with bugs in the engine, of which mc/ddpnic_mutate.py makes copies.
    find_program(SNIC_PYTHON python3)
    if(SNIC_PYTHON AND NOT SNIC_SANITIZE AND NOT SNIC_NO_ASSERT AND NOT CMAKE_CROSSCOMPILING)
      add_test(NAME ddpnic_mutants COMMAND ${SNIC_PYTHON}
        ${CMAKE_CURRENT_SOURCE_DIR}/mc/ddpnic_mutate.py --cc ${CMAKE_C_COMPILER})
      set_tests_properties(ddpnic_mutants PROPERTIES TIMEOUT 3600 LABELS "ddpnic;slow")
    endif()
  endif()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/minos.cmake)
