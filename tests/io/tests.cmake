# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_io conformance/conformance_io.c conformance/conformance_io_refuse.c
  conformance/conformance_io_room.c)
snic_test(io io URING SOURCES ${_io} TIMEOUT 600)
snic_test(io_mem io SOURCES ${_io})
snic_test(io_mem_power io)
snic_test(io_ssd io SOURCES ${_io})
snic_test(io_uring io URING)
