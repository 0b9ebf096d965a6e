# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(ebs ebs SOURCES test_ebs_util.c)
snic_test(ebs_sum ebs SOURCES test_ebs_util.c)
snic_test(ebs_tables ebs)
snic_test(ebs_ask ebs)
snic_test(ebs_queue ebs)
snic_test(ebs_sec ebs CRYPTO SOURCES test_ebs_util.c)
