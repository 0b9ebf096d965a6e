# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(luna luna SOURCES test_luna_util.c)
snic_test(luna_edges luna SOURCES test_luna_util.c)
snic_test(luna_stream luna SOURCES test_luna_util.c)
set(_luna_sim sim/luna_world.c sim/luna_stream.c sim/luna_cluster.c sim/luna_client.c)
snic_test(luna_sim luna SOURCES ${_luna_sim} TIMEOUT 3600 LABELS slow)
if(TARGET test_luna_sim)
  target_include_directories(test_luna_sim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/sim)
endif()
