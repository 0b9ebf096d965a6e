# SPDX-License-Identifier: Apache-2.0 OR MIT
# The engine is driven against the store in memory, so most of it needs the door kv.
if("kv" IN_LIST SNIC_WANTED_MODULES)
  snic_test(kvfs kvfs SOURCES test_kvfs_util.c)
  snic_test(kvfs_flight kvfs SOURCES test_kvfs_util.c)
  snic_test(kvfs_names kvfs SOURCES test_kvfs_util.c test_kvfs_audit.c)
  snic_test(kvfs_rename kvfs SOURCES test_kvfs_util.c test_kvfs_audit.c)
  snic_test(kvfs_perm kvfs SOURCES test_kvfs_util.c)
  snic_test(kvfs_readdir kvfs SOURCES test_kvfs_util.c test_kvfs_audit.c)
  snic_test(kvfs_xattr kvfs SOURCES test_kvfs_util.c test_kvfs_audit.c)
  snic_test(kvfs_acl kvfs SOURCES test_kvfs_util.c test_kvfs_audit.c)
  snic_test(kvfs_tree kvfs SOURCES test_kvfs_util.c test_kvfs_audit.c)
  snic_test(kvfs_data kvfs SOURCES test_kvfs_util.c test_kvfs_bytes.c)
  snic_test(kvfs_space kvfs SOURCES test_kvfs_util.c test_kvfs_bytes.c)
  snic_test(kvfs_crash kvfs SOURCES test_kvfs_util.c test_kvfs_audit.c test_kvfs_snap.c
    TIMEOUT 1800)
  snic_test(kvfs_mounts kvfs SOURCES test_kvfs_util.c test_kvfs_audit.c test_kvfs_snap.c
    TIMEOUT 1800)
endif()
