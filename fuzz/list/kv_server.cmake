# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_fuzz(resp base SOURCES ${PROJECT_SOURCE_DIR}/examples/resp/resp.c)
if(TARGET fuzz_resp)
  target_include_directories(fuzz_resp PRIVATE ${PROJECT_SOURCE_DIR}/examples/resp)
endif()
