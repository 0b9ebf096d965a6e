# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(offload offload SOURCES test_offload_util.c support/filefix.c)
snic_test(offload_cache offload SOURCES test_offload_util.c support/filefix.c)
snic_test(offload_useful offload SOURCES test_offload_util.c support/filefix.c)
if(TARGET test_offload_useful)
  target_link_libraries(test_offload_useful PRIVATE m)
endif()
snic_test(history offload SOURCES support/history.c)
