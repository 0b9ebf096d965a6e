# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_fuzz(kvfs_format kvfs)
if("kv" IN_LIST SNIC_WANTED_MODULES)
  snic_fuzz(kvfs kvfs)
endif()
