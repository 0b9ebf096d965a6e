# SPDX-License-Identifier: Apache-2.0 OR MIT
# SQLite with its files in an image of the file service.
if(TARGET sqlite_vfs AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE AND NOT SNIC_SANITIZE)
  add_test(NAME sqlite_vfs_shell COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/sqlite_vfs.sh
    $<TARGET_FILE:sqlite_vfs>)
  set_tests_properties(sqlite_vfs_shell PROPERTIES LABELS "filelib" SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
if(TARGET sqlite_vfs AND TARGET sqlite_dpu AND SNIC_PYTHON AND NOT SNIC_SINGLE)
  add_test(NAME sqlite_locks COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_sqlite_locks.py
    $<TARGET_FILE:sqlite_vfs> $<TARGET_FILE:sqlite_dpu>)
  set_tests_properties(sqlite_locks PROPERTIES LABELS "filelib" SKIP_RETURN_CODE 77 TIMEOUT 1200)
endif()

# The VFS linked into a test, on a simulated device.
find_library(SNIC_SQLITE sqlite3)
find_path(SNIC_SQLITE_INCLUDE sqlite3ext.h)
if(SNIC_SQLITE AND SNIC_SQLITE_INCLUDE AND TARGET snicstore_uring AND NOT CMAKE_CROSSCOMPILING)
  set(_vfs ${PROJECT_SOURCE_DIR}/examples/sqlite_vfs)
  snic_test(sqlite_power filelib URING TIMEOUT 3600 LIBS ${SNIC_SQLITE}
    SOURCES support/filefix.c support/filelink.c support/power.c
      ${_vfs}/vfs.c ${_vfs}/file.c ${_vfs}/lock.c ${_vfs}/path.c)
  if(TARGET test_sqlite_power)
    target_compile_definitions(test_sqlite_power PRIVATE SQLITE_CORE)
    target_include_directories(test_sqlite_power PRIVATE ${_vfs})
    snic_system_include(test_sqlite_power PRIVATE ${SNIC_SQLITE_INCLUDE})
  endif()
endif()
