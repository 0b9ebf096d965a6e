# SPDX-License-Identifier: Apache-2.0 OR MIT
# examples/nvme_target from outside: by our own host, and by the initiator of a Linux kernel.
if(NOT TARGET nvme_target OR SNIC_SINGLE OR CMAKE_CROSSCOMPILING)
  return()
endif()
snic_test(nvme_target nvmet URING CRYPTO SOURCES support/nvmehost.c)
if(TARGET test_nvme_target)
  target_compile_definitions(test_nvme_target PRIVATE NVME_TARGET="$<TARGET_FILE:nvme_target>")
  add_dependencies(test_nvme_target nvme_target)
endif()
# Linux kernels in QEMU (tools/guest.sh), one of these tests by day, by turns.
# vm_test(NAME SCRIPT ARGUMENT...)
set(vm_tests "")
macro(vm_test name script)
  add_test(NAME ${name} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/linux/${script}.sh
    $<TARGET_FILE:nvme_target> ${PROJECT_BINARY_DIR}/vm/${name} ${ARGN})
  list(APPEND vm_tests ${name})
endmacro()
vm_test(linux_disk linux_disk 6.1)
vm_test(linux_disk_fair_12 linux_disk 6.12 --fair)
vm_test(linux_auth linux_auth 6.12)
list(LENGTH vm_tests vm_count)
set_tests_properties(${vm_tests} PROPERTIES LABELS "nvmet;slow;each${vm_count}_vm@main;nightly@asan"
  SKIP_RETURN_CODE 77 TIMEOUT 1300 RESOURCE_LOCK vm)
# --config and ctl.
if(SNIC_PYTHON)
  add_test(NAME nvme_ctl COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_nvme_ctl.py
    $<TARGET_FILE:nvme_target>)
  add_test(NAME nvme_ctl_loops COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_nvme_ctl.py
    $<TARGET_FILE:nvme_target>)
  set_tests_properties(nvme_ctl nvme_ctl_loops PROPERTIES LABELS "nvmet" TIMEOUT 300)
  set_tests_properties(nvme_ctl_loops PROPERTIES ENVIRONMENT NVME_TARGET_LOOPS=2)
endif()
# Our own host: a server whose image is a namespace of the target.
if(SNIC_PYTHON AND TARGET kv_server)
  add_test(NAME nvme_remote COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_nvme_remote.py
    $<TARGET_FILE:nvme_target> $<TARGET_FILE:kv_server>)
  set_tests_properties(nvme_remote PROPERTIES LABELS "nvmehost" TIMEOUT 600
    SKIP_RETURN_CODE 77)
endif()
# A host as a process, and disks that lose what was not flushed.
if(SNIC_PYTHON)
  snic_test_program(nvme_driver SOURCES programs/nvme_target/nvme_driver.c support/nvmehost.c
    LIBS snicstore_crypto snicstore_uring snicstore snic_test_support)
  add_test(NAME nvme_ctl_live COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_nvme_live.py
    $<TARGET_FILE:nvme_target> $<TARGET_FILE:nvme_driver>)
  set_tests_properties(nvme_ctl_live PROPERTIES LABELS "nvmet" TIMEOUT 300 SKIP_RETURN_CODE 77)
  if(NOT SNIC_SANITIZE) # whose runtime has to be first
    add_library(nvme_power MODULE ${CMAKE_CURRENT_LIST_DIR}/power_cut.c)
    set_target_properties(nvme_power PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
    target_compile_definitions(nvme_power PRIVATE _GNU_SOURCE)
    target_link_libraries(nvme_power PRIVATE snicstore_flags ${CMAKE_DL_LIBS})
    add_test(NAME nvme_ctl_power COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_nvme_power.py
      $<TARGET_FILE:nvme_target> $<TARGET_FILE:nvme_driver> $<TARGET_FILE:nvme_power>)
    set_tests_properties(nvme_ctl_power PROPERTIES LABELS "nvmet" TIMEOUT 300 SKIP_RETURN_CODE 77)
  endif()
endif()
