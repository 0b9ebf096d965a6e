# SPDX-License-Identifier: Apache-2.0 OR MIT
set(peers ${PROJECT_SOURCE_DIR}/bench/gimbal_peers)
snic_test(gimbal_peers gimbal SOURCES ${peers}/fifo.c ${peers}/reflex.c ${peers}/parda.c
  ${peers}/flashfq.c ${peers}/gimbal.c ${peers}/find.c)
