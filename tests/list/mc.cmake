# SPDX-License-Identifier: Apache-2.0 OR MIT
# The explorer, and what it explores. The engine's sources are compiled a second time, which the
# library made of the single header, all of it one object, cannot be linked beside.
set(_mc mc/mc.c mc/mc_table.c mc/mc_front.c mc/mc_script.c)
snic_test(mc ddp SOURCES ${_mc} TIMEOUT 600 LABELS slow)
if(NOT SNIC_SINGLE)
  snic_test(ddp_mc ddp SOURCES ${_mc} mc/ddp_engine.c mc/ddp_node.c mc/ddp_print.c mc/ddp_world.c
    TIMEOUT 14400 LABELS slow)
  if(TARGET test_ddp_mc)
    # By hand: mc/ddp_explore.c says how.
    add_executable(ddp_explore mc/ddp_explore.c ${_mc} mc/ddp_engine.c mc/ddp_node.c mc/ddp_print.c
      mc/ddp_world.c)
    set_target_properties(ddp_explore PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
    target_include_directories(ddp_explore PRIVATE ${PROJECT_SOURCE_DIR}/lib)
    target_link_libraries(ddp_explore PRIVATE snicstore snicstore_flags Threads::Threads)
  endif()
endif()
