# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(nvmesub nvmesub SOURCES test_nvmesub_util.c)
snic_test(nvmesub_admin nvmesub SOURCES test_nvmesub_util.c)
snic_test(nvmesub_resv nvmesub SOURCES test_nvmesub_util.c)
snic_test(nvmesub_io nvmesub SOURCES test_nvmesub_util.c)
snic_test(nvmesub_random nvmesub SOURCES test_nvmesub_util.c)
snic_test(nvmesub_orders nvmesub SOURCES test_nvmesub_util.c)
snic_test(nvmesub_threads nvmesub SOURCES test_nvmesub_util.c LABELS threads)
# Bugs of the subsystem, one in eight by day: sim/nvmesub_bugs.py.
if(TARGET test_nvmesub)
  snic_mutants(nvmesub nvmesub 8)
endif()
