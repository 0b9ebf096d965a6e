# SPDX-License-Identifier: Apache-2.0 OR MIT
# The twin and weak tests compile the module's sources a second time, the defects test reads its
# private header; they need xxHash.
snic_test(cuckoo cuckoo TIMEOUT 300 LABELS each2_long@aarch64)
snic_test(cuckoo_defects cuckoo)
snic_test(cuckoo_threads cuckoo TIMEOUT 300 LABELS threads)
snic_test(cuckoo_evict cuckoo LABELS threads)
snic_test(cuckoo_twin cuckoo SOURCES test_cuckoo_scalar.c)
# One thread that explores: a thread sanitizer would only be slow.
snic_test(cuckoo_weak cuckoo TIMEOUT 300)
foreach(t cuckoo_defects cuckoo_twin cuckoo_weak)
  target_include_directories(test_${t} PRIVATE ${SNIC_XXHASH_INCLUDE})
endforeach()
