# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_control support/ctlfix.c support/ctlguest.c)
snic_test(control control SOURCES ${_control})
snic_test(control_sim control SOURCES ${_control} LABELS slow)
snic_test(control_crash control SOURCES ${_control} LABELS slow)
