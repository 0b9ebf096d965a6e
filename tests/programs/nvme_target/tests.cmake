# SPDX-License-Identifier: Apache-2.0 OR MIT
# examples/nvme_target from outside: by our own host, and by the initiator of a Linux kernel.
if(NOT TARGET nvme_target OR SNIC_SINGLE OR CMAKE_CROSSCOMPILING)
  return()
endif()
snic_test(nvme_target nvmet URING SOURCES support/nvmehost.c)
if(TARGET test_nvme_target)
  target_compile_definitions(test_nvme_target PRIVATE NVME_TARGET="$<TARGET_FILE:nvme_target>")
  add_dependencies(test_nvme_target nvme_target)
endif()
