# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(support base LABELS threads)
snic_test(history offload SOURCES history.c)
