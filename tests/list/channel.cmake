# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(channel channel SOURCES conformance_channel.c)
