# SPDX-License-Identifier: Apache-2.0 OR MIT
# SOLAR and LUNA on sockets beside plain ones: bench/solar_raw.sh.
if(TARGET snicstore_uring AND "luna" IN_LIST SNIC_WANTED_MODULES)
  add_executable(solar_net solar_net.c solar_net_solar.c solar_net_luna.c solar_net_target.c
    solar_peers.c)
  set_target_properties(solar_net PROPERTIES C_STANDARD 11 C_EXTENSIONS ON
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  snic_system_include(solar_net PRIVATE ${SNIC_XXHASH_INCLUDE})
  target_link_libraries(solar_net PRIVATE snicstore_uring snicstore snicstore_flags
    Threads::Threads)
  if(TARGET snicstore_crypto)
    target_link_libraries(solar_net PRIVATE snicstore_crypto)
    target_compile_definitions(solar_net PRIVATE SNIC_BENCH_CRYPTO)
  endif()
endif()
