/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The target that must crash, on four magic bytes that a coverage-guided fuzzer
 * finds in seconds. The harness is trusted only while this one turns red.
 */
#include "snicstore/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 4 && memcmp(data, "SNIC", 4) == 0)
        snic_assert_fail(__FILE__, __LINE__, "the canary crashed, as it must");
    return 0;
}
