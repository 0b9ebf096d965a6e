# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_volume support/volfix.c)
snic_test(volume volume SOURCES ${_volume})
snic_test(volume_sim volume SOURCES ${_volume} LABELS slow)
