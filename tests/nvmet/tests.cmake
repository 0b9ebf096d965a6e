# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_nvmet test_nvmet_util.c support/nvmehost.c)
# A switch is in front of some devices.
if("qos" IN_LIST SNIC_BUILT_MODULES)
  snic_test(nvmet nvmet SOURCES ${_nvmet})
  snic_test(nvmet_ends nvmet SOURCES ${_nvmet})
  snic_test(nvmet_random nvmet SOURCES ${_nvmet} test_nvmet_play.c)
  snic_test(nvmet_orders nvmet SOURCES ${_nvmet})
  snic_test(nvmet_late nvmet SOURCES ${_nvmet})
  snic_test(nvmet_threads nvmet URING SOURCES test_nvmet_play.c support/nvmehost.c
    LABELS threads)
  if("nvmehost" IN_LIST SNIC_BUILT_MODULES)
    snic_test(nvmet_share nvmet SOURCES test_nvmet_share_util.c)
  endif()
  snic_test(nvmet_auth nvmet CRYPTO SOURCES ${_nvmet})
  snic_test(nvmet_change nvmet SOURCES ${_nvmet})
  # Bugs of the target, one in twelve by day: sim/nvmet_bugs.py.
  if(TARGET test_nvmet)
    snic_mutants(nvmet nvmet 12)
  endif()
endif()
