# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_bench(ddp ddp)
# The explorer of tests/mc, with the engine's sources once more, as in tests/mc/tests.cmake.
set(_mc ${PROJECT_SOURCE_DIR}/tests/mc)
snic_bench(explorer ddp SOURCES ${_mc}/mc.c ${_mc}/mc_table.c ${_mc}/mc_front.c ${_mc}/mc_script.c
  ${_mc}/mc_intern.c ${_mc}/ddp_node.c ${_mc}/ddp_space.c ${_mc}/ddp_twins.c
  ${_mc}/ddp_print.c ${_mc}/ddp_world.c ${_mc}/ddp_env.c ${_mc}/ddp_check.c ${_mc}/ddp_engine.c)
if(TARGET bench_explorer)
  target_include_directories(bench_explorer PRIVATE ${PROJECT_SOURCE_DIR}/lib ${_mc})
endif()
