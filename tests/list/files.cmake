# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_fix support/filefix.c)
snic_test(files files SOURCES ${_fix} TIMEOUT 600)
snic_test(files_damage files SOURCES ${_fix} TIMEOUT 900)
snic_test(files_planted files SOURCES ${_fix} TIMEOUT 600)
snic_test(files_flight files SOURCES ${_fix} TIMEOUT 600)
snic_test(files_model files SOURCES ${_fix} support/filemodel.c TIMEOUT 1200)
snic_test(files_power files SOURCES ${_fix} support/filemodel.c support/power.c TIMEOUT 3600)
