# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_link support/filefix.c support/filelink.c)
snic_test(filelib filelib SOURCES ${_link} TIMEOUT 1200)
snic_test(filelib_hooks filelib SOURCES ${_link} TIMEOUT 600)
snic_test(filelib_hostile filelib SOURCES ${_link} TIMEOUT 1200)
snic_test(filelib_vector filelib SOURCES ${_link} TIMEOUT 600)
snic_test(filelib_credit filelib SOURCES ${_link} TIMEOUT 600)
snic_test(filelib_wait filelib SOURCES ${_link} TIMEOUT 600)
snic_test(filelib_uring filelib URING TIMEOUT 1200 LABELS threads)
