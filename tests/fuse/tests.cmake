# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(fuse fuse)
snic_test(fuse_layout fuse)
snic_test(fuse_parse fuse SOURCES test_fuse_util.c)
snic_test(fuse_table fuse)
