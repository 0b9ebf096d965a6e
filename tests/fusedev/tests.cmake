# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(fusedev fusedev URING SOURCES test_fusedev_served.c)
