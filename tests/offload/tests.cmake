# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(offload offload SOURCES test_offload_util.c support/filefix.c)
snic_test(offload_cache offload SOURCES test_offload_util.c support/filefix.c)
snic_test(offload_useful offload SOURCES test_offload_util.c support/filefix.c support/lru.c LIBS m)
