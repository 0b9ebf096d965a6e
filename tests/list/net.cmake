# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(net net)
snic_test(net_sim net SOURCES conformance_net.c)
snic_test(net_uring net SOURCES conformance_net.c URING)
