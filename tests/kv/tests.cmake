# SPDX-License-Identifier: Apache-2.0 OR MIT
# The door kv (the program kv_server has a list of its own).
set(_conformance_kv conformance/conformance_kv.c conformance/conformance_kv_scan.c
  conformance/conformance_kv_object.c conformance/conformance_kv_flight.c
  conformance/conformance_kv_random.c)
snic_test(kv kv SOURCES ${_conformance_kv})
snic_test(kv_mem kv)
snic_test(kv_lmdb kv URING VENDOR SOURCES ${_conformance_kv} LABELS threads)
snic_test(kv_lmdb_shared kv URING VENDOR SOURCES kv_lmdb_audit.c)
snic_test(kv_lmdb_power kv URING VENDOR SOURCES kv_lmdb_record.c kv_lmdb_work.c kv_lmdb_audit.c)
# Each starts a cluster of its own.
snic_test(kv_rados kv URING VENDOR SOURCES ${_conformance_kv} LABELS each2_rados)
if(TARGET test_kv_rados)
  target_compile_definitions(test_kv_rados PRIVATE
    KV_RADOS_SCRIPT="${CMAKE_CURRENT_LIST_DIR}/kv_rados.sh")
  add_test(NAME kv_rados_bluestore COMMAND test_kv_rados)
  set_tests_properties(kv_rados_bluestore PROPERTIES ENVIRONMENT SNIC_RADOS_STORE=bluestore
    SKIP_RETURN_CODE 77 TIMEOUT 900 LABELS "kv;slow;each2_rados")
endif()
snic_test(kv_lmdb_check kv URING VENDOR)
snic_test(kv_lmdb_cut kv URING VENDOR)
snic_test(kv_lmdb_fair kv URING VENDOR)
snic_test(kv_lmdb_format kv URING VENDOR)
snic_test(kv_lmdb_faults kv URING VENDOR SOURCES kv_lmdb_record.c)
snic_test(kv_lmdb_full kv URING VENDOR)
snic_test(kv_lmdb_killed kv URING VENDOR SOURCES kv_lmdb_audit.c LABELS waits)
snic_test(kv_lmdb_random kv URING VENDOR SOURCES kv_lmdb_audit.c)
snic_test(kv_lmdb_space kv URING VENDOR SOURCES support/lru.c LIBS m)
snic_test(kv_lmdb_narrow kv URING VENDOR SOURCES kv_lmdb_audit.c TIMEOUT 120)
snic_test(kv_lmdb_ways kv URING VENDOR)
