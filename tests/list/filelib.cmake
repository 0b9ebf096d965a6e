# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_link support/filefix.c support/filelink.c)
snic_test(filelib filelib SOURCES ${_link})
snic_test(filelib_uring filelib URING)
