# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(gimbal gimbal)
snic_test(gimbal_golden gimbal)
snic_test(gimbal_express gimbal)
snic_test(gimbal_paper gimbal)
snic_test(gimbal_slots gimbal)
snic_test(gimbal_share gimbal)
snic_test(gimbal_random gimbal TIMEOUT 300)
include(${CMAKE_CURRENT_LIST_DIR}/peers.cmake)
