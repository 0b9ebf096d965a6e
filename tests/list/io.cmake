# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(io io URING SOURCES conformance_io.c TIMEOUT 600)
snic_test(io_mem io SOURCES conformance_io.c)
snic_test(io_uring io URING)
