# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(ddpnic ddpnic SOURCES test_ddpnic_world.c)
snic_test(ddpnic_random ddpnic SOURCES test_ddpnic_world.c TIMEOUT 600)
