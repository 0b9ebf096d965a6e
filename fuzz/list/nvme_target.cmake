# SPDX-License-Identifier: Apache-2.0 OR MIT
# The configuration of nvme_target, without a target.
if(TARGET nvme_target)
  set(_nt ${PROJECT_SOURCE_DIR}/examples/nvme_target)
  snic_fuzz(nvme_target nvmet SOURCES ${_nt}/config.c ${_nt}/model.c ${_nt}/words.c ${_nt}/share.c
    ${_nt}/ssd.c
    $<TARGET_OBJECTS:example_common> LIBS snicstore_uring Threads::Threads)
  if(TARGET fuzz_nvme_target)
    target_include_directories(fuzz_nvme_target PRIVATE ${_nt} ${SNIC_XXHASH_INCLUDE})
  endif()
endif()
