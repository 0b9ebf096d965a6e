# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(member member SOURCES test_member_one.c)
snic_test(member_edges member SOURCES test_member_one.c)
set(_member_sim test_member_sim_nodes.c test_member_sim_judge.c test_member_sim_faults.c
  test_member_sim_run.c)
snic_test(member_sim member SOURCES ${_member_sim} TIMEOUT 3600)
snic_test(member_cluster member SOURCES ${_member_sim} TIMEOUT 3600)
# Of its own copy of the engine, with defects: test_member_rename.h.
snic_test(member_teeth member SOURCES ${_member_sim} TIMEOUT 3600)
if(TARGET test_member_teeth)
  target_compile_definitions(test_member_teeth PRIVATE MEMBER_TEETH)
endif()
# Every order of events in small scopes; the engine's sources once more, as in ddp/tests.cmake.
if(NOT SNIC_SINGLE AND "member" IN_LIST SNIC_WANTED_MODULES)
  set(_mm mc/mc.c mc/mc_table.c mc/mc_front.c mc/mc_script.c mc/mc_intern.c mc/member_engine.c
    mc/member_node.c mc/member_world.c mc/member_chosen.c mc/member_begin.c mc/member_clock.c)
  snic_test(member_mc member SOURCES ${_mm} LABELS slow)
  # By hand: see mc/member_explore.c.
  snic_test_sources(_explore mc/member_explore.c ${_mm})
  snic_shared_objects(_explore ${_explore})
  add_executable(member_explore ${_explore})
  set_target_properties(member_explore PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
  target_include_directories(member_explore PRIVATE ${PROJECT_SOURCE_DIR}/lib)
  target_link_libraries(member_explore PRIVATE snicstore snicstore_flags Threads::Threads)
endif()
