# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_bench(net net SOURCES net_dgram.c URING)
