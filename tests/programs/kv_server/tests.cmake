# SPDX-License-Identifier: Apache-2.0 OR MIT
# The kv_server: its parts, and the whole from outside. Needs the program.
set(_kv ${PROJECT_SOURCE_DIR}/examples/kv_server)
set(_resp ${PROJECT_SOURCE_DIR}/examples/resp)
set(_kv_store ${_kv}/store.c ${_kv}/store_open.c ${_kv}/store_base.c ${_kv}/store_cache.c
  ${_kv}/store_swap.c ${_kv}/segment.c ${_kv}/compact_victim.c ${_kv}/log.c ${_kv}/recover.c
  ${_kv}/compact.c ${_kv}/swap.c ${_kv}/index.c ${_kv}/record.c)
snic_test(kv_resp base SOURCES ${_resp}/resp.c LABELS kv)
snic_test(kv_rdb base SOURCES ${_resp}/rdb.c ${_resp}/resp.c LABELS kv)
snic_test(kv_store loop SOURCES test_kv_store_files.c test_kv_store_model.c ${_kv_store}
  LABELS kv)
set(_kv_power ${_kv_store} ${_kv}/engine.c ${_kv}/engine_run.c ${_kv}/engine_room.c
  ${_kv}/engine_out.c ${_kv}/client.c ${_kv}/message.c ${_kv}/stats.c ${_kv}/slow.c ${_resp}/glob.c
  ${_kv}/command.c ${_kv}/command_args.c ${_kv}/command_read.c ${_kv}/command_write.c
  ${_kv}/command_transaction.c ${_kv}/commands.c ${_kv}/command_keys.c
  ${_kv}/command_server.c ${_kv}/command_strings.c
  ${_kv}/command_numbers.c ${_kv}/command_ranges.c ${_kv}/command_expire.c ${_kv}/command_scan.c
  ${_kv}/command_move.c ${_kv}/command_dump.c ${_resp}/rdb.c ${_kv}/command_object.c
  ${_kv}/command_sub.c
  ${_kv}/command_script.c ${_kv}/script.c ${_kv}/sha1.c
  ${_kv}/command_docs.c ${_resp}/docs.c ${_resp}/docs_data.c ${_kv}/command_info.c
  ${_kv}/command_slow.c ${_resp}/resp.c
  ${_resp}/reply.c ${_resp}/arguments.c ${_resp}/session.c ${_resp}/config.c
  ${_kv}/tenant.c ${_kv}/command_session.c ${_kv}/command_client.c ${_kv}/command_config.c
  ${_kv}/transaction.c ${_resp}/settings.c)
snic_test(kv_power files SOURCES support/kv_files_direct.c support/kv_model.c ${_kv_power}
  LABELS kv TIMEOUT 1800)
snic_test(kv_table base SOURCES ${PROJECT_SOURCE_DIR}/examples/server/memory.c LABELS kv)
snic_test(kv_early loop SOURCES ${_kv_power} LABELS kv)
snic_test(kv_room loop SOURCES ${_kv_power} LABELS kv)
foreach(t kv_resp kv_rdb kv_store kv_power kv_early kv_room)
  if(TARGET test_${t})
    target_include_directories(test_${t} PRIVATE ${_kv} ${_resp})
  endif()
endforeach()
if(TARGET test_kv_table)
  target_include_directories(test_kv_table PRIVATE ${PROJECT_SOURCE_DIR}/examples/server)
