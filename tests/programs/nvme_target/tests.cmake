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
# Linux kernels in QEMU (tools/guest.sh): linux/linux_NAME.sh with a kernel. One of these tests by
# day, by turns.
set(linux disk/6.1 disk/6.12/--fair auth/6.12 events/6.1 events/6.12 paths/6.1 paths/6.12
  reserve/6.1 reserve/6.12 queues/6.12 programs/6.1 compare/6.1)
list(LENGTH linux count)
foreach(t ${linux})
  string(REPLACE "/" ";" words ${t})
  list(POP_FRONT words script kernel)
  set(name linux_${script}_${kernel})
  add_test(NAME ${name} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/linux/linux_${script}.sh
    $<TARGET_FILE:nvme_target> ${PROJECT_BINARY_DIR}/linux/${name} ${kernel} ${words})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1300 RESOURCE_LOCK linux
    LABELS "nvmet;slow;each${count}_linux@main;nightly@asan"
    COST 900) # of a run of all tests, it begins early
endforeach()
add_test(NAME linux_postgres_6.12 COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/linux/linux_postgres.sh
  $<TARGET_FILE:nvme_target> ${PROJECT_BINARY_DIR}/linux/linux_postgres_6.12 6.12)
set_tests_properties(linux_postgres_6.12 PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 3600
  RESOURCE_LOCK linux LABELS "nvmet;slow;nightly")
# --config and ctl.
if(SNIC_PYTHON)
  add_test(NAME nvme_ctl COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_nvme_ctl.py
    $<TARGET_FILE:nvme_target>)
  add_test(NAME nvme_ctl_loops COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_nvme_ctl.py
    $<TARGET_FILE:nvme_target>)
  set_tests_properties(nvme_ctl nvme_ctl_loops PROPERTIES LABELS "nvmet" TIMEOUT 900)
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
  set_tests_properties(nvme_ctl_live PROPERTIES LABELS "nvmet" TIMEOUT 900 SKIP_RETURN_CODE 77)
  if(TARGET solar_volume)
    add_test(NAME nvme_solar COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_nvme_solar.py
      $<TARGET_FILE:nvme_target> $<TARGET_FILE:nvme_driver> $<TARGET_FILE:solar_volume>)
    set_tests_properties(nvme_solar PROPERTIES LABELS "nvmet" TIMEOUT 900 SKIP_RETURN_CODE 77)
  endif()
  if(NOT SNIC_SANITIZE) # whose runtime has to be first
    add_library(nvme_power MODULE ${CMAKE_CURRENT_LIST_DIR}/power_cut.c)
    set_target_properties(nvme_power PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
    target_compile_definitions(nvme_power PRIVATE _GNU_SOURCE)
    target_link_libraries(nvme_power PRIVATE snicstore_flags ${CMAKE_DL_LIBS})
    add_test(NAME nvme_ctl_power COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_nvme_power.py
      $<TARGET_FILE:nvme_target> $<TARGET_FILE:nvme_driver> $<TARGET_FILE:nvme_power>)
    set_tests_properties(nvme_ctl_power PROPERTIES LABELS "nvmet" TIMEOUT 900 SKIP_RETURN_CODE 77)
  endif()
endif()
