# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(channel channel SOURCES conformance/conformance_channel.c TIMEOUT 1800)
snic_test(channel_uring channel URING SOURCES conformance/conformance_channel.c TIMEOUT 1800
  LABELS threads)
snic_test(channel_edge channel)
snic_test(channel_flow channel)
snic_test(channel_many channel)
