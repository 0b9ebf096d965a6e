# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(ddp ddp SOURCES test_ddp_world.c)
snic_test(ddp_random ddp SOURCES test_ddp_world.c TIMEOUT 600)
# Every order of events in small scopes.
include(${CMAKE_CURRENT_LIST_DIR}/mc.cmake)
