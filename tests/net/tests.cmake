# SPDX-License-Identifier: Apache-2.0 OR MIT
set(SNIC_NET_SUITE conformance/conformance_net.c conformance/conformance_net_stream.c
  conformance/conformance_net_ends.c conformance/conformance_net_many.c
  conformance/conformance_net_dgram.c)
snic_test(net net)
snic_test(net_sim net SOURCES ${SNIC_NET_SUITE})
snic_test(net_fabric net SOURCES test_net_util.c)
snic_test(net_faults net SOURCES test_net_util.c)
snic_test(net_uring net SOURCES ${SNIC_NET_SUITE} conformance/conformance_net_uring.c URING)
snic_test(net_socket net SOURCES ${SNIC_NET_SUITE} conformance/conformance_net_uring.c URING)
snic_test(net_lazy net SOURCES ${SNIC_NET_SUITE} conformance/conformance_net_uring.c URING)
snic_test(net_dgram net URING)
snic_test(net_threads net URING LABELS threads)
