# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(channel channel SOURCES conformance_channel.c TIMEOUT 1800)
snic_test(channel_uring channel URING SOURCES conformance_channel.c TIMEOUT 1800
  LABELS threads)
foreach(_t edge flow many)
  snic_test(channel_${_t} channel SOURCES support/channelduo.c)
endforeach()
