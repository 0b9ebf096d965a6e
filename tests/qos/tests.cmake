# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_io conformance/conformance_io.c conformance/conformance_io_refuse.c
  conformance/conformance_io_room.c)
snic_test(qos qos SOURCES ${_io})
snic_test(qos_faults qos)
snic_test(qos_reserve qos)
snic_test(qos_groups qos)
snic_test(qos_ssd qos SOURCES ${_io})
snic_test(qos_uring qos URING SOURCES ${_io} TIMEOUT 600)
