# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(io io URING SOURCES conformance_io.c conformance_io_refuse.c TIMEOUT 600)
snic_test(io_mem io SOURCES conformance_io.c conformance_io_refuse.c)
snic_test(io_mem_power io)
snic_test(io_ssd io SOURCES conformance_io.c conformance_io_refuse.c)
snic_test(io_uring io URING)
