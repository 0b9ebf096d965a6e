# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(ebs ebs SOURCES test_ebs_util.c)
snic_test(ebs_sum ebs SOURCES test_ebs_util.c)
snic_test(ebs_tables ebs)
snic_test(ebs_lookup ebs)
snic_test(ebs_queue ebs)
snic_test(ebs_sec ebs CRYPTO SOURCES test_ebs_util.c)
snic_test(ebs_permits ebs)
snic_test(ebs_token ebs CRYPTO SOURCES test_ebs_util.c)
if(TARGET test_ebs AND SNIC_PYTHON AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME ebs_golden COMMAND ${SNIC_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/ebs_golden.py
    --check ${CMAKE_CURRENT_LIST_DIR}/test_ebs.c)
  set_tests_properties(ebs_golden PROPERTIES LABELS ebs)
endif()
