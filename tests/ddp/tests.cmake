# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_one test_ddp_one.c test_ddp_world.c)
snic_test(ddp ddp SOURCES ${_one})
snic_test(ddp_cas ddp SOURCES ${_one})
snic_test(ddp_suspicion ddp SOURCES ${_one})
snic_test(ddp_late ddp SOURCES ${_one})
snic_test(ddp_scopes ddp SOURCES ${_one})
snic_test(ddp_durability ddp SOURCES ${_one})
snic_test(ddp_learner ddp SOURCES ${_one} test_ddp_pair.c)
snic_test(ddp_edges ddp SOURCES ${_one})
snic_test(ddp_check ddp SOURCES ${_one})
snic_test(ddp_golden ddp)
snic_test(ddp_random ddp SOURCES test_ddp_world.c TIMEOUT 3600)
# Every order of events in small scopes.
include(${CMAKE_CURRENT_SOURCE_DIR}/mc/tests.cmake)
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
    snic_test_sources(_explore mc/ddp_explore.c ${_mc} ${_mc_ddp})
    snic_shared_objects(_explore ${_explore})
    snic_test_sources(_engine mc/ddp_engine.c)
    snic_shared_objects(_engine ${_engine})
    add_executable(ddp_explore ${_explore} ${_engine})
    set_target_properties(ddp_explore PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
    target_include_directories(ddp_explore PRIVATE ${PROJECT_SOURCE_DIR}/lib)
    target_link_libraries(ddp_explore PRIVATE snicstore snicstore_flags Threads::Threads)
    # The same with bugs in the engine, of which mc/mutate.py makes copies.
    find_program(SNIC_PYTHON python3)
    if(SNIC_PYTHON AND NOT SNIC_SANITIZE AND NOT SNIC_NO_ASSERT AND NOT CMAKE_CROSSCOMPILING)
      add_library(ddp_explorer STATIC ${_explore})
      set_target_properties(ddp_explorer PROPERTIES C_STANDARD 11 C_EXTENSIONS ON
        LINKER_LANGUAGE C)
      target_include_directories(ddp_explorer PRIVATE ${PROJECT_SOURCE_DIR}/lib)
      target_link_libraries(ddp_explorer PRIVATE snicstore snicstore_flags)
      add_test(NAME ddp_mutants COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mc/mutate.py
        --day --cc ${CMAKE_C_COMPILER} --lib $<TARGET_FILE:ddp_explorer>
        --lib $<TARGET_FILE:snicstore>)
      set_tests_properties(ddp_mutants PROPERTIES TIMEOUT 7200 LABELS "ddp;slow")
    endif()
  endif()
endif()
