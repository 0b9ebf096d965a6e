/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CRC32C once more without folding, for test_base_crc.c: what a processor without VPCLMULQDQ runs.
 * Its functions are called streams_VERB.
 */
#define SNIC_NO_CRC_FOLD
#define snic_crc32c streams_crc32c
#define snic_crc32c_portable streams_crc32c_portable
#define snic_crc32c_is_hardware streams_crc32c_is_hardware

#include "base/crc32c.c"
