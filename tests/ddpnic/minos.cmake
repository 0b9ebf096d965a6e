# SPDX-License-Identifier: Apache-2.0 OR MIT
# The simulated machine that bench_minos measures.
set(_minos ${PROJECT_SOURCE_DIR}/bench/minos)
snic_test(minos_figures ddpnic SOURCES ${_minos}/params.c ${_minos}/load.c ${_minos}/world.c
  ${_minos}/run.c ${_minos}/host.c ${_minos}/nic.c)
if(TARGET test_minos_figures)
  target_include_directories(test_minos_figures PRIVATE ${_minos})
  target_compile_definitions(test_minos_figures PRIVATE
    MINOS_PARAMETERS_FILE="${_minos}/parameters")
endif()
