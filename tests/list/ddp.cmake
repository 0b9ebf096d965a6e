# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_one test_ddp_one.c test_ddp_world.c)
snic_test(ddp ddp SOURCES ${_one})
snic_test(ddp_cas ddp SOURCES ${_one})
snic_test(ddp_suspicion ddp SOURCES ${_one})
snic_test(ddp_late ddp SOURCES ${_one})
snic_test(ddp_scopes ddp SOURCES ${_one})
snic_test(ddp_learner ddp SOURCES ${_one})
snic_test(ddp_edges ddp SOURCES ${_one})
snic_test(ddp_check ddp SOURCES ${_one})
snic_test(ddp_random ddp SOURCES test_ddp_world.c TIMEOUT 3600)
# Every order of events in small scopes.
include(${CMAKE_CURRENT_LIST_DIR}/mc.cmake)
