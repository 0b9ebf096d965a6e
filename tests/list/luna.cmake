# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(luna luna SOURCES test_luna_util.c)
