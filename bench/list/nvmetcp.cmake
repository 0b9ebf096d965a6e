# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_bench(nvmetcp nvmetcp)
# The target and the echo on sockets.
if("nvmet" IN_LIST SNIC_WANTED_MODULES AND "nvmehost" IN_LIST SNIC_WANTED_MODULES AND
    "qos" IN_LIST SNIC_WANTED_MODULES AND TARGET snicstore_uring)
  add_executable(nvmetcp_net nvmetcp_net.c nvmetcp_meter.c nvmetcp_null.c nvmetcp_target.c
    nvmetcp_echo.c)
  set_target_properties(nvmetcp_net PROPERTIES C_STANDARD 11 C_EXTENSIONS ON
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_link_libraries(nvmetcp_net PRIVATE snicstore_uring snicstore snicstore_flags
    Threads::Threads)
endif()
