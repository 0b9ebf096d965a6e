# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(store store SOURCES sim/store_cluster.c)
snic_test(store_order store SOURCES sim/store_cluster.c)
foreach(t store store_order)
  if(TARGET test_${t})
    target_include_directories(test_${t} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/sim)
  endif()
endforeach()
