# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(qos qos SOURCES conformance_io.c conformance_io_refuse.c)
snic_test(qos_faults qos)
snic_test(qos_ssd qos SOURCES conformance_io.c conformance_io_refuse.c)
snic_test(qos_uring qos URING SOURCES conformance_io.c conformance_io_refuse.c TIMEOUT 600)
