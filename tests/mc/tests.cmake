# SPDX-License-Identifier: Apache-2.0 OR MIT
# The explorer, and what it explores. The engine's sources are compiled a second time, which the
# library made of the single header, all of it one object, cannot be linked beside.
set(_mc mc/mc.c mc/mc_table.c mc/mc_front.c mc/mc_script.c mc/mc_intern.c)
set(_mc_ddp mc/ddp_node.c mc/ddp_space.c mc/ddp_print.c mc/ddp_world.c mc/ddp_env.c
  mc/ddp_check.c mc/ddp_twins.c)
snic_test(mc ddp SOURCES ${_mc} TIMEOUT 600 LABELS slow)
