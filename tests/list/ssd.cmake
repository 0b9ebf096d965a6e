# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(ssd ssd)
snic_test(ssd_random ssd)
# The bench's closed loops, held to the facts the model was fitted to.
snic_test(ssd_facts ssd SOURCES ${PROJECT_SOURCE_DIR}/bench/gimbal_calibration.c)
if(TARGET test_ssd_facts)
  target_include_directories(test_ssd_facts PRIVATE ${PROJECT_SOURCE_DIR}/bench)
endif()
