# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_bench(nvmefs nvmefslink URING SOURCES nvmefs_ours.c nvmefs_virtio.c)
