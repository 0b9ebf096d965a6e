# SPDX-License-Identifier: Apache-2.0 OR MIT
# The load of bench/neighbours.sh, for programs of several modules.
if("control" IN_LIST SNIC_WANTED_MODULES)
  snic_compiled(_sources neighbours.c neighbours_wire.c neighbours_stream.c neighbours_file.c
    neighbours_catalog.c ${PROJECT_SOURCE_DIR}/examples/page_server/wire.c)
  add_executable(neighbours ${_sources})
  set_target_properties(neighbours PROPERTIES C_STANDARD 11 C_EXTENSIONS ON
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_include_directories(neighbours PRIVATE ${PROJECT_SOURCE_DIR}/examples)
  target_link_libraries(neighbours PRIVATE snicstore snicstore_flags Threads::Threads m)
endif()
