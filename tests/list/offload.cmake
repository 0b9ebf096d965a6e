# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(offload offload SOURCES support/filefix.c)
snic_test(history offload SOURCES support/history.c)
