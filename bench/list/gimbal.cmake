# SPDX-License-Identifier: Apache-2.0 OR MIT
# The peers are files of their own, which examples/tenants and their test compile, too.
if("ssd" IN_LIST SNIC_WANTED_MODULES)
  snic_bench(gimbal gimbal SOURCES gimbal_figures.c gimbal_figures_rules.c gimbal_figures_time.c
    gimbal_sim.c gimbal_peers/fifo.c gimbal_peers/reflex.c gimbal_peers/parda.c
    gimbal_peers/flashfq.c gimbal_peers/gimbal.c gimbal_peers/find.c LIBS m)
  foreach(part calibration lsm overhead)
    if(TARGET bench_gimbal AND EXISTS ${CMAKE_CURRENT_LIST_DIR}/../gimbal_${part}.c)
      string(TOUPPER ${part} id)
      target_sources(bench_gimbal PRIVATE gimbal_${part}.c)
      target_compile_definitions(bench_gimbal PRIVATE BENCH_GIMBAL_${id})
    endif()
  endforeach()
endif()
