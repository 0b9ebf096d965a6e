# SPDX-License-Identifier: Apache-2.0 OR MIT
# ddp_server from outside, on loopback: seconds. The large harness is in harness/.
if(TARGET ddp_server AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  set(_server ${PROJECT_SOURCE_DIR}/examples/server)
  snic_test(ddp_front store URING SOURCES ${_server}/front.c ${_server}/front_conn.c
    ${_server}/front_limit.c ${_server}/front_out.c LIBS example_common LABELS ddp)
endif()
if(SNIC_PYTHON AND TARGET ddp_server AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  # Each program ends by itself before its TIMEOUT, with a message (ddpserver.py: LIMIT).
  add_test(NAME ddp_server_nodes COMMAND ${SNIC_PYTHON}
    ${CMAKE_CURRENT_LIST_DIR}/test_ddp_server.py $<TARGET_FILE:ddp_server>)
  add_test(NAME ddp_server_deaths COMMAND ${SNIC_PYTHON}
    ${CMAKE_CURRENT_LIST_DIR}/test_ddp_deaths.py $<TARGET_FILE:ddp_server>)
  add_test(NAME ddp_server_ctl COMMAND ${SNIC_PYTHON}
    ${CMAKE_CURRENT_LIST_DIR}/test_ddp_ctl.py $<TARGET_FILE:ddp_server>)
  if(NOT SNIC_SANITIZE) # it measures memory, of which a sanitizer keeps what was freed
    add_test(NAME ddp_server_limits COMMAND ${SNIC_PYTHON}
      ${CMAKE_CURRENT_LIST_DIR}/test_ddp_limits.py $<TARGET_FILE:ddp_server>)
    set_tests_properties(ddp_server_limits PROPERTIES LABELS "ddp;replica" TIMEOUT 900
      COST 900) # the longest: it begins early
  endif()
  if(NOT SNIC_SANITIZE) # whose runtime has to be first
    add_library(ddp_no_memory MODULE ${CMAKE_CURRENT_LIST_DIR}/no_memory.c)
    set_target_properties(ddp_no_memory PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
    target_compile_definitions(ddp_no_memory PRIVATE _GNU_SOURCE)
    target_link_libraries(ddp_no_memory PRIVATE snicstore_flags ${CMAKE_DL_LIBS})
    add_test(NAME ddp_server_memory COMMAND ${SNIC_PYTHON}
      ${CMAKE_CURRENT_LIST_DIR}/test_ddp_memory.py $<TARGET_FILE:ddp_server>
      $<TARGET_FILE:ddp_no_memory>)
    set_tests_properties(ddp_server_memory PROPERTIES LABELS "ddp;replica" TIMEOUT 900)
  endif()
  add_test(NAME ddp_server_redis COMMAND ${SNIC_PYTHON}
    ${CMAKE_CURRENT_LIST_DIR}/test_ddp_redis.py $<TARGET_FILE:ddp_server>)
  set_tests_properties(ddp_server_redis PROPERTIES SKIP_RETURN_CODE 77)
  if("storeclient" IN_LIST SNIC_BUILT_MODULES)
    snic_test_program(store_driver SOURCES store_driver.c LIBS snicstore_uring snicstore)
    add_test(NAME ddp_server_client COMMAND ${SNIC_PYTHON}
      ${CMAKE_CURRENT_LIST_DIR}/test_ddp_client.py $<TARGET_FILE:ddp_server>
      $<TARGET_FILE:store_driver>)
    set_tests_properties(ddp_server_client PROPERTIES TIMEOUT 900
      LABELS "ddp;replica;storeclient;threads;nightly@tsan")
  endif()
  set_tests_properties(ddp_server_nodes ddp_server_deaths ddp_server_ctl ddp_server_redis
    PROPERTIES TIMEOUT 900 LABELS "ddp;replica;waits;threads;nightly@tsan")
endif()