endif()
if(Python3_FOUND AND TARGET kv_server AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  foreach(mode monolith single two)
    add_test(NAME kv_server_${mode} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_LIST_DIR}/test_kv_server.py $<TARGET_FILE:kv_server> ${mode})
    add_test(NAME kv_diff_${mode} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_LIST_DIR}/test_kv_diff.py $<TARGET_FILE:kv_server> ${mode})
    add_test(NAME kv_session_${mode} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_LIST_DIR}/test_kv_session.py $<TARGET_FILE:kv_server> ${mode})
    set(labels kv)
    if(mode STREQUAL single)
      list(APPEND labels threads)
    endif()
    set_tests_properties(kv_server_${mode} kv_diff_${mode} kv_session_${mode}
      PROPERTIES LABELS "${labels}"
      SKIP_RETURN_CODE 77 TIMEOUT 1800)
    set_property(TEST kv_server_${mode} APPEND PROPERTY LABELS each4_kv_server@asan)
  endforeach()
  foreach(mode single two)
    add_test(NAME kv_tenants_${mode} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_LIST_DIR}/test_kv_tenants.py $<TARGET_FILE:kv_server> ${mode})
  endforeach()
  add_test(NAME kv_share COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_LIST_DIR}/test_kv_share.py $<TARGET_FILE:kv_server> two)
  set_tests_properties(kv_share PROPERTIES LABELS "kv;slow" SKIP_RETURN_CODE 77 TIMEOUT 600)
  # What holds without a switch holds with one.
  add_test(NAME kv_server_qos COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_LIST_DIR}/test_kv_server.py $<TARGET_FILE:kv_server> two)
  add_test(NAME kv_diff_qos COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_LIST_DIR}/test_kv_diff.py $<TARGET_FILE:kv_server> two)
  set_tests_properties(kv_tenants_single kv_tenants_two kv_server_qos kv_diff_qos PROPERTIES
    LABELS kv SKIP_RETURN_CODE 77 TIMEOUT 1800)
  # By day the monolith runs without sanitizers, and one of the modes with a DPU role (20 CPU
  # seconds and more each); one mode with ASan, and the one with threads of its own with TSan.
  set_property(TEST kv_server_single kv_server_two kv_server_qos
    APPEND PROPERTY LABELS each3_kv_server@main)
  set_property(TEST kv_server_qos APPEND PROPERTY LABELS each4_kv_server@asan)
  set_property(TEST kv_tenants_single kv_tenants_two APPEND PROPERTY LABELS each2_tenants)
  set_tests_properties(kv_server_qos kv_diff_qos PROPERTIES ENVIRONMENT SNIC_KV_QOS=1)
  if(_sanitized)
    set_property(TEST kv_server_monolith kv_server_single kv_server_two kv_server_qos
      kv_session_monolith kv_session_single kv_session_two
      APPEND PROPERTY ENVIRONMENT "SNIC_SANITIZED=${SNIC_SANITIZE}")
  endif()
  # Client libraries, of which hiredis' is compiled here.
  find_library(SNIC_HIREDIS hiredis)
  find_path(SNIC_HIREDIS_INCLUDE hiredis/hiredis.h)
  set(_hiredis "")
  if(SNIC_HIREDIS AND SNIC_HIREDIS_INCLUDE AND NOT SNIC_SANITIZE)
    snic_test_program(client_hiredis SOURCES clients/client_hiredis.c LIBS ${SNIC_HIREDIS})
    target_include_directories(client_hiredis SYSTEM PRIVATE ${SNIC_HIREDIS_INCLUDE})
    set(_hiredis $<TARGET_FILE:client_hiredis>)
  endif()
  foreach(mode monolith two)
    add_test(NAME kv_clients_${mode} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_LIST_DIR}/test_kv_clients.py $<TARGET_FILE:kv_server> ${mode}
      ${CMAKE_BINARY_DIR}/kv_clients ${_hiredis})
    set_tests_properties(kv_clients_${mode} PROPERTIES LABELS kv SKIP_RETURN_CODE 77 TIMEOUT 900
      RESOURCE_LOCK kv_clients)
  endforeach()
  foreach(t large memory)
    foreach(mode monolith single two)
      add_test(NAME kv_${t}_${mode} COMMAND ${Python3_EXECUTABLE}
        ${CMAKE_CURRENT_LIST_DIR}/test_kv_${t}.py $<TARGET_FILE:kv_server> ${mode})
      set_tests_properties(kv_${t}_${mode} PROPERTIES LABELS kv TIMEOUT 900)
      if(_sanitized)
        set_property(TEST kv_${t}_${mode}
          APPEND PROPERTY ENVIRONMENT "SNIC_SANITIZED=${SNIC_SANITIZE}")
      endif()
    endforeach()
    set_property(TEST kv_${t}_single kv_${t}_two APPEND PROPERTY LABELS each2_kv_${t})
  endforeach()
  set_property(TEST kv_memory_monolith kv_memory_single kv_memory_two APPEND PROPERTY LABELS waits)
  add_test(NAME kv_commands COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_LIST_DIR}/test_kv_commands.py $<TARGET_FILE:kv_server>)
  set_tests_properties(kv_commands PROPERTIES LABELS kv SKIP_RETURN_CODE 77 TIMEOUT 900)
  if(TARGET kv_load)
    add_test(NAME kv_limits COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_LIST_DIR}/test_kv_limits.py $<TARGET_FILE:kv_server> $<TARGET_FILE:kv_load>)
    set_tests_properties(kv_limits PROPERTIES LABELS "kv;each4_kv_server@asan" TIMEOUT 900)
  endif()
  add_test(NAME kv_kill COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/kv_kill.py
    $<TARGET_FILE:kv_server>)
  set_tests_properties(kv_kill PROPERTIES LABELS kv TIMEOUT 1800)
endif()
