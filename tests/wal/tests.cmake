# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_wal support/walfix.c)
snic_test(wal wal SOURCES ${_wal})
snic_test(wal_random wal SOURCES ${_wal} TIMEOUT 3600)
snic_test(wal_damage wal SOURCES ${_wal} TIMEOUT 3600)
snic_test(wal_cache wal SOURCES ${_wal} TIMEOUT 3600)
snic_test(wal_edges wal SOURCES ${_wal} TIMEOUT 3600)
snic_test(wal_power wal SOURCES ${_wal} support/power.c TIMEOUT 1800)
snic_test(wal_uring wal URING SOURCES ${_wal})
