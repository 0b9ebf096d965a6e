# SPDX-License-Identifier: Apache-2.0 OR MIT
# The paper's figures: a program about two modules, ddp and ddpnic.
snic_bench(minos ddpnic SOURCES minos/params.c minos/load.c minos/world.c minos/run.c minos/host.c
  minos/nic.c minos/rows.c minos/figures.c minos/fit.c)
if(TARGET bench_minos)
  target_include_directories(bench_minos PRIVATE ${PROJECT_SOURCE_DIR}/tests/support)
  target_compile_definitions(bench_minos PRIVATE
    MINOS_PARAMETERS_FILE="${CMAKE_CURRENT_SOURCE_DIR}/minos/parameters")
endif()
