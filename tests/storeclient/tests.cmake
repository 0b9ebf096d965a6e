# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(storeclient storeclient SOURCES storeclient_peers.c)
# Bugs of the client, one in eight by day: sim/storeclient_bugs.py.
snic_mutants(storeclient storeclient 8)
