# SPDX-License-Identifier: Apache-2.0 OR MIT
set(_segments support/segfix.c)
snic_test(segments segments SOURCES ${_segments})
snic_test(segments_format segments SOURCES ${_segments}
  LABELS each2_blocks@single each2_blocks@noassert)
snic_test(segments_random segments SOURCES ${_segments})
snic_test(segments_damage segments SOURCES ${_segments})
snic_test(segments_power segments SOURCES ${_segments} support/power.c TIMEOUT 1800
  LABELS each2_blocks@single each2_blocks@noassert)
