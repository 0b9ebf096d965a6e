# SPDX-License-Identifier: Apache-2.0 OR MIT
# The commands of ddp_server, with everything between their bytes and a store in memory.
if(TARGET ddp_server)
  get_target_property(_ds ddp_server SOURCES)
  list(FILTER _ds EXCLUDE REGEX
    "ddp_server/(main|identity|ctl|ctl_link|ctl_backup|listen|metrics)\\.c$")
  snic_fuzz(ddp_server store SOURCES ${_ds}
    LIBS snicstore_crypto snicstore_uring Threads::Threads)
  if(TARGET fuzz_ddp_server)
    target_include_directories(fuzz_ddp_server PRIVATE ${PROJECT_SOURCE_DIR}/examples/resp
      ${SNIC_XXHASH_INCLUDE})
  endif()
endif()
