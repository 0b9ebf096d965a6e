# SPDX-License-Identifier: Apache-2.0 OR MIT
# The twin and weak tests compile the module's sources a second time, the defects test reads its
# private header; both need xxHash.
foreach(t cuckoo cuckoo_defects cuckoo_threads)
  snic_test(${t} cuckoo TIMEOUT 300)
  target_include_directories(test_${t} PRIVATE ${SNIC_XXHASH_INCLUDE})
endforeach()
