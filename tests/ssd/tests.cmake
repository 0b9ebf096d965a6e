# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(ssd ssd)
snic_test(ssd_write ssd)
snic_test(ssd_random ssd)
snic_test(ssd_map ssd)
# The bench's closed loops, held to the facts the model was fitted to.
snic_test(ssd_facts ssd SOURCES ${PROJECT_SOURCE_DIR}/bench/gimbal_calibration.c)
snic_test(ssd_ageing ssd SOURCES ${PROJECT_SOURCE_DIR}/bench/gimbal_calibration.c LIBS m)
foreach(t facts ageing)
  if(TARGET test_ssd_${t})
    target_include_directories(test_ssd_${t} PRIVATE ${PROJECT_SOURCE_DIR}/bench)
  endif()
endforeach()
# The bench's stores stand on the model and on the switch with its peers.
if("gimbal" IN_LIST SNIC_WANTED_MODULES)
  set(bench ${PROJECT_SOURCE_DIR}/bench)
  snic_test(gimbal_lsm ssd SOURCES ${bench}/gimbal_lsm_sim.c ${bench}/gimbal_peers/fifo.c
    ${bench}/gimbal_peers/reflex.c ${bench}/gimbal_peers/parda.c ${bench}/gimbal_peers/flashfq.c
    ${bench}/gimbal_peers/gimbal.c ${bench}/gimbal_peers/find.c LIBS m)
  snic_test(gimbal_victims ssd SOURCES ${bench}/gimbal_sim.c ${bench}/gimbal_peers/fifo.c
    ${bench}/gimbal_peers/reflex.c ${bench}/gimbal_peers/parda.c ${bench}/gimbal_peers/flashfq.c
    ${bench}/gimbal_peers/gimbal.c ${bench}/gimbal_peers/find.c LIBS m)
  snic_test(gimbal_floors_ssd ssd SOURCES ${bench}/gimbal_sim.c ${bench}/gimbal_peers/fifo.c
    ${bench}/gimbal_peers/reflex.c ${bench}/gimbal_peers/parda.c ${bench}/gimbal_peers/flashfq.c
    ${bench}/gimbal_peers/gimbal.c ${bench}/gimbal_peers/find.c LIBS m)
  foreach(t lsm victims floors_ssd)
    if(TARGET test_gimbal_${t})
      target_include_directories(test_gimbal_${t} PRIVATE ${bench})
    endif()
  endforeach()
endif()
