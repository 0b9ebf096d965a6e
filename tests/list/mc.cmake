# SPDX-License-Identifier: Apache-2.0 OR MIT
# The explorer; included by the lists of the modules that it explores.
set(_mc mc/mc.c mc/mc_table.c mc/mc_front.c mc/mc_script.c)
snic_test(mc ddp SOURCES ${_mc} TIMEOUT 600 LABELS slow)
