# SPDX-License-Identifier: Apache-2.0 OR MIT
# The peers are files of their own, which examples/tenants and their test compile, too. The SSD
# model's module and the credit's are needed beside the switch's.
if("ssd" IN_LIST SNIC_WANTED_MODULES AND "credit" IN_LIST SNIC_WANTED_MODULES)
  snic_bench(gimbal gimbal SOURCES gimbal_figures.c gimbal_figures_rules.c gimbal_figures_time.c
    gimbal_figures_quiet.c gimbal_figures_floors.c gimbal_figures_learn.c
    gimbal_figures_ageing.c
    gimbal_sim.c gimbal_calibration.c gimbal_overhead.c gimbal_lsm.c
    gimbal_lsm_goals.c gimbal_lsm_sim.c
    gimbal_peers/fifo.c gimbal_peers/reflex.c gimbal_peers/parda.c gimbal_peers/flashfq.c
    gimbal_peers/gimbal.c gimbal_peers/find.c LIBS m)
endif()
