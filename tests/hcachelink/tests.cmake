# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(hcachelink hcachelink)
snic_test(hcachelink_truncate hcachelink)
snic_test(hcachelink_edges hcachelink)
snic_test(hcachelink_full hcachelink)
snic_test(hcachelink_around hcachelink)
snic_test(hcachelink_threads hcachelink URING LABELS threads)
snic_test(hcachelink_killed hcachelink URING VENDOR LABELS slow)
snic_test(hcachelink_hostile hcachelink)
if("fsdispatch" IN_LIST SNIC_WANTED_MODULES) # not among hcachelink's needs
  snic_test(hcachelink_shared hcachelink)
endif()
