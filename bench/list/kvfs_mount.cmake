# SPDX-License-Identifier: Apache-2.0 OR MIT
# Programs that bench/kvfs.sh runs on mounts: the pass-through that KVFS is compared with, where
# libfuse3 is there, and loads.
function(snic_kvfs_program name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES C_STANDARD 11 C_EXTENSIONS ON
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_link_libraries(${name} PRIVATE snicstore_flags Threads::Threads)
endfunction()

if(PKG_CONFIG_FOUND)
  pkg_check_modules(SNIC_BENCH_FUSE3 QUIET IMPORTED_TARGET fuse3>=3.12)
endif()
if(TARGET PkgConfig::SNIC_BENCH_FUSE3)
  snic_kvfs_program(kvfs_pass kvfs_pass.c kvfs_pass_data.c)
  target_link_libraries(kvfs_pass PRIVATE PkgConfig::SNIC_BENCH_FUSE3)
else()
  message(STATUS "kvfs_pass: fuse3 >= 3.12 not found, bench/kvfs.sh has no pass-through")
endif()
snic_kvfs_program(kvfs_meta kvfs_meta.c)
