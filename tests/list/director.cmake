# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_fix support/dirfix.c support/dirstore.c)
snic_test(director director SOURCES ${_fix})
snic_test(director_ends director SOURCES ${_fix})
snic_test(director_history director SOURCES ${_fix} support/history.c)
