# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_nvmehost test_nvmehost_util.c)
set(_io conformance/conformance_io.c conformance/conformance_io_refuse.c
  conformance/conformance_io_room.c)
# The target is what it is tested against.
if("nvmet" IN_LIST SNIC_BUILT_MODULES)
  snic_test(nvmehost nvmehost SOURCES ${_nvmehost} wire.c)
  snic_test(nvmehost_hostile nvmehost SOURCES ${_nvmehost} wire.c)
  snic_test(nvmehost_random nvmehost SOURCES ${_nvmehost} wire.c)
  snic_test(nvmehost_io nvmehost SOURCES ${_nvmehost} ${_io})
  snic_test(nvmehost_uring nvmehost URING SOURCES ${_io})
  snic_test(nvmehost_auth nvmehost CRYPTO SOURCES ${_nvmehost})
  snic_test(nvmehost_lock nvmehost SOURCES ${_nvmehost})
  if("qos" IN_LIST SNIC_BUILT_MODULES)
    snic_test(nvmehost_credit nvmehost SOURCES ${_nvmehost})
  endif()
endif()
