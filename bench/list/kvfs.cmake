# SPDX-License-Identifier: Apache-2.0 OR MIT
if("fs" IN_LIST SNIC_WANTED_MODULES)
  snic_bench(kvfs kvfs URING)
endif()
