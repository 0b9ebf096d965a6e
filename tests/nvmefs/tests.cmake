# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(nvmefs nvmefs)
snic_test(nvmefs_pair nvmefs)
snic_test(nvmefs_golden nvmefs)
snic_test(nvmefs_hostile nvmefs)
