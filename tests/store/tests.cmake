# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(store store SOURCES sim/store_cluster.c)
if(TARGET test_store)
  target_include_directories(test_store PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/sim)
endif()
