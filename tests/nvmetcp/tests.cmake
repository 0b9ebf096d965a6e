# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(nvmetcp nvmetcp SOURCES test_nvmetcp_util.c)
snic_test(nvmetcp_edges nvmetcp SOURCES test_nvmetcp_util.c)
snic_test(nvmetcp_pdu nvmetcp SOURCES test_nvmetcp_util.c)
snic_test(nvmetcp_stream nvmetcp SOURCES test_nvmetcp_util.c)
snic_test(nvmetcp_random nvmetcp SOURCES test_nvmetcp_util.c)
snic_mutants(nvmetcp nvmetcp 12)
