# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_bench(solar solar)
# The plain sockets beside it: bench/solar_raw.sh.
set(_solar_raw solar_raw.c solar_peers.c)
set(_solar_link solar_link.c)
foreach(program solar_raw solar_link)
  add_executable(${program} ${_${program}})
  set_target_properties(${program} PROPERTIES C_STANDARD 11 C_EXTENSIONS ON
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_link_libraries(${program} PRIVATE snicstore_flags Threads::Threads)
endforeach()
