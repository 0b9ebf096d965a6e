# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(hcache hcache SOURCES test_hcache_util.c TIMEOUT 300)
snic_test(hcache_random hcache SOURCES test_hcache_util.c TIMEOUT 300)
